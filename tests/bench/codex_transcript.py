"""A made-up conversation as Codex writes it: what the model was told, and once more what was shown."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from uuid import UUID

import orjson
from bench.dialogues import Step, Talk, Turn, spelled

Record = dict[str, object]
MODEL = "gpt-5-codex"
INSTRUCTIONS = "You are a coding agent that works in a terminal. Be precise, safe and helpful. " * 20
USED = {"input_tokens": 150, "cached_input_tokens": 20, "output_tokens": 40, "reasoning_output_tokens": 8}


def files(talk: Talk) -> Iterator[tuple[Path, datetime, list[Record]]]:
    """Below the agent's home: where, when it was last written, what stands in it."""
    for one, above in ((talk, None), (talk.delegate, talk)):
        if one is not None:
            written = _Writing(one, above)
            day, second = one.began.strftime("%Y/%m/%d"), one.began.strftime("%Y-%m-%dT%H-%M-%S")
            yield Path("sessions", day, f"rollout-{second}-{one.name}.jsonl"), written.at, written.records


class _Writing:
    def __init__(self, talk: Talk, above: Talk | None) -> None:
        self.records: list[Record] = []
        self.at = talk.began
        self._talk = talk
        self._turn = ""
        self._write("session_meta", self._meta(above))
        for number, turn in enumerate(talk.turns):
            self._turn = str(UUID(int=talk.name.int ^ (number + 1)))
            self._tell(turn)

    def _meta(self, above: Talk | None) -> Record:
        name = str(self._talk.name)
        meta: Record = {
            "session_id": str(above.name) if above else name,
            "id": name,
            "timestamp": spelled(self._talk.began),
            "cwd": self._talk.folder,
            "originator": "codex_cli_rs",
            "cli_version": "0.166.0",
            "source": "cli",
            "model_provider": "openai",
            "history_mode": "paginated",
            "base_instructions": {"text": INSTRUCTIONS},
            "git": {"branch": "main"},
        }
        if above is not None:
            spawned = {"parent_thread_id": str(above.name), "depth": 1, "agent_nickname": "scout"}
            meta |= {"source": {"subagent": {"thread_spawn": spawned}}, "parent_thread_id": str(above.name)}
        return meta

    def _tell(self, turn: Turn) -> None:
        self._event("task_started", turn_id=self._turn, model_context_window=258_400)
        about = {"cwd": self._talk.folder, "model": MODEL, "approval_policy": "never", "summary": "none"}
        self._write("turn_context", {"turn_id": self._turn, **about, "sandbox_policy": {"type": "workspace-write"}})
        self._message("user", "input_text", turn.prompt, ["user.text"])
        self._shown("UserMessage", self._id("um"), content=[{"type": "text", "text": turn.prompt, "text_elements": []}])
        for step in turn.steps:
            self._step(step)
        self._say(turn.answer, "final_answer")
        self._event("task_complete", turn_id=self._turn, last_agent_message=turn.answer, duration_ms=4_000)

    def _step(self, step: Step) -> None:
        if step.thought:
            name = self._id("rs")
            self._shown("Reasoning", name, summary_text=[step.thought], raw_content=[])
            summary = [{"type": "summary_text", "text": step.thought}]
            self._item("reasoning", id=name, summary=summary, content=None, encrypted_content="AAAA")
        if step.said:
            self._say(step.said, "commentary")
        self._run(step)
        used = {**USED, "total_tokens": 190}
        self._event("token_count", info={"total_token_usage": used, "last_token_usage": used}, rate_limits=None)

    def _run(self, step: Step) -> None:
        call, status = self._id("call"), int(step.failed)
        self._item("function_call", name="exec_command", arguments=_given(step.command), call_id=call)
        self._shown(
            "CommandExecution",
            call,
            command=["/bin/bash", "-lc", step.command],
            cwd=f"file://{self._talk.folder}",
            status="failed" if step.failed else "completed",
            aggregated_output=step.printed,
            exit_code=status,
            duration={"secs": 1, "nanos": 0},
        )
        head = f"Chunk ID: 7905f5\nWall time: 1.0000 seconds\nProcess exited with code {status}\nOutput:\n"
        self._item("function_call_output", call_id=call, output=f"{head}{step.printed}"[:10_000])

    def _say(self, text: str, phase: str) -> None:
        name = self._id("msg")
        self._shown("AgentMessage", name, content=[{"type": "Text", "text": text}])
        self._message("assistant", "output_text", text, ["unknown"], id=name, phase=phase)

    def _message(self, role: str, kind: str, text: str, kinds: list[str], **more: object) -> None:
        passed = {"turn_id": self._turn, "content_item_kinds": kinds}
        content = [{"type": kind, "text": text}]
        self._item("message", role=role, content=content, internal_chat_message_metadata_passthrough=passed, **more)

    def _item(self, kind: str, **payload: object) -> None:
        self._write("response_item", {"type": kind, **payload})

    def _shown(self, kind: str, name: str, **item: object) -> None:
        thread = {"thread_id": str(self._talk.name), "turn_id": self._turn}
        self._event("item_completed", **thread, item={"type": kind, "id": name, **item})

    def _event(self, kind: str, **payload: object) -> None:
        self._write("event_msg", {"type": kind, **payload})

    def _write(self, kind: str, payload: Record) -> None:
        self.at += timedelta(seconds=1)
        ordinal = len(self.records)
        self.records.append({"timestamp": spelled(self.at), "ordinal": ordinal, "type": kind, "payload": payload})

    def _id(self, kind: str) -> str:
        return f"{kind}_{self._talk.name.hex[:12]}{len(self.records):06d}"


def _given(command: str) -> str:
    return orjson.dumps({"cmd": command}).decode()
