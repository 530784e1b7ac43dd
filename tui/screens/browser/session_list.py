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

from store.database.cancel import until_stale
from store.errors import StoreError
from store.search.list_rows import LINES, Listing, Row, Wanted
from store.search.query import Query, Vocabulary
from store.search.session_list import listing, rows, work_tree
from store.sources.kit.giving_way import ask_for
from tui.messages import Told
from tui.screens.store_screen import Clock, NoticingScreen
from tui.textual_compat import SparingCompositor, paint_at_once
from tui.widgets.session_list_view import PAGE, SessionList
from tui.widgets.top_bar import TopBar
from tui.workers import pauses, threaded

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    from store.store import Store
    from tui.app import Backscroll

Answer = TypeVar("Answer")


FEWEST = 10
"""So many sessions answer each key at least; as many as are in view."""

IN_TOOLS = 100
"""Tool calls with the words are counted no further."""

AT_ONCE_SECONDS = 0.012
"""So long at most the letter itself waits for what it finds: mostly both are painted in one go then, and neither thread
has kept the other from its work."""

TYPING_SECONDS = 0.5
"""Who has typed a letter is likely to type another."""


class Scope(NamedTuple):
    name: str
    folder: str


def scopes(here: Path | None) -> list[Scope]:
    """Everywhere, this folder, and the git work tree it is in, where that is another."""
    found = [Scope("everywhere", "")]
    if here is not None:
        found.append(Scope(f"in {here.name or here}", str(here)))
        tree = work_tree(here)
        if tree and tree != here:
            found.append(Scope(f"in work tree {tree.name}", str(tree)))
    return found


def next_scope(known: Sequence[Scope], folder: str) -> Scope:
    folders = [scope.folder for scope in known]
    return known[(folders.index(folder) + 1) % len(known)]


def current_folder() -> Path | None:
    """None when it was deleted under us."""
    try:
        return Path.cwd()
    except OSError:
        return None


def searching(name: str, tooltip: str) -> Binding:
    """Priority: the words may follow in the same breath, and must find the focus where it is going."""
    return Binding("slash", "search", "Search", key_display="/", priority=True, id=name, tooltip=tooltip)


