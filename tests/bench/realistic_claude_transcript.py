"""This module writes a made-up conversation with the shapes that real transcripts of Claude Code have.

Most bytes of a real transcript are tool results, and nearly as many are the copies of them in `toolUseResult`. About a
fifth are `progress` records. Records are wide, and files have snapshots and branches.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from bench.claude_transcript import MODEL, Record
from bench.dialogues import Dialogue, format_time
from bench.realistic_dialogues import WorkStep, WorkTurn
from bench.workspace import make_base64, make_hex, make_uuid

_HOOK = {"type": "hook_progress", "hookEvent": "PostToolUse", "hookName": "PostToolUse:Edit", "command": "callback"}


def build_transcripts(dialogue: Dialogue) -> Iterator[tuple[Path, datetime, list[Record]]]:
    """Yield the files of a conversation: path below the agent's home, time of the last write, records."""
    folder = Path("projects", re.sub(r"[^A-Za-z0-9]", "-", dialogue.folder))
    transcript = _RealisticClaudeTranscript(dialogue)
    yield folder / f"{dialogue.uuid}.jsonl", transcript.last_written_at, transcript.records


class _RealisticClaudeTranscript:
    def __init__(self, dialogue: Dialogue) -> None:
        self.records: list[Record] = []
        self.last_written_at = dialogue.started_at
        self._dialogue = dialogue
        self._rng = random.Random(f"claude {dialogue.number}")
        self._last_uuid: str | None = None
        self._tracked_paths: dict[str, None] = {}
        for turn in dialogue.turns:
            assert isinstance(turn, WorkTurn)
            self._append_turn(turn)

    def _append_turn(self, turn: WorkTurn) -> None:
        self._append_snapshot()
        if turn.rewound_prompt:
            parent = self._last_uuid
            self._append_user_message(turn.rewound_prompt)
            self._append_answer({"type": "text", "text": turn.answer}, stop="end_turn")
            self._last_uuid = parent  # the person went back and asked again
        self._append_user_message(turn.prompt)
        for step in turn.steps:
            assert isinstance(step, WorkStep)
            self._append_step(step)
        self._append_answer({"type": "text", "text": turn.answer}, stop="end_turn")

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────

    def _append_step(self, step: WorkStep) -> None:
        if step.thinking:
            signature = make_base64(self._rng, 500)
            self._append_answer({"type": "thinking", "thinking": step.thinking, "signature": signature})
        if step.text:
            self._append_answer({"type": "text", "text": step.text})
        match step.tool:
            case "Bash":
                self._append_bash(step)
            case "Read":
                self._append_read(step)
            case "Edit":
                self._append_edit(step)
            case "Write":
                self._append_write(step)
            case "Grep":
                self._append_grep(step)
            case _:
                self._append_agent(step)

    def _append_bash(self, step: WorkStep) -> None:
        call = self._append_call("Bash", {"command": step.command, "description": "Look for it"})
        for number in range(self._rng.choice((0, 0, 1, 2, 5))):
            shown = step.output[-2_000:]
            data = {"type": "bash_progress", "output": shown, "fullOutput": step.output, "elapsedTimeSeconds": number}
            self._append_progress(call, data | {"totalLines": step.output.count("\n")})
        if step.failed:
            text = f"Exit code 1\n{step.output}"
            self._append_result(call, text, f"Error: {text}", is_error=True)
        else:
            rest: Record = {"stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
            self._append_result(call, step.output, {"stdout": step.output, **rest})

    def _append_read(self, step: WorkStep) -> None:
        call = self._append_call("Read", {"file_path": step.path})
        lines = step.content.split("\n")
        numbered = "\n".join(f"{number:6d}→{line}" for number, line in enumerate(lines, 1))
        file = {"filePath": step.path, "content": step.content, "numLines": len(lines), "startLine": 1}
        self._append_result(call, numbered, {"type": "text", "file": file | {"totalLines": len(lines)}})

    def _append_edit(self, step: WorkStep) -> None:
        old, new, path = step.old_line, step.new_line, step.path
        self._tracked_paths[path] = None
        call = self._append_call("Edit", {"file_path": path, "old_string": old, "new_string": new})
        self._append_progress(call, dict(_HOOK))
        lines = step.content.split("\n")
        place = lines.index(old)
        before, after = lines[max(place - 3, 0) : place], lines[place + 1 : place + 4]
        shown = [*(f" {line}" for line in before), f"-{old}", f"+{new}", *(f" {line}" for line in after)]
        patch = [{"oldStart": place, "oldLines": 7, "newStart": place, "newLines": 7, "lines": shown}]
        details: Record = {"filePath": path, "oldString": old, "newString": new, "originalFile": step.content}
        details |= {"structuredPatch": patch, "userModified": False, "replaceAll": False}
        self._append_result(call, f"The file {path} has been updated.\n" + "\n".join([*before, new, *after]), details)

    def _append_write(self, step: WorkStep) -> None:
        self._tracked_paths[step.path] = None
        call = self._append_call("Write", {"file_path": step.path, "content": step.content})
        details: Record = {"type": "create", "filePath": step.path, "content": step.content}
        details |= {"structuredPatch": [], "originalFile": None}
        self._append_result(call, f"File created successfully at: {step.path}", details)

    def _append_grep(self, step: WorkStep) -> None:
        call = self._append_call("Grep", {"pattern": step.command, "output_mode": "content"})
        rest: Record = {"mode": "content", "filenames": [], "numFiles": 0, "numLines": step.output.count("\n")}
        self._append_result(call, step.output, {"content": step.output, **rest})

    def _append_agent(self, step: WorkStep) -> None:
        call = self._append_call(
            "Task", {"description": "Look", "prompt": step.thinking, "subagent_type": "general-purpose"}
        )
        for output in step.sub_outputs:
            block = {"type": "tool_result", "tool_use_id": f"toolu_{make_hex(self._rng, 24)}", "content": output}
            message = {"role": "user", "content": [block]}
            nested = {"type": "user", "message": message, "uuid": make_uuid(self._rng), "timestamp": self._now}
            data: Record = {
                "type": "agent_progress",
                "message": nested,
                "normalizedMessages": [],
                "prompt": "",
                "agentId": "a",
            }
            self._append_progress(call, data)
        content = [{"type": "text", "text": step.output}]
        details: Record = {"status": "completed", "prompt": step.thinking, "totalDurationMs": 5_000, "totalTokens": 99}
        self._append_result(call, content, details | {"content": content})

    # ── records ───────────────────────────────────────────────────────────────────────────────────

    def _append_call(self, tool: str, arguments: Record) -> str:
        call = f"toolu_{make_hex(self._rng, 24)}"
        self._append_answer({"type": "tool_use", "id": call, "name": tool, "input": arguments})
        return call

    def _append_result(self, call: str, content: object, details: object, *, is_error: bool = False) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": is_error}
        self._append_user_message([block], toolUseResult=details, sourceToolAssistantUUID=self._last_uuid)

    def _append_progress(self, call: str, data: Record) -> None:
        self._append_record("progress", {"data": data, "toolUseID": f"{call}-1", "parentToolUseID": call})

    def _append_snapshot(self) -> None:
        """Append the backups of all files that were changed so far, as Claude Code does before each prompt."""
        names = (make_hex(self._rng, 16) for _ in self._tracked_paths)
        backups = {
            path: {"backupFileName": f"{name}@v1", "version": 1, "backupTime": self._now}
            for path, name in zip(self._tracked_paths, names, strict=True)
        }
        message = make_uuid(self._rng)
        snapshot = {"messageId": message, "trackedFileBackups": backups, "timestamp": self._now}
        self.records.append({"type": "file-history-snapshot", "messageId": message, "snapshot": snapshot})

    def _append_user_message(self, content: object, **more: object) -> None:
        more = {"thinkingMetadata": {"maxThinkingTokens": 31_999}, "todos": [], "permissionMode": "default", **more}
        self._append_record("user", {"message": {"role": "user", "content": content}, **more})

    def _append_answer(self, block: Record, *, stop: str | None = None) -> None:
        used = {"input_tokens": 3, "cache_creation_input_tokens": 900, "cache_read_input_tokens": 15_000}
        created = {"ephemeral_5m_input_tokens": 900, "ephemeral_1h_input_tokens": 0}
        message: Record = {
            "model": MODEL,
            "id": f"msg_{make_hex(self._rng, 24)}",
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {**used, "cache_creation": created, "output_tokens": 33, "service_tier": "standard"},
        }
        self._append_record("assistant", {"message": message, "requestId": f"req_{make_hex(self._rng, 24)}"})

    def _append_record(self, kind: str, values: Record) -> None:
        self.last_written_at += timedelta(seconds=4)
        before, self._last_uuid = self._last_uuid, make_uuid(self._rng)
        common = {"userType": "external", "cwd": self._dialogue.folder, "sessionId": str(self._dialogue.uuid)}
        self.records.append(
            {"parentUuid": before, "isSidechain": False, **common, "version": "2.1.29", "gitBranch": "main"}
            | {"slug": "calm-stone-river", "type": kind, **values}
            | {"uuid": self._last_uuid, "timestamp": self._now}
        )

    @property
    def _now(self) -> str:
        return format_time(self.last_written_at)
