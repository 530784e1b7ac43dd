"""These tests check the usage of every agent, when it is read and when it is derived again from stored records."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import execute_sql
from opencode_store import USAGE, OpencodeStore, assistant_message, finished_text_part, text_part, user_message
from source_samples import DATA, SAMPLES

from store import Store
from store.model.statistics import TokenCounts
from store.model.usage import USAGE_VERSION, Usage
from store.sources.atif.usage import read_usage as read_atif_usage
from store.sources.llm.usage import read_usage as read_llm_usage
from store.sources.pi.usage import read_usage as read_pi_usage
from store.sync.refresh import sync_targets
from store.sync.targets import find_targets
from store.usage.rederive import rederive_usage
from store.usage.stale import count_without_usage

WITH_USAGE = {
    "backscroll",
    "pingu",
    "claude",
    "codex",
    "pi",
    "crush",
    "goose",
    "gemini",
    "llm",
    "qwen",
    "copilot",
    "opencode",
    "atif",
}
"""Are the agents whose samples have tokens."""

ROWS = """
    select session, call, entry, usage_models.provider, usage_models.model, at, input, cache_read, cache_write_5m,
        cache_write_1h, output, reasoning, known, reported_cost, counted
    from usage join usage_models on usage_models.key = usage.model order by session, call
"""


def sync(store: Store, path: Path) -> None:
    list(sync_targets(store, find_targets([str(path)])))


def forget_usage(store: Store) -> None:
    """Make the store look like one that was written before usage was kept."""
    with store.transaction() as connection:
        connection.execute("delete from usage")
        connection.execute("update sessions set usage_version = 0")


def totals(store: Store) -> TokenCounts:
    return store.usage.collect("month").totals.tokens


def make_sample(name: str, folder: Path) -> Path:
    """Make a sample without equal responses: all messages of opencode's have one time, which only copies have."""
    sample = SAMPLES[name](folder)
    if name == "opencode":
        set_time = "json_set(data, '$.time.created', json_extract(data, '$.time.created') + rowid)"
        execute_sql(sample, f"update message set data = {set_time} where json_valid(data)")
    return sample


@pytest.mark.parametrize("name", SAMPLES)
def test_usage_agrees_with_the_tokens_of_sessions(name: str, store: Store, tmp_path: Path) -> None:
    sync(store, make_sample(name, tmp_path))
    (expected,) = store.row("select sum(tokens_total) from sessions")
    assert totals(store).total == expected
    assert bool(expected) is (name in WITH_USAGE)


@pytest.mark.parametrize("name", SAMPLES)
def test_usage_that_is_derived_again_is_the_same(name: str, store: Store, tmp_path: Path) -> None:
    sync(store, SAMPLES[name](tmp_path))
    rows = store.rows(ROWS)
    forget_usage(store)
    assert totals(store).total == 0
    assert count_without_usage(store) > 0
    list(rederive_usage(store))
    assert count_without_usage(store) == 0
    if name == "gemini":  # a message that is written again belongs to its last record then
        assert [row[3:5] + row[6:] for row in store.rows(ROWS)] == [row[3:5] + row[6:] for row in rows]
    else:
        assert store.rows(ROWS) == rows


def set_opencode_usage(sample: Path) -> None:
    """Let every message and step have reasoning and a cost."""
    with closing(sqlite3.connect(sample)) as connection, connection:
        for table in ("message", "part"):
            connection.execute(
                f"""
                update {table} set data = json_set(data, '$.cost', 0.25, '$.tokens.reasoning', 7, '$.tokens.total', 0)
                where json_extract(data, '$.tokens') is not null
                """
            )


def set_atif_usage(sample: Path) -> None:
    for path in sample.rglob("*.json"):
        trajectory = json.loads(path.read_text())
        for step in trajectory.get("steps", ()):
            if "metrics" in step:
                step["metrics"] |= {"cost_usd": 0.25, "extra": {"reasoning_tokens": 7}}
        path.write_text(json.dumps(trajectory))


@pytest.mark.parametrize(("name", "change"), [("opencode", set_opencode_usage), ("atif", set_atif_usage)])
def test_reasoning_and_reported_cost_are_derived_again(
    name: str, change: Callable[[Path], None], store: Store, tmp_path: Path
) -> None:
    sample = SAMPLES[name](tmp_path)
    change(sample)
    sync(store, sample)
    rows = store.rows(ROWS)
    figures = store.usage.collect("month").totals
    assert figures.tokens.reasoning >= 7
    assert figures.reported_cost is not None
    assert figures.reported_cost >= 250_000
    forget_usage(store)
    list(rederive_usage(store))
    assert store.rows(ROWS) == rows


