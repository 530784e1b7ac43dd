"""Checks with a sample of every source that a value disappears from the agent's store, and comes back by an undo."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from foreign_databases import PINGU_SCHEMA, add_pingu_session, execute_sql, make_database, pingu_raw_message, sync_paths
from planted_secrets import GROQ_KEY, digest_files, find_in_files, find_in_store, make_old, redact, scan, undo
from source_samples import SAMPLES
from store_integrity import find_faults

from store.sources.kit.sqlite import is_sqlite
from store.store import Store
from store.write_back.sqlite import quote_name

_COUNT_SESSIONS = "select count(*), count(*) filter (where relation is 'superseded') from sessions"


def plant(sample: Path, word: str) -> None:
    """Replace a word by the key in every file and every column of a sample."""
    for path in [sample] if sample.is_file() else [path for path in sample.rglob("*") if path.is_file()]:
        if is_sqlite(path):
            _plant_in_database(path, word)
        else:
            path.write_bytes(path.read_bytes().replace(word.encode(), GROQ_KEY.encode()))
        make_old(path)


def _plant_in_database(path: Path, word: str) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("pragma foreign_keys = off")
        tables = "select name from sqlite_master where type = 'table' and sql like 'create table%'"
        for (table,) in database.execute(tables).fetchall():
            for _, column, _, _, _, key in database.execute(f"pragma table_info({quote_name(table)})").fetchall():
                if not key:
                    name = quote_name(column)
                    database.execute(
                        f"update {quote_name(table)} set {name} = iif(typeof({name}) = 'blob',"
                        f" cast(replace(cast({name} as text), ?1, ?2) as blob), replace({name}, ?1, ?2))"
                        f" where instr(cast({name} as text), ?1) > 0",
                        (word, GROQ_KEY),
                    )
    for suffix in ("-wal", "-shm"):
        assert not path.with_name(path.name + suffix).exists()


def choose_word(sample: Path, folder: Path) -> str:
    """Return a word that somebody said in the sample, and that is in no id."""
    with Store.open(folder / "chosen.db") as store:
        sync_paths(store, sample)
        said = " ".join(text for (text,) in store.rows("select text from entries where role in ('user', 'assistant')"))
        ids = repr(store.rows("select id, native_id, cwd, model from sessions")) + str(sample)
        kinds = repr(store.rows("select distinct kind, role, author from entries"))
    files = [path for path in sample.rglob("*") if path.is_file()] if sample.is_dir() else [sample]
    names = b" ".join(name for path in files for name in re.findall(rb'"\w+"', path.read_bytes()))
    words = [word for word in re.findall(r"[A-Za-z]{5,}", said) if word not in ids + kinds]
    return max((word for word in words if word.encode() not in names), key=len)


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_the_value_leaves_every_source_and_comes_back(name: str, store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "agent"
    folder.mkdir()
    sample = SAMPLES[name](folder)
    plant(sample, choose_word(sample, tmp_path))
    sync_paths(store, sample)
    before, faults = digest_files(folder), find_faults(store.path)
    counted = store.row(_COUNT_SESSIONS)
    report = redact(store, scan(store)["groq-key"].fingerprint)
    assert report.left == ()
    assert find_in_files([folder], GROQ_KEY) == []
    assert find_in_store(store, GROQ_KEY) == []
    sync_paths(store, sample)
    again = sync_paths(store, sample)
    assert (again.new, again.updated) == (0, 0)
    assert store.row(_COUNT_SESSIONS) == counted
    assert undo(store, report.id).left == ()
    assert digest_files(folder) == before
    sync_paths(store, sample)
    assert store.row(_COUNT_SESSIONS) == counted
    assert find_faults(store.path) == faults


# ── databases ─────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def pingu(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir()
    path = make_database(tmp_path / "agent" / "pingu.db", PINGU_SCHEMA)
    add_pingu_session(path, "s", (f"use {GROQ_KEY}", pingu_raw_message("ok")))
    make_old(path)
    return path


def test_rows_that_the_agent_added_since_stay_when_values_are_restored(store: Store, pingu: Path) -> None:
    sync_paths(store, pingu)
    report = redact(store, scan(store)["groq-key"].fingerprint)
    execute_sql(pingu, "update sessions set title = 'written by the agent'")
    make_old(pingu)
    assert undo(store, report.id).left == ()
    assert GROQ_KEY.encode() in pingu.read_bytes()
    assert b"written by the agent" in pingu.read_bytes()


def test_what_the_agent_deleted_is_cleared_from_the_free_pages(store: Store, pingu: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(pingu)) as database, database:
        database.execute("pragma secure_delete = off")
        database.execute("delete from turns")
    make_old(pingu)
    assert GROQ_KEY.encode() in pingu.read_bytes()
    store.notes.add_note(store.sessions.create("own"), f"was {GROQ_KEY}")
    sync_paths(store, pingu)
    before = digest_files(pingu.parent)
    report = redact(store, scan(store)["groq-key"].fingerprint)
    assert (report.count, report.left) == (3, ())  # the note, its edit in the journal, and the free page
    assert find_in_files([pingu], GROQ_KEY) == []
    assert undo(store, report.id).left == ()
    assert digest_files(pingu.parent) == before


def assert_index_forgets_and_gets_back(store: Store, pingu: Path, index: str, statements: str) -> None:
    with closing(sqlite3.connect(pingu)) as database:
        database.executescript(statements)
    make_old(pingu)
    sync_paths(store, pingu)
    before = digest_files(pingu.parent)
    report = redact(store, scan(store)["groq-key"].fingerprint)
    assert report.left == ()
    assert find_in_files([pingu], GROQ_KEY) == []
    with closing(sqlite3.connect(pingu)) as database:
        database.execute(f"insert into {index} ({index}, rank) values ('integrity-check', 1)")
        assert database.execute(f"select count(*) from {index}('redacted')").fetchone() == (1,)
    assert undo(store, report.id).left == ()
    assert digest_files(pingu.parent) == before


def test_the_search_index_of_an_agent_forgets_the_value(store: Store, pingu: Path) -> None:
    statements = """
        create virtual table turns_fts using fts5(user_message, content=turns, content_rowid=id);
        insert into turns_fts (turns_fts) values ('rebuild');
        create trigger turns_changed after update on turns begin
            insert into turns_fts (turns_fts, rowid, user_message) values ('delete', old.id, old.user_message);
            insert into turns_fts (rowid, user_message) values (new.id, new.user_message);
        end;
    """
    assert_index_forgets_and_gets_back(store, pingu, "turns_fts", statements)


@pytest.mark.parametrize("has_trigger", [False, True])
def test_a_search_index_with_its_own_texts_is_redacted(store: Store, pingu: Path, has_trigger: bool) -> None:
    """Copilot keeps one."""
    statements = """
        create virtual table said using fts5(content, turn unindexed);
        insert into said (content, turn) select user_message, id from turns;
    """
    trigger = """
        create trigger turns_changed after update on turns begin
            update said set content = new.user_message where turn = new.id;
        end;
    """
    assert_index_forgets_and_gets_back(store, pingu, "said", statements + trigger * has_trigger)


def test_a_table_without_a_key_is_redacted(store: Store, pingu: Path) -> None:
    execute_sql(pingu, "create table log (line text)")
    execute_sql(pingu, "insert into log values (?)", [(f"a {GROQ_KEY}",), (f"b {GROQ_KEY}",), ("other",)])
    make_old(pingu)
    sync_paths(store, pingu)
    before = digest_files(pingu.parent)
    report = redact(store, scan(store)["groq-key"].fingerprint)
    assert report.left == ()
    assert find_in_files([pingu], GROQ_KEY) == []
    execute_sql(pingu, "insert into log values ('from the agent')")
    make_old(pingu)
    assert undo(store, report.id).left == ()
    with closing(sqlite3.connect(pingu)) as database:
        lines = [line for (line,) in database.execute("select line from log")]
    assert lines == [f"a {GROQ_KEY}", f"b {GROQ_KEY}", "other", "from the agent"]
    assert digest_files(pingu.parent) != before


def test_a_damaged_database_with_a_value_is_named_as_left(store: Store, pingu: Path) -> None:
    """A scan reads what it can. A database in which SQLite finds damage is not changed."""
    sync_paths(store, pingu)
    execute_sql(pingu, "create table zebras (a)")
    with closing(sqlite3.connect(pingu)) as database:
        ((page,),) = database.execute("select rootpage from sqlite_master where name = 'zebras'")
        ((size,),) = database.execute("pragma page_size")
    with pingu.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(b"\xff" * size)
    make_old(pingu)
    before = digest_files(pingu.parent)
    report = redact(store, scan(store)["groq-key"].fingerprint)
    assert [place.path for place in report.left] == [str(pingu)]
    assert [item.reason for item in report.not_scanned if item.path == str(pingu)]
    assert digest_files(pingu.parent) == before


def test_a_database_that_is_open_is_left(store: Store, pingu: Path) -> None:
    sync_paths(store, pingu)
    fingerprint = scan(store)["groq-key"].fingerprint
    digest = digest_files(pingu.parent)
    with closing(sqlite3.connect(pingu)) as other:
        other.execute("begin")
        other.execute("select * from sessions").fetchall()
        report = redact(store, fingerprint)
        assert [(place.path, bool(place.problem)) for place in report.left] == [(str(pingu), True)]
    assert digest_files(pingu.parent) == digest
    assert report.state == "running"


def test_the_sealed_copy_of_a_database_has_no_value_and_goes_when_values_are_forgotten(
    store: Store, pingu: Path
) -> None:
    sync_paths(store, pingu)
    report = redact(store, scan(store)["groq-key"].fingerprint)
    (copy,) = Path(f"{store.path}.backups", "redactions").iterdir()
    assert GROQ_KEY.encode() not in copy.read_bytes()
    assert copy.stat().st_mode & 0o077 == 0
    store.leaks.redactions.forget(report.id)
    assert not copy.exists()
