"""This module reads llm's database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from functools import cached_property
from itertools import chain as chained
from itertools import islice, takewhile

from store.model.entry import NewEntry
from store.model.session import SessionFields
from store.sources.contract import Batch, Problem, SessionRef, SourceReader
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike
from store.sources.kit.transcripts import Branch
from store.sources.llm.responses import ResponseEntryReader, parse_log_row
from store.sources.llm.signatures import LOG_PREFIX, LOG_SIGNATURES, RESPONSES_SIGNATURE, THREADS_SIGNATURE
from store.sources.llm.tables import LlmTables, ToolCallPairing, row_to_dict
from store.sources.llm.threads import LlmThread, LlmTurn, MessageTree, ThreadEntryReader, build_thread

_TURNS_OF_THREAD = "where thread_id = ? order by id"


class LlmReader(SourceReader):
    def __init__(self, connection: sqlite3.Connection, locator: str) -> None:
        super().__init__()
        self._tables = LlmTables(connection)
        self._locator = locator
        self._has_threads = self._tables.has_signature(THREADS_SIGNATURE)
        self._has_responses = self._tables.has_signature(RESPONSES_SIGNATURE)

    # ── what there is ─────────────────────────────────────────────────────────────────────────────

    def scan(self) -> Iterator[SessionRef]:
        known: set[object] = set()
        for row in self._read_thread_rows():
            known.add(row["id"])
            yield from self._list_thread_refs(self._load_thread(row))
        self.problems += self._find_stray_turns(known)
        for name in self._conversations:
            if name not in known:
                yield self._make_conversation_ref(name)
        yield from self._list_log_refs()

    def _read_thread_rows(self) -> Iterator[RowLike]:
        for row in self._tables.rows("threads", self.problems) if self._has_threads else ():
            if isinstance(row["id"], str) and row["id"]:
                yield row
            else:
                self.problems.append(Problem("threads", f"The thread {row['id']!r} is not named by text."))

    def _list_thread_refs(self, thread: LlmThread) -> Iterator[SessionRef]:
        told = [tuple(turn.values()) for turn in thread.turns]
        newest = max([turn.ended_at for turn in thread.turns] + [sqlite.normalize_time(thread.row["datetime_utc"])])
        before = [self._response_digests[number] for number in self._conversations.get(thread.thread_id, ())]
        for lost in thread.missing_messages:
            self.problems.append(Problem(f"threads:{thread.thread_id}", f"There is no message {lost!r}."))
        for branch in thread.branches or [Branch()]:
            chain = thread.chains.get(branch.name, [])
            content = sqlite.digest(*dict(thread.row).values(), *told, *before, self._tree.digest_chain(chain))
            yield SessionRef(branch.native_id(thread.thread_id), content, newest)

    def _find_stray_turns(self, known: set[object]) -> Iterator[Problem]:
        for number, thread in self._tables.scan_columns("turns", "thread_id") if self._has_threads else ():
            if thread not in known:
                known.add(thread)
                yield Problem(f"turns:{number}", f"There is no thread {thread!r}.")

    def _make_conversation_ref(self, name: str) -> SessionRef:
        numbers = self._conversations[name]
        about = self._tables.first_row("conversations", self.problems, "where id = ?", name)
        last = self._read_response(numbers[-1]) if numbers else None
        content = sqlite.digest(*(about or ()), *(self._response_digests[number] for number in numbers))
        return SessionRef(name, content, sqlite.normalize_time(last["datetime_utc"]) if last else "")

    @cached_property
    def _tree(self) -> MessageTree:
        return MessageTree(self._tables)

    def _load_thread(self, row: RowLike) -> LlmThread:
        return build_thread(row, self._load_turns(row["id"]), self._tree)

    def _load_turns(self, thread: str) -> list[LlmTurn]:
        return [
            LlmTurn(row_to_dict(row)) for row in self._tables.rows("turns", self.problems, _TURNS_OF_THREAD, thread)
        ]

    @cached_property
    def _response_digests(self) -> dict[int, str]:
        """A sum of each response."""
        columns = ("id", "prompt", "system", "response", "datetime_utc")
        return {
            number: sqlite.digest(name, *told, self._response_reader.digest(name))
            for number, name, *told in self._tables.scan_columns("responses", *columns)
        }

    @cached_property
    def _response_reader(self) -> ResponseEntryReader:
        return ResponseEntryReader(self._tables)

    @cached_property
    def _conversations(self) -> dict[str, list[int]]:
        """The responses of each, in their order. The first releases of 0.32 wrote them into both kinds of tables."""
        if not self._has_responses:
            return {}
        twice = {name for _, name in self._tables.scan_columns("turns", "id")} if self._has_threads else set()
        found: dict[str, list[tuple[str, int]]] = {}
        for number, name, conversation in self._tables.scan_columns("responses", "id", "conversation_id"):
            if name not in twice:
                owner = sqlite.as_text(conversation) or sqlite.as_text(name)
                found.setdefault(owner, []).append((sqlite.as_text(name), number))
        for _, name in self._tables.scan_columns("conversations", "id"):
            if isinstance(name, str) and name:
                found.setdefault(name, [])
        return {name: [number for _, number in sorted(rows)] for name, rows in found.items() if name}

    def _read_response(self, number: int) -> RowLike | None:
        return self._tables.first_row("responses", self.problems, "where rowid = ?", number)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        met: list[Problem] = []
        name, _, branch = ref.native_id.rpartition("/")
        for thread, part in ((ref.native_id, ""), (name, branch)):
            row = (
                self._tables.first_row("threads", met, "where id = ?", thread) if self._has_threads and thread else None
            )
            if row is not None:
                yield from self._read_thread(self._load_thread(row), part, met)
                return
        if ref.native_id in self._conversations:
            yield from self._read_conversation(ref.native_id, met)
        else:
            yield from self._read_log(ref.native_id, met)

    def _read_thread(self, thread: LlmThread, name: str, met: list[Problem]) -> Iterator[Batch]:
        branch = next((one for one in thread.branches if one.name == name), Branch())
        chain = thread.chains.get(name, [])
        lineage = self._find_lineage(thread)
        fields = self._build_session_fields(thread, chain)
        shared = 0
        if branch.parent is not None:
            shared = self._count_entries(thread, len(branch.shared_nodes()))
            fields |= {
                "parent_id": branch.parent.native_id(thread.thread_id),
                "relation": "fork",
                "forked_at": shared - 1,
            }
        elif parent := sqlite.as_text(thread.row["forked_from"]):
            fields |= {"parent_id": parent, "relation": "fork"}
            if lineage[1:]:
                shared = _count_shared(chain, lineage[1].chain)
                fields["forked_at"] = self._count_entries(lineage[1], shared) - 1
        record = sqlite.record_from_row(thread.row, "threads", thread.thread_id, exclude=("tip_message_hash",))
        yield Batch(header=NewEntry(kind="header", record=record), fields=fields)
        turns = [turn for one in lineage for turn in one.turns]
        messages = ThreadEntryReader(self._tables, met).read_entries(chain, turns, fields.get("updated_at", ""))
        entries = chained(
            self._read_earlier_entries(thread, met), islice(messages, self._count_repeated_messages(thread), None)
        )
        yield from sqlite.build_batches(_flag_inherited(entries, shared), met)

    def _build_session_fields(self, thread: LlmThread, chain: list[str]) -> SessionFields:
        fields: SessionFields = {"agent_title": sqlite.as_text(thread.row["name"]), "environment_path": self._locator}
        if chain and self._tree.role(chain[0]) == "system":
            parts = self._tables.rows("parts", [], "where message_hash = ? order by position", chain[0])
            fields["system_prompt"] = "\n\n".join(filter(None, (sqlite.as_text(part["text"]) for part in parts)))
        made = sqlite.normalize_time(thread.row["datetime_utc"])
        began = min((turn.started_at for turn in thread.turns if turn.started_at), default=made)
        ended = max((turn.ended_at for turn in thread.turns if turn.ended_at), default=made)
        return fields | sqlite.time_fields(began, ended)

    def _find_lineage(self, thread: LlmThread) -> list[LlmThread]:
        """The thread, the one it was forked from, and so on."""
        lineage = {thread.thread_id: thread}
        while (name := thread.row["forked_from"]) not in (None, *lineage):
            row = self._tables.first_row("threads", [], "where id = ?", name)
            if row is None or not isinstance(row["id"], str):
                break
            thread = lineage[row["id"]] = self._load_thread(row)
        return list(lineage.values())

    def _read_earlier_entries(self, thread: LlmThread, met: list[Problem]) -> Iterator[NewEntry]:
        """What was said before llm 0.32."""
        return self._read_responses(self._conversations.get(thread.thread_id, []), met)

    def _count_repeated_messages(self, thread: LlmThread) -> int:
        """How many messages of a thread only repeat that: all before what was asked in its first call."""
        if not self._conversations.get(thread.thread_id) or not thread.turns:
            return 0
        asked = self._tree.chain_to(thread.turns[0]["parent_message_hash"])
        while asked and self._tree.role(asked[-1]) in ("user", "tool"):
            asked.pop()
        return len(asked)

    def _count_entries(self, thread: LlmThread, messages: int) -> int:
        """How many entries the first messages of a thread are."""
        return sum(1 for _ in self._read_earlier_entries(thread, [])) + max(
            messages - self._count_repeated_messages(thread), 0
        )

    def _read_responses(self, numbers: Iterable[int], met: list[Problem]) -> Iterator[NewEntry]:
        pairing, system = ToolCallPairing(), ""
        for number in numbers:
            row = self._tables.first_row("responses", met, "where rowid = ?", number)
            if row is not None:
                yield from self._response_reader.read_entries(row, pairing, met, system)
                system = sqlite.as_text(row["system"]) or system

    def _read_conversation(self, name: str, met: list[Problem]) -> Iterator[Batch]:
        numbers = self._conversations[name]
        about = self._tables.first_row("conversations", met, "where id = ?", name)
        first, last = (self._read_response(numbers[end]) if numbers else None for end in (0, -1))
        fields: SessionFields = {"environment_path": self._locator}
        if first and last:
            fields |= sqlite.time_fields(first["datetime_utc"], last["datetime_utc"])
            fields["system_prompt"] = sqlite.as_text(first["system"])
        header = None
        if about is not None:
            fields |= {"agent_title": sqlite.as_text(about["name"]), "model": sqlite.as_text(about["model"])}
            header = NewEntry(kind="header", record=sqlite.record_from_row(about, "conversations", name))
        yield Batch(header=header, fields=fields)
        made = fields.get("created_at", "")
        yield from sqlite.build_batches(_fill_missing_times(self._read_responses(numbers, met), made), met)

    # ── the logs of 2023 ──────────────────────────────────────────────────────────────────────────

    @cached_property
    def _logs(self) -> dict[str, list[tuple[str, int]]]:
        """The rows of each chat; of the first, the chat is named by its number."""
        found: dict[str, list[tuple[str, int]]] = {}
        for signature in LOG_SIGNATURES:
            for table, columns in signature.items():
                swept = self._tables.scan_columns(table, "chat_id") if self._tables.has_table(table, *columns) else ()
                for number, chat in swept:
                    name = sqlite.as_text(number if chat is None else chat)
                    found.setdefault(f"{LOG_PREFIX}{name}", []).append((table, number))
        return found

    def _list_log_refs(self) -> Iterator[SessionRef]:
        for name, places in self._logs.items():
            rows = [row for *_, row in self._read_log_rows(places, self.problems)]
            at = max((sqlite.normalize_time(row["timestamp"]) for row in rows), default="")
            yield SessionRef(name, sqlite.digest(*map(tuple, rows)), at)

    def _read_log_rows(self, places: list[tuple[str, int]], met: list[Problem]) -> Iterator[tuple[str, int, RowLike]]:
        for table, number in places:
            for row in self._tables.rows(table, met, "where rowid = ?", number):
                yield table, number, row

    def _read_log(self, name: str, met: list[Problem]) -> Iterator[Batch]:
        places = self._logs.get(name)
        if not places:
            return
        rows = list(self._read_log_rows(places, met))
        times = [row["timestamp"] for *_, row in rows] or [None]
        fields: SessionFields = {"environment_path": self._locator, **sqlite.time_fields(times[0], times[-1])}
        yield Batch(fields=fields)
        told = (entry for table, number, row in rows for entry in parse_log_row(row, table, number))
        yield from sqlite.build_batches(_fill_missing_times(told, fields.get("created_at", "")), met)


def _count_shared(ours: list[str], theirs: list[str]) -> int:
    """How many messages two chains begin with alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(ours, theirs, strict=False)))


def _flag_inherited(entries: Iterable[NewEntry], shared: int) -> Iterator[list[NewEntry]]:
    for place, entry in enumerate(entries):
        entry.inherited = place < shared
        yield [entry]


def _fill_missing_times(entries: Iterable[NewEntry], made: str) -> Iterator[list[NewEntry]]:
    """Where a time is none, the one before."""
    for entry in entries:
        made = entry.created_at = entry.created_at or made
        yield [entry]
