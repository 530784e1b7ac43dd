"""Where Claude Code keeps its transcripts, and what of each is known without reading it through."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from store.sources.claude_code.branches import TranscriptBranch, TranscriptTree, build_tree, may_have_branches
from store.sources.claude_code.layout import DEPTH, SUFFIXES, projects_folder
from store.sources.contract import Problem
from store.sources.kit.jsonl import (
    as_dict,
    as_str,
    as_time,
    plain_file_stamp,
    read_json_lines,
    stat_stamp,
    walk_files,
    walk_with_stat,
)
from store.sources.kit.sqlite import normalize_time
from store.text.validate import replace_surrogates

_FILE_NAME = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.jsonl")
_OTHER_FOLDERS = frozenset(["subagents", "tool-results", "memory"])
_SUBAGENT_PREFIX = "agent-"
_SIDECAR_SUFFIX = ".meta.json"
_MAX_DETECT_LINES = 200


class Transcript(NamedTuple):
    native_id: str
    files: tuple[Path, ...]
    "More than one where a session moved to another folder."
    parent: str = ""
    "Of a sub-agent: the session it worked for."
    stamp: str = ""
    "Of all its files, and of the one beside it that tells of a sub-agent."
    modified_at: str = ""

    @property
    def is_subagent(self) -> bool:
        return bool(self.parent)

    @property
    def subagent_id(self) -> str:
        return self.files[0].stem.removeprefix(_SUBAGENT_PREFIX)

    @property
    def sidecar(self) -> Path:
        return self.files[0].with_suffix(".meta.json")

    def branch_native_id(self, branch: TranscriptBranch | None) -> str:
        """The native id of one of its branches, or of the session itself."""
        return f"{self.native_id}/{branch.root_uuid}" if branch else self.native_id


class TranscriptHead(NamedTuple):
    "What the head of a transcript tells."

    first_uuid: str
    "The uuid of the first record that has one."
    started_at: str
    "When its first line was written; of a fork later than its first message, which is a copy."
    session_id: str
    "The session that the first record says it belongs to."
    summaries: tuple[tuple[str, str], ...]
    "Titles of other sessions, by their last record, as 1.x wrote them."


def find_transcripts(locator: Path, problems: list[Problem]) -> list[Transcript]:
    files = dict(_walk_files(locator, problems))
    found: dict[str, Transcript] = {}
    for name, known in files.items():
        if not name.endswith(_SIDECAR_SUFFIX):
            beside = files.get(name.removesuffix(".jsonl") + _SIDECAR_SUFFIX)
            one = _make_transcript(name, stat_stamp(known), known.st_mtime, stat_stamp(beside) if beside else "")
            before = found.get(one.native_id)
            found[one.native_id] = _merge(before, one) if before else one
    return [_sort_files(one) for one in found.values()]


def _walk_files(locator: Path, problems: list[Problem]) -> Iterator[tuple[str, os.stat_result]]:
    if locator.is_file():
        yield str(locator), locator.stat()
        if (beside := locator.with_suffix("") / "subagents").is_dir():
            yield from walk_with_stat(beside, problems, suffixes=SUFFIXES, depth=DEPTH)
        return
    for name, known in walk_with_stat(projects_folder(locator), problems, suffixes=SUFFIXES, depth=DEPTH):
        if _is_transcript(name):
            yield name, known


@lru_cache(maxsize=65_536)
def _make_transcript(name: str, stamp: str, touched: float, beside: str) -> Transcript:
    """Made once for as long as the file stays as it is: the making costs more than the asking."""
    path, at = Path(name), normalize_time(touched)
    parent = _find_parent(path, stamp) if path.name.startswith(_SUBAGENT_PREFIX) else ""
    if not parent:
        return Transcript(path.stem, (path,), "", stamp, at)
    return Transcript(f"{parent}/{path.stem}", (path,), parent, f"{stamp} {beside}", at)


def _merge(one: Transcript, other: Transcript) -> Transcript:
    return one._replace(
        files=one.files + other.files,
        stamp=f"{one.stamp} {other.stamp}",
        modified_at=max(one.modified_at, other.modified_at),
    )


def _is_transcript(path: str) -> bool:
    """Also what tells of a sub-agent's."""
    folder, _, name = path.rpartition(os.sep)
    if name.startswith(_SUBAGENT_PREFIX):
        return True
    return bool(_FILE_NAME.fullmatch(name)) and not _OTHER_FOLDERS & {*folder.rsplit(os.sep, 3)[1:]}


def _sort_files(one: Transcript) -> Transcript:
    if len(one.files) == 1:
        return one
    glanced = {path: read_head(path, plain_file_stamp(path)) for path in one.files}
    begun = {path: seen.started_at if seen else "" for path, seen in glanced.items()}
    return one._replace(files=tuple(sorted(one.files, key=lambda path: (begun[path], str(path)))))


