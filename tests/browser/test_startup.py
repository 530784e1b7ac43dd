"""Tests that commands start without Textual, and that the browser loads first what its first screen needs."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from pathlib import Path

import pytest
from browser_driver import fill_store
from pty_terminal import Terminal

from store.store import Store
from tui.tuning import BROWSER_GC_THRESHOLDS

COMMAND = """
import sys
import tui.main
sys.argv = ["backscroll", "list"]
status = tui.main.main()
sys.exit("textual was loaded" if "textual" in sys.modules else status)
"""

# Prints at the end what was loaded while the list was shown.
BROWSE = """
import sys
from pathlib import Path
from tui.main import browse
from tui.app import Backscroll
Backscroll.on_unmount = lambda self: loaded.update(sys.modules)
loaded = set()
browse(Path(sys.argv[1]))
print("loaded", *sorted(loaded & set(sys.argv[2:])), "and no more")
"""
HEAVY = (
    "sqlite_utils",
    "textual.widgets._markdown",
    "textual.widgets._text_area",
    "pyperclip",
    "cryptography",
    "click",
)


# Prints what is loaded before the first screen is shown.
BEGIN = """
import sys
from tui.tuning import ProcessTuning
ProcessTuning.prepare_start()
import store.store, tui.app
print(*sorted(set(sys.argv[1:]) & set(sys.modules)))
"""
LATER = (
    "click",
    "hashlib",
    "pkgutil",
    "ssl",
    "store.formats.content_blocks",
    "store.search.index",
    "store.model.entry",
    "store.model.knowledge",
    "store.rebuild",
    "store.search.hits",
    "store.sync.engine",
    "store.agent_api.convert",
    "store.text.links",
    "store.text.web_address",
    "tomllib",
    "tui.screens.conversation",
)

# Prints how many blocks the C library has got from the system one by one: before and after a second large block.
LARGE_BLOCKS = """
import ctypes
from tui.tuning import ProcessTuning
FIELDS = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()
class Mallinfo(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in FIELDS]
mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Mallinfo
ProcessTuning.prepare_start()
ProcessTuning().finish_start()
block = bytes(4_000_000)
del block
before = mallinfo().hblks
block = bytes(4_000_000)
print(mallinfo().hblks - before)
"""

# Prints how often old objects were collected: while many objects were made, and when that was asked for.
OLD_OBJECTS = """
import gc
from tui.tuning import ProcessTuning
def count_collections():
    return gc.get_stats()[2]["collections"]
ProcessTuning.prepare_start()
tuning = ProcessTuning()
tuning.finish_start()
before = count_collections()
objects = [[] for _ in range(3_000_000)]
print(count_collections() - before)
tuning.collect_old_objects()
tuning.collect_old_objects()
print(count_collections() - before)
"""

# Prints whether another thread takes over much sooner than usual, before anything is shown.
TAKE_OVER = """
import sys
from tui.tuning import ProcessTuning
usual = sys.getswitchinterval()
ProcessTuning.prepare_start()
print(sys.getswitchinterval() < usual / 10)
"""


def test_the_thread_that_writes_to_the_terminal_takes_over_soon_from_the_start() -> None:
    ran = subprocess.run([sys.executable, "-c", TAKE_OVER], capture_output=True, text=True)
    assert ran.stdout == "True\n", ran.stderr


def test_a_collection_of_young_objects_has_few_to_look_at() -> None:
    assert math.prod(BROWSER_GC_THRESHOLDS[:2]) <= 25_000


def test_old_objects_are_collected_only_when_that_is_asked_for() -> None:
    ran = subprocess.run([sys.executable, "-c", OLD_OBJECTS], capture_output=True, text=True)
    assert ran.stdout.split() == ["0", "1"], ran.stderr


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="the C library is not glibc 2.33 or newer")
def test_large_blocks_of_memory_are_returned_to_the_system() -> None:
    ran = subprocess.run([sys.executable, "-c", LARGE_BLOCKS], capture_output=True, text=True)
    assert ran.stdout == "1\n", ran.stderr


def test_modules_that_the_first_screen_does_not_need_are_loaded_later() -> None:
    ran = subprocess.run([sys.executable, "-c", BEGIN, *LATER, "tui.app"], capture_output=True, text=True)
    assert ran.stdout.split() == ["tui.app"], ran.stderr


def test_a_command_never_loads_textual() -> None:
    ran = subprocess.run([sys.executable, "-c", COMMAND], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr


def test_the_list_is_shown_before_heavy_modules_are_loaded(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        fill_store(store)
    with Terminal(BROWSE, str(tmp_path / "store.db"), *HEAVY, "sqlite3") as terminal:
        terminal.wait_for_text("6 sessions", "Fix the flaky upload test")
        terminal.press("q")
        assert terminal.wait_for_exit() == 0
        assert "loaded sqlite3 and no more" in "\n".join(terminal.lines)


def test_a_file_that_is_not_a_store_prints_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a database, but long enough to be looked at" * 10)
    code = "import sys, tui.main; sys.argv = ['backscroll', '--store', sys.argv[1]]; sys.exit(tui.main.main())"
    with Terminal(code, str(tmp_path / "notes.txt"), columns=300) as terminal:
        assert terminal.wait_for_exit() == 3
        assert "not a SQLite database" in " ".join(terminal.lines)
        assert b"\x1b[?1049h" not in terminal.raw


def test_a_crash_prints_a_traceback_without_values(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from tui.main import browse
from tui.widgets import session_list_view
def broken(*_):
    raise RuntimeError("out of order \\x1b[2J")
session_list_view.render_session = broken
browse(Path(sys.argv[1]))
"""
    with Store.open(tmp_path / "store.db") as store:
        fill_store(store)
    with Terminal(code, str(tmp_path / "store.db")) as terminal:
        assert terminal.wait_for_exit() == 1
        output = terminal.raw.decode()
    assert "RuntimeError" in output
    assert "out of order ␛[2J" in output
    assert "Fix the flaky upload test" not in output
