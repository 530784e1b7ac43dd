"""This module reads the two storages of opencode: a database since 2026, and before that a folder of JSON files."""

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
from store.sources.opencode.files import INFO_FOLDER, find_session_files, list_storages
from store.sources.opencode.session_message import message_from_row
from store.text.validate import encode_derived, parse, replace_surrogates

_STABLE_COLUMNS = ("parent_id", "directory", "title", "revert", "time_created", "time_archived")
_MESSAGES_IN_ORDER = "where session_id = ? order by time_created, id"
_PLACEHOLDER_TITLE = re.compile(r"(?:New session|Child session) - \d{4}-\d\d-\d\dT.*", re.DOTALL)
# opencode marks a tool output as compacted in place, long after it was written.
_COMPACTED_TIME = re.compile(rb'("time":\s*\{\s*"start":\s*\d+,\s*"end":\s*\d+),\s*"compacted":\s*\d+')


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """Describes a session."""

    header: NewEntry
    fields: SessionFields
    archived: bool = False
    revert: Mapping[str, Json] = field(default_factory=dict)
    "Names the message and the part from which on the session is reverted, until a redo."


class SessionStorage(Protocol):
    """Declares how to read sessions from a database or from files."""

    def list_refs(self) -> Iterator[SessionRef]: ...
    def read_info(self, session: str) -> SessionInfo | None: ...
    def read_messages(self, session: str, problems: list[Problem]) -> list[OpencodeMessage]: ...
    def read_parts(self, session: str, message: OpencodeMessage, problems: list[Problem]) -> Iterable[OpencodePart]: ...


def parse_info(data: Mapping[str, Json], times: Mapping[str, Json], record: NewRecord) -> SessionInfo:
    title = as_str(data.get("title"))
    model = as_dict(data.get("model"))
    fields: SessionFields = {
        "agent_title": "" if _PLACEHOLDER_TITLE.fullmatch(title) else replace_surrogates(title),
        "cwd": replace_surrogates(as_str(data.get("directory"))),
        "model": replace_surrogates(parse_model(data)),
        "provider": replace_surrogates(as_str(model.get("providerID"))),
    }
    created_at, updated_at = as_time(times.get("created")), as_time(times.get("updated"))
    fields |= sqlite.time_fields(created_at, updated_at) | cost_fields(data.get("cost"))
    if parent := replace_surrogates(as_str(data.get("parentID"))):
        fields |= {"parent_id": parent, "relation": "delegate"}
    header = NewEntry(kind="header", record=record)
    return SessionInfo(header, fields, bool(times.get("archived")), as_dict(data.get("revert")))


def strip_changing(data: bytes, value: Json) -> bytes:
    """Return JSON without what opencode changes later: the diffs in a user's message, and the compaction marks."""
    if as_dict(value).get("role") == "user":
        return encode_derived({name: member for name, member in value.items() if name != "summary"})
    return _COMPACTED_TIME.sub(rb"\1", data)


# ── the database ──────────────────────────────────────────────────────────────────────────────────


class DatabaseStorage:
    """Reads sessions from a database."""

    def __init__(self, connection: sqlite3.Connection, problems: list[Problem]) -> None:
        self._connection = connection
        self._problems = problems
        self._has_session_message = "session_message" in sqlite.read_tables(connection)

    def list_refs(self) -> Iterator[SessionRef]:
        digests: dict[object, str] = {}
        first_rows: dict[object, str] = {}
        scanned_columns = {
            "message": ("id", "time_created"),
            "part": ("id", "message_id"),
            "session_message": ("type", "seq"),
        }
        for table, columns in scanned_columns.items():
            if table != "session_message" or self._has_session_message:
                rows = sqlite.scan_columns(self._connection, table, "session_id", *columns, "cast(data as blob)")
                for rowid, session, *values in rows:
                    digests[session] = sqlite.digest(digests.get(session), *values)
                    first_rows.setdefault(session, f"{table}:{rowid}")
        for row in sqlite.read_rows(self._connection, "session", self._problems):
            first_rows.pop(row["id"], None)
            if not isinstance(row["id"], str) or not row["id"]:
                self._problems.append(Problem("session", f"The id of session {row['id']!r} is not text."))
                continue
            session = dict(row)
            updated_at = sqlite.normalize_time(row["time_updated"])
            stable_values = [session.get(name) for name in _STABLE_COLUMNS]
            yield SessionRef(
                row["id"],
                sqlite.digest(*stable_values, digests.get(row["id"]), sqlite.is_quiet(updated_at)),
                updated_at,
            )
        for session, row_name in first_rows.items():
            self._problems.append(Problem(row_name, f"There is no session {session!r}."))

    def read_info(self, session: str) -> SessionInfo | None:
        row = next(sqlite.read_rows(self._connection, "session", [], "where id = ?", session), None)
        if row is None:
            return None
        data: dict[str, Any] = dict(row)
        data |= {name: _parse_json(data.get(name)) for name in ("model", "revert")}
        data["parentID"] = data.get("parent_id")
        times = {name: data.get(f"time_{name}") for name in ("created", "updated", "archived")}
        changing = [
            name for name in data if name.startswith(("tokens_", "summary_")) or name in ("time_updated", "cost")
        ]
        return parse_info(data, times, sqlite.record_from_row(row, "session", session, exclude=changing))

    def read_messages(self, session: str, problems: list[Problem]) -> list[OpencodeMessage]:
        """Return the messages of a session. The newer table is used only when the older one has none."""
        messages = [
            self._parse_message(row, problems)
            for row in sqlite.read_rows(self._connection, "message", problems, _MESSAGES_IN_ORDER, session)
        ]
        if messages or not self._has_session_message:
            return messages
        rows = sqlite.read_rows(
            self._connection, "session_message", problems, "where session_id = ? order by seq", session
        )
        return [message_from_row(row, self._parse_data(row, "session_message", problems)) for row in rows]

    def _parse_message(self, row: RowLike, problems: list[Problem]) -> OpencodeMessage:
        data = self._parse_data(row, "message", problems)
        return OpencodeMessage(
            sqlite.as_text(row["id"]), as_dict(data), self._make_record(row, "message", data), _created_at(row)
        )

    def read_parts(self, session: str, message: OpencodeMessage, problems: list[Problem]) -> Iterator[OpencodePart]:
        for row in sqlite.read_rows(self._connection, "part", problems, "where message_id = ? order by id", message.id):
            data = self._parse_data(row, "part", problems)
            yield OpencodePart(sqlite.as_text(row["id"]), data, self._make_record(row, "part", data), _created_at(row))

    def _parse_data(self, row: RowLike, table: str, problems: list[Problem]) -> Json:
        """Return the data of a row. Data that cannot be read is a problem and stays text."""
        data = _parse_json(row["data"])
        if not isinstance(data, dict):
            problems.append(Problem(f"{table}:{row['id']}", "The data is not a JSON object."))
            return sqlite.as_text(row["data"])
        return data

    def _make_record(self, row: RowLike, table: str, data: Json) -> NewRecord:
        stable_data = strip_changing(sqlite.as_text(row["data"]).encode("utf-8", "replace"), data).decode(
            "utf-8", "replace"
        )
        return sqlite.record_from_row(
            row, table, row["id"], exclude=("time_updated",), replacements={"data": stable_data}
        )


