"""This module pairs each prompt among the response items with the event that shows it.

Codex writes an event for everything that a person typed. An item in the user's name that has no event was injected,
even if its text is of a kind that is not known yet. An item at the end of a rollout is a prompt until a line follows
that would have come after its event.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from store.model.entry import Json
from store.sources.codex.entries import find_prompt
from store.sources.codex.prompts import extract_typed_text
from store.sources.kit.jsonl import as_dict, as_list, as_str

_MAX_KEY_CHARS = 2000
_MAX_SAVED = 8
"""Limits the items and events without a partner that a mark keeps. A partner is in one of the next lines."""

_TURN_ENDS = frozenset(["task_complete", "turn_complete", "turn_aborted", "agent_message", "agent_reasoning"])


@dataclass(slots=True)
class _OpenItem:
    "Is an item whose event has not been read."

    index: int
    key: str
    is_decided: bool = False
    "Is set when its event should have come before now."


class PromptPairs:
    """Reads the lines of a rollout in order. Items that were read before a mark have negative indexes."""

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        state = state or {}
        self._has_pair = bool(state.get("paired"))
        self._items = [_OpenItem(-1 - n, *item) for n, item in enumerate(state.get("items", []))]
        self._events: list[str] = list(state.get("events", []))

    def save_state(self) -> dict[str, Json]:
        items: list[Json] = [[item.key, item.is_decided] for item in self._items[-_MAX_SAVED:]]
        return {"paired": self._has_pair, "items": items, "events": self._events[-_MAX_SAVED:]}

    @property
    def injected(self) -> set[int]:
        """The indexes of the items that no person typed. They are known only in a rollout that has such events."""
        return {item.index for item in self._items if item.is_decided and self._has_pair}

    def add_line(self, index: int, kind: str, payload: Mapping[str, Json], prompt: str | None) -> None:
        """Add a line, with the prompt that `find_prompt` finds in it."""
        if kind == "response_item":
            if prompt is not None:
                self._add_item(index, _make_key(prompt))
            elif payload.get("type", "message") != "message" or payload.get("role") == "assistant":
                self._decide_all()
        elif kind == "compacted" or (kind == "event_msg" and as_str(payload.get("type")) in _TURN_ENDS):
            self._decide_all()
        elif kind == "event_msg" and (shown := find_shown_text(payload)) is not None:
            self._add_event(_make_key(shown), is_legacy=payload.get("type") == "user_message")

    def _add_item(self, index: int, key: str) -> None:
        for event in self._events:
            if event == key:
                self._events.remove(event)
                self._has_pair = True
                return
        self._items.append(_OpenItem(index, key))

    def _add_event(self, key: str, *, is_legacy: bool) -> None:
        """Pair an event with the latest item of the same text, or else with one that holds its text among others."""
        same = [item for item in self._items if item.key == key] or [item for item in self._items if key in item.key]
        if not same:
            self._events += [key] if is_legacy else []
            return
        self._items.remove(same[-1])
        self._has_pair |= is_legacy
        self._decide_all()

    def _decide_all(self) -> None:
        for item in self._items:
            item.is_decided = True


def find_injected(lines: Iterable[tuple[str, Mapping[str, Json]]]) -> set[int]:
    """Return the indexes of the items in the user's name that no person typed."""
    pairs = PromptPairs()
    for index, (kind, payload) in enumerate(lines):
        pairs.add_line(index, kind, payload, find_prompt(kind, payload))
    return pairs.injected


def select_typed(prompts: Sequence[str], shown: Iterable[str]) -> list[str]:
    """Return the prompts that events show. If none is shown, all are returned."""
    keys = {_make_key(text) for text in shown}
    return [text for text in prompts if _make_key(text) in keys] or list(prompts)


def find_shown_text(payload: Mapping[str, Json]) -> str | None:
    """Return what a person typed, according to an event. It is empty if the prompt is only an image."""
    if payload.get("type") == "user_message":
        message = as_str(payload.get("message"))
        return extract_typed_text(message) or (None if message.strip() else "")
    item = as_dict(payload.get("item"))
    if payload.get("type") != "item_completed" or item.get("type") != "UserMessage":
        return None
    return "\n".join(extract_typed_text(as_str(as_dict(block).get("text"))) for block in as_list(item.get("content")))


def _make_key(text: str) -> str:
    """Return the text without white space, because the blocks of an item are joined differently in its event."""
    return "".join(text[: 2 * _MAX_KEY_CHARS].split())[:_MAX_KEY_CHARS]
