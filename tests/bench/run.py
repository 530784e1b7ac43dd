"""Runs the benchmarks: a large archive compared with other programs, the browser with a minimal Textual program, the
store with plain sqlite3, a sync with a plain loop. Both sides are measured in the same run; only the ratios matter."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import (
    archive_targets,
    browser,
    home,
    leak_scan,
    rubichan_sync,
    scale,
    statistics_targets,
    store_operations,
    team_transfer,
)
from bench.table import ResultRow, describe_machine, format_markdown

FOLDER = Path(__file__).resolve().parents[2] / "build" / "bench"


def bench_store(small: bool, runs: int) -> list[ResultRow]:
    return store_operations.measure(10 if small else 1, runs)


def bench_sync(small: bool, runs: int) -> list[ResultRow]:
    with tempfile.TemporaryDirectory() as folder:
        return rubichan_sync.measure(Path(folder), 50_000 if small else 1_000_000)


def bench_browser(small: bool, runs: int) -> list[ResultRow]:
    with tempfile.TemporaryDirectory() as folder:
        return browser.measure(Path(folder), browser.SMALL_SIZE if small else browser.FULL_SIZE, 1 if small else runs)


def bench_archive(small: bool, runs: int) -> list[ResultRow]:
    sizes = archive_targets.SMALL_SIZES if small else archive_targets.FULL_SIZES
    return archive_targets.measure(FOLDER, sizes, 1 if small else runs)


def bench_realistic(small: bool, runs: int) -> list[ResultRow]:
    return home.measure_realistic(FOLDER, 1 if small else runs, small=small)


def bench_statistics(small: bool, runs: int) -> list[ResultRow]:
    sizes = statistics_targets.SMALL_SIZES if small else statistics_targets.FULL_SIZES
    return statistics_targets.measure(FOLDER, sizes, 1 if small else runs)


def bench_leaks(small: bool, runs: int) -> list[ResultRow]:
    return leak_scan.measure(FOLDER, 5 if small else 100, 1 if small else runs)


def bench_team(small: bool, runs: int) -> list[ResultRow]:
    return team_transfer.measure(FOLDER, 6 if small else 200)


def bench_scale(small: bool, runs: int) -> list[ResultRow]:
    return scale.measure(FOLDER, scale.SMALL_SIZES if small else scale.FULL_SIZES)


PARTS: dict[str, Callable[[bool, int], list[ResultRow]]] = {
    "archive": bench_archive,
    "realistic": bench_realistic,
    "browsing": bench_browser,
    "statistics": bench_statistics,
    "store": bench_store,
    "sync": bench_sync,
    "leaks": bench_leaks,
    "team": bench_team,
}
SEPARATE_PARTS = {"scale": bench_scale}
"""Are only run when they are named, because they take very long."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a fraction of the work, once: about two minutes")
    parser.add_argument("--runs", type=int, default=5, help="how often to measure (default: 5)")
    parser.add_argument(
        "--only", choices=[*PARTS, *SEPARATE_PARTS], action="append", help="only this part; can be repeated"
    )
    parser.add_argument("--home", type=Path, help="measure this home folder instead")
    options = parser.parse_args()
    rows = home.measure_home(FOLDER, options.home.resolve(), options.runs) if options.home else []
    names = [] if options.home else options.only or PARTS
    for name, part in (PARTS | SEPARATE_PARTS).items():
        if name in names:
            print(f"{name} …", file=sys.stderr, flush=True)
            rows += part(options.small, options.runs)
    print(f"{describe_machine()}\n\n{format_markdown(rows)}")
    return 1 if any(row.is_met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
