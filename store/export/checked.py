"""This module lets published files and rebuilt conversations through the gate that exports go through."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, BinaryIO

from store.leaks.gate import LeakPolicy, open_gate

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.model.knowledge import PublishedFile
    from store.model.session import Session
    from store.store import Store


def publish_checked(
    store: Store, session: Session, path: str | os.PathLike[str], policy: LeakPolicy = "refuse"
) -> PublishedFile:
    """Publish a file, unless it has leaks that the policy refuses. Raise LeaksFound then."""
    gate = open_gate(store, policy)

    def check(file: BinaryIO) -> None:
        gate.check_file(file)
        gate.finish()

    return store.published.publish(session, path, check)


def check_body(store: Store, body: dict[str, Json], policy: LeakPolicy = "refuse") -> dict[str, Json]:
    """Return the input of an API as it may be written to a file. Raise LeaksFound if the policy refuses it."""
    gate = open_gate(store, policy)
    checked = gate.check_json(body)
    gate.finish()
    return dict(checked)
