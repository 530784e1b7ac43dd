"""Whether a store is whole, told by plain SQL and nothing of the store's own, which might share its mistakes."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import zstandard


def find_faults(path: Path) -> list[str]:
    """Opening it also recovers it, as the next program to open it would."""
    with closing(sqlite3.connect(path)) as connection:
        return [
            *(told for (told,) in connection.execute("pragma integrity_check") if told != "ok"),
            *(f"{table} row {row} points nowhere" for table, row, *_ in connection.execute("pragma foreign_key_check")),
            *_broken_chains(connection),
            *_wrong_counts(connection),
            *_damaged_records(connection),
            *_unindexed_entries(connection),
        ]


_HAS_CHAIN_SQL = "(depth = 'full' or head is not null)"
"""What was only skimmed has no chain yet."""


def _broken_chains(connection: sqlite3.Connection) -> Iterator[str]:
    read = connection.execute(f"select key, id, head, tail from sessions where {_HAS_CHAIN_SQL}").fetchall()
    for key, name, head, tail in read:
        chain = connection.execute(
            "select key, parent, seq, kind from entries where session = ? order by seq", (key,)
        ).fetchall()
        if not chain or (chain[0][0], chain[-1][0]) != (head, tail):
            yield f"{name}: its ends are not where it says"
        elif chain[0][1:] != (None, -1, "header"):
            yield f"{name}: it does not begin with a header"
        for before, after in pairwise(chain):
            if after[1:3] != (before[0], before[2] + 1) or after[3] == "header":
                yield f"{name}: entry {after[2]} does not follow entry {before[2]}"


def _wrong_counts(connection: sqlite3.Connection) -> Iterator[str]:
    counted = f"""
        select id, entries, turns, tool_calls,
            (select count(*) from entries where session = sessions.key and kind != 'header' and not inherited),
            (select count(*) from turns where session = sessions.key),
            (select count(*) from tool_calls where session = sessions.key and entry is not null and not inherited)
        from sessions where {_HAS_CHAIN_SQL}
    """
    for name, *counts in connection.execute(counted):
        if counts[:3] != counts[3:]:
            yield f"{name}: says {counts[:3]}, has {counts[3:]}"


def _damaged_records(connection: sqlite3.Connection) -> Iterator[str]:
    blocks = {
        key: zstandard.ZstdDecompressor().decompress(data)
        for key, data in connection.execute("select key, data from blocks")
    }
    for key, digest, length, block, start, data in connection.execute(
        "select key, digest, length, block, start, data from records"
    ):
        whole = data[:length] if block is None else blocks[block][start : start + length]
        if hashlib.blake2b(whole, digest_size=16).digest() != digest:
            yield f"record {key} is not what was written"


def _unindexed_entries(connection: sqlite3.Connection) -> Iterator[str]:
    """Every entry that says something is in the index, and the index speaks of no other."""
    said = "select key from entries where kind in ('message', 'compaction') and text != '' and not inherited"
    indexed = "select id from conversation_fts_docsize"
    for (key,) in connection.execute(f"{said} except {indexed}"):
        yield f"entry {key} cannot be found"
    for (key,) in connection.execute(f"{indexed} except select key from entries"):
        yield f"the index knows an entry {key} that is not there"
