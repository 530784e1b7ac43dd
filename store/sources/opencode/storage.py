"""Where opencode has kept its sessions: since 2026 in a database, before in a folder with a file for everything."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from store.errors import BadValue
from store.model.entry import Json, NewEntry, NewRecord
from store.model.session import SessionFields
from store.sources.contract import Problem, Ref
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import cost, mapping, moment, words
from store.sources.kit.sqlite import Row
from store.sources.opencode.entries import Message, Piece, model_of
from store.sources.opencode.session_message import message_of
from store.text.validate import column_text, encode_derived, parse

SIGNATURE = {
    "session": ("id", "project_id", "title", "version", "time_created", "time_updated"),
    "message": ("id", "session_id", "time_created", "data"),
    "part": ("id", "message_id", "session_id", "data"),
}
_LASTING = ("parent_id", "directory", "title", "revert", "time_created", "time_archived")
_MESSAGES = "where session_id = ? order by time_created, id"
_PLACEHOLDER = re.compile(r"(?:New session|Child session) - \d{4}-\d\d-\d\dT.*", re.DOTALL)
# What opencode has taken out of the model's sight is marked so in place, long after.
_PRUNED = re.compile(rb'("time":\s*\{\s*"start":\s*\d+,\s*"end":\s*\d+),\s*"compacted":\s*\d+')


@dataclass(frozen=True, slots=True)
class Info:
    "What is said of a session."

    header: NewEntry
    fields: SessionFields
    archived: bool = False
    revert: Mapping[str, Json] = field(default_factory=dict)
    "The message and the part from which on it was taken back, for now."


class Generation(Protocol):
    def refs(self) -> Iterator[Ref]: ...
    def info(self, session: str) -> Info | None: ...
    def messages(self, session: str, met: list[Problem]) -> list[Message]: ...
    def parts(self, session: str, message: Message, met: list[Problem]) -> Iterable[Piece]: ...


def _info(told: Mapping[str, Json], times: Mapping[str, Json], record: NewRecord) -> Info:
    title = words(told.get("title"))
    model = mapping(told.get("model"))
    fields: SessionFields = {
        "agent_title": "" if _PLACEHOLDER.fullmatch(title) else column_text(title),
        "cwd": column_text(words(told.get("directory"))),
        "model": column_text(model_of(told)),
        "provider": column_text(words(model.get("providerID"))),
    }
    made, moved = moment(times.get("created")), moment(times.get("updated"))
    fields |= sqlite.lifetime(made, moved) | cost(told.get("cost"))
    if parent := column_text(words(told.get("parentID"))):
        fields |= {"parent_id": parent, "relation": "delegate"}
    header = NewEntry(kind="header", record=record)
    return Info(header, fields, bool(times.get("archived")), mapping(told.get("revert")))


def _steady(data: bytes, value: Json) -> bytes:
    """JSON without what opencode changes in it when it is long said: the diffs of a person's message, and the marks."""
    if mapping(value).get("role") == "user":
        return encode_derived({name: told for name, told in value.items() if name != "summary"})
    return _PRUNED.sub(rb"\1", data)


# ── the database ──────────────────────────────────────────────────────────────────────────────────


class Database:
    def __init__(self, connection: sqlite3.Connection, problems: list[Problem]) -> None:
        self._connection = connection
        self._problems = problems
        self._later = "session_message" in sqlite.tables(connection)

    def refs(self) -> Iterator[Ref]:
        said: dict[object, str] = {}
        first: dict[object, str] = {}
        swept = {"message": ("id", "time_created"), "part": ("id", "message_id"), "session_message": ("type", "seq")}
        for table, columns in swept.items():
            if table != "session_message" or self._later:
                rows = sqlite.sweep(self._connection, table, "session_id", *columns, "cast(data as blob)")
                for number, session, *told in rows:
                    said[session] = sqlite.digest(said.get(session), *told)
                    first.setdefault(session, f"{table}:{number}")
        for row in sqlite.rows(self._connection, "session", self._problems):
            first.pop(row["id"], None)
            if not isinstance(row["id"], str) or not row["id"]:
                self._problems.append(Problem("session", f"The session {row['id']!r} is not named by text."))
                continue
            about = dict(row)
            moved = sqlite.utc(row["time_updated"])
            lasting = [about.get(name) for name in _LASTING]
            yield Ref(row["id"], sqlite.digest(*lasting, said.get(row["id"]), sqlite.is_quiet(moved)), moved)
        for session, place in first.items():
            self._problems.append(Problem(place, f"There is no session {session!r}."))

    def info(self, session: str) -> Info | None:
        row = next(sqlite.rows(self._connection, "session", [], "where id = ?", session), None)
        if row is None:
            return None
        told: dict[str, Any] = dict(row)
        told |= {name: _value(told.get(name)) for name in ("model", "revert")}
        told["parentID"] = told.get("parent_id")
        times = {name: told.get(f"time_{name}") for name in ("created", "updated", "archived")}
        moving = [name for name in told if name.startswith(("tokens_", "summary_")) or name in ("time_updated", "cost")]
        return _info(told, times, sqlite.row_record(row, "session", session, without=moving))

    def messages(self, session: str, met: list[Problem]) -> list[Message]:
        """One kind of tables or the other; the newer ones are empty so far."""
        found = [self._message(row, met) for row in sqlite.rows(self._connection, "message", met, _MESSAGES, session)]
        if found or not self._later:
            return found
        rows = sqlite.rows(self._connection, "session_message", met, "where session_id = ? order by seq", session)
        return [message_of(row, self._data(row, "session_message", met)) for row in rows]

    def _message(self, row: Row, met: list[Problem]) -> Message:
        data = self._data(row, "message", met)
        return Message(sqlite.text(row["id"]), mapping(data), self._record(row, "message", data), _made(row))

    def parts(self, session: str, message: Message, met: list[Problem]) -> Iterator[Piece]:
        for row in sqlite.rows(self._connection, "part", met, "where message_id = ? order by id", message.id):
            data = self._data(row, "part", met)
            yield Piece(sqlite.text(row["id"]), data, self._record(row, "part", data), _made(row))

    def _data(self, row: Row, table: str, met: list[Problem]) -> Json:
        """What cannot be read stays as it is."""
        data = _value(row["data"])
        if not isinstance(data, dict):
            met.append(Problem(f"{table}:{row['id']}", "It is not a JSON object."))
            return sqlite.text(row["data"])
        return data

    def _record(self, row: Row, table: str, data: Json) -> NewRecord:
        steady = _steady(sqlite.text(row["data"]).encode("utf-8", "replace"), data).decode("utf-8", "replace")
        return sqlite.row_record(row, table, row["id"], without=("time_updated",), instead={"data": steady})


