"""These tests write edits back to Pingu's store: title, summary with its coverage, memories, deletion."""

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
def case(store: Store, path: Path) -> WriteBackCase:
    return WriteBackCase(store, path)


def test_a_title(case: WriteBackCase) -> None:
    preview = check_round_trip(case.set_title())
    assert preview.plan.changes == [RowChange("sessions", {"id": "s"}, {"title": None}, {"title": "Mine"})]


def test_a_summary_with_its_coverage(case: WriteBackCase) -> None:
    (third,) = [row["id"] for row in case.foreign_rows()["turns"] if row["user_message"] == "question 3"]
    (change,) = check_round_trip(case.set_summary("They went on.", up_to_turn=3)).plan.changes
    assert change.before == {"summary": "They began.", "summary_up_to": "3"}
    assert change.after == {"summary": "They went on.", "summary_up_to": str(third)}


def test_a_summary_without_a_coverage_keeps_the_old_one(case: WriteBackCase) -> None:
    (change,) = check_round_trip(case.set_summary("They went on.")).plan.changes
    assert change.after == {"summary": "They went on.", "summary_up_to": "3"}


def test_a_summary_of_nothing_yet(case: WriteBackCase) -> None:
    (change,) = check_round_trip(case.set_summary("Nothing yet.", up_to_turn=0)).plan.changes
    assert change.after == {"summary": "Nothing yet.", "summary_up_to": "0"}


def test_another_coverage_of_the_same_summary(case: WriteBackCase) -> None:
    (change,) = check_round_trip(case.set_summary("They began.", up_to_turn=1)).plan.changes
    assert change.after == {"summary": "They began.", "summary_up_to": "2"}


def test_a_removed_summary(case: WriteBackCase) -> None:
    (change,) = check_round_trip(case.set_summary("")).plan.changes
    assert change.after == {"summary": None, "summary_up_to": None}


def test_a_restored_older_summary(case: WriteBackCase) -> None:
    case.set_summary("Mine.")
    case.write()
    execute_sql(case.path, "update sessions set summary = 'Theirs, newer.' where id = 's'")
    case.sync()
    first = case.store.summaries.history(case.session)[-1]
    case.store.summaries.restore_version(case.session, first.key)
    (change,) = check_round_trip(case).plan.changes
    assert (change.before or {})["summary"] == "Theirs, newer."
    assert (change.after or {})["summary"] == "They began."


def test_a_written_summary_is_not_a_newer_one_of_the_source(case: WriteBackCase) -> None:
    case.set_summary("Mine.")
    case.write()
    case.sync()
    assert case.store.summaries.newer_from_source(case.session) is None
    execute_sql(case.path, "update sessions set summary = 'Theirs, newer.' where id = 's'")
    case.sync()
    newer = case.store.summaries.newer_from_source(case.session)
    assert newer is not None
    assert newer.text == "Theirs, newer."
    current = case.store.summaries.current(case.session)
    assert current is not None
    assert current.text == "Mine."


def test_an_edited_memory_loses_the_embedding_of_its_old_text(case: WriteBackCase) -> None:
    case.store.facts.edit(case.fact_id("Runs Debian"), "Runs Debian 13")
    (change,) = check_round_trip(case).plan.changes
    digest = hashlib.sha256(b"Runs Debian 13").hexdigest()
    assert change == RowChange(
        "memories",
        {"id": 1},
        {"content": "Runs Debian", "embedding": EMBEDDING, "content_hash": "old"},
        {"content": "Runs Debian 13", "embedding": None, "content_hash": digest},
    )


def test_a_retired_memory(case: WriteBackCase) -> None:
    case.store.facts.retire(case.fact_id("Asked of disks"))
    (change,) = check_round_trip(case).plan.changes
    assert (change.table, change.key, change.after) == ("memories", {"id": 2}, None)


def test_a_memory_of_another_session_is_written_with_that_session(case: WriteBackCase) -> None:
    case.store.facts.edit(case.fact_id("Said hello"), "Said good day")
    assert case.preview().plan.changes == []
    assert [change.key for change in WriteBackCase(case.store, case.path, "other").preview().plan.changes] == [
        {"id": 3}
    ]


def test_a_deletion_includes_turns_and_memories(case: WriteBackCase) -> None:
    changes = check_round_trip(case.delete_session()).plan.changes
    assert [change.table for change in changes] == ["memories", "turns", "turns", "turns", "turns", "sessions"]


def test_a_deletion_leaves_the_others_alone(case: WriteBackCase) -> None:
    case.delete_session().write()
    rows = case.foreign_rows()
    assert [row["id"] for row in rows["sessions"]] == ["other"]
    assert [row["session_id"] for row in rows["turns"]] == ["other"]
    assert sorted(row["id"] for row in rows["memories"]) == [1, 3]
    assert case.session.gone


def test_rows_of_unknown_tables_that_cascade_are_shown_and_restored(store: Store, path: Path) -> None:
    execute_sql(path, "create table reactions (turn integer references turns(id) on delete cascade, face text)")
    execute_sql(path, "insert into reactions select id, 'smile' from turns where session_id = 's'")
    changes = check_round_trip(WriteBackCase(store, path).delete_session()).plan.changes
    assert [change.table for change in changes].count("reactions") == 4


