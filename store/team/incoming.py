"""This module applies the operations of other machines to this store.

Operations are applied in one transaction with the number up to which their machine was read, so that each is applied
once. Nothing is believed: whoever wrote an operation must have signed it, and may change only what is its own.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from store.errors import BadValue, NotFound, StoreError, WriteFailed
from store.model.entry import Json, NewEntry
from store.model.session import TEAM_SCOPE, Relation, Session, SessionFields
from store.sources.backscroll.reader import parse_entries, parse_fields
from store.team.membership import LocalTeam, MachineRow, ShareRow, encode_names
from store.team.metrics import METRICS
from store.team.operations import EVERYBODY, FACTS_SHARE, Operation, check_operation, open_body
from store.team.outgoing import ChangeCollector
from store.team.requests import ANSWER, ASK
from store.team.values import SharedValue, merge_values
from store.text.validate import decode, encode, replace_surrogates, utc_timestamp, validate_id

if TYPE_CHECKING:
    from store.store import Store
    from store.team.server import TeamServer

ShowProgress = Callable[[int, int], None]
"""Is called with how much of all is done."""

SHORT_ID = 8
"""Counts the digits of a machine's id that make the ids of its sessions unique here."""

_OWNER_VALUES, _READER_VALUES = ("title", "summary", ASK), ("title", "summary", ANSWER)
"""Name the values of a share that its owner may write, and those that its readers may write."""

_RELATIONS = ("fork", "delegate", "sidechain")
_MAX_NAME_CHARS = 200
_MAX_COMMENT_CHARS = 100_000

_INSERT_SUMMARY = """
    insert into summaries (session, text, up_to_turn, origin, current, created_at) values (?, ?, ?, 'source', 1, ?)
"""

_SELECT_FACT = "select facts.id from team_facts join facts on facts.id = team_facts.fact where team_facts.name = ?"


class AppliedOperations(NamedTuple):
    """Says what was applied."""

    operations: int
    new_sessions: tuple[str, ...]
    ended_sessions: tuple[str, ...]
    refused: tuple[str, ...]


