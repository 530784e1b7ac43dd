"""This module tests transcripts that grow between syncs.

Only the new lines are read, and the result is the same as if the file had been read in one sync. A file that changed in
any other place is read again from its beginning.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import zstandard
from foreign_databases import stored_texts, sync_paths

from store.sources.claude_code.reader import ClaudeReader
from store.sources.codex.reader import CodexReader
from store.store import Store
from store.sync import commit_timer, engine

DATA = Path(__file__).parents[1] / "data"
CLAUDE = "projects/-w-app/c1000000-0000-4000-8000-000000000001.jsonl"
CODEX = "sessions/2026/05/03/rollout-2026-05-03T10-00-00-0a000000-0000-7000-8000-000000000002.jsonl"
NAMES = {"claude": CLAUDE[-42:-6], "codex": CODEX[-42:-6]}


class Growing:
    """Appends to one transcript in a copy of an agent's sample."""

    def __init__(self, kind: str, root: Path) -> None:
        self.kind = kind
        self.root = Path(shutil.copytree(DATA / kind, root / kind))
        # This thread continues the one that grows, and would be read again with it.
        shutil.rmtree(self.root / "sessions/2026/05/04", ignore_errors=True)
        self.path = self.root / {"claude": CLAUDE, "codex": CODEX}[kind]
        self.native_id = NAMES[kind]
        self.reader_class = {"claude": ClaudeReader, "codex": CodexReader}[kind]

    def say(self, words: str) -> None:
        """Append a prompt as the agent would."""
        uuids = re.findall(r'"uuid": ?"([^"]+)"', self.path.read_text(errors="replace"))
        content = [{"type": "text" if self.kind == "claude" else "input_text", "text": words}]
        message = {"role": "user", "content": content}
        timestamp = "2036-01-01T00:00:00.000Z"
        claude = {
            "type": "user",
            "parentUuid": uuids[-1] if uuids else None,
            "uuid": words,
            "message": message,
            "timestamp": timestamp,
        }
        codex = {"type": "response_item", "payload": {"type": "message", **message}, "timestamp": timestamp}
        with self.path.open("a") as file:
            file.write(json.dumps(claude if self.kind == "claude" else codex) + "\n")


@pytest.fixture(params=["claude", "codex"])
def growing(request: pytest.FixtureRequest, tmp_path: Path) -> Growing:
    return Growing(request.param, tmp_path)


@pytest.fixture
def grown(growing: Growing, store: Store, monkeypatch: pytest.MonkeyPatch) -> Growing:
    """Sync a transcript once, then make each reading from the beginning fail."""
    growing.say("one more")
    assert sync_paths(store, growing.root).problems == []
    monkeypatch.setattr(growing.reader_class, "read", refuse)
    return growing


def refuse(*_: object) -> NoReturn:
    raise AssertionError("It was read from the beginning.")


def load_sessions(store: Store, growing: Growing) -> dict[str, Any]:
    """Return what the store has of the sessions in the file, without its own keys."""
    sessions: dict[str, Any] = {}
    for session in store.sessions.newest(1000):
        if session.native_id.startswith(growing.native_id) and "agent-" not in session.native_id:
            chain = store.chains.entries(session.key, first=0)
            entries = [entry._replace(key=0, session=0, parent=0, record=0) for entry in chain]
            calls = [(call.call_id, call.status, call.duration_ms) for call in store.chains.tool_calls(session.key)]
            turns = [(turn.n, turn.prompt, turn.started_at, turn.ended_at) for turn in store.chains.turns(session.key)]
            sessions[session.id] = (session._replace(key=0, head=0, tail=0), entries, calls, turns)
    return sessions


@pytest.mark.parametrize("kind", ["claude", "codex"])
@pytest.mark.parametrize("step", [1, 4])
def test_following_line_by_line_equals_one_complete_read(kind: str, step: int, tmp_path: Path) -> None:
    growing = Growing(kind, tmp_path)
    lines = growing.path.read_bytes().splitlines(keepends=True)
    with Store.open(tmp_path / "followed.db") as followed, Store.open(tmp_path / "complete.db") as complete:
        for end in range(step, len(lines) + step, step):
            growing.path.write_bytes(b"".join(lines[:end]))
            assert sync_paths(followed, growing.root).problems == []
        sync_paths(complete, growing.root)
        assert load_sessions(followed, growing) == load_sessions(complete, growing)


