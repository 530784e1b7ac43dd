"""This module parses the JSON of Wuhu's entries. An entry that it does not understand is kept unchanged."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from pathlib import Path

from store.errors import BadValue
from store.formats.content_blocks import parse_block, parse_item
from store.model.entry import Attachment, Json, NewEntry, Opaque, Part, Text, Tokens, ToolCall, ToolResult
from store.sources.contract import ForeignSummary, Problem
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike
from store.text.validate import parse, replace_surrogates

CONTEXT_TYPES = frozenset(["wuhu_mount_context_v1", "wuhu_agents_context_v1", "wuhu_skills_context_v1"])
STOPPED_TYPE = "wuhu_execution_stopped_v1"
ABNORMAL_STOP_REASONS = frozenset(["error", "aborted", "length"])
_BLOB_URI = re.compile(r"blob://([^/\0]+)/([^/\0]+)")


class WuhuEntryReader:
    """Reads the entries of one session in order. The meaning of an entry can depend on those before it."""

    def __init__(self, blobs: Path) -> None:
        self._blobs = blobs
        self._turns = 0
        self._turns_before: dict[int, int] = {}
        self._started_at: dict[str, str] = {}
        self._durations: dict[str, float] = {}
        self.summary: ForeignSummary | None = None

    def read_entries(self, row: RowLike, problems: list[Problem]) -> list[NewEntry]:
        record = sqlite.record_from_row(row, "session_entries", row["id"])
        at = sqlite.normalize_time(row["createdAt"])
        try:
            entries = self._parse_payload(decode_payload(row["payload"]), at)
        except BadValue as reason:
            where = f"session_entries:{row['id']}"
            problems.append(Problem(where, f"An entry of session {row['sessionID']} cannot be read: {reason}"))
            entries = [_make_unknown(as_str(row["type"]), _decode_lossy(row["payload"]))]
        for entry in entries:
            entry.record = record
            entry.created_at = entry.created_at or at
        begins_turn = any(entry.begins_turn() for entry in entries)
        # A turn that continues at this entry is not complete before it.
        self._turns_before[row["id"]] = self._turns if begins_turn else max(self._turns - 1, 0)
        self._turns += begins_turn
        return entries

    def _parse_payload(self, envelope: Mapping[str, Json], at: str) -> list[NewEntry]:
        kind, payload = envelope["type"], envelope.get("payload")
        if kind == "custom":
            return [_parse_custom(as_str(envelope.get("customType")), envelope.get("data"))]
        if isinstance(payload, Mapping):
            match kind:
                case "message":
                    return self._parse_message(payload)
                case "compaction" if isinstance(payload.get("summary"), str):
                    return [self._parse_compaction(payload)]
                case "tool_execution":
                    return [self._parse_execution(payload, at)]
                case "session_settings":
                    return [_make_event(kind, payload, "provider", "model", "reasoningEffort")]
                case "header":
                    return [_make_event(kind, payload, "systemPrompt")]
        return [_make_unknown(kind, payload if "payload" in envelope else envelope)]

    def _parse_compaction(self, payload: Mapping[str, Json]) -> NewEntry:
        summary, first_kept_id = payload["summary"], payload.get("firstKeptEntryID")
        if summary.strip():
            covered = self._turns_before.get(first_kept_id) if isinstance(first_kept_id, int) else None
            self.summary = ForeignSummary(replace_surrogates(summary), covered)
        return NewEntry(kind="compaction", role="system", parts=(Text(summary),))

    def _parse_execution(self, payload: Mapping[str, Json], at: str) -> NewEntry:
        """Parse the start or the end of a tool call, which Wuhu recorded as entries until February 2026."""
        call_id = as_str(payload.get("toolCallId"))
        if payload.get("phase") == "start":
            self._started_at[call_id] = at
        elif at and (started_at := self._started_at.pop(call_id, "")):
            duration = datetime.fromisoformat(at) - datetime.fromisoformat(started_at)
            if duration >= timedelta():  # else the clock was set back meanwhile
                self._durations[call_id] = duration.total_seconds() * 1000
        return _make_event("tool_execution", payload, "toolName", "phase")

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    def _parse_message(self, payload: Mapping[str, Json]) -> list[NewEntry]:
        role, message = as_str(payload.get("role")), payload.get("message")
        readers = {
            "user": self._parse_user,
            "assistant": self._parse_assistant,
            "tool_result": self._parse_tool_result,
            "custom_message": self._parse_custom_message,
        }
        if role not in readers or not isinstance(message, Mapping) or not isinstance(message.get("content"), list):
            return [_make_unknown(role or "message", payload.get("payload", payload), role)]
        entries = readers[role](message, tuple(map(self._parse_part, message["content"])))
        for entry in entries:
            entry.created_at = sqlite.normalize_time(message.get("timestamp"))
        return entries

    def _parse_user(self, message: Mapping[str, Json], parts: tuple[Part, ...]) -> list[NewEntry]:
        return [NewEntry(role="user", parts=parts, author=as_str(message.get("user")), is_prompt=True)]

    def _parse_assistant(self, message: Mapping[str, Json], parts: tuple[Part, ...]) -> list[NewEntry]:
        model = as_str(message.get("model"))
        entries = [NewEntry(role="assistant", parts=parts, model=model)]
        reason, error = as_str(message.get("stopReason")), as_str(message.get("errorMessage"))
        if reason in ABNORMAL_STOP_REASONS or error:
            text = ": ".join(filter(None, [reason, error]))
            stop = Opaque("stop", {"stopReason": reason, "errorMessage": error})
            entries.append(NewEntry(kind="event", role="assistant", text=text, parts=(stop,), model=model))
        if len(entries) > 1 and not parts:
            del entries[0]
        entries[0].tokens = _parse_tokens(message.get("usage"))
        return entries

    def _parse_tool_result(self, message: Mapping[str, Json], parts: tuple[Part, ...]) -> list[NewEntry]:
        call_id = as_str(message.get("toolCallId"))
        result = ToolResult(
            call_id,
            parts[0].text if len(parts) == 1 and isinstance(parts[0], Text) else message["content"],
            message.get("isError") is True,
            as_str(message.get("toolName")),
            self._durations.pop(call_id, None),
        )
        images = (part for part in parts if isinstance(part, Attachment))
        return [NewEntry(role="tool", parts=(result, *images))]

    def _parse_custom_message(self, message: Mapping[str, Json], parts: tuple[Part, ...]) -> list[NewEntry]:
        kind, details = as_str(message.get("customType")), message.get("details")
        if kind == STOPPED_TYPE:
            author = as_str(details.get("user")) if isinstance(details, Mapping) else ""
            return [NewEntry(kind="event", parts=parts, author=author)]
        return [_make_injected(kind, parts, shown=message.get("display") is not False)]

    def _parse_part(self, block: Json) -> Part:
        kind = block.get("type") if isinstance(block, Mapping) else ""
        if kind == "tool_call" and isinstance(block.get("name"), str):
            return ToolCall(as_str(block.get("id")), block["name"], block.get("arguments"))
        if kind == "reasoning":
            return parse_item(block)[0]
        if kind == "image" and isinstance(uri := block.get("blobURI"), str):
            return Attachment(
                as_str(block.get("mimeType")) or "image", uri.rpartition("/")[2], self._blob_size(uri), uri
            )
        return parse_block(block)

    def _blob_size(self, uri: str) -> int | None:
        match = _BLOB_URI.fullmatch(uri)
        if not match or {".", ".."} & set(match.groups()):
            return None
        try:
            return self._blobs.joinpath(*match.groups()).stat().st_size
        except (OSError, ValueError):
            return None


def _parse_custom(kind: str, data: Json) -> NewEntry:
    """Parse state that the model does not see, and, since March 2026, the context that says where the model works."""
    values = data if isinstance(data, Mapping) else {}
    if kind in CONTEXT_TYPES and isinstance(values.get("text"), str):
        return _make_injected(kind, (Text(values["text"]),), shown=False)
    texts = filter(None, [kind, as_str(values.get("error"))])
    return NewEntry(kind="event", text=" · ".join(texts), parts=(Opaque(kind, data),))


def _make_injected(kind: str, parts: tuple[Part, ...], *, shown: bool) -> NewEntry:
    """Build an entry that the model reads as the user's, though no person wrote it. Some are hidden from people too."""
    return NewEntry(role="user", parts=parts, author=kind, is_prompt=False, text=None if shown else "")


