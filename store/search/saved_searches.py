"""This module keeps searches: those that a person has named, in the store, and the last ones, in a private file.

`@name` in a query is replaced by the text of the search with that name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from store.errors import BadValue, NotFound
from store.paths import read_small_file, recent_searches_file, replace_private_file
from store.text.validate import utc_timestamp, validate_text

if TYPE_CHECKING:
    from store.store import Store

KEY_PREFIX = "saved search "
"""Begins the keys of saved searches in the table `meta`."""

MAX_NAME_CHARS = 40
MAX_SAVED_CHARS = 2_000
MAX_RECENT = 50
MAX_RECENT_CHARS = 200
"""A longer query is not kept as a recent one. It was probably pasted, and may contain private text."""

NAME_RULE = f"A name has at most {MAX_NAME_CHARS} letters, digits, dots, - or _, and no blanks."

_NAME = re.compile(rf"\w[\w.-]{{0,{MAX_NAME_CHARS - 1}}}")
_UNFINISHED_REFERENCE = re.compile(r"(?<!\S)@([\w.-]*)$")
_REFERENCE = re.compile(r"(?<!\S)@(\w[\w.-]*)(?!\S)")


class SavedSearch(NamedTuple):
    name: str
    query: str
    pinned: bool = False
    "Is true if the top bar of the browser shows it."


def expand_saved_searches(text: str, searches: Iterable[SavedSearch], *, is_typing: bool = False) -> str:
    """Replace each `@name` by the text of the search with that name. An unknown name stays as it is.

    While a person is typing, the beginning of a name at the end is left out.
    """
    if "@" not in text:
        return text
    by_name = {search.name.casefold(): search.query for search in searches}
    text = _leave_out_unfinished(text, by_name) if is_typing else text
    return _REFERENCE.sub(lambda reference: by_name.get(reference[1].casefold(), reference[0]), text)


def _leave_out_unfinished(text: str, names: Collection[str]) -> str:
    """Return the query without a reference at its end that is only the beginning of a name."""
    unfinished = _UNFINISHED_REFERENCE.search(text)
    start = unfinished[1].casefold() if unfinished else ""
    is_beginning = start not in names and any(name.startswith(start) for name in names)
    return text[: unfinished.start()] if unfinished and is_beginning else text


def find_unknown_names(text: str, searches: Iterable[SavedSearch], *, is_typing: bool = False) -> list[str]:
    """Return the names in a query that belong to no saved search.

    While a person is typing, the beginning of a name at the end may still become one.
    """
    if "@" not in text:
        return []
    known = {search.name.casefold() for search in searches}
    text = _leave_out_unfinished(text, known) if is_typing else text
    return [name for name in _REFERENCE.findall(text) if name.casefold() not in known]


def read_searches(read_rows: Callable[..., list[Any]]) -> list[SavedSearch]:
    """Return all saved searches, sorted by name. The function runs SQL on a store that may be open for reading only."""
    first, end = KEY_PREFIX, KEY_PREFIX[:-1] + chr(ord(KEY_PREFIX[-1]) + 1)
    rows = read_rows("select key, value from meta where key >= ? and key < ?", first, end)
    return sorted(read_search(key, value) for key, value in rows)


class SavedSearches:
    """Reads and edits the searches that a person has named. This is the collection `store.saved_searches`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list_searches(self) -> list[SavedSearch]:
        """Return all saved searches, sorted by name."""
        return read_searches(self._store.rows)

    def get(self, name: str) -> SavedSearch:
        """Return the search with this name, in upper or lower case."""
        wanted = name.removeprefix("@").casefold()
        found = next((search for search in self.list_searches() if search.name.casefold() == wanted), None)
        if found is None:
            raise NotFound(f"No saved search is named {name!r}. Run `backscroll searches` to list them.")
        return found

    def save(self, name: str, query: str) -> SavedSearch:
        """Save a query under a name. A search that has the name already gets the new query."""
        name = _validate_name(name)
        query = expand_saved_searches(validate_text(query, "query").strip(), self.list_searches())
        if not query:
            raise BadValue("The search is empty. Type something to search for first.")
        if len(query) > MAX_SAVED_CHARS:
            raise BadValue(f"The search is longer than {MAX_SAVED_CHARS:,} characters. Shorten it.")
        with suppress(NotFound):
            return self._write("save search", self.get(name)._replace(query=query))
        return self._write("save search", SavedSearch(name, query))

    def pin(self, name: str, pinned: bool = True) -> SavedSearch:
        """Show a search in the top bar of the browser, or remove it from there."""
        return self._write("pin search" if pinned else "unpin search", self.get(name)._replace(pinned=pinned))

    def rename(self, name: str, new_name: str) -> SavedSearch:
        search, new_name = self.get(name), _validate_name(new_name)
        if new_name.casefold() in {other.name.casefold() for other in self.list_searches() if other != search}:
            raise BadValue(f"There is a search named {new_name!r} already. Choose another name.")
        renamed = search._replace(name=new_name)
        if renamed != search:
            with self._store.journal.edit("rename search") as edit:
                edit.delete("meta", KEY_PREFIX + search.name)
                edit.insert("meta", **_to_row(renamed))
        return renamed

    def delete(self, names: Sequence[str]) -> None:
        searches = dict.fromkeys(map(self.get, names))
        with self._store.journal.edit("delete search") as edit:
            for search in searches:
                edit.delete("meta", KEY_PREFIX + search.name)

    def _write(self, kind: str, search: SavedSearch) -> SavedSearch:
        row = _to_row(search)
        with self._store.journal.edit(kind) as edit:
            before = self._store.row("select value from meta where key = ?", row["key"])
            if before is None:
                edit.insert("meta", **row)
            elif before[0] != row["value"]:
                edit.update("meta", row["key"], value=row["value"], updated_at=row["updated_at"])
        return search


