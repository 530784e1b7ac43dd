"""This module says into which files the facts of an audience are written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from store.errors import BadValue
from store.memory.project import FolderListings, Project
from store.memory.rules import AGENTS, agent_home, config_folder

ALL_AGENTS = ""
EVERYWHERE = ""

CODEX_MEMORIES = "codex-memories"
"""Is an audience of its own: the notes from which Codex makes its memories. Nothing else is written there."""

OWN_FILE = "backscroll.md"
"""Is the name of a file that holds only our block."""

AUDIENCES = (*AGENTS, CODEX_MEMORIES)


class MemoryTarget(NamedTuple):
    """Is a file that holds a block of ours."""

    path: Path
    importer: Path | None = None
    "Is the file that gets one line which imports `path`. Is None if agents load `path` by themselves."
    import_name: str = ""
    root: Path = Path("/")
    "Is the folder that a link may not leave."

    @property
    def import_line(self) -> str:
        return f"@{self.import_name}"


def find_targets(agent: str, folder: str) -> list[MemoryTarget]:
    """Return the files for an agent, or all agents, in a folder, or everywhere."""
    if agent and agent not in AUDIENCES:
        raise BadValue(f"Facts cannot be shared with {agent!r}. Use one of: {', '.join(AUDIENCES)}.")
    if folder:
        return list(dict.fromkeys(_find_in_folder(agent, Path(folder))))
    agents = [agent] if agent else [name for name in AGENTS if _is_installed(name)]
    return list(dict.fromkeys(target for name in agents for target in _find_for_person(name)))


def _is_installed(agent: str) -> bool:
    return _person_folder(agent).is_dir()


def _person_folder(agent: str) -> Path:
    match agent:
        case "opencode" | "goose":
            return config_folder(agent)
        case "codex-memories":
            return agent_home("codex")
    return agent_home(agent)


_PERSON_FILES = {
    "gemini": "GEMINI.md",
    "qwen": "QWEN.md",
    "copilot": "copilot-instructions.md",
    "opencode": "AGENTS.md",
    "goose": ".goosehints",
    "pi": "AGENTS.md",
    CODEX_MEMORIES: f"memories/extensions/ad_hoc/notes/{OWN_FILE}",
}
_FOLDER_FILES = _PERSON_FILES | {"copilot": ".github/copilot-instructions.md"}


def _find_for_person(agent: str) -> Iterator[MemoryTarget]:
    folder, home = _person_folder(agent), Path.home()
    if agent == "claude":
        yield MemoryTarget(folder / OWN_FILE, folder / "CLAUDE.md", OWN_FILE, home)
    else:
        name = _choose_codex_file(folder) if agent == "codex" else _PERSON_FILES[agent]
        yield MemoryTarget(folder / name, root=home)


def _find_in_folder(agent: str, folder: Path) -> Iterator[MemoryTarget]:
    root = Project(folder, FolderListings()).root
    match agent:
        case "":
            for name in ("claude", "codex", "gemini"):
                yield from _find_in_folder(name, folder)
        case "claude":
            inner = folder / ".claude/CLAUDE.md"
            is_inner = inner.exists() and not (folder / "CLAUDE.md").exists()
            importer, name = (inner, OWN_FILE) if is_inner else (folder / "CLAUDE.md", f".claude/{OWN_FILE}")
            yield MemoryTarget(folder / ".claude" / OWN_FILE, importer, name, root)
        case "codex-memories":
            raise BadValue("The memories of Codex are not kept for each folder. Share the fact with codex.")
        case _:
            name = _choose_codex_file(folder) if agent == "codex" else _FOLDER_FILES[agent]
            yield MemoryTarget(folder / name, root=root)


def _choose_codex_file(folder: Path) -> str:
    """Return the file of a folder that Codex loads: the override hides the other one."""
    return "AGENTS.override.md" if _has_text(folder / "AGENTS.override.md") else "AGENTS.md"


def _has_text(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except OSError:
        return False


def warn_of_replaced_files(path: Path) -> str:
    """Say which file some agents stop loading when this one is created, or nothing."""
    if path.name != "AGENTS.md" or path.exists():
        return ""
    if path.parent == config_folder("opencode"):
        agents, other, name = "opencode loads", agent_home("claude") / "CLAUDE.md", "the CLAUDE.md of Claude Code"
    else:
        agents, other, name = "opencode and pi load", path.with_name("CLAUDE.md"), "CLAUDE.md"
    return f"{agents} this new file instead of {name} from then on." if other.exists() else ""
