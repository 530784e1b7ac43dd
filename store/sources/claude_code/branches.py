"""A transcript's records as the tree they are: which belong to the conversation as it goes on, which to a branch that
was left behind, and which to a helper that was sent off."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from store.model.entry import Json
from store.sources.claude_code.prompts import is_command, is_command_output, said
from store.sources.contract import Problem
from store.sources.kit.jsonl import UNREADABLE, Line, held_lines, items, mapping, moment, opened, words
from store.text.validate import column_text

MAIN = ""
PROMPT_KEPT = 2_000
TITLES = {"custom-title": "customTitle", "ai-title": "aiTitle"}
TALKING = frozenset(["user", "assistant", "system"])


class Node(NamedTuple):
    at: int
    parent: str
    "Empty at a root."
    is_prompt: bool
    is_talk: bool
    "By the user or the assistant, not by the program."


@dataclass(frozen=True, slots=True)
class Branch:
    "What became a session of its own within a transcript."

    root: str
    "The uuid of its first record."
    kind: str
    "branch: left behind by a rewind; sidechain: a sub-agent's, as 1.x wrote them."
    parent: str = MAIN
    "The root of the branch it left."
    after: int = -1
    "The index of the last record that both share."


@dataclass(slots=True)
class Outline:
    "All that must be known of a transcript before its first record can be told."

    nodes: dict[str, Node] = field(default_factory=dict)
    branch_of: dict[int, str] = field(default_factory=dict)
    "By index; what is not named belongs to the main one."
    branches: dict[str, Branch] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    "What a person said, or its beginning, by the record's uuid."
    forked: dict[int, str] = field(default_factory=dict)
    "Of records that say which they are copies of: that one's uuid, by index."
    forked_from: str = ""
    calls: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    "Of a call that sends off a sub-agent: the record's index, the description and the prompt, by the call's id."
    agents: dict[str, str] = field(default_factory=dict)
    "The call's id by the sub-agent's."
    silent: set[int] = field(default_factory=set)
    "Commands that asked the model nothing."
    cwd: str = ""
    times: dict[int, str] = field(default_factory=dict)
    "By index, where a record says when."
    count: int = 0

    def lineage(self, branch: str) -> dict[str, int]:
        """The branches whose records a branch consists of, each with the last index that it shares."""
        found, upto = {branch: self.count - 1}, self.count - 1
        while branch in self.branches and self.branches[branch].kind == "branch":
            upto = min(upto, self.branches[branch].after)
            branch = self.branches[branch].parent
            if branch in found:
                break
            found[branch] = upto
        return found

    def place(self, index: int, branch: str) -> int:
        """Where in a branch's chain the record stands that is the last of it up to the index."""
        shares = self.lineage(branch)
        return sum(at <= shares.get(self.branch_of.get(at, MAIN), -1) for at in range(index + 1)) - 1


def turn_under_way(made: Outline) -> list[str]:
    """The last prompt of the main conversation and what hangs on it; nothing when it is not plain what goes on."""
    main = [uuid for uuid, node in made.nodes.items() if made.branch_of.get(node.at, MAIN) == MAIN]
    talk = [uuid for uuid in main if made.nodes[uuid].is_talk]
    prompts = [uuid for uuid in main if made.nodes[uuid].is_prompt]
    if not prompts or prompts[-1] not in _way_up(made, talk[-1]):
        return []
    turn = dict.fromkeys(prompts[-1:])
    for uuid in main:
        if made.nodes[uuid].parent in turn:
            turn[uuid] = None
    return list(turn)


def _way_up(made: Outline, uuid: str, *ends: set[str]) -> list[str]:
    """From a record towards the root, to the first of those to stop at; a loop in the links ends it too."""
    nodes, way = made.nodes, {uuid: None}
    while not (ends and any(uuid in end for end in ends)):
        uuid = nodes[uuid].parent
        if uuid not in nodes or uuid in way:
            break
        way[uuid] = None
    return list(way)


def numbered(files: Sequence[Path], problems: list[Problem]) -> Iterator[tuple[int, Path, Line]]:
    """The lines of a transcript, which may be spread over several files."""
    index = 0
    for path in files:
        for line in held_lines(path, problems):
            yield index, path, line
            index += 1


def outline(files: Sequence[Path], *, is_agent: bool) -> Outline:
    made = Outline()
    sidechain: set[str] = set()
    again: dict[int, str] = {}
    waiting: int | None = None
    for index, _, line in numbered(files, []):
        value = mapping(line.value)
        made.count = index + 1
        kind = words(value.get("type"))
        _note(made, index, kind, value)
        if waiting is not None and kind in TALKING:
            if is_command_output(value):
                made.silent.add(waiting)
            waiting = None
        if kind == "user" and is_command(words(mapping(value.get("message")).get("content"))):
            waiting = index
        uuid = _id(value.get("uuid"))
        if uuid in made.nodes:
            again[index] = uuid
        if not uuid or uuid in made.nodes:
            continue
        text = said(value) if kind == "user" else None
        if text is not None:
            made.prompts[uuid] = text[:PROMPT_KEPT]
        parent = _id(value.get("parentUuid")) or _id(value.get("logicalParentUuid"))
        is_talk = kind in ("user", "assistant") and value.get("isMeta") is not True
        made.nodes[uuid] = Node(index, parent, text is not None, is_talk)
        if value.get("isSidechain") is True and not is_agent:
            sidechain.add(uuid)
    _Dividing(made, sidechain).run()
    for index, uuid in again.items():
        made.branch_of[index] = made.branch_of.get(made.nodes[uuid].at, MAIN)
    return made


