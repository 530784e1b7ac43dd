"""This module reads claude.ai exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from store.formats.content_blocks import parse_block
from store.model.entry import Attachment, Json, NewEntry, Part, Text, ToolCall, ToolResult
from store.sources.kit import sqlite
from store.sources.kit.exports import ExportConversation, ExportMessage, ExportReader, sort_parents_first
from store.sources.kit.jsonl import as_count, as_dict, as_list, as_str, as_time
from store.sources.kit.transcripts import Node
from store.text.validate import replace_surrogates

_CHANGING_FIELDS = ("chat_messages", "updated_at", "name", "summary", "current_leaf_message_uuid")
_ROOT_UUID = "00000000-0000-4000-8000-000000000000"
_ROLES = {"human": "user", "assistant": "assistant"}


def is_conversation(value: Mapping[str, Json]) -> bool:
    return isinstance(value.get("uuid"), str) and isinstance(value.get("chat_messages"), list)


class ClaudeAIReader(ExportReader):
    """Reads the conversations of a claude.ai export."""

    def parse_conversation(self, value: Mapping[str, Json]) -> ExportConversation | None:
        if not is_conversation(value):
            return None
        messages = sort_parents_first(list(_parse_messages(as_list(value.get("chat_messages")))))
        conversation = ExportConversation(
            native_id=replace_surrogates(as_str(value.get("uuid"))),
            header={name: field for name, field in value.items() if name not in _CHANGING_FIELDS},
            fields={
                "agent_title": as_str(value.get("name")).strip(),
                "provider": "anthropic",
                "model": as_str(value.get("model")),
            },
            messages=messages,
            leaf=_find_leaf(messages, as_str(value.get("current_leaf_message_uuid"))),
            summary=as_str(value.get("summary")).strip(),
        )
        conversation.fields |= sqlite.time_fields(as_time(value.get("created_at")), as_time(value.get("updated_at")))
        return conversation if conversation.native_id else None

    def build_entries(self, conversation: ExportConversation) -> list[NewEntry]:
        created_at = conversation.fields.get("created_at", "")
        entries = []
        for message in conversation.messages:
            created_at = as_time(message.value.get("created_at")) or created_at
            entries.append(_parse_entry(message.node.id, message.value, message.record))
            entries[-1].created_at = created_at
        return entries


def _parse_messages(messages: list[Json]) -> Iterator[ExportMessage]:
    """Yield the messages. A message that names no parent follows the one before."""
    previous: str | None = None
    for index, message in enumerate(messages):
        fields = as_dict(message)
        uuid = as_str(fields.get("uuid")) or f".{index}"
        parent = fields.get("parent_message_uuid", previous)
        is_message = as_str(fields.get("sender")) in _ROLES
        yield ExportMessage(
            Node(uuid, None if parent in (None, _ROOT_UUID) else as_str(parent), is_message), message, fields
        )
        previous = uuid


def _find_leaf(messages: list[ExportMessage], current: str) -> int | None:
    """Return the last message of the conversation: the one that it names, else the newest without an answer.

    Only a conversation that was saved by itself names it. An export does not.
    """
    if named := [index for index, message in enumerate(messages) if current and message.node.id == current]:
        return named[0]
    parents = {message.node.parent for message in messages}
    leaves = [index for index, message in enumerate(messages) if message.node.id not in parents]
    return max(leaves, key=lambda index: (as_time(messages[index].value.get("created_at")), index), default=None)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _parse_entry(uuid: str, message: Mapping[str, Json], record: Json) -> NewEntry:
    role = _ROLES.get(as_str(message.get("sender")))
    if role is None:
        return NewEntry(kind="unknown", parts=(parse_block(record if isinstance(record, dict) else {"": record}),))
    parts = _parse_parts(uuid, as_list(message.get("content")))
    # Old exports have no blocks. In newer ones the text only repeats the blocks, with gaps for tool calls.
    if not parts and as_str(message.get("text")):
        parts = (Text(as_str(message.get("text"))),)
    parts += tuple(map(_parse_attachment, [*as_list(message.get("attachments")), *as_list(message.get("files"))]))
    return NewEntry(role=role, parts=parts, is_prompt=role == "user")


def _parse_parts(uuid: str, blocks: list[Json]) -> tuple[Part, ...]:
    """Parse the content blocks. Older exports do not link results to calls, so they are paired in order."""
    parts: list[Part] = []
    open_calls: list[ToolCall] = []
    for index, block in enumerate(blocks):
        fields = as_dict(block)
        part = parse_block(block)
        if isinstance(part, ToolCall):
            part = ToolCall(as_str(fields.get("id")) or f"{uuid}.{index}", part.name, part.arguments)
            open_calls.append(part)
        elif isinstance(part, ToolResult):
            part = _pair_result(fields, part, open_calls)
        elif isinstance(text := fields.get("text"), str) and fields.get("type") == "voice_note":
            part = Text(text)
        parts.append(part)
    return tuple(part for part in parts if part != Text(""))


def _pair_result(fields: Mapping[str, Json], part: ToolResult, open_calls: list[ToolCall]) -> ToolResult:
    call_id = as_str(fields.get("tool_use_id"))
    call = next((call for call in open_calls if call.id == call_id or not call_id), None)
    if call is not None:
        open_calls.remove(call)
    return ToolResult(call.id if call else call_id, part.output, part.is_error, as_str(fields.get("name")))


def _parse_attachment(file: Json) -> Attachment:
    fields = as_dict(file)
    kind = as_str(fields.get("file_type")) or as_str(fields.get("file_kind")) or "file"
    return Attachment(kind, as_str(fields.get("file_name")), as_count(fields.get("file_size")) or None)
