"""Imports what is new in the foreign stores: scan, compare stamps, read, save. Problems are collected, not raised.

A session is saved in batches, and its stamp with the last one. So an interrupted sync continues where it stopped, and
a sync of unchanged stores writes nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

from store.conversations.superseded import drop_if_duplicated
from store.edits.kept import restore_kept
from store.errors import Busy, StoreError, Unreadable, WriteFailed
from store.model.session import Session, SessionFields
from store.search.quick_index import QuickIndexRow, clear_index_if_unused, clear_quick_fields, insert_rows
from store.sources.contract import (
    Batch,
    ForeignSummary,
    Problem,
    SessionRef,
    SourceReader,
)
from store.sources.kit import sqlite
from store.sources.kit.private_copy import sweep_abandoned_copies
from store.sources.kit.problem import limit_problems
from store.sync.appended import AppendedBatches, KnownSession, ScanResult, find_main_session, scan_incrementally
from store.sync.child_process import ReaderProcesses, is_large
from store.sync.commit_timer import CommitTimer
from store.sync.knowledge import KnowledgeImport
from store.sync.moved_stores import adopt_moved_store, insert_source
from store.sync.public_ids import choose_public_id, free_ids
from store.sync.quick_index import QuickScan
from store.sync.reader_process import ProcessReader, ScanMode, open_reader, open_store, scan_refs, start_scan
from store.sync.session_writer import SessionWriter
from store.sync.targets import SELECT_SOURCE, Progress, Report, Target, report_if_unchanged
from store.sync.tuning import lower_import_priority
from store.text.validate import decode, encode, utc_timestamp

if TYPE_CHECKING:
    from store.store import Store


CONCURRENT_IMPORTS = 2
"""This many stores are read in turn: while entries of one are written, the process of the other one reads ahead."""

READERS = 2
"""A large archive that is imported alone is read by this many processes, each of which reads some of its files."""

MAX_SEGMENTS = 32
"""An import merges a search index with more segments than this. Fewer slow a search down by less than a millisecond,
and are merged when there is nothing else to do."""

T = TypeVar("T")

_SELECT_BY_PUBLIC_ID = """
    select native_id, key, gone, head is not null from sessions
    where source = ? and id in (select value from json_each(?)) and (relation is null or relation != 'superseded')
"""
_SELECT_ANY_MODEL = """
    select 1 from entries where session = ? and role = 'assistant' and model != '' and inherited = 0 limit 1
