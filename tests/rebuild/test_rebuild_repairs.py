"""What no vendor would take is mended, and said; and a conversation up to a turn, or with a summary for its past."""

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

# ── mending ───────────────────────────────────────────────────────────────────────────────────────

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
def test_what_does_not_pair_is_mended_and_said(shape: ApiFormat) -> None:
    made = rebuild_entries(shape, BROKEN, {})
    assert made.mended == (
        "A result for the unknown call 'x' is left out.",
        "The call 'a' of 'ls' appears twice; the second is left out.",
        "The call 'a' has a second result, which is left out.",
        "The call 'b' of 'cat' has no result; it is closed as interrupted.",
    )
    assert INTERRUPTED in json.dumps(made.body)
    assert "nobody asked" not in json.dumps(made.body)
    check_types(shape, made.body, only_known=True)
    check_rules(shape, made.body)


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
    """Where a model gives no ids, a program may call each call by the tool's name."""
    told = make_conversation(
        ("user", Text("go")),
        ("assistant", (ToolCall("ls", "ls", {"p": 1}), ToolCall("ls", "ls", {"p": 2}))),
        ("tool", (ToolResult("ls", "one"), ToolResult("ls", "two"))),
        ("assistant", ToolCall("ls", "ls", {"p": 1})),
        ("tool", ToolResult("ls", "three")),
    )
    made = rebuild_entries(shape, told, {})
    assert made.mended == ()
    assert carried_counts(made, "mapped") == {"tool call id": 2}
    check_rules(shape, made.body)
    said = json.dumps(made.body)
    assert said.index("one") < said.index("two") < said.index("three")


def test_a_call_that_only_its_vendor_can_answer_is_left_out(store: Store) -> None:
    session = append_records(store, claude_record("go", role="user"), claude_record(*ANTHROPIC_BLOCKS[2:4]))
    made = rebuild_session(store, session, "anthropic")
    assert made.body["messages"][1]["content"] == [ANTHROPIC_BLOCKS[2]]
    assert "only the vendor could" in made.mended[0]
    asked = append_records(store, {"type": "response_item", "payload": RESPONSES_OUTPUT[5]})
    assert rebuild_session(store, asked, "responses").body == {"input": []}


@pytest.mark.parametrize(
    ("shape", "thought"),
    [
        ("anthropic", claude_record(ANTHROPIC_BLOCKS[0])),
        ("responses", {"type": "response_item", "payload": RESPONSES_OUTPUT[0]}),
    ],
)
def test_a_thought_that_nothing_came_of_is_left_out(store: Store, shape: ApiFormat, thought: Json) -> None:
    made = rebuild_session(store, append_records(store, thought), shape)
    assert made.body.popitem()[1] == []
    assert made.mended == ("A thought that nothing follows is left out.",)


