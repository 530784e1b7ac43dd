"""What outlives a conversation: its summary, and the facts that all agents share."""

from __future__ import annotations

import click

from store.cli import json_output, output
from store.cli.journal import write_edits
from store.cli.lazy_group import DefaultGroup
from store.cli.options import (
    NON_NEGATIVE_INT,
    json_option,
    read_file_or_stdin,
    read_stdin,
    session_id_argument,
    with_store,
)
from store.cli.output import Span, Style, TerminalText, format_age
from store.cli.secrets import passphrase_stdin_option
from store.cli.write_back import dry_run_option, run_write_back
from store.edits.facts import read_max_lines
from store.errors import BadValue
from store.model.knowledge import Fact, Summary
from store.model.session import GLOBAL_SCOPE
from store.store import Store

scope_option = click.option("--scope", default=GLOBAL_SCOPE, show_default=True, help="Who may know it.")
fact_number_argument = click.argument("number", metavar="N", type=NON_NEGATIVE_INT)
fact_numbers_argument = click.argument("numbers", metavar="N...", type=NON_NEGATIVE_INT, nargs=-1, required=True)

_DIFF_STYLES: dict[str, Style] = {"+": "good", "-": "bad"}


@click.command()
@session_id_argument
@click.option("--set", "text", metavar="TEXT|-", help="Write a new one; - reads it from stdin.")
@click.option(
    "--up-to", "up_to_turn", type=NON_NEGATIVE_INT, metavar="TURN", help="The last turn that the new one covers."
)
@click.option("--history", is_flag=True, help="Every version, newest first.")
@click.option("--put-back", type=NON_NEGATIVE_INT, metavar="VERSION", help="Make an older version the current one.")
@json_option
@with_store
def summary(
    store: Store,
    session_id: str,
    text: str | None,
    up_to_turn: int | None,
    history: bool,
    put_back: int | None,
    as_json: bool,
) -> None:
    """Show a session's summary, or set it."""
    if sum([text is not None, history, put_back is not None]) > 1:
        raise click.UsageError("Choose one of --set, --history and --put-back.")
    if up_to_turn is not None and text is None:
        raise click.UsageError("--up-to belongs to --set.")
    session = store.sessions.find(session_id)
    if text is not None:
        spoken = read_stdin().rstrip("\r\n") if text == "-" else text
        store.summaries.set(session, spoken, up_to_turn=up_to_turn)
    elif put_back is not None:
        store.summaries.restore_version(session, put_back)
    elif history:
        _show_versions(store.summaries.history(session), as_json)
    else:
        _show_summary(store.summaries.current(session), as_json)
        newer = store.summaries.newer_from_source(session)
        if newer is not None:
            output.notify(f"The agent has written a newer one; --put-back {newer.key} takes it.")


def _show_summary(current: Summary | None, as_json: bool) -> None:
    if as_json:
        output.emit_json({"summary": json_output.summary_to_json(current) if current else None})
    elif current is not None:
        output.write(current.text)
    else:
        output.notify("There is no summary; --set writes one.")


def _show_versions(versions: list[Summary], as_json: bool) -> None:
    if as_json:
        output.emit_json({"summaries": [json_output.summary_to_json(version) for version in versions]})
        return
    heads = [":version", ":age", "by", ":up to", "text"]
    output.print_table(heads, [_version_row(version) for version in versions])


def _version_row(version: Summary) -> list[Span]:
    return [
        TerminalText(str(version.key), "name"),
        format_age(version.created_at),
        version.origin,
        "" if version.up_to_turn is None else str(version.up_to_turn),
        TerminalText(version.text, "title" if version.current else "quiet"),
    ]


# ── facts ─────────────────────────────────────────────────────────────────────────────────────────


@click.group(cls=DefaultGroup, default="list", default_if_no_args=True)
def facts() -> None:
    """What all agents may know, one fact a line."""


