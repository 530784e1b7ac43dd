"""This module hides values in what a screen shows of a session. The store stays as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from store.errors import BadValue
from store.leaks.scanner import mask
from store.model.entry import Entry, Json, PairedCall, Turn, part_from_json, part_to_json
from store.text.validate import decode, serialize

if TYPE_CHECKING:
    from store.model.knowledge import Note
    from store.model.session import Session
    from store.model.timeline import TimelineOutline

_LEAST_CHARS = 4
"""Is how much of a value at the end of a text that was cut off gives it away."""


class LeakMask:
    """Replaces values by the masks of their rules, in every text of a session."""

    def __init__(self, rules: Mapping[str, str]) -> None:
        """`rules` holds the rule of each value."""
        by_length = sorted(rules, key=len, reverse=True)  # one value may be part of another one
        self._masks = {value: mask(rules[value]) for value in by_length}

    def __bool__(self) -> bool:
        return bool(self._masks)

    @property
    def pattern(self) -> re.Pattern[str]:
        """Return a pattern that matches the masks, to highlight them."""
        masks = sorted(set(self._masks.values()), key=len, reverse=True)
        return re.compile("|".join(map(re.escape, masks)))

    def find_hidden(self, pattern: re.Pattern[str]) -> re.Pattern[str]:
        """Return what a search for a pattern looks for in the text of the store: for the masks, what they hide."""
        return re.compile("|".join(map(re.escape, self._masks))) if pattern == self.pattern else pattern

    def mask_text(self, text: str) -> str:
        for value, masked in self._masks.items():
            if value in text:
                text = text.replace(value, masked)
        return text

    def mask_beginning(self, text: str) -> str:
        """Mask the beginning of a longer text, which may end within a value."""
        text = self.mask_text(text)
        for value, masked in self._masks.items():
            for length in range(min(len(value), len(text)), _LEAST_CHARS - 1, -1):
                if text.endswith(value[:length]):
                    return text[:-length] + masked
        return text

    def mask_json(self, value: Json) -> Json:
        match value:
            case str():
                return self.mask_text(value)
            case dict():
                return {self.mask_text(name): self.mask_json(item) for name, item in value.items()}
            case list():
                return [self.mask_json(item) for item in value]
        return value

    def mask_record(self, data: bytes) -> bytes:
        """Mask a record. One without anything to mask is returned unchanged, byte for byte."""
        try:
            value = decode(data)
        except BadValue:
            return self.mask_text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        masked = self.mask_json(value)
        return data if masked == value else serialize(masked)

    def mask_turn(self, turn: Turn) -> Turn:
        return replace(
            turn,
            prompt=self.mask_text(turn.prompt),
            entries=tuple(map(self._mask_entry, turn.entries)),
            tool_calls=tuple(map(self.mask_call, turn.tool_calls)),
        )

    def _mask_entry(self, entry: Entry) -> Entry:
        parts = tuple(part_from_json(self.mask_json(part_to_json(part))) for part in entry.parts)
        return entry._replace(text=self.mask_text(entry.text), parts=parts)

    def mask_call(self, call: PairedCall) -> PairedCall:
        return call._replace(
            name=self.mask_text(call.name),
            arguments=self.mask_json(call.arguments),
            result=self.mask_json(call.result),
            recorded_diff=self.mask_json(call.recorded_diff),
        )

    def mask_outline(self, outline: TimelineOutline) -> TimelineOutline:
        turns = tuple(turn._replace(prompt=self.mask_beginning(turn.prompt)) for turn in outline.turns)
        return replace(outline, turns=turns, notes=tuple(map(self._mask_note, outline.notes)))

    def _mask_note(self, note: Note) -> Note:
        return replace(note, text=self.mask_text(note.text))

    def mask_session(self, session: Session) -> Session:
        """Mask what a heading shows of a session."""
        return session._replace(
            own_title=self.mask_text(session.own_title),
            agent_title=self.mask_text(session.agent_title),
            first_prompt=self.mask_beginning(session.first_prompt),
            cwd=self.mask_text(session.cwd),
        )
