"""This module writes a made-up conversation as Claude Code does: JSON lines, each with the id of the one before."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from bench.dialogues import Dialogue, DialogueStep, format_time

Record = dict[str, object]
MODEL = "claude-opus-4-8"


def build_transcripts(dialogue: Dialogue) -> Iterator[tuple[Path, datetime, list[Record]]]:
    """Yield the files of a conversation: path below the agent's home, time of the last write, records."""
    folder = Path("projects", re.sub(r"[^A-Za-z0-9]", "-", dialogue.folder))
    transcript = _ClaudeTranscript(dialogue, session=str(dialogue.uuid))
    yield folder / f"{dialogue.uuid}.jsonl", transcript.last_written_at, transcript.records
    if dialogue.delegate is not None:
        agent = dialogue.delegate.uuid.hex[:17]
        sub_transcript = _ClaudeTranscript(dialogue.delegate, session=str(dialogue.uuid), agent=agent)
        sub_folder = folder / str(dialogue.uuid) / "subagents"
        yield sub_folder / f"agent-{agent}.jsonl", sub_transcript.last_written_at, sub_transcript.records
        meta: Record = {
            "agentType": "general-purpose",
            "description": dialogue.title,
            "toolUseId": transcript.delegate_call_id,
        }
        yield sub_folder / f"agent-{agent}.meta.json", sub_transcript.last_written_at, [meta]


class _ClaudeTranscript:
    def __init__(self, dialogue: Dialogue, *, session: str, agent: str = "") -> None:
        self.records: list[Record] = []
        self.last_written_at = dialogue.started_at
        self.delegate_call_id = ""
        self._dialogue = dialogue
        self._session = session
        self._agent = agent
        self._last_uuid: str | None = None
        self._message_count = 0
        for number, turn in enumerate(dialogue.turns):
            self._append_user_message(turn.prompt)
            for step in turn.steps:
                self._append_step(step)
            if dialogue.delegate is not None and number == len(dialogue.turns) - 1:
                self._append_delegate_call(dialogue.delegate)
            self._append_assistant_message({"type": "text", "text": turn.answer}, stop="end_turn")
        if not agent and dialogue.number % 3 == 0:
            self.records.append({"type": "ai-title", "aiTitle": dialogue.title, "sessionId": session})

    def _append_step(self, step: DialogueStep) -> None:
        if step.thinking:
            self._append_assistant_message(
                {"type": "thinking", "thinking": step.thinking, "signature": "c2ln"}, has_more=True
            )
        if step.text:
            self._append_assistant_message({"type": "text", "text": step.text}, has_more=True)
        call = self._append_call(step.tool, {"command": step.command, "description": "Look for it"})
        if step.failed:
            text = f"Exit code 1\n{step.output}"
            self._append_result(call, text, f"Error: {text}", failed=True)
        elif step.tool == "Bash":
            rest: Record = {"stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
            self._append_result(call, step.output, {"stdout": step.output, **rest})
        else:
            self._append_result(call, step.output, {"mode": "content", "numLines": step.output.count("\n") + 1})

    def _append_delegate_call(self, other: Dialogue) -> None:
        prompt, answer = other.turns[0].prompt, other.turns[-1].answer
        self.delegate_call_id = self._append_call(
            "Task", {"description": other.title, "prompt": prompt, "subagent_type": "any"}
        )
        details: Record = {"status": "completed", "agentId": other.uuid.hex[:17], "totalDurationMs": 5_000}
        self._append_result(self.delegate_call_id, answer, details)

    def _append_call(self, tool: str, arguments: Record) -> str:
        call = f"toolu_{self._next_uuid()[-20:].replace('-', '')}"
        self._append_assistant_message({"type": "tool_use", "id": call, "name": tool, "input": arguments})
        return call

    def _append_result(self, call: str, text: str, details: object, *, failed: bool = False) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": text, "is_error": failed}
        self._append_user_message([block], toolUseResult=details, sourceToolAssistantUUID=self._last_uuid)

    def _append_user_message(self, content: object, **more: object) -> None:
        self._append_record("user", {"role": "user", "content": content}, more)

    def _append_assistant_message(self, block: Record, *, stop: str = "tool_use", has_more: bool = False) -> None:
        """Append a record of one content block. With `has_more`, the next record belongs to the same message."""
        used = {"input_tokens": 120, "cache_creation_input_tokens": 900, "cache_read_input_tokens": 15_000}
        message: Record = {
            "id": f"msg_{self._dialogue.uuid.hex[:12]}{self._message_count:06d}",
            "type": "message",
            "role": "assistant",
            "model": MODEL,
            "content": [block],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {**used, "output_tokens": 33, "service_tier": "standard"},
        }
        self._message_count += not has_more
        self._append_record("assistant", message, {})

    def _append_record(self, kind: str, message: Record, more: Record) -> None:
        self.last_written_at += timedelta(seconds=4)
        before, self._last_uuid = self._last_uuid, self._next_uuid()
        self.records.append(
            {"parentUuid": before, "isSidechain": bool(self._agent)}
            | ({"agentId": self._agent} if self._agent else {})
            | {
                "type": kind,
                "message": message,
                "uuid": self._last_uuid,
                "timestamp": format_time(self.last_written_at),
                **more,
            }
            | {"userType": "external", "entrypoint": "cli", "cwd": self._dialogue.folder, "sessionId": self._session}
            | {"version": "2.1.197", "gitBranch": "main"}
        )

    def _next_uuid(self) -> str:
        """Return the id of the next record."""
        name = self._dialogue.uuid.hex
        return f"{name[:8]}-{name[8:12]}-4{name[13:16]}-8{name[17:20]}-{len(self.records):012x}"
