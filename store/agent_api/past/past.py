"""This module searches, opens and lists past conversations for agents, and takes the facts that they propose.

Every answer says what was covered: how many sessions were searched, not read yet, or left out and why. So an agent can
rely on it when nothing is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from store.agent_api.past.exclusions import Exclusions, find_exclusions
from store.agent_api.past.quotation import DEFAULT_ANSWER_CHARACTERS, NOTICE, Quotation, bound_budget
from store.agent_api.past.turn_text import format_turn
from store.errors import Ambiguous, BadValue, NotFound
from store.model.knowledge import Hit
from store.model.session import Session
from store.search.hits import SearchArea
from store.search.query import Query
from store.search.sql import (
    Condition,
    all_of,
    build_anywhere_condition,
    build_session_filter_condition,
    build_title_condition,
)

if TYPE_CHECKING:
    from store.store import Store

JsonObject = dict[str, Any]

MAX_PAGE = 50
MAX_OTHER_SESSIONS = 5
_ROW_OVERHEAD = 250
"""Is about how many characters the names of the fields of a hit or session take."""

_COUNT_SESSIONS = "select count(*), coalesce(sum(depth = 'text'), 0) from sessions where {}"
_LISTED = "relation is not 'superseded'"
_SELECT_PAGE = f"select key from sessions where {_LISTED} and {{}} order by updated_at desc, key desc limit ? offset ?"
_COUNT_PAGE = f"select count(*) from sessions where {_LISTED} and {{}}"


class Past:
    """Answers one agent. The answers are JSON objects."""

    def __init__(self, store: Store, *, current: str = "", agent: str = "") -> None:
        self._store = store
        self._current = current
        self._agent = agent

    # ── search ────────────────────────────────────────────────────────────────────────────────────

    def search(
        self, text: str, *, limit: int = 10, cursor: str = "", characters: int = DEFAULT_ANSWER_CHARACTERS
    ) -> JsonObject:
        """Return the best hits in conversations and in tool calls. `cursor` is the `next` of the answer before.

        All words must be in one message. Sessions that have them only in the title, or in several messages, are named
        apart, so that nothing is missed because of how a question was put.
        """
        query = Query.parse(text)
        exclusions = find_exclusions(self._store, self._current)
        offsets = _parse_cursor(cursor, 2)
        now = datetime.now(UTC)
        quotation, budget = Quotation(self._store), bound_budget(characters)
        with self._store.snapshot():
            hits, totals = self._find_hits(query, exclusions, offsets, min(limit, MAX_PAGE), now)
            shown: list[JsonObject] = []
            for hit, _ in hits:
                row = self._hit_to_json(hit, quotation)
                budget -= len(row["text"]) + _ROW_OVERHEAD
                if shown and budget < 0:
                    break
                shown.append(row)
            others = {} if cursor else self._find_other_sessions(query, exclusions, bool(hits), now, quotation)
            coverage = self._cover(exclusions, query, now)
        taken = [sum(area == number for _, area in hits[: len(shown)]) for number in (0, 1)]
        ends = [offset + count for offset, count in zip(offsets, taken, strict=True)]
        has_more = any(end < total for end, total in zip(ends, totals, strict=True))
        return {
            "notice": NOTICE,
            "hits": shown,
            "total": sum(totals),
            **others,
            **({"warnings": list(query.warnings)} if query.warnings else {}),
            "coverage": coverage,
            "next": ":".join(map(str, ends)) if has_more else None,
        }

    def _find_other_sessions(
        self, query: Query, exclusions: Exclusions, has_hits: bool, now: datetime, quotation: Quotation
    ) -> JsonObject:
        """Find sessions by their titles and, if there are no hits, those with the words in several messages."""
        found: JsonObject = {}
        title = build_title_condition(query) if query.word_groups else None
        if title is not None and (titles := self._select_sessions(query, title, exclusions, now, quotation)):
            found["in_titles"] = titles
        terms = [group for group in query.word_groups if len(group) == 1]
        if has_hits or len(terms) < 2:
            return found
        anywhere = all_of(build_anywhere_condition(Query((group,)), now) for group in query.word_groups)
        if spread := self._select_sessions(query, anywhere, exclusions, now, quotation):
            found["in_several_messages"] = spread
        else:
            found["hits_of_single_words"] = self._count_words(query, exclusions, now)
        return found

    def _select_sessions(
        self, query: Query, condition: Condition, exclusions: Exclusions, now: datetime, quotation: Quotation
    ) -> list[JsonObject]:
        chosen = all_of([build_session_filter_condition(query, now), condition, exclusions.condition])
        rows = self._store.rows(_SELECT_PAGE.format(chosen.sql), *chosen.values, MAX_OTHER_SESSIONS, 0)
        return [_session_to_json(self._store.sessions.by_key(key), quotation) for (key,) in rows]

    def _find_hits(
        self, query: Query, exclusions: Exclusions, offsets: Sequence[int], limit: int, now: datetime
    ) -> tuple[list[tuple[Hit, int]], list[int]]:
        """Return a page of hits, each with the number of its area, and how many there are in each area."""
        condition, totals, found = exclusions.condition, list[int](), list[list[Hit]]()
        areas: tuple[SearchArea, ...] = ("conversation", "tools")
        for area, offset in zip(areas, offsets, strict=True):
            page = self._store.search.find_by_area(query, [area], limit=offset + limit, now=now, sessions=condition)[
                area
            ]
            totals.append(page.total)
            found.append(page.hits[offset:])
        tools = min(len(found[1]), max(limit // 2, limit - len(found[0])))
        conversations = found[0][: limit - tools]
        return [*((hit, 0) for hit in conversations), *((hit, 1) for hit in found[1][:tools])], totals

    def _count_words(self, query: Query, exclusions: Exclusions, now: datetime) -> JsonObject:
        """Count the hits of each word alone, so that an agent sees which of its words are never used."""
        terms = {term.text: term for term in query.terms if term.is_indexed and not term.negated}
        return {
            text: self._store.search.find(Query(((term,),)), limit=1, now=now, sessions=exclusions.condition)[1]
            for text, term in list(terms.items())[:8]
        }

    def _hit_to_json(self, hit: Hit, quotation: Quotation) -> JsonObject:
        session = self._store.sessions.get(hit.session_id)
        return {
            "session": hit.session_id,
            "turn": hit.turn,
            "title": quotation.quote(session.title)[:120],
            "agent": session.source,
            "folder": session.cwd,
            "at": hit.at,
            "in": hit.field,
            "role": hit.role,
            "text": quotation.quote(hit.snippet),
        }

    # ── list ──────────────────────────────────────────────────────────────────────────────────────

    def list_sessions(
        self, text: str = "", *, limit: int = 20, cursor: str = "", characters: int = DEFAULT_ANSWER_CHARACTERS
    ) -> JsonObject:
        """Return the sessions that match, newest first. Archived ones are listed, too."""
        query, now = Query.parse(text), datetime.now(UTC)
        exclusions = find_exclusions(self._store, self._current)
        (offset,) = _parse_cursor(cursor, 1)
        quotation, budget = Quotation(self._store), bound_budget(characters)
        with self._store.snapshot():
            condition = all_of([build_anywhere_condition(query, now), exclusions.condition])
            (total,) = self._store.row(_COUNT_PAGE.format(condition.sql), *condition.values)
            rows = self._store.rows(_SELECT_PAGE.format(condition.sql), *condition.values, min(limit, MAX_PAGE), offset)
            shown: list[JsonObject] = []
            for (key,) in rows:
                row = _session_to_json(self._store.sessions.by_key(key), quotation)
                budget -= len(row["title"]) + _ROW_OVERHEAD
                if shown and budget < 0:
                    break
                shown.append(row)
            coverage = self._cover(exclusions, query, now)
        end = offset + len(shown)
        return {
            "notice": NOTICE,
            "sessions": shown,
            "total": total,
            **({"warnings": [*query.warnings]} if query.warnings else {}),
            "coverage": coverage,
            "next": str(end) if end < total else None,
        }

    # ── open ──────────────────────────────────────────────────────────────────────────────────────

    def open(
        self,
        name: str,
        *,
        turn: int | None = None,
        full: bool = False,
        cursor: str = "",
        characters: int = DEFAULT_ANSWER_CHARACTERS,
    ) -> JsonObject:
        """Return the text of a conversation, or of one turn. With `full`, tool results are not shortened."""
        exclusions = find_exclusions(self._store, self._current)
        session = self._find_session(name, exclusions)
        quotation, budget = Quotation(self._store), bound_budget(characters)
        with self._store.snapshot():
            last = self._store.chains.last_turn(session.key)
            first, offset = _parse_cursor(cursor, 2) if cursor else (turn if turn is not None else 0, 0)
            if first > last:
                raise NotFound(f"No such turn: {first}. The last turn is {last}.")
            pieces: list[str] = []
            next_cursor = None
            for number in range(first, (first if turn is not None else last) + 1):
                rendered = "\n".join(
                    format_turn(found, full=full) for found in self._store.chains.turns(session.key, number)
                )
                text = quotation.quote(rendered)[offset:]
                if len(text) > budget:
                    pieces.append(text[:budget])
                    next_cursor = f"{number}:{offset + budget}"
                    break
                pieces.append(text)
                budget -= len(text)
                offset = 0
            return {
                "notice": NOTICE,
                "session": _session_to_json(session, quotation),
                "turns": last,
                "text": "\n".join(filter(None, pieces)),
                "coverage": self._cover(exclusions, Query(), datetime.now(UTC)),
                "next": next_cursor,
            }

    def _find_session(self, name: str, exclusions: Exclusions) -> Session:
        """Return a session by its id or the beginning of it. One that is left out is not there."""
        try:
            found = [self._store.sessions.find(name)]
        except Ambiguous as error:
            found = [self._store.sessions.get(candidate) for candidate in error.candidates]
        except (NotFound, BadValue):
            found = []
        allowed = [session for session in found if session.key not in exclusions.reasons]
        if not allowed:
            raise NotFound(f"No such session: {name[:200]!r}. Use an id from `search` or `list`.")
        if len(allowed) > 1:
            raise Ambiguous(name, [session.id for session in allowed])
        return allowed[0]

    # ── coverage ──────────────────────────────────────────────────────────────────────────────────

    def _cover(self, exclusions: Exclusions, query: Query, now: datetime) -> JsonObject:
        """Say what an answer is based on."""
        condition = exclusions.condition
        total, unread = self._store.row(_COUNT_SESSIONS.format(f"{_LISTED} and {condition.sql}"), *condition.values)
        filtered = all_of([build_session_filter_condition(query, now), condition])
        (newest,) = self._store.row(f"select max(updated_at) from sessions where {condition.sql}", *condition.values)
        searched, _ = self._store.row(_COUNT_SESSIONS.format(f"{_LISTED} and {filtered.sql}"), *filtered.values)
        return {
            "sessions": searched,
            "left_out_by_filters": total - searched,
            "not_completely_read": unread,
            "excluded": exclusions.count_by_reason(),
            "current_session": "left out" if exclusions.is_current_known else "not known, so not left out",
            "newest_change": newest,
            "is_complete": not unread and total == searched and not exclusions.hides_answers,
        }

    # ── proposals ─────────────────────────────────────────────────────────────────────────────────

    def propose_fact(self, text: str, *, reason: str = "", session: str = "", turn: int | None = None) -> JsonObject:
        """Propose a fact. A person accepts or rejects it; nothing is shared until then."""
        origin = self._find_session(session, find_exclusions(self._store)) if session else None
        number = self._store.proposals.add(text, agent=self._agent, reason=reason, session=origin, turn=turn)
        return {"proposal": number, "state": "waits for a person"}


def _session_to_json(session: Session, quotation: Quotation) -> JsonObject:
    return {
        "session": session.id,
        "title": quotation.quote(session.title)[:200],
        "agent": session.source,
        "folder": session.cwd,
        "turns": session.turns,
        "begun": session.created_at,
        "changed": session.updated_at,
    }


def _parse_cursor(cursor: str, count: int) -> tuple[int, ...]:
    if not cursor:
        return (0,) * count
    numbers = cursor.split(":")
    if len(numbers) != count or not all(
        number.isascii() and number.isdigit() and len(number) < 10 for number in numbers
    ):
        raise BadValue("That is no continuation. Pass the `next` of the answer before.")
    return tuple(map(int, numbers))
