"""This module describes a folder in which agents work, and looks up the files around it with few system calls."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from store.paths import read_small_file
from store.resume.git import find_main_work_tree, find_work_tree

MAX_NESTED_FOLDERS = 1_000
MAX_NESTED_DEPTH = 6
"""Limit how far memory files are looked for below a folder."""

_SKIPPED_FOLDERS = frozenset("node_modules target build dist venv __pycache__ site-packages vendor".split())


class FolderListings:
    """Lists folders, each once. One is used for one reading of all files, and then dropped."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, bool]] = {}

    def list_names(self, folder: Path) -> dict[str, bool]:
        """Return the names in a folder, and whether each is a folder. A folder that cannot be read has none."""
        key = str(folder)
        if key not in self._names:
            try:
                with os.scandir(folder) as entries:
                    self._names[key] = {entry.name: entry.is_dir(follow_symlinks=False) for entry in entries}
            except OSError:
                self._names[key] = {}
        return self._names[key]

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders that were listed, also those that do not exist. A new file changes one of them."""
        return tuple(self._names)

    def has(self, path: Path) -> bool:
        return path.name in self.list_names(path.parent)


class Project:
    """Is a folder in which an agent was, or will be, started."""

    def __init__(self, folder: Path, listings: FolderListings | None = None, *, looks_below: bool = False) -> None:
        self.folder = folder
        self.listings = listings or FolderListings()
        self._looks_below = looks_below

    @cached_property
    def root(self) -> Path:
        """The git work tree with the folder in it, or else the folder."""
        return find_work_tree(self.folder) or self.folder

    @cached_property
    def main_root(self) -> Path:
        """The work tree in which the repository was made, or else the folder. A linked one has another `root`."""
        return find_main_work_tree(self.folder) or self.folder

    @property
    def from_root(self) -> list[Path]:
        """The folders from the root to the folder."""
        return [folder for folder in self.from_top if folder.is_relative_to(self.root)]

    @cached_property
    def from_top(self) -> list[Path]:
        """The folders from the top of the disk to the folder, without the top itself."""
        return [folder for folder in reversed([self.folder, *self.folder.parents]) if folder != folder.parent]

    def has_text(self, path: Path) -> bool:
        return self.listings.has(path) and has_text(path)

    @cached_property
    def nested(self) -> list[Path]:
        """The folders below the folder, nearest first, as far as they are looked at."""
        return list(self._walk()) if self._looks_below else []

    def _walk(self) -> Iterator[Path]:
        level, count = [self.folder], 0
        for _ in range(MAX_NESTED_DEPTH):
            level = [child for folder in level for child in self._list_children(folder)]
            for child in level:
                count += 1
                if count > MAX_NESTED_FOLDERS:
                    return
                yield child

    def _list_children(self, folder: Path) -> list[Path]:
        names = self.listings.list_names(folder)
        return [
            folder / name
            for name in sorted(names)
            if names[name] and not name.startswith(".") and name not in _SKIPPED_FOLDERS
        ]

    def find_files(self, folder: Path, suffix: str) -> list[Path]:
        """Return the files in a folder and the folders in it whose names end so, in the order of their paths."""
        found: list[Path] = []
        level = [folder]
        for _ in range(MAX_NESTED_DEPTH):
            found += [
                folder / name
                for folder in level
                for name, is_folder in self.listings.list_names(folder).items()
                if not is_folder and name.endswith(suffix)
            ]
            level = [
                folder / name
                for folder in level
                for name, is_folder in self.listings.list_names(folder).items()
                if is_folder
            ][:MAX_NESTED_FOLDERS]
        return sorted(found)


def has_text(path: Path) -> bool:
    """Return whether there is a file with more than blanks in it."""
    try:
        return bool(read_small_file(path).strip())
    except OSError:
        return False
