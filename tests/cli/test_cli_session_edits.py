"""These tests cover the commands that edit sessions. Each command is one undo, except `purge`."""

from __future__ import annotations

import pytest
from command_line import CommandLine, add_upload_session

from store.database.backup import create_backup
from store.model.session import Session
from store.store import Store

NAME = "telegram:648079060"


@pytest.fixture
def cli(store: Store) -> CommandLine:
    add_upload_session(store)
    return CommandLine(store.path)


def load_session(store: Store) -> Session:
    return store.sessions.get(NAME)


def test_title(cli: CommandLine, store: Store) -> None:
    assert cli("title", "telegram", "A better title").status == 0
    assert load_session(store).own_title == "A better title"
    assert cli("title", "telegram", "  ").status == 1
    assert cli("title", "telegram").status == 2
    assert cli("undo").status == 0
    assert load_session(store).own_title == ""


def test_tags(cli: CommandLine, store: Store) -> None:
    assert cli("tag", "telegram", "red", "blue").status == 0
    assert store.notes.tags(load_session(store)) == ["blue", "red"]
    assert cli("untag", "telegram", "red").status == 0
    assert store.notes.tags(load_session(store)) == ["blue"]
    assert cli("untag", "telegram", "green").status == 1
    assert cli("tag", "telegram").status == 2


def test_a_tag_with_blanks_is_one_tag(cli: CommandLine, store: Store) -> None:
    assert cli("tag", "telegram", "two words", "a,b", '"c, d"').status == 0
    assert store.notes.tags(load_session(store)) == ["a", "b", "c, d", "two words"]
    assert any(line.endswith('a, b, "c, d", "two words"') for line in cli("show", "telegram").lines)
    for query in ('tag:"two words"', "tag:two words", "tag:TWO WORDS"):
        assert cli("list", query).rows[0][0] == NAME
    assert cli("list", "tag:two pelicans").out == ""
    assert cli("untag", "telegram", "two words", "a, b").status == 0
    assert store.notes.tags(load_session(store)) == ["c, d"]
    assert cli("tag", "telegram", " , ").status == 1


def test_notes(cli: CommandLine, store: Store) -> None:
    number = cli("note", "telegram", "Ask Ada.", "--entry", "1").out.strip()
    (note,) = store.notes.notes(load_session(store))
    assert (str(note.id), note.text, note.entry) == (number, "Ask Ada.", f"{NAME}#1")
    assert f"note {number} on {NAME}#1  Ask Ada." in cli("show", "telegram").lines
    assert cli("unnote", number).status == 0
    assert store.notes.notes(load_session(store)) == []
    assert cli("unnote", number).status == 1
    assert cli("note", "telegram", "x", "--entry", "99").status == 1


def test_notes_are_listed_edited_and_deleted(cli: CommandLine, store: Store) -> None:
    assert cli("note", "telegram").err == "No notes found.\n"
    first, second = (cli("note", "telegram", text).out.strip() for text in ("Ask Ada.", "Later."))
    assert [[row[0], row[-1]] for row in cli("note", "telegram").rows] == [[first, "Ask Ada."], [second, "Later."]]
    assert cli("note", "telegram", "Ask Bob.", "--edit", first).status == 0
    assert cli("note", "telegram", "--delete", second).status == 0
    (note,) = cli("note", "telegram", "--json").json["notes"]
    assert (str(note["id"]), note["text"], note["entry"]) == (first, "Ask Bob.", None)
    added = cli("note", "telegram", "On the entry.", "--entry", "1", "--json").json["notes"][-1]
    assert (added["text"], added["entry"]) == ("On the entry.", f"{NAME}#1")
    assert cli("list", "bob").rows[0][0] == cli("list", "has:note").rows[0][0] == NAME
    assert cli("undo").status == 0
    assert len(store.notes.notes(load_session(store))) == 1


