"""This module shares facts with agents: who gets which, what a push would write, and what was edited by hand.

A push never replaces what a person changed in a block: that is pulled first, as edits of the facts.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from store.config import require_setting
from store.edits.facts import insert_fact, retire_fact
from store.errors import ChangedMeanwhile, NotFound, Refused, StoreError
from store.leaks.gate import open_gate
from store.memory.block import escape_fact, join_block, split_block, unescape_fact
from store.memory.files import read_memory_file
from store.memory.imports import find_imports, resolve_import
from store.memory.targets import AUDIENCES, OWN_FILE, MemoryTarget, find_targets, warn_of_replaced_files
from store.model.memory import Audience, FilePush, LineEdit, PullPlan, PushPlan
from store.model.session import GLOBAL_SCOPE
from store.text.validate import decode, encode, utc_timestamp
from store.write_back.files import list_changes, read_text

if TYPE_CHECKING:
    from store.edits.journal import PendingEdit
    from store.store import Store

PUSH, PULL = "push memory", "pull memory"

Side = Literal["here", "there"]
Lines = tuple[tuple[int, str], ...]

_SELECT_AUDIENCES = """
    select memory_audiences.agent, memory_audiences.folder, facts.id, facts.text
    from memory_audiences join facts on facts.id = memory_audiences.fact
    where facts.retired_at is null order by facts.id, memory_audiences.key