def test_deriving_again_continues_where_it_stopped(store: Store, tmp_path: Path) -> None:
    sync(store, SAMPLES["claude"](tmp_path))
    tokens = totals(store)
    forget_usage(store)
    total = count_without_usage(store)
    steps = rederive_usage(store)
    assert next(steps) == (1, total)
    steps.close()  # type: ignore[attr-defined]
    assert count_without_usage(store) == total - 1
    assert [step.done for step in rederive_usage(store)] == list(range(1, total))
    assert totals(store) == tokens


def test_a_record_that_cannot_be_read_does_not_stop_deriving(store: Store, tmp_path: Path) -> None:
    sync(store, SAMPLES["claude"](tmp_path))
    forget_usage(store)
    with store.transaction() as connection:
        connection.execute("update records set data = cast('no json' as blob), block = null, length = 7, behind = 0")
    list(rederive_usage(store))
    assert count_without_usage(store) == 0


def test_sync_derives_the_usage_of_an_older_store(store: Store, tmp_path: Path) -> None:
    from store.cli.sync_runner import sync_with_progress_bar

    sample = SAMPLES["codex"](tmp_path)
    sync(store, sample)
    tokens = totals(store)
    forget_usage(store)
    sync_with_progress_bar(store, find_targets([str(sample)]))
    assert totals(store) == tokens
    assert store.row("select min(usage_version) from sessions where head is not null") == (USAGE_VERSION,)


def test_a_step_of_a_trajectory_has_a_cost_and_what_is_in_its_extra_metrics() -> None:
    extra = {"reasoning_tokens": 30, "cache_creation_input_tokens": 100}
    metrics = {"prompt_tokens": 1200, "completion_tokens": 85, "cached_tokens": 1000, "cost_usd": 0.0041}
    usage = read_atif_usage({"source": "agent", "model_name": "m", "metrics": metrics | {"extra": extra}})
    assert usage == Usage(100, 1000, 100, None, 85, 30, "m", cost=4100, estimated=("cache_write_5m",))


def test_a_fork_of_opencode_counts_only_what_is_new(store: Store, tmp_path: Path) -> None:
    """opencode copies the messages under new ids, and does not say where they come from."""
    owner = OpencodeStore(tmp_path / "opencode.db")
    finish = {"type": "step-finish", "tokens": USAGE}
    owner.add_session("ses_1")
    owner.add_message(user_message(), text_part("one"))
    owner.add_message(assistant_message(), finished_text_part("first"))
    owner.add_message(assistant_message(), finish, finish | {"tokens": USAGE | {"output": 30, "total": 129}})
    with closing(sqlite3.connect(owner.path)) as connection:
        copies = [data for (data,) in connection.execute("select data from message order by time_created")]
    owner.add_session("ses_2", title="A session (fork #1)")
    for copy, parts in zip(copies, [[text_part("one")], [finished_text_part("first")], [finish]], strict=True):
        owner.add_message(copy, *parts, session_id="ses_2")
    owner.add_message(assistant_message(), finished_text_part("second"), session_id="ses_2")
    sync(store, owner.path)
    assert totals(store) == TokenCounts(99 * 4, output=21 + 21 + 30 + 21)
    before = store.rows(ROWS)
    forget_usage(store)
    list(rederive_usage(store))
    assert sum(row[-1] for row in store.rows(ROWS)) == sum(row[-1] for row in before) == 4


def test_pi_separates_the_lifetimes_of_cache_writes_if_the_vendor_does() -> None:
    counts = {"input": 4, "output": 20, "cacheRead": 50, "cacheWrite": 100, "cacheWrite1h": 70, "reasoning": 8}
    usage = read_pi_usage({"message": {"usage": counts}})
    assert usage is not None
    assert usage[:6] == (4, 50, 30, 70, 20, 8)
    assert usage.estimated == ()
    usage = read_pi_usage({"message": {"usage": {"input": 4, "output": 20, "cacheWrite": 100}}})
    assert usage is not None
    assert usage[:6] == (4, None, 100, None, 20, None)
    assert usage.estimated == ("cache_write_5m",)


