"""This module tests which stores are found in what a person names: folders in which several agents' files are mixed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from command_line import CommandLine
from crush_database import CrushStore, text_content
from foreign_databases import RUBICHAN_SCHEMA, add_rubichan_session, make_database, stored_texts
from opencode_store import OpencodeFiles, OpencodeStore, assistant_message, finished_text_part, text_part, user_message

from store import probes
from store.errors import Unreadable
from store.store import Store
from store.sync import named_paths
from store.sync.refresh import sync_targets
from store.sync.targets import find_named_stores, find_targets

AT = "2026-05-01T10:00:0{}.000Z"
CLAUDE_ID, OTHER_CLAUDE_ID = "c1000000-0000-4000-8000-000000000001", "c1000000-0000-4000-8000-000000000002"
CODEX_ID, OTHER_CODEX_ID = "0a000000-0000-7000-8000-000000000001", "0a000000-0000-7000-8000-000000000002"
PI_ID = "aaaa0000-0000-4000-8000-000000000001"
GEMINI_ID = "aaaa1111-0000-4000-8000-000000000001"
QWEN_ID = "aaaa5555-0000-4000-8000-000000000001"


def write_lines(path: Path, lines: Iterable[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_claude(path: Path, session: str = CLAUDE_ID) -> Path:
    common = {"sessionId": session, "cwd": "/w", "version": "2.1.197", "isSidechain": False}
    answer = {"role": "assistant", "model": "claude-x", "content": [{"type": "text", "text": "claude answers"}]}
    prompt = {"role": "user", "content": "claude is asked"}
    return write_lines(
        path,
        [
            {"type": "user", "uuid": "u1", "parentUuid": None, "timestamp": AT.format(1), "message": prompt, **common},
            {"type": "assistant", "uuid": "u2", "parentUuid": "u1", "timestamp": AT.format(2), "message": answer}
            | common,
        ],
    )


def write_codex(folder: Path, thread: str = CODEX_ID, name: str = "") -> Path:
    meta = {"id": thread, "timestamp": AT.format(0), "cwd": "/w", "originator": "codex_cli_rs", "cli_version": "0.50.0"}
    prompt = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "codex is asked"}]}
    return write_lines(
        folder / (name or f"rollout-2026-05-01T10-00-00-{thread}.jsonl"),
        [
            {"timestamp": AT.format(0), "type": "session_meta", "payload": meta},
            {"timestamp": AT.format(1), "type": "response_item", "payload": prompt},
        ],
    )


def write_pi(path: Path) -> Path:
    message = {"role": "user", "content": [{"type": "text", "text": "pi is asked"}]}
    return write_lines(
        path,
        [
            {"type": "session", "version": 3, "id": PI_ID, "timestamp": AT.format(0), "cwd": "/w"},
            {"type": "message", "id": "e1", "parentId": None, "timestamp": AT.format(1), "message": message},
        ],
    )


def write_gemini(path: Path) -> Path:
    return write_lines(
        path,
        [
            {"sessionId": GEMINI_ID, "projectHash": "0" * 64, "startTime": AT.format(0), "lastUpdated": AT.format(0)},
            {"id": "m1", "timestamp": AT.format(1), "type": "user", "content": [{"text": "gemini is asked"}]},
        ],
    )


def write_qwen(path: Path) -> Path:
    message = {"role": "user", "parts": [{"text": "qwen is asked"}]}
    record = {"uuid": "q1", "parentUuid": None, "sessionId": QWEN_ID, "timestamp": AT.format(1), "type": "user"}
    return write_lines(path, [{**record, "cwd": "/w", "version": "0.15.10", "message": message}])


def sync_all(store: Store, *paths: Path) -> dict[tuple[str, str], int]:
    """Sync, and return how many sessions each target has. A second sync must find nothing new, and none twice."""
    targets = find_targets([str(path) for path in paths])
    reports = {}
    for progress in sync_targets(store, targets):
        reports[progress.report.source, progress.report.locator] = progress.report
    assert all(report.problems == [] for report in reports.values())
    assert all(report.new == report.seen for report in reports.values())
    for progress in sync_targets(store, find_targets([str(path) for path in paths])):
        assert progress.report.new == progress.report.updated == 0
    return {target: report.seen for target, report in reports.items()}


def native_ids(store: Store) -> set[str]:
    return {session.native_id for session in store.sessions.newest(100)}


# ── several agents in one folder ──────────────────────────────────────────────────────────────────


def test_transcripts_of_two_agents_side_by_side_are_both_read(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    write_claude(folder / f"{CLAUDE_ID}.jsonl")
    write_claude(folder / f"{OTHER_CLAUDE_ID}.jsonl", OTHER_CLAUDE_ID)
    write_codex(folder)
    assert sync_all(store, folder) == {("claude", str(folder)): 2, ("codex", str(folder)): 1}
    assert native_ids(store) == {CLAUDE_ID, OTHER_CLAUDE_ID, CODEX_ID}


def test_every_agent_reads_its_own_files_of_a_mixed_folder(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    write_codex(folder)
    write_pi(folder / "pi.jsonl")
    write_gemini(folder / "session-2026.jsonl")
    write_qwen(folder / f"{QWEN_ID}.jsonl")
    assert {name for name, _ in sync_all(store, folder)} == {"codex", "pi", "gemini", "qwen"}
    assert native_ids(store) == {CODEX_ID, PI_ID, GEMINI_ID, QWEN_ID}


def test_folders_of_several_months_are_one_store(store: Store, tmp_path: Path) -> None:
    write_codex(tmp_path / "old/2026/04/01", OTHER_CODEX_ID)
    write_codex(tmp_path / "old/2026/05/01")
    assert sync_all(store, tmp_path / "old") == {("codex", str(tmp_path / "old")): 2}


def test_months_of_two_agents_side_by_side(store: Store, tmp_path: Path) -> None:
    write_codex(tmp_path / "old/04")
    write_claude(tmp_path / f"old/05/{CLAUDE_ID}.jsonl")
    assert native_ids_after(store, tmp_path / "old") == {CODEX_ID, CLAUDE_ID}


def native_ids_after(store: Store, folder: Path) -> set[str]:
    sync_all(store, folder)
    return native_ids(store)


@pytest.mark.parametrize("place", ["", "old", "disk/old"])
def test_agents_own_folders_are_found_at_any_depth(store: Store, tmp_path: Path, place: str) -> None:
    backup = tmp_path / "backup"
    home = backup / place
    write_claude(home / f".claude/projects/-w/{CLAUDE_ID}.jsonl")
    write_codex(home / ".codex/sessions/2026/05/01")
    (home / ".codex/session_index.jsonl").write_text(json.dumps({"id": CODEX_ID, "thread_name": "Named"}) + "\n")
    assert sync_all(store, backup) == {("claude", str(home / ".claude")): 1, ("codex", str(home / ".codex")): 1}
    assert store.sessions.find(CODEX_ID).agent_title == "Named"


def test_two_homes_in_one_folder_are_two_stores(store: Store, tmp_path: Path) -> None:
    for person, session in (("ada", CLAUDE_ID), ("bob", OTHER_CLAUDE_ID)):
        write_claude(tmp_path / f"homes/{person}/.claude/projects/-w/{session}.jsonl", session)
    homes = tmp_path / "homes"
    assert sync_all(store, homes) == {("claude", str(homes / f"{name}/.claude")): 1 for name in ("ada", "bob")}


def test_one_folder_may_be_the_home_of_two_agents(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "merged"
    write_claude(folder / f"projects/-w/{CLAUDE_ID}.jsonl")
    write_qwen(folder / f"projects/-w/chats/{QWEN_ID}.jsonl")
    write_codex(folder / "sessions/2026/05/01")
    assert sync_all(store, folder) == {(name, str(folder)): 1 for name in ("claude", "qwen", "codex")}


def test_loose_transcripts_beside_a_home_of_the_same_agent_are_read_once(store: Store, tmp_path: Path) -> None:
    write_codex(tmp_path / "all/.codex/sessions/2026/05/01")
    write_codex(tmp_path / "all/notes/deep", OTHER_CODEX_ID)
    expected = {("codex", str(tmp_path / "all" / name)): 1 for name in (".codex", "notes")}
    assert sync_all(store, tmp_path / "all") == expected


def test_transcripts_some_folders_down_are_read(store: Store, tmp_path: Path) -> None:
    write_claude(tmp_path / f"a/b/c/{CLAUDE_ID}.jsonl")
    write_pi(tmp_path / "a/d/e/f/g/pi.jsonl")
    assert sync_all(store, tmp_path / "a") == {("claude", str(tmp_path / "a")): 1, ("pi", str(tmp_path / "a")): 1}


def test_the_names_of_files_do_not_matter(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "renamed"
    write_claude(folder / "the big refactoring.jsonl")
    write_claude(folder / f"{OTHER_CLAUDE_ID}.jsonl", OTHER_CLAUDE_ID)
    write_codex(folder, name="codex talk.jsonl")
    assert sync_all(store, folder) == {("claude", str(folder)): 2, ("codex", str(folder)): 1}
    assert native_ids(store) == {CLAUDE_ID, OTHER_CLAUDE_ID, CODEX_ID}


def test_a_renamed_transcript_in_an_agents_own_folder_is_read(store: Store, tmp_path: Path) -> None:
    write_claude(tmp_path / ".claude/projects/-w/kept.jsonl")
    sync_all(store, tmp_path / ".claude")
    assert native_ids(store) == {CLAUDE_ID}


def test_databases_and_transcripts_are_found_together(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    write_claude(folder / f"{CLAUDE_ID}.jsonl")
    (folder / "deep/down").mkdir(parents=True)
    add_rubichan_session(make_database(folder / "deep/down/saved", RUBICHAN_SCHEMA), "r", ("user", "hello"))
    expected = {("claude", str(folder)): 1, ("rubichan", str(folder / "deep/down/saved")): 1}
    assert sync_all(store, folder) == expected


# ── Crush and opencode ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("named", ["project", "project/.crush", "project/.crush/crush.db", ""])
def test_crush_is_found_in_its_project(store: Store, tmp_path: Path, named: str) -> None:
    (tmp_path / "work/project/.crush").mkdir(parents=True)
    (tmp_path / "work/project/main.py").write_text("print()")
    CrushStore(tmp_path / "work/project/.crush/crush.db").add_session("s", ("user", text_content("hello")))
    expected = {("crush", str(tmp_path / "work/project/.crush/crush.db")): 1}
    assert sync_all(store, tmp_path / "work" / named) == expected


@pytest.mark.parametrize("name", ["opencode", "oc-backup", "opencode/storage", "storage renamed"])
@pytest.mark.parametrize("project", ["", "app"])
def test_the_storage_of_opencode_is_recognized_by_its_content(
    store: Store, tmp_path: Path, name: str, project: str
) -> None:
    whole = tmp_path / "made"
    turns = [(user_message(), [text_part("hello")]), (assistant_message(), [finished_text_part("hi")])]
    OpencodeFiles(whole, project).add_session("ses_1", *turns)
    storage = whole / "project/app/storage" if project else whole / "storage"
    source = storage if "storage" in name else whole
    (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
    source.rename(tmp_path / name)
    found = find_named_stores([str(tmp_path / name)])
    assert [(target.source.name, target.locator) for target in found.targets] == [("opencode", str(tmp_path / name))]
    assert found.unclaimed == []
    sync_all(store, tmp_path / name)
    assert [text for text in stored_texts(store, "ses_1") if text] == ["hello", "hi"]


def test_the_database_and_the_files_of_opencode_are_one_store(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "copies/anything"
    OpencodeFiles(folder).add_session("ses_1", (user_message(), [text_part("hello")]))
    OpencodeStore(folder / "opencode.db").add_session("ses_2", (user_message(), [text_part("hello")]))
    assert sync_all(store, tmp_path / "copies") == {("opencode", str(folder)): 2}


# ── what no source knows ──────────────────────────────────────────────────────────────────────────


def test_files_that_no_source_knows_are_counted_and_named(store: Store, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    write_claude(folder / f"{CLAUDE_ID}.jsonl")
    write_lines(folder / "other agent.jsonl", [{"speaker": "me", "said": "hello"}])
    (folder / "sub").mkdir()
    for number in range(9):
        (folder / f"sub/{number}.txt").write_text("text")
    found = find_named_stores([str(folder)])
    assert len(found.unclaimed) == 10
    names = found.name_unclaimed()
    assert len(names) == 5
    assert names[0] == str(folder / "other agent.jsonl")


def test_what_belongs_to_a_known_store_is_not_counted(tmp_path: Path) -> None:
    write_claude(tmp_path / f"all/{CLAUDE_ID}.jsonl")
    outputs = tmp_path / f"all/{CLAUDE_ID}/tool-results"
    outputs.mkdir(parents=True)
    (outputs / "long.txt").write_text("output")
    write_codex(tmp_path / "all/.codex/sessions/2026/05/01")
    (tmp_path / "all/.codex/config.toml").write_text("")
    write_qwen(tmp_path / f"all/qwen/projects/-w/chats/{QWEN_ID}.jsonl")
    (tmp_path / "all/qwen/settings.json").write_text("{}")
    assert find_named_stores([str(tmp_path / "all")]).unclaimed == []


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


def test_sync_reports_what_no_source_knows(cli: CommandLine, tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    write_codex(folder)
    write_lines(folder / "other.jsonl", [{"speaker": "me"}])
    shown = cli("sync", str(folder))
    assert shown.status == 0
    reason = "Not read, because no source recognises it"
    assert shown.err == f"{reason}: {folder / 'other.jsonl'} (1 file).\n"
    answer = json.loads(cli("sync", str(folder), "--json").out)
    assert answer["unclaimed"] == {"count": 1, "names": [str(folder / "other.jsonl")]}
    assert answer["problems"] == []
    assert [report["source"] for report in answer["sources"]] == ["codex"]


def test_one_bad_path_does_not_keep_the_others_from_being_read(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    write_codex(tmp_path / "a")
    write_claude(tmp_path / f"c/{CLAUDE_ID}.jsonl")
    result = cli("sync", str(tmp_path / "a"), str(tmp_path / "b"), str(tmp_path / "c"), "--json")
    reason = f"No such file or folder: {tmp_path / 'b'}."
    assert (result.status, result.err) == (3, reason + "\n")
    answer = json.loads(result.out)
    assert [(report["source"], report["new"]) for report in answer["sources"]] == [("codex", 1), ("claude", 1)]
    assert answer["problems"] == [{"where": str(tmp_path / "b"), "reason": reason}]
    assert native_ids(store) == {CODEX_ID, CLAUDE_ID}


def test_every_bad_path_is_named(cli: CommandLine, tmp_path: Path) -> None:
    write_codex(tmp_path / "a")
    (tmp_path / "text").write_text("nothing")
    result = cli("sync", str(tmp_path / "missing"), str(tmp_path / "a"), str(tmp_path / "text"))
    assert result.status == 3
    assert str(tmp_path / "missing") in result.err
    assert str(tmp_path / "text") in result.err


# ── limits ────────────────────────────────────────────────────────────────────────────────────────


def test_links_lead_neither_in_circles_nor_upwards(store: Store, tmp_path: Path) -> None:
    write_codex(tmp_path / "outside", OTHER_CODEX_ID)
    write_codex(tmp_path / "outside/named/deep")
    named = tmp_path / "outside/named"
    (named / "deep/loop").symlink_to(named)
    (named / "up").symlink_to(tmp_path / "outside")
    (named / "root").symlink_to("/")
    (named / "gone").symlink_to(tmp_path / "nowhere")
    assert sync_all(store, named) == {("codex", str(named)): 1}
    assert native_ids(store) == {CODEX_ID}
    assert find_named_stores([str(named)]).unclaimed == [str(named / "root"), str(named / "up")]


def test_a_link_to_a_file_elsewhere_is_named_and_not_read(store: Store, tmp_path: Path) -> None:
    outside = write_codex(tmp_path / "outside", OTHER_CODEX_ID)
    inside = write_codex(tmp_path / "named")
    (inside.parent / "linked").mkdir()
    link = inside.parent / "linked" / outside.name
    link.symlink_to(outside)
    found = find_named_stores([str(inside.parent)])
    assert [target.source.name for target in found.targets] == ["codex"]
    assert found.unclaimed == [str(link)]
    only_links = inside.parent / "linked"
    with pytest.raises(Unreadable, match="is not a conversation store"):
        sync_all(store, only_links)


def test_an_agents_own_folder_may_be_a_link(store: Store, tmp_path: Path) -> None:
    write_claude(tmp_path / f"disk/-w/{CLAUDE_ID}.jsonl")
    home = tmp_path / "home"
    (home / ".claude").mkdir(parents=True)
    (home / ".claude/projects").symlink_to(tmp_path / "disk")
    for named in (home, home / ".claude"):
        assert [target.locator for target in find_targets([str(named)])] == [str(home / ".claude")]
    sync_all(store, home)
    assert native_ids(store) == {CLAUDE_ID}


def test_a_pipe_is_not_read(tmp_path: Path) -> None:
    write_codex(tmp_path / "a")
    os.mkfifo(tmp_path / "a/pipe.jsonl")
    assert [target.source.name for target in find_targets([str(tmp_path / "a")])] == ["codex"]


def test_a_folder_with_too_many_files_is_read_in_part_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_codex(tmp_path / "a")
    for number in range(9):
        (tmp_path / f"a/z{number}").mkdir()
        (tmp_path / f"a/z{number}/x.txt").write_text("x")
    monkeypatch.setattr(probes, "MAX_TREE_ENTRIES", 12)
    found = find_named_stores([str(tmp_path / "a")])
    assert [target.source.name for target in found.targets] == ["codex"]
    assert [problem.where for problem in found.problems] == [str(tmp_path / "a")]


def test_looking_at_a_folder_ends_after_some_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_codex(tmp_path / "a")
    write_claude(tmp_path / f"a/z/{CLAUDE_ID}.jsonl")
    monkeypatch.setattr(named_paths, "MAX_SECONDS", 0.0)
    found = find_named_stores([str(tmp_path / "a")])
    assert [target.source.name for target in found.targets] == ["codex"]
    assert "Not all files were looked at" in found.problems[0].reason


def test_a_folder_without_conversations_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/notes.txt").write_text("text")
    with pytest.raises(Unreadable, match="not a conversation store"):
        find_targets([str(tmp_path / "a")])


def test_a_folder_that_no_source_knows_is_refused_with_the_names_of_its_files(cli: CommandLine, tmp_path: Path) -> None:
    write_lines(tmp_path / "other/a.jsonl", [{"speaker": "me"}])
    (tmp_path / "other/LICENSE").write_text("free")
    result = cli("sync", str(tmp_path / "other"))
    refusal = f"{tmp_path / 'other'} is not a conversation store that Backscroll can read."
    assert (result.status, result.err) == (3, f"{refusal} No source knows {tmp_path / 'other/a.jsonl'}.\n")


@pytest.mark.parametrize("place", ["home/.openclaw/agents/main/sessions", "copies"])
def test_transcripts_of_openclaw_are_not_taken_for_those_of_pi(tmp_path: Path, place: str) -> None:
    header = {"type": "session", "version": 3, "id": "f1", "cwd": "/w", "timestamp": "2026-05-01T10:00:00.000Z"}
    context = {"type": "custom_message", "customType": "openclaw.runtime-context", "id": "a", "parentId": None}
    records = [header] if "openclaw" in place else [header, context]
    prompt = {"type": "message", "id": "b", "message": {"role": "user", "content": "Hi"}}
    write_lines(tmp_path / place / "f1.jsonl", [*records, prompt])
    with pytest.raises(Unreadable, match=r"No source knows .*f1\.jsonl"):
        find_targets([str(tmp_path)])
