"""This module seals the values that a redaction removes. They are no secrets of a session, and no list shows them.

They are sealed with the key of the vault, so that undo can restore them, and a rotation of the key seals them again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from store.errors import SecretDamaged
from store.secrets.crypto import DataKey, SealContext
from store.secrets.vault import Vault, VaultRow, missing_vault_key

if TYPE_CHECKING:
    from store.store import Store

HAS_SEALED = "select 1 from redacted_values where sealed is not null limit 1"

_OWNER = "@redaction"
"""Takes the place of a session's id. No session has it, because ids begin with the name of a source."""

_SELECT_SEALED = """
    select redaction, fingerprint, sealed from redacted_values where sealed is not null
    order by redaction, fingerprint
"""
_SELECT_VALUE = "select sealed from redacted_values where redaction = ? and fingerprint = ? and sealed is not null"
_UPDATE_SEALED = "update redacted_values set sealed = ? where redaction = ? and fingerprint = ?"


def seal_redacted_value(store: Store, vault: Vault, redaction: int, fingerprint: str, text: str) -> None:
    """Seal a value, within the transaction that adds its row or before the value is removed anywhere."""
    with store.transaction() as connection:
        row, data_key = vault.ensure_data_key()
        sealed = data_key.seal(text, _context(row, redaction, fingerprint))
        connection.execute(_UPDATE_SEALED, (sealed, redaction, fingerprint))


def open_redacted_value(store: Store, vault: Vault, redaction: int, fingerprint: str) -> str | None:
    """Return a value, or None if it was forgotten."""
    sealed = store.row(_SELECT_VALUE, redaction, fingerprint)
    if sealed is None:
        return None
    row = vault.read_row()
    if row is None:
        raise missing_vault_key()
    return vault.open_data_key(row).open(bytes(sealed[0]), _context(row, redaction, fingerprint))


def reseal_redacted_values(store: Store, old_row: VaultRow, old_key: DataKey, new_row: VaultRow, new: DataKey) -> int:
    """Seal all values with a new key, within the transaction of the rotation. Return how many there are."""
    rows = store.rows(_SELECT_SEALED)
    for redaction, fingerprint, sealed in rows:
        value = old_key.open(bytes(sealed), _context(old_row, redaction, fingerprint))
        resealed = new.seal(value, _context(new_row, redaction, fingerprint))
        store.connection.execute(_UPDATE_SEALED, (resealed, redaction, fingerprint))
    return len(rows)


def find_damaged_values(store: Store, row: VaultRow, data_key: DataKey | None) -> Iterator[str]:
    """Yield a sentence for each value that cannot be opened."""
    for redaction, fingerprint, sealed in store.rows(_SELECT_SEALED):
        try:
            if data_key is not None:
                data_key.open(bytes(sealed), _context(row, redaction, fingerprint))
        except SecretDamaged:
            yield f"The value {fingerprint} of redaction {redaction} cannot be opened, so its undo would fail."


def _context(row: VaultRow, redaction: int, fingerprint: str) -> SealContext:
    return SealContext(row.store, _OWNER, fingerprint, redaction)
