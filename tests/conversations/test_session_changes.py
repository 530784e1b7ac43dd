"""Tests which files a session changed, and that the patch made of them applies with the real programs."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from store.conversations.session_changes import read_session_changes
from store.formats import changed_files
from store.formats.changed_files import SessionChanges, format_file_patch, format_session_patch
from store.model.entry import Json, NewEntry, NewRecord, Text, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store

CONFIG = "[upload]\nurl = 'x'\nretryCount = 1\ntimeout = 3\n\n[log]\nlevel = 1\n"
LOG_HUNK = {"oldStart": 5, "newStart": 6, "lines": [" ", " [log]", "-level = 1", "+level = 2"]}


class Conversation:
    """Adds turns with calls to a session."""

    def __init__(self, store: Store, name: str = "s1", cwd: str = "/w", **fields: str) -> None:
        self.store = store
        self.session = store.sessions.create(name, cwd=cwd, **fields)  # type: ignore[arg-type]
        self._calls = 0

    def prompt(self, text: str = "Go on.") -> None:
        self._append(NewEntry(role="user", parts=(Text(text),)))

    def call(
        self, name: str, arguments: Json, *, record: Json = None, result: str | None = "ok", failed: bool = False
    ) -> None:
        self._calls += 1
        call_id = f"{self.session.id}-{self._calls}"
        self._append(NewEntry(role="assistant", parts=(ToolCall(call_id, name, arguments),)))
        if result is not None:
            stored = NewRecord(json.dumps(record).encode()) if record is not None else None
            self._append(NewEntry(role="tool", parts=(ToolResult(call_id, result, is_error=failed),), record=stored))

    def _append(self, entry: NewEntry) -> None:
        self.store.chains.append(self.session.key, [entry])

    def read(self) -> SessionChanges:
        return read_session_changes(self.store, self.session)


@pytest.fixture
def talk(store: Store) -> Conversation:
    conversation = Conversation(store)
    conversation.prompt()
    return conversation


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "w"
    folder.mkdir()
    (folder / "config.toml").write_text(CONFIG)
    return folder


def edit(path: str, old: str, new: str, **more: Json) -> Json:
    return {"file_path": path, "old_string": old, "new_string": new, **more}


def run(folder: Path, *command: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def apply_with(program: str, folder: Path, patch: str) -> None:
    (folder.parent / "p.patch").write_text(patch)
    if program == "patch":
        run(folder, "patch", "-p1", "-i", "../p.patch")
    else:
        run(folder, "git", "init", "-q")
        run(folder, "git", "apply", "../p.patch")


# ── collecting ────────────────────────────────────────────────────────────────────────────────────


def test_each_change_has_its_turn_and_failed_calls_are_left_out(talk: Conversation) -> None:
    talk.call("Edit", edit("/w/a.py", "one", "two"))
    talk.prompt()
    talk.call("Edit", edit("a.py", "two", "three\nfour"))
    talk.call("Edit", edit("b.py", "x", "y"), failed=True)
    talk.call("Edit", edit("b.py", "x", "y"), result=None)
    talk.call("Bash", {"command": "sed -i s/a/b/ c.py"})
    found = talk.read()
    (file,) = found.files
    assert (file.path, file.added, file.removed) == ("a.py", 3, 2)
    assert [(change.turn, change.entry, change.session_title) for change in file.changes] == [
        (1, "s1#1", ""),
        (2, "s1#4", ""),
    ]
    assert (found.failed_calls, found.pending_calls, found.shell_calls, found.unknown_hunks) == (1, 1, 1, 2)


def test_the_changes_of_sub_agents_name_their_session(store: Store, talk: Conversation) -> None:
    child = Conversation(store, "s1:delegate:writer", agent_title="Write the docs")
    child.prompt()
    child.call("Write", {"file_path": "/w/docs.md", "content": "# Docs\n"})
    grandchild = Conversation(store, "s1:delegate:writer:delegate:helper", agent_title="Help")
    grandchild.prompt()
    grandchild.call("Write", {"file_path": "more.md", "content": "more\n"})
    fork = Conversation(store, "f", parent_id="s1", relation="fork")
    fork.prompt()
    fork.call("Write", {"file_path": "fork.md", "content": "x\n"})
    found = {file.path: file.changes[0].session_title for file in talk.read().files}
    assert found == {"docs.md": "Write the docs", "more.md": "Help"}


def test_a_recorded_diff_belongs_to_its_own_call(store: Store, talk: Conversation) -> None:
    hunks = [{"oldStart": at, "newStart": at, "lines": ["-old", "+new"]} for at in (3, 7)]
    calls = [{"id": f"c{n}", "result": {"structuredPatch": [hunk]}} for n, hunk in enumerate(hunks)]
    record = NewRecord(json.dumps({"calls": calls}).encode())
    asked = tuple(ToolCall(f"c{n}", "Edit", edit(f"{n}.py", "old", "new")) for n in range(2))
    answers = tuple(ToolResult(f"c{n}", "ok") for n in range(2))
    store.chains.append(
        talk.session.key,
        [NewEntry(role="assistant", parts=asked), NewEntry(role="tool", parts=answers, record=record)],
    )
    starts = {file.path: [hunk.old_start for hunk in file.changes[0].change.hunks] for file in talk.read().files}
    assert starts == {"0.py": [3], "1.py": [7]}


# ── the patch ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("program", ["patch", "git"])
def test_complete_changes_apply(program: str, talk: Conversation, folder: Path) -> None:
    lines = [
        "@@ -1,5 +1,6 @@",
        " [upload]",
        " url = 'x'",
        "-retryCount = 1",
        "+retry_count = 1",
        "+pause = 2",
        " timeout = 3",
        " ",
    ]
    talk.call("patch", {"path": "config.toml", "diff": "\n".join(lines)})
    talk.prompt()
    record = {"toolUseResult": {"structuredPatch": [LOG_HUNK]}}
    talk.call("Edit", edit("/w/config.toml", "vel = 1", "vel = 2"), record=record)
    talk.call("Write", {"file_path": "/w/src/a b.py", "content": "def f():\n    return 1\n\n\nf()\n"})
    talk.call("Edit", edit("/w/src/a b.py", "return 1", "return 2"))
    talk.call("Edit", edit("/w/src/a b.py", "f()", "g()", replace_all=True))
    talk.call("Write", {"file_path": "/w/src/a b.py", "content": "def g():\n    return 3\n"})
    talk.call("Write", {"file_path": "/w/gone.py", "content": "x\n"})
    talk.call("apply_patch", "*** Begin Patch\n*** Delete File: gone.py\n*** End Patch")
    found = talk.read()
    assert not found.left_out
    assert not found.unknown_hunks
    apply_with(program, folder, format_session_patch(found, "Configure"))
    expected = CONFIG.replace("retryCount = 1", "retry_count = 1\npause = 2").replace("level = 1", "level = 2")
    assert (folder / "config.toml").read_text() == expected
    assert (folder / "src/a b.py").read_text() == "def g():\n    return 3\n"
    assert not (folder / "gone.py").exists()


def test_a_change_without_line_numbers_applies_with_patch_and_is_counted(talk: Conversation, folder: Path) -> None:
    talk.call("Edit", edit("/w/config.toml", "retryCount = 1\ntimeout = 3", "retry_count = 3\ntimeout = 3"))
    found = talk.read()
    assert found.unknown_hunks == 1
    patch = format_session_patch(found, "Configure")
    assert "# Line numbers that are not known: 1." in patch
    assert "# turn 1, Edit (line numbers not known)\n" in patch
    apply_with("patch", folder, patch)
    assert (folder / "config.toml").read_text() == CONFIG.replace("retryCount = 1", "retry_count = 3")


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("Write", {"file_path": "/etc/passwd", "content": "x"}, changed_files.OUTSIDE),
        ("Write", {"file_path": "../x", "content": "x"}, changed_files.OUTSIDE),
        ("Write", {"file_path": "a\n+++ b/.bashrc", "content": "x"}, changed_files.UNUSABLE_NAME),
        ("Edit", {"old_string": "a", "new_string": "b"}, changed_files.NO_NAME),
        ("Edit", edit("a.py", "a", "b", replace_all=True), changed_files.REPLACES_ALL),
        ("apply_patch", "*** Begin Patch\n*** Delete File: old.py\n*** End Patch", changed_files.DELETED_UNKNOWN),
    ],
)
def test_what_cannot_be_in_a_patch_says_why(name: str, arguments: Json, reason: str, talk: Conversation) -> None:
    talk.call(name, arguments)
    found = talk.read()
    assert [change.reason_left_out for change in found.left_out] == [reason]
    patch = format_session_patch(found, "x")
    assert patch.splitlines()[2].endswith(reason)
    assert all(line.startswith("#") for line in patch.splitlines())


def test_a_file_that_is_overwritten_after_an_edit_is_left_out(talk: Conversation) -> None:
    talk.call("Edit", edit("a.py", "a", "b"))
    talk.call("Write", {"file_path": "a.py", "content": "x\n"})
    talk.call("Edit", edit("a.py", "x", "y"))
    (file,) = talk.read().files
    assert [change.reason_left_out for change in file.changes] == ["", changed_files.OVERWRITTEN_UNKNOWN, ""]
    assert file.changes[2].change.hunks[0].old_start == 1


def test_a_recorded_line_cannot_smuggle_another_file_into_the_patch(talk: Conversation) -> None:
    hunk = {"oldStart": 1, "newStart": 1, "lines": ["-a", "+b\n--- a/.bashrc\n+++ b/.bashrc\n@@ -1 +1 @@\n-x\n+y"]}
    talk.call("Edit", edit("a.py", "a", "b"), record={"structuredPatch": [hunk]})
    found = talk.read()
    assert [change.reason_left_out for change in found.left_out] == [changed_files.UNUSABLE_TEXT]
    assert format_file_patch(found.files[0]) == ""


def test_a_title_cannot_smuggle_lines_into_the_patch(store: Store, talk: Conversation) -> None:
    child = Conversation(store, "s1:delegate:x", agent_title="x\n--- a/y\n+++ b/y\n@@ -1 +1 @@\n-x\n+y")
    child.prompt()
    child.call("Write\n--- a/z", {"file_path": "w.md", "content": "w\n", "command": "create"})
    patch = format_session_patch(talk.read(), "title\n--- a/x")
    assert [line for line in patch.splitlines() if line.startswith(("---", "+++"))] == ["--- /dev/null", "+++ b/w.md"]


def test_a_session_without_changes(talk: Conversation, store: Store) -> None:
    session: Session = talk.session
    assert read_session_changes(store, session) == SessionChanges()
