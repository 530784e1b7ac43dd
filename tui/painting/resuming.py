"""The card before the terminal is handed over."""

from __future__ import annotations

import shlex

from textual.content import Content

from store.clean import clean, one_line
from store.resuming import Resumption
from tui.painting.pieces import ERROR, MUTED, STRONG, Piece, content, title_of
from tui.painting.sessions import with_tilde

GOOD = "$text-success"


def card(found: Resumption) -> Content:
    title: list[Piece] = [
        (f"Continue in {found.program}\n", "bold $text-primary"),
        (one_line(title_of(found.session), 70) + "\n\n", MUTED),
    ]
    if found.argv is None:
        return content([*title, (clean(found.hint), "")])
    folder = with_tilde(str(found.folder)) if found.folder else "this terminal's"
    missing = bool(found.folder and not found.folder.is_dir())
    told: list[Piece] = [
        (clean(shlex.join(found.argv)) + "\n\n", STRONG),
        ("folder   ", MUTED),
        (one_line(folder, 50), ""),
        ("   not there\n", ERROR) if missing else ("   ✓\n", GOOD),
    ]
    told += [(f"\n✗ {clean(obstacle)}", ERROR) for obstacle in found.obstacles]
    return content([*title, *told])
