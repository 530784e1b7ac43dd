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
from store.text.sanitize import one_line, sanitize
from tui.render.session_lines import abbreviate_home
from tui.render.styles import ERROR, MUTED, STRONG, build_content, session_title
from tui.render.write_back_lines import ShownColumnChange, ShownRowChange, describe_row_changes, render_write_back_plan
from tui.widgets.text_view import TextView

if TYPE_CHECKING:
    from store.sources.kit.write_plan import RowChange
    from store.store import Store
    from store.write_back.service import WriteBackPreview
    from tui.app import Backscroll

SUCCESS = "$text-success"


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
    plan_view = query_one(TextView)

    def __init__(self, store: Store, session: Session) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._preview: WriteBackPreview | None = None
        self._change_summary = ""
        self._is_busy = False

    def compose(self) -> ComposeResult:
        yield Static(id="heading")
        yield Static(id="told")
        yield TextView()
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        title = one_line(session_title(self._session), 200)
        self.query_one("#heading", Static).update(build_content([("Write back ", STRONG), (f" {title}", MUTED)]))
        self.action_look()

    def _show_status(self, text: str, style: str = MUTED) -> None:
        self.query_one("#told", Static).update(Content.styled(sanitize(text), style))
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
        await self._load_preview()

    async def _load_preview(self, first: str = "") -> None:
        """After a sentence that says why again, if it is again."""
        from tui.dialogs.secret import unlock_secrets

        self._preview = None
        self._show_status(first or "Looking what is there …")
        try:
            self._preview = await asyncio.to_thread(self._store.write_back.preview, self._session)
        except SecretLocked as locked:
            if await unlock_secrets(self.app, self._store):
                await self._load_preview(first)
            else:
                self._show_status(str(locked), ERROR)
            return
        except StoreError as reason:
            self.plan_view.show([])
            self._show_status(str(reason), ERROR if first else MUTED)
            return
        preview = self._preview
        rows = await asyncio.to_thread(_build_rows, preview.plan.changes)
        self.plan_view.show(render_write_back_plan(rows, preview.plan.unsupported, preview.plan.conflicts))
        self._show_plan_status(preview, rows, first)

    def _show_plan_status(self, preview: WriteBackPreview, rows: Sequence[ShownRowChange], first: str) -> None:
        where = abbreviate_home(preview.locator)
        if preview.plan.conflicts:
            self._show_status(f"{first} Nothing can be written to {where} now.".strip(), ERROR)
        elif not rows:
            self._show_status(f"{first} There is nothing to write back to {where}.".strip())
        else:
            self._change_summary = describe_row_changes(rows)
            told = f"In {where}: {self._change_summary}. A backup is taken first, and undo takes it back."
            self._show_status(f"{first} {told}".strip(), ERROR if first else MUTED)

    # ── doing it ──────────────────────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="write back")
    async def action_write(self) -> None:
        from tui.dialogs.secret import unlock_secrets

        preview = self._preview
        if preview is None or not self._is_ready:
            return
        self._is_busy = True
        self._show_status(f"Writing: {self._change_summary} …")
        try:
            backup = await asyncio.to_thread(self._store.write_back.write, preview)
        except ChangedMeanwhile as reason:
            self._is_busy = False
            await self._load_preview(str(reason))
        except SecretLocked as locked:
            self._is_busy = False
            if await unlock_secrets(self.app, self._store):
                await self._load_preview("The secrets are open now.")
            else:
                self._show_status(str(locked), ERROR)
        except StoreError as reason:
            self._is_busy = False
            self._show_status(str(reason), ERROR)
        else:
            self._is_busy = False
            self._preview = None
            done = f"Wrote to {abbreviate_home(preview.locator)}: {self._change_summary}."
            kept = f" How it was before is in {abbreviate_home(str(backup))}." if backup else ""
            self._show_status(f"✓ {done}{kept} Undo takes it back.", SUCCESS)


def _build_rows(changes: Sequence[RowChange]) -> list[ShownRowChange]:
    from store.sources.kit.write_plan import format_value

    def side(value: object, there: bool) -> str | None:
        return format_value(value) if there else None

    rows = []
    for change in changes:
        before, after = change.before or {}, change.after or {}
        what = "new" if change.before is None else "deleted" if change.after is None else "changed"
        columns = [
            ShownColumnChange(name, side(before.get(name), name in before), side(after.get(name), name in after))
            for name in dict.fromkeys([*before, *after])
            if what != "changed" or before.get(name) != after.get(name)
        ]
        key = " ".join(f"{name}={format_value(value)}" for name, value in change.key.items())
        rows.append(ShownRowChange(change.table, key, what, columns))
    return rows
