"""A thread forked as Codex once did it by itself: a rollout of its own that holds copies of the lines. It stands alone,
so that it can be resumed although the original is gone."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import NamedTuple
from uuid import UUID

from store.model.entry import INTERRUPTED, Json
from store.model.session import Session
from store.sources.codex.entries import prompt_of
from store.sources.codex.files import understood
from store.sources.codex.state_database import enter
from store.sources.contract import NewTranscript, Past
from store.sources.kit.jsonl import items, mapping, parsed, words
from store.text.validate import spell

_UUID = re.compile("[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_OF_THE_ORIGINAL = frozenset(
    "history_base forked_from_ordinal_exclusive subagent_history_start_ordinal parent_thread_id agent_nickname"
    " agent_role agent_type agent_path".split()
)
_LISTED = ("cli", "vscode")
"""Where a person sat before it: what Codex lists unless it is asked for more."""

_ANSWERS = {
    "function_call": "function_call_output",
    "local_shell_call": "function_call_output",
    "custom_tool_call": "custom_tool_call_output",
    "tool_search_call": "tool_search_output",
}
_RESULTS = frozenset([*_ANSWERS.values(), "local_shell_call_output"])
_BEGINS = frozenset(["task_started", "turn_started"])
_ENDS = frozenset(["task_complete", "turn_complete", "turn_aborted"])
_PREPARES = frozenset([*_BEGINS, "thread_settings_applied"])


def can_fork(session: Session) -> bool:
    return bool(_UUID.fullmatch(_thread(session)))


def _thread(session: Session) -> str:
    """What was rolled back is named after its thread."""
    return session.native_id.partition("/")[0]


def forked(past: Past, root: Path) -> NewTranscript:
    native_id = _new_id(past.at)
    here = past.at.astimezone()
    folder = root / "sessions" / f"{here:%Y}" / f"{here:%m}" / f"{here:%d}"
    path = folder / f"rollout-{here:%Y-%m-%dT%H-%M-%S}-{native_id}.jsonl"
    copying = _Copying(past, native_id)
    lines = [spell(line) for line in copying.lines()]
    first = past.prompt or "" if copying.asked_once else ""
    return NewTranscript(
        native_id, path, lines, enter=lambda: enter(root, _thread(past.session), native_id, path, past.at, first)
    )


def _new_id(at: datetime) -> str:
    """Of the kind that Codex makes, which begins with the time."""
    number = int(at.timestamp() * 1000) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    return str(UUID(int=number))


class _Told(NamedTuple):
    """A line of the original."""

    at: str
    kind: str
    payload: dict[str, Json]
    beside: dict[str, Json]
    "What else the line says."

    @property
    def what(self) -> str:
        return words(self.payload.get("type")) or ("message" if self.kind == "response_item" else "")

    @property
    def call_id(self) -> str:
        return words(self.payload.get("call_id")) or words(self.payload.get("id"))

    @property
    def is_prompt(self) -> bool:
        return self.kind == "response_item" and prompt_of(self.kind, self.payload) is not None

    @property
    def prepares(self) -> bool:
        """It only makes ready for the turn that comes next."""
        if self.kind == "response_item":
            return self.what == "message" and self.payload.get("role") != "assistant" and not self.is_prompt
        return self.kind in ("turn_context", "world_state") or (self.kind == "event_msg" and self.what in _PREPARES)


def _told(data: bytes) -> _Told:
    value = mapping(parsed(data))
    kind, payload = understood(value)
    beside = {name: held for name, held in value.items() if name not in ("timestamp", "ordinal", "type", "payload")}
    is_bare = "payload" not in value
    return _Told(words(value.get("timestamp")), kind, dict(payload), {} if is_bare else beside)


class _Copying:
    """The lines of a past on their way into another rollout."""

    def __init__(self, past: Past, native_id: str) -> None:
        self._past = past
        self._native_id = native_id
        self._at = past.at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
        told = [_told(data) for data in past.records]
        self._meta = next((line.payload for line in told if line.kind == "session_meta"), {})
        self._is_paged = self._meta.get("history_mode") == "paginated"
        # What was rolled back is not in the past, and must not be rolled back once more.
        self._told = [line for line in told if line.kind not in ("session_meta", "state") and not _rolls_back(line)]
        if past.prompt is None:
            while self._told and self._told[-1].prepares:
                self._told.pop()
        self._asked = {line.call_id for line in self._told if line.what in _ANSWERS}
        self._answered = {line.call_id for line in self._told if line.what in _RESULTS}
        self._open: list[_Told] = []
        self._turn = ""
        self._has_begun = False
        self._when = words(self._meta.get("timestamp"))

    @property
    def asked_once(self) -> bool:
        return sum(line.is_prompt for line in self._told) == 1

    def lines(self) -> list[dict[str, Json]]:
        made = [self._line("session_meta", self._about()), *self._body()]
        if self._is_paged:
            for place, line in enumerate(made):
                line["ordinal"] = place
        return made

    def _about(self) -> dict[str, Json]:
        session, meta = self._past.session, self._meta
        kept = {name: value for name, value in meta.items() if name not in _OF_THE_ORIGINAL}
        told = {"cwd": session.cwd, "originator": "codex_cli_rs", "cli_version": "0.0.0", **kept}
        source = told.get("source")
        ids = {"session_id": self._native_id, "id": self._native_id, "forked_from_id": _thread(session)}
        is_listed = isinstance(source, str) and source in _LISTED
        whose = {"thread_source": "user"} if "thread_source" in told else {}
        return {**told, **ids, "timestamp": self._at, "source": source if is_listed else "cli", **whose}

    def _body(self) -> Iterator[dict[str, Json]]:
        prompt, last = self._past.prompt, len(self._told) - 1
        for at, line in enumerate(self._told):
            if line.is_prompt:
                yield from self._close()
            if at == last and prompt is not None:
                yield from self._asking(line, prompt)
            elif not (line.what in _RESULTS and line.call_id not in self._asked):
                yield self._copy(line)
        yield from self._close()
        if self._has_begun:
            yield self._line("event_msg", {"type": "turn_aborted", "turn_id": self._turn, "reason": "interrupted"})

    def _copy(self, line: _Told) -> dict[str, Json]:
        if line.what in _ANSWERS and line.kind == "response_item":
            self._open.append(line)
        if line.kind == "event_msg" and line.what in _BEGINS | _ENDS:
            self._has_begun = line.what in _BEGINS
            self._turn = words(line.payload.get("turn_id"))
        ids = {
            name: self._native_id
            for name in ("thread_id", "session_id")
            if line.kind != "response_item" and line.payload.get(name) == _thread(self._past.session)
        }
        # Before 0.32 no line said when; that it is older than the fork tells that it is a copy.
        self._when = line.at or self._when
        return self._line(line.kind, line.payload | ids, self._when, line.beside)

    def _close(self) -> Iterator[dict[str, Json]]:
        """What was never answered is, before the person speaks again."""
        waiting, self._open = [line for line in self._open if line.call_id not in self._answered], []
        for line in waiting:
            answer: dict[str, Json] = {"type": _ANSWERS[line.what], "call_id": line.call_id, "output": INTERRUPTED}
            if line.what == "tool_search_call":
                answer |= {"status": "completed", "execution": line.payload.get("execution", "client"), "tools": []}
                del answer["output"]
            yield self._line("response_item", answer)

    def _asking(self, line: _Told, prompt: str) -> Iterator[dict[str, Json]]:
        """The person's words in place of those that were said; what was shown with them stays."""
        if line.kind != "response_item":
            yield self._line(line.kind, line.payload | {"message": prompt})
            return
        content = items(line.payload.get("content"))
        kinds = items(mapping(line.payload.get(_ABOUT)).get("content_item_kinds"))
        shown = [block for block in content if mapping(block).get("type") not in ("input_text", "output_text")]
        spoken: dict[str, Json] = {
            "type": "message",
            "role": "user",
            "content": [{"type": "input_text", "text": prompt}, *shown],
        }
        turn = self._turn or words(mapping(line.payload.get(_ABOUT)).get("turn_id"))
        if kinds:
            spoken[_ABOUT] = {"turn_id": turn, "content_item_kinds": ["user.text", *["user.image"] * len(shown)]}
        yield self._line("response_item", spoken)
        yield self._line("event_msg", self._shown(prompt, turn))

    def _shown(self, prompt: str, turn: str) -> dict[str, Json]:
        """The same as it stands on the screen, which is where Codex looks for what to list a thread by."""
        if not self._is_paged:
            return {"type": "user_message", "message": prompt, "images": [], "local_images": [], "text_elements": []}
        said = {"type": "text", "text": prompt, "text_elements": []}
        item = {"type": "UserMessage", "id": _new_id(self._past.at), "content": [said]}
        moment = int(self._past.at.timestamp() * 1000)
        times = {"started_at_ms": moment, "completed_at_ms": moment}
        return {"type": "item_completed", "thread_id": self._native_id, "turn_id": turn, "item": item, **times}

    def _line(
        self, kind: str, payload: Mapping[str, Json], at: str = "", beside: Mapping[str, Json] | None = None
    ) -> dict[str, Json]:
        return {"timestamp": at or self._at, "type": kind, **(beside or {}), "payload": dict(payload)}


_ABOUT = "internal_chat_message_metadata_passthrough"


def _rolls_back(line: _Told) -> bool:
    return line.kind == "event_msg" and line.what == "thread_rolled_back"
