"""Gemini CLI's log, played again: each line told where it stands, with what is new in it.

A message is told again as its calls and tokens arrive, and all of them once more when a session is resumed; so a log
that grows is a chain that grows. What was taken back is a branch that was left.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from store.model.entry import Json, NewEntry, Opaque, Part, Text, Thinking, Tokens, ToolCall, ToolResult, readable
from store.sources.kit import jsonl
from store.sources.kit.gemini_parts import call_id, is_injected, parts_of, result_of, tokens_of, typed
from store.sources.kit.jsonl import Line, items, mapping, moment, words
from store.sources.kit.transcripts import Node

_REMEMBERED = ("toolCalls", "thoughts", "tokens", "model")
"""What a message that is told anew may have lost."""

_UNDER_WAY = ("validating", "scheduled", "executing", "awaiting_approval")
_COMMAND = ("/", "?")

Message = Mapping[str, Json]


class Step(NamedTuple):
    node: Node
    entry: NewEntry


class Replay:
    def __init__(self, told: Iterable[tuple[Line, str]]) -> None:
        self._lines = told
        self.head: Line | None = None
        self.head_place = ""
        self.project = ""
        self.begun = ""
        self.ended = ""
        self.directories: list[str] = []
        self._summary = ""
        self._prompts: list[str] = []
        self._agents: dict[str, int] = {}
        self._nodes: list[Node] = []
        self._parents: list[int | None] = []
        self._at: int | None = None
        self._names: set[str] = set()
        self._memory: dict[str, dict[str, Json]] = {}
        # What is told by now, each with the step that told it: taken back, it may be told again.
        self._live: dict[str, int] = {}
        self._known: dict[tuple[str, ...], int] = {}
        self._paid: dict[str, tuple[Tokens, int]] = {}

    def steps(self) -> Iterator[Step]:
        """One for each entry, and no line without one but the first."""
        for line, place in self._lines:
            record = jsonl.record(line, place)
            for name, entry in self._line(line, place):
                entry.record = record
                entry.created_at = entry.created_at or self.ended or self.begun
                yield Step(self._node(name, entry), entry)

    def title(self) -> str:
        """A command to the program makes no title."""
        if self._summary or not self._prompts or not self._prompts[0].startswith(_COMMAND):
            return self._summary
        return next((prompt for prompt in self._prompts if not prompt.startswith(_COMMAND)), "")

    def asked(self, agent: str) -> int | None:
        """The step that called the sub-agent of this session id."""
        return next((step for called, step in self._agents.items() if called and called in agent), None)

    def _node(self, name: str, entry: NewEntry) -> Node:
        name = name if name and name not in self._names else f"{name}.{len(self._nodes)}"
        spoken = entry.role in ("user", "assistant") and entry.kind == "message" and entry.prompt is not False
        parent = None if self._at is None else self._nodes[self._at].id
        node = Node(name, parent, spoken or entry.kind == "compaction")
        self._names.add(name)
        self._parents.append(self._at)
        self._at = len(self._nodes)
        self._nodes.append(node)
        return node

    # ── lines, by their shape ─────────────────────────────────────────────────────────────────────

    def _line(self, line: Line, place: str) -> Iterator[tuple[str, NewEntry]]:
        """Told one by one: what an entry holds hangs on the one before."""
        value = mapping(line.value)
        if isinstance(message := value.get("$rewindTo"), str):
            self._take_back(self._live.get(message, min(self._live.values(), default=0)))
            yield "", NewEntry(kind="event", text=message)
        elif isinstance(value.get("id"), str):
            yield words(value.get("id")), self._tell(value) or NewEntry(kind="event")
        elif isinstance(value.get("$set"), dict):
            self._about(mapping(value.get("$set")))
            yield from self._rebuild(mapping(value.get("$set")), silent=False)
        elif isinstance(value.get("sessionId"), str):
            yield from self._metadata(line, place, value)
        else:
            yield "", NewEntry(kind="unknown", parts=(Opaque("", line.value),))

    def _metadata(self, line: Line, place: str, value: Message) -> Iterator[tuple[str, NewEntry]]:
        first = self.head is None
        if first:
            self.head, self.head_place = line, place
            self.project = words(value.get("projectHash"))
        self._about(value)
        yield from self._rebuild(value, silent=first)

    def _about(self, value: Message) -> None:
        begun = moment(value.get("startTime"))
        self.begun = min(filter(None, (self.begun, begun)), default="")
        self.ended = max(self.ended, begun, moment(value.get("lastUpdated")))
        self._summary = words(value.get("summary")).strip() or self._summary
        self.directories += filter(None, map(words, items(value.get("directories"))))

    def _rebuild(self, value: Message, *, silent: bool) -> Iterator[tuple[str, NewEntry]]:
        """All there is to the model now: at a start, after a rollback, or with a summary for what it leaves out."""
        messages = list(map(mapping, items(value.get("messages"))))
        listed = [words(message.get("id")) or f".{place}" for place, message in enumerate(messages)]
        spoken = [name for name, message in zip(listed, messages, strict=True) if _speaks(message)]
        left = [step for name, step in self._live.items() if name not in listed]
        compacted = bool(left) and any(name not in self._memory for name in spoken)
        if left and spoken and not compacted:
            self._take_back(min(left))
        for name, message in zip(listed, messages, strict=True):
            fresh = name not in self._memory
            if (entry := self._tell({**message, "id": name})) is not None:
                if compacted and fresh and entry.role == "user" and entry.begins_turn():
                    entry = NewEntry(kind="compaction", text=entry.reading_text(), created_at=entry.created_at)
                silent = True
                yield name, entry
        if not silent:
            yield "", NewEntry(kind="event", text=words(value.get("summary")))

    def _take_back(self, step: int) -> None:
        """This step and all that came after it."""
        self._at = self._parents[step] if step < len(self._parents) else self._at
        self._live = {name: told for name, told in self._live.items() if told < step}
        self._known = {key: told for key, told in self._known.items() if told < step}
        self._paid = {name: told for name, told in self._paid.items() if told[1] < step}

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _tell(self, message: Message) -> NewEntry | None:
        """What is new of it."""
        name = words(message.get("id"))
        remembered = self._memory.setdefault(name, {"timestamp": message.get("timestamp")})
        remembered |= {key: message[key] for key in _REMEMBERED if message.get(key)}
        message = {**message, **remembered}
        at = moment(message.get("timestamp"))
        self.ended = max(self.ended, at)
        kind = words(message.get("type"))
        if kind == "user":
            entry = self._user(name, message)
        elif kind == "gemini":
            entry = self._answer(name, message)
        else:
            entry = self._notice(name, kind, message)
        if entry is not None:
            entry.created_at = entry.created_at or at
            entry.message_key = name
            if _speaks(message):
                self._live.setdefault(name, len(self._nodes))
        return entry

    def _is_new(self, *key: str) -> bool:
        return key not in self._known and self._known.setdefault(key, len(self._nodes)) == len(self._nodes)

    def _fresh(self, name: str, part: Part) -> bool:
        match part:
            case ToolCall(call, _, _):
                return self._is_new("call", call)
            case ToolResult(call, _):
                return self._is_new("result", call)
            case Text(said):
                return self._is_new("text", name, said.strip())
            case Thinking():
                return ("thoughts", name) not in self._known
        return self._is_new("part", name, repr(part))

    def _user(self, name: str, message: Message) -> NewEntry | None:
        whole = parts_of(message.get("content"))
        parts = tuple(part for part in whole if self._fresh(name, part))
        if not parts:
            return None
        if any(isinstance(part, ToolResult) for part in whole):
            return NewEntry(role="tool", parts=parts, prompt=False)
        said = typed(parts_of(message.get("displayContent"))) or typed(parts)
        if is_injected(said):
            return NewEntry(role="user", parts=parts, prompt=False)
        self._prompts.append(said)
        return NewEntry(role="user", parts=parts, text=said)

    def _answer(self, name: str, message: Message) -> NewEntry | None:
        thoughts = [_thought(thought) for thought in map(mapping, items(message.get("thoughts")))]
        parts: list[Part] = [Thinking(said) for said in thoughts if self._is_new("thought", name, said)]
        parts += [part for part in parts_of(message.get("content")) if self._fresh(name, part)]
        if any(isinstance(part, Thinking) for part in parts):
            self._is_new("thoughts", name)
        at = ""
        for call in map(mapping, items(message.get("toolCalls"))):
            if told := [part for part in _call(call) if self._fresh(name, part)]:
                parts += told
                at = max(at, moment(call.get("timestamp")))
                self._agents.setdefault(words(call.get("agentId")), len(self._nodes))
        tokens = self._new_tokens(name, mapping(message.get("tokens")))
        if not parts and not tokens:
            return None
        self.ended = max(self.ended, at)
        return NewEntry(
            role="assistant", parts=tuple(parts), model=words(message.get("model")), tokens=tokens, created_at=at
        )

    def _new_tokens(self, name: str, told: Message) -> Tokens | None:
        """The last count of a message is the whole; what was counted of it before is not counted again."""
        if not told:
            return None
        whole = tokens_of(*(told.get(key) for key in ("input", "cached", "output", "thoughts", "tool")))
        before = self._paid.get(name, (Tokens(), 0))[0]
        self._paid[name] = whole, len(self._nodes)
        return (
            Tokens(*(max(now - then, 0) for now, then in zip(whole, before, strict=True))) if whole != before else None
        )

    def _notice(self, name: str, kind: str, message: Message) -> NewEntry | None:
        said = readable(message.get("content"))
        if not self._is_new("text", name, said):
            return None
        if kind == "error":
            return NewEntry(role="system", parts=(Text(said),))
        if kind in ("info", "warning"):
            return NewEntry(kind="event", text=said)
        return NewEntry(kind="unknown", parts=(Opaque(kind, dict(message)),))


def _speaks(message: Message) -> bool:
    """Whether it is part of the talk, rather than a result, a notice, or the program's own words."""
    kind = message.get("type")
    if kind != "user":
        return kind == "gemini"
    parts = parts_of(message.get("content"))
    return any(not isinstance(part, ToolResult) for part in parts) and not is_injected(typed(parts))


def _thought(thought: Message) -> str:
    return "\n".join(filter(None, (words(thought.get("subject")), words(thought.get("description")))))


def _call(call: Message) -> list[Part]:
    """A call and, when it has ended, its result; one that was refused or broken off has none of its own."""
    name, status = words(call.get("name")), words(call.get("status"))
    parts: list[Part] = [ToolCall(call_id(call), name, call.get("args"))]
    result = call.get("result")
    listed = items(result) or [result]
    response = next((found for found in (mapping(mapping(one).get("functionResponse")) for one in listed) if found), {})
    if response or status not in (*_UNDER_WAY, ""):
        body = response.get("response", call.get("resultDisplay"))
        told = {"id": call_id(call), "name": name, "response": body}
        parts.append(result_of(told, failed=status in ("error", "cancelled")))
    return parts
