"""This module measures statistics: beside ccusage, which adds up the tokens of Claude Code, and beside our own list.

The totals of both programs are compared with a count of our own over the transcripts, for each month and model. Both
must be what their rule says, so that every difference between them is one of the rules.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench.ccusage_rules import RULES, Total, find_month, write_history
from bench.corpus import Corpus, load_or_make_corpus
from bench.peers import CCUSAGE, install_ccusage
from bench.processes import BenchmarkError, isolated_environment, run_measured
from bench.screens import MeasuredScreen, read_output_for
from bench.table import ResultRow

FULL_SIZES, SMALL_SIZES = (200, 1000), (10, 20)
"""Are megabytes."""

KINDS = {
    "input_tokens": ("input", "inputTokens"),
    "output_tokens": ("output", "outputTokens"),
    "cache_read_input_tokens": ("cache_read", "cacheReadTokens"),
    "cache_creation_input_tokens": ("cache_write_5m", "cacheCreationTokens"),
}
"""Maps the kinds of tokens in a transcript to our name and to that of ccusage."""

MILLION = 1_000_000
NOTHING = Total(0, 0)

FIGURES = re.compile(rb"prices ")
"""Is shown on the statistics screen together with its first figures."""

Totals = Counter[tuple[str, str, str]]
"""Counts tokens by month, model and kind."""

_STATS = ("stats", "--json", "--by")
_CCUSAGE_ARGUMENTS = ("monthly", "--offline", "--json", "--breakdown")


def measure(folder: Path, sizes: tuple[int, int], runs: int) -> list[ResultRow]:
    medium, large = (load_or_make_corpus(folder / "corpora", size) for size in sizes)
    benchmark = _StatisticsBenchmark(folder)
    values: dict[tuple[str, str], list[float]] = {}
    for corpus in (medium, large):
        benchmark.import_corpus(corpus)
    for number in range(1, runs + 1):
        print(f"run {number} of {runs}", file=sys.stderr, flush=True)
        for corpus in (medium, large):
            for name, seconds in benchmark.measure_once(corpus, with_peer=corpus is medium):
                values.setdefault((name, corpus.name), []).append(seconds)
    compared = [*benchmark.compare_totals(medium), *benchmark.compare_rules(folder / "rules")]
    return [*_time_rows(values, medium, large, benchmark.failure), *compared]


def _time_rows(
    values: Mapping[tuple[str, str], list[float]], medium: Corpus, large: Corpus, failure: str
) -> Iterator[ResultRow]:
    def row(corpus: Corpus, name: str, work: str, other: str, other_name: str, **target: float) -> ResultRow:
        ours, baseline = values[work, corpus.name], values.get((other, corpus.name), [])
        reason = failure if other == CCUSAGE else ""
        return ResultRow(
            name=f"{name}, {corpus.name}",
            ours=ours,
            baseline=baseline,
            baseline_name=other_name,
            baseline_failure=reason,
            **target,  # type: ignore[arg-type]
        )

    yield row(medium, "statistics by month", "stats", CCUSAGE, CCUSAGE, ratio=0.05)
    yield row(medium, "the same", "stats", "list", "our list", ratio=1.5)
    yield row(large, "statistics by month", "stats", "list", "our list", limit=0.25)
    for corpus in (medium, large):
        yield row(corpus, "the statistics screen", "screen", "launch", "launch to rows", ratio=1.2)


class _StatisticsBenchmark:
    def __init__(self, folder: Path) -> None:
        self._state = folder / "state"
        self._program = Path(sys.executable).with_name("backscroll")
        self.failure = ""
        "Says why ccusage could not be installed."
        try:
            self._peer: Path | None = install_ccusage(folder / "peers")
        except BenchmarkError as reason:
            self._peer, self.failure = None, str(reason)

    def import_corpus(self, corpus: Corpus) -> None:
        run_measured([self._program, "sync"], self._environment(corpus))

    def measure_once(self, corpus: Corpus, *, with_peer: bool) -> Iterator[tuple[str, float]]:
        environment = self._environment(corpus)
        if with_peer and self._peer is not None:
            yield CCUSAGE, run_measured([self._peer, *_CCUSAGE_ARGUMENTS], environment).seconds
        for name, arguments in (("stats", (*_STATS, "month")), ("list", ("list",))):
            yield name, run_measured([self._program, *arguments], environment).seconds
        with MeasuredScreen(self._program, env=environment, row=corpus.row) as screen:
            yield "launch", screen.time_until_rows()
            read_output_for(screen)
            yield "screen", screen.time_key_until_output("%", FIGURES)

    def compare_totals(self, corpus: Corpus) -> Iterator[ResultRow]:
        """Yield how many totals of a month, model and kind differ from the count by the rule of each program."""
        ours = self._read_our_totals(corpus)
        by_message = _count_tokens(corpus.home, lambda message, request: message, keeps_last=True)
        yield _difference_row(f"totals other than by the id of the message, {corpus.name}", ours, by_message)
        if self._peer is None:
            return
        theirs = self._read_ccusage_totals(corpus, self._peer)
        by_request = _count_tokens(corpus.home, lambda message, request: f"{message} {request}" if request else "")
        yield _difference_row(f"of ccusage, other than by message and request, {corpus.name}", theirs, by_request)
        yield ResultRow(
            name=f"million tokens of Claude Code, {corpus.name}",
            ours=[ours.total() / 1e6],
            baseline=[theirs.total() / 1e6],
            baseline_name=CCUSAGE,
            unit="",
        )

    def compare_rules(self, home: Path) -> Iterator[ResultRow]:
        """Yield the cost of a month for each rule. A program that reports something else than its rule says has no
        figure, and the row says what is wrong."""
        write_history(home)
        environment = isolated_environment(home, self._state / "rules")
        run_measured([self._program, "sync"], environment)
        ours = {
            row["key"]: Total(row["tokens"]["total"], round((row["cost_usd"] or 0) * MILLION))
            for row in self._ask(environment, self._program, *_STATS, "month")["rows"]
        }
        found = self._ask(environment, self._peer, *_CCUSAGE_ARGUMENTS)["monthly"] if self._peer else []
        theirs = {row["month"]: Total(row["totalTokens"], round(row["totalCost"] * MILLION)) for row in found}
        for number, rule in enumerate(RULES):
            month = find_month(number)
            own, other = ours.get(month, NOTHING), theirs.get(month, NOTHING)
            expected = "" if own == rule.ours else f"{own} instead of {rule.ours}"
            expected_of_peer = "" if other == rule.theirs else f"{other} instead of {rule.theirs}"
            yield ResultRow(
                name=rule.name,
                ours=[] if expected else [own.micro_dollars / MILLION],
                baseline=[] if expected_of_peer or not self._peer else [other.micro_dollars / MILLION],
                baseline_name=CCUSAGE,
                unit="$",
                limit=rule.ours.micro_dollars / MILLION,
                failure=expected,
                baseline_failure=expected_of_peer if self._peer else self.failure,
            )

    def _read_our_totals(self, corpus: Corpus) -> Totals:
        totals: Totals = Counter()
        environment = self._environment(corpus)
        months = [row["key"] for row in self._ask(environment, self._program, *_STATS, "month", "agent:claude")["rows"]]
        for month in months:
            period = ("--since", month, "--until", month)
            for row in self._ask(environment, self._program, *_STATS, "model", "agent:claude", *period)["rows"]:
                for kind, (name, _) in KINDS.items():
                    totals[month, row["key"], kind] += row["tokens"][name]
        return totals

    def _read_ccusage_totals(self, corpus: Corpus, program: Path) -> Totals:
        totals: Totals = Counter()
        for month in self._ask(self._environment(corpus), program, *_CCUSAGE_ARGUMENTS)["monthly"]:
            for row in month["modelBreakdowns"]:
                for kind, (_, name) in KINDS.items():
                    totals[month["month"], row["modelName"], kind] += row[name]
        return totals

    def _ask(self, environment: Mapping[str, str], *command: str | Path) -> Any:
        result = subprocess.run(command, env=environment, capture_output=True, check=True)
        return json.loads(result.stdout)

    def _environment(self, corpus: Corpus) -> dict[str, str]:
        return isolated_environment(corpus.home, self._state / f"statistics-{corpus.home.name}")


def _count_tokens(home: Path, identify: Callable[[str, str], str], *, keeps_last: bool = False) -> Totals:
    """Count the tokens in all transcripts of Claude Code. Of records with the same id, the first one or the last one of
    the first file counts; records without one count each time."""
    counted: dict[str, tuple[Path, Mapping[str, Any]]] = {}
    for path in sorted((home / ".claude").rglob("*.jsonl")):
        for line in path.read_bytes().splitlines():
            record = json.loads(line)
            message = record.get("message") or {}
            if record.get("type") != "assistant" or "usage" not in message:
                continue
            name = identify(message["id"], record.get("requestId", "")) or f"record {len(counted)}"
            first = counted.setdefault(name, (path, record))
            if keeps_last and first[0] == path:
                counted[name] = path, record
    totals: Totals = Counter()
    for _, record in counted.values():
        for kind in KINDS:
            message = record["message"]
            totals[record["timestamp"][:7], message["model"], kind] += message["usage"].get(kind, 0)
    return totals


def _difference_row(name: str, totals: Totals, expected: Totals) -> ResultRow:
    differing = [key for key in totals.keys() | expected.keys() if totals[key] != expected[key]]
    return ResultRow(name=name, ours=[len(differing)], unit="", limit=0)
