"""These tests check the HTML of an export: hostile text stays text, nothing runs, and no request is made."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import threading
from base64 import b64encode
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from documents.export_sample import add_export_session, make_png
from documents.hostile_text import INVISIBLE, TERMINAL_PAYLOADS, make_markup

from store.export.html import CONTENT_SECURITY_POLICY, STYLE
from store.export.options import ExportOptions
from store.export.writing import export_to_file
from store.model.entry import Attachment, NewEntry, NewRecord, Opaque, Text, Thinking, ToolCall, ToolResult
from store.model.session import Session
from store.store import Store
from store.text.sanitize import sanitize
from store.text.validate import encode

OUR_TAGS = set(
    "html head meta title style body header main footer section h1 h2 h3 a dl dt dd details summary div span p pre code"
    " b time img".split()
)
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page(HTMLParser):
    """Collects the elements, attributes and texts of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.text = ""
        self.depth = 0
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data

    def find(self, tag: str, name: str) -> list[str]:
        return [value for found, attribute, value in self.attributes if (found, attribute) == (tag, name)]


def export_html(store: Store, session: Session, path: Path, options: ExportOptions | None = None) -> str:
    export_to_file(store, session, options or ExportOptions("html"), path)
    return path.read_text("utf-8")


def add_hostile_session(store: Store, server: str) -> tuple[Session, list[str]]:
    """Add a session that has the same hostile texts in every place that an export shows."""
    texts = [*make_markup(server), *TERMINAL_PAYLOADS.values(), *INVISIBLE]
    everything = "\n\n".join(texts)
    store.create_session("hostile", agent_title=texts[0], cwd=texts[1], model=texts[2], user=texts[3])
    session = store.sessions.get("hostile")
    change = {"file_path": texts[0], "old_string": texts[2], "new_string": everything}
    call_parts = (
        ToolCall("c1", texts[0], {"command": everything}),
        ToolCall("c2", "Edit", change),
        ToolCall("c3", "Tool", {texts[2]: everything}),
    )
    results = (
        ToolResult("c1", everything, is_error=True),
        ToolResult("c2", [{"type": "text", "text": everything}]),
        ToolResult("c3", {texts[1]: everything}),
    )
    picture = {"type": "image/png", "data": make_png()}
    attachments = (Attachment("image/png", name=texts[6]), Attachment(texts[6], name=texts[0], uri=texts[2]))
    store.chains.append(
        session.key,
        [
            NewEntry(role="user", author=texts[6], parts=(Text(everything),)),
            NewEntry(role="user", parts=attachments, is_prompt=False, record=NewRecord(encode(picture))),
            NewEntry(role="assistant", parts=(Thinking(everything), *call_parts)),
            NewEntry(role="tool", parts=results),
            *(NewEntry(role="assistant", parts=(Text(text), Opaque(text, text))) for text in texts),
            NewEntry(kind="event", text=f"failed: {everything}"),
            NewEntry(kind="compaction", text=everything),
        ],
    )
    store.notes.tag([session], ["<script>"])
    store.notes.add_note(session, everything)
    store.notes.add_note(session, everything, entry_seq=0)
    store.summaries.set(session, everything)
    return store.sessions.get("hostile"), texts


def test_everything_is_in_the_page(store: Store, tmp_path: Path) -> None:
    html = export_html(store, add_export_session(store), tmp_path / "page.html")
    page = Page(html)
    for text in (
        "Fix the total",
        "billing",
        "Ask about other countries.",
        "The tax was missing in cart.py",
        "Why does the total differ?",
        "The tax may be missing.",
        "grep -rn total .",
        "cart.py:7: total = price",
        "-    return price",
        "+    return price * 1.19",
        "failed, exit 1 · 3.0 s",
        "This is the fix.",
        "Look at the docs",
        "Nothing to change.",
        "price<limit && x",
    ):
        assert text in page.text
    assert page.find("img", "src") == [f"data:image/png;base64,{make_png()}"]
    assert page.find("section", "id") == ["turn-0", "turn-1", "turn-2", "agent-1-turn-1"]
    assert page.text.index("Task") < page.text.index("Sub-agent") < page.text.index("The docs are fine.")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("- one\n- two", "<ul><li>one</li><li>two</li></ul>"),
        ("Do:\n\n1. a\n2. b\n\nThen", "Do:<ol><li>a</li><li>b</li></ol>Then"),
        ("3) c\n4) d", '<ol start="3"><li>c</li><li>d</li></ol>'),
        ("- a\n  - b\n    - c\n- d", "<ul><li>a<ul><li>b<ul><li>c</li></ul></li></ul></li><li>d</li></ul>"),
        ("* `x < y`\n  goes on\n\n* **b**", "<ul><li><code>x &lt; y</code>\n  goes on</li><li><b>b</b></li></ul>"),
        ("-no list\n1.5 GB\n--- \n-- x", "-no list\n1.5 GB\n--- \n-- x"),
        ("- <script>alert(1)</script>", "<ul><li>&lt;script&gt;alert(1)&lt;/script&gt;</li></ul>"),
        ("    - deep\n- shallow", "<ul><li>deep</li><li>shallow</li></ul>"),
    ],
)
def test_lists_are_lists(store: Store, tmp_path: Path, text: str, expected: str) -> None:
    session = store.sessions.create("lists")
    store.chains.append(session.key, [NewEntry(role="user", parts=(Text(text),))])
    assert f"</span>{expected}</div>" in export_html(store, session, tmp_path / "page.html")


