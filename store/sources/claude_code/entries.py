"""This module converts each record of Claude Code to one entry. It reads them in order, since one message may be
spread over many records."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

from store.formats.content_blocks import parse_block
from store.model.entry import Json, NewEntry, Opaque, Part, Text, Thinking, Tokens, ToolCall, ToolResult
from store.model.status import QUESTION_TOOLS, Activity
from store.model.usage import Usage
from store.sources.claude_code.prompts import extract_typed_text
from store.sources.claude_code.record import SYNTHETIC_MODEL, ClaudeRecord
from store.sources.claude_code.usage import read_message_usage
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
from store.sources.kit.usage import tokens_from_usage
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
_MAX_OPEN_MESSAGES = 20
"""Limits the latest messages whose state a mark keeps, since more records of them may follow."""


class ClaudeEntryReader:
    """Converts the records of one chain to entries, in order."""

    def __init__(self, *, is_subagent: bool) -> None:
        self.problems: list[Problem] = []
        self._is_subagent = is_subagent
        self._seen_uuids: set[str] = set()
        self._counted_tokens: dict[str, Tokens] = {}
        self._seen_blocks: dict[str, set[str]] = {}
        self._turn_count = 0
        self.summary: ForeignSummary | None = None

    def save_state(self) -> dict[str, Json]:
        """Return the state that reading goes on from. It includes the latest messages, which may get more records."""
        shown = {key: sorted(marks) for key, marks in list(self._seen_blocks.items())[-_MAX_OPEN_MESSAGES:]}
        counted = {key: [*tokens] for key, tokens in list(self._counted_tokens.items())[-_MAX_OPEN_MESSAGES:]}
        return {"turns": self._turn_count, "counted": counted, "shown": shown}

    def restore_state(self, state: Mapping[str, Any]) -> None:
        self._turn_count = state["turns"]
        self._counted_tokens = {key: Tokens(*tokens) for key, tokens in state["counted"].items()}
        self._seen_blocks = {key: set(marks) for key, marks in state["shown"].items()}

    def copy_at_fork(self) -> ClaudeEntryReader:
        """Return a reader for a branch that leaves the chain after the record that was read last."""
        copy = ClaudeEntryReader(is_subagent=self._is_subagent)
        copy.restore_state(self.save_state())
        copy.summary = self.summary
        return copy

    def read_entry(self, record: ClaudeRecord, path: Path, *, is_local_command: bool = False) -> NewEntry:
        kind, uuid, fields = record.kind, record.uuid, record.fields
        if uuid:
            if uuid in self._seen_uuids:
                # A resume may write a record a second time.
                return NewEntry(kind="event", text="", is_prompt=False)
            self._seen_uuids.add(uuid)
        if kind == "user" and "message" in fields:
            entry = self._read_user(record, path, is_local_command=is_local_command)
        elif kind == "assistant" and "message" in fields:
            entry = self._read_assistant(record)
        elif kind == "attachment":
            entry = _read_attachment(as_dict(fields.get("attachment")))
        elif kind in EVENT_TYPES:
            # An API error is followed by another attempt, or by an answer that names it.
            activity: Activity | None = "working" if fields.get("subtype") == "api_error" else None
            role = "system" if kind == "system" else ""
            return NewEntry(kind="event", role=role, text=_event_text(fields), activity=activity)
        else:
            return NewEntry(kind="unknown", parts=(Opaque(kind, record.value),))
        self._turn_count += entry.begins_turn()
        return entry

    # ── records with the role of the user ─────────────────────────────────────────────────────────

    def _read_user(self, record: ClaudeRecord, path: Path, *, is_local_command: bool) -> NewEntry:
        fields = record.fields
        parts = tuple([self._complete_result(_parse_part(block), fields, path) for block in record.blocks])
        if fields.get("isCompactSummary") is True:
            summary = "\n\n".join(part.text for part in parts if isinstance(part, Text))
            self.summary = ForeignSummary(summary, self._turn_count)
            return NewEntry(kind="compaction", role="system", parts=parts, is_prompt=False)
        if ToolResult in map(type, parts):
            return NewEntry(role="tool", parts=parts, is_prompt=False)
        text = record.prompt
        if text is None:
            # The program wrote it in the name of the user. With isMeta it is not shown to people either.
            return NewEntry(
                role="system",
                parts=parts,
                text="" if fields.get("isMeta") is True else None,
                is_prompt=False,
                activity="waiting" if any(map(_is_interruption, parts)) else None,
            )
        author = "claude" if self._is_subagent and not is_local_command else ""
        return NewEntry(
            role="user", parts=_strip_reminders(parts), text=text, is_prompt=not is_local_command, author=author
        )

    def _complete_result(self, part: Part, record: Mapping[str, Json], path: Path) -> Part:
        if not isinstance(part, ToolResult):
            return part
        details = record.get("toolUseResult")
        failed = part.is_error or (isinstance(details, str) and details.startswith("Error:"))
        details = as_dict(details)
        output = self._load_full_output(part.output, details, path)
        return ToolResult(part.call_id, output, failed, part.name, _parse_duration(details))

    def _load_full_output(self, output: Json, details: Mapping[str, Json], path: Path) -> Json:
        """Return the full output. If it is too long for the transcript, the record has a preview and names a file."""
        # The path is one of the machine that wrote it. Only the file name is used.
        path_there = persisted_output_path(output, details)
        name = safe_file_name(path_there) if path_there else ""
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
            self.problems.append(Problem(str(folder / "tool-results" / name), reason))
        return output

    # ── the assistant ─────────────────────────────────────────────────────────────────────────────

    def _read_assistant(self, record: ClaudeRecord) -> NewEntry:
        message = record.message
        key, model = as_str(message.get("id")), as_str(message.get("model"))
        seen = self._seen_blocks.setdefault(key, set()) if key else set()
        parts: list[Part] = []
        for block in record.blocks:
            # Some records of a message add blocks to the earlier ones, others repeat all blocks.
            block_id = as_str(as_dict(block).get("id")) or sha256(encode_derived(block)).hexdigest()[:24]
            if block_id not in seen:
                seen.add(block_id)
                parts.append(_parse_part(block))
        usage = read_message_usage(message, record.fields)
        return NewEntry(
            role="assistant",
            parts=tuple(parts),
            model="" if model == SYNTHETIC_MODEL else model,
            message_key=key,
            tokens=self._count_new_tokens(key, usage),
            # Every record of a message that calls a tool says so, also the text before the call.
            activity="working" if message.get("stop_reason") == "tool_use" and not _asks_person(parts) else None,
            usage=usage,
        )

    def _count_new_tokens(self, key: str, usage: Usage | None) -> Tokens | None:
        """Return the tokens not counted yet. Each record of a message repeats its usage, sometimes with more."""
        now = tokens_from_usage(usage)
        if now is None:
            return None
        before = self._counted_tokens.get(key) if key else None
        if before is None:
            total = new_tokens = now
        elif before == now:
            return None
        else:
            total = Tokens(*map(max, before, now))
            new_tokens = Tokens(*(total_count - counted for total_count, counted in zip(total, before, strict=True)))
        if key:
            self._counted_tokens[key] = total
        return new_tokens if new_tokens.total else None


def _is_interruption(part: Part) -> bool:
    return isinstance(part, Text) and part.text.startswith("[Request interrupted")


def _asks_person(parts: Iterable[Part]) -> bool:
    return any(isinstance(part, ToolCall) and part.name in QUESTION_TOOLS for part in parts)


def persisted_output_path(output: Json, details: Mapping[str, Json]) -> str:
    """Return the path of the file with a result's full output, or an empty text if the transcript has all of it."""
    path = as_str(details.get("persistedOutputPath"))
    if not path and isinstance(output, str) and output.lstrip().startswith("<persisted-output>"):
        path = next((line for line in output.splitlines() if "saved to: " in line), "").rpartition("saved to: ")[2]
    return path.strip()


