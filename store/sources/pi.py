"""pi: one file of JSON lines per session. Its records are a tree, of which the last one tells the branch in use."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path

from store.model.entry import Attachment, Json, NewEntry, Opaque, Part, Text, Thinking, Tokens, ToolCall, ToolResult
from store.model.session import Session, SessionFields
from store.sources.contract import Continuing, Problem
from store.sources.kit import homes
from store.sources.kit.jsonl import cost, count, items, mapping, moment, words
from store.sources.kit.record_tree import Outline, Teller, Trees
from store.sources.kit.transcripts import Branch, Layout, Node, first_value
from store.text.validate import column_text

NAME = "pi"
LABEL = "pi"
READER = 1
LOCAL_IDS = False

_IN_FILE_NAME = re.compile(r"_([^_/\\]+)\.jsonl$")
_LAYOUT = Layout(("agent/sessions", "sessions"), depth=1)

roots = homes.pi


def detect(locator: str) -> bool:
    return _LAYOUT.holds(locator, lambda path: _is_header(first_value(path)))


stamp = _LAYOUT.stamp


@contextmanager
def open(locator: str) -> Iterator[Pi]:  # noqa: A001 the shape's own word
    yield Pi(Path(locator), _LAYOUT, _Session)


def resume(session: Session) -> Continuing:
    native, _, branch = session.native_id.partition("/")
    if branch:
        hint = f"pi goes on with a session's newest branch: run `pi --session {native}` and choose this one with /tree."
        return Continuing(None, cwd=session.cwd, hint=hint)
    argv, fork = ("pi", "--session", native), ("pi", "--fork", native)
    return Continuing(argv, session.cwd, fork=fork, install="npm install -g @earendil-works/pi-coding-agent")


def _is_header(value: Json) -> bool:
    header = mapping(value)
    return header.get("type") == "session" and isinstance(header.get("id"), str) and "cwd" in header


# ── the sessions ──────────────────────────────────────────────────────────────────────────────────


class _Session(Outline):
    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self._names: dict[int, str] = {}
        self._provider = ""
        super().__init__(path, problems)

    def is_head(self, value: Mapping[str, Json]) -> bool:
        return _is_header(value)

    def node(self, value: Mapping[str, Json]) -> Node:
        if name := words(value.get("name")).strip() if value.get("type") == "session_info" else "":
            self._names[len(self.nodes)] = name
        self._provider = words(mapping(value.get("message")).get("provider")) or self._provider
        self.costs[len(self.nodes)] = _paid(mapping(value.get("message")))
        # Version 1 has neither ids nor parents: each record follows the one before.
        parent = value.get("parentId", "")
        return Node(words(value.get("id")), None if parent is None else words(parent), value.get("type") == "message")

    def time(self, value: Mapping[str, Json]) -> str:
        return moment(value.get("timestamp")) or moment(mapping(value.get("message")).get("timestamp"))

    @property
    def header(self) -> Mapping[str, Json]:
        return mapping(self.head.value) if self.head else {}

    @property
    def native_id(self) -> str:
        """Where the header is lost, the file's name has it too."""
        return column_text(words(self.header.get("id")) or _id_in_name(self.path.name))

    def fields(self, line: Sequence[int]) -> SessionFields:
        return {
            "agent_title": next((self._names[place] for place in reversed(line) if place in self._names), ""),
            "cwd": words(self.header.get("cwd")),
            "provider": self._provider or words(self.header.get("provider")),
            "model": words(self.header.get("modelId")),
        }

    def teller(self) -> Teller:
        return _entry


def _paid(message: Mapping[str, Json]) -> float:
    return cost(mapping(mapping(message.get("usage")).get("cost")).get("total")).get("cost", 0.0)


def _id_in_name(name: str) -> str:
    found = _IN_FILE_NAME.search(name)
    return found.group(1) if found else ""


class Pi(Trees):
    def origin(self, outline: Outline, branch: Branch) -> tuple[list[int], SessionFields]:
        """A branch leaves its session; a session that was forked has copies of another file's records."""
        header = mapping(outline.head.value) if outline.head else {}
        named = words(header.get("parentSession")).replace("\\", "/")
        parent = column_text(_id_in_name(named))
        if branch.leaves is not None or not parent or parent == outline.native_id:
            return super().origin(outline, branch)
        fields: SessionFields = {"parent_id": parent, "relation": "fork"}
        beside = outline.path.with_name(named.rpartition("/")[2])
        other = _Session(self.places.get(parent, (beside, ""))[0], [])
        known = {node.id for node in other.nodes if node.id}
        copied = list(takewhile(lambda place: outline.nodes[place].id in known, branch.own))
        shared = {outline.nodes[place].id for place in copied}
        line = (other.branch("") or Branch()).own
        if places := [n for n, place in enumerate(line) if other.nodes[place].id in shared]:
            fields["forked_at"] = places[-1]
        return copied, fields


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
