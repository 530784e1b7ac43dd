"""A store with a few facts, and how to write into the dialogs that correct them."""

from __future__ import annotations

from browser_driver import fill_store
from screen_driver import ScreenDriver

from store.model.knowledge import Fact
from store.store import Store
from tui.dialogs.text import MultilineDialog

UPLOAD_SESSION = "claude:e0741090"


def add_sample_facts(store: Store) -> Store:
    """Three facts for everybody, of which a turn taught the first; one of a shop."""
    fill_store(store)
    session = store.sessions.get(UPLOAD_SESSION)
    (taught,) = store.facts.learn("The project uses Flask.", session=session, entry_seq=3).facts
    store.facts.edit(taught.id, "The project uses FastAPI.", category="stack")
    store.facts.learn("Two people work on it.\nTabs are spaces.")
    store.facts.learn("Sells tea.", scope="app:shop")
    return store


def fact_texts(store: Store) -> list[str]:
    return [fact.text for fact in store.facts.current(None)]


def first_fact(store: Store) -> Fact:
    return store.facts.current()[0]


async def write_in_dialog(one: ScreenDriver, text: str) -> None:
    """In place of what is in the dialog."""
    await one.wait_until(lambda: isinstance(one.pilot.app.screen, MultilineDialog))
    screen = one.pilot.app.screen
    assert isinstance(screen, MultilineDialog)
    screen.set_text(text)
    await one.press("ctrl+s")


def dialog_text(one: ScreenDriver) -> str:
    screen = one.pilot.app.screen
    assert isinstance(screen, MultilineDialog)
    return screen.read_text()
