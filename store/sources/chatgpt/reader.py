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
"""Matches markers of citations, which mean nothing outside of ChatGPT's own page."""

_CONTEXT_TYPES = ("user_editable_context", "model_editable_context")
_FAILURE_STATUS = re.compile(r"fail|error|exception|timed_out|cancel", re.IGNORECASE)


def is_conversation(value: Mapping[str, Json]) -> bool:
    return isinstance(value.get("mapping"), dict)


class ChatGPTReader(ExportReader):
    """Reads the conversations of a ChatGPT export."""

    def parse_conversation(self, value: Mapping[str, Json]) -> ExportConversation | None:
        native_id = as_str(value.get("conversation_id")) or as_str(value.get("id"))
        if not is_conversation(value) or not native_id:
            return None
        messages = sort_parents_first(list(_parse_messages(as_dict(value.get("mapping")))))
        title = as_str(value.get("title")).strip()
        created_at, updated_at = as_time(value.get("create_time")), as_time(value.get("update_time"))
        conversation = ExportConversation(
            native_id=replace_surrogates(native_id),
            header={name: field for name, field in value.items() if name not in _CHANGING_FIELDS},
            fields={
                "agent_title": "" if title in _PLACEHOLDER_TITLES else title,
                "provider": "openai",
                "model": as_str(value.get("default_model_slug")),
            },
            messages=messages,
            leaf=_find_leaf(as_str(value.get("current_node")), as_dict(value.get("mapping")), messages),
            archived=value.get("is_archived") is True,
        )
        conversation.fields |= sqlite.time_fields(created_at, updated_at)
        return conversation

    def build_entries(self, conversation: ExportConversation) -> list[NewEntry]:
        entry_reader = _ChatGPTEntryReader(conversation)
        return [entry_reader.read_entry(message) for message in conversation.messages]


def _parse_messages(mapping: Mapping[str, Json]) -> Iterator[ExportMessage]:
    """Yield the messages. Nodes without a message only connect others; their children get the nearest message above as
    parent."""
    for name, value in mapping.items():
        fields = as_dict(value)
        message = fields.get("message")
        if isinstance(message, dict):
            parent = _find_parent_message(mapping, fields.get("parent"))
            record = {key: field for key, field in fields.items() if key != "children"}
            yield ExportMessage(Node(name, parent, _is_visible_message(message)), record, message)


def _find_parent_message(mapping: Mapping[str, Json], parent: Json) -> str | None:
    seen: set[str] = set()
    while isinstance(parent, str) and parent in mapping and parent not in seen:
        node = as_dict(mapping[parent])
        if isinstance(node.get("message"), dict):
            return parent
        seen.add(parent)
        parent = node.get("parent")
    return None


def _find_leaf(current: str, mapping: Mapping[str, Json], messages: list[ExportMessage]) -> int | None:
    """Return the message that was shown last; if none is named, the newest message without an answer."""
    current = _find_parent_message(mapping, current) or ""
    indexes = {message.node.id: index for index, message in enumerate(messages)}
    if current in indexes or not messages:
        return indexes.get(current)
    parents = {message.node.parent for message in messages}
    leaves = [index for index, message in enumerate(messages) if message.node.id not in parents]
    return max(leaves, key=lambda index: as_time(messages[index].value.get("create_time")), default=None)


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
    """Holds what a message passes on to the messages below it."""

    created_at: str
    open_call_id: str = ""
    "Is the node id of a tool call that has no result yet."
    open_tool: str = ""


