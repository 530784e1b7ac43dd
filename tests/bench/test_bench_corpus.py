"""Tests that the benchmark histories are always the same, readable by our sources, and of the promised size."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path

import orjson
import pytest
import zstandard
from bench.corpus import (
    GROWING,
    MB,
    USUAL,
    Counts,
    RealisticShape,
    load_or_make_corpus,
    make_corpus,
    make_realistic_corpus,
)
from bench.dialogues import LAST_WORD
from bench.screens import end_of_burst
from bench.table import ResultRow, format_markdown, format_value

from store.store import Store
from store.sync.refresh import sync_targets
from store.sync.targets import find_targets

TALKS = 20
DIGEST = "a79258801d1d3c19ba9bbd33ef7dbfa891c48209fc4c67ca2bb768488676791d"
SESSIONS = """
    select count(*), sum(relation is 'delegate'), sum(turns), sum(tool_calls), sum(errors), sum(tokens_total),
        sum(first_prompt like 'Task 0000%')
    from sessions group by source
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("corpus")


@pytest.fixture(scope="module")
def counts(home: Path) -> Counts:
    return make_corpus(home, TALKS)


def test_same_bytes_everywhere(home: Path, counts: Counts) -> None:
    digest = hashlib.sha256()
    for path in sorted(path for path in home.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(home)} {path.stat().st_mtime:.0f}\n".encode())
        digest.update(path.read_bytes())
    assert digest.hexdigest() == DIGEST


def test_size_as_promised(home: Path, counts: Counts) -> None:
    files = [path for path in home.rglob("*") if path.is_file()]
    assert counts.size == sum(path.stat().st_size for path in files)
    assert counts.sessions == sum(path.suffix == ".jsonl" for path in files)
    assert counts.talks == TALKS < counts.sessions
    assert 0.05 < counts.spoken / counts.size < 0.08
    assert 70_000 < counts.size / counts.talks < 140_000


def test_our_readers_understand_it(home: Path, counts: Counts) -> None:
    with Store.memory() as store:
        progress = list(sync_targets(store, find_targets([str(home / ".claude"), str(home / ".codex")])))
        reports = {step.report.source: step.report for step in progress}
        assert [report.problems for report in reports.values()] == [[], []]
        assert sum(report.new for report in reports.values()) == counts.sessions
        (hits,) = store.row("select count(*) from conversation_fts where conversation_fts match ?", LAST_WORD)
        assert hits == counts.sessions
        (unpaired,) = store.row("select count(*) from tool_calls where status in ('pending', 'orphan')")
        assert unpaired == 0
        for sessions, delegates, turns, calls, errors, tokens, titled in store.rows(SESSIONS):
            assert 0 < delegates < sessions < turns < calls
            assert 0 < errors < calls
            assert tokens > 0
            assert titled == sessions


def test_made_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made_sizes: list[int] = []

    def make_small_corpus(home: Path, talks: int) -> Counts:
        made_sizes.append(talks)
        home.mkdir(parents=True)
        return Counts(talks, talks, 1_000, 65)

    monkeypatch.setattr("bench.corpus.make_corpus", make_small_corpus)
    first = load_or_make_corpus(tmp_path, 2)
    assert load_or_make_corpus(tmp_path, 2) == first
    assert made_sizes == [20]
    (first.home / "counted.json").unlink()
    load_or_make_corpus(tmp_path, 2)
    assert made_sizes == [20, 20]


def test_answer_ends_with_its_burst() -> None:
    assert end_of_burst([1.0]) == 1.0
    assert end_of_burst([1.0, 1.1, 1.2, 1.5, 1.55]) == 1.2


@pytest.mark.parametrize(
    ("row", "is_met"),
    [
        (ResultRow(name="n", ours=[1.0, 2.0, 9.0], baseline=[4.0], ratio=0.5), True),
        (ResultRow(name="n", ours=[3.0], baseline=[4.0], ratio=0.5), False),
        (ResultRow(name="n", ours=[1.0], baseline=[4.0], ratio=0.5, limit=0.9), False),
        (ResultRow(name="n", ours=[1.0, 3.0], limit=2), False),
        (ResultRow(name="n", ours=[1.0], baseline=[2.0]), None),
        (ResultRow(name="n", ours=[1.0], ratio=0.5, baseline_failure="it is not there"), None),
        (ResultRow(name="n", ours=[1.0], baseline=[4.0], ratio=0.5, failure="it ended once"), False),
        (ResultRow(name="n", ours=[], baseline=[1.0], ratio=0.5, failure="it ended"), False),
    ],
)
def test_target_met(row: ResultRow, is_met: bool | None) -> None:
    assert row.is_met is is_met


