"""This module reads Goose's database and its older files."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from store.errors import BadValue
from store.model.entry import Attachment, Json, NewEntry, NewRecord, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.model.session import SessionFields
from store.sources.contract import Batch, ForeignSummary, Problem, SessionRef, SourceReader
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import as_count, as_dict, as_list, as_str
from store.sources.kit.sqlite import RowLike
from store.text.validate import encode_derived, parse, replace_surrogates

_MESSAGE_COLUMNS = ("session_id", "role", "created_timestamp", "cast(content_json as blob)")
_SMALLEST_MILLISECONDS = 100_000_000_000
# Other clients than Goose's own write milliseconds.
_MESSAGES_IN_ORDER = f"""
    where session_id = ? order by
    case when created_timestamp > {_SMALLEST_MILLISECONDS} then created_timestamp / 1000 else created_timestamp end, id
"""
_PLACEHOLDER_TITLE = re.compile(r"(?:CLI Session|New session(?: \d+)?)\s*", re.IGNORECASE)
_INTERNAL_TYPES = ("sub_agent", "hidden")
"""Types of sessions that Goose starts for itself and shows nobody."""

_VISIBILITY_KEYS = ("userVisible", "agentVisible")
_NOTICE_TYPES = ("systemNotification", "contextLengthExceeded", "summarizationRequested")
_QUESTION_TYPES = ("toolConfirmationRequest", "actionRequired")


# ── the store ─────────────────────────────────────────────────────────────────────────────────────


class _GooseMessage(NamedTuple):
    role: str
    content: Json
    created_at: str
    visibility: Mapping[str, Json]
    record: NewRecord

    @property
    def is_hidden(self) -> bool:
        "From the person."
        return self.visibility.get("userVisible") is False


class GooseReader(SourceReader):
    def __init__(self, connection: sqlite3.Connection | None, files: dict[str, Path]) -> None:
        super().__init__()
        self._connection = connection
        self._files = files

    def scan(self) -> Iterator[SessionRef]:
        """A session that was taken into the database is no longer read from its file."""
        moved = set()
        for ref in self._scan_database():
            moved.add(ref.native_id)
            yield ref
        for name, path in self._files.items():
            if name not in moved:
                yield SessionRef(name, jsonl.plain_file_stamp(path), _modified_at(path))

    def _scan_database(self) -> Iterator[SessionRef]:
        if self._connection is None:
            return
        said: dict[object, str] = {}
        for number, session, *told in sqlite.scan_columns(self._connection, "messages", *_MESSAGE_COLUMNS):
            said[session] = sqlite.digest(said.get(session), number, *told)
        for row in sqlite.read_rows(self._connection, "sessions", self.problems):
            if isinstance(row["id"], str):
                content = sqlite.digest(*dict(row).values(), said.get(row["id"]))
                yield SessionRef(row["id"], content, sqlite.normalize_time(row["updated_at"]))
            else:
                self.problems.append(Problem("sessions", f"The session {row['id']!r} is not named by text."))
        self.problems += sqlite.find_orphan_rows(self._connection, "messages")

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        met: list[Problem] = []
        about, messages = self._find_session(ref.native_id, met)
        if about is None:
            return
        yield about
        fields = about.fields or {}
        telling = _GooseEntryReader(fields.get("model", ""), fields.get("created_at", ""))
        yield from sqlite.build_batches((telling.read_entries(*pair) for pair in _pair_with_next(messages)), met)
        if telling.summary:
            yield Batch(summary=telling.summary)

    def _find_session(self, name: str, met: list[Problem]) -> tuple[Batch | None, Iterable[_GooseMessage]]:
        if self._connection is not None:
            session = next(sqlite.read_rows(self._connection, "sessions", met, "where id = ?", name), None)
            if session is not None:
                rows = sqlite.read_rows(self._connection, "messages", met, _MESSAGES_IN_ORDER, name)
                return _build_header_batch(session), (_message_from_row(row, met) for row in rows)
        return _read_transcript(self._files[name], met) if name in self._files else (None, ())


def _modified_at(path: Path) -> str:
    try:
        return sqlite.normalize_time(path.stat().st_mtime)
    except OSError:
        return ""


def _pair_with_next(messages: Iterable[_GooseMessage]) -> Iterator[tuple[_GooseMessage, _GooseMessage | None]]:
    held: _GooseMessage | None = None
    for message in messages:
        if held is not None:
            yield held, message
        held = message
    if held is not None:
        yield held, None


def _build_header_batch(row: RowLike) -> Batch:
    columns = dict(row)
    title = sqlite.as_text(columns.get("name")) or sqlite.as_text(columns.get("description"))
    fields: SessionFields = {
        "agent_title": "" if _PLACEHOLDER_TITLE.fullmatch(title) else title,
        "cwd": sqlite.as_text(row["working_dir"]),
        "provider": sqlite.as_text(columns.get("provider_name")),
        "model": replace_surrogates(as_str(as_dict(_parse_json(columns.get("model_config_json"))).get("model_name"))),
        "channel": sqlite.as_text(columns.get("session_type")),
    }
    fields |= sqlite.time_fields(row["created_at"], row["updated_at"]) | _token_fields(columns)
    # What is counted, and what moves whenever Goose looks, is no content.
    moving = [name for name in columns if name.endswith("tokens") or name in ("updated_at", "extension_data")]
    record = sqlite.record_from_row(row, "sessions", row["id"], exclude=moving)
    archived = columns.get("session_type") in _INTERNAL_TYPES
    return Batch(header=NewEntry(kind="header", record=record), fields=fields, archived=archived)


def _token_fields(told: Mapping[str, Json]) -> SessionFields:
    """Of the whole session where Goose has added them up, else of the last call."""
    sums = [as_count(told.get(f"accumulated_{name}_tokens")) for name in ("input", "output", "total")]
    if not any(sums):
        sums = [as_count(told.get(f"{name}_tokens")) for name in ("input", "output", "total")]
    given, made, total = sums
    return {"tokens_input": given, "tokens_output": made, "tokens_total": max(total, given + made)}


def _message_from_row(row: RowLike, met: list[Problem]) -> _GooseMessage:
    """Everything but what was said is another when Goose writes a session's rows anew."""
    told = row["metadata_json"] if "metadata_json" in row.keys() else None  # noqa: SIM118 sqlite3.Row
    metadata = as_dict(_parse_json(told))
    lasting = {name: value for name, value in metadata.items() if name not in _VISIBILITY_KEYS}
    record = sqlite.record_from_row(
        row,
        "messages",
        row["id"],
        exclude=("id", "message_id", "timestamp", "tokens"),
        replacements={"metadata_json": encode_derived(lasting).decode() if lasting else None},
    )
    try:
        content = parse(sqlite.as_text(row["content_json"]))
    except BadValue as reason:
        met.append(Problem(f"messages:{row['id']}", f"The content cannot be read: {reason}"))
        content = sqlite.as_text(row["content_json"])
    at = sqlite.normalize_time(row["created_timestamp"])
    return _GooseMessage(sqlite.as_text(row["role"]), content, at, metadata, record)


