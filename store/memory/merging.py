"""This module merges a key that has different values in what agents load: all of its lines get the same text.

A line of a file is replaced in the file. A line that was pushed from here is replaced in its fact, and so in every
file that has it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import BadValue, ChangedMeanwhile, Refused, StoreError
from store.leaks.gate import open_gate
from store.memory.block import escape_fact, join_block, split_block
from store.memory.lines import find_key, replace_line, split_lines
from store.model.memory import FilePush, KeyConflict, LinePlace, MergeOption, MergePlan
from store.text.validate import utc_timestamp
from store.write_back.files import list_changes, read_text

if TYPE_CHECKING:
    from store.edits.journal import PendingEdit
    from store.memory.shared_facts import Lines
    from store.store import Store

MERGE = "merge memory"


def list_options(conflict: KeyConflict) -> list[MergeOption]:
    """Return the different values of a key, each as the first text that has it, with all its places."""
    options: dict[str, list[LinePlace]] = {}
    for place in conflict.places:
        pair = find_key(place.text)
        options.setdefault(pair.value if pair else "", []).append(place)
    return [MergeOption(places[0].text, tuple(places)) for places in options.values()]


class KeyMerger:
    """Plans one merge and makes it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def plan(self, conflict: KeyConflict, text: str) -> MergePlan:
        """Plan what each file gets. Nothing is written."""
        line = _validate_text(conflict, text)
        places: dict[str, list[LinePlace]] = {}
        for place in conflict.places:
            places.setdefault(place.path, []).append(place)
        bases = self._store.shared_facts.load_bases()
        facts = self._find_facts(places, bases)
        for path in (path for path, lines in bases.items() if any(fact in facts for fact, _ in lines)):
            places.setdefault(path, [])
        files = tuple(self._plan_file(path, found, line, bases.get(path, ()), facts) for path, found in places.items())
        return MergePlan(files, conflict, line, tuple(facts))

    def _find_facts(self, places: Mapping[str, Sequence[LinePlace]], bases: Mapping[str, Lines]) -> dict[int, str]:
        """Return the facts behind the places that were pushed from here, each with its line."""
        return {
            fact: line
            for path, found in places.items()
            for fact, line in bases.get(path, ())
            if any(place.text == line for place in found)
        }

    def _plan_file(
        self, path: str, places: Sequence[LinePlace], line: str, base: Lines, facts: Mapping[int, str]
    ) -> FilePush:
        try:
            file = self._store.memory_files.read(Path(path))
            text = read_text(Path(path)) or ""
            if file.problem:
                return FilePush(path, text, problem=file.problem)
            return self._plan_text(path, text, places, line, base, facts)
        except StoreError as error:
            return FilePush(path, problem=str(error))

    def _plan_text(
        self, path: str, text: str, places: Sequence[LinePlace], line: str, base: Lines, facts: Mapping[int, str]
    ) -> FilePush:
        block = split_block(text, path)
        in_block = range(block.before.count("\n") + 1, text.count("\n") - block.after.count("\n") + 1)
        outside = [place for place in places if not block.has_block or place.number not in in_block]
        written = [known for _, known in base]
        lines = tuple((fact, escape_fact(line) if fact in facts else known) for fact, known in base)
        if (len(outside) < len(places) or lines != tuple(base)) and [*block.lines] != written:
            raise Refused(f"The block in {path} was edited by hand. Run `backscroll memory pull` first.")
        after = text
        for place in sorted(outside, key=lambda place: place.number, reverse=True):
            if place.text != line:
                after = _replace_in_file(path, after, place, line)
        if lines != tuple(base):
            after = join_block(split_block(after, path), [known for _, known in lines])
        return FilePush(path, text, after, lines)

    def merge(self, plan: MergePlan) -> Path | None:
        """Write all files of a plan and edit its facts. Return the path of the backup, or None if nothing changes."""
        if plan.problems:
            raise Refused(plan.problems[0])
        if not plan.changed:
            return None
        gate = open_gate(self._store, "refuse")
        gate.check(plan.text)
        gate.finish()

        def record(edit: PendingEdit) -> None:
            if self.plan(plan.conflict, plan.text) != plan:
                raise ChangedMeanwhile("The files or facts were changed since the preview. Merge again.", None)
            for fact in plan.facts:
                edit.update("facts", fact, text=plan.text, updated_at=utc_timestamp())
            for file in plan.changed:
                self._store.shared_facts.save_base(edit, file.path, file.lines)

        return self._store.write_back.write_files(MERGE, list_changes(plan.changed), record)


def _validate_text(conflict: KeyConflict, text: str) -> str:
    """Return the text that all places get. It must still be one line with the same key."""
    line = " ".join(text.split())
    pair = find_key(line)
    if pair is None or pair.key != conflict.key:
        raise BadValue(f"The text must begin with `{conflict.key}:` and have a value.")
    if "<!--" in line or "-->" in line:
        raise BadValue("A line of a memory file cannot hold the mark of a comment.")
    return line


def _replace_in_file(path: str, text: str, place: LinePlace, line: str) -> str:
    """Replace one fact of a file, which must still be there."""
    found = next((known for known in split_lines(path, text) if known.number == place.number), None)
    if found is None or found.text != place.text:
        raise ChangedMeanwhile(f"{path} was changed meanwhile. Merge again.", None)
    return replace_line(text, found, line)
