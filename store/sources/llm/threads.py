"""This module reads threads of llm 0.32 and later.

All threads share one tree of messages, linked by hashes. Turns are the model calls that added messages to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from store.model.entry import Attachment, Json, NewEntry, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import as_dict, as_list, as_str
from store.sources.kit.sqlite import RowLike
from store.sources.kit.transcripts import Branch, Node, find_branches
from store.sources.kit.usage import tokens_from_usage
from store.sources.llm.tables import (
    LlmTables,
    ToolCallPairing,
    parse_attachment,
    parse_fragment,
    parse_json_column,
    row_to_dict,
)
from store.sources.llm.usage import read_calls
from store.text.validate import replace_surrogates

_ROLES = ("system", "user", "assistant", "tool")
_PARTS_OF_MESSAGE = "where message_hash = ? order by position, rowid"


class LlmTurn(dict[str, Any]):
    """Holds the row of one model call."""

    @property
    def started_at(self) -> str:
        return sqlite.normalize_time(self["datetime_utc"])

    @property
    def ended_at(self) -> str:
        duration_ms = self.get("duration_ms")
        if not self.started_at or not isinstance(duration_ms, int) or not 0 <= duration_ms < 10**10:
            return self.started_at
        return sqlite.normalize_time(
            (datetime.fromisoformat(self.started_at) + timedelta(milliseconds=duration_ms)).isoformat()
        )

    @property
    def model_name(self) -> str:
        return sqlite.as_text(self.get("resolved_model")) or sqlite.as_text(self["model"])


class MessageTree:
    """Holds the parent, the role and a digest of every message of all threads."""

    def __init__(self, tables: LlmTables) -> None:
        self._parents: dict[Any, Any] = {}
        self._roles: dict[Any, Any] = {}
        self._digests: dict[Any, str] = {}
        for _, name, parent, role in tables.scan_columns("messages", "hash", "parent_hash", "role"):
            self._parents[name] = parent
            self._roles[name] = role
            self._digests[name] = sqlite.digest(role)
        for _, name, *values in tables.scan_columns("parts", "message_hash", "position", "type", "text", "payload"):
            self._digests[name] = sqlite.digest(self._digests.get(name), *values)

    def __contains__(self, name: object) -> bool:
        return name in self._parents

    def chain_to(self, tip: object) -> list[str]:
        """Return the messages from the first one to this one."""
        hashes: dict[Any, None] = {}
        while tip in self._parents and tip not in hashes:
            hashes[tip] = None
            tip = self._parents[tip]
        return list(reversed(hashes))

    def parent(self, name: str) -> Any:
        return self._parents[name]

    def role(self, name: str) -> Any:
        return self._roles.get(name)

    def digest_chain(self, chain: Iterable[str]) -> str:
        return sqlite.digest(*map(self._digests.get, chain))


@dataclass(slots=True)
class LlmThread:
    """Describes a thread, the model calls in it, and its branches."""

    row: RowLike
    turns: list[LlmTurn]
    missing_messages: list[str] = field(default_factory=list)
    "Hashes of messages at which a call or the thread ends, but which do not exist."
    nodes: list[str] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    chains: dict[str, list[str]] = field(default_factory=dict)
    "The messages of each branch, by its name. The main branch has an empty name."

    @property
    def thread_id(self) -> str:
        return str(self.row["id"])

    @property
    def chain(self) -> list[str]:
        return self.chains.get("", [])


def build_thread(row: RowLike, turns: list[LlmTurn], tree: MessageTree) -> LlmThread:
    """Build a thread with its branches.

    The thread continues at its tip. A call that does not lead there was retried or abandoned and becomes a branch.
    """
    thread = LlmThread(row, turns)
    positions: dict[str, int] = {}
    tip = row["tip_message_hash"]
    for end in [turn["tip_message_hash"] for turn in turns] + [tip]:
        if end is not None and end not in tree:
            thread.missing_messages.append(sqlite.as_text(end))
        for name in tree.chain_to(end):
            positions.setdefault(name, len(positions))
    thread.nodes = list(positions)
    nodes = [Node(name, _parent_within(tree.parent(name), positions), is_message=True) for name in thread.nodes]
    thread.branches = find_branches(nodes, positions.get(tip)) if nodes else []
    for branch in thread.branches:
        thread.chains[branch.name] = [
            thread.nodes[position] for position in [*branch.shared_nodes(), *branch.own_nodes]
        ]
    return thread


def _parent_within(parent: Any, positions: Mapping[str, int]) -> str | None:
    return parent if parent in positions else None


class ThreadEntryReader:
    """Turns a chain of messages into entries, one for each message."""

    def __init__(self, tables: LlmTables, problems: list[Problem]) -> None:
        self._tables = tables
        self._problems = problems
        self._pairing = ToolCallPairing()

    def read_entries(self, chain: Sequence[str], turns: Iterable[LlmTurn], created_at: str) -> Iterator[NewEntry]:
        """Yield the entries of a chain. Their times and models come from the calls that the messages belong to."""
        calls = list(turns)
        by_tip: dict[str, list[LlmTurn]] = {}
        for call in calls:
            by_tip.setdefault(call["tip_message_hash"], []).append(call)
        by_parent = {call["parent_message_hash"]: call for call in reversed(calls)}
        turns_and_times: list[tuple[LlmTurn | None, str]] = []
        turn: LlmTurn | None = None
        at = created_at
        for name in reversed(chain):
            if name in by_tip:
                turn = by_tip[name][0]
                at = turn.ended_at or at
            elif turn is not None and turn["parent_message_hash"] == name:
                at = turn.started_at or at
            elif name in by_parent:
                at = by_parent[name].started_at or at
            turns_and_times.append((turn, at))
        for name, (turn, at) in zip(chain, reversed(turns_and_times), strict=True):
            if (entry := self._read_message(name, by_tip.get(name, []))) is not None:
                entry.created_at = at
                if entry.role == "assistant" and turn is not None:
                    entry.model, entry.message_key = turn.model_name, sqlite.as_text(turn["id"])
                yield entry

    def _read_message(self, name: str, turns: list[LlmTurn]) -> NewEntry | None:
        row = self._tables.first_row("messages", self._problems, "where hash = ?", name)
        if row is None:
            return None
        replacements: dict[str, Any] = {"parts": [], "attachments": [], "fragments": []}
        parts: list[Part] = []
        for part in self._tables.rows("parts", self._problems, _PARTS_OF_MESSAGE, name):
            replacements["parts"].append(row_to_dict(part))
            parts += self._parse_part(part, replacements)
        replacements |= {"turns": turns} if turns else {}
        record = sqlite.record_from_row(
            row, "messages", name, replacements={key: rows for key, rows in replacements.items() if rows}
        )
        usage = read_calls(turns)
        tokens = tokens_from_usage(usage)
        role = sqlite.as_text(row["role"])
        if role not in _ROLES:
            return NewEntry(kind="unknown", parts=tuple(parts), record=record, tokens=tokens, usage=usage)
        return NewEntry(role=role, parts=tuple(parts), record=record, tokens=tokens, usage=usage)

    def _parse_part(self, row: RowLike, replacements: dict[str, Any]) -> Iterable[Part]:
        kind, text = sqlite.as_text(row["type"]), row["text"]
        payload = as_dict(parse_json_column(row["payload"]))
        if row["payload"] is not None and not payload:
            self._problems.append(Problem(f"parts:{row['id']}", "The payload cannot be read."))
        name = as_str(payload.get("name"))
        match kind:
            case "text" if isinstance(text, str):
                return (Text(text),)
            case "text" if "text_ref" in payload:
                return self._parse_text_refs(as_list(payload["text_ref"]), replacements)
            case "reasoning":
                return (Thinking(sqlite.as_text(text) or as_str(payload.get("text"))),)
            case "tool_call" if name:
                return (
                    ToolCall(self._pairing.add_call(name, payload.get("tool_call_id")), name, payload.get("arguments")),
                )
            case "tool_result" if payload:
                call_id = self._pairing.match_result(name, payload.get("tool_call_id"))
                failed = payload.get("exception") is not None
                output = payload.get("output")
                attachment_ids = [as_dict(attachment).get("id") for attachment in as_list(payload.get("attachments"))]
                result = ToolResult(call_id, output or payload.get("exception") or output, failed, name)
                return (result, *self._read_attachments(attachment_ids, replacements))
            case "attachment" if payload:
                return self._read_attachments([as_dict(payload.get("attachment")).get("id")], replacements)
        return (Opaque(kind, {key: row_to_dict(row)[key] for key in ("text", "payload")}),)

    def _parse_text_refs(self, pieces: list[Json], replacements: dict[str, Any]) -> Iterator[Part]:
        """Yield the parts of a text that refers to fragments. llm stores a fragment only once."""
        for piece in pieces:
            reference = as_dict(piece)
            if isinstance(reference.get("literal"), str):
                yield Text(reference["literal"])
            elif fragment := self._tables.read_fragment(_as_rowid(reference.get("fragment"))):
                replacements["fragments"].append(fragment)
                yield parse_fragment(fragment)
            else:
                yield Opaque("text_ref", piece)

    def _read_attachments(self, attachment_ids: list[Json], replacements: dict[str, Any]) -> Iterator[Attachment]:
        for attachment_id in attachment_ids:
            attachment = self._tables.read_attachment(
                replace_surrogates(attachment_id) if isinstance(attachment_id, str) else None
            )
            if attachment:
                replacements["attachments"].append(attachment)
            yield parse_attachment(attachment or {"type": "attachment", "path": attachment_id})


def _as_rowid(value: Json) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**63 else None
