"""These tests read transcripts of Claude Code: prompts and injected texts, messages spread over several records,
branches, forks, and sub-agents in every layout."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import stored_entries, stored_texts, sync_paths
from hypothesis import given
from hypothesis import strategies as st
from stored_records import read_stored_records
from transcript_fuzzer import corrupted_lines, read_all_sessions

from store.doctor import check_store
from store.model.entry import Attachment, Thinking, Tokens, ToolCall, ToolResult
from store.model.session import Session
from store.sources.claude_code.source import ClaudeCode
from store.store import Store
from store.sync.targets import find_targets

claude_code = ClaudeCode()

SAMPLE = Path(__file__).parents[1] / "data/claude"
TODAY, COPY, SDK, OLD = (f"c1000000-0000-4000-8000-00000000000{n}" for n in range(1, 5))
REWOUND = f"{TODAY}/u2"


@pytest.fixture
def agent_home(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "claude"))


@pytest.fixture
def synced(store: Store, agent_home: Path) -> Store:
    assert sync_paths(store, agent_home).problems == []
    return store


def transcript(agent_home: Path, session_id: str = TODAY) -> Path:
    return agent_home / "projects/-w-app" / f"{session_id}.jsonl"


def append_records(path: Path, *values: Any) -> None:
    with path.open("a") as file:
        file.writelines(json.dumps(value, separators=(",", ":")) + "\n" for value in values)


def user(uuid: str, parent: str | None, text: str, **fields: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text}
    time = "2026-05-01T11:00:00.000Z"
    return {"parentUuid": parent, "type": "user", "message": message, "uuid": uuid, "timestamp": time} | fields


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


def test_a_single_project_or_transcript_can_be_synced(store: Store, agent_home: Path) -> None:
    assert sync_paths(store, agent_home / "projects/-w-app").seen == 9
    report = sync_paths(store, transcript(agent_home))
    assert (report.source, report.seen) == ("claude", 4)


FOREIGN_RECORD = {
    "type": "user",
    "uuid": "u",
    "sessionId": "s",
    "message": {"role": "user", "parts": [{"text": "hi"}]},
}


def test_lines_of_other_agents_are_not_detected(tmp_path: Path) -> None:
    append_records(
        tmp_path / "a.jsonl", FOREIGN_RECORD, {"type": "session_meta", "payload": {}}, {"type": "message", "id": "1"}
    )
    assert not claude_code.detect(str(tmp_path / "a.jsonl"))
    assert not claude_code.detect(str(tmp_path))


def test_a_file_of_another_program_is_no_session(store: Store, agent_home: Path) -> None:
    append_records(transcript(agent_home).with_name("00000000-0000-4000-8000-00000000beef.jsonl"), FOREIGN_RECORD)
    assert sync_paths(store, agent_home).seen == 9


def test_every_record_is_kept_and_a_second_sync_writes_nothing(synced: Store, agent_home: Path) -> None:
    written = {line for path in agent_home.rglob("*.jsonl") for line in path.read_bytes().splitlines()}
    titles_of_others = {line for line in written if line.startswith(b'{"type":"summary"')}
    assert read_stored_records(synced) >= written - titles_of_others
    before = synced.connection.total_changes
    assert sync_paths(synced, agent_home).unchanged == 9
    assert synced.connection.total_changes == before


# ── entries ───────────────────────────────────────────────────────────────────────────────────────


def test_prompts_are_what_a_person_typed(synced: Store) -> None:
    typed = ["Add a retry", "and a test", "Rename it well", "/review all of it", "What is in this picture?"]
    assert prompts(synced, TODAY) == typed


def test_a_queued_prompt_is_stored_once(synced: Store) -> None:
    session = find(synced, TODAY)
    texts = [entry.text for entry in synced.chains.entries(session.key) if entry.text.startswith("queue-operation")]
    assert texts == ["queue-operation: enqueue", "queue-operation: dequeue"]


def test_a_message_over_many_records_is_one_and_its_tokens_count_once(synced: Store) -> None:
    spread = [entry for entry in stored_entries(synced, TODAY) if entry.message_key == "m1"]
    assert [type(entry.parts[0]) for entry in spread] == [Thinking, ToolCall, ToolCall]
    assert [entry.tokens for entry in spread] == [Tokens(100, 5, 50, 10), Tokens(0, 15), None]
    session = find(synced, TODAY)
    assert (session.tokens_input, session.tokens_output, session.tokens_cached) == (700, 140, 420)
    assert (session.tokens_cache_read, session.tokens_cache_write) == (350, 70)
    assert session.model == "claude-opus-4-8"


def test_repeated_blocks_and_records_are_stored_once(store: Store, agent_home: Path) -> None:
    blocks = [{"type": "text", "text": "So"}, {"type": "tool_use", "id": "c9", "name": "Bash", "input": {}}]
    message = {"id": "m9", "role": "assistant", "content": blocks[:1], "usage": {"output_tokens": 3}}
    envelope = {"type": "assistant", "sessionId": TODAY}
    first = {**envelope, "uuid": "y1", "parentUuid": "u10", "message": message}
    more = {**envelope, "uuid": "y2", "parentUuid": "y1", "message": message | {"content": blocks}}
    append_records(transcript(agent_home), first, more, first)
    sync_paths(store, agent_home)
    assert [len(entry.parts) for entry in stored_entries(store, TODAY)[-3:]] == [1, 1, 0]


def test_parallel_calls_find_their_results(synced: Store) -> None:
    calls = synced.chains.tool_calls(find(synced, TODAY).key)
    assert [(call.call_id, call.status, call.duration_ms) for call in calls] == [
        ("c1", "ok", 12.0),
        ("c2", "error", 3000.0),
        ("c3", "ok", 4000.0),
        ("c4", "ok", 1000.0),
    ]


def test_a_long_output_is_read_from_its_file(synced: Store) -> None:
    assert synced.chains.tool_calls(find(synced, TODAY).key)[-1].result == "1\n2\n3\n4\n"


def test_nothing_outside_the_folder_of_outputs_is_read(store: Store, agent_home: Path) -> None:
    (agent_home / "projects/secret.txt").write_text("secret")
    path = transcript(agent_home)
    path.write_text(path.read_text().replace("tool-results/long1.txt", "tool-results/../../../secret.txt"))
    sync_paths(store, agent_home)
    assert "secret" not in str(store.chains.tool_calls(find(store, TODAY).key)[-1].result).splitlines()


def test_a_compaction_is_a_summary_of_what_came_before(synced: Store) -> None:
    (compaction,) = [entry for entry in stored_entries(synced, TODAY) if entry.kind == "compaction"]
    summary = synced.summaries.current(find(synced, TODAY))
    assert summary is not None
    assert (summary.text, summary.up_to_turn, summary.origin) == (compaction.text, 3, "source")


def test_images_become_attachments(synced: Store) -> None:
    (entry,) = [entry for entry in stored_entries(synced, TODAY) if entry.text == "What is in this picture?"]
    assert entry.parts[-1] == Attachment("image/png", "", 6)


def test_an_image_in_a_result_stays_in_the_record(store: Store, agent_home: Path) -> None:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGVsbG8="}}
    result = {"type": "tool_result", "tool_use_id": "c4", "content": [image]}
    append_records(transcript(agent_home), user("y1", "u10", "") | {"message": {"role": "user", "content": [result]}})
    sync_paths(store, agent_home)
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
def test_injected_text_is_no_prompt(store: Store, agent_home: Path, text: str) -> None:
    append_records(transcript(agent_home), user("y1", "u10", text))
    sync_paths(store, agent_home)
    assert len(prompts(store, TODAY)) == 5


# ── titles, branches, forks, sub-agents ───────────────────────────────────────────────────────────


def test_titles_in_the_order_of_claude_code(store: Store, agent_home: Path, tmp_path: Path) -> None:
    sync_paths(store, agent_home)
    assert find(store, TODAY).title == "Retry, named well"
    assert find(store, OLD).title == "Old parser explained"
    path = transcript(agent_home)
    path.write_text("".join(line for line in path.open() if "custom-title" not in line))
    sync_paths(store, agent_home)
    assert find(store, TODAY).title == "A retry and names"
    path.write_text("".join(line for line in path.open() if "ai-title" not in line))
    sync_paths(store, agent_home)
    assert find(store, TODAY).title == "A retry and names"  # what is known stays
    with Store.open(tmp_path / "other.db") as other_store:
        sync_paths(other_store, agent_home)
        assert find(other_store, TODAY).title == "Add a retry"


def test_a_branch_before_a_rewind_is_a_fork(synced: Store) -> None:
    fork = find(synced, REWOUND)
    assert (fork.relation, fork.parent_id, fork.forked_at) == ("fork", f"claude:{TODAY}", 11)
    assert stored_entries(synced, TODAY)[11].text == "Done."
    assert (fork.title, fork.turns, fork.tool_calls) == ("Rename it badly", 1, 0)
    assert [entry.text for entry in stored_entries(synced, REWOUND) if not entry.inherited] == [
        "Rename it badly",
        "Renamed badly.",
    ]
    assert "Rename it badly" not in stored_texts(synced, TODAY)


def test_the_parent_of_a_nested_branch_is_the_outer_branch(store: Store, agent_home: Path) -> None:
    prompts_after = user("n1", "a5", "Deeper"), user("n2", "a5", "Deeper still"), user("n3", "u10", "On")
    append_records(transcript(agent_home), *prompts_after)
    sync_paths(store, agent_home)
    deeper = find(store, f"{TODAY}/n1")
    assert (deeper.parent_id, deeper.forked_at) == (f"claude:{REWOUND}", 13)
    assert prompts(store, REWOUND)[2:] == ["Rename it badly", "Deeper still"]
    assert prompts(store, TODAY)[-1] == "On"


def test_a_rewind_of_the_first_prompt_shares_nothing(store: Store, agent_home: Path) -> None:
    path = agent_home / "projects/-w-app/d1000000-0000-4000-8000-000000000001.jsonl"
    append_records(path, user("k1", None, "Frist"), user("k2", None, "First"))
    sync_paths(store, agent_home)
    assert prompts(store, path.stem) == ["First"]
    assert (find(store, f"{path.stem}/k1").forked_at, prompts(store, f"{path.stem}/k1")) == (None, ["Frist"])


def test_dangling_and_circular_links_keep_the_order_of_the_file(store: Store, agent_home: Path) -> None:
    path = agent_home / "projects/-w-app/d1000000-0000-4000-8000-000000000002.jsonl"
    append_records(path, user("k1", "k3", "one"), user("k2", "gone", "two"), user("k3", "k1", "three"))
    sync_paths(store, agent_home)
    assert prompts(store, path.stem) == ["one", "two", "three"]


def test_a_branch_shares_the_records_of_its_parent_and_keeps_them_when_the_parent_is_purged(synced: Store) -> None:
    parent, branch = find(synced, TODAY), find(synced, REWOUND)
    shared = [entry.record for entry in stored_entries(synced, TODAY)[:12]]
    assert [entry.record for entry in stored_entries(synced, REWOUND)[:12]] == shared
    kept = list(synced.records.iter_session(branch.key))
    synced.sessions.purge([parent])
    assert list(synced.records.iter_session(branch.key)) == kept
    assert check_store(synced) == []


@st.composite
def forked_records(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Draw records that follow each other most of the time, and otherwise any other record, even a later one."""
    records: list[dict[str, Any]] = []
    for n in range(draw(st.integers(4, 24))):
        parent = draw(st.one_of(st.just(f"r{n - 1}" if n else None), st.integers(0, 24).map(lambda m: f"r{m}")))
        kind = draw(st.sampled_from("prompt prompt answer call result command compaction snapshot".split()))
        records.append(fork_record(n, parent, kind))
    return records


