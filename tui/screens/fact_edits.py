"""What can be done with facts: each an edit of the journal, each with what the person was shown of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual.binding import Binding, BindingType
from textual.content import Content
from textual.screen import Screen

from store.errors import BadValue, ChangedMeanwhile
from store.model.knowledge import Fact
from store.model.session import GLOBAL, Session
from tui.dialogs.preview import ShowingScreen
from tui.dialogs.text import AskScreen, WriteScreen
from tui.render.fact_lines import EVERY_SCOPE, FactLine, PlannedRow, consolidated, planned, scope_name
from tui.render.line_diff import difference
from tui.render.styles import STRONG, content, count
from tui.screens.table_screen import WatchingScreen
from tui.workers import threaded

if TYPE_CHECKING:
    from store.store import Store
    from store.write_back.service import Preview

ONE_LINE = "A fact is one line; line breaks become spaces."
A_LINE_EACH = "A fact a line."

_PARAGRAPHS = re.compile(r"\n\s*\n")


def make_fact(screen: Screen[object], store: Store, session: Session, entry_seq: int | None, text: str) -> None:
    """Ask what of a text should be remembered beyond its conversation; the fact knows where it was learnt."""

    def learn(typed: str) -> None:
        line = " ".join(typed.split())
        if line and not store.facts.learn(line, session=session, entry_seq=entry_seq).facts:
            raise BadValue("That is known already.")
        if not line:
            raise BadValue("The fact is empty.")

    def tell(typed: str | None) -> None:
        if typed is not None:
            screen.notify("Learnt; f shows all facts, u undoes it.", timeout=3, markup=False)

    first = next(filter(None, map(str.strip, _PARAGRAPHS.split(text))), "")
    screen.app.push_screen(WriteScreen("Make this a fact", " ".join(first.split()), learn, note=ONE_LINE), tell)


def _key(keys: str, action: str, told: str, tooltip: str, *, show: bool = True) -> Binding:
    return Binding(keys, action, told, id=f"facts.{action}", tooltip=tooltip, show=show)


class FactEdits(WatchingScreen):
    """Subclasses say which facts are meant, and of which scope they are."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _key("a", "add", "Add", "Add a fact"),
        _key("e,enter", "edit", "Edit", "Say this fact otherwise"),
        _key("x", "retire", "Retire", "Let the fact, or all marked ones, stand no longer; bring a retired one back"),
        _key("m", "merge", "Merge", "Make one fact of all marked ones"),
        _key("c", "categorise", "Category", "Say what the fact, or all marked ones, are about"),
        _key("C", "consolidate", "Consolidate", "All facts of this scope as one text, to say them shorter"),
        _key("w", "write_back", "Write back", "Carry corrections into the store that the fact came from"),
        _key("u", "undo", "Undo", "Take the newest edit back"),
    ]

    scope = GLOBAL

    @property
    def meant(self) -> Sequence[FactLine]:
        """All that are marked, else the one under the cursor."""
        raise NotImplementedError

    @property
    def under_cursor(self) -> FactLine | None:
        raise NotImplementedError

    @property
    def own_scope(self) -> str:
        """To which a new fact is added."""
        return GLOBAL if self.scope == EVERY_SCOPE else self.scope

    def done(self) -> None:
        """What was marked was dealt with."""

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        line = self.under_cursor
        match action:
            case "edit":
                return line is not None and line.fact.retired_at is None
            case "retire" | "categorise" | "merge":
                return line is not None
            case "write_back":
                return line is not None and bool(line.fact.foreign_place)
        return super().check_action(action, parameters)

    @threaded(group="edit")
    def _do(self, edit: Callable[[], object], told: str) -> None:
        """An edit that asks nothing. What was changed meanwhile is told, and shown as it is now."""
        try:
            edit()
        except ChangedMeanwhile as clash:
            self.app.call_from_thread(self.app.show_error, BadValue(f"{clash} It says now: {clash.current}"))
        else:
            self.app.call_from_thread(self._told, told)
        self.app.call_from_thread(self.load)

    def _told(self, told: str) -> None:
        self.notify(told, timeout=3, markup=False)
        self.done()

    def _after(self, told: str) -> Callable[[str | None], None]:
        def tell(typed: str | None) -> None:
            if typed is not None:
                self._told(told)
                self.load()

        return tell

    # ── adding and rewording ──────────────────────────────────────────────────────────────────────

    def action_add(self) -> None:
        scope = self.own_scope

        def learn(text: str) -> None:
            if not self._store.facts.learn(text, scope=scope).facts:
                raise BadValue("That is known already.")

        note = f"{A_LINE_EACH} Who may know it: {scope_name(scope)}."
        self.app.push_screen(WriteScreen("New facts", "", learn, note=note), self._after("Learnt; u undoes it."))

    def action_edit(self) -> None:
        if (line := self.under_cursor) is None:
            return
        fact = line.fact
        seen = fact.text

        def reword(text: str) -> None:
            nonlocal seen
            try:
                self._store.facts.edit(fact.id, text, seen=seen)
            except ChangedMeanwhile as clash:
                seen = str(clash.current)  # they are told, and may go on
                raise

        asked = WriteScreen(f"Fact {fact.id}", fact.text, reword, note=ONE_LINE)
        self.app.push_screen(asked, self._after("Reworded; u undoes it."))

    def action_categorise(self) -> None:
        facts = [line.fact for line in self.meant]
        seen = {fact.id: fact.category for fact in facts}

        def categorise(text: str) -> None:
            try:
                self._store.facts.categorise(list(seen), text, seen=seen)
            except ChangedMeanwhile:
                seen.update({n: self._store.facts.get(n).category for n in seen})
                raise

        worn = {fact.category for fact in facts}
        note = f"Of {count(len(facts), 'fact')}; nothing takes it away."
        asked = AskScreen("Category", worn.pop() if len(worn) == 1 else "", categorise, note=note)
        self.app.push_screen(asked, self._after("Categorised; u undoes it."))

    # ── retiring and merging ──────────────────────────────────────────────────────────────────────

    def action_retire(self) -> None:
        """A retired one alone stands again."""
        facts = [line.fact for line in self.meant]
        if [fact.retired_at is not None for fact in facts] == [True]:
            self._do(lambda: self._store.facts.restore(facts[0].id), "Brought back; u undoes it.")
            return
        seen = {fact.id: fact.text for fact in facts if fact.retired_at is None}
        told = f"Retired {count(len(seen), 'fact')}; u brings back."
        self._do(lambda: self._store.facts.retire_all(list(seen), seen=seen), told)

    def action_merge(self) -> None:
        facts = [line.fact for line in self.meant]
        if len(facts) < 2:
            self.notify("Space marks facts; m makes one of two or more.", timeout=3)
            return
        seen = {fact.id: fact.text for fact in facts}

        def merge(text: str) -> None:
            try:
                self._store.facts.merge(list(seen), text, seen=seen)
            except ChangedMeanwhile:
                seen.update({n: self._store.facts.get(n).text for n in seen})
                raise

        together = "\n".join(fact.text for fact in facts)
        asked = WriteScreen(f"Make one of {len(facts):,} facts", together, merge, note=ONE_LINE)
        self.app.push_screen(asked, self._after("Merged; u undoes it."))

    # ── consolidating ─────────────────────────────────────────────────────────────────────────────

    @threaded(group="edit")
    def action_consolidate(self) -> None:
        scope = self.own_scope
        self.app.call_from_thread(self._consolidate, Consolidation(self._store, scope))

    def _consolidate(self, consolidation: Consolidation) -> None:
        """The text is there again for whoever looks at the difference and thinks better of it."""

        def show(text: str | None) -> None:
            if text is not None:
                shown = ShowingScreen(f"Consolidate facts · {name}", consolidation.look, consolidation.apply)
                self.app.push_screen(shown, tell)

        def tell(was_done: bool | None) -> None:
            if was_done:
                self._told("Consolidated, as one edit; u undoes it.")
                self.load()
            else:
                self._consolidate(consolidation)

        name = scope_name(consolidation.scope)
        note = f"{A_LINE_EACH} Facts that came from other programs are not among them. What changes is shown first."
        asked = WriteScreen(f"All facts · {name}", consolidation.text, consolidation.take, note=note)
        self.app.push_screen(asked, show)

    # ── back to where they came from ──────────────────────────────────────────────────────────────

    def action_write_back(self) -> None:
        if (line := self.under_cursor) is not None and line.fact.foreign_place:
            writing = Writing(self._store, line.fact)
            title = f"Write facts back to {line.origin.program}"
            self.app.push_screen(ShowingScreen(title, writing.look, writing.write), self._tell_written)

    def _tell_written(self, was_done: bool | None) -> None:
        if was_done:
            self._told("Written back, after a backup; u undoes it there, too.")
            self.load()

    @threaded(group="edit")
    def action_undo(self) -> None:
        from tui.screens.journal import undo_newest

        told = undo_newest(self._store)
        self.app.call_from_thread(self._told, told)
        self.app.call_from_thread(self.load)