@facts.command("list")
@click.option("--scope", "scopes", multiple=True, help="Only what is of that scope; may be given again.")
@click.option("--retired", is_flag=True, help="Also those that no longer stand.")
@json_option
@with_store
def list_facts(store: Store, scopes: tuple[str, ...], retired: bool, as_json: bool) -> None:
    """The facts that stand, oldest first."""
    found = store.facts.current(scopes or None, retired=retired)
    if as_json:
        output.emit_json({"facts": [json_output.fact_to_json(fact) for fact in found]})
        return
    output.print_table([":n", ":age", "scope", "category", "text"], [_fact_row(fact) for fact in found])
    if not found:
        output.notify("No facts yet; `backscroll facts add TEXT` adds one.")
    for name in dict.fromkeys(scopes or (GLOBAL_SCOPE,)):
        lines, limit = len(store.facts.blob(name).splitlines()), read_max_lines()
        if lines > limit:
            output.notify(f"{name} has {lines:,} of {limit:,} lines; `backscroll facts consolidate` makes them fewer.")


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
@click.option("--category", default="", help="What it is about.")
@click.option("--session", "session_id", metavar="ID", help="The session it was learnt from.")
@click.option("--entry", type=NON_NEGATIVE_INT, metavar="SEQ", help="The entry of that session.")
@with_store
def add(store: Store, text: str, scope: str, category: str, session_id: str | None, entry: int | None) -> None:
    """Learn TEXT, a fact a line; prints the number of each that is new."""
    session = store.sessions.find(session_id) if session_id else None
    learned = store.facts.learn(text, session=session, entry_seq=entry, scope=scope, category=category)
    for fact in learned.facts:
        output.write(str(fact.id))
    if not learned.facts:
        output.notify("That is known already.")


@facts.command()
@fact_number_argument
@click.argument("text")
@click.option("--category", help="Also what it is about.")
@with_store
def edit(store: Store, number: int, text: str, category: str | None) -> None:
    """Say fact N otherwise."""
    store.facts.edit(number, text, category=category)


@facts.command()
@fact_numbers_argument
@with_store
def retire(store: Store, numbers: tuple[int, ...]) -> None:
    """Let facts stand no longer."""
    store.facts.retire_all(numbers)


@facts.command()
@fact_number_argument
@with_store
def restore(store: Store, number: int) -> None:
    """Let fact N stand again."""
    store.facts.restore(number)


@facts.command()
@click.argument("category")
@fact_numbers_argument
@with_store
def categorise(store: Store, category: str, numbers: tuple[int, ...]) -> None:
    """Say what facts are about; an empty CATEGORY says nothing."""
    store.facts.categorise(numbers, category)


@facts.command()
@click.argument("text")
@fact_numbers_argument
@with_store
def merge(store: Store, text: str, numbers: tuple[int, ...]) -> None:
    """Make facts one that says TEXT; prints its number."""
    output.write(str(store.facts.merge(numbers, text).id))


@facts.command("write-back")
@fact_number_argument
@dry_run_option
@passphrase_stdin_option
@json_option
@with_store
def write_back(store: Store, number: int, dry_run: bool, passphrase_stdin: bool, as_json: bool) -> None:
    """Carry fact N, and what else was corrected of its store's, back there."""
    fact = store.facts.get(number)
    run_write_back(store, lambda: store.write_back.preview_facts(fact), dry_run, passphrase_stdin, as_json)


@facts.command()
@fact_number_argument
@json_option
@with_store
def history(store: Store, number: int, as_json: bool) -> None:
    """How fact N came to say what it says, oldest first."""
    edits = store.facts.history(number)
    if as_json:
        output.emit_json({"history": [json_output.edit_to_json(edit) for edit in edits]})
    else:
        write_edits(edits)


@facts.command()
@click.argument("file", metavar="FILE|-")
@scope_option
@click.option("--dry-run", is_flag=True, help="Only show the difference.")
@with_store
def consolidate(store: Store, file: str, scope: str, dry_run: bool) -> None:
    """Make the lines of FILE the facts of a scope; prints the difference."""
    text = read_file_or_stdin(file)
    if not text.strip():
        raise BadValue(f"{'stdin' if file == '-' else file} is empty, and every fact would be retired.")
    change = store.facts.diff if dry_run else store.facts.consolidate
    difference = change(text, scope)
    for line in difference.text.splitlines():
        output.write(TerminalText(line, _DIFF_STYLES.get(line[:1], "quiet")))
    done = "Would be" if dry_run else "Done:"
    told = f"{len(difference.edited)} reworded, {len(difference.added)} added, {len(difference.retired)} retired"
    output.notify(f"{done} {told}.")