def _id(value: Json) -> str:
    return value if type(value) is str and value.isascii() else column_text(words(value))


def _note(made: Outline, index: int, kind: str, value: Mapping[str, Json]) -> None:
    if at := moment(value.get("timestamp")):
        made.times[index] = at
    made.cwd = made.cwd or words(value.get("cwd"))
    if "forkedFrom" in value and (session := _id(mapping(value["forkedFrom"]).get("sessionId"))):
        made.forked_from = made.forked_from or session
        made.forked[index] = _id(mapping(value["forkedFrom"]).get("messageUuid"))
    if kind == "assistant":
        for block in _blocks(value):
            asked = mapping(block.get("input")) if block.get("type") == "tool_use" else {}
            if isinstance(asked.get("prompt"), str):
                called = (index, words(asked.get("description")), asked["prompt"])
                made.calls.setdefault(words(block.get("id")), called)
    elif kind == "user" and (agent := words(mapping(value.get("toolUseResult")).get("agentId"))):
        for block in _blocks(value):
            made.agents.setdefault(agent, words(block.get("tool_use_id")))
    elif kind == "progress" and (agent := words(mapping(value.get("data")).get("agentId"))):
        made.agents.setdefault(agent, words(value.get("parentToolUseID")))
    elif kind in TITLES:
        made.titles[kind] = words(value.get(TITLES[kind]))


def _blocks(value: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    return map(mapping, items(mapping(value.get("message")).get("content")))


class _Dividing:
    """Gives each record that is not of the main conversation to its branch."""

    def __init__(self, made: Outline, sidechain: set[str]) -> None:
        self.made = made
        self.sidechain = sidechain
        self.children: dict[str, list[str]] = {}
        for uuid, node in made.nodes.items():
            self.children.setdefault(node.parent, []).append(uuid)

    def run(self) -> None:
        for uuid in self.sidechain:
            if self.made.nodes[uuid].parent not in self.sidechain:
                self._give(Branch(uuid, "sidechain"), self._below(uuid))
        waiting = [(MAIN, [uuid for uuid in self.made.nodes if uuid not in self.sidechain])]
        while waiting:
            branch, members = waiting.pop()
            waiting += self._leave(branch, members)

    def _give(self, branch: Branch, members: Sequence[str]) -> None:
        self.made.branches[branch.root] = branch
        for uuid in members:
            self.made.branch_of[self.made.nodes[uuid].at] = branch.root

    def _below(self, root: str) -> list[str]:
        found, seen = [root], {root}
        for uuid in found:
            for child in self.children.get(uuid, ()):
                if child not in seen and (child in self.sidechain) == (root in self.sidechain):
                    seen.add(child)
                    found.append(child)
        return found

    def _leave(self, branch: str, members: list[str]) -> Iterator[tuple[str, list[str]]]:
        """The branches that leave this one, each at the first prompt which its newest record does not go back to."""
        nodes = self.made.nodes
        talk = [uuid for uuid in members if nodes[uuid].is_talk]
        if not talk:
            return
        path = _way_up(self.made, max(talk, key=lambda uuid: nodes[uuid].at))
        kept, begins_anew = set(path), nodes[path[-1]].is_prompt and not nodes[path[-1]].parent
        gone: set[str] = set()
        adrift: set[str] = set()
        for uuid in sorted(members, key=lambda uuid: nodes[uuid].at):
            if not nodes[uuid].is_prompt or uuid in kept or uuid in gone or uuid == branch:
                continue
            way = _way_up(self.made, uuid, kept, adrift)
            shared = way[-1]
            if shared in kept:
                after = nodes[shared].at
            elif begins_anew and not nodes[shared].parent and nodes[shared].is_prompt:
                after = -1
            else:
                adrift.update(way)
                continue
            below = self._below(uuid)
            gone.update(below)
            self._give(Branch(uuid, "branch", branch, after), below)
            yield uuid, below


# ── without understanding it all ──────────────────────────────────────────────────────────────────

_LINKED = re.compile(rb'\n\{"parentUuid":"([^"]+)"')
_ROOT = b'\n{"parentUuid":null'
_HEAD = re.compile(rb'\{"parentUuid":["n]')
_SHORT = 32 * 1024 * 1024


def may_branch(path: Path, *, is_agent: bool) -> bool:
    """Whether a transcript is worth dividing. Most are one straight line, and the links at its lines' heads tell."""
    try:
        with opened(path) as file:
            if os.fstat(file.fileno()).st_size > _SHORT:
                return True
            data = b"\n" + file.read()
    except UNREADABLE:
        return False
    first = data.find(b'"parentUuid":')
    if first > 0 and not _HEAD.match(data, first - 1):
        return True
    has_sidechain = not is_agent and b'"isSidechain":true' in data
    return has_sidechain or data.count(_ROOT) > 1 or _parts_somewhere(data)


def _parts_somewhere(data: bytes) -> bool:
    seen: dict[bytes, int] = {}
    for link in _LINKED.finditer(data):
        at = link.start()
        before = seen.setdefault(link[1], at)
        if before != at and not (_goes_straight(data, before) and _goes_straight(data, at)):
            return True
    return False


def _goes_straight(data: bytes, at: int) -> bool:
    """Calls that run side by side, and their results, part and meet again all the time."""
    end = data.find(b"\n", at + 1)
    line = data[at : end if end >= 0 else len(data)]
    return b'"type":"assistant"' in line or b'"tool_use_id"' in line
