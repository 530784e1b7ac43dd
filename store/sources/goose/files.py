"""This module finds the files in which Goose kept sessions before it had a database."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from store.sources.kit import jsonl
from store.sources.kit.jsonl import as_dict


def list_transcripts(folder: Path) -> Iterator[Path]:
    return jsonl.walk_files(folder, [], depth=0)


def is_transcript(path: Path) -> bool:
    """Return whether the first line describes a session of Goose."""
    first = as_dict(next((line.value for line in jsonl.read_json_lines(path, [])), None))
    return isinstance(first.get("working_dir"), str) and "description" in first
