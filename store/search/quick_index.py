"""The quick index: the words of sessions that are not read yet, so that they can be found at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from store.conversations.derive import shown_prompt
from store.sources.contract import Skim
from store.text.unicode import search_text
from store.text.validate import column_text, now

if TYPE_CHECKING:
    pass

if TYPE_CHECKING:
    from store.store import Store


_LAST = "select coalesce(max(key), 0) from sessions"


_INSERT = """
    insert into sessions (id, source, source_key, native_id, parent_id, relation, agent_title, first_prompt, provider,
        model, cwd, turns, created_at, updated_at, depth)
    values (:id, :source, :source_key, :native_id, :parent_id, :relation, :agent_title, :first_prompt, :provider,
        :model, :cwd, :turns, :created_at, :updated_at, 'text')
    on conflict (id) do nothing
"""


_INSERTED = "select key, native_id from sessions where key > ?"
"""Asked for all together: each to be told by its own insert would take four times as long."""


_INDEX = "insert into skims_fts (rowid, text) values (?, ?)"


_BEGIN = """
    update sessions set first_prompt = '', model = '', turns = 0, parent_id = null, relation = null
    where key = ? and head is null
"""


_LEFT = "select exists (select 1 from sessions where depth = 'text')"


_KEPT = "select exists (select 1 from skims_fts_data where id > 10)"


def keep(
    store: Store, sights: Sequence[Sight], source: str, source_key: int, public_id: Callable[[str], str]
) -> set[str]:
    """Gives the native ids of those that are new. One that is there already is left as it is."""
    if not sights:
        return set()
    texts = {sight.native_id: sight.text for sight in sights}
    rows = ({**sight.row(public_id), "source": source, "source_key": source_key} for sight in sights)
    with store.transaction(durable=False) as connection:
        (last,) = connection.execute(_LAST).fetchone()
        connection.executemany(_INSERT, rows)
        new = connection.execute(_INSERTED, (last,)).fetchall()
        connection.executemany(_INDEX, ((key, texts[native_id]) for key, native_id in new))
    return {native_id for _, native_id in new}


def begin_to_read(store: Store, session: int) -> None:
    """What is read tells itself what was only seen."""
    store.connection.execute(_BEGIN, (session,))


def forget_what_was_read(store: Store) -> None:
    """When nothing is left that is found by them."""
    ((left,), (kept,)) = store.row(_LEFT), store.row(_KEPT)
    if kept and not left:
        _forget(store)


def forget_unread(store: Store, session: int) -> None:
    """With the words of all others, if it was never read: who could take its own out has them no more."""
    if store.row("select 1 from sessions where key = ? and depth = 'text'", session):
        _forget(store)


def _forget(store: Store) -> None:
    with store.transaction(durable=False) as connection:
        connection.execute("insert into skims_fts (skims_fts) values ('delete-all')")


class Sight:
    """A session as it was skimmed, in the columns that it is kept in."""

    __slots__ = ("fields", "native_id", "text")

    def __init__(self, skim: Skim) -> None:
        self.native_id = skim.native_id
        self.text = search_text(column_text("\n\n".join([*skim.prompts, *skim.said])))
        first = next(filter(str.strip, skim.prompts), "")
        at = skim.fields.get("updated_at") or now()
        self.fields: dict[str, Any] = {
            "parent_id": None,
            "relation": None,
            "agent_title": "",
            "provider": "",
            "model": "",
            "cwd": "",
            "created_at": at,
            "updated_at": at,
            "first_prompt": column_text(shown_prompt(first)),
            "turns": len(skim.prompts),
            **skim.fields,
        }

    def row(self, public_id: Callable[[str], str]) -> dict[str, Any]:
        parent = self.fields["parent_id"]
        named = {"id": public_id(self.native_id), "native_id": self.native_id}
        return self.fields | named | {"parent_id": public_id(parent) if parent else None}
