"""This module finds values in every text of our own store, and rewrites texts with all that is derived from them.

Records are in compressed blocks, with the parts of their entries behind them. Entries, titles, the search index and
more are derived from them. All of it is rewritten in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from store.conversations.parts import is_reference
from store.conversations.record_blocks import decompress_block
from store.leaks.redaction.replacer import Replacer, Substitution, move_position
from store.text.json import decode, encode
from store.text.titles import prompt_title
from store.write_back.sqlite import quote_name

if TYPE_CHECKING:
    from store.search.hits import IndexRow
    from store.store import Store

_ROWS_PER_CHECK = 500

_SKIPPED_TABLES = frozenset(
    """
    _sqlite_migrations blocks leak_files leak_key leak_places leak_progress leaks purging redacted_places
    redacted_values redactions secrets tombstones usage usage_models vault
    """.split()
)
"""Have sealed values, fingerprints and numbers, or what a scan writes again."""

_NAMES = frozenset(
    {
        ("entries", "message_key"),
        ("facts", "foreign_place"),
        ("facts", "scope"),
        ("foreign_secrets", "place"),
        ("places", "name"),
        ("published", "path"),
        ("records", "place"),
        ("records", "position"),
        ("sessions", "id"),
        ("sessions", "native_id"),
        ("sessions", "parent_id"),
        ("sources", "locator"),
        ("tool_calls", "call_id"),
    }
)
"""Are columns by which rows and files are found. A value in them is reported, and is not replaced."""

IS_A_NAME = "It is part of a name by which other data is found."

_SELECT_COLUMNS = """
    select tables.name, columns.name, columns.type, columns.pk
    from pragma_table_list as tables, pragma_table_info(tables.name) as columns
    where tables.schema = 'main' and tables.type = 'table' and tables.name not like 'sqlite\\_%' escape '\\'
    order by tables.name, columns.cid
"""
_SELECT_RECORDS_IN = """
    select block, key, start, length, behind from records
    where block in (select value from json_each(?)) order by block
"""
_SELECT_LOOSE = "select key, length, data from records where data is not null"
_SELECT_ENTRIES_OF = """
    select key, session, record, parts from entries where record in (select value from json_each(?))
"""
_SELECT_TEXTS_OF = "select record, key, text, parts from entries where record in (select value from json_each(?))"
_SELECT_RECORDS_OF_ENTRIES = """
    select key, record from entries where key in (select value from json_each(?)) and record is not null
"""
_SELECT_SESSIONS_OF = """
    select session from entries where record in (select value from json_each(?1))
    union select session from entries where key in (select value from json_each(?2))
"""
_SELECT_RECORD_PLACES = """
    select entries.record, sessions.id, min(entries.seq)
    from entries join sessions on sessions.key = entries.session
    where entries.record in (select value from json_each(?)) and entries.session = sessions.key
    group by entries.record
"""
_OWNERS = {
    "entries": ("session", "entries.seq"),
    "facts": ("session", "facts.entry_seq"),
    "notes": ("session", "notes.entry_seq"),
    "sessions": ("key", "null"),
    "summaries": ("session", "null"),
}
"""Names the columns that say to which session and entry a row belongs."""

_SELECT_FIRST_TURN = """
    select sessions.key, sessions.first_prompt, entries.text
    from sessions join turns on turns.session = sessions.key and turns.n = 1 join entries on entries.key = turns.entry
    where sessions.key in (select value from json_each(?))
