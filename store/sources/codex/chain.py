"""One conversation of a thread: the lines it consists of, which of them it shares, and with whom."""

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
from store.sources.contract import Batch, Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import FileMark, JsonLine, as_dict, as_list, as_str, as_time, record_from_line
from store.sources.kit.transcripts import Branch, Node, build_header_batch, find_branches, path_text
from store.text.validate import encode_derived

_CWD_PATTERN = re.compile(r"<cwd>(.*?)</cwd>|^Current working directory: (.*)$", re.MULTILINE)
_MAX_TITLE = 200
_TURN_START_EVENTS = frozenset(["task_started", "turn_started", "user_message", "thread_settings_applied"])


@dataclass(slots=True)
class ThreadTree:
    "All that must be known of a thread before its first line can be told."

    nodes: list[Node] = field(default_factory=list)
    "A line each, without the header; its parent is the line before, or before what was rolled back."
    header: tuple[Rollout, JsonLine] | None = None
    times: dict[int, str] = field(default_factory=dict)
    prompts: dict[int, str] = field(default_factory=dict)
    event_prompts: dict[int, str] = field(default_factory=dict)
    "Prompts as events tell them, for a rollout without others."
    outcomes: dict[str, CallOutcome] = field(default_factory=dict)
    trailing_events: set[int] = field(default_factory=set)
    "Lines that tell how what came before them went."
    cwd: str = ""
    has_rollback: bool = False

    def add_line(self, at: int, parent: int | None, kind: str, payload: dict[str, Json]) -> None:
        self.nodes.append(Node(str(at), None if parent is None else str(parent), at in self.prompts))
        call_id, event = parse_outcome(kind, payload)
        if call_id:
            ended = self.outcomes.setdefault(call_id, CallOutcome())
            ended.update(event)
            # Kept when it is told: all of them at once may be more than fits.
            ended.output = ""
        if kind == "token_usage_record" or (
            kind == "event_msg" and as_str(payload.get("type")) not in _TURN_START_EVENTS
        ):
            self.trailing_events.add(at)
        if not self.cwd:
            self.cwd = as_str(payload.get("cwd")) if kind in ("session_meta", "turn_context") else _find_cwd(payload)

    @property
    def uses_events(self) -> bool:
        return not self.prompts and bool(self.event_prompts)


def build_tree(found: RolloutCatalog, one: Rollout) -> ThreadTree:
    made = ThreadTree()
    turns: list[tuple[int, int | None]] = []
    before: int | None = None
    for rollout, _, line in read_segment_lines(found.segments(one), []):
        kind, payload = unwrap_line(line.value)
        if kind == "session_meta" and made.header is None and not made.nodes:
            made.header = (rollout, line)
            made.cwd = as_str(payload.get("cwd"))
            continue
        at = len(made.nodes)
        if time := as_time(as_dict(line.value).get("timestamp")):
            made.times[at] = time
        if (text := find_prompt(kind, payload)) is not None:
            (made.prompts if kind == "response_item" else made.event_prompts)[at] = text
            if kind == "response_item":
                turns.append((at, before))
        if payload.get("type") == "thread_rolled_back" and (dropped := _last_turns(turns, payload.get("num_turns"))):
            before = dropped[0][1]
            del turns[-len(dropped) :]
            made.has_rollback = True
        made.add_line(at, before, kind, payload)
        before = at
    return made


def _last_turns(turns: list[tuple[int, int | None]], many: Json) -> list[tuple[int, int | None]]:
    return turns[-many:] if isinstance(many, int) and many > 0 else []


def _find_cwd(payload: Mapping[str, Json]) -> str:
    """Before 0.32 the folder stood only in what the model was told of its environment."""
    for block in map(as_dict, as_list(payload.get("content"))):
        text = as_str(block.get("text"))
        if text.lstrip().startswith("<environment_context>") and (told := _CWD_PATTERN.search(text)):
            return (told[1] or told[2]).strip()
    return ""


