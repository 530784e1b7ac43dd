"""This module shows the top bar: the program's name, the query, a status and the number of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Size
from textual.getters import query_one
from textual.message import Message
from textual.reactive import Reactive, reactive
from textual.widgets import Input, Static
from textual.widgets.input import Selection

from store.search.complete import Vocabulary, accept_completion, list_completions
from store.search.query import Query
from store.search.saved_searches import SavedSearch, expand_saved_searches, find_unknown_names
from store.text.sanitize import cell_width, one_line
from tui.messages import DataMessage
from tui.render.styles import FAINT
from tui.widgets.completion_list import CompletionList
from tui.widgets.line_input import LineInput
from tui.workers import wait_for_opening

EXPLAIN_DELAY = 0.05
"""Seconds before the query is explained, so that the results are shown first."""

PAUSE_DELAY = 1.5
"""Seconds without a letter after which a value that is only the beginning of another is taken as it stands."""

PLACEHOLDER = "words, or agent: tool: cwd: tag: is:error after:3d …"


QUERY_GAP = 5
"""The cells between the program's name and the query: a gap, the slash and a blank."""

MAX_WARNING_LINES = 5
"""Limits the lines of a warning about the query."""

LETTERS = "letters"

PAGE_OF_RESULTS = 10
"""The number of results that a page key goes on by."""


def _choice_binding(key: str, action: str, label: str, name: str, tooltip: str) -> Binding:
    """Build a binding with priority, so that an Enter right after it opens the result that it has chosen."""
    return Binding(key, action, label, id=f"filter.{name}", show=False, priority=True, tooltip=tooltip)


