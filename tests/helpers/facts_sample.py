"""This module fills a store with a few facts, and types into the dialogs that edit them."""

from __future__ import annotations

from browser_driver import fill_store
from screen_driver import ScreenDriver

from store.model.knowledge import Fact
from store.store import Store
from tui.dialogs.text import MultilineDialog

UPLOAD_SESSION = "claude:e0741090"


def add_sample_facts(store: Store) -> Store:
    """Add three global facts, the first of them learnt in a turn, and one of an app."""
    fill_store(store)
    session = store.sessions.get(UPLOAD_SESSION)
    (learnt,) = store.facts.learn("The project uses Flask.", session=session, entry_seq=3).facts
    store.facts.edit(learnt.id, "The project uses FastAPI.", category="stack")
    store.facts.learn("Two people work on it.\nTabs are spaces.")
    store.facts.learn("Sells tea.", scope="app:shop")
    return store


def fact_texts(store: Store) -> list[str]:
    return [fact.text for fact in store.facts.current(None)]


def first_fact(store: Store) -> Fact:
    return store.facts.current()[0]


async def write_in_dialog(driver: ScreenDriver, text: str) -> None:
    """Replace the text in the open dialog, and save it."""
    await driver.wait_until(lambda: isinstance(driver.pilot.app.screen, MultilineDialog))
    screen = driver.pilot.app.screen
    assert isinstance(screen, MultilineDialog)
    screen.set_text(text)
    await driver.press("ctrl+s")


def dialog_text(driver: ScreenDriver) -> str:
    screen = driver.pilot.app.screen
    assert isinstance(screen, MultilineDialog)
    return screen.read_text()


def global_fact_texts(store: Store) -> list[str]:
    """Return the facts of the scope `global`, one text each."""
    return store.facts.blob().splitlines()


def edit_kinds(store: Store) -> list[str]:
    """Return the kinds of all edits in the journal, the newest first."""
    return [edit.kind for edit in store.journal.list_edits()]


def redo(store: Store, edit_id: int) -> None:
    """Undo the undo of an edit."""
    store.journal.undo(store.journal.get(edit_id).undone_by)
