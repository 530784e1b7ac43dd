"""These tests check that tokens read from a cache and tokens written to one are counted apart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import sync_paths
from source_samples import SAMPLES

from store.cli.json_output import session_to_json
from store.formats.content_blocks import parse_response_tokens
from store.model.entry import Tokens
from store.store import Store

COPILOT_USAGE = {"inputTokens": 100, "outputTokens": 20, "cacheReadTokens": 40, "cacheWriteTokens": 10}
TO_FIRST_VERSION = """
    update entries set tokens = json_array(tokens ->> 0, tokens ->> 1, (tokens ->> 2) + (tokens ->> 3))
    where tokens is not null
"""


def write_copilot_session(path: Path, *events: tuple[str, dict[str, Any]]) -> None:
    path.parent.mkdir(parents=True)
    lines = [
        {"type": kind, "id": f"e{n}", "parentId": None, "timestamp": f"2026-05-01T10:00:0{n}.000Z", "data": data}
        for n, (kind, data) in enumerate([("session.start", {"sessionId": "s1"}), *events])
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.mark.parametrize(
    ("event", "output"),
    [
        (("session.usage_record", {"usage": COPILOT_USAGE}), 20),
        (("session.shutdown", {"modelMetrics": {"claude-opus": {"usage": COPILOT_USAGE}}}), 0),
    ],
    ids=["each call", "at the end"],
)
def test_the_input_of_copilot_includes_what_was_read_and_written(
    tmp_path: Path, store: Store, event: tuple[str, dict[str, Any]], output: int
) -> None:
    path = tmp_path / ".copilot/session-state/s1/events.jsonl"
    write_copilot_session(path, ("user.message", {"content": "Go"}), event)
    sync_paths(store, tmp_path / ".copilot")
    (session,) = store.sessions.newest()
    assert session_to_json(store, session)["tokens"] == {
        "input": 50,
        "output": output,
        "cached": 50,
        "cache_read": 40,
        "cache_write": 10,
        "cache_write_5m": 10,
        "cache_write_1h": 0,
        "reasoning": 0,
        "total": 100 + output,
    }


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"input_tokens": 9, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 4}}, Tokens(5, 3, 4)),
        (
            {
                "input_tokens": 9,
                "output_tokens": 3,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 2,
            },
            Tokens(9, 3, 4, 2),
        ),
    ],
    ids=["OpenAI", "Anthropic"],
)
def test_a_response_has_the_meaning_of_its_vendor(usage: dict[str, Any], tokens: Tokens) -> None:
    assert parse_response_tokens({"usage": usage}) == tokens


def test_a_session_of_the_first_version_has_one_number_until_it_is_read_again(tmp_path: Path, store: Store) -> None:
    sample = SAMPLES["claude"](tmp_path)
    sync_paths(store, sample)
    counts = {session.id: session_to_json(store, session)["tokens"] for session in store.sessions.newest(100)}
    assert any(count["cache_write"] for count in counts.values())
    with store.transaction() as connection:
        connection.execute(TO_FIRST_VERSION)
        connection.execute("update sessions set tokens_cache_write = null where tokens_cached > 0")
        connection.execute("update sessions set stamp = '1:' || substr(stamp, 3)")
        connection.execute("update sources set marks = json_set(marks, '$.reader', 1)")
    for session in store.sessions.newest(100):
        unknown = {"cache_read": None, "cache_write": None} if session.tokens_cached else {}
        assert session_to_json(store, session)["tokens"] == counts[session.id] | unknown
    sync_paths(store, sample)
    assert {session.id: session_to_json(store, session)["tokens"] for session in store.sessions.newest(100)} == counts
