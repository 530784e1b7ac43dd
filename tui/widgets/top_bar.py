"""The line on top: the program's name, the words and filters that narrow the list, and how much is shown."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Size
from textual.getters import query_one
from textual.message import Message
from textual.reactive import Reactive
from textual.widgets import Input, Static
from textual.widgets.input import Selection

from store.search.query import Query, Vocabulary, accept, complete
from store.text.sanitize import one_line
from tui.messages import Told
from tui.render.styles import FAINT
from tui.widgets.completion_list import Offers

TOLD_AFTER = 0.05
"""Seconds: what was found comes first, then how the words were understood."""

HINT = "words, or agent: tool: cwd: tag: is:error after:3d …"


class Words(Input):
    """Offers what a filter could be as one types. Nothing is taken unless it was asked for: Enter means the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "leave", "To the list", id="filter.leave", tooltip="Go to what was found"),
        Binding("down", "choose(1)", "Down", id="filter.down", show=False, tooltip="To the offers, or to the list"),
        Binding("up", "choose(-1)", "Up", id="filter.up", show=False, tooltip="The offer before"),
        Binding("tab", "accept", "Complete", id="filter.accept", tooltip="Take the offer"),
        Binding("ctrl+@,ctrl+space", "offer", "Filters", id="filter.offer", show=False, tooltip="All the filters"),
        Binding("escape", "close", "Close", id="filter.close", show=False, tooltip="Close the offers"),
    ]

    virtual_size: Reactive[Size] = Reactive(Size(0, 0))
    "As it is in every widget, but for the layout of the whole screen, which no letter changes."

    class Left(Told):
        entered: bool
        "With Enter; else with an arrow."

    def __init__(self, offers: Offers) -> None:
        self.vocabulary = Vocabulary()
        self._offers = offers
        self._typed = False
        super().__init__(compact=True, placeholder=HINT, select_on_focus=False)

    @property
    def offering(self) -> bool:
        return self._offers.display

    # Here and not by a message: Tab may follow in the same breath. Typing changes the words, then moves the cursor.
    def watch_value(self, value: str) -> None:
        self._typed = True
        self._offer()

    def watch_selection(self, selection: Selection) -> None:
        if self._typed:
            self._typed = False
            self._offer()

    def _offer(self) -> None:
        self._offers.show(self._known() if self.has_focus and self._is_begun() else ())

    def on_blur(self) -> None:
        self._offers.show(())

    def _known(self) -> list[str]:
        return complete(self.value, self.cursor_position, self.vocabulary)

    def _is_begun(self) -> bool:
        """One letter may become anything."""
        typed = self.value[: self.cursor_position].split(" ")[-1].removeprefix("-")
        return len(typed) > 1

    def take(self, offer: str) -> None:
        text, cursor = accept(self.value, self.cursor_position, offer)
        self.value = text
        self.cursor_position = cursor
        self._offers.show(self._known() if offer.endswith(":") else ())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("accept", "close"):
            return self.offering
        if action == "choose" and parameters == (-1,):
            return self.offering
        return super().check_action(action, parameters)

    def action_leave(self) -> None:
        if self.offering and self._offers.chosen is not None:
            self.take(self._offers.offer)
        else:
            self._offers.show(())
            self.post_message(self.Left(entered=True))

    def action_choose(self, by: int) -> None:
        if self.offering:
            self._offers.move(by)
        else:
            self.post_message(self.Left(entered=False))

    def action_accept(self) -> None:
        self.take(self._offers.offer)

    def action_offer(self) -> None:
        self._offers.show(self._known())

    def action_close(self) -> None:
        self._offers.show(())


class TopBar(Horizontal):
    DEFAULT_CSS = """
    TopBar {
        #ask {
            width: 1fr;
            height: 2;
        }

        Words {
            width: 1fr;
            height: 1;
        }

        #understood {
            height: 1;
            text-wrap: nowrap;
            text-overflow: ellipsis;
        }
    }
    """

    words = query_one(Words)
    offers = query_one(Offers)

    class Asked(Told):
        query: str

    class Left(Told):
        """The person is done with the words and wants the list, or, by Enter, what is chosen in it."""

        entered: bool

    class Entered(Message):
        """Somebody is about to type: what is there to be offered?"""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._shown_name = name
        self._told: dict[str, str] = {}

    def on_mount(self) -> None:
        self._telling = self.set_interval(TOLD_AFTER, self._tell_understood, pause=True)
        # Sooner than by a message, which would come when the letter has been painted.
        self.watch(self.words, "value", self._ask, init=False)

    def compose(self) -> ComposeResult:
        yield Static(Content(self._shown_name), id="name")
        yield Static(Content("/"), id="slash")
        offers = Offers()
        with Vertical(id="ask"):
            yield Words(offers)
            yield offers
            yield Static(id="understood")
        yield Static(id="status")
        yield Static(id="count")

    def show_count(self, text: str) -> None:
        self._tell("#count", text)

    def show_status(self, text: str) -> None:
        self.query_one("#status", Static).display = bool(text)
        self._tell("#status", text)

    def _tell(self, place: str, text: str) -> None:
        """Only what is new: another text makes the whole screen be laid out again."""
        if self._told.get(place) != text:
            self._told[place] = text
            self.query_one(place, Static).update(Content(text))

    def know(self, vocabulary: Vocabulary) -> None:
        """What can be offered from now on."""
        self.words.vocabulary = vocabulary

    def clear(self) -> None:
        self.words.value = ""

    def on_descendant_focus(self) -> None:
        self.post_message(self.Entered())

    @on(Input.Changed)
    def _keep_to_itself(self, changed: Input.Changed) -> None:
        changed.stop()

    @on(Words.Left)
    def _leave(self, left: Words.Left) -> None:
        self.post_message(self.Left(left.entered))

    @on(Offers.Clicked)
    def _take(self, clicked: Offers.Clicked) -> None:
        self.words.take(clicked.offer)
        self.words.focus()

    def _ask(self) -> None:
        """At every key: whoever answers knows what can be answered at once, and what should wait for a pause."""
        self.post_message(self.Asked(self.words.value))
        if self.words.value.strip():
            self._telling.reset()
        else:
            self.show_understood("")

    def _tell_understood(self) -> None:
        """Not of a filter that is still being chosen."""
        query = Query.parse(self.words.value, typing=True)
        if self.words.offering:
            self.show_understood("")
        elif query.puzzles:
            self.show_understood(query.puzzled, doubtful=True)
        else:
            from store.search.explain import understood

            self.show_understood(understood(query, datetime.now(UTC)))

    def show_understood(self, text: str, *, doubtful: bool = False) -> None:
        self._telling.pause()
        told = Content.styled(one_line(text), "$text-warning" if doubtful else FAINT)
        self.query_one("#understood", Static).update(told, layout=False)