class Consolidation:
    """All facts of a scope as one text, on its way from what was shown to what it should be. In threads."""

    def __init__(self, store: Store, scope: str) -> None:
        self.scope = scope
        self._store = store
        self._seen = self.text = store.facts.blob(scope)
        self._theirs: list[Content] = []

    def take(self, text: str) -> None:
        if not text.strip():
            raise BadValue("That would retire every fact; retire them one by one if that is meant.")
        self.text = text
        self._store.facts.difference(text, self.scope)

    def look(self) -> tuple[list[Content], bool]:
        change = self._store.facts.difference(self.text, self.scope)
        told = f"{len(change.edited)} reworded, {len(change.added)} added, {len(change.retired)} retired"
        lines = [content([(told if change.changes else "Nothing changes.", STRONG)]), Content("")]
        return [*self._theirs, *lines, *consolidated(change.text)], bool(change.changes)

    def apply(self) -> None:
        try:
            self._store.facts.consolidate(self.text, self.scope, seen=self._seen)
        except ChangedMeanwhile as clash:
            theirs = difference(self._seen, str(clash.current))
            self._theirs = [content([("What was changed meanwhile:", STRONG)]), *theirs, Content("")]
            self._seen = str(clash.current)
            raise


class Writing:
    """Facts on their way back into the store they came from. In threads."""

    def __init__(self, store: Store, fact: Fact) -> None:
        self._store = store
        self._fact = fact
        self._preview: Preview | None = None

    def look(self) -> tuple[list[Content], bool]:
        preview = self._preview = self._store.writing_back.preview_facts(self._fact)
        plan = preview.plan
        rows = [PlannedRow(change.table, change.key, change.before, change.after) for change in plan.changes]
        lines = planned(preview.locator, rows, plan.unplaced, plan.conflicts)
        return lines, bool(plan.changes) and not plan.conflicts

    def write(self) -> None:
        if self._preview is not None:
            self._store.writing_back.write(self._preview)
