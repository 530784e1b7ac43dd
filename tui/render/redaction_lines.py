"""This module renders a redaction: every place before it is changed, how far it is, and what is left afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from textual.content import Content

from store.model.redaction import (
    RedactedValue,
    Redaction,
    RedactionPlace,
    RedactionPreview,
    RedactionProgress,
    RedactionReport,
)
from store.text.sanitize import one_line
from tui.render import glyphs
from tui.render.leak_lines import TIER_STYLES
from tui.render.session_lines import abbreviate_home
from tui.render.styles import (
    ERROR,
    FAINT,
    MUTED,
    STRONG,
    SUCCESS,
    WARNING,
    StyledText,
    build_content,
    format_age,
    format_count,
)

MAX_PLACES = 500
"""Limits the places of one kind that are listed."""

MAX_NAMED_VALUES = 20
MAX_NAME_CELLS = 300

_KIND_TITLES = {
    "record": "Records in Backscroll",
    "text": "Texts in Backscroll",
    "file": "Files of agents",
    "database": "Databases of agents",
}
_STATE_LABELS = {"running": "not finished", "done": "done", "undoing": "undo not finished", "undone": "undone"}


def render_redaction_preview(preview: RedactionPreview) -> list[Content]:
    """Render the values, every place where they are, and what stays as it is."""
    lines = [_render_value(value) for value in preview.values[:MAX_NAMED_VALUES]]
    if (more := len(preview.values) - MAX_NAMED_VALUES) > 0:
        lines.append(_line((f"and {more:,} more", FAINT)))
    if preview.values and preview.count:
        example = preview.values[0]
        such_as = "a mark such as " if len(preview.values) > 1 else ""
        lines.append(Content(""))
        lines.append(
            _line(
                (f"Found {format_count(preview.count, 'time')}. Each is replaced by {such_as}", ""),
                (f"[redacted: {example.rule} #{example.fingerprint}]", MUTED),
            )
        )
    for kind, title in _KIND_TITLES.items():
        places = [place for place in preview.places if place.kind == kind and not place.problem]
        lines += _render_places(title, places)
    lines += _render_places("Cannot be changed now", preview.problems, WARNING)
    lines += _render_names("Backups, which are not changed", preview.backups)
    lines += _render_shared(preview.shared)
    lines += _render_names("Not looked into", [f"{item.path}: {item.reason}" for item in preview.not_scanned])
    return [*lines, Content(""), _line(("You can undo this until you forget the values for good.", MUTED))]


def render_redaction_progress(progress: RedactionProgress) -> Content:
    count = f"{progress.done:,} of {progress.total:,} · " if progress.total else ""
    return build_content([(count, ""), (one_line(abbreviate_home(progress.step), MAX_NAME_CELLS), MUTED)])


def render_redaction_report(report: RedactionReport) -> list[Content]:
    """Render `0 left of 37`, or what is left and why."""
    is_undo = report.state in ("undoing", "undone")
    left = report.left_count
    if is_undo:
        text = "Everything is as it was before." if not left else f"{left:,} of {report.count:,} were not restored."
    else:
        text = f"{left:,} left of {report.count:,}."
    sign, style = (glyphs.FAILED, ERROR) if left else (glyphs.SUCCEEDED, SUCCESS)
    lines = [_line((f"{sign} {text}", style))]
    lines += _render_places("Left", report.left, WARNING)
    if not is_undo:
        lines += _render_names("Backups that may still hold the values", report.backups)
        lines += _render_shared(report.shared)
        lines += _render_names("Not looked into", [f"{item.path}: {item.reason}" for item in report.not_scanned])
        lines += [
            Content(""),
            _line(("The values are sealed, so that you can undo this. Press D on the list to undo it, or to", MUTED)),
        ]
        lines += [
            _line(("forget them for good. Replace them at their vendors as well: copies may be elsewhere.", MUTED))
        ]
    return lines


def _render_value(value: RedactedValue) -> Content:
    style = TIER_STYLES.get(value.tier, MUTED)
    return _line(
        (value.rule, STRONG), (f" {value.masked}", ""), (f" · {value.tier}", style), (f" · {value.fingerprint}", FAINT)
    )


def _render_places(title: str, places: Sequence[RedactionPlace], style: str = STRONG) -> Iterator[Content]:
    if not places:
        return
    yield Content("")
    yield _line((title, style), (f" · {format_count(sum(place.times for place in places), 'time')}", MUTED))
    for place in places[:MAX_PLACES]:
        times = f"{place.times:>5,}×  " if place.times else f"{'':8}"
        problem = f": {place.problem}" if place.problem else ""
        yield _line((times, FAINT), (_name_place(place), MUTED), (one_line(problem, MAX_NAME_CELLS), WARNING))
    if (more := len(places) - MAX_PLACES) > 0:
        yield _line((f"and {more:,} more", FAINT))


def _name_place(place: RedactionPlace) -> str:
    name = abbreviate_home(place.path) if place.path else place.entry or place.session_id or ""
    return one_line(" ".join(filter(None, [name, f"({place.field})" if place.field else ""])), MAX_NAME_CELLS)


def _render_names(title: str, names: Sequence[str]) -> Iterator[Content]:
    if names:
        yield Content("")
        yield _line((title, STRONG), (f" · {format_count(len(names), 'file')}", MUTED))
        yield from (
            _line((f"  {one_line(abbreviate_home(name), MAX_NAME_CELLS)}", MUTED)) for name in names[:MAX_PLACES]
        )


def _render_shared(session_ids: Sequence[str]) -> Iterator[Content]:
    if session_ids:
        yield Content("")
        yield _line(("Also in sessions shared with your team", WARNING), (f" · {len(session_ids):,}", MUTED))
        yield from (_line((f"  {one_line(name, MAX_NAME_CELLS)}", MUTED)) for name in session_ids[:MAX_PLACES])
        yield _line(("Withdraw them with `backscroll team unshare ID`, and share them again.", MUTED))


def _line(*pieces: StyledText) -> Content:
    return build_content(pieces)


# ── the list of redactions ────────────────────────────────────────────────────────────────────────


def render_redaction_row(redaction: Redaction, now: datetime, width: int) -> Content:
    """Render `3d  done · 2 values, 37 times · aws-access-key, groq-key`."""
    rules = ", ".join(
        f"{rule} ×{count}" if count > 1 else rule
        for rule, count in Counter(value.rule for value in redaction.values).items()
    )
    state = "forgotten" if redaction.is_forgotten and redaction.state == "done" else _STATE_LABELS[redaction.state]
    style = WARNING if redaction.state in ("running", "undoing") else ""
    left = sum(place.times for place in redaction.left)
    counts = ", ".join(
        filter(
            None,
            [
                format_count(len(redaction.values), "value"),
                format_count(redaction.count, "time"),
                f"{left:,} left" if left else "",
            ],
        )
    )
    pieces = [
        (f"{format_age(redaction.at, now):<9}", FAINT),
        (f"{state:<18}", style),
        (counts, ""),
        (f"  {rules}", MUTED),
    ]
    return build_content(pieces).truncate(width, ellipsis=True)


def render_redaction_places(redaction: Redaction, *, is_undo: bool) -> list[Content]:
    """Render what an undo restores, or what is left to do."""
    lines = [_render_value(value) for value in redaction.values[:MAX_NAMED_VALUES]]
    if (more := len(redaction.values) - MAX_NAMED_VALUES) > 0:
        lines.append(_line((f"and {more:,} more", FAINT)))
    lines.append(Content(""))
    if is_undo:
        lines.append(_line((f"The values are restored {format_count(redaction.count, 'time')}, where they were.", "")))
    lines += _render_places("Left", redaction.left, WARNING)
    return lines
