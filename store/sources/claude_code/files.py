"""This module finds the transcripts of Claude Code, and reads the head of each."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from store.sources.claude_code.branches import TranscriptBranch, TranscriptTree, build_tree, may_have_branches
from store.sources.claude_code.layout import LAYOUT
from store.sources.claude_code.record import SUMMARY_TYPE
from store.sources.claude_code.web import WEB_SUFFIX, read_records
from store.sources.contract import Problem
from store.sources.kit.jsonl import (
    as_dict,
    as_str,
    as_time,
    plain_file_stamp,
    stat_stamp,
    walk_with_stat,
)
from store.sources.kit.line_scan import find_lines, parse_object, read_chunks
from store.sources.kit.sqlite import normalize_time
from store.text.validate import replace_surrogates

_FILE_NAME = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.jsonl")
_OTHER_FOLDERS = frozenset(["subagents", "tool-results", "memory"])
_SUBAGENT_PREFIX = "agent-"
_SIDECAR_SUFFIX = ".meta.json"
_MAX_DETECT_LINES = 200
_VERSIONS_WITH_SUMMARIES = ("0.", "1.", "2.0.")
_SUMMARY_MARK = b'"summary"'
_UUID_FIELD = re.compile(rb'"uuid": ?"([^"\\]+)"')


class Transcript(NamedTuple):
    native_id: str
    files: tuple[Path, ...]
    "Has more than one when the session moved to another folder."
    parent: str = ""
    "The session that started it, for a sub-agent."
    stamp: str = ""
    "Covers all its files, and the sidecar file that describes a sub-agent."
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
        """Return the native id of a branch, or of the session itself."""
        return f"{self.native_id}/{branch.root_uuid}" if branch else self.native_id


class TranscriptHead(NamedTuple):
    "Holds the values from the first lines of a transcript."

    first_uuid: str
    "The uuid of the first record that has one."
    started_at: str
    "The time of its first line. In a fork it is later than the time of the first message, which is a copy."
    session_id: str
    "The session that the first record names."
    version: str
    "The version of Claude Code that wrote the first record."
    has_summaries: bool

    @property
    def may_have_summary(self) -> bool:
        """Says whether a `summary` record may name the session, or be in its transcript. Version 2.1 writes none."""
        return self.has_summaries or not self.version or self.version.startswith(_VERSIONS_WITH_SUMMARIES)


def find_transcripts(locator: Path, problems: list[Problem]) -> list[Transcript]:
    files = dict(_walk_files(locator, problems))
    by_id: dict[str, Transcript] = {}
    for name, stat in files.items():
        if not name.endswith(_SIDECAR_SUFFIX):
            sidecar = files.get(name.removesuffix(".jsonl") + _SIDECAR_SUFFIX)
            transcript = _make_transcript(name, stat_stamp(stat), stat.st_mtime, stat_stamp(sidecar) if sidecar else "")
            existing = by_id.get(transcript.native_id)
            by_id[transcript.native_id] = _merge(existing, transcript) if existing else transcript
    return [_sort_files(transcript) for transcript in by_id.values()]


def _walk_files(locator: Path, problems: list[Problem]) -> Iterator[tuple[str, os.stat_result]]:
    if locator.is_file():
        yield str(locator), locator.stat()
        if (subagents := locator.with_suffix("") / "subagents").is_dir():
            yield from walk_with_stat(subagents, problems, suffixes=LAYOUT.suffixes, depth=LAYOUT.depth)
        return
    for name, stat in LAYOUT.walk_with_stat(locator, problems):
        if _has_transcript_name(name) or _is_renamed_transcript(name, stat_stamp(stat)):
            yield name, stat


@lru_cache(maxsize=65_536)
def _make_transcript(name: str, stamp: str, modified: float, sidecar_stamp: str) -> Transcript:
    """Return the transcript of a file. It is cached until the file changes: building it costs more than a stat."""
    path, at = Path(name), normalize_time(modified)
    parent = _find_parent(path, stamp) if path.name.startswith(_SUBAGENT_PREFIX) else ""
    if not parent:
        return Transcript(_find_session_id(path, stamp), (path,), "", stamp, at)
    return Transcript(f"{parent}/{path.stem}", (path,), parent, f"{stamp} {sidecar_stamp}", at)


def _merge(transcript: Transcript, other: Transcript) -> Transcript:
    return transcript._replace(
        files=transcript.files + other.files,
        stamp=f"{transcript.stamp} {other.stamp}",
        modified_at=max(transcript.modified_at, other.modified_at),
    )


def _find_session_id(path: Path, stamp: str) -> str:
    """Return the id of a session: the name of its file, or what the records say if a person renamed the file."""
    head = None if _FILE_NAME.fullmatch(path.name) else read_head(path, stamp)
    return head.session_id if head and head.session_id else path.stem


def _has_transcript_name(path: str) -> bool:
    """Return whether a path is a transcript, or the sidecar file of a sub-agent's transcript."""
    folder, _, name = path.rpartition(os.sep)
    if name.startswith(_SUBAGENT_PREFIX):
        return True
    return bool(_FILE_NAME.fullmatch(name)) and not _is_other_folder(folder)


