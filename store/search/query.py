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
from store.text.unicode import cjk_pattern, separate_cjk
from store.text.validate import replace_surrogates

STATES = ("error", "pinned", "archived", "fork", "delegate", "live", "gone", "expiring")
HAS_VALUES = ("secret", "summary", "note")
ROLES = ("user", "assistant", "system", "tool")
DATE_EXAMPLES = ("today", "yesterday", "7d", "30d", "1y")
"""Examples: `day_of` understands many more."""

FILTERS = {
    "agent": "which agent it was",
    "model": "which model answered",
    "cwd": "the folder it happened in",
    "tool": "a tool that was called",
    "role": "who said the words",
    "tag": "your own label",
    "is": ", ".join(STATES),
    "has": ", ".join(HAS_VALUES),
    "before": "2026-11-01, yesterday, 3d",
    "after": "2026-11-01, yesterday, 3d",
}
"""Names, and what a person may write behind them."""

FILTER_CHOICES = {"is": STATES, "has": HAS_VALUES, "role": ROLES}
MAX_TERMS = 32
"""So many words and filters of a query are looked for: whoever pastes a page wants none of the rest."""

MAX_PATTERN_CHARS = 200
"""Characters of a word by which it is marked: a pattern of a pasted page would take seconds to make."""

_CONTROL_CHARACTER = re.compile("[\x00-\x1f\x7f]")
_TOKEN = re.compile(
    rf'(?P<minus>-?)(?:(?P<name>{"|".join(FILTERS)}):)?(?:"(?P<phrase>[^"]*)"?(?P<star>\*?)|(?P<word>[^\s"]*))',
    re.IGNORECASE,
)


class Term(NamedTuple):
    text: str
    prefix: bool = False
    negated: bool = False
    is_first_letter: bool = False
    "Just its first letter is typed: half the index begins with it, so that only titles are looked at."

    @property
    def is_indexed(self) -> bool:
        """Whether the index can know of it: it holds letters and digits only."""
        return not self.is_first_letter and any(map(str.isalnum, self.text))

    def fts(self) -> str:
        quoted = " ".join(separate_cjk(self.text).split()).replace('"', '""')
        return f'"{quoted}"' + ("*" if self.prefix else "")

    def to_regex(self, *, ignore_accents: bool = False) -> str:
        """As a regular expression. A word is a whole one, as for the index; scripts without spaces know no such."""
        text = self.text[:MAX_PATTERN_CHARS]
        begins = "" if cjk_pattern().match(text) else r"(?<![^\W_])"
        ends = "" if self.prefix or cjk_pattern().match(text[-1:]) or text != self.text else r"(?![^\W_])"
        spell: Callable[[str], str] = re.escape
        if ignore_accents:
            from store.text.unicode import accent_insensitive_pattern as spell
        return begins + r"\W+".join(map(spell, text.split())) + ends


class Filter(NamedTuple):
    name: str
    value: str
    exact: bool = False
    negated: bool = False


Atom = Term | Filter
OrGroup = tuple[Atom, ...]
"""Joined by OR; the groups of a query are joined by "and"."""


