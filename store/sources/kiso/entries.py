"""A Kiso session as a conversation: message by message, each with the plans and tasks that answered it behind it.

Kiso writes plans and tasks in place while they run, tries a finished task again when its review says so, and plans
anew for the same message. So everything told says whether it is settled: whether nothing of it will change any more,
and nothing will come before it.
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
    entry: NewEntry
    is_settled: bool


class _Usage(NamedTuple):
    "What the calls of a language model behind a row tell."

    tokens: Tokens | None = None
    model: str = ""
    thoughts: tuple[Thinking, ...] = ()


_NO_USAGE = _Usage()


class KisoEntryReader:
    def __init__(self, tables: KisoTables, session: str, problems: list[Problem]) -> None:
        self._tables = tables
        self._session = session
        self._problems = problems
        said = tables.rows("messages", "where session = ? and role <> 'user' order by id", session)
        self._answers = _AnswerMatcher(said)

    def read_entries(self) -> Iterator[KisoEntry]:
        plans = deque(self._tables.list_plans(self._session))
        awaited = False
        for message in self._tables.rows("messages", "where session = ? order by id", self._session):
            while plans and plans[0]["message_id"] < message["id"]:
                yield from self._read_plan(plans.popleft(), has_successor=bool(plans))
            if message["id"] in self._answers.matched:
                continue
            yield KisoEntry(_parse_message(message), not awaited)
            # What is said while the agent still thinks about this one will stand behind the plan it makes.
            unheard = not plans and message["id"] > self._answers.last_unmatched
            awaited |= self._tables.has_plans and _expects_plan(message) and unheard
        while plans:
            yield from self._read_plan(plans.popleft(), has_successor=bool(plans))

    def _read_plan(self, place: RowLike, *, has_successor: bool) -> Iterator[KisoEntry]:
        plan = self._tables.first_row("plans", "where id = ?", place["id"])
        tasks = list(self._tables.rows("tasks", "where plan_id = ? order by id", place["id"]))
        ended = has_successor or plan is None or plan["status"] in FINISHED_STATUSES
        if plan is not None:
            yield KisoEntry(self._parse_goal(plan, tasks), ended or _is_task_settled(tasks))
        for index, task in enumerate(tasks):
            yield KisoEntry(self._parse_task(task, place["message_id"]), ended or _is_task_settled(tasks[index:]))

    def _parse_goal(self, plan: RowLike, tasks: Sequence[RowLike]) -> NewEntry:
        """What the agent set out to do: a thought, since it says it to nobody."""
        spent = Tokens(
            max(as_count(plan["total_input_tokens"]) - sum(as_count(task["input_tokens"]) for task in tasks), 0),
            max(as_count(plan["total_output_tokens"]) - sum(as_count(task["output_tokens"]) for task in tasks), 0),
        )
        usage = self._parse_usage(plan, "plans", spent)
        return NewEntry(
            role="assistant",
            parts=(*usage.thoughts, Thinking(as_text(plan["goal"]))),
            model=usage.model,
            record=make_record(plan, "plans", plan["id"], "status"),
            tokens=usage.tokens,
            created_at=sqlite.normalize_time(plan["created_at"]),
        )

    def _parse_task(self, task: RowLike, cause: int) -> NewEntry:
        counted = Tokens(as_count(task["input_tokens"]), as_count(task["output_tokens"]))
        usage = self._parse_usage(task, "tasks", counted)
        if task["type"] == "msg" and (answer := self._answers.take_match(task["output"], cause)) is not None:
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
        name, place = _tool_name(task), f"task:{task['id']}"
        args = self._parse_json_column(task, "tasks", "args")
        given = {
            "command": as_text(task["command"]),
            "detail": as_text(task["detail"]),
            "args": as_text(task["args"]) if args is None else args,
        }
        call = ToolCall(place, name, {key: value for key, value in given.items() if value})
        if task["status"] not in FINISHED_STATUSES:
            return (call,)
        output = "\n".join(filter(None, (as_text(task["output"]), as_text(task["stderr"]))))
        if task["status"] == "cancelled":
            output = output or "cancelled"
        took = task["duration_ms"] if isinstance(task["duration_ms"], int) else None
        return call, ToolResult(place, output, task["status"] != "done", name, took)

    def _parse_usage(self, row: RowLike, table: str, counted: Tokens) -> _Usage:
        """By the calls themselves where they are kept, since a plan's totals also hold those of its tasks."""
        told = self._parse_json_column(row, table, "llm_calls")
        calls = [call for call in told if isinstance(call, dict)] if isinstance(told, list) else []
        if calls:
            counted = Tokens(
                sum(as_count(call.get("input_tokens")) for call in calls),
                sum(as_count(call.get("output_tokens")) for call in calls),
            )
        own = [call for call in calls if call.get("role") != _REVIEWER]
        thoughts = tuple(Thinking(thought) for call in own if (thought := as_text(call.get("thinking"))))
        return _Usage(counted if counted.total else None, as_text(own[-1].get("model")) if own else "", thoughts)

    def _parse_json_column(self, row: RowLike, table: str, column: str) -> Json:
        if not isinstance(row[column], str) or not row[column]:
            return None
        try:
            return parse(row[column])
        except BadValue as reason:
            self._problems.append(Problem(f"{table}:{row['id']}", f"Its {column} cannot be read: {reason}"))
            return None


class _AnswerMatcher:
    """What the agent said, by its words: what a `msg` task put out often stands among the messages too."""

    def __init__(self, rows: Iterable[RowLike]) -> None:
        self.matched: set[int] = set()
        self._ids: list[int] = []
        self._ids_by_digest: dict[str, deque[int]] = {}
        for row in rows:
            self._ids_by_digest.setdefault(sqlite.digest(row["content"]), deque()).append(row["id"])
            self._ids.append(row["id"])

    @property
    def last_unmatched(self) -> int:
        """The newest that no task put out."""
        while self._ids and self._ids[-1] in self.matched:
            self._ids.pop()
        return self._ids[-1] if self._ids else 0

    def take_match(self, words: object, after: int) -> int | None:
        """The first message with these words behind the one that caused them, each only once."""
        numbers = self._ids_by_digest.get(sqlite.digest(words), deque())
        while numbers:
            if (number := numbers.popleft()) > after:
                self.matched.add(number)
                return number
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
    """Kiso plans for everybody it trusts; what a stranger says is only kept."""
    return bool(message["role"] == "user" and message["trusted"] != 0)


def _is_task_settled(tasks: Sequence[RowLike]) -> bool:
    """Whether the first is finished, reviewed and left behind, and not merely done beside others of its group."""
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
