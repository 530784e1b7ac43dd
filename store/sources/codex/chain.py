"""This module selects the lines of one conversation of a thread, and finds which of them it shares with which other
session."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import takewhile

from store.model.entry import Json, NewEntry
from store.model.session import SessionFields
from store.sources.codex.append import CodexMark
from store.sources.codex.entries import CallOutcome, CodexEntryReader, find_prompt, parse_outcome
from store.sources.codex.files import Rollout, RolloutCatalog, ThreadInfo, read_meta, read_segment_lines, unwrap_line
from store.sources.codex.prompt_pairs import PromptPairs
from store.sources.contract import Batch, Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import FileMark, JsonLine, as_dict, as_list, as_str, as_time, record_from_line
from store.sources.kit.stamps import plain_file_stamp
from store.sources.kit.transcripts import Branch, Node, build_header_batch, find_branches, path_text
from store.text.validate import encode_derived

_CWD_PATTERN = re.compile(r"<cwd>(.*?)</cwd>|^Current working directory: (.*)$", re.MULTILINE)
_MAX_TITLE = 200
_TURN_START_EVENTS = frozenset(["task_started", "turn_started", "user_message", "thread_settings_applied"])


@dataclass(slots=True)
class ThreadTree:
    "Holds what must be known of a thread before its first line can be converted to an entry."

    parents: list[int | None] = field(default_factory=list)
    "The parent of each line, without the header: the line before, or the one before a rollback."
    header: tuple[Rollout, JsonLine] | None = None
    times: dict[int, str] = field(default_factory=dict)
    prompts: dict[int, str] = field(default_factory=dict)
    event_prompts: dict[int, str] = field(default_factory=dict)
    "The prompts in events, for a rollout that has no others."
    pairs: PromptPairs = field(default_factory=PromptPairs)
    has_items: bool = False
    "Is set when a response item may hold a prompt."
    outcomes: dict[str, CallOutcome] = field(default_factory=dict)
    trailing_events: set[int] = field(default_factory=set)
    "Lines that report on the lines before them."
    cwd: str = ""
    has_rollback: bool = False

    def add_line(self, index: int, parent: int | None, kind: str, payload: dict[str, Json]) -> None:
        self.parents.append(parent)
        call_id, event = parse_outcome(kind, payload)
        if call_id:
            outcome = self.outcomes.setdefault(call_id, CallOutcome())
            outcome.update(event)
            # The output is read with its entry: all outputs together may not fit into memory.
            outcome.output = ""
        if kind == "token_usage_record" or (
            kind == "event_msg" and as_str(payload.get("type")) not in _TURN_START_EVENTS
        ):
            self.trailing_events.add(index)
        if not self.cwd:
            self.cwd = as_str(payload.get("cwd")) if kind in ("session_meta", "turn_context") else _find_cwd(payload)

    @property
    def uses_events(self) -> bool:
        return not self.has_items and bool(self.event_prompts)

    def drop_injected(self) -> None:
        """Remove the prompts that no person typed."""
        for index in self.pairs.injected & self.prompts.keys():
            del self.prompts[index]

    def branches(self) -> list[Branch]:
        """Return the branches, the thread itself first."""
        if not self.has_rollback:
            return [Branch(own_nodes=list(range(len(self.parents))))]
        parents = (None if parent is None else str(parent) for parent in self.parents)
        return find_branches([Node(str(index), parent, index in self.prompts) for index, parent in enumerate(parents)])


def build_tree(catalog: RolloutCatalog, thread: Rollout) -> ThreadTree:
    tree = ThreadTree()
    turns: list[tuple[int, int | None]] = []
    previous: int | None = None
    for rollout, _, line in read_segment_lines(catalog.segments(thread), []):
        kind, payload = line.kind, line.payload
        if kind == "session_meta" and tree.header is None and not tree.parents:
            tree.header = (rollout, line.line)
            tree.cwd = as_str(payload.get("cwd"))
            continue
        index = len(tree.parents)
        text = find_prompt(kind, payload)
        tree.pairs.add_line(index, kind, payload, text)
        if line.time:
            tree.times[index] = line.time
        if text is not None:
            (tree.prompts if kind == "response_item" else tree.event_prompts)[index] = text
            if kind == "response_item":
                tree.has_items = True
                turns.append((index, previous))
        if payload.get("type") == "thread_rolled_back":
            turns = [turn for turn in turns if turn[0] not in tree.pairs.injected]
            if dropped := _last_turns(turns, payload.get("num_turns")):
                previous = dropped[0][1]
                del turns[-len(dropped) :]
                tree.has_rollback = True
        tree.add_line(index, previous, kind, payload)
        previous = index
    tree.drop_injected()
    return tree


def _last_turns(turns: list[tuple[int, int | None]], count: Json) -> list[tuple[int, int | None]]:
    return turns[-count:] if isinstance(count, int) and count > 0 else []


def _find_cwd(payload: Mapping[str, Json]) -> str:
    """Return the folder in a message about the environment. Before version 0.32 no other line had it."""
    for block in map(as_dict, as_list(payload.get("content"))):
        text = as_str(block.get("text"))
        if text.lstrip().startswith("<environment_context>") and (match := _CWD_PATTERN.search(text)):
            return (match[1] or match[2]).strip()
    return ""


class ThreadChain:
    def __init__(self, catalog: RolloutCatalog, rollout: Rollout, branch: str, info: ThreadInfo) -> None:
        self._catalog = catalog
        self._rollout = rollout
        self._info = info
        self._stamp = plain_file_stamp(rollout.path)
        self._meta, _ = read_meta(rollout.path)
        self._tree = build_tree(catalog, rollout)
        self._branches = self._tree.branches()
        self._branch = next((candidate for candidate in self._branches if candidate.name == branch), None)
        self._copied_until = -1
        self._end_offset = 0
        self._inherited = self._find_inherited()

    @property
    def exists(self) -> bool:
        return self._branch is not None

    @property
    def branch_names(self) -> list[str]:
        """The names of the branches that were rolled back."""
        return [branch.name for branch in self._branches if branch.name]

    @cached_property
    def _chain(self) -> list[int]:
        return self._branch.shared_nodes() + self._branch.own_nodes if self._branch else []

    @cached_property
    def _is_newest(self) -> bool:
        return self._catalog.threads[self._rollout.thread_id][-1] == self._rollout

    # ── header and entries ────────────────────────────────────────────────────────────────────────

    def build_header_batch(self) -> Batch:
        tree, meta = self._tree, self._meta
        own_times = [tree.times[index] for index in self._chain if index in tree.times and index not in self._inherited]
        is_main = self._is_newest and not (self._branch and self._branch.name)
        source, instructions = meta.get("source"), meta.get("base_instructions", meta.get("instructions"))
        prompt = as_str(instructions) or as_str(as_dict(instructions).get("text"))
        started = self._started_at() if is_main else ""
        fields: SessionFields = {
            "agent_title": self._info.title if is_main else self._first_own_prompt(),
            "provider": as_str(meta.get("model_provider")),
            "cwd": as_str(meta.get("cwd")) or tree.cwd,
            "channel": as_str(source) or next(iter(as_dict(source)), ""),
            "system_prompt": prompt,
        }
        fields |= sqlite.time_fields(started or min(own_times, default=""), max(own_times, default=started))
        rollout, line = tree.header or (self._rollout, None)
        batch = build_header_batch(fields | self._find_link(), line, rollout.path)
        batch.archived = self._rollout.is_archived or self._info.is_archived
        return batch

    def _started_at(self) -> str:
        """Return when the thread started. If it has several rollouts, the first one counts."""
        rollout, line = self._tree.header or (self._rollout, None)
        meta = unwrap_line(line.value)[1] if line and rollout.thread_id == self._rollout.thread_id else self._meta
        return as_time(meta.get("timestamp"))

    def _first_own_prompt(self) -> str:
        prompts = (text for index, text in sorted(self._tree.prompts.items()) if index in self._own_lines)
        return " ".join(next(prompts, "").split())[:_MAX_TITLE]

    @cached_property
    def _own_lines(self) -> set[int]:
        return {index for index in self._chain if index not in self._inherited}

    def make_entry_reader(self) -> CodexEntryReader:
        tree = self._tree
        return CodexEntryReader(tree.outcomes, uses_events=tree.uses_events, is_subagent=bool(self._parent_thread_id()))

    def build_mark(self, entry_reader: CodexEntryReader) -> str:
        """Return the mark from which appended lines are read later. It is empty if they require a full read."""
        tree = self._tree
        is_single = self._is_newest and not tree.has_rollback and len(self._catalog.segments(self._rollout)) == 1
        # The end of a copied past is known only when an own prompt follows it.
        is_own = not self._meta.get("forked_from_id") or any(index not in self._inherited for index in tree.prompts)
        file = FileMark.from_file(self._rollout.path, self._end_offset, self._stamp) if is_single and is_own else None
        if file is None:
            return ""
        when = next(reversed(tree.times.values()), "")
        mark = CodexMark(
            file=file,
            has_items=tree.has_items,
            is_shown=bool(tree.event_prompts),
            is_agent=bool(self._parent_thread_id()),
            when=when,
            newest=max(tree.times.values(), default=""),
            parser_state=entry_reader.save_state(),
            pairs=tree.pairs.save_state(),
        )
        return mark.encode()

    def read_entries(self, entry_reader: CodexEntryReader, problems: list[Problem]) -> Iterator[list[NewEntry]]:
        tree, own_chain, injected = self._tree, set(self._chain), self._tree.pairs.injected
        when = next(iter(tree.times.values()), as_time(self._meta.get("timestamp")))
        index = -1 if tree.header else 0
        segments = self._catalog.segments(self._rollout)
        path_texts = {rollout: path_text(rollout.path) for rollout, _ in segments}
        for rollout, _, line in read_segment_lines(segments, problems, self._reports_problems):
            self._end_offset = line.line.offset + len(line.line.data)
            if index in own_chain:
                when = tree.times.get(index, when)
                entry = entry_reader.read_entry(line, is_injected=index in injected)
                entry.record = record_from_line(line.line, path_texts[rollout])
                entry.created_at = when
                entry.inherited = index in self._inherited
                yield [entry]
            index += 1

    def _reports_problems(self, rollout: Rollout) -> bool:
        """Return whether this session reports damaged lines of a rollout. Sessions that share them do not."""
        return rollout == self._rollout and not (self._branch and self._branch.name)

    # ── shared lines and the link to the parent ───────────────────────────────────────────────────

    def _parent_thread_id(self) -> str:
        subagent = as_dict(as_dict(self._meta.get("source")).get("subagent"))
        spawned = as_str(as_dict(subagent.get("thread_spawn")).get("parent_thread_id"))
        return as_str(self._meta.get("parent_thread_id")) or spawned or self._info.parent_id

    def _find_inherited(self) -> set[int]:
        """Return the lines that are also in another session."""
        if self._branch is None:
            return set()
        shared = set(self._branch.shared_nodes())
        newest = self._catalog.threads[self._rollout.thread_id][-1]
        ends = {rollout.id: end for rollout, end in self._catalog.segments(newest)} if newest != self._rollout else {}
        copied_until = self._meta.get("subagent_history_start_ordinal")
        if len(self._catalog.segments(self._rollout)) == 1 and not ends and not isinstance(copied_until, int):
            return shared or self._find_copied()
        index = -1 if self._tree.header else 0
        for rollout, ordinal, _ in read_segment_lines(self._catalog.segments(self._rollout), []):
            is_foreign = rollout.thread_id != self._rollout.thread_id or (bool(ends) and rollout != self._rollout)
            is_copied = rollout == self._rollout and isinstance(copied_until, int) and ordinal < copied_until
            if index >= 0 and (is_foreign or is_copied or ordinal < ends.get(rollout.id, -1)):
                shared.add(index)
            index += 1
        return shared | (self._find_copied() if not shared else set())

    def _find_copied(self) -> set[int]:
        """Return the lines that were copied from another thread. They have the same items, in order from the first."""
        parent, last = self._find_parent_rollout(), -1
        if parent is not None:
            own_items, parent_items = _item_digests(self._catalog, self._rollout), _item_digests(self._catalog, parent)
            for (index, item), (parent_index, other) in zip(own_items, parent_items, strict=False):
                if item != other:
                    break
                last, self._copied_until = index, parent_index
        return self._lines_before_start() or set(range(last + 1)) | self._events_after_copy(last + 1)

    def _lines_before_start(self) -> set[int]:
        """Return the lines older than the thread. They are copies, even if the original is gone."""
        started = as_time(self._meta.get("timestamp")) if self._meta.get("forked_from_id") else ""
        return {index for index, time in self._tree.times.items() if time < started}

    def _events_after_copy(self, first: int) -> set[int]:
        """Return the events after the last copied item that report the end of its turn."""
        events = takewhile(lambda index: index in self._tree.trailing_events, range(first, len(self._tree.parents)))
        return set(events) if first else set()

    def _find_parent_rollout(self) -> Rollout | None:
        parent = as_str(self._meta.get("forked_from_id")) or self._parent_thread_id()
        threads = self._catalog.threads.get(parent, [])
        return threads[-1] if threads and parent != self._rollout.thread_id else None

    def _find_link(self) -> SessionFields:
        thread, last = self._rollout.thread_id, len([index for index in self._chain if index in self._inherited]) - 1
        native_id = thread if self._is_newest else f"{thread}/{self._rollout.id}"
        if self._branch is not None and self._branch.name:
            return self._branch.fork_fields(native_id)
        if not self._is_newest:
            return _with_forked_at({"parent_id": self._base_session() or thread, "relation": "fork"}, last)
        if parent := self._parent_thread_id():
            return _with_forked_at({"parent_id": parent, "relation": "delegate"}, self._find_spawn_position())
        if parent := self._base_session():
            return _with_forked_at({"parent_id": parent, "relation": "fork"}, last)
        if parent := as_str(self._meta.get("forked_from_id")):
            return _with_forked_at(
                {"parent_id": parent, "relation": "fork"}, self._position_in_parent(self._copied_until)
            )
        return {}

    def _position_in_parent(self, index: int) -> int:
        parent = self._find_parent_rollout() if index >= 0 else None
        return bisect_right(ThreadChain(self._catalog, parent, "", ThreadInfo())._chain, index) - 1 if parent else -1

    def _base_session(self) -> str:
        """Return the session that this one shares its beginning with. It is empty if that is the newest session of the
        same thread."""
        base = self._catalog.find_base(self._rollout)
        if base is None:
            return ""
        rollout = self._catalog.by_id[base.rollout_id]
        newest = self._catalog.threads[rollout.thread_id][-1]
        shared_end = {segment.id: end for segment, end in self._catalog.segments(newest)}.get(rollout.id, -1)
        if base.end_ordinal <= shared_end:
            return rollout.thread_id if rollout.thread_id != self._rollout.thread_id else ""
        return f"{rollout.thread_id}/{rollout.id}"

    def _find_spawn_position(self) -> int:
        """Return the position, in the parent's chain, of the call whose result names this thread."""
        parent = self._find_parent_rollout()
        if parent is None:
            return -1
        thread_id, calls = self._rollout.thread_id.encode(), dict[str, int]()
        index = -1 if build_tree(self._catalog, parent).header else 0
        for _, _, line in read_segment_lines(self._catalog.segments(parent), []):
            call_id = as_str(line.payload.get("call_id"))
            if line.kind == "response_item" and call_id:
                if call_id in calls and thread_id in line.line.data:
                    return self._position_in_parent(calls[call_id])
                calls.setdefault(call_id, index)
            index += 1
        return -1


def _item_digests(catalog: RolloutCatalog, rollout: Rollout) -> Iterator[tuple[int, str]]:
    """Yield the line index and the digest of each response item of a thread."""
    is_first, index = True, 0
    for _, _, line in read_segment_lines(catalog.segments(rollout), []):
        if line.kind == "session_meta" and is_first:
            is_first = False
            continue
        is_first = False
        if line.kind == "response_item":
            yield index, sqlite.digest(encode_derived(line.payload))
        index += 1


def _with_forked_at(fields: SessionFields, position: int) -> SessionFields:
    return {**fields, "forked_at": position} if position >= 0 else fields
