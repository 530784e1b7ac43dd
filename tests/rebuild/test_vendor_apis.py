"""Tests that vendors accept every rebuilt conversation, by the types of their own packages and by further rules."""

from __future__ import annotations

import copy
import json
from pathlib import Path

import pytest
from foreign_databases import sync_paths
from hypothesis import given
from hypothesis import strategies as st
from source_samples import SAMPLES
from vendor_api_rules import PNG_PIXEL, Body, check_rules, check_types, each_shape, make_entry

from store.model.entry import Attachment, Entry, Json, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.rebuild import API_FORMATS, ApiFormat, rebuild_entries, rebuild_session
from store.store import Store

# ── generated conversations ───────────────────────────────────────────────────────────────────────

words = st.text(max_size=12)
# There are few ids, so that calls and results often share one. Some are ids that no vendor accepts.
call_ids = st.sampled_from(["", "a", "b", "c", "it's", "x" * 70, "é", "run_shell_command"])
names = st.sampled_from(["bash", "", "mcp: do it!", "n" * 200, "日本"])
values: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=4,
)
blocks = st.sampled_from(
    [
        {"type": "text", "text": "seen"},
        {"type": "text", "text": " "},
        {"type": "image", "mimeType": "image/png", "data": PNG_PIXEL},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "", "size": 68}},
        {"type": "resource", "uri": "x"},
    ]
)
attachments = st.builds(
    Attachment,
    st.sampled_from(["image/png", "application/pdf", "image", "audio/wav", "video/mp4", ""]),
    words,
    st.sampled_from([None, 68, 5]),
    st.sampled_from(["", "https://example.org/a.png", "file:///etc/passwd"]),
)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, words),
    st.builds(Thinking, words, words),
    st.builds(ToolCall, call_ids, names, values),
    st.builds(ToolResult, call_ids, values | st.lists(blocks, max_size=3), st.booleans()),
    attachments,
    st.builds(Opaque, words, values),
)
roles = st.sampled_from(["user", "assistant", "system", "tool", "", "User"])
kinds = st.sampled_from(["message"] * 6 + ["compaction", "event", "unknown"])
RECORD: Json = {"images": [{"mime": "image/png", "data": PNG_PIXEL}, {"mime": "application/pdf", "data": "JVBERg=="}]}


@st.composite
def conversations(draw: st.DrawFn) -> list[Entry]:
    drawn = draw(st.lists(st.tuples(roles, st.lists(parts, max_size=3), kinds, st.booleans()), max_size=12))
    turn, entries = 0, []
    for seq, (role, entry_parts, kind, has_record) in enumerate(drawn):
        turn += role == "user"
        entries.append(
            make_entry(seq, role, tuple(entry_parts), turn=turn, kind=kind, record=1 if has_record else None)
        )
    return entries


@each_shape
@given(
    entries=conversations(), system=st.sampled_from(["", " ", "Be kind."]), summary=st.none() | words, covered=st.data()
)
def test_any_conversation_is_accepted(
    shape: ApiFormat, entries: list[Entry], system: str, summary: str | None, covered: st.DataObject
) -> None:
    up_to = covered.draw(st.none() | st.integers(0, 3))
    before = copy.deepcopy(entries)
    result = rebuild_entries(shape, entries, {1: RECORD}, system=system, summary=summary, up_to_turn=up_to)
    check_types(shape, result.body, only_known=True)
    check_rules(shape, result.body)
    json.dumps(result.body, allow_nan=False)
    assert all(field.count > 0 and (field.why or field.how == "kept") for field in result.carried)
    assert entries == before
    again = rebuild_entries(shape, entries, {1: RECORD}, system=system, summary=summary, up_to_turn=up_to)
    assert again == result


@each_shape
@given(entries=conversations())
def test_no_word_is_lost(shape: ApiFormat, entries: list[Entry]) -> None:
    entries = [entry for entry in entries if entry.kind == "message"]
    texts = [part.text for entry in entries for part in entry.parts if isinstance(part, Text) and part.text.strip()]
    body = json.dumps(rebuild_entries(shape, entries, {1: RECORD}).body, ensure_ascii=False)
    for text in texts:
        assert json.dumps(text.strip(), ensure_ascii=False)[1:-1] in body


# ── records of the API itself, in any order and state ─────────────────────────────────────────────

