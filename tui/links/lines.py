"""This module renders the links of an item: paths with their line, and addresses with what is unusual about them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from textual.content import Content

from store.text.links import Link
from store.text.sanitize import cell_width, one_line, sanitize
from store.text.web_address import WebAddress
from tui.render.session_lines import abbreviate_home
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, WARNING, StyledText, build_content
from tui.render.viewport import HangingLine, RenderedLine

MAX_SHOWN_ADDRESS = 8_000
"""Limits the characters of an address that are shown. An address this long is refused anyway."""

_LABEL_CELLS = 9


class LinkTarget(NamedTuple):
    """Is a link with what it names on this computer."""

    link: Link
    path: str = ""
    "The absolute path. Is empty for a web address."
    problem: str = ""
    "Says why it cannot be opened."

    @property
    def text(self) -> str:
        """The address, or the absolute path, as it is copied."""
        return self.path or self.link.target


def render_link_row(target: LinkTarget, cwd: str, width: int) -> Content:
    """Render `src/upload.py:41`, with the problem at the end of the line if there is one."""
    end = f"  {target.problem}" if target.problem else ""
    room = max(width - cell_width(end), 1)
    shown: StyledText
    if target.link.is_address:
        shown = (one_line(target.link.target, room), "$text-primary")
    else:
        inside = target.path.removeprefix(f"{cwd.rstrip('/')}/") if cwd else target.path
        place = _format_place(target.link)
        shown = (f"{one_line(abbreviate_home(inside), max(room - len(place), 1))}{place}", FAINT if end else "")
    gap = " " * max(room - cell_width(shown[0]), 0)
    return build_content([shown, (gap, ""), (end, FAINT)]).truncate(width)


def render_outside_path(target: LinkTarget, real_path: str) -> Iterator[Content]:
    """Render a path in full with its line, and where the file really is if a folder of the path is a symbolic link."""
    yield build_content([(sanitize(target.path), STRONG), (_format_place(target.link), MUTED)])
    if real_path != target.path:
        yield Content("")
        yield build_content([("The file is ", MUTED), (sanitize(real_path), "")])


def _format_place(link: Link) -> str:
    return "".join(f":{number}" for number in (link.line, link.column) if number is not None)


def render_address(text: str, examined: WebAddress) -> Iterator[RenderedLine]:
    """Render the host of an address and its oddities, then the address in full, and as it is opened if that differs."""
    if examined.host:
        yield build_content([(f"{'host':<{_LABEL_CELLS}}", MUTED), (examined.host, "bold $text-primary")])
    for warning in examined.warnings:
        head = build_content([(f"{'careful':<{_LABEL_CELLS}}", WARNING)])
        yield HangingLine(head, Content.styled(warning, WARNING))
    if examined.refusal:
        yield build_content([(examined.refusal, ERROR)])
    yield Content("")
    yield build_content([(sanitize(text[:MAX_SHOWN_ADDRESS]), STRONG)])
    if examined.address and examined.address != text:
        yield Content("")
        yield build_content([("It is opened as ", MUTED), (examined.address, "")])
