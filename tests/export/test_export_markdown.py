"""These tests check the Markdown of an export with a parser: no text adds HTML, pictures or fences of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from documents.export_sample import ANSWER, add_export_session
from documents.hostile_text import TERMINAL_PAYLOADS, make_markup
from markdown_it import MarkdownIt
from markdown_it.token import Token

from store.export.fences import make_fence, split_fences
from store.export.options import ExportOptions
from store.export.writing import export_to_file
from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store

OUR_HTML = re.compile(r"</?details>|<summary>[^<]*</summary>|</?code>|\s+")


def parse(store: Store, session: Session, path: Path) -> list[Token]:
    export_to_file(store, session, ExportOptions("markdown"), path)
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    tokens = parser.parse(path.read_text("utf-8"))
    return [inner for token in tokens for inner in (token, *(token.children or ()))]


def find_foreign_html(tokens: list[Token]) -> list[str]:
    html = [token.content for token in tokens if token.type in ("html_block", "html_inline")]
    return [left for text in html if (left := OUR_HTML.sub("", text))]


def test_a_document_has_turns_folded_calls_and_the_code_of_the_answer(store: Store, tmp_path: Path) -> None:
    tokens = parse(store, add_export_session(store), tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert find_foreign_html(tokens) == []
    assert text.count("<details>") == text.count("</details>") == 7
    fences = {token.info.strip(): token.content for token in tokens if token.type == "fence"}
    assert fences["python"] == ANSWER.partition("```python\n")[2].partition("\n```\n")[0] + "\n"
    assert "-    return price\n+    return price * 1.19\n" in fences["diff"]
    assert "## Turn 2 · 2026-03-01 09:06 UTC\n" in text
    assert "<summary>Bash: pytest -q (failed, exit 1, 3.0 s)</summary>" in text
    assert "<code>price&#60;limit &#38;&#38; x</code>" in text


@pytest.mark.parametrize("place", ["prompt", "answer", "call", "title"])
def test_hostile_text_adds_no_html_and_no_pictures(store: Store, tmp_path: Path, place: str) -> None:
    texts = [*make_markup("http://127.0.0.1:9"), *TERMINAL_PAYLOADS.values()]
    for n, text in enumerate(texts):
        title = text if place == "title" else "title"
        session = store.sessions.create(f"s{n}", agent_title=title.replace("\0", ""), cwd=title)
        call = ToolCall("c", text, {"command": text}) if place == "call" else ToolCall("c", "Bash", {"command": "ls"})
        store.chains.append(
            session.key,
            [
                NewEntry(role="user", parts=(Text(text if place == "prompt" else "prompt"),)),
                NewEntry(role="assistant", parts=(call,)),
                NewEntry(role="tool", parts=(ToolResult("c", text if place == "call" else "a.txt"),)),
                NewEntry(role="assistant", parts=(Text(text if place == "answer" else "answer"),)),
                NewEntry(role="user", parts=(Text("last prompt"),)),
            ],
        )
        tokens = parse(store, session, tmp_path / f"{n}.md")
        assert find_foreign_html(tokens) == [], text
        assert not [token for token in tokens if token.type == "image"], text
        headings = [token for token in tokens if token.type == "heading_open" and token.tag == "h2"]
        assert len(headings) == 2, text
        summaries = [token for token in tokens if token.type == "html_block" and "<summary>" in token.content]
        assert len(summaries) == 2, text


def test_fences_are_longer_than_any_in_the_text() -> None:
    assert make_fence("no code") == "```"
    assert make_fence("a ``` b ````` c") == "``````"


def test_text_is_split_at_its_code_blocks() -> None:
    text = "before\n```python title\nx = 1\n~~~\n```` \nafter\n~~~\nnever closed\n```"
    assert [tuple(part) for part in split_fences(text)] == [
        ("before", False, ""),
        ("x = 1\n~~~", True, "python"),
        ("after", False, ""),
        ("never closed\n```", True, ""),
    ]
    assert [part.text for part in split_fences("no code")] == ["no code"]
    assert [part.is_code for part in split_fences("``` not `a` fence")] == [False]
