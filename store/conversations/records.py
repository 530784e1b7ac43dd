"""This module stores and reads the records of agents byte for byte.

Records of small appends are stored loose, in their own rows. Larger amounts are compressed together in blocks, which
takes a third less space than compressing each record alone. New blocks are compressed quickly. They are packed, which
means compressed again and better, when there is time for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from store.conversations.derive import compute_digest
from store.conversations.parts import is_reference
from store.errors import Damaged, NotFound
from store.model.entry import NewRecord
from store.text.validate import decode, encode

if TYPE_CHECKING:
    from store.conversations.record_blocks import PendingBlocks, PrebuiltBlock
    from store.store import Store

MAX_LOOSE_BYTES = 256 * 1024
"""Is the size from which the loose records of a session are moved into a block."""

MAX_CACHED_BLOCKS = 8
MAX_CACHED_BLOCK_BYTES = 4_000_000
"""Is the largest size that is cached. A larger block holds a single large record, which its reader keeps anyway."""

_SELECT_RECORD = "select key, block, start, length, behind, data from records"
_SELECT_HEADER_RECORD = """
    select records.key, coalesce(places.name, records.place), records.position, records.digest
    from entries join records on records.key = entries.record and records.session = entries.session
        left join places on places.key = records.place_key
    where entries.session = ? and entries.seq = -1 and records.position != ''
"""
_IS_SHARED = "select 1 from entries where session = ? and record = ? and seq >= 0 limit 1"
_IS_REDACTED = "select 1 from redacted_places where record = ?1 and ?2 in (original, redacted) limit 1"
_COPY_RECORD = """
    insert into records (session, place, place_key, position, digest, length, behind, block, start, data)
    select session, place, place_key, position, digest, length, behind, block, start, data from records where key = ?
"""
_REPLACE_RECORD = "update records set digest = ?, length = ?, block = null, start = null, data = ? where key = ?"
HEADER_VERSIONS = """
    select key from records where (session, coalesce(place_key, 0), position) in (
        select records.session, coalesce(records.place_key, 0), records.position
        from entries join records on records.key = entries.record and records.session = entries.session
        where entries.seq = -1 and records.position != '' and {only entries.session}
    )
"""
"""Selects the records of headers and their older versions, which have the same place and position."""
_LAST_BLOCK = "select coalesce((select seq from sqlite_sequence where name = 'blocks'), 0)"
_INSERT_BLOCK = "insert into blocks (key, data) values (?, ?)"
_SELECT_UNPACKED = "select key, data from blocks where packed = 0 order by key limit 1"
_STORE_PACKED = "update blocks set data = ?, packed = 1 where key = ?"
_STORE_LOOSE = "update records set block = null, start = null, data = ? where key = ?"
_SESSIONS_TO_PACK = """
    select session from records where data is not null and session in
        (select session from records where key in (select value from json_each(?)))
    group by session having sum(length + behind) >= ?
"""
_SELECT_BLOCKS_OF = """
    select distinct block from records where block is not null and key in (select value from json_each(?))
"""
_REPLACE_DATA = """
    update records set digest = ?, length = ?, behind = ?, block = null, start = null, data = ? where key = ?
"""
_INSERT_PLACE = "insert into places (name) values (?)"
_DELETE_UNUSED_PLACES = """
    delete from places where key in (select value from json_each(?))
        and key not in (select place_key from records where place_key is not null)
