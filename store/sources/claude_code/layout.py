"""This module knows where in its folder Claude Code keeps its transcripts."""

from __future__ import annotations

from pathlib import Path

DEPTH = 6
"""Counts the levels below `projects`: folder, session, `subagents`, `workflows`, run, and one to spare."""

SUFFIXES = (".jsonl", ".meta.json")


def projects_folder(locator: Path) -> Path:
    return locator / "projects" if (locator / "projects").is_dir() else locator
