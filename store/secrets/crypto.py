"""This module seals secret values with AES-256-GCM and a data key that is itself wrapped.

A secret is sealed with a random data key. The data key is wrapped by a key that is never in the database: it comes from
a key file, a passphrase or the system keyring. So a copied, shared or backed-up database reveals nothing. Each sealed
value is bound to its store, session, name and version, and cannot be opened in another row. A process of the same user
that can read the key can read the secrets; no file format prevents that.

This module does not use the database. No error message and no repr contains a key or a value.
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
"""The longest value, in bytes of UTF-8."""

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
    """Describes what a sealed value is bound to. It cannot be opened in any other context."""

    store: bytes
    session: str
    name: str
    version: int

    def __post_init__(self) -> None:
        _check_store_id(self.store)
        if not 0 <= self.version < 2**64:
            raise BadValue("The version of a secret must be a number from 0 to 2^64 - 1.")


class DataKey:
    """Holds the key that seals the secrets of a store."""

    __slots__ = ("_key", "key_id")

    def __init__(self, key_id: bytes, key: bytes) -> None:
        if len(key_id) != _KEY_ID_BYTES:
            raise BadValue(f"A key id must have {_KEY_ID_BYTES} bytes.")
        _check_key_length(key)
        self.key_id = key_id
        self._key = key

    def __repr__(self) -> str:
        return f"DataKey({self.key_id.hex()})"

    def seal(self, value: str, context: SealContext) -> bytes:
        return _encrypt(self._key, self.key_id, _pad(value), self._associated_data(context))

    def open(self, sealed: bytes, context: SealContext) -> str:
        try:
            padded = _decrypt(self._key, self.key_id, sealed, self._associated_data(context))
        except InvalidTag:
            raise SecretDamaged(
                f"The secret {context.name!r} cannot be opened: it was damaged, or moved from another row."
            ) from None
        return _unpad(padded)

    def _associated_data(self, context: SealContext) -> bytes:
        return _encode_fields(
            b"vault1",
            context.store,
            self.key_id,
            _encode_utf8(context.session),
            _encode_utf8(context.name),
            _VERSION.pack(context.version),
        )


def generate_data_key() -> DataKey:
    return DataKey(secrets.token_bytes(_KEY_ID_BYTES), secrets.token_bytes(_KEY_BYTES))


def read_key_id(sealed: bytes) -> bytes:
    """Return the id of the data key that a sealed value or a wrapped key belongs to."""
    if len(sealed) < _HEADER_BYTES or not sealed.startswith(_FORMAT):
        raise SecretDamaged("The sealed value is truncated, or a newer version wrote it.")
    return sealed[len(_FORMAT) : _HEADER_BYTES]


def wrap_data_key(data_key: DataKey, kek: bytes, store: bytes) -> bytes:
    """Seal the data key with a key-encryption key (KEK), for one store."""
    _check_key_length(kek)
    return _encrypt(kek, data_key.key_id, data_key._key, _key_associated_data(store, data_key.key_id))


def unwrap_data_key(wrapped: bytes, key_id: bytes, kek: bytes, store: bytes) -> DataKey:
    _check_key_length(kek)
    try:
        key = _decrypt(kek, key_id, wrapped, _key_associated_data(store, key_id))
    except InvalidTag:
        # The cipher cannot distinguish a wrong key from a damaged one. A wrong key is more likely.
        raise WrongPassphrase("Wrong passphrase or key, or the wrapped key is damaged.") from None
    return DataKey(key_id, key)


def seal_key(key: bytes, kek: bytes, purpose: bytes) -> bytes:
    """Seal a key that is no data key with a key-encryption key. It can be opened for the same purpose only."""
    _check_key_length(kek)
    return _encrypt(kek, secrets.token_bytes(_KEY_ID_BYTES), key, _encode_fields(b"vault1 key", purpose))


def open_key(sealed: bytes, kek: bytes, purpose: bytes) -> bytes:
    _check_key_length(kek)
    try:
        return _decrypt(kek, read_key_id(sealed), sealed, _encode_fields(b"vault1 key", purpose))
    except InvalidTag:
        raise WrongPassphrase("The key file is another one than before, or the sealed key is damaged.") from None


def _key_associated_data(store: bytes, key_id: bytes) -> bytes:
    _check_store_id(store)
    return _encode_fields(b"vault1 data key", store, key_id)


def _encrypt(key: bytes, key_id: bytes, plain: bytes, associated_data: bytes) -> bytes:
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return _FORMAT + key_id + nonce + AESGCM(key).encrypt(nonce, plain, associated_data)


def _decrypt(key: bytes, key_id: bytes, sealed: bytes, associated_data: bytes) -> bytes:
    if read_key_id(sealed) != key_id:
        raise SecretDamaged("The sealed value belongs to another key, or it was damaged.")
    nonce, encrypted = sealed[_HEADER_BYTES:][:_NONCE_BYTES], sealed[_HEADER_BYTES + _NONCE_BYTES :]
    if not encrypted:
        raise SecretDamaged("The sealed value is truncated.")
    return AESGCM(key).decrypt(nonce, encrypted, associated_data)


def _encode_fields(*fields: bytes) -> bytes:
    # Each field is preceded by its length, so that different lists of fields never have the same encoding.
    return b"".join(_LENGTH.pack(len(field)) + field for field in fields)


def _pad(value: str) -> bytes:
    # The size is rounded up, so that the size of a sealed value does not reveal the length of a password.
    encoded = _encode_utf8(value)
    if len(encoded) > MAX_VALUE_BYTES:
        raise BadValue(f"A secret may have at most {MAX_VALUE_BYTES} bytes. This one has {len(encoded)}.")
    plain = _encode_fields(encoded)
    return plain + bytes(-len(plain) % _PADDING_BYTES)


def _unpad(padded: bytes) -> str:
    (length,) = _LENGTH.unpack_from(padded)
    value = padded[_LENGTH.size :][:length]
    with suppress(UnicodeDecodeError):  # this error would contain the value
        return value.decode("utf-8", "surrogatepass")
    raise SecretDamaged("The sealed value can be opened, but it is not text.")


def _encode_utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _check_key_length(key: bytes) -> None:
    if len(key) != _KEY_BYTES:  # the cipher would also accept 16 bytes, which is weaker
        raise BadValue(f"A key must have {_KEY_BYTES} bytes.")


def _check_store_id(store: bytes) -> None:
    if len(store) != _STORE_BYTES:
        raise BadValue(f"The id of a store must have {_STORE_BYTES} bytes.")


@dataclass(frozen=True, slots=True)
class KdfParams:
    """Describes how a passphrase becomes a key. It is stored with the wrapped key, so that it may change later."""

    salt: bytes
    memory_kib: int
    passes: int
    lanes: int

    def __post_init__(self) -> None:
        # The values come from a database that any program may have written. They must not exhaust memory or time.
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
            raise SecretDamaged("The settings of the passphrase are damaged, or a newer version wrote them.") from None


def _check_range(name: str, value: int, minimum: int, maximum: int) -> None:
    if type(value) is not int or not minimum <= value <= maximum:
        raise BadValue(f"The passphrase setting {name} must be a number from {minimum} to {maximum}.")


def make_kdf_params() -> KdfParams:
    return KdfParams(salt=secrets.token_bytes(16), memory_kib=64 * 1024, passes=3, lanes=2)


def key_from_passphrase(passphrase: str, kdf: KdfParams) -> bytes:
    if not passphrase:
        raise BadValue("The passphrase is empty.")
    # Some keyboards enter é as one character and others as two. Both must give the same key.
    normalized = _encode_utf8(unicodedata.normalize("NFC", passphrase))
    argon2 = Argon2id(
        salt=kdf.salt,
        length=_KEY_BYTES,
        iterations=kdf.passes,
        lanes=kdf.lanes,
        memory_cost=kdf.memory_kib,
    )
    try:
        return argon2.derive(normalized)
    except MemoryError:
        raise SecretLocked(f"Checking the passphrase needs {kdf.memory_kib // 1024} MiB of free memory.") from None


def key_from_file(path: Path, create: bool) -> bytes:
    """Read the key from a file that only its owner may read. `create` creates a missing file."""
    with suppress(FileNotFoundError):
        return _read_key_file(path)
    if not create:
        raise SecretLocked(f"The key file {path} is missing. Restore it to open the secrets.")
    _make_key_file(path)
    return _read_key_file(path)


def _read_key_file(path: Path) -> bytes:
    if path.is_symlink():
        raise KeyFileUnsafe(f"The key file {path} is a symbolic link. Replace it with the file itself.")
    try:
        # The flags prevent following a link or waiting for a pipe that just replaced the file.
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise KeyFileUnsafe(f"Cannot open the key file {path}: {error.strerror}.") from None
    try:
        mode = os.fstat(file).st_mode
        if not stat.S_ISREG(mode):
            raise KeyFileUnsafe(f"The key file {path} is not a regular file.")
        if mode & 0o077:
            raise KeyFileUnsafe(f"Other users can access the key file {path}. Run `chmod 600` on it.")
        key = os.read(file, _KEY_BYTES + 1)
    finally:
        os.close(file)
    if len(key) != _KEY_BYTES:
        raise KeyFileUnsafe(f"The key file {path} does not have {_KEY_BYTES} bytes. Restore it.")
    return key


def _make_key_file(path: Path) -> None:
    # The key is written to a temporary file and then linked. So the key file is never incomplete, and never replaces
    # one that another process created meanwhile.
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(secrets.token_bytes(_KEY_BYTES))
                file.flush()
                os.fsync(descriptor)
            with suppress(FileExistsError):
                os.link(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
        _fsync_folder(path.parent)
    except OSError as error:
        raise WriteFailed(f"Cannot create the key file {path}: {error.strerror}.") from None


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def key_from_keyring(service: str, account: str, create: bool) -> bytes:
    """Read the key from the system keyring. `create` creates a missing key."""
    hex_key = failure = None
    try:
        hex_key = _read_or_create_keyring_key(_load_safe_keyring(), service, account, create)
    except KeyringUnavailable:
        raise
    except Exception as error:
        # The message of a backend's error might contain the key, so only the type of the error is reported.
        failure = type(error).__name__
    if failure:
        raise KeyringUnavailable(f"The system keyring does not answer ({failure}).")
    if hex_key is None:
        raise SecretLocked(f"The system keyring has no key for {service} {account}.")
    with suppress(ValueError, BadValue):
        key = bytes.fromhex(hex_key)
        _check_key_length(key)
        return key
    raise SecretDamaged(f"The entry for {service} {account} in the system keyring is not a key.")


def _load_safe_keyring() -> Any:
    try:
        keyring = importlib.import_module("keyring")
    except ImportError:
        raise KeyringUnavailable(
            "The package `keyring` is not installed. Run `pip install 'backscroll[keyring]'`, "
            "or use a key file or a passphrase."
        ) from None
    backend = keyring.get_keyring()
    # The package gives a priority below 1 to backends that store nothing, fail, or write plain text.
    if backend.priority < 1:
        raise KeyringUnavailable("This system has no safe keyring. Use a key file or a passphrase.")
    return backend


def _read_or_create_keyring_key(keyring: Any, service: str, account: str, create: bool) -> str | None:
    hex_key: str | None = keyring.get_password(service, account)
    if hex_key is None and create:
        keyring.set_password(service, account, secrets.token_hex(_KEY_BYTES))
        hex_key = keyring.get_password(service, account)
        if hex_key is None:
            raise KeyringUnavailable("The system keyring did not save the key. Use a key file or a passphrase.")
    return hex_key
