"""Claude Code's transcripts: prompts told from what the program injects, messages spread over records, branches, forks
and sub-agents of every layout."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import stored_entries, stored_texts, sync_paths
from hypothesis import given
from hypothesis import strategies as st
from stored_records import read_stored_records
from transcript_fuzzer import corrupted_lines, read_all_sessions

from store.model.entry import Attachment, Thinking, Tokens, ToolCall, ToolResult
from store.model.session import Session
from store.sources.claude_code.source import ClaudeCode
from store.store import Store
from store.sync.targets import find_targets

claude_code = ClaudeCode()

SAMPLE = Path(__file__).parents[1] / "data/claude"
TODAY, COPY, SDK, OLD = (f"c1000000-0000-4000-8000-00000000000{n}" for n in range(1, 5))
LEFT = f"{TODAY}/u2"


@pytest.fixture
def owner(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "claude"))


@pytest.fixture
def read(store: Store, owner: Path) -> Store:
    assert sync_paths(store, owner).problems == []
    return store


def transcript(owner: Path, session_id: str = TODAY) -> Path:
    return owner / "projects/-w-app" / f"{session_id}.jsonl"


def say(path: Path, *values: Any) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(value, separators=(",", ":")) + "\n" for value in values)


def user(uuid: str, parent: str | None, text: str, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    at = "2026-05-01T11:00:00.000Z"
    return {"parentUuid": parent, "type": "user", "message": message, "uuid": uuid, "timestamp": at} | more


def prompts(store: Store, session_id: str) -> list[str]:
    return [turn.prompt for turn in store.chains.turns(store.sessions.find(session_id).key) if turn.n]


def find(store: Store, session_id: str) -> Session:
    return store.sessions.get(f"claude:{session_id}")


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


def test_it_is_found_where_claude_code_keeps_it(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(SAMPLE, home / ".claude")
    (target,) = find_targets(source_name="claude")
    assert target.locator == str(home / ".claude")
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(home / "elsewhere"))
    assert find_targets(source_name="claude") == []


def test_one_project_or_one_transcript_will_do(store: Store, owner: Path) -> None:
    assert sync_paths(store, owner / "projects/-w-app").seen == 9
    report = sync_paths(store, transcript(owner))
    assert (report.source, report.seen) == ("claude", 4)


def test_lines_of_others_are_not_its_own(tmp_path: Path) -> None:
    theirs = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "parts": [{"text": "hi"}]}}
    say(tmp_path / "a.jsonl", theirs, {"type": "session_meta", "payload": {}}, {"type": "message", "id": "1"})
    assert not claude_code.detect(str(tmp_path / "a.jsonl"))
    assert not claude_code.detect(str(tmp_path))


def test_what_another_program_wrote_beside_is_no_session_of_its(store: Store, owner: Path) -> None:
    theirs = {"type": "user", "uuid": "u", "sessionId": "s", "message": {"role": "user", "parts": [{"text": "hi"}]}}
    say(transcript(owner).with_name("00000000-0000-4000-8000-00000000beef.jsonl"), theirs)
    assert sync_paths(store, owner).seen == 9


def test_every_record_is_kept_and_a_second_sync_writes_nothing(read: Store, owner: Path) -> None:
    written = {line for path in owner.rglob("*.jsonl") for line in path.read_bytes().splitlines()}
    titles_of_others = {line for line in written if line.startswith(b'{"type":"summary"')}
    assert read_stored_records(read) >= written - titles_of_others
    before = read.connection.total_changes
    assert sync_paths(read, owner).unchanged == 9
    assert read.connection.total_changes == before


# ── what was said ─────────────────────────────────────────────────────────────────────────────────


def test_prompts_are_what_a_person_typed(read: Store) -> None:
    said = ["Add a retry", "and a test", "Rename it well", "/review all of it", "What is in this picture?"]
    assert prompts(read, TODAY) == said


def test_a_prompt_that_waits_in_the_queue_is_not_told_twice(read: Store) -> None:
    session = find(read, TODAY)
    told = [entry.text for entry in read.chains.entries(session.key) if entry.text.startswith("queue-operation")]
    assert told == ["queue-operation: enqueue", "queue-operation: dequeue"]


def test_a_message_over_many_records_is_one_and_its_tokens_count_once(read: Store) -> None:
    spread = [entry for entry in stored_entries(read, TODAY) if entry.message_key == "m1"]
    assert [type(entry.parts[0]) for entry in spread] == [Thinking, ToolCall, ToolCall]
    assert [entry.tokens for entry in spread] == [Tokens(100, 5, 60), Tokens(0, 15, 0), None]
    session = find(read, TODAY)
    assert (session.tokens_input, session.tokens_output, session.tokens_cached) == (700, 140, 420)
    assert session.model == "claude-opus-4-8"


def test_what_a_record_tells_again_is_not_told_twice(store: Store, owner: Path) -> None:
    blocks = [{"type": "text", "text": "So"}, {"type": "tool_use", "id": "c9", "name": "Bash", "input": {}}]
    told_before = {"id": "m9", "role": "assistant", "content": blocks[:1], "usage": {"output_tokens": 3}}
    envelope = {"type": "assistant", "sessionId": TODAY}
    first = {**envelope, "uuid": "y1", "parentUuid": "u10", "message": told_before}
    more = {**envelope, "uuid": "y2", "parentUuid": "y1", "message": told_before | {"content": blocks}}
    say(transcript(owner), first, more, first)
    sync_paths(store, owner)
    assert [len(entry.parts) for entry in stored_entries(store, TODAY)[-3:]] == [1, 1, 0]


def test_parallel_calls_find_their_results(read: Store) -> None:
    calls = read.chains.tool_calls(find(read, TODAY).key)
    assert [(call.call_id, call.status, call.duration_ms) for call in calls] == [
        ("c1", "ok", 12.0),
        ("c2", "error", None),
        ("c3", "ok", 4000.0),
        ("c4", "ok", None),
    ]


def test_a_long_output_comes_from_the_file_beside(read: Store) -> None:
    assert read.chains.tool_calls(find(read, TODAY).key)[-1].result == "1\n2\n3\n4\n"


def test_nothing_outside_the_folder_of_outputs_is_read(store: Store, owner: Path) -> None:
    (owner / "projects/secret.txt").write_text("secret")
    path = transcript(owner)
    path.write_text(path.read_text().replace("tool-results/long1.txt", "tool-results/../../../secret.txt"))
    sync_paths(store, owner)
    assert "secret" not in str(store.chains.tool_calls(find(store, TODAY).key)[-1].result).splitlines()


def test_a_compaction_is_a_summary_of_what_came_before(read: Store) -> None:
    (compaction,) = [entry for entry in stored_entries(read, TODAY) if entry.kind == "compaction"]
    summary = read.summaries.current(find(read, TODAY))
    assert summary is not None
    assert (summary.text, summary.up_to_turn, summary.origin) == (compaction.text, 3, "source")


def test_images_are_set_aside(read: Store) -> None:
    (entry,) = [entry for entry in stored_entries(read, TODAY) if entry.text == "What is in this picture?"]
    assert entry.parts[-1] == Attachment("image/png", "", 6)


def test_an_image_in_a_result_stays_in_the_record(store: Store, owner: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    result = {"type": "tool_result", "tool_use_id": "c4", "content": [image]}
    say(transcript(owner), user("y1", "u10", "") | {"message": {"role": "user", "content": [result]}})
    sync_paths(store, owner)
    (part,) = stored_entries(store, TODAY)[-1].parts
    assert isinstance(part, ToolResult)
    assert part.output == [image | {"source": {"type": "base64", "media_type": "image/png", "data": "", "size": 6}}]


@pytest.mark.parametrize(
    "text",
    [
        "<system-reminder>Be brief.</system-reminder>",
        "<local-command-stdout></local-command-stdout>",
        "<local-command-caveat>Caveat</local-command-caveat>",
        "<task-notification><task-id>x</task-id></task-notification>",
        "<ide_opened_file>The user opened a.py</ide_opened_file>",
        "<bash-stdout>1</bash-stdout>",
        "Caveat: The messages below were generated by the user while running local commands.",
        "Stop hook feedback:\nno",
        "[Request interrupted by user for tool use]",
    ],
)
def test_what_the_program_writes_in_the_users_name_is_no_prompt(store: Store, owner: Path, text: str) -> None:
    say(transcript(owner), user("y1", "u10", text))
    sync_paths(store, owner)
    assert len(prompts(store, TODAY)) == 5


# ── titles, branches, forks, sub-agents ───────────────────────────────────────────────────────────


def test_titles_in_the_order_of_claude_code(store: Store, owner: Path) -> None:
    sync_paths(store, owner)
    assert find(store, TODAY).title == "Retry, named well"
    assert find(store, OLD).title == "Old parser explained"
    path = transcript(owner)
    path.write_text("".join(line for line in path.open() if "custom-title" not in line))
    sync_paths(store, owner)
    assert find(store, TODAY).title == "A retry and names"
    path.write_text("".join(line for line in path.open() if "ai-title" not in line))
    sync_paths(store, owner)
    assert find(store, TODAY).title == "Add a retry"


def test_what_a_rewind_left_behind_is_a_fork(read: Store) -> None:
    fork = find(read, LEFT)
    assert (fork.relation, fork.parent_id, fork.forked_at) == ("fork", f"claude:{TODAY}", 11)
    assert stored_entries(read, TODAY)[11].text == "Done."
    assert (fork.title, fork.turns, fork.tool_calls) == ("Rename it badly", 1, 0)
    assert [entry.text for entry in stored_entries(read, LEFT) if not entry.inherited] == [
        "Rename it badly",
        "Renamed badly.",
    ]
    assert "Rename it badly" not in stored_texts(read, TODAY)


def test_a_branch_of_a_branch_hangs_on_it(store: Store, owner: Path) -> None:
    old = user("n1", "a5", "Deeper"), user("n2", "a5", "Deeper still"), user("n3", "u10", "On")
    say(transcript(owner), *old)
    sync_paths(store, owner)
    deeper = find(store, f"{TODAY}/n1")
    assert (deeper.parent_id, deeper.forked_at) == (f"claude:{LEFT}", 13)
    assert prompts(store, LEFT)[2:] == ["Rename it badly", "Deeper still"]
    assert prompts(store, TODAY)[-1] == "On"


def test_the_very_first_prompt_edited_shares_nothing(store: Store, owner: Path) -> None:
    path = owner / "projects/-w-app/d1000000-0000-4000-8000-000000000001.jsonl"
    say(path, user("k1", None, "Frist"), user("k2", None, "First"))
    sync_paths(store, owner)
    assert prompts(store, path.stem) == ["First"]
    assert (find(store, f"{path.stem}/k1").forked_at, prompts(store, f"{path.stem}/k1")) == (None, ["Frist"])


def test_links_that_lead_nowhere_or_in_a_circle_leave_the_order_of_the_file(store: Store, owner: Path) -> None:
    path = owner / "projects/-w-app/d1000000-0000-4000-8000-000000000002.jsonl"
    say(path, user("k1", "k3", "one"), user("k2", "gone", "two"), user("k3", "k1", "three"))
    sync_paths(store, owner)
    assert prompts(store, path.stem) == ["one", "two", "three"]


def test_a_rewind_after_a_sync_moves_the_conversation_on(store: Store, owner: Path) -> None:
    sync_paths(store, owner)
    say(transcript(owner), user("n1", "a9", "Instead of the picture"))
    report = sync_paths(store, owner)
    assert (report.new, report.problems) == (1, [])
    assert prompts(store, TODAY)[-1] == "Instead of the picture"
    assert find(store, f"{TODAY}/u9").title == "What is in this picture?"


def test_a_forked_session_shares_its_past(read: Store) -> None:
    fork = find(read, COPY)
    assert (fork.relation, fork.parent_id, fork.forked_at) == ("fork", f"claude:{TODAY}", 11)
    assert (fork.turns, fork.tool_calls, fork.tokens_input) == (1, 0, 100)
    assert prompts(read, COPY) == ["Add a retry", "and a test", "Fork here"]
    assert fork.created_at.startswith("2026-05-02")
    sdk = find(read, SDK)
    assert (sdk.parent_id, sdk.forked_at, sdk.turns) == (f"claude:{TODAY}", 4, 1)


def test_sub_agents_hang_on_the_call_that_sent_them_off(read: Store) -> None:
    agent, below = find(read, f"{TODAY}/agent-a0000001"), find(read, f"{TODAY}/agent-b0000002")
    assert (agent.relation, agent.parent_id, agent.title) == ("delegate", f"claude:{TODAY}", "Look around")
    assert isinstance(stored_entries(read, TODAY)[agent.forked_at or 0].parts[0], ToolCall)
    assert (below.parent_id, below.forked_at, below.title) == (agent.id, 1, "Count")
    assert stored_entries(read, agent.native_id)[0].author == "claude"


def test_sub_agents_of_old(read: Store) -> None:
    beside, within = find(read, f"{OLD}/agent-0badcafe"), find(read, f"{OLD}/x1")
    assert (beside.relation, beside.parent_id) == ("delegate", f"claude:{OLD}")
    assert (within.relation, within.parent_id, within.forked_at) == ("sidechain", f"claude:{OLD}", 1)
    assert stored_texts(read, within.native_id) == ["Read the parser and tell", "It parses."]
    assert stored_texts(read, OLD) == ["Look into the old code", "", "", "The parser parses."]


def test_without_a_sidecar_the_result_or_the_prompt_names_the_call(store: Store, owner: Path) -> None:
    for sidecar in owner.rglob("*.meta.json"):
        sidecar.unlink()
    sync_paths(store, owner)
    agent = find(store, f"{TODAY}/agent-a0000001")
    assert (agent.title, agent.forked_at) == ("Look around", 15)


def test_a_session_that_moved_to_another_folder_is_one(store: Store, owner: Path) -> None:
    moved = owner / "projects/-w-elsewhere" / transcript(owner, OLD).name
    moved.parent.mkdir()
    say(moved, *map(json.loads, transcript(owner, OLD).open()), user("o9", "o4", "Moved") | {"sessionId": OLD})
    sync_paths(store, owner)
    assert prompts(store, OLD) == ["Look into the old code", "Moved"]


# ── growing, and what is wrong ────────────────────────────────────────────────────────────────────


def test_what_is_appended_comes_in(store: Store, owner: Path) -> None:
    sync_paths(store, owner)
    say(transcript(owner), user("y1", "u10", "Go on"))
    with transcript(owner).open("a") as file:
        file.write('{"type":"user","uuid":"y2","parentUuid":"y1","mess')
    report = sync_paths(store, owner)
    assert (report.problems, prompts(store, TODAY)[-1]) == ([], "Go on")
    with transcript(owner).open("a") as file:
        file.write('age":{"role":"user","content":"Once more"}}\n')
    sync_paths(store, owner)
    assert prompts(store, TODAY)[-2:] == ["Go on", "Once more"]


def test_a_transcript_that_is_gone_stays_and_says_so(store: Store, owner: Path) -> None:
    sync_paths(store, owner)
    transcript(owner, SDK).unlink()
    sync_paths(store, owner)
    assert find(store, SDK).gone
    assert prompts(store, SDK) == ["Add a retry", "Another way"]


def test_a_bad_line_is_one_problem(store: Store, owner: Path) -> None:
    path = transcript(owner, OLD)
    path.write_bytes(b"\xff\x00rubbish\n" + b"[" * 9000 + b"\n" + path.read_bytes())
    report = sync_paths(store, owner)
    assert [problem.where for problem in report.problems] == [f"{path}:0", f"{path}:10"]
    assert len(stored_texts(store, OLD)) == 4


def expiry(owner: Path) -> str:
    with claude_code.open(str(owner)) as opened:
        return claude_code.expiry(str(owner), opened.scan())[TODAY]


def test_it_is_known_when_a_transcript_will_be_deleted(owner: Path) -> None:
    os.utime(transcript(owner), (1_770_000_000, 1_770_000_000))
    assert expiry(owner) == "2026-03-04T02:40:00.000000Z"
    (owner / "settings.json").write_text('{"cleanupPeriodDays": 1}')
    assert expiry(owner) == "2026-02-03T02:40:00.000000Z"
    (owner / "settings.json").write_text('{"cleanupPeriodDays": "never"}')
    assert expiry(owner).startswith("2026-03-04")


def test_only_whole_sessions_can_be_resumed(read: Store) -> None:
    resumed = claude_code.resume(find(read, TODAY))
    assert (resumed.argv, resumed.cwd) == (("claude", "--resume", TODAY), "/w/app")
    for other in (LEFT, f"{TODAY}/agent-a0000001", f"{OLD}/x1"):
        assert claude_code.resume(find(read, other)).argv is None
        assert claude_code.resume(find(read, other)).hint


@given(data=st.data())
def test_whatever_stands_in_a_transcript(tmp_path: Path, data: st.DataObject) -> None:
    owner = tmp_path / "fuzzed"
    shutil.rmtree(owner, ignore_errors=True)
    shutil.copytree(SAMPLE, owner)
    path = data.draw(st.sampled_from(sorted(owner.rglob("*.jsonl"))[:-1]))
    if whole := path.read_bytes():
        path.write_bytes(data.draw(corrupted_lines(whole)))
    neighbour = OLD if path.stem != OLD else COPY
    assert neighbour in read_all_sessions(claude_code, owner)
