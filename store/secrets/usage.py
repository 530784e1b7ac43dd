"""This module finds the tool calls of a conversation that use its secrets.

It searches the arguments for the names of secrets. An agent passes a secret by its name (`$GITHUB_TOKEN`,
`secret://session/name`); the value should not occur in the conversation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from store.conversations import tool_calls
from store.conversations.timeline import iter_strings
from store.model.knowledge import SecretUse

if TYPE_CHECKING:
    from store.store import Store


def find_uses(
    store: Store, session: int, names: Iterable[str], stop: Callable[[], bool] = lambda: False
) -> dict[str, list[SecretUse]]:
    """Return the uses of each secret, oldest first. If `stop` returns True, the search ends early."""
    uses: dict[str, list[SecretUse]] = {name: [] for name in names}
    if not uses:
        return uses
    # The longest name comes first, so that TOKEN does not match TOKEN-2.
    alternatives = "|".join(re.escape(name) for name in sorted(uses, key=len, reverse=True))
    pattern = re.compile(rf"(?<!\w)(?:{alternatives})(?!\w)")
    for call in tool_calls.iter_session_calls(store, session):
        if stop():
            break
        # Field names are searched, too: a field of an environment may have the name of a secret.
        names_in_call = {
            name for text in iter_strings(call.arguments, include_names=True) for name in pattern.findall(text)
        }
        for name in names_in_call:
            uses[name].append(SecretUse(call.turn, call.name, call.entry))
    return uses
