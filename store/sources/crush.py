"""Crush: one SQLite file per project. A message is a JSON list of parts, rewritten in place while the model speaks."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from store.errors import BadValue
from store.model.entry import Attachment, Json, NewEntry, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.model.session import Session, SessionFields
from store.sources.contract import Batch, Continuing, ForeignSummary, Problem, Ref
from store.sources.kit import homes, sqlite
from store.sources.kit.jsonl import cost, count, mapping, words
from store.sources.kit.sqlite import Row
from store.sources.kit.transcripts import Transcripts
from store.text.validate import parse

NAME = "crush"
LABEL = "Crush"
READER = 1
LOCAL_IDS = True

UNTITLED = "Untitled Session"

_MESSAGE = ("session_id", "role", "cast(parts as blob)", "created_at")
_SIGNATURE = {
    "sessions": "id parent_session_id title prompt_tokens completion_tokens created_at updated_at".split(),
    "messages": "id session_id role parts model created_at updated_at".split(),
}
_IN_ORDER = "where session_id = ? order by created_at, rowid"
_MOVING = ("message_count", "prompt_tokens", "completion_tokens", "cost", "updated_at")
"""What of a session's row moves while nothing is said that its messages do not say."""

_NAMED_FOR_CALL = "$$"
_TITLE = "title-"
_ROLES = ("user", "assistant", "system", "tool")
_WENT_WELL = ("", "stop", "end_turn", "tool_use", "unknown")


# ── where ─────────────────────────────────────────────────────────────────────────────────────────

roots = homes.crush


def _folder_of(locator: str) -> str:
    """The project's. A folder inside it may have been given the same data; then the outermost is meant."""
    data = Path(locator).parent
    known = [
        str(project.path)
        for project in homes.crush_projects()
        if os.path.realpath(project.data) == os.path.realpath(data)
    ]
    if known:
        return min(known, key=len)
    return str(data.parent) if data.name == ".crush" else ""


def detect(locator: str) -> bool:
    return sqlite.looks_like(locator, _SIGNATURE)


def stamp(locator: str) -> str:
    return sqlite.resting_stamp(Path(locator))


@contextmanager
def open(locator: str) -> Iterator[Crush]:  # noqa: A001 the shape's own word
    with sqlite.snapshot(Path(locator)) as connection:
        yield Crush(connection, Path(locator))


def resume(session: Session) -> Continuing:
    if session.relation:
        return Continuing(None, hint="Crush itself started this conversation; go on with the one that it belongs to.")
    data = session.environment_path
    elsewhere = data and session.cwd and Path(data) != Path(session.cwd) / ".crush"
    where = ("--data-dir", data) if elsewhere else ()
    argv = ("crush", *where, "--session", session.native_id)
    return Continuing(argv, session.cwd, skipping=("--yolo",), install="npm install -g @charmland/crush")


# ── the store ─────────────────────────────────────────────────────────────────────────────────────


