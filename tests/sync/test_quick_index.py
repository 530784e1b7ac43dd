"""This module tests the quick index: every session of a large archive is listed and found before it is read.

When the sessions are read, nothing of the quick index stays.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest
from browser_driver import make_browser, screen_text, wait_for_text
from command_line import CommandLine
from foreign_databases import stored_texts, sync_paths
from store_integrity import find_faults

from store import sources
from store.doctor import check_store
from store.model.session import Session
from store.search.list_rows import SessionListOptions
from store.search.query import Query
from store.search.session_list import build_session_list
from store.search.sql import build_quick_index_conditions
from store.sources.claude_code.source import ClaudeCode
from store.sources.codex.source import Codex
from store.sources.contract import QuickSession, SessionRef, Source
from store.sources.kit import line_scan
from store.store import Store
from store.sync import child_process, reader_process, refresh
from store.sync.quick_index import QuickScan
from store.sync.targets import Progress, find_targets

claude_code = ClaudeCode()
codex = Codex()

PROMPT, ANSWER, THOUGHT, OUTPUT = "retry the walrus upload", "the pelican closed it", "a heron thinks", "ostrich.txt"


@pytest.fixture(autouse=True)
def _large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every archive count as large."""
    monkeypatch.setattr(child_process, "LARGE_BYTES", 0)


def claude_lines(session: str, *messages: tuple[str, Any]) -> Iterator[str]:
    parent = None
    for number, (role, content) in enumerate(messages):
        uuid = f"{session[:8]}-0000-4000-8000-{number:012}"
        message = {"role": role, "content": content} | ({"model": "claude-opus"} if role == "assistant" else {})
        record = {
            "parentUuid": parent,
            "isSidechain": False,
            "cwd": "/home/ada/birds",
            "sessionId": session,
            "type": role,
            "message": message,
            "uuid": uuid,
            "timestamp": f"2026-05-01T10:00:{number:02}.000Z",
        }
        yield json.dumps(record, separators=(",", ":"))
        parent = uuid


def codex_lines(thread: str) -> Iterator[str]:
    def line(kind: str, payload: dict[str, Any]) -> str:
        record = {"timestamp": "2026-05-02T10:00:00.000Z", "type": kind, "payload": payload}
        return json.dumps(record, separators=(",", ":"))

    yield line("session_meta", {"id": thread, "timestamp": "2026-05-02T10:00:00Z", "cwd": "/home/ada/fish"})
    yield line("turn_context", {"cwd": "/home/ada/fish", "model": "gpt-5-codex"})
    for text in ("<environment_context><cwd>/home/ada/fish</cwd></environment_context>", "count the salmon"):
        content = [{"type": "input_text", "text": text}]
        yield line("response_item", {"type": "message", "role": "user", "content": content})
    call = {"type": "function_call", "name": "shell", "arguments": '{"command":["ls"]}', "call_id": "c1"}
    yield line("response_item", call)
    yield line("response_item", {"type": "function_call_output", "call_id": "c1", "output": "herring.txt"})
    content = [{"type": "output_text", "text": "seven salmon"}]
    yield line("response_item", {"type": "message", "role": "assistant", "content": content})


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "agents"
    project = folder / "claude" / "projects" / "-home-ada-birds"
    project.mkdir(parents=True)
    use = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls nest"}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": OUTPUT}
    for number in range(3):
        session = f"c000000{number}-0000-4000-8000-000000000000"
        messages = [
            ("user", f"{PROMPT} {number}"),
            ("user", "<system-reminder>an emu is injected</system-reminder>"),
            ("assistant", [{"type": "thinking", "thinking": THOUGHT}]),
            ("assistant", [use]),
            ("user", [result]),
            ("assistant", [{"type": "text", "text": ANSWER}]),
        ]
        path = project / f"{session}.jsonl"
        path.write_text("".join(f"{line}\n" for line in claude_lines(session, *messages)), "utf-8")
        os.utime(path, (1_770_000_000 + number,) * 2)
    thread = "0a000000-0000-7000-8000-000000000001"
    rollout = folder / "codex" / "sessions" / "2026" / "05" / "02" / f"rollout-2026-05-02T10-00-00-{thread}.jsonl"
    rollout.parent.mkdir(parents=True)
    rollout.write_text("".join(f"{line}\n" for line in codex_lines(thread)), "utf-8")
    return folder


