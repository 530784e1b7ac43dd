"""Where Codex keeps its rollouts. A thread may be written in several: each goes on from some point of another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from store.errors import StoreError
from store.model.entry import Json
from store.sources.codex.layout import DEPTH, SUFFIXES, find_databases, rollout_folders
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import (
    PATH_ERRORS,
    JsonLine,
    as_dict,
    as_str,
    open_file,
    plain_file_stamp,
    read_cached_lines,
    read_json_lines,
    walk_files,
)
from store.text.validate import replace_surrogates

ARCHIVE_FOLDER = "archived_sessions"
NO_END = 2**63

_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_FILE_NAME = re.compile(rf"rollout-(?P<at>.*?)-(?P<thread>{_UUID})(?:_(?P<rollout>{_UUID}))?\.jsonl(?:\.zst)?")


class Rollout(NamedTuple):
    started_at: str
    "When it was begun, as its name says."
    id: str
    "The thread's own for its first one."
    thread_id: str
    path: Path

    @property
    def is_archived(self) -> bool:
        return ARCHIVE_FOLDER in self.path.parts


class RolloutBase(NamedTuple):
    "What a rollout goes on from: another one, up to but without a line."

    rollout_id: str
    end_ordinal: int


def find_rollouts(locator: Path, problems: list[Problem]) -> Iterator[Rollout]:
    if locator.is_file():
        if found := _make_rollout(locator):
            yield found
        return
    for folder in rollout_folders(locator):
        for path in walk_files(folder, problems, suffixes=SUFFIXES, depth=DEPTH):
            if path.name.startswith("rollout-") and (found := _make_rollout(path)):
                yield found


def _make_rollout(path: Path) -> Rollout | None:
    if named := _FILE_NAME.fullmatch(path.name):
        return Rollout(named["at"], named["rollout"] or named["thread"], named["thread"], path)
    meta, _ = read_meta(path)
    thread = replace_surrogates(as_str(meta.get("id")))
    return Rollout(as_str(meta.get("timestamp")), thread, thread, path) if thread else None


def unwrap_line(value: Json) -> tuple[str, dict[str, Json]]:
    """Kind and payload of a line; before 0.32 there was no envelope around the payload."""
    told = as_dict(value)
    kind, payload = as_str(told.get("type")), told.get("payload")
    if type(payload) is dict:
        return kind, payload
    if "record_type" in told:
        return "state", dict(told)
    if not kind and "id" in told and "timestamp" in told:
        return "session_meta", dict(told)
    return ("response_item", dict(told)) if kind in BARE_ITEM_TYPES else (kind, dict(told))


BARE_ITEM_TYPES = frozenset(
    "message reasoning function_call function_call_output local_shell_call custom_tool_call custom_tool_call_output"
    " web_search_call".split()
)


def read_meta(path: Path) -> tuple[dict[str, Json], JsonLine | None]:
    """What a rollout says of itself in its first line."""
    return _read_meta(path, plain_file_stamp(path))


@lru_cache(maxsize=64)
def _read_meta(path: Path, stamp: str) -> tuple[dict[str, Json], JsonLine | None]:
    first = next(read_json_lines(path, []), None)
    if first is None:
        return {}, None
    kind, payload = unwrap_line(first.value)
    return (payload, first) if kind == "session_meta" else ({}, None)


@lru_cache(maxsize=65_536)
def _read_base(path: Path, stamp: str) -> RolloutBase | None:
    """Asked of every rollout whenever one of them has changed, while what else they say of themselves takes room."""
    told = as_dict(read_meta(path)[0].get("history_base"))
    rollout, end = as_str(told.get("thread_id")), told.get("end_ordinal_exclusive")
    return RolloutBase(rollout, end) if isinstance(end, int) and not isinstance(end, bool) else None


def has_rollback(path: Path) -> bool:
    return _has_rollback(path, plain_file_stamp(path))


@lru_cache(maxsize=65_536)
def _has_rollback(path: Path, stamp: str) -> bool:
    """Looked for in the bytes, since nearly none does."""
    rest = b""
    with suppress(*PATH_ERRORS), open_file(path) as file:
        while chunk := file.read(1 << 20):
            if b'"thread_rolled_back"' in rest + chunk:
                return True
            rest = chunk[-32:]
    return False


class RolloutCatalog:
    """All rollouts of a place, by thread and by their own ids."""

    def __init__(self, locator: Path, problems: list[Problem]) -> None:
        kept: dict[str, Rollout] = {}
        for one in find_rollouts(locator, problems):
            name = one.path.name.removesuffix(".zst")
            before = kept.get(name)
            # The plain one wins over the packed one, which is about to be removed.
            if before is None or before.path.suffix == ".zst":
                kept[name] = one
        self.by_id: dict[str, Rollout] = {}
        self.threads: dict[str, list[Rollout]] = {}
        self._segments: dict[Rollout, list[tuple[Rollout, int]]] = {}
        for one in sorted(kept.values()):
            self.by_id[one.id] = one
            self.threads.setdefault(one.thread_id, []).append(one)

    def find_base(self, one: Rollout) -> RolloutBase | None:
        base = _read_base(one.path, plain_file_stamp(one.path))
        return base if base and base.rollout_id in self.by_id else None

    def segments(self, one: Rollout) -> list[tuple[Rollout, int]]:
        """The rollouts that a thread consists of, each with the line where the next one goes on."""
        if one not in self._segments:
            self._segments[one] = self._collect_segments(one)
        return self._segments[one]

    def _collect_segments(self, one: Rollout) -> list[tuple[Rollout, int]]:
        found: list[tuple[Rollout, int]] = [(one, NO_END)]
        seen, end = {one.id}, NO_END
        while (base := self.find_base(found[0][0])) is not None and base.rollout_id not in seen:
            end = min(end, base.end_ordinal)
            seen.add(base.rollout_id)
            found.insert(0, (self.by_id[base.rollout_id], end))
        return found

    def segment_stamps(self, one: Rollout) -> str:
        return " ".join(plain_file_stamp(rollout.path) for rollout, _ in self.segments(one))


def read_segment_lines(
    segments: Iterable[tuple[Rollout, int]],
    problems: list[Problem],
    reports_problems: Callable[[Rollout], bool] = lambda rollout: True,
) -> Iterator[tuple[Rollout, int, JsonLine]]:
    """The lines of a thread with their ordinals."""
    for rollout, end in segments:
        for place, line in enumerate(read_cached_lines(rollout.path, problems if reports_problems(rollout) else [])):
            ordinal = as_dict(line.value).get("ordinal")
            at = ordinal if type(ordinal) is int else place
            if at >= end:
                break
            yield rollout, at, line


# ── what Codex keeps beside ───────────────────────────────────────────────────────────────────────


class ThreadInfo(NamedTuple):
    title: str = ""
    is_archived: bool = False
    parent_id: str = ""
    "The thread that spawned it."


def read_thread_infos(root: Path) -> dict[str, ThreadInfo]:
    """Titles by thread: what a person called it. The lists that Codex keeps are caches, and may be absent."""
    found: dict[str, ThreadInfo] = {}
    for path in find_databases(root)[-1:]:
        with suppress(StoreError, *sqlite.SQLITE_ERRORS):
            found = dict(_read_threads(path))
    for line in read_json_lines(root / "session_index.jsonl", []):
        value = as_dict(line.value)
        thread, name = as_str(value.get("id")), as_str(value.get("thread_name"))
        if thread and name:
            found[thread] = found.get(thread, ThreadInfo())._replace(title=name)
    return found


def _read_threads(path: Path) -> Iterator[tuple[str, ThreadInfo]]:
    with sqlite.snapshot(path, check=False) as connection:
        tables = sqlite.read_tables(connection)
        columns = tables.get("threads", frozenset())
        parents: dict[str, str] = {}
        if {"parent_thread_id", "child_thread_id"} <= tables.get("thread_spawn_edges", frozenset()):
            for edge in sqlite.read_rows(connection, "thread_spawn_edges", []):
                parents[sqlite.as_text(edge["child_thread_id"])] = sqlite.as_text(edge["parent_thread_id"])
        if "id" not in columns:
            return
        for row in sqlite.read_rows(connection, "threads", []):
            told = {
                name: sqlite.as_text(row[name]) for name in ("name", "title", "first_user_message") if name in columns
            }
            # A title that is but the first prompt is no name that anybody gave.
            title = told.get("title", "") if told.get("title") != told.get("first_user_message") else ""
            archived = "archived" in columns and row["archived"] == 1
            thread = sqlite.as_text(row["id"])
            yield thread, ThreadInfo(told.get("name") or title, archived, parents.get(thread, ""))
