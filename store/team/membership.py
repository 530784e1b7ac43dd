"""This module keeps what a store knows of its team: this machine, the other machines, and what is shared.

The private keys are sealed with the key file, which is never next to the store. So a copied store cannot act as this
machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from store.errors import BadValue, NotFound, Refused
from store.model.team import Share, TeamMachine, ValueConflict
from store.paths import key_file
from store.secrets.crypto import key_from_file, open_key, seal_key
from store.team.keys import MachineKeys, machine_id
from store.team.operations import EVERYBODY
from store.team.server import ServerMachine
from store.text.validate import decode, encode, utc_timestamp

if TYPE_CHECKING:
    from store.store import Store

_KEYS_PURPOSE = b"team machine"
_PASSWORD_PURPOSE = b"team password"

_SELECT_TEAM = "select locator, team, name, machine, keys, password, joined_at, is_plain from team"
_INSERT_TEAM = """
    insert into team (id, locator, team, name, machine, keys, joined_at, is_plain) values (1, ?, ?, ?, ?, ?, ?, ?)
"""
_SELECT_MACHINES = "select machine, name, public, trusted_at, has_left, pulled, last_seq from team_machines"
_SELECT_SHARES = """
    select team_shares.id, session, key, audience, readers, policy, is_ruled, sent_seq, sent_entry, sent_fields,
        applied, held, ended_at, coalesce(team_machines.name, '')
    from team_shares left join team_machines on team_machines.machine = substr(team_shares.id, 1, 32)
"""
_SELECT_CONFLICTS = """
    select team_conflicts.key, share, team_conflicts.name, team_shares.session, team_facts.fact, team_values.value,
        team_conflicts.value, coalesce(keepers.name, ''), coalesce(losers.name, '')
    from team_conflicts join team_values using (share, name)
        left join team_shares on team_shares.id = share
        left join team_facts on 'fact:' || team_facts.name = team_conflicts.name
        left join team_machines keepers on keepers.machine = team_values.moment ->> 2
        left join team_machines losers on losers.machine = team_conflicts.machine
    order by team_conflicts.key
