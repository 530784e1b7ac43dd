"""This module writes a made-up conversation as Codex does: the input of the model, and again as it was displayed."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import orjson
from bench.dialogues import Dialogue, DialogueStep, DialogueTurn, format_time

Record = dict[str, object]
MODEL = "gpt-5-codex"
INSTRUCTIONS = "You are a coding agent that works in a terminal. Be precise, safe and helpful. " * 20
TOKEN_USAGE = {"input_tokens": 150, "cached_input_tokens": 20, "output_tokens": 40, "reasoning_output_tokens": 8}


def build_transcripts(dialogue: Dialogue) -> Iterator[tuple[Path, datetime, list[Record]]]:
    """Yield the files of a conversation: path below the agent's home, time of the last write, records."""
    for session, parent in ((dialogue, None), (dialogue.delegate, dialogue)):
        if session is not None:
            transcript = CodexTranscript(session, parent)
            yield rollout_path(session), transcript.last_written_at, transcript.records


def rollout_path(dialogue: Dialogue) -> Path:
    day, second = dialogue.started_at.strftime("%Y/%m/%d"), dialogue.started_at.strftime("%Y-%m-%dT%H-%M-%S")
    return Path("sessions", day, f"rollout-{second}-{dialogue.uuid}.jsonl")


class CodexTranscript:
    instructions = INSTRUCTIONS

    def __init__(self, dialogue: Dialogue, parent: Dialogue | None) -> None:
        self.records: list[Record] = []
        self.last_written_at = dialogue.started_at
        self.dialogue = dialogue
        self.turn_id = ""
        self.append_record("session_meta", self._session_meta(parent))
        for number, turn in enumerate(dialogue.turns):
            self.turn_id = str(UUID(int=dialogue.uuid.int ^ (number + 1)))
            self.append_turn(turn)

    def _session_meta(self, parent: Dialogue | None) -> Record:
        name = str(self.dialogue.uuid)
        meta: Record = {
            "session_id": str(parent.uuid) if parent else name,
            "id": name,
            "timestamp": format_time(self.dialogue.started_at),
            "cwd": self.dialogue.folder,
            "originator": "codex_cli_rs",
            "cli_version": "0.166.0",
            "source": "cli",
            "model_provider": "openai",
            "history_mode": "paginated",
            "base_instructions": {"text": self.instructions},
            "git": {"branch": "main"},
        }
        if parent is not None:
            spawned = {"parent_thread_id": str(parent.uuid), "depth": 1, "agent_nickname": "scout"}
            meta |= {"source": {"subagent": {"thread_spawn": spawned}}, "parent_thread_id": str(parent.uuid)}
        return meta

    def append_turn(self, turn: DialogueTurn) -> None:
        self.append_event("task_started", turn_id=self.turn_id, model_context_window=258_400)
        settings = {"cwd": self.dialogue.folder, "model": MODEL, "approval_policy": "never", "summary": "none"}
        self.append_record(
            "turn_context", {"turn_id": self.turn_id, **settings, "sandbox_policy": {"type": "workspace-write"}}
        )
        self.append_message("user", "input_text", turn.prompt, ["user.text"])
        self.append_shown_item(
            "UserMessage", self.next_id("um"), content=[{"type": "text", "text": turn.prompt, "text_elements": []}]
        )
        for step in turn.steps:
            self.append_step(step)
        self.append_answer(turn.answer, "final_answer")
        self.append_event("task_complete", turn_id=self.turn_id, last_agent_message=turn.answer, duration_ms=4_000)

    def append_step(self, step: DialogueStep) -> None:
        if step.thinking:
            name = self.next_id("rs")
            self.append_shown_item("Reasoning", name, summary_text=[step.thinking], raw_content=[])
            summary = [{"type": "summary_text", "text": step.thinking}]
            self.append_response_item(
                "reasoning", id=name, summary=summary, content=None, encrypted_content=self.make_encrypted_content()
            )
        if step.text:
            self.append_answer(step.text, "commentary")
        self.append_command(step)
        used = {**TOKEN_USAGE, "total_tokens": 190}
        self.append_event("token_count", info={"total_token_usage": used, "last_token_usage": used}, rate_limits=None)

    def append_command(self, step: DialogueStep) -> None:
        call, status = self.next_id("call"), int(step.failed)
        self.append_response_item(
            "function_call", name="exec_command", arguments=_encode_arguments(step.command), call_id=call
        )
        self.append_shown_item(
            "CommandExecution",
            call,
            command=["/bin/bash", "-lc", step.command],
            cwd=f"file://{self.dialogue.folder}",
            status="failed" if step.failed else "completed",
            aggregated_output=step.output[:65_536],
            exit_code=status,
            duration={"secs": 1, "nanos": 0},
        )
        head = f"Chunk ID: 7905f5\nWall time: 1.0000 seconds\nProcess exited with code {status}\nOutput:\n"
        self.append_response_item("function_call_output", call_id=call, output=f"{head}{step.output}"[:10_000])

    def make_encrypted_content(self) -> str:
        return "AAAA"

    def append_answer(self, text: str, phase: str) -> None:
        name = self.next_id("msg")
        self.append_shown_item("AgentMessage", name, content=[{"type": "Text", "text": text}])
        self.append_message("assistant", "output_text", text, ["unknown"], id=name, phase=phase)

    def append_message(self, role: str, kind: str, text: str, kinds: list[str], **more: object) -> None:
        passed = {"turn_id": self.turn_id, "content_item_kinds": kinds}
        content = [{"type": kind, "text": text}]
        self.append_response_item(
            "message", role=role, content=content, internal_chat_message_metadata_passthrough=passed, **more
        )

    def append_response_item(self, kind: str, **payload: object) -> None:
        self.append_record("response_item", {"type": kind, **payload})

    def append_shown_item(self, kind: str, name: str, **item: object) -> None:
        thread = {"thread_id": str(self.dialogue.uuid), "turn_id": self.turn_id}
        self.append_event("item_completed", **thread, item={"type": kind, "id": name, **item})

    def append_event(self, kind: str, **payload: object) -> None:
        self.append_record("event_msg", {"type": kind, **payload})

    def append_record(self, kind: str, payload: Record) -> None:
        self.last_written_at += timedelta(seconds=1)
        ordinal = len(self.records)
        self.records.append(
            {"timestamp": format_time(self.last_written_at), "ordinal": ordinal, "type": kind, "payload": payload}
        )

    def next_id(self, kind: str) -> str:
        return f"{kind}_{self.dialogue.uuid.hex[:12]}{len(self.records):06d}"


def _encode_arguments(command: str) -> str:
    return orjson.dumps({"cmd": command}).decode()
