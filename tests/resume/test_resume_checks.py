"""These tests cover the checks before a session is resumed: branch, processes, new entries, unwritten edits."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from browser_driver import add_session, prompt_entry, time_ago
from foreign_databases import sync_paths
from source_samples import SAMPLES

from store import sources
from store.model.session import Session
from store.resume.check_results import ProcessInfo, ResumeChecks, join_names
from store.resume.checks import check_resume
from store.resume.command import plan_resume
from store.resume.git import find_work_tree, read_branch
from store.sources.contract import Source
from store.store import Store


def run_checks(store: Store, session: Session, folder: Path | None = None) -> ResumeChecks:
    return check_resume(store, plan_resume(session, folder))


# ── git ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Make the files of a git work tree that name its branch."""
    (tmp_path / "tree" / ".git").mkdir(parents=True)
    (tmp_path / "tree" / ".git" / "HEAD").write_text("ref: refs/heads/fix/upload-2\n")
    return tmp_path / "tree"


def test_the_branch_is_that_of_the_work_tree_around_a_folder(tree: Path) -> None:
    (tree / "src" / "deep").mkdir(parents=True)
    assert read_branch(tree) == read_branch(tree / "src" / "deep") == "fix/upload-2"


@pytest.mark.parametrize("pointer", ["gitdir: {tree}/.git/worktrees/other\n", "gitdir: ../tree/.git/worktrees/other"])
def test_a_linked_work_tree_has_a_branch_of_its_own(tree: Path, pointer: str) -> None:
    own = tree / ".git" / "worktrees" / "other"
    own.mkdir(parents=True)
    (own / "HEAD").write_text("ref: refs/heads/other\n")
    linked = tree.parent / "linked"
    linked.mkdir()
    (linked / ".git").write_text(pointer.format(tree=tree))
    assert read_branch(linked) == "other"


def test_a_real_repository_is_read_as_git_reads_it(tmp_path: Path) -> None:
    def git(*arguments: str, cwd: Path = tmp_path) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        return subprocess.run(
            ["git", *identity, *arguments], cwd=cwd, check=True, capture_output=True, text=True
        ).stdout.strip()

    git("init", "-q", "-b", "trunk", "one")
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=tmp_path / "one")
    git("worktree", "add", "-q", "-b", "side", "../two", cwd=tmp_path / "one")
    for name in ("one", "two"):
        assert read_branch(tmp_path / name) == git("branch", "--show-current", cwd=tmp_path / name) in ("trunk", "side")
    git("checkout", "-q", "--detach", cwd=tmp_path / "two")
    assert read_branch(tmp_path / "two") == ""


@pytest.mark.parametrize(
    ("head", "branch"),
    [
        ("8a1b\n", ""),
        ("ref: refs/heads/.invalid\n", None),
        ("", ""),
        ("ref: refs/heads/" + "x" * 5_000, "x" * 984),
        (None, None),
    ],
)
def test_a_head_that_names_no_branch(tree: Path, head: str | None, branch: str | None) -> None:
    path = tree / ".git" / "HEAD"
    path.unlink() if head is None else path.write_text(head)
    assert read_branch(tree) == branch


def test_the_work_tree_is_found_from_a_folder_inside_it(tmp_path: Path) -> None:
    folder = tmp_path / "tree" / "src" / "deep"
    folder.mkdir(parents=True)
    assert find_work_tree(folder) is None
    (tmp_path / "tree" / ".git").write_text("gitdir: elsewhere")
    assert find_work_tree(folder) == find_work_tree(tmp_path / "tree") == tmp_path / "tree"


def test_without_git_the_branch_is_empty_and_without_a_folder_it_is_unknown(tmp_path: Path) -> None:
    assert read_branch(tmp_path) == ""
    assert read_branch(tmp_path / "gone") is None
    (tmp_path / ".git").write_bytes(b"gitdir: \xff\xfe")
    assert read_branch(tmp_path) is None
    (tmp_path / ".git").write_text("gitdir: /nowhere/at/all")
    assert read_branch(tmp_path) is None


