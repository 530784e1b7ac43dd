"""GitHub Copilot CLI: one file of events per session. What a sub-agent does stands among them, and is told apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from store.errors import BadValue
from store.model.entry import (
    Attachment,
    Json,
    NewEntry,
    Opaque,
    Part,
    Text,
    Thinking,
    Tokens,
    ToolCall,
    ToolResult,
    readable,
)
from store.model.session import Session, SessionFields
from store.sources.contract import Continuing, Problem
from store.sources.kit import homes, jsonl
from store.sources.kit.jsonl import count, items, mapping, moment, words
from store.sources.kit.record_tree import Outline, Teller, Trees
from store.sources.kit.transcripts import Branch, Layout, Node, first_value
from store.text.validate import column_text

NAME = "copilot"
LABEL = "Copilot CLI"
READER = 1
LOCAL_IDS = False

_SKIPPING = ("--allow-all-tools",)
_INSTALL = "npm install -g @github/copilot"
_ENDED = re.compile(r"\n?<shellId: \S+ completed with exit code (-?\d+)>\s*$")
_TELLING = "message title newModel selectedModel agentDisplayName agentName name reason".split()
_KNOWN = ("session", "system", "assistant", "tool", "hook", "subagent", "skill", "abort", "user", "permission")


def _is_transcript(path: Path) -> bool:
    return path.name == "events.jsonl" or (path.parent.name == "session-state" and path.suffix == ".jsonl")


_LAYOUT = Layout(("session-state",), depth=1, suffixes=(".jsonl", "workspace.yaml"), among=_is_transcript)

roots = homes.copilot


def detect(locator: str) -> bool:
    return _LAYOUT.holds(locator, lambda path: _is_event(first_value(path)))


stamp = _LAYOUT.stamp


@contextmanager
def open(locator: str) -> Iterator[Copilot]:  # noqa: A001 the shape's own word
    yield Copilot(Path(locator), _LAYOUT, _Session)


def resume(session: Session) -> Continuing:
    native, _, agent = session.native_id.partition("/")
    if agent:
        hint = f"Copilot CLI cannot go on with a sub-agent; `copilot --resume {native}` goes on with its session."
        return Continuing(None, cwd=session.cwd, hint=hint)
    return Continuing(("copilot", "--resume", native), session.cwd, skipping=_SKIPPING, install=_INSTALL)


def git_branch(record: Json) -> str:
    """Of the events that open a session, and open it again."""
    return words(mapping(mapping(mapping(record).get("data")).get("context")).get("branch"))


def _is_event(value: Json) -> bool:
    event = mapping(value)
    return isinstance(event.get("data"), dict) and {"type", "id", "timestamp", "parentId"} <= event.keys()


# ── a session in outline ──────────────────────────────────────────────────────────────────────────


class _Session(Outline):
    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self._groups: dict[str, list[int]] = {"": []}
        self._group_of: list[str] = []
        self._agents: dict[str, str] = {}
        self._named: dict[str, str] = {}
        self._asked: dict[str, int] = {}
        self._title = ""
        self._model = ""
        self._prompt = ""
        self._context: Mapping[str, Json] = {}
        self._has_usage = False
        super().__init__(path, problems)

    def is_head(self, value: Mapping[str, Json]) -> bool:
        if value.get("type") != "session.start":
            return False
        start = mapping(value.get("data"))
        self._context, self._model = mapping(start.get("context")), words(start.get("selectedModel"))
        return True

    def node(self, value: Mapping[str, Json]) -> Node:
        kind, data = words(value.get("type")), mapping(value.get("data"))
        group = _sub_agent(value, self._agents)
        self._groups.setdefault(group, []).append(len(self.nodes))
        self._group_of.append(group)
        for request in map(mapping, items(data.get("toolRequests"))):
            self._asked.setdefault(words(request.get("toolCallId")), len(self.nodes))
        if kind == "subagent.started":
            self._named[words(data.get("toolCallId"))] = readable(data.get("agentDisplayName") or data.get("agentName"))
        elif kind == "session.title_changed":
            self._title = words(data.get("title"))
        elif kind == "system.message" and not group:
            self._prompt = words(data.get("content"))
        self._has_usage = self._has_usage or kind == "session.usage_record"
        return Node(words(value.get("id")), "", kind in ("user.message", "assistant.message"))

    def time(self, value: Mapping[str, Json]) -> str:
        started = mapping(value.get("data")).get("startTime") if value.get("type") == "session.start" else None
        return moment(started) or moment(value.get("timestamp"))

    def branches(self) -> list[Branch]:
        """Not of a tree: the session's own events, and those of each of its sub-agents."""
        return [Branch(name, own) for name, own in self._groups.items()]

    def origin(self, name: str) -> SessionFields:
        """A sub-agent hangs on the call that started it, which may be another sub-agent's."""
        asked = self._asked.get(name)
        caller = "" if asked is None or self._group_of[asked] == name else self._group_of[asked]
        fields: SessionFields = {"parent_id": Branch(caller).native_id(self.native_id), "relation": "delegate"}
        if asked is not None and asked in self._groups[caller]:
            fields["forked_at"] = self._groups[caller].index(asked)
        return fields

    @classmethod
    def stamp(cls, path: Path) -> str:
        return f"{jsonl.file_digest_stamp(path)} {jsonl.file_digest_stamp(path.with_name('workspace.yaml'))}"

    @property
    def native_id(self) -> str:
        start = mapping(mapping(self.head.value).get("data")) if self.head else {}
        in_name = self.path.parent.name if self.path.name == "events.jsonl" else self.path.stem
        return column_text(words(start.get("sessionId")) or in_name)

    def fields(self, line: Sequence[int]) -> SessionFields:
        workspace = _workspace(self.path.with_name("workspace.yaml"))
        group = self._group_of[line[0]] if line else ""
        title = workspace.get("name") or workspace.get("summary") or self._title
        return {
            "agent_title": self._named.get(group, "") if group else title,
            "cwd": words(self._context.get("cwd")) or workspace.get("cwd", ""),
            "model": self._model,
            "system_prompt": "" if group else self._prompt,
        }

    def teller(self) -> Teller:
        return _Telling(self._has_usage).entry


