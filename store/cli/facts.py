"""What outlives a conversation: its summary, and the facts that all agents share."""

from __future__ import annotations

import click

from store.cli import json_output, output
from store.cli.journal import write_edits
from store.cli.lazy_group import DefaultGroup
from store.cli.options import NUMBER, as_json, read_named, read_stdin, session_id, with_store
from store.cli.output import Ink, Piece, Style, age
from store.cli.secrets import passphrase_on_stdin
from store.cli.write_back import carry_back, rows_only
from store.edits.facts import line_limit
from store.errors import BadValue
from store.model.knowledge import Fact, Summary
from store.model.session import GLOBAL
from store.store import Store

scope = click.option("--scope", default=GLOBAL, show_default=True, help="Who may know it.")
number = click.argument("number", metavar="N", type=NUMBER)
numbers = click.argument("numbers", metavar="N...", type=NUMBER, nargs=-1, required=True)

_DIFFERENCES: dict[str, Style] = {"+": "good", "-": "bad"}


@click.command()
@session_id
@click.option("--set", "text", metavar="TEXT|-", help="Write a new one; - reads it from stdin.")
@click.option("--up-to", "up_to_turn", type=NUMBER, metavar="TURN", help="The last turn that the new one covers.")
@click.option("--history", is_flag=True, help="Every version, newest first.")
@click.option("--put-back", type=NUMBER, metavar="VERSION", help="Make an older version the current one.")
@as_json
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
        store.summaries.put_back(session, put_back)
    elif history:
        _show_versions(store.summaries.history(session), as_json)
    else:
        _show_summary(store.summaries.current(session), as_json)
        newer = store.summaries.newer_from_source(session)
        if newer is not None:
            output.say(f"The agent has written a newer one; --put-back {newer.key} takes it.")


def _show_summary(current: Summary | None, as_json: bool) -> None:
    if as_json:
        output.emit_json({"summary": json_output.summary(current) if current else None})
    elif current is not None:
        output.write(current.text)
    else:
        output.say("There is no summary; --set writes one.")


def _show_versions(versions: list[Summary], as_json: bool) -> None:
    if as_json:
        output.emit_json({"summaries": [json_output.summary(version) for version in versions]})
        return
    heads = [":version", ":age", "by", ":up to", "text"]
    output.table(heads, [_version_row(version) for version in versions])


def _version_row(version: Summary) -> list[Piece]:
    return [
        Ink(str(version.key), "name"),
        age(version.created_at),
        version.origin,
        "" if version.up_to_turn is None else str(version.up_to_turn),
        Ink(version.text, "title" if version.current else "quiet"),
    ]


# ── facts ─────────────────────────────────────────────────────────────────────────────────────────


@click.group(cls=DefaultGroup, default="list", default_if_no_args=True)
def facts() -> None:
    """What all agents may know, one fact a line."""


@facts.command("list")
@click.option("--scope", "scopes", multiple=True, help="Only what is of that scope; may be given again.")
@click.option("--retired", is_flag=True, help="Also those that no longer stand.")
@as_json
@with_store
def list_facts(store: Store, scopes: tuple[str, ...], retired: bool, as_json: bool) -> None:
    """The facts that stand, oldest first."""
    found = store.facts.current(scopes or None, retired=retired)
    if as_json:
        output.emit_json({"facts": [json_output.fact(fact) for fact in found]})
        return
    output.table([":n", ":age", "scope", "category", "text"], [_fact_row(fact) for fact in found])
    if not found:
        output.say("No facts yet; `backscroll facts add TEXT` adds one.")
    for name in dict.fromkeys(scopes or (GLOBAL,)):
        lines, limit = len(store.facts.blob(name).splitlines()), line_limit()
        if lines > limit:
            output.say(f"{name} has {lines:,} of {limit:,} lines; `backscroll facts consolidate` makes them fewer.")


def _fact_row(fact: Fact) -> list[Piece]:
    return [
        Ink(str(fact.id), "name"),
        age(fact.updated_at),
        fact.scope,
        fact.category,
        Ink(fact.text, "quiet" if fact.retired_at else "plain"),
    ]


@facts.command()
@click.argument("text")
@scope
@click.option("--category", default="", help="What it is about.")
@click.option("--session", "session_id", metavar="ID", help="The session it was learnt from.")
@click.option("--entry", type=NUMBER, metavar="SEQ", help="The entry of that session.")
@with_store
def add(store: Store, text: str, scope: str, category: str, session_id: str | None, entry: int | None) -> None:
    """Learn TEXT, a fact a line; prints the number of each that is new."""
    session = store.sessions.find(session_id) if session_id else None
    learned = store.facts.learn(text, session=session, entry_seq=entry, scope=scope, category=category)
    for fact in learned.facts:
        output.write(str(fact.id))
    if not learned.facts:
        output.say("That is known already.")


@facts.command()
@number
@click.argument("text")
@click.option("--category", help="Also what it is about.")
@with_store
def edit(store: Store, number: int, text: str, category: str | None) -> None:
    """Say fact N otherwise."""
    store.facts.edit(number, text, category=category)


@facts.command()
@numbers
@with_store
def retire(store: Store, numbers: tuple[int, ...]) -> None:
    """Let facts stand no longer."""
    store.facts.retire_all(numbers)


@facts.command()
@number
@with_store
def restore(store: Store, number: int) -> None:
    """Let fact N stand again."""
    store.facts.restore(number)


@facts.command()
@click.argument("category")
@numbers
@with_store
def categorise(store: Store, category: str, numbers: tuple[int, ...]) -> None:
    """Say what facts are about; an empty CATEGORY says nothing."""
    store.facts.categorise(numbers, category)


@facts.command()
@click.argument("text")
@numbers
@with_store
def merge(store: Store, text: str, numbers: tuple[int, ...]) -> None:
    """Make facts one that says TEXT; prints its number."""
    output.write(str(store.facts.merge(numbers, text).id))


@facts.command("write-back")
@number
@rows_only
@passphrase_on_stdin
@as_json
@with_store
def write_back(store: Store, number: int, dry_run: bool, passphrase_stdin: bool, as_json: bool) -> None:
    """Carry fact N, and what else was corrected of its store's, back there."""
    fact = store.facts.get(number)
    carry_back(store, lambda: store.writing_back.preview_facts(fact), dry_run, passphrase_stdin, as_json)


@facts.command()
@number
@as_json
@with_store
def history(store: Store, number: int, as_json: bool) -> None:
    """How fact N came to say what it says, oldest first."""
    edits = store.facts.history(number)
    if as_json:
        output.emit_json({"history": [json_output.edit(edit) for edit in edits]})
    else:
        write_edits(edits)


@facts.command()
@click.argument("file", metavar="FILE|-")
@scope
@click.option("--dry-run", is_flag=True, help="Only show the difference.")
@with_store
def consolidate(store: Store, file: str, scope: str, dry_run: bool) -> None:
    """Make the lines of FILE the facts of a scope; prints the difference."""
    text = read_named(file)
    if not text.strip():
        raise BadValue(f"{'stdin' if file == '-' else file} is empty, and every fact would be retired.")
    change = store.facts.difference if dry_run else store.facts.consolidate
    difference = change(text, scope)
    for line in difference.text.splitlines():
        output.write(Ink(line, _DIFFERENCES.get(line[:1], "quiet")))
    done = "Would be" if dry_run else "Done:"
    told = f"{len(difference.edited)} reworded, {len(difference.added)} added, {len(difference.retired)} retired"
    output.say(f"{done} {told}.")
