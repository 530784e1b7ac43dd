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
from store.text.unicode import cjk_pattern, fold_accents
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

FtsTable = Literal["conversation_fts", "skims_fts", "tools_fts"]
Results = TypeVar("Results")

MIN_WORD_CHARS, MAX_WORD_CHARS = 4, 40
"""Letters of a word that may be mistyped: nearly all shorter ones are near another, and longer ones were pasted."""

MIN_TWO_TYPOS_CHARS = 6
"""Letters of a word in which there may be two slips."""

MAX_WORDS_COMPARED = 20_000
MAX_TITLES_READ = 2_000

_WORD = re.compile(r"[^\W_]+")
_NAMED_VALUE = re.compile(r"([a-z]+):(\S+)", re.IGNORECASE)
_VOWELS = re.compile(r"[aeiou]+")
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдеёжзийклмнопрстуфхцчшщъыьэюя", "αβγδεζηθικλμνξοπρσςτυφχψω")
_LAST_CHARACTER = "\U0010ffff"

# The index tells its words through a table that exists for this connection alone: nothing is written to the store.
_CREATE_WORDS_TABLE = "create virtual table if not exists temp.{0}_words using fts5vocab(main, {0}, row)"
_COUNT_WORDS = "select term, doc from temp.{}_words where term in (select value from json_each(?))"
_COUNT_PREFIXES = """
    select value, (select sum(doc) from
        (select doc from temp.{}_words where term >= value and term < value || char(1114111) limit 20)) as often
    from json_each(?) where often > 0
"""
_SELECT_WORDS_BETWEEN = "select term, doc from temp.{}_words where term >= ? and term < ? limit ?"
_SELECT_TITLES = """
    select own_title || ' ' || agent_title from sessions where deleted = 0 order by updated_at desc, key desc limit ?
"""


class NearWord(NamedTuple):
    distance: int
    rarity: int
    word: str


def find_or_correct(
    store: Store,
    query: Query,
    indexes: Sequence[FtsTable],
    find: Callable[[Query], Results],
    is_empty: Callable[[Results], bool],
) -> tuple[Query, Results]:
    """What is found; where that is nothing, what is found for the words that were probably meant, and these."""
    found = find(query)
    if is_empty(found) and (meant := correct_typos(store, query, indexes)) is not None:
        instead = find(meant)
        if not is_empty(instead):
            return meant, instead
    return query, found


def correct_typos(store: Store, query: Query, indexes: Sequence[FtsTable] = ("conversation_fts",)) -> Query | None:
    """With the nearest known word for each that is not; None where there is no such word."""
    with store.snapshot():
        return _TypoCorrector(store, indexes).correct_query(query)


