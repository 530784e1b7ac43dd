"""This module reads what a tool call does from its arguments: the shell command, the files, and the changes to them.

It knows the names and shapes that agents use: one or several pairs of old and new text, the content of a whole file, a
unified diff, and a patch that begins with `*** Begin Patch`. Everything that asks for the command, the paths or the
changes of a call asks here. The module is pure.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from posixpath import normpath
from typing import Literal, NamedTuple

from store.model.entry import Json, readable_text

LineSign = Literal["+", "-", " "]
ChangeKind = Literal["update", "add", "delete", "write"]
"""Says what a call did to a file. "write" replaces the whole file, whatever was in it before."""

MAX_COMPARED_LINES = 2_000
MAX_COMPARED_CHARACTERS = 64_000
"""Limit the comparison, because its time grows with the square of the length. Longer texts are given old, then new."""

CONTEXT_LINES = 3

_SHELL_TOOLS = frozenset(
    "bash shell sh zsh exec exec_command execute_command local_shell powershell run_command run_shell_command"
    " run_in_terminal run_terminal_cmd shell_command terminal unified_exec".split()
)
_WRITE_TOOLS = frozenset("write write_file writefile create_file create save_file new_file".split())
_SHELLS = frozenset("bash sh zsh dash fish ash ksh".split())
_COMMAND_ARGUMENTS = ("command", "cmd")
_PATH_ARGUMENTS = (
    "file_path",
    "filePath",
    "path",
    "filename",
    "file",
    "notebook_path",
    "absolute_path",
    "target_file",
    "dir_path",
)
_PATH_LIST_ARGUMENTS = ("paths", "file_paths", "files")
_REPLACEMENT_ARGUMENTS = (
    ("old_string", "new_string"),
    ("oldString", "newString"),
    ("old_str", "new_str"),
    ("oldText", "newText"),
    ("old_text", "new_text"),
)
_PATCH_ARGUMENTS = ("patch", "patchText", "patch_text", "diff", "unified_diff", "input")
_CONTENT_ARGUMENTS = ("content", "file_text", "contents", "text")
_STRUCTURED_DIFF = "structuredPatch"
_RECORDED_DIFFS = ("fileDiff", "diff", "patch", "detailedContent")
_MAX_RECORD_DEPTH = 8

_BEGIN_PATCH = re.compile(r"^\*\*\* Begin Patch\s*?$", re.M)
_UNIFIED_DIFF = re.compile(r"^--- .*\n\+\+\+ |^@@ -\d", re.M)
_PATCHED_FILE = re.compile(r"\*\*\* (Add File|Update File|Delete File|Move to): (.*)")
_HUNK_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)")
_NUMBERED_LINE = re.compile(r"^ *(\d{1,7})(?:→|\t)(.*)$", re.M)
_HUNK_LINE_STARTS = ("", "+", "-", " ", "\r")


class ChangedLine(NamedTuple):
    sign: LineSign
    "Says whether the line was added or removed, or is unchanged."
    text: str

    @classmethod
    def parse(cls, line: str) -> ChangedLine:
        """Return a line as a diff writes it. An empty one is an unchanged empty line."""
        match line[:1]:
            case "+" | "-" as sign:
                return cls(sign, line[1:])
        return cls(" ", line[1:])


@dataclass(frozen=True, slots=True)
class Hunk:
    """Holds lines of a file that follow each other, some of them changed."""

    lines: tuple[ChangedLine, ...]
    old_start: int | None = None
    "Is the number of the first line before the change, or None if it is not known where in the file the lines are."
    new_start: int | None = None
    heading: str = ""
    "Is the text that an agent gave to find the place, e.g. the line of a function."
    ends_without_newline: bool = False
    "Is true if the file ends with this hunk, and its last line has no line break."

    def count_lines(self, *signs: LineSign) -> int:
        return sum(line.sign in signs for line in self.lines)


@dataclass(frozen=True, slots=True)
class FileChange:
    """Describes one change of one file. Several edits of a file are several changes, in the order they were made."""

    path: str
    "Is the path as the call gives it. It may be absolute, relative to the folder of the session, or empty."
    hunks: tuple[Hunk, ...]
    kind: ChangeKind = "update"
    moved_to: str = ""

    @property
    def added(self) -> int:
        return sum(hunk.count_lines("+") for hunk in self.hunks)

    @property
    def removed(self) -> int:
        return sum(hunk.count_lines("-") for hunk in self.hunks)


# ── commands and paths ────────────────────────────────────────────────────────────────────────────


def find_command(name: str, arguments: Json) -> str | None:
    """Return the bare command of a call of a shell, without `bash -lc` around it. Return None for any other call."""
    if not isinstance(arguments, Mapping):
        is_command = is_shell_tool(name) and (isinstance(arguments, str) or _is_word_list(arguments))
        return _join_command(arguments) if is_command and arguments else None
    command = next((arguments[key] for key in _COMMAND_ARGUMENTS if arguments.get(key)), None)
    if command is None or not (isinstance(command, str) or _is_word_list(command)):
        return None
    # The editor of Anthropic, and those made after it, name their action in an argument `command`.
    is_editor = not is_shell_tool(name) and _find_text(arguments, _PATH_ARGUMENTS) is not None
    return None if is_editor else _join_command(command)


def is_shell_tool(name: str) -> bool:
    return _base_name(name) in _SHELL_TOOLS


def find_paths(name: str, arguments: Json) -> tuple[str, ...]:
    """Return the files and folders that a call names in arguments made for them, without duplicates."""
    paths = [change.moved_to or change.path for change in find_changes(name, arguments)]
    if isinstance(arguments, Mapping):
        paths += [arguments[key] for key in _PATH_ARGUMENTS if isinstance(arguments.get(key), str)]
        lists = [arguments[key] for key in _PATH_LIST_ARGUMENTS if _is_word_list(arguments.get(key))]
        paths += [path for listed in lists for path in listed]
    return tuple(dict.fromkeys(filter(None, paths)))


def _base_name(name: str) -> str:
    """Return the name of a tool without that of its server or extension, e.g. `shell` for `developer__shell`."""
    return re.split(r"__|[.:/]", name.lower())[-1]


def _join_command(command: str | Sequence[str]) -> str:
    if isinstance(command, str):
        return command
    shell = command[0].rpartition("/")[2] if len(command) == 3 else ""
    if shell in _SHELLS and command[1].startswith("-") and command[1].endswith("c"):
        return command[2]
    return shlex.join(command)


def _is_word_list(value: Json) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(word, str) for word in value)


def _find_text(arguments: Mapping[str, Json], names: Iterable[str]) -> str | None:
    return next((arguments[name] for name in names if isinstance(arguments.get(name), str)), None)


# ── changes ───────────────────────────────────────────────────────────────────────────────────────


def find_changes(name: str, arguments: Json, record: Json = None) -> tuple[FileChange, ...]:
    """Return the changes that a call makes to files, in order. Return nothing if it is not a known kind of edit.

    `record` is what the agent recorded with the result, if that is known. Some agents put a diff there that has the
    line numbers and the lines around the change; it is preferred to the arguments.
    """
    changes = tuple(_find_asked_changes(name, arguments))
    recorded = _find_recorded_hunks(record) if changes and record is not None else ()
    paths = {change.path for change in changes}
    if not recorded or len(paths) != 1 or not _belong_together(changes, recorded):
        return changes
    kind: ChangeKind = "add" if all(hunk.old_start == 0 for hunk in recorded) else "update"
    return (replace(changes[0], hunks=recorded, kind=kind),)


def _belong_together(changes: Sequence[FileChange], recorded: Sequence[Hunk]) -> bool:
    """Return whether a recorded diff can be that of these changes. A record may hold the diffs of several calls."""
    asked = [line for change in changes for hunk in change.hunks for line in hunk.lines]
    found = [line for hunk in recorded for line in hunk.lines]
    if changes[0].kind in ("add", "write"):
        texts = {line.text for line in asked}
        return all(line.text in texts for line in found if line.sign == "+")
    for sign, other in (("+", "-"), ("-", "+")):
        if lines := [line.text.strip() for line in asked if line.sign == sign]:
            text = "\n".join(line.text for line in found if line.sign != other)
            return all(line in text for line in lines)
    return True


def _find_asked_changes(name: str, arguments: Json) -> Iterator[FileChange]:
    patch = _find_patch(arguments)
    if patch is not None:
        yield from parse_patch(patch, _find_path(arguments))
        return
    if not isinstance(arguments, Mapping):
        return
    path = _find_path(arguments)
    edits = arguments.get("edits")
    pairs = False
    for edit in [arguments, *edits] if isinstance(edits, list) else [arguments]:
        if (pair := _find_replacement(edit)) is not None:
            pairs = True
            yield _replace_text(_find_path(edit) or path, *pair)
    if pairs:
        return
    if (inserted := _find_insertion(arguments)) is not None:
        yield FileChange(path, (inserted,))
    elif (content := _find_content(name, arguments)) is not None:
        yield _write_text(path, content)


def _find_path(arguments: Json) -> str:
    return (_find_text(arguments, _PATH_ARGUMENTS) or "") if isinstance(arguments, Mapping) else ""


def _find_replacement(edit: Json) -> tuple[str, str] | None:
    if isinstance(edit, Mapping):
        for old, new in _REPLACEMENT_ARGUMENTS:
            pair = edit.get(old), edit.get(new)
            if isinstance(pair[0], str) and isinstance(pair[1], str):
                return pair[0], pair[1]
    return None


def _find_insertion(arguments: Mapping[str, Json]) -> Hunk | None:
    """Return the lines that an editor's `insert` adds after a line."""
    after, text = arguments.get("insert_line"), _find_text(arguments, ("insert_text", "new_str"))
    if not isinstance(after, int) or isinstance(after, bool) or after < 0 or text is None:
        return None
    return Hunk(tuple(_with_sign("+", _split_lines(text))), after, after + 1)


