"""Asks for a folder that is there, and knows how names go on."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widgets import Input, Static

from store.errors import Refused
from store.text.sanitize import one_line
from tui.dialogs.text import AskScreen
from tui.messages import Told
from tui.render.session_lines import with_tilde
from tui.render.styles import FAINT, MUTED, content
from tui.workers import threaded

MOST = 8
LOOKED_AT = 5_000
"""Names in one folder; in a larger one, the rest is not offered."""


class FolderScreen(AskScreen):
    """Answers with the path as it was typed; `meant` makes a path of it."""

    DEFAULT_CSS = f"""
    FolderScreen #offers {{
        height: {MOST + 1};
        margin-top: 1;
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take it", priority=True, id="folder.take", tooltip="Go on in this folder"),
        # Priority: it would move the focus.
        Binding("tab", "complete", "Complete", priority=True, id="folder.complete", tooltip="As far as it is certain"),
    ]

    class Offered(Told):
        typed: str
        names: Sequence[str]

    def __init__(self, folder: Path | None) -> None:
        start = nearest(folder) if folder else ""
        super().__init__("Another folder to go on in", start, meant)
        self._names: Sequence[str] = ()

    def field(self) -> ComposeResult:
        yield from super().field()
        yield Static(id="offers")

    @on(Input.Changed)
    def _typed(self, changed: Input.Changed) -> None:
        self._offer(changed.value)

    @threaded(group="folders", exclusive=True)
    def _offer(self, typed: str) -> None:
        self.post_message(self.Offered(typed, going_on(typed)))

    @on(Offered)
    def _show(self, offered: Offered) -> None:
        if offered.typed == self.typed():
            self._names = offered.names
            self.query_one("#offers", Static).update(_lines(offered.names))

    def action_complete(self) -> None:
        if certain := shared(self._names):
            self.write(certain)
            self.query_one(Input).cursor_position = len(certain)


def _lines(names: Sequence[str]) -> Content:
    shown = [content([(one_line(os.path.basename(name), 60) + "/", MUTED)]) for name in names[:MOST]]
    if len(names) > MOST:
        shown.append(content([(f"… {len(names) - MOST:,} more", FAINT)]))
    return Content("\n").join(shown)


def meant(typed: str) -> Path:
    """The folder; Refused where there is none."""
    try:
        folder = Path(typed.strip()).expanduser().absolute()
        if typed.strip() and folder.is_dir():
            return folder
    except (OSError, RuntimeError, ValueError):
        pass
    raise Refused(f"There is no folder {one_line(typed, 200) or 'without a name'}.")


def nearest(folder: Path) -> str:
    """The folder, or what is left of the way to it; with a slash, so that one goes on from there."""
    try:
        there = next((above for above in (folder, *folder.parents) if above.is_dir()), Path.home())
    except OSError:
        there = Path.home()
    return with_tilde(str(there)).rstrip("/") + "/"


def shared(names: Sequence[str]) -> str:
    """What all of them begin with; one alone is gone into."""
    if len(names) < 2:
        return f"{names[0]}/" if names else ""
    first, last = min(names), max(names)
    differs = next((n for n, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:differs]


def going_on(typed: str) -> list[str]:
    """How what is typed may go on, without a slash at the end; hidden folders when their dot is typed."""
    above, begun = os.path.split(typed)
    found = []
    try:
        with os.scandir(os.path.expanduser(above) or ".") as inside:
            for _, entry in zip(range(LOOKED_AT), inside, strict=False):
                hidden = entry.name.startswith(".") and not begun.startswith(".")
                if entry.name.startswith(begun) and not hidden and entry.is_dir():
                    found.append(os.path.join(above, entry.name))
    except (OSError, ValueError):
        return []
    return sorted(found)