class Query(NamedTuple):
    groups: tuple[OrGroup, ...] = ()
    warnings: tuple[str, ...] = ()
    """A sentence for each thing that was not understood, and is not looked for."""
    corrections: tuple[tuple[str, str], ...] = ()
    """What was typed and found nowhere, and the word that is looked for in its place."""

    @classmethod
    def parse(cls, text: str, *, is_typing: bool = False) -> Query:
        """Typing: the last word may be half of one."""
        query = _QueryParser().parse(_CONTROL_CHARACTER.sub(" ", replace_surrogates(text)))
        return query._with_last_word_as_prefix() if is_typing and text[-1:].isalnum() else query

    def _with_last_word_as_prefix(self) -> Query:
        *before, last = self.groups or ((),)
        if not last or not isinstance(last[-1], Term):
            return self
        begun = len(last[-1].text) == 1 and not cjk_pattern().match(last[-1].text)
        half = last[-1]._replace(prefix=True, is_first_letter=begun)
        return self._replace(groups=(*before, (*last[:-1], half)))

    def __bool__(self) -> bool:
        return bool(self.groups)

    @property
    def warning_text(self) -> str:
        return " ".join(self.warnings)

    @property
    def word_groups(self) -> tuple[tuple[Term, ...], ...]:
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

    def limit_to_folder(self, folder: str) -> Query:
        """Only what happened in that folder or below; everywhere when it is empty."""
        return self._replace(groups=(*self.groups, (Filter("within", folder),))) if folder else self

    def fts(self) -> str:
        """The words for FTS5; empty when there is none that the index could know."""
        groups = [[term.fts() for term in group if term.is_indexed] for group in self.word_groups]
        return " AND ".join(f"({' OR '.join(group)})" for group in groups if group)

    def pattern(self, *, ignore_accents: bool = False) -> re.Pattern[str] | None:
        """Where the words stand in a text, near enough to mark them. However they are accented, if need be: whoever
        asks for that waits a moment."""
        return _compile_pattern(self.terms, ignore_accents)


@lru_cache(maxsize=16)
def _compile_pattern(terms: tuple[Term, ...], accents: bool) -> re.Pattern[str] | None:
    """Kept, since every row of a list asks for it."""
    spelled = [term.to_regex(ignore_accents=accents) for term in terms if term.is_indexed]
    return re.compile("|".join(spelled), re.IGNORECASE) if spelled else None


class _QueryParser:
    def __init__(self) -> None:
        self._warnings: list[str] = []

    def parse(self, text: str) -> Query:
        groups: list[OrGroup] = []
        joined = False
        for count, token in enumerate(_tokenize(text)):
            if count == MAX_TERMS:
                self._warnings.append(f"Only the first {MAX_TERMS} words are looked for.")
                break
            if token[0] == "OR":
                joined = bool(groups)
            elif atom := self._parse_atom(token):
                groups = [*groups[:-1], (*groups[-1], atom)] if joined else [*groups, (atom,)]
                joined = False
        # Each once: what repeats a word changes no result, and would ask for it again and again.
        once = tuple(dict.fromkeys(tuple(dict.fromkeys(group)) for group in groups))
        if any(_has_role_filter(group) for group in once) and not any(
            isinstance(one, Term) for group in once for one in group
        ):
            self._warnings.append("role: tells who said the words; there are no words yet.")
        return Query(once, tuple(self._warnings))

    def _parse_atom(self, token: re.Match[str]) -> Atom | None:
        quoted, negated = token["phrase"] is not None, bool(token["minus"])
        text = (token["phrase"] if quoted else token["word"]).strip()
        if token["name"]:
            return self._parse_filter(token["name"].lower(), text, quoted, negated)
        bare = text.rstrip("*") or text
        prefix = bool(token["star"]) if quoted else bare != text
        return Term(text if quoted else bare, prefix, negated) if text else None

    def _parse_filter(self, name: str, value: str, exact: bool, negated: bool) -> Filter | None:
        if name in FILTER_CHOICES:
            value = value.lower()
        if not value:
            self._warnings.append(f"{name}: is followed by {FILTERS[name]}.")
        elif name in FILTER_CHOICES and value not in FILTER_CHOICES[name]:
            self._warnings.append(f"{name}: knows {', '.join(FILTER_CHOICES[name])}, but not {value!r}.")
        elif name in ("before", "after") and not _is_date(value):
            self._warnings.append(f"{name}: takes a day such as {FILTERS[name]}, but not {value!r}.")
        else:
            return Filter(name, value, exact, negated)
        return None


def _tokenize(text: str) -> Iterator[re.Match[str]]:
    return (found for found in _TOKEN.finditer(text) if found[0].strip(' "'))


def _has_role_filter(group: OrGroup) -> bool:
    return any(isinstance(one, Filter) and one.name == "role" for one in group)


# ── days ──────────────────────────────────────────────────────────────────────────────────────────

