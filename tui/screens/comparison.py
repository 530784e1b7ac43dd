"""This screen compares two things: as a unified diff, or side by side where there is room."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from store.database.cancel import cancel_when
from store.errors import StoreError
from store.formats.comparison import Comparison, format_unified
from store.model.session import Session
from store.sources import source_label
from tui.messages import Copy, DataMessage
from tui.render.diffs.comparison import render_comparison_heading, render_sections
from tui.render.styles import MUTED, parse_time
from tui.render.viewport import WrappableLine
from tui.widgets.diff_pane import DiffPane
from tui.widgets.key_hints import KeyHintBar
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll

SIDE_BY_SIDE_WIDTH = 120
"""The width from which both sides are shown side by side, unless the person switches."""

_SWITCH_TOOLTIP = "Side by side, or one below the other"


class ComparisonScreen(Screen[str | None]):
    """Returns the public id of the entry to go to, or None."""

    app: Backscroll

    AUTO_FOCUS = "DiffView"
    DEFAULT_CSS = """
    ComparisonScreen {
        #comparison-heading {
            height: 4;
            padding: 0 1 1 1;
        }

        DiffPane {
            height: 1fr;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,D", "dismiss(None)", "Back", id="compare.back", tooltip="Leave the comparison"),
        Binding("n", "step(1)", "Next difference", id="compare.next", tooltip="Next difference"),
        Binding("N", "step(-1)", "Previous", show=False, id="compare.previous", tooltip="Previous difference"),
        # Both have one key and one id. The layout that is not shown is offered.
        Binding("v", "lay_out(True)", "Side by side", id="compare.switch", tooltip=_SWITCH_TOOLTIP),
        Binding("v", "lay_out(False)", "Unified", id="compare.switch", tooltip=_SWITCH_TOOLTIP),
        Binding("s", "swap", "Swap sides", id="compare.swap", tooltip="Swap the first and the second side"),
        Binding("y", "copy", "Copy diff", id="compare.copy", tooltip="Copy the differences as a unified diff"),
        Binding("enter,g", "go", "Go to turn", id="compare.go", tooltip="Go to the turn of this difference"),
    ]

    heading = query_one("#comparison-heading", Static)
    pane = query_one(DiffPane)

    class Compared(DataMessage):
        references: tuple[str, str]
        comparison: Comparison
        origins: Sequence[str]

    class Rendered(DataMessage):
        is_side_by_side: bool
        sections: Sequence[Sequence[WrappableLine]]

    class Progressed(DataMessage):
        done: int
        total: int

    def __init__(self, store: Store, left: str, right: str, *, is_masked: bool = False) -> None:
        """Compare what two references name. `store.conversations.comparison` says what they can be.

        With `is_masked`, leaks are hidden.
        """
        super().__init__()
        self._store = store
        self._is_masked = is_masked
        self._references = left, right
        self._comparison: Comparison | None = None
        self._origins: Sequence[str] = ()
        "Say of which agent each side is, and when it was written."
        self._choice: bool | None = None
        "Is whether the person chose side by side, or None if the width decides."
        self._shown_side_by_side: bool | None = None

    def compose(self) -> ComposeResult:
        yield Static(Content.styled("Comparing…", MUTED), id="comparison-heading")
        yield DiffPane()
        yield KeyHintBar()

    def on_mount(self) -> None:
        self._compare(*self._references)

    @threaded(exclusive=True, group="compare")
    def _compare(self, left: str, right: str) -> None:
        from store.conversations.comparison import compare

        def report(done: int, total: int) -> None:
            self.post_message(self.Progressed(done, total))

        try:
            with cancel_when(self._store, lambda: not self.is_attached):
                comparison = compare(self._store, left, right, progress=report)
                sessions = [self._find_session(reference) for reference in (left, right)]
                if self._is_masked:
                    mask = self._store.leaks.read_mask(*(session.key for session in sessions if session))
                    comparison = mask.mask(comparison)
                origins = [_describe_origin(session) for session in sessions]
                self.post_message(self.Compared((left, right), comparison, origins))
        except StoreError as error:
            self.app.call_from_thread(self._fail, error)

    def _find_session(self, reference: str) -> Session | None:
        """Return the session that is compared, or of which a part is. A fact, for example, has none."""
        session_id, sign, _ = reference.rpartition("#")
        with suppress(StoreError):
            return self._store.sessions.get(session_id if sign else reference)
        return None

    def _fail(self, error: StoreError) -> None:
        self.dismiss(None)
        self.app.show_error(error)

    @on(Progressed)
    def _show_progress(self, progressed: Progressed) -> None:
        if self._comparison is None:
            text = f"Comparing… {progressed.done:,} of {progressed.total:,} turns read. Press q to stop."
            self.heading.update(Content.styled(text, MUTED))

    @on(Compared)
    def _show_comparison(self, compared: Compared) -> None:
        if compared.references != self._references:
            return
        self._comparison, self._origins = compared.comparison, compared.origins
        self._show_heading()
        self._render_sections(compared.comparison, self._is_side_by_side)
        self.refresh_bindings()

    @threaded(exclusive=True, group="render")
    def _render_sections(self, comparison: Comparison, is_side_by_side: bool) -> None:
        sections = render_sections(comparison.sections, is_side_by_side=is_side_by_side)
        self.post_message(self.Rendered(is_side_by_side, sections))

    @on(Rendered)
    def _show_sections(self, rendered: Rendered) -> None:
        """Show the differences. The current one stays when the layout was switched."""
        if rendered.is_side_by_side != self._is_side_by_side:
            return
        is_first = self._shown_side_by_side is None
        self._shown_side_by_side = rendered.is_side_by_side
        first = next(iter(self._differences), 0)
        self.pane.diff_view.show_sections(rendered.sections, first if is_first else self.pane.diff_view.section)
        self.pane.search_again()
        self.refresh_bindings()

    def _show_heading(self) -> None:
        if self._comparison is not None:
            width = max(self.size.width - 2, 10)
            self.heading.update(render_comparison_heading(self._comparison, self._origins, width))

    def on_resize(self) -> None:
        self._show_heading()
        self._update_layout()

    def _update_layout(self) -> None:
        is_other = self._shown_side_by_side is not None and self._shown_side_by_side != self._is_side_by_side
        if is_other and self._comparison is not None:
            self._render_sections(self._comparison, self._is_side_by_side)

    @property
    def _is_side_by_side(self) -> bool:
        return self.size.width >= SIDE_BY_SIDE_WIDTH if self._choice is None else self._choice

    @property
    def _differences(self) -> list[int]:
        """The indexes of the sections that differ."""
        sections = self._comparison.sections if self._comparison is not None else ()
        return [index for index, section in enumerate(sections) if section.kind != "shared"]

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        has_differences = self._comparison is not None and not self._comparison.is_equal
        if action == "lay_out":
            return has_differences and parameters != (self._is_side_by_side,)
        if action in ("step", "copy", "swap"):
            return has_differences
        if action == "go":
            return self._current_entry is not None
        return super().check_action(action, parameters)

    @on(DiffPane.SectionSelected)
    def _update_keys(self) -> None:
        self.refresh_bindings()

    @property
    def _current_entry(self) -> str | None:
        if self._comparison is None or self._shown_side_by_side is None or not self._comparison.sections:
            return None
        return self._comparison.sections[self.pane.diff_view.section].entry

    def action_step(self, by: int) -> None:
        current = self.pane.diff_view.section
        others = [index for index in self._differences if (index - current) * by > 0]
        if others:
            self.pane.diff_view.go_to_section(others[0] if by > 0 else others[-1])
        else:
            self.notify("No more differences.", timeout=2, markup=False)

    def action_lay_out(self, is_side_by_side: bool) -> None:
        self._choice = is_side_by_side
        self._update_layout()
        self.refresh_bindings()

    def action_swap(self) -> None:
        """Compare again with the sides swapped."""
        self._references = self._references[1], self._references[0]
        self._shown_side_by_side = None
        self._compare(*self._references)

    def action_copy(self) -> None:
        if self._comparison is not None:
            self._copy_differences(self._comparison)

    @threaded(group="copy")
    def _copy_differences(self, comparison: Comparison) -> None:
        self.post_message(Copy(format_unified(comparison), "the differences"))

    def action_go(self) -> None:
        self.dismiss(self._current_entry)


def _describe_origin(session: Session | None) -> str:
    """Return the agent and the time of a session."""
    if session is None:
        return ""
    time = parse_time(session.updated_at)
    return source_label(session.source) + (f" · {time:%Y-%m-%d %H:%M}" if time else "")
