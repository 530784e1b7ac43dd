"""An agent of the OpenAI Agents SDK whose conversation is kept in a store.

    pip install 'backscroll[openai-agents]'
    python docs/examples/openai_agents_session.py [STORE]

Run it again, and the conversation continues. The model is scripted, so that the program runs offline. To use a real
one, leave out `model=`.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage, function_tool
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from store import Store
from store.agent_api.histories.openai_agents import StoreSession

SESSION = "example:openai-agents"


class ScriptedModel(Model):
    """Calls the tool, then answers with its result and the number of the question."""

    async def get_response(self, *args: Any, **options: Any) -> ModelResponse:
        items = options["input"]
        if items[-1].get("type") == "function_call_output":
            number = sum(item.get("role") == "user" for item in items)
            text = f"The lamp is {items[-1]['output']}. This was question {number}."
            content = ResponseOutputText(annotations=[], text=text, type="output_text")
            message = ResponseOutputMessage(
                id=f"answer-{number}", content=[content], role="assistant", status="completed", type="message"
            )
            return ModelResponse([message], Usage(), None)
        call = ResponseFunctionToolCall(
            arguments="{}", call_id=f"call-{len(items)}", name="look_at_lamp", type="function_call"
        )
        return ModelResponse([call], Usage(), None)

    def stream_response(self, *args: Any, **options: Any) -> Any:
        raise NotImplementedError


@function_tool
def look_at_lamp() -> str:
    """Look at the lamp."""
    return "green"


async def main() -> None:
    agent = Agent(name="Keeper", model=ScriptedModel(), tools=[look_at_lamp])
    with Store.open(sys.argv[1] if len(sys.argv) > 1 else None) as store:
        session = StoreSession(store, SESSION, agent_title="Example: OpenAI Agents SDK")
        config = RunConfig(tracing_disabled=True)
        result = await Runner.run(agent, "How is the lamp?", session=session, run_config=config)
        print(result.final_output)


asyncio.run(main())
