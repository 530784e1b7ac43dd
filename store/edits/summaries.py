"""Shelf: what a conversation comes to, in a few words. Every version stays; at most one is current."""

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
"""What was current when somebody began to edit: its text alone; or all of it, None when there was no summary."""

_SELECT_SUMMARIES = """
    select summaries.key, sessions.id, text, up_to_turn, origin, current, summaries.created_at
    from summaries join sessions on sessions.key = summaries.session where sessions.key = ?
"""


class Summaries:
    def __init__(self, store: Store) -> None:
        self._store = store

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def current(self, session: Session) -> Summary | None:
        return self._find_newest(session, "current = 1")

    def history(self, session: Session) -> list[Summary]:
        """Newest first."""
        return list(
            map(_summary_from_row, self._store.rows(f"{_SELECT_SUMMARIES} order by summaries.key desc", session.key))
        )

    def newer_from_source(self, session: Session) -> Summary | None:
        """What the source has said since the version that is current, which a person chose to keep."""
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
        found = self._find_newest(session, "summaries.key = ?", validate_integer(key, "version of a summary"))
        if found is None:
            raise NotFound(f"That session has no version {key} of its summary.")
        return found

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
        """A new version, unless it says what the last one said; a source's leaves a person's current.

        An empty text means that there is no summary: no version is current then, and the answer is none of them, with
        the key 0.
        """
        validate_text(text, "summary")
        if origin not in ORIGINS:
            raise BadValue(f"A summary has no origin {origin!r}; say {', '.join(ORIGINS)}.")
        with self._begin_edit(session, origin) as edit:
            self._check_turn(session, up_to_turn)
            current = self._check_current(seen, session)
            last = self._find_newest(session, "origin = 'source'") if origin == "source" else current
            if last and (last.text, last.up_to_turn, last.origin) == (text, up_to_turn, origin):
                return last
            stays = current is not None and current.origin == "person" and origin == "source"
            # Before the new one comes: the index allows one current version at a time.
            if current and not stays:
                edit.update("summaries", current.key, current=0)
            if not text.strip():
                return Summary(0, session.id, "", None, origin, False, utc_timestamp())
            version = {"text": text, "up_to_turn": up_to_turn, "origin": origin, "current": int(not stays)}
            return self._get_version(
                session, edit.insert("summaries", session=session.key, created_at=utc_timestamp(), **version)
            )

    def restore_version(self, session: Session, key: int, *, seen: SeenSummary = UNSEEN) -> Summary:
        """Make an older version current again."""
        with self._store.journal.edit("summary", session.key) as edit:
            wanted, current = self._get_version(session, key), self._check_current(seen, session)
            if current and not wanted.current:
                edit.update("summaries", current.key, current=0)
            edit.update("summaries", wanted.key, current=1)
            return self._get_version(session, key)

    @contextmanager
    def _begin_edit(self, session: Session, origin: str) -> Iterator[PendingEdit]:
        """What a source brings stays out of the journal: undo is for what people and agents did, not for a sync."""
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
            said = current.text if current else ""
            if seen != said:
                raise ChangedMeanwhile("The summary was changed meanwhile.", said)
        elif _shown_content(seen) != _shown_content(current):
            raise ChangedMeanwhile("The summary was changed meanwhile.", current)
        return current

    def _check_turn(self, session: Session, up_to_turn: int | None) -> None:
        last = self._store.chains.last_turn(self._store.sessions.by_key(session.key).key)
        if up_to_turn is not None and not 0 <= validate_integer(up_to_turn, "turn") <= last:
            raise BadValue(f"That session has no turn {up_to_turn}; its last is {last}.")


def _shown_content(version: Summary | None) -> tuple[str, int | None] | None:
    """What a person was shown of it."""
    return (version.text, version.up_to_turn) if version else None


def _summary_from_row(row: Sequence[Any]) -> Summary:
    key, session_id, text, up_to_turn, origin, current, created_at = row
    return Summary(key, session_id, text, up_to_turn, origin, bool(current), created_at)