class ThreadChain:
    def __init__(self, found: RolloutCatalog, one: Rollout, branch: str, named: ThreadInfo) -> None:
        self._catalog = found
        self._rollout = one
        self._info = named
        self._meta, _ = read_meta(one.path)
        self._tree = build_tree(found, one)
        self._branch = next((made for made in self._branches() if made.name == branch), None)
        self._copied_until = -1
        self._end_offset = 0
        self._inherited = self._find_inherited()

    def _branches(self) -> list[Branch]:
        if self._tree.has_rollback:
            return find_branches(self._tree.nodes)
        return [Branch(own_nodes=list(range(len(self._tree.nodes))))]

    @property
    def exists(self) -> bool:
        return self._branch is not None

    @property
    def branch_names(self) -> list[str]:
        """Of the branches that were rolled back."""
        return [branch.name for branch in self._branches() if branch.name]

    @cached_property
    def _chain(self) -> list[int]:
        return self._branch.shared_nodes() + self._branch.own_nodes if self._branch else []

    @cached_property
    def _is_newest(self) -> bool:
        return self._catalog.threads[self._rollout.thread_id][-1] == self._rollout

    # ── what it tells ─────────────────────────────────────────────────────────────────────────────

    def build_header_batch(self) -> Batch:
        told, meta = self._tree, self._meta
        own = [told.times[at] for at in self._chain if at in told.times and at not in self._inherited]
        is_whole = self._is_newest and not (self._branch and self._branch.name)
        source, instructions = meta.get("source"), meta.get("base_instructions", meta.get("instructions"))
        prompt = as_str(instructions) or as_str(as_dict(instructions).get("text"))
        began = self._started_at() if is_whole else ""
        fields: SessionFields = {
            "agent_title": self._info.title if is_whole else self._first_own_prompt(),
            "provider": as_str(meta.get("model_provider")),
            "cwd": as_str(meta.get("cwd")) or told.cwd,
            "channel": as_str(source) or next(iter(as_dict(source)), ""),
            "system_prompt": prompt,
        }
        fields |= sqlite.time_fields(began or min(own, default=""), max(own, default=began))
        place, line = told.header or (self._rollout, None)
        batch = build_header_batch(fields | self._find_link(), line, place.path)
        batch.archived = self._rollout.is_archived or self._info.is_archived
        return batch

    def _started_at(self) -> str:
        """A thread that goes on in a second rollout was begun with its first."""
        place, line = self._tree.header or (self._rollout, None)
        meta = unwrap_line(line.value)[1] if line and place.thread_id == self._rollout.thread_id else self._meta
        return as_time(meta.get("timestamp"))

    def _first_own_prompt(self) -> str:
        own = (text for at, text in sorted(self._tree.prompts.items()) if at in self._own_lines)
        return " ".join(next(own, "").split())[:_MAX_TITLE]

    @cached_property
    def _own_lines(self) -> set[int]:
        return {at for at in self._chain if at not in self._inherited}

    def make_entry_reader(self) -> CodexEntryReader:
        told = self._tree
        return CodexEntryReader(told.outcomes, uses_events=told.uses_events, is_subagent=bool(self._parent_thread_id()))

    def build_mark(self, telling: CodexEntryReader) -> str:
        """Where it goes on, once its entries have been told; empty when it can only be read anew."""
        told = self._tree
        is_plain = self._is_newest and not told.has_rollback and len(self._catalog.segments(self._rollout)) == 1
        # Of a copy it cannot be told where it ends before something else was said.
        is_own = not self._meta.get("forked_from_id") or any(at not in self._inherited for at in told.prompts)
        file = FileMark.from_file(self._rollout.path, self._end_offset) if is_plain and is_own else None
        if file is None:
            return ""
        when = next(reversed(told.times.values()), "")
        tail = CodexMark(
            file=file,
            has_items=bool(told.prompts),
            is_shown=bool(told.event_prompts),
            is_agent=bool(self._parent_thread_id()),
            when=when,
            newest=max(told.times.values(), default=""),
            told=telling.save_state(),
        )
        return tail.encode()

    def read_entries(self, telling: CodexEntryReader, met: list[Problem]) -> Iterator[list[NewEntry]]:
        told, wanted = self._tree, set(self._chain)
        when = next(iter(told.times.values()), as_time(self._meta.get("timestamp")))
        at = -1 if told.header else 0
        segments = self._catalog.segments(self._rollout)
        places = {rollout: path_text(rollout.path) for rollout, _ in segments}
        for rollout, _, line in read_segment_lines(segments, met, self._reports_problems):
            self._end_offset = line.offset + len(line.data)
            if at in wanted:
                when = told.times.get(at, when)
                entry = telling.read_entry(line.value)
                entry.record = record_from_line(line, places[rollout])
                entry.created_at = when
                entry.inherited = at in self._inherited
                yield [entry]
            at += 1

    def _reports_problems(self, rollout: Rollout) -> bool:
        """A damaged line is told of once, however many sessions share it."""
        return rollout == self._rollout and not (self._branch and self._branch.name)

    # ── what it shares ────────────────────────────────────────────────────────────────────────────

    def _parent_thread_id(self) -> str:
        subagent = as_dict(as_dict(self._meta.get("source")).get("subagent"))
        spawned = as_str(as_dict(subagent.get("thread_spawn")).get("parent_thread_id"))
        return as_str(self._meta.get("parent_thread_id")) or spawned or self._info.parent_id

    def _find_inherited(self) -> set[int]:
        """The lines that stand in another session too."""
        if self._branch is None:
            return set()
        shared = set(self._branch.shared_nodes())
        newest = self._catalog.threads[self._rollout.thread_id][-1]
        ends = {rollout.id: end for rollout, end in self._catalog.segments(newest)} if newest != self._rollout else {}
        copied_until = self._meta.get("subagent_history_start_ordinal")
        if len(self._catalog.segments(self._rollout)) == 1 and not ends and not isinstance(copied_until, int):
            return shared or self._find_copied()
        at = -1 if self._tree.header else 0
        for rollout, ordinal, _ in read_segment_lines(self._catalog.segments(self._rollout), []):
            foreign = rollout.thread_id != self._rollout.thread_id or (bool(ends) and rollout != self._rollout)
            copied = rollout == self._rollout and isinstance(copied_until, int) and ordinal < copied_until
            if at >= 0 and (foreign or copied or ordinal < ends.get(rollout.id, -1)):
                shared.add(at)
            at += 1
        return shared | (self._find_copied() if not shared else set())

    def _find_copied(self) -> set[int]:
        """A copy of another thread has its items, one by one from the first on, in lines of its own."""
        parent, last = self._find_parent_rollout(), -1
        if parent is not None:
            ours, theirs = _item_digests(self._catalog, self._rollout), _item_digests(self._catalog, parent)
            for (at, item), (place, other) in zip(ours, theirs, strict=False):
                if item != other:
                    break
                last, self._copied_until = at, place
        return self._lines_before_start() or set(range(last + 1)) | self._events_after_copy(last + 1)

    def _lines_before_start(self) -> set[int]:
        """Lines from before the thread was begun are copies, also where the original is gone."""
        began = as_time(self._meta.get("timestamp")) if self._meta.get("forked_from_id") else ""
        return {at for at, time in self._tree.times.items() if time < began}

    def _events_after_copy(self, first: int) -> set[int]:
        """What the copied turn told of its end stands behind its last item."""
        own = takewhile(lambda at: at in self._tree.trailing_events, range(first, len(self._tree.nodes)))
        return set(own) if first else set()

    def _find_parent_rollout(self) -> Rollout | None:
        parent = as_str(self._meta.get("forked_from_id")) or self._parent_thread_id()
        threads = self._catalog.threads.get(parent, [])
        return threads[-1] if threads and parent != self._rollout.thread_id else None

    def _find_link(self) -> SessionFields:
        thread, last = self._rollout.thread_id, len([at for at in self._chain if at in self._inherited]) - 1
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

    def _position_in_parent(self, at: int) -> int:
        parent = self._find_parent_rollout() if at >= 0 else None
        return bisect_right(ThreadChain(self._catalog, parent, "", ThreadInfo())._chain, at) - 1 if parent else -1

    def _base_session(self) -> str:
        """The session that this one shares its beginning with; empty when that is the newest of its own thread."""
        base = self._catalog.find_base(self._rollout)
        if base is None:
            return ""
        rollout = self._catalog.by_id[base.rollout_id]
        newest = self._catalog.threads[rollout.thread_id][-1]
        reached = {one.id: end for one, end in self._catalog.segments(newest)}.get(rollout.id, -1)
        if base.end_ordinal <= reached:
            return rollout.thread_id if rollout.thread_id != self._rollout.thread_id else ""
        return f"{rollout.thread_id}/{rollout.id}"

    def _find_spawn_position(self) -> int:
        """Where in the parent's chain the call stands whose result names this thread."""
        parent = self._find_parent_rollout()
        if parent is None:
            return -1
        name, calls = self._rollout.thread_id.encode(), dict[str, int]()
        at = -1 if build_tree(self._catalog, parent).header else 0
        for _, _, line in read_segment_lines(self._catalog.segments(parent), []):
            kind, payload = unwrap_line(line.value)
            call_id = as_str(payload.get("call_id"))
            if kind == "response_item" and call_id:
                if call_id in calls and name in line.data:
                    return self._position_in_parent(calls[call_id])
                calls.setdefault(call_id, at)
            at += 1
        return -1


def _item_digests(found: RolloutCatalog, one: Rollout) -> Iterator[tuple[int, str]]:
    """The places of a thread's response items, and what tells each from the others."""
    header, at = True, 0
    for _, _, line in read_segment_lines(found.segments(one), []):
        kind, payload = unwrap_line(line.value)
        if kind == "session_meta" and header:
            header = False
            continue
        header = False
        if kind == "response_item":
            yield at, sqlite.digest(encode_derived(payload))
        at += 1


def _with_forked_at(fields: SessionFields, place: int) -> SessionFields:
    return {**fields, "forked_at": place} if place >= 0 else fields
