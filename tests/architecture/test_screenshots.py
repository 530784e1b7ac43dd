"""This module checks that the pictures in screenshots/ show the program as it is now."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "screenshots"
TOUR = "tour.svg"
MAX_TOUR_BYTES = 1_000_000
CAPTIONS = re.compile(r'class="caption">([^<]*)<')


def test_the_pictures_are_not_stale(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, FOLDER / "make.py", tmp_path],
        check=True,
        env=os.environ | {"TZ": "UTC", "PYTHONPATH": str(FOLDER.parent)},
    )
    current = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.svg")}
    committed = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.svg") if path.name != TOUR}
    assert current.keys() == committed.keys(), "Run `make screenshots`, and remove pictures that it does not make."
    stale = [name for name in current if current[name] != committed[name]]
    assert not stale, f"Out of date: {', '.join(stale)}. Run `make screenshots`."


def test_the_tour_shows_a_run_from_finding_to_resuming(tmp_path: Path) -> None:
    subprocess.run([sys.executable, FOLDER / "tour.py", tmp_path], check=True)
    made, committed = (folder.joinpath(TOUR).read_text("utf-8") for folder in (tmp_path, FOLDER))
    assert len(made.encode()) < MAX_TOUR_BYTES
    for text in ("1 found", "Conversation", "arguments", "Resume in Claude Code", "The agent goes on here."):
        assert text in made
    assert "http" not in made.replace("http://www.w3.org/2000/svg", "")
    assert CAPTIONS.findall(made) == CAPTIONS.findall(committed), "Run `make screenshots`."
