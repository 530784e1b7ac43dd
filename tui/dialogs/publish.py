"""This dialog asks which file of a session to publish, and completes its name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import ClassVar

from textual.binding import Binding, BindingType

from tui.dialogs.path import PathDialog
from tui.dialogs.text import SaveText
from tui.render.session_lines import abbreviate_home


class PublishDialog(PathDialog):
    """Gets the folder of the session and a function that publishes the file with the typed path."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Publish", priority=True, id="publish.take", tooltip="Publish this file"),
    ]
    with_files = True

    def __init__(self, folder: Path, title: str, publish: SaveText) -> None:
        note = f"{title}\nThe file must be in {abbreviate_home(str(folder))}."
        super().__init__("Publish a file", save=lambda typed: publish(os.path.expanduser(typed.strip())), note=note)
        self.base_folder = folder
