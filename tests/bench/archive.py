"""This module measures an archive of histories: first import, first rows, search while typing, refresh.

Every run measures all programs, one after the other, so that other load on the machine affects all of them.
"""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.browser import IDLE_SECONDS, p95, read_output_for
from bench.corpus import Corpus, warm_page_cache
from bench.dialogues import TITLE
from bench.peers import HELLO, OURS, MeasuredProgram, prepare_programs
from bench.processes import BenchmarkError, folder_size, run_measured
from bench.screens import BACKSPACE, MeasuredScreen, time_typing
from bench.table import ResultRow

from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

REPEATS = 3
"""Counts how often short work is measured in a run: a single measurement may hit a busy moment."""

MIN_KEYS = 5
"""Is how many keys must have been answered for a result."""

COUNT_SESSIONS_SQL = "select count(*) from sessions"
COUNT_LISTED_SQL = "select count(*) from sessions where instr(native_id, '/') = 0"
"""Counts the sessions that are listed, each with its words. The branches in a file are found when it is read."""

HAS_UNREAD_SQL = "select exists (select 1 from sessions where depth = 'text')"
COUNT_HITS_SQL = """
    select (select count(*) from conversation_fts where conversation_fts match :word) + (select count(*)
        from skims_fts cross join sessions on sessions.key = skims_fts.rowid
        where skims_fts match :word and sessions.depth = 'text')
"""

_MEASURED_IN = {
    "ready": "import",
    "complete": "import",
    "processor": "import",
    "memory": "import",
    "bytes": "import",
    "packed bytes": "pack",
    "key": "typing",
    "typical key": "typing",
    "key while importing": "typing while importing",
    "refresh within": "refresh",
    "written": "refresh",
}
"""Names the work in which a quantity is measured, where the names differ."""

MeasurementKey = tuple[str, str, str]
"""Names what was measured, the program and the corpus."""


class Measurements:
    """Holds the measured values, and for failed work the reason."""

    def __init__(self) -> None:
        self._values: defaultdict[MeasurementKey, list[float]] = defaultdict(list)
        self._reasons: dict[MeasurementKey, str] = {}

    def add(self, quantity: str, program: str, corpus: Corpus, value: float) -> None:
        self._values[quantity, program, corpus.name].append(value)

    def attempt(self, work_name: str, program: str, corpus: Corpus, work: Callable[[], object]) -> None:
        """Run work that adds its own measurements. A failure is recorded and printed, and the benchmark continues."""
        started = time.perf_counter()
        try:
            work()
        except BenchmarkError as reason:
            self._reasons[work_name, program, corpus.name] = str(reason)
        seconds = time.perf_counter() - started
        outcome = self._reasons.get((work_name, program, corpus.name), f"{seconds:.1f} s")
        print(f"  {work_name}, {corpus.name}, {program}: {outcome}", file=sys.stderr, flush=True)

    def row(
        self,
        name: str,
        quantity: str,
        corpus: Corpus,
        peer: str = "",
        *,
        unit: str = "s",
        ratio: float | None = None,
        limit: float | None = None,
    ) -> ResultRow:
        """Return the row that compares ours with another program."""
        compared_with = (quantity, peer, corpus)
        return self.compare(
            f"{name}, {corpus.name}", (quantity, OURS, corpus), compared_with, peer, unit=unit, ratio=ratio, limit=limit
        )

    def compare(
        self,
        name: str,
        ours: tuple[str, str, Corpus],
        other: tuple[str, str, Corpus],
        other_name: str,
        *,
        unit: str = "s",
        ratio: float | None = None,
        limit: float | None = None,
    ) -> ResultRow:
        """Return the row that compares any two measurements."""
        return ResultRow(
            name=name,
            ours=self._values[ours[0], ours[1], ours[2].name],
            baseline=self._values[other[0], other[1], other[2].name],
            baseline_name=other_name,
            unit=unit,
            ratio=ratio,
            limit=limit,
            failure=self._failure_reason(*ours),
            baseline_failure=self._failure_reason(*other),
        )

    def row_while_importing(self, corpus: Corpus) -> ResultRow:
        """Return the row that compares typing during an import with typing when nothing else happens."""
        importing, idle = ("key while importing", OURS, corpus), ("key", OURS, corpus)
        name = f"key to result, p95, while importing, {corpus.name}"
        return self.compare(name, importing, idle, "when idle", ratio=1.5)

    def _failure_reason(self, quantity: str, program: str, corpus: Corpus) -> str:
        """Return why the work failed, or an empty string."""
        return self._reasons.get((_MEASURED_IN.get(quantity, quantity), program, corpus.name), "")


