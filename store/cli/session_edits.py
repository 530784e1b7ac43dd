"""Edits of sessions: each is one entry of the journal, however many sessions it names, and one undo takes it back."""

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
    """Give a session a title of your own."""
    store.sessions.set_title(store.sessions.find(session_id), text)


@click.command()
@session_id_argument
@names_argument
@with_store
def tag(store: Store, session_id: str, names: tuple[str, ...]) -> None:
    """Label a session."""
    store.notes.tag(find_sessions(store, [session_id]), names)


@click.command()
@session_id_argument
@names_argument
@with_store
def untag(store: Store, session_id: str, names: tuple[str, ...]) -> None:
    """Take labels off a session."""
    store.notes.untag(find_sessions(store, [session_id]), names)


@click.command()
@session_id_argument
@click.argument("text")
@click.option("--entry", type=NON_NEGATIVE_INT, metavar="SEQ", help="On that entry rather than on the whole session.")
@with_store
def note(store: Store, session_id: str, text: str, entry: int | None) -> None:
    """Remark on a session; prints the note's number, which `unnote` wants."""
    written = store.notes.add_note(store.sessions.find(session_id), text, entry)
    output.write(str(written.id))


@click.command()
@click.argument("number", type=NON_NEGATIVE_INT)
@with_store
def unnote(store: Store, number: int) -> None:
    """Remove the note with that number; `show` tells the numbers."""
    store.notes.delete_note(number)


@click.command()
@session_ids_argument
@with_store
def pin(store: Store, session_ids: tuple[str, ...]) -> None:
    """Keep sessions in sight."""
    store.sessions.pin(find_sessions(store, session_ids))


@click.command()
@session_ids_argument
@with_store
def unpin(store: Store, session_ids: tuple[str, ...]) -> None:
    """Let go of what was pinned."""
    store.sessions.pin(find_sessions(store, session_ids), on=False)


@click.command()
@session_ids_argument
@with_store
def archive(store: Store, session_ids: tuple[str, ...]) -> None:
    """Put sessions aside."""
    store.sessions.archive(find_sessions(store, session_ids))


@click.command()
@session_ids_argument
@with_store
def unarchive(store: Store, session_ids: tuple[str, ...]) -> None:
    """Bring archived sessions back."""
    store.sessions.archive(find_sessions(store, session_ids), on=False)


@click.command()
@session_ids_argument
@with_store
def delete(store: Store, session_ids: tuple[str, ...]) -> None:
    """Move sessions to the trash."""
    sessions = find_sessions(store, session_ids)
    store.sessions.delete(sessions)
    output.notify(f"{format_count(len(sessions), 'session')} moved to the trash; `backscroll undo` takes that back.")


@click.command()
@session_ids_argument
@with_store
def restore(store: Store, session_ids: tuple[str, ...]) -> None:
    """Take sessions out of the trash."""
    store.sessions.restore(find_sessions(store, session_ids))
