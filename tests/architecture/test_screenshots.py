"""This module checks that the pictures in screenshots/ show the program as it is now."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "screenshots"


def test_the_pictures_are_not_stale(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, FOLDER / "make.py", tmp_path],
        check=True,
        env=os.environ | {"TZ": "UTC", "PYTHONPATH": str(FOLDER.parent)},
    )
    current = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.svg")}
    committed = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.svg")}
    assert current.keys() == committed.keys(), "Run `make screenshots`, and remove pictures that it does not make."
    stale = [name for name in current if current[name] != committed[name]]
    assert not stale, f"Out of date: {', '.join(stale)}. Run `make screenshots`."
