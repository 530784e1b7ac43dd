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
from store.sources.contract import Problem, SessionRef
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import as_dict, as_str, as_time, cost_fields
from store.sources.kit.sqlite import RowLike
from store.sources.opencode.entries import OpencodeMessage, OpencodePart, parse_model
from store.sources.opencode.session_message import message_from_row
from store.text.validate import encode_derived, parse, replace_surrogates

_STABLE_COLUMNS = ("parent_id", "directory", "title", "revert", "time_created", "time_archived")
_MESSAGES_IN_ORDER = "where session_id = ? order by time_created, id"
_PLACEHOLDER_TITLE = re.compile(r"(?:New session|Child session) - \d{4}-\d\d-\d\dT.*", re.DOTALL)
# What opencode has taken out of the model's sight is marked so in place, long after.
_COMPACTED_TIME = re.compile(rb'("time":\s*\{\s*"start":\s*\d+,\s*"end":\s*\d+),\s*"compacted":\s*\d+')


@dataclass(frozen=True, slots=True)
class SessionInfo:
    "What is said of a session."

    header: NewEntry
    fields: SessionFields
    archived: bool = False
    revert: Mapping[str, Json] = field(default_factory=dict)
    "The message and the part from which on it was taken back, for now."


class SessionStorage(Protocol):
    def list_refs(self) -> Iterator[SessionRef]: ...
    def read_info(self, session: str) -> SessionInfo | None: ...
    def read_messages(self, session: str, met: list[Problem]) -> list[OpencodeMessage]: ...
    def read_parts(self, session: str, message: OpencodeMessage, met: list[Problem]) -> Iterable[OpencodePart]: ...


def _parse_info(told: Mapping[str, Json], times: Mapping[str, Json], record: NewRecord) -> SessionInfo:
    title = as_str(told.get("title"))
    model = as_dict(told.get("model"))
    fields: SessionFields = {
        "agent_title": "" if _PLACEHOLDER_TITLE.fullmatch(title) else replace_surrogates(title),
        "cwd": replace_surrogates(as_str(told.get("directory"))),
        "model": replace_surrogates(parse_model(told)),
        "provider": replace_surrogates(as_str(model.get("providerID"))),
    }
    made, moved = as_time(times.get("created")), as_time(times.get("updated"))
    fields |= sqlite.time_fields(made, moved) | cost_fields(told.get("cost"))
    if parent := replace_surrogates(as_str(told.get("parentID"))):
        fields |= {"parent_id": parent, "relation": "delegate"}
    header = NewEntry(kind="header", record=record)
    return SessionInfo(header, fields, bool(times.get("archived")), as_dict(told.get("revert")))


def _strip_changing(data: bytes, value: Json) -> bytes:
    """JSON without what opencode changes in it when it is long said: the diffs of a person's message, and the marks."""
    if as_dict(value).get("role") == "user":
        return encode_derived({name: told for name, told in value.items() if name != "summary"})
    return _COMPACTED_TIME.sub(rb"\1", data)


# ── the database ──────────────────────────────────────────────────────────────────────────────────


class DatabaseStorage:
    def __init__(self, connection: sqlite3.Connection, problems: list[Problem]) -> None:
        self._connection = connection
        self._problems = problems
        self._has_session_message = "session_message" in sqlite.read_tables(connection)

    def list_refs(self) -> Iterator[SessionRef]:
        said: dict[object, str] = {}
        first: dict[object, str] = {}
        swept = {"message": ("id", "time_created"), "part": ("id", "message_id"), "session_message": ("type", "seq")}
        for table, columns in swept.items():
            if table != "session_message" or self._has_session_message:
                rows = sqlite.scan_columns(self._connection, table, "session_id", *columns, "cast(data as blob)")
                for number, session, *told in rows:
                    said[session] = sqlite.digest(said.get(session), *told)
                    first.setdefault(session, f"{table}:{number}")
        for row in sqlite.read_rows(self._connection, "session", self._problems):
            first.pop(row["id"], None)
            if not isinstance(row["id"], str) or not row["id"]:
                self._problems.append(Problem("session", f"The session {row['id']!r} is not named by text."))
                continue
            about = dict(row)
            moved = sqlite.normalize_time(row["time_updated"])
            lasting = [about.get(name) for name in _STABLE_COLUMNS]
            yield SessionRef(row["id"], sqlite.digest(*lasting, said.get(row["id"]), sqlite.is_quiet(moved)), moved)
        for session, place in first.items():
            self._problems.append(Problem(place, f"There is no session {session!r}."))

    def read_info(self, session: str) -> SessionInfo | None:
        row = next(sqlite.read_rows(self._connection, "session", [], "where id = ?", session), None)
        if row is None:
            return None
        told: dict[str, Any] = dict(row)
        told |= {name: _parse_json(told.get(name)) for name in ("model", "revert")}
        told["parentID"] = told.get("parent_id")
        times = {name: told.get(f"time_{name}") for name in ("created", "updated", "archived")}
        moving = [name for name in told if name.startswith(("tokens_", "summary_")) or name in ("time_updated", "cost")]
        return _parse_info(told, times, sqlite.record_from_row(row, "session", session, exclude=moving))

    def read_messages(self, session: str, met: list[Problem]) -> list[OpencodeMessage]:
        """One kind of tables or the other; the newer ones are empty so far."""
        found = [
            self._parse_message(row, met)
            for row in sqlite.read_rows(self._connection, "message", met, _MESSAGES_IN_ORDER, session)
        ]
        if found or not self._has_session_message:
            return found
        rows = sqlite.read_rows(self._connection, "session_message", met, "where session_id = ? order by seq", session)
        return [message_from_row(row, self._parse_data(row, "session_message", met)) for row in rows]

    def _parse_message(self, row: RowLike, met: list[Problem]) -> OpencodeMessage:
        data = self._parse_data(row, "message", met)
        return OpencodeMessage(
            sqlite.as_text(row["id"]), as_dict(data), self._make_record(row, "message", data), _created_at(row)
        )

    def read_parts(self, session: str, message: OpencodeMessage, met: list[Problem]) -> Iterator[OpencodePart]:
        for row in sqlite.read_rows(self._connection, "part", met, "where message_id = ? order by id", message.id):
            data = self._parse_data(row, "part", met)
            yield OpencodePart(sqlite.as_text(row["id"]), data, self._make_record(row, "part", data), _created_at(row))

    def _parse_data(self, row: RowLike, table: str, met: list[Problem]) -> Json:
        """What cannot be read stays as it is."""
        data = _parse_json(row["data"])
        if not isinstance(data, dict):
            met.append(Problem(f"{table}:{row['id']}", "It is not a JSON object."))
            return sqlite.as_text(row["data"])
        return data

    def _make_record(self, row: RowLike, table: str, data: Json) -> NewRecord:
        steady = _strip_changing(sqlite.as_text(row["data"]).encode("utf-8", "replace"), data).decode(
            "utf-8", "replace"
        )
        return sqlite.record_from_row(row, table, row["id"], exclude=("time_updated",), replacements={"data": steady})


