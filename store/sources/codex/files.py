"""This module finds the rollouts of Codex. A thread may have several, each of which continues another one from some
line on."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from store.errors import BadValue, StoreError
from store.model.entry import Json
from store.sources.codex.layout import LAYOUT, find_databases
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import (
    MAX_LINE_BYTES,
    PATH_ERRORS,
    JsonLine,
    LineCache,
    as_dict,
    as_str,
    as_time,
    open_file,
    parse_json,
    plain_file_stamp,
    read_json_lines,
)
from store.text.validate import replace_surrogates

ARCHIVE_FOLDER = "archived_sessions"
NO_END = 2**63
_KNOWN_META_FIELDS = frozenset(["cwd", "originator", "cli_version", "model_provider", "instructions"])

_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_FILE_NAME = re.compile(rf"rollout-(?P<at>.*?)-(?P<thread>{_UUID})(?:_(?P<rollout>{_UUID}))?\.jsonl(?:\.zst)?")


class Rollout(NamedTuple):
    started_at: str
    "The time in the file name."
    id: str
    "Equals the thread's id for its first rollout."
    thread_id: str
    path: Path

    @property
    def is_archived(self) -> bool:
        return ARCHIVE_FOLDER in self.path.parts


class RolloutBase(NamedTuple):
    "Names the rollout that another one continues, and the line before which it does so."

    rollout_id: str
    end_ordinal: int


def find_rollouts(locator: Path, problems: list[Problem]) -> Iterator[Rollout]:
    if locator.is_file():
        if rollout := _make_rollout(locator):
            yield rollout
        return
    is_home = LAYOUT.has_folders(locator)
    for path in LAYOUT.walk(locator, problems):
        # Among loose files there are those of other agents, and rollouts that a person renamed.
        if (LAYOUT.is_transcript(path) if is_home else has_rollout_name(path) or is_rollout(path)) and (
            rollout := _make_rollout(path)
        ):
            yield rollout


def has_rollout_name(path: Path) -> bool:
    return _FILE_NAME.fullmatch(path.name) is not None


def is_rollout(path: Path) -> bool:
    """Return whether the first line of a file describes a thread of Codex."""
    meta, _ = read_meta(path)
    return bool(_KNOWN_META_FIELDS & meta.keys()) and isinstance(meta.get("id"), str)


def _make_rollout(path: Path) -> Rollout | None:
    if match := _FILE_NAME.fullmatch(path.name):
        return Rollout(match["at"], match["rollout"] or match["thread"], match["thread"], path)
    meta, _ = read_meta(path)
    thread = replace_surrogates(as_str(meta.get("id")))
    return Rollout(as_str(meta.get("timestamp")), thread, thread, path) if thread else None


BARE_ITEM_TYPES = frozenset(
    "message reasoning function_call function_call_output local_shell_call custom_tool_call custom_tool_call_output"
    " web_search_call".split()
)


def unwrap_line(value: Json) -> tuple[str, dict[str, Json]]:
    """Return the kind and the payload of a line. Before version 0.32 the payload had no envelope."""
    fields = as_dict(value)
    kind, payload = as_str(fields.get("type")), fields.get("payload")
    if type(payload) is dict:
        return kind, payload
    if "record_type" in fields:
        return "state", dict(fields)
    if not kind and "id" in fields and "timestamp" in fields:
        return "session_meta", dict(fields)
    return ("response_item", dict(fields)) if kind in BARE_ITEM_TYPES else (kind, dict(fields))


class RolloutLine:
    """Is a line of a rollout with what was found out about it once, since several readers ask for it."""

    __slots__ = ("kind", "line", "ordinal", "payload", "time")

    def __init__(self, line: JsonLine) -> None:
        fields = as_dict(line.value)
        ordinal = fields.get("ordinal")
        self.line = line
        self.kind, self.payload = unwrap_line(fields)
        self.time = as_time(fields.get("timestamp"))
        self.ordinal = ordinal if type(ordinal) is int else None


_lines = LineCache(RolloutLine)


def read_meta(path: Path) -> tuple[dict[str, Json], JsonLine | None]:
    """Return the metadata in the first line of a rollout, and the line itself."""
    return _read_meta(path, plain_file_stamp(path))


@lru_cache(maxsize=64)
def _read_meta(path: Path, stamp: str) -> tuple[dict[str, Json], JsonLine | None]:
    first = next(read_json_lines(path, []), None)
    if first is None:
        return {}, None
    kind, payload = unwrap_line(first.value)
    return (payload, first) if kind == "session_meta" else ({}, None)


class _Beginning(NamedTuple):
    "Says what the first line of a rollout tells."

    is_whole: bool
    "Is not set while Codex is still writing the line. Nothing is known of the thread before."
    base: RolloutBase | None = None


@lru_cache(maxsize=65_536)
def _read_beginning(path: Path, stamp: str) -> _Beginning:
    """Read the first line of a rollout. This has a cache of its own: every rollout is asked whenever one has changed,
    and the complete metadata of all would take too much memory."""
    meta, line = read_meta(path)
    base = as_dict(meta.get("history_base"))
    rollout, end = as_str(base.get("thread_id")), base.get("end_ordinal_exclusive")
    is_whole = line is not None or _has_whole_line(path)
    return _Beginning(is_whole, RolloutBase(rollout, end) if type(end) is int else None)


def _has_whole_line(path: Path) -> bool:
    """Return whether a rollout has a line that is not being written. One that cannot be read is reported later."""
    try:
        with open_file(path) as file:
            first = file.readline(MAX_LINE_BYTES)
            return len(first) == MAX_LINE_BYTES or first.endswith(b"\n") or isinstance(parse_json(first), dict)
    except PATH_ERRORS:
        return True
    except BadValue:
        return False


def has_rollback(path: Path) -> bool:
    return _has_rollback(path, plain_file_stamp(path))


@lru_cache(maxsize=65_536)
def _has_rollback(path: Path, stamp: str) -> bool:
    """Return whether a rollout has a rollback. Only the bytes are searched, since rollbacks are rare."""
    overlap = b""
    with suppress(*PATH_ERRORS), open_file(path) as file:
        while chunk := file.read(1 << 20):
            if b'"thread_rolled_back"' in overlap + chunk:
                return True
            overlap = chunk[-32:]
    return False


class RolloutCatalog:
    """Lists all rollouts of a folder, by thread and by rollout id."""

    def __init__(self, locator: Path, problems: list[Problem]) -> None:
        by_name: dict[str, Rollout] = {}
        for rollout in find_rollouts(locator, problems):
            name = rollout.path.name.removesuffix(".zst")
            existing = by_name.get(name)
            # The plain file wins over the compressed one, which is about to be removed.
            if existing is None or existing.path.suffix == ".zst":
                by_name[name] = rollout
        self.by_id: dict[str, Rollout] = {}
        self.threads: dict[str, list[Rollout]] = {}
        self._segments: dict[Rollout, list[tuple[Rollout, int]]] = {}
        for rollout in sorted(by_name.values()):
            if not _read_beginning(rollout.path, plain_file_stamp(rollout.path)).is_whole:
                continue
            self.by_id[rollout.id] = rollout
            self.threads.setdefault(rollout.thread_id, []).append(rollout)

    def find_base(self, rollout: Rollout) -> RolloutBase | None:
        base = _read_beginning(rollout.path, plain_file_stamp(rollout.path)).base
        return base if base and base.rollout_id in self.by_id else None

    def segments(self, rollout: Rollout) -> list[tuple[Rollout, int]]:
        """Return the rollouts that a thread consists of, each with the line from which the next one continues."""
        if rollout not in self._segments:
            self._segments[rollout] = self._collect_segments(rollout)
        return self._segments[rollout]

    def _collect_segments(self, rollout: Rollout) -> list[tuple[Rollout, int]]:
        segments: list[tuple[Rollout, int]] = [(rollout, NO_END)]
        seen, end = {rollout.id}, NO_END
        while (base := self.find_base(segments[0][0])) is not None and base.rollout_id not in seen:
            end = min(end, base.end_ordinal)
            seen.add(base.rollout_id)
            segments.insert(0, (self.by_id[base.rollout_id], end))
        return segments

    def segment_stamps(self, rollout: Rollout) -> str:
        return " ".join(plain_file_stamp(segment.path) for segment, _ in self.segments(rollout))


def read_segment_lines(
    segments: Iterable[tuple[Rollout, int]],
    problems: list[Problem],
    reports_problems: Callable[[Rollout], bool] = lambda rollout: True,
) -> Iterator[tuple[Rollout, int, RolloutLine]]:
    """Yield the lines of a thread with their rollouts and ordinals."""
    for rollout, end in segments:
        for index, line in enumerate(_lines.read(rollout.path, problems if reports_problems(rollout) else [])):
            number = index if line.ordinal is None else line.ordinal
            if number >= end:
                break
            yield rollout, number, line


# ── the lists of threads that Codex keeps ─────────────────────────────────────────────────────────


class ThreadInfo(NamedTuple):
    title: str = ""
    is_archived: bool = False
    parent_id: str = ""
    "The thread that spawned it."


def read_thread_infos(root: Path) -> dict[str, ThreadInfo]:
    """Return the titles that people gave, and more, by thread. The lists of Codex are caches and may be missing."""
    infos: dict[str, ThreadInfo] = {}
    for path in find_databases(root)[-1:]:
        with suppress(StoreError, *sqlite.SQLITE_ERRORS):
            infos = dict(_read_threads(path))
    for line in read_json_lines(root / "session_index.jsonl", []):
        value = as_dict(line.value)
        thread, name = as_str(value.get("id")), as_str(value.get("thread_name"))
        if thread and name:
            infos[thread] = infos.get(thread, ThreadInfo())._replace(title=name)
    return infos


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
            texts = {
                name: sqlite.as_text(row[name]) for name in ("name", "title", "first_user_message") if name in columns
            }
            # A title equal to the first prompt was not given by a person.
            title = texts.get("title", "") if texts.get("title") != texts.get("first_user_message") else ""
            archived = "archived" in columns and row["archived"] == 1
            thread = sqlite.as_text(row["id"])
            yield thread, ThreadInfo(texts.get("name") or title, archived, parents.get(thread, ""))
