"""This module makes a small database of every agent that uses one."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import llm_database
from corruptible_stores import ANSWER_TEXT, CORRUPTED, NEIGHBOUR, PROMPT_TEXT, STORE_KINDS
from foreign_databases import insert_row
from llm_database import LlmStore
from opencode_store import OpencodeStore, assistant_message, finished_text_part, text_part, tool_part, user_message

from store.sources.contract import Source
from store.sources.crush.source import Crush
from store.sources.goose.source import Goose
from store.sources.llm.source import Llm
from store.sources.opencode.source import Opencode

crush = Crush()
goose = Goose()
llm = Llm()
opencode = Opencode()

BUILDERS = {kind.name: kind.build for kind in STORE_KINDS}


@dataclass(frozen=True)
class Agent:
    source: Source
    build: Callable[[Path], object]
    json_columns: list[str]
    "Names the columns that hold JSON."
    text_columns: list[str]
    "Names other columns that may hold long text."

    def __str__(self) -> str:
        return self.source.name


def _build_llm(path: Path) -> None:
    owner = LlmStore(path)
    insert_row(path, "fragments", id=7, hash="h", content="Call me Ishmael.", source="moby.txt")
    insert_row(path, "attachments", id="sha", type="image/png", url="https://example.org/a.png")
    owner.add_conversation(CORRUPTED)
    first = owner.add_response("before", "yes", CORRUPTED, system="Be kind.", token_details='{"cached": 1}')
    insert_row(path, "tool_calls", response_id=first, name="add", arguments='{"a": 1}')
    insert_row(path, "tool_results", response_id=first, name="add", output="1", exception="Boom")
    owner.add_thread(CORRUPTED)
    fragment_part = llm_database.part("text", text_ref=[{"fragment": 7}, {"literal": "Who?"}])
    call = llm_database.part("tool_call", name="add", arguments={"a": 2}, tool_call_id="c")
    result = llm_database.part("tool_result", name="add", output="5", tool_call_id="c", attachments=[{"id": "sha"}])
    picture = llm_database.part("attachment", attachment={"id": "sha"})
    details = json.dumps({"prompt_tokens_details": {"cached_tokens": 4}})
    tip = owner.add_turn(
        [fragment_part, picture], [call, llm_database.text_part("hm")], thread=CORRUPTED, token_details=details
    )
    owner.add_turn([result], "Done.", tip, thread=CORRUPTED)
    owner.add_turn("other", "another", tip, thread=CORRUPTED)
    owner.add_thread("fork", forked_from=CORRUPTED, tip_message_hash=tip)
    owner.add_thread(NEIGHBOUR)
    owner.add_turn(PROMPT_TEXT, ANSWER_TEXT, thread=NEIGHBOUR)


def _build_opencode(path: Path) -> None:
    owner = OpencodeStore(path, keeps_times=True)  # the recorded answers have these times
    revert, model = json.dumps({"messageID": "msg_005"}), json.dumps({"id": "opus", "providerID": "anthropic"})
    task = tool_part(
        "Seen.", "c7", "task", metadata={"sessionId": "child", "truncated": True, "outputPath": "/x/tool_1"}
    )
    turns = [
        (user_message(), [text_part("Fix it"), text_part("injected", synthetic=True)]),
        (assistant_message(), [finished_text_part("Reading."), task]),
    ]
    owner.add_session(CORRUPTED, *turns, (user_message(), [text_part("again")]), revert=revert, model=model)
    owner.add_session("child", (user_message(), [text_part("look")]), parent_id=CORRUPTED)
    owner.add_session("later")
    owner.add_session_message(
        "assistant", "later", content=[{"type": "tool", "id": "c", "name": "bash", "state": {"status": "error"}}]
    )
    owner.add_session(
        NEIGHBOUR, (user_message(), [text_part(PROMPT_TEXT)]), (assistant_message(), [finished_text_part(ANSWER_TEXT)])
    )


AGENTS = [
    Agent(crush, BUILDERS["crush"], ["messages.parts"], ["sessions.title", "sessions.todos"]),
    Agent(
        goose,
        BUILDERS["goose"],
        ["messages.content_json", "messages.metadata_json"],
        ["sessions.description", "sessions.extension_data"],
    ),
    Agent(
        llm,
        _build_llm,
        ["parts.payload", "turns.token_details", "tool_calls.arguments"],
        ["parts.text", "threads.name", "turns.response_json", "responses.response", "fragments.content"],
    ),
    Agent(
        opencode,
        _build_opencode,
        ["message.data", "part.data", "session.revert", "session.model", "session_message.data"],
        ["session.title", "session.summary_diffs"],
    ),
]
