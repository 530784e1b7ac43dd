"""This module defines a group that imports a command only when it is called, which makes starting fast."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from store.cli import output
from store.sources.kit.locator import is_url

if TYPE_CHECKING:
    # click_default_group has no type hints; its class is a click.Group.
    from click import Group as DefaultGroup
else:
    from click_default_group import DefaultGroup


class ListGroup(DefaultGroup):
    """Runs its default command if only options are given. Any other word must be the name of a command."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        is_known = cmd_name in self.commands or cmd_name.startswith("-")
        return super().get_command(ctx, cmd_name) if is_known else None


class WordGroup(DefaultGroup):
    """Passes a word that is not the name of a command to its default command."""


class LazyGroup(DefaultGroup):
    """Maps command names to `module:function`.

    A first argument that is not a command but looks like a path or a URL is passed to the default command.
    """

    def __init__(self, *args: Any, lazy: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._lazy_commands = dict(lazy)

    def add_lazy_commands(self, commands: Mapping[str, str]) -> None:
        """Add commands of a package that this one must not know."""
        self._lazy_commands.update(commands)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.commands, *(name for name in self._lazy_commands if name not in self.commands)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands and cmd_name in self._lazy_commands:
            module, _, function = self._lazy_commands[cmd_name].partition(":")
            self.add_command(getattr(import_module(module), function), cmd_name)
        if cmd_name not in self.commands and not _is_location(cmd_name):
            return None
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.exceptions.NoSuchCommand as error:  # it only knows the commands that are loaded
            if error.command_name.startswith("-"):
                raise click.NoSuchOption(error.command_name, ctx=ctx) from None
            names = self.list_commands(ctx)
            raise click.exceptions.NoSuchCommand(error.command_name, possibilities=names, ctx=ctx) from None

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Return commands without loading them, and say that a path is possible, too."""
        if incomplete.startswith("-"):
            return click.Command.shell_complete(self, ctx, incomplete)
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*map(CompletionItem, names), CompletionItem(incomplete, type="file")]

    def invoke(self, ctx: click.Context) -> Any:
        with output.flush_on_exit():
            return super().invoke(ctx)
        return None


def _is_location(word: str) -> bool:
    """Return whether a word names a file, a folder or a database, even one that does not exist."""
    return os.path.exists(word) or is_url(word) or os.sep in word or "." in word or word.startswith("~")
