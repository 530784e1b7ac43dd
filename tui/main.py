"""The console script. Textual is imported only when somebody browses, so that commands start at once."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> int:
    from store.cli import run

    return run(browse=browse)


def browse(path: Path, *, follow: bool = False, pick: bool = False) -> None:
    """Open the store at `path` in the browser; comes back when the person quits, and not if they resume."""
    from store.store import Store
    from tui.app import Backscroll

    app = Backscroll(Store.open(path), follow=follow, pick=pick)
    try:
        chosen = app.run()
    finally:
        app.close_stores()
    if app.return_code:
        sys.exit(app.return_code)
    if chosen is not None:
        chosen.go()