"""


class SharedFacts:
    """Pushes facts into the memory files of agents. This is the collection `store.shared_facts`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ── audiences ─────────────────────────────────────────────────────────────────────────────────

    def share(self, facts: Sequence[int], audience: Audience) -> None:
        """Choose an audience for facts. They reach the files with the next push."""
        find_targets(*audience)
        with self._store.journal.edit("share fact") as edit:
            for fact in dict.fromkeys(facts):
                self._store.facts.get(fact)
                self._add_audience(edit, fact, audience)

    def share_line(self, text: str, audience: Audience) -> int:
        """Share a line of a memory file, which becomes a fact unless it is one. Return the number of the fact."""
        find_targets(*audience)
        with self._store.journal.edit("share fact") as edit:
            fact = self._ensure_fact(edit, " ".join(text.split()))
            self._add_audience(edit, fact, audience)
        return fact

    def unshare(self, facts: Sequence[int], audience: Audience) -> None:
        """Take facts away from an audience."""
        with self._store.journal.edit("unshare fact") as edit:
            for fact in dict.fromkeys(facts):
                key = self._find_key(fact, audience)
                if key is None:
                    raise NotFound(f"Fact {fact} is not shared with {audience.describe()}.")
                edit.delete("memory_audiences", key)

    def set_audiences(self, facts: Sequence[int], audiences: Sequence[Audience]) -> None:
        """Replace the audiences of facts, as one edit."""
        for audience in audiences:
            find_targets(*audience)
        with self._store.journal.edit("share fact") as edit:
            for fact in dict.fromkeys(facts):
                self._store.facts.get(fact)
                rows = self._store.rows("select key, agent, folder from memory_audiences where fact = ?", fact)
                known = {Audience(agent, folder): key for key, agent, folder in rows}
                for audience, key in known.items():
                    if audience not in audiences:
                        edit.delete("memory_audiences", key)
                for audience in audiences:
                    self._add_audience(edit, fact, audience)

    def _add_audience(self, edit: PendingEdit, fact: int, audience: Audience) -> None:
        if self._find_key(fact, audience) is None:
            edit.insert("memory_audiences", fact=fact, agent=audience.agent, folder=audience.folder)

    def _ensure_fact(self, edit: PendingEdit, text: str) -> int:
        """Return the number of the fact with a text, which is added if there is none."""
        known = self._store.row("select id from facts where text = ? and retired_at is null", text)
        return int(known[0]) if known else insert_fact(edit, text, GLOBAL_SCOPE, category="")

    def _find_key(self, fact: int, audience: Audience) -> int | None:
        sql = "select key from memory_audiences where fact = ? and agent = ? and folder = ?"
        row = self._store.row(sql, fact, *audience)
        return None if row is None else int(row[0])

    def audiences(self) -> dict[int, list[Audience]]:
        """Return the audiences of each fact that is shared."""
        found: dict[int, list[Audience]] = {}
        for agent, folder, fact, _ in self._store.rows(_SELECT_AUDIENCES):
            found.setdefault(fact, []).append(Audience(agent, folder))
        return found

    # ── pushing ───────────────────────────────────────────────────────────────────────────────────

    def plan_push(self, folders: Iterable[str] | None = None) -> PushPlan:
        """Plan what each file gets. Nothing is written. `folders` limits the plan to files in some folders."""
        wanted = self._collect_targets()
        bases = self.load_bases()
        targets = {str(target.path): target for target in wanted}
        for path in bases:
            targets.setdefault(path, _guess_target(path))
        if folders is not None:
            chosen = tuple(folder.rstrip("/") + "/" for folder in folders)
            targets = {path: target for path, target in targets.items() if path.startswith(chosen)}
        facts = {path: wanted.get(target, {}) for path, target in targets.items()}
        files: list[FilePush] = []
        for path, target in targets.items():
            lines = tuple((fact, escape_fact(text)) for fact, text in facts[path].items())
            files += _plan_files(target, lines, bases.get(path, ()))
        return PushPlan(tuple(files))

    def _collect_targets(self) -> dict[MemoryTarget, dict[int, str]]:
        """Return the facts of each file, in the order of their numbers."""
        wanted: dict[MemoryTarget, dict[int, str]] = {}
        found: dict[Audience, list[MemoryTarget]] = {}
        for agent, folder, fact, text in self._store.rows(_SELECT_AUDIENCES):
            audience = Audience(agent, folder)
            if audience not in found:
                found[audience] = find_targets(*audience)
            for target in found[audience]:
                wanted.setdefault(target, {})[fact] = text
        return _merge_targets(wanted)

    def load_bases(self) -> dict[str, Lines]:
        """Return what we wrote last into each file."""
        rows = self._store.rows("select path, lines from memory_blocks")
        return {path: tuple((fact, line) for fact, line in decode(lines)) for path, lines in rows}

    def push(self, plan: PushPlan) -> Path | None:
        """Write the files of a plan that have no problem. Return the path of the backup, or None if nothing changes."""
        changed = plan.changed
        if not changed:
            return None
        gate = open_gate(self._store, "refuse")
        for file in changed:
            gate.place = file.path
            for _, line in file.lines:
                gate.check(line)
        gate.finish()

        def record(edit: PendingEdit) -> None:
            self._refuse_outdated(plan)
            for file in changed:
                self.save_base(edit, file.path, file.lines)

        return self._store.write_back.write_files(PUSH, list_changes(changed), record)

    def _refuse_outdated(self, plan: PushPlan) -> None:
        wanted = {str(target.path): facts for target, facts in self._collect_targets().items()}
        for file in plan.changed:
            facts = {fact: escape_fact(text) for fact, text in wanted.get(file.path, {}).items()}
            if file.lines and facts != dict(file.lines):
                raise ChangedMeanwhile("The facts were changed since the preview. Preview the push again.", None)

    def save_base(self, edit: PendingEdit, path: str, lines: Lines) -> None:
        """Note what we wrote into a file."""
        exists = self._store.row("select 1 from memory_blocks where path = ?", path)
        if lines and exists:
            edit.update("memory_blocks", path, lines=encode(lines).decode())
        elif lines:
            edit.insert("memory_blocks", path=path, lines=encode(lines).decode())
        elif exists:
            edit.delete("memory_blocks", path)

    def push_automatically(self) -> PushPlan | None:
        """Push into the folders of the setting `memory.auto_push`, if anything changed there. Return what was done."""
        folders = require_setting("memory.auto_push", tuple)
        chosen = [os.path.abspath(os.path.expanduser(name)) for name in folders]
        plan = self.plan_push(chosen) if chosen else PushPlan(())
        self.push(plan)
        return plan if plan.changed or plan.problems else None

    # ── pulling ───────────────────────────────────────────────────────────────────────────────────

    def plan_pull(self) -> PullPlan:
        """Find what was edited by hand in our blocks. Nothing is written."""
        texts = {fact.id: fact.text for fact in self._store.facts.current(None)}
        edits: list[LineEdit] = []
        problems: list[str] = []
        for path, base in self._iter_bases():
            try:
                text = read_text(Path(path))
                block = split_block(text or "", path)
            except StoreError as error:
                problems.append(str(error))
                continue
            if block.has_block:
                edits += _compare_lines(path, base, block.lines, texts)
        return PullPlan(tuple(_mark_conflicts(edits)), tuple(problems))

    def _iter_bases(self) -> Iterator[tuple[str, Lines]]:
        """Yield each file with what we wrote there. Another store may have written a block, as in a shared folder."""
        bases = self.load_bases()
        yield from bases.items()
        for target in self._collect_targets():
            if str(target.path) not in bases:
                yield str(target.path), ()

    def pull(self, plan: PullPlan, take: Side | None = None) -> int:
        """Make the edits of a plan in the store, and return how many.

        What was edited here and there is only decided by `take`: `here` keeps the store's text, `there` the file's.
        """
        if plan.conflicts and take is None:
            raise ChangedMeanwhile("Some facts were edited here and there. Choose which to keep.", plan.conflicts)
        if not plan.edits:
            return 0
        with self._store.journal.edit(PULL) as edit:
            if self.plan_pull() != plan:
                raise ChangedMeanwhile("Facts or files were changed since the preview. Pull again.", None)
            new_lines: dict[str, dict[str, int]] = {}
            for change in plan.edits:
                if take == "here" and change.is_conflict:
                    continue
                if (fact := self._apply(edit, change)) is not None:
                    new_lines.setdefault(change.path, {})[change.there] = fact
            for path in dict.fromkeys(change.path for change in plan.edits):
                self.save_base(edit, path, self._match_lines(path, new_lines.get(path, {})))
        return len(plan.edits)

    def _apply(self, edit: PendingEdit, change: LineEdit) -> int | None:
        """Make one edit. Return the number of the fact that the line has now, or None if it has none."""
        now = utc_timestamp()
        if change.kind == "removed":
            fact = self._store.facts.get(change.fact or 0)
            if fact.retired_at is None:
                retire_fact(edit, fact.id, now)
            return None
        text = unescape_fact(change.there)
        if change.kind == "changed" and change.fact is not None:
            edit.update("facts", change.fact, text=text, retired_at=None, updated_at=now)
            return change.fact
        number = self._ensure_fact(edit, text)
        self._add_audience(edit, number, self._find_audience(change.path))
        return number

    def _match_lines(self, path: str, new: Mapping[str, int]) -> Lines:
        """Return the lines that a file has now, each with its fact. A line that stays a conflict has none."""
        block = split_block(read_text(Path(path)) or "", path)
        known = {line: fact for fact, line in self.load_bases().get(path, ())}
        return tuple((new.get(line, known.get(line, 0)), line) for line in block.lines)

    def _find_audience(self, path: str) -> Audience:
        """Return the audience of a new line: the narrowest one that has facts in the file, or else that of the file."""
        used = dict.fromkeys(audience for found in self.audiences().values() for audience in found)
        parents = [str(parent) for parent in Path(path).parents][:2]
        possible = [Audience(agent, folder) for folder in (*parents, "") for agent in AUDIENCES]
        for audience in (*sorted(used, key=lambda one: (bool(one.folder), bool(one.agent)), reverse=True), *possible):
            try:
                if any(str(target.path) == path for target in find_targets(*audience)):
                    return audience
            except StoreError:
                continue
        raise Refused(f"{path} is no memory file that Backscroll writes. Remove its block.")


