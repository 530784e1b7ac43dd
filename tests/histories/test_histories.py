"""Checks sessions behind the interfaces of other libraries, with the real packages and scripted models."""

from __future__ import annotations

from typing import Any

import pytest

from store.store import Store

QUESTION, ANSWER = "How is the lamp?", "The lamp is green."


def describe(store: Store, session_id: str) -> list[tuple[str, str]]:
    """Return who says what in the conversation, as the browser shows it."""
    entries = store.chains.entries(store.get_session(session_id).key, 0)
    return [
        (entry.role or entry.kind, type(entry.parts[0]).__name__ if entry.parts else entry.text) for entry in entries
    ]


def check_that_it_is_searchable(store: Store, session_id: str) -> None:
    hits, _ = store.search.find("lamp")
    assert {hit.session_id for hit in hits} == {session_id}
    (call,) = store.chains.tool_calls(store.get_session(session_id).key)
    assert (call.name, call.status) == ("look", "ok")


# ── OpenAI Agents SDK ─────────────────────────────────────────────────────────────────────────────


async def run_openai_agent(store: Store, requests: list[Any], prompt: str) -> str:
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    from store.agent_api.histories.openai_agents import StoreSession

    class ScriptedModel(Model):
        async def get_response(self, system_instructions: Any, input: Any, *args: Any, **options: Any) -> ModelResponse:  # noqa: A002
            requests.append(input)
            if not any(isinstance(item, dict) and item.get("type") == "function_call_output" for item in input):
                call = ResponseFunctionToolCall(arguments="{}", call_id="c1", name="look", type="function_call")
                return ModelResponse([call], Usage(), None)
            text = ResponseOutputText(annotations=[], text=ANSWER, type="output_text")
            message = ResponseOutputMessage(
                id="m1", content=[text], role="assistant", status="completed", type="message"
            )
            return ModelResponse([message], Usage(), None)

        def stream_response(self, *args: Any, **options: Any) -> Any:
            raise NotImplementedError

    @function_tool
    def look() -> str:
        """Look at the lamp."""
        return "green"

    agent = Agent(name="keeper", model=ScriptedModel(), tools=[look])
    session = StoreSession(store, "openai", agent_title="The lamp")
    result = await Runner.run(agent, prompt, session=session, run_config=RunConfig(tracing_disabled=True))
    return str(result.final_output)


async def test_openai_agents_continues_with_the_whole_history(store: Store) -> None:
    pytest.importorskip("agents", reason="needs the extra openai-agents")
    from store.agent_api.histories.openai_agents import StoreSession

    requests: list[Any] = []
    assert await run_openai_agent(store, requests, QUESTION) == ANSWER
    session = StoreSession(store, "openai")
    items = await session.get_items()
    assert [item.get("type", "message") for item in items] == [
        *("message", "function_call", "function_call_output", "message")
    ]
    assert describe(store, "openai") == [
        *(("user", "Text"), ("assistant", "ToolCall"), ("tool", "ToolResult"), ("assistant", "Text"))
    ]
    check_that_it_is_searchable(store, "openai")
    assert await run_openai_agent(store, requests, "And now?") == ANSWER
    assert requests[-1][: len(items)] == items
    assert store.load_input_history("openai")[: len(items)] == items


async def test_openai_agents_items_are_limited_taken_back_and_cleared(store: Store) -> None:
    pytest.importorskip("agents", reason="needs the extra openai-agents")
    from store.agent_api.histories.openai_agents import StoreSession

    session = StoreSession(store, "s")
    assert await session.get_items() == []
    assert await session.pop_item() is None
    items: list[Any] = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    await session.add_items(items)
    assert await session.get_items(2) == items[1:]
    assert await session.get_items(0) == []
    assert await session.pop_item() == items[2]
    assert await session.get_items() == items[:2]
    await session.clear_session()
    assert await session.get_items() == []
    await session.add_items(items[:1])
    assert await session.get_items() == items[:1]
    assert [text for _, text in describe(store, "s")].count("The last item was taken back.") == 1


# ── LangChain ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.filterwarnings("ignore")
async def test_langchain_messages_come_back_as_they_were(store: Store) -> None:
    pytest.importorskip("langchain_core", reason="needs the extra langchain")
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    from store.agent_api.histories.langchain import StoreChatMessageHistory

    history = StoreChatMessageHistory(store, "langchain", agent_title="The lamp")
    call = {"name": "look", "args": {}, "id": "c1", "type": "tool_call"}
    messages = [
        SystemMessage("Be brief."),
        HumanMessage(QUESTION),
        AIMessage(content=[{"type": "text", "text": "I look."}], tool_calls=[call]),
        ToolMessage("green", tool_call_id="c1"),
    ]
    history.add_messages(messages)
    answer = await GenericFakeChatModel(messages=iter([AIMessage(ANSWER)])).ainvoke(await history.aget_messages())
    await history.aadd_messages([answer])
    again = StoreChatMessageHistory(store, "langchain")
    assert again.messages == [*messages, answer]
    assert describe(store, "langchain") == [
        ("system", "Text"),
        ("user", "Text"),
        ("assistant", "Text"),
        ("tool", "ToolResult"),
        ("assistant", "Text"),
    ]
    check_that_it_is_searchable(store, "langchain")
    await again.aclear()
    assert again.messages == []


# ── Pydantic AI ───────────────────────────────────────────────────────────────────────────────────


async def test_pydantic_ai_continues_with_the_whole_history(store: Store) -> None:
    pytest.importorskip("pydantic_ai", reason="needs the extra pydantic-ai")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from store.agent_api.histories.pydantic_ai import StoreMessageHistory

    requests: list[Any] = []

    def answer(messages: list[Any], info: Any) -> ModelResponse:
        requests.append(list(messages))
        has_result = any(part.part_kind == "tool-return" for message in messages for part in message.parts)
        return ModelResponse([TextPart(ANSWER) if has_result else ToolCallPart("look", {}, "c1")])

    agent = Agent(FunctionModel(answer), system_prompt="Be brief.")

    @agent.tool_plain
    def look() -> str:
        return "green"

    history = StoreMessageHistory(store, "pydantic", agent_title="The lamp")
    result = await agent.run(QUESTION, message_history=await history.amessages())
    await history.aappend(result.new_messages())
    assert StoreMessageHistory(store, "pydantic").messages() == result.all_messages()
    assert describe(store, "pydantic") == [
        *(
            ("system", "Text"),
            ("user", "Text"),
            ("assistant", "ToolCall"),
            ("tool", "ToolResult"),
            ("assistant", "Text"),
        )
    ]
    check_that_it_is_searchable(store, "pydantic")
    again = await agent.run("And now?", message_history=history.messages())
    assert again.output == ANSWER
    assert requests[-1][: len(result.all_messages())] == result.all_messages()
    history.clear()
    assert history.messages() == []
