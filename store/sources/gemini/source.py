"""Gemini CLI: a log of messages that are told again as they grow, taken back, and told anew when they are resumed."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from heapq import merge
from pathlib import Path
from typing import NamedTuple

from store.errors import BadValue
from store.model.entry import Json, NewEntry
from store.model.session import Session, SessionFields
from store.sources.contract import Batch, Continuing, Problem, Ref
from store.sources.gemini.entries import Replay
from store.sources.kit import homes, jsonl, sqlite
from store.sources.kit.jsonl import Line, items, mapping, moment, words
from store.sources.kit.transcripts import Branch, Layout, Transcripts, about, branches, first_value, place_of
from store.text.validate import column_text, encode

NAME = "gemini"
LABEL = "Gemini CLI"
READER = 1
LOCAL_IDS = False

DEFAULT_AGE = "30d"
_KEPT = re.compile(r"([1-9]\d{0,3})([hdwm])")
_DAYS = {"h": 1 / 24, "d": 1, "w": 7, "m": 30}

_CHANGING = ("messages", "lastUpdated", "summary", "memoryScratchpad")
"""What an old file, which is rewritten with every message, says of the whole session."""

roots = homes.gemini


def detect(locator: str) -> bool:
    return _LAYOUT.holds(locator, lambda path: bool(_id_of(_first(path, []))))


def stamp(locator: str) -> str:
    tree = _LAYOUT.stamp(locator)
    return sqlite.digest(tree, jsonl.file_digest_stamp(Path(locator) / "settings.json")) if tree else ""


@contextmanager
def open(locator: str) -> Iterator[Gemini]:  # noqa: A001 the shape's own word
    yield Gemini(Path(locator))


def resume(session: Session) -> Continuing:
    native, _, branch = session.native_id.partition("/")
    if session.relation == "delegate":
        return Continuing(None, cwd=session.cwd, hint="Gemini CLI cannot go on with a sub-agent; resume its parent.")
    if branch:
        hint = f"Gemini CLI took this branch back; `gemini --resume {native}` goes on with the session it left."
        return Continuing(None, cwd=session.cwd, hint=hint)
    argv = ("gemini", "--resume", native)
    return Continuing(argv, session.cwd, skipping=("--yolo",), install="npm install -g @google/gemini-cli")


def expires(locator: str, refs: Iterable[Ref]) -> dict[str, str]:
    """When Gemini CLI will delete each session, by native id; those of a person who switched that off it keeps."""
    root = Path(locator)
    general = mapping(mapping(jsonl.json_file(root / "settings.json", [])).get("general"))
    retention = mapping(general.get("sessionRetention"))
    kept = _KEPT.fullmatch(words(retention.get("maxAge")) or DEFAULT_AGE)
    if retention.get("enabled") is False or kept is None:
        return {}
    days = int(kept[1]) * _DAYS[kept[2]]
    when: dict[str, str] = {}
    for path in _LAYOUT.files(root, []):
        native, _ = _session_in(Place(path, jsonl.file_digest_stamp(path)))
        at = sqlite.utc(_modified(path) + days * 86_400)
        when[native] = max(when.get(native, ""), at)
    return when


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def _is_chat(path: Path) -> bool:
    if path.parent.name == "chats":
        return path.name.startswith("session-")
    return _is_sub_agent(path) and path.suffix == ".jsonl"


def _is_sub_agent(path: Path) -> bool:
    return path.parent.parent.name == "chats"


_LAYOUT = Layout(("tmp",), depth=3, suffixes=(".jsonl", ".json"), among=_is_chat)


def _first(path: Path, problems: list[Problem]) -> Mapping[str, Json]:
    if path.suffix != ".json":
        return mapping(first_value(path))
    # Looked into before it is loaded: a person may name a file of any size.
    return mapping(jsonl.json_file(path, problems)) if "sessionId" in _beginning(path) else {}


def _id_of(first: Mapping[str, Json]) -> str:
    known = isinstance(first.get("projectHash"), str)
    return column_text(words(first.get("sessionId"))) if known else ""


class Place(NamedTuple):
    path: Path
    stamp: str


@lru_cache(maxsize=8192)
def _session_in(place: Place) -> tuple[str, tuple[Problem, ...]]:
    problems: list[Problem] = []
    native = _id_of(_first(place.path, problems))
    if not native and not problems:
        problems.append(Problem(str(place.path), "It is not a session of Gemini CLI."))
    return native, tuple(problems)


def _told(places: Sequence[Place], problems: list[Problem]) -> Iterator[tuple[Line, str]]:
    """The lines of all files of one session, as they were written, each with the file it stands in."""
    timed = [_timed(place.path, problems) for place in places]
    for _, line, where in merge(*timed, key=lambda told: told[0]):
        yield line, where


def _timed(path: Path, problems: list[Problem]) -> Iterator[tuple[str, Line, str]]:
    """An old file comes before what it became: it has no times of its own here."""
    where = place_of(path)
    if path.suffix == ".json":
        yield from (("", line, where) for line in _as_lines(path, problems))
        return
    at = ""
    for line in jsonl.json_lines(path, problems):
        value = mapping(line.value)
        value = mapping(value.get("$set")) or value
        found = value.get("timestamp") or value.get("lastUpdated") or value.get("startTime")
        at = max(at, moment(found))
        yield at, line, where


def _as_lines(path: Path, problems: list[Problem]) -> Iterator[Line]:
    whole = mapping(jsonl.json_file(path, problems))
    told = {name: value for name, value in whole.items() if name not in ("messages", "lastUpdated")}
    lasting = {name: value for name, value in whole.items() if name not in _CHANGING}
    for number, (value, kept) in enumerate([(told, lasting), *((one, one) for one in items(whole.get("messages")))]):
        try:
            yield Line(number, encode(kept), value)
        except BadValue as reason:
            problems.append(Problem(f"{path}:{number}", str(reason)))


# ── the sessions ──────────────────────────────────────────────────────────────────────────────────


class _Found(NamedTuple):
    branches: tuple[str, ...]
    updated_at: str


@lru_cache(maxsize=4096)
def _peek(places: tuple[Place, ...]) -> _Found:
    """Looked at once for as long as the files stay as they are. Where nobody spoke there is no session."""
    replay = Replay(_told(places, []))
    nodes = [step.node for step in replay.steps()]
    if not any(node.spoken for node in nodes):
        return _Found((), "")
    return _Found(tuple(branch.name for branch in branches(nodes)), replay.ended)


class Gemini(Transcripts):
    def __init__(self, root: Path) -> None:
        super().__init__()
        self._root = root
        self._files: dict[str, list[Place]] = {}
        self._branches: dict[str, tuple[str, str]] = {}

    def scan(self) -> Iterator[Ref]:
        for path in _LAYOUT.files(self._root, self.problems):
            place = Place(path, jsonl.file_digest_stamp(path))
            native, problems = _session_in(place)
            self.problems += problems
            if native:
                self._files.setdefault(native, []).append(place)
        for native, places in self._files.items():
            found = _peek(tuple(places))
            stamp = sqlite.digest(*(place.stamp for place in places))
            for name in found.branches:
                branch_id = Branch(name).native_id(native)
                self._branches[branch_id] = native, name
                yield Ref(branch_id, stamp, found.updated_at)

    def read(self, ref: Ref) -> Iterator[Batch]:
        met: list[Problem] = []
        native, name = self._branches[ref.native_id]
        places = self._files[native]
        # A fork's files are its session's, which tells of their problems.
        replay = Replay(_told(places, [] if name else met))
        told = [(step.node, step.entry.created_at) for step in replay.steps()]
        branch = next((branch for branch in branches([node for node, _ in told]) if branch.name == name), None)
        if branch is None:
            return
        fields = branch.fields(native) if name else self._origin(native)
        fields |= {"agent_title": replay.title(), "cwd": _folder_of(places, replay)}
        fields |= sqlite.lifetime(replay.begun, told[branch.own[-1]][1] if name else replay.ended)
        yield about(fields, replay.head, Path(replay.head_place))
        past = set(branch.past())
        yield from sqlite.batches(_entries(places, past, past | set(branch.own)), met)

    def _origin(self, native: str) -> SessionFields:
        """A sub-agent's file stands in a folder that is named after its parent."""
        path = self._files[native][0].path
        if not _is_sub_agent(path):
            return {}
        parent = column_text(path.parent.name)
        fields: SessionFields = {"parent_id": parent, "relation": "delegate"}
        replay = Replay(_told(self._files.get(parent, []), []))
        nodes = [step.node for step in replay.steps()]
        asked = replay.asked(native)
        main = branches(nodes)[0].own if nodes else []
        if asked in main:
            fields["forked_at"] = main.index(asked)
        return fields


