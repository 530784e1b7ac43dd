"""These tests check that every kind of edit is named in plain words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from browser_driver import fill_store

import store as store_package
from store.edits import wording
from store.edits.labels import label_edits
from store.edits.wording import KindWords, describe_edit, edit_label, edit_subject, report_undo
from store.leaks.redaction.redactions import REDACT
from store.memory.shared_facts import PULL, PUSH
from store.model.knowledge import Edit, EditLabels
from store.model.memory import Audience
from store.store import Store
from store.write_back.service import SEAL, WRITE_BACK

FUNCTIONS = {"edit", "_begin_edit", "_set_flag", "_write", "_insert_note", "_update"}
"""The functions that begin an edit of the kind that is their first argument."""


def find_kinds() -> Iterator[str]:
    """Yield the kinds that are written as strings somewhere in the store."""
    for path in Path(store_package.__file__ or "").parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in FUNCTIONS:
                for child in ast.walk(node.args[0]) if node.args else ():
                    if isinstance(child, ast.Constant) and isinstance(child.value, str):
                        yield child.value


def newest(store: Store) -> Edit:
    return store.journal.list_edits(limit=1)[0]


def describe(store: Store, edit: Edit) -> str:
    return describe_edit(edit, label_edits(store, [edit]))


def test_every_kind_has_words() -> None:
    found = set(find_kinds())
    assert {"title", "pin", "unpin", "learn", "share fact", "save search", "ignore leak"} <= found
    for kind in (*found, PUSH, PULL, REDACT, WRITE_BACK, SEAL):
        edit = Edit(1, kind, "", ("x",), (), None, None)
        assert describe_edit(edit, EditLabels({"x": "Fix login"}, {})) != edit_label(edit), kind


def test_no_label_is_longer_than_its_column() -> None:
    words: dict[str, KindWords] = wording._KINDS
    assert max(len(kind.label) for kind in words.values()) <= 19


def test_edits_of_a_session_name_its_title(store: Store) -> None:
    fill_store(store)
    session = store.sessions.get("claude:e0741090")
    store.sessions.set_title(session, "Fix login")
    titled = newest(store)
    assert describe(store, titled) == "title of “Fix login”"
    store.sessions.delete([session])
    assert describe(store, newest(store)) == "moving “Fix login” to the trash"
    store.notes.tag([session], ["red", "two words"])
    assert describe(store, newest(store)) == "tag “red, two words” on “Fix login”"
    store.secrets.set(session, "TOKEN", "hidden")
    assert describe(store, newest(store)) == "value of the secret “TOKEN” in “Fix login”"
    store.sessions.pin(store.sessions.newest(3))
    assert describe(store, newest(store)) == "pinning 3 sessions"
    store.sessions.purge([session])
    assert describe(store, store.journal.get(titled.id)) == "title of a deleted session"


def test_edits_that_belong_to_no_session_name_what_they_change(store: Store) -> None:
    (fact,) = store.facts.learn("Uses Flask.").facts
    store.facts.edit(fact.id, "Uses Flask.", category="stack")
    assert describe(store, newest(store)) == "editing the fact “Uses Flask.”"
    store.shared_facts.share([fact.id], Audience("claude", ""))
    shared = newest(store)
    assert describe(store, shared) == "sharing the fact “Uses Flask.”"
    assert report_undo(store.journal.undo(), label_edits(store, [shared])) == "Undone: sharing the fact “Uses Flask.”."
    store.proposals.reject(store.proposals.add("Tabs.", agent="claude"))
    assert describe(store, newest(store)) == "rejecting the proposal “Tabs.”"
    store.meta.set("colour", "red")
    assert edit_subject(newest(store), EditLabels({}, {})) == "colour"
