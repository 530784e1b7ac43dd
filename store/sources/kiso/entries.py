"""This module turns a Kiso session into entries: each message, followed by the plans and tasks that answered it.

Kiso changes plans and tasks in place while they run, retries a finished task when its review asks for it, and may
plan again for the same message. Every entry therefore says whether it is settled: it will not change any more, and
nothing will be inserted before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from store.errors import BadValue
from store.model.entry import Json, NewEntry, Opaque, Part, Text, Thinking, Tokens, ToolCall, ToolResult
from store.sources.contract import Problem
from store.sources.kiso.tables import KisoTables, as_count, as_text, make_record
from store.sources.kit import sqlite
from store.sources.kit.sqlite import RowLike
from store.text.validate import parse

FINISHED_STATUSES = frozenset({"done", "failed", "cancelled"})

_TOOL_TYPES = frozenset({"exec", "mcp", "search", "skill", "tool", "wrapper"})
_ROLES = frozenset({"user", "assistant", "system"})
_REVIEWER = "reviewer"


class KisoEntry(NamedTuple):
    """Pairs an entry with whether it is settled."""

    entry: NewEntry
    is_settled: bool


class _Usage(NamedTuple):
    """Holds what the model calls behind a row used: tokens, the model, and thoughts."""

    tokens: Tokens | None = None
    model: str = ""
    thoughts: tuple[Thinking, ...] = ()


_NO_USAGE = _Usage()


class KisoEntryReader:
    """Reads the entries of one session in order."""

    def __init__(self, tables: KisoTables, session: str, problems: list[Problem]) -> None:
        self._tables = tables
        self._session = session
        self._problems = problems
        answers = tables.rows("messages", "where session = ? and role <> 'user' order by id", session)
        self._answers = _AnswerMatcher(answers)

    def read_entries(self) -> Iterator[KisoEntry]:
        plans = deque(self._tables.list_plans(self._session))
        expects_plan = False
        for message in self._tables.rows("messages", "where session = ? order by id", self._session):
            while plans and plans[0]["message_id"] < message["id"]:
                yield from self._read_plan(plans.popleft(), has_successor=bool(plans))
            if message["id"] in self._answers.matched:
                continue
            yield KisoEntry(_parse_message(message), not expects_plan)
            # The plan for this message will come before any message that follows it.
            is_unanswered = not plans and message["id"] > self._answers.last_unmatched
            expects_plan |= self._tables.has_plans and _expects_plan(message) and is_unanswered
        while plans:
            yield from self._read_plan(plans.popleft(), has_successor=bool(plans))

    def _read_plan(self, position: RowLike, *, has_successor: bool) -> Iterator[KisoEntry]:
        """Yield the goal and the tasks of a plan. A plan with a successor does not change any more."""
        plan = self._tables.first_row("plans", "where id = ?", position["id"])
        tasks = list(self._tables.rows("tasks", "where plan_id = ? order by id", position["id"]))
        ended = has_successor or plan is None or plan["status"] in FINISHED_STATUSES
        if plan is not None:
            yield KisoEntry(self._parse_goal(plan, tasks), ended or _is_task_settled(tasks))
        for index, task in enumerate(tasks):
            yield KisoEntry(self._parse_task(task, position["message_id"]), ended or _is_task_settled(tasks[index:]))

    def _parse_goal(self, plan: RowLike, tasks: Sequence[RowLike]) -> NewEntry:
        """Return the goal of a plan. It is read as thinking, because the agent does not show it."""
        own_tokens = Tokens(
            max(as_count(plan["total_input_tokens"]) - sum(as_count(task["input_tokens"]) for task in tasks), 0),
            max(as_count(plan["total_output_tokens"]) - sum(as_count(task["output_tokens"]) for task in tasks), 0),
        )
        usage = self._parse_usage(plan, "plans", own_tokens)
        return NewEntry(
            role="assistant",
            parts=(*usage.thoughts, Thinking(as_text(plan["goal"]))),
            model=usage.model,
            record=make_record(plan, "plans", plan["id"], "status"),
            tokens=usage.tokens,
            created_at=sqlite.normalize_time(plan["created_at"]),
        )

    def _parse_task(self, task: RowLike, message_id: int) -> NewEntry:
        tokens = Tokens(as_count(task["input_tokens"]), as_count(task["output_tokens"]))
        usage = self._parse_usage(task, "tasks", tokens)
        if task["type"] == "msg" and (answer := self._answers.take_match(task["output"], message_id)) is not None:
            row = self._tables.first_row("messages", "where id = ?", answer)
            if row is not None:
                return _parse_message(row, usage)
        finished = task["status"] in FINISHED_STATUSES
        entry = NewEntry(
            role="assistant",
            model=usage.model,
            record=make_record(task, "tasks", task["id"]),
            tokens=usage.tokens,
            created_at=sqlite.normalize_time(finished and task["updated_at"])
            or sqlite.normalize_time(task["created_at"]),
        )
        self._set_task_content(task, entry, usage)
        return entry

    def _set_task_content(self, task: RowLike, entry: NewEntry, usage: _Usage) -> None:
        kind, status, detail, output = (as_text(task[name]) for name in ("type", "status", "detail", "output"))
        if kind in _TOOL_TYPES:
            entry.parts = (*usage.thoughts, *self._parse_call(task))
        elif kind == "msg" and status == "done":
            entry.parts = (*usage.thoughts, Text(output))
        elif kind == "msg":
            entry.kind, entry.text = "event", f"reply {status}: {output or detail}"
        elif kind == "replan":
            entry.kind, entry.text = "event", f"replan: {detail}"
        else:
            entry.kind, entry.parts = "unknown", (Opaque(kind, {"detail": detail, "output": output}),)

    def _parse_call(self, task: RowLike) -> tuple[Part, ...]:
        name, call_id = _tool_name(task), f"task:{task['id']}"
        args = self._parse_json_column(task, "tasks", "args")
        arguments = {
            "command": as_text(task["command"]),
            "detail": as_text(task["detail"]),
            "args": as_text(task["args"]) if args is None else args,
        }
        call = ToolCall(call_id, name, {key: value for key, value in arguments.items() if value})
        if task["status"] not in FINISHED_STATUSES:
            return (call,)
        output = "\n".join(filter(None, (as_text(task["output"]), as_text(task["stderr"]))))
        if task["status"] == "cancelled":
            output = output or "cancelled"
        duration_ms = task["duration_ms"] if isinstance(task["duration_ms"], int) else None
        return call, ToolResult(call_id, output, task["status"] != "done", name, duration_ms)

    def _parse_usage(self, row: RowLike, table: str, tokens: Tokens) -> _Usage:
        """Return what a row used. The recorded calls are preferred, because the totals of a plan include its tasks."""
        value = self._parse_json_column(row, table, "llm_calls")
        calls = [call for call in value if isinstance(call, dict)] if isinstance(value, list) else []
        if calls:
            tokens = Tokens(
                sum(as_count(call.get("input_tokens")) for call in calls),
                sum(as_count(call.get("output_tokens")) for call in calls),
            )
        own_calls = [call for call in calls if call.get("role") != _REVIEWER]
        thoughts = tuple(Thinking(thought) for call in own_calls if (thought := as_text(call.get("thinking"))))
        return _Usage(
            tokens if tokens.total else None, as_text(own_calls[-1].get("model")) if own_calls else "", thoughts
        )

    def _parse_json_column(self, row: RowLike, table: str, column: str) -> Json:
        if not isinstance(row[column], str) or not row[column]:
            return None
        try:
            return parse(row[column])
        except BadValue as reason:
            self._problems.append(Problem(f"{table}:{row['id']}", f"Its {column} cannot be read: {reason}"))
            return None


class _AnswerMatcher:
    """Finds the message that repeats the output of a `msg` task, so that it is read only once."""

    def __init__(self, rows: Iterable[RowLike]) -> None:
        self.matched: set[int] = set()
        self._ids: list[int] = []
        self._ids_by_digest: dict[str, deque[int]] = {}
        for row in rows:
            self._ids_by_digest.setdefault(sqlite.digest(row["content"]), deque()).append(row["id"])
            self._ids.append(row["id"])

    @property
    def last_unmatched(self) -> int:
        """Return the id of the newest answer that no task produced, or 0."""
        while self._ids and self._ids[-1] in self.matched:
            self._ids.pop()
        return self._ids[-1] if self._ids else 0

    def take_match(self, text: object, question_id: int) -> int | None:
        """Return the first unused message with this text after the question, or None."""
        ids = self._ids_by_digest.get(sqlite.digest(text), deque())
        while ids:
            if (message_id := ids.popleft()) > question_id:
                self.matched.add(message_id)
                return message_id
        return None


def _parse_message(row: RowLike, usage: _Usage = _NO_USAGE) -> NewEntry:
    role = as_text(row["role"])
    return NewEntry(
        kind="message" if role in _ROLES else "unknown",
        role=role,
        parts=(*usage.thoughts, Text(as_text(row["content"]))),
        author=as_text(row["user"]),
        model=usage.model,
        is_prompt=role == "user" and row["source"] != "cron",
        record=make_record(row, "messages", row["id"]),
        tokens=usage.tokens,
        created_at=sqlite.normalize_time(row["timestamp"]),
    )


def _expects_plan(message: RowLike) -> bool:
    """Return whether Kiso will plan for a message. It only stores messages from users that it does not trust."""
    return bool(message["role"] == "user" and message["trusted"] != 0)


def _is_task_settled(tasks: Sequence[RowLike]) -> bool:
    """Return whether the first task will not run again: it is finished and a task after its group has started."""
    if not tasks or tasks[0]["status"] not in FINISHED_STATUSES:
        return False
    group = tasks[0]["parallel_group"]
    return any(
        later["status"] != "pending" and (group is None or later["parallel_group"] != group) for later in tasks[1:]
    )


def _tool_name(task: RowLike) -> str:
    if task["type"] == "mcp":
        return ".".join(filter(None, (as_text(task["server"]), as_text(task["method"])))) or "mcp"
    return next(filter(None, (as_text(task[name]) for name in ("skill", "wrapper", "tool", "type"))), "")