def _parse_json(value: object) -> Json:
    try:
        return parse(value) if isinstance(value, str) else None
    except BadValue:
        return None


def _read_transcript(path: Path, met: list[Problem]) -> tuple[Batch | None, Iterable[_GooseMessage]]:
    """The first line tells of the session, every other is a message."""
    told = jsonl.read_json_lines(path, met, name=path.name)
    head = next(told, None)
    if head is None:
        return None, ()
    messages = (_message_from_line(line, path.name) for line in told)
    first = list(islice(messages, 1))
    about, modified = as_dict(head.value), _modified_at(path)
    fields: SessionFields = {
        "agent_title": replace_surrogates(as_str(about.get("description"))),
        "cwd": replace_surrogates(as_str(about.get("working_dir"))),
    }
    fields |= sqlite.time_fields(first[0].created_at if first else modified, modified) | _token_fields(about)
    header = NewEntry(kind="header", record=jsonl.record_from_line(head, path.name))
    return Batch(header=header, fields=fields), chain(first, messages)


def _message_from_line(line: jsonl.JsonLine, name: str) -> _GooseMessage:
    told = as_dict(line.value)
    return _GooseMessage(
        as_str(told.get("role")),
        told.get("content", line.value),
        jsonl.as_time(told.get("created")),
        as_dict(told.get("metadata")),
        jsonl.record_from_line(line, name),
    )


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


