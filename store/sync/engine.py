"""Reads what is new in the foreign stores into ours: scan, compare stamps, read, save. Problems are collected.

A session is saved in batches, its stamp with the last; so an interrupted sync goes on where it was, and a second one of
an unchanged world writes nothing at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from store.conversations.superseded import drop_if_duplicated
from store.errors import Busy, StoreError, Unreadable, WriteFailed
from store.model.identity import foreign_session_id
from store.model.session import Session, SessionFields
from store.search.quick_index import clear_index_if_unused, clear_quick_fields, insert_rows
from store.sources.contract import (
    Batch,
    ForeignSummary,
    Problem,
    SessionRef,
    SourceReader,
    SupportsAppend,
    SupportsExpiry,
    SupportsQuickRead,
)
from store.sources.kit import sqlite
from store.sync.appended import AppendedBatches, KnownSession, ScanResult, find_main_session, scan_incrementally
from store.sync.child_process import ReaderProcesses, is_large
from store.sync.commit_timer import CommitTimer
from store.sync.knowledge import KnowledgeImport
from store.sync.quick_index import QuickScan
from store.sync.reader_process import ProcessReader, open_reader, scan_refs, start_scan
from store.sync.session_writer import SessionWriter
from store.sync.targets import SELECT_SOURCE, Progress, Report, Target, report_if_unchanged
from store.text.validate import decode, encode, utc_timestamp

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from store.store import Store


CONCURRENT_IMPORTS = 2
"""Stores that are read in turn: while what one tells is written, the other's process reads on."""

MERGE_INDEX_AFTER = 200
"""New sessions after which the search index is worth being put in order as a whole."""

T = TypeVar("T")

_SELECT_BY_PUBLIC_ID = """
    select native_id, key, gone, head is not null from sessions
    where source = ? and id in (select value from json_each(?)) and (relation is null or relation != 'superseded')
"""
_SELECT_ANY_READ = "select 1 from sessions where source_key = ? and head is not null limit 1"


class _Destination(NamedTuple):
    """Where a session that is read belongs."""

    source_key: int
    known: KnownSession | None
    is_elsewhere: bool
    "The store has it from another place, which is followed until this one goes further."
    is_appended: bool
    "What is told comes behind what the store has."


def import_targets(store: Store, chosen: Iterable[Target], priority_ids: Set[str] = frozenset()) -> Iterator[Progress]:
    """Each target in turn, the newest of each first."""
    with ReaderProcesses("quick_index") as processes:
        under_way: list[_TargetImport] = []
        looks: list[Iterator[Progress]] = []
        was_seen = False
        for target in chosen:
            under_way.append(_TargetImport(store, target, priority_ids))
            looks.append(under_way[-1].build_quick_index(processes, inline=not was_seen))
            # The newest of each, before all of any.
            for progress in islice(looks[-1], 1):
                was_seen = True
                yield progress
        yield from _round_robin(looks)
        with store.temp_store_in_memory():
            yield from _run_imports(under_way, priority_ids)
        clear_index_if_unused(store)
        if sum(one.report.new for one in under_way) >= MERGE_INDEX_AFTER:
            last = under_way[-1].report
            yield from (Progress(last, last.seen, last.seen) for _ in store.search.merge_segments())
        store.release_free_pages()


def _round_robin(told: Iterable[Iterator[T]]) -> Iterator[T]:
    waiting = deque(told)
    while waiting:
        for one in islice(waiting[0], 1):
            yield one
            waiting.append(waiting[0])
        waiting.popleft()


def _run_imports(under_way: Sequence[_TargetImport], priority_ids: Set[str]) -> Iterator[Progress]:
    """Two at a time, since each is read by a process of its own; but one that has what somebody waits for first."""
    for one in under_way:
        one.start_reading()
    waiting = deque((one, one.run()) for one in under_way)
    while waiting:
        hurried = next((at for at, (one, _) in enumerate(waiting) if one.unread & priority_ids), 0)
        one, run = waiting[hurried]
        progress = next(run, None)
        del waiting[hurried]
        if progress is not None:
            waiting.insert(min(CONCURRENT_IMPORTS - 1, len(waiting)), (one, run))
            yield progress


