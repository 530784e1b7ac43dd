"""This module reads Goose's database and its older files."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

from store.errors import BadValue
from store.model.entry import Attachment, Json, NewEntry, NewRecord, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.model.session import SessionFields
from store.sources.contract import Batch, ForeignSummary, Problem, SessionRef, SourceReader
from store.sources.kit import jsonl, sqlite
from store.sources.kit.continuation import CarriedState, Continuation
from store.sources.kit.jsonl import FileMark, as_count, as_dict, as_list, as_str
from store.sources.kit.sqlite import RowLike
from store.text.validate import encode_derived, parse, replace_surrogates

_MESSAGE_COLUMNS = ("session_id", "role", "created_timestamp", "cast(content_json as blob)")
_SMALLEST_MILLISECONDS = 100_000_000_000
# Some clients write milliseconds instead of seconds.
_MESSAGES_IN_ORDER = f"""
    where session_id = ? order by
    case when created_timestamp > {_SMALLEST_MILLISECONDS} then created_timestamp / 1000 else created_timestamp end, id
"""
_PLACEHOLDER_TITLE = re.compile(r"(?:CLI Session|New session(?: \d+)?)\s*", re.IGNORECASE)
_INTERNAL_TYPES = ("sub_agent", "hidden")
"""Sessions of these types are started by Goose itself and not shown."""

_VISIBILITY_KEYS = ("userVisible", "agentVisible")
_NOTICE_TYPES = ("systemNotification", "contextLengthExceeded", "summarizationRequested")
_QUESTION_TYPES = ("toolConfirmationRequest", "actionRequired")


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


class _GooseMessage(NamedTuple):
    """Holds a message from the database or from a file."""

    role: str
    content: Json
    created_at: str
    visibility: Mapping[str, Json]
    record: NewRecord

    @property
    def is_hidden(self) -> bool:
        """Says whether it is hidden from the person."""
        return self.visibility.get("userVisible") is False


class GooseReader(SourceReader):
    """Reads the sessions of the database and of the older files."""

    def __init__(self, connection: sqlite3.Connection | None, files: dict[str, Path]) -> None:
        super().__init__()
        self._connection = connection
        self._files = files

    def scan(self) -> Iterator[SessionRef]:
        """Yield every session. A session that Goose imported into the database is not read from its file."""
        for ref in self._scan_database():
            self._files.pop(ref.native_id, None)
            yield ref
        for native_id, path in self._files.items():
            yield SessionRef(native_id, jsonl.plain_file_stamp(path), jsonl.modified_at(path))

    def scan_files(self) -> Iterator[SessionRef]:
        return self.scan()

    def _scan_database(self) -> Iterator[SessionRef]:
        if self._connection is None:
            return
        digests: dict[object, str] = {}
        for rowid, session, *values in sqlite.scan_columns(self._connection, "messages", *_MESSAGE_COLUMNS):
            digests[session] = sqlite.digest(digests.get(session), rowid, *values)
        for row in sqlite.read_rows(self._connection, "sessions", self.problems):
            if isinstance(row["id"], str):
                stamp = sqlite.digest(*dict(row).values(), digests.get(row["id"]))
                yield SessionRef(row["id"], stamp, sqlite.normalize_time(row["updated_at"]))
            else:
                self.problems.append(Problem("sessions", f"The id of session {row['id']!r} is not text."))
        self.problems += sqlite.find_orphan_rows(self._connection, "messages")

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        problems: list[Problem] = []
        rows = self._find_rows(ref.native_id, problems)
        transcript = None if rows else _Transcript(self._files[ref.native_id]) if ref.native_id in self._files else None
        header_batch, messages = rows or (transcript.read(problems) if transcript else (None, ()))
        if header_batch is None:
            return
        yield header_batch
        fields = header_batch.fields or {}
        entry_reader = _GooseEntryReader(fields.get("model", ""), fields.get("created_at", ""))
        yield from sqlite.build_batches(entry_reader.read_all(messages), problems)
        yield Batch(summary=entry_reader.summary, mark=transcript.mark_end(entry_reader) if transcript else "")

    def read_appended(self, ref: SessionRef, mark: str) -> list[Batch] | None:
        path = self._files.get(ref.native_id)
        return _TranscriptEnd(path, _GooseEntryReader("", "")).read_appended(path, mark) if path else None

    def _find_rows(self, native_id: str, problems: list[Problem]) -> tuple[Batch, Iterable[_GooseMessage]] | None:
        if self._connection is None:
            return None
        session = next(sqlite.read_rows(self._connection, "sessions", problems, "where id = ?", native_id), None)
        if session is None:
            return None
        rows = sqlite.read_rows(self._connection, "messages", problems, _MESSAGES_IN_ORDER, native_id)
        return _build_header_batch(session), (_message_from_row(row, problems) for row in rows)


def _pair_with_next(messages: Iterable[_GooseMessage]) -> Iterator[tuple[_GooseMessage, _GooseMessage | None]]:
    previous: _GooseMessage | None = None
    for message in messages:
        if previous is not None:
            yield previous, message
        previous = message
    if previous is not None:
        yield previous, None


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
    # Counts, and columns that change whenever Goose opens the session, are not content.
    changing = [name for name in columns if name.endswith("tokens") or name in ("updated_at", "extension_data")]
    record = sqlite.record_from_row(row, "sessions", row["id"], exclude=changing)
    archived = columns.get("session_type") in _INTERNAL_TYPES
    return Batch(header=NewEntry(kind="header", record=record), fields=fields, archived=archived)


def _token_fields(columns: Mapping[str, Json]) -> SessionFields:
    """Return the tokens of the whole session, if Goose added them up, otherwise those of the last call."""
    counts = [as_count(columns.get(f"accumulated_{name}_tokens")) for name in ("input", "output", "total")]
    if not any(counts):
        counts = [as_count(columns.get(f"{name}_tokens")) for name in ("input", "output", "total")]
    input_tokens, output_tokens, total = counts
    return {
        "tokens_input": input_tokens,
        "tokens_output": output_tokens,
        "tokens_total": max(total, input_tokens + output_tokens),
    }


def _message_from_row(row: RowLike, problems: list[Problem]) -> _GooseMessage:
    """Parse a row. The record leaves out the columns that change when Goose rewrites the rows of a session."""
    metadata_json = row["metadata_json"] if "metadata_json" in row.keys() else None  # noqa: SIM118 sqlite3.Row
    metadata = as_dict(_parse_json(metadata_json))
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
        problems.append(Problem(f"messages:{row['id']}", f"The content cannot be read: {reason}"))
        content = sqlite.as_text(row["content_json"])
    created_at = sqlite.normalize_time(row["created_timestamp"])
    return _GooseMessage(sqlite.as_text(row["role"]), content, created_at, metadata, record)


def _parse_json(value: object) -> Json:
    try:
        return parse(value) if isinstance(value, str) else None
    except BadValue:
        return None


class _Transcript:
    """Reads a file whose first line describes the session. Every other line is a message."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp = jsonl.plain_file_stamp(path)
        self._end = 0

    def read(self, problems: list[Problem]) -> tuple[Batch | None, Iterable[_GooseMessage]]:
        header_line = next(jsonl.read_json_lines(self._path, []), None)
        if header_line is None:
            return None, ()
        messages = self._read_messages(header_line.offset, problems)
        first = list(islice(messages, 1))
        header, modified_at = as_dict(header_line.value), jsonl.modified_at(self._path)
        fields: SessionFields = {
            "agent_title": replace_surrogates(as_str(header.get("description"))),
            "cwd": replace_surrogates(as_str(header.get("working_dir"))),
        }
        fields |= sqlite.time_fields(first[0].created_at if first else modified_at, modified_at) | _token_fields(header)
        entry = NewEntry(kind="header", record=jsonl.record_from_line(header_line, self._path.name))
        return Batch(header=entry, fields=fields), chain(first, messages)

    def _read_messages(self, header_offset: int, problems: list[Problem]) -> Iterator[_GooseMessage]:
        for line in jsonl.read_lines(self._path, problems, name=self._path.name):
            if line.offset != header_offset:
                self._end = line.offset + len(line.data)
                yield _message_from_line(line, self._path.name)

    def mark_end(self, entry_reader: _GooseEntryReader) -> str:
        """Return a mark for the end of the file, after all messages were read."""
        file = FileMark.from_file(self._path, self._end, self._stamp)
        return _TranscriptEnd(self._path, entry_reader).build_mark(file)


