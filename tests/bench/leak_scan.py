"""This module measures the scanner for leaks, and an export, which scans its own texts.

The planted secrets are made-up examples of well-known kinds, made from the shapes in our own table. So a miss of ours
is a fault of the scanner, but no miss does not prove that the shapes are right; and a miss of another program may be
another opinion about a shape.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.corpus import MB, USUAL, load_or_make_realistic_corpus
from bench.dialogues import SEED
from bench.leak_peers import PEERS, PeerResult, run_peer
from bench.processes import BenchmarkError, isolated_environment, run_measured
from bench.prose import Prose
from bench.table import ResultRow
from bench.workspace import Workspace

from store.leaks.rule_table import RULES_BY_ID
from store.leaks.scanner import Scanner, load_scanner
from store.model.entry import NewEntry, Text, ToolCall, ToolResult, part_to_json
from store.store import Store
from store.text.validate import encode

TARGET_MB_PER_SECOND = 25
HTML_SECONDS = 2.0
HTML_MEGABYTES = 15
PLANTED = """
    github-personal-access-token github-oauth-token github-installation-token github-fine-grained-token
    gitlab-personal-access-token gitlab-deploy-token gitlab-runner-token gitlab-pipeline-trigger-token
    atlassian-api-token aws-access-key google-api-key google-oauth-client-secret azure-client-secret
    digitalocean-personal-token heroku-api-key fly-access-token vault-service-token pulumi-access-token
    doppler-personal-token openai-project-key openai-legacy-key anthropic-api-key anthropic-admin-key huggingface-token
    perplexity-key openrouter-key slack-bot-token slack-user-token slack-webhook telegram-bot-token
    sendgrid-key brevo-key stripe-secret-key square-access-token shopify-access-token npm-token pypi-token rubygems-key
    jfrog-api-key postman-key databricks-token planetscale-token grafana-service-account-token sentry-user-token
    new-relic-user-key notion-token linear-key airtable-token figma-token dynatrace-token age-secret-key
    rsa-private-key openssh-private-key json-web-token url-password
""".split()
"""Names well-known kinds of secrets."""


def measure(folder: Path, megabytes: int, runs: int) -> list[ResultRow]:
    corpus = load_or_make_realistic_corpus(folder, USUAL, megabytes)
    paths = sorted(corpus.home.rglob("*.jsonl"))
    texts = [path.read_bytes() for path in paths]
    size = sum(map(len, texts)) / MB
    scanner = load_scanner()
    planted = [_plant(scanner, name) for name in PLANTED]
    ours = PeerResult(
        [_time_scan(scanner, texts) for _ in range(runs)],
        sum(_finds(scanner, text, value) for text, value in planted),
        sum(match.tier != "possible" for text in texts for match in scanner.scan_bytes(text)),
    )
    peers = {name: _run_peer(folder, name, paths, planted) for name in PEERS}
    return [*_speed_rows(ours.seconds, peers, size), *_quality_rows(ours, peers), *_measure_html(runs)]


def _run_peer(
    folder: Path, name: str, paths: list[Path], planted: list[tuple[str, str]]
) -> PeerResult | BenchmarkError:
    try:
        return run_peer(folder, name, paths, planted)
    except BenchmarkError as reason:
        return reason


def _plant(scanner: Scanner, name: str) -> tuple[str, str]:
    """Return a text with a made-up secret, and the secret."""
    text = f"It printed\n{RULES_BY_ID[name].example}\nand ended."
    match = next(match for match in scanner.scan(text) if match.rule == name)
    return text, text[match.start : match.end]


def _time_scan(scanner: Scanner, texts: list[bytes]) -> float:
    started = time.process_time()
    for text in texts:
        scanner.scan_bytes(text)
    return time.process_time() - started


def _finds(scanner: Scanner, text: str, value: str) -> bool:
    return any(value in text[match.start : match.end] for match in scanner.scan(text))


def _speed_rows(seconds: list[float], peers: Mapping[str, PeerResult | BenchmarkError], size: float) -> list[ResultRow]:
    name = f"scan for leaks, processor time for {TARGET_MB_PER_SECOND} MB"

    def per_target(seconds: list[float]) -> list[float]:
        return [one * TARGET_MB_PER_SECOND / size for one in seconds]

    rows = []
    for peer, result in peers.items():
        failure = str(result) if isinstance(result, BenchmarkError) else ""
        baseline = [] if isinstance(result, BenchmarkError) else per_target(result.seconds)
        rows.append(
            ResultRow(
                name=name,
                ours=per_target(seconds),
                baseline=baseline,
                baseline_name=peer,
                baseline_failure=failure,
                limit=1,
            )
        )
    return rows


def _quality_rows(ours: PeerResult, peers: Mapping[str, PeerResult | BenchmarkError]) -> list[ResultRow]:
    rows = []
    for peer, result in peers.items():
        if isinstance(result, BenchmarkError):
            continue
        kinds = len(PLANTED)
        for name, of_ours, of_peer, limit in (
            (f"planted secrets of {kinds} kinds, found", ours.found, result.found, None),
            ("the same, missed", kinds - ours.found, kinds - result.found, 0),
            ("spurious leaks in the same histories", ours.spurious, result.spurious, None),
        ):
            row = ResultRow(name=name, ours=[of_ours], baseline=[of_peer], baseline_name=peer, unit="", limit=limit)
            rows.append(row)
    return rows


# ── an export ─────────────────────────────────────────────────────────────────────────────────────


def _measure_html(runs: int) -> list[ResultRow]:
    """Export a session of 15 MB as HTML, by the command line: its texts are scanned for leaks, too."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "store.db")
        with Store.open(path) as store:
            _add_large_session(store)
        program = Path(sys.executable).with_name("backscroll")
        environment = isolated_environment(Path(folder), Path(folder, "state")) | {"BACKSCROLL_STORE": str(path)}
        command = [program, "export", "large", "--as", "html", "--force", "-o", str(Path(folder, "large.html"))]
        used = [run_measured(command, environment) for _ in range(runs)]
    name = f"HTML of a session of {HTML_MEGABYTES} MB"
    return [
        ResultRow(name=name, ours=[one.seconds for one in used], limit=HTML_SECONDS),
        ResultRow(name=f"{name}, processor time", ours=[one.processor_seconds for one in used]),
        ResultRow(name=f"{name}, peak memory", ours=[one.peak_megabytes for one in used], unit="MB"),
    ]


def _add_large_session(store: Store) -> None:
    rng, prose = random.Random(SEED), Prose(str(SEED))
    workspace = Workspace(1, prose, 0.2)
    session, size, number = store.sessions.create("large"), 0, 0
    while size < HTML_MEGABYTES * MB:
        number += 1
        output = workspace.make_output(rng, 400)
        call = ToolCall(f"c{number}", "Bash", {"command": f"pytest {workspace.make_path(rng)}"})
        entries = [
            NewEntry(role="user", parts=(Text(prose.make_phrase(rng, 30)),)),
            NewEntry(role="assistant", parts=(Text(prose.make_phrase(rng, 120)), call)),
            NewEntry(role="tool", parts=(ToolResult(call.id, output),)),
        ]
        size += sum(len(encode(part_to_json(part))) for entry in entries for part in entry.parts)
        store.chains.append(session.key, entries)
