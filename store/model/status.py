"""This module says what a session does now: it works, waits for its person, is idle, or has ended. It is pure.

The activity is what the last entries say, and is stored with the session. The status also depends on the time, because
an agent that was killed leaves no entry, and on the agent's process, if the agent says which one it is.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from store.model.session import Session

Activity = Literal["working", "waiting", "ended", "failed"]
"""A session that failed has ended: an error was the last thing that happened."""

SessionStatus = Literal["working", "waiting", "idle", "ended"]
STATUSES: tuple[SessionStatus, ...] = get_args(SessionStatus)

WORKING_WINDOW = timedelta(minutes=10)
"""An agent whose process is unknown counts as working this long after its last entry."""

WAITING_WINDOW = timedelta(hours=1)
"""An agent whose process is unknown counts as waiting this long after its last entry."""

PROCESS_WINDOW = timedelta(days=1)
"""An agent whose process runs counts as working or waiting this long after its last entry."""

CLOCK_TOLERANCE = timedelta(minutes=2)
"""The clock of the agent may be ahead by this much."""

QUESTION_TOOLS = frozenset(
    ["AskUserQuestion", "ExitPlanMode", "ask_user", "ask_user_question", "request_user_input", "question"]
)
"""Names the tools with which agents ask their person."""


def find_status(session: Session, now: datetime) -> SessionStatus:
    """Return what a session does. Only a session that changed lately can be working or waiting."""
    if session.activity in ("ended", "failed"):
        return "ended"
    window = {"working": WORKING_WINDOW, "waiting": WAITING_WINDOW}.get(session.activity)
    if window is None or session.gone:
        return "idle"
    age = _find_age(session.updated_at, now)
    limit = PROCESS_WINDOW if session.process else window
    if age is None or not -CLOCK_TOLERANCE <= age <= limit:
        return "idle"
    return "working" if session.activity == "working" else "waiting"


def is_recent(session: Session, now: datetime) -> bool:
    """Whether a session changed within a day, so that its status is of interest."""
    age = _find_age(session.updated_at, now)
    return age is not None and -CLOCK_TOLERANCE <= age <= PROCESS_WINDOW


def _find_age(at: str, now: datetime) -> timedelta | None:
    try:
        return now - datetime.fromisoformat(at)
    except (ValueError, TypeError, OverflowError):
        return None
