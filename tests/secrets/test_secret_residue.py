"""What is removed for good leaves no trace: not in the file, its WAL, the journal or the index. And what is there is
for its owner's eyes only."""

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
"""Of crowds in which SQLite does leave copies behind."""


class Marks:
    """Text that occurs nowhere else, a different one for each place, so that a trace tells where it came from."""

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


def raw(folder: Path) -> bytes:
    """Every byte of every file in the folder, whatever it is."""
    return b"\n".join(path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file())


def said(store: Store) -> bytes:
    """What the store itself can still tell: every value of every table, blocks unpacked, every word of the indexes."""
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


def pieces(sealed: Iterable[bytes]) -> list[bytes]:
    """Short enough to lie within a page wherever SQLite cuts a long value; without the head that many share."""
    return [record[at : at + 16] for record in sealed for at in range(9, len(record) - 15, 64)]


def sealed_values(store: Store) -> list[bytes]:
    return [sealed for (sealed,) in store.rows("select sealed from secrets")]


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────


def test_a_secret_is_nowhere_in_plain(store: Store, tmp_path: Path, home: Path, marks: Marks) -> None:
    session = store.create_session("s")
    for place in ("first", "second", "long"):
        store.secrets.set(session, "token", marks(place) * (500 if place == "long" else 1))
        store.secrets.get(session, "token")
    assert marks.found_in(raw(tmp_path) + raw(home) + said(store)) == []
    store.checkpoint()
    assert marks.found_in(raw(tmp_path)) == []


