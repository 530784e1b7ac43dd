"""These tests check that every API response is stored, and counted once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from store import Store
from store.conversations.superseded import Correction, correct_entries
from store.model.entry import NewEntry, NewRecord, Text
from store.model.usage import ABSENT, ESTIMATED, MEASURED, Usage, as_micro_dollars, as_tokens, unpack_knowledge
from store.sources.claude_code.usage import read_usage
from store.sources.codex.usage import CodexUsageReader
from store.sync.refresh import sync_targets
from store.sync.targets import find_targets
from store.usage.rederive import rederive_usage
from store.usage.stale import count_without_usage

ID = "msg_0000000000000000000000000{}"


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(tmp_path / "store.db")


def answer(number: int, *, output: int = 10, inherited: bool = False, unique: bool = True) -> NewEntry:
    usage = Usage(100, 50, 7, 3, output, 2, "m", "p", ID.format(number) if unique else "")
    text = (Text(f"answer {number} {output}"),)
    record = NewRecord(f"{number} {output}".encode())
    return NewEntry(role="assistant", parts=text, record=record, usage=usage, inherited=inherited)


def add_session(store: Store, name: str, entries: Sequence[NewEntry], **fields: str) -> int:
    key = store.sessions.create(name, **fields).key  # type: ignore[arg-type]
    store.chains.append(key, entries)
    return key


def counted(store: Store) -> dict[str, int]:
    """Return how many responses each session counts."""
    return dict(
        store.rows(
            "select sessions.id, sum(counted) from usage join sessions on sessions.key = usage.session group by 1"
        )
    )


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("value", [-1, 1.5, 10**18, None, "12", True, float("nan"), float("inf"), [], {}])
def test_a_value_that_cannot_be_a_number_of_tokens_is_absent(value: object) -> None:
    assert as_tokens(value) is None


def test_a_whole_number_of_tokens_may_be_written_as_a_fraction() -> None:
    assert as_tokens(12.0) == 12


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf"), True, "1", None, 10**9])
def test_a_value_that_cannot_be_an_amount_is_absent(value: object) -> None:
    assert as_micro_dollars(value) is None


def test_an_amount_is_rounded_to_micro_dollars() -> None:
    assert as_micro_dollars(0.0123456789) == 12_346


def test_how_each_number_is_known_is_kept(store: Store) -> None:
    usage = Usage(1, cache_write_5m=5, output=2, estimated=("cache_write_5m",))
    add_session(store, "a", [NewEntry(role="assistant", usage=usage)])
    ((known,),) = store.rows("select known from usage")
    assert unpack_knowledge(known) == {
        "input": MEASURED,
        "cache_read": ABSENT,
        "cache_write_5m": ESTIMATED,
        "cache_write_1h": ABSENT,
        "output": MEASURED,
        "reasoning": ABSENT,
    }


# ── once ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_response_over_many_records_is_one_row_with_the_final_numbers(store: Store) -> None:
    key = add_session(store, "a", [answer(1, output=1), answer(1, output=57)])
    store.chains.append(key, [answer(1, output=60), answer(1, output=60)])
    assert store.rows("select output, counted from usage") == [(60, 1)]
    (text,) = store.row("select text from entries where key = (select entry from usage)")
    assert text == "answer 1 60"


def test_responses_without_an_id_are_all_counted(store: Store) -> None:
    add_session(store, "a", [answer(1, unique=False), answer(1, unique=False)])
    assert counted(store) == {"a": 2}


def test_a_short_id_identifies_a_response_only_within_its_session(store: Store) -> None:
    for name in ("a", "b"):
        usage = Usage(output=1, response_id="m1")
        add_session(store, name, [NewEntry(role="assistant", usage=usage), NewEntry(role="assistant", usage=usage)])
    assert counted(store) == {"a": 1, "b": 1}


def test_the_same_response_in_two_sessions_counts_once(store: Store) -> None:
    add_session(store, "a", [answer(1), answer(2)])
    add_session(store, "b", [answer(1), answer(2), answer(3)])
    assert counted(store) == {"a": 2, "b": 1}


def test_an_explanation_names_the_session_that_counts_a_copy(store: Store) -> None:
    for name in ("a", "b"):
        add_session(store, name, [answer(1), answer(2)])
    explained = store.usage.of_session(store.sessions.get("b")).explain()
    assert (explained.lines, explained.not_counted, explained.counted_in) == ((), 2, ("a",))
    assert store.usage.of_session(store.sessions.get("a")).explain().not_counted == 0


def test_a_purged_session_leaves_its_responses_to_the_others(store: Store) -> None:
    add_session(store, "a", [answer(1), answer(2)])
    add_session(store, "b", [answer(1), answer(3)])
    add_session(store, "c", [answer(1), answer(2)])
    store.sessions.purge([store.sessions.get("a")])
    assert counted(store) == {"b": 2, "c": 1}
    store.sessions.purge([store.sessions.get("b")])
    assert counted(store) == {"c": 2}


def test_an_inherited_response_is_not_counted(store: Store) -> None:
    add_session(store, "a", [answer(1)])
    add_session(store, "b", [answer(1, inherited=True), answer(2, unique=False, inherited=True), answer(3)])
    assert counted(store) == {"a": 1, "b": 1}


def test_a_fork_counts_only_what_follows_and_inherits_when_its_parent_is_purged(store: Store) -> None:
    prompt = NewEntry(role="user", parts=(Text("hello"),))
    add_session(store, "a", [prompt, answer(1), answer(2, unique=False)])
    fork = store.sessions.fork(store.sessions.get("a"), 1, "b")
    store.chains.append(fork.key, [answer(3)])
    assert counted(store) == {"a": 2, "b": 1}
    assert store.row("select count(*) from usage where session = ?", fork.key) == (1,)
    store.sessions.purge([store.sessions.get("a")])
    assert counted(store) == {"b": 3}


def test_usage_follows_when_a_reader_corrects_who_owns_an_entry(store: Store) -> None:
    add_session(store, "a", [answer(1)])
    key = add_session(store, "b", [answer(1), answer(2)], source="claude")
    correct_entries(store, key, {0: Correction(1, ""), 1: Correction(1, "")})
    assert counted(store) == {"a": 1}
    correct_entries(store, key, {1: Correction(0, "[100,10,50]")})
    assert count_without_usage(store) == 1
    list(rederive_usage(store))
    assert counted(store) == {"a": 1, "b": 1}


# ── Claude Code and Codex ─────────────────────────────────────────────────────────────────────────


def claude_record(number: int, *, output: int = 20, **usage: object) -> dict[str, object]:
    counts = {"input_tokens": 4, "output_tokens": output, "cache_read_input_tokens": 50} | usage
    message = {"id": ID.format(number), "role": "assistant", "model": "claude-opus-4-8", "usage": counts}
    return {
        "type": "assistant",
        "uuid": f"u{number}-{output}",
        "parentUuid": None,
        "sessionId": "s",
        "timestamp": "2026-05-01T10:00:00.000Z",
        "message": message | {"content": [{"type": "text", "text": f"text {number} {output}"}]},
    }


def test_claude_code_separates_the_lifetimes_of_cache_writes() -> None:
    lifetimes = {"ephemeral_5m_input_tokens": 30, "ephemeral_1h_input_tokens": 70}
    usage = read_usage(claude_record(1, cache_creation_input_tokens=100, cache_creation=lifetimes))
    assert usage is not None
    assert usage[:6] == (4, 50, 30, 70, 20, None)
    assert usage.estimated == ()
    assert (usage.model, usage.provider, usage.response_id) == ("claude-opus-4-8", "anthropic", ID.format(1))


def test_cache_writes_without_a_lifetime_are_taken_for_the_default_of_five_minutes() -> None:
    usage = read_usage(claude_record(1, cache_creation_input_tokens=100))
    assert usage is not None
    assert usage[:6] == (4, 50, 100, None, 20, None)
    assert usage.estimated == ("cache_write_5m",)


def test_cache_writes_of_which_only_some_have_a_lifetime_are_all_counted() -> None:
    lifetimes = {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 70}
    usage = read_usage(claude_record(1, cache_creation_input_tokens=100, cache_creation=lifetimes))
    assert usage is not None
    assert usage[:6] == (4, 50, 30, 70, 20, None)
    assert usage.estimated == ("cache_write_5m",)


@pytest.mark.parametrize(
    ("fields", "model"),
    [
        ({}, "claude-opus-4-8"),
        ({"speed": "standard", "service_tier": "standard"}, "claude-opus-4-8"),
        ({"speed": "fast", "service_tier": "standard"}, "claude-opus-4-8 (fast)"),
        ({"service_tier": "batch"}, "claude-opus-4-8 (batch)"),
        ({"speed": ["fast"], "service_tier": "priority"}, "claude-opus-4-8"),
    ],
)
def test_claude_code_says_how_a_request_was_processed(fields: dict[str, object], model: str) -> None:
    record = claude_record(1, **fields)
    record["message"]["model"] = "claude-opus-4-8"
    usage = read_usage(record)
    assert usage is not None
    assert usage.model == model


def write_rollout(folder: Path, lines: Sequence[dict[str, object]]) -> None:
    path = folder / "sessions" / "2026" / "05" / "01" / "rollout-2026-05-01T10-00-00-t1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps({"timestamp": "2026-05-01T10:00:00.000Z"} | line) + "\n" for line in lines))


def test_codex_input_is_stored_without_its_cached_part() -> None:
    reader = CodexUsageReader()
    assert reader.read({"type": "turn_context", "payload": {"model": "gpt-5"}}) is None
    last = {"input_tokens": 150, "cached_input_tokens": 20, "output_tokens": 40, "reasoning_output_tokens": 8}
    info = {"total_token_usage": last | {"total_tokens": 190}, "last_token_usage": last}
    usage = reader.read({"type": "event_msg", "payload": {"type": "token_count", "info": info}})
    assert usage is not None
    assert usage[:6] == (130, 20, None, None, 40, 8)
    assert usage.model == "gpt-5"


def test_codex_input_is_stored_without_what_was_written_to_the_cache(store: Store, tmp_path: Path) -> None:
    """GPT-5.6 costs 1.25 times as much for these, and Codex includes them in the input."""
    last = {"input_tokens": 100, "cached_input_tokens": 40, "cache_write_input_tokens": 30, "output_tokens": 10}
    info = {"total_token_usage": last | {"total_tokens": 110}, "last_token_usage": last}
    report = {"type": "event_msg", "payload": {"type": "token_count", "info": info}}
    usage = CodexUsageReader().read(report)
    assert usage is not None
    assert usage[:6] == (30, 40, 30, None, 10, None)
    assert usage.estimated == ()
    meta = {"id": "t1", "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/w", "originator": "x", "cli_version": "1"}
    write_rollout(tmp_path, [{"type": "session_meta", "payload": meta}, report])
    list(sync_targets(store, find_targets([str(tmp_path / "sessions")])))
    session = store.sessions.get("codex:t1")
    assert (session.tokens_input, session.tokens_cached, session.tokens_cache_write) == (30, 70, 30)


def test_codex_reports_of_one_response_are_one_row(store: Store, tmp_path: Path) -> None:
    def counts(number: int) -> dict[str, int]:
        return {"input_tokens": 100 * number, "output_tokens": 10 * number, "total_tokens": 110 * number}

    def report(number: int) -> list[dict[str, object]]:
        total = counts(number)
        record = {"response_id": f"r{number}", "usage": counts(1), "thread_token_usage": total}
        event = {"type": "token_count", "info": {"total_token_usage": total, "last_token_usage": counts(1)}}
        return [
            {"type": "token_usage_record", "payload": record},
            {"type": "event_msg", "payload": event},
            {"type": "event_msg", "payload": event},
            {"type": "event_msg", "payload": {"type": "token_count", "info": None}},
        ]

    meta = {"id": "t1", "timestamp": "2026-05-01T10:00:00.000Z", "cwd": "/w", "originator": "x", "cli_version": "1"}
    lines = [{"type": "session_meta", "payload": meta}, *report(1), *report(2)]
    write_rollout(tmp_path, lines)
    list(sync_targets(store, find_targets([str(tmp_path / "sessions")])))
    assert store.rows("select input, output, counted from usage") == [(100, 10, 1), (100, 10, 1)]


def test_a_session_that_its_agent_rewrote_counts_its_responses_itself(store: Store, tmp_path: Path) -> None:
    path = tmp_path / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True)

    def write_and_sync(records: Sequence[dict[str, object]]) -> None:
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        list(sync_targets(store, find_targets([str(path)])))

    write_and_sync([claude_record(1), claude_record(2), claude_record(3)])
    assert sum(counted(store).values()) == 3
    write_and_sync([claude_record(1) | {"version": "2"}, claude_record(2)])
    by_relation = dict(
        store.rows(
            "select coalesce(relation, ''), sum(counted) from usage"
            " join sessions on sessions.key = usage.session group by 1"
        )
    )
    assert by_relation == {"": 2, "superseded": 1}


@pytest.mark.parametrize("count", [-5, 10**18, 1.5, "many", None, [], True])
def test_a_wrong_count_in_a_record_is_absent_and_the_others_count(store: Store, tmp_path: Path, count: object) -> None:
    path = tmp_path / "projects" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True)
    records = [claude_record(1, input_tokens=count, cache_creation=count), claude_record(2)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    (report,) = {id(step.report): step.report for step in sync_targets(store, find_targets([str(path)]))}.values()
    assert report.problems == []
    totals = store.usage.collect("month").totals
    assert (totals.tokens.input, totals.tokens.cache_read, totals.tokens.output) == (4, 100, 40)
    assert isinstance(totals.cost, int)
