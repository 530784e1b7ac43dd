"""This module makes a session whose items name paths and web addresses, and the folder that they are in."""

from __future__ import annotations

from pathlib import Path

from browser_driver import add_session, answer_entry, prompt_entry, time_ago

from store.model.entry import NewEntry, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store

ONE_PATH = "The retry is in src/upload.py:41, as you said."
SEVERAL = "See README.md, src/upload.py:41, src/gone.py:3 and https://example.com/docs?page=2."
ONE_ADDRESS = "It is explained at https://example.com@evil.example/login."


def make_folder(parent: Path) -> Path:
    """Make a folder with two files, a folder, a symbolic link and a pipe."""
    import os

    folder = parent / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "upload.py").write_text("\n".join(f"line {n}" for n in range(1, 60)))
    (folder / "README.md").write_text("# Read me\n")
    (folder / "link.md").symlink_to(folder / "README.md")
    os.mkfifo(folder / "pipe.md")
    return folder


def add_linked_session(store: Store, answer: str, cwd: str | Path) -> Session:
    at = time_ago(minutes=4)
    return add_session(
        store,
        "claude:linked",
        at,
        prompt_entry("Where is it?", at),
        answer_entry(answer, at),
        source="claude",
        cwd=str(cwd),
        agent_title="Links",
    )


def add_call_session(store: Store, cwd: Path) -> Session:
    """Add a session with a call that reads a file from a line, and an answer without links."""
    at = time_ago(minutes=4)
    call = ToolCall("c1", "Read", {"file_path": str(cwd / "src" / "upload.py"), "offset": 30})
    return add_session(
        store,
        "claude:call",
        at,
        prompt_entry("Where is it?", at),
        NewEntry(role="assistant", parts=(call,), created_at=at),
        NewEntry(role="tool", parts=(ToolResult("c1", "the text of it"),), created_at=at),
        answer_entry("Found it.", at),
        source="claude",
        cwd=str(cwd),
        agent_title="Calls",
    )
