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
            transcript = _CodexTranscript(session, parent)
            day, second = session.started_at.strftime("%Y/%m/%d"), session.started_at.strftime("%Y-%m-%dT%H-%M-%S")
            path = Path("sessions", day, f"rollout-{second}-{session.uuid}.jsonl")
            yield path, transcript.last_written_at, transcript.records


class _CodexTranscript:
    def __init__(self, dialogue: Dialogue, parent: Dialogue | None) -> None:
        self.records: list[Record] = []
        self.last_written_at = dialogue.started_at
        self._dialogue = dialogue
        self._turn_id = ""
        self._append_record("session_meta", self._session_meta(parent))
        for number, turn in enumerate(dialogue.turns):
            self._turn_id = str(UUID(int=dialogue.uuid.int ^ (number + 1)))
            self._append_turn(turn)

    def _session_meta(self, parent: Dialogue | None) -> Record:
        name = str(self._dialogue.uuid)
        meta: Record = {
            "session_id": str(parent.uuid) if parent else name,
            "id": name,
            "timestamp": format_time(self._dialogue.started_at),
            "cwd": self._dialogue.folder,
            "originator": "codex_cli_rs",
            "cli_version": "0.166.0",
            "source": "cli",
            "model_provider": "openai",
            "history_mode": "paginated",
            "base_instructions": {"text": INSTRUCTIONS},
            "git": {"branch": "main"},
        }
        if parent is not None:
            spawned = {"parent_thread_id": str(parent.uuid), "depth": 1, "agent_nickname": "scout"}
            meta |= {"source": {"subagent": {"thread_spawn": spawned}}, "parent_thread_id": str(parent.uuid)}
        return meta

    def _append_turn(self, turn: DialogueTurn) -> None:
        self._append_event("task_started", turn_id=self._turn_id, model_context_window=258_400)
        settings = {"cwd": self._dialogue.folder, "model": MODEL, "approval_policy": "never", "summary": "none"}
        self._append_record(
            "turn_context", {"turn_id": self._turn_id, **settings, "sandbox_policy": {"type": "workspace-write"}}
        )
        self._append_message("user", "input_text", turn.prompt, ["user.text"])
        self._append_shown_item(
            "UserMessage", self._next_id("um"), content=[{"type": "text", "text": turn.prompt, "text_elements": []}]
        )
        for step in turn.steps:
            self._append_step(step)
        self._append_answer(turn.answer, "final_answer")
        self._append_event("task_complete", turn_id=self._turn_id, last_agent_message=turn.answer, duration_ms=4_000)

    def _append_step(self, step: DialogueStep) -> None:
        if step.thinking:
            name = self._next_id("rs")
            self._append_shown_item("Reasoning", name, summary_text=[step.thinking], raw_content=[])
            summary = [{"type": "summary_text", "text": step.thinking}]
            self._append_response_item("reasoning", id=name, summary=summary, content=None, encrypted_content="AAAA")
        if step.text:
            self._append_answer(step.text, "commentary")
        self._append_command(step)
        used = {**TOKEN_USAGE, "total_tokens": 190}
        self._append_event("token_count", info={"total_token_usage": used, "last_token_usage": used}, rate_limits=None)

    def _append_command(self, step: DialogueStep) -> None:
        call, status = self._next_id("call"), int(step.failed)
        self._append_response_item(
            "function_call", name="exec_command", arguments=_encode_arguments(step.command), call_id=call
        )
        self._append_shown_item(
            "CommandExecution",
            call,
            command=["/bin/bash", "-lc", step.command],
            cwd=f"file://{self._dialogue.folder}",
            status="failed" if step.failed else "completed",
            aggregated_output=step.output,
            exit_code=status,
            duration={"secs": 1, "nanos": 0},
        )
        head = f"Chunk ID: 7905f5\nWall time: 1.0000 seconds\nProcess exited with code {status}\nOutput:\n"
        self._append_response_item("function_call_output", call_id=call, output=f"{head}{step.output}"[:10_000])

    def _append_answer(self, text: str, phase: str) -> None:
        name = self._next_id("msg")
        self._append_shown_item("AgentMessage", name, content=[{"type": "Text", "text": text}])
        self._append_message("assistant", "output_text", text, ["unknown"], id=name, phase=phase)

    def _append_message(self, role: str, kind: str, text: str, kinds: list[str], **more: object) -> None:
        passed = {"turn_id": self._turn_id, "content_item_kinds": kinds}
        content = [{"type": kind, "text": text}]
        self._append_response_item(
            "message", role=role, content=content, internal_chat_message_metadata_passthrough=passed, **more
        )

    def _append_response_item(self, kind: str, **payload: object) -> None:
        self._append_record("response_item", {"type": kind, **payload})

    def _append_shown_item(self, kind: str, name: str, **item: object) -> None:
        thread = {"thread_id": str(self._dialogue.uuid), "turn_id": self._turn_id}
        self._append_event("item_completed", **thread, item={"type": kind, "id": name, **item})

    def _append_event(self, kind: str, **payload: object) -> None:
        self._append_record("event_msg", {"type": kind, **payload})

    def _append_record(self, kind: str, payload: Record) -> None:
        self.last_written_at += timedelta(seconds=1)
        ordinal = len(self.records)
        self.records.append(
            {"timestamp": format_time(self.last_written_at), "ordinal": ordinal, "type": kind, "payload": payload}
        )

    def _next_id(self, kind: str) -> str:
        return f"{kind}_{self._dialogue.uuid.hex[:12]}{len(self.records):06d}"


def _encode_arguments(command: str) -> str:
    return orjson.dumps({"cmd": command}).decode()
