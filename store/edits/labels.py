"""This module looks up labels that a person understands for facts and edits: titles and turns instead of keys."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from store.model.knowledge import Change, Edit, EditLabels, Fact, FactOrigin
from store.model.session import strip_markdown
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

MAX_LABEL_CHARS = 500
"""The longest label, for example of the message in which a fact was learnt."""

MAX_SESSIONS_NAMED = 5

_TITLE_SQL = f"""
    substr(own_title, 1, {MAX_LABEL_CHARS}),
    substr(coalesce(nullif(agent_title, ''), nullif(first_prompt, ''), sessions.id), 1, {MAX_LABEL_CHARS})
"""
"""Selects a person's own title, and the one that is shown if there is none."""

_SELECT_FACT_ORIGINS = f"""
    select facts.id, sessions.id, {_TITLE_SQL}, entries.turn, substr(entries.text, 1, {MAX_LABEL_CHARS})
    from facts join sessions on sessions.key = facts.session
    left join entries on entries.session = facts.session and entries.seq = facts.entry_seq
    where facts.id in (select value from json_each(?))
"""
_SELECT_MEMBERS = """
    select team_facts.fact, iif(team_machines.machine = team.machine, '', team_machines.name),
        exists (select 1 from team_conflicts where team_conflicts.name = team_values.name)
    from team_facts join team_values on team_values.name = 'fact:' || team_facts.name and share = ''
        join team_machines on team_machines.machine = team_values.moment ->> 2 join team on team.id = 1
    where team_facts.fact in (select value from json_each(?))
"""
_SELECT_FACT_TEXTS = (
    f"select id, substr(text, 1, {MAX_LABEL_CHARS}) from facts where id in (select value from json_each(?))"
)
_SELECT_ROW_TEXTS = f"""
    select 'fact_proposals', id, substr(text, 1, {MAX_LABEL_CHARS}) from fact_proposals
    where id in (select value from json_each(?1))
    union all select 'leaks', fingerprint, rule from leaks where fingerprint in (select value from json_each(?1))
"""
_SELECT_SUMMARY_TEXTS = "select key, text from summaries where key in (select value from json_each(?))"
_SELECT_TITLES = f"select id, {_TITLE_SQL} from sessions where id in (select value from json_each(?))"


def find_fact_origins(store: Store, facts: Collection[Fact]) -> dict[int, FactOrigin]:
    """Return the origin of each fact, by the id of the fact."""
    ids = encode([fact.id for fact in facts]).decode()
    origins = {
        fact_id: FactOrigin(session, own_title or strip_markdown(title), turn, text or "")
        for fact_id, session, own_title, title, turn, text in store.rows(_SELECT_FACT_ORIGINS, ids)
    }
    members = {fact_id: (name, bool(is_disputed)) for fact_id, name, is_disputed in store.rows(_SELECT_MEMBERS, ids)}
    found = {}
    for fact in facts:
        member, is_disputed = members.get(fact.id, ("", False))
        found[fact.id] = origins.get(fact.id, FactOrigin())._replace(
            program=_find_program_label(fact), member=member, is_disputed=is_disputed
        )
    return found


def find_titles(store: Store, session_ids: Iterable[str]) -> dict[str, str]:
    rows = store.rows(_SELECT_TITLES, encode(list(session_ids)).decode())
    return {session: own_title or strip_markdown(title) for session, own_title, title in rows}


def _find_program_label(fact: Fact) -> str:
    """Return the name of the program that a fact was read from, or an empty string."""
    from store import sources

    name = fact.foreign_place.partition(":")[0]
    return sources.source_label(name)


def label_edit(store: Store, edit: Edit) -> EditLabels:
    """Return the labels of one edit, with the texts of its summaries, which the edit itself does not contain."""
    keys = [change.key for change in edit.changes if change.table == "summaries"]
    return label_edits(store, [edit])._replace(summaries=dict(store.rows(_SELECT_SUMMARY_TEXTS, encode(keys).decode())))


def label_edits(store: Store, edits: Collection[Edit]) -> EditLabels:
    """Return the labels of edits. They name only a few sessions per edit, which may have changed thousands."""
    sessions = {session_id for edit in edits for session_id in edit.session_ids[:MAX_SESSIONS_NAMED]}
    changes = [change for edit in edits for change in edit.changes]
    facts = {change.key for change in changes if change.table == "facts"}
    facts |= {_get_shared_fact(change) for change in changes if change.table == "memory_audiences"}
    keys = {change.key for change in changes if change.table in ("fact_proposals", "leaks")}
    fact_texts = store.rows(_SELECT_FACT_TEXTS, encode(list(facts)).decode())
    row_texts = store.rows(_SELECT_ROW_TEXTS, encode(list(keys)).decode()) if keys else []
    rows = {(table, key): text for table, key, text in row_texts}
    return EditLabels(find_titles(store, sessions), dict(fact_texts), rows)


def _get_shared_fact(change: Change) -> int:
    """Return the fact whose audience was changed."""
    return int((change.after or change.before or {}).get("fact") or 0)
