"""This module defines the commands that maintain the store: `doctor`, `pack`, `demo` and `purge`."""

from __future__ import annotations

from collections.abc import Sequence

import click

from store.cli import output
from store.cli.options import (
    cli_context,
    complete_session,
    find_sessions,
    is_interactive,
    json_option,
    optional_session_argument,
    with_store,
)
from store.cli.output import TerminalText, format_count
from store.conversations.purge import list_backups_of
from store.errors import Refused
from store.model.session import Session
from store.store import Store


@click.command()
@optional_session_argument
@click.option("--reindex", is_flag=True, help="Rebuild the search index first.")
@json_option
@with_store
def doctor(store: Store, session_id: str | None, reindex: bool, as_json: bool) -> None:
    """Check the store for damage.

    With an ID, check only the chain of that session. The exit status is 1 if there are problems.
    """
    from store.doctor import check_store

    session = store.sessions.find(session_id) if session_id else None
    if reindex:
        output.notify(f"{format_count(store.search.reindex(output.notify), 'session')} reindexed.")
    problems = check_store(store, session)
    if as_json:
        output.emit_json({"problems": [{"where": problem.where, "reason": problem.what} for problem in problems]})
    else:
        output.print_table(
            ["where", "what"], [[TerminalText(problem.where, "name"), problem.what] for problem in problems]
        )
    if problems:
        raise click.exceptions.Exit(1)
    output.notify("No problems found.")


@click.command()
@json_option
@with_store
def pack(store: Store, as_json: bool) -> None:
    """Make the store smaller, without losing anything.

    The browser does this by itself, when there is nothing new to read. This command does all of it at once.
    """
    from store.sync.disk_space import pack_store

    store.checkpoint()
    before = store.path.stat().st_size
    for _ in pack_store(store, merge_completely=True):
        pass
    store.checkpoint()
    after = store.path.stat().st_size
    if as_json:
        output.emit_json({"before": before, "after": after})
    else:
        output.notify(f"The store has {after / 1e6:,.1f} MB. Before, it had {before / 1e6:,.1f} MB.")


@click.command()
@with_store
def demo(store: Store) -> None:
    """Fill an empty store with demo conversations.

    On a terminal, open the browser on it.
    """
    from store.demo import fill_store

    fill_store(store)
    _, total = store.sessions.matching("", 1)
    output.notify(f"{format_count(total, 'demo session')} added to {store.path}.")
    if cli_context().launch_browser is not None and is_interactive() and output.stdout_is_terminal():
        cli_context().open_browser()


# ── permanently ───────────────────────────────────────────────────────────────────────────────────


@click.command()
@click.argument("session_ids", metavar="[ID...]", nargs=-1, shell_complete=complete_session)
@click.option("--trash", is_flag=True, help="Purge everything in the trash.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@with_store
def purge(store: Store, session_ids: tuple[str, ...], trash: bool, yes: bool) -> None:
    """Remove sessions permanently.

    A purge cannot be undone.
    """
    if trash == bool(session_ids):
        raise click.UsageError("Name one or more IDs, or use --trash.")
    sessions = store.sessions.trash() if trash else find_sessions(store, session_ids)
    if not sessions:
        output.notify("The trash is empty.")
        return
    if not yes:
        _confirm_purge(sessions)
    backups = list_backups_of(store, sessions)
    clean = store.sessions.purge(sessions)
    output.notify(f"{format_count(len(sessions), 'session')} purged.")
    if not clean:
        output.notify("Another program is reading the store. Traces stay in the WAL file until it closes the store.")
    for backup in backups:
        output.notify(f"Still in the backup {backup}.")


def _confirm_purge(sessions: Sequence[Session]) -> None:
    if not is_interactive():
        raise Refused("A purge cannot be undone. Use --yes to confirm.")
    for session in sessions:
        output.notify(f"  {output.to_one_line(session.id)}  {output.to_one_line(session.title, 60)}")
    if not click.confirm(f"Remove {format_count(len(sessions), 'session')} permanently?", err=True):
        raise Refused("Cancelled. Nothing was removed.")
