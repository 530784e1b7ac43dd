"""This module shows the most important keys on one line.

Textual's footer has one widget per key and rebuilds all of them whenever one may have changed, which delays keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar, Literal, NamedTuple, Protocol, runtime_checkable

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.dom import DOMNode
from textual.reactive import reactive
from textual.screen import Screen
from textual.widget import Widget

HELP_KEY = "question_mark"

HintRank = Literal["first", "main", "extra", "hidden"]
"""Orders the hints. An extra one is shown only if there is room after all others."""


class KeyHint(NamedTuple):
    key: str
    label: Content
    enabled: bool
    rank: HintRank
    is_global: bool
    "Says that the key works on all screens, or shows all keys. Its hint is at the end."

    @property
    def is_kept(self) -> bool:
        """True for help, and for the way out, which are shown even if not all hints fit."""
        return self.is_global or self.key == "escape"


class HintChange(NamedTuple):
    """Says how the hint of a key differs from its binding at the moment."""

    label: str
    rank: HintRank


@runtime_checkable
class HintChanger(Protocol):
    """Is a widget or a screen whose hints depend on what the cursor is on."""

    def change_hint(self, binding: Binding) -> HintChange | None:
        """Return how the hint of a key looks now, or None if it is as declared."""


_OBVIOUS_ACTIONS = frozenset(
    """move page first last scroll scroll_by scroll_page scroll_home scroll_end pane next_pane side field back
    fold unfold choose close resize reset_sizes period pick""".split()
)
"""The actions that no hint is spent on: arrows, pages, going to other panes, and keys that a screen shows itself."""

_OBVIOUS_KEYS = frozenset("up down left right pageup pagedown home end tab shift+tab escape ctrl+c".split())


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

        .keys-line--description {
            color: $footer-description-foreground;
        }

        .keys-line--disabled {
            color: $footer-description-foreground;
            text-style: dim;
        }
    }
    """
    COMPONENT_CLASSES: ClassVar[set[str]] = {"keys-line--key", "keys-line--description", "keys-line--disabled"}

    hints: reactive[tuple[KeyHint, ...]] = reactive(())

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._refresh_hints)
        # On a busy machine the signal may have been sent before the subscription.
        self.call_after_refresh(self._show_first_hints)

    def _show_first_hints(self) -> None:
        if not self.hints:
            self._refresh_hints(self.screen)

    def _refresh_hints(self, screen: Screen[object]) -> None:
        """Update the hints, except while the terminal has no focus. The same keys return with the focus."""
        if self.is_attached and screen is self.screen and self.app.app_focus:
            self.hints = tuple(self._build_hints())

    def _build_hints(self) -> Iterator[KeyHint]:
        """Yield one hint per widget and action, even if the action has several keys."""
        seen = set()
        for node, binding, enabled, _ in self.screen.active_bindings.values():
            change = node.change_hint(binding) if isinstance(node, HintChanger) else None
            rank: HintRank = change.rank if change else "main" if binding.show else "extra"
            if rank == "hidden" or (rank == "extra" and (not enabled or not binding.id or _is_obvious(binding))):
                continue
            if self._is_typed(node, binding):
                continue
            if (node, binding.action) not in seen:
                seen.add((node, binding.action))
                label = change.label if change else binding.description
                texts = (f" {self.app.get_key_display(binding)} ", f"{label} ")
                styles = ("key", "description") if enabled else ("disabled", "disabled")
                pieces = ((text, f".keys-line--{style}") for text, style in zip(texts, styles, strict=True))
                is_global = node is self.app or binding.key == HELP_KEY
                yield KeyHint(binding.key, Content.assemble(*pieces), enabled, rank, is_global)

    def _is_typed(self, node: DOMNode, binding: Binding) -> bool:
        """Return whether the key is a letter for the field that has the focus. Textual forgets this of `plus`."""
        field, sign = self.screen.focused, binding.key_display or ""
        if field is None or field is node or binding.priority or len(sign) != 1:
            return False
        return field.check_consume_key(binding.key, sign)

    @property
    def _visible_hints(self) -> list[KeyHint]:
        """The hints that fit: the important ones, then as many others as there is room for, then the way out."""
        visible = [hint for rank in ("first", "main") for hint in self.hints if hint.rank == rank]
        visible.sort(key=lambda hint: (hint.is_kept, hint.is_global))
        while _total_cells(visible) > self.size.width and (rest := [hint for hint in visible if not hint.is_kept]):
            visible.remove(rest[-1])
        for extra in (hint for hint in self.hints if hint.rank == "extra"):
            if _total_cells(visible) + extra.label.cell_length > self.size.width:
                break
            visible.insert(sum(not hint.is_kept for hint in visible), extra)
        return visible

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


def _is_obvious(binding: Binding) -> bool:
    return binding.action.partition("(")[0] in _OBVIOUS_ACTIONS or binding.key in _OBVIOUS_KEYS


def _total_cells(hints: Iterable[KeyHint]) -> int:
    return sum(hint.label.cell_length for hint in hints)
