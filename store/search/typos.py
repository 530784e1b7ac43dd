"""This module corrects typing errors when a query finds nothing: it replaces unknown words with similar known words.

The work is bounded, however many words an archive has. Every spelling with one typo is looked up in the index. Words
with two typos are considered only if they begin with the same two letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeVar

from store.search.complete import Vocabulary
from store.search.query import FILTERS, Atom, Filter, Query, Term
from store.text.unicode import cjk_pattern, fold_accents
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

FtsTable = Literal["conversation_fts", "skims_fts", "tools_fts"]
Results = TypeVar("Results")

MIN_WORD_CHARS, MAX_WORD_CHARS = 4, 40
"""The length of words that are corrected. Shorter words resemble too many others; longer ones were pasted."""

MIN_TWO_TYPOS_CHARS = 6
"""The length from which a word may have two typos."""

MAX_WORDS_COMPARED = 20_000
MAX_TITLES_READ = 2_000

_WORD = re.compile(r"[^\W_]+")
_NAMED_VALUE = re.compile(r"([a-z]+):(\S+)", re.IGNORECASE)
_VOWELS = re.compile(r"[aeiou]+")
_ALPHABETS = ("abcdefghijklmnopqrstuvwxyz", "абвгдеёжзийклмнопрстуфхцчшщъыьэюя", "αβγδεζηθικλμνξοπρσςτυφχψω")
_LAST_CHARACTER = "\U0010ffff"

# The words of the index are read through a temporary table of this connection. Nothing is written to the store.
_CREATE_WORDS_TABLE = "create virtual table if not exists temp.{0}_words using fts5vocab(main, {0}, row)"
_COUNT_WORDS = "select term, doc from temp.{}_words where term in (select value from json_each(?))"
_COUNT_PREFIXES = """
    select value, (select sum(doc) from
        (select doc from temp.{}_words where term >= value and term < value || char(1114111) limit 20)) as often
    from json_each(?) where often > 0
"""
_SELECT_WORDS_BETWEEN = "select term, doc from temp.{}_words where term >= ? and term < ? limit ?"
_SELECT_TITLES = """
    select substr(own_title, 1, 1000) || ' ' || substr(agent_title, 1, 1000)
    from sessions where deleted = 0 order by updated_at desc, key desc limit ?
