"""Histories to measure with: Claude Code's and Codex's, made up, the same bytes on every machine."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import orjson
from bench import claude_transcript, codex_transcript
from bench.dialogues import SEED, make_dialogue
from bench.prose import Prose

SESSIONS_PER_MEGABYTE = 10


class Corpus(NamedTuple):
    """A person's home, with what was counted while it was made."""

    home: Path
    talks: int
    sessions: int
    "Those of delegates, too."
    size: int
    "Bytes."
    spoken: int
    "Bytes of what was said and thought."

    @property
    def name(self) -> str:
        return f"{self.size / 1e6:,.0f} MB"

    def warm_page_cache(self) -> None:
        warm_page_cache(self.home, "*.json*")


def warm_page_cache(folder: Path, named: str = "*") -> None:
    """Into the page cache: some systems take from it what was not asked for in a minute, and then whoever comes first
    waits for the disk."""
    for path in folder.rglob(named):
        if path.is_file():
            path.read_bytes()


def load_or_make_corpus(folder: Path, megabytes: int) -> Corpus:
    """That of about so many megabytes, made when it is not there yet."""
    home = folder / f"{SEED}-{megabytes}"
    counted = home / "counted.json"
    if counted.exists():
        return Corpus(home, **orjson.loads(counted.read_bytes()))
    print(f"making a history of {megabytes:,} MB …", file=sys.stderr, flush=True)
    shutil.rmtree(home, ignore_errors=True)
    made = make_corpus(home, megabytes * SESSIONS_PER_MEGABYTE)
    # Last of all: without it, what is there is a half.
    counted.write_bytes(orjson.dumps({name: told for name, told in made._asdict().items() if name != "home"}))
    return made


def make_corpus(home: Path, talks: int) -> Corpus:
    prose = Prose(SEED)
    sessions = size = spoken = 0
    for number in range(talks):
        one = make_dialogue(number, prose)
        agent, spelling = (".codex", codex_transcript) if number % 5 in (1, 3) else (".claude", claude_transcript)
        for path, at, records in spelling.files(one):
            size += _write_transcript(home / agent / path, at, records)
            sessions += path.suffix == ".jsonl"
        spoken += one.text_size
    return Corpus(home, talks, sessions, size, spoken)


def _write_transcript(path: Path, at: datetime, records: Iterable[object]) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    data = b"".join(orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE) for record in records)
    path.write_bytes(data)
    os.utime(path, (at.timestamp(), at.timestamp()))
    return len(data)
