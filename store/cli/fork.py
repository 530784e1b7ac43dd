"""Another way from some turn on, in our store or as a new transcript of the session's own agent."""

from __future__ import annotations

import click

from store.cli import json_output, output
from store.cli.options import NON_NEGATIVE_INT, json_option, read_stdin, session_id_argument, with_store
from store.conversations.fork import fork_session as fork_here
from store.store import Store
from store.write_back.fork_transcript import fork_transcript


@click.command()
@session_id_argument
@click.option("--turn", type=NON_NEGATIVE_INT, required=True, metavar="N", help="The last turn that both share.")
@click.option("--prompt", metavar="TEXT|-", help="In place of what was said in turn N; - reads it from stdin.")
@click.option("--native", is_flag=True, help="As a new transcript that Claude Code or Codex itself resumes.")
@json_option
@with_store
def fork(store: Store, session_id: str, turn: int, prompt: str | None, native: bool, as_json: bool) -> None:
    """Make a new session that ends after turn N; prints its id."""
    session = store.sessions.find(session_id)
    said = read_stdin().removesuffix("\n") if prompt == "-" else prompt
    path = None
    if native:
        path, made = fork_transcript(store, session, turn, prompt=said)
    else:
        made = fork_here(store, session, turn, prompt=said)
    if as_json:
        output.emit_json({"session": json_output.session_to_json(store, made), "path": str(path) if path else None})
        return
    output.write(made.id)
    if path:
        output.notify(f"Written to {path}; `backscroll resume {made.id}` goes on with it.")
