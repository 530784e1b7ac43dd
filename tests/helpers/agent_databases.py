"""A small database of every agent that has one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import llm_database
from corruptible_stores import ANSWERED, ASKED, KINDS, NEIGHBOUR, SPOILED
from foreign_databases import insert
from llm_database import LlmStore
from opencode_store import OpencodeStore, answered, asked, said, text, tool

from store.sources import crush, goose
from store.sources.contract import Source
from store.sources.llm import source as llm
from store.sources.opencode import source as opencode

BUILT = {kind.name: kind.build for kind in KINDS}


@dataclass(frozen=True)
class Agent:
    source: Source
    build: Callable[[Path], object]
    json: list[str]
    "Columns that hold JSON."
    words: list[str]
    "Other columns that hold what may be long."

    def __str__(self) -> str:
        return self.source.NAME


def _llm(path: Path) -> None:
    owner = LlmStore(path)
    insert(path, "fragments", id=7, hash="h", content="Call me Ishmael.", source="moby.txt")
    insert(path, "attachments", id="sha", type="image/png", url="https://example.org/a.png")
    owner.conversation(SPOILED)
    first = owner.response("before", "yes", SPOILED, system="Be kind.", token_details='{"cached": 1}')
    insert(path, "tool_calls", response_id=first, name="add", arguments='{"a": 1}')
    insert(path, "tool_results", response_id=first, name="add", output="1", exception="Boom")
    owner.thread(SPOILED)
    referred = llm_database.part("text", text_ref=[{"fragment": 7}, {"literal": "Who?"}])
    call = llm_database.part("tool_call", name="add", arguments={"a": 2}, tool_call_id="c")
    result = llm_database.part("tool_result", name="add", output="5", tool_call_id="c", attachments=[{"id": "sha"}])
    picture = llm_database.part("attachment", attachment={"id": "sha"})
    details = json.dumps({"prompt_tokens_details": {"cached_tokens": 4}})
    tip = owner.turn([referred, picture], [call, llm_database.text("hm")], thread=SPOILED, token_details=details)
    owner.turn([result], "Done.", tip, thread=SPOILED)
    owner.turn("other", "another", tip, thread=SPOILED)
    owner.thread("fork", forked_from=SPOILED, tip_message_hash=tip)
    owner.thread(NEIGHBOUR)
    owner.turn(ASKED, ANSWERED, thread=NEIGHBOUR)


def _opencode(path: Path) -> None:
    owner = OpencodeStore(path)
    revert, model = json.dumps({"messageID": "msg_005"}), json.dumps({"id": "opus", "providerID": "anthropic"})
    task = tool("Seen.", "c7", "task", metadata={"sessionId": "child", "truncated": True, "outputPath": "/x/tool_1"})
    turns = [(asked(), [text("Fix it"), text("injected", synthetic=True)]), (answered(), [said("Reading."), task])]
    owner.session(SPOILED, *turns, (asked(), [text("again")]), revert=revert, model=model)
    owner.session("child", (asked(), [text("look")]), parent_id=SPOILED)
    owner.session("later")
    owner.later(
        "assistant", "later", content=[{"type": "tool", "id": "c", "name": "bash", "state": {"status": "error"}}]
    )
    owner.session(NEIGHBOUR, (asked(), [text(ASKED)]), (answered(), [said(ANSWERED)]))


AGENTS = [
    Agent(crush, BUILT["crush"], ["messages.parts"], ["sessions.title", "sessions.todos"]),
    Agent(
        goose,
        BUILT["goose"],
        ["messages.content_json", "messages.metadata_json"],
        ["sessions.description", "sessions.extension_data"],
    ),
    Agent(
        llm,
        _llm,
        ["parts.payload", "turns.token_details", "tool_calls.arguments"],
        ["parts.text", "threads.name", "turns.response_json", "responses.response", "fragments.content"],
    ),
    Agent(
        opencode,
        _opencode,
        ["message.data", "part.data", "session.revert", "session.model", "session_message.data"],
        ["session.title", "session.summary_diffs"],
    ),
]
