"""Qwen Code: one file of JSON lines per session, a tree of records around the parts that Gemini CLI has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from store.model.entry import Json, NewEntry, Opaque, Part, Tokens, ToolCall, ToolResult, readable
from store.model.session import Session, SessionFields
from store.sources.contract import Continuing, Problem
from store.sources.kit import homes
from store.sources.kit.gemini_parts import is_injected, parts_of, tokens_of, typed
from store.sources.kit.jsonl import count, items, mapping, moment, words
from store.sources.kit.record_tree import Outline, Teller, Trees
from store.sources.kit.transcripts import Layout, Node, first_value
from store.text.validate import column_text, encode_derived

NAME = "qwen"
LABEL = "Qwen Code"
READER = 1
LOCAL_IDS = False

_LAYOUT = Layout(("projects",), depth=2, among=lambda path: path.parent.name == "chats")

_TYPED = ("", "mid_turn_user_message")
"""The subtypes of what a person typed; anything else comes from the program: a schedule, a notification, an agent."""

roots = homes.qwen


def detect(locator: str) -> bool:
    return _LAYOUT.holds(locator, lambda path: _is_record(first_value(path)))


stamp = _LAYOUT.stamp


@contextmanager
def open(locator: str) -> Iterator[Trees]:  # noqa: A001 the shape's own word
    yield Trees(Path(locator), _LAYOUT, _Session)


def resume(session: Session) -> Continuing:
    native, _, branch = session.native_id.partition("/")
    if branch:
        hint = f"Qwen Code left this branch; `qwen --resume {native}` goes on with the session it is a part of."
        return Continuing(None, cwd=session.cwd, hint=hint)
    argv = ("qwen", "--resume", native)
    return Continuing(argv, session.cwd, skipping=("--yolo",), install="npm install -g @qwen-code/qwen-code")


def git_branch(record: Json) -> str:
    return words(mapping(record).get("gitBranch"))


def _is_record(value: Json) -> bool:
    """Claude Code's records have the same envelope, but a message of blocks rather than of parts."""
    record = mapping(value)
    if not {"uuid", "parentUuid", "sessionId", "type"} <= record.keys() or "isSidechain" in record:
        return False
    return isinstance(mapping(record.get("message")).get("parts"), list) or "systemPayload" in record


class _Session(Outline):
    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self._titles: dict[int, str] = {}
        self._cwd = ""
        self._named = ""
        super().__init__(path, problems)

    def node(self, value: Mapping[str, Json]) -> Node:
        if value.get("subtype") == "custom_title":
            self._titles[len(self.nodes)] = words(mapping(value.get("systemPayload")).get("customTitle")).strip()
        self._cwd = self._cwd or words(value.get("cwd"))
        self._named = self._named or words(value.get("sessionId"))
        parent = value.get("parentUuid", "")
        spoken = value.get("type") in ("user", "assistant")
        return Node(words(value.get("uuid")), None if parent is None else words(parent), spoken)

    def time(self, value: Mapping[str, Json]) -> str:
        return moment(value.get("timestamp"))

    @property
    def native_id(self) -> str:
        """The file's name is what it is resumed by."""
        return column_text(self.path.stem or self._named)

    def fields(self, line: Sequence[int]) -> SessionFields:
        title = next((self._titles[place] for place in reversed(line) if self._titles.get(place)), "")
        return {"agent_title": title, "cwd": self._cwd}

    def teller(self) -> Teller:
        return _Telling().entry


class _Telling:
    """The records of one branch: how long a call took stands in a record of its own, which does not name the call."""

    def __init__(self) -> None:
        self._asked: dict[bytes, list[str]] = {}
        self._took: dict[str, int] = {}

    def entry(self, value: Json) -> NewEntry:
        record = mapping(value)
        kind, subtype = words(record.get("type")), words(record.get("subtype"))
        parts = parts_of(mapping(record.get("message")).get("parts"))
        if kind == "user":
            return _prompt(record, subtype, parts)
        if kind == "assistant":
            self._ask(parts)
            return _answer(record, parts)
        if kind == "tool_result":
            return self._result(record, parts)
        if kind == "system":
            payload = mapping(record.get("systemPayload"))
            self._measure(mapping(payload.get("uiEvent")))
            return _system(subtype, payload)
        return NewEntry(kind="unknown", parts=(Opaque(kind, value),))

    def _ask(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if isinstance(part, ToolCall):
                self._asked.setdefault(_key(part.name, part.arguments), []).append(part.id)

    def _measure(self, event: Mapping[str, Json]) -> None:
        waiting = self._asked.get(_key(words(event.get("function_name")), event.get("function_args")), [])
        if event.get("event.name") == "qwen-code.tool_call" and waiting and count(event.get("duration_ms")):
            self._took[waiting.pop(0)] = count(event.get("duration_ms"))

    def _result(self, record: Mapping[str, Json], parts: Sequence[Part]) -> NewEntry:
        told = mapping(record.get("toolCallResult"))
        broken = told.get("status") in ("error", "cancelled")
        results = [self._ended(part, broken) if isinstance(part, ToolResult) else part for part in parts]
        if not results and isinstance(call := told.get("callId"), str):
            results = [self._ended(ToolResult(call, told.get("resultDisplay")), broken)]
        return NewEntry(role="tool", parts=tuple(results), prompt=False)

    def _ended(self, result: ToolResult, broken: bool) -> ToolResult:
        took = self._took.pop(result.call_id, None)
        return replace(result, is_error=result.is_error or broken, duration_ms=took)


def _key(name: str, arguments: Json) -> bytes:
    return encode_derived([name, arguments])


def _prompt(record: Mapping[str, Json], subtype: str, parts: tuple[Part, ...]) -> NewEntry:
    said = typed(parts)
    source = record.get("provenance", "real_user")
    if subtype not in _TYPED or source != "real_user" or is_injected(said):
        shown = words(mapping(record.get("systemPayload")).get("displayText")) or said
        return NewEntry(role="user", parts=parts, text=shown, prompt=False, author=subtype)
    return NewEntry(role="user", parts=parts, text=said)


def _answer(record: Mapping[str, Json], parts: tuple[Part, ...]) -> NewEntry:
    return NewEntry(
        role="assistant",
        parts=parts,
        model=words(record.get("model")),
        message_key=words(record.get("uuid")),
        tokens=_tokens(mapping(record.get("usageMetadata"))),
    )


def _tokens(usage: Mapping[str, Json]) -> Tokens | None:
    """Some providers count thoughts among what is answered; the total tells."""
    if not usage:
        return None
    given, answered, thought = (
        count(usage.get(name)) for name in ("promptTokenCount", "candidatesTokenCount", "thoughtsTokenCount")
    )
    within = given + answered + thought > count(usage.get("totalTokenCount")) > 0
    return tokens_of(given, usage.get("cachedContentTokenCount"), answered, 0 if within else thought)


def _system(subtype: str, payload: Mapping[str, Json]) -> NewEntry:
    if subtype == "chat_compression":
        history = [typed(parts_of(mapping(one).get("parts"))) for one in items(payload.get("compressedHistory"))]
        return NewEntry(kind="compaction", text=next(filter(None, history), ""))
    told = payload.get("customTitle") or payload.get("rawCommand") or payload.get("displayText")
    return NewEntry(kind="event", text=readable(told) or subtype)
