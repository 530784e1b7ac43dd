"""This module reads ChatGPT exports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from store.errors import BadValue
from store.model.entry import Attachment, Json, NewEntry, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.sources.kit import jsonl, sqlite
from store.sources.kit.exports import ExportConversation, ExportMessage, ExportReader, sort_parents_first
from store.sources.kit.jsonl import as_count, as_dict, as_list, as_str, as_time
from store.sources.kit.transcripts import Node
from store.text.validate import replace_surrogates

_CHANGING_FIELDS = ("mapping", "current_node", "update_time")
_PLACEHOLDER_TITLES = ("New chat", "New Chat")
_CITATION_MARKER = re.compile("\ue200[^\ue200\ue201]*\ue201|[\ue200-\ue202]")
"""What stands around a citation; it means nothing outside of ChatGPT's own page."""

_CONTEXT_TYPES = ("user_editable_context", "model_editable_context")
_FAILURE_STATUS = re.compile(r"fail|error|exception|timed_out|cancel", re.IGNORECASE)


def is_conversation(value: Mapping[str, Json]) -> bool:
    return isinstance(value.get("mapping"), dict)


class ChatGPTReader(ExportReader):
    def parse_conversation(self, value: Mapping[str, Json]) -> ExportConversation | None:
        native = as_str(value.get("conversation_id")) or as_str(value.get("id"))
        if not is_conversation(value) or not native:
            return None
        messages = sort_parents_first(list(_parse_messages(as_dict(value.get("mapping")))))
        title = as_str(value.get("title")).strip()
        begun, ended = as_time(value.get("create_time")), as_time(value.get("update_time"))
        made = ExportConversation(
            native_id=replace_surrogates(native),
            header={name: told for name, told in value.items() if name not in _CHANGING_FIELDS},
            fields={
                "agent_title": "" if title in _PLACEHOLDER_TITLES else title,
                "provider": "openai",
                "model": as_str(value.get("default_model_slug")),
            },
            messages=messages,
            leaf=_find_leaf(as_str(value.get("current_node")), as_dict(value.get("mapping")), messages),
            archived=value.get("is_archived") is True,
        )
        made.fields |= sqlite.time_fields(begun, ended)
        return made

    def build_entries(self, conversation: ExportConversation) -> list[NewEntry]:
        telling = _ChatGPTEntryReader(conversation)
        return [telling.read_entry(told) for told in conversation.messages]


def _parse_messages(nodes: Mapping[str, Json]) -> Iterator[ExportMessage]:
    """Nodes without a message only hold the tree together: what hangs on one hangs on what it hangs on."""
    for name, node in nodes.items():
        told = as_dict(node)
        message = told.get("message")
        if isinstance(message, dict):
            parent = _find_parent_message(nodes, told.get("parent"))
            record = {key: value for key, value in told.items() if key != "children"}
            yield ExportMessage(Node(name, parent, _is_visible_message(message)), record, message)


def _find_parent_message(nodes: Mapping[str, Json], parent: Json) -> str | None:
    seen: set[str] = set()
    while isinstance(parent, str) and parent in nodes and parent not in seen:
        node = as_dict(nodes[parent])
        if isinstance(node.get("message"), dict):
            return parent
        seen.add(parent)
        parent = node.get("parent")
    return None


def _find_leaf(current: str, nodes: Mapping[str, Json], messages: list[ExportMessage]) -> int | None:
    """The node that was read last; where none is named, the message that was written last."""
    current = _find_parent_message(nodes, current) or ""
    places = {told.node.id: place for place, told in enumerate(messages)}
    if current in places or not messages:
        return places.get(current)
    inner = {told.node.parent for told in messages}
    ends = [place for place, told in enumerate(messages) if told.node.id not in inner]
    return max(ends, key=lambda place: as_time(messages[place].value.get("create_time")), default=None)


def _is_visible_message(message: Mapping[str, Json]) -> bool:
    return _role(message) in ("user", "assistant") and not _is_hidden(message)


def _role(message: Mapping[str, Json]) -> str:
    return as_str(as_dict(message.get("author")).get("role"))


def _is_hidden(message: Mapping[str, Json]) -> bool:
    hidden = as_dict(message.get("metadata")).get("is_visually_hidden_from_conversation")
    return bool(hidden) or message.get("weight") == 0 or _content_type(message) in _CONTEXT_TYPES


def _content_type(message: Mapping[str, Json]) -> str:
    return as_str(as_dict(message.get("content")).get("content_type"))


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _ChatGPTState:
    "What a message leaves to those below it."

    created_at: str
    open_call_id: str = ""
    "A call that nobody has answered yet: the id of its node."
    open_tool: str = ""


