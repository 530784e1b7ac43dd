"""Sealing of secret values: AES-256-GCM under a data key that is itself wrapped.

A secret is sealed with a random data key, and the data key is wrapped by a key that never enters
the database: from a key file, a passphrase or the system's keyring. So a copied, shared or
backed-up database tells nothing, and a new passphrase rewraps one key instead of every value.
Each sealed value is bound to its place (store, session, name, version): moved to another row it
does not open. A process of the same user that can read the key can read the secrets; no file
format changes that.

Values in, values out; the tables are kept elsewhere. No error and no repr carries a key or a value.
"""

import importlib
import json
import os
import secrets
import stat
import struct
import unicodedata
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from store.errors import (
    BadValue,
    KeyFileUnsafe,
    KeyringUnavailable,
    SecretDamaged,
    SecretLocked,
    WriteFailed,
    WrongPassphrase,
)

MAX_VALUE_BYTES = 1024 * 1024
"""In bytes of UTF-8."""

_FORMAT = b"\x01"
_KEY_BYTES = 32
_KEY_ID_BYTES = 8
_NONCE_BYTES = 12
_HEADER_BYTES = len(_FORMAT) + _KEY_ID_BYTES
_STORE_BYTES = 16
_PADDING_BYTES = 64
_MAX_KDF_JSON_CHARS = 500
_LENGTH = struct.Struct(">I")
_VERSION = struct.Struct(">Q")


@dataclass(frozen=True, slots=True)
class SealContext:
    """Where a sealed value belongs; it opens nowhere else."""

    store: bytes
    session: str
    name: str
    version: int

    def __post_init__(self) -> None:
        _check_store_id(self.store)
        if not 0 <= self.version < 2**64:
            raise BadValue("A secret's version must be a number from 0 to 2^64 - 1")


class DataKey:
    """The key that seals a store's secrets."""

    __slots__ = ("_key", "key_id")

    def __init__(self, key_id: bytes, key: bytes) -> None:
        if len(key_id) != _KEY_ID_BYTES:
            raise BadValue(f"A key id has {_KEY_ID_BYTES} bytes")
        _check_key_length(key)
        self.key_id = key_id
        self._key = key

    def __repr__(self) -> str:
        return f"DataKey({self.key_id.hex()})"

    def seal(self, value: str, place: SealContext) -> bytes:
        return _encrypt(self._key, self.key_id, _pad(value), self._associated_data(place))

    def open(self, record: bytes, place: SealContext) -> str:
        try:
            padded = _decrypt(self._key, self.key_id, record, self._associated_data(place))
        except InvalidTag:
            raise SecretDamaged(
                f"The secret {place.name!r} does not open: it was damaged, or moved from elsewhere"
            ) from None
        return _unpad(padded)

    def _associated_data(self, place: SealContext) -> bytes:
        return _encode_fields(
            b"vault1",
            place.store,
            self.key_id,
            _encode_utf8(place.session),
            _encode_utf8(place.name),
            _VERSION.pack(place.version),
        )


def generate_data_key() -> DataKey:
    return DataKey(secrets.token_bytes(_KEY_ID_BYTES), secrets.token_bytes(_KEY_BYTES))


def read_key_id(record: bytes) -> bytes:
    """The id of the data key that opens this record, or this wrapped key."""
    if len(record) < _HEADER_BYTES or not record.startswith(_FORMAT):
        raise SecretDamaged("The sealed value is cut short, or in a format of a newer version")
    return record[len(_FORMAT) : _HEADER_BYTES]


def wrap_data_key(data_key: DataKey, kek: bytes, store: bytes) -> bytes:
    """The data key, sealed by a key-encryption key, for this store alone."""
    _check_key_length(kek)
    return _encrypt(kek, data_key.key_id, data_key._key, _key_associated_data(store, data_key.key_id))


