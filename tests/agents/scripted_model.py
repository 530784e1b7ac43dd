"""A model on loopback that says what its script has it say, in the dialects that Claude Code and Codex speak.

What it answers depends on the request alone, so that nothing changes when a program asks for something else in between.
"""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    "What the model says to a prompt; with a command, it first has the program run that."

    text: str
    command: str = ""


@dataclass(frozen=True, slots=True)
class ModelToolCall:
    id: str
    tool: str
    input: Json


class UnexpectedRequest(Exception):
    "The program cannot do what the script wants of it; it is sent what this says."


@dataclass(frozen=True, slots=True)
class ModelRequest:
    path: str
    body: Json

    @property
    def context(self) -> list[Json]:
        """All that was said so far, as the program tells it."""
        return list(self.body.get("messages") or self.body.get("input") or [])

    @property
    def context_json(self) -> str:
        return json.dumps(self.context)

    @property
    def tool_names(self) -> set[str]:
        return {tool.get("name", "") for tool in self.body.get("tools") or []}

    @property
    def result_ids(self) -> set[str]:
        """The calls whose results have come back."""
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
    """Serves from a thread of its own while it is entered; remembers all that it was asked."""

    def __init__(self, script: Mapping[str, Reply]) -> None:
        self.script = script
        self.requests: list[ModelRequest] = []
        self.log: list[str] = []
        self._server = _ModelServer(("127.0.0.1", 0), type("Handler", (_ModelRequestHandler,), {"model": self}))

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def last_request_for(self, prompt: str) -> ModelRequest:
        """The last request in which that prompt is the newest: with it comes all that the program knows of before."""
        found = [request for request in self.requests if request.tool_names and self._latest_prompt(request) == prompt]
        assert found, f"{prompt!r} never reached the model."
        return found[-1]

    def _latest_prompt(self, request: ModelRequest) -> str:
        """The prompt of the script that was said last; empty where none was."""
        told = request.context_json
        said = {told.rfind(json.dumps(prompt)[1:-1]): prompt for prompt in self.script}
        return said[max(said)] if max(said) >= 0 else ""

    def answer(self, request: ModelRequest) -> str | ModelToolCall:
        self.requests.append(request)
        prompt = self._latest_prompt(request)
        # Whoever offers no tools wants a title, or the like.
        if not prompt or not request.tool_names:
            return DEFAULT_REPLY
        reply, call = self.script[prompt], f"call_{list(self.script).index(prompt)}"
        if not reply.command or call in request.result_ids:
            return reply.text
        tool, argument = SHELL_TOOLS[request.path]
        if tool not in request.tool_names:
            raise UnexpectedRequest(f"The script calls {tool}, and the program offers {sorted(request.tool_names)}.")
        return ModelToolCall(call, tool, {argument: reply.command})


class _ModelServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """A program that ends does not wait for what it has asked."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


class _ModelRequestHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModel

    def do_GET(self) -> None:
        self._send(404, {"error": {"type": "not_found_error", "message": "Nothing is here."}})

    do_HEAD = do_GET

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        path = self.path.partition("?")[0]
        if path == f"{MESSAGES}/count_tokens":
            return self._send(200, {"input_tokens": 100})
        if path not in SHELL_TOOLS:
            return self.do_GET()
        try:
            said = self.model.answer(ModelRequest(path, body))
        except UnexpectedRequest as reason:
            return self._send(400, {"error": {"type": "invalid_request_error", "message": str(reason)}})
        self.model.log.append(f"  {said}")
        name = f"{len(self.model.requests):04}"
        if path == RESPONSES:
            return self._stream(_responses_answer(name, said))
        message, events = _anthropic_answer(name, body["model"], said)
        return self._stream(events) if body.get("stream") else self._send(200, message)

    def _send(self, status: int, answer: Json) -> None:
        self._write(status, "application/json", json.dumps(answer))

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

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class's own word
        self.model.log.append(format % args)


def _anthropic_answer(name: str, model: str, said: str | ModelToolCall) -> tuple[Json, Iterator[Json]]:
    """An answer of Anthropic's Messages, whole and as it is streamed."""
    if isinstance(said, ModelToolCall):
        block: Json = {"type": "tool_use", "id": said.id, "name": said.tool, "input": said.input}
        blank, stop = {**block, "input": {}}, "tool_use"
        delta = {"type": "input_json_delta", "partial_json": json.dumps(said.input)}
    else:
        block = {"type": "text", "text": said}
        blank, stop = {**block, "text": ""}, "end_turn"
        delta = {"type": "text_delta", "text": said}
    ended = {"stop_reason": stop, "stop_sequence": None}
    message: Json = {"id": f"msg_{name}", "type": "message", "role": "assistant", "model": model}
    message |= {"content": [block], **ended, "usage": {"input_tokens": 100, "output_tokens": 10}}
    begun = {**message, "content": [], "stop_reason": None}

    def events() -> Iterator[Json]:
        yield {"type": "message_start", "message": begun}
        yield {"type": "content_block_start", "index": 0, "content_block": blank}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
        yield {"type": "content_block_stop", "index": 0}
        yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 10}}
        yield {"type": "message_stop"}

    return message, events()


def _responses_answer(name: str, said: str | ModelToolCall) -> Iterator[Json]:
    """An answer of OpenAI's Responses, as it is streamed."""
    if isinstance(said, ModelToolCall):
        item: Json = {"type": "function_call", "id": f"fc_{name}", "call_id": said.id, "name": said.tool}
        item["arguments"] = json.dumps(said.input)
    else:
        text = {"type": "output_text", "text": said, "annotations": []}
        item = {"type": "message", "id": f"msg_{name}", "role": "assistant", "content": [text]}
    response: Json = {"id": f"resp_{name}", "object": "response", "status": "in_progress", "output": []}
    usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
    yield {"type": "response.created", "response": response}
    yield {"type": "response.output_item.added", "output_index": 0, "item": item}
    yield {"type": "response.output_item.done", "output_index": 0, "item": item}
    done = {**response, "status": "completed", "output": [item], "usage": usage}
    yield {"type": "response.completed", "response": done}
