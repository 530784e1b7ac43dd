"""This module describes the shape of a token in one line, as vendors document it: `ghp_{base62:36}`.

Braces hold an alphabet and a length: `{hex:32}` is exactly 32 characters, `{hex:20-40}` is a range, `{hex:20+}` has no
end. Everything else is literal. A regular expression and a made-up example both follow from the shape, so they cannot
disagree, and no file of the project contains anything that looks like a real token.
"""

from __future__ import annotations

import functools
import random
import re
from dataclasses import dataclass

CHARACTER_CLASSES = {
    "digits": "0-9",
    "hex": "0-9a-f",
    "HEX": "0-9A-F",
    "lower32": "2-7a-z",
    "lower36": "0-9a-z",
    "upper36": "0-9A-Z",
    "base32": "A-Z2-7",
    "bech32": "02-9AC-HJ-NP-Z",
    "base62": "0-9A-Za-z",
    "word": "0-9A-Za-z_",
    "url64": "0-9A-Za-z_-",
    "base64": "0-9A-Za-z+/",
    "dotted": "0-9A-Za-z_.-",
    "unreserved": "0-9A-Za-z_.~-",
    "padded": "0-9A-Za-z+/_=-",
}
"""Holds each alphabet as the inside of a character class."""

_UUID = "{hex:8}-{hex:4}-{hex:4}-{hex:4}-{hex:12}"
_FIELD = re.compile(r"\{(\w+):(\d+)(?:(\+)|-(\d+))?\}")
_MAX_EXTRA_CHARS = 20
"""How much longer than its minimum a field of an example may be."""


@dataclass(frozen=True, slots=True)
class Field:
    """Is a run of characters of one alphabet."""

    alphabet: str
    minimum: int
    maximum: int | None

    def pattern(self) -> str:
        count = f"{self.minimum}" if self.maximum == self.minimum else f"{self.minimum},{self.maximum or ''}"
        return f"[{CHARACTER_CLASSES[self.alphabet]}]{{{count}}}"


@dataclass(frozen=True, slots=True)
class TokenShape:
    """Is a parsed shape: literal texts and fields, in order."""

    pieces: tuple[str | Field, ...]

    @classmethod
    def parse(cls, text: str) -> TokenShape:
        text = text.replace("{uuid}", _UUID)
        pieces: list[str | Field] = []
        position = 0
        for match in _FIELD.finditer(text):
            if literal := text[position : match.start()]:
                pieces.append(literal)
            alphabet, minimum, is_open, maximum = match.groups()
            pieces.append(Field(alphabet, int(minimum), None if is_open else int(maximum or minimum)))
            position = match.end()
        if literal := text[position:]:
            pieces.append(literal)
        return cls(tuple(pieces))

    @property
    def prefix(self) -> str:
        """Return the literal beginning, which may be empty."""
        return self.pieces[0] if isinstance(self.pieces[0], str) else ""

    @property
    def longest_literal(self) -> str:
        return max((piece for piece in self.pieces if isinstance(piece, str)), key=len, default="")

    @property
    def last_alphabet(self) -> str:
        """Return the characters that may not follow the token, because then it would be longer than its shape."""
        last = self.pieces[-1]
        return list_characters(last.alphabet if isinstance(last, Field) else "base62")

    def pattern(self) -> str:
        """Return a regular expression that both RE2 and Python's `re` understand."""
        return "".join(piece.pattern() if isinstance(piece, Field) else re.escape(piece) for piece in self.pieces)

    def make_example(self, seed: str) -> str:
        """Return a made-up token. The same seed returns the same one."""
        source = random.Random(seed)  # noqa: S311 - an example need not be unpredictable
        return "".join(
            "".join(source.choices(list_characters(piece.alphabet), k=_example_length(piece)))
            if isinstance(piece, Field)
            else piece
            for piece in self.pieces
        )


@functools.cache
def list_characters(alphabet: str) -> str:
    """Return every character of an alphabet."""
    inside = re.compile(f"[{CHARACTER_CLASSES[alphabet]}]")
    return "".join(character for character in map(chr, range(128)) if inside.match(character))


def _example_length(field: Field) -> int:
    longest = field.minimum + _MAX_EXTRA_CHARS
    return longest if field.maximum is None else min((field.minimum + field.maximum) // 2, longest)
