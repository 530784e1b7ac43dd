"""These tests compare the answers of the command line with recorded ones, for a store of 0.1.0 and for samples."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from answers import answer_all, comparable, load_answers, open_old_store, sync_samples

from store.sources.claude_code.append import ClaudeMark
from store.sources.codex.append import CodexMark
from store.store import Store
from store.usage.rederive import rederive_usage

SAME_RESPONSE_TOKENS = 120


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    return load_answers()


def test_store_of_the_first_version_gives_the_same_answers(tmp_path: Path, recorded: dict[str, Any]) -> None:
    began = datetime.now(UTC)
    with open_old_store(tmp_path) as store:
        _compare(comparable(answer_all(store), tmp_path, began), recorded["old store"])


def test_samples_give_the_same_answers(tmp_path: Path, store: Store, recorded: dict[str, Any]) -> None:
    began = datetime.now(UTC)
    synced = sync_samples(store, tmp_path)
    _compare(comparable(synced | answer_all(store), tmp_path, began), recorded["samples"])


def _compare(answers: dict[str, Any], expected: dict[str, Any]) -> None:
    """Compare command by command, since the difference of all answers together would be unreadable."""
    assert sorted(answers) == sorted(expected)
    for command, answer in answers.items():
        assert _known_fields(answer, expected[command]) == expected[command], command


def _known_fields(answer: Any, expected: Any) -> Any:
    """Return an answer without the fields that were added since the expected answer was recorded."""
    if isinstance(answer, dict) and isinstance(expected, dict):
        return {name: _known_fields(value, expected[name]) for name, value in answer.items() if name in expected}
    if isinstance(answer, list) and isinstance(expected, list) and len(answer) == len(expected):
        return [_known_fields(*pair) for pair in zip(answer, expected, strict=True)]
    return answer


def test_usage_of_the_first_version_is_derived_from_its_records(tmp_path: Path) -> None:
    with open_old_store(tmp_path) as store:
        assert store.usage.collect("agent").totals.tokens.total == 0
        list(rederive_usage(store))
        expected = dict(store.rows("select source, sum(tokens_total) from sessions where deleted = 0 group by 1"))
        found = {row.key: row.figures.tokens.total for row in store.usage.collect("agent").rows}
        # Two sessions of the sample have a response with the same time and numbers, which counts as a copy now.
        found["opencode"] += SAME_RESPONSE_TOKENS
        assert {agent: total for agent, total in found.items() if total} == {
            agent: total for agent, total in expected.items() if total
        }


def test_marks_of_the_first_version_are_still_understood(tmp_path: Path) -> None:
    with open_old_store(tmp_path) as store:
        for source, mark_class in (("claude", ClaudeMark), ("codex", CodexMark)):
            marks = [
                mark for (mark,) in store.rows("select mark from sessions where source = ? and mark != ''", source)
            ]
            assert marks
            assert [mark_class.decode(mark) for mark in marks if mark_class.decode(mark) is None] == []
