"""This module collects the changes that the calls of a session made, file by file, and writes them as one patch.

The whole content of a file is known only if the session wrote the whole file. A later edit of such a file gets its line
numbers and the lines around it from there. Of any other file only the hunks are known. The module is pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from posixpath import isabs, join, normpath

from store.formats.file_changes import ChangeKind, FileChange, Hunk, compare_texts, format_patch
from store.text.sanitize import one_line

MAX_KNOWN_CHARACTERS = 400_000
"""Limits the content of a file that is followed from edit to edit."""

OUTSIDE = "The file is outside the folder of the session."
NO_NAME = "The call does not name the file."
UNUSABLE_NAME = "The name of the file cannot be written in a patch."
UNUSABLE_TEXT = "The change has line breaks within a line."
DELETED_UNKNOWN = "The content of the deleted file is not known."
OVERWRITTEN_UNKNOWN = "The content that was overwritten is not known."
NO_LINES = "The change has no lines."
REPLACES_ALL = "It replaced every occurrence, and where they are is not known."

_UNUSABLE = re.compile(r'[\x00-\x1f\x7f"\\]')


@dataclass(frozen=True, slots=True)
class CallChange:
    """Is a change of a file and the call that made it."""

    change: FileChange
    "Has the path relative to the folder of the session that was asked for, if it is in there."
    session_id: str
    session_title: str
    "Names the sub-agent that made the change. Is empty for the session itself."
    turn: int
    entry: str | None
    tool: str
    at: str
    replaces_all: bool = False
    "Is true if every occurrence of a text was replaced."
    reason_left_out: str = ""
    "Says why the change cannot be part of a patch. Is empty if it is part of it."

    @property
    def unknown_hunks(self) -> int:
        """The number of hunks whose line numbers are not known."""
        return sum(hunk.old_start is None for hunk in self.change.hunks)


@dataclass(frozen=True, slots=True)
class ChangedFile:
    path: str
    changes: tuple[CallChange, ...]
    added: int
    removed: int
    "Hold the number of lines, because counting a million of them takes long."


@dataclass(frozen=True, slots=True)
class SessionChanges:
    files: tuple[ChangedFile, ...] = ()
    failed_calls: int = 0
    "Counts edits that failed. They are left out."
    pending_calls: int = 0
    "Counts edits without a result. They are left out, because it is not known whether they were made."
    shell_calls: int = 0
    "Counts calls of a shell. What they change is not known."

    @property
    def added(self) -> int:
        return sum(file.added for file in self.files)

    @property
    def removed(self) -> int:
        return sum(file.removed for file in self.files)

    @property
    def unknown_hunks(self) -> int:
        changes = (change for file in self.files for change in file.changes if not change.reason_left_out)
        return sum(change.unknown_hunks for change in changes)

    @property
    def left_out(self) -> list[CallChange]:
        """The changes that cannot be part of a patch."""
        return [change for file in self.files for change in file.changes if change.reason_left_out]


# ── collecting ────────────────────────────────────────────────────────────────────────────────────


def collect_files(changes: Iterable[CallChange]) -> tuple[ChangedFile, ...]:
    """Group changes by file, in the order of the first change of each. Changes of a file stay in their order."""
    files: dict[str, list[CallChange]] = {}
    contents = _KnownContents()
    for change in changes:
        followed = contents.follow(change)
        reason = followed.reason_left_out or _find_fault(followed)
        files.setdefault(change.change.path, []).append(replace(followed, reason_left_out=reason))
    return tuple(_describe_file(path, tuple(found)) for path, found in files.items())


def _describe_file(path: str, changes: tuple[CallChange, ...]) -> ChangedFile:
    added, removed = sum(change.change.added for change in changes), sum(change.change.removed for change in changes)
    return ChangedFile(path, changes, added, removed)


def resolve_path(path: str, cwd: str, root: str) -> str:
    """Return a path that a call named in the folder `cwd`, relative to the folder `root` if it is in there."""
    if not path:
        return ""
    path = normpath(path if isabs(path) or not cwd else join(cwd, path))
    return path.removeprefix(normpath(root).rstrip("/") + "/") if root else path


class _KnownContents:
    """Follows the contents of files from change to change, as far as they are known."""

    def __init__(self) -> None:
        self._contents: dict[str, str | None] = {}
        "Holds the files that exist after the changes so far. A content that is not known is None."

    def follow(self, change: CallChange) -> CallChange:
        """Return the change with what the content of the file before it tells."""
        path, moved_to = change.change.path, change.change.moved_to
        existed, before = path in self._contents, self._contents.pop(path, None)
        after = self._content_after(change, before)
        if change.change.kind != "delete":
            # A diff does not tell whether the last line had a line break before, so such a content is not followed.
            self._contents[moved_to or path] = after if after is not None and after.endswith("\n") else None
        if before is not None and after is not None:
            return _compare_contents(change, before, after)
        is_whole = change.change.kind in ("add", "write")
        return replace(change, reason_left_out=OVERWRITTEN_UNKNOWN) if is_whole and existed else change

    def _content_after(self, change: CallChange, before: str | None) -> str | None:
        if change.change.kind in ("add", "write"):
            return _new_text(change.change.hunks)
        if before is None:
            return None
        if change.change.kind == "delete":
            return ""
        return _apply_hunks(before, change.change.hunks, replaces_all=change.replaces_all)


def _compare_contents(change: CallChange, before: str, after: str) -> CallChange:
    kind: ChangeKind = "delete" if change.change.kind == "delete" else "update"
    hunks = tuple(compare_texts(before, after, is_whole=True))
    return replace(change, change=replace(change.change, hunks=hunks, kind=kind), replaces_all=False)


def _new_text(hunks: Sequence[Hunk]) -> str:
    text = "\n".join(line.text for hunk in hunks for line in hunk.lines if line.sign != "-")
    return text if not hunks or hunks[-1].ends_without_newline else text + "\n"


def _apply_hunks(content: str, hunks: Iterable[Hunk], *, replaces_all: bool) -> str | None:
    """Return the content after an edit, or None if it is not clear where the edit was made."""
    for hunk in hunks:
        old, new = ("\n".join(line.text for line in hunk.lines if line.sign != sign) for sign in "+-")
        if not old or old not in content or (content.count(old) > 1 and not replaces_all):
            return None
        content = content.replace(old, new)
    return content if len(content) <= MAX_KNOWN_CHARACTERS else None


def _find_fault(change: CallChange) -> str:
    """Return why a change cannot be part of a patch, or nothing."""
    names = [name for name in (change.change.path, change.change.moved_to) if name]
    if not change.change.path:
        return NO_NAME
    if any(isabs(name) or name.split("/")[0] == ".." for name in names):
        return OUTSIDE
    if any(map(_UNUSABLE.search, names)):
        return UNUSABLE_NAME
    if any("\n" in line.text for hunk in change.change.hunks for line in hunk.lines):
        return UNUSABLE_TEXT
    if change.change.kind == "delete" and not change.change.hunks:
        return DELETED_UNKNOWN
    if change.replaces_all and change.unknown_hunks:
        return REPLACES_ALL
    has_lines = bool(change.change.added or change.change.removed)
    return "" if has_lines or change.change.moved_to or change.change.kind in ("add", "write") else NO_LINES


# ── one patch ─────────────────────────────────────────────────────────────────────────────────────


def format_file_patch(file: ChangedFile) -> str:
    """Return the changes of one file as a patch, in the order in which they were made.

    Each has its own header, because the line numbers of a later one count the lines that an earlier one added.
    """
    return "".join(map(_format_call_change, _skip_deleted(file.changes)))


def _skip_deleted(changes: Sequence[CallChange]) -> Sequence[CallChange]:
    """Leave out the time between the creation of a file and its deletion. git would create a deleted file again."""
    deleted = [n for n, change in enumerate(changes, 1) if change.change.kind == "delete"]
    was_created = bool(changes) and changes[0].change.kind in ("add", "write")
    return changes[deleted[-1] :] if deleted and was_created else changes


def format_session_patch(changes: SessionChanges, title: str) -> str:
    """Return all changes as one patch. It begins with what it does not contain."""
    head = [one_line(f"Changes of {title}"), "Apply it with `patch -p1`."]
    if changes.unknown_hunks:
        head.append(f"Line numbers that are not known: {changes.unknown_hunks:,}. The places are found by the lines.")
    head += [
        one_line(f"Left out: turn {change.turn}, {change.change.path or '?'}. {change.reason_left_out}")
        for change in changes.left_out
    ]
    return "".join(f"# {line}\n" for line in head) + "".join(map(format_file_patch, changes.files))


def _format_call_change(change: CallChange) -> str:
    if change.reason_left_out:
        return ""
    session = f", {change.session_title}" if change.session_title else ""
    title = one_line(f"turn {change.turn}{session}, {change.tool}")
    unknown = " (line numbers not known)" if change.unknown_hunks else ""
    return f"\n# {title}{unknown}\n{format_patch([change.change])}"
