"""Reads what is new in the foreign stores into ours: scan, compare stamps, read, save. Problems are collected.

A session is saved in batches, its stamp with the last; so an interrupted sync goes on where it was, and a second one of
an unchanged world writes nothing at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from store.conversations.superseded import drop_told_twice
from store.errors import Busy, StoreError, Unreadable, WriteFailed
from store.model.identity import foreign_id
from store.model.session import Session, SessionFields
from store.search.quick_index import begin_to_read, forget_what_was_read, keep
from store.sources.contract import Batch, Expiring, ForeignSummary, Growing, Opened, Problem, Ref, Skimming
from store.sources.kit import sqlite
from store.sync.appended import Followed, Grown, Known, follow, head_of
from store.sync.child_process import Seconds, is_large
from store.sync.commit_timer import Pace
from store.sync.knowledge import Knowledge
from store.sync.lock import lease
from store.sync.quick_index import Look
from store.sync.reader_process import Ahead, go_on_to_read, opening, scan
from store.sync.refresh import ROW, Progress, Report, Target, unchanged
from store.sync.session_writer import Chain
from store.text.validate import decode, encode, now

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from store.store import Store


AT_A_TIME = 2
"""Stores that are read in turn: while what one tells is written, the other's process reads on."""

MANY = 200
"""New sessions after which the search index is worth being put in order as a whole."""

T = TypeVar("T")

_ELSEWHERE = """
    select native_id, key, gone, head is not null from sessions
    where source = ? and id in (select value from json_each(?)) and (relation is null or relation != 'superseded')
"""
_ANY_READ = "select 1 from sessions where source_key = ? and head is not null limit 1"


class _Place(NamedTuple):
    """Where a session that is read belongs."""

    source_key: int
    known: Known | None
    elsewhere: bool
    "The store has it from another place, which is followed until this one goes further."
    grown: bool
    "What is told comes behind what the store has."


def read(store: Store, chosen: Iterable[Target], processes: Seconds | None = None) -> Iterator[Progress]:
    """Each target in turn, the newest of each first; by processes that were begun early, where there are some."""
    with processes or Seconds("quick_index") as processes:
        under_way: list[_Syncing] = []
        looks: list[Iterator[Progress]] = []
        was_seen = False
        for target in chosen:
            under_way.append(_Syncing(store, target))
            looks.append(under_way[-1].look(processes, here=not was_seen))
            # The newest of each, before all of any.
            for progress in islice(looks[-1], 1):
                was_seen = True
                yield progress
        yield from _by_turns(looks)
        with store.undone_from_memory():
            yield from _in_turn(store, under_way)
        forget_what_was_read(store)
        if sum(one.report.new for one in under_way) >= MANY:
            last = under_way[-1].report
            yield from (Progress(last, last.seen, last.seen) for _ in store.search.merge())
        store.give_back()


def glimpse(store: Store, chosen: Iterable[Target]) -> Iterator[Progress]:
    """The newest of each, for as long as somebody waits: of a large archive at first sight, of a small one all."""
    with lease(store):
        for target in chosen:
            one = _Syncing(store, target)
            yield from one.look(None, here=True)
            if not one.unread:
                yield from one.run()


def _by_turns(told: Iterable[Iterator[T]]) -> Iterator[T]:
    waiting = deque(told)
    while waiting:
        for one in islice(waiting[0], 1):
            yield one
            waiting.append(waiting[0])
        waiting.popleft()


def _in_turn(store: Store, under_way: Sequence[_Syncing]) -> Iterator[Progress]:
    """Two at a time, since each is read by a process of its own; but one that has what somebody waits for first."""
    for one in under_way:
        one.go_on()
    waiting = deque((one, one.run()) for one in under_way)
    while waiting:
        hurried = next((at for at, (one, _) in enumerate(waiting) if one.unread & store.hurried), 0)
        one, run = waiting[hurried]
        progress = next(run, None)
        del waiting[hurried]
        if progress is not None:
            waiting.insert(min(AT_A_TIME - 1, len(waiting)), (one, run))
            yield progress


