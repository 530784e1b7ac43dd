"""Outputs too long for opencode's database: it keeps their end, and all it could write of them in a file beside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from store.model.entry import Json
from store.sources.kit import jsonl
from store.sources.kit.jsonl import mapping, words

LONGEST_OUTPUT = 8 * 1024 * 1024
FOLDER = "tool-output"

_NAME = re.compile(r"tool_\w+")
_NOTE = re.compile(r"\A\.\.\.output truncated\.\.\.\s+Full output saved to: [^\n]*\n\n?")
_OVERLAP = 200


def whole_output(state: Mapping[str, Json], folder: Path | None) -> Json:
    """The file and the end joined where they meet. The file may itself be cut short, or be gone."""
    output = state.get("output")
    metadata = mapping(state.get("metadata"))
    name = words(metadata.get("outputPath")).replace("\\", "/").rpartition("/")[2]
    if folder is None or metadata.get("truncated") is not True or not _NAME.fullmatch(name):
        return output
    note = _NOTE.match(output) if isinstance(output, str) else None
    saved = _saved(folder / name) if note else ""
    if note is None or not saved or not isinstance(output, str):
        return output
    end = output[note.end() :]
    at = saved.rfind(end[:_OVERLAP]) if end else -1
    if at >= 0:
        return saved[:at] + end if len(end) > len(saved) - at else saved
    return f"{saved}\n…\n{end}" if end else saved


def _saved(path: Path) -> str:
    """Only what lies in the folder itself: a link could lead anywhere."""
    try:
        if path.is_symlink() or path.stat().st_size > LONGEST_OUTPUT:
            return ""
        with jsonl.opened(path) as file:
            return file.read(LONGEST_OUTPUT).decode("utf-8", "replace")
    except jsonl.UNREADABLE:
        return ""
