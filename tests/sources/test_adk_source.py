"""google-adk's databases, in each of their layouts: the tables as ADK makes them, filled with little."""

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
def made(request: pytest.FixtureRequest, tmp_path: Path) -> AdkSqliteDatabase:
    return AdkSqliteDatabase(tmp_path / "agent.db", request.param)


@pytest.fixture
def v1(tmp_path: Path) -> AdkSqliteDatabase:
    return AdkSqliteDatabase(tmp_path / "agent.db", "v1")


@pytest.fixture
def read(store: Store) -> Callable[[AdkSqliteDatabase], Report]:
    def run(made: AdkSqliteDatabase) -> Report:
        for progress in refresh.sync_targets(store, find_targets([str(made.path)])):
            report = progress.report
        return report

    return run


def only(store: Store) -> Session:
    (session,) = [session for session in store.list_sessions() if session.relation != "superseded"]
    return session


def entries(store: Store) -> list[Any]:
    return store.chains.entries(only(store).key, 0)


def overdue(made: AdkSqliteDatabase) -> None:
    made.add_session()
    made.add_event("user", [{"text": "How many are overdue?"}], role="user")
    call = {"id": "adk-1", "name": "count", "args": {"days": 30}}
    made.add_event("counter", [{"text": "Looking."}, {"function_call": call}])
    answer = {"id": "adk-1", "name": "count", "response": {"result": 7}}
    made.add_event("counter", [{"function_response": answer}], role="user")
    made.add_event("counter", [{"text": "hm", "thought": True}, {"text": "Seven. é✓"}])


# ── each layout ───────────────────────────────────────────────────────────────────────────────────


def test_a_conversation_reads_the_same_in_every_layout(made: AdkSqliteDatabase, store: Store, read: Any) -> None:
    overdue(made)
    assert read(made).problems == []
    session = only(store)
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
    made: AdkSqliteDatabase, store: Store, read: Any
) -> None:
    overdue(made)
    read(made)
    os.utime(made.path)
    assert (read(made).new, read(made).unchanged) == (0, 1)
    made.add_event("user", [{"text": "Thanks."}], role="user")
    assert read(made).updated == 1
    assert [entry.text for entry in entries(store)] == ["How many are overdue?", "Looking.", "", "Seven. é✓", "Thanks."]
    assert only(store).turns == 2


def test_a_rewritten_event_stays_reachable(made: AdkSqliteDatabase, store: Store, read: Any) -> None:
    overdue(made)
    read(made)
    column = "content" if "v0" in made.layout else "event_data"
    made.execute(f"update events set {column} = replace({column}, 'Seven', 'Eight') where id = 'e004'")
    read(made)
    assert entries(store)[3].text == "Eight. é✓"
    (before,) = store.sessions.children(only(store).id)
    assert before.relation == "superseded"
    assert store.chains.entries(before.key)[-1].text == "Seven. é✓"


def test_an_empty_session_is_a_session(made: AdkSqliteDatabase, store: Store, read: Any) -> None:
    made.add_session()
    assert read(made).problems == []
    assert only(store).entries == 0


def test_sessions_of_two_apps_with_one_id_are_two(made: AdkSqliteDatabase, store: Store, read: Any) -> None:
    for app, user, name in (("a/b", "c", "s"), ("a", "b/c", "s"), ("a", "b", "c/s")):
        made.add_session(app, user, name)
        made.add_event("user", [{"text": f"I am {user} of {app}."}], session=(app, user, name))
    assert read(made).new == 3
    assert {session.native_id: session.first_prompt for session in store.list_sessions()} == {
        "a%2Fb/c/s": "I am c of a/b.",
        "a/b%2Fc/s": "I am b/c of a.",
        "a/b/c%2Fs": "I am b of a.",
    }


def test_an_error_is_an_event_that_says_so(made: AdkSqliteDatabase, store: Store, read: Any) -> None:
    made.add_session()
    made.add_event("counter", error_code="429", error_message="quota")
    assert read(made).problems == []
    (entry,) = entries(store)
    assert (entry.kind, entry.text, entry.author) == ("event", "429: quota", "counter")


def test_half_a_content_is_one_problem(made: AdkSqliteDatabase, store: Store, read: Any) -> None:
    overdue(made)
    column = "content" if "v0" in made.layout else "event_data"
    made.execute(f"update events set {column} = substr({column}, 1, 20) where id = 'e002'")
    (problem,) = read(made).problems
    assert problem.where == "events:e002"
    assert [entry.kind for entry in entries(store)] == ["message", "unknown", "message", "message"]
    assert isinstance(entries(store)[1].parts[0], Opaque)


def test_unknown_columns_are_kept_in_the_record(made: AdkSqliteDatabase, store: Store, read: Any) -> None:
    overdue(made)
    made.execute("alter table events add column \"a 'new' \"\"one\" text default 'here'")
    assert read(made).problems == []
    assert json.loads(store.records.get(entries(store)[0].record))["a 'new' \"one"] == "here"