class Crush(Transcripts):
    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        super().__init__()
        self._connection = connection
        self._folder = _folder_of(str(path))
        self._data = str(path.parent)
        self._places = cache(self._find_places)

    def scan(self) -> Iterator[Ref]:
        said: dict[object, str] = {}
        unfinished: set[object] = set()
        for number, session, role, parts, at in sqlite.sweep(self._connection, "messages", *_MESSAGE):
            said[session] = sqlite.digest(said.get(session), number, role, parts, at)
            if role == "assistant" and b'"finish"' not in (parts or b""):
                unfinished.add(session)
        for row in sqlite.rows(self._connection, "sessions", self.problems):
            if not isinstance(row["id"], str):
                self.problems.append(Problem("sessions", f"The session {row['id']!r} is not named by text."))
                continue
            moved = sqlite.utc(row["updated_at"])
            held_back = row["id"] in unfinished and not sqlite.is_quiet(moved)
            told = [row[name] for name in row.keys() if name != "updated_at"]  # noqa: SIM118 sqlite3.Row
            content = sqlite.digest(*told, said.get(row["id"]), held_back, self._folder)
            yield Ref(row["id"], content, moved)
        self.problems += sqlite.strays(self._connection, "messages")

    def read(self, ref: Ref) -> Iterator[Batch]:
        met: list[Problem] = []
        session = next(sqlite.rows(self._connection, "sessions", met, "where id = ?", ref.native_id), None)
        if session is None:
            return
        yield self._about(session)
        telling = _Telling(met, sqlite.utc(session["created_at"]))
        quiet = sqlite.is_quiet(sqlite.utc(session["updated_at"]))
        yield from sqlite.batches(self._told(ref.native_id, telling, quiet), met)
        if telling.summary:
            yield Batch(summary=telling.summary)

    def _told(self, session: str, telling: _Telling, quiet: bool) -> Iterator[list[NewEntry]]:
        """An answer that is still being written is told when it is finished, or when something follows it."""
        held: list[NewEntry] = []
        for row in sqlite.rows(self._connection, "messages", telling.problems, _IN_ORDER, session):
            if held:
                yield held
                held = []
            entries = telling.entries(row)
            if telling.finished or quiet:
                yield entries
            else:
                held = entries

    def _about(self, row: Row) -> Batch:
        title = sqlite.text(row["title"])
        fields: SessionFields = {
            "agent_title": "" if title == UNTITLED else title,
            "cwd": self._folder,
            "environment_path": self._data,
            "tokens_input": count(row["prompt_tokens"]),
            "tokens_output": count(row["completion_tokens"]),
            "tokens_total": count(row["prompt_tokens"]) + count(row["completion_tokens"]),
        }
        fields |= sqlite.lifetime(row["created_at"], row["updated_at"]) | cost(dict(row).get("cost"))
        parent = sqlite.text(row["parent_session_id"])
        if parent:
            fields |= {"parent_id": parent, "relation": "sidechain" if row["id"].startswith(_TITLE) else "delegate"}
        message, _, _ = row["id"].partition(_NAMED_FOR_CALL)
        if parent and message in self._places(parent):
            fields["forked_at"] = self._places(parent)[message]
        record = sqlite.row_record(row, "sessions", row["id"], without=_MOVING)
        return Batch(
            header=NewEntry(kind="header", record=record), fields=fields, archived=row["id"].startswith(_TITLE)
        )

    def _find_places(self, session: str) -> dict[str, int]:
        """Where in the chain each message of a session stands, since a child is named for the one that called it."""
        telling, places, seq = _Telling([], ""), {}, 0
        for row in sqlite.rows(self._connection, "messages", [], _IN_ORDER, session):
            places[sqlite.text(row["id"])] = seq
            seq += len(telling.entries(row))
        return places


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


class _Telling:
    """A session's messages in their order."""

    def __init__(self, problems: list[Problem], made: str) -> None:
        self.problems = problems
        self.summary: ForeignSummary | None = None
        self.finished = True
        "Whether the message told last will not change any more."
        self._made = made
        self._turns = 0

    def entries(self, row: Row) -> list[NewEntry]:
        record = sqlite.row_record(row, "messages", row["id"], without=("updated_at", "finished_at"))
        told = self._content(row)
        self.finished = row["role"] != "assistant" or any(kind == "finish" for kind, _ in told)
        spoken = self._spoken(row, told)
        self._turns += spoken.begins_turn()
        entries = [spoken, *_failure(row, told)]
        if len(entries) > 1 and not spoken.parts:
            del entries[0]
        for entry in entries:
            entry.record, entry.message_key = record, sqlite.text(row["id"])
            entry.created_at = sqlite.utc(row["created_at"]) or self._made
            entry.model = sqlite.text(row["model"]) if entry.role == "assistant" else ""
        return entries

    def _content(self, row: Row) -> list[tuple[str, Json]]:
        try:
            parts = parse(sqlite.text(row["parts"]))
            if not isinstance(parts, list):
                raise BadValue("It is not a list.")
        except BadValue as reason:
            self.problems.append(Problem(f"messages:{row['id']}", f"The parts cannot be read: {reason}"))
            return [("parts", sqlite.text(row["parts"]))]
        return [(words(mapping(part).get("type")), mapping(part).get("data", part)) for part in parts]

    def _spoken(self, row: Row, told: list[tuple[str, Json]]) -> NewEntry:
        role = sqlite.text(row["role"])
        parts = tuple(
            part for place, (kind, data) in enumerate(told) for part in _parts(kind, data, f"{row['id']}:{place}")
        )
        if role not in _ROLES:
            return NewEntry(kind="unknown", parts=parts)
        if "is_summary_message" in row.keys() and row["is_summary_message"] == 1:  # noqa: SIM118 sqlite3.Row
            said = "\n\n".join(part.text for part in parts if isinstance(part, Text))
            self.summary = ForeignSummary(said, self._turns) if said.strip() else self.summary
            return NewEntry(kind="compaction", role="system", parts=parts)
        if role != "user":
            return NewEntry(role=role, parts=parts)
        hidden = any(mapping(data).get("hidden") is True for kind, data in told if kind == "text")
        commands = [f"$ {part.arguments['command']}" for part in parts if isinstance(part, ToolCall)]
        said = "\n\n".join([part.text for part in parts if isinstance(part, Text)] + commands)
        return NewEntry(role="user", parts=parts, prompt=False if hidden else None, text="" if hidden else said)


