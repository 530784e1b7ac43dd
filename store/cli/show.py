"""This module defines the command `show`, which prints a conversation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from store.agent_api.past.past import Past
from store.cli import json_output, output
from store.cli.options import NON_NEGATIVE_INT, json_option, session_id_argument, with_store
from store.cli.output import Style, TerminalText, format_count, format_time, write
from store.cli.query_options import for_agents_option, next_option
from store.cli.search import STATUS_SYMBOLS, format_arguments, format_duration
from store.model.entry import (
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
from store.model.session import UNKNOWN_USER, Session
from store.sources import source_label
from store.text.sanitize import expand_tabs, one_line, sanitize
from store.text.tags import format_tags
from store.text.validate import serialize

if TYPE_CHECKING:
    from store.store import Store

MAX_FOLDED_LINES = 6
"""Limits the lines of a tool result, a thought or a system prompt on a terminal. Otherwise they are complete."""

ARGUMENTS_INDENT = " " * 4
"""Precedes the second and later lines of a call's arguments, so that they are not taken for text of the agent."""

_SPEAKER_LABELS = {"user": "you"}


@click.command()
@session_id_argument
@click.option(
    "--turn", "number", type=NON_NEGATIVE_INT, metavar="N", help="Show only turn N. Turn 0 is before the first prompt."
)
@click.option("--raw", is_flag=True, help="Print the original records, one per line.")
@for_agents_option
@click.option("--full", is_flag=True, help="With --for-agents: do not shorten tool calls and results.")
@next_option
@json_option
@with_store
def show(
    store: Store,
    session_id: str,
    number: int | None,
    raw: bool,
    for_agents: bool,
    full: bool,
    cursor: str,
    as_json: bool,
) -> None:
    """Show a conversation, turn by turn."""
    if for_agents:
        output.emit_json(Past(store).open(session_id, turn=number, full=full, cursor=cursor))
        return
    session = store.sessions.find(session_id)
    if raw:
        _show_raw(store, session, number, as_json)
        return
    if session.depth == "text":
        output.notify("This session is not completely read yet. Run `backscroll sync`.")
    turns = store.chains.turns(session.key, number)
    session_json = json_output.session_to_json(store, session)
    notes = store.notes.notes(session)
    if as_json:
        output.emit_json(
            {
                "session": session_json | {"system_prompt": session.system_prompt},
                "turns": [json_output.turn_to_json(session.id, turn) for turn in turns],
                "notes": [json_output.note_to_json(note) for note in notes],
            }
        )
        return
    _write_header(session, session_json)
    for note in notes:
        where = f" on {note.entry}" if note.entry else ""
        write(TerminalText(f"note {note.id}{where}", "quiet"), f"  {note.signed_text}")
    for turn in turns:
        _write_turn(turn)


# ── raw records ───────────────────────────────────────────────────────────────────────────────────


def _show_raw(store: Store, session: Session, turn: int | None, as_json: bool) -> None:
    records = _read_records(store, session, turn)
    if as_json:
        texts = [record.decode("utf-8", "surrogateescape") for record in records]
        output.emit_json({"session": session.id, "records": texts})
        return
    for record in records:
        output.write_record(record)


def _read_records(store: Store, session: Session, turn: int | None) -> Iterable[bytes]:
    if turn is None:
        return (record for _, record in store.records.iter_session(session.key))
    entries = store.chains.turns(session.key, turn)[0].entries
    keys = dict.fromkeys(entry.record for entry in entries if entry.record is not None)
    return map(store.records.get, keys)


# ── for reading ───────────────────────────────────────────────────────────────────────────────────


