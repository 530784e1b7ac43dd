"""Corrected state carried back into google-adk's SQLite files, in each of their layouts, and sessions deleted there."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from adk_database import LAYOUTS, NOON, AdkSqliteDatabase
from command_line import CommandLine
from hypothesis import given
from hypothesis import strategies as st
from write_back_roundtrip import WriteBackCase, check_round_trip

from store.errors import ChangedMeanwhile
from store.sources.adk.state import rewrite_state
from store.sources.kit.write_plan import RowChange
from store.store import Store

SESSION = '{"topic": "invoices", "last": {"n": 7, "f": 0.1}, "ratio": 1.10, "big": 12345678901234567890123}'
APP = '{"motd":"hello","limit":3}'
USER = '{ "lang" : "en" , "b/i:o": "\\u00e9 \\"x\\"" }'
KEY = {"app_name": "dak", "user_id": "ana", "id": "s1"}


@pytest.fixture(params=LAYOUTS)
def made(request: pytest.FixtureRequest, tmp_path: Path) -> AdkSqliteDatabase:
    return filled(AdkSqliteDatabase(tmp_path / "agent.db", request.param))


@pytest.fixture
def v1(tmp_path: Path) -> AdkSqliteDatabase:
    return filled(AdkSqliteDatabase(tmp_path / "agent.db", "v1"))


def filled(made: AdkSqliteDatabase) -> AdkSqliteDatabase:
    made.add_session(state=SESSION)
    made.add_session(name="s2", state=SESSION)
    made.execute("insert into app_states values ('dak', ?, ?)", APP, made.encode_time(NOON))
    made.execute("insert into user_states values ('dak', 'ana', ?, ?)", USER, made.encode_time(NOON))
    for name in ("s1", "s2"):
        made.add_event("user", [{"text": "How many?"}], role="user", session=("dak", "ana", name))
        # At one moment, and so in the order of their ids or of their appending.
        for event in ("b", "a", "c"):
            made.add_event("dak", [{"text": event}], at=NOON + 50, name=event + name, session=("dak", "ana", name))
    return made


@pytest.fixture
def world(store: Store, made: AdkSqliteDatabase) -> WriteBackCase:
    return WriteBackCase(store, made.path, "dak/ana/s1")


@pytest.fixture
def in_v1(store: Store, v1: AdkSqliteDatabase) -> WriteBackCase:
    return WriteBackCase(store, v1.path, "dak/ana/s1")


def correct(world: WriteBackCase, old: str, new: str) -> WriteBackCase:
    world.store.facts.edit(number(world, old), new)
    return world


def number(world: WriteBackCase, text: str) -> int:
    """Of the fact, and if each session has it, of the first session's."""
    facts = [fact for fact in world.store.facts.current(None) if fact.text == text]
    return next(fact.id for fact in facts if len(facts) == 1 or fact.session_id == world.session.id)


# ── state ─────────────────────────────────────────────────────────────────────────────────────────


def test_one_key_of_each_state(world: WriteBackCase) -> None:
    correct(world, "topic: invoices", "topic: reminders é")
    correct(world, "motd: hello", "motd: good morning")
    correct(world, "lang: en", "lang: de")
    preview = check_round_trip(world)
    assert preview.plan.unsupported == []
    assert preview.plan.changes == [
        RowChange("sessions", KEY, {"state": SESSION}, {"state": SESSION.replace("invoices", "reminders é")}),
        RowChange("app_states", {"app_name": "dak"}, {"state": APP}, {"state": APP.replace("hello", "good morning")}),
        RowChange(
            "user_states",
            {"app_name": "dak", "user_id": "ana"},
            {"state": USER},
            {"state": '{ "lang" : "de", "b/i:o": "\\u00e9 \\"x\\""}'},
        ),
    ]


def test_a_retired_key_is_taken_out(world: WriteBackCase) -> None:
    world.store.facts.retire(number(world, "topic: invoices"))
    world.store.facts.retire(number(world, 'b/i:o: é "x"'))
    session, user = check_round_trip(world).plan.changes
    assert session.after == {"state": SESSION.replace('"topic": "invoices", ', " ")}
    assert user.after == {"state": '{ "lang" : "en"}'}


def test_several_keys_of_a_state_go_together(world: WriteBackCase) -> None:
    correct(world, "topic: invoices", "topic: reminders")
    correct(world, 'last: {"n":7,"f":0.1}', 'last: {"n": 8}')
    world.store.facts.retire(number(world, "ratio: 1.1"))
    (change,) = check_round_trip(world).plan.changes
    assert change.after == {"state": '{"topic": "reminders", "last": {"n":8}, "big": 12345678901234567890123}'}


