"""These tests write edits back to Wuhu's store: titles where its version has them, and deletions."""

from __future__ import annotations

from pathlib import Path

import pytest
from write_back_roundtrip import WriteBackCase, check_round_trip
from wuhu_database import LAYOUTS, WuhuStore, assistant, call, compaction, message, result, text, user

from store.errors import ChangedMeanwhile, StoreError, WriteFailed
from store.sources.kit.write_plan import RowChange
from store.store import Store

WITH_TITLES = ["v5_archive", "v6_mounts", "v7_runner", "v8_cost_limit"]


def make_wuhu_store(path: Path, layout: str = "v7_runner") -> WuhuStore:
    owner = WuhuStore(path, layout)
    owner.add_session("s")
    owner.add_session("other")
    for prompt in ("one", "two", "three"):
        owner.append_entry(user(prompt), "s")
        owner.append_entry(user(prompt), "other")
    owner.append_entry(assistant(text("Reading."), call()))
    owner.append_entry(result(text("a.go")))
    return owner


@pytest.fixture
def owner(tmp_path: Path) -> WuhuStore:
    return make_wuhu_store(tmp_path / "wuhu.sqlite")


@pytest.fixture
def case(store: Store, owner: WuhuStore) -> WriteBackCase:
    return WriteBackCase(store, owner.path)


@pytest.mark.parametrize("layout", WITH_TITLES)
def test_a_title(store: Store, tmp_path: Path, layout: str) -> None:
    case = WriteBackCase(store, make_wuhu_store(tmp_path / "wuhu.sqlite", layout).path).set_title()
    assert check_round_trip(case).plan.changes == [
        RowChange("sessions", {"id": "s"}, {"customTitle": None}, {"customTitle": "Mine"})
    ]


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout not in WITH_TITLES])
def test_titles_are_unsupported_in_older_versions(store: Store, tmp_path: Path, layout: str) -> None:
    plan = WriteBackCase(store, make_wuhu_store(tmp_path / "wuhu.sqlite", layout).path).set_title().preview().plan
    assert plan.changes == []
    assert plan.unsupported == ["This version of Wuhu cannot store a title. Your title stays in Backscroll."]


def test_summaries_and_secrets_are_unsupported(case: WriteBackCase, owner: WuhuStore) -> None:
    owner.append_entry(compaction("They began.", 2))
    case.sync()
    case.store.secrets.set(case.session, "token", "hush")
    case.store.secrets.lock()
    assert check_round_trip(case.set_title().set_summary()).plan.unsupported == [
        "Wuhu keeps summaries inside the chain, which is never rewritten. Your summary stays in Backscroll.",
        "Wuhu cannot store secrets. They stay in Backscroll.",
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_deletion_starts_at_the_tail(store: Store, tmp_path: Path, layout: str) -> None:
    owner = make_wuhu_store(tmp_path / "wuhu.sqlite", layout)
    tables = {table for table in ("user_queue_pending", "tool_call_status", "mounts") if table in _list_tables(owner)}
    for table in tables:
        owner.execute(DEPENDENT_ROWS[table])
    changes = check_round_trip(WriteBackCase(store, owner.path).delete_session()).plan.changes
    entries = [change.key["id"] for change in changes if change.table == "session_entries"]
    assert entries == sorted(entries, reverse=True)
    assert len(entries) == 6
    assert {change.table for change in changes} == tables | {"session_entries", "sessions"}
    assert changes[-1].table == "sessions"


DEPENDENT_ROWS = {
    "user_queue_pending": "insert into user_queue_pending values ('q', 's', 'steer', '2026-03-04', x'7b7d')",
    "tool_call_status": "insert into tool_call_status values ('s', 't1', 'started', '2026-03-04', '2026-03-04')",
    "mounts": "insert into mounts (id, sessionID, name, path, createdAt) values ('m', 's', 'app', '/', '2026-03-04')",
}


def _list_tables(owner: WuhuStore) -> set[str]:
    with owner.open() as db:
        return {name for (name,) in db.execute("select name from sqlite_master")}


def test_an_entry_is_deleted_before_its_parent_in_any_order_of_ids(store: Store, owner: WuhuStore) -> None:
    owner.append_entry(user("four"), number=1000)
    owner.append_entry(user("five"), number=500)
    owner.append_entry(user("six"), number=700)
    changes = check_round_trip(WriteBackCase(store, owner.path).delete_session()).plan.changes
    assert [change.key["id"] for change in changes][:3] == [700, 500, 1000]


def test_a_cyclic_chain_cannot_be_deleted(store: Store, owner: WuhuStore) -> None:
    first, second = (owner.append_entry(user(prompt)) for prompt in ("four", "five"))
    owner.execute(f"update session_entries set parentEntryID = {second} where id = {first}")
    owner.execute("update sessions set tailEntryID = headEntryID where id = 's'")
    case = WriteBackCase(store, owner.path, is_readable=False)
    before = case.delete_session().foreign_rows()
    with pytest.raises(WriteFailed, match=r"FOREIGN KEY constraint failed. Nothing was changed there"):
        case.write()
    assert case.foreign_rows() == before


def test_image_files_stay_and_are_reported(store: Store, owner: WuhuStore) -> None:
    (owner.path.parent / "blobs/s").mkdir(parents=True)
    (owner.path.parent / "blobs/s/sha256-00.png").touch()
    image = {"type": "image", "blobURI": "blob://s/sha256-00.png", "mimeType": "image/png"}
    owner.append_entry(message("user", [image], user="ana"))
    case = WriteBackCase(store, owner.path)
    assert case.delete_session().preview().plan.unsupported == [
        "The images of the session are separate files; they stay in Wuhu's blobs folder."
    ]


def test_a_running_session_is_refused(case: WriteBackCase, owner: WuhuStore) -> None:
    owner.execute("update sessions set executionStatus = 'running' where id = 's'")
    for edited_case in (case.set_title(), case.delete_session()):
        before = edited_case.foreign_rows()
        with pytest.raises(ChangedMeanwhile, match="Wuhu is running this session"):
            edited_case.write()
        assert edited_case.foreign_rows() == before


def test_a_foreign_change_since_the_sync_is_refused(case: WriteBackCase, owner: WuhuStore) -> None:
    case.set_title()
    owner.execute("update sessions set customTitle = 'Theirs' where id = 's'")
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="customTitle of sessions was changed in the agent's store"):
        case.write()
    assert case.foreign_rows() == before


def test_messages_after_the_preview_of_a_deletion_stop_it(case: WriteBackCase, owner: WuhuStore) -> None:
    preview = case.delete_session().preview()
    owner.append_user_messages("wait!")
    before = case.foreign_rows()
    with pytest.raises(StoreError):
        case.store.write_back.write(preview)
    assert case.foreign_rows() == before
