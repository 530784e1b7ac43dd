"""A tool call: one line that says what was done to what, how long it took and how it ended; unfolded, all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from textual.content import Content

from store.model.entry import Json, PairedCall, readable_text
from store.text.sanitize import one_line
from tui.render.code import highlight_code
from tui.render.exit_code import find_exit_code
from tui.render.line_diff import count_changed_lines, render_edit_diff
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, StyledText, build_content
from tui.render.timeline_items import TimelineItem
from tui.render.viewport import Viewport, prefix_lines, to_display_text

DEFAULT_RESULT_LINES = 30
"""Lines of a result that are shown unasked."""

MAX_INLINE_ARGUMENT = 60
"""Characters of an argument that stands on the line of its name."""

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
"""Arguments that say best what a call is about."""

_SHELL_TOOLS = {"bash", "shell", "exec", "run_shell_command", "run_command", "terminal", "local_shell"}
_EXCEPTION_LINE = re.compile(r"\b[A-Za-z_.]{1,60}(?:Error|Exception)\b: \S")
_FAILURE_WORDS = re.compile(r"error|exception|failed|fatal|denied|refused|not found|no such|cannot|unable", re.I)
_FRAME_CHARACTERS = " \t│╷╵╭╰|"
_REASON_LIMIT = 400
"""Lines from the end of a result, and characters of a line, in which the reason of a failure is looked for."""

_SECONDS_IN_A_MINUTE = 60


def render_call_line(block: TimelineItem, look: Viewport, *, is_open: bool) -> Content:
    """`⚙ Bash  pytest -q tests/test_upload.py      2.1 s  ✗ exit 1`."""
    call = block.call
    name = one_line(block.label, MAX_NAME_CELLS) or "a tool"
    ending, style = _render_status(call)
    took = format_duration(call.duration_ms) if call and call.duration_ms is not None else ""
    end = build_content([(f"  {took}" if took else "", FAINT), (f"  {ending}" if ending else "", style)])
    room = max(look.width - end.cell_length, 1)
    head: list[StyledText] = [
        ("▾ " if is_open else "⚙ ", ERROR if block.has_failed else MUTED),
        (name, STRONG),
        ("  ", ""),
    ]
    if block.kind == "result":
        head[1:2] = [("result of ", MUTED), (name, STRONG)]
    told = block.text if call is None or block.kind == "result" else call.arguments
    head.append((one_line(_relative_path(describe_arguments(told), look.cwd), room), MUTED))
    if call is not None and (changed := count_changed_lines(call.name, call.arguments)):
        head += [(f"  +{changed[0]}", "$text-success"), (f" −{changed[1]}", "$text-error")]
    start = look.apply_highlight(build_content(head)).truncate(room, ellipsis=True)
    return (start + Content(" " * (room - start.cell_length)) + end).truncate(look.width)


def render_failure_reason(block: TimelineItem, look: Viewport) -> Iterator[Content]:
    """The one line of a failure that most likely says why."""
    if not block.has_failed or block.call is None:
        return
    lines = [
        line[:_REASON_LIMIT] for line in readable_text(block.call.result).rsplit("\n", _REASON_LIMIT) if line.strip()
    ]
    told = (next(filter(sign.search, reversed(lines)), "") for sign in (_EXCEPTION_LINE, _FAILURE_WORDS))
    line = next(filter(None, told), lines[-1] if lines else "")
    if line:
        yield look.truncate(
            build_content([("  └ ", FAINT), (one_line(line.strip(_FRAME_CHARACTERS), look.width), ERROR)])
        )


def render_call_body(block: TimelineItem, look: Viewport) -> Iterator[Content]:
    call, inside = block.call, look.narrow_by(4)
    if block.kind == "call" and call is not None:
        changed = render_edit_diff(call.name, call.arguments)
        lines = iter(changed) if changed is not None else _render_arguments(call.arguments, call.name)
        yield from prefix_lines(("    ", ""), _limit_lines(lines, inside))
    if block.kind == "result" or (call is not None and call.result is not None):
        bar = ("  │ ", ERROR if block.has_failed else FAINT)
        output = call.result if call is not None and call.result is not None else block.text
        yield from prefix_lines(bar, _limit_lines(_render_output(output, inside), inside))


def format_duration(ms: float) -> str:
    seconds = ms / 1000
    if seconds < _SECONDS_IN_A_MINUTE:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), _SECONDS_IN_A_MINUTE)
    if minutes < 60:
        return f"{minutes}m {seconds:02}s"
    return f"{minutes // 60:,}h {minutes % 60:02}m"


def describe_arguments(arguments: Json) -> str:
    """What the call is about: the argument that nearly always says it, else the first."""
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
        return "asked before", MUTED
    match call.status:
        case "ok":
            return "✓", "$text-success"
        case "error":
            code = find_exit_code(call.result)
            return (f"✗ exit {code}" if code else "✗ failed"), f"bold {ERROR}"
        case "pending":
            return "… no answer", MUTED
    return "? not asked for", MUTED


def _render_arguments(arguments: Json, name: str) -> Iterator[Content]:
    if not isinstance(arguments, Mapping):
        yield from highlight_code(readable_text(arguments), "")
        return
    for key, value in arguments.items():
        label = build_content([(one_line(str(key), MAX_NAME_CELLS), "$text-secondary"), (": ", FAINT)])
        text = value if isinstance(value, str) else readable_text(value)
        if len(text) <= MAX_INLINE_ARGUMENT and "\n" not in text:
            yield label + build_content([(one_line(text), "")])
        else:
            yield label
            language = "bash" if name.lower() in _SHELL_TOOLS and key in ("command", "cmd") else ""
            yield from prefix_lines(("  ", ""), iter(highlight_code(text.strip("\n"), language)))


def _render_output(output: Json, look: Viewport) -> Iterator[Content]:
    text, left = look.limit_text(readable_text(output).strip("\n"))
    for line in to_display_text(text).split("\n") if text else ["(nothing)"]:
        yield build_content([(line, MUTED)])
    if left:
        yield from look.render_more(left, "characters")


def _limit_lines(lines: Iterator[Content], look: Viewport) -> Iterator[Content]:
    """So many, each folded at the width; and how many more there are."""
    painted = 0
    for line in lines:
        if painted >= DEFAULT_RESULT_LINES and not look.is_full:
            yield from look.render_more(1 + sum(1 for _ in lines), "lines")
            return
        folded = look.hard_wrap(line)
        painted += len(folded)
        yield from folded