class ArchiveBenchmark:
    """Measures programs on corpora. What a program stores about a corpus is kept for the measurements that follow."""

    def __init__(self, folder: Path, *, words: int) -> None:
        self.measurements = Measurements()
        self._word_count = words
        self._state = folder / "state"
        self._programs = prepare_programs(folder / "peers")
        shutil.rmtree(self._state, ignore_errors=True)
        self._warm_up()

    def run_each(self, work_name: str, corpus: Corpus, *names: str) -> None:
        """Do the work with each of these programs."""
        work = {
            "import": self._measure_import,
            "pack": self._measure_pack,
            "first launch": self._measure_first_launch,
            "launch": self._measure_launch,
            "typing": self._measure_typing,
            "typing while importing": self._measure_typing_while_importing,
            "conversation": self._measure_conversation,
            "refresh": self._measure_refresh,
        }[work_name]
        for name in names:
            os.sync()  # else writes that one program left behind would slow the next one down
            self.measurements.attempt(work_name, name, corpus, lambda name=name: work(self._program(name), corpus))  # type: ignore[misc]

    def warm_page_cache(self, corpus: Corpus, *names: str) -> None:
        """Read the stores of all programs before the first one starts, because filling the page cache takes free memory
        that the next program to start would have to wait for."""
        for name in names:
            warm_page_cache(self._state_folder(name, corpus))

    def import_once(self, home: Path) -> Path:
        """Import a home without measuring it, and return the path of our store."""
        program, folder = self._program(OURS), _make_empty_folder(self._state / "once")
        run_measured(program.import_command(), program.make_environment(home, folder))
        return folder / "backscroll" / "store.db"

    def _program(self, name: str) -> MeasuredProgram:
        program = self._programs[name]
        if isinstance(program, BenchmarkError):
            raise program
        return program

    def _warm_up(self) -> None:
        """Start the programs once, so that Python has compiled their modules before anything is measured."""
        empty = _make_empty_folder(self._state / "nobody")
        for name in (HELLO, OURS):
            program = self._program(name)
            environment = program.make_environment(empty, empty)
            with MeasuredScreen(program.path, *program.screen_arguments, env=environment, row=TITLE) as screen:
                read_output_for(screen, 2 * IDLE_SECONDS)

    # ── folders and screens ───────────────────────────────────────────────────────────────────────

    def _state_folder(self, name: str, corpus: Corpus) -> Path:
        """Return the folder in which a program keeps its data about the corpus."""
        return self._state / f"{name}-{re.sub('[^A-Za-z0-9]+', '-', corpus.name)}"

    def _store_path(self, program: MeasuredProgram, corpus: Corpus) -> Path:
        return self._state_folder(program.name, corpus) / "backscroll" / "store.db"

    def _environment(self, program: MeasuredProgram, corpus: Corpus) -> dict[str, str]:
        return program.make_environment(corpus.home, self._state_folder(program.name, corpus))

    def _open_screen(self, program: MeasuredProgram, corpus: Corpus, folder: Path | None = None) -> MeasuredScreen:
        folder = folder or self._state_folder(program.name, corpus)
        env = program.make_environment(corpus.home, folder)
        return MeasuredScreen(program.path, *program.screen_arguments, env=env, row=corpus.row)

    # ── measurements ──────────────────────────────────────────────────────────────────────────────

    def _measure_import(self, program: MeasuredProgram, corpus: Corpus) -> None:
        folder = _make_empty_folder(self._state_folder(program.name, corpus))
        corpus.warm_page_cache()
        is_ours = program.name == OURS
        store = self._store_path(program, corpus)
        conditions = _search_conditions(store, corpus) if is_ours else ()
        usage = run_measured(program.import_command(), self._environment(program, corpus), *conditions)
        if is_ours:
            truncate_wal(store)
            if len(usage.condition_times) < len(conditions):
                raise BenchmarkError("the search does not find everything after the import")
        # The other programs only show when they are completely done.
        ready, complete = usage.condition_times or (usage.seconds, usage.seconds)
        stored = folder_size(folder) / corpus.size
        measured = {"ready": ready, "complete": complete, "import": usage.seconds, "processor": usage.processor_seconds}
        measured |= {"memory": usage.peak_megabytes, "bytes": stored} | ({} if is_ours else {"packed bytes": stored})
        for quantity, value in measured.items():
            self.measurements.add(quantity, program.name, corpus, value)

    def _measure_pack(self, program: MeasuredProgram, corpus: Corpus) -> None:
        """Let our program pack the store, which it does by itself when it is idle."""
        usage = run_measured([program.path, "pack"], self._environment(program, corpus))
        truncate_wal(self._store_path(program, corpus))
        stored = folder_size(self._state_folder(program.name, corpus)) / corpus.size
        self.measurements.add("pack", program.name, corpus, usage.seconds)
        self.measurements.add("packed bytes", program.name, corpus, stored)

    def _measure_first_launch(self, program: MeasuredProgram, corpus: Corpus) -> None:
        folder = _make_empty_folder(self._state / "first")
        corpus.warm_page_cache()
        with self._open_screen(program, corpus, folder) as screen:
            self.measurements.add("first launch", program.name, corpus, screen.time_until_rows())

    def _measure_launch(self, program: MeasuredProgram, corpus: Corpus) -> None:
        with self._open_screen(program, corpus) as screen:
            pattern = re.compile(re.escape(program.greeting)) if program.greeting else corpus.row
            self.measurements.add("launch", program.name, corpus, screen.time_until_output(pattern))

    def _measure_typing(self, program: MeasuredProgram, corpus: Corpus) -> None:
        warm_page_cache(self._state_folder(program.name, corpus))
        with self._open_screen(program, corpus) as screen:
            _open_search(screen, program)
            seconds = list(time_typing(screen, corpus.words[: self._word_count]))
        if len(seconds) < 2:
            raise BenchmarkError("no key changed the rows")
        self.measurements.add("key", program.name, corpus, p95(seconds))
        self.measurements.add("typical key", program.name, corpus, statistics.median(seconds))

    def _measure_typing_while_importing(self, program: MeasuredProgram, corpus: Corpus) -> None:
        folder = _make_empty_folder(self._state / "first")
        store = folder / "backscroll" / "store.db"
        corpus.warm_page_cache()
        seconds: list[float] = []
        is_searchable, is_complete = _search_conditions(store, corpus)
        with self._open_screen(program, corpus, folder) as screen:
            _open_search(screen, program)
            while not is_searchable():
                read_output_for(screen, IDLE_SECONDS / 3)
            for word in corpus.words[: self._word_count]:
                measured = list(time_typing(screen, [word]))
                if is_complete():
                    break
                seconds += measured
        if len(seconds) < MIN_KEYS:
            raise BenchmarkError("too few keys changed the rows before the import ended")
        self.measurements.add("key while importing", program.name, corpus, p95(seconds))

    def _measure_conversation(self, program: MeasuredProgram, corpus: Corpus) -> None:
        """Measure how long after the last letter the conversation of the first hit is complete beside the list."""
        seconds = []
        with self._open_screen(program, corpus) as screen:
            _open_search(screen, program)
            for word in corpus.words[: self._word_count]:
                seconds.append(screen.time_word_to_conversation(word))
                screen.time_key(BACKSPACE * len(word))
        shown = [value for value in seconds if value is not None]
        if not shown:
            raise BenchmarkError("no word changed what is shown beside the list")
        self.measurements.add("conversation", program.name, corpus, statistics.median(shown))

    def _measure_refresh(self, program: MeasuredProgram, corpus: Corpus) -> None:
        folder = self._state_folder(program.name, corpus)
        command, environment = program.import_command(), self._environment(program, corpus)
        run_measured(command, environment)  # the first run may wait for the disk
        before = _file_stamps(folder)
        total = run_measured(command, environment).seconds
        self.measurements.add("refresh", program.name, corpus, total)
        if program.name == OURS:
            written = len(dict(before.items() ^ _file_stamps(folder).items()))
            seconds, rows = _time_refresh_in_process(self._store_path(program, corpus), corpus.home)
            self.measurements.add("refresh within", program.name, corpus, seconds)
            self.measurements.add("written", program.name, corpus, written + rows)
        else:
            idle = run_measured([*command, "--no-refresh"], environment).seconds
            self.measurements.add("refresh within", program.name, corpus, max(total - idle, 0.001))


