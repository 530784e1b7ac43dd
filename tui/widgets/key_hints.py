"""The keys that matter here, on one painted line.

Textual's own footer is a widget for each key, all made anew whenever one may have changed: a key that is pressed would
wait for that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple

from textual import events
from textual.content import Content
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget


class KeyHint(NamedTuple):
    key: str
    label: Content
    enabled: bool


ALWAYS_SHOWN = 2
"""How to leave, and where all keys are told, stand last, and stay when not all have room."""


class KeyHintBar(Widget):
    ALLOW_SELECT = False
    DEFAULT_CSS = """
    KeyHintBar {
        dock: bottom;
        height: 1;
        text-wrap: nowrap;
        background: $footer-background;

        .keys-line--key {
            color: $footer-key-foreground;
            text-style: bold;
        }

        .keys-line--told {
            color: $footer-description-foreground;
        }

        .keys-line--disabled {
            color: $footer-description-foreground;
            text-style: dim;
        }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys-line--key", "keys-line--told", "keys-line--disabled"}

    hints: reactive[tuple[KeyHint, ...]] = reactive(())

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._refresh_hints)
        # On a busy machine they may have been told of before.
        self.call_later(self._refresh_hints, self.screen)

    def _refresh_hints(self, screen: Screen[object]) -> None:
        """Not while the terminal is left: nothing has the focus then, and the same keys come back with it."""
        if self.is_attached and screen is self.screen and self.app.app_focus:
            self.hints = tuple(self._build_hints())

    def _build_hints(self) -> Iterator[KeyHint]:
        """One for each action, however many keys it has; what two widgets call the same may be two things."""
        told = set()
        for node, binding, enabled, _ in self.screen.active_bindings.values():
            if binding.show and (node, binding.action) not in told:
                told.add((node, binding.action))
                shown, does = f" {self.app.get_key_display(binding)} ", f"{binding.description} "
                styles = ("key", "told") if enabled else ("disabled", "disabled")
                pieces = ((text, f".keys-line--{style}") for text, style in zip((shown, does), styles, strict=True))
                yield KeyHint(binding.key, Content.assemble(*pieces), enabled)

    @property
    def _visible_hints(self) -> list[KeyHint]:
        shown = list(self.hints)
        while len(shown) > ALWAYS_SHOWN and sum(hint.label.cell_length for hint in shown) > self.size.width:
            del shown[-ALWAYS_SHOWN - 1]
        return shown

    def render(self) -> Content:
        return Content("").join([hint.label for hint in self._visible_hints])

    def on_click(self, event: events.Click) -> None:
        right = 0
        for hint in self._visible_hints:
            right += hint.label.cell_length
            if event.x < right:
                if hint.enabled:
                    self.app.simulate_key(hint.key)
                return
