"""This module defines the command `fork`."""

from __future__ import annotations

import click

from store.cli import json_output, output
from store.cli.options import NON_NEGATIVE_INT, json_option, read_stdin, session_id_argument, with_store
from store.conversations.fork import fork_session
from store.store import Store
from store.write_back.fork_transcript import fork_transcript


@click.command()
@session_id_argument
@click.option("--turn", type=NON_NEGATIVE_INT, required=True, metavar="N", help="The last turn that the fork contains.")
@click.option("--prompt", metavar="TEXT|-", help="Replace the prompt of turn N. - reads it from stdin.")
@click.option("--native", is_flag=True, help="Write a transcript that Claude Code or Codex can resume.")
@json_option
@with_store
def fork(store: Store, session_id: str, turn: int, prompt: str | None, native: bool, as_json: bool) -> None:
    """Fork a session after a turn, and print the new id."""
    session = store.sessions.find(session_id)
    new_prompt = read_stdin().removesuffix("\n") if prompt == "-" else prompt
    path = None
    if native:
        path, forked = fork_transcript(store, session, turn, prompt=new_prompt)
    else:
        forked = fork_session(store, session, turn, prompt=new_prompt)
    if as_json:
        output.emit_json({"session": json_output.session_to_json(store, forked), "path": str(path) if path else None})
        return
    output.write(forked.id)
    if path:
        output.notify(f"Written to {path}. Run `backscroll resume {forked.id}` to resume it.")
