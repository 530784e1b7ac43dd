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

_CHANGING_FIELDS = ("chat_messages", "updated_at", "name", "summary")
_ROOT_UUID = "00000000-0000-4000-8000-000000000000"
_ROLES = {"human": "user", "assistant": "assistant"}


def is_conversation(value: Mapping[str, Json]) -> bool:
    return isinstance(value.get("uuid"), str) and isinstance(value.get("chat_messages"), list)


class ClaudeAIReader(ExportReader):
    def parse_conversation(self, value: Mapping[str, Json]) -> ExportConversation | None:
        if not is_conversation(value):
            return None
        messages = sort_parents_first(list(_parse_messages(as_list(value.get("chat_messages")))))
        made = ExportConversation(
            native_id=replace_surrogates(as_str(value.get("uuid"))),
            header={name: told for name, told in value.items() if name not in _CHANGING_FIELDS},
            fields={"agent_title": as_str(value.get("name")).strip(), "provider": "anthropic"},
            messages=messages,
            leaf=_find_leaf(messages),
            summary=as_str(value.get("summary")).strip(),
        )
        made.fields |= sqlite.time_fields(as_time(value.get("created_at")), as_time(value.get("updated_at")))
        return made if made.native_id else None

    def build_entries(self, conversation: ExportConversation) -> list[NewEntry]:
        at = conversation.fields.get("created_at", "")
        entries = []
        for told in conversation.messages:
            at = as_time(told.value.get("created_at")) or at
            entries.append(_parse_entry(told.node.id, told.value, told.record))
            entries[-1].created_at = at
        return entries


def _parse_messages(messages: list[Json]) -> Iterator[ExportMessage]:
    """Where no message names its parent, each follows the one before."""
    before: str | None = None
    for place, message in enumerate(messages):
        told = as_dict(message)
        name = as_str(told.get("uuid")) or f".{place}"
        parent = told.get("parent_message_uuid", before)
        spoken = as_str(told.get("sender")) in _ROLES
        yield ExportMessage(Node(name, None if parent in (None, _ROOT_UUID) else as_str(parent), spoken), message, told)
        before = name


def _find_leaf(messages: list[ExportMessage]) -> int | None:
    """None is marked: the last one to be written, of those that nothing follows."""
    inner = {told.node.parent for told in messages}
    ends = [place for place, told in enumerate(messages) if told.node.id not in inner]
    return max(ends, key=lambda place: (as_time(messages[place].value.get("created_at")), place), default=None)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _parse_entry(name: str, message: Mapping[str, Json], record: Json) -> NewEntry:
    role = _ROLES.get(as_str(message.get("sender")))
    if role is None:
        return NewEntry(kind="unknown", parts=(parse_block(record if isinstance(record, dict) else {"": record}),))
    parts = _parse_parts(name, as_list(message.get("content")))
    # An old export has no blocks; of a newer one the text is but a copy, with holes where tools were.
    if not parts and as_str(message.get("text")):
        parts = (Text(as_str(message.get("text"))),)
    parts += tuple(map(_parse_attachment, [*as_list(message.get("attachments")), *as_list(message.get("files"))]))
    return NewEntry(role=role, parts=parts, is_prompt=role == "user")


def _parse_parts(name: str, blocks: list[Json]) -> tuple[Part, ...]:
    """Older exports do not say which result belongs to which call: they are paired in order."""
    parts: list[Part] = []
    waiting: list[ToolCall] = []
    for place, block in enumerate(blocks):
        told = as_dict(block)
        part = parse_block(block)
        if isinstance(part, ToolCall):
            part = ToolCall(as_str(told.get("id")) or f"{name}.{place}", part.name, part.arguments)
            waiting.append(part)
        elif isinstance(part, ToolResult):
            part = _pair_result(told, part, waiting)
        elif isinstance(text := told.get("text"), str) and told.get("type") == "voice_note":
            part = Text(text)
        parts.append(part)
    return tuple(part for part in parts if part != Text(""))


def _pair_result(told: Mapping[str, Json], part: ToolResult, waiting: list[ToolCall]) -> ToolResult:
    named = as_str(told.get("tool_use_id"))
    call = next((call for call in waiting if call.id == named or not named), None)
    if call is not None:
        waiting.remove(call)
    return ToolResult(call.id if call else named, part.output, part.is_error, as_str(told.get("name")))


def _parse_attachment(file: Json) -> Attachment:
    told = as_dict(file)
    kind = as_str(told.get("file_type")) or as_str(told.get("file_kind")) or "file"
    return Attachment(kind, as_str(told.get("file_name")), as_count(told.get("file_size")) or None)
