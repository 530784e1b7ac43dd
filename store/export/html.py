"""This module writes a document as one HTML file that needs nothing else and runs nothing.

Every text is escaped, there is no script, and a Content-Security-Policy forbids all requests. Only the style sheet
below is allowed, by its hash. Pictures are `data:` addresses, which hold their own bytes: no request is made for them.
Texts have no links, so that nothing in a conversation can lead a reader somewhere else.

The browser lays out a turn when it comes into view (`content-visibility`), so that ten thousand turns open quickly.
"""

from __future__ import annotations

import hashlib
import re
from base64 import b64encode
from collections.abc import Iterator
from html import escape
from itertools import groupby

from store.export.document import (
    CallBlock,
    Document,
    DocumentTurn,
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
from store.export.fences import split_fences
from store.formats.file_changes import FileChange, find_command
from store.model.entry import Json, readable_text
from store.text.sanitize import one_line, sanitize

STYLE = """
:root { color-scheme: light dark; --text: #1d2329; --muted: #5b6670; --page: #fff; --card: #f4f6f8; --line: #d5dbe1;
  --accent: #0a5fb4; --bad: #b3261e; --add: #dff5e3; --add-text: #0d5a25; --del: #fde4e1; --del-text: #8c1d18; }
@media (prefers-color-scheme: dark) { :root { --text: #dfe4e9; --muted: #98a4af; --page: #14181c; --card: #1d2329;
  --line: #38424c; --accent: #7db8f5; --bad: #ff9a92; --add: #11351d; --add-text: #a6e9b6; --del: #401a18;
  --del-text: #ffb9b3; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 60rem; padding: 1.5rem 1rem 4rem; background: var(--page); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .75rem; }
h2 { font-size: 1rem; margin: 2.5rem 0 .75rem; padding-top: .75rem; border-top: 1px solid var(--line); }
h2 a { color: inherit; text-decoration: none; } h2 a:hover { text-decoration: underline; }
time, .quiet { color: var(--muted); font-weight: normal; font-size: .85rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0 0 1rem; font-size: .9rem; }
dt { color: var(--muted); } dd { margin: 0; }
.turn { content-visibility: auto; contain-intrinsic-size: auto 30rem; }
.said, .note { margin: .75rem 0; white-space: pre-wrap; }
.speaker { display: block; font-weight: 600; font-size: .85rem; color: var(--muted); }
.prompt { padding: .75rem 1rem; border-left: 4px solid var(--accent); background: var(--card);
  border-radius: 0 .4rem .4rem 0; }
.prompt .speaker { color: var(--accent); }
.bad { color: var(--bad); }
.said h3 { display: inline; font-size: 1.05rem; }
.said ul, .said ol { margin: .25rem 0; padding-left: 1.75rem; }
code, pre { font: .85rem/1.45 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; }
code { background: var(--card); padding: .1em .3em; border-radius: .25rem; }
pre { margin: .5rem 0; padding: .6rem .8rem; background: var(--card); border: 1px solid var(--line);
  border-radius: .4rem; white-space: pre-wrap; }
details { margin: .4rem 0; border: 1px solid var(--line); border-radius: .4rem; padding: 0 .75rem; }
details[open] { padding-bottom: .5rem; }
summary { cursor: pointer; padding: .35rem 0; font-size: .9rem; }
summary b { font-weight: 600; }
.agent { border-left: 4px solid var(--line); } .agent .turn { margin-left: .5rem; }
.diff { padding: .4rem 0; } .diff span { display: block; padding: 0 .8rem; }
.diff .add { background: var(--add); color: var(--add-text); }
.diff .del { background: var(--del); color: var(--del-text); }
.diff .hunk { color: var(--muted); }
img { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: .4rem; }
footer { margin-top: 3rem; color: var(--muted); font-size: .85rem; }
@media print { body { max-width: none; padding: 0; font-size: 10.5pt; } .turn { content-visibility: visible; }
  h2, summary { break-after: avoid; } pre, details, img { break-inside: auto; } img { max-height: 22cm; } }
"""

_STYLE_HASH = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
CONTENT_SECURITY_POLICY = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
)

_INLINE_CODE = re.compile(r"(?<!`)`([^`\n]{1,400})`(?!`)")
_STRONG = re.compile(r"\*\*([^*\n]{1,400})\*\*")
_HEADING = re.compile(r"^#{1,6} (.{1,400})$", re.M)
_TABLE = re.compile(r"(?:^\|.*\|[ \t]*$\n?){2,}", re.M)
_LIST_ITEM = re.compile(r"^([ \t]{0,12})([-*+]|\d{1,9}[.)])[ \t]+(?=\S)", re.M)
_LIST = re.compile(rf"(?:{_LIST_ITEM.pattern}.*(?:\n[ \t]+\S.*)*(?:\n(?:\n(?=[ \t]*[-*+\d]))?|\Z))+", re.M)
"""Matches lists: items with the indented lines that follow them, and single empty lines between items."""

