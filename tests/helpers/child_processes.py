"""This module has the tasks of the tests' child processes, and the fork server that starts them.

Run as a program, it loads the store once and forks a child for every task, because starting Python a few hundred times
would take minutes. The children are real processes: they can be killed, limited, and run without rights.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import random
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sqlite_utils import Database

import store.sync.engine  # noqa: F401  # must be loaded before a child gives up the right to read modules
from store import sources
from store.database import backup, connection, migrations, progress
from store.errors import NotFound, StoreError, Unreadable
from store.leaks.redaction import own_redaction
from store.model.entry import Json
from store.model.session import Session
from store.store import Store
from store.sync import refresh
from store.sync.disk_space import pack_store
from store.sync.targets import find_targets

Reporter = Callable[[Json], None]

NOBODY = 65534
SHARED_SESSION = "shared"


# ── the test's side ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Outcome:
    messages: list[Json]
    "Holds what the child reported, each report sent after the work was done."
    seconds: float
    "Counts the seconds from its first report to its end."
    refusal: str = ""
    "Is the name and the message of the store's error that ended the task."
    crash: str = ""
    "Is the traceback of any other error."


@dataclass
class ForkServer:
    """Controls a process that forks children on request, one at a time."""

    _process: subprocess.Popen[str] = field(init=False)

    def __post_init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def submit(self, task: Callable[..., None], *args: Json, **options: Json) -> None:
        """Send a task to the server.

        Options: `kill_after` kills the child this many seconds after its first report, or after `report_count` of them;
        `largest_file` limits the size of files in bytes; `nobody` runs the child without rights.
        """
        assert self._process.stdin
        request = {"task": task.__name__, "args": args, "environment": {**os.environ}, **options}
        print(json.dumps(request), file=self._process.stdin, flush=True)

    def receive(self) -> Outcome:
        assert self._process.stdout
        return Outcome(**json.loads(self._process.stdout.readline()))

    def run(self, task: Callable[..., None], *args: Json, **options: Json) -> Outcome:
        self.submit(task, *args, **options)
        return self.receive()

    def close(self) -> None:
        """End the server and a child that a failed test may have left: they are one process group."""
        with self._process:
            os.killpg(self._process.pid, signal.SIGKILL)


@contextlib.contextmanager
def start_fork_server() -> Iterator[ForkServer]:
    with contextlib.closing(ForkServer()) as server:
        yield server


# ── the server's side ─────────────────────────────────────────────────────────────────────────────


def _serve() -> None:
    _preload_modules()
    for line in sys.stdin:
        print(json.dumps(_fork_child(**json.loads(line))), flush=True)


def _preload_modules() -> None:
    """Load collections and sources, before a child gives up the right to read the files of their modules."""
    for source in sources.all_sources():
        with contextlib.suppress(StoreError):
            source.detect(os.devnull)
    with Store.memory() as store:
        store.create_session("a")
        store.sessions.set_title(store.get_session("a"), "x")
        editable_state(store)


def _fork_child(
    task: str, args: list[Json], kill_after: float | None = None, report_count: int = 1, **options: Json
) -> dict[str, Json]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _child_main(task, args, writer, **options)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        output = b"".join(pipe.readline() for _ in range(report_count))
        first_report_at = time.monotonic()
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(child, signal.SIGKILL)
        output += pipe.read()
    os.waitpid(child, 0)
    lines = [json.loads(line) for line in output.splitlines(keepends=True) if line.endswith(b"\n")]
    end = lines.pop() if lines and isinstance(lines[-1], dict) and "end" in lines[-1] else {"end": {}}
    return {"messages": lines, "seconds": time.monotonic() - first_report_at, **end["end"]}


def _child_main(
    task: str,
    args: list[Json],
    writer: int,
    environment: dict[str, str],
    largest_file: int | None = None,
    nobody: bool = False,
) -> None:
    def report(message: Json) -> None:
        os.write(writer, json.dumps(message).encode() + b"\n")

    end = {}
    try:
        os.environ.clear()
        os.environ.update(environment)
        if largest_file is not None:
            sys.dont_write_bytecode = True  # a truncated bytecode file would be loaded by others
            resource.setrlimit(resource.RLIMIT_FSIZE, (largest_file, largest_file))
        if nobody:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        end = _run_task(globals()[task], report, *args)
    except BaseException:
        end = {"crash": traceback.format_exc()}
    finally:
        report({"end": end})
        os._exit(0)


def _run_task(task: Callable[..., None], *args: Json) -> dict[str, str]:
    try:
        task(*args)
    except StoreError as error:
        return {"refusal": f"{type(error).__name__}: {error}"}
    return {}


# ── appending ─────────────────────────────────────────────────────────────────────────────────────


def append_messages(report: Reporter, path: str, name: str, count: int) -> None:
    """Append half of the messages to a session of its own, half to the one that all processes share."""
    with Store.open(path) as store:
        store.ensure_session(name)
        store.ensure_session(SHARED_SESSION)
        for n in range(count):
            session = SHARED_SESSION if n % 2 else name
            report([store.append_message(session, "user", f"{name} says {n}"), f"{name} says {n}"])


def append_until_stopped(report: Reporter, path: str, name: str, stop: str = "") -> None:
    """Append with all methods in turn, until killed or until the stop file exists."""
    with Store.open(path) as store:
        store.ensure_session(SHARED_SESSION)
        store.ensure_session(name)
        report("ready")
        for n in itertools.count():
            methods = (_append_short_messages, _append_long_message, _append_turn, _append_to_new_session)
            for entry, text in methods[n % len(methods)](store, name, n):
                report([entry, text_digest(text)])
            if stop and os.path.exists(stop):
                return


def append_and_pack_until_killed(report: Reporter, path: str, name: str) -> None:
    """Append long messages, and pack the store after each of them."""
    with Store.open(path) as store:
        store.ensure_session(name)
        report("ready")
        for n in itertools.count():
            for entry, text in _append_long_message(store, name, n):
                report([entry, text_digest(text)])
            for _ in pack_store(store, merge_completely=n % 4 == 0):
                report("packed")


def text_digest(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _append_short_messages(store: Store, name: str, n: int) -> Iterator[tuple[str, str]]:
    for session in (SHARED_SESSION, name):
        yield store.append_message(session, "user", f"{name} says {n}"), f"{name} says {n}"


def _append_long_message(store: Store, name: str, n: int) -> Iterator[tuple[str, str]]:
    """Append a message that is large enough for a compressed block of its own."""
    text = f"{name} says {n} at length " + random.Random(n).randbytes(20_000).hex()
    yield store.append_message(name, "assistant", [{"type": "text", "text": text}]), text


def _append_turn(store: Store, name: str, n: int) -> Iterator[tuple[str, str]]:
    prompt = f"{name} asks {n}"
    call = {"type": "function_call", "call_id": f"{name}{n}", "name": "look", "arguments": '{"at": "it"}'}
    result = {"type": "function_call_output", "call_id": f"{name}{n}", "output": f"{name} saw {n}"}
    keys = store.save_turn(name, prompt, {"output": [call, result], "usage": {"input_tokens": 3, "output_tokens": 4}})
    _, entry = store.chains.entry_by_key(keys[0])
    yield f"{name}#{entry.seq}", prompt


def _append_to_new_session(store: Store, name: str, n: int) -> Iterator[tuple[str, str]]:
    session = store.create_session(f"{name}:delegate:{n}", title=f"another {n}")
    yield store.append_message(session.id, "user", f"{name} delegates {n}"), f"{name} delegates {n}"


def create_and_purge_sessions(report: Reporter, path: str, count: int, enough: str) -> None:
    """Create sessions and purge them soon after, so that others reuse their space. Make at least `count`, and
    continue until the file `enough` exists."""
    with Store.open(path) as store:
        for n in itertools.count():
            if n >= count and n % 3 == 0 and os.path.exists(enough):
                break
            name = f"brief{n}"
            store.create_session(name)
            for text in (f"{name} says it", f"{name} says it at length " + random.Random(n).randbytes(20_000).hex()):
                store.append_message(name, "user", text)
            if n % 3 == 2:
                for gone in range(n - 2, n + 1):
                    store.delete_session(f"brief{gone}")
    report("done")


def read_until_stopped(report: Reporter, path: str, read_some: str, stop: str) -> None:
    """Read until the stop file exists. Each message must belong to its session and be complete. Creates the file
    `read_some` after a few messages."""
    read = 0
    with Store.open(path) as store:
        while not os.path.exists(stop):
            hits, total = store.search.find("says")
            assert len(hits) == min(total, 50)
            for session in store.list_sessions(10):
                # A session may be purged meanwhile, which is no error.
                with contextlib.suppress(NotFound):
                    assert all(turn.entries for turn in store.chains.turns(session.key))
                    for message in store.get_messages(session.id):
                        text = message.content[0]["text"]
                        assert text == f"{session.id} says it" or (
                            text.startswith(f"{session.id} says it at length ") and len(text) > 40_000
                        ), (session.id, text[:40])
                        read += 1
            if read > 10:
                Path(read_some).touch()
    report("done")


def open_and_append(report: Reporter, path: str, count: int = 1, size: int = 10) -> None:
    with Store.open(path) as store:
        store.ensure_session("a")
        for n in range(count):
            text = f"{n} " + random.Random(n).randbytes(size // 2).hex()
            report([store.append_message("a", "user", text), text])


def append_until_disk_full(report: Reporter, path: str, ballast: str) -> None:
    """Append until the disk is full and report the error, then make room and append with the same connection."""
    with Store.open(path) as store:
        try:
            for n in itertools.count():
                text = f"{n} " + random.Random(n).randbytes(2_000).hex()
                report([store.append_message("a", "user", text), text_digest(text)])
        except StoreError as error:
            report(f"{type(error).__name__}: {error}")
        os.unlink(ballast)
        report([store.append_message("a", "user", "there is room"), text_digest("there is room")])


# ── editing ───────────────────────────────────────────────────────────────────────────────────────


def editable_state(store: Store) -> Json:
    """Return everything that a person can edit."""
    return {
        "facts": [[fact.text, fact.retired_at is not None] for fact in store.facts.current(None, retired=True)],
        **{session.id: _editable_session_state(store, session) for session in store.list_sessions(100)},
    }


def _editable_session_state(store: Store, session: Session) -> Json:
    summary = store.summaries.current(session)
    return {
        "title": session.own_title,
        "pinned": session.pinned,
        "tags": store.notes.tags(session),
        "notes": [note.text for note in store.notes.notes(session)],
        "summary": summary.text if summary else None,
        "secrets": {name.key: store.secrets.get(session, name.key) for name in store.secrets.names(session)},
    }


def edit_until_killed(report: Reporter, path: str, seed: int) -> None:
    """Report the journal number of each edit; for every tenth also the whole editable state, which takes longer."""
    rng = random.Random(seed)
    with Store.open(path) as store:
        for n in itertools.count():
            report([newest_edit_id(store), None if n % 10 else editable_state(store)])
            # If there is nothing to undo, or the edit is refused, try another one.
            with contextlib.suppress(StoreError):
                _make_random_edit(store, rng, f"{seed} {n}")


def newest_edit_id(store: Store) -> int:
    edits = store.journal.list_edits(limit=1)
    return int(edits[0].id) if edits else 0


def _make_random_edit(store: Store, rng: random.Random, text: str) -> None:
    session = store.get_session(rng.choice(["one", "two"]))
    facts = store.facts.current()
    notes = store.notes.notes(session)
    edits: list[Callable[[], object]] = [
        lambda: store.sessions.set_title(session, text),
        lambda: store.sessions.pin([session], on=not session.pinned),
        lambda: store.notes.tag([session], [f"tag{text[-1]}", f"too{text[-1]}"]),
        lambda: store.notes.untag([session], store.notes.tags(session)[:1]),
        lambda: store.notes.add_note(session, text),
        lambda: store.notes.delete_note(notes[0].id) if notes else None,
        lambda: store.facts.learn(f"it is {text}\nand it is not {text}"),
        lambda: store.facts.edit(facts[0].id, f"rather {text}") if facts else None,
        lambda: store.facts.consolidate([fact.text for fact in facts[::2]]),
        lambda: store.summaries.set(session, f"about {text}"),
        lambda: store.secrets.set(session, f"KEY{text[-1]}", text),
        lambda: store.secrets.remove(session, f"KEY{text[-1]}"),
        lambda: store.journal.undo(),
    ]
    rng.choice(edits)()


def edit_and_search_until_stopped(report: Reporter, path: str, stop: str) -> None:
    """Edit and search, as a person does in the browser while agents write. Report how often."""
    with Store.open(path) as store:
        store.ensure_session(SHARED_SESSION)
        for n in itertools.count(1):
            store.sessions.set_title(store.get_session(SHARED_SESSION), f"title {n}")
            store.facts.learn(f"fact {n}")
            hits, total = store.search.find("says")
            assert len(hits) == min(total, 50)
            assert len(store.get_messages(SHARED_SESSION)) <= store.get_session(SHARED_SESSION).entries
            if os.path.exists(stop):
                report(n)
                return


def store_first_secret(report: Reporter, path: str, config: str) -> None:
    """Store the first secret, which also creates the vault and its key file."""
    os.environ["XDG_CONFIG_HOME"] = config
    with Store.open(path) as store:
        session = store.get_session("one")
        report("ready")
        store.secrets.set(session, "TOKEN", "first")
        report("stored")
        signal.pause()


# ── reading foreign stores ────────────────────────────────────────────────────────────────────────


def import_folder(report: Reporter, folder: str, seconds_of_work: float) -> None:
    """Import every file of a folder and report the problems of each. A file that takes too long ends the child."""
    with Store.memory() as store:
        for name in sorted(os.listdir(folder)):
            signal.setitimer(signal.ITIMER_PROF, seconds_of_work)
            signal.alarm(60)
            report([name, import_file(store, os.path.join(folder, name))])


def import_file(store: Store, path: str) -> list[str]:
    """Return the problems of a file."""
    try:
        *_, last = refresh.sync_targets(store, find_targets([path]))
    except StoreError as refusal:
        return [str(refusal)]
    return [problem.reason for problem in last.report.problems]


def read_foreign_sessions(report: Reporter, path: str) -> None:
    """Report the texts of a foreign store's sessions by their native ids."""
    with Store.memory() as store:
        *_, last = refresh.sync_targets(store, find_targets([path]))
        for problem in last.report.problems:
            raise Unreadable(problem.reason)
        report(
            {
                session.native_id: [entry.text for entry in store.chains.entries(session.key, first=0)]
                for session in store.list_sessions(99)
            }
        )