class ListingScreen(NoticingScreen[Answer]):
    """Subclasses compose a TopBar and a SessionList, and may look at each listing as it comes with `listed`."""

    AUTO_FOCUS = "SessionList"
    BINDINGS: ClassVar[list[BindingType]] = [
        searching("list.search", "Only the sessions with these words, or that these filters let through"),
    ]

    app: Backscroll
    bar = query_one(TopBar)
    sessions = query_one(SessionList)

    class Listed(Told):
        """All sessions that match; the first few when it is not the whole list."""

        generation: int
        listing: Listing
        follow: bool
        whole: bool
        rows: Sequence[Row] = ()
        "Those that were read with it."
        typed: bool = False

    class CountedInTools(Told):
        """How many tool calls hold the words; they have a list of their own."""

        generation: int
        listing: Listing
        calls: int

    class Read(Told):
        wanted: SessionList.Wanted
        rows: Sequence[Row]

    class Known(Told):
        vocabulary: Vocabulary

    def __init__(self, store: Store, clock: Clock, *, folder: Path | None = None) -> None:
        super().__init__(store, clock)
        self._scopes = scopes(folder or current_folder())
        self._wanted = Wanted()
        self._compositor = SparingCompositor()
        self._shown_at_once: ListingScreen.Listed | None = None

    def on_mount(self) -> None:
        self.tell_time()
        self._begin()
        self.call_after_refresh(self._load, follow=True)

    def on_unmount(self) -> None:
        if "_answering" in vars(self):
            self._answering.shutdown(wait=False, cancel_futures=True)

    @cached_property
    def _answering(self) -> ThreadPoolExecutor:
        """Not loaded before somebody types."""
        from concurrent.futures import ThreadPoolExecutor

        return ThreadPoolExecutor(thread_name_prefix="typed")

    def listed(self, shown: Listing) -> None:
        """The whole of a new list is shown."""

    def changed(self) -> None:
        self._load(follow=self.keeps_place)

    @property
    def keeps_place(self) -> bool:
        """Whether the cursor stays on its session when others come before it."""
        return True

    @property
    def looked_for(self) -> Query:
        """What is looked for, to mark it in what is opened."""
        return self.sessions.listing.query

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    def want(self, *, follow: bool, **changes: object) -> None:
        """Another list. Follow: stay where the cursor is."""
        self._wanted = self._wanted._replace(**changes)  # type: ignore[arg-type]
        self._load(follow=follow)

    def _load(self, *, follow: bool) -> None:
        self._generation += 1
        at_once = not self.sessions.keys and self._wanted.group in ("day", "none")
        self._list(self._wanted, self._generation, follow=follow, at_once=at_once)

    def _load_typed(self) -> None:
        """What is being typed: the newest that fit at every key; all of them, and the best on top, after a pause."""
        self._generation += 1
        ask_for(TYPING_SECONDS)
        self.app.tidy_later()
        in_view = self.sessions.page.height // LINES + 1
        answer = self._answering.submit(self._answer, self._wanted, self._generation, max(in_view, FEWEST))
        with suppress(TimeoutError, StoreError):  # all of them, after the pause, will meet what was wrong, and tell
            self._show_at_once(answer.result(AT_ONCE_SECONDS))
        self._list(self._wanted, self._generation, typed=True)

    def _begin(self) -> None:
        """Here and not in a worker: nothing is on the screen yet, and these few rows are there sooner than a thread."""
        with suppress(StoreError):  # the worker meets it, too, and it is told
            first = listing(self._store, self._wanted, PAGE, self._clock())
            self.sessions.begin(first, rows(self._store, first.keys))

    @threaded(exclusive=True, group="list")
    def _list(
        self, wanted: Wanted, generation: int, *, follow: bool = False, at_once: bool = False, typed: bool = False
    ) -> None:
        def stale() -> bool:
            return generation != self._generation

        if typed and not pauses(stale):
            return
        with until_stale(self._store, stale):
            if at_once:
                begin = listing(self._store, wanted, PAGE, self._clock())
                self.post_message(self.Listed(generation, begin, follow, whole=False))
            whole = listing(self._store, wanted, now=self._clock())
            self.post_message(self.Listed(generation, whole, follow, whole=True, typed=typed))
            self._count_in_tools(whole, generation)

    def _answer(self, wanted: Wanted, generation: int, in_view: int) -> Listed | None:
        """In a thread that stays for the next letter: it is there at once, and has at hand what this one needed."""

        def stale() -> bool:
            return generation != self._generation

        with until_stale(self._store, stale):
            begin = listing(self._store, wanted, in_view, self._clock())
            # That there is nothing is not said before typing errors have been thought of.
            if begin.keys and not stale():
                shown = rows(self._store, begin.keys, begin.query, begin.said)
                listed = self.Listed(generation, begin, follow=False, whole=False, rows=shown, typed=True)
                self.post_message(listed)
                return listed
        return None

    def _count_in_tools(self, shown: Listing, generation: int) -> None:
        """As many as their own list would have. To look at each takes a while, and what was found is shown by then."""
        query = shown.query.within(shown.wanted.folder)
        if query.fts():
            from store.search.all_tool_calls import matching

            calls = len(matching(self._store, query, limit=IN_TOOLS, now=self._clock()))
            self.post_message(self.CountedInTools(generation, shown, calls))

    @threaded(group="rows")
    def _read(self, wanted: SessionList.Wanted, query: Query) -> None:
        self.post_message(self.Read(wanted, rows(self._store, wanted.keys, query)))

    @threaded(exclusive=True, group="vocabulary")
    def _learn_words(self) -> None:
        self.post_message(self.Known(self._store.search.vocabulary()))

    def tell_time(self) -> None:
        self.sessions.now = self._clock()

    # ── what goes down ────────────────────────────────────────────────────────────────────────────

    @on(Listed)
    def _show_list(self, listed: Listed) -> None:
        if listed.generation != self._generation or listed is self._shown_at_once:
            return
        # Whoever has gone on to the list meanwhile keeps the session they stand on.
        has_gone_on = listed.typed and listed.whole and (self.sessions.cursor > 0 or not self.bar.words.has_focus)
        self.sessions.show(listed.listing, listed.rows, follow=listed.follow or has_gone_on, whole=listed.whole)
        if listed.typed and not listed.whole:
            paint_at_once(self, self.sessions)
        if listed.whole:
            self.bar.show_count(self._counted(listed.listing, 0))
            self._tell_instead(listed.listing.query)
            self.listed(listed.listing)
            self.refresh_bindings()

    def _show_at_once(self, listed: Listed | None) -> None:
        """Before the message comes that tells of it, too."""
        if listed is not None:
            self._show_list(listed)
            self._shown_at_once = listed

    @on(CountedInTools)
    def _show_count_in_tools(self, counted: CountedInTools) -> None:
        if counted.generation == self._generation:
            self.bar.show_count(self._counted(counted.listing, counted.calls))

    def _tell_instead(self, query: Query) -> None:
        if query.instead:
            from store.search.explain import instead

            self.bar.show_understood(instead(query), doubtful=True)

    def _counted(self, shown: Listing, in_tools: int) -> str:
        what = "found" if shown.query else "session" if shown.total == 1 else "sessions"
        scope = next(scope.name for scope in self._scopes if scope.folder == shown.wanted.folder)
        besides = f" · {in_tools}{'+' * (in_tools == IN_TOOLS)} in tools" if in_tools else ""
        return f"{shown.total:,} {what}{besides} · {scope}"

    @on(Read)
    def _show_rows(self, read: Read) -> None:
        self.sessions.supply(read.wanted, read.rows)

    @on(Known)
    def _offer_words(self, known: Known) -> None:
        self.bar.know(known.vocabulary)

    # ── what comes up ─────────────────────────────────────────────────────────────────────────────

    @on(SessionList.Wanted)
    def _read_rows(self, wanted: SessionList.Wanted) -> None:
        self._read(wanted, self.looked_for)

    @on(SessionList.Folded)
    def _fold(self, folded: SessionList.Folded) -> None:
        unfolded = self._wanted.unfolded
        self.want(follow=True, unfolded=unfolded - {folded.key} if folded.folded else unfolded | {folded.key})

    @on(SessionList.ScopeAsked)
    def _next_scope(self) -> None:
        self.want(follow=True, folder=next_scope(self._scopes, self._wanted.folder).folder)

    @on(SessionList.OrderAsked)
    def _choose_order(self) -> None:
        from tui.dialogs.session_order import OrderScreen

        self.app.push_screen(OrderScreen(self._wanted), self._order)

    def _order(self, wanted: Wanted | None) -> None:
        if wanted is not None:
            self.want(follow=True, order=wanted.order, group=wanted.group)

    @on(TopBar.Entered)
    def _prepare_offers(self) -> None:
        self._learn_words()

    @on(TopBar.Asked)
    def _ask(self, asked: TopBar.Asked) -> None:
        self._wanted = self._wanted._replace(query=asked.query)
        if Query.parse(asked.query, typing=True).fts():
            self._load_typed()
        else:
            self._load(follow=not asked.query)

    @on(TopBar.Left)
    def _leave_bar(self) -> None:
        if self.sessions.keys:
            self.set_focus(self.sessions)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "search":
            return not self.bar.words.has_focus
        return super().check_action(action, parameters)

    def action_search(self) -> None:
        self.set_focus(self.bar.words)

    def action_clear(self) -> None:
        """The words first; then the scope."""
        if not self._wanted.query and self._wanted.folder:
            self.want(follow=True, folder="")
        self.bar.clear()
        self.set_focus(self.sessions)
