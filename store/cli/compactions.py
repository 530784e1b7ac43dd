"""This module defines the command `compactions`, which shows what a model saw before and after each compaction."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from store.cli import output
from store.cli.options import json_option, session_id_argument, with_store
from store.cli.output import TerminalText, format_count, format_time, write
from store.conversations.compactions import list_compactions
from store.model.compaction import Compaction
from store.model.entry import Json

if TYPE_CHECKING:
    from store.store import Store


@click.command()
@session_id_argument
@json_option
@with_store
def compactions(store: Store, session_id: str, as_json: bool) -> None:
    """Show the compactions of a session: what they dropped, and what the summary names of it.

    A compaction replaces the turns before it by a summary. Run `backscroll fork ID --before-compaction N` to continue
    without it.
    """
    session = store.sessions.find(session_id)
    found = list_compactions(store, session)
    if as_json:
        output.emit_json({"session": session.id, "compactions": [_to_json(compaction) for compaction in found]})
        return
    if not found:
        output.notify("No compaction in this session.")
    for compaction in found:
        _write_compaction(compaction)


def _to_json(compaction: Compaction) -> dict[str, Json]:
    parts = {name: [row._asdict() for row in getattr(compaction, name)] for name in ("turns", "files", "decisions")}
    return asdict(compaction) | parts


def _write_compaction(compaction: Compaction) -> None:
    details = [
        f"turn {compaction.turn}",
        format_time(compaction.at),
        f"{format_count(len(compaction.turns), 'turn')} and {format_count(len(compaction.files), 'file')} before",
    ]
    write(TerminalText(f"compaction {compaction.number}", "title"), TerminalText(f"  {' · '.join(details)}", "quiet"))
    for turn in compaction.turns:
        _write_row(turn.is_named, f"turn {turn.n}", turn.prompt)
    for file in compaction.files:
        _write_row(file.is_named, "changed" if file.is_changed else "read", file.path)
    for decision in compaction.decisions:
        _write_row(decision.is_named, f"turn {decision.turn}: decision", decision.text)
    write(TerminalText("the model saw after it", "title"))
    write(compaction.summary or "(The agent recorded no summary.)")


def _write_row(is_named: bool, label: str, text: str) -> None:
    mark = TerminalText("named    ", "good") if is_named else TerminalText("missing  ", "bad")
    write("  ", mark, TerminalText(f"  {label}  ", "quiet"), output.to_one_line(text, output.terminal_width() - 24))
