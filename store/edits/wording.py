"""This module says in plain words what an edit did, for the journal of the browser and the command `log`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from store.edits.diff import SEARCH_TABLE, ColumnDiff, diff_foreign_rows, diff_own_rows, list_locators
from store.model.knowledge import FOREIGN_TABLE, Edit, EditLabels
from store.sources import source_label
from store.text.sanitize import one_line

MAX_CHANGES = 200
"""Limits the changes that are looked at, because an edit may have changed thousands of rows."""

MAX_QUOTE_CHARACTERS = 60
"""Limits each text that is quoted in a phrase."""


class KindWords(NamedTuple):
    """Names a kind of edit: as a state for a list, and as a phrase that can follow “Undone:”."""

    label: str
    phrase: str
    "Contains the session and the subject of the edit, quoted."


_KINDS = {
    "title": KindWords("title changed", "title {subject} of {session}"),
    "pin": KindWords("pinned", "pinning {session}"),
    "unpin": KindWords("unpinned", "unpinning {session}"),
    "archive": KindWords("archived", "archiving {session}"),
    "unarchive": KindWords("unarchived", "unarchiving {session}"),
    "delete": KindWords("moved to trash", "moving {session} to the trash"),
    "restore": KindWords("restored from trash", "restoring {session} from the trash"),
    "fork": KindWords("forked", "fork {session}"),
    "tag": KindWords("tagged", "tag {subject} on {session}"),
    "untag": KindWords("untagged", "removing the tag {subject} from {session}"),
    "note": KindWords("note added", "note {subject} on {session}"),
    "comment": KindWords("comment added", "comment {subject} on {session}"),
    "edit note": KindWords("note edited", "editing the note {subject} on {session}"),
    "unnote": KindWords("note removed", "removing the note {subject} from {session}"),
    "summary": KindWords("summary written", "summary of {session}"),
    "learn": KindWords("fact added", "new fact {subject}"),
    "edit fact": KindWords("fact edited", "editing the fact {subject}"),
    "categorise fact": KindWords("fact categorised", "category of the fact {subject}"),
    "retire fact": KindWords("fact retired", "retiring the fact {subject}"),
    "restore fact": KindWords("fact restored", "restoring the fact {subject}"),
    "merge facts": KindWords("facts merged", "merging facts into {subject}"),
    "consolidate facts": KindWords("facts consolidated", "consolidating the facts {subject}"),
    "share fact": KindWords("fact shared", "sharing the fact {subject}"),
    "unshare fact": KindWords("fact unshared", "no longer sharing the fact {subject}"),
    "push memory": KindWords("memory pushed", "pushing facts to {subject}"),
    "pull memory": KindWords("memory pulled", "pulling the facts {subject}"),
    "accept proposal": KindWords("proposal accepted", "accepting the proposal {subject}"),
    "reject proposal": KindWords("proposal rejected", "rejecting the proposal {subject}"),
    "set secret": KindWords("secret set", "value of the secret {subject} in {session}"),
    "seal secret": KindWords("secret sealed", "sealing the secret {subject} in {session}"),
    "remove secret": KindWords("secret deleted", "deleting the secret {subject} in {session}"),
    "publish": KindWords("file published", "publishing the file {subject}"),
    "unpublish": KindWords("file unpublished", "unpublishing the file {subject}"),
    "meta": KindWords("value set", "value of {subject}"),
    "save search": KindWords("search saved", "saving the search {subject}"),
    "rename search": KindWords("search renamed", "renaming the search {subject}"),
    "delete search": KindWords("search deleted", "deleting the search {subject}"),
    "pin search": KindWords("search pinned", "pinning the search {subject}"),
    "unpin search": KindWords("search unpinned", "unpinning the search {subject}"),
    "write-back": KindWords("written back", "writing {session} back to its agent"),
    "ignore leak": KindWords("leak ignored", "ignoring the leak {subject}"),
    "mark leak as rotated": KindWords("leak rotated", "marking the leak {subject} as rotated"),
    "reopen leak": KindWords("leak opened again", "opening the leak {subject} again"),
    "redact leaks": KindWords("leaks redacted", "redacting the leaks {subject}"),
}
"""Holds the words for each kind. A test checks that none is missing."""

_SUBJECT_COLUMNS = ("own_title", "text", "filename", "content", "value", "rules")
"""Lists the columns that describe an edit, the best first."""

_TABLE_LABELS = {
    "facts": "fact",
    "tags": "tag",
    "notes": "note",
    "summaries": "summary",
    "meta": "value",
    "published": "published file",
    "memory_audiences": "audience",
    "fact_proposals": "proposal",
    "leaks": "leak",
    "redactions": "redaction",
}
_COLUMN_LABELS = {
    "ignored": "reason to ignore it",
    "rotated_at": "rotated",
    "own_title": "title",
    "agent_title": "agent title",
    "up_to_turn": "covers turns up to",
    "foreign_text": "text in its agent",
    "foreign_place": "location there",
    "entry_seq": "entry",
    "retired_at": "retired",
    "deleted": "in the trash",
    "current": "in use",
    "parent_id": "forked from",
    "forked_at": "forked at entry",
}
_FLAG_COLUMNS = ("pinned", "archived", "deleted", "gone", "current")
_TIME_FLAG_COLUMNS = ("retired_at", "rotated_at")
"""Are empty, or hold the time since when something is so."""


# ── one edit ──────────────────────────────────────────────────────────────────────────────────────


def edit_label(edit: Edit) -> str:
    """Return what an edit did, e.g. `fact edited`, or `undone: fact edited` for its undo."""
    kind = edit.undone_kind or edit.kind
    label = _KINDS[kind].label if kind in _KINDS else one_line(kind, MAX_QUOTE_CHARACTERS)
    return label if edit.undoes is None else f"redone: {label}" if edit.is_redo else f"undone: {label}"


def edit_subject(edit: Edit, labels: EditLabels) -> str:
    """Return what an edit is about: the new title, the fact or the names of the tags."""
    changes = list(islice((*diff_own_rows(edit), *diff_foreign_rows(edit)), MAX_CHANGES))
    if secrets := [change.key.rpartition(" ")[0] for change in changes if change.table == "secrets"]:
        return _join(secrets)
    if searches := [change.key for change in changes if change.table == SEARCH_TABLE]:
        return _join(searches, " → " if "rename search" in (edit.kind, edit.undone_kind) else ", ")
    if names := [str(change.key[-1]) for change in edit.changes if change.table == "tags"]:
        return _join(names)
    if names := [str(change.key) for change in edit.changes if change.table == "meta"]:
        return _join(names)
    if "push memory" in (edit.kind, edit.undone_kind):
        return _join(list_locators(edit))
    for column in _SUBJECT_COLUMNS:
        if values := [change.new or change.old for change in changes if change.column == column]:
            return _join(values, " · ")
    return _join(_list_named_rows(edit, labels), " · ")


def _join(texts: Iterable[str], separator: str = ", ") -> str:
    return separator.join(dict.fromkeys(texts))


def _list_named_rows(edit: Edit, labels: EditLabels) -> list[str]:
    """Return the texts of changed rows that the edit itself does not contain: those of facts, proposals and leaks."""
    texts = []
    for change in edit.changes[:MAX_CHANGES]:
        if change.table == "memory_audiences":
            text = labels.facts.get((change.after or change.before or {}).get("fact", 0))
        elif change.table == "facts":
            text = labels.facts.get(change.key)
        else:
            text = labels.rows.get((change.table, change.key)) if change.table != FOREIGN_TABLE else None
        texts += [text] if text else []
    return texts


def describe_edit(edit: Edit, labels: EditLabels) -> str:
    """Return an edit as a phrase, e.g. `title “Fix it” of “Fix the test”` or `deleting the search @x`."""
    kind = edit.undone_kind or edit.kind
    if kind not in _KINDS:
        return edit_label(edit)
    subject = one_line(edit_subject(edit, labels), MAX_QUOTE_CHARACTERS)
    session = name_sessions(edit, labels)
    quoted = subject if kind.endswith(" search") else f"“{subject}”" if subject else ""
    phrase = _KINDS[kind].phrase.format(session=session, subject="" if quoted == session else quoted)
    return phrase.replace("  ", " ").strip()


def report_undo(edit: Edit, labels: EditLabels) -> str:
    """Return a sentence about an edit that was undone, e.g. `Undone: pinning “Fix the flaky upload test”.`"""
    done = "Undone" if edit.undoes is None or edit.is_redo else "Done again"
    return f"{done}: {describe_edit(edit, labels)}."


def name_sessions(edit: Edit, labels: EditLabels) -> str:
    """Return the title of the session of an edit, quoted, or how many there are."""
    if not edit.session_ids:
        return "a deleted session"
    if len(edit.session_ids) > 1:
        return f"{len(edit.session_ids):,} sessions"
    name = edit.session_ids[0]
    return f"“{one_line(labels.titles.get(name, name), MAX_QUOTE_CHARACTERS)}”"


# ── its rows and columns ──────────────────────────────────────────────────────────────────────────


def row_label(change: ColumnDiff) -> str:
    """Return the name of a changed row, e.g. `fact 3` or `tag urgent`. A session has none: it is named elsewhere."""
    if change.table == "sessions":
        return ""
    if change.table == "secrets":
        name, _, version = change.key.rpartition(" ")
        return f"secret {name}, version {version}"
    label = _TABLE_LABELS.get(change.table, change.table)
    return label if change.table in ("memory_audiences", "leaks") else f"{label} {change.key}"


def column_label(column: str) -> str:
    return _COLUMN_LABELS.get(column, column)


def readable_value(change: ColumnDiff, value: str) -> str:
    """Return a value of a column as a person reads it."""
    if change.column in _FLAG_COLUMNS:
        return {"0": "no", "1": "yes"}.get(value, value)
    if change.column in _TIME_FLAG_COLUMNS:
        return "yes" if value else "no"
    return source_label(value) if change.table == "memory_audiences" and change.column == "agent" else value
