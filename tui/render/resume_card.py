"""The card before the terminal is handed over: what would be run, where, and what one should know first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.content import Content

from store.resume.check import Check, Weight
from store.text.sanitize import one_line
from tui.render.session_lines import with_tilde
from tui.render.styles import ERROR, FAINT, MUTED, STAR, STRONG, content
from tui.render.word_wrap import wrapped

GOOD = "$text-success"
TITLE = "bold $text-primary"

LABEL = 10
LONGEST = 400
"""Cells of a command, a path or a sentence; a hostile one could fill the screen."""

LOOKED_FOR = ("branch", "session", "edits")
"""What takes a moment to find out. The lines stand there from the beginning, so that nothing jumps."""

_SIGNS: dict[Weight, tuple[str, str, str]] = {
    "good": ("✓", GOOD, ""),
    "quiet": ("·", FAINT, MUTED),
    "notable": ("!", STAR, STAR),
    "bad": ("✗", ERROR, ERROR),
}


class Going(NamedTuple):
    """What the card tells of."""

    program: str
    title: str
    words: str
    "The command as a shell takes it, without its folder; empty when there is none."
    name: str = ""
    "What the program is called in the command."
    installed: str = ""
    "Where it is; empty when it is not."
    install: str = ""
    folder: str | None = None
    folder_is_there: bool = True
    hint: str = ""
    is_fork: bool = False
    skipping: str = ""
    "The options with which it would not ask."
    skips: bool = False
    checks: Sequence[Check] | None = None
    "None as long as one is still looking."
    said: str = ""
    "What came of the last key."


def card(going: Going, width: int) -> Content:
    lines = [
        content([(_heading(going), TITLE)]),
        content([(one_line(going.title, width), MUTED)]),
        Content(""),
    ]
    if going.words:
        lines += _text(going.words, width, STRONG)
    if going.hint:
        lines += _text(going.hint, width, MUTED if going.words else "")
    lines.append(Content(""))
    for label, check, way in _rows(going):
        lines += _row(label, check, width)
        lines += [content([(" " * (LABEL + 2), ""), (line, MUTED)]) for line in wrapped(way, width - LABEL - 2) if way]
    if going.said:
        lines += [Content(""), *_text(going.said, width, STAR)]
    return Content("\n").join(lines)


def _heading(going: Going) -> str:
    return f"{'Fork, and continue' if going.is_fork else 'Continue'} in {one_line(going.program, 40)}"


def _text(text: str, width: int, style: str) -> Iterator[Content]:
    return (content([(line, style)]) for line in wrapped(one_line(text, LONGEST), width))


def _row(label: str, check: Check | None, width: int) -> Iterator[Content]:
    """The label stands before the first line alone."""
    sign, sign_style, style = _SIGNS[check.weight] if check else ("…", FAINT, FAINT)
    for line in wrapped(one_line(check.told, LONGEST) if check else "", width - LABEL - 2):
        yield content([(label.ljust(LABEL), MUTED), (sign.ljust(2), sign_style), (line, style)])
        label = sign = ""


Row = tuple[str, Check | None, str]
"""Its label, what is told, and the way on where something is missing."""


def _rows(going: Going) -> Iterator[Row]:
    if going.words:
        yield from _command_rows(going)
    found = {check.name: check for check in going.checks or ()}
    for name in LOOKED_FOR:
        if name != "branch" or going.folder is not None:
            yield name, found.get(name), ""
    if going.words and going.skipping:
        yield "asks", _asking(going), ""


def _command_rows(going: Going) -> Iterator[Row]:
    name = one_line(going.name, 40)
    if going.installed:
        yield "program", Check("program", with_tilde(going.installed), "good"), ""
    else:
        way = f"Install it: {going.install}" if going.install else "Copy the command, and run it where it is."
        yield "program", Check("program", f"{name} is not installed, or not on the PATH", "bad"), way
    if going.folder is None:
        yield "folder", Check("folder", "this terminal's", "quiet"), ""
    elif going.folder_is_there:
        yield "folder", Check("folder", with_tilde(going.folder), "good"), ""
    else:
        told = f"{with_tilde(going.folder)} is not there any more"
        yield "folder", Check("folder", told, "bad"), "Choose another, or take the one of this terminal."


def _asking(going: Going) -> Check:
    if going.skips:
        return Check("asks", f"nothing before it acts: {going.skipping}", "notable")
    return Check("asks", "before it acts", "quiet")


# ── the conversation as input ─────────────────────────────────────────────────────────────────────

SHAPES = (
    ("responses", "OpenAI Responses", '{"input": […]}'),
    ("chat", "OpenAI Chat", '{"messages": […]}'),
    ("anthropic", "Anthropic Messages", '{"system": …, "messages": […]}'),
)
_HOW = (("kept", "as it was"), ("mapped", "in other words"), ("dropped", "left out"))
FEW = 4
WIDER = 16


class Carrying(NamedTuple):
    """What becomes of a conversation on its way into an API's input."""

    parts: Sequence[tuple[str, str, int, str]]
    "What it is; kept, mapped or dropped; how many; and why."
    mended: Sequence[str] = ()


def input_card(title: str, shape: str, carrying: Carrying | None, width: int) -> Content:
    """The shapes, and what comes of the chosen one."""
    lines = [
        content([("The conversation as input", TITLE)]),
        content([(one_line(title, width), MUTED)]),
        Content(""),
    ]
    for name, label, looks in SHAPES:
        chosen = name == shape
        lines.append(
            content(
                [("● " if chosen else "○ ", GOOD if chosen else FAINT), (label.ljust(22), STRONG if chosen else "")]
            )
            + content([(looks, FAINT)])
        )
    lines.append(Content(""))
    return Content("\n").join([*lines, *(_carried(carrying, width) if carrying else [content([("…", FAINT)])])])


def _carried(carrying: Carrying, width: int) -> Iterator[Content]:
    for how, told in _HOW:
        parts = [part for part in carrying.parts if part[1] == how and part[2]]
        if not parts:
            continue
        names = ", ".join(f"{one_line(field, 30)} {n:,}" for field, _, n, _ in parts[:FEW])
        more = f" and {len(parts) - FEW} more" if len(parts) > FEW else ""
        yield from _labelled(told, names + more, STAR if how == "dropped" else "", width)
    for sentence in carrying.mended[:FEW]:
        yield from _labelled("mended", sentence, STAR, width)


def _labelled(label: str, told: str, style: str, width: int) -> Iterator[Content]:
    for line in wrapped(one_line(told, LONGEST), width - WIDER):
        yield content([(label.ljust(WIDER), MUTED), (line, style)])
        label = ""
