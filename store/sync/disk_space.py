"""Makes the store smaller when nothing else is to be done.

An import writes quickly: it compresses little, and leaves the search index in many segments. What it wrote is improved
later, in short transactions. A kill between two of them loses nothing, and the next run continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from store.store import Store


def pack_store(store: Store, *, merge_completely: bool = False) -> Iterator[None]:
    """Pack the blocks of records, merge the search index and release free pages, and yield after each short step.

    Merging the index completely rewrites all of it, so it is done only on request, not after every few new sessions.
    """
    while store.records.pack_next_block():
        yield
    for _ in store.search.merge_segments(completely=merge_completely):
        yield
    store.release_free_pages()
