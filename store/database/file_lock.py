"""This module locks a file, so that only one process at a time does something with a store."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ELOOP

from store.errors import Busy, WriteFailed

RETRY_SECONDS = 0.05


@contextmanager
def hold_file_lock(path: str, refusal: str, *, wait_seconds: float = 0) -> Iterator[None]:
    """Hold a lock across processes, or raise Busy if another one has it all the time.

    The system releases it when the process dies.
    """
    handle = _open_lock_file(path)
    deadline = time.monotonic() + wait_seconds
    try:
        while not _try_lock(handle):
            if time.monotonic() >= deadline:
                raise Busy(refusal)
            time.sleep(RETRY_SECONDS)
        yield
    finally:
        os.close(handle)


def _try_lock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _open_lock_file(path: str) -> int:
    """Open the lock file, or create it. A link is not followed: it could create a file anywhere."""
    try:
        return os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        reason = "it is a link" if error.errno == ELOOP else error.strerror
        raise WriteFailed(f"The lock file {path} cannot be used: {reason}. Remove it or check its folder.") from None
