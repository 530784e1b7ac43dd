"""pi: one file of JSON lines per session. Its records are a tree, of which the last one tells the branch in use."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import NamedTuple

from store.coding import column_text
from store.model import (
    Attachment,
    Json,
    NewEntry,
    Opaque,
    Part,
    Session,
    SessionFields,
    Text,
    Thinking,
    Tokens,
    ToolCall,
    ToolResult,
)
from store.sources import lines, reading
from store.sources.lines import Line, count, items, mapping, moment, words
from store.sources.shape import Batch, Continuing, Problem, Ref
from store.sources.transcripts import Branch, Layout, Node, Transcripts, about, branches, first_value, place_of

NAME = "pi"
LABEL = "pi"
READER = 1
LOCAL_IDS = False

_IN_FILE_NAME = re.compile(r"_([^_/\\]+)\.jsonl$")
_LAYOUT = Layout(("agent/sessions", "sessions"), depth=1)


def roots() -> Iterable[str]:
    agent = Path(os.path.expanduser(os.environ.get("PI_CODING_AGENT_DIR") or "~/.pi/agent"))
    configured = words(mapping(lines.json_file(agent / "settings.json", [])).get("sessionDir"))
    moved = os.environ.get("PI_CODING_AGENT_SESSION_DIR") or configured
    yield str(agent)
    if moved and "\0" not in moved:
        yield str(agent / os.path.expanduser(moved))


def detect(locator: str) -> bool:
    return _LAYOUT.holds(locator, lambda path: _is_header(first_value(path)))


def stamp(locator: str) -> str:
    return _LAYOUT.stamp(locator)


@contextmanager
def open(locator: str) -> Iterator[Pi]:  # noqa: A001 the shape's own word
    yield Pi(Path(locator))


def resume(session: Session) -> Continuing:
    native, _, branch = session.native_id.partition("/")
    if branch:
        hint = f"pi goes on with a session's newest branch: run `pi --session {native}` and choose this one with /tree."
        return Continuing(None, cwd=session.cwd, hint=hint)
    return Continuing(("pi", "--session", native), cwd=session.cwd)


def _is_header(value: Json) -> bool:
    header = mapping(value)
    return header.get("type") == "session" and isinstance(header.get("id"), str) and "cwd" in header


# ── a file in outline ─────────────────────────────────────────────────────────────────────────────


class _Outline:
    """Who is whose parent, and what is said of the whole; the records themselves are read when they are told."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.header: Line | None = None
        self.nodes: list[Node] = []
        self.offsets: list[int] = []
        self.names: dict[int, str] = {}
        self.provider = ""
        self.times: list[str] = []
        for line in lines.json_lines(path, problems):
            if self.header is None and _is_header(line.value):
                self.header = line
            else:
                self._take(line.offset, mapping(line.value))

    def _take(self, offset: int, value: Mapping[str, Json]) -> None:
        parent = value.get("parentId", "")
        node = Node(words(value.get("id")), None if parent is None else words(parent), value.get("type") == "message")
        if name := words(value.get("name")).strip() if value.get("type") == "session_info" else "":
            self.names[len(self.nodes)] = name
        self.provider = words(mapping(value.get("message")).get("provider")) or self.provider
        self.nodes.append(node)
        self.offsets.append(offset)
        at = moment(value.get("timestamp")) or moment(mapping(value.get("message")).get("timestamp"))
        self.times.append(at or (self.times[-1] if self.times else self.begun))

    @property
    def about(self) -> Mapping[str, Json]:
        return mapping(self.header.value) if self.header else {}

    @property
    def native_id(self) -> str:
        """Where the header is lost, the file's name has it too."""
        return column_text(words(self.about.get("id")) or _id_in_name(self.path.name))

    @property
    def begun(self) -> str:
        return moment(self.about.get("timestamp"))

    def branch(self, name: str) -> Branch | None:
        return next((branch for branch in branches(self.nodes) if branch.name == name), None)

    def title(self, line: Iterable[int]) -> str:
        return next((self.names[place] for place in reversed(list(line)) if place in self.names), "")


