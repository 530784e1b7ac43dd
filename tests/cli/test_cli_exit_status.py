"""These tests cover what all commands share: exit statuses, one sentence per error, pipes, and imports."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import CommandLine, FakeBrowser, add_upload_session

from store.cli import run
from store.cli.commands import COMMANDS
from store.database import connection
from store.store import Store

OWNED = "\x1b]0;owned\x07"
CHECK_LOADED_MODULES = """
import sys
from store.cli import run
status = run(argv=["--store", sys.argv[1], *sys.argv[2:]])
heavy = {"textual", "cryptography", "sqlite_utils", "zstandard", "tui"} & set(sys.modules)
sys.exit(f"{status} {sorted(heavy)}" if status or heavy else 0)
"""


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


def test_python_m_store_is_the_same_program(cli: CommandLine, store: Store) -> None:
    add_upload_session(store)
    ran = cli.run_process("list", "--json")
    assert (ran.status, ran.err) == (0, "")
    assert ran.raw == cli("list", "--json").raw
    assert ran.json["total"] == 1


@pytest.mark.parametrize(
    ("args", "status"), [(["show", "nobody"], 1), (["nonsense"], 2), (["list", "--limit", "x"], 2)]
)
def test_an_error_is_one_sentence_on_stderr(cli: CommandLine, args: list[str], status: int) -> None:
    ran = cli.run_process(*args)
    assert (ran.status, ran.raw) == (status, b"")
    assert len(ran.err.splitlines()) == 1
    assert ran.err.rstrip().endswith(".")


def test_an_ambiguous_name_lists_the_candidates(cli: CommandLine, store: Store) -> None:
    for name in ("alpha-1", "alpha-2", "beta"):
        store.create_session(name)
    ran = cli("show", "alpha")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err.splitlines()[1:] == ["  alpha-1", "  alpha-2"]


def test_an_error_never_carries_an_escape_sequence(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    for name in ("one", "two"):
        store.create_session(f"{OWNED}{name}")
    for args in (["show", OWNED], [OWNED], ["doctor", f"{OWNED}three"], ["list", f"--{OWNED}"]):
        ran = cli(*args)
        assert ran.status in (1, 2)
        assert not {"\x1b", "\x07"} & set(ran.err)
    (tmp_path / OWNED).mkdir()
    ran = CommandLine(tmp_path / OWNED)("list")
    assert (ran.status, "owned" in ran.err) == (3, True)
    assert not {"\x1b", "\x07"} & set(ran.err)


def test_a_file_that_is_no_database_is_unreadable(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("Dear Ada, " * 200)
    for command in ("list", "doctor", "demo"):
        ran = CommandLine(tmp_path / "letter.txt")(command)
        assert ran.status == 3
        assert "letter.txt" in ran.err
    assert (tmp_path / "letter.txt").read_text() == "Dear Ada, " * 200


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("create table theirs (id)")
    other.close()
    before = (tmp_path / "other.db").read_bytes()
    assert CommandLine(tmp_path / "other.db")("list").status == 3
    assert (tmp_path / "other.db").read_bytes() == before


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    assert CommandLine(tmp_path)("list").status == 3


def test_a_store_of_a_newer_version_says_so(cli: CommandLine, store: Store) -> None:
    store.connection.execute(f"pragma user_version = {connection.SCHEMA_VERSION + 1}")
    ran = cli("list")
    assert ran.status == 3
    assert "newer version" in ran.err


def test_a_damaged_store_is_unreadable_and_no_traceback(cli: CommandLine, store: Store) -> None:
    add_upload_session(store)
    store.checkpoint()
    store.close()
    with store.path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (store.path.stat().st_size - 4096))
    ran = cli.run_process("list")
    assert ran.status == 3
    assert "Traceback" not in ran.err


def test_a_pipe_that_closes_early_is_no_error(cli: CommandLine, store: Store) -> None:
    with store.transaction():
        for n in range(2000):
            store.create_session(f"session-{n:04}", agent_title="A title that takes some room" * 4)
    with subprocess.Popen(
        cli.command("list", "--limit", "2000"), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as ran:
        assert ran.stdout is not None
        assert ran.stderr is not None
        ran.stdout.readline()
        ran.stdout.close()
        assert ran.stderr.read() == b""
    assert ran.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
def test_a_full_disk_behind_stdout_is_one_sentence(cli: CommandLine, store: Store) -> None:
    add_upload_session(store)
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(cli.command("list"), stdout=full, stderr=subprocess.PIPE)
    assert ran.returncode == 1
    assert len(ran.stderr.splitlines()) == 1


def test_listing_loads_nothing_it_does_not_need(cli: CommandLine, store: Store) -> None:
    add_upload_session(store)
    for args in (["list"], ["list", "--json"], ["search", "retry"], ["tools"]):
        command = [sys.executable, "-c", CHECK_LOADED_MODULES, str(store.path), *args]
        ran = subprocess.run(command, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr


# ── the browser ───────────────────────────────────────────────────────────────────────────────────


def test_without_a_command_the_browser_opens_on_the_store(cli: CommandLine, store: Store) -> None:
    browser = FakeBrowser()
    assert cli(browse=browser).status == 0
    assert browser.paths == [store.path]


def test_the_store_may_be_named_by_the_environment(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKSCROLL_STORE", str(store.path))
    browser = FakeBrowser()
    assert run(browser, []) == 0
    assert browser.paths == [store.path]


def test_a_path_in_the_place_of_a_command_is_browsed(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    other = tmp_path / "another.db"
    Store.open(other).close()
    browser = FakeBrowser()
    assert cli(str(other), browse=browser).status == 0
    assert browser.paths == [other]


def test_a_path_that_is_no_store_is_unreadable_and_left_alone(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    browser = FakeBrowser()
    for path in (tmp_path / "empty", tmp_path):
        assert cli(str(path), browse=browser).status == 3
    assert browser.paths == []
    assert (tmp_path / "empty").stat().st_size == 0


@pytest.mark.parametrize("missing", ["stdin", "stdout", "stderr", "TERM"])
def test_the_browser_refuses_to_open_without_a_terminal(store: Store, missing: str) -> None:
    ours, theirs = os.openpty()
    environment = os.environ | {"TERM": "dumb" if missing == "TERM" else "xterm"}
    streams: dict[str, int] = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    if missing != "TERM":
        streams[missing] = subprocess.DEVNULL if missing == "stdin" else subprocess.PIPE
    command = [sys.executable, "-c", "from tui.main import main; raise SystemExit(main())", "--store", str(store.path)]
    ran = subprocess.run(command, env=environment, timeout=60, **streams)  # type: ignore[call-overload]
    shown = ran.stderr if missing == "stderr" else os.read(ours, 10_000)
    assert ran.returncode == 1
    assert shown.strip() == b"The browser needs a terminal. Use `backscroll list`, `show` and `search` instead."
    os.close(ours)
    os.close(theirs)


def test_without_a_browser_it_says_so(cli: CommandLine) -> None:
    ran = cli()
    assert ran.status == 1
    assert "not installed" in ran.err


def test_version_and_help(cli: CommandLine) -> None:
    assert cli("--version").out.startswith("backscroll ")
    help_text = cli("-h").out
    assert [name for name in COMMANDS if f"  {name} " not in help_text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(cli: CommandLine, name: str) -> None:
    ran = cli(name, "-h")
    assert ran.status == 0
    assert f"Usage: backscroll {name}" in ran.out


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["lst"], 2, "No such command 'lst'. Did you mean list? Try `backscroll -h`."),
        (["facts", "retier", "3"], 2, "No such command 'retier'. Did you mean retire? Try `backscroll facts -h`."),
        (["secrets", "lisst"], 2, "No such command 'lisst'. Did you mean list? Try `backscroll secrets -h`."),
        (["list", "--limt", "3"], 2, "No such option '--limt'. Did you mean --limit? Try `backscroll list -h`."),
        (["zzzzzz"], 2, "No such command 'zzzzzz'. Try `backscroll -h`."),
        (["-x"], 2, "No such option '-x'. Try `backscroll -h`."),
        (["/nonexistent"], 3, "No such file or folder: /nonexistent."),
        (["nonexistent.jsonl"], 3, "No such file or folder: nonexistent.jsonl."),
        (["~/nonexistent"], 3, "No such file or folder: ~/nonexistent."),
    ],
)
def test_what_does_not_exist_is_named_with_the_nearest_that_does(
    cli: CommandLine, arguments: list[str], status: int, message: str
) -> None:
    result = cli(*arguments)
    assert (result.status, result.out, result.err) == (status, "", message + "\n")