def _write_header(session: Session, session_json: json_output.JsonObject) -> None:
    title = session.describe(source_label(session.source))
    write(TerminalText(output.to_one_line(title, output.terminal_width()) or "(untitled)", "title"))
    details = [
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
    write(TerminalText(" · ".join(filter(None, details)), "quiet"))
    if session.parent_id:
        write(TerminalText(f"{session.relation or 'child'} of {session.parent_id}", "quiet"))
    if session_json["tags"]:
        write(TerminalText("tags", "quiet"), "  " + format_tags(session_json["tags"]))
    if session_json["summary"]:
        write(TerminalText("summary", "quiet"), "  " + session_json["summary"])


def _write_turn(turn: Turn) -> None:
    calls = {call.call_id: call for call in turn.tool_calls}
    entries = [entry for entry in turn.entries if entry.text or entry.parts]
    if not entries:
        return
    label = f" {turn.n or 'before'} · {format_time(turn.started_at)} "
    write()
    write(TerminalText(f"──{label}".ljust(min(output.terminal_width(), 100), "─"), "quiet"))
    speaker = ""
    for entry in entries:
        new_speaker = _speaker_label(entry) or speaker
        if new_speaker != speaker:
            write(*["\n"] * bool(speaker), TerminalText(new_speaker, "title"))
        speaker = new_speaker
        _write_entry(entry, calls)


def _speaker_label(entry: Entry) -> str:
    """Return who speaks; empty for tool results, which are printed below their calls, and for events."""
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
            write(TerminalText("— earlier entries were compacted into a summary —", "quiet"))
        for part in entry.parts:
            _write_part(part, calls)
    else:
        text = entry.text or entry.kind
        write(TerminalText(f"· {entry.kind}: {text}" if text != entry.kind else f"· {text}", "quiet"))


def _write_part(part: Part, calls: dict[str, PairedCall]) -> None:
    match part:
        case Text(text):
            write(text)
        case Thinking(text):
            _write_folded(text, "┆ ")
        case ToolCall(_, name, arguments):
            shown = _truncate_on_terminal(format_arguments(arguments), len(name) + 4)
            write("⚙ ", TerminalText(name, "name"), "  ", shown.replace("\n", f"\n{ARGUMENTS_INDENT}"))
        case ToolResult(call_id, result):
            _write_result(part, calls.get(call_id), readable_text(result))
        case Attachment(media_type, name, size):
            description = " ".join(filter(None, [media_type, name, f"{size:,} bytes" if size else ""]))
            write(TerminalText(f"[{description}]", "quiet"))
        case Opaque(kind, value):
            write(
                TerminalText(f"[{kind or 'unknown'}] ", "quiet"),
                _truncate_on_terminal(serialize(value).decode(), len(kind) + 3),
            )


def _write_result(part: ToolResult, call: PairedCall | None, text: str) -> None:
    details = filter(
        None, [format_duration(call.duration_ms if call else part.duration_ms), "" if text else "no output"]
    )
    symbol = STATUS_SYMBOLS["error" if part.is_error else "ok"]
    write("  ", symbol, *(TerminalText(f" {detail}", "quiet") for detail in details))
    _write_folded(text, "  │ ", "bad" if part.is_error else "quiet")


def _truncate_on_terminal(text: str, used_width: int) -> str:
    """Truncate text to the rest of a line on a terminal. Otherwise return it unchanged."""
    return (
        output.to_one_line(text, max(output.terminal_width() - used_width, 20)) if output.stdout_is_terminal() else text
    )


def _write_folded(text: str, prefix: str = "", style: Style = "quiet") -> None:
    lines = text.splitlines()
    shown = lines[:MAX_FOLDED_LINES] if output.stdout_is_terminal() else lines
    # A note about one hidden line would take as much room as the line.
    if len(lines) == len(shown) + 1:
        shown = lines
    for line in shown:
        write(TerminalText(prefix + _truncate_keeping_indent(line, len(prefix)), style))
    if len(shown) < len(lines):
        write(TerminalText(f"{prefix}… {len(lines) - len(shown):,} more lines", "quiet"))


def _truncate_keeping_indent(line: str, used_width: int) -> str:
    """Truncate a line to the width of the terminal, but keep its indentation, since tool results are often code."""
    if not output.stdout_is_terminal():
        return line
    line = expand_tabs(sanitize(line))
    indent = line[: len(line) - len(line.lstrip())]
    return indent + one_line(line, max(output.terminal_width() - used_width - len(indent), 20))
