"""This module arranges the panes of a screen side by side. A person resizes them with the mouse or with keys.

Each pane has a title in its edge, and the edge of the focused one is tinted. The edges belong to containers, because a
view with an edge of its own would be painted more slowly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.binding import Binding, BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widget import Widget

from tui.messages import DataMessage
from tui.render.styles import FAINT

RESIZE_STEP = 4
"""The cells by which a key resizes a pane."""

MIN_REST_CELLS = 30
"""The least width of the pane that takes the rest."""

MIN_REST_LINES, MIN_PANE_CELLS = 4, 20

MIN_FRAMED_WIDTH = 100
"""The width of a terminal from which panes have edges. A narrower one has no room for them."""


class SizedPane(NamedTuple):
    """Describes a pane that has a size of its own. The others share the rest."""

    name: str
    selector: str
    size: int
    "The size in cells until a person changes it."
    minimum: int = MIN_PANE_CELLS
    is_last: bool = False
    "Says that the pane is at the end of the row, so that its edge at the start is moved."


def pane_title(text: str, key: str = "") -> Content:
    """Return the title in the edge of a pane, with the key that goes to it."""
    return Content.assemble((f"{key} ", FAINT) if key else "", text)


def make_pane(title: str, *views: Widget, id: str, classes: str = "") -> Vertical:  # noqa: A002 (Textual's name)
    """Return a pane with a title in its edge."""
    pane = Vertical(*views, id=id, classes=f"pane {classes}".strip())
    pane.border_title = pane_title(title)
    return pane


class PaneRow(Container):
    """Holds panes side by side, or one below the other. Its screen says which of them have sizes of their own."""

    DEFAULT_CSS = """
    PaneRow {
        height: 1fr;

        .pane {
            width: 1fr;
            height: 1fr;
            background: $background;

            &.-below {
                border-top: solid $foreground 25%;
                border-title-color: $foreground 75%;

                &:focus-within {
                    border-top: solid $accent;
                    border-title-color: $text-accent;
                }
            }

            &.-right {
                border-left: solid $foreground 25%;
            }
        }

        &.-framed .pane {
            border: round $foreground 25%;
            border-title-color: $foreground 75%;
            border-title-style: none;
            border-subtitle-color: $foreground 75%;

            &:focus-within {
                border: round $accent;
                border-title-color: $text-accent;
                border-title-style: bold;
            }
        }

        &.-framed .pane:focus-within:nocolor {
            border: heavy $foreground;
            border-title-style: bold reverse;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "less_than_sign",
            f"resize(-{RESIZE_STEP})",
            "Narrower",
            key_display="<",
            show=False,
            id="panes.narrower",
            tooltip="Make this pane narrower",
        ),
        Binding(
            "greater_than_sign",
            f"resize({RESIZE_STEP})",
            "Wider",
            key_display=">",
            show=False,
            id="panes.wider",
            tooltip="Make this pane wider",
        ),
        Binding(
            "0",
            "reset_sizes",
            "Reset widths",
            show=False,
            id="panes.reset_sizes",
            tooltip="Reset the widths of the panes",
        ),
    ]

    class SizesChanged(DataMessage):
        """Holds the sizes that a person chose in this row, as parts of the whole."""

        row: str
        sizes: Mapping[str, float]

    def __init__(self, *, id: str, sizes: Mapping[str, float]) -> None:  # noqa: A002 (Textual's name)
        super().__init__(id=id)
        self._set_frames(update=False)
        self._chosen_sizes = {name: size for name, size in sizes.items() if name.startswith(f"{id}.")}
        self._arrangement = ""
        self._sized_panes: Sequence[SizedPane] = ()
        self._is_vertical = False
        self._dragged: SizedPane | None = None

    # ── arranging ─────────────────────────────────────────────────────────────────────────────────

    def set_sized_panes(
        self, arrangement: str, sized_panes: Sequence[SizedPane], total: int, *, is_vertical: bool = False
    ) -> None:
        """Give these panes sizes of their own out of the total, and let the style sheet size all others.

        Sizes that a person chooses are remembered by the name of the arrangement.
        """
        if is_vertical != self._is_vertical or self._sized_panes != sized_panes:
            for pane in self._sized_panes:
                self._set_size(pane, None)
        self._arrangement, self._sized_panes, self._is_vertical = arrangement, sized_panes, is_vertical
        self.styles.layout = "vertical" if is_vertical else "horizontal"
        self._set_frames()
        self._apply_sizes(total)

    def _set_frames(self, *, update: bool = True) -> None:
        """Give the panes edges if there is room. An update would compute the styles of all panes again."""
        self.set_class(self.app.size.width >= MIN_FRAMED_WIDTH, "-framed", update=update)

    def split(self, selector: str, part: float, *, is_vertical: bool) -> None:
        """Give one pane a part of the row, and the other one the rest."""
        total = self.app.size.height if is_vertical else self.app.size.width
        minimum = MIN_REST_LINES if is_vertical else MIN_PANE_CELLS
        pane = SizedPane(selector.lstrip("#").lower(), selector, round(part * total), minimum)
        self.set_sized_panes("stacked" if is_vertical else "beside", [pane], total, is_vertical=is_vertical)

    @property
    def _total(self) -> int:
        return self.size.height if self._is_vertical else self.size.width

    def _apply_sizes(self, total: int) -> None:
        left = total - (MIN_REST_LINES if self._is_vertical else MIN_REST_CELLS)
        left -= sum(pane.minimum for pane in self._sized_panes)
        for pane in self._sized_panes:
            chosen = self._chosen_sizes.get(self._key(pane))
            wanted = pane.size if chosen is None else round(chosen * total)
            extra = max(min(wanted - pane.minimum, left), 0)
            left -= extra
            self._set_size(pane, pane.minimum + extra)

    def _set_size(self, pane: SizedPane, size: int | None) -> None:
        """Set a size in cells. None leaves it to the style sheet."""
        for widget in self.query(pane.selector):
            if self._is_vertical:
                widget.styles.height = size
            else:
                widget.styles.width = size

    def _key(self, pane: SizedPane) -> str:
        return f"{self.id}.{self._arrangement}.{pane.name}"

    def on_resize(self) -> None:
        self._apply_sizes(self._total)

    # ── resizing ──────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("resize", "reset_sizes"):
            return bool(self._sized_panes)
        return super().check_action(action, parameters)

    def action_resize(self, by: int) -> None:
        """Resize the focused pane. One without a size of its own takes from the others, or gives to them."""
        focused = self._find_focused()
        for pane in [focused] if focused else reversed(self._sized_panes):
            if self._resize(pane, self._current_size(pane) + (by if focused else -by)):
                self._report()
                return

    def action_reset_sizes(self) -> None:
        for pane in self._sized_panes:
            self._chosen_sizes.pop(self._key(pane), None)
        self._apply_sizes(self._total)
        self._report()

    def _find_focused(self) -> SizedPane | None:
        focused = self.screen.focused
        ancestors = focused.ancestors_with_self if focused else []
        return next((pane for pane in self._sized_panes if self._find_widget(pane) in ancestors), None)

    def _find_widget(self, pane: SizedPane) -> Widget:
        return self.query_one(pane.selector)

    def _current_size(self, pane: SizedPane) -> int:
        size = self._find_widget(pane).outer_size
        return size.height if self._is_vertical else size.width

    def _resize(self, pane: SizedPane, size: int) -> bool:
        """Resize a pane as far as there is room. Return whether its size changed."""
        before = self._current_size(pane)
        others = sum(self._current_size(other) for other in self._sized_panes if other is not pane)
        room = self._total - others - (MIN_REST_LINES if self._is_vertical else MIN_REST_CELLS)
        size = max(min(size, room), pane.minimum)
        if size == before or not self._total:
            return False
        for other in self._sized_panes:  # the others keep their sizes
            self._chosen_sizes[self._key(other)] = (size if other is pane else self._current_size(other)) / self._total
        self._apply_sizes(self._total)
        return True

    def _report(self) -> None:
        self.post_message(self.SizesChanged(self.id or "", dict(self._chosen_sizes)))

    # ── the mouse ─────────────────────────────────────────────────────────────────────────────────

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self._dragged = next(self._find_edges_at(event), None)
        if self._dragged is not None:
            event.stop()
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragged is not None:
            event.stop()
            self._resize(self._dragged, self._size_at(self._dragged, event))

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._dragged is not None:
            event.stop()
            self._dragged = None
            self.release_mouse()
            self._report()

    def _find_edges_at(self, event: events.MouseEvent) -> Iterator[SizedPane]:
        """Yield the panes whose movable edge, or the edge next to it, is under the mouse."""
        for pane in self._sized_panes:
            if self._size_at(pane, event) - self._current_size(pane) in (0, 1):
                yield pane

    def _size_at(self, pane: SizedPane, event: events.MouseEvent) -> int:
        """Return the size that a pane would have if its edge was under the mouse."""
        start = self.region.y if self._is_vertical else self.region.x
        at = event.screen_y if self._is_vertical else event.screen_x
        return self._total - (at - start) if pane.is_last else at - start + 1
