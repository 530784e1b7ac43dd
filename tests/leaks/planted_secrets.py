"""This module plants secrets in a home folder, and looks for them in every byte that a redaction must clear."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Iterable
from pathlib import Path

import zstandard

from store.leaks.redaction.redactions import RedactionRun
from store.leaks.rule_table import RULES_BY_ID
from store.model.leak import Leak
from store.model.redaction import RedactionReport
from store.store import Store
from store.sync.refresh import sync_targets
from store.sync.targets import Report, discover_targets

AWS_KEY = RULES_BY_ID["aws-access-key"].example
GROQ_KEY = RULES_BY_ID["groq-key"].example
SESSION = "11111111-1111-4111-8111-111111111111"
OTHER_SESSION = "33333333-3333-4333-8333-333333333333"
ROLLOUT = ".codex/sessions/2026/01/02/rollout-2026-01-02T00-00-00-22222222-2222-4222-8222-222222222222.jsonl"
TRANSCRIPT = f".claude/projects/-p/{SESSION}.jsonl"


def write_file(path: Path, text: str, *, age: float = 3600.0) -> Path:
    """Write a file that did not change for a while, because others are not rewritten."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    make_old(path, age)
    return path


def make_old(path: Path, age: float = 3600.0) -> None:
    os.utime(path, (time.time() - age,) * 2)


def claude_lines(*texts: str, session: str = SESSION) -> str:
    """Return a transcript of Claude Code: prompts and answers in turn."""
    lines = []
    for number, text in enumerate(texts):
        role = "assistant" if number % 2 else "user"
        content = [{"type": "text", "text": text}] if number % 2 else text
        lines.append(
            {
                "type": role,
                "uuid": f"{session}-{number}",
                "parentUuid": f"{session}-{number - 1}" if number else None,
                "sessionId": session,
                "cwd": "/p",
                "timestamp": f"2026-01-01T00:{number // 60:02}:{number % 60:02}Z",
                "message": {"role": role, "content": content, "id": f"{session}-m{number}", "model": "claude-x"},
            }
        )
    return "".join(json.dumps(line) + "\n" for line in lines)


def plant_in_home(home: Path, key: str = AWS_KEY) -> list[Path]:
    """Write the files of Claude Code and Codex, each of them with the key, and return them."""
    tool_result = f"$ env\nAWS_ACCESS_KEY_ID={key}\n"
    escaped = claude_lines("again", "done", session=OTHER_SESSION).replace(
        "again", "".join(f"\\u{ord(c):04x}" for c in key)
    )
    return [
        write_file(home / TRANSCRIPT, claude_lines(f"use {key} please", "ok", "thanks", f"I stored {key}.")),
        write_file(home / ".claude/projects/-p" / SESSION / "tool-results/a.txt", tool_result),
        write_file(home / f".claude/projects/-p/{OTHER_SESSION}.jsonl", escaped),
        write_file(home / ".claude/history.jsonl", json.dumps({"display": f"use {key}"}) + "\n"),
        write_file(home / ROLLOUT, _codex_lines(key, json.dumps({"output": tool_result}))),
        write_file(home / ".codex/history.jsonl", json.dumps({"session_id": "x", "ts": 1, "text": key}) + "\n"),
    ]


def _codex_lines(key: str, output: str) -> str:
    prompt = [{"type": "input_text", "text": f"deploy with {key}"}]
    call = {"type": "function_call", "name": "shell", "call_id": "c1", "arguments": json.dumps({"k": key})}
    records = [
        ("session_meta", {"id": ROLLOUT[-42:-6], "cwd": "/p", "originator": "codex"}),
        ("response_item", {"type": "message", "role": "user", "content": prompt}),
        ("response_item", call),
        ("response_item", {"type": "function_call_output", "call_id": "c1", "output": output}),
    ]
    lines = ({"timestamp": "2026-01-02T00:00:00Z", "type": kind, "payload": payload} for kind, payload in records)
    return "".join(json.dumps(line) + "\n" for line in lines)


def sync(store: Store) -> list[Report]:
    reports = {}
    for progress in sync_targets(store, discover_targets(store=store)):
        reports[progress.report.locator] = progress.report
    return list(reports.values())


def scan(store: Store) -> dict[str, Leak]:
    """Scan everything, and return the leaks that have places by rule. Redacted ones have none."""
    for _ in store.leaks.begin_scan().steps():
        pass
    return {leak.rule: leak for leak in store.leaks.list_leaks() if leak.places}


def digest_files(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of every file below a folder."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def find_in_files(paths: Iterable[Path], *texts: str) -> list[str]:
    """Return the files in which one of the texts is, as it is or in lower case."""
    needles = [needle for text in texts for needle in (text.encode(), text.lower().encode())]
    files = [file for path in paths for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file()]
    return [str(file) for file in sorted(files) if any(needle in file.read_bytes() for needle in needles)]


def find_in_store(store: Store, *texts: str) -> list[str]:
    """Return where one of the texts is: in a table, a decompressed block, a word of an index, or a file beside it."""
    found = find_in_files(store.path.parent.glob(f"{store.path.name}*"), *texts)
    tables = "select name from sqlite_master where type = 'table' and name not like '%\\_fts' escape '\\'"
    for (table,) in store.rows(tables):
        if any(text in repr(row) for row in store.rows(f"select * from {table}") for text in texts):
            found.append(table)
    for key, data in store.rows("select key, data from blocks"):
        if any(text.encode() in zstandard.ZstdDecompressor().decompress(data) for text in texts):
            found.append(f"block {key}")
    for index in ("conversation_fts", "tools_fts", "skims_fts"):
        store.connection.execute(f"create virtual table temp.words using fts5vocab(main, {index}, row)")
        words = {word for (word,) in store.rows("select term from words")}
        store.connection.execute("drop table temp.words")
        found += [index for text in texts if text.lower() in words]
    return found


def redact(store: Store, *fingerprints: str) -> RedactionReport:
    return finish(store.leaks.redactions.begin(fingerprints))


def undo(store: Store, redaction: int) -> RedactionReport:
    return finish(store.leaks.redactions.begin_undo(redaction))


def finish(run: RedactionRun) -> RedactionReport:
    assert list(run.steps())
    return run.report
