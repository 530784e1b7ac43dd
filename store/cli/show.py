"""One conversation, laid out to be read: a rule before each turn, who speaks, tools quieter than people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from store.cli import json_output
from store.cli import output as printing
from store.cli.options import NUMBER, as_json, session_id, with_store
from store.cli.output import Ink, Style, count, moment, write
from store.cli.search import MARKS, argument_lines, took
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
    readable,
)
from store.model.session import Session
from store.text.sanitize import clean, expand_tabs, one_line
from store.text.validate import spell

if TYPE_CHECKING:
    from store.store import Store

LINES_SHOWN = 6
"""Of a tool's output, a thought or a system prompt, on a terminal; elsewhere nothing is left out."""

_SPEAKERS = {"user": "you"}


@click.command()
@session_id
@click.option("--turn", type=NUMBER, help="Only that turn; 0 is what came before the first prompt.")
@click.option("--raw", is_flag=True, help="The verbatim records, one a line.")
@as_json
@with_store
def show(store: Store, session_id: str, turn: int | None, raw: bool, as_json: bool) -> None:
    """A conversation, turn by turn."""
    session = store.sessions.find(session_id)
    if raw:
        _show_raw(store, session, turn, as_json)
        return
    if session.depth == "text":
        printing.say("It is not read to its end yet; `backscroll sync` goes on with it.")
    turns = store.chains.turns(session.key, turn)
    shape = json_output.session(store, session)
    notes = store.notes.notes(session)
    if as_json:
        told = [json_output.turn(session.id, one) for one in turns]
        printing.emit_json({"session": shape, "turns": told, "notes": [json_output.note(note) for note in notes]})
        return
    _write_head(session, shape)
    for note in notes:
        where = f" on {note.entry}" if note.entry else ""
        write(Ink(f"note {note.id}{where}", "quiet"), f"  {note.text}")
    for one in turns:
        _write_turn(one)


# ── verbatim ──────────────────────────────────────────────────────────────────────────────────────


def _show_raw(store: Store, session: Session, turn: int | None, as_json: bool) -> None:
    records = _records(store, session, turn)
    if as_json:
        told = [data.decode("utf-8", "surrogateescape") for data in records]
        printing.emit_json({"session": session.id, "records": told})
        return
    for data in records:
        printing.write_record(data)


def _records(store: Store, session: Session, turn: int | None) -> Iterable[bytes]:
    if turn is None:
        return (data for _, data in store.records.of_session(session.key))
    entries = store.chains.turns(session.key, turn)[0].entries
    keys = dict.fromkeys(entry.record for entry in entries if entry.record is not None)
    return map(store.records.get, keys)


# ── laid out ──────────────────────────────────────────────────────────────────────────────────────


def _write_head(session: Session, shape: json_output.Shape) -> None:
    write(Ink(printing.flat(session.title, printing.width()) or "(untitled)", "title"))
    facts = [
        session.id,
        session.model,
        session.cwd,
        count(session.turns, "turn"),
        count(session.tool_calls, "call") if session.tool_calls else "",
        f"{session.errors} failed" if session.errors else "",
        "pinned" if session.pinned else "",
        "archived" if session.archived else "",
        "in the trash" if session.deleted else "",
    ]
    write(Ink(" · ".join(filter(None, facts)), "quiet"))
    if session.parent_id:
        write(Ink(f"{session.relation or 'child'} of {session.parent_id}", "quiet"))
    if shape["tags"]:
        write(Ink("tags", "quiet"), "  " + ", ".join(shape["tags"]))
    if shape["summary"]:
        write(Ink("summary", "quiet"), "  " + shape["summary"])


def _write_turn(turn: Turn) -> None:
    calls = {call.call_id: call for call in turn.tool_calls}
    spoken = [entry for entry in turn.entries if entry.text or entry.parts]
    if not spoken:
        return
    label = f" {turn.n or 'before'} · {moment(turn.started_at)} "
    write()
    write(Ink(f"──{label}".ljust(min(printing.width(), 100), "─"), "quiet"))
    speaker = ""
    for entry in spoken:
        says = _speaker(entry) or speaker
        if says != speaker:
            write(*["\n"] * bool(speaker), Ink(says, "title"))
        speaker = says
        _write_entry(entry, calls)


def _speaker(entry: Entry) -> str:
    """Empty for what nobody says: results stand under their calls, events by themselves."""
    if entry.kind == "header":
        return "system"
    if entry.kind != "message" or all(isinstance(part, ToolResult) for part in entry.parts):
        return ""
    author = entry.author if entry.author != UNKNOWN_USER else ""
    return " · ".join(filter(None, [_SPEAKERS.get(entry.role, entry.role), author, entry.model]))


def _write_entry(entry: Entry, calls: dict[str, PairedCall]) -> None:
    if entry.kind == "header":
        _write_folded(entry.text)
    elif entry.kind in ("message", "compaction"):
        if entry.kind == "compaction":
            write(Ink("— what came before was summed up —", "quiet"))
        for part in entry.parts:
            _write_part(part, calls)
    else:
        words = entry.text or entry.kind
        write(Ink(f"· {entry.kind}: {words}" if words != entry.kind else f"· {words}", "quiet"))


def _write_part(part: Part, calls: dict[str, PairedCall]) -> None:
    match part:
        case Text(text):
            write(text)
        case Thinking(text):
            _write_folded(text, "┆ ")
        case ToolCall(_, name, arguments):
            write("⚙ ", Ink(name, "name"), "  ", _brief(argument_lines(arguments), len(name) + 4))
        case ToolResult(call_id, output):
            _write_result(part, calls.get(call_id), readable(output))
        case Attachment(media_type, name, size):
            told = " ".join(filter(None, [media_type, name, f"{size:,} bytes" if size else ""]))
            write(Ink(f"[{told}]", "quiet"))
        case Opaque(kind, value):
            write(Ink(f"[{kind or 'unknown'}] ", "quiet"), _brief(spell(value).decode(), len(kind) + 3))


def _write_result(part: ToolResult, call: PairedCall | None, output: str) -> None:
    told = filter(None, [took(call.duration_ms if call else part.duration_ms), "" if output else "no output"])
    write("  ", MARKS["error" if part.is_error else "ok"], *(Ink(f" {word}", "quiet") for word in told))
    _write_folded(output, "  │ ", "bad" if part.is_error else "quiet")


def _brief(text: str, taken: int) -> str:
    """On one line of a terminal; whole elsewhere."""
    return printing.flat(text, max(printing.width() - taken, 20)) if printing.on_terminal() else text


def _write_folded(text: str, before: str = "", style: Style = "quiet") -> None:
    lines = text.splitlines()
    shown = lines[:LINES_SHOWN] if printing.on_terminal() else lines
    # One line more takes the room that saying so would take.
    if len(lines) == len(shown) + 1:
        shown = lines
    for line in shown:
        write(Ink(before + _fitted(line, len(before)), style))
    if len(shown) < len(lines):
        write(Ink(f"{before}… {len(lines) - len(shown):,} more lines", "quiet"))


def _fitted(line: str, taken: int) -> str:
    """Cut to the terminal with its indentation kept, since outputs are often code."""
    if not printing.on_terminal():
        return line
    line = expand_tabs(clean(line))
    indent = line[: len(line) - len(line.lstrip())]
    return indent + one_line(line, max(printing.width() - taken - len(indent), 20))
