"""This module contains every use of Textual's private attributes, each with the reason for it.

Another version of Textual may change them, so nothing else in the browser touches them (a test checks that).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

from rich.text import Text
from textual._compositor import ChopsUpdate, Compositor
from textual.app import App
from textual.geometry import Region, Size
from textual.screen import Screen
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.style import Style
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Input
from textual.widgets._toast import ToastRack

if TYPE_CHECKING:
    from textual.document._wrapped_document import WrappedDocument

Result = TypeVar("Result")


class HookedApp(App[Result]):
    """Offers hooks for what Textual does in private methods only: errors, crash reports, logs and its clipboard."""

    def handle_error(self, error: Exception) -> bool:
        """Handle an error that a message or worker raised. Return False to let it end the program."""
        return False

    def show_crash(self) -> None:
        """Show the error that ends the program. Textual would show the values of all variables, too."""
        super()._fatal_error()

    @property
    def is_logging(self) -> bool:
        """Whether Textual may log. It logs every key and every message."""
        return True

    def forget_copied_text(self) -> None:
        """Empty the copy that Textual keeps of the last copied text, because it may be a secret."""
        self._clipboard = ""

    def send_to_clipboard(self, text: str, sequence: str) -> None:
        """Do what `copy_to_clipboard` does, with what a thread has encoded: that takes long for megabytes."""
        self._clipboard = text
        if self._driver is not None:
            self._driver.write(sequence)

    def drop_notices(self, *, before: float) -> None:
        """Remove the notices that are older than this time, except warnings and errors, also from screens below a
        dialog. Textual offers to remove all of them, and only from the screen on top."""
        for notice in list(self._notifications):
            if notice.severity == "information" and notice.raised_at < before:
                self._unnotify(notice, refresh=False)
        for screen in self.screen_stack:
            for rack in screen.query(ToastRack):
                rack.show(self._notifications)

    def write_to_terminal(self, sequence: str) -> None:
        """Send a control sequence to the terminal. Textual offers only the bell."""
        if self._driver is not None and not self._driver.is_headless:
            self._driver.write(sequence)
            self._driver.flush()

    def _handle_exception(self, error: Exception) -> None:
        if not self.handle_error(error):
            super()._handle_exception(error)

    def _fatal_error(self) -> None:
        self.show_crash()

    def _log(self, *args: Any, **kwargs: Any) -> None:
        if self.is_logging:
            super()._log(*args, **kwargs)


class RenderedInput(Input):
    """An input whose visible text can be changed. Textual renders the value in a private property."""

    def render_value(self) -> Text:
        return super()._value

    @property
    def _value(self) -> Text:
        return self.render_value()


def find_tab_widths(line: str, tab_size: int = 4) -> list[tuple[str, int]]:
    """Do what Textual does when it loads a text into an editor, but not with a regular expression for lines without
    tabs: a text of a megabyte took a quarter of a second."""
    if "\t" not in line:
        return [(line, 0)] if line else []
    from textual import _cells  # has the original: it is replaced only where long texts are measured

    return _cells.get_tab_widths(line, tab_size)  # type: ignore[attr-defined]


def find_column(line: str, cell_width: int, tab_width: int) -> int:
    """Find the column of a cell as Textual does, but not one character after the other where each takes one cell: a
    page up in a line of a megabyte took 120 ms."""
    from textual._cells import cell_width_to_column_index

    if line.isascii() and line.isprintable():
        return min(max(cell_width, 0), len(line))
    return cell_width_to_column_index(line, cell_width, tab_width)


def count_rows(document: WrappedDocument) -> int:
    """Return the height of an editor's text. Textual counts the rows of every line, and does so dozens of times when a
    text is loaded: for 150,000 lines it took two seconds."""
    return len(document._offset_to_line_info)


def speed_up_long_texts() -> None:
    """Let editors and inputs use the three functions above. They are loaded later than this module."""
    from textual import expand_tabs
    from textual.document import _wrapped_document

    expand_tabs.get_tab_widths = find_tab_widths
    _wrapped_document.WrappedDocument.height = property(count_rows)  # type: ignore[assignment]
    _wrapped_document.get_tab_widths = find_tab_widths  # type: ignore[attr-defined]
    _wrapped_document.cell_width_to_column_index = find_column  # type: ignore[attr-defined]


class DirtyRegionCompositor(Compositor):
    """Renders only the widgets that are visible where something has changed, and only their changed lines.

    Textual renders every widget completely that shares a clip region with the change, and everything below it: a cursor
    that moves by one row would render the lines of all panes.
    """

    _changed_regions: Iterable[Region] = ()
    "Holds the regions that have changed. Textual would use one region around all of them."

    def render_partial_update(self) -> ChopsUpdate | None:
        self._changed_regions = list(self._dirty_regions)
        try:
            return super().render_partial_update()
        finally:
            self._changed_regions = ()

    def _get_renders(self, crop: Region | None = None) -> Iterator[tuple[Region, Region, list[Strip]]]:
        """Yield the lines of widgets from front to back, until nothing behind them is visible."""
        frame = crop or self.size.region
        lines = Region(0, frame.y, self.size.width, frame.height)
        uncovered = list(self._changed_regions) or [frame]
        for widget, (region, clip) in self.visible_widgets.items():
            visible = region.intersection(clip).intersection(lines)
            if visible and any(map(visible.overlaps, uncovered)):
                strips = widget.render_lines(visible.translate(-region.offset))
                yield region, visible, strips
                cover = visible.crop_size((min(strip.cell_length for strip in strips), len(strips)))
                uncovered = [rest for part in uncovered for rest in _subtract_region(part, cover)]
                if not uncovered:
                    return


def use_dirty_region_compositor(screen: Screen[Any]) -> None:
    """Make a screen render only what has changed. Textual offers no other way to replace its compositor."""
    screen._compositor = DirtyRegionCompositor()


def refresh_immediately(screen: Screen[Any], view: ScrollView) -> None:
    """Paint a view and its scrollbar now. Textual would send messages, wait for a timer and do pending layout first,
    which takes twice as long; all of that still happens right after.

    A scrollbar that appears or disappears needs a layout, and then that is done now. It would otherwise change after
    the rows, in a second step that waits for everything else.
    """
    if not screen.is_current or screen.app._batch_count:
        return
    has_scrollbar = view.show_vertical_scrollbar and view.vertical_scrollbar.is_on_screen
    if has_scrollbar != (view.virtual_size.height > view.size.height):
        view._refresh_scrollbars()
        screen._refresh_layout()
        return
    screen._dirty_widgets.add(view)
    if has_scrollbar:
        screen._dirty_widgets.add(view.vertical_scrollbar)
    screen._compositor.update_widgets(screen._dirty_widgets)
    screen._compositor_refresh()


def set_virtual_size(view: ScrollView, size: Size) -> None:
    """Change how far a view scrolls. The public attribute would lay out the whole screen, which no line changes."""
    view.set_reactive(ScrollView.virtual_size, size)
    view._scroll_update(size)


def resolve_style(widget: Widget, name: str) -> Style:
    """Return the style of a name such as `.class` or `bold $text-error`. Textual resolves it only while rendering."""
    return widget._get_style(name)


def reliable_timer(timer: Timer) -> Timer:
    """Make a timer fire however late it is. Textual skips a late timer; one that fires only once would be lost, and on
    a busy machine it can be late before it has started."""
    timer._skip = False
    return timer


def _subtract_region(part: Region, cover: Region) -> Iterable[Region]:
    """Return the rest of a region that the cover leaves visible: above, below, to the left and to the right."""
    x, y, width, height = common = part.intersection(cover)
    if not common:
        return [part]
    rest = (
        Region(part.x, part.y, part.width, y - part.y),
        Region(part.x, y + height, part.width, part.bottom - y - height),
        Region(part.x, y, x - part.x, height),
        Region(x + width, y, part.right - x - width, height),
    )
    return filter(None, rest)
