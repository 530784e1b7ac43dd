"""This module checks API input against the types of the vendors' packages and the rules of their documentation, and
has conversations to check."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

import pytest

from store.model.entry import Entry, Json, NewEntry, NewRecord, Part, Text
from store.model.session import Session
from store.rebuild import API_FORMATS, ApiFormat, RebuildResult
from store.store import Store

Body = dict[str, Any]

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


# ── types ─────────────────────────────────────────────────────────────────────────────────────────


def check_types(shape: ApiFormat, body: Body, *, only_known: bool = False) -> None:
    """Validate against the types of the packages. With `only_known`, fields that they do not name are errors."""
    pytest.importorskip("openai", reason="openai and anthropic are not installed; `make test` installs them.")
    pytest.importorskip("anthropic", reason="openai and anthropic are not installed; `make test` installs them.")
    _type_adapter(shape, only_known).validate_python(body["input" if shape == "responses" else "messages"])


def accepts_item(item: Json) -> bool:
    """Return whether the types of the openai package accept an item as it is."""
    from pydantic import ValidationError

    try:
        check_types("responses", {"input": [item]})
    except ValidationError:
        return False
    return True


@cache
def _type_adapter(shape: ApiFormat, only_known: bool) -> Any:
    from anthropic.types import MessageParam
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam
    from pydantic import TypeAdapter

    item_types = {"responses": ResponseInputItemParam, "chat": ChatCompletionMessageParam, "anthropic": MessageParam}
    return TypeAdapter(list[_EagerTypes(only_known).convert(item_types[shape])])


class _EagerTypes:
    """Converts types: iterables become lists, because pydantic checks an iterable only when it is iterated."""

    def __init__(self, only_known: bool) -> None:
        self._only_known = only_known
        self._converted: dict[Any, Any] = {}

    def convert(self, kind: Any) -> Any:
        from typing_extensions import is_typeddict

        origin, inner = get_origin(kind), get_args(kind)
        if is_typeddict(kind):
            return self._converted[kind] if kind in self._converted else self._convert_typed_dict(kind)
        if origin in (Union, UnionType):
            return Union[tuple(map(self.convert, inner))]  # noqa: UP007 (the members are known only at run time)
        if origin in (Required, NotRequired):
            return origin[self.convert(inner[0])]
        if origin is dict:
            return dict[inner[0], self.convert(inner[1])]  # type: ignore[misc]
        if origin is not None and origin is not Literal and issubclass(origin, Iterable):
            return list[self.convert(inner[0])]  # type: ignore[misc]
        return kind if kind is not NoneType else None

    def _convert_typed_dict(self, kind: Any) -> Any:
        from pydantic import ConfigDict
        from typing_extensions import TypedDict

        hints = get_type_hints(kind, include_extras=True)
        converted = TypedDict(kind.__name__, {name: self.convert(hint) for name, hint in hints.items()}, total=False)  # type: ignore[misc]
        converted.__pydantic_config__ = ConfigDict(  # type: ignore[attr-defined]
            extra="forbid" if self._only_known else "allow", arbitrary_types_allowed=True
        )
        self._converted[kind] = converted
        return converted


# ── rules ─────────────────────────────────────────────────────────────────────────────────────────


def check_rules(shape: ApiFormat, body: Body, *, legal_ids: bool = True) -> None:
    """Check the rules that a vendor enforces although its types allow more."""
    {"responses": _check_responses, "chat": _check_chat, "anthropic": _check_anthropic}[shape](body, legal_ids)


def _check_id(call_id: str, legal_ids: bool, longest: int = 64) -> None:
    assert call_id
    assert not legal_ids or (_ID.fullmatch(call_id) and len(call_id) <= longest), call_id


def _check_responses(body: Body, legal_ids: bool) -> None:
    assert body.keys() == {"input"}
    open_calls: set[str] = set()
    seen: set[str] = set()
    items = body["input"]
    for index, item in enumerate(items):
        kind = item.get("type", "message")
        if kind.endswith("_call") and item.get("call_id"):
            _check_id(item["call_id"], legal_ids)
            assert item["call_id"] not in seen
            seen.add(item["call_id"])
            open_calls.add(item["call_id"])
            if kind == "function_call" and legal_ids:
                assert _NAME.fullmatch(item["name"])
        elif kind.endswith("_output"):
            open_calls.remove(item["call_id"])
        elif kind == "reasoning":
            assert index + 1 < len(items)
            assert items[index + 1].get("role") in (None, "assistant")
        elif kind == "message":
            assert item["content"]
    assert not open_calls


def _check_chat(body: Body, legal_ids: bool) -> None:
    assert body.keys() == {"messages"}
    open_calls: list[str] = []
    seen: set[str] = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            open_calls.remove(message["tool_call_id"])
            assert message["content"]
            continue
        assert not open_calls, "the results of a message's calls must follow it directly"
        calls = message.get("tool_calls") or []
        assert calls or message.get("content") or message.get("refusal")
        for call in calls:
            _check_id(call["id"], legal_ids, 40)
            assert call["id"] not in seen
            assert not legal_ids or _NAME.fullmatch(call["function"]["name"])
        open_calls = [call["id"] for call in calls]
        seen.update(open_calls)
    assert not open_calls


def _check_anthropic(body: Body, legal_ids: bool) -> None:
    assert body.keys() <= {"system", "messages"}
    assert body.get("system", "x").strip()
    messages = body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"] * (
        len(messages) % 2
    )
    seen: set[str] = set()
    open_calls: list[str] = []
    for message in messages:
        blocks = list(_blocks(message))
        assert blocks
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(results) == sorted(open_calls), "each call must have one result in the next message"
        assert all(block["type"] == "tool_result" for block in blocks[: len(results)]), "results must come first"
        open_calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for block in blocks:
            _check_block(block, legal_ids)
            if block["type"] in ("tool_use", "server_tool_use"):
                assert block["id"] not in seen
                seen.add(block["id"])
        assert message["role"] == "user" or blocks[-1]["type"] != "thinking"
    assert not open_calls
    if messages and messages[-1]["role"] == "assistant":
        last = list(_blocks(messages[-1]))[-1]
        assert last.get("text", "") == last.get("text", "").rstrip()


def _blocks(message: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    content = message["content"]
    yield from [{"type": "text", "text": content}] if isinstance(content, str) else content


def _check_block(block: Mapping[str, Any], legal_ids: bool) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip()
        case "tool_use":
            _check_id(block["id"], legal_ids)
            assert not legal_ids or re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", block["name"])
        case "thinking":
            assert block["signature"]
        case "tool_result":
            assert block["content"]


# ── conversations ─────────────────────────────────────────────────────────────────────────────────

PNG_PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII="
each_shape = pytest.mark.parametrize("shape", API_FORMATS)


def make_entry(seq: int, role: str, parts: tuple[Part, ...], **more: Any) -> Entry:
    text = "\n\n".join(part.text for part in parts if isinstance(part, Text))
    fields: dict[str, Any] = {"record": None, "turn": 0, "kind": "message", "message_key": "", **more}
    return Entry(
        key=seq + 2,
        session=1,
        parent=seq + 1,
        seq=seq,
        role=role,
        author="",
        model="",
        text=text,
        parts=parts,
        inherited=False,
        tokens=None,
        created_at="",
        **fields,
    )


def carried_counts(result: RebuildResult, how: str) -> dict[str, int]:
    return {carried.field: carried.count for carried in result.carried if carried.how == how}


def make_conversation(*messages: tuple[str, Part | tuple[Part, ...]]) -> list[Entry]:
    """Return entries; every message of the user begins a turn."""
    turn, entries = 0, []
    for seq, (role, parts) in enumerate(messages):
        turn += role == "user"
        entries.append(make_entry(seq, role, parts if isinstance(parts, tuple) else (parts,), turn=turn))
    return entries


def append_records(store: Store, *records: Json, role: str = "assistant") -> Session:
    session = store.create_session()
    entries = [NewEntry(role=role, record=NewRecord(json.dumps(record).encode())) for record in records]
    store.chains.append(session.key, entries)
    return session


URL_CITATION = {"type": "url_citation", "url": "u", "title": "t", "start_index": 0, "end_index": 3}
RESPONSES_OUTPUT: list[dict[str, Any]] = [
    {
        "id": "rs_1",
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "look"}],
        "encrypted_content": "gA",
    },
    {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [
            {"type": "output_text", "text": "41% full", "annotations": [URL_CITATION], "logprobs": []},
            {"type": "refusal", "refusal": "Not that."},
        ],
    },
    {
        "id": "fc_1",
        "type": "function_call",
        "call_id": "call:1",
        "name": "a.b",
        "arguments": "{nonsense",
        "new": {"x": 1},
    },
    {
        "id": "fs_1",
        "type": "file_search_call",
        "queries": ["disk"],
        "status": "completed",
        "results": [{"file_id": "f", "text": "df says", "score": 0.5}],
    },
    {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "df"}},
    {
        "id": "cc_1",
        "type": "computer_call",
        "call_id": "call_2",
        "action": {"type": "click", "x": 1, "y": 2, "button": "left"},
        "pending_safety_checks": [],
        "status": "completed",
    },
    {
        "id": "ci_1",
        "type": "code_interpreter_call",
        "code": "print(1)",
        "container_id": "c",
        "outputs": [{"type": "logs", "logs": "1"}],
        "status": "completed",
    },
]
RESPONSES_RESULTS: list[dict[str, Any]] = [
    {"type": "function_call_output", "call_id": "call:1", "output": [{"type": "input_text", "text": "ok"}]},
    {
        "type": "computer_call_output",
        "call_id": "call_2",
        "output": {"type": "computer_screenshot", "image_url": f"data:image/png;base64,{PNG_PIXEL}"},
    },
]


ANTHROPIC_BLOCKS: list[dict[str, Any]] = [
    {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
    {"type": "redacted_thinking", "data": "ZGF0YQ=="},
    {"type": "text", "text": "Let me look.", "citations": None, "new": [1]},
    {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {"query": "x"}},
    {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []},
    {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}, "caller": {"type": "direct"}},
    {"type": "tool_use", "id": "toolu_2", "name": "Read", "input": {"path": "a"}},
]
IMAGE_BLOCK = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG_PIXEL}}


def claude_record(*blocks: Any, role: str = "assistant", key: str = "msg_1", **more: Any) -> dict[str, Any]:
    content = blocks[0] if isinstance(blocks[0], str) else list(blocks)
    message = {"id": key, "model": "claude-x", "usage": {}} if role == "assistant" else {}
    return {"type": role, "message": {"role": role, "content": content, **message}, **more}


def tool_result_block(call: str, content: Json = "ok") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, "cache_control": {"type": "ephemeral"}}
