"""These tests check what is written: records byte for byte, trajectories that ATIF accepts, and no file lost."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest
from documents.export_sample import add_export_session, make_png

from store.errors import AlreadyExists, BadValue, NotFound, WriteFailed
from store.export.options import ExportFormat, ExportOptions, parse_turns
from store.export.writing import export_to_file, export_to_folder
from store.store import Store

FORMATS: tuple[ExportFormat, ...] = ("markdown", "html", "json", "atif", "raw")


def test_raw_is_the_records_byte_for_byte(store: Store, tmp_path: Path) -> None:
    session = add_export_session(store)
    written = export_to_file(store, session, ExportOptions("raw"), tmp_path / "all.jsonl")
    records = [data for _, data in store.records.iter_session(session.key)]
    data = (tmp_path / "all.jsonl").read_bytes()
    assert data == b"".join(record + b"\n" for record in records)
    assert written.receipt["sessions"][0]["records_sha256"] == hashlib.sha256(data).hexdigest()
    assert json.loads((tmp_path / "all.jsonl.receipt.json").read_bytes()) == written.receipt


def test_raw_cannot_leave_out_calls(store: Store, tmp_path: Path) -> None:
    with pytest.raises(BadValue, match="whole"):
        export_to_file(store, add_export_session(store), ExportOptions("raw", tools=False), tmp_path / "x")
    assert list(tmp_path.glob("x*")) == []


def test_atif_is_accepted_by_its_own_package(store: Store, tmp_path: Path) -> None:
    atif = pytest.importorskip("atif", reason="the package atif is not installed")
    session = add_export_session(store)
    export_to_file(store, session, ExportOptions("atif"), tmp_path / "all.json")
    trajectory = atif.Trajectory.model_validate_json((tmp_path / "all.json").read_bytes())
    assert trajectory.schema_version == "ATIF-v1.8"
    assert [step.source for step in trajectory.steps].count("user") == 2
    calls = [call.function_name for step in trajectory.steps for call in step.tool_calls or ()]
    assert calls == ["Bash", "Edit", "Bash", "Task"]
    first = next(step for step in trajectory.steps if step.tool_calls)
    assert first.reasoning_content == "The tax may be missing."
    assert first.observation.results[0].content == "cart.py:7: total = price\n"
    assert (first.metrics.prompt_tokens, first.metrics.cached_tokens) == (170, 30)
    (sub_agent,) = trajectory.subagent_trajectories
    task = next(step for step in trajectory.steps if step.tool_calls and step.tool_calls[0].function_name == "Task")
    assert task.observation.results[0].subagent_trajectory_ref[0].trajectory_id == sub_agent.trajectory_id
    assert trajectory.extra["receipt"]["left_out"][0]["what"] == "picture"


def test_atif_is_read_back(store: Store, tmp_path: Path) -> None:
    from store.sync.engine import import_targets
    from store.sync.targets import find_targets

    export_to_file(store, add_export_session(store), ExportOptions("atif"), tmp_path / "all.json")
    for _ in import_targets(store, find_targets([str(tmp_path / "all.json")])):
        pass
    session = store.sessions.get("atif:shop-1")
    assert (session.turns, session.tool_calls) == (2, 4)
    assert [child.id for child in store.sessions.children(session.id)] == ["atif:shop-1/shop-1/docs"]


@pytest.mark.parametrize("export_format", FORMATS)
def test_a_file_is_never_replaced_silently(store: Store, tmp_path: Path, export_format: ExportFormat) -> None:
    session, path = add_export_session(store), tmp_path / "mine"
    path.write_text("mine")
    with pytest.raises(AlreadyExists, match="--force"):
        export_to_file(store, session, ExportOptions(export_format), path)
    assert path.read_text() == "mine"
    assert sorted(os.listdir(tmp_path)).count("mine") == 1
    export_to_file(store, session, ExportOptions(export_format), path, replace=True)
    assert path.stat().st_size > 100
    assert path.stat().st_mode & 0o777 == 0o600
    assert not list(tmp_path.glob(".*.tmp"))


def test_a_failed_export_leaves_nothing(store: Store, tmp_path: Path) -> None:
    session, folder = add_export_session(store), tmp_path / "out"
    folder.mkdir()
    with pytest.raises(NotFound, match="The last turn is 2"):
        export_to_file(store, session, ExportOptions("html", turns=(7, 9)), folder / "x.html")
    with pytest.raises(WriteFailed, match="Cannot write"):
        export_to_file(store, session, ExportOptions("html"), folder / "missing" / "x.html")
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("export_format", FORMATS)
def test_several_sessions_make_a_folder_with_an_index(
    store: Store, tmp_path: Path, export_format: ExportFormat
) -> None:
    sessions = [add_export_session(store, "shop:1"), add_export_session(store, "shop/1")]
    folder = tmp_path / "out"
    written = export_to_folder(store, sessions, ExportOptions(export_format), folder)
    names = {path.name for path in folder.iterdir()}
    assert {export.path.name for export in written if export.path} <= names
    assert len({export.path for export in written}) == 2
    index = next(folder.glob("index.*")).read_text()
    assert all(export.path and export.path.name in index for export in written)
    assert index.count("Fix the total") == 2
    with pytest.raises(AlreadyExists):
        export_to_folder(store, sessions, ExportOptions(export_format), folder)


def test_json_has_every_entry_record_and_edit(store: Store, tmp_path: Path) -> None:
    session = add_export_session(store)
    export_to_file(store, session, ExportOptions("json"), tmp_path / "all.json")
    value = json.loads((tmp_path / "all.json").read_bytes())
    assert (value["backscroll_export"], value["is_excerpt"]) == (1, False)
    assert [entry["seq"] for entry in value["entries"]] == list(range(-1, session.entries))
    assert make_png() in json.dumps(value["entries"][1]["record"])
    assert value["kept"]["tags"] == ["billing"]
    assert [note["entry_seq"] for note in value["kept"]["notes"]] == [None, 2]
    assert value["kept"]["summaries"][0]["text"] == "The tax was missing in `cart.py`."
    assert [child["session"]["id"] for child in value["sub_agents"]] == ["shop-1/docs"]


@pytest.mark.parametrize(
    ("text", "turns"), [("3", (3, 3)), ("3-7", (3, 7)), ("-7", (1, 7)), ("0-2", (0, 2)), ("3-", (3, 2**31))]
)
def test_turns_are_parsed(text: str, turns: tuple[int, int]) -> None:
    assert parse_turns(text) == turns


@pytest.mark.parametrize("text", ["", "-", "x", "7-3", "1-2-3", "--2"])
def test_other_turns_are_refused(text: str) -> None:
    with pytest.raises(BadValue, match="Not turns"):
        parse_turns(text)
