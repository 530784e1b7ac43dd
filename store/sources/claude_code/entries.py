"""What a record of Claude Code means: one entry each, told in order, since one message may stand in many records."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from store.formats.content_blocks import part_of_block
from store.model.entry import Json, NewEntry, Opaque, Part, Text, Thinking, Tokens, ToolCall, ToolResult
from store.sources.claude_code.prompts import blocks_of, said, typed
from store.sources.contract import ForeignSummary, Problem
from store.sources.kit.jsonl import LONGEST_LINE, UNREADABLE, count, first_words, items, mapping, opened, words
from store.text.validate import encode_derived

EVENTS = frozenset(
    "agent-name agent-setting ai-title api-request api-request-blob api-request-shape atis-latch attribution-snapshot"
    " bridge-session content-replacement cost-state custom-title file-history-delta file-history-snapshot last-prompt"
    " mode permission-mode pr-link progress queue-operation relocated summary system tag task-summary tools-used"
    " worktree-state".split()
)
_WORDS_OF_EVENTS = (
    "operation",
    "customTitle",
    "aiTitle",
    "summary",
    "tag",
    "agentName",
    "mode",
    "permissionMode",
    "prUrl",
)
_SYNTHETIC = "<synthetic>"
_PLAIN = frozenset(["text", "thinking", "tool_use", "tool_result"])
_OPEN = 20
"""Messages of which more may come."""


class Telling:
    """One chain while its records are read in order."""

    def __init__(self, met: list[Problem], *, is_agent: bool) -> None:
        self._met = met
        self._is_agent = is_agent
        self._seen: set[str] = set()
        self._counted: dict[str, Tokens] = {}
        self._shown: dict[str, set[str]] = {}
        self._turns = 0
        self.summary: ForeignSummary | None = None

    def remembered(self) -> dict[str, Json]:
        """What must be known to go on: of the last messages, which may go on, too."""
        shown = {key: sorted(marks) for key, marks in list(self._shown.items())[-_OPEN:]}
        counted = {key: [*tokens] for key, tokens in list(self._counted.items())[-_OPEN:]}
        return {"turns": self._turns, "counted": counted, "shown": shown}

    def remember(self, told: Mapping[str, Any]) -> None:
        self._turns = told["turns"]
        self._counted = {key: Tokens(*tokens) for key, tokens in told["counted"].items()}
        self._shown = {key: set(marks) for key, marks in told["shown"].items()}

    def entry(self, value: Json, path: Path, *, silent: bool = False) -> NewEntry:
        told = mapping(value)
        kind, uuid = words(told.get("type")), words(told.get("uuid"))
        if uuid and uuid in self._seen:
            # A resume may write once more what stands there already.
            return NewEntry(kind="event", text="", prompt=False)
        self._seen.add(uuid)
        if kind == "user" and "message" in told:
            entry = self._user(told, path, silent=silent)
        elif kind == "assistant" and "message" in told:
            entry = self._assistant(told)
        elif kind == "attachment":
            entry = _attachment(mapping(told.get("attachment")))
        elif kind in EVENTS:
            entry = NewEntry(kind="event", role="system" if kind == "system" else "", text=_words_of_event(told))
        else:
            entry = NewEntry(kind="unknown", parts=(Opaque(kind, value),))
        self._turns += entry.begins_turn()
        return entry

    # ── the user, and what stands in the user's name ──────────────────────────────────────────────

    def _user(self, told: Mapping[str, Json], path: Path, *, silent: bool) -> NewEntry:
        parts = tuple(self._result(_part(block), told, path) for block in blocks_of(told))
        if told.get("isCompactSummary") is True:
            summary = "\n\n".join(part.text for part in parts if isinstance(part, Text))
            self.summary = ForeignSummary(summary, self._turns)
            return NewEntry(kind="compaction", role="system", parts=parts, prompt=False)
        if any(isinstance(part, ToolResult) for part in parts):
            return NewEntry(role="tool", parts=parts, prompt=False)
        text = said(told)
        if text is None:
            # The model reads it as the user's, though no person said it; what is marked so no person is to read either.
            return NewEntry(role="system", parts=parts, text="" if told.get("isMeta") is True else None, prompt=False)
        author = "claude" if self._is_agent and not silent else ""
        return NewEntry(role="user", parts=_said_parts(parts), text=text, prompt=not silent, author=author)

    def _result(self, part: Part, told: Mapping[str, Json], path: Path) -> Part:
        if not isinstance(part, ToolResult):
            return part
        beside = told.get("toolUseResult")
        failed = part.is_error or (isinstance(beside, str) and beside.startswith("Error:"))
        output = self._whole(part.output, mapping(beside), path)
        return ToolResult(part.call_id, output, failed, part.name, _duration(mapping(beside)))

    def _whole(self, output: Json, beside: Mapping[str, Json], path: Path) -> Json:
        """An output too long for the transcript stands in a file beside it, with a preview in its place."""
        # The path is that of the machine of origin; only its last name is believed.
        name = name_of(kept_in(output, beside))
        if not name:
            return [_aside(block) for block in output] if isinstance(output, list) else output
        session = path.parent if path.parent.name != "subagents" else path.parent.parent
        for folder in (path.with_suffix(""), session):
            try:
                with opened(folder / "tool-results" / name) as file:
                    data = file.read(LONGEST_LINE + 1)
            except UNREADABLE:
                continue
            if len(data) <= LONGEST_LINE:
                return data.decode("utf-8", "replace")
            reason = f"The output is longer than {LONGEST_LINE >> 20} MB; only its beginning is kept."
            self._met.append(Problem(str(folder / "tool-results" / name), reason))
        return output

    # ── the assistant ─────────────────────────────────────────────────────────────────────────────

    def _assistant(self, told: Mapping[str, Json]) -> NewEntry:
        message = mapping(told.get("message"))
        key, model = words(message.get("id")), words(message.get("model"))
        shown = self._shown.setdefault(key, set()) if key else set()
        parts: list[Part] = []
        for block in blocks_of(told):
            # Some records of a message add to those before, others tell everything anew.
            mark = words(mapping(block).get("id")) or sha256(encode_derived(block)).hexdigest()[:24]
            if mark not in shown:
                shown.add(mark)
                parts.append(_part(block))
        return NewEntry(
            role="assistant",
            parts=tuple(parts),
            model="" if model == _SYNTHETIC else model,
            message_key=key,
            tokens=self._tokens(key, message.get("usage")),
        )

    def _tokens(self, key: str, usage: Json) -> Tokens | None:
        """Each record of a message repeats its usage, at times with more: only the growth is counted."""
        if not isinstance(usage, dict):
            return None
        cached = count(usage.get("cache_read_input_tokens")) + count(usage.get("cache_creation_input_tokens"))
        now = Tokens(count(usage.get("input_tokens")), count(usage.get("output_tokens")), cached)
        before = self._counted.get(key) if key else None
        if before is None:
            most = grown = now
        elif before == now:
            return None
        else:
            most = Tokens(*map(max, before, now))
            grown = Tokens(*(new - old for new, old in zip(most, before, strict=True)))
        if key:
            self._counted[key] = most
        return grown if grown.total else None


def kept_in(output: Json, beside: Mapping[str, Json]) -> str:
    """The path under which a result's whole output is kept; empty where it stands in the transcript."""
    place = words(beside.get("persistedOutputPath"))
    if not place and isinstance(output, str) and output.lstrip().startswith("<persisted-output>"):
        place = next((line for line in output.splitlines() if "saved to: " in line), "").rpartition("saved to: ")[2]
    return place.strip()


