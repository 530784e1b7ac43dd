"""Threads of llm 0.32 and later: messages in a tree of hashes, which all threads share, and the calls that grew it."""

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
from store.sources.llm.tables import (
    LlmTables,
    ToolCallPairing,
    parse_attachment,
    parse_fragment,
    parse_json_column,
    row_to_dict,
    sum_tokens,
)
from store.text.validate import replace_surrogates

_ROLES = ("system", "user", "assistant", "tool")
_PARTS_OF_MESSAGE = "where message_hash = ? order by position, rowid"


class LlmTurn(dict[str, Any]):
    """One call of a model: its row."""

    @property
    def started_at(self) -> str:
        return sqlite.normalize_time(self["datetime_utc"])

    @property
    def ended_at(self) -> str:
        took = self.get("duration_ms")
        if not self.started_at or not isinstance(took, int) or not 0 <= took < 10**10:
            return self.started_at
        return sqlite.normalize_time(
            (datetime.fromisoformat(self.started_at) + timedelta(milliseconds=took)).isoformat()
        )

    @property
    def model_name(self) -> str:
        return sqlite.as_text(self.get("resolved_model")) or sqlite.as_text(self["model"])


class MessageTree:
    """Every message's parent, and a sum of what it says; shared by all threads."""

    def __init__(self, tables: LlmTables) -> None:
        self._parents: dict[Any, Any] = {}
        self._roles: dict[Any, Any] = {}
        self._digests: dict[Any, str] = {}
        for _, name, parent, role in tables.scan_columns("messages", "hash", "parent_hash", "role"):
            self._parents[name] = parent
            self._roles[name] = role
            self._digests[name] = sqlite.digest(role)
        for _, name, *told in tables.scan_columns("parts", "message_hash", "position", "type", "text", "payload"):
            self._digests[name] = sqlite.digest(self._digests.get(name), *told)

    def __contains__(self, name: object) -> bool:
        return name in self._parents

    def chain_to(self, tip: object) -> list[str]:
        """From the first message to this one."""
        found: dict[Any, None] = {}
        while tip in self._parents and tip not in found:
            found[tip] = None
            tip = self._parents[tip]
        return list(reversed(found))

    def parent(self, name: str) -> Any:
        return self._parents[name]

    def role(self, name: str) -> Any:
        return self._roles.get(name)

    def digest_chain(self, chain: Iterable[str]) -> str:
        return sqlite.digest(*map(self._digests.get, chain))


@dataclass(slots=True)
class LlmThread:
    "A thread, the calls made in it, and the branches of its past."

    row: RowLike
    turns: list[LlmTurn]
    missing_messages: list[str] = field(default_factory=list)
    "Ends of it that nobody has."
    nodes: list[str] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    chains: dict[str, list[str]] = field(default_factory=dict)
    "By the branch's name; the thread's own has none."

    @property
    def thread_id(self) -> str:
        return str(self.row["id"])

    @property
    def chain(self) -> list[str]:
        return self.chains.get("", [])


def build_thread(row: RowLike, turns: list[LlmTurn], tree: MessageTree) -> LlmThread:
    """Its tip is where it goes on; a call whose answer lies elsewhere was made again, or gone back from."""
    thread = LlmThread(row, turns)
    places: dict[str, int] = {}
    tip = row["tip_message_hash"]
    for end in [turn["tip_message_hash"] for turn in turns] + [tip]:
        if end is not None and end not in tree:
            thread.missing_messages.append(sqlite.as_text(end))
        for name in tree.chain_to(end):
            places.setdefault(name, len(places))
    thread.nodes = list(places)
    nodes = [Node(name, _parent_within(tree.parent(name), places), is_message=True) for name in thread.nodes]
    thread.branches = find_branches(nodes, places.get(tip)) if nodes else []
    for branch in thread.branches:
        thread.chains[branch.name] = [thread.nodes[place] for place in [*branch.shared_nodes(), *branch.own_nodes]]
    return thread


def _parent_within(parent: Any, places: Mapping[str, int]) -> str | None:
    return parent if parent in places else None


