"""Isolates every test from the machine: its home folder, its clipboard, its agents' histories."""

from __future__ import annotations

import gc
import os
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyperclip
import pytest
import textual.app
import textual.pilot
from fake_clipboard import FakeClipboard
from hypothesis import HealthCheck, settings
from idle_wait import wait_until_idle
from postgres_server import postgres_server
from textual.notifications import Notification

if TYPE_CHECKING:
    from child_processes import ForkServer

    from store.store import Store

__all__ = ["postgres_server"]

# These tests run real programs, which `make test-agents` installs first.
collect_ignore = ["agents"]

settings.register_profile(
    "backscroll",
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=int(os.environ.get("BACKSCROLL_EXAMPLES", "30")),
    # A slow machine is no error, and files that one example leaves in the test's folder do not disturb the next one.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("backscroll")

XDG_FOLDERS = {
    "XDG_DATA_HOME": ".local/share",
    "XDG_CONFIG_HOME": ".config",
    "XDG_STATE_HOME": ".local/state",
    "XDG_CACHE_HOME": ".cache",
    "XDG_RUNTIME_DIR": ".run",
}

# These variables name the agents' folders, or change how a terminal program looks.
CLEARED_VARIABLES = (
    "CLAUDE_CONFIG_DIR",
    "CODEX_HOME",
    "COPILOT_HOME",
    "CRUSH_GLOBAL_DATA",
    "GEMINI_CLI_HOME",
    "GOOSE_PATH_ROOT",
    "LLM_USER_PATH",
    "MONGO_URI",
    "OPENCODE_DB",
    "PI_CODING_AGENT_DIR",
    "PI_CODING_AGENT_SESSION_DIR",
    "QWEN_HOME",
    "QWEN_RUNTIME_DIR",
    "SESSION_SERVICE_URI",
    "COLORTERM",
    "COLUMNS",
    "DISPLAY",
    "FORCE_COLOR",
    "LINES",
    "NO_COLOR",
    "SSH_CONNECTION",
    "SSH_TTY",
    "TEXTUAL_ANIMATIONS",
    "TMUX",
    "WAYLAND_DISPLAY",
)


def pytest_collection_finish() -> None:
    """Exclude everything loaded so far from garbage collection: it stays until the end, and checking it takes time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep bytecode in a temporary folder if Python keeps none. Otherwise every program that a test starts would
    compile all modules again."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode:
            folder = tmp_path_factory.getbasetemp()
            shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(shared / "bytecode"))
        yield


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Provide an empty home folder and the same environment on every machine, also for child processes."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    for name, subfolder in XDG_FOLDERS.items():
        monkeypatch.setenv(name, str(folder / subfolder))
    for name in [*CLEARED_VARIABLES, *(n for n in os.environ if n.startswith("BACKSCROLL_"))]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    # With this umask a file is private only if the program makes it so.
    old_umask = os.umask(0o022)
    yield folder
    os.umask(old_umask)


@pytest.fixture(autouse=True)
def clipboard(monkeypatch: pytest.MonkeyPatch) -> FakeClipboard:
    """Provide a clipboard that holds what was copied last."""
    fake = FakeClipboard()
    monkeypatch.setattr(pyperclip, "copy", fake.copy)
    monkeypatch.setattr(pyperclip, "paste", fake.paste)
    return fake


@pytest.fixture(autouse=True)
def _wait_for_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait until keys are handled, keep notifications on the screen, and know a double click, on a slow machine too."""
    for module in (textual.app, textual.pilot):
        monkeypatch.setattr(module, "wait_for_idle", wait_until_idle)
    monkeypatch.setattr(Notification, "time_left", 600.0)
    monkeypatch.setattr(textual.app.App, "CLICK_CHAIN_TIME_THRESHOLD", 60.0)  # between two clicks of a double click


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the path of an empty store to copy. Making one takes longer than many tests."""
    from store.store import Store

    path = tmp_path_factory.mktemp("blank") / "store.db"
    Store.open(path).close()
    return path


@pytest.fixture
def store(tmp_path: Path, blank: Path) -> Iterator[Store]:
    """Provide a new store in a file of its own."""
    from store.store import Store

    store = Store.open(shutil.copy(blank, tmp_path / "store.db"))
    yield store
    store.close()


@pytest.fixture(scope="module")
def children(_compiled_once: None) -> Iterator[ForkServer]:
    """Provide a fork server for all tests of a module. Each child is a new process, and gets the home of its test."""
    from child_processes import start_fork_server

    with start_fork_server() as server:
        yield server
