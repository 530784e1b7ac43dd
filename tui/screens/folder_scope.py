"""This module lists the folders to which a list of sessions or tool calls can be limited."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from store.resume.git import find_work_tree


class FolderScope(NamedTuple):
    name: str
    folder: str


def list_folder_scopes(folder: Path | None) -> list[FolderScope]:
    """Return everywhere, the folder, and the git work tree around it if that is another folder."""
    scopes = [FolderScope("everywhere", "")]
    if folder is not None:
        scopes.append(FolderScope(f"in {folder.name or folder}", str(folder)))
        work_tree = find_work_tree(folder)
        if work_tree and work_tree != folder:
            scopes.append(FolderScope(f"in work tree {work_tree.name}", str(work_tree)))
    return scopes


def next_folder_scope(scopes: Sequence[FolderScope], folder: str) -> FolderScope:
    """Return the scope after the one of this folder; the first follows the last."""
    folders = [scope.folder for scope in scopes]
    return scopes[(folders.index(folder) + 1) % len(scopes)]


def current_folder() -> Path | None:
    """Return the working folder, or None if it was deleted while the program runs."""
    try:
        return Path.cwd()
    except OSError:
        return None
