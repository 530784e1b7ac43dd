"""Fixtures of the tests that edit facts."""

from __future__ import annotations

import pytest

from store.model.session import Session
from store.store import Store


@pytest.fixture
def session(store: Store) -> Session:
    """A session with one prompt."""
    session = store.create_session("s")
    store.append_message("s", "user", "I live in Ghent")
    return session
