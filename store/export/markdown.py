"""This module writes a document as Markdown that GitHub shows right.

A text of the conversation is Markdown itself. It keeps its lists, tables and code, but no HTML: `<` and `&` are
escaped outside of code, code blocks get fences that are longer than any row of backticks in them, and pictures from the
web stay text. The only HTML is ours: `<details>` around calls and thinking.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape

from store.export.document import (
    CallBlock,
    Document,
    FileMention,
    Item,
    Notice,
    Picture,
    SpokenText,
    SubAgentBlock,
    ThoughtText,
    describe_hunk,
    format_seconds,
    format_time,
)
from store.export.fences import make_fence, split_fences
from store.formats.file_changes import FileChange, find_command
from store.model.entry import Json, readable_text
from store.text.sanitize import one_line, sanitize
from store.text.validate import serialize

_INLINE_CODE = re.compile(r"(?<![`\\])(`{1,9})(?!`)([^`\n]{1,400})(?<!`)\1(?!`)")
_HEADING = re.compile(r"^(#{1,6})(?= )", re.M)
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_LANGUAGE = re.compile(r"[\w+#.-]{1,30}")
PICTURE_LEFT_OUT = "Markdown has no pictures without a file of their own"
_MAX_HEADING_LEVEL = 6
_ADDED_LEVELS = 3
"""Is how far the headings of a text are moved below those of the document."""


def write_markdown(document: Document) -> Iterator[str]:
    """Yield the file up to the place of the receipt, which `end_markdown` writes."""
    yield f"# {escape_line(document.title)}\n\n{_format_details(document)}"
    yield from _write_turns(document, "##")


def end_markdown(receipt: str) -> str:
    """Return the end of the file. The receipt is one line without backticks."""
    return _fold("Receipt (checked by backscroll verify)", f"```json\n{receipt}\n```\n")


def _format_details(document: Document) -> str:
    rows = [*document.details, *([("Tags", ", ".join(document.tags))] if document.tags else [])]
    details = "".join(f"- {label}: {escape_line(value)}\n" for label, value in rows) + "\n"
    summary = f"**Summary**\n\n{_prose(document.summary)}\n\n" if document.summary else ""
    notes = "".join(f"{_quote('**Note:** ', note)}\n\n" for note in document.notes)
    return details + summary + notes


def _write_turns(document: Document, level: str) -> Iterator[str]:
    for turn in document.turns:
        name = f"Turn {turn.n}" if turn.n else "Before the first prompt"
        at = f" · {escape_line(format_time(turn.started_at))}" if turn.started_at else ""
        yield f"{level} {name}{at}\n\n"
        for item in turn.items:
            document.left_out["picture", PICTURE_LEFT_OUT] += _count_pictures(item)
            yield from _write_item(item, level)


def _write_item(item: Item, level: str) -> Iterator[str]:
    match item:
        case SpokenText(_, speaker, text, True):
            yield f"{_quote(f'**{escape_line(speaker)}:** ', text)}\n\n"
        case SpokenText(_, speaker, text):
            yield f"**{escape_line(speaker)}:**\n\n{_prose(text)}\n\n"
        case ThoughtText(_, text):
            yield _fold("Thinking", f"{_code(text)}\n")
        case CallBlock():
            yield _fold(_describe_call(item), "\n".join(_format_call(item)) + "\n")
        case Picture(_, media_type, _, name):
            yield f"*Picture: {escape_line(name or media_type)}*\n\n"
        case FileMention(_, name, media_type):
            yield f"*Attachment: {escape_line(name)} ({escape_line(media_type)})*\n\n"
        case Notice(_, label, text) if "\n" in text or len(text) > 200:
            yield _fold(label, f"{_code(text)}\n")
        case Notice(_, label, text):
            yield f"*{escape_line(label)}{': ' if text else ''}{escape_line(text)}*\n\n"
        case SubAgentBlock(document):
            yield f"<details>\n<summary>Sub-agent: {_html_line(document.title)}</summary>\n\n"
            yield _format_details(document)
            yield from _write_turns(document, level if len(level) == _MAX_HEADING_LEVEL else f"{level}#")
            yield "</details>\n\n"


def _count_pictures(item: Item) -> int:
    pieces = item.output if isinstance(item, CallBlock) else (item,)
    return sum(isinstance(piece, Picture) for piece in pieces)


def _fold(summary: str, body: str) -> str:
    return f"<details>\n<summary>{_html_line(summary)}</summary>\n\n{body}\n</details>\n\n"


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


def _describe_call(block: CallBlock) -> str:
    status = ", ".join(filter(None, [block.status, format_seconds(block.call.duration_ms)]))
    return f"{block.name or 'unnamed tool'}: {one_line(block.subject, 120)} ({status})"


def _format_call(block: CallBlock) -> Iterator[str]:
    if block.changes:
        yield from map(_format_change, block.changes)
    elif block.arguments is not None:
        yield _format_arguments(block.name, block.arguments)
    for piece in block.output:
        if isinstance(piece, Picture):
            yield f"*Picture: {escape_line(piece.name or piece.media_type)}*\n"
        elif piece.strip():
            yield f"{_code(piece)}\n"


def _format_arguments(name: str, arguments: Json) -> str:
    command = find_command(name, arguments)
    if command is not None:
        return f"{_code(command, 'sh')}\n"
    if isinstance(arguments, dict):
        return f"{_code(serialize(arguments).decode(), 'json')}\n"
    return f"{_code(readable_text(arguments))}\n"


def _format_change(change: FileChange) -> str:
    path = f"{change.path} → {change.moved_to}" if change.moved_to else change.path
    lines = [
        line
        for hunk in change.hunks
        for line in (describe_hunk(hunk), *(f"{line.sign}{line.text}" for line in hunk.lines))
    ]
    name = f"{escape_line(path) or '(no name)'} (+{change.added} −{change.removed})\n"
    return f"{name}\n{_code(chr(10).join(lines), 'diff')}\n" if lines else name


# ── text ──────────────────────────────────────────────────────────────────────────────────────────


def _code(text: str, language: str = "") -> str:
    """Return a code block that no text can end early."""
    shown = sanitize(text).strip("\n")
    fence = make_fence(shown)
    return f"{fence}{language if _LANGUAGE.fullmatch(language) else ''}\n{shown}\n{fence}"


def _prose(text: str) -> str:
    """Return Markdown without HTML. A code block starts at the margin, where nothing around it changes its meaning."""
    blocks = [
        _code(block.text, block.language) if block.is_code else _escape_prose(sanitize(block.text)).strip("\n")
        for block in split_fences(text)
    ]
    return "\n\n".join(filter(None, blocks))


def _escape_prose(text: str) -> str:
    pieces, end = [], 0
    for code in _INLINE_CODE.finditer(text):
        pieces += [_escape_html(text[end : code.start()]), _format_inline_code(code)]
        end = code.end()
    text = "".join([*pieces, _escape_html(text[end:])])
    return _HEADING.sub(lambda marks: "#" * min(len(marks[1]) + _ADDED_LEVELS, _MAX_HEADING_LEVEL), text)


def _format_inline_code(code: re.Match[str]) -> str:
    """Return inline code. Code with HTML in it becomes an element with every sign escaped: it is safe even where the
    backticks around it mean something else."""
    if "<" not in code[2] and "&" not in code[2]:
        return code[0]
    return f"<code>{_PUNCTUATION.sub(lambda sign: f'&#{ord(sign[0])};', code[2])}</code>"


def _escape_html(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("![", "!\\[")


def _quote(label: str, text: str) -> str:
    """Return a text as a quotation whose lines stay apart."""
    lines: list[str] = []
    for block in split_fences(text):
        if block.is_code:
            lines += ["", *_code(block.text, block.language).split("\n"), ""]
        else:
            shown = _escape_prose(sanitize(block.text)).strip("\n")
            lines += [f"{line}  " if line.strip() else "" for line in shown.split("\n")]
    return "\n".join(f"> {line}" if line else ">" for line in [label.rstrip(), "", *lines]).rstrip()


def escape_line(text: str) -> str:
    """Return a text on one line in which no character has a meaning in Markdown or HTML."""
    return _PUNCTUATION.sub(_escape_sign, one_line(text, 400))


def _escape_sign(sign: re.Match[str]) -> str:
    if sign[0] in "<&":
        return escape(sign[0])
    return f"\\{sign[0]}" if sign[0] in "\\`*_[]!#|~>" else sign[0]


def _html_line(text: str) -> str:
    """Return a text for a line of HTML, which is not read as Markdown."""
    return escape(one_line(text, 240))
