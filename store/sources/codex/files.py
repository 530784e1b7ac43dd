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
from store.sources.codex.layout import DEPTH, SUFFIXES, databases, folders_of
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import (
    UNREADABLE,
    Line,
    file_digest_stamp,
    held_lines,
    json_lines,
    mapping,
    opened,
    walk,
    words,
)
from store.text.validate import column_text

ARCHIVED = "archived_sessions"
END = 2**63

_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_NAME = re.compile(rf"rollout-(?P<at>.*?)-(?P<thread>{_UUID})(?:_(?P<rollout>{_UUID}))?\.jsonl(?:\.zst)?")


class Rollout(NamedTuple):
    at: str
    "When it was begun, as its name says."
    id: str
    "The thread's own for its first one."
    thread: str
    path: Path

    @property
    def is_archived(self) -> bool:
        return ARCHIVED in self.path.parts


class Base(NamedTuple):
    "What a rollout goes on from: another one, up to but without a line."

    rollout: str
    end: int


def rollouts(locator: Path, problems: list[Problem]) -> Iterator[Rollout]:
    if locator.is_file():
        if found := _rollout(locator):
            yield found
        return
    for folder in folders_of(locator):
        for path in walk(folder, problems, suffixes=SUFFIXES, depth=DEPTH):
            if path.name.startswith("rollout-") and (found := _rollout(path)):
                yield found


def _rollout(path: Path) -> Rollout | None:
    if named := _NAME.fullmatch(path.name):
        return Rollout(named["at"], named["rollout"] or named["thread"], named["thread"], path)
    meta, _ = meta_of(path)
    thread = column_text(words(meta.get("id")))
    return Rollout(words(meta.get("timestamp")), thread, thread, path) if thread else None


def understood(value: Json) -> tuple[str, dict[str, Json]]:
    """Kind and payload of a line; before 0.32 there was no envelope around the payload."""
    told = mapping(value)
    kind, payload = words(told.get("type")), told.get("payload")
    if type(payload) is dict:
        return kind, payload
    if "record_type" in told:
        return "state", dict(told)
    if not kind and "id" in told and "timestamp" in told:
        return "session_meta", dict(told)
    return ("response_item", dict(told)) if kind in BARE else (kind, dict(told))


BARE = frozenset(
    "message reasoning function_call function_call_output local_shell_call custom_tool_call custom_tool_call_output"
    " web_search_call".split()
)


def meta_of(path: Path) -> tuple[dict[str, Json], Line | None]:
    """What a rollout says of itself in its first line."""
    return _meta(path, file_digest_stamp(path))


@lru_cache(maxsize=64)
def _meta(path: Path, stamp: str) -> tuple[dict[str, Json], Line | None]:
    first = next(json_lines(path, []), None)
    if first is None:
        return {}, None
    kind, payload = understood(first.value)
    return (payload, first) if kind == "session_meta" else ({}, None)


@lru_cache(maxsize=65_536)
def _base(path: Path, stamp: str) -> Base | None:
    """Asked of every rollout whenever one of them has changed, while what else they say of themselves takes room."""
    told = mapping(meta_of(path)[0].get("history_base"))
    rollout, end = words(told.get("thread_id")), told.get("end_ordinal_exclusive")
    return Base(rollout, end) if isinstance(end, int) and not isinstance(end, bool) else None


def rolls_back(path: Path) -> bool:
    return _rolls_back(path, file_digest_stamp(path))


@lru_cache(maxsize=65_536)
def _rolls_back(path: Path, stamp: str) -> bool:
    """Looked for in the bytes, since nearly none does."""
    rest = b""
    with suppress(*UNREADABLE), opened(path) as file:
        while chunk := file.read(1 << 20):
            if b'"thread_rolled_back"' in rest + chunk:
                return True
            rest = chunk[-32:]
    return False


class Found:
    """All rollouts of a place, by thread and by their own ids."""

    def __init__(self, locator: Path, problems: list[Problem]) -> None:
        kept: dict[str, Rollout] = {}
        for one in rollouts(locator, problems):
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
            self.threads.setdefault(one.thread, []).append(one)

    def base(self, one: Rollout) -> Base | None:
        base = _base(one.path, file_digest_stamp(one.path))
        return base if base and base.rollout in self.by_id else None

    def segments(self, one: Rollout) -> list[tuple[Rollout, int]]:
        """The rollouts that a thread consists of, each with the line where the next one goes on."""
        if one not in self._segments:
            self._segments[one] = self._gathered(one)
        return self._segments[one]

    def _gathered(self, one: Rollout) -> list[tuple[Rollout, int]]:
        found: list[tuple[Rollout, int]] = [(one, END)]
        seen, end = {one.id}, END
        while (base := self.base(found[0][0])) is not None and base.rollout not in seen:
            end = min(end, base.end)
            seen.add(base.rollout)
            found.insert(0, (self.by_id[base.rollout], end))
        return found

    def stamps(self, one: Rollout) -> str:
        return " ".join(file_digest_stamp(rollout.path) for rollout, _ in self.segments(one))


def lines_of(
    segments: Iterable[tuple[Rollout, int]],
    problems: list[Problem],
    answers_for: Callable[[Rollout], bool] = lambda rollout: True,
) -> Iterator[tuple[Rollout, int, Line]]:
    """The lines of a thread with their ordinals."""
    for rollout, end in segments:
        for place, line in enumerate(held_lines(rollout.path, problems if answers_for(rollout) else [])):
            ordinal = mapping(line.value).get("ordinal")
            at = ordinal if type(ordinal) is int else place
            if at >= end:
                break
            yield rollout, at, line


# ── what Codex keeps beside ───────────────────────────────────────────────────────────────────────


class Named(NamedTuple):
    title: str = ""
    is_archived: bool = False
    parent: str = ""
    "The thread that spawned it."


def names(root: Path) -> dict[str, Named]:
    """Titles by thread: what a person called it. The lists that Codex keeps are caches, and may be absent."""
    found: dict[str, Named] = {}
    for path in databases(root)[-1:]:
        with suppress(StoreError, *sqlite.BROKEN):
            found = dict(_listed(path))
    for line in json_lines(root / "session_index.jsonl", []):
        value = mapping(line.value)
        thread, name = words(value.get("id")), words(value.get("thread_name"))
        if thread and name:
            found[thread] = found.get(thread, Named())._replace(title=name)
    return found


def _listed(path: Path) -> Iterator[tuple[str, Named]]:
    with sqlite.snapshot(path, check=False) as connection:
        tables = sqlite.tables(connection)
        columns = tables.get("threads", frozenset())
        parents: dict[str, str] = {}
        if {"parent_thread_id", "child_thread_id"} <= tables.get("thread_spawn_edges", frozenset()):
            for edge in sqlite.rows(connection, "thread_spawn_edges", []):
                parents[sqlite.text(edge["child_thread_id"])] = sqlite.text(edge["parent_thread_id"])
        if "id" not in columns:
            return
        for row in sqlite.rows(connection, "threads", []):
            told = {name: sqlite.text(row[name]) for name in ("name", "title", "first_user_message") if name in columns}
            # A title that is but the first prompt is no name that anybody gave.
            title = told.get("title", "") if told.get("title") != told.get("first_user_message") else ""
            archived = "archived" in columns and row["archived"] == 1
            thread = sqlite.text(row["id"])
            yield thread, Named(told.get("name") or title, archived, parents.get(thread, ""))
