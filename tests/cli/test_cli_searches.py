"""Tests the commands for saved searches, and `@name` in queries."""

from __future__ import annotations

import pytest
from command_line import CommandLine, add_upload_session

from store.search.saved_searches import RecentSearches
from store.store import Store


@pytest.fixture
def cli(store: Store) -> CommandLine:
    add_upload_session(store)
    store.create_session("other", source="codex")
    return CommandLine(store.path)


def test_searches_are_saved_listed_and_edited(cli: CommandLine) -> None:
    assert cli("searches").err.startswith("No saved searches yet. Run `backscroll searches save NAME QUERY`")
    assert cli("searches", "save", "fails", "is:error", "agent:claude").err.startswith("Saved @fails.")
    cli("searches", "pin", "@fails")
    fails = {"name": "fails", "query": "is:error agent:claude", "pinned": True}
    assert cli("searches", "--json").json["searches"] == [fails]
    assert cli("searches", "list").rows == [["@fails", "pinned", "is:error agent:claude"]]
    cli("searches", "unpin", "fails")
    cli("searches", "rename", "fails", "failed")
    assert cli("searches", "--json").json["searches"] == [{"name": "failed", "query": fails["query"], "pinned": False}]
    assert cli("searches", "delete", "failed").status == 0
    assert cli("searches", "--json").json["searches"] == []
    assert cli("undo").status == 0
    assert [search["name"] for search in cli("searches", "--json").json["searches"]] == ["failed"]


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(("save", "two words", "x"), 1), (("save", "a"), 2), (("save", "a", "is:banana"), 2), (("delete", "a"), 1)],
)
def test_mistakes_are_refused(cli: CommandLine, arguments: tuple[str, ...], status: int) -> None:
    ran = cli("searches", *arguments)
    assert (ran.status, ran.out) == (status, "")
    assert ran.err


@pytest.mark.parametrize("command", ["list", "search", "tools"])
def test_a_name_stands_for_its_search_in_every_query(cli: CommandLine, command: str) -> None:
    cli("searches", "save", "fails", "retry is:error")
    assert cli(command, "@fails").out == cli(command, "retry", "is:error").out
    assert cli(command, "@fails", "--json").json["understood"] == "“retry”, with failed calls"


def test_an_unknown_name_is_a_word_with_a_hint(cli: CommandLine) -> None:
    ran = cli("list", "@nope")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err == "No saved search is named 'nope', so @nope is a word.\nNo sessions found.\n"
    assert cli("list", "ada@nope @types/node").err == "No sessions found.\n"


def test_the_log_shows_a_saved_search_without_its_json(cli: CommandLine) -> None:
    cli("searches", "save", "bash-errors", "is:error tool:bash")
    cli("searches", "delete", "bash-errors")
    shown = cli("log").out
    assert "- search @bash-errors, query: is:error tool:bash" in shown
    assert "+ search @bash-errors, query: is:error tool:bash" in shown
    assert "{" not in shown


def test_recent_searches_are_listed_and_cleared(cli: CommandLine) -> None:
    RecentSearches().add("one")
    RecentSearches().add("two")
    assert cli("searches", "recent").lines == ["two", "one"]
    assert cli("searches", "recent", "--clear", "--json").json["recent"] == []
    assert cli("searches", "recent").err == "No recent searches.\n"