@pytest.mark.parametrize(
    ("line", "value", "afterwards"),
    [
        ('lang: "de"', "de", "lang: de"),
        ("de", "de", "lang: de"),
        ("lang: 007", "007", "lang: 007"),
        ("lang: null", None, "lang: null"),
        ("lang: [1,  2]", [1, 2], "lang: [1,2]"),
        ('lang: "7"', "7", 'lang: "7"'),
    ],
)
def test_what_a_line_says(in_v1: WriteBackCase, line: str, value: object, afterwards: str) -> None:
    fact = number(in_v1, "lang: en")
    correct(in_v1, "lang: en", line)
    (change,) = check_round_trip(in_v1).plan.changes
    assert change.after
    assert json.loads(change.after["state"])["lang"] == value
    in_v1.write()
    assert in_v1.store.facts.get(fact).text == afterwards


def test_other_words_for_the_same_value_need_no_writing(in_v1: WriteBackCase) -> None:
    plan = correct(in_v1, "lang: en", 'lang: "en"').preview().plan
    assert (plan.changes, plan.conflicts, plan.unsupported) == ([], [], [])


def test_what_json_cannot_hold_stays_here(in_v1: WriteBackCase) -> None:
    correct(in_v1, "lang: en", "lang: NaN")
    plan = correct(in_v1, "motd: hello", "motd: bye").preview().plan
    assert [change.table for change in plan.changes] == ["app_states"]
    (sentence,) = plan.unsupported
    assert "'lang'" in sentence
    in_v1.write()
    assert in_v1.store.facts.get(number(in_v1, "lang: NaN")).foreign_text == "lang: en"


def test_other_sessions_keep_their_state(world: WriteBackCase) -> None:
    other = WriteBackCase(world.store, world.path, "dak/ana/s2")
    correct(other, "topic: invoices", "topic: theirs")
    assert world.preview().plan.changes == []
    (change,) = other.preview().plan.changes
    assert change.key == {**KEY, "id": "s2"}


# ── what changed meanwhile ────────────────────────────────────────────────────────────────────────


def test_a_value_that_its_owner_changed_is_not_written_over(world: WriteBackCase, made: AdkSqliteDatabase) -> None:
    correct(world, "motd: hello", "motd: bye")
    made.execute("update app_states set state = replace(state, 'hello', 'welcome')")
    before = world.foreign_rows()
    assert world.preview().plan.conflicts == ["'motd' was changed there since it was read; sync first."]
    with pytest.raises(ChangedMeanwhile, match="sync first"):
        world.write()
    assert world.foreign_rows() == before
    world.sync()
    (change,) = world.preview().plan.changes
    assert (change.before, change.after) == (
        {"state": APP.replace("hello", "welcome")},
        {"state": APP.replace("hello", "bye")},
    )


def test_a_state_that_changed_since_it_was_looked_at_is_compared(world: WriteBackCase, made: AdkSqliteDatabase) -> None:
    preview = correct(world, "motd: hello", "motd: bye").preview()
    made.execute("update app_states set state = replace(state, '3', '4')")
    before = world.foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="app_states dak"):
        world.store.write_back.write(preview)
    assert (world.foreign_rows(), world.newest_edit().kind) == (before, "edit fact")
    world.write()
    (row,) = world.foreign_rows()["app_states"]
    assert row["state"] == '{"motd":"bye","limit":4}'


def test_undo_leaves_what_its_owner_wrote_since(world: WriteBackCase, made: AdkSqliteDatabase) -> None:
    correct(world, "motd: hello", "motd: bye").write()
    made.execute("update app_states set state = replace(state, '3', '4')")
    before = world.foreign_rows()
    with pytest.raises(ChangedMeanwhile):
        world.store.journal.undo()
    assert world.foreign_rows() == before


def test_what_is_not_there_any_more_is_said(in_v1: WriteBackCase, v1: AdkSqliteDatabase) -> None:
    correct(in_v1, "motd: hello", "motd: bye")
    correct(in_v1, "lang: en", "lang: de")
    in_v1.store.facts.retire(number(in_v1, "limit: 3"))
    v1.execute("update app_states set state = '{}'")
    v1.execute("delete from user_states")
    plan = in_v1.preview().plan
    assert (plan.changes, plan.conflicts) == ([], [])
    assert plan.unsupported == [
        "google-adk does not keep 'motd' any more; your correction of it stays here.",
        "google-adk does not keep 'lang' any more; your correction of it stays here.",
    ]


