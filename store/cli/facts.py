"""This module defines the command group `facts`: the facts that agents share."""

from __future__ import annotations

import click

from store.cli import json_output, output
from store.cli.journal import write_edits
from store.cli.lazy_group import ListGroup
from store.cli.options import (
    NON_NEGATIVE_INT,
    complete_session,
    json_option,
    read_file_or_stdin,
    with_store,
)
from store.cli.output import Span, Style, TerminalText, format_age
from store.cli.secrets import passphrase_stdin_option
from store.cli.write_back import dry_run_option, run_write_back
from store.edits.facts import read_max_lines
from store.errors import BadValue
from store.model.knowledge import Fact
from store.model.session import GLOBAL_SCOPE
from store.store import Store

scope_option = click.option("--scope", default=GLOBAL_SCOPE, show_default=True, help="Which agents may know the facts.")
fact_number_argument = click.argument("number", metavar="N", type=NON_NEGATIVE_INT)
fact_numbers_argument = click.argument("numbers", metavar="N...", type=NON_NEGATIVE_INT, nargs=-1, required=True)

_DIFF_STYLES: dict[str, Style] = {"+": "good", "-": "bad"}


@click.group(cls=ListGroup, default="list", default_if_no_args=True)
def facts() -> None:
    """List and edit the facts that agents share.

    A fact is one line of text. Its scope says which agents may know it. Without a command, list the facts.
    """


@facts.result_callback()
@with_store
def push_edited_facts(store: Store, _: object) -> None:
    """Push into the folders that want it, after a command that may have edited facts."""
    push_automatically(store)


def push_automatically(store: Store) -> None:
    """Push into the folders that want edited facts at once, and say what was done."""
    plan = store.shared_facts.push_automatically()
    for file in plan.changed if plan else ():
        output.notify(f"Pushed to {file.path}.")
    for problem in plan.problems if plan else ():
        output.notify(problem)


@facts.command("list")
@click.option("--scope", "scopes", multiple=True, help="List only facts of this scope. Can be repeated.")
@click.option("--retired", is_flag=True, help="Include retired facts.")
@json_option
@with_store
def list_facts(store: Store, scopes: tuple[str, ...], retired: bool, as_json: bool) -> None:
    """List current facts, oldest first."""
    facts = store.facts.current(scopes or None, retired=retired)
    if as_json:
        output.emit_json({"facts": [json_output.fact_to_json(fact) for fact in facts]})
        return
    output.print_table([":n", ":age", "scope", "category", "text"], [_fact_row(fact) for fact in facts])
    if not facts:
        output.notify("No facts yet. Run `backscroll facts add TEXT` to add one.")
    for scope in dict.fromkeys(scopes or (GLOBAL_SCOPE,)):
        lines, limit = len(store.facts.blob(scope).splitlines()), read_max_lines()
        if lines > limit:
            advice = "shorten it with `backscroll facts consolidate`"
            output.notify(f"Scope {scope} has {lines:,} lines, more than the limit of {limit:,}; {advice}.")


def _fact_row(fact: Fact) -> list[Span]:
    return [
        TerminalText(str(fact.id), "name"),
        format_age(fact.updated_at),
        fact.scope,
        fact.category,
        TerminalText(fact.text, "quiet" if fact.retired_at else "plain"),
    ]


@facts.command()
@click.argument("text")
@scope_option
@click.option("--category", default="", help="The category of the facts.")
@click.option(
    "--session",
    "session_id",
    metavar="ID",
    shell_complete=complete_session,
    help="The session they were learned from.",
)
@click.option("--entry", type=NON_NEGATIVE_INT, metavar="SEQ", help="The entry of that session they were learned from.")
@with_store
def add(store: Store, text: str, scope: str, category: str, session_id: str | None, entry: int | None) -> None:
    """Add facts, one per line of TEXT.

    The number of each new fact is printed.
    """
    session = store.sessions.find(session_id) if session_id else None
    learned = store.facts.learn(text, session=session, entry_seq=entry, scope=scope, category=category)
    for fact in learned.facts:
        output.write(str(fact.id))
    if not learned.facts:
        output.notify("Nothing to add. These facts are already known.")


@facts.command()
@fact_number_argument
@click.argument("text")
@click.option("--category", help="Also change its category.")
@with_store
def edit(store: Store, number: int, text: str, category: str | None) -> None:
    """Reword fact N."""
    store.facts.edit(number, text, category=category)


