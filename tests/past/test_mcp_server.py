"""Checks the MCP server with a real client: its tools, what they cost, and 30 questions about the demo store."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from questions import QUESTIONS, Question

from store.agent_api.past.exclusions import NO_AGENTS_TAG
from store.agent_api.past.past import Past
from store.demo import fill_store
from store.memory.context import estimate_tokens
from store.store import Store
from store.text.json import serialize

pytest.importorskip("mcp", reason="needs the extra mcp")

from mcp.client import Client
from mcp.client.stdio import StdioServerParameters

from store.agent_api.past.mcp_server import INSTRUCTIONS, create_server

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs/agents.md").read_text()

MAX_TOKENS_AT_START = 700
MAX_SESSIONS_OPENED = 3


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("demo") / "store.db") as store:
        fill_store(store)
        yield store


async def call(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return dict(json.loads(result.content[0].text))  # type: ignore[union-attr]


async def find_answer(client: Client, words: str, answer: str) -> tuple[bool, bool]:
    """Search, open what was found, and return whether the answer is there, and whether nothing can have been missed."""
    found = await call(client, "search", query=words)
    rows = [*found["hits"], *found.get("in_titles", []), *found.get("in_several_messages", [])]
    for session in list(dict.fromkeys(row["session"] for row in rows))[:MAX_SESSIONS_OPENED]:
        cursor: str | None = ""
        while cursor is not None:
            opened = await call(client, "open", session=session, next=cursor)
            if answer and answer in opened["text"]:
                return True, True
            cursor = opened["next"]
    return False, not rows and found["coverage"]["is_complete"]


async def test_30_of_30_questions_are_answered(demo: Store) -> None:
    async with Client(create_server(demo)) as client:
        wrong = []
        for question in QUESTIONS:
            is_answered, is_certain = await find_answer(client, question.words, question.answer)
            if not (is_answered if question.answer else is_certain):
                wrong.append(question.text)
    assert len(QUESTIONS) == 30
    assert sum(not question.answer for question in QUESTIONS) == 10
    assert wrong == []


@pytest.mark.parametrize("question", [question for question in QUESTIONS if not question.answer])
async def test_never_discussed_is_only_certain_if_everything_was_searched(store: Store, question: Question) -> None:
    """Take a store in which nothing was discussed, then hide, leave out, delete and discuss it."""
    words = question.words.strip('"*')
    for name in ("s1", "s2"):
        store.create_session(name, source="claude")
        store.append_message(name, "user", "hello")
    async with Client(create_server(store)) as client:
        assert await find_answer(client, question.words, "") == (False, True)
        assert await find_answer(client, f"{question.words} agent:codex", "") == (False, False)
        session = store.sessions.get("s1")
        store.notes.tag([session], [NO_AGENTS_TAG])
        assert await find_answer(client, question.words, "") == (False, False)
        store.journal.undo()
        with store.transaction() as connection:
            connection.execute("update sessions set depth = 'text' where id = 's1'")
        assert await find_answer(client, question.words, "") == (False, False)
        store.sessions.delete([session])
        assert await find_answer(client, question.words, "") == (False, True)
        store.append_message("s2", "assistant", f"We discussed {words} here.")
        assert await find_answer(client, question.words, f"We discussed {words} here.") == (True, True)


def test_a_question_costs_what_the_documents_say(demo: Store) -> None:
    past, searches, turns = Past(demo), [], []
    for question in QUESTIONS:
        found = past.search(question.words)
        searches.append(estimate_tokens(serialize(found).decode()))
        for hit in found["hits"][:1]:
            opened = past.open(hit["session"], turn=hit["turn"])
            turns.append(estimate_tokens(serialize(opened).decode()))
    documented = [int(number) for number in re.findall(r"(\d+) for a search \(median\), (\d+) to open", DOCUMENT)[0]]
    assert [median(searches), median(turns)] == pytest.approx(documented, rel=0.1)


async def test_the_server_costs_little_and_only_proposes(demo: Store) -> None:
    async with Client(create_server(demo)) as client:
        tools = (await client.list_tools()).tools
    described = json.dumps(
        [{"name": tool.name, "description": tool.description, "input_schema": tool.input_schema} for tool in tools]
    )
    assert estimate_tokens(described + INSTRUCTIONS) <= MAX_TOKENS_AT_START
    assert {tool.name: bool(tool.annotations and tool.annotations.read_only_hint) for tool in tools} == {
        "search": True,
        "open": True,
        "list": True,
        "propose_fact": False,
    }


async def test_errors_are_sentences_and_exclusions_hold(store: Store) -> None:
    store.create_session("s1")
    store.append_message("s1", "user", "wombat")
    store.notes.tag([store.sessions.get("s1")], [NO_AGENTS_TAG])
    async with Client(create_server(store)) as client:
        assert (await call(client, "search", query="wombat"))["hits"] == []
        assert (await call(client, "list"))["coverage"]["excluded"] == {"mark": 1}
        refused = await client.call_tool("open", {"session": "s1"})
        assert refused.is_error
        assert "No such session: 's1'." in refused.content[0].text  # type: ignore[union-attr]
        assert "Traceback" not in refused.content[0].text  # type: ignore[union-attr]


async def test_the_command_serves_over_stdio(store: Store, home: Path) -> None:
    store.create_session("s1")
    store.append_message("s1", "user", "wombat")
    command = ["-m", "store", "--store", str(store.path), "mcp"]
    environment = {"HOME": str(home), "PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    server = StdioServerParameters(command=sys.executable, args=command, env=environment)
    async with Client(server) as client:
        assert (await call(client, "search", query="wombat"))["total"] == 1
        proposed = await call(client, "propose_fact", fact="Wombats dig.", session="s1")
    assert proposed["proposal"] == 1
    assert store.proposals.get(1).text == "Wombats dig."
    assert store.proposals.get(1).agent
