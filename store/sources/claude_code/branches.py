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
from store.sources.claude_code.prompts import extract_prompt, is_command, is_command_output
from store.sources.contract import Problem
from store.sources.kit.jsonl import (
    PATH_ERRORS,
    JsonLine,
    as_dict,
    as_list,
    as_str,
    as_time,
    open_file,
    read_cached_lines,
)
from store.text.validate import replace_surrogates

MAIN_BRANCH = ""
MAX_PROMPT_CHARS = 2_000
TITLE_FIELDS = {"custom-title": "customTitle", "ai-title": "aiTitle"}
MESSAGE_TYPES = frozenset(["user", "assistant", "system"])


class TranscriptNode(NamedTuple):
    position: int
    parent: str
    "Empty at a root."
    is_prompt: bool
    is_message: bool
    "By the user or the assistant, not by the program."


@dataclass(frozen=True, slots=True)
class TranscriptBranch:
    "What became a session of its own within a transcript."

    root_uuid: str
    "The uuid of its first record."
    kind: str
    "branch: left behind by a rewind; sidechain: a sub-agent's, as 1.x wrote them."
    parent: str = MAIN_BRANCH
    "The root of the branch it left."
    last_shared_index: int = -1
    "The index of the last record that both share."


@dataclass(slots=True)
class TranscriptTree:
    "All that must be known of a transcript before its first record can be told."

    nodes: dict[str, TranscriptNode] = field(default_factory=dict)
    branch_of: dict[int, str] = field(default_factory=dict)
    "By index; what is not named belongs to the main one."
    branches: dict[str, TranscriptBranch] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    "What a person said, or its beginning, by the record's uuid."
    copied_uuids: dict[int, str] = field(default_factory=dict)
    "Of records that say which they are copies of: that one's uuid, by index."
    forked_from_session: str = ""
    spawn_calls: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    "Of a call that sends off a sub-agent: the record's index, the description and the prompt, by the call's id."
    spawn_call_ids: dict[str, str] = field(default_factory=dict)
    "The call's id by the sub-agent's."
    local_commands: set[int] = field(default_factory=set)
    "Commands that asked the model nothing."
    cwd: str = ""
    times: dict[int, str] = field(default_factory=dict)
    "By index, where a record says when."
    record_count: int = 0

    def lineage(self, branch: str) -> dict[str, int]:
        """The branches whose records a branch consists of, each with the last index that it shares."""
        found, upto = {branch: self.record_count - 1}, self.record_count - 1
        while branch in self.branches and self.branches[branch].kind == "branch":
            upto = min(upto, self.branches[branch].last_shared_index)
            branch = self.branches[branch].parent
            if branch in found:
                break
            found[branch] = upto
        return found

    def chain_position(self, index: int, branch: str) -> int:
        """Where in a branch's chain the record stands that is the last of it up to the index."""
        shares = self.lineage(branch)
        return sum(at <= shares.get(self.branch_of.get(at, MAIN_BRANCH), -1) for at in range(index + 1)) - 1


def find_open_turn(made: TranscriptTree) -> list[str]:
    """The last prompt of the main conversation and what hangs on it; nothing when it is not plain what goes on."""
    main = [uuid for uuid, node in made.nodes.items() if made.branch_of.get(node.position, MAIN_BRANCH) == MAIN_BRANCH]
    talk = [uuid for uuid in main if made.nodes[uuid].is_message]
    prompts = [uuid for uuid in main if made.nodes[uuid].is_prompt]
    if not prompts or prompts[-1] not in _path_to_root(made, talk[-1]):
        return []
    turn = dict.fromkeys(prompts[-1:])
    for uuid in main:
        if made.nodes[uuid].parent in turn:
            turn[uuid] = None
    return list(turn)


def _path_to_root(made: TranscriptTree, uuid: str, *ends: set[str]) -> list[str]:
    """From a record towards the root, to the first of those to stop at; a loop in the links ends it too."""
    nodes, way = made.nodes, {uuid: None}
    while not (ends and any(uuid in end for end in ends)):
        uuid = nodes[uuid].parent
        if uuid not in nodes or uuid in way:
            break
        way[uuid] = None
    return list(way)