def test_a_secret_removed_for_ever_leaves_no_sealed_byte(store: Store, tmp_path: Path, marks: Marks) -> None:
    session = store.create_session("s")
    name = marks("name")
    for size in (1, 100, 5_000, 100_000):
        store.secrets.set(session, name, "v" * size)
    traces = pieces(sealed_values(store))
    before = raw(tmp_path)
    assert [trace for trace in traces if trace not in before][len(traces) // 100 :] == []
    store.secrets.remove(session, name, forever=True)
    after = raw(tmp_path)
    assert [trace for trace in traces if trace in after] == []
    assert marks.found_in(after + said(store)) == []


def crowd(store: Store, rng: random.Random) -> list[tuple[Session, str]]:
    """Enough secrets that SQLite has moved rows from page to page while they came."""
    with store.transaction():
        sessions = [store.create_session(f"session {n}") for n in range(20)]
        names = [(session, f"key {n}") for session in sessions for n in range(10)]
        rng.shuffle(names)
        for session, name in names:
            store.secrets.set(session, name, "v" * rng.choice([1, 100, 300, 700, 1_500]))
    return names


@pytest.mark.parametrize("seed", SEEDS)
def test_what_sqlite_left_behind_in_its_pages_goes_too(store: Store, tmp_path: Path, seed: int) -> None:
    names = crowd(store, random.Random(seed))
    gone = names[::3]
    rows = store.rows("select session, key, sealed from secrets")
    unwanted = {(session.key, name) for session, name in gone}
    traces = pieces(sealed for session, name, sealed in rows if (session, name) in unwanted)
    for session, name in gone:
        store.secrets.remove(session, name, forever=True)
    data = raw(tmp_path)
    assert [trace for trace in traces if trace in data] == []
    assert len(store.secrets.names()) == len(names) - len(gone)
    assert store.secrets.verify() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_purge_takes_the_sealed_values_as_well(store: Store, tmp_path: Path, seed: int) -> None:
    sessions = list(dict.fromkeys(session for session, _ in crowd(store, random.Random(seed))))
    gone = sessions[::3]
    traces = pieces(
        sealed
        for session in gone
        for (sealed,) in store.rows("select sealed from secrets where session = ?", session.key)
    )
    store.sessions.purge(gone)
    data = raw(tmp_path)
    assert [trace for trace in traces if trace in data] == []
    assert store.secrets.verify() == []


@pytest.mark.parametrize("seed", SEEDS)
def test_a_rotation_leaves_nothing_of_the_old_key(store: Store, tmp_path: Path, seed: int) -> None:
    crowd(store, random.Random(seed))
    traces = pieces([*sealed_values(store), *store.row("select wrapped from vault")])
    key_id = store.row("select key_id from vault")[0]
    assert store.secrets.rotate() == 200
    data = raw(tmp_path)
    assert [trace for trace in [*traces, key_id] if trace in data] == []
    assert store.rows("pragma foreign_key_check") == []


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


def live(store: Store, session: Session, marks: Marks) -> None:
    """A session of which something stands on every shelf, with older versions, undone and removed ones as well."""
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
    for kept in (True, False):
        note = store.notes.add_note(session, marks(f"note {kept}"), entry_seq=0)
        tag = marks(f"tag {kept}")
        store.notes.tag([session], [tag])
        (fact,) = store.facts.learn(marks(f"fact {kept}"), session=session, scope=f"session:{session.id}").facts
        if not kept:
            store.notes.delete_note(note.id)
            store.notes.untag([session], [tag])
            store.facts.edit(fact.id, marks("edited fact"))
            store.facts.retire(fact.id)
            store.journal.undo()
    (store.published.folder(session) / marks("file name")).write_text(marks("file"))
    store.published.publish(session, next(store.published.folder(session).iterdir()))


def test_a_purged_session_leaves_nothing(store: Store, tmp_path: Path, marks: Marks) -> None:
    session = store.create_session("s", system_prompt=marks("system prompt"), webhook=marks("webhook"))
    neighbour, its_marks = store.create_session("neighbour"), Marks()
    live(store, neighbour, its_marks)
    live(store, session, marks)
    traces = pieces(sealed for (sealed,) in store.rows("select sealed from secrets where session = ?", session.key))
    hidden = {"first secret", "second secret"}
    present = marks.places.keys() - hidden
    assert set(marks.found_in(raw(tmp_path) + said(store))) >= present - {"file name"}
    store.sessions.purge([session])
    left = raw(tmp_path)
    assert marks.found_in(left) == []
    assert marks.found_in(said(store)) == []
    assert [trace for trace in traces if trace in left] == []
    assert [store.search.find(f"mark{mark}") for mark in marks.places.values() if store.search.find(mark)[1]] == []
    assert set(its_marks.found_in(left + said(store))) >= its_marks.places.keys() - hidden - {"file name"}
    assert store.secrets.get(neighbour, "token") == f"mark{its_marks.places['second secret']}"


def test_of_many_sessions_the_purged_ones_are_in_no_table(store: Store) -> None:
    sessions = {store.create_session(f"session {n}"): Marks() for n in range(12)}
    for session, marks in sessions.items():
        live(store, session, marks)
    gone, kept = list(sessions)[::2], list(sessions)[1::2]
    both = Marks()
    store.notes.tag([gone[0], kept[0]], [both("shared tag")])
    store.facts.learn(both("taught by the one"), session=gone[0], scope=f"session:{kept[0].id}")
    theirs = Marks()
    store.facts.learn(theirs("told by another"), session=kept[0], scope=f"session:{gone[0].id}")
    fork = store.sessions.fork(kept[0], 1)
    store.sessions.purge(gone)
    left = said(store)
    assert [found for session in gone if (found := sessions[session].found_in(left))] == []
    assert theirs.found_in(left) == []
    assert set(both.found_in(left)) == set(both.places)
    assert store.chains.entries(fork.key)[1].text == store.chains.entries(kept[0].key)[1].text
    assert store.rows("pragma integrity_check") == [("ok",)]


def test_what_an_undone_edit_said_goes_with_the_session(store: Store, tmp_path: Path, marks: Marks) -> None:
    session = store.create_session("s")
    store.sessions.set_title(session, marks("title"))
    store.journal.undo()
    store.journal.undo(store.journal.list_edits()[0].id)
    assert marks.found_in(said(store)) == ["title"]
    store.sessions.purge([session])
    assert marks.found_in(raw(tmp_path) + said(store)) == []


# ── permissions ───────────────────────────────────────────────────────────────────────────────────


def test_everything_is_for_its_owner_only(home: Path) -> None:
    with Store.open() as store:
        session = store.create_session("s")
        store.secrets.set(session, "token", "v")
        store.published.folder(session)
        backup = create_backup(store.path, store.connection)
        store.secrets.rotate()
        store.connection.execute("vacuum")
        store.append_message("s", "user", "hello")
        made = {store.path, backup, key_file(), *(store.path.with_name(f"store.db-{end}") for end in ("wal", "shm"))}
        folders = {store.path.parent, backup.parent, key_file().parent, store.published.folder(session)}
        found = {path for folder in folders for path in folder.rglob("*")}
        assert {path for path in found if path.is_file()} == made
        assert {path: oct(mode) for path in made if (mode := stat.S_IMODE(path.stat().st_mode)) != 0o600} == {}
        folders |= {path for path in found if path.is_dir()}
        assert {path: oct(mode) for path in folders if (mode := stat.S_IMODE(path.stat().st_mode)) != 0o700} == {}
