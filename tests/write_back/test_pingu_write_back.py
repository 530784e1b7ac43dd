"""Edits carried back into Pingu's store: title, summary with its coverage, memories, deletion; its program may run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from foreign_databases import (
    AT,
    PINGU_MEMORIES_SCHEMA,
    PINGU_SCHEMA,
    add_pingu_session,
    execute_sql,
    insert_row,
    make_database,
    pingu_native_response,
)
from write_back_roundtrip import WriteBackCase, check_round_trip, dump_tables

from store.errors import ChangedMeanwhile
from store.sources.kit.write_plan import RowChange
from store.store import Store

EMBEDDING = b"\x00\x00\x80\x3f\xff"


def answer(text: str) -> dict[str, object]:
    return pingu_native_response({"type": "message", "content": text})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = make_database(tmp_path / "pingu.db", PINGU_SCHEMA + PINGU_MEMORIES_SCHEMA, wal=True)
    turns = [(f"question {n}", answer(f"answer {n}")) for n in range(1, 5)]
    add_pingu_session(path, "other", ("hello", answer("hi")), title="Other")
    add_pingu_session(path, "s", *turns, summary="They began.", summary_up_to="3")
    memories = {"content_hash": "old", "embedding": EMBEDDING, "created_at": AT, "updated_at": AT}
    insert_row(path, "memories", id=1, content="Runs Debian", category="core", **memories)
    insert_row(path, "memories", id=2, session_id="s", content="Asked of disks", **memories)
    insert_row(path, "memories", id=3, session_id="other", content="Said hello", **memories)
    return path


@pytest.fixture
def world(store: Store, path: Path) -> WriteBackCase:
    return WriteBackCase(store, path)


def test_a_title(world: WriteBackCase) -> None:
    preview = check_round_trip(world.set_title())
    assert preview.plan.changes == [RowChange("sessions", {"id": "s"}, {"title": None}, {"title": "Mine"})]


def test_a_summary_with_its_coverage(world: WriteBackCase) -> None:
    (third,) = [row["id"] for row in world.foreign_rows()["turns"] if row["user_message"] == "question 3"]
    (change,) = check_round_trip(world.set_summary("They went on.", up_to_turn=3)).plan.changes
    assert change.before == {"summary": "They began.", "summary_up_to": "3"}
    assert change.after == {"summary": "They went on.", "summary_up_to": str(third)}


def test_a_summary_that_does_not_say_how_far_it_goes_keeps_the_coverage(world: WriteBackCase) -> None:
    (change,) = check_round_trip(world.set_summary("They went on.")).plan.changes
    assert change.after == {"summary": "They went on.", "summary_up_to": "3"}


def test_a_summary_of_nothing_yet(world: WriteBackCase) -> None:
    (change,) = check_round_trip(world.set_summary("Nothing yet.", up_to_turn=0)).plan.changes
    assert change.after == {"summary": "Nothing yet.", "summary_up_to": "0"}


def test_another_coverage_of_the_same_summary(world: WriteBackCase) -> None:
    (change,) = check_round_trip(world.set_summary("They began.", up_to_turn=1)).plan.changes
    assert change.after == {"summary": "They began.", "summary_up_to": "2"}


def test_a_summary_taken_away(world: WriteBackCase) -> None:
    (change,) = check_round_trip(world.set_summary("")).plan.changes
    assert change.after == {"summary": None, "summary_up_to": None}


def test_an_older_summary_put_back(world: WriteBackCase) -> None:
    world.set_summary("Mine.")
    world.write()
    execute_sql(world.path, "update sessions set summary = 'Theirs, newer.' where id = 's'")
    world.sync()
    first = world.store.summaries.history(world.session)[-1]
    world.store.summaries.restore_version(world.session, first.key)
    (change,) = check_round_trip(world).plan.changes
    assert (change.before or {})["summary"] == "Theirs, newer."
    assert (change.after or {})["summary"] == "They began."


def test_what_was_carried_back_is_no_newer_summary_of_the_source_s(world: WriteBackCase) -> None:
    world.set_summary("Mine.")
    world.write()
    world.sync()
    assert world.store.summaries.newer_from_source(world.session) is None
    execute_sql(world.path, "update sessions set summary = 'Theirs, newer.' where id = 's'")
    world.sync()
    newer = world.store.summaries.newer_from_source(world.session)
    assert newer is not None
    assert newer.text == "Theirs, newer."
    current = world.store.summaries.current(world.session)
    assert current is not None
    assert current.text == "Mine."


def test_a_corrected_memory_loses_the_embedding_of_its_old_words(world: WriteBackCase) -> None:
    world.store.facts.edit(world.fact_id("Runs Debian"), "Runs Debian 13")
    (change,) = check_round_trip(world).plan.changes
    digest = hashlib.sha256(b"Runs Debian 13").hexdigest()
    assert change == RowChange(
        "memories",
        {"id": 1},
        {"content": "Runs Debian", "embedding": EMBEDDING, "content_hash": "old"},
        {"content": "Runs Debian 13", "embedding": None, "content_hash": digest},
    )


def test_a_retired_memory(world: WriteBackCase) -> None:
    world.store.facts.retire(world.fact_id("Asked of disks"))
    (change,) = check_round_trip(world).plan.changes
    assert (change.table, change.key, change.after) == ("memories", {"id": 2}, None)


def test_a_memory_of_another_session_s_own_stays_for_its_own_write_back(world: WriteBackCase) -> None:
    world.store.facts.edit(world.fact_id("Said hello"), "Said good day")
    assert world.preview().plan.changes == []
    assert [change.key for change in WriteBackCase(world.store, world.path, "other").preview().plan.changes] == [
        {"id": 3}
    ]


def test_a_deleted_session_goes_with_its_turns_and_memories(world: WriteBackCase) -> None:
    changes = check_round_trip(world.delete_session()).plan.changes
    assert [change.table for change in changes] == ["memories", "turns", "turns", "turns", "turns", "sessions"]


def test_a_deletion_leaves_the_others_alone(world: WriteBackCase) -> None:
    world.delete_session().write()
    left = world.foreign_rows()
    assert [row["id"] for row in left["sessions"]] == ["other"]
    assert [row["session_id"] for row in left["turns"]] == ["other"]
    assert sorted(row["id"] for row in left["memories"]) == [1, 3]
    assert world.session.gone


def test_what_hangs_on_a_session_in_a_later_version_is_shown_and_comes_back(store: Store, path: Path) -> None:
    execute_sql(path, "create table reactions (turn integer references turns(id) on delete cascade, face text)")
    execute_sql(path, "insert into reactions select id, 'smile' from turns where session_id = 's'")
    changes = check_round_trip(WriteBackCase(store, path).delete_session()).plan.changes
    assert [change.table for change in changes].count("reactions") == 4


def test_all_at_once_is_one_edit(world: WriteBackCase) -> None:
    world.set_title().set_summary()
    world.store.facts.retire(world.fact_id("Runs Debian"))
    world.store.facts.edit(world.fact_id("Asked of disks"), "Asked of mice")
    assert len(check_round_trip(world).plan.changes) == 4


def test_secrets_have_no_place(world: WriteBackCase) -> None:
    world.store.secrets.set(world.session, "token", "hush")
    world.store.secrets.lock()
    preview = check_round_trip(world.set_title())
    assert preview.plan.unsupported == ["Pingu has no place for secrets; they stay here."]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("update sessions set title = 'Theirs' where id = 's'", "title of sessions was changed there"),
        ("update sessions set summary = 'Theirs' where id = 's'", "newer summary"),
        ("update memories set content = 'Theirs' where id = 1", "memories 1 was changed there"),
        ("update memories set content = 'Theirs' where id = 2", "memories 2 was changed there"),
        ("delete from sessions where id = 's'", "does not have the session 's' any more"),
    ],
)
def test_what_was_changed_there_since_it_was_read_is_refused(world: WriteBackCase, statement: str, words: str) -> None:
    world.set_title().set_summary()
    world.store.facts.edit(world.fact_id("Runs Debian"), "Runs Debian 13")
    world.store.facts.retire(world.fact_id("Asked of disks"))
    execute_sql(world.path, statement)
    before, edits = world.foreign_rows(), world.newest_edit()
    with pytest.raises(ChangedMeanwhile, match=words):
        world.write()
    assert world.foreign_rows() == before
    assert world.newest_edit() == edits


@pytest.mark.parametrize("change", ["title = 'Theirs'", "summary = 'Theirs'", "summary_up_to = '1'"])
def test_what_is_changed_there_after_it_was_shown_is_refused(world: WriteBackCase, change: str) -> None:
    preview = world.set_title().set_summary().preview()
    execute_sql(world.path, f"update sessions set {change} where id = 's'")
    before, edits = world.foreign_rows(), world.newest_edit()
    with pytest.raises(ChangedMeanwhile, match=r"sessions s in .* has changed, so nothing was written"):
        world.store.write_back.write(preview)
    assert world.foreign_rows() == before
    assert world.newest_edit() == edits
    assert world.session.agent_title == ""


def test_a_sync_settles_what_was_changed_there(world: WriteBackCase) -> None:
    world.set_title()
    execute_sql(world.path, "update sessions set title = 'Theirs' where id = 's'")
    world.sync()
    assert check_round_trip(world).plan.changes[0].before == {"title": "Theirs"}


def test_who_came_to_say_the_same_there_is_no_conflict(world: WriteBackCase) -> None:
    world.set_title()
    world.store.facts.edit(world.fact_id("Runs Debian"), "Runs Debian 13")
    world.set_summary("In short.")
    execute_sql(world.path, "update sessions set title = 'Mine', summary = 'In short.' where id = 's'")
    execute_sql(world.path, "update memories set content = 'Runs Debian 13' where id = 1")
    plan = world.preview().plan
    assert (plan.changes, plan.conflicts) == ([], [])


def test_a_memory_that_is_not_there_any_more_is_said(world: WriteBackCase) -> None:
    fact = world.fact_id("Runs Debian")
    world.store.facts.edit(fact, "Runs Debian 13")
    world.set_title()
    execute_sql(world.path, "delete from memories where id = 1")
    assert check_round_trip(world).plan.unsupported == [
        "memories 1 is not there any more; your correction of it stays here."
    ]
    world.write()
    world.sync()
    assert world.store.facts.get(fact).retired_at is None


def test_a_memory_that_is_gone_need_not_be_retired(world: WriteBackCase) -> None:
    world.store.facts.retire(world.fact_id("Runs Debian"))
    execute_sql(world.path, "delete from memories where id = 1")
    plan = world.preview().plan
    assert (plan.changes, plan.unsupported, plan.conflicts) == ([], [], [])


def test_a_fact_that_comes_back_stands_again(world: WriteBackCase) -> None:
    fact = world.fact_id("Asked of disks")
    world.delete_session().write()
    world.sync()
    assert world.store.facts.get(fact).retired_at is not None
    world.store.journal.undo()
    world.sync()
    assert world.store.facts.get(fact).retired_at is None
    assert world.store.facts.get(fact).text == "Asked of disks"


def test_the_first_layout_has_no_memories(store: Store, tmp_path: Path) -> None:
    path = make_database(tmp_path / "first.db", PINGU_SCHEMA, wal=True)
    add_pingu_session(path, "s", ("hello", answer("hi")))
    check_round_trip(WriteBackCase(store, path).set_title().set_summary(up_to_turn=1))


def test_a_title_that_is_no_text_is_compared_as_it_was_read(store: Store, tmp_path: Path) -> None:
    path = make_database(tmp_path / "pingu.db", PINGU_SCHEMA)
    add_pingu_session(path, "s", ("hello", answer("hi")), title=b"in \xff bytes")
    (change,) = check_round_trip(WriteBackCase(store, path).set_title()).plan.changes
    assert change.before == {"title": b"in \xff bytes"}


def test_numbers_that_json_cannot_spell_come_back(store: Store, path: Path) -> None:
    execute_sql(path, "alter table turns add column cost real")
    execute_sql(path, "update turns set cost = 9e999")
    check_round_trip(WriteBackCase(store, path).delete_session())
    assert {row["cost"] for row in dump_tables(path)["turns"]} == {float("inf")}
