"""This module reads the memory files of all agents. They are the truth, so nothing of them is stored here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import BadValue, NotFound, Unreadable
from store.memory.blame import blame_lines
from store.memory.budget import build_budget
from store.memory.context import FileCache, load_context
from store.memory.files import read_memory_file
from store.memory.lines import normalize
from store.memory.loading_sessions import find_loading_sessions
from store.memory.merging import KeyMerger
from store.memory.project import FolderListings, Project
from store.memory.rules import AGENTS, RULES, AgentRules, person_folder
from store.model.memory import (
    BlamedLine,
    FileBlame,
    KeyConflict,
    LineOrigin,
    ListedFile,
    MemoryBudget,
    MemoryFile,
    MemoryListing,
    MemoryUse,
    MergePlan,
)
from store.resume.git import find_work_tree
from store.text.validate import decode

if TYPE_CHECKING:
    from store.store import Store

MAX_FOLDERS = 500
"""Limits the folders of sessions whose files are read. The newest are taken."""

_SELECT_FOLDERS = """
    select cwd from sessions where deleted = 0 and cwd != '' group by cwd order by max(updated_at) desc limit ?
"""


class MemoryFiles:
    """Reads, traces and writes memory files. This is the collection `store.memory_files`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list_folders(self) -> list[Path]:
        """Return the folders in which agents were started and which still exist, the newest first."""
        paths = (Path(cwd) for (cwd,) in self._store.rows(_SELECT_FOLDERS, MAX_FOLDERS) if "\0" not in cwd)
        return [path for path in paths if path.is_absolute() and os.path.isdir(path)]

    def list_files(self, folders: Iterable[Path] | None = None, agents: Sequence[str] = AGENTS) -> list[ListedFile]:
        """Return the files that agents load in these folders, or in all folders with sessions.

        Folders below the given ones are looked at, too. Those of sessions are not, because there can be many.
        """
        return list(self.read_listing(folders, agents).files)

    def read_listing(self, folders: Iterable[Path] | None = None, agents: Sequence[str] = AGENTS) -> MemoryListing:
        """Read the files as `list_files` does, with what tells whether they changed since."""
        files, listings = FileCache(), FolderListings()
        found: dict[str, tuple[MemoryFile, dict[MemoryUse, None]]] = {}
        chosen = self.list_folders() if folders is None else list(folders)
        for folder in chosen or [Path.home()]:
            project = Project(folder, listings, looks_below=folders is not None)
            for rules in _choose_rules(agents):
                for context in load_context(rules, project, files):
                    place = context.place
                    owner = str(place.folder) if place.scope == "folder" and place.folder else ""
                    use = MemoryUse(rules.agent, place.scope, owner, place.tier, context.loaded.when)
                    found.setdefault(context.file.path, (context.file, {}))[1][use] = None
        watched = (*listings.folders, *found)
        return MemoryListing(
            tuple(ListedFile(file, tuple(uses)) for file, uses in found.values()), watched, stamp_paths(watched)
        )

    def budget(self, folder: Path, agents: Sequence[str] = AGENTS) -> MemoryBudget:
        """Say what each agent loads in a folder, and what is in there twice or with different values."""
        return self._build_budget(Project(folder, looks_below=True), agents)

    def list_conflicts(self, folder: Path, agents: Sequence[str] = AGENTS) -> tuple[KeyConflict, ...]:
        """Return the keys with different values in what agents load in a folder. Folders below it do not matter."""
        return self._build_budget(Project(folder), agents).conflicts

    def _build_budget(self, project: Project, agents: Sequence[str]) -> MemoryBudget:
        files = FileCache()
        contexts = {rules.agent: load_context(rules, project, files) for rules in _choose_rules(agents)}
        return build_budget(str(project.folder), contexts)

    def find_conflict(self, folder: Path, key: str, agents: Sequence[str] = AGENTS) -> KeyConflict:
        """Return the different values of a key in what agents load in a folder."""
        wanted = normalize(key.removesuffix(":"))
        conflicts = self.list_conflicts(folder, agents)
        if found := next((conflict for conflict in conflicts if conflict.key == wanted), None):
            return found
        known = f" There are: {', '.join(conflict.key for conflict in conflicts)}." if conflicts else ""
        raise NotFound(f"No key {key!r} has different values in what agents load in {folder}.{known}")

    def plan_merge(self, conflict: KeyConflict, text: str) -> MergePlan:
        """Plan to give all lines of a key one text, in their files and facts. Nothing is written."""
        return KeyMerger(self._store).plan(conflict, text)

    def merge(self, plan: MergePlan) -> Path | None:
        """Make a merge as it was planned, and return the path of the backup."""
        return KeyMerger(self._store).merge(plan)

    def blame(self, path: Path, number: int | None = None) -> FileBlame:
        """Say who wrote each line of a file, or only the fact on one line, and which sessions loaded it since."""
        file = self.read(path)
        lines = [line for line in file.lines if number is None or line.number <= number <= line.last_number]
        if number is not None and not lines:
            raise NotFound(f"{path} has no fact on line {number}.")
        pushed = self._load_pushed(file)
        blamed = tuple(_blame_push(found, pushed) for found in blame_lines(self._store, file, lines))
        uses = [
            use for listed in self.list_files([Path(file.path).parent]) for use in listed.uses if listed.file == file
        ]
        since = max((found.origin.at for found in blamed), default="")
        count, loading = find_loading_sessions(self._store, uses, since, [line.text for line in lines])
        (unread,) = self._store.row("select count(*) from sessions where depth = 'text' and deleted = 0")
        return FileBlame(file, blamed, count, loading, unread)

    def _load_pushed(self, file: MemoryFile) -> dict[str, int]:
        """Return the fact of each line that we pushed into a file."""
        row = self._store.row("select lines from memory_blocks where path = ?", file.path)
        return {line: fact for fact, line in decode(row[0])} if row else {}

    def read(self, path: Path) -> MemoryFile:
        """Read one memory file. A link may lead anywhere in its project; that of a person, in the home folder."""
        full = Path(os.path.abspath(path.expanduser()))
        is_of_person = any(full.is_relative_to(person_folder(agent)) for agent in AGENTS)
        file = read_memory_file(full, Path.home() if is_of_person else find_work_tree(full.parent) or full.parent)
        if file is None:
            raise NotFound(f"No such file: {path}.")
        if not file.is_readable:
            raise Unreadable(file.problem)
        return file


def _blame_push(blamed: BlamedLine, pushed: Mapping[str, int]) -> BlamedLine:
    """Return the blame of a line that was pushed from here, if it was."""
    fact = pushed.get(blamed.line.text)
    return replace(blamed, origin=LineOrigin("fact", fact=fact), earlier=()) if fact else blamed


def stamp_paths(paths: Iterable[str]) -> tuple[tuple[int, int, int] | None, ...]:
    """Return what changes when one of the files or folders does. It takes a few milliseconds."""
    return tuple(map(_stamp, paths))


def _stamp(path: str) -> tuple[int, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _choose_rules(agents: Sequence[str]) -> list[AgentRules]:
    if unknown := [agent for agent in agents if agent not in AGENTS]:
        raise BadValue(f"No memory files are known of {unknown[0]!r}. Use one of: {', '.join(AGENTS)}.")
    return [rules for rules in RULES if rules.agent in agents]


def find_folder(path: Path) -> Path:
    """Return an existing folder as an absolute path."""
    folder = Path(os.path.abspath(path.expanduser()))
    if not folder.is_dir():
        raise NotFound(f"No such folder: {path}.")
    return folder
