"""Every action of the screen in the command palette, with the keys that do the same."""

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


class Action(NamedTuple):
    """What can be done on a screen; keys that do the same belong to one."""

    id: str
    keys: str
    name: str
    help_text: str
    action: str
    namespace: object


def list_actions(screen: Screen[object]) -> list[Action]:
    """Only bindings with an id are ours."""
    found: dict[str, Action] = {}
    for node, binding, enabled, tooltip in screen.active_bindings.values():
        if not binding.id or not enabled:
            continue
        keys = screen.app.get_key_display(binding)
        if binding.id in found:
            keys = f"{found[binding.id].keys}  {keys}"
        told = tooltip or binding.tooltip or binding.description
        found[binding.id] = Action(binding.id, keys, binding.description, told, binding.action, node)
    return list(found.values())


class ActionProvider(SystemCommandsProvider):
    """Ours first, then Textual's own. One provider of both: of two, now this and now that one would come first."""

    async def discover(self) -> Hits:
        for action in self._list_actions():
            yield DiscoveryHit(_format_title(action), partial(self._run_action, action), help=action.help_text)
        async for hit in super().discover():
            yield hit

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in self._list_actions():
            score = max(matcher.match(action.name), matcher.match(action.help_text))
            if score > 0:
                yield Hit(
                    score,
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
    """Of every screen there is, those that are not imported yet included."""
    from pkgutil import walk_packages  # for those alone who gave keys of their own

    from tui import dialogs, screens

    for package in (screens, dialogs):
        for module in walk_packages(package.__path__, f"{package.__name__}."):
            import_module(module.name)
    waiting: list[type[DOMNode]] = [DOMNode]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("tui."):
            yield from Binding.make_bindings(kind.__dict__.get("BINDINGS", ()))
