"""This module stores facts: lines of text that outlive the conversation in which they were learnt.

A fact has an origin and a scope. It is retired instead of deleted, so that its history in the journal stays complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import chain
from typing import TYPE_CHECKING, Any

from store.config import require_setting
from store.conversations.sessions import UNSEEN
from store.errors import BadValue, ChangedMeanwhile, NotFound, Refused, StoreError
from store.model.knowledge import Edit, Fact, user_scope
from store.model.session import GLOBAL_SCOPE, TEAM_SCOPE, Session, entry_id
from store.text.validate import encode, utc_timestamp, validate_id, validate_integer, validate_text

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from store.edits.journal import PendingEdit
    from store.store import Store

MAX_FACT_CHARS = 1_000_000

_SELECT_FACTS = """
    select facts.id, facts.text, facts.scope, facts.category, sessions.id, facts.entry_seq, facts.foreign_place,
        facts.foreign_text, facts.created_at, facts.updated_at, facts.retired_at
    from facts left join sessions on sessions.key = facts.session
"""
_SELECT_OWN_FACTS = (
    f"{_SELECT_FACTS} where facts.scope = ? and facts.foreign_place = '' and facts.retired_at is null order by facts.id"
)
_SELECT_SESSIONS_OF_FACTS = """
    with chosen as (select session, scope from facts where id in (select value from json_each(?)))
    select session from chosen where session is not null
    union
    select key from sessions where id in (select substr(scope, 9) from chosen where scope glob 'session:*')