def test_only_what_is_new_is_read(grown: Growing, store: Store) -> None:
    before = stored_texts(store, grown.native_id)
    for words in ("first", "second"):
        grown.say(words)
        report = sync_paths(store, grown.root)
        assert (report.new, report.updated, report.problems) == (0, 1, [])
    assert stored_texts(store, grown.native_id) == [*before, "first", "second"]
    changes = store.connection.total_changes
    sync_paths(store, grown.root)
    assert store.connection.total_changes == changes


def test_an_incomplete_line_is_read_when_it_is_complete(grown: Growing, store: Store) -> None:
    before = grown.path.read_bytes()
    grown.say("in two halves")
    complete = grown.path.read_bytes()
    grown.path.write_bytes(complete[: len(before) + 20])
    assert sync_paths(store, grown.root).problems == []
    assert store.search.find("halves")[1] == 0
    grown.path.write_bytes(complete)
    sync_paths(store, grown.root)
    assert stored_texts(store, grown.native_id)[-2:] == ["one more", "in two halves"]


def test_a_problem_is_reported_as_long_as_it_exists(growing: Growing, store: Store) -> None:
    with growing.path.open("ab") as file:
        file.write(b"\xff\x00rubbish\n")
    growing.say("one more")
    problems = sync_paths(store, growing.root).problems
    assert len(problems) == 1
    growing.say("and another")
    assert sync_paths(store, growing.root).problems == problems
    assert stored_texts(store, growing.native_id)[-1] == "and another"


def _rewrite(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"one more", b"two more"))


