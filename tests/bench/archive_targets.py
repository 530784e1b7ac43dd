"""This module lists the targets for a large archive as rows of the result table."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from bench.archive import ArchiveBenchmark, ArchiveSizes
from bench.peers import AGENTSVIEW, FAST_RESUME, HELLO, OURS
from bench.table import ResultRow

_MEASURED_IN = {
    "ready": "import",
    "complete": "import",
    "memory": "import",
    "bytes": "import",
    "key": "typing",
    "typical key": "typing",
    "refresh within": "refresh",
    "written": "refresh",
}
"""Names the work in which a quantity is measured, where the names differ."""


def measure(folder: Path, sizes: ArchiveSizes, runs: int) -> list[ResultRow]:
    archive = ArchiveBenchmark(folder, sizes)
    for number in range(1, runs + 1):
        print(f"run {number} of {runs}", file=sys.stderr, flush=True)
        archive.run()
    return list(result_rows(archive))


def result_rows(archive: ArchiveBenchmark) -> Iterator[ResultRow]:
    """Yield a row for every target, and some rows without a target."""
    medium, _, large, _ = archive.sizes

    def row(name: str, quantity: str, size: int, peer: str = "", **more: float | str) -> ResultRow:
        return _result_row(
            archive, f"{name}, {archive.corpus(size).name}", quantity, (OURS, size), (peer, size), **more
        )

    for size in (medium, large):
        yield row("first rows after a first launch", "first launch", size, FAST_RESUME, ratio=0.5)
    for size in (medium, large):
        yield row("conversation search ready", "ready", size, FAST_RESUME, ratio=1.0)
    yield row("everything stored and searchable", "complete", medium, AGENTSVIEW, ratio=0.3)
    yield row("the same, until the index is optimised and the command ends", "import", medium, AGENTSVIEW)
    yield row("launch to rows", "launch", large, HELLO, ratio=1.3)
    yield row("key to result, p95", "key", large, FAST_RESUME, ratio=0.8)
    yield row("key to result, median", "typical key", large, FAST_RESUME)
    files = f"refresh, nothing changed in {archive.corpus(large).sessions:,} files"
    yield row(files, "refresh", large, FAST_RESUME, ratio=0.5)
    yield row("the same, without the program's start", "refresh within", large, FAST_RESUME)
    yield row("files and rows it wrote", "written", large, unit="", limit=0)
    yield row("peak memory of a first import", "memory", large, FAST_RESUME, unit="MB", limit=200)
    yield row("bytes on disk per byte of source", "bytes", large, unit="", limit=0.7)
    yield row("bytes on disk per byte of source", "bytes", medium, AGENTSVIEW, unit="", limit=0.7)
    yield _growth_row(archive, "import", "import of twice the data", 2.2)
    yield _growth_row(archive, "key", "key to result, p95, in twice the data", 1.3)


def _growth_row(archive: ArchiveBenchmark, quantity: str, name: str, ratio: float) -> ResultRow:
    medium, double, *_ = archive.sizes
    full_name, baseline_name = f"{name}, {archive.corpus(double).name}", f"for {archive.corpus(medium).name}"
    return _result_row(
        archive, full_name, quantity, (OURS, double), (OURS, medium), baseline_name=baseline_name, ratio=ratio
    )


def _result_row(
    archive: ArchiveBenchmark,
    name: str,
    quantity: str,
    ours: tuple[str, int],
    baseline: tuple[str, int],
    **more: float | str,
) -> ResultRow:
    measurements, work = archive.measurements, _MEASURED_IN.get(quantity, quantity)
    fields = {
        "baseline_name": baseline[0],
        "failure": measurements.failure_reason(work, *ours),
        "baseline_failure": measurements.failure_reason(work, *baseline),
        **more,
    }
    return ResultRow(
        name=name,
        ours=measurements.values(quantity, *ours),
        baseline=measurements.values(quantity, *baseline),
        **fields,  # type: ignore[arg-type]
    )