"""


class StoredText(NamedTuple):
    """Names the value of a column in one row."""

    table: str
    column: str
    key: tuple[tuple[str, int | str], ...]
    "Holds the columns of the row's key with their values."

    @property
    def condition(self) -> str:
        return " and ".join(f"{quote_name(name)} = ?" for name, _ in self.key)

    @property
    def values(self) -> list[int | str]:
        return [value for _, value in self.key]


class NewRecordData(NamedTuple):
    """Holds the new data of a record, followed by the parts behind it, and what was replaced in both."""

    data: bytes
    length: int
    old_length: int
    edits: Sequence[Substitution]


class FoundTexts(NamedTuple):
    """Holds where values were found in our store, and how often."""

    records: dict[int, int]
    "Counts the values in each record, without those in the parts behind it."
    texts: dict[StoredText, int]
    derived: dict[StoredText, int]
    "Holds the record of each of those texts that belong to entries which come from one."
    names: dict[StoredText, int]
    "Are found, but cannot be replaced."


class _Column(NamedTuple):
    name: str
    is_name: bool


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


def find_texts(store: Store, replacer: Replacer) -> FoundTexts:
    """Look for values in every text of the store."""
    found = FoundTexts(dict(_find_records(store, replacer)), {}, {}, {})
    for record, text, times in _find_derived(store, replacer, found.records):
        found.texts[text] = times
        found.derived[text] = record
    for table, keys, columns in _list_tables(store):
        for text, is_name, data in _read_texts(store, table, keys, columns, replacer):
            if text not in found.derived and (times := len(replacer.find(data))):
                (found.names if is_name else found.texts)[text] = times
    return found


def _find_records(store: Store, replacer: Replacer) -> Iterator[tuple[int, int]]:
    blocks: list[int] = []
    for (key,) in store.rows("select key from blocks order by key"):
        row = store.row("select data from blocks where key = ?", key)
        if row is not None and replacer.may_contain(_decompress(row[0])):
            blocks.append(key)
    rows = _iter_rows(store, _SELECT_RECORDS_IN, encode(blocks).decode())
    for block, records in groupby(rows, key=itemgetter(0)):
        (compressed,) = store.row("select data from blocks where key = ?", block)
        data = _decompress(compressed)
        for _, record, start, length, behind in records:
            yield from _count_in_record(record, data[start : start + length + behind], length, replacer)
    for record, length, data in _iter_rows(store, _SELECT_LOOSE):
        yield from _count_in_record(record, data, length, replacer)


def _find_derived(store: Store, replacer: Replacer, records: Iterable[int]) -> Iterator[tuple[int, StoredText, int]]:
    """Yield the texts of entries that come from records with values, and have them, too, each with its record."""
    for record, key, text, parts in _iter_rows(store, _SELECT_TEXTS_OF, encode([*records]).decode()):
        for column, value in (("text", text), ("parts", parts)):
            if value and (times := len(replacer.find(to_bytes(value), is_derived=True))):
                yield record, StoredText("entries", column, (("key", key),)), times


def _iter_rows(store: Store, sql: str, *values: Any) -> Iterator[Any]:
    """Yield rows without holding all of them."""
    cursor = store.connection.execute(sql, values)
    while rows := cursor.fetchmany(_ROWS_PER_CHECK):
        yield from rows


def _decompress(block: bytes) -> bytes:
    from zstandard import ZstdError

    try:
        return decompress_block(block)
    except ZstdError:  # `doctor` reports it
        return b""


def _count_in_record(record: int, data: bytes, length: int, replacer: Replacer) -> Iterator[tuple[int, int]]:
    if not replacer.may_contain(data):
        return
    if times := len(replacer.find(data[:length])) or len(replacer.find(data[length:])):
        yield record, times


def _list_tables(store: Store) -> Iterator[tuple[str, list[str], list[_Column]]]:
    """Yield each table with the columns of its key, and those that may hold a value."""
    tables: dict[str, list[tuple[str, str, int]]] = {}
    for table, *column in store.rows(_SELECT_COLUMNS):
        if table not in _SKIPPED_TABLES:
            tables.setdefault(table, []).append((column[0], column[1].lower(), column[2]))
    for table, columns in tables.items():
        keys = [name for name, _, position in sorted(columns, key=lambda column: column[2]) if position]
        yield (
            table,
            keys or ["rowid"],
            [
                _Column(name, bool(position) or (table, name) in _NAMES)
                for name, kind, position in columns
                if kind == "text" or (table, name) == ("entries", "parts")
            ],
        )


def _read_texts(
    store: Store, table: str, keys: Sequence[str], columns: Sequence[_Column], replacer: Replacer
) -> Iterator[tuple[StoredText, bool, bytes]]:
    """Yield the texts of a table in which a value may be, and whether each is a name."""
    if not columns:
        return
    names = map(quote_name, [*keys, *(column.name for column in columns)])
    sql = f"select {', '.join(names)} from {quote_name(table)}"
    cursor = store.connection.execute(sql)
    while rows := cursor.fetchmany(_ROWS_PER_CHECK):
        texts = [
            (StoredText(table, column.name, tuple(zip(keys, row, strict=False))), column.is_name, to_bytes(value))
            for row in rows
            for column, value in zip(columns, row[len(keys) :], strict=True)
            if value
        ]
        if replacer.may_contain(b"\0".join(data for *_, data in texts)):
            yield from (text for text in texts if replacer.may_contain(text[2]))


def locate_records(store: Store, records: Iterable[int]) -> dict[int, tuple[str, int]]:
    """Return the session and the seq of the first entry of each record."""
    rows = store.rows(_SELECT_RECORD_PLACES, encode([*records]).decode())
    return {record: (session_id, seq) for record, session_id, seq in rows}


def locate_text(store: Store, text: StoredText) -> tuple[str | None, int | None]:
    """Return the session of a text, and the seq of its entry; None if it has none."""
    if text.table not in _OWNERS:
        return None, None
    session, seq = _OWNERS[text.table]
    row = store.row(
        f"select owner.id, {seq} from {text.table} join sessions as owner on owner.key = {text.table}.{session}"
        f" where {' and '.join(f'{text.table}.{name} = ?' for name, _ in text.key)}",
        *text.values,
    )
    return (row[0], row[1]) if row else (None, None)


def find_owners(store: Store, texts: Iterable[StoredText]) -> dict[StoredText, int]:
    """Return the record from which each text of an entry was derived."""
    of_entries = [text for text in texts if text.table == "entries"]
    keys = {int(text.key[0][1]) for text in of_entries}
    owners = dict(_iter_rows(store, _SELECT_RECORDS_OF_ENTRIES, encode([*keys]).decode()))
    return {text: owners[key] for text in of_entries if (key := int(text.key[0][1])) in owners}


# ── reading and writing ───────────────────────────────────────────────────────────────────────────


def read_text(store: Store, text: StoredText) -> bytes | None:
    """Return a text as bytes, or None if its row is gone."""
    row = store.row(
        f"select {quote_name(text.column)} from {quote_name(text.table)} where {text.condition}", *text.values
    )
    return None if row is None or row[0] is None else to_bytes(row[0])


class TextWriter:
    """Writes new texts and records, with everything that is derived from them, in batches within one transaction."""

    def __init__(self, store: Store, records: Iterable[int], texts: Iterable[StoredText]) -> None:
        """The records and texts are all that are going to be written."""
        self._store = store
        edited = [int(text.key[0][1]) for text in texts if text.table == "entries"]
        sessions = store.rows(_SELECT_SESSIONS_OF, encode([*records]).decode(), encode(edited).decode())
        self._titled = _find_derived_titles(store, [session for (session,) in sessions])

    def write(self, texts: Mapping[StoredText, bytes], records: Mapping[int, NewRecordData]) -> None:
        """Write a batch. The texts that are derived from a record belong to its batch."""
        store = self._store
        edited = [int(text.key[0][1]) for text in texts if text.table == "entries"]
        keys = [*dict.fromkeys([*(entry for entry, *_ in _list_entries(store, records)), *edited])]
        old_rows = store.search.build_rows_of(keys)
        for text, data in texts.items():
            _update_text(store, text, data)
        if records:
            store.records.replace_data({key: (new.data, new.length) for key, new in records.items()})
            _move_references(store, _list_entries(store, records), records)
        _replace_index_rows(store, old_rows, store.search.build_rows_of(keys))

    def finish(self) -> None:
        """Make the titles again that are the beginnings of first prompts."""
        sql = "update sessions set first_prompt = ? where key = ?"
        for session, (_, prompt) in _read_first_prompts(self._store, self._titled).items():
            self._store.connection.execute(sql, (prompt_title(prompt), session))


def to_bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")


def _update_text(store: Store, text: StoredText, data: bytes) -> None:
    is_blob = (text.table, text.column) == ("entries", "parts")
    value = data if is_blob else data.decode("utf-8", "replace")
    sql = f"update {quote_name(text.table)} set {quote_name(text.column)} = ? where {text.condition}"
    store.connection.execute(sql, (value, *text.values))


def _list_entries(store: Store, records: Iterable[int]) -> list[tuple[int, int, int, bytes | None]]:
    """Return the key, session, record and parts of every entry of these records."""
    return store.rows(_SELECT_ENTRIES_OF, encode([*records]).decode())


def _move_references(
    store: Store, entries: Iterable[tuple[int, int, int, bytes | None]], records: Mapping[int, NewRecordData]
) -> None:
    """Let entries refer to where their parts are now."""
    for entry, _, record, parts in entries:
        if parts is None or not is_reference(parts):
            continue
        first, *rest = decode(parts)
        is_nested = isinstance(first, list)
        offset, size = first if is_nested else (first, *rest)
        new = records[record]
        start = move_position(new.old_length + offset, new.edits)
        end = move_position(new.old_length + offset + size, new.edits)
        reference = [start - new.length, end - start]
        column = encode([reference, *rest] if is_nested else reference)
        store.connection.execute("update entries set parts = ? where key = ?", (column, entry))


# ── the search index and titles ───────────────────────────────────────────────────────────────────


def _replace_index_rows(
    store: Store, old: tuple[list[IndexRow], list[IndexRow]], new: tuple[list[IndexRow], list[IndexRow]]
) -> None:
    """Delete the old texts from the search index, and queue the new ones."""
    unchanged = [set(before) & set(after) for before, after in zip(old, new, strict=True)]
    changed_old, changed_new = (
        [[row for row in rows if row not in same] for rows, same in zip(side, unchanged, strict=True)]
        for side in (old, new)
    )
    store.search.delete_rows(*changed_old)
    store.search.queue_rows(*changed_new)


def _find_derived_titles(store: Store, sessions: Sequence[int]) -> list[int]:
    """Return the sessions whose title is the beginning of their first prompt, which may end within a value."""
    prompts = _read_first_prompts(store, sessions)
    return [session for session, (title, prompt) in prompts.items() if title == prompt_title(prompt)]


def _read_first_prompts(store: Store, sessions: Sequence[int]) -> dict[int, tuple[str, str]]:
    rows = store.rows(_SELECT_FIRST_TURN, encode(sessions).decode())
    return {session: (title, prompt) for session, title, prompt in rows}
