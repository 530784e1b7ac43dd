"""`backscroll fork`: the new id on stdout, talk on stderr, and a sentence where there is nothing to fork."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import CommandLine
from foreign_databases import sync_paths
from sample_conversations import conversation, prompts

from store.store import Store

CLAUDE = "claude:c1000000-0000-4000-8000-000000000001"


@pytest.fixture
def cli(store: Store) -> CommandLine:
    return CommandLine(store.path)


@pytest.fixture
def talk(store: Store) -> Store:
    conversation(store, "a", turns=3)
    return store


def test_the_id_is_printed_and_undo_takes_the_fork_away(cli: CommandLine, talk: Store) -> None:
    child = talk.sessions.get(cli("fork", "a", "--turn", "2").out.strip())
    assert (child.parent_id, prompts(talk, child)) == ("a", ["prompt 1 of a", "prompt 2 of a"])
    assert cli("undo").status == 0
    assert [one.id for one in talk.sessions.trash()] == [child.id]


def test_another_prompt_is_given_or_piped(cli: CommandLine, talk: Store) -> None:
    for number, ran in enumerate(
        [
            cli("fork", "a", "--turn", "1", "--prompt", "--help $(id)\n'x"),
            cli("fork", "a", "--turn", "1", "--prompt", "-", stdin="--help $(id)\n'x\n"),
        ]
    ):
        child = talk.sessions.get(ran.out.strip())
        assert prompts(talk, child) == ["--help $(id)\n'x"], number


def test_json_is_the_session_and_where_it_was_written(cli: CommandLine, talk: Store) -> None:
    told = json.loads(cli("fork", "a", "--turn", "1", "--json").out)
    assert (told["schema"], told["path"], told["session"]["parent_id"]) == (1, None, "a")


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (("a", "--turn", "9"), 1, "There is no turn 9; the last one is 3."),
        (("a", "--turn", "1", "--prompt", " "), 1, "The prompt is empty."),
        (("a", "--turn", "0", "--prompt", "x"), 1, "Turn 0 has no prompt to change"),
        (("a", "--turn", "1", "--native"), 1, "can only be forked in Backscroll"),
        (("b", "--turn", "1"), 1, "No session matches 'b'"),
        (("a", "--turn", "-1"), 2, "--turn"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    cli: CommandLine, talk: Store, arguments: tuple[str, ...], status: int, said: str
) -> None:
    ran = cli("fork", *arguments)
    assert (ran.status, ran.out) == (status, "")
    assert said in ran.err
    assert talk.sessions.children("a") == []


def test_a_native_fork_says_where_it_was_written(cli: CommandLine, store: Store, home: Path) -> None:
    sync_paths(store, Path(shutil.copytree(Path(__file__).parents[1] / "data/claude", home / ".claude")))
    told = json.loads(cli("fork", CLAUDE, "--turn", "1", "--native", "--json").out)
    assert Path(told["path"]).stem == told["session"]["native_id"]
    ran = cli("fork", told["session"]["id"], "--turn", "1", "--native", "--prompt", "Again")
    child = store.sessions.get(ran.out.strip())
    assert (child.parent_id, prompts(store, child)) == (told["session"]["id"], ["Again"])
    assert f"`backscroll resume {child.id}`" in ran.err
