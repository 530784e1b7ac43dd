"""This module keeps the key of the fingerprints in the store, sealed with the key file.

The key file is never next to the store. So a person with a copy of the store cannot test guesses of a value that was
redacted. The key does not depend on the protection of secrets: the worker, which knows no passphrase, needs it as well.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

from store.errors import SecretDamaged, SecretLocked, WrongPassphrase
from store.paths import key_file
from store.secrets.crypto import key_from_file, open_key, seal_key

if TYPE_CHECKING:
    from store.store import Store

_PURPOSE = b"leak fingerprints"
_KEY_BYTES = 32

_FORGET_PLACES = ("delete from leak_places", "delete from leak_progress", "delete from leak_files")


def read_leak_key(store: Store) -> bytes:
    """Return the key. It is made at the first scan, and belongs to this store alone."""
    stored = _read_row(store)
    if stored is not None and len(stored) != _KEY_BYTES:
        return open_key(stored, key_from_file(key_file(), create=False), _PURPOSE)
    # An earlier version did not seal it.
    return _save_key(store, stored or secrets.token_bytes(_KEY_BYTES), stored)


def read_or_renew_leak_key(store: Store) -> bytes:
    """Return the key. If the key file is another one now, make a new key, under which everything is scanned again."""
    try:
        return read_leak_key(store)
    except (SecretDamaged, SecretLocked, WrongPassphrase):
        with store.transaction() as connection:
            for statement in _FORGET_PLACES:
                connection.execute(statement)
            return _save_key(store, secrets.token_bytes(_KEY_BYTES), _read_row(store))


def _read_row(store: Store) -> bytes | None:
    row = store.row("select key from leak_key")
    return bytes(row[0]) if row else None


def _save_key(store: Store, key: bytes, replaced: bytes | None) -> bytes:
    """Store a key and return it. If another process has stored one meanwhile, return that."""
    sealed = seal_key(key, key_from_file(key_file(), create=True), _PURPOSE)
    with store.transaction() as connection:
        if _read_row(store) == replaced:
            connection.execute("insert or replace into leak_key (id, key) values (1, ?)", (sealed,))
            return key
    return read_leak_key(store)
