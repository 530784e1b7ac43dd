"""This module reads Copilot CLI transcripts."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
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
    readable_text,
)
from store.model.session import SessionFields
from store.sources.copilot.usage import read_usage
from store.sources.kit import jsonl
from store.sources.kit.jsonl import as_count, as_dict, as_list, as_str, as_time
from store.sources.kit.record_tree import EntryParser, RecordTree, RecordTreeReader
from store.sources.kit.stamps import digest
from store.sources.kit.transcripts import Branch, Node
from store.text.validate import replace_surrogates

_MAX_SEEN_THOUGHTS = 100
"""Limits the thoughts that are remembered. The event and the message that hold the same thought are neighbours."""

_EXIT_CODE_NOTE = re.compile(r"\n?<shellId: \S+ completed with exit code (-?\d+)>\s*$")
_EVENT_TEXT_FIELDS = "message title newModel selectedModel agentDisplayName agentName name reason".split()
_KNOWN_EVENT_PREFIXES = (
    "session",
    "system",
    "assistant",
    "tool",
    "hook",
    "subagent",
    "skill",
    "abort",
    "user",
    "permission",
)


# ── the sessions ──────────────────────────────────────────────────────────────────────────────────


class CopilotRecordTree(RecordTree):
    carried = ("call_by_agent_id", "has_usage")

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._nodes_by_agent: dict[str, list[int]] = {"": []}
        self._agent_of_node: dict[int, str] = {}
        self.call_by_agent_id: dict[str, str] = {}
        self._agent_names: dict[str, str] = {}
        self._calling_nodes: dict[str, int] = {}
        self.has_usage = False
        "Is set when model calls have records of their own, which count their tokens."

    def is_header(self, value: Mapping[str, Json]) -> bool:
        if value.get("type") != "session.start":
            return False
        start = as_dict(value.get("data"))
        cwd = as_str(as_dict(start.get("context")).get("cwd"))
        self.fields |= {"cwd": cwd, "model": as_str(start.get("selectedModel"))}
        return True

    def parse_node(self, value: Mapping[str, Json]) -> Node:
        kind, data = as_str(value.get("type")), as_dict(value.get("data"))
        sub_agent = _find_sub_agent(value, self.call_by_agent_id)
        self._nodes_by_agent.setdefault(sub_agent, []).append(len(self.nodes))
        self._agent_of_node[len(self.nodes)] = sub_agent
        for request in map(as_dict, as_list(data.get("toolRequests"))):
            self._calling_nodes.setdefault(as_str(request.get("toolCallId")), len(self.nodes))
        if kind == "subagent.started":
            self._agent_names[as_str(data.get("toolCallId"))] = readable_text(
                data.get("agentDisplayName") or data.get("agentName")
            )
        elif kind == "session.title_changed":
            self.node_fields[len(self.nodes)] = {"agent_title": as_str(data.get("title"))}
        elif kind == "system.message" and not sub_agent:
            self.node_fields[len(self.nodes)] = {"system_prompt": as_str(data.get("content"))}
        elif kind == "session.usage_record" and not self.has_usage:
            self.has_usage = self.changes_past = True
        return Node("", "", kind in ("user.message", "assistant.message"))

    def parse_time(self, value: Mapping[str, Json]) -> str:
        started = as_dict(value.get("data")).get("startTime") if value.get("type") == "session.start" else None
        return as_time(started) or as_time(value.get("timestamp"))

    def branches(self) -> list[Branch]:
        """Return the session's own events and those of each sub-agent as branches. The events form no tree."""
        return [Branch(name, own) for name, own in self._nodes_by_agent.items()]

    def sub_agent_fields(self, name: str) -> SessionFields:
        """Return the fields that link a sub-agent to the call that started it. Another sub-agent may have called."""
        calling_node = self._calling_nodes.get(name)
        caller = (
            ""
            if calling_node is None or self._agent_of_node[calling_node] == name
            else self._agent_of_node[calling_node]
        )
        fields: SessionFields = {"parent_id": Branch(caller).native_id(self.native_id), "relation": "delegate"}
        if calling_node is not None and calling_node in self._nodes_by_agent[caller]:
            fields["forked_at"] = self._nodes_by_agent[caller].index(calling_node)
        return fields

    @property
    def native_id(self) -> str:
        start = as_dict(as_dict(self.header_line.value).get("data")) if self.header_line else {}
        name = self.path.parent.name if self.path.name == "events.jsonl" else self.path.stem
        return replace_surrogates(as_str(start.get("sessionId")) or name)

    def session_fields(self, nodes: Sequence[int]) -> SessionFields:
        workspace = _read_workspace(self.path.with_name("workspace.yaml"))
        fields = super().session_fields(nodes)
        fields["cwd"] = fields.get("cwd") or workspace.get("cwd", "")
        if sub_agent := self._agent_of_node.get(nodes[0], "") if nodes else "":
            return fields | {"agent_title": self._agent_names.get(sub_agent, "")}
        if title := workspace.get("name") or workspace.get("summary"):
            fields["agent_title"] = title
        return fields

    def entry_parser(self) -> EntryParser:
        return _CopilotEntryParser(self.has_usage)


