"""Runs the benchmarks: a large archive compared with other programs, the browser with a minimal Textual program, the
store with plain sqlite3, a sync with a plain loop. Both sides are measured in the same run; only the ratios matter."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import archive, archive_targets, browser, home, rubichan_sync, store_operations
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
    return archive_targets.measure(FOLDER, archive.SMALL_SIZES if small else archive.FULL_SIZES, 1 if small else runs)


def bench_realistic(small: bool, runs: int) -> list[ResultRow]:
    return home.measure(FOLDER, None, 1 if small else runs, small=small)


PARTS: dict[str, Callable[[bool, int], list[ResultRow]]] = {
    "archive": bench_archive,
    "realistic": bench_realistic,
    "browsing": bench_browser,
    "store": bench_store,
    "sync": bench_sync,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a fraction of the work, most of it once: about a minute")
    parser.add_argument("--runs", type=int, default=5, help="how often to measure (default: 5)")
    parser.add_argument("--only", choices=PARTS, action="append", help="only this part; can be repeated")
    parser.add_argument("--home", type=Path, help="measure the import of this home folder instead")
    options = parser.parse_args()
    rows = []
    if options.home:
        rows = home.measure(FOLDER, options.home.resolve(), options.runs, small=False)
    for name, part in PARTS.items() if not options.home else ():
        if name in (options.only or PARTS):
            print(f"{name} …", file=sys.stderr, flush=True)
            rows += part(options.small, options.runs)
    print(f"{describe_machine()}\n\n{format_markdown(rows)}")
    return 1 if any(row.is_met is False for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
