"""This module separates the text that a person typed from the text that Claude Code added in the user's name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from store.model.entry import Json
from store.sources.kit.jsonl import as_dict, as_list, as_str

_REMINDERS = re.compile(r"\s*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_INJECTED = re.compile(
    r"\s*(?:<(?:local-command-stdout|local-command-stderr|local-command-caveat|session-start-hook|"
    r"user-prompt-submit-hook|task-notification|tick|goal|bash-input|bash-stdout|bash-stderr|"
    r"ide_opened_file|ide_selection|ide_diagnostics|new-diagnostics)\b"
    r"|\[Request interrupted by user|Stop hook feedback:|Operation stopped by hook(?::|\s*$)|Caveat: The messages below"
    r"|This session is being continued from a previous conversation)"
)
SYNTHETIC_MODEL = "<synthetic>"
"""The model of an answer that the program wrote itself, as after local commands: "No response requested."."""

_COMMAND_NAME = re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL)
_COMMAND_ARGUMENTS = re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL)
_COMMAND_START = re.compile(r"\s*<command-(?:name|message)>")


def extract_typed_text(text: str) -> str:
    """Return the text that a person typed, without reminders. A command is returned as it was entered, and an injected
    text as an empty one."""
    if "<system-reminder>" in text:
        text = _REMINDERS.sub("", text)
    if _COMMAND_START.match(text) and (name := _COMMAND_NAME.search(text)):
        arguments = _COMMAND_ARGUMENTS.search(text)
        return f"{name[1]} {arguments[1] if arguments else ''}".strip()
    return "" if _INJECTED.match(text) else text


def is_command(value: Mapping[str, Json]) -> bool:
    """Return whether a record is a command that a person entered."""
    content = as_dict(value.get("message")).get("content")
    return value.get("type") == "user" and isinstance(content, str) and bool(_COMMAND_START.match(content))


def names_command_first(value: Mapping[str, Json]) -> bool:
    """Return whether a command is written as Claude Code writes local ones. Others begin with their message."""
    return as_str(as_dict(value.get("message")).get("content")).lstrip().startswith("<command-name>")


def is_command_output(value: Mapping[str, Json]) -> bool:
    """Return whether a record is the output of a local command. Such a command sends nothing to the model."""
    text = as_str(as_dict(value.get("message")).get("content")) or as_str(value.get("content"))
    return text.lstrip().startswith("<local-command-std")


def content_blocks(value: Mapping[str, Json]) -> list[Json]:
    """Return a message's content as a list of blocks, also when it is a plain text."""
    content = as_dict(value.get("message")).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [content] if content and not isinstance(content, list) else as_list(content)


def extract_prompt(value: Mapping[str, Json]) -> str | None:
    """Return the prompt in a `user` record, or None if no person wrote it. A prompt with only an image is empty."""
    if value.get("isMeta") is True or value.get("isCompactSummary") is True:
        return None
    if as_str(as_dict(value.get("origin")).get("kind")) == "task-notification":
        return None
    blocks = [as_dict(block) for block in content_blocks(value)]
    kinds = {as_str(block.get("type")) for block in blocks}
    if "tool_result" in kinds:
        return None
    texts = [extract_typed_text(as_str(block.get("text"))) for block in blocks if block.get("type") == "text"]
    text = "\n\n".join(filter(str.strip, texts))
    return text if text or kinds & {"image", "document"} else None
