"""Turns and tool calls as they are derived, and records as they are kept."""

from __future__ import annotations

from contextlib import suppress

import pytest

from store.conversations.records import MAX_LOOSE_BYTES
from store.doctor import check_store
from store.errors import BadValue, NotFound
from store.model.entry import Attachment, NewEntry, NewRecord, Opaque, Text, Thinking, Tokens, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store


@pytest.fixture
def session(store: Store) -> Session:
    return store.create_session("s")


def said(role: str, text: str, **more: object) -> NewEntry:
    return NewEntry(role=role, parts=(Text(text),), **more)  # type: ignore[arg-type]


def test_turns_begin_with_what_a_person_said(store: Store, session: Session) -> None:
    store.chains.append(
        session.key,
        [
            said("system", "before anybody asked"),
            said("user", "one"),
            said("user", "<reminder>", is_prompt=False),
            NewEntry(role="user", parts=(ToolResult("x", "out"),)),
            said("assistant", "first"),
            NewEntry(role="user", parts=(Attachment("image/png", "shot.png", 512),)),
            said("assistant", "second"),
        ],
    )
    turns = store.chains.turns(session.key)
    assert [(turn.n, [entry.seq for entry in turn.entries]) for turn in turns] == [
        (0, [-1, 0]),
        (1, [1, 2, 3, 4]),
        (2, [5, 6]),
    ]
    assert store.get_session("s").turns == 2


def test_turns_are_the_same_however_the_entries_arrive(store: Store) -> None:
    entries = [
        said("user", "one", created_at="2026-01-01T00:00:01.000000Z"),
        said("assistant", "a", created_at="2026-01-01T00:00:09.000000Z"),
        said("assistant", "b", created_at="2026-01-01T00:00:05.000000Z"),
        said("user", "two", created_at="2026-01-01T00:01:00.000000Z"),
        said("assistant", "c", created_at="2026-01-01T00:02:00.000000Z"),
    ]
    shown = []
    for name, size in (("whole", 5), ("pairs", 2), ("singly", 1)):
        session = store.create_session(name)
        for start in range(0, len(entries), size):
            store.chains.append(session.key, entries[start : start + size])
        turns = store.chains.turns(session.key)[1:]
        shown.append([(turn.prompt, turn.started_at, turn.ended_at, len(turn.entries)) for turn in turns])
    assert shown[0] == shown[1] == shown[2]
    assert shown[0][0][2] == "2026-01-01T00:00:09.000000Z"


def test_one_turn_alone(store: Store, session: Session) -> None:
    store.chains.append(session.key, [said("user", "one"), said("assistant", "a"), said("user", "two")])
    (turn,) = store.chains.turns(session.key, 2)
    assert (turn.prompt, [entry.text for entry in turn.entries]) == ("two", ["two"])
    with pytest.raises(NotFound, match="no turn 3"):
        store.chains.turns(session.key, 3)


def test_parallel_calls_pair_by_id_in_any_order_and_across_appends(store: Store, session: Session) -> None:
    calls = tuple(ToolCall(name, "shell", {"n": name}) for name in ("a", "b", "c"))
    store.chains.append(session.key, [said("user", "go"), NewEntry(role="assistant", parts=calls)])
    store.chains.append(
        session.key,
        [
            NewEntry(role="tool", parts=(ToolResult("c", "C", duration_ms=12.5), ToolResult("a", "A", is_error=True))),
        ],
    )
    found = {call.call_id: call for call in store.chains.tool_calls(session.key)}
    assert (found["a"].status, found["a"].result) == ("error", "A")
    assert (found["b"].status, found["b"].result) == ("pending", None)
    assert (found["c"].status, found["c"].result, found["c"].duration_ms) == ("ok", "C", 12.5)
    assert found["c"].entry == "s#1"
    assert found["c"].result_entry == "s#2"
    after = store.get_session("s")
    assert (after.tool_calls, after.errors) == (3, 1)


