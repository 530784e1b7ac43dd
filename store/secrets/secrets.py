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
from store.model.knowledge import ExposedSecret, SecretName
from store.model.session import Session
from store.paths import key_file
from store.secrets.crypto import (
    DataKey,
    KdfParams,
    Place,
    key_from_file,
    key_from_keyring,
    key_from_passphrase,
    key_id_of,
    new_data_key,
    new_kdf,
    unwrap,
    wrap,
)
from store.text.validate import decode, encode, exact_id, now

if TYPE_CHECKING:
    from store.store import Store

Source = Literal["file", "passphrase", "keyring"]
Protection = Literal["none"] | Source

LONGEST_KEY = 1_000
_KEYRING_ENTRY = ("backscroll", "vault")

_COLUMNS = "session, key, version, sealed, current, created_at"
_VAULT = "vault.key_id, vault.store, vault.wrapped, vault.kdf"
_SEALED = f"""
    select secrets.version, secrets.sealed, {_VAULT} from secrets left join vault on vault.state = 'current'
    where secrets.session = ? and secrets.key = ? and """
"""With the condition that chooses the version behind it."""

_NAMES = """
    select sessions.id, secrets.key, secrets.version, secrets.created_at
    from secrets join sessions on sessions.key = secrets.session where secrets.current = 1
"""
_EXPOSED = """
    select sessions.id, foreign_secrets.key, sources.locator, foreign_secrets.place from foreign_secrets
    join sessions on sessions.key = foreign_secrets.session join sources on sources.key = sessions.source_key
    where not exists (
        select 1 from secrets where secrets.session = sessions.key and secrets.key = foreign_secrets.key and current = 1
    )
"""
_EVERY_VERSION = """
    select secrets.session, secrets.key, secrets.version, sessions.id
    from secrets join sessions on sessions.key = secrets.session order by sessions.id, secrets.key, secrets.version
"""
_BLANK = """
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
            current = self._current_as(seen, session, _checked_key(key))
            version = self.keep(session, key, value)
            if current is not None:
                edit.update("secrets", [session.key, key, current], current=0)
            edit.update("secrets", [session.key, key, version], current=1)

    def _current_as(self, seen: int | None, session: Session, key: str) -> int | None:
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

    def keep(self, session: Session, key: str, value: str) -> int:
        """Seal a version without making it current: what a foreign store held before it was written to, for undo."""
        key = _checked_key(key)
        if not isinstance(value, str):
            raise BadValue(f"A secret must be text, not {type(value).__name__}.")
        with self._store.transaction() as connection:
            session = self._store.sessions.by_key(session.key)
            kept, data_key = self._vault.ensured()
            (version,) = self._store.row(
                "select coalesce(max(version), 0) + 1 from secrets where session = ? and key = ?", session.key, key
            )
            connection.execute(
                "insert into secrets (session, key, version, sealed, created_at) values (?, ?, ?, ?, ?)",
                (
                    session.key,
                    key,
                    version,
                    data_key.seal(value, Place(kept.store, session.id, key, version)),
                    now(),
                ),
            )
            return int(version)

    def get(self, session: Session, key: str, version: int | None = None) -> str:
        """The current value, or that of one version."""
        which, values = ("secrets.current = 1", ()) if version is None else ("secrets.version = ?", (version,))
        row = self._store.row(_SEALED + which, session.key, _checked_key(key), *values)
        if row is None:
            raise _not_found(session, key)
        version, sealed, *kept = row
        if kept[0] is None:
            raise _no_vault()
        vault = _Kept(*kept)
        return self._vault.opened(vault).open(sealed, Place(vault.store, session.id, key, version))

    def names(self, session: Session | None = None) -> list[SecretName]:
        """What there is, of one session or of all; never a value."""
        where, values = (" and sessions.key = ?", (session.key,)) if session else ("", ())
        rows = self._store.rows(f"{_NAMES}{where} order by sessions.id, secrets.key", *values)
        return [SecretName(*row) for row in rows]

    def exposed(self, session: Session | None = None) -> list[ExposedSecret]:
        """Those that stand as plain text in the store a session came from, and are not sealed here."""
        where, values = (" and sessions.key = ?", (session.key,)) if session else ("", ())
        rows = self._store.rows(f"{_EXPOSED}{where} order by sessions.id, foreign_secrets.key", *values)
        return [ExposedSecret(*row) for row in rows]

    def remove(self, session: Session, key: str, forever: bool = False, *, seen: int | None = UNSEEN) -> None:
        """Undo brings it back; `forever` takes every version and what the journal says of them."""
        key = _checked_key(key)
        if forever:
            self._erase(session, key)
            return
        with self._store.journal.edit("remove secret", session.key) as edit:
            current = self._current_as(seen, session, key)
            if current is None:
                raise _not_found(session, key)
            edit.update("secrets", [session.key, key, current], current=0)

    def _erase(self, session: Session, key: str) -> None:
        with self._store.transaction() as connection:
            gone = connection.execute("delete from secrets where session = ? and key = ?", (session.key, key))
            if not gone.rowcount:
                raise _not_found(session, key)
            connection.execute(_BLANK, (session.key, key))
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
        kept = self._vault.kept()
        return kept.source() if kept else "none"

    @property
    def locked(self) -> bool:
        return self._vault.locked()

    def lock(self) -> None:
        """Forget the key until `unlock`, whatever protects it."""
        self._vault.lock()

    def forget(self) -> None:
        """Hold the key no longer: a passphrase must be given again, any other key is fetched when it is needed."""
        self._vault.forget()

    def unlock(self, passphrase: str = "") -> None:
        """A key file or a keyring needs no passphrase, and is not asked for one."""
        self._vault.unlock(passphrase)

    def use_passphrase(self, new: str) -> None:
        kdf = new_kdf()
        self._vault.protect({"source": "passphrase", **decode(kdf.to_json())}, key_from_passphrase(new, kdf))

    def use_key_file(self) -> None:
        self._vault.protect({"source": "file"}, key_from_file(key_file(), create=True))

    def use_keyring(self) -> None:
        self._vault.protect({"source": "keyring"}, key_from_keyring(*_KEYRING_ENTRY, create=True))

    # ── care ──────────────────────────────────────────────────────────────────────────────────────

    def rotate(self) -> int:
        """Seal everything anew with a new data key; gives how many versions. All of it or nothing."""
        with self._store.transaction() as connection:
            kept = self._vault.kept()
            if kept is None:
                return 0
            old = self._vault.opened(kept)
            self._refuse_damaged(kept, old)
            renewed, new = self._vault.renewed(kept)
            versions = self._store.rows(_EVERY_VERSION)
            for session, key, version, session_id in versions:
                place = Place(kept.store, session_id, key, version)
                value = old.open(self._sealed(session, key, version), place)
                connection.execute(
                    "update secrets set sealed = ? where session = ? and key = ? and version = ?",
                    (new.seal(value, place), session, key, version),
                )
            self._refuse_damaged(renewed, new)
            self.scrub()
        self._store.checkpoint()
        return len(versions)

    def verify(self) -> list[str]:
        """A sentence for everything that is wrong with the secrets and their key."""
        # In a transaction, so that a rotation by another process does not look like damage.
        with self._store.transaction():
            problems = list(self._contradictions())
            kept = self._vault.kept()
            if kept is None:
                return problems
            try:
                data_key = self._vault.opened(kept)
            except SecretLocked:
                raise
            except StoreError as reason:
                problems.append(str(reason))
                data_key = None
            return [*problems, *self._faults(kept, data_key)]

    def _contradictions(self) -> Iterator[str]:
        keys, sealed = self._store.row(
            "select (select count(*) from vault where state = 'current'), (select count(*) from secrets)"
        )
        if keys > 1:
            yield f"The vault has {keys} keys in use at once."
        if sealed and not keys:
            yield str(_no_vault())
        for session_id, key, count in self._store.rows(
            "select sessions.id, secrets.key, count(*) from secrets join sessions on sessions.key = secrets.session"
            " where current = 1 group by secrets.session, secrets.key having count(*) > 1 order by 1, 2"
        ):
            yield f"The secret {key!r} of {session_id!r} has {count} current versions."

    def _faults(self, kept: _Kept, data_key: DataKey | None) -> Iterator[str]:
        """Without the key, what can be told without it."""
        for session, key, version, session_id in self._store.rows(_EVERY_VERSION):
            what = f"Version {version} of the secret {key!r} of {session_id!r}"
            sealed = self._sealed(session, key, version)
            try:
                if key_id_of(sealed) != kept.key_id:
                    yield f"{what} was sealed with another key than the vault's."
                elif data_key is not None:
                    data_key.open(sealed, Place(kept.store, session_id, key, version))
            except SecretDamaged:
                yield f"{what} does not open: it was damaged, or moved from elsewhere."

    def _refuse_damaged(self, kept: _Kept, data_key: DataKey) -> None:
        for problem in self._faults(kept, data_key):
            raise SecretDamaged(f"{problem} Nothing was changed.")

    def _sealed(self, session: int, key: str, version: int) -> bytes:
        """One at a time: a value may have a megabyte."""
        row = self._store.row(
            "select sealed from secrets where session = ? and key = ? and version = ?", session, key, version
        )
        return bytes(row[0])


# ── the key ───────────────────────────────────────────────────────────────────────────────────────


class _Kept(NamedTuple):
    """What the vault table holds: the data key, wrapped, and where the key that wraps it comes from."""

    key_id: bytes
    store: bytes
    wrapped: bytes
    kdf: str

    def source(self) -> Source:
        return self._described()[0]

    def passphrase_settings(self) -> KdfParams:
        return KdfParams.from_json(encode(self._described()[1]).decode())

    def _described(self) -> tuple[Source, dict[str, Json]]:
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
class _Held:
    """An open data key, the key that wraps it, and the row they belong to."""

    kept: _Kept
    kek: bytes
    data_key: DataKey

    @classmethod
    def unwrapped(cls, kept: _Kept, kek: bytes) -> Self:
        return cls(kept, kek, unwrap(kept.wrapped, kept.key_id, kek, kept.store))


class _Vault:
    """The data key, wrapped in the table and, while it is open, held in this process for all its threads.

    Another process may rotate the key or protect it otherwise at any time, so what is held counts only for the very
    row it was opened from. Nobody who has the guard waits for the database's write lock: the thread that has that one
    may be waiting for the guard.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._guard = threading.Lock()
        self._held: _Held | None = None
        self._shut = False

    def kept(self) -> _Kept | None:
        row = self._store.row(f"select {_VAULT} from vault where state = 'current'")
        return _Kept(*row) if row else None

    def opened(self, kept: _Kept) -> DataKey:
        with self._guard:
            if self._held is None or self._held.kept != kept:
                self._held = _Held.unwrapped(kept, self._kek(kept))
            return self._held.data_key

    def ensured(self) -> tuple[_Kept, DataKey]:
        """Within a transaction. The first secret makes the vault, with the key file."""
        kept = self.kept()
        if kept is None:
            if self._store.row("select 1 from secrets"):
                raise _no_vault()
            made = self._write({"source": "file"}, key_from_file(key_file(), create=True), uuid4().bytes)
            kept = made.kept
        return kept, self.opened(kept)

    def protect(self, settings: dict[str, Json], kek: bytes) -> None:
        """The same data key, wrapped by another key; what the old one wrapped is gone from the file."""
        with self._store.transaction():
            old = self.kept()
            if old is None:
                held = self._write(settings, kek, uuid4().bytes)
            else:
                held = self._write(settings, kek, old.store, self.opened(old), instead_of=old)
        with self._guard:
            self._held, self._shut = held, False
        self._store.checkpoint()

    def renewed(self, old: _Kept) -> tuple[_Kept, DataKey]:
        """Within a transaction. A new data key in the place of the old, wrapped by the same key."""
        with self._guard:
            held = self._held = self._write(decode(old.kdf), self._kek(old), old.store, instead_of=old)
        return held.kept, held.data_key

    def _write(
        self,
        settings: dict[str, Json],
        kek: bytes,
        store: bytes,
        data_key: DataKey | None = None,
        *,
        instead_of: _Kept | None = None,
    ) -> _Held:
        data_key = data_key or new_data_key()
        kept = _Kept(data_key.key_id, store, wrap(data_key, kek, store), encode(settings).decode())
        if instead_of is not None:
            self._store.connection.execute("delete from vault where key_id = ?", (instead_of.key_id,))
        self._store.connection.execute(
            "insert into vault (key_id, store, wrapped, kdf, state, created_at) values (?, ?, ?, ?, 'current', ?)",
            (*kept, now()),
        )
        return _Held(kept, kek, data_key)

    # ── locking ───────────────────────────────────────────────────────────────────────────────────

    def locked(self) -> bool:
        kept = self.kept()
        with self._guard:
            return self._shut or (kept is not None and kept.source() == "passphrase" and not self._knows(kept))

    def lock(self) -> None:
        with self._guard:
            self._held, self._shut = None, True

    def forget(self) -> None:
        with self._guard:
            self._held = None

    def unlock(self, passphrase: str) -> None:
        kept = self.kept()
        held = None
        if kept is not None and kept.source() == "passphrase":
            held = _Held.unwrapped(kept, key_from_passphrase(passphrase, kept.passphrase_settings()))
        with self._guard:
            self._held, self._shut = held, False

    def _knows(self, kept: _Kept) -> bool:
        """Whether the passphrase that was given is still the one: then its key unwraps a rotated data key too."""
        return self._held is not None and self._held.kept.kdf == kept.kdf

    def _kek(self, kept: _Kept) -> bytes:
        """With the guard held. From where the vault says and from nowhere else; read anew each time, since a key that
        is no longer there must not wrap anything."""
        if self._shut:
            raise SecretLocked("The secrets are locked; unlock them first.")
        source = kept.source()
        if source == "file":
            return key_from_file(key_file(), create=False)
        if source == "keyring":
            return key_from_keyring(*_KEYRING_ENTRY, create=False)
        if self._held is None or not self._knows(kept):
            raise SecretLocked()
        return self._held.kek


def _checked_key(key: str) -> str:
    exact_id(key, "name of the secret")
    if len(key) > LONGEST_KEY:
        raise BadValue(f"The name of the secret is longer than {LONGEST_KEY:,} characters.")
    if any(unicodedata.category(character) == "Cc" for character in key):
        raise BadValue("The name of the secret holds a control character.")
    return key


def _not_found(session: Session, key: str) -> NotFound:
    return NotFound(f"The session {session.id!r} has no secret {key!r}.")


def _no_vault() -> SecretDamaged:
    return SecretDamaged("There are secrets but no key in the vault; put a backup in its place.")