ids = st.sampled_from(["toolu_1", "toolu_2", "toolu_3"])
anthropic_blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text, "citations": None}, words),
    st.builds(lambda text: {"type": "thinking", "thinking": text, "signature": "c2ln"}, words),
    st.just({"type": "redacted_thinking", "data": "ZGF0YQ=="}),
    st.builds(lambda call_id: {"type": "tool_use", "id": call_id, "name": "Bash", "input": {"of": call_id}}, ids),
    st.just({"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}}),
    st.just({"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}),
)
user_blocks = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, words),
    st.builds(lambda call_id: {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}, ids),
    st.just({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG_PIXEL}}),
)
anthropic_records = st.one_of(
    st.builds(
        lambda key, content: {
            "type": "assistant",
            "message": {"id": key, "role": "assistant", "content": content, "usage": {"input_tokens": 1}},
        },
        st.sampled_from(["msg_1", "msg_2", "msg_3"]),
        st.lists(anthropic_blocks, max_size=3),
    ),
    st.builds(
        lambda content: {"type": "user", "message": {"role": "user", "content": content}},
        words | st.lists(user_blocks, max_size=3),
    ),
)
items = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text or "hm"}, words),
    st.just({"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA", "content": None}),
    st.builds(
        lambda call_id: {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}", "new": 1},
        ids,
    ),
    st.builds(lambda call_id: {"type": "function_call_output", "call_id": call_id, "output": "ok"}, ids),
    st.builds(lambda call_id: {"type": "custom_tool_call", "call_id": call_id, "name": "patch", "input": "*"}, ids),
    st.just({"type": "shell_call", "call_id": "sh_1", "action": {"commands": ["ls"]}}),
    st.just(
        {
            "type": "apply_patch_call",
            "call_id": "ap_1",
            "status": "completed",
            "operation": {"type": "delete_file", "path": "x"},
        }
    ),
    st.just(
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": ""}}
    ),
)
responses_records = items.map(lambda item: {"type": "response_item", "payload": item})
chat_records = st.one_of(
    st.builds(lambda text: {"role": "user", "content": text or "hm"}, words),
    st.builds(
        lambda calls: {
            "role": "assistant",
            "content": None,
            "refusal": "No." if not calls else None,
            "tool_calls": [
                {"id": call_id, "type": "function", "function": {"name": "f", "arguments": "{}"}} for call_id in calls
            ],
        },
        st.lists(ids, max_size=2),
    ),
    st.builds(lambda call_id: {"role": "tool", "tool_call_id": call_id, "content": "ok", "new": 1}, ids),
)
NATIVE = {"anthropic": anthropic_records, "responses": responses_records, "chat": chat_records}


@each_shape
@given(drawn=st.data())
def test_records_of_the_api_itself_are_repaired_in_any_state(shape: ApiFormat, drawn: st.DataObject) -> None:
    records: dict[int, Json] = dict(enumerate(drawn.draw(st.lists(NATIVE[shape], max_size=10))))
    before = copy.deepcopy(records)
    entries = [make_entry(seq, "assistant", (), record=seq) for seq in records]
    result = rebuild_entries(shape, entries, records)
    check_types(shape, result.body)
    check_rules(shape, result.body)
    assert records == before, "records are not changed"


# ── items of Codex ────────────────────────────────────────────────────────────────────────────────


def text_blocks(kind: str) -> st.SearchStrategy[list[Json]]:
    return st.lists(st.builds(lambda text: {"type": kind, "text": text}, words), max_size=2)


def optional_fields(**fields: st.SearchStrategy[Json]) -> st.SearchStrategy[dict[str, Json]]:
    """Draw an object in which any of the fields may be missing, as in the rollouts of some version or other."""
    return st.fixed_dictionaries({}, optional=fields)


