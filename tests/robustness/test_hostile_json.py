"""These tests corrupt the JSON of a foreign row: it is at most one problem, and other sessions are read."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from corruptible_stores import ANSWER_TEXT, PROMPT_TEXT, STORE_KINDS, StoreKind, corrupt_column, neighbour_texts
from foreign_databases import sync_paths
from hypothesis import given
from hypothesis import strategies as st
from transcript_fuzzer import ANY_JSON, json_paths, replace_at_path

from store.store import Store

OURS = [kind for kind in STORE_KINDS if kind.name in ("pingu", "rubichan")]
SHAPES: dict[str, Any] = {
    "pingu": {
        "id": "r",
        "object": "response",
        "model": "m",
        "output": [
            {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "hm"}], "raw": {"type": "x"}},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
            {"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"},
            {"type": "web_search_call", "id": "w", "status": "completed", "action": {"query": "q"}, "results": []},
        ],
        "usage": {"input_tokens": 9, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 1}},
    },
    "rubichan": [
        {"type": "text", "text": "yes"},
        {"type": "thinking", "text": "hm", "signature": "s"},
        {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1}},
        {"type": "tool_result", "tool_use_id": "t", "text": "out", "is_error": True},
        {"type": "image", "source": {"media_type": "image/png", "data": "aGk="}, "title": "t"},
    ],
}
JSON_COLUMNS = {"pingu": ("turns", "response_json"), "rubichan": ("messages", "content")}


@st.composite
def generate_corrupted_json(draw: st.DrawFn, name: str) -> str:
    """Generate valid JSON with some changed values, which may also be truncated or have one character changed."""
    shape = SHAPES[name]
    for _ in range(draw(st.integers(1, 3))):
        shape = replace_at_path(shape, draw(st.sampled_from(list(json_paths(shape)))), draw(ANY_JSON))
    text = json.dumps(shape, ensure_ascii=draw(st.booleans())).encode("utf-8", "replace").decode()
    index = draw(st.integers(0, len(text)))
    character = draw(st.characters(codec="utf-8"))
    return draw(st.sampled_from([text, text[:index], text[:index] + character + text[index + 1 :]]))


@pytest.fixture(scope="module")
def store_and_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Path]]:
    """Build the databases once for all examples."""
    folder = tmp_path_factory.mktemp("json")
    for kind in OURS:
        kind.build(folder / kind.name)
    with Store.open(folder / "store.db") as store:
        yield store, folder


@pytest.mark.parametrize("kind", OURS, ids=str)
@given(data=st.data())
def test_corrupted_json_is_at_most_one_problem(
    store_and_folder: tuple[Store, Path], kind: StoreKind, data: st.DataObject
) -> None:
    store, folder = store_and_folder
    table, column = JSON_COLUMNS[kind.name]
    path = folder / f"{store.connection.total_changes}.db"
    shutil.copy(folder / kind.name, path)
    corrupt_column(path, table, column, data.draw(generate_corrupted_json(kind.name)))
    problems = sync_paths(store, path).problems
    assert {problem.where for problem in problems} <= {f"{table}:1"}
    assert neighbour_texts(store, path) == [PROMPT_TEXT, ANSWER_TEXT]
    path.unlink()
