"""Tests how the cards of the timeline are rendered."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from browser_driver import NOW, add_session, answer_entry, fill_store, prompt_entry, time_ago
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from test_session_rendering import make_session

from store.conversations.timeline import Timelines
from store.model.entry import Attachment, Entry, NewEntry, Opaque, PairedCall, Text, Thinking, ToolCall, ToolResult
from store.model.entry import Turn as EntryTurn
from store.model.session import Session
from store.model.timeline import TimelineOutline, TurnOutline
from store.store import Store
from tui.render.timeline_card import (
    TurnGutter,
    estimate_height,
    format_short_number,
    format_size,
    render_card_title,
    render_item,
    render_session_heading,
    render_summary_coverage,
)
from tui.render.timeline_items import TimelineItem, build_items
from tui.render.tool_call import describe_arguments, format_duration
from tui.render.viewport import Viewport

HOSTILE = "\x1b]52;c;UFdORUQ=\x07\x9b2J[b]x[/b][@click=app.quit]go[/]\u202eabc\x00\r\ttab 日本語 👩\u200d👩\u200d👧"


def load_items(store: Store, session: Session) -> list[TimelineItem]:
    turns = Timelines(store).load_turns(session.key, range(1000))
    return [item for turn in turns for item in build_items(session.id, turn)]


def render_text(item: TimelineItem, width: int = 60, *, is_open: bool | None = None, **options: object) -> list[str]:
    opened = not item.is_foldable if is_open is None else is_open
    lines = render_item(item, Viewport(width, **options), is_open=opened)  # type: ignore[arg-type]
    return [line.plain.rstrip() for line in lines]


def render_session(store: Store, session: Session, **options: object) -> Iterator[str]:
    for item in load_items(store, session):
        yield from [""] * item.has_gap
        yield from render_text(item, **options)  # type: ignore[arg-type]


def make_outline(**fields: object) -> TurnOutline:
    turn = TurnOutline(12, 0, 9, "2026-11-03T10:41:00Z", "2026-11-03T10:43:05Z", "Look at the retry", "", 0, 0, 0, "")
    return turn._replace(**fields)  # type: ignore[arg-type]


# ── items ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_session_shows_each_part_in_order(store: Store) -> None:
    fill_store(store)
    session = store.sessions.get("claude:e0741090")
    assert "\n".join(render_session(store, session)) == (
        "\n"
        "It still fails on CI. Look at the retry, please.\n"
        "\n"
        "▸ thinking, 1 line  The retry may run after the file is clo…\n"
        "\n"
        "Let me run the test first.\n"
        "\n"
        "⚙ Bash  pytest -q tests/test_upload.py       2.1 s  ✗ failed\n"
        "  └ ValueError: I/O operation on closed file\n"
        "\n"
        "The retry ran after the file was closed.\n"
        "\n"
        "• it now reopens it\n"
        "• and tells how often it tried"
    )


def test_a_folded_item_opens_in_full(store: Store) -> None:
    fill_store(store)
    _, thinking, _, call, _ = load_items(store, store.sessions.get("claude:e0741090"))
    assert render_text(thinking, is_open=True) == [
        "▾ thinking, 1 line",
        "  The retry may run after the file is closed.",
    ]
    assert render_text(call, is_open=True) == [
        "▾ Bash  pytest -q tests/test_upload.py       2.1 s  ✗ failed",
        "    command: pytest -q tests/test_upload.py",
        "    timeout: 120",
        "  │ F",
        "  │",
        "  │ ValueError: I/O operation on closed file",
        "  │ 1 failed in 1.9 s",
        "  │ see the log",
        "  │ for more",
    ]


@pytest.fixture
def strange(store: Store) -> Session:
    at = time_ago()
    parts = (Attachment("image/png", "cat.png", 184320), Opaque("hologram", {"x": 1}), ToolCall("9", "Slow", "soon"))
    return add_session(
        store,
        "strange",
        at,
        NewEntry(role="system", parts=(Text("Be kind.\nAlways."),), created_at=at),
        prompt_entry("Look at this", at),
        NewEntry(role="assistant", parts=parts, created_at=at),
        NewEntry(role="tool", parts=(ToolResult("77", "nobody asked"),), created_at=at),
        NewEntry(kind="compaction", role="user", parts=(Text("We looked at **a cat**."),), created_at=at),
        NewEntry(role="assistant", parts=(Thinking("  \n"), Text(" ")), created_at=at),
        NewEntry(role="user", parts=(Text("CLAUDE.md says so"),), author="memory", is_prompt=False, created_at=at),
        NewEntry(kind="event", text="Model set to opus", parts=(Opaque("settings", {}),), created_at=at),
        NewEntry(kind="event", parts=(Opaque("turn_aborted error", {}),), created_at=at),
        NewEntry(kind="unknown", parts=(Opaque("riddle", {}),), created_at=at),
        NewEntry(role="assistant", parts=(Text("I am two."),), author="second", created_at=at),
        NewEntry(role="assistant", parts=(Text("Still two."),), author="second", created_at=at),
    )


def test_items_without_text_are_shown(store: Store, strange: Session) -> None:
    assert list(render_session(store, strange)) == [
        "",
        "▸ system, 2 lines  Be kind. Always.",
        "",
        "Look at this",
        "",
        "▣ cat.png · image/png · 184.3 kB",
        "◇ hologram",
        "⚙ Slow  soon                                     … no result",
        "⚙ result of 77  nobody asked                       ? no call",
        "",
        "──── ▸ ∑ earlier turns summarised ──────────────────────────",
        "",
        "▸ user · memory, 1 line  CLAUDE.md says so",
        "◦ Model set to opus",
        "✗ turn_aborted error",
        "◇ riddle",
        "",
        "second",
        "I am two.",
        "",
        "Still two.",
    ]
    by_kind = {item.kind: item for item in load_items(store, strange)}
    assert render_text(by_kind["compaction"], is_open=True)[1:] == ["We looked at a cat."]
    assert render_text(by_kind["result"], is_open=True)[1:] == ["  │ nobody asked"]


def test_a_system_prompt_in_the_header_is_shown_folded(store: Store) -> None:
    session = store.sessions.create("prompted", system_prompt="Be brief.")
    assert list(render_session(store, session)) == ["", "▸ system prompt, 1 line  Be brief."]


def test_a_result_that_comes_a_turn_late_is_no_orphan(store: Store) -> None:
    at = time_ago()
    asked = NewEntry(role="assistant", parts=(ToolCall("1", "Bash", {}),), created_at=at)
    late = NewEntry(role="tool", parts=(ToolResult("1", "done", name="Bash"),), created_at=at)
    session = add_session(store, "late", at, prompt_entry("Go", at), asked, prompt_entry("Well?", at), late)
    lines = list(render_session(store, session))
    assert [line.split()[-1] for line in lines if "Bash" in line] == ["✓", "earlier"]


def make_call_item(
    name: str, arguments: object, result: object = "", status: str = "ok", took: float | None = None
) -> TimelineItem:
    entry = Entry(1, 1, 0, 1, None, 1, "message", "assistant", "", "", "", "", (), False, None, time_ago())
    call = PairedCall(5, "s", 1, "c", name, status, took, "s#1", "s#2", arguments, result, time_ago())  # type: ignore[arg-type]
    return TimelineItem("call", entry, 0, "", name, call)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"description": "Run it", "command": "make test"}, "make test"),
        ({"timeout": 5, "file_path": "/a/b.py"}, "/a/b.py"),
        ({"anything": "first", "other": "second"}, "first"),
        ({"command": ["git", "log"]}, "git log"),
        ({}, ""),
        ("plain", "plain"),
        (None, ""),
    ],
)
def test_a_call_is_described_by_its_main_argument(arguments: object, expected: str) -> None:
    assert describe_arguments(arguments) == expected


@pytest.mark.parametrize(
    ("result", "ending"),
    [
        ({"exit_code": 2, "output": "x"}, "✗ exit 2"),
        ("Exit code 127\nnot found", "✗ exit 127"),
        ("Process exited with code 1", "✗ exit 1"),
        ("Output: x\nError: (none)\nExit Code: 3\nSignal: 0", "✗ exit 3"),
        ("Exit code 0\nbut refused", "✗ failed"),
        ("boom", "✗ failed"),
        (None, "✗ failed"),
    ],
)
def test_a_failed_call_shows_its_exit_code(result: object, ending: str) -> None:
    assert render_text(make_call_item("Bash", {"command": "x"}, result, "error"))[0].endswith(ending)


def test_the_line_that_explains_a_failure_is_shown() -> None:
    output = "Traceback:\n  File x\nImportError: no main\nerror: make failed\n=== 1 failed ==="
    assert render_text(make_call_item("Bash", {}, output, "error"))[1] == "  └ ImportError: no main"
    assert render_text(make_call_item("Bash", {}, "a\npermission denied\nbye", "error"))[1] == "  └ permission denied"
    assert render_text(make_call_item("Bash", {}, "a\nlast\n\n", "error"))[1] == "  └ last"
    assert len(render_text(make_call_item("Bash", {}, "", "error"))) == 1


def test_edits_are_shown_as_diffs() -> None:
    item = make_call_item("Edit", {"file_path": "/w/a.py", "old_string": "one\ntwo", "new_string": "one\n2\n3"})
    assert render_text(item, cwd="/w") == ["⚙ Edit  a.py  +2 −1                                        ✓"]
    shown = render_text(item, is_open=True)
    assert [line for line in shown if line.startswith(("    +", "    −"))] == ["    − two", "    + 2", "    + 3"]


def test_a_long_result_is_shortened_at_first() -> None:
    item = make_call_item("Bash", {"command": "seq"}, "\n".join(map(str, range(100))))
    shortened, full = render_text(item, is_open=True), render_text(item, is_open=True, is_full=True)
    assert shortened[-1] == "  │ … 70 more lines · w to show all"
    assert full[-1] == "  │ 99"


def test_long_arguments_are_shown_below_their_name() -> None:
    shown = render_text(make_call_item("Bash", {"command": "echo one\necho two", "note": "x" * 80}), is_open=True)
    assert shown[1:4] == ["    command:", "      echo one", "      echo two"]
    assert shown[4] == "    note:"


def test_a_prompt_is_plain_text_except_for_fenced_code() -> None:
    entry = Entry(1, 1, 0, 0, None, 1, "message", "user", "", "", "", "", (), False, None, time_ago())
    text = "# no heading\n  indented __init__ *.py\n```python\nx = 1\n```\nand then"
    assert render_text(TimelineItem("prompt", entry, None, text)) == [
        "# no heading",
        "  indented __init__ *.py",
        " x = 1",
        "and then",
    ]
    assert render_text(TimelineItem("prompt", entry, None, "")) == [""]


# ── titles and headings ───────────────────────────────────────────────────────────────────────────


def test_a_title_shows_the_author_the_time_and_the_tokens() -> None:
    turn = make_outline(tokens=1234)
    outline = TimelineOutline((turn, make_outline(n=13, tokens=9876)))
    line = render_card_title(turn, Viewport(60), TurnGutter(outline), with_date=False).plain
    assert re.fullmatch(r"12  you · \d\d:41 ─+ +1\.2k tok ▁ ", line)
    assert cell_len(line) == 60
    assert render_card_title(turn, Viewport(60), TurnGutter(outline, "time")).plain.endswith("2m 05s █ ")
    assert (
        "41 · now opus ─"
        in render_card_title(turn, Viewport(60), TurnGutter(outline), with_date=False, model="opus").plain
    )
    assert "ada · 2026-11-03" in render_card_title(turn._replace(author="ada"), Viewport(60), TurnGutter(outline)).plain


def test_a_folded_title_shows_the_prompt_and_the_counts() -> None:
    turn = make_outline(calls=7, errors=2)
    line = render_card_title(
        turn, Viewport(70), TurnGutter(TimelineOutline((turn,))), folded=True, with_date=False
    ).plain
    assert line.startswith("▸ 12  you · ")
    assert "Look at the retry" in line
    assert line.rstrip().endswith("7⚙ 2✗")


def test_the_heading_shows_the_details_of_the_session(store: Store) -> None:
    fill_store(store)
    session = store.sessions.get("claude:e0741090")
    details = "Claude Code · claude-opus · 1 turn · 1 call · 1 failed · ◔ waiting for you · 4m · /home/ada/code/alpha"
    assert render_session_heading(session, 110, NOW).plain == f"Fix the flaky upload test\n{details}"


@pytest.mark.parametrize(
    ("covered", "expected"), [(0, ""), (9, "━━━━━━━━━────── 9 of 14"), (99, "━" * 15 + " 14 of 14")]
)
def test_the_heading_shows_what_the_summary_covers(covered: int, expected: str) -> None:
    outline = TimelineOutline(tuple(make_outline(n=n) for n in range(15)), covered)
    assert render_summary_coverage(outline, 80).plain.removeprefix("summary covers ") == expected
    assert not render_summary_coverage(TimelineOutline((), covered), 80)


@pytest.mark.parametrize(
    ("number", "expected"),
    [(0, "0"), (999, "999"), (1234, "1.2k"), (123_456, "123k"), (5 * 10**6, "5.0M"), (10**12, "1,000G")],
)
def test_numbers_are_short(number: int, expected: str) -> None:
    assert format_short_number(number) == expected


def test_sizes_and_durations() -> None:
    assert [format_size(size) for size in (0, 1, 1500, 2 * 10**6)] == ["empty", "1 byte", "1.5 kB", "2.0 MB"]
    assert [format_duration(ms) for ms in (40, 61_000, 3_725_000)] == ["0.0 s", "1m 01s", "1h 02m"]


# ── hostile text ──────────────────────────────────────────────────────────────────────────────────


def make_items_of_every_kind(text: str) -> list[TimelineItem]:
    parts = (
        Thinking(text),
        Text(text),
        ToolCall("1", text, {text: text, "command": text * 3}),
        ToolCall("3", "Edit", {"file_path": text, "old_string": text, "new_string": f"{text}\n{text}"}),
        ToolResult("2", text, name=text),
        Attachment(text, text, 7, text),
        Opaque(text, text),
    )
    rows = [
        ("message", "user", (Text(text),)),
        ("message", "assistant", parts),
        ("event", "", ()),
        ("compaction", "", ()),
    ]
    entries = [
        Entry(n, 1, n - 1, n, None, 1, kind, role, text, "", "", text, parts, False, None, time_ago())
        for n, (kind, role, parts) in enumerate(rows)
    ]
    call = PairedCall(1, "s", 1, "1", text, "error", 1.0, "s#1", "s#9", {text: text}, text, time_ago())
    return build_items("s", EntryTurn(1, text, time_ago(), time_ago(), tuple(entries), (call,)))


_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200b\ud800-\udfff]")


@given(text=st.text(max_size=120) | st.just(HOSTILE), width=st.integers(8, 90))
def test_no_line_is_too_wide_and_no_text_becomes_a_command(text: str, width: int) -> None:
    viewport = Viewport(width, re.compile("a", re.IGNORECASE), cwd="/w")
    turn = make_outline(prompt=text, author=text, tokens=5, calls=1, errors=1)
    lines = [
        render_card_title(turn, viewport, TurnGutter(TimelineOutline((turn,))), folded=folded)
        for folded in (True, False)
    ]
    for item in make_items_of_every_kind(text):
        assert estimate_height(item, width, is_open=True) > 0
        for is_open in (True, False):
            lines += render_item(item, viewport, is_open=is_open)
    session = make_session(agent_title=text, model=text, cwd=text, source=text)
    for line in lines:
        assert cell_len(line.plain) <= width
        assert not _CONTROL.search(line.plain)
        assert not any("click" in str(span.style) for span in line.spans)
    assert all(cell_len(line) <= width for line in render_session_heading(session, width, NOW).plain.split("\n"))


def test_a_line_of_a_hundred_thousand_characters_is_cut(store: Store) -> None:
    session = add_session(
        store, "long", time_ago(), prompt_entry("short", time_ago()), answer_entry("x" * 100_000, time_ago())
    )
    shown = list(render_session(store, session))
    assert shown[-1] == "… 88,000 more characters · w to show all"
