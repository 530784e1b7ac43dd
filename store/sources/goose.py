"""Goose: all sessions in one SQLite file, and before autumn 2025 a file of JSON lines each, left where they were.

When the context grows too long, Goose writes a session's rows anew: what was said stays, hidden from the model; a
summary, hidden from the person, follows it, and then what was asked last, once more.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from store.errors import BadValue
from store.model.entry import Attachment, Json, NewEntry, NewRecord, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.model.session import Session, SessionFields
from store.sources.contract import Batch, Continuing, ForeignSummary, Problem, Ref
from store.sources.kit import homes, jsonl, sqlite
from store.sources.kit.jsonl import count, items, mapping, words
from store.sources.kit.sqlite import Row
from store.sources.kit.transcripts import Transcripts
from store.text.validate import column_text, encode_derived, parse

NAME = "goose"
LABEL = "Goose"
READER = 1
LOCAL_IDS = True

_FILE = "sessions.db"
_SIGNATURE = {
    "sessions": "id working_dir created_at updated_at extension_data".split(),
    "messages": "id session_id role content_json created_timestamp".split(),
}
_SWEPT = ("session_id", "role", "created_timestamp", "cast(content_json as blob)")
_MILLISECONDS = 100_000_000_000
# Other clients than Goose's own write milliseconds.
_IN_ORDER = f"""
    where session_id = ? order by
    case when created_timestamp > {_MILLISECONDS} then created_timestamp / 1000 else created_timestamp end, id
