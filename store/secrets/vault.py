"""This module manages the vault: the data key that seals secrets, wrapped by a key from a file, passphrase or keyring.

`store.secrets.crypto` does the cryptography. This module stores the wrapped key and unwraps it when it is needed.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self
from uuid import uuid4

from store.errors import BadValue, SecretDamaged, SecretLocked
from store.model.entry import Json
from store.paths import key_file
from store.secrets.crypto import (
    DataKey,
    KdfParams,
    generate_data_key,
    key_from_file,
    key_from_keyring,
    key_from_passphrase,
    make_kdf_params,
    unwrap_data_key,
    wrap_data_key,
)
from store.text.validate import decode, encode, utc_timestamp

if TYPE_CHECKING:
    from store.store import Store

KeySource = Literal["file", "passphrase", "keyring"]
Protection = Literal["none"] | KeySource

VAULT_COLUMNS = "vault.key_id, vault.store, vault.wrapped, vault.kdf"
"""The columns of a VaultRow."""

_HAS_SEALED = "select 1 from secrets union all select 1 from redacted_values where sealed is not null limit 1"

_KEYRING_ENTRY = ("backscroll", "vault")


class VaultRow(NamedTuple):
    """Holds a row of the vault table: the wrapped data key, and where the key that wraps it comes from."""

    key_id: bytes
    store: bytes
    wrapped: bytes
    kdf: str

    def key_source(self) -> KeySource:
        return self._parse_settings()[0]

    def kdf_params(self) -> KdfParams:
        return KdfParams.from_json(encode(self._parse_settings()[1]).decode())

    def _parse_settings(self) -> tuple[KeySource, dict[str, Json]]:
        # Any program may have written the file, so an unexpected value is reported as damage.
        try:
            settings = decode(self.kdf)
        except BadValue:
            settings = None
        source = settings.pop("source", None) if isinstance(settings, dict) else None
        if source not in ("file", "passphrase", "keyring"):
            raise SecretDamaged("The vault is damaged: it does not say where its key comes from. Restore a backup.")
        return source, settings


@dataclass(frozen=True, slots=True, repr=False)
class KeyWrapping:
    """Holds the key that wraps a data key, and the settings that say where it comes from."""

    settings: dict[str, Json]
    kek: bytes
    "The key-encryption key: the key that wraps the data key."

    @classmethod
    def by_passphrase(cls, passphrase: str) -> Self:
        kdf = make_kdf_params()
        return cls({"source": "passphrase", **decode(kdf.to_json())}, key_from_passphrase(passphrase, kdf))

    @classmethod
    def by_key_file(cls) -> Self:
        return cls({"source": "file"}, key_from_file(key_file(), create=True))

    @classmethod
    def by_keyring(cls) -> Self:
        return cls({"source": "keyring"}, key_from_keyring(*_KEYRING_ENTRY, create=True))


@dataclass(frozen=True, slots=True, repr=False)
class UnwrappedKey:
    """Holds an unwrapped data key, the key that wraps it, and the row of both."""

    row: VaultRow
    kek: bytes
    data_key: DataKey

    @classmethod
    def from_row(cls, row: VaultRow, kek: bytes) -> Self:
        return cls(row, kek, unwrap_data_key(row.wrapped, row.key_id, kek, row.store))


class Vault:
    """Stores the wrapped data key, and keeps the unwrapped one in memory for all threads of the process.

    Another process may rotate the key or wrap it differently at any time. So the key in memory is used only with the
    row that it was unwrapped from. A thread that holds the mutex must never wait for the write lock of the database,
    because the thread with the write lock may be waiting for the mutex.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._mutex = threading.Lock()
        self._unwrapped: UnwrappedKey | None = None
        self._is_closed = False
        "Is set by `lock` until `unlock`, for every source of the key."

    def read_row(self) -> VaultRow | None:
        row = self._store.row(f"select {VAULT_COLUMNS} from vault where state = 'current'")
        return VaultRow(*row) if row else None

    def open_data_key(self, row: VaultRow) -> DataKey:
        with self._mutex:
            if self._unwrapped is None or self._unwrapped.row != row:
                self._unwrapped = UnwrappedKey.from_row(row, self._load_kek(row))
            return self._unwrapped.data_key

    def ensure_data_key(self) -> tuple[VaultRow, DataKey]:
        """Return the data key within a transaction. For the first secret, create it and wrap it with the key file."""
        row = self.read_row()
        if row is None:
            if self._store.row(
                "select 1 from secrets union all select 1 from redacted_values where sealed is not null"
            ):
                raise missing_vault_key()
            row = self.create(KeyWrapping.by_key_file()).row
        return row, self.open_data_key(row)

    def create(self, wrapping: KeyWrapping) -> UnwrappedKey:
        """Create the first data key within a transaction."""
        return self._write_row(wrapping, uuid4().bytes)

    def renew_data_key(self, old: VaultRow, wrapping: KeyWrapping | None = None) -> UnwrappedKey:
        """Replace the data key by a new one within a transaction. Without a wrapping, the same key wraps it."""
        if wrapping is None:
            with self._mutex:
                wrapping = KeyWrapping(decode(old.kdf), self._load_kek(old))
        self._store.connection.execute("delete from vault where key_id = ?", (old.key_id,))
        return self._write_row(wrapping, old.store)

    def keep(self, unwrapped: UnwrappedKey) -> None:
        """Keep a new data key in memory, once it is committed."""
        with self._mutex:
            self._unwrapped, self._is_closed = unwrapped, False

    def _write_row(self, wrapping: KeyWrapping, store: bytes) -> UnwrappedKey:
        data_key = generate_data_key()
        settings = encode(wrapping.settings).decode()
        row = VaultRow(data_key.key_id, store, wrap_data_key(data_key, wrapping.kek, store), settings)
        self._store.connection.execute(
            "insert into vault (key_id, store, wrapped, kdf, state, created_at) values (?, ?, ?, ?, 'current', ?)",
            (*row, utc_timestamp()),
        )
        return UnwrappedKey(row, wrapping.kek, data_key)

    # ── locking ───────────────────────────────────────────────────────────────────────────────────

    def is_locked(self) -> bool:
        row = self.read_row()
        with self._mutex:
            return self._is_closed or (
                row is not None and row.key_source() == "passphrase" and not self._has_current_kek(row)
            )

    def lock(self) -> None:
        """Forget the key until `unlock` is called."""
        with self._mutex:
            self._unwrapped, self._is_closed = None, True

    def drop_key(self) -> None:
        """Forget the key. A key file or keyring is read again when it is needed."""
        with self._mutex:
            self._unwrapped = None

    def unlock(self, passphrase: str) -> None:
        row = self.read_row()
        unwrapped = None
        if row is not None and row.key_source() == "passphrase":
            unwrapped = UnwrappedKey.from_row(row, key_from_passphrase(passphrase, row.kdf_params()))
        with self._mutex:
            self._unwrapped, self._is_closed = unwrapped, False

    def _has_current_kek(self, row: VaultRow) -> bool:
        """Return whether the key in memory still belongs to the passphrase. Then it also unwraps a rotated data key."""
        return self._unwrapped is not None and self._unwrapped.row.kdf == row.kdf

    def _load_kek(self, row: VaultRow) -> bytes:
        """Return the key that wraps the data key, from the source that the row names. The caller holds the mutex.

        A key file or keyring is read each time, because a key that was removed must not wrap anything.
        """
        if self._is_closed:
            raise SecretLocked("The secrets are locked. Unlock them first.")
        source = row.key_source()
        if source == "file":
            return key_from_file(key_file(), create=False)
        if source == "keyring":
            return key_from_keyring(*_KEYRING_ENTRY, create=False)
        if self._unwrapped is None or not self._has_current_kek(row):
            raise SecretLocked()
        return self._unwrapped.kek


def missing_vault_key() -> SecretDamaged:
    return SecretDamaged("There are secrets, but there is no key in the vault. Restore a backup.")
