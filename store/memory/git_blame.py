"""This module asks git who committed the lines of a file.

A repository can configure programs that git would run. So git is only asked about a commit, never about the files in
the work tree, and everything that could start a program or use the network is switched off.
"""

from __future__ import annotations

import os
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from store.memory.lines import split_lines
from store.model.memory import LineOrigin
from store.paths import find_program
from store.resume.git import find_work_tree

TIMEOUT_SECONDS = 10.0
MAX_OUTPUT_BYTES = 64 * 1024 * 1024

_SAFE_OPTIONS = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "diff.external=",
    "core.pager=cat",
    "protocol.allow=never",
    "blame.ignoreRevsFile=",
)
_SAFE_ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}


def read_commits(path: Path) -> dict[str, LineOrigin]:
    """Return the commit of each committed fact of a file, by the id of the fact. Without git, there is none."""
    folder = path.parent
    git = find_program("git")
    if not git or find_work_tree(folder) is None:
        return {}
    options = [word for option in _SAFE_OPTIONS for word in ("-c", option)]
    command = [
        git,
        "-C",
        str(folder),
        *options,
        "blame",
        "--porcelain",
        "--no-textconv",
        "HEAD",
        "--",
        f"./{path.name}",
    ]
    # Variables such as GIT_DIR would lead git to another repository.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    try:
        ran = subprocess.run(
            command,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=TIMEOUT_SECONDS,
            env=environment | _SAFE_ENVIRONMENT,
        )
    except (OSError, subprocess.TimeoutExpired):
        return {}
    if ran.returncode or len(ran.stdout) > MAX_OUTPUT_BYTES:
        return {}
    return _assign_commits(path, *_parse_porcelain(ran.stdout.decode("utf-8", "replace")))


def _assign_commits(path: Path, texts: list[str], origins: list[LineOrigin]) -> dict[str, LineOrigin]:
    """Return the newest commit of the lines that make up each fact."""
    found: dict[str, LineOrigin] = {}
    for line in split_lines(str(path), "\n".join(texts)):
        found[line.id] = max(origins[line.number - 1 : line.last_number], key=lambda origin: origin.at)
    return found


def _parse_porcelain(output: str) -> tuple[list[str], list[LineOrigin]]:
    """Return the lines of the file and the commit of each."""
    commits: dict[str, dict[str, str]] = {}
    texts: list[str] = []
    origins: list[LineOrigin] = []
    commit, is_header = "", True
    for line in output.split("\n"):
        if line.startswith("\t"):
            texts.append(line[1:])
            origins.append(_build_origin(commit, commits[commit]))
            is_header = True
        elif is_header:
            commit, is_header = line.partition(" ")[0], False
            commits.setdefault(commit, {})
        else:
            name, _, value = line.partition(" ")
            commits[commit][name] = value
    return texts, origins


def _build_origin(commit: str, fields: dict[str, str]) -> LineOrigin:
    seconds = int(fields.get("author-time", "0"))
    at = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    author, summary = fields.get("author", ""), fields.get("summary", "")
    return LineOrigin("commit", at, commit=commit, author=author, summary=summary)
