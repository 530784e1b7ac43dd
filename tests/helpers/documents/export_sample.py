"""This module adds a session with everything that an export writes: code, thinking, calls, a diff, a picture, a note, a
summary, tags and a sub-agent."""

from __future__ import annotations

from base64 import b64encode
from io import BytesIO

from PIL import Image

from store.model.entry import NewEntry, NewRecord, Text, Thinking, Tokens, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store
from store.text.validate import encode

ANSWER = """The total was wrong, because **the tax** was missing.

## What changed

1. `total()` adds the tax: `price<limit && x`.
2. The test has a case for it.

```python
def total(price: float) -> float:
    return price * 1.19  # ``` in a comment
```

| case | before | after |
|------|--------|-------|
| 100  | 100    | 119   |
"""

EDIT = {
    "file_path": "/src/shop/cart.py",
    "old_string": "def total(price):\n    return price",
    "new_string": "def total(price):\n    return price * 1.19",
}


def make_png() -> str:
    """Return a small picture as base64."""
    buffer = BytesIO()
    Image.new("RGB", (64, 32), (20, 120, 200)).save(buffer, "PNG")
    return b64encode(buffer.getvalue()).decode()


def at(minute: int) -> str:
    return f"2026-03-01T09:{minute:02}:00.000000Z"


def add_export_session(store: Store, session_id: str = "shop-1", answer: str = ANSWER) -> Session:
    """Add a session with two turns and a sub-agent. A person has edited it."""
    store.create_session(
        session_id,
        agent_title="Fix the total",
        model="opus",
        cwd="/src/shop",
        system_prompt="Be brief.",
        created_at=at(0),
    )
    session = store.sessions.get(session_id)
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": make_png()}}
    store.append_message(
        session_id, "user", [{"type": "text", "text": "Why does the total differ?\nSee the picture."}, picture]
    )
    store.chains.append(session.key, _make_work(answer))
    store.chains.append(
        session.key,
        [
            NewEntry(role="user", parts=(Text("Thanks! And the docs?"),), created_at=at(6)),
            NewEntry(
                role="assistant", parts=(ToolCall("c4", "Task", {"prompt": "Look at the docs"}),), created_at=at(7)
            ),
            NewEntry(role="tool", parts=(ToolResult("c4", "Nothing to change."),), created_at=at(8)),
            NewEntry(role="assistant", parts=(Text("The docs are fine."),), created_at=at(9)),
        ],
    )
    _add_sub_agent(store, session)
    store.notes.tag([session], ["billing"])
    store.notes.add_note(session, "Ask about other countries.")
    store.notes.add_note(session, "This is the fix.", entry_seq=2)
    store.summaries.set(session, "The tax was missing in `cart.py`.", up_to_turn=1)
    return store.sessions.get(session_id)


def _make_work(answer: str) -> list[NewEntry]:
    record = NewRecord(encode({"who": "model", "text": answer}), "/logs/shop.jsonl", "7")
    return [
        NewEntry(
            role="assistant",
            parts=(Thinking("The tax may be missing."), ToolCall("c1", "Bash", {"command": "grep -rn total ."})),
            created_at=at(1),
            model="opus",
            tokens=Tokens(100, 20, 30, 40),
        ),
        NewEntry(
            role="tool", parts=(ToolResult("c1", "cart.py:7: total = price\n", duration_ms=1200),), created_at=at(2)
        ),
        NewEntry(role="assistant", parts=(ToolCall("c2", "Edit", EDIT),), created_at=at(3)),
        NewEntry(role="tool", parts=(ToolResult("c2", "done"),), created_at=at(3)),
        NewEntry(role="assistant", parts=(ToolCall("c3", "Bash", {"command": "pytest -q"}),), created_at=at(4)),
        NewEntry(
            role="tool",
            parts=(ToolResult("c3", "1 failed\nexit code: 1", is_error=True, duration_ms=3000),),
            created_at=at(4),
        ),
        NewEntry(role="assistant", parts=(Text(answer),), record=record, created_at=at(5), model="opus"),
    ]


def _add_sub_agent(store: Store, session: Session) -> None:
    call = next(
        entry.seq
        for entry in store.chains.entries(session.key)
        if any(isinstance(part, ToolCall) and part.id == "c4" for part in entry.parts)
    )
    child = f"{session.id}/docs"
    store.create_session(
        child,
        agent_title="Look at the docs",
        parent_id=session.id,
        relation="delegate",
        forked_at=call,
        created_at=at(7),
    )
    store.append_message(child, "user", "Look at the docs")
    store.append_message(child, "assistant", "Nothing to change.")
