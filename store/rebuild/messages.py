"""What the three spellings share: names and arguments that are legal, attachments, and messages made of units."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from store.errors import BadValue
from store.model.entry import Attachment, Json, Opaque, Text, Thinking, ToolCall, ToolResult
from store.rebuild.attachments import held_by, said_in
from store.rebuild.unit import Account, Payload, Speaker, Unit, json_text, mapping, words
from store.text.validate import parse

NO_OUTPUT = "(no output)"
UNNAMED = "unnamed_tool"

_NOT_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 64


def tool_name(call: ToolCall, account: Account) -> str:
    name = _NOT_IN_NAMES.sub("_", call.name)[:_LONGEST_NAME] or UNNAMED
    if name != call.name:
        account.note("tool name", "mapped", "letters, digits, _ and - alone are legal, and 64 of them")
    return name


def arguments(call: ToolCall, account: Account) -> Mapping[str, Json]:
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
    account.note("tool call arguments", "mapped", "they were no object, and stand in one as `input`")
    return {"input": given}


@dataclass(slots=True)
class Vocabulary:
    """How an API spells what may stand in a message or in a tool's result."""

    text: Callable[[str], Json]
    file: Callable[[Payload], Json]
    "None for what the API does not take."


def content(unit: Unit, spell: Vocabulary, account: Account) -> Json:
    """A part of a message; None when there is nothing to say."""
    match unit.part:
        case Text(text):
            account.note("text", "kept")
            return spell.text(text)
        case Attachment() as attachment:
            return _attached(unit, attachment, spell, account)
        case Opaque(kind, value):
            account.note(f"part of kind {kind or 'unknown'}", "mapped", "nobody knows what it means: told as JSON")
            return spell.text(json_text(value))
        case Thinking(text, _):
            account.note("thinking", "dropped", "only the model that thought it takes it back, and only signed")
    return None


def _attached(unit: Unit, attachment: Attachment, spell: Vocabulary, account: Account) -> Json:
    payload = held_by(attachment, unit.payloads)
    if payload and unit.role != "assistant":
        if payload.text is not None:
            account.note("attachment", "mapped", "its words stand in the message")
            return spell.text(f"{payload.name}:\n\n{payload.text}" if payload.text.strip() else placeholder(attachment))
        if (block := spell.file(payload)) is not None:
            account.note("attachment", "kept")
            return block
    account.note("attachment", "mapped", _why_named(payload, unit.role, attachment))
    return spell.text(placeholder(attachment))


def _why_named(payload: Payload | None, role: Speaker, attachment: Attachment) -> str:
    if payload is None:
        return "only its name is told: what it holds is not in the store"
    if role == "assistant":
        return "only its name is told: the API takes none from the assistant"
    return f"only its name is told: the API takes no {attachment.media_type or 'such file'}"


def placeholder(attachment: Attachment) -> str:
    return f"[{' '.join(filter(None, (attachment.media_type, attachment.name))) or 'attachment'}]"


def answer(unit: Unit, spell: Vocabulary, account: Account) -> str | list[Json]:
    """A tool's result: plain words where it is nothing else."""
    output = unit.part.output if isinstance(unit.part, ToolResult) else None
    said: list[str | Json] = []
    for piece in said_in(output, unit.payloads):
        if isinstance(piece, str):
            said += [piece] if piece.strip() else []
        elif (block := spell.file(piece)) is not None:
            account.note("picture in a tool result", "kept")
            said.append(block)
        else:
            account.note("picture in a tool result", "mapped", "only its kind is told: the API takes none there")
            said.append(f"[{piece.media_type}]")
    if not said:
        account.note("tool result", "mapped", "it was empty, which the API refuses")
        return NO_OUTPUT
    account.note("tool result", "kept", count=not unit.made_up)
    if all(isinstance(piece, str) for piece in said):
        return "\n".join(said)
    return [spell.text(piece) if isinstance(piece, str) else piece for piece in said]


def note_failures(units: Sequence[Unit], account: Account) -> None:
    """For the APIs that have no flag for it."""
    ours = [unit.part for unit in units if not unit.is_native and not unit.made_up]
    failed = sum(isinstance(part, ToolResult) and part.is_error for part in ours)
    account.note("tool result.is_error", "dropped", "the API has no flag for it; the output tells", failed)


def note_native(unit: Unit, account: Account) -> None:
    told = mapping(unit.native)
    account.note(words(told.get("type")) or ("message" if told else "text"), "kept")


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Message:
    role: Speaker
    units: list[Unit] = field(default_factory=list)
    answers: list[Unit] = field(default_factory=list)
    "The results of its calls, in the order of the calls."


def messages(units: Sequence[Unit]) -> list[Message]:
    """One for each time somebody spoke, results set behind the calls they belong to.

    Calls of one message may stand apart in the records, with results between; then they are one message again.
    """
    results = {unit.pair: unit for unit in units if unit.is_result and not unit.served}
    made: list[Message] = []
    answered = False
    for unit in units:
        if unit.is_result and not unit.served:
            answered = True
            continue
        if not made or made[-1].role != unit.role or (answered and not _goes_on(made[-1], unit)):
            made.append(Message(unit.role))
            answered = False
        made[-1].units.append(unit)
    for message in made:
        message.answers = [results[unit.pair] for unit in message.units if unit.is_call and not unit.served]
    return made


def _goes_on(message: Message, unit: Unit) -> bool:
    return bool(unit.message) and message.units[-1].message == unit.message


def runs(units: Sequence[Unit]) -> Iterator[tuple[Speaker, list[Unit]]]:
    """Units of one speaker that stand side by side and are parts of a message, apart from all others."""
    run: list[Unit] = []
    for unit in units:
        stands_alone = unit.is_native or unit.is_call or unit.is_result or unit.is_thought
        if run and (stands_alone or run[-1].role != unit.role):
            yield run[0].role, run
            run = []
        if stands_alone:
            yield unit.role, [unit]
        else:
            run.append(unit)
    if run:
        yield run[0].role, run
