"""This module measures the first, simple histories at three sizes, and lists the targets for them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.archive import REPEATS, ArchiveBenchmark, Measurements
from bench.corpus import Corpus, load_or_make_corpus
from bench.peers import AGENTSVIEW, FAST_RESUME, HELLO, OURS
from bench.table import ResultRow


class ArchiveSizes(NamedTuple):
    """Holds the sizes of the archives in megabytes, and how many words are typed."""

    medium: int
    double: int
    large: int
    words: int


FULL_SIZES = ArchiveSizes(200, 400, 1000, 6)
SMALL_SIZES = ArchiveSizes(10, 20, 20, 1)


class ArchiveCorpora(NamedTuple):
    medium: Corpus
    double: Corpus
    large: Corpus


def measure(folder: Path, sizes: ArchiveSizes, runs: int) -> list[ResultRow]:
    corpora = ArchiveCorpora(*(load_or_make_corpus(folder / "corpora", size) for size in sizes[:3]))
    archive = ArchiveBenchmark(folder, words=sizes.words)
    for number in range(1, runs + 1):
        print(f"run {number} of {runs}", file=sys.stderr, flush=True)
        _run(archive, corpora)
    return list(_result_rows(archive.measurements, corpora))


def _run(archive: ArchiveBenchmark, corpora: ArchiveCorpora) -> None:
    """Measure everything once, and short work several times."""
    medium, double, large = corpora
    for corpus in dict.fromkeys(corpora):
        archive.run_each("import", corpus, OURS, FAST_RESUME)
    archive.run_each("import", medium, AGENTSVIEW)
    for corpus in dict.fromkeys((medium, large)):
        archive.run_each("pack", corpus, OURS)
        for _ in range(REPEATS):
            archive.run_each("refresh", corpus, OURS, FAST_RESUME)
        archive.run_each("first launch", corpus, OURS, FAST_RESUME)
    archive.warm_page_cache(large, OURS, FAST_RESUME)
    for _ in range(REPEATS):
        archive.run_each("launch", large, HELLO, OURS, FAST_RESUME)
    archive.run_each("typing", large, OURS, FAST_RESUME)
    for corpus in {medium, double} - {large}:
        archive.run_each("typing", corpus, OURS)
    if large.is_large:
        archive.run_each("typing while importing", large, OURS)


def _result_rows(measured: Measurements, corpora: ArchiveCorpora) -> Iterator[ResultRow]:
    """Yield a row for every target, and some rows without a target."""
    medium, double, large = corpora
    for corpus in (medium, large):
        yield measured.row("first rows after a first launch", "first launch", corpus, FAST_RESUME, ratio=0.5)
    for corpus in (medium, large):
        yield measured.row("conversation search ready", "ready", corpus, FAST_RESUME, ratio=0.9)
    yield measured.row("everything stored and searchable", "complete", medium, AGENTSVIEW, ratio=0.3)
    yield measured.row("the same, until the command ends", "import", medium, AGENTSVIEW)
    yield measured.row("the same, processor time", "processor", medium, AGENTSVIEW)
    yield measured.row("launch to rows", "launch", large, HELLO, ratio=1.3)
    yield measured.row("key to result, p95", "key", large, FAST_RESUME, ratio=0.8)
    yield measured.row("key to result, median", "typical key", large, FAST_RESUME)
    if large.is_large:
        yield measured.row_while_importing(large)
    for corpus, ratio in ((medium, 1.2), (large, 0.6)):
        name = f"refresh, nothing changed in {corpus.sessions:,} files"
        yield measured.row(name, "refresh", corpus, FAST_RESUME, ratio=ratio)
        yield measured.row("the same, without the program's start", "refresh within", corpus, FAST_RESUME)
        yield measured.row("files and rows it wrote", "written", corpus, unit="", limit=0)
    yield measured.row("peak memory of a first import", "memory", large, FAST_RESUME, unit="MB", limit=200)
    for corpus, peer in ((large, ""), (medium, AGENTSVIEW)):
        yield measured.row("bytes on disk per byte of source", "bytes", corpus, peer, unit="")
        yield measured.row("the same, after packing", "packed bytes", corpus, peer, unit="", limit=0.7)
    for quantity, name, ratio in (("import", "import", 2.2), ("key", "key to result, p95,", 1.3)):
        name = f"{name} of twice the data, {double.name}"
        yield measured.compare(
            name, (quantity, OURS, double), (quantity, OURS, medium), f"for {medium.name}", ratio=ratio
        )
