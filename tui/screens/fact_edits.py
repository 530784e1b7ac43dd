"""This module edits facts. Each edit is recorded in the journal, and refused if the fact was changed elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen

from store.errors import BadValue, ChangedMeanwhile, StoreError
from store.model.session import GLOBAL_SCOPE, Session
from tui.dialogs.preview import PreviewDialog
from tui.dialogs.text import MultilineDialog, SingleLineDialog, describe_conflict
from tui.dialogs.write_back import WriteBackDialog
from tui.render.fact_lines import (
    ALL_SCOPES,
    FactRow,
    render_consolidation,
    scope_name,
)
from tui.render.line_diff import render_text_diff
from tui.render.styles import STRONG, build_content, format_count
from tui.render.viewport import RenderedLine
from tui.screens.table_screen import FilteredTableScreen
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store

ONE_LINE_NOTE = "A fact is one line. Line breaks become spaces."
LINE_PER_FACT_NOTE = "One fact per line."
FACT_EXISTS = "This fact already exists. Change the text."

_PARAGRAPH_BREAK = re.compile(r"\n\s*\n")


def open_fact_dialog(screen: Screen[object], store: Store, session: Session, entry_seq: int | None, text: str) -> None:
    """Ask for a fact, starting with the first paragraph of a text. The fact remembers the entry that it comes from."""

    def learn(typed: str) -> None:
        line = " ".join(typed.split())
        if line and not store.facts.learn(line, session=session, entry_seq=entry_seq).facts:
            raise BadValue(FACT_EXISTS)
        if not line:
            raise BadValue("The fact is empty. Enter a text.")

    def finish(typed: str | None) -> None:
        if typed is not None:
            screen.notify("Added the fact. Press f to see all facts, or u to undo.", timeout=3, markup=False)

    first = next(filter(None, map(str.strip, _PARAGRAPH_BREAK.split(text))), "")
    screen.app.push_screen(
        MultilineDialog("Save as a fact", " ".join(first.split()), learn, note=ONE_LINE_NOTE), finish
    )


def _fact_binding(keys: str, action: str, label: str, tooltip: str, *, show: bool = True) -> Binding:
    return Binding(keys, action, label, id=f"facts.{action}", tooltip=tooltip, show=show)


class AutoPushScreen(FilteredTableScreen):
    """Is a screen with edits of facts, which reach the memory files of some folders at once."""

    @threaded(group="push")
    def push_automatically(self) -> None:
        """Push into the folders that want edited facts at once. Usually there are none."""
        try:
            plan = self._store.shared_facts.push_automatically()
        except StoreError as error:
            self.app.call_from_thread(self.app.show_error, error)
            return
        for problem in plan.problems if plan else ():
            self.app.call_from_thread(self.app.show_error, BadValue(problem))


class FactEditScreen(AutoPushScreen):
    """Edits the facts that a subclass selects."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _fact_binding("a", "add", "Add", "Add a fact"),
        _fact_binding("e,enter", "edit", "Edit", "Edit this fact"),
        _fact_binding("x", "retire", "Retire", "Retire the fact, or all selected facts. Restores a retired fact."),
        _fact_binding("m", "merge", "Merge", "Merge all selected facts into one"),
        _fact_binding("c", "categorise", "Category", "Set the category of the fact, or of all selected facts"),
        _fact_binding("C", "consolidate", "Consolidate", "Edit all facts of this scope as one text"),
        _fact_binding("w", "write_back", "Write back", "Write edits back to the agent's store"),
        _fact_binding("u", "undo", "Undo", "Undo the newest edit"),
    ]

    scope = GLOBAL_SCOPE
    focused_fact_id: int | None = None
    "Names the fact to which the cursor moves when the facts are listed again."

    @property
    def selected_facts(self) -> Sequence[FactRow]:
        """The marked facts, or the one under the cursor."""
        raise NotImplementedError

    @property
    def current_fact(self) -> FactRow | None:
        raise NotImplementedError

    @property
    def scope_for_new_facts(self) -> str:
        """The scope of a new fact."""
        return GLOBAL_SCOPE if self.scope == ALL_SCOPES else self.scope

    def clear_marks(self) -> None:
        """Unmark all facts after an edit."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        line = self.current_fact
        match action:
            case "edit":
                return line is not None and line.fact.retired_at is None
            case "retire" | "categorise" | "merge":
                return line is not None
            case "write_back":
                return line is not None and bool(line.fact.foreign_place)
        return super().check_action(action, parameters)

    @threaded(group="edit")
    def _run_edit(self, edit: Callable[[], object], notice: str) -> None:
        """Run an edit in a thread. If the fact was changed elsewhere, show its current text."""
        try:
            edit()
        except ChangedMeanwhile as conflict:
            self.app.call_from_thread(self.app.show_error, BadValue(describe_conflict(conflict)))
        else:
            self.app.call_from_thread(self._notify_done, notice)
        self.app.call_from_thread(self.load)

    def _notify_done(self, notice: str) -> None:
        self.notify(notice, timeout=3, markup=False)
        self.clear_marks()
        self.push_automatically()

    def _notify_after(self, notice: str) -> Callable[[str | None], None]:
        def finish(typed: str | None) -> None:
            if typed is not None:
                self._notify_done(notice)
                self.load()

        return finish

    # ── adding and editing ────────────────────────────────────────────────────────────────────────

    def action_add(self) -> None:
        if not self.app.can_edit(self._store):
            return
        scope = self.scope_for_new_facts

        def learn(text: str) -> None:
            learned = self._store.facts.learn(text, scope=scope).facts
            if not learned:
                raise BadValue(FACT_EXISTS)
            self.focused_fact_id = learned[0].id

        note = f"{LINE_PER_FACT_NOTE} Scope: {scope_name(scope)}."
        self.app.push_screen(
            MultilineDialog("New facts", "", learn, note=note),
            self._notify_after("Added to the facts. Press u to undo."),
        )

    def action_edit(self) -> None:
        if (line := self.current_fact) is None or not self.app.can_edit(self._store):
            return
        fact = line.fact
        seen = fact.text

        def reword(text: str) -> None:
            nonlocal seen
            try:
                self._store.facts.edit(fact.id, text, seen=seen)
            except ChangedMeanwhile as conflict:
                seen = str(conflict.current)  # the dialog shows it, and saving again overwrites it
                raise

        dialog = MultilineDialog(f"Fact {fact.id}", fact.text, reword, note=ONE_LINE_NOTE)
        self.app.push_screen(dialog, self._notify_after("Edited the fact. Press u to undo."))

    def action_categorise(self) -> None:
        if not self.app.can_edit(self._store):
            return
        facts = [line.fact for line in self.selected_facts]
        seen = {fact.id: fact.category for fact in facts}

        def categorise(text: str) -> None:
            try:
                self._store.facts.categorise(list(seen), text, seen=seen)
            except ChangedMeanwhile:
                seen.update({n: self._store.facts.get(n).category for n in seen})
                raise

        categories = {fact.category for fact in facts}
        note = f"Applies to {format_count(len(facts), 'fact')}. Leave empty to remove the category."
        dialog = SingleLineDialog("Category", categories.pop() if len(categories) == 1 else "", categorise, note=note)
        self.app.push_screen(dialog, self._notify_after("Changed the category. Press u to undo."))

    # ── retiring and merging ──────────────────────────────────────────────────────────────────────

    def action_retire(self) -> None:
        """Retire the selected facts. A single retired fact is restored instead."""
        facts = [line.fact for line in self.selected_facts]
        if [fact.retired_at is not None for fact in facts] == [True]:
            self._run_edit(lambda: self._store.facts.restore(facts[0].id), "Restored the fact. Press u to undo.")
            return
        seen = {fact.id: fact.text for fact in facts if fact.retired_at is None}
        notice = f"Retired {format_count(len(seen), 'fact')}. Press u to undo."
        self._run_edit(lambda: self._store.facts.retire_all(list(seen), seen=seen), notice)

    def action_merge(self) -> None:
        facts = [line.fact for line in self.selected_facts]
        if not self.app.can_edit(self._store):
            return
        if len(facts) < 2:
            self.notify("Select two or more facts with Space, then press m to merge them.", timeout=3)
            return
        seen = {fact.id: fact.text for fact in facts}

        def merge(text: str) -> None:
            try:
                self._store.facts.merge(list(seen), text, seen=seen)
            except ChangedMeanwhile:
                seen.update({n: self._store.facts.get(n).text for n in seen})
                raise

        together = "\n".join(fact.text for fact in facts)
        dialog = MultilineDialog(f"Merge {len(facts):,} facts", together, merge, note=ONE_LINE_NOTE)
        self.app.push_screen(dialog, self._notify_after("Merged the facts. Press u to undo."))

    # ── consolidating ─────────────────────────────────────────────────────────────────────────────

    @threaded(group="edit")
    def action_consolidate(self) -> None:
        scope = self.scope_for_new_facts
        self.app.call_from_thread(self._open_consolidation, Consolidation(self._store, scope))

    def _open_consolidation(self, consolidation: Consolidation) -> None:
        """Ask for the new text, then show the difference. If the person declines it, ask again with the same text."""
        if not self.app.can_edit(self._store):
            return

        def show(text: str | None) -> None:
            if text is not None:
                shown = PreviewDialog(f"Consolidate facts · {name}", consolidation.preview, consolidation.apply)
                self.app.push_screen(shown, finish)

        def finish(was_done: bool | None) -> None:
            if was_done:
                self._notify_done("Consolidated the facts. Press u to undo.")
                self.load()
            else:
                self._open_consolidation(consolidation)

        name = scope_name(consolidation.scope)
        note = f"{LINE_PER_FACT_NOTE} Imported facts are not listed. You will see the changes before they are saved."
        dialog = MultilineDialog(f"All facts · {name}", consolidation.text, consolidation.set_text, note=note)
        self.app.push_screen(dialog, show)

    # ── write-back ────────────────────────────────────────────────────────────────────────────────

    def action_write_back(self) -> None:
        if (line := self.current_fact) is not None and line.fact.foreign_place:
            dialog = WriteBackDialog.for_fact(self._store, line.fact, line.origin.program)
            self.app.push_screen(dialog, self._finish_write_back)

    def _finish_write_back(self, was_written: bool | None) -> None:
        if was_written:
            self._notify_done("Written back after a backup. Press u to undo, also in the agent's store.")
            self.load()

    @threaded(group="edit")
    def action_undo(self) -> None:
        from tui.screens.journal import undo_newest

        notice = undo_newest(self._store)
        self.app.call_from_thread(self._notify_done, notice)
        self.app.call_from_thread(self.load)


class Consolidation:
    """Rewrites all facts of a scope as one text. Its methods run in threads."""

    def __init__(self, store: Store, scope: str) -> None:
        self.scope = scope
        self._store = store
        self._seen = self.text = store.facts.blob(scope)
        self._conflict_lines: list[RenderedLine] = []

    def set_text(self, text: str) -> None:
        if not text.strip():
            raise BadValue("The text is empty, so all facts would be retired. Retire them one by one instead.")
        self.text = text
        self._store.facts.diff(text, self.scope)

    def preview(self) -> tuple[list[RenderedLine], bool]:
        change = self._store.facts.diff(self.text, self.scope)
        notice = f"{len(change.edited)} edited, {len(change.added)} added, {len(change.retired)} retired"
        lines = [build_content([(notice if change.change_count else "Nothing changes.", STRONG)]), Content("")]
        return [*self._conflict_lines, *lines, *render_consolidation(change.text)], bool(change.change_count)

    def apply(self) -> None:
        try:
            self._store.facts.consolidate(self.text, self.scope, seen=self._seen)
        except ChangedMeanwhile as conflict:
            changes = render_text_diff(self._seen, str(conflict.current))
            self._conflict_lines = [build_content([("Changed elsewhere:", STRONG)]), *changes, Content("")]
            self._seen = str(conflict.current)
            raise
