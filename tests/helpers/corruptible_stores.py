"""One small store of every kind that can be opened, with a session to spoil and a neighbour that must come through."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import adk_database
import crush_database
import goose_database
import wuhu_database
from crush_database import CrushStore
from foreign_databases import (
    PINGU,
    PINGU_MEMORIES,
    RUBICHAN,
    RUBICHAN_HEAD,
    insert,
    make,
    pingu_native,
    pingu_raw,
    pingu_session,
    raw_message,
    rubichan_session,
)
from goose_database import GooseStore
from hypothesis import settings
from kiso_database import FIRST, HEAD, KisoStore
from wuhu_database import WuhuStore

from store.store import Store

SPOILED, NEIGHBOUR = "spoiled", "neighbour"
ASKED, ANSWERED = "Are you there?", "I am here."

NO_TEXT = b"\xffabc\xed\xa0\x80"
"""Neither a byte of UTF-8 nor half a character; SQLite keeps it as text all the same."""

WRONG: list[Any] = [
    None,
    b"\xff\x00\x80",
    NO_TEXT,
    "nul\0inside",
    3,
    -(2**63),
    float("inf"),
    "not what it should be",
    '[{"type": "te',
]


STRIDE = 1 if settings().max_examples > 100 else 5


def some_wrong(column: int) -> list[Any]:
    """Two of them in each column, in turn: all in all would take minutes, and does in the long run."""
    return WRONG[column % STRIDE :: STRIDE]


@dataclass(frozen=True)
class Kind:
    name: str
    build: Callable[[Path], object]
    neighbour: str = NEIGHBOUR
    "Its native id."

    def __str__(self) -> str:
        return self.name


def _pingu(path: Path, *, newest: bool = True) -> None:
    make(path, PINGU + PINGU_MEMORIES if newest else PINGU)
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    call = {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"command":"ls"}'}
    usage = {"input_tokens": 9, "output_tokens": 3}
    turns = [
        ("disk?", pingu_raw(reasoning, call, raw_message("41% full"), usage=usage)),
        ("memory?", pingu_native({"type": "message", "content": "60%"}, **usage)),
    ]
    pingu_session(path, SPOILED, *turns, title="Disks", model="m", summary="About disks.", summary_up_to="1")
    pingu_session(path, NEIGHBOUR, (ASKED, pingu_raw(raw_message(ANSWERED))))
    if newest:
        insert(path, "memories", session_id=SPOILED, content="Runs Debian", embedding=b"\0\0\x80\x3f")


def _rubichan(path: Path, *, head: bool = True) -> None:
    make(path, RUBICHAN_HEAD if head else RUBICHAN)
    note = '[Tool result stored — 5000 bytes from "shell".\nFirst…]\nUse "read_result" with ref_id="b1" to read it.'
    call = {"type": "tool_use", "id": "t1", "name": "shell", "input": {"command": "ls"}}
    talk = [
        ("user", "Fix it"),
        ("assistant", [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "Reading."}, call]),
        ("user", [{"type": "tool_result", "text": note, "tool_use_id": "t1"}]),
        ("assistant", "Fixed."),
    ]
    rubichan_session(path, SPOILED, *talk, title="Tests", working_dir="/srv", system_prompt="Be brief.")
    rubichan_session(path, NEIGHBOUR, ("user", ASKED), ("assistant", ANSWERED))
    if head:
        rubichan_session(path, "fork", *talk, ("user", "go on"), forked_from=SPOILED)
        blob = {"tool_name": "shell", "content": "x" * 5000, "byte_size": 5000}
        insert(path, "tool_result_blobs", id="b1", session_id=SPOILED, **blob)
        kept = '[{"role": "user", "content": [{"type": "text", "text": "[Summary] fixed"}]}]'
        insert(path, "session_snapshots", session_id=SPOILED, messages=kept)
        insert(path, "memories", working_dir="/srv", tag="go", content="Uses Go")


def _wuhu(path: Path, layout: str = wuhu_database.NEWEST) -> None:
    owner = WuhuStore(path, layout)
    owner.session(SPOILED)
    for payload in (
        wuhu_database.user("Fix it"),
        wuhu_database.assistant(wuhu_database.text("Reading."), wuhu_database.call()),
        wuhu_database.result(wuhu_database.text("a.go")),
        wuhu_database.injected("wuhu_mount_context_v1", "mounted"),
        wuhu_database.SETTINGS_CHANGE,
        wuhu_database.compaction("They began.", 3),
        wuhu_database.custom("wuhu_llm_retry_v1", {"error": "429"}),
    ):
        owner.append(payload, SPOILED)
    owner.session(NEIGHBOUR)
    owner.append(wuhu_database.user(ASKED), NEIGHBOUR)
    owner.append(wuhu_database.assistant(wuhu_database.text(ANSWERED)), NEIGHBOUR)


def _adk(path: Path, layout: str) -> None:
    owner = adk_database.Made(path, layout)
    owner.session(name=SPOILED, state='{"mood": "fine"}')
    spoiled, neighbour = ("dak", "ana", SPOILED), ("dak", "ana", NEIGHBOUR)
    owner.event("user", [{"text": "How many?"}], session=spoiled, role="user")
    owner.event("dak_agent", [{"function_call": {"id": "c1", "name": "count", "args": {"days": 3}}}], session=spoiled)
    answer = {"function_response": {"id": "c1", "name": "count", "response": {"n": 7}}}
    owner.event("dak_agent", [answer], session=spoiled, role="user")
    owner.event("dak_agent", [{"text": "Seven."}], session=spoiled, error_code="STOP")
    owner.session(name=NEIGHBOUR)
    owner.event("user", [{"text": ASKED}], session=neighbour, role="user")
    owner.event("dak_agent", [{"text": ANSWERED}], session=neighbour)
    at = owner.time(adk_database.NOON)
    owner.run("insert into app_states values ('dak', '{\"a\": 1}', ?)", at)
    owner.run("insert into user_states values ('dak', 'ana', '{\"b\": 2}', ?)", at)


def _kiso(path: Path, *, head: bool = True) -> None:
    owner = KisoStore(path, HEAD if head else FIRST)
    owner.session(SPOILED, summary="About logs.")
    message = owner.message("List the logs", session=SPOILED)
    if head:
        plan = owner.plan(message, "find them", session=SPOILED)
        owner.task(plan, "exec", "list", session=SPOILED, command="ls", output="a.log", args='{"x": 1}')
        owner.task(plan, "msg", "answer", session=SPOILED, output="a.log it is")
        owner.add("facts", content="Logs are in /var", source="curator", session=SPOILED, category="user")
    owner.message("a.log it is", "assistant", session=SPOILED)
    owner.session(NEIGHBOUR)
    owner.message(ASKED, session=NEIGHBOUR)
    owner.message(ANSWERED, "assistant", session=NEIGHBOUR)


def _crush(path: Path) -> None:
    owner = CrushStore(path)
    thought = crush_database.part("reasoning", thinking="hm", signature="s")
    owner.session(SPOILED, ("user", crush_database.say("Fix it")), title="Tests", prompt_tokens=9, todos="[]")
    caller = owner.message("assistant", [thought, crush_database.call(), crush_database.finish("tool_use")], SPOILED)
    owner.message("tool", crush_database.result(metadata='{"exit_code": 1}'), SPOILED)
    owner.message("assistant", [crush_database.finish("error", message="529")], SPOILED, is_summary_message=1)
    owner.session(f"{caller}$$call_1", ("user", crush_database.say("look")), parent_session_id=SPOILED)
    owner.session(NEIGHBOUR, ("user", crush_database.say(ASKED)), ("assistant", crush_database.say(ANSWERED)))


def _goose(path: Path) -> None:
    owner = GooseStore(path)
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    owner.session(SPOILED, ("user", goose_database.say("Fix it")), description="Tests", total_tokens=9)
    owner.message("assistant", [thought, goose_database.call()], SPOILED)
    owner.message("user", [goose_database.result(goose_database.say("a.go")[0])], SPOILED)
    owner.message("user", goose_database.say("Mended."), SPOILED, goose_database.FOR_THE_AGENT)
    owner.session(NEIGHBOUR, ("user", goose_database.say(ASKED)), ("assistant", goose_database.say(ANSWERED)))


KINDS = [
    Kind("pingu", _pingu),
    Kind("pingu first", partial(_pingu, newest=False)),
    Kind("rubichan", _rubichan),
    Kind("rubichan first", partial(_rubichan, head=False)),
    Kind("wuhu", _wuhu),
    Kind("wuhu first", partial(_wuhu, layout="feb11")),
    *(Kind(f"adk {layout}", partial(_adk, layout=layout), f"dak/ana/{NEIGHBOUR}") for layout in adk_database.LAYOUTS),
    Kind("kiso", _kiso),
    Kind("kiso first", partial(_kiso, head=False)),
    Kind("crush", _crush),
    Kind("goose", _goose),
]


def loosen(path: Path) -> list[tuple[str, str]]:
    """The same rows in tables that take any value; and every column that does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = delete")
        for kind, condition in (("trigger", ""), ("view", ""), ("table", "and sql like 'create virtual%'")):
            found = connection.execute(f"select name from sqlite_master where type = ? {condition}", (kind,)).fetchall()
            for (name,) in found:
                connection.execute(f"drop {kind} {name}")
        tables = connection.execute(
            "select name from sqlite_master where type = 'table' and name not like 'sqlite%'"
        ).fetchall()
        return [(table, column) for (table,) in tables for column in _loosen_table(connection, table)]


