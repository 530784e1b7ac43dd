"""The tool calls of all sessions: the same words and filters as for sessions, the newest or the slowest first; and the
tools by their names, as they are used, fail, or keep one waiting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Static

from store.database.cancel import until_stale
from store.model.entry import PairedCall
from store.model.session import Session
from store.model.tool_stats import CALL_ORDERS, TOOL_ORDERS, CallOrder, Tally, ToolOrder
from store.search import all_tool_calls
from store.search.explain import instead
from store.search.query import Query, Vocabulary
from store.search.typos import found_or_forgiven
from tui.messages import Told
from tui.render.styles import MUTED, age, count, title_of
from tui.render.tool_call_details import CallLine, call_line, table_head
from tui.render.tool_stats_lines import tally_head
from tui.screens.browser.session_list import Scope, next_scope, searching
from tui.screens.store_screen import Clock
from tui.screens.table_screen import WatchingScreen
from tui.widgets.key_hints import KeysLine
from tui.widgets.tables.tool_call_table import CallsTable
from tui.widgets.tables.tool_stats_table import TalliesTable
from tui.widgets.top_bar import TopBar
from tui.workers import pauses, threaded

if TYPE_CHECKING:
    from store.store import Store

PAGE = 500
"""Calls that are listed: who has not found it among so many narrows the words."""

_CALLS_TOLD: dict[CallOrder, str] = {"newest": "newest first", "slowest": "slowest first"}
_TOOLS_TOLD: dict[ToolOrder, str] = {"used": "most used", "failing": "most failing", "slowest": "slowest"}


class ToolsScreen(WatchingScreen):
    AUTO_FOCUS = "CallsTable"
    DEFAULT_CSS = """
    ToolsScreen {
        #head {
            height: 1;
        }

        TalliesTable, #none {
            display: none;
        }

        #none {
            height: 1fr;
            content-align: center middle;
        }

        &.-by-name {
            CallsTable {
                display: none;
            }

            TalliesTable {
                display: block;
            }
        }

        &.-nothing {
            CallsTable, TalliesTable, #head {
                display: none;
            }

            #none {
                display: block;
            }
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        searching("tools.search", "Only the calls with these words, or that these filters let through"),
        Binding("o", "order", "Order", id="tools.order", tooltip="Newest or slowest; used, failing or slowest"),
        Binding("s", "scope", "Scope", id="tools.scope", tooltip="Everywhere, this folder, this git work tree"),
        Binding("n", "names", "By name", id="tools.names", tooltip="The tools by their names, and back to the calls"),
        Binding("escape,q,A", "leave", "Back", id="tools.back", tooltip="Without words; then, back to the browser"),
    ]

    bar = query_one(TopBar)
    table = query_one(CallsTable)
    tallies = query_one(TalliesTable)

    class Listed(Told):
        """The calls that match, and what they matched; how many there are in all, where that is known."""

        generation: int
        query: Query
        lines: Sequence[CallLine]
        sessions: Mapping[int, str]
        total: int | None

    class Tallied(Told):
        generation: int
        query: Query
        tallies: Sequence[Tally]

    class Known(Told):
        vocabulary: Vocabulary

    class Chosen(Told):
        """A call is to be looked at."""

        session: Session
        call: int

    def __init__(self, store: Store, clock: Clock, words: str, scopes: Sequence[Scope], folder: str) -> None:
        super().__init__(store, clock)
        self._words = words
        self._scopes = scopes
        self._scope = next(scope for scope in scopes if scope.folder == folder)
        self._order: CallOrder = "newest"
        self._tool_order: ToolOrder = "used"
        self._sessions: Mapping[int, str] = {}
        self._stays = True
        "Whether the cursor stays on its call when others come; not where others are wanted."

    def compose(self) -> ComposeResult:
        yield TopBar("tool calls")
        yield Static(id="head")
        yield CallsTable()
        yield TalliesTable()
        yield Static(Content.styled("No tool call is like that.", MUTED), id="none")
        yield KeysLine()

    def on_mount(self) -> None:
        self.bar.words.value = self._words

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    def load(self) -> None:
        self._generation += 1
        query = Query.parse(self._words, typing=True).within(self._scope.folder)
        if self.has_class("-by-name"):
            self._tally(query, self._tool_order, self._generation)
        else:
            self._list(query, self._order, self._generation)

    @threaded(exclusive=True, group="calls")
    def _list(self, query: Query, order: CallOrder, generation: int) -> None:
        """As one types, what there is at once; after a pause, how much, and what may have been meant."""

        def stale() -> bool:
            return generation != self._generation

        def matching(meant: Query) -> list[PairedCall]:
            return all_tool_calls.matching(self._store, meant, by=order, limit=PAGE, now=self._clock())

        with until_stale(self._store, stale):
            found = matching(query)
            if found:
                self.post_message(self._listed(generation, query, found, None))
            if pauses(stale):
                if not found:
                    query, found = found_or_forgiven(self._store, query, ["tools_fts"], matching, lambda few: not few)
                total = all_tool_calls.count(self._store, query, self._clock()) if len(found) == PAGE else len(found)
                self.post_message(self._listed(generation, query, found, total))

    def _listed(self, generation: int, query: Query, found: Sequence[PairedCall], total: int | None) -> Listed:
        now, names = self._clock(), {call.session_id for call in found}
        sessions = {session.id: session for session in map(self._store.sessions.get, names)}
        lines = [
            call_line(call, session.cwd)._replace(where=f"{age(call.at, now):<8}  {title_of(session)}")
            for call, session in ((call, sessions[call.session_id]) for call in found)
        ]
        return self.Listed(generation, query, lines, {call.key: call.session_id for call in found}, total)

    @threaded(exclusive=True, group="calls")
    def _tally(self, query: Query, order: ToolOrder, generation: int) -> None:
        with until_stale(self._store, lambda: generation != self._generation):
            query, found = found_or_forgiven(
                self._store,
                query,
                ["tools_fts"],
                lambda meant: all_tool_calls.tallies(self._store, meant, by=order, now=self._clock()),
                lambda few: not few,
            )
            self.post_message(self.Tallied(generation, query, found))

    @threaded(exclusive=True, group="vocabulary")
    def _learn_words(self) -> None:
        self.post_message(self.Known(self._store.search.vocabulary()))

    @threaded(exclusive=True, group="session")
    def _find_session(self, session_id: str, call: int) -> None:
        self.post_message(self.Chosen(self._store.sessions.get(session_id), call))

    # ── what goes down ────────────────────────────────────────────────────────────────────────────

    @on(Listed)
    def _show_calls(self, listed: Listed) -> None:
        if listed.generation != self._generation:
            return
        self._sessions = listed.sessions
        self.table.show(listed.lines, self.table.selected if self._stays else None)
        self._stays = True
        if listed.total is not None:
            self._tell(listed.query, count(listed.total, "call") or "no calls", _CALLS_TOLD[self._order])
        self.call_after_refresh(self._show_head)  # once what is shown has its width
        self.show_nothing(not listed.lines, self.table, self.bar.words)

    @on(Tallied)
    def _show_tallies(self, tallied: Tallied) -> None:
        if tallied.generation != self._generation:
            return
        self.tallies.show(tallied.tallies)
        self._tell(tallied.query, count(len(tallied.tallies), "tool") or "no tools", _TOOLS_TOLD[self._tool_order])
        self.call_after_refresh(self._show_head)  # once what is shown has its width
        self.show_nothing(not tallied.tallies, self.tallies, self.bar.words)

    def _tell(self, query: Query, counted: str, order: str) -> None:
        where = f" · {self._scope.name}" if self._scope.folder else ""
        self.bar.show_count(f"{counted}{where} · {order}")
        if query.instead:
            self.bar.show_understood(instead(query), doubtful=True)

    def on_resize(self) -> None:
        self.call_after_refresh(self._show_head)

    def _show_head(self) -> None:
        by_name = self.has_class("-by-name")
        width = (self.tallies if by_name else self.table).text_width
        head = tally_head(width) if by_name else table_head(self.table.longest, width, where=True)
        self.query_one("#head", Static).update(Content.assemble(" ", head))

    @on(Known)
    def _offer_words(self, known: Known) -> None:
        self.bar.know(known.vocabulary)

    # ── what comes up ─────────────────────────────────────────────────────────────────────────────

    @on(TopBar.Entered)
    def _prepare_offers(self) -> None:
        self._learn_words()

    @on(TopBar.Asked)
    def _ask(self, asked: TopBar.Asked) -> None:
        if asked.query != self._words:
            self._words = asked.query
            self._stays = False
            self.load()

    @on(TopBar.Left)
    def _leave_bar(self) -> None:
        if not self.has_class("-nothing"):
            self.set_focus(self._shown)

    @property
    def _shown(self) -> CallsTable | TalliesTable:
        return self.tallies if self.has_class("-by-name") else self.table

    @on(CallsTable.Opened)
    def _open(self) -> None:
        if self.table.selected is not None:
            self._find_session(self._sessions[self.table.selected], self.table.selected)

    @on(Chosen)
    def _look_at(self, chosen: Chosen) -> None:
        from tui.screens.inspector import InspectorScreen

        self.app.push_screen(InspectorScreen(self._store, chosen.session, chosen.call), self._read_on)

    def _read_on(self, entry: str | None) -> None:
        if entry is not None:
            self.dismiss(entry)

    @on(TalliesTable.Opened)
    def _show_calls_of(self, opened: TalliesTable.Opened) -> None:
        """The calls of that tool, of those that were found."""
        words = self._words.strip()
        self.bar.words.value = f'{words} tool:"{opened.name}" '.lstrip() if '"' not in opened.name else words
        self.action_names()

    # ── keys ──────────────────────────────────────────────────────────────────────────────────────

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action in ("search", "order", "scope", "names"):
            return not self.bar.words.has_focus
        return super().check_action(action, parameters)

    def action_search(self) -> None:
        self.set_focus(self.bar.words)

    def action_order(self) -> None:
        if self.has_class("-by-name"):
            self._tool_order = TOOL_ORDERS[(TOOL_ORDERS.index(self._tool_order) + 1) % len(TOOL_ORDERS)]
        else:
            self._order = CALL_ORDERS[(CALL_ORDERS.index(self._order) + 1) % len(CALL_ORDERS)]
            self._stays = False
        self.load()

    def action_scope(self) -> None:
        self._scope = next_scope(self._scopes, self._scope.folder)
        self.load()

    def action_names(self) -> None:
        self.toggle_class("-by-name")
        self.remove_class("-nothing")
        self.call_after_refresh(self.set_focus, self._shown)
        self.load()

    def action_leave(self) -> None:
        if self.bar.words.value:
            self.bar.clear()
            self.set_focus(self._shown)
        elif self.has_class("-by-name"):
            self.action_names()
        else:
            self.dismiss(None)
