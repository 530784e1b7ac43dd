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

    @property
    def is_open(self) -> bool:
        """Is true until a person says that the value does not matter, or that it is no longer valid."""
        return not (self.ignored or self.rotated)

    @property
    def session_ids(self) -> frozenset[str]:
        return frozenset(place.session_id for place in self.places if place.session_id)

    @property
    def paths(self) -> frozenset[str]:
        return frozenset(place.path for place in self.places if place.path)


class NotScanned(NamedTuple):
    """Names a file or a value that could not be looked into, and the reason."""

    path: str
    reason: str
