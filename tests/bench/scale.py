"""This module measures a very large archive once, and compares it with one of a tenth of its size."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.archive import REPEATS, ArchiveBenchmark, Measurements
from bench.corpus import MB, Corpus, load_or_make_corpus
from bench.peers import HELLO, OURS
from bench.processes import BenchmarkError
from bench.table import ResultRow


class ScaleSizes(NamedTuple):
    """Holds the sizes of both archives in megabytes."""

    small: int
    large: int


FULL_SIZES = ScaleSizes(1_000, 10_000)
SMALL_SIZES = ScaleSizes(100, 1_000)
SPACE_FACTOR = 3
"""Is the free space that is needed, as a multiple of the large archive: the histories, the store and its log."""

WORDS = 6


def measure(folder: Path, sizes: ScaleSizes) -> list[ResultRow]:
    folder.mkdir(parents=True, exist_ok=True)
    needed, free = SPACE_FACTOR * sizes.large * MB, shutil.disk_usage(folder).free
    if free < needed:
        raise BenchmarkError(f"{needed / 1e9:.0f} GB of free space are needed in {folder}; there are {free / 1e9:.0f}")
    archive = ArchiveBenchmark(folder, words=WORDS)
    corpora = [load_or_make_corpus(folder / "corpora", size) for size in sizes]
    for corpus in corpora:
        archive.run_each("import", corpus, OURS)
        archive.run_each("pack", corpus, OURS)
        archive.run_each("refresh", corpus, OURS)
        archive.warm_page_cache(corpus, OURS)
        for _ in range(REPEATS):
            archive.run_each("launch", corpus, HELLO, OURS)
        archive.run_each("typing", corpus, OURS)
    return list(_result_rows(archive.measurements, *corpora))


def _result_rows(measured: Measurements, small: Corpus, large: Corpus) -> Iterator[ResultRow]:
    def compare(name: str, quantity: str, ratio: float | None = None, unit: str = "s") -> ResultRow:
        name = f"{name}, {large.sessions:,} sessions, {large.name}"
        ours, other = (quantity, OURS, large), (quantity, OURS, small)
        return measured.compare(name, ours, other, f"for {small.name}", unit=unit, ratio=ratio)

    yield compare("every word that was said can be found", "ready")
    yield compare("everything stored and searchable", "complete", 11)
    yield compare("the same, until the command ends", "import", 11)
    yield compare("the same, processor time", "processor", 11)
    yield compare("peak memory of a first import", "memory", unit="MB")
    yield compare("bytes on disk per byte of source", "bytes", unit="")
    yield compare("the same, after packing", "packed bytes", unit="")
    yield compare("the time of packing", "pack")
    yield measured.row("launch to rows", "launch", large, HELLO, ratio=1.3)
    yield compare("launch to rows", "launch")
    yield compare("key to result, p95", "key", 1.5)
    yield compare("key to result, median", "typical key")
    yield compare("refresh, nothing changed", "refresh")
