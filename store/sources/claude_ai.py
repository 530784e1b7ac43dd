"""claude.ai's export: conversations of messages with blocks; calls and their results both stand in the answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from store.formats.content_blocks import part_of_block
from store.model.entry import Attachment, Json, NewEntry, Part, Text, ToolCall, ToolResult
from store.model.session import Session
from store.sources.contract import Continuing
from store.sources.kit import exports, homes, sqlite
from store.sources.kit.exports import Conversation, Export, Told, parents_first
from store.sources.kit.jsonl import count, items, mapping, moment, words
from store.sources.kit.transcripts import Node
from store.text.validate import column_text

NAME = "claude-ai"
LABEL = "claude.ai"
READER = 1
LOCAL_IDS = False

_MOVING = ("chat_messages", "updated_at", "name", "summary")
_ROOT = "00000000-0000-4000-8000-000000000000"
_ROLES = {"human": "user", "assistant": "assistant"}

roots = homes.export


def detect(locator: str) -> bool:
    return exports.detect(locator, _is_conversation)


stamp = exports.stamp


@contextmanager
def open(locator: str) -> Iterator[ClaudeAI]:  # noqa: A001 the shape's own word
    with exports.opened(locator) as parts:
        yield ClaudeAI(parts)


def resume(session: Session) -> Continuing:
    native = session.native_id.partition("/")[0]
    return Continuing(None, hint=f"Open https://claude.ai/chat/{native} in a browser.")


def _is_conversation(value: Mapping[str, Json]) -> bool:
    return isinstance(value.get("uuid"), str) and isinstance(value.get("chat_messages"), list)


class ClaudeAI(Export):
    def understand(self, value: Mapping[str, Json]) -> Conversation | None:
        if not _is_conversation(value):
            return None
        messages = parents_first(list(_messages(items(value.get("chat_messages")))))
        made = Conversation(
            native_id=column_text(words(value.get("uuid"))),
            head={name: told for name, told in value.items() if name not in _MOVING},
            fields={"agent_title": words(value.get("name")).strip(), "provider": "anthropic"},
            messages=messages,
            leaf=_leaf(messages),
            summary=words(value.get("summary")).strip(),
        )
        made.fields |= sqlite.lifetime(moment(value.get("created_at")), moment(value.get("updated_at")))
        return made if made.native_id else None

    def entries(self, conversation: Conversation) -> list[NewEntry]:
        at = conversation.fields.get("created_at", "")
        entries = []
        for told in conversation.messages:
            at = moment(told.value.get("created_at")) or at
            entries.append(_entry(told.node.id, told.value, told.record))
            entries[-1].created_at = at
        return entries


def _messages(messages: list[Json]) -> Iterator[Told]:
    """Where no message names its parent, each follows the one before."""
    before: str | None = None
    for place, message in enumerate(messages):
        told = mapping(message)
        name = words(told.get("uuid")) or f".{place}"
        parent = told.get("parent_message_uuid", before)
        spoken = words(told.get("sender")) in _ROLES
        yield Told(Node(name, None if parent in (None, _ROOT) else words(parent), spoken), message, told)
        before = name


def _leaf(messages: list[Told]) -> int | None:
    """None is marked: the last one to be written, of those that nothing follows."""
    inner = {told.node.parent for told in messages}
    ends = [place for place, told in enumerate(messages) if told.node.id not in inner]
    return max(ends, key=lambda place: (moment(messages[place].value.get("created_at")), place), default=None)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def _entry(name: str, message: Mapping[str, Json], record: Json) -> NewEntry:
    role = _ROLES.get(words(message.get("sender")))
    if role is None:
        return NewEntry(kind="unknown", parts=(part_of_block(record if isinstance(record, dict) else {"": record}),))
    parts = _parts(name, items(message.get("content")))
    # An old export has no blocks; of a newer one the text is but a copy, with holes where tools were.
    if not parts and words(message.get("text")):
        parts = (Text(words(message.get("text"))),)
    parts += tuple(map(_attachment, [*items(message.get("attachments")), *items(message.get("files"))]))
    return NewEntry(role=role, parts=parts, prompt=role == "user")


def _parts(name: str, blocks: list[Json]) -> tuple[Part, ...]:
    """Older exports do not say which result belongs to which call: they are paired in order."""
    parts: list[Part] = []
    waiting: list[ToolCall] = []
    for place, block in enumerate(blocks):
        told = mapping(block)
        part = part_of_block(block)
        if isinstance(part, ToolCall):
            part = ToolCall(words(told.get("id")) or f"{name}.{place}", part.name, part.arguments)
            waiting.append(part)
        elif isinstance(part, ToolResult):
            part = _result(told, part, waiting)
        elif isinstance(text := told.get("text"), str) and told.get("type") == "voice_note":
            part = Text(text)
        parts.append(part)
    return tuple(part for part in parts if part != Text(""))


def _result(told: Mapping[str, Json], part: ToolResult, waiting: list[ToolCall]) -> ToolResult:
    named = words(told.get("tool_use_id"))
    call = next((call for call in waiting if call.id == named or not named), None)
    if call is not None:
        waiting.remove(call)
    return ToolResult(call.id if call else named, part.output, part.is_error, words(told.get("name")))


def _attachment(file: Json) -> Attachment:
    told = mapping(file)
    kind = words(told.get("file_type")) or words(told.get("file_kind")) or "file"
    return Attachment(kind, words(told.get("file_name")), count(told.get("file_size")) or None)
