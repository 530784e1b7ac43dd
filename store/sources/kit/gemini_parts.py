"""This module parses the content that Gemini CLI and its descendants write: texts, thoughts, calls and responses."""

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
    """Parse a content, which is a text, one part, or a list of both."""
    if content is None or content == "":
        return ()
    return tuple(map(_parse_part, content if isinstance(content, list) else [content]))


def _parse_part(item: Json) -> Part:
    if isinstance(item, str):
        return Text(item)
    fields = as_dict(item)
    if isinstance(text := fields.get("text"), str):
        return Thinking(text, as_str(fields.get("thoughtSignature"))) if fields.get("thought") else Text(text)
    if isinstance(call := fields.get("functionCall"), dict):
        return ToolCall(call_id(call), as_str(call.get("name")), call.get("args"))
    if isinstance(response := fields.get("functionResponse"), dict):
        return parse_tool_result(response)
    for name in ("inlineData", "fileData"):
        if isinstance(data := fields.get(name), dict):
            return _parse_attachment(data)
    return Opaque(next(iter(fields), ""), item)


def _parse_attachment(data: Mapping[str, Json]) -> Attachment:
    encoded = data.get("data")
    size = len(encoded.rstrip("=")) * 3 // 4 if isinstance(encoded, str) else None
    return Attachment(as_str(data.get("mimeType")), as_str(data.get("displayName")), size, as_str(data.get("fileUri")))


def call_id(body: Mapping[str, Json]) -> str:
    return as_str(body.get("id")) or as_str(body.get("name"))


def parse_tool_result(response: Mapping[str, Json], *, failed: bool = False) -> ToolResult:
    """Parse a tool result. A failed shell command counts as a success for its tool, so its output is checked too."""
    name, body = as_str(response.get("name")), response.get("response")
    fields = as_dict(body)
    error, output = fields.get("error"), fields.get("output")
    result = error if isinstance(error, str) and error else output
    if name == SHELL_TOOL and isinstance(output, str):
        failed = failed or command_failed(output)
    return ToolResult(call_id(response), result if isinstance(result, str) else body, failed or bool(error), name)


def command_failed(output: str) -> bool:
    """Return whether a shell command failed, by the last lines that the tool appends to the output.

    The command itself may have printed similar lines before, which are ignored.
    """
    trailers: dict[str, str] = {}
    for line in reversed(output.removesuffix("</untrusted_context>").rstrip().split("\n")):
        trailer = _TRAILER.fullmatch(line)
        if trailer is None:
            break
        trailers.setdefault(trailer.group(1), trailer.group(2).strip())
    return any(trailers.get(name, "") not in _SUCCESS_VALUES for name in ("Exit Code", "Signal"))


def extract_typed_text(parts: tuple[Part, ...]) -> str:
    """Return the text that a person typed, without the files that the program appended."""
    text = "\n\n".join([part.text for part in parts if isinstance(part, Text)])
    return text.partition(_REFERENCED_FILES_HEADING)[0].strip() if _REFERENCED_FILES_HEADING in text else text


def is_injected(text: str) -> bool:
    """Return whether the program wrote this text in the name of the person."""
    return text.lstrip().startswith(_INJECTED)


def count_tokens(prompt: Json, cached: Json, answer: Json, thoughts: Json, tool_use: Json = 0) -> Tokens:
    """Return token counts. The input includes the cached tokens; thoughts are billed as output."""
    return Tokens(
        max(as_count(prompt) - as_count(cached), 0) + as_count(tool_use),
        as_count(answer) + as_count(thoughts),
        as_count(cached),
    )
