"""This module writes a made-up conversation with the shapes that real transcripts of Claude Code have.

Most bytes of a real transcript are tool results, and nearly as many are the copies of them in `toolUseResult`. About a
fifth are `progress` records. Records are wide, files have snapshots and branches, sizes have a long tail, and new words
(ids, hashes, paths, base64) never end. `docs/benchmarks.md` compares the shares.
"""

from __future__ import annotations

import base64
import random
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from bench.claude_transcript import MODEL, Record
from bench.dialogues import Dialogue, DialogueStep, format_time
from bench.prose import Prose

_FILE_LINES = (8, 20, 40, 80, 160, 300, 600)
_FILE_WEIGHTS = (10, 14, 12, 9, 6, 3, 1)
_REPEATS = (1, 1, 1, 1, 2, 2, 3, 4, 6, 9)
"""Multiplies the steps of a turn, so that few sessions are very long."""


def build_transcripts(dialogue: Dialogue, prose: Prose) -> Iterator[tuple[Path, datetime, list[Record]]]:
    """Yield the files of a conversation: path below the agent's home, time of the last write, records."""
    folder = Path("projects", re.sub(r"[^A-Za-z0-9]", "-", dialogue.folder))
    transcript = _RealisticTranscript(dialogue, prose)
    yield folder / f"{dialogue.uuid}.jsonl", transcript.last_written_at, transcript.records