def _truncate(path: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


@pytest.mark.parametrize("change", [_rewrite, _truncate])
def test_a_file_that_was_rewritten_or_truncated_is_read_again(
    growing: Growing, store: Store, change: Callable[[Path], None]
) -> None:
    growing.say("one more")
    sync_paths(store, growing.root)
    change(growing.path)
    growing.say("after that")
    sync_paths(store, growing.root)
    texts = stored_texts(store, growing.native_id)
    assert ("one more" in texts, texts[-1]) == (False, "after that")
    (old,) = [
        child
        for child in store.sessions.children(f"{growing.kind}:{growing.native_id}")
        if child.relation == "superseded"
    ]
    assert stored_texts(store, old.id)[-1] == "one more"


def test_a_file_that_moved_stays_one_session(growing: Growing, store: Store) -> None:
    sync_paths(store, growing.root)
    moved = growing.path.parent.parent / "elsewhere" / growing.path.name
    moved.parent.mkdir()
    growing.path = growing.path.rename(moved)
    growing.say("over here")
    report = sync_paths(store, growing.root)
    assert (report.new, report.problems) == (0, [])
    assert stored_texts(store, growing.native_id)[-1] == "over here"
    assert not store.sessions.get(f"{growing.kind}:{growing.native_id}").gone


def test_a_rollout_that_is_compressed_stays_one_session(tmp_path: Path, store: Store) -> None:
    growing = Growing("codex", tmp_path)
    growing.say("before it was compressed")
    sync_paths(store, growing.root)
    plain, compressed = growing.path, growing.path.with_name(f"{growing.path.name}.zst")
    compressed.write_bytes(zstandard.ZstdCompressor().compress(plain.read_bytes()))
    before = load_sessions(store, growing)
    for _ in range(2):  # first both files exist, then only the compressed one
        report = sync_paths(store, growing.root)
        assert (report.new, report.problems) == (0, [])
        assert load_sessions(store, growing) == before
        plain.unlink(missing_ok=True)


def test_an_interrupted_sync_imports_nothing_twice(
    growing: Growing, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing.say("one more")
    sync_paths(store, growing.root)
    before = stored_texts(store, growing.native_id)
    growing.say("first")
    growing.say("second")

    def stop(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    # Stop after the entries are written, and before the mark is.
    monkeypatch.setattr(engine._TargetImport, "_finish", stop)
    monkeypatch.setattr(commit_timer, "COMMIT_SECONDS", 0)
    with pytest.raises(KeyboardInterrupt):
        sync_paths(store, growing.root)
    monkeypatch.undo()
    sync_paths(store, growing.root)
    assert stored_texts(store, growing.native_id) == [*before, "first", "second"]


def test_other_sessions_in_a_growing_file_are_not_read(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = Growing("claude", tmp_path)
    sync_paths(store, growing.root)
    monkeypatch.setattr(growing.reader_class, "read", refuse)
    fork = store.sessions.get(f"claude:{growing.native_id}/u2")
    for words in ("first", "second"):
        growing.say(words)
        assert sync_paths(store, growing.root).updated == 1
    assert store.sessions.get(fork.id)._replace(expires_at="") == fork._replace(expires_at="")


# ── rewinds ───────────────────────────────────────────────────────────────────────────────────────


class Rewinding:
    """Writes a conversation with Claude Code in which a person rewinds, and syncs it."""

    def __init__(self, root: Path, store: Store) -> None:
        self.path = root / f"{NAMES['claude']}.jsonl"
        self.store = store

    def ask(self, words: str, after: str | None) -> None:
        common = {"sessionId": NAMES["claude"], "timestamp": "2026-05-01T10:00:00.000Z"}
        question = {"parentUuid": after, "type": "user", "uuid": words, "message": {"content": words}}
        reply = {"id": f"m-{words}", "content": [{"type": "text", "text": f"answered {words}"}]}
        answer = {"parentUuid": words, "type": "assistant", "uuid": f"a-{words}", "message": reply}
        with self.path.open("a") as file:
            file.writelines(json.dumps(line | common, separators=(",", ":")) + "\n" for line in (question, answer))
        assert sync_paths(self.store, self.path).problems == []

    def sessions(self) -> dict[str, list[str]]:
        return {
            session.native_id.removeprefix(NAMES["claude"]): [
                text for text in stored_texts(self.store, session.id) if text
            ]
            for session in self.store.list_sessions()
        }

    def hits(self, words: str) -> int:
        return self.store.search.find(words)[1]


@pytest.fixture
def rewinding(tmp_path: Path, store: Store) -> Rewinding:
    conversation = Rewinding(tmp_path, store)
    conversation.ask("one", None)
    conversation.ask("two", "a-one")
    conversation.ask("three", "a-one")
    return conversation


def test_the_branch_that_a_rewind_left_is_stored_once(rewinding: Rewinding) -> None:
    shared = ["one", "answered one"]
    assert rewinding.sessions() == {
        "": [*shared, "three", "answered three"],
        "/two": [*shared, "two", "answered two"],
    }
    assert [rewinding.hits(words) for words in ("one", "two", "three")] == [2, 2, 2]


def test_a_branch_that_continues_becomes_the_main_session(rewinding: Rewinding) -> None:
    rewinding.ask("four", "a-two")
    shared = ["one", "answered one"]
    assert rewinding.sessions() == {
        "": [*shared, "two", "answered two", "four", "answered four"],
        "/three": [*shared, "three", "answered three"],
    }
    assert [rewinding.hits(words) for words in ("one", "two", "three", "four")] == [2, 2, 2, 2]
    rewinding.ask("five", "a-three")
    assert rewinding.sessions()["/two"][-1] == "answered four"
    assert [rewinding.hits(words) for words in ("two", "three", "four", "five")] == [2, 2, 2, 2]


def test_a_branch_with_a_note_stays(rewinding: Rewinding, store: Store) -> None:
    fork = store.sessions.get(f"claude:{NAMES['claude']}/two")
    store.notes.add_note(fork, "Remember this.")
    rewinding.ask("four", "a-two")
    assert store.sessions.get(fork.id).gone
