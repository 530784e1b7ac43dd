"""This module checks that a store is intact. It uses plain SQL and none of the store's code, which might share its
mistakes."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path

import zstandard


def find_faults(path: Path) -> list[str]:
    """Return what is wrong with a store. Opening it also recovers it, as any other program would."""
    with closing(sqlite3.connect(path)) as connection:
        return [
            *(message for (message,) in connection.execute("pragma integrity_check") if message != "ok"),
            *(
                f"{table} row {row} refers to a missing row"
                for table, row, *_ in connection.execute("pragma foreign_key_check")
            ),
            *_broken_chains(connection),
            *_wrong_counts(connection),
            *_damaged_records(connection),
            *_unindexed_entries(connection),
        ]


_HAS_CHAIN_SQL = "(depth = 'full' or head is not null)"
"""Excludes sessions of the quick index, which have no chain yet."""


def _broken_chains(connection: sqlite3.Connection) -> Iterator[str]:
    sessions = connection.execute(f"select key, id, head, tail from sessions where {_HAS_CHAIN_SQL}").fetchall()
    for key, name, head, tail in sessions:
        chain = connection.execute(
            "select key, parent, seq, kind from entries where session = ? order by seq", (key,)
        ).fetchall()
        if not chain or (chain[0][0], chain[-1][0]) != (head, tail):
            yield f"{name}: head or tail is not the end of its chain"
        elif chain[0][1:] != (None, -1, "header"):
            yield f"{name}: the first entry is not a header"
        for before, after in pairwise(chain):
            if after[1:3] != (before[0], before[2] + 1) or after[3] == "header":
                yield f"{name}: entry {after[2]} does not follow entry {before[2]}"


def _wrong_counts(connection: sqlite3.Connection) -> Iterator[str]:
    sql = f"""
        select id, entries, turns, tool_calls,
            (select count(*) from entries where session = sessions.key and kind != 'header' and not inherited),
            (select count(*) from turns where session = sessions.key),
            (select count(*) from tool_calls where session = sessions.key and entry is not null and not inherited)
        from sessions where {_HAS_CHAIN_SQL}
    """
    for name, *counts in connection.execute(sql):
        if counts[:3] != counts[3:]:
            yield f"{name}: the session row has the counts {counts[:3]}, but there are {counts[3:]}"


def _damaged_records(connection: sqlite3.Connection) -> Iterator[str]:
    blocks = {
        key: zstandard.ZstdDecompressor().decompress(data)
        for key, data in connection.execute("select key, data from blocks")
    }
    for key, digest, length, block, start, data in connection.execute(
        "select key, digest, length, block, start, data from records"
    ):
        record = data[:length] if block is None else blocks[block][start : start + length]
        if hashlib.blake2b(record, digest_size=16).digest() != digest:
            yield f"record {key} does not match its digest"


def _unindexed_entries(connection: sqlite3.Connection) -> Iterator[str]:
    """Yield entries with text that are not in the index, and entries in the index that do not exist."""
    with_text = "select key from entries where kind in ('message', 'compaction') and text != '' and not inherited"
    indexed = "select id from conversation_fts_docsize"
    for (key,) in connection.execute(f"{with_text} except {indexed}"):
        yield f"entry {key} is not in the index"
    for (key,) in connection.execute(f"{indexed} except select key from entries"):
        yield f"the index has an entry {key} that does not exist"
