"""Outputs too long for opencode's database: it keeps their end, and all it could write of them in a file beside."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from store.model.entry import Json
from store.sources.kit import jsonl
from store.sources.kit.jsonl import as_dict, as_str

LONGEST_OUTPUT = 8 * 1024 * 1024
OUTPUTS_FOLDER = "tool-output"

_FILE_NAME = re.compile(r"tool_\w+")
_TRUNCATED_NOTE = re.compile(r"\A\.\.\.output truncated\.\.\.\s+Full output saved to: [^\n]*\n\n?")
_OVERLAP = 200


def read_full_output(state: Mapping[str, Json], folder: Path | None) -> Json:
    """The file and the end joined where they meet. The file may itself be cut short, or be gone."""
    output = state.get("output")
    metadata = as_dict(state.get("metadata"))
    name = as_str(metadata.get("outputPath")).replace("\\", "/").rpartition("/")[2]
    if folder is None or metadata.get("truncated") is not True or not _FILE_NAME.fullmatch(name):
        return output
    note = _TRUNCATED_NOTE.match(output) if isinstance(output, str) else None
    saved = _read_saved(folder / name) if note else ""
    if note is None or not saved or not isinstance(output, str):
        return output
    end = output[note.end() :]
    at = saved.rfind(end[:_OVERLAP]) if end else -1
    if at >= 0:
        return saved[:at] + end if len(end) > len(saved) - at else saved
    return f"{saved}\n…\n{end}" if end else saved


def _read_saved(path: Path) -> str:
    """Only what lies in the folder itself: a link could lead anywhere."""
    try:
        if path.is_symlink() or path.stat().st_size > LONGEST_OUTPUT:
            return ""
        with jsonl.open_file(path) as file:
            return file.read(LONGEST_OUTPUT).decode("utf-8", "replace")
    except jsonl.PATH_ERRORS:
        return ""