def fork_record(n: int, parent: str | None, kind: str) -> dict[str, Any]:
    usage = {"input_tokens": n, "output_tokens": 1}
    answer = {"role": "assistant", "model": "m", "id": f"m{n // 3}", "usage": usage}
    blocks = {
        "answer": {"type": "text", "text": f"answer {n}"},
        "call": {"type": "tool_use", "id": f"t{n}", "name": "Bash", "input": {"command": "ls"}},
    }
    if kind == "snapshot":
        return {"type": "file-history-snapshot", "messageId": f"r{n}", "snapshot": {}}
    if kind in blocks:
        return user(f"r{n}", parent, "", type="assistant", message={**answer, "content": [blocks[kind]]}, sessionId="s")
    texts = {"result": "", "command": "<command-name>/clear</command-name>", "compaction": f"summary {n}"}
    record = user(f"r{n}", parent, texts.get(kind, f"prompt {n}"), sessionId="s")
    if kind == "result":
        record["message"]["content"] = [{"type": "tool_result", "tool_use_id": f"t{n - 1}", "content": "out"}]
    return record | ({"isCompactSummary": True} if kind == "compaction" else {})


@given(records=forked_records())
def test_a_branch_read_without_its_past_is_the_branch_read_completely(
    tmp_path: Path, records: list[dict[str, Any]]
) -> None:
    path = tmp_path / f"{TODAY}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    with claude_code.open(str(path)) as reader, claude_code.open(str(path)) as complete_reader:
        for ref in reader.scan_files():
            chains = {ref.native_id: [entry for batch in reader.read(ref) for entry in batch.entries]}
            for branch in reader.find_branches_read(ref):
                batches, complete = list(reader.read_branch(branch)), list(complete_reader.read(branch))
                fields = batches[0].fields or {}
                entries = [entry for batch in batches for entry in batch.entries]
                if batches[0].begins_with_parent:
                    past = chains[fields["parent_id"] or ""][: (fields["forked_at"] or 0) + 1]
                    entries = [replace(entry, inherited=True) for entry in past] + entries
                chains[branch.native_id] = [entry for batch in complete for entry in batch.entries]
                assert entries == chains[branch.native_id]
                assert (batches[-1].summary, fields) == (complete[-1].summary, complete[0].fields)