def _parse_json(text: object) -> Json:
    try:
        return parse(text) if isinstance(text, str) else None
    except BadValue:
        return None


def _created_at(row: RowLike) -> str:
    return sqlite.normalize_time(row["time_created"]) if "time_created" in row.keys() else ""  # noqa: SIM118 sqlite3.Row


# ── the files ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _SessionFiles:
    """Holds the paths of the files of a session."""

    info_file: Path
    messages_folder: Path
    parts_folder: Path
    "Has a folder for each message."


def _find_sessions(storage: Path) -> Iterator[_SessionFiles]:
    """Yield the files of every session. In the oldest layout the parts of each session have a folder of their own."""
    for info in find_session_files(storage):
        parts = storage / "part" / info.stem if info.parent.name == INFO_FOLDER else storage / "part"
        yield _SessionFiles(info, storage / "message" / info.stem, parts)


class FileStorage:
    """Reads sessions from files of both layouts: one folder for all projects, or an older one for each project."""

    def __init__(self, root: Path, problems: list[Problem]) -> None:
        self._root = root
        self._problems = problems
        self._files_by_session = {
            files.info_file.stem: files for storage in list_storages(root) for files in _find_sessions(storage)
        }

    def list_refs(self) -> Iterator[SessionRef]:
        for name, files in self._files_by_session.items():
            info = jsonl.read_json_file(files.info_file, self._problems)
            if not isinstance(info, dict):
                continue
            updated_at = as_time(as_dict(info.get("time")).get("updated"))
            stamps = [jsonl.plain_file_stamp(files.info_file)]
            for message in _list_json_files(files.messages_folder):
                stamps += [message.name, jsonl.plain_file_stamp(message)]
                stamps += [jsonl.plain_file_stamp(part) for part in _list_json_files(files.parts_folder / message.stem)]
            yield SessionRef(name, sqlite.digest(*stamps, sqlite.is_quiet(updated_at)), updated_at)

    def read_info(self, session: str) -> SessionInfo | None:
        files = self._files_by_session.get(session)
        line = jsonl.read_json_record(files.info_file, self._problems) if files else None
        if files is None or line is None:
            return None
        value = as_dict(line.value)
        if not value.get("directory"):
            value = {**value, "directory": self._find_cwd(files)}
        return parse_info(
            value, as_dict(value.get("time")), jsonl.record_from_line(line, self._relative_name(files.info_file))
        )

    def _find_cwd(self, files: _SessionFiles) -> str:
        """Return the folder of a session. In the first layout only the answers name it."""
        for file in _list_json_files(files.messages_folder):
            path = as_dict(as_dict(jsonl.read_json_file(file, [])).get("path"))
            if cwd := as_str(path.get("cwd")) or as_str(path.get("root")):
                return cwd
        return ""

    def read_messages(self, session: str, problems: list[Problem]) -> list[OpencodeMessage]:
        messages = [
            OpencodeMessage(path.stem, data, record, as_time(as_dict(data.get("time")).get("created")))
            for path, data, record in self._read_records(self._files_by_session[session].messages_folder, problems)
        ]
        return sorted(messages, key=lambda message: (message.created_at, message.id))

    def read_parts(self, session: str, message: OpencodeMessage, problems: list[Problem]) -> Iterator[OpencodePart]:
        for path, data, record in self._read_records(
            self._files_by_session[session].parts_folder / message.id, problems
        ):
            yield OpencodePart(path.stem, data, record)

    def _read_records(
        self, folder: Path, problems: list[Problem]
    ) -> Iterator[tuple[Path, Mapping[str, Json], NewRecord]]:
        for path in _list_json_files(folder):
            name = self._relative_name(path)
            line = jsonl.read_json_record(path, problems, name=name)
            if line is not None:
                yield path, as_dict(line.value), NewRecord(strip_changing(line.data, line.value), name)

    def _relative_name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()


def _list_json_files(folder: Path) -> Iterator[Path]:
    return jsonl.walk_files(folder, [], suffixes=(".json",), depth=0)
