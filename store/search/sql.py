"""This module turns a query into SQL conditions on sessions, entries and tool calls. It is pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from os.path import expanduser
from typing import Any, NamedTuple

from store.model.status import CLOCK_TOLERANCE, PROCESS_WINDOW, WAITING_WINDOW, WORKING_WINDOW
from store.search.query import Days, Filter, Hour, OrGroup, Query, Term, parse_date, parse_days, parse_hour
from store.text.validate import encode

LIVE_WINDOW = timedelta(minutes=2)
"""A session that changed within this time counts as running."""

EXPIRING_WINDOW = timedelta(days=7)
"""A session that its agent will delete within this time counts as expiring."""

ALL_ENTRIES = (0, 2**62)

MAX_TITLE_TERM_CHARS = 5_000
"""The longest term that is searched for in titles. SQLite accepts no longer pattern."""

_TITLE_LIKE = " or ".join(f"sessions.{name} like ? escape '!'" for name in ("own_title", "agent_title", "id"))
_LIKE_WILDCARDS = re.compile("[%_!]")
_NOTE_LIKE = "notes.text like ? escape '!'"
_SESSION_HAS_NOTE = "sessions.key in (select session from notes where {0})"
_SESSION_CONTAINS_WORDS = """sessions.key in (select session from entries where key in
    (select rowid from conversation_fts where conversation_fts match ?) and {})"""
# The cross joins force SQLite to start with the index, as in the search of conversations.
TOOL_MATCHES = """tools_fts cross join entries on entries.key = tools_fts.rowid
    cross join sessions on sessions.key = entries.session
    where tools_fts match ? and sessions.relation is not 'superseded' and {0}"""
"""Selects from the entries whose tool calls or results have the words."""

# The plus keeps SQLite from searching the index once for every session that is not read yet, which takes minutes.
_QUICK_INDEX_CONTAINS_WORDS = """sessions.key in (select rowid from skims_fts where skims_fts match ?
    and +rowid in (select key from sessions where depth = 'text'))"""
_STARTS_WITH, _CONTAINS = "instr(lower({}), lower(?)) = 1", "instr(lower({}), lower(?)) > 0"
_EQUALS = "lower({}) = lower(?)"

SESSIONS_HAVING = {
    "secret": "select session from secrets where current = 1 union select session from foreign_secrets",
    "summary": "select session from summaries where current = 1",
    "note": "select session from notes",
}
# The first two values are the times between which any active session has changed. The index of the newest sessions
# finds them, so that old sessions are not looked at.
_IS_ACTIVE = """sessions.updated_at between ? and ? and sessions.gone = 0 and sessions.activity = '{}'
    and (sessions.process is not null or sessions.updated_at >= ?)"""
_STATE_SQL = {
    "error": "(sessions.errors > 0 or sessions.activity = 'failed')",
    "pinned": "sessions.pinned = 1",
    "archived": "sessions.archived = 1",
    "trashed": "sessions.deleted = 1",
    "shared": "sessions.id in (select session from team_shares where session is not null and ended_at is null)",
    "disputed": "sessions.id in (select session from team_shares join team_conflicts on share = team_shares.id)",
    "fork": "sessions.relation is 'fork'",
    "delegate": "coalesce(sessions.relation, '') in ('delegate', 'sidechain')",
    "live": "sessions.updated_at between ? and ? and sessions.gone = 0",
    "working": _IS_ACTIVE.format("working"),
    "waiting": _IS_ACTIVE.format("waiting"),
    "ended": "sessions.activity in ('ended', 'failed')",
    "idle": f"sessions.activity not in ('ended', 'failed') and not ({_IS_ACTIVE.format('working')}) "
    f"and not ({_IS_ACTIVE.format('waiting')})",
    "gone": "sessions.gone = 1",
    "expiring": "sessions.expires_at != '' and sessions.expires_at < ? and sessions.gone = 0",
}


class Condition(NamedTuple):
    """Holds a piece of SQL and its values."""

    sql: str = "1"
    values: tuple[Any, ...] = ()

    def embed_in(self, template: str) -> Condition:
        """Return the template with this condition in place of each {0}."""
        return Condition(template.format(self.sql), self.values * template.count("{0}"))


NOT_DELETED = Condition("sessions.deleted = 0")
# A set from a small index instead of the column: the index of the newest sessions does not have it, and reading all
# rows takes long.
NOT_ARCHIVED = Condition("sessions.key not in (select key from sessions where archived = 1)")


def all_of(conditions: Iterable[Condition]) -> Condition:
    return _join_conditions(" and ", conditions)


def any_of(conditions: Iterable[Condition]) -> Condition:
    return _join_conditions(" or ", conditions)


def _join_conditions(operator: str, conditions: Iterable[Condition]) -> Condition:
    conditions = list(conditions)
    if not conditions:
        return Condition()
    sql = operator.join(condition.sql for condition in conditions)
    return Condition(f"({sql})", tuple(value for condition in conditions for value in condition.values))


def build_folder_condition(table: str, folder: str) -> Condition:
    """Match sessions in the folder or below it. An empty folder matches all of them."""
    if not folder:
        return Condition()
    prefix = folder.rstrip("/") + "/"
    return Condition(f"({table}.cwd = ? or substr({table}.cwd, 1, ?) = ?)", (folder, len(prefix), prefix))


# ── filters ───────────────────────────────────────────────────────────────────────────────────────

_SPEAKERS = """select 1 from (
        select sessions.user as name union all select entries.author from turns
        join entries on entries.key = turns.entry where turns.session = sessions.key
    )"""
"""Selects the user of a session and the authors of its prompts, because several people can speak in a room."""

_CHANNELS = "select 1 from (select sessions.channel as name union all select sessions.channel_id)"
_MODELS = """select 1 from (
        select sessions.model as name union all select usage_models.model from usage_models
        where key in (select usage.model from usage where usage.session = sessions.key)
    )"""
"""Selects the last model of a session and all that answered in it."""

_SHARED = """sessions.id in (select session from team_shares
    join team_machines on team_machines.machine = substr(team_shares.id, 1, instr(team_shares.id, '/') - 1)
    where ended_at is null and {0})"""
"""Selects the sessions that members of a team share, one's own as well."""

