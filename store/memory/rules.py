"""This module knows where each agent looks for memory files, and in which order it loads them.

The rules follow the documents of the agents, and for Claude Code and Codex what the programs really send to the model,
which `make test-agents` checks. docs/memory.md lists them in a table.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple

from store import sources
from store.memory.files import read_memory_file
from store.memory.lines import read_front_matter
from store.memory.project import Project
from store.model.memory import LoadTime, MemoryScope
from store.paths import read_small_file

NOTES_LINES = 200
NOTES_BYTES = 25_000
"""Limit what Claude Code and Qwen Code load of the notes in `MEMORY.md`. Only whole lines are loaded."""

CODEX_PROJECT_BYTES = 32 * 1024
CODEX_SUMMARY_BYTES = 20_000
"""Is about 5,000 tokens, at which Codex cuts the summary of its memories."""

CODEX_MEMORIES = "codex-memories"
"""Is an audience of its own: the notes from which Codex makes its memories. Nothing else is written there."""

CODEX_FILES = ("AGENTS.override.md", "AGENTS.md")
PI_FILES = ("AGENTS.override.md", "AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD")
"""Are names of which an agent loads only the first that it finds in a folder."""

_NOT_ALPHANUMERIC = re.compile("[^A-Za-z0-9]")
_MAX_ENCODED_FOLDER = 200
_EVERY_FILE = ("", "**", "**/*", "*")


class MemoryPlace(NamedTuple):
    """Is a path where an agent looks for a memory file in some folder."""

    path: Path
    tier: str
    scope: MemoryScope
    folder: Path | None = None
    "Is the folder in which the file counts. Is None if that is every folder."
    when: LoadTime = "start"
    reason: str = ""
    group: str = ""
    "Only the first file of a group that is not empty is loaded."
    hides_if_empty: bool = False
    "Says whether the file hides the others of its group even if it is empty."
    max_lines: int | None = None
    max_bytes: int | None = None

    @property
    def root(self) -> Path:
        """The folder that a link may not leave. Notes about a folder are in the home folder."""
        if self.folder is None or self.scope != "folder" or self.tier == "memory":
            return Path.home()
        return self.folder


class AgentRules(NamedTuple):
    agent: str
    list_places: Callable[[Project], Iterable[MemoryPlace]]
    import_depth: int = 0
    "Is how many levels of `@path` are followed. Is 0 if it imports nothing."
    read_project_limit: Callable[[], int | None] = lambda: None
    "Returns how many bytes of the project's files are loaded together. None is no limit."


def agent_home(agent: str) -> Path:
    source = sources.load_source(agent)
    home = source.home if source else None
    return Path(home.locate()) if home else Path.home()


def person_folder(agent: str) -> Path:
    """Return the folder in which an agent, or an audience, has the memory files of a person."""
    if agent in ("opencode", "goose"):
        return config_folder(agent)
    return agent_home("codex" if agent == CODEX_MEMORIES else agent)


def config_folder(name: str) -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / name


def _read_settings(path: Path) -> Mapping[str, Any]:
    """Read a settings file in JSON or TOML. One that is missing or wrong has no settings; its agent complains."""
    with suppress(OSError, ValueError, RecursionError):
        text = read_small_file(path).decode()
        value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
        return value if isinstance(value, dict) else {}
    return {}


def _as_names(value: Any, default: tuple[str, ...]) -> tuple[str, ...]:
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return tuple(name for name in names if isinstance(name, str) and name and "\0" not in name) or default


# ── Claude Code ───────────────────────────────────────────────────────────────────────────────────

_CLAUDE_FILES = ("CLAUDE.md", ".claude/CLAUDE.md", "CLAUDE.local.md")


def _list_claude(project: Project) -> Iterator[MemoryPlace]:
    home = agent_home("claude")
    settings = [
        _read_settings(path)
        for path in (
            home / "settings.json",
            project.root / ".claude/settings.json",
            project.root / ".claude/settings.local.json",
        )
    ]
    excluded = [pattern for values in settings for pattern in _as_names(values.get("claudeMdExcludes"), ())]
    for place in _list_claude_instructions(project, home):
        if place.tier != "policy" and any(fnmatchcase(str(place.path), pattern) for pattern in excluded):
            place = place._replace(when="not loaded", reason="It is excluded in settings.json.")
        yield place
    is_off = os.environ.get("CLAUDE_CODE_DISABLE_AUTO_MEMORY") == "1" or any(
        values.get("autoMemoryEnabled") is False for values in settings
    )
    yield from _list_notes(project, home, project.main_root, "Auto memory is off." if is_off else "")
    yield from _list_nested(project, ("CLAUDE.md",))


def _list_claude_instructions(project: Project, home: Path) -> Iterator[MemoryPlace]:
    is_mac = sys.platform == "darwin"
    policy = Path("/Library/Application Support/ClaudeCode" if is_mac else "/etc/claude-code")
    yield MemoryPlace(policy / "CLAUDE.md", "policy", "machine")
    yield MemoryPlace(home / "CLAUDE.md", "user", "agent")
    yield from _list_claude_rules(project, home / "rules", "agent", None)
    is_fallback = loads_agents_file(project)
    for folder in project.from_top:
        yield MemoryPlace(folder / "CLAUDE.md", "project", "folder", folder)
        yield MemoryPlace(folder / ".claude/CLAUDE.md", "project", "folder", folder)
        yield from _list_claude_rules(project, folder / ".claude/rules", "folder", folder)
        yield MemoryPlace(folder / "CLAUDE.local.md", "local", "folder", folder)
        for name in ("AGENTS.md", ".claude/AGENTS.md") if is_fallback else ():
            yield MemoryPlace(folder / name, "project", "folder", folder)


def loads_agents_file(project: Project) -> bool:
    """Return whether Claude Code loads AGENTS.md in a folder: it has no CLAUDE.md with text there or above."""
    person_file = agent_home("claude") / "CLAUDE.md"
    found = (folder / name for folder in project.from_top for name in _CLAUDE_FILES)
    return not any(path != person_file and project.has_text(path) for path in found)


def _list_claude_rules(project: Project, rules: Path, scope: MemoryScope, folder: Path | None) -> Iterator[MemoryPlace]:
    if not project.listings.has(rules):
        return
    for path in project.find_files(rules, ".md"):
        place = MemoryPlace(path, "rules", scope, folder)
        paths = _read_front_matter(place).get("paths", "")
        yield place._replace(when="on demand", reason=f"For files that match {paths}.") if paths else place


def _read_front_matter(place: MemoryPlace) -> dict[str, str]:
    file = read_memory_file(place.path, place.root)
    return read_front_matter(file.text) if file else {}


def _list_notes(project: Project, home: Path, owner: Path, why_off: str) -> Iterator[MemoryPlace]:
    """Yield what Claude Code or Qwen Code notes for itself, which it keeps for a whole repository."""
    for folder in dict.fromkeys([owner, project.root, project.folder]):
        notes = find_agent_project(project, home, folder) / "memory"
        why_not = why_off if folder == owner else f"Only the notes for {owner} are loaded."
        for path in project.find_files(notes, ".md"):
            place = MemoryPlace(path, "memory", "folder", project.root if folder == owner else folder)
            if why_not:
                yield place._replace(when="not loaded", reason=why_not)
            elif path == notes / "MEMORY.md":
                yield place._replace(max_lines=NOTES_LINES, max_bytes=NOTES_BYTES)
            else:
                yield place._replace(when="on demand", reason="The agent opens it when it needs it.")


def find_agent_project(project: Project, home: Path, folder: Path) -> Path:
    """Return where Claude Code or Qwen Code keeps what belongs to a folder. Long names end with a hash."""
    encoded = _NOT_ALPHANUMERIC.sub("-", str(folder))
    projects = home / "projects"
    if len(encoded) > _MAX_ENCODED_FOLDER:
        prefix = encoded[:_MAX_ENCODED_FOLDER] + "-"
        encoded = next((name for name in project.listings.list_names(projects) if name.startswith(prefix)), encoded)
    return projects / encoded


def _list_nested(project: Project, names: tuple[str, ...]) -> Iterator[MemoryPlace]:
    for folder in project.nested:
        for name in names:
            yield MemoryPlace(folder / name, "nested", "folder", folder, "on demand", "For files in its folder.")


# ── Codex ─────────────────────────────────────────────────────────────────────────────────────────


def _list_codex(project: Project) -> Iterator[MemoryPlace]:
    home = agent_home("codex")
    settings = _read_settings(home / "config.toml")
    yield from _list_codex_memories(project, home, settings)
    for name in CODEX_FILES:
        yield MemoryPlace(home / name, "user", "agent", group="user")
    fallbacks = _as_names(settings.get("project_doc_fallback_filenames"), ())
    for folder in project.from_root:
        for name in (*CODEX_FILES, *fallbacks):
            yield MemoryPlace(folder / name, "project", "folder", folder, group=str(folder), hides_if_empty=True)


def _list_codex_memories(project: Project, home: Path, settings: Mapping[str, Any]) -> Iterator[MemoryPlace]:
    is_on = bool(_as_table(settings.get("features")).get("memories"))
    is_used = _as_table(settings.get("memories")).get("use_memories") is not False
    memories = home / "memories"
    for path in project.find_files(memories, ".md"):
        place = MemoryPlace(path, "memory", "agent")
        if not is_on:
            yield place._replace(when="not loaded", reason="The feature `memories` is off in config.toml.")
        elif not is_used:
            yield place._replace(when="not loaded", reason="`use_memories` is off in config.toml.")
        elif path == memories / "memory_summary.md":
            yield place._replace(max_bytes=CODEX_SUMMARY_BYTES)
        elif path.is_relative_to(memories / "extensions"):
            yield place._replace(when="not loaded", reason="Codex reads it when it renews its memories.")
        else:
            yield place._replace(when="on demand", reason="Codex opens it when it needs it.")


def _as_table(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _read_codex_limit() -> int | None:
    limit = _read_settings(agent_home("codex") / "config.toml").get("project_doc_max_bytes")
    return limit if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0 else CODEX_PROJECT_BYTES


# ── Gemini CLI, Qwen Code ─────────────────────────────────────────────────────────────────────────


def _list_gemini(project: Project) -> Iterator[MemoryPlace]:
    home = agent_home("gemini")
    names = _read_context_names(project, home, ("GEMINI.md",))
    yield from _list_by_name(project, home, names)
    yield from _list_gemini_notes(project, home)
    yield from _list_nested(project, names)


def _list_gemini_notes(project: Project, home: Path) -> Iterator[MemoryPlace]:
    """Yield the private notes of a project. `projects.json` says in which folder they are."""
    projects = _as_table(_read_settings(home / "projects.json").get("projects"))
    name = projects.get(str(project.root))
    if isinstance(name, str) and name and "/" not in name and "\0" not in name:
        notes = home / "tmp" / name / "memory"
        yield MemoryPlace(notes / "MEMORY.md", "memory", "folder", project.root)


def _list_qwen(project: Project) -> Iterator[MemoryPlace]:
    home = agent_home("qwen")
    names = _read_context_names(project, home, ("QWEN.md", "AGENTS.md"))
    yield from _list_by_name(project, home, names)
    yield MemoryPlace(project.root / ".qwen/QWEN.local.md", "local", "folder", project.root)
    memory = _as_table(_read_settings(home / "settings.json").get("memory"))
    is_off = memory.get("enableManagedAutoMemory") is False
    yield from _list_notes(project, home, project.root, "Auto memory is off." if is_off else "")
    yield from _list_nested(project, names)


def _list_by_name(project: Project, home: Path, names: tuple[str, ...]) -> Iterator[MemoryPlace]:
    """Yield the files with some names in the folder of an agent, and from the root of a project to the folder."""
    for name in names:
        yield MemoryPlace(home / name, "global", "agent")
    for folder in project.from_root:
        for name in names:
            yield MemoryPlace(folder / name, "project", "folder", folder)


def _read_context_names(project: Project, home: Path, names: tuple[str, ...]) -> tuple[str, ...]:
    for path in (home / "settings.json", project.root / home.name / "settings.json"):
        settings = _read_settings(path)
        context = settings.get("context")
        named = context.get("fileName") if isinstance(context, dict) else settings.get("contextFileName")
        names = _as_names(named, names)
    return names


# ── Copilot CLI ───────────────────────────────────────────────────────────────────────────────────

_COPILOT_FILES = (".github/copilot-instructions.md", "AGENTS.md", "CLAUDE.md", ".claude/CLAUDE.md", "GEMINI.md")


def _list_copilot(project: Project) -> Iterator[MemoryPlace]:
    home = agent_home("copilot")
    yield MemoryPlace(home / "copilot-instructions.md", "user", "agent")
    yield from _list_copilot_instructions(project, home / "instructions", None)
    for folder in project.from_root:
        for name in _COPILOT_FILES:
            yield MemoryPlace(folder / name, "project", "folder", folder)
        if folder in (project.root, project.folder):
            yield from _list_copilot_instructions(project, folder / ".github/instructions", folder)
    for named in filter(os.path.isabs, os.environ.get("COPILOT_CUSTOM_INSTRUCTIONS_DIRS", "").split(",")):
        yield MemoryPlace(Path(named) / "AGENTS.md", "user", "agent")
        yield from _list_copilot_instructions(project, Path(named) / ".github/instructions", None)
    yield from _list_nested(project, _COPILOT_FILES)


def _list_copilot_instructions(project: Project, instructions: Path, owner: Path | None) -> Iterator[MemoryPlace]:
    if not project.listings.has(instructions):
        return
    for path in project.find_files(instructions, ".instructions.md"):
        place = MemoryPlace(path, "instructions", "folder" if owner else "agent", owner)
        pattern = _read_front_matter(place).get("applyTo", "")
        is_general = pattern in _EVERY_FILE
        yield place if is_general else place._replace(when="on demand", reason=f"For files that match {pattern}.")


# ── opencode, goose, pi ───────────────────────────────────────────────────────────────────────────

_OPENCODE_FILES = ("AGENTS.md", "CLAUDE.md", "CONTEXT.md")


def _list_opencode(project: Project) -> Iterator[MemoryPlace]:
    config = config_folder("opencode")
    for name in _OPENCODE_FILES:
        found = [folder for folder in project.from_root if project.listings.has(folder / name)]
        if found:
            yield from (MemoryPlace(folder / name, "project", "folder", folder) for folder in reversed(found))
            break
    yield MemoryPlace(config / "AGENTS.md", "global", "agent", group="global")
    yield MemoryPlace(agent_home("claude") / "CLAUDE.md", "global", "agent", group="global")
    for settings, owner in ((config, None), (project.root, project.root)):
        for pattern in _as_names(_read_settings(settings / "opencode.json").get("instructions"), ()):
            yield from _find_opencode_instructions(project, os.path.expanduser(pattern), owner)
    for folder in project.nested:
        for name in _OPENCODE_FILES:
            place = MemoryPlace(folder / name, "nested", "folder", folder, "on demand", "For files in its folder.")
            yield place._replace(group=str(folder), hides_if_empty=True)


def _find_opencode_instructions(project: Project, pattern: str, owner: Path | None) -> Iterator[MemoryPlace]:
    """Yield the files of an entry in `instructions`. A relative one is looked for in the folder and those above it."""
    if "://" in pattern:
        return  # it is read from the network, which we never use
    full = Path(pattern)
    folders = [full.parent] if full.is_absolute() else reversed(project.from_root)
    name = full.name if full.is_absolute() else pattern
    for folder in folders:
        with suppress(ValueError, OSError, NotImplementedError):
            for path in sorted(folder.glob(name))[:100]:
                is_shared = owner is None and full.is_absolute()
                yield MemoryPlace(path, "instructions", "agent" if is_shared else "folder", owner or folder)


def _list_goose(project: Project) -> Iterator[MemoryPlace]:
    names: tuple[str, ...] = ("AGENTS.md", ".goosehints")
    with suppress(ValueError):
        names = _as_names(json.loads(os.environ.get("CONTEXT_FILE_NAMES", "")), names)
    root = os.environ.get("GOOSE_PATH_ROOT")
    yield from _list_by_name(project, Path(root) / "config" if root else config_folder("goose"), names)
    yield from _list_nested(project, names)


def _list_pi(project: Project) -> Iterator[MemoryPlace]:
    home = agent_home("pi")
    for name in PI_FILES:
        yield MemoryPlace(home / name, "global", "agent", group="global")
    for folder in project.from_top:
        for name in PI_FILES:
            yield MemoryPlace(folder / name, "project", "folder", folder, group=str(folder))


RULES = (
    AgentRules("claude", _list_claude, import_depth=4),
    AgentRules("codex", _list_codex, read_project_limit=_read_codex_limit),
    AgentRules("gemini", _list_gemini, import_depth=5),
    AgentRules("qwen", _list_qwen, import_depth=5),
    AgentRules("copilot", _list_copilot),
    AgentRules("opencode", _list_opencode),
    AgentRules("goose", _list_goose, import_depth=5),
    AgentRules("pi", _list_pi),
)
"""Lists the agents that load memory files."""

AGENTS = tuple(rules.agent for rules in RULES)
