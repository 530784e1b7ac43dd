"""This module holds the keys of a machine, and seals what travels.

A machine has two keys: an Ed25519 key signs its operations, and an X25519 key opens what is sealed for it. Its id is
the digest of both public keys, so nobody can claim the id of another machine. The text of a session is encrypted with a
key of its own, and this key is wrapped for each machine that may read it. So the database sees no text.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple, Self

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from store.errors import BadValue

KEY_BYTES = 32
PUBLIC_BYTES = 2 * KEY_BYTES
ID_LENGTH = 32
"""Counts the hexadecimal digits of a machine's id: 128 bits, which nobody can find a second pair of keys for."""

_NONCE_BYTES = 12
_RAW = serialization.Encoding.Raw
_NO_ENCRYPTION = serialization.NoEncryption()


class MachineKeys(NamedTuple):
    """Holds the private keys of this machine."""

    signing: Ed25519PrivateKey
    opening: X25519PrivateKey

    @classmethod
    def generate(cls) -> Self:
        return cls(Ed25519PrivateKey.generate(), X25519PrivateKey.generate())

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        signing, opening = data[:KEY_BYTES], data[KEY_BYTES:]
        return cls(Ed25519PrivateKey.from_private_bytes(signing), X25519PrivateKey.from_private_bytes(opening))

    def to_bytes(self) -> bytes:
        return b"".join(
            key.private_bytes(_RAW, serialization.PrivateFormat.Raw, _NO_ENCRYPTION)
            for key in (self.signing, self.opening)
        )

    @property
    def public(self) -> bytes:
        """The two public keys, one after the other."""
        return b"".join(
            key.public_key().public_bytes(_RAW, serialization.PublicFormat.Raw) for key in (self.signing, self.opening)
        )

    def sign(self, data: bytes) -> bytes:
        return self.signing.sign(data)

    def unwrap_key(self, wrapped: bytes, share: str) -> bytes:
        """Return the key of a share that was wrapped for this machine. Raise BadValue if it was not."""
        try:
            sender = X25519PublicKey.from_public_bytes(wrapped[:KEY_BYTES])
            secret = _derive_wrapping_key(self.opening.exchange(sender), wrapped[:KEY_BYTES], self.public[KEY_BYTES:])
            key = AESGCM(secret).decrypt(bytes(_NONCE_BYTES), wrapped[KEY_BYTES:], share.encode())
        except (InvalidTag, ValueError):
            raise BadValue("The key is not wrapped for this machine.") from None
        if len(key) != KEY_BYTES:
            raise BadValue("The key has a wrong length.")
        return key


def machine_id(public: bytes) -> str:
    """Return the id of the machine with these public keys. It is also what people compare: the fingerprint."""
    digest = hashes.Hash(hashes.SHA256())
    digest.update(b"backscroll machine" + public)
    return digest.finalize().hex()[:ID_LENGTH]


def format_fingerprint(machine: str) -> str:
    """Return an id in groups of four, which people can compare."""
    return " ".join(machine[start : start + 4] for start in range(0, len(machine), 4))


def verify_signature(public: bytes, data: bytes, signature: bytes) -> bool:
    try:
        Ed25519PublicKey.from_public_bytes(public[:KEY_BYTES]).verify(signature, data)
    except (InvalidSignature, ValueError):
        return False
    return True


def generate_share_key() -> bytes:
    return secrets.token_bytes(KEY_BYTES)


def wrap_key(key: bytes, public: bytes, share: str) -> bytes:
    """Encrypt the key of a share for the machine with these public keys."""
    reader = public[KEY_BYTES:]
    sender = X25519PrivateKey.generate()
    sender_public = sender.public_key().public_bytes(_RAW, serialization.PublicFormat.Raw)
    shared = sender.exchange(X25519PublicKey.from_public_bytes(reader))
    secret = _derive_wrapping_key(shared, sender_public, reader)
    # Each wrapping key is used once, so the nonce may always be the same.
    return sender_public + AESGCM(secret).encrypt(bytes(_NONCE_BYTES), key, share.encode())


def _derive_wrapping_key(shared: bytes, sender: bytes, reader: bytes) -> bytes:
    info = b"backscroll team key" + sender + reader
    return HKDF(hashes.SHA256(), length=KEY_BYTES, salt=None, info=info).derive(shared)


def seal(plain: bytes, key: bytes, context: bytes) -> bytes:
    """Encrypt a body. It can be opened only in the same context."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, plain, context)


def unseal(sealed: bytes, key: bytes, context: bytes) -> bytes:
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], context)
    except (InvalidTag, ValueError):
        raise BadValue("The body cannot be opened: it was changed, or sealed with another key.") from None
