"""A session's secrets: what they are called, how old they are, where they were used. A value is seen when asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, TypeVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.getters import query_one
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Footer, Static

from store.conversations.sessions import UNSEEN
from store.database.cancel import until_stale
from store.errors import ChangedMeanwhile, StoreError
from store.model.knowledge import ExposedSecret, SecretName, SecretUse
from store.model.session import Session
from store.secrets.usage import uses
from tui.messages import Told
from tui.privacy.secret_value import Confided
from tui.render.secret_lines import SecretRow, detail, heading
from tui.screens.store_screen import Clock
from tui.widgets.secret_view import SecretView
from tui.widgets.tables.secret_table import SecretsTable
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from tui.app import Backscroll
    from tui.dialogs.secret import Seal

REVEAL_SECONDS = 10
TICK_SECONDS = 1.0

STILL_OPEN = "Sealed here. It still lies open there: change it where it is used, then write the new one back."

T = TypeVar("T")

_CSS = """
SecretsScreen {
    #heading, #detail {
        height: 1;
        padding: 0 1;
    }

    #heading {
        margin-bottom: 1;
    }

    SecretsTable {
        height: 1fr;
    }

    #value {
        height: 9;
        border-top: solid $foreground 15%;
    }

    SecretView {
        height: 1fr;
    }
}
"""


class SecretsScreen(Screen[str | None]):
    """Answers with the public id of the entry to go to, if the person wants to read where a secret was used."""

    AUTO_FOCUS = "SecretsTable"
    DEFAULT_CSS = _CSS
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r,enter", "reveal", "Reveal", id="secrets.reveal", tooltip="Show the value for ten seconds"),
        Binding("enter", "seal", "Seal", id="secrets.seal", tooltip="Seal here what lies open elsewhere"),
        Binding("y", "copy", "Copy", id="secrets.copy", tooltip="Copy the value; the clipboard is cleared after 30 s"),
        Binding("a", "add", "Add", id="secrets.add", tooltip="Seal another value"),
        Binding("e", "replace", "Replace", id="secrets.replace", tooltip="Seal another value under this name"),
        Binding("x", "remove", "Delete", id="secrets.remove", tooltip="Delete it; u brings it back"),
        Binding(
            "X", "erase", "Delete for ever", show=False, id="secrets.erase", tooltip="Every version of it, beyond undo"
        ),
        Binding("u", "undo", "Undo", show=False, id="secrets.undo", tooltip="Take the newest edit back"),
        Binding("L", "lock", "Lock", id="secrets.lock", tooltip="Lock the secrets, or unlock them"),
        Binding("g", "go", "Go to use", show=False, id="secrets.go", tooltip="To the newest tool call that names it"),
        Binding("ctrl+down", "scroll(1)", "On", show=False, id="secrets.down", tooltip="A line on in the value"),
        Binding("ctrl+up", "scroll(-1)", "Back", show=False, id="secrets.up", tooltip="A line back in the value"),
        Binding("escape,q", "dismiss(None)", "Back", id="secrets.back", tooltip="Back to the session"),
    ]

    app: Backscroll
    table = query_one(SecretsTable)
    value = query_one(SecretView)

    class Read(Told):
        """Names first; where they were used may take longer to find."""

        generation: int
        rows: Sequence[SecretRow]
        protection: str
        locked: bool

    def __init__(self, store: Store, session: Session, clock: Clock) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._clock = clock
        self._generation = 0
        self._state: SecretsScreen.Read | None = None
        self._left = 0
        self._countdown: Timer | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="heading")
        yield SecretsTable()
        with Vertical(id="value"):
            yield Static(id="detail")
            yield SecretView()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self.app.keep_quiet(True)
        self.app.hide_signal.subscribe(self, lambda _: self._look_again(), immediate=True)
        self.table.now = self._clock()
        self.value.show(None)
        self._look_again()

    def on_unmount(self) -> None:
        self.app.keep_quiet(False)

    # ── what the store says ───────────────────────────────────────────────────────────────────────

    def _look_again(self) -> None:
        self._hide()
        self._generation += 1
        self._read(self._generation)

    @threaded(exclusive=True, group="read")
    def _read(self, generation: int) -> None:
        def is_stale() -> bool:
            return generation != self._generation

        secrets = self._store.secrets
        with until_stale(self._store, is_stale):
            session = self._store.sessions.by_key(self._session.key)
            names: list[SecretName | ExposedSecret] = [*secrets.names(session), *secrets.exposed(session)]
            told = secrets.protection, secrets.locked
            known = self._known_uses()
            self.post_message(self.Read(generation, [SecretRow(name, known.get(name.key)) for name in names], *told))
            found = uses(self._store, session.key, {name.key for name in names}, is_stale)
            self.post_message(self.Read(generation, [SecretRow(name, found[name.key]) for name in names], *told))

    def _known_uses(self) -> Mapping[str, Sequence[SecretUse] | None]:
        return {row.key: row.uses for row in self._state.rows} if self._state else {}

    @on(Read)
    def _show(self, read: Read) -> None:
        if read.generation == self._generation:
            self._state = read
            self.table.show(read.rows)
            self._tell()

    def on_resize(self) -> None:
        self._tell()

    def _tell(self) -> None:
        if self._state is not None:
            told = heading(self._session, self._state.protection, self._state.locked, self.size.width - 2)
            self.query_one("#heading", Static).update(told)
            self.query_one("#detail", Static).update(detail(self.table.selected, self._left))
        self.refresh_bindings()

    async def _done(self, ask: Callable[[], T]) -> T | None:
        """In a thread; a refusal is told."""
        try:
            return await asyncio.to_thread(ask)
        except StoreError as error:
            self.app.show_error(error)
            self._look_again()
            return None

    # ── revealing ─────────────────────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="reveal")
    async def action_reveal(self) -> None:
        row = self.table.selected
        if row is None or not await self._is_open():
            return
        value = await self._done(partial(self._confided, row))
        # Whoever went elsewhere meanwhile did not ask to see it there.
        if value is not None and self.is_current and self.table.has_focus and self.table.selected == row:
            self.value.show(value)
            self._left = REVEAL_SECONDS
            self._countdown = self.set_interval(TICK_SECONDS, self._count_down)
            self._tell()

    def _confided(self, row: SecretRow) -> Confided:
        return Confided(self._store.secrets.get(self._session, row.key, row.version))

    def _count_down(self) -> None:
        self._left -= 1
        if self._left > 0:
            self._tell()
        else:
            self._hide()

    @on(SecretsTable.Chosen)
    @on(SecretsTable.Left)
    def _hide(self) -> None:
        if self._countdown is not None:
            self._countdown.stop()
            self._countdown = None
        self._left = 0
        if self.value.is_revealed:
            self.value.show(None)
        self._tell()

    def on_screen_suspend(self) -> None:
        self._hide()

    def on_app_blur(self) -> None:
        self._hide()

    def action_scroll(self, by: int) -> None:
        self.value.scroll_relative(y=by, animate=False)

    @work(exclusive=True, group="reveal")
    async def action_copy(self) -> None:
        row = self.table.selected
        if row is None or not await self._is_open():
            return
        value = await self._done(partial(self._confided, row))
        if value is not None:
            self.app.copy_in_confidence(value, row.key)

    # ── unlocking ─────────────────────────────────────────────────────────────────────────────────

    async def _is_open(self) -> bool:
        """After having asked for the passphrase, where one is needed."""
        from tui.dialogs.secret import opened

        was_locked = self._state is not None and self._state.locked
        is_open = bool(await self._done(lambda: not self._store.secrets.locked)) or await opened(self.app, self._store)
        if was_locked and is_open:
            self._look_again()
        return is_open

    @work(exclusive=True, group="reveal")
    async def action_lock(self) -> None:
        if self._state is not None and self._state.locked:
            await self._is_open()
        else:
            self._store.secrets.lock()
            self._look_again()

    # ── changing ──────────────────────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="edit")
    async def action_add(self) -> None:
        from tui.dialogs.secret import SecretScreen

        if await self._is_open():
            dialog = SecretScreen("A new secret", self._sealer(None), note=_ABOUT_NAMES)
            if (name := await self.app.push_screen_wait(dialog)) is not None:
                self.table.at = name
                self._look_again()

    @work(exclusive=True, group="edit")
    async def action_replace(self) -> None:
        from tui.dialogs.secret import SecretScreen

        row = self.table.selected
        if row is not None and await self._is_open():
            note = "The version before stays, for undo, until the secret is deleted for ever."
            dialog = SecretScreen(f"Another value of {row.key}", self._sealer(row.version), name=row.key, note=note)
            if await self.app.push_screen_wait(dialog) is not None:
                self._look_again()

    def _sealer(self, seen: int | None) -> Seal:
        """Told once that somebody else was faster, a person may go on."""

        def seal(name: str, value: Confided) -> None:
            nonlocal seen
            try:
                self._store.secrets.set(self._session, name, value.text, seen=seen)
            except ChangedMeanwhile:
                seen = UNSEEN
                raise

        return seal

    @work(exclusive=True, group="edit")
    async def action_remove(self) -> None:
        if (row := self.table.selected) is not None:
            remove = partial(self._store.secrets.remove, self._session, row.key, seen=row.version)
            if await self._done(lambda: remove() or True):
                self.app.notify(f"Deleted {row.key}; u brings it back.", timeout=4, markup=False)
                self._look_again()

    @threaded(group="edit")
    def action_undo(self) -> None:
        from tui.screens.journal import undo_newest

        told = undo_newest(self._store)
        self.app.call_from_thread(self._look_again)
        self.app.notify(told, timeout=4, markup=False)

    @work(exclusive=True, group="edit")
    async def action_erase(self) -> None:
        from tui.dialogs.text import ConfirmScreen

        row = self.table.selected
        if row is None:
            return
        told = "Every version of it goes, from the store and from its journal. It cannot be undone."
        if await self.app.push_screen_wait(ConfirmScreen(f"Delete {row.key} for ever?", told)):
            await self._done(partial(self._store.secrets.remove, self._session, row.key, forever=True))
            self._look_again()

    @work(exclusive=True, group="edit")
    async def action_seal(self) -> None:
        row = self.table.selected
        if row is not None and await self._is_open():
            seal = partial(self._store.writing_back.seal, self._session, row.key)
            if await self._done(lambda: seal() or True):
                self.app.notify(STILL_OPEN, timeout=8, markup=False)
                self._look_again()

    # ── away from here ────────────────────────────────────────────────────────────────────────────

    def action_go(self) -> None:
        row = self.table.selected
        if row is not None and row.uses and row.uses[-1].entry:
            self.dismiss(row.uses[-1].entry)

    @on(SecretsTable.Opened)
    def _open(self) -> None:
        row = self.table.selected
        if row is not None and row.version is None:
            self.action_seal()
        else:
            self.action_reveal()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        row = self.table.selected if self._state is not None else None
        match action:
            case "reveal" | "copy" | "replace" | "remove" | "erase":
                return row is not None and row.version is not None
            case "seal":
                return row is not None and row.version is None
            case "go":
                return row is not None and bool(row.uses and row.uses[-1].entry)
            case "lock":
                return self._state is not None and self._state.protection != "none"
            case "scroll":
                return self.value.is_revealed
        return super().check_action(action, parameters)


_ABOUT_NAMES = "The name is not sealed; the value is. ctrl+t shows what is typed."
