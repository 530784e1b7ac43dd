"""Tests how the list with pins and notes, a conversation with notes, the trash and its confirmation look."""

from __future__ import annotations

import pytest
from browser_driver import fill_store, make_browser
from textual.widgets import Input, TextArea

from store.store import Store

from test_screen_snapshots import SIZES, Compare, Size, after, long_ago  # isort: skip

UPLOAD, CONFIG, OLD = "claude:e0741090", "codex:0199aa", "library:old"


@pytest.fixture
def organised(store: Store) -> Store:
    """Return a store with pinned, archived and deleted sessions, and with notes."""
    fill_store(store)
    upload, config, old = (store.sessions.get(name) for name in (UPLOAD, CONFIG, OLD))
    store.notes.add_note(upload, "Ask Ada whether CI has a slower disk.\nThen close the ticket.")
    store.notes.add_note(upload, "This is the call that fails.", entry_seq=1)
    store.notes.tag([upload], ["two words", "ci"])
    store.sessions.archive([store.sessions.get("kiso:1")])
    store.notes.add_note(config, "Undo this if beta breaks.")
    store.sessions.delete([config, old])
    long_ago(store, "notes set created_at")
    return store


@pytest.fixture(autouse=True)
def _no_blinking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Input, "cursor_blink", False)
    monkeypatch.setattr(TextArea, "cursor_blink", False)


LIST = ("3 sessions · 1 archived", "Pinned  1", "Good morning")
TRASH = (*LIST, ["slash", *"is:trashed", "enter"], "2 found", "Restore", "brackets")
READING = (*LIST, ["enter"], "✎ Ask Ada", "▎ This is the call that fails.")
SCREENS: dict[str, tuple[list[str] | str, ...]] = {
    "list": LIST,
    "conversation": READING,
    "note": (*READING, ["X", "m"], "Edit note", "Save an empty text"),
    "tags": (*LIST, ["T"], "Separate tags with commas."),
    "archived": (*LIST, ["slash", *"is:archived", "enter"], "1 found", "日本語"),
    "trash": TRASH,
    "purge": (*TRASH, ["delete"], "Delete 1 session for good?", "This cannot be undone."),
    "empty_trash": (*LIST, ["slash", *"is:trashed agent:goose "], "0 found", "in the trash, agent goose"),
}


@SIZES
@pytest.mark.parametrize("screen", SCREENS)
def test_organising(snap_compare: Compare, organised: Store, screen: str, size: Size) -> None:
    assert snap_compare(make_browser(organised), terminal_size=size, run_before=after(*SCREENS[screen]))