_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def write_html(document: Document) -> Iterator[str]:
    """Yield the file up to the place of the receipt, which `end_html` writes."""
    yield (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_SECURITY_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(one_line(document.title, 200))}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<header>\n"
        f"<h1>{_text(one_line(document.title, 300))}</h1>\n{_format_details(document)}</header>\n<main>\n"
    )
    yield from _write_turns(document)
    yield "</main>\n"


def end_html(receipt: str) -> str:
    """Return the end of the file. The receipt has no character that HTML gives a meaning to."""
    return (
        "<footer>\n<p>Exported by Backscroll. <code>backscroll verify FILE</code> checks this file.</p>\n"
        f"<details><summary>Receipt</summary><pre>{receipt}</pre></details>\n</footer>\n</body>\n</html>\n"
    )


def _text(text: str) -> str:
    return escape(sanitize(text))


def _format_details(document: Document) -> str:
    rows = [*document.details, *([("Tags", ", ".join(document.tags))] if document.tags else [])]
    details = "".join(f"<dt>{_text(label)}</dt><dd>{_text(value)}</dd>\n" for label, value in rows)
    summary = (
        f'<details open><summary>Summary</summary><div class="said">{_format_prose(document.summary)}</div></details>\n'
    )
    notes = "".join(
        f'<div class="note"><span class="speaker">Note</span>{_text(note)}</div>\n' for note in document.notes
    )
    return f"<dl>\n{details}</dl>\n{summary if document.summary else ''}{notes}"


def _write_turns(document: Document) -> Iterator[str]:
    for turn in document.turns:
        yield from _write_turn(turn, f"agent-{document.number}-" if document.number else "")


def _write_turn(turn: DocumentTurn, prefix: str) -> Iterator[str]:
    anchor = f"{prefix}turn-{turn.n}"
    name = f"Turn {turn.n}" if turn.n else "Before the first prompt"
    at = f" <time>{_text(format_time(turn.started_at))}</time>" if turn.started_at else ""
    yield f'<section class="turn" id="{anchor}">\n<h2><a href="#{anchor}">{name}</a>{at}</h2>\n'
    for item in turn.items:
        yield from _write_item(item)
    yield "</section>\n"


def _write_item(item: Item) -> Iterator[str]:
    match item:
        case SpokenText(_, speaker, text, is_prompt):
            style = "said prompt" if is_prompt else "said"
            yield f'<div class="{style}"><span class="speaker">{_text(speaker)}</span>{_format_prose(text)}</div>\n'
        case ThoughtText(_, text):
            yield f'<details><summary>Thinking</summary><div class="said">{_format_prose(text)}</div></details>\n'
        case CallBlock():
            yield from _write_call(item)
        case Picture():
            yield _format_picture(item)
        case FileMention(_, name, media_type):
            yield f'<p class="quiet">Attachment: {_text(one_line(name, 300))} ({_text(media_type)})</p>\n'
        case Notice():
            yield _format_notice(item)
        case SubAgentBlock(document):
            yield (
                f'<details class="agent"><summary><b>Sub-agent</b> {_text(one_line(document.title, 200))}</summary>\n'
                f"{_format_details(document)}"
            )
            yield from _write_turns(document)
            yield "</details>\n"


def _format_notice(notice: Notice) -> str:
    style = "bad" if notice.is_failure else "quiet"
    if "\n" in notice.text or len(notice.text) > 200:
        label = f'<summary><span class="{style}">{_text(notice.label)}</span></summary>'
        return f'<details>{label}<div class="said">{_format_prose(notice.text)}</div></details>\n'
    colon = ": " if notice.text else ""
    return f'<p class="{style}">{_text(notice.label)}{colon}{_text(notice.text)}</p>\n'


def _format_picture(picture: Picture) -> str:
    if not _BASE64.fullmatch(picture.data):
        return '<p class="quiet">A picture that cannot be read.</p>\n'
    name = _text(one_line(picture.name, 200))
    return f'<p><img alt="{name}" src="data:{picture.media_type};base64,{picture.data}"></p>\n'


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


def _write_call(block: CallBlock) -> Iterator[str]:
    status = " · ".join(filter(None, [block.status, format_seconds(block.call.duration_ms)]))
    style = "bad" if block.call.status == "error" else "quiet"
    yield (
        f"<details><summary><b>{_text(one_line(block.name, 80)) or 'unnamed tool'}</b> "
        f"<code>{_text(one_line(block.subject, 160))}</code> "
        f'<span class="{style}">{status}</span></summary>\n'
    )
    if block.changes:
        yield from map(_format_change, block.changes)
    elif block.arguments is not None:
        yield from _format_arguments(block.name, block.arguments)
    for piece in block.output:
        if isinstance(piece, Picture):
            yield _format_picture(piece)
        elif piece.strip():
            yield f"<pre>{_text(piece.strip(chr(10)))}</pre>\n"
    yield "</details>\n"