def test_a_result_nobody_asked_for_is_an_orphan(store: Store, session: Session) -> None:
    store.chains.append(session.key, [NewEntry(role="tool", parts=(ToolResult("?", "out", is_error=True, name="sh"),))])
    (call,) = store.chains.tool_calls(session.key)
    assert (call.status, call.name, call.entry, call.result) == ("orphan", "sh", None, "out")
    assert (store.get_session("s").tool_calls, store.get_session("s").errors) == (0, 0)


def test_a_call_id_used_twice_pairs_each_with_its_own_result(store: Store, session: Session) -> None:
    for n in range(2):
        store.chains.append(
            session.key,
            [
                NewEntry(role="assistant", parts=(ToolCall("same", "shell", {"n": n}),)),
                NewEntry(role="tool", parts=(ToolResult("same", f"out {n}"),)),
            ],
        )
    assert [(call.arguments, call.result) for call in store.chains.tool_calls(session.key)] == [
        ({"n": 0}, "out 0"),
        ({"n": 1}, "out 1"),
    ]


def test_every_part_comes_back_as_it_went_in(store: Store, session: Session) -> None:
    parts = (
        Text("said"),
        Thinking("thought", "signature"),
        ToolCall("1", "f", {"deep": [1, {"x": None}]}),
        ToolResult("1", [{"type": "text", "text": "out"}], is_error=True, name="f", duration_ms=1.5),
        Attachment("image/png", "a.png", 100, "blob://x"),
        Opaque("future", {"a": 1}),
    )
    store.chains.append(session.key, [NewEntry(role="assistant", parts=parts)])
    assert store.chains.entry(session.key, 0).parts == parts


def test_tokens_add_up_and_the_model_is_the_last_that_answered(store: Store, session: Session) -> None:
    store.chains.append(
        session.key,
        [
            said("assistant", "a", tokens=Tokens(1, 2, 3), model="m1"),
            said("assistant", "b", tokens=Tokens(10, 20, 30), model="m2"),
        ],
    )
    after = store.get_session("s")
    assert (after.tokens_input, after.tokens_output, after.tokens_cached, after.tokens_total) == (11, 22, 33, 66)
    assert after.model == "m2"
    with pytest.raises(BadValue, match="token count"):
        store.chains.append(session.key, [said("assistant", "c", tokens=Tokens(2**63))])


def test_entries_of_one_record_share_it(store: Store, session: Session) -> None:
    record = NewRecord(b"{}", place="/x.jsonl", position="17")
    store.chains.append(session.key, [said("user", "a", record=record), said("user", "b", record=record)])
    first, second = store.chains.entries(session.key)[1:]
    assert first.record == second.record
    row = store.row(
        "select name, position from records join places on places.key = place_key where records.key = ?", first.record
    )
    assert row == ("/x.jsonl", "17")


