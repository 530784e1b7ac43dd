"""This module keeps unsaved text in a private file, so that it is not lost when the browser crashes or is killed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from store.paths import replace_private_file, state_file
from store.text.json import utc_timestamp
from tui.render.session_lines import abbreviate_home

KEEP_SECONDS = 2.0
"""Unsaved text is kept this often."""


def drafts_folder() -> Path:
    return state_file().with_name("drafts")


class Draft:
    """Is the unsaved text of one browser."""

    def __init__(self) -> None:
        self.path = drafts_folder() / f"{utc_timestamp().replace(':', '')}-{os.getpid()}.md"
        self._text = ""

    def keep(self, text: str) -> None:
        """Write the text if it has changed, or delete the file if nothing is unsaved any more."""
        if text == self._text:
            return
        with suppress(OSError):
            if text:
                replace_private_file(self.path, text.encode("utf-8", "replace"))
            else:
                self.path.unlink(missing_ok=True)
            self._text = text


def find_left_drafts() -> list[Path]:
    """Return the drafts of browsers that ended without saving them."""
    drafts = sorted(drafts_folder().glob("*-*.md"))
    return [draft for draft in drafts if not _is_running(draft.stem.rpartition("-")[2])]


def describe_left_drafts(drafts: Sequence[Path]) -> str:
    """Say in one notice where unsaved text is: many notices would cover the screen."""
    if len(drafts) == 1:
        return (
            f"Text that was not saved is in {abbreviate_home(str(drafts[0]))}. Delete the file when you do not need it."
        )
    folder = abbreviate_home(str(drafts_folder()))
    return f"Text that was not saved is in {len(drafts)} files in {folder}. Delete them when you do not need them."


def _is_running(pid: str) -> bool:
    try:
        os.kill(int(pid), 0)
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    except PermissionError:
        pass
    return True
