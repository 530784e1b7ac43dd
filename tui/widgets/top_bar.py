"""This module shows the top bar: the program's name, the query, a status and the number of sessions."""

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
"""Seconds before the query is explained, so that the results are shown first."""

PLACEHOLDER = "words, or agent: tool: cwd: tag: is:error after:3d …"


class QueryInput(Input):
    """Completes filters while a person types. A completion is inserted only on request; Enter goes to the list."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "leave", "To the list", id="filter.leave", tooltip="Go to the results"),
        Binding(
            "down", "choose(1)", "Down", id="filter.down", show=False, tooltip="Next completion, or go to the list"
        ),
        Binding("up", "choose(-1)", "Up", id="filter.up", show=False, tooltip="Previous completion"),
        Binding("tab", "accept", "Complete", id="filter.accept", tooltip="Insert the completion"),
        Binding("ctrl+@,ctrl+space", "offer", "Filters", id="filter.offer", show=False, tooltip="Show all filters"),
        Binding("escape", "close", "Close", id="filter.close", show=False, tooltip="Close the completions"),
    ]

    virtual_size: Reactive[Size] = Reactive(Size(0, 0))
    "Overrides the base so that a typed letter does not lay out the whole screen again."

    class Exited(DataMessage):
        entered: bool
        "True for Enter, False for an arrow key."

    def __init__(self, completion_list: CompletionList) -> None:
        self.vocabulary = Vocabulary()
        self._completion_list = completion_list
        self._value_changed = False
        super().__init__(compact=True, placeholder=PLACEHOLDER, select_on_focus=False)

    @property
    def is_completing(self) -> bool:
        return self._completion_list.display

    # Watchers, not messages, because Tab may follow immediately. Typing changes the value, then moves the cursor.
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
        """Return whether enough was typed to suggest completions. One letter matches too much."""
        typed = self.value[: self.cursor_position].split(" ")[-1].removeprefix("-")
        return len(typed) > 1

    def insert_completion(self, completion: str) -> None:
        text, cursor = accept_completion(self.value, self.cursor_position, completion)
        self.value = text
        self.cursor_position = cursor
        self._completion_list.show(self._find_completions() if completion.endswith(":") else ())

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
        #query {
            width: 1fr;
            height: 2;
        }

        QueryInput {
            width: 1fr;
            height: 1;
        }

        #explanation {
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
        """Says that the person left the query for the list, or with Enter for the selected session."""

        entered: bool

    class Focused(Message):
        """Says that a person is about to type, so that the vocabulary can be updated."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._shown_name = name
        self._shown_texts: dict[str, str] = {}

    def on_mount(self) -> None:
        self._explain_timer = self.set_interval(EXPLAIN_DELAY, self._explain_query, pause=True)
        # A message would arrive only after the letter is painted.
        self.watch(self.query_input, "value", self._post_query_changed, init=False)

    def compose(self) -> ComposeResult:
        yield Static(Content(self._shown_name), id="name")
        yield Static(Content("/"), id="slash")
        completion_list = CompletionList()
        with Vertical(id="query"):
            yield QueryInput(completion_list)
            yield completion_list
            yield Static(id="explanation")
        yield Static(id="status")
        yield Static(id="count")

    def show_count(self, text: str) -> None:
        self._update_text("#count", text)

    def show_status(self, text: str) -> None:
        self.query_one("#status", Static).display = bool(text)
        self._update_text("#status", text)

    def _update_text(self, selector: str, text: str) -> None:
        """Update a text only if it changed, because an update lays out the whole screen again."""
        if self._shown_texts.get(selector) != text:
            self._shown_texts[selector] = text
            self.query_one(selector, Static).update(Content(text))

    def set_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Set the words that completions are taken from."""
        self.query_input.vocabulary = vocabulary

    def clear(self) -> None:
        self.query_input.value = ""

    def on_descendant_focus(self) -> None:
        self.post_message(self.Focused())

    @on(Input.Changed)
    def _stop_input_changed(self, changed: Input.Changed) -> None:
        changed.stop()

    @on(QueryInput.Exited)
    def _post_exited(self, message: QueryInput.Exited) -> None:
        self.post_message(self.Exited(message.entered))

    @on(CompletionList.Clicked)
    def _insert_clicked(self, clicked: CompletionList.Clicked) -> None:
        self.query_input.insert_completion(clicked.completion)
        self.query_input.focus()

    def _post_query_changed(self) -> None:
        """Post every change of the query. The receiver decides what to answer immediately and what after a pause."""
        self.post_message(self.QueryChanged(self.query_input.value))
        if self.query_input.value.strip():
            self._explain_timer.reset()
        else:
            self.show_explanation("")

    def _explain_query(self) -> None:
        """Show how the query is understood, unless the person is still choosing a completion."""
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
        content = Content.styled(one_line(text), "$text-warning" if is_warning else FAINT)
        self.query_one("#explanation", Static).update(content, layout=False)
