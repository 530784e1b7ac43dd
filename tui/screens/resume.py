"""This card shows the agent, command and folder of a session before it is resumed, and what prevents it."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen
from textual.widgets import Static

from store.resume.command import ResumePlan, plan_resume
from tui.dialogs.layout import HELP_BINDING
from tui.messages import Copy, DataMessage
from tui.render import glyphs
from tui.render.resume_card import ResumeCard, render_resume_card
from tui.render.styles import session_title
from tui.screens.folder_scope import current_folder
from tui.widgets.key_hints import KeyHintBar
from tui.workers import threaded

if TYPE_CHECKING:
    from store.model.session import Session
    from store.resume.check_results import ResumeChecks
    from store.store import Store
    from tui.settings import Settings

CARD_WIDTH = 84
CARD_PADDING = 3


def _resume_binding(keys: str, action: str, label: str, tooltip: str) -> Binding:
    return Binding(keys, action, label, id=f"resume.{action}", tooltip=tooltip)


class ResumeScreen(ModalScreen[ResumePlan | None]):
    """Returns the plan if the person resumes the session."""

    DEFAULT_CSS = f"""
    ResumeScreen {{
        align: center middle;

        #card {{
            width: {CARD_WIDTH};
            max-width: 96%;
            height: auto;
            max-height: 90%;
            padding: 1 {CARD_PADDING};
            background: $surface;
            scrollbar-size-vertical: 1;
        }}

        #card-text {{
            height: auto;
        }}
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        _resume_binding("enter", "go", "Resume", "Resume the session in its agent"),
        Binding("enter", "explain", "Why not", show=False, id="resume.explain", tooltip="Say what is missing"),
        _resume_binding("d", "folder", "Folder", "Resume in another folder"),
        _resume_binding("h", "here", "Here", "Use the folder of this terminal, or the session's own"),
        _resume_binding("f", "fork", "Fork", "Resume in a fork that the agent makes, or in the session itself"),
        _resume_binding(
            "p", "permissions", "Permissions", "Always let this agent act without asking, or make it ask again"
        ),
        _resume_binding("c", "copy", "Copy", "Copy the command or the instructions"),
        _resume_binding("i", "input", "API input", "Export the conversation as API input"),
        _resume_binding("w", "write_back", "Write back", "Write edits back to the agent's store"),
        Binding("escape,q", "dismiss(None)", "Cancel", id="resume.stay", tooltip="Stay in Backscroll"),
        HELP_BINDING,
    ]

    card_text = query_one("#card-text", Static)

    class ChecksFinished(DataMessage):
        generation: int
        checks: ResumeChecks

    def __init__(self, store: Store, session: Session, settings: Settings) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._settings = settings
        self._folder: Path | None = None
        "Replaces the session's own folder."
        self._is_fork = False
        self._notice = ""
        self._checks: ResumeChecks | None = None
        self._generation = 0
        self.plan = self._build_plan()

    def _build_plan(self) -> ResumePlan:
        owner = self._store.team.find_owner(self._session.id)
        found = plan_resume(self._session, self._folder, fork=self._is_fork, owner=owner)
        if found.skip_permission_flags and self._session.source in self._settings.skip_permissions:
            return plan_resume(self._session, self._folder, fork=self._is_fork, flags=found.skip_permission_flags)
        return found

    def compose(self) -> ComposeResult:
        with VerticalScroll(id="card", can_focus=False):
            yield Static(id="card-text")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self._start_checks()

    def on_resize(self) -> None:
        self._update_card()

    # ── checks ────────────────────────────────────────────────────────────────────────────────────

    def _start_checks(self) -> None:
        self._checks = None
        self._generation += 1
        self._check_in_thread(self.plan, self._generation)
        self._update_card()

    @threaded(group="look around", exclusive=True)
    def _check_in_thread(self, found: ResumePlan, generation: int) -> None:
        from store.resume.checks import check_resume

        self.post_message(self.ChecksFinished(generation, check_resume(self._store, found)))

    @on(ChecksFinished)
    def _show_checks(self, looked: ChecksFinished) -> None:
        if looked.generation == self._generation:
            self._checks = looked.checks
            self._update_card()

    def _update_card(self) -> None:
        self.card_text.update(self._build_card())
        self.refresh_bindings()

    def _build_card(self) -> Content:
        found = self.plan
        going = ResumeCard(
            program=found.agent_label,
            title=session_title(found.session),
            command=shlex.join(found.argv or ()),
            program_name=found.argv[0] if found.argv else "",
            program_path=found.program_path,
            install_hint=found.install_command,
            folder=str(found.folder) if found.folder else None,
            folder_exists=found.folder_exists,
            hint=found.hint,
            is_fork=found.is_fork,
            skip_options=" ".join(found.skip_permission_flags),
            skips_prompts=found.skips_permissions,
            checks=self._checks.list_checks() if self._checks else None,
            message=self._notice,
        )
        return render_resume_card(going, min(CARD_WIDTH, self.app.size.width * 96 // 100) - 2 * CARD_PADDING)

    # ── actions ───────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        found = self.plan
        match action:
            case "go":
                return found.can_run
            case "explain":
                return not found.can_run and found.argv is not None
            case "here" | "folder":
                return found.argv is not None or found.folder is not None
            case "fork":
                return found.argv is not None
            case "permissions":
                return bool(found.argv and found.skip_permission_flags)
            case "write_back":
                seen = self._checks
                return seen is not None and bool(seen.unwritten_edits) and seen.can_write_back
        return super().check_action(action, parameters)

    def _update_plan(self, notice: str = "") -> None:
        self.plan, before = self._build_plan(), self.plan
        self._notice = notice
        if self.plan.folder == before.folder:
            self._update_card()
        else:
            self._start_checks()

    def action_go(self) -> None:
        self.dismiss(self.plan)

    def action_explain(self) -> None:
        notice = f"The agent cannot start yet. What is missing is marked with {glyphs.FAILED}."
        self.notify(notice, timeout=4, markup=False)

    def action_here(self) -> None:
        here = current_folder()
        self._folder = here if self._folder != here else None
        self._update_plan()

    def action_folder(self) -> None:
        from tui.dialogs.folder import FolderDialog

        self.app.push_screen(FolderDialog(self.plan.folder), self._set_folder)

    def _set_folder(self, typed: str | None) -> None:
        from tui.dialogs.folder import parse_folder

        if typed is not None:
            self._folder = parse_folder(typed)
            self._update_plan()

    def action_fork(self) -> None:
        self._is_fork = not self._is_fork
        forked = self._build_plan()
        if forked.argv is None:
            self._is_fork = False
        self._update_plan("" if forked.argv else forked.hint)

    def action_permissions(self) -> None:
        self._settings.set_skip_permissions(self._session.source, not self.plan.skips_permissions)
        self._update_plan()

    def action_copy(self) -> None:
        found = self.plan
        self.post_message(Copy(found.command or found.hint, "the command" if found.command else "the instructions"))

    def action_input(self) -> None:
        from tui.screens.rebuild import RebuildScreen

        self.app.push_screen(RebuildScreen(self._store, self._session))

    def action_write_back(self) -> None:
        from tui.dialogs.write_back import WriteBackDialog

        dialog = WriteBackDialog.for_session(self._store, self._session)
        self.app.push_screen(dialog, lambda _: self._start_checks())
