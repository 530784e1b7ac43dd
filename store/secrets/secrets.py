"""This module stores the secrets of sessions. Each version of a value is sealed in its own row; the newest is current.

The journal records only which version is current. So undo works as for any other edit, but the journal holds neither a
value nor its sealed form, and `remove(forever=True)` erases every trace.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.conversations.sessions import UNSEEN
from store.errors import BadValue, ChangedMeanwhile, NotFound, SecretDamaged, SecretLocked, StoreError
from store.model.knowledge import ExposedSecret, SecretInfo
from store.model.session import Session
from store.secrets.crypto import DataKey, SealContext, read_key_id
from store.secrets.redacted_values import (
    HAS_SEALED,
    find_damaged_values,
    open_redacted_value,
    reseal_redacted_values,
    seal_redacted_value,
)
from store.secrets.vault import (
    VAULT_COLUMNS,
    KeyWrapping,
    Protection,
    UnwrappedKey,
    Vault,
    VaultRow,
    missing_vault_key,
)
from store.text.validate import utc_timestamp, validate_id

if TYPE_CHECKING:
    from store.store import Store

MAX_NAME_CHARS = 1_000

_COLUMNS = "session, key, version, sealed, current, created_at"
_SELECT_SEALED = f"""
    select secrets.version, secrets.sealed, {VAULT_COLUMNS} from secrets left join vault on vault.state = 'current'
    where secrets.session = ? and secrets.key = ? and """
"""Is completed by a condition that chooses the version."""

_SELECT_NAMES = """
    select sessions.id, secrets.key, secrets.version, secrets.created_at
    from secrets join sessions on sessions.key = secrets.session where secrets.current = 1
"""
_SELECT_EXPOSED = """
    select sessions.id, foreign_secrets.key, sources.locator, foreign_secrets.place from foreign_secrets
    join sessions on sessions.key = foreign_secrets.session join sources on sources.key = sessions.source_key
    where not exists (
        select 1 from secrets where secrets.session = sessions.key and secrets.key = foreign_secrets.key and current = 1
    )
"""
_SELECT_ALL_VERSIONS = """
    select secrets.session, secrets.key, secrets.version, sessions.id
    from secrets join sessions on sessions.key = secrets.session order by sessions.id, secrets.key, secrets.version
"""
_SELECT_CURRENT_VERSIONS = _SELECT_ALL_VERSIONS.replace("order by", "where secrets.current = 1 order by")
_SELECT_EDITED_VERSIONS = """
    select json_extract(value, '$.key[0]'), json_extract(value, '$.key[1]'), json_extract(value, '$.key[2]')
    from edits, json_each(edits.after) where edits.after like '%"secrets"%'
    and json_extract(value, '$.table') = 'secrets' and json_extract(value, '$.columns.current') = 1 order by edits.id
"""
"""Selects each version that an edit made current, the newest last."""

_BLANK_EDITS = """
    update edits set before = '[]', after = '[]', blanked = 1 where exists (
        select 1 from json_each(edits.after) where json_extract(value, '$.table') = 'secrets'
        and json_extract(value, '$.key[0]') = ? and json_extract(value, '$.key[1]') = ?
    )