"""

_NOTHING_SEEN: Mapping[int, str] = {}

Consolidator = Callable[[list[str]], str | Iterable[str]]
"""Returns a shorter version of some lines. It is often a model, so it may be slow, and it may fail."""


@dataclass(frozen=True, slots=True)
class FactsDiff:
    """Describes how a new text changes the facts of a scope."""

    kept: tuple[Fact, ...]
    edited: tuple[tuple[Fact, str], ...]
    "Holds pairs of a fact and its new text."
    added: tuple[str, ...]
    retired: tuple[Fact, ...]

    @property
    def change_count(self) -> int:
        return len(self.edited) + len(self.added) + len(self.retired)

    @property
    def text(self) -> str:
        """Return the change as a unified diff. It is empty when nothing changes."""
        before = {fact.id: fact.text for fact in (*self.kept, *(fact for fact, _ in self.edited), *self.retired)}
        retired_ids = {fact.id for fact in self.retired}
        after = before | {fact.id: line for fact, line in self.edited}
        old_lines = [before[fact_id] for fact_id in sorted(before)]
        new_lines = [after[fact_id] for fact_id in sorted(after) if fact_id not in retired_ids]
        new_lines += self.added
        return "\n".join(unified_diff(old_lines, new_lines, "facts before", "facts after", lineterm=""))


@dataclass(frozen=True, slots=True)
class LearnResult:
    """Describes what `learn` did."""

    facts: tuple[Fact, ...]
    "Holds the new facts as they are now. A consolidation may have reworded or retired them."
    fact_count: int
    "Counts the scope's own facts."
    over_limit: bool


class Facts:
    """Reads and edits facts. This is the collection `store.facts`.

    "Own" facts are those that were learnt here; others were read from a foreign store.
    """

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
        """Make each line that is not blank a fact of the scope, unless the scope has it already.

        If the scope then has more than `max_lines` facts, they are passed to `consolidate`, and its answer replaces
        them in a separate edit. If that fails, the new facts stay. Facts that were read from a foreign store are
        neither counted nor consolidated.
        """
        lines = dict.fromkeys(split_lines(text))
        if not lines:
            raise BadValue("The text is empty.")
        if max_lines is not None and validate_integer(max_lines, "limit on lines") < 1:
            raise BadValue("The limit on lines must be 1 or more.")
        origin = self._check_origin(session, entry_seq) | {"category": _join_lines(category, "category")}
        sessions = {*self._list_sessions_of_scope(scope), *([session.key] if session else [])}
        with self._store.journal.edit("learn", *sorted(sessions)) as edit:
            known = {fact.text for fact in self._list_own(scope)}
            ids = [insert_fact(edit, line, scope, **origin) for line in lines if line not in known]
        if max_lines is not None and consolidate is not None and len(self._list_own(scope)) > max_lines:
            self._run_consolidator(consolidate, scope)
        count = len(self._list_own(scope))
        return LearnResult(tuple(map(self.get, ids)), count, max_lines is not None and count > max_lines)

    def _check_origin(self, session: Session | None, entry_seq: int | None) -> dict[str, int | None]:
        if session is None:
            if entry_seq is not None:
                raise BadValue("An entry needs a session. Name the session as well.")
            return {"session": None, "entry_seq": None}
        key = self._store.sessions.by_key(session.key).key
        if entry_seq is not None:
            self._store.chains.entry(key, validate_integer(entry_seq, "entry"))
        return {"session": key, "entry_seq": entry_seq}

    def _run_consolidator(self, consolidate: Consolidator, scope: str) -> None:
        """Consolidate the facts of a scope. It runs outside any transaction because a model may take a minute."""
        facts = self._list_own(scope)
        try:
            lines = split_lines(consolidate([fact.text for fact in facts]))
        except Exception as error:
            reason = str(error) or type(error).__name__
            raise StoreError(f"The facts were saved, but not consolidated: {reason}") from error
        if not lines:
            raise StoreError("The facts were saved, but not consolidated: the answer was empty.")
        self._apply_diff(_diff_facts(facts, lines), scope)

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    def current(self, scopes: Sequence[str] | None = (GLOBAL_SCOPE,), *, retired: bool = False) -> list[Fact]:
        """Return the facts of these scopes, or of every scope if None. `retired` includes retired facts."""
        conditions, values = [] if retired else ["facts.retired_at is null"], []
        if scopes is not None:
            values = [validate_scope(scope) for scope in ([scopes] if isinstance(scopes, str) else scopes)]
            conditions.append(f"facts.scope in ({', '.join('?' * len(values))})")
        where = " and ".join(conditions) or "1"
        return list(map(_fact_from_row, self._store.rows(f"{_SELECT_FACTS} where {where} order by facts.id", *values)))

    def visible_to(self, *, source: str = "", app: str = "", user: str = "", session: str = "") -> list[Fact]:
        """Return the facts that an agent may know: the global ones, those of the team, and those of these scopes."""
        scopes = [GLOBAL_SCOPE, TEAM_SCOPE]
        scopes += [f"source:{source}"] if source else []
        scopes += [f"app:{app}"] if app else []
        scopes += [user_scope(app, user)] if user else []
        scopes += [f"session:{session}"] if session else []
        return self.current(scopes)

    def blob(self, scope: str = GLOBAL_SCOPE) -> str:
        """Return the scope's own facts as lines, oldest first. So a line that is inserted in the middle comes last."""
        return "\n".join(fact.text for fact in self._list_own(scope))

    def scopes(self) -> list[tuple[str, int]]:
        """Return each scope with the number of its facts. The global scope comes first, even without facts."""
        rows = self._store.rows(
            "select scope, count(*) from facts where retired_at is null group by scope order by scope"
        )
        counts = dict(rows)
        return [(GLOBAL_SCOPE, counts.pop(GLOBAL_SCOPE, 0)), *counts.items()]

    def get(self, fact_id: int) -> Fact:
        row = self._store.row(f"{_SELECT_FACTS} where facts.id = ?", validate_integer(fact_id, "number of a fact"))
        if row is None:
            raise NotFound(f"No such fact: {fact_id}.")
        return _fact_from_row(row)

    def history(self, fact_id: int) -> list[Edit]:
        """Return the edits of a fact, oldest first. It works even if learning the fact was undone."""
        edits = self._store.journal.list_edits_of_row("facts", validate_integer(fact_id, "number of a fact"))
        if not edits:
            self.get(fact_id)
        return edits

    def _list_own(self, scope: str) -> list[Fact]:
        return list(map(_fact_from_row, self._store.rows(_SELECT_OWN_FACTS, validate_scope(scope))))

    # ── editing ───────────────────────────────────────────────────────────────────────────────────

    def edit(self, fact_id: int, text: str, *, seen: str = UNSEEN, category: str | None = None) -> Fact:
        """Change the text and category of a fact. Line breaks become spaces. `seen` is the text that was shown."""
        line = _validate_fact_text(text)
        with self._begin_edit("edit fact", [fact_id]) as edit:
            fact = self._get_current(fact_id, seen)
            new_category = fact.category if category is None else _join_lines(category, "category")
            if (line, new_category) != (fact.text, fact.category):
                edit.update("facts", fact_id, text=line, category=new_category, updated_at=utc_timestamp())
            return self.get(fact_id)

    def retire(self, fact_id: int, *, seen: str = UNSEEN) -> Fact:
        return self.retire_all([fact_id], seen={fact_id: seen})[0]

    def retire_all(self, ids: Sequence[int], *, seen: Mapping[int, str] = _NOTHING_SEEN) -> list[Fact]:
        """Retire several facts in one edit. `seen` maps facts to the texts that were shown."""
        with self._begin_edit("retire fact", ids) as edit:
            now = utc_timestamp()
            for fact_id in dict.fromkeys(ids):
                self._get_current(fact_id, seen.get(fact_id, UNSEEN))
                retire_fact(edit, fact_id, now)
            return list(map(self.get, ids))

    def restore(self, fact_id: int) -> Fact:
        """Make a retired fact current again."""
        with self._begin_edit("restore fact", [fact_id]) as edit:
            fact = self.get(fact_id)
            if fact.retired_at is None:
                raise Refused(f"Fact {fact_id} is not retired.")
            if any(own.text == fact.text for own in self._list_own(fact.scope)):
                raise Refused("The scope already has a fact with this text.")
            edit.update("facts", fact_id, retired_at=None, updated_at=utc_timestamp())
            return self.get(fact_id)

    def categorise(self, ids: Sequence[int], category: str, *, seen: Mapping[int, str] = _NOTHING_SEEN) -> list[Fact]:
        """Set the category of several facts in one edit. `seen` maps facts to the categories that were shown."""
        new_category = _join_lines(category, "category")
        with self._begin_edit("categorise fact", ids) as edit:
            for fact_id in dict.fromkeys(ids):
                fact = self._get_current(fact_id)
                if seen.get(fact_id, fact.category) != fact.category:
                    raise ChangedMeanwhile(f"The category of fact {fact_id} was changed elsewhere.", fact.category)
                if new_category != fact.category:
                    edit.update("facts", fact_id, category=new_category, updated_at=utc_timestamp())
            return list(map(self.get, ids))

    def merge(self, ids: Sequence[int], text: str, *, seen: Mapping[int, str] = _NOTHING_SEEN) -> Fact:
        """Merge facts into one. The oldest own fact gets the text and keeps its origin; the others are retired."""
        line = _validate_fact_text(text)
        with self._begin_edit("merge facts", ids) as edit:
            facts = [self._get_current(fact_id, seen.get(fact_id, UNSEEN)) for fact_id in sorted(set(ids))]
            if len(facts) < 2:
                raise BadValue("Choose at least two facts to merge.")
            if len({fact.scope for fact in facts}) > 1:
                raise Refused("Facts of different scopes cannot be merged. Choose facts of one scope.")
            now = utc_timestamp()
            merged, *others = sorted(facts, key=lambda fact: (bool(fact.foreign_place), fact.id))
            edit.update("facts", merged.id, text=line, updated_at=now)
            for fact in others:
                retire_fact(edit, fact.id, now)
            return self.get(merged.id)

    def _get_current(self, fact_id: int, seen: str = UNSEEN) -> Fact:
        fact = self.get(fact_id)
        if fact.retired_at is not None:
            raise Refused(f"Fact {fact_id} is retired. Restore it first.")
        if seen is not UNSEEN and seen != fact.text:
            raise ChangedMeanwhile(f"Fact {fact_id} was changed elsewhere.", fact.text)
        return fact

    # ── consolidating ─────────────────────────────────────────────────────────────────────────────

    def diff(self, text: str | Iterable[str], scope: str = GLOBAL_SCOPE) -> FactsDiff:
        """Return what `consolidate` would change, without changing anything."""
        return _diff_facts(self._list_own(scope), split_lines(text))

    def consolidate(
        self, text_or_lines: str | Iterable[str], scope: str = GLOBAL_SCOPE, *, seen: str = UNSEEN
    ) -> FactsDiff:
        """Replace the scope's own facts by the lines of a text.

        Equal lines keep their fact, and a line in the place of another one rewords it. The other facts are retired, and
        the other lines become new facts. `seen` is the blob that was edited.
        """
        lines = split_lines(text_or_lines)
        with self._store.transaction():
            if seen is not UNSEEN and seen != (current := self.blob(scope)):
                raise ChangedMeanwhile("The facts were changed elsewhere.", current)
            return self._apply_diff(self.diff(lines, scope), scope)

    def _apply_diff(self, diff: FactsDiff, scope: str) -> FactsDiff:
        changed = [*(fact for fact, _ in diff.edited), *diff.retired]
        with self._begin_edit("consolidate facts", [fact.id for fact in changed], scope) as edit:
            current = {fact.id: fact.text for fact in self._list_own(scope)}
            if any(current.get(fact.id) != fact.text for fact in changed):
                raise ChangedMeanwhile("The facts were changed while they were consolidated.", self.blob(scope))
            now = utc_timestamp()
            for fact, line in diff.edited:
                edit.update("facts", fact.id, text=line, updated_at=now)
            for fact in diff.retired:
                retire_fact(edit, fact.id, now)
            known = set(current.values())
            for line in diff.added:
                if line not in known:
                    insert_fact(edit, line, scope)
        return diff

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────

    def purge_session(self, session: int) -> None:
        """Delete the facts of a session's scope within a purge. Facts of other scopes only lose their origin."""
        delete_own = "delete from facts where scope = (select 'session:' || id from sessions where key = ?)"
        clear_origin = "update facts set session = null, entry_seq = null where session = ?"
        self._store.connection.execute(delete_own, (session,))
        self._store.connection.execute(clear_origin, (session,))

    def _begin_edit(
        self, kind: str, ids: Iterable[int], scope: str = GLOBAL_SCOPE
    ) -> AbstractContextManager[PendingEdit]:
        """Begin an edit that names the sessions of the facts, so that a purge of a session finds the edit."""
        sessions = {key for (key,) in self._store.rows(_SELECT_SESSIONS_OF_FACTS, encode(list(ids)).decode())}
        return self._store.journal.edit(kind, *sorted(sessions.union(self._list_sessions_of_scope(scope))))

    def _list_sessions_of_scope(self, scope: str) -> list[int]:
        kind, _, name = validate_scope(scope).partition(":")
        return [self._store.sessions.get(name).key] if kind == "session" else []


