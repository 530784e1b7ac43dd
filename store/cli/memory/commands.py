"""This module defines the command group `memory`: what agents remember in files, and what that costs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import click

from store.cli import output
from store.cli.facts import fact_numbers_argument, push_automatically
from store.cli.lazy_group import ListGroup
from store.cli.memory.memory_json import (
    blame_to_json,
    budget_to_json,
    listed_file_to_json,
    merge_to_json,
    pull_to_json,
    push_to_json,
)
from store.cli.options import json_option, with_store
from store.cli.output import Span, Style, TerminalText, format_age, format_count
from store.errors import BadValue
from store.memory.memory_files import find_folder
from store.memory.merging import list_options
from store.memory.rules import AGENTS
from store.model.memory import (
    AgentBudget,
    Audience,
    BlamedLine,
    FileBlame,
    LineEdit,
    LineOrigin,
    LoadedFile,
    MemoryBudget,
    MergeOption,
    PushPlan,
)
from store.store import Store

agents_option = click.option(
    "--agent", "agents", metavar="NAME", multiple=True, help="Only files of this agent. Can be repeated."
)


@click.group(cls=ListGroup, default="list", default_if_no_args=True)
def memory() -> None:
    """List the memory files of agents, such as CLAUDE.md and AGENTS.md, and what they cost.

    Each line or bullet of such a file is a fact. Without a command, list the facts.
    """


@memory.command("list")
@click.argument("folders", metavar="[FOLDER]...", nargs=-1, type=click.Path(path_type=Path))
@agents_option
@json_option
@with_store
def list_lines(store: Store, folders: Sequence[Path], agents: tuple[str, ...], as_json: bool) -> None:
    """List the lines of all memory files, with the agents that load them.

    Without a FOLDER, those of all folders in which agents were started.
    """
    chosen = [find_folder(folder) for folder in folders] or None
    files = store.memory_files.list_files(chosen, agents or AGENTS)
    if as_json:
        output.emit_json({"files": [listed_file_to_json(file) for file in files]})
        return
    rows: list[list[Span]] = [
        [
            TerminalText(f"{shorten_path(listed.file.path)}:{line.number}", "name"),
            listed.scope,
            ", ".join(listed.agents),
            line.text,
        ]
        for listed in files
        for line in listed.file.lines
    ]
    output.print_table(["file", "scope", "agents", "text"], rows)
    for listed in files:
        if listed.file.problem:
            output.notify(listed.file.problem)
    if not files:
        output.notify("No memory files found.")


def shorten_path(path: str) -> str:
    """Return a path with `~` for the home folder on a terminal, and unchanged in a file or a pipe."""
    home = str(Path.home())
    is_inside = output.stdout_is_terminal() and path.startswith(home + "/")
    return "~" + path.removeprefix(home) if is_inside else path


@memory.command()
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@agents_option
@json_option
@with_store
def budget(store: Store, folder: Path, agents: tuple[str, ...], as_json: bool) -> None:
    """Show what each agent loads in a FOLDER, in its order, with tokens.

    Also show what is cut or not loaded, what an agent loads twice, and keys with different values. The tokens are
    estimated.
    """
    found = store.memory_files.budget(find_folder(folder), agents or AGENTS)
    if as_json:
        output.emit_json(budget_to_json(found))
        return
    for agent in found.agents:
        _print_agent(agent)
    _print_findings(found)
    for problem in found.problems:
        output.notify(problem)
    if not found.agents:
        output.notify(f"No agent finds a memory file in {found.folder}.")


def _print_agent(agent: AgentBudget) -> None:
    cut = f", {agent.cut_bytes:,} bytes are cut" if agent.cut_bytes else ""
    output.write(TerminalText(agent.agent, "title"), f"  about {format_count(agent.tokens, 'token')} at the start{cut}")
    for file in agent.files:
        tokens = "-" if file.when == "not loaded" else f"{file.tokens:,}"
        style: Style = "plain" if file.when == "start" else "quiet"
        name = shorten_path(file.path)
        output.write(TerminalText(f"  {tokens:>8}  {file.when:<10}  {file.tier:<12}  {name}", style), _describe(file))


def _describe(file: LoadedFile) -> str:
    imported = f"Imported by {shorten_path(file.imported_by)}." if file.imported_by else ""
    notes = " ".join(filter(None, [imported, file.reason]))
    return f"  {notes}" if notes else ""


def _print_findings(budget: MemoryBudget) -> None:
    for duplicate in budget.duplicates:
        output.write(TerminalText("twice", "hit"), f"  {', '.join(duplicate.agents)}: {duplicate.text}")
        for place in duplicate.places:
            output.write(f"    {shorten_path(place.path)}:{place.number}")
    for conflict in budget.conflicts:
        output.write(TerminalText("differs", "bad"), f"  {', '.join(conflict.agents)}: {conflict.key}")
        for place in conflict.places:
            output.write(f"    {shorten_path(place.path)}:{place.number}  {place.text}")


# ── sharing ───────────────────────────────────────────────────────────────────────────────────────

audience_agent_option = click.option(
    "--agent", metavar="NAME", default="", help="Only this agent. Default: all agents."
)
audience_folder_option = click.option(
    "--folder", type=click.Path(path_type=Path), help="Only in this folder. Default: everywhere."
)


@memory.command()
@fact_numbers_argument
@audience_agent_option
@audience_folder_option
@with_store
def share(store: Store, numbers: tuple[int, ...], agent: str, folder: Path | None) -> None:
    """Share facts with agents, in their memory files.

    `memory push` writes the files.
    """
    store.shared_facts.share(numbers, _choose_audience(agent, folder))
    push_automatically(store)


@memory.command()
@fact_numbers_argument
@audience_agent_option
@audience_folder_option
@with_store
def unshare(store: Store, numbers: tuple[int, ...], agent: str, folder: Path | None) -> None:
    """Stop sharing facts with an audience.

    `memory push` takes them out of the files.
    """
    store.shared_facts.unshare(numbers, _choose_audience(agent, folder))
    push_automatically(store)


def _choose_audience(agent: str, folder: Path | None) -> Audience:
    return Audience(agent, str(find_folder(folder)) if folder else "")


@memory.command()
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@json_option
@with_store
def push(store: Store, dry_run: bool, as_json: bool) -> None:
    """Write shared facts into the memory files of their agents.

    They are written into a block between two marks. For Claude Code they get a file of their own, and CLAUDE.md one
    line that imports it. A backup is taken first, and `backscroll undo` reverses it.
    """
    plan = store.shared_facts.plan_push()
    backup = None if dry_run else store.shared_facts.push(plan)
    if as_json:
        output.emit_json(push_to_json(plan, backup, dry_run))
    else:
        print_push_plan(plan, backup)
        if not plan.changed and not plan.problems:
            output.notify("Nothing to push." if plan.files else "No facts are shared. Run `backscroll memory share N`.")
    if plan.problems:
        raise click.exceptions.Exit(1)


def print_push_plan(plan: PushPlan, backup: Path | None) -> None:
    """Print the diff of every file, what to know about it, and where the backup is."""
    for file in plan.changed:
        write_diff(file.diff)
        for note in file.notes:
            output.notify(note)
    for problem in plan.problems:
        output.notify(problem)
    if backup is not None:
        output.notify(f"{format_count(len(plan.changed), 'file')} written; the backup is {backup}.")


def write_diff(diff: str) -> None:
    styles: dict[str, Style] = {"+": "good", "-": "bad", "@": "quiet"}
    for line in diff.splitlines():
        is_head = line.startswith(("---", "+++"))
        output.write(TerminalText(line, "name" if is_head else styles.get(line[:1], "plain")))


@memory.command()
@click.option("--dry-run", is_flag=True, help="Only show the edits.")
@click.option(
    "--take", type=click.Choice(["here", "there"]), help="Of facts edited here and in a file, keep this text."
)
@json_option
@with_store
def pull(store: Store, dry_run: bool, take: Literal["here", "there"] | None, as_json: bool) -> None:
    """Read edits that were made by hand in pushed blocks back as edits of the facts."""
    plan = store.shared_facts.plan_pull()
    is_refused = bool(plan.conflicts) and take is None
    count = 0 if dry_run or is_refused else store.shared_facts.pull(plan, take)
    if as_json:
        output.emit_json(pull_to_json(plan, dry_run or is_refused))
    else:
        for edit in plan.edits:
            _print_edit(edit)
        for problem in plan.problems:
            output.notify(problem)
        if is_refused:
            output.notify(
                "Some facts were edited here and there, so nothing was pulled. Use --take here or --take there."
            )
        elif not dry_run:
            output.notify(f"{format_count(count, 'edit')} pulled." if count else "Nothing to pull.")
    if is_refused or plan.problems:
        raise click.exceptions.Exit(1)


def _print_edit(edit: LineEdit) -> None:
    number = f"fact {edit.fact}" if edit.fact else "new fact"
    output.write(TerminalText(number, "title"), f"  {edit.kind} in {shorten_path(edit.path)}")
    if edit.base:
        output.write(TerminalText(f"  - {edit.base}", "bad"))
    if edit.is_conflict:
        output.write(f"  here:  {edit.here or '(retired)'}")
        output.write(f"  there: {edit.there or '(removed)'}")
    elif edit.there:
        output.write(TerminalText(f"  + {edit.there}", "good"))


@memory.command()
@click.argument("key")
@click.argument("folder", default=".", type=click.Path(path_type=Path))
@click.option("--take", metavar="N", type=click.IntRange(1), help="Give all lines the text with this number.")
@click.option("--text", help="Give all lines this text, e.g. `Database: PostgreSQL 17`.")
@click.option("--dry-run", is_flag=True, help="Only show what would change.")
@json_option
@with_store
def merge(
    store: Store, key: str, folder: Path, take: int | None, text: str | None, dry_run: bool, as_json: bool
) -> None:
    """Show the different values of a KEY in what agents load in a FOLDER, or give all lines with it one value.

    A backup is taken first, and `backscroll undo` reverses it. A pushed line is changed in its fact, too.
    """
    if take is not None and text is not None:
        raise click.UsageError("Use either --take or --text.")
    conflict = store.memory_files.find_conflict(find_folder(folder), key)
    options = list_options(conflict)
    if take is not None:
        if take > len(options):
            raise BadValue(f"There is no value {take}. Choose from 1 to {len(options)}.")
        text = options[take - 1].text
    plan = None if text is None else store.memory_files.plan_merge(conflict, text)
    backup = None if plan is None or dry_run else store.memory_files.merge(plan)
    if as_json:
        output.emit_json(merge_to_json(conflict, plan, backup, dry_run))
    elif plan is None:
        _print_options(options)
    else:
        print_push_plan(plan, backup)
    if plan is not None and plan.problems:
        raise click.exceptions.Exit(1)


def _print_options(options: Sequence[MergeOption]) -> None:
    rows: list[list[Span]] = [
        [
            str(number) if not index else "",
            option.text if not index else "",
            f"{shorten_path(place.path)}:{place.number}",
        ]
        for number, option in enumerate(options, 1)
        for index, place in enumerate(option.places)
    ]
    output.print_table([":take", "text", "file"], rows)
    output.notify("Run it again with --take N, or with --text and another text.")


# ── blame ─────────────────────────────────────────────────────────────────────────────────────────

_FILE_AND_LINE = re.compile(r"(.+):(\d{1,9})")


@memory.command()
@click.argument("place", metavar="FILE[:LINE]")
@json_option
@with_store
def blame(store: Store, place: str, as_json: bool) -> None:
    """Show who wrote each line of a memory FILE: a turn of a session, a git commit, or a person.

    With a LINE, also show what it said before, and the sessions that loaded the file since.
    """
    path, number = _split_place(place)
    found = store.memory_files.blame(path, number)
    if as_json:
        output.emit_json(blame_to_json(found))
        return
    if number is None:
        rows = [_blame_row(line) for line in found.lines]
        output.print_table([":line", ":age", "written by", "text"], rows)
        if not found.lines:
            output.notify(f"{path} has no facts.")
    else:
        _print_line(found)
    if found.unread_sessions:
        unread = format_count(found.unread_sessions, "session")
        output.notify(f"Not completely read yet: {unread}. Run `backscroll sync`.")


def _split_place(place: str) -> tuple[Path, int | None]:
    match = None if Path(place).exists() else _FILE_AND_LINE.fullmatch(place)
    return (Path(match[1]), int(match[2])) if match else (Path(place), None)


def _blame_row(found: BlamedLine) -> list[Span]:
    at = format_age(found.origin.at) if found.origin.at else ""
    return [str(found.line.number), at, TerminalText(_describe_origin(found.origin), "name"), found.line.text]


def _describe_origin(origin: LineOrigin) -> str:
    match origin.kind:
        case "session":
            return f"{origin.session_id} turn {origin.turn}"
        case "commit":
            return f"{origin.commit[:10]} {origin.author}"
        case "fact":
            return f"pushed, fact {origin.fact}"
    return "by hand"


def _print_line(found: FileBlame) -> None:
    for blamed in found.lines:
        output.write(TerminalText(blamed.line.text, "title"))
        _print_origin("Written", blamed.origin)
        for earlier in blamed.earlier:
            output.write(TerminalText(f"Before: {earlier.text}", "bad"))
            _print_origin("  Written", earlier.origin)
    since = " since" if all(blamed.origin.at for blamed in found.lines) else ""
    output.write(f"Loaded by {format_count(found.loading_count, 'session')}{since}.")
    for session in found.loading:
        evidence = "recorded" if session.is_recorded else "by the rules of the agent"
        output.write(f"  {format_age(session.at):>4}  ", TerminalText(session.session_id, "name"), f"  {evidence}")


def _print_origin(verb: str, origin: LineOrigin) -> None:
    age = f", {_format_ago(origin.at)}" if origin.at else ""
    match origin.kind:
        case "session":
            title = output.to_one_line(origin.title, 60)
            how = f"{origin.agent} with {origin.tool} in turn {origin.turn} of {origin.session_id}"
            output.write(f"{verb} by {how}{age}: {title}")
        case "commit":
            output.write(f"{verb} by {origin.author} in commit {origin.commit[:10]}{age}: {origin.summary}")
        case "fact":
            output.write(f"{verb} by `backscroll memory push` as fact {origin.fact}.")
        case "hand":
            output.write(f"{verb} by hand, as far as the store knows.")


def _format_ago(at: str) -> str:
    """Return an age on a terminal, and a time elsewhere."""
    age = format_age(at)
    return age if age in (at, "now") else f"{age} ago"
