"""This module defines the command `fork`."""

from __future__ import annotations

import click

from store.cli import json_output, output
from store.cli.options import NON_NEGATIVE_INT, POSITIVE_INT, json_option, read_stdin, session_id_argument, with_store
from store.conversations.compactions import get_compaction
from store.conversations.fork import fork_before_compaction, fork_session
from store.store import Store
from store.write_back.fork_transcript import fork_transcript


@click.command()
@session_id_argument
@click.option("--turn", type=NON_NEGATIVE_INT, metavar="N", help="The last turn that the fork contains.")
@click.option("--before-compaction", type=POSITIVE_INT, metavar="N", help="End before compaction N instead.")
@click.option("--summary", metavar="TEXT|-", help="End with this summary in place of compaction N. - reads stdin.")
@click.option("--prompt", metavar="TEXT|-", help="Replace the prompt of turn N. - reads it from stdin.")
@click.option("--native", is_flag=True, help="Write a transcript that Claude Code or Codex can resume.")
@json_option
@with_store
def fork(
    store: Store,
    session_id: str,
    turn: int | None,
    before_compaction: int | None,
    summary: str | None,
    prompt: str | None,
    native: bool,
    as_json: bool,
) -> None:
    """Fork a session after a turn or before a compaction, and print the new id."""
    session = store.sessions.find(session_id)
    path = None
    if before_compaction is not None:
        if turn is not None or prompt is not None or native:
            raise click.UsageError("--before-compaction cannot be combined with --turn, --prompt or --native.")
        seq = get_compaction(store, session, before_compaction).seq
        forked = fork_before_compaction(store, session, seq, summary=_read_text(summary))
    elif turn is None:
        raise click.UsageError("Missing option '--turn' or '--before-compaction'.")
    elif summary is not None:
        raise click.UsageError("--summary needs --before-compaction.")
    elif native:
        path, forked = fork_transcript(store, session, turn, prompt=_read_text(prompt))
    else:
        forked = fork_session(store, session, turn, prompt=_read_text(prompt))
    if as_json:
        output.emit_json({"session": json_output.session_to_json(store, forked), "path": str(path) if path else None})
        return
    output.write(forked.id)
    if path:
        output.notify(f"Written to {path}. Run `backscroll resume {forked.id}` to resume it.")


def _read_text(option: str | None) -> str | None:
    return read_stdin().removesuffix("\n") if option == "-" else option
