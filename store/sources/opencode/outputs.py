"""This module reads tool outputs that are too long for opencode's database.

The database has the end of such an output. A file has as much of it as opencode could write.
"""

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
    """Return the output, with the file and the end joined where they overlap. The file may be incomplete or missing."""
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
    overlap = saved.rfind(end[:_OVERLAP]) if end else -1
    if overlap >= 0:
        return saved[:overlap] + end if len(end) > len(saved) - overlap else saved
    return f"{saved}\n…\n{end}" if end else saved


def _read_saved(path: Path) -> str:
    """Return the content of the file. A symbolic link is not followed, because it could lead anywhere."""
    try:
        if path.is_symlink() or path.stat().st_size > LONGEST_OUTPUT:
            return ""
        with jsonl.open_file(path) as file:
            return file.read(LONGEST_OUTPUT).decode("utf-8", "replace")
    except jsonl.PATH_ERRORS:
        return ""
