"""ChatGPT's export: every conversation a tree of messages, of which one line is the one that was read last."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from store.errors import BadValue
from store.model.entry import Attachment, Json, NewEntry, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.model.session import Session
from store.sources.contract import Continuing
from store.sources.kit import exports, homes, jsonl, sqlite
from store.sources.kit.exports import Conversation, Export, Told, parents_first
from store.sources.kit.jsonl import count, items, mapping, moment, words
from store.sources.kit.transcripts import Node
from store.text.validate import column_text

NAME = "chatgpt"
LABEL = "ChatGPT"
READER = 1
LOCAL_IDS = False

_MOVING = ("mapping", "current_node", "update_time")
_UNTITLED = ("New chat", "New Chat")
_MARKER = re.compile("\ue200[^\ue200\ue201]*\ue201|[\ue200-\ue202]")
"""What stands around a citation; it means nothing outside of ChatGPT's own page."""

_CONTEXT = ("user_editable_context", "model_editable_context")
_FAILED = re.compile(r"fail|error|exception|timed_out|cancel", re.IGNORECASE)

roots = homes.export


def detect(locator: str) -> bool:
    return exports.detect(locator, _is_conversation)


stamp = exports.stamp


@contextmanager
def open(locator: str) -> Iterator[ChatGPT]:  # noqa: A001 the shape's own word
    with exports.opened(locator) as parts:
        yield ChatGPT(parts)


def resume(session: Session) -> Continuing:
    native = session.native_id.partition("/")[0]
    return Continuing(None, hint=f"Open https://chatgpt.com/c/{native} in a browser.")


def _is_conversation(value: Mapping[str, Json]) -> bool:
    return isinstance(value.get("mapping"), dict)


class ChatGPT(Export):
    def understand(self, value: Mapping[str, Json]) -> Conversation | None:
        native = words(value.get("conversation_id")) or words(value.get("id"))
        if not _is_conversation(value) or not native:
            return None
        messages = parents_first(list(_messages(mapping(value.get("mapping")))))
        title = words(value.get("title")).strip()
        begun, ended = moment(value.get("create_time")), moment(value.get("update_time"))
        made = Conversation(
            native_id=column_text(native),
            head={name: told for name, told in value.items() if name not in _MOVING},
            fields={
                "agent_title": "" if title in _UNTITLED else title,
                "provider": "openai",
                "model": words(value.get("default_model_slug")),
            },
            messages=messages,
            leaf=_leaf(words(value.get("current_node")), mapping(value.get("mapping")), messages),
            archived=value.get("is_archived") is True,
        )
        made.fields |= sqlite.lifetime(begun, ended)
        return made

    def entries(self, conversation: Conversation) -> list[NewEntry]:
        telling = _Telling(conversation)
        return [telling.entry(told) for told in conversation.messages]


def _messages(nodes: Mapping[str, Json]) -> Iterator[Told]:
    """Nodes without a message only hold the tree together: what hangs on one hangs on what it hangs on."""
    for name, node in nodes.items():
        told = mapping(node)
        message = told.get("message")
        if isinstance(message, dict):
            parent = _above(nodes, told.get("parent"))
            record = {key: value for key, value in told.items() if key != "children"}
            yield Told(Node(name, parent, _is_spoken(message)), record, message)


def _above(nodes: Mapping[str, Json], parent: Json) -> str | None:
    seen: set[str] = set()
    while isinstance(parent, str) and parent in nodes and parent not in seen:
        node = mapping(nodes[parent])
        if isinstance(node.get("message"), dict):
            return parent
        seen.add(parent)
        parent = node.get("parent")
    return None


def _leaf(current: str, nodes: Mapping[str, Json], messages: list[Told]) -> int | None:
    """The node that was read last; where none is named, the message that was written last."""
    current = _above(nodes, current) or ""
    places = {told.node.id: place for place, told in enumerate(messages)}
    if current in places or not messages:
        return places.get(current)
    inner = {told.node.parent for told in messages}
    ends = [place for place, told in enumerate(messages) if told.node.id not in inner]
    return max(ends, key=lambda place: moment(messages[place].value.get("create_time")), default=None)


def _is_spoken(message: Mapping[str, Json]) -> bool:
    return _role(message) in ("user", "assistant") and not _is_hidden(message)


def _role(message: Mapping[str, Json]) -> str:
    return words(mapping(message.get("author")).get("role"))


def _is_hidden(message: Mapping[str, Json]) -> bool:
    hidden = mapping(message.get("metadata")).get("is_visually_hidden_from_conversation")
    return bool(hidden) or message.get("weight") == 0 or _kind(message) in _CONTEXT


def _kind(message: Mapping[str, Json]) -> str:
    return words(mapping(message.get("content")).get("content_type"))


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _State:
    "What a message leaves to those below it."

    at: str
    call: str = ""
    "A call that nobody has answered yet: the id of its node."
    tool: str = ""


