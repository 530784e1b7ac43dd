"""The verbatim foreign records. Small appends lie loose; what adds up to a block is compressed together, which
takes a third less room than compressing each alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from store.errors import NotFound, Unreadable
from store.text.validate import decode, encode

if TYPE_CHECKING:
    from store.conversations.record_blocks import PendingBlocks, PrebuiltBlock
    from store.store import Store

MAX_LOOSE_BYTES = 256 * 1024
"""Of a session that was written in small pieces: from there on they are worth a block."""

MAX_CACHED_BLOCKS = 8
MAX_CACHED_BLOCK_BYTES = 4_000_000
"""A larger one holds a single large record, which whoever asks for it keeps anyway."""

_SELECT_RECORD = "select key, block, start, length, behind, data from records"
_LAST_BLOCK = "select coalesce((select seq from sqlite_sequence where name = 'blocks'), 0)"
_INSERT_BLOCK = "insert into blocks (key, data) values (?, ?)"
_STORE_LOOSE = "update records set block = null, start = null, data = ? where key = ?"
_SESSIONS_TO_PACK = """
    select session from records where data is not null and session in
        (select session from records where key in (select value from json_each(?)))
    group by session having sum(length + behind) >= ?
"""
_INSERT_PLACE = "insert into places (name) values (?)"
_DELETE_UNUSED_PLACES = """
    delete from places where key in (select value from json_each(?))
        and key not in (select place_key from records where place_key is not null)
