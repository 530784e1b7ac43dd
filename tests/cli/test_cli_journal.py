"""These tests cover the commands `log`, `undo`, `publish`, `published`, `resolve` and `unpublish`."""

from __future__ import annotations

import pytest
from command_line import CommandLine, add_upload_session

from store.store import Store

EDIT = {"id", "kind", "at", "sessions", "changes", "undoes", "undone_by", "purged", "author"}
PUBLISHED = {"id", "session", "filename", "path", "created_at"}
NAME = "telegram:648079060"


@pytest.fixture
def cli(store: Store) -> CommandLine:
    add_upload_session(store)
    return CommandLine(store.path)


# ── the journal ───────────────────────────────────────────────────────────────────────────────────


def test_log_as_json(cli: CommandLine) -> None:
    cli("title", "telegram", "New")
    cli("undo")
    document = cli("log", "--json").json
    assert document.keys() == {"schema", "log"}
    undo, title = document["log"]
    assert undo.keys() == title.keys() == EDIT
    assert (title["kind"], title["sessions"], title["undone_by"]) == ("title", [NAME], undo["id"])
    assert (undo["kind"], undo["undoes"]) == ("undo", title["id"])
    (change,) = title["changes"]
    assert change.keys() == {"table", "key", "before", "after"}
    assert (change["before"], change["after"]) == ({"own_title": ""}, {"own_title": "New"})


def test_log_of_one_session(cli: CommandLine, store: Store) -> None:
    store.create_session("other")
    cli("pin", "telegram")
    cli("pin", "other")
    assert [edit["sessions"] for edit in cli("log", "telegram", "--json").json["log"]] == [[NAME]]
    assert len(cli("log", "--limit", "1", "--json").json["log"]) == 1


def test_log_shows_before_and_after(cli: CommandLine) -> None:
    cli("title", "telegram", "Old")
    cli("title", "telegram", "New")
    cli("tag", "telegram", "red")
    cli("untag", "telegram", "red")
    untag, removed_line, tag, added_line, title, changed_line = [
        line.strip() for line in cli("log", "--limit", "3").lines
    ]
    assert (untag.split()[:2], removed_line) == (["4", "untagged"], "- tag red")
    assert (tag.split()[:2], added_line) == (["3", "tagged"], "+ tag red")
    assert (title.split()[:3], changed_line) == (["2", "title", "changed"], "title: Old → New")


def test_log_shows_long_texts_line_by_line(cli: CommandLine) -> None:
    cli("title", "telegram", "same\nold\nsame again")
    cli("title", "telegram", "same\nnew\nsame again")
    lines = [line[4:] for line in cli("log", "--limit", "1").lines[1:]]
    assert lines == ["title: ", " same", "-old", "+new", " same again"]


def test_undo_by_number_and_of_nothing(cli: CommandLine, store: Store) -> None:
    assert cli("undo").status == 1
    assert cli("log").err == "No edits yet.\n"
    cli("pin", "telegram")
    cli("title", "telegram", "New")
    assert cli("undo", "1").status == 0
    assert (store.sessions.get(NAME).pinned, store.sessions.get(NAME).own_title) == (0, "New")
    assert cli("undo", "1").status == 1
    assert cli("undo", "99").status == 1
    assert cli("undo", "x").status == 2


def test_undo_with_later_also_undoes_dependent_edits(cli: CommandLine, store: Store) -> None:
    cli("title", "telegram", "one")
    cli("title", "telegram", "two")
    assert cli("undo", "1").status == 1
    assert cli("undo", "--with-later").status == 2
    assert cli("undo", "1", "--with-later").err.splitlines() == [
        "Undone: title “two” of “Fix the upload”.",
        "Undone: title “one” of “Fix the upload”.",
    ]
    assert store.sessions.get(NAME).own_title == ""


def test_an_undo_can_be_undone(cli: CommandLine, store: Store) -> None:
    cli("pin", "telegram")
    cli("undo")
    assert cli("undo", "2").status == 0
    assert store.sessions.get(NAME).pinned == 1


def test_the_log_of_a_purged_session_has_no_content(cli: CommandLine) -> None:
    cli("title", "telegram", "Very private")
    cli("purge", "telegram", "--yes")
    assert "purged" in cli("log").out
    assert "private" not in cli("log").out + cli("log", "--json").out
    assert cli("log", "--json").json["log"][0]["purged"] is True


# ── published files ───────────────────────────────────────────────────────────────────────────────


def test_a_file_is_published_and_withdrawn(cli: CommandLine, store: Store) -> None:
    file = store.path.parent / "report.txt"
    file.write_text("all is well")
    public_id = cli("publish", "telegram", "report.txt").out.strip()
    assert store.resolve(public_id) == file
    document = cli("published", "--json").json
    assert document.keys() == {"schema", "published"}
    (published,) = document["published"]
    assert published.keys() == PUBLISHED
    assert (published["id"], published["session"], published["path"]) == (public_id, NAME, str(file))
    assert cli("published", "telegram").rows[0][0] == public_id
    assert cli("unpublish", public_id).status == 0
    assert cli("published").out == ""
    assert cli("unpublish", public_id).status == 1


def test_resolve_prints_the_path_of_a_published_file(cli: CommandLine, store: Store) -> None:
    file = store.path.parent / "report.txt"
    file.write_text("all is well")
    public_id = cli("publish", "telegram", "report.txt").out.strip()
    assert cli("resolve", public_id).lines == [str(file)]
    file.unlink()
    file.symlink_to("/etc/passwd")
    ran = cli("resolve", public_id)
    assert (ran.status, ran.out) == (1, "")
    cli("unpublish", public_id)
    ran = cli("resolve", public_id)
    assert (ran.status, ran.out, ran.err) == (1, "", f"No such published file: '{public_id}'.\n")


def test_a_file_in_the_current_folder_is_found(cli: CommandLine, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = store.path.parent / "sub"
    folder.mkdir()
    (folder / "deep.txt").write_text("x")
    monkeypatch.chdir(folder)
    assert store.resolve(cli("publish", "telegram", "deep.txt").out.strip()) == folder / "deep.txt"


def test_only_files_of_the_session_are_published(cli: CommandLine) -> None:
    assert cli("publish", "telegram", __file__).status == 1
    assert cli("publish", "telegram", "nowhere.txt").status == 1
    assert cli("publish", "telegram").status == 2
    assert cli("published").out == ""
