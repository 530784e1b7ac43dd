"""Where Claude Code keeps its transcripts, and what of each is known without reading it through."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from store.sources.claude_code.branches import Branch, Outline, may_branch, outline
from store.sources.claude_code.layout import DEPTH, SUFFIXES, folder_of
from store.sources.contract import Problem
from store.sources.kit.jsonl import file_digest_stamp, json_lines, mapping, moment, stamp_of, walk, walk_stamped, words
from store.sources.kit.sqlite import utc
from store.text.validate import column_text

_NAME = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\.jsonl")
_OTHERS = frozenset(["subagents", "tool-results", "memory"])
_AGENT = "agent-"
_SIDECAR = ".meta.json"
_PEEKED_LINES = 200


class Transcript(NamedTuple):
    native_id: str
    files: tuple[Path, ...]
    "More than one where a session moved to another folder."
    parent: str = ""
    "Of a sub-agent: the session it worked for."
    stamp: str = ""
    "Of all its files, and of the one beside it that tells of a sub-agent."
    touched: str = ""

    @property
    def is_agent(self) -> bool:
        return bool(self.parent)

    @property
    def agent(self) -> str:
        return self.files[0].stem.removeprefix(_AGENT)

    @property
    def sidecar(self) -> Path:
        return self.files[0].with_suffix(".meta.json")

    def named(self, branch: Branch | None) -> str:
        """The native id of one of its branches, or of the session itself."""
        return f"{self.native_id}/{branch.root}" if branch else self.native_id


class Glance(NamedTuple):
    "What the head of a transcript tells."

    first: str
    "The uuid of the first record that has one."
    began: str
    "When its first line was written; of a fork later than its first message, which is a copy."
    session: str
    "The session that the first record says it belongs to."
    summaries: tuple[tuple[str, str], ...]
    "Titles of other sessions, by their last record, as 1.x wrote them."


def transcripts(locator: Path, problems: list[Problem]) -> list[Transcript]:
    files = dict(_files(locator, problems))
    found: dict[str, Transcript] = {}
    for name, known in files.items():
        if not name.endswith(_SIDECAR):
            beside = files.get(name.removesuffix(".jsonl") + _SIDECAR)
            one = _transcript(name, stamp_of(known), known.st_mtime, stamp_of(beside) if beside else "")
            before = found.get(one.native_id)
            found[one.native_id] = _together(before, one) if before else one
    return [_in_order(one) for one in found.values()]


def _files(locator: Path, problems: list[Problem]) -> Iterator[tuple[str, os.stat_result]]:
    if locator.is_file():
        yield str(locator), locator.stat()
        if (beside := locator.with_suffix("") / "subagents").is_dir():
            yield from walk_stamped(beside, problems, suffixes=SUFFIXES, depth=DEPTH)
        return
    for name, known in walk_stamped(folder_of(locator), problems, suffixes=SUFFIXES, depth=DEPTH):
        if _is_transcript(name):
            yield name, known


@lru_cache(maxsize=65_536)
def _transcript(name: str, stamp: str, touched: float, beside: str) -> Transcript:
    """Made once for as long as the file stays as it is: the making costs more than the asking."""
    path, at = Path(name), utc(touched)
    parent = _parent_of(path, stamp) if path.name.startswith(_AGENT) else ""
    if not parent:
        return Transcript(path.stem, (path,), "", stamp, at)
    return Transcript(f"{parent}/{path.stem}", (path,), parent, f"{stamp} {beside}", at)


def _together(one: Transcript, other: Transcript) -> Transcript:
    return one._replace(
        files=one.files + other.files,
        stamp=f"{one.stamp} {other.stamp}",
        touched=max(one.touched, other.touched),
    )


def _is_transcript(path: str) -> bool:
    """Also what tells of a sub-agent's."""
    folder, _, name = path.rpartition(os.sep)
    if name.startswith(_AGENT):
        return True
    return bool(_NAME.fullmatch(name)) and not _OTHERS & {*folder.rsplit(os.sep, 3)[1:]}


def _in_order(one: Transcript) -> Transcript:
    if len(one.files) == 1:
        return one
    glanced = {path: glance(path, file_digest_stamp(path)) for path in one.files}
    begun = {path: seen.began if seen else "" for path, seen in glanced.items()}
    return one._replace(files=tuple(sorted(one.files, key=lambda path: (begun[path], str(path)))))


