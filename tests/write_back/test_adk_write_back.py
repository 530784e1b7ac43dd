"""These tests write edited state and deletions back to google-adk's SQLite files, in each of their layouts."""

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
def database(request: pytest.FixtureRequest, tmp_path: Path) -> AdkSqliteDatabase:
    return fill(AdkSqliteDatabase(tmp_path / "agent.db", request.param))


@pytest.fixture
def v1(tmp_path: Path) -> AdkSqliteDatabase:
    return fill(AdkSqliteDatabase(tmp_path / "agent.db", "v1"))


def fill(database: AdkSqliteDatabase) -> AdkSqliteDatabase:
    database.add_session(state=SESSION)
    database.add_session(name="s2", state=SESSION)
    database.execute("insert into app_states values ('dak', ?, ?)", APP, database.encode_time(NOON))
    database.execute("insert into user_states values ('dak', 'ana', ?, ?)", USER, database.encode_time(NOON))
    for name in ("s1", "s2"):
        database.add_event("user", [{"text": "How many?"}], role="user", session=("dak", "ana", name))
        # These have the same time, so they are in the order of their ids or of their rows.
        for event in ("b", "a", "c"):
            database.add_event("dak", [{"text": event}], at=NOON + 50, name=event + name, session=("dak", "ana", name))
    return database


@pytest.fixture
def case(store: Store, database: AdkSqliteDatabase) -> WriteBackCase:
    return WriteBackCase(store, database.path, "dak/ana/s1")


@pytest.fixture
def v1_case(store: Store, v1: AdkSqliteDatabase) -> WriteBackCase:
    return WriteBackCase(store, v1.path, "dak/ana/s1")


def edit_fact(case: WriteBackCase, old: str, new: str) -> WriteBackCase:
    case.store.facts.edit(fact_id(case, old), new)
    return case


def fact_id(case: WriteBackCase, text: str) -> int:
    """Return the id of the fact with that text; of the session of the case if several sessions have it."""
    facts = [fact for fact in case.store.facts.current(None) if fact.text == text]
    return next(fact.id for fact in facts if len(facts) == 1 or fact.session_id == case.session.id)


# ── state ─────────────────────────────────────────────────────────────────────────────────────────


def test_one_key_of_each_state(case: WriteBackCase) -> None:
    edit_fact(case, "topic: invoices", "topic: reminders é")
    edit_fact(case, "motd: hello", "motd: good morning")
    edit_fact(case, "lang: en", "lang: de")
    preview = check_round_trip(case)
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


def test_a_retired_key_is_taken_out(case: WriteBackCase) -> None:
    case.store.facts.retire(fact_id(case, "topic: invoices"))
    case.store.facts.retire(fact_id(case, 'b/i:o: é "x"'))
    session, user = check_round_trip(case).plan.changes
    assert session.after == {"state": SESSION.replace('"topic": "invoices", ', " ")}
    assert user.after == {"state": '{ "lang" : "en"}'}


def test_several_keys_of_a_state_go_together(case: WriteBackCase) -> None:
    edit_fact(case, "topic: invoices", "topic: reminders")
    edit_fact(case, 'last: {"n":7,"f":0.1}', 'last: {"n": 8}')
    case.store.facts.retire(fact_id(case, "ratio: 1.1"))
    (change,) = check_round_trip(case).plan.changes
    assert change.after == {"state": '{"topic": "reminders", "last": {"n":8}, "big": 12345678901234567890123}'}


@pytest.mark.parametrize(
    ("line", "value", "text_after"),
    [
        ('lang: "de"', "de", "lang: de"),
        ("de", "de", "lang: de"),
        ("lang: 007", "007", "lang: 007"),
        ("lang: null", None, "lang: null"),
        ("lang: [1,  2]", [1, 2], "lang: [1,2]"),
        ('lang: "7"', "7", 'lang: "7"'),
    ],
)
def test_the_text_of_a_fact_becomes_a_value(v1_case: WriteBackCase, line: str, value: object, text_after: str) -> None:
    fact = fact_id(v1_case, "lang: en")
    edit_fact(v1_case, "lang: en", line)
    (change,) = check_round_trip(v1_case).plan.changes
    assert change.after
    assert json.loads(change.after["state"])["lang"] == value
    v1_case.write()
    assert v1_case.store.facts.get(fact).text == text_after


