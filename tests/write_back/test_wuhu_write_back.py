"""Edits carried back into Wuhu's store: a title where the version has one, a deletion that passes its foreign keys."""

from __future__ import annotations

from pathlib import Path

import pytest
from write_back_roundtrip import WriteBackCase, check_round_trip
from wuhu_database import LAYOUTS, WuhuStore, assistant, call, compaction, message, result, text, user

from store.errors import ChangedMeanwhile, StoreError, WriteFailed
from store.sources.kit.write_plan import RowChange
from store.store import Store

WITH_TITLES = ["v5_archive", "v6_mounts", "v7_runner", "v8_cost_limit"]


def made(path: Path, layout: str = "v7_runner") -> WuhuStore:
    owner = WuhuStore(path, layout)
    owner.add_session("s")
    owner.add_session("other")
    for words in ("one", "two", "three"):
        owner.append_entry(user(words), "s")
        owner.append_entry(user(words), "other")
    owner.append_entry(assistant(text("Reading."), call()))
    owner.append_entry(result(text("a.go")))
    return owner


@pytest.fixture
def owner(tmp_path: Path) -> WuhuStore:
    return made(tmp_path / "wuhu.sqlite")


@pytest.fixture
def world(store: Store, owner: WuhuStore) -> WriteBackCase:
    return WriteBackCase(store, owner.path)


@pytest.mark.parametrize("layout", WITH_TITLES)
def test_a_title(store: Store, tmp_path: Path, layout: str) -> None:
    world = WriteBackCase(store, made(tmp_path / "wuhu.sqlite", layout).path).set_title()
    assert check_round_trip(world).plan.changes == [
        RowChange("sessions", {"id": "s"}, {"customTitle": None}, {"customTitle": "Mine"})
    ]


@pytest.mark.parametrize("layout", [layout for layout in LAYOUTS if layout not in WITH_TITLES])
def test_an_older_version_has_no_place_for_a_title(store: Store, tmp_path: Path, layout: str) -> None:
    plan = WriteBackCase(store, made(tmp_path / "wuhu.sqlite", layout).path).set_title().preview().plan
    assert plan.changes == []
    assert plan.unsupported == ["This version of Wuhu has no place for a title; yours stays here."]


def test_summaries_and_secrets_have_no_place(world: WriteBackCase, owner: WuhuStore) -> None:
    owner.append_entry(compaction("They began.", 2))
    world.sync()
    world.store.secrets.set(world.session, "token", "hush")
    world.store.secrets.lock()
    assert check_round_trip(world.set_title().set_summary()).plan.unsupported == [
        "Wuhu keeps its summaries inside the chain, which is never rewritten; yours stays here.",
        "Wuhu has no place for secrets; they stay here.",
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_deletion_from_the_tail(store: Store, tmp_path: Path, layout: str) -> None:
    owner = made(tmp_path / "wuhu.sqlite", layout)
    tables = {table for table in ("user_queue_pending", "tool_call_status", "mounts") if table in _tables(owner)}
    for table in tables:
        owner.execute(HANGING[table])
    changes = check_round_trip(WriteBackCase(store, owner.path).delete_session()).plan.changes
    entries = [change.key["id"] for change in changes if change.table == "session_entries"]
    assert entries == sorted(entries, reverse=True)
    assert len(entries) == 6
    assert {change.table for change in changes} == tables | {"session_entries", "sessions"}
    assert changes[-1].table == "sessions"


HANGING = {
    "user_queue_pending": "insert into user_queue_pending values ('q', 's', 'steer', '2026-03-04', x'7b7d')",
    "tool_call_status": "insert into tool_call_status values ('s', 't1', 'started', '2026-03-04', '2026-03-04')",
    "mounts": "insert into mounts (id, sessionID, name, path, createdAt) values ('m', 's', 'app', '/', '2026-03-04')",
}


def _tables(owner: WuhuStore) -> set[str]:
    with owner.open() as db:
        return {name for (name,) in db.execute("select name from sqlite_master")}


def test_an_entry_goes_before_the_one_that_holds_it_whatever_their_numbers(store: Store, owner: WuhuStore) -> None:
    owner.append_entry(user("four"), number=1000)
    owner.append_entry(user("five"), number=500)
    owner.append_entry(user("six"), number=700)
    changes = check_round_trip(WriteBackCase(store, owner.path).delete_session()).plan.changes
    assert [change.key["id"] for change in changes][:3] == [700, 500, 1000]


def test_a_chain_that_bites_its_own_tail_cannot_be_deleted_and_nothing_is(store: Store, owner: WuhuStore) -> None:
    first, second = (owner.append_entry(user(words)) for words in ("four", "five"))
    owner.execute(f"update session_entries set parentEntryID = {second} where id = {first}")
    owner.execute("update sessions set tailEntryID = headEntryID where id = 's'")
    world = WriteBackCase(store, owner.path, is_readable=False)
    before = world.delete_session().foreign_rows()
    with pytest.raises(WriteFailed, match="nothing was changed there: FOREIGN KEY constraint failed"):
        world.write()
    assert world.foreign_rows() == before


def test_images_stay_as_files_and_that_is_said(store: Store, owner: WuhuStore) -> None:
    (owner.path.parent / "blobs/s").mkdir(parents=True)
    (owner.path.parent / "blobs/s/sha256-00.png").touch()
    image = {"type": "image", "blobURI": "blob://s/sha256-00.png", "mimeType": "image/png"}
    owner.append_entry(message("user", [image], user="ana"))
    world = WriteBackCase(store, owner.path)
    assert world.delete_session().preview().plan.unsupported == [
        "The session's images are files of their own; they stay in Wuhu's folder of blobs."
    ]


def test_a_session_that_wuhu_runs_is_left_alone(world: WriteBackCase, owner: WuhuStore) -> None:
    owner.execute("update sessions set executionStatus = 'running' where id = 's'")
    for wanted in (world.set_title(), world.delete_session()):
        before = wanted.foreign_rows()
        with pytest.raises(ChangedMeanwhile, match="Wuhu is running this session"):
            wanted.write()
        assert wanted.foreign_rows() == before


def test_what_was_changed_there_since_it_was_read_is_refused(world: WriteBackCase, owner: WuhuStore) -> None:
    world.set_title()
    owner.execute("update sessions set customTitle = 'Theirs' where id = 's'")
    before = world.foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="customTitle of sessions was changed there"):
        world.write()
    assert world.foreign_rows() == before


def test_what_was_said_after_the_deletion_was_shown_is_never_lost(world: WriteBackCase, owner: WuhuStore) -> None:
    preview = world.delete_session().preview()
    owner.append_user_messages("wait!")
    before = world.foreign_rows()
    with pytest.raises(StoreError):
        world.store.write_back.write(preview)
    assert world.foreign_rows() == before
