"""This module renders a tool call: one line with its subject, duration and status, or in full when it is open."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from textual.content import Content

from store.formats.exit_code import find_exit_code, is_exit_line
from store.formats.file_changes import find_command, is_shell_tool
from store.model.entry import Json, PairedCall, readable_text
from store.text.sanitize import one_line
from tui.render import glyphs
from tui.render.code import highlight_code
from tui.render.line_diff import count_changed_lines, render_edit_diff
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, StyledText, build_content
from tui.render.time_limit import leave_to_other_process
from tui.render.timeline_items import TimelineItem
from tui.render.viewport import RenderedLine, Viewport, prefix_lines, to_display_text

MAX_COUNTED_CHARACTERS = 100_000
"""Limits the arguments that the thread that paints looks into."""

DEFAULT_RESULT_LINES = 30
"""The number of lines of a result that are shown at first."""

MAX_INLINE_ARGUMENT = 60
"""Limits an argument that is shown on the line of its name."""

MAX_NAME_CELLS = 32

_MAIN_ARGUMENTS = (
    "command",
    "cmd",
    "file_path",
    "filePath",
    "path",
    "pattern",
    "query",
    "url",
    "description",
    "prompt",
)
"""Lists the arguments that describe a call best, in order."""

_EXCEPTION_LINE = re.compile(r"\b[A-Za-z_.]{1,60}(?:Error|Exception)\b: \S")
_FAILURE_WORDS = re.compile(r"error|exception|failed|fatal|denied|refused|not found|no such|cannot|unable", re.I)
_FRAME_CHARACTERS = " \t│╷╵╭╰|"
_TRAILER = re.compile(
    r"(?:Error|Signal|Stderr|Exit Code|Background PIDs|Process Group PGID): ?(?:\(none\)|\(empty\)|\d{0,10})|</\w+>"
)
"""Matches the lines that Gemini CLI and its descendants add to the output of a command."""

_REASON_LIMIT = 400
"""Limits the lines from the end of a result, and the characters of a line, that are searched for an error."""

_SECONDS_IN_A_MINUTE = 60


def render_call_line(item: TimelineItem, viewport: Viewport, *, is_open: bool) -> Content:
    """Render `⚙ Bash  pytest -q tests/test_upload.py      2.1 s  ✗ exit 1`."""
    call = item.call
    if call is not None and _is_large(call.arguments):
        leave_to_other_process()
    name = one_line(item.label, MAX_NAME_CELLS) or "unnamed tool"
    status, style = _render_status(call)
    duration = format_call_duration(call.duration_ms if call else None, item.is_parallel)
    end = build_content([(f"  {duration}" if duration else "", FAINT), (f"  {status}" if status else "", style)])
    room = max(viewport.width - end.cell_length, 1)
    head: list[StyledText] = [
        (f"{glyphs.UNFOLDED if is_open else glyphs.CALLS} ", ERROR if item.has_failed else MUTED),
        (name, STRONG),
        ("  ", ""),
    ]
    if item.kind == "result":
        head[1:2] = [("result of ", MUTED), (name, STRONG)]
    has_arguments = call is not None and item.kind != "result"
    subject = describe_call(call.name, call.arguments) if call and has_arguments else describe_arguments(item.text)
    head.append((one_line(_relative_path(subject, viewport.cwd), room), MUTED))
    if call is not None and (changed := count_changed_lines(call.name, call.arguments)):
        head += [(f"  +{changed[0]}", "$text-success"), (f" {glyphs.REMOVED}{changed[1]}", "$text-error")]
    start = viewport.apply_highlight(build_content(head)).truncate(room, ellipsis=True)
    return (start + Content(" " * (room - start.cell_length)) + end).truncate(viewport.width)


def _is_large(arguments: Json) -> bool:
    values = arguments.values() if isinstance(arguments, dict) else [arguments]
    return sum(len(value) for value in values if isinstance(value, str)) > MAX_COUNTED_CHARACTERS


def render_failure_reason(item: TimelineItem, viewport: Viewport) -> Iterator[Content]:
    """Yield the line of a failed result that most likely explains the failure."""
    if not item.has_failed or item.call is None:
        return
    output = readable_text(item.call.result).rsplit("\n", _REASON_LIMIT)
    lines = [line[:_REASON_LIMIT] for line in _strip_trailer(output) if line.strip()]
    candidates = (next(filter(pattern.search, reversed(lines)), "") for pattern in (_EXCEPTION_LINE, _FAILURE_WORDS))
    line = next(filter(None, candidates), lines[-1] if lines else "")
    if line:
        yield viewport.truncate(
            build_content([("  └ ", FAINT), (one_line(line.strip(_FRAME_CHARACTERS), viewport.width), ERROR)])
        )


def _strip_trailer(lines: list[str]) -> list[str]:
    """Return the lines without those at the end that a tool adds to the output, unless there are no others."""
    end = len(lines)
    while end and (not lines[end - 1].strip() or _TRAILER.fullmatch(lines[end - 1]) or is_exit_line(lines[end - 1])):
        end -= 1
    return lines[:end] or lines


def render_call_body(item: TimelineItem, viewport: Viewport) -> Iterator[Content]:
    call, inner = item.call, viewport.narrow_by(4)
    if item.kind == "call" and call is not None:
        changed = render_edit_diff(call.name, call.arguments, call.result, call.recorded_diff)
        lines: Iterator[RenderedLine] = iter(changed) if changed is not None else _render_arguments(call, inner)
        yield from prefix_lines(("    ", ""), _limit_lines(lines, inner))
    yield from render_plain_output(item, viewport)


def render_plain_output(item: TimelineItem, viewport: Viewport) -> Iterator[Content]:
    """Render the result of a call behind a bar."""
    call, inner = item.call, viewport.narrow_by(4)
    if item.kind == "result" or (call is not None and call.result is not None):
        bar = ("  │ ", ERROR if item.has_failed else FAINT)
        output = call.result if call is not None and call.result is not None else item.text
        yield from prefix_lines(bar, _limit_lines(_render_output(output, inner), inner))


def format_call_duration(ms: float | None, is_parallel: bool) -> str:
    """Return the duration of a call, marked if other calls ran at the same time."""
    return "" if ms is None else f"{glyphs.PARALLEL} {format_duration(ms)}" if is_parallel else format_duration(ms)


def format_duration(ms: float) -> str:
    seconds = ms / 1000
    if seconds < _SECONDS_IN_A_MINUTE:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), _SECONDS_IN_A_MINUTE)
    if minutes < 60:
        return f"{minutes}m {seconds:02}s"
    return f"{minutes // 60:,}h {minutes % 60:02}m"


def describe_call(name: str, arguments: Json) -> str:
    """Return the command of a call with its line breaks marked, or else the argument that describes it best."""
    command = find_command(name, arguments)
    if command is None:
        return describe_arguments(arguments)
    return f" {glyphs.LINE_BREAK} ".join(line.strip() for line in command.strip().splitlines())


def describe_arguments(arguments: Json) -> str:
    """Return the argument that describes a call best, else the first one."""
    if isinstance(arguments, Mapping) and arguments:
        name = next((name for name in _MAIN_ARGUMENTS if arguments.get(name)), next(iter(arguments)))
        arguments = arguments[name]
    if isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        return " ".join(arguments)
    return readable_text(arguments)


def _relative_path(path: str, cwd: str) -> str:
    return path.removeprefix(f"{cwd.rstrip('/')}/") if cwd else path


def _render_status(call: PairedCall | None) -> StyledText:
    if call is None:
        return "called earlier", MUTED
    match call.status:
        case "ok":
            return glyphs.SUCCEEDED, "$text-success"
        case "error":
            code = call.exit_code or find_exit_code(call.result)
            return f"{glyphs.FAILED} {f'exit {code}' if code else 'failed'}", f"bold {ERROR}"
        case "pending":
            return "… no result", MUTED
    return "? no call", MUTED


def _render_arguments(call: PairedCall, viewport: Viewport) -> Iterator[Content]:
    if not isinstance(call.arguments, Mapping):
        yield from _render_argument(readable_text(call.arguments), "", viewport)
        return
    for key, value in call.arguments.items():
        label = build_content([(one_line(str(key), MAX_NAME_CELLS), "$text-secondary"), (": ", FAINT)])
        text = value if isinstance(value, str) else readable_text(value)
        if len(text) <= MAX_INLINE_ARGUMENT and "\n" not in text:
            yield label + build_content([(one_line(text), "")])
        else:
            yield label
            language = "bash" if is_shell_tool(call.name) and key in ("command", "cmd") else ""
            yield from prefix_lines(("  ", ""), _render_argument(text.strip("\n"), language, viewport))


def _render_argument(text: str, language: str, viewport: Viewport) -> Iterator[Content]:
    text, left = viewport.limit_text(text)
    yield from highlight_code(text, language)
    yield from viewport.render_more(left, "character")


def _render_output(output: Json, viewport: Viewport) -> Iterator[Content]:
    text, left = viewport.limit_text(readable_text(output).strip("\n"))
    for line in to_display_text(text).split("\n") if text else ["(empty)"]:
        yield build_content([(line, MUTED)])
    if left:
        yield from viewport.render_more(left, "character")


def _limit_lines(lines: Iterator[RenderedLine], viewport: Viewport) -> Iterator[Content]:
    """Yield the wrapped lines up to the limit, then the number of lines that are left out."""
    shown = 0
    for line in lines:
        if shown >= DEFAULT_RESULT_LINES and not viewport.is_full:
            yield from viewport.render_more(1 + sum(1 for _ in lines), "line")
            return
        wrapped = viewport.hard_wrap(line)
        shown += len(wrapped)
        yield from wrapped
