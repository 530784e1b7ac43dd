"""These tests cover `sync`, `sources` and `write-back`, and browsing the store of another program."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine, FakeBrowser, add_upload_session
from foreign_databases import (
    PINGU_MEMORIES_SCHEMA,
    PINGU_SCHEMA,
    RUBICHAN_LATEST_SCHEMA,
    RUBICHAN_SCHEMA,
    add_pingu_session,
    add_rubichan_session,
    execute_sql,
    insert_row,
    make_database,
    pingu_native_response,
    stored_texts,
)
from write_back_roundtrip import dump_tables, open_in_other_process

from store.store import Store

REPORT = {"source", "locator", "seen", "new", "updated", "unchanged", "problems"}
SOURCE = {"source", "locator", "changed_at", "problems", "sessions", "backups"}
EMBEDDING = b"\x00\x00\x80\x3f"


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


def rubichan(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    make_database(path, RUBICHAN_LATEST_SCHEMA)
    add_rubichan_session(path, "s", ("user", "one"), ("assistant", "two"), title="Theirs", working_dir="/srv")
    return path


def pingu(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    make_database(path, PINGU_SCHEMA + PINGU_MEMORIES_SCHEMA, wal=True)
    add_pingu_session(
        path, "p", ("hello", pingu_native_response({"type": "message", "content": "hi"})), summary="They met."
    )
    insert_row(path, "memories", id=1, content="Runs Debian", embedding=EMBEDDING)
    return path


def with_bad_row(path: Path) -> Path:
    """Make a database with one unreadable row."""
    rubichan(path)
    execute_sql(path, "update messages set content = '[{' where seq = 1")
    return path


def damaged(path: Path) -> Path:
    """Make a database that is recognized as Rubichan's but cannot be read."""
    rubichan(path)
    for number in range(200):
        add_rubichan_session(path, f"more {number}", ("user", "x" * 500))
    content = bytearray(path.read_bytes())
    content[20_000:60_000] = bytes(40_000)
    path.write_bytes(content)
    return path


# ── sync ──────────────────────────────────────────────────────────────────────────────────────────


def test_sync_reads_what_is_found_where_the_programs_keep_it(cli: CommandLine, store: Store, home: Path) -> None:
    first = rubichan(home / ".config/rubichan/rubichan.db")
    second = pingu(home / ".local/share/pingu/pingu.db")
    ran = cli("sync")
    assert (ran.status, ran.err) == (0, "")
    assert ran.rows == [["pingu", "1", "1", "0", str(second)], ["rubichan", "1", "1", "0", str(first)]]
    assert stored_texts(store, "s") == ["one", "two"]


