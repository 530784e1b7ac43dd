"""This dialog asks for an existing folder, and completes its name."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from store.errors import Refused
from store.text.sanitize import one_line
from tui.dialogs.path import PathDialog
from tui.render.session_lines import abbreviate_home


class FolderDialog(PathDialog):
    """Returns the path as it was typed. `parse_folder` converts it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Use folder", priority=True, id="folder.take", tooltip="Use this folder"),
    ]

    def __init__(self, folder: Path | None) -> None:
        start = find_nearest_folder(folder) if folder else ""
        super().__init__("Resume in another folder", start, parse_folder)


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
