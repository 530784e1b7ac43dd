"""This module reads the memory files of all agents. They are the truth, so nothing of them is stored here."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import BadValue, NotFound
from store.memory.budget import build_budget
from store.memory.context import FileCache, load_context
from store.memory.project import FolderListings, Project
from store.memory.rules import AGENTS, RULES, AgentRules
from store.model.memory import ListedFile, MemoryBudget, MemoryFile, MemoryUse

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
        files, listings = FileCache(), FolderListings()
        found: dict[str, tuple[MemoryFile, dict[MemoryUse, None]]] = {}
        chosen = self.list_folders() if folders is None else list(folders)
        for folder in chosen or [Path.home()]:
            project = Project(folder, listings, looks_below=folders is not None)
            for rules in _choose_rules(agents):
                for context in load_context(rules, project, files):
                    place = context.place
                    owner = str(place.folder) if place.scope == "folder" and place.folder else ""
                    use = MemoryUse(rules.agent, place.scope, owner, place.tier)
                    found.setdefault(context.file.path, (context.file, {}))[1][use] = None
        return [ListedFile(file, tuple(uses)) for file, uses in found.values()]

    def budget(self, folder: Path, agents: Sequence[str] = AGENTS) -> MemoryBudget:
        """Say what each agent loads in a folder, and what is in there twice or with different values."""
        files, project = FileCache(), Project(folder, looks_below=True)
        contexts = {rules.agent: load_context(rules, project, files) for rules in _choose_rules(agents)}
        return build_budget(str(folder), contexts)


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
