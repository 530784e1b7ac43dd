"""This module reads Gemini CLI chats."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from heapq import merge
from pathlib import Path
from typing import NamedTuple

from store.errors import BadValue
from store.model.entry import Json, NewEntry
from store.model.session import SessionFields
from store.sources.contract import Batch, Problem, SessionRef, SourceReader
from store.sources.gemini.entries import Replay
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import JsonLine, as_dict, as_list, as_str, as_time
from store.sources.kit.layout import Layout
from store.sources.kit.transcripts import (
    Branch,
    build_header_batch,
    find_branches,
    path_text,
    read_first_value,
)
from store.text.validate import encode, replace_surrogates

DEFAULT_RETENTION = "30d"
_RETENTION = re.compile(r"([1-9]\d{0,3})([hdwm])")
_DAYS_PER_UNIT = {"h": 1 / 24, "d": 1, "w": 7, "m": 30}

_CHANGING_FIELDS = ("messages", "lastUpdated", "summary", "memoryScratchpad")
"""What an old file, which is rewritten with every message, says of the whole session."""


def find_expiry(root: Path, layout: Layout) -> dict[str, str]:
    """Return when Gemini CLI will delete each session, by native id; nothing when a setting turned that off."""
    general = as_dict(as_dict(jsonl.read_json_file(root / "settings.json", [])).get("general"))
    retention = as_dict(general.get("sessionRetention"))
    kept = _RETENTION.fullmatch(as_str(retention.get("maxAge")) or DEFAULT_RETENTION)
    if retention.get("enabled") is False or kept is None:
        return {}
    days = int(kept[1]) * _DAYS_PER_UNIT[kept[2]]
    when: dict[str, str] = {}
    for path in layout.find_files(root, []):
        native, _ = _identify_session(ChatFile(path, jsonl.plain_file_stamp(path)))
        at = sqlite.normalize_time(_modified_time(path) + days * 86_400)
        when[native] = max(when.get(native, ""), at)
    return when


def _modified_time(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def _is_sub_agent(path: Path) -> bool:
    return path.parent.parent.name == "chats"


def read_metadata(path: Path, problems: list[Problem]) -> Mapping[str, Json]:
    if path.suffix != ".json":
        return as_dict(read_first_value(path))
    # Looked into before it is loaded: a person may name a file of any size.
    return as_dict(jsonl.read_json_file(path, problems)) if "sessionId" in _read_beginning(path) else {}


def session_id(first: Mapping[str, Json]) -> str:
    known = isinstance(first.get("projectHash"), str)
    return replace_surrogates(as_str(first.get("sessionId"))) if known else ""


class ChatFile(NamedTuple):
    path: Path
    stamp: str


@lru_cache(maxsize=8192)
def _identify_session(place: ChatFile) -> tuple[str, tuple[Problem, ...]]:
    problems: list[Problem] = []
    native = session_id(read_metadata(place.path, problems))
    if not native and not problems:
        problems.append(Problem(str(place.path), "It is not a session of Gemini CLI."))
    return native, tuple(problems)


def _read_lines(places: Sequence[ChatFile], problems: list[Problem]) -> Iterator[tuple[JsonLine, str]]:
    """The lines of all files of one session, as they were written, each with the file it stands in."""
    timed = [_read_timed_lines(place.path, problems) for place in places]
    for _, line, where in merge(*timed, key=lambda told: told[0]):
        yield line, where


def _read_timed_lines(path: Path, problems: list[Problem]) -> Iterator[tuple[str, JsonLine, str]]:
    """An old file comes before what it became: it has no times of its own here."""
    where = path_text(path)
    if path.suffix == ".json":
        yield from (("", line, where) for line in _split_json_file(path, problems))
        return
    at = ""
    for line in jsonl.read_json_lines(path, problems):
        value = as_dict(line.value)
        value = as_dict(value.get("$set")) or value
        found = value.get("timestamp") or value.get("lastUpdated") or value.get("startTime")
        at = max(at, as_time(found))
        yield at, line, where


def _split_json_file(path: Path, problems: list[Problem]) -> Iterator[JsonLine]:
    whole = as_dict(jsonl.read_json_file(path, problems))
    told = {name: value for name, value in whole.items() if name not in ("messages", "lastUpdated")}
    lasting = {name: value for name, value in whole.items() if name not in _CHANGING_FIELDS}
    for number, (value, kept) in enumerate([(told, lasting), *((one, one) for one in as_list(whole.get("messages")))]):
        try:
            yield JsonLine(number, encode(kept), value)
        except BadValue as reason:
            problems.append(Problem(f"{path}:{number}", str(reason)))


# ── the sessions ──────────────────────────────────────────────────────────────────────────────────


class _ScannedFiles(NamedTuple):
    branches: tuple[str, ...]
    updated_at: str


@lru_cache(maxsize=4096)
def _scan_files(places: tuple[ChatFile, ...]) -> _ScannedFiles:
    """Looked at once for as long as the files stay as they are. Where nobody spoke there is no session."""
    replay = Replay(_read_lines(places, []))
    nodes = [step.node for step in replay.read_steps()]
    if not any(node.is_message for node in nodes):
        return _ScannedFiles((), "")
    return _ScannedFiles(tuple(branch.name for branch in find_branches(nodes)), replay.ended_at)


class GeminiReader(SourceReader):
    def __init__(self, root: Path, layout: Layout) -> None:
        super().__init__()
        self._root = root
        self._layout = layout
        self._files: dict[str, list[ChatFile]] = {}
        self._branches: dict[str, tuple[str, str]] = {}

    def scan(self) -> Iterator[SessionRef]:
        for path in self._layout.find_files(self._root, self.problems):
            place = ChatFile(path, jsonl.plain_file_stamp(path))
            native, problems = _identify_session(place)
            self.problems += problems
            if native:
                self._files.setdefault(native, []).append(place)
        for native, places in self._files.items():
            found = _scan_files(tuple(places))
            stamp = sqlite.digest(*(place.stamp for place in places))
            for name in found.branches:
                branch_id = Branch(name).native_id(native)
                self._branches[branch_id] = native, name
                yield SessionRef(branch_id, stamp, found.updated_at)

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        met: list[Problem] = []
        native, name = self._branches[ref.native_id]
        places = self._files[native]
        # A fork's files are its session's, which tells of their problems.
        replay = Replay(_read_lines(places, [] if name else met))
        told = [(step.node, step.entry.created_at) for step in replay.read_steps()]
        branch = next((branch for branch in find_branches([node for node, _ in told]) if branch.name == name), None)
        if branch is None:
            return
        fields = branch.fork_fields(native) if name else self._sub_agent_fields(native)
        fields |= {"agent_title": replay.title(), "cwd": _find_project_folder(places, replay)}
        fields |= sqlite.time_fields(replay.started_at, told[branch.own_nodes[-1]][1] if name else replay.ended_at)
        yield build_header_batch(fields, replay.header_line, Path(replay.header_path))
        past = set(branch.shared_nodes())
        yield from sqlite.build_batches(_read_entries(places, past, past | set(branch.own_nodes)), met)

    def _sub_agent_fields(self, native: str) -> SessionFields:
        """A sub-agent's file stands in a folder that is named after its parent."""
        path = self._files[native][0].path
        if not _is_sub_agent(path):
            return {}
        parent = replace_surrogates(path.parent.name)
        fields: SessionFields = {"parent_id": parent, "relation": "delegate"}
        replay = Replay(_read_lines(self._files.get(parent, []), []))
        nodes = [step.node for step in replay.read_steps()]
        asked = replay.find_calling_step(native)
        main = find_branches(nodes)[0].own_nodes if nodes else []
        if asked in main:
            fields["forked_at"] = main.index(asked)
        return fields


