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
"""What of a session's row moves while nothing is said that its messages do not say."""

_CALL_SEPARATOR = "$$"
_TITLE_PREFIX = "title-"
_ROLES = ("user", "assistant", "system", "tool")
_NORMAL_FINISH_REASONS = ("", "stop", "end_turn", "tool_use", "unknown")


# ── the store ─────────────────────────────────────────────────────────────────────────────────────


class CrushReader(SourceReader):
    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__()
        self._connection = connection
        self._project_folder = find_project_folder(str(path))
        self._data_folder = str(path.parent)
        self._message_positions = cache(self._find_message_positions)

    def scan(self) -> Iterator[SessionRef]:
        said: dict[object, str] = {}
        unfinished: set[object] = set()
        for number, session, role, parts, at in sqlite.scan_columns(self._connection, "messages", *_MESSAGE_COLUMNS):
            said[session] = sqlite.digest(said.get(session), number, role, parts, at)
            if role == "assistant" and b'"finish"' not in (parts or b""):
                unfinished.add(session)
        for row in sqlite.read_rows(self._connection, "sessions", self.problems):
            if not isinstance(row["id"], str):
                self.problems.append(Problem("sessions", f"The session {row['id']!r} is not named by text."))
                continue
            moved = sqlite.normalize_time(row["updated_at"])
            held_back = row["id"] in unfinished and not sqlite.is_quiet(moved)
            told = [row[name] for name in row.keys() if name != "updated_at"]  # noqa: SIM118 sqlite3.Row
            content = sqlite.digest(*told, said.get(row["id"]), held_back, self._project_folder)
            yield SessionRef(row["id"], content, moved)
        self.problems += sqlite.find_orphan_rows(self._connection, "messages")

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        met: list[Problem] = []
        session = next(sqlite.read_rows(self._connection, "sessions", met, "where id = ?", ref.native_id), None)
        if session is None:
            return
        yield self._build_header_batch(session)
        telling = _CrushEntryReader(met, sqlite.normalize_time(session["created_at"]))
        quiet = sqlite.is_quiet(sqlite.normalize_time(session["updated_at"]))
        yield from sqlite.build_batches(self._read_messages(ref.native_id, telling, quiet), met)
        if telling.summary:
            yield Batch(summary=telling.summary)

    def _read_messages(self, session: str, telling: _CrushEntryReader, quiet: bool) -> Iterator[list[NewEntry]]:
        """An answer that is still being written is told when it is finished, or when something follows it."""
        held: list[NewEntry] = []
        for row in sqlite.read_rows(self._connection, "messages", telling.problems, _MESSAGES_IN_ORDER, session):
            if held:
                yield held
                held = []
            entries = telling.read_entries(row)
            if telling.is_finished or quiet:
                yield entries
            else:
                held = entries

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
        parent = sqlite.as_text(row["parent_session_id"])
        if parent:
            fields |= {
                "parent_id": parent,
                "relation": "sidechain" if row["id"].startswith(_TITLE_PREFIX) else "delegate",
            }
        message, _, _ = row["id"].partition(_CALL_SEPARATOR)
        if parent and message in self._message_positions(parent):
            fields["forked_at"] = self._message_positions(parent)[message]
        record = sqlite.record_from_row(row, "sessions", row["id"], exclude=_CHANGING_COLUMNS)
        return Batch(
            header=NewEntry(kind="header", record=record), fields=fields, archived=row["id"].startswith(_TITLE_PREFIX)
        )

    def _find_message_positions(self, session: str) -> dict[str, int]:
        """Where in the chain each message of a session stands, since a child is named for the one that called it."""
        telling, places, seq = _CrushEntryReader([], ""), {}, 0
        for row in sqlite.read_rows(self._connection, "messages", [], _MESSAGES_IN_ORDER, session):
            places[sqlite.as_text(row["id"])] = seq
            seq += len(telling.read_entries(row))
        return places


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


