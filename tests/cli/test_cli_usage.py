"""These tests check the commands `stats`, `cost` and `prices`, and the order of `list`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import CommandLine

from store.cli.usage.money import format_tokens
from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.model.usage import Usage
from store.paths import config_file
from store.store import Store

OPUS = {"model": "claude-opus-4-8", "provider": "anthropic"}


@pytest.fixture
def cli(store: Store) -> CommandLine:
    """Fill a store: one session with a sub-agent, and one with an unknown model."""

    def add(name: str, *usages: Usage, **fields: object) -> None:
        key = store.sessions.create(name, **fields).key  # type: ignore[arg-type]
        for number, usage in enumerate(usages):
            at = f"2026-0{number + 1}-10T12:00:00.000Z"
            store.chains.append(
                key,
                [
                    NewEntry(role="user", parts=(Text("go"),), created_at=at),
                    NewEntry(
                        role="assistant",
                        parts=(ToolCall(f"c{number}", "bash", {}),),
                        model=usage.model,
                        created_at=at,
                        usage=usage,
                    ),
                    NewEntry(role="tool", parts=(ToolResult(f"c{number}", "", is_error=True),), created_at=at),
                ],
            )

    add("first", Usage(1_000, 2_000, 300, 400, 50, 5, **OPUS), Usage(1_000, output=10, **OPUS), cost=0.25)
    add("helper", Usage(100, output=10, **OPUS), parent_id="first", relation="delegate")
    add("other", Usage(7_000, output=3, model="mystery"))
    return CommandLine(store.path)


# 1,000 x 5 + 2,000 x 0.50 + 300 x 6.25 + 400 x 10 + 50 x 25 dollars per million
FIRST_RESPONSE = 0.005 + 0.001 + 0.001875 + 0.004 + 0.00125
SECOND_RESPONSE = 0.005 + 0.00025
HELPER = 0.0005 + 0.00025


def test_stats_in_json_has_the_promised_fields(cli: CommandLine) -> None:
    found = cli("stats", "--by", "month", "--json").json
    assert found["by"] == "month"
    assert [row["key"] for row in found["rows"]] == ["2026-01", "2026-02"]
    first = found["rows"][0]
    assert (first["sessions"], first["turns"], first["tool_calls"], first["errors"]) == (3, 3, 3, 3)
    assert first["tokens"] == {
        "input": 8_100,
        "cache_read": 2_000,
        "cache_write_5m": 300,
        "cache_write_1h": 400,
        "output": 63,
        "reasoning": 5,
        "total": 10_863,
    }
    assert first["cost_usd"] == round(FIRST_RESPONSE + HELPER, 6)
    assert (first["unpriced_tokens"], first["estimated"]) == (7_003, False)
    assert found["totals"]["cost_usd"] == round(FIRST_RESPONSE + SECOND_RESPONSE + HELPER, 6)
    assert found["prices"].keys() >= {"version", "digest", "date"}


@pytest.mark.parametrize("by", ["day", "week", "month", "hour", "model", "agent", "folder", "tool", "session"])
def test_stats_has_the_same_totals_whatever_the_rows_are(cli: CommandLine, by: str) -> None:
    totals = cli("stats", "--by", by, "--json").json["totals"]
    assert totals == cli("stats", "--json").json["totals"]


def test_stats_of_a_period_and_of_a_query(cli: CommandLine) -> None:
    february = cli("stats", "--since", "2026-02-01", "--json").json["totals"]
    assert february["cost_usd"] == round(SECOND_RESPONSE, 6)
    january = cli("stats", "--until", "2026-01", "--json").json["totals"]
    assert january["turns"] == 3
    assert cli("stats", "--until", "2026-01-10", "--json").json["totals"] == january
    assert cli("stats", "is:delegate", "--json").json["totals"]["cost_usd"] == round(HELPER, 6)


def test_stats_of_words_in_tool_calls(cli: CommandLine) -> None:
    assert cli("stats", "bash", "--json").json["totals"]["sessions"] == 3
    corrected = cli("stats", "bashh", "--json")
    assert corrected.json["totals"]["sessions"] == 3
    assert corrected.json["instead"] == [{"typed": "bashh", "shown": "bash"}]
    assert "nothing for" in corrected.err


def test_the_end_of_time_is_no_end(cli: CommandLine) -> None:
    totals = cli("stats", "--json").json["totals"]
    for until in ("9999", "9999-12", "9999-12-31"):
        assert cli("stats", "--until", until, "--json").json["totals"] == totals


def test_stats_as_a_table(cli: CommandLine) -> None:
    result = cli("stats", "--by", "model")
    assert [row[0] for row in result.rows] == ["claude-opus-4-8", "mystery", "total"]
    assert [row[9] for row in result.rows] == ["0.019125", "unpriced", "0.019125"]
    assert "API value by genai-prices" in result.err


def test_a_date_that_is_none_is_wrong_usage(cli: CommandLine) -> None:
    result = cli("stats", "--since", "someday")
    assert result.status == 2
    assert "is no date" in result.err


def test_cost_explains_a_session(cli: CommandLine) -> None:
    found = cli("cost", "first", "--json").json
    (line,) = found["lines"]
    assert line["rates"]["cache_write_1h"] == 10
    assert line["cost_usd"] == round(FIRST_RESPONSE + SECOND_RESPONSE, 6)
    assert found["own"]["cost_usd"] == line["cost_usd"]
    assert found["total"]["cost_usd"] == round(FIRST_RESPONSE + SECOND_RESPONSE + HELPER, 6)
    assert [subagent["session"] for subagent in found["subagents"]] == ["helper"]
    assert found["reported_cost_usd"] == 0.25
    assert [turn["n"] for turn in found["turns"]] == [1, 2]
    for turn in found["turns"]:
        assert turn["own_usd"] + turn["carried_usd"] == pytest.approx(turn["cost_usd"])


def test_cost_explains_a_turn(cli: CommandLine) -> None:
    found = cli("cost", "first", "--turn", "2", "--json").json
    assert found["own"]["cost_usd"] == round(SECOND_RESPONSE, 6)
    assert cli("cost", "first", "--turn", "9").status == 1


def test_cost_names_waste(cli: CommandLine, store: Store) -> None:
    assert cli("cost", "first", "--json").json["waste"] == []
    session = store.sessions.get("other")
    for number in range(3):
        call, result = (
            ToolCall(f"w{number}", "bash", {"command": "make"}),
            ToolResult(f"w{number}", "no", is_error=True),
        )
        store.chains.append(
            session.key,
            [NewEntry(role="assistant", parts=(call,)), NewEntry(role="tool", parts=(result,), is_prompt=False)],
        )
    (waste,) = cli("cost", "other", "--json").json["waste"]
    assert {"kind": "command failed again", "turns": [1], "subject": "make", "count": 3}.items() <= waste.items()
    assert ["command failed again", "3", "~1", "1", "make"] in cli("cost", "other").rows


def test_cost_says_which_tool_results_were_sent_again(cli: CommandLine, store: Store) -> None:
    assert cli("cost", "first", "--json").json["resent_results"] == []
    answer = NewEntry(role="assistant", parts=(Text("ok"),), usage=Usage(10, 20_000, output=5, **OPUS))
    result = NewEntry(role="tool", parts=(ToolResult("r", "x" * 40_000),), is_prompt=False)
    call = NewEntry(role="assistant", parts=(ToolCall("r", "Read", {}),))
    store.chains.append(store.sessions.get("first").key, [call, result, answer, answer, answer])
    (found,) = cli("cost", "first", "--json").json["resent_results"]
    assert found.pop("entry").startswith("first#")
    assert found == {
        "tool": "Read",
        "turn": 2,
        "tokens": 10_000,
        "times": 2,
        "total_tokens": 20_000,
        "cost_usd": 0.01,
        "estimated": True,
    }
    assert ["Read", "2", "~10000", "2 times", "~20000"] in cli("cost", "first", "--turn", "2").rows
    assert cli("cost", "first", "--turn", "1", "--json").json["resent_results"] == []


def test_cost_as_text(cli: CommandLine) -> None:
    lines = cli("cost", "first").lines
    assert "\t".join(["", "", "cache write 1h", "400", "10", "0.004000", "anthropic/claude-opus-4-8"]) in lines
    assert "0.250000 reported by the agent for the session" in lines
    assert "unpriced" in cli("cost", "other").out


def test_cost_of_a_copy_names_the_session_that_counts_its_responses(cli: CommandLine, store: Store) -> None:
    usage = Usage(1_000, output=10, response_id="msg_01ABCDEFGHIJKLMNOP", **OPUS)
    for name in ("original", "copy"):
        answer = NewEntry(role="assistant", parts=(Text("ok"),), usage=usage)
        store.chains.append(store.sessions.create(name).key, [answer])
    note = "1 response counted in original and not here: both have the same."
    assert note in cli("cost", "copy").err
    store.chains.append(
        store.sessions.create("helper of a copy", parent_id="copy", relation="delegate").key,
        [NewEntry(role="assistant", parts=(Text("ok"),), usage=Usage(100, output=10, **OPUS))],
    )
    lines = cli("cost", "copy").lines
    assert note in lines
    assert "0.000750  total with sub-agents: 110 tokens" in lines
    assert not any("own" in line for line in lines)
    assert cli("cost", "copy", "--json").json["counted_in"] == ["original"]


def test_cost_says_how_full_the_context_was(cli: CommandLine, store: Store) -> None:
    compaction = NewEntry(kind="compaction", parts=(Text("summary"),))
    answer = NewEntry(role="assistant", parts=(Text("ok"),), usage=Usage(20_000, output=5, **OPUS))
    store.chains.append(store.sessions.get("first").key, [compaction, answer])
    points = cli("cost", "first", "--json").json["context"]
    assert [(point["turn"], point["tokens"], point["window"], point["compacted"]) for point in points] == [
        (1, 3_700, 1_000_000, False),
        (2, 1_000, 1_000_000, False),
        (2, 20_000, 1_000_000, True),
    ]
    assert all(point["entry"].startswith("first#") for point in points)
    text = cli("cost", "first")
    assert "largest context: 20000 2% of 1000000, turn 2; compacted before responses of turn 2" in text.lines
    assert [row[-1] for row in text.rows if row[0] in ("1", "2")] == ["3700 0%", "20000 2%"]
    assert len(cli("cost", "first", "--turn", "1", "--json").json["context"]) == 1


def test_the_items_of_a_cost_add_up_to_it(cli: CommandLine, store: Store) -> None:
    tiny = NewEntry(role="assistant", parts=(Text("ok"),), usage=Usage(0, 0, 10, output=0, **OPUS))
    store.chains.append(store.sessions.create("tiny").key, [tiny] * 4)
    # Ten tokens at 6.25 dollars per million are 62.5 millionths, which is rounded up for each response.
    rows = cli("cost", "tiny").rows
    assert [row[3:6] for row in rows[:2]] == [["40", "6.25", "0.000250"], ["", "", "+0.000002"]]
    assert rows[1][2] == "rounding"
    (line,) = cli("cost", "tiny", "--json").json["lines"]
    assert line["cost_usd"] == 0.000252
    assert line["absent"] == ["cache_write_1h", "reasoning"]


def test_a_row_without_tokens_is_not_called_unpriced(cli: CommandLine) -> None:
    rows = {row[0]: row for row in cli("stats", "--by", "tool").rows}
    assert rows["bash"][9:] == ["", ""]
    rows = {row[0]: row for row in cli("stats", "--by", "model").rows}
    assert rows["mystery"][9:] == ["unpriced", "7003"]


def test_list_has_tokens_by_kind_and_the_api_value(cli: CommandLine) -> None:
    sessions = {session["id"]: session for session in cli("list", "--json").json["sessions"]}
    assert sessions["first"]["cost_usd"] == round(FIRST_RESPONSE + SECOND_RESPONSE, 6)
    assert sessions["first"]["cost"] == 0.25
    assert sessions["first"]["tokens"]["cache_write_1h"] == 400
    assert sessions["first"]["tokens"]["reasoning"] == 5
    assert sessions["other"]["cost_usd"] is None


def test_list_is_sorted_by_cost(cli: CommandLine) -> None:
    assert [row[0] for row in cli("list", "--sort", "cost").rows] == ["first", "helper", "other"]


@pytest.mark.parametrize(("columns", "kinds"), [("80", False), ("160", True)])
def test_tables_fit_into_the_terminal(cli: CommandLine, columns: str, kinds: bool) -> None:
    stats = cli.run_in_terminal("stats", "--by", "model", COLUMNS=columns, NO_COLOR="1")
    assert ("CACHE READ" in stats.out) is kinds
    assert ("TOKENS" in stats.out) is not kinds
    cost = cli.run_in_terminal("cost", "first", COLUMNS=columns, NO_COLOR="1")
    assert "claude-opus-4-8: 2 responses, anthropic/claude-opus-4-8" in cost.out
    assert "cache write 1h     400             10    $0.0040" in cost.out
    for shown in (stats, cost):
        assert max(map(len, shown.lines)) <= int(columns)


@pytest.mark.parametrize(
    ("count", "text"), [(9_999, "9,999"), (12_345, "12.3k"), (1_539_600, "1.5M"), (2_000_000_000, "2.0G")]
)
def test_a_terminal_shows_short_numbers_of_tokens(count: int, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.cli.output.stdout_is_terminal", lambda: True)
    assert format_tokens(count) == text


def test_prices_lists_and_finds_models(cli: CommandLine) -> None:
    found = cli("prices", "claude-opus-4-8", "--json").json
    assert {"provider": "anthropic", "model": "claude-opus-4-8"}.items() <= found["models"][0].items()
    assert found["models"][0]["rates"][0]["input"] == 5
    assert len(cli("prices").lines) > 1_000
    assert cli("prices", "no-such-model").status == 1


def test_prices_of_the_config_file_come_first(cli: CommandLine) -> None:
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text('[prices."mystery"]\ninput = 2\noutput = 3\n')
    assert cli("prices", "mystery").rows[0][0] == "config file"
    assert cli("cost", "other", "--json").json["own"]["cost_usd"] == 0.014009


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("prices = 3", "must be a section"),
        ("[prices.x]\ninput = 1", "must have input and output"),
        ("[prices.x]\ninput = 1\noutput = -1", "must be a number of dollars"),
        ("[prices.x]\ninput = 1\noutput = 1\nthinking = 1", "has no setting thinking"),
    ],
)
def test_wrong_prices_in_the_config_file_are_named(cli: CommandLine, text: str, problem: str) -> None:
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(text)
    result = cli("stats")
    assert result.status == 1
    assert problem in result.err


def test_prices_update_takes_a_table_or_says_why_not(cli: CommandLine, tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    path.write_text("{}")
    result = cli("prices", "update", str(path))
    assert result.status == 1
    assert "is no rate table" in result.err
    rates = dict.fromkeys(
        ["over", "input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning"], 1_000_000
    )
    model = {"id": "mystery", "names": ["myst*"], "rates": [rates | {"from": "", "over": 0}]}
    provider = {"id": "p", "names": [], "model_names": ["*"], "fallbacks": [], "models": [model]}
    table = {"schema": 1, "name": "mine", "version": "2", "date": "2999-12-31", "providers": [provider]}
    path.write_text(json.dumps(table))
    assert cli("prices", "update", str(path)).status == 0
    assert cli("cost", "other", "--json").json["own"]["cost_usd"] == 0.007003
    assert cli("stats", "--json").json["prices"]["version"] == "2"