class _TargetImport:
    """One foreign store on its way into ours."""

    def __init__(self, store: Store, target: Target, priority_ids: Set[str]) -> None:
        self.store = store
        self._priority_ids = priority_ids
        self.target = target
        self.source = target.source
        self.locator = target.locator
        self.address = target.address
        self.report = Report(target.source.NAME, target.locator)
        self.unread: set[str] = set()
        "The native ids of those that were only skimmed."
        self._superseded: list[Session] = []
        self._reader_pipe: Connection | None = None
        "A process that has looked at it all, and waits to read it."

    def build_quick_index(self, processes: ReaderProcesses, *, inline: bool) -> Iterator[Progress]:
        """For the first time, at a large archive of which nothing was read yet; without a process, at its newest."""
        key, _, _ = self._load_source_row()
        if not isinstance(self.source, SupportsQuickRead) or not is_large(Path(self.address), is_first_import=True):
            return
        if self.store.row(_SELECT_ANY_READ, key):
            return
        known = self._load_known(key).keys()
        self.unread |= known
        look = QuickScan(self.source, self.address, processes)
        for sights in look.read_rows(known | self._load_tombstones(), inline=inline):
            self.unread |= insert_rows(self.store, sights, self.source.NAME, key, self._public_id)
            self.report.seen = len(self.unread)
            yield Progress(self.report, 0, self.report.seen)
        self._reader_pipe = look.reader_pipe

    def start_reading(self) -> None:
        """It need not be waited for until it is this one's turn."""
        if self._reader_pipe is not None:
            start_scan(self._reader_pipe)

    def run(self) -> Iterator[Progress]:
        key, marks, old_problems = self._load_source_row()
        if calm := report_if_unchanged(self.store, self.target):
            self.report = calm
            yield Progress(calm, calm.seen, calm.seen)
            return
        marks_now = {"stamp": self.target.stamp, "reader": self.source.READER}
        known = self._load_known(key)
        try:
            with open_reader(
                self.source, self.address, self._reader_pipe, is_first_import=_has_unread(known)
            ) as opened:
                yield from self._import_sessions(opened, key, known, [Problem(**problem) for problem in old_problems])
            marks_now["seen"] = self.report.seen
        except StoreError as reason:
            if isinstance(reason, WriteFailed) and not isinstance(reason, Busy):
                raise
            self.report.problems.append(Problem(self.locator, str(reason)))
            marks_now = marks
        self._save_source_row(key, marks, marks_now, old_problems)
        yield Progress(self.report, self.report.seen, self.report.seen)

    def _import_sessions(
        self, opened: SourceReader | ProcessReader, key: int, known: dict[str, KnownSession], before: list[Problem]
    ) -> Iterator[Progress]:
        found = self._find_refs(opened, known)
        refs = sorted(found.refs, key=lambda ref: ref.updated_at, reverse=True)
        elsewhere = self._load_known_elsewhere([ref.native_id for ref in refs if ref.native_id not in known])
        known = known | elsewhere
        aside = self._load_tombstones() | found.unaffected.keys()
        changed = [ref for ref in refs if self._has_changed(ref, known) and ref.native_id not in aside]
        self.report.seen = len(refs)
        self.report.unchanged = len(refs) - len(changed)
        anew = {ref.native_id for ref in changed} - found.appended.keys()
        still = {ref.native_id for ref in refs} - anew
        self.report.problems = [problem for problem in before if problem.session in still]
        with CommitTimer(self.store) as pace:
            told = self._read_changed(opened, changed, known, found.appended)
            for done, (ref, batches) in enumerate(told, 1 + self.report.unchanged):
                place = _Destination(
                    key, known.get(ref.native_id), ref.native_id in elsewhere, ref.native_id in found.appended
                )
                for _ in self._import_session(ref, place, batches, pace):
                    if not (isinstance(opened, ProcessReader) and opened.has_buffered) and pace.commit_if_due():
                        yield Progress(self.report, done, len(refs))
        self._update_unaffected_stamps(found, {ref.native_id: ref for ref in refs})
        present = {ref.native_id for ref in refs}
        self._update_gone(known, present)
        self._delete_mistaken(known, present)
        self._drop_duplicates(known, present)
        self._update_expiry(key, refs)
        knowledge = KnowledgeImport(self.store, self.source.NAME, self.locator, key)
        knowledge.import_facts(_translate_read_errors(opened.facts()))
        knowledge.import_secrets(opened.secrets())
        knowledge.import_published(opened.published())
        self.report.problems.extend(opened.problems)

    def _read_changed(
        self,
        opened: SourceReader | ProcessReader,
        changed: Sequence[SessionRef],
        known: Mapping[str, KnownSession],
        grown: AppendedBatches,
    ) -> Iterator[tuple[SessionRef, Iterable[Batch]]]:
        """Each session with what there is of it to be taken."""
        if not isinstance(opened, ProcessReader):
            for ref in changed:
                yield ref, grown[ref.native_id] if ref.native_id in grown else opened.read(ref)
            return
        asked = set(self._priority_ids & self.unread)
        first = [ref for ref in changed if ref.native_id in asked]
        opened.request_sessions([(ref, _has_no_entries(known.get(ref.native_id))) for ref in [*first, *changed]])
        for ref, batches in opened.read_sessions():
            yield ref, batches
            self.unread.discard(ref.native_id)
            for native_id in (self._priority_ids & self.unread) - asked:
                opened.prioritize(native_id)
                asked.add(native_id)

    def _load_tombstones(self) -> set[str]:
        rows = self.store.rows("select native_id from tombstones where source = ?", self.source.NAME)
        return {native for (native,) in rows}

    def _find_refs(self, opened: SourceReader | ProcessReader, known: dict[str, KnownSession]) -> ScanResult:
        if isinstance(opened, SupportsAppend) and known:
            return scan_incrementally(opened, known, self._versioned_stamp(""), self._load_mark)
        return ScanResult(list(scan_refs(opened, stamped=bool(known))))

    def _has_changed(self, ref: SessionRef, known: dict[str, KnownSession]) -> bool:
        return ref.native_id not in known or known[ref.native_id].stamp != self._versioned_stamp(ref.stamp)

    def _load_known_elsewhere(self, names: Sequence[str]) -> dict[str, KnownSession]:
        """Sessions that the store has from another place: their files were moved, or are told of twice."""
        if self.source.LOCAL_IDS or not names:
            return {}
        rows = self.store.rows(
            _SELECT_BY_PUBLIC_ID, self.source.NAME, encode([self._public_id(name) for name in names]).decode()
        )
        return {native: KnownSession(key, "", gone, is_read) for native, key, gone, is_read in rows}

    def _load_mark(self, session: int) -> str:
        (mark,) = self.store.row("select mark from sessions where key = ?", session)
        return str(mark)

    def _versioned_stamp(self, stamp: str) -> str:
        return f"{self.source.READER}:{stamp}"

    # ── the foreign store's row ───────────────────────────────────────────────────────────────────

    def _load_source_row(self) -> tuple[int, dict[str, Any], list[dict[str, str]]]:
        row = self.store.row(SELECT_SOURCE, self.source.NAME, self.locator)
        if row is None:
            with self.store.transaction(durable=False) as connection:
                connection.execute(
                    "insert into sources (kind, locator) values (?, ?)", (self.source.NAME, self.locator)
                )
            row = self.store.row(SELECT_SOURCE, self.source.NAME, self.locator)
        return row[0], decode(row[1]), decode(row[2])

    def _save_source_row(
        self, key: int, marks: dict[str, Any], marks_now: dict[str, Any], old_problems: list[dict[str, str]]
    ) -> None:
        problems = [problem._asdict() for problem in self.report.problems]
        if marks == marks_now and problems == old_problems:
            return
        with self.store.transaction(durable=False) as connection:
            connection.execute(
                "update sources set marks = ?, problems = ?, changed_at = ? where key = ?",
                (encode(marks_now).decode(), encode(problems).decode(), utc_timestamp(), key),
            )

    def _load_known(self, key: int) -> dict[str, KnownSession]:
        rows = self.store.rows(
            """
            select native_id, key, stamp, gone, head is not null from sessions
            where source_key = ? and (relation is null or relation != 'superseded')
            """,
            key,
        )
        return {native: KnownSession(*session) for native, *session in rows}

    def _update_unaffected_stamps(self, found: ScanResult, refs: Mapping[str, SessionRef]) -> None:
        """Their file changed, and they did not."""
        if found.unaffected:
            changes = [
                (self._versioned_stamp(refs[native].stamp), session) for native, session in found.unaffected.items()
            ]
            with self.store.transaction(durable=False) as connection:
                connection.executemany("update sessions set stamp = ? where key = ?", changes)

    def _update_gone(self, known: dict[str, KnownSession], present: set[str]) -> None:
        """Only after a scan that came to its end. A session that is there again is not gone any more."""
        changes = [
            (int(native not in present), session.key)
            for native, session in known.items()
            if bool(session.gone) != (native not in present)
        ]
        if changes:
            with self.store.transaction(durable=False) as connection:
                connection.executemany("update sessions set gone = ? where key = ?", changes)

    def _delete_mistaken(self, known: dict[str, KnownSession], present: set[str]) -> None:
        """What was taken for a session at first sight, and turned out to be none."""
        for native, session in known.items():
            if not session.is_read and native not in present:
                self.store.sessions.drop_without_tombstone(self.store.sessions.by_key(session.key))

    def _drop_duplicates(self, known: dict[str, KnownSession], present: set[str]) -> None:
        """After a rewind, what was told before is a fork; and when it goes on again, no fork any more."""
        for hidden in self._superseded:
            drop_if_duplicated(self.store, hidden, hidden.native_id)
        for native, session in known.items():
            if not session.gone and native not in present and (family := find_main_session(native, present)):
                drop_if_duplicated(self.store, self.store.sessions.by_key(session.key), family)

    def _update_expiry(self, key: int, refs: Sequence[SessionRef]) -> None:
        if not isinstance(self.source, SupportsExpiry):
            return
        told = self.source.expiry(self.address, refs)
        noted = self.store.rows("select native_id, key, expires_at from sessions where source_key = ?", key)
        changes = [(told.get(native, ""), session) for native, session, at in noted if told.get(native, "") != at]
        if changes:
            with self.store.transaction(durable=False) as connection:
                connection.executemany("update sessions set expires_at = ? where key = ?", changes)

    # ── one session ───────────────────────────────────────────────────────────────────────────────

    def _import_session(
        self, ref: SessionRef, place: _Destination, told: Iterable[Batch], pace: CommitTimer
    ) -> Iterator[None]:
        """Yields whenever what was read may be committed."""
        chain: SessionWriter | None = None
        first = last = Batch()
        summary: ForeignSummary | None = None
        try:
            for batch in _translate_read_errors(told):
                pace.begin()
                self.report.problems += [problem._replace(session=ref.native_id) for problem in batch.problems]
                summary, last = batch.summary or summary, batch
                if chain is None:
                    first, chain = batch, self._open_writer(ref, place, batch)
                chain.write(batch)
                yield
            if chain is None:
                raise Unreadable("It cannot be found by its name.")
            pace.begin()
            if place.is_elsewhere and chain.has_appended:
                self._save_session(ref, place, first)
            if not place.is_elsewhere or chain.has_appended:
                self._finish(chain, summary, self._versioned_stamp(last.stamp or ref.stamp), last.mark)
        except WriteFailed:
            raise
        except StoreError as reason:
            self.report.problems.append(Problem(ref.native_id, str(reason), ref.native_id))
            return
        self.report.new += _has_no_entries(place.known)
        self.report.updated += not _has_no_entries(place.known) and (chain.has_appended or not place.is_elsewhere)
        self.report.unchanged += place.is_elsewhere and not chain.has_appended
        yield

    def _open_writer(self, ref: SessionRef, place: _Destination, first: Batch) -> SessionWriter:
        if place.is_elsewhere and place.known is not None and place.known.is_read:
            return SessionWriter(self.store, self.store.sessions.by_key(place.known.key), extend_only=True)
        return SessionWriter(
            self.store,
            self._save_session(ref, place, first),
            is_append=_has_no_entries(place.known) or place.is_appended,
        )

    def _finish(self, chain: SessionWriter, summary: ForeignSummary | None, stamp: str, mark: str) -> None:
        chain.supersede_rest()
        self._superseded += chain.superseded
        if summary is not None:
            self._save_summary(chain.session, summary)
        self.store.connection.execute(
            "update sessions set stamp = ?, mark = ?, depth = 'full' where key = ?", (stamp, mark, chain.session.key)
        )

    def _save_summary(self, session: Session, summary: ForeignSummary) -> None:
        last = self.store.chains.last_turn(session.key)
        covered = None if summary.up_to_turn is None else min(summary.up_to_turn, last)
        self.store.summaries.set(session, summary.text, up_to_turn=covered, origin="source")

    def _save_session(self, ref: SessionRef, place: _Destination, batch: Batch) -> Session:
        sessions, known = self.store.sessions, place.known
        fields = self._resolve_parent(batch.fields or {})
        named: SessionFields = {**fields, "source": self.source.NAME, "native_id": ref.native_id}
        if known is None:
            session = sessions.create(self._public_id(ref.native_id), header=batch.header, **named)
        else:
            session = sessions.by_key(known.key)
            if not known.is_read:
                clear_quick_fields(self.store, session.key)
                sessions.append_header(session, batch.header, named)
            session = sessions.update(session.id, **fields)
        self.store.connection.execute(
            "update sessions set source_key = ?, reader_version = ?, archived = max(archived, ?) where key = ?",
            (place.source_key, self.source.READER, batch.archived, session.key),
        )
        return session

    def _resolve_parent(self, fields: SessionFields) -> SessionFields:
        """Readers name a parent by its native id; here it gets its public one."""
        parent = fields.get("parent_id")
        return {**fields, "parent_id": self._public_id(parent)} if parent else fields

    def _public_id(self, native_id: str) -> str:
        return foreign_session_id(self.source.NAME, native_id, self.locator if self.source.LOCAL_IDS else "")


def _translate_read_errors(told: Iterable[T]) -> Iterator[T]:
    """A foreign store's failure in words of its own, before the transaction around it takes it for one of ours."""
    try:
        yield from told
    except sqlite.SQLITE_ERRORS as reason:
        raise Unreadable(f"It cannot be read any further: {sqlite.to_one_line(reason)}.") from None


def _has_no_entries(known: KnownSession | None) -> bool:
    """Whether the store has nothing of its conversation."""
    return known is None or not known.is_read


def _has_unread(known: Mapping[str, KnownSession]) -> bool:
    """Whether much is left to be read: all of it, or what an interrupted first sync only skimmed."""
    return not known or any(not session.is_read for session in known.values())
