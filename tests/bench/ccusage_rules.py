"""This module shows by which rules ccusage and Backscroll differ: each is alone in a month of a made-up history.

What both programs must report is worked out by hand. So a month that agrees with it shows that the rule is the whole
difference, and that it is meant.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

SONNET, OPUS = "claude-sonnet-4-5", "claude-opus-4-6"
# Sonnet 4.5 costs 3 (input), 15 (output), 0.30 (cache read), 3.75 and 6 dollars (cache writes) per million tokens, and
# 6, 22.50, 0.60, 7.50 and 12 dollars if a request has more than 200,000 tokens of input. Opus 4.6 costs 5 for input.


class Total(NamedTuple):
    """Holds what a program reports for a month."""

    tokens: int
    micro_dollars: int


class Rule(NamedTuple):
    name: str
    records: tuple[Mapping[str, Any], ...]
    ours: Total
    theirs: Total


def record(usage: Mapping[str, Any], *, model: str = SONNET, message: str = "", **fields: Any) -> Mapping[str, Any]:
    """Return a record. Those with the same message are of one response."""
    return {"message": {"id": message, "model": model, "usage": usage}} | fields


def usage(tokens: int = 1_000, output: int = 0, **fields: Any) -> Mapping[str, Any]:
    return {"input_tokens": tokens, "output_tokens": output} | fields


_LONG_LIVED = {"cache_creation_input_tokens": 1_000, "cache_creation": {"ephemeral_1h_input_tokens": 1_000}}

RULES = (
    Rule(
        "no difference",
        (record(usage(1_000, 100, cache_read_input_tokens=1_000, cache_creation_input_tokens=100)),),
        Total(2_200, 3_000 + 1_500 + 300 + 375),
        Total(2_200, 3_000 + 1_500 + 300 + 375),
    ),
    Rule(
        "a response that was streamed over two records: the last one, or the first one",
        (record(usage(1_000, 1), message="streamed"), record(usage(1_000, 100), message="streamed")),
        Total(1_100, 3_000 + 1_500),
        Total(1_001, 3_000 + 15),
    ),
    Rule(
        "two records of a response without a request id: once, or each",
        (record(usage(), message="twice", requestId=None), record(usage(), message="twice", requestId=None)),
        Total(1_000, 3_000),
        Total(2_000, 6_000),
    ),
    Rule(
        "cache writes for an hour: their own rate, or that of five minutes",
        (record(usage(0, **_LONG_LIVED)),),
        Total(1_000, 6_000),
        Total(1_000, 3_750),
    ),
    Rule(
        "a long context: the whole request, or only the tokens of a kind above the threshold",
        (record(usage(10_000, 2_000, cache_read_input_tokens=195_000)),),
        Total(207_000, 60_000 + 117_000 + 45_000),
        Total(207_000, 30_000 + 58_500 + 30_000),
    ),
    Rule(
        "costUSD in a record: kept beside the API value, or taken instead",
        (record(usage(), costUSD=0.5),),
        Total(1_000, 3_000),
        Total(1_000, 500_000),
    ),
    Rule(
        "a model without a price: unpriced, or 0", (record(usage(), model="unknown"),), Total(1_000, 0), Total(1_000, 0)
    ),
    Rule(
        "a number below 0: absent, or subtracted",
        (record(usage(1_000, -100)),),
        Total(1_000, 3_000),
        Total(900, 3_000),
    ),
    Rule(
        "a missing number: the others count, or none",
        (record({"output_tokens": 100}),),
        Total(100, 1_500),
        Total(0, 0),
    ),
    Rule(
        "fast mode: no difference, each with a name of its own",
        (record(usage(speed="fast"), model=OPUS),),
        Total(1_000, 30_000),
        Total(1_000, 30_000),
    ),
    Rule(
        "a batch: half, or the usual rate",
        (record(usage(service_tier="batch")),),
        Total(1_000, 1_500),
        Total(1_000, 3_000),
    ),
)
"""Holds a rule for each month of 2026. The one about batches is in November, when their rates were in force."""


def write_history(home: Path) -> None:
    """Write a transcript of Claude Code with a session for each rule."""
    folder = home / ".claude" / "projects" / "-work"
    folder.mkdir(parents=True, exist_ok=True)
    for number, rule in enumerate(RULES):
        session = f"{number:08}-0000-4000-8000-000000000000"
        lines = [json.dumps(line) for line in _complete_records(session, find_month(number), rule)]
        (folder / f"{session}.jsonl").write_text("\n".join(lines) + "\n")


def find_month(number: int) -> str:
    """Return the month of a rule."""
    return f"2026-{number + 1:02}"


def _complete_records(session: str, month: str, rule: Rule) -> Iterator[Mapping[str, Any]]:
    common = {"sessionId": session, "cwd": "/work", "version": "2.1.0", "timestamp": f"{month}-10T12:00:00.000Z"}
    prompt = {"role": "user", "content": rule.name}
    yield common | {"type": "user", "uuid": f"{session}-0", "parentUuid": None, "message": prompt}
    for number, given in enumerate(rule.records, start=1):
        content = [{"type": "text", "text": "done"}]
        message_id = f"msg_{session}_{given['message']['id']}"
        message = given["message"] | {"id": message_id, "role": "assistant", "content": content}
        links = {"uuid": f"{session}-{number}", "parentUuid": f"{session}-{number - 1}", "type": "assistant"}
        line = common | links | {"requestId": f"req_{session}"} | given | {"message": message}
        yield {name: value for name, value in line.items() if value is not None}
