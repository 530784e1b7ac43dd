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

from bench.browser import SETTLED, p95, settle
from bench.corpus import Corpus, corpus, warm
from bench.dialogues import LAST_WORD, SEED
from bench.peers import AGENTSVIEW, FAST_RESUME, HELLO, OURS, Program, programs
from bench.processes import Failed, bytes_of, run
from bench.prose import vocabulary
from bench.screens import ROW, Screen, typed

from store.sources.kit.watch import watched
from store.store import Store
from store.sync import refresh

LETTERS = 5
IN_A_ROW = 3
"""What is over in a moment is done so often in a run, by one program after the other: a moment may be a bad one."""

LISTED = "select count(*), :word from sessions"
UNREAD = "select exists (select 1 from sessions where depth = 'text'), :word"
FOUND = """
    select (select count(*) from conversation_fts where conversation_fts match :word) + (select count(*)
        from skims_fts cross join sessions on sessions.key = skims_fts.rowid
        where skims_fts match :word and sessions.depth = 'text')
"""


class Sizes(NamedTuple):
    """Megabytes."""

    middling: int
    twice: int
    large: int
    words: int
    "How many are typed."


WHOLE = Sizes(200, 400, 1000, 6)
SMALL = Sizes(10, 20, 20, 1)

Key = tuple[str, str, int]
"""What was measured, of which program, on how many megabytes."""


class Measured:
    """What came out, and why something did not."""

    def __init__(self) -> None:
        self._values: defaultdict[Key, list[float]] = defaultdict(list)
        self._reasons: dict[Key, str] = {}

    def add(self, what: str, who: str, size: int, value: float) -> None:
        self._values[what, who, size].append(value)

    def trying(self, what: str, who: str, size: int, work: Callable[[], object]) -> None:
        """The work adds what it measures; one that fails is told of, and the others go on."""
        begun = time.perf_counter()
        try:
            work()
        except Failed as reason:
            self._reasons[what, who, size] = str(reason)
        seconds = time.perf_counter() - begun
        told = self._reasons.get((what, who, size), f"{seconds:.1f} s")
        print(f"  {what}, {size:,} MB, {who}: {told}", file=sys.stderr, flush=True)

    def of(self, what: str, who: str, size: int) -> list[float]:
        return self._values[what, who, size]

    def why(self, work: str, who: str, size: int) -> str:
        """Empty when nothing went wrong."""
        return self._reasons.get((work, who, size), "")