"""
TABLES = (
    "team",
    "team_machines",
    "team_shares",
    "team_readers",
    "team_outbox",
    "team_values",
    "team_conflicts",
    "team_facts",
    "team_refused",
)


class Membership(NamedTuple):
    """Describes this machine in its team."""

    locator: str
    "Is the address of the database, without a password."
    team: str
    name: str
    machine: str
    sealed_keys: bytes
    sealed_password: bytes | None
    joined_at: str
    is_plain: int
    "Is true if the server gets texts that it can search. Only the person who joined can decide that, not the server."

    def open_keys(self) -> MachineKeys:
        return MachineKeys.from_bytes(
            open_key(self.sealed_keys, key_from_file(key_file(), create=False), _KEYS_PURPOSE)
        )

    def open_password(self) -> str:
        """Return the password of the database, if it was typed when it was asked for."""
        if self.sealed_password is None:
            return ""
        return open_key(self.sealed_password, key_from_file(key_file(), create=False), _PASSWORD_PURPOSE).decode()


class MachineRow(NamedTuple):
    machine: str
    name: str
    public: bytes
    trusted_at: str | None
    has_left: int
    pulled: int
    "Is the last operation of the machine that was read."
    last_seq: int
    "Is the last operation of the machine that the server has."


class ShareRow(NamedTuple):
    id: str
    session: str | None
    key: bytes | None
    audience: str
    "Holds the names of members, or `*`, as the owner chose them. JSON."
    readers: str
    "Holds the ids of machines, or `*`. JSON."
    policy: str
    is_ruled: int
    "Is true if a rule of the config file shares it."
    sent_seq: int
    sent_entry: int | None
    sent_fields: str
    applied: int
    held: str
    ended_at: str | None
    owner_name: str

    @property
    def machine(self) -> str:
        return self.id.partition("/")[0]


class LocalTeam:
    """Reads and changes the rows of the team."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ── membership ────────────────────────────────────────────────────────────────────────────────

    def find_membership(self) -> Membership | None:
        row = self._store.row(_SELECT_TEAM)
        return Membership._make(row) if row else None

    def read_membership(self) -> Membership:
        membership = self.find_membership()
        if membership is None:
            raise NotFound("This store is in no team. Run `backscroll team join ADDRESS`.")
        return membership

    def save_membership(
        self, locator: str, team: str, name: str, keys: MachineKeys, password: str, *, is_plain: bool
    ) -> Membership:
        kek = key_from_file(key_file(), create=True)
        sealed = seal_key(keys.to_bytes(), kek, _KEYS_PURPOSE)
        machine = machine_id(keys.public)
        with self._store.transaction() as connection:
            if self.find_membership() is not None:
                raise Refused("This store is in a team already. Run `backscroll team leave` first.")
            connection.execute(_INSERT_TEAM, (locator, team, name, machine, sealed, utc_timestamp(), int(is_plain)))
            if password:
                connection.execute(
                    "update team set password = ?", (seal_key(password.encode(), kek, _PASSWORD_PURPOSE),)
                )
            self._save_machine(ServerMachine(machine, name, keys.public, False, 0), utc_timestamp())
        return self.read_membership()

    def forget(self) -> None:
        """Delete everything that is known of the team. Sessions and facts stay."""
        with self._store.transaction() as connection:
            for table in TABLES:
                connection.execute(f"delete from {table}")

    # ── machines ──────────────────────────────────────────────────────────────────────────────────

    def save_machines(self, machines: Iterable[ServerMachine]) -> None:
        """Note the machines that the server lists. One whose id does not fit its keys is not a machine.

        A trusted machine keeps the name under which it was trusted, so that it cannot take another member's name.
        """
        with self._store.transaction():
            for machine in machines:
                if machine_id(machine.public) == machine.machine:
                    self._save_machine(machine, None)

    def _save_machine(self, machine: ServerMachine, trusted_at: str | None) -> None:
        self._store.connection.execute(
            """
            insert into team_machines (machine, name, public, trusted_at, has_left, last_seq) values (?, ?, ?, ?, ?, ?)
            on conflict (machine) do update
                set name = iif(trusted_at is null, excluded.name, name), has_left = excluded.has_left,
                    last_seq = excluded.last_seq
                where (name, has_left, last_seq) is not (excluded.name, excluded.has_left, excluded.last_seq)
            """,
            (machine.machine, machine.name, machine.public, trusted_at, int(machine.has_left), machine.last_seq),
        )

    def list_machines(self) -> list[MachineRow]:
        return list(map(MachineRow._make, self._store.rows(f"{_SELECT_MACHINES} order by name, machine")))

    def find_machine(self, machine: str) -> MachineRow | None:
        row = self._store.row(f"{_SELECT_MACHINES} where machine = ?", machine)
        return MachineRow._make(row) if row else None

    def list_members(self) -> tuple[TeamMachine, ...]:
        own = self.read_membership().machine
        return tuple(
            TeamMachine(
                row.machine,
                row.name,
                row.machine == own,
                row.trusted_at,
                bool(row.has_left),
                0 if row.trusted_at else row.last_seq,
            )
            for row in self.list_machines()
        )

    def trust(self, name: str, fingerprint: str) -> MachineRow:
        """Trust the machine of a member with this fingerprint. Keys are wrapped for trusted machines only."""
        wanted = "".join(fingerprint.split()).casefold()
        named = [machine for machine in self.list_machines() if machine.name == name]
        if not named:
            raise NotFound(f"No such member: {name!r}. Run `backscroll team members`.")
        found = next((machine for machine in named if machine.machine == wanted), None)
        if found is None:
            raise BadValue(
                f"No machine of {name} has this fingerprint. Compare it with what `backscroll team status` shows there."
            )
        with self._store.transaction() as connection:
            connection.execute(
                "update team_machines set trusted_at = coalesce(trusted_at, ?) where machine = ?",
                (utc_timestamp(), found.machine),
            )
        return found

    # ── shares ────────────────────────────────────────────────────────────────────────────────────

    def list_shares(self, condition: str = "1", *values: Any) -> list[ShareRow]:
        return list(
            map(
                ShareRow._make, self._store.rows(f"{_SELECT_SHARES} where {condition} order by team_shares.id", *values)
            )
        )

    def find_share(self, share: str) -> ShareRow | None:
        return next(iter(self.list_shares("team_shares.id = ?", share)), None)

    def find_share_of(self, session_id: str) -> ShareRow | None:
        """Return the share of a session that is not ended."""
        return next(iter(self.list_shares("session = ? and ended_at is null", session_id)), None)

    def add_share(self, share: str, **columns: Any) -> ShareRow:
        names = ["id", *columns]
        with self._store.transaction() as connection:
            connection.execute(
                f"insert or ignore into team_shares ({', '.join(names)}) values ({', '.join('?' * len(names))})",
                (share, *columns.values()),
            )
        (found,) = self.list_shares("team_shares.id = ?", share)
        return found

    def update_share(self, share: str, **columns: Any) -> None:
        assignments = ", ".join(f"{name} = ?" for name in columns)
        with self._store.transaction() as connection:
            connection.execute(f"update team_shares set {assignments} where id = ?", (*columns.values(), share))

    def describe_share(self, row: ShareRow) -> Share:
        own = self.read_membership()
        return Share(
            row.id,
            row.session,
            own.name if row.machine == own.machine else row.owner_name,
            row.machine,
            row.machine == own.machine,
            tuple(decode(row.audience)),
            row.held,
            row.ended_at is not None,
        )

    def resolve_readers(self, audience: str) -> tuple[list[str], list[MachineRow]]:
        """Return whom the server lets read, and the trusted machines that can."""
        names = decode(audience)
        trusted = [machine for machine in self.list_machines() if machine.trusted_at and not machine.has_left]
        if EVERYBODY in names:
            return [EVERYBODY], trusted
        own = self.read_membership().name
        chosen = [machine for machine in trusted if machine.name in names or machine.name == own]
        return [machine.machine for machine in chosen], chosen

    # ── conflicts ─────────────────────────────────────────────────────────────────────────────────

    def list_conflicts(self) -> list[ValueConflict]:
        return [
            ValueConflict(key, share, name, session, fact, decode(kept), decode(lost), *authors)
            for key, share, name, session, fact, kept, lost, *authors in self._store.rows(_SELECT_CONFLICTS)
        ]

    def delete_conflict(self, key: int) -> None:
        with self._store.transaction() as connection:
            connection.execute("delete from team_conflicts where key = ?", (key,))


def encode_names(names: Sequence[str]) -> str:
    return encode(list(names)).decode()
