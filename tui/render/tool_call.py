"""A tool call: one line that says what was done to what, how long it took and how it ended; unfolded, all of it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from textual.content import Content

from store.model.entry import Json, PairedCall, readable
from store.text.sanitize import one_line
from tui.render.code import highlighted
from tui.render.exit_code import exit_code
from tui.render.line_diff import diff_of, tally
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, Piece, content
from tui.render.timeline_items import Block
from tui.render.viewport import Look, prefixed, shown

LINES_AT_ONCE = 30
"""Lines of a result that are shown unasked."""

SHORT = 60
"""Characters of an argument that stands on the line of its name."""

NAME_ROOM = 32

_SAYING = ("command", "cmd", "file_path", "filePath", "path", "pattern", "query", "url", "description", "prompt")
"""Arguments that say best what a call is about."""

_SHELLS = {"bash", "shell", "exec", "run_shell_command", "run_command", "terminal", "local_shell"}
_NAMED = re.compile(r"\b[A-Za-z_.]{1,60}(?:Error|Exception)\b: \S")
_REASON = re.compile(r"error|exception|failed|fatal|denied|refused|not found|no such|cannot|unable", re.I)
_FRAMES = " \t│╷╵╭╰|"
_LOOKED_AT = 400
"""Lines from the end of a result, and characters of a line, in which the reason of a failure is looked for."""

_SECONDS_IN_A_MINUTE = 60


def call_line(block: Block, look: Look, *, is_open: bool) -> Content:
    """`⚙ Bash  pytest -q tests/test_upload.py      2.1 s  ✗ exit 1`."""
    call = block.call
    name = one_line(block.label, NAME_ROOM) or "a tool"
    ending, style = _ending(call)
    took = duration(call.duration_ms) if call and call.duration_ms is not None else ""
    end = content([(f"  {took}" if took else "", FAINT), (f"  {ending}" if ending else "", style)])
    room = max(look.width - end.cell_length, 1)
    head: list[Piece] = [("▾ " if is_open else "⚙ ", ERROR if block.failed else MUTED), (name, STRONG), ("  ", "")]
    if block.kind == "result":
        head[1:2] = [("result of ", MUTED), (name, STRONG)]
    told = block.text if call is None or block.kind == "result" else call.arguments
    head.append((one_line(_below(brief(told), look.cwd), room), MUTED))
    if call is not None and (changed := tally(call.name, call.arguments)):
        head += [(f"  +{changed[0]}", "$text-success"), (f" −{changed[1]}", "$text-error")]
    start = look.mark(content(head)).truncate(room, ellipsis=True)
    return (start + Content(" " * (room - start.cell_length)) + end).truncate(look.width)


def why_failed(block: Block, look: Look) -> Iterator[Content]:
    """The one line of a failure that most likely says why."""
    if not block.failed or block.call is None:
        return
    lines = [line[:_LOOKED_AT] for line in readable(block.call.result).rsplit("\n", _LOOKED_AT) if line.strip()]
    told = (next(filter(sign.search, reversed(lines)), "") for sign in (_NAMED, _REASON))
    line = next(filter(None, told), lines[-1] if lines else "")
    if line:
        yield look.cut(content([("  └ ", FAINT), (one_line(line.strip(_FRAMES), look.width), ERROR)]))


def call_body(block: Block, look: Look) -> Iterator[Content]:
    call, inside = block.call, look.narrower(4)
    if block.kind == "call" and call is not None:
        changed = diff_of(call.name, call.arguments)
        lines = iter(changed) if changed is not None else _arguments(call.arguments, call.name)
        yield from prefixed(("    ", ""), _limited(lines, inside))
    if block.kind == "result" or (call is not None and call.result is not None):
        bar = ("  │ ", ERROR if block.failed else FAINT)
        output = call.result if call is not None and call.result is not None else block.text
        yield from prefixed(bar, _limited(_output(output, inside), inside))


def duration(ms: float) -> str:
    seconds = ms / 1000
    if seconds < _SECONDS_IN_A_MINUTE:
        return f"{seconds:.1f} s"
    minutes, seconds = divmod(round(seconds), _SECONDS_IN_A_MINUTE)
    if minutes < 60:
        return f"{minutes}m {seconds:02}s"
    return f"{minutes // 60:,}h {minutes % 60:02}m"


def brief(arguments: Json) -> str:
    """What the call is about: the argument that nearly always says it, else the first."""
    if isinstance(arguments, Mapping) and arguments:
        name = next((name for name in _SAYING if arguments.get(name)), next(iter(arguments)))
        arguments = arguments[name]
    if isinstance(arguments, list) and all(isinstance(word, str) for word in arguments):
        return " ".join(arguments)
    return readable(arguments)


def _below(path: str, cwd: str) -> str:
    return path.removeprefix(f"{cwd.rstrip('/')}/") if cwd else path


def _ending(call: PairedCall | None) -> Piece:
    if call is None:
        return "asked before", MUTED
    match call.status:
        case "ok":
            return "✓", "$text-success"
        case "error":
            code = exit_code(call.result)
            return (f"✗ exit {code}" if code else "✗ failed"), f"bold {ERROR}"
        case "pending":
            return "… no answer", MUTED
    return "? not asked for", MUTED


def _arguments(arguments: Json, name: str) -> Iterator[Content]:
    if not isinstance(arguments, Mapping):
        yield from highlighted(readable(arguments), "")
        return
    for key, value in arguments.items():
        label = content([(one_line(str(key), NAME_ROOM), "$text-secondary"), (": ", FAINT)])
        text = value if isinstance(value, str) else readable(value)
        if len(text) <= SHORT and "\n" not in text:
            yield label + content([(one_line(text), "")])
        else:
            yield label
            language = "bash" if name.lower() in _SHELLS and key in ("command", "cmd") else ""
            yield from prefixed(("  ", ""), iter(highlighted(text.strip("\n"), language)))


def _output(output: Json, look: Look) -> Iterator[Content]:
    text, left = look.limited(readable(output).strip("\n"))
    for line in shown(text).split("\n") if text else ["(nothing)"]:
        yield content([(line, MUTED)])
    if left:
        yield from look.more(left, "characters")


def _limited(lines: Iterator[Content], look: Look) -> Iterator[Content]:
    """So many, each folded at the width; and how many more there are."""
    painted = 0
    for line in lines:
        if painted >= LINES_AT_ONCE and not look.whole:
            yield from look.more(1 + sum(1 for _ in lines), "lines")
            return
        folded = look.fold(line)
        painted += len(folded)
        yield from folded
