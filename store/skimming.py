"""The first look at a large archive: a row for every session and the words that were said in it, within seconds.

What was only skimmed is listed and found until it is read; then its own entries are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from contextlib import suppress
from itertools import islice
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from store import sources
from store.ahead import read
from store.coding import column_text, now
from store.deriving import shown_prompt
from store.scripts import search_text
from store.second import Seconds, Sender, has_begun, tell
from store.sources.shape import Skim, Skimming

if TYPE_CHECKING:
    from store.store import Store

FIRST = 40
"""Sessions that are told at once: more than the list shows."""

LETTERS = 1_000_000
"""Of what was said, that are told together after those."""

_SIGHTS, _END = "sights", "end"

_LAST = "select coalesce(max(key), 0) from sessions"
_INSERT = """
    insert into sessions (id, source, source_key, native_id, parent_id, relation, agent_title, first_prompt, provider,
        model, cwd, turns, created_at, updated_at, depth)
    values (:id, :source, :source_key, :native_id, :parent_id, :relation, :agent_title, :first_prompt, :provider,
        :model, :cwd, :turns, :created_at, :updated_at, 'text')
    on conflict (id) do nothing
"""
_INSERTED = "select key, native_id from sessions where key > ?"
"""Asked for all together: each to be told by its own insert would take four times as long."""

_INDEX = "insert into skims_fts (rowid, text) values (?, ?)"
_BEGIN = """
    update sessions set first_prompt = '', model = '', turns = 0, parent_id = null, relation = null
    where key = ? and head is null
"""
_LEFT = "select exists (select 1 from sessions where depth = 'text')"
_KEPT = "select exists (select 1 from skims_fts_data where id > 10)"


class Sight:
    """A session as it was skimmed, in the columns that it is kept in."""

    __slots__ = ("fields", "native_id", "text")

    def __init__(self, skim: Skim) -> None:
        self.native_id = skim.native_id
        self.text = search_text(column_text("\n\n".join([*skim.prompts, *skim.said])))
        first = next(filter(str.strip, skim.prompts), "")
        at = skim.fields.get("updated_at") or now()
        self.fields: dict[str, Any] = {
            "parent_id": None,
            "relation": None,
            "agent_title": "",
            "provider": "",
            "model": "",
            "cwd": "",
            "created_at": at,
            "updated_at": at,
            "first_prompt": column_text(shown_prompt(first)),
            "turns": len(skim.prompts),
            **skim.fields,
        }

    def row(self, public_id: Callable[[str], str]) -> dict[str, Any]:
        parent = self.fields["parent_id"]
        named = {"id": public_id(self.native_id), "native_id": self.native_id}
        return self.fields | named | {"parent_id": public_id(parent) if parent else None}


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


class Look:
    """At one archive, by a process of its own that can then go on to read it."""

    def __init__(self, source: Skimming, address: str, processes: Seconds | None) -> None:
        self._source = source
        self._address = address
        self._processes = processes
        self.reader: Connection | None = None
        "The process, once it has seen everything."

    def sights(self, known: Set[str], *, here: bool) -> Iterator[Sequence[Sight]]:
        """The newest few first; if they are wanted, here, unless a process is at it."""
        process = self._processes.at_work_on(self._order(known)) if self._processes else None
        if process is None:
            process = self._processes.one() if self._processes else None
            newest = [Sight(skim) for skim in islice(self._source.skim(self._address, known), FIRST if here else 0)]
            if process is not None:
                tell(process, self._order({*known, *(sight.native_id for sight in newest)}))
            if newest:
                yield newest
        if process is not None and has_begun(process):
            with suppress(EOFError, OSError):  # it fell over something; whoever reads that will tell
                while _END not in (told := dict(process.recv())):
                    yield told[_SIGHTS]
                self.reader = process

    def _order(self, known: Set[str]) -> Hashable:
        return self._source.NAME, self._address, frozenset(known)


def serve(pipe: Connection) -> None:
    sender = Sender(pipe)
    with suppress(EOFError, BrokenPipeError):  # nobody waits any more
        name, address, known = pipe.recv()
        source = sources.by_name(name)
        if isinstance(source, Skimming):
            for sights in _together(source.skim(address, known)):
                sender.send((_SIGHTS, sights))
        sender.send((_END, None))
        read(pipe, sender, name, address)
    sender.finish()


def _together(skims: Iterator[Skim]) -> Iterator[list[Sight]]:
    """The newest few, then as many as are worth a commit."""
    yield [Sight(skim) for skim in islice(skims, FIRST)]
    sights: list[Sight] = []
    letters = 0
    for skim in skims:
        sights.append(Sight(skim))
        letters += len(sights[-1].text)
        if letters >= LETTERS:
            yield sights
            sights, letters = [], 0
    yield sights


# ── keeping ───────────────────────────────────────────────────────────────────────────────────────


def keep(
    store: Store, sights: Sequence[Sight], source: str, source_key: int, public_id: Callable[[str], str]
) -> set[str]:
    """Gives the native ids of those that are new. One that is there already is left as it is."""
    if not sights:
        return set()
    texts = {sight.native_id: sight.text for sight in sights}
    rows = ({**sight.row(public_id), "source": source, "source_key": source_key} for sight in sights)
    with store.transaction(durable=False) as connection:
        (last,) = connection.execute(_LAST).fetchone()
        connection.executemany(_INSERT, rows)
        new = connection.execute(_INSERTED, (last,)).fetchall()
        connection.executemany(_INDEX, ((key, texts[native_id]) for key, native_id in new))
    return {native_id for _, native_id in new}


def begin_to_read(store: Store, session: int) -> None:
    """What is read tells itself what was only seen."""
    store.connection.execute(_BEGIN, (session,))


def forget_what_was_read(store: Store) -> None:
    """When nothing is left that is found by them."""
    ((left,), (kept,)) = store.row(_LEFT), store.row(_KEPT)
    if kept and not left:
        _forget(store)


def forget_unread(store: Store, session: int) -> None:
    """With the words of all others, if it was never read: who could take its own out has them no more."""
    if store.row("select 1 from sessions where key = ? and depth = 'text'", session):
        _forget(store)


def _forget(store: Store) -> None:
    with store.transaction(durable=False) as connection:
        connection.execute("insert into skims_fts (skims_fts) values ('delete-all')")
