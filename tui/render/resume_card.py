"""This module renders the card that is shown before an agent takes over the terminal, and the rebuilt API input."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from textual.content import Content

from store.resume.check_results import ResumeCheck, Severity
from store.text.sanitize import one_line
from tui.render import glyphs
from tui.render.session_lines import abbreviate_home
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, WARNING, build_content
from tui.render.word_wrap import wrap_text

GOOD_STYLE = "$text-success"
TITLE_STYLE = "bold $text-primary"

LABEL_CELLS = 13
MAX_TEXT_CELLS = 400
"""Limits a command, a path or a sentence, because foreign text could fill the screen."""

SLOW_CHECKS = ("branch", "session", "edits")
"""Names the checks that take a moment. Their lines are shown from the start, so that nothing jumps."""

_SEVERITY_SIGNS: dict[Severity, tuple[str, str, str]] = {
    "good": (glyphs.SUCCEEDED, GOOD_STYLE, ""),
    "quiet": ("·", FAINT, MUTED),
    "notable": ("!", WARNING, WARNING),
    "bad": (glyphs.FAILED, ERROR, ERROR),
}


class ResumeCard(NamedTuple):
    """Holds everything that the card shows."""

    program: str
    title: str
    command: str
    "The shell command without its folder. Is empty when the session cannot be resumed by a command."
    program_name: str = ""
    "The program as the command names it."
    program_path: str = ""
    "Is empty when the program is not installed."
    install_hint: str = ""
    folder: str | None = None
    folder_exists: bool = True
    hint: str = ""
    is_fork: bool = False
    skip_options: str = ""
    "The options that let the agent act without asking."
    skips_prompts: bool = False
    checks: Sequence[ResumeCheck] | None = None
    "Is None while the checks still run."
    message: str = ""
    "The result of the last key."


def render_resume_card(card: ResumeCard, width: int) -> Content:
    lines = [
        build_content([(_format_heading(card), TITLE_STYLE)]),
        build_content([(one_line(card.title, width), MUTED)]),
        Content(""),
    ]
    if card.command:
        lines += _render_text(card.command, width, STRONG)
    if card.hint:
        lines += _render_text(card.hint, width, MUTED if card.command else "")
    lines.append(Content(""))
    for label, check, advice in _check_rows(card):
        lines += _render_row(label, check, width)
        lines += [
            build_content([(" " * (LABEL_CELLS + 2), ""), (line, MUTED)])
            for line in wrap_text(advice, width - LABEL_CELLS - 2)
            if advice
        ]
    if card.message:
        lines += [Content(""), *_render_text(card.message, width, WARNING)]
    return Content("\n").join(lines)


def _format_heading(card: ResumeCard) -> str:
    return f"{'Fork and resume' if card.is_fork else 'Resume'} in {one_line(card.program, 40)}"


def _render_text(text: str, width: int, style: str) -> Iterator[Content]:
    return (build_content([(line, style)]) for line in wrap_text(one_line(text, MAX_TEXT_CELLS), width))


def _render_row(label: str, check: ResumeCheck | None, width: int) -> Iterator[Content]:
    """Render a check. Only its first line has the label."""
    sign, sign_style, style = _SEVERITY_SIGNS[check.severity] if check else ("…", FAINT, FAINT)
    for line in wrap_text(one_line(check.text, MAX_TEXT_CELLS) if check else "", width - LABEL_CELLS - 2):
        yield build_content([(label.ljust(LABEL_CELLS), MUTED), (sign.ljust(2), sign_style), (line, style)])
        label = sign = ""


CheckRow = tuple[str, ResumeCheck | None, str]
"""Holds a label, the check (None while it runs), and advice if something is missing."""


def _check_rows(card: ResumeCard) -> Iterator[CheckRow]:
    if card.command:
        yield from _command_rows(card)
    found = {check.name: check for check in card.checks or ()}
    for name in SLOW_CHECKS:
        if name != "branch" or card.folder is not None:
            yield name, found.get(name), ""
    if card.command and card.skip_options:
        yield "permissions", _permission_check(card), ""


def _command_rows(card: ResumeCard) -> Iterator[CheckRow]:
    name = one_line(card.program_name, 40)
    if card.program_path:
        yield "program", ResumeCheck("program", abbreviate_home(card.program_path), "good"), ""
    else:
        advice = (
            f"Install it: {card.install_hint}"
            if card.install_hint
            else "Copy the command and run it where the program is installed."
        )
        yield "program", ResumeCheck("program", f"{name} is not installed or not on the PATH", "bad"), advice
    if card.folder is None:
        yield "folder", ResumeCheck("folder", "the folder of this terminal", "quiet"), ""
    elif card.folder_exists:
        yield "folder", ResumeCheck("folder", abbreviate_home(card.folder), "good"), ""
    else:
        text = f"{abbreviate_home(card.folder)} does not exist"
        yield (
            "folder",
            ResumeCheck("folder", text, "bad"),
            "Press d to choose one, or h for this terminal's folder.",
        )


def _permission_check(card: ResumeCard) -> ResumeCheck:
    if card.skips_prompts:
        return ResumeCheck("permissions", f"never asks ({card.skip_options})", "notable")
    return ResumeCheck("permissions", "asks first", "quiet")


# ── the conversation as API input ─────────────────────────────────────────────────────────────────

INPUT_SHAPES = (
    ("responses", "OpenAI Responses", '{"input": […]}'),
    ("chat", "OpenAI Chat", '{"messages": […]}'),
    ("anthropic", "Anthropic Messages", '{"system": …, "messages": […]}'),
)
_OUTCOME_LABELS = (("kept", "unchanged"), ("mapped", "converted"), ("added", "added"), ("dropped", "left out"))
MAX_NAMED = 4
WIDE_LABEL_CELLS = 16


class RebuildReport(NamedTuple):
    """Lists what happens to the parts of a conversation when it becomes the input of an API."""

    parts: Sequence[tuple[str, str, int, str]]
    "Each is a part, `kept`, `mapped`, `added` or `dropped`, a count and the reason."
    repairs: Sequence[str] = ()


def render_input_card(title: str, shape: str, report: RebuildReport | None, width: int) -> Content:
    """Render the API formats and what happens to the conversation in the chosen one."""
    lines = [
        build_content([("Conversation as API input", TITLE_STYLE)]),
        build_content([(one_line(title, width), MUTED)]),
        Content(""),
    ]
    for name, label, example in INPUT_SHAPES:
        chosen = name == shape
        lines.append(
            build_content(
                [
                    (f"{glyphs.CHOSEN if chosen else glyphs.NOT_CHOSEN} ", GOOD_STYLE if chosen else FAINT),
                    (label.ljust(22), STRONG if chosen else ""),
                ]
            )
            + build_content([(example, FAINT)])
        )
    lines.append(Content(""))
    return Content("\n").join(
        [*lines, *(_render_outcomes(report, width) if report else [build_content([("…", FAINT)])])]
    )


def _render_outcomes(report: RebuildReport, width: int) -> Iterator[Content]:
    for outcome, label in _OUTCOME_LABELS:
        parts = [part for part in report.parts if part[1] == outcome and part[2]]
        if not parts:
            continue
        names = ", ".join(f"{one_line(field, 30)} {n:,}" for field, _, n, _ in parts[:MAX_NAMED])
        more = f" and {len(parts) - MAX_NAMED} more" if len(parts) > MAX_NAMED else ""
        yield from _render_labelled(label, names + more, WARNING if outcome == "dropped" else "", width)
    for sentence in report.repairs[:MAX_NAMED]:
        yield from _render_labelled("repaired", sentence, WARNING, width)


def _render_labelled(label: str, text: str, style: str, width: int) -> Iterator[Content]:
    for line in wrap_text(one_line(text, MAX_TEXT_CELLS), width - WIDE_LABEL_CELLS):
        yield build_content([(label.ljust(WIDE_LABEL_CELLS), MUTED), (line, style)])
        label = ""
