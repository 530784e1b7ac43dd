"""What in a user's name was typed by a person, and what Claude Code wrote there itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

from store.model.entry import Json
from store.sources.kit.jsonl import items, mapping, words

_REMINDERS = re.compile(r"\s*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_WRITTEN_BY_THE_PROGRAM = re.compile(
    r"\s*(?:<(?:local-command-stdout|local-command-stderr|local-command-caveat|session-start-hook|"
    r"user-prompt-submit-hook|task-notification|tick|goal|bash-input|bash-stdout|bash-stderr|"
    r"ide_opened_file|ide_selection|ide_diagnostics|new-diagnostics)\b"
    r"|\[Request interrupted by user|Stop hook feedback:|Caveat: The messages below"
    r"|This session is being continued from a previous conversation)"
)
_COMMAND = re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL)
_ARGUMENTS = re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL)
_LOOKS_LIKE_A_COMMAND = re.compile(r"\s*<command-(?:name|message)>")


def typed(text: str) -> str:
    """What of a text a person typed: without reminders around it, a command as it was entered; nothing if injected."""
    if "<system-reminder>" in text:
        text = _REMINDERS.sub("", text)
    if _LOOKS_LIKE_A_COMMAND.match(text) and (name := _COMMAND.search(text)):
        arguments = _ARGUMENTS.search(text)
        return f"{name[1]} {arguments[1] if arguments else ''}".strip()
    return "" if _WRITTEN_BY_THE_PROGRAM.match(text) else text


def is_command(text: str) -> bool:
    return bool(_LOOKS_LIKE_A_COMMAND.match(text))


def is_command_output(value: Mapping[str, Json]) -> bool:
    """A command that answers by itself asks the model nothing."""
    text = words(mapping(value.get("message")).get("content")) or words(value.get("content"))
    return text.lstrip().startswith("<local-command-std")


def blocks_of(value: Mapping[str, Json]) -> list[Json]:
    """A message's content, which may be one text."""
    content = mapping(value.get("message")).get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [content] if content and not isinstance(content, list) else items(content)


def said(value: Mapping[str, Json]) -> str | None:
    """What a person said in a `user` record; None when it was none. An image alone is said without words."""
    if value.get("isMeta") is True or value.get("isCompactSummary") is True:
        return None
    if words(mapping(value.get("origin")).get("kind")) == "task-notification":
        return None
    blocks = [mapping(block) for block in blocks_of(value)]
    kinds = {words(block.get("type")) for block in blocks}
    if "tool_result" in kinds:
        return None
    told = [typed(words(block.get("text"))) for block in blocks if block.get("type") == "text"]
    text = "\n\n".join(filter(str.strip, told))
    return text if text or kinds & {"image", "document"} else None
