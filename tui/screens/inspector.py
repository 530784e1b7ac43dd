"""One tool call: what was asked and what came of it, side by side; and from there to the others."""

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

from store.database.cancel import until_stale
from store.errors import StoreError
from store.model.entry import PairedCall, ToolResult, readable
from store.model.session import Session
from store.text.validate import decode
from tui.json_document.large_containers import spelled
from tui.json_document.tree import Tree
from tui.messages import Copy, Told
from tui.render.exit_code import IN_A_RECORD, exit_code
from tui.render.line_diff import diff_of, tally
from tui.render.tool_call_details import CallLine, arguments_title, call_line, heading, result_title, same_calls
from tui.widgets.key_hints import KeysLine
from tui.widgets.tool_call_pane import CallPane
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

NOBODY_ASKED = "This result answers no call that is known"


class InspectorScreen(Screen[str | None]):
    """Answers with the public id of the entry to go to, if the person wants to read on there."""

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
        Binding("enter,g", "go", "Go to turn", id="call.go", tooltip="Read on where the call was made"),
        Binding("J", "step(1)", "Next call", id="call.next", tooltip="The next call of the session"),
        Binding("K", "step(-1)", "Previous", show=False, id="call.previous", tooltip="The call before"),
        Binding(
            "left_square_bracket",
            "same(-1)",
            "Before",
            key_display="[",
            id="call.same_before",
            tooltip="The call before with the same name",
        ),
        Binding(
            "right_square_bracket",
            "same(1)",
            "After",
            key_display="]",
            id="call.same_after",
            tooltip="The next call with the same name",
        ),
        Binding("a", "all", "All calls", id="call.all", tooltip="All calls of this session, to filter"),
        Binding("y", "copy_arguments", "Copy asked", id="call.copy_arguments", tooltip="Copy the arguments"),
        Binding("Y", "copy_output", "Copy result", id="call.copy_output", tooltip="Copy what came of it"),
    ]

    told = query_one("#call", Static)
    same = query_one("#same", Static)
    asked = query_one("#asked", CallPane)
    answered = query_one("#answered", CallPane)

    class Listed(Told):
        """All calls of the session, in order."""

        calls: Sequence[CallLine]

    class Read(Told):
        """A call with its result, ready to be shown."""

        generation: int
        call: PairedCall
        arguments: Tree | None
        diff: Sequence[Content] | None
        changed: tuple[int, int] | None
        output: str
        result: Tree | None
        exit_code: int | None

    def __init__(self, store: Store, session: Session, call_key: int) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._key = call_key
        self._generation = 0
        self._calls: Sequence[CallLine] = ()
        self._shown: InspectorScreen.Read | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="call")
        with Container(id="sides"):
            yield CallPane(id="asked")
            yield CallPane(id="answered")
        yield Static(id="same")
        yield KeysLine()

    def on_mount(self) -> None:
        self._look_at(self._key)
        self._list()

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    @threaded(group="list")
    def _list(self) -> None:
        from store.conversations import tool_calls

        found = tool_calls.of_session(self._store, self._session.key)
        self.post_message(self.Listed([call_line(call, self._session.cwd) for call in found]))

    @threaded(exclusive=True, group="read")
    def _read(self, key: int, generation: int) -> None:
        from store.conversations import tool_calls

        with until_stale(self._store, lambda: generation != self._generation):
            call = tool_calls.get(self._store, key)
            self.post_message(
                self.Read(
                    generation,
                    call,
                    Tree(call.arguments) if call.entry else None,
                    diff_of(call.name, call.arguments),
                    tally(call.name, call.arguments),
                    readable(call.result),
                    Tree(call.result) if isinstance(call.result, dict | list) else None,
                    self._exit_code(call),
                )
            )

    def _exit_code(self, call: PairedCall) -> int | None:
        """What the output does not tell may stand beside it in its record, where that is of no other call."""
        told = exit_code(call.result)
        if told is not None or call.result_entry is None:
            return told
        entry = self._store.chains.entry(self._session.key, int(call.result_entry.rpartition("#")[2]))
        is_alone = sum(isinstance(part, ToolResult) for part in entry.parts) == 1
        if entry.record is None or not is_alone:
            return None
        with suppress(StoreError):
            return exit_code(decode(self._store.records.get(entry.record)), IN_A_RECORD)
        return None

    def _look_at(self, key: int) -> None:
        """What is shown stays until the other call is there."""
        self._key = key
        self._generation += 1
        self._read(key, self._generation)

    # ── what goes down ────────────────────────────────────────────────────────────────────────────

    @on(Listed)
    def _take_list(self, listed: Listed) -> None:
        self._calls = listed.calls
        self._tell()

    @on(Read)
    def _show(self, read: Read) -> None:
        if read.generation != self._generation:
            return
        self._shown = read
        self.asked.show(arguments_title(read.changed), read.diff, read.arguments, NOBODY_ASKED)
        output = read.output if read.output or read.result is None else None
        self.answered.show(result_title(read.output, read.call.status), output, read.result)
        self._tell()

    def _tell(self) -> None:
        """Where among all calls this one is; known once both have been read."""
        if self._shown is not None:
            call, at = self._shown.call, self._at
            self.told.update(heading(call, at or 0, len(self._calls) if at is not None else 0, self._shown.exit_code))
            self.same.update(same_calls(self._calls, at) if at is not None else Content(""))
        self.refresh_bindings()

    @property
    def _at(self) -> int | None:
        return next((at for at, call in enumerate(self._calls) if call.key == self._key), None)

    # ── to other calls ────────────────────────────────────────────────────────────────────────────

    def action_step(self, by: int) -> None:
        at = self._at
        if at is not None and 0 <= at + by < len(self._calls):
            self._look_at(self._calls[at + by].key)

    def action_same(self, by: int) -> None:
        other = self._same(by)
        if other is not None:
            self._look_at(other.key)

    def _same(self, by: int) -> CallLine | None:
        at = self._at
        if at is None:
            return None
        others = self._calls[at + 1 :] if by > 0 else self._calls[:at][::-1]
        return next((call for call in others if call.name == self._calls[at].name), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action, parameters:
            case "same", (int(by),):
                return self._same(by) is not None
            case (("go" | "copy_arguments" | "copy_output"), _):
                return self._shown is not None
            case "all", _:
                return bool(self._calls)
        return super().check_action(action, parameters)

    @work
    async def action_all(self) -> None:
        from tui.dialogs.tool_call_picker import CallsScreen

        chosen = await self.app.push_screen_wait(CallsScreen(self._calls, self._key))
        if chosen is not None:
            self._look_at(chosen)

    # ── away from here ────────────────────────────────────────────────────────────────────────────

    def action_go(self) -> None:
        if self._shown is not None:
            self.dismiss(self._shown.call.entry or self._shown.call.result_entry)

    def action_copy_arguments(self) -> None:
        if self._shown is not None:
            self._copy_arguments(self._shown.call)

    @threaded(group="copy")
    def _copy_arguments(self, call: PairedCall) -> None:
        arguments = call.arguments
        self.post_message(Copy(arguments if isinstance(arguments, str) else spelled(arguments), "arguments"))

    def action_copy_output(self) -> None:
        if self._shown is not None:
            self.post_message(Copy(self._shown.output, "output"))
