"""This module finds the transcripts in the folder of an agent. It is light, because every sync loads it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from store.sources.kit.problem import Problem
from store.sources.kit.stamps import plain_file_stamp, tree_stamp, walk_files

_MAX_DETECT_FILES = 50


class Layout(NamedTuple):
    """Says where an agent keeps its transcripts. A person may name its folder, one inside, or a single transcript."""

    folders: tuple[str, ...] = ()
    "Folders inside the agent's own folder. The first that exists is used, else the agent's own folder."
    depth: int = 0
    "Counts the levels of folders above the transcripts."
    suffixes: tuple[str, ...] = (".jsonl",)
    is_transcript: Callable[[Path], bool] = lambda path: True
    "Returns whether a file is a transcript."

    def find_files(self, root: Path, problems: list[Problem]) -> Iterator[Path]:
        if os.path.isfile(root):
            yield root
        elif os.path.isdir(folder := self._transcript_folder(root)):
            yield from filter(
                self.is_transcript, walk_files(folder, problems, suffixes=self.suffixes, depth=self.depth)
            )

    def stamp(self, locator: str) -> str:
        """Return a stamp of the sizes and times of the files; empty when they cannot be read."""
        path = Path(locator)
        if os.path.isfile(path):
            return plain_file_stamp(path)
        return tree_stamp(self._transcript_folder(path), suffixes=self.suffixes, depth=self.depth)

    def detect(self, locator: str, is_mine: Callable[[Path], bool]) -> bool:
        """Return whether some of the files are transcripts of this agent, by their content."""
        return any(map(is_mine, islice(self.find_files(Path(locator), []), _MAX_DETECT_FILES)))

    def _transcript_folder(self, root: Path) -> Path:
        return next((root / name for name in self.folders if os.path.isdir(root / name)), root)
