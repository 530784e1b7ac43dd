"""This module reads the records of a transcript from either form: lines of JSON, or the one object in which Claude
Code on the web gives out a session, with the same records in `loglines`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.errors import BadValue
from store.model.entry import Json
from store.sources.claude_code.record import ClaudeRecord
from store.sources.contract import Problem
from store.sources.kit import jsonl
from store.sources.kit.jsonl import JsonLine, as_dict
from store.sources.kit.stamps import error_text

WEB_SUFFIX = ".json"
_MESSAGE_TYPES = ("user", "assistant")
_RECORD_DEPTH = 2
"""The records are in a list in an object."""


def read_records(path: Path, problems: list[Problem]) -> Iterator[JsonLine]:
    return _read_loglines(path, problems) if path.suffix == WEB_SUFFIX else jsonl.read_json_lines(path, problems)


def read_cached_records(path: Path, problems: list[Problem]) -> Iterator[tuple[JsonLine, ClaudeRecord]]:
    """Yield the same records; repeated reads of one file of lines parse it once, unless it is too large."""
    if path.suffix == WEB_SUFFIX:
        return map(_understand, _read_loglines(path, problems))
    return _records.read(path, problems)


def _understand(line: JsonLine) -> tuple[JsonLine, ClaudeRecord]:
    return line, ClaudeRecord(line.value)


_records = jsonl.LineCache(_understand)


def _read_loglines(path: Path, problems: list[Problem]) -> Iterator[JsonLine]:
    """Yield the records of a session. A message that does not name its place in the session follows the one before."""
    from store.sources.kit import exports  # imported here, because few files need it

    previous: str | None = None
    try:
        with jsonl.open_file(path) as file:
            items = exports.split_array(file, str(path), problems, depth=_RECORD_DEPTH)
            for number, item in enumerate(items):
                try:
                    record = as_dict(jsonl.parse_json(item.data))
                except BadValue as reason:
                    problems.append(Problem(f"{path}:{item.offset}", str(reason)))
                    continue
                if not isinstance(record.get("type"), str):
                    continue
                value: dict[str, Json] = {"sessionId": path.stem, **record}
                if record["type"] in _MESSAGE_TYPES and "uuid" not in record:
                    value |= {"uuid": f"logline-{number}", "parentUuid": previous}
                previous = value.get("uuid", previous)
                yield JsonLine(item.offset, item.data, value)
    except jsonl.PATH_ERRORS as reason:
        problems.append(Problem(str(path), f"It cannot be read: {error_text(reason)}."))
