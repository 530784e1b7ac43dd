"""This module lets a store take part in a team: join, share, and exchange what changed.

Everything works without the server: sessions are shared and facts are edited here, and travel with the next sync.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from os.path import expanduser
from typing import TYPE_CHECKING

from store.config import get_setting
from store.conversations.session_changes import SUB_AGENT_RELATIONS
from store.database.file_lock import hold_file_lock
from store.errors import Busy, NotFound, Refused
from store.export.options import ExportOptions
from store.export.reader import DocumentReader
from store.export.session_json import iter_described_entries
from store.leaks.gate import LeakPolicy, open_gate
from store.model.knowledge import Note
from store.model.session import Session
from store.model.team import MemberMetrics, Share, TeamHit, TeamHits, TeamMachine, TeamStatus, TeamSync, ValueConflict
from store.paths import load_config
from store.search.hits import find_snippet
from store.search.query import Query
from store.sources.kit.locator import parse_location
from store.team import server
from store.team.incoming import SHORT_ID, OperationReader, ShowProgress
from store.team.keys import MachineKeys
from store.team.membership import LocalTeam, Membership, ShareRow, encode_names
from store.team.metrics import METRICS, read_metrics
from store.team.operations import EVERYBODY, open_body
from store.team.outgoing import ChangeCollector
from store.team.plain_text import build_server_query
from store.team.requests import Requests
from store.team.server import TeamLost, TeamServer, parse_address
from store.text.validate import decode, validate_id

if TYPE_CHECKING:
    from store.store import Store

PUSHED_TOGETHER = 32
"""Is how many operations are pushed in one transaction. The body of each may be half a megabyte."""

LOCK_SECONDS = 30.0
"""Is how long a sync waits for the one of another process, such as the worker of an open browser."""

_COUNT_OWN = "select count(*) from team_shares where session is not null and ended_at is null and id like ? || '/%'"
_COUNT_RECEIVED = (
    "select count(*) from team_shares where session is not null and ended_at is null and id not like ? || '/%'"
)
_SELECT_NEVER_SHARED = """
    select id from sessions where deleted = 0 and {}
        and coalesce(relation, '') not in ('superseded', 'delegate', 'sidechain') and depth = 'full'
        and id not in (select session from team_shares where session is not null)
"""
_SELECT_REFUSED = """
    select coalesce(team_machines.name, team_refused.machine) || ': ' || reason
    from team_refused left join team_machines using (machine) order by team_refused.machine, seq
"""


def includes(audience: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether everybody in one audience is in the first one."""
    return EVERYBODY in audience or set(others) <= set(audience)


def _show_nothing(_done: int, _total: int) -> None:
    return None


