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
    """Reads the threads, conversations and logs of llm's database."""

    def __init__(self, connection: sqlite3.Connection, locator: str) -> None:
        super().__init__()
        self._tables = LlmTables(connection)
        self._locator = locator
        self._has_threads = self._tables.has_signature(THREADS_SIGNATURE)
        self._has_responses = self._tables.has_signature(RESPONSES_SIGNATURE)

    # ── listing ───────────────────────────────────────────────────────────────────────────────────

    def scan(self) -> Iterator[SessionRef]:
        thread_ids: set[object] = set()
        for row in self._read_thread_rows():
            thread_ids.add(row["id"])
            yield from self._list_thread_refs(self._load_thread(row))
        self.problems += self._find_stray_turns(thread_ids)
        for name in self._conversations:
            if name not in thread_ids:
                yield self._make_conversation_ref(name)
        yield from self._list_log_refs()

    def _read_thread_rows(self) -> Iterator[RowLike]:
        for row in self._tables.rows("threads", self.problems) if self._has_threads else ():
            if isinstance(row["id"], str) and row["id"]:
                yield row
            else:
                self.problems.append(Problem("threads", f"The id of thread {row['id']!r} is not text."))

    def _list_thread_refs(self, thread: LlmThread) -> Iterator[SessionRef]:
        turn_values = [tuple(turn.values()) for turn in thread.turns]
        updated_at = max([turn.ended_at for turn in thread.turns] + [sqlite.normalize_time(thread.row["datetime_utc"])])
        response_digests = [self._response_digests[rowid] for rowid in self._conversations.get(thread.thread_id, ())]
        for message_hash in thread.missing_messages:
            self.problems.append(Problem(f"threads:{thread.thread_id}", f"There is no message {message_hash!r}."))
        for branch in thread.branches or [Branch()]:
            chain = thread.chains.get(branch.name, [])
            stamp = sqlite.digest(
                *dict(thread.row).values(), *turn_values, *response_digests, self._tree.digest_chain(chain)
            )
            yield SessionRef(branch.native_id(thread.thread_id), stamp, updated_at)

    def _find_stray_turns(self, thread_ids: set[object]) -> Iterator[Problem]:
        for rowid, thread_id in self._tables.scan_columns("turns", "thread_id") if self._has_threads else ():
            if thread_id not in thread_ids:
                thread_ids.add(thread_id)
                yield Problem(f"turns:{rowid}", f"There is no thread {thread_id!r}.")

    def _make_conversation_ref(self, name: str) -> SessionRef:
        rowids = self._conversations[name]
        row = self._tables.first_row("conversations", self.problems, "where id = ?", name)
        last = self._read_response(rowids[-1]) if rowids else None
        stamp = sqlite.digest(*(row or ()), *(self._response_digests[rowid] for rowid in rowids))
        return SessionRef(name, stamp, sqlite.normalize_time(last["datetime_utc"]) if last else "")

    @cached_property
    def _tree(self) -> MessageTree:
        return MessageTree(self._tables)

    def _load_thread(self, row: RowLike) -> LlmThread:
        return build_thread(row, self._load_turns(row["id"]), self._tree)

    def _load_turns(self, thread_id: str) -> list[LlmTurn]:
        return [
            LlmTurn(row_to_dict(row)) for row in self._tables.rows("turns", self.problems, _TURNS_OF_THREAD, thread_id)
        ]

    @cached_property
    def _response_digests(self) -> dict[int, str]:
        """Return a digest of each response, by rowid."""
        columns = ("id", "prompt", "system", "response", "datetime_utc")
        return {
            rowid: sqlite.digest(response_id, *values, self._response_reader.digest(response_id))
            for rowid, response_id, *values in self._tables.scan_columns("responses", *columns)
        }

    @cached_property
    def _response_reader(self) -> ResponseEntryReader:
        return ResponseEntryReader(self._tables)

    @cached_property
    def _conversations(self) -> dict[str, list[int]]:
        """Return the rowids of the responses of each conversation, in order.

        The first releases of 0.32 wrote a call both as a response and as a turn; those responses are left out.
        """
        if not self._has_responses:
            return {}
        turn_ids = {turn_id for _, turn_id in self._tables.scan_columns("turns", "id")} if self._has_threads else set()
        conversations: dict[str, list[tuple[str, int]]] = {}
        for rowid, response_id, conversation_id in self._tables.scan_columns("responses", "id", "conversation_id"):
            if response_id not in turn_ids:
                owner = sqlite.as_text(conversation_id) or sqlite.as_text(response_id)
                conversations.setdefault(owner, []).append((sqlite.as_text(response_id), rowid))
        for _, name in self._tables.scan_columns("conversations", "id"):
            if isinstance(name, str) and name:
                conversations.setdefault(name, [])
        return {name: [rowid for _, rowid in sorted(rows)] for name, rows in conversations.items() if name}

    def _read_response(self, rowid: int) -> RowLike | None:
        return self._tables.first_row("responses", self.problems, "where rowid = ?", rowid)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        problems: list[Problem] = []
        parent_id, _, branch_name = ref.native_id.rpartition("/")
        for thread_id, branch in ((ref.native_id, ""), (parent_id, branch_name)):
            has_thread = self._has_threads and thread_id
            row = self._tables.first_row("threads", problems, "where id = ?", thread_id) if has_thread else None
            if row is not None:
                yield from self._read_thread(self._load_thread(row), branch, problems)
                return
        if ref.native_id in self._conversations:
            yield from self._read_conversation(ref.native_id, problems)
        else:
            yield from self._read_log(ref.native_id, problems)

    def _read_thread(self, thread: LlmThread, name: str, problems: list[Problem]) -> Iterator[Batch]:
        branch = next((branch for branch in thread.branches if branch.name == name), Branch())
        chain = thread.chains.get(name, [])
        lineage = self._find_lineage(thread)
        fields = self._build_session_fields(thread, chain)
        shared_count = 0
        if branch.parent is not None:
            shared_count = self._count_entries(thread, len(branch.shared_nodes()))
            fields |= {
                "parent_id": branch.parent.native_id(thread.thread_id),
                "relation": "fork",
                "forked_at": shared_count - 1,
            }
        elif parent := sqlite.as_text(thread.row["forked_from"]):
            fields |= {"parent_id": parent, "relation": "fork"}
            if lineage[1:]:
                shared_count = _count_shared(chain, lineage[1].chain)
                fields["forked_at"] = self._count_entries(lineage[1], shared_count) - 1
        record = sqlite.record_from_row(thread.row, "threads", thread.thread_id, exclude=("tip_message_hash",))
        yield Batch(header=NewEntry(kind="header", record=record), fields=fields)
        turns = [turn for ancestor in lineage for turn in ancestor.turns]
        messages = ThreadEntryReader(self._tables, problems).read_entries(chain, turns, fields.get("updated_at", ""))
        entries = chained(
            self._read_earlier_entries(thread, problems), islice(messages, self._count_repeated_messages(thread), None)
        )
        yield from sqlite.build_batches(_flag_inherited(entries, shared_count), problems)

    def _build_session_fields(self, thread: LlmThread, chain: list[str]) -> SessionFields:
        fields: SessionFields = {"agent_title": sqlite.as_text(thread.row["name"]), "environment_path": self._locator}
        if chain and self._tree.role(chain[0]) == "system":
            parts = self._tables.rows("parts", [], "where message_hash = ? order by position", chain[0])
            fields["system_prompt"] = "\n\n".join(filter(None, (sqlite.as_text(part["text"]) for part in parts)))
        created_at = sqlite.normalize_time(thread.row["datetime_utc"])
        started_at = min((turn.started_at for turn in thread.turns if turn.started_at), default=created_at)
        ended_at = max((turn.ended_at for turn in thread.turns if turn.ended_at), default=created_at)
        return fields | sqlite.time_fields(started_at, ended_at)

    def _find_lineage(self, thread: LlmThread) -> list[LlmThread]:
        """Return the thread, the thread that it was forked from, and so on."""
        lineage = {thread.thread_id: thread}
        while (parent_id := thread.row["forked_from"]) not in (None, *lineage):
            row = self._tables.first_row("threads", [], "where id = ?", parent_id)
            if row is None or not isinstance(row["id"], str):
                break
            thread = lineage[row["id"]] = self._load_thread(row)
        return list(lineage.values())

    def _read_earlier_entries(self, thread: LlmThread, problems: list[Problem]) -> Iterator[NewEntry]:
        """Yield the entries of the same conversation from before llm 0.32."""
        return self._read_responses(self._conversations.get(thread.thread_id, []), problems)

    def _count_repeated_messages(self, thread: LlmThread) -> int:
        """Return how many messages of a thread repeat the conversation from before llm 0.32.

        These are all messages before the prompt of the first call.
        """
        if not self._conversations.get(thread.thread_id) or not thread.turns:
            return 0
        chain = self._tree.chain_to(thread.turns[0]["parent_message_hash"])
        while chain and self._tree.role(chain[-1]) in ("user", "tool"):
            chain.pop()
        return len(chain)

    def _count_entries(self, thread: LlmThread, message_count: int) -> int:
        """Return how many entries the first messages of a thread become."""
        return sum(1 for _ in self._read_earlier_entries(thread, [])) + max(
            message_count - self._count_repeated_messages(thread), 0
        )

    def _read_responses(self, rowids: Iterable[int], problems: list[Problem]) -> Iterator[NewEntry]:
        pairing, system = ToolCallPairing(), ""
        for rowid in rowids:
            row = self._tables.first_row("responses", problems, "where rowid = ?", rowid)
            if row is not None:
                yield from self._response_reader.read_entries(row, pairing, problems, system)
                system = sqlite.as_text(row["system"]) or system

    def _read_conversation(self, conversation_id: str, problems: list[Problem]) -> Iterator[Batch]:
        rowids = self._conversations[conversation_id]
        row = self._tables.first_row("conversations", problems, "where id = ?", conversation_id)
        first, last = (self._read_response(rowids[index]) if rowids else None for index in (0, -1))
        fields: SessionFields = {"environment_path": self._locator}
        if first and last:
            fields |= sqlite.time_fields(first["datetime_utc"], last["datetime_utc"])
            fields["system_prompt"] = sqlite.as_text(first["system"])
        header = None
        if row is not None:
            fields |= {"agent_title": sqlite.as_text(row["name"]), "model": sqlite.as_text(row["model"])}
            header = NewEntry(kind="header", record=sqlite.record_from_row(row, "conversations", conversation_id))
        yield Batch(header=header, fields=fields)
        created_at = fields.get("created_at", "")
        yield from sqlite.build_batches(
            _fill_missing_times(self._read_responses(rowids, problems), created_at), problems
        )

    # ── the logs of 2023 ──────────────────────────────────────────────────────────────────────────

    @cached_property
    def _logs(self) -> dict[str, list[tuple[str, int]]]:
        """Return the table and rowid of each row, by chat. A row without a chat id begins a chat named by its rowid."""
        chats: dict[str, list[tuple[str, int]]] = {}
        for signature in LOG_SIGNATURES:
            for table, columns in signature.items():
                rows = self._tables.scan_columns(table, "chat_id") if self._tables.has_table(table, *columns) else ()
                for rowid, chat in rows:
                    name = sqlite.as_text(rowid if chat is None else chat)
                    chats.setdefault(f"{LOG_PREFIX}{name}", []).append((table, rowid))
        return chats

    def _list_log_refs(self) -> Iterator[SessionRef]:
        for name, addresses in self._logs.items():
            rows = [row for *_, row in self._read_log_rows(addresses, self.problems)]
            updated_at = max((sqlite.normalize_time(row["timestamp"]) for row in rows), default="")
            yield SessionRef(name, sqlite.digest(*map(tuple, rows)), updated_at)

    def _read_log_rows(
        self, addresses: list[tuple[str, int]], problems: list[Problem]
    ) -> Iterator[tuple[str, int, RowLike]]:
        for table, rowid in addresses:
            for row in self._tables.rows(table, problems, "where rowid = ?", rowid):
                yield table, rowid, row

    def _read_log(self, native_id: str, problems: list[Problem]) -> Iterator[Batch]:
        addresses = self._logs.get(native_id)
        if not addresses:
            return
        rows = list(self._read_log_rows(addresses, problems))
        times = [row["timestamp"] for *_, row in rows] or [None]
        fields: SessionFields = {"environment_path": self._locator, **sqlite.time_fields(times[0], times[-1])}
        yield Batch(fields=fields)
        entries = (entry for table, rowid, row in rows for entry in parse_log_row(row, table, rowid))
        yield from sqlite.build_batches(_fill_missing_times(entries, fields.get("created_at", "")), problems)


def _count_shared(chain: list[str], other: list[str]) -> int:
    """Return how many messages two chains share at their beginning."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(chain, other, strict=False)))


def _flag_inherited(entries: Iterable[NewEntry], shared_count: int) -> Iterator[list[NewEntry]]:
    for position, entry in enumerate(entries):
        entry.inherited = position < shared_count
        yield [entry]


def _fill_missing_times(entries: Iterable[NewEntry], created_at: str) -> Iterator[list[NewEntry]]:
    """Give every entry without a time the time of the one before."""
    for entry in entries:
        created_at = entry.created_at = entry.created_at or created_at
        yield [entry]
