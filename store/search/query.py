"""What a person types into a search box, understood. Pure: any text is a query, and none is an error.

upload retry              both words, in a title or in one message
"file was closed" clos*   a phrase, a beginning
upload OR download        one of them
-draft -is:archived       what must not be
agent:claude tool:bash    filters; `agent:"claude"` in quotes is exactly that and no longer name
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple

from store.text.sanitize import one_line
from store.text.unicode import cjk, search_text
from store.text.validate import column_text

STATES = ("error", "pinned", "archived", "fork", "delegate", "live", "gone", "expiring")
POSSESSIONS = ("secret", "summary", "note")
ROLES = ("user", "assistant", "system", "tool")
DATES = ("today", "yesterday", "7d", "30d", "1y")
"""Examples: `day_of` understands many more."""

FILTERS = {
    "agent": "which agent it was",
    "model": "which model answered",
    "cwd": "the folder it happened in",
    "tool": "a tool that was called",
    "role": "who said the words",
    "tag": "your own label",
    "is": ", ".join(STATES),
    "has": ", ".join(POSSESSIONS),
    "before": "2026-11-01, yesterday, 3d",
    "after": "2026-11-01, yesterday, 3d",
}
"""Names, and what a person may write behind them."""

CHOICES = {"is": STATES, "has": POSSESSIONS, "role": ROLES}
MOST = 32
"""So many words and filters of a query are looked for: whoever pastes a page wants none of the rest."""

LONGEST_SPELLED = 200
"""Characters of a word by which it is marked: a pattern of a pasted page would take seconds to make."""

_CONTROL = re.compile("[\x00-\x1f\x7f]")
_TOKEN = re.compile(
    rf'(?P<minus>-?)(?:(?P<name>{"|".join(FILTERS)}):)?(?:"(?P<phrase>[^"]*)"?(?P<star>\*?)|(?P<word>[^\s"]*))',
    re.IGNORECASE,
)


class Term(NamedTuple):
    text: str
    prefix: bool = False
    negated: bool = False
    begun: bool = False
    "Just its first letter is typed: half the index begins with it, so that only titles are looked at."

    @property
    def indexed(self) -> bool:
        """Whether the index can know of it: it holds letters and digits only."""
        return not self.begun and any(map(str.isalnum, self.text))

    def fts(self) -> str:
        quoted = " ".join(search_text(self.text).split()).replace('"', '""')
        return f'"{quoted}"' + ("*" if self.prefix else "")

    def spelled(self, *, accents: bool = False) -> str:
        """As a regular expression. A word is a whole one, as for the index; scripts without spaces know no such."""
        text = self.text[:LONGEST_SPELLED]
        begins = "" if cjk().match(text) else r"(?<![^\W_])"
        ends = "" if self.prefix or cjk().match(text[-1:]) or text != self.text else r"(?![^\W_])"
        spell: Callable[[str], str] = re.escape
        if accents:
            from store.text.unicode import any_accents as spell
        return begins + r"\W+".join(map(spell, text.split())) + ends


class Filter(NamedTuple):
    name: str
    value: str
    exact: bool = False
    negated: bool = False


Atom = Term | Filter
Group = tuple[Atom, ...]
"""Joined by OR; the groups of a query are joined by "and"."""


class Query(NamedTuple):
    groups: tuple[Group, ...] = ()
    puzzles: tuple[str, ...] = ()
    """A sentence for each thing that was not understood, and is not looked for."""
    instead: tuple[tuple[str, str], ...] = ()
    """What was typed and found nowhere, and the word that is looked for in its place."""

    @classmethod
    def parse(cls, text: str, *, typing: bool = False) -> Query:
        """Typing: the last word may be half of one."""
        query = _Parser().parse(_CONTROL.sub(" ", column_text(text)))
        return query._half_typed() if typing and text[-1:].isalnum() else query

    def _half_typed(self) -> Query:
        *before, last = self.groups or ((),)
        if not last or not isinstance(last[-1], Term):
            return self
        begun = len(last[-1].text) == 1 and not cjk().match(last[-1].text)
        half = last[-1]._replace(prefix=True, begun=begun)
        return self._replace(groups=(*before, (*last[:-1], half)))

    def __bool__(self) -> bool:
        return bool(self.groups)

    @property
    def puzzled(self) -> str:
        return " ".join(self.puzzles)

    @property
    def words(self) -> tuple[tuple[Term, ...], ...]:
        """The groups of nothing but words that are wanted: they must all stand in one title or one message."""
        return tuple(
            terms
            for group in self.groups
            if len(terms := tuple(one for one in group if isinstance(one, Term) and not one.negated)) == len(group)
        )

    @property
    def terms(self) -> tuple[Term, ...]:
        """Every word that is wanted."""
        return tuple(one for group in self.groups for one in group if isinstance(one, Term) and not one.negated)

    def within(self, folder: str) -> Query:
        """Only what happened in that folder or below; everywhere when it is empty."""
        return self._replace(groups=(*self.groups, (Filter("within", folder),))) if folder else self

    def fts(self) -> str:
        """The words for FTS5; empty when there is none that the index could know."""
        groups = [[term.fts() for term in group if term.indexed] for group in self.words]
        return " AND ".join(f"({' OR '.join(group)})" for group in groups if group)

    def pattern(self, *, accents: bool = False) -> re.Pattern[str] | None:
        """Where the words stand in a text, near enough to mark them. However they are accented, if need be: whoever
        asks for that waits a moment."""
        return _pattern(self.terms, accents)


@lru_cache(maxsize=16)
def _pattern(terms: tuple[Term, ...], accents: bool) -> re.Pattern[str] | None:
    """Kept, since every row of a list asks for it."""
    spelled = [term.spelled(accents=accents) for term in terms if term.indexed]
    return re.compile("|".join(spelled), re.IGNORECASE) if spelled else None


class _Parser:
    def __init__(self) -> None:
        self._puzzles: list[str] = []

    def parse(self, text: str) -> Query:
        groups: list[Group] = []
        joined = False
        for count, token in enumerate(_tokens(text)):
            if count == MOST:
                self._puzzles.append(f"Only the first {MOST} words are looked for.")
                break
            if token[0] == "OR":
                joined = bool(groups)
            elif atom := self._atom(token):
                groups = [*groups[:-1], (*groups[-1], atom)] if joined else [*groups, (atom,)]
                joined = False
        # Each once: what repeats a word changes no result, and would ask for it again and again.
        once = tuple(dict.fromkeys(tuple(dict.fromkeys(group)) for group in groups))
        if any(_is_role(group) for group in once) and not any(isinstance(one, Term) for group in once for one in group):
            self._puzzles.append("role: tells who said the words; there are no words yet.")
        return Query(once, tuple(self._puzzles))

    def _atom(self, token: re.Match[str]) -> Atom | None:
        quoted, negated = token["phrase"] is not None, bool(token["minus"])
        text = (token["phrase"] if quoted else token["word"]).strip()
        if token["name"]:
            return self._filter(token["name"].lower(), text, quoted, negated)
        bare = text.rstrip("*") or text
        prefix = bool(token["star"]) if quoted else bare != text
        return Term(text if quoted else bare, prefix, negated) if text else None

    def _filter(self, name: str, value: str, exact: bool, negated: bool) -> Filter | None:
        if name in CHOICES:
            value = value.lower()
        if not value:
            self._puzzles.append(f"{name}: is followed by {FILTERS[name]}.")
        elif name in CHOICES and value not in CHOICES[name]:
            self._puzzles.append(f"{name}: knows {', '.join(CHOICES[name])}, but not {value!r}.")
        elif name in ("before", "after") and not _is_day(value):
            self._puzzles.append(f"{name}: takes a day such as {FILTERS[name]}, but not {value!r}.")
        else:
            return Filter(name, value, exact, negated)
        return None


def _tokens(text: str) -> Iterator[re.Match[str]]:
    return (found for found in _TOKEN.finditer(text) if found[0].strip(' "'))


def _is_role(group: Group) -> bool:
    return any(isinstance(one, Filter) and one.name == "role" for one in group)


# ── days ──────────────────────────────────────────────────────────────────────────────────────────

_AGO = re.compile(r"(\d{1,4})([hdwmy])", re.ASCII)
_HOURS = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CALENDAR = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[t ](\d{1,2}):(\d{2}))?)?)?", re.ASCII)


def day_of(value: str, now: datetime) -> datetime | None:
    """The moment at which it begins, by the clock on the wall: `yesterday`, `friday`, `3d`, `2026-11`, `2026-11-01`."""
    here = now.astimezone().replace(tzinfo=None)
    try:
        begins = _begins(value.lower(), here)
        return begins.astimezone(UTC) if begins else None
    except (ValueError, OverflowError):
        return None


def _begins(value: str, here: datetime) -> datetime | None:
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    if value in ("today", "yesterday"):
        return midnight - timedelta(days=value == "yesterday")
    for number, weekday in enumerate(_WEEKDAYS):
        if len(value) >= 3 and weekday.startswith(value):
            return midnight - timedelta(days=(here.weekday() - number) % 7)
    if ago := _AGO.fullmatch(value):
        return here - timedelta(hours=int(ago[1]) * _HOURS[ago[2]])
    if date := _CALENDAR.fullmatch(value):
        year, month, day, hour, minute = date.groups()
        return datetime(int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0))
    return None


def _is_day(value: str) -> bool:
    return day_of(value, datetime.now(UTC)) is not None


# ── completion ────────────────────────────────────────────────────────────────────────────────────


class Vocabulary(NamedTuple):
    """What is there to filter by, the most used first."""

    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def of(self, name: str) -> tuple[str, ...]:
        known = {
            "agent": self.agents,
            "model": self.models,
            "cwd": self.folders,
            "tool": self.tools,
            "tag": self.tags,
            "before": DATES,
            "after": DATES,
        }
        return known.get(name) or CHOICES.get(name, ())


def complete(text: str, cursor: int, vocabulary: Vocabulary) -> list[str]:
    """What the word that ends at the cursor could become: names of filters, or the values of the one that is named."""
    word = text[_begin(text, cursor) : cursor]
    minus = "-" if word.startswith("-") else ""
    name, colon, typed = word.removeprefix("-").partition(":")
    name = name.lower()
    if not colon:
        return [f"{minus}{one}:" for one in FILTERS if one.startswith(name) and not typed]
    if name not in FILTERS:
        return []
    typed = typed.strip('"').lower()
    # What cannot be typed cannot be offered either; it might be meant for the terminal rather than for a person.
    values = [one for one in vocabulary.of(name) if one_line(one) == one and '"' not in one and typed in one.lower()]
    values.sort(key=lambda one: not one.lower().startswith(typed))
    return [f"{minus}{name}:{_quoted(one)}" for one in values if one.lower() != typed]


def accept(text: str, cursor: int, offer: str) -> tuple[str, int]:
    """The text with the offer in the place of the word that ends at the cursor, and where the cursor goes."""
    begin = _begin(text, cursor)
    rest = text[cursor:]
    if not offer.endswith(":"):
        offer, rest = f"{offer} ", rest.lstrip(" ")
    return text[:begin] + offer + rest, begin + len(offer)


def _begin(text: str, cursor: int) -> int:
    """Where the word that ends at the cursor begins; a blank within quotes does not end it."""
    begin, quoted = 0, False
    for at, character in enumerate(text[:cursor]):
        if character == '"':
            quoted = not quoted
        elif character.isspace() and not quoted:
            begin = at + 1
    return begin


def _quoted(value: str) -> str:
    return f'"{value}"' if any(map(str.isspace, value)) else value