def _find_sub_agent(event: Mapping[str, Json], agents: dict[str, str]) -> str:
    """Return the call that started the sub-agent of an event. It is empty for the session's own events."""
    data = as_dict(event.get("data"))
    agent, call = as_str(event.get("agentId") or data.get("agentId")), as_str(data.get("toolCallId"))
    if as_str(event.get("type")).startswith("subagent."):
        if agent and call:
            agents[agent] = call
        return as_str(data.get("parentToolCallId"))
    return as_str(data.get("parentToolCallId")) or agents.get(agent, "")


def _read_workspace(path: Path) -> dict[str, str]:
    """Return the names and values of a simple YAML file. Values of several lines are left out."""
    try:
        with jsonl.open_file(path) as file:
            text = file.read(65_536).decode("utf-8", "replace")
    except jsonl.PATH_ERRORS:
        return {}
    pairs = (line.partition(": ") for line in text.splitlines() if line[:1].strip())
    values = {name: _unquote(value.strip()) for name, colon, value in pairs if colon}
    return {name: value for name, value in values.items() if not value.startswith(("|", ">"))}


def _unquote(value: str) -> str:
    if value[:1] == value[-1:] == '"' and len(value) > 1:
        try:
            return as_str(jsonl.parse_json(value.encode("utf-8", "replace"))) or value[1:-1]
        except BadValue:
            return value[1:-1]
    return value[1:-1].replace("''", "'") if value[:1] == value[-1:] == "'" and len(value) > 1 else value


class CopilotReader(RecordTreeReader):
    def stamp_file(self, path: Path) -> str:
        return f"{jsonl.plain_file_stamp(path)} {jsonl.plain_file_stamp(path.with_name('workspace.yaml'))}"

    def find_origin(self, outline: RecordTree, branch: Branch) -> tuple[list[int], SessionFields]:
        return [], outline.sub_agent_fields(branch.name) if branch.name and isinstance(
            outline, CopilotRecordTree
        ) else {}


# ── the events ────────────────────────────────────────────────────────────────────────────────────


