"""This screen shows what a compaction dropped and what the model saw after it, and forks the session from before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from store.conversations.compactions import list_compactions
from store.conversations.fork import fork_before_compaction
from store.model.compaction import Compaction
from store.model.session import Session
from tui.dialogs.text import MultilineDialog
from tui.messages import Copy, DataMessage
from tui.render.inspection.compaction_lines import (
    render_after,
    render_before_title,
    render_compaction_heading,
    render_dropped,
)
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.tool_call_pane import ToolCallPane
from tui.workers import threaded

if TYPE_CHECKING:
    from store.leaks.masking import LeakMask
    from store.store import Store
    from tui.app import Backscroll

LOADING = "Reading the session…"


class CompactionScreen(Screen["Session | str | None"]):
    """Returns the fork that was made, or the public id of the entry to go to, or None."""

    AUTO_FOCUS = "#before TextView"
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 (declared so by Textual)
    DEFAULT_CSS = """
    CompactionScreen {
        #compaction-heading {
            height: 1;
            padding: 0 1;
            margin-bottom: 1;
        }

        #sides {
            height: 1fr;
        }

        #before, #after {
            height: 1fr;
        }

        #before {
            border-bottom: solid $foreground 15%;
        }

        &.-wide {
            #sides {
                layout: horizontal;
            }

            #before {
                width: 1fr;
                border-bottom: none;
                border-right: solid $foreground 15%;
            }

            #after {
                width: 1fr;
            }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,i", "dismiss(None)", "Back", id="compaction.back", tooltip="Back to the conversation"),
        Binding("F", "fork", "Fork before it", id="compaction.fork", tooltip="Fork the session from before it"),
        Binding(
            "S",
            "own_summary",
            "Own summary",
            id="compaction.own_summary",
            tooltip="Fork the session with a summary of your own in its place",
        ),
        Binding("enter,g", "go", "Go to it", id="compaction.go", tooltip="Go to the compaction in the conversation"),
        Binding("J", "step(1)", "Next", id="compaction.next", tooltip="Next compaction of the session"),
        Binding("K", "step(-1)", "Previous", id="compaction.previous", tooltip="Previous compaction of the session"),
        Binding("y", "copy", "Copy summary", id="compaction.copy", tooltip="Copy the summary"),
    ]

    app: Backscroll

    heading = query_one("#compaction-heading", Static)
    before = query_one("#before", ToolCallPane)
    after = query_one("#after", ToolCallPane)

    class CompactionsLoaded(DataMessage):
        compactions: Sequence[Compaction]

    def __init__(self, store: Store, session: Session, seq: int | None = None, mask: LeakMask | None = None) -> None:
        """Show the compaction with that seq, or else the last one. The mask hides leaks, if there is one."""
        super().__init__()
        self._store = store
        self._session = session
        self._seq = seq
        self._mask = mask
        self._compactions: Sequence[Compaction] = ()
        self._index = 0

    def compose(self) -> ComposeResult:
        yield Static(LOADING, id="compaction-heading")
        with Container(id="sides"):
            yield ToolCallPane(id="before")
            yield ToolCallPane(id="after")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self._load_compactions()

    @threaded(group="read")
    def _load_compactions(self) -> None:
        compactions = list_compactions(self._store, self._session)
        self.post_message(self.CompactionsLoaded(self._mask.mask(compactions) if self._mask else compactions))

    @on(CompactionsLoaded)
    def _accept_compactions(self, loaded: CompactionsLoaded) -> None:
        self._compactions = loaded.compactions
        if not self._compactions:
            self.notify("No compaction in this session.", timeout=3)
            self.dismiss(None)
            return
        seqs = [compaction.seq for compaction in self._compactions]
        self._index = seqs.index(self._seq) if self._seq in seqs else len(seqs) - 1
        self._show()

    def _show(self) -> None:
        compaction = self._compactions[self._index]
        self.heading.update(render_compaction_heading(compaction, len(self._compactions)))
        self.before.show(render_before_title(compaction), list(render_dropped(compaction)), None)
        self.after.show(Content("after: what the model saw"), list(render_after(compaction)), None)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action, parameters:
            case "step", (int(by),):
                return 0 <= self._index + by < len(self._compactions)
            case (("fork" | "own_summary" | "go" | "copy"), _):
                return bool(self._compactions)
        return super().check_action(action, parameters)

    def action_step(self, by: int) -> None:
        self._index += by
        self._show()

    def action_go(self) -> None:
        self.dismiss(self._compactions[self._index].entry)

    def action_copy(self) -> None:
        self.post_message(Copy(self._compactions[self._index].summary, "the summary"))

    # ── forks ─────────────────────────────────────────────────────────────────────────────────────

    def action_fork(self) -> None:
        if self.app.can_edit(self._store):
            self._fork(self._compactions[self._index])

    @threaded(group="fork")
    def _fork(self, compaction: Compaction) -> None:
        forked = fork_before_compaction(self._store, self._session, compaction.seq)
        self.app.call_from_thread(self.dismiss, forked)

    def action_own_summary(self) -> None:
        if self.app.can_edit(self._store):
            dialog = OwnSummaryDialog(self._store, self._session, self._compactions[self._index])
            self.app.push_screen(dialog, lambda _: self._return_fork(dialog))

    def _return_fork(self, dialog: OwnSummaryDialog) -> None:
        if dialog.forked is not None:
            self.dismiss(dialog.forked)


class OwnSummaryDialog(MultilineDialog):
    """Asks for the summary with which a fork continues. `forked` is the new session then."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s", "save", "Fork", id="own_summary.fork", tooltip="Fork the session with this summary"),
    ]

    def __init__(self, store: Store, session: Session, compaction: Compaction) -> None:
        super().__init__("Fork with a summary of your own", compaction.summary, self._save_fork)
        self._store = store
        self._session = session
        self._compaction = compaction
        self._note = "The fork ends with this text, which a model gets in place of the turns before it."
        self.forked: Session | None = None

    def _save_fork(self, summary: str) -> None:
        self.forked = fork_before_compaction(self._store, self._session, self._compaction.seq, summary=summary)
