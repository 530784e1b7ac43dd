"""Shelf: facts, which outlive the conversation that taught them. A fact is one line of text; it knows where it was
learnt and who may know it, and is retired rather than deleted, so that its history in the journal stays whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import chain
from typing import TYPE_CHECKING, Any

from store.conversations.sessions import UNSEEN
from store.errors import BadValue, ChangedMeanwhile, NotFound, Refused, StoreError
from store.model.knowledge import Edit, Fact, user_scope
from store.model.session import GLOBAL_SCOPE, Session, entry_id
from store.paths import config_file, load_config
from store.text.validate import encode, utc_timestamp, validate_id, validate_integer, validate_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from store.edits.journal import PendingEdit
    from store.store import Store

MAX_FACT_CHARS = 1_000_000
DEFAULT_MAX_LINES = 200
"""Facts of one scope before a person is asked to consolidate them, unless the config file says otherwise."""

_SELECT_FACTS = """
    select facts.id, facts.text, facts.scope, facts.category, sessions.id, facts.entry_seq, facts.foreign_place,
        facts.foreign_text, facts.created_at, facts.updated_at, facts.retired_at
    from facts left join sessions on sessions.key = facts.session
"""
_SELECT_OWN_FACTS = (
    f"{_SELECT_FACTS} where facts.scope = ? and facts.foreign_place = '' and facts.retired_at is null order by facts.id"
)
_SELECT_SESSIONS_OF_FACTS = """
    with touched as (select session, scope from facts where id in (select value from json_each(?)))
    select session from touched where session is not null
    union
    select key from sessions where id in (select substr(scope, 9) from touched where scope glob 'session:*')
