"""This module redacts leaked values: it removes them from our store and from the files of agents, and can restore them.

First our own store is rewritten, in one transaction that also lists the files which are to follow. Then each file is
replaced by itself. So a kill leaves each file whole, and the redaction can be continued. A sync that meets a file which
still has a value knows its records by their digests, so it makes no new version of a session.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from secrets import token_hex
from typing import TYPE_CHECKING

from store.database.backup import backup_folder, list_backups
from store.database.file_lock import hold_file_lock
from store.edits.journal import UNDO
from store.errors import NotFound, NothingToUndo, Refused, SecretLocked, StoreError, WriteFailed
from store.leaks.redaction.foreign_files import ForeignRedaction
from store.leaks.redaction.own_redaction import redact_own_texts, restore_own_texts
from store.leaks.redaction.replacer import LeakedValue, Replacer, Spellings
from store.leaks.redaction.rows import RedactionRows, create_redaction, list_left, list_redactions, list_values
from store.leaks.redaction.survey import Survey, ValueFinder, list_places, survey_places
from store.leaks.store_scan import list_not_scanned
from store.model.entry import Json
from store.model.knowledge import REDACTIONS_TABLE, Change
from store.model.leak import NotScanned
from store.model.redaction import (
    RedactedValue,
    Redaction,
    RedactionPlace,
    RedactionPreview,
    RedactionProgress,
    RedactionReport,
)
from store.sources.kit.locator import is_url
from store.text.json import decode

if TYPE_CHECKING:
    from store.store import Store

REDACT = "redact leaks"
"""Is the kind of the edit in the journal."""

WRITTEN_MEANWHILE = "It was written meanwhile."
NOT_READ = "A scan finds a value there, but it could not be looked into."
LOG_IN_USE = "Another program reads the store, so its free space could not be cleared."

_SELECT_CHANGED_SESSIONS = """
    select sessions.id from edits, json_each(edits.sessions) as keys join sessions on sessions.key = keys.value
    where edits.id = ?
