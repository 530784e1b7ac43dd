"""This module lists every action of a screen in the command palette, with its keys."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import NamedTuple

from textual.binding import Binding
from textual.command import DiscoveryHit, Hit, Hits
from textual.dom import DOMNode
from textual.screen import Screen
from textual.system_commands import SystemCommandsProvider

from tui.settings import is_key


class Action(NamedTuple):
    """Describes an action of a screen. Several keys may run it."""

    id: str
    keys: str
    name: str
    help_text: str
    action: str
    namespace: object


def list_actions(screen: Screen[object]) -> list[Action]:
    """Return the actions that are available now. Bindings without an id belong to Textual and are left out."""
    actions: dict[str, Action] = {}
    for node, binding, enabled, tooltip in screen.active_bindings.values():
        if not binding.id or not enabled:
            continue
        keys = screen.app.get_key_display(binding)
        if binding.id in actions and keys != actions[binding.id].keys:
            keys = f"{actions[binding.id].keys}  {keys}"
        help_text = tooltip or binding.tooltip or binding.description
        actions[binding.id] = Action(binding.id, keys, binding.description, help_text, binding.action, node)
    return list(actions.values())


def is_movement(action: Action) -> bool:
    """Return whether an action only moves the cursor or the view."""
    return action.action.partition("(")[0] in _MOVEMENTS


_MOVEMENTS = frozenset("move page first last scroll_by scroll_page scroll_home scroll_end choose".split())


EDIT_HANDICAP = 0.5
"""Is taken from the score of an edit, so that of equal matches the one that only shows something comes first: `trash`
shows the trash and does not move a session there."""

MAX_QUERY_CHARACTERS = 100
"""Limits what is compared with each action. Whoever pastes more finds nothing anyway."""


class ActionProvider(SystemCommandsProvider):
    """Offers our actions first, then those of Textual. Two providers would be listed in random order."""

    async def discover(self) -> Hits:
        for action in sorted(self._list_actions(), key=is_movement):  # what everybody knows comes last
            yield DiscoveryHit(_format_title(action), partial(self._run_action, action), help=action.help_text)
        async for hit in super().discover():
            yield hit

    async def search(self, query: str) -> Hits:
        query = query[:MAX_QUERY_CHARACTERS]
        matcher = self.matcher(query)
        for action in self._list_actions():
            score = max(matcher.match(action.name), matcher.match(action.help_text))
            if score > 0:
                yield Hit(
                    score - EDIT_HANDICAP * action.id.startswith("edit."),
                    matcher.highlight(_format_title(action)),
                    partial(self._run_action, action),
                    help=action.help_text,
                )
        async for hit in super().search(query):
            yield hit

    def _list_actions(self) -> Iterator[Action]:
        yield from list_actions(self.screen)

    async def _run_action(self, action: Action) -> None:
        await self.app.run_action(action.action, action.namespace)  # type: ignore[arg-type]


def _format_title(action: Action) -> str:
    return f"{action.name}  ({action.keys})"


def all_bindings() -> Iterator[Binding]:
    """Yield the bindings of all screens and dialogs, including those that are not imported yet."""
    from pkgutil import walk_packages  # needed only if a person has configured keys

    from tui import dialogs, screens

    import_module("tui.app")
    for package in (screens, dialogs):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    classes: list[type[DOMNode]] = [DOMNode]
    while classes:
        node_class = classes.pop()
        classes += node_class.__subclasses__()
        if node_class.__module__.startswith("tui."):
            yield from Binding.make_bindings(node_class.__dict__.get("BINDINGS", ()))


class KeyBinding(NamedTuple):
    """Describes the default keys of an action, separated by commas, and what it does."""

    keys: str
    meaning: str


def list_key_bindings() -> dict[str, KeyBinding]:
    """Return the actions of all screens and dialogs by their ids. An action of several screens is listed once.

    A hint that describes several keys, such as all letters, is left out: it cannot get other keys.
    """
    actions: dict[str, KeyBinding] = {}
    for binding in all_bindings():
        if binding.id and is_key(binding.key):
            known = actions.get(binding.id)
            keys = dict.fromkeys([*(known.keys.split(",") if known else ()), binding.key])
            actions[binding.id] = KeyBinding(",".join(keys), binding.tooltip or binding.description)
    return dict(sorted(actions.items()))
