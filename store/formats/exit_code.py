"""This module finds the exit code of a command in its result."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from store.errors import BadValue
from store.model.entry import Json
from store.text.validate import parse

T = TypeVar("T")

_CODE_FIELDS = ("exit_code", "exitCode", "exit_status", "exitStatus", "returncode", "return_code", "exit")
_WRAPPER_FIELDS = ("metadata", "details", "output", "result", "structuredContent")
_RECORD_FIELDS = ("shellExecution", "state", "data", "payload")
_NESTED_FIELDS = (*_WRAPPER_FIELDS, *_RECORD_FIELDS, "text", "content", "stdout")
"""Lists the fields that may contain an exit code at a deeper level."""

RECORD_DEPTH = 6
"""The depth at which an exit code is searched for in a whole record."""

_EXIT_LINE = re.compile(
    r"\W*(?:error: ?)?(?:the )?(?:(?:process|command|shell|program) )?(?:failed |finished |ended |exited )?(?:with )?"
    r"exit(?:ed)?(?: with)?(?: code| status| value)*:? ?(?P<code>-?\d{1,10})\W*",
    re.IGNORECASE,
)
_LINES_CHECKED = 5
"""The number of lines to check at each end of a text."""

_CHARACTERS_CHECKED = 2_000
_MAX_JSON_CHARACTERS = 100_000
_MAX_EXIT_LINE_CHARACTERS = 100


def find_exit_code(result: Json, max_depth: int = 4) -> int | None:
    """Find the exit code in a known field, or in a line near the start or the end of the text that has nothing else."""
    if not max_depth:
        return None
    if isinstance(result, Mapping):
        for name in _CODE_FIELDS:
            code = result.get(name)
            if isinstance(code, int) and not isinstance(code, bool):
                return code
        return _first_found(find_exit_code(result.get(name), max_depth - 1) for name in _NESTED_FIELDS)
    if isinstance(result, list):
        return _first_found(find_exit_code(item, max_depth - 1) for item in result[:_LINES_CHECKED])
    return _find_in_text(result, max_depth) if isinstance(result, str) else None


def _find_in_text(text: str, max_depth: int) -> int | None:
    if (fields := _parse_object(text)) is not None:
        return find_exit_code(fields, max_depth - 1)
    lines = (
        text[:_CHARACTERS_CHECKED].split("\n")[:_LINES_CHECKED]
        + text[-_CHARACTERS_CHECKED:].rstrip().split("\n")[-_LINES_CHECKED:]
    )
    match = _first_found(map(_match_exit_line, lines))
    return int(match["code"]) if match is not None else None


def is_exit_line(line: str) -> bool:
    """Return whether a line says nothing but the exit code."""
    return _match_exit_line(line) is not None


def _match_exit_line(line: str) -> re.Match[str] | None:
    return _EXIT_LINE.fullmatch(line) if len(line) < _MAX_EXIT_LINE_CHARACTERS else None


def _parse_object(text: str) -> Mapping[str, Json] | None:
    """Return the JSON object that a text consists of, or None."""
    ends = text[:100].lstrip()[:1] + text[-100:].rstrip()[-1:]
    if ends != "{}" or len(text) > _MAX_JSON_CHARACTERS:
        return None
    try:
        value = parse(text)
    except BadValue:
        return None
    return value if isinstance(value, dict) else None


def _first_found(candidates: Iterable[T | None]) -> T | None:
    return next((item for item in candidates if item is not None), None)
