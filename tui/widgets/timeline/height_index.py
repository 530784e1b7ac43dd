"""This module maps items to lines when the items are stacked and their heights change. It uses a Fenwick tree."""

from __future__ import annotations

from array import array
from collections.abc import Iterable


class HeightIndex:
    """Finds the first line of an item, and the item at a line, in logarithmic time."""

    def __init__(self, heights: Iterable[int] = ()) -> None:
        self._heights = array("q", heights)
        count = len(self._heights)
        self._sums = array("q", [0]) + self._heights
        for node in range(1, count + 1):
            parent = node + (node & -node)
            if parent <= count:
                self._sums[parent] += self._sums[node]
        self._stride = 1 << count.bit_length()
        self.total = sum(self._heights)

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, index: int) -> int:
        return self._heights[index]

    def __setitem__(self, index: int, height: int) -> None:
        difference = height - self._heights[index]
        if not difference:
            return
        self._heights[index] = height
        self.total += difference
        node = index + 1
        while node < len(self._sums):
            self._sums[node] += difference
            node += node & -node

    def start_line(self, index: int) -> int:
        """Return the first line of an item. The index after the last item gives the total height."""
        line = 0
        while index:
            line += self._sums[index]
            index &= index - 1
        return line

    def locate_line(self, line: int) -> tuple[int, int]:
        """Return the item at a line, and the offset of the line within the item. Skips items without height."""
        if not 0 <= line < self.total:
            raise IndexError(f"There is no line {line}.")
        node, stride = 0, self._stride
        while stride := stride >> 1:
            if node + stride < len(self._sums) and self._sums[node + stride] <= line:
                node += stride
                line -= self._sums[node]
        return node, line
