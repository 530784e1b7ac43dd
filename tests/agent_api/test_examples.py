"""Runs each program of docs/examples in a home of its own, and looks at what it stored through the public API."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from typed_client import check_types

from store import Store, Turn, rebuild_session

EXAMPLES = Path(__file__).resolve().parents[2] / "docs" / "examples"
needs_adk = pytest.mark.skipif(
    find_spec("google.adk") is None, reason="google-adk is not installed; `make test` installs it"
)


def run_example(name: str, folder: Path, *arguments: str) -> list[str]:
    """Run a program twice, as a person who continues the conversation, and return what it printed the second time."""
    command = [sys.executable, "-W", "error::ResourceWarning", str(EXAMPLES / name), *arguments]
    for _ in range(2):
        ran = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def load_turns(store: Store, session_id: str) -> list[Turn]:
    return store.chains.turns(store.get_session(session_id).key)[1:]


def test_responses_loop(tmp_path: Path) -> None:
    printed = run_example("responses_loop.py", tmp_path)
    with Store.open() as store:
        session = store.get_session("example:responses-loop")
        assert (session.title, session.model, session.turns) == ("Example: Responses API", "local", 4)
        turns = load_turns(store, session.id)
        assert [turn.prompt for turn in turns] == ["How full is the disk?", "And now?"] * 2
        assert [[(call.name, call.status) for call in turn.tool_calls] for turn in turns] == [
            [("disk_usage", "ok")]
        ] * 4
        percent = json.loads(turns[-1].tool_calls[0].result)["percent"]
        assert turns[-1].entries[-1].text == f"The disk is {percent} % full. This was question 4."
        items = store.load_input_history(session.id)
        assert [item.get("type", "message") for item in items] == [
            *("message", "function_call", "function_call_output", "message")
        ] * 4
        assert session.tokens_total == 1360
        assert f"Stored in {store.path}: 4 turns, 1360 tokens." in printed


def test_content_blocks(tmp_path: Path) -> None:
    printed = run_example("content_blocks.py", tmp_path)
    with Store.open() as store:
        session = store.get_session("example:content-blocks")
        assert (session.title, session.turns, session.tool_calls) == ("Example: content blocks", 4, 4)
        messages = store.get_messages(session.id)
        assert [message.role for message in messages] == ["user", "assistant", "user", "assistant"] * 4
        assert [block["type"] for block in messages[1].content] == ["text", "tool_use"]
        calls = [call for turn in load_turns(store, session.id) for call in turn.tool_calls]
        assert [call.status for call in calls] == ["ok"] * 4
        assert messages[-1].content == [{"type": "text", "text": f"It is {calls[-1].result}."}]
        result = rebuild_session(store, session, "anthropic")
        assert result.mended == ()
        assert [message["content"] for message in result.body["messages"]] == [message.content for message in messages]
        assert f"Stored in {store.path}: 4 turns, 4 tool calls." in printed


@needs_adk
def test_adk_agent(tmp_path: Path) -> None:
    printed = run_example("adk_agent.py", tmp_path)
    with Store.open() as store:
        (session,) = store.list_sessions()
        assert (session.channel, session.user, session.turns, session.tool_calls) == ("example", "ana", 4, 4)
        turns = load_turns(store, session.id)
        assert [turn.entries[-1].text for turn in turns] == ["7 invoices are overdue."] * 4
        assert [call.result for turn in turns for call in turn.tool_calls] == [{"overdue": 7}] * 4
        assert [(fact.scope, fact.text) for fact in store.facts.current(scopes=None)] == [
            ("user:example/ana", "last_days: 30")
        ]
        assert f"Stored in {store.path}: 4 turns, 4 tool calls." in printed


@pytest.mark.parametrize("name", ["responses_loop.py", "content_blocks.py"])
def test_an_example_takes_the_path_of_a_store(name: str, tmp_path: Path) -> None:
    run_example(name, tmp_path, "mine.db")
    with Store.open(tmp_path / "mine.db") as mine, Store.open() as own:
        assert len(mine.list_sessions()) == 1
        assert own.list_sessions() == []


@pytest.mark.parametrize(
    "name", ["responses_loop.py", "content_blocks.py", pytest.param("adk_agent.py", marks=needs_adk)]
)
def test_an_example_uses_only_the_public_api_and_has_types(name: str, tmp_path: Path) -> None:
    program = (EXAMPLES / name).read_text("utf-8")
    assert re.findall(r"^\s*(?:from|import) store\.", program, re.MULTILINE) == []
    assert check_types(program, tmp_path) == ""