def test_small_appends_end_up_in_blocks(store: Store, session: Session) -> None:
    bodies = [bytes([65 + n % 26]) * 4096 for n in range(MAX_LOOSE_BYTES // 4096 + 10)]
    for body in bodies:
        store.chains.append(session.key, [said("user", "x", record=NewRecord(body))])
    assert store.row("select count(*) from blocks")[0] == 1
    assert store.row("select count(*) from records where data is not null")[0] < 12
    kept = [data for _, data in store.records.iter_session(session.key)][1:]
    assert kept == bodies


def test_a_bulk_append_is_packed_at_once(store: Store, session: Session) -> None:
    bodies = [str(n).encode() * 1000 for n in range(1000)]
    store.chains.append(session.key, [said("user", "x", record=NewRecord(body)) for body in bodies])
    assert store.row("select count(*) from blocks")[0] == 3
    assert [data for _, data in store.records.iter_session(session.key)][1:] == bodies
    (size,) = store.row("select sum(length(data)) from blocks")
    assert size < sum(map(len, bodies)) / 10


def kept_of(store: Store, session: Session) -> list[bytes]:
    return [data for _, data in store.records.iter_session(session.key)][1:]


def test_small_sessions_share_a_block(store: Store) -> None:
    sessions = [store.create_session(f"s{n}") for n in range(5)]
    bodies = {session: f"body of {session.id} ".encode() * 500 for session in sessions}
    with store.transaction():
        for session, body in bodies.items():
            store.chains.append(session.key, [said("user", "x", record=NewRecord(body))])
            assert kept_of(store, session) == [body]
    assert store.row("select count(*) from blocks") == (1,)
    assert {session: kept_of(store, session) for session in sessions} == {s: [b] for s, b in bodies.items()}
    store.delete_session("s2")
    del bodies[sessions[2]]
    assert {session: kept_of(store, session) for session in bodies} == {s: [b] for s, b in bodies.items()}


@pytest.mark.parametrize("size", [1_000, 700_000, 3_000_000])
def test_what_is_taken_back_leaves_what_was_laid_down_before(store: Store, session: Session, size: int) -> None:
    """However far the block that both would have shared had come."""
    before, after = b"before " * 100_000, b"after " * 10_000
    with store.transaction():
        store.chains.append(session.key, [said("user", "x", record=NewRecord(before))])
        with suppress(BadValue), store.transaction():
            store.chains.append(session.key, [said("user", "y", record=NewRecord(bytes(size)))])
            raise BadValue("no")
        store.chains.append(session.key, [said("user", "z", record=NewRecord(after))])
    assert kept_of(store, session) == [before, after]
    assert check_store(store) == []


def printed(call_id: str, output: str) -> NewEntry:
    return NewEntry(role="tool", parts=(ToolResult(call_id, output),), record=NewRecord(output.encode(), "/x.jsonl"))


def test_long_parts_take_no_room_beside_their_record(store: Store, session: Session) -> None:
    outputs = [f"{n} " + "".join(map(str, range(n, n + 2000))) for n in range(20)]
    store.chains.append(session.key, [printed(str(n), output) for n, output in enumerate(outputs)])
    read = store.chains.entries(session.key)[1:]
    assert [entry.parts for entry in read] == [(ToolResult(str(n), output),) for n, output in enumerate(outputs)]
    assert [call.result for call in store.chains.tool_calls(session.key)] == outputs
    assert store.row("select max(length(parts)) from entries")[0] < 20
    assert [data.decode() for _, data in store.records.iter_session(session.key)][1:] == outputs


def test_parts_move_with_their_record(store: Store, session: Session) -> None:
    outputs = ["kept " * 1000, "forked " * 3000]
    for n, output in enumerate(outputs):
        call = NewEntry(role="assistant", parts=(ToolCall(str(n), "run", {}),))
        store.chains.append(session.key, [said("user", "x"), call, printed(str(n), output)])
    store.records.pack_loose_records(session.key)
    fork = store.sessions.fork(session, 1, "fork")
    store.delete_session("s")
    assert [entry.parts for entry in store.chains.entries(fork.key)][3:] == [(ToolResult("0", outputs[0]),)]
    assert store.row("select count(*) from places where name = '/x.jsonl'") == (1,)
    store.delete_session("fork")
    assert store.row("select count(*) from places where name = '/x.jsonl'") == (0,)


def test_parts_that_stand_with_their_entry_are_read_as_before(store: Store, session: Session) -> None:
    (key,) = store.chains.append(session.key, [printed("1", "long " * 1000)])
    whole = store.records.load_parts(*store.row("select parts, record from entries where key = ?", key))
    store.connection.execute("update entries set parts = ? where key = ?", (whole, key))
    assert store.chains.entry(session.key, 0).parts == (ToolResult("1", "long " * 1000),)


def test_purging_takes_the_records_out_of_shared_blocks(store: Store, session: Session) -> None:
    bodies = [b"keep" * 5000, b"drop" * 5000]
    for body in bodies:
        store.chains.append(session.key, [said("user", "x", record=NewRecord(body))])
    fork = store.sessions.fork(session, 1, "fork")
    store.delete_session("s")
    assert [data for _, data in store.records.iter_session(fork.key)][1:] == bodies[:1]
    (left,) = store.row("select count(*) from records where length = 20000")
    assert left == 1


def test_unchanged_session_after_a_refused_batch(store: Store, session: Session) -> None:
    with pytest.raises(BadValue):
        store.chains.append(
            session.key, [said("user", "fine"), NewEntry(role="user", parts=(Opaque("x", float("nan")),))]
        )
    assert len(store.chains.entries(session.key)) == 1
    assert store.search.find("fine") == ([], 0)
