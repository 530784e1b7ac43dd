"""This module keeps the facts that agents propose, until a person accepts or rejects them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from store.edits.facts import insert_fact, validate_scope
from store.errors import BadValue, NotFound, Refused
from store.model.knowledge import Fact, Proposal
from store.model.session import GLOBAL_SCOPE, Session
from store.text.validate import utc_timestamp, validate_text

if TYPE_CHECKING:
    from store.store import Store

MAX_PROPOSAL_CHARACTERS = 1_000
MAX_WAITING = 500
"""Limits what agents can leave for a person to read."""

_SELECT = """
    select fact_proposals.id, fact_proposals.text, fact_proposals.agent, fact_proposals.reason, sessions.id,
        fact_proposals.turn, fact_proposals.created_at, fact_proposals.state, fact_proposals.fact
    from fact_proposals left join sessions on sessions.key = fact_proposals.session
"""


class Proposals:
    """Adds, lists, accepts and rejects proposals. This is the collection `store.proposals`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def add(
        self, text: str, *, agent: str = "", reason: str = "", session: Session | None = None, turn: int | None = None
    ) -> int:
        """Add a proposal and return its number. One that waits already, or is a fact already, is not added again."""
        line = " ".join(validate_text(text, "fact").split())
        if not line or len(line) > MAX_PROPOSAL_CHARACTERS:
            raise BadValue(f"A proposed fact must have 1 to {MAX_PROPOSAL_CHARACTERS:,} characters.")
        if self._store.row("select 1 from facts where text = ? and retired_at is null", line):
            raise Refused("This fact is known already.")
        with self._store.transaction() as connection:
            known = self._store.row("select id from fact_proposals where text = ? and state = 'waiting'", line)
            if known:
                return int(known[0])
            (waiting,) = self._store.row("select count(*) from fact_proposals where state = 'waiting'")
            if waiting >= MAX_WAITING:
                raise Refused(f"{MAX_WAITING} proposals wait already. A person must decide about them first.")
            columns = {
                "text": line,
                "agent": validate_text(agent, "agent")[:100],
                "reason": " ".join(validate_text(reason, "reason").split())[:MAX_PROPOSAL_CHARACTERS],
                "session": session.key if session else None,
                "turn": turn,
                "created_at": utc_timestamp(),
            }
            names = ", ".join(columns)
            values = ", ".join(f":{name}" for name in columns)
            inserted = connection.execute(f"insert into fact_proposals ({names}) values ({values})", columns)
            return int(inserted.lastrowid or 0)

    def waiting(self) -> list[Proposal]:
        """Return the proposals that are neither accepted nor rejected, oldest first."""
        rows = self._store.rows(f"{_SELECT} where fact_proposals.state = 'waiting' order by fact_proposals.id")
        return [Proposal._make(row) for row in rows]

    def get(self, number: int) -> Proposal:
        row = self._store.row(f"{_SELECT} where fact_proposals.id = ?", number)
        if row is None:
            raise NotFound(f"No such proposal: {number}.")
        return Proposal._make(row)

    def accept(self, number: int, *, text: str | None = None, scope: str = GLOBAL_SCOPE) -> Fact:
        """Make a proposal a fact, perhaps with another text."""
        with self._store.journal.edit("accept proposal") as edit:
            proposal = self._get_waiting(number)
            line = " ".join(validate_text(proposal.text if text is None else text, "fact").split())
            if not line:
                raise BadValue("The fact is empty. Reject the proposal instead.")
            origin: dict[str, Any] = {"category": ""}
            if proposal.session_id:
                origin["session"] = self._store.sessions.get(proposal.session_id).key
            fact = insert_fact(edit, line, validate_scope(scope), **origin)
            edit.update("fact_proposals", number, state="accepted", fact=fact)
        return self._store.facts.get(fact)

    def reject(self, number: int) -> None:
        with self._store.journal.edit("reject proposal") as edit:
            self._get_waiting(number)
            edit.update("fact_proposals", number, state="rejected")

    def _get_waiting(self, number: int) -> Proposal:
        proposal = self.get(number)
        if proposal.state != "waiting":
            raise Refused(f"Proposal {number} was {proposal.state} already.")
        return proposal