def _loosen_table(connection: sqlite3.Connection, table: str) -> list[str]:
    """A rowid stays what it is: no file can hold another."""
    columns = connection.execute(f"pragma table_info({table})").fetchall()
    rowid = [name for _, name, kind, _, _, key in columns if key and kind.lower() == "integer"]
    others = [name for _, name, *_ in columns if name not in rowid]
    declared = ", ".join([f"{name} integer primary key" for name in rowid] + [f'"{name}"' for name in others])
    connection.execute(f"create table loose ({declared})")
    names = ", ".join(f'"{name}"' for name in rowid + others)
    filled = connection.execute(f"insert into loose ({names}) select {names} from {table}").rowcount
    connection.execute(f"drop table {table}")
    connection.execute(f"alter table loose rename to {table}")
    return others if filled else []


def spoil(path: Path, table: str, column: str, value: Any) -> None:
    """The first row's."""
    spelled = "cast(? as text)" if value is NO_TEXT else "?"
    first = f"rowid = (select min(rowid) from {table})"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("pragma synchronous = off")
        connection.execute(f"update {table} set {column} = {spelled} where {first}", (value,))


def neighbour(store: Store, path: Path, native_id: str = NEIGHBOUR) -> list[str]:
    """What the session says that nobody touched."""
    its_own = "(select key from sources where locator = ?)"
    found = store.rows(f"select key from sessions where source_key = {its_own} and native_id = ?", str(path), native_id)
    return [entry.text for (key,) in found for entry in store.chains.entries(key, first=0)]
