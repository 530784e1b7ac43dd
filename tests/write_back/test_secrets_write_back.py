"""These tests write secrets back to the one layout that has them. Values are never shown or stored in plain text."""

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
    kiso = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    kiso.add_session("dev")
    kiso.add_message("hello")
    kiso.insert_row("secrets", session="dev", key="api_token", value=THEIRS)
    return kiso


@pytest.fixture
def case(store: Store, owner: KisoStore) -> WriteBackCase:
    return WriteBackCase(store, owner.path, "dev")


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


def set_secret(case: WriteBackCase, value: str = OURS, key: str = "api_token") -> WriteBackCase:
    case.store.secrets.set(case.session, key, value)
    return case


def foreign_secrets(rows: Dump) -> dict[str, str]:
    return {row["key"]: row["value"] for row in rows["secrets"]}


def read_own_files(store: Store) -> bytes:
    """Return the bytes of all our files, except backups of the foreign store."""
    return b"".join(path.read_bytes() for path in store.path.parent.glob("store.db*") if path.is_file())


def test_a_new_value(case: WriteBackCase) -> None:
    (change,) = check_round_trip(set_secret(case)).plan.changes
    assert (change.table, change.key) == ("secrets", {"session": "dev", "key": "api_token"})
    assert (change.before, change.after) == ({"value": THEIRS}, {"value": OURS})


def test_a_secret_that_the_source_does_not_have_yet(case: WriteBackCase) -> None:
    before = case.foreign_rows()
    set_secret(case, key="other").write()
    assert foreign_secrets(case.foreign_rows()) == {"api_token": THEIRS, "other": OURS}
    assert case.preview().plan.changes == []
    case.store.journal.undo()
    assert foreign_secrets(case.foreign_rows()) == foreign_secrets(before)
    case.store.journal.undo(case.newest_edit().id)
    assert foreign_secrets(case.foreign_rows()) == {"api_token": THEIRS, "other": OURS}


def test_a_deletion_includes_secrets_and_an_undo_restores_them(case: WriteBackCase) -> None:
    changes = check_round_trip(case.delete_session()).plan.changes
    assert [change.table for change in changes] == ["secrets", "messages", "sessions"]
    assert foreign_secrets(case.foreign_rows()) == {"api_token": THEIRS}


def test_no_value_is_anywhere_in_plain_text(case: WriteBackCase, cli: CommandLine) -> None:
    set_secret(case)
    outputs = [repr(case.preview())]
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
        outputs += [ran.out, ran.err]
    case.store.connection.execute("pragma wal_checkpoint(truncate)")
    for value in (THEIRS, OURS):
        assert [text for text in outputs if value in text] == []
        assert value.encode() not in read_own_files(case.store)
    assert MASK in outputs[1]
    assert "sealed version" in outputs[-3] + outputs[-4]


def test_the_rows_are_shown_masked(case: WriteBackCase, cli: CommandLine) -> None:
    set_secret(case)
    assert cli("write-back", "dev", "--dry-run").lines == [
        "secrets dev api_token",
        f"  - value: {MASK}",
        f"  + value: {MASK}",
    ]
    (change,) = cli("write-back", "dev", "--dry-run", "--json").json["changes"]
    assert (change["before"], change["after"]) == ({"value": MASK}, {"value": MASK})
    assert foreign_secrets(case.foreign_rows()) == {"api_token": THEIRS}


def test_undo_restores_the_old_value_even_after_a_rotation(case: WriteBackCase) -> None:
    set_secret(case).write()
    case.store.secrets.rotate()
    case.store.journal.undo()
    assert foreign_secrets(case.foreign_rows()) == {"api_token": THEIRS}
    assert case.store.secrets.get(case.session, "api_token") == OURS


def test_a_value_that_was_removed_forever_is_not_restored(case: WriteBackCase) -> None:
    set_secret(case).write()
    case.store.secrets.remove(case.session, "api_token", forever=True)
    before = case.foreign_rows()
    with pytest.raises(NotFound, match="has no secret 'api_token'"):
        case.store.journal.undo()
    assert case.foreign_rows() == before


def test_a_value_that_is_not_text_is_refused(case: WriteBackCase, owner: KisoStore) -> None:
    owner.execute("update secrets set value = x'ff00'")
    for edited_case in (set_secret(case), case.delete_session()):
        before = edited_case.foreign_rows()
        with pytest.raises(ChangedMeanwhile, match="is not text and cannot be sealed"):
            edited_case.write()
        assert edited_case.foreign_rows() == before


# ── changes on both sides ─────────────────────────────────────────────────────────────────────────


def test_a_secret_that_was_sealed_from_the_source_is_not_written_back(case: WriteBackCase, owner: KisoStore) -> None:
    case.store.write_back.seal(case.session, "api_token")
    owner.execute("update secrets set value = 'rotated there'")
    assert case.preview().plan.changes == []


def test_a_written_secret_that_its_owner_changed_is_not_written_again(case: WriteBackCase, owner: KisoStore) -> None:
    set_secret(case).write()
    owner.execute("update secrets set value = 'rotated there'")
    assert case.set_summary().preview().edits.secrets == ()
    case.write()
    assert foreign_secrets(case.foreign_rows()) == {"api_token": "rotated there"}


