"""This module separates real values from examples: checksums of tokens, placeholders, and values without variety."""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections import Counter

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECKSUM_CHARS = 6
_JWT_IO_SUBJECT = "eyJzdWIiOiIxMjM0NTY3ODkwIi"
"""Begins the second part of the token that jwt.io shows as an example."""

PLACEHOLDER_WORDS = (
    "example",
    "placeholder",
    "changeme",
    "change_me",
    "change-me",
    "redacted",
    "dummy",
    "sample",
    "replace",
    "insert",
    "your-",
    "your_",
    "yourkey",
    "yourtoken",
    "xxxx",
    "****",
    "••••",
    "....",
    "0000000000",
    "1234567890",
    "0123456789",
    "abcdefghij",
    "deadbeef",
    "fakefake",
    "notreal",
    "not-real",
    "not_real",
)
"""A value that contains one of these was written by someone who did not want to show a real one."""

COMMON_PASSWORDS = frozenset(
    """
    pass passwd password passw0rd pwd secret user username root admin guest test testing postgres mysql mongo redis
    rabbitmq default none null undefined true false token key 123 1234 12345 123456 12345678 hunter2 letmein foo bar baz
    qwerty minio minioadmin pw p secretpassword mypassword yourpassword mysecretpassword
    """.split()
)
"""Are passwords that documentation uses, and that protect nothing."""

_RANDOM_BITS = 3.3
"""Is the entropy of one character that names of variables and files seldom have."""

_TEMPLATE_MARKS = ("${", "{{", "$(", "<", "%(", "%s", "{", "[", "`")


def add_github_checksum(token: str) -> str:
    """Return a token of GitHub or npm with the right checksum: the CRC32 of the random part, in base 62."""
    start, underscore, body = token.rpartition("_")
    return f"{start}{underscore}{body[:-_CHECKSUM_CHARS]}{compute_checksum(body[:-_CHECKSUM_CHARS])}"


def add_grafana_checksum(token: str) -> str:
    """Return a token of Grafana with the right checksum: the CRC32 of what is before the last underscore."""
    start = token.rpartition("_")[0]
    return f"{start}_{zlib.crc32(start.encode('ascii', 'replace')).to_bytes(4, 'little').hex()}"


def compute_checksum(body: str) -> str:
    """Return the checksum that GitHub and npm append to the random part of a token."""
    number = zlib.crc32(body.encode("ascii", "replace"))
    digits = ""
    for _ in range(_CHECKSUM_CHARS):
        number, digit = divmod(number, len(_BASE62))
        digits = _BASE62[digit] + digits
    return digits


def is_jwt(token: str) -> bool:
    """Return whether the first part of a token is a JSON object that names its algorithm."""
    header = token.split(".")[0]
    try:
        fields = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))
    except (ValueError, binascii.Error):
        return False
    return isinstance(fields, dict) and "alg" in fields and _JWT_IO_SUBJECT not in token


def is_basic_credentials(value: str) -> bool:
    """Return whether a value of the Basic scheme decodes to a user and a password."""
    try:
        user, colon, password = base64.b64decode(value + "=" * (-len(value) % 4)).decode("utf-8").partition(":")
    except (ValueError, binascii.Error):
        return False
    return bool(user and colon and password) and not is_placeholder_password(password)


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder: it calls itself an example, is a template, or hardly varies."""
    folded = value.lower()
    return (
        value.startswith(_TEMPLATE_MARKS)
        or any(word in folded for word in PLACEHOLDER_WORDS)
        or entropy_bits(value) < _least_bits(len(value))
    )


def is_placeholder_password(value: str) -> bool:
    """Return whether a password is a template or one of those that documentation uses."""
    folded = value.lower()
    return (
        folded in COMMON_PASSWORDS
        or value.startswith((*_TEMPLATE_MARKS, "$", "*"))
        or len(set(value)) < min(4, len(value))
        or any(word in folded for word in PLACEHOLDER_WORDS)
    )


def is_ordinary_text(value: str) -> bool:
    """Return whether a value may be a name, a path or a number: only letters and digits together look random."""
    return (
        not any(character.isdigit() for character in value)
        or not any(character.isalpha() for character in value)
        or entropy_bits(value) < _RANDOM_BITS
        or is_placeholder_password(value)
    )


def entropy_bits(value: str) -> float:
    """Return the Shannon entropy of one character of the value."""
    counts = Counter(value).values()
    return -sum(count / len(value) * math.log2(count / len(value)) for count in counts) if value else 0.0


def _least_bits(length: int) -> float:
    """Return the entropy that a random value of this length hardly ever falls below, whatever its alphabet."""
    return 2.5 if length >= 20 else 2.0
