"""This module compares what a model saw before a compaction with what it saw after it.

A compaction replaces everything before it, back to the previous one, by a summary. Whether the summary names a prompt,
a file or a decision is found by its words, so that it is a hint and no proof.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from store.conversations.tool_calls import iter_session_calls
from store.errors import NotFound
from store.formats.changed_files import resolve_path
from store.formats.file_changes import find_changes, find_paths
from store.model.compaction import Compaction, Decision, DroppedFile, DroppedTurn
from store.model.entry import Entry, ToolCall
from store.model.session import Session, entry_id

if TYPE_CHECKING:
    from store.store import Store

MAX_DECISIONS = 50
"""Limits the decisions that are listed for one compaction."""

MAX_CHECKED_CHARACTERS = 20_000
"""Limits the text of a message in which decisions are looked for."""

_COMPACTION_SEQS = "select seq from entries where session = ? and kind = 'compaction' order by seq"
_WORD = re.compile(r"\w{4,}")
_COMMON_WORDS = frozenset(
    "about after again also been before could does done from have here into just like make more need only over please"
    " should some that their them then there these they this very want what when where which will with would".split()
)
_SENTENCE = re.compile(r"[^.!?\n]{8,300}[.!?]?")
_DECISION = re.compile(
    r"\b(?:decid\w*|decision|agreed|settled on|instead of|rather than|from now on|let'?s (?:use|keep|go)|"
    r"we(?:'ll| will| should) (?:use|keep)|must(?: not)?|never|always|do not|don't)\b",
    re.IGNORECASE,
)
_ENOUGH_WORDS = 0.5
"""Is the share of the words of a text that a summary must have to name it."""


def list_compactions(store: Store, session: Session) -> list[Compaction]:
    """Return the compactions of a session, in order."""
    with store.snapshot():
        seqs = [seq for (seq,) in store.rows(_COMPACTION_SEQS, session.key)]
        files = _find_files(store, session) if seqs else []
        return [
            _read_compaction(store, session, number, start, seq, files)
            for number, (start, seq) in enumerate(pairwise([-1, *seqs]), 1)
        ]


def get_compaction(store: Store, session: Session, number: int) -> Compaction:
    """Return the compaction with that number, counted from 1."""
    compactions = list_compactions(store, session)
    if not 1 <= number <= len(compactions):
        found = f"The last one is {len(compactions)}." if compactions else "The session has none."
        raise NotFound(f"No such compaction: {number}. {found}")
    return compactions[number - 1]


class _FileUse(NamedTuple):
    seq: int
    turn: int
    path: str
    is_change: bool


def _find_files(store: Store, session: Session) -> list[_FileUse]:
    uses = []
    for call in iter_session_calls(store, session.key):
        if call.entry is not None:
            seq, is_change = int(call.entry.rpartition("#")[2]), bool(find_changes(call.name, call.arguments))
            for path in find_paths(call.name, call.arguments):
                uses.append(_FileUse(seq, call.turn, resolve_path(path, session.cwd, session.cwd), is_change))
    return uses


def _read_compaction(
    store: Store, session: Session, number: int, start: int, seq: int, files: Sequence[_FileUse]
) -> Compaction:
    entry = store.chains.entry(session.key, seq)
    dropped = store.chains.entries(session.key, start + 1, seq - 1)
    following = store.chains.entries(session.key, seq + 1, seq + _ENTRIES_AFTER)
    named = _Summary(entry.text)
    uses = [use for use in files if start < use.seq < seq]
    return Compaction(
        number,
        entry_id(session.id, seq),
        seq,
        entry.turn,
        entry.created_at,
        entry.text,
        _count_context(reversed(dropped)),
        _count_context(following),
        tuple(_list_turns(dropped, uses, named)),
        tuple(_list_files(uses, named)),
        tuple(_list_decisions(dropped, named)),
    )


_ENTRIES_AFTER = 200
"""Limits the entries after a compaction that are searched for the next model call."""


def _count_context(entries: Iterable[Entry]) -> int:
    """Return the tokens that the first model call among the entries got."""
    calls = (entry.tokens for entry in entries if entry.tokens and entry.tokens.total > entry.tokens.output)
    return next((tokens.total - tokens.output for tokens in calls), 0)


def _list_turns(entries: Sequence[Entry], uses: Sequence[_FileUse], named: _Summary) -> Iterator[DroppedTurn]:
    turns: dict[int, list[Entry]] = {}
    for entry in entries:
        turns.setdefault(entry.turn, []).append(entry)
    for n, members in turns.items():
        prompt = members[0].text if n and members[0].role == "user" else ""
        calls = sum(isinstance(part, ToolCall) for entry in members for part in entry.parts)
        if n or calls:
            files = len({use.path for use in uses if use.turn == n})
            yield DroppedTurn(n, prompt, calls, files, named.names_text(prompt))


def _list_files(uses: Sequence[_FileUse], named: _Summary) -> Iterator[DroppedFile]:
    for path in dict.fromkeys(use.path for use in uses):
        own = [use for use in uses if use.path == path]
        turns = tuple(dict.fromkeys(use.turn for use in own))
        yield DroppedFile(path, turns, any(use.is_change for use in own), named.names_path(path))


def _list_decisions(entries: Sequence[Entry], named: _Summary) -> Iterable[Decision]:
    found: dict[str, Decision] = {}
    for entry in entries:
        if entry.kind != "message" or entry.role not in ("user", "assistant"):
            continue
        for match in _SENTENCE.finditer(entry.text[:MAX_CHECKED_CHARACTERS]):
            sentence = " ".join(match[0].split())
            if sentence not in found and _DECISION.search(sentence):
                found[sentence] = Decision(entry.turn, sentence, named.names_text(sentence))
            if len(found) == MAX_DECISIONS:
                return found.values()
    return found.values()


class _Summary:
    """Tells whether a summary names something."""

    def __init__(self, text: str) -> None:
        self._text = text.casefold()
        self._words = set(_significant_words(text))

    def names_text(self, text: str) -> bool:
        """Return whether the summary has the text itself, or most of its words."""
        stripped = text.strip().casefold()
        if not stripped:
            return False
        if stripped in self._text:
            return True
        words = set(_significant_words(text[:MAX_CHECKED_CHARACTERS]))
        return bool(words) and len(words & self._words) >= _ENOUGH_WORDS * len(words)

    def names_path(self, path: str) -> bool:
        """Return whether the summary has the path, or the name of the file as a word."""
        name = path.rstrip("/").rpartition("/")[2].casefold()
        return bool(name) and re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", self._text) is not None


def _significant_words(text: str) -> Iterator[str]:
    """Yield the words that tell one text from another, without the ending of a plural or of a verb."""
    return (word.rstrip("s") for word in _WORD.findall(text.casefold()) if word not in _COMMON_WORDS)
