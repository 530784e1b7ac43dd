"""The pictures in screenshots/ show the program as it is."""

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
    made = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.svg")}
    kept = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.svg")}
    assert made.keys() == kept.keys(), "`make screenshots` makes them anew; remove those that nobody makes"
    stale = [name for name in made if made[name] != kept[name]]
    assert not stale, f"{', '.join(stale)}: `make screenshots` makes them anew"
