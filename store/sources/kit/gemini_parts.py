"""What Gemini CLI and what was made from it write as content: parts of text, thoughts, calls and responses. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping

from store.model.entry import Attachment, Json, Opaque, Part, Text, Thinking, Tokens, ToolCall, ToolResult
from store.sources.kit.jsonl import as_count, as_dict, as_str

SHELL_TOOL = "run_shell_command"
_TRAILER = re.compile(r"(Error|Exit Code|Signal|Background PIDs|Process Group PGID): ?(.*)")
_SUCCESS_VALUES = ("", "0", "(none)")

_INJECTED = (
    "<session_context>",
    "This is the Gemini CLI. We are setting up the context",
    "This is the Qwen Code. We are setting up the context",
    "<system-reminder>",
)
_REFERENCED_FILES_HEADING = "--- Content from referenced files ---"


def parse_parts(content: Json) -> tuple[Part, ...]:
    """Of text, one part, or a list of both."""
    if content is None or content == "":
        return ()
    return tuple(map(_parse_part, content if isinstance(content, list) else [content]))


def _parse_part(item: Json) -> Part:
    if isinstance(item, str):
        return Text(item)
    told = as_dict(item)
    if isinstance(text := told.get("text"), str):
        return Thinking(text, as_str(told.get("thoughtSignature"))) if told.get("thought") else Text(text)
    if isinstance(call := told.get("functionCall"), dict):
        return ToolCall(call_id(call), as_str(call.get("name")), call.get("args"))
    if isinstance(response := told.get("functionResponse"), dict):
        return parse_tool_result(response)
    for name in ("inlineData", "fileData"):
        if isinstance(data := told.get(name), dict):
            return _parse_attachment(data)
    return Opaque(next(iter(told), ""), item)


def _parse_attachment(data: Mapping[str, Json]) -> Attachment:
    spelled = data.get("data")
    size = len(spelled.rstrip("=")) * 3 // 4 if isinstance(spelled, str) else None
    return Attachment(as_str(data.get("mimeType")), as_str(data.get("displayName")), size, as_str(data.get("fileUri")))


def call_id(body: Mapping[str, Json]) -> str:
    return as_str(body.get("id")) or as_str(body.get("name"))


def parse_tool_result(response: Mapping[str, Json], *, failed: bool = False) -> ToolResult:
    """A command that fails is a success to its tool: only the text that frames its output tells."""
    name, body = as_str(response.get("name")), response.get("response")
    told = as_dict(body)
    error, output = told.get("error"), told.get("output")
    said = error if isinstance(error, str) and error else output
    if name == SHELL_TOOL and isinstance(output, str):
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
    return any(found.get(name, "") not in _SUCCESS_VALUES for name in ("Exit Code", "Signal"))


def extract_typed_text(parts: tuple[Part, ...]) -> str:
    """What a person typed, without the files that the program put behind it."""
    said = "\n\n".join([part.text for part in parts if isinstance(part, Text)])
    return said.partition(_REFERENCED_FILES_HEADING)[0].strip() if _REFERENCED_FILES_HEADING in said else said


def is_injected(text: str) -> bool:
    """What the program says to the model in the person's name."""
    return text.lstrip().startswith(_INJECTED)


def count_tokens(given: Json, cached: Json, answered: Json, thought: Json, used: Json = 0) -> Tokens:
    """Of all that was given some came from a cache; thoughts are paid for as what is answered."""
    return Tokens(
        max(as_count(given) - as_count(cached), 0) + as_count(used),
        as_count(answered) + as_count(thought),
        as_count(cached),
    )