_TEXT_FILTERS = {
    "agent": ("sessions.source", _STARTS_WITH, "{0}"),
    "model": ("name", _CONTAINS, f"exists ({_MODELS} where {{0}})"),
    "cwd": ("sessions.cwd", _CONTAINS, "{0}"),
    "user": ("name", _CONTAINS, f"exists ({_SPEAKERS} where {{0}})"),
    "channel": ("name", _STARTS_WITH, f"exists ({_CHANNELS} where {{0}})"),
    "owner": ("team_machines.name", _STARTS_WITH, _SHARED),
    "machine": ("team_machines.machine", _STARTS_WITH, _SHARED),
    "tag": ("name", _STARTS_WITH, "sessions.key in (select session from tags where {0})"),
    "tool": ("name", _STARTS_WITH, "exists (select 1 from tool_calls where tool_calls.session = sessions.key and {0})"),
    "role": ("entries.role", _EQUALS, "{0}"),
}
"""Maps each filter to its column, to the comparison for values that are not exact, and to a template around it."""

_ENTRY_OF_TOOL_CALL = """entries.key in (select entry from tool_calls where {0}
    union all select result_entry from tool_calls where {0})"""
_ENTRY_OF_FAILED_CALL = _ENTRY_OF_TOOL_CALL.format("status = 'error'")


_HAS_TURN_IN = """exists (select 1 from turns
    where turns.session = sessions.key and turns.started_at < ? and turns.ended_at >= ?)"""


def _build_hour_comparison(moment: str, hour: Hour) -> Condition:
    """Compare a moment with an hour of local time. SQLite counts weekdays from Sunday."""
    if hour.weekday is None:
        return Condition(f"strftime('%H', {moment}, 'localtime') = ?", (f"{hour.hour:02}",))
    return Condition(f"strftime('%w %H', {moment}, 'localtime') = ?", (f"{(hour.weekday + 1) % 7} {hour.hour:02}",))


