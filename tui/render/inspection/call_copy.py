"""This module finds the part of a tool call that a person copies: its command or patch, its path, or its output."""

from __future__ import annotations

from typing import Literal, NamedTuple

from store.formats.file_changes import find_changes, find_command, find_paths, format_patch
from store.model.entry import Json, PairedCall, readable_text
from tui.render.styles import format_count

CallPart = Literal["command", "path", "output"]

MISSING_PART: dict[CallPart, str] = {
    "command": "This call has no command.",
    "path": "This call has no path.",
    "output": "This call has no output.",
}
"""Says that a call does not have what should be copied."""


class CopiedPart(NamedTuple):
    text: str
    description: str


def find_copied_part(call: PairedCall, part: CallPart, cwd: str = "", record: Json = None) -> CopiedPart | None:
    """Return what is copied, or None if the call does not have it.

    The command of an edit is its patch, relative to `cwd`. `record` is what the agent recorded with the result.
    """
    match part:
        case "command":
            return _find_command_or_patch(call, cwd, record)
        case "path":
            paths = find_paths(call.name, call.arguments)
            description = "the path" if len(paths) == 1 else format_count(len(paths), "path")
            return CopiedPart("\n".join(paths), description) if paths else None
        case "output":
            output = readable_text(call.result)
            return CopiedPart(output, "the output") if output else None


def _find_command_or_patch(call: PairedCall, cwd: str, record: Json) -> CopiedPart | None:
    if changes := find_changes(call.name, call.arguments, record):
        return CopiedPart(format_patch(changes, cwd), "the patch")
    command = find_command(call.name, call.arguments)
    return CopiedPart(command, "the command") if command else None
