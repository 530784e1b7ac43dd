"""Records on their way into blocks: many are compressed together, whichever session they are of.

Most sessions are small; each in a block of its own would compress less well, and leave half a page empty.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

import zstandard

from store.conversations.derive import Derived

BLOCK_BYTES = 1024 * 1024
WORTH_A_BLOCK = 8 * 1024


@dataclass(slots=True)
class Parcel:
    "A block that another process made, on its way with the rows of what lies in it."

    data: bytes
    records: int
    "How many lie in it."
    key: int = 0
    "Under which the store has it; none until it does."
    laid: int = 0
    "How many of them the store has."


class Parcels:
    """Makes them, one after the other, of rows that go their way."""

    def __init__(self) -> None:
        self._compress = _compressor()
        self._rows: list[Derived] = []
        self.size = 0

    def lay(self, rows: Derived) -> Derived:
        self._rows.append(rows)
        self.size += sum(map(len, rows.data))
        return rows

    def close(self) -> None:
        """What was laid so far can go: in a block, if it is worth one."""
        pieces = [piece for rows in self._rows for piece in rows.data] if self.size >= WORTH_A_BLOCK else []
        if pieces:
            parcel, start = Parcel(self._compress(b"".join(pieces)), len(pieces)), 0
            for rows in self._rows:
                *rows.starts, start = accumulate(map(len, rows.data), initial=start)
                rows.parcel, rows.data = parcel, []
        self._rows, self.size = [], 0


class Mark(NamedTuple):
    blocks: int
    pieces: int
    begun: int
    "The block that the pieces are for."


class Packing:
    """What a thread's open transaction will put into blocks when it ends; until then it is read from here."""

    def __init__(self) -> None:
        self._compress = _compressor()
        self._next = self._begun = 0
        self._blocks: dict[int, bytes] = {}
        self._pieces: list[tuple[int, bytes]] = []
        self._size = 0
        self._parcels: list[Parcel] = []

    def __bool__(self) -> bool:
        return bool(self._blocks or self._pieces)

    def begin(self, first: int) -> None:
        """The key that the first block will have."""
        self._next = first

    def lay(self, record: int, data: bytes) -> tuple[int, int]:
        """In which block it will lie, and where."""
        if not self._pieces:
            self._begun = self._key()
        lies = self._begun, self._size
        self._pieces.append((record, data))
        self._size += len(data)
        if self._size >= BLOCK_BYTES:
            self._close_block()
        return lies

    def take(self, parcel: Parcel) -> None:
        """Once, however many come who lie in it."""
        if not parcel.key:
            parcel.key = self._key()
            self._blocks[parcel.key] = parcel.data
            self._parcels.append(parcel)

    def _key(self) -> int:
        self._next += 1
        return self._next - 1

    def _close_block(self) -> None:
        self._blocks[self._begun] = self._compress(self._joined())
        self._pieces, self._size = [], 0

    def _joined(self) -> bytes:
        return b"".join(data for _, data in self._pieces)

    def unpacked(self, block: int) -> bytes | None:
        """None where that block is not one of these."""
        if block in self._blocks:
            return unpacked(self._blocks[block])
        return self._joined() if self._pieces and block == self._begun else None

    def wanting(self) -> list[int]:
        """Blocks in which something lies that has no row: whoever deletes a session would not know of it."""
        return [parcel.key for parcel in self._parcels if parcel.laid < parcel.records]

    def drop(self, block: int) -> None:
        del self._blocks[block]

    def taken(self) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
        """The blocks under their keys, and the records that are left and are not worth one. Nothing is held then."""
        if self._size >= WORTH_A_BLOCK:
            self._close_block()
        blocks, left = list(self._blocks.items()), self._pieces
        self.cut()
        return blocks, left

    def mark(self) -> Mark:
        return Mark(len(self._blocks), len(self._pieces), self._begun)

    def cut(self, mark: Mark | None = None) -> None:
        """What was laid since is not needed; a block that was begun before keeps it, since it is compressed already."""
        blocks, pieces, begun = mark or Mark(0, 0, 0)
        kept = {*list(self._blocks)[:blocks], *([begun] if pieces else [])}
        self._blocks = {key: block for key, block in self._blocks.items() if key in kept}
        for parcel in self._parcels:
            if parcel.key not in kept:
                parcel.key = parcel.laid = 0  # what else lies in it would bring it anew
        self._parcels = [parcel for parcel in self._parcels if parcel.key]
        self._pieces = self._pieces[:pieces] if self._begun == begun else []
        self._size = sum(len(data) for _, data in self._pieces)


def _compressor() -> Callable[[bytes], bytes]:
    # Kept, since to make one takes as long as it takes to compress some kilobytes.
    return zstandard.ZstdCompressor(level=2, write_checksum=True).compress


def unpacked(block: bytes) -> bytes:
    """Raises zstandard.ZstdError for one that is damaged."""
    return zstandard.ZstdDecompressor().decompress(block)
