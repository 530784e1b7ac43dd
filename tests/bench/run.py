"""`make bench`: a whole archive beside its peers, the browser beside a Textual hello world, the store beside bare
sqlite3, a sync beside a bare loop; each does its work in the same run as the other. Ratios count, not digits."""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bench import archive, archive_targets, browser, rubichan_sync, store_operations
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


PARTS: dict[str, Callable[[bool, int], list[ResultRow]]] = {
    "archive": bench_archive,
    "browsing": bench_browser,
    "store": bench_store,
    "sync": bench_sync,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="in a minute: a fraction of the work, most of it once")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", choices=PARTS, action="append", help="this part alone, or these")
    options = parser.parse_args()
    lines = []
    for name, part in PARTS.items():
        if name in (options.only or PARTS):
            print(f"{name} …", file=sys.stderr, flush=True)
            lines += part(options.small, options.runs)
    print(f"{describe_machine()}\n\n{format_markdown(lines)}")
    return 1 if any(line.is_met is False for line in lines) else 0


if __name__ == "__main__":
    sys.exit(main())
