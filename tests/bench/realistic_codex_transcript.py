"""This module writes a made-up conversation with the shapes that real rollouts of Codex have.

A rollout starts with instructions of 20 KB, every reasoning item has some KB of encrypted content, edits are patches,
long outputs are shortened, and every message and output is written twice.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from bench.codex_transcript import INSTRUCTIONS, TOKEN_USAGE, CodexTranscript, Record, rollout_path
from bench.dialogues import Dialogue, DialogueStep, DialogueTurn
from bench.realistic_dialogues import WorkStep
from bench.workspace import make_base64

_ENVIRONMENT = "<environment_context>\n  <cwd>{}</cwd>\n  <shell>bash</shell>\n</environment_context>"


def build_transcripts(dialogue: Dialogue) -> Iterator[tuple[Path, datetime, list[Record]]]:
    """Yield the file of a conversation: path below the agent's home, time of the last write, records."""
    transcript = _RealisticCodexTranscript(dialogue, None)
    yield rollout_path(dialogue), transcript.last_written_at, transcript.records


class _RealisticCodexTranscript(CodexTranscript):
    instructions = INSTRUCTIONS * 12

    def __init__(self, dialogue: Dialogue, parent: Dialogue | None) -> None:
        self._rng = random.Random(f"codex {dialogue.number}")
        self._responses = 0
        super().__init__(dialogue, parent)

    def append_turn(self, turn: DialogueTurn) -> None:
        if len(self.records) == 1:
            self.append_message("developer", "input_text", INSTRUCTIONS * 2, ["permissions.instructions"])
            text = _ENVIRONMENT.format(self.dialogue.folder)
            self.append_message("user", "input_text", text, ["environments.environment_context"])
            self.append_record("world_state", {"full": True, "state": {"environments": {"local": {"cwd": text}}}})
        super().append_turn(turn)

    def make_encrypted_content(self) -> str:
        return make_base64(self._rng, self._rng.choice((400, 800, 1_600)))

    def append_command(self, step: DialogueStep) -> None:
        assert isinstance(step, WorkStep)
        self._append_usage_record()
        match step.tool:
            case "Edit":
                self._append_patch(step, f"*** Update File: {step.path}\n@@\n-{step.old_line}\n+{step.new_line}")
            case "Write":
                added = "\n".join(f"+{line}" for line in step.content.split("\n"))
                self._append_patch(step, f"*** Add File: {step.path}\n{added}")
            case "Read":
                super().append_command(replace(step, command=f"cat {step.path}", output=step.content))
            case _:
                super().append_command(step)

    def _append_patch(self, step: WorkStep, change: str) -> None:
        call = self.next_id("call")
        patch = f"*** Begin Patch\n{change}\n*** End Patch\n"
        self.append_response_item("custom_tool_call", status="completed", call_id=call, name="apply_patch", input=patch)
        changes = {step.path: {"type": "update", "unified_diff": patch, "move_path": None}}
        self.append_event("patch_apply_end", call_id=call, turn_id=self.turn_id, success=True, changes=changes)
        output = f"Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nM {step.path}\n"
        self.append_response_item("custom_tool_call_output", call_id=call, output=output)

    def _append_usage_record(self) -> None:
        self._responses += 1
        used = {**TOKEN_USAGE, "total_tokens": 190}
        ids = {"thread_id": str(self.dialogue.uuid), "turn_id": self.turn_id, "response_id": self.next_id("resp")}
        total = {name: count * self._responses for name, count in used.items()}
        usage = {"usage": used, "turn_token_usage": total, "thread_token_usage": total}
        self.append_record("token_usage_record", {**ids, **usage})
