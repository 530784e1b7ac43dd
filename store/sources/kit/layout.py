"""This module finds the transcripts in the folder of an agent. It is light, because every sync loads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from store.probes import is_file, is_folder
from store.sources.kit.problem import Problem
from store.sources.kit.stamps import digest, plain_file_stamp, tree_stamp, walk_files, walk_with_stat

_MAX_DETECT_FILES = 50


def begins_with_object(beginning: bytes) -> bool:
    """Return whether the first bytes of a file can be those of a JSON object."""
    return beginning.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"{")


class Layout(NamedTuple):
    """Says where an agent keeps its transcripts. A person may name its folder, one inside, or a single transcript.

    A folder without the agent's own folders in it holds loose transcripts. They are found at any depth and, since
    other files may be among them, by their content.
    """

    folders: tuple[str, ...] = ()
    "Folders inside the agent's own folder that hold transcripts."
    depth: int = 0
    "Counts the levels of folders above the transcripts."
    suffixes: tuple[str, ...] = (".jsonl",)
    is_transcript: Callable[[Path], bool] = lambda path: True
    "Returns whether a file in the agent's own folders is a transcript, by its path."
    knows: Callable[[Path], bool] = lambda path: True
    "Returns whether a loose file is a transcript, by its content."

    def find_files(self, root: Path, problems: list[Problem]) -> Iterator[Path]:
        if os.path.isfile(root):
            yield root
        elif self.has_folders(root):
            yield from filter(self.is_transcript, self.walk(root, problems))
        elif os.path.isdir(root):
            yield from filter(self.knows, self.walk(root, problems))

    def walk(self, root: Path, problems: list[Problem]) -> Iterator[Path]:
        """Yield every file with one of the suffixes, in the agent's own folders or, if there are none, at any depth."""
        for folder in self._list_folders(root):
            yield from walk_files(folder, problems, suffixes=self.suffixes, depth=self.depth)
        if not self.has_folders(root):
            yield from walk_files(root, problems, suffixes=self.suffixes, is_bounded=True)

    def walk_with_stat(self, root: Path, problems: list[Problem]) -> Iterator[tuple[str, os.stat_result]]:
        """Yield the paths that `walk` finds, each with its status."""
        for folder in self._list_folders(root):
            yield from walk_with_stat(folder, problems, suffixes=self.suffixes, depth=self.depth)
        if not self.has_folders(root):
            yield from walk_with_stat(root, problems, suffixes=self.suffixes, is_bounded=True)

    def stamp(self, locator: str) -> str:
        """Return a stamp of the sizes and times of the files; empty when they cannot be read."""
        path = Path(locator)
        if is_file(locator):
            return plain_file_stamp(path)
        stamps = [tree_stamp(folder, suffixes=self.suffixes, depth=self.depth) for folder in self._list_folders(path)]
        if not stamps:
            return tree_stamp(path, suffixes=self.suffixes, is_bounded=True)
        return stamps[0] if len(stamps) == 1 else digest(*stamps) if all(stamps) else ""

    def detect(self, locator: str, is_mine: Callable[[Path], bool]) -> bool:
        """Return whether some of the files are transcripts of this agent, by their content."""
        return any(map(is_mine, islice(self.find_files(Path(locator), []), _MAX_DETECT_FILES)))

    def find_home(self, path: Path, top: Path) -> Path | None:
        """Return the agent's own folder in which a transcript lies: `top` itself, else the innermost below it; None
        when there is none."""
        if self.is_transcript(path):
            for folder in (top, *path.parents[: len(path.parts) - len(top.parts)]):
                if any(_count_levels(path, folder / name) in range(self.depth + 1) for name in self.folders):
                    return folder
        return None

    def has_folders(self, root: Path) -> bool:
        """Return whether a folder looks like the agent's own: one of the folders with transcripts is in it."""
        return bool(self._list_folders(root))

    def _list_folders(self, root: Path) -> list[Path]:
        return [root / name for name in self.folders if is_folder(str(root / name))]


def _count_levels(path: Path, folder: Path) -> int:
    """Return how many folders are between a folder and a file in it; -1 when the file is not in it."""
    return len(path.parts) - len(folder.parts) - 1 if path.is_relative_to(folder) else -1
