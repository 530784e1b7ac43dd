"""This module defines a leak: one secret value in clear text, with all the places where it was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class LeakPlace(NamedTuple):
    """Says where a value was found: in an entry of a session, in another text of the store, or in a file."""

    session_id: str | None = None
    entry: str | None = None
    field: str | None = None
    path: str | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Leak:
    """Is one value. The value itself is nowhere in it."""

    fingerprint: str
    "Is an HMAC of the value. Equal values have equal fingerprints."
    rule: str
    tier: str
    masked: str
    places: tuple[LeakPlace, ...]
    first_at: str
    last_at: str
    ignored: str | None = None
    "Is the reason why a person ignores it, or None."
    rotated: str | None = None
    "Is the time when a person said that the value is no longer valid, or None."


class NotScanned(NamedTuple):
    """Names a file or a value that could not be looked into, and the reason."""

    path: str
    reason: str
