"""This module makes the histories for the benchmarks: made-up sessions, the same bytes on every machine."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

import orjson
from bench import (
    claude_transcript,
    codex_transcript,
    realistic_claude_transcript,
    realistic_codex_transcript,
    realistic_pi_transcript,
)
from bench.dialogues import LAST_WORD, SEED, TITLE, make_dialogue
from bench.prose import Prose, make_vocabulary
from bench.realistic_dialogues import make_realistic_dialogue

SESSIONS_PER_MEGABYTE = 10
LETTERS_PER_WORD = 5
MB = 1_000_000

_CLAUDE = (".claude", realistic_claude_transcript.build_transcripts)
_CODEX = (".codex", realistic_codex_transcript.build_transcripts)
_PI = (".pi", realistic_pi_transcript.build_transcripts)
REALISTIC_WRITERS = (_CLAUDE, _CLAUDE, _CODEX, _CLAUDE, _CLAUDE, _PI, _CLAUDE, _CODEX)


class RealisticShape(NamedTuple):
    """Says how much of a history is new in every session. `docs/benchmarks.md` compares both with real histories."""

    name: str
    novelty: float
    label: str


USUAL = RealisticShape("usual", 0.02, "real shapes, ")
GROWING = RealisticShape("growing", 0.8, "growing vocabulary, ")
"""Is a history in which most lines have words that occur nowhere else: ids, hashes and paths."""


class Counts(NamedTuple):
    """Counts what a made-up history holds."""

    talks: int
    sessions: int
    "Includes the sessions of sub-agents."
    size: int
    "Counts the bytes of all files."
    spoken: int
    "Counts the bytes of prompts, answers and thinking."


@cache
def choose_words() -> tuple[str, ...]:
    """Return the beginnings of made-up words, common and rare ones."""
    words = make_vocabulary(SEED)[600:8_000:1_100]
    return tuple(word[:LETTERS_PER_WORD] for word in words if len(word) >= LETTERS_PER_WORD)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Describes a home folder with histories of agents, and how to find its sessions on a screen and in a search."""

    home: Path
    sessions: int
    size: int
    label: str = ""
    row: re.Pattern[bytes] = TITLE
    "Matches a row of the list."
    words: tuple[str, ...] = field(default_factory=choose_words)
    last_word: str = LAST_WORD
    "Is found in every session. It is empty if no such word is known."

    @property
    def name(self) -> str:
        return f"{self.label}{self.size / 1e6:,.0f} MB"

    @property
    def is_large(self) -> bool:
        """Return whether an import takes so long that a person can type some words meanwhile."""
        return self.size > 500 * MB

    def warm_page_cache(self) -> None:
        warm_page_cache(self.home, "*.json*")


def warm_page_cache(folder: Path, pattern: str = "*") -> None:
    """Read all files into the page cache. Some systems drop pages after a minute without use, and then the first
    program to be measured would wait for the disk."""
    for path in folder.rglob(pattern):
        if path.is_file():
            path.read_bytes()


def load_or_make_corpus(folder: Path, megabytes: int) -> Corpus:
    """Return the corpus of about this size. It is made if it does not exist yet."""
    home = folder / f"{SEED}-{megabytes}"
    counts = _load_or_make(home, lambda home: make_corpus(home, megabytes * SESSIONS_PER_MEGABYTE))
    return Corpus(home, counts.sessions, counts.size)


def load_or_make_realistic_corpus(folder: Path, shape: RealisticShape, megabytes: int) -> Corpus:
    """Return histories that have the shapes of real ones. They are made if they do not exist yet."""
    home = folder / f"{SEED}-{shape.name}-{megabytes}"
    counts = _load_or_make(home, lambda home: make_realistic_corpus(home, shape, megabytes * MB))
    return Corpus(home, counts.sessions, counts.size, shape.label)


def _load_or_make(home: Path, make: Callable[[Path], Counts]) -> Counts:
    path = home / "counted.json"
    if path.exists():
        return Counts(**orjson.loads(path.read_bytes()))
    print(f"making {home.name} …", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    counts = make(home)
    # This file is written last: without it the corpus is incomplete.
    path.write_bytes(orjson.dumps(counts._asdict()))
    return counts


def make_realistic_corpus(home: Path, shape: RealisticShape, max_bytes: int) -> Counts:
    """Write sessions until they have this size together."""
    prose = Prose(SEED)
    size = number = spoken = 0
    while size < max_bytes:
        dialogue = make_realistic_dialogue(number, prose, shape.novelty)
        agent, writer = REALISTIC_WRITERS[number % len(REALISTIC_WRITERS)]
        for path, at, records in writer(dialogue):
            size += _write_transcript(home / agent / path, at, records)
        spoken += dialogue.text_size
        number += 1
    return Counts(number, number, size, spoken)


def make_corpus(home: Path, talks: int) -> Counts:
    prose = Prose(SEED)
    sessions = size = spoken = 0
    for number in range(talks):
        dialogue = make_dialogue(number, prose)
        agent, writer = (".codex", codex_transcript) if number % 5 in (1, 3) else (".claude", claude_transcript)
        for path, at, records in writer.build_transcripts(dialogue):
            size += _write_transcript(home / agent / path, at, records)
            sessions += path.suffix == ".jsonl"
        spoken += dialogue.text_size
    return Counts(talks, sessions, size, spoken)


def _write_transcript(path: Path, at: datetime, records: Iterable[object]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
    path.write_bytes(data)
    os.utime(path, (at.timestamp(), at.timestamp()))
    return len(data)