class _GooseEntryReader:
    """A session's messages in their order."""

    def __init__(self, model: str, made: str) -> None:
        self.summary: ForeignSummary | None = None
        self._model = model
        self._created_at = made
        self._turns = 0
        self._last_prompt = ""
        self._just_summarised = False
        "Whether nothing was asked since the last summary."

    def read_entries(self, message: _GooseMessage, following: _GooseMessage | None) -> list[NewEntry]:
        self._created_at = message.created_at or self._created_at
        entry = self._parse_entry(message, following)
        entry.record, entry.created_at = message.record, self._created_at
        if entry.role == "assistant":
            entry.model = self._model
        return [entry]

    def _parse_entry(self, message: _GooseMessage, following: _GooseMessage | None) -> NewEntry:
        parts = tuple(_parse_parts(message.content))
        if message.role not in ("user", "assistant"):
            return NewEntry(kind="unknown", parts=parts or (Opaque(message.role, message.content),))
        kinds = {as_str(as_dict(item).get("type")) for item in as_list(message.content)}
        if kinds and kinds <= {*_NOTICE_TYPES, *_QUESTION_TYPES}:
            said = "\n".join(as_str(as_dict(item).get("msg")) for item in as_list(message.content))
            return NewEntry(kind="event", role=message.role, parts=parts, text=said.strip())
        if message.is_hidden and (hidden := self._parse_hidden(message, following, parts)):
            return hidden
        if message.role == "assistant":
            return NewEntry(role="assistant", parts=parts)
        return self._parse_user(parts)

    def _parse_hidden(
        self, message: _GooseMessage, following: _GooseMessage | None, parts: tuple[Part, ...]
    ) -> NewEntry | None:
        """A summary is in the person's name, and Goose's word to itself to go on follows it.

        What was asked last is hidden too, from both, when it is asked once more: it is told in its own place.
        """
        if message.role == "assistant":
            return NewEntry(kind="event", role="assistant", parts=parts)
        word = following is not None and following.is_hidden and following.role == "assistant"
        if message.visibility.get("agentVisible") is False and not word:
            return None
        self._just_summarised = True
        said = _join_texts(parts)
        self.summary = ForeignSummary(replace_surrogates(said), self._turns) if said.strip() else self.summary
        return NewEntry(kind="compaction", role="system", parts=parts)

    def _parse_user(self, parts: tuple[Part, ...]) -> NewEntry:
        own = [part for part in parts if not isinstance(part, ToolResult)]
        if len(own) < len(parts) and not any(isinstance(part, Text) for part in own):
            return NewEntry(role="tool", parts=parts, is_prompt=False)
        said = _join_texts(parts)
        again, self._just_summarised = self._just_summarised and said == self._last_prompt, False
        if again:
            return NewEntry(kind="event", role="user", parts=parts)
        self._last_prompt = said
        self._turns += bool(own)
        return NewEntry(role="user", parts=parts, is_prompt=bool(own))


def _join_texts(parts: Iterable[Part]) -> str:
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))


def _parse_parts(content: Json) -> Iterator[Part]:
    if not isinstance(content, list):
        yield Opaque("content", content)
        return
    for item in content:
        yield from _parse_part(item)


def _parse_part(item: Json) -> Iterable[Part]:
    told = as_dict(item)
    kind = as_str(told.get("type"))
    if kind in ("text", "reasoning", "thinking"):
        said = told.get("thinking" if kind == "thinking" else "text")
        if isinstance(said, str):
            return (Text(said),) if kind == "text" else (Thinking(said, as_str(told.get("signature"))),)
    if kind == "redactedThinking":
        return (Thinking("", as_str(told.get("data"))),)
    if kind in ("toolRequest", "frontendToolRequest"):
        return (_parse_call(told),)
    if kind == "toolResponse":
        return _parse_result(told)
    if kind == "image":
        return (_parse_image(told),)
    return (Opaque(kind, item),)


def _parse_call(told: Mapping[str, Json]) -> ToolCall:
    """One that the model got wrong has no name, and says why."""
    asked = as_dict(told.get("toolCall"))
    value = as_dict(asked.get("value"))
    given = value.get("arguments") if value else asked.get("error")
    return ToolCall(as_str(told.get("id")), as_str(value.get("name")), given)


def _parse_result(told: Mapping[str, Json]) -> Iterable[Part]:
    """In Goose's early days the value was the content itself."""
    answer = as_dict(told.get("toolResult"))
    value = answer.get("value")
    failed = answer.get("status") == "error" or as_dict(value).get("isError") is True
    content = _filter_for_model(as_list(value if isinstance(value, list) else as_dict(value).get("content")))
    output = [_unwrap_text(item) for item in content if not _is_image(item)]
    whole = output[0] if len(output) == 1 else output or answer.get("error", "" if content else value)
    yield ToolResult(as_str(told.get("id")), whole, failed)
    yield from (_parse_image(as_dict(item)) for item in content if _is_image(item))


def _unwrap_text(item: Json) -> Json:
    text = as_dict(item).get("text")
    return text if as_dict(item).get("type") == "text" and isinstance(text, str) else item


def _is_image(item: Json) -> bool:
    return as_dict(item).get("type") == "image"


def _filter_for_model(content: list[Json]) -> list[Json]:
    """What is told twice, once for the person and once for the model."""
    meant = [as_list(as_dict(as_dict(item).get("annotations")).get("audience")) for item in content]
    return [
        item for item, audience in zip(content, meant, strict=True) if not audience or "assistant" in audience
    ] or content


def _parse_image(told: Mapping[str, Json]) -> Attachment:
    data = told.get("data")
    size = len(data) * 3 // 4 if isinstance(data, str) else None
    return Attachment(as_str(told.get("mimeType")) or "image", size=size)
