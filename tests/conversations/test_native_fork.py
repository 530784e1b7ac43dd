"""These tests cover forks that are written as new transcripts of Claude Code and Codex.

Their readers find the same past in them, every call has a result, and the original file is unchanged.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import sync_paths
from sample_conversations import prompts, statuses

from store.conversations.fork import fork_session
from store.errors import NotFound, Refused
from store.model.entry import INTERRUPTED_RESULT
from store.model.session import Session
from store.store import Store
from store.write_back.fork_transcript import can_fork_transcript, fork_transcript, fork_transcript_path

DATA = Path(__file__).parents[1] / "data"
CLAUDE = "c1000000-0000-4000-8000-000000000001"
NEW = "Something quite else"
TOTALS = "select sum(tool_calls), sum(errors), sum(tokens_total) from sessions"


@pytest.fixture(params=["claude", "codex"])
def root(request: pytest.FixtureRequest, home: Path) -> Path:
    return Path(shutil.copytree(DATA / request.param, home / f".{request.param}"))


@pytest.fixture
def claude(home: Path) -> Path:
    return Path(shutil.copytree(DATA / "claude", home / ".claude"))


def read_files(root: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def call_results(store: Store, session: Session) -> list[Any]:
    return [call.result for call in store.chains.tool_calls(session.key)]


def iter_forks(store: Store) -> Iterator[tuple[Session, int, str | None]]:
    """Yield every session that can be forked, with every turn, without and with a new prompt."""
    for session in filter(can_fork_transcript, store.sessions.newest(100)):
        for turn in range(1, store.chains.last_turn(session.key) + 1):
            yield session, turn, None
            yield session, turn, NEW


def transcript_id(session: Session) -> str:
    return session.native_id.partition("/")[0]


# ── both agents ──────────────────────────────────────────────────────────────────────────────────────────


def test_every_session_can_be_forked_at_every_turn_without_changing_it(store: Store, root: Path) -> None:
    sync_paths(store, root)
    totals, before = store.row(TOTALS), read_files(root)
    all_forks = list(iter_forks(store))
    assert len(all_forks) > 20
    paths: set[Path] = set()
    for session, turn, prompt in all_forks:
        path, child = fork_transcript(store, session, turn, prompt=prompt)
        paths.add(path)
        session_prompts = prompts(store, session)[:turn]
        assert prompts(store, child) == ([*session_prompts[:-1], prompt] if prompt else session_prompts)
        assert transcript_id(session) in (child.parent_id or "")
        assert child.relation == "fork"
        # Calls that are still pending at this turn of the original have a result in the fork. Nothing else differs.
        call_ids = {call.call_id for call in store.chains.tool_calls(session.key) if call.turn <= turn - bool(prompt)}
        assert {"ok", "error"} >= set(statuses(store, child).values())
        assert set(statuses(store, child)) <= call_ids
        assert child.turns == (1 if prompt else 0)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    after = read_files(root)
    assert {path: after[path] for path in before} == before
    assert paths == after.keys() - before.keys() - {path for path in after if "tool-results" in path.parts}
    assert store.row(TOTALS)[::2] == totals[::2]
    changes = store.connection.total_changes
    assert sync_paths(store, root).problems == []
    assert store.connection.total_changes == changes


def test_the_past_of_a_fork_equals_that_of_its_parent(store: Store, root: Path) -> None:
    sync_paths(store, root)
    name = {".claude": f"claude:{CLAUDE}", ".codex": "codex:0a000000-0000-7000-8000-000000000002"}[root.name]
    session = store.sessions.get(name)
    child = fork_transcript(store, session, 2).session
    theirs = [e for t in store.chains.turns(session.key)[1:3] for e in t.entries if e.kind == "message"]
    ours = [entry for entry in store.chains.entries(child.key) if entry.kind == "message" and entry.turn]
    assert [(entry.role, entry.text, entry.parts) for entry in ours] == [(e.role, e.text, e.parts) for e in theirs]
    assert all(entry.inherited for entry in ours)


def test_a_fork_can_be_forked_again(store: Store, root: Path) -> None:
    sync_paths(store, root)
    session = next(session for session, turn, _ in iter_forks(store) if turn == 2)
    child = fork_transcript(store, session, 2, prompt=NEW).session
    second = fork_transcript(store, child, 2).session
    assert (second.parent_id, prompts(store, second)) == (child.id, prompts(store, child))


def test_a_deleted_transcript_is_forked_from_the_records_in_the_store(store: Store, root: Path, tmp_path: Path) -> None:
    session = next(session for session, turn, _ in sync_forks(store, root) if turn == 2)
    totals = store.row(TOTALS)
    for path in list(root.rglob(f"*{transcript_id(session)}*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    sync_paths(store, root)
    assert store.sessions.by_key(session.key).gone
    child = fork_transcript(store, session, 2).session
    assert prompts(store, child) == prompts(store, session)[:2]
    assert store.row(TOTALS)[::2] == totals[::2]
    assert (child.turns, child.parent_id) == (0, session.id)


def sync_forks(store: Store, root: Path) -> Iterator[tuple[Session, int, str | None]]:
    sync_paths(store, root)
    return ((session, turn, prompt) for session, turn, prompt in iter_forks(store) if "/" not in session.native_id)


def test_turns_that_cannot_be_continued_are_refused(store: Store, root: Path) -> None:
    session = next(session for session, turn, _ in sync_forks(store, root) if turn == 1)
    before = read_files(root)
    with pytest.raises(Refused, match="at least one turn"):
        fork_transcript_path(store, session, 0)
    with pytest.raises(NotFound, match="No such turn: 99"):
        fork_transcript_path(store, session, 99)
    store.sessions.delete([session])
    with pytest.raises(Refused, match="trash"):
        fork_transcript_path(store, session, 1)
    assert read_files(root) == before


def test_ids_that_are_no_file_names_are_refused(store: Store, root: Path) -> None:
    source = root.name.removeprefix(".")
    before = read_files(root.parent)
    hostile_ids = ["../../x", "..", "a/../../../x", "*", "-x", "x\0y", f"{CLAUDE}\n", "$(id)", ""]
    for number, native in enumerate(hostile_ids):
        session = store.sessions.create(f"{source}:{number}", source=source, native_id=native, cwd="/w")
        store.append_message(session.id, "user", "hello")
        assert not can_fork_transcript(session)
        with pytest.raises(Refused):
            fork_transcript_path(store, session, 1)
    assert read_files(root.parent) == before


def test_a_link_that_leads_out_of_the_agent_s_folder_is_not_followed(store: Store, root: Path, tmp_path: Path) -> None:
    session = next(session for session, turn, _ in sync_forks(store, root) if turn == 1)
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(root / "projects", ignore_errors=True)
    shutil.rmtree(root / "sessions", ignore_errors=True)
    (root / ("projects" if root.name == ".claude" else "sessions")).symlink_to(outside)
    with pytest.raises(Refused, match="is outside of"):
        fork_transcript_path(store, session, 1)
    assert list(outside.rglob("*")) == []


def test_a_failed_write_leaves_no_file_behind(store: Store, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = next(session for session, turn, _ in sync_forks(store, root) if turn == 1)
    before = read_files(root)

    def fail_fsync(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail_fsync)
    with pytest.raises(Refused, match="No space left"):
        fork_transcript_path(store, session, 1)
    assert read_files(root) == before


def test_no_folder_is_created_for_an_agent_that_is_not_installed(store: Store, root: Path, tmp_path: Path) -> None:
    """This happens with sessions of a backup, or of another machine."""
    root.rename(tmp_path / "backup")
    session = next(session for session, turn, _ in sync_forks(store, tmp_path / "backup") if turn == 1)
    with pytest.raises(Refused, match="No such folder"):
        fork_transcript_path(store, session, 1)
    root.mkdir()
    path, child = fork_transcript(store, session, 1)
    assert path.is_relative_to(root)
    assert child.parent_id == session.id
    assert child.turns == 0


def test_a_fork_waits_for_another_sync_to_end(store: Store, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = next(session for session, turn, _ in sync_forks(store, root) if turn == 1)
    with Path(f"{store.path}.sync").open("w") as lock_file:
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        threading.Timer(0.3, fcntl.flock, (lock_file, fcntl.LOCK_UN)).start()
        assert fork_transcript(store, session, 1).session.parent_id == session.id
        fcntl.flock(lock_file, fcntl.LOCK_EX)
        monkeypatch.setattr("store.write_back.fork_transcript.SYNC_SECONDS", 0)
        with pytest.raises(Refused, match=r"was written to .*\.jsonl\. It appears here after the next sync"):
            fork_transcript_path(store, session, 1)
    sync_paths(store, root)
    assert len([child for child in store.sessions.children(session.id) if child.relation == "fork"]) >= 2


def test_sessions_of_other_agents_are_forked_only_in_our_store(store: Store) -> None:
    session = store.create_session("a")
    store.append_message("a", "user", "hello")
    assert not can_fork_transcript(session)
    with pytest.raises(Refused, match="in Backscroll"):
        fork_transcript_path(store, session, 1)


# ── our own forks of foreign sessions ─────────────────────────────────────────────────────────────


def test_our_own_fork_survives_every_change_of_its_parent(store: Store, claude: Path) -> None:
    """The parent grows, is rewound, becomes a branch and is purged. It is read again each time."""
    sync_paths(store, claude)
    session = store.sessions.get(f"claude:{CLAUDE}")
    child = fork_session(store, session, store.chains.last_turn(session.key), prompt=NEW)
    unchanged = fork_session(store, session, store.chains.last_turn(session.key))
    expected = prompts(store, child), prompts(store, unchanged)
    path = claude / "projects/-w-app" / f"{CLAUDE}.jsonl"
    original = path.read_bytes()
    uuid = [line["uuid"] for line in read_lines(path) if line.get("uuid")][-1]
    message = {"type": "user", "message": {"role": "user", "content": "more"}, "timestamp": "2026-05-09T10:00:00Z"}
    line = json.dumps({"parentUuid": uuid, "uuid": "n1", "sessionId": CLAUDE, **message}).encode() + b"\n"
    for data in (
        original + line,
        original[: len(original) // 3].rpartition(b"\n")[0] + b"\n",
        original,
        original + line,
    ):
        path.write_bytes(data)
        sync_paths(store, claude)
        sync_paths(store, claude)
        assert (prompts(store, child), prompts(store, unchanged)) == expected
        assert [store.sessions.by_key(fork.key).parent_id for fork in (child, unchanged)] == [session.id] * 2
        assert store.row("pragma foreign_key_check") is None
    assert {child.id, unchanged.id} <= {fork.id for fork in store.sessions.children(session.id)}
    store.sessions.purge([store.sessions.get(session.id)], vacuum=False)
    assert (prompts(store, child), prompts(store, unchanged)) == expected
    assert store.search.find(f'"{NEW}"')[1] == 1


# ── Claude Code ───────────────────────────────────────────────────────────────────────────────────


def write_lines(path: Path, *values: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(value, separators=(",", ":")) + "\n" for value in values)


def message_line(uuid: str, parent: str | None, content: Any, *, role: str = "user", **fields: Any) -> dict[str, Any]:
    head = {"parentUuid": parent, "isSidechain": False, "type": role, "uuid": uuid, "sessionId": "s", "cwd": "/w/x"}
    message = {"role": role, "content": content, **({"id": uuid} if role == "assistant" else {})}
    return {**head, "message": message, "timestamp": f"2026-05-01T10:00:{len(uuid):02}.000Z", **fields}


def tool_use(*calls: str) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": call, "name": "Bash", "input": {"command": call}} for call in calls]


def tool_result(call: str, content: Any = "done") -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": call, "content": content}]


@pytest.fixture
def transcript(home: Path) -> Path:
    """Write a prompt with a picture, parallel calls, one of them pending, a stray result, progress and a compaction."""
    path = home / ".claude/projects/-w-x/d1000000-0000-4000-8000-000000000001.jsonl"
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    write_lines(
        path,
        message_line("u1", None, [{"type": "text", "text": "Look at this"}, picture]),
        message_line("a1", "u1", tool_use("c1", "c2"), role="assistant"),
        {"type": "progress", "uuid": "p1", "parentUuid": "a1", "sessionId": "s", "data": {"type": "hook"}},
        message_line("r1", "p1", tool_result("c1")),
        message_line("r0", "r1", tool_result("stray")),
        message_line("k1", "a1", "never mind", isSidechain=True),
        message_line("u2", "r0", "Go on"),
        message_line("a2", "u2", [{"type": "text", "text": "Yes."}], role="assistant"),
        {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "b1",
            "parentUuid": None,
            "logicalParentUuid": "a2",
            "sessionId": "s",
        },
        message_line("u3", "b1", "So far so good", isCompactSummary=True),
        message_line("u4", "u3", "And now?"),
        {"type": "content-replacement", "sessionId": "s", "replacements": [{"id": "x"}]},
    )
    return path


def sync_session(store: Store, path: Path) -> Session:
    sync_paths(store, path.parents[2])
    return store.sessions.get(f"claude:{path.stem}")


def test_the_lines_of_a_fork_are_one_chain_and_name_their_originals(store: Store, transcript: Path) -> None:
    session = sync_session(store, transcript)
    path, child = fork_transcript(store, session, 3)
    assert path.parent == transcript.parent
    fork_lines = read_lines(path)
    chained = {line["uuid"]: line for line in fork_lines if "uuid" in line}
    assert not chained.keys() & {line.get("uuid") for line in read_lines(transcript)}
    assert {line["sessionId"] for line in fork_lines} == {child.native_id}
    known: set[str | None] = {None}
    for line in chained.values():
        assert line["parentUuid"] in known
        known.add(line["uuid"])
    origins = [line["forkedFrom"]["messageUuid"] for line in chained.values() if "forkedFrom" in line]
    assert origins == ["u1", "a1", "r1", "u2", "a2", "b1", "u3", "u4"]
    (boundary,) = [line for line in fork_lines if line.get("subtype") == "compact_boundary"]
    assert chained[boundary["logicalParentUuid"]]["forkedFrom"]["messageUuid"] == "a2"
    assert boundary["parentUuid"] is None
    assert [line["type"] for line in fork_lines[-2:]] == ["content-replacement", "custom-title"]
    assert fork_lines[-1]["customTitle"] == "Look at this (fork)"


def test_pending_calls_get_a_result_before_the_next_prompt(store: Store, transcript: Path) -> None:
    session = sync_session(store, transcript)
    for turn in (1, 2):
        path, child = fork_transcript(store, session, turn)
        assert statuses(store, child) == {"c1": "ok", "c2": "error"}
        assert call_results(store, child) == ["done", INTERRUPTED_RESULT]
        fork_lines = [line for line in read_lines(path) if "uuid" in line]
        (closing,) = [index for index, line in enumerate(fork_lines) if INTERRUPTED_RESULT in json.dumps(line)]
        assert "forkedFrom" not in fork_lines[closing]
        assert [line["parentUuid"] for line in fork_lines[closing + 1 :][:1]] == [fork_lines[closing]["uuid"]] * (
            turn - 1
        )
    assert statuses(store, session)["c2"] == "pending"


def test_a_new_prompt_keeps_the_attached_picture(store: Store, transcript: Path) -> None:
    path, child = fork_transcript(store, sync_session(store, transcript), 1, prompt="Look at that")
    (prompt, title) = read_lines(path)
    assert prompt["message"]["content"][0] == {"type": "text", "text": "Look at that"}
    assert prompt["message"]["content"][1]["type"] == "image"
    assert (prompt["cwd"], prompt["parentUuid"]) == ("/w/x", None)
    assert (child.turns, child.parent_id) == (1, f"claude:{transcript.stem}")
    assert title["forkedFrom"]["sessionId"] == transcript.stem


def test_the_fork_of_a_headless_session_is_interactive(store: Store, home: Path) -> None:
    path = home / ".claude/projects/-w-x/d1000000-0000-4000-8000-000000000001.jsonl"
    headless = {"entrypoint": "sdk-cli"}
    write_lines(
        path,
        message_line("u1", None, "Hello", **headless),
        message_line("a1", "u1", "Hi.", role="assistant", **headless),
    )
    fork_lines = read_lines(fork_transcript_path(store, sync_session(store, path), 1))
    assert [line.get("entrypoint") for line in fork_lines] == ["cli", "cli", None]


def test_output_files_next_to_the_transcript_are_copied_to_the_fork(store: Store, home: Path) -> None:
    path = home / ".claude/projects/-w-x/d1000000-0000-4000-8000-000000000001.jsonl"
    output_file = path.with_suffix("") / "tool-results/long.txt"
    output_file.parent.mkdir(parents=True)
    output_file.write_text("a very long output")
    (output_file.parent / "link.txt").symlink_to("/etc/passwd")
    saved = f"<persisted-output>\nOutput too large. Full output saved to: {output_file}\nPreview\n</persisted-output>"
    linked = saved.replace("long.txt", "link.txt")
    write_lines(
        path,
        message_line("u1", None, "Run it"),
        message_line("a1", "u1", tool_use("c1", "c2"), role="assistant"),
        message_line("r1", "a1", tool_result("c1", saved), toolUseResult={"persistedOutputPath": str(output_file)}),
        message_line("r2", "r1", tool_result("c2", linked)),
    )
    fork_path, child = fork_transcript(store, sync_session(store, path), 1)
    copy = fork_path.with_suffix("") / "tool-results/long.txt"
    assert copy.read_text() == "a very long output"
    assert call_results(store, child)[0] == "a very long output"
    assert str(output_file) not in fork_path.read_text()
    assert str(copy) in fork_path.read_text()
    assert [path.name for path in copy.parent.iterdir()] == ["long.txt"]
    output_file.unlink()
    assert str(output_file) in fork_transcript(store, sync_session(store, path), 1).path.read_text()


@pytest.mark.parametrize(
    ("cwd", "folder"),
    [
        ("/w/My Projects/été_1", "-w-My-Projects--t--1"),
        ("/w/../../etc", "-etc"),
        ("/w/😀", "-w---"),
        ("relative/../..", None),
        ("", None),
        ("/" + "x" * 300, None),
    ],
)
def test_without_the_transcript_the_folder_is_derived_from_that_of_the_session(
    store: Store, home: Path, cwd: str, folder: str | None
) -> None:
    projects = home / ".claude/projects"
    path = projects / "-w-x/d1000000-0000-4000-8000-000000000001.jsonl"
    write_lines(
        path, message_line("u1", None, "Hello", cwd=cwd), message_line("a1", "u1", "Hi.", role="assistant", cwd=cwd)
    )
    session = sync_session(store, path)
    path.unlink()
    if folder is None:
        with pytest.raises(Refused, match="Claude Code would"):
            fork_transcript_path(store, session, 1)
        return
    assert fork_transcript_path(store, session, 1).parent == projects / folder


def test_conversations_of_sub_agents_cannot_be_forked(store: Store, claude: Path) -> None:
    sync_paths(store, claude)
    agents = [session for session in store.sessions.newest(100) if session.relation in ("delegate", "sidechain")]
    assert agents
    assert not any(map(can_fork_transcript, agents))
