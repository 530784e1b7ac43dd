"""These tests check that an exported session is the same session after it is read into another store."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from documents.export_sample import add_export_session
from foreign_databases import sync_paths

from store.export.options import ExportOptions
from store.export.verification import verify_file
from store.export.writing import export_to_file
from store.model.entry import Json
from store.model.session import Session
from store.sources.backscroll.reader import BackscrollReader
from store.sources.kit.nested_sessions import NestedSession
from store.store import Store


@pytest.fixture
def other() -> Iterator[Store]:
    with Store.memory() as store:
        yield store


def describe(store: Store, session: Session) -> list[object]:
    """Return everything that two stores must agree on about a session."""
    entries = [entry._asdict() for entry in store.chains.entries(session.key)]
    for entry in entries:
        record = entry["record"]
        entry["record"] = None if record is None else store.records.get(record)
        for name in ("key", "session", "parent"):
            del entry[name]
    calls = [(call.call_id, call.status, call.turn) for call in store.chains.tool_calls(session.key)]
    notes = [(note.entry_seq, note.text, note.created_at) for note in store.notes.notes(session)]
    versions = [
        (one.text, one.up_to_turn, one.origin, one.current, one.created_at) for one in store.summaries.history(session)
    ]
    fields = (session.title, session.own_title, session.model, session.cwd, session.turns, session.tool_calls)
    times = (session.created_at, session.pinned, session.archived, session.tokens_total)
    return [fields, times, entries, calls, notes, versions, store.notes.tags(session)]


def test_it_is_the_same_session_in_another_store(store: Store, other: Store, tmp_path: Path) -> None:
    session = add_export_session(store)
    store.sessions.set_title(session, "A better title")
    store.summaries.set(session, "A second version.", up_to_turn=2)
    store.sessions.pin([session])
    store.secrets.set(session, "DOOR", "open sesame 42")
    session = store.sessions.get(session.id)
    path = tmp_path / "x.json"
    export_to_file(store, session, ExportOptions("json"), path)
    assert b"sesame" not in path.read_bytes()

    sync_paths(other, path)
    copy = other.sessions.get("shop-1")
    original, restored = describe(store, session), describe(other, copy)
    for before, after in zip(original[2], restored[2], strict=True):  # type: ignore[call-overload]
        if before["record"] is None:
            after["record"] = None  # an entry without a record is its own record
    assert restored == original
    assert [child.id for child in other.sessions.children(copy.id)] == ["shop-1/docs"]
    assert other.secrets.names(copy) == []
    assert [found.id for found in other.sessions.matching("tax")[0]] == ["shop-1"]


def test_a_second_sync_changes_nothing_and_keeps_later_edits(store: Store, other: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    export_to_file(store, add_export_session(store), ExportOptions("json"), path)
    sync_paths(other, path)
    session = other.sessions.get("shop-1")
    other.sessions.set_title(session, "Mine")
    other.notes.untag([session], ["billing"])
    path.write_bytes(path.read_bytes() + b"\n")
    sync_paths(other, path)
    session = other.sessions.get("shop-1")
    assert (session.title, other.notes.tags(session), len(other.notes.notes(session))) == ("Mine", [], 2)
    assert [child.relation for child in other.sessions.children(session.id)] == ["delegate"]


def test_an_excerpt_is_another_session(store: Store, other: Store, tmp_path: Path) -> None:
    session = add_export_session(store)
    export_to_file(store, session, ExportOptions("json", turns=(2, 2), tools=False), tmp_path / "x.json")
    sync_paths(other, tmp_path / "x.json")
    (copy,) = other.sessions.newest()
    assert copy.id.startswith("backscroll:shop-1~")
    assert (copy.turns, copy.tool_calls) == (1, 0)


@pytest.mark.parametrize(
    "change",
    [
        {"entries": [7, None, {"parts": [1, {"type": "text", "text": 5}, {"type": "tool_call"}], "tokens": "x"}]},
        {"entries": [{"kind": "header", "seq": 5}, {"record": {"base64": "%"}}, {"record": 99}, {"record": []}]},
        {"kept": {"tags": [1, ""], "notes": [1, {"text": "x", "entry_seq": 999}], "summaries": [{"text": 1}]}},
        {"kept": {"summaries": [{"text": "a", "current": True, "up_to_turn": 9**9}, {"text": "b", "current": True}]}},
        {"session": {"id": "x", "tokens_total": -1, "cost": "much", "cwd": 7, "created_at": "noon"}},
        {"sub_agents": [{"session": {"id": "shop-1"}}, {"session": 7}, 7]},
        {"session": []},
    ],
    ids=str,
)
def test_a_file_that_anyone_wrote_does_no_harm(
    store: Store, other: Store, tmp_path: Path, change: dict[str, object]
) -> None:
    path = tmp_path / "x.json"
    export_to_file(store, add_export_session(store), ExportOptions("json"), path)
    path.write_text(json.dumps(json.loads(path.read_bytes()) | change, separators=(",", ":")))
    sync_paths(other, path)
    assert other.sessions.newest()


def test_only_the_first_of_several_headers_is_one(store: Store, other: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    export_to_file(store, add_export_session(store), ExportOptions("json"), path)
    value = json.loads(path.read_bytes())
    value["entries"] = [{"kind": "header", "seq": -1, "text": text} for text in ("first", "second")] + value["entries"]
    path.write_text(json.dumps(value, separators=(",", ":")))
    assert sync_paths(other, path).problems == []
    (session,) = [session for session in other.sessions.newest() if session.parent_id is None]
    kinds = {entry.text: entry.kind for entry in other.chains.entries(session.key)}
    assert (kinds["first"], kinds["second"]) == ("header", "unknown")


def test_only_tags_that_a_person_could_have_added_are_restored(store: Store, other: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    export_to_file(store, add_export_session(store), ExportOptions("json"), path)
    value = json.loads(path.read_bytes())
    value["kept"]["tags"] = ["\x00", " kept ", "line\u2028break", "", "x" * 100_000, "ci"]
    path.write_text(json.dumps(value, separators=(",", ":")))
    sync_paths(other, path)
    (session,) = [session for session in other.sessions.newest() if session.parent_id is None]
    assert other.notes.tags(session) == ["ci", "kept"]


def test_the_sessions_of_a_file_are_listed_once_however_many_they_are(
    other: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed: list[Path] = []
    list_sessions = BackscrollReader.list_sessions

    def count_and_list(self: BackscrollReader, path: Path, value: Mapping[str, Json]) -> Iterator[NestedSession]:
        listed.append(path)
        return list_sessions(self, path, value)

    monkeypatch.setattr(BackscrollReader, "list_sessions", count_and_list)
    inner = [{"session": {"id": f"claude:{n}"}, "entries": []} for n in range(20)]
    value = {"backscroll_export": 1, "session": {"id": "claude:x"}, "is_excerpt": False, "entries": []}
    (tmp_path / "x.json").write_text(json.dumps(value | {"sub_agents": inner}, separators=(",", ":")))
    assert sync_paths(other, tmp_path / "x.json").new == 21
    assert len(listed) <= 3


def test_a_newer_format_is_a_problem(store: Store, other: Store, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    export_to_file(store, add_export_session(store), ExportOptions("json"), path)
    path.write_text(path.read_text().replace('{"backscroll_export":1,', '{"backscroll_export":2,', 1))
    sync_paths(other, path)
    assert other.sessions.newest() == []


def export_claude_session(store: Store, home: Path, path: Path) -> Path:
    """Sync a session of Claude Code, and export it. Return its transcript."""
    transcript = home / ".claude/projects/-p/11111111-1111-4111-8111-111111111111.jsonl"
    line = {"type": "user", "uuid": "a", "sessionId": transcript.stem, "timestamp": "2026-01-01T00:00:00Z"}
    transcript.parent.mkdir(parents=True)
    transcript.write_text(json.dumps(line | {"message": {"role": "user", "content": "Hello"}}) + "\n")
    sync_paths(store, home / ".claude/projects")
    export_to_file(store, store.sessions.newest()[0], ExportOptions("json"), path)
    return transcript


def test_the_session_of_an_agent_keeps_its_id_and_is_a_true_excerpt(
    store: Store, other: Store, home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    export_claude_session(store, home, path)
    sync_paths(other, path)
    (copy,) = other.sessions.newest()
    assert (copy.id, copy.source) == (store.sessions.newest()[0].id, "backscroll")
    assert verify_file(other, path).comparison in ("same", "heading")
    sync_paths(other, path)
    assert len(other.sessions.newest()) == 1


def test_the_agents_own_session_has_its_id_whichever_comes_first(
    store: Store, other: Store, home: Path, tmp_path: Path
) -> None:
    path = tmp_path / "x.json"
    export_claude_session(store, home, path)
    own_id = store.sessions.newest()[0].id
    for sources in ([path, home / ".claude/projects"], [home / ".claude/projects", path]):
        with Store.memory() as third:
            for source in sources:
                sync_paths(third, source)
            sync_paths(third, path)
            found = {session.id: session.source for session in third.sessions.newest()}
            assert found == {own_id: "claude", f"backscroll:{own_id}": "backscroll"}