def _entries(places: Sequence[Place], past: set[int], wanted: set[int]) -> Iterator[list[NewEntry]]:
    for number, step in enumerate(Replay(_told(places, [])).steps()):
        if number in wanted:
            step.entry.inherited = number in past
            yield [step.entry]


# ── where it was ──────────────────────────────────────────────────────────────────────────────────


def _folder_of(places: Sequence[Place], replay: Replay) -> str:
    """No file of the session says it: the project's folder is named after it, or after its hash."""
    chats = next((folder for folder in places[0].path.parents if folder.name == "chats"), None)
    if chats is None:
        return next(iter(_hashed(replay.directories, replay.project)), "")
    project, home = chats.parent, chats.parent.parent.parent
    if told := _beginning(project / ".project_root").strip():
        return told
    projects = mapping(mapping(jsonl.json_file(home / "projects.json", [])).get("projects"))
    trusted = mapping(jsonl.json_file(home / "trustedFolders.json", []))
    named = [folder for folder, slug in projects.items() if slug == project.name]
    return next(iter([*named, *_hashed([*projects, *trusted, *replay.directories], replay.project)]), "")


def _hashed(folders: Iterable[str], project: str) -> Iterator[str]:
    for folder in folders:
        if hashlib.sha256(folder.encode("utf-8", "surrogatepass")).hexdigest() == project:
            yield folder


def _beginning(path: Path) -> str:
    try:
        with jsonl.opened(path) as file:
            return file.read(65_536).decode("utf-8", "replace")
    except jsonl.UNREADABLE:
        return ""