def test_another_spelling_of_the_same_value_is_not_written(v1_case: WriteBackCase) -> None:
    plan = edit_fact(v1_case, "lang: en", 'lang: "en"').preview().plan
    assert (plan.changes, plan.conflicts, plan.unsupported) == ([], [], [])


def test_a_value_that_json_cannot_represent_stays_here(v1_case: WriteBackCase) -> None:
    edit_fact(v1_case, "lang: en", "lang: NaN")
    plan = edit_fact(v1_case, "motd: hello", "motd: bye").preview().plan
    assert [change.table for change in plan.changes] == ["app_states"]
    (sentence,) = plan.unsupported
    assert "'lang'" in sentence
    v1_case.write()
    assert v1_case.store.facts.get(fact_id(v1_case, "lang: NaN")).foreign_text == "lang: en"


def test_other_sessions_keep_their_state(case: WriteBackCase) -> None:
    other = WriteBackCase(case.store, case.path, "dak/ana/s2")
    edit_fact(other, "topic: invoices", "topic: theirs")
    assert case.preview().plan.changes == []
    (change,) = other.preview().plan.changes
    assert change.key == {**KEY, "id": "s2"}


# ── concurrent changes ────────────────────────────────────────────────────────────────────────────


def test_a_value_that_its_owner_changed_is_not_overwritten(case: WriteBackCase, database: AdkSqliteDatabase) -> None:
    edit_fact(case, "motd: hello", "motd: bye")
    database.execute("update app_states set state = replace(state, 'hello', 'welcome')")
    before = case.foreign_rows()
    assert case.preview().plan.conflicts == ["'motd' was changed in google-adk. Sync, then write back again."]
    with pytest.raises(ChangedMeanwhile, match="Sync, then write back again"):
        case.write()
    assert case.foreign_rows() == before
    case.sync()
    (change,) = case.preview().plan.changes
    assert (change.before, change.after) == (
        {"state": APP.replace("hello", "welcome")},
        {"state": APP.replace("hello", "bye")},
    )


def test_a_state_that_changed_since_the_preview_is_refused(case: WriteBackCase, database: AdkSqliteDatabase) -> None:
    preview = edit_fact(case, "motd: hello", "motd: bye").preview()
    database.execute("update app_states set state = replace(state, '3', '4')")
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="app_states dak"):
        case.store.write_back.write(preview)
    assert (case.foreign_rows(), case.newest_edit().kind) == (before, "edit fact")
    case.write()
    (row,) = case.foreign_rows()["app_states"]
    assert row["state"] == '{"motd":"bye","limit":4}'


def test_undo_keeps_what_its_owner_wrote_later(case: WriteBackCase, database: AdkSqliteDatabase) -> None:
    edit_fact(case, "motd: hello", "motd: bye").write()
    database.execute("update app_states set state = replace(state, '3', '4')")
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile):
        case.store.journal.undo()
    assert case.foreign_rows() == before


def test_missing_keys_are_reported(v1_case: WriteBackCase, v1: AdkSqliteDatabase) -> None:
    edit_fact(v1_case, "motd: hello", "motd: bye")
    edit_fact(v1_case, "lang: en", "lang: de")
    v1_case.store.facts.retire(fact_id(v1_case, "limit: 3"))
    v1.execute("update app_states set state = '{}'")
    v1.execute("delete from user_states")
    plan = v1_case.preview().plan
    assert (plan.changes, plan.conflicts) == ([], [])
    assert plan.unsupported == [
        "google-adk does not have 'motd' any more. Your correction stays in Backscroll.",
        "google-adk does not have 'lang' any more. Your correction stays in Backscroll.",
    ]


