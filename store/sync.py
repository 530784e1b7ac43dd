"""Reads what is new in the foreign stores into ours: scan, compare stamps, read, save. Problems are collected.

A session is saved in batches, its stamp with the last; so an interrupted sync goes on where it was, and a second one of
an unchanged world writes nothing at all.
"""

from __future__ import annotations

import fcntl
import gc
import os
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from store import sources
from store.ahead import Ahead, is_large, opening, scan
from store.coding import decode, encode, now
from store.errors import Busy, NotFound, StoreError, Unreadable, WriteFailed
from store.following import Followed, Grown, Known, follow, head_of
from store.knowledge import Knowledge
from store.locating import in_home, is_url, place_of
from store.model import Session, SessionFields, foreign_id
from store.pace import Pace
from store.rereading import Chain
from store.skimming import begin_to_read, forget_what_was_read, keep, skimmed
from store.sources import reading
from store.sources.shape import Batch, Expiring, ForeignSummary, Growing, Opened, Problem, Ref, Source
from store.superseding import drop_told_twice

if TYPE_CHECKING:
    from store.store import Store


COLLECTED_AFTER = 100_000
"""New objects; Python's own 700 take a tenth of an import."""

T = TypeVar("T")

_ELSEWHERE = """
    select native_id, key, gone, head is not null from sessions
    where source = ? and id in (select value from json_each(?)) and (relation is null or relation != 'superseded')
"""


_PRESENT = "select count(*) from sessions where source_key = ? and gone = 0 and relation is not 'superseded'"
_ANY_READ = "select 1 from sessions where source_key = ? and head is not null limit 1"


class _Place(NamedTuple):
    """Where a session that is read belongs."""

    source_key: int
    known: Known | None
    elsewhere: bool
    "The store has it from another place, which is followed until this one goes further."
    grown: bool
    "What is told comes behind what the store has."


@dataclass(slots=True)
class Report:
    "What a sync did with one foreign store."

    source: str
    locator: str
    seen: int = 0
    new: int = 0
    updated: int = 0
    unchanged: int = 0
    problems: list[Problem] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Progress:
    report: Report
    done: int
    total: int


@dataclass(frozen=True, slots=True)
class Target:
    source: Source
    locator: str
    address: str = field(repr=False)
    "What opens it; with a password where it takes one, so it is neither kept nor shown."


def targets(paths: Sequence[str] = (), only: str | None = None) -> list[Target]:
    """What there is to read: the stores that are named, or all that are found where their programs keep them."""
    if only is not None and only not in sources.NAMES:
        raise NotFound(f"There is no source {only!r}; there are {', '.join(sources.NAMES)}.")
    if not paths:
        return list(found(only))
    chosen = [source for source in sources.ALL if only in (None, source.NAME)]
    return [target for path in paths for target in _named(path, chosen)]


def found(only: str | None = None) -> Iterator[Target]:
    """Where their programs keep them. Each is looked for when it is asked for, so that the first can be read before."""
    for name in dict.fromkeys((*sources.LARGEST, *sources.NAMES)):
        source = sources.by_name(name) if only in (None, name) else None
        if source is not None:
            places = dict.fromkeys(map(place_of, source.roots()))
            yield from (Target(source, *place) for place in places if _is_there(source, place.address))


def _is_there(source: Source, address: str) -> bool:
    """What is being written to right now is there, where its program keeps it; reading it will tell that it is busy."""
    try:
        return source.detect(address)
    except Busy:
        return True


def _named(path: str, chosen: Sequence[Source]) -> list[Target]:
    """Those that are in a home where their programs keep them; that store; or those side by side in that folder."""
    place = place_of(path)
    at_home = (Target(source, *one) for source in chosen for one in in_home(place.locator, source.roots()))
    if kept := [target for target in at_home if _is_there(target.source, target.address)]:
        return kept
    for source in chosen:
        if source.detect(place.address):
            return [Target(source, *place)]
    if is_url(place.locator):
        raise Unreadable(f"{place.locator} is not a database that Backscroll can read.")
    if not Path(place.locator).exists():
        raise Unreadable(f"{path} is not there.")
    if within := list(_within(Path(place.locator), chosen)):
        return within
    reading.refuse_damaged(Path(place.locator))
    raise Unreadable(f"{path} is not a conversation store that Backscroll can read.")


def _within(folder: Path, chosen: Sequence[Source]) -> Iterator[Target]:
    for child in sorted(folder.iterdir()) if folder.is_dir() else ():
        place = place_of(str(child))
        with suppress(StoreError):  # one that is damaged, beside others
            yield from islice((Target(source, *place) for source in chosen if _is_there(source, place.address)), 1)


