"""These tests read google-adk databases in each of their layouts, with the tables that ADK creates and few rows."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from adk_database import LAYOUTS, MALICIOUS_PICKLE, NOON, AdkSqliteDatabase

from store.errors import Unreadable
from store.model.entry import Attachment, Opaque, Text, Thinking, Tokens, ToolCall, ToolResult
from store.model.knowledge import user_scope
from store.model.session import Session
from store.sources.adk.source import Adk
from store.store import Store
from store.sync import refresh
from store.sync.targets import Report, find_targets

adk = Adk()


@pytest.fixture(params=LAYOUTS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> AdkSqliteDatabase:
    return AdkSqliteDatabase(tmp_path / "agent.db", request.param)


@pytest.fixture
def v1(tmp_path: Path) -> AdkSqliteDatabase:
    return AdkSqliteDatabase(tmp_path / "agent.db", "v1")


@pytest.fixture
def read(store: Store) -> Callable[[AdkSqliteDatabase], Report]:
    def run(database: AdkSqliteDatabase) -> Report:
        for progress in refresh.sync_targets(store, find_targets([str(database.path)])):
            report = progress.report
        return report

    return run


def only_session(store: Store) -> Session:
    (session,) = [session for session in store.list_sessions() if session.relation != "superseded"]
    return session


def entries(store: Store) -> list[Any]:
    return store.chains.entries(only_session(store).key, 0)


def add_conversation(database: AdkSqliteDatabase) -> None:
    database.add_session()
    database.add_event("user", [{"text": "How many are overdue?"}], role="user")
    call = {"id": "adk-1", "name": "count", "args": {"days": 30}}
    database.add_event("counter", [{"text": "Looking."}, {"function_call": call}])
    answer = {"id": "adk-1", "name": "count", "response": {"result": 7}}
    database.add_event("counter", [{"function_response": answer}], role="user")
    database.add_event("counter", [{"text": "hm", "thought": True}, {"text": "Seven. é✓"}])


# ── each layout ───────────────────────────────────────────────────────────────────────────────────


def test_a_conversation_reads_the_same_in_every_layout(database: AdkSqliteDatabase, store: Store, read: Any) -> None:
    add_conversation(database)
    assert read(database).problems == []
    session = only_session(store)
    assert (session.source, session.native_id, session.user, session.channel) == ("adk", "dak/ana/s1", "ana", "dak")
    assert (session.turns, session.entries, session.tool_calls, session.errors) == (1, 4, 1, 0)
    assert session.created_at == "2026-11-16T12:00:00.000000Z"
    assert [(entry.role, entry.author) for entry in entries(store)] == [
        ("user", "user"),
        ("assistant", "counter"),
        ("tool", "counter"),
        ("assistant", "counter"),
    ]
    (call,) = store.chains.tool_calls(session.key)
    assert (call.name, call.arguments, call.result, call.status) == ("count", {"days": 30}, {"result": 7}, "ok")
    assert entries(store)[3].parts == (Thinking("hm"), Text("Seven. é✓"))
    assert entries(store)[3].created_at == "2026-11-16T12:00:04.000000Z"


def test_a_second_sync_changes_nothing_and_what_was_appended_comes_in(
    database: AdkSqliteDatabase, store: Store, read: Any
) -> None:
    add_conversation(database)
    read(database)
    os.utime(database.path)
    assert (read(database).new, read(database).unchanged) == (0, 1)
    database.add_event("user", [{"text": "Thanks."}], role="user")
    assert read(database).updated == 1
    assert [entry.text for entry in entries(store)] == ["How many are overdue?", "Looking.", "", "Seven. é✓", "Thanks."]
    assert only_session(store).turns == 2


def test_a_rewritten_event_stays_reachable(database: AdkSqliteDatabase, store: Store, read: Any) -> None:
    add_conversation(database)
    read(database)
    column = "content" if "v0" in database.layout else "event_data"
    database.execute(f"update events set {column} = replace({column}, 'Seven', 'Eight') where id = 'e004'")
    read(database)
    assert entries(store)[3].text == "Eight. é✓"
    (before,) = store.sessions.children(only_session(store).id)
    assert before.relation == "superseded"
    assert store.chains.entries(before.key)[-1].text == "Seven. é✓"


def test_an_empty_session_is_a_session(database: AdkSqliteDatabase, store: Store, read: Any) -> None:
    database.add_session()
    assert read(database).problems == []
    assert only_session(store).entries == 0


def test_sessions_with_equal_ids_in_different_apps_are_distinct(
    database: AdkSqliteDatabase, store: Store, read: Any
) -> None:
    for app, user, name in (("a/b", "c", "s"), ("a", "b/c", "s"), ("a", "b", "c/s")):
        database.add_session(app, user, name)
        database.add_event("user", [{"text": f"I am {user} of {app}."}], session=(app, user, name))
    assert read(database).new == 3
    assert {session.native_id: session.first_prompt for session in store.list_sessions()} == {
        "a%2Fb/c/s": "I am c of a/b.",
        "a/b%2Fc/s": "I am b/c of a.",
        "a/b/c%2Fs": "I am b of a.",
    }


def test_an_error_is_an_event_with_its_message(database: AdkSqliteDatabase, store: Store, read: Any) -> None:
    database.add_session()
    database.add_event("counter", error_code="429", error_message="quota")
    assert read(database).problems == []
    (entry,) = entries(store)
    assert (entry.kind, entry.text, entry.author) == ("event", "429: quota", "counter")


def test_content_cut_in_half_is_one_problem(database: AdkSqliteDatabase, store: Store, read: Any) -> None:
    add_conversation(database)
    column = "content" if "v0" in database.layout else "event_data"
    database.execute(f"update events set {column} = substr({column}, 1, 20) where id = 'e002'")
    (problem,) = read(database).problems
    assert problem.where == "events:e002"
    assert [entry.kind for entry in entries(store)] == ["message", "unknown", "message", "message"]
    assert isinstance(entries(store)[1].parts[0], Opaque)


def test_unknown_columns_are_kept_in_the_record(database: AdkSqliteDatabase, store: Store, read: Any) -> None:
    add_conversation(database)
    database.execute("alter table events add column \"a 'new' \"\"one\" text default 'here'")
    assert read(database).problems == []
    assert json.loads(store.records.get(entries(store)[0].record))["a 'new' \"one"] == "here"


@pytest.mark.parametrize("layout", ["1.0 v0", "1.19 v0"])
def test_pickled_actions_are_measured_and_never_loaded(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, read: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    database = AdkSqliteDatabase(tmp_path / "agent.db", layout)
    add_conversation(database)
    read(database)
    for entry in entries(store):
        record = json.loads(store.records.get(entry.record))
        assert record["actions_bytes"] == len(MALICIOUS_PICKLE)
        assert "actions" not in record
    assert not Path("unpickled").exists()


def test_json_null_in_a_column_is_no_problem(tmp_path: Path, store: Store, read: Any) -> None:
    database = AdkSqliteDatabase(tmp_path / "agent.db", "1.19 v0")
    add_conversation(database)
    database.execute("update events set usage_metadata = 'null', input_transcription = 'null'")
    assert read(database).problems == []


def test_a_broken_column_does_not_affect_the_content(tmp_path: Path, store: Store, read: Any) -> None:
    database = AdkSqliteDatabase(tmp_path / "agent.db", "1.19 v0")
    add_conversation(database)
    database.execute("update events set usage_metadata = '{\"prompt' where id = 'e004'")
    (problem,) = read(database).problems
    assert (problem.where, "usage_metadata" in problem.reason) == ("events:e004", True)
    assert entries(store)[3].text == "Seven. é✓"


# ── times ─────────────────────────────────────────────────────────────────────────────────────────


def test_v1_orders_by_the_time_in_the_event_and_not_by_the_column(
    v1: AdkSqliteDatabase, store: Store, read: Any
) -> None:
    v1.add_session()
    tokyo = 9 * 3600
    # The clocks were set back by an hour between the two events, so the column has them in the wrong order.
    v1.add_event("user", [{"text": "first"}], at=NOON, column_at=NOON + tokyo)
    v1.add_event("user", [{"text": "second"}], at=NOON + 600, column_at=NOON + tokyo - 3000)
    v1.insert_event("{not json", v1.encode_time(NOON + tokyo + 1), "zz")
    read(v1)
    assert [(entry.text, entry.created_at) for entry in entries(store)][::2] == [
        ("first", "2026-11-16T12:00:00.000000Z"),
        ("second", "2026-11-16T12:10:00.000000Z"),
    ]


def test_ties_are_broken_as_each_service_does(database: AdkSqliteDatabase, store: Store, read: Any) -> None:
    database.add_session()
    database.add_event("user", [{"text": "appended first"}], at=NOON, name="z")
    database.add_event("user", [{"text": "appended second"}], at=NOON, name="a")
    read(database)
    orders_by_append = database.layout == "sqlite service"
    assert entries(store)[0].text == ("appended first" if orders_by_append else "appended second")


def test_v0_reads_local_times_as_utc(tmp_path: Path, store: Store, read: Any) -> None:
    database = AdkSqliteDatabase(tmp_path / "agent.db", "1.0 v0")
    database.add_session()
    database.add_event("user", [{"text": "hi"}], at=NOON)
    assert read(database).problems == []
    assert entries(store)[0].created_at == "2026-11-16T12:00:00.000000Z"


# ── events ────────────────────────────────────────────────────────────────────────────────────────


def test_tokens_without_the_cached_and_with_the_thoughts(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session()
    usage = {
        "prompt_token_count": 100, "cached_content_token_count": 60, "candidates_token_count": 9,
        "thoughts_token_count": 5, "total_token_count": 114,
    }  # fmt: skip
    v1.add_event("counter", [{"text": "ok"}], usage_metadata=usage, model_version="gemini-x")
    v1.add_event(
        "counter", [{"text": "odd"}], usage_metadata={"prompt_token_count": -1, "candidates_token_count": 2**70}
    )
    read(v1)
    assert [entry.tokens for entry in entries(store)] == [Tokens(40, 14, 60), Tokens()]
    assert (only_session(store).tokens_total, only_session(store).model) == (114, "gemini-x")


def test_parts_of_every_kind(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session()
    v1.add_event(
        "user",
        [
            {"inline_data": {"mime_type": "image/png", "data": "iVBORw0KGg==", "display_name": "a.png"}},
            {"file_data": {"mime_type": "application/pdf", "file_uri": "gs://b/x.pdf"}},
            {"hologram": {"of": "a cat"}},
            "not even an object",
        ],
    )
    v1.add_event("coder", [{"executable_code": {"code": "1/0", "language": "PYTHON"}}])
    v1.add_event("coder", [{"code_execution_result": {"outcome": "OUTCOME_FAILED", "output": "ZeroDivisionError"}}])
    v1.add_event("coder", [{"thought": True, "text": "so", "thought_signature": "c2ln"}])
    assert read(v1).problems == []
    parts = [entry.parts for entry in entries(store)]
    assert parts[0] == (
        Attachment("image/png", "a.png", 7),
        Attachment("application/pdf", uri="gs://b/x.pdf"),
        Opaque("hologram", {"hologram": {"of": "a cat"}}),
        Opaque("", "not even an object"),
    )
    (call,) = store.chains.tool_calls(only_session(store).key)
    assert (call.name, call.status, call.result) == ("code_execution", "error", "ZeroDivisionError")
    assert parts[3] == (Thinking("so", "c2ln"),)
    assert only_session(store).turns == 1


def respond(database: AdkSqliteDatabase, author: str, name: str, response: dict[str, Any], **fields: Any) -> None:
    database.add_event(
        author, [{"function_response": {"id": name, "name": "tool", "response": response}}], role="user", **fields
    )


def call(database: AdkSqliteDatabase, *names: str, **fields: Any) -> None:
    database.add_event(
        "worker", [{"function_call": {"id": name, "name": "tool", "args": {}}} for name in names], **fields
    )


def test_a_tool_that_says_error_failed(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session()
    call(v1, "a", "b", "c", "d")
    respond(v1, "worker", "a", {"error": "no such file"})
    respond(v1, "worker", "b", {"status": "error", "error_message": "no"})
    respond(v1, "worker", "c", {"content": [], "isError": True})
    respond(v1, "worker", "d", {"error": None, "status": "success"})
    read(v1)
    calls = store.chains.tool_calls(only_session(store).key)
    assert [call.status for call in calls] == ["error", "error", "error", "ok"]


def test_a_long_running_tool_is_pending_until_its_final_answer(
    database: AdkSqliteDatabase, store: Store, read: Any
) -> None:
    database.add_session()
    call(database, "a", long_running_tool_ids=["a"])
    respond(database, "worker", "a", {"ticket": 12})
    read(database)
    assert [call.status for call in store.chains.tool_calls(only_session(store).key)] == ["pending"]
    assert [(entry.kind, entry.text) for entry in entries(store)][1] == ("event", "ticket: 12")
    respond(database, "user", "a", {"approved": True})
    respond(database, "user", "a", {"paid": True})
    read(database)
    (paired,) = store.chains.tool_calls(only_session(store).key)
    assert (paired.status, paired.result) == ("ok", {"approved": True})
    assert only_session(store).turns == 0, "no person said anything"
    assert entries(store)[-1].text == "paid: True"


def test_a_call_that_needs_confirmation_gets_its_later_result(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session()
    call(v1, "a")
    actions = {"requested_tool_confirmations": {"a": {"hint": "really?"}}}
    respond(v1, "worker", "a", {"error": "This tool call requires confirmation."}, actions=actions)
    respond(v1, "worker", "a", {"deleted": 3})
    read(v1)
    (paired,) = store.chains.tool_calls(only_session(store).key)
    assert (paired.status, paired.result) == ("ok", {"deleted": 3})


def test_events_without_words(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session()
    v1.add_event("worker", actions={"state_delta": {"topic": "invoices", "app:calls": 2}})
    v1.add_event("user", actions={"rewind_before_invocation_id": "e-7"})
    v1.add_event("node", output={"text": "the node's result"})
    v1.add_event("user", actions={"compaction": {"compacted_content": {"parts": [{"text": "They talked."}]}}})
    v1.add_event("user", input_transcription={"text": "spoken aloud", "finished": True})
    v1.add_event("worker", [{"text": "cut sho"}], error_code="MAX_TOKENS")
    v1.insert_event(None, v1.encode_time(NOON + 90), "nothing")
    assert read(v1).problems == []
    assert [(entry.kind, entry.role, entry.text) for entry in entries(store)] == [
        ("event", "", "topic: invoices\napp:calls: 2"),
        ("event", "", "Rewound to before invocation e-7."),
        ("event", "", "the node's result"),
        ("compaction", "", "They talked."),
        ("message", "user", "spoken aloud"),
        ("message", "assistant", "cut sho"),
        ("event", "", "MAX_TOKENS"),
        ("event", "", ""),
    ]


# ── state ─────────────────────────────────────────────────────────────────────────────────────────


def facts(store: Store) -> dict[str, set[str]]:
    """Return the facts by scope, without the identity of the store."""
    facts_by_scope: dict[str, set[str]] = {}
    for fact in store.facts.current(None):
        facts_by_scope.setdefault(fact.scope.partition("@")[0], set()).add(fact.text)
    return facts_by_scope


def test_state_becomes_facts_of_its_scope(database: AdkSqliteDatabase, store: Store, read: Any) -> None:
    database.add_session("a/b", "ana", state='{"topic": "invoices", "last": {"n": 7}}')
    database.execute("insert into app_states values ('a/b', '{\"motd\": \"hello\"}', ?)", database.encode_time(NOON))
    database.execute(
        "insert into user_states values ('a/b', 'ana', '{\"seen\": true, \"bio\": \"é\\nè\"}', ?)",
        database.encode_time(NOON),
    )
    assert read(database).problems == []
    assert facts(store) == {
        "app:a/b": {"motd: hello"},
        user_scope("a/b", "ana"): {"seen: true", 'bio: "é\\nè"'},
        f"session:{only_session(store).id.partition('@')[0]}": {"topic: invoices", 'last: {"n":7}'},
    }
    database.execute('update app_states set state = \'{"motd": "bye"}\'')
    read(database)
    assert facts(store)["app:a/b"] == {"motd: bye"}


def test_a_broken_state_is_one_problem(database: AdkSqliteDatabase, store: Store, read: Any) -> None:
    add_conversation(database)
    database.execute("insert into app_states values ('dak', '[1]', ?)", database.encode_time(NOON))
    database.execute(
        "insert into user_states values ('dak', 'ana', '{\"lang\": \"en\"}', ?)", database.encode_time(NOON)
    )
    (problem,) = read(database).problems
    assert problem.where == "app_states:dak"
    assert facts(store) == {"user:dak/ana": {"lang: en"}}


def test_lone_surrogates_in_keys_stay_distinct(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session(state='{"\\ud800": "a", "\\udc00": "b", "\\ufffd": "c"}')
    assert read(v1).problems == []
    assert {fact.text[-1] for fact in store.facts.current(None)} == {"a", "b", "c"}


# ── roots and resume ──────────────────────────────────────────────────────────────────────────────


def test_databases_in_and_below_the_current_folder_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (".", "weather", "weather/inner"):
        (tmp_path / folder / ".adk").mkdir(parents=True)
        (tmp_path / folder / ".adk/session.db").touch()
    monkeypatch.chdir(tmp_path)
    databases = [str(tmp_path / ".adk/session.db"), str(tmp_path / "weather/.adk/session.db")]
    assert list(adk.roots()) == databases
    monkeypatch.setenv("SESSION_SERVICE_URI", "sqlite:///dak.db")
    assert list(adk.roots()) == ["sqlite:///dak.db", *databases]


def test_databases_of_other_programs_are_not_detected(tmp_path: Path, database: AdkSqliteDatabase) -> None:
    assert adk.detect(str(database.path))
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.executescript("create table sessions (id text, state text); create table events (id text);")
    assert not adk.detect(str(other))
    with pytest.raises(Unreadable, match="no google-adk tables"), adk.open(str(other)):
        pass


def test_resume_gives_a_hint(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session(name="session_ana")
    read(v1)
    command = adk.resume(only_session(store))
    assert command.argv is None
    assert "--username ana" in command.hint
    assert "X-Session-ID: session_ana" in command.hint
    assert "adk web --session_service_uri" in command.hint


def test_binary_where_text_belongs_is_a_problem(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    add_conversation(v1)
    v1.execute("update events set event_data = x'ff00' where id = 'e002'")
    v1.execute("insert into sessions values (x'01', 'u', 's', '{}', '', '')")
    assert {problem.where for problem in read(v1).problems} == {"events:e002", "sessions"}
    assert len(entries(store)) == 4


def test_a_call_and_its_result_in_one_event(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session()
    v1.add_event(
        "w", [{"function_call": {"name": "f", "args": {}}}, {"function_response": {"name": "f", "response": {}}}]
    )
    read(v1)
    assert entries(store)[0].parts == (ToolCall("f", "f", {}), ToolResult("f", {}, name="f"))
    assert [call.status for call in store.chains.tool_calls(only_session(store).key)] == ["ok"]
