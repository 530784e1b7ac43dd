"""Facts, a line each, of which several can be marked; and the history of one."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from datetime import datetime
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message

from store.model.knowledge import Edit
from tui.messages import DataMessage
from tui.render.fact_lines import FactHistoryRow, FactRow, render_fact_history, render_fact_row
from tui.widgets.cursor_view import CursorView


class FactTable(CursorView):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space", "mark", "Mark", show=False, id="facts.mark", tooltip="Mark this fact, to do something with all"
        ),
    ]

    class Highlighted(Message):
        """The cursor stands on another fact, the same one says another thing, or others are marked."""

    class DoubleClicked(Message):
        """A fact was pressed twice."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.now = now
        self._facts: Sequence[FactRow] = ()
        self._with_scope = False
        self._marked: frozenset[int] = frozenset()

    def show(self, facts: Sequence[FactRow], *, with_scope: bool, focus: int | None = None) -> None:
        """The cursor stays on its fact, if that is still there, or goes to the one that is named."""
        wanted = focus or (self.selected.fact.id if self.selected else None)
        stays = self.cursor
        self._facts = facts
        self._with_scope = with_scope
        self._marked &= {line.fact.id for line in facts}
        self.line_count = len(facts)
        self.invalidate_strips()
        self.cursor = next((at for at, line in enumerate(facts) if line.fact.id == wanted), stays)
        self.scroll_to_cursor()
        self.handle_cursor_moved()

    @property
    def selected(self) -> FactRow | None:
        return self._facts[self.cursor] if self.cursor < len(self._facts) else None

    @property
    def selected_facts(self) -> list[FactRow]:
        """All that are marked, else the one under the cursor."""
        marked = [line for line in self._facts if line.fact.id in self._marked]
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
        line = self._facts[index]
        marked = line.fact.id in self._marked
        return render_fact_row(line, self.now, width, marked=marked, with_scope=self._with_scope)

    def handle_cursor_moved(self) -> None:
        self.post_message(self.Highlighted())

    def handle_double_click(self) -> None:
        self.post_message(self.DoubleClicked())


class FactHistory(CursorView):
    """Its cursor shows only while one walks through it."""

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
        Binding("enter", "go", "Go there", id="facts.go_there", tooltip="To the turn that this line speaks of"),
    ]

    class LinkFollowed(DataMessage):
        entry: str | None

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.now = now
        self._shown_fact: tuple[FactRow, Sequence[Edit]] | None = None
        self._rows: Sequence[FactHistoryRow] = ()

    def show(self, line: FactRow | None, edits: Sequence[Edit] = ()) -> None:
        """What is read already stays where it is."""
        if line is None or self._shown_fact is None or self._shown_fact[0].fact.id != line.fact.id:
            self.scroll_to(y=0, animate=False, force=True, immediate=True)
            self.set_reactive(FactHistory.cursor, 0)
        self._shown_fact = (line, edits) if line is not None else None
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
