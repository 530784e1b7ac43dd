"""This module builds the tree of a transcript's records. It decides which records belong to the main conversation,
which to a branch that a rewind left behind, and which to a sub-agent."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from store.sources.claude_code.record import MESSAGE_TYPES, SPAWN_REPORT_TYPES, TITLE_FIELDS, ClaudeRecord, SpawnCall
from store.sources.claude_code.web import read_cached_records
from store.sources.contract import Problem
from store.sources.kit.jsonl import PATH_ERRORS, JsonLine, as_str, as_time, open_file, skip_byte_order_mark
from store.sources.kit.line_scan import separate_records

MAIN_BRANCH = ""
MAX_PROMPT_CHARS = 2_000


class TranscriptNode(NamedTuple):
    position: int
    parent: str
    "Is empty at a root."
    is_typed: bool
    "Is set for a prompt and for a local command."
    is_answer: bool


@dataclass(frozen=True, slots=True)
class TranscriptBranch:
    "Describes records of a transcript that form a session of their own."

    root_uuid: str
    "The uuid of its first record."
    kind: str
    "Is `branch` after a rewind, or `sidechain` for a sub-agent whose records version 1 wrote into the same file."
    parent: str = MAIN_BRANCH
    "The root of the branch that it leaves."
    last_shared_index: int = -1
    "The index of the last record that both share."


@dataclass(slots=True)
class TranscriptTree:
    "Holds what must be known of a transcript before its first record can be converted to an entry."

    nodes: dict[str, TranscriptNode] = field(default_factory=dict)
    branch_of: dict[int, str] = field(default_factory=dict)
    "The branch by record index. A record that is absent belongs to the main branch."
    branches: dict[str, TranscriptBranch] = field(default_factory=dict)
    titles: dict[str, str] = field(default_factory=dict)
    prompts: dict[str, str] = field(default_factory=dict)
    "The beginning of each prompt, by the record's uuid."
    copied_uuids: dict[int, str] = field(default_factory=dict)
    "The uuid of the original, by the index of its copy, for records that name their original."
    forked_from_session: str = ""
    spawn_calls: dict[str, tuple[int, SpawnCall]] = field(default_factory=dict)
    "Each call that may start a sub-agent with the index of its record, by the call's id."
    spawn_call_ids: dict[str, str] = field(default_factory=dict)
    "The call's id, by the id of the sub-agent that it started."
    local_commands: set[int] = field(default_factory=set)
    "The indexes of commands that sent nothing to the model."
    is_command_open: bool = False
    "Is set when no message follows the last command, so that it is not known yet what it is."
    has_only_sidechains: bool = False
    "Is set when the file has no conversation of its own. Its first side chain is the session then."
    cwd: str = ""
    times: dict[int, str] = field(default_factory=dict)
    "The time by record index, for records that have one."
    record_count: int = 0

    def is_prompt(self, uuid: str) -> bool:
        return self.nodes[uuid].is_typed and self.nodes[uuid].position not in self.local_commands

    def is_conversation(self, uuid: str) -> bool:
        """Return whether a record is a prompt or an answer. A local command and what it printed are neither."""
        return self.nodes[uuid].is_answer or self.is_prompt(uuid)

    def branch_title(self, branch: str) -> str:
        """Return the first prompt of a branch, which may come after local commands."""
        own = (uuid for uuid in self.prompts if self.branch_of.get(self.nodes[uuid].position) == branch)
        return next((self.prompts[uuid] for uuid in own if self.is_prompt(uuid)), "")

    def lineage(self, branch: str) -> dict[str, int]:
        """Return the branches whose records a branch consists of, each with the last index that it shares."""
        shared_ends, end = {branch: self.record_count - 1}, self.record_count - 1
        while branch in self.branches and self.branches[branch].kind == "branch":
            end = min(end, self.branches[branch].last_shared_index)
            branch = self.branches[branch].parent
            if branch in shared_ends:
                break
            shared_ends[branch] = end
        return shared_ends

    def chain_position(self, index: int, branch: str) -> int:
        """Return the position, in a branch's chain, of its last record up to the index."""
        shares = self.lineage(branch)
        return sum(record <= shares.get(self.branch_of.get(record, MAIN_BRANCH), -1) for record in range(index + 1)) - 1


def find_open_turn(tree: TranscriptTree) -> list[str]:
    """Return the last prompt of the main conversation and its descendants, or nothing when the conversation does not
    plainly continue from that prompt."""
    main = [uuid for uuid, node in tree.nodes.items() if tree.branch_of.get(node.position, MAIN_BRANCH) == MAIN_BRANCH]
    prompt = next(filter(tree.is_prompt, reversed(main)), "")
    if not prompt:
        return []
    last = next(filter(tree.is_conversation, reversed(main)))
    if _path_to_root(tree, last, {prompt})[-1] != prompt:
        return []
    turn = dict.fromkeys([prompt])
    for uuid in main:
        if tree.nodes[uuid].parent in turn:
            turn[uuid] = None
    return list(turn)


