"""These tests damage a store with a plain SQLite connection: every kind of damage is named."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from command_line import CommandLine

from store.doctor import UNPAIRED_ADVICE, Finding, check_store
from store.errors import Damaged
from store.model.entry import Attachment, NewEntry, NewRecord, Text, Thinking, Tokens, ToolCall, ToolResult
from store.store import Store

PROMPT = NewEntry(role="user", parts=(Text("how full is the disk?"),), author="anna")


def call_entry(call_id: str, **fields: str) -> NewEntry:
    return NewEntry(role="assistant", parts=(ToolCall(call_id, "bash", {"command": "df"}),), **fields)  # type: ignore[arg-type]


def result_entry(call_id: str, *, is_error: bool = False) -> NewEntry:
    return NewEntry(role="tool", parts=(ToolResult(call_id, "41%", is_error),))


def conversation(name: str) -> list[NewEntry]:
    """Return two turns with everything that is counted. Each entry has its own record."""
    entries = [
        NewEntry(role="user", parts=(Text("how full is the disk?"), Attachment("image/png", "df.png", 10))),
        NewEntry(role="assistant", parts=(Thinking("I should look"), ToolCall("c1", "bash", {"command": "df"}))),
        NewEntry(role="tool", parts=(ToolResult("c1", "Filesystem  Use%\n/dev/sda1   41%", duration_ms=12.5),)),
        NewEntry(role="assistant", parts=(Thinking(""),), model="m"),
        NewEntry(role="assistant", parts=(Text("41% full"),), model="m", tokens=Tokens(100, 20, 3, 2)),
        NewEntry(kind="event", text="model changed"),
        NewEntry(role="user", parts=(Text("and the other one?"),)),
        NewEntry(role="assistant", parts=(ToolCall("c2", "bash", {"command": "df /other"}),)),
        NewEntry(role="tool", parts=(ToolResult("c2", "no such device", True),)),
        NewEntry(role="assistant", parts=(Text("ディスクはありません"),), tokens=Tokens(50, 10, 0)),
    ]
    for n, entry in enumerate(entries):
        entry.record = NewRecord(f'{{"session":"{name}","n":{n},"padding":"{"x" * 200}"}}'.encode())
    return entries


@pytest.fixture
def healthy(store: Store) -> Store:
    """Fill the store with loose and compressed records, a fork with new entries, a purge, a pending call and edits."""
    for name in ("one", "two", "gone"):
        store.chains.append(store.create_session(name).key, conversation(name))
    packed = [entry for n in range(10) for entry in conversation(f"packed {n}")]
    for n, entry in enumerate(packed):
        entry.parts = tuple(
            ToolCall(f"c{n}", part.name, part.arguments) if isinstance(part, ToolCall) else part for part in entry.parts
        )
        if isinstance(entry.parts and entry.parts[0], ToolResult):
            entry.parts = (ToolResult(f"c{n - 1}", "fine"),)
    store.chains.append(store.create_session("packed").key, packed)
    fork = store.sessions.fork(store.get_session("one"), 1, "fork")
    store.chains.append(fork.key, [PROMPT, call_entry("c9"), result_entry("c9", is_error=True)])
    store.chains.append(
        store.create_session("running").key,
        [PROMPT, call_entry("c1", message_key="m"), call_entry("c2", message_key="m")],
    )
    store.create_session("empty")
    store.sessions.set_title(store.get_session("two"), "Disks")
    store.delete_session("gone")
    return store


@contextmanager
def damage(store: Store) -> Iterator[sqlite3.Connection]:
    """Give a plain connection without foreign keys and triggers."""
    with closing(sqlite3.connect(store.path, isolation_level=None)) as connection:
        triggers = connection.execute("select name, sql from sqlite_master where type = 'trigger'").fetchall()
        for name, _ in triggers:
            connection.execute(f"drop trigger {name}")
        yield connection
        for _, sql in triggers:
            connection.execute(sql)


def find_entry_key(store: Store, entry: str) -> int:
    session_id, _, seq = entry.rpartition("#")
    return store.chains.entry(store.get_session(session_id).key, int(seq)).key


def format_findings(findings: list[Finding]) -> set[str]:
    return {f"{finding.where}: {finding.what}" for finding in findings}


def test_a_healthy_store_has_no_findings(healthy: Store) -> None:
    assert check_store(healthy) == []
    for session in healthy.list_sessions():
        assert check_store(healthy, session) == []


def test_an_empty_store_has_no_findings(store: Store) -> None:
    assert check_store(store) == []


COMMANDS = (("list",), ("show", "two"), ("search", "disk"), ("log",), ("tools",), ("doctor",), ("doctor", "--reindex"))


@pytest.mark.parametrize(
    "damaging",
    [
        "update sessions set first_prompt = cast(x'ff41' as text)",
        "update entries set text = cast(x'ff41' as text)",
        "update tool_calls set name = cast(x'ff41' as text)",
        "update edits set after = cast(x'ff41' as text)",
        "update sqlite_master set sql = replace(sql, 'provider', cast(x'ff76' as text)) where name = 'sessions'",
        "update sqlite_master set sql = replace(sql, 'provider', 'provided') where name = 'sessions'",
        "update blocks set data = x'00'",
    ],
)
def test_damage_is_named_in_one_sentence_and_doctor_does_not_recommend_itself(healthy: Store, damaging: str) -> None:
    healthy.checkpoint()
    with damage(healthy) as connection:
        connection.execute("pragma writable_schema = on")
        connection.execute(damaging)
    healthy.close()
    cli = CommandLine(healthy.path)
    results = {arguments: cli(*arguments) for arguments in COMMANDS}
    assert 3 in {result.status for result in results.values()}
    for arguments, result in results.items():
        assert "SQLite failed" not in result.err
        assert result.status in ((0, 1, 3) if arguments[0] == "doctor" else (0, 3)), (arguments, result.err)
        if arguments[0] == "doctor":
            assert "Run `backscroll doctor`" not in result.out + result.err


# ── the file ──────────────────────────────────────────────────────────────────────────────────────


def test_a_page_that_was_overwritten_is_named(healthy: Store) -> None:
    healthy.checkpoint()
    (root,) = healthy.row("select rootpage from sqlite_master where name = 'entries_one_child'")
    (page_size,) = healthy.row("pragma page_size")
    healthy.close()
    with healthy.path.open("r+b") as file:
        file.seek((root - 1) * page_size)
        file.write(b"\xff" * 200)
    with Store.open(healthy.path) as again:
        assert format_findings(check_store(again)) == {
            "store: The check of its integrity failed: SQLite says: database disk image is malformed."
        }


def test_an_index_that_disagrees_with_its_table_is_named(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("pragma writable_schema = on")
        (sql,) = connection.execute("select sql from sqlite_master where name = 'notes_session'").fetchone()
        connection.execute(
            "update sqlite_master set sql = replace(sql, '(session)', '(id)') where name = 'notes_session'"
        )
    with Store.open(healthy.path) as again:
        again.notes.add_note(again.get_session("two"), "written past the index")
    with damage(healthy) as connection:
        connection.execute("pragma writable_schema = on")
        connection.execute("update sqlite_master set sql = ? where name = 'notes_session'", (sql,))
    healthy.close()
    with Store.open(healthy.path) as again:
        assert any(finding.what.startswith("SQLite says: ") for finding in check_store(again))


def test_a_row_that_points_at_nothing_is_named(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("insert into tags (session, name) values (4711, 'lost')")
    assert format_findings(check_store(healthy)) == {"tags: A row refers to a missing row of sessions."}


def test_a_missing_trigger_or_index_is_named(healthy: Store) -> None:
    with closing(sqlite3.connect(healthy.path)) as connection:
        connection.execute("drop trigger entries_kept")
        connection.execute("drop index entries_one_child")
    assert format_findings(check_store(healthy)) == {
        "store: The trigger entries_kept is missing.",
        "store: The index entries_one_child is missing.",
    }


def test_a_changed_trigger_is_named(healthy: Store) -> None:
    with closing(sqlite3.connect(healthy.path)) as connection:
        connection.execute("drop trigger entries_kept")
        connection.execute("create trigger entries_kept before delete on entries begin select 1; end")
    assert format_findings(check_store(healthy)) == {"store: The trigger entries_kept was changed."}


def test_a_file_that_others_can_read_is_named(healthy: Store) -> None:
    healthy.path.chmod(0o644)
    wal = Path(f"{healthy.path}-wal")
    wal.chmod(0o640)
    assert format_findings(check_store(healthy)) == {
        f"{path}: Other users can access it. Run `chmod 600` on it." for path in (healthy.path, wal)
    }


# ── chains ────────────────────────────────────────────────────────────────────────────────────────


def test_an_entry_missing_from_the_middle_is_named(healthy: Store) -> None:
    key = find_entry_key(healthy, "two#4")
    with damage(healthy) as connection:
        connection.execute("delete from entries where key = ?", (key,))
    findings = format_findings(check_store(healthy, healthy.get_session("two")))
    assert "two: Its tail is not the last entry of its chain." in findings
    assert {f"two#{n}: It is not connected to the chain of its session." for n in range(5, 10)} <= findings


def test_a_gap_in_the_numbers_is_named(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("update entries set seq = 99 where key = ?", (find_entry_key(healthy, "running#2"),))
        connection.execute("update turns set last_seq = 99 where session = ?", (healthy.get_session("running").key,))
    assert "running#99: It should be number 2 of the chain." in format_findings(check_store(healthy))


def test_a_wrong_tail_is_named(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("update sessions set tail = ? where id = 'two'", (find_entry_key(healthy, "two#3"),))
    assert format_findings(check_store(healthy)) == {"two: Its tail is not the last entry of its chain."}


def test_a_missing_head_is_named(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("update sessions set head = null where id = 'two'")
    assert format_findings(check_store(healthy)) == {"two: Its head is not one of its entries."}


def test_a_session_without_entries_is_named(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("delete from entries where session = ?", (healthy.get_session("empty").key,))
    assert "empty: Its head is not one of its entries." in format_findings(check_store(healthy))


def test_a_session_without_a_header_is_named(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("pragma ignore_check_constraints = on")
        connection.execute("update entries set kind = 'event' where key = ?", (find_entry_key(healthy, "empty#-1"),))
    assert "empty#-1: A session must begin with a header and can have only one." in format_findings(
        check_store(healthy)
    )


def test_a_cycle_of_entries_is_named(healthy: Store) -> None:
    first, last = find_entry_key(healthy, "running#0"), find_entry_key(healthy, "running#2")
    with damage(healthy) as connection:
        connection.execute("update entries set parent = ? where key = ?", (last, first))
    findings = format_findings(check_store(healthy, healthy.get_session("running")))
    assert {f"running#{n}: It is not connected to the chain of its session." for n in range(3)} <= findings


# ── derived rows ───────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        ("turns", 7, "It lists 7 turns, but has 2."),
        ("entries", 9, "It lists 9 entries, but has 10."),
        ("tool_calls", 0, "It lists 0 tool calls, but has 2."),
        ("errors", 2, "It lists 2 errors, but has 1."),
        ("tokens_input", 149, "It lists 149 input tokens, but its entries have 150."),
        ("tokens_output", 0, "It lists 0 output tokens, but its entries have 30."),
        ("tokens_cached", 4, "It lists 4 cached tokens, but its entries have 5."),
        ("tokens_cache_write", 1, "It lists 1 tokens written to a cache, but its entries have 2."),
    ],
)
def test_a_count_that_the_rows_contradict_is_named(healthy: Store, column: str, value: int, what: str) -> None:
    with damage(healthy) as connection:
        connection.execute(f"update sessions set {column} = ? where id = 'two'", (value,))
    assert format_findings(check_store(healthy)) == {f"two: {what}"}


def test_a_larger_token_count_of_the_agent_is_accepted(healthy: Store) -> None:
    healthy.update_session("two", token_count=1_000_000, tokens_input=999_999)
    assert check_store(healthy) == []


def test_turns_that_do_not_match_their_entries_are_named(healthy: Store) -> None:
    two, running, fork = (healthy.get_session(name).key for name in ("two", "running", "fork"))
    with damage(healthy) as connection:
        connection.execute("update turns set last_seq = 8 where session = ? and n = 2", (two,))
        connection.execute("delete from turns where session = ?", (running,))
        connection.execute(
            "insert into turns select session, 3, entry, 7, 7, '', '' from turns where session = ? and n = 1", (fork,)
        )
    assert {finding for finding in format_findings(check_store(healthy)) if "Turn" in finding} == {
        "two: Turn 2 does not match its entries.",
        "running: Turn 1 is not listed.",
        "fork: Turn 3 has no entries.",
    }


def test_a_call_without_a_result_is_named_when_the_session_continues(store: Store) -> None:
    for name in ("waits", "next turn", "next answer"):
        store.chains.append(
            store.create_session(name).key,
            [PROMPT, call_entry("c1", message_key="m1"), call_entry("c2", message_key="m1"), result_entry("c1")],
        )
    store.chains.append(store.get_session("next turn").key, [PROMPT])
    store.chains.append(store.get_session("next answer").key, [NewEntry(role="assistant", parts=(Text("done"),))])
    what = f"The call of 'bash' has no result, but the session continues. {UNPAIRED_ADVICE}"
    assert format_findings(check_store(store)) == {f"next turn#2: {what}", f"next answer#2: {what}"}


def test_pending_calls_of_one_response_are_not_named(store: Store) -> None:
    """Two output items share one record without a message id."""
    calls = [{"type": "function_call", "call_id": f"c{n}", "name": "bash", "arguments": "{}"} for n in range(2)]
    store.create_session("s")
    store.save_turn("s", "go", {"output": calls})
    assert check_store(store) == []


def test_a_result_without_a_call_is_named(store: Store) -> None:
    store.chains.append(store.create_session("s").key, [PROMPT, result_entry("c1")])
    assert format_findings(check_store(store)) == {f"s#1: It contains a tool result without a call. {UNPAIRED_ADVICE}"}


@pytest.mark.parametrize("change", ["status = 'pending'", "entry = 99999", "result_entry = 99999", "entry = null"])
def test_a_listed_call_that_contradicts_its_entries_is_named(healthy: Store, change: str) -> None:
    with damage(healthy) as connection:
        connection.execute(
            f"update tool_calls set {change} where session = ? and call_id = 'c1'", (healthy.get_session("two").key,)
        )
    assert "two: The call 'c1' of 'bash' does not match its entries." in format_findings(check_store(healthy))


def test_uncommitted_writes_of_a_transaction_are_checked(healthy: Store) -> None:
    with healthy.transaction():
        healthy.append_message("two", "user", "and a third disk?")
        assert check_store(healthy) == []


def test_parts_that_are_not_json_are_named(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("update entries set parts = x'5b7b' where key = ?", (find_entry_key(healthy, "two#2"),))
    assert format_findings(check_store(healthy)) == {"two#2: Its parts cannot be read."}


def test_truncated_parts_behind_a_record_are_named(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute(
            "update entries set parts = x'5b302c3939395d' where key = ?", (find_entry_key(healthy, "two#2"),)
        )
    assert format_findings(check_store(healthy)) == {"two#2: Its parts cannot be read."}


# ── records ───────────────────────────────────────────────────────────────────────────────────────


def test_a_loose_record_that_was_changed_is_named(healthy: Store) -> None:
    record = healthy.chains.entry(healthy.get_session("two").key, 3).record
    with damage(healthy) as connection:
        connection.execute("update records set data = cast(data || ' ' as blob) where key = ?", (record,))
    assert format_findings(check_store(healthy)) == {f"record {record}: Its data was changed."}
    assert format_findings(check_store(healthy, healthy.get_session("two"))) == {
        f"record {record}: Its data was changed."
    }
    assert check_store(healthy, healthy.get_session("packed")) == []


def test_a_record_shared_with_a_fork_is_examined_for_the_fork_too(healthy: Store) -> None:
    record = healthy.chains.entry(healthy.get_session("one").key, 0).record
    with damage(healthy) as connection:
        connection.execute("update records set digest = x'00' where key = ?", (record,))
    assert format_findings(check_store(healthy, healthy.get_session("fork"))) == {
        f"record {record}: Its data was changed."
    }


def test_a_record_with_a_wrong_offset_in_its_block_is_named(healthy: Store) -> None:
    record = healthy.chains.entry(healthy.get_session("packed").key, 3).record
    with damage(healthy) as connection:
        connection.execute("update records set start = start + 1 where key = ?", (record,))
    assert format_findings(check_store(healthy)) == {f"record {record}: Its data was changed."}


@pytest.mark.parametrize("change", ["update blocks set data = x'0011'", "delete from blocks"])
def test_a_block_that_cannot_be_decompressed_is_named(healthy: Store, change: str) -> None:
    (block,) = healthy.row("select max(key) from blocks")
    with damage(healthy) as connection:
        connection.execute(change)
    assert f"block {block}: It cannot be decompressed, so its records are lost." in format_findings(
        check_store(healthy)
    )


def test_an_entry_whose_record_is_missing_is_named(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("delete from records where key = (select max(record) from entries where seq = 0)")
    assert any(line.endswith("Its record is missing.") for line in format_findings(check_store(healthy)))


def test_unused_blocks_and_records_are_named(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("insert into blocks (key, data) values (700, x'00')")
        connection.execute(
            "insert into records (key, session, digest, length, data) values (900, ?, x'00', 0, x'')",
            (healthy.get_session("two").key,),
        )
        connection.execute("insert into purging (session) values (77)")
    assert format_findings(check_store(healthy)) == {
        "block 700: It contains no record.",
        "record 900: No entry uses it.",
        "store: A purge of session 77 was never finished.",
    }


# ── the indexes ───────────────────────────────────────────────────────────────────────────────────


def test_entries_missing_from_an_index_are_counted_and_reindexing_repairs_it(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("insert into tools_fts (tools_fts) values ('delete-all')")
        connection.execute("insert into conversation_fts (rowid, text) values (90000, 'nobody said this')")
    findings = check_store(healthy)
    assert [finding.where for finding in findings] == ["index conversation_fts", "index tools_fts"]
    assert findings[0].what == "1 of its entries are not in the store. Run `backscroll doctor --reindex`."
    assert "entries are missing from it" in findings[1].what
    healthy.search.reindex()
    assert check_store(healthy) == []


@pytest.mark.parametrize("index", ["conversation_fts", "tools_fts"])
def test_a_damaged_index_is_named_and_reindexing_repairs_it(healthy: Store, index: str) -> None:
    with damage(healthy) as connection:
        connection.execute(f"update {index}_data set block = x'0000000000' where id > 10")
    assert f"index {index}: It is damaged. Run `backscroll doctor --reindex`." in format_findings(check_store(healthy))
    healthy.close()
    with Store.open(healthy.path) as again:
        again.search.reindex()
        assert check_store(again) == []


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_text_that_is_not_utf8_is_named(healthy: Store) -> None:
    """The other commands say that the store is damaged, and recommend this check."""
    key = healthy.get_session("one").key
    with damage(healthy) as connection:
        connection.execute("update sessions set agent_title = cast(x'ff41' as text) where key = ?", (key,))
    with pytest.raises(Damaged, match="a text in it is not UTF-8"):
        healthy.list_sessions(9)
    finding = Finding("sessions", f"The text of agent_title in row {key} is not UTF-8. Restore a backup.")
    assert finding in check_store(healthy)


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────


def test_a_sealed_value_that_was_moved_is_named(healthy: Store) -> None:
    for session in ("one", "two"):
        healthy.set_secret(session, "API_KEY", f"not a real key, {session}")
    assert check_store(healthy) == []
    one, two = (healthy.get_session(name).key for name in ("one", "two"))
    with damage(healthy) as connection:
        connection.execute(
            "update secrets set sealed = (select sealed from secrets where session = ?) where session = ?", (one, two)
        )
    (finding,) = check_store(healthy)
    assert finding.where == "secrets"
    assert "cannot be opened" in finding.what


def test_the_values_of_locked_secrets_are_skipped(healthy: Store) -> None:
    for value in ("not a real key", "its successor"):
        healthy.set_secret("one", "API_KEY", value)
    healthy.secrets.use_passphrase("a long passphrase")
    healthy.secrets.lock()
    assert check_store(healthy) == []
    with damage(healthy) as connection:
        connection.execute("update secrets set current = 0")
        connection.execute("update secrets set current = 1 where version = 1")
    (finding,) = check_store(healthy)
    assert "the journal says version 2" in finding.what


# ── the checks themselves ───────────────────────────────────────────────────────────────────────────────────────


def test_a_check_that_fails_does_not_stop_the_others(healthy: Store) -> None:
    with damage(healthy) as connection:
        connection.execute("update entries set tokens = 'no json' where key = ?", (find_entry_key(healthy, "two#4"),))
        connection.execute("update sessions set tail = null where id = 'one'")
    findings = check_store(healthy)
    assert any(finding.what.startswith("The check of its counts failed") for finding in findings)
    assert Finding("one", "Its tail is not the last entry of its chain.") in findings


def test_a_check_leaves_no_transaction_open(healthy: Store) -> None:
    check_store(healthy)
    assert not healthy.connection.in_transaction
    with Store.open(healthy.path, busy_timeout_ms=0) as other:
        other.create_session("written meanwhile")
    assert check_store(healthy) == []
