"""This screen shows a tool call and its result side by side, and steps to the other calls of the session."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from store.database.cancel import cancel_when
from store.errors import StoreError
from store.model.entry import PairedCall, ToolResult, readable_text
from store.model.session import Session
from store.text.validate import decode
from tui.json_document.large_containers import format_json
from tui.json_document.tree import JsonTree
from tui.messages import Copy, DataMessage
from tui.render.exit_code import RECORD_DEPTH, find_exit_code
from tui.render.line_diff import count_changed_lines, render_edit_diff
from tui.render.tool_call_details import (
    ToolCallRow,
    build_call_row,
    render_arguments_title,
    render_call_heading,
    render_result_title,
    render_same_tool_calls,
)
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.tool_call_pane import ToolCallPane
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

NO_MATCHING_CALL = "No tool call is known for this result."


class InspectorScreen(Screen[str | None]):
    """Returns the public id of the entry to go to, or None."""

    AUTO_FOCUS = "#answered TextView"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 (declared so by Textual)
    DEFAULT_CSS = """
    InspectorScreen {
        #call, #same {
            height: 1;
            padding: 0 1;
        }

        #call {
            margin-bottom: 1;
        }

        #sides {
            height: 1fr;
        }

        #asked {
            height: 2fr;
            border-bottom: solid $foreground 15%;
        }

        #answered {
            height: 3fr;
        }

        &.-wide {
            #sides {
                layout: horizontal;
            }

            #asked {
                width: 2fr;
                height: 1fr;
                border-bottom: none;
                border-right: solid $foreground 15%;

                &.-as-text {
                    width: 3fr;
                }
            }

            #answered {
                width: 3fr;
                height: 1fr;
            }
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
        Binding("Y", "copy_output", "Copy result", id="call.copy_output", tooltip="Copy the result"),
    ]

    heading_line = query_one("#call", Static)
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
        diff: Sequence[Content] | None
        changed_lines: tuple[int, int] | None
        output: str
        result: JsonTree | None
        exit_code: int | None

    def __init__(self, store: Store, session: Session, call_key: int) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._call_key = call_key
        self._generation = 0
        self._calls: Sequence[ToolCallRow] = ()
        self._loaded: InspectorScreen.CallLoaded | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="call")
        with Container(id="sides"):
            yield ToolCallPane(id="asked")
            yield ToolCallPane(id="answered")
        yield Static(id="same")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self._open_call(self._call_key)
        self._load_calls()

    # ── reading the store ─────────────────────────────────────────────────────────────────────────

    @threaded(group="list")
    def _load_calls(self) -> None:
        from store.conversations import tool_calls

        found = tool_calls.iter_session_calls(self._store, self._session.key)
        self.post_message(self.SessionCallsLoaded([build_call_row(call, self._session.cwd) for call in found]))

    @threaded(exclusive=True, group="read")
    def _load_call(self, key: int, generation: int) -> None:
        from store.conversations import tool_calls

        with cancel_when(self._store, lambda: generation != self._generation):
            call = tool_calls.get_call(self._store, key)
            self.post_message(
                self.CallLoaded(
                    generation,
                    call,
                    JsonTree(call.arguments) if call.entry else None,
                    render_edit_diff(call.name, call.arguments),
                    count_changed_lines(call.name, call.arguments),
                    readable_text(call.result),
                    JsonTree(call.result) if isinstance(call.result, dict | list) else None,
                    self._find_exit_code(call),
                )
            )

    def _find_exit_code(self, call: PairedCall) -> int | None:
        """Find the exit code in the result, or in its record if that belongs to no other call."""
        exit_code = find_exit_code(call.result)
        if exit_code is not None or call.result_entry is None:
            return exit_code
        entry = self._store.chains.entry(self._session.key, int(call.result_entry.rpartition("#")[2]))
        is_alone = sum(isinstance(part, ToolResult) for part in entry.parts) == 1
        if entry.record is None or not is_alone:
            return None
        with suppress(StoreError):
            return find_exit_code(decode(self._store.records.get(entry.record)), RECORD_DEPTH)
        return None

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
        self.arguments_pane.show(
            render_arguments_title(read.changed_lines), read.diff, read.arguments, NO_MATCHING_CALL
        )
        output = read.output if read.output or read.result is None else None
        self.result_pane.show(render_result_title(read.output, read.call.status), output, read.result)
        self._update_heading()

    def _update_heading(self) -> None:
        """Show the position among all calls, once both are loaded."""
        if self._loaded is not None:
            call, at = self._loaded.call, self._call_index
            self.heading_line.update(
                render_call_heading(call, at or 0, len(self._calls) if at is not None else 0, self._loaded.exit_code)
            )
            self.same_name_line.update(render_same_tool_calls(self._calls, at) if at is not None else Content(""))
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
            case (("go" | "copy_arguments" | "copy_output"), _):
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

    def action_copy_output(self) -> None:
        if self._loaded is not None:
            self.post_message(Copy(self._loaded.output, "the result"))
