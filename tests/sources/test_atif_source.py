"""These tests read ATIF trajectories: steps, tool calls and observations, sub-agents inside a trajectory, and damaged
files."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from atif import Trajectory
from foreign_databases import stored_entries, stored_texts, sync_paths
from hypothesis import given
from hypothesis import strategies as st
from stored_records import read_stored_records
from transcript_fuzzer import corrupted_json, read_all_sessions

from store.errors import Unreadable
from store.model.entry import Attachment, Text, Thinking, Tokens, ToolCall, ToolResult
from store.resume.command import plan_resume
from store.sources.atif.source import Atif
from store.store import Store

atif = Atif()

SAMPLE = Path(__file__).parents[1] / "data/atif"
TRIAL, OTHER = "trial-1-b5e0", "run-7f21-2"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "jobs"))


@pytest.fixture
def path(folder: Path) -> Path:
    return folder / "run-1/trial-1/agent/trajectory.json"


def load(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_bytes())
    return value


@pytest.mark.parametrize("sample", sorted(SAMPLE.rglob("trajectory.json")), ids=lambda path: path.parts[-3])
def test_the_samples_are_what_the_format_defines(sample: Path) -> None:
    assert Trajectory.model_validate_json(sample.read_bytes()).schema_version == "ATIF-v1.8"


def test_a_folder_of_runs_is_read(store: Store, folder: Path) -> None:
    report = sync_paths(store, folder)
    assert (report.source, report.seen, report.problems) == ("atif", 3, [])
    session = store.sessions.find(TRIAL)
    assert (session.channel, session.model, session.turns, session.tool_calls) == ("terminus", "acme/large-3", 2, 3)
    assert (session.created_at[:19], session.updated_at[:19]) == ("2026-04-02T08:00:00", "2026-04-02T08:01:41")
    assert session.cost == pytest.approx(0.0061)
    assert stored_texts(store, OTHER) == [
        "List the open ports.",
        "",
        "The terminal was reset.",
        "Only 5432 is open, on the local address.",
    ]


def test_a_single_file_is_read(store: Store, path: Path) -> None:
    assert sync_paths(store, path).seen == 2


def test_a_step_becomes_a_message_and_its_tool_results(store: Store, path: Path) -> None:
    sync_paths(store, path)
    entries = stored_entries(store, TRIAL)
    assert [entry.role for entry in entries] == [
        *("system", "user", "assistant", "tool", "assistant", "tool", "assistant", "user", "assistant")
    ]
    step, results = entries[2], entries[3]
    assert step.parts == (
        Thinking("The log says which file fails."),
        Text("I look at the log first."),
        ToolCall("call-1", "bash", {"command": "make 2>&1 | tail -3"}),
        ToolCall("call-2", "read_file", {"path": "parser.c"}),
    )
    assert (step.model, step.tokens) == ("acme/large-3", Tokens(200, 85, 1000))
    assert entries[4].model == "acme/small-1"
    assert step.record == results.record
    assert [part.call_id for part in results.parts if isinstance(part, ToolResult)] == ["call-1", "call-2"]
    assert entries[7].parts[1] == Attachment("image/png", "error.png", uri="images/error.png")


def test_a_sub_agent_is_a_session_of_its_own(store: Store, path: Path) -> None:
    sync_paths(store, path)
    inner = store.sessions.find(f"{TRIAL}/tester-1")
    assert (inner.parent_id, inner.relation) == (f"atif:{TRIAL}", "delegate")
    assert inner.forked_at is not None
    assert stored_entries(store, TRIAL)[inner.forked_at].text == "A sub-agent writes the test."
    assert stored_texts(store, f"{TRIAL}/tester-1") == ["Write a test for parse().", "The test is in test_parser.c."]


def test_every_step_is_kept(store: Store, path: Path) -> None:
    sync_paths(store, path)
    records = [json.loads(data) for data in read_stored_records(store)]
    trajectory = load(path)
    for step in (*trajectory["steps"], *trajectory["subagent_trajectories"][0]["steps"]):
        assert step in records


def test_a_run_that_continues_is_read_on(store: Store, path: Path) -> None:
    trajectory = load(path)
    steps, trajectory["steps"] = trajectory["steps"], trajectory["steps"][:3]
    path.write_text(json.dumps(trajectory))
    sync_paths(store, path)
    trajectory |= {"steps": steps, "notes": "It was interrupted once."}
    path.write_text(json.dumps(trajectory))
    assert sync_paths(store, path).problems == []
    assert len(stored_entries(store, TRIAL)) == 9
    assert not store.row("select 1 from sessions where relation = 'superseded'")


def test_other_json_is_no_trajectory(store: Store, folder: Path) -> None:
    assert not atif.detect(str(folder / "run-1/result.json"))
    (folder / "false.json").write_text('{"schema_version": "ATIF-v1.8"}')
    report = sync_paths(store, folder)
    assert (report.seen, [problem.reason for problem in report.problems]) == (3, ["It is not an ATIF trajectory."])
    with pytest.raises(Unreadable):
        sync_paths(store, folder / "run-1/result.json")


def test_a_copy_is_left_out(store: Store, folder: Path, path: Path) -> None:
    shutil.copy(path, folder / "zzz.json")
    report = sync_paths(store, folder)
    assert (report.seen, len(report.problems)) == (3, 2)
    assert all("another copy" in problem.reason for problem in report.problems)


def test_only_named_files_are_read() -> None:
    assert list(atif.roots()) == []


def test_a_run_cannot_be_resumed(store: Store, path: Path) -> None:
    sync_paths(store, path)
    plan = plan_resume(store.sessions.find(TRIAL))
    assert (plan.argv, plan.hint) == (None, "A trajectory is the record of a finished run. It cannot be resumed.")


@given(data=st.data())
def test_any_values_do_no_harm(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("atif")
    original = (SAMPLE / "run-1/trial-1/agent/trajectory.json").read_bytes()
    (folder / "broken.json").write_bytes(data.draw(corrupted_json(original)))
    shutil.copy(SAMPLE / "run-1/trial-2/agent/trajectory.json", folder / "whole.json")
    assert OTHER in read_all_sessions(atif, folder)


@given(end=st.integers(0, 5_000))
def test_a_file_that_is_cut_off_is_a_problem(end: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("atif")
    original = (SAMPLE / "run-1/trial-1/agent/trajectory.json").read_bytes().strip()
    (folder / "broken.json").write_bytes(original[: min(end, len(original) - 1)])
    shutil.copy(SAMPLE / "run-1/trial-2/agent/trajectory.json", folder / "whole.json")
    with atif.open(str(folder)) as reader:
        assert [ref.native_id for ref in reader.scan()] == [OTHER]
