"""This module defines a group that imports a command only when it is called, which makes starting fast."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from store.cli import output
from store.sources.kit.locator import is_url

if TYPE_CHECKING:
    # click_default_group has no type hints; its class is a click.Group.
    from click import Group as DefaultGroup
else:
    from click_default_group import DefaultGroup

__all__ = ["DefaultGroup", "LazyGroup"]


class LazyGroup(DefaultGroup):
    """Maps command names to `module:function`.

    A first argument that is not a command but an existing path or a URL is passed to the default command.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy_commands = lazy

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *(name for name in self._lazy_commands if name not in self.commands)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in self._lazy_commands:
            module, _, function = self._lazy_commands[cmd_name].partition(":")
            self.add_command(getattr(import_module(module), function), cmd_name)
        if cmd_name not in self.commands and not os.path.exists(cmd_name) and not is_url(cmd_name):
            return None
        return super().get_command(ctx, cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        with output.flush_on_exit():
            return super().invoke(ctx)
        return None
