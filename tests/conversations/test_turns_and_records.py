"""These tests cover the turns and tool calls that are derived from entries, and the storage of records."""

from __future__ import annotations

import random
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


def text_entry(role: str, text: str, **fields: object) -> NewEntry:
    return NewEntry(role=role, parts=(Text(text),), **fields)  # type: ignore[arg-type]


def test_turns_begin_with_a_prompt_of_a_person(store: Store, session: Session) -> None:
    store.chains.append(
        session.key,
        [
            text_entry("system", "before anybody asked"),
            text_entry("user", "one"),
            text_entry("user", "<reminder>", is_prompt=False),
            NewEntry(role="user", parts=(ToolResult("x", "out"),)),
            text_entry("assistant", "first"),
            NewEntry(role="user", parts=(Attachment("image/png", "shot.png", 512),)),
            text_entry("assistant", "second"),
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
        text_entry("user", "one", created_at="2026-01-01T00:00:01.000000Z"),
        text_entry("assistant", "a", created_at="2026-01-01T00:00:09.000000Z"),
        text_entry("assistant", "b", created_at="2026-01-01T00:00:05.000000Z"),
        text_entry("user", "two", created_at="2026-01-01T00:01:00.000000Z"),
        text_entry("assistant", "c", created_at="2026-01-01T00:02:00.000000Z"),
    ]
    results = []
    for name, size in (("whole", 5), ("pairs", 2), ("singly", 1)):
        session = store.create_session(name)
        for start in range(0, len(entries), size):
            store.chains.append(session.key, entries[start : start + size])
        turns = store.chains.turns(session.key)[1:]
        results.append([(turn.prompt, turn.started_at, turn.ended_at, len(turn.entries)) for turn in turns])
    assert results[0] == results[1] == results[2]
    assert results[0][0][2] == "2026-01-01T00:00:09.000000Z"


def test_a_single_turn_can_be_read(store: Store, session: Session) -> None:
    store.chains.append(
        session.key, [text_entry("user", "one"), text_entry("assistant", "a"), text_entry("user", "two")]
    )
    (turn,) = store.chains.turns(session.key, 2)
    assert (turn.prompt, [entry.text for entry in turn.entries]) == ("two", ["two"])
    with pytest.raises(NotFound, match=r"No such turn: 3\. The last turn is 2\."):
        store.chains.turns(session.key, 3)


def test_parallel_calls_pair_by_id_in_any_order_and_across_appends(store: Store, session: Session) -> None:
    calls = tuple(ToolCall(name, "shell", {"n": name}) for name in ("a", "b", "c"))
    store.chains.append(session.key, [text_entry("user", "go"), NewEntry(role="assistant", parts=calls)])
    store.chains.append(
        session.key,
        [
            NewEntry(role="tool", parts=(ToolResult("c", "C", duration_ms=12.5), ToolResult("a", "A", is_error=True))),
        ],
    )
    calls = {call.call_id: call for call in store.chains.tool_calls(session.key)}
    assert (calls["a"].status, calls["a"].result) == ("error", "A")
    assert (calls["b"].status, calls["b"].result) == ("pending", None)
    assert (calls["c"].status, calls["c"].result, calls["c"].duration_ms) == ("ok", "C", 12.5)
    assert calls["c"].entry == "s#1"
    assert calls["c"].result_entry == "s#2"
    after = store.get_session("s")
    assert (after.tool_calls, after.errors) == (3, 1)


def test_a_result_without_a_call_is_an_orphan(store: Store, session: Session) -> None:
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


def test_every_part_is_read_back_unchanged(store: Store, session: Session) -> None:
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
            text_entry("assistant", "a", tokens=Tokens(1, 2, 3, 4), model="m1"),
            text_entry("assistant", "b", tokens=Tokens(10, 20, 30, 40), model="m2"),
        ],
    )
    after = store.get_session("s")
    assert (after.tokens_input, after.tokens_output, after.tokens_cached, after.tokens_total) == (11, 22, 77, 110)
    assert (after.tokens_cache_read, after.tokens_cache_write) == (33, 44)
    assert after.model == "m2"
    for wrong in (Tokens(2**63), Tokens(1, -(2**63)), Tokens(True), Tokens(1.5)):  # type: ignore[arg-type]
        with pytest.raises(BadValue, match="token count"):
            store.chains.append(session.key, [text_entry("assistant", "c", tokens=wrong)])


