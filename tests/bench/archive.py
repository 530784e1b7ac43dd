"""This module measures a large archive: first import, first rows, search while typing, refresh, growth.

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
from typing import NamedTuple

from bench.browser import IDLE_SECONDS, p95, read_output_for
from bench.corpus import Corpus, load_or_make_corpus, warm_page_cache
from bench.dialogues import LAST_WORD, SEED
from bench.peers import AGENTSVIEW, FAST_RESUME, HELLO, OURS, MeasuredProgram, prepare_programs
from bench.processes import BenchmarkError, folder_size, run_measured
from bench.prose import make_vocabulary
from bench.screens import ROW, MeasuredScreen, time_typing

from store.store import Store
from store.sync import refresh
from store.sync.targets import find_targets

LETTERS_PER_WORD = 5
REPEATS = 3
"""Counts how often short work is measured in a run: a single measurement may hit a busy moment."""

COUNT_SESSIONS_SQL = "select count(*), :word from sessions"
HAS_UNREAD_SQL = "select exists (select 1 from sessions where depth = 'text'), :word"
COUNT_HITS_SQL = """
    select (select count(*) from conversation_fts where conversation_fts match :word) + (select count(*)
        from skims_fts cross join sessions on sessions.key = skims_fts.rowid
        where skims_fts match :word and sessions.depth = 'text')
