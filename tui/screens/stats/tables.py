"""This module shows the tables of the statistics screen, one at a time: their tabs, a heading, and the rows."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.widget import Widget
from textual.widgets import Static

from tui.render.charts.measures import Measure
from tui.render.statistics.figures import StatsReport
from tui.render.statistics.headings import render_tabs
from tui.render.statistics.waste_rows import render_waste_head
from tui.render.styles import MUTED
from tui.screens.stats.state import TABS, Tab
from tui.widgets.tables.stats_table import StatsTable
from tui.widgets.tables.waste_table import WasteTable

LOADING = "adding up…"
NO_WASTE = "Nothing was found in the most expensive sessions of this period."


class StatsTables(Vertical):
    """Shows the table that is chosen, or says why there is no waste. The focus waits until the table has rows, because
    an empty one may be hidden."""

    DEFAULT_CSS = """
    StatsTables {
        height: 1fr;

        #tabs, #head {
            height: 1;
            padding: 0 1;
        }

        WasteTable, #no-waste {
            display: none;
        }

        #no-waste {
            height: 1fr;
            content-align: center middle;
        }

        &.-waste {
            StatsTable {
                display: none;
            }

            WasteTable {
                display: block;
            }
        }

        &.-waste.-nothing {
            WasteTable {
                display: none;
            }

            #no-waste {
                display: block;
            }
        }
    }
    """

    table = query_one(StatsTable)
    waste_table = query_one(WasteTable)

    def __init__(self) -> None:
        super().__init__()
        self._tab: Tab = "model"
        self._is_focus_awaited = False

    def compose(self) -> ComposeResult:
        yield Static(id="tabs")
        yield Static(id="head")
        yield StatsTable()
        yield WasteTable()
        yield Static(id="no-waste")

    @property
    def shown(self) -> Widget:
        return self.waste_table if self._tab == "waste" else self.table

    def choose(self, tab: Tab) -> None:
        """Show another table, whose rows are read next."""
        if self.screen.focused in (self.table, self.waste_table):
            self.screen.set_focus(None)
            self.focus_when_filled()
        self._tab = tab
        self.set_class(tab == "waste", "-waste")
        self.remove_class("-nothing")

    def focus_when_filled(self) -> None:
        """Give the table the focus as soon as it has rows, unless something else gets it first."""
        self._is_focus_awaited = True

    def show(self, report: StatsReport, measure: Measure, row_key: str) -> None:
        """Show the rows of a report. The cursor goes to the row with this key, if it is not empty."""
        if self._tab != "waste":
            self.table.show(report.rows, self._tab, measure, row_key)
        self.waste_table.show(report.waste)
        self.set_class(self._tab == "waste" and not report.waste, "-nothing")
        text = NO_WASTE if report.is_complete else LOADING
        self.query_one("#no-waste", Static).update(Content.styled(text, MUTED))
        if self._is_focus_awaited and (report.rows or report.waste):
            self._is_focus_awaited = False
            self.call_after_refresh(self._take_free_focus)

    def _take_free_focus(self) -> None:
        if self.screen.focused is None:
            self.screen.set_focus(self.shown)

    def show_headings(self, width: int) -> None:
        self.query_one("#tabs", Static).update(render_tabs(TABS, self._tab, width))
        columns = self.table.layout_of_columns
        head = render_waste_head(width - 2) if self._tab == "waste" else columns.render_head()
        self.query_one("#head", Static).update(head)
