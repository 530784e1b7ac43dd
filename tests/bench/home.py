"""This module measures the import of one home folder: of made-up histories that look like real ones, or of any home."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections import defaultdict
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.archive import truncate_wal
from bench.corpus import USUAL, load_or_make_realistic_corpus, warm_page_cache
from bench.peers import AGENTSVIEW, FAST_RESUME, OURS, MeasuredProgram, prepare_programs
from bench.processes import BenchmarkError, folder_size, run_measured
from bench.table import ResultRow

REALISTIC_MEGABYTES = 122
SMALL_MEGABYTES = 5

COUNT_LISTED_SQL = "select count(*) from sessions where instr(native_id, '/') = 0"
"""Counts the sessions that are listed, each with its words. The branches in a file are found when it is read."""

HAS_UNREAD_SQL = "select exists (select 1 from sessions where depth = 'text')"


def measure(folder: Path, home: Path | None, runs: int, *, small: bool) -> list[ResultRow]:
    """Measure the import of a home, or of made-up histories if no home is named."""
    is_realistic = home is None
    if home is None:
        megabytes = SMALL_MEGABYTES if small else REALISTIC_MEGABYTES
        home = load_or_make_realistic_corpus(folder / "corpora", USUAL, megabytes).home
    benchmark = HomeBenchmark(folder, home)
    for number in range(1, runs + 1):
        print(f"run {number} of {runs}", file=sys.stderr, flush=True)
        benchmark.run()
    return benchmark.result_rows("real shapes" if is_realistic else "your home")


class HomeBenchmark:
    def __init__(self, folder: Path, home: Path) -> None:
        self._home = home
        self._state = folder / "state" / "home"
        self._programs = prepare_programs(folder / "peers")
        self._values: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
        self._reasons: dict[str, str] = {}
        # The first import is not measured. It counts the sessions, and fills the page cache.
        self._listed_count, self._source_size = self._count_sessions()

    def run(self) -> None:
        for name in (OURS, FAST_RESUME, AGENTSVIEW):
            try:
                self._measure_import(self._program(name))
            except BenchmarkError as reason:
                self._reasons[name] = str(reason)
            print(f"  import, {name}: {self._reasons.get(name, 'done')}", file=sys.stderr, flush=True)

    def result_rows(self, label: str) -> list[ResultRow]:
        name = f"{label}, {self._source_size / 1e6:,.0f} MB"

        def row(title: str, quantity: str, peer: str = "", **more: float | str) -> ResultRow:
            return ResultRow(
                name=f"{title}, {name}",
                ours=self._values[quantity, OURS],
                baseline=self._values[quantity, peer],
                baseline_name=peer,
                failure=self._reasons.get(OURS, ""),
                baseline_failure=self._reasons.get(peer, ""),
                **more,  # type: ignore[arg-type]
            )

        return [
            row("every word that was said can be found", "ready", FAST_RESUME, ratio=0.9),
            row("everything stored and searchable", "complete", AGENTSVIEW, ratio=0.5),
            row("the same, until the command ends", "import", AGENTSVIEW),
            row("peak memory of a first import", "memory", AGENTSVIEW, unit="MB"),
            row("bytes on disk per byte of source", "bytes", AGENTSVIEW, unit="", limit=0.6),
        ]

    def _program(self, name: str) -> MeasuredProgram:
        program = self._programs[name]
        if isinstance(program, BenchmarkError):
            raise program
        return program

    def _count_sessions(self) -> tuple[int, int]:
        program = self._program(OURS)
        state = self._empty_state(program)
        run_measured(program.import_command(), program.make_environment(self._home, state))
        store = state / "backscroll" / "store.db"
        with closing(sqlite3.connect(store)) as connection:
            locators = [Path(locator) for (locator,) in connection.execute("select locator from sources")]
        size = sum(folder_size(path) if path.is_dir() else path.stat().st_size for path in locators if path.exists())
        return _ask(store, COUNT_LISTED_SQL), size

    def _measure_import(self, program: MeasuredProgram) -> None:
        state = self._empty_state(program)
        warm_page_cache(self._home, "*.json*")
        store = state / "backscroll" / "store.db"
        conditions: tuple[Callable[[], bool], ...] = ()
        if program.name == OURS:
            conditions = (
                lambda: _ask(store, COUNT_LISTED_SQL) >= self._listed_count,
                lambda: not _ask(store, HAS_UNREAD_SQL, missing=1),
            )
        usage = run_measured(program.import_command(), program.make_environment(self._home, state), *conditions)
        if program.name == OURS:
            truncate_wal(store)
        ready, complete = usage.condition_times or (usage.seconds, usage.seconds)
        measured = {"ready": ready, "complete": complete, "import": usage.seconds, "memory": usage.peak_megabytes}
        for quantity, value in measured.items():
            self._values[quantity, program.name].append(value)
        self._values["bytes", program.name].append(folder_size(state) / self._source_size)

    def _empty_state(self, program: MeasuredProgram) -> Path:
        folder = self._state / program.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


def _ask(store: Path, sql: str, *, missing: int = 0) -> int:
    """Return a number from the store, with a new connection each time: an open one would keep the write-ahead log."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            return int(connection.execute(sql).fetchone()[0])
    except sqlite3.Error:
        return missing
