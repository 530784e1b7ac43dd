"""Typing errors, forgiven when nothing else is found: for a word that nobody ever said, the nearest that somebody did.

What is looked at is bounded, however many words an archive has: every spelling one slip away is looked up in the
index, and of those two slips away the ones that begin with the same two letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from store.search.query import FILTERS, Atom, Filter, Query, Term, Vocabulary
from store.text.unicode import cjk, folded
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

Index = Literal["conversation_fts", "skims_fts", "tools_fts"]
Found = TypeVar("Found")

SHORTEST, LONGEST = 4, 40
"""Letters of a word that may be mistyped: nearly all shorter ones are near another, and longer ones were pasted."""

SHORTEST_TWICE = 6
"""Letters of a word in which there may be two slips."""

TERMS_LOOKED_AT = 20_000
TITLES_LOOKED_AT = 2_000

_WORD = re.compile(r"[^\W_]+")
_MISNAMED = re.compile(r"([a-z]+):(\S+)", re.IGNORECASE)
_VOWELS = re.compile(r"[aeiou]+")
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдеёжзийклмнопрстуфхцчшщъыьэюя", "αβγδεζηθικλμνξοπρσςτυφχψω")
_END = "\U0010ffff"

# The index tells its words through a table that exists for this connection alone: nothing is written to the store.
_OPEN = "create virtual table if not exists temp.{0}_words using fts5vocab(main, {0}, row)"
_KNOWN = "select term, doc from temp.{}_words where term in (select value from json_each(?))"
_KNOWN_BEGINNINGS = """
    select value, (select sum(doc) from
        (select doc from temp.{}_words where term >= value and term < value || char(1114111) limit 20)) as often
    from json_each(?) where often > 0
"""
_NEIGHBOURS = "select term, doc from temp.{}_words where term >= ? and term < ? limit ?"
_TITLES = """
    select own_title || ' ' || agent_title from sessions where deleted = 0 order by updated_at desc, key desc limit ?
