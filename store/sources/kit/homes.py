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
_PINGU_DEFAULT_DATABASE = "~/.local/share/pingu/pingu.db"
_WUHU_DATABASE = r"""^databasePath[ \t]*:[ \t]*(?:"([^"\n]*)"|'([^'\n]*)'|(.*?))[ \t\r]*(?:[ \t]#.*)?$"""


def find_roots(name: str) -> Iterable[str]:
    """Of a source by its name."""
    return _ROOT_FINDERS[name]()


def _user_data_folder() -> str:
    return os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local/share")


def _read_settings(path: Path) -> Mapping[str, Any]:
    """Most people have no such file, and need not wait for what would read it."""
    if not os.path.isfile(path):  # which a home that may not be read is not, either
        return {}
    from store.sources.kit.jsonl import as_dict, read_json_file

    return as_dict(read_json_file(path, []))


def _as_path(value: object) -> str:
    """Of a setting that should name one."""
    return value if isinstance(value, str) and "\0" not in value else ""


def wuhu_roots() -> Iterator[str]:
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


def adk_roots() -> Iterator[str]:
    """What an agent is told to use; and where `adk` keeps sessions of agents in, or just below, the current folder."""
    if uri := os.environ.get("SESSION_SERVICE_URI"):
        yield uri
    try:
        here = Path.cwd()
        yield from map(str, [*here.glob(".adk/session.db"), *sorted(here.glob("*/.adk/session.db"))])
    except OSError:
        return


def pingu_roots() -> Iterator[str]:
    """The configured path, else the default one; Pingu looks at neither XDG nor any other variable."""
    path = _PINGU_DEFAULT_DATABASE
    try:
        config = (Path.home() / _PINGU_CONFIG).read_text("utf-8")
        import tomllib

        path = _as_path(tomllib.loads(config)["db"]["path"]) or path
    except (OSError, ValueError, LookupError, TypeError):
        pass
    yield str(Path.home() / path[2:]) if path.startswith("~/") else path


def rubichan_roots() -> Iterator[str]:
    yield str(Path.home() / ".config/rubichan/rubichan.db")


def kiso_roots() -> Iterator[str]:
    folder = Path.home() / ".kiso"
    with suppress(OSError):  # a home that may not be read
        yield from map(str, sorted((folder / KISO_INSTANCES).glob("*/store.db")))
    yield str(folder / "store.db")


def claude_roots() -> Iterator[str]:
    yield os.environ.get("CLAUDE_CONFIG_DIR") or str(Path.home() / ".claude")


def codex_roots() -> Iterator[str]:
    yield os.environ.get("CODEX_HOME") or str(Path.home() / ".codex")


def pi_roots() -> Iterator[str]:
    agent = Path(os.path.expanduser(os.environ.get("PI_CODING_AGENT_DIR") or "~/.pi/agent"))
    configured = _read_settings(agent / "settings.json").get("sessionDir")
    yield str(agent)
    if moved := _as_path(os.environ.get("PI_CODING_AGENT_SESSION_DIR") or configured):
        yield str(agent / os.path.expanduser(moved))


class CrushProject(NamedTuple):
    path: Path
    data_folder: Path


def find_crush_projects() -> Iterator[CrushProject]:
    """Those that Crush remembers having been started in; some may be gone."""
    registry = Path(os.environ.get("CRUSH_GLOBAL_DATA") or f"{_user_data_folder()}/crush") / "projects.json"
    known = _read_settings(registry).get("projects")
    for project in known if isinstance(known, list) else ():
        told = project if isinstance(project, dict) else {}
        if path := _as_path(told.get("path")):
            yield CrushProject(Path(path), Path(path) / (_as_path(told.get("data_dir")) or ".crush"))


def crush_roots() -> Iterator[str]:
    yield from (str(project.data_folder / "crush.db") for project in find_crush_projects())


def goose_roots() -> Iterator[str]:
    root = os.environ.get("GOOSE_PATH_ROOT")
    yield f"{root}/data/sessions" if root else f"{_user_data_folder()}/goose/sessions"


def gemini_roots() -> Iterator[str]:
    yield str(Path(os.environ.get("GEMINI_CLI_HOME") or Path.home()) / ".gemini")


def llm_roots() -> Iterator[str]:
    if folder := os.environ.get("LLM_USER_PATH"):
        yield f"{folder}/logs.db"
    elif sys.platform == "darwin":
        yield str(Path.home() / "Library/Application Support/io.datasette.llm/logs.db")
    else:
        yield f"{os.environ.get('XDG_CONFIG_HOME') or Path.home() / '.config'}/io.datasette.llm/logs.db"


def qwen_roots() -> Iterator[str]:
    home = Path(os.path.expanduser(os.environ.get("QWEN_HOME") or "~/.qwen"))
    advanced = _read_settings(home / "settings.json").get("advanced")
    configured = advanced.get("runtimeOutputDir") if isinstance(advanced, dict) else ""
    moved = _as_path(os.environ.get("QWEN_RUNTIME_DIR") or configured)
    yield str(home / os.path.expanduser(moved))


def copilot_roots() -> Iterator[str]:
    yield os.path.expanduser(os.environ.get("COPILOT_HOME") or "~/.copilot")


def export_roots() -> Iterable[str]:
    """A person asks for an export and saves it wherever they like."""
    return ()


def opencode_roots() -> Iterator[str]:
    """The folder is the same on every system. A database may stand elsewhere."""
    folder = f"{_user_data_folder()}/opencode"
    yield folder
    named = os.environ.get("OPENCODE_DB", "")
    if os.path.isabs(named) and Path(named).parent != Path(folder):
        yield named


_ROOT_FINDERS = {
    "wuhu": wuhu_roots,
    "adk": adk_roots,
    "pingu": pingu_roots,
    "rubichan": rubichan_roots,
    "kiso": kiso_roots,
    "claude": claude_roots,
    "codex": codex_roots,
    "pi": pi_roots,
    "crush": crush_roots,
    "goose": goose_roots,
    "gemini": gemini_roots,
    "llm": llm_roots,
    "qwen": qwen_roots,
    "copilot": copilot_roots,
    "chatgpt": export_roots,
    "claude-ai": export_roots,
    "opencode": opencode_roots,
}
