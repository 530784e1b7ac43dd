"""Where in a conversation its secrets were used: the tool calls that name them.

What a tool was given is all there is to go by: an agent hands a secret over by its name (`$GITHUB_TOKEN`,
`secret://session/name`), and its value should stand nowhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from store import calls
from store.model import Json, SecretUse

if TYPE_CHECKING:
    from store.store import Store


def uses(
    store: Store, session: int, names: Iterable[str], stop: Callable[[], bool] = lambda: False
) -> dict[str, list[SecretUse]]:
    """By name, in order; of those so far when nobody wants the rest."""
    found: dict[str, list[SecretUse]] = {name: [] for name in names}
    if not found:
        return found
    # The longest first, so that of TOKEN and TOKEN-2 the right one is found.
    words = "|".join(re.escape(name) for name in sorted(found, key=len, reverse=True))
    pattern = re.compile(rf"(?<!\w)(?:{words})(?!\w)")
    for call in calls.of_session(store, session):
        if stop():
            break
        said = {name for text in _texts(call.arguments) for name in pattern.findall(text)}
        for name in said:
            found[name].append(SecretUse(call.turn, call.name, call.entry))
    return found


def _texts(value: Json) -> Iterator[str]:
    """Every text in it, the names of its fields as well: an environment names a secret on the left."""
    left: list[Any] = [value]
    while left:
        match left.pop():
            case str() as text:
                yield text
            case dict() as table:
                left += [*table, *table.values()]
            case list() as items:
                left += items