class _RealisticTranscript:
    def __init__(self, dialogue: Dialogue, prose: Prose) -> None:
        self.records: list[Record] = []
        self.last_written_at = dialogue.started_at
        self._dialogue = dialogue
        self._prose = prose
        self._rng = random.Random(f"realistic {dialogue.number}")
        self._last_uuid: str | None = None
        self._repeat = self._rng.choice(_REPEATS)
        for number, turn in enumerate(dialogue.turns):
            self._append_snapshot()
            prompt_parent = self._last_uuid
            self._append_user_message(turn.prompt)
            if number and self._rng.randrange(8) == 0:
                self._append_answer({"type": "text", "text": turn.answer}, stop="end_turn")
                self._last_uuid = prompt_parent  # the person went back and asked again
                self._append_user_message(f"{turn.prompt} {prose.make_phrase(self._rng, 6)}")
            for step in turn.steps * self._repeat:
                self._append_step(step)
            self._append_answer({"type": "text", "text": turn.answer}, stop="end_turn")

    # ── steps ─────────────────────────────────────────────────────────────────────────────────────

    def _append_step(self, step: DialogueStep) -> None:
        if step.thinking:
            self._append_answer({"type": "thinking", "thinking": step.thinking, "signature": self._make_base64(300)})
        if step.text:
            self._append_answer({"type": "text", "text": step.text})
        kind = self._rng.choices(("Bash", "Read", "Edit", "Grep", "Agent"), (30, 28, 32, 8, 4))[0]
        getattr(self, f"_append_{kind.lower()}")(step)

    def _append_bash(self, step: DialogueStep) -> None:
        output = self._make_output(self._rng.choice((1, 3, 8, 20, 60)))
        call = self._append_call(
            "Bash", {"command": f"{step.command} --id {self._make_hex(12)}", "description": "Look"}
        )
        for _ in range(self._rng.choice((0, 0, 1, 2, 5))):
            data = {"type": "bash_progress", "output": output[:2_000], "fullOutput": output, "elapsedTimeSeconds": 3}
            self._append_progress(call, data)
        rest: Record = {"stderr": "", "interrupted": False, "isImage": False, "noOutputExpected": False}
        self._append_result(call, output, {"stdout": output, **rest})

    def _append_read(self, step: DialogueStep) -> None:
        path, content = self._make_path(), self._make_file()
        call = self._append_call("Read", {"file_path": path})
        lines = content.split("\n")
        numbered = "\n".join(f"{number:6d}→{line}" for number, line in enumerate(lines, 1))
        file = {"filePath": path, "content": content, "numLines": len(lines), "startLine": 1, "totalLines": len(lines)}
        self._append_result(call, numbered, {"type": "text", "file": file})

    def _append_edit(self, step: DialogueStep) -> None:
        path, content = self._make_path(), self._make_file()
        lines = content.split("\n")
        old = lines[self._rng.randrange(len(lines))]
        new = f"{old}  # {self._prose.make_phrase(self._rng, 4)}"
        call = self._append_call("Edit", {"file_path": path, "old_string": old, "new_string": new})
        patch = [{"oldStart": 3, "oldLines": 1, "newStart": 3, "newLines": 1, "lines": [f"-{old}", f"+{new}"]}]
        details = {"filePath": path, "oldString": old, "newString": new, "originalFile": content, "replaceAll": False}
        details |= {"structuredPatch": patch, "userModified": False}
        self._append_result(call, f"The file {path} has been updated.\n{new}", details)

    def _append_grep(self, step: DialogueStep) -> None:
        output = self._make_output(self._rng.choice((5, 20, 50)))
        call = self._append_call("Grep", {"pattern": self._prose.make_phrase(self._rng, 1), "output_mode": "content"})
        details = {"mode": "content", "filenames": [], "content": output, "numFiles": 0, "numLines": output.count("\n")}
        self._append_result(call, output, details)

    def _append_agent(self, step: DialogueStep) -> None:
        prompt = self._prose.make_sentences(self._rng, 40)
        call = self._append_call("Task", {"description": "Look", "prompt": prompt, "subagent_type": "general-purpose"})
        for _ in range(self._rng.choice((3, 6, 10))):
            block = {"type": "tool_result", "tool_use_id": call, "content": self._make_output(25)}
            message = {"role": "user", "content": [block]}
            nested = {"type": "user", "message": message, "uuid": self._make_hex(32), "timestamp": self._now}
            data = {"type": "agent_progress", "message": nested, "normalizedMessages": [], "prompt": "", "agentId": "a"}
            self._append_progress(call, data)
        details = {"status": "completed", "prompt": prompt, "totalDurationMs": 5_000, "totalTokens": 1_000}
        answer = self._prose.make_sentences(self._rng, 60)
        content = [{"type": "text", "text": answer}]
        self._append_result(call, content, {**details, "content": content})

    # ── records ───────────────────────────────────────────────────────────────────────────────────

    def _append_call(self, tool: str, arguments: Record) -> str:
        call = f"toolu_{self._make_hex(24)}"
        self._append_answer({"type": "tool_use", "id": call, "name": tool, "input": arguments})
        return call

    def _append_result(self, call: str, content: object, details: Record) -> None:
        block = {"type": "tool_result", "tool_use_id": call, "content": content}
        self._append_user_message([block], toolUseResult=details, sourceToolAssistantUUID=self._last_uuid)

    def _append_progress(self, call: str, data: Record) -> None:
        self._append_record("progress", {"data": data, "toolUseID": f"{call}-1", "parentToolUseID": call})

    def _append_snapshot(self) -> None:
        files = {self._make_path(): {"backupFileName": f"{self._make_hex(16)}@v1", "version": 1} for _ in range(3)}
        snapshot = {"messageId": self._make_hex(32), "trackedFileBackups": files, "timestamp": self._now}
        self.records.append({"type": "file-history-snapshot", "messageId": snapshot["messageId"], "snapshot": snapshot})

    def _append_user_message(self, content: object, **more: object) -> None:
        more = {"thinkingMetadata": {"maxThinkingTokens": 31_999}, "todos": [], "permissionMode": "default", **more}
        self._append_record("user", {"message": {"role": "user", "content": content}, **more})

    def _append_answer(self, block: Record, *, stop: str | None = None) -> None:
        used = {"input_tokens": 3, "cache_creation_input_tokens": 900, "cache_read_input_tokens": 15_000}
        created = {"ephemeral_5m_input_tokens": 900, "ephemeral_1h_input_tokens": 0}
        message: Record = {
            "model": MODEL,
            "id": f"msg_{self._make_hex(24)}",
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": stop,
            "stop_sequence": None,
            "usage": {**used, "cache_creation": created, "output_tokens": 33, "service_tier": "standard"},
        }
        self._append_record("assistant", {"message": message, "requestId": f"req_{self._make_hex(24)}"})

    def _append_record(self, kind: str, values: Record) -> None:
        self.last_written_at += timedelta(seconds=4)
        before, self._last_uuid = self._last_uuid, self._make_uuid()
        common = {"userType": "external", "cwd": self._dialogue.folder, "sessionId": str(self._dialogue.uuid)}
        self.records.append(
            {"parentUuid": before, "isSidechain": False, **common, "version": "2.1.29", "gitBranch": "main"}
            | {"slug": "calm-stone-river", "type": kind, **values}
            | {"uuid": self._last_uuid, "timestamp": self._now}
        )

    # ── values ────────────────────────────────────────────────────────────────────────────────────

    @property
    def _now(self) -> str:
        return format_time(self.last_written_at)

    def _make_hex(self, digits: int) -> str:
        return f"{self._rng.getrandbits(4 * digits):0{digits}x}"

    def _make_uuid(self) -> str:
        name = self._make_hex(32)
        return f"{name[:8]}-{name[8:12]}-4{name[13:16]}-8{name[17:20]}-{name[20:]}"

    def _make_base64(self, count: int) -> str:
        return base64.b64encode(self._rng.randbytes(count)).decode()

    def _make_path(self) -> str:
        words = "/".join(self._rng.choices(self._prose.words, k=2))
        return f"{self._dialogue.folder}/src/{words}_{self._make_hex(3)}.py"

    def _make_output(self, lines: int) -> str:
        """Return output in which every tenth line has words that occur nowhere else."""
        output = self._prose.make_output(self._rng, lines).split("\n")
        return "\n".join(
            f"{line} {self._make_hex(16)} {self._make_path()}" if self._rng.randrange(10) == 0 else line
            for line in output
        )

    def _make_file(self) -> str:
        return self._make_output(self._rng.choices(_FILE_LINES, _FILE_WEIGHTS)[0])
