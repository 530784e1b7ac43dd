"""These tests kill pushes and their undo at every step: afterwards each file is whole, and the store agrees with it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from child_processes import ForkServer, die_while_pushing
from store_integrity import find_faults

from store.memory.block import split_block
from store.model.memory import Audience
from store.store import Store

NAMES = (".claude/backscroll.md", "AGENTS.md", "CLAUDE.md", "GEMINI.md")
OUTSIDE = "# Ours\n- stays\n"


class SharedProject:
    """Has a project and a store in one folder, and returns them to their first state before every kill."""

    def __init__(self, folder: Path, children: ForkServer) -> None:
        self.folder, self._children = folder, children
        self.project, self.path = folder / "app", folder / "store.db"
        (self.project / ".git").mkdir(parents=True)
        for name in NAMES[1:]:
            (self.project / name).write_text(OUTSIDE)
        with Store.open(self.path) as store:
            first = store.facts.learn("One\nTwo").facts
            store.shared_facts.share([fact.id for fact in first], Audience("", str(self.project)))

    def run(self, steps: int, *, undo: bool) -> list[int]:
        outcome = self._children.run(die_while_pushing, str(self.path), steps, undo)
        assert outcome.crash + outcome.refusal == ""
        return list(outcome.messages)

    def kill_at_steps(self, every: int, *, undo: bool) -> Iterator[None]:
        original = shutil.copytree(self.folder, self.folder.with_name("original"))
        (total,) = self.run(-1, undo=undo)
        for step in range(total, 0, -every):
            shutil.rmtree(self.folder)
            shutil.copytree(original, self.folder)
            assert self.run(step, undo=undo) == []
            yield

    def check(self) -> None:
        """Check that every file is as it was or as it should be, all of them alike, and that the store agrees."""
        found = {name: self._read(name) for name in NAMES}
        with Store.open(self.path) as store:
            settled = {name: self._read(name) for name in NAMES}
            lines = {name: split_block(text, name).lines for name, text in settled.items() if name != "CLAUDE.md"}
            assert set(lines.values()) in ({()}, {("One", "Two")})
            is_pushed = lines["AGENTS.md"] != ()
            assert settled["CLAUDE.md"] == OUTSIDE + ("@.claude/backscroll.md\n" if is_pushed else "")
            assert all(found[name].startswith(OUTSIDE) for name in NAMES[1:])
            (bases,) = store.row("select count(*) from memory_blocks")
            assert bases == (3 if is_pushed else 0)
            assert [edit.kind for edit in store.journal.list_edits(limit=1)] != []
            assert store.shared_facts.plan_pull().edits == ()
            if is_pushed:
                assert store.shared_facts.plan_push().changed == []
                store.journal.undo()
            else:
                store.shared_facts.push(store.shared_facts.plan_push())
            assert store.shared_facts.plan_push().problems == []
        assert find_faults(self.path) == []
        assert not list(self.project.rglob("*.part"))

    def _read(self, name: str) -> str:
        path = self.project / name
        return path.read_text() if path.exists() else ""


@pytest.fixture
def shared(tmp_path: Path, children: ForkServer) -> SharedProject:
    return SharedProject(tmp_path / "shared", children)


def test_a_push_that_is_killed_leaves_whole_files(shared: SharedProject) -> None:
    for _ in shared.kill_at_steps(17, undo=False):
        shared.check()


def test_an_undo_that_is_killed_leaves_whole_files(shared: SharedProject) -> None:
    shared.run(-1, undo=False)
    for _ in shared.kill_at_steps(23, undo=True):
        shared.check()


@pytest.mark.long
@pytest.mark.parametrize("undo", [False, True])
def test_no_kill_at_any_step_leaves_half_a_file(shared: SharedProject, undo: bool) -> None:
    if undo:
        shared.run(-1, undo=False)
    kills = 0
    for _ in shared.kill_at_steps(1, undo=undo):
        shared.check()
        kills += 1
    assert kills >= 100
