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
from store.sources.gemini.append import ChatEnd
from store.sources.gemini.entries import Replay
from store.sources.kit import jsonl, sqlite
from store.sources.kit.jsonl import JsonLine, as_dict, as_list, as_str, as_time
from store.sources.kit.layout import Layout
from store.sources.kit.transcripts import (
    build_header_batch,
    find_branches,
    path_text,
    read_first_value,
    split_native_id,
)
from store.text.validate import encode, replace_surrogates

DEFAULT_RETENTION = "30d"
_RETENTION = re.compile(r"([1-9]\d{0,3})([hdwm])")
_DAYS_PER_UNIT = {"h": 1 / 24, "d": 1, "w": 7, "m": 30}

_CHANGING_FIELDS = ("messages", "lastUpdated", "summary", "memoryScratchpad")
"""The fields of an old file that change with every message. They are left out of the header record."""


def find_expiry(root: Path, layout: Layout) -> dict[str, str]:
    """Return when Gemini CLI will delete each session, by native id. It is empty if a setting turned that off."""
    general = as_dict(as_dict(jsonl.read_json_file(root / "settings.json", [])).get("general"))
    retention = as_dict(general.get("sessionRetention"))
    age = _RETENTION.fullmatch(as_str(retention.get("maxAge")) or DEFAULT_RETENTION)
    if retention.get("enabled") is False or age is None:
        return {}
    days = int(age[1]) * _DAYS_PER_UNIT[age[2]]
    expiry: dict[str, str] = {}
    for path in layout.find_files(root, []):
        native, _ = _identify_session(ChatFile(path, jsonl.plain_file_stamp(path)))
        time = sqlite.normalize_time(_modified_time(path) + days * 86_400)
        expiry[native] = max(expiry.get(native, ""), time)
    return expiry


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
    # The beginning is searched before the file is loaded: a person may name a huge file.
    return as_dict(jsonl.read_json_file(path, problems)) if "sessionId" in _read_beginning(path) else {}


def session_id(first: Mapping[str, Json]) -> str:
    is_gemini = isinstance(first.get("projectHash"), str)
    return replace_surrogates(as_str(first.get("sessionId"))) if is_gemini else ""


class ChatFile(NamedTuple):
    path: Path
    stamp: str


@lru_cache(maxsize=8192)
def _identify_session(file: ChatFile) -> tuple[str, tuple[Problem, ...]]:
    problems: list[Problem] = []
    native = session_id(read_metadata(file.path, problems))
    if not native and not problems:
        problems.append(Problem(str(file.path), "It is not a session of Gemini CLI."))
    return native, tuple(problems)


def _read_lines(files: Sequence[ChatFile], problems: list[Problem]) -> Iterator[tuple[JsonLine, str]]:
    """Yield the lines of all files of a session in the order they were written, each with the path of its file."""
    timed = [_read_timed_lines(file.path, problems) for file in files]
    for _, line, path in merge(*timed, key=lambda timed_line: timed_line[0]):
        yield line, path


def _read_timed_lines(path: Path, problems: list[Problem]) -> Iterator[tuple[str, JsonLine, str]]:
    """Yield the lines of a file with their times. Those of an old JSON file have none, so that they come first."""
    source_path = path_text(path)
    if path.suffix == ".json":
        yield from (("", line, source_path) for line in _split_json_file(path, problems))
        return
    time = ""
    for line in jsonl.read_lines(path, problems):
        value = as_dict(line.value)
        value = as_dict(value.get("$set")) or value
        timestamp = value.get("timestamp") or value.get("lastUpdated") or value.get("startTime")
        time = max(time, as_time(timestamp))
        yield time, line, source_path


def _split_json_file(path: Path, problems: list[Problem]) -> Iterator[JsonLine]:
    document = as_dict(jsonl.read_json_file(path, problems))
    metadata = {name: value for name, value in document.items() if name not in ("messages", "lastUpdated")}
    constant = {name: value for name, value in document.items() if name not in _CHANGING_FIELDS}
    for number, (value, stored) in enumerate(
        [(metadata, constant), *((message, message) for message in as_list(document.get("messages")))]
    ):
        try:
            yield JsonLine(number, encode(stored), value)
        except BadValue as reason:
            problems.append(Problem(f"{path}:{number}", str(reason)))


# ── the sessions ──────────────────────────────────────────────────────────────────────────────────


@lru_cache(maxsize=4096)
def _has_messages(files: tuple[ChatFile, ...]) -> bool:
    """Return whether a session has a message, without which it is none. It is cached until a file changes."""
    return any(step.node.is_message for step in Replay().read_steps(_read_lines(files, [])))


@lru_cache(maxsize=4096)
def _find_branch_names(files: tuple[ChatFile, ...]) -> tuple[str, ...]:
    """Return the names of the branches of a session besides its own. They are cached until a file changes."""
    nodes = [step.node for step in Replay().read_steps(_read_lines(files, []))]
    return tuple(branch.name for branch in find_branches(nodes) if branch.name)


