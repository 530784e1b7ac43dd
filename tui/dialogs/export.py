"""This dialog asks for the file to which something is exported, and completes its name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from store.errors import Refused
from store.text.sanitize import one_line
from tui.dialogs.path import PathDialog


class ExportDialog(PathDialog):
    """Returns the path as it was typed, after the file was written. A file that exists is not overwritten."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Export", priority=True, id="export.take", tooltip="Write the file"),
    ]
    with_files = True

    def __init__(self, title: str, name: str, make_text: Callable[[], str]) -> None:
        super().__init__(title, name, lambda typed: write_new_file(typed, make_text()))


def write_new_file(typed: str, text: str) -> Path:
    """Write a text to a new file. Raise Refused if there is one already, or if it cannot be written."""
    shown = one_line(typed, 200) or "(empty)"
    try:
        path = Path(typed.strip()).expanduser().absolute()
        if not typed.strip() or path.is_dir():
            raise Refused(f"Not a file name: {shown}. Enter another one.")
        with path.open("x", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
    except FileExistsError:
        raise Refused(f"The file exists already: {shown}. Enter another name.") from None
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "the name cannot be used"
        raise Refused(f"Cannot write {shown}: {reason}. Enter another name.") from None
    return path
