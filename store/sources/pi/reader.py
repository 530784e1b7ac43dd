"""This module reads pi transcripts."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile

from store.model.entry import Attachment, Json, NewEntry, Opaque, Part, Text, Thinking, Tokens, ToolCall, ToolResult
from store.model.session import SessionFields
from store.sources.kit.jsonl import as_count, as_dict, as_list, as_str, as_time, cost_fields
from store.sources.kit.record_tree import EntryParser, RecordTree, RecordTreeReader
from store.sources.kit.transcripts import Branch, Node
from store.sources.pi.identity import find_native_id, find_parent
from store.sources.pi.source import Pi
from store.sources.pi.usage import read_usage

# ── the sessions ──────────────────────────────────────────────────────────────────────────────────


class PiRecordTree(RecordTree):
    def is_header(self, value: Mapping[str, Json]) -> bool:
        if is_header := Pi().is_mine(value):
            cwd, provider, model = (as_str(value.get(name)) for name in ("cwd", "provider", "modelId"))
            self.fields |= {"cwd": cwd, "provider": provider, "model": model}
        return is_header

    def parse_node(self, value: Mapping[str, Json]) -> Node:
        said: SessionFields = {}
        if name := as_str(value.get("name")).strip() if value.get("type") == "session_info" else "":
            said["agent_title"] = name
        if provider := as_str(as_dict(value.get("message")).get("provider")):
            said["provider"] = provider
        self.node_fields[len(self.nodes)] = said
        self.costs[len(self.nodes)] = _message_cost(as_dict(value.get("message")))
        # Version 1 has neither ids nor parents: each record follows the one before.
        parent = value.get("parentId", "")
        return Node(as_str(value.get("id")), None if parent is None else as_str(parent), value.get("type") == "message")

    def parse_time(self, value: Mapping[str, Json]) -> str:
        return as_time(value.get("timestamp")) or as_time(as_dict(value.get("message")).get("timestamp"))

    @property
    def header_fields(self) -> Mapping[str, Json]:
        return as_dict(self.header_line.value) if self.header_line else {}

    @property
    def native_id(self) -> str:
        return find_native_id(self.header_fields, self.path)

    def entry_parser(self) -> EntryParser:
        return _PiEntryParser()


def _message_cost(message: Mapping[str, Json]) -> float:
    return cost_fields(as_dict(as_dict(message.get("usage")).get("cost")).get("total")).get("cost", 0.0)


class PiReader(RecordTreeReader):
    def find_origin(self, outline: RecordTree, branch: Branch) -> tuple[list[int], SessionFields]:
        """Return the copied nodes and the link to the parent. A forked session has copies of another file's records."""
        header = as_dict(outline.header_line.value) if outline.header_line else {}
        parent_path, parent = find_parent(header)
        if branch.parent is not None or not parent or parent == outline.native_id:
            return super().find_origin(outline, branch)
        fields: SessionFields = {"parent_id": parent, "relation": "fork"}
        sibling = outline.path.with_name(parent_path.rpartition("/")[2])
        parent_tree = PiRecordTree(self.paths.get(parent, sibling)).read_file()
        parent_ids = {node.id for node in parent_tree.nodes if node.id}
        copied = list(takewhile(lambda node: outline.nodes[node].id in parent_ids, branch.own_nodes))
        shared = {outline.nodes[node].id for node in copied}
        chain = (parent_tree.find_branch("") or Branch()).own_nodes
        if positions := [position for position, node in enumerate(chain) if parent_tree.nodes[node].id in shared]:
            fields["forked_at"] = positions[-1]
        return copied, fields


# ── the records ───────────────────────────────────────────────────────────────────────────────────


class _PiEntryParser(EntryParser):
    def read_entry(self, value: Json) -> NewEntry:
        record = as_dict(value)
        kind = as_str(record.get("type"))
        if kind == "message":
            entry = _parse_message(as_dict(record.get("message")), as_str(record.get("id")))
            entry.usage = read_usage(record)
            return entry
        if kind == "compaction":
            return NewEntry(kind="compaction", text=as_str(record.get("summary")))
        if kind == "branch_summary":
            return NewEntry(role="system", parts=(Text(as_str(record.get("summary"))),))
        if kind == "custom_message":
            return _parse_custom_message(record)
        if kind in _EVENT_FIELDS:
            return NewEntry(
                kind="event", text=" ".join(filter(None, (as_str(record.get(key)) for key in _EVENT_FIELDS[kind])))
            )
        return NewEntry(kind="unknown", parts=(Opaque(kind, value),))


