"""A list whose sessions can be corrected: titles, tags, notes, pins, archive, trash; and the way to all other edits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeVar

from textual.binding import Binding, BindingType

from store.errors import ChangedMeanwhile
from store.model.session import Session
from tui.render.styles import count, title_of
from tui.screens.browser.session_list import ListingScreen
from tui.workers import threaded

Answer = TypeVar("Answer")


def _edit(keys: str, action: str, told: str, tooltip: str) -> Binding:
    return Binding(keys, action, told, id=f"edit.{action}", tooltip=tooltip, show=False)


TRASH = _edit("d", "trash", "Trash", "Move the session, or all marked ones, to the trash")


class EditingScreen(ListingScreen[Answer]):
    BINDINGS: ClassVar[list[BindingType]] = [
        _edit("t", "title", "Title", "Give the session another title"),
        _edit("T", "tags", "Tags", "Tag the session, or all marked ones"),
        _edit("m", "note", "Note", "Write a note on the session"),
        _edit("p", "pin", "Pin", "Pin, or unpin, the session or all marked ones"),
        _edit("a", "archive", "Archive", "Archive, or bring back, the session or all marked ones"),
        TRASH,
        _edit("S", "summary", "Summary", "Read and correct the summary"),
        _edit("dollar_sign", "secrets", "Secrets", "The session's secrets"),
        _edit("w", "write_back", "Write back", "Carry corrections into the store the session came from"),
        _edit("f", "facts", "Facts", "What agents know beyond one conversation"),
        _edit("u", "undo", "Undo", "Take the newest edit back"),
        _edit("U", "journal", "Journal", "Every edit, with before and after"),
        Binding("A", "tools", "All tool calls", show=False, id="list.tools", tooltip="The tool calls of all sessions"),
    ]

    @property
    def chosen(self) -> Session | None:
        """The session that keys are meant for."""
        return self.sessions.selected

    def go_to(self, entry: str | None) -> None:
        """An edit's screen was left for this entry, of whichever session."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "title" | "note" | "summary" | "secrets" | "write_back":
                return self.chosen is not None
            case "tags" | "pin" | "archive" | "trash":
                return self.chosen is not None or bool(self.sessions.marked)
        return super().check_action(action, parameters)

    # ── one session ───────────────────────────────────────────────────────────────────────────────

    def action_title(self) -> None:
        from tui.dialogs.text import AskScreen

        if self.sessions.marked:
            self._gather(self._ask_for_titles)
            return
        if (session := self.chosen) is None:
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
        self.app.push_screen(AskScreen("Title", session.title, keep, note=note))

    def action_note(self) -> None:
        self._gather(self._ask_for_note)

    def action_summary(self) -> None:
        from tui.screens.summary import SummaryScreen

        if self.chosen is not None:
            self.app.push_screen(SummaryScreen(self._store, self.chosen, self._clock))

    def action_secrets(self) -> None:
        from tui.screens.secrets import SecretsScreen

        if self.chosen is not None:
            self.app.push_screen(SecretsScreen(self._store, self.chosen, self._clock), self.go_to)

    def action_write_back(self) -> None:
        from tui.screens.write_back import WriteBackScreen

        if self.chosen is not None:
            self.app.push_screen(WriteBackScreen(self._store, self.chosen))

    # ── one session or many ───────────────────────────────────────────────────────────────────────

    def action_tags(self) -> None:
        self._gather(self._read_tags)

    def action_pin(self) -> None:
        self._gather(lambda chosen: self._flip(self._store.sessions.pin, chosen, "pinned", "Pinned", "Unpinned"))

    def action_archive(self) -> None:
        self._gather(
            lambda chosen: self._flip(self._store.sessions.archive, chosen, "archived", "Archived", "Brought back")
        )

    def action_trash(self) -> None:
        self._gather(self._throw_away)

    def _gather(self, use: Callable[[Sequence[Session]], object]) -> None:
        """The marked sessions, else the chosen one; read anew, since a mark may be a while old."""
        chosen = [self.chosen.key] if self.chosen else []
        self._read_chosen(list(self.sessions.marked) or chosen, use)

    @threaded(group="gather")
    def _read_chosen(self, keys: Sequence[int], use: Callable[[Sequence[Session]], object]) -> None:
        found = self._store.sessions.by_keys(keys)
        if found:
            self.app.call_from_thread(use, found)

    def _ask_for_titles(self, chosen: Sequence[Session]) -> None:
        from tui.dialogs.text import AskScreen

        note = f"The same for {count(len(chosen), 'session')}."
        self.app.push_screen(
            AskScreen("Title", "", lambda text: self._store.sessions.set_titles(chosen, text), note=note)
        )

    def _ask_for_note(self, chosen: Sequence[Session]) -> None:
        from tui.dialogs.text import WriteScreen

        note = title_of(chosen[0]) if len(chosen) == 1 else f"On each of {count(len(chosen), 'session')}."
        self.app.push_screen(WriteScreen("Note", "", lambda text: self._store.notes.note_all(chosen, text), note=note))

    @threaded(group="gather")
    def _read_tags(self, chosen: Sequence[Session]) -> None:
        worn = sorted(set.intersection(*(set(self._store.notes.tags(session)) for session in chosen)))
        self.app.call_from_thread(self._ask_for_tags, chosen, worn)

    def _ask_for_tags(self, chosen: Sequence[Session], worn: Sequence[str]) -> None:
        from tui.dialogs.text import AskScreen

        def keep(text: str) -> None:
            self._store.notes.retag(chosen, text.replace(",", " ").split(), worn)

        note = f"Of {count(len(chosen), 'session')}; parted by spaces." if len(chosen) > 1 else "Parted by spaces."
        self.app.push_screen(AskScreen("Tags", " ".join(worn), keep, note=note))

    def _flip(self, flag: Callable[..., None], chosen: Sequence[Session], column: str, done: str, undone: str) -> None:
        """On, unless all of them are."""
        on = not all(getattr(session, column) for session in chosen)
        self._do(lambda: flag(chosen, on), f"{done if on else undone} {count(len(chosen), 'session')}; u undoes it.")

    def _throw_away(self, chosen: Sequence[Session]) -> None:
        told = f"Moved {count(len(chosen), 'session')} to the trash; u brings back."
        self._do(lambda: self._store.sessions.delete(chosen), told)
        self.sessions.mark(frozenset())

    @threaded(group="edit")
    def _do(self, edit: Callable[[], object], told: str) -> None:
        edit()
        self.notify(told, timeout=3, markup=False)

    # ── all edits ─────────────────────────────────────────────────────────────────────────────────

    def action_facts(self) -> None:
        from tui.screens.facts import FactsScreen

        self.app.push_screen(FactsScreen(self._store, self._clock), self.go_to)

    def action_journal(self) -> None:
        from tui.screens.journal import JournalScreen

        self.app.push_screen(JournalScreen(self._store, self._clock), self.go_to)

    def action_tools(self) -> None:
        """With the words that are looked for, if any, and where."""
        from tui.screens.tool_calls import ToolsScreen

        wanted = self._wanted
        screen = ToolsScreen(self._store, self._clock, wanted.query, self._scopes, wanted.folder)
        self.app.push_screen(screen, self.go_to)

    @threaded(group="edit")
    def action_undo(self) -> None:
        from tui.screens.journal import undo_newest

        self.notify(undo_newest(self._store), timeout=4, markup=False)