def _path_to_root(tree: TranscriptTree, uuid: str, *ends: set[str]) -> list[str]:
    """Return the uuids from a record towards the root. The path stops at the first uuid of `ends`, or at a loop."""
    nodes, path = tree.nodes, {uuid: None}
    while not (ends and any(uuid in end for end in ends)):
        uuid = nodes[uuid].parent
        if uuid not in nodes or uuid in path:
            break
        path[uuid] = None
    return list(path)


def read_numbered_records(
    files: Sequence[Path], problems: list[Problem]
) -> Iterator[tuple[int, Path, JsonLine, ClaudeRecord]]:
    """Yield the numbered records of a transcript, which may consist of several files."""
    index = 0
    for path in files:
        for line, record in read_cached_records(path, problems):
            yield index, path, line, record
            index += 1


def build_tree(files: Sequence[Path], *, is_subagent: bool) -> TranscriptTree:
    tree = TranscriptTree()
    sidechain: set[str] = set()
    repeated: dict[int, str] = {}
    commands = CommandOutputs(tree.local_commands)
    for index, _, _, record in read_numbered_records(files, []):
        tree.record_count = index + 1
        _collect(tree, index, record)
        commands.add(index, record)
        uuid = record.uuid
        if uuid in tree.nodes:
            repeated[index] = uuid
        elif uuid:
            prompt = record.prompt
            if prompt is not None:
                tree.prompts[uuid] = prompt[:MAX_PROMPT_CHARS]
            tree.nodes[uuid] = TranscriptNode(index, record.parent, prompt is not None, record.is_answer)
            if record.is_sidechain and not is_subagent:
                sidechain.add(uuid)
    tree.is_command_open = commands.is_open
    commands.finish()
    _BranchSplitter(tree, sidechain).run()
    for index, uuid in repeated.items():
        tree.branch_of[index] = tree.branch_of.get(tree.nodes[uuid].position, MAIN_BRANCH)
    return tree


class CommandOutputs:
    """Finds out which commands are local. The output of a local command follows it, or names it as its parent."""

    def __init__(self, local_commands: set[int]) -> None:
        self._local_commands = local_commands
        self._open_command: int | None = None
        self._by_uuid: dict[str, int] = {}
        self._names_command_first = False

    @property
    def is_open(self) -> bool:
        return self._open_command is not None

    def add(self, index: int, record: ClaudeRecord) -> None:
        if record.kind not in MESSAGE_TYPES:
            return
        if record.is_command_output:
            commands = (self._open_command, self._by_uuid.get(record.parent))
            self._local_commands.update(command for command in commands if command is not None)
        self._open_command = None
        if record.is_command:
            self._open_command = self._by_uuid[record.uuid] = index
            self._names_command_first = record.names_command_first

    def finish(self) -> None:
        """Decide what a command is that no message follows yet. What follows later may show that it is another one."""
        if self._open_command is not None and self._names_command_first:
            self._local_commands.add(self._open_command)


def _collect(tree: TranscriptTree, index: int, record: ClaudeRecord) -> None:
    kind, fields = record.kind, record.fields
    if time := as_time(fields.get("timestamp")):
        tree.times[index] = time
    if not tree.cwd:
        tree.cwd = as_str(fields.get("cwd"))
    if (original := record.original) and original.session:
        tree.forked_from_session = tree.forked_from_session or original.session
        tree.copied_uuids[index] = original.uuid
    if kind == "assistant":
        for call in record.find_spawn_calls():
            tree.spawn_calls.setdefault(call.id, (index, call))
    elif kind in TITLE_FIELDS:
        tree.titles[kind] = record.title
    elif kind in SPAWN_REPORT_TYPES:
        for agent, call_id in record.find_spawned():
            tree.spawn_call_ids.setdefault(agent, call_id)


