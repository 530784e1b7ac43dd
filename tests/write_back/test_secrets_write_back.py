"""Secrets carried back into the one layout that keeps them: by their sealed versions, and never seen on the way."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine
from kiso_database import DOCUMENT_SCHEMA, LATEST_SCHEMA, KisoStore
from write_back_roundtrip import Dump, WriteBackCase, check_round_trip

from store.errors import ChangedMeanwhile, NotFound, SecretLocked, StoreError
from store.sources.kit.write_plan import MASK
from store.store import Store

THEIRS, OURS = "tok-theirs-1f8ac10f23c5b5bc", "tok-ours-7c211433f02071597741"


@pytest.fixture
def owner(tmp_path: Path) -> KisoStore:
    made = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    made.add_session("dev")
    made.add_message("hello")
    made.insert_row("secrets", session="dev", key="api_token", value=THEIRS)
    return made


@pytest.fixture
def world(store: Store, owner: KisoStore) -> WriteBackCase:
    return WriteBackCase(store, owner.path, "dev")


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


def sealed(world: WriteBackCase, value: str = OURS, key: str = "api_token") -> WriteBackCase:
    world.store.secrets.set(world.session, key, value)
    return world


def held(rows: Dump) -> dict[str, str]:
    return {row["key"]: row["value"] for row in rows["secrets"]}


def kept(store: Store) -> bytes:
    """Every byte of ours but for the backups of theirs, which hold what they hold."""
    return b"".join(path.read_bytes() for path in store.path.parent.glob("store.db*") if path.is_file())


def test_another_value(world: WriteBackCase) -> None:
    (change,) = check_round_trip(sealed(world)).plan.changes
    assert (change.table, change.key) == ("secrets", {"session": "dev", "key": "api_token"})
    assert (change.before, change.after) == ({"value": THEIRS}, {"value": OURS})


def test_a_value_that_is_not_there_yet(world: WriteBackCase) -> None:
    before = world.foreign_rows()
    sealed(world, key="other").write()
    assert held(world.foreign_rows()) == {"api_token": THEIRS, "other": OURS}
    assert world.preview().plan.changes == []
    world.store.journal.undo()
    assert held(world.foreign_rows()) == held(before)
    world.store.journal.undo(world.newest_edit().id)
    assert held(world.foreign_rows()) == {"api_token": THEIRS, "other": OURS}


def test_a_deleted_session_takes_its_secrets_along_and_brings_them_back(world: WriteBackCase) -> None:
    changes = check_round_trip(world.delete_session()).plan.changes
    assert [change.table for change in changes] == ["secrets", "messages", "sessions"]
    assert held(world.foreign_rows()) == {"api_token": THEIRS}


def test_no_value_stands_anywhere_in_plain(world: WriteBackCase, cli: CommandLine) -> None:
    sealed(world)
    told = [repr(world.preview())]
    for args in (
        ("write-back", "dev", "--dry-run"),
        ("write-back", "dev", "--dry-run", "--json"),
        ("write-back", "dev", "--json"),
        ("undo",),
        ("delete", "dev"),
        ("write-back", "dev"),
        ("undo",),
        ("log",),
        ("log", "--json"),
    ):
        ran = cli(*args)
        assert ran.status == 0
        told += [ran.out, ran.err]
    world.store.connection.execute("pragma wal_checkpoint(truncate)")
    for value in (THEIRS, OURS):
        assert [text for text in told if value in text] == []
        assert value.encode() not in kept(world.store)
    assert MASK in told[1]
    assert "sealed version" in told[-3] + told[-4]


def test_the_rows_are_shown_masked(world: WriteBackCase, cli: CommandLine) -> None:
    sealed(world)
    assert cli("write-back", "dev", "--dry-run").lines == [
        "secrets dev api_token",
        f"  - value: {MASK}",
        f"  + value: {MASK}",
    ]
    (change,) = cli("write-back", "dev", "--dry-run", "--json").json["changes"]
    assert (change["before"], change["after"]) == ({"value": MASK}, {"value": MASK})
    assert held(world.foreign_rows()) == {"api_token": THEIRS}


def test_undo_puts_theirs_back_by_its_sealed_version_even_under_another_key(world: WriteBackCase) -> None:
    sealed(world).write()
    world.store.secrets.rotate()
    world.store.journal.undo()
    assert held(world.foreign_rows()) == {"api_token": THEIRS}
    assert world.store.secrets.get(world.session, "api_token") == OURS


def test_what_was_forgotten_for_ever_is_not_put_back(world: WriteBackCase) -> None:
    sealed(world).write()
    world.store.secrets.remove(world.session, "api_token", forever=True)
    before = world.foreign_rows()
    with pytest.raises(NotFound, match="has no secret 'api_token'"):
        world.store.journal.undo()
    assert world.foreign_rows() == before


def test_a_value_that_is_no_text_is_left_alone(world: WriteBackCase, owner: KisoStore) -> None:
    owner.execute("update secrets set value = x'ff00'")
    for wanted in (sealed(world), world.delete_session()):
        before = wanted.foreign_rows()
        with pytest.raises(ChangedMeanwhile, match="is not text and cannot be sealed"):
            wanted.write()
        assert wanted.foreign_rows() == before


# ── who changed it last ───────────────────────────────────────────────────────────────────────────


def test_what_was_sealed_from_there_is_not_carried_back(world: WriteBackCase, owner: KisoStore) -> None:
    world.store.write_back.seal(world.session, "api_token")
    owner.execute("update secrets set value = 'rotated there'")
    assert world.preview().plan.changes == []


def test_what_was_carried_over_is_its_owner_s_affair(world: WriteBackCase, owner: KisoStore) -> None:
    sealed(world).write()
    owner.execute("update secrets set value = 'rotated there'")
    assert world.set_summary().preview().edits.secrets == ()
    world.write()
    assert held(world.foreign_rows()) == {"api_token": "rotated there"}


def test_what_was_changed_there_since_it_was_read_is_refused(world: WriteBackCase, owner: KisoStore) -> None:
    world.store.write_back.seal(world.session, "api_token")
    owner.execute("update secrets set value = 'rotated there'")
    before = sealed(world).foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="'api_token' was changed in Kiso since it was read; `secrets seal` it"):
        world.write()
    assert world.foreign_rows() == before
    world.store.write_back.seal(world.session, "api_token")
    check_round_trip(sealed(world))


def test_what_is_changed_there_after_it_was_shown_is_refused(world: WriteBackCase, owner: KisoStore) -> None:
    preview = sealed(world).preview()
    owner.execute("update secrets set value = 'rotated there'")
    before = world.foreign_rows()
    with pytest.raises(ChangedMeanwhile) as refusal:
        world.store.write_back.write(preview)
    assert world.foreign_rows() == before
    assert "rotated" not in str(refusal.value)


def test_an_older_value_made_current_again_is_carried_over(world: WriteBackCase) -> None:
    world.store.write_back.seal(world.session, "api_token")
    sealed(world).write()
    world.store.journal.undo(world.store.journal.list_edits()[1].id)
    assert world.store.secrets.get(world.session, "api_token") == THEIRS
    world.write()
    assert held(world.foreign_rows()) == {"api_token": THEIRS}


# ── locked ────────────────────────────────────────────────────────────────────────────────────────


def test_with_locked_secrets_nothing_is_written(world: WriteBackCase) -> None:
    sealed(world).set_summary()
    world.store.secrets.lock()
    before, edit = world.foreign_rows(), world.newest_edit()
    for action in (world.preview, world.write):
        with pytest.raises(SecretLocked, match="locked"):
            action()
    assert (world.foreign_rows(), world.newest_edit()) == (before, edit)
    assert not Path(f"{world.store.path}.backups").exists()


def test_with_locked_secrets_a_session_that_has_some_is_not_deleted(world: WriteBackCase) -> None:
    sealed(world).delete_session()
    world.store.secrets.lock()
    before, edit = world.foreign_rows(), world.newest_edit()
    with pytest.raises(SecretLocked, match="locked"):
        world.write()
    assert (world.foreign_rows(), world.newest_edit()) == (before, edit)
    assert not Path(f"{world.store.path}.backups").exists()


def test_with_locked_secrets_nothing_is_undone(world: WriteBackCase) -> None:
    sealed(world).write()
    world.store.secrets.lock()
    before, edit = world.foreign_rows(), world.newest_edit()
    with pytest.raises(SecretLocked):
        world.store.journal.undo()
    assert (world.foreign_rows(), world.newest_edit()) == (before, edit)


def test_where_secrets_have_no_place_a_locked_vault_holds_nothing_up(store: Store, tmp_path: Path) -> None:
    owner = KisoStore(tmp_path / "head.db", LATEST_SCHEMA)
    owner.add_session("dev")
    owner.add_message("hello")
    world = sealed(WriteBackCase(store, owner.path, "dev"))
    store.secrets.lock()
    assert check_round_trip(world.set_title()).plan.unsupported == [
        "This layout of Kiso keeps no secrets in its database; yours stay here."
    ]


def test_the_passphrase_is_asked_for_when_a_secret_has_to_be_opened(world: WriteBackCase, cli: CommandLine) -> None:
    sealed(world)
    world.store.secrets.use_passphrase("open sesame")
    ran = cli("write-back", "dev")
    assert (ran.status, held(world.foreign_rows())) == (1, {"api_token": THEIRS})
    assert "--passphrase-stdin" in ran.err
    assert cli("write-back", "dev", "--passphrase-stdin", stdin="wrong\n").status == 1
    assert cli("write-back", "dev", "--passphrase-stdin", stdin="open sesame\n").status == 0
    assert held(world.foreign_rows()) == {"api_token": OURS}
    assert cli("undo").status == 1
    assert held(world.foreign_rows()) == {"api_token": OURS}
    assert cli("undo", "--passphrase-stdin", stdin="open sesame\n").status == 0
    assert held(world.foreign_rows()) == {"api_token": THEIRS}


def test_at_a_terminal_the_passphrase_is_asked_for(world: WriteBackCase, cli: CommandLine) -> None:
    sealed(world)
    world.store.secrets.use_passphrase("open sesame")
    assert cli.run_in_terminal("write-back", "dev", answers=[("Passphrase", "open sesame")]).status == 0
    assert held(world.foreign_rows()) == {"api_token": OURS}


def test_a_key_that_was_lost_is_a_sentence(world: WriteBackCase, home: Path) -> None:
    sealed(world)
    (home / ".config/backscroll/key").unlink()
    before = world.foreign_rows()
    with Store.open(world.store.path) as again, pytest.raises(StoreError):
        again.write_back.write(again.write_back.preview(again.sessions.find("dev")))
    assert world.foreign_rows() == before
