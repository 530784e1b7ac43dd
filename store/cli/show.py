"""One conversation, laid out to be read: a rule before each turn, who speaks, tools quieter than people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from store.cli import json_output
from store.cli import output as printing
from store.cli.options import NON_NEGATIVE_INT, json_option, session_id_argument, with_store
from store.cli.output import Style, TerminalText, format_count, format_time, write
from store.cli.search import STATUS_SYMBOLS, format_arguments, format_duration
from store.model.entry import (
    UNKNOWN_USER,
    Attachment,
    Entry,
    Opaque,
    PairedCall,
    Part,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
    readable_text,
)
from store.model.session import Session
from store.text.sanitize import expand_tabs, one_line, sanitize
from store.text.validate import serialize

if TYPE_CHECKING:
    from store.store import Store

MAX_FOLDED_LINES = 6
"""Of a tool's output, a thought or a system prompt, on a terminal; elsewhere nothing is left out."""

_SPEAKER_LABELS = {"user": "you"}


@click.command()
@session_id_argument
@click.option("--turn", type=NON_NEGATIVE_INT, help="Only that turn; 0 is what came before the first prompt.")
@click.option("--raw", is_flag=True, help="The verbatim records, one a line.")
@json_option
@with_store
def show(store: Store, session_id: str, turn: int | None, raw: bool, as_json: bool) -> None:
    """A conversation, turn by turn."""
    session = store.sessions.find(session_id)
    if raw:
        _show_raw(store, session, turn, as_json)
        return
    if session.depth == "text":
        printing.notify("It is not read to its end yet; `backscroll sync` goes on with it.")
    turns = store.chains.turns(session.key, turn)
    shape = json_output.session_to_json(store, session)
    notes = store.notes.notes(session)
    if as_json:
        told = [json_output.turn_to_json(session.id, one) for one in turns]
        printing.emit_json(
            {"session": shape, "turns": told, "notes": [json_output.note_to_json(note) for note in notes]}
        )
        return
    _write_header(session, shape)
    for note in notes:
        where = f" on {note.entry}" if note.entry else ""
        write(TerminalText(f"note {note.id}{where}", "quiet"), f"  {note.text}")
    for one in turns:
        _write_turn(one)


# ── verbatim ──────────────────────────────────────────────────────────────────────────────────────


def _show_raw(store: Store, session: Session, turn: int | None, as_json: bool) -> None:
    records = _read_records(store, session, turn)
    if as_json:
        told = [data.decode("utf-8", "surrogateescape") for data in records]
        printing.emit_json({"session": session.id, "records": told})
        return
    for data in records:
        printing.write_record(data)


def _read_records(store: Store, session: Session, turn: int | None) -> Iterable[bytes]:
    if turn is None:
        return (data for _, data in store.records.iter_session(session.key))
    entries = store.chains.turns(session.key, turn)[0].entries
    keys = dict.fromkeys(entry.record for entry in entries if entry.record is not None)
    return map(store.records.get, keys)


# ── laid out ──────────────────────────────────────────────────────────────────────────────────────


def _write_header(session: Session, shape: json_output.JsonObject) -> None:
    write(TerminalText(printing.to_one_line(session.title, printing.terminal_width()) or "(untitled)", "title"))
    facts = [
        session.id,
        session.model,
        session.cwd,
        format_count(session.turns, "turn"),
        format_count(session.tool_calls, "call") if session.tool_calls else "",
        f"{session.errors} failed" if session.errors else "",
        "pinned" if session.pinned else "",
        "archived" if session.archived else "",
        "in the trash" if session.deleted else "",
    ]
    write(TerminalText(" · ".join(filter(None, facts)), "quiet"))
    if session.parent_id:
        write(TerminalText(f"{session.relation or 'child'} of {session.parent_id}", "quiet"))
    if shape["tags"]:
        write(TerminalText("tags", "quiet"), "  " + ", ".join(shape["tags"]))
    if shape["summary"]:
        write(TerminalText("summary", "quiet"), "  " + shape["summary"])


