"""This module holds the app: its screens, its global keys, and the one place that shows errors.

Screens are imported when they are first opened; only the browser screen is needed at the start.
"""

from __future__ import annotations

import asyncio
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

from rich.text import Text
from textual import on
from textual.app import SuspendNotSupported, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.css.query import NoMatches
from textual.events import DescendantFocus, Event, InputEvent, Key, MouseDown, Paste
from textual.screen import Screen
from textual.worker import WorkerFailed

import store as store_package
from store.errors import Refused, StoreError
from store.text.sanitize import sanitize
from store.text.sentences import tidy_sentences
from tui.drafts import KEEP_SECONDS, Draft, describe_left_drafts, find_left_drafts
from tui.hangup import call_on_hangup
from tui.messages import Copy
from tui.palette import MAX_QUERY_CHARACTERS, ActionProvider, list_actions
from tui.privacy.app import PrivateApp
from tui.privacy.terminal_filter import TerminalFilter
from tui.render import glyphs
from tui.render.styles import THEME, shorten_message
from tui.screens.browser.empty_list import DemoMade
from tui.screens.browser.screen import BrowserScreen
from tui.screens.store_screen import Clock
from tui.settings import Settings
from tui.textual_compat import reliable_timer
from tui.tuning import ProcessTuning
from tui.widgets.pane_row import PaneRow
from tui.workers import threaded

if TYPE_CHECKING:
    from rich.console import RenderableType
    from textual.actions import ActionParseResult
    from textual.dom import DOMNode
    from textual.filter import LineFilter
    from textual.notifications import SeverityLevel
    from textual.theme import Theme
    from textual.timer import Timer, TimerCallback
    from textual.widgets import TextArea

    from store.resume.command import ResumePlan
    from store.store import Store
    from store.sync.worker_process import WorkerProcess


END_SIGNALS = (signal.SIGHUP, signal.SIGTERM)
"""Are sent when the terminal is closed, and by `kill`."""

TEAM_COMMANDS = (
    ("requests", "Requests of members", "Answer the members of your team who ask for a session or a turn"),
    ("ask", "Ask a member for a session", "Ask a member of your team for one session or turn"),
    ("metrics", "Figures of the team", "Counts and API value of the members who share theirs"),
)
"""Are the edits that only the palette offers: their names, titles and help."""

KEY_SIGNS = {"enter": "↵", "backspace": "bksp"}

GC_IDLE_SECONDS = 0.3
"""Garbage is collected again this long after the last key that was typed."""

FULL_GC_SECONDS = 3
"""Old objects are collected only if no key was pressed and the mouse was not used for this long."""


WAS_UPDATED = "Backscroll was updated while it was open. Quit and start it again."


def was_updated(*, since: float) -> bool:
    """Return whether the files of the program were replaced or removed. Screens are imported when they are opened, and
    those of another version do not fit."""
    folders = (Path(__file__).parent, Path(store_package.__file__ or "").parent)
    try:
        changes = [max(path.stat().st_ctime for path in folder.rglob("*.py")) for folder in folders]
    except (OSError, ValueError):
        return True
    return max(changes) > since


@runtime_checkable
class HasUnsavedChanges(Protocol):
    """A screen that asks before an unsaved text is lost."""

    @property
    def is_unsaved(self) -> bool: ...
    @property
    def area(self) -> TextArea: ...
    async def action_leave(self) -> None: ...


@runtime_checkable
class HasCursorBlink(Protocol):
    """A field with a blinking cursor."""

    cursor_blink: bool


@runtime_checkable
class HasSelectedText(Protocol):
    """A field in which text can be selected."""

    @property
    def selected_text(self) -> str: ...
    def action_copy(self) -> None: ...


