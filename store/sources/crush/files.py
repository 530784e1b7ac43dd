"""This module finds the projects in which Crush was started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from store.probes import read_variable
from store.sources.kit.home import path_setting, read_settings, user_data_folder


class CrushProject(NamedTuple):
    """Names a project and the folder of its database."""

    path: Path
    data_folder: Path


def find_projects() -> Iterator[CrushProject]:
    """Return the projects that Crush remembers. Some may not exist any more."""
    registry = Path(read_variable("CRUSH_GLOBAL_DATA") or f"{user_data_folder()}/crush") / "projects.json"
    projects = read_settings(registry).get("projects")
    for project in projects if isinstance(projects, list) else ():
        fields = project if isinstance(project, dict) else {}
        if path := path_setting(fields.get("path")):
            yield CrushProject(Path(path), Path(path) / (path_setting(fields.get("data_dir")) or ".crush"))


def find_project_folder(locator: str) -> str:
    """Return the project of a database. If folders in a project share it, the outermost folder is returned."""
    data_folder = Path(locator).parent
    projects = [
        str(project.path)
        for project in find_projects()
        if os.path.realpath(project.data_folder) == os.path.realpath(data_folder)
    ]
    if projects:
        return min(projects, key=len)
    return str(data_folder.parent) if data_folder.name == ".crush" else ""