class _BranchSplitter:
    """Assigns each record outside the main conversation to its branch."""

    def __init__(self, tree: TranscriptTree, sidechain: set[str]) -> None:
        self.tree = tree
        self.sidechain = sidechain
        self.children: dict[str, list[str]] = {}
        for uuid, node in tree.nodes.items():
            self.children.setdefault(node.parent, []).append(uuid)

    def run(self) -> None:
        own = [uuid for uuid in self.tree.nodes if uuid not in self.sidechain]
        self._split_off_sidechains(is_lone=not any(map(self.tree.is_conversation, own)))
        pending = [(MAIN_BRANCH, own)]
        while pending:
            branch, members = pending.pop()
            pending += self._split_off(branch, members)

    def _split_off_sidechains(self, *, is_lone: bool) -> None:
        """Make each side chain a session of its own. If the file has no other conversation, the first side
        chain is the session of the file, because a parent would be empty."""
        nodes = self.tree.nodes
        roots = sorted(
            (uuid for uuid in self.sidechain if nodes[uuid].parent not in self.sidechain),
            key=lambda uuid: nodes[uuid].position,
        )
        self.tree.has_only_sidechains = is_lone and bool(roots)
        for uuid in roots[1:] if self.tree.has_only_sidechains else roots:
            self._assign(TranscriptBranch(uuid, "sidechain"), self._descendants(uuid))

    def _assign(self, branch: TranscriptBranch, members: Sequence[str]) -> None:
        self.tree.branches[branch.root_uuid] = branch
        for uuid in members:
            self.tree.branch_of[self.tree.nodes[uuid].position] = branch.root_uuid

    def _descendants(self, root: str) -> list[str]:
        descendants, seen = [root], {root}
        for uuid in descendants:
            for child in self.children.get(uuid, ()):
                if child not in seen and (child in self.sidechain) == (root in self.sidechain):
                    seen.add(child)
                    descendants.append(child)
        return descendants

    def _split_off(self, branch: str, members: list[str]) -> Iterator[tuple[str, list[str]]]:
        """Yield the branches that leave it. Each begins at something typed that is no ancestor of the newest prompt or
        answer. A branch of only local commands is none: they stay where they are in the file."""
        nodes = self.tree.nodes
        conversation = list(filter(self.tree.is_conversation, members))
        if not conversation:
            return
        path = _path_to_root(self.tree, max(conversation, key=lambda uuid: nodes[uuid].position))
        main_path, has_prompt_root = set(path), nodes[path[-1]].is_typed and not nodes[path[-1]].parent
        leading = self._find_leading(conversation)
        assigned: set[str] = set()
        unlinked: set[str] = set()
        for uuid in sorted(members, key=lambda uuid: nodes[uuid].position):
            is_candidate = nodes[uuid].is_typed and uuid in leading and uuid != branch
            if not is_candidate or uuid in main_path or uuid in assigned:
                continue
            to_shared = _path_to_root(self.tree, uuid, main_path, unlinked)
            shared = to_shared[-1]
            if shared in main_path:
                after = nodes[shared].position
            elif has_prompt_root and not nodes[shared].parent and nodes[shared].is_typed:
                after = -1
            else:
                unlinked.update(to_shared)
                continue
            descendants = self._descendants(uuid)
            assigned.update(descendants)
            self._assign(TranscriptBranch(uuid, "branch", branch, after), descendants)
            yield uuid, descendants

    def _find_leading(self, conversation: Sequence[str]) -> set[str]:
        """Return the records that lead to a prompt or an answer, and those themselves."""
        nodes, leading = self.tree.nodes, set[str]()
        for uuid in conversation:
            while uuid in nodes and uuid not in leading:
                leading.add(uuid)
                uuid = nodes[uuid].parent
        return leading


# ── a quick test on the bytes ─────────────────────────────────────────────────────────────────────

_PARENT_LINK = re.compile(rb'\n\{"parentUuid":"([^"]+)"')
_ROOT_LINE = b'\n{"parentUuid":null'
_LINE_START = re.compile(rb'\{"parentUuid":["n]')
_MAX_SCAN_BYTES = 32 * 1024 * 1024


def may_have_branches(path: Path, *, is_subagent: bool) -> bool:
    """Return whether a transcript may have branches. Most have none, and the parent links at the start of the lines
    are enough to know that."""
    try:
        with open_file(path) as file:
            if os.fstat(file.fileno()).st_size > _MAX_SCAN_BYTES:
                return True
            skip_byte_order_mark(file)
            data = b"\n" + separate_records(file.read())
    except PATH_ERRORS:
        return False
    first = data.find(b'"parentUuid":')
    if first > 0 and not _LINE_START.match(data, first - 1):
        return True
    has_sidechain = not is_subagent and b'"isSidechain":true' in data
    return has_sidechain or data.count(_ROOT_LINE) > 1 or _has_fork(data)


def _has_fork(data: bytes) -> bool:
    first_positions: dict[bytes, int] = {}
    for link in _PARENT_LINK.finditer(data):
        position = link.start()
        first_position = first_positions.setdefault(link[1], position)
        if first_position != position and not (
            _is_parallel_call(data, first_position) and _is_parallel_call(data, position)
        ):
            return True
    return False


def _is_parallel_call(data: bytes, position: int) -> bool:
    """Return whether a line is a tool call or a result. Parallel calls share a parent without being branches."""
    end = data.find(b"\n", position + 1)
    line = data[position : end if end >= 0 else len(data)]
    return b'"type":"assistant"' in line or b'"tool_use_id"' in line