def name_of(place: str) -> str:
    name = os.path.basename(place.replace("\\", "/"))
    return name if name not in (".", "..") else ""


def _attachment(told: Mapping[str, Json]) -> NewEntry:
    """Context that the program adds; but for what was typed while a tool ran."""
    kind, prompt = words(told.get("type")), told.get("prompt")
    if kind != "queued_command" or told.get("commandMode", "prompt") != "prompt":
        return NewEntry(kind="event", role="system", text=kind)
    parts = _said_parts((Text(prompt),) if isinstance(prompt, str) else tuple(map(_part, items(prompt))))
    return NewEntry(role="user", parts=parts, prompt=bool(parts))


def _said_parts(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Without the reminders that the program put among a person's words."""
    said_parts = (Text(typed(part.text)) if isinstance(part, Text) else part for part in parts)
    return tuple(part for part in said_parts if not isinstance(part, Text) or part.text.strip())


def _part(block: Json) -> Part:
    told = mapping(block)
    kind = words(told.get("type"))
    if kind in _PLAIN:
        return part_of_block(block)
    if kind == "redacted_thinking":
        return Thinking("", words(told.get("data")))
    if kind == "server_tool_use":
        return ToolCall(words(told.get("id")), words(told.get("name")), told.get("input"))
    if kind.endswith("_tool_result"):
        content = told.get("content")
        failed = words(mapping(content).get("type")).endswith("_error")
        return ToolResult(words(told.get("tool_use_id")), content, failed)
    return part_of_block(block)


def _aside(block: Json) -> Json:
    """An image within a result stays in the record; here is only what it was."""
    source = mapping(mapping(block).get("source"))
    data = source.get("data")
    if not isinstance(data, str):
        return block
    return {**block, "source": {**source, "data": "", "size": len(data) * 3 // 4}}


def _duration(beside: Mapping[str, Json]) -> float | None:
    for name in ("durationMs", "totalDurationMs"):
        if (took := count(beside.get(name))) or beside.get(name) == 0:
            return float(took)
    return None


def _words_of_event(told: Mapping[str, Json]) -> str:
    kind = words(told.get("subtype")) or words(mapping(told.get("data")).get("type")) or words(told.get("type"))
    # A prompt that waits in the queue is told when it is sent.
    telling = ("content", *_WORDS_OF_EVENTS) if told.get("type") == "system" else _WORDS_OF_EVENTS
    text = first_words(told, telling)
    return f"{kind}: {text}" if text else kind
