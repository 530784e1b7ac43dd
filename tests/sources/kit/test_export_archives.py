"""These tests split a huge array into its objects, with brackets in strings and chunks of any size."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import sync_paths
from hypothesis import given
from hypothesis import strategies as st
from source_samples import DATA

from store.errors import Unreadable
from store.sources.contract import Problem
from store.sources.kit import exports
from store.sources.kit.exports import ExportMessage, sort_parents_first, split_array
from store.sources.kit.transcripts import Node
from store.store import Store

NESTED = st.recursive(
    st.none() | st.integers() | st.text('a"\\[]{},: \n', max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('x"[}\\', max_size=3), inner, max_size=3),
    max_leaves=6,
)


class Dripping(io.BytesIO):
    """Returns few bytes at a time, so that every token is cut somewhere."""

    def __init__(self, data: bytes, max_bytes: int) -> None:
        super().__init__(data)
        self._max_bytes = max_bytes

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(self._max_bytes)


def split(data: bytes, chunk_bytes: int = 1 << 20) -> tuple[list[Any], list[Problem]]:
    problems: list[Problem] = []
    objects = []
    for item in split_array(Dripping(data, chunk_bytes), "x", problems):
        assert data[item.offset : item.offset + len(item.data)] == item.data
        objects.append(json.loads(item.data))
    return objects, problems


@given(st.lists(st.dictionaries(st.text('k"[{', max_size=3), NESTED, max_size=3), max_size=5), st.integers(1, 40))
def test_every_object_is_complete_for_any_size_of_chunks(values: list[dict[str, Any]], chunk_bytes: int) -> None:
    for indent in (None, 1):
        data = json.dumps(values, indent=indent).encode()
        assert split(data, chunk_bytes) == (values, [])


def test_other_values_are_skipped() -> None:
    assert split(b'\xef\xbb\xbf [1, "{", [{"in": 1}], {"a": 1}, null, {"b": 2}]') == ([{"a": 1}, {"b": 2}], [])


def test_an_incomplete_file_yields_the_complete_objects_and_a_problem() -> None:
    objects, problems = split(b'[{"a": 1}, {"b": "')
    assert (objects, len(problems)) == ([{"a": 1}], 1)


def test_an_object_by_itself_is_one_item() -> None:
    assert split(b' {"a": {"b": [{"c": 1}]}}\n') == ([{"a": {"b": [{"c": 1}]}}], [])


def test_a_file_that_is_no_list_is_a_problem() -> None:
    objects, problems = split(b'"a"')
    reason = "It is neither a conversation nor a list of them."
    assert (objects, [problem.reason for problem in problems]) == ([], [reason])


@pytest.mark.parametrize("name", ["chatgpt", "claude-ai"])
def test_a_conversation_saved_by_itself_is_read_when_named(tmp_path: Path, store: Store, name: str) -> None:
    conversations = json.loads((DATA / name / "conversations.json").read_bytes())
    with Store.open(tmp_path / "whole.db") as whole:
        sync_paths(whole, DATA / name)
        expected = {session.native_id: (session.title, session.turns) for session in whole.sessions.newest(100)}
    for n, conversation in enumerate(conversations):
        path = tmp_path / f"saved {n}.json"
        path.write_text(json.dumps(conversation))
        if {conversation.get("conversation_id"), conversation.get("id"), conversation.get("uuid")} & expected.keys():
            assert sync_paths(store, path).source == name
    assert {session.native_id: (session.title, session.turns) for session in store.sessions.newest(100)} == expected


def test_a_saved_conversation_of_claude_ai_names_the_branch_in_use(tmp_path: Path, store: Store) -> None:
    texts = {"u1": "Hello", "a1": "One.", "a2": "Two."}
    parents = {"u1": "00000000-0000-4000-8000-000000000000", "a1": "u1", "a2": "u1"}
    messages = [
        {
            "uuid": uuid,
            "sender": "human" if uuid == "u1" else "assistant",
            "text": text,
            "parent_message_uuid": parents[uuid],
            "created_at": f"2026-05-01T10:00:0{n}Z",
        }
        for n, (uuid, text) in enumerate(texts.items())
    ]
    value = {"uuid": "c1", "name": "Counting", "model": "claude-opus", "chat_messages": messages}
    path = tmp_path / "saved.json"
    path.write_text(json.dumps(value | {"current_leaf_message_uuid": "a1"}))
    sync_paths(store, path)
    session = store.sessions.find("c1")
    assert session.model == "claude-opus"
    assert [entry.text for entry in store.chains.entries(session.key, 0)] == ["Hello", "One."]


@pytest.mark.parametrize("long", [{"x": "y\\" * 5000}, {"x": ["y"] * 1000}, {"x": [{}] * 1000}])
def test_an_object_that_is_too_large_is_left_out(long: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "MAX_ITEM_BYTES", 1000)
    for chunk_bytes in (7, 100, 1 << 20):
        objects, problems = split(json.dumps([{"a": 1}, long, {"b": 2}]).encode(), chunk_bytes)
        assert objects in ([{"a": 1}, {"b": 2}], [{"a": 1}, long, {"b": 2}])
        assert [problem.where for problem in problems] == ([] if long in objects else ["x:11"])
        assert (long in objects) == (chunk_bytes == 1 << 20)


def test_parents_come_first_and_circles_are_broken() -> None:
    parents = {"d": "c", "c": "b", "b": "a", "a": None, "x": "y", "y": "x", "self": "self", "lost": "nobody"}
    messages = [ExportMessage(Node(name, parent, True), None, {}) for name, parent in parents.items()]
    order = [message.node.id for message in sort_parents_first(messages)]
    assert sorted(order) == sorted(parents)
    assert [name for name in order if name in "abcd"] == ["a", "b", "c", "d"]


def test_a_damaged_archive_is_not_recognized(tmp_path: Path) -> None:
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([{"id": str(n), "mapping": {}} for n in range(5000)]))
    data = bytearray(path.read_bytes())
    assert exports.detect(str(path), lambda value: "mapping" in value)
    data[60:200] = bytes(140)
    path.write_bytes(data)
    assert not exports.detect(str(path), lambda value: "mapping" in value)
    path.write_bytes(data[:30])
    assert not exports.detect(str(path), lambda value: True)
    with pytest.raises(Unreadable), exports.open_files(str(tmp_path / "export.zip\0")):
        pass
