"""This module knows where in its folder Codex keeps its rollouts and its databases."""

from __future__ import annotations

from pathlib import Path

from store.probes import list_names, split_answer
from store.sources.kit.layout import Layout

LAYOUT = Layout(
    ("sessions", "archived_sessions"),
    depth=4,
    suffixes=(".jsonl", ".jsonl.zst"),
    is_transcript=lambda path: path.name.startswith("rollout-"),
)

_PREFIX, _SUFFIX = "state_", ".sqlite"


def find_databases(root: Path) -> list[Path]:
    """Return the databases, newest last. The number in the name is the version of the schema."""
    names = split_answer(list_names(str(root), _PREFIX, _SUFFIX))
    versions = (name.removeprefix(_PREFIX).removesuffix(_SUFFIX) for name in names)
    return [root / f"{_PREFIX}{version}{_SUFFIX}" for version in sorted(filter(str.isdecimal, versions), key=int)]
