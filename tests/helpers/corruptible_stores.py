"""This module makes a small store of every kind, with a session to corrupt and a neighbour that must stay readable."""

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
    PINGU_MEMORIES_SCHEMA,
    PINGU_SCHEMA,
    RUBICHAN_LATEST_SCHEMA,
    RUBICHAN_SCHEMA,
    add_pingu_session,
    add_rubichan_session,
    insert_row,
    make_database,
    make_openai_agents_database,
    pingu_native_response,
    pingu_raw_message,
    pingu_raw_response,
)
from goose_database import GooseStore
from hypothesis import settings
from kiso_database import FIRST_SCHEMA, LATEST_SCHEMA, KisoStore
from wuhu_database import WuhuStore

from store.store import Store

CORRUPTED, NEIGHBOUR = "spoiled", "neighbour"
PROMPT_TEXT, ANSWER_TEXT = "Are you there?", "I am here."

INVALID_UTF8 = b"\xffabc\xed\xa0\x80"
"""Is not valid UTF-8, but SQLite stores it as text."""

WRONG_VALUES: list[Any] = [
    None,
    b"\xff\x00\x80",
    INVALID_UTF8,
    "nul\0inside",
    3,
    -(2**63),
    float("inf"),
    "not what it should be",
    '[{"type": "te',
]


WRONG_VALUE_STEP = 1 if settings().max_examples > 100 else 5


def sample_wrong_values(column: int) -> list[Any]:
    """Return two of the wrong values for a column, in turn. All values in all columns would take minutes; only
    `make test-all` tries them."""
    return WRONG_VALUES[column % WRONG_VALUE_STEP :: WRONG_VALUE_STEP]


@dataclass(frozen=True)
class StoreKind:
    name: str
    build: Callable[[Path], object]
    neighbour_id: str = NEIGHBOUR
    "Is the native id of the neighbour session."

    def __str__(self) -> str:
        return self.name


