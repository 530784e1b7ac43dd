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
from store.sources.kiso.tables import Tables, number, record, text
from store.sources.kit import sqlite
from store.sources.kit.sqlite import Row
from store.text.validate import parse

FINISHED = frozenset({"done", "failed", "cancelled"})

_TOOLS = frozenset({"exec", "mcp", "search", "skill", "tool", "wrapper"})
_ROLES = frozenset({"user", "assistant", "system"})
_REVIEWER = "reviewer"


class Told(NamedTuple):
    entry: NewEntry
    settled: bool


class _Usage(NamedTuple):
    "What the calls of a language model behind a row tell."

    tokens: Tokens | None = None
    model: str = ""
    thoughts: tuple[Thinking, ...] = ()


_NOBODYS = _Usage()


class Telling:
    def __init__(self, tables: Tables, session: str, problems: list[Problem]) -> None:
        self._tables = tables
        self._session = session
        self._problems = problems
        said = tables.rows("messages", "where session = ? and role <> 'user' order by id", session)
        self._answers = _Answers(said)

    def told(self) -> Iterator[Told]:
        plans = deque(self._tables.plans(self._session))
        awaited = False
        for message in self._tables.rows("messages", "where session = ? order by id", self._session):
            while plans and plans[0]["message_id"] < message["id"]:
                yield from self._plan(plans.popleft(), gone_on=bool(plans))
            if message["id"] in self._answers.shown:
                continue
            yield Told(_message(message), not awaited)
            # What is said while the agent still thinks about this one will stand behind the plan it makes.
            unheard = not plans and message["id"] > self._answers.last
            awaited |= self._tables.keep_plans and _wants_plan(message) and unheard
        while plans:
            yield from self._plan(plans.popleft(), gone_on=bool(plans))

    def _plan(self, place: Row, *, gone_on: bool) -> Iterator[Told]:
        plan = self._tables.one("plans", "where id = ?", place["id"])
        tasks = list(self._tables.rows("tasks", "where plan_id = ? order by id", place["id"]))
        ended = gone_on or plan is None or plan["status"] in FINISHED
        if plan is not None:
            yield Told(self._goal(plan, tasks), ended or _is_through(tasks))
        for index, task in enumerate(tasks):
            yield Told(self._task(task, place["message_id"]), ended or _is_through(tasks[index:]))

    def _goal(self, plan: Row, tasks: Sequence[Row]) -> NewEntry:
        """What the agent set out to do: a thought, since it says it to nobody."""
        spent = Tokens(
            max(number(plan["total_input_tokens"]) - sum(number(task["input_tokens"]) for task in tasks), 0),
            max(number(plan["total_output_tokens"]) - sum(number(task["output_tokens"]) for task in tasks), 0),
        )
        usage = self._usage(plan, "plans", spent)
        return NewEntry(
            role="assistant",
            parts=(*usage.thoughts, Thinking(text(plan["goal"]))),
            model=usage.model,
            record=record(plan, "plans", plan["id"], "status"),
            tokens=usage.tokens,
            created_at=sqlite.utc(plan["created_at"]),
        )

    def _task(self, task: Row, cause: int) -> NewEntry:
        counted = Tokens(number(task["input_tokens"]), number(task["output_tokens"]))
        usage = self._usage(task, "tasks", counted)
        if task["type"] == "msg" and (answer := self._answers.take(task["output"], cause)) is not None:
            row = self._tables.one("messages", "where id = ?", answer)
            if row is not None:
                return _message(row, usage)
        finished = task["status"] in FINISHED
        entry = NewEntry(
            role="assistant",
            model=usage.model,
            record=record(task, "tasks", task["id"]),
            tokens=usage.tokens,
            created_at=sqlite.utc(finished and task["updated_at"]) or sqlite.utc(task["created_at"]),
        )
        self._say(task, entry, usage)
        return entry

    def _say(self, task: Row, entry: NewEntry, usage: _Usage) -> None:
        kind, status, detail, output = (text(task[name]) for name in ("type", "status", "detail", "output"))
        if kind in _TOOLS:
            entry.parts = (*usage.thoughts, *self._call(task))
        elif kind == "msg" and status == "done":
            entry.parts = (*usage.thoughts, Text(output))
        elif kind == "msg":
            entry.kind, entry.text = "event", f"reply {status}: {output or detail}"
        elif kind == "replan":
            entry.kind, entry.text = "event", f"replan: {detail}"
        else:
            entry.kind, entry.parts = "unknown", (Opaque(kind, {"detail": detail, "output": output}),)

    def _call(self, task: Row) -> tuple[Part, ...]:
        name, place = _tool(task), f"task:{task['id']}"
        args = self._json(task, "tasks", "args")
        given = {
            "command": text(task["command"]),
            "detail": text(task["detail"]),
            "args": text(task["args"]) if args is None else args,
        }
        call = ToolCall(place, name, {key: value for key, value in given.items() if value})
        if task["status"] not in FINISHED:
            return (call,)
        output = "\n".join(filter(None, (text(task["output"]), text(task["stderr"]))))
        if task["status"] == "cancelled":
            output = output or "cancelled"
        took = task["duration_ms"] if isinstance(task["duration_ms"], int) else None
        return call, ToolResult(place, output, task["status"] != "done", name, took)

    def _usage(self, row: Row, table: str, counted: Tokens) -> _Usage:
        """By the calls themselves where they are kept, since a plan's totals also hold those of its tasks."""
        told = self._json(row, table, "llm_calls")
        calls = [call for call in told if isinstance(call, dict)] if isinstance(told, list) else []
        if calls:
            counted = Tokens(
                sum(number(call.get("input_tokens")) for call in calls),
                sum(number(call.get("output_tokens")) for call in calls),
            )
        own = [call for call in calls if call.get("role") != _REVIEWER]
        thoughts = tuple(Thinking(thought) for call in own if (thought := text(call.get("thinking"))))
        return _Usage(counted if counted.total else None, text(own[-1].get("model")) if own else "", thoughts)

    def _json(self, row: Row, table: str, column: str) -> Json:
        if not isinstance(row[column], str) or not row[column]:
            return None
        try:
            return parse(row[column])
        except BadValue as reason:
            self._problems.append(Problem(f"{table}:{row['id']}", f"Its {column} cannot be read: {reason}"))
            return None