class _SessionFilters:
    """Translates filters for sessions. The subclasses translate some filters for entries and tool calls."""

    time_column = "sessions.updated_at"
    text_filters: Mapping[str, tuple[str, str, str]] = _TEXT_FILTERS
    state_sql: Mapping[str, str] = _STATE_SQL

    def __init__(self, now: datetime) -> None:
        self._now = now

    def build_filter(self, atom: Filter) -> Condition:
        condition = self._build_positive_filter(atom)
        return condition.embed_in("not ({0})") if atom.negated else condition

    def _build_positive_filter(self, atom: Filter) -> Condition:
        match atom.name:
            case "is" if atom.value == "live":
                window = (self._now - LIVE_WINDOW, self._now + LIVE_WINDOW)
                return Condition(self.state_sql["live"], tuple(map(format_timestamp, window)))
            case "is" if atom.value in ("working", "waiting", "idle"):
                return Condition(self.state_sql[atom.value], self._active_times(atom.value))
            case "is" if atom.value == "expiring":
                return Condition(self.state_sql["expiring"], (format_timestamp(self._now + EXPIRING_WINDOW),))
            case "is":
                return Condition(self.state_sql[atom.value])
            case "within":
                return build_folder_condition("sessions", atom.value)
            case "has":
                return Condition(f"sessions.key in ({SESSIONS_HAVING[atom.value]})")
            case "before" | "after":
                moment = parse_date(atom.value, self._now)
                return Condition(
                    f"{self.time_column} {'<' if atom.name == 'before' else '>='} ?",
                    (format_timestamp(moment or self._now),),
                )
            case "day":
                days = parse_days(atom.value, self._now)
                return self._build_days_condition(days) if days else Condition("0")
            case "hour":
                hour = parse_hour(atom.value)
                return self._build_hour_condition(hour) if hour else Condition("0")
        column, comparison, template = self.text_filters[atom.name]
        value = expanduser(atom.value) if atom.name == "cwd" else atom.value
        return Condition((_EQUALS if atom.exact else comparison).format(column), (value,)).embed_in(template)

    def _build_days_condition(self, days: Days) -> Condition:
        """Match sessions with a turn in these days."""
        return Condition(_HAS_TURN_IN, (format_timestamp(days.end), format_timestamp(days.start)))

    def _build_hour_condition(self, hour: Hour) -> Condition:
        """Match sessions with a turn that began in this hour, or with a response in it."""
        return any_of(
            _build_hour_comparison(moment, hour).embed_in(template)
            for moment, template in (
                ("turns.started_at", "sessions.key in (select session from turns where {0})"),
                ("usage.at, 'unixepoch'", "sessions.key in (select session from usage where {0})"),
            )
        )

    def _active_times(self, status: str) -> tuple[str, ...]:
        """Return the times in the condition of a status. An idle session neither works nor waits."""
        windows = {"working": WORKING_WINDOW, "waiting": WAITING_WINDOW}
        moments = [
            moment
            for name, window in windows.items()
            if status in (name, "idle")
            for moment in (self._now - PROCESS_WINDOW, self._now + CLOCK_TOLERANCE, self._now - window)
        ]
        return tuple(map(format_timestamp, moments))

    def build_group(self, group: OrGroup, build_term: Callable[[Term], Condition]) -> Condition:
        return any_of(self.build_filter(atom) if isinstance(atom, Filter) else build_term(atom) for atom in group)


class _MomentFilters(_SessionFilters):
    """Translates filters for what has a time of its own."""

    def _build_days_condition(self, days: Days) -> Condition:
        sql = f"{self.time_column} >= ? and {self.time_column} < ?"
        return Condition(f"({sql})", (format_timestamp(days.start), format_timestamp(days.end)))

    def _build_hour_condition(self, hour: Hour) -> Condition:
        return _build_hour_comparison(self.time_column, hour)


