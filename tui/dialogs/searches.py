"""These dialogs save a search under a name, and choose one of the saved and recent searches."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, Static

from store.search.saved_searches import NAME_RULE, RecentSearches
from tui.dialogs.confirm import ConfirmDialog
from tui.dialogs.layout import PICKER_CSS
from tui.dialogs.text import SaveText, SingleLineDialog
from tui.messages import DataMessage
from tui.render.styles import MUTED
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.line_input import LineInput
from tui.widgets.tables.search_table import SearchRow, SearchTable, list_search_rows, render_searches_title
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

NOTHING_SAVED = "No searches yet. Ctrl+S in the search box saves one."
NOTHING_MATCHES = "No search matches."

_BLANK = re.compile(r"\s")


class SearchNameInput(LineInput):
    """Accepts the name of a search. A blank becomes `-`, because a name ends at a blank in a query."""

    def validate_value(self, value: str) -> str:
        return _BLANK.sub("-", value.lstrip())


class SearchNameDialog(SingleLineDialog):
    """Asks for the name of a search, and says which names there can be."""

    def __init__(self, title: str, value: str = "", save: SaveText = lambda _: None, *, note: str = "") -> None:
        super().__init__(title, value, save, note=f"{note}\n{NAME_RULE}")

    def compose_field(self) -> ComposeResult:
        yield SearchNameInput(self._value, compact=True, select_on_focus=False)


def open_save_dialog(screen: Screen[Any], store: Store, query: str, then: Callable[[], object] = lambda: None) -> None:
    """Ask for a name and save the query under it."""

    def save(name: str) -> None:
        store.saved_searches.save(name, query)

    def finish(name: str | None) -> None:
        if name is not None:
            shown_name = name.strip().removeprefix("@")
            screen.notify(f"Saved @{shown_name}. Press u in the list to undo.", timeout=3, markup=False)
            then()

    note = f"{query.strip()}\nType @ and this name to run it. If the name exists, it gets this search."
    screen.app.push_screen(SearchNameDialog("Save this search", save=save, note=note), finish)


class SearchesDialog(ModalScreen[str | None]):
    """Returns the text of the chosen search. What is typed filters the list."""

    AUTO_FOCUS = "Input"
    DEFAULT_CSS = (
        "SearchesDialog {"
        + PICKER_CSS
        + """
        #picker {
            max-width: 110;
            height: 70%;
        }

        #none {
            display: none;
            height: 1fr;
            content-align: center middle;
        }

        &.-nothing {
            #none {
                display: block;
            }

            SearchTable {
                display: none;
            }
        }
    }
    """
    )
    # Priority, because the input has some of these keys, too.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "run", "Run", priority=True, id="searches.run", tooltip="Run this search"),
        Binding("down", "move(1)", "Down", show=False, id="searches.down", tooltip="Next search"),
        Binding("up", "move(-1)", "Up", show=False, id="searches.up", tooltip="Previous search"),
        Binding("pagedown", "page(1)", "Page down", show=False, id="searches.page_down", tooltip="Page down"),
        Binding("pageup", "page(-1)", "Page up", show=False, id="searches.page_up", tooltip="Page up"),
        Binding("ctrl+s", "save", "Save", id="searches.save", tooltip="Save this recent search under a name"),
        Binding("ctrl+t", "pin", "Pin", id="searches.pin", tooltip="Pin this search to the top bar, or unpin it"),
        Binding("f2", "rename", "Rename", id="searches.rename", tooltip="Rename this search"),
        Binding(
            "ctrl+x",
            "delete",
            "Delete",
            priority=True,
            id="searches.delete",
            tooltip="Delete this search",
        ),
        Binding("f8", "clear", "Forget recent", id="searches.clear", tooltip="Forget all recent searches"),
        Binding("escape", "dismiss(None)", "Close", id="searches.close", tooltip="Back to the search box"),
    ]

    table = query_one(SearchTable)

    class Loaded(DataMessage):
        rows: Sequence[SearchRow]

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._recent = RecentSearches()
        self._rows: Sequence[SearchRow] = ()

    def compose(self) -> ComposeResult:
        with Vertical(id="picker"):
            yield Static(id="title")
            yield LineInput(compact=True, placeholder="filter by name or words…", select_on_focus=False)
            yield SearchTable()
            yield Static(id="none")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.load()

    # ── reading ───────────────────────────────────────────────────────────────────────────────────

    @threaded(exclusive=True, group="searches")
    def load(self) -> None:
        self._read()

    def _read(self) -> None:
        searches = self._store.saved_searches.list_searches()
        self.post_message(self.Loaded(list_search_rows(searches, self._recent.list_queries())))

    @on(Loaded)
    def _show_loaded(self, loaded: Loaded) -> None:
        self._rows = loaded.rows
        self._show_matching(keeps_cursor=True)

    @on(Input.Changed)
    def _filter(self) -> None:
        self._show_matching(keeps_cursor=False)

    def _show_matching(self, *, keeps_cursor: bool) -> None:
        words = self.query_one(Input).value.casefold().split()
        found = [row for row in self._rows if row.matches(words)]
        saved = sum(1 for row in self._rows if row.name)
        self.query_one("#title", Static).update(render_searches_title(len(found), saved, len(self._rows) - saved))
        self.query_one("#none", Static).update(
            Content.styled(NOTHING_MATCHES if self._rows else NOTHING_SAVED, MUTED), layout=False
        )
        self.set_class(not found, "-nothing")
        self.table.show(found, keeps_cursor=keeps_cursor)

    @on(SearchTable.Highlighted)
    def _refresh_keys(self) -> None:
        self.refresh_bindings()

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        selected = self.table.selected if self.is_mounted else None
        match action:
            case "run" | "delete":
                return selected is not None
            case "pin" | "rename":
                return selected is not None and bool(selected.name)
            case "save":
                return selected is not None and not selected.name
            case "clear":
                return any(not row.name for row in self._rows)
        return super().check_action(action, parameters)

    @on(SearchTable.Opened)
    def action_run(self) -> None:
        if self.table.selected is not None:
            self.dismiss(self.table.selected.text)

    def action_move(self, by: int) -> None:
        self.table.action_move(by)

    def action_page(self, by: int) -> None:
        self.table.action_page(by)

    def action_save(self) -> None:
        if (row := self.table.selected) is not None:
            open_save_dialog(self, self._store, row.query, self.load)

    def action_pin(self) -> None:
        if (row := self.table.selected) is not None:
            self._change(lambda: self._store.saved_searches.pin(row.name, not row.pinned))

    def action_delete(self) -> None:
        if (row := self.table.selected) is None:
            return
        if row.name:
            self._change(lambda: self._store.saved_searches.delete([row.name]))
            self.notify(f"Deleted @{row.name}. Press u in the list to undo.", timeout=3, markup=False)
        else:
            self._change(lambda: self._recent.remove(row.query))

    def action_rename(self) -> None:
        if (row := self.table.selected) is None:
            return

        def rename(name: str) -> None:
            self._store.saved_searches.rename(row.name, name)

        def reload(name: str | None) -> None:
            self.load()

        self.app.push_screen(SearchNameDialog(f"Rename @{row.name}", row.name, rename, note=row.query), reload)

    def action_clear(self) -> None:
        def clear(agreed: bool | None) -> None:
            if agreed:
                self._change(self._recent.clear)

        question = "The saved ones stay. This cannot be undone."
        self.app.push_screen(ConfirmDialog("Forget all recent searches?", question), clear)

    @threaded(group="change searches")
    def _change(self, change: Callable[[], object]) -> None:
        """Change the searches, then show them again."""
        change()
        self._read()
