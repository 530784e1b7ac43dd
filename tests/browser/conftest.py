"""Fixtures of the tests that open the browser."""

from __future__ import annotations

import pytest
from browser_driver import fill_store

from store.store import Store


@pytest.fixture
def filled_store(store: Store) -> Store:
    """A store with one conversation of each kind."""
    fill_store(store)
    return store
