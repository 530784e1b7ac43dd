"""These tests check values by key, and the key `facts`, which reads and writes the global facts."""

from __future__ import annotations

import pytest
from sample_conversations import insert_foreign_fact

from store.errors import BadValue, ChangedMeanwhile
from store.store import Store


def redo(store: Store, edit_id: int) -> None:
    store.journal.undo(store.journal.get(edit_id).undone_by)


def test_values_are_kept_by_key(store: Store) -> None:
    assert store.meta.get("colour") == ""
    assert store.meta.get("colour", "none") == "none"
    store.meta.set("colour", "red")
    store.meta.set("shape", "")
    assert (store.meta.get("colour"), store.meta.get("shape", "none")) == ("red", "")
    assert store.meta.keys() == ["colour", "shape"]


def test_a_new_key_can_be_undone_and_redone(store: Store) -> None:
    store.meta.set("colour", "red")
    edit = store.journal.undo()
    assert store.meta.keys() == []
    redo(store, edit.id)
    assert store.meta.get("colour") == "red"


def test_a_changed_value_can_be_undone_and_redone(store: Store) -> None:
    store.meta.set("colour", "red")
    store.meta.set("colour", "blue")
    edit = store.journal.undo()
    assert store.meta.get("colour") == "red"
    redo(store, edit.id)
    assert store.meta.get("colour") == "blue"


def test_the_same_value_writes_nothing(store: Store) -> None:
    store.meta.set("colour", "red")
    store.meta.set("colour", "red")
    assert len(store.journal.list_edits()) == 1


def test_a_value_that_changed_meanwhile_is_not_overwritten(store: Store) -> None:
    store.meta.set("colour", "red", seen="")
    with pytest.raises(ChangedMeanwhile) as conflict:
        store.meta.set("colour", "blue", seen="")
    assert conflict.value.current == "red"
    store.meta.set("colour", "blue", seen="red")
    assert store.meta.get("colour") == "blue"


@pytest.mark.parametrize("key", ["", "a\x00b", "\ud800", "x" * 70_000])
def test_a_bad_key_is_refused(store: Store, key: str) -> None:
    with pytest.raises(BadValue):
        store.meta.set(key, "x")
    with pytest.raises(BadValue):
        store.meta.get(key)


def test_values_are_kept_unchanged(store: Store) -> None:
    text = " a\x00b\r\n日本 🙂\n"
    store.meta.set("odd key / 日本", text)
    assert store.meta.get("odd key / 日本") == text
    with pytest.raises(BadValue, match="value"):
        store.meta.set("odd", "\udc00")


# ── facts ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_key_facts_returns_the_own_global_facts_as_lines(store: Store) -> None:
    assert store.meta.get("facts", "nothing yet") == "nothing yet"
    assert store.meta.keys() == []
    store.facts.learn("Uses SQLite.\nTeam: marco, anna.")
    store.facts.learn("anna's own", scope="user:bot/anna")
    insert_foreign_fact(store, "foreign")
    retired = store.facts.learn("No longer so.").facts[0]
    store.facts.retire(retired.id)
    assert store.meta.get("facts") == "Uses SQLite.\nTeam: marco, anna."
    assert store.meta.keys() == ["facts"]


def test_writing_facts_edits_only_changed_lines_and_no_other_scope(store: Store) -> None:
    store.facts.learn("Uses SQLite.\nTeam: marco.", category="project")
    store.facts.learn("anna's own", scope="user:bot/anna")
    store.meta.set("facts", "Uses SQLite.\nTeam: marco, anna.\n\nSnake case.\n")
    kept, edited, private, added = store.facts.current(None)
    assert (kept.id, edited.id, edited.text) == (1, 2, "Team: marco, anna.")
    assert (edited.category, private.text, added.text) == ("project", "anna's own", "Snake case.")
    assert store.row("select count(*) from meta") == (0,)


def test_writing_facts_can_be_undone_and_redone(store: Store) -> None:
    store.meta.set("facts", "a\nb")
    store.meta.set("facts", "b\nc")
    edit = store.journal.undo()
    assert store.meta.get("facts") == "a\nb"
    redo(store, edit.id)
    assert store.meta.get("facts") == "b\nc"


def test_reading_and_writing_back_writes_nothing(store: Store) -> None:
    store.meta.set("facts", "a\nb")
    store.meta.set("facts", store.meta.get("facts"))
    assert len(store.journal.list_edits()) == 1


def test_facts_that_changed_since_they_were_seen_are_not_overwritten(store: Store) -> None:
    store.meta.set("facts", "a", seen="")
    store.facts.learn("b")
    with pytest.raises(ChangedMeanwhile) as conflict:
        store.meta.set("facts", "", seen="a")
    assert conflict.value.current == "a\nb"


def test_one_bad_line_refuses_the_whole_text(store: Store) -> None:
    store.meta.set("facts", "a")
    with pytest.raises(BadValue):
        store.meta.set("facts", "b\nhalf \ud800")
    assert store.meta.get("facts") == "a"