@pytest.mark.parametrize("layout", ["1.0 v0", "1.19 v0"])
def test_what_was_pickled_is_measured_and_never_run(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Store, read: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    made = AdkSqliteDatabase(tmp_path / "agent.db", layout)
    overdue(made)
    read(made)
    for entry in entries(store):
        record = json.loads(store.records.get(entry.record))
        assert record["actions_bytes"] == len(MALICIOUS_PICKLE)
        assert "actions" not in record
    assert not Path("unpickled").exists()


def test_json_null_in_a_column_is_no_problem(tmp_path: Path, store: Store, read: Any) -> None:
    made = AdkSqliteDatabase(tmp_path / "agent.db", "1.19 v0")
    overdue(made)
    made.execute("update events set usage_metadata = 'null', input_transcription = 'null'")
    assert read(made).problems == []


def test_a_broken_column_beside_the_content_costs_only_itself(tmp_path: Path, store: Store, read: Any) -> None:
    made = AdkSqliteDatabase(tmp_path / "agent.db", "1.19 v0")
    overdue(made)
    made.execute("update events set usage_metadata = '{\"prompt' where id = 'e004'")
    (problem,) = read(made).problems
    assert (problem.where, "usage_metadata" in problem.reason) == ("events:e004", True)
    assert entries(store)[3].text == "Seven. é✓"


# ── times ─────────────────────────────────────────────────────────────────────────────────────────


def test_v1_goes_by_the_moment_in_the_event_not_by_the_column(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session()
    tokyo = 9 * 3600
    # The clocks went back an hour between the two, so the column has them the wrong way round.
    v1.add_event("user", [{"text": "first"}], at=NOON, column_at=NOON + tokyo)
    v1.add_event("user", [{"text": "second"}], at=NOON + 600, column_at=NOON + tokyo - 3000)
    v1.insert_event("{not json", v1.encode_time(NOON + tokyo + 1), "zz")
    read(v1)
    assert [(entry.text, entry.created_at) for entry in entries(store)][::2] == [
        ("first", "2026-11-16T12:00:00.000000Z"),
        ("second", "2026-11-16T12:10:00.000000Z"),
    ]


def test_ties_are_broken_as_each_service_does(made: AdkSqliteDatabase, store: Store, read: Any) -> None:
    made.add_session()
    made.add_event("user", [{"text": "appended first"}], at=NOON, name="z")
    made.add_event("user", [{"text": "appended second"}], at=NOON, name="a")
    read(made)
    by_appending = made.layout == "sqlite service"
    assert entries(store)[0].text == ("appended first" if by_appending else "appended second")


def test_v0_takes_its_local_times_for_utc(tmp_path: Path, store: Store, read: Any) -> None:
    made = AdkSqliteDatabase(tmp_path / "agent.db", "1.0 v0")
    made.add_session()
    made.add_event("user", [{"text": "hi"}], at=NOON)
    assert read(made).problems == []
    assert entries(store)[0].created_at == "2026-11-16T12:00:00.000000Z"


# ── what events say ───────────────────────────────────────────────────────────────────────────────


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
    assert (only(store).tokens_total, only(store).model) == (114, "gemini-x")


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
    told = [entry.parts for entry in entries(store)]
    assert told[0] == (
        Attachment("image/png", "a.png", 7),
        Attachment("application/pdf", uri="gs://b/x.pdf"),
        Opaque("hologram", {"hologram": {"of": "a cat"}}),
        Opaque("", "not even an object"),
    )
    (call,) = store.chains.tool_calls(only(store).key)
    assert (call.name, call.status, call.result) == ("code_execution", "error", "ZeroDivisionError")
    assert told[3] == (Thinking("so", "c2ln"),)
    assert only(store).turns == 1


def respond(made: AdkSqliteDatabase, author: str, name: str, response: dict[str, Any], **told: Any) -> None:
    made.add_event(
        author, [{"function_response": {"id": name, "name": "tool", "response": response}}], role="user", **told
    )


def call(made: AdkSqliteDatabase, *names: str, **told: Any) -> None:
    made.add_event("worker", [{"function_call": {"id": name, "name": "tool", "args": {}}} for name in names], **told)


def test_a_tool_that_says_error_failed(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session()
    call(v1, "a", "b", "c", "d")
    respond(v1, "worker", "a", {"error": "no such file"})
    respond(v1, "worker", "b", {"status": "error", "error_message": "no"})
    respond(v1, "worker", "c", {"content": [], "isError": True})
    respond(v1, "worker", "d", {"error": None, "status": "success"})
    read(v1)
    calls = store.chains.tool_calls(only(store).key)
    assert [call.status for call in calls] == ["error", "error", "error", "ok"]


def test_a_long_running_tool_waits_for_the_answer_behind_its_ticket(
    made: AdkSqliteDatabase, store: Store, read: Any
) -> None:
    made.add_session()
    call(made, "a", long_running_tool_ids=["a"])
    respond(made, "worker", "a", {"ticket": 12})
    read(made)
    assert [call.status for call in store.chains.tool_calls(only(store).key)] == ["pending"]
    assert [(entry.kind, entry.text) for entry in entries(store)][1] == ("event", "ticket: 12")
    respond(made, "user", "a", {"approved": True})
    respond(made, "user", "a", {"paid": True})
    read(made)
    (paired,) = store.chains.tool_calls(only(store).key)
    assert (paired.status, paired.result) == ("ok", {"approved": True})
    assert only(store).turns == 0, "nobody said anything"
    assert entries(store)[-1].text == "paid: True"


def test_a_call_that_asks_for_consent_is_answered_after_it(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session()
    call(v1, "a")
    asked = {"requested_tool_confirmations": {"a": {"hint": "really?"}}}
    respond(v1, "worker", "a", {"error": "This tool call requires confirmation."}, actions=asked)
    respond(v1, "worker", "a", {"deleted": 3})
    read(v1)
    (paired,) = store.chains.tool_calls(only(store).key)
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
    """By scope, without the store's identity."""
    told: dict[str, set[str]] = {}
    for fact in store.facts.current(None):
        told.setdefault(fact.scope.partition("@")[0], set()).add(fact.text)
    return told


def test_state_becomes_facts_of_its_scope(made: AdkSqliteDatabase, store: Store, read: Any) -> None:
    made.add_session("a/b", "ana", state='{"topic": "invoices", "last": {"n": 7}}')
    made.execute("insert into app_states values ('a/b', '{\"motd\": \"hello\"}', ?)", made.encode_time(NOON))
    made.execute(
        "insert into user_states values ('a/b', 'ana', '{\"seen\": true, \"bio\": \"é\\nè\"}', ?)",
        made.encode_time(NOON),
    )
    assert read(made).problems == []
    assert facts(store) == {
        "app:a/b": {"motd: hello"},
        user_scope("a/b", "ana"): {"seen: true", 'bio: "é\\nè"'},
        f"session:{only(store).id.partition('@')[0]}": {"topic: invoices", 'last: {"n":7}'},
    }
    made.execute('update app_states set state = \'{"motd": "bye"}\'')
    read(made)
    assert facts(store)["app:a/b"] == {"motd: bye"}


def test_a_broken_state_is_one_problem(made: AdkSqliteDatabase, store: Store, read: Any) -> None:
    overdue(made)
    made.execute("insert into app_states values ('dak', '[1]', ?)", made.encode_time(NOON))
    made.execute("insert into user_states values ('dak', 'ana', '{\"lang\": \"en\"}', ?)", made.encode_time(NOON))
    (problem,) = read(made).problems
    assert problem.where == "app_states:dak"
    assert facts(store) == {"user:dak/ana": {"lang: en"}}


def test_half_a_character_in_a_key_is_kept_apart(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session(state='{"\\ud800": "a", "\\udc00": "b", "\\ufffd": "c"}')
    assert read(v1).problems == []
    assert {fact.text[-1] for fact in store.facts.current(None)} == {"a", "b", "c"}


# ── where, and back ───────────────────────────────────────────────────────────────────────────────


def test_where_agents_of_the_current_folder_keep_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder in (".", "weather", "weather/inner"):
        (tmp_path / folder / ".adk").mkdir(parents=True)
        (tmp_path / folder / ".adk/session.db").touch()
    monkeypatch.chdir(tmp_path)
    here = [str(tmp_path / ".adk/session.db"), str(tmp_path / "weather/.adk/session.db")]
    assert list(adk.roots()) == here
    monkeypatch.setenv("SESSION_SERVICE_URI", "sqlite:///dak.db")
    assert list(adk.roots()) == ["sqlite:///dak.db", *here]


def test_other_databases_are_not_adks(tmp_path: Path, made: AdkSqliteDatabase) -> None:
    assert adk.detect(str(made.path))
    other = tmp_path / "other.db"
    with closing(sqlite3.connect(other)) as connection:
        connection.executescript("create table sessions (id text, state text); create table events (id text);")
    assert not adk.detect(str(other))
    with pytest.raises(Unreadable, match="no google-adk tables"), adk.open(str(other)):
        pass


def test_going_back_is_told_in_words(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    v1.add_session(name="session_ana")
    read(v1)
    told = adk.resume(only(store))
    assert told.argv is None
    assert "--username ana" in told.hint
    assert "X-Session-ID: session_ana" in told.hint
    assert "adk web --session_service_uri" in told.hint


def test_binary_where_text_belongs_is_a_problem(v1: AdkSqliteDatabase, store: Store, read: Any) -> None:
    overdue(v1)
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
    assert [call.status for call in store.chains.tool_calls(only(store).key)] == ["ok"]