@pytest.mark.parametrize("broken", ["[1]", "{", b"\xff"])
def test_a_state_that_cannot_be_read_is_left_alone(
    v1_case: WriteBackCase, v1: AdkSqliteDatabase, broken: str | bytes
) -> None:
    edit_fact(v1_case, "motd: hello", "motd: bye")
    v1.execute("update app_states set state = ?", broken)
    (conflict,) = v1_case.preview().plan.conflicts
    assert conflict.startswith("The state of dak in app_states cannot be read any more")


def test_a_missing_session_is_reported(v1_case: WriteBackCase, v1: AdkSqliteDatabase) -> None:
    edit_fact(v1_case, "topic: invoices", "topic: reminders")
    v1.execute("delete from sessions where id = 's1'")
    assert v1_case.preview().plan.conflicts == [
        "google-adk does not have the session 'dak/ana/s1' any more. Your edits stay in Backscroll."
    ]


# ── unsupported edits, and deletion ───────────────────────────────────────────────────────────────


def test_unsupported_edits_are_reported(case: WriteBackCase) -> None:
    case.set_title().set_summary()
    case.store.secrets.set(case.session, "token", "hush")
    plan = case.preview().plan
    assert plan.changes == []
    assert plan.unsupported == [
        f"google-adk cannot store {what}. They stay in Backscroll." for what in ("titles", "summaries", "secrets")
    ]


def test_a_session_is_deleted_and_put_back(case: WriteBackCase) -> None:
    before = case.foreign_rows()
    changes = check_round_trip(case.delete_session()).plan.changes
    assert [change.table for change in changes] == ["events"] * 4 + ["sessions"]
    case.write()
    after = case.foreign_rows()
    assert (after["app_states"], after["user_states"]) == (before["app_states"], before["user_states"])
    assert {row["session_id"] for row in after["events"]} == {"s2"}
    case.store.journal.undo()
    with closing(sqlite3.connect(case.path)) as connection:
        rows = connection.execute("select id from events where session_id = 's1' order by timestamp, rowid")
        assert [name[:1] for (name,) in rows][1:] == ["b", "a", "c"]


def test_an_event_since_the_preview_is_not_deleted(case: WriteBackCase, database: AdkSqliteDatabase) -> None:
    preview = case.delete_session().preview()
    database.add_event("dak", [{"text": "One more."}], name="late")
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile):
        case.store.write_back.write(preview)
    assert case.foreign_rows() == before


def test_a_session_that_was_deleted_there_too_needs_no_changes(v1_case: WriteBackCase, v1: AdkSqliteDatabase) -> None:
    v1.execute("delete from events where session_id = 's1'")
    v1.execute("delete from sessions where id = 's1'")
    plan = v1_case.delete_session().preview().plan
    assert (plan.changes, plan.conflicts) == ([], [])


# ── the command line ──────────────────────────────────────────────────────────────────────────────


def test_a_dry_run_shows_the_rows_and_changes_nothing(v1_case: WriteBackCase) -> None:
    edit_fact(v1_case, "motd: hello", "motd: bye")
    before = v1_case.path.read_bytes()
    cli = CommandLine(v1_case.store.path)
    ran = cli("write-back", v1_case.session.id, "--dry-run")
    assert ran.status == 0
    assert ran.out.splitlines() == ["app_states dak", f"  - state: {APP}", f"  + state: {APP.replace('hello', 'bye')}"]
    assert v1_case.path.read_bytes() == before
    assert cli("write-back", v1_case.session.id).status == 0
    assert cli("undo").status == 0
    assert (v1_case.foreign_rows()["app_states"][0]["state"]) == APP


# ── rewriting ─────────────────────────────────────────────────────────────────────────────────────

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)
states = st.dictionaries(st.text(max_size=3), values, max_size=5)


@given(states, st.dictionaries(st.text(max_size=3), values | st.just(...), max_size=3), st.sampled_from([None, 2]))
def test_a_rewritten_state_differs_only_in_the_changed_keys(
    state: dict[str, object], changes: dict[str, object], indent: int | None
) -> None:
    encoded = {name: None if value is ... else json.dumps(value) for name, value in changes.items()}
    expected = {name: changes.get(name, value) for name, value in state.items() if changes.get(name) is not ...}
    assert json.loads(rewrite_state(json.dumps(state, indent=indent), encoded)) == expected
