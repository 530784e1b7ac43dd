"""This module lets rebuilt conversations through the gate that exports go through."""

from __future__ import annotations

from typing import TYPE_CHECKING

from store.leaks.gate import LeakPolicy, open_gate

if TYPE_CHECKING:
    from store.model.entry import Json
    from store.store import Store


def check_body(store: Store, body: dict[str, Json], policy: LeakPolicy = "refuse") -> dict[str, Json]:
    """Return the input of an API as it may be written to a file. Raise LeaksFound if the policy refuses it."""
    gate = open_gate(store, policy)
    checked = gate.check_json(body)
    gate.finish()
    return dict(checked)
