"""This module lets a person edit a text, or open a file, in their own editor."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from pathlib import Path, PurePath
from typing import Any

from textual.app import App, SuspendNotSupported

from store.errors import Refused, StoreError
from store.paths import find_program

_PLUS_LINE = ("+{line}", "{path}")
_PLUS_LINE_COLUMN = ("+{line}:{column}", "{path}")
_PATH_LINE_COLUMN = ("{path}:{line}:{column}",)
_GOTO = ("--goto", "{path}:{line}:{column}")

_PLACE_ARGUMENTS = {
    **dict.fromkeys(("vi", "vim", "nvim", "gvim", "view", "nano", "pico", "ne", "joe", "mg", "gedit"), _PLUS_LINE),
    **dict.fromkeys(("emacs", "emacsclient", "micro", "kak"), _PLUS_LINE_COLUMN),
    **dict.fromkeys(("hx", "helix", "subl", "sublime_text", "zed"), _PATH_LINE_COLUMN),
    **dict.fromkeys(("code", "code-insiders", "codium", "vscodium", "cursor", "windsurf"), _GOTO),
}
"""Says how each editor is told the line. Any other editor gets only the file."""


def edit_in_external_editor(app: App[Any], text: str) -> str:
    """Suspend the app, and return the text as $VISUAL or $EDITOR leaves it. The error is a StoreError.

    The text is edited in a private file, which is deleted afterwards.
    """
    with tempfile.TemporaryDirectory(prefix="backscroll-") as folder:
        path = Path(folder) / "text.md"
        with os.fdopen(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        editor = _find_editor()
        if _run(app, [*editor, str(path)], "Edit the text here."):
            raise StoreError(f"The editor {editor[0]} ended with an error, so the text is unchanged.")
        try:
            return path.read_text("utf-8").removesuffix("\n")
        except (OSError, ValueError) as reason:
            raise StoreError(f"The text that {editor[0]} left cannot be read ({reason}).") from None


def open_in_external_editor(app: App[Any], path: str, line: int | None = None, column: int | None = None) -> None:
    """Suspend the app, and open a file in $VISUAL or $EDITOR, at a line if the editor is known.

    The path must be absolute, so that no editor can take it for an option.
    """
    editor = _find_editor()
    if status := _run(app, [*editor, *place_arguments(editor[0], path, line, column)], "Copy the path instead."):
        raise StoreError(f"The editor {editor[0]} ended with status {status}.")


def place_arguments(editor: str, path: str, line: int | None, column: int | None) -> list[str]:
    """Return the arguments that open a file at a line in this editor."""
    if not os.path.isabs(path):
        raise Refused(f"{path!r} is not an absolute path.")
    templates = _PLACE_ARGUMENTS.get(PurePath(editor).name) if line is not None else None
    place = {"path": path, "line": line, "column": column or 1}
    return [template.format(**place) for template in templates or ("{path}",)]


def _find_editor() -> list[str]:
    command = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    try:
        argv = shlex.split(command)
    except ValueError:
        argv = []
    if not argv:
        raise Refused(f"$EDITOR is not a command: {command!r}. Set it to the name of an editor.")
    program = find_program(argv[0])
    if not program:
        raise Refused(f"The editor {argv[0]} is not installed. Set $EDITOR to another one.")
    return [program, *argv[1:]]


def _run(app: App[Any], argv: list[str], otherwise: str) -> int:
    """Run an editor in the terminal of the suspended app. Return its exit status.

    An error must not leave `suspend`, because the app would not take the terminal back.
    """
    failure: Exception | None = None
    status = 0
    try:
        with app.suspend():
            try:
                status = subprocess.run(argv, check=False).returncode
            except (OSError, ValueError) as reason:
                failure = reason
    except SuspendNotSupported:
        raise Refused(f"This terminal cannot open an editor. {otherwise}") from None
    if failure is not None:
        raise StoreError(f"The editor {argv[0]} could not be run ({failure}). Set $EDITOR to another one.")
    return status
