"""This module reads ATIF trajectories. A sub-agent's trajectory inside another one is a session of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from store.errors import BadValue
from store.model.entry import Json, NewEntry, NewRecord
from store.model.session import SessionFields
from store.sources.atif.entries import parse_step, sub_agent_ids
from store.sources.contract import Batch, Problem, SessionRef, SourceReader
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import as_dict, as_list, as_str, as_time
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


class _Trajectory(NamedTuple):
    value: Mapping[str, Json]
    path: Path
    native_id: str
    parent: _Trajectory | None = None

    @property
    def steps(self) -> list[Mapping[str, Json]]:
        return [as_dict(step) for step in as_list(self.value.get("steps"))]

    def sub_agents(self) -> Iterator[_Trajectory]:
        """Yield the trajectories inside this one, and those inside them."""
        for value in map(as_dict, as_list(self.value.get("subagent_trajectories"))):
            if name := replace_surrogates(as_str(value.get("trajectory_id"))):
                inner = _Trajectory(value, self.path, f"{self.native_id}/{name}", self)
                yield inner
                yield from inner.sub_agents()


class AtifReader(SourceReader):
    def __init__(self, root: Path, source: Atif) -> None:
        super().__init__()
        self._root = root
        self._source = source
        self._paths: dict[str, Path] = {}
        "The path of the file, by native id."

    def scan(self) -> Iterator[SessionRef]:
        for path in self._source.files.find_files(self._root, self.problems):
            if not has_schema_version(path):
                continue
            stamp = jsonl.plain_file_stamp(path)
            value, problems = jsonl.load_json_file(path, stamp)
            self.problems += problems
            if not self._source.is_mine(value):
                if not problems:
                    self.problems.append(Problem(str(path), "It is not an ATIF trajectory."))
                continue
            for session in _list_trajectories(path, value):
                if session.native_id in self._paths:
                    message = f"Skipped: another copy of the session {session.native_id}."
                    self.problems.append(Problem(str(path), message))
                else:
                    self._paths[session.native_id] = path
                    yield SessionRef(session.native_id, stamp, _times(session)[1])

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        path = self._paths[ref.native_id]
        trajectory = _load_trajectories(path, jsonl.plain_file_stamp(path)).get(ref.native_id)
        if trajectory is None:
            return
        problems: list[Problem] = []
        header = {name: field for name, field in trajectory.value.items() if name not in _CHANGING_FIELDS}
        record = _make_record(header, trajectory, "header", problems)
        yield Batch(header=NewEntry(kind="header", record=record), fields=_session_fields(trajectory))
        yield from sqlite.build_batches(_read_entries(trajectory, problems), problems)


def _list_trajectories(path: Path, value: Mapping[str, Json]) -> list[_Trajectory]:
    trajectory = _Trajectory(value, path, _native_id(path, value))
    return [trajectory, *trajectory.sub_agents()]


@lru_cache(maxsize=1)
def _load_trajectories(path: Path, stamp: str) -> Mapping[str, _Trajectory]:
    """Return the trajectories of a file by native id. The last file is cached, because they are read one by one."""
    value, _ = jsonl.load_json_file(path, stamp)
    return {trajectory.native_id: trajectory for trajectory in reversed(_list_trajectories(path, value))}


def _native_id(path: Path, value: Mapping[str, Json]) -> str:
    """Return the id of the document. Several may share a session id; the file's name is the last resort."""
    name = as_str(value.get("trajectory_id")) or as_str(value.get("session_id")) or path.stem
    return replace_surrogates(name)


def _times(trajectory: _Trajectory) -> tuple[str, str]:
    """Return the first and the last time of the steps. Both are empty when no step has a time."""
    times = [time for step in trajectory.steps if (time := as_time(step.get("timestamp")))]
    return (min(times), max(times)) if times else ("", "")


def _session_fields(trajectory: _Trajectory) -> SessionFields:
    agent, metrics = as_dict(trajectory.value.get("agent")), as_dict(trajectory.value.get("final_metrics"))
    fields: SessionFields = {"channel": as_str(agent.get("name")), "model": as_str(agent.get("model_name"))}
    fields |= sqlite.time_fields(*_times(trajectory))
    fields |= jsonl.cost_fields(metrics.get("total_cost_usd") or _sum_costs(trajectory))
    if trajectory.parent:
        fields |= {"parent_id": trajectory.parent.native_id, "relation": "delegate"}
        if (position := _find_call(trajectory.parent, as_str(trajectory.value.get("trajectory_id")))) is not None:
            fields["forked_at"] = position
    return sanitize_fields(fields)


def _sum_costs(trajectory: _Trajectory) -> float:
    costs = (jsonl.cost_fields(as_dict(step.get("metrics")).get("cost_usd")) for step in trajectory.steps)
    return sum(cost.get("cost", 0.0) for cost in costs)


def _find_call(parent: _Trajectory, name: str) -> int | None:
    """Return the position, in the parent's chain, of the entry that started a sub-agent."""
    position = 0
    for step in parent.steps:
        if name in sub_agent_ids(step):
            return position
        position += sum(1 for _ in parse_step(step, ""))
    return None


def _read_entries(trajectory: _Trajectory, problems: list[Problem]) -> Iterator[list[NewEntry]]:
    model = as_str(as_dict(trajectory.value.get("agent")).get("model_name"))
    created_at = _times(trajectory)[0]
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


def _make_record(value: Json, trajectory: _Trajectory, position: str, problems: list[Problem]) -> NewRecord | None:
    inside = trajectory.native_id.partition("/")[2]
    position = f"{inside}:{position}" if inside else position
    try:
        return NewRecord(encode(value), path_text(trajectory.path), position)
    except BadValue as reason:
        problems.append(Problem(f"{trajectory.path}:{position}", str(reason)))
        return None
