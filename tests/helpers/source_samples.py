"""This module has a sample of every source, as its program writes it, and checks that the store has all of it."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

from agent_databases import AGENTS
from corruptible_stores import STORE_KINDS
from stored_records import read_stored_records

from store import sources
from store.store import Store

DATA = Path(__file__).parents[1] / "data"
FILE_SOURCES = ("claude", "codex", "pi", "gemini", "qwen", "copilot", "chatgpt", "claude-ai", "atif", "backscroll")
JSONL_SOURCES = ("claude", "codex", "pi", "gemini", "qwen", "copilot")
_DATABASE_BUILDERS = {
    kind.name.partition(" ")[0]: kind.build for kind in STORE_KINDS if not kind.name.endswith("first")
} | {str(agent): agent.build for agent in AGENTS}
_COUNT_POSITIONS_SQL = (
    "select count(distinct position) from records join places on places.key = place_key where name = ?"
)
CONVERSATION_TABLES = {
    "pingu": "turns",
    "rubichan": "messages",
    "wuhu": "session_entries",
    "adk": "events",
    "kiso": "messages",
    "crush": "messages",
    "goose": "messages",
    "llm": "messages responses",
    "opencode": "message part session_message",
    "openai-agents": "agent_messages",
}
"""Names the tables in which each row is a part of a conversation."""


def _copy_files(name: str, folder: Path) -> Path:
    return Path(shutil.copytree(DATA / name, folder / name))


def _build_database(name: str, folder: Path) -> Path:
    path = folder / f"{name}.db"
    _DATABASE_BUILDERS[name](path)
    return path


SAMPLES: dict[str, Callable[[Path], Path]] = {
    source.name: partial(_copy_files if source.name in FILE_SOURCES else _build_database, source.name)
    for source in sources.all_sources()
}


def find_missing_records(name: str, sample: Path, store: Store) -> list[object]:
    """Return the records of a sample that the store does not have; for databases, the tables and how many rows are
    missing."""
    if name in CONVERSATION_TABLES:
        return list(_count_missing_rows(name, sample, store))
    records = read_stored_records(store)
    values = [json.loads(data) for data in records]
    lines: list[object] = [line for line in _read_lines(sample) if line not in records and not _is_title_record(line)]
    return lines + [message for message in _read_messages(sample) if message not in values]


def _count_missing_rows(name: str, sample: Path, store: Store) -> Iterator[tuple[str, int]]:
    with closing(sqlite3.connect(sample)) as connection:
        for table in CONVERSATION_TABLES[name].split():
            (written,) = connection.execute(f"select count(*) from {table}").fetchone()
            (stored,) = store.row(_COUNT_POSITIONS_SQL, table)
            # Wuhu's first entry of a session is part of the record of the session itself.
            (headers,) = store.row("select count(*) from sessions") if name == "wuhu" else (0,)
            if written != stored + headers:
                yield table, written - stored - headers


def _read_lines(sample: Path) -> Iterator[bytes]:
    for path in sorted(sample.rglob("*.jsonl")):
        yield from path.read_bytes().splitlines()


def _is_title_record(line: bytes) -> bool:
    """Return whether a record is a title, which is stored as the title of its session and not as a record."""
    return line.startswith(b'{"type":"summary"') or b'"thread_name"' in line


def _read_messages(sample: Path) -> Iterator[object]:
    """Yield the messages of files that hold one JSON value."""
    for path in sorted(sample.rglob("*.json")):
        value = json.loads(path.read_bytes())
        for conversation in value if isinstance(value, list) else [value]:
            nodes = conversation.get("mapping", {}).values()
            yield from ({name: node[name] for name in ("id", "message", "parent")} for node in nodes if node["message"])
            names = ("chat_messages", "messages", "steps")
            yield from next((conversation[name] for name in names if name in conversation), ())