LLM_DETAILS: dict[str, tuple[dict[str, Any], tuple[int | None, ...]]] = {
    "openai chat": (
        {"prompt_tokens_details": {"cached_tokens": 40}, "completion_tokens_details": {"reasoning_tokens": 8}},
        (60, 40, None, None, 20, 8),
    ),
    "openai responses": (
        {
            "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 50},
            "output_tokens_details": {"reasoning_tokens": 8},
        },
        (10, 40, 50, None, 20, 8),
    ),
    "google": ({"cachedContentTokenCount": 40, "thoughtsTokenCount": 8}, (60, 40, None, None, 20, 8)),
    "anthropic": (
        {
            "cache_read_input_tokens": 40,
            "cache_creation_input_tokens": 50,
            "cache_creation": {"ephemeral_5m_input_tokens": 20, "ephemeral_1h_input_tokens": 30},
        },
        (100, 40, 20, 30, 20, None),
    ),
}


@pytest.mark.parametrize("vendor", LLM_DETAILS)
def test_llm_keeps_what_each_vendor_says(vendor: str) -> None:
    details, expected = LLM_DETAILS[vendor]
    call = {"input_tokens": 100, "output_tokens": 20, "token_details": json.dumps(details)}
    for record in (call, {"hash": "b2:1", "turns": [call]}):
        usage = read_llm_usage(record)
        assert usage is not None
        assert usage[:6] == expected
        assert usage.estimated == ()


def test_calls_of_llm_that_ended_with_the_same_message_add_up() -> None:
    calls = [{"input_tokens": 100, "output_tokens": 20}, {"input_tokens": 9, "output_tokens": 3}]
    usage = read_llm_usage({"turns": calls})
    assert usage is not None
    assert usage[:6] == (109, None, None, None, 23, None)
    assert read_llm_usage({"turns": [{"input_tokens": None}]}) is None


# ── an independent count ──────────────────────────────────────────────────────────────────────────


def read_lines(name: str, pattern: str = "*.jsonl") -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted((DATA / name).rglob(pattern)):
        for line in path.read_text("utf-8", "replace").splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield path, value


def count_claude() -> TokenCounts:
    """Count every message id of a file once, with its largest numbers, and no message of a file that was copied."""
    counts: dict[tuple[str, str], list[int]] = {}
    copied = {record["uuid"] for _, record in read_lines("claude") if "forkedFrom" in record}
    first_files: dict[str, Path] = {}
    for path, record in read_lines("claude"):
        message = record.get("message")
        if record.get("type") != "assistant" or not isinstance(message, dict) or record.get("uuid") in copied:
            continue
        usage = message.get("usage")
        if not usage or first_files.setdefault(record["uuid"], path) != path:
            continue
        numbers = [usage.get(f"{name}_tokens", 0) for name in ("input", "cache_read_input", "cache_creation_input")]
        numbers += [0, usage.get("output_tokens", 0), 0]
        key = (str(path), message.get("id") or record["uuid"])
        counts[key] = [max(pair) for pair in zip(numbers, counts.get(key, numbers), strict=True)]
    return TokenCounts(*map(sum, zip(*counts.values(), strict=True)))


def count_pi() -> TokenCounts:
    seen: dict[str, dict[str, int]] = {}
    for number, (_, record) in enumerate(read_lines("pi")):
        message = record.get("message")
        if isinstance(message, dict) and message.get("usage"):
            seen[record.get("id", f"line {number}")] = message["usage"]
    names = ("input", "cacheRead", "cacheWrite", "", "output", "")
    return TokenCounts(*(sum(usage.get(name, 0) for usage in seen.values()) for name in names))


def count_qwen() -> TokenCounts:
    counts = []
    for _, record in read_lines("qwen"):
        if usage := record.get("usageMetadata"):
            prompt, cached, answer, thoughts = (
                usage.get(name, 0)
                for name in (
                    "promptTokenCount",
                    "cachedContentTokenCount",
                    "candidatesTokenCount",
                    "thoughtsTokenCount",
                )
            )
            is_apart = prompt + answer + thoughts <= usage["totalTokenCount"]
            counts.append((prompt - cached, cached, 0, 0, answer + thoughts * is_apart, thoughts))
    return TokenCounts(*map(sum, zip(*counts, strict=True)))


def count_gemini() -> TokenCounts:
    messages: dict[tuple[str, str], dict[str, int]] = {}

    def collect(session: str, value: Any) -> None:
        if isinstance(value, dict):
            if isinstance(value.get("tokens"), dict) and "id" in value:
                messages[session, value["id"]] = value["tokens"]
            for child in value.values():
                collect(session, child)
        elif isinstance(value, list):
            for child in value:
                collect(session, child)

    for path in sorted((DATA / "gemini").rglob("*.json*")):
        session = path.stem.rpartition("-")[2]
        for line in path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]:
            collect(session, json.loads(line))
    counts = [
        (
            usage["input"] - usage.get("cached", 0) + usage.get("tool", 0),
            usage.get("cached", 0),
            0,
            0,
            usage["output"] + usage.get("thoughts", 0),
            usage.get("thoughts", 0),
        )
        for usage in messages.values()
    ]
    return TokenCounts(*map(sum, zip(*counts, strict=True)))


