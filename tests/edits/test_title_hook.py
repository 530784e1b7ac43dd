"""Tests titles that a program of the person's own proposes. The programs are real ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import CommandLine, add_upload_session

from store.edits.title_hook import MASK, TitleHook
from store.errors import ChangedMeanwhile, Refused, StoreError
from store.model.session import Session
from store.paths import config_file
from store.store import Store


@pytest.fixture
def session(store: Store) -> Session:
    return add_upload_session(store)


def configure(code: str, tmp_path: Path, seconds: int = 30) -> None:
    """Set a program that runs this Python code; `document` is what it got."""
    program = tmp_path / "name it"
    program.write_text(f"#!{sys.executable}\nimport json, os, sys, time\ndocument = json.load(sys.stdin)\n{code}\n")
    program.chmod(0o755)
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(f"""[titles]\ncommand = "'{program}' --short"\nseconds = {seconds}\n""")


def is_running(pid: int) -> bool:
    """Return whether a process runs. One that has ended may wait for its parent as a zombie."""
    ran = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True)
    return bool(ran.stdout.strip()) and not ran.stdout.startswith("Z")


def test_the_program_gets_the_first_turns(store: Store, session: Session, tmp_path: Path) -> None:
    kept = tmp_path / "got.json"
    configure(f"json.dump([document, sys.argv[1:]], open({str(kept)!r}, 'w'))\nprint('  A better title ')", tmp_path)
    proposal = TitleHook(store).propose(session)
    assert (proposal.title, proposal.problem) == ("A better title", "")
    document, arguments = json.loads(kept.read_text())
    assert arguments == ["--short"]
    assert document["session"]["id"] == session.id
    assert document["turns"][0] | {"answer": ""} == {
        "n": 1,
        "prompt": "Look at the retry.",
        "answer": "",
        "tools": ["Bash"],
    }
    assert "Closed too early." in document["turns"][0]["answer"]
    assert "line 7" not in kept.read_text()  # tool output is left out


@pytest.mark.parametrize(
    ("code", "problem"),
    [
        ("", "name it printed no title."),
        ("print('  \\n ')", "name it printed no title."),
        ("sys.exit(3)", "name it ended with status 3."),
        ("print('x'); sys.exit('No key\\nNo \\x1b[2Jway')", "name it ended with status 1: No"),
        ("print('\\x1b]0;evil\\x07title')", "name it printed a title with control characters."),
        ("print('a\\u202eb')", "name it printed a title with control characters."),
        ("print('x' * 201)", "name it printed 201 characters in 1 lines. A title is one line of at most 200"),
        ("print('one\\ntwo')", "name it printed 7 characters in 2 lines."),
        ("while True: print('y' * 9999)", "name it printed more than 64 KB."),
        ("while True: print('y' * 9999, file=sys.stderr)", "name it printed more than 64 KB."),
        ("sys.stdout.buffer.write(b'\\xff')", "name it printed a title that is not UTF-8."),
        ("os.kill(os.getpid(), 9)", "name it ended with status -9."),
    ],
)
def test_what_goes_wrong_is_one_sentence(
    store: Store, session: Session, tmp_path: Path, code: str, problem: str
) -> None:
    configure(code, tmp_path)
    proposal = TitleHook(store).propose(session)
    assert proposal.problem.startswith(problem)
    assert not set(proposal.problem) & {"\x1b", "\n"}
    assert TitleHook(store).apply([proposal]) == 0


def test_a_slow_program_is_ended_with_what_it_started(store: Store, session: Session, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    start = "import subprocess\nchild = subprocess.Popen(['sleep', '600'])"
    configure(f"{start}\nopen({str(pid)!r}, 'w').write(str(child.pid))\ntime.sleep(600)", tmp_path, seconds=1)
    assert TitleHook(store).propose(session).problem == "name it did not end within 1 second."
    limit = time.monotonic() + 60
    while is_running(int(pid.read_text())):
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_a_program_can_be_stopped(store: Store, session: Session, tmp_path: Path) -> None:
    configure("time.sleep(600)", tmp_path)
    started: list[bool] = []
    hook = TitleHook(store, lambda: bool(started) or bool(started.append(True)))
    assert hook.propose(session).problem == "Stopped."
    assert hook.propose_all([session]) == []


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "No program proposes titles. Set `command`"),
        ("'open", "is not a command"),
    ],
)
def test_without_a_command_it_says_how_to_set_one(store: Store, command: str, message: str) -> None:
    config_file().parent.mkdir(parents=True)
    config_file().write_text(f'[titles]\ncommand = "{command}"\n')
    with pytest.raises(StoreError, match=message):
        TitleHook(store)


def test_a_program_that_does_not_exist(store: Store) -> None:
    config_file().parent.mkdir(parents=True)
    config_file().write_text('[titles]\ncommand = "/no/such/program"\n')
    with pytest.raises(Refused, match="The program /no/such/program does not exist"):
        TitleHook(store)


@pytest.mark.parametrize("command", ["namer", "bin/namer", "./bin/namer"])
def test_a_program_of_the_current_folder_is_not_run(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    """A repository could contain it."""
    program = tmp_path / "bin" / "namer"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"bin:.::{os.environ['PATH']}")
    config_file().parent.mkdir(parents=True)
    config_file().write_text(f'[titles]\ncommand = "{command}"\n')
    with pytest.raises(Refused, match="does not exist"):
        TitleHook(store)


def test_a_session_without_turns_is_not_named(store: Store, tmp_path: Path) -> None:
    configure("print('x')", tmp_path)
    store.create_session("empty")
    assert "nothing to name" in TitleHook(store).propose(store.sessions.get("empty")).problem


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────


def test_no_secret_reaches_the_program(store: Store, session: Session, tmp_path: Path) -> None:
    kept = tmp_path / "got.json"
    configure(f"open({str(kept)!r}, 'w').write(json.dumps(document))\nprint('x')", tmp_path)
    other = add_upload_session(store, "telegram:8")
    for owner, name, value in (
        (session, "A", "hunter2-old"),
        (session, "A", "hunter2"),
        (other, "B", 'quo"te\\'),
        (session, "C", ""),
        (session, "REMOVED", "hunter3"),
        (session, "UNDONE", "kept"),
        (session, "UNDONE", "hunter4"),
    ):
        store.secrets.set(owner, name, value)
    store.journal.undo()
    store.secrets.remove(session, "REMOVED")
    store.append_message(session.id, "user", 'Use hunter2, hunter2-old, hunter3, hunter4 and quo"te\\ please.')
    store.sessions.set_title(session, "About hunter2")
    assert TitleHook(store).propose(store.sessions.get(session.id)).title == "x"
    text = json.dumps(json.loads(kept.read_text()), ensure_ascii=False)
    assert "hunter" not in text
    assert "quo" not in text
    assert f"Use {MASK}, {MASK}, {MASK}, {MASK} and {MASK} please." in text
    assert f"About {MASK}" in text


def test_locked_secrets_must_be_unlocked_first(store: Store, session: Session, tmp_path: Path) -> None:
    configure(f"open({str(tmp_path / 'ran')!r}, 'w')\nprint('x')", tmp_path)
    store.secrets.set(session, "A", "hunter2")
    store.secrets.use_passphrase("open sesame")
    store.secrets.drop_key()
    problem = TitleHook(store).propose(session).problem
    assert problem.startswith("The secrets are locked.")
    assert problem.endswith("Their values could not be left out, so name it was not run.")
    assert not (tmp_path / "ran").exists()


# ── applying ──────────────────────────────────────────────────────────────────────────────────────


def test_all_titles_are_one_edit(store: Store, session: Session, tmp_path: Path) -> None:
    configure("print('Named', document['session']['id'])", tmp_path)
    other = add_upload_session(store, "telegram:8")
    hook = TitleHook(store)
    proposals = hook.propose_all([session, other])
    assert hook.apply(proposals) == 2
    assert store.sessions.get("telegram:8").title == "Named telegram:8"
    store.journal.undo()
    assert [store.sessions.get(one.id).own_title for one in (session, other)] == ["", ""]


def test_a_title_that_was_changed_meanwhile_is_not_overwritten(store: Store, session: Session, tmp_path: Path) -> None:
    configure("print('Named')", tmp_path)
    hook = TitleHook(store)
    proposals = hook.propose_all([session])
    store.sessions.set_title(session, "Mine")
    with pytest.raises(ChangedMeanwhile):
        hook.apply(proposals)
    assert store.sessions.get(session.id).title == "Mine"


def test_the_command_shows_titles_before_it_sets_them(store: Store, session: Session, tmp_path: Path) -> None:
    configure("print('Named', document['session']['id'])", tmp_path)
    cli = CommandLine(store.path)
    shown = cli("title", "--hook", session.id)
    assert (shown.status, shown.out) == (0, f"{session.id}  Fix the upload → Named {session.id}\n")
    assert "Use --yes to set the titles." in shown.err
    assert store.sessions.get(session.id).own_title == ""
    done = cli("title", "--hook", "--yes", "--json", session.id)
    assert done.json["applied"] == 1
    assert done.json["titles"] == [
        {"session": session.id, "old": "Fix the upload", "new": f"Named {session.id}", "problem": None}
    ]
    assert store.sessions.get(session.id).title == f"Named {session.id}"
    assert cli("undo").status == 0
    assert store.sessions.get(session.id).own_title == ""
    assert cli("title", session.id, "By hand").status == 0
    assert cli("title", session.id).status == 2
    assert cli("title", session.id, "By hand", "--yes").status == 2


def test_the_command_asks_in_a_terminal(store: Store, session: Session, tmp_path: Path) -> None:
    configure("print('Named')", tmp_path)
    ran = CommandLine(store.path).run_in_terminal("title", "--hook", session.id, answers=[("Set 1 title?", "y")])
    assert ran.status == 0
    assert store.sessions.get(session.id).title == "Named"


def test_without_a_program_the_command_is_refused(store: Store, session: Session) -> None:
    ran = CommandLine(store.path)("title", "--hook", session.id)
    assert (ran.status, ran.out) == (1, "")
    assert "No program proposes titles." in ran.err