def _guess_target(path: str) -> MemoryTarget:
    """Return the target of a file that gets no facts any more."""
    for parent in Path(path).parents:
        for agent in AUDIENCES:
            try:
                found = find_targets(agent, str(parent))
            except StoreError:
                continue
            if match := next((target for target in found if str(target.path) == path), None):
                return match
        if parent == Path.home():
            break
    everywhere = (target for agent in AUDIENCES for target in find_targets(agent, ""))
    return next((target for target in everywhere if str(target.path) == path), MemoryTarget(Path(path)))


def _merge_targets(wanted: Mapping[MemoryTarget, dict[int, str]]) -> dict[MemoryTarget, dict[int, str]]:
    """Merge targets that are one file, because one is a link to the other.

    A file of our own is left out if the file that would import it has the same facts anyway: in a block of its own, or
    through another import, as of AGENTS.md in CLAUDE.md.
    """
    merged: dict[str, tuple[MemoryTarget, dict[int, str]]] = {}
    for target, facts in wanted.items():
        merged.setdefault(os.path.realpath(target.path), (target, {}))[1].update(facts)
    kept: dict[MemoryTarget, dict[int, str]] = {}
    for target, facts in merged.values():
        if target.importer is None or not any(
            facts.keys() <= merged[path][1].keys() for path in _list_loaded(target.importer) if path in merged
        ):
            kept[target] = dict(sorted(facts.items()))
    return kept


def _list_loaded(importer: Path) -> Iterator[str]:
    """Yield a file and those that it imports, as real paths. Our own file is imported by nothing else."""
    yield os.path.realpath(importer)
    try:
        text = read_text(importer) or ""
    except StoreError:
        return
    for name in find_imports(text):
        path = os.path.realpath(resolve_import(name, importer))
        if not path.endswith(f"/{OWN_FILE}"):
            yield path


