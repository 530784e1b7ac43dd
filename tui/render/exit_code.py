"""The exit status of a command, where its result tells."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TypeVar

from store.model.entry import Json
from tui.json_document.parser import json_in

T = TypeVar("T")

_FIELDS = ("exit_code", "exitCode", "exit_status", "exitStatus", "returncode", "return_code", "exit")
_AROUND = ("metadata", "details", "output", "result", "structuredContent")
_IN_RECORDS = ("shellExecution", "state", "data", "payload")
_WITHIN = (*_AROUND, *_IN_RECORDS, "text", "content", "stdout")
"""Fields that a status may stand within."""

IN_A_RECORD = 6
"""So deep it may stand in a whole record."""

_SAID = re.compile(
    r"\W*(?:error: ?)?(?:the )?(?:(?:process|command|shell|program) )?(?:failed |finished |ended |exited )?(?:with )?"
    r"exit(?:ed)?(?: with)?(?: code| status| value)*:? ?(?P<code>-?\d{1,10})\W*",
    re.IGNORECASE,
)
_LINES = 5
"""From either end of a text."""

_CHARACTERS = 2_000
_LONGEST_JSON = 100_000


def exit_code(result: Json, levels: int = 4) -> int | None:
    """From a field that says so, or a line that says nothing else at the beginning or the end of the text."""
    if not levels:
        return None
    if isinstance(result, Mapping):
        for name in _FIELDS:
            code = result.get(name)
            if isinstance(code, int) and not isinstance(code, bool):
                return code
        return _first(exit_code(result.get(name), levels - 1) for name in _WITHIN)
    if isinstance(result, list):
        return _first(exit_code(item, levels - 1) for item in result[:_LINES])
    return _said(result, levels) if isinstance(result, str) else None


def _said(text: str, levels: int) -> int | None:
    inside = json_in(text) if len(text) <= _LONGEST_JSON else None
    if isinstance(inside, dict):
        return exit_code(inside, levels - 1)
    lines = text[:_CHARACTERS].split("\n")[:_LINES] + text[-_CHARACTERS:].rstrip().split("\n")[-_LINES:]
    said = _first(_SAID.fullmatch(line) for line in lines if len(line) < 100)
    return int(said["code"]) if said is not None else None


def _first(found: Iterable[T | None]) -> T | None:
    return next((item for item in found if item is not None), None)
