"""This module makes up words and lines with a natural distribution: few are common, most are rare."""

from __future__ import annotations

import random
from itertools import accumulate

VOCABULARY_SIZE = 20_000
LINE_POOL_SIZE = 100_000
"""Is so large that hardly any line occurs twice within one compressed block."""

_BEGINNINGS = "b bl br c ch cl d dr f fl g gr h j k l m n p pl pr r s sh sl st t th tr v w".split()
_MIDDLES = "a ai e ea i o oa u".split()
_ENDS = ["", "", "", "l", "m", "n", "nd", "r", "rn", "s", "st", "t"]
_ONE_SYLLABLE_WORDS, _TWO_SYLLABLE_WORDS = 400, 8_000
"""Count the most common words that have one syllable, and those that have at most two."""


class Prose:
    """Makes phrases, sentences and output from the same words everywhere; the caller's random generator chooses."""

    def __init__(self, seed: str) -> None:
        rng = random.Random(seed)
        self.words = _make_vocabulary(rng)
        # Only divisions and sums: powers and logarithms differ between machines in their last digit.
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(1, VOCABULARY_SIZE + 1)))
        self._lines = [self._make_line(rng) for _ in range(LINE_POOL_SIZE)]

    def make_phrase(self, rng: random.Random, count: int) -> str:
        return " ".join(rng.choices(self.words, cum_weights=self._weights, k=count))

    def make_sentences(self, rng: random.Random, count: int) -> str:
        """Return sentences with this many words in total."""
        sentences = []
        while count > 0:
            length = min(count, rng.randint(6, 16))
            sentences.append(self.make_phrase(rng, length).capitalize() + ".")
            count -= length
        return " ".join(sentences)

    def _make_line(self, rng: random.Random) -> str:
        """Return a line of program output. Its names are drawn evenly, so rare words are as frequent as common ones."""
        names = ["_".join(rng.choices(self.words, k=2)) for _ in range(rng.randint(1, 3))]
        return f"{self.make_phrase(rng, rng.randint(2, 6))} {'.'.join(names)}({rng.getrandbits(32):x})"

    def make_output(self, rng: random.Random, count: int) -> str:
        """Return lines as programs print them: a file, search results or a log."""
        lines = rng.choices(self._lines, k=count)
        match rng.randrange(3):
            case 0:
                return "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(lines, rng.randrange(2_000)))
            case 1:
                path = f"src/{rng.choice(self.words)}/{rng.choice(self.words)}.py"
                return "\n".join(f"{path}:{number * 7}: {line}" for number, line in enumerate(lines, 3))
            case _:
                return "\n".join(f"{rng.getrandbits(40):010x} {line}" for line in lines)


def make_vocabulary(seed: str) -> list[str]:
    """Return the words, most common first."""
    return _make_vocabulary(random.Random(seed))


def _make_vocabulary(rng: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < VOCABULARY_SIZE:
        syllables = 1 if len(words) < _ONE_SYLLABLE_WORDS else 2 if len(words) < _TWO_SYLLABLE_WORDS else 3
        words["".join(_make_syllable(rng) for _ in range(syllables))] = None
    return list(words)


def _make_syllable(rng: random.Random) -> str:
    return rng.choice(_BEGINNINGS) + rng.choice(_MIDDLES) + rng.choice(_ENDS)