_RELATIVE_DATE = re.compile(r"(\d{1,4})([hdwmy])", re.ASCII)
_HOURS_PER_UNIT = {"h": 1, "d": 24, "w": 7 * 24, "m": 30 * 24, "y": 365 * 24}
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_CALENDAR_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[t ](\d{1,2}):(\d{2}))?)?)?", re.ASCII)


def parse_date(value: str, now: datetime) -> datetime | None:
    """The moment at which it begins, by the clock on the wall: `yesterday`, `friday`, `3d`, `2026-11`, `2026-11-01`."""
    here = now.astimezone().replace(tzinfo=None)
    try:
        begins = _parse_local_date(value.lower(), here)
        return begins.astimezone(UTC) if begins else None
    except (ValueError, OverflowError):
        return None


def _parse_local_date(value: str, here: datetime) -> datetime | None:
    midnight = here.replace(hour=0, minute=0, second=0, microsecond=0)
    if value in ("today", "yesterday"):
        return midnight - timedelta(days=value == "yesterday")
    for number, weekday in enumerate(_WEEKDAYS):
        if len(value) >= 3 and weekday.startswith(value):
            return midnight - timedelta(days=(here.weekday() - number) % 7)
    if ago := _RELATIVE_DATE.fullmatch(value):
        return here - timedelta(hours=int(ago[1]) * _HOURS_PER_UNIT[ago[2]])
    if date := _CALENDAR_DATE.fullmatch(value):
        year, month, day, hour, minute = date.groups()
        return datetime(int(year), int(month or 1), int(day or 1), int(hour or 0), int(minute or 0))
    return None


def _is_date(value: str) -> bool:
    return parse_date(value, datetime.now(UTC)) is not None


# ── completion ────────────────────────────────────────────────────────────────────────────────────


class Vocabulary(NamedTuple):
    """What is there to filter by, the most used first."""

    agents: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()

    def values_for(self, name: str) -> tuple[str, ...]:
        known = {
            "agent": self.agents,
            "model": self.models,
            "cwd": self.folders,
            "tool": self.tools,
            "tag": self.tags,
            "before": DATE_EXAMPLES,
            "after": DATE_EXAMPLES,
        }
        return known.get(name) or FILTER_CHOICES.get(name, ())


def list_completions(text: str, cursor: int, vocabulary: Vocabulary) -> list[str]:
    """What the word that ends at the cursor could become: names of filters, or the values of the one that is named."""
    word = text[_find_word_start(text, cursor) : cursor]
    minus = "-" if word.startswith("-") else ""
    name, colon, typed = word.removeprefix("-").partition(":")
    name = name.lower()
    if not colon:
        return [f"{minus}{one}:" for one in FILTERS if one.startswith(name) and not typed]
    if name not in FILTERS:
        return []
    typed = typed.strip('"').lower()
    # What cannot be typed cannot be offered either; it might be meant for the terminal rather than for a person.
    values = [
        one for one in vocabulary.values_for(name) if one_line(one) == one and '"' not in one and typed in one.lower()
    ]
    values.sort(key=lambda one: not one.lower().startswith(typed))
    return [f"{minus}{name}:{_quote_if_spaced(one)}" for one in values if one.lower() != typed]


def accept_completion(text: str, cursor: int, offer: str) -> tuple[str, int]:
    """The text with the offer in the place of the word that ends at the cursor, and where the cursor goes."""
    begin = _find_word_start(text, cursor)
    rest = text[cursor:]
    if not offer.endswith(":"):
        offer, rest = f"{offer} ", rest.lstrip(" ")
    return text[:begin] + offer + rest, begin + len(offer)


def _find_word_start(text: str, cursor: int) -> int:
    """Where the word that ends at the cursor begins; a blank within quotes does not end it."""
    begin, quoted = 0, False
    for at, character in enumerate(text[:cursor]):
        if character == '"':
            quoted = not quoted
        elif character.isspace() and not quoted:
            begin = at + 1
    return begin


def _quote_if_spaced(value: str) -> str:
    return f'"{value}"' if any(map(str.isspace, value)) else value
