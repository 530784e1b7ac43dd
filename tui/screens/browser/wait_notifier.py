"""This module lets the terminal tell a person that a session has begun to wait for them."""

from __future__ import annotations

import os
from time import monotonic
from typing import TYPE_CHECKING

from store.text.sanitize import one_line
from tui.render.styles import parse_time, session_title
from tui.workers import run_in_thread

if TYPE_CHECKING:
    from store.model.session import Session
    from store.store import Store
    from tui.screens.browser.screen import BrowserScreen
    from tui.screens.store_screen import Clock

CONFIRM_SECONDS = 1.0
"""A session must wait this long. Some agents write a text and only then say that they also call a tool."""

MAX_WAITING = 100
MAX_NOTICE_CHARACTERS = 80
_WAITING = "is:waiting"
_PREFIX = "Waiting for you: "


class WaitNotifier:
    """Announces each wait of a session once. Sub-agents wait for their agent, so they are not announced."""

    def __init__(self, screen: BrowserScreen, store: Store, clock: Clock) -> None:
        self._screen = screen
        self._store = store
        self._clock = clock
        self._started_at = clock()
        self._announced: dict[int, int] = {}
        "Maps each session whose wait was announced to the turn after which it waits."
        self._seen: dict[int, tuple[int, float]] = {}
        "Maps each waiting session to its number of entries, and to the time since which it has that number."

    def check(self) -> None:
        """Look for sessions that began to wait. Call this whenever the store has changed."""
        if self._screen.app.settings.notify != "off":
            run_in_thread(self._screen, self._read, group="waiting", exclusive=True)

    def _read(self) -> None:
        sessions, _ = self._store.sessions.matching(_WAITING, MAX_WAITING, now=self._clock())
        self._screen.call_later(self._compare, [session for session in sessions if session.relation is None])

    def _compare(self, waiting: list[Session]) -> None:
        now = monotonic()
        seen, self._seen = self._seen, {}
        self._announced = {s.key: self._announced[s.key] for s in waiting if s.key in self._announced}
        for session in waiting:
            entries, since = seen.get(session.key, (-1, now))
            since = since if entries == session.entries else now
            self._seen[session.key] = session.entries, since
            if self._announced.get(session.key) == session.turns or not self._is_new(session):
                continue
            if now - since >= CONFIRM_SECONDS:
                self._announced[session.key] = session.turns
                self._announce(session)
            else:
                self._screen.set_timer(CONFIRM_SECONDS, self.check)

    def _is_new(self, session: Session) -> bool:
        """Whether a session changed since the browser was opened. Older waits are visible in the list."""
        updated = parse_time(session.updated_at)
        return updated is not None and updated >= self._started_at

    def _announce(self, session: Session) -> None:
        app = self._screen.app
        if app.settings.notify == "bell":
            app.bell()
        else:
            app.write_to_terminal(build_notification(app.settings.notify, session_title(session)))


def build_notification(kind: str, title: str) -> str:
    """Return the control sequence of a notification. The title is foreign text: it becomes one short, harmless line."""
    text = f"{_PREFIX}{one_line(title)}".replace(";", ",")[:MAX_NOTICE_CHARACTERS]
    sequence = f"\x1b]9;{text}\x07" if kind == "osc9" else f"\x1b]777;notify;Backscroll;{text}\x07"
    if os.environ.get("TMUX"):  # tmux hands on only what is wrapped, and only if its option allow-passthrough is set
        return f"\x1bPtmux;{sequence.replace(chr(27), chr(27) * 2)}\x1b\\"
    return sequence
