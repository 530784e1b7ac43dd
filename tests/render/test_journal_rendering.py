"""Tests how edits are described and rendered, without secret values and without control characters."""

from __future__ import annotations

from pathlib import Path

import pytest
from browser_driver import NOW, fill_store, time_ago
from kiso_database import LATEST_SCHEMA, KisoStore
from textual.content import Content
from write_back_roundtrip import WriteBackCase

from store.edits.labels import label_edit, label_edits
from store.edits.wording import describe_edit, edit_label, report_undo
from store.model.knowledge import Edit
from store.store import Store
from tui.render.journal_lines import (
    JournalColumns,
    build_edit_row,
    describe_later_edits,
    render_edit_page,
    render_edit_row,
)

HOSTILE = "\x1b]52;c;aGk=\x07 [b]bold[/b] \u202egnp.exe 日本語 " + "long " * 200


@pytest.fixture
def world(store: Store) -> Store:
    fill_store(store)
    return store


def newest_edit(store: Store) -> Edit:
    return store.journal.list_edits(limit=1)[0]


def render_page(store: Store, edit: Edit) -> list[str]:
    later = store.journal.list_dependent_edits(edit.id)
    return [line.plain for line in render_edit_page(edit, label_edit(store, edit), later, NOW)]


def render_row(store: Store, edit: Edit, width: int = 100) -> Content:
    row = build_edit_row(edit, label_edits(store, [edit]))
    return render_edit_row(row, NOW, width, JournalColumns.measure([row]))


def test_a_title_is_shown_before_and_after(world: Store) -> None:
    session = world.sessions.get("claude:e0741090")
    world.sessions.set_title(session, "Mine")
    world.sessions.set_title(session, "Better")
    edit = newest_edit(world)
    assert describe_edit(edit, label_edits(world, [edit])) == "title of “Better”"
    assert "  title: Mine → Better" in render_page(world, edit)
    first = world.journal.list_edits(limit=2)[1]
    assert f"Edit {edit.id} depends on it." in render_page(world, first)


def test_a_retired_fact_is_described_by_its_text(world: Store) -> None:
    (fact,) = world.facts.learn("CI runs on Jenkins.").facts
    world.facts.retire(fact.id)
    edit = newest_edit(world)
    assert describe_edit(edit, label_edits(world, [edit])) == "retiring the fact “CI runs on Jenkins.”"
    assert "  retired: no → yes" in render_page(world, edit)


def test_a_summary_is_shown_as_a_diff_to_the_previous_one(world: Store) -> None:
    session = world.sessions.get("claude:e0741090")
    world.summaries.set(session, "same\nold\nsame again")
    world.summaries.set(session, "same\nnew\nsame again", up_to_turn=1)
    lines = render_page(world, newest_edit(world))
    changed = ["summary", "    same", "  − old", "  + new", "    same again", "  covers turns up to 1"]
    assert lines[-6:] == changed
    world.journal.undo()
    assert render_page(world, newest_edit(world))[-3:-1] == ["  − new", "  + old"]


def test_a_long_text_is_shown_line_by_line(world: Store) -> None:
    world.notes.add_note(world.sessions.get("codex:0199aa"), "one\ntwo")
    assert render_page(world, newest_edit(world))[-3:] == ["  text: ", "  + one", "  + two"]


def test_a_secret_is_shown_only_by_its_name_and_version(world: Store) -> None:
    session = world.sessions.get("claude:e0741090")
    world.secrets.set(session, "API_KEY", "first-value")
    world.secrets.set(session, "API_KEY", "second-value")
    edit = newest_edit(world)
    lines = "\n".join(render_page(world, edit))
    assert describe_edit(edit, label_edits(world, [edit])).startswith("value of the secret “API_KEY” in “Fix the")
    assert "secret API_KEY, version 2" in lines
    assert "value" not in lines


def test_a_write_back_names_the_store_and_the_rows(store: Store, tmp_path: Path) -> None:
    kiso = KisoStore(tmp_path / "kiso.db", LATEST_SCHEMA)
    kiso.add_session("dev", description="Theirs")
    kiso.add_message("go", processed=0)
    case = WriteBackCase(store, kiso.path, "dev").set_title("Mine")
    case.write()
    lines = render_page(store, newest_edit(store))
    assert f"in the store {kiso.path}" in lines
    assert "  description: Theirs → Mine" in lines


