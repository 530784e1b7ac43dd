"""This module lets titles out through a gate.

A title may be the beginning of the first prompt, and end within a secret. What is left of it would be found by no rule.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.leaks.found_values import read_own_values
from store.leaks.gate import LeakGate
from store.leaks.scanner import load_scanner
from store.sources import source_label
from store.sources.backscroll.origin import find_origin

if TYPE_CHECKING:
    from store.model.session import Session
    from store.store import Store

_CUT_MARK = "…"
_SELECT_FIRST_PROMPT = """
    select entries.text from turns join entries on entries.key = turns.entry where turns.session = ? and turns.n = 1
"""


def check_title(store: Store, session: Session, gate: LeakGate | None) -> str:
    """Return the title of a session as it may leave the store."""
    title = session.describe(source_label(find_origin(session).source)) or "Untitled conversation"
    if gate is None:
        return title
    beginning = title.removesuffix(_CUT_MARK)
    return gate.check_beginning(beginning, _read_whole(store, session, beginning)) + title[len(beginning) :]


def mask_title(store: Store, session: Session) -> str:
    """Return the title of a session for the name of a file. Leaks are masked in it, also if they are allowed inside."""
    return check_title(store, session, LeakGate(load_scanner(read_own_values(store)), "redact"))


def _read_whole(store: Store, session: Session, beginning: str) -> str:
    """Return the first prompt on one line if a title is its beginning; otherwise, the title."""
    (prompt,) = store.row(_SELECT_FIRST_PROMPT, session.key) or ("",)
    whole = " ".join(prompt.split())
    return whole if whole.startswith(beginning) else beginning