class _Telling:
    """The messages of one conversation. A call has no id: the next answer of its tool is its result."""

    def __init__(self, conversation: Conversation) -> None:
        self._model = conversation.fields.get("model", "")
        self._begun = conversation.fields.get("created_at", "")
        self._states: dict[str, _State] = {}

    def entry(self, told: Told) -> NewEntry:
        above = self._states.get(told.node.parent or "") or _State(self._begun)
        message = told.value
        state = _State(moment(message.get("create_time")) or above.at, above.call, above.tool)
        self._states[told.node.id] = state
        entry = self._message(told.node.id, message, state)
        entry.created_at = state.at
        return entry

    def _message(self, name: str, message: Mapping[str, Json], state: _State) -> NewEntry:
        role, kind = _role(message), _kind(message)
        parts = _parts(mapping(message.get("content"))) + _files(message)
        shown = "\n\n".join(part.text for part in parts if isinstance(part, Text))
        if _is_hidden(message) or kind == "reasoning_recap" or (role == "system" and not shown.strip()):
            return NewEntry(kind="event", role=role if role in _ROLES else "", parts=parts, text=shown)
        if role == "user":
            state.call = state.tool = ""
            return NewEntry(role="user", parts=parts, prompt=True)
        if role == "tool":
            return _answer(message, parts, shown, state)
        if role not in _ROLES:
            return NewEntry(kind="unknown", parts=(Opaque(role, dict(message)),))
        if role == "system":
            return NewEntry(role="system", parts=parts)
        tool = words(message.get("recipient"))
        if tool not in ("", "all"):
            state.call, state.tool = name, tool
            others = tuple(part for part in parts if not isinstance(part, Text))
            parts = (*others, ToolCall(name, tool, _arguments(shown, kind)))
        model = words(mapping(message.get("metadata")).get("model_slug")) or self._model
        return NewEntry(role="assistant", parts=parts, model=model)


_ROLES = ("user", "assistant", "system", "tool")


def _answer(message: Mapping[str, Json], parts: tuple[Part, ...], shown: str, state: _State) -> NewEntry:
    """To the call before it, if that went to this tool; a tool may say more than one thing."""
    name = words(mapping(message.get("author")).get("name"))
    same = not name or name.partition(".")[0] == state.tool.partition(".")[0]
    if not state.call or not same:
        return NewEntry(role="tool", parts=parts, author=name)
    call, state.call = state.call, ""
    result = words(mapping(mapping(message.get("metadata")).get("aggregate_result")).get("status"))
    failed = _kind(message) == "system_error" or bool(_FAILED.search(result))
    others = tuple(part for part in parts if not isinstance(part, Text))
    return NewEntry(role="tool", parts=(ToolResult(call, shown, failed, name), *others), prompt=False)


def _arguments(shown: str, kind: str) -> Json:
    if kind != "code":
        return {"text": shown}
    try:
        told = jsonl.parsed(shown.encode("utf-8", "replace"))
    except BadValue:
        told = None
    return told if isinstance(told, dict) else {"code": shown}


def _parts(content: Mapping[str, Json]) -> tuple[Part, ...]:
    kind = words(content.get("content_type"))
    if kind in ("text", "multimodal_text"):
        return tuple(_part(part) for part in items(content.get("parts")) if part not in (None, ""))
    if kind == "thoughts":
        return tuple(Thinking(_thought(mapping(thought))) for thought in items(content.get("thoughts")))
    if kind in _CONTEXT:
        names = ("user_profile", "user_instructions", "model_set_context")
        return tuple(Text(content[name]) for name in names if words(content.get(name)))
    for name in ("text", "result", "content"):
        if isinstance(said := content.get(name), str):
            quoted = [words(content.get("title")), words(content.get("url"))] if kind == "tether_quote" else []
            return (Text(_plain("\n".join(filter(None, [*quoted, said])))),)
    return (Opaque(kind, dict(content)),) if content else ()


def _part(part: Json) -> Part:
    if isinstance(part, str):
        return Text(_plain(part))
    told = mapping(part)
    kind = words(told.get("content_type"))
    if isinstance(text := told.get("text"), str):
        return Text(_plain(text))
    if isinstance(pointer := told.get("asset_pointer"), str):
        media = kind.partition("_")[0] or "file"
        return Attachment(media, pointer.rpartition("/")[2], count(told.get("size_bytes")) or None, pointer)
    return Opaque(kind, part)


def _plain(text: str) -> str:
    return _MARKER.sub("", text)


def _thought(thought: Mapping[str, Json]) -> str:
    return "\n".join(filter(None, (words(thought.get("summary")), words(thought.get("content")))))


def _files(message: Mapping[str, Json]) -> tuple[Part, ...]:
    """What was attached; a picture stands among the parts as well."""
    attached = list(map(mapping, items(mapping(message.get("metadata")).get("attachments"))))
    if not attached:
        return ()
    shown = str(mapping(message.get("content")).get("parts"))
    return tuple(_file(file) for file in attached if not words(file.get("id")) or words(file.get("id")) not in shown)


def _file(file: Mapping[str, Json]) -> Attachment:
    media = words(file.get("mimeType")) or words(file.get("mime_type")) or "file"
    return Attachment(media, words(file.get("name")), count(file.get("size")) or None)