def _format_arguments(name: str, arguments: Json) -> Iterator[str]:
    command = find_command(name, arguments)
    if command is not None:
        yield f"<pre>{_text(command)}</pre>\n"
        arguments = (
            {key: value for key, value in arguments.items() if key not in ("command", "cmd")}
            if isinstance(arguments, dict)
            else None
        )
    if isinstance(arguments, dict):
        rows = "".join(f"<dt>{_text(str(key))}</dt><dd><pre>{_text(readable_text(value))}</pre></dd>\n"
            for key, value in arguments.items())  # fmt: skip
        yield f"<dl>\n{rows}</dl>\n" if rows else ""
    elif arguments is not None:
        yield f"<pre>{_text(readable_text(arguments))}</pre>\n"


def _format_change(change: FileChange) -> str:
    path = f"{change.path} → {change.moved_to}" if change.moved_to else change.path
    lines = [f'<p class="quiet">{_text(one_line(path)) or "(no name)"} +{change.added} −{change.removed}</p>\n']
    if change.hunks:
        lines.append('<pre class="diff">')
        for hunk in change.hunks:
            lines.append(f'<span class="hunk">{_text(describe_hunk(hunk))}</span>')
            for sign, run in groupby(hunk.lines, lambda line: line.sign):
                text = _text("\n".join(f"{sign}{line.text}" for line in run))
                lines.append(f'<span class="{_SIGN_STYLES[sign]}">{text}</span>')
        lines.append("</pre>\n")
    return "".join(lines)


_SIGN_STYLES = {"+": "add", "-": "del", " ": "same"}


# ── prose ─────────────────────────────────────────────────────────────────────────────────────────


def _format_prose(text: str) -> str:
    """Return a text with its code blocks, lists, tables, inline code, bold words and headings marked.

    It is escaped first, and only fixed tags are added then. A complete Markdown parser is twenty times slower.
    """
    return "".join(
        f"<pre>{_text(block.text)}</pre>" if block.is_code else _format_paragraphs(_text(block.text))
        for block in split_fences(text)
    )


def _format_paragraphs(escaped: str) -> str:
    pieces, end = [], 0
    for table in _TABLE.finditer(escaped) if "|" in escaped else ():
        pieces += [_format_lists(escaped[end : table.start()]), f"<pre>{table[0].rstrip()}</pre>"]
        end = table.end()
    return "".join([*pieces, _format_lists(escaped[end:])])


def _format_lists(escaped: str) -> str:
    pieces, end = [], 0
    for found in _LIST.finditer(escaped) if _LIST_ITEM.search(escaped) else ():
        pieces += [_format_inline(escaped[end : found.start()]), _format_list(found[0])]
        end = found.end()
    return "".join([*pieces, _format_inline(escaped[end:])])


def _format_list(escaped: str) -> str:
    """Return the items of a list, those that are indented further in lists of their own."""
    items = list(_LIST_ITEM.finditer(escaped))
    pieces: list[str] = []
    open_lists: list[tuple[int, str]] = []
    for item, following in zip(items, [*items[1:], None], strict=True):
        indent, tag = len(item[1].expandtabs(4)), "ul" if item[2] in "-*+" else "ol"
        while len(open_lists) > 1 and indent < open_lists[-1][0]:
            pieces.append(f"</li></{open_lists.pop()[1]}>")
        if open_lists and indent <= open_lists[-1][0] + 1:
            pieces.append("</li>")
        else:
            start = "" if tag == "ul" or item[2][:-1] == "1" else f' start="{int(item[2][:-1])}"'
            pieces.append(f"<{tag}{start}>")
            open_lists.append((indent, tag))
        text = escaped[item.end() : following.start() if following else len(escaped)]
        pieces.append(f"<li>{_format_inline(text.strip())}")
    pieces += [f"</li></{tag}>" for _, tag in reversed(open_lists)]
    return "".join(pieces)


def _format_inline(escaped: str) -> str:
    pieces = _INLINE_CODE.split(escaped.strip("\n")) if "`" in escaped else [escaped.strip("\n")]
    return "".join(f"<code>{piece}</code>" if n % 2 else _format_emphasis(piece) for n, piece in enumerate(pieces))


def _format_emphasis(escaped: str) -> str:
    if "**" in escaped:
        escaped = _STRONG.sub(r"<b>\1</b>", escaped)
    return _HEADING.sub(r"<h3>\1</h3>", escaped) if "#" in escaped else escaped
