"""This module writes a made-up conversation as pi does: JSON lines, each with the id of the one before, said once."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from bench.dialogues import Dialogue, DialogueStep, format_time
from bench.realistic_dialogues import WorkStep
from bench.workspace import make_hex

Record = dict[str, object]
_COST = {"input": 0.003, "output": 0.0005, "cacheRead": 0.002, "cacheWrite": 0.0, "total": 0.0055}
_USAGE = {"input": 99, "output": 33, "cacheRead": 9_000, "cacheWrite": 0, "totalTokens": 9_132, "cost": _COST}
_MODEL = {"api": "anthropic-messages", "provider": "anthropic", "model": "claude-opus-4-8", "usage": _USAGE}


def build_transcripts(dialogue: Dialogue) -> Iterator[tuple[Path, datetime, list[Record]]]:
    """Yield the file of a conversation: path below the agent's home, time of the last write, records."""
    transcript = _PiTranscript(dialogue)
    folder = f"--{dialogue.folder.strip('/').replace('/', '-')}--"
    second = dialogue.started_at.strftime("%Y-%m-%dT%H-%M-%S-000Z")
    path = Path("agent", "sessions", folder, f"{second}_{dialogue.uuid}.jsonl")
    yield path, transcript.last_written_at, transcript.records


class _PiTranscript:
    def __init__(self, dialogue: Dialogue) -> None:
        self.last_written_at = dialogue.started_at
        header: Record = {"type": "session", "version": 3, "id": str(dialogue.uuid), "cwd": dialogue.folder}
        self.records: list[Record] = [header | {"timestamp": format_time(dialogue.started_at)}]
        self._rng = random.Random(f"pi {dialogue.number}")
        self._last_id: str | None = None
        for turn in dialogue.turns:
            self._append_message("user", [{"type": "text", "text": turn.prompt}])
            for step in turn.steps:
                self._append_step(step)
            self._append_message("assistant", [{"type": "text", "text": turn.answer}], **_MODEL, stopReason="stop")

    def _append_step(self, step: DialogueStep) -> None:
        assert isinstance(step, WorkStep)
        name, arguments, output = _describe_call(step)
        call = f"toolu_{make_hex(self._rng, 24)}"
        blocks: list[Record] = [{"type": "thinking", "thinking": step.thinking}] if step.thinking else []
        blocks += [{"type": "text", "text": step.text}] if step.text else []
        blocks.append({"type": "toolCall", "id": call, "name": name, "arguments": arguments})
        self._append_message("assistant", blocks, **_MODEL, stopReason="toolUse")
        result = [{"type": "text", "text": output}]
        self._append_message("toolResult", result, toolCallId=call, toolName=name, isError=step.failed)

    def _append_message(self, role: str, content: object, **more: object) -> None:
        self.last_written_at += timedelta(seconds=4)
        before, self._last_id = self._last_id, make_hex(self._rng, 8)
        at = int(self.last_written_at.timestamp() * 1000)
        message = {"role": role, "content": content, **more, "timestamp": at}
        self.records.append(
            {"type": "message", "id": self._last_id, "parentId": before}
            | {"timestamp": format_time(self.last_written_at), "message": message}
        )


def _describe_call(step: WorkStep) -> tuple[str, Record, str]:
    """Return the tool, its arguments and its output."""
    match step.tool:
        case "Read":
            return "read", {"path": step.path}, step.content
        case "Write":
            return "write", {"path": step.path, "content": step.content}, f"Successfully wrote {step.path}"
        case "Edit":
            arguments: Record = {"path": step.path, "oldText": step.old_line, "newText": step.new_line}
            return "edit", arguments, f"Successfully replaced text in {step.path}."
        case _:
            return "bash", {"command": step.command}, step.output
