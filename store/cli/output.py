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
from store.text.json import spell
from store.text.sanitize import cells, clean, one_line

Style = Literal["plain", "title", "quiet", "good", "bad", "hit", "name"]

_STYLES = {"title": "1", "quiet": "2", "good": "32", "bad": "31", "hit": "33;1", "name": "36"}
"""As terminals number them."""

_BREAKS = re.compile(r"\s*[\r\n\t\v\f]\s*")
GAP = "  "


class Ink(NamedTuple):
    "Text with a style; colours are added after it was cleaned, and only on a terminal."

    text: str
    style: Style


Piece = str | Ink


def on_terminal() -> bool:
    with suppress(AttributeError, ValueError):
        return sys.stdout.isatty()
    return False


def width() -> int:
    from shutil import get_terminal_size  # with all that packs and unpacks

    return get_terminal_size().columns


# ── stdout ────────────────────────────────────────────────────────────────────────────────────────


def write(*pieces: Piece) -> None:
    """One line, or text that is several."""
    shown = map(_on_terminal, pieces) if on_terminal() else map(_text, pieces)
    _stdout("".join(shown) + "\n")


def write_record(data: bytes) -> None:
    """One line, whatever the record holds: as it is, or as a JSON string when it has line breaks of its own."""
    line = spell(data.decode("utf-8", "surrogateescape")) if b"\n" in data or b"\r" in data else data
    if on_terminal():
        write(line.decode("utf-8", "replace"))
        return
    flush()
    sys.stdout.buffer.write(line + b"\n")


def emit_json(value: dict[str, Any]) -> None:
    """One object, with its version. Laid out for the eye on a terminal."""
    whole = {"schema": 1, **value}
    if on_terminal():
        write(json.dumps(whole, indent=2, ensure_ascii=False))
    else:
        _stdout(spell(whole).decode() + "\n")


def table(heads: Sequence[str], rows: Sequence[Sequence[Piece]]) -> None:
    """Aligned under quiet heads on a terminal; parted by tabs and uncut elsewhere. A head with a colon in front has
    its column aligned to the right; the last column takes what room is left."""
    if not on_terminal():
        for row in rows:
            _stdout("\t".join(flat(_text(cell)) for cell in row) + "\n")
        return
    widest = width() // 4
    lines: list[list[Piece]] = [[*(_cut(cell, widest) for cell in row[:-1]), row[-1]] for row in rows]
    if not lines:
        return
    lines.insert(0, [Ink(head.lstrip(":").upper(), "quiet") for head in heads])
    widths = [max(map(_cells, column)) for column in zip(*(line[:-1] for line in lines), strict=True)]
    room = max(width() - sum(widths) - len(GAP) * len(widths), 20)
    for line in lines:
        pieces: list[Piece] = []
        for head, cell, size in zip(heads, line, widths, strict=False):
            space = " " * (size - _cells(cell))
            pieces += [space, cell, GAP] if head.startswith(":") else [cell, space, GAP]
        write(*pieces, _cut(line[-1], room))


def flat(text: str, room: int | None = None) -> str:
    """On one line, and on a terminal in so much room."""
    return one_line(text, room) if on_terminal() else _BREAKS.sub(" ", text).strip()


def _text(piece: Piece) -> str:
    return piece.text if isinstance(piece, Ink) else piece


def _cells(piece: Piece) -> int:
    return cells(_text(piece))


def _cut(piece: Piece, room: int) -> Piece:
    line = flat(_text(piece), room)
    return Ink(line, piece.style) if isinstance(piece, Ink) else line


def _on_terminal(piece: Piece) -> str:
    safe = clean(_text(piece))
    if isinstance(piece, str) or piece.style == "plain" or not _colours():
        return safe
    return f"\x1b[{_STYLES[piece.style]}m{safe}\x1b[0m"


def _colours() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _stdout(text: str) -> None:
    if sys.stdout is not None:
        sys.stdout.write(text)


def flush() -> None:
    if sys.stdout is not None:
        sys.stdout.flush()


@contextmanager
def flushed() -> Iterator[None]:
    """A reader that has seen enough and closed the pipe is no failure."""
    try:
        try:
            yield
        finally:
            flush()
    except BrokenPipeError:
        discard_the_rest()


def discard_the_rest() -> None:
    """So that nothing is left to be flushed into a closed pipe or a full disk when Python ends."""
    with suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


# ── stderr ────────────────────────────────────────────────────────────────────────────────────────


def say(text: str) -> None:
    """Talk: what was done, what else there is. Never data, so always clean."""
    if sys.stderr is not None:
        with suppress(OSError):
            print(clean(text), file=sys.stderr, flush=True)


def complain(error: BaseException) -> int:
    """One sentence on stderr, and the exit status."""
    match error:
        case Ambiguous():
            say(f"{error}:")
            for candidate in error.candidates:
                say("  " + one_line(candidate))
            return 1
        case StoreError():
            say(_sentence(str(error)))
            return 3 if isinstance(error, Unreadable) else 1
        case OSError():
            discard_the_rest()
            say(_sentence(f"It could not be done: {error.strerror or error}"))
            return 1
    return _complain_of_usage(error)


def _complain_of_usage(error: BaseException) -> int:
    import click  # who raised one of its errors has it loaded

    match error:
        case click.UsageError():
            where = error.ctx.command_path if error.ctx else "backscroll"
            say(f"{_sentence(error.format_message())} Try `{where} -h`.")
            return 2
        case click.ClickException():
            say(_sentence(error.format_message()))
            return 1
        case click.Abort():
            return 130
    if sys.flags.dev_mode:
        raise error
    say(f"Backscroll met what it did not expect ({type(error).__name__}: {error}); `backscroll doctor` may tell why.")
    return 1


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else text + "."


# ── words ─────────────────────────────────────────────────────────────────────────────────────────

_UNITS = ((365 * 86400, "y"), (7 * 86400, "w"), (86400, "d"), (3600, "h"), (60, "m"))


def age(at: str) -> str:
    """`4m`, `3h`, `2d` on a terminal; the time itself elsewhere."""
    then = _time(at)
    if then is None or not on_terminal():
        return at
    seconds = (datetime.now(UTC) - then).total_seconds()
    return next((f"{seconds // size:.0f}{unit}" for size, unit in _UNITS if seconds >= size), "now")


def moment(at: str) -> str:
    """The day and the minute where the reader is."""
    then = _time(at)
    return then.astimezone().strftime("%Y-%m-%d %H:%M") if then else at


def _time(at: str) -> datetime | None:
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return None
    return then if then.tzinfo else then.replace(tzinfo=UTC)


def count(number: int, noun: str) -> str:
    """`1 session`, `2 sessions`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
