"""This module defines the command `keys`."""

from __future__ import annotations

import click

from store.cli import output
from store.cli.options import json_option
from store.cli.output import Span, TerminalText
from tui.palette import list_key_bindings
from tui.settings import Settings


@click.command()
@json_option
def keys(as_json: bool) -> None:
    """List the actions of the browser with their keys.

    The id of an action is its name in the section [browser.keys] of the config file, where it can get other keys.
    """
    settings = Settings()
    actions = list_key_bindings()
    settings.check_own_keys(actions)
    for problem in settings.problems:
        output.notify(problem)
    current = {action_id: settings.keymap.get(action_id) or binding.keys for action_id, binding in actions.items()}
    if as_json:
        listed = [
            {"action": action_id, "keys": current[action_id], "default": binding.keys, "meaning": binding.meaning}
            for action_id, binding in actions.items()
        ]
        output.emit_json({"keys": listed})
        return
    rows: list[list[Span]] = [
        [TerminalText(action_id, "name"), current[action_id], binding.meaning] for action_id, binding in actions.items()
    ]
    output.print_table(["action", "keys", "does"], rows)