# ── migrating ─────────────────────────────────────────────────────────────────────────────────────


def migrate(report: Reporter, path: str, linger: bool = False) -> None:
    """Open the store with a program that is one migration newer than this one."""
    migrations.migrations.add(_rewrite_everything)
    connection.SCHEMA_VERSION = connection.LAST_REWRITING_MIGRATION = len(migrations.migrations.migrations)
    report("ready")
    Store.open(path).close()
    report("done")
    if linger:
        signal.pause()


def die_while_migrating(report: Reporter, path: str, statements: int, during_backup: bool = False) -> None:
    """Open an old store, and die before one of the statements, or in the middle of the backup.

    Report the number of statements if there are fewer.
    """

    def die_at_percentage(sentence: str) -> None:
        if during_backup and re.match(r"[1-9]\d* %", sentence):
            os.kill(os.getpid(), signal.SIGKILL)

    backup.PAGES_PER_STEP, progress.PROGRESS_SECONDS = 5, 0.0
    counter = _die_before_statement(statements)
    Store.open(path, notify=die_at_percentage).close()
    report(next(counter) - 1)


def die_while_writing_back(report: Reporter, path: str, session: str, statements: int, undo: bool = False) -> None:
    """Write a session back, or undo that, and die before one of the statements on any database.

    Report the number of statements if there are fewer.
    """
    counter = _die_before_statement(statements)
    with Store.open(path) as store:
        if undo:
            store.journal.undo()
        else:
            store.write_back.write(store.write_back.preview(store.sessions.find(session)))
        report(next(counter) - 1)


