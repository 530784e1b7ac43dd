"""This screen shows statistics of all sessions, or of those that a query finds: charts, tables and waste."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Grid
from textual.getters import query_one
from textual.widget import Widget
from textual.widgets import Static

from store.database.cancel import cancel_when
from store.model.statistics import Waste
from store.search.explain import explain_corrections
from store.search.query import Query
from store.search.saved_searches import expand_saved_searches
from tui.messages import DataMessage
from tui.render.charts.measures import MEASURES
from tui.render.statistics.figures import NOTHING, FigureSource, StatsReport, build_filter
from tui.render.statistics.headings import render_periods, render_prices, render_totals
from tui.render.statistics.period import PERIODS, StatsPeriod, find_calendar_end
from tui.render.styles import format_count
from tui.screens.folder_scope import FolderScope, next_folder_scope
from tui.screens.search_screen import SearchScreen, search_binding
from tui.screens.stats.state import PLACES, TABS, ChartName, StatsChoice, StatsState
from tui.screens.stats.tables import LOADING, StatsTables
from tui.screens.store_screen import Clock
from tui.textual_compat import reliable_timer
from tui.widgets.charts.bars_view import BarsView
from tui.widgets.charts.calendar_view import CalendarView
from tui.widgets.charts.chart_view import ChartView
from tui.widgets.charts.hours_view import HoursView
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.tables.stats_table import StatsTable
from tui.widgets.tables.waste_table import WasteTable
from tui.widgets.top_bar import TopBar
from tui.workers import threaded, wait_for_typing_pause

if TYPE_CHECKING:
    from store.store import Store

MEDIUM_WIDTH, WIDE_WIDTH = 120, 180
"""The widths from which all charts are shown together, and the calendar beside the hours."""

TALL_HEIGHT = 38
"""The height from which all charts are shown together."""


RELOAD_SECONDS = 2
"""Is how long new figures of a store that changes all the time wait after the last ones."""

TOOLS_HAVE_NO_TOKENS = "Tool calls have no tokens of their own. Enter shows the calls."
_KEYS_OUTSIDE_SEARCH = frozenset(
    ("period", "move_period", "measure", "tab", "stack", "scope", "side", "explain", "explain_total")
)
"""Names the actions whose keys are letters or moves in the search box while it has the focus."""


class StatsScreen(SearchScreen[StatsChoice | None]):
    """Returns what was opened, or None."""

    AUTO_FOCUS = ""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (MEDIUM_WIDTH, "-medium"), (WIDE_WIDTH, "-wide")]  # noqa: RUF012 (declared so by Textual)
    VERTICAL_BREAKPOINTS = [(0, "-short"), (TALL_HEIGHT, "-tall")]  # noqa: RUF012
    DEFAULT_CSS = """
    StatsScreen {
        #periods, #totals, #prices {
            height: 1;
            padding: 0 1;
        }

        #charts {
            height: 11;
            grid-size: 1 1;
        }

        &.-narrow, &.-short {
            ChartView {
                display: none;

                &.-shown {
                    display: block;
                }
            }
        }

        &.-medium.-tall #charts, &.-wide.-tall #charts {
            height: 22;
            margin: 1 0;
            grid-size: 2 2;
            grid-columns: 54 1fr;
            grid-rows: 11 11;

            CalendarView {
                column-span: 2;
            }
        }

        &.-wide.-tall #charts {
            height: 26;
            grid-columns: 114 1fr;
            grid-rows: 11 15;

            CalendarView {
                column-span: 1;
            }

            BarsView {
                column-span: 2;
            }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        search_binding("stats.search", "Count only what these words and filters find"),
        *(
            Binding(str(n), f"period({n - 1})", name, show=False, id=f"stats.period{n}", tooltip=f"Period: {name}")
            for n, name in enumerate(PERIODS, start=1)
        ),
        Binding("left", "move_period(-1)", "Earlier", show=False, id="stats.earlier", tooltip="Previous period"),
        Binding("right", "move_period(1)", "Later", show=False, id="stats.later", tooltip="Next period"),
        Binding("v", "measure(1)", "Measure", id="stats.measure", tooltip="Measure value, tokens, turns, calls, …"),
        Binding(
            "V", "measure(-1)", "Previous measure", show=False, id="stats.measure_back", tooltip="Previous measure"
        ),
        Binding("b", "tab(1)", "Table by", id="stats.tab", tooltip="Next table: models, agents, folders, tools, …"),
        Binding("B", "tab(-1)", "Previous table", show=False, id="stats.tab_back", tooltip="Previous table"),
        Binding("g", "stack", "Stack by", id="stats.stack", tooltip="Stack the bars by model or by agent"),
        Binding(
            "equals_sign", "explain", "Explain", key_display="=", id="stats.explain", tooltip="Show how it came about"
        ),
        Binding("t", "explain_total", "Explain total", id="stats.explain_total", tooltip="Show how the totals add up"),
        Binding("s", "scope", "Scope", id="stats.scope", tooltip="Count everything, or this folder or work tree"),
        Binding("tab", "side(1)", "Next chart", show=False, id="stats.next", tooltip="Next chart, or the table"),
        Binding("shift+tab", "side(-1)", "Previous", show=False, id="stats.previous", tooltip="Previous chart"),
        Binding("escape,q,percent_sign", "leave", "Back", id="stats.back", tooltip="Clear the search, then go back"),
    ]

    calendar = query_one(CalendarView)
    hours = query_one(HoursView)
    bars = query_one(BarsView)
    tables = query_one(StatsTables)
    table = query_one(StatsTable)

    class ReportLoaded(DataMessage):
        generation: int
        report: StatsReport

    class LoadEnded(DataMessage):
        generation: int

    def __init__(self, store: Store, clock: Clock, state: StatsState, scopes: Sequence[FolderScope]) -> None:
        super().__init__(store, clock)
        self._state = state
        self._folder_scopes = scopes
        self._report: StatsReport | None = None
        self._generation = 0
        "Numbers the requests; an answer to an older one is dropped."
        self._is_loading = False
        self._has_changed = False
        "Is true if the store changed while figures were read."

    def compose(self) -> ComposeResult:
        yield TopBar("statistics")
        yield Static(id="periods")
        yield Static(id="totals")
        with Grid(id="charts"):
            yield CalendarView()
            yield HoursView()
            yield BarsView()
        yield StatsTables()
        yield Static(id="prices")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.bar.query_input.value = self._state.query
        self.calendar.cursor, self.bars.cursor = self._state.day, self._state.bar
        self.hours.cursor = self._state.slot
        self._show_chart(self._state.shown_chart)
        self.tables.choose(self._state.tab)
        if self._state.focus == "table":
            self.tables.focus_when_filled()
        else:
            self.set_focus(self._find_widget(self._state.focus))
        self._show_headings()
        self.load()

    @property
    def _today(self) -> date:
        return self._clock().astimezone().date()

    @property
    def _query_text(self) -> str:
        return expand_saved_searches(self._state.query, self.bar.searches, is_typing=True)

    # ── reading the store ─────────────────────────────────────────────────────────────────────────

    def handle_store_change(self) -> None:
        """Count again, but never begin anew while figures are read: a worker that writes all the time would keep them
        from being shown."""
        if self._is_loading:
            self._has_changed = True
        else:
            self.load()

    def load(self) -> None:
        self._generation += 1
        self._is_loading, self._has_changed = True, False
        self.bar.show_status(LOADING)
        self._load_report(self._state, self._generation)

    @threaded(exclusive=True, group="statistics")
    def _load_report(self, state: StatsState, generation: int) -> None:
        """Load the figures, and show what is known as soon as it is."""
        from tui.screens.stats.loading import load_reports

        def is_stale() -> bool:
            return generation != self._generation

        text = self._query_text
        if generation > 1 and state.query and not wait_for_typing_pause(is_stale):
            return
        try:
            with cancel_when(self._store, is_stale):
                for report in load_reports(self._store, text, state, self._clock()):
                    self.post_message(self.ReportLoaded(generation, report))
        finally:
            self.post_message(self.LoadEnded(generation))

    # ── showing ───────────────────────────────────────────────────────────────────────────────────

    @on(ReportLoaded)
    def _receive_report(self, loaded: ReportLoaded) -> None:
        if loaded.generation == self._generation:
            self._report = loaded.report.fill_gaps(self._report)
            self._show_report()
            if loaded.report.is_complete:
                self.bar.show_status("")
            if loaded.report.query.corrections:
                self.bar.show_corrections(explain_corrections(loaded.report.query))

    @on(LoadEnded)
    def _note_end_of_load(self, ended: LoadEnded) -> None:
        if ended.generation == self._generation:
            self._is_loading = False
            if self._has_changed:
                reliable_timer(self.set_timer(RELOAD_SECONDS, self.handle_store_change))

    def _show_report(self) -> None:
        report, state = self._report, self._state
        for chart in self.query(ChartView):
            chart.measure = state.measure
        if report is not None:
            self.calendar.show(report.days, find_calendar_end(state.period, self._today))
            self.hours.show(report.hours)
            self.bars.show(report.bars, state.period.bucket, state.stacked_by)
            self.tables.show(report, state.measure, state.row)
            self._state = state._replace(row="" if report.rows else state.row)
            self.bar.show_count(format_count(report.totals.sessions, "session") or "no sessions")
        self._show_headings()

    def _show_headings(self) -> None:
        state, width = self._state, max(self.app.size.width - 2, 1)
        totals = self._report.totals if self._report else None
        prices = self._report.prices if self._report else None
        self.query_one("#periods", Static).update(render_periods(state.period, self._today, width))
        self.query_one("#totals", Static).update(render_totals(totals, state.measure, width))
        self.tables.show_headings(width)
        unread = self._report.sessions_to_read if self._report else 0
        self.query_one("#prices", Static).update(render_prices(prices, totals, width, unread))

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_headings)

    def _show_chart(self, name: ChartName) -> None:
        """Show this chart where there is room for one."""
        for chart in self.query(ChartView):
            chart.set_class(chart is self._find_widget(name), "-shown")

    def _find_widget(self, name: str) -> Widget:
        widgets: dict[str, Widget] = {"calendar": self.calendar, "hours": self.hours, "bars": self.bars}
        return widgets.get(name, self.tables.shown)

    @property
    def state(self) -> StatsState:
        """What is chosen, and where the cursors are."""
        row = self.table.selected
        return self._state._replace(
            day=self.calendar.cursor, bar=self.bars.cursor, slot=self.hours.cursor, row=row.key if row else ""
        )

    def _change(self, **changes: object) -> None:
        """Change what is chosen, and load the figures for it."""
        self._state = self._state._replace(**changes)  # type: ignore[arg-type]
        self._show_headings()
        self.load()

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    @on(TopBar.QueryChanged)
    def _search(self, asked: TopBar.QueryChanged) -> None:
        if asked.query != self._state.query:
            self._change(query=asked.query)

    @on(TopBar.Exited)
    def _leave_search(self) -> None:
        self.set_focus(self._find_widget(self._state.focus))

    @on(events.DescendantFocus)
    def _remember_focus(self, event: events.DescendantFocus) -> None:
        names: dict[Widget, ChartName] = {self.calendar: "calendar", self.hours: "hours", self.bars: "bars"}
        if name := names.get(event.widget):
            self._state = self._state._replace(focus=name, shown_chart=name)
        elif self.tables in event.widget.ancestors:
            self._state = self._state._replace(focus="table")

    @on(ChartView.EdgeReached)
    def _move_over_edge(self, reached: ChartView.EdgeReached) -> None:
        self.action_move_period(reached.by)

    @on(ChartView.Opened)
    def _open_chart_selection(self) -> None:
        chart = self.focused
        if isinstance(chart, ChartView) and (source := chart.selected) is not None:
            self._open_source(source)

    @on(StatsTable.Opened)
    def _open_row(self) -> None:
        row, table = self.table.selected, self._state.tab
        if row is None:
            return
        if table == "session":
            self.dismiss(StatsChoice(self.state, entry=f"{row.key}#0"))
        elif table == "tool":
            self._open_calls(row.key)
        elif (source := self._select_row()) is not None:
            self._open_source(source)

    @on(WasteTable.Opened)
    def _open_waste(self, opened: WasteTable.Opened) -> None:
        self._load_turn_entry(opened.waste)

    @threaded(exclusive=True, group="waste")
    def _load_turn_entry(self, waste: Waste) -> None:
        from tui.screens.stats.loading import find_turn_entry

        entry = find_turn_entry(self._store, waste.session_id, waste.turns[0] if waste.turns else 0)
        self.app.call_from_thread(self._leave_for_entry, entry)

    def _open_calls(self, tool: str) -> None:
        """Show the calls of a tool over this screen, to which Escape leads back."""
        from tui.screens.tool_calls import ToolCallsScreen

        source = FigureSource(tool, NOTHING, filters=build_filter("tool", tool))
        words = self._state.build_query(source)
        screen = ToolCallsScreen(self._store, self._clock, words, self._folder_scopes, self._state.folder)
        self.app.push_screen(screen, self._leave_for_entry)

    def _leave_for_entry(self, entry: str | None) -> None:
        if entry is not None:
            self.dismiss(StatsChoice(self.state, entry=entry))

    def _select_row(self) -> FigureSource | None:
        """Return what the row under the cursor is about. Say why, if no query finds its sessions."""
        row, table = self.table.selected, self._state.tab
        if row is None or table == "waste":
            return None
        if table == "tool":
            self.notify(TOOLS_HAVE_NO_TOKENS, timeout=4, markup=False)
            return None
        source = FigureSource(row.label, row.figures)
        if table == "session":
            return source._replace(session_id=row.key)
        filters = build_filter(table, row.key)
        if not filters:
            self.notify(f"No filter finds these sessions: {row.label}.", timeout=4, markup=False)
            return None
        return source._replace(filters=filters, model=row.key if table == "model" else None)

    def _open_source(self, source: FigureSource) -> None:
        self.dismiss(StatsChoice(self.state, query=self._state.build_query(source)))

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in _KEYS_OUTSIDE_SEARCH:
            return not self.bar.query_input.has_focus
        return super().check_action(action, parameters)

    def action_period(self, index: int) -> None:
        self._move_to(self._state.period.rename(PERIODS[index], self._today))

    def action_move_period(self, by: int) -> None:
        self._move_to(self._state.period.move(by, self._today))

    def _move_to(self, period: StatsPeriod) -> None:
        if period != self._state.period:
            self.bars.reset_cursor()
            self._change(period=period)

    def action_measure(self, by: int) -> None:
        measure = MEASURES[(MEASURES.index(self._state.measure) + by) % len(MEASURES)]
        self._state = self._state._replace(measure=measure)
        self._show_report()

    def action_tab(self, by: int) -> None:
        if self._report is not None:
            self._report = self._report._replace(rows=(), waste=())
        tab = TABS[(TABS.index(self._state.tab) + by) % len(TABS)]
        self.tables.choose(tab)
        self._change(tab=tab)

    def action_stack(self) -> None:
        self._change(stacked_by="agent" if self._state.stacked_by == "model" else "model")

    def action_explain(self) -> None:
        """Show the sum behind the figure under the cursor."""
        chart = self.focused
        source = chart.selected if isinstance(chart, ChartView) else self._select_row()
        if source is not None:
            self._explain(source)

    def action_explain_total(self) -> None:
        """Show the sum behind the totals above the charts."""
        if self._report is not None:
            self._explain(FigureSource(f"Total, {self._state.period.describe(self._today)}", self._report.totals))

    def _explain(self, source: FigureSource) -> None:
        from tui.dialogs.explanation import ExplanationDialog
        from tui.screens.stats.loading import explain_source

        query = self._report.query if self._report else Query()
        load = partial(explain_source, self._store, query, self._state, source, self._clock())
        self.app.push_screen(ExplanationDialog(f"{source.title}: how it adds up", load))

    def action_scope(self) -> None:
        self._change(folder=next_folder_scope(self._folder_scopes, self._state.folder).folder)

    def action_side(self, by: int) -> None:
        name = PLACES[(PLACES.index(self._state.focus) + by) % len(PLACES)]
        if name != "table":
            self._show_chart(name)
        self.call_after_refresh(self.set_focus, self._find_widget(name))

    def action_leave(self) -> None:
        if self.bar.query_input.value:
            self.bar.clear()
            self.set_focus(self._find_widget(self._state.focus))
        else:
            self.dismiss(None)