"""


class ArchiveSizes(NamedTuple):
    """Holds the sizes of the archives in megabytes, and how many words are typed."""

    medium: int
    double: int
    large: int
    words: int


FULL_SIZES = ArchiveSizes(200, 400, 1000, 6)
SMALL_SIZES = ArchiveSizes(10, 20, 20, 1)

MeasurementKey = tuple[str, str, int]
"""Names what was measured, the program and the size of the archive in megabytes."""


class Measurements:
    """Holds the measured values, and for failed work the reason."""

    def __init__(self) -> None:
        self._values: defaultdict[MeasurementKey, list[float]] = defaultdict(list)
        self._reasons: dict[MeasurementKey, str] = {}

    def add(self, quantity: str, program: str, size: int, value: float) -> None:
        self._values[quantity, program, size].append(value)

    def attempt(self, quantity: str, program: str, size: int, work: Callable[[], object]) -> None:
        """Run work that adds its own measurements. A failure is recorded and printed, and the benchmark continues."""
        started = time.perf_counter()
        try:
            work()
        except BenchmarkError as reason:
            self._reasons[quantity, program, size] = str(reason)
        seconds = time.perf_counter() - started
        outcome = self._reasons.get((quantity, program, size), f"{seconds:.1f} s")
        print(f"  {quantity}, {size:,} MB, {program}: {outcome}", file=sys.stderr, flush=True)

    def values(self, quantity: str, program: str, size: int) -> list[float]:
        return self._values[quantity, program, size]

    def failure_reason(self, work: str, program: str, size: int) -> str:
        """Return why the work failed, or an empty string."""
        return self._reasons.get((work, program, size), "")


class ArchiveBenchmark:
    def __init__(self, folder: Path, sizes: ArchiveSizes) -> None:
        self.sizes = sizes
        self.measurements = Measurements()
        self._state = folder / "state"
        self._corpora = {size: load_or_make_corpus(folder / "corpora", size) for size in dict.fromkeys(sizes[:3])}
        self._programs = prepare_programs(folder / "peers")
        self._words = [
            word[:LETTERS_PER_WORD] for word in make_vocabulary(SEED)[600:8_000:1_100] if len(word) >= LETTERS_PER_WORD
        ]
        shutil.rmtree(self._state, ignore_errors=True)
        self._warm_up()

    def corpus(self, size: int) -> Corpus:
        return self._corpora[size]

    def run(self) -> None:
        """Measure everything once, and short work several times."""
        medium, double, large, _ = self.sizes
        for size in self._corpora:
            self._run_each("import", size, self._measure_import, OURS, FAST_RESUME)
        self._run_each("import", medium, self._measure_import, AGENTSVIEW)
        for _ in range(REPEATS):
            self._run_each("refresh", large, self._measure_refresh, OURS, FAST_RESUME)
        for size in (medium, large):
            self._run_each("first launch", size, self._measure_first_launch, OURS, FAST_RESUME)
        self._warm_page_cache(large, OURS, FAST_RESUME)
        for _ in range(REPEATS):
            self._run_each("launch", large, self._measure_launch, HELLO, OURS, FAST_RESUME)
        self._run_each("typing", large, self._measure_typing, OURS, FAST_RESUME)
        for size in {medium, double} - {large}:
            self._run_each("typing", size, self._measure_typing, OURS)

    def _run_each(self, quantity: str, size: int, work: Callable[[MeasuredProgram, int], None], *names: str) -> None:
        for name in names:
            os.sync()  # else writes that one program left behind would slow the next one down
            self.measurements.attempt(quantity, name, size, lambda name=name: work(self._program(name), size))  # type: ignore[misc]

    def _warm_page_cache(self, size: int, *names: str) -> None:
        """Read the stores of all programs before the first one starts, because filling the page cache takes free memory
        that the next program to start would have to wait for."""
        for name in names:
            warm_page_cache(self._state_folder(name, size))

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
            with MeasuredScreen(program.path, *program.screen_arguments, env=environment) as screen:
                read_output_for(screen, 2 * IDLE_SECONDS)

    # ── measurements ──────────────────────────────────────────────────────────────────────────────

    def _state_folder(self, name: str, size: int) -> Path:
        """Return the folder in which a program keeps its data about the corpus of that size."""
        return self._state / f"{name}-{size}"

    def _store_path(self, program: MeasuredProgram, size: int) -> Path:
        return self._state_folder(program.name, size) / "backscroll" / "store.db"

    def _measure_import(self, program: MeasuredProgram, size: int) -> None:
        folder, home = _make_empty_folder(self._state_folder(program.name, size)), self._corpora[size].home
        self._corpora[size].warm_page_cache()
        is_ours = program.name == OURS
        conditions = (
            _search_conditions(self._store_path(program, size), self._corpora[size].sessions) if is_ours else ()
        )
        usage = run_measured(program.import_command(), program.make_environment(home, folder), *conditions)
        if is_ours:
            truncate_wal(self._store_path(program, size))
            if len(usage.condition_times) < len(conditions):
                raise BenchmarkError("the search does not find everything after the import")
        # The other programs only show when they are completely done.
        ready, complete = usage.condition_times or (usage.seconds, usage.seconds)
        self.measurements.add("ready", program.name, size, ready)
        self.measurements.add("complete", program.name, size, complete)
        self.measurements.add("import", program.name, size, usage.seconds)
        self.measurements.add("memory", program.name, size, usage.peak_megabytes)
        self.measurements.add("bytes", program.name, size, folder_size(folder) / self._corpora[size].size)

    def _measure_first_launch(self, program: MeasuredProgram, size: int) -> None:
        folder = _make_empty_folder(self._state / "first")
        self._corpora[size].warm_page_cache()
        env = program.make_environment(self._corpora[size].home, folder)
        with MeasuredScreen(program.path, *program.screen_arguments, env=env) as screen:
            self.measurements.add("first launch", program.name, size, screen.time_until_output(ROW))

    def _measure_launch(self, program: MeasuredProgram, size: int) -> None:
        env = program.make_environment(self._corpora[size].home, self._state_folder(program.name, size))
        with MeasuredScreen(program.path, *program.screen_arguments, env=env) as screen:
            pattern = re.compile(re.escape(program.greeting)) if program.greeting else ROW
            self.measurements.add("launch", program.name, size, screen.time_until_output(pattern))

    def _measure_typing(self, program: MeasuredProgram, size: int) -> None:
        env = program.make_environment(self._corpora[size].home, self._state_folder(program.name, size))
        warm_page_cache(self._state_folder(program.name, size))
        with MeasuredScreen(program.path, *program.screen_arguments, env=env) as screen:
            screen.time_until_output(ROW)
            read_output_for(screen)
            screen.press(program.search_key)
            read_output_for(screen, IDLE_SECONDS / 3)
            seconds = list(time_typing(screen, self._words[: self.sizes.words]))
        if len(seconds) < 2:
            raise BenchmarkError("no key changed the rows")
        self.measurements.add("key", program.name, size, p95(seconds))
        self.measurements.add("typical key", program.name, size, statistics.median(seconds))

    def _measure_refresh(self, program: MeasuredProgram, size: int) -> None:
        home, folder = self._corpora[size].home, self._state_folder(program.name, size)
        command, environment = program.import_command(), program.make_environment(home, folder)
        run_measured(command, environment)  # the first run may wait for the disk
        before = _file_stamps(folder)
        total = run_measured(command, environment).seconds
        self.measurements.add("refresh", program.name, size, total)
        if program.name == OURS:
            written = len(dict(before.items() ^ _file_stamps(folder).items()))
            seconds, rows = _time_refresh_in_process(self._store_path(program, size), home)
            self.measurements.add("refresh within", program.name, size, seconds)
            self.measurements.add("written", program.name, size, written + rows)
        else:
            idle = run_measured([*command, "--no-refresh"], environment).seconds
            self.measurements.add("refresh within", program.name, size, max(total - idle, 0.001))


def _make_empty_folder(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _search_conditions(store: Path, sessions: int) -> tuple[Callable[[], bool], Callable[[], bool]]:
    """Return two checks: every session is found by its last word; every session is completely stored and indexed."""

    def ask(sql: str) -> int:
        """Use a new connection for each check, because an open one would keep the write-ahead log."""
        try:
            with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
                return int(connection.execute(sql, {"word": LAST_WORD}).fetchone()[0])
        except sqlite3.Error:
            return 0  # the database does not exist yet

    # The cheap check comes first, because the checks take time from the program that is measured.
    return (
        lambda: ask(COUNT_SESSIONS_SQL) >= sessions and ask(COUNT_HITS_SQL) >= sessions,
        lambda: not ask(HAS_UNREAD_SQL),
    )


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
        targets = find_targets([str(home / ".claude"), str(home / ".codex")])
        before = store.connection.total_changes
        for _ in range(2):
            started = time.perf_counter()
            for _ in refresh.sync_targets(store, targets):
                pass
        return time.perf_counter() - started, store.connection.total_changes - before
