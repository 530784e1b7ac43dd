"""This module lists every setting of the config file, with its default and its meaning, and checks the file.

A new setting is one line in `SETTINGS`; `backscroll config` prints it then, and a wrong value is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from store.errors import StoreError
from store.paths import config_file, load_config

Value = str | int | bool | tuple[str, ...]
ValueT = TypeVar("ValueT", str, int, bool, tuple[str, ...])

DEFAULT_MAX_LINES = 200
"""The facts of one scope before a person is asked to consolidate them."""

KEYS_SECTION = "browser.keys"
"""Names the section that maps actions to keys. Its names are not settings, but the ids of actions."""

PRICES_SECTION = "prices"
"""Names the section with rates of models. Its names are patterns of model names, and `store.usage.prices` reads it."""

OPTIONAL_RATES = {"cache_read": "input", "cache_write_5m": "input", "cache_write_1h": "cache_write_5m"}
"""Maps the rates that may be left out to those that are used instead."""

MAX_RATE_DOLLARS = 1_000
"""Is the largest rate, in dollars per million tokens."""


class Setting(NamedTuple):
    section: str
    key: str
    default: Value
    meaning: str
    choices: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    def find_problem(self, value: object) -> str:
        """Say what is wrong with a value; an empty text means that it is right."""
        if self.choices:
            known = ", ".join(self.choices)
            return "" if value in self.choices else f"no such {self.key}: {value!r}. Use one of: {known}."
        match self.default:
            case bool():
                is_right, kind = isinstance(value, bool), "true or false"
            case int():
                is_right = isinstance(value, int) and not isinstance(value, bool) and value >= 1
                kind = "a whole number, 1 or more"
            case tuple():
                is_right = isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
                kind = 'a list of strings, such as ["a", "b"]'
            case _:
                is_right, kind = isinstance(value, str), "a string in quotes"
        return "" if is_right else f"[{self.section}] {self.key} must be {kind}."


SETTINGS = {
    setting.name: setting
    for setting in (
        Setting("store", "path", "", "The file of the store. Empty: store.db in the data folder."),
        Setting("browser", "theme", "", "Any theme that the palette (Ctrl+P) lists. Empty: the theme of Backscroll."),
        Setting("browser", "motion", True, "false: no smooth scrolling and no blinking cursor."),
        Setting(
            "browser",
            "keymap",
            "default",
            "vim: adds h l, Ctrl+F, Ctrl+B and others to the default keys.",
            choices=("default", "vim"),
        ),
        Setting(
            "browser",
            "notify",
            "off",
            "How the terminal tells you that a session waits for you: off, bell, or a notification (osc9, osc777).",
            ("off", "bell", "osc9", "osc777"),
        ),
        Setting("browser", "hyperlinks", False, "true: the terminal can open web addresses in conversations (OSC 8)."),
        Setting("resume", "return", False, "true: come back to the browser when an agent that it started ends."),
        Setting("titles", "command", "", "A program that gets the first turns as JSON on stdin and prints a title."),
        Setting("titles", "seconds", 30, "How long this program may take for one session."),
        Setting(
            "leaks", "idle", True, "false: conversations are scanned for leaks only when you run `backscroll leaks`."
        ),
        Setting("agents", "exclude", (), "Folders and agents whose sessions no agent may search or open."),
        Setting("memory", "auto_push", (), "Folders whose memory files get edited facts at once."),
        Setting("team", "share", (), "Folders whose sessions are shared with your team."),
        Setting("team", "own_machines", False, "true: all sessions are shared with your own other machines."),
        Setting("team", "metrics", False, "true: counts, cost and tools by folder are shared with your team."),
        Setting("facts", "max_lines", DEFAULT_MAX_LINES, "Consolidate the facts of a scope when there are more."),
    )
}


def require_setting(name: str, kind: type[ValueT]) -> ValueT:
    """Return the value of a setting, or its default. Raise an error if the file or the value is wrong."""
    setting = SETTINGS[name]
    section = load_config().get(setting.section, {})
    value: Any = section.get(setting.key, setting.default) if isinstance(section, dict) else setting.default
    if problem := setting.find_problem(value):
        raise StoreError(f"In {config_file()}, {problem}")
    return kind(value)


def get_setting(config: Mapping[str, Any], name: str, kind: type[ValueT]) -> ValueT:
    """Return the value of a setting in a config, or its default if it is missing or wrong."""
    setting = SETTINGS[name]
    section = config.get(setting.section)
    value: Any = section.get(setting.key) if isinstance(section, dict) else None
    if value is None or setting.find_problem(value):
        value = setting.default
    return kind(value)


def check_config(config: Mapping[str, Any]) -> list[str]:
    """Name every section and setting that does not exist, and every wrong value."""
    return [f"{config_file()}: {problem}" for problem in _find_problems(config)]


def _find_problems(config: Mapping[str, Any]) -> Iterator[str]:
    sections = dict.fromkeys([*(setting.section for setting in SETTINGS.values()), PRICES_SECTION])
    for section, values in config.items():
        if section == PRICES_SECTION:
            yield from find_price_problems(values)
        elif section not in sections:
            yield f"no such section: [{section}].{suggest(section, sections)}"
        elif not isinstance(values, dict):
            yield f"{section} must be a section. Write [{section}] on a line of its own."
        else:
            yield from _find_problems_of_section(section, values)


def _find_problems_of_section(section: str, values: Mapping[str, Any]) -> Iterator[str]:
    known = [setting.key for setting in SETTINGS.values() if setting.section == section]
    for key, value in values.items():
        setting = SETTINGS.get(f"{section}.{key}")
        if setting is not None:
            if problem := setting.find_problem(value):
                yield problem
        elif f"{section}.{key}" != KEYS_SECTION:
            yield f"no such setting: [{section}] {key}.{suggest(key, known)}"
        elif not isinstance(value, dict):
            yield f"[{section}] {key} must be a section. Write [{KEYS_SECTION}] on a line of its own."


def find_price_problems(section: Any) -> Iterator[str]:
    """Say what is wrong with the rates of models."""
    if not isinstance(section, dict):
        yield f"{PRICES_SECTION} must be a section. Write [{PRICES_SECTION}.MODEL] on a line of its own."
        return
    known = {"input", "output", *OPTIONAL_RATES}
    for pattern, values in section.items():
        name = f'[{PRICES_SECTION}."{pattern}"]'
        if not isinstance(values, dict) or not {"input", "output"} <= values.keys():
            yield f"{name} must have input and output, in dollars per million tokens."
            continue
        for kind, value in values.items():
            if kind not in known:
                yield f"{name} has no setting {kind}. Use {', '.join(sorted(known))}."
            elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MAX_RATE_DOLLARS:
                yield f"{name} {kind} must be a number of dollars, 0 or more."


def suggest(name: str, known: Iterable[str]) -> str:
    """Return a sentence that names the known word nearest to a wrong one; empty if none is near."""
    from difflib import get_close_matches  # needed only for mistakes

    nearest = get_close_matches(name, list(known), n=1)
    return f" Did you mean {nearest[0]}?" if nearest else ""