class _TranscriptEnd(Continuation):
    """Continues a session in an older file. Goose writes the whole file again when the first line changes."""

    def __init__(self, path: Path, entry_reader: _GooseEntryReader) -> None:
        self._path = path
        self._entry_reader = entry_reader

    @property
    def can_continue(self) -> bool:
        return self._entry_reader.can_continue

    def save_state(self) -> dict[str, Json]:
        return self._entry_reader.save_state()

    def restore_state(self, state: Mapping[str, Any]) -> None:
        self._entry_reader.restore_state(state)

    def read_appended_lines(self, lines: Sequence[jsonl.JsonLine]) -> list[NewEntry]:
        messages = [_message_from_line(line, self._path.name) for line in lines]
        entries = [entry for (entry,) in self._entry_reader.read_all(messages)]
        self.summary = self._entry_reader.summary
        return entries

    def appended_fields(self) -> SessionFields:
        return {"updated_at": jsonl.modified_at(self._path)}


def _message_from_line(line: jsonl.JsonLine, name: str) -> _GooseMessage:
    record = as_dict(line.value)
    return _GooseMessage(
        as_str(record.get("role")),
        record.get("content", line.value),
        jsonl.as_time(record.get("created")),
        as_dict(record.get("metadata")),
        jsonl.record_from_line(line, name),
    )


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


