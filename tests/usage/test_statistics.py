"""These tests check tokens, cost and statistics on made-up histories that are worked out by hand."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from store import Store
from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.model.statistics import TokenCounts
from store.model.usage import Usage
from store.paths import config_file
from store.search.query import Query
from store.usage import prices
from store.usage.cost_lines import FigureScope, explain_figure
from store.usage.period import Period

RATES = {"input": 10, "cache_read": 1, "cache_write_5m": 12, "cache_write_1h": 20, "output": 50, "reasoning": 50}


def rate(factor: int = 1, over: int = 0, since: str = "") -> dict[str, object]:
    """Return rates in dollars per million tokens, multiplied, in micro-dollars."""
    return {"from": since, "over": over} | {kind: dollars * factor * 1_000_000 for kind, dollars in RATES.items()}


TABLE = {
    "schema": 1,
    "name": "test",
    "version": "7",
    "date": "2999-01-01",
    "providers": [
        {
            "id": "acme",
            "names": ["*acme*"],
            "model_names": ["big*"],
            "fallbacks": [],
            "models": [
                {
                    "id": "big",
                    "names": ["big*"],
                    "window": 1000,
                    "rates": [rate(), rate(2, over=1_000_000)],
                    "processing": {"fast": [rate(5)]},
                },
                {"id": "dated", "names": ["dated"], "window": None, "rates": [rate(), rate(3, since="2026-03-01")]},
            ],
        }
    ],
}


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    path = tmp_path / "table.json"
    path.write_text(json.dumps(TABLE))
    prices.update_table(path)
    with Store.open(tmp_path / "store.db") as store:
        yield store
    monkeypatch.undo()
    time.tzset()


def answer(at: str = "2026-01-05T10:00:00.000Z", *, text: str = "ok", **usage: object) -> NewEntry:
    counts = {"input": 100, "output": 10, "model": "big-1", "provider": "acme"} | usage
    return NewEntry(role="assistant", parts=(Text(text),), created_at=at, usage=Usage(**counts))  # type: ignore[arg-type]


def prompt(at: str = "2026-01-05T10:00:00.000Z") -> NewEntry:
    return NewEntry(role="user", parts=(Text("please"),), created_at=at)


def add_session(store: Store, name: str, *entries: NewEntry, **fields: object) -> int:
    key = store.sessions.create(name, **fields).key  # type: ignore[arg-type]
    store.chains.append(key, entries)
    return key


# ── cost ──────────────────────────────────────────────────────────────────────────────────────────


def test_each_kind_of_tokens_has_its_own_rate(store: Store) -> None:
    usage = {"input": 1_000, "cache_read": 2_000, "cache_write_5m": 300, "cache_write_1h": 400, "output": 50}
    add_session(store, "a", prompt(), answer(**usage, reasoning=20))
    totals = store.usage.collect("month").totals
    assert totals.tokens == TokenCounts(1_000, 2_000, 300, 400, 50, 20)
    assert totals.tokens.total == 3_750
    # 1,000 x 10 + 2,000 x 1 + 300 x 12 + 400 x 20 + 50 x 50 dollars per million
    assert totals.cost == 10_000 + 2_000 + 3_600 + 8_000 + 2_500
    assert totals.unpriced_tokens == 0


def test_reasoning_is_a_part_of_the_output_and_is_not_paid_twice(store: Store) -> None:
    add_session(store, "a", answer(input=0, output=100, reasoning=100))
    assert store.usage.collect("month").totals.cost == 5_000


def test_a_model_without_a_price_is_unpriced_and_not_free(store: Store) -> None:
    add_session(store, "a", answer(model="unknown", provider="nobody"), answer())
    by_model = {row.key: row.figures for row in store.usage.collect("model").rows}
    assert (by_model["unknown"].cost, by_model["unknown"].unpriced_tokens) == (None, 110)
    assert (by_model["big-1"].cost, by_model["big-1"].unpriced_tokens) == (1_500, 0)
    totals = store.usage.collect("model").totals
    assert (totals.cost, totals.unpriced_tokens) == (1_500, 110)


def test_long_context_rates_apply_to_the_whole_request_by_its_total_input(store: Store) -> None:
    at_threshold = {"input": 400_000, "cache_read": 600_000, "output": 0}
    add_session(store, "a", answer(**at_threshold))
    assert store.usage.collect("month").totals.cost == 4_000_000 + 600_000
    add_session(store, "b", answer(**at_threshold | {"cache_read": 600_001, "output": 1}))
    by_session = {row.key: row.figures.cost for row in store.usage.collect("session").rows}
    # twice 400,000 x 10 + 600,001 x 1 + 1 x 50 dollars per million
    assert by_session["b"] == 2 * (4_000_000 + 600_001 + 50)


def test_the_rate_is_that_of_the_day_of_the_response(store: Store) -> None:
    add_session(store, "a", answer("2026-02-28T23:59:59.000Z", model="dated"))
    add_session(store, "b", answer("2026-03-01T00:00:00.000Z", model="dated"))
    by_session = {row.key: row.figures.cost for row in store.usage.collect("session").rows}
    assert by_session == {"a": 1_500, "b": 4_500}


def test_fast_requests_have_rates_of_their_own_if_the_table_has_some(store: Store) -> None:
    fast, batch, other = (answer(model=name) for name in ("big-1 (fast)", "big-1 (batch)", "big-1 (best)"))
    add_session(store, "a", answer(), fast, batch, other)
    by_model = {row.key: row.figures.cost for row in store.usage.collect("model").rows}
    # The table has no rate for batches, so they cost as much as usual. A name that says nothing is a name.
    assert by_model == {"big-1": 1_500, "big-1 (fast)": 7_500, "big-1 (batch)": 1_500, "big-1 (best)": 1_500}
    priced_as = {line.model: line.priced_as for line in explain_figure(store, FigureScope(Query())).lines}
    assert (priced_as["big-1 (fast)"], priced_as["big-1 (batch)"]) == ("acme/big (fast)", "acme/big")
    assert store.usage.collect("month", query='model:"big-1 (fast)"').totals.sessions == 1
    assert store.usage.collect("month", query="model:big-1").totals.sessions == 1


def test_the_config_file_overrides_and_adds_prices(store: Store) -> None:
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text('[prices."big*"]\ninput = 0.5\noutput = 2\n[prices.unknown]\ninput = 1\noutput = 1\n')
    add_session(store, "a", answer(cache_read=1_000, cache_write_1h=10), answer(model="unknown", provider="nobody"))
    by_model = {row.key: row.figures.cost for row in store.usage.collect("model").rows}
    # 1,110 tokens of input at 0.50 and 10 of output at 2 dollars per million
    assert by_model == {"big-1": 555 + 20, "unknown": 110}


def test_huge_numbers_stay_whole_numbers(store: Store) -> None:
    add_session(store, "a", *(answer(input=10**9, output=10**9) for _ in range(50)))
    totals = store.usage.collect("month").totals
    assert totals.cost == 50 * 2 * (10**9 * 10 + 10**9 * 50)
    assert isinstance(totals.cost, int)
    assert totals.tokens.total == 100 * 10**9


# ── dimensions ────────────────────────────────────────────────────────────────────────────────────


def test_statistics_by_time(store: Store) -> None:
    add_session(store, "a", prompt("2026-01-04T09:00:00.000Z"), answer("2026-01-04T09:30:00.000Z"))
    add_session(store, "b", prompt("2026-01-05T09:00:00.000Z"), answer("2026-01-05T10:30:00.000Z"))
    expected = {
        "day": ["2026-01-04", "2026-01-05"],
        "week": ["2026-W01", "2026-W02"],
        "month": ["2026-01"],
        "hour": ["09", "10"],
        "weekday_hour": ["1 09", "1 10", "7 09"],
    }
    for by, keys in expected.items():
        assert [row.key for row in store.usage.collect(by).rows] == keys  # type: ignore[arg-type]
    first, second = store.usage.collect("day").rows
    assert (first.figures.turns, first.figures.sessions, first.figures.active_seconds) == (1, 1, 1_800)
    assert second.figures.active_seconds == 3_600
    assert store.usage.collect("hour").totals.sessions == 2


def test_a_row_counts_each_session_with_a_turn_or_a_response_once(store: Store) -> None:
    late = answer("2026-01-05T00:10:00.000Z")
    add_session(store, "over midnight", prompt("2026-01-04T23:50:00.000Z"), late)
    add_session(store, "without usage", prompt("2026-01-05T09:00:00.000Z"))
    add_session(store, "with both", prompt("2026-01-05T09:00:00.000Z"), answer("2026-01-05T09:00:00.000Z"))
    found = store.usage.collect("day")
    assert {row.key: row.figures.sessions for row in found.rows} == {"2026-01-04": 1, "2026-01-05": 3}
    assert found.totals.sessions == 3


def test_a_session_over_several_days_is_counted_turn_by_turn(store: Store) -> None:
    calls = [
        NewEntry(role="assistant", parts=(ToolCall(f"c{day}", "bash", {}),), created_at=f"2026-01-0{day}T09:00:10.000Z")
        for day in (4, 5)
    ]
    days = ("2026-01-04T09:00:00.000Z", "2026-01-05T09:00:00.000Z")
    add_session(store, "a", prompt(days[0]), calls[0], prompt(days[1]), calls[1])
    add_session(store, "b", prompt(days[1]), calls[1])
    rows = {row.key: row.figures for row in store.usage.collect("day").rows}
    assert [(row.sessions, row.turns, row.tool_calls, row.active_seconds) for row in rows.values()] == [
        (1, 1, 1, 10),
        (2, 2, 2, 20),
    ]
    period = Period(datetime(2026, 1, 5, tzinfo=UTC))
    totals = store.usage.collect("month", period=period).totals
    assert (totals.sessions, totals.turns, totals.tool_calls) == (2, 2, 2)


def test_active_time_has_the_same_total_whatever_the_rows_are(store: Store) -> None:
    for number in range(3):
        call = NewEntry(role="assistant", parts=(Text("ok"),), created_at=f"2026-01-0{number + 4}T09:00:01.400Z")
        add_session(store, f"s{number}", prompt(f"2026-01-0{number + 4}T09:00:00.000Z"), call, cwd=f"/w/{number}")
    for by in ("day", "month", "folder", "session", "model"):
        found = store.usage.collect(by)  # type: ignore[arg-type]
        assert found.totals.active_seconds == sum(row.figures.active_seconds for row in found.rows) == 3


def test_calls_before_the_first_prompt_count(store: Store) -> None:
    call = NewEntry(role="assistant", parts=(ToolCall("c", "bash", {}),), created_at="2026-01-04T09:00:00.000Z")
    add_session(store, "a", call, created_at="2026-01-04T09:00:00.000Z")
    (row,) = store.usage.collect("day").rows
    assert (row.key, row.figures.tool_calls, row.figures.turns) == ("2026-01-04", 1, 0)


def test_calls_before_the_first_prompt_count_in_their_period(store: Store) -> None:
    call = NewEntry(role="assistant", parts=(ToolCall("c", "bash", {}),), created_at="2026-01-04T09:00:00.000Z")
    add_session(store, "a", call, created_at="2026-01-04T09:00:00.000Z")
    add_session(store, "b", prompt("2026-01-04T09:00:00.000Z"), call, prompt("2026-03-04T09:00:00.000Z"))
    january = Period(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC))
    march = Period(datetime(2026, 3, 1, tzinfo=UTC))
    for by in ("day", "tool", "session"):
        assert store.usage.collect(by, period=january).totals.tool_calls == 2  # type: ignore[arg-type]
        assert store.usage.collect(by, period=march).totals.tool_calls == 0  # type: ignore[arg-type]
    assert store.usage.collect("day", period=march).totals.turns == 1


def test_inherited_turns_and_calls_do_not_count(store: Store) -> None:
    call = NewEntry(role="assistant", parts=(ToolCall("c", "bash", {}),))
    result = NewEntry(role="tool", parts=(ToolResult("c", "ok"),), is_prompt=False)
    add_session(store, "a", prompt(), call, result, answer())
    store.sessions.fork(store.sessions.get("a"), 1, "b")
    for by in ("day", "agent", "session"):
        totals = store.usage.collect(by).totals  # type: ignore[arg-type]
        assert (totals.turns, totals.tool_calls, totals.responses) == (1, 1, 1)


def test_a_time_in_the_future_is_shown_where_it_claims_to_be(store: Store) -> None:
    add_session(store, "a", answer("9998-12-31T00:00:00.000Z"))
    assert [row.key for row in store.usage.collect("month").rows] == ["9998-12"]


def test_a_period_is_that_of_responses_and_turns(store: Store) -> None:
    add_session(store, "a", prompt("2026-01-04T09:00:00.000Z"), answer("2026-01-04T09:00:00.000Z"))
    add_session(store, "a2", prompt("2026-02-04T09:00:00.000Z"), answer("2026-02-04T09:00:00.000Z"))
    period = Period(datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC))
    found = store.usage.collect("month", period=period)
    assert [row.key for row in found.rows] == ["2026-02"]
    assert (found.totals.sessions, found.totals.turns, found.totals.responses) == (1, 1, 1)


def test_statistics_by_agent_folder_and_tool(store: Store) -> None:
    call = NewEntry(role="assistant", parts=(ToolCall("c1", "bash", {}),), model="big-1", usage=answer().usage)
    result = NewEntry(role="tool", parts=(ToolResult("c1", "no", is_error=True),))
    add_session(store, "a", prompt(), call, result, source="codex", cwd="/w/x")
    add_session(store, "b", prompt(), answer(), source="claude", cwd="/w/y")
    agents = {row.key: row.figures for row in store.usage.collect("agent").rows}
    assert (agents["codex"].tool_calls, agents["codex"].errors, agents["codex"].cost) == (1, 1, 1_500)
    assert (agents["claude"].tool_calls, agents["claude"].turns) == (0, 1)
    assert {row.key for row in store.usage.collect("folder").rows} == {"/w/x", "/w/y"}
    (tool,) = store.usage.collect("tool").rows
    assert (tool.key, tool.figures.tool_calls, tool.figures.errors, tool.figures.sessions) == ("bash", 1, 1, 1)
    by_model = {row.key: row.figures for row in store.usage.collect("model").rows}
    assert (by_model["big-1"].tool_calls, by_model["big-1"].turns) == (1, 2)


def test_the_query_language_filters_statistics(store: Store) -> None:
    add_session(store, "a", prompt(), answer(), source="codex")
    add_session(store, "b", prompt(), answer(), source="claude")
    assert store.usage.collect("month", query="agent:codex").totals.sessions == 1
    assert store.usage.collect("month", query="agent:codex").totals.cost == 1_500


def test_words_are_found_in_tool_output_as_in_the_list(store: Store) -> None:
    call = NewEntry(role="assistant", parts=(ToolCall("c1", "bash", {"command": "ls"}),), usage=answer().usage)
    result = NewEntry(role="tool", parts=(ToolResult("c1", "a dolphin"),))
    add_session(store, "a", prompt(), call, result, source="codex")
    add_session(store, "b", prompt(), answer(text="a dolphin"), source="claude")
    add_session(store, "c", prompt(), answer())
    assert store.usage.collect("month", query="dolphin").totals.sessions == 2
    assert [row.key for row in store.usage.collect("agent", query="dolphin -agent:claude").rows] == ["codex"]
    assert store.usage.collect("month", query="dolphin tool:read").totals.sessions == 0
    explained = explain_figure(store, FigureScope(Query.parse("dolphin")))
    assert explained.figures.cost == store.usage.collect("month", query="dolphin").totals.cost == 3_000


def test_sessions_in_the_trash_are_left_out_and_archived_ones_are_not(store: Store) -> None:
    for name in ("a", "b", "c"):
        add_session(store, name, prompt(), answer())
    store.sessions.delete([store.sessions.get("a")])
    store.sessions.archive([store.sessions.get("b")])
    assert store.usage.collect("month").totals.sessions == 2


def test_rows_are_split_by_model(store: Store) -> None:
    add_session(store, "a", answer(), answer(model="unknown"))
    rows = store.usage.collect("day", split="model").rows
    assert [(row.key, row.split, row.figures.cost) for row in rows] == [
        ("2026-01-05", "big-1", 1_500),
        ("2026-01-05", "unknown", None),
    ]


def test_turns_calls_and_time_are_split_by_model_and_agent(store: Store) -> None:
    def turn(model: str, *, error: bool = False) -> list[NewEntry]:
        """Return a turn of ten seconds with one call."""
        call, result = ToolCall("c", "Read", {}), ToolResult("c", "", error)
        made = NewEntry(role="assistant", parts=(call,), model=model, created_at="2026-01-05T10:00:05.000Z")
        returned = NewEntry(role="tool", parts=(result,), created_at="2026-01-05T10:00:06.000Z", is_prompt=False)
        said = answer("2026-01-05T10:00:10.000Z", model=model)
        said.model = model
        return [prompt(), made, returned, said]

    add_session(store, "one", *turn("big-1"), *turn("big-1", error=True), source="claude")
    add_session(store, "both", *turn("big-1"), *turn("big-2"), source="codex")

    def find(split: str) -> dict[str, tuple[int, ...]]:
        found = store.usage.collect("day", split=split)
        whole = store.usage.collect("day")
        assert found.totals == whole.totals
        return {
            row.split: (row.figures.turns, row.figures.tool_calls, row.figures.errors, row.figures.active_seconds)
            for row in found.rows
        }

    assert find("model") == {"big-1": (3, 3, 1, 30), "big-2": (1, 1, 0, 10)}
    assert find("agent") == {"claude": (2, 2, 1, 20), "codex": (2, 2, 0, 20)}


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


def test_subagents_that_started_each_other_are_counted(store: Store) -> None:
    add_session(store, "a", prompt(), answer(), parent_id="b", relation="delegate")
    add_session(store, "b", prompt(), answer(), parent_id="a", relation="delegate")
    add_session(store, "c", prompt(), answer(), parent_id="c", relation="sidechain")
    found = store.usage.collect("session")
    assert {row.key: row.figures.cost for row in found.rows} == {"a": 1_500, "b": 1_500, "c": 1_500}
    assert found.totals.cost == 4_500


def test_subagents_roll_up_into_their_parent_and_can_be_seen_apart(store: Store) -> None:
    parent = add_session(store, "a", prompt(), answer())
    add_session(store, "b", prompt(), answer(), parent_id="a", relation="delegate", forked_at=1)
    add_session(store, "c", prompt(), answer(), parent_id="b", relation="sidechain")
    add_session(store, "d", prompt(), answer(), parent_id="a", relation="fork")
    add_session(store, "e", prompt(), answer(), parent_id="missing", relation="delegate")
    by_session = {row.key: row.figures.cost for row in store.usage.collect("session").rows}
    assert by_session == {"a": 4_500, "d": 1_500, "e": 1_500}
    costs = store.usage.session_costs([parent])[parent]
    assert (costs.own.cost, costs.with_subagents.cost) == (1_500, 4_500)
    explanation = store.usage.of_session(store.sessions.get("a")).explain()
    assert (explanation.own.cost, explanation.with_subagents.cost) == (1_500, 4_500)
    assert [subagent.session_id for subagent in explanation.subagents] == ["b", "c"]
    of_turn = store.usage.of_session(store.sessions.get("a")).explain(1)
    assert [subagent.session_id for subagent in of_turn.subagents] == ["b"]


def test_parents_in_a_circle_do_not_hang(store: Store) -> None:
    key = add_session(store, "a", answer(), parent_id="b", relation="delegate")
    add_session(store, "b", answer(), parent_id="a", relation="delegate")
    assert store.usage.session_costs([key])[key].own.cost == 1_500
    assert store.usage.collect("session").totals.cost == 3_000
    assert store.usage.session_costs([key])[key].with_subagents.cost == 3_000


def test_an_explanation_names_rates_estimates_and_what_the_agent_reported(store: Store) -> None:
    estimated = answer(cache_write_5m=10, estimated=("cache_write_5m",), cost=777)
    add_session(store, "a", estimated, answer(input=2_000_000), answer(model="unknown"), cost=0.5)
    explanation = store.usage.of_session(store.sessions.get("a")).explain()
    long, short, unpriced = explanation.lines
    assert (long.over, long.cost, long.priced_as) == (1_000_000, 2 * (20_000_000 + 500), "acme/big")
    assert (short.over, short.cost, short.estimated) == (0, 1_000 + 120 + 500, ("cache_write_5m",))
    assert short.rates == TokenCounts(*(dollars * 1_000_000 for dollars in RATES.values()))
    assert short.reported_cost == 777
    assert (unpriced.rates, unpriced.cost, unpriced.tokens.total) == (None, None, 110)
    assert explanation.own.cost == (long.cost or 0) + (short.cost or 0)
    assert explanation.session_cost == 0.5
    assert (explanation.prices.version, explanation.prices.date) == ("7", "2999-01-01")


def test_a_turn_pays_for_the_context_of_earlier_turns(store: Store) -> None:
    first = answer(input=1_000, output=100)
    second = answer(input=200, cache_read=1_100, output=50)
    third = answer(input=100, cache_read=1_350, output=10)
    add_session(store, "a", prompt(), first, prompt(), second, prompt(), third)
    turns = store.usage.of_session(store.sessions.get("a")).turn_costs()
    assert [turn.cost for turn in turns] == [15_000, 2_000 + 1_100 + 2_500, 1_000 + 1_350 + 500]
    # The second turn carries the 1,100 tokens of the first, all of which were read from the cache.
    assert [turn.carried for turn in turns] == [0, 1_100, 1_350]
    assert [turn.own for turn in turns] == [15_000, 4_500, 1_500]
    # The first turn's 1,100 tokens are in two later requests, the second's 250 in one.
    assert [(turn.resent_tokens, turn.resent_times) for turn in turns] == [(2_200, 2), (250, 1), (0, 0)]
    assert sum(turn.share for turn in turns) == pytest.approx(1)


def test_a_fork_shows_what_its_inherited_turns_cost_and_carries_their_context(store: Store) -> None:
    add_session(store, "a", prompt(), answer(input=100, output=50), prompt(), answer(input=200, output=50))
    fork = store.sessions.fork(store.sessions.get("a"), 1, "b")
    store.chains.append(fork.key, [prompt(), answer(input=150, output=10)])
    other = store.sessions.fork(store.sessions.get("b"), 2, "c")
    for name in ("b", "c"):
        usage = store.usage.of_session(store.sessions.get(name))
        first, second = usage.turn_costs()
        assert (first.turn, first.tokens.total, first.cost) == (1, 150, 3_500)
        # 150 tokens were in the context: 100 of input and 50 of output.
        assert (second.turn, second.carried, second.own) == (2, 1_500, 500)
        explained = usage.explain()
        assert (explained.not_counted, explained.counted_in) == {"b": (1, ("a",)), "c": (2, ("a", "b"))}[name]
        assert [point.entry for point in usage.context()] == [
            key
            for (key,) in store.rows(
                "select key from entries where session = ? and role = 'assistant' order by seq",
                store.sessions.get(name).key,
            )
        ]
    assert store.row("select count(*) from usage where session = ?", other.key) == (0,)


def test_a_compaction_ends_what_is_carried(store: Store) -> None:
    big, small = answer(input=10_000, output=0), answer(input=500, output=0)
    compaction = NewEntry(kind="compaction", role="system", parts=(Text("summary"),), is_prompt=False)
    add_session(store, "a", prompt(), big, prompt(), big, compaction, prompt(), small)
    session = store.usage.of_session(store.sessions.get("a"))
    turns = session.turn_costs()
    assert [turn.resent_times for turn in turns] == [1, 0, 0]
    assert turns[2].carried == 0
    points = session.context()
    assert [(point.context, point.is_compacted, point.window) for point in points] == [
        (10_000, False, 1_000),
        (10_000, False, 1_000),
        (500, True, 1_000),
    ]


# ── rate tables ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"not json", "it is not JSON"),
        (b"[]", '"schema": 1'),
        (b'{"schema": 2}', '"schema": 1'),
        (b'{"schema": 1, "name": "x", "version": "1", "date": "soon", "providers": []}', '"date"'),
        (json.dumps(TABLE | {"providers": [{"id": "x"}]}).encode(), "patterns of x"),
        (json.dumps(TABLE).replace("10000000", "-1", 1).encode(), "a rate of big of acme"),
        (json.dumps(TABLE).replace("10000000", "1.5", 1).encode(), "a rate of big of acme"),
        (json.dumps(TABLE).replace("10000000", "99999999999", 1).encode(), "a rate of big of acme"),
        (json.dumps(TABLE).replace("50000000", "-1", 3).encode(), "a rate of big of acme"),
        (json.dumps(TABLE).replace('{"fast": [', "[[").replace("}]}", "}]]", 1).encode(), "other rates of big"),
        (json.dumps(TABLE).replace('"dated", "names": ["dated"', '"dated", "names": ["/(/"').encode(), "pattern"),
        (json.dumps(TABLE).replace('"window": 1000', '"window": "1k"').encode(), "window of big"),
        (json.dumps(TABLE).replace('"2026-03-01"', '""').encode(), "dated of acme has two rates"),
    ],
)
def test_a_file_that_is_no_rate_table_is_refused(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / "table.json"
    path.write_bytes(content)
    with pytest.raises(prices.BadValue, match=reason):
        prices.update_table(path)
    assert not prices.added_table_path().exists()


def test_an_older_table_than_the_baked_one_is_not_used(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text(json.dumps(TABLE | {"date": "2001-01-01"}))
    prices.update_table(path)
    assert prices.load_table().info.name == "genai-prices"


def test_a_table_that_was_damaged_later_is_named_with_what_to_do() -> None:
    path = prices.added_table_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("[")
    with pytest.raises(prices.StoreError, match=r"not JSON\. Remove it, or take another with `backscroll"):
        prices.load_table()


def test_the_baked_table_is_a_table_and_knows_the_common_models() -> None:
    table = prices.load_table()
    opus = table.find("anthropic", "claude-opus-4-8")
    assert opus is not None
    # Cache writes for an hour cost twice the input, those for five minutes a quarter more than it.
    assert opus.rates[-1].amounts[:4] == (5_000_000, 500_000, 6_250_000, 10_000_000)
    assert table.find("", "claude-sonnet-4-5-20250929") is not None
    assert table.find("openai", "gpt-5-codex") is not None
    assert table.find("openai", "no-such-model") is None
    assert table.find("", "") is None


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("gpt-5", "gpt-5", True),
        ("gpt-5", "gpt-5-mini", False),
        ("gpt-5*", "gpt-5-mini", True),
        ("*mini", "gpt-5-mini", True),
        ("*5*", "gpt-5-mini", True),
        ("GPT*", "gpt-5", True),
        (r"/^gpt-\d$/", "gpt-5", True),
        ("gpt*&*mini", "gpt-5-mini", True),
        ("gpt*&*mini", "gpt-5", False),
    ],
)
def test_patterns_of_model_names(pattern: str, name: str, expected: bool) -> None:
    assert prices.matches(pattern, name) is expected
