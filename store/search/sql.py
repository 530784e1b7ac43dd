"""A query as conditions in SQL: on sessions, on the entries that hold its words, on tool calls. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from os.path import expanduser
from typing import Any, NamedTuple

from store.search.query import Filter, Group, Query, Term, day_of

LIVE = timedelta(minutes=2)
"""A session whose source changed so lately is taken to be going on."""

EXPIRING = timedelta(days=7)
"""A session that its agent will delete within this time is told apart."""

ANYWHERE = (0, 2**62)

LONGEST_IN_TITLE = 5_000
"""Characters: no title has a longer word, and SQLite takes no longer pattern."""

_TITLE = " or ".join(f"sessions.{name} like ? escape '!'" for name in ("own_title", "agent_title", "id"))
_WILD = re.compile("[%_!]")
_SPOKEN = """sessions.key in (select session from entries where key in
    (select rowid from conversation_fts where conversation_fts match ?) and {})"""
_SKIMMED = """sessions.key in (select rowid from skims_fts where skims_fts match ?
    and rowid in (select key from sessions where depth = 'text'))"""
_BEGINS, _CONTAINS = "instr(lower({}), lower(?)) = 1", "instr(lower({}), lower(?)) > 0"
_EXACTLY = "lower({}) = lower(?)"

HAVING = {
    "secret": "select session from secrets where current = 1 union select session from foreign_secrets",
    "summary": "select session from summaries where current = 1",
    "note": "select session from notes",
}
_STATES = {
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

    def within(self, frame: str) -> Condition:
        """Wherever the frame has a {0}."""
        return Condition(frame.format(self.sql), self.values * frame.count("{0}"))


def all_of(conditions: Iterable[Condition]) -> Condition:
    return _joined(" and ", conditions)


def any_of(conditions: Iterable[Condition]) -> Condition:
    return _joined(" or ", conditions)


def _joined(word: str, conditions: Iterable[Condition]) -> Condition:
    given = list(conditions)
    if not given:
        return Condition()
    return Condition(f"({word.join(one.sql for one in given)})", tuple(value for one in given for value in one.values))


def in_folder(table: str, folder: str) -> Condition:
    """In it or below; anywhere when it is empty."""
    if not folder:
        return Condition()
    below = folder.rstrip("/") + "/"
    return Condition(f"({table}.cwd = ? or substr({table}.cwd, 1, ?) = ?)", (folder, len(below), below))


# ── filters ───────────────────────────────────────────────────────────────────────────────────────

_TEXTS = {
    "agent": ("sessions.source", _BEGINS, "{0}"),
    "model": ("sessions.model", _CONTAINS, "{0}"),
    "cwd": ("sessions.cwd", _CONTAINS, "{0}"),
    "tag": ("name", _BEGINS, "sessions.key in (select session from tags where {0})"),
    "tool": ("name", _BEGINS, "exists (select 1 from tool_calls where tool_calls.session = sessions.key and {0})"),
    "role": ("entries.role", _EXACTLY, "{0}"),
}
"""The column of each, how it is compared unless it is meant exactly, and what holds the comparison."""

_OF_A_CALL = """entries.key in (select entry from tool_calls where {0}
    union all select result_entry from tool_calls where {0})"""


class _Level:
    """What the filters mean for sessions; entries and calls mean some of them more closely."""

    at = "sessions.updated_at"
    texts: Mapping[str, tuple[str, str, str]] = _TEXTS
    states: Mapping[str, str] = _STATES

    def __init__(self, now: datetime) -> None:
        self._now = now

    def filter(self, given: Filter) -> Condition:
        found = self._filter(given)
        return found.within("not ({0})") if given.negated else found

    def _filter(self, given: Filter) -> Condition:
        match given.name:
            case "is" if given.value == "live":
                return Condition(self.states["live"], (stamp(self._now - LIVE),))
            case "is" if given.value == "expiring":
                return Condition(self.states["expiring"], (stamp(self._now + EXPIRING),))
            case "is":
                return Condition(self.states[given.value])
            case "within":
                return in_folder("sessions", given.value)
            case "has":
                return Condition(f"sessions.key in ({HAVING[given.value]})")
            case "before" | "after":
                day = day_of(given.value, self._now)
                return Condition(f"{self.at} {'<' if given.name == 'before' else '>='} ?", (stamp(day or self._now),))
        column, compared, frame = self.texts[given.name]
        value = expanduser(given.value) if given.name == "cwd" else given.value
        return Condition((_EXACTLY if given.exact else compared).format(column), (value,)).within(frame)

    def group(self, group: Group, term: Callable[[Term], Condition]) -> Condition:
        return any_of(self.filter(one) if isinstance(one, Filter) else term(one) for one in group)


class _Entries(_Level):
    at = "entries.created_at"
    texts = _TEXTS | {"tool": ("name", _BEGINS, _OF_A_CALL)}
    states = _STATES | {"error": _OF_A_CALL.format("status = 'error'")}


class _Calls(_Level):
    at = "coalesce(asked.created_at, answered.created_at)"
    texts = _TEXTS | {
        "tool": ("tool_calls.name", _BEGINS, "{0}"),
        "role": ("coalesce(asked.role, answered.role)", _EXACTLY, "{0}"),
    }
    states = _STATES | {"error": "tool_calls.status = 'error'"}


# ── conditions ────────────────────────────────────────────────────────────────────────────────────


def on_sessions(query: Query, now: datetime) -> Condition:
    """The words in a title or in one message of the conversation, and every filter."""
    besides = besides_words(query, now)
    if not query.words:
        return besides
    ways = []
    if titled := in_title(query):
        ways.append(titled)
    if match := query.fts():
        spoken = on_speakers(query, now)
        ways.append(Condition(_SPOKEN.format(spoken.sql), (match, *spoken.values)))
        ways += skimmed(query)
    return all_of([besides, any_of(ways) if ways else Condition("0")])


def skimmed(query: Query) -> list[Condition]:
    """The words among those of a session that was not read yet; who said them is not known then."""
    match = query.fts()
    return [Condition(_SKIMMED, (match,))] if match and not any(map(_speaks_of_roles, query.groups)) else []


def besides_words(query: Query, now: datetime) -> Condition:
    """All that a session must be, whatever was said in it."""
    level = _Level(now)
    rest = [group for group in query.groups if group not in query.words and not _speaks_of_roles(group)]
    return all_of(level.group(group, _in_session) for group in rest)


def in_title(query: Query) -> Condition | None:
    """All the words; None where somebody asks who spoke, and so not for titles."""
    if any(map(_speaks_of_roles, query.groups)):
        return None
    return all_of(any_of(_titled(one) for one in group) for group in query.words)


def _titled(term: Term) -> Condition:
    """In the person's title, the agent's, or the id."""
    if len(term.text) > LONGEST_IN_TITLE:
        return Condition("0")
    pattern = _WILD.sub(r"!\g<0>", term.text)
    return Condition(f"({_TITLE})", (f"%{pattern}%",) * 3)


def on_speakers(query: Query, now: datetime) -> Condition:
    """On the entries that hold the words: who may have said them."""
    level = _Level(now)
    return all_of(level.group(group, _nowhere) for group in query.groups if _speaks_of_roles(group))


def on_entries(query: Query, table: str, now: datetime) -> Condition:
    """Besides the words, which that full-text table is asked for."""
    level = _Entries(now)

    def term(one: Term) -> Condition:
        found = Condition(f"entries.key in (select rowid from {table} where {table} match ?)", (one.fts(),))
        return found.within("not {0}") if one.negated else found

    return all_of(level.group(group, term) for group in query.groups if group not in query.words)


def on_calls(query: Query, now: datetime, within: tuple[int, int] = ANYWHERE) -> Condition:
    """Each word in the call or in its result, and every filter; the entries lie within, from first to last."""
    level = _Calls(now)
    return all_of(level.group(group, lambda term: _in_call(term, within)) for group in query.groups)


def _in_session(term: Term) -> Condition:
    ways = [_titled(term)]
    if term.indexed:
        ways += [Condition(_SPOKEN.format(1), (term.fts(),)), Condition(_SKIMMED, (term.fts(),))]
    found = any_of(ways)
    return found.within("not {0}") if term.negated else found


def _in_call(term: Term, within: tuple[int, int]) -> Condition:
    """A word that the index cannot know stands in no call; one that is only begun might be any."""
    if not term.indexed:
        return Condition("1" if term.negated or term.begun else "0")
    held = "coalesce({} in (select rowid from tools_fts where tools_fts match ? and rowid between ? and ?), 0)"
    found = any_of(
        Condition(held.format(f"tool_calls.{side}"), (term.fts(), *within)) for side in ("entry", "result_entry")
    )
    return found.within("not {0}") if term.negated else found


def _nowhere(_: Term) -> Condition:
    return Condition("0")


def _speaks_of_roles(group: Group) -> bool:
    return any(isinstance(one, Filter) and one.name == "role" for one in group)


def stamp(at: datetime) -> str:
    """As times are kept."""
    return at.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
