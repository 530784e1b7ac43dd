"""These tests check the vault: the sources of its key, locking, rotation, and the problems that `verify` finds."""

from __future__ import annotations

import json
import os
import stat
import sys
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType

import pytest

from store.errors import (
    BadValue,
    KeyFileUnsafe,
    KeyringUnavailable,
    SecretDamaged,
    SecretLocked,
    WrongPassphrase,
)
from store.model.session import Session
from store.paths import key_file
from store.secrets import crypto
from store.store import Store

PASSPHRASE = "correct horse battery staple"


@pytest.fixture
def session(store: Store) -> Session:
    return store.create_session("telegram:648079060")


@pytest.fixture(autouse=True)
def quick_passphrases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the cheapest settings of Argon2id. Other tests check the real settings."""

    def make_cheap_params() -> crypto.KdfParams:
        return crypto.KdfParams(salt=os.urandom(16), memory_kib=64, passes=1, lanes=2)

    monkeypatch.setattr("store.secrets.vault.make_kdf_params", make_cheap_params)


def sealed(store: Store, key: str = "token") -> list[bytes]:
    return [row[0] for row in store.rows("select sealed from secrets where key = ? order by version", key)]


# ── the key file ──────────────────────────────────────────────────────────────────────────────────


def test_the_first_secret_creates_the_key_file(store: Store, session: Session) -> None:
    assert (store.secrets.protection, store.secrets.is_locked, key_file().exists()) == ("none", False, False)
    store.secrets.set(session, "token", "one")
    assert (store.secrets.protection, store.secrets.is_locked) == ("file", False)
    assert stat.S_IMODE(key_file().stat().st_mode) == 0o600
    key_id, store_id, wrapped, kdf, state = store.row("select key_id, store, wrapped, kdf, state from vault")
    assert (len(key_id), len(store_id), json.loads(kdf), state) == (8, 16, {"source": "file"}, "current")
    assert key_file().read_bytes() not in wrapped


def test_another_process_opens_a_secret_with_the_key_file(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    with Store.open(store.path) as reopened:
        assert reopened.get_secret(session.id, "token") == "one"


def test_without_the_key_file_nothing_opens_and_no_new_one_is_created(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    moved = key_file().rename(key_file().with_name("moved"))
    with Store.open(store.path) as reopened:
        for call in (
            lambda: reopened.secrets.get(session, "token"),
            lambda: reopened.secrets.set(session, "token", "two"),
            reopened.secrets.rotate,
            reopened.secrets.verify,
        ):
            with pytest.raises(SecretLocked, match="is missing"):
                call()
        assert not key_file().exists()
        assert [name.key for name in reopened.secrets.names()] == ["token"]
        moved.rename(key_file())
        assert reopened.secrets.get(session, "token") == "one"


def test_a_deleted_key_file_wraps_no_new_key(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    key_file().unlink()
    assert store.secrets.get(session, "token") == "one"
    with pytest.raises(SecretLocked, match="is missing"):
        store.secrets.rotate()
    store.secrets.use_key_file()
    with Store.open(store.path) as reopened:
        assert reopened.secrets.get(session, "token") == "one"


def test_a_key_file_that_others_can_read_is_refused(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    key_file().chmod(0o644)
    with Store.open(store.path) as reopened, pytest.raises(KeyFileUnsafe):
        reopened.secrets.get(session, "token")


def test_another_key_file_does_not_open_the_secret(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    key_file().write_bytes(bytes(32))
    with Store.open(store.path) as reopened:
        with pytest.raises(WrongPassphrase):
            reopened.secrets.get(session, "token")
        assert len(reopened.secrets.verify()) == 1


# ── a passphrase ──────────────────────────────────────────────────────────────────────────────────


def test_a_passphrase_may_come_before_the_first_secret(store: Store, session: Session) -> None:
    store.secrets.use_passphrase(PASSPHRASE)
    store.secrets.set(session, "token", "one")
    assert (store.secrets.protection, store.secrets.is_locked, key_file().exists()) == ("passphrase", False, False)
    with Store.open(store.path) as reopened:
        assert reopened.secrets.is_locked
        with pytest.raises(WrongPassphrase):
            reopened.secrets.unlock("correct horse")
        assert reopened.secrets.is_locked
        with pytest.raises(BadValue, match="empty"):
            reopened.secrets.unlock("")
        reopened.secrets.unlock(PASSPHRASE)
        assert not reopened.secrets.is_locked
        assert reopened.secrets.get(session, "token") == "one"


def test_operations_that_need_the_key_fail_while_locked(store: Store, session: Session) -> None:
    store.secrets.use_passphrase(PASSPHRASE)
    store.secrets.set(session, "token", "one")
    store.secrets.lock()
    assert store.secrets.is_locked
    before = (store.rows("select * from vault"), store.rows("select * from secrets"))
    for call in (
        lambda: store.secrets.get(session, "token"),
        lambda: store.secrets.set(session, "token", "two"),
        store.secrets.rotate,
        store.secrets.verify,
        store.secrets.use_key_file,
        lambda: store.secrets.use_passphrase("another"),
    ):
        with pytest.raises(SecretLocked):
            call()
    assert (store.rows("select * from vault"), store.rows("select * from secrets")) == before
    assert [name.key for name in store.secrets.names()] == ["token"]
    store.secrets.remove(session, "token")
    store.secrets.unlock(PASSPHRASE)
    store.journal.undo()
    assert store.secrets.get(session, "token") == "one"


def test_a_wrong_passphrase_leaves_an_open_vault_open(store: Store, session: Session) -> None:
    store.secrets.use_passphrase(PASSPHRASE)
    store.secrets.set(session, "token", "one")
    with pytest.raises(WrongPassphrase):
        store.secrets.unlock("wrong")
    assert store.secrets.get(session, "token") == "one"


@pytest.mark.parametrize("was_passphrase", [False, True])
def test_the_vault_of_an_older_copy_does_not_open_newer_secrets(
    store: Store, session: Session, was_passphrase: bool
) -> None:
    if was_passphrase:
        store.secrets.use_passphrase("old")
    store.secrets.set(session, "token", "one")
    old_vault = store.row("select key_id, store, wrapped, kdf, state, created_at from vault")
    store.secrets.use_passphrase(PASSPHRASE)
    store.secrets.set(session, "token", "two")
    with Store.open(store.path) as attacked:
        with attacked.transaction() as connection:
            connection.execute("delete from vault")
            connection.execute(
                "insert into vault (key_id, store, wrapped, kdf, state, created_at) values (?,?,?,?,?,?)", old_vault
            )
        if was_passphrase:
            attacked.secrets.unlock("old")
        for version in (1, 2):
            with pytest.raises(SecretDamaged):
                attacked.secrets.get(session, "token", version)


def test_a_new_passphrase_reseals_and_the_old_one_opens_nothing(store: Store, session: Session) -> None:
    store.secrets.use_passphrase(PASSPHRASE)
    store.secrets.set(session, "token", "one")
    sealed_before = sealed(store)
    store.secrets.use_passphrase("another")
    assert sealed(store) != sealed_before
    store.secrets.lock()
    with pytest.raises(WrongPassphrase):
        store.secrets.unlock(PASSPHRASE)
    store.secrets.unlock("another")
    assert store.secrets.get(session, "token") == "one"


def test_after_a_change_to_a_passphrase_the_key_file_opens_nothing(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    wrapped = store.row("select wrapped from vault")[0]
    store.secrets.use_passphrase(PASSPHRASE)
    assert store.secrets.protection == "passphrase"
    with Store.open(store.path) as reopened, pytest.raises(SecretLocked):
        reopened.secrets.get(session, "token")
    for path in store.path.parent.glob("store.db*"):
        assert wrapped not in path.read_bytes()
    store.secrets.use_key_file()
    with Store.open(store.path) as reopened:
        assert reopened.secrets.get(session, "token") == "one"


def test_a_vault_with_a_key_file_can_be_locked(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    store.secrets.lock()
    assert store.secrets.is_locked
    with pytest.raises(SecretLocked, match="Unlock them first"):
        store.secrets.get(session, "token")
    store.secrets.unlock()
    assert store.secrets.get(session, "token") == "one"


def test_a_passphrase_changed_by_another_process_locks_this_one(store: Store, session: Session) -> None:
    store.secrets.use_passphrase(PASSPHRASE)
    store.secrets.set(session, "token", "one")
    with Store.open(store.path) as other:
        other.secrets.unlock(PASSPHRASE)
        other.secrets.use_passphrase("another")
    assert store.secrets.is_locked
    with pytest.raises(SecretLocked):
        store.secrets.rotate()
    store.secrets.unlock("another")
    assert store.secrets.rotate() == 1


def test_a_rotation_by_another_process_needs_no_new_unlock(store: Store, session: Session) -> None:
    store.secrets.use_passphrase(PASSPHRASE)
    store.secrets.set(session, "token", "one")
    with Store.open(store.path) as other:
        other.secrets.unlock(PASSPHRASE)
        other.secrets.rotate()
    assert not store.secrets.is_locked
    assert store.secrets.get(session, "token") == "one"
    store.secrets.set(session, "token", "two")
    assert store.secrets.verify() == []


# ── the keyring ───────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def keyring(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
    """Install a system keyring that keeps its entries in memory, and return the entries."""
    entries: dict[tuple[str, str], str] = {}

    class InMemory:
        priority = 5

        def get_password(self, service: str, account: str) -> str | None:
            return entries.get((service, account))

        def set_password(self, service: str, account: str, password: str) -> None:
            entries[service, account] = password

    module = ModuleType("keyring")
    module.get_keyring = InMemory  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", module)
    return entries


def test_the_keyring_keeps_the_key(store: Store, session: Session, keyring: dict[tuple[str, str], str]) -> None:
    store.secrets.use_keyring()
    store.secrets.set(session, "token", "one")
    assert (store.secrets.protection, key_file().exists(), len(keyring)) == ("keyring", False, 1)
    with Store.open(store.path) as reopened:
        assert not reopened.secrets.is_locked
        assert reopened.secrets.get(session, "token") == "one"
        assert reopened.secrets.rotate() == 1
    keyring.clear()
    with Store.open(store.path) as reopened:
        with pytest.raises(SecretLocked, match="no key"):
            reopened.secrets.get(session, "token")
        assert keyring == {}


def test_a_keyring_that_does_not_answer_changes_nothing(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keyring", None)
    with pytest.raises(KeyringUnavailable):
        store.secrets.use_keyring()
    assert (store.secrets.protection, key_file().exists()) == ("none", False)


# ── rotation ──────────────────────────────────────────────────────────────────────────────────────


def test_rotation_reseals_every_version_with_a_new_key(store: Store, session: Session) -> None:
    store.secrets.set(session, "long", "x" * 20_000)
    for value in ("one", "two", "three"):
        store.secrets.set(session, "token", value)
    sealed_before = sealed(store)
    key_id, store_id = store.row("select key_id, store from vault")
    assert store.secrets.rotate() == 4
    assert store.row("select count(*), store from vault") == (1, store_id)
    assert store.row("select key_id from vault") != (key_id,)
    assert not {*sealed_before} & {*sealed(store)}
    assert store.secrets.verify() == []
    assert store.secrets.get(session, "long") == "x" * 20_000
    for expected in ("three", "two", "one"):
        assert store.secrets.get(session, "token") == expected
        store.journal.undo()


def test_a_rotation_without_secrets_changes_nothing(store: Store) -> None:
    assert store.secrets.rotate() == 0
    assert store.secrets.protection == "none"


def test_a_damaged_version_prevents_the_rotation(store: Store, session: Session) -> None:
    for key in ("a", "b", "c"):
        store.secrets.set(session, key, key)
    store.connection.execute("update secrets set sealed = zeroblob(101) where key = 'b'")
    before = (store.rows("select * from vault"), store.rows("select * from secrets"))
    with pytest.raises(SecretDamaged, match=r"'b' of 'telegram:648079060' .*Nothing was changed"):
        store.secrets.rotate()
    assert (store.rows("select * from vault"), store.rows("select * from secrets")) == before
    assert store.secrets.get(session, "a") == "a"
    store.secrets.remove(session, "b", forever=True)
    assert store.secrets.rotate() == 2


def test_readers_never_see_a_partial_rotation(store: Store, session: Session) -> None:
    store.secrets.use_passphrase(PASSPHRASE)
    store.secrets.set(session, "token", "one")

    def read(_: int) -> set[str]:
        return {store.secrets.get(session, "token") for _ in range(50)}

    with ThreadPoolExecutor(4) as pool:
        results = pool.map(read, range(3))
        for _ in range(15):
            store.secrets.rotate()
        assert list(results) == [{"one"}] * 3


# ── verify ────────────────────────────────────────────────────────────────────────────────────────


def test_verify_reports_every_problem(store: Store, session: Session) -> None:
    assert store.secrets.verify() == []
    for key in ("cut", "flipped", "foreign", "good", "swapped"):
        store.secrets.set(session, key, key)
    assert store.secrets.verify() == []
    write = store.connection.execute
    write("update secrets set sealed = x'01' where key = 'cut'")
    flipped = bytearray(sealed(store, "flipped")[0])
    flipped[-1] ^= 1
    write("update secrets set sealed = ? where key = 'flipped'", (bytes(flipped),))
    foreign = crypto.generate_data_key().seal("x", crypto.SealContext(bytes(16), session.id, "foreign", 1))
    write("update secrets set sealed = ? where key = 'foreign'", (foreign,))
    write("update secrets set sealed = (select sealed from secrets where key = 'good') where key = 'swapped'")
    write("drop index secrets_one_current")
    write("insert into secrets select session, key, 2, sealed, 1, created_at from secrets where key = 'good'")
    problems = store.secrets.verify()
    of_session = "of 'telegram:648079060'"
    damaged = "cannot be opened: it was damaged, or moved from another row."
    assert problems == [
        f"The secret 'good' {of_session} has 2 current versions.",
        f"Version 1 of the secret 'cut' {of_session} {damaged}",
        f"Version 1 of the secret 'flipped' {of_session} {damaged}",
        f"Version 1 of the secret 'foreign' {of_session} was sealed with a key that is not in the vault.",
        f"Version 2 of the secret 'good' {of_session} {damaged}",
        f"Version 1 of the secret 'swapped' {of_session} {damaged}",
    ]


def test_a_missing_vault_is_reported_and_not_replaced(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    store.connection.execute("delete from vault")
    assert store.secrets.verify() == ["There are secrets, but there is no key in the vault. Restore a backup."]
    for call in (
        lambda: store.secrets.get(session, "token"),
        lambda: store.secrets.set(session, "token", "two"),
    ):
        with pytest.raises(SecretDamaged, match="no key in the vault"):
            call()
    assert store.secrets.protection == "none"


@pytest.mark.parametrize("kdf", ["", "[]", "{}", '{"source": "moon"}', "[" * 100_000, '{"source": {"a": 1}}'])
def test_a_vault_without_a_key_source_is_damaged(store: Store, session: Session, kdf: str) -> None:
    store.secrets.set(session, "token", "one")
    store.connection.execute("update vault set kdf = ?", (kdf,))
    with pytest.raises(SecretDamaged, match="does not say where its key comes from"):
        store.secrets.get(session, "token")
    assert len(store.secrets.verify()) == 1


def test_dangerous_passphrase_settings_are_reported_as_damage(store: Store, session: Session) -> None:
    store.secrets.use_passphrase(PASSPHRASE)
    kdf = json.loads(store.row("select kdf from vault")[0]) | {"memory_kib": 2**40}
    store.connection.execute("update vault set kdf = ?", (json.dumps(kdf),))
    with pytest.raises(SecretDamaged, match="settings of the passphrase"):
        store.secrets.unlock(PASSPHRASE)


def test_two_current_keys_are_reported(store: Store, session: Session) -> None:
    store.secrets.set(session, "token", "one")
    store.connection.execute("insert into vault select x'00', store, wrapped, kdf, state, created_at from vault")
    assert store.secrets.verify()[0] == "The vault has 2 current keys. Restore a backup."


def test_an_older_version_that_another_program_made_current_is_named(store: Store, session: Session) -> None:
    for value in ("one", "two", "three"):
        store.secrets.set(session, "token", value)
    store.journal.undo()
    store.secrets.set(session, "other", "value")
    assert store.secrets.verify() == []
    with store.transaction() as connection:
        connection.execute("update secrets set current = 0 where key = 'token'")
        connection.execute("update secrets set current = 1 where key = 'token' and version = 1")
    (problem,) = store.secrets.verify()
    assert "Version 1 of the secret 'token'" in problem
    assert "the journal says version 2" in problem
