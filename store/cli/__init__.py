"""This package is the command line. A command parses its options, calls the store and prints the result.

`run` is the only entry point. It never raises and never prints a traceback: every error becomes one sentence on stderr
and an exit status. Command names, JSON fields and exit statuses never change.

The two commonest calls (no command, and `sync`) are recognized without click, because loading click and the output
code takes longer than painting the first screen or checking ten thousand files. A sync with nothing to do does not even
load `typing` and `pathlib`, which take as long as Python itself.
"""

from __future__ import annotations

import os
import sys

from store.cli.console import configure_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from store.cli.context import BrowserLauncher, CliContext

PROGRAM = "backscroll"


def run(
    browse: BrowserLauncher | None = None,
    argv: Sequence[str] | None = None,
    browser_commands: Mapping[str, str] | None = None,
) -> int:
    """Run a command and return the exit status. The browser passes the commands that only it can answer.

    0: done. 1: not found, refused, or nothing to undo. 2: wrong usage. 3: a store or file cannot be read.
    130: interrupted.
    """
    configure_output()
    arguments = sys.argv[1:] if argv is None else list(argv)
    try:
        if _report_unchanged(arguments):
            return 0
        from store.cli.context import CliContext

        context = CliContext(browse)
        try:
            return _dispatch(context, arguments, browser_commands or {})
        finally:
            context.close()
    except KeyboardInterrupt:
        print(file=sys.stderr)  # start a new line after the terminal's "^C"
        return 130
    except Exception as error:
        from store.cli import output

        return output.report_error(error, is_doctor="doctor" in arguments)


def _report_unchanged(arguments: Sequence[str]) -> bool:
    """Print the report of a sync if nothing changed since the last one, and return whether that is so."""
    match arguments:
        case ["sync"]:
            path = _find_default_store()
        case ["--store", path, "sync"]:
            pass
        case _:
            return False
    from store.sync.saved_check import find_unchanged

    stores = find_unchanged(os.path.join(os.getcwd(), os.path.expanduser(path))) if path else None
    if stores is None:
        return False
    rows = [[source, f"{seen:,}", "0", "0", locator] for source, seen, locator in stores]
    _print_unchanged(rows)
    return True


def _print_unchanged(rows: list[list[str]]) -> None:
    """Print what a sync prints. Only a terminal needs the modules that align and colour a table."""
    if sys.stdout is None or sys.stdout.isatty():
        from store.cli.sync_runner import print_report_table

        print_report_table(rows)
        return
    try:
        sys.stdout.write("".join("\t".join(row) + "\n" for row in rows))
        sys.stdout.flush()
    except BrokenPipeError:
        from store.cli.output import discard_remaining_output

        discard_remaining_output()


def _find_default_store() -> str:
    """Return the path of the default store, or nothing if a config file may name another one."""
    from store.platform_folder import CONFIG_FOLDER, DATA_FOLDER, find_platform_folder

    if path := os.environ.get("BACKSCROLL_STORE"):
        return path
    has_config = os.path.exists(os.path.join(find_platform_folder(*CONFIG_FOLDER), "config.toml"))
    return "" if has_config else os.path.join(find_platform_folder(*DATA_FOLDER), "store.db")


def _dispatch(context: CliContext, arguments: list[str], browser_commands: Mapping[str, str]) -> int:
    command = arguments
    match arguments:
        case ["--store", path, *rest] if path and not path.startswith("-"):
            from pathlib import Path

            context.store_option, command = Path(path), rest
    match command:
        case ["_complete", shell, *words]:  # what the script of `completion` runs at every Tab
            from store.cli.completion.completer import print_completions

            print_completions(context, shell, words, browser_commands)
        case []:
            context.open_browser(follow=True)
        case ["sync"] | ["sync", "--json"]:
            _run_sync_command(context, as_json="--json" in command)
        case _:
            from store.cli.commands import main

            main.add_lazy_commands(browser_commands)
            status = main.main(arguments, PROGRAM, standalone_mode=False, obj=context)
            return status if isinstance(status, int) else 0
    return 0


def _run_sync_command(context: CliContext, *, as_json: bool) -> None:
    from contextlib import ExitStack

    with ExitStack() as cleanup:
        processes = None
        if not context.path.exists():
            from store.sync.child_process import ReaderProcesses
            from store.sync.quick_index import prepare_readers

            # They read while the store is created.
            processes = cleanup.enter_context(ReaderProcesses())
            prepare_readers(processes)
        from store.cli.sync_runner import run_sync

        run_sync(context.store, as_json=as_json, processes=processes)
