"""This module lists facts, of which several can be marked, and shows the history of one fact."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from store.model.knowledge import Edit
from tui.messages import DataMessage
from tui.render.fact_lines import FactColumns, FactHistoryRow, FactRow, render_fact_history, render_fact_row
from tui.widgets.cursor_view import CursorView


class FactTable(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Select", show=False, id="facts.mark", tooltip="Select this fact for the next action"),
    ]

    class Highlighted(Message):
        """Says that the cursor moved, that the fact under it changed, or that other facts are marked."""

    class DoubleClicked(Message):
        """Says that a fact was double-clicked."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.now = now
        self._facts: Sequence[FactRow] = ()
        self._with_scope = False
        self._columns = FactColumns()
        self._marked: frozenset[int] = frozenset()

    def show(self, facts: Sequence[FactRow], *, with_scope: bool, focus: int | None = None) -> None:
        """Show facts. The cursor moves to the focused fact, or stays on its fact if that is still listed."""
        fact_id = focus or (self.selected.fact.id if self.selected else None)
        cursor = self.cursor
        self._facts = facts
        self._with_scope = with_scope
        self._columns = FactColumns.measure(facts, with_scope=with_scope) if facts else FactColumns()
        self._marked &= {row.fact.id for row in facts}
        self.replace_lines(
            len(facts), next((index for index, row in enumerate(facts) if row.fact.id == fact_id), cursor)
        )

    @property
    def selected(self) -> FactRow | None:
        return self._facts[self.cursor] if self.cursor < len(self._facts) else None

    @property
    def selected_facts(self) -> list[FactRow]:
        """The marked facts, or the one under the cursor if none is marked."""
        marked = [row for row in self._facts if row.fact.id in self._marked]
        return marked or ([self.selected] if self.selected else [])

    def clear_marked(self) -> None:
        self._marked = frozenset()
        self.invalidate_strips()

    def action_mark(self) -> None:
        if self.selected is not None:
            self._marked ^= {self.selected.fact.id}
            self.refresh_lines(self.cursor)
            if self.cursor + 1 < self.line_count:
                self.cursor += 1
            else:
                self.handle_cursor_moved()

    def strip_key(self, line: int) -> Hashable:
        return super().strip_key(line), self._facts[line].fact.id in self._marked

    def render_row(self, index: int, width: int) -> Content:
        row = self._facts[index]
        marked = row.fact.id in self._marked
        return render_fact_row(row, self.now, width, self._columns, marked=marked, with_scope=self._with_scope)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.Highlighted())

    def handle_double_click(self) -> None:
        self.post_message(self.DoubleClicked())


class FactHistory(CursorView):
    """Shows the history of a fact. Its cursor is visible only while it has the focus."""

    DEFAULT_CSS = """
    FactHistory {
        .cursor-view--cursor {
            background: $background;
        }

        .cursor-view--bar {
            color: $background;
        }

        &:focus {
            .cursor-view--cursor {
                background: $primary-muted;
            }

            .cursor-view--bar {
                color: $accent;
            }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "go", "Open", id="facts.go_there", tooltip="Open the turn that this line refers to"),
    ]

    class LinkFollowed(DataMessage):
        entry: str | None

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.now = now
        self._shown_fact: tuple[FactRow, Sequence[Edit]] | None = None
        self._rows: Sequence[FactHistoryRow] = ()

    def show(self, row: FactRow | None, edits: Sequence[Edit] = ()) -> None:
        """Show a fact. If it is the same fact, the scroll position stays."""
        if row is None or self._shown_fact is None or self._shown_fact[0].fact.id != row.fact.id:
            self.scroll_to(y=0, animate=False, force=True, immediate=True)
            self.set_reactive(FactHistory.cursor, 0)
        self._shown_fact = (row, edits) if row is not None else None
        self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def _lay_out(self) -> None:
        self._rows = render_fact_history(*self._shown_fact, self.now, self.text_width) if self._shown_fact else ()
        self.line_count = len(self._rows)
        self.invalidate_strips()

    def render_row(self, index: int, width: int) -> Content:
        return self._rows[index].content

    def handle_double_click(self) -> None:
        self.action_go()

    def action_go(self) -> None:
        if self.cursor < len(self._rows):
            self.post_message(self.LinkFollowed(self._rows[self.cursor].entry))
