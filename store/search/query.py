"""This module parses queries: the text that a person types into a search box.

It is pure. Every text is a valid query; parts that make no sense become warnings, never errors. The command line
refuses a query that gives a filter an unknown value.

upload retry              both words, in a title or in one message
"file was closed" clos*   a phrase; a prefix
upload OR download        one of the two words
-draft -is:archived       excludes sessions with the word or the filter
agent:claude tool:bash    filters; a value in quotes, as in `agent:"claude"`, must match exactly
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from store.model.status import STATUSES
from store.text.unicode import cjk_pattern, separate_cjk
from store.text.validate import replace_surrogates

STATES = (
    *("error", "pinned", "archived", "trashed", "fork", "delegate", "live", *STATUSES, "gone", "expiring"),
    *("shared", "disputed"),
)
HAS_VALUES = ("secret", "summary", "note")
ROLES = ("user", "assistant", "system", "tool")
DATE_EXAMPLES = ("today", "yesterday", "7d", "30d", "1y")
DAY_EXAMPLES = ("today", "yesterday")
HOUR_EXAMPLES = ("9", "14", "mon-9")
"""The values that completion offers; `parse_date`, `parse_days` and `parse_hour` understand many more."""

FILTERS = {
    "agent": "the name of an agent",
    "model": "the name of a model",
    "cwd": "a folder",
    "user": "a person who speaks in the session",
    "channel": "a channel, such as telegram, or its id",
    "owner": "a member of your team who shares the session",
    "machine": "the id of a member's machine",
    "tool": "the name of a tool",
    "role": ", ".join(ROLES),
    "tag": "one of your tags",
    "is": ", ".join(STATES),
    "has": ", ".join(HAS_VALUES),
    "before": "2026-11-01, yesterday, 3d",
    "after": "2026-11-01, yesterday, 3d",
    "day": "2026-11-01, yesterday, 2026-11, 2026-11-01..2026-11-07",
    "hour": "14, mon-14",
}
"""Maps the name of each filter to a description of its values."""

FILTERS_OF_NOTHING = ("model", "cwd", "tool")
"""Name the filters that find sessions without such a thing, as in `cwd:""`."""

FILTER_CHOICES = {"is": STATES, "has": HAS_VALUES, "role": ROLES}
MAX_TERMS = 32
"""Limits the words and filters of a query, so that a pasted page of text does not become a huge search."""

MAX_QUERY_CHARS = 20_000
"""Limits the query. Only a text that was pasted by mistake is longer, and parsing a megabyte takes seconds."""

MAX_PATTERN_CHARS = 200
"""Limits the characters of a word that are highlighted: compiling a pattern from a pasted page takes seconds."""

_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f]")
_TOKEN = re.compile(
    rf'(?P<minus>-?)(?:(?P<name>{"|".join(FILTERS)}):)?(?:"(?P<phrase>[^"]*)"?(?P<star>\*?)|(?P<word>[^\s"]*))',
    re.IGNORECASE,
)


class Term(NamedTuple):
    """Describes a word or a phrase to search for."""

    text: str
    prefix: bool = False
    negated: bool = False
    is_first_letter: bool = False
    "Is set while only one letter is typed. Too many words begin with it, so only titles are searched."

    @property
    def is_indexed(self) -> bool:
        """Return whether the index can contain the term. The index holds only letters and digits."""
        return not self.is_first_letter and any(map(str.isalnum, self.text))

    def fts(self) -> str:
        """Return the term in the syntax of FTS5."""
        quoted = " ".join(separate_cjk(self.text).split()).replace('"', '""')
        return f'"{quoted}"' + ("*" if self.prefix else "")

    def to_regex(self, *, ignore_accents: bool = False) -> str:
        """Return a regular expression that finds the term in a text.

        It matches whole words, as the index does, except in scripts that have no spaces between words.
        """
        text = self.text[:MAX_PATTERN_CHARS]
        word_start = "" if cjk_pattern().match(text) else r"(?<![^\W_])"
        word_end = "" if self.prefix or cjk_pattern().match(text[-1:]) or text != self.text else r"(?![^\W_])"
        word_pattern: Callable[[str], str] = re.escape
        if ignore_accents:
            from store.text.unicode import accent_insensitive_pattern as word_pattern
        return word_start + r"\W+".join(map(word_pattern, text.split())) + word_end


class Filter(NamedTuple):
    """Describes a filter such as `agent:claude`."""

    name: str
    value: str
    exact: bool = False
    "Is set when the value was typed in quotes."
    negated: bool = False


Atom = Term | Filter
OrGroup = tuple[Atom, ...]
"""Holds alternatives that are joined by OR. The groups of a query are joined by AND."""


class Query(NamedTuple):
    """Describes a parsed query."""

    groups: tuple[OrGroup, ...] = ()
    warnings: tuple[str, ...] = ()
    """Holds a sentence for each part of the query that was not understood, or probably not as it was meant."""
    corrections: tuple[tuple[str, str], ...] = ()
    """Holds pairs of a mistyped word that was found nowhere and the word that is searched for instead."""
    unknown_values: tuple[str, ...] = ()
    """Holds those of the warnings that name a value which a filter does not know. Such a filter is ignored."""

    @classmethod
    def parse(cls, text: str, *, is_typing: bool = False) -> Query:
        """Parse a query. While a person is typing, the last word counts as a prefix, and the beginning of a value is
        not called unknown."""
        cut = text[:MAX_QUERY_CHARS]
        query = _QueryParser(is_typing=is_typing).parse(_CONTROL_CHARACTER.sub(" ", replace_surrogates(cut)))
        if cut != text:
            return query._replace(
                warnings=query.warnings or (f"Only the first {MAX_QUERY_CHARS:,} characters are used.",)
            )
        return query._with_last_word_as_prefix() if is_typing and text[-1:].isalnum() else query

    def _with_last_word_as_prefix(self) -> Query:
        *groups_before, last_group = self.groups or ((),)
        if not last_group or not isinstance(last_group[-1], Term):
            return self
        last_term = last_group[-1]
        is_first_letter = len(last_term.text) == 1 and not cjk_pattern().match(last_term.text)
        prefix = last_term._replace(prefix=True, is_first_letter=is_first_letter)
        return self._replace(groups=(*groups_before, (*last_group[:-1], prefix)))

    def __bool__(self) -> bool:
        return bool(self.groups)

    @property
    def warning_text(self) -> str:
        return " ".join(self.warnings)

    @property
    def word_groups(self) -> tuple[tuple[Term, ...], ...]:
        """Return the groups that consist only of terms that are not negated.

        A title or a message must match all of them.
        """
        return tuple(terms for group in self.groups if len(terms := _positive_terms(group)) == len(group))

    @property
    def terms(self) -> tuple[Term, ...]:
        """Return every term that is not negated."""
        return tuple(term for group in self.groups for term in _positive_terms(group))

    @property
    def shows_trash(self) -> bool:
        """Return whether the query asks for sessions in the trash. No other query finds them."""
        return any(not state.negated for state in self._find_states("trashed"))

    @property
    def hides_archived(self) -> bool:
        """Return whether archived sessions are left out. Words find them, and so do the filters that name them."""
        return not self.terms and not self.shows_trash and not self._find_states("archived")

    def _find_states(self, value: str) -> list[Filter]:
        atoms = (atom for group in self.groups for atom in group)
        return [atom for atom in atoms if isinstance(atom, Filter) and (atom.name, atom.value) == ("is", value)]

    def limit_to_folder(self, folder: str) -> Query:
        """Return a query for sessions in the folder or below it. An empty folder changes nothing."""
        return self._replace(groups=(*self.groups, (Filter("within", folder),))) if folder else self

    def fts(self) -> str:
        """Return the terms in the syntax of FTS5, or an empty string if the index can contain none of them."""
        groups = [[term.fts() for term in group if term.is_indexed] for group in self.word_groups]
        return " AND ".join(f"({' OR '.join(group)})" for group in groups if group)

    def pattern(self, *, ignore_accents: bool = False) -> re.Pattern[str] | None:
        """Return a pattern that highlights the terms in a text, or None if there are none.

        A pattern that ignores accents is slower.
        """
        return _compile_pattern(self.terms, ignore_accents)


def _positive_terms(group: OrGroup) -> tuple[Term, ...]:
    return tuple(atom for atom in group if isinstance(atom, Term) and not atom.negated)


@lru_cache(maxsize=16)
def _compile_pattern(terms: tuple[Term, ...], ignore_accents: bool) -> re.Pattern[str] | None:
    """Compile the pattern of the terms. It is cached because every row of a list needs it."""
    patterns = [term.to_regex(ignore_accents=ignore_accents) for term in terms if term.is_indexed]
    return re.compile("|".join(patterns), re.IGNORECASE) if patterns else None


class _QueryParser:
    def __init__(self, *, is_typing: bool) -> None:
        self._is_typing = is_typing
        self._warnings: list[str] = []
        self._unknown_values: list[str] = []

    def parse(self, text: str) -> Query:
        groups: list[OrGroup] = []
        is_after_or = False
        for count, token in enumerate(_tokenize(text)):
            if count == MAX_TERMS:
                self._warnings.append(f"Only the first {MAX_TERMS} words are used.")
                break
            if token[0] == "OR":
                is_after_or = bool(groups)
            elif atom := self._parse_atom(token):
                groups = [*groups[:-1], (*groups[-1], atom)] if is_after_or else [*groups, (atom,)]
                is_after_or = False
        # A repeated word does not change the result, but would be searched for again.
        distinct_groups = tuple(dict.fromkeys(tuple(dict.fromkeys(group)) for group in groups))
        if any(_has_role_filter(group) for group in distinct_groups) and not any(
            isinstance(atom, Term) for group in distinct_groups for atom in group
        ):
            self._warnings.append("role: filters the words that are found. Add a word to search for.")
        return Query(distinct_groups, tuple(self._warnings), unknown_values=tuple(self._unknown_values))

    def _parse_atom(self, token: re.Match[str]) -> Atom | None:
        is_quoted, negated = token["phrase"] is not None, bool(token["minus"])
        text = (token["phrase"] if is_quoted else token["word"]).strip()
        if token["name"]:
            name = token["name"].lower()
            if not text and name in FILTERS_OF_NOTHING and token[0].endswith('""'):
                return Filter(name, "", exact=True, negated=negated)
            is_unfinished = self._is_typing and token.end() == len(token.string)
            return self._parse_filter(name, text, is_quoted, negated, is_unfinished)
        without_star = text.rstrip("*") or text
        prefix = bool(token["star"]) if is_quoted else without_star != text
        if not is_quoted and (name := _find_similar_filter(text)):
            typed = text.partition(":")[0]
            self._warnings.append(f"{typed}: is not a filter, so it is searched as a word. Did you mean {name}:?")
        return Term(text if is_quoted else without_star, prefix, negated) if text else None

    def _parse_filter(self, name: str, value: str, exact: bool, negated: bool, is_unfinished: bool) -> Filter | None:
        if name in FILTER_CHOICES:
            value = value.lower()
        if not value:
            self._warnings.append(f"{name}: needs a value: {FILTERS[name]}.")
        elif _is_known_value(name, value):
            return Filter(name, value, exact, negated)
        elif not (is_unfinished and _begins_known_value(name, value)):
            reason = (
                f"{name}: has no value {value!r}. Use {', '.join(FILTER_CHOICES[name])}."
                if name in FILTER_CHOICES
                else f"{name}: {value!r} is not {'an hour' if name == 'hour' else 'a date'}. Use {FILTERS[name]}."
            )
            self._warnings.append(reason)
            self._unknown_values.append(reason)
        return None


def _is_known_value(name: str, value: str) -> bool:
    if name in FILTER_CHOICES:
        return value in FILTER_CHOICES[name]
    match name:
        case "before" | "after":
            return _is_date(value)
        case "day":
            return parse_days(value, datetime.now(UTC)) is not None
        case "hour":
            return parse_hour(value) is not None
    return True


def _begins_known_value(name: str, value: str) -> bool:
    """Return whether more letters can make it a value that the filter knows."""
    if name in FILTER_CHOICES:
        return any(choice.startswith(value) for choice in FILTER_CHOICES[name])
    if name == "hour":
        return any(weekday.startswith(value.lower().rstrip("-")) for weekday in WEEKDAYS)
    if name == "day":
        value = value.removesuffix(".").rpartition("..")[2]
        if _is_date(value):
            return True
    return any(word.startswith(value.lower()) for word in _DATE_WORDS) or any(
        _is_date(value + ending) for ending in _DATE_ENDINGS
    )


def _find_similar_filter(word: str) -> str | None:
    """Return the filter that a word such as `agnt:claude` probably means, or None. A URL is never meant as a filter."""
    parts = _NAMED_VALUE.fullmatch(word)
    return next((name for name in FILTERS if _is_one_edit_away(parts[1].lower(), name)), None) if parts else None


_NAMED_VALUE = re.compile(r"([a-z]{2,}):(?!//)\S+", re.IGNORECASE | re.ASCII)


def _is_one_edit_away(word: str, other: str) -> bool:
    """Return whether one letter added, removed or replaced, or two letters swapped, make one word of the other."""
    if word == other or abs(len(word) - len(other)) > 1:
        return False
    start = next((n for n, pair in enumerate(zip(word, other, strict=False)) if pair[0] != pair[1]), None)
    if start is None:
        return True  # one is the other with a letter at its end
    rest, other_rest = word[start:], other[start:]
    is_swapped = rest[:2] == other_rest[1::-1] and rest[2:] == other_rest[2:]
    return is_swapped or rest[1:] == other_rest[1:] or rest[1:] == other_rest or rest == other_rest[1:]


def _tokenize(text: str) -> Iterator[re.Match[str]]:
    return (token for token in _TOKEN.finditer(text) if token[0].strip(' "'))


def _has_role_filter(group: OrGroup) -> bool:
    return any(isinstance(atom, Filter) and atom.name == "role" for atom in group)


# ── dates ─────────────────────────────────────────────────────────────────────────────────────────

_RELATIVE_DATE = re.compile(r"(\d{1,4})([hdwmy])", re.ASCII)
_HOURS_PER_UNIT = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_DATE_WORDS = ("today", "yesterday", *WEEKDAYS)
_DATE_ENDINGS = ("d", "0", "1", "00", ":00", "1:00")
"""One of these makes a date of a number or a calendar date that is not typed to its end, such as `3` or `2026-`."""

_CALENDAR_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[t ](\d{1,2}):(\d{2}))?)?)?", re.ASCII)


def parse_date(value: str, now: datetime) -> datetime | None:
    """Return the moment at which a date begins in local time, or None if the value is not a date.

    It understands `yesterday`, `friday`, `3d`, `2026-11` and `2026-11-01`.
    """
    local_now = now.astimezone().replace(tzinfo=None)
    try:
        start = _parse_local_date(value.lower(), local_now)
        return start.astimezone(UTC) if start else None
    except (ValueError, OverflowError):
        return None


class Days(NamedTuple):
    """Is a span of whole days of local time. The end is not part of it."""

    start: datetime
    end: datetime


def parse_days(value: str, now: datetime) -> Days | None:
    """Return the days that a value names: a day, a month, a year, or two of these with `..` between them."""
    first, dots, last = value.partition("..")
    start, end = (_parse_calendar_span(part.lower(), now) for part in (first, last if dots else first))
    return Days(start.start, end.end) if start and end and start.start < end.end else None


def _parse_calendar_span(value: str, now: datetime) -> Days | None:
    """Return the days of e.g. `yesterday`, `friday`, `2026-11` or `2026-11-01`."""
    date = _CALENDAR_DATE.fullmatch(value)
    if (date and date[4]) or _RELATIVE_DATE.fullmatch(value) or (start := parse_date(value, now)) is None:
        return None
    local = start.astimezone().replace(tzinfo=None)
    try:
        if date is None or date[3]:
            end = local + timedelta(days=1)
        elif date[2]:
            end = (local + timedelta(days=31)).replace(day=1)
        else:
            end = local.replace(year=local.year + 1)
        return Days(start, end.astimezone(UTC))
    except (ValueError, OverflowError):
        return None


class Hour(NamedTuple):
    """Is an hour of the day, or of one day of the week."""

    weekday: int | None
    "Is 0 on Mondays, or None for every day."
    hour: int


_HOUR = re.compile(r"(?:([a-z]{3,9})-)?(\d{1,2})", re.ASCII)


def parse_hour(value: str) -> Hour | None:
    """Return the hour that a value such as `14` or `mon-14` names."""
    match = _HOUR.fullmatch(value.lower())
    if match is None or int(match[2]) > 23:
        return None
    if match[1] is None:
        return Hour(None, int(match[2]))
    days = (index for index, weekday in enumerate(WEEKDAYS) if weekday.startswith(match[1]))
    return next((Hour(day, int(match[2])) for day in days), None)


def _parse_local_date(value: str, local_now: datetime) -> datetime | None:
    midnight = local_now.replace(hour=0, minute=0, second=0, microsecond=0)
    if value in ("today", "yesterday"):
        return midnight - timedelta(days=value == "yesterday")
    for index, weekday in enumerate(WEEKDAYS):
        if len(value) >= 3 and weekday.startswith(value):
            return midnight - timedelta(days=(local_now.weekday() - index) % 7)
    if relative := _RELATIVE_DATE.fullmatch(value):
        return local_now - timedelta(hours=int(relative[1]) * _HOURS_PER_UNIT[relative[2]])
    if date := _CALENDAR_DATE.fullmatch(value):
        year, month, day, hour, minute = date.groups()
        return datetime(int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0))
    return None


def _is_date(value: str) -> bool:
    return parse_date(value, datetime.now(UTC)) is not None
