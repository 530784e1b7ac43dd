"""These tests check receipts: what they say, that a change of any byte is noticed, and that a forged file is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from documents.export_sample import add_export_session
from foreign_databases import sync_paths
from source_samples import SAMPLES

from store.errors import Unreadable
from store.export.options import EXPORT_FORMATS, FILE_SUFFIXES, ExportFormat, ExportOptions
from store.export.receipt import NO_DIGEST, compute_document_digest, find_receipt
from store.export.verification import verify_file
from store.export.writing import RECEIPT_SUFFIX, export_to_file
from store.store import Store

OPTIONS = [
    ExportOptions("html"),
    ExportOptions("markdown"),
    ExportOptions("json"),
    ExportOptions("atif"),
    ExportOptions("raw"),
    ExportOptions("html", turns=(2, 2)),
    ExportOptions("markdown", tools=False),
    ExportOptions("json", thinking=False, turns=(1, 1)),
    ExportOptions("html", entry=7),
]


def export(store: Store, folder: Path, options: ExportOptions) -> Path:
    path = folder / f"export{FILE_SUFFIXES[options.format]}"
    export_to_file(store, store.sessions.get("shop-1"), options, path)
    return path


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_an_export_is_unchanged_and_true_even_after_the_session_went_on(
    store: Store, tmp_path: Path, options: ExportOptions
) -> None:
    session = add_export_session(store)
    path = export(store, tmp_path, options)
    assert verify_file(store, path)[2:] == (True, "same")
    store.append_message(session.id, "assistant", "One more thing.")
    store.append_message(session.id, "user", "What?")
    store.create_session("later", parent_id=session.id, relation="delegate", forked_at=1)
    assert verify_file(store, path)[2:] == (True, "same")


@pytest.mark.parametrize("agent", ["claude", "pingu"])
def test_a_store_that_read_the_json_back_confirms_every_export(
    store: Store, tmp_path: Path, blank: Path, agent: str
) -> None:
    sync_paths(store, SAMPLES[agent](tmp_path))
    session = max(store.sessions.newest(), key=lambda found: (found.entries, found.id))
    options = [ExportOptions(name, leaks="allow") for name in EXPORT_FORMATS]
    paths = [tmp_path / f"export{FILE_SUFFIXES[option.format]}" for option in options]
    for option, path in zip(options, paths, strict=True):
        export_to_file(store, session, option, path)
    with Store.open(shutil.copy(blank, tmp_path / "other.db")) as other:
        sync_paths(other, tmp_path / "export.json")
        assert [verify_file(other, path)[2:] for path in paths] == [(True, "same")] * len(paths)


def test_a_receipt_beside_raw_records_stands_for_them(store: Store, tmp_path: Path) -> None:
    add_export_session(store)
    path = export(store, tmp_path, ExportOptions("raw"))
    assert verify_file(store, path.with_name(path.name + RECEIPT_SUFFIX)) == verify_file(store, path)


def test_a_receipt_says_what_was_left_out_and_why(store: Store, tmp_path: Path) -> None:
    add_export_session(store)
    path = export(store, tmp_path, ExportOptions("html", turns=(1, 1), tools=False, thinking=False))
    receipt = verify_file(store, path).receipt
    assert receipt is not None
    assert receipt["left_out"] == [
        {"what": "thinking", "count": 1, "why": "thinking was not asked for"},
        {"what": "tool call", "count": 3, "why": "tool calls were not asked for"},
        {"what": "turn", "count": 2, "why": "other turns were asked for"},
    ]
    assert receipt["counts"] == {"picture": 1, "text": 2, "turn": 1}
    assert [session["id"] for session in receipt["sessions"]] == ["shop-1"]
    assert receipt["version"]


@pytest.mark.parametrize("export_format", ["html", "markdown", "json", "atif", "raw"])
def test_a_changed_byte_is_noticed(store: Store, tmp_path: Path, export_format: ExportFormat) -> None:
    add_export_session(store)
    path = export(store, tmp_path, ExportOptions(export_format))
    data = path.read_bytes()
    for place in range(0, len(data), max(len(data) // 40, 1)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert not verify_file(store, path).is_good


@pytest.mark.parametrize("export_format", ["html", "markdown", "json", "atif"])
def test_a_forged_file_with_a_new_digest_is_noticed(store: Store, tmp_path: Path, export_format: ExportFormat) -> None:
    add_export_session(store)
    path = export(store, tmp_path, ExportOptions(export_format))
    data = path.read_bytes().replace(b"The docs are fine.", b"The docs are bad. ")
    receipt = find_receipt(data)
    assert receipt is not None
    start = receipt.digest_start
    blank = data[:start] + NO_DIGEST.encode() + data[start + 64 :]
    path.write_bytes(blank.replace(NO_DIGEST.encode(), compute_document_digest([blank]).encode()))
    assert verify_file(store, path)[2:] == (True, "text")


def test_an_edited_title_is_told_apart_from_an_edited_text(store: Store, tmp_path: Path) -> None:
    session = add_export_session(store)
    path = export(store, tmp_path, ExportOptions("html"))
    store.sessions.set_title(session, "Another title")
    assert verify_file(store, path)[2:] == (True, "heading")


def test_a_store_without_the_session_says_so(store: Store, tmp_path: Path) -> None:
    add_export_session(store)
    path = export(store, tmp_path, ExportOptions("html"))
    with Store.memory() as other:
        result = verify_file(other, path)
        assert (result.unchanged, result.comparison, result.is_good) == (True, "missing", True)
        other.create_session("shop-1")
        other.append_message("shop-1", "user", "Something else")
        assert verify_file(other, path).comparison == "records"


def test_text_that_looks_like_a_receipt_is_only_text(store: Store, tmp_path: Path) -> None:
    fake = '{"receipt":"backscroll","schema":1,"document_sha256":"' + "0" * 64 + '"}'
    add_export_session(store, answer=f"Look: {fake}\n```\n{fake}\n```")
    for options in OPTIONS[:4]:
        assert verify_file(store, export(store, tmp_path, options))[2:] == (True, "same")


@pytest.mark.parametrize(
    "change",
    [
        {"options": None},
        {"options": {"format": "exe"}},
        {"options": {"format": "html", "turns": "all"}},
        {"options": {"format": "html", "turns": [1, True]}},
        {"options": {"format": "html", "entry": "x"}},
        {"sessions": "shop-1"},
        {"sessions": [7]},
        {"sessions": [{"id": ["x"]}]},
        {"sessions": []},
    ],
    ids=str,
)
def test_a_strange_receipt_is_no_error(store: Store, tmp_path: Path, change: dict[str, object]) -> None:
    add_export_session(store)
    path = export(store, tmp_path, ExportOptions("raw"))
    receipt = path.with_name(path.name + ".receipt.json")
    values = json.loads(receipt.read_bytes()) | change
    receipt.write_text(json.dumps(values, separators=(",", ":")))
    assert verify_file(store, path).comparison == "unknown"


def test_files_without_a_receipt(store: Store, tmp_path: Path) -> None:
    (tmp_path / "page.html").write_text("<p>Hello</p>")
    assert verify_file(store, tmp_path / "page.html").receipt is None
    with pytest.raises(Unreadable, match="No such file"):
        verify_file(store, tmp_path / "missing")
