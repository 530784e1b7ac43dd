"""This module separates the text that a person typed from the text that Codex added in the user's name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from store.model.entry import Json
from store.sources.kit.jsonl import as_dict, as_list, as_str

_TAGS = (
    "user_instructions environment_context INSTRUCTIONS skill skills_instructions turn_aborted goal_context"
    " codex_internal_context recommended_plugins plugins_instructions apps_instructions user_shell_command"
    " subagent_notification collaboration_mode personality_spec model_switch hook_prompt user_action"
    " realtime_delegation realtime_conversation agent_message_board_notification"
).split()
_TAG = "|".join([*_TAGS, "permissions instructions"])
_INJECTED_BLOCK = re.compile(
    rf"\s*(?:# AGENTS\.md instructions.*?</INSTRUCTIONS>|<({_TAG}|external_[^\s>]+)\b[^>]*>.*?</\1>)\s*",
    re.DOTALL,
)
_INJECTED_START = re.compile(rf"\s*(?:# AGENTS\.md instructions|<(?:{_TAG})\b)")
_WARNING = re.compile(
    r"Warning: (?:apply_patch was requested via|Your account was flagged|The maximum number of unified exec processes)"
    r" [^\n]*"
)
"""Matches a warning that Codex wrote to the model in the user's name."""
_IMAGE_TAG = re.compile(r"</?image\b[^>]*>")
_REQUEST_HEADING = "## My request for Codex:"


def extract_typed_text(text: str) -> str:
    """Return the text that a person typed. An editor writes the open files before it, and Codex its own context."""
    while match := _INJECTED_BLOCK.match(text):
        text = text[match.end() :]
    if _INJECTED_START.match(text) or _IMAGE_TAG.fullmatch(text.strip()) or _WARNING.fullmatch(text.strip()):
        return ""
    _, heading, request = text.partition(_REQUEST_HEADING)
    return request.strip() if heading else text


def extract_prompt(item: Mapping[str, Json]) -> str | None:
    """Return the prompt in a user's message, or None if no person wrote it. A prompt with only an image is empty."""
    content = item.get("content")
    blocks = (
        [{"type": "input_text", "text": content}] if isinstance(content, str) else list(map(as_dict, as_list(content)))
    )
    kinds = as_list(as_dict(item.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds"))
    texts: list[str] = []
    has_media = False
    for index, block in enumerate(blocks):
        kind = as_str(kinds[index]) if index < len(kinds) else ""
        if kind and kind != "unknown" and not kind.startswith("user"):
            continue
        texts.append(extract_typed_text(as_str(block.get("text"))))
        has_media = has_media or block.get("type") in ("input_image", "input_audio", "input_file")
    text = "\n\n".join(filter(str.strip, texts))
    return text if text or has_media else None