"""
_RecordRow = tuple[int, int | None, int, int, int, bytes]


class Records:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._block_cache: OrderedDict[int, bytes] = OrderedDict()

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def open_pending_blocks(self) -> PendingBlocks:
        """Where this thread's transaction lays records down. Whoever does so writes, and nobody else can meanwhile."""
        packing = self._store.pending_blocks
        if not packing:
            (last,) = self._store.connection.execute(_LAST_BLOCK).fetchone()
            packing.start_at(last + 1)
        return packing

    def add_block(self, parcel: PrebuiltBlock) -> None:
        """Before what lies in it: other batches do so, too, whatever becomes of one."""
        self.open_pending_blocks().add_prebuilt(parcel)

    def write_pending(self) -> None:
        """As the transaction ends: blocks of what it laid down. What is too little for one lies loose."""
        for block in self._store.pending_blocks.incomplete_blocks():
            self._rewrite_blocks({block}, set())
            self._store.pending_blocks.drop_block(block)
        loose = self._write_blocks()
        if loose:
            connection = self._store.connection
            connection.executemany(_STORE_LOOSE, [(bytearray(data), key) for key, data in loose])
            keys = encode([key for key, _ in loose]).decode()
            for (session,) in connection.execute(_SESSIONS_TO_PACK, (keys, MAX_LOOSE_BYTES)).fetchall():
                self.pack_loose_records(session)
            self._write_blocks()

    def _write_blocks(self) -> list[tuple[int, bytes]]:
        """Gives what is not worth one."""
        blocks, left = self._store.pending_blocks.drain()
        self._store.connection.executemany(_INSERT_BLOCK, blocks)
        return left

    def pack_loose_records(self, session: int) -> None:
        """The session's loose records into blocks."""
        with self._store.transaction() as connection:
            loose = connection.execute(
                "select key, data from records where session = ? and data is not null order by key",
                (session,),
            ).fetchall()
            self._move_to_blocks(loose)

    def _move_to_blocks(self, pieces: Sequence[tuple[int, bytes]]) -> None:
        lay = self.open_pending_blocks().add_record
        self._store.connection.executemany(
            "update records set block = ?, start = ?, data = null where key = ?",
            [(*lay(key, data), key) for key, data in pieces],
        )

    def delete_unused(self, session: int) -> None:
        """Within a purge: forget the records that no entry points at any more, in the blocks too.

        No index leads from a record to its entries, nor from a block to its records: they would cost every import, and
        only a purge would ever use them. One sweep over the entries tells as well.
        """
        connection = self._store.connection
        unused = """
            select key, block, place_key from records where session = ?1 and key not in (
                select record from entries where record in (select key from records where session = ?1)
            )
        """
        found = connection.execute(unused, (session,)).fetchall()
        blocks = {block for _, block, _ in found if block is not None}
        self._rewrite_blocks(blocks, {key for key, *_ in found})
        connection.executemany("delete from records where key = ?", [(key,) for key, *_ in found])
        places = sorted({place for *_, place in found if place is not None})
        connection.execute(_DELETE_UNUSED_PLACES, (encode(places).decode(),))
        connection.executemany("delete from blocks where key = ?", [(block,) for block in blocks])
        for block in blocks:
            self._block_cache.pop(block, None)

    def _rewrite_blocks(self, blocks: set[int], dropped: set[int]) -> None:
        """What the blocks hold beside the dropped records goes into new ones."""
        numbers = encode(sorted(blocks)).decode()
        rows = self._store.rows(f"{_SELECT_RECORD} where block in (select value from json_each(?))", numbers)
        for block in blocks:
            kept = [(row[0], self._read_with_parts(row)) for row in rows if row[1] == block and row[0] not in dropped]
            if kept:
                self._move_to_blocks(kept)

    def get_place_key(self, name: str) -> int:
        """Its number. A path is kept once, however many records stood there."""
        connection = self._store.connection
        found = connection.execute("select key from places where name = ?", (name,)).fetchone()
        return int(found[0] if found else connection.execute(_INSERT_PLACE, (name,)).lastrowid or 0)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def get(self, key: int) -> bytes:
        row = self._store.row(f"{_SELECT_RECORD} where key = ?", key)
        if row is None:
            raise NotFound(f"There is no record {key}.")
        return self._read_with_parts(row)[: row[3]]

    def iter_session(self, session: int) -> Iterator[tuple[int, bytes]]:
        """Every record the session's chain points at, in the chain's order, each once."""
        rows = self._store.rows(
            f"""
            {_SELECT_RECORD} join (
                select record, min(seq) as seq from entries where session = ? and record is not null group by record
            ) as chain on chain.record = records.key order by chain.seq
            """,
            session,
        )
        for row in rows:
            yield row[0], self._read_with_parts(row)[: row[3]]

    def load_parts(self, column: bytes | None, record: int | None) -> bytes | None:
        """What an entry's column holds, or what it points at: parts that lie behind their record."""
        if column is None or record is None or not column[1:2].isdigit():
            return column
        place, size = decode(column)
        row = self._store.row(f"{_SELECT_RECORD} where key = ?", record)
        if row is None:
            raise Unreadable(f"Record {record} is lost, and what lies behind it; run `backscroll doctor`.")
        start = row[3] + place
        return self._read_with_parts(row)[start : start + size]

    def _read_with_parts(self, row: _RecordRow) -> bytes:
        """The record and what lies behind it."""
        _, block, start, length, behind, data = row
        return data if block is None else self._load_block(block)[start : start + length + behind]

    def _load_block(self, key: int) -> bytes:
        whole = self._block_cache.get(key) or self._store.pending_blocks.read_block(key)
        if whole is None:
            row = self._store.row("select data from blocks where key = ?", key)
            if row is None:
                raise Unreadable(f"Block {key} of the records is missing; run `backscroll doctor`.")
            # Here, so that a command that meets no block need not load it.
            from zstandard import ZstdError

            from store.conversations.record_blocks import decompress_block

            try:
                whole = decompress_block(row[0])
            except ZstdError:
                raise Unreadable(f"Block {key} of the records is damaged; run `backscroll doctor`.") from None
            if len(whole) > MAX_CACHED_BLOCK_BYTES:
                return whole
            self._block_cache[key] = whole
            while len(self._block_cache) > MAX_CACHED_BLOCKS:
                self._block_cache.popitem(last=False)
        return whole