"""

_Steps = Generator[RedactionProgress, None, RedactionReport]


class RedactionRun:
    """Is a redaction, or its undo, that runs step by step."""

    def __init__(self, store: Store, run: Callable[[], _Steps]) -> None:
        self._store = store
        self._run = run
        self._report: RedactionReport | None = None

    def steps(self) -> Iterator[RedactionProgress]:
        """Do everything, and yield after each step. It can be stopped after any of them, and be continued later."""
        with _redaction_lock(self._store):
            if self._store.secrets.is_locked:
                raise SecretLocked()
            self._report = yield from self._run()

    @property
    def report(self) -> RedactionReport:
        if self._report is None:
            raise Refused("The redaction has not ended yet.")
        return self._report


class Redactions:
    """Redacts leaked values. This is the collection `store.leaks.redactions`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ── listing ───────────────────────────────────────────────────────────────────────────────────

    def list_all(self) -> list[Redaction]:
        """Return all redactions, newest first."""
        return [*list_redactions(self._store)]

    def list_unfinished(self) -> list[Redaction]:
        """Return the redactions and undos that were interrupted, or could not write some files."""
        return [*list_redactions(self._store, ("running", "undoing"))]

    # ── redact ────────────────────────────────────────────────────────────────────────────────────

    def preview(self, fingerprints: Sequence[str]) -> RedactionPreview:
        """Look for the values of leaks in every place. Nothing is changed."""
        finder = ValueFinder(self._store)
        values = self._find_values(finder, fingerprints)
        survey = survey_places(self._store, Replacer(values, finder.find_by_rules))
        places = list_places(self._store, survey)
        return RedactionPreview(
            self._describe_values(values),
            places,
            self._list_not_scanned(survey),
            self._list_backups(),
            self._store.team.list_sent(_list_sessions(places)),
        )

    def begin(self, fingerprints: Sequence[str]) -> RedactionRun:
        """Return a run that removes the values of these leaks from every place."""
        return RedactionRun(self._store, lambda: self._redact(fingerprints))

    def begin_rest(self, redaction: int) -> RedactionRun:
        """Return a run that continues an interrupted redaction or undo, with the files that could not be written."""
        rows = RedactionRows(self._store, redaction)
        if rows.row.state == "undoing":
            return RedactionRun(self._store, lambda: self._restore(rows))
        return RedactionRun(self._store, lambda: self._continue(rows))

    def _find_values(self, finder: ValueFinder, fingerprints: Sequence[str]) -> list[LeakedValue]:
        if not fingerprints:
            raise Refused("Choose the leaks that are to be redacted.")
        complete = dict.fromkeys(self._store.leaks.find(fingerprint) for fingerprint in fingerprints)
        try:
            return [finder.find(fingerprint) for fingerprint in complete]
        except NotFound:
            if self._store.secrets.is_locked:  # it may be the value of a secret
                raise SecretLocked() from None
            raise

    def _redact(self, fingerprints: Sequence[str]) -> _Steps:
        yield RedactionProgress(0, 0, "looking for the values")
        finder = ValueFinder(self._store)
        values = self._find_values(finder, fingerprints)
        replacer = Replacer(values, finder.find_by_rules)
        survey = survey_places(self._store, replacer)
        places = list_places(self._store, survey)
        spellings = Spellings()
        with self._store.transaction():
            rows = create_redaction(self._store, sum(place.times for place in places))
            rows.add_values(values, token_hex(32))
            rows.seal(values, Spellings())
            self._rewrite_own(rows, survey, replacer, values, spellings)
            self._write_edit(rows, places)
        yield RedactionProgress(1, 1 + len(survey.files), "our store")
        return (yield from self._finish(rows, values, replacer, spellings))

    def _continue(self, rows: RedactionRows) -> _Steps:
        yield RedactionProgress(0, 0, "looking for the values")
        if rows.row.state not in ("running", "done"):
            raise Refused(f"Redaction {rows.id} was undone.")
        values, spellings = rows.open_values()
        replacer = Replacer(values, ValueFinder(self._store).find_by_rules)
        survey = survey_places(self._store, replacer)
        with self._store.transaction():
            rows.set_state("running")
            self._rewrite_own(rows, survey, replacer, values, spellings)
        return (yield from self._finish(rows, values, replacer, spellings))

    def _rewrite_own(
        self, rows: RedactionRows, survey: Survey, replacer: Replacer, values: list[LeakedValue], spellings: Spellings
    ) -> None:
        redact_own_texts(self._store, rows, survey.own, replacer, spellings)
        known = {place.target for place in rows.places() if place.pending}
        for file in survey.files:
            if str(file.path) not in known:
                rows.add_file(file.kind, str(file.path), file.times, file.problem)
        rows.seal(values, spellings)
        self._forget_places(values)
        self._rescan_all(rows, (item.path for item in survey.not_scanned))

    def _write_edit(self, rows: RedactionRows, places: Sequence[RedactionPlace]) -> None:
        """Add the redaction to the journal, for the sessions that it changed."""
        keys = sorted(self._store.sessions.get(session_id).key for session_id in _list_sessions(places))
        with self._store.journal.edit(REDACT, *keys) as edit:
            edit.add_foreign_change(Change(REDACTIONS_TABLE, rows.id, None, self._describe(rows)))
        (number,) = self._store.row("select max(id) from edits")
        self._store.connection.execute("update redactions set edit = ? where id = ?", (number, rows.id))

    def _describe(self, rows: RedactionRows) -> dict[str, Json]:
        """Return what the journal says of a redaction."""
        rules = dict.fromkeys(value.rule for value in list_values(self._store, rows.id))
        return {"rules": ", ".join(rules), "count": rows.row.times}

    def _forget_places(self, values: Iterable[LeakedValue]) -> None:
        """Forget where the values were found."""
        for value in values:
            self._store.connection.execute("delete from leak_places where fingerprint = ?", (value.fingerprint,))

    def _finish(
        self, rows: RedactionRows, values: list[LeakedValue], replacer: Replacer, spellings: Spellings
    ) -> _Steps:
        foreign = ForeignRedaction(self._store, rows, values, spellings)
        pending = [place for place in rows.places() if place.pending]
        for done, place in enumerate(pending, 1):
            yield RedactionProgress(done, 1 + len(pending), place.target)
            foreign.redact(place, replacer)
        yield RedactionProgress(1 + len(pending), 1 + len(pending), "clearing the free space")
        is_clean = self._clear_free_space()
        yield RedactionProgress(1 + len(pending), 1 + len(pending), "looking for what is left")
        survey = survey_places(self._store, replacer)
        left = self._list_left(rows, survey, is_clean)
        if is_clean and not rows.has_pending():
            rows.set_state("done")
        report = self._report(rows, values, left, survey)
        unread = [RedactionPlace("file", path=path, times=1, problem=NOT_READ) for path in _list_unnamed(report)]
        shared = self._store.team.list_sent(self._list_changed_sessions(rows))
        return replace(report, left=(*report.left, *unread), shared=shared)

    def _clear_free_space(self) -> bool:
        """Merge the search index and rewrite the file, so that no deleted text stays in it."""
        try:
            self._store.search.optimize()
            return self._store.vacuum()
        except WriteFailed:
            return False

    def _list_left(self, rows: RedactionRows, survey: Survey, is_clean: bool) -> list[RedactionPlace]:
        known = {place.path: place for place in list_left(self._store, rows.id)}
        reasons = {path: place.problem for path, place in known.items()}
        left = [
            place._replace(problem=reasons.get(place.path) or place.problem or WRITTEN_MEANWHILE)
            for place in list_places(self._store, survey)
        ]
        left += [place for path, place in known.items() if path not in {found.path for found in left}]
        if not is_clean:
            left.append(RedactionPlace("file", path=str(self._store.path), times=1, problem=LOG_IN_USE))
        return left

    def _list_changed_sessions(self, rows: RedactionRows) -> set[str]:
        return {session_id for (session_id,) in self._store.rows(_SELECT_CHANGED_SESSIONS, rows.row.edit)}

    def _report(
        self,
        rows: RedactionRows,
        values: Sequence[LeakedValue],
        left: Sequence[RedactionPlace],
        survey: Survey | None = None,
    ) -> RedactionReport:
        """Scan again, and say what is left."""
        for _ in self._store.leaks.begin_scan().steps():
            pass
        fingerprints = {value.fingerprint for value in values}
        found = [leak for leak in self._store.leaks.list_leaks() if leak.places and leak.fingerprint in fingerprints]
        return RedactionReport(
            rows.id,
            rows.row.state,
            rows.row.times,
            tuple(left),
            tuple(found),
            self._list_backups(),
            self._list_not_scanned(survey),
        )

    def _list_not_scanned(self, survey: Survey | None) -> tuple[NotScanned, ...]:
        """Return what a redaction cannot look into."""
        files = [*list_not_scanned(self._store), *(survey.not_scanned if survey else ())]
        locators = (locator for (locator,) in self._store.rows("select locator from sources order by key"))
        servers = (NotScanned(locator, "a database server") for locator in locators if is_url(locator))
        return (*dict.fromkeys(files), *servers)

    def _list_backups(self) -> tuple[str, ...]:
        """Return the backups that were made before, of this store and of agents' stores."""
        foreign = sorted((backup_folder(self._store.path) / "foreign").glob("*"))
        return tuple(str(path) for path in (*list_backups(self._store.path), *foreign))

    def _describe_values(self, values: Iterable[LeakedValue]) -> tuple[RedactedValue, ...]:
        leaks = {leak.fingerprint: leak for leak in self._store.leaks.list_leaks()}
        return tuple(
            RedactedValue(value.fingerprint, value.rule, leak.tier, leak.masked)
            for value in values
            if (leak := leaks.get(value.fingerprint))
        )

    # ── undo and forget ───────────────────────────────────────────────────────────────────────────

    def begin_undo(self, redaction: int) -> RedactionRun:
        """Return a run that restores every value where it was."""
        rows = RedactionRows(self._store, redaction)
        if rows.row.state == "undone":
            raise NothingToUndo(f"Redaction {redaction} is already undone.")
        if rows.row.forgotten:
            raise Refused(f"Redaction {redaction} cannot be undone: its values were forgotten.")
        return RedactionRun(self._store, lambda: self._undo(rows))

    def _undo(self, rows: RedactionRows) -> _Steps:
        if rows.row.state != "undoing":
            yield RedactionProgress(0, 0, "our store")
            values, spellings = rows.open_values()
            edit = rows.row.edit
            sessions = self._store.row("select sessions from edits where id = ?", edit or 0)
            with (
                self._store.transaction(),
                self._store.journal.edit(UNDO, *decode(sessions[0] if sessions else "[]"), undoes=edit) as pending,
            ):
                restore_own_texts(self._store, rows, values, spellings)
                rows.set_state("undoing")
                pending.add_foreign_change(Change(REDACTIONS_TABLE, rows.id, self._describe(rows), None))
                for place in rows.places():
                    if place.kind in ("file", "database"):
                        rows.update_place(place.key, pending=int(place.original is not None), problem="")
                self._rescan_all(rows)
        return (yield from self._restore(rows))

    def _rescan_all(self, rows: RedactionRows, not_scanned: Iterable[str] = ()) -> None:
        """Forget what was scanned in the places of a redaction, and in files that it could not look into."""
        self._store.connection.executemany("delete from leak_files where path = ?", [(path,) for path in not_scanned])
        self._store.connection.execute(
            "delete from leak_files where path in (select target from redacted_places where redaction = ?)", (rows.id,)
        )
        self._store.connection.execute(
            """
            delete from leak_progress where session in (select session from records where key in
                (select record from redacted_places where redaction = ?1 and record is not null))
                or session in (select value from json_each((select sessions from edits where id =
                    (select edit from redactions where id = ?1))))
            """,
            (rows.id,),
        )

    def _restore(self, rows: RedactionRows) -> _Steps:
        values, spellings = rows.open_values()
        foreign = ForeignRedaction(self._store, rows, values, spellings)
        pending = [place for place in reversed(rows.places()) if place.pending]
        for done, place in enumerate(pending, 1):
            yield RedactionProgress(done, 1 + len(pending), place.target)
            foreign.restore(place)
        yield RedactionProgress(1 + len(pending), 1 + len(pending), "looking for what is left")
        left = [*list_left(self._store, rows.id)]
        if not rows.has_pending():
            rows.set_state("undone")
        return self._report(rows, values, left)

    def forget(self, redaction: int) -> None:
        """Delete the sealed values for good. The redaction cannot be undone afterwards."""
        rows = RedactionRows(self._store, redaction)
        if rows.row.forgotten:
            raise Refused(f"The values of redaction {redaction} were forgotten already.")
        if rows.row.state in ("running", "undoing"):
            raise Refused(f"Redaction {redaction} has not ended. Run `backscroll leaks redact` to continue it first.")
        with _redaction_lock(self._store), self._store.transaction() as connection:
            connection.execute("update redacted_values set sealed = null where redaction = ?", (redaction,))
            connection.execute("update redacted_places set spans = '{}' where redaction = ?", (redaction,))
            connection.execute("update redactions set forgotten = 1 where id = ?", (redaction,))
            connection.execute("update edits set blanked = 1 where id = ?", (rows.row.edit,))
        ForeignRedaction(self._store, rows, [], Spellings()).delete_copies()
        with suppress(StoreError):
            self._store.vacuum()


def _list_sessions(places: Iterable[RedactionPlace]) -> set[str]:
    return {place.session_id for place in places if place.session_id}


def _list_unnamed(report: RedactionReport) -> list[str]:
    """Return the files in which a value was found again, and that are not named as left."""
    found = {path for leak in report.remaining for path in leak.paths}
    return sorted(found - {place.path for place in report.left})


def _redaction_lock(store: Store) -> AbstractContextManager[None]:
    return hold_file_lock(f"{store.path}.redact", "Another redaction is running. Try again when it is done.")