class Backscroll(PrivateApp["ResumePlan"]):
    """Returns from `run` the plan of the session to resume, or None."""

    TITLE = "Backscroll"
    CSS_PATH = Path(__file__).with_name("app.tcss")
    COMMANDS: ClassVar = {ActionProvider}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "help", "Keys", key_display="?", id="app.help", tooltip="All keys of this screen"),
        Binding("q", "quit", "Quit", id="app.quit", tooltip="Quit Backscroll"),
        # Priority, because fields and screens have this key, too.
        Binding(
            "ctrl+c",
            "interrupt",
            "Copy or quit",
            show=False,
            priority=True,
            id="app.interrupt",
            tooltip="Copy the selected text, or do what q does here",
        ),
    ]

    def __init__(
        self,
        store: Store,
        clock: Clock = lambda: datetime.now(UTC),
        *,
        worker: WorkerProcess | None = None,
        pick: bool = False,
        is_new_store: bool = False,
    ) -> None:
        super().__init__()
        self.started_at = self._input_at = time.time()
        self._stores = [store]
        self._worker = worker
        self._tuning = ProcessTuning()
        self._full_gc_timer: Timer | None = None
        self._is_new_store = is_new_store
        self._pick = pick
        self._clock = clock
        self._no_color_filters = self._make_no_color_filters() if self.no_color else []
        self.settings = Settings()
        self._terminal_filter = TerminalFilter(allow_addresses=self.settings.hyperlinks)
        self._draft = Draft()
        self.register_theme(THEME)
        self._set_first_theme(self.settings.theme if self.settings.theme in self.available_themes else THEME.name)
        if not self.settings.motion:
            self.animation_level = "none"

    def _set_first_theme(self, name: str) -> None:
        """Set the theme before anything is styled. A change of the theme would parse all styles a second time."""
        if self.available_themes[name].dark == self.current_theme.dark:
            self.set_reactive(Backscroll.theme, name)
            self.stylesheet.set_variables(self.get_css_variables())
        else:
            self.theme = name

    def get_default_screen(self) -> Screen[None]:
        store = self._stores[-1]
        title = "temporary, read-only" if store.refusal else "backscroll"
        return BrowserScreen(store, self._clock, title, worker=self._worker, is_new_store=self._is_new_store)

    def on_mount(self) -> None:
        self.theme_changed_signal.subscribe(self, self._remember_theme)
        # A notice that is newer than the last key or click is about what changed the screen.
        self.screen_change_signal.subscribe(self, lambda _: self.drop_notices(before=self._input_at))
        if self.settings.keymap:
            self.set_keymap(self.settings.keymap)
        if self.settings.own_keys:
            from tui.palette import all_bindings

            self.settings.check_own_keys([binding.id or "" for binding in all_bindings()])
        self.settings.check_theme(self.available_themes)
        for problem in self.settings.problems:
            self.show_error(StoreError(problem))
        self._protect_unsaved_text()
        if self._pick:
            from tui.screens.picker import PickerScreen

            self.push_screen(PickerScreen(self._stores[-1], self._clock), self.exit)

    def on_ready(self) -> None:
        self._tuning.finish_start()
        self._gc_timer = self.set_interval(GC_IDLE_SECONDS, self._resume_gc, pause=True)
        self._full_gc_timer = self.set_interval(FULL_GC_SECONDS, self._tuning.collect_old_objects)

    async def on_event(self, event: Event) -> None:
        if isinstance(event, Key | MouseDown):
            self._input_at = time.time()
        if isinstance(event, Key) and self._worker is not None:
            self._worker.give_way(is_typing=False)
        if isinstance(event, Paste) and isinstance(self.screen, CommandPalette):
            event.text = event.text[:MAX_QUERY_CHARACTERS]
        if isinstance(event, InputEvent) and self._full_gc_timer is not None:
            self._full_gc_timer.reset()
        await super().on_event(event)

    def set_timer(
        self, delay: float, callback: TimerCallback | None = None, *, name: str | None = None, pause: bool = False
    ) -> Timer:
        """Make all timers reliable, also those of Textual: if the timer of a resize were lost, later resizes would be
        ignored."""
        return reliable_timer(super().set_timer(delay, callback, name=name, pause=pause))

    def prepare_for_typing(self) -> None:
        """Let nothing else delay the answers while a person types: the worker rests, and no garbage is collected, since
        that may take longer than an answer."""
        if self._worker is not None:
            self._worker.give_way(is_typing=True)
        if self._tuning.is_active:
            self._tuning.pause_collection()
            self._gc_timer.reset()

    def _resume_gc(self) -> None:
        self._gc_timer.pause()
        self._tuning.resume_collection()

    def freeze_gc(self) -> None:
        """Exempt what exists by now from garbage collection, because it stays."""
        self._tuning.keep_current_objects()

    def _remember_theme(self, theme: Theme) -> None:
        self.settings.save_theme(theme.name)

    def close_stores(self) -> None:
        """Close the stores. Call this after `run`, when no thread reads them any more."""
        for store in self._stores:
            store.close()

    # ── no colour, no motion ──────────────────────────────────────────────────────────────────────

    @staticmethod
    def _make_no_color_filters() -> list[LineFilter]:
        from tui.privacy.no_color import NoColorFilter

        return [NoColorFilter()]

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        """Stop the cursor of a field from blinking if motion is off. Textual stops only animations."""
        if self.animation_level == "none" and isinstance(event.widget, HasCursorBlink):
            event.widget.cursor_blink = False

    # ── safety ────────────────────────────────────────────────────────────────────────────────────

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*(self._no_color_filters or super().get_line_filters()), self._terminal_filter]

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Leave out the commands that have a key here, and the screenshot, which would leave private text in a file."""
        hidden = ("Keys", "Quit", "Screenshot")
        if isinstance(screen, BrowserScreen):
            yield SystemCommand("Show the trash", "List deleted sessions, to restore or purge them", screen.show_trash)
            yield SystemCommand("Show archived sessions", "List the sessions that are archived", screen.show_archived)
            for name, title, help_text in TEAM_COMMANDS:
                yield SystemCommand(title, help_text, partial(screen.edits.run, name))
            if screen.has_conversation and screen.conversation.session is not None:
                help_text = "What the model saw before and after each compaction of this session"
                yield SystemCommand("Compactions", help_text, screen.conversation.open_compactions)
        for command in super().get_system_commands(screen):
            if command.title not in hidden:
                yield command

    def notify(
        self,
        message: str,
        *,
        title: str = "",
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = True,
    ) -> None:
        """Show a message. Foreign text in it is made safe and shortened here."""
        message = shorten_message(tidy_sentences(message))
        super().notify(message, title=title, severity=severity, timeout=timeout, markup=markup)

    def show_error(self, error: StoreError) -> None:
        self.notify(str(error), severity="error", timeout=10, markup=False)

    async def unlock_secrets(self) -> bool:
        """Unlock the secrets of the store that is shown, and return whether they are. Call this in a worker."""
        from tui.dialogs.secret import unlock_secrets

        return await unlock_secrets(self, self._stores[-1])

    def can_edit(self, store: Store) -> bool:
        """Return whether a store takes edits. If it does not, say why, before a person types anything."""
        if store.refusal:
            self.show_error(Refused(store.refusal))
        return not store.refusal

    def handle_error(self, error: Exception) -> bool:
        """Show what the store refuses to a worker, and go on. After the person has quit, a widget that is gone does not
        matter, either. Nor is it a bug if code does not fit what was loaded before, because Backscroll was
        updated. Any other error is a bug and ends the program."""
        cause = error.error if isinstance(error, WorkerFailed) else error
        if isinstance(error, WorkerFailed) and isinstance(cause, StoreError):
            self.show_error(cause)
            return True
        if self._is_from_update(cause):
            if not isinstance(error, WorkerFailed):  # the part that handles messages has ended
                self.exit(return_code=1, message=WAS_UPDATED)
            self.show_error(StoreError(WAS_UPDATED))
            return True
        return not self.is_running and isinstance(error, NoMatches)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action. If it needs code of another version, say so and go on."""
        try:
            return await super().run_action(action, default_namespace, namespaces)
        except Exception as error:
            if not self._is_from_update(error):
                raise
            self.show_error(StoreError(WAS_UPDATED))
            return True

    def _is_from_update(self, error: BaseException) -> bool:
        is_mismatch = isinstance(error, ImportError | AttributeError | TypeError)
        return is_mismatch and was_updated(since=self.started_at)

    def show_crash(self) -> None:
        """Show the traceback without the values of variables, because they contain people's conversations.

        While a secret is typed or shown, the message of the error is left out as well: it may quote the secret.
        """
        kind, _, frames = sys.exc_info()
        text = traceback.format_exc()
        if not self.is_logging and kind is not None:
            text = "".join(traceback.format_tb(frames)) + kind.__name__
        self.panic(Text(sanitize(text)))
        self.keep_unsaved_text()

    # ── unsaved text ──────────────────────────────────────────────────────────────────────────────

    def _protect_unsaved_text(self) -> None:
        """Keep unsaved text from now on, and name what an earlier browser could not save."""
        self.set_interval(KEEP_SECONDS, self.keep_unsaved_text)
        loop = asyncio.get_running_loop()
        for number in END_SIGNALS if threading.current_thread() is threading.main_thread() else ():
            loop.add_signal_handler(number, self._end_by_signal, number)
        if not self.is_headless:
            call_on_hangup(partial(loop.call_soon_threadsafe, self._end_by_signal, signal.SIGHUP))
        if drafts := find_left_drafts():
            self.notify(describe_left_drafts(drafts), severity="warning", timeout=10, markup=False)

    def keep_unsaved_text(self) -> None:
        """Write the text that is typed and not saved to a file, or delete that file."""
        self._draft.keep("\n\n".join(self._find_unsaved_texts()))

    def _find_unsaved_texts(self) -> Iterator[str]:
        for screen in self.screen_stack:
            with suppress(NoMatches):  # the screen is not complete yet, or not any more
                if isinstance(screen, HasUnsavedChanges) and screen.is_unsaved:
                    yield screen.area.text

    def _end_by_signal(self, number: int) -> None:
        """End as if the person quit, so that the terminal is restored and the clipboard is cleared."""
        self.exit(return_code=128 + number)

    def exit(
        self, result: ResumePlan | None = None, return_code: int = 0, message: RenderableType | None = None
    ) -> None:
        self.keep_unsaved_text()
        super().exit(result, return_code, message)

    # ── help ──────────────────────────────────────────────────────────────────────────────────────

    def get_key_display(self, binding: Binding) -> str:
        """Show these keys by other signs than Textual does, because its signs are marks with another meaning here."""
        if binding.key_display is None and binding.key in KEY_SIGNS:
            return KEY_SIGNS[binding.key]
        return super().get_key_display(binding)

    def action_help(self) -> None:
        from tui.screens.help import HelpScreen

        keys = [(action.keys, action.help_text, action.id) for action in list_actions(self.screen)]
        self.push_screen(HelpScreen(keys, glyphs.LEGEND))

    async def action_quit(self) -> None:
        """Quit, but ask first if there is an unsaved text."""
        if isinstance(self.screen, HasUnsavedChanges) and self.screen.is_unsaved:
            await self.screen.action_leave()
        else:
            await super().action_quit()

    async def action_interrupt(self) -> None:
        """Copy what is selected. If nothing is, do what q does on this screen. In a field, where q is a letter, do what
        Escape does, or quit on the first screen."""
        field = self.screen.focused
        if isinstance(field, HasSelectedText):
            if field.selected_text:
                field.action_copy()
                return
        elif self.screen.get_selected_text():
            self.screen.action_copy_text()
            return
        bindings = self.screen.active_bindings
        chosen = bindings.get("q") or (bindings.get("escape") if len(self.screen_stack) > 1 else None)
        if chosen is None or not chosen.enabled:
            await self.action_quit()
        else:
            await self.run_action(chosen.binding.action, chosen.node)

    # ── resuming and copying ──────────────────────────────────────────────────────────────────────

    def exit_and_resume(self, plan: ResumePlan | None) -> None:
        """End the app. Its caller starts the agent of the plan then. If the settings say so, run the agent instead and
        come back when it ends."""
        if plan is None:
            return
        if not self.settings.returns_after_resume:
            self.exit(plan)
            return
        self.lock_secrets()
        self.keep_unsaved_text()
        try:
            with self.suspend():
                ending = self._run_agent(plan)
        except SuspendNotSupported:
            self.exit(plan)
        else:
            self.notify(ending, timeout=4, markup=False)

    @staticmethod
    def _run_agent(plan: ResumePlan) -> str:
        """Run an agent, and return a sentence about its end. An error must not leave `suspend`, which would not take
        the terminal back."""
        try:
            status = plan.run()
        except StoreError as error:
            return str(error)
        ending = "" if status == 0 else f" with status {status}" if status > 0 else f" by signal {-status}"
        return f"{plan.agent_label} ended{ending}."

    @on(PaneRow.SizesChanged)
    def _remember_pane_sizes(self, changed: PaneRow.SizesChanged) -> None:
        self.settings.set_pane_sizes(changed.row, changed.sizes)

    @on(Copy)
    def _copy(self, copy: Copy) -> None:
        copy.stop()
        self._copy_text(copy.text, copy.description)

    @threaded(group="copy")
    def _copy_text(self, text: str, description: str) -> None:
        from tui.privacy.clipboard import copy_locally, encode_for_terminal

        text = text.encode("utf-8", "replace").decode()  # half of a surrogate pair cannot be pasted
        is_copied = copy_locally(text)
        if not is_copied:
            self.call_from_thread(self.send_to_clipboard, text, encode_for_terminal(text))
        notice = f"Copied {description}." if is_copied else f"Sent {description} to the terminal's clipboard."
        self.notify(notice, timeout=2, markup=False)

    # ── demo ──────────────────────────────────────────────────────────────────────────────────────

    @on(DemoMade)
    def _open_demo(self, made: DemoMade) -> None:
        self._stores.append(made.store)
        self.push_screen(BrowserScreen(made.store, self._clock, title="backscroll demo"))
