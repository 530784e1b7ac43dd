"""This module lets a member ask for one session or turn, and its owner approve or decline.

A request is a share without a session. Its readers are the asker and the member who is asked; others do not see it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, cast

from store.errors import NotFound, Refused
from store.export.options import ExportOptions
from store.export.reader import DocumentReader
from store.export.session_json import iter_described_entries
from store.leaks.gate import LeakPolicy
from store.model.entry import Json
from store.model.session import Session
from store.model.team import RequestState, TeamRequest
from store.sources.backscroll.reader import parse_entries
from store.team.membership import LocalTeam, ShareRow
from store.team.outgoing import ChangeCollector
from store.text.sanitize import one_line
from store.text.validate import decode, validate_id, validate_text

if TYPE_CHECKING:
    from store.store import Store

ASK, ANSWER = "ask", "answer"
"""Are the names of the two values of a request. The asker writes the first one, the other member the second one."""

SHORT_DIGITS = 8
MAX_REASON_CHARS = 1_000
MAX_TITLE_CELLS = 200

_SELECT_REQUESTS = """
    select asked.share, asked.value, answers.value from team_values asked
        left join team_values answers on answers.share = asked.share and answers.name = ?
        join team_shares on team_shares.id = asked.share and ended_at is null
    where asked.name = ? order by asked.moment ->> 0, asked.share
"""


class Requests:
    """Asks for sessions, and answers. This is the collection `store.team.requests`."""

    def __init__(self, store: Store, team: LocalTeam) -> None:
        self._store = store
        self._team = team

    def ask(self, name: str, session: str, turn: int | None = None, reason: str = "") -> TeamRequest:
        """Ask a member for one of its sessions, or for one turn of it. The request is sent with the next sync."""
        own = self._team.read_membership()
        if not any(machine.name == name and machine.trusted_at for machine in self._team.list_machines()):
            raise NotFound(f"No trusted member is called {name!r}. Run `backscroll team members`.")
        if name == own.name:
            raise Refused("This is your own name. Ask another member.")
        wanted: dict[str, Json] = {
            "to": name,
            "session": validate_id(session.strip(), "session"),
            "turn": turn,
            "reason": validate_text(reason, "reason").strip()[:MAX_REASON_CHARS],
        }
        collector = ChangeCollector(self._store, self._team)
        with self._store.transaction():
            share = collector.add_group([name])
            collector.send_value(share, ASK, wanted)
        return self.find(share.id.partition("/")[2])

    def list_all(self) -> list[TeamRequest]:
        """Return the requests of this machine and those to it, the oldest first."""
        requests = []
        for share, wanted, answer in self._store.rows(_SELECT_REQUESTS, ANSWER, ASK):
            row = self._team.find_share(share)
            if row is not None and (request := self._read(row, decode(wanted), decode(answer) if answer else None)):
                requests.append(request)
        return requests

    def list_open(self) -> list[TeamRequest]:
        """Return the requests to this machine that are not answered."""
        return [request for request in self.list_all() if not request.is_own and request.state == "open"]

    def _read(self, share: ShareRow, wanted: Json, answer: Json) -> TeamRequest | None:
        own = self._team.read_membership()
        is_own = share.machine == own.machine
        match wanted:
            case {"to": str(to), "session": str(session), "turn": None | int() as turn, "reason": str(reason)}:
                if not is_own and to != own.name:
                    return None
            case _:
                return None
        state = cast("RequestState", answer if answer in ("approved", "declined") else "open")
        asker = own.name if is_own else share.owner_name
        number = share.id.partition("/")[2][:SHORT_DIGITS]
        return TeamRequest(number, share.id, asker, to, is_own, session, turn, reason[:MAX_REASON_CHARS], state)

    def find(self, number: str) -> TeamRequest:
        found = [request for request in self.list_all() if request.share.partition("/")[2].startswith(number)]
        if len(found) != 1:
            raise NotFound(f"No such request: {number!r}. Run `backscroll team requests`.")
        return found[0]

    def withdraw(self, number: str) -> None:
        """Take back a request of this machine."""
        request = self.find(number)
        if not request.is_own:
            raise Refused(f"Only {request.asker} can take it back. Run `backscroll team decline`.")
        ChangeCollector(self._store, self._team).end_share(self._read_share(request))

    def approve(self, number: str, policy: LeakPolicy = "refuse") -> Session:
        """Share what was asked for with the asker, and return the session that is shared."""
        request = self._find_open(number)
        session = self._store.sessions.find(request.session)
        if self._store.team.find_owner(session.id):
            raise Refused("This session is shared by another member. Only its owner can share it.")
        with self._store.transaction():
            shared = session if request.turn is None else self._copy_turn(session, request.turn)
            names = dict.fromkeys([*self._store.team.find_audience(shared.id), request.asker])
            self._store.team.share(shared, [] if "*" in names else list(names), policy)
            self._answer(request, "approved")
        return shared

    def decline(self, number: str) -> None:
        self._answer(self._find_open(number), "declined")

    def _find_open(self, number: str) -> TeamRequest:
        request = self.find(number)
        if request.is_own:
            raise Refused(f"{request.to} has to answer it.")
        if request.state != "open":
            raise Refused(f"It is {request.state} already.")
        return request

    def _answer(self, request: TeamRequest, state: RequestState) -> None:
        with self._store.transaction():
            ChangeCollector(self._store, self._team).send_value(self._read_share(request), ANSWER, state)

    def _read_share(self, request: TeamRequest) -> ShareRow:
        share = self._team.find_share(request.share)
        if share is None:
            raise NotFound(f"No such request: {request.number!r}.")
        return share

    def _copy_turn(self, session: Session, turn: int) -> Session:
        """Return a session that has this turn and nothing else: no title, no system prompt, no other turns.

        Its entries are marked as inherited, so that they are counted and found only once.
        """
        session_id = f"turn-{turn}-of-{session.id}"
        with suppress(NotFound):
            return self._store.sessions.get(session_id)
        title = one_line(self._store.chains.turns(session.key, turn)[0].prompt, MAX_TITLE_CELLS)
        reader = DocumentReader(self._store, ExportOptions("json", (turn, turn)))
        entries = parse_entries(list(iter_described_entries(reader, session, -1)), "")
        copy = self._store.sessions.create(
            session_id,
            source=session.source,
            native_id=session_id,
            agent_title=title,
            model=session.model,
            cwd=session.cwd,
        )
        self._store.chains.append(copy.key, [replace(entry, inherited=True) for entry in entries])
        return self._store.sessions.get(session_id)