"""
_SELECT_ANY_READ_OF_SOURCE = "select 1 from sessions where source = ? and head is not null limit 1"
_SELECT_ANY_READ = "select 1 from sessions where source_key = ? and head is not null limit 1"


class _Destination(NamedTuple):
    """Describes where in the store a session that is read belongs."""

    source_key: int
    known: KnownSession | None
    is_elsewhere: bool
    "The store has the session from another place, and follows that place until this one has more entries."
    is_appended: bool
    "The batches hold only what follows the stored entries."


def import_targets(
    store: Store,
    targets: Iterable[Target],
    priority_ids: Set[str] = frozenset(),
    processes: ReaderProcesses | None = None,
) -> Iterator[Progress]:
    """Import each target in turn, the newest sessions of each first, and yield the progress.

    `processes` may have been prepared. They are stopped at the end.
    """
    sweep_abandoned_copies()
    with processes or ReaderProcesses() as processes:
        imports: list[_TargetImport] = []
        idle: deque[Connection] = deque()
        for target in targets:
            imports.append(_TargetImport(store, target, priority_ids, idle))
            is_first = not any(target_import.quick_scan for target_import in imports)
            yield from imports[-1].start_quick_scan(processes, reads_newest=is_first)
        if any(target_import.quick_scan for target_import in imports):
            for target_import in imports:
                yield from target_import.list_small_archive()
        yield from _receive_quick_rows(imports)
        lower_import_priority()
        with store.temp_store_in_memory():
            yield from _run_imports(imports, processes, priority_ids)
        if store.search.count_segments() > MAX_SEGMENTS:
            last = imports[-1].report
            yield from (Progress(last, last.seen, last.seen) for _ in store.search.merge_segments())
        store.release_free_pages()


def _receive_quick_rows(imports: Iterable[_TargetImport]) -> Iterator[Progress]:
    """List the sessions of all archives, as they arrive: the newest of each archive come first."""
    scans = [(target_import, scan) for target_import in imports if (scan := target_import.quick_scan)]
    reading = {scan.pipe: (target_import, scan) for target_import, scan in scans if scan.pipe}
    while reading:
        for pipe in cast("list[Connection]", wait(list(reading))):
            target_import, scan = reading[pipe]
            rows = scan.receive_rows()
            if rows is None:
                del reading[pipe]
            elif rows:
                yield target_import.insert_quick_rows(rows)


def _run_imports(
    imports: Sequence[_TargetImport], processes: ReaderProcesses, priority_ids: Set[str]
) -> Iterator[Progress]:
    """Run two imports at a time, since each has a reader process of its own. A single large archive has two.

    An import that has a session of `priority_ids` goes first. So do archives without a quick index: their words can be
    found only when they are read.
    """
    large = [target_import for target_import in imports if target_import.has_reader]
    for target_import in large:
        target_import.start_reading(processes, readers=READERS if len(large) == 1 else 1)
    unlisted_first = sorted(imports, key=lambda target_import: bool(target_import.unread))
    waiting = deque((target_import, target_import.run()) for target_import in unlisted_first)
    while waiting:
        chosen = next(
            (index for index, (target_import, _) in enumerate(waiting) if target_import.unread & priority_ids), 0
        )
        target_import, run = waiting[chosen]
        progress = next(run, None)
        del waiting[chosen]
        if progress is not None:
            waiting.insert(min(CONCURRENT_IMPORTS - 1, len(waiting)), (target_import, run))
            yield progress


class _TargetImport:
    """Imports one foreign store."""

    def __init__(self, store: Store, target: Target, priority_ids: Set[str], idle: deque[Connection]) -> None:
        self.store = store
        self._priority_ids = priority_ids
        self._idle = idle
        "Lead to the processes that have read their part of any archive."
        self.target = target
        self.source = target.source
        self.locator = target.locator
        self.address = target.address
        self._identity = target.locator
        "Is part of the ids of sessions; the first locator of a store that was moved."
        self.report = Report(target.source.name, target.locator)
        self.unread: set[str] = set()
        "Holds the native ids of sessions that are only in the quick index."
        self._superseded: list[Session] = []
        self.quick_scan: QuickScan | None = None
        self._may_share = False
        "Is set if any process can read any file: then each file is listed, and its other sessions are found in it."
        self._reader_pipes: list[Connection] = []
        "Lead to the process that did the quick read and can read the sessions, and to those that help it."

    def start_quick_scan(self, processes: ReaderProcesses, *, reads_newest: bool) -> Iterator[Progress]:
        """Let a process list the sessions of a large archive before the first of them is read.

        The newest ones may be listed immediately, and the progress is yielded. Where no process can be started, the
        others are not listed.
        """
        if self._is_unread and is_large(Path(self.address), is_first_import=True):
            self.quick_scan = QuickScan(self.source, self.address, self._load_listed(), processes)
            if newest := self.quick_scan.start(reads_newest=reads_newest):
                yield self.insert_quick_rows(newest)

    def list_small_archive(self) -> Iterator[Progress]:
        """List the sessions of an archive that is not worth a process, while the processes list those of the others.

        Otherwise its words would be found only when all of it is read.
        """
        if self._is_unread and not self.quick_scan:
            sessions = self.source.quick_read(self.address, self._load_listed())
            yield self.insert_quick_rows([QuickIndexRow(session) for session in sessions])

    @property
    def _is_unread(self) -> bool:
        """Is true if the archive can be read quickly, and no session of it was read yet."""
        key, _, _ = self._load_source_row()
        return self.source.has_quick_read and not self.store.row(_SELECT_ANY_READ, key)

    def _load_listed(self) -> set[str]:
        """Return the sessions that the quick index has, perhaps of an interrupted sync, and those that were purged."""
        key, _, _ = self._load_source_row()
        known = self._load_known(key).keys()
        self.unread |= known
        return known | self._load_tombstones()

    def insert_quick_rows(self, rows: Sequence[QuickIndexRow]) -> Progress:
        """List sessions that are not read yet."""
        key, _, _ = self._load_source_row()
        with self.store.transaction(durable=False):
            free_ids(self.store, self.source, [self._public_id(row.native_id) for row in rows])
            self.unread |= insert_rows(self.store, rows, self.source.name, key, self._public_id)
        self.report.seen = len(self.unread)
        return Progress(self.report, 0, self.report.seen)

    @property
    def has_reader(self) -> bool:
        """Is true if a process did the quick read, and can read the sessions."""
        return bool(self.quick_scan and self.quick_scan.pipe)

    def start_reading(self, processes: ReaderProcesses, *, readers: int) -> None:
        """Ask the process to scan, so that the result is there when this import has its turn."""
        is_first = self._is_first_import()
        if self.quick_scan and self.quick_scan.pipe:
            start_scan(self.quick_scan.pipe, "files" if is_first else "stamped")
            self._reader_pipes = [self.quick_scan.pipe]
        for _ in range(readers - 1 if is_first else 0):
            pipe = processes.start()
            if pipe is not None and open_store(pipe, self.source, self.address):
                start_scan(pipe, "none")
                self._reader_pipes.append(pipe)
        self._may_share = is_first

    def _is_first_import(self) -> bool:
        """Return whether the store has nothing of this agent yet, from any place. Then all sessions are new, and those
        within a file can be found while the file is read."""
        return not self.store.row(_SELECT_ANY_READ_OF_SOURCE, self.source.name) and not self._load_tombstones()

    def run(self) -> Iterator[Progress]:
        """Import what changed, and yield the progress."""
        key, marks, old_problems = self._load_source_row()
        if unchanged := report_if_unchanged(self.store, self.target):
            self.report = unchanged
            yield Progress(unchanged, unchanged.seen, unchanged.seen)
            return
        new_marks = {"stamp": self.target.stamp, "reader": self.source.reader_version}
        known = self._load_known(key)
        try:
            with open_reader(
                self.source,
                self.address,
                self._reader_pipes,
                is_first_import=_has_unread(known),
                idle=self._idle if self._may_share else None,
            ) as reader:
                yield from self._import_sessions(reader, key, known, [Problem(**problem) for problem in old_problems])
            new_marks["seen"] = self.report.seen
        except StoreError as reason:
            if isinstance(reason, WriteFailed) and not isinstance(reason, Busy):
                raise
            self.report.problems.append(Problem(self.locator, str(reason)))
            new_marks = marks
        if "identity" in marks:
            new_marks["identity"] = marks["identity"]
        # This comes first: a store that is saved as read is not looked at again until it changes.
        clear_index_if_unused(self.store)
        self.report.problems = limit_problems(self.report.problems)
        self._save_source_row(key, marks, new_marks, old_problems)
        yield Progress(self.report, self.report.seen, self.report.seen)

    def _import_sessions(
        self,
        reader: SourceReader | ProcessReader,
        key: int,
        known: dict[str, KnownSession],
        old_problems: list[Problem],
    ) -> Iterator[Progress]:
        scan_mode: ScanMode = "stamped" if known else "files" if self._is_first_import() else "unstamped"
        scan = self._find_refs(reader, known, scan_mode)
        refs = sorted(scan.refs, key=lambda ref: ref.updated_at, reverse=True)
        elsewhere = self._load_known_elsewhere([ref.native_id for ref in refs if ref.native_id not in known])
        known = known | elsewhere
        skipped = self._load_tombstones() | scan.unaffected.keys()
        changed = [ref for ref in refs if self._has_changed(ref, known) and ref.native_id not in skipped]
        present = {ref.native_id for ref in refs}
        self.report.seen = len(refs)
        self.report.unchanged = len(refs) - len(changed)
        read_again = {ref.native_id for ref in changed} - scan.appended.keys()
        kept = {ref.native_id for ref in refs} - read_again
        self.report.problems = [problem for problem in old_problems if problem.session in kept]
        with CommitTimer(self.store) as timer:
            sessions = self._read_changed(reader, changed, known, scan.appended, scan_mode)
            for done, (ref, batches) in enumerate(sessions, 1 + self.report.unchanged):
                if ref.native_id not in present:
                    refs.append(ref)
                    present.add(ref.native_id)
                    self.report.seen += 1
                destination = _Destination(
                    key, known.get(ref.native_id), ref.native_id in elsewhere, ref.native_id in scan.appended
                )
                for _ in self._import_session(ref, destination, batches, timer):
                    if not (isinstance(reader, ProcessReader) and reader.has_buffered) and timer.commit_if_due():
                        yield Progress(self.report, done, self.report.seen)
        self._update_unaffected_stamps(scan, {ref.native_id: ref for ref in refs})
        self._update_gone(known, present)
        self._delete_mistaken(known, present)
        self._drop_duplicates(known, present)
        self._update_expiry(key, refs)
        knowledge = KnowledgeImport(self.store, self.source.name, self._identity, key)
        knowledge.import_facts(_translate_read_errors(reader.facts()))
        knowledge.import_secrets(reader.secrets())
        knowledge.import_published(reader.published())
        self.report.problems.extend(reader.problems)

    def _read_changed(
        self,
        reader: SourceReader | ProcessReader,
        changed: Sequence[SessionRef],
        known: Mapping[str, KnownSession],
        appended: AppendedBatches,
        scan_mode: ScanMode,
    ) -> Iterator[tuple[SessionRef, Iterable[Batch]]]:
        """Yield each changed session with its batches. On a first import, the other sessions of its file follow."""
        if not isinstance(reader, ProcessReader):
            for ref in changed:
                yield ref, appended[ref.native_id] if ref.native_id in appended else reader.read(ref)
                for branch in reader.find_branches_read(ref) if scan_mode == "files" else ():
                    yield branch, reader.read_branch(branch)
            return
        requested = set(self._priority_ids & self.unread)
        first = [ref for ref in changed if ref.native_id in requested]
        reader.request_sessions([(ref, _has_no_entries(known.get(ref.native_id))) for ref in [*first, *changed]])
        for ref, batches in reader.read_sessions():
            yield ref, batches
            self.unread.discard(ref.native_id)
            for native_id in (self._priority_ids & self.unread) - requested:
                reader.prioritize(native_id)
                requested.add(native_id)

    def _load_tombstones(self) -> set[str]:
        rows = self.store.rows("select native_id from tombstones where source = ?", self.source.name)
        return {native_id for (native_id,) in rows}

    def _find_refs(
        self, reader: SourceReader | ProcessReader, known: dict[str, KnownSession], mode: ScanMode
    ) -> ScanResult:
        if known and not isinstance(reader, ProcessReader) and reader.scan_files() is not None:
            return scan_incrementally(reader, known, self._versioned_stamp(""), self._load_mark)
        return ScanResult(list(scan_refs(reader, mode)))

    def _has_changed(self, ref: SessionRef, known: dict[str, KnownSession]) -> bool:
        return ref.native_id not in known or known[ref.native_id].stamp != self._versioned_stamp(ref.stamp)

    def _load_known_elsewhere(self, native_ids: Sequence[str]) -> dict[str, KnownSession]:
        """Return the sessions that the store has from another place: their files were moved or copied."""
        if self.source.has_local_ids or not native_ids:
            return {}
        rows = self.store.rows(
            _SELECT_BY_PUBLIC_ID,
            self.source.name,
            encode([self._public_id(native_id) for native_id in native_ids]).decode(),
        )
        return {native_id: KnownSession(key, "", gone, is_read) for native_id, key, gone, is_read in rows}

    def _load_mark(self, session: int) -> str:
        (mark,) = self.store.row("select mark from sessions where key = ?", session)
        return str(mark)

    def _versioned_stamp(self, stamp: str) -> str:
        return f"{self.source.reader_version}:{stamp}"

    # ── the row of the foreign store ──────────────────────────────────────────────────────────────

    def _load_source_row(self) -> tuple[int, dict[str, Any], list[dict[str, str]]]:
        row = self.store.row(SELECT_SOURCE, self.source.name, self.locator)
        if row is None:
            adopt_moved_store(self.store, self.target)
            row = self.store.row(SELECT_SOURCE, self.source.name, self.locator)
        if row is None:
            with self.store.transaction(durable=False) as connection:
                insert_source(connection, self.target)
            row = self.store.row(SELECT_SOURCE, self.source.name, self.locator)
        marks = decode(row[1])
        self._identity = marks.get("identity", self.locator)
        return row[0], marks, decode(row[2])

    def _save_source_row(
        self, key: int, marks: dict[str, Any], new_marks: dict[str, Any], old_problems: list[dict[str, str]]
    ) -> None:
        problems = [problem._asdict() for problem in self.report.problems]
        if marks == new_marks and problems == old_problems:
            return
        with self.store.transaction(durable=False) as connection:
            connection.execute(
                "update sources set marks = ?, problems = ?, changed_at = ? where key = ?",
                (encode(new_marks).decode(), encode(problems).decode(), utc_timestamp(), key),
            )

    def _load_known(self, key: int) -> dict[str, KnownSession]:
        rows = self.store.rows(
            """
            select native_id, key, stamp, gone, head is not null from sessions
            where source_key = ? and (relation is null or relation != 'superseded')
            """,
            key,
        )
        return {native_id: KnownSession(*session) for native_id, *session in rows}

    def _update_unaffected_stamps(self, scan: ScanResult, refs: Mapping[str, SessionRef]) -> None:
        """Save the new stamps of sessions whose file changed while they did not."""
        if scan.unaffected:
            changes = [
                (self._versioned_stamp(refs[native_id].stamp), session)
                for native_id, session in scan.unaffected.items()
            ]
            with self.store.transaction(durable=False) as connection:
                connection.executemany("update sessions set stamp = ? where key = ?", changes)

    def _update_gone(self, known: dict[str, KnownSession], present: set[str]) -> None:
        """Mark the sessions that the scan did not find as gone, and those that are back as present.

        Call it only after a complete scan.
        """
        changes = [
            (int(native_id not in present), session.key)
            for native_id, session in known.items()
            if bool(session.gone) != (native_id not in present)
        ]
        if changes:
            with self.store.transaction(durable=False) as connection:
                connection.executemany("update sessions set gone = ? where key = ?", changes)

    def _delete_mistaken(self, known: dict[str, KnownSession], present: set[str]) -> None:
        """Delete what the quick index took for a session, and the scan did not."""
        for native_id, session in known.items():
            if not session.is_read and native_id not in present:
                self.store.sessions.drop_without_tombstone(self.store.sessions.by_key(session.key))

    def _drop_duplicates(self, known: dict[str, KnownSession], present: set[str]) -> None:
        """Drop superseded sessions whose entries are now in a branch, and branches that the main session continues.

        After a rewind the source has the old entries as a branch. When a branch continues, it becomes the main line.
        """
        for superseded in self._superseded:
            drop_if_duplicated(self.store, superseded, superseded.native_id)
        for native_id, session in known.items():
            if not session.gone and native_id not in present and (main_id := find_main_session(native_id, present)):
                drop_if_duplicated(self.store, self.store.sessions.by_key(session.key), main_id)

    def _update_expiry(self, key: int, refs: Sequence[SessionRef]) -> None:
        expiries = self.source.expiry(self.address, refs)
        rows = self.store.rows("select native_id, key, expires_at from sessions where source_key = ?", key)
        changes = [
            (expiries.get(native_id, ""), session)
            for native_id, session, expires_at in rows
            if expiries.get(native_id, "") != expires_at
        ]
        if changes:
            with self.store.transaction(durable=False) as connection:
                connection.executemany("update sessions set expires_at = ? where key = ?", changes)

    # ── one session ───────────────────────────────────────────────────────────────────────────────

    def _import_session(
        self, ref: SessionRef, destination: _Destination, batches: Iterable[Batch], timer: CommitTimer
    ) -> Iterator[None]:
        """Save a session, and yield after each batch, when it may be committed."""
        writer: SessionWriter | None = None
        first = last = Batch()
        summary: ForeignSummary | None = None
        try:
            for batch in _translate_read_errors(batches):
                timer.begin()
                self.report.problems += [problem._replace(session=ref.native_id) for problem in batch.problems]
                summary, last = batch.summary or summary, batch
                if writer is None:
                    first, writer = batch, self._open_writer(ref, destination, batch)
                writer.write(batch)
                yield
            if writer is None:
                raise Unreadable("The session was listed, but no longer exists.")
            timer.begin()
            if destination.is_elsewhere and writer.has_appended:
                self._save_session(ref, destination, first)
            if not destination.is_elsewhere or writer.has_appended:
                self._finish(writer, summary, self._versioned_stamp(last.stamp or ref.stamp), last.mark)
            if first.kept is not None and _has_no_entries(destination.known):
                restore_kept(self.store, writer.session, first.kept)
            if writer.has_recounted:
                self._save_token_counts(writer.session, first.fields or {})
        except WriteFailed:
            raise
        except StoreError as reason:
            self.report.problems.append(Problem(ref.native_id, str(reason), ref.native_id))
            return
        self.report.new += _has_no_entries(destination.known)
        self.report.updated += not _has_no_entries(destination.known) and (
            writer.has_appended or not destination.is_elsewhere
        )
        self.report.unchanged += destination.is_elsewhere and not writer.has_appended
        yield

    def _open_writer(self, ref: SessionRef, destination: _Destination, first: Batch) -> SessionWriter:
        if destination.is_elsewhere and destination.known is not None and destination.known.is_read:
            return SessionWriter(self.store, self.store.sessions.by_key(destination.known.key), extend_only=True)
        return SessionWriter(
            self.store,
            self._save_session(ref, destination, first),
            is_append=_has_no_entries(destination.known) or destination.is_appended,
        )

    def _finish(self, writer: SessionWriter, summary: ForeignSummary | None, stamp: str, mark: str) -> None:
        writer.finish()
        self._superseded += writer.superseded
        if summary is not None:
            self._save_summary(writer.session, summary)
        self.store.connection.execute(
            "update sessions set stamp = ?, mark = ?, depth = 'full' where key = ?", (stamp, mark, writer.session.key)
        )

    def _save_summary(self, session: Session, summary: ForeignSummary) -> None:
        last = self.store.chains.last_turn(session.key)
        covered = None if summary.up_to_turn is None else min(summary.up_to_turn, last)
        self.store.summaries.set(session, summary.text, up_to_turn=covered, origin="source")

    def _save_session(self, ref: SessionRef, destination: _Destination, batch: Batch) -> Session:
        sessions, known = self.store.sessions, destination.known
        fields = self._resolve_parent(batch.fields or {})
        identified_fields: SessionFields = {**fields, "source": self.source.name, "native_id": ref.native_id}
        if known is None:
            public_id = self._public_id(ref.native_id)
            free_ids(self.store, self.source, [public_id])
            session = sessions.create(public_id, header=batch.header, **identified_fields)
        else:
            session = sessions.by_key(known.key)
            if not known.is_read:
                clear_quick_fields(self.store, session.key)
                sessions.append_header(session, batch.header, identified_fields)
            else:
                fields = self._keep_known(session, fields)
                sessions.complete_header(session, batch.header, fields)
            session = sessions.update(session.id, **fields)
        self.store.connection.execute(
            "update sessions set source_key = ?, reader_version = ?, archived = max(archived, ?) where key = ?",
            (destination.source_key, self.source.reader_version, batch.archived, session.key),
        )
        return session

    def _save_token_counts(self, session: Session, fields: SessionFields) -> None:
        """Store the token counts that the agent reports of the session itself. Its entries have none then."""
        if counts := {name: value for name, value in fields.items() if name.startswith("tokens_")}:
            updated_at = self.store.sessions.by_key(session.key).updated_at
            self.store.sessions.update(session.id, **cast("SessionFields", counts | {"updated_at": updated_at}))

    def _keep_known(self, session: Session, fields: SessionFields) -> SessionFields:
        """Leave out what a later reading does not know any more: a text without content, or a count of 0.

        The model of the last answer counts more than the one that the session was started with, as in a first reading.
        """
        known: dict[str, Any] = {
            name: value
            for name, value in fields.items()
            if name == "forked_at" or value or not getattr(session, name, None)
        }
        if self.store.row(_SELECT_ANY_MODEL, session.key):
            known.pop("model", None)
        return cast("SessionFields", {"updated_at": session.updated_at} | known)

    def _resolve_parent(self, fields: SessionFields) -> SessionFields:
        """Replace the native id by which readers name a parent with its public id."""
        parent = fields.get("parent_id")
        return {**fields, "parent_id": self._public_id(parent)} if parent else fields

    def _public_id(self, native_id: str) -> str:
        return choose_public_id(self.store, self.source, native_id, self._identity)


def _translate_read_errors(items: Iterable[T]) -> Iterator[T]:
    """Yield the items, and raise SQLite errors of a foreign store as Unreadable.

    Otherwise the transaction around it would take them for errors of our own store.
    """
    try:
        yield from items
    except sqlite.SQLITE_ERRORS as reason:
        raise Unreadable(f"The rest cannot be read: {sqlite.to_one_line(reason)}.") from None


def _has_no_entries(known: KnownSession | None) -> bool:
    """Return whether the store has no entry of this session."""
    return known is None or not known.is_read


def _has_unread(known: Mapping[str, KnownSession]) -> bool:
    """Return whether much is left to read: everything, or what an interrupted first sync did not come to."""
    return not known or any(not session.is_read for session in known.values())