def read_numbered_lines(files: Sequence[Path], problems: list[Problem]) -> Iterator[tuple[int, Path, JsonLine]]:
    """The lines of a transcript, which may be spread over several files."""
    index = 0
    for path in files:
        for line in read_cached_lines(path, problems):
            yield index, path, line
            index += 1


def build_tree(files: Sequence[Path], *, is_subagent: bool) -> TranscriptTree:
    made = TranscriptTree()
    sidechain: set[str] = set()
    again: dict[int, str] = {}
    waiting: int | None = None
    for index, _, line in read_numbered_lines(files, []):
        value = as_dict(line.value)
        made.record_count = index + 1
        kind = as_str(value.get("type"))
        _collect(made, index, kind, value)
        if waiting is not None and kind in MESSAGE_TYPES:
            if is_command_output(value):
                made.local_commands.add(waiting)
            waiting = None
        if kind == "user" and is_command(as_str(as_dict(value.get("message")).get("content"))):
            waiting = index
        uuid = _parse_id(value.get("uuid"))
        if uuid in made.nodes:
            again[index] = uuid
        if not uuid or uuid in made.nodes:
            continue
        text = extract_prompt(value) if kind == "user" else None
        if text is not None:
            made.prompts[uuid] = text[:MAX_PROMPT_CHARS]
        parent = _parse_id(value.get("parentUuid")) or _parse_id(value.get("logicalParentUuid"))
        is_talk = kind in ("user", "assistant") and value.get("isMeta") is not True
        made.nodes[uuid] = TranscriptNode(index, parent, text is not None, is_talk)
        if value.get("isSidechain") is True and not is_subagent:
            sidechain.add(uuid)
    _BranchSplitter(made, sidechain).run()
    for index, uuid in again.items():
        made.branch_of[index] = made.branch_of.get(made.nodes[uuid].position, MAIN_BRANCH)
    return made


def _parse_id(value: Json) -> str:
    return value if type(value) is str and value.isascii() else replace_surrogates(as_str(value))


def _collect(made: TranscriptTree, index: int, kind: str, value: Mapping[str, Json]) -> None:
    if at := as_time(value.get("timestamp")):
        made.times[index] = at
    made.cwd = made.cwd or as_str(value.get("cwd"))
    if "forkedFrom" in value and (session := _parse_id(as_dict(value["forkedFrom"]).get("sessionId"))):
        made.forked_from_session = made.forked_from_session or session
        made.copied_uuids[index] = _parse_id(as_dict(value["forkedFrom"]).get("messageUuid"))
    if kind == "assistant":
        for block in _message_blocks(value):
            asked = as_dict(block.get("input")) if block.get("type") == "tool_use" else {}
            if isinstance(asked.get("prompt"), str):
                called = (index, as_str(asked.get("description")), asked["prompt"])
                made.spawn_calls.setdefault(as_str(block.get("id")), called)
    elif kind == "user" and (agent := as_str(as_dict(value.get("toolUseResult")).get("agentId"))):
        for block in _message_blocks(value):
            made.spawn_call_ids.setdefault(agent, as_str(block.get("tool_use_id")))
    elif kind == "progress" and (agent := as_str(as_dict(value.get("data")).get("agentId"))):
        made.spawn_call_ids.setdefault(agent, as_str(value.get("parentToolUseID")))
    elif kind in TITLE_FIELDS:
        made.titles[kind] = as_str(value.get(TITLE_FIELDS[kind]))


def _message_blocks(value: Mapping[str, Json]) -> Iterator[Mapping[str, Json]]:
    return map(as_dict, as_list(as_dict(value.get("message")).get("content")))