def read_max_lines() -> int:
    """Read `[facts] max_lines` from the config file: how many facts a scope may have before a person consolidates."""
    return require_setting("facts.max_lines", int)


# ── scopes ────────────────────────────────────────────────────────────────────────────────────────


def validate_scope(scope: str) -> str:
    kind, _, name = validate_id(scope, "scope").partition(":")
    last_name = name.partition("/")[2] if kind == "user" else name
    if scope not in (GLOBAL_SCOPE, TEAM_SCOPE) and not (last_name and kind in ("source", "app", "user", "session")):
        forms = "global, team, source:NAME, app:NAME, user:APP/USER or session:ID"
        raise BadValue(f"No such scope: {scope[:80]!r}. Use {forms}.")
    return scope


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────


def split_lines(text: str | Iterable[str]) -> list[str]:
    """Return the lines of a text that are not blank, without spaces around them."""
    if not isinstance(text, Iterable):
        raise BadValue(f"Facts must be text or lines of text, not {type(text).__name__}.")
    texts = [text] if isinstance(text, str) else text
    lines = [line.strip() for text in texts for line in validate_text(text, "fact").splitlines()]
    if any(len(line) > MAX_FACT_CHARS for line in lines):
        raise BadValue(f"A fact may have at most {MAX_FACT_CHARS:,} characters. One of these has more.")
    return [line for line in lines if line]