class _ChatGPTEntryReader:
    """Turns the messages of one conversation into entries.

    A tool call has no id: the next message of its tool is its result.
    """

    def __init__(self, conversation: ExportConversation) -> None:
        self._model = conversation.fields.get("model", "")
        self._started_at = conversation.fields.get("created_at", "")
        self._states: dict[str, _ChatGPTState] = {}

    def read_entry(self, message: ExportMessage) -> NewEntry:
        parent_state = self._states.get(message.node.parent or "") or _ChatGPTState(self._started_at)
        value = message.value
        state = _ChatGPTState(
            as_time(value.get("create_time")) or parent_state.created_at,
            parent_state.open_call_id,
            parent_state.open_tool,
        )
        self._states[message.node.id] = state
        entry = self._parse_message(message.node.id, value, state)
        entry.created_at = state.created_at
        return entry

    def _parse_message(self, node_id: str, message: Mapping[str, Json], state: _ChatGPTState) -> NewEntry:
        role, kind = _role(message), _content_type(message)
        parts = _parse_parts(as_dict(message.get("content"))) + _parse_attachments(message)
        text = "\n\n".join(part.text for part in parts if isinstance(part, Text))
        if _is_hidden(message) or kind == "reasoning_recap" or (role == "system" and not text.strip()):
            return NewEntry(kind="event", role=role if role in _ROLES else "", parts=parts, text=text)
        if role == "user":
            state.open_call_id = state.open_tool = ""
            return NewEntry(role="user", parts=parts, is_prompt=True)
        if role == "tool":
            return _parse_tool_message(message, parts, text, state)
        if role not in _ROLES:
            return NewEntry(kind="unknown", parts=(Opaque(role, dict(message)),))
        if role == "system":
            return NewEntry(role="system", parts=parts)
        tool = as_str(message.get("recipient"))
        if tool not in ("", "all"):
            state.open_call_id, state.open_tool = node_id, tool
            other_parts = tuple(part for part in parts if not isinstance(part, Text))
            parts = (*other_parts, ToolCall(node_id, tool, _parse_arguments(text, kind)))
        model = as_str(as_dict(message.get("metadata")).get("model_slug")) or self._model
        return NewEntry(role="assistant", parts=parts, model=model)


_ROLES = ("user", "assistant", "system", "tool")


def _parse_tool_message(
    message: Mapping[str, Json], parts: tuple[Part, ...], text: str, state: _ChatGPTState
) -> NewEntry:
    """Return the result of the open call, if it went to this tool. A tool may write further messages."""
    name = as_str(as_dict(message.get("author")).get("name"))
    is_called_tool = not name or name.partition(".")[0] == state.open_tool.partition(".")[0]
    if not state.open_call_id or not is_called_tool:
        return NewEntry(role="tool", parts=parts, author=name)
    call_id, state.open_call_id = state.open_call_id, ""
    status = as_str(as_dict(as_dict(message.get("metadata")).get("aggregate_result")).get("status"))
    failed = _content_type(message) == "system_error" or bool(_FAILURE_STATUS.search(status))
    other_parts = tuple(part for part in parts if not isinstance(part, Text))
    return NewEntry(role="tool", parts=(ToolResult(call_id, text, failed, name), *other_parts), is_prompt=False)


def _parse_arguments(text: str, kind: str) -> Json:
    if kind != "code":
        return {"text": text}
    try:
        arguments = jsonl.parse_json(text.encode("utf-8", "replace"))
    except BadValue:
        arguments = None
    return arguments if isinstance(arguments, dict) else {"code": text}


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
        if isinstance(text := content.get(name), str):
            heading = [as_str(content.get("title")), as_str(content.get("url"))] if kind == "tether_quote" else []
            return (Text(_strip_citations("\n".join(filter(None, [*heading, text])))),)
    return (Opaque(kind, dict(content)),) if content else ()


def _parse_part(part: Json) -> Part:
    if isinstance(part, str):
        return Text(_strip_citations(part))
    fields = as_dict(part)
    kind = as_str(fields.get("content_type"))
    if isinstance(text := fields.get("text"), str):
        return Text(_strip_citations(text))
    if isinstance(pointer := fields.get("asset_pointer"), str):
        media = kind.partition("_")[0] or "file"
        return Attachment(media, pointer.rpartition("/")[2], as_count(fields.get("size_bytes")) or None, pointer)
    return Opaque(kind, part)


def _strip_citations(text: str) -> str:
    return _CITATION_MARKER.sub("", text)


def _format_thought(thought: Mapping[str, Json]) -> str:
    return "\n".join(filter(None, (as_str(thought.get("summary")), as_str(thought.get("content")))))


def _parse_attachments(message: Mapping[str, Json]) -> tuple[Part, ...]:
    """Return the attached files, without images that are already among the parts."""
    files = list(map(as_dict, as_list(as_dict(message.get("metadata")).get("attachments"))))
    if not files:
        return ()
    parts_text = str(as_dict(message.get("content")).get("parts"))
    return tuple(
        _parse_attachment(file)
        for file in files
        if not as_str(file.get("id")) or as_str(file.get("id")) not in parts_text
    )


def _parse_attachment(file: Mapping[str, Json]) -> Attachment:
    media = as_str(file.get("mimeType")) or as_str(file.get("mime_type")) or "file"
    return Attachment(media, as_str(file.get("name")), as_count(file.get("size")) or None)