class Archive:
    def __init__(self, folder: Path, sizes: Sizes) -> None:
        self.sizes = sizes
        self.measured = Measured()
        self._state = folder / "state"
        self._corpora = {size: corpus(folder / "corpora", size) for size in dict.fromkeys(sizes[:3])}
        self._programs = programs(folder / "peers")
        self._words = [word[:LETTERS] for word in vocabulary(SEED)[600:8_000:1_100] if len(word) >= LETTERS]
        shutil.rmtree(self._state, ignore_errors=True)
        self._warm_up()

    def corpus(self, size: int) -> Corpus:
        return self._corpora[size]

    def run(self) -> None:
        """Everything once, and what is over in a moment a few times."""
        small, twice, large, _ = self.sizes
        for size in self._corpora:
            self._both("import", size, self._import, OURS, FAST_RESUME)
        self._both("import", small, self._import, AGENTSVIEW)
        for _ in range(IN_A_ROW):
            self._both("refresh", large, self._refresh, OURS, FAST_RESUME)
        for size in (small, large):
            self._both("first launch", size, self._launch_first, OURS, FAST_RESUME)
        self._warm(large, OURS, FAST_RESUME)
        for _ in range(IN_A_ROW):
            self._both("launch", large, self._launch, HELLO, OURS, FAST_RESUME)
        self._both("typing", large, self._type, OURS, FAST_RESUME)
        for size in {small, twice} - {large}:
            self._both("typing", size, self._type, OURS)

    def _both(self, what: str, size: int, work: Callable[[Program, int], None], *who: str) -> None:
        for name in who:
            os.sync()  # or what one has left to be written takes time from the next
            self.measured.trying(what, name, size, lambda name=name: work(self._program(name), size))  # type: ignore[misc]

    def _warm(self, size: int, *who: str) -> None:
        """What they keep, before the first of them begins: it takes the memory that the machine has at hand, and the
        next to begin waits until there is more."""
        for name in who:
            warm(self._place(name, size))

    def _program(self, name: str) -> Program:
        found = self._programs[name]
        if isinstance(found, Failed):
            raise found
        return found

    def _warm_up(self) -> None:
        """Python compiles what it meets for the first time; nobody waits for that twice."""
        nobody = _emptied(self._state / "nobody")
        for name in (HELLO, OURS):
            who = self._program(name)
            with Screen(who.path, *who.screen, env=who.env(nobody, nobody)) as screen:
                settle(screen, 2 * SETTLED)

    # ── what is done ──────────────────────────────────────────────────────────────────────────────

    def _place(self, name: str, size: int) -> Path:
        """What the program of that name keeps of that corpus."""
        return self._state / f"{name}-{size}"

    def _store(self, who: Program, size: int) -> Path:
        return self._place(who.name, size) / "backscroll" / "store.db"

    def _import(self, who: Program, size: int) -> None:
        place, home = _emptied(self._place(who.name, size)), self._corpora[size].home
        self._corpora[size].warm()
        is_ours = who.name == OURS
        awaited = _searchable(self._store(who, size), self._corpora[size].sessions) if is_ours else ()
        ran = run(who.command(), who.env(home, place), *awaited)
        if is_ours:
            _empty_log(self._store(who, size))
            if len(ran.there) < len(awaited):
                raise Failed("not everything is found when the import is over")
        # The others tell when they are done with everything, and no sooner.
        ready, whole = ran.there or (ran.seconds, ran.seconds)
        self.measured.add("ready", who.name, size, ready)
        self.measured.add("whole", who.name, size, whole)
        self.measured.add("import", who.name, size, ran.seconds)
        self.measured.add("memory", who.name, size, ran.megabytes)
        self.measured.add("bytes", who.name, size, bytes_of(place) / self._corpora[size].size)

    def _launch_first(self, who: Program, size: int) -> None:
        place = _emptied(self._state / "first")
        self._corpora[size].warm()
        with Screen(who.path, *who.screen, env=who.env(self._corpora[size].home, place)) as screen:
            self.measured.add("first launch", who.name, size, screen.until_sent_first(ROW))

    def _launch(self, who: Program, size: int) -> None:
        env = who.env(self._corpora[size].home, self._place(who.name, size))
        with Screen(who.path, *who.screen, env=env) as screen:
            shown = re.compile(re.escape(who.greeting)) if who.greeting else ROW
            self.measured.add("launch", who.name, size, screen.until_sent_first(shown))

    def _type(self, who: Program, size: int) -> None:
        env = who.env(self._corpora[size].home, self._place(who.name, size))
        warm(self._place(who.name, size))
        with Screen(who.path, *who.screen, env=env) as screen:
            screen.until_sent_first(ROW)
            settle(screen)
            screen.press(who.before_words)
            settle(screen, SETTLED / 3)
            took = list(typed(screen, self._words[: self.sizes.words]))
        if len(took) < 2:
            raise Failed("no key brought other rows")
        self.measured.add("key", who.name, size, p95(took))
        self.measured.add("typical key", who.name, size, statistics.median(took))

    def _refresh(self, who: Program, size: int) -> None:
        home, place = self._corpora[size].home, self._place(who.name, size)
        command = who.command()
        run(command, who.env(home, place))  # what it reads from the disk the first time is the disk's time, not its own
        before = _stamps(place)
        took = run(command, who.env(home, place)).seconds
        self.measured.add("refresh", who.name, size, took)
        if who.name == OURS:
            written = len(dict(before.items() ^ _stamps(place).items()))
            seconds, rows = _refresh_within(self._store(who, size), home)
            self.measured.add("refresh within", who.name, size, seconds)
            self.measured.add("written", who.name, size, written + rows)
        else:
            idle = run([*command, "--no-refresh"], who.env(home, place)).seconds
            self.measured.add("refresh within", who.name, size, max(took - idle, 0.001))


def _emptied(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _searchable(store: Path, sessions: int) -> tuple[Callable[[], bool], Callable[[], bool]]:
    """Whether every conversation is found by its last word, and whether all of each is stored and indexed."""

    def ask(sql: str) -> int:
        """A connection a look: an open one would keep the log."""
        try:
            with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
                return int(connection.execute(sql, {"word": LAST_WORD}).fetchone()[0])
        except sqlite3.Error:
            return 0  # not made yet

    # What is cheap to ask first: whoever looks on takes time from who is looked at.
    return lambda: ask(LISTED) >= sessions and ask(FOUND) >= sessions, lambda: not ask(UNREAD)


def _empty_log(store: Path) -> None:
    """As the last to close it does; but whoever looked on at that moment kept it from being the last."""
    with closing(sqlite3.connect(store)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)")


def _stamps(folder: Path) -> dict[str, tuple[int, int]]:
    """Of every file; folders are touched by SQLite's own, which come and go."""
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in folder.rglob("*") if path.is_file()}


def _refresh_within(path: Path, home: Path) -> tuple[float, int]:
    """As the open browser does it again and again; and how many rows that writes."""
    with Store.open(path) as store, watched():
        chosen = refresh.targets([str(home / ".claude"), str(home / ".codex")])
        before = store.connection.total_changes
        for _ in range(2):
            begun = time.perf_counter()
            for _ in refresh.sync(store, chosen):
                pass
        return time.perf_counter() - begun, store.connection.total_changes - before