# ── planning files ────────────────────────────────────────────────────────────────────────────────


def _plan_files(target: MemoryTarget, lines: Lines, base: Lines) -> Iterator[FilePush]:
    """Yield the plan of a file, and that of the file which imports it."""
    plan = _plan_block(target, lines, base)
    if target.importer is None or plan.problem:
        yield plan
        return
    importer = _plan_import(target, target.importer, is_wanted=bool(lines))
    if not importer.problem:
        yield plan
    yield importer


def _read_checked(path: Path, root: Path) -> tuple[str | None, str]:
    """Return the text of a file, or None if there is none, and why it cannot be written, or nothing."""
    file = read_memory_file(path, root)
    if file is None or not file.is_readable:
        return None, file.problem if file else ""
    try:
        return read_text(path), file.problem
    except StoreError as error:
        return None, str(error)


def _plan_block(target: MemoryTarget, lines: Lines, base: Lines) -> FilePush:
    path = str(target.path)
    text, problem = _read_checked(target.path, target.root)
    if problem:
        return FilePush(path, problem=problem)
    try:
        block = split_block(text or "", path)
    except Refused as error:
        return FilePush(path, text, problem=str(error))
    found, written, wanted = block.lines, [line for _, line in base], [line for _, line in lines]
    if block.has_block and [*found] not in (written, wanted):
        problem = f"The block in {path} was edited by hand. Run `backscroll memory pull` first."
        return FilePush(path, text, problem=problem)
    if not lines and not block.has_block:
        return FilePush(path, text, text)
    notes = [warn_of_replaced_files(target.path)] if lines else []
    if base and lines and not block.has_block:
        notes.append(f"The block in {path} was removed by hand. It is written again.")
    return FilePush(path, text, join_block(block, wanted) or None, lines, notes=tuple(filter(None, notes)))


def _plan_import(target: MemoryTarget, importer: Path, *, is_wanted: bool) -> FilePush:
    """Plan the one line that imports our file, which is the only text outside a block that is ever written."""
    text, problem = _read_checked(importer, target.root)
    if problem:
        return FilePush(str(importer), problem=problem)
    content = text or ""
    is_there = any(resolve_import(name, importer) == target.path for name in find_imports(content))
    after = content
    if is_wanted and not is_there:
        newline = "\r\n" if "\r\n" in content else "\n"
        after += ("" if not content or content.endswith("\n") else newline) + target.import_line + newline
    elif not is_wanted and is_there:
        lines = content.splitlines(keepends=True)
        after = "".join(line for line in lines if line.strip() != target.import_line)
    notes = (warn_of_replaced_files(importer),) if is_wanted else ()
    return FilePush(
        str(importer),
        text,
        after if after == content and text is not None else after or None,
        notes=tuple(filter(None, notes)),
    )


# ── edits by hand ─────────────────────────────────────────────────────────────────────────────────


def _compare_lines(path: str, base: Lines, found: Sequence[str], texts: Mapping[int, str]) -> Iterator[LineEdit]:
    """Yield how the lines of a block differ from those that we wrote."""
    written = [line for _, line in base]
    matcher = SequenceMatcher(None, written, list(found), autojunk=False)
    for kind, first, last, new_first, new_last in matcher.get_opcodes():
        if kind == "equal":
            continue
        pairs = min(last - first, new_last - new_first)
        for offset in range(pairs):
            yield _build_edit(path, "changed", base[first + offset], found[new_first + offset], texts)
        for fact in base[first + pairs : last]:
            yield _build_edit(path, "removed", fact, "", texts)
        for line in found[new_first + pairs : new_last]:
            yield LineEdit(path, "added", None, "", line, "", False)


def _build_edit(
    path: str, kind: Literal["changed", "removed"], base: tuple[int, str], there: str, texts: Mapping[int, str]
) -> LineEdit:
    fact, line = base
    here = texts.get(fact, "")
    is_conflict = escape_fact(here) not in (line, there)
    return LineEdit(path, kind, fact, line, there, here, is_conflict)


def _mark_conflicts(edits: Sequence[LineEdit]) -> Iterator[LineEdit]:
    """Mark the edits of a fact that has different texts in two files."""
    texts: dict[int, set[str]] = {}
    for edit in edits:
        if edit.fact is not None:
            texts.setdefault(edit.fact, set()).add(edit.there)
    for edit in edits:
        differs = edit.fact is not None and len(texts[edit.fact]) > 1
        yield replace(edit, is_conflict=True) if differs else edit