class _GooseEntryReader(CarriedState):
    """Turns the messages of one session into entries, in order."""

    carried = ("can_continue", "model", "created_at", "turns", "last_prompt", "just_summarised")

    def __init__(self, model: str, created_at: str) -> None:
        self.summary: ForeignSummary | None = None
        self.can_continue = False
        "Is true when the meaning of the last message does not depend on the one that follows."
        self.model = model
        self.created_at = created_at
        self.turns = 0
        self.last_prompt = ""
        "Is a digest of the text."
        self.just_summarised = False
        "Says that there was no prompt since the last summary."

    def read_all(self, messages: Iterable[_GooseMessage]) -> Iterator[list[NewEntry]]:
        for message, following in _pair_with_next(messages):
            self.created_at = message.created_at or self.created_at
            entry = self._parse_entry(message, following)
            entry.record, entry.created_at = message.record, self.created_at
            if entry.role == "assistant":
                entry.model = self.model
            self.can_continue = not message.is_hidden
            yield [entry]

    def _parse_entry(self, message: _GooseMessage, following: _GooseMessage | None) -> NewEntry:
        parts = tuple(_parse_parts(message.content))
        if message.role not in ("user", "assistant"):
            return NewEntry(kind="unknown", parts=parts or (Opaque(message.role, message.content),))
        kinds = {as_str(as_dict(item).get("type")) for item in as_list(message.content)}
        if kinds and kinds <= {*_NOTICE_TYPES, *_QUESTION_TYPES}:
            text = "\n".join(as_str(as_dict(item).get("msg")) for item in as_list(message.content))
            return NewEntry(kind="event", role=message.role, parts=parts, text=text.strip())
        if message.is_hidden and (hidden_entry := self._parse_hidden(message, following, parts)):
            return hidden_entry
        if message.role == "assistant":
            return NewEntry(role="assistant", parts=parts)
        return self._parse_user(parts)

    def _parse_hidden(
        self, message: _GooseMessage, following: _GooseMessage | None, parts: tuple[Part, ...]
    ) -> NewEntry | None:
        """Return the entry of a message that is hidden from the person; None when it is an ordinary prompt.

        A summary is written in the name of the person, and Goose's instruction to continue follows it. The last prompt
        is hidden too, from person and model, when it is repeated after the summary. It stays a prompt where it is.
        """
        if message.role == "assistant":
            return NewEntry(kind="event", role="assistant", parts=parts)
        has_instruction = following is not None and following.is_hidden and following.role == "assistant"
        if message.visibility.get("agentVisible") is False and not has_instruction:
            return None
        self.just_summarised = True
        text = _join_texts(parts)
        self.summary = ForeignSummary(replace_surrogates(text), self.turns) if text.strip() else self.summary
        return NewEntry(kind="compaction", role="system", parts=parts)

    def _parse_user(self, parts: tuple[Part, ...]) -> NewEntry:
        own_parts = [part for part in parts if not isinstance(part, ToolResult)]
        if len(own_parts) < len(parts) and not any(isinstance(part, Text) for part in own_parts):
            return NewEntry(role="tool", parts=parts, is_prompt=False)
        text = _join_texts(parts)
        prompt = sqlite.digest(text)
        is_repeated, self.just_summarised = self.just_summarised and prompt == self.last_prompt, False
        if is_repeated:
            return NewEntry(kind="event", role="user", parts=parts)
        self.last_prompt = prompt
        self.turns += bool(own_parts)
        return NewEntry(role="user", parts=parts, is_prompt=bool(own_parts))


