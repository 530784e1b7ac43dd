"""What a session or a conversation looks like: values in, Content out.

Everything here has passed `clean`, and Content is never parsed as markup: a title is only ever text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import PurePath
from typing import NamedTuple

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
    Relation,
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

MUTED = "$foreground 65%"
FAINT = "$foreground 45%"
STRONG = "bold"
ERROR = "$text-error"
STAR = "$text-warning"

Piece = tuple[str, str]
"""Text and its style."""


class Mark(NamedTuple):
    """How an agent is told from the others: two letters first, a colour besides."""

    letters: str
    style: str


MARKS = {
    "adk": Mark("ad", "$text-primary"),
    "chatgpt": Mark("gp", "$text-success"),
    "claude": Mark("cc", "$text-warning"),
    "claude-ai": Mark("ca", "$text-warning"),
    "codex": Mark("cx", "$text-success"),
    "copilot": Mark("cp", "$text-primary"),
    "crush": Mark("cr", "$text-error"),
    "gemini": Mark("gm", "$text-primary"),
    "goose": Mark("go", "$text-secondary"),
    "kiso": Mark("ki", "$text-accent"),
    "library": Mark("li", "$text-secondary"),
    "llm": Mark("lm", "$text-secondary"),
    "opencode": Mark("oc", "$text-accent"),
    "pi": Mark("pi", "$text-success"),
    "pingu": Mark("pg", "$text-primary"),
    "qwen": Mark("qw", "$text-accent"),
    "rubichan": Mark("ru", "$text-error"),
    "wuhu": Mark("wu", "$text-success"),
}


def mark_of(source: str) -> Mark:
    return MARKS.get(source) or Mark(one_line(source, 2).ljust(2), "$text-secondary")


# ── a session in the list ─────────────────────────────────────────────────────────────────────────

SNIPPET_AT_LEAST = 24
"""Fewer cells than this say nothing."""

_RELATIONS: dict[Relation, str] = {
    "fork": "↱ fork",
    "delegate": "↳ delegate",
    "sidechain": "↳ side chain",
    "superseded": "superseded",
}


@dataclass(frozen=True, slots=True)
class Row:
    """What the list shows of a session."""

    session: Session
    has_summary: bool = False
    has_secrets: bool = False


SIGNS = (
    ("★", "pinned"),
    ("⟲", "turns: a prompt and all that was done about it"),
    ("⚙", "tool calls"),
    ("✗", "tool calls that failed"),
    ("∑", "has a summary"),
    ("🔒", "has secrets"),
    ("↱", "forked off another session"),
    ("↳", "worked for another session"),
)
"""What a row says without words."""


def session_lines(row: Row, width: int, now: datetime) -> tuple[Content, Content]:
    """The two lines of a session."""
    return _title_line(row.session, width), _facts_line(row, width, now)


def _title_line(session: Session, width: int) -> Content:
    title = one_line(title_of(session), width - 2)
    pieces = [("★ ", STAR) if session.pinned else ("  ", ""), (title, STRONG)]
    room = width - 2 - cells(title) - 2
    if room >= SNIPPET_AT_LEAST and session.first_prompt and session.first_prompt != session.title:
        pieces.append(("  " + one_line(session.first_prompt, room), FAINT))
    return _content(pieces)


def _facts_line(row: Row, width: int, now: datetime) -> Content:
    session = row.session
    mark = mark_of(session.source)
    pieces: list[Piece] = [("  ", ""), mark, (" ", "")]
    said = [one_line(place_of(session), 40), age(session.updated_at, now)]
    counts = [f"{n:,}{sign}" for n, sign in ((session.turns, "⟲"), (session.tool_calls, "⚙")) if n]
    pieces.append((" · ".join(filter(None, [*said, " ".join(counts)])), MUTED))
    if session.errors:
        pieces.append((f" {session.errors:,}✗", ERROR))
    pieces += [(f"  {badge}", MUTED) for badge in badges(row)]
    return _content(pieces).truncate(width, ellipsis=True)


def badges(row: Row) -> Iterator[str]:
    session = row.session
    if row.has_summary:
        yield "∑"
    if row.has_secrets:
        yield "🔒"
    if session.relation:
        yield _RELATIONS[session.relation]
    if session.gone:
        yield "⌫ gone"
    if session.archived:
        yield "archived"


def title_of(session: Session) -> str:
    return session.title or session.id


def place_of(session: Session) -> str:
    """Where it happened: the folder's name, else the channel's, else whatever else names a place."""
    folder = PurePath(session.cwd).name
    return folder or session.channel or session.environment_name or session.user


def age(at: str, now: datetime) -> str:
    """How long ago, as short as it can be said; a date when it is long ago."""
    then = moment(at)
    if then is None:
        return ""
    minutes = int((now - then).total_seconds()) // 60
    if minutes < 1:
        return "now"
    if minutes < 60:
        return f"{minutes}m"
    if minutes < 24 * 60:
        return f"{minutes // 60}h"
    if minutes < 30 * 24 * 60:
        return f"{minutes // (24 * 60)}d"
    return f"{then:%b %Y}" if then.year != now.year else f"{then.day} {then:%b}"


def moment(at: str) -> datetime | None:
    """None for a time that a foreign program spelled in a way of its own."""
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return None
    return then.astimezone()


def _content(pieces: Iterable[Piece]) -> Content:
    return Content.assemble(*pieces)


# ── no session in the list ────────────────────────────────────────────────────────────────────────


def welcome(store_path: str, busy: bool) -> Content:
    """What a person sees whose store is empty."""
    demo = [("Making a demo…", MUTED)] if busy else [("Press ", ""), ("d", "bold $text-accent"), (_DEMO, "")]
    return _content(
        [
            ("Backscroll", "bold $text-primary"),
            ("\nevery conversation your AI agents have had, in one file that you own\n\n", MUTED),
            ("There are no conversations here yet.\n", STRONG),
            ("They appear by themselves, as soon as an agent writes to\n", ""),
            (clean(store_path), "$text-accent"),
            ("\n\n", ""),
            *demo,
        ]
    )


_DEMO = " to look around in a demo first.\nIt is kept in a file of its own; your store stays empty."


def nothing_found(query: str) -> Content:
    return _content(
        [("No title and no conversation has\n", ""), (one_line(query, 60), STRONG), ("\n\nEsc shows all again", MUTED)]
    )


# ── a conversation ────────────────────────────────────────────────────────────────────────────────

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
        (_count(session.turns, "turn"), MUTED),
        (_count(session.tool_calls, "call"), MUTED),
        (f"{session.errors:,} failed" if session.errors else "", ERROR),
        (age(session.updated_at, now), MUTED),
        (one_line(session.cwd or session.channel, width), MUTED),
    ]
    told = Content.styled(" · ", MUTED).join([_content([fact]) for fact in facts if fact[0]])
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
        yield _content([*pieces, ("─" * (self._width - sum(cells(text) for text, _ in pieces)), FAINT)])

    def _entry(self, entry: Entry) -> Iterator[Content]:
        if entry.kind == "compaction":
            yield Content("")
            yield _content([("  ∑ what came before, summarised", MUTED)])
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
        asked = _content([("  ⚙ ", MUTED), (one_line(name, 40), STRONG), ("  ", ""), (_brief(arguments, room), MUTED)])
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
            yield _content([_RESULT_BAR, (f"… {_count(left, 'more line')}", FAINT)])

    def _text(self, text: str, bar: Piece, style: str) -> Iterator[Content]:
        for line in Content(expand_tabs(clean(text[:LONGEST_TEXT].strip("\n")))).wrap(self._width - cells(bar[0])):
            yield _content([bar, (line.plain, style)])
        if len(text) > LONGEST_TEXT:
            yield _content([bar, (f"… {_count(len(text) - LONGEST_TEXT, 'more character')}", FAINT)])

    def _line(self, pieces: Iterable[Piece]) -> Content:
        return _content(pieces).truncate(self._width, ellipsis=True)


def _brief(arguments: Json, width: int) -> str:
    """The first argument, which nearly always says what the call is about."""
    if isinstance(arguments, Mapping) and arguments:
        arguments = next(iter(arguments.values()))
    return one_line(readable(arguments), max(width, 1))


def _count(n: int, thing: str) -> str:
    return f"{n:,} {thing}{'' if n == 1 else 's'}" if n else ""


PROGRESS_CELLS = 6


def reading_progress(done: int, total: int) -> str:
    """`reading 312/2,000 ▓▓▓░░░`, while there is something left to read."""
    if done >= total:
        return ""
    full = PROGRESS_CELLS * done // total
    return f"reading {done:,}/{total:,} {'▓' * full}{'░' * (PROGRESS_CELLS - full)}"
