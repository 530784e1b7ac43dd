"""What the vendors say of their input: by the types of their own packages, and by the rules they state in words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Required, Union, get_args, get_origin, get_type_hints

import pytest

from store.rebuild import Shape

Body = dict[str, Any]

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


# ── types ─────────────────────────────────────────────────────────────────────────────────────────


def check_types(shape: Shape, body: Body, *, only_known: bool = False) -> None:
    """Against the packages' own types; `only_known`: nothing that they do not name."""
    pytest.importorskip("openai", reason="openai and anthropic are not installed; `make test` installs them.")
    pytest.importorskip("anthropic", reason="openai and anthropic are not installed; `make test` installs them.")
    _adapter(shape, only_known).validate_python(body["input" if shape == "responses" else "messages"])


def as_codex_sends_it(body: Body) -> Body:
    """With what the API fills in by itself: Codex sends its items without, and the types insist."""
    filled = {"reasoning": {"id": "rs_x"}, "message": {}, "web_search_call": {"id": "ws_x"}}
    items = [filled.get(item.get("type", ""), {}) | item for item in body["input"]]
    for place, item in enumerate(items):
        if item.get("role") == "assistant" and isinstance(item["content"], list):
            content = [{"annotations": [], **block} for block in item["content"]]
            items[place] = {"id": "msg_x", "status": "completed", **item, "content": content}
    return {"input": items}


@cache
def _adapter(shape: Shape, only_known: bool) -> Any:
    from anthropic.types import MessageParam
    from openai.types.chat import ChatCompletionMessageParam
    from openai.types.responses import ResponseInputItemParam
    from pydantic import TypeAdapter

    wanted = {"responses": ResponseInputItemParam, "chat": ChatCompletionMessageParam, "anthropic": MessageParam}
    return TypeAdapter(list[_Eager(only_known).made(wanted[shape])])


class _Eager:
    """The same types with lists for iterables, since what is an iterable is checked only when somebody walks it."""

    def __init__(self, only_known: bool) -> None:
        self._only_known = only_known
        self._known: dict[Any, Any] = {}

    def made(self, kind: Any) -> Any:
        from typing_extensions import is_typeddict

        origin, inner = get_origin(kind), get_args(kind)
        if is_typeddict(kind):
            return self._known[kind] if kind in self._known else self._typed_dict(kind)
        if origin in (Union, UnionType):
            return Union[tuple(map(self.made, inner))]  # noqa: UP007 made of what is known only now
        if origin in (Required, NotRequired):
            return origin[self.made(inner[0])]
        if origin is dict:
            return dict[inner[0], self.made(inner[1])]  # type: ignore[misc]
        if origin is not None and origin is not Literal and issubclass(origin, Iterable):
            return list[self.made(inner[0])]  # type: ignore[misc]
        return kind if kind is not NoneType else None

    def _typed_dict(self, kind: Any) -> Any:
        from pydantic import ConfigDict
        from typing_extensions import TypedDict

        hints = get_type_hints(kind, include_extras=True)
        made = TypedDict(kind.__name__, {name: self.made(hint) for name, hint in hints.items()}, total=False)  # type: ignore[misc]
        made.__pydantic_config__ = ConfigDict(  # type: ignore[attr-defined]
            extra="forbid" if self._only_known else "allow", arbitrary_types_allowed=True
        )
        self._known[kind] = made
        return made


# ── rules ─────────────────────────────────────────────────────────────────────────────────────────


def check_rules(shape: Shape, body: Body, *, legal_ids: bool = True) -> None:
    """What a vendor refuses though its types allow it."""
    {"responses": _responses_rules, "chat": _chat_rules, "anthropic": _anthropic_rules}[shape](body, legal_ids)


def _check_id(call_id: str, legal_ids: bool, longest: int = 64) -> None:
    assert call_id
    assert not legal_ids or (_ID.fullmatch(call_id) and len(call_id) <= longest), call_id


def _responses_rules(body: Body, legal_ids: bool) -> None:
    assert body.keys() == {"input"}
    waiting: set[str] = set()
    seen: set[str] = set()
    items = body["input"]
    for place, item in enumerate(items):
        kind = item.get("type", "message")
        if kind.endswith("_call") and item.get("call_id"):
            _check_id(item["call_id"], legal_ids)
            assert item["call_id"] not in seen
            seen.add(item["call_id"])
            waiting.add(item["call_id"])
            if kind == "function_call" and legal_ids:
                assert _NAME.fullmatch(item["name"])
        elif kind.endswith("_output"):
            waiting.remove(item["call_id"])
        elif kind == "reasoning":
            assert place + 1 < len(items)
            assert items[place + 1].get("role") in (None, "assistant")
        elif kind == "message":
            assert item["content"]
    assert not waiting


def _chat_rules(body: Body, legal_ids: bool) -> None:
    assert body.keys() == {"messages"}
    waiting: list[str] = []
    seen: set[str] = set()
    for message in body["messages"]:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
            assert message["content"]
            continue
        assert not waiting, "the results of a message's calls come directly after it"
        calls = message.get("tool_calls") or []
        assert calls or message.get("content") or message.get("refusal")
        for call in calls:
            _check_id(call["id"], legal_ids, 40)
            assert call["id"] not in seen
            assert not legal_ids or _NAME.fullmatch(call["function"]["name"])
        waiting = [call["id"] for call in calls]
        seen.update(waiting)
    assert not waiting


def _anthropic_rules(body: Body, legal_ids: bool) -> None:
    assert body.keys() <= {"system", "messages"}
    assert body.get("system", "x").strip()
    messages = body["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant"] * (len(messages) // 2) + ["user"] * (
        len(messages) % 2
    )
    seen: set[str] = set()
    waiting: list[str] = []
    for message in messages:
        blocks = list(_blocks(message))
        assert blocks
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        assert sorted(results) == sorted(waiting), "each call has its one result in the next message"
        assert all(block["type"] == "tool_result" for block in blocks[: len(results)]), "results come first"
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for block in blocks:
            _check_block(block, legal_ids)
            if block["type"] in ("tool_use", "server_tool_use"):
                assert block["id"] not in seen
                seen.add(block["id"])
        assert message["role"] == "user" or blocks[-1]["type"] != "thinking"
    assert not waiting
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
