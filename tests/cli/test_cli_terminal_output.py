"""These tests compare a terminal, which gets sanitized text, with a pipe, which gets the exact text."""

from __future__ import annotations

import json
import re

import pytest
from command_line import CommandLine, add_upload_session

from store.store import Store

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
HOSTILE = ("\x1b", "\x07", "\x9b", "\u202e")


@pytest.fixture
def cli(store: Store) -> CommandLine:
    add_upload_session(store)
    return CommandLine(store.path)


@pytest.mark.parametrize(
    "args", [["show", "telegram"], ["show", "telegram", "--json"], ["show", "telegram", "--raw"], ["search", "closed"]]
)
def test_a_terminal_gets_no_control_sequences_of_a_conversation(cli: CommandLine, args: list[str]) -> None:
    shown = cli.run_in_terminal(*args)
    plain = COLOURS.sub("", shown.out)
    assert (shown.status, "Closed too early." in plain) == (0, True)
    assert [character for character in HOSTILE if character in plain] == []


def test_a_pipe_gets_the_exact_text(cli: CommandLine) -> None:
    text = "Closed too early.\x1b]52;c;aGk=\x07\x9b2J\u202e"
    assert text in cli("show", "telegram").lines
    assert cli("search", "closed").rows[0][-1] == text
    assert cli("show", "telegram", "--json").json["turns"][1]["entries"][-1]["text"] == text
    assert json.loads(cli("show", "telegram", "--raw").lines[4]) == {"role": "assistant", "content": text}


def test_a_list_is_aligned_and_fits_the_terminal(cli: CommandLine, store: Store) -> None:
    store.create_session("5f1c9e04-93c7-4c1e-8f8e-0c8d1a9d3b11", agent_title="宽" * 200)
    heading, *rows = COLOURS.sub("", cli.run_in_terminal("list").out).splitlines()
    assert heading.split() == ["ID", "AGE", "SOURCE", "TURNS", "CALLS", "ERR", "TITLE"]
    column = heading.index("TITLE")
    assert rows[0].startswith("5f1c9e04 ")
    assert rows[0].index("宽") == rows[1].index("Fix the upload") == column
    assert rows[0].count("宽") * 2 + column <= 100


def test_a_short_id_is_long_enough_to_be_found(cli: CommandLine, store: Store) -> None:
    twins = ["5f1c9e04-93c7-4c1e-8f8e-0c8d1a9d3b11", "5f1c9e04-93c7-4c1e-8f8e-ffffffffffff"]
    for native in twins:
        store.create_session(f"claude:{native}", source="claude", native_id=native)
    names = [line.split()[0] for line in COLOURS.sub("", cli.run_in_terminal("list").out).splitlines()[1:]]
    assert names == ["5f1c9e04-93c7-4c1e-8f8e-f", "5f1c9e04-93c7-4c1e-8f8e-0", "telegram:648079060"]
    assert [store.sessions.find(name).native_id for name in names[:2]] == twins[::-1]


def test_one_native_id_in_two_stores_is_named_in_full(cli: CommandLine, store: Store) -> None:
    for suffix in ("aaaa", "bbbb"):
        store.create_session(f"kiso:default@{suffix}", source="kiso", native_id="default")
    names = [line.split()[0] for line in COLOURS.sub("", cli.run_in_terminal("list").out).splitlines()[1:]]
    assert names[:2] == ["kiso:default@bbbb", "kiso:default@aaaa"]


def test_long_outputs_are_folded_on_a_terminal_only(cli: CommandLine) -> None:
    shown = COLOURS.sub("", cli.run_in_terminal("show", "telegram").out)
    assert "  │     line 5\n" in shown
    assert "… 34 more lines" in shown
    assert "line 6" not in shown
    assert "  │     line 39\n" in cli("show", "telegram").out


def test_colours_can_be_turned_off(cli: CommandLine) -> None:
    assert COLOURS.search(cli.run_in_terminal("list").out)
    assert not COLOURS.search(cli.run_in_terminal("list", NO_COLOR="1").out)


def test_a_secret_is_asked_for_and_shown_on_a_terminal(cli: CommandLine) -> None:
    typed = [("Value", "hunter2"), ("confirmation", "hunter2")]
    sealed = cli.run_in_terminal("secrets", "set", "telegram", "token", answers=typed)
    assert sealed.status == 0
    assert "hunter2" not in sealed.out
    assert cli.run_in_terminal("secrets", "get", "telegram", "token").lines == ["hunter2"]


def test_a_passphrase_is_asked_for_when_the_secrets_are_locked(cli: CommandLine, store: Store) -> None:
    store.set_secret("telegram:648079060", "token", "hunter2")
    store.secrets.use_passphrase("correct horse")
    unlocked = cli.run_in_terminal("secrets", "get", "telegram", "token", answers=[("Passphrase", "correct horse")])
    assert (unlocked.status, unlocked.lines[-1]) == (0, "hunter2")
    refused = cli.run_in_terminal("secrets", "get", "telegram", "token", answers=[("Passphrase", "wrong")])
    assert refused.status == 1
    assert "hunter2" not in refused.out


def test_an_interrupt_exits_without_a_traceback(cli: CommandLine) -> None:
    ran = cli.run_in_terminal("secrets", "set", "telegram", "token", answers=[("Value", "\x03")])
    assert ran.status == 130
    assert "Traceback" not in ran.out


def test_a_purge_asks_first(cli: CommandLine, store: Store) -> None:
    assert cli.run_in_terminal("purge", "telegram", answers=[("permanently?", "n")]).status == 1
    assert store.sessions.find("telegram").turns == 2
    assert cli.run_in_terminal("purge", "telegram", answers=[("permanently?", "y")]).status == 0
    assert store.sessions.matching("") == ([], 0)
