"""This module defines the command `summary`."""

from __future__ import annotations

import click

from store.cli import json_output, output
from store.cli.options import NON_NEGATIVE_INT, json_option, read_stdin, session_id_argument, with_store
from store.cli.output import Span, TerminalText, format_age
from store.model.knowledge import Summary
from store.store import Store


@click.command()
@session_id_argument
@click.option("--set", "text", metavar="TEXT|-", help="Write a new summary. - reads it from stdin.")
@click.option(
    "--up-to", "up_to_turn", type=NON_NEGATIVE_INT, metavar="TURN", help="With --set: the last turn that it covers."
)
@click.option("--history", is_flag=True, help="List all versions, newest first.")
@click.option("--put-back", type=NON_NEGATIVE_INT, metavar="VERSION", help="Make an older version current again.")
@json_option
@with_store
def summary(
    store: Store,
    session_id: str,
    text: str | None,
    up_to_turn: int | None,
    history: bool,
    put_back: int | None,
    as_json: bool,
) -> None:
    """Show or set the summary of a session."""
    if sum([text is not None, history, put_back is not None]) > 1:
        raise click.UsageError("Choose one of --set, --history and --put-back.")
    if up_to_turn is not None and text is None:
        raise click.UsageError("--up-to works only with --set.")
    session = store.sessions.find(session_id)
    if text is not None:
        new_text = read_stdin().rstrip("\r\n") if text == "-" else text
        store.summaries.set(session, new_text, up_to_turn=up_to_turn)
    elif put_back is not None:
        store.summaries.restore_version(session, put_back)
    elif history:
        _show_versions(store.summaries.history(session), as_json)
    else:
        _show_summary(store.summaries.current(session), as_json)
        newer = store.summaries.newer_from_source(session)
        if newer is not None:
            output.notify(f"The agent has written a newer summary. Use --put-back {newer.key} to make it current.")


def _show_summary(current: Summary | None, as_json: bool) -> None:
    if as_json:
        output.emit_json({"summary": json_output.summary_to_json(current) if current else None})
    elif current is not None:
        output.write(current.text)
    else:
        output.notify("No summary. Use --set to write one.")


def _show_versions(versions: list[Summary], as_json: bool) -> None:
    if as_json:
        output.emit_json({"summaries": [json_output.summary_to_json(version) for version in versions]})
        return
    headings = [":version", ":age", "by", ":up to", "text"]
    output.print_table(headings, [_version_row(version) for version in versions])


def _version_row(version: Summary) -> list[Span]:
    return [
        TerminalText(str(version.key), "name"),
        format_age(version.created_at),
        version.origin,
        "" if version.up_to_turn is None else str(version.up_to_turn),
        TerminalText(version.text, "title" if version.current else "quiet"),
    ]