def _find_content(name: str, arguments: Mapping[str, Json]) -> str | None:
    is_write = _base_name(name) in _WRITE_TOOLS or _find_text(arguments, ("command",)) in _WRITE_TOOLS
    return _find_text(arguments, _CONTENT_ARGUMENTS) if is_write else None


def _replace_text(path: str, old: str, new: str) -> FileChange:
    """Return a replacement. A replacement of nothing creates the file."""
    if not old:
        return replace(_write_text(path, new), kind="add")
    return FileChange(path, tuple(compare_texts(old, new)))


def _write_text(path: str, text: str) -> FileChange:
    lines = tuple(_with_sign("+", _split_lines(text)))
    return FileChange(path, (Hunk(lines, 0, 1, "", bool(text) and not text.endswith("\n")),) if lines else (), "write")


def _split_lines(text: str) -> list[str]:
    """Split a text at its line feeds only. Other line breaks belong to the lines of a file."""
    return text.removesuffix("\n").split("\n") if text else []


def _with_sign(sign: LineSign, lines: Iterable[str]) -> Iterator[ChangedLine]:
    return (ChangedLine(sign, line) for line in lines)


def compare_texts(old: str, new: str, *, is_whole: bool = False) -> Iterator[Hunk]:
    """Yield the hunks in which two texts differ.

    It is known where in a file they are only if both texts are whole files.
    """
    old_lines, new_lines = _split_lines(old), _split_lines(new)
    is_too_long = len(old_lines) + len(new_lines) > MAX_COMPARED_LINES or len(old) + len(new) > MAX_COMPARED_CHARACTERS
    if is_too_long:
        start = (min(len(old_lines), 1), min(len(new_lines), 1)) if is_whole else (None, None)
        yield Hunk((*_with_sign("-", old_lines), *_with_sign("+", new_lines)), *start)
        return
    from difflib import SequenceMatcher  # imported late: only diffs need it

    # In long texts, `autojunk` skips lines that occur often. Without it, the same line a thousand times takes seconds.
    groups = SequenceMatcher(None, old_lines, new_lines, autojunk=True).get_grouped_opcodes(CONTEXT_LINES)
    for group in groups:
        lines: list[ChangedLine] = []
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                lines += _with_sign(" ", old_lines[old_from:old_to])
            else:
                lines += _with_sign("-", old_lines[old_from:old_to])
                lines += _with_sign("+", new_lines[new_from:new_to])
        (_, old_from, _, new_from, _), (_, _, old_to, _, new_to) = group[0], group[-1]
        # A side without lines is numbered by the line before it.
        start = (old_from + (old_from < old_to), new_from + (new_from < new_to)) if is_whole else (None, None)
        yield Hunk(tuple(lines), *start)


