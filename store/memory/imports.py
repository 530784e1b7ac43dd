"""This module finds the files that a memory file imports with `@path`. It is pure."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from store.export.fences import split_fences

MAX_IMPORTS = 100
"""Limits the imports of one file."""

MAX_LINE_CHARACTERS = 10_000
"""Limits the lines in which imports are looked for."""

_CODE = re.compile(r"`[^`]*`")
_IMPORT = re.compile(r"(?:^|(?<=\s))@((?:\\ |[^\s`])+)")
_COMMENT = re.compile(r"<!--.*?-->", re.S)


def find_imports(text: str) -> Iterator[str]:
    """Yield the paths that a text imports, each once. What is in code or in a comment imports nothing."""
    found = dict.fromkeys(
        match[1].replace("\\ ", " ")
        for part in split_fences(_COMMENT.sub(" ", text))
        if not part.is_code
        for line in part.text.split("\n")
        if "@" in line and len(line) <= MAX_LINE_CHARACTERS
        for match in _IMPORT.finditer(_CODE.sub(" ", line))
    )
    yield from [name for name in found if "\0" not in name][:MAX_IMPORTS]


def resolve_import(name: str, importer: Path) -> Path:
    """Return the path that an import names: relative to the importing file, in the home folder, or absolute."""
    return Path(os.path.normpath(importer.parent / os.path.expanduser(name)))
