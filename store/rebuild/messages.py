"""What the three spellings share: names and arguments that are legal, attachments, and messages made of units."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
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


def legal_tool_name(call: ToolCall, account: RebuildLog) -> str:
    name = _ILLEGAL_IN_NAME.sub("_", call.name)[:_MAX_NAME_LENGTH] or UNNAMED_TOOL
    if name != call.name:
        account.add("tool name", "mapped", "letters, digits, _ and - alone are legal, and 64 of them")
    return name


def legal_arguments(call: ToolCall, account: RebuildLog) -> Mapping[str, Json]:
    """An object, whatever the model wrote."""
    given = call.arguments
    if isinstance(given, str):
        try:
            given = parse(given)
        except BadValue:
            given = call.arguments
    if isinstance(given, Mapping):
        return given
    if given is None:
        return {}
    account.add("tool call arguments", "mapped", "they were no object, and stand in one as `input`")
    return {"input": given}


@dataclass(slots=True)
class ContentFormat:
    """How an API spells what may stand in a message or in a tool's result."""

    format_text: Callable[[str], Json]
    format_file: Callable[[Payload], Json]
    "None for what the API does not take."


def build_content(unit: Unit, spell: ContentFormat, account: RebuildLog) -> Json:
    """A part of a message; None when there is nothing to say."""
    match unit.part:
        case Text(text):
            account.add("text", "kept")
            return spell.format_text(text)
        case Attachment() as attachment:
            return _build_attachment(unit, attachment, spell, account)
        case Opaque(kind, value):
            account.add(f"part of kind {kind or 'unknown'}", "mapped", "nobody knows what it means: told as JSON")
            return spell.format_text(json_text(value))
        case Thinking(text, _):
            account.add("thinking", "dropped", "only the model that thought it takes it back, and only signed")
    return None


def _build_attachment(unit: Unit, attachment: Attachment, spell: ContentFormat, account: RebuildLog) -> Json:
    payload = match_payload(attachment, unit.payloads)
    if payload and unit.role != "assistant":
        if payload.text is not None:
            account.add("attachment", "mapped", "its words stand in the message")
            return spell.format_text(
                f"{payload.name}:\n\n{payload.text}" if payload.text.strip() else placeholder(attachment)
            )
        if (block := spell.format_file(payload)) is not None:
            account.add("attachment", "kept")
            return block
    account.add("attachment", "mapped", _omission_reason(payload, unit.role, attachment))
    return spell.format_text(placeholder(attachment))


def _omission_reason(payload: Payload | None, role: UnitRole, attachment: Attachment) -> str:
    if payload is None:
        return "only its name is told: what it holds is not in the store"
    if role == "assistant":
        return "only its name is told: the API takes none from the assistant"
    return f"only its name is told: the API takes no {attachment.media_type or 'such file'}"


def placeholder(attachment: Attachment) -> str:
    return f"[{' '.join(filter(None, (attachment.media_type, attachment.name))) or 'attachment'}]"


def build_result_content(unit: Unit, spell: ContentFormat, account: RebuildLog) -> str | list[Json]:
    """A tool's result: plain words where it is nothing else."""
    output = unit.part.output if isinstance(unit.part, ToolResult) else None
    said: list[str | Json] = []
    for piece in split_output(output, unit.payloads):
        if isinstance(piece, str):
            said += [piece] if piece.strip() else []
        elif (block := spell.format_file(piece)) is not None:
            account.add("picture in a tool result", "kept")
            said.append(block)
        else:
            account.add("picture in a tool result", "mapped", "only its kind is told: the API takes none there")
            said.append(f"[{piece.media_type}]")
    if not said:
        account.add("tool result", "mapped", "it was empty, which the API refuses")
        return NO_OUTPUT
    account.add("tool result", "kept", count=not unit.is_synthetic)
    if all(isinstance(piece, str) for piece in said):
        return "\n".join(said)
    return [spell.format_text(piece) if isinstance(piece, str) else piece for piece in said]


def log_error_flags(units: Sequence[Unit], account: RebuildLog) -> None:
    """For the APIs that have no flag for it."""
    ours = [unit.part for unit in units if not unit.is_native and not unit.is_synthetic]
    failed = sum(isinstance(part, ToolResult) and part.is_error for part in ours)
    account.add("tool result.is_error", "dropped", "the API has no flag for it; the output tells", failed)


def log_native(unit: Unit, account: RebuildLog) -> None:
    told = as_dict(unit.native)
    account.add(as_str(told.get("type")) or ("message" if told else "text"), "kept")


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class MessageUnits:
    role: UnitRole
    units: list[Unit] = field(default_factory=list)
    results: list[Unit] = field(default_factory=list)
    "The results of its calls, in the order of the calls."


def group_messages(units: Sequence[Unit]) -> list[MessageUnits]:
    """One for each time somebody spoke, results set behind the calls they belong to.

    Calls of one message may stand apart in the records, with results between; then they are one message again.
    """
    results = {unit.pair: unit for unit in units if unit.is_result and not unit.is_server_side}
    made: list[MessageUnits] = []
    answered = False
    for unit in units:
        if unit.is_result and not unit.is_server_side:
            answered = True
            continue
        if not made or made[-1].role != unit.role or (answered and not _continues_message(made[-1], unit)):
            made.append(MessageUnits(unit.role))
            answered = False
        made[-1].units.append(unit)
    for message in made:
        message.results = [results[unit.pair] for unit in message.units if unit.is_call and not unit.is_server_side]
    return made


def _continues_message(message: MessageUnits, unit: Unit) -> bool:
    return bool(unit.message_key) and message.units[-1].message_key == unit.message_key


def group_runs(units: Sequence[Unit]) -> Iterator[tuple[UnitRole, list[Unit]]]:
    """Units of one speaker that stand side by side and are parts of a message, apart from all others."""
    run: list[Unit] = []
    for unit in units:
        stands_alone = unit.is_native or unit.is_call or unit.is_result or unit.is_thinking
        if run and (stands_alone or run[-1].role != unit.role):
            yield run[0].role, run
            run = []
        if stands_alone:
            yield unit.role, [unit]
        else:
            run.append(unit)
    if run:
        yield run[0].role, run