def test_all_kinds_of_edits_are_written_together(case: WriteBackCase) -> None:
    case.set_title().set_summary()
    case.store.facts.retire(case.fact_id("Runs Debian"))
    case.store.facts.edit(case.fact_id("Asked of disks"), "Asked of mice")
    assert len(check_round_trip(case).plan.changes) == 4


def test_secrets_have_no_place(case: WriteBackCase) -> None:
    case.store.secrets.set(case.session, "token", "hush")
    case.store.secrets.lock()
    preview = check_round_trip(case.set_title())
    assert preview.plan.unsupported == ["Pingu cannot store secrets. They stay in Backscroll."]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("update sessions set title = 'Theirs' where id = 's'", "title of sessions was changed in the agent's store"),
        ("update sessions set summary = 'Theirs' where id = 's'", "newer summary"),
        ("update memories set content = 'Theirs' where id = 1", "memories 1 was changed in the agent's store"),
        ("update memories set content = 'Theirs' where id = 2", "memories 2 was changed in the agent's store"),
        ("delete from sessions where id = 's'", "does not have the session 's' any more"),
    ],
)
def test_a_foreign_change_since_the_sync_is_refused(case: WriteBackCase, statement: str, message: str) -> None:
    case.set_title().set_summary()
    case.store.facts.edit(case.fact_id("Runs Debian"), "Runs Debian 13")
    case.store.facts.retire(case.fact_id("Asked of disks"))
    execute_sql(case.path, statement)
    before, edits = case.foreign_rows(), case.newest_edit()
    with pytest.raises(ChangedMeanwhile, match=message):
        case.write()
    assert case.foreign_rows() == before
    assert case.newest_edit() == edits


@pytest.mark.parametrize("change", ["title = 'Theirs'", "summary = 'Theirs'", "summary_up_to = '1'"])
def test_a_foreign_change_since_the_preview_is_refused(case: WriteBackCase, change: str) -> None:
    preview = case.set_title().set_summary().preview()
    execute_sql(case.path, f"update sessions set {change} where id = 's'")
    before, edits = case.foreign_rows(), case.newest_edit()
    with pytest.raises(ChangedMeanwhile, match=r"sessions s in .* has changed, so nothing was written"):
        case.store.write_back.write(preview)
    assert case.foreign_rows() == before
    assert case.newest_edit() == edits
    assert case.session.agent_title == ""


def test_a_sync_resolves_a_conflict(case: WriteBackCase) -> None:
    case.set_title()
    execute_sql(case.path, "update sessions set title = 'Theirs' where id = 's'")
    case.sync()
    assert check_round_trip(case).plan.changes[0].before == {"title": "Theirs"}


def test_the_same_change_on_both_sides_is_no_conflict(case: WriteBackCase) -> None:
    case.set_title()
    case.store.facts.edit(case.fact_id("Runs Debian"), "Runs Debian 13")
    case.set_summary("In short.")
    execute_sql(case.path, "update sessions set title = 'Mine', summary = 'In short.' where id = 's'")
    execute_sql(case.path, "update memories set content = 'Runs Debian 13' where id = 1")
    plan = case.preview().plan
    assert (plan.changes, plan.conflicts) == ([], [])


def test_a_missing_memory_is_reported(case: WriteBackCase) -> None:
    fact = case.fact_id("Runs Debian")
    case.store.facts.edit(fact, "Runs Debian 13")
    case.set_title()
    execute_sql(case.path, "delete from memories where id = 1")
    assert check_round_trip(case).plan.unsupported == [
        "memories 1 no longer exists. Your correction stays in Backscroll."
    ]
    case.write()
    case.sync()
    assert case.store.facts.get(fact).retired_at is None


def test_a_missing_memory_need_not_be_retired(case: WriteBackCase) -> None:
    case.store.facts.retire(case.fact_id("Runs Debian"))
    execute_sql(case.path, "delete from memories where id = 1")
    plan = case.preview().plan
    assert (plan.changes, plan.unsupported, plan.conflicts) == ([], [], [])


def test_a_restored_fact_is_current_again(case: WriteBackCase) -> None:
    fact = case.fact_id("Asked of disks")
    case.delete_session().write()
    case.sync()
    assert case.store.facts.get(fact).retired_at is not None
    case.store.journal.undo()
    case.sync()
    assert case.store.facts.get(fact).retired_at is None
    assert case.store.facts.get(fact).text == "Asked of disks"


def test_the_first_layout_has_no_memories(store: Store, tmp_path: Path) -> None:
    path = make_database(tmp_path / "first.db", PINGU_SCHEMA, wal=True)
    add_pingu_session(path, "s", ("hello", answer("hi")))
    check_round_trip(WriteBackCase(store, path).set_title().set_summary(up_to_turn=1))


def test_a_title_of_bytes_is_compared_as_bytes(store: Store, tmp_path: Path) -> None:
    path = make_database(tmp_path / "pingu.db", PINGU_SCHEMA)
    add_pingu_session(path, "s", ("hello", answer("hi")), title=b"in \xff bytes")
    (change,) = check_round_trip(WriteBackCase(store, path).set_title()).plan.changes
    assert change.before == {"title": b"in \xff bytes"}


def test_numbers_that_json_cannot_represent_are_restored(store: Store, path: Path) -> None:
    execute_sql(path, "alter table turns add column cost real")
    execute_sql(path, "update turns set cost = 9e999")
    check_round_trip(WriteBackCase(store, path).delete_session())
    assert {row["cost"] for row in dump_tables(path)["turns"]} == {float("inf")}
