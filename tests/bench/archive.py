"""A whole archive, beside the peers that have one: first import, first rows, search as one types, refresh, growth.

Every run does everything on both sides, one after the other; so whatever else the machine does, both meet it.
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

from store.sources.kit.watch import watch_trees
from store.store import Store
from store.sync import refresh

LETTERS_PER_WORD = 5
REPEATS = 3
"""What is over in a moment is done so often in a run, by one program after the other: a moment may be a bad one."""

COUNT_SESSIONS_SQL = "select count(*), :word from sessions"
HAS_UNREAD_SQL = "select exists (select 1 from sessions where depth = 'text'), :word"
COUNT_HITS_SQL = """
    select (select count(*) from conversation_fts where conversation_fts match :word) + (select count(*)
        from skims_fts cross join sessions on sessions.key = skims_fts.rowid
        where skims_fts match :word and sessions.depth = 'text')
"""


class ArchiveSizes(NamedTuple):
    """Megabytes."""

    medium: int
    double: int
    large: int
    words: int
    "How many are typed."


FULL_SIZES = ArchiveSizes(200, 400, 1000, 6)
SMALL_SIZES = ArchiveSizes(10, 20, 20, 1)

MeasurementKey = tuple[str, str, int]
"""What was measured, of which program, on how many megabytes."""


class Measurements:
    """What came out, and why something did not."""

    def __init__(self) -> None:
        self._values: defaultdict[MeasurementKey, list[float]] = defaultdict(list)
        self._reasons: dict[MeasurementKey, str] = {}

    def add(self, what: str, who: str, size: int, value: float) -> None:
        self._values[what, who, size].append(value)

    def attempt(self, what: str, who: str, size: int, work: Callable[[], object]) -> None:
        """The work adds what it measures; one that fails is told of, and the others go on."""
        begun = time.perf_counter()
        try:
            work()
        except BenchmarkError as reason:
            self._reasons[what, who, size] = str(reason)
        seconds = time.perf_counter() - begun
        told = self._reasons.get((what, who, size), f"{seconds:.1f} s")
        print(f"  {what}, {size:,} MB, {who}: {told}", file=sys.stderr, flush=True)

    def values(self, what: str, who: str, size: int) -> list[float]:
        return self._values[what, who, size]

    def failure_reason(self, work: str, who: str, size: int) -> str:
        """Empty when nothing went wrong."""
        return self._reasons.get((work, who, size), "")


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
        """Everything once, and what is over in a moment a few times."""
        small, twice, large, _ = self.sizes
        for size in self._corpora:
            self._run_each("import", size, self._measure_import, OURS, FAST_RESUME)
        self._run_each("import", small, self._measure_import, AGENTSVIEW)
        for _ in range(REPEATS):
            self._run_each("refresh", large, self._measure_refresh, OURS, FAST_RESUME)
        for size in (small, large):
            self._run_each("first launch", size, self._measure_first_launch, OURS, FAST_RESUME)
        self._warm_page_cache(large, OURS, FAST_RESUME)
        for _ in range(REPEATS):
            self._run_each("launch", large, self._measure_launch, HELLO, OURS, FAST_RESUME)
        self._run_each("typing", large, self._measure_typing, OURS, FAST_RESUME)
        for size in {small, twice} - {large}:
            self._run_each("typing", size, self._measure_typing, OURS)

    def _run_each(self, what: str, size: int, work: Callable[[MeasuredProgram, int], None], *who: str) -> None:
        for name in who:
            os.sync()  # or what one has left to be written takes time from the next
            self.measurements.attempt(what, name, size, lambda name=name: work(self._program(name), size))  # type: ignore[misc]

    def _warm_page_cache(self, size: int, *who: str) -> None:
        """What they keep, before the first of them begins: it takes the memory that the machine has at hand, and the
        next to begin waits until there is more."""
        for name in who:
            warm_page_cache(self._state_folder(name, size))

    def _program(self, name: str) -> MeasuredProgram:
        found = self._programs[name]
        if isinstance(found, BenchmarkError):
            raise found
        return found

    def _warm_up(self) -> None:
        """Python compiles what it meets for the first time; nobody waits for that twice."""
        nobody = _make_empty_folder(self._state / "nobody")
        for name in (HELLO, OURS):
            who = self._program(name)
            with MeasuredScreen(who.path, *who.screen_arguments, env=who.make_environment(nobody, nobody)) as screen:
                read_output_for(screen, 2 * IDLE_SECONDS)

    # ── what is done ──────────────────────────────────────────────────────────────────────────────

    def _state_folder(self, name: str, size: int) -> Path:
        """What the program of that name keeps of that corpus."""
        return self._state / f"{name}-{size}"

    def _store_path(self, who: MeasuredProgram, size: int) -> Path:
        return self._state_folder(who.name, size) / "backscroll" / "store.db"

    def _measure_import(self, who: MeasuredProgram, size: int) -> None:
        place, home = _make_empty_folder(self._state_folder(who.name, size)), self._corpora[size].home
        self._corpora[size].warm_page_cache()
        is_ours = who.name == OURS
        awaited = _search_conditions(self._store_path(who, size), self._corpora[size].sessions) if is_ours else ()
        ran = run_measured(who.import_command(), who.make_environment(home, place), *awaited)
        if is_ours:
            _truncate_wal(self._store_path(who, size))
            if len(ran.condition_times) < len(awaited):
                raise BenchmarkError("not everything is found when the import is over")
        # The others tell when they are done with everything, and no sooner.
        ready, whole = ran.condition_times or (ran.seconds, ran.seconds)
        self.measurements.add("ready", who.name, size, ready)
        self.measurements.add("whole", who.name, size, whole)
        self.measurements.add("import", who.name, size, ran.seconds)
        self.measurements.add("memory", who.name, size, ran.peak_megabytes)
        self.measurements.add("bytes", who.name, size, folder_size(place) / self._corpora[size].size)

    def _measure_first_launch(self, who: MeasuredProgram, size: int) -> None:
        place = _make_empty_folder(self._state / "first")
        self._corpora[size].warm_page_cache()
        with MeasuredScreen(
            who.path, *who.screen_arguments, env=who.make_environment(self._corpora[size].home, place)
        ) as screen:
            self.measurements.add("first launch", who.name, size, screen.time_until_output(ROW))

    def _measure_launch(self, who: MeasuredProgram, size: int) -> None:
        env = who.make_environment(self._corpora[size].home, self._state_folder(who.name, size))
        with MeasuredScreen(who.path, *who.screen_arguments, env=env) as screen:
            shown = re.compile(re.escape(who.greeting)) if who.greeting else ROW
            self.measurements.add("launch", who.name, size, screen.time_until_output(shown))

    def _measure_typing(self, who: MeasuredProgram, size: int) -> None:
        env = who.make_environment(self._corpora[size].home, self._state_folder(who.name, size))
        warm_page_cache(self._state_folder(who.name, size))
        with MeasuredScreen(who.path, *who.screen_arguments, env=env) as screen:
            screen.time_until_output(ROW)
            read_output_for(screen)
            screen.press(who.search_key)
            read_output_for(screen, IDLE_SECONDS / 3)
            took = list(time_typing(screen, self._words[: self.sizes.words]))
        if len(took) < 2:
            raise BenchmarkError("no key brought other rows")
        self.measurements.add("key", who.name, size, p95(took))
        self.measurements.add("typical key", who.name, size, statistics.median(took))

    def _measure_refresh(self, who: MeasuredProgram, size: int) -> None:
        home, place = self._corpora[size].home, self._state_folder(who.name, size)
        command = who.import_command()
        run_measured(
            command, who.make_environment(home, place)
        )  # what it reads from the disk the first time is the disk's time, not its own
        before = _file_stamps(place)
        took = run_measured(command, who.make_environment(home, place)).seconds
        self.measurements.add("refresh", who.name, size, took)
        if who.name == OURS:
            written = len(dict(before.items() ^ _file_stamps(place).items()))
            seconds, rows = _time_refresh_in_process(self._store_path(who, size), home)
            self.measurements.add("refresh within", who.name, size, seconds)
            self.measurements.add("written", who.name, size, written + rows)
        else:
            idle = run_measured([*command, "--no-refresh"], who.make_environment(home, place)).seconds
            self.measurements.add("refresh within", who.name, size, max(took - idle, 0.001))


def _make_empty_folder(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _search_conditions(store: Path, sessions: int) -> tuple[Callable[[], bool], Callable[[], bool]]:
    """Whether every conversation is found by its last word, and whether all of each is stored and indexed."""

    def ask(sql: str) -> int:
        """A connection a look: an open one would keep the log."""
        try:
            with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
                return int(connection.execute(sql, {"word": LAST_WORD}).fetchone()[0])
        except sqlite3.Error:
            return 0  # not made yet

    # What is cheap to ask first: whoever looks on takes time from who is looked at.
    return (
        lambda: ask(COUNT_SESSIONS_SQL) >= sessions and ask(COUNT_HITS_SQL) >= sessions,
        lambda: not ask(HAS_UNREAD_SQL),
    )


def _truncate_wal(store: Path) -> None:
    """As the last to close it does; but whoever looked on at that moment kept it from being the last."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")


def _file_stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Of every file; folders are touched by SQLite's own, which come and go."""
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def _time_refresh_in_process(path: Path, home: Path) -> tuple[float, int]:
    """As the open browser does it again and again; and how many rows that writes."""
    with Store.open(path) as store, watch_trees():
        chosen = refresh.find_targets([str(home / ".claude"), str(home / ".codex")])
        before = store.connection.total_changes
        for _ in range(2):
            begun = time.perf_counter()
            for _ in refresh.sync_targets(store, chosen):
                pass
        return time.perf_counter() - begun, store.connection.total_changes - before
