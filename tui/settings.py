"""What a person chose for the browser.

The config file is theirs and is only read; what they choose in the browser itself is remembered in a file of ours.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from contextlib import suppress
from typing import Any

from store.errors import StoreError
from store.paths import config_file, load_config, make_private_folder, state_file

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
"""On top of what a vim user's hands find by themselves: j k g G / n N."""

_SKIP_PERMISSIONS = "skip_permissions"

KEYMAPS = {"default": dict[str, str](), "vim": VIM_KEYMAP}


class Settings:
    """Raises nothing: what is wrong with the config file is told in `problems`, and the rest of it holds."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self._state = _as_dict(self._load_state())
        section = _as_dict(self._load_config().get("browser"))
        self.theme = str(self._state.get("theme") or section.get("theme") or "")
        motion = section.get("motion", True)
        self.motion = motion is not False
        "Whether what scrolls may slide, and a cursor blink."
        if not isinstance(motion, bool):
            self.problems.append(f"In {config_file()}, motion must be true or false.")
        freely = self._state.get(_SKIP_PERMISSIONS)
        self.skip_permissions = frozenset(map(str, freely if isinstance(freely, list) else ()))
        "The agents that are let act without asking for permission."
        named = str(section.get("keymap", "default"))
        if named not in KEYMAPS:
            self.problems.append(f"In {config_file()}, there is no keymap {named!r}; there are {', '.join(KEYMAPS)}.")
        self.own_keys = _as_dict(section.get("keys"))
        self.keymap = KEYMAPS.get(named, {}) | {
            name: keys for name, keys in self.own_keys.items() if isinstance(keys, str)
        }

    def _load_config(self) -> dict[str, Any]:
        try:
            return load_config()
        except StoreError as reason:
            self.problems.append(str(reason))
            return {}

    def check_own_keys(self, actions: Collection[str]) -> None:
        """Tell of keys that were given to no action there is."""
        for name, keys in self.own_keys.items():
            if name not in actions:
                self.problems.append(f"In {config_file()}, {name!r} is no action of the browser; its help names all.")
            elif not isinstance(keys, str):
                self.problems.append(f'In {config_file()}, the keys of {name} must be text such as "ctrl+e,f5".')

    # ── what was chosen in the browser ────────────────────────────────────────────────────────────

    @staticmethod
    def _load_state() -> object:
        try:
            return json.loads(state_file().read_bytes())
        except (OSError, ValueError):
            return {}

    def set_skip_permissions(self, agent: str, skip: bool) -> None:
        self.skip_permissions = self.skip_permissions | {agent} if skip else self.skip_permissions - {agent}
        self.save_state(**{_SKIP_PERMISSIONS: sorted(self.skip_permissions)})

    def save_state(self, **choices: str | list[str]) -> None:
        """A choice that cannot be kept is only lost: nobody should be stopped for it."""
        self._state |= choices
        path = state_file()
        with suppress(OSError):
            make_private_folder(path.parent)
            part = path.with_suffix(".part")
            with os.fdopen(os.open(part, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600), "w") as file:
                json.dump(self._state, file)
            part.replace(path)


def _as_dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
