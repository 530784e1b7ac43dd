"""Where in its folder Codex keeps its rollouts, and what it notes of them."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

DEPTH = 4
SUFFIXES = (".jsonl", ".jsonl.zst")
FOLDERS = ("sessions", "archived_sessions")


def rollout_folders(locator: Path) -> list[Path]:
    return [locator / name for name in FOLDERS if (locator / name).is_dir()] or [locator]


def find_databases(root: Path) -> list[Path]:
    """The number in the name grows with the schema; the newest last."""
    with suppress(OSError):
        found = [path for path in root.glob("state_*.sqlite") if path.stem.removeprefix("state_").isdecimal()]
        return sorted(found, key=lambda path: int(path.stem.removeprefix("state_")))
    return []