def _is_other_folder(folder: str) -> bool:
    return bool(_OTHER_FOLDERS & {*folder.rsplit(os.sep, 3)[1:]})


@lru_cache(maxsize=65_536)
def _is_renamed_transcript(name: str, stamp: str) -> bool:
    """Return whether a file with a name of a person's choice is a transcript. It is cached until the file changes."""
    path = Path(name)
    return path.suffix == ".jsonl" and not _is_other_folder(str(path.parent)) and is_claude_transcript(path)


def _sort_files(transcript: Transcript) -> Transcript:
    if len(transcript.files) == 1:
        return transcript
    heads = {path: read_head(path, plain_file_stamp(path)) for path in transcript.files}
    started = {path: head.started_at if head else "" for path, head in heads.items()}
    return transcript._replace(files=tuple(sorted(transcript.files, key=lambda path: (started[path], str(path)))))


def _find_parent(path: Path, stamp: str) -> str:
    """Return the id of the session that started a sub-agent. Since version 2.0 it is the name of a parent folder;
    earlier only the records name it."""
    names = path.parts
    if "subagents" in names:
        return names[len(names) - 1 - names[::-1].index("subagents") - 1]
    head = read_head(path, stamp)
    return head.session_id if head else ""


@lru_cache(maxsize=65_536)
def read_head(path: Path, stamp: str) -> TranscriptHead | None:
    """Return the head of a transcript, or None if it has neither a message in the format of Claude Code nor a title."""
    first = started = session = version = ""
    has_summaries = False
    for line in read_records(path, []):
        value = as_dict(line.value)
        started = started or as_time(value.get("timestamp"))
        has_summaries = has_summaries or value.get("type") == SUMMARY_TYPE
        version = version or as_str(value.get("version"))
        first = first or as_str(value.get("uuid"))
        session = session or replace_surrogates(as_str(value.get("sessionId")))
        if value.get("type") in ("user", "assistant") and "content" in as_dict(value.get("message")):
            return TranscriptHead(first, started, session, version, has_summaries)
    return TranscriptHead("", started, session, version, has_summaries) if has_summaries else None


@lru_cache(maxsize=65_536)
def _read_summaries(path: Path, stamp: str) -> tuple[tuple[str, str], ...]:
    """Return the titles in the `summary` records of a transcript, each with the uuid of the record that it ends with.
    Most are titles of other sessions."""
    values = (parse_object(line) for chunk in read_chunks(path) for line in find_lines(_SUMMARY_MARK, chunk, 64))
    summaries = (value for value in values if value.get("type") == SUMMARY_TYPE)
    return tuple((as_str(value.get("leafUuid")), as_str(value.get("summary"))) for value in summaries)


@lru_cache(maxsize=65_536)
def _find_last_uuid(path: Path, stamp: str, uuids: frozenset[str]) -> str:
    """Return the last of these uuids that a record of a transcript has; empty when it has none."""
    last = ""
    for chunk in read_chunks(path):
        for match in _UUID_FIELD.finditer(chunk):
            uuid = match[1].decode("utf-8", "replace")
            last = uuid if uuid in uuids else last
    return last


def find_branches(transcript: Transcript) -> tuple[TranscriptBranch, ...]:
    return _find_branches(transcript.files, transcript.is_subagent, transcript.stamp)


