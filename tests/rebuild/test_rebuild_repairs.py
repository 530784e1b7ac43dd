"""Tests repairs, conversations up to a turn, and summaries that replace the past."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import CommandLine
from vendor_api_rules import (
    ANTHROPIC_BLOCKS,
    RESPONSES_OUTPUT,
    append_records,
    carried_counts,
    check_rules,
    check_types,
    claude_record,
    each_shape,
    make_conversation,
    make_entry,
)

from store.doctor import check_store
from store.errors import NotFound
from store.model.entry import Json, NewEntry, NewRecord, Opaque, Text, ToolCall, ToolResult
from store.rebuild import ApiFormat, RebuildResult, find_unpaired_calls, rebuild_entries, rebuild_session
from store.rebuild.pairs import INTERRUPTED
from store.store import Store

# ── repairs ───────────────────────────────────────────────────────────────────────────────────────

BROKEN = make_conversation(
    ("user", Text("go")),
    ("tool", ToolResult("x", "nobody asked")),
    ("assistant", (ToolCall("a", "ls", {}), ToolCall("a", "ls", {}), ToolCall("b", "cat", {}))),
    ("tool", ToolResult("a", "files")),
    ("tool", ToolResult("a", "files")),
    ("user", Text("and?")),
    ("assistant", Opaque("odd", {"x": 1})),
)


@each_shape
def test_calls_and_results_that_do_not_pair_are_repaired_and_reported(shape: ApiFormat) -> None:
    result = rebuild_entries(shape, BROKEN, {})
    assert result.mended == (
        "A result for the unknown call 'x' is left out.",
        "The call 'a' of 'ls' appears twice; the second is left out.",
        "The call 'a' has a second result, which is left out.",
        "The call 'b' of 'cat' has no result; it is closed as interrupted.",
    )
    assert INTERRUPTED in json.dumps(result.body)
    assert "nobody asked" not in json.dumps(result.body)
    check_types(shape, result.body, only_known=True)
    check_rules(shape, result.body)


def test_what_does_not_pair_is_told_without_mending() -> None:
    assert len(find_unpaired_calls(BROKEN)) == 4
    assert find_unpaired_calls(BROKEN[:1]) == ()
    running = make_conversation(
        ("user", Text("go")), ("assistant", (ToolCall("a", "ls", {}), ToolCall("b", "cat", {})))
    )
    assert find_unpaired_calls(running) == ()
    assert find_unpaired_calls([*running, make_entry(2, "tool", (ToolResult("b", "x"),))]) == ()
    assert find_unpaired_calls([*running, make_entry(2, "user", (Text("hey"),))]) == (
        "The call 'a' of 'ls' has no result.",
        "The call 'b' of 'cat' has no result.",
    )


@each_shape
def test_one_id_for_many_calls_becomes_an_id_for_each(shape: ApiFormat) -> None:
    """If a model gives no ids, some agents use the name of the tool as the id of a call."""
    entries = make_conversation(
        ("user", Text("go")),
        ("assistant", (ToolCall("ls", "ls", {"p": 1}), ToolCall("ls", "ls", {"p": 2}))),
        ("tool", (ToolResult("ls", "one"), ToolResult("ls", "two"))),
        ("assistant", ToolCall("ls", "ls", {"p": 1})),
        ("tool", ToolResult("ls", "three")),
    )
    result = rebuild_entries(shape, entries, {})
    assert result.mended == ()
    assert carried_counts(result, "mapped") == {"tool call id": 2}
    check_rules(shape, result.body)
    body = json.dumps(result.body)
    assert body.index("one") < body.index("two") < body.index("three")


def test_a_call_that_only_its_vendor_can_answer_is_left_out(store: Store) -> None:
    session = append_records(store, claude_record("go", role="user"), claude_record(*ANTHROPIC_BLOCKS[2:4]))
    result = rebuild_session(store, session, "anthropic")
    assert result.body["messages"][1]["content"] == [ANTHROPIC_BLOCKS[2]]
    assert "only the vendor could" in result.mended[0]
    computer_call = append_records(store, {"type": "response_item", "payload": RESPONSES_OUTPUT[5]})
    assert rebuild_session(store, computer_call, "responses").body == {"input": []}


@pytest.mark.parametrize(
    ("shape", "thought"),
    [
        ("anthropic", claude_record(ANTHROPIC_BLOCKS[0])),
        ("responses", {"type": "response_item", "payload": RESPONSES_OUTPUT[0]}),
    ],
)
def test_a_thought_that_nothing_came_of_is_left_out(store: Store, shape: ApiFormat, thought: Json) -> None:
    result = rebuild_session(store, append_records(store, thought), shape)
    assert result.body.popitem()[1] == []
    assert result.mended == ("A thought that nothing follows is left out.",)


def test_a_thought_behind_a_call_of_its_message_is_left_out(store: Store) -> None:
    """The result of the call comes between the thought and the next message."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    session = append_records(
        store,
        claude_record("go", role="user"),
        claude_record(call, ANTHROPIC_BLOCKS[0]),
        claude_record("done", key="msg_2"),
    )
    result = rebuild_session(store, session, "anthropic")
    assert result.body["messages"][1]["content"] == [call]
    assert result.mended[-1] == "A thought that nothing follows is left out."
    check_rules("anthropic", result.body)