@pytest.mark.parametrize("broken", ["[1]", "{", b"\xff"])
def test_a_state_that_cannot_be_read_is_left_alone(
    in_v1: WriteBackCase, v1: AdkSqliteDatabase, broken: str | bytes
) -> None:
    correct(in_v1, "motd: hello", "motd: bye")
    v1.execute("update app_states set state = ?", broken)
    (conflict,) = in_v1.preview().plan.conflicts
    assert conflict.startswith("The state of dak in app_states cannot be read any more")


def test_a_session_that_is_gone_is_said(in_v1: WriteBackCase, v1: AdkSqliteDatabase) -> None:
    correct(in_v1, "topic: invoices", "topic: reminders")
    v1.execute("delete from sessions where id = 's1'")
    assert in_v1.preview().plan.conflicts == [
        "google-adk does not have the session 'dak/ana/s1' any more; your edits stay here."
    ]


# ── what has no place, and deletion ───────────────────────────────────────────────────────────────


def test_what_has_no_place_is_said(world: WriteBackCase) -> None:
    world.set_title().set_summary()
    world.store.secrets.set(world.session, "token", "hush")
    plan = world.preview().plan
    assert plan.changes == []
    assert plan.unsupported == [
        f"google-adk has no place for {what}; yours stay here." for what in ("titles", "summaries", "secrets")
    ]


def test_a_session_is_deleted_and_put_back(world: WriteBackCase) -> None:
    before = world.foreign_rows()
    changes = check_round_trip(world.delete_session()).plan.changes
    assert [change.table for change in changes] == ["events"] * 4 + ["sessions"]
    world.write()
    after = world.foreign_rows()
    assert (after["app_states"], after["user_states"]) == (before["app_states"], before["user_states"])
    assert {row["session_id"] for row in after["events"]} == {"s2"}
    world.store.journal.undo()
    with closing(sqlite3.connect(world.path)) as connection:
        found = connection.execute("select id from events where session_id = 's1' order by timestamp, rowid")
        assert [name[:1] for (name,) in found][1:] == ["b", "a", "c"]


def test_an_event_that_came_since_is_not_deleted_unseen(world: WriteBackCase, made: AdkSqliteDatabase) -> None:
    preview = world.delete_session().preview()
    made.add_event("dak", [{"text": "One more."}], name="late")
    before = world.foreign_rows()
    with pytest.raises(ChangedMeanwhile):
        world.store.write_back.write(preview)
    assert world.foreign_rows() == before


def test_a_session_that_was_deleted_there_too_needs_nothing(in_v1: WriteBackCase, v1: AdkSqliteDatabase) -> None:
    v1.execute("delete from events where session_id = 's1'")
    v1.execute("delete from sessions where id = 's1'")
    plan = in_v1.delete_session().preview().plan
    assert (plan.changes, plan.conflicts) == ([], [])


# ── by the command line ───────────────────────────────────────────────────────────────────────────


def test_a_dry_run_shows_the_rows_and_changes_nothing(in_v1: WriteBackCase) -> None:
    correct(in_v1, "motd: hello", "motd: bye")
    before = in_v1.path.read_bytes()
    line = CommandLine(in_v1.store.path)
    ran = line("write-back", in_v1.session.id, "--dry-run")
    assert ran.status == 0
    assert ran.out.splitlines() == ["app_states dak", f"  - state: {APP}", f"  + state: {APP.replace('hello', 'bye')}"]
    assert in_v1.path.read_bytes() == before
    assert line("write-back", in_v1.session.id).status == 0
    assert line("undo").status == 0
    assert (in_v1.foreign_rows()["app_states"][0]["state"]) == APP


# ── rewriting ─────────────────────────────────────────────────────────────────────────────────────

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
states = st.dictionaries(st.text(max_size=3), values, max_size=5)


@given(states, st.dictionaries(st.text(max_size=3), values | st.just(...), max_size=3), st.sampled_from([None, 2]))
def test_a_state_rewritten_differs_only_where_it_should(
    state: dict[str, object], changes: dict[str, object], indent: int | None
) -> None:
    spelled = {name: None if value is ... else json.dumps(value) for name, value in changes.items()}
    expected = {name: changes.get(name, value) for name, value in state.items() if changes.get(name) is not ...}
    assert json.loads(rewrite_state(json.dumps(state, indent=indent), spelled)) == expected