"""
_PLACEHOLDER = re.compile(r"(?:CLI Session|New session(?: \d+)?)\s*", re.IGNORECASE)
_OF_ITS_OWN = ("sub_agent", "hidden")
"""Types of sessions that Goose starts for itself and shows nobody."""

_VISIBILITY = ("userVisible", "agentVisible")
_NOTICES = ("systemNotification", "contextLengthExceeded", "summarizationRequested")
_QUESTIONS = ("toolConfirmationRequest", "actionRequired")


# ── where ─────────────────────────────────────────────────────────────────────────────────────────

roots = homes.goose


def detect(locator: str) -> bool:
    """The folder of all sessions, or one of the files in it."""
    path = Path(locator)
    if path.suffix == ".jsonl":
        return _is_transcript(path)
    if not os.path.isdir(path):
        return sqlite.looks_like(locator, _SIGNATURE)
    return sqlite.looks_like(str(path / _FILE), _SIGNATURE) or any(map(_is_transcript, _transcripts(path)))


def _transcripts(folder: Path) -> Iterator[Path]:
    return jsonl.walk(folder, [], depth=0)


def _is_transcript(path: Path) -> bool:
    first = mapping(next((line.value for line in jsonl.json_lines(path, [])), None))
    return isinstance(first.get("working_dir"), str) and "description" in first


def stamp(locator: str) -> str:
    path = Path(locator)
    if not os.path.isdir(path):
        return jsonl.file_digest_stamp(path) if path.suffix == ".jsonl" else sqlite.file_stamp(path)
    return sqlite.digest(sqlite.file_stamp(path / _FILE), jsonl.tree_stamp(path, depth=0))


@contextmanager
def open(locator: str) -> Iterator[Goose]:  # noqa: A001 the shape's own word
    path = Path(locator)
    folder = os.path.isdir(path)
    files = list(_transcripts(path)) if folder else [path] if path.suffix == ".jsonl" else []
    database = path / _FILE if folder else path
    with ExitStack() as stack:
        is_there = database.exists() if folder else not files
        connection = stack.enter_context(sqlite.snapshot(database)) if is_there else None
        yield Goose(connection, {file.stem: file for file in files if _is_transcript(file)})


def resume(session: Session) -> Continuing:
    argv = ("goose", "session", "--resume", "--session-id", session.native_id)
    return Continuing(argv, session.cwd, fork=(*argv, "--fork"), install="brew install block-goose-cli")


# ── the store ─────────────────────────────────────────────────────────────────────────────────────


class _Message(NamedTuple):
    role: str
    content: Json
    at: str
    visibility: Mapping[str, Json]
    record: NewRecord

    @property
    def is_hidden(self) -> bool:
        "From the person."
        return self.visibility.get("userVisible") is False


class Goose(Transcripts):
    def __init__(self, connection: sqlite3.Connection | None, files: dict[str, Path]) -> None:
        super().__init__()
        self._connection = connection
        self._files = files

    def scan(self) -> Iterator[Ref]:
        """A session that was taken into the database is no longer read from its file."""
        moved = set()
        for ref in self._scan_database():
            moved.add(ref.native_id)
            yield ref
        for name, path in self._files.items():
            if name not in moved:
                yield Ref(name, jsonl.file_digest_stamp(path), _modified(path))

    def _scan_database(self) -> Iterator[Ref]:
        if self._connection is None:
            return
        said: dict[object, str] = {}
        for number, session, *told in sqlite.sweep(self._connection, "messages", *_SWEPT):
            said[session] = sqlite.digest(said.get(session), number, *told)
        for row in sqlite.rows(self._connection, "sessions", self.problems):
            if isinstance(row["id"], str):
                content = sqlite.digest(*dict(row).values(), said.get(row["id"]))
                yield Ref(row["id"], content, sqlite.utc(row["updated_at"]))
            else:
                self.problems.append(Problem("sessions", f"The session {row['id']!r} is not named by text."))
        self.problems += sqlite.strays(self._connection, "messages")

    def read(self, ref: Ref) -> Iterator[Batch]:
        met: list[Problem] = []
        about, messages = self._found(ref.native_id, met)
        if about is None:
            return
        yield about
        fields = about.fields or {}
        telling = _Telling(fields.get("model", ""), fields.get("created_at", ""))
        yield from sqlite.batches((telling.entries(*pair) for pair in _with_the_next(messages)), met)
        if telling.summary:
            yield Batch(summary=telling.summary)

    def _found(self, name: str, met: list[Problem]) -> tuple[Batch | None, Iterable[_Message]]:
        if self._connection is not None:
            session = next(sqlite.rows(self._connection, "sessions", met, "where id = ?", name), None)
            if session is not None:
                rows = sqlite.rows(self._connection, "messages", met, _IN_ORDER, name)
                return _about(session), (_message(row, met) for row in rows)
        return _file(self._files[name], met) if name in self._files else (None, ())


def _modified(path: Path) -> str:
    try:
        return sqlite.utc(path.stat().st_mtime)
    except OSError:
        return ""


def _with_the_next(messages: Iterable[_Message]) -> Iterator[tuple[_Message, _Message | None]]:
    held: _Message | None = None
    for message in messages:
        if held is not None:
            yield held, message
        held = message
    if held is not None:
        yield held, None


def _about(row: Row) -> Batch:
    columns = dict(row)
    title = sqlite.text(columns.get("name")) or sqlite.text(columns.get("description"))
    fields: SessionFields = {
        "agent_title": "" if _PLACEHOLDER.fullmatch(title) else title,
        "cwd": sqlite.text(row["working_dir"]),
        "provider": sqlite.text(columns.get("provider_name")),
        "model": column_text(words(mapping(_json(columns.get("model_config_json"))).get("model_name"))),
        "channel": sqlite.text(columns.get("session_type")),
    }
    fields |= sqlite.lifetime(row["created_at"], row["updated_at"]) | _tokens(columns)
    # What is counted, and what moves whenever Goose looks, is no content.
    moving = [name for name in columns if name.endswith("tokens") or name in ("updated_at", "extension_data")]
    record = sqlite.row_record(row, "sessions", row["id"], without=moving)
    archived = columns.get("session_type") in _OF_ITS_OWN
    return Batch(header=NewEntry(kind="header", record=record), fields=fields, archived=archived)


def _tokens(told: Mapping[str, Json]) -> SessionFields:
    """Of the whole session where Goose has added them up, else of the last call."""
    sums = [count(told.get(f"accumulated_{name}_tokens")) for name in ("input", "output", "total")]
    if not any(sums):
        sums = [count(told.get(f"{name}_tokens")) for name in ("input", "output", "total")]
    given, made, total = sums
    return {"tokens_input": given, "tokens_output": made, "tokens_total": max(total, given + made)}


def _message(row: Row, met: list[Problem]) -> _Message:
    """Everything but what was said is another when Goose writes a session's rows anew."""
    told = row["metadata_json"] if "metadata_json" in row.keys() else None  # noqa: SIM118 sqlite3.Row
    metadata = mapping(_json(told))
    lasting = {name: value for name, value in metadata.items() if name not in _VISIBILITY}
    record = sqlite.row_record(
        row,
        "messages",
        row["id"],
        without=("id", "message_id", "timestamp", "tokens"),
        instead={"metadata_json": encode_derived(lasting).decode() if lasting else None},
    )
    try:
        content = parse(sqlite.text(row["content_json"]))
    except BadValue as reason:
        met.append(Problem(f"messages:{row['id']}", f"The content cannot be read: {reason}"))
        content = sqlite.text(row["content_json"])
    at = sqlite.utc(row["created_timestamp"])
    return _Message(sqlite.text(row["role"]), content, at, metadata, record)


