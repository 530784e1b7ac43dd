"""This module finds what changed here since the last sync with the team, and turns it into operations.

The operations are written to the outbox in the transaction that notes how far each session was sent. So nothing is sent
twice, and nothing is lost when a push fails: the outbox is pushed again.
"""

from __future__ import annotations

import hashlib
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, cast
from uuid import uuid4

from store.config import get_setting
from store.conversations.session_changes import SUB_AGENT_RELATIONS
from store.errors import LeaksFound, NotFound, ScanFailed
from store.export.options import ExportOptions
from store.export.reader import DocumentReader
from store.export.session_json import describe_session, iter_described_entries
from store.leaks.gate import LeakGate, LeakPolicy, open_gate
from store.model.entry import Json
from store.model.session import TEAM_SCOPE, Session
from store.paths import load_config
from store.team.keys import generate_share_key, wrap_key
from store.team.membership import LocalTeam, ShareRow, encode_names
from store.team.metrics import METRICS, sum_up
from store.team.operations import EVERYBODY, FACTS_SHARE, Kind, Operation, build_operation
from store.team.plain_text import PlainText, iter_entry_texts, title_text
from store.team.server import OutgoingOperation
from store.team.values import Moment, SharedValue
from store.text.validate import decode, encode, utc_timestamp

if TYPE_CHECKING:
    from store.store import Store

CHUNK_BYTES = 512 * 1024
"""Is about how much of a session one operation holds, before it is compressed."""

HEADER_SEQ = -1
NOT_READ_YET = "The session is not completely read yet."

_SELECT_LAST_ENTRY = "select key, seq from entries where session = ? order by seq desc limit 1"
_SELECT_ENTRY_AT = "select key from entries where session = ? and seq = ?"
_DESCRIBED_FIELDS = ", ".join(f"sessions.{name}" for name in Session._fields if name != "system_prompt")
_SELECT_DESCRIPTIONS = f"""
    select team_shares.id, team_shares.collected, json_array(
        {_DESCRIBED_FIELDS}, length(sessions.system_prompt),
        (select max(key) from summaries where session = sessions.key and current = 1),
        (select json_group_array(json_array(comment, entry_seq, text)) from notes
         where session = sessions.key and comment is not null and author = ''),
        (select count(*) from sessions children where children.parent_id = sessions.id))
    from team_shares left join sessions on sessions.id = team_shares.session
    where team_shares.session is not null and team_shares.ended_at is null order by sessions.created_at, team_shares.id
"""
_SELECT_FIRST_TURN = "select min(n) from turns where session = ? and last_seq > ?"
_SELECT_COMMENTS = """
    select notes.comment, notes.entry_seq, notes.text, notes.created_at from notes
    where session = ? and comment is not null and author = ''
"""
_KEEP_COMMENTS = """
    update notes set comment = null where author != '' and session = (select key from sessions where id = ?)
"""
_SELECT_TEAM_FACTS = """
    select facts.id, facts.text, facts.category, facts.retired_at, team_facts.name
    from facts left join team_facts on team_facts.fact = facts.id
    where facts.scope = ? and (facts.retired_at is null or team_facts.name is not null)
"""
_SELECT_REMOVED_FACTS = """
    select name from team_facts where fact not in (select id from facts)
        and 'fact:' || name in (select name from team_values where share = '')
"""
_SELECT_VALUES = "select name, value, vector, moment from team_values where share = ?"
_SELECT_LAST_MOMENT = "select moment from team_values order by moment ->> 0 desc, moment ->> 1 desc limit 1"
_INSERT_OUTGOING = """
    insert into team_outbox (seq, kind, share, audience, digest, signature, body, texts) values (?, ?, ?, ?, ?, ?, ?, ?)
"""
_SELECT_OUTBOX = """
    select seq, kind, share, audience, digest, signature, body, texts from team_outbox order by seq limit ?
"""


