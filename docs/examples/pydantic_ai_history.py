"""An agent of Pydantic AI whose messages are kept in a store.

    pip install 'backscroll[pydantic-ai]'
    python docs/examples/pydantic_ai_history.py [STORE]

Run it again, and the conversation continues. The model is scripted, so that the program runs offline. To use a real
one, name it: `Agent("openai:gpt-5")`.
"""

from __future__ import annotations

import asyncio
import sys

from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from store import Store
from store.agent_api.histories.pydantic_ai import StoreMessageHistory

SESSION = "example:pydantic-ai"


def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Call the tool, then answer with its result and the number of the question."""
    result = next((part for part in messages[-1].parts if part.part_kind == "tool-return"), None)
    if result is None:
        return ModelResponse([ToolCallPart("look_at_lamp", {}, f"call-{len(messages)}")])
    number = sum(part.part_kind == "user-prompt" for message in messages for part in message.parts)
    return ModelResponse([TextPart(f"The lamp is {result.content}. This was question {number}.")])


agent = Agent(FunctionModel(answer))


@agent.tool_plain
def look_at_lamp() -> str:
    return "green"


async def main() -> None:
    with Store.open(sys.argv[1] if len(sys.argv) > 1 else None) as store:
        history = StoreMessageHistory(store, SESSION, agent_title="Example: Pydantic AI")
        result = await agent.run("How is the lamp?", message_history=await history.amessages())
        await history.aappend(result.new_messages())
        print(result.output)


asyncio.run(main())