# ── turns and summaries ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def conversation(store: Store) -> Store:
    store.create_session("talk", system_prompt="Be kind.")
    for n in range(1, 5):
        store.append_message("talk", "user", f"question {n}")
        store.append_message("talk", "assistant", f"answer {n}")
    return store


def message_texts(result: RebuildResult) -> list[str]:
    return [message["content"] for message in result.body["messages"]]


def test_up_to_a_turn(conversation: Store) -> None:
    session = conversation.get_session("talk")
    assert message_texts(rebuild_session(conversation, session, "chat", turn=2))[-2:] == ["question 2", "answer 2"]
    assert message_texts(rebuild_session(conversation, session, "chat", turn=0)) == ["Be kind."]
    with pytest.raises(NotFound, match=r"No such turn: 9\. The last turn is 4"):
        rebuild_session(conversation, session, "chat", turn=9)


def test_a_summary_replaces_the_turns_that_it_covers(conversation: Store) -> None:
    conversation.set_summary("talk", "They talked.", up_to_turn=3)
    session = conversation.get_session("talk")
    with_summary = rebuild_session(conversation, session, "chat")
    assert message_texts(with_summary) == [
        "Be kind.",
        "What was said before, in short:\n\nThey talked.",
        "question 4",
        "answer 4",
    ]
    assert carried_counts(with_summary, "dropped") == {"entry": 6}
    assert len(message_texts(rebuild_session(conversation, session, "chat", with_summary=False))) == 9
    assert message_texts(rebuild_session(conversation, session, "chat", turn=2))[1] == "question 1", (
        "it covers more than is asked for"
    )


def test_a_summary_without_a_turn_replaces_nothing(conversation: Store) -> None:
    conversation.set_summary("talk", "They talked.")
    result = rebuild_session(conversation, conversation.get_session("talk"), "chat")
    assert len(message_texts(result)) == 9
    assert carried_counts(result, "dropped") == {"summary": 1}


def test_a_compaction_replaces_what_came_before_it(conversation: Store) -> None:
    session = conversation.get_session("talk")
    conversation.chains.append(session.key, [NewEntry(kind="compaction", role="system", parts=(Text("In short."),))])
    conversation.append_message("talk", "assistant", "going on within the turn")
    compacted = ["Be kind.", "In short.", "going on within the turn"]
    assert message_texts(rebuild_session(conversation, session, "chat")) == compacted
    assert "In short." not in message_texts(rebuild_session(conversation, session, "chat", with_summary=False))
    conversation.set_summary("talk", "In short.", up_to_turn=4)
    assert message_texts(rebuild_session(conversation, session, "chat")) == compacted
    conversation.set_summary("talk", "Put better.", up_to_turn=4)
    assert message_texts(rebuild_session(conversation, session, "chat"))[1:] == [
        "What was said before, in short:\n\nPut better.",
        compacted[2],
    ]
    conversation.set_summary("talk", "Only the beginning.", up_to_turn=1)
    assert "question 2" in message_texts(rebuild_session(conversation, session, "chat")), (
        "turns that are not covered are sent themselves"
    )
    assert "In short." not in message_texts(rebuild_session(conversation, session, "chat"))


def test_what_codex_put_in_the_place_of_the_past_is_given_back(store: Store) -> None:
    message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "kept"}]}
    sealed = {"type": "compaction", "encrypted_content": "gAAA"}
    session = append_records(store, {"type": "response_item", "payload": {**message, "content": "before"}})
    record = NewRecord(
        json.dumps({"type": "compacted", "payload": {"replacement_history": [message, sealed]}}).encode()
    )
    store.chains.append(session.key, [NewEntry(kind="compaction", role="system", record=record)])
    result = rebuild_session(store, session, "responses")
    assert result.body == {"input": [message, sealed]}
    check_types("responses", result.body)
    assert rebuild_session(store, session, "chat").body == {"messages": []}, "no other can open it"


