"""A made-up conversation as Claude Code writes it: JSON lines, each pointing at the one before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from bench.dialogues import Step, Talk, spelled

Record = dict[str, object]
MODEL = "claude-opus-4-8"


def files(talk: Talk) -> Iterator[tuple[Path, datetime, list[Record]]]:
    """Below the agent's home: where, when it was last written, what stands in it."""
    folder = Path("projects", re.sub(r"[^A-Za-z0-9]", "-", talk.folder))
    written = _Writing(talk, session=str(talk.name))
    yield folder / f"{talk.name}.jsonl", written.at, written.records
    if talk.delegate is not None:
        agent = talk.delegate.name.hex[:17]
        theirs = _Writing(talk.delegate, session=str(talk.name), agent=agent)
        beside = folder / str(talk.name) / "subagents"
        yield beside / f"agent-{agent}.jsonl", theirs.at, theirs.records
        told: Record = {"agentType": "general-purpose", "description": talk.title, "toolUseId": written.sent_off}
        yield beside / f"agent-{agent}.meta.json", theirs.at, [told]


class _Writing:
    def __init__(self, talk: Talk, *, session: str, agent: str = "") -> None:
        self.records: list[Record] = []
        self.at = talk.began
        self.sent_off = ""
        self._talk = talk
        self._session = session
        self._agent = agent
        self._last: str | None = None
        self._count = 0
        for number, turn in enumerate(talk.turns):
            self._user(turn.prompt)
            for step in turn.steps:
                self._step(step)
            if talk.delegate is not None and number == len(talk.turns) - 1:
                self._send_off(talk.delegate)
            self._assistant({"type": "text", "text": turn.answer}, stop="end_turn")
        if not agent and talk.number % 3 == 0:
            self.records.append({"type": "ai-title", "aiTitle": talk.title, "sessionId": session})

    def _step(self, step: Step) -> None:
        if step.thought:
            self._assistant({"type": "thinking", "thinking": step.thought, "signature": "c2ln"}, again=True)
        if step.said:
            self._assistant({"type": "text", "text": step.said}, again=True)
        call = self._call(step.tool, {"command": step.command, "description": "Look for it"})
        if step.failed:
            told = f"Exit code 1\n{step.printed}"
            self._result(call, told, f"Error: {told}", failed=True)
        elif step.tool == "Bash":
            rest: Record = {"stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
            self._result(call, step.printed, {"stdout": step.printed, **rest})
        else:
            self._result(call, step.printed, {"mode": "content", "numLines": step.printed.count("\n") + 1})

    def _send_off(self, other: Talk) -> None:
        asked, answer = other.turns[0].prompt, other.turns[-1].answer
        self.sent_off = self._call("Task", {"description": other.title, "prompt": asked, "subagent_type": "any"})
        told: Record = {"status": "completed", "agentId": other.name.hex[:17], "totalDurationMs": 5_000}
        self._result(self.sent_off, answer, told)

    def _call(self, tool: str, given: Record) -> str:
        call = f"toolu_{self._name()[-20:].replace('-', '')}"
        self._assistant({"type": "tool_use", "id": call, "name": tool, "input": given})
        return call

    def _result(self, call: str, told: str, richer: object, *, failed: bool = False) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": told, "is_error": failed}
        self._user([block], toolUseResult=richer, sourceToolAssistantUUID=self._last)

    def _user(self, content: object, **more: object) -> None:
        self._write("user", {"role": "user", "content": content}, more)

    def _assistant(self, block: Record, *, stop: str = "tool_use", again: bool = False) -> None:
        """Again: the next record is of the same message."""
        used = {"input_tokens": 120, "cache_creation_input_tokens": 900, "cache_read_input_tokens": 15_000}
        message: Record = {
            "id": f"msg_{self._talk.name.hex[:12]}{self._count:06d}",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [block],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {**used, "output_tokens": 33, "service_tier": "standard"},
        }
        self._count += not again
        self._write("assistant", message, {})

    def _write(self, kind: str, message: Record, more: Record) -> None:
        self.at += timedelta(seconds=4)
        before, self._last = self._last, self._name()
        self.records.append(
            {"parentUuid": before, "isSidechain": bool(self._agent)}
            | ({"agentId": self._agent} if self._agent else {})
            | {"type": kind, "message": message, "uuid": self._last, "timestamp": spelled(self.at), **more}
            | {"userType": "external", "entrypoint": "cli", "cwd": self._talk.folder, "sessionId": self._session}
            | {"version": "2.1.197", "gitBranch": "main"}
        )

    def _name(self) -> str:
        """Of the next record."""
        name = self._talk.name.hex
        return f"{name[:8]}-{name[8:12]}-4{name[13:16]}-8{name[17:20]}-{len(self.records):012x}"
