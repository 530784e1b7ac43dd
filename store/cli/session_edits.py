"""This module defines the commands that edit sessions. Each command is one edit in the journal and one undo."""

from __future__ import annotations

import click

from store.cli import output
from store.cli.options import NON_NEGATIVE_INT, find_sessions, session_id_argument, session_ids_argument, with_store
from store.cli.output import format_count
from store.store import Store

names_argument = click.argument("names", metavar="NAME...", nargs=-1, required=True)


@click.command()
@session_id_argument
@click.argument("text")
@with_store
def title(store: Store, session_id: str, text: str) -> None:
    """Set the title of a session."""
    store.sessions.set_title(store.sessions.find(session_id), text)


@click.command()
@session_id_argument
@names_argument
@with_store
def tag(store: Store, session_id: str, names: tuple[str, ...]) -> None:
    """Add tags to a session."""
    store.notes.tag(find_sessions(store, [session_id]), names)


@click.command()
@session_id_argument
@names_argument
@with_store
def untag(store: Store, session_id: str, names: tuple[str, ...]) -> None:
    """Remove tags from a session."""
    store.notes.untag(find_sessions(store, [session_id]), names)


@click.command()
@session_id_argument
@click.argument("text")
@click.option("--entry", type=NON_NEGATIVE_INT, metavar="SEQ", help="Attach the note to this entry.")
@with_store
def note(store: Store, session_id: str, text: str, entry: int | None) -> None:
    """Add a note to a session, and print its number."""
    new_note = store.notes.add_note(store.sessions.find(session_id), text, entry)
    output.write(str(new_note.id))


@click.command()
@click.argument("number", type=NON_NEGATIVE_INT)
@with_store
def unnote(store: Store, number: int) -> None:
    """Remove a note.

    `show` prints the NUMBER of each note.
    """
    store.notes.delete_note(number)


@click.command()
@session_ids_argument
@with_store
def pin(store: Store, session_ids: tuple[str, ...]) -> None:
    """Pin sessions."""
    store.sessions.pin(find_sessions(store, session_ids))


@click.command()
@session_ids_argument
@with_store
def unpin(store: Store, session_ids: tuple[str, ...]) -> None:
    """Unpin sessions."""
    store.sessions.pin(find_sessions(store, session_ids), on=False)


@click.command()
@session_ids_argument
@with_store
def archive(store: Store, session_ids: tuple[str, ...]) -> None:
    """Archive sessions."""
    store.sessions.archive(find_sessions(store, session_ids))


@click.command()
@session_ids_argument
@with_store
def unarchive(store: Store, session_ids: tuple[str, ...]) -> None:
    """Unarchive sessions."""
    store.sessions.archive(find_sessions(store, session_ids), on=False)


@click.command()
@session_ids_argument
@with_store
def delete(store: Store, session_ids: tuple[str, ...]) -> None:
    """Move sessions to the trash."""
    sessions = find_sessions(store, session_ids)
    store.sessions.delete(sessions)
    output.notify(f"{format_count(len(sessions), 'session')} moved to the trash. Run `backscroll undo` to undo.")


@click.command()
@session_ids_argument
@with_store
def restore(store: Store, session_ids: tuple[str, ...]) -> None:
    """Restore sessions from the trash."""
    store.sessions.restore(find_sessions(store, session_ids))
