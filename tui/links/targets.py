"""This module finds what the links of an item name on this computer. It reads the file system: call it in a thread."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from store.errors import Refused
from store.model.entry import Json, PairedCall, readable_text
from store.text.links import Link, find_links
from store.text.sanitize import one_line, sanitize
from tui.links.lines import LinkTarget
from tui.render.timeline_items import TimelineItem

MAX_TARGETS = 200
MAX_CANDIDATES = 5_000
MAX_ARGUMENTS = 1_000

_PATH_ARGUMENTS = ("file_path", "filePath", "absolute_path", "notebook_path", "path", "filename", "file", "uri")
"""Lists the arguments whose whole value is a path, also if it contains blanks."""

_DIFF_PREFIXES = ("a/", "b/")
_FILE_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFBLK: "a device",
    stat.S_IFCHR: "a device",
}


def find_item_links(item: TimelineItem) -> Iterator[Link]:
    """Yield the links of an item's text, and of its call."""
    yield from find_links(item.text)
    if item.call is not None:
        yield from find_call_links(item.call)


def find_call_links(call: PairedCall) -> Iterator[Link]:
    """Yield the links of a call's arguments, then those of its result."""
    yield from _find_argument_links(call.arguments)
    yield from find_links(readable_text(call.result))


def _find_argument_links(arguments: Json) -> Iterator[Link]:
    if isinstance(arguments, Mapping):
        line = arguments.get("offset")
        for name in _PATH_ARGUMENTS:
            value = arguments.get(name)
            if isinstance(value, str) and "://" not in value and value.strip():
                yield Link(value, line if isinstance(line, int) and line > 0 else None)
    waiting: list[Json] = [arguments]
    for _ in range(MAX_ARGUMENTS):
        if not waiting:
            return
        value = waiting.pop()
        if isinstance(value, str):
            yield from find_links(value)
        elif isinstance(value, Mapping):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def find_targets(links: Iterable[Link], cwd: str) -> list[LinkTarget]:
    """Return what the links name: files that exist, then addresses, then what cannot be opened.

    A path is relative to the folder of its session, never to the folder in which the browser runs.
    """
    found: dict[str, LinkTarget] = {}
    for _, link in zip(range(MAX_CANDIDATES), links, strict=False):
        target = LinkTarget(link) if link.is_address else _locate(link, cwd)
        known = found.get(target.text) if target else None
        if target is not None and (known is None or (known.link.line is None and link.line is not None)):
            found[target.text] = target
    order = sorted(found.values(), key=lambda target: 2 if target.problem else int(target.link.is_address))
    return order[:MAX_TARGETS]


def _locate(link: Link, cwd: str) -> LinkTarget | None:
    """Return the file that a path names, or None if the text is hardly meant as a path."""
    paths = [link.target]
    if link.target.startswith(_DIFF_PREFIXES):
        paths.append(link.target[2:])
    problems: list[LinkTarget] = []
    for path in paths:
        absolute = _make_absolute(path, cwd)
        problem = describe_problem(absolute) if absolute else ""
        if absolute and not problem:
            return LinkTarget(link, absolute)
        if absolute and (link.is_certain or problem != "no such file"):
            problems.append(LinkTarget(link, absolute, problem))
    return problems[0] if problems else None


def _make_absolute(path: str, cwd: str) -> str:
    """Return an absolute path, or nothing if the folder of the session is unknown or the text cannot be a path."""
    if sanitize(path) != path:
        return ""
    path = os.path.expanduser(path) if path.startswith("~/") else path
    if not os.path.isabs(path) and not os.path.isabs(cwd):
        return ""
    return os.path.normpath(os.path.join(cwd, path))


def describe_problem(path: str) -> str:
    """Return why a path is not opened, e.g. `a pipe`. An ordinary file has no problem."""
    try:
        mode = os.lstat(path).st_mode
    except PermissionError:
        return "not allowed"
    except (OSError, ValueError):
        return "no such file"
    return "" if stat.S_ISREG(mode) else _FILE_KINDS.get(stat.S_IFMT(mode), "no ordinary file")


def is_inside(path: str, folder: str) -> bool:
    """Return whether a file is inside a folder, after all symbolic links. Nothing is inside an unknown folder."""
    return os.path.isabs(folder) and Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def check_openable(path: str) -> None:
    """Raise Refused if a path names anything but an ordinary file. A link could name what no text showed."""
    match describe_problem(path):
        case "":
            return
        case "no such file":
            raise Refused(f"No such file: {one_line(path)}.")
        case "not allowed":
            raise Refused(f"No permission to read {one_line(path)}.")
        case kind:
            raise Refused(f"{one_line(path)} is {kind}. Only ordinary files are opened.")