def test_an_undone_edit_names_its_undo(world: Store) -> None:
    world.sessions.pin([world.sessions.get("codex:0199aa")])
    pinned = newest_edit(world)
    world.journal.undo()
    undo = newest_edit(world)
    pinned = world.journal.get(pinned.id)
    assert "  undone  " in render_row(world, pinned).plain
    assert edit_label(undo) == "undone: pinned"
    assert any(line.startswith("Undone by edit") for line in render_page(world, pinned))


def test_many_sessions_are_counted(world: Store) -> None:
    sessions = world.sessions.newest(10)
    world.sessions.archive(sessions)
    edit = newest_edit(world)
    row = build_edit_row(edit, label_edits(world, [edit]))
    assert row.sessions_label.endswith(f"and {len(sessions) - 5} more")


@pytest.mark.parametrize("width", [1, 20, 78, 140])
def test_a_row_fits_any_width(world: Store, width: int) -> None:
    session = world.sessions.get("claude:e0741090")
    world.sessions.set_title(session, HOSTILE)
    world.notes.tag([session], ["日本語" * 20])
    for edit in world.journal.list_edits():
        line = render_row(world, edit, width)
        assert line.cell_length <= width
        assert_harmless(line)


def test_control_characters_are_shown_as_symbols(world: Store) -> None:
    world.sessions.set_title(world.sessions.get("claude:e0741090"), HOSTILE)
    world.facts.learn("\x1b[2J" + "x" * 3_000)
    for edit in world.journal.list_edits(limit=2):
        for line in render_edit_page(edit, label_edits(world, [edit]), [], NOW):
            for part in line.wrap(80):
                assert_harmless(part)


def test_the_columns_of_short_texts_leave_room_for_long_ones(world: Store) -> None:
    title = "The sessions of the whole week, with a long title"
    world.sessions.set_title(world.sessions.get("codex:0199aa"), title)
    world.sessions.pin([world.sessions.get("codex:0199aa")])
    assert f"pinned  {title}" in render_row(world, newest_edit(world), 78).plain
    world.facts.learn("The staging database is read-only on Fridays.")
    assert "The staging database is read-only on Fridays." in render_row(world, newest_edit(world), 85).plain


def test_an_undo_says_what_it_undid_and_what_was_done_again(world: Store) -> None:
    world.facts.learn("Uses FastAPI")
    first = newest_edit(world)
    world.journal.undo()
    undo = newest_edit(world)
    world.journal.undo(undo.id)
    redo = newest_edit(world)
    assert [edit_label(edit) for edit in (first, undo, redo)] == [
        "fact added",
        "undone: fact added",
        "redone: fact added",
    ]
    names = label_edits(world, [first, undo, redo])
    assert report_undo(first, names) == "Undone: new fact “Uses FastAPI”."
    assert report_undo(undo, names) == "Done again: new fact “Uses FastAPI”."
    assert report_undo(redo, names) == "Undone: new fact “Uses FastAPI”."


def test_a_filter_finds_what_is_shown(world: Store) -> None:
    world.facts.learn("Uses FastAPI")
    edit = newest_edit(world)
    row = build_edit_row(edit, label_edits(world, [edit]))
    assert row.matches(["fastapi", "added"])
    assert not row.matches(["fastapi", "undone"])


def test_dependent_edits_are_named() -> None:
    def make_edits(*numbers: int) -> list[Edit]:
        return [Edit(number, "title", time_ago(), (), (), None, None) for number in numbers]

    assert describe_later_edits(make_edits(7)) == "Edit 7 depends on it."
    assert describe_later_edits(make_edits(9, 7)) == "Edits 7 and 9 depend on it."
    assert describe_later_edits(make_edits(*range(19, 10, -1))) == "Edits 11, 12, 13, 14, 15 and 4 more depend on it."


def assert_harmless(line: Content) -> None:
    assert not any(character in line.plain for character in "\x1b\x07\u202e\x9b")
    assert "@click" not in line.markup
