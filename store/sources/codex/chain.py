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
from store.sources.codex.append import Tail
from store.sources.codex.entries import Outcome, Telling, outcome_of, prompt_of
from store.sources.codex.files import Found, Named, Rollout, lines_of, meta_of, understood
from store.sources.contract import Batch, Problem
from store.sources.kit import sqlite
from store.sources.kit.jsonl import Line, Mark, items, mapping, moment, record, words
from store.sources.kit.transcripts import Branch, Node, about, branches, place_of
from store.text.validate import encode_derived

_CWD = re.compile(r"<cwd>(.*?)</cwd>|^Current working directory: (.*)$", re.MULTILINE)
_TITLE = 200
_BEGINNINGS = frozenset(["task_started", "turn_started", "user_message", "thread_settings_applied"])


@dataclass(slots=True)
class Outline:
    "All that must be known of a thread before its first line can be told."

    nodes: list[Node] = field(default_factory=list)
    "A line each, without the header; its parent is the line before, or before what was rolled back."
    header: tuple[Rollout, Line] | None = None
    times: dict[int, str] = field(default_factory=dict)
    prompts: dict[int, str] = field(default_factory=dict)
    shown: dict[int, str] = field(default_factory=dict)
    "Prompts as events tell them, for a rollout without others."
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    asides: set[int] = field(default_factory=set)
    "Lines that tell how what came before them went."
    cwd: str = ""
    rolled_back: bool = False

    def hear(self, at: int, parent: int | None, kind: str, payload: dict[str, Json]) -> None:
        self.nodes.append(Node(str(at), None if parent is None else str(parent), at in self.prompts))
        call_id, event = outcome_of(kind, payload)
        if call_id:
            ended = self.outcomes.setdefault(call_id, Outcome())
            ended.hear(event)
            # Kept when it is told: all of them at once may be more than fits.
            ended.output = ""
        if kind == "token_usage_record" or (kind == "event_msg" and words(payload.get("type")) not in _BEGINNINGS):
            self.asides.add(at)
        if not self.cwd:
            self.cwd = words(payload.get("cwd")) if kind in ("session_meta", "turn_context") else _cwd_said(payload)

    @property
    def by_events(self) -> bool:
        return not self.prompts and bool(self.shown)


def outline(found: Found, one: Rollout) -> Outline:
    made = Outline()
    turns: list[tuple[int, int | None]] = []
    before: int | None = None
    for rollout, _, line in lines_of(found.segments(one), []):
        kind, payload = understood(line.value)
        if kind == "session_meta" and made.header is None and not made.nodes:
            made.header = (rollout, line)
            made.cwd = words(payload.get("cwd"))
            continue
        at = len(made.nodes)
        if time := moment(mapping(line.value).get("timestamp")):
            made.times[at] = time
        if (text := prompt_of(kind, payload)) is not None:
            (made.prompts if kind == "response_item" else made.shown)[at] = text
            if kind == "response_item":
                turns.append((at, before))
        if payload.get("type") == "thread_rolled_back" and (dropped := _last(turns, payload.get("num_turns"))):
            before = dropped[0][1]
            del turns[-len(dropped) :]
            made.rolled_back = True
        made.hear(at, before, kind, payload)
        before = at
    return made


def _last(turns: list[tuple[int, int | None]], many: Json) -> list[tuple[int, int | None]]:
    return turns[-many:] if isinstance(many, int) and many > 0 else []


def _cwd_said(payload: Mapping[str, Json]) -> str:
    """Before 0.32 the folder stood only in what the model was told of its environment."""
    for block in map(mapping, items(payload.get("content"))):
        text = words(block.get("text"))
        if text.lstrip().startswith("<environment_context>") and (told := _CWD.search(text)):
            return (told[1] or told[2]).strip()
    return ""