"""


class Secrets:
    """Reads, edits and checks secrets. This is the collection `store.secrets`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._vault = Vault(store)

    # ── values ────────────────────────────────────────────────────────────────────────────────────

    def set(
        self, session: Session, key: str, value: str, *, kind: str = "set secret", seen: int | None = UNSEEN
    ) -> None:
        """Seal a new version and make it current. The old version stays for undo, until it is removed forever.

        `seen` is the version that was current when it was shown, or None if there was none.
        """
        with self._store.journal.edit(kind, session.key) as edit:
            current = self._check_current(seen, session, _validate_name(key))
            version = self.seal_version(session, key, value)
            if current is not None:
                edit.update("secrets", [session.key, key, current], current=0)
            edit.update("secrets", [session.key, key, version], current=1)

    def _check_current(self, seen: int | None, session: Session, key: str) -> int | None:
        row = self._store.row(
            "select version from secrets where session = ? and key = ? and current = 1", session.key, key
        )
        current = row[0] if row else None
        if seen is UNSEEN or seen == current:
            return current
        if seen is None:
            raise ChangedMeanwhile(f"The secret {key!r} already exists (version {current}).", current)
        change = "removed" if current is None else f"replaced by version {current}"
        raise ChangedMeanwhile(f"The secret {key!r} was {change} elsewhere.", current)

    def seal_version(self, session: Session, key: str, value: str) -> int:
        """Seal a new version without making it current, as a write-back does with the old value of a foreign store."""
        key = _validate_name(key)
        if not isinstance(value, str):
            raise BadValue(f"A secret must be text, not {type(value).__name__}.")
        with self._store.transaction() as connection:
            session = self._store.sessions.by_key(session.key)
            vault_row, data_key = self._vault.ensure_data_key()
            (version,) = self._store.row(
                "select coalesce(max(version), 0) + 1 from secrets where session = ? and key = ?", session.key, key
            )
            sealed = data_key.seal(value, SealContext(vault_row.store, session.id, key, version))
            connection.execute(
                "insert into secrets (session, key, version, sealed, created_at) values (?, ?, ?, ?, ?)",
                (session.key, key, version, sealed, utc_timestamp()),
            )
            return int(version)

    def get(self, session: Session, key: str, version: int | None = None) -> str:
        """Return the current value, or the value of a version."""
        condition, values = ("secrets.current = 1", ()) if version is None else ("secrets.version = ?", (version,))
        row = self._store.row(_SELECT_SEALED + condition, session.key, _validate_name(key), *values)
        if row is None:
            raise _secret_not_found(session, key)
        version, sealed, *vault_columns = row
        if vault_columns[0] is None:
            raise missing_vault_key()
        vault_row = VaultRow(*vault_columns)
        data_key = self._vault.open_data_key(vault_row)
        return data_key.open(sealed, SealContext(vault_row.store, session.id, key, version))

    def all_values(self) -> Iterator[str]:
        """Yield the values of all versions of all secrets, also of those that were replaced or removed."""
        for session, key, version, _ in self._store.rows(_SELECT_ALL_VERSIONS):
            yield self.get(self._store.sessions.by_key(session), key, version)

    def names(self, session: Session | None = None) -> list[SecretInfo]:
        """Return the names of the secrets of one session or of all, without their values."""
        where, values = (" and sessions.key = ?", (session.key,)) if session else ("", ())
        rows = self._store.rows(f"{_SELECT_NAMES}{where} order by sessions.id, secrets.key", *values)
        return [SecretInfo(*row) for row in rows]

    def exposed(self, session: Session | None = None) -> list[ExposedSecret]:
        """Return the secrets that are plain text in the foreign store of a session and are not sealed here."""
        where, values = (" and sessions.key = ?", (session.key,)) if session else ("", ())
        rows = self._store.rows(f"{_SELECT_EXPOSED}{where} order by sessions.id, foreign_secrets.key", *values)
        return [ExposedSecret(*row) for row in rows]

    def remove(self, session: Session, key: str, forever: bool = False, *, seen: int | None = UNSEEN) -> None:
        """Remove a secret. Undo restores it, unless `forever` erases every version and its edits in the journal."""
        key = _validate_name(key)
        if forever:
            self._erase_all_versions(session, key)
            return
        with self._store.journal.edit("remove secret", session.key) as edit:
            current = self._check_current(seen, session, key)
            if current is None:
                raise _secret_not_found(session, key)
            edit.update("secrets", [session.key, key, current], current=0)

    def _erase_all_versions(self, session: Session, key: str) -> None:
        with self._store.transaction() as connection:
            deleted = connection.execute("delete from secrets where session = ? and key = ?", (session.key, key))
            if not deleted.rowcount:
                raise _secret_not_found(session, key)
            connection.execute(_BLANK_EDITS, (session.key, key))
            self.scrub()
        self._store.checkpoint()

    def scrub(self) -> None:
        """Erase the remains of deleted or replaced values from the file, within the transaction that changed them.

        `secure_delete` zeroes a deleted row, but not the copies that remain in a page when SQLite moves rows to another
        page. A page that becomes free is zeroed completely, so the table is emptied and filled again.
        """
        connection = self._store.connection
        rows = connection.execute(f"select {_COLUMNS} from secrets").fetchall()
        connection.execute("delete from secrets")
        connection.executemany(f"insert into secrets ({_COLUMNS}) values (?, ?, ?, ?, ?, ?)", rows)

    # ── redacted values ───────────────────────────────────────────────────────────────────────────

    def seal_redacted(self, redaction: int, fingerprint: str, text: str) -> None:
        """Seal a value that a redaction removes. It is not listed among the secrets."""
        seal_redacted_value(self._store, self._vault, redaction, fingerprint, text)

    def open_redacted(self, redaction: int, fingerprint: str) -> str | None:
        """Return a value that a redaction removed, or None if it was forgotten."""
        return open_redacted_value(self._store, self._vault, redaction, fingerprint)

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def protection(self) -> Protection:
        """Return where the key to the secrets comes from, or "none" before the first secret."""
        row = self._vault.read_row()
        return row.key_source() if row else "none"

    @property
    def is_locked(self) -> bool:
        return self._vault.is_locked()

    def lock(self) -> None:
        """Forget the key until `unlock` is called, even if it comes from a key file or a keyring."""
        self._vault.lock()

    def drop_key(self) -> None:
        """Forget the key. A passphrase must be entered again; a key file or keyring is read when it is needed."""
        self._vault.drop_key()

    def unlock(self, passphrase: str = "") -> None:
        """Make the secrets readable again. A key file or a keyring needs no passphrase."""
        self._vault.unlock(passphrase)

    def use_passphrase(self, passphrase: str) -> None:
        self._reseal(KeyWrapping.by_passphrase(passphrase))

    def use_key_file(self) -> None:
        self._reseal(KeyWrapping.by_key_file())

    def use_keyring(self) -> None:
        self._reseal(KeyWrapping.by_keyring())

    # ── rotation and checks ──────────────────────────────────────────────────────────────────────────────────────

    def rotate(self) -> int:
        """Seal every version again with a new data key, all or none. Return the number of versions."""
        return self._reseal()

    def _reseal(self, wrapping: KeyWrapping | None = None) -> int:
        """Seal every version with a new data key, which may be wrapped by another key than before.

        A change of the protection needs a new data key, because an older copy of the store contains the old data key
        with the old protection.
        """
        with self._store.transaction():
            old_row = self._vault.read_row()
            if old_row is None:
                if wrapping is None:
                    return 0
                count, unwrapped = 0, self._vault.create(wrapping)
            else:
                old_key = self._vault.open_data_key(old_row)
                self._raise_if_damaged(old_row, old_key)
                unwrapped = self._vault.renew_data_key(old_row, wrapping)
                count = self._reseal_versions(old_row, old_key, unwrapped)
        self._vault.keep(unwrapped)
        self._store.checkpoint()
        return count

    def _reseal_versions(self, old_row: VaultRow, old_key: DataKey, new: UnwrappedKey) -> int:
        versions = self._store.rows(_SELECT_ALL_VERSIONS)
        for session, key, version, session_id in versions:
            context = SealContext(old_row.store, session_id, key, version)
            value = old_key.open(self._read_sealed(session, key, version), context)
            self._store.connection.execute(
                "update secrets set sealed = ? where session = ? and key = ? and version = ?",
                (new.data_key.seal(value, context), session, key, version),
            )
        redacted = reseal_redacted_values(self._store, old_row, old_key, new.row, new.data_key)
        self._raise_if_damaged(new.row, new.data_key)
        self.scrub()
        return len(versions) + redacted

    def find_inconsistencies(self) -> list[str]:
        """Return a sentence for each problem that is visible without opening a secret."""
        with self._store.transaction():
            return list(self._find_inconsistencies())

    def verify(self) -> list[str]:
        """Return a sentence for each problem with the secrets and their key."""
        # A transaction prevents a rotation by another process from looking like damage.
        with self._store.transaction():
            problems = list(self._find_inconsistencies())
            row = self._vault.read_row()
            if row is None:
                return problems
            try:
                data_key = self._vault.open_data_key(row)
            except SecretLocked:
                raise
            except StoreError as error:
                problems.append(str(error))
                data_key = None
            return [*problems, *self._find_damaged(row, data_key)]

    def _find_inconsistencies(self) -> Iterator[str]:
        keys, sealed = self._store.row(
            "select (select count(*) from vault where state = 'current'), (select count(*) from secrets)"
        )
        if keys > 1:
            yield f"The vault has {keys} current keys. Restore a backup."
        if (sealed or self._store.row(HAS_SEALED)) and not keys:
            yield str(missing_vault_key())
        for session_id, key, count in self._store.rows(
            "select sessions.id, secrets.key, count(*) from secrets join sessions on sessions.key = secrets.session"
            " where current = 1 group by secrets.session, secrets.key having count(*) > 1 order by 1, 2"
        ):
            yield f"The secret {key!r} of {session_id!r} has {count} current versions."
        yield from self._find_rollbacks()

    def _find_rollbacks(self) -> Iterator[str]:
        """Yield a sentence for each secret whose current version is older than the journal says.

        Each version is sealed for its own row, so an older value cannot replace a newer one. But a program that writes
        the table can mark an older version as current.
        """
        edits = self._store.rows(_SELECT_EDITED_VERSIONS)
        recorded = {(session, key): version for session, key, version in edits}
        for session, key, version, session_id in self._store.rows(_SELECT_CURRENT_VERSIONS):
            expected = recorded.get((session, key), version)
            if version < expected:
                yield (
                    f"Version {version} of the secret {key!r} of {session_id!r} is current, but the journal says"
                    f" version {expected}. Another program may have restored the old value."
                )

    def _find_damaged(self, row: VaultRow, data_key: DataKey | None) -> Iterator[str]:
        """Yield a sentence for each damaged version. Without the data key, it checks only which key sealed them."""
        for session, key, version, session_id in self._store.rows(_SELECT_ALL_VERSIONS):
            subject = f"Version {version} of the secret {key!r} of {session_id!r}"
            sealed = self._read_sealed(session, key, version)
            try:
                if read_key_id(sealed) != row.key_id:
                    yield f"{subject} was sealed with a key that is not in the vault."
                elif data_key is not None:
                    data_key.open(sealed, SealContext(row.store, session_id, key, version))
            except SecretDamaged:
                yield f"{subject} cannot be opened: it was damaged, or moved from another row."
        yield from find_damaged_values(self._store, row, data_key)

    def _raise_if_damaged(self, row: VaultRow, data_key: DataKey) -> None:
        for problem in self._find_damaged(row, data_key):
            raise SecretDamaged(f"{problem} Nothing was changed.")

    def _read_sealed(self, session: int, key: str, version: int) -> bytes:
        """Return one sealed version. They are not read together because a value may have a megabyte."""
        row = self._store.row(
            "select sealed from secrets where session = ? and key = ? and version = ?", session, key, version
        )
        return bytes(row[0])


def _validate_name(key: str) -> str:
    validate_id(key, "name of the secret")
    if len(key) > MAX_NAME_CHARS:
        raise BadValue(f"The name of the secret is longer than {MAX_NAME_CHARS:,} characters.")
    if any(unicodedata.category(character) == "Cc" for character in key):
        raise BadValue("The name of the secret contains a control character.")
    return key


def _secret_not_found(session: Session, key: str) -> NotFound:
    return NotFound(f"The session {session.id!r} has no secret {key!r}.")
