"""This dialog exports a session, a turn or one entry to a file, with the same choices as `backscroll export`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from store.errors import LeaksFound, StoreError
from store.export.options import EXPORT_FORMATS, ExportOptions
from store.leaks.gate import LeakPolicy
from store.model.session import Session
from store.text.sanitize import one_line
from tui.dialogs.layout import HELP_BINDING, PREVIEW_CSS
from tui.dialogs.path import PathDialog
from tui.messages import DataMessage
from tui.render.styles import ERROR, MUTED, STRONG, build_content, render_message
from tui.widgets.key_hints import KeyHintBar
from tui.widgets.text_view import AutoHeightText
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

Scope = Literal["session", "turn", "entry"]

_NEXT_POLICY: dict[LeakPolicy, LeakPolicy] = {"refuse": "redact", "redact": "allow", "allow": "refuse"}

PREVIEW_LINES = 200
MAX_LINE_CELLS = 300


class SessionExportDialog(ModalScreen[str | None]):
    """Returns the path of the file that was written, or None."""

    AUTO_FOCUS = "TextView"
    DEFAULT_CSS = "SessionExportDialog {" + PREVIEW_CSS + " Vertical { width: 110; } " + "}"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "write", "Write", id="export.write", tooltip="Choose the file and write it"),
        Binding("f", "next_format", "Format", id="export.format", tooltip="Markdown, HTML, JSON, ATIF or records"),
        Binding("s", "next_scope", "Range", id="export.scope", tooltip="The session, this turn, or this entry"),
        Binding("t", "leave_out('tools')", "Tools", id="export.tools", tooltip="With or without tool calls"),
        Binding("h", "leave_out('thinking')", "Thinking", id="export.thinking", tooltip="With or without thinking"),
        Binding(
            "m", "mask", "Leaks", id="export.leaks", tooltip="Stop at keys and passwords, mask them, or allow them"
        ),
        Binding("escape,q", "dismiss(None)", "Cancel", id="export.leave", tooltip="Close without a file"),
        HELP_BINDING,
    ]

    class PreviewMade(DataMessage):
        options: ExportOptions
        lines: Sequence[str]
        problem: str

    def __init__(self, store: Store, session: Session, turn: int | None = None, entry: int | None = None) -> None:
        super().__init__()
        self._store = store
        self._session = session
        self._turn = turn
        self._entry = entry
        self._scope: Scope = "session"
        self._options = ExportOptions("markdown")
        self.preview: Sequence[str] = ()
        "Holds the lines of the preview."

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Content.styled("Export", STRONG), id="title")
            yield Static(id="choices")
            yield AutoHeightText()
            yield Static(id="refusal")
        yield KeyHintBar()

    def on_mount(self) -> None:
        self._update()

    # ── choices ───────────────────────────────────────────────────────────────────────────────────

    def action_next_format(self) -> None:
        formats = EXPORT_FORMATS
        following = formats[(formats.index(self._options.format) + 1) % len(formats)]
        self._options = replace(self._options, format=following)
        if following == "raw":  # records are exported whole
            self._options = replace(self._options, tools=True, thinking=True)
        self._update()

    def action_next_scope(self) -> None:
        scopes: list[Scope] = ["session"]
        scopes += ["turn"] if self._turn is not None else []
        scopes += ["entry"] if self._turn is not None and self._entry is not None else []
        self._scope = scopes[(scopes.index(self._scope) + 1) % len(scopes)]
        turns = (self._turn, self._turn) if self._scope != "session" and self._turn is not None else None
        entry = self._entry if self._scope == "entry" else None
        self._options = replace(self._options, turns=turns, entry=entry)
        self._update()

    def action_leave_out(self, name: Literal["tools", "thinking"]) -> None:
        if name == "tools":
            self._options = replace(self._options, tools=not self._options.tools)
        else:
            self._options = replace(self._options, thinking=not self._options.thinking)
        self._update()

    def action_mask(self) -> None:
        following = _NEXT_POLICY[self._options.leaks]
        self._options = replace(self._options, leaks=following)
        self._update()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "leave_out":
            return self._options.format != "raw"
        if action == "next_scope":
            return self._turn is not None
        return super().check_action(action, parameters)

    def _update(self) -> None:
        options = self._options
        what = {"session": "the session", "turn": f"turn {self._turn}", "entry": "this entry"}[self._scope]
        leaks = {"refuse": "stops at leaks", "redact": "leaks masked", "allow": "leaks allowed"}[options.leaks]
        pieces = [
            options.format,
            what,
            "with tool calls" if options.tools else "without tool calls",
            "with thinking" if options.thinking else "without thinking",
            leaks,
        ]
        title = one_line(self._session.title, 80) or one_line(self._session.id, 80)
        self.query_one("#title", Static).update(build_content([("Export ", MUTED), (title, STRONG)]))
        self.query_one("#choices", Static).update(Content.styled(" · ".join(pieces), MUTED))
        self.refresh_bindings()
        self._make_preview(options)

    # ── preview ───────────────────────────────────────────────────────────────────────────────────

    @threaded(group="preview", exclusive=True)
    def _make_preview(self, options: ExportOptions) -> None:
        from store.export.preview import preview_lines

        try:
            lines, problem = preview_lines(self._store, self._session, options, PREVIEW_LINES), ""
        except StoreError as error:
            lines, problem = [], str(error)
        self.post_message(self.PreviewMade(options, lines, problem))

    @on(PreviewMade)
    def _show_preview(self, made: PreviewMade) -> None:
        if made.options == self._options:
            self.preview = made.lines
            self.query_one(AutoHeightText).show([Content(one_line(line, MAX_LINE_CELLS)) for line in made.lines])
            self._show_error(made.problem)

    def _show_error(self, reason: str) -> None:
        self.query_one("#refusal", Static).update(render_message(reason, ERROR))

    # ── writing ───────────────────────────────────────────────────────────────────────────────────

    def action_write(self) -> None:
        from store.export.writing import suggest_name

        def finish(typed: str | None) -> None:
            if typed is not None:
                self.dismiss(typed.strip())

        name = suggest_name(self._store, self._session, self._options)
        self.app.push_screen(ExportPathDialog(self._store, self._session, self._options, f"~/{name}"), finish)


class ExportPathDialog(PathDialog):
    """Returns the path as it was typed, after the export was written there. A file that exists is not overwritten."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Export", priority=True, id="export.take_path", tooltip="Write the file"),
    ]
    with_files = True

    def __init__(self, store: Store, session: Session, options: ExportOptions, name: str) -> None:
        super().__init__("Write the export to", name, lambda typed: write_export_file(store, session, options, typed))


def write_export_file(store: Store, session: Session, options: ExportOptions, typed: str) -> None:
    """Write an export to a new file. Raise an error that says what to do if that is refused."""
    from store.errors import AlreadyExists, Refused
    from store.export.writing import export_to_file

    try:
        path = Path(typed.strip()).expanduser().absolute()
        export_to_file(store, session, options, path)
    except AlreadyExists:
        raise Refused(f"{one_line(typed, 200)} already exists. Enter another name.") from None
    except LeaksFound as error:
        raise error.with_list("Go back and press m to mask or allow them.") from None
    except (RuntimeError, ValueError, OSError) as error:
        raise Refused(f"Cannot write {one_line(typed, 200)}: {error}. Enter another name.") from None
