"""Records on their way into blocks: many are compressed together, whichever session they are of.

Most sessions are small; each in a block of its own would compress less well, and leave half a page empty.
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


@dataclass(slots=True)
class PrebuiltBlock:
    "A block that another process made, on its way with the rows of what lies in it."

    data: bytes
    record_count: int
    "How many lie in it."
    key: int = 0
    "Under which the store has it; none until it does."
    stored_count: int = 0
    "How many of them the store has."


class BlockBuilder:
    """Makes them, one after the other, of rows that go their way."""

    def __init__(self) -> None:
        self._compress = _make_compressor()
        self._rows: list[DerivedRows] = []
        self.size = 0

    def add(self, rows: DerivedRows) -> DerivedRows:
        self._rows.append(rows)
        self.size += sum(map(len, rows.record_data))
        return rows

    def finish_block(self) -> None:
        """What was laid so far can go: in a block, if it is worth one."""
        pieces = [piece for rows in self._rows for piece in rows.record_data] if self.size >= MIN_BLOCK_BYTES else []
        if pieces:
            parcel, start = PrebuiltBlock(self._compress(b"".join(pieces)), len(pieces)), 0
            for rows in self._rows:
                *rows.starts, start = accumulate(map(len, rows.record_data), initial=start)
                rows.block, rows.record_data = parcel, []
        self._rows, self.size = [], 0


class BlocksSavepoint(NamedTuple):
    blocks: int
    pieces: int
    open_key: int
    "The block that the pieces are for."


class PendingBlocks:
    """What a thread's open transaction will put into blocks when it ends; until then it is read from here."""

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
        """The key that the first block will have."""
        self._next_key = first

    def add_record(self, record: int, data: bytes) -> tuple[int, int]:
        """In which block it will lie, and where."""
        if not self._pieces:
            self._open_key = self._allocate_key()
        lies = self._open_key, self._size
        self._pieces.append((record, data))
        self._size += len(data)
        if self._size >= BLOCK_BYTES:
            self._close_block()
        return lies

    def add_prebuilt(self, parcel: PrebuiltBlock) -> None:
        """Once, however many come who lie in it."""
        if not parcel.key:
            parcel.key = self._allocate_key()
            self._blocks[parcel.key] = parcel.data
            self._prebuilt.append(parcel)

    def _allocate_key(self) -> int:
        self._next_key += 1
        return self._next_key - 1

    def _close_block(self) -> None:
        self._blocks[self._open_key] = self._compress(self._join_pieces())
        self._pieces, self._size = [], 0

    def _join_pieces(self) -> bytes:
        return b"".join(data for _, data in self._pieces)

    def read_block(self, block: int) -> bytes | None:
        """None where that block is not one of these."""
        if block in self._blocks:
            return decompress_block(self._blocks[block])
        return self._join_pieces() if self._pieces and block == self._open_key else None

    def incomplete_blocks(self) -> list[int]:
        """Blocks in which something lies that has no row: whoever deletes a session would not know of it."""
        return [parcel.key for parcel in self._prebuilt if parcel.stored_count < parcel.record_count]

    def drop_block(self, block: int) -> None:
        del self._blocks[block]

    def drain(self) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
        """The blocks under their keys, and the records that are left and are not worth one. Nothing is held then."""
        if self._size >= MIN_BLOCK_BYTES:
            self._close_block()
        blocks, left = list(self._blocks.items()), self._pieces
        self.rollback()
        return blocks, left

    def savepoint(self) -> BlocksSavepoint:
        return BlocksSavepoint(len(self._blocks), len(self._pieces), self._open_key)

    def rollback(self, mark: BlocksSavepoint | None = None) -> None:
        """What was laid since is not needed; a block that was begun before keeps it, since it is compressed already."""
        blocks, pieces, begun = mark or BlocksSavepoint(0, 0, 0)
        kept = {*list(self._blocks)[:blocks], *([begun] if pieces else [])}
        self._blocks = {key: block for key, block in self._blocks.items() if key in kept}
        for parcel in self._prebuilt:
            if parcel.key not in kept:
                parcel.key = parcel.stored_count = 0  # what else lies in it would bring it anew
        self._prebuilt = [parcel for parcel in self._prebuilt if parcel.key]
        self._pieces = self._pieces[:pieces] if self._open_key == begun else []
        self._size = sum(len(data) for _, data in self._pieces)


def _make_compressor() -> Callable[[bytes], bytes]:
    # Kept, since to make one takes as long as it takes to compress some kilobytes.
    return zstandard.ZstdCompressor(level=2, write_checksum=True).compress


def decompress_block(block: bytes) -> bytes:
    """Raises zstandard.ZstdError for one that is damaged."""
    return zstandard.ZstdDecompressor().decompress(block)
