"""This module compresses records into blocks.

A block holds records of several sessions. Most sessions are small: a block for each one would compress less well and
leave half of a page empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import zstandard

from store.conversations.derive import DerivedRows

BLOCK_BYTES = 1024 * 1024
MIN_BLOCK_BYTES = 8 * 1024

FAST_LEVEL = 1
"""Is the level of zstd for new blocks: it compresses a gigabyte per second."""

PACKED_LEVEL = 12
"""Is the level for blocks that are packed later: ten times slower, and a fifth smaller. Level 15 is ten times slower
again and saves another hundredth."""


@dataclass(slots=True)
class PrebuiltBlock:
    "Holds a block that another process compressed. It is sent with the rows of its records."

    data: bytes
    record_count: int
    "Counts the records in the block."
    key: int = 0
    "Is the key of the stored block, or 0 before it is stored."
    stored_count: int = 0
    "Counts the records whose rows are stored."


class BlockBuilder:
    """Collects rows and compresses their records into one block after another."""

    def __init__(self) -> None:
        self._compress = _make_compressor()
        self._rows: list[DerivedRows] = []
        self.size = 0

    def add(self, rows: DerivedRows) -> DerivedRows:
        self._rows.append(rows)
        self.size += sum(map(len, rows.record_data))
        return rows

    def finish_block(self) -> None:
        """Compress the records that were added so far, if they are large enough for a block."""
        pieces = [piece for rows in self._rows for piece in rows.record_data] if self.size >= MIN_BLOCK_BYTES else []
        if pieces:
            block, start = PrebuiltBlock(self._compress(b"".join(pieces)), len(pieces)), 0
            for rows in self._rows:
                *rows.starts, start = accumulate(map(len, rows.record_data), initial=start)
                rows.block, rows.record_data = block, []
        self._rows, self.size = [], 0


class BlocksSavepoint(NamedTuple):
    """Holds the numbers to which `PendingBlocks.rollback` returns."""

    blocks: int
    pieces: int
    open_key: int
    "Is the key of the block that the pieces will be in."


class PendingBlocks:
    """Holds the records that a thread's transaction puts into blocks when it commits. Until then they are read here."""

    def __init__(self) -> None:
        self._compress = _make_compressor()
        self._next_key = self._open_key = 0
        self._blocks: dict[int, bytes] = {}
        self._pieces: list[tuple[int, bytes]] = []
        self._size = 0
        self._prebuilt: list[PrebuiltBlock] = []

    def __bool__(self) -> bool:
        return bool(self._blocks or self._pieces)

    def start_at(self, first: int) -> None:
        """Set the key of the first block."""
        self._next_key = first

    def add_record(self, record: int, data: bytes) -> tuple[int, int]:
        """Add a record, and return the key of its block and its offset in that block."""
        if not self._pieces:
            self._open_key = self._allocate_key()
        position = self._open_key, self._size
        self._pieces.append((record, data))
        self._size += len(data)
        if self._size >= BLOCK_BYTES:
            self._close_block()
        return position

    def add_prebuilt(self, block: PrebuiltBlock) -> None:
        """Add the block, unless a batch with records in the same block has already added it."""
        if not block.key:
            block.key = self._allocate_key()
            self._blocks[block.key] = block.data
            self._prebuilt.append(block)

    def _allocate_key(self) -> int:
        self._next_key += 1
        return self._next_key - 1

    def _close_block(self) -> None:
        self._blocks[self._open_key] = self._compress(self._join_pieces())
        self._pieces, self._size = [], 0

    def _join_pieces(self) -> bytes:
        return b"".join(data for _, data in self._pieces)

    def read_block(self, block: int) -> bytes | None:
        """Return the uncompressed data of a pending block, or None if the block is not pending."""
        if block in self._blocks:
            return decompress_block(self._blocks[block])
        return self._join_pieces() if self._pieces and block == self._open_key else None

    def incomplete_blocks(self) -> list[int]:
        """Return the blocks with records that have no row. A purge could not find these records."""
        return [block.key for block in self._prebuilt if block.stored_count < block.record_count]

    def drop_block(self, block: int) -> None:
        del self._blocks[block]

    def drain(self) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
        """Return the blocks with their keys, and the remaining records, which are too small for a block.

        Forget both.
        """
        if self._size >= MIN_BLOCK_BYTES:
            self._close_block()
        blocks, loose_records = list(self._blocks.items()), self._pieces
        self.rollback()
        return blocks, loose_records

    def savepoint(self) -> BlocksSavepoint:
        return BlocksSavepoint(len(self._blocks), len(self._pieces), self._open_key)

    def rollback(self, savepoint: BlocksSavepoint | None = None) -> None:
        """Forget the records that were added since the savepoint, or all of them.

        If the block that was open at the savepoint has been compressed since, it keeps the later records, too.
        """
        blocks, pieces, open_key = savepoint or BlocksSavepoint(0, 0, 0)
        kept = {*list(self._blocks)[:blocks], *([open_key] if pieces else [])}
        self._blocks = {key: data for key, data in self._blocks.items() if key in kept}
        for block in self._prebuilt:
            if block.key not in kept:
                block.key = block.stored_count = 0  # a later batch with records in this block adds it again
        self._prebuilt = [block for block in self._prebuilt if block.key]
        self._pieces = self._pieces[:pieces] if self._open_key == open_key else []
        self._size = sum(len(data) for _, data in self._pieces)


def _make_compressor() -> Callable[[bytes], bytes]:
    # Callers keep the compressor, because creating one takes as long as compressing a few kilobytes.
    return zstandard.ZstdCompressor(level=FAST_LEVEL, write_checksum=True).compress


def pack_block(block: bytes) -> bytes:
    """Return the block compressed again, better and slower. Raise zstandard.ZstdError if it is damaged."""
    return zstandard.ZstdCompressor(level=PACKED_LEVEL, write_checksum=True).compress(decompress_block(block))


def decompress_block(block: bytes) -> bytes:
    """Return the uncompressed data. Raise zstandard.ZstdError if the block is damaged."""
    return zstandard.ZstdDecompressor().decompress(block)