@pytest.mark.parametrize(
    ("name", "native"),
    [
        ("claude", "c1000000-0000-4000-8000-000000000003"),
        ("codex", "0a000000-0000-7000-8000-000000000006"),
        ("copilot", "aaaa7777-0000-4000-8000-000000000001"),
        ("qwen", "aaaa5555-0000-4000-8000-000000000001"),
    ],
)
def test_the_branch_that_an_agent_records_is_found(store: Store, tmp_path: Path, name: str, native: str) -> None:
    source = sources.load_source(name)
    assert source is not None
    assert type(source).git_branch is not Source.git_branch
    sync_paths(store, SAMPLES[name](tmp_path))
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/topic\n")
    checks = run_checks(store, store.sessions.find(native), tmp_path)
    assert (checks.recorded_branch, checks.current_branch) == ("main", "topic")
    assert checks.list_checks()[0][1:] == ("was main, is topic now", "notable")


# ── other processes ───────────────────────────────────────────────────────────────────────────────


@contextmanager
def running(*command: str) -> Iterator[int]:
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline()
            yield process.pid
        finally:
            process.kill()


HOLD_FILE_OPEN = "import sys, time; file = open(sys.argv[1]); print('open', flush=True); time.sleep(100)"


def test_a_process_that_has_the_transcript_open_is_found(store: Store, tmp_path: Path) -> None:
    sync_paths(store, SAMPLES["claude"](tmp_path))
    session = store.sessions.find("c1000000-0000-4000-8000-000000000003")
    (path,) = tmp_path.rglob(f"{session.native_id}.jsonl")
    assert run_checks(store, session).session_processes == ()
    with running(sys.executable, "-c", HOLD_FILE_OPEN, str(path)) as pid:
        checks = run_checks(store, session)
    assert [process.pid for process in checks.session_processes] == [pid]
    name, text, severity = checks.list_checks()[1]
    assert (name, severity) == ("session", "notable")
    assert f"process {pid}" in text


@pytest.fixture
def agent(tmp_path: Path) -> str:
    path = tmp_path / "bin" / "claude"
    path.parent.mkdir()
    path.write_text(f"#!{sys.executable}\nimport time\nprint('up', flush=True)\ntime.sleep(100)\n")
    path.chmod(0o755)
    return str(path)


def test_an_agent_that_was_started_with_the_session_id_is_found(store: Store, tmp_path: Path, agent: str) -> None:
    sync_paths(store, SAMPLES["claude"](tmp_path))
    session = store.sessions.find("c1000000-0000-4000-8000-000000000003")
    with running(agent, "--resume", session.native_id) as pid, running(agent, "--resume", "another"):
        assert [process.pid for process in run_checks(store, session).session_processes] == [pid]


def test_an_agent_that_lists_its_sessions_is_found(
    store: Store, tmp_path: Path, agent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample = SAMPLES["claude"](tmp_path)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(sample))
    sync_paths(store, sample)
    session = store.sessions.find("c1000000-0000-4000-8000-000000000003")
    process_files = sample / "sessions"
    process_files.mkdir()
    with running(agent) as pid, running(agent) as other:
        for number, native_id in ((pid, session.native_id), (other, "another"), (2**22 + 1, session.native_id)):
            (process_files / f"{number}.json").write_text(json.dumps({"pid": number, "sessionId": native_id}))
        assert [process.pid for process in run_checks(store, session).session_processes] == [pid]


def test_a_process_with_the_database_open_may_use_another_session(store: Store, tmp_path: Path) -> None:
    path = SAMPLES["pingu"](tmp_path)
    sync_paths(store, path)
    session = store.sessions.newest(1)[0]
    with running(sys.executable, "-c", HOLD_FILE_OPEN, str(path)) as pid:
        checks = run_checks(store, session)
    assert (checks.session_processes, [process.pid for process in checks.database_processes]) == ((), [pid])
    assert "its database is open in" in checks.list_checks()[1].text


# ── new entries ───────────────────────────────────────────────────────────────────────────────────


def test_a_transcript_that_grew_has_new_entries_until_it_is_synced(store: Store, tmp_path: Path) -> None:
    sample = SAMPLES["claude"](tmp_path)
    sync_paths(store, sample)
    session = store.sessions.find("c1000000-0000-4000-8000-000000000003")
    assert not run_checks(store, session).has_new_entries
    (path,) = sample.rglob(f"{session.native_id}.jsonl")
    last = json.loads(path.read_text().splitlines()[-1])
    path.touch()
    assert not run_checks(store, session).has_new_entries
    appended = {
        **last,
        "uuid": "new",
        "parentUuid": last["uuid"],
        "type": "user",
        "message": {"role": "user", "content": "?"},
    }
    with path.open("a") as file:
        file.write(json.dumps(appended) + "\n")
    assert run_checks(store, session).has_new_entries
    sync_paths(store, sample)
    assert run_checks(store, session).has_new_entries, "the shown session is older than the synced one"
    assert not run_checks(store, store.sessions.by_key(session.key)).has_new_entries


