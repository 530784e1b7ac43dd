"""This module renders leaks and the places where they were found. A value is in none of these lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from textual.content import Content

from store.model.leak import Leak, LeakPlace, NotScanned
from store.text.sanitize import cell_width, one_line
from tui.render.session_lines import abbreviate_home
from tui.render.styles import (
    ERROR,
    FAINT,
    MUTED,
    STRONG,
    WARNING,
    StyledText,
    build_content,
    format_age,
    format_count,
    format_size,
)

TIER_STYLES = {"certain": ERROR, "likely": WARNING, "possible": MUTED}

WIDE_ROW_CELLS = 84
"""The width from which a row also says when a leak was first seen."""

MAX_NAMED_FILES = 200

_TIER_CELLS, _COUNT_CELLS, _AGE_CELLS, _MASK_CELLS = 9, (8, 9, 7), 9, 24
_COUNT_TITLES = ("places", "sessions", "files")
_FIELD_CELLS, _TURN_CELLS = 15, 10


class PlaceRow(NamedTuple):
    """Describes one place of a leak."""

    place: LeakPlace
    session_title: str = ""
    turn: int | None = None

    @property
    def location(self) -> str:
        """Return the file with the line, or the title of the session."""
        if self.place.path is None:
            return self.session_title
        line = f":{self.place.line}" if self.place.line else ""
        return f"{abbreviate_home(self.place.path)}{line}"


class LeakRow(NamedTuple):
    """Describes a leak with its places, those in sessions first."""

    leak: Leak
    places: Sequence[PlaceRow]

    @property
    def state(self) -> str:
        """Return the tier of an open leak, otherwise what was done about it."""
        if self.leak.is_open:
            return self.leak.tier if self.leak.places else "redacted"
        return "ignored" if self.leak.ignored else "rotated"

    def matches(self, words: Sequence[str]) -> bool:
        leak = self.leak
        state = "open" if leak.is_open else self.state
        where = " ".join(row.location for row in self.places)
        text = f"{leak.fingerprint} {leak.rule} {leak.tier} {state} {leak.masked} {leak.ignored or ''} {where}"
        return all(word in text.casefold() for word in words)


class ScanState(NamedTuple):
    """Says what was not scanned, and why."""

    pending_sessions: int
    pending_files: int
    not_scanned: Sequence[NotScanned]
    limits: str

    @property
    def pending(self) -> str:
        """Return how much is not scanned yet, or nothing."""
        counts = (format_count(self.pending_sessions, "session"), format_count(self.pending_files, "file"))
        return " and ".join(filter(None, counts))


# ── the list ──────────────────────────────────────────────────────────────────────────────────────


def render_leaks_heading(shown: Sequence[LeakRow], known: Sequence[LeakRow]) -> Content:
    """Render `Leaks · 12 open, 5 of them certain · 3 of 15`."""
    still_open = [row.leak for row in known if row.leak.is_open]
    certain = sum(leak.tier == "certain" for leak in still_open)
    pieces = [f"{len(still_open):,} open" + (f", {certain:,} certain" if certain else "")]
    if len(shown) != len(known):
        pieces.append(f"{len(shown):,} of {len(known):,} shown")
    elif len(known) > len(still_open):
        pieces.append(f"{len(known) - len(still_open):,} closed")
    return build_content([("Leaks", STRONG), *((f" · {piece}", MUTED) for piece in pieces)])


def render_leak_columns(width: int) -> Content:
    kind_cells, mask_cells, has_first = _divide(width)
    counts = "".join(title.rjust(cells) for title, cells in zip(_COUNT_TITLES, _COUNT_CELLS, strict=True))
    first = "first".rjust(_AGE_CELLS) if has_first else ""
    text = f"{'tier':<{_TIER_CELLS}}{'kind':<{kind_cells}}{'value':<{mask_cells}}{counts}{first}{'last':>{_AGE_CELLS}}"
    return build_content([(text, FAINT)])


def render_leak_row(row: LeakRow, now: datetime, width: int) -> Content:
    leak = row.leak
    kind_cells, mask_cells, has_first = _divide(width)
    counts = (len(leak.places), len(leak.session_ids), len(leak.paths))
    ages = [leak.first_at, leak.last_at] if has_first else [leak.last_at]
    rest = MUTED if leak.is_open else FAINT
    pieces: list[StyledText] = [
        (f"{row.state:<{_TIER_CELLS}}", TIER_STYLES[leak.tier] if leak.is_open else FAINT),
        (_pad(leak.rule, kind_cells), STRONG if leak.is_open else FAINT),
        (_pad(leak.masked, mask_cells), rest),
        *((f"{count:,}".rjust(cells), rest) for count, cells in zip(counts, _COUNT_CELLS, strict=True)),
        *((format_age(at, now).rjust(_AGE_CELLS), FAINT) for at in ages),
    ]
    return build_content(pieces).truncate(width)


def _divide(width: int) -> tuple[int, int, bool]:
    """Return the cells of the kind and of the mask, and whether there is room for both times."""
    has_first = width >= WIDE_ROW_CELLS
    room = width - _TIER_CELLS - sum(_COUNT_CELLS) - _AGE_CELLS * (1 + has_first)
    mask_cells = min(_MASK_CELLS, max(room // 2, 8))
    return max(room - mask_cells, 8), mask_cells, has_first


def _pad(text: str, cells: int) -> str:
    """Return a text in its column, with a gap behind it."""
    shown = one_line(text, cells - 1)
    return shown + " " * (cells - cell_width(shown))


# ── one leak ──────────────────────────────────────────────────────────────────────────────────────


def render_leak_detail(row: LeakRow, now: datetime) -> Content:
    """Render what the list has no room for: the fingerprint, both times, and what a person said."""
    leak = row.leak
    first, last = format_age(leak.first_at, now), format_age(leak.last_at, now)
    seen = f"seen {last}" if first == last else f"first seen {first}, last {last}"
    pieces: list[StyledText] = [
        (leak.rule, STRONG),
        (f" {leak.masked}", ""),
        (f" · {leak.tier}", TIER_STYLES[leak.tier]),
        (f" · {seen} · {leak.fingerprint}", MUTED),
    ]
    if leak.ignored:
        pieces.append((f"\nIgnored: {one_line(leak.ignored, 300)}", MUTED))
    elif leak.rotated:
        pieces.append((f"\nRotated {format_age(leak.rotated, now)}.", MUTED))
    else:
        advice = (
            "Replace it at its vendor, then press r."
            if leak.places
            else ("It was removed from every place. Replace it at its vendor as well, then press r.")
        )
        pieces.append((f"\n{advice}", WARNING if leak.tier == "certain" else MUTED))
    return build_content(pieces)


def render_place_row(row: PlaceRow, width: int) -> Content:
    turn = f"turn {row.turn:,}" if row.turn else ""
    field = one_line(row.place.field or ("file" if row.place.path else ""), _FIELD_CELLS - 1)
    where = one_line(row.location or row.place.session_id or "", max(width - _FIELD_CELLS - _TURN_CELLS, 8))
    return build_content(
        [(f"{field:<{_FIELD_CELLS}}", MUTED), (f"{turn:<{_TURN_CELLS}}", ""), (where, MUTED)]
    ).truncate(width)


# ── what was scanned ──────────────────────────────────────────────────────────────────────────────


def render_scan_state(state: ScanState) -> Content:
    """Render what a person must know about the list: rules that were not used, and what was not scanned."""
    pieces: list[StyledText] = [(state.limits, WARNING)] if state.limits else []
    if pending := state.pending:
        pieces.append((f"Not scanned yet: {pending}. Press s to scan.", WARNING))
    if state.not_scanned:
        count = len({item.path for item in state.not_scanned})
        pieces.append((f"Not looked into: {format_count(count, 'file')}. Press n to list them.", MUTED))
    lines = [piece for pair in zip(pieces, [("\n", "")] * len(pieces), strict=True) for piece in pair]
    return build_content(lines[:-1])


def render_scan_progress(sessions: int, total: int, files: int, size: int) -> Content:
    """Render how far a scan is. The number of files is not known before they are listed."""
    scanned = f"{sessions:,} of {total:,} sessions" if total else ""
    counted = ", ".join(filter(None, [scanned, format_count(files, "file"), format_size(size) if size else ""]))
    return build_content([("Scanning… ", STRONG), (counted, MUTED)])


def render_not_scanned(state: ScanState, width: int) -> list[Content]:
    """Render the reasons why files were not looked into, each with its files."""
    lines: list[Content] = []
    if pending := state.pending:
        lines += [build_content([(f"{pending} not scanned yet. Press s on the list to scan.", WARNING)]), Content("")]
    for reason, count in Counter(item.reason for item in state.not_scanned).most_common():
        names = [item.path for item in state.not_scanned if item.reason == reason]
        lines.append(build_content([(f"{one_line(reason, width)} ({count:,})", STRONG)]))
        lines += [
            build_content([(f"  {one_line(abbreviate_home(name), width - 2)}", MUTED)])
            for name in names[:MAX_NAMED_FILES]
        ]
        if count > MAX_NAMED_FILES:
            lines.append(build_content([(f"  and {count - MAX_NAMED_FILES:,} more", FAINT)]))
        lines.append(Content(""))
    return lines[:-1] or [build_content([("Everything was scanned.", MUTED)])]
