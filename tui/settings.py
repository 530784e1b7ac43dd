"""This module holds the settings of the browser.

The config file belongs to the person and is only read. Choices made in the browser are saved in a separate state file.
"""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from store.config import check_config, get_setting, suggest
from store.errors import StoreError
from store.paths import config_file, load_config, read_small_file, replace_private_file, state_file

_VIM_PAGE_KEYS = {"page_down": "pagedown,ctrl+f,ctrl+d", "page_up": "pageup,ctrl+b,ctrl+u"}

VIM_KEYMAP = {
    "list.fold": "left,h",
    "list.unfold": "right,l",
    "timeline.fold": "left,h",
    "timeline.unfold": "right,l",
    "timeline.next_turn": "J,right_curly_bracket",
    "timeline.previous_turn": "K,left_curly_bracket",
    **{f"{pane}.{name}": keys for pane in ("list", "timeline", "rows") for name, keys in _VIM_PAGE_KEYS.items()},
}
"""Adds vim keys to those that always work: j k g G / n N."""

_SKIP_PERMISSIONS = "skip_permissions"
_THEME_CHOSEN_AT = "theme_chosen_at"
_TIMELINE = "timeline"
_TIMELINE_OPTIONS = ("show_time", "show_cost", "show_events", "fold_turns")
_MODIFIERS = {"ctrl", "shift", "alt", "super", "hyper", "meta"}

KEYMAPS = {"default": dict[str, str](), "vim": VIM_KEYMAP}


