"""This module tests transcripts that grow between syncs.

Only the new lines are read, and the result is the same as if the file had been read in one sync. A file that changed in
any other place is read again from its beginning.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import zstandard
from foreign_databases import stored_texts, sync_paths

from store.sources.claude_code.reader import ClaudeReader
from store.sources.codex.reader import CodexReader
from store.sources.contract import SourceReader
from store.sources.gemini.reader import GeminiReader
from store.sources.goose.reader import GooseReader
from store.sources.kit import jsonl
from store.sources.kit.record_tree import RecordTreeReader
from store.store import Store
from store.sync import commit_timer, engine, refresh
from store.sync.targets import find_targets
from store.text.validate import parse_bytes

DATA = Path(__file__).parents[1] / "data"
PATHS = {
    "claude": "projects/-w-app/c1000000-0000-4000-8000-000000000001.jsonl",
    "codex": "sessions/2026/05/03/rollout-2026-05-03T10-00-00-0a000000-0000-7000-8000-000000000002.jsonl",
    "pi": "agent/sessions/--w-app--/2026-05-01T10-00-00-000Z_aaaa0000-0000-4000-8000-000000000001.jsonl",
    "qwen": "projects/-w-app/chats/aaaa5555-0000-4000-8000-000000000001.jsonl",
    "copilot": "session-state/aaaa7777-0000-4000-8000-000000000001/events.jsonl",
    "gemini": "tmp/app/chats/session-2026-05-01T10-00-aaaa1111.jsonl",
    "goose-lines": "20250401_101500.jsonl",
}
NAMES = {kind: path.removesuffix("/events.jsonl").removesuffix(".jsonl")[-36:] for kind, path in PATHS.items()} | {
    "gemini": "aaaa1111-0000-4000-8000-000000000001",
    "goose-lines": "20250401_101500",
}
READERS: dict[str, type[SourceReader]] = {
    "claude": ClaudeReader,
    "codex": CodexReader,
    "pi": RecordTreeReader,
    "qwen": RecordTreeReader,
    "copilot": RecordTreeReader,
    "gemini": GeminiReader,
    "goose-lines": GooseReader,
}
TIME = "2036-01-01T00:00:00.000Z"


class Growing:
    """Appends to one transcript in a copy of an agent's sample."""

    def __init__(self, kind: str, root: Path) -> None:
        self.kind = kind
        self.root = Path(shutil.copytree(DATA / kind, root / kind))
        # This thread continues the one that grows, and would be read again with it.
        shutil.rmtree(self.root / "sessions/2026/05/04", ignore_errors=True)
        self.path = self.root / PATHS[kind]
        self.native_id = NAMES[kind]
        self.reader_class = READERS[kind]

    def say(self, words: str) -> None:
        """Append a prompt as the agent would."""
        with self.path.open("a") as file:
            file.write(json.dumps(self._make_prompt(words)) + "\n")

    def _make_prompt(self, words: str) -> dict[str, Any]:
        message = {"role": "user", "content": [{"type": "text", "text": words}]}
        match self.kind:
            case "claude":
                return {"type": "user", "parentUuid": self._last_id("uuid"), "uuid": words, "message": message} | {
                    "timestamp": TIME
                }
            case "codex":
                item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": words}]}
                return {"type": "response_item", "payload": item, "timestamp": TIME}
            case "pi":
                return {"type": "message", "id": words, "parentId": self._last_id("id"), "timestamp": TIME} | {
                    "message": message
                }
            case "qwen":
                return {"uuid": words, "parentUuid": self._last_id("uuid"), "type": "user", "timestamp": TIME} | {
                    "message": {"role": "user", "parts": [{"text": words}]}
                }
            case "copilot":
                return {"type": "user.message", "id": words, "timestamp": TIME, "data": {"content": words}}
            case "gemini":
                return {"id": words, "timestamp": TIME, "type": "user", "content": words}
        return message | {"created": 2_082_758_400}

    def _last_id(self, name: str) -> str | None:
        lines = [line for line in self.path.read_text(errors="replace").splitlines() if line.startswith("{")]
        ids = [json.loads(line).get(name) for line in lines]
        return next((identifier for identifier in reversed(ids) if identifier), None)


@pytest.fixture(params=PATHS)
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


@pytest.mark.parametrize("kind", PATHS)
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


def test_only_the_new_bytes_are_parsed(grown: Growing, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    targets = find_targets([str(grown.root)])
    old_lines = grown.path.read_bytes().splitlines()
    grown.say("first")
    grown.say("second")
    parsed: set[bytes] = set()

    def parse_and_remember(data: bytes) -> Any:
        parsed.add(data.strip())
        return parse_bytes(data)

    monkeypatch.setattr(jsonl, "parse_json", parse_and_remember)
    monkeypatch.setattr(jsonl, "parse_bytes", parse_and_remember)
    (*_, last) = refresh.sync_targets(store, targets)
    assert last.report.updated == 1
    assert parsed.issuperset(grown.path.read_bytes().splitlines()[-2:])
    # The first lines say which session it is.
    assert not parsed.intersection(old_lines[3:])


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
        for child in store.sessions.children(store.sessions.find(growing.native_id).id)
        if child.relation == "superseded"
    ]
    assert stored_texts(store, old.id)[-1] == "one more"


def test_a_mark_with_a_digest_of_an_older_version_leads_to_a_complete_read(
    growing: Growing, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing.say("one more")
    with monkeypatch.context() as older_version:
        older_version.setattr(
            jsonl.FileMark, "from_file", lambda path, end, _: jsonl.FileMark(str(path), end, "ab" * 12)
        )
        sync_paths(store, growing.root)
    before, sessions = stored_texts(store, growing.native_id), len(store.sessions.newest(1000))
    growing.say("after that")
    report = sync_paths(store, growing.root)
    assert (report.new, report.problems, len(store.sessions.newest(1000))) == (0, [], sessions)
    assert stored_texts(store, growing.native_id) == [*before, "after that"]


@pytest.mark.parametrize("growing", ["claude", "codex", "pi"], indirect=True)
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


@pytest.mark.parametrize("kind", ["claude", "pi", "qwen", "gemini", "copilot"])
def test_other_sessions_in_a_growing_file_are_not_read(
    kind: str, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing = Growing(kind, tmp_path)
    sync_paths(store, growing.root)
    monkeypatch.setattr(growing.reader_class, "read", refuse)

    def list_others() -> list[Any]:
        sessions = store.sessions.newest(1000)
        return [session._replace(expires_at="") for session in sessions if f"{growing.native_id}/" in session.native_id]

    others = list_others()
    assert others
    for words in ("first", "second"):
        growing.say(words)
        assert sync_paths(store, growing.root).updated == 1
    assert list_others() == others


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


def test_a_session_that_was_rewound_to_its_beginning_is_called_after_its_new_prompt(
    tmp_path: Path, store: Store
) -> None:
    conversation = Rewinding(tmp_path, store)
    conversation.ask("one", None)
    conversation.ask("uno", None)
    assert {session.native_id[36:]: session.title for session in store.list_sessions()} == {"": "uno", "/one": "one"}


def test_a_branch_with_a_note_stays(rewinding: Rewinding, store: Store) -> None:
    fork = store.sessions.get(f"claude:{NAMES['claude']}/two")
    store.notes.add_note(fork, "Remember this.")
    rewinding.ask("four", "a-two")
    assert store.sessions.get(fork.id).gone
