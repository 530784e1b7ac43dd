"""This module finds the folders in which agents keep their stores. It is light, because every sync loads it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from store import probes
from store.probes import PATH_ERRORS


class Home(NamedTuple):
    """Names the folder or file in which an agent keeps its store; it need not exist."""

    path: str
    "May begin with `~`."
    env: str = ""
    "The environment variable that replaces `path`, if the agent has one."
    below: str = ""
    "Follows the path or the value of the variable."

    def locate(self) -> str:
        """Return where it is on this machine."""
        base = (probes.read_variable(self.env) if self.env else "") or self.path
        return os.path.expanduser(os.path.join(base, self.below) if self.below else base)

    def describe(self) -> str:
        """Return the path for a person to read, e.g. `~/.codex or $CODEX_HOME`."""
        bases = [self.path, f"${self.env}"] if self.env else [self.path]
        return " or ".join(os.path.join(base, self.below) if self.below else base for base in bases)


def user_data_folder() -> str:
    """Return the folder for data of programs, as the XDG standard defines it."""
    return probes.read_variable("XDG_DATA_HOME") or f"{probes.find_home_folder()}/.local/share"


def read_settings(path: Path) -> Mapping[str, Any]:
    """Return the content of a JSON settings file; empty when there is none. Most people have none, so the JSON reader
    is imported only when there is a file."""
    if not probes.stamp_file(str(path)):  # also true for a home folder that this user may not read
        return {}
    from store.sources.kit.jsonl import as_dict, read_json_file

    return as_dict(read_json_file(path, []))


def read_settings_text(path: Path) -> str:
    """Return the content of a settings file in another format than JSON; empty when there is none."""
    from store.paths import read_small_file

    try:
        return read_small_file(path).decode() if probes.stamp_file(str(path)) else ""
    except PATH_ERRORS:
        return ""


def path_setting(value: object) -> str:
    """Return a setting that should be a path; empty when it cannot be one."""
    return value if isinstance(value, str) and "\0" not in value else ""
