"""This module defines every mark that the screens show. A mark has one meaning on all screens, and `?` explains it.

Other modules use the names, never the characters, so that no character gets a second meaning (a test checks that).
"""

from __future__ import annotations

# ── sessions ──────────────────────────────────────────────────────────────────────────────────────

PINNED = "★"
SELECTED = "◆"
NOTE = "✎"
WORKING = "●"
WAITING = "◔"
IDLE = "◌"
ENDED = "■"
TURNS = "⟲"
CALLS = "⚙"
FORK = "↱"
SUB_AGENT = "↳"
SUPERSEDED = "⤺"
SUMMARY = "∑"
SECRETS = "🔒"
GONE = "⌫"
EXPIRES = "⏳"
ARCHIVED = "▫"
TRASHED = "⊘"
SHARED = "⇄"
DISPUTED = "≠"

# ── conversations, tables and dialogs ─────────────────────────────────────────────────────────────

SUCCEEDED = "✓"
FAILED = "✗"
PARALLEL = "∥"
FOLDED = "▸"
UNFOLDED = "▾"
CHOSEN = "◉"
NOT_CHOSEN = "○"
EVENT = "◦"
IMAGE = "▣"
FILE = "⎘"
UNKNOWN = "◇"
COVERED = "▕"
COVERED_END = "◂"
LINE_BREAK = "⏎"
LEFT_OUT = "⋯"
ADDED = "+"
REMOVED = "−"
CURSOR = "▌"

LEGEND: tuple[tuple[str, str], ...] = (
    (PINNED, "pinned"),
    (SELECTED, "selected (actions apply to all selected)"),
    (NOTE, "has a note"),
    (WORKING, "working"),
    (WAITING, "waiting for you"),
    (IDLE, "idle: nothing new for a while"),
    (ENDED, "ended: its agent quit"),
    (TURNS, "turns: a prompt and everything up to the next prompt"),
    (CALLS, "tool calls"),
    (SUCCEEDED, "succeeded"),
    (FAILED, "failed, or ended with an error"),
    (PARALLEL, "ran at the same time as other calls"),
    (FOLDED, "folded; +3: three sessions that came from this one"),
    (UNFOLDED, "unfolded"),
    (FORK, "forked from another session"),
    (SUB_AGENT, "sub-agent of another session"),
    (SUPERSEDED, "superseded: its agent rewrote it"),
    (SUMMARY, "summary"),
    (SECRETS, "has secrets"),
    (GONE, "gone: its agent no longer has it"),
    (EXPIRES, "days until its agent deletes it"),
    (ARCHIVED, "archived"),
    (TRASHED, "in the trash"),
    (SHARED, "shared with your team, or by the member who is named"),
    (DISPUTED, "two people changed the same at once"),
    ("#", "your tags"),
    (CHOSEN, "chosen, or the current version"),
    (NOT_CHOSEN, "not chosen"),
    (EVENT, "event"),
    (IMAGE, "image"),
    (FILE, "attached file"),
    (UNKNOWN, "a part that Backscroll does not know; press 3 for its record"),
    (COVERED, "covered by the summary"),
    (COVERED_END, "where the summary ends"),
    (LINE_BREAK, "line break in a command"),
    (LEFT_OUT, "unchanged lines left out"),
    (ADDED, "added"),
    (REMOVED, "removed"),
    (CURSOR, "cursor"),
)
"""Explains the marks, in the order in which `?` shows them."""


def fold_mark(is_unfolded: bool) -> str:
    return UNFOLDED if is_unfolded else FOLDED
