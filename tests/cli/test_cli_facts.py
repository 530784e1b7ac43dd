"""These tests cover the commands `summary` and `facts`."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import CommandLine, add_upload_session

from store.store import Store

NAME = "telegram:648079060"
SUMMARY = {"id", "text", "up_to_turn", "origin", "current", "at"}
FACT = {
    "id",
    "text",
    "scope",
    "category",
    "session",
    "entry",
    "foreign_place",
    "foreign_text",
    "created_at",
    "updated_at",
    "retired_at",
}
EDIT = {"id", "kind", "at", "sessions", "changes", "undoes", "undone_by", "purged", "author"}


@pytest.fixture
def cli(store: Store) -> CommandLine:
    add_upload_session(store)
    return CommandLine(store.path)


# ── summaries ─────────────────────────────────────────────────────────────────────────────────────


def test_a_summary_is_set_and_shown(cli: CommandLine) -> None:
    empty = cli("summary", "telegram")
    assert (empty.status, empty.out) == (0, "")
    assert cli("summary", "telegram", "--json").json == {"schema": 1, "summary": None}
    assert cli("summary", "telegram", "--set", "The retry was late.", "--up-to", "1").status == 0
    assert cli("summary", "telegram").out == "The retry was late.\n"
    summary = cli("summary", "telegram", "--json").json["summary"]
    assert summary.keys() == SUMMARY
    assert (summary["text"], summary["up_to_turn"], summary["origin"], summary["current"]) == (
        "The retry was late.",
        1,
        "person",
        True,
    )


def test_a_summary_from_stdin_and_its_versions(cli: CommandLine) -> None:
    cli("summary", "telegram", "--set", "-", stdin="first\nof two lines\n")
    cli("summary", "telegram", "--set", "second")
    versions = cli("summary", "telegram", "--history", "--json").json["summaries"]
    assert [(version["text"], version["current"]) for version in versions] == [
        ("second", True),
        ("first\nof two lines", False),
    ]
    assert [row[-1] for row in cli("summary", "telegram", "--history").rows] == ["second", "first of two lines"]
    assert cli("summary", "telegram", "--put-back", str(versions[1]["id"])).status == 0
    assert cli("summary", "telegram").out == "first\nof two lines\n"


def test_a_newer_summary_of_the_agents_is_mentioned(cli: CommandLine, store: Store) -> None:
    session = store.sessions.get(NAME)
    store.summaries.set(session, "mine")
    newer = store.summaries.set(session, "the agent's", origin="source")
    ran = cli("summary", "telegram")
    assert ran.out == "mine\n"
    assert f"--put-back {newer.key}" in ran.err


@pytest.mark.parametrize(
    "args", [["--set", "x", "--history"], ["--up-to", "1"], ["--history", "--put-back", "1"], ["--up-to", "x"]]
)
def test_summary_options_that_do_not_go_together(cli: CommandLine, args: list[str]) -> None:
    assert cli("summary", "telegram", *args).status == 2


def test_a_summary_of_missing_turns_is_refused(cli: CommandLine) -> None:
    assert cli("summary", "telegram", "--set", "x", "--up-to", "99").status == 1


# ── facts ─────────────────────────────────────────────────────────────────────────────────────────


def test_facts_are_learnt_and_listed(cli: CommandLine) -> None:
    added = cli("facts", "add", "Uses SQLite.\nTabs are spaces.", "--category", "style")
    assert added.lines == ["1", "2"]
    scoped = cli("facts", "add", "Only here.", "--scope", f"session:{NAME}", "--session", "telegram", "--entry", "0")
    assert scoped.lines == ["3"]
    document = cli("facts", "--json").json
    assert document.keys() == {"schema", "facts"}
    assert all(fact.keys() == FACT for fact in document["facts"])
    assert [(fact["text"], fact["scope"], fact["entry"]) for fact in document["facts"]] == [
        ("Uses SQLite.", "global", None),
        ("Tabs are spaces.", "global", None),
        ("Only here.", f"session:{NAME}", f"{NAME}#0"),
    ]
    assert [row[0] for row in cli("facts", "--scope", "global").rows] == ["1", "2"]
    assert [row[-1] for row in cli("facts", "list", "--scope", f"session:{NAME}").rows] == ["Only here."]


def test_a_known_fact_is_not_learnt_twice(cli: CommandLine) -> None:
    cli("facts", "add", "Uses SQLite.")
    result = cli("facts", "add", "Uses SQLite.")
    assert (result.status, result.out, result.err) == (0, "", "Nothing to add. These facts are already known.\n")


def test_facts_are_edited_and_retired_and_remember_it(cli: CommandLine) -> None:
    cli("facts", "add", "Uses Flask.")
    assert cli("facts", "edit", "1", "Uses FastAPI.").status == 0
    assert cli("facts", "retire", "1").status == 0
    assert cli("facts").out == ""
    assert cli("facts", "--retired").rows[0][-1] == "Uses FastAPI."
    history = cli("facts", "history", "1", "--json").json["history"]
    assert [edit["kind"] for edit in history] == ["learn", "edit fact", "retire fact"]
    assert all(edit.keys() == EDIT for edit in history)
    assert "fact 1, text: Uses Flask. → Uses FastAPI." in cli("facts", "history", "1").out
    for args in (["edit", "9", "x"], ["retire", "9"], ["history", "9"]):
        assert cli("facts", *args).status == 1
    assert cli("facts", "retire", "x").status == 2
    assert cli("facts", "nonsense").status == 2


def test_consolidating_shows_the_difference_and_is_one_undo(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    cli("facts", "add", "Uses Flask.\nTabs.\nTwo people.")
    (tmp_path / "facts.txt").write_text("Uses FastAPI.\nTwo people.\n")
    shown = cli("facts", "consolidate", str(tmp_path / "facts.txt"), "--dry-run")
    assert {"-Uses Flask.", "-Tabs.", "+Uses FastAPI.", " Two people."} <= set(shown.lines)
    assert store.facts.blob() == "Uses Flask.\nTabs.\nTwo people."
    done = cli("facts", "consolidate", str(tmp_path / "facts.txt"))
    assert done.out == shown.out
    assert "1 changed, 0 added, 1 retired" in done.err
    assert store.facts.blob() == "Uses FastAPI.\nTwo people."
    cli("undo")
    assert store.facts.blob() == "Uses Flask.\nTabs.\nTwo people."


def test_consolidating_from_stdin_in_a_scope_of_its_own(cli: CommandLine, store: Store) -> None:
    cli("facts", "add", "Shared.")
    assert cli("facts", "consolidate", "-", "--scope", "app:shop", stdin="Sells tea.\n").status == 0
    assert (store.facts.blob(), store.facts.blob("app:shop")) == ("Shared.", "Sells tea.")


def test_consolidating_nothing_retires_nothing(cli: CommandLine, store: Store, tmp_path: Path) -> None:
    cli("facts", "add", "Shared.")
    assert cli("facts", "consolidate", "-", stdin=" \n").status == 1
    assert cli("facts", "consolidate", str(tmp_path / "nowhere.txt")).status == 3
    assert cli("facts", "consolidate", "-", stdin=b"half \xff\n").status == 1
    assert store.facts.blob() == "Shared."


def test_an_unknown_scope_is_refused(cli: CommandLine) -> None:
    assert cli("facts", "add", "x", "--scope", "planet:mars").status == 1
    assert cli("facts", "--scope", "planet:mars").status == 1


def test_facts_are_merged_categorised_and_brought_back(cli: CommandLine, store: Store) -> None:
    cli("facts", "add", "Flask.\nSQLite.\nTabs.")
    assert cli("facts", "categorise", "stack", "1", "2").status == 0
    assert [fact.category for fact in store.facts.current()] == ["stack", "stack", ""]
    assert cli("facts", "merge", "Flask and SQLite.", "1", "2").lines == ["1"]
    assert cli("facts", "retire", "1", "3").status == 0
    assert store.facts.blob() == ""
    assert cli("facts", "restore", "1").status == 0
    assert store.facts.blob() == "Flask and SQLite."
    for args in (["restore", "1"], ["merge", "alone", "1"], ["categorise", "x", "9"], ["write-back", "1"]):
        assert cli("facts", *args).status == 1


def test_too_many_facts_give_a_warning(cli: CommandLine, home: Path) -> None:
    config = home / ".config/backscroll/config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[facts]\nmax_lines = 1\n")
    cli("facts", "add", "one")
    assert cli("facts").err == ""
    cli("facts", "add", "two")
    assert "2 lines, more than the limit of 1" in cli("facts").err
    config.write_text('[facts]\nmax_lines = "many"\n')
    refused = cli("facts")
    assert (refused.status, "[facts] max_lines must be a whole number" in refused.err) == (1, True)