def _parent_of(path: Path, stamp: str) -> str:
    """A sub-agent lies in its session's folder; until 2.0 it lay beside it, and only its records name the session."""
    names = path.parts
    if "subagents" in names:
        return names[len(names) - 1 - names[::-1].index("subagents") - 1]
    glanced = glance(path, stamp)
    return glanced.session if glanced else ""


@lru_cache(maxsize=65_536)
def glance(path: Path, stamp: str) -> Glance | None:
    """None of a transcript in which nobody says anything, or says it as other programs write it."""
    first = began = session = ""
    summaries: list[tuple[str, str]] = []
    for line in json_lines(path, []):
        value = mapping(line.value)
        began = began or moment(value.get("timestamp"))
        if value.get("type") == "summary":
            summaries.append((words(value.get("leafUuid")), words(value.get("summary"))))
        first = first or words(value.get("uuid"))
        session = session or column_text(words(value.get("sessionId")))
        if value.get("type") in ("user", "assistant") and "content" in mapping(value.get("message")):
            return Glance(first, began, session, tuple(summaries))
    return Glance("", began, session, tuple(summaries)) if summaries else None


def branches(one: Transcript) -> tuple[Branch, ...]:
    return _branches(one.files, one.is_agent, one.stamp)


@lru_cache(maxsize=65_536)
def _branches(files: Sequence[Path], is_agent: bool, stamp: str) -> tuple[Branch, ...]:
    if len(files) == 1 and not may_branch(files[0], is_agent=is_agent):
        return ()
    return tuple(_outlined(files, is_agent, stamp).branches.values())


def outlined(one: Transcript) -> Outline:
    """A session is asked for again by each of its sub-agents and forks."""
    return _outlined(one.files, one.is_agent, one.stamp)


@lru_cache(maxsize=4)
def _outlined(files: Sequence[Path], is_agent: bool, stamp: str) -> Outline:
    return outline(files, is_agent=is_agent)


def looks_like_ours(path: Path) -> bool:
    """A message with content under a uuid of its own; others write such lines too, but with parts in its place."""
    for seen, line in enumerate(json_lines(path, [])):
        value = mapping(line.value)
        is_talk = value.get("type") in ("user", "assistant") and isinstance(value.get("sessionId"), str)
        if is_talk and "content" in mapping(value.get("message")) and isinstance(value.get("uuid"), str):
            return True
        if seen >= _PEEKED_LINES:
            break
    return False


def some_transcripts(locator: Path) -> Iterator[Path]:
    if locator.is_file():
        yield locator
    elif locator.is_dir():
        found = walk(folder_of(locator), [], depth=DEPTH)
        yield from (path for path in found if _is_transcript(str(path)))


class Found:
    """All transcripts of a place, and which of them are copies of which."""

    def __init__(self, locator: Path, problems: list[Problem]) -> None:
        self.by_id: dict[str, Transcript] = {}
        self.summaries: dict[str, str] = {}
        self._begun: dict[str, list[tuple[bool, str, str]]] = {}
        self._first: dict[str, str] = {}
        for one in transcripts(locator, problems):
            glanced = glance(one.files[0], one.stamp)
            if glanced is None:
                next(json_lines(one.files[0], problems), None)  # which says so, where it cannot be read
                continue
            self.summaries.update(glanced.summaries)
            if glanced.first:
                self.by_id[one.native_id] = one
                self._first[one.native_id] = glanced.first
                copied = glanced.session != one.native_id
                self._begun.setdefault(glanced.first, []).append((copied, glanced.began, one.native_id))

    def named(self, native_id: str) -> tuple[Transcript, str] | None:
        """The transcript and the branch of it that a native id names; no file's name has a slash in it."""
        own = native_id
        while own and own not in self.by_id:
            own = own.rpartition("/")[0]
        return (self.by_id[own], native_id[len(own) + 1 :]) if own else None

    def elders(self, one: Transcript) -> list[str]:
        """The transcripts that begin with the same record and were begun before, the eldest first."""
        kin = self._begun[self._first[one.native_id]]
        if len(kin) == 1 or one.is_agent:
            return []
        names = [native_id for *_, native_id in sorted(kin)]
        return names[: names.index(one.native_id)]
