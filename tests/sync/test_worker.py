"""The worker process syncs while a browser is open: it follows the agents, obeys, and ends with its browser."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from browser_driver import screen_text, session_list, wait_for_text, wait_until
from command_line import CommandLine
from pty_terminal import Terminal

from store.store import Store
from store.sync import child_process, refresh, worker_process
from store.sync.targets import Progress, find_targets
from store.sync.tuning import IMPORT_NICENESS
from store.sync.worker import Follower
from store.sync.worker_process import Message, WorkerProcess
from store.usage.stale import count_without_usage
from tui.app import Backscroll

DATA = Path(__file__).parents[1] / "data"
TIMEOUT_SECONDS = 60
RUN = "import sys; from tui.main import main; sys.exit(main())"


@pytest.fixture
def history(home: Path) -> Path:
    """Put sessions of Claude Code where Claude Code keeps them."""
    return shutil.copytree(DATA / "claude", home / ".claude")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


class RecordingWorker(WorkerProcess):
    """Starts a real worker, and records what it is asked to do."""

    def __init__(self, path: Path) -> None:
        self.requested_ids: list[str] = []
        self.has_given_way: set[bool] = set()
        "Holds whether the person typed a search, for each time."
        super().__init__(path)

    def give_way(self, *, is_typing: bool) -> None:
        self.has_given_way.add(is_typing)
        super().give_way(is_typing=is_typing)

    def read_next(self, native_id: str) -> None:
        self.requested_ids.append(native_id)
        super().read_next(native_id)


@contextmanager
def running_worker(path: Path) -> Iterator[WorkerProcess]:
    worker = WorkerProcess(path)
    worker.start()
    try:
        yield worker
    finally:
        worker.close()


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def wait_for_event(worker: WorkerProcess, event: str) -> Message:
    while (message := worker._messages.get(timeout=TIMEOUT_SECONDS)) is not None:
        if message["event"] == event:
            return message
    raise AssertionError("the worker stopped")


def wait_for_stop(worker: WorkerProcess) -> None:
    while worker._messages.get(timeout=TIMEOUT_SECONDS) is not None:
        pass


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def titles(path: Path) -> set[str]:
    with Store.open(path) as store:
        return {session.title for session in store.sessions.newest(100)}


def add_session(history: Path, prompt: str) -> None:
    """Write a new session as Claude Code would."""
    folder = history / "projects" / "-w-app"
    name = "c1000000-0000-4000-8000-0000000000ff"
    line = (
        f'{{"type":"user","uuid":"new-prompt","parentUuid":null,"sessionId":"{name}","cwd":"/w/app","version":"2.0.0",'
        f'"timestamp":"2026-01-01T00:00:00.000Z","message":{{"role":"user","content":"{prompt}"}}}}\n'
    )
    (folder / f"{name}.jsonl").write_text(line)


@pytest.mark.usefixtures("history")
def test_worker_creates_a_new_store_with_the_sessions_of_this_machine(path: Path) -> None:
    with running_worker(path) as worker:
        worker.wait_for_rows(TIMEOUT_SECONDS)
        with Store.open(path) as store:
            assert store.sessions.newest()
        assert wait_for_event(worker, "idle")["found"]["Claude Code"] > 0


@pytest.mark.usefixtures("history")
def test_worker_is_started_once(path: Path) -> None:
    assert WorkerProcess(path).pid is None
    with running_worker(path) as worker:
        pid = worker.pid
        worker.start()
        assert worker.pid == pid
        wait_for_event(worker, "idle")
        assert titles(path)


@pytest.mark.usefixtures("history")
def test_worker_packs_the_store_when_nothing_else_is_to_be_done(path: Path) -> None:
    count_unpacked = "select count(*) from blocks where packed = 0"
    with Store.open(path) as store:
        store.create_session("long")
        for n in range(3):
            store.append_message("long", "user", f"{n} " * 50_000)
        assert store.row(count_unpacked)[0]
        with running_worker(path):
            wait_for(lambda: not store.row(count_unpacked)[0])
        assert store.row("select count(*) from blocks where packed = 1")[0]


@pytest.mark.usefixtures("history")
def test_worker_yields_to_the_browser_once_the_sessions_are_listed(path: Path) -> None:
    with running_worker(path) as worker:
        wait_for_event(worker, "idle")
        assert worker._process is not None
        pid = worker._process.pid
        assert os.getpriority(os.PRIO_PROCESS, pid) >= IMPORT_NICENESS
        assert os.sched_getscheduler(pid) == os.SCHED_BATCH


@pytest.mark.usefixtures("history")
def test_worker_derives_the_usage_of_sessions_that_were_stored_before_it_was_kept(path: Path) -> None:
    with Store.open(path) as store:
        for _ in refresh.sync_targets(store, find_targets(store=store)):
            pass
        expected = store.usage.collect("month").totals
        with store.transaction() as connection:
            connection.execute("delete from usage")
            connection.execute("update sessions set usage_version = 0")
        with running_worker(path):
            wait_for(lambda: not count_without_usage(store))
        assert store.usage.collect("month").totals == expected


def test_worker_reads_what_an_agent_writes_meanwhile(history: Path, path: Path) -> None:
    with running_worker(path) as worker:
        wait_for_event(worker, "idle")
        add_session(history, "A question asked while the browser is open")
        wait_for(lambda: "A question asked while the browser is open" in titles(path))


def test_worker_finds_an_agent_that_is_new_on_this_machine(home: Path, path: Path) -> None:
    with running_worker(path) as worker:
        assert wait_for_event(worker, "idle")["found"] == {}
        shutil.copytree(DATA / "codex", home / ".codex")
        assert wait_for_event(worker, "idle")["found"]["Codex"] > 0


@pytest.mark.usefixtures("history")
def test_worker_waits_while_another_sync_holds_the_lock(path: Path) -> None:
    Store.open(path).close()
    with Path(f"{path}.sync").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with running_worker(path) as worker:
            wait_for_event(worker, "ready")
            time.sleep(0.7)
            assert titles(path) == set()
            fcntl.flock(lock, fcntl.LOCK_UN)
            wait_for(lambda: titles(path))


@pytest.mark.usefixtures("history")
def test_worker_ends_when_its_input_ends(path: Path) -> None:
    worker = WorkerProcess(path)
    worker.start()
    pid = worker.pid
    assert pid is not None
    wait_for_event(worker, "idle")
    worker.close()
    assert not is_running(pid)


@pytest.mark.usefixtures("history")
def test_worker_ends_when_its_browser_is_killed(path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from store.sync.worker_process import WorkerProcess;"
        "worker = WorkerProcess(Path(sys.argv[1])); worker.start(); print(worker.pid, flush=True); time.sleep(600)"
    )
    browser = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert browser.stdout is not None
    pid = int(browser.stdout.readline())
    wait_for(path.exists)
    browser.kill()
    browser.wait()
    wait_for(lambda: not is_running(pid))


@pytest.mark.usefixtures("history")
def test_worker_that_stops_is_started_again_three_times_a_minute(path: Path) -> None:
    Store.open(path).close()
    with running_worker(path) as worker:
        for _ in range(worker_process.MAX_RESTARTS):
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            wait_for_stop(worker)
            assert worker.restart()
        wait_for_event(worker, "idle")
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        wait_for_stop(worker)
        assert not worker.restart()
    assert titles(path)


def test_worker_reports_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_bytes(b"this is not a database, and long enough not to be taken for an empty one" * 20)
    with running_worker(path) as worker:
        assert wait_for_event(worker, "error")["message"].endswith(".")


# ── while a person types ──────────────────────────────────────────────────────────────────────────


def test_packing_stops_after_the_step_in_which_a_key_is_pressed(store: Store) -> None:
    follower = Follower(store, lambda progress: None)
    done: list[int] = []

    def do_steps() -> Iterator[None]:
        for step in range(3):
            done.append(step)
            if step == 1:
                follower.give_way(is_typing=False)
            yield

    follower._packing = do_steps()
    follower._pack_until(time.monotonic() + TIMEOUT_SECONDS)
    assert done == [0, 1]


def test_an_import_holds_no_lock_while_it_rests(history: Path, store: Store) -> None:
    """Another program writes to the store while the person types, and the import goes on when a session is opened."""
    happened: list[str] = []

    other = Store.open(store.path, busy_timeout_ms=0)

    def type_and_write() -> None:
        follower.give_way(is_typing=True)
        other.create_session("written meanwhile")
        happened.append("written")
        follower.read_next("opened")

    def report(progress: Progress) -> None:
        if progress.done:
            follower.give_way(is_typing=True)
            writer.start()
            happened.append("read")
            follower._report_progress = lambda progress: happened.append("read")

    follower = Follower(store, report, "claude")
    writer = threading.Thread(target=type_and_write)
    with other:
        follower._sync_once()
        writer.join()
    assert happened[:2] == ["read", "written"]
    assert len(titles(store.path)) > 1


def test_a_worker_that_is_told_that_a_person_types_goes_on_afterwards(history: Path, path: Path) -> None:
    with running_worker(path) as worker:
        wait_for_event(worker, "idle")
        worker.give_way(is_typing=True)
        worker.give_way(is_typing=False)
        add_session(history, "A question asked while a person types")
        wait_for(lambda: "A question asked while a person types" in titles(path))


# ── in the browser ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("history")
def test_first_run_shows_sessions_and_says_what_was_found() -> None:
    with Terminal(RUN) as terminal:
        terminal.wait_for_text("Found", "sessions on this machine", "Claude Code")
        assert b"No sessions yet" not in terminal.raw
        terminal.press("q")


async def test_worker_is_asked_to_read_the_session_that_the_browser_opens(
    history: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_process, "LARGE_BYTES", 0)  # lists the sessions before they are read
    sync = refresh.sync_targets(store, find_targets([str(history)]))
    next(sync)  # holds the sync lock, so that the worker reads nothing yet
    opened = store.sessions.newest()[1]
    assert opened.depth == "text"
    with closing(RecordingWorker(store.path)) as worker:
        async with Backscroll(store, worker=worker).run_test(size=(80, 24)) as pilot:
            await wait_for_text(pilot, opened.title[:20])
            assert worker.requested_ids == []
            await pilot.press("down")
            await wait_until(pilot, lambda: session_list(pilot).selected_key == opened.key)
            await pilot.press("enter")
            await wait_for_text(pilot, "loading…")
            await wait_until(pilot, lambda: worker.requested_ids)
            assert worker.requested_ids == [opened.native_id]
            sync.close()  # type: ignore[attr-defined]
            await wait_until(pilot, lambda: "loading…" not in screen_text(pilot))
    assert store.sessions.get(opened.id).depth == "full"


async def test_worker_gives_way_to_keys_and_to_a_search(store: Store) -> None:
    store.create_session("one")
    with closing(RecordingWorker(store.path)) as worker:
        async with Backscroll(store, worker=worker).run_test(size=(80, 24)) as pilot:
            await wait_until(pilot, lambda: session_list(pilot).keys)
            assert worker.has_given_way == set()
            await pilot.press("down")
            await wait_until(pilot, lambda: worker.has_given_way == {False})
            await pilot.press("slash")
            await wait_until(pilot, lambda: True in worker.has_given_way)
            worker.has_given_way.clear()
            await pilot.press("o", "n")
            await wait_until(pilot, lambda: True in worker.has_given_way)


# ── sync --follow ─────────────────────────────────────────────────────────────────────────────────


def test_following_prints_what_was_read_until_interrupted(history: Path, path: Path, tmp_path: Path) -> None:
    with (tmp_path / "output").open("w+") as output:
        process = subprocess.Popen(
            CommandLine(path).command("sync", "--follow"),
            stderr=output,
            # A shell that runs the tests in the background lets them, and so this child, ignore the signal.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        try:
            wait_for(lambda: "claude: " in (tmp_path / "output").read_text())
            add_session(history, "Written while following")
            wait_for(lambda: (tmp_path / "output").read_text().count("claude: ") > 1)
            process.send_signal(signal.SIGINT)
            assert process.wait(TIMEOUT_SECONDS) == 0
        finally:
            process.kill()
    printed = (tmp_path / "output").read_text()
    assert printed.startswith("Following")
    assert printed.endswith("Stopped.\n")
    assert "Written while following" in titles(path)


@pytest.mark.parametrize("arguments", [("--json",), ("some/path",)])
def test_following_refuses_json_and_paths(path: Path, arguments: tuple[str, ...]) -> None:
    ran = CommandLine(path)("sync", "--follow", *arguments)
    assert ran.status == 2
    assert "--follow cannot be used with" in ran.err
