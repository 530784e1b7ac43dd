"""The quick index: the words of sessions that are not read yet, so that they can be found at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from store.conversations.derive import prompt_title
from store.sources.contract import QuickSession
from store.text.unicode import separate_cjk
from store.text.validate import replace_surrogates, utc_timestamp

if TYPE_CHECKING:
    pass

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


_SELECT_INSERTED = "select key, native_id from sessions where key > ?"
"""Asked for all together: each to be told by its own insert would take four times as long."""


_INSERT_TEXT = "insert into skims_fts (rowid, text) values (?, ?)"


_CLEAR_QUICK_FIELDS = """
    update sessions set first_prompt = '', model = '', turns = 0, parent_id = null, relation = null
    where key = ? and head is null
"""


_HAS_UNREAD = "select exists (select 1 from sessions where depth = 'text')"


_HAS_TEXT = "select exists (select 1 from skims_fts_data where id > 10)"


def insert_rows(
    store: Store, sights: Sequence[QuickIndexRow], source: str, source_key: int, public_id: Callable[[str], str]
) -> set[str]:
    """Gives the native ids of those that are new. One that is there already is left as it is."""
    if not sights:
        return set()
    texts = {sight.native_id: sight.text for sight in sights}
    rows = ({**sight.row(public_id), "source": source, "source_key": source_key} for sight in sights)
    with store.transaction(durable=False) as connection:
        (last,) = connection.execute(_SELECT_LAST_KEY).fetchone()
        connection.executemany(_INSERT_SESSION, rows)
        new = connection.execute(_SELECT_INSERTED, (last,)).fetchall()
        connection.executemany(_INSERT_TEXT, ((key, texts[native_id]) for key, native_id in new))
    return {native_id for _, native_id in new}


def clear_quick_fields(store: Store, session: int) -> None:
    """What is read tells itself what was only seen."""
    store.connection.execute(_CLEAR_QUICK_FIELDS, (session,))


def clear_index_if_unused(store: Store) -> None:
    """When nothing is left that is found by them."""
    ((left,), (kept,)) = store.row(_HAS_UNREAD), store.row(_HAS_TEXT)
    if kept and not left:
        _clear_index(store)


def clear_index_if_unread(store: Store, session: int) -> None:
    """With the words of all others, if it was never read: who could take its own out has them no more."""
    if store.row("select 1 from sessions where key = ? and depth = 'text'", session):
        _clear_index(store)


def _clear_index(store: Store) -> None:
    with store.transaction(durable=False) as connection:
        connection.execute("insert into skims_fts (skims_fts) values ('delete-all')")


class QuickIndexRow:
    """A session as it was skimmed, in the columns that it is kept in."""

    __slots__ = ("fields", "native_id", "text")

    def __init__(self, skim: QuickSession) -> None:
        self.native_id = skim.native_id
        self.text = separate_cjk(replace_surrogates("\n\n".join([*skim.prompts, *skim.answers])))
        first = next(filter(str.strip, skim.prompts), "")
        at = skim.fields.get("updated_at") or utc_timestamp()
        self.fields: dict[str, Any] = {
            "parent_id": None,
            "relation": None,
            "agent_title": "",
            "provider": "",
            "model": "",
            "cwd": "",
            "created_at": at,
            "updated_at": at,
            "first_prompt": replace_surrogates(prompt_title(first)),
            "turns": len(skim.prompts),
            **skim.fields,
        }

    def row(self, public_id: Callable[[str], str]) -> dict[str, Any]:
        parent = self.fields["parent_id"]
        named = {"id": public_id(self.native_id), "native_id": self.native_id}
        return self.fields | named | {"parent_id": public_id(parent) if parent else None}
