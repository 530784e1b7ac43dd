"""Every target there is for a whole archive, as lines of the table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.archive import ArchiveBenchmark, ArchiveSizes
from bench.peers import AGENTSVIEW, FAST_RESUME, HELLO, OURS
from bench.table import ResultRow

_MEASURED_IN = {
    "ready": "import",
    "whole": "import",
    "memory": "import",
    "bytes": "import",
    "key": "typing",
    "typical key": "typing",
    "refresh within": "refresh",
    "written": "refresh",
}
"""In which work it is measured, where that has another name."""


def measure(folder: Path, sizes: ArchiveSizes, runs: int) -> list[ResultRow]:
    archive = ArchiveBenchmark(folder, sizes)
    for number in range(1, runs + 1):
        print(f"run {number} of {runs}", file=sys.stderr, flush=True)
        archive.run()
    return list(result_rows(archive))


def result_rows(archive: ArchiveBenchmark) -> Iterator[ResultRow]:
    """One for every target, and some that only tell."""
    small, _, large, _ = archive.sizes

    def line(name: str, what: str, size: int, peer: str = "", **more: float | str) -> ResultRow:
        return _result_row(archive, f"{name}, {archive.corpus(size).name}", what, (OURS, size), (peer, size), **more)

    for size in (small, large):
        yield line("first rows after a first launch", "first launch", size, FAST_RESUME, ratio=0.5)
    for size in (small, large):
        yield line("conversation search ready", "ready", size, FAST_RESUME, ratio=1.0)
    yield line("everything stored and searchable", "whole", small, AGENTSVIEW, ratio=0.3)
    yield line("the same, until its index is in order and the command ends", "import", small, AGENTSVIEW)
    yield line("launch to rows", "launch", large, HELLO, ratio=1.3)
    yield line("key to result, p95", "key", large, FAST_RESUME, ratio=0.8)
    yield line("key to result, median", "typical key", large, FAST_RESUME)
    files = f"refresh, nothing changed in {archive.corpus(large).sessions:,} files"
    yield line(files, "refresh", large, FAST_RESUME, ratio=0.5)
    yield line("the same, without the program's start", "refresh within", large, FAST_RESUME)
    yield line("files and rows it wrote", "written", large, unit="", limit=0)
    yield line("peak memory of a first import", "memory", large, FAST_RESUME, unit="MB", limit=200)
    yield line("bytes on disk for a byte of source", "bytes", large, unit="", limit=0.7)
    yield line("bytes on disk for a byte of source", "bytes", small, AGENTSVIEW, unit="", limit=0.7)
    yield _growth_row(archive, "import", "import of twice as much", 2.2)
    yield _growth_row(archive, "key", "key to result, p95, in twice as much", 1.3)


def _growth_row(archive: ArchiveBenchmark, what: str, name: str, ratio: float) -> ResultRow:
    small, twice, *_ = archive.sizes
    told, beside = f"{name}, {archive.corpus(twice).name}", f"for {archive.corpus(small).name}"
    return _result_row(archive, told, what, (OURS, twice), (OURS, small), beside=beside, ratio=ratio)


def _result_row(
    archive: ArchiveBenchmark, name: str, what: str, ours: tuple[str, int], other: tuple[str, int], **more: float | str
) -> ResultRow:
    measured, work = archive.measurements, _MEASURED_IN.get(what, what)
    told = {
        "beside": other[0],
        "why": measured.failure_reason(work, *ours),
        "why_other": measured.failure_reason(work, *other),
        **more,
    }
    return ResultRow(name=name, ours=measured.values(what, *ours), baseline=measured.values(what, *other), **told)  # type: ignore[arg-type]