def _read_entries(places: Sequence[ChatFile], past: set[int], wanted: set[int]) -> Iterator[list[NewEntry]]:
    for number, step in enumerate(Replay(_read_lines(places, [])).read_steps()):
        if number in wanted:
            step.entry.inherited = number in past
            yield [step.entry]


# ── where it was ──────────────────────────────────────────────────────────────────────────────────


def _find_project_folder(places: Sequence[ChatFile], replay: Replay) -> str:
    """No file of the session says it: the project's folder is named after it, or after its hash."""
    chats = next((folder for folder in places[0].path.parents if folder.name == "chats"), None)
    if chats is None:
        return next(iter(_find_by_hash(replay.directories, replay.project_hash)), "")
    project, home = chats.parent, chats.parent.parent.parent
    if told := _read_beginning(project / ".project_root").strip():
        return told
    projects = as_dict(as_dict(jsonl.read_json_file(home / "projects.json", [])).get("projects"))
    trusted = as_dict(jsonl.read_json_file(home / "trustedFolders.json", []))
    named = [folder for folder, slug in projects.items() if slug == project.name]
    return next(iter([*named, *_find_by_hash([*projects, *trusted, *replay.directories], replay.project_hash)]), "")


def _find_by_hash(folders: Iterable[str], project: str) -> Iterator[str]:
    for folder in folders:
        if hashlib.sha256(folder.encode("utf-8", "surrogatepass")).hexdigest() == project:
            yield folder


def _read_beginning(path: Path) -> str:
    try:
        with jsonl.open_file(path) as file:
            return file.read(65_536).decode("utf-8", "replace")
    except jsonl.PATH_ERRORS:
        return ""
