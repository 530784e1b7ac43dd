"""How a made-up conversation becomes entries. What is said, thought and called stands in the files beside this one;
times, ids, token counts and the records that a foreign program would have written are worked out."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast
from uuid import NAMESPACE_URL, uuid5

from store.formats.content_blocks import block_of_part
from store.model.entry import (
    Attachment,
    Json,
    NewEntry,
    NewRecord,
    Opaque,
    Part,
    Text,
    Thinking,
    Tokens,
    ToolCall,
    ToolResult,
)
from store.model.identity import foreign_id
from store.model.session import LIBRARY, SessionFields
from store.text.validate import encode

CHARACTERS_PER_TOKEN = 4

# ── what is told ──────────────────────────────────────────────────────────────────────────────────


class Call(NamedTuple):
    """A tool call and what came of it; `seconds` None means that it is still running."""

    name: str
    arguments: Json
    output: Json = ""
    error: bool = False
    seconds: float | None = 0.4


@dataclass(frozen=True, slots=True)
class Step:
    kind: str = "message"
    role: str = ""
    parts: tuple[Part, ...] = ()
    calls: tuple[Call, ...] = ()
    author: str = ""
    text: str | None = None
    prompt: bool | None = None
    after: float = 4.0
    "Seconds since the step before."


@dataclass(frozen=True, slots=True)
class Conversation:
    source: str
    name: str
    "The native id; for agents that number their sessions by UUID, what the UUID is made from."
    days_ago: float
    steps: tuple[Step, ...]
    about: SessionFields = field(default_factory=lambda: SessionFields())
    model: str = ""
    parent: str = ""
    "The name of the session that this one came from."
    fork_after: int = 0
    "The last turn shared with the parent."


# ── reading one ───────────────────────────────────────────────────────────────────────────────────

Table = Mapping[str, Any]
"""As it stands in a file: one of `asks`, `says`, `runs` … tells what the step is."""

_OF_STEPS = {
    "asks": Step(role="user", after=95.0),
    # What a program puts into the conversation in the person's name: no turn begins with it.
    "reminds": Step(role="user", prompt=False, after=0.1),
    "instructs": Step(role="system", after=0.5),
    "compacts": Step(kind="compaction", role="system", after=11.0),
    "says": Step(role="assistant", after=6.0),
}
_OF_SESSIONS = {"source", "name", "days_ago", "model", "parent", "fork_after", "step"}


def conversation_of(table: Table, made: Mapping[str, Callable[[], str]]) -> Conversation:
    """`made` gives the outputs that are too long to be written down."""
    about = {("agent_title" if name == "title" else name): table[name] for name in table.keys() - _OF_SESSIONS}
    return Conversation(
        table["source"],
        table["name"],
        table["days_ago"],
        tuple(step_of(step, made) for step in table["step"]),
        cast("SessionFields", about),
        table.get("model", ""),
        table.get("parent", ""),
        table.get("fork_after", 0),
    )


def step_of(table: Table, made: Mapping[str, Callable[[], str]]) -> Step:
    if "marks" in table:
        return Step(kind="event", parts=(Opaque(table["kind"], table["value"]),), text=table["marks"], after=0.2)
    if "odd" in table:
        return Step(kind="unknown", parts=(Opaque(table["odd"], table["value"]),), after=0.2)
    calls = table.get("together", [table] if "runs" in table else [])
    word = next((word for word in _OF_STEPS if word in table), "says")
    thought = (Thinking(table["thinks"], _signature(table["thinks"])),) if "thinks" in table else ()
    said = (Text(table[word]),) if word in table else ()
    attached = tuple(Attachment(**each) for each in table.get("attached", ()))
    return replace(
        _OF_STEPS[word],
        parts=(*thought, *said, *attached),
        calls=tuple(_call(call, made) for call in calls),
        author=table.get("by", ""),
        after=table.get("after", _OF_STEPS[word].after),
    )


def _call(table: Table, made: Mapping[str, Callable[[], str]]) -> Call:
    return Call(
        table["runs"],
        table["with"],
        made[table["made"]]() if "made" in table else table.get("output", ""),
        table.get("error", False),
        None if table.get("running") else table.get("seconds", 0.4),
    )


def _signature(thought: str) -> str:
    return hashlib.blake2b(thought.encode(), digest_size=24).hexdigest()


# ── identity ──────────────────────────────────────────────────────────────────────────────────────

_DATABASES = {
    "pingu": "~/.local/share/pingu/pingu.db",
    "wuhu": "~/.wuhu/wuhu.sqlite",
    "rubichan": "~/.config/rubichan/rubichan.db",
    "kiso": "~/.kiso/store.db",
    "adk": "agents/.adk/session.db",
}
_NUMBERED = {"claude", "codex", "gemini", "qwen", "opencode", "rubichan", "wuhu"}


def native_id(source: str, name: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"demo/{source}/{name}")) if source in _NUMBERED else name


def session_id(source: str, name: str) -> str:
    if source == LIBRARY:
        return name
    return foreign_id(source, native_id(source, name), _DATABASES.get(source, ""))


# ── playing one ───────────────────────────────────────────────────────────────────────────────────


def stamp(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(slots=True)
class Player:
    """Turns steps into entries. The clock runs, the context grows, and what was in it before comes from the cache."""

    conversation: Conversation
    clock: datetime
    context: int = 1_200
    calls: int = 0

    def play(self) -> Iterator[NewEntry]:
        for step in self.conversation.steps:
            self.clock += timedelta(seconds=step.after)
            if step.calls:
                yield from self._call(step)
            else:
                yield self._entry(step)

    def _call(self, step: Step) -> Iterator[NewEntry]:
        ids = [self._call_id() for _ in step.calls]
        asked = tuple(
            ToolCall(call_id, call.name, call.arguments) for call_id, call in zip(ids, step.calls, strict=True)
        )
        yield self._entry(replace(step, parts=step.parts + asked))
        finished = [(ids[n], call, call.seconds) for n, call in enumerate(step.calls) if call.seconds is not None]
        if finished:
            self.clock += timedelta(seconds=max(seconds for *_, seconds in finished))
            results = tuple(
                ToolResult(call_id, call.output, call.error, call.name, seconds * 1000)
                for call_id, call, seconds in finished
            )
            yield self._entry(Step(role="tool", parts=results))

    def _call_id(self) -> str:
        self.calls += 1
        made_of = f"{self.conversation.source}/{self.conversation.name}/{self.calls}"
        return "call_" + hashlib.blake2b(made_of.encode(), digest_size=12).hexdigest()

    def _entry(self, step: Step) -> NewEntry:
        by_model = step.role == "assistant"
        entry = NewEntry(
            kind=step.kind,
            role=step.role,
            parts=step.parts,
            author=step.author,
            model=self.conversation.model if by_model else "",
            text=step.text,
            prompt=step.prompt,
            created_at=stamp(self.clock),
        )
        shape = _SHAPES.get(self.conversation.source, _plain)
        data = encode(shape(entry, native_id(self.conversation.source, self.conversation.name)))
        entry.record = NewRecord(data, place=_DATABASES.get(self.conversation.source, ""))
        entry.tokens = self._spent(len(data), by_model)
        return entry

    def _spent(self, size: int, by_model: bool) -> Tokens | None:
        new = max(size // CHARACTERS_PER_TOKEN, 1)
        cached, self.context = self.context, self.context + new
        return Tokens(min(new, 400) + 3, new, cached) if by_model else None


# ── what the foreign programs would have written ──────────────────────────────────────────────────


def _blocks(parts: Sequence[Part]) -> list[Json]:
    return [block_of_part(part) for part in parts]


def _plain(entry: NewEntry, session: str) -> Json:
    return {"session": session, "role": entry.role or entry.kind, "user": entry.author, "content": _blocks(entry.parts)}


def _lines_of_claude(entry: NewEntry, session: str) -> Json:
    kind = "assistant" if entry.role == "assistant" else "user" if entry.role in ("user", "tool") else "system"
    message = {"role": kind, "content": _blocks(entry.parts)} | ({"model": entry.model} if entry.model else {})
    return {"type": kind, "sessionId": session, "timestamp": entry.created_at, "message": message}


def _lines_of_codex(entry: NewEntry, session: str) -> Json:
    payload = {"type": "message", "role": entry.role, "content": _blocks(entry.parts)}
    return {"timestamp": entry.created_at, "type": "response_item", "payload": payload}


def _rows_of_wuhu(entry: NewEntry, session: str) -> Json:
    if entry.kind != "message":
        return {"type": entry.kind, "payload": _blocks(entry.parts)}
    message = {"user": entry.author or "unknown_user", "content": _blocks(entry.parts)}
    return {"type": "message", "payload": {"role": entry.role, "message": message}}


_SHAPES: dict[str, Callable[[NewEntry, str], Json]] = {
    "claude": _lines_of_claude,
    "codex": _lines_of_codex,
    "wuhu": _rows_of_wuhu,
}
