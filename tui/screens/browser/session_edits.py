"""This module edits the sessions of a list: titles, tags, notes, pins, archive and trash. It also opens the screens on
which everything else is edited."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from textual.binding import Binding

from store.errors import ChangedMeanwhile
from store.model.session import Session
from tui.render.styles import format_count, session_title
from tui.workers import run_in_thread

if TYPE_CHECKING:
    from store.store import Store
    from tui.screens.browser.screen import BrowserScreen
    from tui.screens.store_screen import Clock

SessionsCallback = Callable[[Sequence[Session]], object]


def edit_binding(keys: str, name: str, label: str, tooltip: str) -> Binding:
    """Return a key that runs one of the edits of `SessionEdits`."""
    return Binding(keys, f"edit('{name}')", label, id=f"edit.{name}", tooltip=tooltip, show=False)


class SessionEdits:
    """Edits the marked sessions, or the current one. Each edit is run by its name."""

    _SINGLE_SESSION_EDITS = frozenset({"title", "note", "summary", "secrets", "write_back"})
    _LIST_EDITS = frozenset({"tags", "pin", "archive", "trash"})

    def __init__(self, screen: BrowserScreen, store: Store, clock: Clock) -> None:
        self._screen = screen
        self._store = store
        self._clock = clock
        self._edits: Mapping[str, Callable[[], object]] = {
            "title": self._edit_title,
            "tags": self._edit_tags,
            "note": self._add_note,
            "pin": self._toggle_pin,
            "archive": self._toggle_archive,
            "trash": self._trash,
            "summary": self._open_summary,
            "secrets": self._open_secrets,
            "write_back": self._open_write_back,
            "facts": self._open_facts,
            "published": self._open_published,
            "undo": self._undo,
            "journal": self._open_journal,
        }

    def run(self, name: str) -> None:
        self._edits[name]()

    def is_available(self, name: str) -> bool:
        if name in self._SINGLE_SESSION_EDITS:
            return self._screen.current_session is not None
        if name in self._LIST_EDITS:
            # While a person reads, a mistyped key should move nothing.
            has_sessions = self._screen.current_session is not None or bool(self._screen.sessions.marked_keys)
            return has_sessions and not self._screen.is_reading
        return True

    # ── one session ───────────────────────────────────────────────────────────────────────────────

    def _edit_title(self) -> None:
        from tui.dialogs.text import SingleLineDialog

        if self._screen.sessions.marked_keys:
            self._load_sessions(self._prompt_common_title)
            return
        if (session := self._screen.current_session) is None:
            return
        seen = session.own_title

        def save(text: str) -> None:
            nonlocal seen
            try:
                self._store.sessions.set_title(session, text, seen=seen)
            except ChangedMeanwhile as conflict:
                seen = str(conflict.current)  # the dialog shows it, and saving again overwrites it
                raise

        note = f"The agent's title is {session.agent_title!r}." if session.agent_title and session.own_title else ""
        self._screen.app.push_screen(SingleLineDialog("Title", session.title, save, note=note))

    def _open_summary(self) -> None:
        from tui.screens.summary import SummaryScreen

        if (session := self._screen.current_session) is not None:
            self._screen.app.push_screen(SummaryScreen(self._store, session, self._clock))

    def _open_secrets(self) -> None:
        from tui.screens.secrets import SecretsScreen

        if (session := self._screen.current_session) is not None:
            self._screen.app.push_screen(SecretsScreen(self._store, session, self._clock), self._screen.open_entry)

    def _open_write_back(self) -> None:
        from tui.dialogs.write_back import WriteBackDialog

        if (session := self._screen.current_session) is not None:
            self._screen.app.push_screen(WriteBackDialog.for_session(self._store, session))

    # ── one session or several ────────────────────────────────────────────────────────────────────

    def _add_note(self) -> None:
        self._load_sessions(self._prompt_note)

    def _edit_tags(self) -> None:
        self._load_sessions(self._load_tags)

    def _toggle_pin(self) -> None:
        self._load_sessions(
            lambda sessions: self._toggle_flag(self._store.sessions.pin, sessions, "pinned", "Pinned", "Unpinned")
        )

    def _toggle_archive(self) -> None:
        self._load_sessions(
            lambda sessions: self._toggle_flag(
                self._store.sessions.archive, sessions, "archived", "Archived", "Unarchived"
            )
        )

    def _trash(self) -> None:
        self._load_sessions(self._trash_sessions)

    def _load_sessions(self, use: SessionsCallback) -> None:
        """Read the marked sessions, or the current one, and hand them to `use`. They are read again because a session
        may have changed since it was marked."""
        current = self._screen.current_session
        keys = list(self._screen.sessions.marked_keys) or ([current.key] if current else [])

        def read() -> None:
            if sessions := self._store.sessions.by_keys(keys):
                self._screen.app.call_from_thread(use, sessions)

        run_in_thread(self._screen, read, group="gather")

    def _prompt_common_title(self, sessions: Sequence[Session]) -> None:
        from tui.dialogs.text import SingleLineDialog

        note = f"Applies to {format_count(len(sessions), 'session')}."
        self._screen.app.push_screen(
            SingleLineDialog("Title", "", lambda text: self._store.sessions.set_titles(sessions, text), note=note)
        )

    def _prompt_note(self, sessions: Sequence[Session]) -> None:
        from tui.dialogs.text import MultilineDialog

        is_single = len(sessions) == 1
        note = session_title(sessions[0]) if is_single else f"Applies to {format_count(len(sessions), 'session')}."
        self._screen.app.push_screen(
            MultilineDialog("Note", "", lambda text: self._store.notes.add_note_to_all(sessions, text), note=note)
        )

    def _load_tags(self, sessions: Sequence[Session]) -> None:
        def read() -> None:
            tags = sorted(set.intersection(*(set(self._store.notes.tags(session)) for session in sessions)))
            self._screen.app.call_from_thread(self._prompt_tags, sessions, tags)

        run_in_thread(self._screen, read, group="gather")

    def _prompt_tags(self, sessions: Sequence[Session], tags: Sequence[str]) -> None:
        from tui.dialogs.text import SingleLineDialog

        def save(text: str) -> None:
            self._store.notes.retag(sessions, text.replace(",", " ").split(), tags)

        count = f"Applies to {format_count(len(sessions), 'session')}. " if len(sessions) > 1 else ""
        note = f"{count}Separate tags with spaces."
        self._screen.app.push_screen(SingleLineDialog("Tags", " ".join(tags), save, note=note))

    def _toggle_flag(
        self, set_flag: Callable[..., None], sessions: Sequence[Session], column: str, done: str, undone: str
    ) -> None:
        """Set the flag on all sessions, or remove it if all of them have it."""
        is_on = not all(getattr(session, column) for session in sessions)
        verb, count = done if is_on else undone, format_count(len(sessions), "session")
        self._run_in_thread(lambda: set_flag(sessions, is_on), f"{verb} {count}. Press u to undo.")

    def _trash_sessions(self, sessions: Sequence[Session]) -> None:
        notice = f"Moved {format_count(len(sessions), 'session')} to the trash. Press u to undo."
        self._run_in_thread(lambda: self._store.sessions.delete(sessions), notice)
        self._screen.sessions.set_marked(frozenset())

    def _run_in_thread(self, edit: Callable[[], object], notice: str) -> None:
        def run() -> None:
            edit()
            self._screen.notify(notice, timeout=3, markup=False)

        run_in_thread(self._screen, run, group="edit")

    # ── all edits ─────────────────────────────────────────────────────────────────────────────────

    def _open_facts(self) -> None:
        from tui.screens.facts import FactsScreen

        self._screen.app.push_screen(FactsScreen(self._store, self._clock), self._screen.open_entry)

    def _open_published(self) -> None:
        """Open the published files of the current session, or of all sessions if there is none."""
        from tui.screens.published import PublishedScreen

        screen = PublishedScreen(self._store, self._screen.current_session, self._clock)
        self._screen.app.push_screen(screen, self._screen.open_entry)

    def _open_journal(self) -> None:
        from tui.screens.journal import JournalScreen

        self._screen.app.push_screen(JournalScreen(self._store, self._clock), self._screen.open_entry)

    def _undo(self) -> None:
        def undo() -> None:
            from tui.screens.journal import undo_newest

            self._screen.notify(undo_newest(self._store), timeout=4, markup=False)

        run_in_thread(self._screen, undo, group="edit")
