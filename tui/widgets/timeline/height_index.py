"""How high things are that stand one below the other: where each begins and which stands at a line, quickly, also
when there are very many and their heights change as they are looked at. A Fenwick tree."""

from __future__ import annotations

from array import array
from collections.abc import Iterable


class HeightIndex:
    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights = array("q", heights)
        count = len(self._heights)
        self._sums = array("q", [0]) + self._heights
        for node in range(1, count + 1):
            above = node + (node & -node)
            if above <= count:
                self._sums[above] += self._sums[node]
        self._stride = 1 << count.bit_length()
        self.total = sum(self._heights)

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def __setitem__(self, index: int, height: int) -> None:
        taller = height - self._heights[index]
        if not taller:
            return
        self._heights[index] = height
        self.total += taller
        node = index + 1
        while node < len(self._sums):
            self._sums[node] += taller
            node += node & -node

    def start_line(self, index: int) -> int:
        """The line on which it begins; for one past the last, where all end."""
        line = 0
        while index:
            line += self._sums[index]
            index &= index - 1
        return line

    def locate_line(self, line: int) -> tuple[int, int]:
        """Which one stands at a line, and how far below its beginning that is. Never one without height."""
        if not 0 <= line < self.total:
            raise IndexError(f"There is no line {line}.")
        node, stride = 0, self._stride
        while stride := stride >> 1:
            if node + stride < len(self._sums) and self._sums[node + stride] <= line:
                node += stride
                line -= self._sums[node]
        return node, line
