"""This module counts the sessions whose usage must be derived again. It is light, because every sync asks it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.model.usage import USAGE_VERSION

if TYPE_CHECKING:
    from store.store import Store


def count_without_usage(store: Store) -> int:
    """Count the sessions whose usage must be derived from their records, because they were stored before."""
    (count,) = store.row("select count(*) from sessions where usage_version < ? and head is not null", USAGE_VERSION)
    return int(count)