def _id_in_name(name: str) -> str:
    found = _IN_FILE_NAME.search(name)
    return found.group(1) if found else ""


class _Found(NamedTuple):
    native_id: str
    branches: tuple[str, ...]
    updated_at: str
    problems: tuple[Problem, ...]


@lru_cache(maxsize=4096)
def _peek(path: Path, stamp: str) -> _Found:
    """Looked at once for as long as the file stays as it is."""
    problems: list[Problem] = []
    outline = _Outline(path, problems)
    if not outline.header and not any(node.spoken for node in outline.nodes):
        problems = problems or [Problem(str(path), "It is not a session of pi.")]
        return _Found("", (), "", tuple(problems))
    names = tuple(branch.name for branch in branches(outline.nodes)) or ("",)
    return _Found(outline.native_id, names, max(outline.times, default=outline.begun), ())


# ── the sessions ──────────────────────────────────────────────────────────────────────────────────


class Pi(Transcripts):
    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._places: dict[str, tuple[Path, str]] = {}

    def scan(self) -> Iterator[Ref]:
        for path in _LAYOUT.files(self._root, self.problems):
            stamp = lines.file_digest_stamp(path)
            found = _peek(path, stamp)
            self.problems += found.problems
            for name in found.branches:
                native = Branch(name).native_id(found.native_id)
                if not found.native_id:
                    self.problems.append(Problem(str(path), "The session has no id."))
                elif native in self._places:
                    self.problems.append(Problem(str(path), f"It is another copy of the session {native}; left out."))
                else:
                    self._places[native] = path, name
                    yield Ref(native, stamp, found.updated_at)

    def read(self, ref: Ref) -> Iterator[Batch]:
        met: list[Problem] = []
        path, name = self._places[ref.native_id]
        # A fork's file is its session's, which tells of its problems.
        outline = _Outline(path, [] if name else met)
        branch = outline.branch(name) if outline.nodes else Branch()
        if branch is None:
            return
        past = branch.past()
        copied, fields = self._origin(outline, branch)
        fields |= {
            "agent_title": outline.title(past + branch.own),
            "cwd": words(outline.about.get("cwd")),
            "provider": outline.provider or words(outline.about.get("provider")),
            "model": words(outline.about.get("modelId")),
        }
        fields |= reading.lifetime(outline.begun, max((outline.times[place] for place in branch.own), default=""))
        yield about(fields, outline.header, path)
        places = {outline.offsets[place]: place for place in past + branch.own}
        yield from reading.batches(_entries(outline, places, {*past, *copied}), met)

    def _origin(self, outline: _Outline, branch: Branch) -> tuple[list[int], SessionFields]:
        """A branch leaves its session; a session that was forked has copies of another file's records."""
        named = words(outline.about.get("parentSession")).replace("\\", "/")
        parent = _id_in_name(named)
        if branch.leaves is not None or not parent or parent == outline.native_id:
            return [], branch.fields(outline.native_id)
        fields: SessionFields = {"parent_id": parent, "relation": "fork"}
        beside = outline.path.with_name(named.rpartition("/")[2])
        other = _Outline(self._places.get(parent, (beside, ""))[0], [])
        main = other.branch("")
        if main is None:
            return [], fields
        known = {node.id for node in other.nodes if node.id}
        copied = list(takewhile(lambda place: outline.nodes[place].id in known, branch.own))
        shared = {outline.nodes[place].id for place in copied}
        if places := [n for n, place in enumerate(main.own) if other.nodes[place].id in shared]:
            fields["forked_at"] = places[-1]
        return copied, fields


def _entries(outline: _Outline, places: Mapping[int, int], inherited: set[int]) -> Iterator[list[NewEntry]]:
    where = place_of(outline.path)
    for line in lines.json_lines(outline.path, []):
        place = places.get(line.offset)
        if place is not None:
            entry = _entry(line.value)
            entry.record = lines.record(line, where)
            entry.inherited, entry.created_at = place in inherited, outline.times[place]
            yield [entry]


# ── the records ───────────────────────────────────────────────────────────────────────────────────