def test_entries_of_one_record_share_it(store: Store, session: Session) -> None:
    record = NewRecord(b"{}", place="/x.jsonl", position="17")
    store.chains.append(session.key, [text_entry("user", "a", record=record), text_entry("user", "b", record=record)])
    first, second = store.chains.entries(session.key)[1:]
    assert first.record == second.record
    row = store.row(
        "select name, position from records join places on places.key = place_key where records.key = ?", first.record
    )
    assert row == ("/x.jsonl", "17")


def test_small_appends_end_up_in_blocks(store: Store, session: Session) -> None:
    records = [bytes([65 + n % 26]) * 4096 for n in range(MAX_LOOSE_BYTES // 4096 + 10)]
    for record_data in records:
        store.chains.append(session.key, [text_entry("user", "x", record=NewRecord(record_data))])
    assert store.row("select count(*) from blocks")[0] == 1
    assert store.row("select count(*) from records where data is not null")[0] < 12
    stored = [data for _, data in store.records.iter_session(session.key)][1:]
    assert stored == records


def test_a_bulk_append_is_compressed_immediately(store: Store, session: Session) -> None:
    records = [str(n).encode() * 1000 for n in range(1000)]
    store.chains.append(
        session.key, [text_entry("user", "x", record=NewRecord(record_data)) for record_data in records]
    )
    assert store.row("select count(*) from blocks")[0] == 3
    assert [data for _, data in store.records.iter_session(session.key)][1:] == records
    (size,) = store.row("select sum(length(data)) from blocks")
    assert size < sum(map(len, records)) / 10


def append_varied_records(store: Store, session: Session) -> list[bytes]:
    """Append records that fill several blocks and compress better the longer zstd tries."""
    rng = random.Random(1)
    words = [f"{rng.getrandbits(24):x}" for _ in range(3000)]
    records = [" ".join(rng.choices(words, k=2000)).encode() for _ in range(200)]
    store.chains.append(session.key, [text_entry("user", "x", record=NewRecord(data)) for data in records])
    return records


def test_packed_blocks_are_smaller_and_hold_the_same_records(store: Store, session: Session) -> None:
    records = append_varied_records(store, session)
    count, size = store.row("select count(*), sum(length(data)) from blocks where packed = 0")
    assert count > 1
    steps = 0
    while store.records.pack_next_block():
        steps += 1
    assert steps == count
    packed_count, packed_size = store.row("select count(*), sum(length(data)) from blocks where packed = 1")
    assert packed_count == count
    assert packed_size < size
    with Store.open(store.path) as other:
        assert read_records(other, session) == records
        assert check_store(other) == []


def test_a_damaged_block_is_not_packed(store: Store, session: Session) -> None:
    append_varied_records(store, session)
    key, data = store.row("select key, data from blocks order by key limit 1")
    damaged = data[:-100] + bytes(100)
    store.connection.execute("update blocks set data = ? where key = ?", (damaged, key))
    while store.records.pack_next_block():
        pass
    assert store.row("select data from blocks where key = ?", key) == (damaged,)
    assert check_store(store)


def read_records(store: Store, session: Session) -> list[bytes]:
    return [data for _, data in store.records.iter_session(session.key)][1:]


def test_small_sessions_share_a_block(store: Store) -> None:
    sessions = [store.create_session(f"s{n}") for n in range(5)]
    records = {session: f"body of {session.id} ".encode() * 500 for session in sessions}
    with store.transaction():
        for session, record_data in records.items():
            store.chains.append(session.key, [text_entry("user", "x", record=NewRecord(record_data))])
            assert read_records(store, session) == [record_data]
    assert store.row("select count(*) from blocks") == (1,)
    assert {session: read_records(store, session) for session in sessions} == {s: [b] for s, b in records.items()}
    store.delete_session("s2")
    del records[sessions[2]]
    assert {session: read_records(store, session) for session in records} == {s: [b] for s, b in records.items()}


@pytest.mark.parametrize("size", [1_000, 700_000, 3_000_000])
def test_a_rollback_keeps_the_records_from_before_the_savepoint(store: Store, session: Session, size: int) -> None:
    """This holds for every state of the block that the records would have shared."""
    before, after = b"before " * 100_000, b"after " * 10_000
    with store.transaction():
        store.chains.append(session.key, [text_entry("user", "x", record=NewRecord(before))])
        with suppress(BadValue), store.transaction():
            store.chains.append(session.key, [text_entry("user", "y", record=NewRecord(bytes(size)))])
            raise BadValue("no")
        store.chains.append(session.key, [text_entry("user", "z", record=NewRecord(after))])
    assert read_records(store, session) == [before, after]
    assert check_store(store) == []


def result_entry(call_id: str, output: str) -> NewEntry:
    return NewEntry(role="tool", parts=(ToolResult(call_id, output),), record=NewRecord(output.encode(), "/x.jsonl"))


def test_long_parts_are_stored_behind_their_record(store: Store, session: Session) -> None:
    outputs = [f"{n} " + "".join(map(str, range(n, n + 2000))) for n in range(20)]
    store.chains.append(session.key, [result_entry(str(n), output) for n, output in enumerate(outputs)])
    entries = store.chains.entries(session.key)[1:]
    assert [entry.parts for entry in entries] == [(ToolResult(str(n), output),) for n, output in enumerate(outputs)]
    assert [call.result for call in store.chains.tool_calls(session.key)] == outputs
    assert store.row("select max(length(parts)) from entries")[0] < 20
    assert [data.decode() for _, data in store.records.iter_session(session.key)][1:] == outputs


def test_parts_move_with_their_record(store: Store, session: Session) -> None:
    outputs = ["kept " * 1000, "forked " * 3000]
    for n, output in enumerate(outputs):
        call = NewEntry(role="assistant", parts=(ToolCall(str(n), "run", {}),))
        store.chains.append(session.key, [text_entry("user", "x"), call, result_entry(str(n), output)])
    store.records.pack_loose_records(session.key)
    fork = store.sessions.fork(session, 1, "fork")
    store.delete_session("s")
    assert [entry.parts for entry in store.chains.entries(fork.key)][3:] == [(ToolResult("0", outputs[0]),)]
    assert store.row("select count(*) from places where name = '/x.jsonl'") == (1,)
    store.delete_session("fork")
    assert store.row("select count(*) from places where name = '/x.jsonl'") == (0,)


def test_parts_stored_with_their_entry_are_read(store: Store, session: Session) -> None:
    (key,) = store.chains.append(session.key, [result_entry("1", "long " * 1000)])
    column = store.records.load_parts(*store.row("select parts, record from entries where key = ?", key))
    store.connection.execute("update entries set parts = ? where key = ?", (column, key))
    assert store.chains.entry(session.key, 0).parts == (ToolResult("1", "long " * 1000),)


def test_the_signature_of_thinking_is_stored_behind_the_record_and_its_text_is_searched(
    store: Store, session: Session
) -> None:
    parts = (Thinking("about walruses", "s" * 3000), Text("Yes."), ToolCall("1", "shell", {"command": "ls"}))
    record = NewRecord(b"{}" * 5000)
    (key,) = store.chains.append(session.key, [NewEntry(role="assistant", parts=parts, record=record)])
    (column,) = store.row("select parts from entries where key = ?", key)
    assert b"walruses" in column
    assert len(column) < 100
    assert store.chains.entry(session.key, 0).parts == parts
    assert [hit.entry for hit in store.search.find("walruses")[0]] == [f"{session.id}#0"]
    assert check_store(store) == []
    store.connection.execute("update entries set parts = ? where key = ?", (b"[[0,9999999]]", key))
    assert [problem.what for problem in check_store(store) if problem.where.endswith("#0")]


def test_purging_takes_the_records_out_of_shared_blocks(store: Store, session: Session) -> None:
    records = [b"keep" * 5000, b"drop" * 5000]
    for record_data in records:
        store.chains.append(session.key, [text_entry("user", "x", record=NewRecord(record_data))])
    fork = store.sessions.fork(session, 1, "fork")
    store.delete_session("s")
    assert [data for _, data in store.records.iter_session(fork.key)][1:] == records[:1]
    (count,) = store.row("select count(*) from records where length = 20000")
    assert count == 1


def test_unchanged_session_after_a_refused_batch(store: Store, session: Session) -> None:
    with pytest.raises(BadValue):
        store.chains.append(
            session.key, [text_entry("user", "fine"), NewEntry(role="user", parts=(Opaque("x", float("nan")),))]
        )
    assert len(store.chains.entries(session.key)) == 1
    assert store.search.find("fine") == ([], 0)
