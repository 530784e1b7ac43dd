"""Fixtures of the tests of statistics."""

from __future__ import annotations

from pathlib import Path

import pytest
from usage_sessions import add_usage_sessions, use_test_prices

from store.store import Store


@pytest.fixture
def used_store(store: Store, tmp_path: Path) -> Store:
    """A store with sessions that have usage, and a rate table for it."""
    use_test_prices(tmp_path)
    add_usage_sessions(store)
    return store