def _build_pingu(path: Path, *, newest: bool = True) -> None:
    make_database(path, PINGU_SCHEMA + PINGU_MEMORIES_SCHEMA if newest else PINGU_SCHEMA)
    reasoning = {"id": "rs_1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]}
    call = {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"command":"ls"}'}
    usage = {"input_tokens": 9, "output_tokens": 3}
    turns = [
        ("disk?", pingu_raw_response(reasoning, call, pingu_raw_message("41% full"), usage=usage)),
        ("memory?", pingu_native_response({"type": "message", "content": "60%"}, **usage)),
    ]
    add_pingu_session(path, CORRUPTED, *turns, title="Disks", model="m", summary="About disks.", summary_up_to="1")
    add_pingu_session(path, NEIGHBOUR, (PROMPT_TEXT, pingu_raw_response(pingu_raw_message(ANSWER_TEXT))))
    if newest:
        insert_row(path, "memories", session_id=CORRUPTED, content="Runs Debian", embedding=b"\0\0\x80\x3f")


def _build_rubichan(path: Path, *, head: bool = True) -> None:
    make_database(path, RUBICHAN_LATEST_SCHEMA if head else RUBICHAN_SCHEMA)
    note = '[Tool result stored — 5000 bytes from "shell".\nFirst…]\nUse "read_result" with ref_id="b1" to read it.'
    call = {"type": "tool_use", "id": "t1", "name": "shell", "input": {"command": "ls"}}
    messages = [
        ("user", "Fix it"),
        ("assistant", [{"type": "thinking", "text": "hm"}, {"type": "text", "text": "Reading."}, call]),
        ("user", [{"type": "tool_result", "text": note, "tool_use_id": "t1"}]),
        ("assistant", "Fixed."),
    ]
    add_rubichan_session(path, CORRUPTED, *messages, title="Tests", working_dir="/srv", system_prompt="Be brief.")
    add_rubichan_session(path, NEIGHBOUR, ("user", PROMPT_TEXT), ("assistant", ANSWER_TEXT))
    if head:
        add_rubichan_session(path, "fork", *messages, ("user", "go on"), forked_from=CORRUPTED)
        blob = {"tool_name": "shell", "content": "x" * 5000, "byte_size": 5000}
        insert_row(path, "tool_result_blobs", id="b1", session_id=CORRUPTED, **blob)
        snapshot = '[{"role": "user", "content": [{"type": "text", "text": "[Summary] fixed"}]}]'
        insert_row(path, "session_snapshots", session_id=CORRUPTED, messages=snapshot)
        insert_row(path, "memories", working_dir="/srv", tag="go", content="Uses Go")


def _build_wuhu(path: Path, layout: str = wuhu_database.NEWEST_LAYOUT) -> None:
    owner = WuhuStore(path, layout)
    owner.add_session(CORRUPTED)
    for payload in (
        wuhu_database.user("Fix it"),
        wuhu_database.assistant(wuhu_database.text("Reading."), wuhu_database.call()),
        wuhu_database.result(wuhu_database.text("a.go")),
        wuhu_database.injected_message("wuhu_mount_context_v1", "mounted"),
        wuhu_database.SETTINGS_CHANGE,
        wuhu_database.compaction("They began.", 3),
        wuhu_database.custom("wuhu_llm_retry_v1", {"error": "429"}),
    ):
        owner.append_entry(payload, CORRUPTED)
    owner.add_session(NEIGHBOUR)
    owner.append_entry(wuhu_database.user(PROMPT_TEXT), NEIGHBOUR)
    owner.append_entry(wuhu_database.assistant(wuhu_database.text(ANSWER_TEXT)), NEIGHBOUR)


def _build_adk(path: Path, layout: str) -> None:
    owner = adk_database.AdkSqliteDatabase(path, layout)
    owner.add_session(name=CORRUPTED, state='{"mood": "fine"}')
    corrupted, neighbour = ("dak", "ana", CORRUPTED), ("dak", "ana", NEIGHBOUR)
    owner.add_event("user", [{"text": "How many?"}], session=corrupted, role="user")
    owner.add_event(
        "dak_agent", [{"function_call": {"id": "c1", "name": "count", "args": {"days": 3}}}], session=corrupted
    )
    answer = {"function_response": {"id": "c1", "name": "count", "response": {"n": 7}}}
    owner.add_event("dak_agent", [answer], session=corrupted, role="user")
    owner.add_event("dak_agent", [{"text": "Seven."}], session=corrupted, error_code="STOP")
    owner.add_session(name=NEIGHBOUR)
    owner.add_event("user", [{"text": PROMPT_TEXT}], session=neighbour, role="user")
    owner.add_event("dak_agent", [{"text": ANSWER_TEXT}], session=neighbour)
    at = owner.encode_time(adk_database.NOON)
    owner.execute("insert into app_states values ('dak', '{\"a\": 1}', ?)", at)
    owner.execute("insert into user_states values ('dak', 'ana', '{\"b\": 2}', ?)", at)


def _build_kiso(path: Path, *, head: bool = True) -> None:
    owner = KisoStore(path, LATEST_SCHEMA if head else FIRST_SCHEMA)
    owner.add_session(CORRUPTED, summary="About logs.")
    message = owner.add_message("List the logs", session=CORRUPTED)
    if head:
        plan = owner.add_plan(message, "find them", session=CORRUPTED)
        owner.add_task(plan, "exec", "list", session=CORRUPTED, command="ls", output="a.log", args='{"x": 1}')
        owner.add_task(plan, "msg", "answer", session=CORRUPTED, output="a.log it is")
        owner.insert_row("facts", content="Logs are in /var", source="curator", session=CORRUPTED, category="user")
    owner.add_message("a.log it is", "assistant", session=CORRUPTED)
    owner.add_session(NEIGHBOUR)
    owner.add_message(PROMPT_TEXT, session=NEIGHBOUR)
    owner.add_message(ANSWER_TEXT, "assistant", session=NEIGHBOUR)


def _build_crush(path: Path) -> None:
    owner = CrushStore(path)
    thought = crush_database.part("reasoning", thinking="hm", signature="s")
    owner.add_session(
        CORRUPTED, ("user", crush_database.text_content("Fix it")), title="Tests", prompt_tokens=9, todos="[]"
    )
    caller = owner.add_message(
        "assistant", [thought, crush_database.call(), crush_database.finish("tool_use")], CORRUPTED
    )
    owner.add_message("tool", crush_database.result(metadata='{"exit_code": 1}'), CORRUPTED)
    owner.add_message("assistant", [crush_database.finish("error", message="529")], CORRUPTED, is_summary_message=1)
    owner.add_session(f"{caller}$$call_1", ("user", crush_database.text_content("look")), parent_session_id=CORRUPTED)
    owner.add_session(
        NEIGHBOUR,
        ("user", crush_database.text_content(PROMPT_TEXT)),
        ("assistant", crush_database.text_content(ANSWER_TEXT)),
    )


def _build_goose(path: Path) -> None:
    owner = GooseStore(path)
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    owner.add_session(CORRUPTED, ("user", goose_database.text_content("Fix it")), description="Tests", total_tokens=9)
    owner.add_message("assistant", [thought, goose_database.call()], CORRUPTED)
    owner.add_message("user", [goose_database.result(goose_database.text_content("a.go")[0])], CORRUPTED)
    owner.add_message("user", goose_database.text_content("Mended."), CORRUPTED, goose_database.VISIBLE_TO_AGENT)
    owner.add_session(
        NEIGHBOUR,
        ("user", goose_database.text_content(PROMPT_TEXT)),
        ("assistant", goose_database.text_content(ANSWER_TEXT)),
    )


def _build_openai_agents(path: Path) -> None:
    call = {"type": "function_call", "call_id": "c1", "name": "shell", "arguments": '{"command": "ls"}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": "a.log"}
    make_openai_agents_database(
        path,
        {
            CORRUPTED: [{"role": "user", "content": "List the logs"}, call, result],
            NEIGHBOUR: [
                {"role": "user", "content": PROMPT_TEXT},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": ANSWER_TEXT}]},
            ],
        },
    )


STORE_KINDS = [
    StoreKind("pingu", _build_pingu),
    StoreKind("pingu first", partial(_build_pingu, newest=False)),
    StoreKind("rubichan", _build_rubichan),
    StoreKind("rubichan first", partial(_build_rubichan, head=False)),
    StoreKind("wuhu", _build_wuhu),
    StoreKind("wuhu first", partial(_build_wuhu, layout="feb11")),
    *(
        StoreKind(f"adk {layout}", partial(_build_adk, layout=layout), f"dak/ana/{NEIGHBOUR}")
        for layout in adk_database.LAYOUTS
    ),
    StoreKind("kiso", _build_kiso),
    StoreKind("kiso first", partial(_build_kiso, head=False)),
    StoreKind("crush", _build_crush),
    StoreKind("goose", _build_goose),
    StoreKind("openai-agents", _build_openai_agents),
]


def drop_constraints(path: Path) -> list[tuple[str, str]]:
    """Rebuild all tables without constraints, so that they take any value, and return the columns that do."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("pragma journal_mode = delete")
        for kind, condition in (("trigger", ""), ("view", ""), ("table", "and sql like 'create virtual%'")):
            names = connection.execute(f"select name from sqlite_master where type = ? {condition}", (kind,)).fetchall()
            for (name,) in names:
                connection.execute(f"drop {kind} {name}")
        tables = connection.execute(
            "select name from sqlite_master where type = 'table' and name not like 'sqlite%'"
        ).fetchall()
        return [(table, column) for (table,) in tables for column in _drop_table_constraints(connection, table)]


def _drop_table_constraints(connection: sqlite3.Connection, table: str) -> list[str]:
    """Return the columns that take any value. A rowid stays an integer, because no file can hold another value."""
    columns = connection.execute(f"pragma table_info({table})").fetchall()
    rowid = [name for _, name, kind, _, _, key in columns if key and kind.lower() == "integer"]
    others = [name for _, name, *_ in columns if name not in rowid]
    definitions = ", ".join([f"{name} integer primary key" for name in rowid] + [f'"{name}"' for name in others])
    connection.execute(f"create table loose ({definitions})")
    names = ", ".join(f'"{name}"' for name in rowid + others)
    row_count = connection.execute(f"insert into loose ({names}) select {names} from {table}").rowcount
    connection.execute(f"drop table {table}")
    connection.execute(f"alter table loose rename to {table}")
    return others if row_count else []


def corrupt_column(path: Path, table: str, column: str, value: Any) -> None:
    """Write a value into a column of the first row."""
    expression = "cast(? as text)" if value is INVALID_UTF8 else "?"
    is_first = f"rowid = (select min(rowid) from {table})"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("pragma synchronous = off")
        connection.execute(f"update {table} set {column} = {expression} where {is_first}", (value,))


def neighbour_texts(store: Store, path: Path, native_id: str = NEIGHBOUR) -> list[str]:
    """Return the texts of the session that was not corrupted."""
    source_key = "(select key from sources where locator = ?)"
    rows = store.rows(
        f"select key from sessions where source_key = {source_key} and native_id = ?", str(path), native_id
    )
    return [entry.text for (key,) in rows for entry in store.chains.entries(key, first=0)]
