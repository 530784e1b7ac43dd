"""This dialog shows two values that people wrote at the same time side by side, and asks which one counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from store.edits.labels import find_titles
from store.model.team import ValueConflict
from store.text.sanitize import one_line, sanitize
from tui.dialogs.layout import HELP_BINDING, SIDE_BY_SIDE_CSS
from tui.dialogs.sequence import ask_each
from tui.render.styles import MUTED, STRONG
from tui.widgets.key_hints import KeyHintBar

if TYPE_CHECKING:
    from textual.screen import Screen

    from store.store import Store

MAX_SHOWN_CHARACTERS = 4_000
"""Limits the text of a value that is shown."""


class ValueConflictDialog(ModalScreen[str | None]):
    """Returns `kept` or `other`, or None to decide later."""

    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 (declared so by Textual)
    DEFAULT_CSS = (
        "ValueConflictDialog {"
        + SIDE_BY_SIDE_CSS
        + """
        .value {
            width: 1fr;
            height: auto;
            max-height: 20;
            padding: 0 1;
            border: round $foreground 25%;
        }

        &.-narrow Horizontal {
            layout: vertical;
        }

        &.-narrow .value {
            width: 100%;
            max-height: 8;
        }
    }
    """
    )
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "1", "dismiss('kept')", "Keep what counts", id="conflict.keep", tooltip="Keep the value that counts now"
        ),
        Binding("2", "dismiss('other')", "Use the other", id="conflict.other", tooltip="Use the other value instead"),
        Binding("escape,q", "dismiss(None)", "Later", id="conflict.later", tooltip="Decide later"),
        HELP_BINDING,
    ]

    def __init__(self, conflict: ValueConflict, title: str, left: int) -> None:
        super().__init__()
        self._conflict = conflict
        self._title = title
        self._left = left

    def compose(self) -> ComposeResult:
        conflict = self._conflict
        kind = conflict.kind.capitalize()
        heading = f"{kind} of {one_line(self._title, 80)}" if self._title else f"{kind} of the team"
        more = f" {self._left:,} more after this one." if self._left else ""
        with Vertical():
            yield Static(Content.styled(sanitize(heading), STRONG), id="title")
            yield Static(Content.styled(f"Two people changed it without knowing of each other.{more}", MUTED))
            with Horizontal():
                yield _show_value("1", "Counts now", conflict.kept_author, conflict.kept_text)
                yield _show_value("2", "The other", conflict.author, conflict.lost_text)
        yield KeyHintBar()


def _show_value(number: str, label: str, author: str, text: str) -> Static:
    heading = Content.styled(f"{label}, by {one_line(author, 40)}" if author else label, MUTED)
    box = Static(heading + "\n" + Content(sanitize(text[:MAX_SHOWN_CHARACTERS])), classes="value")
    box.border_title = number
    return box


def open_conflicts(
    screen: Screen[Any], store: Store, is_wanted: Callable[[ValueConflict], bool] = lambda _: True
) -> None:
    """Ask for each conflict which value counts. Those that are wanted come first."""

    def load() -> list[tuple[ValueConflict, str]]:
        conflicts = sorted(store.team.conflicts(), key=lambda conflict: not is_wanted(conflict))
        titles = find_titles(store, [conflict.session_id for conflict in conflicts if conflict.session_id])
        return [(conflict, titles.get(conflict.session_id or "", "")) for conflict in conflicts]

    def choose(item: tuple[ValueConflict, str], choice: str) -> str:
        conflict, _ = item
        store.team.choose(conflict.key, lost=choice == "other")
        text = conflict.lost_text if choice == "other" else conflict.kept_text
        return f"“{one_line(text, 40)}” counts for everybody."

    nothing = "No two people changed the same at once."
    ask_each(screen, load, lambda item, left: ValueConflictDialog(*item, left), choose, nothing=nothing)
