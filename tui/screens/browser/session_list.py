"""What every screen with a list of sessions does: read it, narrow it, order it, fold it, and keep it true."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple, TypeVar

from textual import on
from textual.binding import Binding, BindingType
from textual.getters import query_one

from store.database.cancel import cancel_when
from store.errors import StoreError
from store.resume.git import find_work_tree
from store.search.complete import Vocabulary
from store.search.list_rows import LINES_PER_ROW, SessionListLayout, SessionListOptions, SessionRow
from store.search.query import Query
from store.search.session_list import build_session_list, load_rows
from tui.messages import DataMessage
from tui.screens.store_screen import Clock, StoreScreen
from tui.textual_compat import DirtyRegionCompositor, refresh_immediately
from tui.widgets.session_list_view import ROWS_PER_PAGE, SessionListView
from tui.widgets.top_bar import TopBar
from tui.workers import threaded, wait_for_typing_pause

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from store.store import Store
    from tui.app import Backscroll

Result = TypeVar("Result")


MIN_TYPED_ROWS = 10
"""So many sessions answer each key at least; as many as are in view."""

MAX_COUNTED_TOOL_CALLS = 100
"""Tool calls with the words are counted no further."""

INLINE_ANSWER_SECONDS = 0.012
"""So long at most the letter itself waits for what it finds: mostly both are painted in one go then, and neither thread
has kept the other from its work."""


class FolderScope(NamedTuple):
    name: str
    folder: str


def list_folder_scopes(here: Path | None) -> list[FolderScope]:
    """Everywhere, this folder, and the git work tree it is in, where that is another."""
    found = [FolderScope("everywhere", "")]
    if here is not None:
        found.append(FolderScope(f"in {here.name or here}", str(here)))
        tree = find_work_tree(here)
        if tree and tree != here:
            found.append(FolderScope(f"in work tree {tree.name}", str(tree)))
    return found


def next_folder_scope(known: Sequence[FolderScope], folder: str) -> FolderScope:
    folders = [scope.folder for scope in known]
    return known[(folders.index(folder) + 1) % len(known)]


def current_folder() -> Path | None:
    """None when it was deleted under us."""
    try:
        return Path.cwd()
    except OSError:
        return None


def search_binding(name: str, tooltip: str) -> Binding:
    """Priority: the words may follow in the same breath, and must find the focus where it is going."""
    return Binding("slash", "search", "Search", key_display="/", priority=True, id=name, tooltip=tooltip)


class SessionListScreen(StoreScreen[Result]):
    """Subclasses compose a TopBar and a SessionList, and may look at each listing as it comes with `listed`."""

    AUTO_FOCUS = "SessionListView"
    BINDINGS: ClassVar[list[BindingType]] = [
        search_binding("list.search", "Only the sessions with these words, or that these filters let through"),
    ]

    app: Backscroll
    bar = query_one(TopBar)
    sessions = query_one(SessionListView)

    class SessionsLoaded(DataMessage):
        """All sessions that match; the first few when it is not the whole list."""

        generation: int
        session_list: SessionListLayout
        keep_cursor: bool
        is_complete: bool
        rows: Sequence[SessionRow] = ()
        "Those that were read with it."
        is_typed: bool = False

    class ToolCallsCounted(DataMessage):
        """How many tool calls hold the words; they have a list of their own."""

        generation: int
        session_list: SessionListLayout
        call_count: int

    class RowsLoaded(DataMessage):
        request: SessionListView.RowsRequested
        rows: Sequence[SessionRow]

    class VocabularyLoaded(DataMessage):
        vocabulary: Vocabulary

    def __init__(self, store: Store, clock: Clock, *, folder: Path | None = None) -> None:
        super().__init__(store, clock)
        self._folder_scopes = list_folder_scopes(folder or current_folder())
        self._list_options = SessionListOptions()
        self._compositor = DirtyRegionCompositor()
        self._shown_inline: SessionListScreen.SessionsLoaded | None = None

    def on_mount(self) -> None:
        self.refresh_ages()
        self._show_first_rows()
        self.call_after_refresh(self._load_list, keep_cursor=True)

    def on_unmount(self) -> None:
        if "_typing_executor" in vars(self):
            self._typing_executor.shutdown(wait=False, cancel_futures=True)

    @cached_property
    def _typing_executor(self) -> ThreadPoolExecutor:
        """Not loaded before somebody types."""
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(thread_name_prefix="typed")

    def handle_list_shown(self, shown: SessionListLayout) -> None:
        """The whole of a new list is shown."""

    def handle_store_change(self) -> None:
        self._load_list(keep_cursor=self.keeps_cursor)

    @property
    def keeps_cursor(self) -> bool:
        """Whether the cursor stays on its session when others come before it."""
        return True

    @property
    def search_query(self) -> Query:
        """What is looked for, to mark it in what is opened."""
        return self.sessions.listing.query

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    def change_list(self, *, keep_cursor: bool, **changes: object) -> None:
        """Another list. Follow: stay where the cursor is."""
        self._list_options = self._list_options._replace(**changes)  # type: ignore[arg-type]
        self._load_list(keep_cursor=keep_cursor)

    def _load_list(self, *, keep_cursor: bool) -> None:
        self._generation += 1
        at_once = not self.sessions.keys and self._list_options.group in ("day", "none")
        self._list_in_thread(self._list_options, self._generation, keep_cursor=keep_cursor, first_page=at_once)

    def _load_typed_query(self) -> None:
        """What is being typed: the newest that fit at every key; all of them, and the best on top, after a pause."""
        self._generation += 1
        self.app.postpone_gc()
        in_view = self.sessions.page.height // LINES_PER_ROW + 1
        answer = self._typing_executor.submit(
            self._answer_typed_query, self._list_options, self._generation, max(in_view, MIN_TYPED_ROWS)
        )
        with suppress(TimeoutError, StoreError):  # all of them, after the pause, will meet what was wrong, and tell
            self._show_inline(answer.result(INLINE_ANSWER_SECONDS))
        self._list_in_thread(self._list_options, self._generation, is_typed=True)

    def _show_first_rows(self) -> None:
        """Here and not in a worker: nothing is on the screen yet, and these few rows are there sooner than a thread."""
        with suppress(StoreError):  # the worker meets it, too, and it is told
            first = build_session_list(self._store, self._list_options, ROWS_PER_PAGE, self._clock())
            self.sessions.show_initial(first, load_rows(self._store, first.keys))

    @threaded(exclusive=True, group="list")
    def _list_in_thread(
        self,
        options: SessionListOptions,
        generation: int,
        *,
        keep_cursor: bool = False,
        first_page: bool = False,
        is_typed: bool = False,
    ) -> None:
        def stale() -> bool:
            return generation != self._generation

        if is_typed and not wait_for_typing_pause(stale):
            return
        with cancel_when(self._store, stale):
            if first_page:
                begin = build_session_list(self._store, options, ROWS_PER_PAGE, self._clock())
                self.post_message(self.SessionsLoaded(generation, begin, keep_cursor, is_complete=False))
            whole = build_session_list(self._store, options, now=self._clock())
            self.post_message(self.SessionsLoaded(generation, whole, keep_cursor, is_complete=True, is_typed=is_typed))
            self._count_tool_calls(whole, generation)

    def _answer_typed_query(self, wanted: SessionListOptions, generation: int, in_view: int) -> SessionsLoaded | None:
        """In a thread that stays for the next letter: it is there at once, and has at hand what this one needed."""

        def stale() -> bool:
            return generation != self._generation

        with cancel_when(self._store, stale):
            begin = build_session_list(self._store, wanted, in_view, self._clock())
            # That there is nothing is not said before typing errors have been thought of.
            if begin.keys and not stale():
                shown = load_rows(self._store, begin.keys, begin.query, begin.last_hit_entries)
                listed = self.SessionsLoaded(
                    generation, begin, keep_cursor=False, is_complete=False, rows=shown, is_typed=True
                )
                self.post_message(listed)
                return listed
        return None

    def _count_tool_calls(self, shown: SessionListLayout, generation: int) -> None:
        """As many as their own list would have. To look at each takes a while, and what was found is shown by then."""
        query = shown.query.limit_to_folder(shown.options.folder)
        if query.fts():
            from store.search.all_tool_calls import find_calls

            calls = len(find_calls(self._store, query, limit=MAX_COUNTED_TOOL_CALLS, now=self._clock()))
            self.post_message(self.ToolCallsCounted(generation, shown, calls))

    @threaded(group="rows")
    def _load_rows(self, wanted: SessionListView.RowsRequested, query: Query) -> None:
        self.post_message(self.RowsLoaded(wanted, load_rows(self._store, wanted.keys, query)))

    @threaded(exclusive=True, group="vocabulary")
    def _load_vocabulary(self) -> None:
        self.post_message(self.VocabularyLoaded(self._store.search.load_vocabulary()))

    def refresh_ages(self) -> None:
        self.sessions.now = self._clock()

    # ── what goes down ────────────────────────────────────────────────────────────────────────────

    @on(SessionsLoaded)
    def _show_list(self, listed: SessionsLoaded) -> None:
        if listed.generation != self._generation or listed is self._shown_inline:
            return
        # Whoever has gone on to the list meanwhile keeps the session they stand on.
        has_gone_on = (
            listed.is_typed and listed.is_complete and (self.sessions.cursor > 0 or not self.bar.query_input.has_focus)
        )
        self.sessions.show(
            listed.session_list, listed.rows, follow=listed.keep_cursor or has_gone_on, whole=listed.is_complete
        )
        if listed.is_typed and not listed.is_complete:
            refresh_immediately(self, self.sessions)
        if listed.is_complete:
            self.bar.show_count(self._format_count(listed.session_list, 0))
            self._show_corrected_query(listed.session_list.query)
            self.handle_list_shown(listed.session_list)
            self.refresh_bindings()

    def _show_inline(self, listed: SessionsLoaded | None) -> None:
        """Before the message comes that tells of it, too."""
        if listed is not None:
            self._show_list(listed)
            self._shown_inline = listed

    @on(ToolCallsCounted)
    def _show_tool_call_count(self, counted: ToolCallsCounted) -> None:
        if counted.generation == self._generation:
            self.bar.show_count(self._format_count(counted.session_list, counted.call_count))

    def _show_corrected_query(self, query: Query) -> None:
        if query.corrections:
            from store.search.explain import explain_corrections

            self.bar.show_explanation(explain_corrections(query), is_warning=True)

    def _format_count(self, shown: SessionListLayout, in_tools: int) -> str:
        what = "found" if shown.query else "session" if shown.total == 1 else "sessions"
        scope = next(scope.name for scope in self._folder_scopes if scope.folder == shown.options.folder)
        besides = f" · {in_tools}{'+' * (in_tools == MAX_COUNTED_TOOL_CALLS)} in tools" if in_tools else ""
        return f"{shown.total:,} {what}{besides} · {scope}"

    @on(RowsLoaded)
    def _show_rows(self, read: RowsLoaded) -> None:
        self.sessions.receive_rows(read.request, read.rows)

    @on(VocabularyLoaded)
    def _set_vocabulary(self, known: VocabularyLoaded) -> None:
        self.bar.set_vocabulary(known.vocabulary)

    # ── what comes up ─────────────────────────────────────────────────────────────────────────────

    @on(SessionListView.RowsRequested)
    def _fetch_rows(self, wanted: SessionListView.RowsRequested) -> None:
        self._load_rows(wanted, self.search_query)

    @on(SessionListView.FoldRequested)
    def _fold(self, folded: SessionListView.FoldRequested) -> None:
        unfolded = self._list_options.unfolded
        self.change_list(
            keep_cursor=True, unfolded=unfolded - {folded.key} if folded.folded else unfolded | {folded.key}
        )

    @on(SessionListView.ScopeRequested)
    def _switch_folder_scope(self) -> None:
        self.change_list(
            keep_cursor=True, folder=next_folder_scope(self._folder_scopes, self._list_options.folder).folder
        )

    @on(SessionListView.OrderRequested)
    def _open_order_dialog(self) -> None:
        from tui.dialogs.session_order import SessionOrderDialog

        self.app.push_screen(SessionOrderDialog(self._list_options), self._set_order)

    def _set_order(self, wanted: SessionListOptions | None) -> None:
        if wanted is not None:
            self.change_list(keep_cursor=True, order=wanted.order, group=wanted.group)

    @on(TopBar.Focused)
    def _prepare_suggestions(self) -> None:
        self._load_vocabulary()

    @on(TopBar.QueryChanged)
    def _search(self, asked: TopBar.QueryChanged) -> None:
        self._list_options = self._list_options._replace(query=asked.query)
        if Query.parse(asked.query, is_typing=True).fts():
            self._load_typed_query()
        else:
            self._load_list(keep_cursor=not asked.query)

    @on(TopBar.Exited)
    def _focus_list(self) -> None:
        if self.sessions.keys:
            self.set_focus(self.sessions)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "search":
            return not self.bar.query_input.has_focus
        return super().check_action(action, parameters)

    def action_search(self) -> None:
        self.set_focus(self.bar.query_input)

    def action_clear(self) -> None:
        """The words first; then the scope."""
        if not self._list_options.query and self._list_options.folder:
            self.change_list(keep_cursor=True, folder="")
        self.bar.clear()
        self.set_focus(self.sessions)
