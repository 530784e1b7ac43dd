"""This module answers questions about git repositories by reading their files.

It never runs git, because a repository can configure programs that git would run.
"""

from __future__ import annotations

from pathlib import Path

from store.paths import read_small_file

_BRANCH_PREFIX = "ref: refs/heads/"
_MAX_HEAD_CHARACTERS = 1_000


def find_work_tree(folder: Path) -> Path | None:
    """Return the git work tree that contains a folder. In a linked work tree, `.git` is a file."""
    return next((parent for parent in (folder, *folder.parents) if (parent / ".git").exists()), None)


def find_main_work_tree(folder: Path) -> Path | None:
    """Return the work tree in which the repository of a folder was made. Linked work trees lead to it."""
    tree = find_work_tree(folder)
    try:
        git = _find_git_folder(tree) if tree else None
    except (OSError, ValueError):
        return tree
    is_linked = git is not None and git.parent.name == "worktrees" and git.parent.parent.name == ".git"
    return git.parent.parent.parent if git is not None and is_linked else tree


def read_branch(folder: Path) -> str | None:
    """Return the branch that is checked out in a folder.

    It is empty if no branch is checked out or the folder is not in a repository. It is None if it cannot be read.
    """
    try:
        if not folder.is_dir():
            return None
        tree = find_work_tree(folder.absolute())
        head = _read_start(_find_git_folder(tree) / "HEAD").strip() if tree else ""
    except (OSError, ValueError):
        return None
    branch = head.removeprefix(_BRANCH_PREFIX)
    # A repository that stores its branches in a reftable has this invalid name in HEAD.
    return None if branch == ".invalid" else branch if head.startswith(_BRANCH_PREFIX) else ""


def _find_git_folder(tree: Path) -> Path:
    """Return the git folder of a work tree. Linked work trees and submodules have a file that names it."""
    git = tree / ".git"
    if git.is_dir():
        return git
    return tree / _read_start(git).removeprefix("gitdir:").strip()


def _read_start(path: Path) -> str:
    return read_small_file(path).decode()[:_MAX_HEAD_CHARACTERS]