_EVENT_FIELDS = {
    "session": ("cwd",),
    "session_info": ("name",),
    "model_change": ("provider", "modelId"),
    "thinking_level_change": ("thinkingLevel",),
    "label": ("label",),
    "custom": ("customType",),
}


def _parse_message(message: Mapping[str, Json], record_id: str) -> NewEntry:
    role = as_str(message.get("role"))
    content = message.get("content")
    if role == "user":
        return NewEntry(role="user", parts=_parse_parts(content))
    if role == "assistant":
        return _parse_answer(message)
    if role == "toolResult":
        return _parse_result(message)
    if role == "bashExecution":
        return _parse_user_command(message, record_id)
    if role in ("custom", "hookMessage"):
        return _parse_custom_message(message)
    if role == "compactionSummary":
        return NewEntry(kind="compaction", text=as_str(message.get("summary")))
    if role == "branchSummary":
        return NewEntry(role="system", parts=(Text(as_str(message.get("summary"))),))
    return NewEntry(kind="unknown", parts=(Opaque(role, dict(message)),))


def _parse_answer(message: Mapping[str, Json]) -> NewEntry:
    parts = _parse_parts(message.get("content"))
    if failure := as_str(message.get("errorMessage")):
        parts += (Text(failure),)
    return NewEntry(
        role="assistant",
        parts=parts,
        model=as_str(message.get("model")),
        message_key=as_str(message.get("responseId")),
        tokens=_parse_tokens(as_dict(message.get("usage"))),
    )


def _parse_tokens(usage: Mapping[str, Json]) -> Tokens | None:
    names = ("input", "output", "cacheRead", "cacheWrite")
    return Tokens(*(as_count(usage.get(name)) for name in names)) if usage else None


def _parse_result(message: Mapping[str, Json]) -> NewEntry:
    parts = _parse_parts(message.get("content"))
    output = "\n".join([part.text for part in parts if isinstance(part, Text)])
    result = ToolResult(
        as_str(message.get("toolCallId")), output, bool(message.get("isError")), as_str(message.get("toolName"))
    )
    return NewEntry(role="tool", parts=(result, *(part for part in parts if not isinstance(part, Text))), text="")


def _parse_user_command(message: Mapping[str, Json], record_id: str) -> NewEntry:
    """Return a command that a person ran. The model gets it with the next prompt."""
    failed = bool(message.get("cancelled")) or message.get("exitCode") not in (0, None)
    call = ToolCall(record_id, "bash", {"command": message.get("command")})
    result = ToolResult(record_id, message.get("output"), failed, "bash")
    return NewEntry(role="user", parts=(call, result), is_prompt=False)


def _parse_custom_message(message: Mapping[str, Json]) -> NewEntry:
    """Return a message that an extension sent to the model."""
    author = as_str(message.get("customType"))
    return NewEntry(role="system", parts=_parse_parts(message.get("content")), author=author)


def _parse_parts(content: Json) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),)
    if not isinstance(content, list):
        return () if content is None else (Opaque("", content),)
    return tuple(map(_parse_part, as_list(content)))


def _parse_part(block: Json) -> Part:
    fields = as_dict(block)
    kind = as_str(fields.get("type"))
    if kind == "text" and isinstance(text := fields.get("text"), str):
        return Text(text)
    if kind == "thinking" and isinstance(thought := fields.get("thinking"), str):
        return Thinking(thought, as_str(fields.get("thinkingSignature")))
    if kind == "toolCall":
        return ToolCall(as_str(fields.get("id")), as_str(fields.get("name")), fields.get("arguments"))
    if kind == "image" and isinstance(data := fields.get("data"), str):
        return Attachment(as_str(fields.get("mimeType")) or "image", size=len(data.rstrip("=")) * 3 // 4)
    return Opaque(kind, block)