class Thread:
    def __init__(self, found: Found, one: Rollout, branch: str, named: Named) -> None:
        self._found = found
        self._one = one
        self._named = named
        self._meta, _ = meta_of(one.path)
        self._outline = outline(found, one)
        self._branch = next((made for made in self._branches() if made.name == branch), None)
        self._copied_at = -1
        self._end = 0
        self._inherited = self._shared()

    def _branches(self) -> list[Branch]:
        if self._outline.rolled_back:
            return branches(self._outline.nodes)
        return [Branch(own=list(range(len(self._outline.nodes))))]

    @property
    def is_known(self) -> bool:
        return self._branch is not None

    @property
    def names(self) -> list[str]:
        """Of the branches that were rolled back."""
        return [branch.name for branch in self._branches() if branch.name]

    @cached_property
    def _chain(self) -> list[int]:
        return self._branch.past() + self._branch.own if self._branch else []

    @cached_property
    def _is_newest(self) -> bool:
        return self._found.threads[self._one.thread][-1] == self._one

    # ── what it tells ─────────────────────────────────────────────────────────────────────────────

    def about(self) -> Batch:
        told, meta = self._outline, self._meta
        own = [told.times[at] for at in self._chain if at in told.times and at not in self._inherited]
        is_whole = self._is_newest and not (self._branch and self._branch.name)
        source, instructions = meta.get("source"), meta.get("base_instructions", meta.get("instructions"))
        prompt = words(instructions) or words(mapping(instructions).get("text"))
        began = self._began() if is_whole else ""
        fields: SessionFields = {
            "agent_title": self._named.title if is_whole else self._own_prompt(),
            "provider": words(meta.get("model_provider")),
            "cwd": words(meta.get("cwd")) or told.cwd,
            "channel": words(source) or next(iter(mapping(source)), ""),
            "system_prompt": prompt,
        }
        fields |= sqlite.lifetime(began or min(own, default=""), max(own, default=began))
        place, line = told.header or (self._one, None)
        batch = about(fields | self._link(), line, place.path)
        batch.archived = self._one.is_archived or self._named.is_archived
        return batch

    def _began(self) -> str:
        """A thread that goes on in a second rollout was begun with its first."""
        place, line = self._outline.header or (self._one, None)
        meta = understood(line.value)[1] if line and place.thread == self._one.thread else self._meta
        return moment(meta.get("timestamp"))

    def _own_prompt(self) -> str:
        own = (text for at, text in sorted(self._outline.prompts.items()) if at in self._own)
        return " ".join(next(own, "").split())[:_TITLE]

    @cached_property
    def _own(self) -> set[int]:
        return {at for at in self._chain if at not in self._inherited}

    def telling(self) -> Telling:
        told = self._outline
        return Telling(told.outcomes, by_events=told.by_events, is_agent=bool(self._spawned_by()))

    def mark(self, telling: Telling) -> str:
        """Where it goes on, once its entries have been told; empty when it can only be read anew."""
        told = self._outline
        is_plain = self._is_newest and not told.rolled_back and len(self._found.segments(self._one)) == 1
        # Of a copy it cannot be told where it ends before something else was said.
        is_own = not self._meta.get("forked_from_id") or any(at not in self._inherited for at in told.prompts)
        file = Mark.behind(self._one.path, self._end) if is_plain and is_own else None
        if file is None:
            return ""
        when = next(reversed(told.times.values()), "")
        tail = Tail(
            file=file,
            has_items=bool(told.prompts),
            is_shown=bool(told.shown),
            is_agent=bool(self._spawned_by()),
            when=when,
            newest=max(told.times.values(), default=""),
            told=telling.remembered(),
        )
        return tail.spelled()

    def entries(self, telling: Telling, met: list[Problem]) -> Iterator[list[NewEntry]]:
        told, wanted = self._outline, set(self._chain)
        when = next(iter(told.times.values()), moment(self._meta.get("timestamp")))
        at = -1 if told.header else 0
        segments = self._found.segments(self._one)
        places = {rollout: place_of(rollout.path) for rollout, _ in segments}
        for rollout, _, line in lines_of(segments, met, self._answers_for):
            self._end = line.offset + len(line.data)
            if at in wanted:
                when = told.times.get(at, when)
                entry = telling.entry(line.value)
                entry.record = record(line, places[rollout])
                entry.created_at = when
                entry.inherited = at in self._inherited
                yield [entry]
            at += 1

    def _answers_for(self, rollout: Rollout) -> bool:
        """A damaged line is told of once, however many sessions share it."""
        return rollout == self._one and not (self._branch and self._branch.name)

    # ── what it shares ────────────────────────────────────────────────────────────────────────────

    def _spawned_by(self) -> str:
        subagent = mapping(mapping(self._meta.get("source")).get("subagent"))
        spawned = words(mapping(subagent.get("thread_spawn")).get("parent_thread_id"))
        return words(self._meta.get("parent_thread_id")) or spawned or self._named.parent

    def _shared(self) -> set[int]:
        """The lines that stand in another session too."""
        if self._branch is None:
            return set()
        shared = set(self._branch.past())
        newest = self._found.threads[self._one.thread][-1]
        ends = {rollout.id: end for rollout, end in self._found.segments(newest)} if newest != self._one else {}
        copied_until = self._meta.get("subagent_history_start_ordinal")
        if len(self._found.segments(self._one)) == 1 and not ends and not isinstance(copied_until, int):
            return shared or self._copied()
        at = -1 if self._outline.header else 0
        for rollout, ordinal, _ in lines_of(self._found.segments(self._one), []):
            foreign = rollout.thread != self._one.thread or (bool(ends) and rollout != self._one)
            copied = rollout == self._one and isinstance(copied_until, int) and ordinal < copied_until
            if at >= 0 and (foreign or copied or ordinal < ends.get(rollout.id, -1)):
                shared.add(at)
            at += 1
        return shared | (self._copied() if not shared else set())

    def _copied(self) -> set[int]:
        """A copy of another thread has its items, one by one from the first on, in lines of its own."""
        parent, last = self._parent_rollout(), -1
        if parent is not None:
            ours, theirs = _items(self._found, self._one), _items(self._found, parent)
            for (at, item), (place, other) in zip(ours, theirs, strict=False):
                if item != other:
                    break
                last, self._copied_at = at, place
        return self._older() or set(range(last + 1)) | self._ending(last + 1)

    def _older(self) -> set[int]:
        """Lines from before the thread was begun are copies, also where the original is gone."""
        began = moment(self._meta.get("timestamp")) if self._meta.get("forked_from_id") else ""
        return {at for at, time in self._outline.times.items() if time < began}

    def _ending(self, first: int) -> set[int]:
        """What the copied turn told of its end stands behind its last item."""
        own = takewhile(lambda at: at in self._outline.asides, range(first, len(self._outline.nodes)))
        return set(own) if first else set()

    def _parent_rollout(self) -> Rollout | None:
        parent = words(self._meta.get("forked_from_id")) or self._spawned_by()
        threads = self._found.threads.get(parent, [])
        return threads[-1] if threads and parent != self._one.thread else None

    def _link(self) -> SessionFields:
        thread, last = self._one.thread, len([at for at in self._chain if at in self._inherited]) - 1
        native_id = thread if self._is_newest else f"{thread}/{self._one.id}"
        if self._branch is not None and self._branch.name:
            return self._branch.fields(native_id)
        if not self._is_newest:
            return _at({"parent_id": self._goes_on_from() or thread, "relation": "fork"}, last)
        if parent := self._spawned_by():
            return _at({"parent_id": parent, "relation": "delegate"}, self._spawned_at())
        if parent := self._goes_on_from():
            return _at({"parent_id": parent, "relation": "fork"}, last)
        if parent := words(self._meta.get("forked_from_id")):
            return _at({"parent_id": parent, "relation": "fork"}, self._place_in_parent(self._copied_at))
        return {}

    def _place_in_parent(self, at: int) -> int:
        parent = self._parent_rollout() if at >= 0 else None
        return bisect_right(Thread(self._found, parent, "", Named())._chain, at) - 1 if parent else -1

    def _goes_on_from(self) -> str:
        """The session that this one shares its beginning with; empty when that is the newest of its own thread."""
        base = self._found.base(self._one)
        if base is None:
            return ""
        rollout = self._found.by_id[base.rollout]
        newest = self._found.threads[rollout.thread][-1]
        reached = {one.id: end for one, end in self._found.segments(newest)}.get(rollout.id, -1)
        if base.end <= reached:
            return rollout.thread if rollout.thread != self._one.thread else ""
        return f"{rollout.thread}/{rollout.id}"

    def _spawned_at(self) -> int:
        """Where in the parent's chain the call stands whose result names this thread."""
        parent = self._parent_rollout()
        if parent is None:
            return -1
        name, calls = self._one.thread.encode(), dict[str, int]()
        at = -1 if outline(self._found, parent).header else 0
        for _, _, line in lines_of(self._found.segments(parent), []):
            kind, payload = understood(line.value)
            call_id = words(payload.get("call_id"))
            if kind == "response_item" and call_id:
                if call_id in calls and name in line.data:
                    return self._place_in_parent(calls[call_id])
                calls.setdefault(call_id, at)
            at += 1
        return -1


def _items(found: Found, one: Rollout) -> Iterator[tuple[int, str]]:
    """The places of a thread's response items, and what tells each from the others."""
    header, at = True, 0
    for _, _, line in lines_of(found.segments(one), []):
        kind, payload = understood(line.value)
        if kind == "session_meta" and header:
            header = False
            continue
        header = False
        if kind == "response_item":
            yield at, sqlite.digest(encode_derived(payload))
        at += 1


def _at(fields: SessionFields, place: int) -> SessionFields:
    return {**fields, "forked_at": place} if place >= 0 else fields
