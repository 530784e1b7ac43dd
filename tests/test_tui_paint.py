"""How sessions and conversations look, as values."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.content import Content
from tui_world import NOW, add, answer, before, fill, prompt

from store.model import Attachment, Entry, NewEntry, Opaque, Session, Text, Thinking, ToolCall, ToolResult, Turn
from store.store import Store
from tui.painting.pieces import MARKS, age, mark_of
from tui.painting.sessions import Row, session_lines
from tui.painting.turns import heading, turn_lines


@pytest.mark.parametrize(
    ("ago", "said"),
    [
        (timedelta(seconds=-90), "now"),
        (timedelta(seconds=59), "now"),
        (timedelta(minutes=1), "1m"),
        (timedelta(minutes=59), "59m"),
        (timedelta(hours=1), "1h"),
        (timedelta(hours=23, minutes=59), "23h"),
        (timedelta(days=1), "1d"),
        (timedelta(days=29), "29d"),
        (timedelta(days=30), "4 Oct"),
        (timedelta(days=365), "Nov 2025"),
    ],
)
def test_ages(ago: timedelta, said: str) -> None:
    assert age((NOW - ago).isoformat(), NOW) == said


@pytest.mark.parametrize("spelled", ["", "yesterday", "1761000000", "2026-13-45T99:99:99Z"])
def test_a_time_nobody_can_read_is_left_out(spelled: str) -> None:
    assert age(spelled, NOW) in ("", "now")


def test_every_agent_has_a_mark_of_two_cells_and_no_two_the_same() -> None:
    letters = [mark.letters for mark in MARKS.values()]
    assert len(set(letters)) == len(letters)
    assert {cell_len(mark) for mark in letters} == {2}
    assert cell_len(mark_of("x").letters) == 2
    assert mark_of("somebody new").letters == "s…"


_TEXTS = ("source", "native_id", "channel", "user", "agent_title", "own_title", "first_prompt", "model", "cwd")


def a_session(**fields: object) -> Session:
    blank = dict.fromkeys(Session._fields, 0) | dict.fromkeys([*_TEXTS, "environment_name"], "")
    told = {"id": "the-id", "relation": None, "parent_id": None, "updated_at": before(hours=3)}
    return Session(**(blank | told | fields))  # type: ignore[arg-type]


def a_turn(*texts: str) -> Turn:
    entries = [
        Entry(n, 1, n - 1, n, None, 1, "message", role, text, "", "", text, (Text(text),), False, None, before())
        for n, (role, text) in enumerate(zip(("user", "assistant"), texts, strict=True))
    ]
    return Turn(1, texts[0], before(), before(), tuple(entries), ())


def lines_of(row: Row, width: int = 80) -> tuple[str, str]:
    first, second = session_lines(row, width, NOW)
    return first.plain.rstrip(), second.plain.rstrip()


def test_a_session_without_a_title_goes_by_its_id() -> None:
    assert lines_of(Row(a_session()))[0] == "  the-id"


def test_a_row_tells_everything_by_signs() -> None:
    session = a_session(
        own_title="Mine",
        pinned=1,
        source="codex",
        cwd="/home/ada/beta/",
        turns=1204,
        tool_calls=52,
        errors=3,
        relation="fork",
        archived=1,
        gone=1,
    )
    row = Row(session, has_summary=True, has_secrets=True)
    assert lines_of(row) == ("★ Mine", "  cx beta · 3h · 1,204⟲ 52⚙ 3✗  ∑  🔒  ↱ fork  ⌫ gone  archived")


@given(text=st.text(max_size=200), width=st.integers(4, 200))
def test_no_row_is_wider_than_its_place_and_no_text_becomes_markup(text: str, width: int) -> None:
    session = a_session(own_title=text, first_prompt=f"{text} asked", cwd=f"/{text}", source=text, turns=7)
    for line in session_lines(Row(session, True, True), width, NOW):
        assert cell_len(line.plain) <= width
        assert "\n" not in line.plain
        assert all(span.style != "" for span in line.spans)
        assert not any("@click" in str(span.style) for span in line.spans)


@given(text=st.text(alphabet=st.sampled_from("[]/@=bclik app.quit\x1b()'\"\\"), max_size=60))
def test_brackets_stay_as_they_are(text: str) -> None:
    session = a_session(own_title=f"x{text}x")
    shown = session_lines(Row(session), 500, NOW)[0].plain
    assert shown == f"  x{text}x".replace("\x1b", "␛")


def conversation(session: Session, turns: Iterable[Turn], width: int) -> list[Content]:
    return [line for turn in turns for line in turn_lines(session, turn, width)]


def test_a_conversation_shows_each_part_in_its_place(store: Store) -> None:
    fill(store)
    session = store.sessions.get("claude:e0741090")
    told = "\n".join(line.plain.rstrip() for line in conversation(session, store.chains.turns(session.key), 60))
    assert told == (
        "\n"
        "── 1 ada · 2026-11-03 11:56 ────────────────────────────────\n"
        "┃ It still fails on CI. Look at the retry, please.\n"
        "\n"
        "  ▸ thinking  The retry may run after the file is closed.\n"
        "\n"
        "  Let me run the test first.\n"
        "  ⚙ Bash  pytest -q tests/test_upload.py      2.1 s ✗ failed\n"
        "    │ F\n"
        "    │ ValueError: I/O operation on closed file\n"
        "    │ 1 failed in 1.9 s\n"
        "    │ … 2 more lines\n"
        "\n"
        "  The retry ran after the file was closed.\n"
        "\n"
        "  - it now reopens it\n"
        "  - and tells how often it tried"
    )


def test_one_blank_line_parts_a_prompt_from_its_answer() -> None:
    told = [line.plain for line in conversation(a_session(), [a_turn("Hello?", "Hello.\n\n\nAnd again.")], 40)]
    assert told[2:] == ["┃ Hello?", "", "  Hello.", "  ", "  ", "  And again."]


def test_what_has_no_text_is_still_told(store: Store) -> None:
    at = before()
    strange = (Attachment("image/png", "cat.png"), Opaque("hologram", {"x": 1}), ToolCall("9", "Slow", "soon"))
    session = add(
        store,
        "strange",
        at,
        NewEntry(role="system", parts=(Text("Be kind."),), created_at=at),
        prompt("Look at this", at),
        NewEntry(role="assistant", parts=strange, created_at=at),
        NewEntry(role="tool", parts=(ToolResult("77", "nobody asked"),), created_at=at),
        NewEntry(kind="compaction", role="user", parts=(Text("We looked at a cat."),), created_at=at),
        NewEntry(role="assistant", parts=(Thinking("  \n"),), created_at=at),
    )
    told = [line.plain.strip() for line in conversation(session, store.chains.turns(session.key), 80)]
    assert told[1] == "Be kind."
    assert "⎘ cat.png · image/png" in told
    assert "⋯ hologram" in told
    assert [line.split() for line in told if "Slow" in line] == [["⚙", "Slow", "soon", "…", "no", "answer"]]
    assert told.index("⚙ result of 77") + 1 == told.index("│ nobody asked")
    assert told.index("∑ what came before, summarised") < told.index("We looked at a cat.")
    assert not any("thinking" in line for line in told)


def test_a_message_too_long_to_read_is_cut_and_says_so(store: Store) -> None:
    at = before()
    session = add(store, "long", at, prompt("short", at), answer("word " * 50_000, at))
    told = conversation(session, store.chains.turns(session.key), 80)
    assert told[-1].plain == "  … 150,000 more characters"


@given(text=st.text(max_size=300), width=st.integers(20, 120))
def test_no_line_of_a_conversation_is_wider_than_its_place(text: str, width: int) -> None:
    session = a_session(agent_title=text, model=text, cwd=text)
    for line in conversation(session, [a_turn(text, f"{text}\ttab")], width):
        assert cell_len(line.plain) <= width
    assert all(cell_len(line) <= width for line in heading(session, width, NOW).plain.split("\n"))


def test_the_heading_tells_where_and_how_big(store: Store) -> None:
    fill(store)
    session = store.sessions.get("claude:e0741090")
    told = "claude · claude-opus · 1 turn · 1 call · 1 failed · 4m · /home/ada/code/alpha"
    assert heading(session, 100, NOW).plain == f"Fix the flaky upload test\n{told}"
