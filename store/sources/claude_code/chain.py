"""One conversation of a transcript: which of its records it consists of, which of them it shares, and with whom."""

from __future__ import annotations

from collections.abc import Iterator

from store.model.entry import NewEntry
from store.model.session import SessionFields
from store.sources.claude_code.append import MAX_TURN_RECORDS, ClaudeMark
from store.sources.claude_code.branches import (
    MAIN_BRANCH,
    MAX_PROMPT_CHARS,
    TranscriptTree,
    find_open_turn,
    read_numbered_lines,
)
from store.sources.claude_code.entries import ClaudeEntryReader
from store.sources.claude_code.files import Transcript, TranscriptCatalog, load_tree
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import FileMark, as_dict, as_str, read_json_file, record_from_line
from store.sources.kit.transcripts import path_text
from store.text.validate import replace_surrogates

_MAX_TITLE = 200


class TranscriptChain:
    def __init__(self, found: TranscriptCatalog, one: Transcript, branch: str) -> None:
        self._catalog = found
        self._transcript = one
        self._branch = branch
        self._tree = load_tree(one)
        self._lineage = self._tree.lineage(branch)
        self._copied: set[int] = set()
        self._title = ""
        self._end_offset = 0
        self._link_fields = self._find_link()

    @property
    def exists(self) -> bool:
        return self._branch == MAIN_BRANCH or self._branch in self._tree.branches

    @property
    def is_subagent(self) -> bool:
        return self._link_fields.get("relation") in ("delegate", "sidechain")

    def session_fields(self) -> SessionFields:
        times = [at for index, at in self._tree.times.items() if self._owns(index)]
        # The first line written, and the newest: copies come with the times of what they were copied from.
        fields: SessionFields = {
            "agent_title": replace_surrogates(self._title or self._find_title()),
            "provider": "anthropic",
            "cwd": replace_surrogates(self._tree.cwd),
        }
        if times:
            fields |= sqlite.time_fields(times[0], max(times))
        return fields | self._link_fields

    def read_entries(self, telling: ClaudeEntryReader, met: list[Problem]) -> Iterator[list[NewEntry]]:
        told = self._tree
        at = next(iter(told.times.values()), "")
        problems = met if self._branch == MAIN_BRANCH else []
        places = {path: path_text(path) for path in self._transcript.files}
        for index, path, line in read_numbered_lines(self._transcript.files, problems):
            at = told.times.get(index, at)
            self._end_offset = line.offset + len(line.data)
            if index <= self._lineage.get(told.branch_of.get(index, MAIN_BRANCH), -1):
                entry = telling.read_entry(line.value, path, is_local_command=index in told.local_commands)
                entry.record = record_from_line(line, places[path])
                entry.created_at = at
                entry.inherited = not self._owns(index)
                yield [entry]

    def build_mark(self, telling: ClaudeEntryReader) -> str:
        """Where it goes on, once its entries have been told; empty when it can only be read anew."""
        told = self._tree
        turn = find_open_turn(told) if self._branch == MAIN_BRANCH and len(self._transcript.files) == 1 else []
        file = FileMark.from_file(self._transcript.files[0], self._end_offset) if turn else None
        if file is None:
            return ""
        when = next(reversed(told.times.values()), "")
        newest = max(told.times.values(), default="")
        tail = ClaudeMark(
            file=file,
            turn=turn[-MAX_TURN_RECORDS:],
            titles=told.titles,
            is_agent=self.is_subagent,
            when=when,
            newest=newest,
            told=telling.save_state(),
        )
        return tail.encode()

    def _owns(self, index: int) -> bool:
        return self._tree.branch_of.get(index, MAIN_BRANCH) == self._branch and index not in self._copied

    def _find_title(self) -> str:
        """As the person called it, or Claude Code; the last prompt would be another title after every turn."""
        told = self._tree
        if self._branch != MAIN_BRANCH:
            return " ".join(told.prompts.get(self._branch, "").split())[:_MAX_TITLE]
        theirs = (text for leaf, text in self._catalog.summaries.items() if leaf in told.nodes)
        return told.titles.get("custom-title") or told.titles.get("ai-title") or next(theirs, "")

    # ── where it comes from ───────────────────────────────────────────────────────────────────────

    def _find_link(self) -> SessionFields:
        branch = self._tree.branches.get(self._branch)
        if branch is not None and branch.kind == "branch":
            parent = self._transcript.branch_native_id(self._tree.branches.get(branch.parent))
            return _with_forked_at(
                {"parent_id": parent, "relation": "fork"},
                self._tree.chain_position(branch.last_shared_index, branch.parent),
            )
        if branch is not None:
            call = _find_spawn_call(self._tree, self._tree.prompts.get(branch.root_uuid, ""))
            return {"relation": "sidechain"} | self._link_to_call(self._transcript, self._tree, call)
        return self._link_subagent() if self._transcript.is_subagent else self._link_copy()

    def _link_subagent(self) -> SessionFields:
        told = as_dict(read_json_file(self._transcript.sidecar, []))
        above = replace_surrogates(as_str(told.get("parentAgentId")))
        parent_id = f"{self._transcript.parent}/agent-{above}" if above else self._transcript.parent
        self._title = as_str(told.get("description"))
        parent = self._catalog.by_id.get(parent_id)
        if parent is None or parent_id == self._transcript.native_id:
            return {"parent_id": self._transcript.parent, "relation": "delegate"}
        theirs = load_tree(parent)
        first = next(iter(self._tree.prompts.values()), "")
        call = (
            as_str(told.get("toolUseId"))
            or theirs.spawn_call_ids.get(self._transcript.subagent_id)
            or _find_spawn_call(theirs, first)
        )
        return {"relation": "delegate"} | self._link_to_call(parent, theirs, call)

    def _link_to_call(self, parent: Transcript, theirs: TranscriptTree, call: str) -> SessionFields:
        if call not in theirs.spawn_calls:
            return {"parent_id": parent.native_id}
        index, description, _ = theirs.spawn_calls[call]
        branch = theirs.branch_of.get(index, MAIN_BRANCH)
        self._title = self._title or description
        return _with_forked_at(
            {"parent_id": parent.branch_native_id(theirs.branches.get(branch))}, theirs.chain_position(index, branch)
        )

    def _link_copy(self) -> SessionFields:
        """A fork names its parent on every line, or on none: then it is the elder that shares most of its records."""
        nodes, told = self._tree.nodes, self._tree
        if told.forked_from_session and told.forked_from_session != self._transcript.native_id:
            self._copied = set(told.copied_uuids)
            parent = self._catalog.by_id.get(told.forked_from_session)
            theirs = load_tree(parent) if parent else TranscriptTree()
            shared = [uuid for uuid in told.copied_uuids.values() if uuid in theirs.nodes]
            return self._link_to_original(told.forked_from_session, theirs, shared[-1:])
        best: tuple[list[str], str, TranscriptTree] = ([], "", TranscriptTree())
        for native_id in self._catalog.older_copies(self._transcript):
            theirs = load_tree(self._catalog.by_id[native_id])
            shared = [uuid for uuid in nodes if uuid in theirs.nodes]
            if len(shared) > len(best[0]):
                best = (shared, native_id, theirs)
        shared, native_id, theirs = best
        self._copied = {nodes[uuid].position for uuid in shared}
        return self._link_to_original(native_id, theirs, shared[-1:]) if shared else {}

    def _link_to_original(self, native_id: str, theirs: TranscriptTree, last: list[str]) -> SessionFields:
        fields: SessionFields = {"parent_id": native_id, "relation": "fork"}
        if not last:
            return fields
        index = theirs.nodes[last[0]].position
        branch = theirs.branch_of.get(index, MAIN_BRANCH)
        parent = self._catalog.by_id[native_id]
        return _with_forked_at(
            {**fields, "parent_id": parent.branch_native_id(theirs.branches.get(branch))},
            theirs.chain_position(index, branch),
        )


def _with_forked_at(fields: SessionFields, place: int) -> SessionFields:
    return {**fields, "forked_at": place} if place >= 0 else fields


def _find_spawn_call(theirs: TranscriptTree, prompt: str) -> str:
    """A sub-agent's first prompt is what the call that sent it off said."""
    return next(
        (call for call, (_, _, asked) in theirs.spawn_calls.items() if prompt and asked[:MAX_PROMPT_CHARS] == prompt),
        "",
    )