def _json(value: object) -> Json:
    try:
        return parse(value) if isinstance(value, str) else None
    except BadValue:
        return None


def _file(path: Path, met: list[Problem]) -> tuple[Batch | None, Iterable[_Message]]:
    """The first line tells of the session, every other is a message."""
    told = jsonl.json_lines(path, met, name=path.name)
    head = next(told, None)
    if head is None:
        return None, ()
    messages = (_line(line, path.name) for line in told)
    first = list(islice(messages, 1))
    about, modified = mapping(head.value), _modified(path)
    fields: SessionFields = {
        "agent_title": column_text(words(about.get("description"))),
        "cwd": column_text(words(about.get("working_dir"))),
    }
    fields |= sqlite.lifetime(first[0].at if first else modified, modified) | _tokens(about)
    header = NewEntry(kind="header", record=jsonl.record(head, path.name))
    return Batch(header=header, fields=fields), chain(first, messages)


def _line(line: jsonl.Line, name: str) -> _Message:
    told = mapping(line.value)
    return _Message(
        words(told.get("role")),
        told.get("content", line.value),
        jsonl.moment(told.get("created")),
        mapping(told.get("metadata")),
        jsonl.record(line, name),
    )


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


class _Telling:
    """A session's messages in their order."""

    def __init__(self, model: str, made: str) -> None:
        self.summary: ForeignSummary | None = None
        self._model = model
        self._at = made
        self._turns = 0
        self._asked = ""
        self._summarised = False
        "Whether nothing was asked since the last summary."

    def entries(self, message: _Message, following: _Message | None) -> list[NewEntry]:
        self._at = message.at or self._at
        entry = self._entry(message, following)
        entry.record, entry.created_at = message.record, self._at
        if entry.role == "assistant":
            entry.model = self._model
        return [entry]

    def _entry(self, message: _Message, following: _Message | None) -> NewEntry:
        parts = tuple(_parts(message.content))
        if message.role not in ("user", "assistant"):
            return NewEntry(kind="unknown", parts=parts or (Opaque(message.role, message.content),))
        kinds = {words(mapping(item).get("type")) for item in items(message.content)}
        if kinds and kinds <= {*_NOTICES, *_QUESTIONS}:
            said = "\n".join(words(mapping(item).get("msg")) for item in items(message.content))
            return NewEntry(kind="event", role=message.role, parts=parts, text=said.strip())
        if message.is_hidden and (hidden := self._hidden(message, following, parts)):
            return hidden
        if message.role == "assistant":
            return NewEntry(role="assistant", parts=parts)
        return self._user(parts)

    def _hidden(self, message: _Message, following: _Message | None, parts: tuple[Part, ...]) -> NewEntry | None:
        """A summary is in the person's name, and Goose's word to itself to go on follows it.

        What was asked last is hidden too, from both, when it is asked once more: it is told in its own place.
        """
        if message.role == "assistant":
            return NewEntry(kind="event", role="assistant", parts=parts)
        word = following is not None and following.is_hidden and following.role == "assistant"
        if message.visibility.get("agentVisible") is False and not word:
            return None
        self._summarised = True
        said = _said(parts)
        self.summary = ForeignSummary(column_text(said), self._turns) if said.strip() else self.summary
        return NewEntry(kind="compaction", role="system", parts=parts)

    def _user(self, parts: tuple[Part, ...]) -> NewEntry:
        own = [part for part in parts if not isinstance(part, ToolResult)]
        if len(own) < len(parts) and not any(isinstance(part, Text) for part in own):
            return NewEntry(role="tool", parts=parts, prompt=False)
        said = _said(parts)
        again, self._summarised = self._summarised and said == self._asked, False
        if again:
            return NewEntry(kind="event", role="user", parts=parts)
        self._asked = said
        self._turns += bool(own)
        return NewEntry(role="user", parts=parts, prompt=bool(own))


