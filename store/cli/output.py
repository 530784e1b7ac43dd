"""This module does all printing of the command line.

Data goes to stdout, messages go to stderr. Text is sanitized before it reaches a terminal; a file or a pipe gets it
unchanged.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from store.errors import Ambiguous, Damaged, StoreError, Unreadable
from store.text.json import serialize
from store.text.sanitize import cell_width, one_line, sanitize
from store.text.sentences import tidy_sentences

if TYPE_CHECKING:
    import click

Style = Literal["plain", "title", "quiet", "good", "bad", "hit", "name"]

_STYLE_CODES = {"title": "1", "quiet": "2", "good": "32", "bad": "31", "hit": "33;1", "name": "36"}
"""Maps styles to ANSI colour codes."""

_LINE_BREAKS = re.compile(r"\s*[\r\n\t\v\f]\s*")
COLUMN_GAP = "  "


class TerminalText(NamedTuple):
    """Describes text with a style. Colours are added after sanitizing, and only on a terminal."""

    text: str
    style: Style


Span = str | TerminalText


def stdout_is_terminal() -> bool:
    try:
        return sys.stdout.isatty()
    except (AttributeError, ValueError):
        return False


def terminal_width() -> int:
    from shutil import get_terminal_size  # shutil loads the archive modules

    return get_terminal_size().columns


# ── stdout ────────────────────────────────────────────────────────────────────────────────────────


def write(*pieces: Span) -> None:
    """Print pieces of text as one line. A piece may contain line breaks."""
    rendered = map(_render, pieces) if stdout_is_terminal() else map(_plain_text, pieces)
    _write_stdout("".join(rendered) + "\n")


def write_record(data: bytes) -> None:
    """Print a record on one line: unchanged, or as a JSON string if it contains line breaks."""
    line = serialize(data.decode("utf-8", "surrogateescape")) if b"\n" in data or b"\r" in data else data
    if stdout_is_terminal():
        write(line.decode("utf-8", "replace"))
        return
    flush()
    sys.stdout.buffer.write(line + b"\n")


def emit_json(value: dict[str, Any]) -> None:
    """Print one JSON object with the version of its schema, indented on a terminal."""
    document = {"schema": 1, **value}
    if stdout_is_terminal():
        write(json.dumps(document, indent=2, ensure_ascii=False))
    else:
        _write_stdout(serialize(document).decode() + "\n")


def print_table(headings: Sequence[str], rows: Sequence[Sequence[Span]]) -> None:
    """Print a table: aligned and truncated under headings on a terminal, otherwise complete and separated by tabs.

    A heading that starts with a colon aligns its column to the right. The last column takes the remaining width.
    """
    if not stdout_is_terminal():
        for row in rows:
            _write_stdout("\t".join(_join_lines(_plain_text(cell)) for cell in row) + "\n")
        return
    max_width = terminal_width() // 4
    lines: list[list[Span]] = [[*(_truncate(cell, max_width) for cell in row[:-1]), row[-1]] for row in rows]
    if not lines:
        return
    lines.insert(0, [TerminalText(heading.lstrip(":").upper(), "quiet") for heading in headings])
    widths = [max(map(_cell_width, column)) for column in zip(*(line[:-1] for line in lines), strict=True)]
    room = max(terminal_width() - sum(widths) - len(COLUMN_GAP) * len(widths), 20)
    for line in lines:
        pieces: list[Span] = []
        for heading, cell, width in zip(headings, line, widths, strict=False):
            padding = " " * (width - _cell_width(cell))
            pieces += [padding, cell, COLUMN_GAP] if heading.startswith(":") else [cell, padding, COLUMN_GAP]
        write(*pieces, _truncate(line[-1], room))


def to_one_line(text: str, room: int | None = None) -> str:
    """Join text into one line. On a terminal, truncate it to `room` cells."""
    return one_line(text, room) if stdout_is_terminal() else _join_lines(text)


def _join_lines(text: str) -> str:
    return _LINE_BREAKS.sub(" ", text).strip()


def _plain_text(piece: Span) -> str:
    return piece.text if isinstance(piece, TerminalText) else piece


def _cell_width(piece: Span) -> int:
    return cell_width(_plain_text(piece))


def _truncate(piece: Span, room: int) -> Span:
    line = to_one_line(_plain_text(piece), room)
    return TerminalText(line, piece.style) if isinstance(piece, TerminalText) else line


def _render(piece: Span) -> str:
    safe = sanitize(_plain_text(piece))
    if isinstance(piece, str) or piece.style == "plain" or not _has_colors():
        return safe
    return f"\x1b[{_STYLE_CODES[piece.style]}m{safe}\x1b[0m"


def _has_colors() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _write_stdout(text: str) -> None:
    if sys.stdout is not None:
        sys.stdout.write(text)


def flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


@contextmanager
def flush_on_exit() -> Iterator[None]:
    """Flush stdout at the end. A closed pipe, as in `| head`, is not an error."""
    try:
        try:
            yield
        finally:
            flush()
    except BrokenPipeError:
        discard_remaining_output()


def discard_remaining_output() -> None:
    """Redirect stdout to nowhere, so that Python does not flush into a closed pipe or a full disk when it exits."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# ── stderr ────────────────────────────────────────────────────────────────────────────────────────