def test_the_policy_allows_the_style_sheet_and_nothing_else(store: Store, tmp_path: Path) -> None:
    page = Page(export_html(store, add_export_session(store), tmp_path / "page.html"))
    digest = b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
    policies = [value for value in page.find("meta", "content") if "default-src" in value]
    assert policies == [CONTENT_SECURITY_POLICY]
    assert CONTENT_SECURITY_POLICY.startswith(f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:;")
    assert "script" not in page.tags


def test_hostile_text_stays_text_for_a_parser(store: Store, tmp_path: Path) -> None:
    session, texts = add_hostile_session(store, "http://127.0.0.1:9")
    html = export_html(store, session, tmp_path / "page.html")
    page = Page(html)
    assert set(page.tags) <= OUR_TAGS
    assert {name for _, name, _ in page.attributes} <= {
        *("lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "open", "src", "alt")
    }
    assert all(value.startswith("#") for value in page.find("a", "href"))
    assert all(re.fullmatch(r"data:image/png;base64,[\w+/]+=*", value) for value in page.find("img", "src"))
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202e\u200b]", html)
    for text in texts:
        first_line = sanitize(text).strip().split("\n")[-1].replace("`", "").strip("*# |")
        assert first_line[:40] in page.text.replace("`", ""), text


def test_chosen_turns_tools_and_thinking(store: Store, tmp_path: Path) -> None:
    session = add_export_session(store)
    only_second = Page(export_html(store, session, tmp_path / "2.html", ExportOptions("html", turns=(2, 2))))
    assert only_second.find("section", "id") == ["turn-2", "agent-1-turn-1"]
    quiet = ExportOptions("html", tools=False, thinking=False)
    page = Page(export_html(store, session, tmp_path / "quiet.html", quiet))
    assert "grep" not in page.text.partition("Receipt")[0]
    assert "The tax may be missing." not in page.text
    assert "Nothing to change." not in page.text
    one_answer = ExportOptions("html", entry=7)
    page = Page(export_html(store, session, tmp_path / "1.html", one_answer))
    assert page.find("section", "id") == ["turn-1"]
    assert "said prompt" not in page.find("div", "class")


# ── in a real browser ─────────────────────────────────────────────────────────────────────────────


class RequestLog:
    """Serves the loopback address and notes every request."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        log = self.paths

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                log.append(self.path)
                self.send_response(200)
                self.send_header("Access-Control-Allow-Origin", "*")
                self.end_headers()

            do_POST = do_GET

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def requests() -> Iterator[RequestLog]:
    log = RequestLog()
    yield log
    log.server.shutdown()
    log.server.server_close()


def open_in_chromium(path: Path, profile: Path) -> str:
    """Load a page, give it time to do what it wants, and return its document."""
    if CHROMIUM is None:
        pytest.skip("Chromium is not installed")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--disable-background-networking",
        f"--user-data-dir={profile}",
        "--virtual-time-budget=5000",
        "--dump-dom",
    ]
    try:
        ran = subprocess.run([CHROMIUM, *options, path.as_uri()], capture_output=True, timeout=300)
    except subprocess.TimeoutExpired:
        pytest.skip("Chromium does not answer on this machine")
    return ran.stdout.decode("utf-8", "replace")


def test_hostile_text_runs_nothing_and_asks_nobody_in_chromium(
    store: Store, tmp_path: Path, requests: RequestLog
) -> None:
    control = tmp_path / "control.html"
    control.write_text(
        f"<!doctype html><title>waiting</title><img src='{requests.address}/img'>"
        f"<script>fetch('{requests.address}/ran');document.title='ran'</script>"
    )
    if "<title>ran</title>" not in open_in_chromium(control, tmp_path / "profile"):
        pytest.skip("Chromium does not run on this machine")
    assert sorted(requests.paths)[:2] == ["/img", "/ran"], "the test would not notice a request"
    requests.paths.clear()

    session, _ = add_hostile_session(store, requests.address)
    page = tmp_path / "page.html"
    export_html(store, session, page)
    # Everything is opened, as a person may do it.
    opened = page.read_text("utf-8").replace("<details>", "<details open>")
    page.write_text(opened, "utf-8")
    document = open_in_chromium(page, tmp_path / "profile")
    assert "<title>ran</title>" not in document
    assert 'id="turn-1"' in document
    assert "<script" not in document
    assert requests.paths == []


@pytest.mark.long
def test_ten_thousand_turns_open_in_chromium(store: Store, tmp_path: Path) -> None:
    session = store.sessions.create("long")
    for n in range(10_000):
        result = ToolResult(f"c{n}", "line\n" * 20)
        entries = [
            NewEntry(role="user", parts=(Text(f"prompt {n}"),)),
            NewEntry(role="assistant", parts=(Text("- a\n- b"), ToolCall(f"c{n}", "Bash", {"command": f"echo {n}"}))),
            NewEntry(role="tool", parts=(result,)),
        ]
        store.chains.append(session.key, entries)
    path = tmp_path / "page.html"
    export_html(store, session, path)
    page = open_in_chromium(path, tmp_path / "profile")
    assert page.count('<section class="turn"') == 10_000
    assert page.rstrip().endswith("</html>")
