"""This module measures the scanner for leaks: its speed, and which of the planted secrets it finds."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from bench.corpus import MB, USUAL, load_or_make_realistic_corpus
from bench.table import ResultRow

from store.leaks.rule_table import RULES
from store.leaks.scanner import Scanner, load_scanner

TARGET_MB_PER_SECOND = 25
PLANTED_RULES = [rule for rule in RULES if rule.prefix]
"""Are the kinds with a prefix of their own. Their examples differ from everything that a history has by chance."""


class Quality(NamedTuple):
    found: int
    missed: int
    spurious: int


def measure(folder: Path, megabytes: int, runs: int) -> list[ResultRow]:
    corpus = load_or_make_realistic_corpus(folder, USUAL, megabytes)
    texts = [path.read_bytes() for path in sorted(corpus.home.rglob("*.jsonl"))]
    scanner = load_scanner()
    size = sum(map(len, texts)) / MB
    seconds = [time_scan(scanner, texts) * TARGET_MB_PER_SECOND / size for _ in range(runs)]
    quality = plant_and_scan(scanner, texts)
    kinds = len(PLANTED_RULES)
    return [
        ResultRow(name=f"scan for leaks, processor time for {TARGET_MB_PER_SECOND} MB", ours=seconds, limit=1),
        ResultRow(name=f"planted secrets of {kinds} kinds that it finds", ours=[quality.found], unit=""),
        ResultRow(name="the same, missed", ours=[quality.missed], unit="", limit=0),
        ResultRow(name="spurious leaks that are certain or likely", ours=[quality.spurious], unit=""),
    ]


def time_scan(scanner: Scanner, texts: list[bytes]) -> float:
    started = time.process_time()
    for text in texts:
        scanner.scan_bytes(text)
    return time.process_time() - started


def plant_and_scan(scanner: Scanner, texts: list[bytes]) -> Quality:
    """Compare what is found in records with planted secrets, and in histories without any, with what should be.

    The secrets are the made-up examples of our own rules. So a miss is a fault of the scanner, but no miss does not
    prove that the rules are right.
    """
    found, spurious = set(), 0
    for number, text in enumerate(texts):
        rules = PLANTED_RULES[number :: len(texts)]
        records = [json.dumps({"content": f"It printed\n{rule.example}\nand ended."}) for rule in rules]
        planted = "\n".join(records).encode()
        counts = Counter(match.rule for match in scanner.scan_bytes(planted))
        found |= {rule.id for rule in rules if counts[rule.id]}
        spurious += sum(match.tier != "possible" for match in scanner.scan_bytes(text))
    return Quality(len(found), len(PLANTED_RULES) - len(found), spurious)
