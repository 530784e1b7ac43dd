"""What stands in the JSON of a foreign row may be anything: it is one problem at most, and its neighbours come."""

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
PLACES = {"pingu": ("turns", "response_json"), "rubichan": ("messages", "content")}


@st.composite
def spoiled_json(draw: st.DrawFn, name: str) -> str:
    """As it should be but for a value somewhere, or cut, or with a character changed."""
    shape = SHAPES[name]
    for _ in range(draw(st.integers(1, 3))):
        shape = replace_at_path(shape, draw(st.sampled_from(list(json_paths(shape)))), draw(ANY_JSON))
    spelled = json.dumps(shape, ensure_ascii=draw(st.booleans())).encode("utf-8", "replace").decode()
    at = draw(st.integers(0, len(spelled)))
    other = draw(st.characters(codec="utf-8"))
    return draw(st.sampled_from([spelled, spelled[:at], spelled[:at] + other + spelled[at + 1 :]]))


@pytest.fixture(scope="module")
def around(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Path]]:
    """Made once for all that will be tried."""
    folder = tmp_path_factory.mktemp("json")
    for kind in OURS:
        kind.build(folder / kind.name)
    with Store.open(folder / "store.db") as store:
        yield store, folder


@pytest.mark.parametrize("kind", OURS, ids=str)
@given(data=st.data())
def test_whatever_stands_in_json(around: tuple[Store, Path], kind: StoreKind, data: st.DataObject) -> None:
    store, folder = around
    table, column = PLACES[kind.name]
    path = folder / f"{store.connection.total_changes}.db"
    shutil.copy(folder / kind.name, path)
    corrupt_column(path, table, column, data.draw(spoiled_json(kind.name)))
    problems = sync_paths(store, path).problems
    assert {problem.where for problem in problems} <= {f"{table}:1"}
    assert neighbour_texts(store, path) == [PROMPT_TEXT, ANSWER_TEXT]
    path.unlink()
