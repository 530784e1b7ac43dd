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

from store.search.complete import Vocabulary, accept_completion, list_completions
from store.search.query import Query
from store.text.sanitize import one_line
from tui.messages import DataMessage
from tui.render.styles import FAINT
from tui.widgets.completion_list import CompletionList

EXPLAIN_DELAY = 0.05
"""Seconds: what was found comes first, then how the words were understood."""

PLACEHOLDER = "words, or agent: tool: cwd: tag: is:error after:3d …"


class QueryInput(Input):
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

    class Exited(DataMessage):
        entered: bool
        "With Enter; else with an arrow."

    def __init__(self, offers: CompletionList) -> None:
        self.vocabulary = Vocabulary()
        self._completion_list = offers
        self._value_changed = False
        super().__init__(compact=True, placeholder=PLACEHOLDER, select_on_focus=False)

    @property
    def is_completing(self) -> bool:
        return self._completion_list.display

    # Here and not by a message: Tab may follow in the same breath. Typing changes the words, then moves the cursor.
    def watch_value(self, value: str) -> None:
        self._value_changed = True
        self._update_completions()

    def watch_selection(self, selection: Selection) -> None:
        if self._value_changed:
            self._value_changed = False
            self._update_completions()

    def _update_completions(self) -> None:
        self._completion_list.show(self._find_completions() if self.has_focus and self._has_prefix() else ())

    def on_blur(self) -> None:
        self._completion_list.show(())

    def _find_completions(self) -> list[str]:
        return list_completions(self.value, self.cursor_position, self.vocabulary)

    def _has_prefix(self) -> bool:
        """One letter may become anything."""
        typed = self.value[: self.cursor_position].split(" ")[-1].removeprefix("-")
        return len(typed) > 1

    def insert_completion(self, offer: str) -> None:
        text, cursor = accept_completion(self.value, self.cursor_position, offer)
        self.value = text
        self.cursor_position = cursor
        self._completion_list.show(self._find_completions() if offer.endswith(":") else ())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("accept", "close"):
            return self.is_completing
        if action == "choose" and parameters == (-1,):
            return self.is_completing
        return super().check_action(action, parameters)

    def action_leave(self) -> None:
        if self.is_completing and self._completion_list.selected_index is not None:
            self.insert_completion(self._completion_list.selected_completion)
        else:
            self._completion_list.show(())
            self.post_message(self.Exited(entered=True))

    def action_choose(self, by: int) -> None:
        if self.is_completing:
            self._completion_list.move(by)
        else:
            self.post_message(self.Exited(entered=False))

    def action_accept(self) -> None:
        self.insert_completion(self._completion_list.selected_completion)

    def action_offer(self) -> None:
        self._completion_list.show(self._find_completions())

    def action_close(self) -> None:
        self._completion_list.show(())


class TopBar(Horizontal):
    DEFAULT_CSS = """
    TopBar {
        #ask {
            width: 1fr;
            height: 2;
        }

        QueryInput {
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

    query_input = query_one(QueryInput)
    completion_list = query_one(CompletionList)

    class QueryChanged(DataMessage):
        query: str

    class Exited(DataMessage):
        """The person is done with the words and wants the list, or, by Enter, what is chosen in it."""

        entered: bool

    class Focused(Message):
        """Somebody is about to type: what is there to be offered?"""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._shown_name = name
        self._shown_texts: dict[str, str] = {}

    def on_mount(self) -> None:
        self._explain_timer = self.set_interval(EXPLAIN_DELAY, self._explain_query, pause=True)
        # Sooner than by a message, which would come when the letter has been painted.
        self.watch(self.query_input, "value", self._post_query_changed, init=False)

    def compose(self) -> ComposeResult:
        yield Static(Content(self._shown_name), id="name")
        yield Static(Content("/"), id="slash")
        offers = CompletionList()
        with Vertical(id="ask"):
            yield QueryInput(offers)
            yield offers
            yield Static(id="understood")
        yield Static(id="status")
        yield Static(id="count")

    def show_count(self, text: str) -> None:
        self._update_text("#count", text)

    def show_status(self, text: str) -> None:
        self.query_one("#status", Static).display = bool(text)
        self._update_text("#status", text)

    def _update_text(self, place: str, text: str) -> None:
        """Only what is new: another text makes the whole screen be laid out again."""
        if self._shown_texts.get(place) != text:
            self._shown_texts[place] = text
            self.query_one(place, Static).update(Content(text))

    def set_vocabulary(self, vocabulary: Vocabulary) -> None:
        """What can be offered from now on."""
        self.query_input.vocabulary = vocabulary

    def clear(self) -> None:
        self.query_input.value = ""

    def on_descendant_focus(self) -> None:
        self.post_message(self.Focused())

    @on(Input.Changed)
    def _stop_input_changed(self, changed: Input.Changed) -> None:
        changed.stop()

    @on(QueryInput.Exited)
    def _post_exited(self, left: QueryInput.Exited) -> None:
        self.post_message(self.Exited(left.entered))

    @on(CompletionList.Clicked)
    def _insert_clicked(self, clicked: CompletionList.Clicked) -> None:
        self.query_input.insert_completion(clicked.completion)
        self.query_input.focus()

    def _post_query_changed(self) -> None:
        """At every key: whoever answers knows what can be answered at once, and what should wait for a pause."""
        self.post_message(self.QueryChanged(self.query_input.value))
        if self.query_input.value.strip():
            self._explain_timer.reset()
        else:
            self.show_explanation("")

    def _explain_query(self) -> None:
        """Not of a filter that is still being chosen."""
        query = Query.parse(self.query_input.value, is_typing=True)
        if self.query_input.is_completing:
            self.show_explanation("")
        elif query.warnings:
            self.show_explanation(query.warning_text, is_warning=True)
        else:
            from store.search.explain import explain_query

            self.show_explanation(explain_query(query, datetime.now(UTC)))

    def show_explanation(self, text: str, *, is_warning: bool = False) -> None:
        self._explain_timer.pause()
        told = Content.styled(one_line(text), "$text-warning" if is_warning else FAINT)
        self.query_one("#understood", Static).update(told, layout=False)