def _validate_fact_text(text: str) -> str:
    line = _join_lines(text, "fact")
    if not line:
        raise BadValue("The fact is empty. Retire it instead.")
    if len(line) > MAX_FACT_CHARS:
        raise BadValue(f"A fact may have at most {MAX_FACT_CHARS:,} characters. This one has more.")
    return line


def _join_lines(text: str, label: str) -> str:
    return " ".join(filter(None, map(str.strip, validate_text(text, label).splitlines())))


def _diff_facts(current: Sequence[Fact], lines: Sequence[str]) -> FactsDiff:
    """Compare facts and lines. A line that only moved keeps its fact, and a repeated line counts once."""
    kept: list[Fact] = []
    changed: list[tuple[Sequence[Fact], Sequence[str]]] = []
    matcher = SequenceMatcher(None, [fact.text for fact in current], lines, autojunk=False)
    for tag, first_fact, end_fact, first_line, end_line in matcher.get_opcodes():
        if tag == "equal":
            kept += current[first_fact:end_fact]
        else:
            changed.append((current[first_fact:end_fact], lines[first_line:end_line]))
    unassigned = {line for _, new_lines in changed for line in new_lines} - {fact.text for fact in kept}
    for fact in chain.from_iterable(facts for facts, _ in changed):
        if fact.text in unassigned:
            kept.append(fact)
            unassigned.remove(fact.text)
    edited: list[tuple[Fact, str]] = []
    added: list[str] = []
    retired: list[Fact] = []
    kept_ids = {fact.id for fact in kept}
    for facts, new_lines in changed:
        old = [fact for fact in facts if fact.id not in kept_ids]
        new = [line for line in dict.fromkeys(new_lines) if line in unassigned]
        unassigned.difference_update(new)
        edited += zip(old, new, strict=False)
        added += new[len(old) :]
        retired += old[len(new) :]
    return FactsDiff(tuple(kept), tuple(edited), tuple(added), tuple(retired))


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────


def insert_fact(edit: PendingEdit, line: str, scope: str, **origin: Any) -> int:
    now = utc_timestamp()
    return int(edit.insert("facts", text=line, scope=scope, created_at=now, updated_at=now, **origin))


def retire_fact(edit: PendingEdit, fact_id: int, now: str) -> None:
    edit.update("facts", fact_id, retired_at=now, updated_at=now)


def _fact_from_row(row: Sequence[Any]) -> Fact:
    fact_id, text, scope, category, session_id, seq, *rest = row
    entry = entry_id(session_id, seq) if session_id is not None and seq is not None else None
    return Fact(fact_id, text, scope, category, session_id, entry, *rest)
