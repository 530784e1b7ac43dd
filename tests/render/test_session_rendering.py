"""Tests how the rows of the session list are rendered."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from browser_driver import NOW, time_ago
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from store.model.session import Session
from store.search.list_rows import SessionRow
from store.sources import SOURCE_NAMES
from store.text.sanitize import cell_width
from tui.render.session_lines import render_session
from tui.render.styles import (
    MAX_TITLE_CHARACTERS,
    agent_badge,
    fit_line,
    format_age,
    highlight_matches,
    plain_text,
    session_location,
    session_title,
)


@pytest.mark.parametrize(
    ("ago", "expected"),
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
def test_ages(ago: timedelta, expected: str) -> None:
    assert format_age((NOW - ago).isoformat(), NOW) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "1761000000", "2026-13-45T99:99:99Z"])
def test_an_unreadable_time_is_left_out(text: str) -> None:
    assert format_age(text, NOW) in ("", "now")


def test_every_agent_has_a_unique_badge_of_two_cells() -> None:
    letters = [agent_badge(name).letters for name in (*SOURCE_NAMES, "library")]
    assert len(set(letters)) == len(letters)
    assert {cell_len(mark) for mark in letters} == {2}
    assert cell_len(agent_badge("x").letters) == 2
    assert agent_badge("somebody new").letters == "s…"


_TEXTS = ("source", "native_id", "channel", "user", "agent_title", "own_title", "first_prompt", "model", "cwd")


def make_session(**fields: object) -> Session:
    blank = dict.fromkeys(Session._fields, 0) | dict.fromkeys([*_TEXTS, "environment_name", "expires_at"], "")
    defaults = {
        "id": "the-id",
        "relation": None,
        "parent_id": None,
        "created_at": time_ago(days=1),
        "updated_at": time_ago(hours=3),
    }
    return Session(**(blank | defaults | fields))  # type: ignore[arg-type]


def render_lines(row: SessionRow, width: int = 80) -> tuple[str, str]:
    first, second = render_session(row, width, NOW)
    return plain_text(first).rstrip(), plain_text(second).rstrip()


@pytest.mark.parametrize(
    ("title", "shown"),
    [
        ("The **listing** is `done`", "The listing is done"),
        ("## Plan: 2 ** 3 is #8", "Plan: 2 ** 3 is #8"),
        ("#hashtag and __init__ and *args", "#hashtag and __init__ and *args"),
        ("an `open backtick", "an `open backtick"),
    ],
)
def test_a_title_of_an_agent_is_shown_without_markdown_signs(title: str, shown: str) -> None:
    assert session_title(make_session(agent_title=title)) == shown
    assert session_title(make_session(first_prompt=title)) == shown
    assert session_title(make_session(own_title=title)) == title


def test_a_session_without_a_title_shows_its_id() -> None:
    assert render_lines(SessionRow(make_session(turns=1)))[0] == "  the-id"


def test_a_session_without_a_title_and_turns_is_called_empty() -> None:
    assert render_lines(SessionRow(make_session(source="codex")))[0] == "  empty, Codex, 2 Nov"


def test_a_row_shows_all_signs() -> None:
    session = make_session(
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
    row = SessionRow(session, has_summary=True, has_secrets=True)
    assert render_lines(row) == ("★ Mine", "  Codex · beta · 3h · 1,204⟲ 52⚙ 3✗  ∑  🔒  ↱ fork  ⌫ gone  ▫ archived")


@given(text=st.text(max_size=200), width=st.integers(4, 200))
def test_no_row_is_too_wide_and_no_text_becomes_markup(text: str, width: int) -> None:
    session = make_session(own_title=text, first_prompt=f"{text} asked", cwd=f"/{text}", source=text, turns=7)
    for line in render_session(SessionRow(session, True, True), width, NOW):
        assert cell_len(plain_text(line)) <= width
        assert "\n" not in plain_text(line)


@given(text=st.text(alphabet=st.sampled_from("[]/@=bclik app.quit\x1b()'\"\\"), max_size=60))
def test_brackets_are_not_markup(text: str) -> None:
    session = make_session(own_title=f"x{text}x")
    shown = plain_text(render_session(SessionRow(session), 500, NOW)[0])
    assert shown == f"  x{text}x".replace("\x1b", "␛")


_LINES = st.lists(st.tuples(st.text("ab …e\u0301漢🔒", max_size=8), st.sampled_from(["", "bold"])), max_size=6)


@given(line=_LINES, width=st.integers(1, 30))
def test_a_line_is_truncated_only_if_it_does_not_fit(line: list[tuple[str, str]], width: int) -> None:
    shown = plain_text(fit_line(line, width))
    assert cell_width(shown) <= width
    if cell_width(plain_text(line)) <= width:
        assert shown == plain_text(line)
    else:
        assert shown.endswith("…")
        assert plain_text(line).startswith(shown[:-1])


@given(line=_LINES)
def test_matches_are_highlighted_across_pieces_and_nothing_else_changes(line: list[tuple[str, str]]) -> None:
    words = re.compile("a ?b")
    shown = list(highlight_matches(line, words, "hit"))
    assert plain_text(shown) == plain_text(line)
    styles = [style for text, style in shown for _ in text]
    expected = {n for match in words.finditer(plain_text(line)) for n in range(*match.span())}
    assert [n for n, style in enumerate(styles) if style == "hit"] == sorted(expected)


@pytest.mark.parametrize(
    ("fields", "location"),
    [
        ({"cwd": "/home/ada/shop", "channel": "dak", "user": "ada"}, "shop"),
        ({"channel": "dak", "user": "ada"}, "ada · dak"),
        ({"channel": "telegram", "channel_id": "42", "user": "42"}, "telegram"),
        ({"user": "ada"}, "ada"),
        ({"environment_name": "box"}, "box"),
    ],
)
def test_the_place_of_a_session_names_its_user(fields: dict[str, str], location: str) -> None:
    assert session_location(make_session(**fields)) == location


def test_an_error_that_ended_a_session_is_signed_however_old_it_is() -> None:
    session = make_session(source="codex", activity="failed", turns=1, updated_at=time_ago(days=20))
    assert render_lines(SessionRow(session))[1] == "  Codex · ✗ 20d · 1 turn"


def test_only_the_beginning_of_an_endless_title_is_shown() -> None:
    session = make_session(agent_title="漢字" * MAX_TITLE_CHARACTERS)
    assert session_title(session) == "漢字" * (MAX_TITLE_CHARACTERS // 2)