class _EntryFilters(_MomentFilters):
    time_column = "entries.created_at"
    text_filters = _TEXT_FILTERS | {"tool": ("name", _STARTS_WITH, _ENTRY_OF_TOOL_CALL)}
    state_sql = _STATE_SQL | {"error": f"(sessions.activity = 'failed' or {_ENTRY_OF_FAILED_CALL})"}


class _ToolCallFilters(_MomentFilters):
    time_column = "coalesce(asked.created_at, answered.created_at)"
    text_filters = _TEXT_FILTERS | {
        "tool": ("tool_calls.name", _STARTS_WITH, "{0}"),
        "role": ("coalesce(asked.role, answered.role)", _EQUALS, "{0}"),
    }
    state_sql = _STATE_SQL | {"error": "tool_calls.status = 'error'"}


# ── conditions ────────────────────────────────────────────────────────────────────────────────────


def build_session_condition(query: Query, now: datetime, title_keys: Sequence[int] | None = None) -> Condition:
    """Match sessions that have all words in the title, in one message or in one note, and that match every filter.

    Pass the sessions with a matching title if they are known. Then SQLite looks up the sessions that match, instead of
    trying all of them.
    """
    filters = build_session_filter_condition(query, now)
    if not query.word_groups:
        return filters
    alternatives = []
    if title_keys is None and (title := build_title_condition(query)):
        alternatives.append(title)
    if match := query.fts():
        role = build_role_condition(query, now)
        alternatives.append(Condition(_SESSION_CONTAINS_WORDS.format(role.sql), (match, *role.values)))
        alternatives += build_quick_index_conditions(query)
        alternatives += [note.embed_in(_SESSION_HAS_NOTE) for note in build_note_conditions(query)]
    if title_keys is not None:
        return all_of([filters, _match_keys_or(title_keys, alternatives)])
    return all_of([filters, any_of(alternatives) if alternatives else Condition("0")])


def _match_keys_or(keys: Sequence[int], alternatives: Iterable[Condition]) -> Condition:
    """Match these sessions, and those that match one of the alternatives."""
    found = Condition("select value from json_each(?)", (encode(list(keys)).decode(),))
    selects = [found, *(part.embed_in("select sessions.key from sessions where {0}") for part in alternatives)]
    return _join_conditions(" union all ", selects).embed_in("sessions.key in {0}")


def build_tool_match_condition(query: Query, now: datetime) -> Condition:
    """Match the entries of tool calls and results, and their sessions, by everything but the words to search for."""
    return all_of([build_session_filter_condition(query, now), build_entry_condition(query, "tools_fts", now)])


def build_anywhere_condition(query: Query, now: datetime) -> Condition:
    """Match the sessions that the list shows for a query: also those that have all words only in tool calls."""
    condition = build_session_condition(query, now)
    if not (match := query.fts()):
        return condition
    tools = build_tool_match_condition(query, now).embed_in(
        f"sessions.key in (select sessions.key from {TOOL_MATCHES})"
    )
    return any_of([condition, Condition(tools.sql, (match, *tools.values))])


def build_listed_condition(query: Query) -> Condition:
    """Match the sessions that are neither in the trash nor archived, unless the query asks for them."""
    hidden = [] if query.shows_trash else [NOT_DELETED]
    return all_of([*hidden, NOT_ARCHIVED] if query.hides_archived else hidden)


def build_quick_index_conditions(query: Query) -> list[Condition]:
    """Match sessions whose words are only in the quick index. It does not know roles, so `role:` matches nothing."""
    match = query.fts()
    return (
        [Condition(_QUICK_INDEX_CONTAINS_WORDS, (match,))]
        if match and not any(map(_has_role_filter, query.groups))
        else []
    )


def build_session_filter_condition(query: Query, now: datetime) -> Condition:
    """Match the filters and the excluded words of a query, but not the words to search for."""
    filters = _SessionFilters(now)
    groups = [group for group in query.groups if group not in query.word_groups and not _has_role_filter(group)]
    return all_of(filters.build_group(group, _build_session_term_condition) for group in groups)


