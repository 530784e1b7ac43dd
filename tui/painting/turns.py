"""A conversation to read: its heading, and its turns line by line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from textual.content import Content

from store.clean import cells, clean, expand_tabs, one_line
from store.model import (
    UNKNOWN_USER,
    Attachment,
    Entry,
    Json,
    Opaque,
    PairedCall,
    Part,
    Session,
    Status,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
    entry_id,
    readable,
)
from tui.painting.pieces import ERROR, FAINT, MUTED, STRONG, Piece, age, content, count, mark_of, moment, title_of

LONGEST_TEXT = 100_000
"""Characters of one message that are shown: laying out more would keep a person waiting for what nobody reads."""

RESULT_LINES = 4
"""Lines of a tool's result that are shown."""

_INDENT = ("  ", "")
_PROMPT_BAR = ("┃ ", "$text-primary")
_RESULT_BAR = ("    │ ", FAINT)
_STATUS: dict[Status, Piece] = {
    "ok": ("✓", "$text-success"),
    "error": ("✗ failed", ERROR),
    "pending": ("… no answer", MUTED),
    "orphan": ("? not asked for", MUTED),
}


def heading(session: Session, width: int, now: datetime) -> Content:
    """Two lines: what it is called, and where and how big it was."""
    facts: list[Piece] = [
        (one_line(session.source, 20), mark_of(session.source).style),
        (one_line(session.model, 40), MUTED),
        (count(session.turns, "turn"), MUTED),
        (count(session.tool_calls, "call"), MUTED),
        (f"{session.errors:,} failed" if session.errors else "", ERROR),
        (age(session.updated_at, now), MUTED),
        (one_line(session.cwd or session.channel, width), MUTED),
    ]
    told = Content.styled(" · ", MUTED).join([content([fact]) for fact in facts if fact[0]])
    title = one_line(title_of(session), width)
    return Content.assemble((title, STRONG), "\n", told.truncate(width, ellipsis=True))


def turn_lines(session: Session, turn: Turn, width: int) -> Iterator[Content]:
    """What was asked and all that was done about it, a Content a line, set apart by single blank lines."""
    before = None
    for line in _TurnPainter(session, turn, width).lines():
        if line or before is None or before:
            yield line
        before = line


class _TurnPainter:
    def __init__(self, session: Session, turn: Turn, width: int) -> None:
        self._session = session
        self._turn = turn
        self._width = width
        self._calls = {(call.entry, call.call_id): call for call in turn.tool_calls if call.entry}
        self._answers = {(call.result_entry, call.call_id) for call in self._calls.values()}

    def lines(self) -> Iterator[Content]:
        if self._turn.n:
            yield from self._title()
        for entry in self._turn.entries:
            if entry.kind in ("message", "compaction", "unknown"):
                yield from self._entry(entry)

    def _title(self) -> Iterator[Content]:
        prompt = self._turn.entries[0]
        speaker = "you" if prompt.author in ("", UNKNOWN_USER) else prompt.author
        at = moment(prompt.created_at)
        said = one_line(f"{speaker} · {at:%Y-%m-%d %H:%M}" if at else speaker, self._width // 2)
        pieces = [(f"── {self._turn.n} ", FAINT), (said, "$text-primary"), (" ", "")]
        yield Content("")
        yield content([*pieces, ("─" * (self._width - sum(cells(text) for text, _ in pieces)), FAINT)])

    def _entry(self, entry: Entry) -> Iterator[Content]:
        if entry.kind == "compaction":
            yield Content("")
            yield content([("  ∑ what came before, summarised", MUTED)])
        for part in entry.parts:
            yield from self._part(entry, part)

    def _part(self, entry: Entry, part: Part) -> Iterator[Content]:
        place = entry_id(self._session.id, entry.seq)
        match part:
            case Text(text) if self._turn.n and entry is self._turn.entries[0]:
                yield from self._text(text, _PROMPT_BAR, STRONG)
                yield Content("")
            case Text(text):
                yield Content("")
                yield from self._text(text, _INDENT, "" if entry.role == "assistant" else MUTED)
            case Thinking(text) if text.strip():
                yield self._line([("  ▸ thinking  ", FAINT), (one_line(text, self._width), f"italic {FAINT}")])
            case ToolCall(id, name, arguments):
                yield from self._call(self._calls.get((place, id)), name, arguments)
            case ToolResult(call_id, output) if (place, call_id) not in self._answers:
                yield self._line([("  ⚙ result of ", MUTED), (one_line(part.name or call_id, 40), "")])
                yield from self._result(output)
            case Attachment(media_type, name):
                yield self._line([("  ⎘ ", MUTED), (one_line(" · ".join(filter(None, [name, media_type]))), MUTED)])
            case Opaque(kind):
                yield self._line([("  ⋯ ", FAINT), (one_line(kind or "something else", 40), FAINT)])

    def _call(self, paired: PairedCall | None, name: str, arguments: Json) -> Iterator[Content]:
        status, style = _STATUS[paired.status if paired else "pending"]
        took = f"{paired.duration_ms / 1000:.1f} s" if paired and paired.duration_ms is not None else ""
        end = " ".join(filter(None, ["", took, status]))
        room = self._width - cells(end)
        asked = content([("  ⚙ ", MUTED), (one_line(name, 40), STRONG), ("  ", ""), (_brief(arguments, room), MUTED)])
        asked = asked.truncate(room, ellipsis=True)
        yield Content.assemble(asked, " " * (room - asked.cell_length), (end, style))
        if paired:
            yield from self._result(paired.result)

    def _result(self, output: Json) -> Iterator[Content]:
        text = readable(output).strip("\n")
        lines = text.split("\n", RESULT_LINES)
        for line in filter(None, lines[:RESULT_LINES]):
            yield self._line([_RESULT_BAR, (one_line(line, self._width), MUTED)])
        if len(lines) > RESULT_LINES:
            left = lines[-1].count("\n") + 1
            yield content([_RESULT_BAR, (f"… {count(left, 'more line')}", FAINT)])

    def _text(self, text: str, bar: Piece, style: str) -> Iterator[Content]:
        for line in Content(expand_tabs(clean(text[:LONGEST_TEXT].strip("\n")))).wrap(self._width - cells(bar[0])):
            yield content([bar, (line.plain, style)])
        if len(text) > LONGEST_TEXT:
            yield content([bar, (f"… {count(len(text) - LONGEST_TEXT, 'more character')}", FAINT)])

    def _line(self, pieces: Iterable[Piece]) -> Content:
        return content(pieces).truncate(self._width, ellipsis=True)


def _brief(arguments: Json, width: int) -> str:
    """The first argument, which nearly always says what the call is about."""
    if isinstance(arguments, Mapping) and arguments:
        arguments = next(iter(arguments.values()))
    return one_line(readable(arguments), max(width, 1))
