"""Made-up words as people and programs use them: a few all the time, most of them hardly ever."""

from __future__ import annotations

import random
from itertools import accumulate

VOCABULARY_SIZE = 20_000
LINE_POOL_SIZE = 100_000
"""Lines that tools may print: so many that none comes twice within what is compressed together."""

_BEGINNINGS = "b bl br c ch cl d dr f fl g gr h j k l m n p pl pr r s sh sl st t th tr v w".split()
_MIDDLES = "a ai e ea i o oa u".split()
_ENDS = ["", "", "", "l", "m", "n", "nd", "r", "rn", "s", "st", "t"]
_ONE_SYLLABLE_WORDS, _TWO_SYLLABLE_WORDS = 400, 8_000
"""So many of the commonest words are of one syllable, so many of two at most."""


class Prose:
    """The same words and lines everywhere; which of them are said is the caller's chance."""

    def __init__(self, seed: str) -> None:
        chance = random.Random(seed)
        self.words = _make_vocabulary(chance)
        # Divisions and sums alone: powers and logarithms differ between machines in their last digit.
        self._weights = list(accumulate(1 / (rank + 2.7) for rank in range(1, VOCABULARY_SIZE + 1)))
        self._lines = [self._make_line(chance) for _ in range(LINE_POOL_SIZE)]

    def make_phrase(self, chance: random.Random, count: int) -> str:
        return " ".join(chance.choices(self.words, cum_weights=self._weights, k=count))

    def make_sentences(self, chance: random.Random, count: int) -> str:
        """So many words, with full stops."""
        said = []
        while count > 0:
            length = min(count, chance.randint(6, 16))
            said.append(self.make_phrase(chance, length).capitalize() + ".")
            count -= length
        return " ".join(said)

    def _make_line(self, chance: random.Random) -> str:
        """Programs speak of things by name, and of rare ones as often as of common ones."""
        names = ["_".join(chance.choices(self.words, k=2)) for _ in range(chance.randint(1, 3))]
        return f"{self.make_phrase(chance, chance.randint(2, 6))} {'.'.join(names)}({chance.getrandbits(32):x})"

    def make_output(self, chance: random.Random, count: int) -> str:
        """So many lines as programs print them: of a file, of a search, of a log."""
        lines = chance.choices(self._lines, k=count)
        match chance.randrange(3):
            case 0:
                return "\n".join(f"{number:6d}\t{line}" for number, line in enumerate(lines, chance.randrange(2_000)))
            case 1:
                path = f"src/{chance.choice(self.words)}/{chance.choice(self.words)}.py"
                return "\n".join(f"{path}:{number * 7}: {line}" for number, line in enumerate(lines, 3))
            case _:
                return "\n".join(f"{chance.getrandbits(40):010x} {line}" for line in lines)


def make_vocabulary(seed: str) -> list[str]:
    """The words alone, the commonest first."""
    return _make_vocabulary(random.Random(seed))


def _make_vocabulary(chance: random.Random) -> list[str]:
    words: dict[str, None] = {}
    while len(words) < VOCABULARY_SIZE:
        syllables = 1 if len(words) < _ONE_SYLLABLE_WORDS else 2 if len(words) < _TWO_SYLLABLE_WORDS else 3
        words["".join(_make_syllable(chance) for _ in range(syllables))] = None
    return list(words)


def _make_syllable(chance: random.Random) -> str:
    return chance.choice(_BEGINNINGS) + chance.choice(_MIDDLES) + chance.choice(_ENDS)