def build_title_condition(query: Query) -> Condition | None:
    """Match sessions that have all words in the title. Return None for a query with `role:`; a title has no role."""
    if any(map(_has_role_filter, query.groups)):
        return None
    return all_of(any_of(_build_title_term_condition(term) for term in group) for group in query.word_groups)


def _build_title_term_condition(term: Term) -> Condition:
    """Match a term in the title that a person gave, in the agent's title, or in the id."""
    return _build_like_condition(_TITLE_LIKE, term)


def build_note_conditions(query: Query) -> list[Condition]:
    """Match notes that have all words. There are none for a query with `role:`, or without words to search for.

    People write few notes, so they are searched without an index.
    """
    if not query.fts() or any(map(_has_role_filter, query.groups)):
        return []
    return [all_of(any_of(_build_like_condition(_NOTE_LIKE, term) for term in group) for group in query.word_groups)]


def _build_like_condition(sql: str, term: Term) -> Condition:
    if len(term.text) > MAX_TITLE_TERM_CHARS:
        return Condition("0")
    pattern = _LIKE_WILDCARDS.sub(r"!\g<0>", term.text)
    return Condition(f"({sql})", (f"%{pattern}%",) * sql.count("?"))


def build_role_condition(query: Query, now: datetime) -> Condition:
    """Match entries by the `role:` filters of a query."""
    filters = _SessionFilters(now)
    return all_of(filters.build_group(group, _match_nothing) for group in query.groups if _has_role_filter(group))


def build_entry_condition(query: Query, table: str, now: datetime) -> Condition:
    """Match entries by everything but the words to search for. The caller matches those with the FTS table."""
    filters = _EntryFilters(now)

    def build_term(term: Term) -> Condition:
        condition = Condition(f"entries.key in (select rowid from {table} where {table} match ?)", (term.fts(),))
        return condition.embed_in("not {0}") if term.negated else condition

    return all_of(filters.build_group(group, build_term) for group in query.groups if group not in query.word_groups)


def build_tool_call_condition(query: Query, now: datetime, entry_range: tuple[int, int] = ALL_ENTRIES) -> Condition:
    """Match calls that have each word in the call or in its result, and that match every filter.

    `entry_range` limits the keys of the entries that are searched for words.
    """
    filters = _ToolCallFilters(now)
    return all_of(
        filters.build_group(group, lambda term: _build_tool_call_term_condition(term, entry_range))
        for group in query.groups
    )


def _build_session_term_condition(term: Term) -> Condition:
    alternatives = [_build_title_term_condition(term)]
    if term.is_indexed:
        alternatives += [
            Condition(_SESSION_CONTAINS_WORDS.format(1), (term.fts(),)),
            Condition(_QUICK_INDEX_CONTAINS_WORDS, (term.fts(),)),
            _build_like_condition(_NOTE_LIKE, term).embed_in(_SESSION_HAS_NOTE),
        ]
    condition = any_of(alternatives)
    return condition.embed_in("not {0}") if term.negated else condition


def _build_tool_call_term_condition(term: Term, entry_range: tuple[int, int]) -> Condition:
    """Match calls with a term. A single typed letter matches every call; other terms without letters match none."""
    if not term.is_indexed:
        return Condition("1" if term.negated or term.is_first_letter else "0")
    is_in_index = "coalesce({} in (select rowid from tools_fts where tools_fts match ? and rowid between ? and ?), 0)"
    condition = any_of(
        Condition(is_in_index.format(f"tool_calls.{column}"), (term.fts(), *entry_range))
        for column in ("entry", "result_entry")
    )
    return condition.embed_in("not {0}") if term.negated else condition


def _match_nothing(_: Term) -> Condition:
    return Condition("0")


def _has_role_filter(group: OrGroup) -> bool:
    return any(isinstance(atom, Filter) and atom.name == "role" for atom in group)


def format_timestamp(moment: datetime) -> str:
    """Return a time as the database stores it."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
