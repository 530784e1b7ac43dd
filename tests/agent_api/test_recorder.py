"""Tests that the recorder never stops the agent, and that the conversation is complete or says what is missing."""

from __future__ import annotations

import logging
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from store.agent_api.recorder import MEMORY_FULL, UNSTORABLE, Recorder
from store.store import Store

SECRET_TALK = "the launch code is 0000"
RESPONSE = {
    "id": "resp_1",
    "model": "gpt-x",
    "output": [
        {"type": "reasoning", "id": "rs_1", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "41% full"}]},
    ],
    "usage": {"input_tokens": 9, "output_tokens": 3},
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "store.db"


@contextmanager
def locked(path: Path, how: str = "immediate") -> Iterator[None]:
    """Hold a write transaction on another connection."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute(f"begin {how}")
        yield
        other.execute("rollback")


def texts(path: Path, session_id: str = "s") -> list[str]:
    with Store.open(path) as store:
        return [entry.text for entry in store.chains.entries(store.get_session(session_id).key, 0)]


def run(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


# ── without failures ──────────────────────────────────────────────────────────────────────────────


def test_every_word_is_in_the_store_at_once(path: Path) -> None:
    with Recorder(path, "s", model="m", working_dir="/code") as recorder:
        recorder.message("user", "how full is the disk?", author="anna")
        recorder.message("assistant", [{"type": "text", "text": "let me look"}], model="m-2")
        recorder.turn("and now?", RESPONSE)
        recorder.summary("About a disk.", up_to_turn=1)
        assert recorder.pending_count == 0
        with Store.open(path) as store:
            session = store.get_session("s")
            summary = store.summaries.current(session)
            entries = store.chains.entries(session.key, 0)
    assert (session.cwd, session.turns, session.entries, session.tokens_total) == ("/code", 2, 5, 12)
    assert [entry.text for entry in entries] == ["how full is the disk?", "let me look", "and now?", "", "41% full"]
    assert (entries[0].author, entries[1].model) == ("anna", "m-2")
    assert summary is not None
    assert (summary.text, summary.up_to_turn) == ("About a disk.", 1)


def test_nothing_is_opened_before_something_is_said(path: Path) -> None:
    with Recorder(path, "s") as recorder:
        assert recorder.flush() is True
    assert not path.exists()


def test_an_open_store_will_do_in_place_of_a_path(store: Store) -> None:
    with Recorder(store, "s") as recorder:
        recorder.message("user", "hello")
    assert store.get_session("s").entries == 1
    with Store.memory() as memory:
        with Recorder(memory, "s") as recorder:
            recorder.message("user", "hello")
        assert memory.get_session("s").entries == 1


def test_a_transaction_of_the_agents_does_not_take_the_conversation_back(store: Store) -> None:
    with Recorder(store, "s") as recorder:
        with suppress(RuntimeError), store.transaction():
            recorder.message("user", "hello")
            raise RuntimeError
        assert recorder.flush() is True
    assert store.get_session("s").entries == 1


def test_a_session_that_is_there_is_continued_and_told_what_is_new(path: Path) -> None:
    with Recorder(path, "s", webhook="https://old.example") as recorder:
        recorder.message("user", "one")
    with Recorder(path, "s", webhook="https://new.example") as recorder:
        recorder.message("user", "two")
    assert texts(path) == ["one", "two"]
    with Store.open(path) as store:
        assert store.get_session("s").webhook == "https://new.example"


def test_a_session_purged_meanwhile_is_begun_again(store: Store) -> None:
    with Recorder(store, "s", model="m") as recorder:
        recorder.message("user", "one")
        store.delete_session("s")
        recorder.message("user", "two")
    assert [entry.text for entry in store.chains.entries(store.get_session("s").key, 0)] == ["two"]
    assert store.get_session("s").model == "m"


def test_after_close_it_can_be_used_again(path: Path) -> None:
    recorder = Recorder(path, "s")
    recorder.message("user", "one")
    recorder.close()
    recorder.message("user", "two")
    recorder.close()
    recorder.close()
    assert texts(path) == ["one", "two"]


# ── a locked file ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["immediate", "exclusive"])
def test_what_is_said_while_another_program_writes_is_kept_in_order(
    path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    Store.open(path).close()
    recorder = Recorder(path, "s")
    with locked(path, how):
        recorder.message("user", SECRET_TALK)
        recorder.turn("and now?", RESPONSE)
        assert recorder.flush() is False
        assert recorder.pending_count == 4
    assert recorder.flush() is True
    assert texts(path) == [SECRET_TALK, "and now?", "", "41% full"]
    assert (recorder.pending_count, recorder.lost) == (0, 0)
    assert "Another program is writing" in caplog.text
    assert SECRET_TALK not in caplog.text
    recorder.close()


def test_the_next_call_writes_what_waited(path: Path) -> None:
    Store.open(path).close()
    with Recorder(path, "s", retry_seconds=0) as recorder:
        with locked(path):
            recorder.message("user", "one")
        recorder.message("user", "two")
        assert recorder.pending_count == 0
    assert texts(path) == ["one", "two"]


def test_after_a_failure_the_next_calls_do_not_wait_for_the_lock(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    Store.open(path).close()
    with Recorder(path, "s", retry_seconds=3600) as recorder:
        with locked(path):
            for n in range(50):
                recorder.message("user", f"message {n}")
        assert len([record for record in caplog.records if "Another program" in record.getMessage()]) == 1
        assert recorder.pending_count == 50
    assert len(texts(path)) == 50


def test_each_entry_keeps_the_time_at_which_it_was_said(path: Path) -> None:
    Store.open(path).close()
    with Recorder(path, "s", retry_seconds=0) as recorder:
        with locked(path):
            recorder.message("user", "one")
        with Store.open(path) as store:
            written_after = store.create_session("later").created_at
    with Store.open(path) as store:
        session = store.get_session("s")
        (entry,) = store.chains.entries(session.key, 0)
    assert session.created_at <= entry.created_at < written_after


def test_what_the_agent_changes_afterwards_changes_nothing(path: Path) -> None:
    Store.open(path).close()
    blocks: list[Any] = [{"type": "tool_use", "id": "t1", "name": "bash", "input": {"command": "ls"}}]
    response = {"output": [{"type": "message", "role": "assistant", "content": "before"}]}
    with Recorder(path, "s") as recorder, locked(path):
        recorder.message("assistant", blocks)
        recorder.turn("go on", response)
        blocks[0]["input"]["command"] = "rm"
        response["output"][0]["content"] = "after"
    with Store.open(path) as store:
        called, *_, answered = store.chains.entries(store.get_session("s").key, 0)
    assert called.parts[0].arguments == {"command": "ls"}  # type: ignore[union-attr]
    assert answered.text == "before"


def test_a_process_that_holds_the_lock_is_outlived_at_close(path: Path) -> None:
    Store.open(path).close()
    holder = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None); c.execute('begin exclusive');"
            "print('held', flush=True); sys.stdin.read(); c.execute('rollback')",
            str(path),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdout is not None
    assert holder.stdin is not None
    holder.stdout.readline()
    recorder = Recorder(path, "s")
    recorder.message("user", "hello")
    assert recorder.pending_count == 1
    threading.Timer(0.5, holder.stdin.close).start()
    recorder.close()
    holder.wait()
    assert (texts(path), recorder.lost) == (["hello"], 0)


# ── the limit ─────────────────────────────────────────────────────────────────────────────────────


def test_what_is_beyond_the_bound_is_counted_and_said_where_it_is_missing(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Store.open(path).close()
    with Recorder(path, "s", max_pending=3) as recorder:
        with locked(path):
            for n in range(10):
                recorder.message("user", f"message {n}")
        assert (recorder.pending_count, recorder.lost) == (3, 7)
        assert recorder.flush() is True
        recorder.message("user", "back again")
    with Store.open(path) as store:
        entries = store.chains.entries(store.get_session("s").key, 0)
    assert [entry.text for entry in entries if entry.kind == "message"] == [
        "message 0",
        "message 1",
        "message 2",
        "back again",
    ]
    assert (entries[3].kind, entries[3].text) == ("event", f"Not recorded here: 7 ({MEMORY_FULL}).")
    assert MEMORY_FULL in caplog.text


def test_the_bound_in_bytes_drops_what_is_too_large_and_keeps_what_fits(path: Path) -> None:
    Store.open(path).close()
    with Recorder(path, "s", max_pending_bytes=1000) as recorder:
        with locked(path):
            recorder.message("user", "small")
            recorder.message("user", "x" * 2000)
            recorder.message("user", "also small")
        assert recorder.lost == 1
    small, gap, also = texts(path)
    assert (small, also) == ("small", "also small")
    assert gap.startswith("Not recorded here: 1 ")


def test_the_bound_is_no_limit_for_what_can_be_written(path: Path) -> None:
    with Recorder(path, "s", max_pending=1, max_pending_bytes=10) as recorder:
        recorder.turn("and now?", RESPONSE)
        recorder.message("user", "x" * 2000)
        assert recorder.lost == 0
    assert len(texts(path)) == 4


def test_what_cannot_be_written_at_the_end_is_counted_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    recorder = Recorder(tmp_path / "file" / "store.db", "s")
    recorder.message("user", SECRET_TALK)
    recorder.message("user", SECRET_TALK)
    recorder.close()
    assert (recorder.pending_count, recorder.lost) == (0, 2)
    assert "Lost entries that could not be written: 2." in caplog.text
    assert SECRET_TALK not in caplog.text


# ── a failing disk ────────────────────────────────────────────────────────────────────────────────


def test_a_folder_that_cannot_be_made_is_logged_and_tried_again(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.touch()
    with Recorder(path, "s") as recorder:
        recorder.message("user", "hello")
        assert recorder.flush() is False
        assert f"{path} cannot be" in caplog.text
        path.parent.unlink()
        assert recorder.flush() is True
    assert texts(path) == ["hello"]


def test_a_read_only_folder_is_logged_and_tried_again() -> None:
    """Run in a process that gives up the rights of the superuser, who may write everywhere."""
    ran = run(
        """
        import os, sys, tempfile
        from pathlib import Path
        from store.agent_api.recorder import Recorder
        with tempfile.TemporaryDirectory() as own:
            with Recorder(Path(own) / "warm.db", "s") as first:
                first.message("user", "so that everything is imported")
            folder = Path(own) / "folder"
            folder.mkdir()
            if os.geteuid() == 0:
                for path in (own, folder):
                    os.chown(path, 65534, 65534)
                os.seteuid(65534)
            folder.chmod(0o500)
            with Recorder(folder / "store.db", "s") as recorder:
                recorder.message("user", "hello")
                print(recorder.pending_count)
                folder.chmod(0o700)
                print(recorder.flush())
            if os.getuid() == 0:
                os.seteuid(0)
        """
    )
    assert (ran.returncode, ran.stdout.split()) == (0, ["1", "True"]), ran.stderr
    assert "cannot be created: Permission denied" in ran.stderr


def test_a_file_that_is_no_store_is_left_alone(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path.parent.mkdir()
    path.write_bytes(b"a diary, and none of our business" * 100)
    before = path.read_bytes()
    with Recorder(path, "s") as recorder:
        recorder.message("user", "hello")
    assert path.read_bytes() == before
    assert "is not a SQLite database" in caplog.text


def test_a_full_disk_is_outlived(path: Path) -> None:
    """Limit the size of files, as a full disk does. When the limit is lifted, everything is written."""
    ran = run(
        """
        import logging, resource, sys
        from store.agent_api.recorder import Recorder
        logging.basicConfig(level=logging.WARNING)
        recorder = Recorder(sys.argv[1], "s", retry_seconds=0)
        recorder.message("user", "before")
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
        for n in range(5):
            recorder.message("user", f"{n}" * 300_000)
        print(recorder.flush(), recorder.pending_count > 0)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        recorder.message("user", "after")
        print(recorder.pending_count, recorder.lost)
        """,
        path,
    )
    assert (ran.returncode, ran.stdout.split()) == (0, ["False", "True", "0", "0"]), ran.stderr
    assert "nothing was changed" in ran.stderr
    assert [text[:6] for text in texts(path)] == ["before", "000000", "111111", "222222", "333333", "444444", "after"]


# ── the end of the process ────────────────────────────────────────────────────────────────────────


def test_leaving_the_program_writes_what_waits(path: Path) -> None:
    ran = run(
        """
        import sqlite3, sys
        from store.agent_api.recorder import Recorder
        from store.store import Store
        Store.open(sys.argv[1]).close()
        other = sqlite3.connect(sys.argv[1], isolation_level=None)
        other.execute("begin immediate")
        recorder = Recorder(sys.argv[1], "s")
        recorder.message("user", "hello")
        print(recorder.pending_count)
        other.execute("rollback")
        sys.exit(3)
        """,
        path,
    )
    assert (ran.returncode, ran.stdout.strip()) == (3, "1"), ran.stderr
    assert texts(path) == ["hello"]


def test_a_child_process_does_not_write_its_parents_words_again(path: Path) -> None:
    ran = run(
        """
        import os, sqlite3, sys, warnings
        warnings.simplefilter("ignore")
        from store.agent_api.recorder import Recorder
        recorder = Recorder(sys.argv[1], "s")
        recorder.message("user", "one")
        other = sqlite3.connect(sys.argv[1], isolation_level=None)
        other.execute("begin immediate")
        recorder.message("user", "two")
        other.execute("rollback")
        other.close()
        child = os.fork()
        if not child:
            recorder.message("user", "from the child")
            sys.exit(0)
        os.waitpid(child, 0)
        """,
        path,
    )
    assert ran.returncode == 0, ran.stderr
    assert texts(path) == ["one", "from the child", "two"]


# ── bad values, many threads ──────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "blocks",
    [
        pytest.param([{"type": "text", "text": "x", "score": float("nan")}], id="NaN"),
        pytest.param([{"type": "text", "text": object()}], id="an object"),
        pytest.param(None, id="nothing at all"),
    ],
)
def test_a_value_that_cannot_be_kept_is_counted_and_its_neighbours_are_written(path: Path, blocks: Any) -> None:
    with Recorder(path, "s") as recorder:
        recorder.message("user", "before")
        recorder.message("assistant", blocks)
        recorder.message("user", "after")
        assert (recorder.refused, recorder.lost) == (1, 0)
    assert texts(path) == ["before", f"Not recorded here: 1 ({UNSTORABLE}).", "after"]


def test_a_value_found_bad_only_while_writing_does_not_hold_up_the_others(path: Path) -> None:
    Store.open(path).close()
    number: Any = "three"
    with Recorder(path, "s") as recorder:
        with locked(path):
            recorder.message("user", "before")
            recorder.summary("About something.", up_to_turn=number)
            recorder.message("user", "after")
        assert recorder.flush() is True
        assert recorder.refused == 1
    assert texts(path) == ["before", f"Not recorded here: 1 ({UNSTORABLE}).", "after"]


def test_what_is_said_of_the_session_may_be_wrong_without_losing_the_conversation(path: Path) -> None:
    with Recorder(path, "s", title="half a character: \ud800") as recorder:
        recorder.message("user", "hello")
    assert texts(path) == ["hello"]


def test_an_impossible_session_id_is_logged_and_never_raised(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Recorder(path, "") as recorder:
        recorder.message("user", "hello")
        assert recorder.refused == 1
    assert "The session id is empty" in caplog.text


def test_nothing_an_agent_passes_is_raised_back_at_it(path: Path) -> None:
    wrong: Any = 3.5
    with Recorder(path, "s") as recorder:
        recorder.message(wrong, wrong, wrong, wrong)
        recorder.message("user", "hello", author=wrong)
        recorder.turn(wrong, wrong)
        recorder.turn("hello", "not JSON")
        recorder.summary(wrong)
        assert recorder.refused == 5


def test_threads_may_share_a_recorder(path: Path) -> None:
    with Recorder(path, "s") as recorder:

        def talk(speaker: int) -> None:
            for n in range(25):
                recorder.message("user", f"{speaker}:{n}")

        threads = [threading.Thread(target=talk, args=(speaker,)) for speaker in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    recorded = texts(path)
    assert len(recorded) == 100
    for speaker in range(4):
        assert [text for text in recorded if text.startswith(f"{speaker}:")] == [f"{speaker}:{n}" for n in range(25)]


def test_logging_says_nothing_when_all_is_well(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "store.agent_api.recorder")
    with Recorder(path, "s") as recorder:
        recorder.message("user", "hello")
    assert [record for record in caplog.records if record.name == "store.agent_api.recorder"] == []
