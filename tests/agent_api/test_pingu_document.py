"""Tests the first document, Storage (Pingu): its columns, calls, output item types and session ids."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from store.paths import config_file, resolve_store_path
from store.store import Store

CHAT = "telegram:648079060"

# There is one item of each type that the document lists, with fields that only a lossless round trip keeps.
OUTPUT_ITEMS: dict[str, dict[str, Any]] = {
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "content": [
            {"type": "output_text", "text": "41% full", "annotations": [{"type": "url_citation", "url": "u"}]},
            {"type": "refusal", "refusal": "Not that."},
        ],
    },
    "function_call": {
        "id": "fc_1",
        "type": "function_call",
        "call_id": "call_1",
        "name": "disk",
        "arguments": '{"path": "/"}',
        "status": "completed",
    },
    "reasoning": {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "look at df"}],
        "encrypted_content": "gAAAA==",
    },
    "file_search_call": {
        "id": "fs_1",
        "type": "file_search_call",
        "queries": ["disk"],
        "status": "completed",
        "results": [{"file_id": "f", "text": "df says", "score": 0.5}],
    },
    "web_search_call": {
        "id": "ws_1",
        "type": "web_search_call",
        "status": "completed",
        "action": {"type": "search", "query": "df flags"},
    },
    "computer_call": {
        "id": "cc_1",
        "type": "computer_call",
        "call_id": "call_2",
        "action": {"type": "click", "x": 1, "y": 2, "button": "left"},
        "pending_safety_checks": [],
        "status": "completed",
    },
    "code_interpreter_call": {
        "id": "ci_1",
        "type": "code_interpreter_call",
        "code": "print(1)",
        "container_id": "c",
        "outputs": [{"type": "logs", "logs": "1"}],
        "status": "completed",
    },
}


def response(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "resp_1", "object": "response", "model": "gpt-x", "output": list(items), **more}


@pytest.mark.parametrize(
    ("column", "ours", "value"),
    [
        ("id", "id", CHAT),
        ("channel", "channel", "default"),
        ("channel_id", "channel_id", "648079060"),
        ("title", "agent_title", "Disk space"),
        ("model", "model", "gpt-x"),
    ],
)
def test_sessions_column(store: Store, column: str, ours: str, value: str) -> None:
    fields = {column: value} if column != "id" else {}
    store.ensure_session(CHAT, **fields)  # type: ignore[arg-type]
    assert getattr(store.get_session(CHAT), ours) == value


def test_sessions_columns_summary_and_summary_up_to(store: Store) -> None:
    store.ensure_session(CHAT)
    for number in range(3):
        store.save_turn(CHAT, f"question {number}", response(OUTPUT_ITEMS["message"]))
    store.set_summary(CHAT, "They asked about disks.", up_to_turn=2)
    summary = store.summaries.current(store.get_session(CHAT))
    assert summary is not None
    assert (summary.text, summary.up_to_turn) == ("They asked about disks.", 2)


def test_sessions_columns_created_at_and_updated_at(store: Store) -> None:
    session = store.ensure_session(CHAT)
    assert session.created_at <= session.updated_at
    assert session.created_at.endswith("Z")


def test_turns_columns(store: Store) -> None:
    """id, session_id, user_message, response_json, model, created_at."""
    store.ensure_session(CHAT)
    raw = json.dumps(response(OUTPUT_ITEMS["message"], instructions="Be brief."), indent=1)
    store.save_turn(CHAT, "How full is the disk?", raw)
    session = store.get_session(CHAT)
    turn = store.chains.turns(session.key, 1)[0]
    answer = turn.entries[1]
    assert (turn.n, turn.prompt, answer.model) == (1, "How full is the disk?", "gpt-x")
    assert turn.started_at
    assert answer.record is not None
    assert store.records.get(answer.record).decode() == raw


def test_messages_fine_grained_are_entries_of_the_turn(store: Store) -> None:
    """The document reserves `messages` for this. Here every output item has its own entry."""
    store.ensure_session(CHAT)
    store.save_turn(CHAT, "go", response(*OUTPUT_ITEMS.values()))
    entries = store.chains.turns(store.get_session(CHAT).key, 1)[0].entries
    assert len(entries) == 1 + len(OUTPUT_ITEMS)
    assert {entry.message_key for entry in entries[1:]} == {"resp_1"}


def test_ensure_session_creates_then_touches(store: Store) -> None:
    first = store.ensure_session(CHAT, channel="default")
    again = store.ensure_session(CHAT)
    assert again.key == first.key
    assert again.updated_at > first.updated_at
    assert again.created_at == first.created_at
    assert again.channel == "default"


def test_save_turn_keeps_the_whole_response(store: Store) -> None:
    store.ensure_session(CHAT)
    given = response(
        OUTPUT_ITEMS["message"],
        usage={"input_tokens": 9, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}},
        unheard_of={"kept": True},
    )
    store.save_turn(CHAT, "hi", given)
    session = store.get_session(CHAT)
    assert (session.turns, session.entries) == (1, 2)
    assert (session.tokens_input, session.tokens_output, session.tokens_cached) == (5, 3, 4)
    answer = store.chains.entries(session.key)[-1]
    assert answer.record is not None
    assert json.loads(store.records.get(answer.record)) == given


def test_save_turn_takes_the_sdk_s_object(store: Store) -> None:
    class Response:
        def model_dump(self, **_: object) -> dict[str, Any]:
            return response(OUTPUT_ITEMS["message"])

    store.ensure_session(CHAT)
    store.save_turn(CHAT, "hi", Response())
    assert store.load_input_history(CHAT)[1] == OUTPUT_ITEMS["message"]


@pytest.mark.parametrize("kind", OUTPUT_ITEMS)
def test_load_input_history_gives_back_each_output_item_type(store: Store, kind: str) -> None:
    store.ensure_session(CHAT)
    store.save_turn(CHAT, "first", response(OUTPUT_ITEMS[kind]))
    assert store.load_input_history(CHAT) == [{"role": "user", "content": "first"}, OUTPUT_ITEMS[kind]]


def test_load_input_history_over_turns_and_unknown_types(store: Store) -> None:
    store.ensure_session(CHAT)
    unknown = {"type": "mcp_call", "id": "m", "server_label": "x", "output": "y"}
    store.save_turn(CHAT, "one", response(*OUTPUT_ITEMS.values()))
    store.save_turn(CHAT, "two", response(unknown))
    assert store.load_input_history(CHAT) == [
        {"role": "user", "content": "one"},
        *OUTPUT_ITEMS.values(),
        {"role": "user", "content": "two"},
        unknown,
    ]


def test_load_input_history_hands_tool_outputs_back(store: Store) -> None:
    store.ensure_session(CHAT)
    output = {"type": "function_call_output", "call_id": "call_1", "output": "41%"}
    store.save_turn(CHAT, "how full?", response(OUTPUT_ITEMS["function_call"]))
    store.save_turn(CHAT, [output], response(OUTPUT_ITEMS["message"]))
    assert store.load_input_history(CHAT)[2] == output
    session = store.get_session(CHAT)
    assert (session.turns, session.tool_calls) == (1, 1)
    (call,) = store.chains.tool_calls(session.key)
    assert (call.name, call.arguments, call.result, call.status) == ("disk", {"path": "/"}, "41%", "ok")


def test_a_reply_that_was_not_stored_is_no_error(store: Store) -> None:
    store.ensure_session(CHAT)
    store.save_turn(CHAT, "hi", response())
    assert store.get_session(CHAT).turns == 1
    assert store.load_input_history(CHAT) == [{"role": "user", "content": "hi"}]


def test_session_id_pattern_of_a_channel(store: Store) -> None:
    store.ensure_session(CHAT)
    assert store.get_session(CHAT).parent_id is None


@pytest.mark.parametrize(
    ("delegate", "parent"),
    [
        (f"{CHAT}:delegate:sysinfo", CHAT),
        (f"{CHAT}:delegate:sysinfo:delegate:df", f"{CHAT}:delegate:sysinfo"),
    ],
)
def test_session_id_pattern_of_a_delegate_names_its_parent(store: Store, delegate: str, parent: str) -> None:
    store.ensure_session(delegate)
    session = store.get_session(delegate)
    assert (session.parent_id, session.relation) == (parent, "delegate")
    store.ensure_session(parent)
    assert [child.id for child in store.sessions.children(parent)] == [delegate]


def test_a_delegate_s_history_does_not_pollute_its_parent_s(store: Store) -> None:
    store.ensure_session(CHAT)
    store.ensure_session(f"{CHAT}:delegate:sysinfo")
    store.save_turn(f"{CHAT}:delegate:sysinfo", "df", response(OUTPUT_ITEMS["message"]))
    assert store.load_input_history(CHAT) == []


def test_wal_and_foreign_keys_are_on(store: Store) -> None:
    assert store.row("pragma journal_mode")[0] == "wal"
    assert store.row("pragma foreign_keys")[0] == 1


def test_the_path_comes_from_the_config_file(tmp_path: Path) -> None:
    """The document has `[db] path`, and we have `[store] path`. A leading ~ is the home folder."""
    config_file().parent.mkdir(parents=True)
    config_file().write_text('[store]\npath = "~/elsewhere/mine.db"\n')
    assert resolve_store_path() == Path.home() / "elsewhere" / "mine.db"
    with Store.open() as opened:
        assert opened.path == Path.home() / "elsewhere" / "mine.db"


def test_the_schema_is_applied_on_opening(tmp_path: Path) -> None:
    with Store.open(tmp_path / "new.db") as opened:
        assert opened.list_sessions(1) == []