def _value(spelled: object) -> Json:
    try:
        return parse(spelled) if isinstance(spelled, str) else None
    except BadValue:
        return None


def _made(row: Row) -> str:
    return sqlite.utc(row["time_created"]) if "time_created" in row.keys() else ""  # noqa: SIM118 sqlite3.Row


# ── the files ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Place:
    "Where the files of a session are."

    info: Path
    messages: Path
    parts: Path
    "A folder for each message."


class Files:
    """Both generations of them: a folder for all projects, and before that one for each."""

    def __init__(self, root: Path, problems: list[Problem]) -> None:
        self._root = root
        self._problems = problems
        self._places = {place.info.stem: place for place in [*self._first(), *self._second()]}

    def _first(self) -> Iterator[_Place]:
        for info in sorted(self._root.glob("project/*/storage/session/info/*.json")):
            store = info.parent.parent
            yield _Place(info, store / "message" / info.stem, store / "part" / info.stem)

    def _second(self) -> Iterator[_Place]:
        store = self._root / "storage"
        for info in sorted(store.glob("session/*/*.json")):
            yield _Place(info, store / "message" / info.stem, store / "part")

    def refs(self) -> Iterator[Ref]:
        for name, place in self._places.items():
            info = jsonl.json_file(place.info, self._problems)
            if not isinstance(info, dict):
                continue
            moved = moment(mapping(info.get("time")).get("updated"))
            stamps = [jsonl.file_digest_stamp(place.info)]
            for message in _files(place.messages):
                stamps += [message.name, jsonl.file_digest_stamp(message)]
                stamps += [jsonl.file_digest_stamp(part) for part in _files(place.parts / message.stem)]
            yield Ref(name, sqlite.digest(*stamps, sqlite.is_quiet(moved)), moved)

    def info(self, session: str) -> Info | None:
        place = self._places.get(session)
        told = jsonl.whole_file(place.info, self._problems) if place else None
        if place is None or told is None:
            return None
        value = mapping(told.value)
        if not value.get("directory"):
            value = {**value, "directory": self._folder_of(place)}
        return _info(value, mapping(value.get("time")), jsonl.record(told, self._name(place.info)))

    def _folder_of(self, place: _Place) -> str:
        """The first generation says it only of what was answered."""
        for file in _files(place.messages):
            path = mapping(mapping(jsonl.json_file(file, [])).get("path"))
            if cwd := words(path.get("cwd")) or words(path.get("root")):
                return cwd
        return ""

    def messages(self, session: str, met: list[Problem]) -> list[Message]:
        found = [
            Message(path.stem, data, record, moment(mapping(data.get("time")).get("created")))
            for path, data, record in self._read(self._places[session].messages, met)
        ]
        return sorted(found, key=lambda message: (message.at, message.id))

    def parts(self, session: str, message: Message, met: list[Problem]) -> Iterator[Piece]:
        for path, data, record in self._read(self._places[session].parts / message.id, met):
            yield Piece(path.stem, data, record)

    def _read(self, folder: Path, met: list[Problem]) -> Iterator[tuple[Path, Mapping[str, Json], NewRecord]]:
        for path in _files(folder):
            name = self._name(path)
            line = jsonl.whole_file(path, met, name=name)
            if line is not None:
                yield path, mapping(line.value), NewRecord(_steady(line.data, line.value), name)

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _files(folder: Path) -> Iterator[Path]:
    return jsonl.walk(folder, [], suffixes=(".json",), depth=0)