def _parse_json(spelled: object) -> Json:
    try:
        return parse(spelled) if isinstance(spelled, str) else None
    except BadValue:
        return None


def _created_at(row: RowLike) -> str:
    return sqlite.normalize_time(row["time_created"]) if "time_created" in row.keys() else ""  # noqa: SIM118 sqlite3.Row


# ── the files ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _SessionFiles:
    "Where the files of a session are."

    info_file: Path
    messages_folder: Path
    parts_folder: Path
    "A folder for each message."


class FileStorage:
    """Both generations of them: a folder for all projects, and before that one for each."""

    def __init__(self, root: Path, problems: list[Problem]) -> None:
        self._root = root
        self._problems = problems
        self._files_by_session = {
            place.info_file.stem: place for place in [*self._find_project_layout(), *self._find_shared_layout()]
        }

    def _find_project_layout(self) -> Iterator[_SessionFiles]:
        for info in sorted(self._root.glob("project/*/storage/session/info/*.json")):
            store = info.parent.parent
            yield _SessionFiles(info, store / "message" / info.stem, store / "part" / info.stem)

    def _find_shared_layout(self) -> Iterator[_SessionFiles]:
        store = self._root / "storage"
        for info in sorted(store.glob("session/*/*.json")):
            yield _SessionFiles(info, store / "message" / info.stem, store / "part")

    def list_refs(self) -> Iterator[SessionRef]:
        for name, place in self._files_by_session.items():
            info = jsonl.read_json_file(place.info_file, self._problems)
            if not isinstance(info, dict):
                continue
            moved = as_time(as_dict(info.get("time")).get("updated"))
            stamps = [jsonl.plain_file_stamp(place.info_file)]
            for message in _list_json_files(place.messages_folder):
                stamps += [message.name, jsonl.plain_file_stamp(message)]
                stamps += [jsonl.plain_file_stamp(part) for part in _list_json_files(place.parts_folder / message.stem)]
            yield SessionRef(name, sqlite.digest(*stamps, sqlite.is_quiet(moved)), moved)

    def read_info(self, session: str) -> SessionInfo | None:
        place = self._files_by_session.get(session)
        told = jsonl.read_json_record(place.info_file, self._problems) if place else None
        if place is None or told is None:
            return None
        value = as_dict(told.value)
        if not value.get("directory"):
            value = {**value, "directory": self._find_cwd(place)}
        return _parse_info(
            value, as_dict(value.get("time")), jsonl.record_from_line(told, self._relative_name(place.info_file))
        )

    def _find_cwd(self, place: _SessionFiles) -> str:
        """The first generation says it only of what was answered."""
        for file in _list_json_files(place.messages_folder):
            path = as_dict(as_dict(jsonl.read_json_file(file, [])).get("path"))
            if cwd := as_str(path.get("cwd")) or as_str(path.get("root")):
                return cwd
        return ""

    def read_messages(self, session: str, met: list[Problem]) -> list[OpencodeMessage]:
        found = [
            OpencodeMessage(path.stem, data, record, as_time(as_dict(data.get("time")).get("created")))
            for path, data, record in self._read_records(self._files_by_session[session].messages_folder, met)
        ]
        return sorted(found, key=lambda message: (message.created_at, message.id))

    def read_parts(self, session: str, message: OpencodeMessage, met: list[Problem]) -> Iterator[OpencodePart]:
        for path, data, record in self._read_records(self._files_by_session[session].parts_folder / message.id, met):
            yield OpencodePart(path.stem, data, record)

    def _read_records(self, folder: Path, met: list[Problem]) -> Iterator[tuple[Path, Mapping[str, Json], NewRecord]]:
        for path in _list_json_files(folder):
            name = self._relative_name(path)
            line = jsonl.read_json_record(path, met, name=name)
            if line is not None:
                yield path, as_dict(line.value), NewRecord(_strip_changing(line.data, line.value), name)

    def _relative_name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _list_json_files(folder: Path) -> Iterator[Path]:
    return jsonl.walk_files(folder, [], suffixes=(".json",), depth=0)