def index_quickly(store: Store, home: Path) -> Iterator[Progress]:
    """Start a sync, and return it when the quick index of both archives is complete."""
    sync = refresh.sync_targets(store, find_targets([str(home / "claude"), str(home / "codex")]))
    for progress in sync:
        assert progress.done == 0
        if progress.report.source == "codex" and progress.total:
            return sync
    raise AssertionError("There was no quick index.")


def start_quick_index(store: Store, home: Path) -> Iterator[Progress]:
    """Start a sync, and return it after its first rows."""
    sync = refresh.sync_targets(store, find_targets([str(home / "claude"), str(home / "codex")]))
    next(sync)
    return sync


def find_sessions(store: Store, words: str) -> list[Session]:
    return store.sessions.matching(words)[0]


def count_unread(store: Store) -> int:
    (count,) = store.row("select count(*) from sessions where depth = 'text'")
    return int(count)


def count_quick_index_rows(store: Store) -> int:
    (count,) = store.row("select count(*) from skims_fts_data where id > 10")
    return int(count)


# ── before the sessions are read ──────────────────────────────────────────────────────────────────


def test_every_session_is_listed_before_any_is_read(store: Store, home: Path) -> None:
    index_quickly(store, home)
    assert count_unread(store) == 4
    assert store.rows("select 1 from entries") == []
    listed = {session.title: session for session in store.sessions.newest()}
    assert listed.keys() == {f"{PROMPT} 0", f"{PROMPT} 1", f"{PROMPT} 2", "count the salmon"}
    bird, fish = listed[f"{PROMPT} 2"], listed["count the salmon"]
    assert (bird.source, bird.model, bird.cwd, bird.turns) == ("claude", "claude-opus", "/home/ada/birds", 1)
    assert (bird.created_at, bird.updated_at) == ("2026-05-01T10:00:00.000000Z", "2026-05-01T10:00:05.000000Z")
    assert (fish.source, fish.model, fish.cwd, fish.turns) == ("codex", "gpt-5-codex", "/home/ada/fish", 1)


def test_archives_that_cannot_be_listed_quickly_are_read_first(store: Store, home: Path) -> None:
    """Their words can be found only when they are read. Those of the others can be found already."""
    shutil.copytree(Path(__file__).parents[1] / "data/gemini", home / "gemini")
    targets = find_targets([str(home / agent) for agent in ("claude", "codex", "gemini")])
    read_sources = [step.report.source for step in refresh.sync_targets(store, targets) if step.done]
    assert (read_sources[0], set(read_sources)) == ("gemini", {"claude", "codex", "gemini"})


