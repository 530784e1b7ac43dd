"""This module defines the commands `publish`, `published`, `resolve` and `unpublish`."""

from __future__ import annotations

import os

import click

from store.cli import json_output, output
from store.cli.options import (
    json_option,
    optional_session_argument,
    session_id_argument,
    with_store,
)
from store.cli.output import Span, TerminalText, format_age
from store.cli.sharing.leak_options import passphrase_stdin_option, run_gated
from store.cli.short_ids import shorten_ids
from store.model.knowledge import PublishedFile
from store.store import Store

public_id_argument = click.argument("public_id", metavar="ID")


@click.command()
@session_id_argument
@click.argument("file")
@click.option("--allow-leaks", is_flag=True, help="Publish the file although there are leaks in it.")
@passphrase_stdin_option
@with_store
def publish(store: Store, session_id: str, file: str, allow_leaks: bool, passphrase_stdin: bool) -> None:
    """Publish a file of a session, and print its public id.

    FILE must be in the folder of the session. A relative FILE is looked up in the current folder, then in that folder.
    A file with certain leaks is not published, unless you choose --allow-leaks.
    """
    session = store.sessions.find(session_id)
    path = os.path.abspath(file)
    published_file = run_gated(
        store,
        lambda: store.published.publish(session, path if os.path.exists(path) else file, allow_leaks=allow_leaks),
        passphrase_stdin,
        "Remove them from the file, or publish it with --allow-leaks.",
    )
    output.write(published_file.id)


@click.command()
@optional_session_argument
@json_option
@with_store
def published(store: Store, session_id: str | None, as_json: bool) -> None:
    """List published files, newest first.

    With an ID, list only the files of that session.
    """
    files = store.published.list_published(store.sessions.find(session_id) if session_id else None)
    if as_json:
        output.emit_json({"published": [json_output.published_to_json(file) for file in files]})
        return
    sessions = [store.sessions.get(session_id) for session_id in {file.session_id for file in files}]
    short_ids = shorten_ids(store, sessions)
    output.print_table(
        ["id", ":age", "session", "file"], [_file_row(file, short_ids[file.session_id]) for file in files]
    )
    if not files:
        output.notify("No published files.")


def _file_row(file: PublishedFile, short_id: str) -> list[Span]:
    return [TerminalText(file.id, "name"), format_age(file.created_at), short_id, file.path]


@click.command()
@public_id_argument
@with_store
def resolve(store: Store, public_id: str) -> None:
    """Print the path of a published file.

    ID is the public id that `publish` printed.
    """
    output.write(str(store.published.resolve(public_id)))


@click.command()
@public_id_argument
@with_store
def unpublish(store: Store, public_id: str) -> None:
    """Withdraw a public id.

    ID is the public id that `publish` printed. The file itself stays.
    """
    store.published.unpublish(public_id)
