"""This module locks a file, so that only one process at a time does something with a store."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ELOOP

from store.errors import Busy, WriteFailed


@contextmanager
def hold_file_lock(path: str, refusal: str) -> Iterator[None]:
    """Hold a lock across processes, or raise Busy. The system releases it when the process dies."""
    handle = _open_lock_file(path)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Busy(refusal) from None
        yield
    finally:
        os.close(handle)


def _open_lock_file(path: str) -> int:
    """Open the lock file, or create it. A link is not followed: it could create a file anywhere."""
    try:
        return os.open(path, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        reason = "it is a link" if error.errno == ELOOP else error.strerror
        raise WriteFailed(f"The lock file {path} cannot be used: {reason}. Remove it or check its folder.") from None
