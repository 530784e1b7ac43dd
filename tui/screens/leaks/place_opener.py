"""This module opens the place where a leak was found: a turn, a summary, a fact, or a file in the person's editor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.model.knowledge import Fact
from store.model.leak import LeakPlace
from store.model.session import Session, entry_id
from tui.links.opener import LinkOpener
from tui.screens.store_screen import Clock
from tui.workers import run_in_thread

if TYPE_CHECKING:
    from store.store import Store
    from tui.screens.leaks.screen import LeaksScreen

SHOWS_VALUE = "Open this file in your editor? It shows the value."
FACT_GONE = "No fact has this value any more. Press s to scan again."
IN_DATABASE = "It is in {field} of the database {path}, which no editor shows. Press y to copy the path."


class PlaceOpener:
    """Leaves the list of leaks for a turn. Summaries, facts and files are opened in front of it."""

    def __init__(self, screen: LeaksScreen, store: Store, clock: Clock) -> None:
        self._screen = screen
        self._store = store
        self._clock = clock

    def open(self, fingerprint: str, place: LeakPlace) -> None:
        if place.path is not None:
            self._open_file(place, place.path)
        elif place.field == "fact":
            run_in_thread(self._screen, lambda: self._find_fact(fingerprint, place.session_id), group="open")
        elif place.field == "summary" and (session_id := place.session_id) is not None:
            run_in_thread(self._screen, lambda: self._load_summary(session_id), group="open")
        elif place.session_id is not None:
            self._screen.dismiss(place.entry or entry_id(place.session_id, 0))

    def _open_file(self, place: LeakPlace, path: str) -> None:
        if place.field:
            text = IN_DATABASE.format(field=place.field, path=path)
            self._screen.notify(text, timeout=6, markup=False)
        else:
            LinkOpener(self._screen, self._screen.app, "").open_file(path, place.line, SHOWS_VALUE)

    def _find_fact(self, fingerprint: str, session_id: str | None) -> None:
        fact = self._store.leaks.find_fact(fingerprint, session_id)
        self._screen.app.call_from_thread(self._show_fact, fact)

    def _show_fact(self, fact: Fact | None) -> None:
        from tui.screens.facts import FactsScreen

        if fact is None:
            self._screen.notify(FACT_GONE, timeout=4, markup=False)
        else:
            screen = FactsScreen(self._store, self._clock, fact_id=fact.id, with_retired=fact.retired_at is not None)
            self._screen.app.push_screen(screen, self._leave_for_entry)

    def _load_summary(self, session_id: str) -> None:
        self._screen.app.call_from_thread(self._show_summary, self._store.sessions.get(session_id))

    def _show_summary(self, session: Session) -> None:
        from tui.screens.summary import SummaryScreen

        self._screen.app.push_screen(SummaryScreen(self._store, session, self._clock))

    def _leave_for_entry(self, entry: str | None) -> None:
        """Go on to the entry that a person chose on the screen in front."""
        if entry is not None:
            self._screen.dismiss(entry)