def _sub_agent(event: Mapping[str, Json], agents: dict[str, str]) -> str:
    """The call that started the sub-agent whose event it is; empty for the session's own."""
    data = mapping(event.get("data"))
    agent, call = words(event.get("agentId") or data.get("agentId")), words(data.get("toolCallId"))
    if words(event.get("type")).startswith("subagent."):
        if agent and call:
            agents[agent] = call
        return words(data.get("parentToolCallId"))
    return words(data.get("parentToolCallId")) or agents.get(agent, "")


def _workspace(path: Path) -> dict[str, str]:
    """Names and values, one a line; a value of several lines is left out."""
    try:
        with jsonl.opened(path) as file:
            spelled = file.read(65_536).decode("utf-8", "replace")
    except jsonl.UNREADABLE:
        return {}
    pairs = (line.partition(": ") for line in spelled.splitlines() if line[:1].strip())
    told = {name: _unquoted(value.strip()) for name, colon, value in pairs if colon}
    return {name: value for name, value in told.items() if not value.startswith(("|", ">"))}


def _unquoted(value: str) -> str:
    if value[:1] == value[-1:] == '"' and len(value) > 1:
        try:
            return words(jsonl.parsed(value.encode("utf-8", "replace"))) or value[1:-1]
        except BadValue:
            return value[1:-1]
    return value[1:-1].replace("''", "'") if value[:1] == value[-1:] == "'" and len(value) > 1 else value


class Copilot(Trees):
    def origin(self, outline: Outline, branch: Branch) -> tuple[list[int], SessionFields]:
        return [], outline.origin(branch.name) if branch.name and isinstance(outline, _Session) else {}


# ── the events ────────────────────────────────────────────────────────────────────────────────────


