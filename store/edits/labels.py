"""Where a fact or an edit comes from, in words that a person knows: titles and turns rather than keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from store.model.knowledge import Edit, Fact, Names, Origin
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

SAID = 500
"""Characters of what was said where a fact was learnt."""

NAMED = 5

_TITLE = "coalesce(nullif(own_title, ''), nullif(agent_title, ''), nullif(first_prompt, ''), sessions.id)"
_OF_FACTS = f"""
    select facts.id, sessions.id, substr({_TITLE}, 1, {SAID}), entries.turn, substr(entries.text, 1, {SAID})
    from facts join sessions on sessions.key = facts.session
    left join entries on entries.session = facts.session and entries.seq = facts.entry_seq
    where facts.id in (select value from json_each(?))
"""
_FACTS = f"select id, substr(text, 1, {SAID}) from facts where id in (select value from json_each(?))"
_SUMMARIES = "select key, text from summaries where key in (select value from json_each(?))"
_TITLES = f"select id, substr({_TITLE}, 1, {SAID}) from sessions where id in (select value from json_each(?))"


def of_facts(store: Store, facts: Collection[Fact]) -> dict[int, Origin]:
    """By the number of the fact."""
    numbers = encode([fact.id for fact in facts]).decode()
    taught = {
        number: Origin(session, title, turn, said or "")
        for number, session, title, turn, said in store.rows(_OF_FACTS, numbers)
    }
    return {fact.id: taught.get(fact.id, Origin())._replace(program=_program(fact)) for fact in facts}


def titles(store: Store, session_ids: Iterable[str]) -> dict[str, str]:
    return dict(store.rows(_TITLES, encode(list(session_ids)).decode()))


def _program(fact: Fact) -> str:
    """By the name that people call it."""
    from store import sources

    name = fact.foreign_place.partition(":")[0]
    source = sources.by_name(name) if name else None
    return source.LABEL if source else name


def of_edit(store: Store, edit: Edit) -> Names:
    """With the texts of the summaries it put in each other's place, which an edit itself does not repeat."""
    keys = [change.key for change in edit.changes if change.table == "summaries"]
    return of_edits(store, [edit])._replace(summaries=dict(store.rows(_SUMMARIES, encode(keys).decode())))


def of_edits(store: Store, edits: Collection[Edit]) -> Names:
    """Only the first few sessions of an edit are named: it may have touched thousands."""
    sessions = {name for edit in edits for name in edit.session_ids[:NAMED]}
    facts = {change.key for edit in edits for change in edit.changes if change.table == "facts"}
    rows = store.rows(_FACTS, encode(list(facts)).decode())
    return Names(titles(store, sessions), dict(rows))
