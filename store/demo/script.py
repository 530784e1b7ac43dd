"""This module turns a scripted conversation into entries.

The TOML files next to it hold messages, thoughts and tool calls. Times, ids, token counts and the records that the
agent would have written are computed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple, cast
from uuid import NAMESPACE_URL, uuid5

from store.formats.content_blocks import part_to_block
from store.model.entry import (
    Attachment,
    Json,
    NewEntry,
    NewRecord,
    Opaque,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from store.model.identity import foreign_session_id
from store.model.session import LIBRARY_SOURCE, SessionFields
from store.model.usage import Usage
from store.sources.kit.usage import tokens_from_usage
from store.text.validate import encode

CHARACTERS_PER_TOKEN = 4
SYSTEM_PROMPT_TOKENS = 16_000
"""Is what an agent sends before the conversation: its instructions and the descriptions of its tools."""

CACHE_LIFETIME = timedelta(minutes=5)
UNCACHED_TOKENS = 4
"""Is the input after the last mark of the cache, which Anthropic counts apart."""

_PROVIDERS = {"claude": "anthropic", "gpt": "openai", "gemini": "google", "qwen": "alibaba"}

# ── the script ────────────────────────────────────────────────────────────────────────────────────


class ScriptedCall(NamedTuple):
    """Describes a tool call and its result. It is still running if `seconds` is None."""

    name: str
    arguments: Json
    output: Json = ""
    error: bool = False
    seconds: float | None = 0.4


@dataclass(frozen=True, slots=True)
class ScriptStep:
    "Describes one entry of a conversation, or a message with its tool calls and their results."

    kind: str = "message"
    role: str = ""
    parts: tuple[Part, ...] = ()
    calls: tuple[ScriptedCall, ...] = ()
    author: str = ""
    text: str | None = None
    prompt: bool | None = None
    delay_seconds: float = 4.0
    "Seconds since the previous step."


@dataclass(frozen=True, slots=True)
class ScriptedConversation:
    "Describes a whole conversation."

    source: str
    name: str
    "The native id, or the text from which it is derived for agents that use UUIDs."
    days_ago: float
    steps: tuple[ScriptStep, ...]
    session_fields: SessionFields = field(default_factory=lambda: SessionFields())
    model: str = ""
    parent: str = ""
    "The name of the session that this one was forked from."
    fork_after: int = 0
    "The last turn shared with the parent."


# ── parsing ───────────────────────────────────────────────────────────────────────────────────────

TomlTable = Mapping[str, Any]
"""A table of a file. Its key `asks`, `says`, `runs` and so on gives the kind of the step."""

_STEP_DEFAULTS = {
    "asks": ScriptStep(role="user", delay_seconds=95.0),
    # An agent adds reminders as the user's messages, and they do not begin a turn.
    "reminds": ScriptStep(role="user", prompt=False, delay_seconds=0.1),
    "instructs": ScriptStep(role="system", delay_seconds=0.5),
    "compacts": ScriptStep(kind="compaction", role="system", delay_seconds=11.0),
    "says": ScriptStep(role="assistant", delay_seconds=6.0),
}
_CONVERSATION_KEYS = {"source", "name", "days_ago", "model", "parent", "fork_after", "step"}


def parse_conversation(table: TomlTable, generated: Mapping[str, Callable[[], str]]) -> ScriptedConversation:
    """Parse a conversation. `generated` maps names to functions for outputs that are too long for a file."""
    fields = {("agent_title" if name == "title" else name): table[name] for name in table.keys() - _CONVERSATION_KEYS}
    return ScriptedConversation(
        table["source"],
        table["name"],
        table["days_ago"],
        tuple(parse_step(step, generated) for step in table["step"]),
        cast("SessionFields", fields),
        table.get("model", ""),
        table.get("parent", ""),
        table.get("fork_after", 0),
    )


def parse_step(table: TomlTable, generated: Mapping[str, Callable[[], str]]) -> ScriptStep:
    if "marks" in table:
        return ScriptStep(
            kind="event", parts=(Opaque(table["kind"], table["value"]),), text=table["marks"], delay_seconds=0.2
        )
    if "odd" in table:
        return ScriptStep(kind="unknown", parts=(Opaque(table["odd"], table["value"]),), delay_seconds=0.2)
    calls = table.get("together", [table] if "runs" in table else [])
    kind = next((kind for kind in _STEP_DEFAULTS if kind in table), "says")
    thought = (Thinking(table["thinks"], _signature(table["thinks"])),) if "thinks" in table else ()
    text = (Text(table[kind]),) if kind in table else ()
    attachments = tuple(Attachment(**attachment) for attachment in table.get("attached", ()))
    return replace(
        _STEP_DEFAULTS[kind],
        parts=(*thought, *text, *attachments),
        calls=tuple(_parse_call(call, generated) for call in calls),
        author=table.get("by", ""),
        delay_seconds=table.get("after", _STEP_DEFAULTS[kind].delay_seconds),
    )


def _parse_call(table: TomlTable, generated: Mapping[str, Callable[[], str]]) -> ScriptedCall:
    return ScriptedCall(
        table["runs"],
        table["with"],
        generated[table["made"]]() if "made" in table else table.get("output", ""),
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
_UUID_SOURCES = {"claude", "codex", "gemini", "qwen", "opencode", "rubichan", "wuhu"}


def make_native_id(source: str, name: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"demo/{source}/{name}")) if source in _UUID_SOURCES else name


def make_session_id(source: str, name: str) -> str:
    if source == LIBRARY_SOURCE:
        return name
    return foreign_session_id(source, make_native_id(source, name), _DATABASES.get(source, ""))


# ── entries ───────────────────────────────────────────────────────────────────────────────────────


def format_time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@dataclass(slots=True)
class ScriptPlayer:
    """Turns steps into entries. It advances the clock and the size of the context, which is read from the cache."""

    conversation: ScriptedConversation
    clock: datetime
    context_tokens: int = 1_200
    call_count: int = 0
    cached_tokens: int = 0
    answered_at: datetime | None = None

    def build_entries(self) -> Iterator[NewEntry]:
        for step in self.conversation.steps:
            self.clock += timedelta(seconds=step.delay_seconds)
            if step.calls:
                yield from self._build_call_entries(step)
            else:
                yield from self._build_entries(step)

    def _build_call_entries(self, step: ScriptStep) -> Iterator[NewEntry]:
        ids = [self._next_call_id() for _ in step.calls]
        calls = tuple(
            ToolCall(call_id, call.name, call.arguments) for call_id, call in zip(ids, step.calls, strict=True)
        )
        yield from self._build_entries(replace(step, parts=step.parts + calls))
        finished = [(ids[n], call, call.seconds) for n, call in enumerate(step.calls) if call.seconds is not None]
        if finished:
            self.clock += timedelta(seconds=max(seconds for *_, seconds in finished))
            results = tuple(
                ToolResult(call_id, call.output, call.error, call.name, seconds * 1000)
                for call_id, call, seconds in finished
            )
            yield from self._build_entries(ScriptStep(role="tool", parts=results))

    def _next_call_id(self) -> str:
        self.call_count += 1
        seed = f"{self.conversation.source}/{self.conversation.name}/{self.call_count}"
        return "call_" + hashlib.blake2b(seed.encode(), digest_size=12).hexdigest()

    def _build_entries(self, step: ScriptStep) -> list[NewEntry]:
        """Return the entries of a step: usually one, but one for each part where the agent writes it so."""
        source, by_model = self.conversation.source, step.role == "assistant"
        entry = NewEntry(
            kind=step.kind,
            role=step.role,
            parts=step.parts,
            author=step.author,
            model=self.conversation.model if by_model else "",
            text=step.text,
            is_prompt=step.prompt,
            created_at=format_time(self.clock),
        )
        is_split = source == "codex" and step.role in ("assistant", "tool") and bool(step.parts)
        entries = [replace(entry, parts=(part,)) for part in step.parts] if is_split else [entry]
        build_record, size = _RECORD_BUILDERS.get(source, _plain_record), 0
        for part_entry in entries:
            data = encode(build_record(part_entry, make_native_id(source, self.conversation.name)))
            part_entry.record = NewRecord(data, place=_DATABASES.get(source, ""))
            size += len(data)
        tokens = max(size // CHARACTERS_PER_TOKEN, 1)
        if by_model and self.conversation.model:
            entries[-1].usage = self._count_usage(tokens)
            entries[-1].tokens = tokens_from_usage(entries[-1].usage)
        self.context_tokens += tokens
        return entries

    def _count_usage(self, output: int) -> Usage:
        """Return the usage of a response: what was sent before is read from the cache, unless there was a pause."""
        provider = _PROVIDERS.get(self.conversation.model.partition("-")[0].rstrip("0123456789"), "")
        context = SYSTEM_PROMPT_TOKENS + self.context_tokens
        is_cached = self.answered_at is not None and self.clock - self.answered_at < CACHE_LIFETIME
        cached = min(self.cached_tokens, context) if is_cached else 0
        self.cached_tokens, self.answered_at = context, self.clock
        if provider != "anthropic":
            return Usage(context - cached, cached, output=output, provider=provider)
        fresh = min(UNCACHED_TOKENS, context - cached)
        return Usage(fresh, cached, context - cached - fresh, output=output, provider=provider)


# ── records, as the agents would have written them ────────────────────────────────────────────────


def _to_blocks(parts: Sequence[Part]) -> list[Json]:
    return [part_to_block(part) for part in parts]


def _plain_record(entry: NewEntry, session: str) -> Json:
    return {
        "session": session,
        "role": entry.role or entry.kind,
        "user": entry.author,
        "content": _to_blocks(entry.parts),
    }


def _claude_record(entry: NewEntry, session: str) -> Json:
    kind = "assistant" if entry.role == "assistant" else "user" if entry.role in ("user", "tool") else "system"
    message = {"role": kind, "content": _to_blocks(entry.parts)} | ({"model": entry.model} if entry.model else {})
    return {"type": kind, "sessionId": session, "timestamp": entry.created_at, "message": message}


def _codex_record(entry: NewEntry, session: str) -> Json:
    return {"timestamp": entry.created_at, "type": "response_item", "payload": _codex_item(entry)}


def _codex_item(entry: NewEntry) -> Json:
    """Return the item of the Responses API that an entry with one part comes from."""
    match entry.parts:
        case (Thinking(text, signature),) if entry.role == "assistant":
            summary = [{"type": "summary_text", "text": text}]
            return {"type": "reasoning", "id": f"rs_{signature}", "summary": summary, "encrypted_content": signature}
        case (ToolCall(call, "apply_patch" as name, {"input": patch}),):
            return {"type": "custom_tool_call", "status": "completed", "call_id": call, "name": name, "input": patch}
        case (ToolCall(call, name, arguments),):
            return {"type": "function_call", "name": name, "arguments": encode(arguments).decode(), "call_id": call}
        case (ToolResult(call, output, is_error, name, duration),):
            metadata = {"exit_code": int(is_error), "duration_seconds": (duration or 0) / 1000}
            kind = "custom_tool_call_output" if name == "apply_patch" else "function_call_output"
            written = encode({"output": output, "metadata": metadata}).decode()
            return {"type": kind, "call_id": call, "output": written}
    kind, role = ("output_text", "assistant") if entry.role == "assistant" else ("input_text", entry.role)
    texts = [part.text for part in entry.parts if isinstance(part, Text)]
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text} for text in texts]}


def _wuhu_record(entry: NewEntry, session: str) -> Json:
    if entry.kind != "message":
        return {"type": entry.kind, "payload": _to_blocks(entry.parts)}
    message = {"user": entry.author or "unknown_user", "content": _to_blocks(entry.parts)}
    return {"type": "message", "payload": {"role": entry.role, "message": message}}


_RECORD_BUILDERS: dict[str, Callable[[NewEntry, str], Json]] = {
    "claude": _claude_record,
    "codex": _codex_record,
    "wuhu": _wuhu_record,
}