class _Telling:
    """The events of one line, in order: a call is asked for, started and ended in three of them."""

    def __init__(self, has_usage: bool) -> None:
        self._has_usage = has_usage
        self._model = ""
        self._asked: set[str] = set()
        self._started: dict[str, tuple[str, str]] = {}
        self._thoughts: set[str] = set()

    def entry(self, value: Json) -> NewEntry:
        event = mapping(value)
        kind, data = words(event.get("type")), mapping(event.get("data"))
        self._model = words(data.get("newModel")) or words(data.get("selectedModel")) or self._model
        match kind:
            case "user.message":
                return _prompt(data)
            case "assistant.message":
                return self._answer(data)
            case "assistant.reasoning":
                return self._reasoning(data)
            case "tool.execution_start":
                return self._start(data, words(event.get("timestamp")))
            case "tool.execution_complete":
                return self._complete(data, words(event.get("timestamp")))
            case "session.usage_record":
                return _usage(mapping(data.get("usage")))
            case "session.shutdown":
                return self._shutdown(data)
            case "session.compaction_complete" if words(data.get("summaryContent")):
                return NewEntry(kind="compaction", text=words(data.get("summaryContent")))
            case "session.error":
                return NewEntry(role="system", parts=(Text(words(data.get("message"))),))
        if kind.partition(".")[0] in _KNOWN:
            return NewEntry(kind="event", text=_told(data) or kind)
        return NewEntry(kind="unknown", parts=(Opaque(kind, value),))

    def _answer(self, data: Mapping[str, Json]) -> NewEntry:
        parts: list[Part] = [Thinking(thought) for thought in self._fresh_thoughts(data.get("reasoningText"))]
        if said := words(data.get("content")):
            parts.append(Text(said))
        for request in map(mapping, items(data.get("toolRequests"))):
            call = ToolCall(words(request.get("toolCallId")), words(request.get("name")), _arguments(request))
            self._asked.add(call.id)
            parts.append(call)
        told = count(data.get("outputTokens"))
        return NewEntry(
            role="assistant",
            parts=tuple(parts),
            model=words(data.get("model")) or self._model,
            message_key=words(data.get("apiCallId")) or words(data.get("messageId")),
            tokens=Tokens(output=told) if told and not self._has_usage else None,
        )

    def _fresh_thoughts(self, thought: Json) -> list[str]:
        """Reasoning may stand in an event of its own and in the message too."""
        told = [thought] if isinstance(thought, str) and thought.strip() and thought not in self._thoughts else []
        self._thoughts.update(told)
        return told

    def _reasoning(self, data: Mapping[str, Json]) -> NewEntry:
        thoughts = self._fresh_thoughts(data.get("content"))
        if not thoughts:
            return NewEntry(kind="event")
        return NewEntry(role="assistant", parts=(Thinking(thoughts[0]),), model=self._model)

    def _start(self, data: Mapping[str, Json], at: str) -> NewEntry:
        call, name = words(data.get("toolCallId")), words(data.get("toolName"))
        self._started[call] = name, at
        if call in self._asked:
            return NewEntry(kind="event", text=name)
        parts = (ToolCall(call, name, _arguments(data)),)
        return NewEntry(role="assistant", parts=parts, model=words(data.get("model")) or self._model)

    def _complete(self, data: Mapping[str, Json], at: str) -> NewEntry:
        call = words(data.get("toolCallId"))
        name, began = self._started.pop(call, ("", ""))
        output = _output(data)
        ended = _ENDED.search(output) if isinstance(output, str) else None
        code = mapping(data.get("shellExecution")).get("exitCode", ended.group(1) if ended else 0)
        failed = data.get("success") is False or code not in (0, "0", None)
        shown = output[: ended.start()] if ended else output
        return NewEntry(role="tool", parts=(ToolResult(call, shown, failed, name, _took(began, at)),), prompt=False)

    def _shutdown(self, data: Mapping[str, Json]) -> NewEntry:
        """Before every model call was recorded, only the end of a run told what had been given to the model."""
        tokens = None
        if not self._has_usage:
            usages = [mapping(mapping(told).get("usage")) for told in mapping(data.get("modelMetrics")).values()]
            given = sum(count(usage.get("inputTokens")) for usage in usages)
            cached = sum(count(usage.get("cacheReadTokens")) for usage in usages)
            tokens = Tokens(max(given - cached, 0), 0, cached) if given else None
        return NewEntry(kind="event", text=words(data.get("shutdownType")), tokens=tokens)


def _prompt(data: Mapping[str, Json]) -> NewEntry:
    """As it was typed; what a skill or the program says in the person's name has a source."""
    attached = [_attachment(mapping(one)) for one in items(data.get("attachments"))]
    source = words(data.get("source"))
    return NewEntry(
        role="user",
        parts=(Text(words(data.get("content"))), *attached),
        author=source,
        prompt=source in ("", "user"),
    )


def _attachment(told: Mapping[str, Json]) -> Attachment:
    name, path = words(told.get("displayName")), words(told.get("path"))
    return Attachment(words(told.get("mimeType")) or words(told.get("type")) or "file", name or path, uri=path)


def _usage(usage: Mapping[str, Json]) -> NewEntry:
    """Of all that was given some came from a cache."""
    cached = count(usage.get("cacheReadTokens"))
    return NewEntry(
        kind="event",
        text=words(usage.get("model")),
        message_key=words(usage.get("apiCallId")),
        tokens=Tokens(max(count(usage.get("inputTokens")) - cached, 0), count(usage.get("outputTokens")), cached),
    )


def _arguments(told: Mapping[str, Json]) -> Json:
    given = told.get("arguments")
    if not isinstance(given, str):
        return given
    try:
        return jsonl.parsed(given.encode("utf-8", "replace"))
    except BadValue:
        return given


def _output(data: Mapping[str, Json]) -> Json:
    result = data.get("result")
    content = mapping(result).get("content", result)
    if content is None:
        content = mapping(data.get("error")).get("message", data.get("error"))
    return content


def _took(began: str, ended: str) -> float | None:
    try:
        return (datetime.fromisoformat(ended) - datetime.fromisoformat(began)).total_seconds() * 1000
    except (ValueError, TypeError):
        return None


def _told(data: Mapping[str, Json]) -> str:
    return next((said for said in (words(data.get(name)) for name in _TELLING) if said), "")
