"""This module makes the short sessions of a past year, so that statistics have something to show.

A few sentences are combined with fixed pseudo-random numbers, so they are the same each time.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

from store.demo.script import ScriptedCall, ScriptedConversation, ScriptStep
from store.model.entry import Text

FIRST_DAY, LAST_DAY = 27, 360
"""Are the days before now between which the sessions are. The newer ones have a script."""

_SEED = 20
_WORK_DAYS = 0.42
"""Is the share of days with work; on some of them there are several sessions."""

_FOLDERS = ("alpha", "beacon", "quill", "harbour")
_TASKS = (
    ("Sort the release notes", "Sort the release notes by component, newest first.", "CHANGES.md"),
    ("Cache the thumbnails", "Thumbnails are made on every request. Cache them on disk, please.", "thumbnails.py"),
    ("Retry the webhook", "The webhook gives up after one failure. Let it retry with a growing delay.", "webhook.py"),
    ("Split the settings module", "settings.py is 900 lines long. Split it where it makes sense.", "settings.py"),
    ("Explain the slow query", "Why does the report of the month take eight seconds?", "reports.py"),
    ("Type the parser", "Add types to the parser, strict enough for mypy.", "parser.py"),
    ("Find the leaking file handles", "lsof shows thousands of open files after a day. Who leaks?", "watcher.py"),
    ("Paginate the audit log", "The audit log is loaded at once. Paginate it by key, not by offset.", "audit.py"),
    ("Make the build reproducible", "Two builds of one commit differ. Find out where.", "Makefile"),
    ("Translate the emails", "Move the texts of the emails into the translation files.", "emails.py"),
    ("Write a test for the clock change", "The night of the clock change broke the scheduler. Test it.", "schedule.py"),
    ("Review the retry queue", "Please review this branch, above all what happens after a crash.", "queue.py"),
)
_AGENTS = (
    ("claude", "claude-opus-4-1", 3),
    ("claude", "claude-sonnet-4-5", 7),
    ("codex", "gpt-5-codex", 4),
    ("gemini", "gemini-2.5-pro", 2),
    ("opencode", "qwen3-coder", 1),
)
"""Holds agents, their models, and how often each is used."""

_FAILURE = "E   AssertionError: expected 3, got 2\n1 failed, 41 passed in 2.31s"
_SUCCESS = "42 passed in 2.18s"


def build_past_year() -> Iterator[ScriptedConversation]:
    random = Random(_SEED)  # noqa: S311 (nothing is kept secret with it)
    number = 0
    for day in range(FIRST_DAY, LAST_DAY):
        is_busy = random.random() < _WORK_DAYS + 0.3 * (day // 30 % 3 == 0)
        for _ in range(random.choice((1, 1, 1, 2, 3)) if is_busy else 0):
            number += 1
            yield _build_session(random, number, day)


def _build_session(random: Random, number: int, day: int) -> ScriptedConversation:
    source, model, _ = random.choices(_AGENTS, [weight for *_, weight in _AGENTS])[0]
    title, prompt, file = random.choice(_TASKS)
    folder = random.choice(_FOLDERS)
    steps: list[ScriptStep] = []
    for turn in range(random.choice((1, 1, 2, 3))):
        asked = prompt if not turn else random.choice(("Go on.", "Now the tests, please.", "Simpler, if you can."))
        steps += _build_turn(random, asked, f"/home/mira/code/{folder}/{file}")
    return ScriptedConversation(
        source,
        f"past-{number}",
        day + random.gauss(0, 0.12),
        tuple(steps),
        {"agent_title": title, "cwd": f"/home/mira/code/{folder}"},
        model,
    )


def _build_turn(random: Random, prompt: str, path: str) -> Iterator[ScriptStep]:
    yield ScriptStep(role="user", parts=(Text(prompt),), delay_seconds=random.choice((40.0, 95.0, 480.0)))
    for _ in range(random.randint(1, 7)):
        yield ScriptStep(role="assistant", calls=(_build_call(random, path),), delay_seconds=random.uniform(4, 30))
    yield ScriptStep(role="assistant", parts=(Text("Done; the tests pass."),), delay_seconds=8.0)


def _build_call(random: Random, path: str) -> ScriptedCall:
    seconds = random.lognormvariate(0, 1)
    if random.random() < 0.5:
        lines = (f"    step_{n} = prepare(step_{n - 1}, limit={n * 7 % 40})" for n in range(1, random.randint(20, 400)))
        return ScriptedCall("Read", {"file_path": path}, "\n".join(lines), seconds=seconds / 20)
    has_failed = random.random() < 0.2
    return ScriptedCall("Bash", {"command": "pytest -q"}, _FAILURE if has_failed else _SUCCESS, has_failed, seconds)
