"""This screen lists what was redacted, to continue it, to undo it, or to forget the values for good."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from store.model.redaction import Redaction
from tui.messages import DataMessage
from tui.render.redaction_lines import render_redaction_places
from tui.render.styles import MUTED, STRONG, build_content, format_count
from tui.screens.table_screen import TableScreen
from tui.widgets.key_hints import HintChange, KeyHintBar
from tui.widgets.tables.redaction_table import RedactionTable
from tui.workers import threaded

FORGET_TEXT = (
    "The sealed values are deleted. The redaction stays, and nobody can undo it any more. Forget them when you have "
    "replaced them at their vendors."
)


class RedactionsScreen(TableScreen):
    AUTO_FOCUS = "RedactionTable"
    DEFAULT_CSS = """
    RedactionsScreen {
        #heading {
            height: 1;
            padding: 0 1;
            margin-bottom: 1;
        }

        RedactionTable {
            height: 1fr;
        }

        &.-nothing RedactionTable {
            display: none;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "Undo", id="redactions.undo", tooltip="Restore every value where it was"),
        Binding("c,enter", "continue", "Continue", id="redactions.continue", tooltip="Do what is left"),
        Binding("F", "forget", "Forget for good", id="redactions.forget", tooltip="Delete the sealed values"),
        Binding("escape,q,D", "dismiss(None)", "Back", id="redactions.back", tooltip="Back to the leaks"),
    ]

    table = query_one(RedactionTable)

    class RedactionsLoaded(DataMessage):
        generation: int
        redactions: Sequence[Redaction]

    def compose(self) -> ComposeResult:
        yield Static(id="heading")
        yield RedactionTable(self._clock())
        yield Static(Content.styled("Nothing was redacted.", MUTED), id="none")
        yield KeyHintBar()

    def load(self) -> None:
        self._generation += 1
        self._load_redactions(self._generation)

    @threaded(exclusive=True, group="list")
    def _load_redactions(self, generation: int) -> None:
        self.post_message(self.RedactionsLoaded(generation, self._store.leaks.redactions.list_all()))

    @on(RedactionsLoaded)
    def _show_redactions(self, loaded: RedactionsLoaded) -> None:
        if loaded.generation == self._generation:
            count = format_count(len(loaded.redactions), "redaction") or "no redactions"
            heading = build_content([("Redactions", STRONG), (f" · {count}", MUTED)])
            self.query_one("#heading", Static).update(heading)
            self.show_empty_state(not loaded.redactions, self.table, self.table)
            self.table.show(loaded.redactions)
            self.refresh_bindings()

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        redaction = self.table.selected if self.is_mounted else None
        match action:
            case "undo":
                return redaction is not None and redaction.state != "undone" and not redaction.is_forgotten
            case "continue":
                return redaction is not None and redaction.state in ("running", "undoing")
            case "forget":
                return redaction is not None and redaction.state in ("done", "undone") and not redaction.is_forgotten
        return super().check_action(action, parameters)

    def change_hint(self, binding: Binding) -> HintChange | None:
        if binding.id == "redactions.continue" and (redaction := self.table.selected) is not None:
            return HintChange("Continue undo" if redaction.state == "undoing" else "Continue", "first")
        return None

    @on(RedactionTable.Highlighted)
    def _update_keys(self) -> None:
        self.refresh_bindings()

    def action_undo(self) -> None:
        if (redaction := self.table.selected) is not None:
            self._open_dialog("Undo this redaction?", redaction, is_undo=True)

    def action_continue(self) -> None:
        if (redaction := self.table.selected) is not None:
            self._open_dialog("Continue?", redaction, is_undo=False)

    def _open_dialog(self, title: str, redaction: Redaction, *, is_undo: bool) -> None:
        from tui.dialogs.redaction import RedactionDialog

        if self.app.can_edit(self._store):
            redactions = self._store.leaks.redactions
            begin = partial(redactions.begin_undo if is_undo else redactions.begin_rest, redaction.id)
            lines = render_redaction_places(redaction, is_undo=is_undo)
            dialog = RedactionDialog(self._store, title, lambda: (lines, True), begin)
            self.app.push_screen(dialog, lambda _: self.load())

    def action_forget(self) -> None:
        from tui.dialogs.confirm import ConfirmDialog

        if (redaction := self.table.selected) is None or not self.app.can_edit(self._store):
            return

        def forget(is_sure: bool | None) -> None:
            if is_sure:
                self._forget(redaction.id)

        count = format_count(len(redaction.values), "value")
        self.app.push_screen(ConfirmDialog(f"Forget {count} for good?", FORGET_TEXT), forget)

    @threaded(group="edit")
    def _forget(self, redaction: int) -> None:
        self._store.leaks.redactions.forget(redaction)
        self.app.call_from_thread(self.load)
        self.notify("The values are forgotten.", timeout=4, markup=False)
