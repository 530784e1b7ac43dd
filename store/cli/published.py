"""Files of a session under a random id that tells nothing of either."""

from __future__ import annotations

import os

import click

from store.cli import json_output, output
from store.cli.options import json_option, session_id_argument, with_store
from store.cli.output import Span, TerminalText, format_age
from store.cli.short_ids import shorten_ids
from store.model.knowledge import PublishedFile
from store.store import Store


@click.command()
@session_id_argument
@click.argument("file")
@with_store
def publish(store: Store, session_id: str, file: str) -> None:
    """Give a FILE of the session's folder a public id, and print it.

    FILE is looked for here first, then in the session's folder.
    """
    session = store.sessions.find(session_id)
    here = os.path.abspath(file)
    output.write(store.published.publish(session, here if os.path.exists(here) else file).id)


@click.command()
@click.argument("session_id", metavar="[ID]", required=False)
@json_option
@with_store
def published(store: Store, session_id: str | None, as_json: bool) -> None:
    """What is published, of one session or of all, newest first."""
    files = store.published.list_published(store.sessions.find(session_id) if session_id else None)
    if as_json:
        output.emit_json({"published": [json_output.published_to_json(file) for file in files]})
        return
    names = shorten_ids(store, [store.sessions.get(name) for name in {file.session_id for file in files}])
    output.print_table(["id", ":age", "session", "file"], [_file_row(file, names[file.session_id]) for file in files])
    if not files:
        output.notify("Nothing is published.")


def _file_row(file: PublishedFile, session: str) -> list[Span]:
    return [TerminalText(file.id, "name"), format_age(file.created_at), session, file.path]


@click.command()
@click.argument("public_id")
@with_store
def unpublish(store: Store, public_id: str) -> None:
    """Withdraw a public id; the file stays."""
    store.published.unpublish(public_id)
