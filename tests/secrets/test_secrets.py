"""These tests check secrets: their values, versions, undo, and that a sealed value is bound to its row."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.errors import (
    BadValue,
    ChangedMeanwhile,
    NotFound,
    NothingToUndo,
    Refused,
    SecretDamaged,
    WrongPassphrase,
)
from store.model.session import Session
from store.paths import key_file
from store.secrets import crypto
from store.store import Store


@pytest.fixture
def session(store: Store) -> Session:
    return store.create_session("telegram:648079060")


def versions(store: Store, key: str = "token") -> list[tuple[int, int]]:
    return store.rows("select version, current from secrets where key = ? order by version", key)


def sealed(store: Store, key: str = "token") -> list[bytes]:
    return [row[0] for row in store.rows("select sealed from secrets where key = ? order by version", key)]


def journal_text(store: Store) -> str:
    return "\n".join("\n".join(row) for row in store.rows("select kind, sessions, before, after from edits"))


# ── values ────────────────────────────────────────────────────────────────────────────────────────


def test_a_secret_can_be_read_back(store: Store, session: Session) -> None:
    store.set_secret(session.id, "token", "hunter2")
    assert store.get_secret(session.id, "token") == "hunter2"


@given(value=st.text(st.characters(codec=None), max_size=300))
def test_any_text_can_be_read_back(value: str) -> None:
    with Store.memory() as store:
        session = store.create_session("s")
        store.secrets.set(session, "token", value)
        assert store.secrets.get(session, "token") == value


@pytest.mark.parametrize("value", ["", "\0", "\ud800", "päss 𝄞\r\n", "x" * crypto.MAX_VALUE_BYTES])
def test_unusual_values_can_be_read_back(store: Store, session: Session, value: str) -> None:
    store.secrets.set(session, "token", value)
    assert store.secrets.get(session, "token") == value


def test_a_value_over_a_mebibyte_is_refused(store: Store, session: Session) -> None:
    with pytest.raises(BadValue, match="at most 1048576 bytes"):
        store.secrets.set(session, "token", "x" * (crypto.MAX_VALUE_BYTES + 1))
    assert store.secrets.names() == []


def test_only_text_is_accepted(store: Store, session: Session) -> None:
    with pytest.raises(BadValue, match="must be text, not bytes"):
        store.secrets.set(session, "token", b"hunter2")  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["", "a\0b", "a\nb", "a\x1b[2Jb", "a\x85b", "half \ud800", "x" * 1_001])
def test_a_name_that_cannot_be_shown_is_refused(store: Store, session: Session, key: str) -> None:
    for call in (
        lambda: store.secrets.set(session, key, "v"),
        lambda: store.secrets.get(session, key),
        lambda: store.secrets.remove(session, key),
    ):
        with pytest.raises(BadValue, match="name of the secret"):
            call()


@pytest.mark.parametrize("key", ["API_KEY", "a b", "пароль", "'; drop table secrets; --", '"]', "x" * 1_000])
def test_unusual_names_are_accepted(store: Store, session: Session, key: str) -> None:
    store.secrets.set(session, key, "one")
    store.secrets.set(session, key, "two")
    assert [name.key for name in store.secrets.names()] == [key]
    store.journal.undo()
    assert store.secrets.get(session, key) == "one"
    store.secrets.remove(session, key, forever=True)
    assert store.secrets.names() == []
    with pytest.raises(NothingToUndo):
        store.journal.undo()


def test_secrets_are_unique_per_session_and_name(store: Store, session: Session) -> None:
    other = store.create_session("discord:1")
    store.secrets.set(session, "token", "mine")
    store.secrets.set(other, "token", "theirs")
    store.secrets.set(session, "token", "mine again")
    assert store.secrets.get(session, "token") == "mine again"
    assert store.secrets.get(other, "token") == "theirs"
    assert [(name.session_id, name.key, name.version) for name in store.secrets.names()] == [
        ("discord:1", "token", 1),
        ("telegram:648079060", "token", 2),
    ]
    assert [name.version for name in store.secrets.names(session)] == [2]


def test_a_missing_secret_is_not_found(store: Store, session: Session) -> None:
    for call in (store.secrets.get, store.secrets.remove):
        with pytest.raises(NotFound, match=r"'telegram:648079060' has no secret 'token'"):
            call(session, "token")
    with pytest.raises(NotFound, match="has no secret"):
        store.secrets.remove(session, "token", forever=True)


def test_a_purged_session_cannot_get_a_secret(store: Store, session: Session) -> None:
    store.sessions.purge([session])
    with pytest.raises(NotFound):
        store.secrets.set(session, "token", "v")
    assert store.secrets.protection == "none"


def test_names_and_journal_contain_no_value(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "hunter2")
    store.secrets.set(session, "token", "hunter3")
    store.secrets.remove(session, "token")
    assert "hunter" not in repr(store.secrets.names()) + journal_text(store)
    for value in sealed(store):
        assert value.hex() not in journal_text(store)
    tables = {change.table: set(change.after or ()) for edit in store.journal.list_edits() for change in edit.changes}
    assert tables == {"secrets": {"current"}}


# ── versions and undo ─────────────────────────────────────────────────────────────────────────────


def test_undo_of_a_change_restores_the_older_version(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    store.secrets.set(session, "token", "two")
    assert store.journal.undo().kind == "set secret"
    assert store.secrets.get(session, "token") == "one"
    store.journal.undo()
    with pytest.raises(NotFound):
        store.secrets.get(session, "token")
    assert store.secrets.names() == []


def test_undo_of_a_removal_restores_the_secret(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    store.secrets.remove(session, "token")
    assert store.secrets.names() == []
    with pytest.raises(NotFound):
        store.secrets.get(session, "token")
    assert store.journal.undo().kind == "remove secret"
    assert store.secrets.get(session, "token") == "one"


def test_an_undo_can_be_undone(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    store.secrets.set(session, "token", "two")
    store.journal.undo()
    store.journal.undo(store.journal.list_edits()[0].id)
    assert store.secrets.get(session, "token") == "two"


def test_version_numbers_are_never_reused(store: Store, session: Session) -> None:
    for value in ("one", "two"):
        store.secrets.set(session, "token", value)
    store.journal.undo()
    store.secrets.set(session, "token", "three")
    store.secrets.remove(session, "token")
    store.secrets.set(session, "token", "four")
    assert versions(store) == [(1, 0), (2, 0), (3, 0), (4, 1)]


def test_an_undo_before_a_later_one_is_refused(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    store.secrets.set(session, "token", "two")
    first = store.journal.list_edits()[-1].id
    with pytest.raises(ChangedMeanwhile, match="was changed later"):
        store.journal.undo(first)
    assert store.secrets.get(session, "token") == "two"


def test_a_secret_that_is_removed_forever_cannot_be_restored(store: Store, session: Session) -> None:
    store.secrets.set(session, "other", "stays")
    store.secrets.set(session, "token", "one")
    store.secrets.set(session, "token", "two")
    store.secrets.remove(session, "token")
    edits = [edit.id for edit in store.journal.list_edits()[:3]]
    store.secrets.remove(session, "token", forever=True)
    assert versions(store) == []
    for edit in edits:
        with pytest.raises(Refused, match="its data was purged"):
            store.journal.undo(edit)
    assert "token" not in journal_text(store)
    assert store.journal.undo().changes[0].key == [session.key, "other", 1]


def test_after_removal_forever_version_numbers_start_again(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    store.secrets.remove(session, "token", forever=True)
    store.secrets.set(session, "token", "two")
    assert versions(store) == [(1, 1)]
    assert store.secrets.get(session, "token") == "two"


def test_a_failed_change_leaves_the_old_one(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    with pytest.raises(BadValue):
        store.secrets.set(session, "token", "x" * (crypto.MAX_VALUE_BYTES + 1))
    assert versions(store) == [(1, 1)]
    assert store.secrets.get(session, "token") == "one"


# ── bound to the row ──────────────────────────────────────────────────────────────────────────────


def test_a_sealed_value_opens_in_its_own_row_only(store: Store, session: Session) -> None:
    other = store.create_session("discord:1")
    for owner, key, value in ((session, "token", "a"), (session, "other", "b"), (other, "token", "c")):
        store.secrets.set(owner, key, value)
    store.secrets.set(session, "token", "newer")
    moved = store.row("select sealed from secrets where session = ? and key = 'token' and version = 1", session.key)
    store.connection.execute("update secrets set sealed = ?", moved)
    for owner, key in ((session, "token"), (session, "other"), (other, "token")):
        with pytest.raises(SecretDamaged):
            store.secrets.get(owner, key)


def test_a_sealed_value_opens_in_its_own_store_only(store: Store, session: Session, tmp_path: Path) -> None:
    store.secrets.set(session, "token", "one")
    with Store.open(tmp_path / "other.db") as other:
        other_session = other.create_session(session.id)
        other.secrets.set(other_session, "token", "two")
        other.connection.execute("update secrets set sealed = ?", (sealed(store)[0],))
        with pytest.raises(SecretDamaged):
            other.secrets.get(other_session, "token")
        for column in ("key_id", "wrapped"):
            value = store.row(f"select {column} from vault")
            other.connection.execute(f"update vault set {column} = ?", value)
        with pytest.raises(WrongPassphrase):
            other.secrets.get(other_session, "token")


# ── threads and processes ─────────────────────────────────────────────────────────────────────────


def test_threads_share_the_key_and_lose_nothing(store: Store, session: Session) -> None:
    def work(n: int) -> list[str]:
        for value in range(10):
            store.secrets.set(session, f"key {n}", f"{n} {value}")
        return [store.secrets.get(session, f"key {n}")]

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, range(6))) == [[f"{n} 9"] for n in range(6)]
    assert store.row("select count(*), count(distinct version) from secrets") == (60, 10)
    assert store.row("select count(*) from vault") == (1,)
    assert store.secrets.verify() == []


def test_no_error_and_no_repr_shows_a_key(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "hunter2")
    store.secrets.get(session, "token")
    key = key_file().read_bytes()
    unwrapped = store.secrets._vault._unwrapped
    assert unwrapped is not None
    assert unwrapped.kek == key
    shown = repr(store.secrets) + repr(unwrapped) + repr(vars(store.secrets._vault))
    assert repr(key)[2:-1] not in shown


def test_sqlite_itself_refuses_two_current_versions(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    store.secrets.set(session, "token", "two")
    with pytest.raises(sqlite3.IntegrityError):
        store.connection.execute("update secrets set current = 1")
