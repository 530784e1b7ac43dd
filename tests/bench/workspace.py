"""This module makes up projects: their files, and what programs print about them.

Real projects repeat themselves. A file has few names of its own, it is read and changed many times, and searches and
test runs print its lines again. So real transcripts compress well, although new names, ids and hashes never end.
"""

from __future__ import annotations

import base64
import random
from functools import lru_cache
from uuid import UUID

from bench.dialogues import SEED
from bench.prose import Prose

_FILES = 30
_FILE_LINES = (20, 50, 90, 150, 240, 400, 700, 1400)
_FILE_WEIGHTS = (8, 12, 14, 12, 8, 5, 3, 1)
_CODE_LINES = (
    "    def {a}(self, {b}: {c}) -> {c}:",
    '        """Return the {} {} of a {}, or {} {}."""',
    "        {a} = self.{b}.get({c}, None)",
    "        if {a} is None or not {a}.{b}:",
    '            raise ValueError(f"{} {} {{{a}}} {}")',
    "        for {a} in self.{b}.values():",
    "            self.{a}.append({b}({c}, {a}={b}))",
    "        return {a}",
    "        assert self.{a}({b}) == {number}",
    "        # The {} {} is {} before the {} {} {}.",
    "",
)


class Workspace:
    """Is one project. The same number makes the same files. `novelty` is the share of lines with words that occur
    nowhere else."""

    def __init__(self, number: int, prose: Prose, novelty: float) -> None:
        rng = random.Random(f"{SEED} workspace {number}")
        self.folder = f"/home/dev/code/{rng.choice(prose.words)}-{number}"
        self._prose = prose
        self._novelty = novelty
        self._names = [self._make_name(rng) for _ in range(60)]
        self.paths = [self.make_path(rng) for _ in range(_FILES)]

    def make_path(self, rng: random.Random) -> str:
        return f"{self.folder}/src/{rng.choice(self._names)}/{self._make_name(rng)}.py"

    def read_file(self, path: str) -> list[str]:
        """Return the lines of a file, which are always the same."""
        rng = random.Random(path)
        return self._make_code(rng, rng.choices(_FILE_LINES, _FILE_WEIGHTS)[0])

    def make_output(self, rng: random.Random, count: int) -> str:
        """Return what a program prints: a log, search results or a test run."""
        if rng.random() < self._novelty:
            lines = [self._make_log_line(rng) for _ in range(1 + count // 2)]
        elif rng.randrange(2):
            path = rng.choice(self.paths)
            lines = [f"{path}:{number}:{line}" for number, line in enumerate(self.read_file(path)[:count], 1)]
        else:
            names = rng.choices(self._names, k=count)
            lines = [f"tests/test_{rng.choice(names)}.py::test_{name} PASSED [ 50%]" for name in names]
        return "\n".join(lines)

    def _make_code(self, rng: random.Random, count: int) -> list[str]:
        """Return lines of code in which most names are used again and again."""
        own_count = 4 + int(count * (0.06 + self._novelty))
        names = [self._make_name(rng) for _ in range(own_count)] + rng.choices(self._names, k=6)
        lines: list[str] = []
        while len(lines) < count:
            a, b, c = rng.choices(names, k=3)
            words = self._prose.make_phrase(rng, 6).split()
            line = rng.choice(_CODE_LINES).format(*words, a=a, b=b, c=c, number=rng.randrange(1_000))
            lines.append(f"{line}  # {make_hex(rng, 16)}" if rng.random() < self._novelty else line)
        return lines

    def _make_log_line(self, rng: random.Random) -> str:
        words = self._prose.make_phrase(rng, 4)
        return f"{make_hex(rng, 12)} INFO {words} {self.make_path(rng)} request={make_uuid(rng)}"

    def _make_name(self, rng: random.Random) -> str:
        return "_".join(rng.choices(self._prose.words, k=2))


@lru_cache(maxsize=30)
def load_workspace(number: int, prose: Prose, novelty: float) -> Workspace:
    return Workspace(number, prose, novelty)


def make_hex(rng: random.Random, digits: int) -> str:
    return f"{rng.getrandbits(4 * digits):0{digits}x}"


def make_uuid(rng: random.Random) -> str:
    return str(UUID(int=rng.getrandbits(128), version=4))


def make_base64(rng: random.Random, count: int) -> str:
    """Return this many random bytes, as signatures and encrypted reasoning are written."""
    return base64.b64encode(rng.randbytes(count)).decode()
