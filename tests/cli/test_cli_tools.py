"""These tests cover the command `tools`: order, statistics, filters and typo correction."""

from __future__ import annotations

import pytest
from command_line import CommandLine
from sample_conversations import make_call_entries

from store.model.entry import NewEntry, Text
from store.store import Store

TOOL_STATS_FIELDS = {"name", "calls", "failed", "share", "median_ms", "slowest_ms", "last_at"}


@pytest.fixture
def cli(store: Store) -> CommandLine:
    session = store.create_session("work")
    entries = [
        NewEntry(role="user", parts=(Text("please migrate the database"),)),
        *make_call_entries(1, "Bash", "narwhal", 100, failed=True),
        *make_call_entries(2, "Bash", "walrus", 300),
        *make_call_entries(3, "Bash", "dolphin", 9_000),
        *make_call_entries(4, "Read", "narwhal", 20),
        *make_call_entries(5, "Edit", "walrus", None, failed=True),
    ]
    store.chains.append(session.key, entries)
    return CommandLine(store.path)


def test_the_slowest_first_and_those_without_a_time_last(cli: CommandLine) -> None:
    rows = cli("tools", "--by", "slowest").rows
    assert [(row[5], row[4]) for row in rows] == [
        ("Bash", "9.0 s"),
        ("Bash", "0.3 s"),
        ("Bash", "0.1 s"),
        ("Read", "0.0 s"),
        ("Edit", ""),
    ]


def test_tools_by_name_the_most_used_or_the_most_failing_first(cli: CommandLine) -> None:
    assert [row[:5] + row[6:] for row in cli("tools", "--by", "used").rows] == [
        ["3", "1", "33.3%", "0.3 s", "9.0 s", "Bash"],
        ["1", "1", "100.0%", "", "", "Edit"],
        ["1", "0", "0.0%", "0.0 s", "0.0 s", "Read"],
    ]
    assert [row[6] for row in cli("tools", "--by", "failing").rows] == ["Edit", "Bash", "Read"]
    assert [row[6] for row in cli("tools", "--by", "slowest", "--summary").rows] == ["Bash", "Read", "Edit"]


def test_the_summary_covers_only_matching_calls(cli: CommandLine) -> None:
    document = cli("tools", "narwhal", "--summary", "--json").json
    assert [(stats["name"], stats["calls"], stats["failed"], stats["share"]) for stats in document["names"]] == [
        ("Bash", 1, 1, 1.0),
        ("Read", 1, 0, 0.0),
    ]
    assert all(stats.keys() == TOOL_STATS_FIELDS for stats in document["names"])
    assert [call["name"] for call in document["tools"]] == ["Read", "Bash"]
    assert document["total"] == 2


def test_filters_of_calls(cli: CommandLine) -> None:
    assert [row[5] for row in cli("tools", "tool:bash", "is:error", "after:2026-03-01").rows] == ["Bash"]
    assert cli("tools", "tool:bash", "is:error", "after:2026-03-02").out == ""
    assert cli("tools", "--by", "odd").status == 2
    assert cli("tools", "--limit", "2").err == "Showing 2 of 5 tool calls. Use --limit to see more.\n"


@pytest.mark.parametrize(
    ("command", "typed", "shown"),
    [
        ("list", "databsae", "database"),
        ("search", "databsae", "database"),
        ("search", "narwahl", "narwhal"),
        ("tools", "narwahl", "narwhal"),
        ("tools", "tool:bsah", "tool:bash"),
    ],
)
def test_a_typo_is_corrected_with_a_message(cli: CommandLine, command: str, typed: str, shown: str) -> None:
    ran = cli(command, typed)
    assert ran.err.startswith(f"Showing “{shown}”; nothing for “{typed}”.\n")
    assert ran.out == cli(command, shown).out != ""
    assert cli(command, typed, "--json").json["instead"] == [{"typed": typed, "shown": shown}]


def test_explain_prints_how_a_query_was_understood(cli: CommandLine) -> None:
    typed = ["--explain", "database", "OR", "whale", "after:2026-03-01", "--", "-is:pinned"]
    assert cli("search", *typed).err.startswith("Understood: “database” or “whale”, since Sun 1 Mar 2026, not pinned\n")
    assert cli("list", "--explain").err == "Understood: everything\n"
    document = cli("list", "database", "agent:", "--json").json
    assert (document["understood"], len(document["puzzles"]), document["instead"]) == ("“database”", 1, [])


def test_hits_in_conversations_and_in_tool_calls_are_kept_apart(cli: CommandLine, store: Store) -> None:
    for _ in range(5):
        store.append_message("work", "user", "a narwhal")
    document = cli("search", "narwhal", "--json", "--limit", "4").json
    assert [hit["field"] for hit in document["hits"]] == ["text", "text", "tool_result", "tool_result"]
    assert (document["totals"], document["total"]) == ({"conversation": 5, "tools": 4}, 9)
    assert {row[3] for row in cli("search", "narwhal", "--in", "conversation").rows} == {"text"}
    assert {row[3] for row in cli("search", "narwhal", "--in", "tools").rows} == {"tool_call", "tool_result"}
