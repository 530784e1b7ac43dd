"""These tests cover the command `fork`: the new id on stdout, messages and errors on stderr."""

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
def conversation_store(store: Store) -> Store:
    conversation(store, "a", turns=3)
    return store


def test_the_id_is_printed_and_undo_takes_the_fork_away(cli: CommandLine, conversation_store: Store) -> None:
    child = conversation_store.sessions.get(cli("fork", "a", "--turn", "2").out.strip())
    assert (child.parent_id, prompts(conversation_store, child)) == ("a", ["prompt 1 of a", "prompt 2 of a"])
    assert cli("undo").status == 0
    assert [session.id for session in conversation_store.sessions.trash()] == [child.id]


def test_another_prompt_is_given_or_piped(cli: CommandLine, conversation_store: Store) -> None:
    for number, ran in enumerate(
        [
            cli("fork", "a", "--turn", "1", "--prompt", "--help $(id)\n'x"),
            cli("fork", "a", "--turn", "1", "--prompt", "-", stdin="--help $(id)\n'x\n"),
        ]
    ):
        child = conversation_store.sessions.get(ran.out.strip())
        assert prompts(conversation_store, child) == ["--help $(id)\n'x"], number


def test_json_is_the_session_and_where_it_was_written(cli: CommandLine, conversation_store: Store) -> None:
    document = json.loads(cli("fork", "a", "--turn", "1", "--json").out)
    assert (document["schema"], document["path"], document["session"]["parent_id"]) == (1, None, "a")


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("a", "--turn", "9"), 1, "No such turn: 9. The last turn is 3."),
        (("a", "--turn", "1", "--prompt", " "), 1, "The prompt is empty."),
        (("a", "--turn", "0", "--prompt", "x"), 1, "Turn 0 has no prompt to change"),
        (("a", "--turn", "1", "--native"), 1, "can only be forked in Backscroll"),
        (("b", "--turn", "1"), 1, "No such session: 'b'"),
        (("a", "--turn", "-1"), 2, "--turn"),
    ],
)
def test_an_impossible_fork_is_refused_with_a_reason(
    cli: CommandLine, conversation_store: Store, arguments: tuple[str, ...], status: int, message: str
) -> None:
    ran = cli("fork", *arguments)
    assert (ran.status, ran.out) == (status, "")
    assert message in ran.err
    assert conversation_store.sessions.children("a") == []


def test_a_native_fork_says_where_it_was_written(cli: CommandLine, store: Store, home: Path) -> None:
    sync_paths(store, Path(shutil.copytree(Path(__file__).parents[1] / "data/claude", home / ".claude")))
    document = json.loads(cli("fork", CLAUDE, "--turn", "1", "--native", "--json").out)
    assert Path(document["path"]).stem == document["session"]["native_id"]
    ran = cli("fork", document["session"]["id"], "--turn", "1", "--native", "--prompt", "Again")
    child = store.sessions.get(ran.out.strip())
    assert (child.parent_id, prompts(store, child)) == (document["session"]["id"], ["Again"])
    assert f"`backscroll resume {child.id}`" in ran.err
