"""A query as conditions in SQL: on sessions, on the entries that hold its words, on tool calls. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from os.path import expanduser
from typing import Any, NamedTuple

from store.search.query import Filter, OrGroup, Query, Term, parse_date

LIVE_WINDOW = timedelta(minutes=2)
"""A session whose source changed so lately is taken to be going on."""

EXPIRING_WINDOW = timedelta(days=7)
"""A session that its agent will delete within this time is told apart."""

ALL_ENTRIES = (0, 2**62)

MAX_TITLE_TERM_CHARS = 5_000
"""Characters: no title has a longer word, and SQLite takes no longer pattern."""

_TITLE_LIKE = " or ".join(f"sessions.{name} like ? escape '!'" for name in ("own_title", "agent_title", "id"))
_LIKE_WILDCARDS = re.compile("[%_!]")
_SESSION_CONTAINS_WORDS = """sessions.key in (select session from entries where key in
    (select rowid from conversation_fts where conversation_fts match ?) and {})"""
_QUICK_INDEX_CONTAINS_WORDS = """sessions.key in (select rowid from skims_fts where skims_fts match ?
    and rowid in (select key from sessions where depth = 'text'))"""
_STARTS_WITH, _CONTAINS = "instr(lower({}), lower(?)) = 1", "instr(lower({}), lower(?)) > 0"
_EQUALS = "lower({}) = lower(?)"

SESSIONS_HAVING = {
    "secret": "select session from secrets where current = 1 union select session from foreign_secrets",
    "summary": "select session from summaries where current = 1",
    "note": "select session from notes",
}
_STATE_SQL = {
    "error": "sessions.errors > 0",
    "pinned": "sessions.pinned = 1",
    "archived": "sessions.archived = 1",
    "fork": "sessions.relation is 'fork'",
    "delegate": "coalesce(sessions.relation, '') in ('delegate', 'sidechain')",
    "live": "sessions.updated_at >= ? and sessions.gone = 0",
    "gone": "sessions.gone = 1",
    "expiring": "sessions.expires_at != '' and sessions.expires_at < ? and sessions.gone = 0",
}


class Condition(NamedTuple):
    sql: str = "1"
    values: tuple[Any, ...] = ()

    def embed_in(self, frame: str) -> Condition:
        """Wherever the frame has a {0}."""
        return Condition(frame.format(self.sql), self.values * frame.count("{0}"))


def all_of(conditions: Iterable[Condition]) -> Condition:
    return _join_conditions(" and ", conditions)


def any_of(conditions: Iterable[Condition]) -> Condition:
    return _join_conditions(" or ", conditions)


def _join_conditions(word: str, conditions: Iterable[Condition]) -> Condition:
    given = list(conditions)
    if not given:
        return Condition()
    return Condition(f"({word.join(one.sql for one in given)})", tuple(value for one in given for value in one.values))


def build_folder_condition(table: str, folder: str) -> Condition:
    """In it or below; anywhere when it is empty."""
    if not folder:
        return Condition()
    below = folder.rstrip("/") + "/"
    return Condition(f"({table}.cwd = ? or substr({table}.cwd, 1, ?) = ?)", (folder, len(below), below))


# ── filters ───────────────────────────────────────────────────────────────────────────────────────

_TEXT_FILTERS = {
    "agent": ("sessions.source", _STARTS_WITH, "{0}"),
    "model": ("sessions.model", _CONTAINS, "{0}"),
    "cwd": ("sessions.cwd", _CONTAINS, "{0}"),
    "tag": ("name", _STARTS_WITH, "sessions.key in (select session from tags where {0})"),
    "tool": ("name", _STARTS_WITH, "exists (select 1 from tool_calls where tool_calls.session = sessions.key and {0})"),
    "role": ("entries.role", _EQUALS, "{0}"),
}
"""The column of each, how it is compared unless it is meant exactly, and what holds the comparison."""

_ENTRY_OF_TOOL_CALL = """entries.key in (select entry from tool_calls where {0}
    union all select result_entry from tool_calls where {0})"""


class _SessionFilters:
    """What the filters mean for sessions; entries and calls mean some of them more closely."""

    time_column = "sessions.updated_at"
    text_filters: Mapping[str, tuple[str, str, str]] = _TEXT_FILTERS
    state_sql: Mapping[str, str] = _STATE_SQL

    def __init__(self, now: datetime) -> None:
        self._now = now

    def build_filter(self, given: Filter) -> Condition:
        found = self._build_positive_filter(given)
        return found.embed_in("not ({0})") if given.negated else found

    def _build_positive_filter(self, given: Filter) -> Condition:
        match given.name:
            case "is" if given.value == "live":
                return Condition(self.state_sql["live"], (format_timestamp(self._now - LIVE_WINDOW),))
            case "is" if given.value == "expiring":
                return Condition(self.state_sql["expiring"], (format_timestamp(self._now + EXPIRING_WINDOW),))
            case "is":
                return Condition(self.state_sql[given.value])
            case "within":
                return build_folder_condition("sessions", given.value)
            case "has":
                return Condition(f"sessions.key in ({SESSIONS_HAVING[given.value]})")
            case "before" | "after":
                day = parse_date(given.value, self._now)
                return Condition(
                    f"{self.time_column} {'<' if given.name == 'before' else '>='} ?",
                    (format_timestamp(day or self._now),),
                )
        column, compared, frame = self.text_filters[given.name]
        value = expanduser(given.value) if given.name == "cwd" else given.value
        return Condition((_EQUALS if given.exact else compared).format(column), (value,)).embed_in(frame)

    def build_group(self, group: OrGroup, term: Callable[[Term], Condition]) -> Condition:
        return any_of(self.build_filter(one) if isinstance(one, Filter) else term(one) for one in group)


class _EntryFilters(_SessionFilters):
    time_column = "entries.created_at"
    text_filters = _TEXT_FILTERS | {"tool": ("name", _STARTS_WITH, _ENTRY_OF_TOOL_CALL)}
    state_sql = _STATE_SQL | {"error": _ENTRY_OF_TOOL_CALL.format("status = 'error'")}


class _ToolCallFilters(_SessionFilters):
    time_column = "coalesce(asked.created_at, answered.created_at)"
    text_filters = _TEXT_FILTERS | {
        "tool": ("tool_calls.name", _STARTS_WITH, "{0}"),
        "role": ("coalesce(asked.role, answered.role)", _EQUALS, "{0}"),
    }
    state_sql = _STATE_SQL | {"error": "tool_calls.status = 'error'"}


# ── conditions ────────────────────────────────────────────────────────────────────────────────────


def build_session_condition(query: Query, now: datetime) -> Condition:
    """The words in a title or in one message of the conversation, and every filter."""
    besides = build_session_filter_condition(query, now)
    if not query.word_groups:
        return besides
    ways = []
    if titled := build_title_condition(query):
        ways.append(titled)
    if match := query.fts():
        spoken = build_role_condition(query, now)
        ways.append(Condition(_SESSION_CONTAINS_WORDS.format(spoken.sql), (match, *spoken.values)))
        ways += build_quick_index_conditions(query)
    return all_of([besides, any_of(ways) if ways else Condition("0")])


def build_quick_index_conditions(query: Query) -> list[Condition]:
    """The words among those of a session that was not read yet; who said them is not known then."""
    match = query.fts()
    return (
        [Condition(_QUICK_INDEX_CONTAINS_WORDS, (match,))]
        if match and not any(map(_has_role_filter, query.groups))
        else []
    )


def build_session_filter_condition(query: Query, now: datetime) -> Condition:
    """All that a session must be, whatever was said in it."""
    level = _SessionFilters(now)
    rest = [group for group in query.groups if group not in query.word_groups and not _has_role_filter(group)]
    return all_of(level.build_group(group, _build_session_term_condition) for group in rest)


def build_title_condition(query: Query) -> Condition | None:
    """All the words; None where somebody asks who spoke, and so not for titles."""
    if any(map(_has_role_filter, query.groups)):
        return None
    return all_of(any_of(_build_title_term_condition(one) for one in group) for group in query.word_groups)


def _build_title_term_condition(term: Term) -> Condition:
    """In the person's title, the agent's, or the id."""
    if len(term.text) > MAX_TITLE_TERM_CHARS:
        return Condition("0")
    pattern = _LIKE_WILDCARDS.sub(r"!\g<0>", term.text)
    return Condition(f"({_TITLE_LIKE})", (f"%{pattern}%",) * 3)


def build_role_condition(query: Query, now: datetime) -> Condition:
    """On the entries that hold the words: who may have said them."""
    level = _SessionFilters(now)
    return all_of(level.build_group(group, _match_nothing) for group in query.groups if _has_role_filter(group))


def build_entry_condition(query: Query, table: str, now: datetime) -> Condition:
    """Besides the words, which that full-text table is asked for."""
    level = _EntryFilters(now)

    def term(one: Term) -> Condition:
        found = Condition(f"entries.key in (select rowid from {table} where {table} match ?)", (one.fts(),))
        return found.embed_in("not {0}") if one.negated else found

    return all_of(level.build_group(group, term) for group in query.groups if group not in query.word_groups)


def build_tool_call_condition(query: Query, now: datetime, entry_range: tuple[int, int] = ALL_ENTRIES) -> Condition:
    """Each word in the call or in its result, and every filter; the entries lie within, from first to last."""
    level = _ToolCallFilters(now)
    return all_of(
        level.build_group(group, lambda term: _build_tool_call_term_condition(term, entry_range))
        for group in query.groups
    )


def _build_session_term_condition(term: Term) -> Condition:
    ways = [_build_title_term_condition(term)]
    if term.is_indexed:
        ways += [
            Condition(_SESSION_CONTAINS_WORDS.format(1), (term.fts(),)),
            Condition(_QUICK_INDEX_CONTAINS_WORDS, (term.fts(),)),
        ]
    found = any_of(ways)
    return found.embed_in("not {0}") if term.negated else found


def _build_tool_call_term_condition(term: Term, within: tuple[int, int]) -> Condition:
    """A word that the index cannot know stands in no call; one that is only begun might be any."""
    if not term.is_indexed:
        return Condition("1" if term.negated or term.is_first_letter else "0")
    held = "coalesce({} in (select rowid from tools_fts where tools_fts match ? and rowid between ? and ?), 0)"
    found = any_of(
        Condition(held.format(f"tool_calls.{side}"), (term.fts(), *within)) for side in ("entry", "result_entry")
    )
    return found.embed_in("not {0}") if term.negated else found


def _match_nothing(_: Term) -> Condition:
    return Condition("0")


def _has_role_filter(group: OrGroup) -> bool:
    return any(isinstance(one, Filter) and one.name == "role" for one in group)


def format_timestamp(at: datetime) -> str:
    """As times are kept."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
