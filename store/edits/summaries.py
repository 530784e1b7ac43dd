"""This module stores the summaries of sessions. Every version is kept, and at most one is current."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from store.conversations.sessions import UNSEEN
from store.edits.journal import PendingEdit
from store.errors import BadValue, ChangedMeanwhile, NotFound
from store.model.knowledge import Summary
from store.model.session import Session
from store.text.validate import utc_timestamp, validate_integer, validate_text

if TYPE_CHECKING:
    from store.store import Store

ORIGINS = ("source", "person", "library")

SeenSummary = str | Summary | None
"""The summary that was current when a person began to edit: its text, or the version, or None if there was none."""

_SELECT_SUMMARIES = """
    select summaries.key, sessions.id, text, up_to_turn, origin, current, summaries.created_at
    from summaries join sessions on sessions.key = summaries.session where sessions.key = ?
"""


class Summaries:
    """Reads and edits summaries. This is the collection `store.summaries`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def current(self, session: Session) -> Summary | None:
        return self._find_newest(session, "current = 1")

    def history(self, session: Session) -> list[Summary]:
        """Return all versions, newest first."""
        rows = self._store.rows(f"{_SELECT_SUMMARIES} order by summaries.key desc", session.key)
        return list(map(_summary_from_row, rows))

    def newer_from_source(self, session: Session) -> Summary | None:
        """Return the newest version from the source if it is newer than the current one and differs, else None."""
        current = self.current(session)
        if current is None:
            return None
        newer = self._find_newest(session, "origin = 'source' and summaries.key > ?", current.key)
        return newer if newer and newer.text != current.text else None

    def _find_newest(self, session: Session, condition: str, *values: int) -> Summary | None:
        sql = f"{_SELECT_SUMMARIES} and {condition} order by summaries.key desc limit 1"
        row = self._store.row(sql, session.key, *values)
        return _summary_from_row(row) if row is not None else None

    def _get_version(self, session: Session, key: int) -> Summary:
        version = self._find_newest(session, "summaries.key = ?", validate_integer(key, "version of a summary"))
        if version is None:
            raise NotFound(f"No such version of the summary: {key}.")
        return version

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def set(
        self,
        session: Session,
        text: str,
        *,
        up_to_turn: int | None = None,
        origin: str = "person",
        seen: SeenSummary = UNSEEN,
    ) -> Summary:
        """Add a version, unless it equals the last one. A version from a source does not replace a person's.

        An empty text removes the summary: then no version is current, and the result is a placeholder with the key 0.
        """
        validate_text(text, "summary")
        if origin not in ORIGINS:
            raise BadValue(f"No such origin of a summary: {origin!r}. Use {', '.join(ORIGINS)}.")
        with self._begin_edit(session, origin) as edit:
            self._check_turn(session, up_to_turn)
            current = self._check_current(seen, session)
            last = self._find_newest(session, "origin = 'source'") if origin == "source" else current
            if last and (last.text, last.up_to_turn, last.origin) == (text, up_to_turn, origin):
                return last
            keeps_current = current is not None and current.origin == "person" and origin == "source"
            # This comes before the insert because the index allows only one current version.
            if current and not keeps_current:
                edit.update("summaries", current.key, current=0)
            if not text.strip():
                return Summary(0, session.id, "", None, origin, False, utc_timestamp())
            version = {"text": text, "up_to_turn": up_to_turn, "origin": origin, "current": int(not keeps_current)}
            return self._get_version(
                session, edit.insert("summaries", session=session.key, created_at=utc_timestamp(), **version)
            )

    def restore_version(self, session: Session, key: int, *, seen: SeenSummary = UNSEEN) -> Summary:
        """Make an older version current again."""
        with self._store.journal.edit("summary", session.key) as edit:
            version, current = self._get_version(session, key), self._check_current(seen, session)
            if current and not version.current:
                edit.update("summaries", current.key, current=0)
            edit.update("summaries", version.key, current=1)
            return self._get_version(session, key)

    @contextmanager
    def _begin_edit(self, session: Session, origin: str) -> Iterator[PendingEdit]:
        """Begin an edit. Versions from a source are not recorded in the journal, because a sync is not undone."""
        with self._store.transaction():
            if origin == "source":
                yield PendingEdit(self._store)
            else:
                with self._store.journal.edit("summary", session.key) as edit:
                    yield edit

    def _check_current(self, seen: SeenSummary, session: Session) -> Summary | None:
        current = self.current(session)
        if seen is UNSEEN:
            return current
        if isinstance(seen, str):
            text = current.text if current else ""
            if seen != text:
                raise ChangedMeanwhile("The summary was changed elsewhere.", text)
        elif _shown_content(seen) != _shown_content(current):
            raise ChangedMeanwhile("The summary was changed elsewhere.", current)
        return current

    def _check_turn(self, session: Session, up_to_turn: int | None) -> None:
        last_turn = self._store.chains.last_turn(self._store.sessions.by_key(session.key).key)
        if up_to_turn is not None and not 0 <= validate_integer(up_to_turn, "turn") <= last_turn:
            raise BadValue(f"No such turn: {up_to_turn}. The last turn is {last_turn}.")


def _shown_content(version: Summary | None) -> tuple[str, int | None] | None:
    """Return the fields that a person sees."""
    return (version.text, version.up_to_turn) if version else None


def _summary_from_row(row: Sequence[Any]) -> Summary:
    key, session_id, text, up_to_turn, origin, current, created_at = row
    return Summary(key, session_id, text, up_to_turn, origin, bool(current), created_at)
