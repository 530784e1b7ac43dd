"""A small conversation as google-adk's own services are told it. Whoever imports this needs google-adk."""

from __future__ import annotations

from typing import Any

from google.adk.events import Event, EventActions
from google.adk.sessions import BaseSessionService, Session
from google.genai import types


def said(author: str, *parts: str | types.Part, **more: Any) -> Event:
    spelled = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    content = types.Content(role="user" if author == "user" else "model", parts=spelled)
    return Event(author=author, invocation_id="e-1", content=content, **more)


def called(name: str, call_id: str, **arguments: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=arguments))


def answered(name: str, call_id: str, **response: Any) -> types.Part:
    return types.Part(function_response=types.FunctionResponse(id=call_id, name=name, response=response))


async def talk(service: BaseSessionService) -> Session:
    """A question, a thought and a call, its result with a change of state, the answer, an error."""
    state = {"topic": "invoices", "app:motd": "hello", "user:lang": "en", "temp:x": 1}
    session = await service.create_session(app_name="dak", user_id="a/b", session_id="s 1", state=state)
    for event in (
        said("user", "How many are overdue? é✓"),
        said("counter", types.Part(text="hm", thought=True), called("count", "adk-1", days=30)),
        said(
            "counter",
            answered("count", "adk-1", result=7),
            actions=EventActions(state_delta={"last": {"n": 7, "f": 0.1}}),
        ),
        said("counter", "Seven."),
        Event(author="counter", error_code="429", error_message="quota"),
    ):
        await service.append_event(session, event)
    return session
