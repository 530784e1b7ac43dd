"""This module writes the quick index: the words of sessions that are not read yet, so that a search finds them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from store.sources.contract import QuickSession
from store.text.titles import prompt_title
from store.text.unicode import separate_cjk
from store.text.validate import replace_surrogates, utc_timestamp

if TYPE_CHECKING:
    from store.store import Store

_SELECT_LAST_KEY = "select coalesce(max(key), 0) from sessions"
_INSERT_SESSION = """
    insert into sessions (id, source, source_key, native_id, parent_id, relation, agent_title, first_prompt, provider,
        model, cwd, turns, created_at, updated_at, depth)
    values (:id, :source, :source_key, :native_id, :parent_id, :relation, :agent_title, :first_prompt, :provider,
        :model, :cwd, :turns, :created_at, :updated_at, 'text')
    on conflict (id) do nothing
"""
# One query for all new keys is four times as fast as one `returning` clause per insert.
_SELECT_INSERTED = "select key, native_id from sessions where key > ?"
_INSERT_TEXT = "insert into skims_fts (rowid, text) values (?, ?)"
_CLEAR_QUICK_FIELDS = """
    update sessions set first_prompt = '', model = '', turns = 0, parent_id = null, relation = null
    where key = ? and head is null
"""
_HAS_UNREAD = "select exists (select 1 from sessions where depth = 'text')"
_HAS_TEXT = "select exists (select 1 from skims_fts_data where id > 10)"


def insert_rows(
    store: Store, rows: Sequence[QuickIndexRow], source: str, source_key: int, public_id: Callable[[str], str]
) -> set[str]:
    """Insert the sessions that the store does not have yet. Return the native ids of the new ones."""
    if not rows:
        return set()
    texts = {row.native_id: row.text for row in rows}
    columns = ({**row.columns(public_id), "source": source, "source_key": source_key} for row in rows)
    with store.transaction(durable=False) as connection:
        (last_key,) = connection.execute(_SELECT_LAST_KEY).fetchone()
        connection.executemany(_INSERT_SESSION, columns)
        inserted = connection.execute(_SELECT_INSERTED, (last_key,)).fetchall()
        connection.executemany(_INSERT_TEXT, ((key, texts[native_id]) for key, native_id in inserted))
    return {native_id for _, native_id in inserted}


def clear_quick_fields(store: Store, session: int) -> None:
    """Clear the fields that the quick scan filled in, before the session itself is read."""
    store.connection.execute(_CLEAR_QUICK_FIELDS, (session,))


def clear_index_if_unused(store: Store) -> None:
    """Clear the quick index once every session is read."""
    ((has_unread,), (has_text,)) = store.row(_HAS_UNREAD), store.row(_HAS_TEXT)
    if has_text and not has_unread:
        clear_index(store)


def clear_index_if_unread(store: Store, session: int) -> None:
    """Clear the whole quick index if the session was never read.

    Removing the words of one session would need its text, which is not stored.
    """
    if store.row("select 1 from sessions where key = ? and depth = 'text'", session):
        clear_index(store)


def clear_index(store: Store) -> None:
    """Clear the whole quick index. The words of sessions that are not read yet cannot be found until they are."""
    with store.transaction(durable=False) as connection:
        connection.execute("insert into skims_fts (skims_fts) values ('delete-all')")


class QuickIndexRow:
    """Holds a session of a quick scan as columns of the database."""

    __slots__ = ("fields", "native_id", "text")

    def __init__(self, session: QuickSession) -> None:
        self.native_id = session.native_id
        self.text = separate_cjk(replace_surrogates("\n\n".join([*session.prompts, *session.answers])))
        first_prompt = next(filter(str.strip, session.prompts), "")
        updated_at = session.fields.get("updated_at") or utc_timestamp()
        self.fields: dict[str, Any] = {
            "parent_id": None,
            "relation": None,
            "agent_title": "",
            "provider": "",
            "model": "",
            "cwd": "",
            "created_at": updated_at,
            "updated_at": updated_at,
            "first_prompt": replace_surrogates(prompt_title(first_prompt)),
            "turns": len(session.prompts),
            **session.fields,
        }

    def columns(self, public_id: Callable[[str], str]) -> dict[str, Any]:
        """Return the values of the columns. `public_id` turns a native id into the id of a session."""
        parent = self.fields["parent_id"]
        ids = {"id": public_id(self.native_id), "native_id": self.native_id}
        return self.fields | ids | {"parent_id": public_id(parent) if parent else None}