def test_table_shows_every_result() -> None:
    measured = ResultRow(name="import", ours=[0.25, 0.5, 2.0], baseline=[1.0], baseline_name="peer", ratio=0.6)
    missing = ResultRow(
        name="launch", ours=[0.05], ratio=0.5, baseline_failure="peer cannot be installed: no such package"
    )
    broken = ResultRow(name="typing", ours=[], baseline=[1.0, 3.0], baseline_name="peer", ratio=0.5, failure="it ended")
    lines = format_markdown([measured, missing, broken]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == [
        "import",
        "500 ms",
        "1.00 s peer",
        "0.50x",
        "≤ 0.6x",
        "yes",
        "250 ms – 2.00 s",
        "–",
    ]
    assert "cannot be installed" in lines[3]
    assert "it ended" in lines[4]
    assert "**no**" in lines[4]


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [(0.0123, "s", "12.3 ms"), (0.5, "s", "500 ms"), (2, "s", "2.00 s"), (123.4, "MB", "123 MB"), (0, "", "0")],
)
def test_values_are_formatted_with_their_unit(value: float, unit: str, text: str) -> None:
    assert format_value(value, unit) == text


@pytest.fixture(scope="module")
def realistic_homes(tmp_path_factory: pytest.TempPathFactory) -> dict[RealisticShape, Path]:
    homes = {shape: tmp_path_factory.mktemp(shape.name) for shape in (USUAL, GROWING)}
    for shape, home in homes.items():
        make_realistic_corpus(home, shape, 30 * MB)
    return homes


@pytest.mark.parametrize("shape", [USUAL, GROWING])
def test_realistic_histories_have_the_shares_of_real_ones(
    shape: RealisticShape, realistic_homes: dict[RealisticShape, Path]
) -> None:
    sizes, copies = count_claude_bytes(realistic_homes[shape])
    total = sum(sizes.values())
    assert 0.5 < sizes["result"] / total < 0.7
    assert 0.35 < copies / total < 0.5
    assert 0.15 < sizes["progress"] / total < 0.25
    assert max(path.stat().st_size for path in realistic_homes[shape].rglob("*.jsonl")) > 4 * MB


def test_growing_histories_have_more_new_words(realistic_homes: dict[RealisticShape, Path]) -> None:
    usual, growing = map(compressed_share, realistic_homes.values())
    assert 0.1 < usual < 0.16
    assert growing > 1.3 * usual


def test_realistic_histories_can_be_read(realistic_homes: dict[RealisticShape, Path]) -> None:
    home = realistic_homes[USUAL]
    with Store.memory() as store:
        targets = find_targets([str(home / folder) for folder in (".claude", ".codex", ".pi/agent")])
        reports = {step.report.source: step.report for step in sync_targets(store, targets)}
        assert [report.problems for report in reports.values()] == [[], [], []]
        (listed,) = store.row("select count(*) from sessions where relation is null")
        assert listed == len(list(home.rglob("*.jsonl")))
        (forks,) = store.row("select count(*) from sessions where relation = 'fork'")
        assert forks > 0
        (unpaired,) = store.row("select count(*) from tool_calls where status in ('pending', 'orphan')")
        assert unpaired == 0


def count_claude_bytes(home: Path) -> tuple[dict[str, int], int]:
    """Return the bytes of the records of each kind, and those of the copies of tool results."""
    sizes: Counter[str] = Counter()
    copies = 0
    for path in (home / ".claude").rglob("*.jsonl"):
        for line in path.read_bytes().splitlines():
            record = orjson.loads(line)
            is_result = "toolUseResult" in record
            sizes["result" if is_result else record["type"]] += len(line)
            copies += len(orjson.dumps(record["toolUseResult"])) if is_result else 0
    return dict(sizes), copies


def compressed_share(home: Path) -> float:
    """Return the compressed size of all files as a share of their size, compressed 1 MB at a time as the store does."""
    compress = zstandard.ZstdCompressor(level=1).compress
    files = [path.read_bytes() for path in home.rglob("*.jsonl")]
    blocks = [data[start : start + MB] for data in files for start in range(0, len(data), MB)]
    return sum(len(compress(block)) for block in blocks) / sum(map(len, files))
