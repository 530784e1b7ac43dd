"""What Gemini CLI and what was made from it write as content: parts of text, thoughts, calls and responses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from store.model.entry import Attachment, Json, Opaque, Part, Text, Thinking, Tokens, ToolCall, ToolResult
from store.sources.kit.jsonl import count, mapping, words

SHELL = "run_shell_command"
_TRAILER = re.compile(r"(Error|Exit Code|Signal|Background PIDs|Process Group PGID): ?(.*)")
_INNOCENT = ("", "0", "(none)")

_INJECTED = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context",
    "This is the Qwen Code. We are setting up the context",
    "<system-reminder>",
)
_REFERENCED = "--- Content from referenced files ---"


def parts_of(content: Json) -> tuple[Part, ...]:
    """Of text, one part, or a list of both."""
    if content is None or content == "":
        return ()
    return tuple(map(_part, content if isinstance(content, list) else [content]))


def _part(item: Json) -> Part:
    if isinstance(item, str):
        return Text(item)
    told = mapping(item)
    if isinstance(text := told.get("text"), str):
        return Thinking(text, words(told.get("thoughtSignature"))) if told.get("thought") else Text(text)
    if isinstance(call := told.get("functionCall"), dict):
        return ToolCall(call_id(call), words(call.get("name")), call.get("args"))
    if isinstance(response := told.get("functionResponse"), dict):
        return result_of(response)
    for name in ("inlineData", "fileData"):
        if isinstance(data := told.get(name), dict):
            return _attachment(data)
    return Opaque(next(iter(told), ""), item)


def _attachment(data: Mapping[str, Json]) -> Attachment:
    spelled = data.get("data")
    size = len(spelled.rstrip("=")) * 3 // 4 if isinstance(spelled, str) else None
    return Attachment(words(data.get("mimeType")), words(data.get("displayName")), size, words(data.get("fileUri")))


def call_id(body: Mapping[str, Json]) -> str:
    return words(body.get("id")) or words(body.get("name"))


def result_of(response: Mapping[str, Json], *, failed: bool = False) -> ToolResult:
    """A command that fails is a success to its tool: only the text that frames its output tells."""
    name, body = words(response.get("name")), response.get("response")
    told = mapping(body)
    error, output = told.get("error"), told.get("output")
    said = error if isinstance(error, str) and error else output
    if name == SHELL and isinstance(output, str):
        failed = failed or command_failed(output)
    return ToolResult(call_id(response), said if isinstance(said, str) else body, failed or bool(error), name)


def command_failed(output: str) -> bool:
    """By the lines behind the output; a command may well have printed such a line itself."""
    found: dict[str, str] = {}
    for line in reversed(output.removesuffix("</untrusted_context>").rstrip().split("\n")):
        trailer = _TRAILER.fullmatch(line)
        if trailer is None:
            break
        found.setdefault(trailer.group(1), trailer.group(2).strip())
    return any(found.get(name, "") not in _INNOCENT for name in ("Exit Code", "Signal"))


def typed(parts: tuple[Part, ...]) -> str:
    """What a person typed, without the files that the program put behind it."""
    said = "\n\n".join([part.text for part in parts if isinstance(part, Text)])
    return said.partition(_REFERENCED)[0].strip() if _REFERENCED in said else said


def is_injected(text: str) -> bool:
    """What the program says to the model in the person's name."""
    return text.lstrip().startswith(_INJECTED)


def tokens_of(given: Json, cached: Json, answered: Json, thought: Json, used: Json = 0) -> Tokens:
    """Of all that was given some came from a cache; thoughts are paid for as what is answered."""
    return Tokens(max(count(given) - count(cached), 0) + count(used), count(answered) + count(thought), count(cached))
