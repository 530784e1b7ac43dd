"""This module converts the steps of a trajectory to entries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from store.model.entry import Attachment, Json, NewEntry, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from store.sources.atif.usage import read_usage
from store.sources.kit.jsonl import as_dict, as_list, as_str
from store.sources.kit.usage import tokens_from_usage

_ROLES = {"user": "user", "agent": "assistant", "system": "system"}


def parse_step(step: Mapping[str, Json], default_model: str) -> Iterator[NewEntry]:
    """Yield the message of a step and, if there are any, its tool results."""
    role = _ROLES.get(as_str(step.get("source")))
    if role is None:
        yield NewEntry(kind="unknown", parts=(Opaque(as_str(step.get("source")), dict(step)),))
        return
    thinking = as_str(step.get("reasoning_content"))
    is_agent = role == "assistant"
    usage = read_usage(step)
    yield NewEntry(
        role=role,
        parts=(
            *((Thinking(thinking),) if thinking else ()),
            *_parse_content(step.get("message")),
            *(_parse_call(as_dict(call)) for call in as_list(step.get("tool_calls"))),
        ),
        model=(as_str(step.get("model_name")) or default_model) if is_agent else "",
        tokens=tokens_from_usage(usage),
        usage=usage,
    )
    if results := as_list(as_dict(step.get("observation")).get("results")):
        yield NewEntry(role="tool", parts=tuple(_parse_result(as_dict(result)) for result in results), is_prompt=False)


def sub_agent_ids(step: Mapping[str, Json]) -> Iterator[str]:
    """Yield the ids of the sub-agents' trajectories that a step started."""
    for result in as_list(as_dict(step.get("observation")).get("results")):
        for reference in as_list(as_dict(result).get("subagent_trajectory_ref")):
            yield as_str(as_dict(reference).get("trajectory_id"))


def _parse_content(content: Json) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content),) if content else ()
    return tuple(map(_parse_part, as_list(content)))


def _parse_part(part: Json) -> Part:
    fields = as_dict(part)
    if isinstance(text := fields.get("text"), str):
        return Text(text)
    source = as_dict(fields.get("source"))
    if path := as_str(source.get("path")):
        media_type = as_str(source.get("media_type")) or as_str(fields.get("type"))
        return Attachment(media_type, path.rpartition("/")[2], uri=path)
    return Opaque(as_str(fields.get("type")), part)


def _parse_call(call: Mapping[str, Json]) -> ToolCall:
    return ToolCall(as_str(call.get("tool_call_id")), as_str(call.get("function_name")), call.get("arguments"))


def _parse_result(result: Mapping[str, Json]) -> Part:
    """Return the result of a call. An observation without a call is a text from the environment."""
    content = result.get("content")
    if call_id := as_str(result.get("source_call_id")):
        return ToolResult(call_id, content)
    return Text(content) if isinstance(content, str) else Opaque("observation", dict(result))