class _ChatGPTEntryReader:
    """The messages of one conversation. A call has no id: the next answer of its tool is its result."""

    def __init__(self, conversation: ExportConversation) -> None:
        self._model = conversation.fields.get("model", "")
        self._started_at = conversation.fields.get("created_at", "")
        self._states: dict[str, _ChatGPTState] = {}

    def read_entry(self, told: ExportMessage) -> NewEntry:
        above = self._states.get(told.node.parent or "") or _ChatGPTState(self._started_at)
        message = told.value
        state = _ChatGPTState(
            as_time(message.get("create_time")) or above.created_at, above.open_call_id, above.open_tool
        )
        self._states[told.node.id] = state
        entry = self._parse_message(told.node.id, message, state)
        entry.created_at = state.created_at
        return entry

    def _parse_message(self, name: str, message: Mapping[str, Json], state: _ChatGPTState) -> NewEntry:
        role, kind = _role(message), _content_type(message)
        parts = _parse_parts(as_dict(message.get("content"))) + _parse_attachments(message)
        shown = "\n\n".join(part.text for part in parts if isinstance(part, Text))
        if _is_hidden(message) or kind == "reasoning_recap" or (role == "system" and not shown.strip()):
            return NewEntry(kind="event", role=role if role in _ROLES else "", parts=parts, text=shown)
        if role == "user":
            state.open_call_id = state.open_tool = ""
            return NewEntry(role="user", parts=parts, is_prompt=True)
        if role == "tool":
            return _parse_tool_message(message, parts, shown, state)
        if role not in _ROLES:
            return NewEntry(kind="unknown", parts=(Opaque(role, dict(message)),))
        if role == "system":
            return NewEntry(role="system", parts=parts)
        tool = as_str(message.get("recipient"))
        if tool not in ("", "all"):
            state.open_call_id, state.open_tool = name, tool
            others = tuple(part for part in parts if not isinstance(part, Text))
            parts = (*others, ToolCall(name, tool, _parse_arguments(shown, kind)))
        model = as_str(as_dict(message.get("metadata")).get("model_slug")) or self._model
        return NewEntry(role="assistant", parts=parts, model=model)


_ROLES = ("user", "assistant", "system", "tool")


def _parse_tool_message(
    message: Mapping[str, Json], parts: tuple[Part, ...], shown: str, state: _ChatGPTState
) -> NewEntry:
    """To the call before it, if that went to this tool; a tool may say more than one thing."""
    name = as_str(as_dict(message.get("author")).get("name"))
    same = not name or name.partition(".")[0] == state.open_tool.partition(".")[0]
    if not state.open_call_id or not same:
        return NewEntry(role="tool", parts=parts, author=name)
    call, state.open_call_id = state.open_call_id, ""
    result = as_str(as_dict(as_dict(message.get("metadata")).get("aggregate_result")).get("status"))
    failed = _content_type(message) == "system_error" or bool(_FAILURE_STATUS.search(result))
    others = tuple(part for part in parts if not isinstance(part, Text))
    return NewEntry(role="tool", parts=(ToolResult(call, shown, failed, name), *others), is_prompt=False)


def _parse_arguments(shown: str, kind: str) -> Json:
    if kind != "code":
        return {"text": shown}
    try:
        told = jsonl.parse_json(shown.encode("utf-8", "replace"))
    except BadValue:
        told = None
    return told if isinstance(told, dict) else {"code": shown}


def _parse_parts(content: Mapping[str, Json]) -> tuple[Part, ...]:
    kind = as_str(content.get("content_type"))
    if kind in ("text", "multimodal_text"):
        return tuple(_parse_part(part) for part in as_list(content.get("parts")) if part not in (None, ""))
    if kind == "thoughts":
        return tuple(Thinking(_format_thought(as_dict(thought))) for thought in as_list(content.get("thoughts")))
    if kind in _CONTEXT_TYPES:
        names = ("user_profile", "user_instructions", "model_set_context")
        return tuple(Text(content[name]) for name in names if as_str(content.get(name)))
    for name in ("text", "result", "content"):
        if isinstance(said := content.get(name), str):
            quoted = [as_str(content.get("title")), as_str(content.get("url"))] if kind == "tether_quote" else []
            return (Text(_strip_citations("\n".join(filter(None, [*quoted, said])))),)
    return (Opaque(kind, dict(content)),) if content else ()


def _parse_part(part: Json) -> Part:
    if isinstance(part, str):
        return Text(_strip_citations(part))
    told = as_dict(part)
    kind = as_str(told.get("content_type"))
    if isinstance(text := told.get("text"), str):
        return Text(_strip_citations(text))
    if isinstance(pointer := told.get("asset_pointer"), str):
        media = kind.partition("_")[0] or "file"
        return Attachment(media, pointer.rpartition("/")[2], as_count(told.get("size_bytes")) or None, pointer)
    return Opaque(kind, part)


def _strip_citations(text: str) -> str:
    return _CITATION_MARKER.sub("", text)


def _format_thought(thought: Mapping[str, Json]) -> str:
    return "\n".join(filter(None, (as_str(thought.get("summary")), as_str(thought.get("content")))))


def _parse_attachments(message: Mapping[str, Json]) -> tuple[Part, ...]:
    """What was attached; a picture stands among the parts as well."""
    attached = list(map(as_dict, as_list(as_dict(message.get("metadata")).get("attachments"))))
    if not attached:
        return ()
    shown = str(as_dict(message.get("content")).get("parts"))
    return tuple(
        _parse_attachment(file)
        for file in attached
        if not as_str(file.get("id")) or as_str(file.get("id")) not in shown
    )


def _parse_attachment(file: Mapping[str, Json]) -> Attachment:
    media = as_str(file.get("mimeType")) or as_str(file.get("mime_type")) or "file"
    return Attachment(media, as_str(file.get("name")), as_count(file.get("size")) or None)
