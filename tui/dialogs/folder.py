"""This dialog asks for an existing folder, and completes its name."""

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
"""Limits the names that are read in one folder."""


class FolderDialog(SingleLineDialog):
    """Returns the path as it was typed. `parse_folder` converts it."""

    DEFAULT_CSS = f"""
    FolderDialog #offers {{
        height: {MAX_SUGGESTIONS + 1};
        margin-top: 1;
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Use folder", priority=True, id="folder.take", tooltip="Use this folder"),
        # Priority, because Tab moves the focus otherwise.
        Binding("tab", "complete", "Complete", priority=True, id="folder.complete", tooltip="Complete the name"),
    ]

    class SuggestionsLoaded(DataMessage):
        text: str
        names: Sequence[str]

    def __init__(self, folder: Path | None) -> None:
        start = find_nearest_folder(folder) if folder else ""
        super().__init__("Resume in another folder", start, parse_folder)
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
    def _show_suggestions(self, loaded: SuggestionsLoaded) -> None:
        if loaded.text == self.read_text():
            self._suggestions = loaded.names
            self.query_one("#offers", Static).update(_format_suggestions(loaded.names))

    def action_complete(self) -> None:
        if prefix := common_prefix(self._suggestions):
            self.set_text(prefix)
            self.query_one(Input).cursor_position = len(prefix)


def _format_suggestions(names: Sequence[str]) -> Content:
    shown = [build_content([(one_line(os.path.basename(name), 60) + "/", MUTED)]) for name in names[:MAX_SUGGESTIONS]]
    if len(names) > MAX_SUGGESTIONS:
        shown.append(build_content([(f"… {len(names) - MAX_SUGGESTIONS:,} more", FAINT)]))
    return Content("\n").join(shown)


def parse_folder(typed: str) -> Path:
    """Return the folder. Raise Refused if there is none."""
    try:
        folder = Path(typed.strip()).expanduser().absolute()
        if typed.strip() and folder.is_dir():
            return folder
    except (OSError, RuntimeError, ValueError):
        pass
    raise Refused(f"No such folder: {one_line(typed, 200) or '(empty)'}. Enter another one.")


def find_nearest_folder(folder: Path) -> str:
    """Return the folder, or its nearest parent that exists, with a slash at the end to type on."""
    try:
        nearest = next((parent for parent in (folder, *folder.parents) if parent.is_dir()), Path.home())
    except OSError:
        nearest = Path.home()
    return abbreviate_home(str(nearest)).rstrip("/") + "/"


def common_prefix(names: Sequence[str]) -> str:
    """Return the prefix that all names share. A single name gets a slash."""
    if len(names) < 2:
        return f"{names[0]}/" if names else ""
    first, last = min(names), max(names)
    pairs = enumerate(zip(first, last, strict=False))
    return first[: next((n for n, (letter, other) in pairs if letter != other), len(first))]


def list_completions(typed: str) -> list[str]:
    """Return the folders that complete a path, without a slash. Hidden folders are included if a dot was typed."""
    parent, prefix = os.path.split(typed)
    completions = []
    try:
        with os.scandir(os.path.expanduser(parent) or ".") as entries:
            for _, entry in zip(range(MAX_SCANNED_NAMES), entries, strict=False):
                is_hidden = entry.name.startswith(".") and not prefix.startswith(".")
                if entry.name.startswith(prefix) and not is_hidden and entry.is_dir():
                    completions.append(os.path.join(parent, entry.name))
    except (OSError, ValueError):
        return []
    return sorted(completions)
