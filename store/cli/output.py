"""The one place that writes. Data goes to stdout, talk to stderr; what reaches a terminal has passed `clean`, and
what reaches a file or a pipe is what the store holds."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

from store.errors import Ambiguous, StoreError, Unreadable
from store.text.json import serialize
from store.text.sanitize import cell_width, one_line, sanitize

Style = Literal["plain", "title", "quiet", "good", "bad", "hit", "name"]

_STYLE_CODES = {"title": "1", "quiet": "2", "good": "32", "bad": "31", "hit": "33;1", "name": "36"}
"""As terminals number them."""

_LINE_BREAKS = re.compile(r"\s*[\r\n\t\v\f]\s*")
COLUMN_GAP = "  "


class TerminalText(NamedTuple):
    "Text with a style; colours are added after it was cleaned, and only on a terminal."

    text: str
    style: Style


Span = str | TerminalText


def stdout_is_terminal() -> bool:
    with suppress(AttributeError, ValueError):
        return sys.stdout.isatty()
    return False


def terminal_width() -> int:
    from shutil import get_terminal_size  # with all that packs and unpacks

    return get_terminal_size().columns


# ── stdout ────────────────────────────────────────────────────────────────────────────────────────


def write(*pieces: Span) -> None:
    """One line, or text that is several."""
    shown = map(_render, pieces) if stdout_is_terminal() else map(_plain_text, pieces)
    _write_stdout("".join(shown) + "\n")


def write_record(data: bytes) -> None:
    """One line, whatever the record holds: as it is, or as a JSON string when it has line breaks of its own."""
    line = serialize(data.decode("utf-8", "surrogateescape")) if b"\n" in data or b"\r" in data else data
    if stdout_is_terminal():
        write(line.decode("utf-8", "replace"))
        return
    flush()
    sys.stdout.buffer.write(line + b"\n")


def emit_json(value: dict[str, Any]) -> None:
    """One object, with its version. Laid out for the eye on a terminal."""
    whole = {"schema": 1, **value}
    if stdout_is_terminal():
        write(json.dumps(whole, indent=2, ensure_ascii=False))
    else:
        _write_stdout(serialize(whole).decode() + "\n")


def print_table(heads: Sequence[str], rows: Sequence[Sequence[Span]]) -> None:
    """Aligned under quiet heads on a terminal; parted by tabs and uncut elsewhere. A head with a colon in front has
    its column aligned to the right; the last column takes what room is left."""
    if not stdout_is_terminal():
        for row in rows:
            _write_stdout("\t".join(to_one_line(_plain_text(cell)) for cell in row) + "\n")
        return
    widest = terminal_width() // 4
    lines: list[list[Span]] = [[*(_truncate(cell, widest) for cell in row[:-1]), row[-1]] for row in rows]
    if not lines:
        return
    lines.insert(0, [TerminalText(head.lstrip(":").upper(), "quiet") for head in heads])
    widths = [max(map(_cell_width, column)) for column in zip(*(line[:-1] for line in lines), strict=True)]
    room = max(terminal_width() - sum(widths) - len(COLUMN_GAP) * len(widths), 20)
    for line in lines:
        pieces: list[Span] = []
        for head, cell, size in zip(heads, line, widths, strict=False):
            space = " " * (size - _cell_width(cell))
            pieces += [space, cell, COLUMN_GAP] if head.startswith(":") else [cell, space, COLUMN_GAP]
        write(*pieces, _truncate(line[-1], room))


def to_one_line(text: str, room: int | None = None) -> str:
    """On one line, and on a terminal in so much room."""
    return one_line(text, room) if stdout_is_terminal() else _LINE_BREAKS.sub(" ", text).strip()


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
    """A reader that has seen enough and closed the pipe is no failure."""
    try:
        try:
            yield
        finally:
            flush()
    except BrokenPipeError:
        discard_remaining_output()


def discard_remaining_output() -> None:
    """So that nothing is left to be flushed into a closed pipe or a full disk when Python ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# ── stderr ────────────────────────────────────────────────────────────────────────────────────────


def notify(text: str) -> None:
    """Talk: what was done, what else there is. Never data, so always clean."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(sanitize(text), file=sys.stderr, flush=True)


def report_error(error: BaseException) -> int:
    """One sentence on stderr, and the exit status."""
    match error:
        case Ambiguous():
            notify(f"{error}:")
            for candidate in error.candidates:
                notify("  " + one_line(candidate))
            return 1
        case StoreError():
            notify(_with_full_stop(str(error)))
            return 3 if isinstance(error, Unreadable) else 1
        case OSError():
            discard_remaining_output()
            notify(_with_full_stop(f"It could not be done: {error.strerror or error}"))
            return 1
    return _report_click_error(error)


def _report_click_error(error: BaseException) -> int:
    import click  # who raised one of its errors has it loaded

    match error:
        case click.UsageError():
            where = error.ctx.command_path if error.ctx else "backscroll"
            notify(f"{_with_full_stop(error.format_message())} Try `{where} -h`.")
            return 2
        case click.ClickException():
            notify(_with_full_stop(error.format_message()))
            return 1
        case click.Abort():
            return 130
    if sys.flags.dev_mode:
        raise error
    notify(
        f"Backscroll met what it did not expect ({type(error).__name__}: {error}); `backscroll doctor` may tell why."
    )
    return 1


def _with_full_stop(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


# ── words ─────────────────────────────────────────────────────────────────────────────────────────

_AGE_UNITS = ((365 * 86400, "y"), (7 * 86400, "w"), (86400, "d"), (3600, "h"), (60, "m"))


def format_age(at: str) -> str:
    """`4m`, `3h`, `2d` on a terminal; the time itself elsewhere."""
    then = _parse_time(at)
    if then is None or not stdout_is_terminal():
        return at
    seconds = (datetime.now(UTC) - then).total_seconds()
    return next((f"{seconds // size:.0f}{unit}" for size, unit in _AGE_UNITS if seconds >= size), "now")


def format_time(at: str) -> str:
    """The day and the minute where the reader is."""
    then = _parse_time(at)
    return then.astimezone().strftime("%Y-%m-%d %H:%M") if then else at


def _parse_time(at: str) -> datetime | None:
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return None
    return then if then.tzinfo else then.replace(tzinfo=UTC)


def format_count(number: int, noun: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