@facts.command()
@fact_numbers_argument
@with_store
def retire(store: Store, numbers: tuple[int, ...]) -> None:
    """Retire facts.

    A retired fact is no longer shared; `facts restore` brings it back.
    """
    store.facts.retire_all(numbers)


@facts.command()
@fact_number_argument
@with_store
def restore(store: Store, number: int) -> None:
    """Restore the retired fact N."""
    store.facts.restore(number)


@facts.command()
@click.argument("category")
@fact_numbers_argument
@with_store
def categorise(store: Store, category: str, numbers: tuple[int, ...]) -> None:
    """Set the category of facts.

    An empty CATEGORY removes it.
    """
    store.facts.categorise(numbers, category)


@facts.command()
@click.argument("text")
@fact_numbers_argument
@with_store
def merge(store: Store, text: str, numbers: tuple[int, ...]) -> None:
    """Merge facts into one with the text TEXT.

    The number of the new fact is printed.
    """
    output.write(str(store.facts.merge(numbers, text).id))


@facts.command()
@json_option
@with_store
def proposals(store: Store, as_json: bool) -> None:
    """List the facts that agents propose.

    `facts accept` makes one a fact, `facts reject` drops it.
    """
    waiting = store.proposals.waiting()
    if as_json:
        output.emit_json({"proposals": [proposal._asdict() for proposal in waiting]})
        return
    rows: list[list[Span]] = [
        [
            TerminalText(str(proposal.id), "name"),
            format_age(proposal.created_at),
            proposal.agent,
            f"{proposal.session_id or ''}{f' turn {proposal.turn}' if proposal.turn is not None else ''}",
            f"{proposal.text}{f'  ({proposal.reason})' if proposal.reason else ''}",
        ]
        for proposal in waiting
    ]
    output.print_table([":n", ":age", "agent", "session", "text"], rows)
    if not waiting:
        output.notify("No proposals.")


@facts.command()
@fact_number_argument
@click.option("--text", help="Accept it with this text.")
@scope_option
@with_store
def accept(store: Store, number: int, text: str | None, scope: str) -> None:
    """Make proposal N a fact. The number of the fact is printed."""
    output.write(str(store.proposals.accept(number, text=text, scope=scope).id))


@facts.command()
@fact_numbers_argument
@with_store
def reject(store: Store, numbers: tuple[int, ...]) -> None:
    """Drop proposals."""
    for number in numbers:
        store.proposals.reject(number)


@facts.command("write-back")
@fact_number_argument
@dry_run_option
@passphrase_stdin_option
@json_option
@with_store
def write_back(store: Store, number: int, dry_run: bool, passphrase_stdin: bool, as_json: bool) -> None:
    """Write fact N back to the store it came from.

    Other edited facts of that store are also written.
    """
    fact = store.facts.get(number)
    run_write_back(store, lambda: store.write_back.preview_facts(fact), dry_run, passphrase_stdin, as_json)


@facts.command()
@fact_number_argument
@json_option
@with_store
def history(store: Store, number: int, as_json: bool) -> None:
    """Show the edits of fact N, oldest first."""
    edits = store.facts.history(number)
    if as_json:
        output.emit_json({"history": [json_output.edit_to_json(edit) for edit in edits]})
    else:
        write_edits(edits)


@facts.command()
@click.argument("file", metavar="FILE|-")
@scope_option
@click.option("--dry-run", is_flag=True, help="Only print the difference.")
@with_store
def consolidate(store: Store, file: str, scope: str, dry_run: bool) -> None:
    """Replace the facts of a scope with the lines of FILE.

    The difference is printed.
    """
    text = read_file_or_stdin(file)
    if not text.strip():
        raise BadValue(f"{'stdin' if file == '-' else file} is empty. It would retire every fact of the scope.")
    difference = store.facts.diff(text, scope) if dry_run else store.facts.consolidate(text, scope)
    for line in difference.text.splitlines():
        output.write(TerminalText(line, _DIFF_STYLES.get(line[:1], "quiet")))
    counts = f"{len(difference.edited)} changed, {len(difference.added)} added, {len(difference.retired)} retired"
    output.notify(f"{'Dry run' if dry_run else 'Done'}: {counts}.")
