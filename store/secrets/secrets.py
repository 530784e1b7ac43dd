"""Shelf: secrets. Every version of a value is sealed to its own row, and the newest is the current one.

Which version is current is all that the journal ever tells, so undo works as for any other edit and neither a value
nor its sealed form is kept where `remove(forever=True)` could not reach it.
"""

from __future__ import annotations

import threading
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self
from uuid import uuid4

from store.conversations.sessions import UNSEEN
from store.errors import BadValue, ChangedMeanwhile, NotFound, SecretDamaged, SecretLocked, StoreError
from store.model.entry import Json
from store.model.knowledge import ExposedSecret, SecretInfo
from store.model.session import Session
from store.paths import key_file
from store.secrets.crypto import (
    DataKey,
    KdfParams,
    SealContext,
    generate_data_key,
    key_from_file,
    key_from_keyring,
    key_from_passphrase,
    make_kdf_params,
    read_key_id,
    unwrap_data_key,
    wrap_data_key,
)
from store.text.validate import decode, encode, utc_timestamp, validate_id

if TYPE_CHECKING:
    from store.store import Store

KeySource = Literal["file", "passphrase", "keyring"]
Protection = Literal["none"] | KeySource

MAX_NAME_CHARS = 1_000
_KEYRING_ENTRY = ("backscroll", "vault")

_COLUMNS = "session, key, version, sealed, current, created_at"
_VAULT_COLUMNS = "vault.key_id, vault.store, vault.wrapped, vault.kdf"
_SELECT_SEALED = f"""
    select secrets.version, secrets.sealed, {_VAULT_COLUMNS} from secrets left join vault on vault.state = 'current'
    where secrets.session = ? and secrets.key = ? and """
"""With the condition that chooses the version behind it."""

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
_BLANK_EDITS = """
    update edits set before = '[]', after = '[]', blanked = 1 where exists (
        select 1 from json_each(edits.after) where json_extract(value, '$.table') = 'secrets'
        and json_extract(value, '$.key[0]') = ? and json_extract(value, '$.key[1]') = ?
    )
"""