# ── patches ───────────────────────────────────────────────────────────────────────────────────────


def _find_patch(arguments: Json) -> str | None:
    """Find a patch: the arguments themselves, a named argument, or a word of a command."""
    if isinstance(arguments, Mapping):
        patch = _find_text(arguments, _PATCH_ARGUMENTS)
        if patch is not None and _is_patch(patch):
            return patch
        arguments = next((arguments[key] for key in _COMMAND_ARGUMENTS if arguments.get(key)), None)
    words = arguments if isinstance(arguments, list) else [arguments]
    return next((word for word in words if isinstance(word, str) and _BEGIN_PATCH.search(word)), None)


def _is_patch(text: str) -> bool:
    return _BEGIN_PATCH.search(text) is not None or _UNIFIED_DIFF.search(text) is not None


def parse_patch(text: str, path: str = "") -> Iterator[FileChange]:
    """Yield the changes in a patch of either format. `path` names the file of a diff that does not name it."""
    begin = _BEGIN_PATCH.search(text)
    if begin is not None:
        yield from _parse_begin_patch(text[begin.end() :].removeprefix("\n").split("\n"))
    else:
        yield from _parse_unified_diff(text.split("\n"), path)


def _parse_begin_patch(lines: Sequence[str]) -> Iterator[FileChange]:
    change: FileChange | None = None
    hunk_lines: list[ChangedLine] = []
    headings: list[str] = []

    def add_hunk(change: FileChange | None) -> FileChange | None:
        if change is None or not hunk_lines:
            return change
        old_start, new_start = (0, 1) if change.kind == "add" else (None, None)
        hunk = Hunk(tuple(hunk_lines), old_start, new_start, " ".join(headings))
        hunk_lines.clear()
        headings.clear()
        return replace(change, hunks=(*change.hunks, hunk))

    for line in lines:
        line = line.removesuffix("\r")
        if header := _PATCHED_FILE.match(line):
            change = add_hunk(change)
            if header[1] == "Move to" and change is not None:
                change = replace(change, moved_to=header[2].strip())
                continue
            if change is not None:
                yield change
            change = FileChange(header[2].strip(), (), _PATCH_KINDS.get(header[1], "update"))
        elif line.startswith("*** End Patch"):
            break
        elif line.startswith("@@"):
            change = add_hunk(change)
            headings += [heading] if (heading := line[2:].strip(" @")) else []
        elif line.startswith(("+", "-", " ")) or (not line and hunk_lines):
            hunk_lines.append(ChangedLine.parse(line))
    change = add_hunk(change)
    if change is not None:
        yield change


