"""What a record of Claude Code means: one entry each, told in order, since one message may stand in many records."""

from __future__ import annotations

import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from store.formats.content_blocks import parse_block
from store.model.entry import Json, NewEntry, Opaque, Part, Text, Thinking, Tokens, ToolCall, ToolResult
from store.sources.claude_code.prompts import content_blocks, extract_prompt, extract_typed_text
from store.sources.contract import ForeignSummary, Problem
from store.sources.kit.jsonl import (
    MAX_LINE_BYTES,
    PATH_ERRORS,
    as_count,
    as_dict,
    as_list,
    as_str,
    first_str,
    open_file,
)
from store.text.validate import encode_derived

EVENT_TYPES = frozenset(
    "agent-name agent-setting ai-title api-request api-request-blob api-request-shape atis-latch attribution-snapshot"
    " bridge-session content-replacement cost-state custom-title file-history-delta file-history-snapshot last-prompt"
    " mode permission-mode pr-link progress queue-operation relocated summary system tag task-summary tools-used"
    " worktree-state".split()
)
_EVENT_TEXT_FIELDS = (
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
_SYNTHETIC_MODEL = "<synthetic>"
_STANDARD_BLOCKS = frozenset(["text", "thinking", "tool_use", "tool_result"])
_MAX_OPEN_MESSAGES = 20
"""Messages of which more may come."""


class ClaudeEntryReader:
    """One chain while its records are read in order."""

    def __init__(self, met: list[Problem], *, is_subagent: bool) -> None:
        self._problems = met
        self._is_subagent = is_subagent
        self._seen_uuids: set[str] = set()
        self._counted_tokens: dict[str, Tokens] = {}
        self._seen_blocks: dict[str, set[str]] = {}
        self._turn_count = 0
        self.summary: ForeignSummary | None = None

    def save_state(self) -> dict[str, Json]:
        """What must be known to go on: of the last messages, which may go on, too."""
        shown = {key: sorted(marks) for key, marks in list(self._seen_blocks.items())[-_MAX_OPEN_MESSAGES:]}
        counted = {key: [*tokens] for key, tokens in list(self._counted_tokens.items())[-_MAX_OPEN_MESSAGES:]}
        return {"turns": self._turn_count, "counted": counted, "shown": shown}

    def restore_state(self, told: Mapping[str, Any]) -> None:
        self._turn_count = told["turns"]
        self._counted_tokens = {key: Tokens(*tokens) for key, tokens in told["counted"].items()}
        self._seen_blocks = {key: set(marks) for key, marks in told["shown"].items()}

    def read_entry(self, value: Json, path: Path, *, is_local_command: bool = False) -> NewEntry:
        told = as_dict(value)
        kind, uuid = as_str(told.get("type")), as_str(told.get("uuid"))
        if uuid and uuid in self._seen_uuids:
            # A resume may write once more what stands there already.
            return NewEntry(kind="event", text="", is_prompt=False)
        self._seen_uuids.add(uuid)
        if kind == "user" and "message" in told:
            entry = self._read_user(told, path, is_local_command=is_local_command)
        elif kind == "assistant" and "message" in told:
            entry = self._read_assistant(told)
        elif kind == "attachment":
            entry = _read_attachment(as_dict(told.get("attachment")))
        elif kind in EVENT_TYPES:
            entry = NewEntry(kind="event", role="system" if kind == "system" else "", text=_event_text(told))
        else:
            entry = NewEntry(kind="unknown", parts=(Opaque(kind, value),))
        self._turn_count += entry.begins_turn()
        return entry

    # ── the user, and what stands in the user's name ──────────────────────────────────────────────

    def _read_user(self, told: Mapping[str, Json], path: Path, *, is_local_command: bool) -> NewEntry:
        parts = tuple(self._complete_result(_parse_part(block), told, path) for block in content_blocks(told))
        if told.get("isCompactSummary") is True:
            summary = "\n\n".join(part.text for part in parts if isinstance(part, Text))
            self.summary = ForeignSummary(summary, self._turn_count)
            return NewEntry(kind="compaction", role="system", parts=parts, is_prompt=False)
        if any(isinstance(part, ToolResult) for part in parts):
            return NewEntry(role="tool", parts=parts, is_prompt=False)
        text = extract_prompt(told)
        if text is None:
            # The model reads it as the user's, though no person said it; what is marked so no person is to read either.
            return NewEntry(
                role="system", parts=parts, text="" if told.get("isMeta") is True else None, is_prompt=False
            )
        author = "claude" if self._is_subagent and not is_local_command else ""
        return NewEntry(
            role="user", parts=_strip_reminders(parts), text=text, is_prompt=not is_local_command, author=author
        )

    def _complete_result(self, part: Part, told: Mapping[str, Json], path: Path) -> Part:
        if not isinstance(part, ToolResult):
            return part
        beside = told.get("toolUseResult")
        failed = part.is_error or (isinstance(beside, str) and beside.startswith("Error:"))
        output = self._load_full_output(part.output, as_dict(beside), path)
        return ToolResult(part.call_id, output, failed, part.name, _parse_duration(as_dict(beside)))

    def _load_full_output(self, output: Json, beside: Mapping[str, Json], path: Path) -> Json:
        """An output too long for the transcript stands in a file beside it, with a preview in its place."""
        # The path is that of the machine of origin; only its last name is believed.
        name = safe_file_name(persisted_output_path(output, beside))
        if not name:
            return [_strip_image_data(block) for block in output] if isinstance(output, list) else output
        session = path.parent if path.parent.name != "subagents" else path.parent.parent
        for folder in (path.with_suffix(""), session):
            try:
                with open_file(folder / "tool-results" / name) as file:
                    data = file.read(MAX_LINE_BYTES + 1)
            except PATH_ERRORS:
                continue
            if len(data) <= MAX_LINE_BYTES:
                return data.decode("utf-8", "replace")
            reason = f"The output is longer than {MAX_LINE_BYTES >> 20} MB; only its beginning is kept."
            self._problems.append(Problem(str(folder / "tool-results" / name), reason))
        return output

    # ── the assistant ─────────────────────────────────────────────────────────────────────────────

    def _read_assistant(self, told: Mapping[str, Json]) -> NewEntry:
        message = as_dict(told.get("message"))
        key, model = as_str(message.get("id")), as_str(message.get("model"))
        shown = self._seen_blocks.setdefault(key, set()) if key else set()
        parts: list[Part] = []
        for block in content_blocks(told):
            # Some records of a message add to those before, others tell everything anew.
            mark = as_str(as_dict(block).get("id")) or sha256(encode_derived(block)).hexdigest()[:24]
            if mark not in shown:
                shown.add(mark)
                parts.append(_parse_part(block))
        return NewEntry(
            role="assistant",
            parts=tuple(parts),
            model="" if model == _SYNTHETIC_MODEL else model,
            message_key=key,
            tokens=self._count_new_tokens(key, message.get("usage")),
        )

    def _count_new_tokens(self, key: str, usage: Json) -> Tokens | None:
        """Each record of a message repeats its usage, at times with more: only the growth is counted."""
        if not isinstance(usage, dict):
            return None
        cached = as_count(usage.get("cache_read_input_tokens")) + as_count(usage.get("cache_creation_input_tokens"))
        now = Tokens(as_count(usage.get("input_tokens")), as_count(usage.get("output_tokens")), cached)
        before = self._counted_tokens.get(key) if key else None
        if before is None:
            most = grown = now
        elif before == now:
            return None
        else:
            most = Tokens(*map(max, before, now))
            grown = Tokens(*(new - old for new, old in zip(most, before, strict=True)))
        if key:
            self._counted_tokens[key] = most
        return grown if grown.total else None


def persisted_output_path(output: Json, beside: Mapping[str, Json]) -> str:
    """The path under which a result's whole output is kept; empty where it stands in the transcript."""
    place = as_str(beside.get("persistedOutputPath"))
    if not place and isinstance(output, str) and output.lstrip().startswith("<persisted-output>"):
        place = next((line for line in output.splitlines() if "saved to: " in line), "").rpartition("saved to: ")[2]
    return place.strip()


def safe_file_name(place: str) -> str:
    name = os.path.basename(place.replace("\\", "/"))
    return name if name not in (".", "..") else ""


def _read_attachment(told: Mapping[str, Json]) -> NewEntry:
    """Context that the program adds; but for what was typed while a tool ran."""
    kind, prompt = as_str(told.get("type")), told.get("prompt")
    if kind != "queued_command" or told.get("commandMode", "prompt") != "prompt":
        return NewEntry(kind="event", role="system", text=kind)
    parts = _strip_reminders((Text(prompt),) if isinstance(prompt, str) else tuple(map(_parse_part, as_list(prompt))))
    return NewEntry(role="user", parts=parts, is_prompt=bool(parts))


def _strip_reminders(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Without the reminders that the program put among a person's words."""
    said_parts = (Text(extract_typed_text(part.text)) if isinstance(part, Text) else part for part in parts)
    return tuple(part for part in said_parts if not isinstance(part, Text) or part.text.strip())


def _parse_part(block: Json) -> Part:
    told = as_dict(block)
    kind = as_str(told.get("type"))
    if kind in _STANDARD_BLOCKS:
        return parse_block(block)
    if kind == "redacted_thinking":
        return Thinking("", as_str(told.get("data")))
    if kind == "server_tool_use":
        return ToolCall(as_str(told.get("id")), as_str(told.get("name")), told.get("input"))
    if kind.endswith("_tool_result"):
        content = told.get("content")
        failed = as_str(as_dict(content).get("type")).endswith("_error")
        return ToolResult(as_str(told.get("tool_use_id")), content, failed)
    return parse_block(block)


def _strip_image_data(block: Json) -> Json:
    """An image within a result stays in the record; here is only what it was."""
    source = as_dict(as_dict(block).get("source"))
    data = source.get("data")
    if not isinstance(data, str):
        return block
    return {**block, "source": {**source, "data": "", "size": len(data) * 3 // 4}}


def _parse_duration(beside: Mapping[str, Json]) -> float | None:
    for name in ("durationMs", "totalDurationMs"):
        if (took := as_count(beside.get(name))) or beside.get(name) == 0:
            return float(took)
    return None


def _event_text(told: Mapping[str, Json]) -> str:
    kind = as_str(told.get("subtype")) or as_str(as_dict(told.get("data")).get("type")) or as_str(told.get("type"))
    # A prompt that waits in the queue is told when it is sent.
    telling = ("content", *_EVENT_TEXT_FIELDS) if told.get("type") == "system" else _EVENT_TEXT_FIELDS
    text = first_str(told, telling)
    return f"{kind}: {text}" if text else kind