def test_a_secret_that_was_changed_there_since_it_was_sealed_is_refused(case: WriteBackCase, owner: KisoStore) -> None:
    case.store.write_back.seal(case.session, "api_token")
    owner.execute("update secrets set value = 'rotated there'")
    before = set_secret(case).foreign_rows()
    with pytest.raises(ChangedMeanwhile, match=r"'api_token' has changed in Kiso\. Run `secrets seal`"):
        case.write()
    assert case.foreign_rows() == before
    case.store.write_back.seal(case.session, "api_token")
    check_round_trip(set_secret(case))


def test_a_secret_that_was_changed_there_since_the_preview_is_refused(case: WriteBackCase, owner: KisoStore) -> None:
    preview = set_secret(case).preview()
    owner.execute("update secrets set value = 'rotated there'")
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile) as refusal:
        case.store.write_back.write(preview)
    assert case.foreign_rows() == before
    assert "rotated" not in str(refusal.value)


def test_a_restored_older_value_is_written(case: WriteBackCase) -> None:
    case.store.write_back.seal(case.session, "api_token")
    set_secret(case).write()
    case.store.journal.undo(case.store.journal.list_edits()[1].id)
    assert case.store.secrets.get(case.session, "api_token") == THEIRS
    case.write()
    assert foreign_secrets(case.foreign_rows()) == {"api_token": THEIRS}


# ── locked ────────────────────────────────────────────────────────────────────────────────────────


def test_with_locked_secrets_nothing_is_written(case: WriteBackCase) -> None:
    set_secret(case).set_summary()
    case.store.secrets.lock()
    before, edit = case.foreign_rows(), case.newest_edit()
    for action in (case.preview, case.write):
        with pytest.raises(SecretLocked, match="locked"):
            action()
    assert (case.foreign_rows(), case.newest_edit()) == (before, edit)
    assert not Path(f"{case.store.path}.backups").exists()


def test_with_locked_secrets_a_session_with_secrets_is_not_deleted(case: WriteBackCase) -> None:
    set_secret(case).delete_session()
    case.store.secrets.lock()
    before, edit = case.foreign_rows(), case.newest_edit()
    with pytest.raises(SecretLocked, match="locked"):
        case.write()
    assert (case.foreign_rows(), case.newest_edit()) == (before, edit)
    assert not Path(f"{case.store.path}.backups").exists()


def test_with_locked_secrets_nothing_is_undone(case: WriteBackCase) -> None:
    set_secret(case).write()
    case.store.secrets.lock()
    before, edit = case.foreign_rows(), case.newest_edit()
    with pytest.raises(SecretLocked):
        case.store.journal.undo()
    assert (case.foreign_rows(), case.newest_edit()) == (before, edit)


def test_a_locked_vault_does_not_matter_where_secrets_are_unsupported(store: Store, tmp_path: Path) -> None:
    owner = KisoStore(tmp_path / "head.db", LATEST_SCHEMA)
    owner.add_session("dev")
    owner.add_message("hello")
    case = set_secret(WriteBackCase(store, owner.path, "dev"))
    store.secrets.lock()
    assert check_round_trip(case.set_title()).plan.unsupported == [
        "This layout of Kiso cannot store secrets in its database. Your secrets stay in Backscroll."
    ]


def test_the_passphrase_is_asked_for_when_a_secret_has_to_be_opened(case: WriteBackCase, cli: CommandLine) -> None:
    set_secret(case)
    case.store.secrets.use_passphrase("open sesame")
    ran = cli("write-back", "dev")
    assert (ran.status, foreign_secrets(case.foreign_rows())) == (1, {"api_token": THEIRS})
    assert "--passphrase-stdin" in ran.err
    assert cli("write-back", "dev", "--passphrase-stdin", stdin="wrong\n").status == 1
    assert cli("write-back", "dev", "--passphrase-stdin", stdin="open sesame\n").status == 0
    assert foreign_secrets(case.foreign_rows()) == {"api_token": OURS}
    assert cli("undo").status == 1
    assert foreign_secrets(case.foreign_rows()) == {"api_token": OURS}
    assert cli("undo", "--passphrase-stdin", stdin="open sesame\n").status == 0
    assert foreign_secrets(case.foreign_rows()) == {"api_token": THEIRS}


def test_at_a_terminal_the_passphrase_is_asked_for(case: WriteBackCase, cli: CommandLine) -> None:
    set_secret(case)
    case.store.secrets.use_passphrase("open sesame")
    assert cli.run_in_terminal("write-back", "dev", answers=[("Passphrase", "open sesame")]).status == 0
    assert foreign_secrets(case.foreign_rows()) == {"api_token": OURS}


def test_a_lost_key_is_an_error(case: WriteBackCase, home: Path) -> None:
    set_secret(case)
    (home / ".config/backscroll/key").unlink()
    before = case.foreign_rows()
    with Store.open(case.store.path) as reopened, pytest.raises(StoreError):
        reopened.write_back.write(reopened.write_back.preview(reopened.sessions.find("dev")))
    assert case.foreign_rows() == before