def count_copilot() -> TokenCounts:
    """Count each model call. An old session has no calls, and only its end has the input."""
    events = [event for _, event in read_lines("copilot")]
    calls = [event["data"]["usage"] for event in events if event.get("type") == "session.usage_record"]
    counted = {call["model"] for call in calls}
    for event in events:
        for model, metrics in event.get("data", {}).get("modelMetrics", {}).items():
            if model not in counted:
                calls.append(metrics["usage"])
    cached = sum(call["cacheReadTokens"] for call in calls)
    return TokenCounts(
        sum(call["inputTokens"] for call in calls) - cached, cached, output=sum(call["outputTokens"] for call in calls)
    )


def count_atif() -> TokenCounts:
    def list_metrics(trajectory: dict[str, Any]) -> Iterator[dict[str, int]]:
        yield from (step["metrics"] for step in trajectory.get("steps", ()) if "metrics" in step)
        for inner in trajectory.get("subagent_trajectories", ()):
            yield from list_metrics(inner)

    paths = (DATA / "atif").rglob("*.json")
    metrics = [found for path in paths for found in list_metrics(json.loads(path.read_text()))]
    cached = sum(step.get("cached_tokens", 0) for step in metrics)
    prompts = sum(step["prompt_tokens"] for step in metrics)
    return TokenCounts(prompts - cached, cached, output=sum(step["completion_tokens"] for step in metrics))


FILE_COUNTS = {
    "claude": count_claude,
    "pi": count_pi,
    "qwen": count_qwen,
    "gemini": count_gemini,
    "copilot": count_copilot,
    "atif": count_atif,
}


@pytest.mark.parametrize("name", FILE_COUNTS)
def test_totals_equal_an_independent_count(name: str, store: Store, tmp_path: Path) -> None:
    sync(store, SAMPLES[name](tmp_path))
    assert totals(store) == FILE_COUNTS[name]()


DATABASE_COUNTS = {
    "crush": "select sum(prompt_tokens), 0, sum(completion_tokens) from sessions",
    "goose": "select sum(coalesce(accumulated_total_tokens, total_tokens, 0)), 0, 0 from sessions",
    "llm": """
        select sum(input_tokens - cached), sum(cached), sum(output_tokens) from (
            select *, coalesce(json_extract(token_details, '$.prompt_tokens_details.cached_tokens'), 0) as cached
            from turns)
    """,
    "opencode": """
        select sum(json_extract(data, '$.tokens.input')), sum(json_extract(data, '$.tokens.cache.read')),
            sum(json_extract(data, '$.tokens.output')) from message
    """,
}


@pytest.mark.parametrize("name", DATABASE_COUNTS)
def test_totals_equal_an_independent_count_in_a_database(name: str, store: Store, tmp_path: Path) -> None:
    sample = make_sample(name, tmp_path)
    with closing(sqlite3.connect(sample)) as connection:
        inputs, cached, outputs = connection.execute(DATABASE_COUNTS[name]).fetchone()
    sync(store, sample)
    assert totals(store) == TokenCounts(inputs, cached, output=outputs)


def test_totals_of_codex_equal_an_independent_count(store: Store, tmp_path: Path) -> None:
    """A running total that appears again is the same response. Older forks copy lines; newer ones, whose lines are
    numbered, have only their own."""
    sync(store, SAMPLES["codex"](tmp_path))
    counts: dict[tuple[str, str], dict[str, int]] = {}
    thread = ""
    for path, line in read_lines("codex"):
        payload = line.get("payload", line)
        if line.get("type") == "session_meta":
            thread = str(path) if "ordinal" in line else payload.get("forked_from_id") or payload["id"]
        info = payload.get("info") or {}
        total = payload.get("thread_token_usage") or info.get("total_token_usage")
        last = payload.get("usage") or info.get("last_token_usage")
        if total and last:
            counts[thread, json.dumps(total)] = last
    names = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_output_tokens")
    inputs, cached, outputs, reasoning = (sum(usage.get(name, 0) for usage in counts.values()) for name in names)
    assert totals(store) == TokenCounts(inputs - cached, cached, output=outputs, reasoning=reasoning)