def test_a_small_archive_is_listed_while_the_large_ones_are(
    store: Store, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pi = shutil.copytree(Path(__file__).parents[1] / "data/pi", home / "pi")
    sizes = {folder: sum(path.stat().st_size for path in folder.rglob("*")) for folder in (pi, home / "claude")}
    padded = next((home / "claude").rglob("*.jsonl"))
    padded.write_bytes(padded.read_bytes() + b"\n" * sizes[pi])
    monkeypatch.setattr(child_process, "LARGE_BYTES", sizes[pi] + 1)
    expected = {session.native_id for session in sources.load_source("pi").quick_read(str(pi), ())}
    for step in refresh.sync_targets(store, find_targets([str(home / "claude"), str(pi)])):
        if step.report.source == "pi":
            assert (step.done, step.total) == (0, len(expected)), "nothing is read yet"
            break
    assert {session.native_id for session in store.sessions.newest() if session.source == "pi"} == expected != set()


def test_words_of_messages_are_found_and_tool_output_not_yet(store: Store, home: Path) -> None:
    sync = index_quickly(store, home)
    for words in ("walrus", "peli*", '"heron thinks"', "walrus agent:claude"):
        assert len(find_sessions(store, words)) == 3, words
        assert len(build_session_list(store, SessionListOptions(words)).keys) == 3
        assert len(build_session_list(store, SessionListOptions(words), limit=50).keys) == 3
    assert [session.cwd for session in find_sessions(store, "salmon -walrus")] == ["/home/ada/fish"]
    for words in ("emu", "ostrich", "herring", "walrus agent:codex", "walrus role:user"):
        assert find_sessions(store, words) == [], words
    assert build_session_list(store, SessionListOptions("wallrus ")).query.corrections == (("wallrus", "walrus"),)
    for _ in sync:
        pass
    assert len(find_sessions(store, "walrus role:user")) == 3
    assert store.search.find("ostrich")[1] == store.search.find("heron")[1] == 3


def test_the_quick_index_is_searched_once_for_all_sessions(store: Store, home: Path) -> None:
    """A search for each session would take minutes while a large archive is read."""
    index_quickly(store, home)
    looked_up: list[str] = []
    store.connection.set_trace_callback(lambda sql: looked_up.append(sql) if "skims_fts_idx" in sql else None)
    [condition] = build_quick_index_conditions(Query.parse("wal", is_typing=True))
    found = store.rows(f"select key from sessions where {condition.sql}", *condition.values)
    store.connection.set_trace_callback(None)
    segments = store.rows("select distinct segid from skims_fts_idx")
    assert (len(found), len(looked_up)) == (3, len(segments))


def test_a_hit_names_the_session_until_its_entry_is_known(store: Store, home: Path) -> None:
    index_quickly(store, home)
    hits, total = store.search.find("pelican")
    assert (len(hits), total) == (3, 3)
    assert all(hit.entry == hit.session_id for hit in hits)
    command = CommandLine(store.path)
    assert "not completely read yet" in command("show", hits[0].session_id).err
    assert "not read yet" in command.run_in_terminal("search", "pelican").out


def read_quickly(source: Source, folder: Path) -> list[QuickSession]:
    return list(source.quick_read(str(folder), set()))


UNUSUAL_TEXT = '"quoted" \\ \n\t鶴 \u2028 crane'


@pytest.mark.parametrize(
    "content",
    [
        UNUSUAL_TEXT,
        [{"type": "text", "text": UNUSUAL_TEXT}],
        [{"type": "thinking", "thinking": UNUSUAL_TEXT, "signature": "c2ln"}],
        [{"text": UNUSUAL_TEXT, "type": "text"}],
        [{"type": "text", "text": UNUSUAL_TEXT, "citations": [{"type": "page"}]}],
        [{"type": "text", "text": UNUSUAL_TEXT}, {"type": "text", "text": "stork"}],
        [
            {"type": "text", "text": UNUSUAL_TEXT},
            {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"text": "emu"}},
        ],
    ],
    ids=range(7),
)
@pytest.mark.parametrize("escaped", [True, False])
def test_the_quick_index_has_the_same_texts_as_the_entries(
    store: Store, tmp_path: Path, content: Any, escaped: bool
) -> None:
    session = "c0000000-0000-4000-8000-000000000000"
    lines = claude_lines(session, ("user", PROMPT), ("assistant", content))
    project = tmp_path / "claude" / "projects" / "-home-ada-birds"
    project.mkdir(parents=True)
    written = (json.dumps(json.loads(line), separators=(",", ":"), ensure_ascii=escaped) for line in lines)
    (project / f"{session}.jsonl").write_text("\n".join(written), "utf-8")
    (quick_session,) = read_quickly(claude_code, tmp_path / "claude")
    sync_paths(store, tmp_path / "claude")
    assert (list(quick_session.prompts), quick_session.answers[0]) == (stored_texts(store, session)[:1], UNUSUAL_TEXT)
    for words in ("crane", "stork"):
        assert any(words in text for text in quick_session.answers) == bool(store.search.find(words)[1])
    imported = store.sessions.get(f"claude:{session}")
    assert [quick_session.fields[name] for name in ("model", "cwd", "created_at", "updated_at")] == [
        imported.model,
        imported.cwd,
        imported.created_at,
        imported.updated_at,
    ]


