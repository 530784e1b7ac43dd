"""These tests change the foreign row of a session: its header follows, and the older versions are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from foreign_databases import PINGU_SCHEMA, add_pingu_session, add_pingu_turn, execute_sql, make_database, sync_paths
from kiso_database import DOCUMENT_SCHEMA, KisoStore
from wuhu_database import WuhuStore

from store.doctor import check_store
from store.model.session import Session
from store.store import Store
from store.text.validate import decode


def read_header(store: Store, session: Session) -> Any:
    record = store.chains.entry(session.key, -1).record
    assert record is not None
    return decode(store.records.get(record))


def read_versions(store: Store, session: Session) -> list[Any]:
    return [decode(data) for data in store.records.header_versions(session.key)]


@pytest.fixture
def kiso(tmp_path: Path) -> KisoStore:
    agent = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    agent.add_session("dev", webhook="https://one.example/hook", summary="They began.")
    agent.add_message("hello")
    return agent


def test_a_new_webhook(store: Store, kiso: KisoStore) -> None:
    kiso.sync(store)
    session = store.sessions.find("dev")
    head = store.chains.entry(session.key, -1)
    for name in ("two", "three"):
        kiso.execute("update sessions set webhook = ?", [f"https://{name}.example/hook"])
        kiso.sync(store)
    assert store.sessions.find("dev").webhook == read_header(store, session)["webhook"] == "https://three.example/hook"
    versions = ["https://one.example/hook", "https://two.example/hook"]
    assert [version["webhook"] for version in read_versions(store, session)] == versions
    assert store.chains.entry(session.key, -1)[:5] == head[:5]
    assert store.sessions.find("dev").entries == 1
    assert check_store(store) == []


def test_a_new_tail(store: Store, tmp_path: Path) -> None:
    owner = WuhuStore(tmp_path / "wuhu.sqlite")
    owner.add_session("s")
    owner.append_user_messages("one")
    sync_paths(store, owner.path)
    session = store.sessions.find("s")
    first = read_header(store, session)["sessions"]["tailEntryID"]
    owner.append_user_messages("two")
    sync_paths(store, owner.path)
    assert read_header(store, session)["sessions"]["tailEntryID"] == first + 1
    assert [version["sessions"]["tailEntryID"] for version in read_versions(store, session)] == [first]
    assert [entry.text for entry in store.chains.entries(session.key, 0)] == ["one", "two"]
    assert check_store(store) == []


def test_a_new_title_of_pingu(store: Store, tmp_path: Path) -> None:
    path = make_database(tmp_path / "pingu.db", PINGU_SCHEMA)
    add_pingu_session(path, "s", ("hello", {"output": []}), title="Old")
    sync_paths(store, path)
    session = store.sessions.find("s")
    execute_sql(path, "update sessions set title = 'New'")
    sync_paths(store, path)
    assert (read_header(store, session)["title"], read_versions(store, session)[0]["title"]) == ("New", "Old")


def test_an_unchanged_row_has_one_version(store: Store, tmp_path: Path) -> None:
    path = make_database(tmp_path / "pingu.db", PINGU_SCHEMA)
    add_pingu_session(path, "s", ("hello", {"output": []}), title="Old")
    for number in range(3):
        add_pingu_turn(path, f"more {number}", {"output": []})
        sync_paths(store, path)
    assert read_versions(store, store.sessions.find("s")) == []


def test_a_row_that_returns_to_an_older_version(store: Store, kiso: KisoStore) -> None:
    kiso.sync(store)
    for name in ("two", "one"):
        kiso.execute("update sessions set webhook = ?", [f"https://{name}.example/hook"])
        kiso.sync(store)
    session = store.sessions.find("dev")
    assert read_header(store, session)["webhook"] == "https://one.example/hook"
    assert len(read_versions(store, session)) == 2


def test_versions_in_blocks(store: Store, kiso: KisoStore) -> None:
    """Large sessions have their records in compressed blocks."""
    for number in range(200):
        kiso.add_message(f"message {number} " + "x" * 4000)
    kiso.sync(store)
    session = store.sessions.find("dev")
    for name in ("two", "three"):
        kiso.execute("update sessions set webhook = ?", [f"https://{name}.example/hook"])
        kiso.sync(store)
        store.records.pack_loose_records(session.key)
    assert len(read_versions(store, session)) == 2
    assert read_header(store, session)["webhook"] == "https://three.example/hook"
    assert check_store(store) == []


def test_a_purge_deletes_every_version(store: Store, kiso: KisoStore, tmp_path: Path) -> None:
    kiso.sync(store)
    kiso.execute("update sessions set webhook = 'https://two.example/hook'")
    kiso.sync(store)
    store.sessions.purge([store.sessions.find("dev")])
    assert store.rows("select key from records") == []
    store.close()
    assert b"one.example" not in b"".join(path.read_bytes() for path in tmp_path.glob("store.db*") if path.is_file())


def test_the_library_s_own_sessions_have_no_versions(store: Store) -> None:
    session = store.create_session("s")
    store.append_message("s", "user", "hello")
    store.update_session("s", webhook="https://one.example/hook")
    assert read_versions(store, session) == []


def test_damage_of_an_older_version_is_found(store: Store, kiso: KisoStore) -> None:
    kiso.sync(store)
    kiso.execute("update sessions set webhook = 'https://two.example/hook'")
    kiso.sync(store)
    store.connection.execute(
        "update records set data = zeroblob(length(data)) where key = (select max(key) from records)"
    )
    assert [finding.what for finding in check_store(store)] == ["Its data was changed."]