class _CopilotEntryParser(EntryParser):
    """Converts the events of one session to entries, in order. A call has three events: request, start and end."""

    carried = ("model", "requested_calls", "started_calls", "seen_thoughts")

    def __init__(self, has_usage: bool) -> None:
        self._has_usage = has_usage
        self.model = ""
        self.requested_calls: list[str] = []
        "Holds the calls that have not ended."
        self.started_calls: dict[str, tuple[str, str]] = {}
        "Maps calls that have not ended to the tool and the time when they started."
        self.seen_thoughts: list[str] = []
        "Holds digests of the latest thoughts."

    def read_entry(self, value: Json) -> NewEntry:
        event = as_dict(value)
        kind, data = as_str(event.get("type")), as_dict(event.get("data"))
        self.model = as_str(data.get("newModel")) or as_str(data.get("selectedModel")) or self.model
        match kind:
            case "user.message":
                return _parse_prompt(data)
            case "assistant.message":
                return self._parse_answer(data)
            case "assistant.reasoning":
                return self._parse_reasoning(data)
            case "tool.execution_start":
                return self._parse_tool_start(data, as_str(event.get("timestamp")))
            case "tool.execution_complete":
                return self._parse_tool_complete(data, as_str(event.get("timestamp")))
            case "session.usage_record":
                return _parse_usage(event, as_dict(data.get("usage")))
            case "session.shutdown":
                return self._parse_shutdown(data)
            case "session.compaction_complete" if as_str(data.get("summaryContent")):
                return NewEntry(kind="compaction", text=as_str(data.get("summaryContent")))
            case "session.error":
                return NewEntry(role="system", parts=(Text(as_str(data.get("message"))),), activity="failed")
            case "permission.requested":
                return NewEntry(kind="event", text=_event_text(data) or kind, activity="waiting")
            case "permission.completed":
                return NewEntry(kind="event", text=_event_text(data) or kind, activity="working")
        if kind.partition(".")[0] in _KNOWN_EVENT_PREFIXES:
            return NewEntry(kind="event", text=_event_text(data) or kind)
        return NewEntry(kind="unknown", parts=(Opaque(kind, value),))

    def _parse_answer(self, data: Mapping[str, Json]) -> NewEntry:
        parts: list[Part] = [Thinking(thought) for thought in self._take_new_thoughts(data.get("reasoningText"))]
        if text := as_str(data.get("content")):
            parts.append(Text(text))
        for request in map(as_dict, as_list(data.get("toolRequests"))):
            call = ToolCall(as_str(request.get("toolCallId")), as_str(request.get("name")), _parse_arguments(request))
            self.requested_calls.append(call.id)
            parts.append(call)
        output_tokens = as_count(data.get("outputTokens"))
        return NewEntry(
            role="assistant",
            parts=tuple(parts),
            model=as_str(data.get("model")) or self.model,
            message_key=as_str(data.get("apiCallId")) or as_str(data.get("messageId")),
            tokens=Tokens(output=output_tokens) if output_tokens and not self._has_usage else None,
        )

    def _take_new_thoughts(self, thought: Json) -> list[str]:
        """Return a thought unless it was seen already. It may be in an event of its own and in the message too."""
        if not isinstance(thought, str) or not thought.strip() or (seen := digest(thought)) in self.seen_thoughts:
            return []
        self.seen_thoughts = [*self.seen_thoughts[-_MAX_SEEN_THOUGHTS:], seen]
        return [thought]

    def _parse_reasoning(self, data: Mapping[str, Json]) -> NewEntry:
        thoughts = self._take_new_thoughts(data.get("content"))
        if not thoughts:
            return NewEntry(kind="event")
        return NewEntry(role="assistant", parts=(Thinking(thoughts[0]),), model=self.model)

    def _parse_tool_start(self, data: Mapping[str, Json], time: str) -> NewEntry:
        call, name = as_str(data.get("toolCallId")), as_str(data.get("toolName"))
        self.started_calls[call] = name, time
        if call in self.requested_calls:
            return NewEntry(kind="event", text=name)
        parts = (ToolCall(call, name, _parse_arguments(data)),)
        return NewEntry(role="assistant", parts=parts, model=as_str(data.get("model")) or self.model)

    def _parse_tool_complete(self, data: Mapping[str, Json], time: str) -> NewEntry:
        call = as_str(data.get("toolCallId"))
        name, started = self.started_calls.pop(call, ("", ""))
        if call in self.requested_calls:
            self.requested_calls.remove(call)
        output = _parse_output(data)
        exit_note = _EXIT_CODE_NOTE.search(output) if isinstance(output, str) else None
        code = as_dict(data.get("shellExecution")).get("exitCode", exit_note.group(1) if exit_note else 0)
        failed = data.get("success") is False or code not in (0, "0", None)
        text = output[: exit_note.start()] if exit_note else output
        return NewEntry(
            role="tool", parts=(ToolResult(call, text, failed, name, _duration_ms(started, time)),), is_prompt=False
        )

    def _parse_shutdown(self, data: Mapping[str, Json]) -> NewEntry:
        """Return an event with the input tokens of the run. Older versions reported them only at the end of a run."""
        tokens = None
        if not self._has_usage:
            usages = [as_dict(as_dict(metrics).get("usage")) for metrics in as_dict(data.get("modelMetrics")).values()]
            counts = [_parse_tokens(usage)._replace(output=0) for usage in usages]
            tokens = Tokens(*map(sum, zip(*counts, strict=True))) if any(count.total for count in counts) else None
        kind = as_str(data.get("shutdownType"))
        return NewEntry(kind="event", text=kind, tokens=tokens, activity="failed" if kind == "error" else "ended")


