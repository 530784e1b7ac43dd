"""This dialog asks for a path, and completes it."""

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

from store.text.sanitize import one_line
from tui.dialogs.text import SingleLineDialog
from tui.messages import DataMessage
from tui.render.styles import FAINT, MUTED, build_content
from tui.workers import threaded

MAX_SUGGESTIONS = 8
MAX_SCANNED_NAMES = 5_000
"""Limits the names that are read in one folder."""


class PathDialog(SingleLineDialog):
    """Completes folders, and files if a subclass says so. A relative path starts at the base folder."""

    DEFAULT_CSS = f"""
    PathDialog #offers {{
        height: {MAX_SUGGESTIONS + 1};
        margin-top: 1;
    }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # Priority, because Tab moves the focus otherwise.
        Binding("tab", "complete", "Complete", priority=True, id="folder.complete", tooltip="Complete the name"),
    ]

    base_folder = Path()
    with_files = False
    _suggestions: Sequence[str] = ()

    class SuggestionsLoaded(DataMessage):
        text: str
        paths: Sequence[str]

    def compose_field(self) -> ComposeResult:
        yield from super().compose_field()
        yield Static(id="offers")

    def on_mount(self) -> None:
        self._load_suggestions(self.read_text())

    @on(Input.Changed)
    def _handle_input(self, changed: Input.Changed) -> None:
        self._load_suggestions(changed.value)

    @threaded(group="folders", exclusive=True)
    def _load_suggestions(self, typed: str) -> None:
        paths = list_completions(typed, self.base_folder, with_files=self.with_files)
        self.post_message(self.SuggestionsLoaded(typed, paths))

    @on(SuggestionsLoaded)
    def _show_suggestions(self, loaded: SuggestionsLoaded) -> None:
        if loaded.text == self.read_text():
            self._suggestions = loaded.paths
            self.query_one("#offers", Static).update(_format_suggestions(loaded.paths))

    def action_complete(self) -> None:
        if prefix := os.path.commonprefix(self._suggestions):  # noqa: RUF071 (of characters, as a shell does it)
            self.set_text(prefix)
            self.query_one(Input).cursor_position = len(prefix)


def _format_suggestions(paths: Sequence[str]) -> Content:
    shown = [build_content([(_format_name(path), MUTED)]) for path in paths[:MAX_SUGGESTIONS]]
    if len(paths) > MAX_SUGGESTIONS:
        shown.append(build_content([(f"… {len(paths) - MAX_SUGGESTIONS:,} more", FAINT)]))
    return Content("\n").join(shown)


def _format_name(path: str) -> str:
    slash = "/" if path.endswith("/") else ""
    return one_line(os.path.basename(path.removesuffix("/")), 60) + slash


def list_completions(typed: str, base_folder: Path, *, with_files: bool) -> list[str]:
    """Return the paths that complete a path; folders end with a slash. Hidden ones are included if a dot was typed."""
    parent, prefix = os.path.split(typed)
    completions = []
    try:
        with os.scandir(os.path.join(base_folder, os.path.expanduser(parent))) as entries:
            for _, entry in zip(range(MAX_SCANNED_NAMES), entries, strict=False):
                is_hidden = entry.name.startswith(".") and not prefix.startswith(".")
                if not entry.name.startswith(prefix) or is_hidden:
                    continue
                if entry.is_dir():
                    completions.append(os.path.join(parent, entry.name, ""))
                elif with_files:
                    completions.append(os.path.join(parent, entry.name))
    except (OSError, ValueError):
        return []
    return sorted(completions)
