"""This module replaces the machine's clipboard, which a test must never overwrite."""

from __future__ import annotations

from pathlib import Path

XCLIP = """#!/bin/sh
case "$*" in
    *-o*) /bin/cat "{file}" ;;
    *) /bin/cat > "{file}.new"; /bin/mv "{file}.new" "{file}" ;;
esac
"""


class FakeClipboard:
    """Holds what was copied last."""

    def __init__(self) -> None:
        self.text = ""

    def copy(self, text: str) -> None:
        self.text = text

    def paste(self) -> str:
        return self.text


class ClipboardProgram:
    """Keeps a clipboard in a file, with a program named xclip. Other processes use it as they use an X11 desktop's."""

    def __init__(self, folder: Path) -> None:
        self.environ = {"DISPLAY": ":0", "PATH": f"{folder}:/usr/bin:/bin"}
        self._file = folder / "clipboard"
        self._file.touch()
        program = folder / "xclip"
        program.write_text(XCLIP.format(file=self._file))
        program.chmod(0o755)

    @property
    def text(self) -> str:
        return self._file.read_text()

    @text.setter
    def text(self, text: str) -> None:
        self._file.write_text(text)