class OperationReader:
    """Reads the operations of all trusted machines."""

    def __init__(self, store: Store, team: LocalTeam, server: TeamServer, collector: ChangeCollector) -> None:
        self._store = store
        self._team = team
        self._server = server
        self._collector = collector
        self._membership = team.read_membership()
        self._keys = self._membership.open_keys()
        self._count = 0
        self._new_sessions: list[str] = []
        self._ended_sessions: list[str] = []
        self._refused: list[str] = []

    def read_all(self, show: ShowProgress) -> AppliedOperations:
        machines = [one for one in self._team.list_machines() if self._is_read(one) and one.last_seq > one.pulled]
        done, total = 0, sum(machine.last_seq - machine.pulled for machine in machines)
        for machine in machines:
            for seq in self._read_machine(machine):
                show(done + seq - machine.pulled, total)
            done += machine.last_seq - machine.pulled
        if self._ended_sessions:
            self._store.search.optimize()
            self._store.checkpoint()
        return AppliedOperations(
            self._count, tuple(self._new_sessions), tuple(self._ended_sessions), tuple(self._refused)
        )

    def _is_read(self, machine: MachineRow) -> bool:
        return machine.trusted_at is not None and machine.machine != self._membership.machine

    def _read_machine(self, machine: MachineRow) -> Iterator[int]:
        """Read what a machine sent since the last time, and yield the number up to which that is done.

        An interrupted read goes on after the last commit.
        """
        pulled = machine.pulled
        while operations := self._server.fetch_after(machine.machine, pulled):
            with self._store.transaction(durable=False):
                for operation in operations:
                    self._read(machine, operation)
            pulled = operations[-1].seq
            yield pulled

    def _read(self, machine: MachineRow, operation: Operation) -> None:
        """Apply an operation, or note why it is refused. In both cases the next one follows."""
        earlier = self._apply_checked(machine, operation)
        self._store.connection.execute(
            "update team_machines set pulled = ? where machine = ?", (operation.seq, machine.machine)
        )
        if earlier is not None:
            self._read_earlier(earlier, operation)

    def _apply_checked(self, machine: MachineRow, operation: Operation) -> str | None:
        try:
            with self._store.transaction():
                check_operation(operation, machine.public)
                earlier = self._apply(operation)
        except WriteFailed:  # such as a full disk, which says nothing about the operation
            raise
        except StoreError as error:
            self._refuse(machine, operation, str(error))
            return None
        self._count += 1
        return earlier

    def _refuse(self, machine: MachineRow, operation: Operation, reason: str) -> None:
        self._refused.append(f"{machine.name}: {reason}")
        self._store.connection.execute(
            "insert or replace into team_refused (machine, seq, reason) values (?, ?, ?)",
            (machine.machine, operation.seq, reason),
        )

    def _read_earlier(self, share: str, keys: Operation) -> None:
        """Read what was sent of a share before its key arrived."""
        machines = {machine.machine: machine for machine in self._team.list_machines() if self._is_read(machine)}
        for operation in self._server.fetch_share(share):
            machine = machines.get(operation.machine)
            if machine is None:
                continue
            before = keys.seq if machine.machine == keys.machine else machine.pulled + 1
            if operation.seq < before:
                self._apply_checked(machine, operation)

    # ── kinds of operations ───────────────────────────────────────────────────────────────────────

    def _apply(self, operation: Operation) -> str | None:
        """Apply an operation. Return the share whose earlier operations can be read now, if there is one."""
        if operation.kind != "value" and operation.machine != operation.owner:
            raise BadValue("It changes what another machine shares.")
        if operation.kind == "keys":
            return self._apply_keys(operation)
        share = self._team.find_share(operation.share)
        if operation.kind == "unshare":
            self._end_share(share)
        elif operation.body and share is not None and share.key is not None and share.ended_at is None:
            body = open_body(operation, share.key)
            match operation.kind:
                case "session":
                    self._apply_session(operation, share, body)
                case "entries":
                    self._apply_entries(operation, share, body)
                case "value":
                    self._apply_value(operation, share, body)
        return None

    def _apply_keys(self, operation: Operation) -> str | None:
        body = open_body(operation, None)
        wrapped = body.get("keys")
        mine = wrapped.get(self._membership.machine) if isinstance(wrapped, dict) else None
        share = self._team.find_share(operation.share)
        if not isinstance(mine, str) or (share is not None and share.key is not None):
            return None
        try:
            key = self._keys.unwrap_key(b64decode(mine, validate=True), operation.share)
        except ValueError:
            raise BadValue("Its key is not base64.") from None
        self._team.add_share(operation.share)
        self._team.update_share(operation.share, key=key)
        return None if body.get("is_first") is True else operation.share

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────

    def _apply_session(self, operation: Operation, share: ShareRow, body: Mapping[str, Json]) -> None:
        if operation.seq <= share.applied:
            return
        readers = body.get("readers")
        if not isinstance(readers, list) or not all(isinstance(reader, str) for reader in readers):
            raise BadValue("It does not say who may read the session.")
        described = body.get("session")
        fields = parse_fields(described)
        if share.session is None:
            session = self._create_session(share, described, fields, body)
            self._new_sessions.append(session.id)
        else:
            session = self._store.sessions.get(share.session)
            fields.pop("created_at", None)
            fields["updated_at"] = session.updated_at
            session = self._store.sessions.update(session.id, **fields)
        self._team.update_share(share.id, session=session.id, readers=encode_names(readers), applied=operation.seq)

    def _create_session(
        self, share: ShareRow, described: Json, fields: SessionFields, body: Mapping[str, Json]
    ) -> Session:
        names = described if isinstance(described, dict) else {}
        suffix = f"@{share.machine[:SHORT_ID]}"
        original, source, native_id = (names.get(name) for name in ("id", "source", "native_id"))
        if not isinstance(original, str) or not isinstance(source, str) or not source:
            raise BadValue("The session has no id.")
        fields["source"] = replace_surrogates(source)
        fields["native_id"] = validate_id(native_id if isinstance(native_id, str) else original)
        parent = self._team.find_share(str(body.get("parent", "")))
        if parent is not None and parent.session and parent.machine == share.machine:
            relation = names.get("relation")
            fields["parent_id"] = parent.session
            fields["relation"] = cast("Relation", relation if relation in _RELATIONS else "delegate")
            if type(at := names.get("forked_at")) is int and 0 <= at < 2**53:
                fields["forked_at"] = at
        headers = parse_entries([body["header"]], "") if isinstance(body.get("header"), dict) else []
        header = next((entry for entry in headers if entry.kind == "header"), None)
        return self._store.sessions.create(validate_id(original + suffix), header=header, **fields)

    def _apply_entries(self, operation: Operation, share: ShareRow, body: Mapping[str, Json]) -> None:
        if operation.seq <= share.applied:
            return
        if share.session is None:
            raise BadValue("It has entries of a session that was not described.")
        session = self._find_session(share)
        if session is not None:
            entries = parse_entries(body.get("entries"), "")
            self._check_follows(session, body.get("first"), entries)
            self._store.chains.append(session.key, entries)
            # The usage is derived from the records, as for a store of an older version.
            self._store.connection.execute("update sessions set usage_version = 0 where key = ?", (session.key,))
        self._team.update_share(share.id, applied=operation.seq)

    def _check_follows(self, session: Session, first: Json, entries: list[NewEntry]) -> None:
        if first != self._last_seq(session) + 1 or not entries or any(entry.kind == "header" for entry in entries):
            raise BadValue("Its entries do not follow those that were sent before.")

    def _last_seq(self, session: Session) -> int:
        (last,) = self._store.row("select max(seq) from entries where session = ?", session.key)
        return int(last)

    def _find_session(self, share: ShareRow) -> Session | None:
        """Return the session of a share, or None if it has none, or it was purged here."""
        try:
            return self._store.sessions.get(share.session) if share.session else None
        except NotFound:
            return None

    def _end_share(self, share: ShareRow | None) -> None:
        if share is None or share.ended_at is not None:
            return
        connection = self._store.connection
        self._team.update_share(share.id, ended_at=utc_timestamp(), key=None)
        for table in ("team_values", "team_conflicts"):
            connection.execute(f"delete from {table} where share = ?", (share.id,))
        if share.session is not None and (session := self._find_session(share)) is not None:
            self._store.sessions.drop_without_tombstone(session)
            self._ended_sessions.append(session.id)

    # ── values ────────────────────────────────────────────────────────────────────────────────────

    def _apply_value(self, operation: Operation, share: ShareRow, body: Mapping[str, Json]) -> None:
        name = body.get("name")
        if not isinstance(name, str) or len(name) > _MAX_NAME_CHARS:
            raise BadValue("The value has no name.")
        incoming = SharedValue.parse(body)
        if incoming.moment.machine != operation.machine:
            raise BadValue("It has the time of another machine.")
        self._check_writer(operation, share, name)
        is_fact = name.startswith("fact:")
        group = "" if is_fact else share.id
        current = self._collector.read_values(group).get(name)
        merge = merge_values(current, incoming)
        self._collector.save_value(group, name, merge.kept)
        if merge.lost is not None:
            self._store.connection.execute(
                "insert or ignore into team_conflicts (share, name, value, machine, at) values (?, ?, ?, ?, ?)",
                (group, name, encode(merge.lost.value).decode(), merge.lost.moment.machine, utc_timestamp()),
            )
        elif merge.is_incoming:
            self._store.connection.execute("delete from team_conflicts where share = ? and name = ?", (group, name))
        if merge.is_incoming:
            if is_fact:
                self._write_fact(operation, name.removeprefix("fact:"), incoming.value)
            elif (session := self._find_session(share)) is not None:
                self._write_session_value(session, operation, name, incoming.value)
                # A person may change it back to what was collected last.
                self._team.update_share(share.id, collected="")

    def _check_writer(self, operation: Operation, share: ShareRow, name: str) -> None:
        """Raise BadValue if the machine may not write a value of this name there."""
        readers = decode(share.readers)
        is_owner = operation.machine == share.machine
        if share.id.endswith(f"/{FACTS_SHARE}"):
            is_allowed = is_owner and (name == METRICS or name.startswith("fact:"))
        elif is_owner or EVERYBODY in readers or operation.machine in readers:
            is_allowed = name in (_OWNER_VALUES if is_owner else _READER_VALUES)
            is_allowed |= name.startswith(f"comment:{operation.machine}:")
        else:
            is_allowed = False
        if not is_allowed:
            raise BadValue("It changes what another machine shares.")

    def _write_session_value(self, session: Session, operation: Operation, name: str, value: Json) -> None:
        connection = self._store.connection
        match name, value:
            case "title", str():
                connection.execute(
                    "update sessions set own_title = ? where key = ?", (replace_surrogates(value), session.key)
                )
            case "summary", None | [str(), None | int()]:
                connection.execute("update summaries set current = 0 where session = ? and current = 1", (session.key,))
                if value is not None:
                    last = self._store.chains.last_turn(session.key)
                    up_to = None if value[1] is None else max(0, min(value[1], last))
                    columns = (session.key, replace_surrogates(value[0]), up_to, utc_timestamp())
                    connection.execute(_INSERT_SUMMARY, columns)
            case str(), None if name.startswith("comment:"):
                connection.execute("delete from notes where comment = ?", (name,))
            case str(), [None | int() as seq, str(text), str(at)] if name.startswith("comment:"):
                self._write_comment(session, operation, name, seq, text, at)
            case _:
                raise BadValue("The value cannot be understood. Update Backscroll to read it.")

    def _write_comment(
        self, session: Session, operation: Operation, name: str, seq: int | None, text: str, at: str
    ) -> None:
        on_entry = seq if seq is not None and -1 <= seq <= self._last_seq(session) else None
        self._store.connection.execute(
            """
            insert into notes (session, entry_seq, text, created_at, author, comment) values (?, ?, ?, ?, ?, ?)
            on conflict (comment) do update set text = excluded.text
            """,
            (
                session.key,
                on_entry,
                replace_surrogates(text[:_MAX_COMMENT_CHARS]),
                utc_timestamp() if not at else at[:40],
                self._name_author(operation),
                name,
            ),
        )

    def _write_fact(self, operation: Operation, name: str, value: Any) -> None:
        """Write a fact and note in the journal who changed it."""
        match value:
            case {"text": str(text), "category": str(category), "retired": bool(retired)}:
                pass
            case _:
                raise BadValue("The fact cannot be understood. Update Backscroll to read it.")
        line, category = (" ".join(replace_surrogates(part).split()) for part in (text, category))
        now = utc_timestamp()
        columns: dict[str, Json] = {
            "text": line,
            "category": category,
            "updated_at": now,
            "retired_at": now if retired else None,
        }
        row = self._store.row(_SELECT_FACT, name)
        kind = "learn" if row is None else "retire fact" if retired else "edit fact"
        with self._store.journal.edit(kind, author=self._name_author(operation)) as edit:
            if row is not None:
                edit.update("facts", row[0], **columns)
                return
            fact = edit.insert("facts", scope=TEAM_SCOPE, created_at=now, **columns)
            self._store.connection.execute("insert or replace into team_facts (fact, name) values (?, ?)", (fact, name))

    def _name_author(self, operation: Operation) -> str:
        author = self._team.find_machine(operation.machine)
        return author.name if author else operation.machine
