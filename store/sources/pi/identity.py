"""This module finds the ids of pi's sessions. They are in the first record of a file, and in its name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from store.model.entry import Json
from store.sources.kit.jsonl import as_str
from store.text.validate import replace_surrogates

_ID_IN_FILE_NAME = re.compile(r"_([^_/\\]+)\.jsonl$")


def find_native_id(header: Mapping[str, Json], path: Path) -> str:
    """Return the id in the header, or in the name of the file if the header is lost."""
    return replace_surrogates(as_str(header.get("id")) or _id_from_file_name(path.name))


def find_parent(header: Mapping[str, Json]) -> tuple[str, str]:
    """Return the file of the session that this one was forked from, and its id. Both are empty if there is none."""
    path = as_str(header.get("parentSession")).replace("\\", "/")
    return path, replace_surrogates(_id_from_file_name(path))


def _id_from_file_name(name: str) -> str:
    match = _ID_IN_FILE_NAME.search(name)
    return match.group(1) if match else ""
