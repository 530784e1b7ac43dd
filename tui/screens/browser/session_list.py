"""This module loads the sessions that a screen lists: it searches, orders, folds and keeps the list up to date."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from store.database.cancel import cancel_when
from store.errors import StoreError
from store.search.list_rows import (
    GROUPINGS,
    LINES_PER_ROW,
    ORDERS,
    SessionListLayout,
    SessionListOptions,
    SessionRow,
    ToolHits,
)
from store.search.query import Query
from store.search.saved_searches import SavedSearch, expand_saved_searches
from store.search.session_list import build_session_list, load_rows
from tui.render.styles import format_count
from tui.screens.folder_scope import current_folder, list_folder_scopes, next_folder_scope
from tui.textual_compat import refresh_immediately, reliable_timer
from tui.widgets.session_list_view import ROWS_PER_PAGE, SessionListView
from tui.workers import run_in_thread, wait_for_typing_pause

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from textual.timer import Timer

    from store.store import Store
    from tui.screens.session_list_screen import SessionListScreen
    from tui.screens.store_screen import Clock

MIN_TYPED_ROWS = 10
"""Each key is answered with at least this many sessions, and with more if more are in view."""

INLINE_ANSWER_SECONDS = 0.012
"""A typed letter waits this long at most for the sessions that it finds. Usually both are then painted together, and
the two threads do not compete for the processor."""

TYPING_SECONDS = 1.0
"""A person is taken to type for this long after a letter."""


class LoadedSessions(NamedTuple):
    """Holds all sessions that match, or the first few of them."""

    generation: int
    session_list: SessionListLayout
    keep_cursor: bool
    is_complete: bool
    rows: Sequence[SessionRow] = ()
    "Holds the rows that were read together with the list."
    is_typed: bool = False
    is_first: bool = False
    "Is set for the first answer to a letter. Another one follows after a pause."
    is_extended: bool = False
    "Is set if the list is shown already, without the sessions that were found in tool calls only."
    is_final: bool = False
    "Is set if no other sessions will be found."


class SessionList:
    """Loads the list of a screen from the store and shows it in the screen's list and top bar.

    The screen forwards to it what its widgets ask for. Threads read the store; an answer to an outdated request is
    dropped.
    """

    def __init__(self, screen: SessionListScreen[Any], store: Store, clock: Clock) -> None:
        self.options = SessionListOptions()
        self.folder_scopes = list_folder_scopes(current_folder())
        self._screen = screen
        self._store = store
        self._clock = clock
        self._generation = 0
        "Numbers the requests; an answer to an older one is dropped."
        self._final_generation = 0
        "Numbers the request that was answered completely last."
        self._typed_at = float("-inf")
        self._reload_timer: Timer | None = None
        self._shown_inline: LoadedSessions | None = None
        self._reported = SessionListLayout()
        "Is the complete list that the top bar counts."

    @cached_property
    def _typing_executor(self) -> ThreadPoolExecutor:
        """Return the thread that answers typed queries. It is imported at the first query."""
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(thread_name_prefix="typed")

    def close(self) -> None:
        if "_typing_executor" in vars(self):
            self._typing_executor.shutdown(wait=False, cancel_futures=True)

    @property
    def is_current(self) -> bool:
        """Whether the sessions that are shown are those of the query as it is typed now."""
        return self._screen.sessions.listing.options.query == self.options.query

    @property
    def is_narrowed(self) -> bool:
        """Whether a query or a folder limits the list."""
        return bool(self.options.query or self.options.folder)

    # ── changing the list ─────────────────────────────────────────────────────────────────────────

    def change(self, *, keep_cursor: bool = True, **changes: object) -> None:
        """Load the list with other options. The cursor stays on its session if `keep_cursor` is set."""
        self.options = self.options._replace(**changes)  # type: ignore[arg-type]
        self.load(keep_cursor=keep_cursor)

    def search(self, text: str) -> None:
        text = expand_saved_searches(text, self._screen.bar.searches, is_typing=True)
        self.options = self.options._replace(query=text)
        if Query.parse(text, is_typing=True).fts():
            self._load_typed_query()
        else:
            self.load(keep_cursor=not text)

    def fold(self, key: int, is_folded: bool) -> None:
        """Hide or show the sessions that came from this one."""
        unfolded = self.options.unfolded
        self.change(unfolded=unfolded - {key} if is_folded else unfolded | {key})

    def switch_folder_scope(self) -> None:
        self.change(folder=next_folder_scope(self.folder_scopes, self.options.folder).folder)

    def set_order(self, options: SessionListOptions | None) -> None:
        """Change the order and the headings, and remember them for the next start."""
        if options is not None:
            self.change(order=options.order, group=options.group)
            self._screen.app.settings.save_list_order(options.order, options.group)

    def restore_order(self) -> None:
        """Use the order and the headings that were chosen last."""
        order, group = self._screen.app.settings.list_order
        self.options = self.options._replace(
            order=next((known for known in ORDERS if known == order), self.options.order),
            group=next((known for known in GROUPINGS if known == group), self.options.group),
        )

    def clear(self) -> None:
        """Remove the query, or the folder if there is no query."""
        if not self.options.query and self.options.folder:
            self.change(folder="")
        self._screen.bar.clear()

    # ── loading ───────────────────────────────────────────────────────────────────────────────────

    def show_first_rows(self) -> None:
        """Read the first rows without a thread: nothing is on the screen yet, and a thread would take longer."""
        with suppress(StoreError):  # the thread meets the same error and shows it
            first = build_session_list(self._store, self.options, ROWS_PER_PAGE, self._clock())
            self._screen.sessions.show_initial(first, load_rows(self._store, first.keys))

    def load(self, *, keep_cursor: bool) -> None:
        self._generation += 1
        needs_first_page = not self._screen.sessions.keys and self.options.group in ("day", "none")
        self._start_thread(keep_cursor=keep_cursor, first_page=needs_first_page)

    def load_changes(self) -> None:
        """Load the list again because the store has changed.

        This waits while a person types, as an import changes the store several times a second: the answer to the last
        letter would be dropped, and all matches would be searched at once.
        """
        seconds_left = self._typed_at + TYPING_SECONDS - time.monotonic()
        if seconds_left <= 0:
            self.load(keep_cursor=self._screen.keeps_cursor)
        elif self._reload_timer is None:
            self._reload_timer = reliable_timer(self._screen.set_timer(seconds_left, self._load_postponed_changes))

    def _load_postponed_changes(self) -> None:
        self._reload_timer = None
        self.load_changes()

    def _load_typed_query(self) -> None:
        """Show the newest matches at every key; after a pause, show all of them with the best on top."""
        self._generation += 1
        self._typed_at = time.monotonic()
        self._screen.app.prepare_for_typing()
        rows_in_view = self._screen.sessions.page.height // LINES_PER_ROW + 1
        answer = self._typing_executor.submit(
            self._answer_typed_query, self.options, self._generation, max(rows_in_view, MIN_TYPED_ROWS)
        )
        with suppress(TimeoutError, StoreError):  # the thread that loads all matches meets the same error and shows it
            self._show_inline(answer.result(INLINE_ANSWER_SECONDS))
        self._start_thread(is_typed=True)

    def _start_thread(self, *, keep_cursor: bool = False, first_page: bool = False, is_typed: bool = False) -> None:
        function = partial(self._load_in_thread, self.options, self._generation, keep_cursor, first_page, is_typed)
        run_in_thread(self._screen, function, group="list", exclusive=True)

    def _load_in_thread(
        self, options: SessionListOptions, generation: int, keep_cursor: bool, first_page: bool, is_typed: bool
    ) -> None:
        def is_stale() -> bool:
            return generation != self._generation

        if is_typed and not wait_for_typing_pause(is_stale):
            return
        with cancel_when(self._store, is_stale):
            if first_page:
                begin = build_session_list(self._store, options, ROWS_PER_PAGE, self._clock())
                self._hand_over(LoadedSessions(generation, begin, keep_cursor, is_complete=False))
            all_sessions = build_session_list(self._store, options, now=self._clock())
            has_words = bool(all_sessions.query.fts())
            loaded = LoadedSessions(
                generation, all_sessions, keep_cursor, is_complete=True, is_typed=is_typed, is_final=not has_words
            )
            if all_sessions.keys or not has_words:  # that nothing matches is said when tool calls were searched, too
                self._hand_over(loaded)
            if has_words:
                with_tool_hits = all_sessions.with_tool_hits(self._find_tool_hits(all_sessions))
                is_extended = bool(all_sessions.keys)
                self._hand_over(loaded._replace(session_list=with_tool_hits, is_extended=is_extended, is_final=True))

    def _answer_typed_query(
        self, options: SessionListOptions, generation: int, row_count: int
    ) -> LoadedSessions | None:
        """Find the newest matches, or all of them with the best on top if that is quick.

        This runs in a thread that is kept for the next letter: it need not be started, and its caches are filled.
        """
        from store.search.recent import is_ranked_quickly

        def is_stale() -> bool:
            return generation != self._generation

        with cancel_when(self._store, is_stale):
            is_ranked = is_ranked_quickly(self._store, Query.parse(options.query, is_typing=True))
            begin = build_session_list(self._store, options, -1 if is_ranked else row_count, self._clock())
            # An empty list is shown only after typing errors have been considered, by the other thread.
            if begin.keys and not is_stale():
                rows = load_rows(self._store, begin.keys[:row_count], begin.query, begin.last_hit_entries)
                loaded = LoadedSessions(
                    generation, begin, keep_cursor=False, is_complete=is_ranked, rows=rows, is_typed=True, is_first=True
                )
                self._hand_over(loaded)
                return loaded
        return None

    def _find_tool_hits(self, shown: SessionListLayout) -> ToolHits:
        """Find the sessions that have the words only in tool calls. It takes a while, so the others are shown before.

        The words as they were typed are tried first. A corrected word may be one that only tools have written.
        """
        from store.search.typos import find_or_correct

        def find(query: Query) -> ToolHits:
            return self._store.search.find_tool_hits(query, shown.options.folder, listed=shown.keys, now=self._clock())

        typed = Query.parse(shown.options.query, is_typing=True)
        if shown.query.corrections:
            found = find(typed)
            return found if found.hits else find(shown.query)
        if shown.keys:
            return find(typed)
        _, found = find_or_correct(self._store, typed, ["tools_fts"], find, lambda found: not found.hits)
        return found

    def load_rows(self, request: SessionListView.RowsRequested) -> None:
        """Read the rows that the list is about to show."""
        query = self._screen.search_query

        def read() -> None:
            self._screen.call_later(self._receive_rows, request, load_rows(self._store, request.keys, query))

        run_in_thread(self._screen, read, group="rows")

    def load_saved_searches(self) -> None:
        """Read the searches that a person has named."""

        def read() -> None:
            self._screen.call_later(self.set_searches, self._store.saved_searches.list_searches())

        run_in_thread(self._screen, read, group="searches", exclusive=True)

    def set_searches(self, searches: Sequence[SavedSearch]) -> None:
        bar = self._screen.bar
        has_changed = searches != bar.searches
        bar.set_searches(searches)
        # A name in the search box may mean something else now.
        if has_changed and "@" in bar.query_input.value:
            self.search(bar.query_input.value)

    # ── showing ───────────────────────────────────────────────────────────────────────────────────

    def _hand_over(self, loaded: LoadedSessions) -> None:
        self._screen.call_later(self._receive, loaded)

    def _receive(self, loaded: LoadedSessions) -> None:
        if loaded is not self._shown_inline:
            self._show(loaded)
        if loaded.is_final:
            self._final_generation = loaded.generation
            self.unmark_unlisted()
        self._screen.handle_sessions_loaded(is_typed=loaded.is_typed)

    def _show_inline(self, loaded: LoadedSessions | None) -> None:
        """Show the sessions now, before the callback that would show them."""
        if loaded is not None:
            self._show(loaded)
            self._shown_inline = loaded

    def _show(self, loaded: LoadedSessions) -> None:
        if loaded.generation != self._generation:
            return
        sessions, bar = self._screen.sessions, self._screen.bar
        shown = loaded.session_list
        if loaded.is_extended:
            sessions.extend(shown)
            self._report(shown)
            return
        before = sessions.listing
        is_same_search = before.options.query == shown.options.query and before.options.folder == shown.options.folder
        if loaded.is_complete and is_same_search and not shown.tool_hits.hits:
            # The list is loaded again, and its tool calls are about to be searched again.
            shown = shown.with_tool_hits(before.tool_hits)
        # A person who has moved into the list by now keeps the session under the cursor.
        is_in_list = (
            loaded.is_typed
            and not loaded.is_first
            and (sessions.cursor > 0 or not bar.query_input.has_focus or bar.query_input.is_choosing)
        )
        sessions.show(shown, loaded.rows, follow=loaded.keep_cursor or is_in_list, whole=loaded.is_complete)
        if loaded.is_first:
            refresh_immediately(self._screen, sessions)
        elif loaded.is_complete:
            self._report(shown)

    def unmark_unlisted(self) -> None:
        """Drop the sessions from the selection that the list does not show any more, and say so.

        While a person types, the list is narrowed step by step, so the selection waits until the search is done.
        """
        is_final = self._final_generation == self._generation
        if not is_final or self._screen.bar.query_input.has_focus:
            return
        if dropped := self._screen.sessions.unmark_unlisted():
            notice = f"Cleared the selection of {format_count(dropped, 'session')}."
            self._screen.notify(notice, timeout=3, markup=False)

    def show_count(self) -> None:
        """Say in the top bar how many sessions are listed and selected."""
        self._screen.bar.show_count(self._format_count(self._reported))

    def _report(self, shown: SessionListLayout) -> None:
        """Say what a complete list holds: how many sessions, and which words were corrected."""
        self._reported = shown
        self.show_count()
        self._screen.bar.set_has_results(bool(shown.keys))
        self._show_corrections(shown)
        self._screen.handle_list_shown(shown)
        self._screen.refresh_bindings()

    def _show_corrections(self, shown: SessionListLayout) -> None:
        corrected = shown.query if shown.query.corrections else shown.tool_hits.query
        if corrected.corrections:
            from store.search.explain import explain_corrections

            is_in_tools = bool(shown.tool_hits.hits) and not shown.tool_hits.query.corrections
            self._screen.bar.show_corrections(explain_corrections(corrected, is_in_tools=is_in_tools))

    def _format_count(self, shown: SessionListLayout) -> str:
        noun = "found" if shown.query else "session" if shown.total == 1 else "sessions"
        scope = next(scope.name for scope in self.folder_scopes if scope.folder == shown.options.folder)
        tool_hits = shown.tool_hits
        counted = f"{shown.total:,} {noun}"
        if tool_hits.hits:
            in_tools = f"{len(tool_hits.hits)}{'+' * tool_hits.has_more}"
            more = f"{counted} · {in_tools} more in tool output"
            counted = more if shown.total else f"{in_tools} found in tool output"
        archived = f" · {shown.archived:,} archived" if shown.archived else ""
        trashed = f" · {shown.trashed:,} in the trash" if shown.trashed else ""
        marked = len(self._screen.sessions.marked_keys)
        selected = f" · {marked:,} selected" if marked else ""
        return f"{counted}{archived}{trashed}{selected} · {scope}"

    def _receive_rows(self, request: SessionListView.RowsRequested, rows: Sequence[SessionRow]) -> None:
        self._screen.sessions.receive_rows(request, rows)
        self._screen.handle_rows_loaded(request.keys)