def _entry(value: Json) -> NewEntry:
    record = mapping(value)
    kind = words(record.get("type"))
    if kind == "message":
        return _message(mapping(record.get("message")), words(record.get("id")))
    if kind == "compaction":
        return NewEntry(kind="compaction", text=words(record.get("summary")))
    if kind == "branch_summary":
        return NewEntry(role="system", parts=(Text(words(record.get("summary"))),))
    if kind == "custom_message":
        return _custom(record)
    if kind in _EVENTS:
        return NewEntry(kind="event", text=" ".join(filter(None, (words(record.get(key)) for key in _EVENTS[kind]))))
    return NewEntry(kind="unknown", parts=(Opaque(kind, value),))


_EVENTS = {
    "session": ("cwd",),
    "session_info": ("name",),
    "model_change": ("provider", "modelId"),
    "thinking_level_change": ("thinkingLevel",),
    "label": ("label",),
    "custom": ("customType",),
}


def _message(message: Mapping[str, Json], record_id: str) -> NewEntry:
    role = words(message.get("role"))
    content = message.get("content")
    if role == "user":
        return NewEntry(role="user", parts=_parts(content))
    if role == "assistant":
        return _answer(message)
    if role == "toolResult":
        return _result(message)
    if role == "bashExecution":
        return _own_command(message, record_id)
    if role in ("custom", "hookMessage"):
        return _custom(message)
    if role == "compactionSummary":
        return NewEntry(kind="compaction", text=words(message.get("summary")))
    if role == "branchSummary":
        return NewEntry(role="system", parts=(Text(words(message.get("summary"))),))
    return NewEntry(kind="unknown", parts=(Opaque(role, dict(message)),))


def _answer(message: Mapping[str, Json]) -> NewEntry:
    parts = _parts(message.get("content"))
    if failure := words(message.get("errorMessage")):
        parts += (Text(failure),)
    return NewEntry(
        role="assistant",
        parts=parts,
        model=words(message.get("model")),
        message_key=words(message.get("responseId")),
        tokens=_tokens(mapping(message.get("usage"))),
    )


def _tokens(usage: Mapping[str, Json]) -> Tokens | None:
    """What is written to a cache was not read from it."""
    fresh = count(usage.get("input")) + count(usage.get("cacheWrite"))
    return Tokens(fresh, count(usage.get("output")), count(usage.get("cacheRead"))) if usage else None


def _result(message: Mapping[str, Json]) -> NewEntry:
    parts = _parts(message.get("content"))
    said = "\n".join([part.text for part in parts if isinstance(part, Text)])
    result = ToolResult(
        words(message.get("toolCallId")), said, bool(message.get("isError")), words(message.get("toolName"))
    )
    return NewEntry(role="tool", parts=(result, *(part for part in parts if not isinstance(part, Text))), text="")


def _own_command(message: Mapping[str, Json], record_id: str) -> NewEntry:
    """What a person ran by themselves; the model is shown it with the next prompt."""
    failed = bool(message.get("cancelled")) or message.get("exitCode") not in (0, None)
    call = ToolCall(record_id, "bash", {"command": message.get("command")})
    result = ToolResult(record_id, message.get("output"), failed, "bash")
    return NewEntry(role="user", parts=(call, result), prompt=False)


def _custom(message: Mapping[str, Json]) -> NewEntry:
    """An extension's words to the model."""
    author = words(message.get("customType"))
    return NewEntry(role="system", parts=_parts(message.get("content")), author=author)


def _parts(content: Json) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, list):
        return () if content is None else (Opaque("", content),)
    return tuple(map(_part, items(content)))


def _part(block: Json) -> Part:
    told = mapping(block)
    kind = words(told.get("type"))
    if kind == "text" and isinstance(text := told.get("text"), str):
        return Text(text)
    if kind == "thinking" and isinstance(thought := told.get("thinking"), str):
        return Thinking(thought, words(told.get("thinkingSignature")))
    if kind == "toolCall":
        return ToolCall(words(told.get("id")), words(told.get("name")), told.get("arguments"))
    if kind == "image" and isinstance(data := told.get("data"), str):
        return Attachment(words(told.get("mimeType")) or "image", size=len(data.rstrip("=")) * 3 // 4)
    return Opaque(kind, block)
