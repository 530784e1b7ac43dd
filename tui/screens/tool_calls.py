"""This screen searches the tool calls of all sessions, with the same queries as the session list, and shows statistics
of the tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from store.database.cancel import cancel_when
from store.model.entry import PairedCall
from store.model.session import Session
from store.model.tool_stats import CALL_ORDERS, TOOL_ORDERS, CallOrder, ToolOrder, ToolStats
from store.search import all_tool_calls
from store.search.explain import explain_corrections
from store.search.query import Query
from store.search.saved_searches import expand_saved_searches
from store.search.typos import find_or_correct
from tui.messages import DataMessage
from tui.render.inspection.parallel_calls import find_parallel_calls
from tui.render.inspection.tool_call_details import ToolCallRow, build_call_row, render_table_head
from tui.render.styles import MUTED, format_age, format_count, session_title
from tui.render.tool_stats_lines import render_tool_stats_head
from tui.screens.folder_scope import FolderScope, next_folder_scope
from tui.screens.search_screen import SearchScreen, search_binding
from tui.screens.store_screen import Clock
from tui.screens.table_screen import TableScreen
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.tables.tool_call_table import ToolCallTable
from tui.widgets.tables.tool_stats_table import ToolStatsTable
from tui.widgets.top_bar import TopBar
from tui.workers import threaded, wait_for_typing_pause

if TYPE_CHECKING:
    from store.leaks.masking import LeakMask
    from store.store import Store

MAX_LISTED_CALLS = 500
"""Limits the calls that are listed."""

_SCOPE_TOOLTIP = "Show all tool calls, or those of this folder or git work tree"

_CALL_ORDER_LABELS: dict[CallOrder, str] = {"newest": "newest first", "slowest": "slowest first"}
_TOOL_ORDER_LABELS: dict[ToolOrder, str] = {"used": "most used", "failing": "most failing", "slowest": "slowest"}


class ToolCallsScreen(TableScreen, SearchScreen[str | None]):
    AUTO_FOCUS = "ToolCallTable"
    DEFAULT_CSS = """
    ToolCallsScreen {
        #head {
            height: 1;
        }

        ToolStatsTable {
            display: none;
        }

        &.-by-name {
            ToolCallTable {
                display: none;
            }

            ToolStatsTable {
                display: block;
            }
        }

        &.-nothing {
            ToolCallTable, ToolStatsTable, #head {
                display: none;
            }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        search_binding("tools.search", "Search calls by words and filters"),
        Binding("o", "order", "Order", id="tools.order", tooltip="Change the order"),
        Binding("s", "scope", "Scope", id="tools.scope", tooltip=_SCOPE_TOOLTIP),
        Binding("n", "names", "By tool", id="tools.names", tooltip="Show totals by tool, or the calls"),
        Binding("escape,q,A", "leave", "Back", id="tools.back", tooltip="Clear the search, then go back"),
    ]

    calls_table = query_one(ToolCallTable)
    stats_table = query_one(ToolStatsTable)

    class ToolCallsLoaded(DataMessage):
        """Holds the calls that match the query, and their number if it is known."""

        generation: int
        query: Query
        lines: Sequence[ToolCallRow]
        session_ids: Mapping[int, str]
        total: int | None

    class ToolStatsLoaded(DataMessage):
        generation: int
        query: Query
        tool_stats: Sequence[ToolStats]

    class CallSessionLoaded(DataMessage):
        """Asks to open a call."""

        session: Session
        call: int
        mask: LeakMask | None

    def __init__(
        self,
        store: Store,
        clock: Clock,
        words: str,
        scopes: Sequence[FolderScope],
        folder: str,
        *,
        is_masked: bool = False,
    ) -> None:
        """List the calls that match the words in a folder. With `is_masked`, leaks are hidden."""
        super().__init__(store, clock)
        self._is_masked = is_masked
        self._query_text = words
        self._folder_scopes = scopes
        self._folder_scope = next(scope for scope in scopes if scope.folder == folder)
        self._call_order: CallOrder = "newest"
        self._tool_order: ToolOrder = "used"
        self._session_ids: Mapping[int, str] = {}
        self._keeps_cursor = True
        "Is True if the cursor stays on its call when the list is loaded again."

    def compose(self) -> ComposeResult:
        yield TopBar("tool calls")
        yield Static(id="head")
        yield ToolCallTable()
        yield ToolStatsTable()
        yield Static(Content.styled("No tool calls match.", MUTED), id="none")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.watch(self.bar.query_input, "choice", self._follow_choice, init=False)
        self.bar.query_input.value = self._query_text

    # ── reading the store ─────────────────────────────────────────────────────────────────────────

    def load(self) -> None:
        self._generation += 1
        text = expand_saved_searches(self._query_text, self.bar.searches, is_typing=True)
        query = Query.parse(text, is_typing=True).limit_to_folder(self._folder_scope.folder)
        if self.has_class("-by-name"):
            self._load_stats(query, self._tool_order, self._generation)
        else:
            self._load_calls(query, self._call_order, self._generation)

    @threaded(exclusive=True, group="calls")
    def _load_calls(self, query: Query, order: CallOrder, generation: int) -> None:
        """Load the first matches while a person types; after a pause, count them and correct typing errors."""

        def stale() -> bool:
            return generation != self._generation

        def matching(meant: Query) -> list[PairedCall]:
            return all_tool_calls.find_calls(self._store, meant, order=order, limit=MAX_LISTED_CALLS, now=self._clock())

        with cancel_when(self._store, stale):
            found = matching(query)
            if found:
                self.post_message(self._build_loaded(generation, query, found, None))
            if wait_for_typing_pause(stale):
                if not found:
                    query, found = find_or_correct(self._store, query, ["tools_fts"], matching, lambda few: not few)
                total = (
                    all_tool_calls.count_calls(self._store, query, self._clock())
                    if len(found) == MAX_LISTED_CALLS
                    else len(found)
                )
                self.post_message(self._build_loaded(generation, query, found, total))

    def _build_loaded(
        self, generation: int, query: Query, found: Sequence[PairedCall], total: int | None
    ) -> ToolCallsLoaded:
        now, names = self._clock(), {call.session_id for call in found}
        sessions = {session.id: session for session in map(self._store.sessions.get, names)}
        if (mask := self._read_mask(sessions.values())) is not None:
            found, sessions = mask.mask(found), {name: mask.mask(sessions[name]) for name in names}
        parallel = find_parallel_calls(found)
        lines = [
            build_call_row(call, session.cwd)._replace(
                session_label=f"{format_age(call.at, now):<8}  {session_title(session)}",
                is_parallel=call.key in parallel,
            )
            for call, session in ((call, sessions[call.session_id]) for call in found)
        ]
        return self.ToolCallsLoaded(generation, query, lines, {call.key: call.session_id for call in found}, total)

    def _read_mask(self, sessions: Iterable[Session]) -> LeakMask | None:
        keys = [session.key for session in sessions]
        return self._store.leaks.read_mask(*keys) if self._is_masked else None

    @threaded(exclusive=True, group="calls")
    def _load_stats(self, query: Query, order: ToolOrder, generation: int) -> None:
        with cancel_when(self._store, lambda: generation != self._generation):
            query, found = find_or_correct(
                self._store,
                query,
                ["tools_fts"],
                lambda meant: all_tool_calls.compute_tool_stats(self._store, meant, order=order, now=self._clock()),
                lambda few: not few,
            )
            self.post_message(self.ToolStatsLoaded(generation, query, found))

    @threaded(exclusive=True, group="session")
    def _load_session(self, session_id: str, call: int) -> None:
        session = self._store.sessions.get(session_id)
        self.post_message(self.CallSessionLoaded(session, call, self._read_mask([session])))

    # ── showing ───────────────────────────────────────────────────────────────────────────────────

    @on(ToolCallsLoaded)
    def _show_calls(self, listed: ToolCallsLoaded) -> None:
        if listed.generation != self._generation:
            return
        self._session_ids = listed.session_ids
        self.calls_table.show(listed.lines, self.calls_table.selected if self._keeps_cursor else None)
        self._keeps_cursor = True
        if listed.total is not None:
            self._update_status(
                listed.query, format_count(listed.total, "call") or "no calls", _CALL_ORDER_LABELS[self._call_order]
            )
        self.call_after_refresh(self._show_head)  # once what is shown has its width
        self.bar.set_has_results(bool(listed.lines))
        self.show_empty_state(not listed.lines, self.calls_table, self.bar.query_input)

    @on(ToolStatsLoaded)
    def _show_stats(self, tallied: ToolStatsLoaded) -> None:
        if tallied.generation != self._generation:
            return
        self.stats_table.show(tallied.tool_stats)
        self._update_status(
            tallied.query,
            format_count(len(tallied.tool_stats), "tool") or "no tools",
            _TOOL_ORDER_LABELS[self._tool_order],
        )
        self.call_after_refresh(self._show_head)  # once what is shown has its width
        self.bar.set_has_results(bool(tallied.tool_stats))
        self.show_empty_state(not tallied.tool_stats, self.stats_table, self.bar.query_input)

    def _update_status(self, query: Query, counted: str, order: str) -> None:
        where = f" · {self._folder_scope.name}" if self._folder_scope.folder else ""
        self.bar.show_count(f"{counted}{where} · {order}")
        if query.corrections:
            self.bar.show_corrections(explain_corrections(query))

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_head)

    def _show_head(self) -> None:
        by_name = self.has_class("-by-name")
        width = (self.stats_table if by_name else self.calls_table).text_width
        head = (
            render_tool_stats_head(width)
            if by_name
            else render_table_head(self.calls_table.name_width, width, with_session=True)
        )
        self.query_one("#head", Static).update(Content.assemble(" ", head))

    # ── messages ──────────────────────────────────────────────────────────────────────────────────

    @on(TopBar.QueryChanged)
    def _search(self, asked: TopBar.QueryChanged) -> None:
        if asked.query != self._query_text:
            self._query_text = asked.query
            self._keeps_cursor = False
            self.load()

    @on(TopBar.Exited)
    def _focus_table(self, exited: TopBar.Exited) -> None:
        if not self.has_class("-nothing"):
            self.set_focus(self._visible_table)
            if exited.opens:
                self._visible_table.action_open()

    def _follow_choice(self, before: int | None, after: int | None) -> None:
        """Move the cursor of the table for the arrow keys of the search box."""
        if before is not None and after is not None:
            self._visible_table.action_move(after - before)

    @property
    def _visible_table(self) -> ToolCallTable | ToolStatsTable:
        return self.stats_table if self.has_class("-by-name") else self.calls_table

    @on(ToolCallTable.Opened)
    def _open_selected(self) -> None:
        if self.calls_table.selected is not None:
            self._load_session(self._session_ids[self.calls_table.selected], self.calls_table.selected)

    @on(CallSessionLoaded)
    def _open_inspector(self, chosen: CallSessionLoaded) -> None:
        from tui.screens.inspector import InspectorScreen

        self.app.push_screen(
            InspectorScreen(self._store, chosen.session, chosen.call, self.app.settings.pane_sizes, chosen.mask),
            self._dismiss_to_entry,
        )

    def _dismiss_to_entry(self, entry: str | None) -> None:
        if entry is not None:
            self.dismiss(entry)

    @on(ToolStatsTable.Opened)
    def _filter_by_tool(self, opened: ToolStatsTable.Opened) -> None:
        """List the calls of the chosen tool."""
        words = self._query_text.strip()
        self.bar.query_input.value = f'{words} tool:"{opened.name}" '.lstrip() if '"' not in opened.name else words
        self.action_names()

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("order", "scope", "names"):
            return not self.bar.query_input.has_focus
        return super().check_action(action, parameters)

    def action_order(self) -> None:
        if self.has_class("-by-name"):
            self._tool_order = TOOL_ORDERS[(TOOL_ORDERS.index(self._tool_order) + 1) % len(TOOL_ORDERS)]
        else:
            self._call_order = CALL_ORDERS[(CALL_ORDERS.index(self._call_order) + 1) % len(CALL_ORDERS)]
            self._keeps_cursor = False
        self.load()

    def action_scope(self) -> None:
        self._folder_scope = next_folder_scope(self._folder_scopes, self._folder_scope.folder)
        self.load()

    def action_names(self) -> None:
        self.toggle_class("-by-name")
        self.remove_class("-nothing")
        self.call_after_refresh(self.set_focus, self._visible_table)
        self.load()

    def action_leave(self) -> None:
        if self.bar.query_input.value:
            self.bar.clear()
            self.set_focus(self._visible_table)
        elif self.has_class("-by-name"):
            self.action_names()
        else:
            self.dismiss(None)
