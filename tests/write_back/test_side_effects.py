"""These tests have triggers and constraints in a foreign store that change more than the preview shows."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine
from foreign_databases import (
    PINGU_MEMORIES_SCHEMA,
    PINGU_SCHEMA,
    add_pingu_session,
    execute_sql,
    insert_row,
    make_database,
    pingu_native_response,
)
from write_back_roundtrip import WriteBackCase, check_round_trip

from store.errors import ChangedMeanwhile, Refused, StoreError, WriteFailed
from store.store import Store

ANSWER = pingu_native_response({"type": "message", "content": "hi"})
DELETE_TURNS = "create trigger cleanup after update on sessions begin delete from turns; end"
PREVENT = "create trigger guard before update on sessions begin select raise(ignore); end"
CHANGE_ANOTHER = """
    create trigger swap before update on sessions when new.id = 's' begin
        update sessions set title = 'never given' where id = 'z';
        select raise(ignore);
    end
"""
CHANGE_DIFFERENTLY = """
    create trigger swap before update on sessions when new.title <> 'never given' begin
        update sessions set title = 'never given' where id = new.id;
        select raise(ignore);
    end
"""
REPLACE_TURN = """
    create trigger rewrite after update on sessions begin
        insert or replace into turns (id, session_id, user_message, response_json) values (1, new.id, 'never said', '');
    end
"""
CHAIN = """
    create table log (title);
    create trigger first after update on sessions begin insert into log values (new.title); end;
    create trigger second after insert on log begin update turns set user_message = 'never said'; end;
"""


@pytest.fixture
def case(store: Store, tmp_path: Path) -> WriteBackCase:
    path = make_database(tmp_path / "pingu.db", PINGU_SCHEMA + PINGU_MEMORIES_SCHEMA, wal=True)
    add_pingu_session(path, "s", ("hello", ANSWER), ("again", ANSWER), title="Theirs")
    add_pingu_session(path, "z", title="Another")
    insert_row(path, "memories", content="Likes tea")
    return WriteBackCase(store, path).set_title()


def check_nothing_changes(case: WriteBackCase, error: type[StoreError], message: str) -> None:
    """Check that the current preview is refused for this reason and that both stores stay as they are."""
    foreign, stored, edit = case.foreign_rows(), case.stored_rows(), case.newest_edit()
    with pytest.raises(error, match=message):
        case.write()
    assert (case.foreign_rows(), case.stored_rows(), case.newest_edit()) == (foreign, stored, edit)


@pytest.mark.parametrize(
    ("trigger", "effect"),
    [
        (DELETE_TURNS, r"The trigger cleanup .* would also change other rows \(2 of turns\)"),
        (PREVENT, "The trigger guard .* would prevent the change"),
        (CHANGE_ANOTHER, "The trigger swap .* would prevent the change"),
        (CHANGE_DIFFERENTLY, "The trigger swap .* would prevent the change"),
        (REPLACE_TURN, "The trigger rewrite|UNIQUE constraint failed"),
        (CHAIN, r"The trigger first .* would also change other rows \(1 of log, 2 of turns\)"),
    ],
    ids=["delete", "prevent", "change another", "change differently", "replace", "chain"],
)
def test_a_trigger_that_does_more_than_planned(case: WriteBackCase, trigger: str, effect: str) -> None:
    planned = case.preview()
    make_database(case.path, trigger)
    if "replace" not in trigger:
        check_nothing_changes(case, ChangedMeanwhile, effect)
    foreign = case.foreign_rows()
    with pytest.raises((Refused, WriteFailed), match=effect):
        case.store.write_back.write(planned)
    assert case.foreign_rows() == foreign


def test_the_preview_names_the_trigger(case: WriteBackCase) -> None:
    make_database(case.path, DELETE_TURNS)
    reason = (
        "The trigger cleanup in the agent's store would also change other rows (2 of turns)."
        " Nothing was written. Edit the session in its agent."
    )
    assert case.preview().plan.conflicts == [reason]
    cli = CommandLine(case.store.path)
    assert reason in cli("write-back", "s", "--dry-run").err
    assert cli("write-back", "s", "--dry-run", "--json").json["conflicts"] == [reason]


def test_a_trigger_that_came_after_the_write_back_does_not_run_in_its_undo(case: WriteBackCase) -> None:
    case.write()
    make_database(case.path, DELETE_TURNS)
    foreign = case.foreign_rows()
    with pytest.raises(Refused, match="The trigger cleanup"):
        case.store.journal.undo()
    assert case.foreign_rows() == foreign
    execute_sql(case.path, "drop trigger cleanup")
    case.store.journal.undo()
    assert case.foreign_rows()["sessions"][0]["title"] == "Theirs"


def test_triggers_that_keep_a_search_index_are_no_obstacle(case: WriteBackCase) -> None:
    case.sync()
    case.store.facts.edit(case.fact_id("Likes tea"), "Likes coffee")
    make_database(case.path, "create trigger idle after update on memories begin delete from turns where 0; end")
    assert {change.table for change in check_round_trip(case).plan.changes} == {"sessions", "memories"}


def test_a_row_that_a_constraint_would_replace_is_kept(store: Store, tmp_path: Path) -> None:
    schema = PINGU_SCHEMA.replace("title text", "title text unique on conflict replace")
    path = make_database(tmp_path / "pingu.db", schema)
    for session in ("s", "other"):
        add_pingu_session(path, session, ("hello", ANSWER), title=session)
    case = WriteBackCase(store, path).set_title("other")
    check_nothing_changes(case, WriteFailed, "UNIQUE constraint failed")


def test_rows_that_a_deletion_would_change_elsewhere(case: WriteBackCase) -> None:
    make_database(
        case.path,
        "create table notes (text, session text references sessions (id) on delete set null);"
        "insert into notes values ('a note', 's')",
    )
    case.delete_session()
    check_nothing_changes(case, Refused, r"A foreign key .* would also change other rows \(1 of notes\)")