"""

_NOTHING_SEEN: Mapping[int, str] = {}

Consolidator = Callable[[list[str]], str | Iterable[str]]
"""Says the same lines shorter; often a model, so it may be slow and it may fail."""


@dataclass(frozen=True, slots=True)
class FactsDiff:
    """What a new text does to the facts of a scope."""

    kept: tuple[Fact, ...]
    edited: tuple[tuple[Fact, str], ...]
    "The fact as it was, and what it is to say."
    added: tuple[str, ...]
    retired: tuple[Fact, ...]

    @property
    def change_count(self) -> int:
        return len(self.edited) + len(self.added) + len(self.retired)

    @property
    def text(self) -> str:
        """As a unified diff of the blob before and after; empty when nothing changes."""
        before = {fact.id: fact.text for fact in (*self.kept, *(fact for fact, _ in self.edited), *self.retired)}
        gone = {fact.id for fact in self.retired}
        after = before | {fact.id: line for fact, line in self.edited}
        stay = [after[number] for number in sorted(after) if number not in gone]
        old = [before[number] for number in sorted(before)]
        return "\n".join(unified_diff(old, [*stay, *self.added], "facts before", "facts after", lineterm=""))


@dataclass(frozen=True, slots=True)
class LearnResult:
    facts: tuple[Fact, ...]
    "What was new, as it stands now: a consolidation may have reworded or retired it."
    fact_count: int
    "How many facts of our own the scope holds now."
    over_limit: bool


class Facts:
    def __init__(self, store: Store) -> None:
        self._store = store

    # ── learning ──────────────────────────────────────────────────────────────────────────────────

    def learn(
        self,
        text: str,
        *,
        session: Session | None = None,
        entry_seq: int | None = None,
        scope: str = GLOBAL_SCOPE,
        category: str = "",
        max_lines: int | None = None,
        consolidate: Consolidator | None = None,
    ) -> LearnResult:
        """Each line that is not blank becomes a fact of the scope, unless the scope knows it already.

        With more than `max_lines` facts then, `consolidate` is shown them all and its answer takes their place, as an
        edit of its own. Should it fail, what was learnt stays. Facts read from a foreign store are neither counted nor
        consolidated: they are not ours to shorten.
        """
        lines = dict.fromkeys(split_lines(text))
        if not lines:
            raise BadValue("There is nothing to learn: the text is empty.")
        if max_lines is not None and validate_integer(max_lines, "limit on lines") < 1:
            raise BadValue("The limit on lines must be 1 or more.")
        origin = self._check_origin(session, entry_seq) | {"category": _join_lines(category, "category")}
        sessions = {*self._list_sessions_of_scope(scope), *([session.key] if session else [])}
        with self._store.journal.edit("learn", *sorted(sessions)) as edit:
            known = {fact.text for fact in self._list_own(scope)}
            ids = [_insert_fact(edit, line, scope, **origin) for line in lines if line not in known]
        if max_lines is not None and consolidate is not None and len(self._list_own(scope)) > max_lines:
            self._run_consolidator(consolidate, scope)
        count = len(self._list_own(scope))
        return LearnResult(tuple(map(self.get, ids)), count, max_lines is not None and count > max_lines)

    def _check_origin(self, session: Session | None, entry_seq: int | None) -> dict[str, int | None]:
        if session is None:
            if entry_seq is not None:
                raise BadValue("An entry is named without the session it belongs to.")
            return {"session": None, "entry_seq": None}
        key = self._store.sessions.by_key(session.key).key
        if entry_seq is not None:
            self._store.chains.entry(key, validate_integer(entry_seq, "entry"))
        return {"session": key, "entry_seq": entry_seq}

    def _run_consolidator(self, consolidate: Consolidator, scope: str) -> None:
        """Outside any transaction of ours, since a model may think for a minute and others want to write."""
        shown = self._list_own(scope)
        try:
            lines = split_lines(consolidate([fact.text for fact in shown]))
        except Exception as reason:
            said = str(reason) or type(reason).__name__
            raise StoreError(f"What was learnt is kept, but could not be consolidated: {said}") from reason
        if not lines:
            raise StoreError("What was learnt is kept, but could not be consolidated: the answer was empty.")
        self._apply_diff(_diff_facts(shown, lines), scope)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def current(self, scopes: Sequence[str] | None = (GLOBAL_SCOPE,), *, retired: bool = False) -> list[Fact]:
        """Of just these scopes, or of every scope when None; `retired` adds those that no longer stand."""
        conditions, values = [] if retired else ["facts.retired_at is null"], []
        if scopes is not None:
            values = [validate_scope(scope) for scope in ([scopes] if isinstance(scopes, str) else scopes)]
            conditions.append(f"facts.scope in ({', '.join('?' * len(values))})")
        where = " and ".join(conditions) or "1"
        return list(map(_fact_from_row, self._store.rows(f"{_SELECT_FACTS} where {where} order by facts.id", *values)))

    def visible_to(self, *, source: str = "", app: str = "", user: str = "", session: str = "") -> list[Fact]:
        """What an agent may be told: what everybody may know, and what is of exactly these."""
        scopes = [GLOBAL_SCOPE]
        scopes += [f"source:{source}"] if source else []
        scopes += [f"app:{app}"] if app else []
        scopes += [user_scope(app, user)] if user else []
        scopes += [f"session:{session}"] if session else []
        return self.current(scopes)

    def blob(self, scope: str = GLOBAL_SCOPE) -> str:
        """The facts of our own, one a line, oldest first: a line set in the middle of the blob comes back last."""
        return "\n".join(fact.text for fact in self._list_own(scope))

    def scopes(self) -> list[tuple[str, int]]:
        """With how many facts stand in each; the one for everybody first, whether there are any or not."""
        rows = self._store.rows(
            "select scope, count(*) from facts where retired_at is null group by scope order by scope"
        )
        found = dict(rows)
        return [(GLOBAL_SCOPE, found.pop(GLOBAL_SCOPE, 0)), *found.items()]

    def get(self, n: int) -> Fact:
        row = self._store.row(f"{_SELECT_FACTS} where facts.id = ?", validate_integer(n, "number of a fact"))
        if row is None:
            raise NotFound(f"There is no fact {n}.")
        return _fact_from_row(row)

    def history(self, n: int) -> list[Edit]:
        """Oldest first; also of a fact whose learning was undone."""
        edits = self._store.journal.list_edits_of_row("facts", validate_integer(n, "number of a fact"))
        if not edits:
            self.get(n)
        return edits

    def _list_own(self, scope: str) -> list[Fact]:
        return list(map(_fact_from_row, self._store.rows(_SELECT_OWN_FACTS, validate_scope(scope))))

    # ── editing ───────────────────────────────────────────────────────────────────────────────────

    def edit(self, n: int, text: str, *, seen: str = UNSEEN, category: str | None = None) -> Fact:
        """A fact is one line: line breaks in the text become spaces."""
        line = _validate_fact_text(text)
        with self._begin_edit("edit fact", [n]) as edit:
            fact = self._get_current(n, seen)
            kind = fact.category if category is None else _join_lines(category, "category")
            if (line, kind) != (fact.text, fact.category):
                edit.update("facts", n, text=line, category=kind, updated_at=utc_timestamp())
            return self.get(n)

    def retire(self, n: int, *, seen: str = UNSEEN) -> Fact:
        return self.retire_all([n], seen={n: seen})[0]

    def retire_all(self, ids: Sequence[int], *, seen: Mapping[int, str] = _NOTHING_SEEN) -> list[Fact]:
        """One edit for the lot. `seen` are the texts that were shown, by their number."""
        with self._begin_edit("retire fact", ids) as edit:
            at = utc_timestamp()
            for n in dict.fromkeys(ids):
                self._get_current(n, seen.get(n, UNSEEN))
                _retire_fact(edit, n, at)
            return list(map(self.get, ids))

    def restore(self, n: int) -> Fact:
        """A retired fact stands again."""
        with self._begin_edit("restore fact", [n]) as edit:
            fact = self.get(n)
            if fact.retired_at is None:
                raise Refused(f"Fact {n} is not retired.")
            if any(own.text == fact.text for own in self._list_own(fact.scope)):
                raise Refused("Another fact of that scope says the same already.")
            edit.update("facts", n, retired_at=None, updated_at=utc_timestamp())
            return self.get(n)

    def categorise(self, ids: Sequence[int], category: str, *, seen: Mapping[int, str] = _NOTHING_SEEN) -> list[Fact]:
        """One edit for the lot. `seen` are the categories that were shown, by the fact's number."""
        kind = _join_lines(category, "category")
        with self._begin_edit("categorise fact", ids) as edit:
            for n in dict.fromkeys(ids):
                fact = self._get_current(n)
                if seen.get(n, fact.category) != fact.category:
                    raise ChangedMeanwhile(f"The category of fact {n} was changed meanwhile.", fact.category)
                if kind != fact.category:
                    edit.update("facts", n, category=kind, updated_at=utc_timestamp())
            return list(map(self.get, ids))

    def merge(self, ids: Sequence[int], text: str, *, seen: Mapping[int, str] = _NOTHING_SEEN) -> Fact:
        """The oldest of our own among them takes the text and keeps its origin; the others are retired."""
        line = _validate_fact_text(text)
        with self._begin_edit("merge facts", ids) as edit:
            facts = [self._get_current(n, seen.get(n, UNSEEN)) for n in sorted(set(ids))]
            if len(facts) < 2:
                raise BadValue("Merging takes two facts or more.")
            if len({fact.scope for fact in facts}) > 1:
                raise Refused("Facts of different scopes cannot be merged: not everybody may know each of them.")
            at = utc_timestamp()
            merged, *others = sorted(facts, key=lambda fact: (bool(fact.foreign_place), fact.id))
            edit.update("facts", merged.id, text=line, updated_at=at)
            for fact in others:
                _retire_fact(edit, fact.id, at)
            return self.get(merged.id)

    def _get_current(self, n: int, seen: str = UNSEEN) -> Fact:
        fact = self.get(n)
        if fact.retired_at is not None:
            raise Refused(f"Fact {n} is retired; undo that first, or learn it anew.")
        if seen is not UNSEEN and seen != fact.text:
            raise ChangedMeanwhile(f"Fact {n} was changed meanwhile.", fact.text)
        return fact

    # ── consolidating ─────────────────────────────────────────────────────────────────────────────

    def diff(self, text: str | Iterable[str], scope: str = GLOBAL_SCOPE) -> FactsDiff:
        """What `consolidate` would do; nothing is written."""
        return _diff_facts(self._list_own(scope), split_lines(text))

    def consolidate(
        self, text_or_lines: str | Iterable[str], scope: str = GLOBAL_SCOPE, *, seen: str = UNSEEN
    ) -> FactsDiff:
        """Make the text the facts of our own in that scope: equal lines keep their fact, a line that took another's
        place rewords it, the rest is retired or new. `seen` is the blob that was edited."""
        lines = split_lines(text_or_lines)
        with self._store.transaction():
            if seen is not UNSEEN and seen != (current := self.blob(scope)):
                raise ChangedMeanwhile("The facts were changed meanwhile.", current)
            return self._apply_diff(self.diff(lines, scope), scope)

    def _apply_diff(self, difference: FactsDiff, scope: str) -> FactsDiff:
        leaving = [*(fact for fact, _ in difference.edited), *difference.retired]
        with self._begin_edit("consolidate facts", [fact.id for fact in leaving], scope) as edit:
            standing = {fact.id: fact.text for fact in self._list_own(scope)}
            if any(standing.get(fact.id) != fact.text for fact in leaving):
                raise ChangedMeanwhile("The facts were changed while they were consolidated.", self.blob(scope))
            at = utc_timestamp()
            for fact, line in difference.edited:
                edit.update("facts", fact.id, text=line, updated_at=at)
            for fact in difference.retired:
                _retire_fact(edit, fact.id, at)
            known = set(standing.values())
            for line in difference.added:
                if line not in known:
                    _insert_fact(edit, line, scope)
        return difference

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────

    def purge_session(self, session: int) -> None:
        """Within a purge: what was that session's alone goes; what it taught others stays, and no longer says where."""
        own = "delete from facts where scope = (select 'session:' || id from sessions where key = ?)"
        self._store.connection.execute(own, (session,))
        self._store.connection.execute(
            "update facts set session = null, entry_seq = null where session = ?", (session,)
        )

    def _begin_edit(
        self, kind: str, ids: Iterable[int], scope: str = GLOBAL_SCOPE
    ) -> AbstractContextManager[PendingEdit]:
        """Names the sessions concerned, so that a purge finds every edit that speaks of them."""
        touched = {key for (key,) in self._store.rows(_SELECT_SESSIONS_OF_FACTS, encode(list(ids)).decode())}
        return self._store.journal.edit(kind, *sorted(touched.union(self._list_sessions_of_scope(scope))))

    def _list_sessions_of_scope(self, scope: str) -> list[int]:
        kind, _, name = validate_scope(scope).partition(":")
        return [self._store.sessions.get(name).key] if kind == "session" else []


