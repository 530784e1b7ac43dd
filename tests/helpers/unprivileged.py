"""This module runs code as a user without rights, because root may read everything."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from child_processes import NOBODY


@contextmanager
def without_rights() -> Iterator[None]:
    """Run the block as the user `nobody` if the tests run as root."""
    old_user = os.geteuid()
    if old_user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(old_user)
