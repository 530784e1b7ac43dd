"""This module knows where in its folder Codex keeps its rollouts and its databases."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from store.sources.kit.layout import Layout

LAYOUT = Layout(
    ("sessions", "archived_sessions"),
    depth=4,
    suffixes=(".jsonl", ".jsonl.zst"),
    is_transcript=lambda path: path.name.startswith("rollout-"),
)


def find_databases(root: Path) -> list[Path]:
    """Return the databases, newest last. The number in the name is the version of the schema."""
    with suppress(OSError):
        databases = [path for path in root.glob("state_*.sqlite") if path.stem.removeprefix("state_").isdecimal()]
        return sorted(databases, key=lambda path: int(path.stem.removeprefix("state_")))
    return []
