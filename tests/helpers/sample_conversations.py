"""This module writes small conversations and facts that several tests read."""

from __future__ import annotations

from store.model.entry import NewEntry, Text, Tokens, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store


def conversation(store: Store, session_id: str, turns: int = 2) -> None:
    """Add a session whose turns have a prompt, a call, its result and an answer."""
    session = store.create_session(session_id)
    for n in range(1, turns + 1):
        store.append_message(session.id, "user", f"prompt {n} of {session_id}")
        store.chains.append(
            session.key,
            [
                NewEntry(role="assistant", parts=(ToolCall(f"t{n}", "shell", {"command": f"ls {n}"}),)),
                NewEntry(role="tool", parts=(ToolResult(f"t{n}", f"file-{n}.txt", is_error=n == 2),)),
                NewEntry(role="assistant", parts=(Text(f"answer {n}"),), tokens=Tokens(10, 5, 1)),
            ],
        )


def prompts(store: Store, session: Session) -> list[str]:
    return [turn.prompt for turn in store.chains.turns(session.key) if turn.n]


def statuses(store: Store, session: Session) -> dict[str, str]:
    return {call.call_id: call.status for call in store.chains.tool_calls(session.key)}


def make_call_entries(
    number: int, name: str, topic: str, duration_ms: float | None, failed: bool = False
) -> list[NewEntry]:
    at = f"2026-03-0{number}T10:00:00.000000Z"
    return [
        NewEntry(role="assistant", parts=(ToolCall(f"c{number}", name, {"on": topic}),), created_at=at),
        NewEntry(
            role="tool",
            parts=(ToolResult(f"c{number}", f"did {topic}", failed, duration_ms=duration_ms),),
            created_at=at,
        ),
    ]


def insert_foreign_fact(store: Store, text: str) -> int:
    """Insert a fact with the foreign row it was read from. Return its id."""
    inserted = store.connection.execute(
        "insert into facts (text, foreign_place, foreign_text, created_at, updated_at)"
        " values (?, 'facts/7', ?, 't', 't')",
        (text, text),
    )
    return int(inserted.lastrowid or 0)