"""


class Near(NamedTuple):
    slips: int
    rarity: int
    word: str


def found_or_forgiven(
    store: Store,
    query: Query,
    indexes: Sequence[Index],
    find: Callable[[Query], Found],
    is_empty: Callable[[Found], bool],
) -> tuple[Query, Found]:
    """What is found; where that is nothing, what is found for the words that were probably meant, and these."""
    found = find(query)
    if is_empty(found) and (meant := forgiven(store, query, indexes)) is not None:
        instead = find(meant)
        if not is_empty(instead):
            return meant, instead
    return query, found


def forgiven(store: Store, query: Query, indexes: Sequence[Index] = ("conversation_fts",)) -> Query | None:
    """With the nearest known word for each that is not; None where there is no such word."""
    with store.snapshot():
        return _Forgiving(store, indexes).query(query)


class _Forgiving:
    def __init__(self, store: Store, indexes: Sequence[Index]) -> None:
        self._store = store
        self._indexes = indexes
        self._instead: dict[str, str] = {}
        for index in indexes:
            store.connection.execute(_OPEN.format(index))

    def query(self, query: Query) -> Query | None:
        groups = tuple(tuple(map(self._atom, group)) for group in query.groups)
        if not self._instead:
            return None
        return query._replace(groups=groups, instead=tuple(self._instead.items()))

    def _atom(self, atom: Atom) -> Atom:
        if atom.negated:
            return atom
        meant = self._value(atom) if isinstance(atom, Filter) else self._misnamed(atom) or self._term(atom)
        if meant != atom:
            self._instead[_spelled(atom)] = _spelled(meant)
        return meant

    # ── filters ───────────────────────────────────────────────────────────────────────────────────

    def _value(self, given: Filter) -> Filter:
        """What there is of the kind, when it is near what was typed and nothing there is what was typed."""
        values = self._vocabulary.of(given.name) if given.name in ("agent", "model", "tool", "tag") else ()
        typed = given.value.lower()
        if len(typed) > LONGEST or any(typed in value.lower() for value in values):
            return given
        known = {value.lower(): 0 for value in values}
        near = _sounding_alike(typed, known) or _nearest(typed, known, prefix=not given.exact)
        return given._replace(value=near) if near else given

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return self._store.search.vocabulary()

    def _misnamed(self, term: Term) -> Filter | None:
        """`agnet:claude`."""
        named = _MISNAMED.fullmatch(term.text)
        name = _nearest(named[1].lower(), dict.fromkeys(FILTERS, 0)) if named and len(named[0]) <= LONGEST else None
        groups = Query.parse(f"{name}:{named[2]}").groups if named and name else ()
        return self._value(groups[0][0]) if groups and isinstance(groups[0][0], Filter) else None

    # ── words ─────────────────────────────────────────────────────────────────────────────────────

    def _term(self, term: Term) -> Term:
        words = _WORD.findall(term.text)
        if not term.indexed or cjk().search(term.text) or not words:
            return term
        meant = [self._word(word, prefix=False) for word in words[:-1]]
        meant.append(self._word(words[-1], prefix=term.prefix))
        return term if meant == words else term._replace(text=" ".join(meant))

    def _word(self, word: str, *, prefix: bool) -> str:
        plain = folded(word)
        if not SHORTEST <= len(plain) <= LONGEST or not plain.isalpha() or self._known([plain], prefix):
            return word
        near = self._known(list(one_slip_away(plain)), prefix)
        # Shorter beginnings are always used more, which makes them no likelier.
        longest = max((len(one) for one in near if prefix), default=0)
        nearest = min(
            (Near(1, -often, one) for one, often in near.items() if len(one) >= min(longest, len(plain))), default=None
        )
        if nearest is None and len(plain) >= SHORTEST_TWICE:
            return _nearest(plain, self._neighbours(plain), prefix=prefix) or word
        return nearest.word if nearest else word

    def _known(self, words: Sequence[str], prefix: bool) -> Mapping[str, int]:
        """Those of the words that somebody used, and how often."""
        found: dict[str, int] = {}
        for index in self._indexes:
            sql = (_KNOWN_BEGINNINGS if prefix else _KNOWN).format(index)
            for word, often in self._store.rows(sql, encode(list(words)).decode()):
                found[word] = found.get(word, 0) + often
        titled = self._titled_beginnings if prefix else self._titled
        return found | {word: found.get(word, 0) + 1 for word in titled.intersection(words)}

    def _neighbours(self, word: str) -> Mapping[str, int]:
        """Words with the same beginning, and how often they were used."""
        begin = word[:2]
        found = {one: 1 for one in self._titled if one.startswith(begin)}
        for index in self._indexes:
            found.update(self._store.rows(_NEIGHBOURS.format(index), begin, begin + _END, TERMS_LOOKED_AT))
        return found

    @cached_property
    def _titled(self) -> frozenset[str]:
        """Titles are looked through without the index, which need not know their words; calls have none."""
        if "conversation_fts" not in self._indexes:
            return frozenset()
        titles = self._store.rows(_TITLES, TITLES_LOOKED_AT)
        return frozenset(word for (title,) in titles for word in _WORD.findall(folded(title)))

    @cached_property
    def _titled_beginnings(self) -> frozenset[str]:
        return frozenset(word[:end] for word in self._titled for end in range(SHORTEST - 1, len(word) + 1))


# ── slips ─────────────────────────────────────────────────────────────────────────────────────────


def one_slip_away(word: str) -> Iterator[str]:
    """A letter too many, too few, another, or two in the wrong order."""
    letters = next((alphabet for alphabet in _ALPHABETS if word[0] in alphabet), "".join(dict.fromkeys(word)))
    for at in range(len(word) + 1):
        before, after = word[:at], word[at:]
        yield from (before + letter + after for letter in letters)
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in letters if letter != after[0])
        if len(after) > 1 and after[0] != after[1]:
            yield before + after[1] + after[0] + after[2:]


def _nearest(word: str, known: Mapping[str, int], *, prefix: bool = False) -> str | None:
    """At most two slips away, or one in a short word; of those, the one that is used most."""
    most = 2 if len(word) >= SHORTEST_TWICE else 1
    pairs = _pairs(word)
    best: Near | None = None
    for one, often in known.items():
        # A slip spoils three pairs of letters at most; what shares too few need not be looked at closely.
        if abs(len(one) - len(word)) > most and not (prefix and len(one) > len(word)):
            continue
        if len(pairs & _pairs(one)) < len(pairs) - 3 * most:
            continue
        slips = min(_slips(word, begin, most) for begin in _beginnings(one, len(word), prefix))
        near = Near(slips, -often, one)
        if slips <= most and (best is None or near < best):
            best = near
    return best.word if best else None


def _sounding_alike(word: str, known: Iterable[str]) -> str | None:
    """`clod` is claude rather than codex: vowels are what people who know a name by ear spell otherwise."""
    heard = _VOWELS.sub("", word)
    return next((one for one in known if _VOWELS.sub("", one) == heard), None) if len(heard) > 1 else None


def _beginnings(word: str, length: int, prefix: bool) -> set[str]:
    return {word[: length + by] for by in (-1, 0, 1)} if prefix else {word}


def _pairs(word: str) -> set[str]:
    return {word[at : at + 2] for at in range(len(word) - 1)}


def _slips(one: str, other: str, most: int) -> int:
    """How many slips lie between two words; more than `most` is not counted out."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one):
        earlier, before, row = before, row, [at + 1]
        for there, its in enumerate(other):
            steps = min(before[there + 1] + 1, row[there] + 1, before[there] + (letter != its))
            if earlier and there and letter == other[there - 1] and one[at - 1] == its:
                steps = min(steps, earlier[there - 1] + 1)
            row.append(steps)
        if min(row) > most:
            return most + 1
    return row[-1]


def _spelled(atom: Atom) -> str:
    if isinstance(atom, Filter):
        return f"{atom.name}:{atom.value}"
    return atom.text + "…" * atom.prefix
