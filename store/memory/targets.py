"""This module says into which files the facts of an audience are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from store.errors import BadValue
from store.memory.project import Project, has_text
from store.memory.rules import AGENTS, CODEX_MEMORIES, agent_home, config_folder, loads_agents_file, person_folder

ALL_AGENTS = ""
EVERYWHERE = ""

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
    agents = [agent] if agent else list_installed_agents()
    return list(dict.fromkeys(target for name in agents for target in _find_for_person(name)))


def list_installed_agents() -> list[str]:
    """Return the agents that have a folder in the home folder."""
    return [agent for agent in AGENTS if person_folder(agent).is_dir()]


_PERSON_FILES = {
    "codex": "AGENTS.md",
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
    folder, home = person_folder(agent), Path.home()
    if agent == "claude":
        yield MemoryTarget(folder / OWN_FILE, folder / "CLAUDE.md", OWN_FILE, home)
    else:
        has_override = has_text if agent == "codex" else Path.exists
        yield MemoryTarget(folder / _choose_file(agent, folder, _PERSON_FILES, has_override), root=home)


def _find_in_folder(agent: str, folder: Path) -> Iterator[MemoryTarget]:
    project = Project(folder)
    root = project.root
    match agent:
        case "":
            if not _find_agents_file_of_claude(project):
                yield from _find_in_folder("claude", folder)
            yield MemoryTarget(folder / "AGENTS.md", root=root)
            for name in ("codex", "pi", "gemini"):
                yield from _find_in_folder(name, folder)
        case "claude":
            inner = folder / ".claude/CLAUDE.md"
            is_inner = inner.exists() and not (folder / "CLAUDE.md").exists()
            importer, name = (inner, OWN_FILE) if is_inner else (folder / "CLAUDE.md", f".claude/{OWN_FILE}")
            yield MemoryTarget(folder / ".claude" / OWN_FILE, importer, name, root)
        case "codex-memories":
            raise BadValue("The memories of Codex are not kept for each folder. Share the fact with codex.")
        case _:
            yield MemoryTarget(folder / _choose_file(agent, folder, _FOLDER_FILES, Path.exists), root=root)


def _choose_file(agent: str, folder: Path, files: Mapping[str, str], has_override: Callable[[Path], bool]) -> str:
    """Return the name of the file that an agent loads from a folder. For Codex and pi, an override hides the others."""
    if agent in ("codex", "pi") and has_override(folder / "AGENTS.override.md"):
        return "AGENTS.override.md"
    return files[agent]


def _find_agents_file_of_claude(project: Project) -> Path | None:
    """Return an AGENTS.md that Claude Code loads now, and would not load any more beside a new CLAUDE.md."""
    if not loads_agents_file(project):
        return None
    return next((folder / "AGENTS.md" for folder in project.from_top if project.has_text(folder / "AGENTS.md")), None)


def warn_of_replaced_files(path: Path) -> str:
    """Say which file some agents stop loading when this one is created, or nothing."""
    if path.exists():
        return ""
    agents, other = "", None
    if path.name == "CLAUDE.md" and path.parent != agent_home("claude"):
        agents, other = "Claude Code loads", _find_agents_file_of_claude(Project(path.parent))
    elif path == config_folder("opencode") / "AGENTS.md":
        agents, other = "opencode loads", agent_home("claude") / "CLAUDE.md"
    elif path.name == "AGENTS.md":
        agents, other = "opencode and pi load", path.with_name("CLAUDE.md")
    if other is None or not other.exists():
        return ""
    name = other.name if other.parent == path.parent else str(other).replace(str(Path.home()), "~", 1)
    return f"{agents} this new file instead of {name} from then on."
