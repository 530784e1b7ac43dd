"""This module reads Crush databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from store.errors import BadValue
from store.model.entry import Attachment, Json, NewEntry, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.model.session import SessionFields
from store.sources.contract import Batch, ForeignSummary, Problem, SessionRef, SourceReader
from store.sources.crush.files import find_project_folder
from store.sources.kit import sqlite
from store.sources.kit.jsonl import as_count, as_dict, as_str, cost_fields
from store.sources.kit.sqlite import RowLike
from store.text.validate import parse

PLACEHOLDER_TITLE = "Untitled Session"

_MESSAGE_COLUMNS = ("session_id", "role", "cast(parts as blob)", "created_at")
_MESSAGES_IN_ORDER = "where session_id = ? order by created_at, rowid"
_CHANGING_COLUMNS = ("message_count", "prompt_tokens", "completion_tokens", "cost", "updated_at")
"""These columns of a session only follow its messages, so they are left out of the record."""

_CALL_SEPARATOR = "$$"
_TITLE_PREFIX = "title-"
_ROLES = ("user", "assistant", "system", "tool")
_NORMAL_FINISH_REASONS = ("", "stop", "end_turn", "tool_use", "unknown")


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


class CrushReader(SourceReader):
    """Reads the sessions of a Crush database."""

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__()
        self._connection = connection
        self._project_folder = find_project_folder(str(path))
        self._data_folder = str(path.parent)
        self._message_positions = cache(self._find_message_positions)

    def scan(self) -> Iterator[SessionRef]:
        digests: dict[object, str] = {}
        unfinished: set[object] = set()
        for rowid, session, role, parts, created_at in sqlite.scan_columns(
            self._connection, "messages", *_MESSAGE_COLUMNS
        ):
            digests[session] = sqlite.digest(digests.get(session), rowid, role, parts, created_at)
            if role == "assistant" and b'"finish"' not in (parts or b""):
                unfinished.add(session)
        for row in sqlite.read_rows(self._connection, "sessions", self.problems):
            if not isinstance(row["id"], str):
                self.problems.append(Problem("sessions", f"The id of session {row['id']!r} is not text."))
                continue
            updated_at = sqlite.normalize_time(row["updated_at"])
            is_unfinished = row["id"] in unfinished and not sqlite.is_quiet(updated_at)
            values = [row[name] for name in row.keys() if name != "updated_at"]  # noqa: SIM118 sqlite3.Row
            stamp = sqlite.digest(*values, digests.get(row["id"]), is_unfinished, self._project_folder)
            yield SessionRef(row["id"], stamp, updated_at)
        self.problems += sqlite.find_orphan_rows(self._connection, "messages")

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        problems: list[Problem] = []
        session = next(sqlite.read_rows(self._connection, "sessions", problems, "where id = ?", ref.native_id), None)
        if session is None:
            return
        yield self._build_header_batch(session)
        entry_reader = _CrushEntryReader(problems, sqlite.normalize_time(session["created_at"]))
        is_quiet = sqlite.is_quiet(sqlite.normalize_time(session["updated_at"]))
        yield from sqlite.build_batches(self._read_messages(ref.native_id, entry_reader, is_quiet), problems)
        if entry_reader.summary:
            yield Batch(summary=entry_reader.summary)

    def _read_messages(
        self, session_id: str, entry_reader: _CrushEntryReader, is_quiet: bool
    ) -> Iterator[list[NewEntry]]:
        """Yield the entries of each message. An unfinished answer waits until a message follows or time passes."""
        unfinished: list[NewEntry] = []
        for row in sqlite.read_rows(
            self._connection, "messages", entry_reader.problems, _MESSAGES_IN_ORDER, session_id
        ):
            if unfinished:
                yield unfinished
                unfinished = []
            entries = entry_reader.read_entries(row)
            if entry_reader.is_finished or is_quiet:
                yield entries
            else:
                unfinished = entries

    def _build_header_batch(self, row: RowLike) -> Batch:
        title = sqlite.as_text(row["title"])
        fields: SessionFields = {
            "agent_title": "" if title == PLACEHOLDER_TITLE else title,
            "cwd": self._project_folder,
            "environment_path": self._data_folder,
            "tokens_input": as_count(row["prompt_tokens"]),
            "tokens_output": as_count(row["completion_tokens"]),
            "tokens_total": as_count(row["prompt_tokens"]) + as_count(row["completion_tokens"]),
        }
        fields |= sqlite.time_fields(row["created_at"], row["updated_at"]) | cost_fields(dict(row).get("cost"))
        parent_id = sqlite.as_text(row["parent_session_id"])
        if parent_id:
            fields |= {
                "parent_id": parent_id,
                "relation": "sidechain" if row["id"].startswith(_TITLE_PREFIX) else "delegate",
            }
        message_id, _, _ = row["id"].partition(_CALL_SEPARATOR)
        if parent_id and message_id in self._message_positions(parent_id):
            fields["forked_at"] = self._message_positions(parent_id)[message_id]
        record = sqlite.record_from_row(row, "sessions", row["id"], exclude=_CHANGING_COLUMNS)
        return Batch(
            header=NewEntry(kind="header", record=record), fields=fields, archived=row["id"].startswith(_TITLE_PREFIX)
        )

    def _find_message_positions(self, session_id: str) -> dict[str, int]:
        """Return the position of each message in the chain of a session. A sub-agent is named after one of them."""
        entry_reader, positions, seq = _CrushEntryReader([], ""), {}, 0
        for row in sqlite.read_rows(self._connection, "messages", [], _MESSAGES_IN_ORDER, session_id):
            positions[sqlite.as_text(row["id"])] = seq
            seq += len(entry_reader.read_entries(row))
        return positions


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


class _CrushEntryReader:
    """Turns the messages of one session into entries, in order."""

    def __init__(self, problems: list[Problem], session_created_at: str) -> None:
        self.problems = problems
        self.summary: ForeignSummary | None = None
        self.is_finished = True
        "Says whether the last message is complete and will not change any more."
        self._session_created_at = session_created_at
        self._turns = 0

    def read_entries(self, row: RowLike) -> list[NewEntry]:
        record = sqlite.record_from_row(row, "messages", row["id"], exclude=("updated_at", "finished_at"))
        contents = self._parse_content(row)
        self.is_finished = row["role"] != "assistant" or any(kind == "finish" for kind, _ in contents)
        message = self._parse_message(row, contents)
        self._turns += message.begins_turn()
        entries = [message, *_parse_failure(row, contents)]
        if len(entries) > 1 and not message.parts:
            del entries[0]
        for entry in entries:
            entry.record, entry.message_key = record, sqlite.as_text(row["id"])
            entry.created_at = sqlite.normalize_time(row["created_at"]) or self._session_created_at
            entry.model = sqlite.as_text(row["model"]) if entry.role == "assistant" else ""
        return entries

    def _parse_content(self, row: RowLike) -> list[tuple[str, Json]]:
        try:
            parts = parse(sqlite.as_text(row["parts"]))
            if not isinstance(parts, list):
                raise BadValue("It is not a list.")
        except BadValue as reason:
            self.problems.append(Problem(f"messages:{row['id']}", f"The parts cannot be read: {reason}"))
            return [("parts", sqlite.as_text(row["parts"]))]
        return [(as_str(as_dict(part).get("type")), as_dict(part).get("data", part)) for part in parts]

    def _parse_message(self, row: RowLike, contents: list[tuple[str, Json]]) -> NewEntry:
        role = sqlite.as_text(row["role"])
        parts = tuple(
            part
            for index, (kind, data) in enumerate(contents)
            for part in _parse_parts(kind, data, f"{row['id']}:{index}")
        )
        if role not in _ROLES:
            return NewEntry(kind="unknown", parts=parts)
        if "is_summary_message" in row.keys() and row["is_summary_message"] == 1:  # noqa: SIM118 sqlite3.Row
            text = "\n\n".join(part.text for part in parts if isinstance(part, Text))
            self.summary = ForeignSummary(text, self._turns) if text.strip() else self.summary
            return NewEntry(kind="compaction", role="system", parts=parts)
        if role != "user":
            return NewEntry(role=role, parts=parts)
        is_hidden = any(as_dict(data).get("hidden") is True for kind, data in contents if kind == "text")
        commands = [f"$ {part.arguments['command']}" for part in parts if isinstance(part, ToolCall)]
        text = "\n\n".join([part.text for part in parts if isinstance(part, Text)] + commands)
        return NewEntry(
            role="user", parts=parts, is_prompt=False if is_hidden else None, text="" if is_hidden else text
        )


def _parse_parts(kind: str, data: Json, call_id: str) -> Iterable[Part]:
    fields = as_dict(data)
    if kind == "finish":
        return ()
    if kind == "text" and isinstance(fields.get("text"), str):
        return (Text(fields["text"]),)
    if kind == "reasoning" and isinstance(fields.get("thinking"), str):
        signature = as_str(fields.get("signature")) or as_str(fields.get("thought_signature"))
        return (Thinking(fields["thinking"], signature),)
    if kind == "tool_call" and isinstance(fields.get("name"), str):
        return (ToolCall(as_str(fields.get("id")), fields["name"], _parse_json_string(fields.get("input"))),)
    if kind == "tool_result":
        return _parse_result(fields)
    if kind == "shell_command" and isinstance(fields.get("command"), str):
        failed = fields.get("exit_code") not in (0, None)
        return ToolCall(call_id, "shell", {"command": fields["command"]}), ToolResult(
            call_id, fields.get("output"), failed
        )
    if kind == "image_url" and isinstance(fields.get("url"), str):
        return (_parse_image_url(fields["url"]),)
    if kind == "binary" and isinstance(fields.get("MIMEType"), str):
        return (Attachment(fields["MIMEType"], as_str(fields.get("Path")), _base64_size(fields.get("Data"))),)
    return (Opaque(kind, data),)


def _parse_result(fields: Mapping[str, Json]) -> Iterable[Part]:
    """Yield a tool result and its attachment. A failed command is marked only by its exit code."""
    failed = fields.get("is_error") is True or as_dict(_parse_json_string(fields.get("metadata"))).get(
        "exit_code"
    ) not in (
        0,
        None,
    )
    yield ToolResult(as_str(fields.get("tool_call_id")), fields.get("content"), failed, as_str(fields.get("name")))
    if fields.get("data"):
        yield Attachment(as_str(fields.get("mime_type")), size=_base64_size(fields["data"]))


def _parse_image_url(url: str) -> Attachment:
    if not url.startswith("data:"):
        return Attachment("image", uri=url)
    head, _, data = url.partition(",")
    return Attachment(head.removeprefix("data:").partition(";")[0] or "image", size=_base64_size(data))


def _base64_size(data: Json) -> int | None:
    """Return the size of base64 data after decoding."""
    return len(data) * 3 // 4 if isinstance(data, str) else None


def _parse_json_string(value: Json) -> Json:
    """Parse JSON in a string. If the model was stopped in the middle of it, the string is returned."""
    try:
        return parse(value) if isinstance(value, str) else value
    except BadValue:
        return value


def _parse_failure(row: RowLike, contents: list[tuple[str, Json]]) -> Iterable[NewEntry]:
    """Yield an event that says why an answer ended early."""
    for kind, data in contents:
        finish = as_dict(data)
        if kind == "finish" and (finish.get("reason") not in _NORMAL_FINISH_REASONS or finish.get("message")):
            reasons = [as_str(finish.get(name)) for name in ("reason", "message", "details")]
            yield NewEntry(
                kind="event", role="assistant", text=": ".join(filter(None, reasons)), parts=(Opaque(kind, data),)
            )
