"""This module defines the commands that edit sessions. Each command is one edit in the journal and one undo."""

from __future__ import annotations

from collections.abc import Sequence

import click

from store.cli import json_output, output
from store.cli.options import (
    NON_NEGATIVE_INT,
    complete_session,
    find_sessions,
    is_interactive,
    json_option,
    session_id_argument,
    session_ids_argument,
    with_store,
)
from store.cli.output import Span, TerminalText, format_age, format_count
from store.errors import NotFound
from store.model.knowledge import Note
from store.model.session import Session
from store.store import Store
from store.text.tags import split_tags

names_argument = click.argument("names", metavar="NAME...", nargs=-1, required=True)


@click.command()
@click.argument("words", metavar="ID TEXT", nargs=-1, required=True, shell_complete=complete_session)
@click.option("--hook", is_flag=True, help="Let the program in [titles] command propose titles for all IDs.")
@click.option("--yes", is_flag=True, help="With --hook, set the proposed titles without asking.")
@json_option
@with_store
def title(store: Store, words: tuple[str, ...], hook: bool, yes: bool, as_json: bool) -> None:
    """Set the title of a session.

    With --hook, the arguments are IDs. The proposed titles are shown before they are set, and one undo takes all of
    them back.
    """
    if hook:
        _set_proposed_titles(store, find_sessions(store, words), yes=yes, as_json=as_json)
        return
    if yes or as_json:
        raise click.UsageError("--yes and --json need --hook.")
    if len(words) != 2:
        raise click.UsageError("Name one ID and one TEXT; put the TEXT in quotes.")
    session_id, text = words
    store.sessions.set_title(store.sessions.find(session_id), text)


def _set_proposed_titles(store: Store, sessions: Sequence[Session], *, yes: bool, as_json: bool) -> None:
    from store.edits.title_hook import TitleHook

    hook = TitleHook(store)
    proposals = hook.propose_all(sessions)
    if not as_json:
        for proposal in proposals:
            change = proposal.problem or f"{proposal.session.title or '(untitled)'} → {proposal.title}"
            output.write(TerminalText(proposal.session.id, "name"), "  ", change)
    changes = sum(proposal.is_change for proposal in proposals)
    is_wanted = yes or (changes and not as_json and is_interactive() and _confirm(changes))
    applied = hook.apply(proposals) if is_wanted else 0
    if as_json:
        titles = [
            {"session": session.id, "old": session.title, "new": title or None, "problem": problem or None}
            for session, title, problem in proposals
        ]
        output.emit_json({"titles": titles, "applied": applied})
    elif applied:
        output.notify(f"{format_count(applied, 'title')} set. Run `backscroll undo` to undo.")
    else:
        output.notify("Nothing was changed." + (" Use --yes to set the titles." if changes else ""))


def _confirm(changes: int) -> bool:
    return click.confirm(f"Set {format_count(changes, 'title')}?", err=True)


@click.command()
@session_id_argument
@names_argument
@with_store
def tag(store: Store, session_id: str, names: tuple[str, ...]) -> None:
    """Add tags to a session.

    Separate tags with commas or blanks. Put a NAME that contains blanks in quotes.
    """
    store.notes.tag(find_sessions(store, [session_id]), _split_names(names))


@click.command()
@session_id_argument
@names_argument
@with_store
def untag(store: Store, session_id: str, names: tuple[str, ...]) -> None:
    """Remove tags from a session."""
    store.notes.untag(find_sessions(store, [session_id]), _split_names(names))


def _split_names(names: tuple[str, ...]) -> list[str]:
    """Return the tags in the arguments. Each argument is one tag, or several with commas between them."""
    return [tag for name in names for tag in split_tags(name)]


@click.command()
@session_id_argument
@click.argument("text", metavar="[TEXT]", required=False)
@click.option("--entry", type=NON_NEGATIVE_INT, metavar="SEQ", help="Attach the new note to this entry.")
@click.option("--edit", "edited", type=NON_NEGATIVE_INT, metavar="NUMBER", help="Replace the text of this note.")
@click.option("--delete", "deleted", type=NON_NEGATIVE_INT, metavar="NUMBER", help="Delete this note.")
@json_option
@with_store
def note(
    store: Store,
    session_id: str,
    text: str | None,
    entry: int | None,
    edited: int | None,
    deleted: int | None,
    as_json: bool,
) -> None:
    """Add a note to a session, and print its number.

    Without TEXT, list the notes of the session with their NUMBERs. `backscroll list has:note` lists the sessions that
    have notes.
    """
    if sum(option is not None for option in (entry, edited, deleted)) > 1:
        raise click.UsageError("Use only one of --entry, --edit and --delete.")
    if text is None and (entry is not None or edited is not None):
        raise click.UsageError("--entry and --edit need a TEXT.")
    if text is not None and deleted is not None:
        raise click.UsageError("--delete takes no TEXT.")
    session = store.sessions.find(session_id)
    if deleted is not None:
        store.notes.delete_note(_find_note(store, session, deleted).id)
    elif text is not None and edited is not None:
        store.notes.edit_note(_find_note(store, session, edited).id, text)
    elif text is not None:
        number = store.notes.add_note(session, text, entry).id
        if not as_json:
            output.write(str(number))
    if as_json or (text is None and deleted is None):
        _list_notes(store.notes.notes(session), as_json)


def _find_note(store: Store, session: Session, number: int) -> Note:
    for existing in store.notes.notes(session):
        if existing.id == number:
            return existing
    raise NotFound(f"The session has no note {number}. Run `backscroll note ID` to list its notes.")


def _list_notes(notes: list[Note], as_json: bool) -> None:
    if as_json:
        output.emit_json({"notes": [json_output.note_to_json(note) for note in notes]})
        return
    rows: list[list[Span]] = [
        [TerminalText(str(note.id), "name"), format_age(note.created_at), note.entry or "", note.signed_text]
        for note in notes
    ]
    output.print_table(["number", ":age", "entry", "note"], rows)
    if not notes:
        output.notify("No notes found.")


@click.command()
@click.argument("number", type=NON_NEGATIVE_INT)
@with_store
def unnote(store: Store, number: int) -> None:
    """Remove a note.

    `note ID` prints the NUMBER of each note.
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
