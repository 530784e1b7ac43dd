"""This module answers a Tab in a shell: it finds what the last word of a line can be completed to."""

from __future__ import annotations

import shlex
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem, ShellComplete

from store.cli import PROGRAM, output
from store.cli.context import CliContext
from store.paths import resolve_store_path
from store.search.complete import Vocabulary, list_completions
from store.search.query import FILTERS
from store.text.sanitize import one_line

MAX_SESSIONS = 100
MAX_TITLE_CELLS = 60
MAX_SECONDS = 0.1
"""Limits a query. A Tab without an answer is better than one that blocks the shell."""

FILES = ":files"
"""Is the line that lets the script complete paths, too."""

_PROGRESS_STEPS = 10_000

_SESSIONS_SQL = """
    select id, native_id, coalesce(nullif(own_title, ''), nullif(agent_title, ''), first_prompt) from sessions
    where deleted = ? and (substr(id, 1, ?) = ? or substr(native_id, 1, ?) = ?) order by updated_at desc limit ?
"""


# ── what the scripts run ──────────────────────────────────────────────────────────────────────────


def print_completions(
    context: CliContext, shell: str, words: Sequence[str], browser_commands: Mapping[str, str]
) -> None:
    """Print what the last word can be completed to, with a description after a tab. `FILES` means paths.

    Errors are dropped, because no message may appear in the middle of a command that is being typed.
    """
    cut = 0
    with output.flush_on_exit(), suppress(Exception):
        if shell == "bash":
            words, cut = _split_line(*words)
        for item in _find_completions(context, words, browser_commands):
            if item.type in ("file", "dir"):
                output.write(FILES)
            elif item.value.startswith(words[-1]) and not any(map(str.isspace, item.value)):
                output.write(f"{item.value[cut:]}\t{one_line(item.help or '', MAX_TITLE_CELLS)}")


def _find_completions(
    context: CliContext, words: Sequence[str], browser_commands: Mapping[str, str]
) -> list[CompletionItem]:
    from store.cli.commands import main

    main.add_lazy_commands(browser_commands)
    *before, incomplete = words
    return ShellComplete(main, {"obj": context}, PROGRAM, "").get_completions(before, incomplete)


def _split_line(word_breaks: str, line: str) -> tuple[list[str], int]:
    """Split the line before the cursor into words, without the program. Also return how much of the last word bash
    keeps as it is: it takes a colon for the end of a word."""
    words, quote = _split_words(line)
    if not quote and (not line or line[-1].isspace()):
        words.append("")
    last = words[-1]
    breaks = [last.rfind(character) + 1 for character in ":=" if character in word_breaks and not quote]
    return words[1:] or [""], max(breaks, default=0)


def _split_words(line: str) -> tuple[list[str], str]:
    """Split a line as a shell does. Also return the quote that is still open at its end."""
    for quote in ("", "'", '"'):
        with suppress(ValueError):
            return shlex.split(line + quote), quote
    return line.split(), ""


# ── sessions and filters ──────────────────────────────────────────────────────────────────────────


def list_sessions(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the ids of sessions with their titles, the newest first. `restore` gets those in the trash."""
    is_deleted = int(ctx.command.name == "restore")
    size = len(incomplete)
    with _open_store(ctx) as rows:
        found = rows(_SESSIONS_SQL, is_deleted, size, incomplete, size, incomplete, MAX_SESSIONS)
    return [
        CompletionItem(public_id if public_id.startswith(incomplete) else native_id, help=title)
        for public_id, native_id, title in found
    ]


def list_filters(ctx: click.Context, incomplete: str) -> list[CompletionItem]:
    """Return the names of filters, or the values of the filter that is typed, or saved searches after an @."""
    if incomplete.startswith("@"):
        from store.search.saved_searches import read_searches

        with _open_store(ctx) as rows:
            return [CompletionItem(f"@{search.name}", help=search.query) for search in read_searches(rows)]
    name, colon, _ = incomplete.removeprefix("-").partition(":")
    vocabulary = Vocabulary()
    if colon and name in FILTERS:
        with _open_store(ctx) as rows:
            vocabulary = _load_values(name, rows)
    found = list_completions(incomplete, len(incomplete), vocabulary)
    return [CompletionItem(word, help="" if colon else FILTERS[word.strip("-:")]) for word in found]


def _load_values(filter_name: str, rows: Any) -> Vocabulary:
    from store.search.vocabulary import KINDS, load_vocabulary

    return load_vocabulary(rows, [KINDS[filter_name]] if filter_name in KINDS else ())


@contextmanager
def _open_store(ctx: click.Context) -> Iterator[Any]:
    """Open the store for reading only. Yield a function that runs SQL; it returns nothing if that takes too long."""
    path = resolve_store_path(ctx.find_root().params.get("path"))
    with closing(_connect_read_only(path)) as connection:
        deadline = time.monotonic() + MAX_SECONDS
        connection.set_progress_handler(lambda: time.monotonic() > deadline, _PROGRESS_STEPS)

        def rows(sql: str, *values: Any) -> list[Any]:
            with suppress(sqlite3.Error):
                return connection.execute(sql, values).fetchall()
            return []

        yield rows


def _connect_read_only(path: Path) -> sqlite3.Connection:
    """Connect without creating any file. Only if another program has the store open is its journal read, too."""
    is_open_elsewhere = all(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-shm"))
    mode = "mode=ro" if is_open_elsewhere else "mode=ro&immutable=1"
    return sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=MAX_SECONDS)