def read_max_lines() -> int:
    """How many facts a scope may hold before it should be consolidated: `[facts] max_lines` of the config file."""
    section = load_config().get("facts", {})
    limit = section.get("max_lines", DEFAULT_MAX_LINES) if isinstance(section, dict) else DEFAULT_MAX_LINES
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise StoreError(f"In {config_file()}, [facts] max_lines must be a whole number, 1 or more.")
    return limit


# ── scopes ────────────────────────────────────────────────────────────────────────────────────────


def validate_scope(scope: str) -> str:
    kind, _, name = validate_id(scope, "scope").partition(":")
    named = name.partition("/")[2] if kind == "user" else name
    if scope != GLOBAL_SCOPE and not (named and kind in ("source", "app", "user", "session")):
        shapes = "global, source:NAME, app:NAME, user:APP/USER or session:ID"
        raise BadValue(f"There is no scope {scope[:80]!r}; say {shapes}.")
    return scope


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────


def split_lines(text: str | Iterable[str]) -> list[str]:
    """The lines that say something, each as a fact keeps it."""
    if not isinstance(text, Iterable):
        raise BadValue(f"Facts must be text or lines of text, not {type(text).__name__}.")
    pieces = [text] if isinstance(text, str) else text
    lines = [line.strip() for piece in pieces for line in validate_text(piece, "fact").splitlines()]
    if any(len(line) > MAX_FACT_CHARS for line in lines):
        raise BadValue(f"A fact may have {MAX_FACT_CHARS:,} characters, and one of these has more.")
    return [line for line in lines if line]


