"""This module holds what the three formats share: legal names and arguments, attachments, and groups of units."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from store.errors import BadValue
from store.model.entry import Attachment, Json, Opaque, Text, Thinking, ToolCall, ToolResult
from store.rebuild.attachments import match_payload, split_output
from store.rebuild.unit import Payload, RebuildLog, Unit, UnitRole, as_dict, as_str, json_text
from store.text.validate import parse

NO_OUTPUT = "(no output)"
UNNAMED_TOOL = "unnamed_tool"

_ILLEGAL_IN_NAME = re.compile(r"[^a-zA-Z0-9_-]")
_MAX_NAME_LENGTH = 64


def legal_tool_name(call: ToolCall, log: RebuildLog) -> str:
    name = _ILLEGAL_IN_NAME.sub("_", call.name)[:_MAX_NAME_LENGTH] or UNNAMED_TOOL
    if name != call.name:
        log.add("tool name", "mapped", "only letters, digits, _ and - are legal, and at most 64 of them")
    return name


def legal_arguments(call: ToolCall, log: RebuildLog) -> Mapping[str, Json]:
    """Return the arguments as an object, as every API wants them."""
    arguments = call.arguments
    if isinstance(arguments, str):
        with suppress(BadValue):
            arguments = parse(arguments)
    if isinstance(arguments, Mapping):
        return arguments
    if arguments is None:
        return {}
    log.add("tool call arguments", "mapped", "they were not an object, and are in one as `input`")
    return {"input": arguments}


@dataclass(slots=True)
class ContentFormat:
    """Describes how an API writes the content of a message or of a tool's result."""

    format_text: Callable[[str], Json]
    format_file: Callable[[Payload], Json]
    "Returns None for a file that the API does not accept."


def build_content(unit: Unit, content_format: ContentFormat, log: RebuildLog) -> Json:
    """Build a part of a message, or return None if it has nothing to send."""
    match unit.part:
        case Text(text):
            log.add("text", "kept")
            return content_format.format_text(text)
        case Attachment() as attachment:
            return _build_attachment(unit, attachment, content_format, log)
        case Opaque(kind, value):
            log.add(f"part of kind {kind or 'unknown'}", "mapped", "its meaning is not known, so it is sent as JSON")
            return content_format.format_text(json_text(value))
        case Thinking(text, _):
            log.add("thinking", "dropped", "only the model that wrote it accepts it, and only with a signature")
    return None


def _build_attachment(unit: Unit, attachment: Attachment, content_format: ContentFormat, log: RebuildLog) -> Json:
    payload = match_payload(attachment, unit.payloads)
    if payload and unit.role != "assistant":
        if payload.text is not None:
            log.add("attachment", "mapped", "its text is in the message")
            return content_format.format_text(
                f"{payload.name}:\n\n{payload.text}" if payload.text.strip() else placeholder(attachment)
            )
        if (block := content_format.format_file(payload)) is not None:
            log.add("attachment", "kept")
            return block
    log.add("attachment", "mapped", _omission_reason(payload, unit.role, attachment))
    return content_format.format_text(placeholder(attachment))


def _omission_reason(payload: Payload | None, role: UnitRole, attachment: Attachment) -> str:
    if payload is None:
        return "only its name is sent: its content is not in the store"
    if role == "assistant":
        return "only its name is sent: the API accepts no files from the assistant"
    return f"only its name is sent: the API does not accept {attachment.media_type or 'this file'}"


def placeholder(attachment: Attachment) -> str:
    return f"[{' '.join(filter(None, (attachment.media_type, attachment.name))) or 'attachment'}]"


def build_result_content(unit: Unit, content_format: ContentFormat, log: RebuildLog) -> str | list[Json]:
    """Build the content of a tool's result: plain text if it is only text."""
    output = unit.part.output if isinstance(unit.part, ToolResult) else None
    pieces: list[str | Json] = []
    for piece in split_output(output, unit.payloads):
        if isinstance(piece, str):
            pieces += [piece] if piece.strip() else []
        elif (block := content_format.format_file(piece)) is not None:
            log.add("picture in a tool result", "kept")
            pieces.append(block)
        else:
            log.add("picture in a tool result", "mapped", "only its type is sent: the API accepts no images there")
            pieces.append(f"[{piece.media_type}]")
    if not pieces:
        log.add("tool result", "mapped", "it was empty, which the API refuses")
        return NO_OUTPUT
    log.add("tool result", "kept", count=not unit.is_synthetic)
    if all(isinstance(piece, str) for piece in pieces):
        return "\n".join(pieces)
    return [content_format.format_text(piece) if isinstance(piece, str) else piece for piece in pieces]


def log_error_flags(units: Sequence[Unit], log: RebuildLog) -> None:
    """Log the error flags that are lost in an API that has no field for them."""
    parts = [unit.part for unit in units if not unit.is_native and not unit.is_synthetic]
    failed = sum(isinstance(part, ToolResult) and part.is_error for part in parts)
    log.add("tool result.is_error", "dropped", "the API has no field for it; the output shows it", failed)


def log_native(unit: Unit, log: RebuildLog) -> None:
    fields = as_dict(unit.native)
    log.add(as_str(fields.get("type")) or ("message" if fields else "text"), "kept")


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class MessageUnits:
    "Holds the units of one message."

    role: UnitRole
    units: list[Unit] = field(default_factory=list)
    results: list[Unit] = field(default_factory=list)
    "The results of its calls, in the order of the calls."


def group_messages(units: Sequence[Unit]) -> list[MessageUnits]:
    """Group units into messages, each with the results of its calls.

    In the records the calls of one message may have results between them. Here they are one message again.
    """
    results = {unit.pair: unit for unit in units if unit.is_result and not unit.is_server_side}
    messages: list[MessageUnits] = []
    has_results = False
    for unit in units:
        if unit.is_result and not unit.is_server_side:
            has_results = True
            continue
        if (
            not messages
            or messages[-1].role != unit.role
            or (has_results and not _continues_message(messages[-1], unit))
        ):
            messages.append(MessageUnits(unit.role))
            has_results = False
        messages[-1].units.append(unit)
    for message in messages:
        message.results = [results[unit.pair] for unit in message.units if unit.is_call and not unit.is_server_side]
    return messages


def _continues_message(message: MessageUnits, unit: Unit) -> bool:
    return bool(unit.message_key) and message.units[-1].message_key == unit.message_key


def group_runs(units: Sequence[Unit]) -> Iterator[tuple[UnitRole, list[Unit]]]:
    """Yield runs of neighbouring units of one role that form a message. A native unit, call or result is alone."""
    run: list[Unit] = []
    for unit in units:
        is_alone = unit.is_native or unit.is_call or unit.is_result or unit.is_thinking
        if run and (is_alone or run[-1].role != unit.role):
            yield run[0].role, run
            run = []
        if is_alone:
            yield unit.role, [unit]
        else:
            run.append(unit)
    if run:
        yield run[0].role, run