_PATCH_KINDS: dict[str, ChangeKind] = {"Add File": "add", "Delete File": "delete"}


def _parse_unified_diff(lines: Sequence[str], path: str) -> Iterator[FileChange]:
    change = FileChange(path, ()) if path else None
    number = 0
    while number < len(lines):
        if _begins_file(lines, number):
            if change is not None and change.hunks:
                yield change
            change = _parse_file_header(lines[number], lines[number + 1])
            number += 2
        elif header := _HUNK_HEADER.match(lines[number]):
            hunk, number = _parse_hunk(header, lines, number + 1)
            change = change or FileChange("", ())
            change = replace(change, hunks=(*change.hunks, hunk))
        else:
            number += 1
    if change is not None and change.hunks:
        yield change


def _begins_file(lines: Sequence[str], number: int) -> bool:
    return lines[number].startswith("--- ") and number + 1 < len(lines) and lines[number + 1].startswith("+++ ")


def _parse_file_header(old: str, new: str) -> FileChange:
    """Return the file that the two header lines of a diff name, without the prefixes `a/` and `b/`."""
    old, new = (line[4:].split("\t")[0].strip() for line in (old, new))
    if new == "/dev/null":
        return FileChange(old.removeprefix("a/"), (), "delete")
    old_path, new_path = old.removeprefix("a/"), new.removeprefix("b/")
    if old == "/dev/null":
        return FileChange(new_path, (), "add")
    return FileChange(old_path, (), moved_to=new_path) if old_path != new_path else FileChange(new_path, ())


