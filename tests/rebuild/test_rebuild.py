"""Tests that a conversation is rebuilt exactly for its own API, and translated for another with a report."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import sync_paths
from vendor_api_rules import (
    ANTHROPIC_BLOCKS,
    IMAGE_BLOCK,
    PNG_PIXEL,
    RESPONSES_OUTPUT,
    RESPONSES_RESULTS,
    accepts_item,
    append_records,
    carried_counts,
    check_rules,
    check_types,
    claude_record,
    each_shape,
    make_conversation,
    make_entry,
    tool_result_block,
)

from store.model.entry import Attachment, Json, Text, Thinking, ToolCall, ToolResult
from store.rebuild import API_FORMATS, ApiFormat, RebuildResult, rebuild_entries, rebuild_session
from store.store import Store

DATA = Path(__file__).parents[1] / "data"


# ── the same API ──────────────────────────────────────────────────────────────────────────────────


def test_items_of_the_responses_api_come_back_untouched(store: Store) -> None:
    session = store.create_session()
    store.save_turn(session.id, "How full?", {"id": "resp_1", "output": RESPONSES_OUTPUT, "usage": {"input_tokens": 3}})
    store.save_turn(
        session.id,
        RESPONSES_RESULTS,
        {"output": [RESPONSES_OUTPUT[0] | {"id": "rs_2"}, RESPONSES_OUTPUT[1] | {"id": "msg_2"}]},
    )
    result = rebuild_session(store, session, "responses")
    prompt = {"role": "user", "content": "How full?"}
    reasoning, message = RESPONSES_OUTPUT[0] | {"id": "rs_2"}, RESPONSES_OUTPUT[1] | {"id": "msg_2"}
    assert result.body["input"] == [prompt, *RESPONSES_OUTPUT, *RESPONSES_RESULTS, reasoning, message]
    assert result.mended == ()
    assert carried_counts(result, "dropped") == {"response.id": 1, "response.usage": 1}
    check_types("responses", result.body)
    check_rules("responses", result.body, legal_ids=False)


def test_the_same_items_told_to_others_say_what_stays_behind(store: Store) -> None:
    session = store.create_session()
    store.save_turn(session.id, "How full?", {"output": RESPONSES_OUTPUT})
    store.save_turn(session.id, RESPONSES_RESULTS, {"output": [RESPONSES_OUTPUT[1]]})
    for shape in ("chat", "anthropic"):
        result = rebuild_session(store, session, shape)  # type: ignore[arg-type]
        dropped = carried_counts(result, "dropped")
        assert dropped["thinking"] == 1
        assert dropped["output_text.annotations"] == 2
        assert dropped["function_call.new"] == 1
        assert carried_counts(result, "mapped")["tool call id"] == 1
        assert "Not that." in json.dumps(result.body)
        check_types(shape, result.body, only_known=True)  # type: ignore[arg-type]
        check_rules(shape, result.body)  # type: ignore[arg-type]


def test_a_message_of_anthropic_s_in_many_records_is_one_again(store: Store) -> None:
    """Each record has one block, one block appears twice, and a result comes before the second call."""
    session = append_records(
        store,
        claude_record("go", role="user"),
        *(claude_record(block) for block in ANTHROPIC_BLOCKS[:6]),
        claude_record(ANTHROPIC_BLOCKS[2], ANTHROPIC_BLOCKS[5]),
        claude_record(tool_result_block("toolu_1", [IMAGE_BLOCK]), role="user"),
        claude_record(ANTHROPIC_BLOCKS[6]),
        claude_record(tool_result_block("toolu_2"), {"type": "text", "text": "and then?"}, role="user"),
        claude_record({"type": "text", "text": "API Error"}, key="msg_e", isApiErrorMessage=True),
        claude_record({"type": "text", "text": "Done."}, key="msg_2"),
    )
    result = rebuild_session(store, session, "anthropic")
    assert result.body == {
        "messages": [
            {"role": "user", "content": "go"},
            {"role": "assistant", "content": ANTHROPIC_BLOCKS},
            {
                "role": "user",
                "content": [
                    tool_result_block("toolu_1", [IMAGE_BLOCK]),
                    tool_result_block("toolu_2"),
                    {"type": "text", "text": "and then?"},
                ],
            },
            {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
        ]
    }
    assert result.mended == ()
    check_types("anthropic", result.body)
    check_rules("anthropic", result.body)


CHAT: list[dict[str, Any]] = [
    {"role": "developer", "content": "Be brief.", "name": "boss"},
    {
        "role": "user",
        "content": [{"type": "text", "text": "go"}, {"type": "image_url", "image_url": {"url": "https://x"}}],
    },
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [{"id": "c:1", "type": "function", "function": {"name": "f", "arguments": "{"}, "index": 0}],
    },
    {"role": "tool", "tool_call_id": "c:1", "content": [{"type": "text", "text": "ok"}]},
    {"role": "assistant", "content": "", "refusal": "No.", "annotations": [{"type": "url_citation"}]},
]


def test_messages_of_the_chat_api_come_back_untouched(store: Store) -> None:
    *messages, last = CHAT
    session = append_records(store, *messages, {"id": "chatcmpl-1", "choices": [{"index": 0, "message": last}]})
    result = rebuild_session(store, session, "chat")
    assert result.body == {"messages": CHAT}
    assert result.mended == ()
    check_types("chat", result.body)
    check_rules("chat", result.body, legal_ids=False)


def test_what_an_agent_appends_comes_back_to_either_vendor(store: Store) -> None:
    session = store.create_session()
    store.append_message(session.id, "user", "go")
    store.append_message(session.id, "assistant", ANTHROPIC_BLOCKS[:3] + ANTHROPIC_BLOCKS[5:6])
    store.append_message(session.id, "user", [tool_result_block("toolu_1")])
    assert rebuild_session(store, session, "anthropic").body["messages"] == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": ANTHROPIC_BLOCKS[:3] + ANTHROPIC_BLOCKS[5:6]},
        {"role": "user", "content": [tool_result_block("toolu_1")]},
    ]
    assert rebuild_session(store, session, "chat").body["messages"][0] == {"role": "user", "content": "go"}


def test_the_short_form_of_the_fourth_document_is_no_message_of_anthropic_s(store: Store) -> None:
    """Its thoughts have no signature, and it has the output of a result in `text`."""
    session = store.create_session()
    store.append_message(session.id, "user", "go")
    store.append_message(session.id, "assistant", [{"type": "thinking", "text": "plan"}, ANTHROPIC_BLOCKS[5]])
    store.append_message(session.id, "user", [{"type": "tool_result", "text": "a.go", "tool_use_id": "toolu_1"}])
    result = rebuild_session(store, session, "anthropic")
    assert result.body["messages"][1:] == [
        {"role": "assistant", "content": [ANTHROPIC_BLOCKS[5]]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a.go"}]},
    ]
    assert carried_counts(result, "dropped") == {"thinking": 1}


def test_reasoning_that_a_program_kept_as_it_came_goes_back(store: Store) -> None:
    """Wuhu stores the item within its own message format; pi stores it as text in the signature."""
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}
    row = {"payload": json.dumps({"message": {"content": [item]}})}
    entries = [
        make_entry(0, "assistant", (Thinking("", "gAAA"), Text("a")), record=1),
        make_entry(1, "assistant", (Thinking("", json.dumps(item | {"id": "rs_2"})), Text("b"))),
        make_entry(2, "assistant", (Thinking("", "another"), Text("c")), record=1),
    ]
    body = rebuild_entries("responses", entries, {1: row}).body
    assert [item["id"] for item in body["input"] if item["type"] == "reasoning"] == ["rs_1", "rs_2"]
    check_types("responses", body)


# ── sources ───────────────────────────────────────────────────────────────────────────────────────


def test_codex_s_items_are_the_lines_it_wrote_where_the_api_accepts_them(store: Store, tmp_path: Path) -> None:
    sync_paths(store, Path(shutil.copytree(DATA / "codex", tmp_path / "codex")))
    session = store.sessions.get("codex:0a000000-0000-7000-8000-000000000002")
    path = next((DATA / "codex").rglob("rollout-*-0a000000-0000-7000-8000-000000000002.jsonl"))
    lines = map(json.loads, path.read_text().splitlines())
    written = [line["payload"] for line in lines if line["type"] == "response_item"]
    prompt = {
        "type": "message",
        "role": "developer",
        "content": [{"type": "input_text", "text": session.system_prompt}],
    }
    first, *items = rebuild_session(store, session, "responses").body["input"]
    assert first == prompt
    assert [item["type"] for item in items] == [item["type"] for item in written]
    for item, recorded in zip(items, written, strict=True):
        assert (item == recorded) == accepts_item(recorded)
        assert accepts_item(item)


ANSWER = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}
FULL_ANSWER = ANSWER | {
    "id": "msg_1",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Done.", "annotations": []}],
}
METADATA = {"internal_chat_message_metadata_passthrough": {"turn_id": "t1"}}
PICTURE = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG_PIXEL}"}
SEARCH = {"type": "search", "query": "df"}


def rebuild_codex(*items: Json) -> RebuildResult:
    records: dict[int, Json] = {seq: {"type": "response_item", "payload": item} for seq, item in enumerate(items)}
    return rebuild_entries("responses", [make_entry(seq, "", (), record=seq) for seq in records], records)


@pytest.mark.parametrize(
    "item",
    [
        FULL_ANSWER | {"phase": "final_answer"} | METADATA,
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]} | METADATA,
        {"type": "message", "role": "user", "content": [PICTURE | {"detail": "high"}]},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": SEARCH},
        {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBO", "revised_prompt": "x"},
        {"type": "compaction", "encrypted_content": "gAAA"},
    ],
)
def test_an_item_of_codex_that_the_api_accepts_is_not_changed(item: Json) -> None:
    assert accepts_item(item)
    result = rebuild_codex(item)
    assert result.body["input"] == [item]
    assert {field.how for field in result.carried} == {"kept"}


@pytest.mark.parametrize(
    ("item", "added"),
    [
        (ANSWER, {"message.id": 1, "message.status": 1, "output_text.annotations": 1}),
        (ANSWER | {"id": None}, {"message.id": 1, "message.status": 1, "output_text.annotations": 1}),
        ({"type": "web_search_call", "status": "completed", "action": SEARCH}, {"web_search_call.id": 1}),
        ({"type": "web_search_call", "action": SEARCH}, {"web_search_call.id": 1, "web_search_call.status": 1}),
        ({"type": "message", "role": "user", "content": [PICTURE]}, {"input_image.detail": 1}),
        ({"type": "image_generation_call", "status": "completed", "result": "iVBO"}, {"image_generation_call.id": 1}),
        (
            {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
            {"reasoning.id": 1},
        ),
    ],
)
def test_what_codex_left_out_of_an_item_is_added_and_reported(item: dict[str, Json], added: dict[str, int]) -> None:
    assert not accepts_item(item)
    result = rebuild_codex(item, FULL_ANSWER)
    sent, _ = result.body["input"]
    check_types("responses", result.body)
    assert carried_counts(result, "added") == added
    assert {name: sent[name] for name in item if name not in ("id", "content")} == {
        name: item[name] for name in item if name not in ("id", "content")
    }


def test_a_null_that_the_api_refuses_is_removed_and_reported() -> None:
    call = {"type": "function_call", "id": None, "call_id": "c1", "name": "shell", "arguments": "{}"}
    output = {"type": "function_call_output", "call_id": "c1", "output": "ok", "id": None}
    result = rebuild_codex(call, output)
    assert result.body["input"] == [{name: call[name] for name in call if name != "id"}, output]
    assert carried_counts(result, "dropped") == {"function_call.id": 1}


def test_changing_a_rebuilt_item_changes_no_later_one() -> None:
    first, second = rebuild_codex(ANSWER).body["input"][-1], rebuild_codex(ANSWER).body["input"][-1]
    first["content"][0]["annotations"].append("changed by its owner")
    assert second["content"][0]["annotations"] == []
    assert rebuild_codex(ANSWER).body["input"][-1]["content"][0]["annotations"] == []


def test_sealed_reasoning_without_its_id_is_left_out() -> None:
    """The API opens it only under the id it was made with, so that an id of ours would be refused."""
    sealed = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "gAAA"}
    result = rebuild_codex(sealed, FULL_ANSWER, sealed | {"id": "rs_1"}, FULL_ANSWER | {"id": "msg_2"})
    assert [item.get("id") for item in result.body["input"]] == ["msg_1", "rs_1", "msg_2"]
    assert carried_counts(result, "dropped") == {"reasoning": 1}


def test_a_call_of_codex_s_local_shell_is_complete() -> None:
    action = {"type": "exec", "command": ["ls"], "env": None, "timeout_ms": 1000}
    call = {"type": "local_shell_call", "id": "lsh_1", "call_id": None, "status": "completed", "action": action}
    output = {"type": "function_call_output", "call_id": "lsh_1", "output": {"content": "README", "success": True}}
    result = rebuild_codex(call, output)
    sent_call, sent_output = result.body["input"]
    assert sent_call == call | {"call_id": "lsh_1", "action": action | {"env": {}}}
    assert (sent_output["call_id"], "README" in sent_output["output"]) == ("lsh_1", True)
    check_types("responses", result.body)


def test_items_that_only_codex_has_become_messages_or_are_left_out() -> None:
    letter = {"type": "agent_message", "author": "/root", "content": [{"type": "input_text", "text": "Look at it."}]}
    odd = {"type": "from_the_future", "x": 1}
    result = rebuild_codex(letter, odd, {"type": "compaction_summary", "encrypted_content": "gAAA"})
    assert result.body["input"] == [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Look at it."}]},
        {"type": "message", "role": "assistant", "content": json.dumps(odd, separators=(",", ":"))},
        {"type": "compaction", "encrypted_content": "gAAA"},
    ]
    history = [{"type": "ghost_snapshot", "ghost_commit": {"id": "x"}}, FULL_ANSWER]
    record = {"type": "compacted", "payload": {"message": "", "replacement_history": history}}
    result = rebuild_entries("responses", [make_entry(0, "system", (), record=0, kind="compaction")], {0: record})
    assert result.body["input"] == [FULL_ANSWER]
    assert carried_counts(result, "dropped") == {"response.ghost_snapshot": 1}


def test_what_the_model_read_in_the_user_s_name_stays_in_it(store: Store, tmp_path: Path) -> None:
    """A reader does not show it as a person's message, but the model got it as the user's."""
    sync_paths(store, Path(shutil.copytree(DATA / "claude", tmp_path / "claude")))
    for session in store.sessions.newest(100):
        messages = rebuild_session(store, session, "chat").body["messages"]
        assert [message for message in messages if message["role"] == "system"] == []


# ── another API ───────────────────────────────────────────────────────────────────────────────────


def test_calls_of_one_answer_are_one_message_and_its_results_follow() -> None:
    entries = make_conversation(
        ("user", Text("go")),
        ("assistant", (Text("Two at once."), ToolCall("a", "ls", {"p": 1}))),
        ("assistant", ToolCall("b", "cat", '{"p": 2}')),
        ("user", Text("hurry")),
        ("tool", ToolResult("b", {"n": 1}, is_error=True)),
        ("tool", ToolResult("a", "files")),
        ("assistant", Text("Done. ")),
    )
    result = rebuild_entries("chat", entries, {})
    calls = [
        {"id": "a", "type": "function", "function": {"name": "ls", "arguments": '{"p":1}'}},
        {"id": "b", "type": "function", "function": {"name": "cat", "arguments": '{"p":2}'}},
    ]
    assert result.body["messages"] == [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "Two at once.", "tool_calls": calls},
        {"role": "tool", "tool_call_id": "a", "content": "files"},
        {"role": "tool", "tool_call_id": "b", "content": '{"n":1}'},
        {"role": "user", "content": "hurry"},
        {"role": "assistant", "content": "Done. "},
    ]
    assert carried_counts(result, "dropped") == {"tool result.is_error": 1}
    messages = rebuild_entries("anthropic", entries, {}).body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user", "assistant"]
    assert messages[2]["content"] == [
        {"type": "tool_result", "tool_use_id": "a", "content": "files"},
        {"type": "tool_result", "tool_use_id": "b", "content": '{"n":1}', "is_error": True},
        {"type": "text", "text": "hurry"},
    ]
    assert messages[3]["content"] == [{"type": "text", "text": "Done."}]
    assert result.mended == ()


def test_the_system_prompt_stands_where_each_vendor_wants_it() -> None:
    entries = make_conversation(
        ("system", Text("Be kind.")), ("system", Text("Be brief.")), ("user", Text("go")), ("system", Text("now"))
    )
    bodies = {shape: rebuild_entries(shape, entries, {}, system="Be kind.").body for shape in API_FORMATS}
    assert bodies["anthropic"]["system"] == "Be kind.\n\nBe brief."
    assert bodies["anthropic"]["messages"][0]["content"] == [
        {"type": "text", "text": "go"},
        {"type": "text", "text": "now"},
    ]
    assert [message["role"] for message in bodies["chat"]["messages"]] == ["system", "system", "user", "system"]
    assert [item["role"] for item in bodies["responses"]["input"]] == ["developer", "developer", "user", "developer"]
    assert rebuild_entries("anthropic", entries[2:3], {}).body.keys() == {"messages"}


def test_a_conversation_that_the_assistant_begins_is_begun_for_it() -> None:
    result = rebuild_entries("anthropic", make_conversation(("assistant", Text("Hello!"))), {})
    assert [message["role"] for message in result.body["messages"]] == ["user", "assistant"]
    assert "begins with the assistant" in result.mended[0]
    assert rebuild_entries("chat", make_conversation(("assistant", Text("Hello!"))), {}).mended == ()


def test_an_empty_conversation_is_an_empty_list() -> None:
    assert [rebuild_entries(shape, [], {}).body for shape in API_FORMATS] == [
        {"input": []},
        {"messages": []},
        {"messages": []},
    ]


# ── attachments ───────────────────────────────────────────────────────────────────────────────────

PDF = "JVBERi0xLjcK"
URL_SAFE = PNG_PIXEL.replace("+", "-").replace("/", "_")


@pytest.mark.parametrize(
    "record",
    [
        {"message": {"content": [{"type": "image", "data": PNG_PIXEL, "mimeType": "image/png"}]}},
        {"parts": json.dumps([{"type": "binary", "data": {"Path": "a", "MIMEType": "image/png", "Data": PNG_PIXEL}}])},
        {
            "event_data": json.dumps(
                {"content": {"parts": [{"inline_data": {"data": URL_SAFE, "mime_type": "image/png"}}]}}
            )
        },
        {"data": json.dumps({"type": "file", "mime": "image/png", "url": f"data:image/png;base64,{PNG_PIXEL}"})},
        {"attachments": [{"id": "x", "type": "image/png", "content": {"$base64": PNG_PIXEL}}]},
        claude_record(IMAGE_BLOCK, role="user"),
        {"blocks": [{"type": "input_image", "image_url": f"data:image/png;base64,{PNG_PIXEL}"}]},
    ],
)
def test_the_bytes_of_a_picture_are_found_wherever_a_record_has_them(record: Json) -> None:
    entries = [make_entry(0, "user", (Text("look"), Attachment("image/png", "a.png", 68)), record=1)]
    url = f"data:image/png;base64,{PNG_PIXEL}"
    pictures: dict[ApiFormat, Json] = {
        "responses": {"type": "input_image", "detail": "auto", "image_url": url},
        "chat": {"type": "image_url", "image_url": {"url": url}},
        "anthropic": IMAGE_BLOCK,
    }
    for shape, picture in pictures.items():
        body = rebuild_entries(shape, entries, {1: record}).body
        assert picture in body["input" if shape == "responses" else "messages"][0]["content"]
        check_types(shape, body)


def test_a_picture_in_a_tool_s_result_goes_where_it_may() -> None:
    """The reader leaves the bytes in the record."""
    aside = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "", "size": 69}}
    record = claude_record(tool_result_block("a", [IMAGE_BLOCK]), role="user")
    entries = make_conversation(("user", Text("go")), ("assistant", ToolCall("a", "shot", {})))
    entries.append(make_entry(2, "tool", (ToolResult("a", [{"type": "text", "text": "see"}, aside]),), record=1))
    output = rebuild_entries("responses", entries, {1: record}).body["input"][-1]["output"]
    assert [block["type"] for block in output] == ["input_text", "input_image"]
    result = rebuild_entries("chat", entries, {1: record})
    assert result.body["messages"][-1]["content"] == "see\n[image/png]"
    assert carried_counts(result, "mapped")["picture in a tool result"] == 1


@pytest.mark.parametrize(
    ("attachment", "record", "role", "why"),
    [
        (Attachment("image/png", "a.png", uri="file:///etc/passwd"), {}, "user", "not in the store"),
        (Attachment("video/mp4", "a.mp4", 9), {"mime": "video/mp4", "data": PDF}, "user", "does not accept video/mp4"),
        (
            Attachment("image/png", "", 68),
            {"mime": "image/png", "data": PNG_PIXEL},
            "assistant",
            "no files from the assistant",
        ),
        (Attachment("image/png", "", 70_000), {"mime": "image/png", "data": PNG_PIXEL}, "user", "not in the store"),
        (Attachment("image/png", "", 3), {"mime": "image/png", "data": "not base64!"}, "user", "not in the store"),
    ],
)
@each_shape
def test_what_cannot_be_shown_is_named_and_listed(
    shape: ApiFormat, attachment: Attachment, record: Json, role: str, why: str
) -> None:
    result = rebuild_entries(shape, [make_entry(0, role, (attachment,), record=1)], {1: record})
    assert f"[{attachment.media_type}" in json.dumps(result.body)
    (carried,) = [field for field in result.carried if field.field == "attachment"]
    assert (carried.how, carried.count) == ("mapped", 1)
    assert why in carried.why


def test_a_pdf_is_a_document_and_borrowed_words_are_words() -> None:
    record = {
        "files": [{"mime": "application/pdf", "data": PDF}],
        "fragments": [{"source": "notes.txt", "content": "Mind it."}],
    }
    parts = (Attachment("application/pdf", "a.pdf", 9), Attachment("text/plain", "notes.txt", 8))
    content = rebuild_entries("anthropic", [make_entry(0, "user", parts, record=1)], {1: record}).body["messages"][0][
        "content"
    ]
    source = {"type": "base64", "media_type": "application/pdf", "data": PDF}
    assert content == [
        {"type": "document", "source": source, "title": "a.pdf"},
        {"type": "text", "text": "notes.txt:\n\nMind it."},
    ]
