"""This screen shows a tool call and its result side by side, and steps to the other calls of the session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from store.database.cancel import cancel_when
from store.formats.exit_code import RECORD_DEPTH, find_exit_code
from store.model.entry import PairedCall, readable_text
from store.model.session import Session
from tui.json_document.large_containers import format_json
from tui.json_document.tree import JsonTree
from tui.messages import Copy, DataMessage
from tui.render.inspection.call_copy import CallPart
from tui.render.inspection.tool_call_details import (
    ToolCallRow,
    build_call_rows,
    render_arguments_title,
    render_call_heading,
    render_result_title,
    render_same_calls,
)
from tui.render.line_diff import DiffLine, compare_edit, count_changed_lines, render_diff_lines
from tui.screens.call_copies import copy_call_part
from tui.widgets.call_copy_bindings import build_copy_bindings
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.pane_row import PaneRow
from tui.widgets.tool_call_pane import ToolCallPane
from tui.workers import threaded

if TYPE_CHECKING:
    from store.leaks.masking import LeakMask
    from store.store import Store
    from tui.app import Backscroll

T = TypeVar("T")

WIDE_WIDTH = 100
"""The width from which the result stands beside the arguments, not below them."""

NO_MATCHING_CALL = "No tool call is known for this result."


class InspectorScreen(Screen[str | None]):
    """Returns the public id of the entry to go to, or None."""

    AUTO_FOCUS = "#answered TextView"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE_WIDTH, "-wide")]  # noqa: RUF012 (declared so by Textual)
    DEFAULT_CSS = """
    InspectorScreen {
        #call, #same {
            height: 1;
            padding: 0 1;
        }

        #call {
            margin-bottom: 1;
        }

        &.-wide .title {
            display: none;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,i", "dismiss(None)", "Back", id="call.back", tooltip="Back to the conversation"),
        Binding("enter,g", "go", "Go to turn", id="call.go", tooltip="Go to the turn of this call"),
        Binding("J", "step(1)", "Next call", id="call.next", tooltip="Next call of the session"),
        Binding(
            "K", "step(-1)", "Previous call", show=False, id="call.previous", tooltip="Previous call of the session"
        ),
        *build_copy_bindings("call", output_keys="R,Y", show=True),
        Binding(
            "left_square_bracket",
            "same(-1)",
            "Previous same tool",
            key_display="[",
            id="call.same_before",
            tooltip="Previous call of the same tool",
        ),
        Binding(
            "right_square_bracket",
            "same(1)",
            "Next same tool",
            key_display="]",
            id="call.same_after",
            tooltip="Next call of the same tool",
        ),
        Binding("a", "all", "All calls", id="call.all", tooltip="Show all tool calls of the session"),
        Binding("y", "copy_arguments", "Copy arguments", id="call.copy_arguments", tooltip="Copy the arguments"),
        Binding(
            "O",
            "open_links",
            "Open link",
            show=False,
            id="call.open_links",
            tooltip="Open a path of this call in your editor, or an address",
        ),
    ]

    app: Backscroll

    heading_line = query_one("#call", Static)
    pane_row = query_one(PaneRow)
    same_name_line = query_one("#same", Static)
    arguments_pane = query_one("#asked", ToolCallPane)
    result_pane = query_one("#answered", ToolCallPane)

    class SessionCallsLoaded(DataMessage):
        """Holds all calls of the session, in order."""

        calls: Sequence[ToolCallRow]

    class CallLoaded(DataMessage):
        """Holds a call with its result, ready to be shown."""

        generation: int
        call: PairedCall
        arguments: JsonTree | None
        changed_lines: tuple[int, int] | None
        output: str
        result: JsonTree | None
        exit_code: int | None
        diff: Sequence[DiffLine] | None
        "Is None if the call edits no file."

    def __init__(
        self,
        store: Store,
        session: Session,
        call_key: int,
        pane_sizes: Mapping[str, float] | None = None,
        mask: LeakMask | None = None,
    ) -> None:
        """Show a call of the session. The mask hides leaks, if there is one."""
        super().__init__()
        self._pane_sizes = pane_sizes or {}
        self._store = store
        self._session = session
        self._call_key = call_key
        self._mask = mask
        self._generation = 0
        self._calls: Sequence[ToolCallRow] = ()
        self._loaded: InspectorScreen.CallLoaded | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="call")
        with PaneRow(id="sides", sizes=self._pane_sizes):
            yield ToolCallPane(id="asked")
            yield ToolCallPane(id="answered")
        yield Static(id="same")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self._open_call(self._call_key)
        self._load_calls()

    def on_resize(self) -> None:
        self._arrange_panes(has_diff=self.arguments_pane.shows_text)

    def _arrange_panes(self, *, has_diff: bool) -> None:
        """Give the arguments their size: half of the width for an edit, which is a text."""
        is_wide = self.app.size.width >= WIDE_WIDTH
        self.pane_row.split("#asked", 1 / 2 if is_wide and has_diff else 2 / 5, is_vertical=not is_wide)

    # ── reading the store ─────────────────────────────────────────────────────────────────────────

    @threaded(group="list")
    def _load_calls(self) -> None:
        from store.conversations import tool_calls

        found = tool_calls.iter_session_calls(self._store, self._session.key)
        self.post_message(self.SessionCallsLoaded(build_call_rows(map(self._hide_leaks, found), self._session.cwd)))

    @threaded(exclusive=True, group="read")
    def _load_call(self, key: int, generation: int) -> None:
        from store.conversations import tool_calls

        with cancel_when(self._store, lambda: generation != self._generation):
            call = self._hide_leaks(tool_calls.get_call(self._store, key))
            exit_code = find_exit_code(call.result)
            changed_lines = count_changed_lines(call.name, call.arguments)
            record = (
                self._hide_leaks(tool_calls.load_result_record(self._store, self._session.key, call))
                if exit_code is None or changed_lines is not None
                else None
            )
            self.post_message(
                self.CallLoaded(
                    generation,
                    call,
                    JsonTree(call.arguments) if call.entry else None,
                    changed_lines,
                    readable_text(call.result),
                    JsonTree(call.result) if isinstance(call.result, dict | list) else None,
                    find_exit_code(record, RECORD_DEPTH) if exit_code is None else exit_code,
                    compare_edit(call.name, call.arguments, call.result, record),
                )
            )

    def _hide_leaks(self, value: T) -> T:
        return self._mask.mask(value) if self._mask else value

    def _open_call(self, key: int) -> None:
        """Load another call. The current one stays visible until then."""
        self._call_key = key
        self._generation += 1
        self._load_call(key, self._generation)

    # ── showing ───────────────────────────────────────────────────────────────────────────────────

    @on(SessionCallsLoaded)
    def _accept_calls(self, listed: SessionCallsLoaded) -> None:
        self._calls = listed.calls
        self._update_heading()

    @on(CallLoaded)
    def _show_call(self, read: CallLoaded) -> None:
        if read.generation != self._generation:
            return
        self._loaded = read
        # This is rendered here and not in the thread, because the limit of its time works only in the main thread.
        diff = render_diff_lines(read.diff) if read.diff is not None else None
        self._arrange_panes(has_diff=diff is not None)
        self.arguments_pane.show(render_arguments_title(read.changed_lines), diff, read.arguments, NO_MATCHING_CALL)
        output = read.output if read.output or read.result is None else None
        self.result_pane.show(render_result_title(read.output, read.call.status), output, read.result)
        self._update_heading()

    def _update_heading(self) -> None:
        """Show the position among all calls, once both are loaded."""
        if self._loaded is not None:
            call, at = self._loaded.call, self._call_index
            total, is_parallel = (len(self._calls), self._calls[at].is_parallel) if at is not None else (0, False)
            heading = render_call_heading(call, at or 0, total, self._loaded.exit_code, is_parallel=is_parallel)
            self.heading_line.update(heading)
            self.same_name_line.update(render_same_calls(self._calls, at) if at is not None else Content(""))
        self.refresh_bindings()

    @property
    def _call_index(self) -> int | None:
        return next((at for at, call in enumerate(self._calls) if call.key == self._call_key), None)

    # ── to other calls ────────────────────────────────────────────────────────────────────────────

    def action_step(self, by: int) -> None:
        at = self._call_index
        if at is not None and 0 <= at + by < len(self._calls):
            self._open_call(self._calls[at + by].key)

    def action_same(self, by: int) -> None:
        other = self._find_same_name(by)
        if other is not None:
            self._open_call(other.key)

    def _find_same_name(self, by: int) -> ToolCallRow | None:
        at = self._call_index
        if at is None:
            return None
        others = self._calls[at + 1 :] if by > 0 else self._calls[:at][::-1]
        return next((call for call in others if call.name == self._calls[at].name), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action, parameters:
            case "same", (int(by),):
                return self._find_same_name(by) is not None
            case (("go" | "copy_arguments" | "copy_part" | "open_links"), _):
                return self._loaded is not None
            case "all", _:
                return bool(self._calls)
        return super().check_action(action, parameters)

    @work
    async def action_all(self) -> None:
        from tui.dialogs.tool_call_picker import ToolCallPickerDialog

        chosen = await self.app.push_screen_wait(ToolCallPickerDialog(self._calls, self._call_key))
        if chosen is not None:
            self._open_call(chosen)

    # ── leaving ───────────────────────────────────────────────────────────────────────────────────

    def action_go(self) -> None:
        if self._loaded is not None:
            self.dismiss(self._loaded.call.entry or self._loaded.call.result_entry)

    def action_copy_arguments(self) -> None:
        if self._loaded is not None:
            self._copy_arguments(self._loaded.call)

    @threaded(group="copy")
    def _copy_arguments(self, call: PairedCall) -> None:
        arguments = call.arguments
        self.post_message(Copy(arguments if isinstance(arguments, str) else format_json(arguments), "the arguments"))

    def action_copy_part(self, part: CallPart) -> None:
        if self._loaded is not None:
            self._copy_part(self._loaded.call, part)

    @threaded(group="copy")
    def _copy_part(self, call: PairedCall, part: CallPart) -> None:
        copy_call_part(self, self._store, self._session, call, part, self._mask)

    def action_open_links(self) -> None:
        from tui.links.opener import LinkOpener
        from tui.links.targets import find_call_links

        if self._loaded is not None:
            call = self._loaded.call
            LinkOpener(self, self.app, self._session.cwd).offer(lambda: find_call_links(call))