class _Syncing:
    """One foreign store on its way into ours."""

    def __init__(self, store: Store, target: Target) -> None:
        self.store = store
        self.target = target
        self.source = target.source
        self.locator = target.locator
        self.address = target.address
        self.report = Report(target.source.NAME, target.locator)
        self.unread: set[str] = set()
        "The native ids of those that were only skimmed."
        self._superseded: list[Session] = []
        self._reader: Connection | None = None
        "A process that has looked at it all, and waits to read it."

    def look(self, processes: Seconds | None, *, here: bool) -> Iterator[Progress]:
        """For the first time, at a large archive of which nothing was read yet; without a process, at its newest."""
        key, _, _ = self._row()
        if not isinstance(self.source, Skimming) or not is_large(Path(self.address), new=True):
            return
        if self.store.row(_ANY_READ, key):
            return
        known = self._known(key).keys()
        self.unread |= known
        look = Look(self.source, self.address, processes)
        for sights in look.sights(known | self._buried(), here=here):
            self.unread |= keep(self.store, sights, self.source.NAME, key, self._public_id)
            self.report.seen = len(self.unread)
            yield Progress(self.report, 0, self.report.seen)
        self._reader = look.reader

    def go_on(self) -> None:
        """It need not be waited for until it is this one's turn."""
        if self._reader is not None:
            go_on_to_read(self._reader)

    def run(self) -> Iterator[Progress]:
        key, marks, old_problems = self._row()
        if calm := unchanged(self.store, self.target):
            self.report = calm
            yield Progress(calm, calm.seen, calm.seen)
            return
        marks_now = {"stamp": self.target.stamp, "reader": self.source.READER}
        known = self._known(key)
        try:
            with opening(self.source, self.address, self._reader, new=_are_unread(known)) as opened:
                yield from self._read_all(opened, key, known, [Problem(**problem) for problem in old_problems])
            marks_now["seen"] = self.report.seen
        except StoreError as reason:
            if isinstance(reason, WriteFailed) and not isinstance(reason, Busy):
                raise
            self.report.problems.append(Problem(self.locator, str(reason)))
            marks_now = marks
        self._save_row(key, marks, marks_now, old_problems)
        yield Progress(self.report, self.report.seen, self.report.seen)

    def _read_all(
        self, opened: Opened | Ahead, key: int, known: dict[str, Known], before: list[Problem]
    ) -> Iterator[Progress]:
        found = self._find(opened, known)
        refs = sorted(found.refs, key=lambda ref: ref.updated_at, reverse=True)
        elsewhere = self._elsewhere([ref.native_id for ref in refs if ref.native_id not in known])
        known = known | elsewhere
        aside = self._buried() | found.calm.keys()
        changed = [ref for ref in refs if self._is_new(ref, known) and ref.native_id not in aside]
        self.report.seen = len(refs)
        self.report.unchanged = len(refs) - len(changed)
        anew = {ref.native_id for ref in changed} - found.grown.keys()
        still = {ref.native_id for ref in refs} - anew
        self.report.problems = [problem for problem in before if problem.session in still]
        with Pace(self.store) as pace:
            told = self._told(opened, changed, known, found.grown)
            for done, (ref, batches) in enumerate(told, 1 + self.report.unchanged):
                place = _Place(key, known.get(ref.native_id), ref.native_id in elsewhere, ref.native_id in found.grown)
                for _ in self._take(ref, place, batches, pace):
                    if not (isinstance(opened, Ahead) and opened.has_more) and pace.breathe():
                        yield Progress(self.report, done, len(refs))
        self._stamp_calm(found, {ref.native_id: ref for ref in refs})
        present = {ref.native_id for ref in refs}
        self._mark_gone(known, present)
        self._drop_mistaken(known, present)
        self._tell_once(known, present)
        self._note_expiry(key, refs)
        knowledge = Knowledge(self.store, self.source.NAME, self.locator, key)
        knowledge.take_facts(_foreign(opened.facts()))
        knowledge.take_secrets(opened.secrets())
        knowledge.take_published(opened.published())
        self.report.problems.extend(opened.problems)

    def _told(
        self, opened: Opened | Ahead, changed: Sequence[Ref], known: Mapping[str, Known], grown: Grown
    ) -> Iterator[tuple[Ref, Iterable[Batch]]]:
        """Each session with what there is of it to be taken."""
        if not isinstance(opened, Ahead):
            for ref in changed:
                yield ref, grown[ref.native_id] if ref.native_id in grown else opened.read(ref)
            return
        asked = self.store.hurried & self.unread
        first = [ref for ref in changed if ref.native_id in asked]
        opened.prepare([(ref, _is_untouched(known.get(ref.native_id))) for ref in [*first, *changed]])
        for ref, batches in opened.sessions():
            yield ref, batches
            self.unread.discard(ref.native_id)
            for native_id in (self.store.hurried & self.unread) - asked:
                opened.hurry(native_id)
                asked.add(native_id)

    def _buried(self) -> set[str]:
        rows = self.store.rows("select native_id from tombstones where source = ?", self.source.NAME)
        return {native for (native,) in rows}

    def _find(self, opened: Opened | Ahead, known: dict[str, Known]) -> Followed:
        if isinstance(opened, Growing) and known:
            return follow(opened, known, self._stamp(""), self._mark)
        return Followed(list(scan(opened, stamped=bool(known))))

    def _is_new(self, ref: Ref, known: dict[str, Known]) -> bool:
        return ref.native_id not in known or known[ref.native_id].stamp != self._stamp(ref.stamp)

    def _elsewhere(self, names: Sequence[str]) -> dict[str, Known]:
        """Sessions that the store has from another place: their files were moved, or are told of twice."""
        if self.source.LOCAL_IDS or not names:
            return {}
        rows = self.store.rows(_ELSEWHERE, self.source.NAME, encode([self._public_id(name) for name in names]).decode())
        return {native: Known(key, "", gone, is_read) for native, key, gone, is_read in rows}

    def _mark(self, session: int) -> str:
        (mark,) = self.store.row("select mark from sessions where key = ?", session)
        return str(mark)

    def _stamp(self, stamp: str) -> str:
        return f"{self.source.READER}:{stamp}"

    # ── the foreign store's row ───────────────────────────────────────────────────────────────────

    def _row(self) -> tuple[int, dict[str, Any], list[dict[str, str]]]:
        row = self.store.row(ROW, self.source.NAME, self.locator)
        if row is None:
            with self.store.transaction(durable=False) as connection:
                connection.execute(
                    "insert into sources (kind, locator) values (?, ?)", (self.source.NAME, self.locator)
                )
            row = self.store.row(ROW, self.source.NAME, self.locator)
        return row[0], decode(row[1]), decode(row[2])

    def _save_row(
        self, key: int, marks: dict[str, Any], marks_now: dict[str, Any], old_problems: list[dict[str, str]]
    ) -> None:
        problems = [problem._asdict() for problem in self.report.problems]
        if marks == marks_now and problems == old_problems:
            return
        with self.store.transaction(durable=False) as connection:
            connection.execute(
                "update sources set marks = ?, problems = ?, changed_at = ? where key = ?",
                (encode(marks_now).decode(), encode(problems).decode(), now(), key),
            )

    def _known(self, key: int) -> dict[str, Known]:
        rows = self.store.rows(
            """
            select native_id, key, stamp, gone, head is not null from sessions
            where source_key = ? and (relation is null or relation != 'superseded')
            """,
            key,
        )
        return {native: Known(*session) for native, *session in rows}

    def _stamp_calm(self, found: Followed, refs: Mapping[str, Ref]) -> None:
        """Their file changed, and they did not."""
        if found.calm:
            changes = [(self._stamp(refs[native].stamp), session) for native, session in found.calm.items()]
            with self.store.transaction(durable=False) as connection:
                connection.executemany("update sessions set stamp = ? where key = ?", changes)

    def _mark_gone(self, known: dict[str, Known], present: set[str]) -> None:
        """Only after a scan that came to its end. A session that is there again is not gone any more."""
        changes = [
            (int(native not in present), session.key)
            for native, session in known.items()
            if bool(session.gone) != (native not in present)
        ]
        if changes:
            with self.store.transaction(durable=False) as connection:
                connection.executemany("update sessions set gone = ? where key = ?", changes)

    def _drop_mistaken(self, known: dict[str, Known], present: set[str]) -> None:
        """What was taken for a session at first sight, and turned out to be none."""
        for native, session in known.items():
            if not session.is_read and native not in present:
                self.store.sessions.drop(self.store.sessions.by_key(session.key))

    def _tell_once(self, known: dict[str, Known], present: set[str]) -> None:
        """After a rewind, what was told before is a fork; and when it goes on again, no fork any more."""
        for hidden in self._superseded:
            drop_told_twice(self.store, hidden, hidden.native_id)
        for native, session in known.items():
            if not session.gone and native not in present and (family := head_of(native, present)):
                drop_told_twice(self.store, self.store.sessions.by_key(session.key), family)

    def _note_expiry(self, key: int, refs: Sequence[Ref]) -> None:
        if not isinstance(self.source, Expiring):
            return
        told = self.source.expires(self.address, refs)
        noted = self.store.rows("select native_id, key, expires_at from sessions where source_key = ?", key)
        changes = [(told.get(native, ""), session) for native, session, at in noted if told.get(native, "") != at]
        if changes:
            with self.store.transaction(durable=False) as connection:
                connection.executemany("update sessions set expires_at = ? where key = ?", changes)

    # ── one session ───────────────────────────────────────────────────────────────────────────────

    def _take(self, ref: Ref, place: _Place, told: Iterable[Batch], pace: Pace) -> Iterator[None]:
        """Yields whenever what was read may be committed."""
        chain: Chain | None = None
        first = last = Batch()
        summary: ForeignSummary | None = None
        try:
            for batch in _foreign(told):
                pace.begin()
                self.report.problems += [problem._replace(session=ref.native_id) for problem in batch.problems]
                summary, last = batch.summary or summary, batch
                if chain is None:
                    first, chain = batch, self._chain(ref, place, batch)
                chain.take(batch)
                yield
            if chain is None:
                raise Unreadable("It cannot be found by its name.")
            pace.begin()
            if place.elsewhere and chain.went_on:
                self._session(ref, place, first)
            if not place.elsewhere or chain.went_on:
                self._finish(chain, summary, self._stamp(last.stamp or ref.stamp), last.mark)
        except WriteFailed:
            raise
        except StoreError as reason:
            self.report.problems.append(Problem(ref.native_id, str(reason), ref.native_id))
            return
        self.report.new += _is_untouched(place.known)
        self.report.updated += not _is_untouched(place.known) and (chain.went_on or not place.elsewhere)
        self.report.unchanged += place.elsewhere and not chain.went_on
        yield

    def _chain(self, ref: Ref, place: _Place, first: Batch) -> Chain:
        if place.elsewhere and place.known is not None and place.known.is_read:
            return Chain(self.store, self.store.sessions.by_key(place.known.key), only_on=True)
        return Chain(self.store, self._session(ref, place, first), behind=_is_untouched(place.known) or place.grown)

    def _finish(self, chain: Chain, summary: ForeignSummary | None, stamp: str, mark: str) -> None:
        chain.end()
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

    def _session(self, ref: Ref, place: _Place, batch: Batch) -> Session:
        sessions, known = self.store.sessions, place.known
        fields = self._linked(batch.fields or {})
        named: SessionFields = {**fields, "source": self.source.NAME, "native_id": ref.native_id}
        if known is None:
            session = sessions.create(self._public_id(ref.native_id), header=batch.header, **named)
        else:
            session = sessions.by_key(known.key)
            if not known.is_read:
                begin_to_read(self.store, session.key)
                sessions.begin_chain(session, batch.header, named)
            session = sessions.update(session.id, **fields)
        self.store.connection.execute(
            "update sessions set source_key = ?, reader_version = ?, archived = max(archived, ?) where key = ?",
            (place.source_key, self.source.READER, batch.archived, session.key),
        )
        return session

    def _linked(self, fields: SessionFields) -> SessionFields:
        """Readers name a parent by its native id; here it gets its public one."""
        parent = fields.get("parent_id")
        return {**fields, "parent_id": self._public_id(parent)} if parent else fields

    def _public_id(self, native_id: str) -> str:
        return foreign_id(self.source.NAME, native_id, self.locator if self.source.LOCAL_IDS else "")


def _foreign(told: Iterable[T]) -> Iterator[T]:
    """A foreign store's failure in words of its own, before the transaction around it takes it for one of ours."""
    try:
        yield from told
    except sqlite.BROKEN as reason:
        raise Unreadable(f"It cannot be read any further: {sqlite.in_a_line(reason)}.") from None


def _is_untouched(known: Known | None) -> bool:
    """Whether the store has nothing of its conversation."""
    return known is None or not known.is_read


def _are_unread(known: Mapping[str, Known]) -> bool:
    """Whether much is left to be read: all of it, or what an interrupted first sync only skimmed."""
    return not known or any(not session.is_read for session in known.values())
