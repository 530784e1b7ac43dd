"""This module holds the settings of the browser.

The config file belongs to the person and is only read. Choices made in the browser are saved in a separate state file.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from contextlib import suppress
from typing import Any

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

KEYMAPS = {"default": dict[str, str](), "vim": VIM_KEYMAP}


class Settings:
    """Loads the settings. Never raises: errors in the config file are listed in `problems`, and the rest applies."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._state = _as_dict(self._load_state())
        section = _as_dict(self._load_config().get("browser"))
        self.theme = str(self._state.get("theme") or section.get("theme") or "")
        motion = section.get("motion", True)
        self.motion = motion is not False
        "Allows smooth scrolling and a blinking cursor."
        if not isinstance(motion, bool):
            self.problems.append(f"{config_file()}: motion must be true or false.")
        agents = self._state.get(_SKIP_PERMISSIONS)
        self.skip_permissions = frozenset(map(str, agents if isinstance(agents, list) else ()))
        "The agents that may act without asking for permission."
        keymap = str(section.get("keymap", "default"))
        if keymap not in KEYMAPS:
            self.problems.append(f"{config_file()}: no such keymap: {keymap!r}. Use one of: {', '.join(KEYMAPS)}.")
        self.own_keys = _as_dict(section.get("keys"))
        self.keymap = KEYMAPS.get(keymap, {}) | {
            name: keys for name, keys in self.own_keys.items() if isinstance(keys, str)
        }

    def _load_config(self) -> dict[str, Any]:
        try:
            return load_config()
        except StoreError as error:
            self.problems.append(str(error))
            return {}

    def check_own_keys(self, actions: Collection[str]) -> None:
        """Report keys in the config file that belong to no known action."""
        for name, keys in self.own_keys.items():
            if name not in actions:
                self.problems.append(f"{config_file()}: no such action: {name!r}. Correct the name or remove it.")
            elif not isinstance(keys, str):
                self.problems.append(f'{config_file()}: the keys of {name} must be a string like "ctrl+e,f5".')

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

    def save_state(self, **choices: str | list[str]) -> None:
        """Save choices. An error is ignored, because a lost choice should not interrupt anyone."""
        self._state |= choices
        with suppress(OSError):
            replace_private_file(state_file(), json.dumps(self._state).encode())


def _as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
