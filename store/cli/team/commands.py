"""This module defines the command group `team`: sharing sessions and facts through a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Sequence

import click

from store.cli import output
from store.cli.json_output import dollars
from store.cli.lazy_group import ListGroup
from store.cli.options import (
    NON_NEGATIVE_INT,
    POSITIVE_INT,
    find_sessions,
    is_interactive,
    json_option,
    session_id_argument,
    session_ids_argument,
    with_store,
)
from store.cli.output import Span, TerminalText, format_count
from store.cli.sharing.leak_options import (
    allow_leaks_option,
    choose_policy,
    passphrase_stdin_option,
    redact_option,
    run_gated,
)
from store.cli.team.team_json import (
    conflict_to_json,
    machine_to_json,
    metrics_to_json,
    request_to_json,
    share_to_json,
    status_to_json,
    sync_to_json,
)
from store.errors import StoreError
from store.model.team import TeamMachine, TeamStatus, TeamSync
from store.store import Store
from store.team.keys import format_fingerprint
from store.team.server import PasswordNeeded

FOLLOW_SECONDS = 2.0
PLAIN_TEAM = "This team is plain: its server can read the titles, prompts and answers of the sessions that you share."


@click.group(cls=ListGroup, default="status", default_if_no_args=True)
def team() -> None:
    """Share sessions and facts with other machines, through a PostgreSQL database that you already have.

    Nothing is shared until you share it. Texts are encrypted before they leave this machine. Without a command, show
    the status.
    """


# ── membership ────────────────────────────────────────────────────────────────────────────────────


@team.command()
@click.argument("address", metavar="postgresql://HOST/NAME")
@click.option("--name", default="", help="Your name in the team. The name of this computer if you leave it out.")
@click.option("--plain", is_flag=True, help="Let the server read and search what is said in shared sessions.")
@json_option
@with_store
def join(store: Store, address: str, name: str, plain: bool, as_json: bool) -> None:
    """Join the team in a database, or found it there.

    Leave the password out of the address: set PGPASSWORD, add it to ~/.pgpass, or type it when you are asked. A typed
    password is sealed with the key file.

    A team that is founded with --plain can be searched on its server: whoever runs the database can read the titles,
    prompts and answers of shared sessions. All others who join it need --plain, too.
    """
    try:
        status = store.team.join(address, name, is_plain=plain)
    except PasswordNeeded:
        if not is_interactive():
            raise
        password = click.prompt("Password", hide_input=True, err=True)
        status = store.team.join(address, name, password, is_plain=plain)
    if as_json:
        output.emit_json({"team": status_to_json(status)})
        return
    output.notify(f"Joined as {status.name}. Your fingerprint: {format_fingerprint(status.machine)}")
    if status.is_plain:
        output.notify(PLAIN_TEAM)
    others = [machine for machine in status.machines if not machine.is_own]
    if others:
        output.notify("Compare fingerprints with the others, then run `backscroll team trust NAME FINGERPRINT`.")
        _write_machines(others)


@team.command()
@json_option
@with_store
def status(store: Store, as_json: bool) -> None:
    """Show what is shared, what waits, and what was refused."""
    result, problem = store.team.status(), ""
    try:
        result = store.team.status(asks_server=True)
    except StoreError as error:  # what is known here is shown without the server, too
        problem = str(error)
    if as_json:
        output.emit_json({"team": status_to_json(result) | {"problem": problem or None}})
        return
    _write_status(result)
    if problem:
        output.notify(problem)


def _write_status(result: TeamStatus) -> None:
    output.write(TerminalText(result.name, "name"), f"  {format_fingerprint(result.machine)}  {result.locator}")
    shared, received = format_count(result.shared, "session"), format_count(result.received, "session")
    output.write(f"You share {shared}. You have {received} of others.")
    if result.waiting:
        output.write(f"{format_count(result.waiting, 'change')} not sent yet.")
    if result.conflicts:
        output.write(f"{format_count(result.conflicts, 'conflict')}. Run `backscroll team conflicts`.")
    if result.requests:
        output.write(f"{format_count(result.requests, 'request')}. Run `backscroll team requests`.")
    for share in result.held:
        output.write(TerminalText("not sent", "bad"), f"  {share.session_id}: {share.held}")
    for reason in result.refused:
        output.write(TerminalText("refused", "bad"), f"  {reason}")
    _write_machines([machine for machine in result.machines if not machine.is_own])
    if result.is_plain:
        output.notify(PLAIN_TEAM)
    if result.shares_role:
        sealed = "" if result.is_plain else "Texts are encrypted all the same. "
        output.notify(
            "The database cannot tell members apart, because they share a role or it may do everything. "
            f"{sealed}Give each member a role of its own."
        )


@team.command()
@with_store
def leave(store: Store) -> None:
    """Withdraw what you share, remove what you received, and leave the team."""
    removed = store.team.leave()
    output.notify(f"You left the team. {format_count(removed, 'session')} of others removed.")


@team.command()
@json_option
@with_store
def members(store: Store, as_json: bool) -> None:
    """List the machines of all members, with their fingerprints."""
    machines = store.team.status(asks_server=True).machines
    if as_json:
        output.emit_json({"members": [machine_to_json(machine) for machine in machines]})
    else:
        _write_machines(machines)


def _write_machines(machines: Sequence[TeamMachine]) -> None:
    rows: list[list[Span]] = [
        [TerminalText(machine.name, "name"), format_fingerprint(machine.machine), _describe_trust(machine)]
        for machine in machines
    ]
    output.print_table(["member", "fingerprint", "state"], rows)


def _describe_trust(machine: TeamMachine) -> str:
    if machine.is_own:
        return "this machine"
    if machine.has_left:
        return "left the team"
    if machine.trusted_at:
        return "trusted"
    return f"not trusted, {format_count(machine.waiting, 'change')} not read" if machine.waiting else "not trusted"


@team.command()
@click.argument("name")
@click.argument("fingerprint", nargs=-1, required=True)
@with_store
def trust(store: Store, name: str, fingerprint: tuple[str, ...]) -> None:
    """Trust a machine of a member.

    Compare the FINGERPRINT with what `backscroll team status` shows on that machine. Only trusted machines can read
    what you share, and only what they send is read here.
    """
    machine = store.team.trust(name, "".join(fingerprint))
    output.notify(f"{machine.name} is trusted. Run `backscroll team sync` to exchange what is shared.")


# ── sharing ───────────────────────────────────────────────────────────────────────────────────────


@team.command()
@session_ids_argument
@click.option("--with", "names", metavar="NAME", multiple=True, help="Only with this member. Can be repeated.")
@redact_option
@allow_leaks_option
@passphrase_stdin_option
@with_store
def share(
    store: Store,
    session_ids: tuple[str, ...],
    names: tuple[str, ...],
    redact: bool,
    allow_leaks: bool,
    passphrase_stdin: bool,
) -> None:
    """Share sessions with the team, with their sub-agents and everything that is added later.

    A session with certain leaks is refused, unless you choose --redact or --allow-leaks. `team sync` sends it.
    """
    sessions = find_sessions(store, session_ids)
    policy = choose_policy(redact, allow_leaks)

    def share_all() -> None:
        for session in sessions:
            store.team.share(session, names, policy)

    run_gated(store, share_all, passphrase_stdin)
    output.notify(f"{format_count(len(sessions), 'session')} shared. Run `backscroll team sync` to send now.")


@team.command()
@session_ids_argument
@with_store
def unshare(store: Store, session_ids: tuple[str, ...]) -> None:
    """Withdraw sessions.

    Their text is removed from the database, and from the stores of the others when they sync next. Copies that others
    forked, exported or backed up cannot be recalled.
    """
    sessions = find_sessions(store, session_ids)
    for session in sessions:
        store.team.unshare(session)
    output.notify(
        f"{format_count(len(sessions), 'session')} withdrawn. Forks, exports and backups of others cannot be recalled. "
        "Run `backscroll team sync` to send this now."
    )


@team.command()
@json_option
@with_store
def shared(store: Store, as_json: bool) -> None:
    """List the sessions that you share, and those that are shared with you."""
    shares = store.team.list_shares()
    if as_json:
        output.emit_json({"shared": [share_to_json(one) for one in shares]})
        return
    rows: list[list[Span]] = [
        [
            TerminalText(one.session_id or "", "name"),
            "you" if one.is_own else one.owner,
            ", ".join("everybody" if name == "*" else name for name in one.audience) if one.is_own else "",
            one.held,
        ]
        for one in shares
    ]
    output.print_table(["session", "owner", "with", "problem"], rows)
    if not shares:
        output.notify("Nothing is shared. Run `backscroll team share ID`.")


@team.command()
@session_id_argument
@click.argument("text")
@click.option("--turn", type=NON_NEGATIVE_INT, metavar="N", help="Comment on turn N instead of the session.")
@with_store
def comment(store: Store, session_id: str, text: str, turn: int | None) -> None:
    """Add a comment to a shared session. Everybody who can read the session sees it.

    The number of the note is printed.
    """
    session = store.sessions.find(session_id)
    seq = store.chains.turns(session.key, turn)[0].entries[0].seq if turn is not None else None
    output.write(str(store.team.comment(session, text, seq).id))


# ── exchanging ────────────────────────────────────────────────────────────────────────────────────


@team.command()
@click.option("--follow", is_flag=True, help="Keep exchanging changes until Ctrl+C.")
@json_option
@with_store
def sync(store: Store, follow: bool, as_json: bool) -> None:
    """Send what changed here, and read what others sent."""
    if not follow:
        with output.progress_bar("Exchanging") as show:
            result = store.team.sync(show)
        if as_json:
            output.emit_json({"team": sync_to_json(result)})
        else:
            output.notify(_describe_sync(result) or "Nothing new.")
        return
    if as_json:
        raise click.UsageError("--follow cannot be used with --json.")
    for result in store.team.follow(FOLLOW_SECONDS):
        if text := _describe_sync(result):
            output.notify(text)


def _describe_sync(result: TeamSync) -> str:
    parts = [
        f"{format_count(result.pushed, 'change')} sent" if result.pushed else "",
        f"{format_count(result.pulled, 'change')} received" if result.pulled else "",
        f"{format_count(len(result.new_sessions), 'new session')}" if result.new_sessions else "",
        f"{format_count(len(result.ended_sessions), 'session')} withdrawn" if result.ended_sessions else "",
        f"{len(result.refused)} refused; see `backscroll team status`" if result.refused else "",
    ]
    text = ", ".join(filter(None, parts))
    return f"{text}." if text else ""


@team.command()
@json_option
@with_store
def conflicts(store: Store, as_json: bool) -> None:
    """List values that were changed on two machines at once.

    The newer one counts; `team choose` brings back the other one.
    """
    found = store.team.conflicts()
    if as_json:
        output.emit_json({"conflicts": [conflict_to_json(conflict) for conflict in found]})
        return
    rows: list[list[Span]] = [
        [
            TerminalText(str(conflict.key), "name"),
            f"{conflict.kind} of {conflict.session_id}" if conflict.session_id else conflict.kind,
            f"{conflict.kept_author}: {conflict.kept_text}",
            f"{conflict.author}: {conflict.lost_text}",
        ]
        for conflict in found
    ]
    output.print_table([":n", "value", "counts", "other"], rows)
    if not found:
        output.notify("No conflicts.")


@team.command()
@click.argument("number", metavar="N", type=POSITIVE_INT)
@click.argument("which", type=click.Choice(["kept", "other"]))
@with_store
def choose(store: Store, number: int, which: str) -> None:
    """Settle conflict N: keep the value that counts, or bring back the other one for everybody."""
    store.team.choose(number, lost=which == "other")


# ── asking ────────────────────────────────────────────────────────────────────────────────────────


@team.command()
@click.argument("name")
@click.argument("session_id", metavar="ID")
@click.option("--turn", type=NON_NEGATIVE_INT, metavar="N", help="Ask for turn N only.")
@click.option("--reason", default="", help="Why you ask. The member sees it.")
@with_store
def ask(store: Store, name: str, session_id: str, turn: int | None, reason: str) -> None:
    """Ask a member for a session, or for one turn of it.

    ID is the id of the session on the member's machine, or the beginning of it. Only this member sees the request. Its
    number is printed.
    """
    output.write(store.team.requests.ask(name, session_id, turn, reason).number)
    output.notify("Run `backscroll team sync` to send it now.")


@team.command()
@json_option
@with_store
def requests(store: Store, as_json: bool) -> None:
    """List what members ask of you, and what you asked for."""
    found = store.team.requests.list_all()
    if as_json:
        output.emit_json({"requests": [request_to_json(request) for request in found]})
        return
    rows: list[list[Span]] = [
        [
            TerminalText(request.number, "name"),
            f"you ask {request.to}" if request.is_own else f"{request.asker} asks",
            request.session if request.turn is None else f"turn {request.turn} of {request.session}",
            request.state,
            request.reason,
        ]
        for request in found
    ]
    output.print_table(["number", "who", "session", "state", "reason"], rows)
    if not found:
        output.notify("No requests.")


@team.command()
@click.argument("number")
@redact_option
@allow_leaks_option
@passphrase_stdin_option
@with_store
def approve(store: Store, number: str, redact: bool, allow_leaks: bool, passphrase_stdin: bool) -> None:
    """Share what request NUMBER asks for, with its asker.

    One turn is shared as a session of its own, which has nothing else. `team unshare` takes it back. The id of what is
    shared is printed.
    """
    policy = choose_policy(redact, allow_leaks)

    def share_it() -> None:
        output.write(store.team.requests.approve(number, policy).id)

    run_gated(store, share_it, passphrase_stdin)
    output.notify("Shared. Run `backscroll team sync` to send it now.")


@team.command()
@click.argument("number")
@with_store
def decline(store: Store, number: str) -> None:
    """Decline request NUMBER, or take back your own one."""
    if store.team.requests.find(number).is_own:
        store.team.requests.withdraw(number)
    else:
        store.team.requests.decline(number)


# ── metrics ───────────────────────────────────────────────────────────────────────────────────────


@team.command()
@click.option("--by", type=click.Choice(["folder", "tool"]), help="One row for each folder or tool of each member.")
@json_option
@with_store
def metrics(store: Store, by: str | None, as_json: bool) -> None:
    """Show the figures that members share about their last 30 days.

    They have no content: counts, tokens and API value, by folder and by tool. Share yours with `metrics = true` in
    [team] of the config file.
    """
    found = store.team.metrics()
    if as_json:
        output.emit_json({"metrics": [metrics_to_json(member) for member in found]})
        return
    rows: list[list[Span]] = []
    for member in found:
        for row in {"folder": member.folders, "tool": member.tools}.get(by or "", (member.total,)):
            cost = dollars(row.cost)
            counts = (row.sessions, row.turns, row.tool_calls, row.errors, row.tokens)
            shown: list[Span] = [TerminalText(member.member, "name"), member.day, *([row.name] if by else [])]
            rows.append([*shown, *(f"{count:,}" for count in counts), "" if cost is None else f"{cost:,.2f}"])
    titles = [":sessions", ":turns", ":calls", ":failed", ":tokens", ":USD"]
    output.print_table(["member", "day", *([by] if by else []), *titles], rows)
    if not found:
        output.notify("No member shares figures. Set `metrics = true` in [team] of the config file to share yours.")