def _parts(kind: str, data: Json, place: str) -> Iterable[Part]:
    told = mapping(data)
    if kind == "finish":
        return ()
    if kind == "text" and isinstance(told.get("text"), str):
        return (Text(told["text"]),)
    if kind == "reasoning" and isinstance(told.get("thinking"), str):
        signature = words(told.get("signature")) or words(told.get("thought_signature"))
        return (Thinking(told["thinking"], signature),)
    if kind == "tool_call" and isinstance(told.get("name"), str):
        return (ToolCall(words(told.get("id")), told["name"], _spelled(told.get("input"))),)
    if kind == "tool_result":
        return _result(told)
    if kind == "shell_command" and isinstance(told.get("command"), str):
        failed = told.get("exit_code") not in (0, None)
        return ToolCall(place, "shell", {"command": told["command"]}), ToolResult(place, told.get("output"), failed)
    if kind == "image_url" and isinstance(told.get("url"), str):
        return (_linked(told["url"]),)
    if kind == "binary" and isinstance(told.get("MIMEType"), str):
        return (Attachment(told["MIMEType"], words(told.get("Path")), _size(told.get("Data"))),)
    return (Opaque(kind, data),)


def _result(told: Mapping[str, Json]) -> Iterable[Part]:
    """A command that failed is flagged by its exit code alone."""
    failed = told.get("is_error") is True or mapping(_spelled(told.get("metadata"))).get("exit_code") not in (0, None)
    yield ToolResult(words(told.get("tool_call_id")), told.get("content"), failed, words(told.get("name")))
    if told.get("data"):
        yield Attachment(words(told.get("mime_type")), size=_size(told["data"]))


def _linked(url: str) -> Attachment:
    if not url.startswith("data:"):
        return Attachment("image", uri=url)
    head, _, data = url.partition(",")
    return Attachment(head.removeprefix("data:").partition(";")[0] or "image", size=_size(data))


def _size(data: Json) -> int | None:
    """Of what stands in base64."""
    return len(data) * 3 // 4 if isinstance(data, str) else None


def _spelled(value: Json) -> Json:
    """JSON in a string; a model may have been stopped in the middle of it, and then the string stays."""
    try:
        return parse(value) if isinstance(value, str) else value
    except BadValue:
        return value


def _failure(row: Row, told: list[tuple[str, Json]]) -> Iterable[NewEntry]:
    """Why an answer ended before its end."""
    for kind, data in told:
        finish = mapping(data)
        if kind == "finish" and (finish.get("reason") not in _WENT_WELL or finish.get("message")):
            said = [words(finish.get(name)) for name in ("reason", "message", "details")]
            yield NewEntry(
                kind="event", role="assistant", text=": ".join(filter(None, said)), parts=(Opaque(kind, data),)
            )
