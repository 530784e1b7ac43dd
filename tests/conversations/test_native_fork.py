"""Forks as new transcripts of Claude Code and Codex: their readers find the same past in them, every call is paired,
and of the original not a byte and not a time has changed."""

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
COUNTED = "select sum(tool_calls), sum(errors), sum(tokens_total) from sessions"


@pytest.fixture(params=["claude", "codex"])
def root(request: pytest.FixtureRequest, home: Path) -> Path:
    return Path(shutil.copytree(DATA / request.param, home / f".{request.param}"))


@pytest.fixture
def claude(home: Path) -> Path:
    return Path(shutil.copytree(DATA / "claude", home / ".claude"))


def files(root: Path) -> dict[Path, tuple[bytes, int]]:
    return {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def results(store: Store, session: Session) -> list[Any]:
    return [call.result for call in store.chains.tool_calls(session.key)]


def forks(store: Store) -> Iterator[tuple[Session, int, str | None]]:
    """Every session that can be forked at every turn, as it was and with another prompt."""
    for session in filter(can_fork_transcript, store.sessions.newest(100)):
        for turn in range(1, store.chains.last_turn(session.key) + 1):
            yield session, turn, None
            yield session, turn, NEW


def transcript_of(session: Session) -> str:
    return session.native_id.partition("/")[0]


# ── both ──────────────────────────────────────────────────────────────────────────────────────────


def test_every_session_is_forked_at_every_turn_and_nothing_of_it_is_touched(store: Store, root: Path) -> None:
    sync_paths(store, root)
    counted, before = store.row(COUNTED), files(root)
    wanted = list(forks(store))
    assert len(wanted) > 20
    made: set[Path] = set()
    for session, turn, prompt in wanted:
        path, child = fork_transcript(store, session, turn, prompt=prompt)
        made.add(path)
        said = prompts(store, session)[:turn]
        assert prompts(store, child) == ([*said[:-1], prompt] if prompt else said)
        assert transcript_of(session) in (child.parent_id or "")
        assert child.relation == "fork"
        # What was still open in the middle of the original is closed here, and nothing else differs.
        asked = {call.call_id for call in store.chains.tool_calls(session.key) if call.turn <= turn - bool(prompt)}
        assert {"ok", "error"} >= set(statuses(store, child).values())
        assert set(statuses(store, child)) <= asked
        assert child.turns == (1 if prompt else 0)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    after = files(root)
    assert {path: after[path] for path in before} == before
    assert made == after.keys() - before.keys() - {path for path in after if "tool-results" in path.parts}
    assert store.row(COUNTED)[::2] == counted[::2]
    changes = store.connection.total_changes
    assert sync_paths(store, root).problems == []
    assert store.connection.total_changes == changes


def test_the_past_of_a_fork_is_told_word_for_word(store: Store, root: Path) -> None:
    sync_paths(store, root)
    name = {".claude": f"claude:{CLAUDE}", ".codex": "codex:0a000000-0000-7000-8000-000000000002"}[root.name]
    session = store.sessions.get(name)
    child = fork_transcript(store, session, 2).session
    theirs = [e for t in store.chains.turns(session.key)[1:3] for e in t.entries if e.kind == "message"]
    ours = [entry for entry in store.chains.entries(child.key) if entry.kind == "message" and entry.turn]
    assert [(entry.role, entry.text, entry.parts) for entry in ours] == [(e.role, e.text, e.parts) for e in theirs]
    assert all(entry.inherited for entry in ours)


def test_a_fork_is_forked_again_and_both_hang_together(store: Store, root: Path) -> None:
    sync_paths(store, root)
    session = next(one for one, turn, _ in forks(store) if turn == 2)
    child = fork_transcript(store, session, 2, prompt=NEW).session
    second = fork_transcript(store, child, 2).session
    assert (second.parent_id, prompts(store, second)) == (child.id, prompts(store, child))


def test_a_transcript_that_is_gone_is_forked_from_what_the_store_has_kept(
    store: Store, root: Path, tmp_path: Path
) -> None:
    session = next(one for one, turn, _ in _pulled(store, root) if turn == 2)
    counted = store.row(COUNTED)
    for path in list(root.rglob(f"*{transcript_of(session)}*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    sync_paths(store, root)
    assert store.sessions.by_key(session.key).gone
    child = fork_transcript(store, session, 2).session
    assert prompts(store, child) == prompts(store, session)[:2]
    assert store.row(COUNTED)[::2] == counted[::2]
    assert (child.turns, child.parent_id) == (0, session.id)


def _pulled(store: Store, root: Path) -> Iterator[tuple[Session, int, str | None]]:
    sync_paths(store, root)
    return ((one, turn, prompt) for one, turn, prompt in forks(store) if "/" not in one.native_id)


def test_what_there_is_nothing_to_go_on_with_is_refused(store: Store, root: Path) -> None:
    session = next(one for one, turn, _ in _pulled(store, root) if turn == 1)
    before = files(root)
    with pytest.raises(Refused, match="first prompt"):
        fork_transcript_path(store, session, 0)
    with pytest.raises(NotFound, match="no turn 99"):
        fork_transcript_path(store, session, 99)
    store.sessions.delete([session])
    with pytest.raises(Refused, match="trash"):
        fork_transcript_path(store, session, 1)
    assert files(root) == before


def test_names_that_would_lead_elsewhere_are_refused(store: Store, root: Path) -> None:
    source = root.name.removeprefix(".")
    before = files(root.parent)
    hostile = ["../../x", "..", "a/../../../x", "*", "-x", "x\0y", f"{CLAUDE}\n", "$(id)", ""]
    for number, native in enumerate(hostile):
        session = store.sessions.create(f"{source}:{number}", source=source, native_id=native, cwd="/w")
        store.append_message(session.id, "user", "hello")
        assert not can_fork_transcript(session)
        with pytest.raises(Refused):
            fork_transcript_path(store, session, 1)
    assert files(root.parent) == before


def test_a_link_that_leads_out_of_the_agent_s_folder_is_not_followed(store: Store, root: Path, tmp_path: Path) -> None:
    session = next(one for one, turn, _ in _pulled(store, root) if turn == 1)
    outside = tmp_path / "outside"
    outside.mkdir()
    shutil.rmtree(root / "projects", ignore_errors=True)
    shutil.rmtree(root / "sessions", ignore_errors=True)
    (root / ("projects" if root.name == ".claude" else "sessions")).symlink_to(outside)
    with pytest.raises(Refused, match="not inside"):
        fork_transcript_path(store, session, 1)
    assert list(outside.rglob("*")) == []


def test_nothing_is_left_where_nothing_can_be_written(
    store: Store, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = next(one for one, turn, _ in _pulled(store, root) if turn == 1)
    before = files(root)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Refused, match="No space left"):
        fork_transcript_path(store, session, 1)
    assert files(root) == before


def test_where_the_agent_never_was_nothing_is_made(store: Store, root: Path, tmp_path: Path) -> None:
    """As with sessions of a backup, or of another machine."""
    root.rename(tmp_path / "backup")
    session = next(one for one, turn, _ in _pulled(store, tmp_path / "backup") if turn == 1)
    with pytest.raises(Refused, match="There is no"):
        fork_transcript_path(store, session, 1)
    root.mkdir()
    path, child = fork_transcript(store, session, 1)
    assert path.is_relative_to(root)
    assert child.parent_id == session.id
    assert child.turns == 0


def test_a_fork_waits_for_another_sync_to_end(store: Store, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    session = next(one for one, turn, _ in _pulled(store, root) if turn == 1)
    with Path(f"{store.path}.sync").open("w") as lease:
        fcntl.flock(lease, fcntl.LOCK_EX)
        threading.Timer(0.3, fcntl.flock, (lease, fcntl.LOCK_UN)).start()
        assert fork_transcript(store, session, 1).session.parent_id == session.id
        fcntl.flock(lease, fcntl.LOCK_EX)
        monkeypatch.setattr("store.write_back.fork_transcript.SYNC_SECONDS", 0)
        with pytest.raises(Refused, match=r"was written to .*\.jsonl, and shows here with the next sync"):
            fork_transcript_path(store, session, 1)
    sync_paths(store, root)
    assert len([one for one in store.sessions.children(session.id) if one.relation == "fork"]) >= 2


def test_other_agents_keep_their_forks_here(store: Store) -> None:
    session = store.create_session("a")
    store.append_message("a", "user", "hello")
    assert not can_fork_transcript(session)
    with pytest.raises(Refused, match="in Backscroll"):
        fork_transcript_path(store, session, 1)


# ── our own forks of foreign sessions ─────────────────────────────────────────────────────────────


def test_a_fork_of_ours_survives_whatever_becomes_of_its_parent(store: Store, claude: Path) -> None:
    """It grows, is rewound, told as a branch, and purged; each time it is read anew."""
    sync_paths(store, claude)
    session = store.sessions.get(f"claude:{CLAUDE}")
    child = fork_session(store, session, store.chains.last_turn(session.key), prompt=NEW)
    whole = fork_session(store, session, store.chains.last_turn(session.key))
    told = prompts(store, child), prompts(store, whole)
    path = claude / "projects/-w-app" / f"{CLAUDE}.jsonl"
    kept = path.read_bytes()
    uuid = [line["uuid"] for line in lines(path) if line.get("uuid")][-1]
    spoken = {"type": "user", "message": {"role": "user", "content": "more"}, "timestamp": "2026-05-09T10:00:00Z"}
    more = json.dumps({"parentUuid": uuid, "uuid": "n1", "sessionId": CLAUDE, **spoken}).encode() + b"\n"
    for data in (kept + more, kept[: len(kept) // 3].rpartition(b"\n")[0] + b"\n", kept, kept + more):
        path.write_bytes(data)
        sync_paths(store, claude)
        sync_paths(store, claude)
        assert (prompts(store, child), prompts(store, whole)) == told
        assert [one.parent_id for one in map(store.sessions.by_key, (child.key, whole.key))] == [session.id] * 2
        assert store.row("pragma foreign_key_check") is None
    assert {child.id, whole.id} <= {one.id for one in store.sessions.children(session.id)}
    store.sessions.purge([store.sessions.get(session.id)], vacuum=False)
    assert (prompts(store, child), prompts(store, whole)) == told
    assert store.search.find(f'"{NEW}"')[1] == 1


# ── Claude Code ───────────────────────────────────────────────────────────────────────────────────


def say(path: Path, *values: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.writelines(json.dumps(value, separators=(",", ":")) + "\n" for value in values)


def spoken(uuid: str, parent: str | None, content: Any, *, role: str = "user", **more: Any) -> dict[str, Any]:
    head = {"parentUuid": parent, "isSidechain": False, "type": role, "uuid": uuid, "sessionId": "s", "cwd": "/w/x"}
    message = {"role": role, "content": content, **({"id": uuid} if role == "assistant" else {})}
    return {**head, "message": message, "timestamp": f"2026-05-01T10:00:{len(uuid):02}.000Z", **more}


def using(*calls: str) -> list[dict[str, Any]]:
    return [{"type": "tool_use", "id": call, "name": "Bash", "input": {"command": call}} for call in calls]


def giving(call: str, content: Any = "done") -> list[dict[str, Any]]:
    return [{"type": "tool_result", "tool_use_id": call, "content": content}]


@pytest.fixture
def talk(home: Path) -> Path:
    """A prompt with a picture, calls side by side, one of them open, a stray result, progress and a compaction."""
    path = home / ".claude/projects/-w-x/d1000000-0000-4000-8000-000000000001.jsonl"
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
    say(
        path,
        spoken("u1", None, [{"type": "text", "text": "Look at this"}, picture]),
        spoken("a1", "u1", using("c1", "c2"), role="assistant"),
        {"type": "progress", "uuid": "p1", "parentUuid": "a1", "sessionId": "s", "data": {"type": "hook"}},
        spoken("r1", "p1", giving("c1")),
        spoken("r0", "r1", giving("stray")),
        spoken("k1", "a1", "never mind", isSidechain=True),
        spoken("u2", "r0", "Go on"),
        spoken("a2", "u2", [{"type": "text", "text": "Yes."}], role="assistant"),
        {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "b1",
            "parentUuid": None,
            "logicalParentUuid": "a2",
            "sessionId": "s",
        },
        spoken("u3", "b1", "So far so good", isCompactSummary=True),
        spoken("u4", "u3", "And now?"),
        {"type": "content-replacement", "sessionId": "s", "replacements": [{"id": "x"}]},
    )
    return path


def pulled(store: Store, path: Path) -> Session:
    sync_paths(store, path.parents[2])
    return store.sessions.get(f"claude:{path.stem}")


def test_a_fork_is_a_straight_chain_of_new_ids_that_say_whose_copies_they_are(store: Store, talk: Path) -> None:
    session = pulled(store, talk)
    path, child = fork_transcript(store, session, 3)
    assert path.parent == talk.parent
    told = lines(path)
    chained = {line["uuid"]: line for line in told if "uuid" in line}
    assert not chained.keys() & {line.get("uuid") for line in lines(talk)}
    assert {line["sessionId"] for line in told} == {child.native_id}
    known: set[str | None] = {None}
    for line in chained.values():
        assert line["parentUuid"] in known
        known.add(line["uuid"])
    origins = [line["forkedFrom"]["messageUuid"] for line in chained.values() if "forkedFrom" in line]
    assert origins == ["u1", "a1", "r1", "u2", "a2", "b1", "u3", "u4"]
    (boundary,) = [line for line in told if line.get("subtype") == "compact_boundary"]
    assert chained[boundary["logicalParentUuid"]]["forkedFrom"]["messageUuid"] == "a2"
    assert boundary["parentUuid"] is None
    assert [line["type"] for line in told[-2:]] == ["content-replacement", "custom-title"]
    assert told[-1]["customTitle"] == "Look at this (fork)"


def test_open_calls_are_answered_before_the_person_speaks_again(store: Store, talk: Path) -> None:
    session = pulled(store, talk)
    for turn in (1, 2):
        path, child = fork_transcript(store, session, turn)
        assert statuses(store, child) == {"c1": "ok", "c2": "error"}
        assert results(store, child) == ["done", INTERRUPTED_RESULT]
        told = [line for line in lines(path) if "uuid" in line]
        (closing,) = [at for at, line in enumerate(told) if INTERRUPTED_RESULT in json.dumps(line)]
        assert "forkedFrom" not in told[closing]
        assert [line["parentUuid"] for line in told[closing + 1 :][:1]] == [told[closing]["uuid"]] * (turn - 1)
    assert statuses(store, session)["c2"] == "pending"


def test_another_prompt_keeps_the_picture_and_is_the_fork_s_own(store: Store, talk: Path) -> None:
    path, child = fork_transcript(store, pulled(store, talk), 1, prompt="Look at that")
    (told, title) = lines(path)
    assert told["message"]["content"][0] == {"type": "text", "text": "Look at that"}
    assert told["message"]["content"][1]["type"] == "image"
    assert (told["cwd"], told["parentUuid"]) == ("/w/x", None)
    assert (child.turns, child.parent_id) == (1, f"claude:{talk.stem}")
    assert title["forkedFrom"]["sessionId"] == talk.stem


def test_what_nobody_sat_before_is_listed_once_somebody_forks_it(store: Store, home: Path) -> None:
    path = home / ".claude/projects/-w-x/d1000000-0000-4000-8000-000000000001.jsonl"
    alone = {"entrypoint": "sdk-cli"}
    say(path, spoken("u1", None, "Hello", **alone), spoken("a1", "u1", "Hi.", role="assistant", **alone))
    told = lines(fork_transcript_path(store, pulled(store, path), 1))
    assert [line.get("entrypoint") for line in told] == ["cli", "cli", None]


def test_outputs_kept_beside_the_original_go_with_the_fork(store: Store, home: Path) -> None:
    path = home / ".claude/projects/-w-x/d1000000-0000-4000-8000-000000000001.jsonl"
    kept = path.with_suffix("") / "tool-results/long.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("a very long output")
    (kept.parent / "link.txt").symlink_to("/etc/passwd")
    saved = f"<persisted-output>\nOutput too large. Full output saved to: {kept}\nPreview\n</persisted-output>"
    linked = saved.replace("long.txt", "link.txt")
    say(
        path,
        spoken("u1", None, "Run it"),
        spoken("a1", "u1", using("c1", "c2"), role="assistant"),
        spoken("r1", "a1", giving("c1", saved), toolUseResult={"persistedOutputPath": str(kept)}),
        spoken("r2", "r1", giving("c2", linked)),
    )
    made, child = fork_transcript(store, pulled(store, path), 1)
    copy = made.with_suffix("") / "tool-results/long.txt"
    assert copy.read_text() == "a very long output"
    assert results(store, child)[0] == "a very long output"
    assert str(kept) not in made.read_text()
    assert str(copy) in made.read_text()
    assert [path.name for path in copy.parent.iterdir()] == ["long.txt"]
    kept.unlink()
    assert str(kept) in fork_transcript(store, pulled(store, path), 1).path.read_text()


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
def test_where_the_original_is_gone_the_folder_is_told_by_that_of_the_session(
    store: Store, home: Path, cwd: str, folder: str | None
) -> None:
    projects = home / ".claude/projects"
    path = projects / "-w-x/d1000000-0000-4000-8000-000000000001.jsonl"
    say(path, spoken("u1", None, "Hello", cwd=cwd), spoken("a1", "u1", "Hi.", role="assistant", cwd=cwd))
    session = pulled(store, path)
    path.unlink()
    if folder is None:
        with pytest.raises(Refused, match="Claude Code would"):
            fork_transcript_path(store, session, 1)
        return
    assert fork_transcript_path(store, session, 1).parent == projects / folder


def test_a_sub_agent_s_conversation_is_no_session_of_its_own(store: Store, claude: Path) -> None:
    sync_paths(store, claude)
    agents = [one for one in store.sessions.newest(100) if one.relation in ("delegate", "sidechain")]
    assert agents
    assert not any(map(can_fork_transcript, agents))
