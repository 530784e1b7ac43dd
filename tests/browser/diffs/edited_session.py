"""This module makes a session with a sub-agent that changed several files, in several turns."""

from __future__ import annotations

import json

from browser_driver import add_session, answer_entry, prompt_entry, time_ago

from store.model.entry import Json, NewEntry, NewRecord, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store

UPLOAD_HUNK_LINES = [
    " def upload(path: str, retries: int = 3) -> Response:",
    "-    for attempt in range(1):",
    "+    for attempt in range(retries):",
    "+        logger.info('attempt %d of %d for %s, and this line is longer than the pane', attempt, retries, path)",
    "         try:",
]
UPLOAD_HUNK = {"oldStart": 118, "newStart": 118, "lines": UPLOAD_HUNK_LINES}


def call_entries(
    number: int, name: str, arguments: Json, *, record: Json = None, failed: bool = False
) -> list[NewEntry]:
    at = time_ago(minutes=50 - number)
    stored = NewRecord(json.dumps(record).encode()) if record is not None else None
    result = ToolResult(f"c{number}", "done", is_error=failed, duration_ms=20.0)
    return [
        NewEntry(role="assistant", parts=(ToolCall(f"c{number}", name, arguments),), created_at=at),
        NewEntry(role="tool", parts=(result,), record=stored, created_at=at),
    ]


def edit_arguments(path: str, old: str, new: str) -> Json:
    return {"file_path": path, "old_string": old, "new_string": new}


def add_edited_session(store: Store) -> Session:
    """Add a session that changed three files, one of them twice, and its sub-agent, which changed another."""
    test = "def test_retry():\n    assert upload('x') == 200\n"
    at = time_ago(minutes=60)
    session = add_session(
        store,
        "claude:edited",
        at,
        prompt_entry("Retry three times.", at),
        *call_entries(
            1,
            "Edit",
            edit_arguments("/w/src/upload.py", "range(1)", "range(retries)"),
            record={"toolUseResult": {"structuredPatch": [UPLOAD_HUNK]}},
        ),
        *call_entries(2, "Write", {"file_path": "/w/tests/test_upload.py", "content": test}),
        prompt_entry("And the config?", time_ago(minutes=45)),
        *call_entries(10, "Edit", edit_arguments("/w/config.toml", "retryCount = 1", "retry_count = 3")),
        *call_entries(11, "Edit", edit_arguments("/w/gone.py", "a", "b"), failed=True),
        *call_entries(12, "Edit", edit_arguments("/w/tests/test_upload.py", "upload('x')", "upload('x', retries=2)")),
        *call_entries(13, "Bash", {"command": "make"}),
        answer_entry("All is done.", time_ago(minutes=30)),
        source="claude",
        cwd="/w",
        agent_title="Retry the upload",
    )
    at = time_ago(minutes=35)
    add_session(
        store,
        "claude:edited:delegate:docs",
        at,
        prompt_entry("Write the docs.", at),
        *call_entries(15, "Write", {"file_path": "/w/docs/upload.md", "content": "# Upload\n\nIt retries.\n"}),
        source="claude",
        cwd="/w",
        agent_title="Write the docs",
    )
    return session