class Secrets:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._vault = _Vault(store)

    # ── values ────────────────────────────────────────────────────────────────────────────────────

    def set(
        self, session: Session, key: str, value: str, *, kind: str = "set secret", seen: int | None = UNSEEN
    ) -> None:
        """A new version; the one before stays, for undo, until it is removed for ever.

        `seen` is the version that was current when somebody looked; None when there was none.
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
            raise ChangedMeanwhile(f"There is a secret {key!r} already, version {current}.", current)
        now_there = "removed" if current is None else f"replaced by version {current}"
        raise ChangedMeanwhile(f"The secret {key!r} was {now_there} meanwhile.", current)

    def seal_version(self, session: Session, key: str, value: str) -> int:
        """Seal a version without making it current: what a foreign store held before it was written to, for undo."""
        key = _validate_name(key)
        if not isinstance(value, str):
            raise BadValue(f"A secret must be text, not {type(value).__name__}.")
        with self._store.transaction() as connection:
            session = self._store.sessions.by_key(session.key)
            kept, data_key = self._vault.ensure_data_key()
            (version,) = self._store.row(
                "select coalesce(max(version), 0) + 1 from secrets where session = ? and key = ?", session.key, key
            )
            connection.execute(
                "insert into secrets (session, key, version, sealed, created_at) values (?, ?, ?, ?, ?)",
                (
                    session.key,
                    key,
                    version,
                    data_key.seal(value, SealContext(kept.store, session.id, key, version)),
                    utc_timestamp(),
                ),
            )
            return int(version)

    def get(self, session: Session, key: str, version: int | None = None) -> str:
        """The current value, or that of one version."""
        which, values = ("secrets.current = 1", ()) if version is None else ("secrets.version = ?", (version,))
        row = self._store.row(_SELECT_SEALED + which, session.key, _validate_name(key), *values)
        if row is None:
            raise _secret_not_found(session, key)
        version, sealed, *kept = row
        if kept[0] is None:
            raise _missing_vault_key()
        vault = _VaultRow(*kept)
        return self._vault.open_data_key(vault).open(sealed, SealContext(vault.store, session.id, key, version))

    def names(self, session: Session | None = None) -> list[SecretInfo]:
        """What there is, of one session or of all; never a value."""
        where, values = (" and sessions.key = ?", (session.key,)) if session else ("", ())
        rows = self._store.rows(f"{_SELECT_NAMES}{where} order by sessions.id, secrets.key", *values)
        return [SecretInfo(*row) for row in rows]

    def exposed(self, session: Session | None = None) -> list[ExposedSecret]:
        """Those that stand as plain text in the store a session came from, and are not sealed here."""
        where, values = (" and sessions.key = ?", (session.key,)) if session else ("", ())
        rows = self._store.rows(f"{_SELECT_EXPOSED}{where} order by sessions.id, foreign_secrets.key", *values)
        return [ExposedSecret(*row) for row in rows]

    def remove(self, session: Session, key: str, forever: bool = False, *, seen: int | None = UNSEEN) -> None:
        """Undo brings it back; `forever` takes every version and what the journal says of them."""
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
            gone = connection.execute("delete from secrets where session = ? and key = ?", (session.key, key))
            if not gone.rowcount:
                raise _secret_not_found(session, key)
            connection.execute(_BLANK_EDITS, (session.key, key))
            self.scrub()
        self._store.checkpoint()

    def scrub(self) -> None:
        """Within a transaction that deleted sealed values or wrote over them: leave nothing of them in the file.

        secure_delete zeroes the row itself, but not the copies that stay behind in a page when SQLite moves rows to the
        next one. A page that is given up is zeroed whole, so the table is emptied and filled again.
        """
        connection = self._store.connection
        rows = connection.execute(f"select {_COLUMNS} from secrets").fetchall()
        connection.execute("delete from secrets")
        connection.executemany(f"insert into secrets ({_COLUMNS}) values (?, ?, ?, ?, ?, ?)", rows)

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    @property
    def protection(self) -> Protection:
        """Where the key to the secrets comes from; "none" before the first secret."""
        kept = self._vault.read_row()
        return kept.key_source() if kept else "none"

    @property
    def is_locked(self) -> bool:
        return self._vault.is_locked()

    def lock(self) -> None:
        """Forget the key until `unlock`, whatever protects it."""
        self._vault.lock()

    def drop_key(self) -> None:
        """Hold the key no longer: a passphrase must be given again, any other key is fetched when it is needed."""
        self._vault.drop_key()

    def unlock(self, passphrase: str = "") -> None:
        """A key file or a keyring needs no passphrase, and is not asked for one."""
        self._vault.unlock(passphrase)

    def use_passphrase(self, new: str) -> None:
        kdf = make_kdf_params()
        self._vault.protect({"source": "passphrase", **decode(kdf.to_json())}, key_from_passphrase(new, kdf))

    def use_key_file(self) -> None:
        self._vault.protect({"source": "file"}, key_from_file(key_file(), create=True))

    def use_keyring(self) -> None:
        self._vault.protect({"source": "keyring"}, key_from_keyring(*_KEYRING_ENTRY, create=True))

    # ── care ──────────────────────────────────────────────────────────────────────────────────────

    def rotate(self) -> int:
        """Seal everything anew with a new data key; gives how many versions. All of it or nothing."""
        with self._store.transaction() as connection:
            kept = self._vault.read_row()
            if kept is None:
                return 0
            old = self._vault.open_data_key(kept)
            self._raise_if_damaged(kept, old)
            renewed, new = self._vault.renew_data_key(kept)
            versions = self._store.rows(_SELECT_ALL_VERSIONS)
            for session, key, version, session_id in versions:
                place = SealContext(kept.store, session_id, key, version)
                value = old.open(self._read_sealed(session, key, version), place)
                connection.execute(
                    "update secrets set sealed = ? where session = ? and key = ? and version = ?",
                    (new.seal(value, place), session, key, version),
                )
            self._raise_if_damaged(renewed, new)
            self.scrub()
        self._store.checkpoint()
        return len(versions)

    def verify(self) -> list[str]:
        """A sentence for everything that is wrong with the secrets and their key."""
        # In a transaction, so that a rotation by another process does not look like damage.
        with self._store.transaction():
            problems = list(self._find_inconsistencies())
            kept = self._vault.read_row()
            if kept is None:
                return problems
            try:
                data_key = self._vault.open_data_key(kept)
            except SecretLocked:
                raise
            except StoreError as reason:
                problems.append(str(reason))
                data_key = None
            return [*problems, *self._find_damaged(kept, data_key)]

    def _find_inconsistencies(self) -> Iterator[str]:
        keys, sealed = self._store.row(
            "select (select count(*) from vault where state = 'current'), (select count(*) from secrets)"
        )
        if keys > 1:
            yield f"The vault has {keys} keys in use at once."
        if sealed and not keys:
            yield str(_missing_vault_key())
        for session_id, key, count in self._store.rows(
            "select sessions.id, secrets.key, count(*) from secrets join sessions on sessions.key = secrets.session"
            " where current = 1 group by secrets.session, secrets.key having count(*) > 1 order by 1, 2"
        ):
            yield f"The secret {key!r} of {session_id!r} has {count} current versions."

    def _find_damaged(self, kept: _VaultRow, data_key: DataKey | None) -> Iterator[str]:
        """Without the key, what can be told without it."""
        for session, key, version, session_id in self._store.rows(_SELECT_ALL_VERSIONS):
            what = f"Version {version} of the secret {key!r} of {session_id!r}"
            sealed = self._read_sealed(session, key, version)
            try:
                if read_key_id(sealed) != kept.key_id:
                    yield f"{what} was sealed with another key than the vault's."
                elif data_key is not None:
                    data_key.open(sealed, SealContext(kept.store, session_id, key, version))
            except SecretDamaged:
                yield f"{what} does not open: it was damaged, or moved from elsewhere."

    def _raise_if_damaged(self, kept: _VaultRow, data_key: DataKey) -> None:
        for problem in self._find_damaged(kept, data_key):
            raise SecretDamaged(f"{problem} Nothing was changed.")

    def _read_sealed(self, session: int, key: str, version: int) -> bytes:
        """One at a time: a value may have a megabyte."""
        row = self._store.row(
            "select sealed from secrets where session = ? and key = ? and version = ?", session, key, version
        )
        return bytes(row[0])


# ── the key ───────────────────────────────────────────────────────────────────────────────────────


class _VaultRow(NamedTuple):
    """What the vault table holds: the data key, wrapped, and where the key that wraps it comes from."""

    key_id: bytes
    store: bytes
    wrapped: bytes
    kdf: str

    def key_source(self) -> KeySource:
        return self._parse_settings()[0]

    def kdf_params(self) -> KdfParams:
        return KdfParams.from_json(encode(self._parse_settings()[1]).decode())

    def _parse_settings(self) -> tuple[KeySource, dict[str, Json]]:
        # Anybody may have written the file: what is not as we write it is damage, not a crash.
        try:
            settings = decode(self.kdf)
        except BadValue:
            settings = None
        source = settings.pop("source", None) if isinstance(settings, dict) else None
        if source not in ("file", "passphrase", "keyring"):
            raise SecretDamaged("The vault does not say where its key comes from; put a backup in its place.")
        return source, settings


@dataclass(frozen=True, slots=True, repr=False)
class _UnwrappedKey:
    """An open data key, the key that wraps it, and the row they belong to."""

    row: _VaultRow
    kek: bytes
    data_key: DataKey

    @classmethod
    def from_row(cls, kept: _VaultRow, kek: bytes) -> Self:
        return cls(kept, kek, unwrap_data_key(kept.wrapped, kept.key_id, kek, kept.store))


class _Vault:
    """The data key, wrapped in the table and, while it is open, held in this process for all its threads.

    Another process may rotate the key or protect it otherwise at any time, so what is held counts only for the very
    row it was opened from. Nobody who has the guard waits for the database's write lock: the thread that has that one
    may be waiting for the guard.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._guard = threading.Lock()
        self._unwrapped: _UnwrappedKey | None = None
        self._is_shut = False

    def read_row(self) -> _VaultRow | None:
        row = self._store.row(f"select {_VAULT_COLUMNS} from vault where state = 'current'")
        return _VaultRow(*row) if row else None

    def open_data_key(self, kept: _VaultRow) -> DataKey:
        with self._guard:
            if self._unwrapped is None or self._unwrapped.row != kept:
                self._unwrapped = _UnwrappedKey.from_row(kept, self._load_kek(kept))
            return self._unwrapped.data_key

    def ensure_data_key(self) -> tuple[_VaultRow, DataKey]:
        """Within a transaction. The first secret makes the vault, with the key file."""
        kept = self.read_row()
        if kept is None:
            if self._store.row("select 1 from secrets"):
                raise _missing_vault_key()
            made = self._write_row({"source": "file"}, key_from_file(key_file(), create=True), uuid4().bytes)
            kept = made.row
        return kept, self.open_data_key(kept)

    def protect(self, settings: dict[str, Json], kek: bytes) -> None:
        """The same data key, wrapped by another key; what the old one wrapped is gone from the file."""
        with self._store.transaction():
            old = self.read_row()
            if old is None:
                held = self._write_row(settings, kek, uuid4().bytes)
            else:
                held = self._write_row(settings, kek, old.store, self.open_data_key(old), instead_of=old)
        with self._guard:
            self._unwrapped, self._is_shut = held, False
        self._store.checkpoint()

    def renew_data_key(self, old: _VaultRow) -> tuple[_VaultRow, DataKey]:
        """Within a transaction. A new data key in the place of the old, wrapped by the same key."""
        with self._guard:
            held = self._unwrapped = self._write_row(decode(old.kdf), self._load_kek(old), old.store, instead_of=old)
        return held.row, held.data_key

    def _write_row(
        self,
        settings: dict[str, Json],
        kek: bytes,
        store: bytes,
        data_key: DataKey | None = None,
        *,
        instead_of: _VaultRow | None = None,
    ) -> _UnwrappedKey:
        data_key = data_key or generate_data_key()
        kept = _VaultRow(data_key.key_id, store, wrap_data_key(data_key, kek, store), encode(settings).decode())
        if instead_of is not None:
            self._store.connection.execute("delete from vault where key_id = ?", (instead_of.key_id,))
        self._store.connection.execute(
            "insert into vault (key_id, store, wrapped, kdf, state, created_at) values (?, ?, ?, ?, 'current', ?)",
            (*kept, utc_timestamp()),
        )
        return _UnwrappedKey(kept, kek, data_key)

    # ── locking ───────────────────────────────────────────────────────────────────────────────────

    def is_locked(self) -> bool:
        kept = self.read_row()
        with self._guard:
            return self._is_shut or (
                kept is not None and kept.key_source() == "passphrase" and not self._has_current_kek(kept)
            )

    def lock(self) -> None:
        with self._guard:
            self._unwrapped, self._is_shut = None, True

    def drop_key(self) -> None:
        with self._guard:
            self._unwrapped = None

    def unlock(self, passphrase: str) -> None:
        kept = self.read_row()
        held = None
        if kept is not None and kept.key_source() == "passphrase":
            held = _UnwrappedKey.from_row(kept, key_from_passphrase(passphrase, kept.kdf_params()))
        with self._guard:
            self._unwrapped, self._is_shut = held, False

    def _has_current_kek(self, kept: _VaultRow) -> bool:
        """Whether the passphrase that was given is still the one: then its key unwraps a rotated data key too."""
        return self._unwrapped is not None and self._unwrapped.row.kdf == kept.kdf

    def _load_kek(self, kept: _VaultRow) -> bytes:
        """With the guard held. From where the vault says and from nowhere else; read anew each time, since a key that
        is no longer there must not wrap anything."""
        if self._is_shut:
            raise SecretLocked("The secrets are locked; unlock them first.")
        source = kept.key_source()
        if source == "file":
            return key_from_file(key_file(), create=False)
        if source == "keyring":
            return key_from_keyring(*_KEYRING_ENTRY, create=False)
        if self._unwrapped is None or not self._has_current_kek(kept):
            raise SecretLocked()
        return self._unwrapped.kek


def _validate_name(key: str) -> str:
    validate_id(key, "name of the secret")
    if len(key) > MAX_NAME_CHARS:
        raise BadValue(f"The name of the secret is longer than {MAX_NAME_CHARS:,} characters.")
    if any(unicodedata.category(character) == "Cc" for character in key):
        raise BadValue("The name of the secret holds a control character.")
    return key


def _secret_not_found(session: Session, key: str) -> NotFound:
    return NotFound(f"The session {session.id!r} has no secret {key!r}.")


def _missing_vault_key() -> SecretDamaged:
    return SecretDamaged("There are secrets but no key in the vault; put a backup in its place.")