@lru_cache(maxsize=65_536)
def _find_branches(files: Sequence[Path], is_agent: bool, stamp: str) -> tuple[TranscriptBranch, ...]:
    is_of_lines = len(files) == 1 and files[0].suffix != WEB_SUFFIX
    if is_of_lines and not may_have_branches(files[0], is_subagent=is_agent):
        return ()
    return tuple(_load_tree(files, is_agent, stamp).branches.values())


def load_tree(transcript: Transcript) -> TranscriptTree:
    """Return the tree of a transcript. It is cached, since every sub-agent and fork needs the tree of its parent."""
    return _load_tree(transcript.files, transcript.is_subagent, transcript.stamp)


@lru_cache(maxsize=4)
def _load_tree(files: Sequence[Path], is_agent: bool, stamp: str) -> TranscriptTree:
    return build_tree(files, is_subagent=is_agent)


def is_claude_transcript(path: Path) -> bool:
    """Return whether a file has a message with a uuid and content. Other agents write similar lines with parts instead
    of content."""
    for number, line in enumerate(read_records(path, [])):
        value = as_dict(line.value)
        is_message = value.get("type") in ("user", "assistant") and isinstance(value.get("sessionId"), str)
        if is_message and "content" in as_dict(value.get("message")) and isinstance(value.get("uuid"), str):
            return True
        if number >= _MAX_DETECT_LINES:
            break
    return False


def has_only_titles(path: Path) -> bool:
    """Return whether a file begins like those in which version 1 kept titles of sessions that are in other files."""
    first = as_dict(next((line.value for line in read_records(path, [])), None))
    return first.get("type") == SUMMARY_TYPE and "leafUuid" in first


def find_transcript_files(locator: Path) -> Iterator[Path]:
    if locator.is_file():
        yield locator
    elif locator.is_dir():
        yield from (path for path in LAYOUT.walk(locator, []) if path.suffix == ".jsonl")


class TranscriptCatalog:
    """Lists all transcripts of a folder, and knows which are copies of which."""

    def __init__(self, locator: Path, problems: list[Problem]) -> None:
        self.by_id: dict[str, Transcript] = {}
        self._summaries: dict[str, str] = {}
        self._may_have_summary: set[str] = set()
        self._copies_by_first_uuid: dict[str, list[tuple[bool, str, str]]] = {}
        self._first_uuids: dict[str, str] = {}
        for transcript in find_transcripts(locator, problems):
            head = read_head(transcript.files[0], transcript.stamp)
            if head is None:
                next(read_records(transcript.files[0], problems), None)  # reports a file that cannot be read
                continue
            if head.may_have_summary:
                self._may_have_summary.add(transcript.native_id)
                for path in transcript.files:
                    self._summaries.update(_read_summaries(path, transcript.stamp))
            if head.first_uuid:
                self.by_id[transcript.native_id] = transcript
                self._first_uuids[transcript.native_id] = head.first_uuid
                is_copy = head.session_id != transcript.native_id
                self._copies_by_first_uuid.setdefault(head.first_uuid, []).append(
                    (is_copy, head.started_at, transcript.native_id)
                )

    def find_summary_title(self, transcript: Transcript) -> str:
        """Return the title in the `summary` record about the latest state of a session, which is in any transcript."""
        if not self._summaries or transcript.is_subagent or transcript.native_id not in self._may_have_summary:
            return ""
        last = (_find_last_uuid(path, transcript.stamp, self._summarized) for path in reversed(transcript.files))
        return self._summaries.get(next(filter(None, last), ""), "")

    @cached_property
    def _summarized(self) -> frozenset[str]:
        return frozenset(self._summaries)

    def resolve(self, native_id: str) -> tuple[Transcript, str] | None:
        """Return the transcript and the branch that a native id names. No file name contains a slash."""
        transcript_id = native_id
        while transcript_id and transcript_id not in self.by_id:
            transcript_id = transcript_id.rpartition("/")[0]
        return (self.by_id[transcript_id], native_id[len(transcript_id) + 1 :]) if transcript_id else None

    def older_copies(self, transcript: Transcript) -> list[str]:
        """Return the ids of the older transcripts that begin with the same record, oldest first."""
        copies = self._copies_by_first_uuid[self._first_uuids[transcript.native_id]]
        if len(copies) == 1 or transcript.is_subagent:
            return []
        names = [native_id for *_, native_id in sorted(copies)]
        return names[: names.index(transcript.native_id)]