"""


class _RecordRow(NamedTuple):
    """Holds the columns of `_SELECT_RECORD`."""

    key: int
    block: int | None
    "Is None for a loose record."
    start: int
    length: int
    behind: int
    "Is the length of the parts that are stored behind the record."
    data: bytes
    "Holds a loose record and its parts."


class Records:
    """Is the collection of the records of all sessions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._block_cache: OrderedDict[int, bytes] = OrderedDict()

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def open_pending_blocks(self) -> PendingBlocks:
        """Return the pending blocks of this thread's transaction, ready for new records.

        The transaction holds the write lock, so that no other one uses the same keys.
        """
        pending = self._store.pending_blocks
        if not pending:
            (last_key,) = self._store.connection.execute(_LAST_BLOCK).fetchone()
            pending.start_at(last_key + 1)
        return pending

    def add_block(self, block: PrebuiltBlock) -> None:
        """Add a block before its records. Other batches may have records in it, even if one of them fails."""
        self.open_pending_blocks().add_prebuilt(block)

    def write_pending(self) -> None:
        """Write the pending blocks before the transaction commits.

        Records that are too small for a block become loose.
        """
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
        """Insert the pending blocks, and return the records that are too small for a block."""
        blocks, loose = self._store.pending_blocks.drain()
        self._store.connection.executemany(_INSERT_BLOCK, blocks)
        return loose

    def pack_loose_records(self, session: int) -> None:
        """Move the session's loose records into blocks."""
        with self._store.transaction() as connection:
            loose = connection.execute(
                "select key, data from records where session = ? and data is not null order by key",
                (session,),
            ).fetchall()
            self._move_to_blocks(loose)

    def _move_to_blocks(self, records: Sequence[tuple[int, bytes]]) -> None:
        add_record = self.open_pending_blocks().add_record
        self._store.connection.executemany(
            "update records set block = ?, start = ?, data = null where key = ?",
            [(*add_record(key, data), key) for key, data in records],
        )

    def pack_next_block(self) -> bool:
        """Pack the oldest block that is not packed yet, and return False if there is none.

        The block is compressed before the short transaction that stores it. Meanwhile it may be deleted, but is never
        changed, and its key is not used again.
        """
        row = self._store.row(_SELECT_UNPACKED)
        if row is None:
            return False
        from zstandard import ZstdError

        from store.conversations.record_blocks import pack_block

        key, data = row
        with suppress(ZstdError):  # a damaged block stays as it is, and reading it reports the damage
            data = min(pack_block(data), data, key=len)
        with self._store.transaction(durable=False) as connection:
            connection.execute(_STORE_PACKED, (data, key))
        return True

    def delete_unused(self, session: int) -> None:
        """Delete the session's records that no entry refers to, during a purge. Blocks are rewritten without them.

        There is no index from records to entries, nor from blocks to records: it would slow down every import, and only
        a purge would use it. A scan of the entries is enough here.
        """
        connection = self._store.connection
        select_unused = """
            select key, block, place_key from records where session = ?1 and key not in (
                select record from entries where record in (select key from records where session = ?1)
            )
        """
        unused = connection.execute(select_unused, (session,)).fetchall()
        blocks = {block for _, block, _ in unused if block is not None}
        self._rewrite_blocks(blocks, {key for key, *_ in unused})
        connection.executemany("delete from records where key = ?", [(key,) for key, *_ in unused])
        places = sorted({place for *_, place in unused if place is not None})
        connection.execute(_DELETE_UNUSED_PLACES, (encode(places).decode(),))
        self._delete_blocks(blocks)

    def _rewrite_blocks(self, blocks: set[int], dropped: set[int]) -> None:
        """Move the records of these blocks into new blocks, without the dropped records."""
        keys = encode(sorted(blocks)).decode()
        rows = self._select(f"{_SELECT_RECORD} where block in (select value from json_each(?))", keys)
        for block in blocks:
            kept = [
                (row.key, self._read_with_parts(row)) for row in rows if row.block == block and row.key not in dropped
            ]
            if kept:
                self._move_to_blocks(kept)

    def replace_data(self, records: Mapping[int, tuple[bytes, int]]) -> None:
        """Replace the data of records, for a redaction: the data with the parts behind it, and its length without them.

        The blocks of these records are written again, because a block never changes. The caller began a transaction.
        """
        connection = self._store.connection
        keys = encode([*records]).decode()
        found = connection.execute(_SELECT_BLOCKS_OF, (keys,)).fetchall()
        for key, (data, length) in records.items():
            digest, behind = compute_digest(data[:length]), len(data) - length
            connection.execute(_REPLACE_DATA, (digest, length, behind, data, key))
        blocks = {block for (block,) in found}
        self._rewrite_blocks(blocks, set())
        self._delete_blocks(blocks)
        for (session,) in connection.execute(_SESSIONS_TO_PACK, (keys, MAX_LOOSE_BYTES)).fetchall():
            self.pack_loose_records(session)

    def _delete_blocks(self, blocks: set[int]) -> None:
        self._store.connection.executemany("delete from blocks where key = ?", [(block,) for block in blocks])
        for block in blocks:
            self._block_cache.pop(block, None)

    def renew_header(self, session: int, record: NewRecord) -> None:
        """Follow the row that the header of a session was read from. The older version stays, as a record of its own.

        An entry keeps the key of its record. So the older version is copied under a new key, and the newer one takes
        its place. A record with another place or position is another row, and is not a newer version.
        """
        row = self._store.row(_SELECT_HEADER_RECORD, session)
        digest = compute_digest(record.data)
        if row is None or row[1:3] != (record.place, record.position) or row[3] == digest:
            return
        if self._store.row(_IS_REDACTED, row[0], digest):
            return  # the agent's store still has, or has again, what was redacted here
        old = self._find(row[0])
        if old is None or (old.block is not None and self._store.pending_blocks.read_block(old.block) is not None):
            return  # it was written by this very transaction
        if self._store.row(_IS_SHARED, session, old.key):
            return  # it is a line of a file, and a message too
        parts = self._read_with_parts(old)[old.length :]
        with self._store.transaction(durable=False) as connection:
            connection.execute(_COPY_RECORD, (old.key,))
            values = (digest, len(record.data), record.data + parts, old.key)
            connection.execute(_REPLACE_RECORD, values)

    def get_place_key(self, name: str) -> int:
        """Return the key of a path or table name, which is stored once for all its records."""
        connection = self._store.connection
        row = connection.execute("select key from places where name = ?", (name,)).fetchone()
        return int(row[0] if row else connection.execute(_INSERT_PLACE, (name,)).lastrowid or 0)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def get(self, key: int) -> bytes:
        row = self._find(key)
        if row is None:
            raise NotFound(f"No such record: {key}.")
        return self._read_with_parts(row)[: row.length]

    def read_whole(self, key: int) -> tuple[bytes, int] | None:
        """Return a record followed by the parts behind it, and the length of the record; None if there is none."""
        row = self._find(key)
        return None if row is None else (self._read_with_parts(row), row.length)

    def iter_session(self, session: int, first: int = -1) -> Iterator[tuple[int, bytes]]:
        """Yield the key and the data of every record of the session once, in the order of the chain.

        `first` is the seq at which to begin.
        """
        rows = self._select(
            f"""
            {_SELECT_RECORD} join (
                select record, min(seq) as seq from entries
                where session = ? and seq >= ? and record is not null group by record
            ) as chain on chain.record = records.key order by chain.seq
            """,
            session,
            first,
        )
        for row in rows:
            yield row.key, self._read_with_parts(row)[: row.length]

    def header_versions(self, session: int) -> list[bytes]:
        """Return the versions that the row of a session had before, oldest first. The header has the current one."""
        versions = HEADER_VERSIONS.replace("{only entries.session}", "entries.session = ?1")
        used = "select record from entries where session = ?1 and record is not null"
        rows = self._store.rows(f"{versions} and key not in ({used}) order by key", session)
        return [self.get(key) for (key,) in rows]

    def load_parts(self, column: bytes | None, record: int | None) -> bytes | None:
        """Return the JSON of an entry's parts: the column itself, or the bytes behind the record that it refers to.

        A reference is `[offset, size]`, or a list that begins with such a reference, followed by what is searched.
        """
        if column is None or record is None or not is_reference(column):
            return column
        first, *rest = decode(column)
        offset, size = first if isinstance(first, list) else (first, *rest)
        row = self._find(record)
        if row is None:
            raise Damaged(f"Record {record} is missing, with the parts of its entries.")
        start = row.length + offset
        return self._read_with_parts(row)[start : start + size]

    def _find(self, key: int) -> _RecordRow | None:
        row = self._store.row(f"{_SELECT_RECORD} where key = ?", key)
        return None if row is None else _RecordRow._make(row)

    def _select(self, sql: str, *values: int | str) -> list[_RecordRow]:
        return list(map(_RecordRow._make, self._store.rows(sql, *values)))

    def _read_with_parts(self, row: _RecordRow) -> bytes:
        """Return the record followed by the parts that are stored behind it."""
        if row.block is None:
            return row.data
        return self._load_block(row.block)[row.start : row.start + row.length + row.behind]

    def _load_block(self, key: int) -> bytes:
        data = self._block_cache.get(key) or self._store.pending_blocks.read_block(key)
        if data is None:
            row = self._store.row("select data from blocks where key = ?", key)
            if row is None:
                raise Damaged(f"Block {key} of the records is missing.")
            # Imported here, so that a command that reads no block does not load zstandard.
            from zstandard import ZstdError

            from store.conversations.record_blocks import decompress_block

            try:
                data = decompress_block(row[0])
            except ZstdError:
                raise Damaged(f"Block {key} of the records is damaged.") from None
            if len(data) > MAX_CACHED_BLOCK_BYTES:
                return data
            self._block_cache[key] = data
            while len(self._block_cache) > MAX_CACHED_BLOCKS:
                self._block_cache.popitem(last=False)
        return data