"""


class NearWord(NamedTuple):
    """Describes a known word that resembles a mistyped one. The best candidate is the smallest tuple."""

    distance: int
    rarity: int
    "The negative number of uses."
    word: str


def find_or_correct(
    store: Store,
    query: Query,
    indexes: Sequence[FtsTable],
    find: Callable[[Query], Results],
    is_empty: Callable[[Results], bool],
) -> tuple[Query, Results]:
    """Return the query and its results. If there are none, try the query with its typos corrected."""
    results = find(query)
    if is_empty(results) and (corrected := correct_typos(store, query, indexes)) is not None:
        corrected_results = find(corrected)
        if not is_empty(corrected_results):
            return corrected, corrected_results
    return query, results


def correct_typos(store: Store, query: Query, indexes: Sequence[FtsTable] = ("conversation_fts",)) -> Query | None:
    """Return the query with unknown words replaced by similar known ones, or None if there are none."""
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
        corrected = (
            self._correct_filter(atom)
            if isinstance(atom, Filter)
            else self._correct_filter_name(atom) or self._correct_term(atom)
        )
        if corrected != atom:
            self._corrections[_format_atom(atom)] = _format_atom(corrected)
        return corrected

    # ── filters ───────────────────────────────────────────────────────────────────────────────────

    def _correct_filter(self, atom: Filter) -> Filter:
        """Return the filter with the most similar known value, or unchanged if its value is known."""
        values = self._vocabulary.values_for(atom.name) if atom.name in ("agent", "model", "tool", "tag") else ()
        typed = atom.value.lower()
        if len(typed) > MAX_WORD_CHARS or any(typed in value.lower() for value in values):
            return atom
        known = {value.lower(): 0 for value in values}
        nearest = _find_with_same_consonants(typed, known) or _find_nearest(typed, known, prefix=not atom.exact)
        return atom._replace(value=nearest) if nearest else atom

    @cached_property
    def _vocabulary(self) -> Vocabulary:
        return self._store.search.load_vocabulary()

    def _correct_filter_name(self, term: Term) -> Filter | None:
        """Return the filter that a term such as `agnet:claude` probably means, or None."""
        parts = _NAMED_VALUE.fullmatch(term.text)
        name = (
            _find_nearest(parts[1].lower(), dict.fromkeys(FILTERS, 0))
            if parts and len(parts[0]) <= MAX_WORD_CHARS
            else None
        )
        groups = Query.parse(f"{name}:{parts[2]}").groups if parts and name else ()
        return self._correct_filter(groups[0][0]) if groups and isinstance(groups[0][0], Filter) else None

    # ── words ─────────────────────────────────────────────────────────────────────────────────────

    def _correct_term(self, term: Term) -> Term:
        words = _WORD.findall(term.text)
        if not term.is_indexed or cjk_pattern().search(term.text) or not words:
            return term
        corrected = [self._correct_word(word, prefix=False) for word in words[:-1]]
        corrected.append(self._correct_word(words[-1], prefix=term.prefix))
        return term if corrected == words else term._replace(text=" ".join(corrected))

    def _correct_word(self, word: str, *, prefix: bool) -> str:
        plain = fold_accents(word)
        if (
            not MIN_WORD_CHARS <= len(plain) <= MAX_WORD_CHARS
            or not plain.isalpha()
            or self._count_known([plain], prefix)
        ):
            return word
        uses = self._count_known(list(generate_one_typo_variants(plain)), prefix)
        # A shorter prefix always has more uses, but that does not make it a better correction.
        longest = max((len(known) for known in uses if prefix), default=0)
        nearest = min(
            (NearWord(1, -count, known) for known, count in uses.items() if len(known) >= min(longest, len(plain))),
            default=None,
        )
        if nearest is None and len(plain) >= MIN_TWO_TYPOS_CHARS:
            return _find_nearest(plain, self._find_words_with_same_start(plain), prefix=prefix) or word
        return nearest.word if nearest else word

    def _count_known(self, words: Sequence[str], prefix: bool) -> Mapping[str, int]:
        """Return the words that occur in the archive, and how often."""
        uses: dict[str, int] = {}
        for index in self._indexes:
            sql = (_COUNT_PREFIXES if prefix else _COUNT_WORDS).format(index)
            for word, count in self._store.rows(sql, encode(list(words)).decode()):
                uses[word] = uses.get(word, 0) + count
        in_titles = self._title_prefixes if prefix else self._title_words
        return uses | {word: uses.get(word, 0) + 1 for word in in_titles.intersection(words)}

    def _find_words_with_same_start(self, word: str) -> Mapping[str, int]:
        """Return the known words that begin with the same two letters, and how often they occur."""
        start = word[:2]
        uses = {known: 1 for known in self._title_words if known.startswith(start)}
        for index in self._indexes:
            uses.update(
                self._store.rows(
                    _SELECT_WORDS_BETWEEN.format(index), start, start + _LAST_CHARACTER, MAX_WORDS_COMPARED
                )
            )
        return uses

    @cached_property
    def _title_words(self) -> frozenset[str]:
        """Return the words of the newest titles, which are not in the index. A search for tool calls needs none."""
        if "conversation_fts" not in self._indexes:
            return frozenset()
        titles = self._store.rows(_SELECT_TITLES, MAX_TITLES_READ)
        return frozenset(word for (title,) in titles for word in _WORD.findall(fold_accents(title)))

    @cached_property
    def _title_prefixes(self) -> frozenset[str]:
        return frozenset(word[:end] for word in self._title_words for end in range(MIN_WORD_CHARS - 1, len(word) + 1))


# ── similar words ─────────────────────────────────────────────────────────────────────────────────


def generate_one_typo_variants(word: str) -> Iterator[str]:
    """Generate the words with one letter added, removed or replaced, or with two letters swapped."""
    letters = next((alphabet for alphabet in _ALPHABETS if word[0] in alphabet), "".join(dict.fromkeys(word)))
    for position in range(len(word) + 1):
        before, after = word[:position], word[position:]
        yield from (before + letter + after for letter in letters)
        if after:
            yield before + after[1:]
            yield from (before + letter + after[1:] for letter in letters if letter != after[0])
        if len(after) > 1 and after[0] != after[1]:
            yield before + after[1] + after[0] + after[2:]


def _find_nearest(word: str, known: Mapping[str, int], *, prefix: bool = False) -> str | None:
    """Return the most similar known word, or None if all have more than two typos, or one in a short word.

    `known` maps words to how often they occur. Of equally similar words, the most frequent one wins.
    """
    max_distance = 2 if len(word) >= MIN_TWO_TYPOS_CHARS else 1
    pairs = _letter_pairs(word)
    best: NearWord | None = None
    for candidate, count in known.items():
        # A typo changes at most three pairs of letters. Words that share too few pairs are skipped early.
        if abs(len(candidate) - len(word)) > max_distance and not (prefix and len(candidate) > len(word)):
            continue
        if len(pairs & _letter_pairs(candidate)) < len(pairs) - 3 * max_distance:
            continue
        distance = min(
            _edit_distance(word, start, max_distance) for start in _list_prefixes(candidate, len(word), prefix)
        )
        near = NearWord(distance, -count, candidate)
        if distance <= max_distance and (best is None or near < best):
            best = near
    return best.word if best else None


def _find_with_same_consonants(word: str, known: Iterable[str]) -> str | None:
    """Return the known word with the same consonants, or None. It corrects `clod` to `claude`, not to `codex`.

    People who know a name only by ear often misspell its vowels.
    """
    consonants = _VOWELS.sub("", word)
    if len(consonants) < 2:
        return None
    return next((candidate for candidate in known if _VOWELS.sub("", candidate) == consonants), None)


def _list_prefixes(word: str, length: int, prefix: bool) -> set[str]:
    return {word[: length + difference] for difference in (-1, 0, 1)} if prefix else {word}


def _letter_pairs(word: str) -> set[str]:
    return {word[index : index + 2] for index in range(len(word) - 1)}


def _edit_distance(left: str, right: str, max_distance: int) -> int:
    """Return the number of typos between two words, or `max_distance + 1` if there are more than that."""
    previous: list[int] = []
    row = list(range(len(right) + 1))
    for i, left_letter in enumerate(left):
        before_previous, previous, row = previous, row, [i + 1]
        for j, right_letter in enumerate(right):
            distance = min(previous[j + 1] + 1, row[j] + 1, previous[j] + (left_letter != right_letter))
            if before_previous and j and left_letter == right[j - 1] and left[i - 1] == right_letter:
                distance = min(distance, before_previous[j - 1] + 1)
            row.append(distance)
        if min(row) > max_distance:
            return max_distance + 1
    return row[-1]


def _format_atom(atom: Atom) -> str:
    if isinstance(atom, Filter):
        return f"{atom.name}:{atom.value}"
    return atom.text + "…" * atom.prefix