class Team:
    """Shares sessions and facts with other machines. This is the collection `store.team`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._local = LocalTeam(store)
        self.requests = Requests(store, self._local)

    # ── membership ────────────────────────────────────────────────────────────────────────────────

    def join(self, address: str, name: str = "", password: str = "", *, is_plain: bool = False) -> TeamStatus:
        """Join the team in a database, or found it there. The name is what other members see.

        In a plain team, the server can read and search what is said in shared sessions.
        """
        address = parse_address(address)
        if self._local.find_membership() is not None:
            raise Refused("This store is in a team already. Run `backscroll team leave` first.")
        keys = MachineKeys.generate()
        locator = parse_location(address).locator
        member = validate_id(name.strip() or socket.gethostname() or "unnamed", "name")
        with server.connect(address, password) as connection:
            team = connection.prepare(is_plain=is_plain)
            membership = self._local.save_membership(locator, team, member, keys, password, is_plain=is_plain)
            try:
                connection.add_machine(membership.machine, member, keys.public)
            except BaseException:
                self._local.forget()
                raise
            self._local.save_machines(connection.list_machines())
        return self.status()

    def leave(self) -> int:
        """Withdraw what this machine shares, remove what it received, and forget the team. Return how many."""
        membership = self._local.read_membership()
        collector = ChangeCollector(self._store, self._local)
        with suppress(TeamLost), self._connect(membership) as connection:
            with self._store.transaction():
                for share in self._own_shares(membership):
                    collector.end_share(share)
            self._push(connection, collector)
            connection.mark_left(membership.machine)
        return self._forget(membership)

    def _forget(self, membership: Membership) -> int:
        received = [
            share for share in self._local.list_shares("session is not null") if share.machine != membership.machine
        ]
        with self._store.transaction():
            for share in received:
                with suppress(NotFound):
                    self._store.sessions.drop_without_tombstone(self._store.sessions.get(share.session or ""))
            self._local.forget()
        if received:
            self._store.search.optimize()
            self._store.checkpoint()
        return len(received)

    @property
    def is_member(self) -> bool:
        return self._local.find_membership() is not None

    def status(self, *, asks_server: bool = False) -> TeamStatus:
        membership = self._local.read_membership()
        shares_role = None
        if asks_server:
            with self._connect(membership) as connection:
                self._local.save_machines(connection.list_machines())
                shares_role = connection.shares_role(membership.name)
        shares = [self._local.describe_share(row) for row in self._local.list_shares("held != '' and ended_at is null")]
        return TeamStatus(
            membership.locator,
            membership.name,
            membership.machine,
            membership.joined_at,
            self._local.list_members(),
            self._count(_COUNT_OWN, membership.machine),
            self._count(_COUNT_RECEIVED, membership.machine),
            self._count("select count(*) from team_outbox"),
            tuple(shares),
            self._count("select count(*) from team_conflicts"),
            tuple(reason for (reason,) in self._store.rows(_SELECT_REFUSED)),
            shares_role,
            bool(membership.is_plain),
            len(self.requests.list_open()),
        )

    def _count(self, sql: str, *values: str) -> int:
        return int(self._store.row(sql, *values)[0])

    def members(self) -> tuple[TeamMachine, ...]:
        return self._local.list_members()

    def trust(self, name: str, fingerprint: str) -> TeamMachine:
        """Trust a machine of a member. What it shares is read, and what is shared with it can be read there."""
        if not any(machine.name == name for machine in self._local.list_machines()):
            membership = self._local.read_membership()
            with self._connect(membership) as connection:
                self._local.save_machines(connection.list_machines())
        trusted = self._local.trust(name, fingerprint)
        return next(machine for machine in self._local.list_members() if machine.machine == trusted.machine)

    # ── sharing ───────────────────────────────────────────────────────────────────────────────────

    def share(
        self, session: Session, names: Sequence[str] = (), policy: LeakPolicy = "refuse", *, is_ruled: bool = False
    ) -> Share:
        """Share a session and its sub-agents with members, or with all trusted ones.

        A session with certain leaks is refused, unless they are masked in what is sent, or allowed.
        """
        membership = self._local.read_membership()
        self._check_names(names)
        existing = self._local.find_share_of(session.id)
        if existing is not None and existing.machine != membership.machine:
            raise Refused(
                f"{existing.owner_name or 'Another member'} shares this session. Fork it to share your own copy."
            )
        collector = ChangeCollector(self._store, self._local)
        self._check_leaks(session, policy)
        audience = list(names) or [EVERYBODY]
        with self._store.transaction():
            if existing is not None and existing.policy == policy and includes(audience, decode(existing.audience)):
                self._local.update_share(existing.id, audience=encode_names(audience), collected="")
            elif existing is not None:  # a reader who loses it must not keep its key
                collector.end_share(existing)
                existing = None
            row = existing or collector.add_share(session, audience, policy, is_ruled)
            if row.held:
                self._local.update_share(row.id, held="")
        return self._local.describe_share(row)

    def _check_names(self, names: Sequence[str]) -> None:
        known = {machine.name for machine in self._local.list_machines()}
        for name in names:
            if name not in known:
                raise NotFound(f"No such member: {name!r}. Run `backscroll team members`.")

    def _check_leaks(self, session: Session, policy: LeakPolicy) -> None:
        """Raise LeaksFound if the session has certain leaks and the policy refuses them."""
        if policy != "refuse":
            return
        gate = open_gate(self._store, policy)
        for shared in [session, *self._list_sub_agents(session)]:
            reader = DocumentReader(self._store, ExportOptions("json", leaks=policy), gate=gate)
            for _ in iter_described_entries(reader, shared, -2):
                pass
        gate.finish()

    def _list_sub_agents(self, session: Session) -> list[Session]:
        children = [
            child for child in self._store.sessions.children(session.id) if child.relation in SUB_AGENT_RELATIONS
        ]
        return [*children, *(nested for child in children for nested in self._list_sub_agents(child))]

    def unshare(self, session: Session) -> None:
        """Withdraw a session and its sub-agents. Readers lose it at their next sync, but not the copies they made."""
        membership = self._local.read_membership()
        share = self._local.find_share_of(session.id)
        if share is None:
            raise NotFound(f"The session {session.id!r} is not shared.")
        if share.machine != membership.machine:
            raise Refused(f"Only {share.owner_name} can withdraw this session.")
        if session.relation in SUB_AGENT_RELATIONS and self._local.find_share_of(session.parent_id or ""):
            raise Refused(f"A sub-agent is shared with its session. Withdraw {session.parent_id!r} instead.")
        collector = ChangeCollector(self._store, self._local)
        with self._store.transaction():
            for one in [session, *self._list_sub_agents(session)]:
                if (row := self._local.find_share_of(one.id)) is not None and row.machine == membership.machine:
                    collector.end_share(row)

    def list_shares(self) -> list[Share]:
        """Return the sessions that are shared by this machine or with it."""
        rows = self._local.list_shares("session is not null and ended_at is null")
        return [self._local.describe_share(row) for row in rows]

    def find_owner(self, session_id: str) -> str:
        """Return the name of the member who shares a session with this machine; empty for one's own sessions."""
        row = self._local.find_share_of(session_id) if self.is_member else None
        return row.owner_name if row and row.machine != self._local.read_membership().machine else ""

    def find_audience(self, session_id: str) -> tuple[str, ...]:
        """Return the members with whom this machine shares a session; `*` is everybody. Empty if it is not shared."""
        row = self._local.find_share_of(session_id) if self.is_member else None
        is_own = row is not None and row.machine == self._local.read_membership().machine
        return tuple(decode(row.audience)) if row and is_own else ()

    def list_sent(self, session_ids: Collection[str]) -> tuple[str, ...]:
        """Return which of these sessions this machine has sent to others and not withdrawn."""
        if not self.is_member:
            return ()
        own = self._local.read_membership().machine
        shares = self._local.list_shares("session is not null and sent_seq >= 0 and ended_at is null")
        return tuple(
            share.session for share in shares if share.session and share.machine == own and share.session in session_ids
        )

    def comment(self, session: Session, text: str, entry_seq: int | None = None) -> Note:
        """Add a note that everybody who can read the session sees."""
        self.check_commentable(session)
        return self._store.notes.add_comment(session, text, entry_seq)

    def check_commentable(self, session: Session) -> None:
        if self._local.find_share_of(session.id) is None:
            raise Refused("The session is not shared, so nobody else would see the comment. Write a note instead.")

    def search(self, query: Query, limit: int = 20) -> TeamHits:
        """Ask the server of a plain team for sessions that are not in this store."""
        membership = self._local.read_membership()
        if not membership.is_plain:
            raise Refused("The team is sealed, so its server cannot search. Leave out --team to search your store.")
        server_query = build_server_query(query)
        held = [share.id for share in self._local.list_shares("session is not null and ended_at is null")]
        with self._connect(membership) as connection:
            self._local.save_machines(connection.list_machines())
            found = connection.search(server_query, membership.machine, held, limit)
        names = {machine.machine: machine.name for machine in self._local.list_machines()}
        hits = [
            TeamHit(
                f"{one.session}@{one.machine[:SHORT_ID]}",
                one.title,
                names.get(one.machine, ""),
                one.machine,
                one.role,
                one.at,
                *find_snippet(one.text, query),
            )
            for one in found
        ]
        return TeamHits(hits, found[0].total if found else 0)

    def metrics(self) -> list[MemberMetrics]:
        """Return the figures of the members who share theirs."""
        found = []
        for share, value in self._store.rows("select share, value from team_values where name = ?", METRICS):
            machine = self._local.find_machine(share.partition("/")[0])
            if machine is not None and (metrics := read_metrics(machine, decode(value))) is not None:
                found.append(metrics)
        return sorted(found)

    # ── conflicts ─────────────────────────────────────────────────────────────────────────────────

    def conflicts(self) -> list[ValueConflict]:
        return self._local.list_conflicts()

    def choose(self, key: int, *, lost: bool) -> None:
        """Settle a conflict: keep the value that counts now, or bring back the one that lost. That is an edit."""
        conflict = next((one for one in self.conflicts() if one.key == key), None)
        if conflict is None:
            raise NotFound(f"No such conflict: {key}.")
        with self._store.transaction():
            if lost:
                self._restore(conflict)
            self._local.delete_conflict(key)

    def _restore(self, conflict: ValueConflict) -> None:
        value = conflict.lost
        if conflict.kind == "fact":
            if conflict.fact_id is None:
                raise NotFound("The fact is no longer in the store.")
            self._restore_fact(conflict.fact_id, value["text"], value["category"], is_retired=value["retired"])
            return
        session = self._store.sessions.get(conflict.session_id or "")
        if conflict.name == "title":
            self._store.sessions.set_title(session, value)
        else:
            text, up_to_turn = value or ("", None)
            self._store.summaries.set(session, text, up_to_turn=up_to_turn)

    def _restore_fact(self, fact_id: int, text: str, category: str, *, is_retired: bool) -> None:
        facts = self._store.facts
        if facts.get(fact_id).retired_at is not None:
            facts.restore(fact_id)
        facts.edit(fact_id, text, category=category)
        if is_retired:
            facts.retire(fact_id)

    # ── sync ──────────────────────────────────────────────────────────────────────────────────────

    def sync(self, show: ShowProgress = _show_nothing) -> TeamSync:
        """Send what changed here, and read what others sent."""
        membership = self._local.read_membership()
        with self._connect(membership) as connection, self._lock(LOCK_SECONDS):
            return self._exchange(connection, show)

    def follow(self, seconds: float) -> Iterator[TeamSync]:
        """Sync again and again: at once when another machine pushes, and every few seconds for one's own changes."""
        membership = self._local.read_membership()
        with self._connect(membership) as connection:
            while True:
                with suppress(Busy), self._lock():  # what another program exchanges is here, too
                    yield self._exchange(connection)
                connection.wait(seconds)

    def _exchange(self, connection: TeamServer, show: ShowProgress = _show_nothing) -> TeamSync:
        self._local.save_machines(connection.list_machines())
        collector = ChangeCollector(self._store, self._local)
        self._share_by_rule()
        # Own changes come first, so that those of others are compared with them.
        pushed = 0
        for done, total in collector.collect():
            show(done, total)
            if collector.count_outbox() >= PUSHED_TOGETHER:
                pushed += self._push(connection, collector)
        applied = OperationReader(self._store, self._local, connection, collector).read_all(show)
        pushed += self._push(connection, collector)
        return TeamSync(
            pushed,
            applied.operations,
            applied.new_sessions,
            applied.ended_sessions,
            applied.refused,
            self._count("select count(*) from team_conflicts"),
        )

    def _push(self, connection: TeamServer, collector: ChangeCollector) -> int:
        pushed = 0
        while outgoing := collector.read_outbox(PUSHED_TOGETHER):
            connection.push(outgoing)
            for operation, audience, _ in outgoing:
                if operation.kind == "keys" and not open_body(operation, None)["is_first"]:
                    connection.change_audience(operation.share, audience)
                elif operation.kind == "unshare":
                    connection.empty_share(operation.share, operation.machine)
            collector.empty_outbox(outgoing[-1].operation.seq)
            pushed += len(outgoing)
        return pushed

    def _share_by_rule(self) -> None:
        """Share what the config file says. Sessions with leaks are held, and the status says so."""
        config = load_config()
        for folder in get_setting(config, "team.share", tuple):
            path = expanduser(folder).rstrip("/")
            self._share_all("(cwd = ? or substr(cwd, 1, length(?)) = ?)", [path or "/", *[f"{path}/"] * 2], EVERYBODY)
        if get_setting(config, "team.own_machines", bool):
            self._share_all("1", [], self._local.read_membership().name)

    def _share_all(self, condition: str, values: Sequence[str], audience: str) -> None:
        """Share the sessions for which a condition is true and that were never shared."""
        collector = ChangeCollector(self._store, self._local)
        for (session_id,) in self._store.rows(_SELECT_NEVER_SHARED.format(condition), *values):
            collector.add_share(self._store.sessions.get(session_id), [audience], "refuse", is_ruled=True)

    @contextmanager
    def _lock(self, wait_seconds: float = 0) -> Iterator[None]:
        """Let one process at a time exchange operations."""
        refusal = "Another program exchanges changes with the team now. Try again."
        with hold_file_lock(f"{self._store.path}.team", refusal, wait_seconds=wait_seconds):
            yield

    def _own_shares(self, membership: Membership) -> list[ShareRow]:
        return [share for share in self._local.list_shares("ended_at is null") if share.machine == membership.machine]

    @contextmanager
    def _connect(self, membership: Membership) -> Iterator[TeamServer]:
        with server.connect(membership.locator, membership.open_password()) as connection:
            connection.upgrade()
            yield connection
