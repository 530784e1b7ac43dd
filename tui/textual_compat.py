"""How a screen is put together where every key should be seen at once.

Textual has every widget rendered whole that shares a clip with what has changed, and all that lies beneath it: a cursor
that moves by one row would have the lines of all panes looked through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from textual._compositor import ChopsUpdate, Compositor
from textual.geometry import Region
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget


class DirtyRegionCompositor(Compositor):
    """Only the widgets that are seen where something has changed, and of them only those lines."""

    _changed_regions: Iterable[Region] = ()
    "What Textual would draw one frame around, and have all painted that is in it."

    def render_partial_update(self) -> ChopsUpdate | None:
        self._changed_regions = list(self._dirty_regions)
        try:
            return super().render_partial_update()
        finally:
            self._changed_regions = ()

    def _get_renders(self, crop: Region | None = None) -> Iterator[tuple[Region, Region, list[Strip]]]:
        """From the front to the back, until nothing of what lies further back can be seen."""
        frame = crop or self.size.region
        lines = Region(0, frame.y, self.size.width, frame.height)
        uncovered = list(self._changed_regions) or [frame]
        for widget, (region, clip) in self.visible_widgets.items():
            seen = region.intersection(clip).intersection(lines)
            if seen and any(map(seen.overlaps, uncovered)):
                strips = widget.render_lines(seen.translate(-region.offset))
                yield region, seen, strips
                cover = seen.crop_size((min(strip.cell_length for strip in strips), len(strips)))
                uncovered = [rest for part in uncovered for rest in _subtract_region(part, cover)]
                if not uncovered:
                    return


def refresh_immediately(screen: Screen[Any], widget: Widget) -> None:
    """Without the messages by which Textual hears of it, the timer by which it waits for more, and a layout that is due
    for something else: that is twice as much work, and comes right after."""
    if screen.is_current and not screen.app._batch_count:
        screen._dirty_widgets.add(widget)
        screen._compositor.update_widgets(screen._dirty_widgets)
        screen._compositor_refresh()


def _subtract_region(part: Region, cover: Region) -> Iterable[Region]:
    """What the cover leaves of it: above, below, on the left and on the right."""
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
