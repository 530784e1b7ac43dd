"""This module writes a document as a trajectory in the Agent Trajectory Interchange Format (ATIF), version 1.8.

Each entry becomes a step. The results of its calls are the observation of the same step, as the format asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from store.export.document import (
    CallBlock,
    Document,
    FileMention,
    Item,
    Notice,
    Picture,
    SpokenText,
    SubAgentBlock,
    ThoughtText,
)
from store.model.entry import Entry, Json
from store.text.validate import serialize

SCHEMA_VERSION = "ATIF-v1.8"
PICTURE_LEFT_OUT = "ATIF names files of pictures, and does not hold their content"

_SOURCES = {"user": "user", "assistant": "agent"}
_UNKNOWN_VERSION = "unknown"

Step = dict[str, Any]


def write_atif(document: Document) -> Iterator[str]:
    """Yield the file up to the value of `extra.receipt`, which `end_atif` writes."""
    sub_agents: list[Json] = []
    yield f'{{"schema_version":"{SCHEMA_VERSION}",{_dump(_describe(document))[1:-1]},"steps":[\n'
    for number, step in enumerate(_iter_steps(document, sub_agents), 1):
        yield (",\n" if number > 1 else "") + _dump({"step_id": number, **step})
    yield "\n]"
    if sub_agents:
        yield f',"subagent_trajectories":{_dump(sub_agents)}'
    yield ',"extra":{"receipt":'


def end_atif(receipt: str) -> str:
    return f"{receipt}}}}}\n"


def _dump(value: Json) -> str:
    return serialize(value).decode()


def _describe(document: Document) -> dict[str, Any]:
    session = document.session
    agent = {"name": session.source, "version": _UNKNOWN_VERSION}
    return {
        "session_id": session.id,
        "trajectory_id": session.id,
        "agent": agent | ({"model_name": session.model} if session.model else {}),
        "notes": document.title,
    }


def _build_trajectory(document: Document) -> Json:
    sub_agents: list[Json] = []
    steps = [{"step_id": number, **step} for number, step in enumerate(_iter_steps(document, sub_agents), 1)]
    trajectory = {"schema_version": SCHEMA_VERSION, **_describe(document), "steps": steps}
    return trajectory | ({"subagent_trajectories": sub_agents} if sub_agents else {})


def _iter_steps(document: Document, sub_agents: list[Json]) -> Iterator[Step]:
    """Yield a step for each entry, and add the trajectories of sub-agents to the list."""
    for turn in document.turns:
        step: Step | None = None
        seq: int | None = None
        for item in turn.items:
            if isinstance(item, SubAgentBlock):
                sub_agents.append(_build_trajectory(item.document))
                step = step or _begin_step("system", "")
                _refer_to(step, item.document.session.id)
                continue
            if step is None or item.entry.seq != seq:
                if step is not None:
                    yield step
                step, seq = _begin_entry(item), item.entry.seq
            _add_item(document, step, item)
        if step is not None:
            yield step


def _begin_step(source: str, created_at: str) -> Step:
    step: Step = {"source": source, "message": ""}
    try:
        datetime.fromisoformat(created_at)
    except ValueError:
        return step
    return {"timestamp": created_at, **step}


def _begin_entry(item: SpokenText | ThoughtText | Picture | FileMention | CallBlock | Notice) -> Step:
    entry = item.entry
    is_said = not isinstance(item, Notice)
    step = _begin_step(_SOURCES.get(entry.role, "system") if is_said else "system", entry.created_at)
    if isinstance(item, CallBlock | ThoughtText):
        step["source"] = "agent"
    if entry.inherited:
        step["is_copied_context"] = True
    if step["source"] == "agent":
        step |= ({"model_name": entry.model} if entry.model else {}) | _format_metrics(entry)
    return step


def _format_metrics(entry: Entry) -> Step:
    tokens = entry.tokens
    if tokens is None:
        return {}
    metrics: Step = {
        "prompt_tokens": tokens.input + tokens.cached,
        "completion_tokens": tokens.output,
        "cached_tokens": tokens.cache_read,
    }
    extra = {"extra": {"cache_creation_input_tokens": tokens.cache_write}} if tokens.cache_write else {}
    return {"metrics": metrics | extra}


def _add_item(document: Document, step: Step, item: Item) -> None:
    match item:
        case SpokenText(_, _, text):
            _add_text(step, text)
        case ThoughtText(_, text) if step["source"] == "agent":
            step["reasoning_content"] = "\n\n".join(filter(None, [step.get("reasoning_content"), text]))
        case CallBlock() if step["source"] == "agent":
            _add_call(document, step, item)
        case CallBlock(_, _, name):
            _add_text(step, f"{name}\n{''.join(piece for piece in item.output if isinstance(piece, str))}")
        case Picture(_, media_type, _, name):
            document.left_out["picture", PICTURE_LEFT_OUT] += 1
            _add_text(step, f"[picture: {name or media_type}]")
        case FileMention(_, name):
            _add_text(step, f"[attachment: {name}]")
        case Notice(_, label, text):
            _add_text(step, f"{label}: {text}" if text else label)


def _add_text(step: Step, text: str) -> None:
    step["message"] = "\n\n".join(filter(None, [step["message"], text]))


def _add_call(document: Document, step: Step, block: CallBlock) -> None:
    call = block.call
    arguments = block.arguments if isinstance(block.arguments, dict) else {}
    if block.arguments is not None and not isinstance(block.arguments, dict):
        arguments = {"value": block.arguments}
    step.setdefault("tool_calls", []).append(
        {"tool_call_id": call.call_id, "function_name": block.name, "arguments": arguments}
    )
    if call.status == "pending":
        return
    document.left_out["picture", PICTURE_LEFT_OUT] += sum(isinstance(piece, Picture) for piece in block.output)
    content = "\n".join(piece for piece in block.output if isinstance(piece, str))
    failed = {"extra": {"is_error": True}} if call.status == "error" else {}
    results = step.setdefault("observation", {"results": []})["results"]
    results.append({"source_call_id": call.call_id, "content": content, **failed})


def _refer_to(step: Step, trajectory_id: str) -> None:
    """Name a sub-agent in the result of the last call, or in a result of its own if there is none."""
    results = step.setdefault("observation", {"results": []})["results"]
    if not results:
        results.append({})
    results[-1].setdefault("subagent_trajectory_ref", []).append({"trajectory_id": trajectory_id})
