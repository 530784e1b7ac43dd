"""This module defines the command `config`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby
from typing import Any

import click

from store.cli import output
from store.cli.options import json_option
from store.config import KEYS_SECTION, SETTINGS, Setting, Value, check_config
from store.paths import config_file, load_config
from tui.palette import list_key_bindings


@click.command()
@json_option
def config(as_json: bool) -> None:
    """Print the config file with every setting, its default and its meaning.

    Lines that begin with # are defaults. The others are set in your file, whose path is in the first line.
    """
    own = load_config()
    for problem in check_config(own):
        output.notify(problem)
    if as_json:
        settings = [_setting_to_json(setting, own) for setting in SETTINGS.values()]
        output.emit_json({"path": str(config_file()), "exists": config_file().exists(), "settings": settings})
        return
    for line in _format_file(own):
        output.write(line)


def _setting_to_json(setting: Setting, own: dict[str, Any]) -> dict[str, Any]:
    return {
        "section": setting.section,
        "key": setting.key,
        "default": setting.default,
        "value": _own_value(setting, own),
        "choices": list(setting.choices),
        "meaning": setting.meaning,
    }


def _format_file(own: dict[str, Any]) -> Iterator[str]:
    state = "" if config_file().exists() else " It does not exist yet."
    yield f"# Settings of Backscroll, read from {config_file()}.{state}"
    for section, settings in groupby(SETTINGS.values(), lambda setting: setting.section):
        yield f"\n[{section}]"
        for setting in settings:
            yield f"# {setting.meaning}"
            yield _format_assignment(setting.key, _own_value(setting, own), setting.default)
    keys = _section(_section(own, "browser"), "keys")
    yield f"\n[{KEYS_SECTION}]\n# Keys of actions, separated by commas."
    for action_id, binding in list_key_bindings().items():
        yield f"# {binding.meaning}"
        own_keys = keys.get(action_id)
        yield _format_assignment(json.dumps(action_id), own_keys if isinstance(own_keys, str) else None, binding.keys)


def _own_value(setting: Setting, own: dict[str, Any]) -> Value | None:
    """Return the value in the person's file, or None if there is none or it is wrong."""
    value: Value | None = _section(own, setting.section).get(setting.key)
    return None if value is None or setting.find_problem(value) else value


def _section(config: dict[str, Any], name: str) -> dict[str, Any]:
    section = config.get(name)
    return section if isinstance(section, dict) else {}


def _format_assignment(key: str, value: Value | None, default: Value) -> str:
    """Return a line of TOML. JSON writes strings, numbers and booleans as TOML does."""
    if value is None:
        return f"# {key} = {json.dumps(default, ensure_ascii=False)}"
    return f"{key} = {json.dumps(value, ensure_ascii=False)}"
