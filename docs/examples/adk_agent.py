"""An agent of google-adk that keeps its sessions, its events and its state in a store.

    pip install 'backscroll[adk]'
    python docs/examples/adk_agent.py [STORE]

What the agent remembers as state becomes facts. A person corrects a fact in the browser, and the agent continues with
the correction. Run the program again, and the conversation continues.

The model is a scripted local one, so that the program runs offline. To use a real one, give `LlmAgent` its name, for
example `model="gemini-2.5-pro"`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.runners import Runner
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from store import Store, StoreSessionService

APP, USER, SESSION = "example", "ana", "invoices"


# ── the agent ─────────────────────────────────────────────────────────────────────────────────────


def count_overdue(days: int, tool_context: ToolContext) -> dict[str, int]:
    """Counts the invoices that are overdue."""
    tool_context.state["user:last_days"] = days
    return {"overdue": days // 4}


class ScriptedModel(BaseLlm):
    """Calls the tool for each question, and then says what the tool returned."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        (*_, last_part) = llm_request.contents[-1].parts or [types.Part()]
        if (result := last_part.function_response) and result.response:
            part = types.Part(text=f"{result.response['overdue']} invoices are overdue.")
        else:
            part = types.Part(function_call=types.FunctionCall(name="count_overdue", args={"days": 30}))
        usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=20, candidates_token_count=10)
        yield LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)


async def ask(runner: Runner, prompt: str) -> str:
    message = types.Content(role="user", parts=[types.Part(text=prompt)])
    answer = ""
    async for event in runner.run_async(user_id=USER, session_id=SESSION, new_message=message):
        if event.is_final_response() and event.content and event.content.parts:
            answer = event.content.parts[0].text or ""
    return answer


# ── the program ───────────────────────────────────────────────────────────────────────────────────


def print_stored(store: Store) -> None:
    session = store.sessions.find(f"adk/{APP}/{USER}/{SESSION}")
    print(f"\nStored in {store.path}: {session.turns} turns, {session.tool_calls} tool calls.")
    for turn in store.chains.turns(session.key)[1:]:
        calls = ", ".join(f"{call.name}({call.arguments}) -> {call.result}" for call in turn.tool_calls)
        print(f"{turn.n}. {turn.prompt}\n   {calls}\n   {turn.entries[-1].text}")
    for fact in store.facts.current(scopes=None):
        print(f"Fact of {fact.scope}: {fact.text}")


async def main() -> None:
    with Store.open(sys.argv[1] if len(sys.argv) > 1 else None) as store:
        service = StoreSessionService(store)
        if await service.get_session(app_name=APP, user_id=USER, session_id=SESSION) is None:
            await service.create_session(app_name=APP, user_id=USER, session_id=SESSION)
        agent = LlmAgent(name="bookkeeper", model=ScriptedModel(model="scripted"), tools=[count_overdue])
        runner = Runner(app_name=APP, agent=agent, session_service=service)
        for prompt in ("How many invoices are overdue?", "And now?"):
            print(f"> {prompt}\n{await ask(runner, prompt)}")
        print_stored(store)


if __name__ == "__main__":
    asyncio.run(main())
