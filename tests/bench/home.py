"""This module measures home folders: made-up histories that look like real ones, or the home of a person."""

from __future__ import annotations

import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from bench.archive import COUNT_LISTED_SQL, REPEATS, ArchiveBenchmark, Measurements
from bench.corpus import GROWING, LETTERS_PER_WORD, USUAL, Corpus, load_or_make_realistic_corpus
from bench.peers import AGENTSVIEW, FAST_RESUME, HELLO, OURS
from bench.processes import folder_size
from bench.table import ResultRow

FULL_SIZES, SMALL_SIZES = (122, 206), (5, 5)
"""Are megabytes: of histories with real shapes, and of those with a growing vocabulary."""

WORDS = 6
TITLE_LETTERS = 14
"""Is how much of a title both programs show."""

NEWEST_TITLES_SQL = """
    select coalesce(agent_title, first_prompt) from sessions where coalesce(agent_title, first_prompt) != ''
    order by updated_at desc limit 60
"""
COMMON_WORDS_SQL = """
    select term from temp.terms where length(term) >= ? and term not glob '*[^a-z]*' and doc > 1
    order by doc desc limit 200
"""


def measure_realistic(folder: Path, runs: int, *, small: bool) -> list[ResultRow]:
    """Measure made-up histories with the shapes of real ones."""
    sizes = SMALL_SIZES if small else FULL_SIZES
    usual, growing = (
        load_or_make_realistic_corpus(folder / "corpora", shape, megabytes)
        for shape, megabytes in zip((USUAL, GROWING), sizes, strict=True)
    )
    benchmark = ArchiveBenchmark(folder, words=1 if small else WORDS)
    for _ in _count_runs(runs):
        _run(benchmark, usual)
        _run_import(benchmark, growing)
    measured = benchmark.measurements
    return [*_result_rows(measured, usual), *_import_rows(measured, growing, processor_ratio=0.35, disk=0.6)]


def measure_home(folder: Path, home: Path, runs: int) -> list[ResultRow]:
    """Measure the home of a person."""
    benchmark = ArchiveBenchmark(folder, words=WORDS)
    corpus = _describe_home(home, benchmark.import_once(home))
    for _ in _count_runs(runs):
        _run(benchmark, corpus)
    return list(_result_rows(benchmark.measurements, corpus))


def _count_runs(runs: int) -> Iterator[int]:
    for number in range(1, runs + 1):
        print(f"run {number} of {runs}", file=sys.stderr, flush=True)
        yield number


def _run(benchmark: ArchiveBenchmark, corpus: Corpus) -> None:
    _run_import(benchmark, corpus)
    benchmark.run_each("first launch", corpus, OURS, FAST_RESUME)
    benchmark.warm_page_cache(corpus, OURS, FAST_RESUME)
    for _ in range(REPEATS):
        benchmark.run_each("refresh", corpus, OURS, FAST_RESUME)
        benchmark.run_each("launch", corpus, HELLO, OURS, FAST_RESUME)
    benchmark.run_each("typing", corpus, OURS, FAST_RESUME)
    benchmark.run_each("conversation", corpus, OURS, FAST_RESUME)
    if corpus.is_large:
        benchmark.run_each("typing while importing", corpus, OURS)


def _run_import(benchmark: ArchiveBenchmark, corpus: Corpus) -> None:
    benchmark.run_each("import", corpus, OURS, FAST_RESUME, AGENTSVIEW)
    benchmark.run_each("pack", corpus, OURS)


def _result_rows(measured: Measurements, corpus: Corpus) -> Iterator[ResultRow]:
    yield measured.row("first rows after a first launch", "first launch", corpus, FAST_RESUME, ratio=0.5)
    yield from _import_rows(measured, corpus, processor_ratio=0.5, disk=0.3)
    yield measured.row("launch to rows", "launch", corpus, HELLO, ratio=1.3)
    yield measured.row("key to result, p95", "key", corpus, FAST_RESUME, ratio=0.8)
    if corpus.is_large:
        yield measured.row_while_importing(corpus)
    yield measured.row("the conversation beside the list", "conversation", corpus, FAST_RESUME, limit=0.15)
    yield measured.row("refresh, nothing changed", "refresh", corpus, FAST_RESUME)


def _import_rows(measured: Measurements, corpus: Corpus, *, processor_ratio: float, disk: float) -> Iterator[ResultRow]:
    yield measured.row("every word that was said can be found", "ready", corpus, FAST_RESUME, ratio=0.9)
    yield measured.row("everything stored and searchable", "complete", corpus, AGENTSVIEW, ratio=processor_ratio)
    yield measured.row("the same, until the command ends", "import", corpus, AGENTSVIEW)
    yield measured.row("the same, processor time", "processor", corpus, AGENTSVIEW, ratio=processor_ratio)
    yield measured.row("peak memory of a first import", "memory", corpus, AGENTSVIEW, unit="MB", limit=200)
    yield measured.row("bytes on disk per byte of source", "bytes", corpus, AGENTSVIEW, unit="")
    yield measured.row("the same, after packing", "packed bytes", corpus, AGENTSVIEW, unit="", limit=disk)


def _describe_home(home: Path, store: Path) -> Corpus:
    """Find out from an imported store how many sessions a home has, what their rows look like, and what to type."""
    with closing(sqlite3.connect(store)) as connection:

        def ask(sql: str, *values: object) -> list[str]:
            return [row[0] for row in connection.execute(sql, values)]

        locators = [Path(locator) for locator in ask("select locator from sources")]
        titles = ask(NEWEST_TITLES_SQL)
        connection.execute("create virtual table temp.terms using fts5vocab(main, conversation_fts, row)")
        words = ask(COMMON_WORDS_SQL, LETTERS_PER_WORD)
        [sessions] = connection.execute(COUNT_LISTED_SQL).fetchone()
    size = sum(folder_size(path) if path.is_dir() else path.stat().st_size for path in locators if path.exists())
    row = re.compile(b"|".join(re.escape(title[:TITLE_LETTERS].strip().encode()) for title in titles))
    typed = tuple(word[:LETTERS_PER_WORD] for word in words[:: max(len(words) // WORDS, 1)])
    return Corpus(home, sessions, size, "your home, ", row, typed, last_word="")
