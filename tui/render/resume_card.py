"""The card before the terminal is handed over: what would be run, where, and what one should know first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.content import Content

from store.resume.check import ResumeCheck, Severity
from store.text.sanitize import one_line
from tui.render.session_lines import abbreviate_home
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, WARNING, build_content
from tui.render.word_wrap import wrap_text

GOOD_STYLE = "$text-success"
TITLE_STYLE = "bold $text-primary"

LABEL_CELLS = 10
MAX_TEXT_CELLS = 400
"""Cells of a command, a path or a sentence; a hostile one could fill the screen."""

SLOW_CHECKS = ("branch", "session", "edits")
"""What takes a moment to find out. The lines stand there from the beginning, so that nothing jumps."""

_WEIGHT_SIGNS: dict[Severity, tuple[str, str, str]] = {
    "good": ("✓", GOOD_STYLE, ""),
    "quiet": ("·", FAINT, MUTED),
    "notable": ("!", WARNING, WARNING),
    "bad": ("✗", ERROR, ERROR),
}


class ResumeCard(NamedTuple):
    """What the card tells of."""

    program: str
    title: str
    command: str
    "The command as a shell takes it, without its folder; empty when there is none."
    program_name: str = ""
    "What the program is called in the command."
    program_path: str = ""
    "Where it is; empty when it is not."
    install_hint: str = ""
    folder: str | None = None
    folder_exists: bool = True
    hint: str = ""
    is_fork: bool = False
    skip_options: str = ""
    "The options with which it would not ask."
    skips_prompts: bool = False
    checks: Sequence[ResumeCheck] | None = None
    "None as long as one is still looking."
    message: str = ""
    "What came of the last key."


def render_resume_card(going: ResumeCard, width: int) -> Content:
    lines = [
        build_content([(_format_heading(going), TITLE_STYLE)]),
        build_content([(one_line(going.title, width), MUTED)]),
        Content(""),
    ]
    if going.command:
        lines += _render_text(going.command, width, STRONG)
    if going.hint:
        lines += _render_text(going.hint, width, MUTED if going.command else "")
    lines.append(Content(""))
    for label, check, way in _check_rows(going):
        lines += _render_row(label, check, width)
        lines += [
            build_content([(" " * (LABEL_CELLS + 2), ""), (line, MUTED)])
            for line in wrap_text(way, width - LABEL_CELLS - 2)
            if way
        ]
    if going.message:
        lines += [Content(""), *_render_text(going.message, width, WARNING)]
    return Content("\n").join(lines)


def _format_heading(going: ResumeCard) -> str:
    return f"{'Fork, and continue' if going.is_fork else 'Continue'} in {one_line(going.program, 40)}"


def _render_text(text: str, width: int, style: str) -> Iterator[Content]:
    return (build_content([(line, style)]) for line in wrap_text(one_line(text, MAX_TEXT_CELLS), width))


def _render_row(label: str, check: ResumeCheck | None, width: int) -> Iterator[Content]:
    """The label stands before the first line alone."""
    sign, sign_style, style = _WEIGHT_SIGNS[check.severity] if check else ("…", FAINT, FAINT)
    for line in wrap_text(one_line(check.text, MAX_TEXT_CELLS) if check else "", width - LABEL_CELLS - 2):
        yield build_content([(label.ljust(LABEL_CELLS), MUTED), (sign.ljust(2), sign_style), (line, style)])
        label = sign = ""


CheckRow = tuple[str, ResumeCheck | None, str]
"""Its label, what is told, and the way on where something is missing."""


def _check_rows(going: ResumeCard) -> Iterator[CheckRow]:
    if going.command:
        yield from _command_rows(going)
    found = {check.name: check for check in going.checks or ()}
    for name in SLOW_CHECKS:
        if name != "branch" or going.folder is not None:
            yield name, found.get(name), ""
    if going.command and going.skip_options:
        yield "asks", _approval_check(going), ""


def _command_rows(going: ResumeCard) -> Iterator[CheckRow]:
    name = one_line(going.program_name, 40)
    if going.program_path:
        yield "program", ResumeCheck("program", abbreviate_home(going.program_path), "good"), ""
    else:
        way = f"Install it: {going.install_hint}" if going.install_hint else "Copy the command, and run it where it is."
        yield "program", ResumeCheck("program", f"{name} is not installed, or not on the PATH", "bad"), way
    if going.folder is None:
        yield "folder", ResumeCheck("folder", "this terminal's", "quiet"), ""
    elif going.folder_exists:
        yield "folder", ResumeCheck("folder", abbreviate_home(going.folder), "good"), ""
    else:
        told = f"{abbreviate_home(going.folder)} is not there any more"
        yield "folder", ResumeCheck("folder", told, "bad"), "Choose another, or take the one of this terminal."


def _approval_check(going: ResumeCard) -> ResumeCheck:
    if going.skips_prompts:
        return ResumeCheck("asks", f"nothing before it acts: {going.skip_options}", "notable")
    return ResumeCheck("asks", "before it acts", "quiet")


# ── the conversation as input ─────────────────────────────────────────────────────────────────────

INPUT_SHAPES = (
    ("responses", "OpenAI Responses", '{"input": […]}'),
    ("chat", "OpenAI Chat", '{"messages": […]}'),
    ("anthropic", "Anthropic Messages", '{"system": …, "messages": […]}'),
)
_OUTCOME_LABELS = (("kept", "as it was"), ("mapped", "in other words"), ("dropped", "left out"))
MAX_NAMED = 4
WIDE_LABEL_CELLS = 16


class RebuildReport(NamedTuple):
    """What becomes of a conversation on its way into an API's input."""

    parts: Sequence[tuple[str, str, int, str]]
    "What it is; kept, mapped or dropped; how many; and why."
    repairs: Sequence[str] = ()


def render_input_card(title: str, shape: str, carrying: RebuildReport | None, width: int) -> Content:
    """The shapes, and what comes of the chosen one."""
    lines = [
        build_content([("The conversation as input", TITLE_STYLE)]),
        build_content([(one_line(title, width), MUTED)]),
        Content(""),
    ]
    for name, label, looks in INPUT_SHAPES:
        chosen = name == shape
        lines.append(
            build_content(
                [
                    ("● " if chosen else "○ ", GOOD_STYLE if chosen else FAINT),
                    (label.ljust(22), STRONG if chosen else ""),
                ]
            )
            + build_content([(looks, FAINT)])
        )
    lines.append(Content(""))
    return Content("\n").join(
        [*lines, *(_render_outcomes(carrying, width) if carrying else [build_content([("…", FAINT)])])]
    )


def _render_outcomes(carrying: RebuildReport, width: int) -> Iterator[Content]:
    for how, told in _OUTCOME_LABELS:
        parts = [part for part in carrying.parts if part[1] == how and part[2]]
        if not parts:
            continue
        names = ", ".join(f"{one_line(field, 30)} {n:,}" for field, _, n, _ in parts[:MAX_NAMED])
        more = f" and {len(parts) - MAX_NAMED} more" if len(parts) > MAX_NAMED else ""
        yield from _render_labelled(told, names + more, WARNING if how == "dropped" else "", width)
    for sentence in carrying.repairs[:MAX_NAMED]:
        yield from _render_labelled("mended", sentence, WARNING, width)


def _render_labelled(label: str, told: str, style: str, width: int) -> Iterator[Content]:
    for line in wrap_text(one_line(told, MAX_TEXT_CELLS), width - WIDE_LABEL_CELLS):
        yield build_content([(label.ljust(WIDE_LABEL_CELLS), MUTED), (line, style)])
        label = ""
