"""Fixtures of the tests that open the browser."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_driver import fill_store

from store.store import Store

OPENER = """#!/bin/sh
printf '%s\\n' "$#" "$@" >> "$OPENED"
"""


@pytest.fixture
def filled_store(store: Store) -> Store:
    """A store with one conversation of each kind."""
    fill_store(store)
    return store


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file to which an opener, the only one on this system, writes the number of its arguments and each of
    them."""
    programs, opened = tmp_path / "programs", tmp_path / "opened"
    programs.mkdir()
    for name in ("xdg-open", "open"):
        (programs / name).write_text(OPENER)
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("OPENED", str(opened))
    return opened