def test_a_new_row_in_a_database_affects_only_its_own_session(store: Store, tmp_path: Path) -> None:
    path = SAMPLES["pingu"](tmp_path)
    sync_paths(store, path)
    grown, other = [session for session in store.sessions.newest(9) if session.turns][:2]
    with closing(sqlite3.connect(path)) as owner, owner:
        sql = "insert into turns (session_id, user_message, response_json) values (?, 'more', '{}')"
        owner.execute(sql, (grown.native_id,))
    assert run_checks(store, grown).has_new_entries
    assert not run_checks(store, other).has_new_entries


def test_a_session_that_its_agent_deleted_is_gone(store: Store, tmp_path: Path) -> None:
    sample = SAMPLES["claude"](tmp_path)
    sync_paths(store, sample)
    session = store.sessions.find("c1000000-0000-4000-8000-000000000003")
    (path,) = sample.rglob(f"{session.native_id}.jsonl")
    path.unlink()
    checks = run_checks(store, session)
    assert checks.gone
    assert checks.list_checks()[1].severity == "bad"
    assert list(checks.list_warnings()) == ["session: deleted in its agent"]


# ── edits ─────────────────────────────────────────────────────────────────────────────────────────


def test_edits_that_were_not_written_back_are_named(store: Store, tmp_path: Path) -> None:
    sync_paths(store, SAMPLES["pingu"](tmp_path))
    session = next(session for session in store.sessions.newest(9) if session.turns)
    assert run_checks(store, session).list_checks()[2].text == "none"
    store.sessions.set_title(session, "Mine")
    store.summaries.set(session, "Short.", up_to_turn=1)
    checks = run_checks(store, store.sessions.by_key(session.key))
    assert (checks.unwritten_edits, checks.can_write_back) == (("title", "summary"), True)
    assert checks.list_checks()[2][1:] == ("title and summary not written back", "notable")


def test_edits_that_cannot_be_written_back_are_named(store: Store, tmp_path: Path) -> None:
    sync_paths(store, SAMPLES["claude"](tmp_path))
    session = store.sessions.find("c1000000-0000-4000-8000-000000000003")
    store.sessions.set_title(session, "Mine")
    checks = run_checks(store, store.sessions.by_key(session.key))
    assert checks.list_checks()[2][1:] == ("title only in Backscroll", "quiet")


def test_a_session_of_the_library_has_no_findings(store: Store) -> None:
    session = add_session(store, "mine", time_ago(), prompt_entry("Hello", time_ago()))
    store.sessions.set_title(session, "Mine")
    assert run_checks(store, store.sessions.by_key(session.key)) == ResumeChecks(can_write_back=False)


# ── wording ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("recorded", "current", "text", "severity"),
    [
        ("main", "main", "main", "good"),
        ("main", "topic", "was main, is topic now", "notable"),
        ("main", "", "was main, none now", "notable"),
        ("main", None, "was main", "quiet"),
        ("", "main", "main", "quiet"),
        ("", "", "none", "quiet"),
        ("", None, "unknown", "quiet"),
        ("a\x1b[2Jb", "a\x1b[2Jb", "a␛[2Jb", "good"),
    ],
)
def test_the_branch_in_words(recorded: str, current: str | None, text: str, severity: str) -> None:
    checks = ResumeChecks(recorded_branch=recorded, current_branch=current)
    assert checks.list_checks()[0][1:] == (text, severity)


def test_the_name_of_a_process_is_sanitized() -> None:
    assert str(ProcessInfo(7, "claude\x07")) == "claude␇, process 7"
    assert str(ProcessInfo(7, "")) == "process 7"


def test_without_a_view_of_processes_nothing_is_said_about_use() -> None:
    assert ResumeChecks().list_checks()[1].text == "not in use, up to date"
    assert ResumeChecks(can_see_processes=False).list_checks()[1].text == "up to date"


def test_names_in_a_row() -> None:
    assert [join_names(names) for names in ((), ("a",), ("a", "b"), ("a", "b", "c"))] == [
        "",
        "a",
        "a and b",
        "a, b and c",
    ]
