"""These tests read chains of Wuhu: their order, broken links, updates, forks and sub-agents."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wuhu_database import (
    MESSAGE_EPOCH,
    SETTINGS_CHANGE,
    WuhuStore,
    assistant,
    call,
    compaction,
    custom,
    encode_payload,
    result,
    sync_and_find_session,
    sync_wuhu,
    text,
    user,
)

from store.model.entry import Opaque
from store.sources.contract import Problem
from store.sources.kit import sqlite
from store.sources.wuhu.chain import WuhuChain
from store.sources.wuhu.source import Wuhu
from store.store import Store
from store.sync.targets import Report

wuhu = Wuhu()


@pytest.fixture
def owner(tmp_path: Path) -> WuhuStore:
    return WuhuStore(tmp_path / "wuhu.sqlite")


def texts(store: Store, name: str = "s") -> list[str]:
    return [entry.text for entry in store.chains.entries(store.sessions.find(name).key, 0)]


# ── order ─────────────────────────────────────────────────────────────────────────────────────────


def test_entries_of_several_sessions_are_mixed_in_one_table(store: Store, owner: WuhuStore) -> None:
    owner.add_session("a")
    owner.add_session("b")
    for number in range(3):
        owner.append_user_messages(f"a{number}", session_id="a")
        owner.append_user_messages(f"b{number}", session_id="b")
    assert sync_wuhu(store, owner).problems == []
    assert texts(store, "a") == ["a0", "a1", "a2"]
    assert texts(store, "b") == ["b0", "b1", "b2"]


def test_the_links_give_the_order_and_not_the_ids(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    for number, prompt in [(90, "first"), (40, "second"), (70, "third")]:
        owner.append_entry(user(prompt), number=number)
    assert sync_wuhu(store, owner).problems == []
    assert texts(store) == ["first", "second", "third"]


def test_a_long_session_comes_in_bounded_batches(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    count = 1201
    with owner.open() as db:
        db.execute("begin")
        for number in range(2, count + 2):
            db.execute(
                "insert into session_entries values (?, 's', ?, 'message', ?, 'x')",
                (number, number - 1, encode_payload(user(str(number)))),
            )
        db.execute("update sessions set tailEntryID = ?", (count + 1,))
        db.execute("commit")
    with wuhu.open(str(owner.path)) as reader:
        (ref,) = reader.scan()
        sizes = [len(batch.entries) for batch in reader.read(ref)]
    assert max(sizes) <= sqlite.BATCH_ENTRIES
    assert sum(sizes) == count
    assert sync_and_find_session(store, owner).turns == count
    assert texts(store) == [str(number) for number in range(2, count + 2)]


# ── broken chains ─────────────────────────────────────────────────────────────────────────────────

LOOSE = [
    "drop index session_entries_unique_parent",
    "drop index session_entries_unique_header_per_session",
]
BROKEN: dict[str, tuple[list[str], int, str, list[str]]] = {
    "an entry is missing": (
        ["delete from session_entries where id = 3"],
        4,
        "follows entry 3, which is not in the session",
        ["one", "three", "four"],
    ),
    "the header is missing": (
        ["delete from session_entries where id = 1"],
        2,
        "has no header before it",
        ["one", "two", "three", "four"],
    ),
    "two headers": (
        [*LOOSE, "update session_entries set parentEntryID = null where id = 4"],
        4,
        "is a second header",
        ["one", "two", "three", "four"],
    ),
    "two children": (
        [*LOOSE, "update session_entries set parentEntryID = 2 where id = 4"],
        4,
        "follows entry 2, but another entry does too",
        ["one", "two", "three", "four"],
    ),
    "a cycle": (
        [*LOOSE, "update session_entries set parentEntryID = 5 where id = 3"],
        3,
        "cannot be reached from the header",
        ["one", "two", "three", "four"],
    ),
    "an entry that follows itself": (
        [*LOOSE, "update session_entries set parentEntryID = 5 where id = 5"],
        5,
        "cannot be reached from the header",
        ["one", "two", "three", "four"],
    ),
    "another tail": (
        ["update sessions set tailEntryID = 4 where id = 's'"],
        5,
        "is the last, but the session names entry 4",
        ["one", "two", "three", "four"],
    ),
    "another head": (
        ["update sessions set headEntryID = null where id = 's'"],
        1,
        "is the first, but the session names entry None",
        ["one", "two", "three", "four"],
    ),
}


@pytest.mark.parametrize("damage", BROKEN)
def test_a_broken_chain_is_shown_with_what_can_be_read(store: Store, owner: WuhuStore, damage: str) -> None:
    statements, number, reason, readable = BROKEN[damage]
    owner.add_session()
    owner.append_user_messages("one", "two", "three", "four")
    owner.add_session("healthy")
    owner.append_user_messages("hi", session_id="healthy")
    owner.execute(*statements)
    (problem,) = sync_wuhu(store, owner).problems
    assert problem == Problem(
        f"session_entries:{number}",
        f"The chain of session s is broken: entry {number} {reason}. Everything readable is shown.",
    )
    assert texts(store) == readable
    assert texts(store, "healthy") == ["hi"]


def test_a_second_header_is_an_event(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.append_entry({"type": "header", "payload": {"version": 1, "systemPrompt": "Be long.", "metadata": {}}})
    owner.append_user_messages("hi")
    session = sync_and_find_session(store, owner)
    entries = [(entry.kind, entry.text) for entry in store.chains.entries(session.key)]
    assert entries == [("header", "Be brief."), ("event", "Be long."), ("message", "hi")]


def test_a_session_without_a_single_entry(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.execute("delete from session_entries")
    (problem,) = sync_wuhu(store, owner).problems
    assert problem == Problem("sessions:s", "The session s has no entries, not even a header.")
    assert store.sessions.find("s").entries == 0


def test_entries_without_a_session(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.append_user_messages("hi")
    owner.execute("update sessions set id = 'other'")
    problems = sync_wuhu(store, owner).problems
    assert Problem("session_entries:1", "There is no session 's'.") in problems
    assert store.sessions.find("other").entries == 0


def test_a_session_without_an_id(store: Store, owner: WuhuStore) -> None:
    owner.add_session("healthy")
    owner.add_session()
    owner.execute("update sessions set id = null where id = 's'")
    problems = sync_wuhu(store, owner).problems
    assert Problem("sessions:None", "The id of a session must be text.") in problems
    assert [session.native_id for session in store.list_sessions()] == ["healthy"]


LINKS = st.dictionaries(st.integers(1, 30), st.none() | st.integers(1, 30), max_size=30)


@given(LINKS)
def test_no_entry_is_lost_or_shown_twice_whatever_the_links(parents: dict[int, int | None]) -> None:
    chain = WuhuChain(parents, {"id": "s"})
    assert sorted(chain.entry_ids) == sorted(parents)
    assert chain.problems


@given(st.lists(st.integers(1), unique=True, min_size=1))
def test_a_complete_chain_is_followed_from_head_to_tail(numbers: list[int]) -> None:
    parents = dict(zip(numbers, [None, *numbers], strict=False))
    links = {number: parents[number] for number in sorted(parents)}
    chain = WuhuChain(links, {"id": "s", "headEntryID": numbers[0], "tailEntryID": numbers[-1]})
    assert (chain.entry_ids, chain.problems) == (numbers, [])


# ── bad payloads ──────────────────────────────────────────────────────────────────────────────────

BAD = {
    "cut in half": encode_payload(user("two"))[:40],
    "not text": b"\xff\xfe\x00",
    "not an object": b"[1]",
    "without a type": b'{"payload":{}}',
    "nested too deep": b'{"type":"x","payload":' + b"[" * 5000 + b"]" * 5000 + b"}",
    "empty": b"",
}


@pytest.mark.parametrize("damage", BAD)
def test_a_bad_payload_is_one_problem_and_the_chain_goes_on(store: Store, owner: WuhuStore, damage: str) -> None:
    owner.add_session()
    owner.append_user_messages("one")
    number = owner.append_entry(BAD[damage])
    owner.append_user_messages("three")
    (problem,) = sync_wuhu(store, owner).problems
    assert problem.where == f"session_entries:{number}"
    assert "session s" in problem.reason
    assert texts(store) == ["one", "", "three"]
    bad = store.chains.entry(store.sessions.find("s").key, 1)
    assert (bad.kind, bad.parts) == ("unknown", (Opaque("message", BAD[damage].decode("utf-8", "replace")),))


@pytest.mark.parametrize(
    "payload",
    [
        b'{"type":"custom","customType":"x","data":NaN}',
        b'{"type":"custom","customType":"\\ud800","data":"\\ud800"}',
        b'{"type":"message","payload":{"role":"\\ud800","payload":1}}',
        b'{"type":"message","payload":{"role":"user","message":{"content":["x"],"timestamp":1e999,"user":5}}}',
    ],
)
def test_odd_values_are_no_problem(store: Store, owner: WuhuStore, payload: bytes) -> None:
    owner.add_session()
    owner.append_entry(payload)
    owner.append_user_messages("after")
    assert sync_wuhu(store, owner).problems == []
    assert texts(store)[-1] == "after"


def test_a_header_that_cannot_be_read(store: Store, owner: WuhuStore) -> None:
    owner.add_session(customTitle="Still here")
    owner.append_user_messages("hi")
    owner.execute('update session_entries set payload = \'{"type":"hea\' where id = 1')
    (problem,) = sync_wuhu(store, owner).problems
    assert problem.where == "session_entries:1"
    assert store.sessions.find("s").title == "Still here"
    assert texts(store) == ["", "hi"]


# ── updates ───────────────────────────────────────────────────────────────────────────────────────


def counts(report: Report) -> tuple[int, int, int]:
    return report.new, report.updated, report.unchanged


def test_a_second_sync_writes_nothing(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.append_entry(user("hi"))
    owner.append_entry(assistant(text("ok"), stopReason="length"))
    assert counts(sync_wuhu(store, owner)) == (1, 0, 0)
    before = store.connection.total_changes
    assert counts(sync_wuhu(store, owner)) == (0, 0, 1)
    assert store.connection.total_changes == before


def test_changing_state_is_not_content(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.append_user_messages("hi")
    sync_wuhu(store, owner)
    owner.execute("update sessions set executionStatus = 'running', updatedAt = 'x', pendingModel = 'y'")
    assert counts(sync_wuhu(store, owner)) == (0, 0, 1)


@pytest.mark.parametrize(
    ("statement", "column", "value"),
    [
        ("update sessions set customTitle = 'Renamed'", "agent_title", "Renamed"),
        ("update sessions set isArchived = 1", "archived", 1),
        (
            "insert into mounts (id, sessionID, name, path, createdAt) values ('m', 's', 'app', '/a', 'x')",
            "environment_name",
            "app",
        ),
    ],
)
def test_changed_fields_of_a_session_are_read(
    store: Store, owner: WuhuStore, statement: str, column: str, value: object
) -> None:
    owner.add_session()
    owner.append_user_messages("hi")
    sync_wuhu(store, owner)
    owner.execute(statement)
    assert counts(sync_wuhu(store, owner)) == (0, 1, 0)
    assert getattr(store.sessions.find("s"), column) == value
    assert texts(store) == ["hi"]


def test_appended_entries_come_in(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.add_session("quiet")
    owner.append_entry(user("one"))
    owner.append_entry(assistant(call()))
    sync_wuhu(store, owner)
    keys = [entry.key for entry in store.chains.entries(store.sessions.find("s").key)]
    owner.append_entry(result(text("41 %")))
    first_kept = owner.append_entry(user("two"))
    owner.append_entry(compaction("So far.", first_kept))
    assert counts(sync_wuhu(store, owner)) == (0, 1, 1)
    session = store.sessions.find("s")
    read = store.chains.entries(session.key)
    assert [entry.key for entry in read][:3] == keys
    assert [entry.text for entry in read] == ["Be brief.", "one", "", "", "two", "So far."]
    assert [call.status for call in store.chains.tool_calls(session.key)] == ["ok"]
    summary = store.summaries.current(session)
    assert summary is not None
    assert (summary.text, summary.up_to_turn) == ("So far.", 1)
    assert store.sessions.children(session.id) == []


@pytest.mark.parametrize(
    ("statements", "now"),
    [
        (["update session_entries set payload = replace(payload, 'two', 'TWO') where id = 3"], ["one", "TWO", "three"]),
        (["delete from session_entries where id = 4", "update sessions set tailEntryID = 3"], ["one", "two"]),
        (
            [
                "delete from session_entries where id = 3",
                "update session_entries set parentEntryID = 2 where id = 4",
            ],
            ["one", "three"],
        ),
    ],
    ids=["rewritten", "last deleted", "middle deleted"],
)
def test_what_was_rewritten_or_deleted_stays_reachable(
    store: Store, owner: WuhuStore, statements: list[str], now: list[str]
) -> None:
    owner.add_session()
    owner.append_user_messages("one", "two", "three")
    sync_wuhu(store, owner)
    owner.execute(*statements)
    report = sync_wuhu(store, owner)
    assert (counts(report), report.problems) == ((0, 1, 0), [])
    (session,), _ = store.sessions.matching("")
    assert texts(store, session.id) == now
    (before,) = store.sessions.children(session.id)
    assert before.relation == "superseded"
    assert texts(store, before.id) == ["one", "two", "three"]


def test_a_session_that_was_deleted_is_gone_and_still_here(store: Store, owner: WuhuStore) -> None:
    owner.add_session()
    owner.append_user_messages("hi")
    owner.add_session("other")
    sync_wuhu(store, owner)
    owner.execute("delete from session_entries where sessionID = 's'", "delete from sessions where id = 's'")
    assert sync_wuhu(store, owner).problems == []
    assert [(store.sessions.find(name).gone, texts(store, name)) for name in ("s", "other")] == [(1, ["hi"]), (0, [])]


# ── children ──────────────────────────────────────────────────────────────────────────────────────


def test_a_child_without_copied_messages_is_a_sub_agent(store: Store, owner: WuhuStore) -> None:
    owner.add_session("parent")
    owner.add_session("child", parentSessionID="parent")
    owner.append_entry(user("a task"), "child")
    owner.append_entry(user("a task", timestamp=MESSAGE_EPOCH + 1), "parent")
    child = sync_and_find_session(store, owner, "child")
    assert child.parent_id == store.sessions.find("parent").id
    assert (child.relation, child.forked_at, child.turns) == ("delegate", None, 1)


def test_a_child_with_copied_messages_is_a_fork_and_counts_them_once(store: Store, tmp_path: Path) -> None:
    owner = WuhuStore(tmp_path / "db", "v5_archive")
    owner.add_session("parent", sessionType="channel")
    owner.add_session("child", parentSessionID="parent")
    payloads = [
        user("narwhal"),
        assistant(call(), stopReason="length"),
        result(text("a")),
        assistant(text("ok"), call("f")),
    ]
    for payload in payloads:
        owner.append_entry(payload, "parent")
        owner.append_entry(payload, "child")
        owner.append_entry(SETTINGS_CHANGE, "parent")
    owner.append_entry(result(text("forked"), call_id="f"), "child")
    owner.append_entry(custom("wuhu_fork_point_v1", {"parentSessionID": "parent"}), "child")
    owner.append_entry(user("a task"), "child")
    child, parent = sync_and_find_session(store, owner, "child"), store.sessions.find("parent")
    assert (child.relation, child.parent_id, child.turns, child.tool_calls) == ("fork", parent.id, 1, 0)
    assert child.forked_at is not None
    assert store.chains.entry(parent.key, child.forked_at).text == "ok"
    inherited = [entry.inherited for entry in store.chains.entries(child.key, 0)]
    assert inherited == [True] * 5 + [False] * 3
    assert store.search.find("narwhal")[1] == 1


@pytest.mark.parametrize("parent", ["s", "gone"])
def test_a_parent_that_cannot_be_read(store: Store, owner: WuhuStore, parent: str) -> None:
    owner.add_session(parentSessionID=parent)
    owner.append_entry(user("hi"))
    session = sync_and_find_session(store, owner)
    assert session.turns == 1
    assert (session.parent_id is None) == (parent == "s")