def test_a_thought_behind_a_call_of_its_message_is_left_out(store: Store) -> None:
    """The call's result comes between it and whatever was said next."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {}}
    session = append_records(
        store,
        claude_record("go", role="user"),
        claude_record(call, ANTHROPIC_BLOCKS[0]),
        claude_record("done", key="msg_2"),
    )
    made = rebuild_session(store, session, "anthropic")
    assert made.body["messages"][1]["content"] == [call]
    assert made.mended[-1] == "A thought that nothing follows is left out."
    check_rules("anthropic", made.body)


# ── a part of it ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def talk(store: Store) -> Store:
    store.create_session("talk", system_prompt="Be kind.")
    for n in range(1, 5):
        store.append_message("talk", "user", f"question {n}")
        store.append_message("talk", "assistant", f"answer {n}")
    return store


def said(made: RebuildResult) -> list[str]:
    return [message["content"] for message in made.body["messages"]]


def test_up_to_a_turn(talk: Store) -> None:
    session = talk.get_session("talk")
    assert said(rebuild_session(talk, session, "chat", turn=2))[-2:] == ["question 2", "answer 2"]
    assert said(rebuild_session(talk, session, "chat", turn=0)) == ["Be kind."]
    with pytest.raises(NotFound, match="no turn 9; its last is 4"):
        rebuild_session(talk, session, "chat", turn=9)


def test_a_summary_stands_for_what_it_covers(talk: Store) -> None:
    talk.set_summary("talk", "They talked.", up_to_turn=3)
    session = talk.get_session("talk")
    with_summary = rebuild_session(talk, session, "chat")
    assert said(with_summary) == [
        "Be kind.",
        "What was said before, in short:\n\nThey talked.",
        "question 4",
        "answer 4",
    ]
    assert carried_counts(with_summary, "dropped") == {"entry": 6}
    assert len(said(rebuild_session(talk, session, "chat", with_summary=False))) == 9
    assert said(rebuild_session(talk, session, "chat", turn=2))[1] == "question 1", "it covers more than is asked for"


def test_a_summary_that_does_not_say_what_it_covers_stands_for_nothing(talk: Store) -> None:
    talk.set_summary("talk", "They talked.")
    made = rebuild_session(talk, talk.get_session("talk"), "chat")
    assert len(said(made)) == 9
    assert carried_counts(made, "dropped") == {"summary": 1}


def test_a_compaction_stands_for_what_came_before_it(talk: Store) -> None:
    session = talk.get_session("talk")
    talk.chains.append(session.key, [NewEntry(kind="compaction", role="system", parts=(Text("In short."),))])
    talk.append_message("talk", "assistant", "going on within the turn")
    compacted = ["Be kind.", "In short.", "going on within the turn"]
    assert said(rebuild_session(talk, session, "chat")) == compacted
    assert "In short." not in said(rebuild_session(talk, session, "chat", with_summary=False))
    talk.set_summary("talk", "In short.", up_to_turn=4)
    assert said(rebuild_session(talk, session, "chat")) == compacted
    talk.set_summary("talk", "Put better.", up_to_turn=4)
    assert said(rebuild_session(talk, session, "chat"))[1:] == [
        "What was said before, in short:\n\nPut better.",
        compacted[2],
    ]
    talk.set_summary("talk", "Only the beginning.", up_to_turn=1)
    assert "question 2" in said(rebuild_session(talk, session, "chat")), "what is not covered is told itself"
    assert "In short." not in said(rebuild_session(talk, session, "chat"))


def test_what_codex_put_in_the_place_of_the_past_is_given_back(store: Store) -> None:
    kept = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "kept"}]}
    sealed = {"type": "compaction", "encrypted_content": "gAAA"}
    session = append_records(store, {"type": "response_item", "payload": {**kept, "content": "before"}})
    record = NewRecord(json.dumps({"type": "compacted", "payload": {"replacement_history": [kept, sealed]}}).encode())
    store.chains.append(session.key, [NewEntry(kind="compaction", role="system", record=record)])
    made = rebuild_session(store, session, "responses")
    assert made.body == {"input": [kept, sealed]}
    check_types("responses", made.body)
    assert rebuild_session(store, session, "chat").body == {"messages": []}, "no other can open it"


def test_a_turn_that_begins_within_a_record_ends_there(store: Store) -> None:
    session = store.create_session()
    asked = {"role": "user", "content": "next"}
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c", "output": "x"}
    store.save_turn(session.id, "first", {"output": [call]})
    store.save_turn(session.id, [output, asked], {"output": []})
    assert rebuild_session(store, session, "responses", turn=1).body["input"] == [
        {"role": "user", "content": "first"},
        call,
        output,
    ]
    assert rebuild_session(store, session, "responses").body["input"][-1] == asked


# ── doctor and the command line ───────────────────────────────────────────────────────────────────


def test_doctor_names_just_the_sessions_that_would_be_mended_once_they_went_on(store: Store) -> None:
    call, answer = ToolCall("a", "ls", {}), ToolResult("a", "x")
    told: dict[str, list[NewEntry]] = {
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
    for name, entries in told.items():
        session = store.create_session(name)
        store.chains.append(session.key, entries)
    named = {finding.where.partition("#")[0] for finding in check_store(store)}
    faulty = {name for name in told if find_unpaired_calls(store.chains.entries(store.get_session(name).key))}
    assert named == faulty == {"open", "orphan", "twice"}
    assert {name for name in told if rebuild_session(store, store.get_session(name), "chat").mended} == faulty | {
        "running"
    }


@pytest.fixture
def backscroll(talk: Store) -> CommandLine:
    talk.set_summary("talk", "They talked.", up_to_turn=3)
    talk.append_message("talk", "assistant", [{"type": "tool_use", "id": "a", "name": "ls", "input": {}}])
    return CommandLine(talk.path)


@pytest.mark.parametrize(
    ("shape", "names"), [("responses", ["input"]), ("chat", ["messages"]), ("anthropic", ["system", "messages"])]
)
def test_the_command_prints_what_the_api_takes_and_says_the_rest(
    backscroll: CommandLine, talk: Store, shape: ApiFormat, names: list[str]
) -> None:
    ran = backscroll("rebuild", "talk", "--as", shape)
    body = json.loads(ran.out)
    assert (ran.status, list(body)) == (0, names)
    assert body == rebuild_session(talk, talk.get_session("talk"), shape).body
    assert "kept: 1 × system prompt" in ran.err
    assert "dropped: 6 × entry (a summary replaces it)" in ran.err
    assert "repaired: The call 'a' of 'ls' has no result; it is closed as interrupted." in ran.err


def test_the_command_goes_to_a_turn_without_a_summary_and_reports_to_a_file(
    backscroll: CommandLine, tmp_path: Path
) -> None:
    report = tmp_path / "report"
    ran = backscroll("rebuild", "talk", "--as", "chat", "--turn", "2", "--no-summary", "--report", str(report))
    said = [message["content"] for message in json.loads(ran.out)["messages"]]
    assert said == ["Be kind.", "question 1", "answer 1", "question 2", "answer 2"]
    assert ran.err == ""
    assert report.read_text().splitlines() == ["kept: 4 × message", "kept: 1 × system prompt"]


def test_the_command_tells_it_all_as_json(backscroll: CommandLine) -> None:
    told = backscroll("rebuild", "talk", "--as", "chat", "--json")
    assert list(told.json) == ["schema", "body", "carried", "mended"]
    assert told.json["carried"][0].keys() == {"field", "how", "count", "why"}
    assert told.err == ""


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["talk"], 2, "--as"),
        (["talk", "--as", "klingon"], 2, "klingon"),
        (["nobody", "--as", "chat"], 1, "No session matches 'nobody'"),
        (["talk", "--as", "chat", "--turn", "9"], 1, "That session has no turn 9; its last is 4."),
        (["talk", "--as", "chat", "--report", "/no/such/folder/x"], 1, "I/O error: No such file or directory."),
    ],
)
def test_the_command_says_what_is_wrong(backscroll: CommandLine, args: list[str], status: int, words: str) -> None:
    ran = backscroll("rebuild", *args)
    assert (ran.status, ran.out) == (status, "")
    assert words in ran.err
