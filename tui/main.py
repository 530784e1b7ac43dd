"""The console script. Textual is imported only when the browser opens, so that commands start quickly."""

from __future__ import annotations

import os
import sys

from tui.tuning import ProcessTuning, end_command, tune_command

TYPE_CHECKING = False  # `typing` is not imported for it: an unchanged sync is done before that would be loaded
if TYPE_CHECKING:
    from pathlib import Path

    from store.sync.worker_process import WorkerProcess

FIRST_ROWS_SECONDS = 2.0
"""The first screen of a new store waits this long for something to show."""

COMMANDS = {"keys": "tui.cli.keys:keys", "config": "tui.cli.config:config"}
"""Names the commands that need the browser's code."""


def main() -> int:
    """Run the command line, and return its exit status."""
    tune_command()
    from store.cli import run

    status = run(browse, browser_commands=COMMANDS)
    end_command()
    return status


def browse(path: Path, *, follow: bool = False, pick: bool = False, refusal: str = "") -> None:
    """Open the store at `path` in the browser. Returns when the person quits, and not at all if they resume.

    A store with a `refusal` is temporary: edits would be lost, so they are refused with this sentence.

    For a new store, the worker process is started first of all: while it creates the store and reads the newest
    sessions into it, this process loads Textual. For an existing one, the screen starts it after its first rows.
    """
    _require_terminal()
    is_new = follow and not path.exists()
    worker = _make_worker(path) if follow else None
    if worker and is_new:
        worker.start()
    ProcessTuning.prepare_start()
    from store.store import Store
    from tui.app import Backscroll

    try:
        if worker and is_new:
            worker.wait_for_rows(FIRST_ROWS_SECONDS)
        store = Store.open(path, notify=_print_to_stderr)
        store.refusal = refusal
        app = Backscroll(store, worker=worker, pick=pick, is_new_store=is_new)
        try:
            chosen = app.run()
        finally:
            app.clear_copied_secret()
            app.close_stores()
    finally:
        if worker:
            worker.close()
    if app.return_code:
        sys.exit(app.return_code)
    if chosen is not None:
        chosen.execute()


def _require_terminal() -> None:
    """Refuse to open where nothing can be shown or typed. Textual would wait for keys for ever, and use a processor."""
    streams = (sys.stdin, sys.stdout, sys.__stderr__)
    if os.environ.get("TERM") in ("dumb", "") or not all(stream and stream.isatty() for stream in streams):
        from store.errors import Refused

        raise Refused("The browser needs a terminal. Use `backscroll list`, `show` and `search` instead.")


def _make_worker(path: Path) -> WorkerProcess:
    from store.sync.worker_process import WorkerProcess

    return WorkerProcess(path)


def _print_to_stderr(sentence: str) -> None:
    print(sentence, file=sys.stderr)