def _said(parts: Iterable[Part]) -> str:
    return "\n\n".join(part.text for part in parts if isinstance(part, Text))


def _parts(content: Json) -> Iterator[Part]:
    if not isinstance(content, list):
        yield Opaque("content", content)
        return
    for item in content:
        yield from _part(item)


def _part(item: Json) -> Iterable[Part]:
    told = mapping(item)
    kind = words(told.get("type"))
    if kind in ("text", "reasoning", "thinking"):
        said = told.get("thinking" if kind == "thinking" else "text")
        if isinstance(said, str):
            return (Text(said),) if kind == "text" else (Thinking(said, words(told.get("signature"))),)
    if kind == "redactedThinking":
        return (Thinking("", words(told.get("data"))),)
    if kind in ("toolRequest", "frontendToolRequest"):
        return (_call(told),)
    if kind == "toolResponse":
        return _result(told)
    if kind == "image":
        return (_picture(told),)
    return (Opaque(kind, item),)


def _call(told: Mapping[str, Json]) -> ToolCall:
    """One that the model got wrong has no name, and says why."""
    asked = mapping(told.get("toolCall"))
    value = mapping(asked.get("value"))
    given = value.get("arguments") if value else asked.get("error")
    return ToolCall(words(told.get("id")), words(value.get("name")), given)


def _result(told: Mapping[str, Json]) -> Iterable[Part]:
    """In Goose's early days the value was the content itself."""
    answer = mapping(told.get("toolResult"))
    value = answer.get("value")
    failed = answer.get("status") == "error" or mapping(value).get("isError") is True
    content = _for_the_model(items(value if isinstance(value, list) else mapping(value).get("content")))
    output = [_shown(item) for item in content if not _is_picture(item)]
    whole = output[0] if len(output) == 1 else output or answer.get("error", "" if content else value)
    yield ToolResult(words(told.get("id")), whole, failed)
    yield from (_picture(mapping(item)) for item in content if _is_picture(item))


def _shown(item: Json) -> Json:
    text = mapping(item).get("text")
    return text if mapping(item).get("type") == "text" and isinstance(text, str) else item


def _is_picture(item: Json) -> bool:
    return mapping(item).get("type") == "image"


def _for_the_model(content: list[Json]) -> list[Json]:
    """What is told twice, once for the person and once for the model."""
    meant = [items(mapping(mapping(item).get("annotations")).get("audience")) for item in content]
    return [
        item for item, audience in zip(content, meant, strict=True) if not audience or "assistant" in audience
    ] or content


def _picture(told: Mapping[str, Json]) -> Attachment:
    data = told.get("data")
    size = len(data) * 3 // 4 if isinstance(data, str) else None
    return Attachment(words(told.get("mimeType")) or "image", size=size)
