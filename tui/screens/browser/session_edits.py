"""This module edits the sessions of a list: titles, tags, notes, pins, archive and trash. It also opens the screens on
which everything else is edited."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING

from textual.binding import Binding

from store.errors import ChangedMeanwhile, StoreError
from store.model.session import Session
from store.text.sanitize import one_line
from store.text.tags import format_tags, split_tags
from tui.render.session_lines import abbreviate_home
from tui.render.styles import MAX_MESSAGE_CHARACTERS, format_count, session_title
from tui.workers import run_in_thread

if TYPE_CHECKING:
    from textual.content import Content

    from store.model.knowledge import Note
    from store.store import Store
    from tui.screens.browser.screen import BrowserScreen
    from tui.screens.store_screen import Clock

NAMED_TITLE_CELLS = 40
"""The width of a title in a notice."""

SessionsCallback = Callable[[Sequence[Session]], object]


def edit_binding(keys: str, name: str, label: str, tooltip: str, *, show: bool = False) -> Binding:
    """Return a key that runs one of the edits of `SessionEdits`."""
    return Binding(keys, f"edit('{name}')", label, id=f"edit.{name}", tooltip=tooltip, show=show)


def name_sessions(sessions: Sequence[Session]) -> str:
    """Return the title of one session, so that a person sees which one was edited, or the number of several."""
    if len(sessions) == 1:
        return f"“{one_line(session_title(sessions[0]), NAMED_TITLE_CELLS)}”"
    return format_count(len(sessions), "session")


class SessionEdits:
    """Edits the marked sessions, or the current one. Each edit is run by its name."""

    _SINGLE_SESSION_EDITS = frozenset({"title", "note", "comment", "summary", "secrets", "write_back"})
    _SCREENS = frozenset({"summary", "secrets", "facts", "published", "journal", "metrics"})
    "These open a screen, on which something can be read even if the store takes no edits."
    _TRASH_EDITS = frozenset({"restore", "purge"})
    "These are available while the list shows the trash, and those of the next line while it does not."
    _OTHER_EDITS = frozenset({"pin", "archive", "trash"})
    _LIST_EDITS = frozenset({"propose_titles", "tags", "share"}) | _OTHER_EDITS | _TRASH_EDITS

    def __init__(self, screen: BrowserScreen, store: Store, clock: Clock) -> None:
        self._screen = screen
        self._store = store
        self._clock = clock
        self._edits: Mapping[str, Callable[[], object]] = {
            "title": self._edit_title,
            "propose_titles": self._propose_titles,
            "tags": self._edit_tags,
            "note": self._edit_note,
            "comment": self._edit_comment,
            "pin": self._toggle_pin,
            "archive": self._toggle_archive,
            "trash": self._trash,
            "restore": self._restore,
            "purge": self._purge,
            "summary": self._open_summary,
            "secrets": self._open_secrets,
            "write_back": self._open_write_back,
            "share": self._share,
            "conflicts": self._choose_values,
            "requests": self._open_requests,
            "ask": self._ask_member,
            "metrics": self._open_metrics,
            "facts": self._open_facts,
            "published": self._open_published,
            "undo": self._undo,
            "journal": self._open_journal,
        }

    def run(self, name: str) -> None:
        if name in self._SCREENS or self._screen.app.can_edit(self._store):
            self._edits[name]()

    def is_available(self, name: str) -> bool:
        if name in self._SINGLE_SESSION_EDITS:
            return self._screen.current_session is not None
        if name in self._LIST_EDITS:
            # While a person reads, a mistyped key should move nothing.
            has_sessions = self._screen.current_session is not None or bool(self._screen.sessions.marked_keys)
            hidden = self._OTHER_EDITS if self._screen.search_query.shows_trash else self._TRASH_EDITS
            return has_sessions and not self._screen.is_reading and name not in hidden
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

        agent_title = session.agent_title[:MAX_MESSAGE_CHARACTERS]
        note = f"The agent's title is {agent_title!r}." if agent_title and session.own_title else ""
        self._screen.app.push_screen(
            SingleLineDialog("Title", session.title, save, note=note), self._report("Title set.")
        )

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

    def _share(self) -> None:
        self._load_sessions(self._load_share_dialog)

    def _choose_values(self) -> None:
        from tui.dialogs.value_conflict import open_conflicts

        session = self._screen.current_session
        session_id = session.id if session else None
        open_conflicts(self._screen, self._store, lambda conflict: conflict.session_id == session_id)

    def _open_requests(self) -> None:
        from tui.dialogs.team_request import open_requests

        open_requests(self._screen, self._store)

    def _ask_member(self) -> None:
        from tui.dialogs.team_request import open_ask_dialog

        open_ask_dialog(self._screen, self._store)

    def _open_metrics(self) -> None:
        from tui.dialogs.team_request import open_metrics

        open_metrics(self._screen, self._store)

    def _load_share_dialog(self, sessions: Sequence[Session]) -> None:
        def read() -> None:
            from tui.dialogs.share import build_share_dialog, open_share_dialog

            dialog = build_share_dialog(self._store, sessions)
            self._screen.app.call_from_thread(open_share_dialog, self._screen, dialog)

        run_in_thread(self._screen, read, group="gather")

    # ── one session or several ────────────────────────────────────────────────────────────────────

    def _edit_note(self) -> None:
        """Edit the note on the entry that is read, or on the session. Several sessions get a new one."""
        if self._screen.is_reading:
            self._screen.conversation.edit_note()
        else:
            self._load_sessions(self._load_notes)

    def _edit_comment(self) -> None:
        """Edit the own comment on the entry that is read, or on the session."""
        if self._screen.is_reading:
            self._screen.conversation.edit_comment()
        elif (session := self._screen.current_session) is not None:
            run_in_thread(self._screen, lambda: self._load_comments(session), group="gather")

    def _load_comments(self, session: Session) -> None:
        self._store.team.check_commentable(session)
        notes = self._store.notes.notes(session)
        self._screen.app.call_from_thread(self._open_note_dialog, session, notes, is_comment=True)

    def _edit_tags(self) -> None:
        self._load_sessions(self._load_tags)

    def _propose_titles(self) -> None:
        self._load_sessions(self._preview_titles)

    def _preview_titles(self, sessions: Sequence[Session]) -> None:
        """Show what the person's own program proposes. Leaving the preview ends the program."""
        from store.edits.title_hook import TitleHook, TitleProposal
        from tui.dialogs.preview import PreviewDialog
        from tui.render.browser_notices import render_title_proposals

        is_stopped = Event()
        proposals: list[TitleProposal] = []
        try:
            hook = TitleHook(self._store, is_stopped.is_set)
        except StoreError as error:
            self._screen.app.show_error(error)
            return

        def load() -> tuple[list[Content], bool]:
            proposals[:] = hook.propose_all([self._store.sessions.by_key(session.key) for session in sessions])
            return render_title_proposals(proposals), any(proposal.is_change for proposal in proposals)

        def finish(was_done: bool | None) -> None:
            is_stopped.set()
            if was_done:
                count = format_count(sum(proposal.is_change for proposal in proposals), "title")
                self._screen.notify(f"Set {count}. Press u to undo.", timeout=3, markup=False)

        title = f"{format_count(len(sessions), 'title')} by {hook.program}"
        dialog = PreviewDialog(title, load, lambda: hook.apply(proposals), waiting=f"Waiting for {hook.program}…")
        self._screen.app.push_screen(dialog, finish)

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

    def _restore(self) -> None:
        self._load_sessions(self._restore_sessions)

    def _purge(self) -> None:
        self._load_sessions(self._count_contents)

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
            SingleLineDialog("Title", "", lambda text: self._store.sessions.set_titles(sessions, text), note=note),
            self._report("Titles set."),
        )

    def _load_notes(self, sessions: Sequence[Session]) -> None:
        if len(sessions) > 1:
            self._prompt_common_note(sessions)
            return

        def read() -> None:
            notes = self._store.notes.notes(sessions[0])
            self._screen.app.call_from_thread(self._open_note_dialog, sessions[0], notes)

        run_in_thread(self._screen, read, group="gather")

    def _open_note_dialog(self, session: Session, notes: Sequence[Note], *, is_comment: bool = False) -> None:
        from tui.dialogs.note import list_editable, open_note_dialog

        on_session = list_editable([note for note in notes if note.entry_seq is None], is_comment=is_comment)
        inside = format_count(sum(note.entry_seq is not None for note in notes), "note")
        hint = f"\n{inside} inside the conversation: Esc, then ' goes there." if inside else ""
        place = session_title(session) + hint
        open_note_dialog(self._screen, self._store, session, on_session, place=place, is_comment=is_comment)

    def _prompt_common_note(self, sessions: Sequence[Session]) -> None:
        from tui.dialogs.text import MultilineDialog

        note = f"Applies to {format_count(len(sessions), 'session')}."
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
            self._store.notes.retag(sessions, split_tags(text), tags)

        count = f"Applies to {format_count(len(sessions), 'session')}. " if len(sessions) > 1 else ""
        note = f"{count}Separate tags with commas."
        self._screen.app.push_screen(
            SingleLineDialog("Tags", format_tags(tags), save, note=note), self._report("Tags set.")
        )

    def _report(self, notice: str) -> Callable[[str | None], None]:
        def report(text: str | None) -> None:
            if text is not None:
                self._screen.notify(f"{notice} Press u to undo.", timeout=3, markup=False)

        return report

    def _toggle_flag(
        self, set_flag: Callable[..., None], sessions: Sequence[Session], column: str, done: str, undone: str
    ) -> None:
        """Set the flag on all sessions, or remove it if all of them have it."""
        is_on = not all(getattr(session, column) for session in sessions)
        verb = done if is_on else undone
        where = f"; is:archived shows {_pronoun(sessions)}" if column == "archived" and is_on else ""
        notice = f"{verb} {name_sessions(sessions)}. Press u to undo{where}."
        self._run_in_thread(lambda: set_flag(sessions, is_on), notice)
        if column == "archived":  # they leave the list, and no edit may apply to sessions that are not seen
            self._screen.sessions.set_marked(())

    def _trash_sessions(self, sessions: Sequence[Session]) -> None:
        where = f"is:trashed shows {_pronoun(sessions)}"
        notice = f"Moved {name_sessions(sessions)} to the trash. Press u to undo; {where}."
        self._run_in_thread(lambda: self._store.sessions.delete(sessions), notice)
        self._screen.sessions.set_marked(())

    # ── the trash ─────────────────────────────────────────────────────────────────────────────────

    def _restore_sessions(self, sessions: Sequence[Session]) -> None:
        trashed = [session for session in sessions if session.deleted]
        notice = f"Restored {name_sessions(trashed)}. Press u to undo."
        self._run_in_thread(lambda: self._store.sessions.restore(trashed), notice)
        self._screen.sessions.set_marked(())

    def _count_contents(self, sessions: Sequence[Session]) -> None:
        """Read what would be lost. Only sessions in the trash are deleted for good, also if others are selected."""
        trashed = [session for session in sessions if session.deleted]

        def read() -> None:
            from store.conversations.purge import count_contents

            self._screen.app.call_from_thread(self._confirm_purge, trashed, count_contents(self._store, trashed))

        run_in_thread(self._screen, read, group="gather")

    def _confirm_purge(self, sessions: Sequence[Session], contents: Mapping[str, int]) -> None:
        from tui.dialogs.confirm import ConfirmDialog
        from tui.render.browser_notices import describe_purge

        def purge(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self._screen.sessions.set_marked(())
                self._screen.notify(f"Deleting {count}…", timeout=2, markup=False)
                run_in_thread(self._screen, lambda: self._purge_in_thread(sessions), group="edit")

        count = format_count(len(sessions), "session")
        if sessions:
            dialog = ConfirmDialog(f"Delete {count} for good?", describe_purge(sessions, contents))
            self._screen.app.push_screen(dialog, purge)

    def _purge_in_thread(self, sessions: Sequence[Session]) -> None:
        from store.conversations.purge import list_backups_of

        backups = list_backups_of(self._store, sessions)
        is_clean = self._store.sessions.purge(sessions)
        self._screen.notify(f"Deleted {format_count(len(sessions), 'session')} for good.", timeout=4, markup=False)
        left = ["in the WAL file until all programs close the store"] * (not is_clean)
        left += [f"in the backup {abbreviate_home(str(backup))}" for backup in backups]
        if left:
            notice = f"Traces stay {', '.join(left)}."
            self._screen.notify(notice, severity="warning", timeout=10, markup=False)

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

            notice = undo_newest(self._store)
            self._screen.app.clear_notifications()  # an older one would offer to undo what is undone
            self._screen.notify(notice, timeout=4, markup=False)

        run_in_thread(self._screen, undo, group="edit")


def _pronoun(sessions: Sequence[Session]) -> str:
    return "it" if len(sessions) == 1 else "them"
