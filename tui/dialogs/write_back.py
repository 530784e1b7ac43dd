"""This dialog shows exactly what a write-back would change in an agent's store, and writes it if the person agrees."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.getters import query_one
from textual.screen import Screen
from textual.widgets import Static

from store.errors import ChangedMeanwhile, SecretLocked, StoreError
from store.model.knowledge import Fact
from store.model.session import Session
from store.text.sanitize import one_line
from tui.render import glyphs
from tui.render.session_lines import abbreviate_home
from tui.render.styles import ERROR, MUTED, STRONG, SUCCESS, build_content, render_message, session_title
from tui.render.write_back_lines import ShownColumnChange, ShownRowChange, describe_row_changes, render_write_back_plan
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.text_view import TextView

if TYPE_CHECKING:
    from store.sources.kit.write_plan import RowChange
    from store.store import Store
    from store.write_back.service import WriteBackPreview
    from tui.app import Backscroll


class WriteBackDialog(Screen[bool]):
    """Returns whether something was written."""

    AUTO_FOCUS = "TextView"
    DEFAULT_CSS = """
    WriteBackDialog {
        #heading, #status {
            height: auto;
            max-height: 4;
            padding: 0 1;
        }

        #status {
            margin-bottom: 1;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "enter,y",
            "write",
            "Write back",
            id="write_back.do",
            tooltip="Make exactly these changes in the agent's store",
        ),
        Binding("r", "look", "Refresh", show=False, id="write_back.look", tooltip="Refresh the preview"),
        Binding("escape,q,n", "keep", "Cancel", id="write_back.keep", tooltip="Close without changes"),
        Binding("escape,q,n", "leave", "Back", id="write_back.leave", tooltip="Back to the previous screen"),
    ]

    app: Backscroll
    plan_view = query_one(TextView)

    def __init__(self, store: Store, subject: str, load_preview: Callable[[], WriteBackPreview]) -> None:
        """The subject names in the heading what is written back. `load_preview` runs in a thread, and again whenever
        something has changed."""
        super().__init__()
        self._store = store
        self._subject = subject
        self._load = load_preview
        self._preview: WriteBackPreview | None = None
        self._change_summary = ""
        self._is_busy = False
        self._has_written = False

    @classmethod
    def for_session(cls, store: Store, session: Session) -> WriteBackDialog:
        """Return the dialog that writes the title, summary, facts and secrets of a session back."""
        return cls(store, one_line(session_title(session), 200), lambda: store.write_back.preview(session))

    @classmethod
    def for_fact(cls, store: Store, fact: Fact, program: str) -> WriteBackDialog:
        """Return the dialog that writes a fact back, and all other edited facts of the same agent's store."""
        return cls(store, f"facts to {one_line(program, 100)}", lambda: store.write_back.preview_facts(fact))

    def compose(self) -> ComposeResult:
        yield Static(build_content([("Write back ", STRONG), (f" {self._subject}", MUTED)]), id="heading")
        yield Static(id="status")
        yield TextView()
        yield KeyHintBar()

    def on_mount(self) -> None:
        self.action_look()

    def _show_status(self, text: str, style: str = MUTED) -> None:
        self.query_one("#status", Static).update(render_message(text, style))
        self.refresh_bindings()

    @property
    def _is_ready(self) -> bool:
        preview = self._preview
        return not self._is_busy and preview is not None and bool(preview.plan.changes) and not preview.plan.conflicts

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "write" | "keep":
                return self._is_ready
            case "leave":
                return not self._is_ready
            case "look":
                return not self._is_busy
        return super().check_action(action, parameters)

    def action_keep(self) -> None:
        self.dismiss(self._has_written)

    def action_leave(self) -> None:
        self.dismiss(self._has_written)

    # ── what would change ─────────────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="write back")
    async def action_look(self) -> None:
        await self._load_preview()

    async def _load_preview(self, first: str = "") -> None:
        """Load the preview. If it is loaded again, `first` says why."""
        from tui.dialogs.secret import unlock_secrets

        self._preview = None
        self._show_status(first or "Reading the agent's store…")
        try:
            self._preview = await asyncio.to_thread(self._load)
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
            plan = f"In {where}: {self._change_summary}. A backup is made first. You can undo this."
            self._show_status(f"{first} {plan}".strip(), ERROR if first else MUTED)

    # ── doing it ──────────────────────────────────────────────────────────────────────────────────

    @work(exclusive=True, group="write back")
    async def action_write(self) -> None:
        from tui.dialogs.secret import unlock_secrets

        preview = self._preview
        if preview is None or not self._is_ready:
            return
        self._is_busy = True
        self._show_status(f"Writing: {self._change_summary}…")
        try:
            backup = await asyncio.to_thread(self._store.write_back.write, preview)
        except ChangedMeanwhile as reason:
            self._is_busy = False
            await self._load_preview(str(reason))
        except SecretLocked as locked:
            self._is_busy = False
            if await unlock_secrets(self.app, self._store):
                await self._load_preview("The secrets are unlocked.")
            else:
                self._show_status(str(locked), ERROR)
        except StoreError as reason:
            self._is_busy = False
            self._show_status(str(reason), ERROR)
        else:
            self._is_busy, self._has_written = False, True
            self._preview = None
            done = f"Wrote to {abbreviate_home(preview.locator)}: {self._change_summary}."
            where = f" The backup is {abbreviate_home(str(backup))}." if backup else ""
            self._show_status(f"{glyphs.SUCCEEDED} {done}{where} You can undo this.", SUCCESS)


def _build_rows(changes: Sequence[RowChange]) -> list[ShownRowChange]:
    from store.sources.kit.write_plan import format_value

    def format_side(columns: Mapping[str, object], name: str) -> str | None:
        return format_value(columns[name]) if name in columns else None

    rows = []
    for change in changes:
        before, after = change.before or {}, change.after or {}
        kind = "new" if change.before is None else "deleted" if change.after is None else "changed"
        columns = [
            ShownColumnChange(name, format_side(before, name), format_side(after, name))
            for name in dict.fromkeys([*before, *after])
            if kind != "changed" or before.get(name) != after.get(name)
        ]
        key = " ".join(f"{name}={format_value(value)}" for name, value in change.key.items())
        rows.append(ShownRowChange(change.table, key, kind, columns))
    return rows
