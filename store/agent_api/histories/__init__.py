"""This package keeps sessions behind the interfaces of other libraries for agents. Each needs an extra of its own."""

from __future__ import annotations

from typing import NamedTuple


class HistoryInterface(NamedTuple):
    """Says how a program continues a session that it keeps through one of these interfaces."""

    library: str
    module: str
    class_name: str


INTERFACES = {
    "openai-agents": HistoryInterface("the OpenAI Agents SDK", "openai_agents", "StoreSession"),
    "langchain": HistoryInterface("LangChain", "langchain", "StoreChatMessageHistory"),
    "pydantic-ai": HistoryInterface("Pydantic AI", "pydantic_ai", "StoreMessageHistory"),
}
"""Maps the channel of a session to the interface through which it is kept."""


def describe_continuation(channel: str, session_id: str) -> str:
    """Say how to continue a session in the program that wrote it, or return nothing if that is not known."""
    found = INTERFACES.get(channel)
    if found is None:
        return ""
    return (
        f"This session is kept by a program with {found.library}. Continue it there, with"
        f" `{found.class_name}(store, {session_id!r})` of `store.agent_api.histories.{found.module}`."
    )
