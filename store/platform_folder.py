"""This module knows where the platform keeps files of programs. It is apart from `store.paths`, because an unchanged
sync loads this and nothing of that."""

from __future__ import annotations

import os
import sys

_MAC_FOLDER = "Library/Application Support"

DATA_FOLDER = ("XDG_DATA_HOME", ".local/share")
CONFIG_FOLDER = ("XDG_CONFIG_HOME", ".config")
STATE_FOLDER = ("XDG_STATE_HOME", ".local/state")


def find_platform_folder(variable: str, default: str) -> str:
    """Return our folder below the one in the environment variable, or below the default of the platform.

    No library is used for this, because importing one takes longer than opening a store.
    """
    folder = os.environ.get(variable, "")
    if not os.path.isabs(folder):
        folder = os.path.join(os.path.expanduser("~"), _MAC_FOLDER if sys.platform == "darwin" else default)
    return os.path.join(folder, "backscroll")
