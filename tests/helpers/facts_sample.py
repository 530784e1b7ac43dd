"""A store with a few facts, and how to write into the dialogs that correct them."""

from __future__ import annotations

from browser_driver import fill
from screen_driver import Shown

from store.model.knowledge import Fact
from store.store import Store
from tui.dialogs.text import WriteScreen

UPLOAD = "claude:e0741090"


def with_facts(store: Store) -> Store:
    """Three facts for everybody, of which a turn taught the first; one of a shop."""
    fill(store)
    session = store.sessions.get(UPLOAD)
    (taught,) = store.facts.learn("The project uses Flask.", session=session, entry_seq=3).facts
    store.facts.edit(taught.id, "The project uses FastAPI.", category="stack")
    store.facts.learn("Two people work on it.\nTabs are spaces.")
    store.facts.learn("Sells tea.", scope="app:shop")
    return store


def facts(store: Store) -> list[str]:
    return [fact.text for fact in store.facts.current(None)]


def first(store: Store) -> Fact:
    return store.facts.current()[0]


async def write(one: Shown, text: str) -> None:
    """In place of what is in the dialog."""
    await one.until(lambda: isinstance(one.pilot.app.screen, WriteScreen))
    screen = one.pilot.app.screen
    assert isinstance(screen, WriteScreen)
    screen.write(text)
    await one.press("ctrl+s")


def written(one: Shown) -> str:
    screen = one.pilot.app.screen
    assert isinstance(screen, WriteScreen)
    return screen.typed()
