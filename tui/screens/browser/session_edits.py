"""A list whose sessions can be corrected: titles, tags, notes, pins, archive, trash; and the way to all other edits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType

from store.errors import ChangedMeanwhile
from store.model.session import Session
from tui.render.styles import format_count, session_title
from tui.screens.browser.session_list import SessionListScreen
from tui.workers import threaded

Result = TypeVar("Result")


def _edit_binding(keys: str, action: str, told: str, tooltip: str) -> Binding:
    return Binding(keys, action, told, id=f"edit.{action}", tooltip=tooltip, show=False)


TRASH_BINDING = _edit_binding("d", "trash", "Trash", "Move the session, or all marked ones, to the trash")


class SessionEditScreen(SessionListScreen[Result]):
    BINDINGS: ClassVar[list[BindingType]] = [
        _edit_binding("t", "title", "Title", "Give the session another title"),
        _edit_binding("T", "tags", "Tags", "Tag the session, or all marked ones"),
        _edit_binding("m", "note", "Note", "Write a note on the session"),
        _edit_binding("p", "pin", "Pin", "Pin, or unpin, the session or all marked ones"),
        _edit_binding("a", "archive", "Archive", "Archive, or bring back, the session or all marked ones"),
        TRASH_BINDING,
        _edit_binding("S", "summary", "Summary", "Read and correct the summary"),
        _edit_binding("dollar_sign", "secrets", "Secrets", "The session's secrets"),
        _edit_binding("w", "write_back", "Write back", "Carry corrections into the store the session came from"),
        _edit_binding("f", "facts", "Facts", "What agents know beyond one conversation"),
        _edit_binding("u", "undo", "Undo", "Take the newest edit back"),
        _edit_binding("U", "journal", "Journal", "Every edit, with before and after"),
        Binding("A", "tools", "All tool calls", show=False, id="list.tools", tooltip="The tool calls of all sessions"),
    ]

    @property
    def current_session(self) -> Session | None:
        """The session that keys are meant for."""
        return self.sessions.selected

    def open_entry(self, entry: str | None) -> None:
        """An edit's screen was left for this entry, of whichever session."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "title" | "note" | "summary" | "secrets" | "write_back":
                return self.current_session is not None
            case "tags" | "pin" | "archive" | "trash":
                return self.current_session is not None or bool(self.sessions.marked_keys)
        return super().check_action(action, parameters)

    # ── one session ───────────────────────────────────────────────────────────────────────────────

    def action_title(self) -> None:
        from tui.dialogs.text import SingleLineDialog

        if self.sessions.marked_keys:
            self._load_selected(self._prompt_titles)
            return
        if (session := self.current_session) is None:
            return

        seen = session.own_title

        def keep(text: str) -> None:
            nonlocal seen
            try:
                self._store.sessions.set_title(session, text, seen=seen)
            except ChangedMeanwhile as meanwhile:
                seen = str(meanwhile.current)  # they are told, and may go on
                raise

        note = f"Its agent calls it {session.agent_title!r}." if session.agent_title and session.own_title else ""
        self.app.push_screen(SingleLineDialog("Title", session.title, keep, note=note))

    def action_note(self) -> None:
        self._load_selected(self._prompt_note)

    def action_summary(self) -> None:
        from tui.screens.summary import SummaryScreen

        if self.current_session is not None:
            self.app.push_screen(SummaryScreen(self._store, self.current_session, self._clock))

    def action_secrets(self) -> None:
        from tui.screens.secrets import SecretsScreen

        if self.current_session is not None:
            self.app.push_screen(SecretsScreen(self._store, self.current_session, self._clock), self.open_entry)

    def action_write_back(self) -> None:
        from tui.screens.write_back import WriteBackScreen

        if self.current_session is not None:
            self.app.push_screen(WriteBackScreen(self._store, self.current_session))

    # ── one session or many ───────────────────────────────────────────────────────────────────────

    def action_tags(self) -> None:
        self._load_selected(self._load_tags)

    def action_pin(self) -> None:
        self._load_selected(
            lambda chosen: self._toggle_flag(self._store.sessions.pin, chosen, "pinned", "Pinned", "Unpinned")
        )

    def action_archive(self) -> None:
        self._load_selected(
            lambda chosen: self._toggle_flag(
                self._store.sessions.archive, chosen, "archived", "Archived", "Brought back"
            )
        )

    def action_trash(self) -> None:
        self._load_selected(self._trash_sessions)

    def _load_selected(self, use: Callable[[Sequence[Session]], object]) -> None:
        """The marked sessions, else the chosen one; read anew, since a mark may be a while old."""
        chosen = [self.current_session.key] if self.current_session else []
        self._load_sessions(list(self.sessions.marked_keys) or chosen, use)

    @threaded(group="gather")
    def _load_sessions(self, keys: Sequence[int], use: Callable[[Sequence[Session]], object]) -> None:
        found = self._store.sessions.by_keys(keys)
        if found:
            self.app.call_from_thread(use, found)

    def _prompt_titles(self, chosen: Sequence[Session]) -> None:
        from tui.dialogs.text import SingleLineDialog

        note = f"The same for {format_count(len(chosen), 'session')}."
        self.app.push_screen(
            SingleLineDialog("Title", "", lambda text: self._store.sessions.set_titles(chosen, text), note=note)
        )

    def _prompt_note(self, chosen: Sequence[Session]) -> None:
        from tui.dialogs.text import MultilineDialog

        note = session_title(chosen[0]) if len(chosen) == 1 else f"On each of {format_count(len(chosen), 'session')}."
        self.app.push_screen(
            MultilineDialog("Note", "", lambda text: self._store.notes.add_note_to_all(chosen, text), note=note)
        )

    @threaded(group="gather")
    def _load_tags(self, chosen: Sequence[Session]) -> None:
        worn = sorted(set.intersection(*(set(self._store.notes.tags(session)) for session in chosen)))
        self.app.call_from_thread(self._prompt_tags, chosen, worn)

    def _prompt_tags(self, chosen: Sequence[Session], worn: Sequence[str]) -> None:
        from tui.dialogs.text import SingleLineDialog

        def keep(text: str) -> None:
            self._store.notes.retag(chosen, text.replace(",", " ").split(), worn)

        note = (
            f"Of {format_count(len(chosen), 'session')}; parted by spaces." if len(chosen) > 1 else "Parted by spaces."
        )
        self.app.push_screen(SingleLineDialog("Tags", " ".join(worn), keep, note=note))

    def _toggle_flag(
        self, flag: Callable[..., None], chosen: Sequence[Session], column: str, done: str, undone: str
    ) -> None:
        """On, unless all of them are."""
        on = not all(getattr(session, column) for session in chosen)
        self._run_edit(
            lambda: flag(chosen, on), f"{done if on else undone} {format_count(len(chosen), 'session')}; u undoes it."
        )

    def _trash_sessions(self, chosen: Sequence[Session]) -> None:
        told = f"Moved {format_count(len(chosen), 'session')} to the trash; u brings back."
        self._run_edit(lambda: self._store.sessions.delete(chosen), told)
        self.sessions.set_marked(frozenset())

    @threaded(group="edit")
    def _run_edit(self, edit: Callable[[], object], told: str) -> None:
        edit()
        self.notify(told, timeout=3, markup=False)

    # ── all edits ─────────────────────────────────────────────────────────────────────────────────

    def action_facts(self) -> None:
        from tui.screens.facts import FactsScreen

        self.app.push_screen(FactsScreen(self._store, self._clock), self.open_entry)

    def action_journal(self) -> None:
        from tui.screens.journal import JournalScreen

        self.app.push_screen(JournalScreen(self._store, self._clock), self.open_entry)

    def action_tools(self) -> None:
        """With the words that are looked for, if any, and where."""
        from tui.screens.tool_calls import ToolCallsScreen

        wanted = self._list_options
        screen = ToolCallsScreen(self._store, self._clock, wanted.query, self._folder_scopes, wanted.folder)
        self.app.push_screen(screen, self.open_entry)

    @threaded(group="edit")
    def action_undo(self) -> None:
        from tui.screens.journal import undo_newest

        self.notify(undo_newest(self._store), timeout=4, markup=False)
