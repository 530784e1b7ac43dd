"""These tests cover the commands `doctor` and `demo`."""

from __future__ import annotations

import random

import pytest
from command_line import CommandLine, FakeBrowser, add_upload_session

from store.store import Store


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


def test_a_sound_store_has_no_problems(cli: CommandLine, store: Store) -> None:
    store.create_session("sound")
    ran = cli("doctor")
    assert (ran.status, ran.out, ran.err) == (0, "", "No problems found.\n")
    assert cli("doctor", "--json").json == {"schema": 1, "problems": []}


def test_problems_are_listed_and_set_the_exit_status(cli: CommandLine, store: Store) -> None:
    session = add_upload_session(store)
    store.create_session("sound")
    store.connection.execute("update sessions set errors = 7 where key = ?", (session.key,))
    ran = cli("doctor", "telegram", "--json")
    assert ran.status == 1
    assert {"where": session.id, "reason": "It lists 7 errors, but has 1."} in ran.json["problems"]
    assert [session.id, "It lists 7 errors, but has 1."] in cli("doctor").rows
    assert cli("doctor", "sound").status == 0
    assert cli("doctor", "nobody").status == 1


def test_the_index_is_rebuilt(cli: CommandLine, store: Store) -> None:
    add_upload_session(store)
    store.connection.execute("insert into conversation_fts (conversation_fts) values ('delete-all')")
    assert cli("search", "retry").out == ""
    assert cli("doctor").status == 1
    assert "1 session" in cli("doctor", "--reindex").err
    assert cli("search", "retry", "--json").json["total"] == 1


def test_packing_makes_the_store_smaller_and_changes_nothing_else(cli: CommandLine, store: Store) -> None:
    session = store.create_session("long")
    rng = random.Random(1)
    texts = [" ".join(str(rng.randrange(5000)) for _ in range(2000)) for _ in range(100)]
    for text in texts:
        store.append_message("long", "user", text)
    shown = cli("show", session.id, "--json").json
    sizes = cli("pack", "--json").json
    assert sizes["before"] > sizes["after"] > 0
    assert cli("show", session.id, "--json").json == shown
    assert cli("search", texts[-1].split()[0], "--json").json["total"]
    assert cli("doctor").status == 0
    ran = cli("pack")
    assert (ran.status, ran.out) == (0, "")
    assert ran.err.startswith("The store has ")


def test_demo_fills_an_empty_store_and_no_other(cli: CommandLine, store: Store) -> None:
    browser = FakeBrowser()
    ran = cli("demo", browse=browser)
    assert ran.status == 0
    total = cli("list", "--json").json["total"]
    assert total > 5
    assert browser.paths == []
    assert cli("demo").status == 1
    assert cli("list", "--json").json["total"] == total


def test_every_session_of_the_demo_can_be_shown(cli: CommandLine, store: Store) -> None:
    cli("demo")
    for session in store.sessions.newest(1000):
        document = cli("show", session.id, "--json").json
        assert document["session"]["id"] == session.id
        assert cli("show", session.id).status == 0
        assert len(cli("show", session.id, "--raw").lines) >= 1
