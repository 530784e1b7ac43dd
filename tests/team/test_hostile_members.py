"""Tests that a trusted member can change only what is its own, and that nothing gets through the database."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
import pytest
from postgres_server import PASSWORD, PostgresServer
from teams.stores import OpenMember, sync_all, trust_all

from store.errors import BadValue, Refused, Unreadable
from store.store import Store
from store.team.keys import MachineKeys, machine_id, seal, unseal, wrap_key
from store.team.membership import LocalTeam
from store.team.operations import Kind, Operation, build_operation, check_operation, open_body
from store.team.schema import MIGRATIONS
from store.team.server import OutgoingOperation, connect

INSERT_FORGED = """
    insert into backscroll_team.operations (machine, seq, kind, share, audience, digest, signature, body)
    values (%s, 500, 'keys', 'x', array['*'], '', '', '')
"""


@pytest.fixture
def members(open_member: OpenMember) -> tuple[Store, Store, Store]:
    """Provide Anna, who shares a session with everybody, Ben, and Eve, who is hostile. All trust each other."""
    anna, ben, eve = open_member("anna"), open_member("ben"), open_member("eve")
    trust_all(anna, ben, eve)
    anna.create_session("s1")
    anna.append_message("s1", "user", [{"type": "text", "text": "Fix the upload."}])
    anna.team.share(anna.sessions.get("s1"))
    sync_all(anna, ben, eve)
    return anna, ben, eve


def send(store: Store, address: str, kind: Kind, share: str, value: Mapping[str, Any], key: bytes | None) -> None:
    """Send an operation that the program itself would never send."""
    local = LocalTeam(store)
    membership = local.read_membership()
    with store.transaction() as connection:
        (seq,) = connection.execute("update team set pushed = pushed + 1 returning pushed").fetchone()
    operation = build_operation(membership.open_keys(), membership.machine, seq, kind, share, value, key)
    with connect(address) as server:
        server.push([OutgoingOperation(operation, ("*",))])


def anna_share(store: Store) -> tuple[str, bytes]:
    (share,) = LocalTeam(store).list_shares("session is not null")
    assert share.key is not None
    return share.id, share.key


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("unshare", {}),
        ("session", {"session": {"id": "s1", "source": "x", "native_id": "s1"}, "readers": ["*"]}),
        ("entries", {"first": 1, "entries": [{"kind": "message", "role": "user", "parts": []}]}),
        ("keys", {"keys": {}}),
        ("value", {"name": "title", "value": 7, "vector": {"x": 9}, "moment": [1, 0, "x"]}),
        ("value", {"name": "fact:1", "value": None, "vector": {}, "moment": [1, 0, "x"]}),
        ("value", {"name": "ask", "value": {"to": "ben"}, "vector": {}, "moment": [1, 0, "x"]}),
        ("value", {"name": "metrics", "value": None, "vector": {}, "moment": [1, 0, "x"]}),
        ("value", {"name": "comment:somebody:1", "value": None, "vector": {}, "moment": [1, 0, "x"]}),
    ],
)
def test_what_belongs_to_another_is_refused_and_named(
    members: tuple[Store, Store, Store], team_address: str, kind: Kind, value: dict[str, Any]
) -> None:
    anna, ben, eve = members
    share, key = anna_share(eve)
    before = ben.sessions.newest()
    send(eve, team_address, kind, share, value, None if kind == "keys" else key)
    result = ben.team.sync()
    assert len(result.refused) == 1
    assert result.refused[0].startswith("eve: ")
    assert ben.sessions.newest() == before
    assert ben.team.status().refused == result.refused
    assert ben.team.sync().refused == ()
    anna.append_message("s1", "user", [{"type": "text", "text": "Go on."}])
    sync_all(anna, ben)
    assert ben.sessions.newest()[0].turns == 2


def test_a_trusted_machine_that_takes_another_name_gets_nothing_more(
    members: tuple[Store, Store, Store], team_address: str
) -> None:
    anna, ben, eve = members
    anna.create_session("s2")
    anna.append_message("s2", "user", [{"type": "text", "text": "Only for Ben."}])
    with psycopg.connect(team_address, autocommit=True) as connection:
        connection.execute(
            "update backscroll_team.machines set name = 'ben' where machine = %s", (eve.team.status().machine,)
        )
    anna.team.sync()
    anna.team.share(anna.sessions.get("s2"), ["ben"])
    sync_all(anna, ben, eve)
    assert sorted(machine.name for machine in anna.team.members()) == ["anna", "ben", "eve"]
    assert len(ben.sessions.newest()) == 2
    assert len(eve.sessions.newest()) == 1


def test_a_signed_operation_of_another_machine_cannot_be_sent_again(
    members: tuple[Store, Store, Store], team_address: str
) -> None:
    anna, ben, eve = members
    with connect(team_address) as server:
        operation = server.fetch_after(LocalTeam(anna).read_membership().machine, 0)[0]
        own = LocalTeam(eve).read_membership().machine
        server.push([OutgoingOperation(operation._replace(machine=own, seq=90), ("*",))])
    assert ben.team.sync().refused == ("eve: Its signature is wrong.",)


def test_a_body_that_was_changed_in_the_database_is_refused(
    members: tuple[Store, Store, Store], team_address: str
) -> None:
    anna, ben, _ = members
    anna.append_message("s1", "user", [{"type": "text", "text": "Go on."}])
    anna.team.sync()
    with psycopg.connect(team_address, autocommit=True) as connection:
        connection.execute("update backscroll_team.operations set body = body || '\\x00' where kind = 'entries'")
    assert ben.team.sync().refused == ("anna: Its body was changed after it was signed.",)


def test_an_operation_with_a_body_that_is_too_large_is_not_read(
    members: tuple[Store, Store, Store], team_address: str
) -> None:
    _, ben, eve = members
    machine = LocalTeam(eve).read_membership().machine
    with psycopg.connect(team_address, autocommit=True) as connection:
        connection.execute(
            "insert into backscroll_team.operations (machine, seq, kind, share, audience, digest, signature, body)"
            " values (%s, 99, 'entries', 'x', array['*'], '', '', decode(repeat('00', 17000000), 'hex'))",
            (machine,),
        )
    assert len(ben.team.sync().refused) == 1


@pytest.mark.parametrize("body", [b"", b"not compressed", b"\x28\xb5\x2f\xfd\x00"])
def test_bodies_that_cannot_be_decoded_are_refused(body: bytes) -> None:
    operation = Operation("m", 1, "keys", "m/1", b"", b"", body)
    with pytest.raises(BadValue):
        open_body(operation, None)


def test_a_key_is_opened_by_the_machine_that_it_is_wrapped_for_and_no_other() -> None:
    reader, other = MachineKeys.generate(), MachineKeys.generate()
    wrapped = wrap_key(b"k" * 32, reader.public, "m/1")
    assert reader.unwrap_key(wrapped, "m/1") == b"k" * 32
    for opening in (lambda: other.unwrap_key(wrapped, "m/1"), lambda: reader.unwrap_key(wrapped, "m/2")):
        with pytest.raises(BadValue):
            opening()


def test_every_changed_bit_of_a_sealed_body_is_noticed() -> None:
    sealed = seal(b"text", b"k" * 32, b"context")
    assert unseal(sealed, b"k" * 32, b"context") == b"text"
    for position in range(len(sealed)):
        for bit in range(8):
            changed = bytearray(sealed)
            changed[position] ^= 1 << bit
            with pytest.raises(BadValue):
                unseal(bytes(changed), b"k" * 32, b"context")


def test_the_id_of_a_machine_cannot_be_claimed_with_other_keys(
    members: tuple[Store, Store, Store], team_address: str
) -> None:
    _, ben, _ = members
    stranger = MachineKeys.generate()
    with connect(team_address) as server:
        server.add_machine("f" * 32, "anna", stranger.public)
    ben.team.sync()
    assert "f" * 32 not in {machine.machine for machine in ben.team.members()}
    assert machine_id(stranger.public) != "f" * 32


def test_an_operation_of_a_newer_version_is_refused_by_name() -> None:
    keys = MachineKeys.generate()
    machine = machine_id(keys.public)
    operation = build_operation(keys, machine, 1, "keys", f"{machine}/1", {}, None)
    check_operation(operation, keys.public)
    with pytest.raises(BadValue, match="Update Backscroll"):
        check_operation(operation._replace(kind="dance"), keys.public)  # type: ignore[arg-type]


# ── what the database sees, and lets see ──────────────────────────────────────────────────────────


def test_no_text_is_in_the_database(members: tuple[Store, Store, Store], team_address: str) -> None:
    anna, _, _ = members
    anna.sessions.set_title(anna.sessions.get("s1"), "A title that nobody else needs to see")
    anna.team.sync()
    with psycopg.connect(team_address) as connection:
        rows = connection.execute("select operations::text, body from backscroll_team.operations").fetchall()
    for text, body in rows:
        assert b"upload" not in body
        assert "upload" not in text
        assert b"title" not in body


def test_a_member_with_a_role_of_its_own_reads_only_what_is_meant_for_it(
    members: tuple[Store, Store, Store], team_address: str, postgres_server: PostgresServer
) -> None:
    anna, ben, _ = members
    anna.team.share(anna.sessions.get("s1"), ["ben"])
    anna.team.sync()
    ben_machine = LocalTeam(ben).read_membership().machine
    with psycopg.connect(team_address, autocommit=True) as connection:
        for role in ("ben", "stranger"):
            connection.execute(f"create role {role}_{os.getpid()} login password '{PASSWORD}'")
        connection.execute(
            f"update backscroll_team.machines set role = 'ben_{os.getpid()}' where machine = %s", (ben_machine,)
        )
    counts = {}
    for role in ("ben", "stranger"):
        with psycopg.connect(
            team_address.replace("postgres@", f"{role}_{os.getpid()}@"), autocommit=True
        ) as connection:
            row = connection.execute("select count(*) from backscroll_team.operations").fetchone()
            assert row is not None
            counts[role] = row[0]
            with pytest.raises(psycopg.Error):
                connection.execute("delete from backscroll_team.operations")
            updated = connection.execute(
                "update backscroll_team.operations set body = '' where machine <> %s", (ben_machine,)
            )
            assert updated.rowcount == 0
            with pytest.raises(psycopg.Error):
                connection.execute(INSERT_FORGED, (LocalTeam(anna).read_membership().machine,))
    assert counts["ben"] > 0
    assert counts["stranger"] == 0
    assert ben.team.status(asks_server=True).shares_role is True  # this store still connects as a superuser


# ── servers ───────────────────────────────────────────────────────────────────────────────────────


def join_with(address: str) -> Callable[[Store], object]:
    return lambda store: store.team.join(address, "anna")


def test_a_password_in_the_address_is_refused(store: Store) -> None:
    with pytest.raises(BadValue, match="Leave the password out") as error:
        store.team.join("postgresql://anna:hunter2@localhost/team")
    assert "hunter2" not in str(error.value)


@pytest.mark.parametrize("address", ["https://example.com", "team", "sqlite:///x.db"])
def test_what_is_no_address_is_refused(store: Store, address: str) -> None:
    with pytest.raises(BadValue, match="not the address of a PostgreSQL database"):
        store.team.join(address)


def test_a_server_that_is_not_there_is_one_sentence(store: Store) -> None:
    with pytest.raises(Unreadable, match="cannot be used now"):
        store.team.join("postgresql://postgres@127.0.0.1:1/team")
    assert not store.team.is_member


def test_a_schema_of_somebody_else_is_left_alone(store: Store, team_address: str) -> None:
    with psycopg.connect(team_address, autocommit=True) as connection:
        connection.execute("create schema backscroll_team")
    with pytest.raises(Refused, match="not from Backscroll"):
        store.team.join(team_address)


def test_a_newer_schema_asks_for_an_update(open_member: OpenMember, team_address: str, store: Store) -> None:
    anna = open_member("anna")
    with psycopg.connect(team_address, autocommit=True) as connection:
        connection.execute("insert into backscroll_team.migrations (number) values (99)")
    with pytest.raises(Unreadable, match="Update Backscroll"):
        store.team.join(team_address, "ben")
    with pytest.raises(Unreadable, match="Update Backscroll"):
        anna.team.sync()


def test_an_older_schema_is_changed_by_the_first_sync(open_member: OpenMember, team_address: str) -> None:
    anna = open_member("anna")
    with psycopg.connect(team_address, autocommit=True) as connection:
        connection.execute("drop table backscroll_team.texts")
        connection.execute("alter table backscroll_team.team drop column is_plain")
        connection.execute("delete from backscroll_team.migrations where number > 1")
    anna.team.sync()
    with psycopg.connect(team_address) as connection:
        assert connection.execute("select max(number) from backscroll_team.migrations").fetchone() == (len(MIGRATIONS),)
        assert connection.execute("select count(*) from backscroll_team.texts").fetchone() == (0,)


def test_an_older_copy_of_a_store_does_not_continue_the_log(
    members: tuple[Store, Store, Store], team_address: str
) -> None:
    anna, _, _ = members
    with anna.transaction() as connection:
        connection.execute("update team set pushed = 1")
    anna.append_message("s1", "user", [{"type": "text", "text": "From an older copy."}])
    with pytest.raises(Refused, match="Another copy of this store"):
        anna.team.sync()


def test_nothing_is_lost_while_the_server_cannot_be_reached(
    members: tuple[Store, Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    anna, ben, _ = members
    anna.append_message("s1", "user", [{"type": "text", "text": "Written offline."}])
    with monkeypatch.context() as patch:
        patch.setenv("PGPASSWORD", "wrong")
        with pytest.raises(Unreadable):
            anna.team.sync()
    sync_all(anna, ben)
    assert ben.sessions.newest()[0].turns == 2