class _BranchSplitter:
    """Gives each record that is not of the main conversation to its branch."""

    def __init__(self, made: TranscriptTree, sidechain: set[str]) -> None:
        self.tree = made
        self.sidechain = sidechain
        self.children: dict[str, list[str]] = {}
        for uuid, node in made.nodes.items():
            self.children.setdefault(node.parent, []).append(uuid)

    def run(self) -> None:
        for uuid in self.sidechain:
            if self.tree.nodes[uuid].parent not in self.sidechain:
                self._assign(TranscriptBranch(uuid, "sidechain"), self._descendants(uuid))
        waiting = [(MAIN_BRANCH, [uuid for uuid in self.tree.nodes if uuid not in self.sidechain])]
        while waiting:
            branch, members = waiting.pop()
            waiting += self._split_off(branch, members)

    def _assign(self, branch: TranscriptBranch, members: Sequence[str]) -> None:
        self.tree.branches[branch.root_uuid] = branch
        for uuid in members:
            self.tree.branch_of[self.tree.nodes[uuid].position] = branch.root_uuid

    def _descendants(self, root: str) -> list[str]:
        found, seen = [root], {root}
        for uuid in found:
            for child in self.children.get(uuid, ()):
                if child not in seen and (child in self.sidechain) == (root in self.sidechain):
                    seen.add(child)
                    found.append(child)
        return found

    def _split_off(self, branch: str, members: list[str]) -> Iterator[tuple[str, list[str]]]:
        """The branches that leave this one, each at the first prompt which its newest record does not go back to."""
        nodes = self.tree.nodes
        talk = [uuid for uuid in members if nodes[uuid].is_message]
        if not talk:
            return
        path = _path_to_root(self.tree, max(talk, key=lambda uuid: nodes[uuid].position))
        kept, begins_anew = set(path), nodes[path[-1]].is_prompt and not nodes[path[-1]].parent
        gone: set[str] = set()
        adrift: set[str] = set()
        for uuid in sorted(members, key=lambda uuid: nodes[uuid].position):
            if not nodes[uuid].is_prompt or uuid in kept or uuid in gone or uuid == branch:
                continue
            way = _path_to_root(self.tree, uuid, kept, adrift)
            shared = way[-1]
            if shared in kept:
                after = nodes[shared].position
            elif begins_anew and not nodes[shared].parent and nodes[shared].is_prompt:
                after = -1
            else:
                adrift.update(way)
                continue
            below = self._descendants(uuid)
            gone.update(below)
            self._assign(TranscriptBranch(uuid, "branch", branch, after), below)
            yield uuid, below


# ── without understanding it all ──────────────────────────────────────────────────────────────────

_PARENT_LINK = re.compile(rb'\n\{"parentUuid":"([^"]+)"')
_ROOT_LINE = b'\n{"parentUuid":null'
_LINE_START = re.compile(rb'\{"parentUuid":["n]')
_MAX_SCAN_BYTES = 32 * 1024 * 1024


def may_have_branches(path: Path, *, is_subagent: bool) -> bool:
    """Whether a transcript is worth dividing. Most are one straight line, and the links at its lines' heads tell."""
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size > _MAX_SCAN_BYTES:
                return True
            data = b"\n" + file.read()
    except PATH_ERRORS:
        return False
    first = data.find(b'"parentUuid":')
    if first > 0 and not _LINE_START.match(data, first - 1):
        return True
    has_sidechain = not is_subagent and b'"isSidechain":true' in data
    return has_sidechain or data.count(_ROOT_LINE) > 1 or _has_fork(data)


def _has_fork(data: bytes) -> bool:
    seen: dict[bytes, int] = {}
    for link in _PARENT_LINK.finditer(data):
        at = link.start()
        before = seen.setdefault(link[1], at)
        if before != at and not (_is_parallel_call(data, before) and _is_parallel_call(data, at)):
            return True
    return False


def _is_parallel_call(data: bytes, at: int) -> bool:
    """Calls that run side by side, and their results, part and meet again all the time."""
    end = data.find(b"\n", at + 1)
    line = data[at : end if end >= 0 else len(data)]
    return b'"type":"assistant"' in line or b'"tool_use_id"' in line
