"""Corrections on their way into the store a session came from: exactly what would change there, then yes or no."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Footer, Static

from store.errors import ChangedMeanwhile, SecretLocked, StoreError
from store.model.session import Session
from store.text.sanitize import clean, one_line
from tui.render.session_lines import with_tilde
from tui.render.styles import ERROR, MUTED, STRONG, content, title_of
from tui.render.write_back_lines import ChangedRow, ColumnChange, plan_lines, tally
from tui.widgets.text_view import TextView

if TYPE_CHECKING:
    from store.sources.kit.write_plan import RowChange
    from store.store import Store
    from store.write_back.service import Preview
    from tui.app import Backscroll

GOOD = "$text-success"


class WriteBackScreen(Screen[None]):
    AUTO_FOCUS = "TextView"
    DEFAULT_CSS = """
    WriteBackScreen {
        #heading, #told {
            height: auto;
            max-height: 4;
            padding: 0 1;
        }

        #told {
            margin-bottom: 1;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "write", "Write it there", id="write_back.do", tooltip="Change exactly these rows there"),
        Binding("r", "look", "Look again", show=False, id="write_back.look", tooltip="Look again what would change"),
        Binding("escape,q", "keep", "Keep it here", id="write_back.keep", tooltip="Change nothing there"),
        Binding("escape,q", "dismiss(None)", "Back", id="write_back.leave", tooltip="Back to the session"),
    ]

    app: Backscroll
    lines = query_one(TextView)

    def __init__(self, store: Store, session: Session) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._preview: Preview | None = None
        self._told = ""
        self._is_busy = False

    def compose(self) -> ComposeResult:
        yield Static(id="heading")
        yield Static(id="told")
        yield TextView()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        title = one_line(title_of(self._session), 200)
        self.query_one("#heading", Static).update(content([("Write back ", STRONG), (f" {title}", MUTED)]))
        self.action_look()

    def _tell(self, text: str, style: str = MUTED) -> None:
        self.query_one("#told", Static).update(Content.styled(clean(text), style))
        self.refresh_bindings()

    @property
    def _is_ready(self) -> bool:
        found = self._preview
        return not self._is_busy and found is not None and bool(found.plan.changes) and not found.plan.conflicts

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "write" | "keep":
                return self._is_ready
            case "dismiss":
                return not self._is_ready
            case "look":
                return not self._is_busy
        return super().check_action(action, parameters)

    def action_keep(self) -> None:
        self.dismiss(None)

    # ── what would change ─────────────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="write back")
    async def action_look(self) -> None:
        await self._look()

    async def _look(self, first: str = "") -> None:
        """After a sentence that says why again, if it is again."""
        from tui.dialogs.secret import opened

        self._preview = None
        self._tell(first or "Looking what is there …")
        try:
            self._preview = await asyncio.to_thread(self._store.writing_back.preview, self._session)
        except SecretLocked as locked:
            if await opened(self.app, self._store):
                await self._look(first)
            else:
                self._tell(str(locked), ERROR)
            return
        except StoreError as reason:
            self.lines.show([])
            self._tell(str(reason), ERROR if first else MUTED)
            return
        preview = self._preview
        rows = await asyncio.to_thread(_rows, preview.plan.changes)
        self.lines.show(plan_lines(rows, preview.plan.unplaced, preview.plan.conflicts))
        self._tell_plan(preview, rows, first)

    def _tell_plan(self, preview: Preview, rows: Sequence[ChangedRow], first: str) -> None:
        where = with_tilde(preview.locator)
        if preview.plan.conflicts:
            self._tell(f"{first} Nothing can be written to {where} now.".strip(), ERROR)
        elif not rows:
            self._tell(f"{first} There is nothing to write back to {where}.".strip())
        else:
            self._told = tally(rows)
            told = f"In {where}: {self._told}. A backup is taken first, and undo takes it back."
            self._tell(f"{first} {told}".strip(), ERROR if first else MUTED)

    # ── doing it ──────────────────────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="write back")
    async def action_write(self) -> None:
        from tui.dialogs.secret import opened

        preview = self._preview
        if preview is None or not self._is_ready:
            return
        self._is_busy = True
        self._tell(f"Writing: {self._told} …")
        try:
            backup = await asyncio.to_thread(self._store.writing_back.write, preview)
        except ChangedMeanwhile as reason:
            self._is_busy = False
            await self._look(str(reason))
        except SecretLocked as locked:
            self._is_busy = False
            if await opened(self.app, self._store):
                await self._look("The secrets are open now.")
            else:
                self._tell(str(locked), ERROR)
        except StoreError as reason:
            self._is_busy = False
            self._tell(str(reason), ERROR)
        else:
            self._is_busy = False
            self._preview = None
            done = f"Wrote to {with_tilde(preview.locator)}: {self._told}."
            kept = f" How it was before is in {with_tilde(str(backup))}." if backup else ""
            self._tell(f"✓ {done}{kept} Undo takes it back.", GOOD)


def _rows(changes: Sequence[RowChange]) -> list[ChangedRow]:
    from store.sources.kit.write_plan import spelled

    def side(value: object, there: bool) -> str | None:
        return spelled(value) if there else None

    rows = []
    for change in changes:
        before, after = change.before or {}, change.after or {}
        what = "new" if change.before is None else "deleted" if change.after is None else "changed"
        columns = [
            ColumnChange(name, side(before.get(name), name in before), side(after.get(name), name in after))
            for name in dict.fromkeys([*before, *after])
            if what != "changed" or before.get(name) != after.get(name)
        ]
        key = " ".join(f"{name}={spelled(value)}" for name, value in change.key.items())
        rows.append(ChangedRow(change.table, key, what, columns))
    return rows
