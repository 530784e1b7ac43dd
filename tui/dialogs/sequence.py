"""This module asks about several things, one dialog after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from store.text.sanitize import sanitize
from tui.workers import run_in_thread

if TYPE_CHECKING:
    from textual.screen import ModalScreen, Screen

Item = TypeVar("Item")


def ask_each(
    screen: Screen[Any],
    load: Callable[[], Sequence[Item]],
    build_dialog: Callable[[Item, int], ModalScreen[str | None]],
    settle: Callable[[Item, str], str],
    *,
    nothing: str,
) -> None:
    """Ask about each item, until the person leaves a dialog without a choice.

    `build_dialog` also gets how many items follow. `load` and `settle` run in a thread. `settle` carries a choice out
    and returns what to tell. `nothing` is told if there is no item.
    """

    def read() -> None:
        items = load()
        if items:
            screen.app.call_from_thread(ask, items)
        else:
            screen.notify(nothing, timeout=3, markup=False)

    def ask(items: Sequence[Item]) -> None:
        def answer(choice: str | None) -> None:
            if choice is not None:
                run_in_thread(screen, lambda: carry_out(items, choice), group="edit")

        screen.app.push_screen(build_dialog(items[0], len(items) - 1), answer)

    def carry_out(items: Sequence[Item], choice: str) -> None:
        done = settle(items[0], choice)
        screen.notify(sanitize(done), timeout=4, markup=False)
        if len(items) > 1:
            screen.app.call_from_thread(ask, items[1:])

    run_in_thread(screen, read, group="gather")