def _open_search(screen: MeasuredScreen, program: MeasuredProgram) -> None:
    screen.time_until_rows()
    read_output_for(screen)
    screen.press(program.search_key)
    read_output_for(screen, IDLE_SECONDS / 3)


def _make_empty_folder(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _search_conditions(store: Path, corpus: Corpus) -> tuple[Callable[[], bool], Callable[[], bool]]:
    """Return two checks: every session is found; every session is completely stored and indexed."""

    def is_searchable() -> bool:
        if not corpus.last_word:
            return _ask(store, COUNT_LISTED_SQL) >= corpus.sessions
        # The cheap check comes first, because the checks take time from the program that is measured.
        has_all = _ask(store, COUNT_SESSIONS_SQL) >= corpus.sessions
        return has_all and _ask(store, COUNT_HITS_SQL, {"word": corpus.last_word}) >= corpus.sessions

    return is_searchable, lambda: not _ask(store, HAS_UNREAD_SQL, missing=1)


def _ask(store: Path, sql: str, values: dict[str, str] | None = None, *, missing: int = 0) -> int:
    """Return a number from the store, with a new connection each time: an open one would keep the write-ahead log."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            return int(connection.execute(sql, values or {}).fetchone()[0])
    except sqlite3.Error:
        return missing  # the database does not exist yet


def truncate_wal(store: Path) -> None:
    """Empty the write-ahead log. The program would have done so on its last close, had our check not been open then."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")


def _file_stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Return size and time of every file. Folders do not count: SQLite creates temporary files in them."""
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def _time_refresh_in_process(path: Path, home: Path) -> tuple[float, int]:
    """Return the seconds that a running process, such as the sync worker, takes to check all stores, and how many rows
    that writes."""
    with Store.open(path) as store:
        folders = [home / name for name in (".claude", ".codex", ".pi/agent")]
        targets = find_targets([str(folder) for folder in folders if folder.exists()])
        before = store.connection.total_changes
        for _ in range(2):
            started = time.perf_counter()
            for _ in refresh.sync_targets(store, targets):
                pass
        return time.perf_counter() - started, store.connection.total_changes - before