def die_while_pushing(report: Reporter, path: str, steps: int, undo: bool = False) -> None:
    """Push facts into memory files, or undo that, and die before one of the statements or changes of a file.

    Report the number of steps if there are fewer.
    """
    counter = _die_before_statement(steps)
    with Store.open(path) as store:
        _die_before_file_change(counter, steps)
        if undo:
            store.journal.undo()
        else:
            store.shared_facts.push(store.shared_facts.plan_push())
        report(next(counter) - 1)


def die_while_redacting(report: Reporter, path: str, steps: int, undo: bool = False) -> None:
    """Redact the certain leaks, or undo that, and die before one of the statements or changes of a file.

    Each record is a batch of its own. Report the number of steps if there are fewer.
    """
    own_redaction.BATCH_BYTES = 1
    counter = _die_before_statement(steps)
    with Store.open(path) as store:
        redactions = store.leaks.redactions
        certain = [leak.fingerprint for leak in store.leaks.list_leaks() if leak.tier == "certain"]
        run = redactions.begin_undo(redactions.list_all()[0].id) if undo else redactions.begin(certain)
        _die_before_file_change(counter, steps)
        for _ in run.steps():
            pass
        report(next(counter) - 1)


_FILE_EVENTS = frozenset(["open", "os.rename", "os.remove", "os.mkdir", "os.rmdir"])