class GeminiReader(SourceReader):
    def __init__(self, root: Path, layout: Layout) -> None:
        super().__init__()
        self._root = root
        self._layout = layout
        self._files: dict[str, tuple[ChatFile, ...]] = {}

    def scan(self) -> Iterator[SessionRef]:
        for ref in self.scan_files():
            yield ref
            yield from self.scan_branches(ref)

    def scan_files(self) -> Iterator[SessionRef]:
        self._files = self._find_files()
        for native, files in self._files.items():
            if _has_messages(files):
                updated_at = max(jsonl.modified_at(file.path) for file in files)
                yield SessionRef(native, sqlite.digest(*(file.stamp for file in files)), updated_at)

    def _find_files(self) -> dict[str, tuple[ChatFile, ...]]:
        found: dict[str, tuple[ChatFile, ...]] = {}
        for path in self._layout.find_files(self._root, self.problems):
            file = ChatFile(path, jsonl.plain_file_stamp(path))
            native, problems = _identify_session(file)
            self.problems += problems
            if native:
                found[native] = (*found.get(native, ()), file)
        return found

    def scan_branches(self, ref: SessionRef) -> Iterator[SessionRef]:
        names = _find_branch_names(self._files[ref.native_id])
        return (SessionRef(f"{ref.native_id}/{name}", ref.stamp, ref.updated_at) for name in names)

    def read(self, ref: SessionRef) -> Iterator[Batch]:
        problems: list[Problem] = []
        native, name = split_native_id(ref.native_id, self._files)
        files = self._files.get(native, ())
        # A fork shares the files of its session, which already reports their problems.
        replay = Replay()
        lines = _read_lines(files, [] if name else problems)
        steps = [(step.node, step.entry.created_at) for step in replay.read_steps(lines)]
        branch = next((branch for branch in find_branches([node for node, _ in steps]) if branch.name == name), None)
        if branch is None:
            return
        fields = branch.fork_fields(native) if name else self._sub_agent_fields(native)
        is_linked = "forked_at" in fields or not fields
        fields |= {"agent_title": replay.title(), "cwd": _find_project_folder(files, replay)}
        fields |= sqlite.time_fields(replay.started_at, steps[branch.own_nodes[-1]][1] if name else replay.ended_at)
        yield build_header_batch(fields, replay.header_line, Path(replay.header_path))
        shared = set(branch.shared_nodes())
        yield from sqlite.build_batches(_read_entries(files, shared, shared | set(branch.own_nodes)), problems)
        if is_linked and not name and len(files) == 1:
            yield Batch(mark=ChatEnd(files[0].path, replay).mark_end(files[0].stamp))

    def read_appended(self, ref: SessionRef, mark: str) -> list[Batch] | None:
        files = self._files[ref.native_id]
        return ChatEnd(files[0].path, Replay()).read_appended(files[0].path, mark) if len(files) == 1 else None

    def _sub_agent_fields(self, native: str) -> SessionFields:
        """Return the link to the parent. The folder of a sub-agent's file is named after its parent."""
        path = self._files[native][0].path
        if not _is_sub_agent(path):
            return {}
        parent = replace_surrogates(path.parent.name)
        fields: SessionFields = {"parent_id": parent, "relation": "delegate"}
        replay = Replay()
        nodes = [step.node for step in replay.read_steps(_read_lines(self._files.get(parent, ()), []))]
        calling_step = replay.find_calling_step(native)
        main = find_branches(nodes)[0].own_nodes if nodes else []
        if calling_step in main:
            fields["forked_at"] = main.index(calling_step)
        return fields


def _read_entries(files: Sequence[ChatFile], shared: set[int], chain: set[int]) -> Iterator[list[NewEntry]]:
    for number, step in enumerate(Replay().read_steps(_read_lines(files, []))):
        if number in chain:
            step.entry.inherited = number in shared
            yield [step.entry]


# ── the project's folder ──────────────────────────────────────────────────────────────────────────


def _find_project_folder(files: Sequence[ChatFile], replay: Replay) -> str:
    """Return the folder that a session worked in. The chat files do not name it; other files of Gemini CLI map the
    project's name or hash to it."""
    chats = next((folder for folder in files[0].path.parents if folder.name == "chats"), None)
    if chats is None:
        return next(iter(_find_by_hash(replay.directories, replay.project_hash)), "")
    project, home = chats.parent, chats.parent.parent.parent
    if root := _read_beginning(project / ".project_root").strip():
        return root
    projects = as_dict(as_dict(jsonl.read_json_file(home / "projects.json", [])).get("projects"))
    trusted = as_dict(jsonl.read_json_file(home / "trustedFolders.json", []))
    matching = [folder for folder, slug in projects.items() if slug == project.name]
    return next(iter([*matching, *_find_by_hash([*projects, *trusted, *replay.directories], replay.project_hash)]), "")


def _find_by_hash(folders: Iterable[str], project_hash: str) -> Iterator[str]:
    for folder in folders:
        if hashlib.sha256(folder.encode("utf-8", "surrogatepass")).hexdigest() == project_hash:
            yield folder


def _read_beginning(path: Path) -> str:
    try:
        with jsonl.open_file(path) as file:
            return file.read(65_536).decode("utf-8", "replace")
    except jsonl.PATH_ERRORS:
        return ""
