"""This module knows where in its folder Claude Code keeps its transcripts."""

from __future__ import annotations

from store.sources.kit.layout import Layout

LAYOUT = Layout(("projects",), depth=6, suffixes=(".jsonl", ".meta.json"))
"""The levels below `projects` are: folder, session, `subagents`, `workflows`, run, and one to spare."""
