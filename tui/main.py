"""The console script. Textual is imported only when somebody browses, so that commands start at once."""

from __future__ import annotations

import gc
import os
import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

FPS_VARIABLE = "TEXTUAL_FPS"


def main() -> int:
    # A command is over before it leaves much to be collected, and what is there at its end goes with the process.
    gc.set_threshold(100_000)
    from store.cli import run

    status = run(browse=browse)
    gc.freeze()
    return status


def _raise_frame_rate() -> None:
    """Textual waits a sixtieth of a second before it paints what has come. Only it is told: what is resumed from here
    inherits the environment."""
    if FPS_VARIABLE not in os.environ:
        os.environ[FPS_VARIABLE] = "120"
        import_module("textual.constants")
        del os.environ[FPS_VARIABLE]


def _start_quick_index(path: Path) -> AbstractContextManager[Callable[[], object]]:
    from store.sync.first_look import first_look

    return first_look(path)


def _print_to_stderr(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def browse(path: Path, *, follow: bool = False, pick: bool = False) -> None:
    """Open the store at `path` in the browser; comes back when the person quits, and not if they resume."""
    # All that is made until the first screen is there to stay; the app enables it again.
    gc.disable()
    is_new = follow and not path.exists()
    with _start_quick_index(path) if is_new else nullcontext(str) as wait_for_rows:
        _raise_frame_rate()
        from store.store import Store
        from tui.app import Backscroll

        wait_for_rows()
        app = Backscroll(Store.open(path, notify=_print_to_stderr), follow=follow, pick=pick, is_new_store=is_new)
        try:
            chosen = app.run()
        finally:
            app.close_stores()
    if app.return_code:
        sys.exit(app.return_code)
    if chosen is not None:
        chosen.execute()