class ChangeCollector:
    """Writes what changed here to the outbox."""

    def __init__(self, store: Store, team: LocalTeam) -> None:
        self._store = store
        self._team = team
        self._membership = team.read_membership()
        self._keys = self._membership.open_keys()

    def collect(self) -> Iterator[tuple[int, int]]:
        """Collect what changed, and yield after each session how many of all are done.

        The outbox can be pushed each time, so that it stays small.
        """
        self._collect_facts()
        done = set[str]()
        # A session whose sub-agents are shared adds shares, so changes are looked for again until there are no others.
        while changed := [pair for pair in self._iter_changed_shares() if pair[0].id not in done]:
            total = len(done) + len(changed)
            for share, fingerprint in changed:
                if share.machine == self._membership.machine:
                    self._collect_session(share, fingerprint)
                elif share.key is not None:
                    self._collect_received(share, fingerprint)
                done.add(share.id)
                yield len(done), total

    def _iter_changed_shares(self) -> Iterator[tuple[ShareRow, str]]:
        """Yield the shares whose sessions may have changed since they were collected, each with a new fingerprint.

        A machine may know thousands of sessions and looks for changes every few seconds, so one query asks for all.
        """
        _, readers = self._team.resolve_readers(encode_names([EVERYBODY]))
        trusted = "".join(machine.machine for machine in readers)
        for share, collected, description in self._store.rows(_SELECT_DESCRIPTIONS):
            fingerprint = hashlib.sha256(f"{trusted}{description}".encode()).hexdigest()
            if fingerprint != collected and (found := self._team.find_share(share)) is not None:
                yield found, fingerprint

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────

    def _collect_session(self, share: ShareRow, fingerprint: str) -> None:
        try:
            session = self._store.sessions.get(share.session or "")
        except NotFound:
            self.end_share(share)
            return
        if self._was_replaced(session, share):
            self._share_again(session, share)
            return
        try:
            with self._store.transaction(durable=False):  # `read_outbox` waits for the disk
                self._share_sub_agents(session, share)
                self._send_keys(share)
                held = self._send_session(session, share)
                self._collect_values(session, share)
                self._team.update_share(share.id, held=held, collected=fingerprint)
        except (LeaksFound, ScanFailed) as error:
            self._team.update_share(share.id, held=str(error))

    def _collect_received(self, share: ShareRow, fingerprint: str) -> None:
        """Send what a person changed here about the session of another member."""
        with suppress(NotFound, LeaksFound, ScanFailed), self._store.transaction(durable=False):
            self._collect_values(self._store.sessions.get(share.session or ""), share)
            self._team.update_share(share.id, collected=fingerprint)

    def _was_replaced(self, session: Session, share: ShareRow) -> bool:
        """Return whether the agent rewrote what was sent already, so that the chain has other entries now."""
        if share.sent_entry is None:
            return False
        row = self._store.row(_SELECT_ENTRY_AT, session.key, share.sent_seq)
        return row is None or row[0] != share.sent_entry

    def _share_again(self, session: Session, share: ShareRow) -> None:
        with self._store.transaction():
            self.end_share(share)
            self.add_share(session, decode(share.audience), cast("LeakPolicy", share.policy), bool(share.is_ruled))

    def add_share(self, session: Session, audience: list[str], policy: LeakPolicy, is_ruled: bool = False) -> ShareRow:
        """Share a session. Its operations and its sub-agents follow with the next `collect`."""
        share = f"{self._membership.machine}/{uuid4().hex}"
        readers, _ = self._team.resolve_readers(encode_names(audience))
        return self._team.add_share(
            share,
            session=session.id,
            key=generate_share_key(),
            audience=encode_names(audience),
            readers=encode_names(readers),
            policy=policy,
            is_ruled=int(is_ruled),
        )

    def add_group(self, audience: list[str]) -> ShareRow:
        """Add a share without a session, which holds only values."""
        readers, _ = self._team.resolve_readers(encode_names(audience))
        names = {"audience": encode_names(audience), "readers": encode_names(readers)}
        share = self._team.add_share(f"{self._membership.machine}/{uuid4().hex}", key=generate_share_key(), **names)
        self._send_keys(share)
        return share

    def end_share(self, share: ShareRow) -> None:
        """Withdraw a session from all readers. Their comments stay here, as notes."""
        with self._store.transaction() as connection:
            self._team.update_share(share.id, ended_at=utc_timestamp(), held="")
            connection.execute("delete from team_outbox where share = ?", (share.id,))
            connection.execute(_KEEP_COMMENTS, (share.session,))
            self._emit("unshare", share, {})

    def _share_sub_agents(self, session: Session, share: ShareRow) -> None:
        """Share the sub-agents that are not shared yet, with the same members."""
        for child in self._store.sessions.children(session.id):
            if child.relation in SUB_AGENT_RELATIONS and self._team.find_share_of(child.id) is None:
                self.add_share(child, decode(share.audience), cast("LeakPolicy", share.policy), bool(share.is_ruled))

    def _send_keys(self, share: ShareRow) -> None:
        """Wrap the key of a share for machines that may read it and cannot yet."""
        readers, machines = self._team.resolve_readers(share.audience)
        known = {
            machine for (machine,) in self._store.rows("select machine from team_readers where share = ?", share.id)
        }
        new = [machine for machine in machines if machine.machine not in known]
        is_changed = encode_names(readers) != share.readers
        if share.key is None or not (new or is_changed):
            return
        if is_changed:
            self._team.update_share(share.id, readers=encode_names(readers))
        wrapped = {
            machine.machine: b64encode(wrap_key(share.key, machine.public, share.id)).decode() for machine in new
        }
        # Nothing was sent before the first keys, so a reader need not look for it.
        self._emit("keys", share, {"keys": wrapped, "is_first": not known}, is_sealed=False)
        self._store.connection.executemany(
            "insert into team_readers (share, machine) values (?, ?)", [(share.id, machine) for machine in wrapped]
        )

    def _send_session(self, session: Session, share: ShareRow) -> str:
        """Send what is new of a session. Return why it is held back, if it is."""
        last = self._store.row(_SELECT_LAST_ENTRY, session.key)
        if session.depth == "text" or last is None:
            return NOT_READ_YET
        gate = open_gate(self._store, cast("LeakPolicy", share.policy))
        reader = self._open_reader(session, share, gate)
        fields = describe_session(reader, session)
        digest = hashlib.sha256(encode([fields, share.readers])).hexdigest()
        last_entry, last_seq = last
        if digest == share.sent_fields and last_entry == share.sent_entry:
            return ""
        entries = iter_described_entries(reader, session, share.sent_seq) if last_seq > share.sent_seq else iter(())
        chunks = _chunk(entries)
        if digest != share.sent_fields:
            first = next(chunks, [])
            header = first.pop(0) if first and first[0]["seq"] == HEADER_SEQ else None
            chunks = chain([first], chunks)
            parent = self._team.find_share_of(session.parent_id) if session.parent_id else None
            value = {"session": fields, "readers": decode(share.readers)}
            value |= {"parent": parent.id} if parent else {}
            value |= {"header": header} if header else {}
            texts = [title_text(session.id, gate.check(session.title), session.updated_at)]
            self._emit("session", share, value, texts=texts)
        for chunk in filter(None, chunks):
            texts = list(iter_entry_texts(session.id, chunk)) if self._membership.is_plain else []
            self._emit("entries", share, {"first": chunk[0]["seq"], "entries": chunk}, texts=texts)
        gate.finish()  # a leak undoes the transaction
        self._team.update_share(share.id, sent_seq=last_seq, sent_entry=last_entry, sent_fields=digest)
        return ""

    def _open_reader(self, session: Session, share: ShareRow, gate: LeakGate) -> DocumentReader:
        """Open a reader of the turns that were not sent yet."""
        first = None
        if share.sent_seq >= 0:
            (first,) = self._store.row(_SELECT_FIRST_TURN, session.key, share.sent_seq)
        options = ExportOptions("json", (first, 2**31) if first else None, leaks=gate.policy)
        return DocumentReader(self._store, options, gate=gate)

    # ── titles, summaries, comments ───────────────────────────────────────────────────────────────

    def _collect_values(self, session: Session, share: ShareRow) -> None:
        """Send the title, the summary and the own comments, as far as they were changed here."""
        known = self.read_values(share.id)
        summary = self._store.summaries.current(session)
        own = f"comment:{self._membership.machine}:"
        values: dict[str, Json] = {name: None for name in known if name.startswith(own)}
        values |= {"title": session.own_title, "summary": [summary.text, summary.up_to_turn] if summary else None}
        for comment, seq, text, at in self._store.rows(_SELECT_COMMENTS, session.key):
            values[f"{own}{comment}"] = [seq, text, at]
        self._send_changed_values(share, known, values)

    def _send_changed_values(
        self, share: ShareRow, known: Mapping[str, SharedValue], values: Mapping[str, Json]
    ) -> None:
        for name, value in values.items():
            current = known.get(name)
            if (current.value if current else None) == value or (current is None and not value):
                continue
            self._send_value(share, share.id, name, value, current)

    def send_value(self, share: ShareRow, name: str, value: Json) -> None:
        """Send a value of a share."""
        self._send_value(share, share.id, name, value, self.read_values(share.id).get(name))

    def _send_value(self, share: ShareRow, group: str, name: str, value: Json, current: SharedValue | None) -> None:
        self._check_leaks(value, share.policy)
        moment = Moment.after(self._read_last_moment(), _milliseconds(), self._membership.machine)
        new = SharedValue(value, {}, moment).written_after(current, self._membership.machine)
        self.save_value(group, name, new)
        is_own_title = name == "title" and share.machine == self._membership.machine
        texts = [title_text(share.session or "", str(value), utc_timestamp())] if is_own_title else []
        self._emit("value", share, {"name": name} | new.to_json(), texts=texts)

    def _check_leaks(self, value: Json, policy: str) -> None:
        gate = open_gate(self._store, "refuse" if policy == "redact" else cast("LeakPolicy", policy))
        gate.check_json(value)
        gate.finish()

    def read_values(self, share: str) -> dict[str, SharedValue]:
        return {
            name: SharedValue(decode(value), decode(vector), Moment.parse(decode(moment)))
            for name, value, vector, moment in self._store.rows(_SELECT_VALUES, share)
        }

    def save_value(self, share: str, name: str, value: SharedValue) -> None:
        columns = (encode(value.value).decode(), encode(value.vector).decode(), encode(list(value.moment)).decode())
        self._store.connection.execute(
            "insert or replace into team_values (share, name, value, vector, moment) values (?, ?, ?, ?, ?)",
            (share, name, *columns),
        )

    def _read_last_moment(self) -> Moment | None:
        row = self._store.row(_SELECT_LAST_MOMENT)
        return Moment.parse(decode(row[0])) if row else None

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────

    def _collect_facts(self) -> None:
        rows = self._store.rows(_SELECT_TEAM_FACTS, TEAM_SCOPE)
        share = self._team.find_share(f"{self._membership.machine}/{FACTS_SHARE}")
        has_metrics = bool(get_setting(load_config(), "team.metrics", bool))
        if share is None and not rows and not has_metrics:
            return
        with self._store.transaction() as connection:
            if share is None:
                share = self._team.add_share(f"{self._membership.machine}/{FACTS_SHARE}", key=generate_share_key())
            self._send_keys(share)
            values: dict[str, Json] = {}
            for fact, text, category, retired_at, name in rows:
                if name is None:
                    name = uuid4().hex
                    connection.execute("insert into team_facts (fact, name) values (?, ?)", (fact, name))
                values[f"fact:{name}"] = {"text": text, "category": category, "retired": retired_at is not None}
            self._send_facts(share, values)
            self._send_metrics(share, is_wanted=has_metrics)

    def _send_metrics(self, share: ShareRow, *, is_wanted: bool) -> None:
        """Send the metrics of this machine once a day, or remove those that were sent."""
        current = self.read_values(share.id).get(METRICS)
        known = current.value if current else None
        today = utc_timestamp()[:10]
        if is_wanted and not (isinstance(known, dict) and known.get("day") == today):
            self.send_value(share, METRICS, sum_up(self._store, self._membership.machine))
        elif not is_wanted and known is not None:
            self.send_value(share, METRICS, None)

    def _send_facts(self, share: ShareRow, values: Mapping[str, Json]) -> None:
        """Send the facts that were changed, unless they hold a secret. A fact is the same on all machines,
        also after another member changed it. One that a person removed by an undo is retired on the other machines."""
        known = self.read_values("")
        removed = {
            f"fact:{name}": cast("dict[str, Json]", known[f"fact:{name}"].value) | {"retired": True}
            for (name,) in self._store.rows(_SELECT_REMOVED_FACTS)
        }
        held = ""
        for name, value in {**values, **removed}.items():
            current = known.get(name)
            if current is None or current.value != value:
                try:
                    self._send_value(share, "", name, value, current)
                except (LeaksFound, ScanFailed) as error:
                    held = str(error)
        if held != share.held:
            self._team.update_share(share.id, held=held)

    # ── the outbox ────────────────────────────────────────────────────────────────────────────────

    def _emit(
        self,
        kind: Kind,
        share: ShareRow,
        value: Mapping[str, Any],
        *,
        is_sealed: bool = True,
        texts: Sequence[PlainText] = (),
    ) -> None:
        """Write an operation to the outbox. Texts go to the server of a plain team only."""
        current = self._team.find_share(share.id)
        readers = current.readers if current else share.readers
        connection = self._store.connection
        (seq,) = connection.execute("update team set pushed = pushed + 1 returning pushed").fetchone()
        operation = build_operation(
            self._keys, self._membership.machine, seq, kind, share.id, value, share.key if is_sealed else None
        )
        columns = (seq, kind, share.id, readers, operation.digest, operation.signature, operation.body)
        plain = encode(texts) if texts and self._membership.is_plain else None
        connection.execute(_INSERT_OUTGOING, (*columns, plain))

    def count_outbox(self) -> int:
        return int(self._store.row("select count(*) from team_outbox")[0])

    def read_outbox(self, limit: int) -> list[OutgoingOperation]:
        """Return the first operations of the outbox, once they are on the disk.

        Otherwise a machine that loses power could use the number of an operation twice.
        """
        operations = list(_iter_outbox(self._store, self._membership.machine, limit))
        if operations:
            with self._store.transaction() as connection:
                connection.execute("update team set pushed = pushed")
        return operations

    def empty_outbox(self, up_to: int) -> None:
        with self._store.transaction() as connection:
            connection.execute("delete from team_outbox where seq <= ?", (up_to,))


def _iter_outbox(store: Store, machine: str, limit: int) -> Iterator[OutgoingOperation]:
    for seq, kind, share, audience, digest, signature, body, texts in store.rows(_SELECT_OUTBOX, limit):
        plain = tuple(PlainText(*text) for text in decode(texts)) if texts else ()
        operation = Operation(machine, seq, kind, share, digest, signature, body)
        yield OutgoingOperation(operation, tuple(decode(audience)), plain)


def _chunk(entries: Iterator[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    chunk: list[dict[str, Any]] = []
    size = 0
    for entry in entries:
        chunk.append(entry)
        size += _estimate_size(entry)
        if size >= CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _estimate_size(entry: Mapping[str, Any]) -> int:
    """Return about how long an entry is as JSON. Its text is in its parts again, and mostly in its record."""
    record = entry.get("record")
    verbatim = record.get("text") or record.get("base64") if isinstance(record, dict) else None
    return len(verbatim) + 2 * len(entry["text"]) if verbatim else len(encode(entry))


def _milliseconds() -> int:
    return time.time_ns() // 1_000_000
