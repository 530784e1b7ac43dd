"""This module collects the JSON output of the command line, so that two versions of the program can be compared."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import zstandard
from command_line import CommandLine
from source_samples import SAMPLES

from store.model.session import Session
from store.store import Store

FOLDER = Path(__file__).parent
OLD_STORE = FOLDER / "store-0.1.0.db.zst"
"""A store that version 0.1.0 wrote. It contains the demo and a sample of every source."""

ANSWERS = FOLDER / "answers.json.zst"
"""The answers for that store, and for the samples after a sync.

They were recorded with version 0.1.0, and again when the readers were corrected: durations of calls, cache tokens, and
the items that the Responses API accepts. `record_answers` records them.
"""

SAMPLES_WRITTEN_AT = 1_780_000_000

QUERIES = ("the", "error", "tool:bash", "is:error", "is:pinned", "source:claude", "role:user test", '"the tests"')
SENTENCES = ("reason", "understood")
API_NAMES = ("responses", "chat", "anthropic")


def answer_all(store: Store) -> dict[str, Any]:
    """Return the answers of all commands that only read, by the arguments of the command."""
    cli = CommandLine(store.path)
    return {" ".join(arguments): _answer(cli, arguments) for arguments in _commands(store)}


def _commands(store: Store) -> Iterator[tuple[str, ...]]:
    yield ("list", "--limit", "1000", "--json")
    yield ("list", "--trash", "--json")
    for name in ("sources", "log", "doctor", "facts", "published", "tools", "secrets list"):
        yield (*name.split(), "--json")
    yield ("facts", "list", "--retired", "--json")
    for order in ("slowest", "failing", "used"):
        yield ("tools", "--by", order, "--json")
    for query in QUERIES:
        for command in ("list", "search", "tools"):
            yield (command, query, "--json")
    for fact in store.facts.current(None, retired=True):
        yield ("facts", "history", str(fact.id), "--json")
        yield ("facts", "write-back", str(fact.id), "--dry-run", "--json")
    for session in [*store.list_sessions(1_000), *store.sessions.trash()]:
        yield from _commands_of_session(session)


def _commands_of_session(session: Session) -> Iterator[tuple[str, ...]]:
    yield ("show", session.id, "--json")
    yield ("show", session.id, "--raw", "--json")
    yield ("summary", session.id, "--json")
    yield ("summary", session.id, "--history", "--json")
    yield ("secrets", "list", session.id, "--json")
    yield ("published", session.id, "--json")
    yield ("log", session.id, "--json")
    yield ("doctor", session.id, "--json")
    yield ("write-back", session.id, "--dry-run", "--json")
    for api in API_NAMES:
        yield ("rebuild", session.id, "--as", api)


def _answer(cli: CommandLine, arguments: tuple[str, ...]) -> dict[str, Any]:
    result = cli(*arguments)
    return {"status": result.status, "answer": json.loads(result.out) if result.out else None}


NEWER_SOURCES = ("atif", "backscroll", "openai-agents")
"""Version 0.1.0, whose answers were recorded, could not read these."""


def write_samples(folder: Path) -> list[Path]:
    """Write a sample of every source. All files get the same time, because some sources read it."""
    paths = [build(folder) for name, build in SAMPLES.items() if name not in NEWER_SOURCES]
    for path in [folder, *folder.rglob("*")]:
        os.utime(path, (SAMPLES_WRITTEN_AT, SAMPLES_WRITTEN_AT))
    return paths


def sync_samples(store: Store, folder: Path) -> dict[str, Any]:
    """Sync each sample twice, and return the answers of both syncs. The second one finds nothing new."""
    cli = CommandLine(store.path)
    return {
        f"sync {path.name}, {attempt}": _answer(cli, ("sync", str(path), "--json"))
        for path in write_samples(folder)
        for attempt in ("first", "second")
    }


def open_old_store(folder: Path) -> Store:
    path = folder / "store.db"
    path.write_bytes(zstandard.ZstdDecompressor().decompress(OLD_STORE.read_bytes()))
    path.chmod(0o600)
    return Store.open(path)


def load_answers() -> dict[str, Any]:
    return dict(json.loads(zstandard.ZstdDecompressor().decompress(ANSWERS.read_bytes())))


def save_answers(answers: dict[str, Any]) -> None:
    text = json.dumps(answers, indent=1, sort_keys=True, ensure_ascii=False)
    ANSWERS.write_bytes(zstandard.ZstdCompressor(19).compress(text.encode()))


def record_answers(folder: Path) -> None:
    """Record the answers of the current version. Look at every difference first."""
    (folder / "old").mkdir()
    began = datetime.now(UTC)
    with open_old_store(folder / "old") as store:
        old = comparable(answer_all(store), folder / "old", began)
    with Store.open(folder / "store.db") as store:
        synced = sync_samples(store, folder)
        samples = comparable(synced | answer_all(store), folder, began)
    save_answers({"old store": old, "samples": samples})


def comparable(answers: dict[str, Any], folder: Path, began: datetime) -> dict[str, Any]:
    """Replace what may differ between two runs or versions, so that the answers can be compared.

    That is the folder of the samples, digests of that folder in session ids, times since the run began, and sentences
    for people.
    """
    text = json.dumps(answers).replace(str(folder), "/samples")
    text = re.sub(r"@[0-9a-f]{8}(?![0-9a-f])", "@folder", text)
    run_start = (began - timedelta(seconds=1)).strftime("%Y-%m-%dT%H:%M:%S")
    text = re.sub(r"20\d\d-\d\d-\d\dT[\d:.]{8,}Z", lambda match: "now" if match[0] >= run_start else match[0], text)
    return dict(_without_sentences(json.loads(text)))


def _without_sentences(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: "…" if name in SENTENCES else _without_sentences(inner) for name, inner in value.items()}
    return [_without_sentences(inner) for inner in value] if isinstance(value, list) else value
