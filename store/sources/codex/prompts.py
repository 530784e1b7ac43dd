"""What in a user's name was typed by a person, and what Codex wrote there itself."""

from __future__ import annotations

import re
from collections.abc import Mapping

from store.model.entry import Json
from store.sources.kit.jsonl import items, mapping, words

_TAGS = (
    "user_instructions environment_context INSTRUCTIONS skill skills_instructions turn_aborted goal_context"
    " codex_internal_context recommended_plugins plugins_instructions apps_instructions user_shell_command"
    " subagent_notification collaboration_mode personality_spec model_switch hook_prompt"
).split()
_TAG = "|".join([*_TAGS, "permissions instructions"])
_ENVELOPE = re.compile(
    rf"\s*(?:# AGENTS\.md instructions.*?</INSTRUCTIONS>|<({_TAG})\b[^>]*>.*?</\1>)\s*",
    re.DOTALL,
)
_BEGUN = re.compile(rf"\s*(?:# AGENTS\.md instructions|<(?:{_TAG})\b)")
_AROUND_AN_IMAGE = re.compile(r"</?image\b[^>]*>")
_REQUEST = "## My request for Codex:"


def typed(text: str) -> str:
    """What of a text a person typed; an editor puts what is open there before it, Codex what the model should know."""
    while found := _ENVELOPE.match(text):
        text = text[found.end() :]
    if _BEGUN.match(text) or _AROUND_AN_IMAGE.fullmatch(text.strip()):
        return ""
    _, mark, request = text.partition(_REQUEST)
    return request.strip() if mark else text


def said(item: Mapping[str, Json]) -> str | None:
    """What a person said in a user's message; None when it was none. An image alone is said without words."""
    content = item.get("content")
    blocks = (
        [{"type": "input_text", "text": content}] if isinstance(content, str) else list(map(mapping, items(content)))
    )
    kinds = items(mapping(item.get("internal_chat_message_metadata_passthrough")).get("content_item_kinds"))
    told: list[str] = []
    pictured = False
    for place, block in enumerate(blocks):
        kind = words(kinds[place]) if place < len(kinds) else ""
        if kind and kind != "unknown" and not kind.startswith("user"):
            continue
        told.append(typed(words(block.get("text"))))
        pictured = pictured or block.get("type") in ("input_image", "input_audio", "input_file")
    text = "\n\n".join(filter(str.strip, told))
    return text if text or pictured else None