def _make_event(kind: str, payload: Mapping[str, Json], *shown_names: str) -> NewEntry:
    texts = filter(None, (as_str(payload.get(name)) for name in shown_names))
    return NewEntry(kind="event", text=" · ".join(texts), parts=(Opaque(kind, payload),))


def _make_unknown(kind: str, value: Json, role: str = "") -> NewEntry:
    return NewEntry(kind="unknown", role=replace_surrogates(role), parts=(Opaque(kind, value),))


def is_header(row: RowLike) -> bool:
    try:
        return bool(decode_payload(row["payload"])["type"] == "header")
    except BadValue:
        return False


def decode_payload(payload: object) -> Mapping[str, Json]:
    try:
        envelope = parse(payload.decode() if isinstance(payload, bytes) else str(payload))
    except UnicodeDecodeError:
        raise BadValue("It is not text.") from None
    if not isinstance(envelope, Mapping) or not isinstance(envelope.get("type"), str):
        raise BadValue("It is not an object with a type.")
    return envelope


def _decode_lossy(payload: object) -> Json:
    return payload.decode("utf-8", "replace") if isinstance(payload, bytes) else payload


def _parse_tokens(usage: Json) -> Tokens | None:
    if not isinstance(usage, Mapping):
        return None
    counts = [usage.get("inputTokens"), usage.get("outputTokens")]
    return Tokens(*(count if isinstance(count, int) and 0 <= count < 2**53 else 0 for count in counts))


def as_str(value: Json) -> str:
    return value if isinstance(value, str) else ""
