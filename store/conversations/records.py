"""The verbatim foreign records. Small appends lie loose; what adds up to a block is compressed together, which
takes a third less room than compressing each alone."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from store.errors import NotFound, Unreadable
from store.text.validate import decode, encode

if TYPE_CHECKING:
    from store.conversations.record_blocks import Packing, Parcel
    from store.store import Store

LOOSE_BYTES = 256 * 1024
"""Of a session that was written in small pieces: from there on they are worth a block."""

BLOCKS_CACHED = 8
BLOCK_BYTES_CACHED = 4_000_000
"""A larger one holds a single large record, which whoever asks for it keeps anyway."""

_WHERE_IT_LIES = "select key, block, start, length, behind, data from records"
_LAST_BLOCK = "select coalesce((select seq from sqlite_sequence where name = 'blocks'), 0)"
_ADD_BLOCK = "insert into blocks (key, data) values (?, ?)"
_LOOSEN = "update records set block = null, start = null, data = ? where key = ?"
_MUCH_LOOSE = """
    select session from records where data is not null and session in
        (select session from records where key in (select value from json_each(?)))
    group by session having sum(length + behind) >= ?
"""
_ADD_PLACE = "insert into places (name) values (?)"
_LEFT_PLACES = """
    delete from places where key in (select value from json_each(?))
        and key not in (select place_key from records where place_key is not null)
"""
_Lies = tuple[int, int | None, int, int, int, bytes]


class Records:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._blocks: OrderedDict[int, bytes] = OrderedDict()

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def packing(self) -> Packing:
        """Where this thread's transaction lays records down. Whoever does so writes, and nobody else can meanwhile."""
        packing = self._store.packing
        if not packing:
            (last,) = self._store.connection.execute(_LAST_BLOCK).fetchone()
            packing.begin(last + 1)
        return packing

    def receive(self, parcel: Parcel) -> None:
        """Before what lies in it: other batches do so, too, whatever becomes of one."""
        self.packing().take(parcel)

    def settle(self) -> None:
        """As the transaction ends: blocks of what it laid down. What is too little for one lies loose."""
        for block in self._store.packing.wanting():
            self._rewrite({block}, set())
            self._store.packing.drop(block)
        loose = self._write_blocks()
        if loose:
            connection = self._store.connection
            connection.executemany(_LOOSEN, [(bytearray(data), key) for key, data in loose])
            keys = encode([key for key, _ in loose]).decode()
            for (session,) in connection.execute(_MUCH_LOOSE, (keys, LOOSE_BYTES)).fetchall():
                self.pack(session)
            self._write_blocks()

    def _write_blocks(self) -> list[tuple[int, bytes]]:
        """Gives what is not worth one."""
        blocks, left = self._store.packing.taken()
        self._store.connection.executemany(_ADD_BLOCK, blocks)
        return left

    def pack(self, session: int) -> None:
        """The session's loose records into blocks."""
        with self._store.transaction() as connection:
            loose = connection.execute(
                "select key, data from records where session = ? and data is not null order by key",
                (session,),
            ).fetchall()
            self._move(loose)

    def _move(self, pieces: Sequence[tuple[int, bytes]]) -> None:
        lay = self.packing().lay
        self._store.connection.executemany(
            "update records set block = ?, start = ?, data = null where key = ?",
            [(*lay(key, data), key) for key, data in pieces],
        )

    def drop_unused(self, session: int) -> None:
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
        self._rewrite(blocks, {key for key, *_ in found})
        connection.executemany("delete from records where key = ?", [(key,) for key, *_ in found])
        places = sorted({place for *_, place in found if place is not None})
        connection.execute(_LEFT_PLACES, (encode(places).decode(),))
        connection.executemany("delete from blocks where key = ?", [(block,) for block in blocks])
        for block in blocks:
            self._blocks.pop(block, None)

    def _rewrite(self, blocks: set[int], dropped: set[int]) -> None:
        """What the blocks hold beside the dropped records goes into new ones."""
        numbers = encode(sorted(blocks)).decode()
        rows = self._store.rows(f"{_WHERE_IT_LIES} where block in (select value from json_each(?))", numbers)
        for block in blocks:
            kept = [(row[0], self._piece(row)) for row in rows if row[1] == block and row[0] not in dropped]
            if kept:
                self._move(kept)

    def place(self, name: str) -> int:
        """Its number. A path is kept once, however many records stood there."""
        connection = self._store.connection
        found = connection.execute("select key from places where name = ?", (name,)).fetchone()
        return int(found[0] if found else connection.execute(_ADD_PLACE, (name,)).lastrowid or 0)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def get(self, key: int) -> bytes:
        row = self._store.row(f"{_WHERE_IT_LIES} where key = ?", key)
        if row is None:
            raise NotFound(f"There is no record {key}.")
        return self._piece(row)[: row[3]]

    def of_session(self, session: int) -> Iterator[tuple[int, bytes]]:
        """Every record the session's chain points at, in the chain's order, each once."""
        rows = self._store.rows(
            f"""
            {_WHERE_IT_LIES} join (
                select record, min(seq) as seq from entries where session = ? and record is not null group by record
            ) as chain on chain.record = records.key order by chain.seq
            """,
            session,
        )
        for row in rows:
            yield row[0], self._piece(row)[: row[3]]

    def parts(self, column: bytes | None, record: int | None) -> bytes | None:
        """What an entry's column holds, or what it points at: parts that lie behind their record."""
        if column is None or record is None or not column[1:2].isdigit():
            return column
        place, size = decode(column)
        row = self._store.row(f"{_WHERE_IT_LIES} where key = ?", record)
        if row is None:
            raise Unreadable(f"Record {record} is lost, and what lies behind it; run `backscroll doctor`.")
        start = row[3] + place
        return self._piece(row)[start : start + size]

    def _piece(self, row: _Lies) -> bytes:
        """The record and what lies behind it."""
        _, block, start, length, behind, data = row
        return data if block is None else self._block(block)[start : start + length + behind]

    def _block(self, key: int) -> bytes:
        whole = self._blocks.get(key) or self._store.packing.unpacked(key)
        if whole is None:
            row = self._store.row("select data from blocks where key = ?", key)
            if row is None:
                raise Unreadable(f"Block {key} of the records is missing; run `backscroll doctor`.")
            # Here, so that a command that meets no block need not load it.
            from zstandard import ZstdError

            from store.conversations.record_blocks import unpacked

            try:
                whole = unpacked(row[0])
            except ZstdError:
                raise Unreadable(f"Block {key} of the records is damaged; run `backscroll doctor`.") from None
            if len(whole) > BLOCK_BYTES_CACHED:
                return whole
            self._blocks[key] = whole
            while len(self._blocks) > BLOCKS_CACHED:
                self._blocks.popitem(last=False)
        return whole