class QueryInput(LineInput):
    """Completes filters while a person types. A completion is inserted only on request; Enter goes to the list.

    The arrow keys choose among the results while the focus stays here, so that letters go on with the search and never
    act on a session.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "leave", "To the list", id="filter.leave", tooltip="Go to the results"),
        Binding("enter", "open_choice", "Open", id="filter.open", tooltip="Open the result"),
        _choice_binding("down", "choose(1)", "Down", "down", "Next completion, or next result"),
        _choice_binding("up", "choose(-1)", "Up", "up", "Previous completion, or previous result"),
        _choice_binding("pagedown", "choose_page(1)", "Page down", "page_down", "Page down"),
        _choice_binding("pageup", "choose_page(-1)", "Page up", "page_up", "Page up"),
        Binding("tab", "accept", "Complete", id="filter.accept", tooltip="Insert the completion"),
        Binding(
            "tab,escape",
            "stop_choosing",
            "To the list",
            id="filter.stop_choosing",
            tooltip="Go to the list, where letters are keys",
        ),
        # No key has this name. The hint says what letters do, and a click on it does the same.
        Binding(
            LETTERS,
            "search_on",
            "Keep searching",
            key_display="a-z",
            id="filter.search_on",
            tooltip="Letters go on searching",
        ),
        Binding(
            "ctrl+@,ctrl+space",
            "offer",
            "Filters",
            show=False,
            key_display="^space",
            id="filter.offer",
            tooltip="Show all filters",
        ),
        Binding("escape", "close", "Close", id="filter.close", show=False, tooltip="Close the completions"),
        Binding("ctrl+s", "save", "Save", id="filter.save", tooltip="Save this search under a name"),
        Binding("ctrl+r", "recall", "Recall", id="filter.recall", tooltip="Choose a saved or recent search"),
    ]

    virtual_size: Reactive[Size] = Reactive(Size(0, 0))
    "Overrides the base so that a typed letter does not lay out the whole screen again."

    choice: reactive[int | None] = reactive[int | None](None, repaint=False)
    "Counts the steps to the chosen result, from the one at which choosing began. Is None while nobody chooses."

    class SaveRequested(Message):
        """Asks to save the query under a name."""

    class RecallRequested(Message):
        """Asks for the saved and recent searches."""

    class Exited(DataMessage):
        entered: bool
        "True for Enter, False for any other key."
        opens: bool = False
        "True if the chosen result is opened."

    def __init__(self, completion_list: CompletionList) -> None:
        self.vocabulary = Vocabulary()
        self.searches: Sequence[SavedSearch] = ()
        self.has_results = True
        "Is false if the query finds nothing, so that there is no list to go to."
        self._completion_list = completion_list
        self._value_changed = False
        super().__init__(compact=True, placeholder=PLACEHOLDER, select_on_focus=False)

    @property
    def is_completing(self) -> bool:
        return self._completion_list.display

    @property
    def is_choosing(self) -> bool:
        """Whether a person chooses among the results."""
        return self.choice is not None

    # Watchers, not messages, because Tab may follow immediately. Typing changes the value, then moves the cursor.
    def watch_value(self, value: str) -> None:
        self._value_changed = True
        self.choice = None
        self._update_completions()

    def watch_selection(self, selection: Selection) -> None:
        if self._value_changed:
            self._value_changed = False
            self._update_completions()

    def _update_completions(self) -> None:
        self._completion_list.show(self._find_completions() if self.has_focus and self._has_prefix() else ())

    def on_blur(self) -> None:
        self._completion_list.show(())
        self.choice = None

    def _find_completions(self) -> list[str]:
        return list_completions(self.value, self.cursor_position, self.vocabulary, self.searches)

    def _has_prefix(self) -> bool:
        """Return whether enough was typed to suggest completions. One letter matches too much."""
        typed = self.value[: self.cursor_position].split(" ")[-1].removeprefix("-")
        return len(typed) > 1 or typed == "@"

    def insert_completion(self, completion: str) -> None:
        text, cursor = accept_completion(self.value, self.cursor_position, completion)
        self.value = text
        self.cursor_position = cursor
        self._completion_list.show(self._find_completions() if completion.endswith(":") else ())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "accept" | "close":
                return self.is_completing
            case "choose" | "choose_page":
                is_possible = self.is_choosing if parameters == (-1,) else self.has_results
                return self.is_completing or is_possible
            case "leave":
                return self.is_completing or (self.has_results and not self.is_choosing)
            case "save":
                return bool(self.value.strip())
            case "open_choice" | "stop_choosing" | "search_on":
                return self.is_choosing and not self.is_completing
        return super().check_action(action, parameters)

    def action_leave(self) -> None:
        if self.is_completing and self._completion_list.selected_index is not None:
            self.insert_completion(self._completion_list.selected_completion)
        else:
            self._completion_list.show(())
            self.post_message(self.Exited(entered=True))

    async def action_choose(self, by: int) -> None:
        # The letters that were typed before this key come first.
        await wait_for_opening(lambda: bool(self.message_queue_size))
        if self.is_completing:
            self._completion_list.move(by)
        else:
            self._go_on_choosing(by)

    async def action_choose_page(self, by: int) -> None:
        await wait_for_opening(lambda: bool(self.message_queue_size))
        self._go_on_choosing(by * PAGE_OF_RESULTS)

    def _go_on_choosing(self, by: int) -> None:
        """Go to another result. The first key only begins to choose, at the result under the cursor."""
        self.choice = 0 if self.choice is None else self.choice + by
        self.refresh_bindings()

    def action_open_choice(self) -> None:
        self.post_message(self.Exited(entered=True, opens=True))

    def action_stop_choosing(self) -> None:
        self.post_message(self.Exited(entered=False))

    def action_search_on(self) -> None:
        self.choice = None
        self.refresh_bindings()

    def action_accept(self) -> None:
        self.insert_completion(self._completion_list.selected_completion)

    def action_offer(self) -> None:
        self._completion_list.show(self._find_completions())

    def action_close(self) -> None:
        self._completion_list.show(())

    def action_save(self) -> None:
        self.post_message(self.SaveRequested())

    def action_recall(self) -> None:
        self.post_message(self.RecallRequested())


class PinnedSearches(Static):
    """Shows the names of pinned searches. A click on one runs it."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    PinnedSearches {
        width: auto;
        max-width: 60%;
        height: 1;
        margin-right: 2;
        text-wrap: nowrap;
        text-overflow: ellipsis;
        display: none;

        &.-pinned {
            display: block;
        }

        &.-covered {
            display: none;
        }
    }
    """

    class Clicked(DataMessage):
        name: str

    def __init__(self) -> None:
        super().__init__()
        self._names: Sequence[str] = ()
        self._current = ""

    def show(self, names: Sequence[str], query: str) -> None:
        """Show the names, and highlight the one that is searched for. Usually a typed letter changes nothing."""
        current = next((name for name in names if query.strip() == f"@{name}"), "")
        if names == self._names and current == self._current:
            return
        self._names, self._current = names, current
        self.set_class(bool(names), "-pinned")
        style = "$text-muted on $surface-lighten-1"
        labels = [(f" @{name} ", "bold $foreground on $primary-muted" if name == current else style) for name in names]
        self.update(Content(" ").join([Content.styled(*label) for label in labels]))

    def on_click(self, event: events.Click) -> None:
        event.stop()
        right = 0
        for name in self._names:
            right += cell_width(name) + 4  # the sign, a blank on each side, and the gap
            if event.x < right:
                self.post_message(self.Clicked(name))
                return


class TopBar(Horizontal):
    DEFAULT_CSS = """
    TopBar {
        #query {
            width: 1fr;
            height: 1;
        }

        QueryInput {
            width: 1fr;
            height: 1;
        }

        #below {
            dock: bottom;
            height: 1;
        }

        #explanation {
            width: 1fr;
            height: 1;
            text-wrap: nowrap;
            text-overflow: ellipsis;

            &.-long {
                height: 1fr;
                text-wrap: wrap;
            }
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
        opens: bool

    class QueryLeft(DataMessage):
        """Says that the person has finished a query, by leaving or by clearing it."""

        query: str

    class Focused(Message):
        """Says that a person is about to type, so that the vocabulary can be updated."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._shown_name = name
        self._shown_texts: dict[str, str] = {}
        self._warning = ""
        self._is_typing = True
        self._explanation_is_due = False
        self._explanation_lines = 1

    def on_mount(self) -> None:
        self._explain_timer = self.set_interval(EXPLAIN_DELAY, self._explain_query, pause=True)
        self._pause_timer = self.set_interval(PAUSE_DELAY, self._explain_after_pause, pause=True)
        # A message would arrive only after the letter is painted.
        self.watch(self.query_input, "value", self._post_query_changed, init=False)

    def compose(self) -> ComposeResult:
        yield Static(Content(self._shown_name), id="name")
        yield Static(Content("/"), id="slash")
        completion_list = CompletionList()
        with Vertical(id="query"):
            yield QueryInput(completion_list)
            yield completion_list
        yield Static(id="status")
        yield Static(id="count")
        with Horizontal(id="below"):
            yield PinnedSearches()
            yield Static(id="explanation")

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

    def set_has_results(self, has_results: bool) -> None:
        """Offer the keys that go to the results only if there are any."""
        if has_results != self.query_input.has_results:
            self.query_input.has_results = has_results
            self.refresh_bindings()

    @property
    def searches(self) -> Sequence[SavedSearch]:
        return self.query_input.searches

    def set_searches(self, searches: Sequence[SavedSearch]) -> None:
        """Set the saved searches that `@` completes to, and show the pinned ones."""
        if searches != self.query_input.searches:
            self.query_input.searches = searches
            self._show_pinned()
            if "@" in self.query_input.value:
                self._explain_soon()

    def _explain_soon(self) -> None:
        self._explanation_is_due = True
        self._explain_timer.reset()

    def _show_pinned(self) -> None:
        names = [search.name for search in self.searches if search.pinned]
        self.query_one(PinnedSearches).show(names, self.query_input.value)

    def run(self, query: str) -> None:
        """Search for a query as if it had been typed."""
        self.query_input.value = query
        self.query_input.cursor_position = len(query)

    def set_vocabulary(self, vocabulary: Vocabulary) -> None:
        """Set the words that completions are taken from."""
        self.query_input.vocabulary = vocabulary

    def clear(self) -> None:
        self._report_left_query()
        self.query_input.value = ""

    def _report_left_query(self) -> None:
        if query := self.query_input.value.strip():
            self.post_message(self.QueryLeft(query))

    def on_descendant_blur(self) -> None:
        self._report_left_query()
        self._finish_query()

    def on_descendant_focus(self) -> None:
        self.post_message(self.Focused())

    @on(Input.Changed)
    def _stop_input_changed(self, changed: Input.Changed) -> None:
        changed.stop()

    @on(Input.Submitted)
    def _finish_without_results(self, submitted: Input.Submitted) -> None:
        """Explain the query after an Enter that has no list to go to."""
        submitted.stop()
        self._finish_query()

    @on(QueryInput.Exited)
    def _post_exited(self, message: QueryInput.Exited) -> None:
        self._finish_query()
        self.post_message(self.Exited(message.entered, message.opens))

    @on(PinnedSearches.Clicked)
    def _toggle_pinned(self, clicked: PinnedSearches.Clicked) -> None:
        """Run a pinned search. A click on the one that is shown clears it."""
        self.run("" if self.query_input.value.strip() == f"@{clicked.name}" else f"@{clicked.name}")

    @on(CompletionList.Clicked)
    def _insert_clicked(self, clicked: CompletionList.Clicked) -> None:
        self.query_input.insert_completion(clicked.completion)
        self.query_input.focus()

    def _post_query_changed(self) -> None:
        """Post every change of the query. The receiver decides what to answer immediately and what after a pause."""
        self.post_message(self.QueryChanged(self.query_input.value))
        self._is_typing = True
        if self.query_input.value.strip():
            self._explain_soon()
            self._pause_timer.reset()
        else:
            self._pause_timer.pause()
            self.show_explanation("")
        if self.searches:
            self._show_pinned()

    def _parse_query(self) -> Query:
        """Parse the query, with a warning for each saved search that it names and that does not exist."""
        typed, is_typing = self.query_input.value, self._is_typing
        unknown_names = find_unknown_names(typed, self.searches, is_typing=is_typing)
        query = Query.parse(expand_saved_searches(typed, self.searches, is_typing=is_typing), is_typing=is_typing)
        hints = [f"No saved search is named {name!r}." for name in unknown_names]
        return query._replace(warnings=(*query.warnings, *hints))

    def _explain_query(self) -> None:
        """Show how the query is understood, unless the person is still choosing a completion."""
        query = self._parse_query()
        if self.query_input.is_completing:
            self.show_explanation("")
        elif query.warnings:
            self.show_explanation(query.warning_text, is_warning=True)
        else:
            from store.search.explain import explain_query

            self.show_explanation(explain_query(query, datetime.now(UTC)))

    def _explain_after_pause(self) -> None:
        """Take the query as it stands, once no completions are offered any more."""
        if not self.query_input.is_completing:
            self._finish_query()

    def _finish_query(self) -> None:
        """Warn of what is not known in a query that nobody is typing any more.

        An explanation that is shown already stays, because the words that were corrected may be among it.
        """
        self._pause_timer.pause()
        if self._is_typing:
            self._is_typing = False
            if self._explanation_is_due:
                self._explain_query()
            elif warning := self._parse_query().warning_text:
                self.show_explanation(warning, is_warning=True)

    def show_corrections(self, text: str) -> None:
        """Show which words were corrected, after the warnings about the query."""
        self.show_explanation(" ".join(filter(None, [self._parse_query().warning_text, text])), is_warning=True)

    def show_explanation(self, text: str, *, is_warning: bool = False) -> None:
        self._explanation_is_due = False
        self._explain_timer.pause()
        self._warning = one_line(text) if is_warning else ""
        # A warning takes the whole line.
        self.query_one(PinnedSearches).set_class(bool(self._warning), "-covered")
        self._indent_explanation()
        content = Content.styled(one_line(text), "$text-warning" if is_warning else FAINT)
        self.query_one("#explanation", Static).update(content, layout=False)

    def on_resize(self) -> None:
        self._indent_explanation()

    def _indent_explanation(self) -> None:
        """Put the explanation below the query. A long warning begins further to the left, and takes several lines."""
        indent, width = cell_width(self._shown_name) + QUERY_GAP, self.content_size.width
        lines = 1
        if self._warning and width:
            indent = max(0, min(indent, width - cell_width(self._warning)))
            lines = min(len(Content(self._warning).wrap(width - indent)), MAX_WARNING_LINES)
        below = self.query_one("#below")
        if below.styles.padding.left != indent:
            below.styles.padding = (0, 0, 0, indent)
        if lines != self._explanation_lines:
            self._explanation_lines = lines
            self.query_one("#explanation").set_class(lines > 1, "-long")
            below.styles.height, self.styles.height = lines, lines + 1
