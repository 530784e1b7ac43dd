"""Threads of llm 0.32 and later: messages in a tree of hashes, which all threads share, and the calls that grew it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from store.model.entry import Attachment, Json, NewEntry, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import items, mapping, words
from store.sources.kit.sqlite import Row
from store.sources.kit.transcripts import Branch, Node, branches
from store.sources.llm.tables import Pairing, Tables, attached, borrowed, columns_of, json_of, tokens
from store.text.validate import column_text

SIGNATURE = {
    "threads": ("id", "name", "tip_message_hash", "forked_from", "datetime_utc"),
    "turns": ("id", "thread_id", "parent_message_hash", "tip_message_hash", "model", "datetime_utc"),
    "messages": ("hash", "parent_hash", "role"),
    "parts": ("id", "message_hash", "position", "type", "text", "payload"),
}
_ROLES = ("system", "user", "assistant", "tool")
_OF_A_MESSAGE = "where message_hash = ? order by position, rowid"


class Turn(dict[str, Any]):
    """One call of a model: its row."""

    @property
    def began(self) -> str:
        return sqlite.utc(self["datetime_utc"])

    @property
    def ended(self) -> str:
        took = self.get("duration_ms")
        if not self.began or not isinstance(took, int) or not 0 <= took < 10**10:
            return self.began
        return sqlite.utc((datetime.fromisoformat(self.began) + timedelta(milliseconds=took)).isoformat())

    @property
    def answered_by(self) -> str:
        return sqlite.text(self.get("resolved_model")) or sqlite.text(self["model"])


class Tree:
    """Every message's parent, and a sum of what it says; shared by all threads."""

    def __init__(self, tables: Tables) -> None:
        self._parents: dict[Any, Any] = {}
        self._roles: dict[Any, Any] = {}
        self._said: dict[Any, str] = {}
        for _, name, parent, role in tables.sweep("messages", "hash", "parent_hash", "role"):
            self._parents[name] = parent
            self._roles[name] = role
            self._said[name] = sqlite.digest(role)
        for _, name, *told in tables.sweep("parts", "message_hash", "position", "type", "text", "payload"):
            self._said[name] = sqlite.digest(self._said.get(name), *told)

    def __contains__(self, name: object) -> bool:
        return name in self._parents

    def chain(self, tip: object) -> list[str]:
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

    def digest(self, chain: Iterable[str]) -> str:
        return sqlite.digest(*map(self._said.get, chain))


@dataclass(slots=True)
class Thread:
    "A thread, the calls made in it, and the branches of its past."

    row: Row
    turns: list[Turn]
    lost: list[str] = field(default_factory=list)
    "Ends of it that nobody has."
    nodes: list[str] = field(default_factory=list)
    branches: list[Branch] = field(default_factory=list)
    chains: dict[str, list[str]] = field(default_factory=dict)
    "By the branch's name; the thread's own has none."

    @property
    def name(self) -> str:
        return str(self.row["id"])

    @property
    def chain(self) -> list[str]:
        return self.chains.get("", [])


def thread_of(row: Row, turns: list[Turn], tree: Tree) -> Thread:
    """Its tip is where it goes on; a call whose answer lies elsewhere was made again, or gone back from."""
    thread = Thread(row, turns)
    places: dict[str, int] = {}
    tip = row["tip_message_hash"]
    for end in [turn["tip_message_hash"] for turn in turns] + [tip]:
        if end is not None and end not in tree:
            thread.lost.append(sqlite.text(end))
        for name in tree.chain(end):
            places.setdefault(name, len(places))
    thread.nodes = list(places)
    nodes = [Node(name, _known(tree.parent(name), places), spoken=True) for name in thread.nodes]
    thread.branches = branches(nodes, places.get(tip)) if nodes else []
    for branch in thread.branches:
        thread.chains[branch.name] = [thread.nodes[place] for place in [*branch.past(), *branch.own]]
    return thread


def _known(parent: Any, places: Mapping[str, int]) -> str | None:
    return parent if parent in places else None