def notify(text: str) -> None:
    """Print a message on stderr. It is always sanitized, because it is never data."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(sanitize(tidy_sentences(text)), file=sys.stderr, flush=True)


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows how much of all is done, if stderr is a terminal."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    import click

    with click.progressbar(range(0), length=0, label=label, file=sys.stderr) as bar:

        def show(done: int, total: int) -> None:
            bar.length = total
            bar.pos = 0
            bar.update(done)

        yield show


def report_error(error: BaseException, *, is_doctor: bool = False) -> int:
    """Print an error as one sentence on stderr, and return the exit status. `doctor` does not recommend itself."""
    match error:
        case Damaged() if is_doctor:
            notify(f"{error.damage} Restore a backup.")
            return 3
        case Ambiguous():
            notify(_with_full_stop(str(error)))
            for candidate in error.candidates:
                notify("  " + one_line(candidate))
            return 1
        case StoreError():
            notify(_with_full_stop(str(error)))
            return 3 if isinstance(error, Unreadable) else 1
        case OSError():
            discard_remaining_output()
            where = f"{error.filename}: " if error.filename else ""
            notify(_with_full_stop(f"I/O error: {where}{error.strerror or error}"))
            return 1
    return _report_click_error(error, is_doctor)


def _report_click_error(error: BaseException, is_doctor: bool) -> int:
    import click  # already loaded if it raised the error

    match error:
        case click.UsageError():
            command = error.ctx.command_path if error.ctx else "backscroll"
            message = " ".join(_suggest_nearest(error).split())
            notify(f"{_with_full_stop(message)} Try `{command} -h`.")
            return 2
        case click.ClickException():
            notify(_with_full_stop(error.format_message()))
            return 1
        case click.Abort():
            return 130
    if sys.flags.dev_mode:
        raise error
    advice = "" if is_doctor else " Run `backscroll doctor` to check the store."
    notify(f"Unexpected error ({type(error).__name__}: {error}).{advice}")
    return 1


def _suggest_nearest(error: click.UsageError) -> str:
    """Return the message of an error. Of an unknown command or option, also name the nearest one that exists."""
    import click

    if isinstance(error, click.NoSuchOption | click.exceptions.NoSuchCommand) and error.possibilities:
        return f"{_with_full_stop(error.message)} Did you mean {error.possibilities[0]}?"
    return error.format_message()


def _with_full_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


# ── formats ───────────────────────────────────────────────────────────────────────────────────────

_DAY_SECONDS = 24 * 60 * 60
_AGE_UNITS = ((365 * _DAY_SECONDS, "y"), (7 * _DAY_SECONDS, "w"), (_DAY_SECONDS, "d"), (3600, "h"), (60, "m"))


def format_age(timestamp: str) -> str:
    """Format a time as an age like `4m`, `3h` or `2d` on a terminal, or as a date if it is to come.

    Return it unchanged where there is no terminal.
    """
    time = _parse_time(timestamp)
    if time is None or not stdout_is_terminal():
        return timestamp
    seconds = (datetime.now(UTC) - time).total_seconds()
    if seconds < -_DAY_SECONDS:  # the clock was set back, or was wrong where it was written
        return f"{time.astimezone():%Y-%m-%d}"
    return next((f"{seconds // size:.0f}{unit}" for size, unit in _AGE_UNITS if seconds >= size), "now")


def format_time(timestamp: str) -> str:
    """Format a time as day and minute in the local time zone."""
    time = _parse_time(timestamp)
    return time.astimezone().strftime("%Y-%m-%d %H:%M") if time else timestamp


def _parse_time(timestamp: str) -> datetime | None:
    try:
        time = datetime.fromisoformat(timestamp)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def format_count(number: int, noun: str) -> str:
    """Format a number and its noun, like `1 session` or `2 sessions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
