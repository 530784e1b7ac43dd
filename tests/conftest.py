"""Keeps every test away from the machine: its home, its clipboard, its agents' histories."""

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
from hypothesis import HealthCheck, settings
from idle_wait import wait_until_idle
from textual.notifications import Notification

if TYPE_CHECKING:
    from child_processes import ForkServer

    from store.store import Store

# Runs real programs, which `make test-agents` installs first.
collect_ignore = ["agents"]

settings.register_profile(
    "backscroll",
    deadline=None,
    derandomize="CI" in os.environ,
    max_examples=int(os.environ.get("BACKSCROLL_EXAMPLES", "30")),
    # A slow machine is no fault; and what stands in a test's folder from one example is no harm to the next.
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

# Where agents are told to keep their histories, and what changes how a terminal program looks.
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
    """What was loaded for all the tests stays to the end: the garbage collector need not look at it time and again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def _compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where Python keeps no bytecode, every program that a test starts would compile all of ours again."""
    with pytest.MonkeyPatch.context() as patch:
        if sys.dont_write_bytecode:
            folder = tmp_path_factory.getbasetemp()
            shared = folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder
            patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
            patch.setenv("PYTHONPYCACHEPREFIX", str(shared / "bytecode"))
        yield


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty home, the same on every machine; also what child processes see."""
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    for name, below in XDG_FOLDERS.items():
        monkeypatch.setenv(name, str(folder / below))
    for name in [*CLEARED_VARIABLES, *(n for n in os.environ if n.startswith("BACKSCROLL_"))]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PYTHON_KEYRING_BACKEND", "keyring.backends.fail.Keyring")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    # An open umask, so that a file is private because it was made so and not by luck.
    before = os.umask(0o022)
    yield folder
    os.umask(before)


class FakeClipboard:
    """Stands where the machine's clipboard would be, which a test must never overwrite."""

    def __init__(self) -> None:
        self.text = ""

    def copy(self, text: str) -> None:
        self.text = text

    def paste(self) -> str:
        return self.text


@pytest.fixture(autouse=True)
def clipboard(monkeypatch: pytest.MonkeyPatch) -> FakeClipboard:
    """What was copied last."""
    board = FakeClipboard()
    monkeypatch.setattr(pyperclip, "copy", board.copy)
    monkeypatch.setattr(pyperclip, "paste", board.paste)
    return board


@pytest.fixture(autouse=True)
def _wait_for_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are waited for, and a message stays until it was seen, however slow the machine is."""
    for module in (textual.app, textual.pilot):
        monkeypatch.setattr(module, "wait_for_idle", wait_until_idle)
    monkeypatch.setattr(Notification, "time_left", 600.0)


@pytest.fixture(scope="session")
def blank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with nothing in it, to be copied: to make one takes longer than many a test."""
    from store.store import Store

    path = tmp_path_factory.mktemp("blank") / "store.db"
    Store.open(path).close()
    return path


@pytest.fixture
def store(tmp_path: Path, blank: Path) -> Iterator[Store]:
    """A new store in a file of its own."""
    from store.store import Store

    opened = Store.open(shutil.copy(blank, tmp_path / "store.db"))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def children(_compiled_once: None) -> Iterator[ForkServer]:
    """One for all tests of a module: each child is a process of its own anyway, and is told where it is at home."""
    from child_processes import start_fork_server

    with start_fork_server() as opened:
        yield opened
