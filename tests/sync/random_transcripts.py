"""This module writes random transcripts of agents: prompts, calls, rewinds, sub-agents, titles and broken lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

Record = dict[str, Any]
BROKEN_LINE = b'{"broken\n'


def write_transcript(agent: str, random: Random) -> list[bytes]:
    """Return the lines of a random transcript."""
    lines = [json.dumps(record).encode() + b"\n" for record in _WRITERS[agent](random)]
    if random.random() < 0.2:
        lines.insert(random.randint(1, len(lines)), BROKEN_LINE)
    return lines


def _time(seconds: int) -> str:
    return f"2026-05-01T10:{seconds // 60:02}:{seconds % 60:02}.000Z"


def _choose_parent(ids: list[str], random: Random) -> str | None:
    """Return the last record, or after a rewind any other one."""
    if not ids:
        return None
    return ids[-1] if random.random() < 0.88 else random.choice([*ids, None])


def _write_pi(random: Random) -> Iterator[Record]:
    yield {"type": "session", "id": "f1", "cwd": "/w", "provider": "first", "timestamp": _time(0)}
    ids: list[str] = []
    for number in range(1, random.randint(8, 30)):
        record: Record = {"id": f"n{number}", "parentId": _choose_parent(ids, random), "timestamp": _time(number)}
        call = {"type": "toolCall", "id": f"c{number}", "name": "bash", "arguments": {"command": "ls"}}
        match random.choice(["prompt", "prompt", "answer", "answer", "result", "title", "label", "unknown"]):
            case "prompt":
                record |= {"type": "message", "message": {"role": "user", "content": f"prompt {number}"}}
            case "answer":
                usage = {"input": 1, "output": 2, "cacheRead": 3, "cost": {"total": 0.25}}
                answer = {"role": "assistant", "content": [call], "provider": random.choice("ab"), "usage": usage}
                record |= {"type": "message", "message": answer}
            case "result":
                result = {"role": "toolResult", "toolCallId": f"c{number - 1}", "content": "done"}
                record |= {"type": "message", "message": result}
            case "title":
                record |= {"type": "session_info", "name": f"Title {number}"}
            case "label":
                record |= {"type": "label", "label": "here"}
            case "unknown":
                record = {"strange": number}
        if "id" in record:
            ids.append(record["id"])
        yield record


def _write_qwen(random: Random) -> Iterator[Record]:
    ids: list[str] = []
    for number in range(1, random.randint(8, 30)):
        record: Record = {"uuid": f"u{number}", "parentUuid": _choose_parent(ids, random), "sessionId": "s"}
        record |= {"timestamp": _time(number), "cwd": random.choice(["/w", "/w/app"])}
        arguments = {"n": random.randint(1, 2)}
        match "user" if number == 1 else random.choice(["user", "assistant", "assistant", "result", "event", "title"]):
            case "user":
                record |= {"type": "user", "message": {"parts": [{"text": f"prompt {number}"}]}}
            case "assistant":
                parts = [{"functionCall": {"id": f"c{number}", "name": "shell", "args": arguments}}]
                usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
                record |= {"type": "assistant", "model": "q", "message": {"parts": parts}, "usageMetadata": usage}
            case "result":
                response = {"id": f"c{number - 1}", "name": "shell", "response": {"output": "done"}}
                record |= {"type": "tool_result", "message": {"parts": [{"functionResponse": response}]}}
            case "event":
                event = {"event.name": "qwen-code.tool_call", "function_name": "shell", "duration_ms": number}
                record |= {"type": "system", "systemPayload": {"uiEvent": event | {"function_args": arguments}}}
            case "title":
                record |= {"type": "system", "subtype": "custom_title"}
                record["systemPayload"] = {"customTitle": f"Title {number}"}
        ids.append(record["uuid"])
        yield record


def _write_copilot(random: Random) -> Iterator[Record]:
    yield _copilot_event("session.start", 0, sessionId="s", startTime=_time(0), context={"cwd": "/w"})
    sub_agents = [""]
    call = ""
    for number in range(1, random.randint(8, 40)):
        thought = random.choice(["", "a thought", f"thought {number}"])
        match random.choice(["user", "assistant", "assistant", "start", "end", "agent", "title", "system", "usage"]):
            case "user":
                event = _copilot_event("user.message", number, content=f"prompt {number}")
            case "assistant":
                call = f"c{number}"
                requests = [{"toolCallId": call, "name": "bash", "arguments": {}}]
                answer = {"content": f"answer {number}", "model": "m", "outputTokens": 5, "reasoningText": thought}
                event = _copilot_event("assistant.message", number, toolRequests=requests, **answer)
            case "start":
                event = _copilot_event("tool.execution_start", number, toolCallId=call, toolName="bash")
            case "end":
                event = _copilot_event("tool.execution_complete", number, toolCallId=call, result={"content": "done"})
            case "agent":
                sub_agents.append(f"agent-{call}")
                yield _copilot_event("subagent.started", number, toolCallId=call) | {"agentId": f"agent-{call}"}
                continue
            case "title":
                yield _copilot_event("session.title_changed", number, title=f"Title {number}")
                continue
            case "system":
                event = _copilot_event("system.message", number, content=f"instructions {number}")
            case _:
                usage = {"inputTokens": 9, "outputTokens": 3}
                event = _copilot_event(random.choice(["session.usage_record", "session.shutdown"]), number, usage=usage)
        sub_agent = random.choice(sub_agents) if random.random() < 0.3 else ""
        yield event | ({"agentId": sub_agent} if sub_agent else {})


def _copilot_event(kind: str, number: int, **data: Any) -> Record:
    return {"type": kind, "id": f"e{number}", "parentId": None, "timestamp": _time(number), "data": data}


def _write_gemini(random: Random) -> Iterator[Record]:
    yield {"sessionId": "s", "projectHash": "0", "startTime": _time(0), "lastUpdated": _time(0)}
    messages: list[Record] = []
    for number in range(1, random.randint(8, 40)):
        name = {"id": f"m{number}", "timestamp": _time(number)}
        kinds = ["user", "user", "gemini", "gemini", "again", "again", "set", "rewind", "list", "info", "unknown"]
        match random.choice(kinds) if messages else "user":
            case "user":
                messages.append(name | {"type": "user", "content": random.choice([f"prompt {number}", "/help"])})
                yield messages[-1]
            case "gemini":
                messages.append(name | {"type": "gemini", "content": f"answer {number}", "model": "g"})
                yield messages[-1]
            case "again":
                yield _complete_gemini_message(random.choice(messages[-3:]), number, random)
            case "set":
                summary = {"summary": f"Title {number}"} if random.random() < 0.3 else {}
                yield {"$set": {"lastUpdated": _time(number), **summary}}
            case "rewind":
                yield {"$rewindTo": random.choice(messages)["id"]}
            case "list":
                yield {"$set": {"messages": [*messages], "lastUpdated": _time(number)}}
            case "info":
                yield name | {"type": "info", "content": f"note {number}"}
            case "unknown":
                yield {"strange": number}


def _complete_gemini_message(message: Record, number: int, random: Random) -> Record:
    """Return a message as it is written again when its call and its tokens are known."""
    call = {"id": f"c-{message['id']}", "name": "shell", "args": {}, "timestamp": _time(number)}
    call["status"] = random.choice(["executing", "success"])
    tokens = {"input": number, "output": 2, "cached": 0}
    return message | random.choice([{"toolCalls": [call]}, {"toolCalls": [call], "tokens": tokens}, {"tokens": tokens}])


def _write_goose(random: Random) -> Iterator[Record]:
    yield {"working_dir": "/w", "description": "A title", "message_count": 1, "total_tokens": 3}
    for number in range(1, random.randint(6, 25)):
        role = random.choice(["user", "assistant"])
        content: Record = {"type": "text", "text": random.choice([f"text {number}", "the same"])}
        if random.random() < 0.2 and role == "assistant":
            call = {"status": "success", "value": {"name": "shell", "arguments": {}}}
            content = {"type": "toolRequest", "id": f"c{number}", "toolCall": call}
        message: Record = {"role": role, "created": 1_743_502_500 + number, "content": [content]}
        if random.random() < 0.2:
            message["metadata"] = {"userVisible": False, "agentVisible": random.random() < 0.6}
        yield message


_WRITERS: dict[str, Callable[[Random], Iterator[Record]]] = {
    "pi": _write_pi,
    "qwen": _write_qwen,
    "copilot": _write_copilot,
    "gemini": _write_gemini,
    "goose": _write_goose,
}
TRANSCRIPT_PATHS = {
    "pi": "2026-05-01T10-00-00-000Z_f1.jsonl",
    "qwen": "s.jsonl",
    "copilot": "session-state/s/events.jsonl",
    "gemini": "tmp/app/chats/session-2026-05-01T10-00-s.jsonl",
    "goose": "20250401_101500.jsonl",
}
"""Says where each agent keeps the transcript in its folder."""