class _Answers:
    """What the agent said, by its words: what a `msg` task put out often stands among the messages too."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.shown: set[int] = set()
        self._numbers: list[int] = []
        self._by_words: dict[str, deque[int]] = {}
        for row in rows:
            self._by_words.setdefault(sqlite.digest(row["content"]), deque()).append(row["id"])
            self._numbers.append(row["id"])

    @property
    def last(self) -> int:
        """The newest that no task put out."""
        while self._numbers and self._numbers[-1] in self.shown:
            self._numbers.pop()
        return self._numbers[-1] if self._numbers else 0

    def take(self, words: object, after: int) -> int | None:
        """The first message with these words behind the one that caused them, each only once."""
        numbers = self._by_words.get(sqlite.digest(words), deque())
        while numbers:
            if (number := numbers.popleft()) > after:
                self.shown.add(number)
                return number
        return None


def _message(row: Row, usage: _Usage = _NOBODYS) -> NewEntry:
    role = text(row["role"])
    return NewEntry(
        kind="message" if role in _ROLES else "unknown",
        role=role,
        parts=(*usage.thoughts, Text(text(row["content"]))),
        author=text(row["user"]),
        model=usage.model,
        prompt=role == "user" and row["source"] != "cron",
        record=record(row, "messages", row["id"]),
        tokens=usage.tokens,
        created_at=sqlite.utc(row["timestamp"]),
    )


def _wants_plan(message: Row) -> bool:
    """Kiso plans for everybody it trusts; what a stranger says is only kept."""
    return bool(message["role"] == "user" and message["trusted"] != 0)


def _is_through(tasks: Sequence[Row]) -> bool:
    """Whether the first is finished, reviewed and left behind, and not merely done beside others of its group."""
    if not tasks or tasks[0]["status"] not in FINISHED:
        return False
    group = tasks[0]["parallel_group"]
    return any(
        later["status"] != "pending" and (group is None or later["parallel_group"] != group) for later in tasks[1:]
    )


def _tool(task: Row) -> str:
    if task["type"] == "mcp":
        return ".".join(filter(None, (text(task["server"]), text(task["method"])))) or "mcp"
    return next(filter(None, (text(task[name]) for name in ("skill", "wrapper", "tool", "type"))), "")
