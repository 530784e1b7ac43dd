"""Where the agents' programs keep their stores on this machine: paths or URLs, which need not exist.

All in one place, so that nobody waits for the readers of programs that were never here.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

KISO_INSTANCES = "instances"

_PINGU_CONFIG = ".config/pingu/config.toml"
_PINGU_DEFAULT = "~/.local/share/pingu/pingu.db"
_WUHU_DATABASE = r"""^databasePath[ \t]*:[ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|(.*?))[ \t\r]*(?:[ \t]#.*)?$"""


def roots_of(name: str) -> Iterable[str]:
    """Of a source by its name."""
    return _ROOTS[name]()


def _shared() -> str:
    return os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")


def _settings(path: Path) -> Mapping[str, Any]:
    """Most people have no such file, and need not wait for what would read it."""
    if not os.path.isfile(path):  # which a home that may not be read is not, either
        return {}
    from store.sources.kit.jsonl import json_file, mapping

    return mapping(json_file(path, []))


def _path(value: object) -> str:
    """Of a setting that should name one."""
    return value if isinstance(value, str) and "\0" not in value else ""


def wuhu() -> Iterator[str]:
    """Where the server's configuration says, else where the server keeps it by itself."""
    folder = Path.home() / ".wuhu"
    named = Path("wuhu.sqlite")
    try:
        found = re.search(_WUHU_DATABASE, (folder / "server.yml").read_text("utf-8"), re.MULTILINE)
        configured = next(filter(None, found.groups()), "") if found else ""
        if configured not in ("", "~", "null"):
            named = Path(configured).expanduser()
    except (OSError, ValueError, RuntimeError):
        pass
    yield str(folder / named)


def adk() -> Iterator[str]:
    """What an agent is told to use; and where `adk` keeps sessions of agents in, or just below, the current folder."""
    if uri := os.environ.get("SESSION_SERVICE_URI"):
        yield uri
    try:
        here = Path.cwd()
        yield from map(str, [*here.glob(".adk/session.db"), *sorted(here.glob("*/.adk/session.db"))])
    except OSError:
        return


def pingu() -> Iterator[str]:
    """The configured path, else the default one; Pingu looks at neither XDG nor any other variable."""
    path = _PINGU_DEFAULT
    try:
        config = (Path.home() / _PINGU_CONFIG).read_text("utf-8")
        import tomllib

        path = _path(tomllib.loads(config)["db"]["path"]) or path
    except (OSError, ValueError, LookupError, TypeError):
        pass
    yield str(Path.home() / path[2:]) if path.startswith("~/") else path


def rubichan() -> Iterator[str]:
    yield str(Path.home() / ".config/rubichan/rubichan.db")


def kiso() -> Iterator[str]:
    folder = Path.home() / ".kiso"
    with suppress(OSError):  # a home that may not be read
        yield from map(str, sorted((folder / KISO_INSTANCES).glob("*/store.db")))
    yield str(folder / "store.db")


def claude() -> Iterator[str]:
    yield os.environ.get("CLAUDE_CONFIG_DIR") or str(Path.home() / ".claude")


def codex() -> Iterator[str]:
    yield os.environ.get("CODEX_HOME") or str(Path.home() / ".codex")


def pi() -> Iterator[str]:
    agent = Path(os.path.expanduser(os.environ.get("PI_CODING_AGENT_DIR") or "~/.pi/agent"))
    configured = _settings(agent / "settings.json").get("sessionDir")
    yield str(agent)
    if moved := _path(os.environ.get("PI_CODING_AGENT_SESSION_DIR") or configured):
        yield str(agent / os.path.expanduser(moved))


class CrushProject(NamedTuple):
    path: Path
    data: Path


def crush_projects() -> Iterator[CrushProject]:
    """Those that Crush remembers having been started in; some may be gone."""
    registry = Path(os.environ.get("CRUSH_GLOBAL_DATA") or f"{_shared()}/crush") / "projects.json"
    known = _settings(registry).get("projects")
    for project in known if isinstance(known, list) else ():
        told = project if isinstance(project, dict) else {}
        if path := _path(told.get("path")):
            yield CrushProject(Path(path), Path(path) / (_path(told.get("data_dir")) or ".crush"))


def crush() -> Iterator[str]:
    yield from (str(project.data / "crush.db") for project in crush_projects())


def goose() -> Iterator[str]:
    root = os.environ.get("GOOSE_PATH_ROOT")
    yield f"{root}/data/sessions" if root else f"{_shared()}/goose/sessions"


def gemini() -> Iterator[str]:
    yield str(Path(os.environ.get("GEMINI_CLI_HOME") or Path.home()) / ".gemini")


def llm() -> Iterator[str]:
    if folder := os.environ.get("LLM_USER_PATH"):
        yield f"{folder}/logs.db"
    elif sys.platform == "darwin":
        yield str(Path.home() / "Library/Application Support/io.datasette.llm/logs.db")
    else:
        yield f"{os.environ.get('XDG_CONFIG_HOME') or Path.home() / '.config'}/io.datasette.llm/logs.db"


def qwen() -> Iterator[str]:
    home = Path(os.path.expanduser(os.environ.get("QWEN_HOME") or "~/.qwen"))
    advanced = _settings(home / "settings.json").get("advanced")
    configured = advanced.get("runtimeOutputDir") if isinstance(advanced, dict) else ""
    moved = _path(os.environ.get("QWEN_RUNTIME_DIR") or configured)
    yield str(home / os.path.expanduser(moved))


def copilot() -> Iterator[str]:
    yield os.path.expanduser(os.environ.get("COPILOT_HOME") or "~/.copilot")


def export() -> Iterable[str]:
    """A person asks for an export and saves it wherever they like."""
    return ()


def opencode() -> Iterator[str]:
    """The folder is the same on every system. A database may stand elsewhere."""
    folder = f"{_shared()}/opencode"
    yield folder
    named = os.environ.get("OPENCODE_DB", "")
    if os.path.isabs(named) and Path(named).parent != Path(folder):
        yield named


_ROOTS = {
    "wuhu": wuhu,
    "adk": adk,
    "pingu": pingu,
    "rubichan": rubichan,
    "kiso": kiso,
    "claude": claude,
    "codex": codex,
    "pi": pi,
    "crush": crush,
    "goose": goose,
    "gemini": gemini,
    "llm": llm,
    "qwen": qwen,
    "copilot": copilot,
    "chatgpt": export,
    "claude-ai": export,
    "opencode": opencode,
}