class ThreadEntryReader:
    """A chain of messages as entries, one each."""

    def __init__(self, tables: LlmTables, problems: list[Problem]) -> None:
        self._tables = tables
        self._problems = problems
        self._pairing = ToolCallPairing()

    def read_entries(self, chain: Sequence[str], turns: Iterable[LlmTurn], made: str) -> Iterator[NewEntry]:
        """A message has no time and no model of its own: the call tells it of which it was a part."""
        calls = list(turns)
        by_tip: dict[str, list[LlmTurn]] = {}
        for call in calls:
            by_tip.setdefault(call["tip_message_hash"], []).append(call)
        asked = {call["parent_message_hash"]: call for call in reversed(calls)}
        notes: list[tuple[LlmTurn | None, str]] = []
        turn: LlmTurn | None = None
        at = made
        for name in reversed(chain):
            if name in by_tip:
                turn = by_tip[name][0]
                at = turn.ended_at or at
            elif turn is not None and turn["parent_message_hash"] == name:
                at = turn.started_at or at
            elif name in asked:
                at = asked[name].started_at or at
            notes.append((turn, at))
        for name, (turn, at) in zip(chain, reversed(notes), strict=True):
            if (entry := self._read_message(name, by_tip.get(name, []))) is not None:
                entry.created_at = at
                if entry.role == "assistant" and turn is not None:
                    entry.model, entry.message_key = turn.model_name, sqlite.as_text(turn["id"])
                yield entry

    def _read_message(self, name: str, turns: list[LlmTurn]) -> NewEntry | None:
        row = self._tables.first_row("messages", self._problems, "where hash = ?", name)
        if row is None:
            return None
        kept: dict[str, Any] = {"parts": [], "attachments": [], "fragments": []}
        parts: list[Part] = []
        for part in self._tables.rows("parts", self._problems, _PARTS_OF_MESSAGE, name):
            kept["parts"].append(row_to_dict(part))
            parts += self._parse_part(part, kept)
        kept |= {"turns": turns} if turns else {}
        record = sqlite.record_from_row(
            row, "messages", name, replacements={key: told for key, told in kept.items() if told}
        )
        role = sqlite.as_text(row["role"])
        if role not in _ROLES:
            return NewEntry(kind="unknown", parts=tuple(parts), record=record, tokens=sum_tokens(turns))
        return NewEntry(role=role, parts=tuple(parts), record=record, tokens=sum_tokens(turns))

    def _parse_part(self, row: RowLike, kept: dict[str, Any]) -> Iterable[Part]:
        kind, text = sqlite.as_text(row["type"]), row["text"]
        payload = as_dict(parse_json_column(row["payload"]))
        if row["payload"] is not None and not payload:
            self._problems.append(Problem(f"parts:{row['id']}", "The payload cannot be read."))
        name = as_str(payload.get("name"))
        match kind:
            case "text" if isinstance(text, str):
                return (Text(text),)
            case "text" if "text_ref" in payload:
                return self._parse_text_refs(as_list(payload["text_ref"]), kept)
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
                shown = [as_dict(one).get("id") for one in as_list(payload.get("attachments"))]
                result = ToolResult(call_id, output or payload.get("exception") or output, failed, name)
                return (result, *self._read_attachments(shown, kept))
            case "attachment" if payload:
                return self._read_attachments([as_dict(payload.get("attachment")).get("id")], kept)
        return (Opaque(kind, {key: row_to_dict(row)[key] for key in ("text", "payload")}),)

    def _parse_text_refs(self, pieces: list[Json], kept: dict[str, Any]) -> Iterator[Part]:
        """Words of the person's own between texts that llm keeps once, however often they are handed over."""
        for piece in pieces:
            said = as_dict(piece)
            if isinstance(said.get("literal"), str):
                yield Text(said["literal"])
            elif fragment := self._tables.read_fragment(_as_rowid(said.get("fragment"))):
                kept["fragments"].append(fragment)
                yield parse_fragment(fragment)
            else:
                yield Opaque("text_ref", piece)

    def _read_attachments(self, names: list[Json], kept: dict[str, Any]) -> Iterator[Attachment]:
        for name in names:
            attachment = self._tables.read_attachment(replace_surrogates(name) if isinstance(name, str) else None)
            if attachment:
                kept["attachments"].append(attachment)
            yield parse_attachment(attachment or {"type": "attachment", "path": name})


def _as_rowid(value: Json) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**63 else None