def test_wrong_use_of_note_changes_nothing(cli: CommandLine, store: Store) -> None:
    number = cli("note", "telegram", "Ask Ada.").out.strip()
    store.create_session("other")
    for status, *arguments in (
        (2, "telegram", "--edit", number),
        (2, "telegram", "--entry", "1"),
        (2, "telegram", "x", "--delete", number),
        (2, "telegram", "x", "--edit", number, "--entry", "1"),
        (1, "other", "x", "--edit", number),
        (1, "other", "--delete", number),
        (1, "telegram", "--delete", "99"),
        (1, "telegram", " ", "--edit", number),
    ):
        assert cli("note", *map(str, arguments)).status == status, arguments
    assert [note.text for note in store.notes.notes(load_session(store))] == ["Ask Ada."]


def test_flags_of_several_sessions_are_one_edit(cli: CommandLine, store: Store) -> None:
    store.create_session("other")
    for command, inverse, column in (("pin", "unpin", "pinned"), ("archive", "unarchive", "archived")):
        assert cli(command, "telegram", "other", "telegram").status == 0
        assert [getattr(store.sessions.get(name), column) for name in (NAME, "other")] == [1, 1]
        assert cli("undo").status == 0
        assert [getattr(store.sessions.get(name), column) for name in (NAME, "other")] == [0, 0]
        cli(command, "telegram")
        assert cli(inverse, "telegram").status == 0
        assert getattr(load_session(store), column) == 0


def test_nothing_is_done_when_one_of_several_is_unknown(cli: CommandLine, store: Store) -> None:
    assert cli("pin", "telegram", "nobody").status == 1
    assert cli("pin").status == 2
    assert load_session(store).pinned == 0


def test_delete_and_restore(cli: CommandLine, store: Store) -> None:
    assert cli("delete", "telegram").status == 0
    assert cli("list").out == ""
    assert cli("restore", "telegram").status == 0
    assert cli("list").rows[0][0] == NAME


def test_fork_prints_the_id_of_the_new_session(cli: CommandLine, store: Store) -> None:
    ran = cli("fork", "telegram", "--turn", "1")
    fork = store.sessions.get(ran.out.strip())
    assert (fork.parent_id, fork.relation) == (NAME, "fork")
    assert [turn.n for turn in store.chains.turns(fork.key)] == [0, 1]
    assert cli("fork", "telegram").status == 2
    assert cli("fork", "telegram", "--turn", "7").status == 1


# ── purge ─────────────────────────────────────────────────────────────────────────────────────────


def test_purge_without_a_terminal_needs_yes(cli: CommandLine, store: Store) -> None:
    refused = cli("purge", "telegram")
    assert refused.status == 1
    assert "--yes" in refused.err
    assert load_session(store).turns == 2
    assert cli("purge", "telegram", "--yes").status == 0
    assert cli("show", "telegram").status == 1
    assert cli("undo").status == 1


def test_purge_of_the_trash_leaves_the_rest(cli: CommandLine, store: Store) -> None:
    store.create_session("kept")
    assert cli("purge", "--trash", "--yes").err == "The trash is empty.\n"
    cli("delete", "telegram")
    assert cli("purge", "--trash", "--yes").status == 0
    assert [session.id for session in store.sessions.newest()] == ["kept"]
    assert store.sessions.trash() == []


def test_purge_names_sessions_or_the_trash(cli: CommandLine) -> None:
    assert cli("purge", "--yes").status == 2
    assert cli("purge", "telegram", "--trash", "--yes").status == 2


def test_purge_lists_the_backups_that_still_contain_the_session(cli: CommandLine, store: Store) -> None:
    containing = create_backup(store.path, store.connection)
    store.create_session("later")
    damaged = create_backup(store.path, store.connection)
    damaged.write_bytes(b"no database at all" * 100)
    messages = cli("purge", "later", "--yes").err
    assert str(containing) not in messages
    assert str(damaged) in messages
    assert str(containing) in cli("purge", "telegram", "--yes").err