def test_texts_inside_a_tool_call_are_not_indexed_as_messages(tmp_path: Path) -> None:
    session = "c0000000-0000-4000-8000-000000000000"
    quoted = {"role": "assistant", "content": [{"type": "text", "text": "emu"}]}
    use = {"type": "tool_use", "id": "t1", "name": "Task", "input": quoted}
    result = {"tool_use_id": "t1", "type": "tool_result", "content": [{"type": "text", "text": "ostrich"}]}
    path = tmp_path / f"{session}.jsonl"
    path.write_text(
        "\n".join(claude_lines(session, ("user", PROMPT), ("assistant", [use]), ("user", [result]))), "utf-8"
    )
    (quick_session,) = read_quickly(claude_code, path)
    assert (list(quick_session.prompts), list(quick_session.answers)) == ([PROMPT], [])


def test_the_quick_index_does_not_depend_on_the_chunk_size(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = read_quickly(claude_code, home / "claude") + read_quickly(codex, home / "codex")
    assert len(expected) == 4
    for size in (50, 333, 2000):
        monkeypatch.setattr(line_scan, "_CHUNK_BYTES", size)
        assert read_quickly(claude_code, home / "claude") + read_quickly(codex, home / "codex") == expected


# ── after the sessions are read ───────────────────────────────────────────────────────────────────


def test_a_complete_sync_leaves_the_quick_index_empty(store: Store, home: Path) -> None:
    sync = index_quickly(store, home)
    assert count_quick_index_rows(store)
    for _ in sync:
        pass
    assert (count_unread(store), count_quick_index_rows(store)) == (0, 0)
    assert find_faults(store.path) == []
    before = store.connection.total_changes
    sync_paths(store, home / "claude", home / "codex")
    assert store.connection.total_changes == before


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_an_interrupted_sync_continues_where_it_stopped(store: Store, home: Path, steps: int) -> None:
    sync = index_quickly(store, home)
    for _ in range(steps):
        next(sync)
    sync.close()  # type: ignore[attr-defined]
    assert (find_faults(store.path), check_store(store)) == ([], [])
    assert len(find_sessions(store, "walrus")) == 3
    sync_paths(store, home / "claude", home / "codex")
    assert (count_unread(store), count_quick_index_rows(store)) == (0, 0)
    assert (find_faults(store.path), check_store(store)) == ([], [])
    assert len(stored_texts(store, "c0000001-0000-4000-8000-000000000000")) == 6


def test_edits_of_an_unread_session_stay(store: Store, home: Path) -> None:
    sync = index_quickly(store, home)
    session = find_sessions(store, "walrus")[0]
    store.sessions.set_title(session, "The birds")
    store.notes.tag([session], ["nest"])
    for _ in sync:
        pass
    after = store.sessions.get(session.id)
    assert (after.key, after.title, after.depth) == (session.key, "The birds", "full")
    assert store.notes.tags(after) == ["nest"]


def test_a_file_that_is_deleted_before_it_is_read_leaves_nothing(store: Store, home: Path) -> None:
    sync = index_quickly(store, home)
    shutil.rmtree(home / "claude")
    (home / "claude").mkdir()
    for _ in sync:
        pass
    assert [session.source for session in store.sessions.newest()] == ["codex"]
    assert count_quick_index_rows(store) == 0


def test_an_unread_session_that_is_purged_leaves_no_word_in_the_store(store: Store, home: Path) -> None:
    sync = index_quickly(store, home)
    sync.close()  # type: ignore[attr-defined]
    store.sessions.purge(find_sessions(store, "walrus"))
    assert count_quick_index_rows(store) == 0
    assert b"walrus" not in store.path.read_bytes()
    sync_paths(store, home / "claude", home / "codex")
    assert [session.source for session in store.sessions.newest()] == ["codex"]


# ── priorities ────────────────────────────────────────────────────────────────────────────────────


def test_a_prioritized_session_is_read_next() -> None:
    waiting = {name: (SessionRef(name, ""), True) for name in "abcd"}
    ours, theirs = Pipe()
    order = reader_process.iter_prioritized(theirs, waiting, [].extend)
    assert next(order)[0].native_id == "a"
    ours.send("c")
    ours.send("a")  # was read already
    assert [(ref.native_id, is_prioritized) for ref, _, is_prioritized in order] == [
        ("c", True),
        ("b", False),
        ("d", False),
    ]


def test_half_of_the_sessions_are_handed_over_and_families_stay_together() -> None:
    names = ["new", "parent", "parent/agent-1", "old", "oldest", "parent/agent-2"]
    waiting = {name: (SessionRef(name, ""), True) for name in names}
    ours, theirs = Pipe()
    handed_over: list[str] = []
    order = reader_process.iter_prioritized(theirs, waiting, handed_over.extend)
    ours.send(reader_process.HAND_OVER)
    assert [ref.native_id for ref, *_ in order] == ["new", "parent", "parent/agent-1", "parent/agent-2"]
    assert handed_over == ["old", "oldest"]


@pytest.mark.parametrize("is_prioritized", [True, False])
def test_a_session_that_is_prioritized_from_the_start_is_read_first(
    store: Store, home: Path, is_prioritized: bool
) -> None:
    oldest, newest = (f"c000000{number}-0000-4000-8000-000000000000" for number in (0, 2))
    priority_ids = {oldest} if is_prioritized else set()
    for _ in refresh.sync_targets(store, find_targets([str(home / "claude")]), priority_ids):
        pass
    order = store.rows(
        """
        select sessions.native_id from entries join sessions on sessions.key = entries.session
        group by sessions.key order by min(entries.key)
        """
    )
    assert len(order) == 3
    assert order[0] == (oldest if is_prioritized else newest,)


def test_the_first_source_is_found_before_the_last_is_loaded(home: Path) -> None:
    code = (
        "import sys; from store.sync.targets import discover_targets; first = next(discover_targets());"
        " print(first.source.name, 'store.sources.opencode' in sys.modules)"
    )
    env = {**os.environ, "CLAUDE_CONFIG_DIR": str(home / "claude")}
    process = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert process.stdout.split() == ["claude", "False"]


@pytest.mark.parametrize("program", ["nowhere", "/bin/true"])
def test_without_a_second_process_the_newest_sessions_are_listed(
    store: Store, home: Path, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setattr(sys, "executable", str(home / program))
    sync = start_quick_index(store, home)
    assert count_unread(store) == 3
    for _ in sync:
        pass
    assert (count_unread(store), len(find_sessions(store, "pelican")), len(find_sessions(store, "salmon"))) == (0, 3, 1)


def test_the_newest_sessions_are_read_here_if_the_process_has_already_stopped(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = Pipe()
    theirs.close()
    monkeypatch.setattr(child_process.ReaderProcesses, "start", lambda processes: ours)
    scan = QuickScan(claude_code, str(home / "claude"), set(), child_process.ReaderProcesses())
    assert len(scan.start(reads_newest=False)) == 3
    assert (scan.pipe, scan.receive_rows()) == (None, None)


async def test_an_unread_conversation_appears_when_it_is_read(store: Store, home: Path) -> None:
    sync = index_quickly(store, home)
    async with make_browser(store).run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "count the salmon")
        await pilot.press("slash", *"walrus", "enter", "enter")
        await wait_for_text(pilot, "loading…")
        await asyncio.to_thread(list, sync)  # in another thread, as the browser does
        await wait_for_text(pilot, ANSWER)
        assert "loading…" not in screen_text(pilot)