def _parse_prompt(data: Mapping[str, Json]) -> NewEntry:
    """Return the prompt as it was typed. A message that a skill or the program wrote has a source."""
    attachments = [_parse_attachment(as_dict(attachment)) for attachment in as_list(data.get("attachments"))]
    source = as_str(data.get("source"))
    return NewEntry(
        role="user",
        parts=(Text(as_str(data.get("content"))), *attachments),
        author=source,
        is_prompt=source in ("", "user"),
    )


def _parse_attachment(attachment: Mapping[str, Json]) -> Attachment:
    name, path = as_str(attachment.get("displayName")), as_str(attachment.get("path"))
    return Attachment(
        as_str(attachment.get("mimeType")) or as_str(attachment.get("type")) or "file", name or path, uri=path
    )


def _parse_usage(event: Mapping[str, Json], usage: Mapping[str, Json]) -> NewEntry:
    """Return an event with the tokens of a model call."""
    return NewEntry(
        kind="event",
        text=as_str(usage.get("model")),
        message_key=as_str(usage.get("apiCallId")),
        tokens=_parse_tokens(usage),
        usage=read_usage(event),
    )


def _parse_tokens(usage: Mapping[str, Json]) -> Tokens:
    """Return the tokens of model calls. Copilot's input tokens include those read from a cache or written to one."""
    names = ("input", "output", "cacheRead", "cacheWrite")
    prompt, output, reads, writes = (as_count(usage.get(f"{name}Tokens")) for name in names)
    return Tokens(max(prompt - reads - writes, 0), output, reads, writes)


def _parse_arguments(call: Mapping[str, Json]) -> Json:
    arguments = call.get("arguments")
    if not isinstance(arguments, str):
        return arguments
    try:
        return jsonl.parse_json(arguments.encode("utf-8", "replace"))
    except BadValue:
        return arguments


def _parse_output(data: Mapping[str, Json]) -> Json:
    result = data.get("result")
    content = as_dict(result).get("content", result)
    if content is None:
        content = as_dict(data.get("error")).get("message", data.get("error"))
    return content


def _duration_ms(started: str, ended: str) -> float | None:
    """Return the time between two events; None when one has no time, or the clock was set back between them."""
    try:
        duration = (datetime.fromisoformat(ended) - datetime.fromisoformat(started)).total_seconds() * 1000
    except (ValueError, TypeError):
        return None
    return duration if duration >= 0 else None


def _event_text(data: Mapping[str, Json]) -> str:
    return next((text for text in (as_str(data.get(name)) for name in _EVENT_TEXT_FIELDS) if text), "")
