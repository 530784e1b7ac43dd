"""This module knows where each agent looks for memory files, and in which order it loads them.

The rules follow the documents of the agents. docs/memory.md lists them in a table.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from store import sources
from store.memory.files import read_memory_file
from store.memory.lines import read_front_matter
from store.memory.project import Project
from store.model.memory import LoadTime, MemoryScope
from store.paths import read_small_file

CLAUDE_MEMORY_LINES = 200
CLAUDE_MEMORY_BYTES = 25 * 1024
CODEX_PROJECT_BYTES = 32 * 1024
CODEX_SUMMARY_BYTES = 20_000
"""Is about 5,000 tokens, at which Codex cuts the summary of its memories."""

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
    max_lines: int | None = None
    max_bytes: int | None = None

    @property
    def root(self) -> Path:
        """The folder that a link may not leave."""
        return self.folder if self.folder is not None and self.scope == "folder" else Path.home()


class AgentRules(NamedTuple):
    agent: str
    list_places: Callable[[Project], Iterable[MemoryPlace]]
    imports: bool = False
    "Says whether `@path` in a file loads another one."
    read_project_limit: Callable[[], int | None] = lambda: None
    "Returns how many bytes of the project's files are loaded together. None is no limit."


def agent_home(agent: str) -> Path:
    source = sources.load_source(agent)
    home = source.home if source else None
    return Path(home.locate()) if home else Path.home()


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


def _list_claude(project: Project) -> Iterator[MemoryPlace]:
    home = agent_home("claude")
    is_mac = sys.platform == "darwin"
    policy = Path("/Library/Application Support/ClaudeCode" if is_mac else "/etc/claude-code")
    yield MemoryPlace(policy / "CLAUDE.md", "policy", "machine")
    yield MemoryPlace(home / "CLAUDE.md", "user", "agent")
    yield from _list_claude_rules(project, home / "rules", "agent", None)
    for folder in project.from_top:
        yield MemoryPlace(folder / "CLAUDE.md", "project", "folder", folder)
        yield MemoryPlace(folder / ".claude/CLAUDE.md", "project", "folder", folder)
        yield from _list_claude_rules(project, folder / ".claude/rules", "folder", folder)
        yield MemoryPlace(folder / "CLAUDE.local.md", "local", "folder", folder)
    yield from _list_claude_memory(project, home)
    yield from _list_nested(project, ("CLAUDE.md",))


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


def _list_claude_memory(project: Project, home: Path) -> Iterator[MemoryPlace]:
    """Yield what Claude Code notes for itself, which it keeps for each repository."""
    for folder in dict.fromkeys([project.root, project.folder]):
        memory = find_claude_project(project, home, folder) / "memory"
        for path in project.find_files(memory, ".md"):
            place = MemoryPlace(path, "memory", "folder", folder)
            if path == memory / "MEMORY.md":
                yield place._replace(max_lines=CLAUDE_MEMORY_LINES, max_bytes=CLAUDE_MEMORY_BYTES)
            else:
                yield place._replace(when="on demand", reason="Claude Code opens it when it needs it.")


def find_claude_project(project: Project, home: Path, folder: Path) -> Path:
    """Return the folder in which Claude Code keeps what belongs to a folder. Long names end with a hash."""
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
    fallbacks = _as_names(settings.get("project_doc_fallback_filenames"), ())
    for name in ("AGENTS.override.md", "AGENTS.md"):
        yield MemoryPlace(home / name, "user", "agent", group="user")
    for folder in project.from_root:
        for name in ("AGENTS.override.md", "AGENTS.md", *fallbacks):
            yield MemoryPlace(folder / name, "project", "folder", folder, group=str(folder))
    yield from _list_codex_memories(project, home, settings)


def _list_codex_memories(project: Project, home: Path, settings: Mapping[str, Any]) -> Iterator[MemoryPlace]:
    features = settings.get("features")
    is_on = isinstance(features, dict) and bool(features.get("memories"))
    memories = home / "memories"
    for path in project.find_files(memories, ".md"):
        place = MemoryPlace(path, "memory", "agent")
        if not is_on:
            yield place._replace(when="not loaded", reason="The feature `memories` is off in config.toml.")
        elif path == memories / "memory_summary.md":
            yield place._replace(max_bytes=CODEX_SUMMARY_BYTES)
        elif path.is_relative_to(memories / "extensions"):
            yield place._replace(when="not loaded", reason="Codex reads it when it renews its memories.")
        else:
            yield place._replace(when="on demand", reason="Codex opens it when it needs it.")


def _read_codex_limit() -> int | None:
    limit = _read_settings(agent_home("codex") / "config.toml").get("project_doc_max_bytes")
    return limit if isinstance(limit, int) and not isinstance(limit, bool) and limit >= 0 else CODEX_PROJECT_BYTES


# ── Gemini CLI, Qwen Code ─────────────────────────────────────────────────────────────────────────


def _list_gemini(project: Project) -> Iterator[MemoryPlace]:
    return _list_gemini_like(project, "gemini", ("GEMINI.md",))


def _list_qwen(project: Project) -> Iterator[MemoryPlace]:
    return _list_gemini_like(project, "qwen", ("QWEN.md", "AGENTS.md"))


def _list_gemini_like(project: Project, agent: str, names: tuple[str, ...]) -> Iterator[MemoryPlace]:
    home = agent_home(agent)
    for settings in (home / "settings.json", project.root / home.name / "settings.json"):
        names = _read_context_names(settings, names)
    for name in names:
        yield MemoryPlace(home / name, "global", "agent")
    for folder in project.from_root:
        for name in names:
            yield MemoryPlace(folder / name, "project", "folder", folder)
    yield from _list_nested(project, names)


def _read_context_names(path: Path, default: tuple[str, ...]) -> tuple[str, ...]:
    settings = _read_settings(path)
    context = settings.get("context")
    named = context.get("fileName") if isinstance(context, dict) else settings.get("contextFileName")
    return _as_names(named, default)


# ── Copilot CLI ───────────────────────────────────────────────────────────────────────────────────


def _list_copilot(project: Project) -> Iterator[MemoryPlace]:
    yield MemoryPlace(agent_home("copilot") / "copilot-instructions.md", "user", "agent")
    root = project.root
    yield MemoryPlace(root / ".github/copilot-instructions.md", "project", "folder", root)
    yield from _list_copilot_instructions(project, root)
    for folder in dict.fromkeys([root, project.folder]):
        yield MemoryPlace(folder / "AGENTS.md", "project", "folder", folder)
    for name in ("CLAUDE.md", "GEMINI.md"):
        yield MemoryPlace(root / name, "project", "folder", root)
    for named in filter(os.path.isabs, os.environ.get("COPILOT_CUSTOM_INSTRUCTIONS_DIRS", "").split(",")):
        yield MemoryPlace(Path(named) / "AGENTS.md", "user", "agent")
        yield from _list_copilot_instructions(project, Path(named), is_everywhere=True)


def _list_copilot_instructions(project: Project, folder: Path, *, is_everywhere: bool = False) -> Iterator[MemoryPlace]:
    if not project.listings.has(folder / ".github"):
        return
    for path in project.find_files(folder / ".github/instructions", ".instructions.md"):
        place = MemoryPlace(path, "instructions", "agent" if is_everywhere else "folder", folder)
        pattern = _read_front_matter(place).get("applyTo", "")
        is_general = pattern in _EVERY_FILE
        yield place if is_general else place._replace(when="on demand", reason=f"For files that match {pattern}.")


# ── opencode, goose, pi ───────────────────────────────────────────────────────────────────────────


def _list_opencode(project: Project) -> Iterator[MemoryPlace]:
    config = config_folder("opencode")
    for name in ("AGENTS.md", "CLAUDE.md", "CONTEXT.md"):
        found = [folder for folder in project.from_root if project.listings.has(folder / name)]
        if found:
            yield from (MemoryPlace(folder / name, "project", "folder", folder) for folder in reversed(found))
            break
    yield MemoryPlace(config / "AGENTS.md", "global", "agent", group="global")
    yield MemoryPlace(agent_home("claude") / "CLAUDE.md", "global", "agent", group="global")
    for folder, owner in ((config, None), (project.root, project.root)):
        named = _as_names(_read_settings(folder / "opencode.json").get("instructions"), ())
        for pattern in named:
            yield from _find_opencode_instructions(folder, pattern, owner)


def _find_opencode_instructions(folder: Path, pattern: str, owner: Path | None) -> Iterator[MemoryPlace]:
    if "://" in pattern:
        return  # it is read from the network, which we never use
    scope: MemoryScope = "folder" if owner else "agent"
    path = Path(os.path.expanduser(pattern))
    with suppress(ValueError, OSError, NotImplementedError):
        found = [path] if path.is_absolute() else sorted(folder.glob(pattern))[:100]
        yield from (MemoryPlace(one, "instructions", scope, owner) for one in found)


def _list_goose(project: Project) -> Iterator[MemoryPlace]:
    names: tuple[str, ...] = (".goosehints", "AGENTS.md")
    with suppress(ValueError):
        names = _as_names(json.loads(os.environ.get("CONTEXT_FILE_NAMES", "")), names)
    root = os.environ.get("GOOSE_PATH_ROOT")
    config = Path(root) / "config" if root else config_folder("goose")
    for name in names:
        yield MemoryPlace(config / name, "global", "agent")
    for folder in project.from_root:
        for name in names:
            yield MemoryPlace(folder / name, "project", "folder", folder)


def _list_pi(project: Project) -> Iterator[MemoryPlace]:
    home = agent_home("pi")
    for name in ("AGENTS.md", "CLAUDE.md"):
        yield MemoryPlace(home / name, "global", "agent", group="global")
    for folder in project.from_top:
        for name in ("AGENTS.md", "CLAUDE.md"):
            yield MemoryPlace(folder / name, "project", "folder", folder, group=str(folder))


RULES = (
    AgentRules("claude", _list_claude, imports=True),
    AgentRules("codex", _list_codex, read_project_limit=_read_codex_limit),
    AgentRules("gemini", _list_gemini, imports=True),
    AgentRules("qwen", _list_qwen, imports=True),
    AgentRules("copilot", _list_copilot),
    AgentRules("opencode", _list_opencode),
    AgentRules("goose", _list_goose, imports=True),
    AgentRules("pi", _list_pi),
)
"""Lists the agents that load memory files."""

AGENTS = tuple(rules.agent for rules in RULES)


def find_rules(agent: str) -> AgentRules:
    return next(rules for rules in RULES if rules.agent == agent)