def _die_before_file_change(counter: Iterator[int], steps: int) -> None:
    """Count the changes of files from now on, and die before one of them."""

    def count_file_change(event: str, arguments: tuple[Any, ...]) -> None:
        is_reading = event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        if event in _FILE_EVENTS and not is_reading and next(counter) == steps:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.dont_write_bytecode = True  # the number of steps must not depend on what was compiled before
    sys.addaudithook(count_file_change)


def _die_before_statement(statements: int) -> Iterator[int]:
    """Count the statements on connections that are opened from now on, and die before one of them."""
    counter = itertools.count(1)
    connect = sqlite3.connect

    def count_statement(_: str) -> None:
        if next(counter) == statements:
            os.kill(os.getpid(), signal.SIGKILL)

    def connect_counting(*args: Any, **options: Any) -> sqlite3.Connection:
        opened = connect(*args, **options)
        opened.set_trace_callback(count_statement)
        return opened

    sqlite3.connect = connect_counting
    return counter


def _rewrite_everything(connection: Any) -> None:
    db = Database(connection)
    db.execute("alter table sessions add column mood text not null default ''")
    db.execute("update sessions set mood = 'was ' || id")
    db.table("notes").transform(rename={"text": "words"})
    db.execute("update notes set words = words || ' indeed'")


if __name__ == "__main__":
    _serve()
