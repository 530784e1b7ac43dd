"""Runs code as a user without rights, since root may read everything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from child_processes import NOBODY


@contextmanager
def without_rights() -> Iterator[None]:
    """Root may read everything, so it becomes somebody else meanwhile."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)