class _CrushEntryReader:
    """A session's messages in their order."""

    def __init__(self, problems: list[Problem], made: str) -> None:
        self.problems = problems
        self.summary: ForeignSummary | None = None
        self.is_finished = True
        "Whether the message told last will not change any more."
        self._session_created_at = made
        self._turns = 0

    def read_entries(self, row: RowLike) -> list[NewEntry]:
        record = sqlite.record_from_row(row, "messages", row["id"], exclude=("updated_at", "finished_at"))
        told = self._parse_content(row)
        self.is_finished = row["role"] != "assistant" or any(kind == "finish" for kind, _ in told)
        spoken = self._parse_message(row, told)
        self._turns += spoken.begins_turn()
        entries = [spoken, *_parse_failure(row, told)]
        if len(entries) > 1 and not spoken.parts:
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

    def _parse_message(self, row: RowLike, told: list[tuple[str, Json]]) -> NewEntry:
        role = sqlite.as_text(row["role"])
        parts = tuple(
            part for place, (kind, data) in enumerate(told) for part in _parse_parts(kind, data, f"{row['id']}:{place}")
        )
        if role not in _ROLES:
            return NewEntry(kind="unknown", parts=parts)
        if "is_summary_message" in row.keys() and row["is_summary_message"] == 1:  # noqa: SIM118 sqlite3.Row
            said = "\n\n".join(part.text for part in parts if isinstance(part, Text))
            self.summary = ForeignSummary(said, self._turns) if said.strip() else self.summary
            return NewEntry(kind="compaction", role="system", parts=parts)
        if role != "user":
            return NewEntry(role=role, parts=parts)
        hidden = any(as_dict(data).get("hidden") is True for kind, data in told if kind == "text")
        commands = [f"$ {part.arguments['command']}" for part in parts if isinstance(part, ToolCall)]
        said = "\n\n".join([part.text for part in parts if isinstance(part, Text)] + commands)
        return NewEntry(role="user", parts=parts, is_prompt=False if hidden else None, text="" if hidden else said)


def _parse_parts(kind: str, data: Json, place: str) -> Iterable[Part]:
    told = as_dict(data)
    if kind == "finish":
        return ()
    if kind == "text" and isinstance(told.get("text"), str):
        return (Text(told["text"]),)
    if kind == "reasoning" and isinstance(told.get("thinking"), str):
        signature = as_str(told.get("signature")) or as_str(told.get("thought_signature"))
        return (Thinking(told["thinking"], signature),)
    if kind == "tool_call" and isinstance(told.get("name"), str):
        return (ToolCall(as_str(told.get("id")), told["name"], _parse_json_string(told.get("input"))),)
    if kind == "tool_result":
        return _parse_result(told)
    if kind == "shell_command" and isinstance(told.get("command"), str):
        failed = told.get("exit_code") not in (0, None)
        return ToolCall(place, "shell", {"command": told["command"]}), ToolResult(place, told.get("output"), failed)
    if kind == "image_url" and isinstance(told.get("url"), str):
        return (_parse_image_url(told["url"]),)
    if kind == "binary" and isinstance(told.get("MIMEType"), str):
        return (Attachment(told["MIMEType"], as_str(told.get("Path")), _base64_size(told.get("Data"))),)
    return (Opaque(kind, data),)


def _parse_result(told: Mapping[str, Json]) -> Iterable[Part]:
    """A command that failed is flagged by its exit code alone."""
    failed = told.get("is_error") is True or as_dict(_parse_json_string(told.get("metadata"))).get("exit_code") not in (
        0,
        None,
    )
    yield ToolResult(as_str(told.get("tool_call_id")), told.get("content"), failed, as_str(told.get("name")))
    if told.get("data"):
        yield Attachment(as_str(told.get("mime_type")), size=_base64_size(told["data"]))


def _parse_image_url(url: str) -> Attachment:
    if not url.startswith("data:"):
        return Attachment("image", uri=url)
    head, _, data = url.partition(",")
    return Attachment(head.removeprefix("data:").partition(";")[0] or "image", size=_base64_size(data))


def _base64_size(data: Json) -> int | None:
    """Of what stands in base64."""
    return len(data) * 3 // 4 if isinstance(data, str) else None


def _parse_json_string(value: Json) -> Json:
    """JSON in a string; a model may have been stopped in the middle of it, and then the string stays."""
    try:
        return parse(value) if isinstance(value, str) else value
    except BadValue:
        return value


def _parse_failure(row: RowLike, told: list[tuple[str, Json]]) -> Iterable[NewEntry]:
    """Why an answer ended before its end."""
    for kind, data in told:
        finish = as_dict(data)
        if kind == "finish" and (finish.get("reason") not in _NORMAL_FINISH_REASONS or finish.get("message")):
            said = [as_str(finish.get(name)) for name in ("reason", "message", "details")]
            yield NewEntry(
                kind="event", role="assistant", text=": ".join(filter(None, said)), parts=(Opaque(kind, data),)
            )