def safe_file_name(path: str) -> str:
    name = os.path.basename(path.replace("\\", "/"))
    return name if name not in (".", "..") else ""


def _read_attachment(attachment: Mapping[str, Json]) -> NewEntry:
    """Return an event for context that the program added, or a message for a prompt typed while a tool ran."""
    kind, prompt = as_str(attachment.get("type")), attachment.get("prompt")
    if kind != "queued_command" or attachment.get("commandMode", "prompt") != "prompt":
        return NewEntry(kind="event", role="system", text=kind)
    parts = _strip_reminders((Text(prompt),) if isinstance(prompt, str) else tuple(map(_parse_part, as_list(prompt))))
    return NewEntry(role="user", parts=parts, is_prompt=bool(parts))


def _strip_reminders(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Return the parts without the reminders that the program added to the person's text."""
    typed_parts = (Text(extract_typed_text(part.text)) if isinstance(part, Text) else part for part in parts)
    return tuple(part for part in typed_parts if not isinstance(part, Text) or part.text.strip())


def _parse_part(block: Json) -> Part:
    part = parse_block(block)
    return _parse_special_block(part, block) if type(part) is Opaque else part


def _parse_special_block(part: Opaque, block: Json) -> Part:
    """Return the part of a block that only Claude Code writes; the given one for a block that is not known here."""
    fields = as_dict(block)
    kind = part.kind
    if kind == "redacted_thinking":
        return Thinking("", as_str(fields.get("data")))
    if kind == "server_tool_use":
        return ToolCall(as_str(fields.get("id")), as_str(fields.get("name")), fields.get("input"))
    if kind.endswith("_tool_result"):
        content = fields.get("content")
        failed = as_str(as_dict(content).get("type")).endswith("_error")
        return ToolResult(as_str(fields.get("tool_use_id")), content, failed)
    return part


def _strip_image_data(block: Json) -> Json:
    """Return a block of a result without its image data, which stays in the record."""
    source = as_dict(as_dict(block).get("source"))
    data = source.get("data")
    if not isinstance(data, str):
        return block
    return {**block, "source": {**source, "data": "", "size": len(data) * 3 // 4}}


def _parse_duration(details: Mapping[str, Json]) -> float | None:
    for name in ("durationMs", "totalDurationMs"):
        if name in details and ((duration := as_count(details[name])) or details[name] == 0):
            return float(duration)
    return None


def _event_text(record: Mapping[str, Json]) -> str:
    kind = (
        as_str(record.get("subtype")) or as_str(as_dict(record.get("data")).get("type")) or as_str(record.get("type"))
    )
    # The content of a queue operation is left out: the prompt has its own record when it is sent.
    text_fields = ("content", *_EVENT_TEXT_FIELDS) if record.get("type") == "system" else _EVENT_TEXT_FIELDS
    text = first_str(record, text_fields)
    return f"{kind}: {text}" if text else kind
