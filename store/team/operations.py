"""This module defines what travels between machines: operations. It is pure.

Each machine has a log of operations, numbered from 1. An operation is signed, so that nobody else can add to the log,
and its place in the log is part of what is signed, so that none can be moved. Its body is compressed and sealed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, cast, get_args

import zstandard

from store.errors import BadValue
from store.team.keys import MachineKeys, seal, unseal, verify_signature
from store.text.validate import decode, encode

Kind = Literal["session", "entries", "value", "keys", "unshare"]

KINDS: tuple[Kind, ...] = get_args(Kind)

EVERYBODY = "*"
"""Is the audience of what all trusted machines may read."""

FACTS_SHARE = "facts"
"""Is the last part of the id of the share that holds the facts of a machine."""

MAX_BODY_BYTES = 16 * 1024 * 1024
"""Limits a body as it travels. Larger ones are refused without being read."""

MAX_PLAIN_BYTES = 256 * 1024 * 1024
"""Limits a body that is decompressed."""

_COMPRESSION_LEVEL = 6


class Operation(NamedTuple):
    machine: str
    seq: int
    kind: Kind
    share: str
    "Names what it belongs to: `MACHINE/RANDOM` for a session, `MACHINE/facts` for facts. It tells nothing else."
    digest: bytes
    "Is the digest of the body. The signature holds for it when the body was emptied, too."
    signature: bytes
    body: bytes

    @property
    def owner(self) -> str:
        """The machine whose session or facts it belongs to."""
        return self.share.partition("/")[0]


def context_of(machine: str, seq: int, kind: str, share: str) -> bytes:
    return encode(["backscroll operation", machine, seq, kind, share])


def build_operation(
    keys: MachineKeys, machine: str, seq: int, kind: Kind, share: str, value: Mapping[str, Any], key: bytes | None
) -> Operation:
    """Build an operation and sign it. Without a key, the body is not encrypted."""
    context = context_of(machine, seq, kind, share)
    body = zstandard.ZstdCompressor(level=_COMPRESSION_LEVEL).compress(encode(value)) if value else b""
    if key is not None and body:
        body = seal(body, key, context)
    if len(body) > MAX_BODY_BYTES:
        raise BadValue("An entry is too large to be shared.")
    digest = hashlib.sha256(body).digest()
    return Operation(machine, seq, kind, share, digest, keys.sign(context + digest), body)


def check_operation(operation: Operation, public: bytes) -> None:
    """Raise BadValue if the machine with these keys did not write the operation, or its body was changed."""
    context = context_of(operation.machine, operation.seq, operation.kind, operation.share)
    if operation.kind not in KINDS:
        raise BadValue("Its kind is not known. Update Backscroll to read it.")
    if not verify_signature(public, context + operation.digest, operation.signature):
        raise BadValue("Its signature is wrong.")
    if operation.body and hashlib.sha256(operation.body).digest() != operation.digest:
        raise BadValue("Its body was changed after it was signed.")


def open_body(operation: Operation, key: bytes | None) -> dict[str, Any]:
    """Return the value in a body."""
    body = operation.body
    if key is not None:
        context = context_of(operation.machine, operation.seq, operation.kind, operation.share)
        body = unseal(body, key, context)
    try:
        with zstandard.ZstdDecompressor().stream_reader(body) as reader:
            plain = reader.read(MAX_PLAIN_BYTES + 1)
    except zstandard.ZstdError:
        raise BadValue("Its body cannot be decompressed.") from None
    if len(plain) > MAX_PLAIN_BYTES:
        raise BadValue(f"Its body is larger than {MAX_PLAIN_BYTES >> 20} MB.")
    value = decode(plain)
    if not isinstance(value, dict):
        raise BadValue("Its body is not an object.")
    return cast("dict[str, Any]", value)