@contextmanager
def _lease(store: Store) -> Iterator[None]:
    """One sync at a time, also across processes; released by the system when the process dies."""
    handle = os.open(f"{store.path}.sync", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy("Another sync of this store is under way; try again when it is done.") from None
        yield
    finally:
        os.close(handle)


@contextmanager
def _seldom_collecting() -> Iterator[None]:
    """Rows come and go by the thousand, and none of them in circles that the collector would have to find."""
    usual = gc.get_threshold()
    gc.set_threshold(COLLECTED_AFTER, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


def sync(store: Store, chosen: Iterable[Target]) -> Iterator[Progress]:
    """Reads each target in turn, telling how far it is. The reports are whole when the iterator ends."""
    with _lease(store), _seldom_collecting():
        under_way: list[_Syncing] = []
        was_seen = False
        with ExitStack() as looking:
            looks: list[Iterator[Progress]] = []
            for target in chosen:
                under_way.append(_Syncing(store, target))
                looks.append(looking.enter_context(closing(under_way[-1].look(here=not was_seen))))
                # The newest of each, before all of any.
                for progress in islice(looks[-1], 1):
                    was_seen = True
                    yield progress
            yield from chain.from_iterable(looks)
        yield from _in_turn(store, under_way)
        forget_what_was_read(store)
        store.give_back()


def _in_turn(store: Store, under_way: Sequence[_Syncing]) -> Iterator[Progress]:
    """One after the other, but for one that has what somebody waits for."""
    waiting = {one: one.run() for one in under_way}
    while waiting:
        one = next((one for one in waiting if one.unread & store.hurried), next(iter(waiting)))
        progress = next(waiting[one], None)
        if progress is None:
            del waiting[one]
        else:
            yield progress


class _Syncing:
    """One foreign store on its way into ours."""

    def __init__(self, store: Store, target: Target) -> None:
        self.store = store
        self.source = target.source
        self.locator = target.locator
        self.address = target.address
        self.report = Report(target.source.NAME, target.locator)
        self.unread: set[str] = set()
        "The native ids of those that were only skimmed."
        self._superseded: list[Session] = []

    def look(self, *, here: bool) -> Generator[Progress, None, None]:
        """For the first time, at a large archive of which nothing was read yet."""
        key, _, _ = self._row()
        if self.store.row(_ANY_READ, key) or not is_large(Path(self.address), new=True):
            return
        known = self._known(key).keys()
        self.unread |= known
        for sights in skimmed(self.source, self.address, known | self._buried(), here=here):
            self.unread |= keep(self.store, sights, self.source.NAME, key, self._public_id)
            self.report.seen = len(self.unread)
            yield Progress(self.report, 0, self.report.seen)

    def run(self) -> Iterator[Progress]:
        key, marks, old_problems = self._row()
        stamp = self.source.stamp(self.address)
        marks_now = {"stamp": stamp, "reader": self.source.READER}
        if stamp and marks == marks_now:
            (self.report.seen,) = self.store.row(_PRESENT, key)
            self.report.unchanged = self.report.seen
            self.report.problems = [Problem(**problem) for problem in old_problems]
            yield Progress(self.report, self.report.seen, self.report.seen)
            return
        known = self._known(key)
        try:
            with opening(self.source, self.address, new=_are_unread(known)) as opened:
                yield from self._read_all(opened, key, known, [Problem(**problem) for problem in old_problems])
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
        find = "select key, marks, problems from sources where kind = ? and locator = ?"
        row = self.store.row(find, self.source.NAME, self.locator)
        if row is None:
            with self.store.transaction(durable=False) as connection:
                connection.execute(
                    "insert into sources (kind, locator) values (?, ?)", (self.source.NAME, self.locator)
                )
            row = self.store.row(find, self.source.NAME, self.locator)
        return row[0], decode(row[1]), decode(row[2])

    def _save_row(
        self, key: int, marks: dict[str, Any], marks_now: dict[str, Any], old_problems: list[dict[str, str]]
    ) -> None:
        problems = [asdict(problem) for problem in self.report.problems]
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
        """Yields whenever what was read is committed, and no lock is held."""
        chain: Chain | None = None
        first = last = Batch()
        summary: ForeignSummary | None = None
        try:
            for batch in _foreign(told):
                pace.begin()
                self.report.problems += [replace(problem, session=ref.native_id) for problem in batch.problems]
                summary, last = batch.summary or summary, batch
                if chain is None:
                    first, chain = batch, self._chain(ref, place, batch)
                chain.take(batch)
                if pace.breathe():
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
        if pace.breathe():
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
    except reading.BROKEN as reason:
        raise Unreadable(f"It cannot be read any further: {reading.in_a_line(reason)}.") from None


def _is_untouched(known: Known | None) -> bool:
    """Whether the store has nothing of its conversation."""
    return known is None or not known.is_read


def _are_unread(known: Mapping[str, Known]) -> bool:
    """Whether much is left to be read: all of it, or what an interrupted first sync only skimmed."""
    return not known or any(not session.is_read for session in known.values())
