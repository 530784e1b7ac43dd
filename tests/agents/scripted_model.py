"""This module serves a scripted model on the loopback interface, with the APIs that Claude Code and Codex use.

Its answer depends only on the request, so additional requests of a program change nothing.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Json = dict[str, Any]

MESSAGES, RESPONSES = "/v1/messages", "/v1/responses"
SHELL_TOOLS = {MESSAGES: ("Bash", "command"), RESPONSES: ("exec_command", "cmd")}
RESULT_TYPES = ("tool_result", "function_call_output")
DEFAULT_REPLY = "There is nothing to add."


@dataclass(frozen=True, slots=True)
class Reply:
    "Describes the answer to a prompt. With a command or a tool, the model first lets the program run it."

    text: str
    command: str = ""
    tool: str = ""
    arguments: Json = field(default_factory=dict)
    "Are those of the tool, if it is not the shell."


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    id: str
    tool: str
    input: Json


class UnexpectedRequest(Exception):
    "Says what the script needs and the program does not offer. The program receives it as an error."


@dataclass(frozen=True, slots=True)
class ModelRequest:
    path: str
    body: Json

    @property
    def context(self) -> list[Json]:
        """Return the conversation so far, as the program sent it."""
        return list(self.body.get("messages") or self.body.get("input") or [])

    @property
    def context_json(self) -> str:
        return json.dumps(self.context)

    @property
    def tool_names(self) -> set[str]:
        return {tool.get("name", "") for tool in self.body.get("tools") or []}

    @property
    def result_ids(self) -> set[str]:
        """Return the ids of the calls whose results the request contains."""
        return {
            block.get("tool_use_id") or block.get("call_id") or ""
            for message in self.context
            for block in (message, *_blocks(message))
            if block.get("type") in RESULT_TYPES
        }


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    return content if isinstance(content, list) else []


class ScriptedModel:
    """Serves in a background thread while it is used as a context manager, and records all requests."""

    def __init__(self, script: Mapping[str, Reply]) -> None:
        self.script = script
        self.requests: list[ModelRequest] = []
        self.log: list[str] = []
        self._server = _ModelServer(("127.0.0.1", 0), type("Handler", (_ModelRequestHandler,), {"model": self}))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def last_request_for(self, prompt: str) -> ModelRequest:
        """Return the last request in which this prompt is the newest. It contains the whole conversation before it."""
        requests = [
            request for request in self.requests if request.tool_names and self._latest_prompt(request) == prompt
        ]
        assert requests, f"{prompt!r} never reached the model."
        return requests[-1]

    def _latest_prompt(self, request: ModelRequest) -> str:
        """Return the prompt of the script that occurs last in the conversation, or an empty string."""
        text = request.context_json
        prompts = {text.rfind(json.dumps(prompt)[1:-1]): prompt for prompt in self.script}
        return prompts[max(prompts)] if max(prompts) >= 0 else ""

    def answer(self, request: ModelRequest) -> str | ModelToolCall:
        self.requests.append(request)
        prompt = self._latest_prompt(request)
        # A request without tools asks for a title or something similar.
        if not prompt or not request.tool_names:
            return DEFAULT_REPLY
        reply, call = self.script[prompt], f"call_{list(self.script).index(prompt)}"
        if not (reply.command or reply.tool) or call in request.result_ids:
            return reply.text
        tool, argument = (reply.tool, "") if reply.tool else SHELL_TOOLS[request.path]
        if tool not in request.tool_names:
            raise UnexpectedRequest(f"The script calls {tool}, but the program offers {sorted(request.tool_names)}.")
        return ModelToolCall(call, tool, reply.arguments if reply.tool else {argument: reply.command})


class _ModelServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore broken connections: a program that ends does not wait for its answers."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _ModelRequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModel

    def do_GET(self) -> None:
        self._send(404, {"error": {"type": "not_found_error", "message": "Not found."}})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        path = self.path.partition("?")[0]
        if path == f"{MESSAGES}/count_tokens":
            return self._send(200, {"input_tokens": 100})
        if path not in SHELL_TOOLS:
            return self.do_GET()
        try:
            answer = self.model.answer(ModelRequest(path, body))
        except UnexpectedRequest as reason:
            return self._send(400, {"error": {"type": "invalid_request_error", "message": str(reason)}})
        self.model.log.append(f"  {answer}")
        name = f"{len(self.model.requests):04}"
        if path == RESPONSES:
            return self._stream(_responses_answer(name, answer))
        message, events = _anthropic_answer(name, body["model"], answer)
        return self._stream(events) if body.get("stream") else self._send(200, message)

    def _send(self, status: int, body: Json) -> None:
        self._write(status, "application/json", json.dumps(body))

    def _stream(self, events: Iterator[Json]) -> None:
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
        self._write(200, "text/event-stream", "".join(lines))

    def _write(self, status: int, kind: str, text: str) -> None:
        raw = text.encode()
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(raw)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(raw)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (named by the base class)
        self.model.log.append(format % args)


def _anthropic_answer(name: str, model: str, answer: str | ModelToolCall) -> tuple[Json, Iterator[Json]]:
    """Return an answer of Anthropic's Messages API, complete and as a stream of events."""
    if isinstance(answer, ModelToolCall):
        block: Json = {"type": "tool_use", "id": answer.id, "name": answer.tool, "input": answer.input}
        blank, stop = {**block, "input": {}}, "tool_use"
        delta = {"type": "input_json_delta", "partial_json": json.dumps(answer.input)}
    else:
        block = {"type": "text", "text": answer}
        blank, stop = {**block, "text": ""}, "end_turn"
        delta = {"type": "text_delta", "text": answer}
    stop_fields = {"stop_reason": stop, "stop_sequence": None}
    message: Json = {"id": f"msg_{name}", "type": "message", "role": "assistant", "model": model}
    message |= {"content": [block], **stop_fields, "usage": {"input_tokens": 100, "output_tokens": 10}}
    started_message = {**message, "content": [], "stop_reason": None}

    def events() -> Iterator[Json]:
        yield {"type": "message_start", "message": started_message}
        yield {"type": "content_block_start", "index": 0, "content_block": blank}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": stop_fields, "usage": {"output_tokens": 10}}
        yield {"type": "message_stop"}

    return message, events()


def _responses_answer(name: str, answer: str | ModelToolCall) -> Iterator[Json]:
    """Yield an answer of OpenAI's Responses API as a stream of events."""
    if isinstance(answer, ModelToolCall):
        item: Json = {"type": "function_call", "id": f"fc_{name}", "call_id": answer.id, "name": answer.tool}
        item["arguments"] = json.dumps(answer.input)
    else:
        text = {"type": "output_text", "text": answer, "annotations": []}
        item = {"type": "message", "id": f"msg_{name}", "role": "assistant", "content": [text]}
    response: Json = {"id": f"resp_{name}", "object": "response", "status": "in_progress", "output": []}
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    done = {**response, "status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": done}
