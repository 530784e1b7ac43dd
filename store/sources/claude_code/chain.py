"""This module selects the records of one conversation of a transcript, and finds which of them it shares with which
other session."""

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
    read_numbered_records,
)
from store.sources.claude_code.entries import ClaudeEntryReader
from store.sources.claude_code.files import Transcript, TranscriptCatalog, load_tree
from store.sources.kit import sqlite
from store.sources.kit.jsonl import FileMark, as_dict, as_str, read_json_file, record_from_line
from store.sources.kit.transcripts import path_text
from store.text.validate import replace_surrogates

_MAX_TITLE = 200


class TranscriptChain:
    def __init__(self, catalog: TranscriptCatalog, transcript: Transcript, branch: str) -> None:
        self._catalog = catalog
        self._transcript = transcript
        self._branch = branch
        self._tree = load_tree(transcript)
        self._lineage = self._tree.lineage(branch)
        self._copied: set[int] = set()
        self._title = ""
        self._end_offset = 0
        self.branch_readers: dict[str, ClaudeEntryReader] = {}
        "Holds a reader for each branch that leaves this conversation, by the native id, once all entries are read."
        self._link_fields = self._find_link()

    @property
    def exists(self) -> bool:
        return self._branch == MAIN_BRANCH or self._branch in self._tree.branches

    @property
    def is_subagent(self) -> bool:
        is_lone_sidechain = self._branch == MAIN_BRANCH and self._tree.has_only_sidechains
        return is_lone_sidechain or self._link_fields.get("relation") in ("delegate", "sidechain")

    def session_fields(self) -> SessionFields:
        branch_of, copied = self._tree.branch_of, self._copied
        times = [
            time
            for index, time in self._tree.times.items()
            if branch_of.get(index, MAIN_BRANCH) == self._branch and index not in copied
        ]
        # The first time in the file is the start: a copied record keeps the time of its original.
        fields: SessionFields = {
            "agent_title": replace_surrogates(self._title or self._find_title()),
            "provider": "anthropic",
            "cwd": replace_surrogates(self._tree.cwd),
        }
        if times:
            fields |= sqlite.time_fields(times[0], max(times))
        return fields | self._link_fields

    def read_entries(self, entry_reader: ClaudeEntryReader, *, skips_shared: bool = False) -> Iterator[list[NewEntry]]:
        """Yield the entries, all of them or without those that a branch shares with its parent."""
        tree = self._tree
        time = next(iter(tree.times.values()), "")
        reported = entry_reader.problems if self._branch == MAIN_BRANCH else []
        path_texts = {path: path_text(path) for path in self._transcript.files}
        last_shared = tree.branches[self._branch].last_shared_index if skips_shared else -1
        branches = self._find_leaving_branches()
        branch_of, times, lineage, copied = tree.branch_of, tree.times, self._lineage, self._copied
        for index, path, line, record in read_numbered_records(self._transcript.files, reported):
            time = times.get(index, time)
            self._end_offset = line.offset + len(line.data)
            branch = branch_of.get(index, MAIN_BRANCH)
            if last_shared < index <= lineage.get(branch, -1):
                entry = entry_reader.read_entry(record, path, is_local_command=index in tree.local_commands)
                entry.record = record_from_line(line, path_texts[path])
                entry.created_at = time
                entry.inherited = branch != self._branch or index in copied
                for native_id in branches.get(index, ()):
                    self.branch_readers[native_id] = entry_reader.copy_at_fork()
                yield [entry]

    def _find_leaving_branches(self) -> dict[int, list[str]]:
        """Return the native ids of the branches that leave this conversation, by the index of the last shared record.

        The entries of a branch up to there are those of this conversation, unless one of its own records comes earlier
        in the file, or the conversation is that of a sub-agent, whose prompts have another author.
        """
        leaving: dict[int, list[str]] = {}
        if self.is_subagent or not self._tree.branches:
            return leaving
        first_own: dict[str, int] = {}
        for index, root_uuid in sorted(self._tree.branch_of.items()):
            first_own.setdefault(root_uuid, index)
        for branch in self._tree.branches.values():
            is_ours = branch.kind == "branch" and branch.parent == self._branch
            if is_ours and first_own.get(branch.root_uuid, -1) > branch.last_shared_index:
                leaving.setdefault(branch.last_shared_index, []).append(self._transcript.branch_native_id(branch))
        return leaving

    def build_mark(self, entry_reader: ClaudeEntryReader) -> str:
        """Return the mark from which appended lines are read later. It is empty if they require a full read."""
        tree = self._tree
        # The end of a copied past is known only when an own record follows it.
        is_own = len(self._copied) < len(tree.nodes)
        is_single = self._branch == MAIN_BRANCH and len(self._transcript.files) == 1 and not tree.has_only_sidechains
        turn = find_open_turn(tree) if is_single and is_own else []
        stamp = self._transcript.stamp.partition(" ")[0]
        file = FileMark.from_file(self._transcript.files[0], self._end_offset, stamp) if turn else None
        if file is None:
            return ""
        when = next(reversed(tree.times.values()), "")
        newest = max(tree.times.values(), default="")
        mark = ClaudeMark(
            file=file,
            turn=turn[-MAX_TURN_RECORDS:],
            titles=tree.titles,
            summary_title=self._catalog.find_summary_title(self._transcript),
            is_agent=self.is_subagent,
            when=when,
            newest=newest,
            parser_state=entry_reader.save_state(),
            is_command_open=tree.is_command_open,
        )
        return mark.encode()

    def _find_title(self) -> str:
        """Return the title that a person or Claude Code gave. The last prompt is not used: it changes every turn."""
        tree = self._tree
        if self._branch != MAIN_BRANCH:
            title = tree.branch_title(self._branch) or tree.prompts.get(self._branch, "")
            return " ".join(title.split())[:_MAX_TITLE]
        summary = self._catalog.find_summary_title(self._transcript)
        return tree.titles.get("custom-title") or tree.titles.get("ai-title") or summary

    # ── the link to the parent ────────────────────────────────────────────────────────────────────

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
            is_orphan = self._tree.has_only_sidechains and not call
            link: SessionFields = {} if is_orphan else self._link_to_call(self._transcript, self._tree, call)
            return {"relation": "sidechain"} | link
        return self._link_subagent() if self._transcript.is_subagent else self._link_copy()

    def _link_subagent(self) -> SessionFields:
        sidecar = as_dict(read_json_file(self._transcript.sidecar, []))
        parent_agent = replace_surrogates(as_str(sidecar.get("parentAgentId")))
        parent_id = f"{self._transcript.parent}/agent-{parent_agent}" if parent_agent else self._transcript.parent
        self._title = as_str(sidecar.get("description"))
        parent = self._catalog.by_id.get(parent_id)
        if parent is None or parent_id == self._transcript.native_id:
            return {"parent_id": self._transcript.parent, "relation": "delegate"}
        parent_tree = load_tree(parent)
        first = next(iter(self._tree.prompts.values()), "")
        call = (
            as_str(sidecar.get("toolUseId"))
            or parent_tree.spawn_call_ids.get(self._transcript.subagent_id)
            or _find_spawn_call(parent_tree, first)
        )
        return {"relation": "delegate"} | self._link_to_call(parent, parent_tree, call)

    def _link_to_call(self, parent: Transcript, parent_tree: TranscriptTree, call: str) -> SessionFields:
        if call not in parent_tree.spawn_calls:
            return {"parent_id": parent.native_id}
        index, spawn_call = parent_tree.spawn_calls[call]
        branch = parent_tree.branch_of.get(index, MAIN_BRANCH)
        self._title = self._title or spawn_call.description
        return _with_forked_at(
            {"parent_id": parent.branch_native_id(parent_tree.branches.get(branch))},
            parent_tree.chain_position(index, branch),
        )

    def _link_copy(self) -> SessionFields:
        """Return the link of a fork. Either every line names the parent, or none does: then the parent is the older
        transcript that shares the most records."""
        nodes, tree = self._tree.nodes, self._tree
        if tree.forked_from_session and tree.forked_from_session != self._transcript.native_id:
            self._copied = set(tree.copied_uuids)
            parent = self._catalog.by_id.get(tree.forked_from_session)
            parent_tree = load_tree(parent) if parent else TranscriptTree()
            shared = [uuid for uuid in tree.copied_uuids.values() if uuid in parent_tree.nodes]
            return self._link_to_original(tree.forked_from_session, parent_tree, shared[-1:])
        best: tuple[list[str], str, TranscriptTree] = ([], "", TranscriptTree())
        for native_id in self._catalog.older_copies(self._transcript):
            parent_tree = load_tree(self._catalog.by_id[native_id])
            shared = [uuid for uuid in nodes if uuid in parent_tree.nodes]
            if len(shared) > len(best[0]):
                best = (shared, native_id, parent_tree)
        shared, native_id, parent_tree = best
        self._copied = {nodes[uuid].position for uuid in shared}
        return self._link_to_original(native_id, parent_tree, shared[-1:]) if shared else {}

    def _link_to_original(self, native_id: str, parent_tree: TranscriptTree, last: list[str]) -> SessionFields:
        fields: SessionFields = {"parent_id": native_id, "relation": "fork"}
        if not last:
            return fields
        index = parent_tree.nodes[last[0]].position
        branch = parent_tree.branch_of.get(index, MAIN_BRANCH)
        parent = self._catalog.by_id[native_id]
        return _with_forked_at(
            {**fields, "parent_id": parent.branch_native_id(parent_tree.branches.get(branch))},
            parent_tree.chain_position(index, branch),
        )


def _with_forked_at(fields: SessionFields, position: int) -> SessionFields:
    return {**fields, "forked_at": position} if position >= 0 else fields


def _find_spawn_call(parent_tree: TranscriptTree, prompt: str) -> str:
    """Return the id of the call whose prompt is the sub-agent's first prompt."""
    return next(
        (
            call_id
            for call_id, (_, call) in parent_tree.spawn_calls.items()
            if prompt and call.prompt[:MAX_PROMPT_CHARS] == prompt
        ),
        "",
    )
