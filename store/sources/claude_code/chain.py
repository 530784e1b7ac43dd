"""One conversation of a transcript: which of its records it consists of, which of them it shares, and with whom."""

from __future__ import annotations

from collections.abc import Iterator

from store.model.entry import NewEntry
from store.model.session import SessionFields
from store.sources.claude_code.append import REMEMBERED, Tail
from store.sources.claude_code.branches import MAIN, PROMPT_KEPT, Outline, numbered, turn_under_way
from store.sources.claude_code.entries import Telling
from store.sources.claude_code.files import Found, Transcript, outlined
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import Mark, json_file, mapping, record, words
from store.sources.kit.transcripts import place_of
from store.text.validate import column_text

_TITLE = 200


class Chain:
    def __init__(self, found: Found, one: Transcript, branch: str) -> None:
        self._found = found
        self._one = one
        self._branch = branch
        self._outline = outlined(one)
        self._lineage = self._outline.lineage(branch)
        self._copied: set[int] = set()
        self._title = ""
        self._end = 0
        self._link = self._linked()

    @property
    def is_known(self) -> bool:
        return self._branch == MAIN or self._branch in self._outline.branches

    @property
    def is_agent(self) -> bool:
        return self._link.get("relation") in ("delegate", "sidechain")

    def fields(self) -> SessionFields:
        times = [at for index, at in self._outline.times.items() if self._owns(index)]
        # The first line written, and the newest: copies come with the times of what they were copied from.
        fields: SessionFields = {
            "agent_title": column_text(self._title or self._named()),
            "provider": "anthropic",
            "cwd": column_text(self._outline.cwd),
        }
        if times:
            fields |= sqlite.lifetime(times[0], max(times))
        return fields | self._link

    def entries(self, telling: Telling, met: list[Problem]) -> Iterator[list[NewEntry]]:
        told = self._outline
        at = next(iter(told.times.values()), "")
        problems = met if self._branch == MAIN else []
        places = {path: place_of(path) for path in self._one.files}
        for index, path, line in numbered(self._one.files, problems):
            at = told.times.get(index, at)
            self._end = line.offset + len(line.data)
            if index <= self._lineage.get(told.branch_of.get(index, MAIN), -1):
                entry = telling.entry(line.value, path, silent=index in told.silent)
                entry.record = record(line, places[path])
                entry.created_at = at
                entry.inherited = not self._owns(index)
                yield [entry]

    def mark(self, telling: Telling) -> str:
        """Where it goes on, once its entries have been told; empty when it can only be read anew."""
        told = self._outline
        turn = turn_under_way(told) if self._branch == MAIN and len(self._one.files) == 1 else []
        file = Mark.behind(self._one.files[0], self._end) if turn else None
        if file is None:
            return ""
        when = next(reversed(told.times.values()), "")
        newest = max(told.times.values(), default="")
        tail = Tail(
            file=file,
            turn=turn[-REMEMBERED:],
            titles=told.titles,
            is_agent=self.is_agent,
            when=when,
            newest=newest,
            told=telling.remembered(),
        )
        return tail.spelled()

    def _owns(self, index: int) -> bool:
        return self._outline.branch_of.get(index, MAIN) == self._branch and index not in self._copied

    def _named(self) -> str:
        """As the person called it, or Claude Code; the last prompt would be another title after every turn."""
        told = self._outline
        if self._branch != MAIN:
            return " ".join(told.prompts.get(self._branch, "").split())[:_TITLE]
        theirs = (text for leaf, text in self._found.summaries.items() if leaf in told.nodes)
        return told.titles.get("custom-title") or told.titles.get("ai-title") or next(theirs, "")

    # ── where it comes from ───────────────────────────────────────────────────────────────────────

    def _linked(self) -> SessionFields:
        branch = self._outline.branches.get(self._branch)
        if branch is not None and branch.kind == "branch":
            parent = self._one.named(self._outline.branches.get(branch.parent))
            return _at({"parent_id": parent, "relation": "fork"}, self._outline.place(branch.after, branch.parent))
        if branch is not None:
            call = _call_that_said(self._outline, self._outline.prompts.get(branch.root, ""))
            return {"relation": "sidechain"} | self._sent_off_in(self._one, self._outline, call)
        return self._linked_agent() if self._one.is_agent else self._linked_copy()

    def _linked_agent(self) -> SessionFields:
        told = mapping(json_file(self._one.sidecar, []))
        above = column_text(words(told.get("parentAgentId")))
        parent_id = f"{self._one.parent}/agent-{above}" if above else self._one.parent
        self._title = words(told.get("description"))
        parent = self._found.by_id.get(parent_id)
        if parent is None or parent_id == self._one.native_id:
            return {"parent_id": self._one.parent, "relation": "delegate"}
        theirs = outlined(parent)
        first = next(iter(self._outline.prompts.values()), "")
        call = words(told.get("toolUseId")) or theirs.agents.get(self._one.agent) or _call_that_said(theirs, first)
        return {"relation": "delegate"} | self._sent_off_in(parent, theirs, call)

    def _sent_off_in(self, parent: Transcript, theirs: Outline, call: str) -> SessionFields:
        if call not in theirs.calls:
            return {"parent_id": parent.native_id}
        index, description, _ = theirs.calls[call]
        branch = theirs.branch_of.get(index, MAIN)
        self._title = self._title or description
        return _at({"parent_id": parent.named(theirs.branches.get(branch))}, theirs.place(index, branch))

    def _linked_copy(self) -> SessionFields:
        """A fork names its parent on every line, or on none: then it is the elder that shares most of its records."""
        nodes, told = self._outline.nodes, self._outline
        if told.forked_from and told.forked_from != self._one.native_id:
            self._copied = set(told.forked)
            parent = self._found.by_id.get(told.forked_from)
            theirs = outlined(parent) if parent else Outline()
            shared = [uuid for uuid in told.forked.values() if uuid in theirs.nodes]
            return self._copied_up_to(told.forked_from, theirs, shared[-1:])
        best: tuple[list[str], str, Outline] = ([], "", Outline())
        for native_id in self._found.elders(self._one):
            theirs = outlined(self._found.by_id[native_id])
            shared = [uuid for uuid in nodes if uuid in theirs.nodes]
            if len(shared) > len(best[0]):
                best = (shared, native_id, theirs)
        shared, native_id, theirs = best
        self._copied = {nodes[uuid].at for uuid in shared}
        return self._copied_up_to(native_id, theirs, shared[-1:]) if shared else {}

    def _copied_up_to(self, native_id: str, theirs: Outline, last: list[str]) -> SessionFields:
        fields: SessionFields = {"parent_id": native_id, "relation": "fork"}
        if not last:
            return fields
        index = theirs.nodes[last[0]].at
        branch = theirs.branch_of.get(index, MAIN)
        parent = self._found.by_id[native_id]
        return _at({**fields, "parent_id": parent.named(theirs.branches.get(branch))}, theirs.place(index, branch))


def _at(fields: SessionFields, place: int) -> SessionFields:
    return {**fields, "forked_at": place} if place >= 0 else fields


def _call_that_said(theirs: Outline, prompt: str) -> str:
    """A sub-agent's first prompt is what the call that sent it off said."""
    return next((call for call, (_, _, asked) in theirs.calls.items() if prompt and asked[:PROMPT_KEPT] == prompt), "")