def _parse_hunk(header: re.Match[str], lines: Sequence[str], number: int) -> tuple[Hunk, int]:
    """Return the hunk whose lines begin at that number, and the number of the line after it.

    The counts in the header tell a removed line that begins with `--` from the header of the next file.
    """
    old_left, new_left = (int(header[n]) if header[n] is not None else 1 for n in (2, 4))
    hunk: list[ChangedLine] = []
    ends_without_newline = False
    while number < len(lines):
        line = lines[number]
        is_complete = old_left <= 0 and new_left <= 0
        if line.startswith("\\"):
            ends_without_newline = True
        elif line[:1] not in _HUNK_LINE_STARTS or (is_complete and (not line.strip() or _begins_file(lines, number))):
            break
        else:
            changed = ChangedLine.parse(line)
            old_left -= changed.sign != "+"
            new_left -= changed.sign != "-"
            hunk.append(changed)
            ends_without_newline = False
        number += 1
    return Hunk(tuple(hunk), int(header[1]), int(header[3]), header[5].strip(), ends_without_newline), number


# ── what agents record with a result ──────────────────────────────────────────────────────────────


def find_recorded_diff(record: Json, depth: int = _MAX_RECORD_DEPTH) -> Json:
    """Find the diff that an agent recorded with the result of an edit, at any place that one of them uses.

    Return the field with the diff and nothing else, because the rest of a record is often the whole file.
    """
    if not depth:
        return None
    if isinstance(record, Mapping):
        if hunks := record.get(_STRUCTURED_DIFF):
            return {_STRUCTURED_DIFF: hunks}
        for name in _RECORDED_DIFFS:
            text = record.get(name)
            if isinstance(text, str) and _UNIFIED_DIFF.search(text):
                return {name: text}
    values = record.values() if isinstance(record, Mapping) else record if isinstance(record, list) else ()
    nested = (find_recorded_diff(value, depth - 1) for value in values if isinstance(value, Mapping | list))
    return next(filter(None, nested), None)


def _find_recorded_hunks(record: Json) -> tuple[Hunk, ...]:
    diff = find_recorded_diff(record) or {}
    if _STRUCTURED_DIFF in diff:
        return tuple(_parse_structured_patch(diff[_STRUCTURED_DIFF]))
    files = [file for text in diff.values() for file in _parse_unified_diff(text.split("\n"), "")]
    return files[0].hunks if len(files) == 1 else ()


def _parse_structured_patch(hunks: Json) -> Iterator[Hunk]:
    for hunk in hunks if isinstance(hunks, list) else ():
        if not (isinstance(hunk, Mapping) and _is_word_list(hunk.get("lines"))):
            return
        old_start, new_start = hunk.get("oldStart"), hunk.get("newStart")
        lines = [line for line in hunk["lines"] if line[:1] in ("+", "-", " ")]
        yield Hunk(
            tuple(map(ChangedLine.parse, lines)),
            old_start if isinstance(old_start, int) else None,
            new_start if isinstance(new_start, int) else None,
            "",
            hunk["lines"][-1].startswith("\\"),
        )


def may_need_record(arguments: Json) -> bool:
    """Return whether a call replaces text, so that only a record tells where. It is faster than finding the changes."""
    if not isinstance(arguments, Mapping):
        return False
    return isinstance(arguments.get("edits"), list) or any(old in arguments for old, _ in _REPLACEMENT_ARGUMENTS)


def locate_hunks(changes: Sequence[FileChange], result: Json) -> tuple[FileChange, ...]:
    """Give hunks of unknown place their line numbers, if the result of the call shows these lines as `cat -n` does."""
    text = readable_text(result)[:MAX_COMPARED_CHARACTERS] if result is not None else ""
    numbered = {int(match[1]): match[2] for match in _NUMBERED_LINE.finditer(text)}
    if not numbered:
        return tuple(changes)
    return tuple(replace(change, hunks=tuple(_locate_in(change.hunks, numbered))) for change in changes)


def _locate_in(hunks: Iterable[Hunk], numbered: Mapping[int, str]) -> Iterator[Hunk]:
    shift = 0
    for hunk in hunks:
        start = _find_lines([text for sign, text in hunk.lines if sign != "-"], numbered)
        is_located = hunk.old_start is None and start is not None and start > shift
        yield replace(hunk, old_start=start - shift, new_start=start) if is_located and start is not None else hunk
        shift += hunk.count_lines("+") - hunk.count_lines("-")