def _validate_name(name: str) -> str:
    name = validate_text(name, "name").strip().removeprefix("@")
    if not _NAME.fullmatch(name):
        raise BadValue(NAME_RULE)
    return name


def _to_row(search: SavedSearch) -> dict[str, str]:
    value = json.dumps({"query": search.query, "pinned": search.pinned}, ensure_ascii=False)
    return {"key": KEY_PREFIX + search.name, "value": value, "updated_at": utc_timestamp()}


def read_search(key: str, value: str) -> SavedSearch:
    """Return the search in a row. Another program may have written the row, so any value is accepted."""
    try:
        content = json.loads(value)
    except ValueError:
        content = value
    fields = content if isinstance(content, dict) else {"query": value}
    return SavedSearch(key.removeprefix(KEY_PREFIX), str(fields.get("query", "")), fields.get("pinned") is True)


# ── recent searches ───────────────────────────────────────────────────────────────────────────────


class RecentSearches:
    """Keeps the last searches of the browser, the newest first, in a file that only its owner can read."""

    def list_queries(self) -> list[str]:
        try:
            content = json.loads(read_small_file(recent_searches_file()))
        except (OSError, ValueError):
            return []
        return list(_keep_valid(content if isinstance(content, list) else []))

    def add(self, query: str) -> None:
        """Put a query first. A long one is left out."""
        self._write(_keep_valid([query.strip(), *self.list_queries()]))

    def remove(self, query: str) -> None:
        self._write(other for other in self.list_queries() if other != query)

    def clear(self) -> None:
        with suppress(OSError):
            recent_searches_file().unlink(missing_ok=True)

    def _write(self, queries: Iterable[str]) -> None:
        """Write the file. An error is ignored, because a lost query should not interrupt anyone."""
        with suppress(OSError):
            replace_private_file(recent_searches_file(), json.dumps(list(queries)).encode())


def _keep_valid(queries: Iterable[object]) -> Iterator[str]:
    kept = dict.fromkeys(
        query for query in queries if isinstance(query, str) and query and len(query) <= MAX_RECENT_CHARS
    )
    return iter(list(kept)[:MAX_RECENT])
