"""Tests that a sync without paths loads every source that has a home, and no other."""

from __future__ import annotations

import pytest

from store.sources import REGISTRY, load_source
from store.sources.contract import Source


@pytest.mark.parametrize("name", REGISTRY)
def test_the_registry_knows_which_sources_have_a_home(name: str) -> None:
    source = load_source(name)
    assert source is not None
    can_be_found = source.home is not None or type(source).roots is not Source.roots
    assert REGISTRY[name].has_home == can_be_found