def _find_lines(lines: Sequence[str], numbered: Mapping[int, str]) -> int | None:
    """Return the number of the first line, if these lines are shown once. The first and the last may be incomplete."""
    if not lines:
        return None
    last = len(lines) - 1
    found = [
        start
        for start, text in numbered.items()
        if (text.endswith(lines[0]) if last else lines[0] in text)
        if not last or numbered.get(start + last, "").startswith(lines[-1])
        if all(numbered.get(start + n) == line for n, line in enumerate(lines[1:-1], 1))
    ]
    return found[0] if len(found) == 1 else None


# ── writing a patch ───────────────────────────────────────────────────────────────────────────────


def format_patch(changes: Iterable[FileChange], cwd: str = "") -> str:
    """Return changes as a unified diff, for `patch -p1` or `git apply` in the folder `cwd`.

    A change whose place in the file is not known gets no more lines around it than it has on both sides, because both
    programs take a missing line for the beginning or the end of the file.
    """
    return "".join(line + "\n" for change in changes for line in _format_change(change, cwd))


def format_hunk_header(hunk: Hunk, old_start: int, new_start: int) -> str:
    old, new = hunk.count_lines("-", " "), hunk.count_lines("+", " ")
    ranges = [f"{start}" if count == 1 else f"{start},{count}" for start, count in ((old_start, old), (new_start, new))]
    return f"@@ -{ranges[0]} +{ranges[1]} @@ {hunk.heading}".rstrip()


def _format_change(change: FileChange, cwd: str) -> Iterator[str]:
    old_path, new_path = _relative_path(change.path, cwd), _relative_path(change.moved_to or change.path, cwd)
    if not change.hunks:
        yield from _format_change_without_lines(change, old_path, new_path)
        return
    if change.moved_to:
        yield from (f"diff --git a/{old_path} b/{new_path}", f"rename from {old_path}", f"rename to {new_path}")
    # A tab ends a name, so that one with blanks is read to its end.
    yield "--- /dev/null" if change.kind in ("add", "write") else f"--- a/{old_path}" + "\t" * (" " in old_path)
    yield "+++ /dev/null" if change.kind == "delete" else f"+++ b/{new_path}" + "\t" * (" " in new_path)
    shift, next_line = 0, _FIRST_GUESSED_LINE
    for hunk in change.hunks:
        if hunk.old_start is None:
            hunk = _balance_context(hunk)
            start = next_line, next_line + shift
        else:
            start = hunk.old_start, hunk.new_start if hunk.new_start is not None else hunk.old_start + shift
        yield format_hunk_header(hunk, *start)
        yield from (line.sign + line.text for line in hunk.lines)
        if hunk.ends_without_newline:
            yield "\\ No newline at end of file"
        next_line = start[0] + hunk.count_lines("-", " ")
        shift += hunk.count_lines("+") - hunk.count_lines("-")


_FIRST_GUESSED_LINE = 2
"""Is where a hunk begins if its place is not known. Line 1 would mean that it must match the beginning of the file."""


def _format_change_without_lines(change: FileChange, old_path: str, new_path: str) -> Iterator[str]:
    if change.moved_to:
        yield f"diff --git a/{old_path} b/{new_path}"
        yield "similarity index 100%"
        yield f"rename from {old_path}"
        yield f"rename to {new_path}"
    elif change.kind in ("add", "write"):
        yield f"diff --git a/{new_path} b/{new_path}"
        yield "new file mode 100644"
    elif change.kind == "delete":
        yield f"diff --git a/{old_path} b/{old_path}"
        yield "deleted file mode 100644"


def _balance_context(hunk: Hunk) -> Hunk:
    """Return a hunk with as many unchanged lines before the first change as after the last one."""
    changed = [number for number, line in enumerate(hunk.lines) if line.sign != " "]
    if not changed:
        return hunk
    first, after = changed[0], len(hunk.lines) - 1 - changed[-1]
    kept = min(first, after)
    return replace(hunk, lines=hunk.lines[first - kept : changed[-1] + 1 + kept])


def _relative_path(path: str, cwd: str) -> str:
    """Return a path for a patch: relative to `cwd` if it is in there, else without the slash at its beginning."""
    path = normpath(path) if path else "file"
    folder = normpath(cwd).rstrip("/") + "/" if cwd else ""
    path = path.removeprefix(folder) if folder else path
    return path.lstrip("/")
