"""These tests check that purged data leaves no trace in the file, its WAL, the journal or the index.

They also check that only the owner can read the files.
"""

from __future__ import annotations

import random
import secrets
import stat
from collections.abc import Iterable
from pathlib import Path

import pytest
import zstandard

from store.database.backup import create_backup
from store.model.session import Session
from store.paths import key_file
from store.store import Store

HEX = 24
SEEDS = (1, 3)
"""Seeds for which SQLite leaves copies behind in its pages."""


class Marks:
    """Generates a unique text for each place, so that a trace shows where it came from."""

    def __init__(self) -> None:
        self.places: dict[str, str] = {}

    def __call__(self, place: str) -> str:
        self.places[place] = secrets.token_hex(HEX // 2)
        return f"mark{self.places[place]}"

    def found_in(self, data: bytes) -> list[str]:
        return [place for place, mark in self.places.items() if mark.encode() in data]


@pytest.fixture
def marks() -> Marks:
    return Marks()


def read_files(folder: Path) -> bytes:
    """Return every byte of every file in the folder."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def read_tables(store: Store) -> bytes:
    """Return every value of every table, the decompressed blocks, and every word of the indexes."""
    values: list[bytes] = []
    tables = [name for (name,) in store.rows("select name from sqlite_master where type = 'table'")]
    for table in tables:
        if not table.endswith("_fts"):
            values += (str(value).encode() for row in store.rows(f"select * from {table}") for value in row)
    values += (zstandard.ZstdDecompressor().decompress(data) for (data,) in store.rows("select data from blocks"))
    for table in ("conversation_fts", "tools_fts"):
        store.connection.execute(f"create virtual table temp.words using fts5vocab(main, {table}, row)")
        values += (term.encode() for (term,) in store.rows("select term from words"))
        store.connection.execute("drop table temp.words")
    return b"\n".join(values)


def cut_into_traces(sealed: Iterable[bytes]) -> list[bytes]:
    """Return pieces that are so short that SQLite does not split them between pages, without the common header."""
    return [value[start : start + 16] for value in sealed for start in range(9, len(value) - 15, 64)]


def sealed_values(store: Store) -> list[bytes]:
    return [sealed for (sealed,) in store.rows("select sealed from secrets")]


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────


def test_no_secret_is_stored_as_plain_text(store: Store, tmp_path: Path, home: Path, marks: Marks) -> None:
    session = store.create_session("s")
    for place in ("first", "second", "long"):
        store.secrets.set(session, "token", marks(place) * (500 if place == "long" else 1))
        store.secrets.get(session, "token")
    assert marks.found_in(read_files(tmp_path) + read_files(home) + read_tables(store)) == []
    store.checkpoint()
    assert marks.found_in(read_files(tmp_path)) == []


def test_a_secret_that_is_removed_forever_leaves_no_sealed_byte(store: Store, tmp_path: Path, marks: Marks) -> None:
    session = store.create_session("s")
    name = marks("name")
    for size in (1, 100, 5_000, 100_000):
        store.secrets.set(session, name, "v" * size)
    traces = cut_into_traces(sealed_values(store))
    before = read_files(tmp_path)
    assert [trace for trace in traces if trace not in before][len(traces) // 100 :] == []
    store.secrets.remove(session, name, forever=True)
    after = read_files(tmp_path)
    assert [trace for trace in traces if trace in after] == []
    assert marks.found_in(after + read_tables(store)) == []


def add_many_secrets(store: Store, rng: random.Random) -> list[tuple[Session, str]]:
    """Add so many secrets that SQLite moves rows from page to page. Return their sessions and names."""
    with store.transaction():
        sessions = [store.create_session(f"session {n}") for n in range(20)]
        names = [(session, f"key {n}") for session in sessions for n in range(10)]
        rng.shuffle(names)
        for session, name in names:
            store.secrets.set(session, name, "v" * rng.choice([1, 100, 300, 700, 1_500]))
    return names


@pytest.mark.parametrize("seed", SEEDS)
def test_copies_that_sqlite_left_in_its_pages_are_erased(store: Store, tmp_path: Path, seed: int) -> None:
    names = add_many_secrets(store, random.Random(seed))
    removed = names[::3]
    rows = store.rows("select session, key, sealed from secrets")
    removed_keys = {(session.key, name) for session, name in removed}
    traces = cut_into_traces(sealed for session, name, sealed in rows if (session, name) in removed_keys)
    for session, name in removed:
        store.secrets.remove(session, name, forever=True)
    data = read_files(tmp_path)
    assert [trace for trace in traces if trace in data] == []
    assert len(store.secrets.names()) == len(names) - len(removed)
    assert store.secrets.verify() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_purge_erases_the_sealed_values(store: Store, tmp_path: Path, seed: int) -> None:
    sessions = list(dict.fromkeys(session for session, _ in add_many_secrets(store, random.Random(seed))))
    purged = sessions[::3]
    traces = cut_into_traces(
        sealed
        for session in purged
        for (sealed,) in store.rows("select sealed from secrets where session = ?", session.key)
    )
    store.sessions.purge(purged)
    data = read_files(tmp_path)
    assert [trace for trace in traces if trace in data] == []
    assert store.secrets.verify() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rotation_leaves_nothing_of_the_old_key(store: Store, tmp_path: Path, seed: int) -> None:
    add_many_secrets(store, random.Random(seed))
    traces = cut_into_traces([*sealed_values(store), *store.row("select wrapped from vault")])
    key_id = store.row("select key_id from vault")[0]
    assert store.secrets.rotate() == 200
    data = read_files(tmp_path)
    assert [trace for trace in [*traces, key_id] if trace in data] == []
    assert store.rows("pragma foreign_key_check") == []


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


def fill_session(store: Store, session: Session, marks: Marks) -> None:
    """Add data of every kind to a session, with older versions, and with undone and removed data."""
    blocks = [
        {"type": "thinking", "thinking": marks("thinking")},
        {"type": "text", "text": f"Ein Wort, 一個{marks('answer')}詞"},
        {"type": "tool_use", "id": "call", "name": "bash", "input": {"command": marks("command")}},
    ]
    store.append_message(session.id, "user", f"say {marks('prompt')}")
    store.append_message(session.id, "assistant", blocks)
    output = {"type": "tool_result", "tool_use_id": "call", "content": marks("output")}
    store.append_message(session.id, "user", [output])
    store.append_message(session.id, "user", marks("long") + " word" * 40_000)
    for version in ("first", "second"):
        store.sessions.set_title(session, marks(f"{version} title"))
        store.summaries.set(session, marks(f"{version} summary"))
        store.secrets.set(session, "token", marks(f"{version} secret"))
    for is_kept in (True, False):
        note = store.notes.add_note(session, marks(f"note {is_kept}"), entry_seq=0)
        tag = marks(f"tag {is_kept}")
        store.notes.tag([session], [tag])
        (fact,) = store.facts.learn(marks(f"fact {is_kept}"), session=session, scope=f"session:{session.id}").facts
        if not is_kept:
            store.notes.delete_note(note.id)
            store.notes.untag([session], [tag])
            store.facts.edit(fact.id, marks("edited fact"))
            store.facts.retire(fact.id)
            store.journal.undo()
    (store.published.folder(session) / marks("file name")).write_text(marks("file"))
    store.published.publish(session, next(store.published.folder(session).iterdir()))


def test_a_purged_session_leaves_nothing(store: Store, tmp_path: Path, marks: Marks) -> None:
    session = store.create_session("s", system_prompt=marks("system prompt"), webhook=marks("webhook"))
    other, other_marks = store.create_session("other"), Marks()
    fill_session(store, other, other_marks)
    fill_session(store, session, marks)
    traces = cut_into_traces(
        sealed for (sealed,) in store.rows("select sealed from secrets where session = ?", session.key)
    )
    sealed_places = {"first secret", "second secret"}
    present = marks.places.keys() - sealed_places
    assert set(marks.found_in(read_files(tmp_path) + read_tables(store))) >= present - {"file name"}
    store.sessions.purge([session])
    data = read_files(tmp_path)
    assert marks.found_in(data) == []
    assert marks.found_in(read_tables(store)) == []
    assert [trace for trace in traces if trace in data] == []
    assert [store.search.find(f"mark{mark}") for mark in marks.places.values() if store.search.find(mark)[1]] == []
    expected = other_marks.places.keys() - sealed_places - {"file name"}
    assert set(other_marks.found_in(data + read_tables(store))) >= expected
    assert store.secrets.get(other, "token") == f"mark{other_marks.places['second secret']}"


def test_a_purge_of_many_sessions_leaves_nothing_in_the_tables(store: Store) -> None:
    sessions = {store.create_session(f"session {n}"): Marks() for n in range(12)}
    for session, marks in sessions.items():
        fill_session(store, session, marks)
    purged, kept = list(sessions)[::2], list(sessions)[1::2]
    kept_marks = Marks()
    store.notes.tag([purged[0], kept[0]], [kept_marks("shared tag")])
    store.facts.learn(kept_marks("learnt in a purged session"), session=purged[0], scope=f"session:{kept[0].id}")
    purged_marks = Marks()
    store.facts.learn(purged_marks("scope of a purged session"), session=kept[0], scope=f"session:{purged[0].id}")
    fork = store.sessions.fork(kept[0], 1)
    store.sessions.purge(purged)
    data = read_tables(store)
    assert [found for session in purged if (found := sessions[session].found_in(data))] == []
    assert purged_marks.found_in(data) == []
    assert set(kept_marks.found_in(data)) == set(kept_marks.places)
    assert store.chains.entries(fork.key)[1].text == store.chains.entries(kept[0].key)[1].text
    assert store.rows("pragma integrity_check") == [("ok",)]


def test_undone_edits_are_purged_with_the_session(store: Store, tmp_path: Path, marks: Marks) -> None:
    session = store.create_session("s")
    store.sessions.set_title(session, marks("title"))
    store.journal.undo()
    store.journal.undo(store.journal.list_edits()[0].id)
    assert marks.found_in(read_tables(store)) == ["title"]
    store.sessions.purge([session])
    assert marks.found_in(read_files(tmp_path) + read_tables(store)) == []


# ── permissions ───────────────────────────────────────────────────────────────────────────────────


def test_only_the_owner_can_read_the_files(home: Path) -> None:
    with Store.open() as store:
        session = store.create_session("s")
        store.secrets.set(session, "token", "v")
        store.published.folder(session)
        backup = create_backup(store.path, store.connection)
        store.secrets.rotate()
        store.connection.execute("vacuum")
        store.append_message("s", "user", "hello")
        files = {store.path, backup, key_file(), *(store.path.with_name(f"store.db-{end}") for end in ("wal", "shm"))}
        folders = {store.path.parent, backup.parent, key_file().parent, store.published.folder(session)}
        paths = {path for folder in folders for path in folder.rglob("*")}
        assert {path for path in paths if path.is_file()} == files
        assert {path: oct(mode) for path in files if (mode := stat.S_IMODE(path.stat().st_mode)) != 0o600} == {}
        folders |= {path for path in paths if path.is_dir()}
        assert {path: oct(mode) for path in folders if (mode := stat.S_IMODE(path.stat().st_mode)) != 0o700} == {}