def _write_turn(turn: Turn) -> None:
    calls = {call.call_id: call for call in turn.tool_calls}
    spoken = [entry for entry in turn.entries if entry.text or entry.parts]
    if not spoken:
        return
    label = f" {turn.n or 'before'} · {format_time(turn.started_at)} "
    write()
    write(TerminalText(f"──{label}".ljust(min(printing.terminal_width(), 100), "─"), "quiet"))
    speaker = ""
    for entry in spoken:
        says = _speaker_label(entry) or speaker
        if says != speaker:
            write(*["\n"] * bool(speaker), TerminalText(says, "title"))
        speaker = says
        _write_entry(entry, calls)


def _speaker_label(entry: Entry) -> str:
    """Empty for what nobody says: results stand under their calls, events by themselves."""
    if entry.kind == "header":
        return "system"
    if entry.kind != "message" or all(isinstance(part, ToolResult) for part in entry.parts):
        return ""
    author = entry.author if entry.author != UNKNOWN_USER else ""
    return " · ".join(filter(None, [_SPEAKER_LABELS.get(entry.role, entry.role), author, entry.model]))


def _write_entry(entry: Entry, calls: dict[str, PairedCall]) -> None:
    if entry.kind == "header":
        _write_folded(entry.text)
    elif entry.kind in ("message", "compaction"):
        if entry.kind == "compaction":
            write(TerminalText("— what came before was summed up —", "quiet"))
        for part in entry.parts:
            _write_part(part, calls)
    else:
        words = entry.text or entry.kind
        write(TerminalText(f"· {entry.kind}: {words}" if words != entry.kind else f"· {words}", "quiet"))


def _write_part(part: Part, calls: dict[str, PairedCall]) -> None:
    match part:
        case Text(text):
            write(text)
        case Thinking(text):
            _write_folded(text, "┆ ")
        case ToolCall(_, name, arguments):
            write(
                "⚙ ",
                TerminalText(name, "name"),
                "  ",
                _truncate_on_terminal(format_arguments(arguments), len(name) + 4),
            )
        case ToolResult(call_id, output):
            _write_result(part, calls.get(call_id), readable_text(output))
        case Attachment(media_type, name, size):
            told = " ".join(filter(None, [media_type, name, f"{size:,} bytes" if size else ""]))
            write(TerminalText(f"[{told}]", "quiet"))
        case Opaque(kind, value):
            write(
                TerminalText(f"[{kind or 'unknown'}] ", "quiet"),
                _truncate_on_terminal(serialize(value).decode(), len(kind) + 3),
            )


def _write_result(part: ToolResult, call: PairedCall | None, output: str) -> None:
    told = filter(
        None, [format_duration(call.duration_ms if call else part.duration_ms), "" if output else "no output"]
    )
    write(
        "  ", STATUS_SYMBOLS["error" if part.is_error else "ok"], *(TerminalText(f" {word}", "quiet") for word in told)
    )
    _write_folded(output, "  │ ", "bad" if part.is_error else "quiet")


def _truncate_on_terminal(text: str, taken: int) -> str:
    """On one line of a terminal; whole elsewhere."""
    return (
        printing.to_one_line(text, max(printing.terminal_width() - taken, 20))
        if printing.stdout_is_terminal()
        else text
    )


def _write_folded(text: str, before: str = "", style: Style = "quiet") -> None:
    lines = text.splitlines()
    shown = lines[:MAX_FOLDED_LINES] if printing.stdout_is_terminal() else lines
    # One line more takes the room that saying so would take.
    if len(lines) == len(shown) + 1:
        shown = lines
    for line in shown:
        write(TerminalText(before + _truncate_keeping_indent(line, len(before)), style))
    if len(shown) < len(lines):
        write(TerminalText(f"{before}… {len(lines) - len(shown):,} more lines", "quiet"))


def _truncate_keeping_indent(line: str, taken: int) -> str:
    """Cut to the terminal with its indentation kept, since outputs are often code."""
    if not printing.stdout_is_terminal():
        return line
    line = expand_tabs(sanitize(line))
    indent = line[: len(line) - len(line.lstrip())]
    return indent + one_line(line, max(printing.terminal_width() - taken - len(indent), 20))
