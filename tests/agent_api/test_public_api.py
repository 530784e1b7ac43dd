"""Tests the names that `import store` offers: they load lazily, they are typed, and the wheel holds what they need."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
import zipfile
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path

import pytest
from typed_client import check_types

import store

ROOT = Path(__file__).resolve().parents[2]
HEAVY_MODULES = ("sqlite3", "sqlite_utils", "orjson", "cryptography", "click", "textual", "google.adk", "store.store")
ADK_NAMES = {"StoreSessionService", "session_service"}
WITHOUT_ADK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name == "google.adk" or name.startswith("google.adk."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
"""


def run_python(program: str, *, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def list_typed_names() -> dict[str, str]:
    """Return the names that a type checker sees, each with the module that it comes from."""
    tree = ast.parse(Path(store.__file__).read_text("utf-8"))
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and (node.module or "") != "typing"]
    return {alias.name: node.module or "" for node in imports for alias in node.names if node.module != "__future__"}


# ── names ─────────────────────────────────────────────────────────────────────────────────────────


def test_every_public_name_comes_from_where_the_types_say() -> None:
    typed = {name: module for name, module in list_typed_names().items() if module.startswith("store.")}
    assert typed == store._MODULE_BY_NAME
    assert {*store.__all__, *ADK_NAMES} == {*typed, "__version__"}
    for name in set(typed) - ADK_NAMES:
        assert getattr(store, name) is getattr(import_module(typed[name]), name)


def test_every_error_class_is_public() -> None:
    errors = import_module("store.errors")
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)}
    assert classes <= set(store.__all__)


def test_the_version_is_the_installed_one() -> None:
    assert store.__version__ == metadata.version("backscroll")


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Stroe'"):
        _ = store.Stroe  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="Stroe"):
        from store import Stroe  # type: ignore[attr-defined]  # noqa: F401


def test_a_shell_completes_names_that_are_not_loaded_yet() -> None:
    ran = run_python("import store; print(*dir(store))")
    assert {*store.__all__, *ADK_NAMES} <= set(ran.stdout.split())


# ── lazy loading ──────────────────────────────────────────────────────────────────────────────────


def test_import_store_loads_nothing_heavy() -> None:
    ran = run_python(f"import sys, store; print(*[name for name in {HEAVY_MODULES!r} if name in sys.modules])")
    assert (ran.returncode, ran.stdout.strip()) == (0, ""), ran.stderr


def test_the_check_for_heavy_modules_can_fail() -> None:
    ran = run_python(f"""
        import sys
        from store import Store
        Store.memory().close()
        print(*[name for name in {HEAVY_MODULES!r} if name in sys.modules])
    """)
    assert {"sqlite3", "store.store"} <= set(ran.stdout.split()), ran.stderr


# ── google-adk ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", sorted(ADK_NAMES))
def test_without_google_adk_one_sentence_says_how_to_install_it(name: str) -> None:
    ran = run_python(f"{WITHOUT_ADK}\nfrom store import {name}")
    assert ran.stderr.strip().splitlines()[-1] == (
        "ImportError: google-adk is not installed. Run `pip install 'backscroll[adk]'`."
    )


def test_everything_else_works_without_google_adk() -> None:
    ran = run_python(f"{WITHOUT_ADK}\nfrom store import *\nprint(Store.memory().list_sessions())")
    assert (ran.returncode, ran.stdout.strip()) == (0, "[]"), ran.stderr


@pytest.mark.skipif(find_spec("google.adk") is None, reason="google-adk is not installed; `make test` installs it")
def test_with_google_adk_both_names_are_there() -> None:
    ran = run_python("""
        from store import Store, StoreSessionService, session_service
        print(type(session_service("backscroll:///dev/null/x")).__name__, StoreSessionService(Store.memory()).store)
    """)
    assert ran.stdout.startswith("InMemorySessionService <store.store.Store"), ran.stderr


# ── types ─────────────────────────────────────────────────────────────────────────────────────────

CLIENT = """
from collections.abc import Sequence

from store import ChatHistory, ChatMessage, Hit, NotFound, Part, Recorder, Session, Store, ToolCall, __version__

def names_of_tools(parts: Sequence[Part]) -> list[str]:
    return [part.name for part in parts if isinstance(part, ToolCall)]

def find(store: Store, words: str) -> Hit | None:
    hits, total = store.search.find(words)
    return hits[0] if total else None

with Store.memory() as store, Recorder(store, "s", title="A title") as recorder:
    session: Session = store.ensure_session("s", channel="telegram")
    recorder.message("user", "Hello.")
    messages: list[ChatMessage] = ChatHistory(store, "ana").messages()
    try:
        turns: int = store.get_session("t").turns
    except NotFound as error:
        print(str(error), __version__)
"""
WRONG_CLIENT = """
from store import Store, Stroe
with Store.memory() as store:
    title: int = store.ensure_session("s", chanel="telegram").title
"""


def test_a_strictly_typed_client_sees_the_types(tmp_path: Path) -> None:
    assert check_types(CLIENT, tmp_path) == ""


def test_a_client_with_mistakes_is_reported(tmp_path: Path) -> None:
    found = check_types(WRONG_CLIENT, tmp_path)
    assert 'has no attribute "Stroe"' in found
    assert 'Unexpected keyword argument "chanel"' in found
    assert 'expression has type "str", variable has type "int"' in found


# ── the wheel ─────────────────────────────────────────────────────────────────────────────────────


def test_the_wheel_holds_the_type_markers_and_every_data_file(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(tmp_path)]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    assert {"store/py.typed", "tui/py.typed"} <= names
    suffixes = {".toml", ".tcss"}
    data = [path for folder in ("store", "tui") for path in (ROOT / folder).rglob("*") if path.suffix in suffixes]
    assert "store/demo/world.toml" in names
    assert {path.relative_to(ROOT).as_posix() for path in data} <= names
