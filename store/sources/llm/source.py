"""llm: one SQLite file, the threads of 0.32 and later beside the conversations of before, which stay where they are.

A conversation that goes on in a newer llm becomes a thread of the same id, with all its past in it once more.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import chain as chained
from itertools import islice, takewhile
from pathlib import Path

from store.model.entry import NewEntry
from store.model.session import Session, SessionFields
from store.sources.contract import Batch, Continuing, Problem, Ref
from store.sources.kit import homes, sqlite
from store.sources.kit.sqlite import Row
from store.sources.kit.transcripts import Branch, Transcripts
from store.sources.llm import responses, threads
from store.sources.llm.responses import Responses, told_of_log
from store.sources.llm.tables import Pairing, Tables, columns_of
from store.sources.llm.threads import Messages, Thread, Tree, Turn, thread_of

__all__ = ["LABEL", "LOCAL_IDS", "NAME", "READER", "detect", "open", "resume", "roots", "stamp"]

NAME = "llm"
LABEL = "llm"
READER = 1
LOCAL_IDS = False

_LOGGED = "logs:"
_OF_THREAD = "where thread_id = ? order by id"

roots = homes.llm


def detect(locator: str) -> bool:
    wanted = (threads.SIGNATURE, responses.SIGNATURE, *responses.LOG_SIGNATURES)
    return any(sqlite.looks_like(locator, signature) for signature in wanted)


def stamp(locator: str) -> str:
    return sqlite.file_stamp(Path(locator))


@contextmanager
def open(locator: str) -> Iterator[Llm]:  # noqa: A001 the shape's own word
    with sqlite.snapshot(Path(locator)) as connection:
        yield Llm(connection, locator)


def resume(session: Session) -> Continuing:
    if session.native_id.startswith(_LOGGED):
        return Continuing(None, hint="llm does not read logs of 2023 any more; start a new conversation.")
    if "/" in session.native_id:
        return Continuing(
            None, hint="llm goes on only where a thread was left; this is a branch that was gone back from."
        )
    path = session.environment_path
    where = ("-d", path) if path and path != os.path.realpath(next(iter(roots()))) else ()
    return Continuing(("llm", "chat", "--cid", session.native_id, *where), install="uv tool install llm")


class Llm(Transcripts):
    def __init__(self, connection: sqlite3.Connection, locator: str) -> None:
        super().__init__()
        self._tables = Tables(connection)
        self._locator = locator
        self._new = self._tables.fit(threads.SIGNATURE)
        self._old = self._tables.fit(responses.SIGNATURE)

    # ── what there is ─────────────────────────────────────────────────────────────────────────────

    def scan(self) -> Iterator[Ref]:
        known: set[object] = set()
        for row in self._thread_rows():
            known.add(row["id"])
            yield from self._refs(self._thread(row))
        self.problems += self._strays(known)
        for name in self._conversations:
            if name not in known:
                yield self._old_ref(name)
        yield from self._logged()

    def _thread_rows(self) -> Iterator[Row]:
        for row in self._tables.rows("threads", self.problems) if self._new else ():
            if isinstance(row["id"], str) and row["id"]:
                yield row
            else:
                self.problems.append(Problem("threads", f"The thread {row['id']!r} is not named by text."))

    def _refs(self, thread: Thread) -> Iterator[Ref]:
        told = [tuple(turn.values()) for turn in thread.turns]
        newest = max([turn.ended for turn in thread.turns] + [sqlite.utc(thread.row["datetime_utc"])])
        before = [self._said[number] for number in self._conversations.get(thread.name, ())]
        for lost in thread.lost:
            self.problems.append(Problem(f"threads:{thread.name}", f"There is no message {lost!r}."))
        for branch in thread.branches or [Branch()]:
            chain = thread.chains.get(branch.name, [])
            content = sqlite.digest(*dict(thread.row).values(), *told, *before, self._tree.digest(chain))
            yield Ref(branch.native_id(thread.name), content, newest)

    def _strays(self, known: set[object]) -> Iterator[Problem]:
        for number, thread in self._tables.sweep("turns", "thread_id") if self._new else ():
            if thread not in known:
                known.add(thread)
                yield Problem(f"turns:{number}", f"There is no thread {thread!r}.")

    def _old_ref(self, name: str) -> Ref:
        numbers = self._conversations[name]
        about = self._tables.one("conversations", self.problems, "where id = ?", name)
        last = self._response(numbers[-1]) if numbers else None
        content = sqlite.digest(*(about or ()), *(self._said[number] for number in numbers))
        return Ref(name, content, sqlite.utc(last["datetime_utc"]) if last else "")

    @cached_property
    def _tree(self) -> Tree:
        return Tree(self._tables)

    def _thread(self, row: Row) -> Thread:
        return thread_of(row, self._turns(row["id"]), self._tree)

    def _turns(self, thread: str) -> list[Turn]:
        return [Turn(columns_of(row)) for row in self._tables.rows("turns", self.problems, _OF_THREAD, thread)]

    @cached_property
    def _said(self) -> dict[int, str]:
        """A sum of each response."""
        columns = ("id", "prompt", "system", "response", "datetime_utc")
        return {
            number: sqlite.digest(name, *told, self._responses.digest(name))
            for number, name, *told in self._tables.sweep("responses", *columns)
        }

    @cached_property
    def _responses(self) -> Responses:
        return Responses(self._tables)

    @cached_property
    def _conversations(self) -> dict[str, list[int]]:
        """The responses of each, in their order. The first releases of 0.32 wrote them into both kinds of tables."""
        if not self._old:
            return {}
        twice = {name for _, name in self._tables.sweep("turns", "id")} if self._new else set()
        found: dict[str, list[tuple[str, int]]] = {}
        for number, name, conversation in self._tables.sweep("responses", "id", "conversation_id"):
            if name not in twice:
                owner = sqlite.text(conversation) or sqlite.text(name)
                found.setdefault(owner, []).append((sqlite.text(name), number))
        for _, name in self._tables.sweep("conversations", "id"):
            if isinstance(name, str) and name:
                found.setdefault(name, [])
        return {name: [number for _, number in sorted(rows)] for name, rows in found.items() if name}

    def _response(self, number: int) -> Row | None:
        return self._tables.one("responses", self.problems, "where rowid = ?", number)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def read(self, ref: Ref) -> Iterator[Batch]:
        met: list[Problem] = []
        name, _, branch = ref.native_id.rpartition("/")
        for thread, part in ((ref.native_id, ""), (name, branch)):
            row = self._tables.one("threads", met, "where id = ?", thread) if self._new and thread else None
            if row is not None:
                yield from self._read_thread(self._thread(row), part, met)
                return
        if ref.native_id in self._conversations:
            yield from self._read_conversation(ref.native_id, met)
        else:
            yield from self._read_log(ref.native_id, met)

    def _read_thread(self, thread: Thread, name: str, met: list[Problem]) -> Iterator[Batch]:
        branch = next((one for one in thread.branches if one.name == name), Branch())
        chain = thread.chains.get(name, [])
        lineage = self._lineage(thread)
        fields = self._about(thread, chain)
        shared = 0
        if branch.leaves is not None:
            shared = self._entries_for(thread, len(branch.past()))
            fields |= {"parent_id": branch.leaves.native_id(thread.name), "relation": "fork", "forked_at": shared - 1}
        elif parent := sqlite.text(thread.row["forked_from"]):
            fields |= {"parent_id": parent, "relation": "fork"}
            if lineage[1:]:
                shared = _alike(chain, lineage[1].chain)
                fields["forked_at"] = self._entries_for(lineage[1], shared) - 1
        record = sqlite.row_record(thread.row, "threads", thread.name, without=("tip_message_hash",))
        yield Batch(header=NewEntry(kind="header", record=record), fields=fields)
        turns = [turn for one in lineage for turn in one.turns]
        messages = Messages(self._tables, met).told(chain, turns, fields.get("updated_at", ""))
        entries = chained(self._before(thread, met), islice(messages, self._told_before(thread), None))
        yield from sqlite.batches(_inherited(entries, shared), met)

    def _about(self, thread: Thread, chain: list[str]) -> SessionFields:
        fields: SessionFields = {"agent_title": sqlite.text(thread.row["name"]), "environment_path": self._locator}
        if chain and self._tree.role(chain[0]) == "system":
            parts = self._tables.rows("parts", [], "where message_hash = ? order by position", chain[0])
            fields["system_prompt"] = "\n\n".join(filter(None, (sqlite.text(part["text"]) for part in parts)))
        made = sqlite.utc(thread.row["datetime_utc"])
        began = min((turn.began for turn in thread.turns if turn.began), default=made)
        ended = max((turn.ended for turn in thread.turns if turn.ended), default=made)
        return fields | sqlite.lifetime(began, ended)

    def _lineage(self, thread: Thread) -> list[Thread]:
        """The thread, the one it was forked from, and so on."""
        lineage = {thread.name: thread}
        while (name := thread.row["forked_from"]) not in (None, *lineage):
            row = self._tables.one("threads", [], "where id = ?", name)
            if row is None or not isinstance(row["id"], str):
                break
            thread = lineage[row["id"]] = self._thread(row)
        return list(lineage.values())

    def _before(self, thread: Thread, met: list[Problem]) -> Iterator[NewEntry]:
        """What was said before llm 0.32."""
        return self._told(self._conversations.get(thread.name, []), met)

    def _told_before(self, thread: Thread) -> int:
        """How many messages of a thread only repeat that: all before what was asked in its first call."""
        if not self._conversations.get(thread.name) or not thread.turns:
            return 0
        asked = self._tree.chain(thread.turns[0]["parent_message_hash"])
        while asked and self._tree.role(asked[-1]) in ("user", "tool"):
            asked.pop()
        return len(asked)

    def _entries_for(self, thread: Thread, messages: int) -> int:
        """How many entries the first messages of a thread are."""
        return sum(1 for _ in self._before(thread, [])) + max(messages - self._told_before(thread), 0)

    def _told(self, numbers: Iterable[int], met: list[Problem]) -> Iterator[NewEntry]:
        pairing, system = Pairing(), ""
        for number in numbers:
            row = self._tables.one("responses", met, "where rowid = ?", number)
            if row is not None:
                yield from self._responses.told(row, pairing, met, system)
                system = sqlite.text(row["system"]) or system

    def _read_conversation(self, name: str, met: list[Problem]) -> Iterator[Batch]:
        numbers = self._conversations[name]
        about = self._tables.one("conversations", met, "where id = ?", name)
        first, last = (self._response(numbers[end]) if numbers else None for end in (0, -1))
        fields: SessionFields = {"environment_path": self._locator}
        if first and last:
            fields |= sqlite.lifetime(first["datetime_utc"], last["datetime_utc"])
            fields["system_prompt"] = sqlite.text(first["system"])
        header = None
        if about is not None:
            fields |= {"agent_title": sqlite.text(about["name"]), "model": sqlite.text(about["model"])}
            header = NewEntry(kind="header", record=sqlite.row_record(about, "conversations", name))
        yield Batch(header=header, fields=fields)
        made = fields.get("created_at", "")
        yield from sqlite.batches(_dated(self._told(numbers, met), made), met)

    # ── the logs of 2023 ──────────────────────────────────────────────────────────────────────────

    @cached_property
    def _logs(self) -> dict[str, list[tuple[str, int]]]:
        """The rows of each chat; of the first, the chat is named by its number."""
        found: dict[str, list[tuple[str, int]]] = {}
        for signature in responses.LOG_SIGNATURES:
            for table, columns in signature.items():
                swept = self._tables.sweep(table, "chat_id") if self._tables.has(table, *columns) else ()
                for number, chat in swept:
                    name = sqlite.text(number if chat is None else chat)
                    found.setdefault(f"{_LOGGED}{name}", []).append((table, number))
        return found

    def _logged(self) -> Iterator[Ref]:
        for name, places in self._logs.items():
            rows = [row for *_, row in self._log_rows(places, self.problems)]
            at = max((sqlite.utc(row["timestamp"]) for row in rows), default="")
            yield Ref(name, sqlite.digest(*map(tuple, rows)), at)

    def _log_rows(self, places: list[tuple[str, int]], met: list[Problem]) -> Iterator[tuple[str, int, Row]]:
        for table, number in places:
            for row in self._tables.rows(table, met, "where rowid = ?", number):
                yield table, number, row

    def _read_log(self, name: str, met: list[Problem]) -> Iterator[Batch]:
        places = self._logs.get(name)
        if not places:
            return
        rows = list(self._log_rows(places, met))
        times = [row["timestamp"] for *_, row in rows] or [None]
        fields: SessionFields = {"environment_path": self._locator, **sqlite.lifetime(times[0], times[-1])}
        yield Batch(fields=fields)
        told = (entry for table, number, row in rows for entry in told_of_log(row, table, number))
        yield from sqlite.batches(_dated(told, fields.get("created_at", "")), met)


def _alike(ours: list[str], theirs: list[str]) -> int:
    """How many messages two chains begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))


def _inherited(entries: Iterable[NewEntry], shared: int) -> Iterator[list[NewEntry]]:
    for place, entry in enumerate(entries):
        entry.inherited = place < shared
        yield [entry]


def _dated(entries: Iterable[NewEntry], made: str) -> Iterator[list[NewEntry]]:
    """Where a time is none, the one before."""
    for entry in entries:
        made = entry.created_at = entry.created_at or made
        yield [entry]