def test_a_rewind_after_a_sync_adds_a_branch(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    append_records(transcript(agent_home), user("n1", "a9", "Instead of the picture"))
    report = sync_paths(store, agent_home)
    assert (report.new, report.problems) == (1, [])
    assert prompts(store, TODAY)[-1] == "Instead of the picture"
    assert find(store, f"{TODAY}/u9").title == "What is in this picture?"


def test_a_forked_session_shares_its_past(synced: Store) -> None:
    fork = find(synced, COPY)
    assert (fork.relation, fork.parent_id, fork.forked_at) == ("fork", f"claude:{TODAY}", 11)
    assert (fork.turns, fork.tool_calls, fork.tokens_input) == (1, 0, 100)
    assert prompts(synced, COPY) == ["Add a retry", "and a test", "Fork here"]
    assert fork.created_at.startswith("2026-05-02")
    sdk = find(synced, SDK)
    assert (sdk.parent_id, sdk.forked_at, sdk.turns) == (f"claude:{TODAY}", 4, 1)


def test_sub_agents_are_linked_to_the_call_that_started_them(synced: Store) -> None:
    agent, nested = find(synced, f"{TODAY}/agent-a0000001"), find(synced, f"{TODAY}/agent-b0000002")
    assert (agent.relation, agent.parent_id, agent.title) == ("delegate", f"claude:{TODAY}", "Look around")
    assert isinstance(stored_entries(synced, TODAY)[agent.forked_at or 0].parts[0], ToolCall)
    assert (nested.parent_id, nested.forked_at, nested.title) == (agent.id, 1, "Count")
    assert stored_entries(synced, agent.native_id)[0].author == "claude"


def test_sub_agents_of_older_versions(synced: Store) -> None:
    separate, inline = find(synced, f"{OLD}/agent-0badcafe"), find(synced, f"{OLD}/x1")
    assert (separate.relation, separate.parent_id) == ("delegate", f"claude:{OLD}")
    assert (inline.relation, inline.parent_id, inline.forked_at) == ("sidechain", f"claude:{OLD}", 1)
    assert stored_texts(synced, inline.native_id) == ["Read the parser and tell", "It parses."]
    assert stored_texts(synced, OLD) == ["Look into the old code", "", "", "The parser parses."]


def test_without_a_sidecar_the_result_or_the_prompt_names_the_call(store: Store, agent_home: Path) -> None:
    for sidecar in agent_home.rglob("*.meta.json"):
        sidecar.unlink()
    sync_paths(store, agent_home)
    agent = find(store, f"{TODAY}/agent-a0000001")
    assert (agent.title, agent.forked_at) == ("Look around", 15)


def test_a_session_that_moved_to_another_folder_is_one(store: Store, agent_home: Path) -> None:
    moved = agent_home / "projects/-w-elsewhere" / transcript(agent_home, OLD).name
    moved.parent.mkdir()
    append_records(
        moved, *map(json.loads, transcript(agent_home, OLD).open()), user("o9", "o4", "Moved") | {"sessionId": OLD}
    )
    sync_paths(store, agent_home)
    assert prompts(store, OLD) == ["Look into the old code", "Moved"]


# ── changes and damage ────────────────────────────────────────────────────────────────────────────


def test_appended_lines_are_read(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    append_records(transcript(agent_home), user("y1", "u10", "Go on"))
    with transcript(agent_home).open("a") as file:
        file.write('{"type":"user","uuid":"y2","parentUuid":"y1","mess')
    report = sync_paths(store, agent_home)
    assert (report.problems, prompts(store, TODAY)[-1]) == ([], "Go on")
    with transcript(agent_home).open("a") as file:
        file.write('age":{"role":"user","content":"Once more"}}\n')
    sync_paths(store, agent_home)
    assert prompts(store, TODAY)[-2:] == ["Go on", "Once more"]


def test_a_deleted_transcript_keeps_its_session_marked_as_gone(store: Store, agent_home: Path) -> None:
    sync_paths(store, agent_home)
    transcript(agent_home, SDK).unlink()
    sync_paths(store, agent_home)
    assert find(store, SDK).gone
    assert prompts(store, SDK) == ["Add a retry", "Another way"]


def test_a_bad_line_is_one_problem(store: Store, agent_home: Path) -> None:
    path = transcript(agent_home, OLD)
    path.write_bytes(b"\xff\x00rubbish\n" + b"[" * 9000 + b"\n" + path.read_bytes())
    report = sync_paths(store, agent_home)
    assert [problem.where for problem in report.problems] == [f"{path}:0", f"{path}:10"]
    assert [entry.kind for entry in stored_entries(store, OLD)] == ["unknown"] * 2 + ["message"] * 4


def expiry(agent_home: Path) -> str:
    with claude_code.open(str(agent_home)) as reader:
        return claude_code.expiry(str(agent_home), reader.scan())[TODAY]


def test_the_expiry_follows_the_settings(agent_home: Path) -> None:
    os.utime(transcript(agent_home), (1_770_000_000, 1_770_000_000))
    assert expiry(agent_home) == "2026-03-04T02:40:00.000000Z"
    (agent_home / "settings.json").write_text('{"cleanupPeriodDays": 1}')
    assert expiry(agent_home) == "2026-02-03T02:40:00.000000Z"
    (agent_home / "settings.json").write_text('{"cleanupPeriodDays": "never"}')
    assert expiry(agent_home).startswith("2026-03-04")


def test_only_main_sessions_can_be_resumed(synced: Store) -> None:
    resumed = claude_code.resume(find(synced, TODAY))
    assert (resumed.argv, resumed.cwd) == (("claude", "--resume", TODAY), "/w/app")
    for other in (REWOUND, f"{TODAY}/agent-a0000001", f"{OLD}/x1"):
        assert claude_code.resume(find(synced, other)).argv is None
        assert claude_code.resume(find(synced, other)).hint


@given(data=st.data())
def test_a_damaged_transcript_does_not_affect_others(tmp_path: Path, data: st.DataObject) -> None:
    agent_home = tmp_path / "fuzzed"
    shutil.rmtree(agent_home, ignore_errors=True)
    shutil.copytree(SAMPLE, agent_home)
    path = data.draw(st.sampled_from(sorted(agent_home.rglob("*.jsonl"))[:-1]))
    if content := path.read_bytes():
        path.write_bytes(data.draw(corrupted_lines(content)))
    neighbour = OLD if path.stem != OLD else COPY
    assert neighbour in read_all_sessions(claude_code, agent_home)
