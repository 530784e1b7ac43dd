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
from tui.dialogs.text import SingleLineDialog
from tui.messages import DataMessage
from tui.render.session_lines import abbreviate_home
from tui.render.styles import FAINT, MUTED, build_content
from tui.workers import threaded

MAX_SUGGESTIONS = 8
MAX_SCANNED_NAMES = 5_000
"""Names in one folder; in a larger one, the rest is not offered."""


class FolderDialog(SingleLineDialog):
    """Answers with the path as it was typed; `meant` makes a path of it."""

    DEFAULT_CSS = f"""
    FolderDialog #offers {{
        height: {MAX_SUGGESTIONS + 1};
        margin-top: 1;
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take it", priority=True, id="folder.take", tooltip="Go on in this folder"),
        # Priority: it would move the focus.
        Binding("tab", "complete", "Complete", priority=True, id="folder.complete", tooltip="As far as it is certain"),
    ]

    class SuggestionsLoaded(DataMessage):
        text: str
        names: Sequence[str]

    def __init__(self, folder: Path | None) -> None:
        start = find_nearest_folder(folder) if folder else ""
        super().__init__("Another folder to go on in", start, parse_folder)
        self._suggestions: Sequence[str] = ()

    def compose_field(self) -> ComposeResult:
        yield from super().compose_field()
        yield Static(id="offers")

    @on(Input.Changed)
    def _handle_input(self, changed: Input.Changed) -> None:
        self._load_suggestions(changed.value)

    @threaded(group="folders", exclusive=True)
    def _load_suggestions(self, typed: str) -> None:
        self.post_message(self.SuggestionsLoaded(typed, list_completions(typed)))

    @on(SuggestionsLoaded)
    def _show_suggestions(self, offered: SuggestionsLoaded) -> None:
        if offered.text == self.read_text():
            self._suggestions = offered.names
            self.query_one("#offers", Static).update(_format_suggestions(offered.names))

    def action_complete(self) -> None:
        if certain := common_prefix(self._suggestions):
            self.set_text(certain)
            self.query_one(Input).cursor_position = len(certain)


def _format_suggestions(names: Sequence[str]) -> Content:
    shown = [build_content([(one_line(os.path.basename(name), 60) + "/", MUTED)]) for name in names[:MAX_SUGGESTIONS]]
    if len(names) > MAX_SUGGESTIONS:
        shown.append(build_content([(f"… {len(names) - MAX_SUGGESTIONS:,} more", FAINT)]))
    return Content("\n").join(shown)


def parse_folder(typed: str) -> Path:
    """The folder; Refused where there is none."""
    try:
        folder = Path(typed.strip()).expanduser().absolute()
        if typed.strip() and folder.is_dir():
            return folder
    except (OSError, RuntimeError, ValueError):
        pass
    raise Refused(f"There is no folder {one_line(typed, 200) or 'without a name'}.")


def find_nearest_folder(folder: Path) -> str:
    """The folder, or what is left of the way to it; with a slash, so that one goes on from there."""
    try:
        there = next((above for above in (folder, *folder.parents) if above.is_dir()), Path.home())
    except OSError:
        there = Path.home()
    return abbreviate_home(str(there)).rstrip("/") + "/"


def common_prefix(names: Sequence[str]) -> str:
    """What all of them begin with; one alone is gone into."""
    if len(names) < 2:
        return f"{names[0]}/" if names else ""
    first, last = min(names), max(names)
    differs = next((n for n, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:differs]


def list_completions(typed: str) -> list[str]:
    """How what is typed may go on, without a slash at the end; hidden folders when their dot is typed."""
    above, begun = os.path.split(typed)
    found = []
    try:
        with os.scandir(os.path.expanduser(above) or ".") as inside:
            for _, entry in zip(range(MAX_SCANNED_NAMES), inside, strict=False):
                hidden = entry.name.startswith(".") and not begun.startswith(".")
                if entry.name.startswith(begun) and not hidden and entry.is_dir():
                    found.append(os.path.join(above, entry.name))
    except (OSError, ValueError):
        return []
    return sorted(found)
