"""This module records a small conversation with google-adk's own services, and runs a real agent with a scripted
model. It needs google-adk."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.events import Event, EventActions
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import BaseSessionService, Session
from google.adk.tools import ToolContext
from google.genai import types


def make_event(author: str, *parts: str | types.Part, **more: Any) -> Event:
    adk_parts = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    content = types.Content(role="user" if author == "user" else "model", parts=adk_parts)
    return Event(author=author, invocation_id="e-1", content=content, **more)


def function_call_part(name: str, call_id: str, **arguments: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=arguments))


def function_response_part(name: str, call_id: str, **response: Any) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call_id, name=name, response=response))


async def record_conversation(service: BaseSessionService) -> Session:
    """Record a question, a thought with a call, its result with a state change, the answer, and an error."""
    state = {"topic": "invoices", "app:motd": "hello", "user:lang": "en", "temp:x": 1}
    session = await service.create_session(app_name="dak", user_id="a/b", session_id="s 1", state=state)
    for event in (
        make_event("user", "How many are overdue? é✓"),
        make_event("counter", types.Part(text="hm", thought=True), function_call_part("count", "adk-1", days=30)),
        make_event(
            "counter",
            function_response_part("count", "adk-1", result=7),
            actions=EventActions(state_delta={"last": {"n": 7, "f": 0.1}}),
        ),
        make_event("counter", "Seven."),
        Event(author="counter", error_code="429", error_message="quota"),
    ):
        await service.append_event(session, event)
    return session


class ScriptedLlm(BaseLlm):
    """Calls the tool `count` for a prompt, and answers with the result of the call."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        (*_, last_part) = llm_request.contents[-1].parts or [types.Part()]
        response = last_part.function_response
        part = types.Part(text=f"{response.response}") if response else function_call_part("count", "", days=30)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def count(days: int, tool_context: ToolContext) -> dict[str, int]:
    """How many are overdue."""
    tool_context.state["user:runs"] = runs = tool_context.state.get("user:runs", 0) + 1
    return {"overdue": days // 4, "run": runs}


async def ask_agent(service: BaseSessionService, text: str) -> str:
    """Send a prompt in the session `session_ana` of user ana, and return the final answer."""
    agent = LlmAgent(name="dak_agent", model=ScriptedLlm(model="scripted"), tools=[count])
    runner = Runner(app_name="dak", agent=agent, session_service=service)
    message = types.Content(role="user", parts=[types.Part(text=text)])
    answers = [
        event.content.parts[0].text
        async for event in runner.run_async(user_id="ana", session_id="session_ana", new_message=message)
        if event.is_final_response() and event.content and event.content.parts
    ]
    return answers[-1] or ""