class Settings:
    """Loads the settings. Never raises: errors in the config file are listed in `problems`, and the rest applies."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._state = _as_dict(self._load_state())
        config = self._load_config()
        if config:
            self.problems += check_config(config)
        self.theme = self._choose_theme(get_setting(config, "browser.theme", str))
        self.motion = get_setting(config, "browser.motion", bool)
        "Allows smooth scrolling and a blinking cursor."
        self.hyperlinks = get_setting(config, "browser.hyperlinks", bool)
        "Lets the terminal open web addresses in conversations (OSC 8)."
        self.pane_sizes = _as_sizes(self._state.get("pane_sizes"))
        "The sizes of panes that a person chose, as parts of the whole."
        self.notify = get_setting(config, "browser.notify", str)
        "Says how the terminal tells that a session waits: `off`, `bell`, `osc9` or `osc777`."
        self.returns_after_resume = get_setting(config, "resume.return", bool)
        "Keeps the browser open while an agent runs, and shows it again then."
        self.list_order = str(self._state.get("order", "")), str(self._state.get("group", ""))
        "The order and the headings of the list that a person chose. Either may be unknown."
        agents = self._state.get(_SKIP_PERMISSIONS)
        self.skip_permissions = frozenset(map(str, agents if isinstance(agents, list) else ()))
        "The agents that may act without asking for permission."
        self.timeline_options = self._load_timeline_options()
        "What a person chose for the timelines of all sessions, by the names of `TimelineOptions`."
        self.own_keys = _as_dict(_as_dict(config.get("browser")).get("keys"))
        self.keymap = KEYMAPS[get_setting(config, "browser.keymap", str)] | {
            name: keys for name, keys in self.own_keys.items() if isinstance(keys, str) and _has_usable_key(keys)
        }

    def _load_config(self) -> dict[str, Any]:
        try:
            return load_config()
        except StoreError as error:
            self.problems.append(str(error))
            return {}

    def _choose_theme(self, configured: str) -> str:
        """Return the theme that was chosen in the browser, unless the config file names one and was changed later."""
        chosen, chosen_at = self._state.get("theme"), self._state.get(_THEME_CHOSEN_AT)
        if not isinstance(chosen, str):
            return configured
        if not configured:
            return chosen
        with suppress(OSError):
            if isinstance(chosen_at, int | float) and chosen_at >= config_file().stat().st_mtime:
                return chosen
        return configured

    def check_theme(self, themes: Collection[str]) -> None:
        """Report a theme in the config file that does not exist."""
        configured = get_setting(self._load_config(), "browser.theme", str)
        if configured and configured not in themes:
            advice = suggest(configured, themes) or " The palette (Ctrl+P) lists all themes."
            self.problems.append(f"{config_file()}: no such theme: {configured!r}.{advice}")

    def check_own_keys(self, actions: Collection[str]) -> None:
        """Report actions in the config file that do not exist, and keys that no keyboard has."""
        for name, keys in self.own_keys.items():
            if name not in actions:
                advice = suggest(name, actions) or " Run `backscroll keys` to see them all."
                self.problems.append(f"{config_file()}: no such action: {name!r}.{advice}")
            elif not isinstance(keys, str):
                self.problems.append(f'{config_file()}: the keys of {name} must be a string like "ctrl+e,f5".')
            else:
                unknown = [key for key in keys.split(",") if key.strip() and not is_key(key.strip())]
                self.problems += [f"{config_file()}: no such key: {key.strip()!r}, for {name}." for key in unknown]

    # ── choices made in the browser ───────────────────────────────────────────────────────────────

    @staticmethod
    def _load_state() -> object:
        try:
            return json.loads(read_small_file(state_file()))
        except (OSError, ValueError):
            return {}

    def set_skip_permissions(self, agent: str, skip: bool) -> None:
        self.skip_permissions = self.skip_permissions | {agent} if skip else self.skip_permissions - {agent}
        self.save_state(**{_SKIP_PERMISSIONS: sorted(self.skip_permissions)})

    def _load_timeline_options(self) -> dict[str, bool]:
        options = _as_dict(self._state.get(_TIMELINE))
        return {name: options[name] for name in _TIMELINE_OPTIONS if isinstance(options.get(name), bool)}

    def save_timeline_options(self, options: dict[str, bool]) -> None:
        self.timeline_options = options
        self.save_state(**{_TIMELINE: options})

    def save_list_order(self, order: str, group: str) -> None:
        self.list_order = order, group
        self.save_state(order=order, group=group)

    def save_theme(self, name: str) -> None:
        self.save_state(theme=name, **{_THEME_CHOSEN_AT: time.time()})

    def set_pane_sizes(self, row: str, sizes: Mapping[str, float]) -> None:
        """Remember the sizes of the panes of one row, and forget those that it had before."""
        others = {name: size for name, size in self.pane_sizes.items() if not name.startswith(f"{row}.")}
        self.pane_sizes = others | dict(sizes)
        self.save_state(pane_sizes=self.pane_sizes)

    def save_state(self, **choices: str | float | list[str] | dict[str, bool] | dict[str, float]) -> None:
        """Save choices. An error is ignored, because a lost choice should not interrupt anyone."""
        self._state |= choices
        with suppress(OSError):
            replace_private_file(state_file(), json.dumps(self._state).encode())


def _as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _has_usable_key(keys: str) -> bool:
    """Return whether a key exists, or whether a person wants none. An action whose keys do not exist keeps its own."""
    return not keys.strip() or any(is_key(key.strip()) for key in keys.split(",") if key.strip())


def is_key(key: str) -> bool:
    """Return whether Textual knows a key, such as `f5`, `ctrl+e`, `?` or `question_mark`."""
    from textual.keys import KEY_NAME_REPLACEMENTS, Keys, key_to_character  # needed only if keys are configured

    *modifiers, name = key.split("+") if key != "+" else [key]
    names = {known.value for known in Keys} | {*KEY_NAME_REPLACEMENTS.values()}
    is_key = len(name) == 1 or name in names or key_to_character(name) is not None
    return is_key and set(modifiers) <= _MODIFIERS


def _as_sizes(value: object) -> dict[str, float]:
    return {name: size for name, size in _as_dict(value).items() if isinstance(size, float) and 0 < size < 1}
