"""Records on their way into blocks: what one transaction writes is compressed together, whichever session it is of.

Most sessions are small; each in a block of its own would compress less well, and leave half a page empty.
"""

from __future__ import annotations

from typing import NamedTuple

import zstandard

BLOCK_BYTES = 1024 * 1024
WORTH_A_BLOCK = 8 * 1024


class Mark(NamedTuple):
    blocks: int
    pieces: int


class Packing:
    """What a thread's open transaction will put into blocks when it ends; until then it is read from here."""

    def __init__(self) -> None:
        # To make one takes as long as it takes to compress some kilobytes.
        self._compress = zstandard.ZstdCompressor(level=2, write_checksum=True).compress
        self._first = 0
        self._blocks: list[bytes] = []
        self._pieces: list[tuple[int, bytes]] = []
        self._size = 0

    def __bool__(self) -> bool:
        return bool(self._blocks or self._pieces)

    def begin(self, first: int) -> None:
        """The key that the first block will have."""
        self._first = first

    def lay(self, record: int, data: bytes) -> tuple[int, int]:
        """In which block it will lie, and where."""
        lies = self._first + len(self._blocks), self._size
        self._pieces.append((record, data))
        self._size += len(data)
        if self._size >= BLOCK_BYTES:
            self._close_block()
        return lies

    def _close_block(self) -> None:
        self._blocks.append(self._compress(self._joined()))
        self._pieces, self._size = [], 0

    def _joined(self) -> bytes:
        return b"".join(data for _, data in self._pieces)

    def unpacked(self, block: int) -> bytes | None:
        """None where that block is not one of these."""
        number = block - self._first
        if not self or not 0 <= number <= len(self._blocks):
            return None
        return self._joined() if number == len(self._blocks) else unpacked(self._blocks[number])

    def taken(self) -> tuple[list[tuple[int, bytes]], list[tuple[int, bytes]]]:
        """The blocks under their keys, and the records that are left and are not worth one. Nothing is held then."""
        if self._size >= WORTH_A_BLOCK:
            self._close_block()
        blocks, left = list(enumerate(self._blocks, self._first)), self._pieces
        self.cut()
        return blocks, left

    def mark(self) -> Mark:
        return Mark(len(self._blocks), len(self._pieces))

    def cut(self, mark: Mark | None = None) -> None:
        """What was laid since is not needed; a block that was begun before keeps it, since it is compressed already."""
        blocks, pieces = mark or (0, 0)
        if len(self._blocks) == blocks:
            self._pieces = self._pieces[:pieces]
        else:
            self._blocks = self._blocks[: blocks + bool(pieces)]
            self._pieces = []
        self._size = sum(len(data) for _, data in self._pieces)


def unpacked(block: bytes) -> bytes:
    """Raises zstandard.ZstdError for one that is damaged."""
    return zstandard.ZstdDecompressor().decompress(block)