def test_a_damaged_database_where_its_agent_keeps_it_is_named(cli: CommandLine, home: Path) -> None:
    """Nobody can tell what is in it, so it could be taken for no store at all."""
    path = pingu(home / ".local/share/pingu/pingu.db")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")
    rubichan(home / ".config/rubichan/rubichan.db")
    os.truncate(path, path.stat().st_size // 2)
    result = cli("sync")
    assert result.err == f"{path} cannot be read: database disk image is malformed.\n"
    assert [row[:3] for row in result.rows] == [["pingu", "0", "0"], ["rubichan", "1", "1"]]


def test_sync_of_nothing_says_where_to_look(cli: CommandLine) -> None:
    ran = cli("sync")
    assert (ran.status, ran.out) == (0, "")
    assert "Name a PATH" in ran.err
    unclaimed = {"count": 0, "names": []}
    assert cli("sync", "--json").json == {"schema": 1, "sources": [], "problems": [], "unclaimed": unclaimed}


def test_sync_as_json(cli: CommandLine, tmp_path: Path) -> None:
    path = with_bad_row(tmp_path / "rubichan.db")
    ran = cli("sync", str(path), "--json")
    assert ran.json.keys() == {"schema", "sources", "problems", "unclaimed"}
    (report,) = ran.json["sources"]
    assert report.keys() == REPORT
    (problem,) = report.pop("problems")
    assert problem.keys() == {"where", "reason"}
    assert problem["where"] == "messages:2"
    counts = {"seen": 1, "new": 1, "updated": 0, "unchanged": 0}
    assert report == {"source": "rubichan", "locator": str(path), **counts}
    (again,) = cli("sync", str(path), "--json").json["sources"]
    assert (again["new"], again["unchanged"], again["problems"]) == (0, 1, [problem])


def test_sync_of_several_paths(cli: CommandLine, tmp_path: Path) -> None:
    paths = [str(rubichan(tmp_path / "a.db")), str(pingu(tmp_path / "b.db"))]
    assert [report["locator"] for report in cli("sync", *paths, "--json").json["sources"]] == paths


def test_sync_of_a_folder_with_several_stores(cli: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    folder.mkdir()
    first, second = pingu(folder / "a.db"), pingu(folder / "b.db")
    (folder / "notes.txt").write_text("nothing to read")
    (folder / "damaged.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 4_000)
    reports = cli("sync", str(folder), "--json").json["sources"]
    assert [(source["source"], source["locator"]) for source in reports] == [
        ("pingu", str(first)),
        ("pingu", str(second)),
    ]


@pytest.mark.parametrize("named", ["~", "copied"])
def test_sync_of_a_home_reads_the_stores_in_it(cli: CommandLine, home: Path, tmp_path: Path, named: str) -> None:
    folder = home if named == "~" else tmp_path / named
    data = Path(__file__).parents[1] / "data"
    shutil.copytree(data / "claude", folder / ".claude")
    shutil.copytree(data / "codex", folder / ".codex")
    rubichan(folder / ".config/rubichan/rubichan.db")
    reports = cli("sync", "~" if folder == home else str(folder), "--json").json["sources"]
    assert {source["source"]: source["locator"] for source in reports} == {
        "claude": str(folder / ".claude"),
        "codex": str(folder / ".codex"),
        "rubichan": str(folder / ".config/rubichan/rubichan.db"),
    }
    assert [row[0] for row in cli("sync", "--source", "codex", str(folder)).rows] == ["codex"]


def test_sync_of_one_kind(cli: CommandLine, home: Path, tmp_path: Path) -> None:
    rubichan(home / ".config/rubichan/rubichan.db")
    pingu(home / ".local/share/pingu/pingu.db")
    assert [row[0] for row in cli("sync", "--source", "pingu").rows] == ["pingu"]
    other = cli("sync", "--source", "pingu", str(rubichan(tmp_path / "a.db")))
    assert other.status == 3
    unknown = cli("sync", "--source", "nobody")
    assert unknown.status == 1
    assert "Choose one of wuhu" in unknown.err


def test_a_sync_with_problems_lists_them_and_is_done(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    ran = cli("sync", str(with_bad_row(tmp_path / "rubichan.db")))
    assert ran.status == 0
    assert ran.err.startswith("messages:2: The content cannot be read")
    assert len(ran.err.splitlines()) == 1
    assert stored_texts(store, "s") == ["one", ""]


def test_a_path_that_cannot_be_read_is_an_error(cli: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database")
    (tmp_path / "empty.db").touch()
    make_database(tmp_path / "other.db", "create table things (id)")
    damaged(tmp_path / "damaged.db")
    for name in ("missing.db", "text.db", "empty.db", "other.db", "damaged.db"):
        ran = cli("sync", str(tmp_path / name))
        assert ran.status == 3, name
        assert len(ran.err.splitlines()) == 1, ran.err
        assert name in ran.err


def test_a_path_that_cannot_be_read_is_in_the_json_too(cli: CommandLine, tmp_path: Path) -> None:
    path = damaged(tmp_path / "damaged.db")
    ran = cli("sync", str(path), "--json")
    (report,) = json.loads(ran.out)["sources"]
    assert (ran.status, report["seen"]) == (3, 0)
    assert [problem["where"] for problem in report["problems"]] == [str(path)]


def test_a_found_store_that_cannot_be_read_is_a_problem_and_no_error(cli: CommandLine, home: Path) -> None:
    (home / ".config/rubichan").mkdir(parents=True)
    damaged(home / ".config/rubichan/rubichan.db")
    pingu(home / ".local/share/pingu/pingu.db")
    ran = cli("sync")
    assert (ran.status, [row[:2] for row in ran.rows]) == (0, [["pingu", "1"], ["rubichan", "0"]])
    assert len(ran.err.splitlines()) == 1
    assert "damaged" in ran.err


def test_one_sync_at_a_time(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    path = str(rubichan(tmp_path / "rubichan.db"))
    code = "import fcntl, os, sys; f = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR); fcntl.flock(f, fcntl.LOCK_EX)"
    command = [sys.executable, "-c", f"{code}; print(flush=True); sys.stdin.read()", f"{store.path}.sync"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdin
        assert other.stdout
        other.stdout.readline()
        ran = cli("sync", path)
        other.stdin.close()
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "Another sync of this store is running. Try again when it is done.\n"
    assert cli("sync", path).status == 0


def test_two_simultaneous_syncs_read_everything_once(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    path = rubichan(tmp_path / "rubichan.db")
    for number in range(30):
        add_rubichan_session(path, f"s{number}", ("user", "one"), ("assistant", "two"))
    processes = [
        subprocess.Popen(cli.command("sync", str(path)), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in "ab"
    ]
    for process in processes:
        _, err = process.communicate()
        assert (process.returncode, err) == (0, b"") or (process.returncode == 1 and b"Another sync" in err)
    assert store.row("select count(*), count(distinct native_id) from sessions") == (31, 31)
    assert store.row("select count(*) from entries where seq >= 0") == (62,)


def test_progress_is_shown_on_a_terminal_s_stderr_alone(cli: CommandLine, tmp_path: Path) -> None:
    paths = [str(rubichan(tmp_path / f"{name}.db")) for name in "ab"]
    shown = cli.run_in_terminal("sync", paths[0]).out
    assert "Reading" in shown
    assert "100%" in shown
    piped = cli.run_process("sync", paths[1])
    assert (piped.status, piped.err) == (0, "")
    assert b"Reading" not in piped.raw


def test_an_interrupted_sync_is_no_traceback(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    path = make_database(tmp_path / "rubichan.db", RUBICHAN_SCHEMA)
    rows = [(f"s{number}", "m") for number in range(1000)]
    execute_sql(path, "insert into sessions (id, model) values (?, ?)", rows)
    messages = [(name, 0, "user", '[{"type": "text", "text": "hello"}]') for name, _ in rows]
    execute_sql(path, "insert into messages (session_id, seq, role, content) values (?, ?, ?, ?)", messages)
    running = subprocess.Popen(cli.command("sync", str(path)), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while store.row("select count(*) from sessions") == (0,) and running.poll() is None:
        pass
    running.send_signal(signal.SIGINT)
    _, err = running.communicate()
    assert b"Traceback" not in err
    assert cli("sync", str(path)).status == 0
    assert store.row("select count(*) from sessions") == (1000,)


# ── sources ───────────────────────────────────────────────────────────────────────────────────────


def test_sources_lists_what_was_found_where(cli: CommandLine, tmp_path: Path) -> None:
    assert "Nothing read yet" in cli("sources").err
    path = with_bad_row(tmp_path / "rubichan.db")
    cli("sync", str(path))
    ran = cli("sources")
    ((label, sessions, at, problems, where),) = ran.rows
    assert (label, sessions, problems, where) == ("Rubichan", "1", "1", str(path))
    assert at.endswith("Z")
    assert ran.err.startswith(f"{path}: messages:2: The content cannot be read")


def test_sources_as_json(cli: CommandLine, tmp_path: Path) -> None:
    path = with_bad_row(tmp_path / "rubichan.db")
    cli("sync", str(path))
    document = cli("sources", "--json").json
    assert document.keys() == {"schema", "sources"}
    (source,) = document["sources"]
    assert source.keys() == SOURCE
    assert (source["source"], source["locator"], source["sessions"]) == ("rubichan", str(path), 1)
    assert [problem["where"] for problem in source["problems"]] == ["messages:2"]
    assert source["backups"] == []


def test_sources_list_the_backups(cli: CommandLine, tmp_path: Path) -> None:
    path = rubichan(tmp_path / "rubichan.db")
    cli("sync", str(path))
    cli("title", "s", "Mine")
    backup = cli("write-back", "s", "--json").json["backup"]
    assert cli("sources", "--json").json["sources"][0]["backups"] == [backup]
    assert backup in cli("sources").err


# ── write-back ────────────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_shows_the_rows_and_changes_nothing(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    path = pingu(tmp_path / "pingu.db")
    cli("sync", str(path))
    cli("title", "p", "Mine\nin two lines")
    store.facts.edit(1, "Runs Debian 13")
    before, edits = dump_tables(path), store.journal.list_edits()
    ran = cli("write-back", "p", "--dry-run")
    assert ran.status == 0
    assert ran.lines[:9] == [
        "sessions p",
        "  - title: null",
        "  + title: Mine",
        "in two lines",
        "memories 1",
        "  - content: Runs Debian",
        "  - embedding: 4 bytes",
        "  - content_hash: null",
        "  + content: Runs Debian 13",
    ]
    assert (dump_tables(path), store.journal.list_edits()) == (before, edits)
    assert not Path(f"{store.path}.backups").exists()


def test_a_dry_run_as_json(cli: CommandLine, tmp_path: Path) -> None:
    path = pingu(tmp_path / "pingu.db")
    cli("sync", str(path))
    cli("title", "p", "Mine")
    cli("facts", "retire", "1")
    document = cli("write-back", "p", "--dry-run", "--json").json
    assert document.keys() == {"schema", "locator", "dry_run", "changes", "unplaced", "conflicts", "backup"}
    assert (document["locator"], document["dry_run"], document["backup"]) == (str(path), True, None)
    title, memory = document["changes"]
    assert title == {"table": "sessions", "key": {"id": "p"}, "before": {"title": None}, "after": {"title": "Mine"}}
    assert (memory["table"], memory["key"], memory["after"]) == ("memories", {"id": 1}, None)
    assert memory["before"]["embedding"] == {"$base64": "AACAPw=="}


def test_write_back_says_what_it_did(cli: CommandLine, tmp_path: Path) -> None:
    path = rubichan(tmp_path / "rubichan.db")
    cli("sync", str(path))
    cli("title", "s", "Mine")
    cli("summary", "s", "--set", "In short.")
    ran = cli("write-back", "s")
    assert (ran.status, ran.lines) == (0, ["sessions s", "  - title: Theirs", "  + title: Mine"])
    unplaced, written = ran.err.splitlines()
    assert unplaced.startswith("Rubichan keeps a summary only in a snapshot")
    assert written.startswith(f"1 row written to {path}; the backup is ")
    assert dump_tables(path)["sessions"][0]["title"] == "Mine"
    again = cli("write-back", "s")
    assert (again.status, again.out) == (0, "")
    assert again.err.endswith("Nothing to write back.\n")


def test_write_back_of_a_session_without_a_source(cli: CommandLine, store: Store) -> None:
    add_upload_session(store, "ours")
    for args in ([], ["--dry-run"], ["--json"]):
        ran = cli("write-back", "ours", *args)
        assert (ran.status, ran.out) == (1, "")
        assert ran.err == "This session was not synced from an agent's store.\n"
    assert cli("write-back", "nobody").status == 1


def test_write_back_of_a_row_that_its_owner_changed(cli: CommandLine, tmp_path: Path) -> None:
    path = rubichan(tmp_path / "rubichan.db")
    cli("sync", str(path))
    cli("title", "s", "Mine")
    execute_sql(path, "update sessions set title = 'Changed'")
    before = dump_tables(path)
    shown = cli("write-back", "s", "--dry-run")
    assert (shown.status, shown.out) == (0, "")
    sentence = "The title of sessions was changed in the agent's store. Sync, then write back again.\n"
    assert shown.err == sentence
    refused = cli("write-back", "s")
    assert (refused.status, refused.out, refused.err) == (1, "", sentence)
    assert cli("write-back", "s", "--dry-run", "--json").json["conflicts"] == [sentence.strip()]
    assert dump_tables(path) == before


def test_write_back_while_the_program_runs(cli: CommandLine, tmp_path: Path) -> None:
    path = rubichan(tmp_path / "rubichan.db")
    cli("sync", str(path))
    cli("title", "s", "Mine")
    with open_in_other_process(path, "select * from sessions") as pid:
        ran = cli("write-back", "s")
    assert (ran.status, ran.err) == (1, f"{path} is open in process {pid}. Close that program first.\n")


def test_a_text_that_is_no_utf_8_is_shown(cli: CommandLine, tmp_path: Path) -> None:
    path = rubichan(tmp_path / "rubichan.db")
    execute_sql(path, "update sessions set title = cast(x'63757420d1' as text)")
    cli("sync", str(path))
    cli("title", "s", "Mine")
    ran = cli.run_process("write-back", "s", "--dry-run")
    assert (ran.status, ran.lines[1]) == (0, r"  - title: cut \udcd1")
    (change,) = cli("write-back", "s", "--json").json["changes"]
    assert change["before"] == {"title": "cut \udcd1"}
    assert cli.run_process("log").status == 0
    assert cli("undo").status == 0
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select cast(title as blob) from sessions").fetchone() == (b"cut \xd1",)


# ── the journal ───────────────────────────────────────────────────────────────────────────────────


def newest_log_lines(cli: CommandLine) -> list[str]:
    """Return the lines of the newest edit in the log, without its time."""
    headline, *lines = cli("log", "--limit", "1").lines
    return [" ".join(headline.split()[:2]), *(line.strip() for line in lines)]


def test_the_log_shows_what_was_written_where(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    path = pingu(tmp_path / "pingu.db")
    cli("sync", str(path))
    cli("title", "p", "Mine")
    store.facts.edit(1, "Runs Debian 13")
    cli("write-back", "p")
    kind, where, *changes = newest_log_lines(cli)
    assert (kind.split()[1], where) == ("written", f"in {path}")
    assert changes[:3] == [
        "title: Mine",
        "memories 1, content: Runs Debian → Runs Debian 13",
        "memories 1, embedding: 4 bytes",
    ]
    cli("undo")
    kind, where, *changes = newest_log_lines(cli)
    assert (kind.split()[1], where) == ("undone:", f"in {path}")
    assert "title: Mine" in changes
    assert "memories 1, content: Runs Debian 13 → Runs Debian" in changes


def test_the_log_counts_the_rows_of_a_deleted_conversation(cli: CommandLine, tmp_path: Path) -> None:
    path = rubichan(tmp_path / "rubichan.db")
    add_rubichan_session(path, "long", *[("user", "again")] * 9)
    cli("sync", str(path))
    cli("delete", "long")
    cli("write-back", "long")
    assert newest_log_lines(cli)[1:] == [f"in {path}", "- messages: 9 rows", "- sessions long", "gone: no → yes"]
    (edit,) = cli("log", "--limit", "1", "--json").json["log"]
    assert len([change for change in edit["changes"] if change["table"] == "@foreign"]) == 10
    cli("undo")
    assert newest_log_lines(cli)[1:] == [f"in {path}", "+ sessions long", "+ messages: 9 rows", "gone: yes → no"]


def test_a_purge_names_the_backups_of_the_store_it_came_from(cli: CommandLine, tmp_path: Path) -> None:
    path = rubichan(tmp_path / "rubichan.db")
    cli("sync", str(path))
    cli("title", "s", "Mine")
    backup = cli("write-back", "s", "--json").json["backup"]
    assert f"Still in the backup {backup}" in cli("purge", "s", "--yes").err


# ── browsing another program's store ──────────────────────────────────────────────────────────────


class InspectingBrowser(FakeBrowser):
    """Lists the sessions of the store while it is open."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[Any] = []

    def __call__(self, path: Path, *, follow: bool, pick: bool = False, refusal: str = "") -> None:
        super().__call__(path, follow=follow)
        assert not follow
        with Store.open(path) as store:
            self.found.append([session.native_id for session in store.list_sessions(9)])


def test_a_foreign_database_is_browsed_in_a_store_of_its_own(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    paths = [str(rubichan(tmp_path / "a.db")), str(pingu(tmp_path / "b.db"))]
    browser = InspectingBrowser()
    assert cli(paths[0], browse=browser).status == 0
    assert cli(*paths, browse=browser).status == 0
    assert [sorted(found) for found in browser.found] == [["s"], ["p", "s"]]
    assert not any(path.exists() or path.parent.exists() for path in browser.paths)
    assert store.path not in browser.paths
    assert store.list_sessions(9) == []


def test_an_unreadable_file_is_not_browsed(cli: CommandLine, tmp_path: Path) -> None:
    browser = InspectingBrowser()
    (tmp_path / "empty.db").touch()
    for path in (tmp_path / "empty.db", damaged(tmp_path / "damaged.db")):
        ran = cli(str(path), browse=browser)
        assert (ran.status, len(ran.err.splitlines())) == (3, 1)
    assert browser.paths == []


def test_a_database_may_be_named_by_its_url(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    url = f"sqlite:///{rubichan(tmp_path / 'rubichan.db')}"
    browser = InspectingBrowser()
    assert cli(url, browse=browser).status == 0
    assert browser.found == [["s"]]
    assert cli("sync", url).status == 0
    assert stored_texts(store, "s") == ["one", "two"]


def test_a_partly_readable_store_is_browsed(cli: CommandLine, tmp_path: Path) -> None:
    browser = InspectingBrowser()
    assert cli(str(with_bad_row(tmp_path / "rubichan.db")), browse=browser).status == 0
    assert browser.found == [["s"]]


def test_a_folder_is_not_a_database(cli: CommandLine, tmp_path: Path) -> None:
    for name in (str(tmp_path), os.devnull):
        assert cli("sync", name).status == 3