def codex_item(kind: str, *, always: Json = None, **fields: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    return optional_fields(**fields).map(lambda drawn: {"type": kind, **(always or {}), **drawn})


no_id = st.none() | st.sampled_from(["", "x_1", "x_2"])
status = st.sampled_from(["completed", "in_progress", "failed", "open", None])
image = st.sampled_from([{"type": "input_image", "image_url": "data:,"}, {"type": "input_image", "detail": None}])
audio = st.just({"type": "input_audio", "audio_url": "data:,"})
content = st.one_of(
    text_blocks("input_text"), text_blocks("output_text"), st.lists(image | audio, max_size=2), st.none(), words
)
outputs = words | text_blocks("input_text") | st.lists(image, max_size=2) | st.just({"content": "x", "success": True})
search_actions = st.sampled_from(
    [
        {"type": "search", "query": "x"},
        {"type": "search", "query": None, "queries": ["x"]},
        {"type": "open_page"},
        {"type": "find_in_page", "url": "u", "pattern": "p"},
        {"type": "find_in_page", "url": "u"},
        {"type": "other"},
        None,
    ]
)
shell_actions = st.sampled_from([{"type": "exec", "command": ["ls"], "env": None, "timeout_ms": None}, {}, None])
tool: Json = {"type": "function", "name": "f", "description": "d", "parameters": {}}
tools = st.lists(st.sampled_from([tool, {"type": "namespace", "name": "n", "tools": [tool]}, {}, "x"]), max_size=2)
codex_roles = st.sampled_from(["user", "assistant", "developer", "system", "tool"])
codex_calls = {"call_id": ids, "id": no_id, "name": words, "status": status}
codex_items = st.one_of(
    codex_item("message", role=codex_roles, id=no_id, content=content, status=status, phase=words, end_turn=st.none()),
    codex_item(
        "reasoning",
        id=no_id,
        summary=text_blocks("summary_text"),
        content=st.none() | text_blocks("text") | text_blocks("reasoning_text"),
        encrypted_content=st.none() | words,
    ),
    codex_item("function_call", arguments=words | st.just({"a": 1}), **codex_calls),
    codex_item("custom_tool_call", input=words | st.just({"a": 1}), **codex_calls),
    codex_item("local_shell_call", action=shell_actions, **codex_calls),
    codex_item("function_call_output", always={"call_id": "toolu_1"}, call_id=ids, id=no_id, output=outputs),
    codex_item("custom_tool_call_output", call_id=ids, id=no_id, output=outputs, name=st.none() | words),
    codex_item("web_search_call", id=no_id, status=status, action=search_actions),
    codex_item("image_generation_call", id=no_id, status=status, result=words, revised_prompt=st.none()),
    codex_item("tool_search_call", call_id=ids, execution=words, status=status, arguments=values),
    codex_item("tool_search_output", call_id=ids, execution=words, status=status, tools=tools),
    codex_item("agent_message", author=words, content=text_blocks("input_text")),
    codex_item("compaction", encrypted_content=words),
    codex_item("compaction_summary", encrypted_content=words),
    codex_item("context_compaction", encrypted_content=words),
    codex_item("ghost_snapshot", ghost_commit=values),
    codex_item("from_the_future", x=values),
)
codex_lines = st.one_of(
    codex_items.map(lambda item: {"type": "response_item", "payload": item}),
    st.lists(codex_items, min_size=1, max_size=3).map(
        lambda items: {"type": "compacted", "payload": {"message": "", "replacement_history": items}}
    ),
)


@given(lines=st.lists(codex_lines, max_size=8))
def test_every_history_of_codex_is_accepted(lines: list[Json]) -> None:
    records: dict[int, Json] = dict(enumerate(lines))
    before = copy.deepcopy(records)
    entries = [
        make_entry(seq, "assistant", (), record=seq, kind="compaction" if line["type"] == "compacted" else "message")
        for seq, line in records.items()
    ]
    body = rebuild_entries("responses", entries, records).body
    check_types("responses", body)
    check_rules("responses", body, legal_ids=False)
    assert records == before
    assert rebuild_entries("responses", entries, records).body == body, "made-up ids are always the same"


# ── every source ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("source", SAMPLES)
def test_every_session_of_every_source_is_taken(store: Store, tmp_path: Path, source: str) -> None:
    sync_paths(store, SAMPLES[source](tmp_path))
    sessions = store.sessions.newest(100)
    assert sessions
    for session in sessions:
        for shape in API_FORMATS:
            for with_summary in (True, False):
                body = rebuild_session(store, session, shape, with_summary=with_summary).body
                check_rules(shape, body, legal_ids=source != "codex")
                check_types(shape, body)
    assert any(_said(rebuild_session(store, session, "chat").body) for session in sessions)


def _said(body: Body) -> int:
    return len(body["messages"])


# ── the rules themselves ──────────────────────────────────────────────────────────────────────────

CALL = {"type": "tool_use", "id": "a", "name": "f", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "content": "x"}
ASKED = {"role": "user", "content": "hi"}
CHAT_CALL = {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("shape", "messages"),
    [
        ("anthropic", [ASKED, ASKED]),
        ("anthropic", [{"role": "assistant", "content": "hi"}]),
        ("anthropic", [ASKED, {"role": "assistant", "content": [CALL]}]),
        ("anthropic", [ASKED, {"role": "assistant", "content": [CALL]}, ASKED]),
        ("anthropic", [{"role": "user", "content": [RESULT]}]),
        ("anthropic", [ASKED, {"role": "assistant", "content": "bye "}]),
        ("anthropic", [{"role": "user", "content": " "}]),
        ("anthropic", [{"role": "user", "content": []}]),
        ("chat", [{"role": "assistant", "tool_calls": [CHAT_CALL]}]),
        ("chat", [{"role": "assistant", "tool_calls": [CHAT_CALL]}, ASKED]),
        ("chat", [{"role": "tool", "tool_call_id": "a", "content": "x"}]),
        ("chat", [{"role": "user", "content": ""}]),
        ("responses", [{"type": "function_call", "call_id": "a", "name": "f", "arguments": ""}]),
        ("responses", [{"type": "function_call_output", "call_id": "a", "output": "x"}]),
        ("responses", [{"type": "reasoning", "id": "r", "summary": []}, {"role": "user", "content": "x"}]),
    ],
)
def test_the_rules_would_notice(shape: ApiFormat, messages: list[Json]) -> None:
    with pytest.raises((AssertionError, KeyError, ValueError)):
        check_rules(shape, {"input" if shape == "responses" else "messages": messages})


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ("anthropic", {"role": "user", "content": [{"type": "text"}]}),
        ("anthropic", {"role": "user", "content": [{"type": "tool_result", "content": "x"}]}),
        ("chat", {"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}),
        ("responses", {"role": "user", "content": [{"type": "output_text", "text": "x"}]}),
    ],
)
def test_the_types_would_notice(shape: ApiFormat, message: Json) -> None:
    pydantic = pytest.importorskip("pydantic", reason="It comes with openai and anthropic; `make test` installs them.")
    with pytest.raises(pydantic.ValidationError):
        check_types(shape, {"input" if shape == "responses" else "messages": [message]})
