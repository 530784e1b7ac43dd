"""Where in a conversation its secrets were used: the tool calls that name them.

What a tool was given is all there is to go by: an agent hands a secret over by its name (`$GITHUB_TOKEN`,
`secret://session/name`), and its value should stand nowhere.
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
    """By name, in order; of those so far when nobody wants the rest."""
    found: dict[str, list[SecretUse]] = {name: [] for name in names}
    if not found:
        return found
    # The longest first, so that of TOKEN and TOKEN-2 the right one is found.
    words = "|".join(re.escape(name) for name in sorted(found, key=len, reverse=True))
    pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)")
    for call in tool_calls.iter_session_calls(store, session):
        if stop():
            break
        # The names of fields as well: an environment names a secret on the left.
        said = {name for text in iter_strings(call.arguments, include_names=True) for name in pattern.findall(text)}
        for name in said:
            found[name].append(SecretUse(call.turn, call.name, call.entry))
    return found