def _find_parent(path: Path, stamp: str) -> str:
    """A sub-agent lies in its session's folder; until 2.0 it lay beside it, and only its records name the session."""
    names = path.parts
    if "subagents" in names:
        return names[len(names) - 1 - names[::-1].index("subagents") - 1]
    glanced = read_head(path, stamp)
    return glanced.session_id if glanced else ""


@lru_cache(maxsize=65_536)
def read_head(path: Path, stamp: str) -> TranscriptHead | None:
    """None of a transcript in which nobody says anything, or says it as other programs write it."""
    first = began = session = ""
    summaries: list[tuple[str, str]] = []
    for line in read_json_lines(path, []):
        value = as_dict(line.value)
        began = began or as_time(value.get("timestamp"))
        if value.get("type") == "summary":
            summaries.append((as_str(value.get("leafUuid")), as_str(value.get("summary"))))
        first = first or as_str(value.get("uuid"))
        session = session or replace_surrogates(as_str(value.get("sessionId")))
        if value.get("type") in ("user", "assistant") and "content" in as_dict(value.get("message")):
            return TranscriptHead(first, began, session, tuple(summaries))
    return TranscriptHead("", began, session, tuple(summaries)) if summaries else None


def find_branches(one: Transcript) -> tuple[TranscriptBranch, ...]:
    return _find_branches(one.files, one.is_subagent, one.stamp)


@lru_cache(maxsize=65_536)
def _find_branches(files: Sequence[Path], is_agent: bool, stamp: str) -> tuple[TranscriptBranch, ...]:
    if len(files) == 1 and not may_have_branches(files[0], is_subagent=is_agent):
        return ()
    return tuple(_load_tree(files, is_agent, stamp).branches.values())


def load_tree(one: Transcript) -> TranscriptTree:
    """A session is asked for again by each of its sub-agents and forks."""
    return _load_tree(one.files, one.is_subagent, one.stamp)


@lru_cache(maxsize=4)
def _load_tree(files: Sequence[Path], is_agent: bool, stamp: str) -> TranscriptTree:
    return build_tree(files, is_subagent=is_agent)


def is_claude_transcript(path: Path) -> bool:
    """A message with content under a uuid of its own; others write such lines too, but with parts in its place."""
    for seen, line in enumerate(read_json_lines(path, [])):
        value = as_dict(line.value)
        is_talk = value.get("type") in ("user", "assistant") and isinstance(value.get("sessionId"), str)
        if is_talk and "content" in as_dict(value.get("message")) and isinstance(value.get("uuid"), str):
            return True
        if seen >= _MAX_DETECT_LINES:
            break
    return False


def find_transcript_files(locator: Path) -> Iterator[Path]:
    if locator.is_file():
        yield locator
    elif locator.is_dir():
        found = walk_files(projects_folder(locator), [], depth=DEPTH)
        yield from (path for path in found if _is_transcript(str(path)))


class TranscriptCatalog:
    """All transcripts of a place, and which of them are copies of which."""

    def __init__(self, locator: Path, problems: list[Problem]) -> None:
        self.by_id: dict[str, Transcript] = {}
        self.summaries: dict[str, str] = {}
        self._copies_by_first_uuid: dict[str, list[tuple[bool, str, str]]] = {}
        self._first_uuids: dict[str, str] = {}
        for one in find_transcripts(locator, problems):
            glanced = read_head(one.files[0], one.stamp)
            if glanced is None:
                next(read_json_lines(one.files[0], problems), None)  # which says so, where it cannot be read
                continue
            self.summaries.update(glanced.summaries)
            if glanced.first_uuid:
                self.by_id[one.native_id] = one
                self._first_uuids[one.native_id] = glanced.first_uuid
                copied = glanced.session_id != one.native_id
                self._copies_by_first_uuid.setdefault(glanced.first_uuid, []).append(
                    (copied, glanced.started_at, one.native_id)
                )

    def resolve(self, native_id: str) -> tuple[Transcript, str] | None:
        """The transcript and the branch of it that a native id names; no file's name has a slash in it."""
        own = native_id
        while own and own not in self.by_id:
            own = own.rpartition("/")[0]
        return (self.by_id[own], native_id[len(own) + 1 :]) if own else None

    def older_copies(self, one: Transcript) -> list[str]:
        """The transcripts that begin with the same record and were begun before, the eldest first."""
        kin = self._copies_by_first_uuid[self._first_uuids[one.native_id]]
        if len(kin) == 1 or one.is_subagent:
            return []
        names = [native_id for *_, native_id in sorted(kin)]
        return names[: names.index(one.native_id)]