def test_a_turn_that_begins_within_a_record_ends_there(store: Store) -> None:
    session = store.create_session()
    prompt = {"role": "user", "content": "next"}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    store.save_turn(session.id, "first", {"output": [call]})
    store.save_turn(session.id, [output, prompt], {"output": []})
    assert rebuild_session(store, session, "responses", turn=1).body["input"] == [
        {"role": "user", "content": "first"},
        call,
        output,
    ]
    assert rebuild_session(store, session, "responses").body["input"][-1] == prompt


# ── doctor and the command line ───────────────────────────────────────────────────────────────────


def test_doctor_names_exactly_the_sessions_that_a_rebuild_would_repair(store: Store) -> None:
    call, answer = ToolCall("a", "ls", {}), ToolResult("a", "x")
    conversations: dict[str, list[NewEntry]] = {
        "whole": [NewEntry(role="assistant", parts=(call,)), NewEntry(role="tool", parts=(answer,))],
        "running": [NewEntry(role="assistant", parts=(call,))],
        "open": [NewEntry(role="assistant", parts=(call,)), NewEntry(role="user", parts=(Text("hey"),))],
        "orphan": [NewEntry(role="tool", parts=(answer,))],
        "twice": [
            NewEntry(role="assistant", parts=(call,)),
            NewEntry(role="tool", parts=(answer,)),
            NewEntry(role="tool", parts=(answer,)),
        ],
    }
    for name, entries in conversations.items():
        session = store.create_session(name)
        store.chains.append(session.key, entries)
    named = {finding.where.partition("#")[0] for finding in check_store(store)}
    faulty = {name for name in conversations if find_unpaired_calls(store.chains.entries(store.get_session(name).key))}
    assert named == faulty == {"open", "orphan", "twice"}
    assert {
        name for name in conversations if rebuild_session(store, store.get_session(name), "chat").mended
    } == faulty | {"running"}


@pytest.fixture
def backscroll(conversation: Store) -> CommandLine:
    conversation.set_summary("talk", "They talked.", up_to_turn=3)
    conversation.append_message("talk", "assistant", [{"type": "tool_use", "id": "a", "name": "ls", "input": {}}])
    return CommandLine(conversation.path)


@pytest.mark.parametrize(
    ("shape", "names"), [("responses", ["input"]), ("chat", ["messages"]), ("anthropic", ["system", "messages"])]
)
def test_the_command_prints_what_the_api_takes_and_says_the_rest(
    backscroll: CommandLine, conversation: Store, shape: ApiFormat, names: list[str]
) -> None:
    ran = backscroll("rebuild", "talk", "--as", shape)
    body = json.loads(ran.out)
    assert (ran.status, list(body)) == (0, names)
    assert body == rebuild_session(conversation, conversation.get_session("talk"), shape).body
    assert "kept: 1 × system prompt" in ran.err
    assert "dropped: 6 × entry (a summary replaces it)" in ran.err
    assert "repaired: The call 'a' of 'ls' has no result; it is closed as interrupted." in ran.err


def test_the_command_goes_to_a_turn_without_a_summary_and_reports_to_a_file(
    backscroll: CommandLine, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    ran = backscroll("rebuild", "talk", "--as", "chat", "--turn", "2", "--no-summary", "--report", str(report))
    texts = [message["content"] for message in json.loads(ran.out)["messages"]]
    assert texts == ["Be kind.", "question 1", "answer 1", "question 2", "answer 2"]
    assert ran.err == ""
    assert report.read_text().splitlines() == ["kept: 4 × message", "kept: 1 × system prompt"]


def test_the_command_tells_it_all_as_json(backscroll: CommandLine) -> None:
    ran = backscroll("rebuild", "talk", "--as", "chat", "--json")
    assert list(ran.json) == ["schema", "body", "carried", "mended"]
    assert ran.json["carried"][0].keys() == {"field", "how", "count", "why"}
    assert ran.err == ""


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["talk"], 2, "--as"),
        (["talk", "--as", "klingon"], 2, "klingon"),
        (["nobody", "--as", "chat"], 1, "No such session: 'nobody'"),
        (["talk", "--as", "chat", "--turn", "9"], 1, "No such turn: 9. The last turn is 4."),
        (["talk", "--as", "chat", "--report", "/no/such/folder/x"], 1, "I/O error: /no/such/folder/x: No such file"),
    ],
)
def test_the_command_says_what_is_wrong(backscroll: CommandLine, args: list[str], status: int, words: str) -> None:
    ran = backscroll("rebuild", *args)
    assert (ran.status, ran.out) == (status, "")
    assert words in ran.err