def unwrap_data_key(wrapped: bytes, key_id: bytes, kek: bytes, store: bytes) -> DataKey:
    _check_key_length(kek)
    try:
        key = _decrypt(kek, key_id, wrapped, _key_associated_data(store, key_id))
    except InvalidTag:
        # A wrong key and a damaged one look alike, by design of the cipher; the first is likelier.
        raise WrongPassphrase(
            "The secrets do not open: this is not their passphrase or key, or the key is damaged"
        ) from None
    return DataKey(key_id, key)


def _key_associated_data(store: bytes, key_id: bytes) -> bytes:
    _check_store_id(store)
    return _encode_fields(b"vault1 data key", store, key_id)


def _encrypt(key: bytes, key_id: bytes, plain: bytes, bound: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return _FORMAT + key_id + nonce + AESGCM(key).encrypt(nonce, plain, bound)


def _decrypt(key: bytes, key_id: bytes, record: bytes, bound: bytes) -> bytes:
    if read_key_id(record) != key_id:
        raise SecretDamaged("The sealed value belongs to another key, or it was damaged")
    nonce, sealed = record[_HEADER_BYTES:][:_NONCE_BYTES], record[_HEADER_BYTES + _NONCE_BYTES :]
    if not sealed:
        raise SecretDamaged("The sealed value is cut short")
    return AESGCM(key).decrypt(nonce, sealed, bound)


def _encode_fields(*fields: bytes) -> bytes:
    # Each with its length before it, so that no two lists of fields read alike.
    return b"".join(_LENGTH.pack(len(field)) + field for field in fields)


def _pad(value: str) -> bytes:
    # To whole blocks, so that the size of a record does not tell the length of a password.
    encoded = _encode_utf8(value)
    if len(encoded) > MAX_VALUE_BYTES:
        raise BadValue(f"A secret may have at most {MAX_VALUE_BYTES} bytes; this has {len(encoded)}")
    plain = _encode_fields(encoded)
    return plain + bytes(-len(plain) % _PADDING_BYTES)


def _unpad(padded: bytes) -> str:
    (length,) = _LENGTH.unpack_from(padded)
    value = padded[_LENGTH.size :][:length]
    with suppress(UnicodeDecodeError):  # letting it through would carry the value along
        return value.decode("utf-8", "surrogatepass")
    raise SecretDamaged("The sealed value opens, but is not text")


def _encode_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _check_key_length(key: bytes) -> None:
    if len(key) != _KEY_BYTES:  # the cipher would take 16 bytes as well, and be the weaker for it
        raise BadValue(f"A key has {_KEY_BYTES} bytes")


def _check_store_id(store: bytes) -> None:
    if len(store) != _STORE_BYTES:
        raise BadValue(f"A store's identity has {_STORE_BYTES} bytes")


@dataclass(frozen=True, slots=True)
class KdfParams:
    """How a passphrase becomes a key. Kept beside the wrapped key, so that it may change later."""

    salt: bytes
    memory_kib: int
    passes: int
    lanes: int

    def __post_init__(self) -> None:
        # Read from a database that anybody may have written: it must not eat memory or hours.
        _check_range("lanes", self.lanes, 1, 16)
        _check_range("passes", self.passes, 1, 10)
        _check_range("memory_kib", self.memory_kib, 8 * self.lanes, 1024 * 1024)
        _check_range("salt bytes", len(self.salt), 16, 64)

    def to_json(self) -> str:
        return json.dumps({"kdf": "argon2id", **asdict(self), "salt": self.salt.hex()})

    @classmethod
    def from_json(cls, text: str) -> Self:
        try:
            if len(text) > _MAX_KDF_JSON_CHARS:
                raise ValueError
            fields = json.loads(text)
            if fields.pop("kdf") != "argon2id":
                raise ValueError
            return cls(salt=bytes.fromhex(fields.pop("salt")), **fields)
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError, BadValue):
            raise SecretDamaged("The store's settings for the passphrase are damaged, or of a newer version") from None


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if type(value) is not int or not least <= value <= most:
        raise BadValue(f"The passphrase setting {name} must be a number from {least} to {most}")


def make_kdf_params() -> KdfParams:
    return KdfParams(salt=secrets.token_bytes(16), memory_kib=64 * 1024, passes=3, lanes=2)