def _join_texts(parts: Iterable[Part]) -> str:
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))


def _parse_parts(content: Json) -> Iterator[Part]:
    if not isinstance(content, list):
        yield Opaque("content", content)
        return
    for item in content:
        yield from _parse_part(item)


def _parse_part(item: Json) -> Iterable[Part]:
    fields = as_dict(item)
    kind = as_str(fields.get("type"))
    if kind in ("text", "reasoning", "thinking"):
        text = fields.get("thinking" if kind == "thinking" else "text")
        if isinstance(text, str):
            return (Text(text),) if kind == "text" else (Thinking(text, as_str(fields.get("signature"))),)
    if kind == "redactedThinking":
        return (Thinking("", as_str(fields.get("data"))),)
    if kind in ("toolRequest", "frontendToolRequest"):
        return (_parse_call(fields),)
    if kind == "toolResponse":
        return _parse_result(fields)
    if kind == "image":
        return (_parse_image(fields),)
    return (Opaque(kind, item),)


def _parse_call(fields: Mapping[str, Json]) -> ToolCall:
    """Parse a tool call. An invalid call of the model has no name, and its error becomes the arguments."""
    call = as_dict(fields.get("toolCall"))
    value = as_dict(call.get("value"))
    arguments = value.get("arguments") if value else call.get("error")
    return ToolCall(as_str(fields.get("id")), as_str(value.get("name")), arguments)


def _parse_result(fields: Mapping[str, Json]) -> Iterable[Part]:
    """Yield a tool result and its images. In early versions of Goose the value was the content itself."""
    result = as_dict(fields.get("toolResult"))
    value = result.get("value")
    failed = result.get("status") == "error" or as_dict(value).get("isError") is True
    content = _filter_for_model(as_list(value if isinstance(value, list) else as_dict(value).get("content")))
    output = [_unwrap_text(item) for item in content if not _is_image(item)]
    combined = output[0] if len(output) == 1 else output or result.get("error", "" if content else value)
    yield ToolResult(as_str(fields.get("id")), combined, failed)
    yield from (_parse_image(as_dict(item)) for item in content if _is_image(item))


def _unwrap_text(item: Json) -> Json:
    text = as_dict(item).get("text")
    return text if as_dict(item).get("type") == "text" and isinstance(text, str) else item


def _is_image(item: Json) -> bool:
    return as_dict(item).get("type") == "image"


def _filter_for_model(content: list[Json]) -> list[Json]:
    """Return the content for the model. Tools may return the same content twice, for the person and for the model."""
    audiences = [as_list(as_dict(as_dict(item).get("annotations")).get("audience")) for item in content]
    return [
        item for item, audience in zip(content, audiences, strict=True) if not audience or "assistant" in audience
    ] or content


def _parse_image(fields: Mapping[str, Json]) -> Attachment:
    data = fields.get("data")
    size = len(data) * 3 // 4 if isinstance(data, str) else None
    return Attachment(as_str(fields.get("mimeType")) or "image", size=size)