class _TypoCorrector:
    def __init__(self, store: Store, indexes: Sequence[FtsTable]) -> None:
        self._store = store
        self._indexes = indexes
        self._corrections: dict[str, str] = {}
        for index in indexes:
            store.connection.execute(_CREATE_WORDS_TABLE.format(index))

    def correct_query(self, query: Query) -> Query | None:
        groups = tuple(tuple(map(self._correct_atom, group)) for group in query.groups)
        if not self._corrections:
            return None
        return query._replace(groups=groups, corrections=tuple(self._corrections.items()))

    def _correct_atom(self, atom: Atom) -> Atom:
        if atom.negated:
            return atom
        meant = (
            self._correct_filter(atom)
            if isinstance(atom, Filter)
            else self._correct_filter_name(atom) or self._correct_term(atom)
        )
        if meant != atom:
            self._corrections[_format_atom(atom)] = _format_atom(meant)
        return meant

    # ── filters ───────────────────────────────────────────────────────────────────────────────────

    def _correct_filter(self, given: Filter) -> Filter:
        """What there is of the kind, when it is near what was typed and nothing there is what was typed."""
        values = self._vocabulary.values_for(given.name) if given.name in ("agent", "model", "tool", "tag") else ()
        typed = given.value.lower()
        if len(typed) > MAX_WORD_CHARS or any(typed in value.lower() for value in values):
            return given
        known = {value.lower(): 0 for value in values}
        near = _find_with_same_consonants(typed, known) or _find_nearest(typed, known, prefix=not given.exact)
        return given._replace(value=near) if near else given

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return self._store.search.load_vocabulary()

    def _correct_filter_name(self, term: Term) -> Filter | None:
        """`agnet:claude`."""
        named = _NAMED_VALUE.fullmatch(term.text)
        name = (
            _find_nearest(named[1].lower(), dict.fromkeys(FILTERS, 0))
            if named and len(named[0]) <= MAX_WORD_CHARS
            else None
        )
        groups = Query.parse(f"{name}:{named[2]}").groups if named and name else ()
        return self._correct_filter(groups[0][0]) if groups and isinstance(groups[0][0], Filter) else None

    # ── words ─────────────────────────────────────────────────────────────────────────────────────

    def _correct_term(self, term: Term) -> Term:
        words = _WORD.findall(term.text)
        if not term.is_indexed or cjk_pattern().search(term.text) or not words:
            return term
        meant = [self._correct_word(word, prefix=False) for word in words[:-1]]
        meant.append(self._correct_word(words[-1], prefix=term.prefix))
        return term if meant == words else term._replace(text=" ".join(meant))

    def _correct_word(self, word: str, *, prefix: bool) -> str:
        plain = fold_accents(word)
        if (
            not MIN_WORD_CHARS <= len(plain) <= MAX_WORD_CHARS
            or not plain.isalpha()
            or self._count_known([plain], prefix)
        ):
            return word
        near = self._count_known(list(generate_one_typo_variants(plain)), prefix)
        # Shorter beginnings are always used more, which makes them no likelier.
        longest = max((len(one) for one in near if prefix), default=0)
        nearest = min(
            (NearWord(1, -often, one) for one, often in near.items() if len(one) >= min(longest, len(plain))),
            default=None,
        )
        if nearest is None and len(plain) >= MIN_TWO_TYPOS_CHARS:
            return _find_nearest(plain, self._find_words_with_same_start(plain), prefix=prefix) or word
        return nearest.word if nearest else word

    def _count_known(self, words: Sequence[str], prefix: bool) -> Mapping[str, int]:
        """Those of the words that somebody used, and how often."""
        found: dict[str, int] = {}
        for index in self._indexes:
            sql = (_COUNT_PREFIXES if prefix else _COUNT_WORDS).format(index)
            for word, often in self._store.rows(sql, encode(list(words)).decode()):
                found[word] = found.get(word, 0) + often
        titled = self._title_prefixes if prefix else self._title_words
        return found | {word: found.get(word, 0) + 1 for word in titled.intersection(words)}

    def _find_words_with_same_start(self, word: str) -> Mapping[str, int]:
        """Words with the same beginning, and how often they were used."""
        begin = word[:2]
        found = {one: 1 for one in self._title_words if one.startswith(begin)}
        for index in self._indexes:
            found.update(
                self._store.rows(
                    _SELECT_WORDS_BETWEEN.format(index), begin, begin + _LAST_CHARACTER, MAX_WORDS_COMPARED
                )
            )
        return found

    @cached_property
    def _title_words(self) -> frozenset[str]:
        """Titles are looked through without the index, which need not know their words; calls have none."""
        if "conversation_fts" not in self._indexes:
            return frozenset()
        titles = self._store.rows(_SELECT_TITLES, MAX_TITLES_READ)
        return frozenset(word for (title,) in titles for word in _WORD.findall(fold_accents(title)))

    @cached_property
    def _title_prefixes(self) -> frozenset[str]:
        return frozenset(word[:end] for word in self._title_words for end in range(MIN_WORD_CHARS - 1, len(word) + 1))


# ── slips ─────────────────────────────────────────────────────────────────────────────────────────


def generate_one_typo_variants(word: str) -> Iterator[str]:
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


def _find_nearest(word: str, known: Mapping[str, int], *, prefix: bool = False) -> str | None:
    """At most two slips away, or one in a short word; of those, the one that is used most."""
    most = 2 if len(word) >= MIN_TWO_TYPOS_CHARS else 1
    pairs = _letter_pairs(word)
    best: NearWord | None = None
    for one, often in known.items():
        # A slip spoils three pairs of letters at most; what shares too few need not be looked at closely.
        if abs(len(one) - len(word)) > most and not (prefix and len(one) > len(word)):
            continue
        if len(pairs & _letter_pairs(one)) < len(pairs) - 3 * most:
            continue
        slips = min(_edit_distance(word, begin, most) for begin in _list_prefixes(one, len(word), prefix))
        near = NearWord(slips, -often, one)
        if slips <= most and (best is None or near < best):
            best = near
    return best.word if best else None


def _find_with_same_consonants(word: str, known: Iterable[str]) -> str | None:
    """`clod` is claude rather than codex: vowels are what people who know a name by ear spell otherwise."""
    heard = _VOWELS.sub("", word)
    return next((one for one in known if _VOWELS.sub("", one) == heard), None) if len(heard) > 1 else None


def _list_prefixes(word: str, length: int, prefix: bool) -> set[str]:
    return {word[: length + by] for by in (-1, 0, 1)} if prefix else {word}


def _letter_pairs(word: str) -> set[str]:
    return {word[at : at + 2] for at in range(len(word) - 1)}


def _edit_distance(one: str, other: str, most: int) -> int:
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


def _format_atom(atom: Atom) -> str:
    if isinstance(atom, Filter):
        return f"{atom.name}:{atom.value}"
    return atom.text + "…" * atom.prefix