def _validate_fact_text(text: str) -> str:
    line = _join_lines(text, "fact")
    if not line:
        raise BadValue("The fact is empty; retire it instead.")
    if len(line) > MAX_FACT_CHARS:
        raise BadValue(f"A fact may have {MAX_FACT_CHARS:,} characters, and this has more.")
    return line


def _join_lines(text: str, what: str) -> str:
    return " ".join(filter(None, map(str.strip, validate_text(text, what).splitlines())))


def _diff_facts(current: Sequence[Fact], wanted: Sequence[str]) -> FactsDiff:
    """Line by line. A line that only moved keeps its fact, and one that is said twice is kept once."""
    kept: list[Fact] = []
    gaps: list[tuple[Sequence[Fact], Sequence[str]]] = []
    matcher = SequenceMatcher(None, [fact.text for fact in current], wanted, autojunk=False)
    for tag, first, last, start, stop in matcher.get_opcodes():
        if tag == "equal":
            kept += current[first:last]
        else:
            gaps.append((current[first:last], wanted[start:stop]))
    fresh = {line for _, lines in gaps for line in lines} - {fact.text for fact in kept}
    for fact in chain.from_iterable(facts for facts, _ in gaps):
        if fact.text in fresh:
            kept.append(fact)
            fresh.remove(fact.text)
    edited: list[tuple[Fact, str]] = []
    added: list[str] = []
    retired: list[Fact] = []
    staying = {fact.id for fact in kept}
    for facts, lines in gaps:
        free = [fact for fact in facts if fact.id not in staying]
        new = [line for line in dict.fromkeys(lines) if line in fresh]
        fresh.difference_update(new)
        edited += zip(free, new, strict=False)
        added += new[len(free) :]
        retired += free[len(new) :]
    return FactsDiff(tuple(kept), tuple(edited), tuple(added), tuple(retired))


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────


def _insert_fact(edit: PendingEdit, line: str, scope: str, **origin: Any) -> int:
    at = utc_timestamp()
    return int(edit.insert("facts", text=line, scope=scope, created_at=at, updated_at=at, **origin))


def _retire_fact(edit: PendingEdit, n: int, at: str) -> None:
    edit.update("facts", n, retired_at=at, updated_at=at)


def _fact_from_row(row: Sequence[Any]) -> Fact:
    number, text, scope, category, session_id, seq, *rest = row
    entry = entry_id(session_id, seq) if session_id is not None and seq is not None else None
    return Fact(number, text, scope, category, session_id, entry, *rest)
