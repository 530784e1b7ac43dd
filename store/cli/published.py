"""Files of a session under a random id that tells nothing of either."""

from __future__ import annotations

import os

import click

from store.cli import json_output, output
from store.cli.options import as_json, session_id, with_store
from store.cli.output import Ink, Piece, age
from store.cli.short_ids import short_names
from store.model.knowledge import Published
from store.store import Store


@click.command()
@session_id
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
@as_json
@with_store
def published(store: Store, session_id: str | None, as_json: bool) -> None:
    """What is published, of one session or of all, newest first."""
    files = store.published.newest(store.sessions.find(session_id) if session_id else None)
    if as_json:
        output.emit_json({"published": [json_output.published(file) for file in files]})
        return
    names = short_names(store, [store.sessions.get(name) for name in {file.session_id for file in files}])
    output.table(["id", ":age", "session", "file"], [_file_row(file, names[file.session_id]) for file in files])
    if not files:
        output.say("Nothing is published.")


def _file_row(file: Published, session: str) -> list[Piece]:
    return [Ink(file.id, "name"), age(file.created_at), session, file.path]


@click.command()
@click.argument("public_id")
@with_store
def unpublish(store: Store, public_id: str) -> None:
    """Withdraw a public id; the file stays."""
    store.published.unpublish(public_id)