class Messages:
    """A chain of messages as entries, one each."""

    def __init__(self, tables: Tables, problems: list[Problem]) -> None:
        self._tables = tables
        self._problems = problems
        self._pairing = Pairing()

    def told(self, chain: Sequence[str], turns: Iterable[Turn], made: str) -> Iterator[NewEntry]:
        """A message has no time and no model of its own: the call tells it of which it was a part."""
        calls = list(turns)
        by_tip: dict[str, list[Turn]] = {}
        for call in calls:
            by_tip.setdefault(call["tip_message_hash"], []).append(call)
        asked = {call["parent_message_hash"]: call for call in reversed(calls)}
        notes: list[tuple[Turn | None, str]] = []
        turn: Turn | None = None
        at = made
        for name in reversed(chain):
            if name in by_tip:
                turn = by_tip[name][0]
                at = turn.ended or at
            elif turn is not None and turn["parent_message_hash"] == name:
                at = turn.began or at
            elif name in asked:
                at = asked[name].began or at
            notes.append((turn, at))
        for name, (turn, at) in zip(chain, reversed(notes), strict=True):
            if (entry := self._entry(name, by_tip.get(name, []))) is not None:
                entry.created_at = at
                if entry.role == "assistant" and turn is not None:
                    entry.model, entry.message_key = turn.answered_by, sqlite.text(turn["id"])
                yield entry

    def _entry(self, name: str, turns: list[Turn]) -> NewEntry | None:
        row = self._tables.one("messages", self._problems, "where hash = ?", name)
        if row is None:
            return None
        kept: dict[str, Any] = {"parts": [], "attachments": [], "fragments": []}
        parts: list[Part] = []
        for part in self._tables.rows("parts", self._problems, _OF_A_MESSAGE, name):
            kept["parts"].append(columns_of(part))
            parts += self._part(part, kept)
        kept |= {"turns": turns} if turns else {}
        record = sqlite.row_record(row, "messages", name, instead={key: told for key, told in kept.items() if told})
        role = sqlite.text(row["role"])
        if role not in _ROLES:
            return NewEntry(kind="unknown", parts=tuple(parts), record=record, tokens=tokens(turns))
        return NewEntry(role=role, parts=tuple(parts), record=record, tokens=tokens(turns))

    def _part(self, row: Row, kept: dict[str, Any]) -> Iterable[Part]:
        kind, text = sqlite.text(row["type"]), row["text"]
        payload = mapping(json_of(row["payload"]))
        if row["payload"] is not None and not payload:
            self._problems.append(Problem(f"parts:{row['id']}", "The payload cannot be read."))
        name = words(payload.get("name"))
        match kind:
            case "text" if isinstance(text, str):
                return (Text(text),)
            case "text" if "text_ref" in payload:
                return self._referred(items(payload["text_ref"]), kept)
            case "reasoning":
                return (Thinking(sqlite.text(text) or words(payload.get("text"))),)
            case "tool_call" if name:
                return (
                    ToolCall(self._pairing.called(name, payload.get("tool_call_id")), name, payload.get("arguments")),
                )
            case "tool_result" if payload:
                call_id = self._pairing.answered(name, payload.get("tool_call_id"))
                failed = payload.get("exception") is not None
                output = payload.get("output")
                shown = [mapping(one).get("id") for one in items(payload.get("attachments"))]
                result = ToolResult(call_id, output or payload.get("exception") or output, failed, name)
                return (result, *self._attached(shown, kept))
            case "attachment" if payload:
                return self._attached([mapping(payload.get("attachment")).get("id")], kept)
        return (Opaque(kind, {key: columns_of(row)[key] for key in ("text", "payload")}),)

    def _referred(self, pieces: list[Json], kept: dict[str, Any]) -> Iterator[Part]:
        """Words of the person's own between texts that llm keeps once, however often they are handed over."""
        for piece in pieces:
            said = mapping(piece)
            if isinstance(said.get("literal"), str):
                yield Text(said["literal"])
            elif fragment := self._tables.fragment(_number(said.get("fragment"))):
                kept["fragments"].append(fragment)
                yield borrowed(fragment)
            else:
                yield Opaque("text_ref", piece)

    def _attached(self, names: list[Json], kept: dict[str, Any]) -> Iterator[Attachment]:
        for name in names:
            attachment = self._tables.attachment(column_text(name) if isinstance(name, str) else None)
            if attachment:
                kept["attachments"].append(attachment)
            yield attached(attachment or {"type": "attachment", "path": name})


def _number(value: Json) -> int | None:
    return value if isinstance(value, int) and abs(value) < 2**63 else None