def key_from_passphrase(passphrase: str, kdf: KdfParams) -> bytes:
    if not passphrase:
        raise BadValue("The passphrase is empty")
    # One keyboard types é as one character, another as two; to whoever types it, it is the same.
    typed = _encode_utf8(unicodedata.normalize("NFC", passphrase))
    argon2 = Argon2id(
        salt=kdf.salt,
        length=_KEY_BYTES,
        iterations=kdf.passes,
        lanes=kdf.lanes,
        memory_cost=kdf.memory_kib,
    )
    try:
        return argon2.derive(typed)
    except MemoryError:
        raise SecretLocked(f"Checking the passphrase needs {kdf.memory_kib // 1024} MiB of free memory") from None


def key_from_file(path: Path, create: bool) -> bytes:
    """The key in this file, which only its owner may read. `create` makes it if it is missing."""
    with suppress(FileNotFoundError):
        return _read_key_file(path)
    if not create:
        raise SecretLocked(f"The key file {path} is not there; put it back to open the secrets")
    _make_key_file(path)
    return _read_key_file(path)


def _read_key_file(path: Path) -> bytes:
    if path.is_symlink():
        raise KeyFileUnsafe(f"The key file {path} is a symbolic link; put the file itself there")
    try:
        # Opened without following or waiting: a link or a pipe may have taken its place just now.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KeyFileUnsafe(f"The key file {path} does not open: {error.strerror}") from None
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            raise KeyFileUnsafe(f"The key file {path} is not a regular file")
        if mode & 0o077:
            raise KeyFileUnsafe(f"Others can reach the key file {path}; run chmod 600 on it")
        key = os.read(file, _KEY_BYTES + 1)
    finally:
        os.close(file)
    if len(key) != _KEY_BYTES:
        raise KeyFileUnsafe(f"The key file {path} does not hold {_KEY_BYTES} bytes; restore it")
    return key


def _make_key_file(path: Path) -> None:
    # Written aside, then linked: the key appears whole or not at all, and never takes the place of
    # one that another process made meanwhile.
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
                file.flush()
                os.fsync(descriptor)
            with suppress(FileExistsError):
                os.link(aside, path)
        finally:
            aside.unlink(missing_ok=True)
        _fsync_folder(path.parent)
    except OSError as error:
        raise WriteFailed(f"The key file {path} cannot be made: {error.strerror}") from None


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def key_from_keyring(service: str, account: str, create: bool) -> bytes:
    """The key that the system's keyring keeps. `create` makes it if it is missing."""
    kept = failure = None
    try:
        kept = _read_or_create_keyring_key(_load_safe_keyring(), service, account, create)
    except KeyringUnavailable:
        raise
    except Exception as error:
        # A backend raises what it likes, perhaps with the key in its words: none of it goes on.
        failure = type(error).__name__
    if failure:
        raise KeyringUnavailable(f"The system keyring does not answer ({failure})")
    if kept is None:
        raise SecretLocked(f"The system keyring has no key for {service} {account}")
    with suppress(ValueError, BadValue):
        key = bytes.fromhex(kept)
        _check_key_length(key)
        return key
    raise SecretDamaged(f"What the system keyring has for {service} {account} is not a key")


def _load_safe_keyring() -> Any:
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise KeyringUnavailable(
            "The package keyring is not installed; install backscroll[keyring], or use a key file or a passphrase"
        ) from None
    backend = keyring.get_keyring()
    # By keyring's own scale, below 1 are those that keep nothing, fail, or write plain text.
    if backend.priority < 1:
        raise KeyringUnavailable("This system has no keyring that is safe to use; use a key file or a passphrase")
    return backend


def _read_or_create_keyring_key(keyring: Any, service: str, account: str, create: bool) -> str | None:
    kept: str | None = keyring.get_password(service, account)
    if kept is None and create:
        keyring.set_password(service, account, secrets.token_hex(_KEY_BYTES))
        kept = keyring.get_password(service, account)
        if kept is None:
            raise KeyringUnavailable("The system keyring took a key and did not keep it")
    return kept
