"""This module reads ATIF trajectories. A sub-agent's trajectory inside another one is a session of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import BadValue
from store.model.entry import Json, NewEntry, NewRecord
from store.model.session import SessionFields
from store.sources.atif.entries import parse_step, sub_agent_ids
from store.sources.contract import Batch, Problem, SessionRef
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import as_dict, as_list, as_str, as_time
from store.sources.kit.nested_sessions import NestedSession, NestedSessionReader
from store.sources.kit.transcripts import path_text, sanitize_fields
from store.text.validate import encode, replace_surrogates

if TYPE_CHECKING:
    from store.sources.atif.source import Atif

_BEGINNING_BYTES = 64 * 1024
_CHANGING_FIELDS = ("steps", "subagent_trajectories", "final_metrics", "continued_trajectory_ref", "notes")
"""The fields that change while a run continues. They are left out of the header record."""


def has_schema_version(path: Path) -> bool:
    """Return whether a file begins like a trajectory. Only its beginning is read: a person may name a huge file."""
    try:
        with jsonl.open_file(path) as file:
            beginning = file.read(_BEGINNING_BYTES)
    except jsonl.PATH_ERRORS:
        return False
    return beginning.lstrip().startswith(b"{") and b'"schema_version"' in beginning and b'"ATIF-' in beginning


class AtifReader(NestedSessionReader):
    def __init__(self, root: Path, source: Atif) -> None:
        super().__init__(root, source.files)
        self._source = source

    def has_my_beginning(self, path: Path) -> bool:
        return has_schema_version(path)

    def find_fault(self, value: Mapping[str, Json]) -> str:
        return "" if self._source.is_mine(value) else "It is not an ATIF trajectory."

    def list_sessions(self, path: Path, value: Mapping[str, Json]) -> Iterator[NestedSession]:
        return _with_sub_agents(NestedSession(value, path, _native_id(path, value)))

    def find_times(self, session: NestedSession) -> tuple[str, str]:
        return _find_times(session)

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        trajectory = self.load_session(ref)
        if trajectory is None:
            return
        problems: list[Problem] = []
        header = {name: field for name, field in trajectory.value.items() if name not in _CHANGING_FIELDS}
        record = _make_record(header, trajectory, "header", problems)
        yield Batch(header=NewEntry(kind="header", record=record), fields=_session_fields(trajectory))
        yield from sqlite.build_batches(_read_entries(trajectory, problems), problems)


def _with_sub_agents(trajectory: NestedSession) -> Iterator[NestedSession]:
    """Yield a trajectory and those inside of it."""
    yield trajectory
    for value in trajectory.objects("subagent_trajectories"):
        if name := replace_surrogates(as_str(value.get("trajectory_id"))):
            native_id = f"{trajectory.native_id}/{name}"
            yield from _with_sub_agents(NestedSession(value, trajectory.path, native_id, trajectory))


def _native_id(path: Path, value: Mapping[str, Json]) -> str:
    """Return the id of the document. Several may share a session id; the file's name is the last resort."""
    name = as_str(value.get("trajectory_id")) or as_str(value.get("session_id")) or path.stem
    return replace_surrogates(name)


def _find_times(trajectory: NestedSession) -> tuple[str, str]:
    return trajectory.times("steps", "timestamp")


def _session_fields(trajectory: NestedSession) -> SessionFields:
    agent, metrics = as_dict(trajectory.value.get("agent")), as_dict(trajectory.value.get("final_metrics"))
    fields: SessionFields = {"channel": as_str(agent.get("name")), "model": as_str(agent.get("model_name"))}
    fields |= sqlite.time_fields(*_find_times(trajectory))
    fields |= jsonl.cost_fields(metrics.get("total_cost_usd") or _sum_costs(trajectory))
    if trajectory.parent:
        fields |= {"parent_id": trajectory.parent.native_id, "relation": "delegate"}
        if (position := _find_call(trajectory.parent, as_str(trajectory.value.get("trajectory_id")))) is not None:
            fields["forked_at"] = position
    return sanitize_fields(fields)


def _sum_costs(trajectory: NestedSession) -> float:
    costs = (jsonl.cost_fields(as_dict(step.get("metrics")).get("cost_usd")) for step in trajectory.objects("steps"))
    return sum(cost.get("cost", 0.0) for cost in costs)


def _find_call(parent: NestedSession, name: str) -> int | None:
    """Return the position, in the parent's chain, of the entry that started a sub-agent."""
    position = 0
    for step in parent.objects("steps"):
        if name in sub_agent_ids(step):
            return position
        position += sum(1 for _ in parse_step(step, ""))
    return None


def _read_entries(trajectory: NestedSession, problems: list[Problem]) -> Iterator[list[NewEntry]]:
    model = as_str(as_dict(trajectory.value.get("agent")).get("model_name"))
    created_at = _find_times(trajectory)[0]
    for number, value in enumerate(as_list(trajectory.value.get("steps")), 1):
        step = as_dict(value)
        created_at = as_time(step.get("timestamp")) or created_at
        record = _make_record(value, trajectory, str(number), problems)
        if record is None:
            continue
        entries = list(parse_step(step, model))
        for entry in entries:
            entry.record, entry.created_at = record, created_at
        yield entries


def _make_record(value: Json, trajectory: NestedSession, position: str, problems: list[Problem]) -> NewRecord | None:
    inside = trajectory.native_id.partition("/")[2]
    position = f"{inside}:{position}" if inside else position
    try:
        return NewRecord(encode(value), path_text(trajectory.path), position)
    except BadValue as reason:
        problems.append(Problem(f"{trajectory.path}:{position}", str(reason)))
        return None
