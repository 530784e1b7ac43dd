"""Tests the list of sessions: headings, children, selection, order, scope, and how rows are rendered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from browser_driver import (
    NOW,
    add_session,
    answer_entry,
    make_browser,
    prompt_entry,
    screen_text,
    selected_id,
    session_list,
    time_ago,
    wait_for_text,
    wait_until,
)
from textual.pilot import Pilot

from store.model.knowledge import Hit
from store.model.session import Session
from store.search.list_rows import Heading, SessionListOptions, SessionRow
from store.search.session_list import build_session_list
from store.store import Store
from store.text.sanitize import cell_width
from tui.dialogs.session_order import SessionOrderDialog
from tui.render.session_lines import (
    TreePrefix,
    abbreviate_home,
    build_tree_prefix,
    format_day,
    render_group_heading,
    render_session,
    render_snippet,
)
from tui.render.styles import plain_text
from tui.screens.browser.screen import BrowserScreen
from tui.screens.folder_scope import list_folder_scopes

CHILD = "telegram:648079060:delegate:sysinfo"


def lines(pilot: Pilot[Any]) -> list[str]:
    return [line.rstrip() for line in screen_text(pilot).splitlines()]


# ── children ──────────────────────────────────────────────────────────────────────────────────────


async def test_arrows_unfold_and_fold_children(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await wait_for_text(pilot, "▸ Pingu · telegram · 1d · 1 turn  +1")
        await pilot.press("down", "down", "right")
        await wait_for_text(
            pilot, "   └ How full is the disk?", "▌▾ Pingu · telegram", "     Pingu · 1d · 1 turn  ↳ sub-agent"
        )
        assert "6 sessions" in screen_text(pilot)
        await pilot.press("right")
        await wait_until(pilot, lambda: selected_id(pilot) == CHILD)
        await pilot.press("right", "left")
        assert selected_id(pilot) == "telegram:648079060"
        await pilot.press("left")
        await wait_for_text(pilot, "▌▸ Pingu · telegram")
        assert "How full" not in screen_text(pilot)
        await pilot.press("left")
        assert selected_id(pilot) == "telegram:648079060"


async def test_a_click_on_the_sign_folds(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await wait_for_text(pilot, "▸ Pingu · telegram")
        row = next(n for n, line in enumerate(lines(pilot)) if "▸ Pingu" in line)
        for shown in (True, False):
            await pilot.click(offset=(1, row))
            await wait_until(pilot, lambda shown=shown: ("How full" in screen_text(pilot)) == shown)  # type: ignore[misc]


async def test_a_found_child_is_shown_below_its_parent_or_alone(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"telegram:64")
        await wait_for_text(pilot, "2 found", "└ How full is the disk?")
        await pilot.press("ctrl+u", *"disk")
        await wait_for_text(pilot, "1 found", "▌  How full is the disk?", "↳ sub-agent")


# ── headings ──────────────────────────────────────────────────────────────────────────────────────


async def test_the_cursor_skips_headings_and_clicks_on_them_do_nothing(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await wait_for_text(pilot, "Yesterday", "brackets")
        await pilot.click(offset=(5, lines(pilot).index(" Yesterday  1")))
        assert selected_id(pilot) == "claude:e0741090"
        await pilot.press("down", "down")
        assert selected_id(pilot) == "telegram:648079060"


async def test_the_heading_of_the_first_row_is_visible_with_it(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 8)) as pilot:
        await wait_until(pilot, lambda: selected_id(pilot))
        await pilot.press("end", "home")
        await wait_for_text(pilot, " Pinned  1")


# ── order and scope ───────────────────────────────────────────────────────────────────────────────


async def test_o_chooses_order_and_headings_and_the_cursor_stays(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 40)) as pilot:
        await wait_for_text(pilot, "brackets")
        await pilot.press("down", "o")
        await wait_for_text(pilot, "◉ b  best, then newest", "◉ d  days")
        await pilot.press("a")
        await wait_for_text(pilot, " cx codex  1", " pg pingu  1")
        assert selected_id(pilot) == "codex:0199aa"
        await pilot.press("o", "down", "down", "enter")
        await wait_until(pilot, lambda: "brackets" in lines(pilot)[6])
        await pilot.press("o", "f")
        await wait_for_text(pilot, " /home/ada/code/beta  1", " No folder  3")
        await pilot.press("o", "x")
        await wait_until(pilot, lambda: "No folder" not in screen_text(pilot))
        await pilot.press("o", "o", "up", "escape")
        assert not isinstance(pilot.app.screen, SessionOrderDialog)


async def test_the_order_is_chosen_by_clicking(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 40)) as pilot:
        await wait_for_text(pilot, "brackets")
        for line, then in (
            ("by title", SessionListOptions(order="title")),
            ("no headings", SessionListOptions(order="title", group="none")),
        ):
            await pilot.press("o")
            await wait_for_text(pilot, line)
            await pilot.click(offset=(8, next(n for n, text in enumerate(lines(pilot)) if line in text)))
            await wait_until(pilot, lambda then=then: session_list(pilot).listing.options == then)  # type: ignore[misc]
        await pilot.press("o")
        await pilot.click(offset=(80, 30))
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, SessionOrderDialog))


async def test_s_cycles_everywhere_this_folder_and_the_work_tree(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "tree" / "src"
    (tmp_path / "tree" / ".git").mkdir(parents=True)
    here.mkdir()
    for name, cwd in (("here", here), ("above", here.parent), ("elsewhere", tmp_path)):
        add_session(store, name, time_ago(), prompt_entry(f"asked {name}", time_ago()), cwd=str(cwd))
    monkeypatch.chdir(here)
    async with make_browser(store).run_test(size=(90, 20)) as pilot:
        await wait_for_text(pilot, "3 sessions · everywhere")
        await pilot.press("s")
        await wait_for_text(pilot, "1 session · in src", "asked here")
        await pilot.press("s")
        await wait_for_text(pilot, "2 sessions · in work tree tree", "asked above")
        await pilot.press("s")
        await wait_for_text(pilot, "3 sessions · everywhere")


def test_equal_scopes_are_listed_once(tmp_path: Path) -> None:
    assert [scope.name for scope in list_folder_scopes(None)] == ["everywhere"]
    assert [scope.folder for scope in list_folder_scopes(tmp_path)] == ["", str(tmp_path)]
    (tmp_path / ".git").mkdir()
    assert len(list_folder_scopes(tmp_path)) == 2
    assert list_folder_scopes(Path("/"))[1] == ("in /", "/")


async def test_an_empty_scope_shows_a_message_and_can_be_left(
    filled_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with make_browser(filled_store).run_test(size=(90, 20)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("s")
        await wait_for_text(pilot, "0 sessions · in ", "No sessions in", "Esc to show all folders", "s Scope")
        await pilot.press("s")
        await wait_for_text(pilot, "6 sessions · everywhere", "Rename")
        await pilot.press("s")
        await wait_for_text(pilot, "0 sessions · in ")
        await pilot.press("escape")
        await wait_for_text(pilot, "6 sessions · everywhere", "Rename")


# ── selection ─────────────────────────────────────────────────────────────────────────────────────


async def test_space_selects_and_moves_down(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await wait_for_text(pilot, "brackets")
        shown = session_list(pilot)
        await pilot.press("space", "space")
        await wait_for_text(pilot, "◆★ Fix the flaky", "◆  Rename the config", "▌  Good morning!")
        assert shown.marked_keys == (shown.keys[0], shown.keys[1])
        await pilot.press("up", "space")
        assert shown.marked_keys == (shown.keys[0],)
        await pilot.press("o", "x")
        await wait_until(pilot, lambda: shown.listing.options.group == "none")
        assert shown.marked_keys == (shown.keys[0],)
        shown.set_marked(())
        await wait_until(pilot, lambda: "◆" not in screen_text(pilot))


async def test_a_click_with_ctrl_selects(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 30)) as pilot:
        await wait_for_text(pilot, "brackets")
        await pilot.click(offset=(10, 6), control=True)
        await wait_for_text(pilot, "◆  Rename the config")


# ── hits ──────────────────────────────────────────────────────────────────────────────────────────


async def test_a_row_shows_its_hit(store: Store) -> None:
    at = time_ago(minutes=3)
    long = "a sentence about nothing " * 5 + "then the narwhal surfaces and " + "goes on " * 20
    add_session(store, "sea", at, prompt_entry("hello there", at), answer_entry(long, at), agent_title="The sea")
    async with make_browser(store).run_test(size=(90, 20)) as pilot:
        await wait_for_text(pilot, "The sea  hello there")
        await pilot.press("slash", *"narwh")
        await wait_for_text(pilot, "1 found", "The sea  …", "then the narwhal surfaces")
    async with make_browser(store).run_test(size=(36, 20)) as pilot:
        await wait_until(pilot, lambda: selected_id(pilot))
        await pilot.press("slash", *"narwh")
        await wait_for_text(pilot, "li ◔ 3m …", "narwhal")


async def test_words_in_a_title_are_highlighted_and_the_title_is_shown_once(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(90, 20)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"config")
        await wait_for_text(pilot, "1 found", "▌  Rename the config keys to snake_case")
        assert screen_text(pilot).count("snake_case") == 1

        def styles() -> dict[str, object]:
            return {segment.text: segment.style for segment in session_list(pilot).render_line(1)}

        await wait_until(pilot, lambda: "config" in styles())  # the words may have been found before the last was typed
        assert styles()["config"] != styles()[" keys to snake_case"]


# ── rendering ─────────────────────────────────────────────────────────────────────────────────────


def a_session(**fields: object) -> Session:
    given = {"id": "the-id", "updated_at": time_ago(hours=3), "relation": None, "parent_id": None} | fields
    numbers = {"turns", "tool_calls", "errors", "pinned", "gone", "archived", "key"}
    return Session(**{name: given.get(name, 0 if name in numbers else "") for name in Session._fields})  # type: ignore[arg-type]


def painted(row: SessionRow, width: int = 80, branch: TreePrefix = TreePrefix()) -> list[str]:  # noqa: B008
    return [plain_text(line) for line in render_session(row, width, NOW, branch)]


def test_badges() -> None:
    row = SessionRow(a_session(source="codex", relation="delegate"), tags=("ops", "to\x1bdo"), children=3)
    assert painted(row, branch=TreePrefix(fold_sign="▸"))[1] == "▸ Codex · 3h  +3  ↳ sub-agent  #ops  #to␛do"
    assert painted(row, branch=TreePrefix(fold_sign="▾"))[1] == "▾ Codex · 3h  ↳ sub-agent  #ops  #to␛do"


def test_badges_lose_their_words_and_then_disappear_in_a_narrow_list() -> None:
    session = a_session(source="codex", cwd="/a/place-of-a-long-name", turns=3, relation="fork", gone=1, archived=1)
    row = SessionRow(session, has_summary=True, has_secrets=True, tags=("ops",))
    assert painted(row, 90)[1].endswith("3 turns  ∑  🔒  ↱ fork  ⌫ gone  ▫ archived  #ops")
    assert painted(row, 60)[1] == "  Codex · place-of-a-long-name · 3h · 3⟲ ∑ 🔒 ↱ ⌫ ▫ #ops"
    assert painted(row, 34)[1] == "  cx place-of-a… · 3h · 3⟲ ∑ 🔒 ↱"
    assert painted(row, 30)[1] == "  cx place-of-… · 3h · 3⟲ ∑ 🔒"


@pytest.mark.parametrize(
    ("activity", "ago", "sign"),
    [
        ("working", {"minutes": 9}, "●"),
        ("working", {"minutes": 11}, ""),
        ("waiting", {"minutes": 59}, "◔"),
        ("waiting", {"minutes": 61}, ""),
        ("ended", {"hours": 3}, "■"),
        ("waiting", {"days": 2}, ""),
    ],
)
def test_a_row_shows_what_its_session_does(activity: str, ago: dict[str, float], sign: str) -> None:
    row = SessionRow(a_session(source="codex", updated_at=time_ago(**ago), activity=activity))
    assert "".join(mark for mark in "●◔◌■" if mark in painted(row)[1]) == sign


def test_lines_connect_children(store: Store) -> None:
    for name, parent in (("p", ""), ("a", "p"), ("b", "p"), ("c", "a")):
        at = time_ago(minutes=9 - len(name))
        add_session(store, name, at, **({"parent_id": parent, "relation": "fork"} if parent else {}))
    shown = build_session_list(
        store, SessionListOptions(unfolded=frozenset(row.key for row in store.sessions.newest())), now=NOW
    )
    prefixes = [build_tree_prefix(shown, row, 0)[:2] for row in range(len(shown))]
    assert prefixes == [("", ""), ("├ ", "│ "), ("│ └ ", "│   "), ("└ ", "  ")]
    assert painted(SessionRow(a_session(own_title="Try")), branch=TreePrefix("├ ", "│ ")) == ["  ├ Try", "  │    3h"]


@pytest.mark.parametrize(
    ("day", "name"),
    [
        ("2026-11-03", "Today"),
        ("2026-11-02", "Yesterday"),
        ("2026-11-01", "Sunday"),
        ("2026-10-28", "Wednesday"),
        ("2026-10-27", "Tue 27 Oct"),
        ("2025-10-27", "Mon 27 Oct 2025"),
        ("2026-11-04", "Wed 4 Nov"),
        ("", "No date"),
    ],
)
def test_days_have_readable_names(day: str, name: str) -> None:
    assert format_day(day, NOW) == name


def test_headings_fit_and_contain_no_control_characters() -> None:
    for width in (4, 20, 80):
        shown = render_group_heading(Heading(0, "/a\x1b[2J\u202e[b]" * 9, 12_345), "folder", width, NOW)
        assert cell_width(plain_text(shown)) <= width
        assert "\x1b" not in plain_text(shown)
        assert "\u202e" not in plain_text(shown)


def test_the_home_folder_is_shown_as_a_tilde(home: Path) -> None:
    assert abbreviate_home(str(home)) == "~"
    assert abbreviate_home(str(home / "code")) == "~/code"
    assert abbreviate_home(f"{home}er/x") == f"{home}er/x"
    assert abbreviate_home("") == ""


def test_a_snippet_is_cut_around_its_hit_and_sanitized() -> None:
    text = "x" * 60 + " needle \x1b[2J and more"
    hit = Hit("s", "s#1", 1, "user", "text", time_ago(), text, ((61, 67),))
    pieces = list(render_snippet(hit, 30, ""))
    shown = "".join(piece for piece, _ in pieces)
    assert shown.startswith("…")
    assert shown.index("needle") < 30
    assert "␛[2J" in shown
    assert [piece for piece, style in pieces if style] == ["needle"]
    assert "needle" not in painted(SessionRow(a_session(own_title=f"{text} and so on"), hit=hit), 40)[1]
    lines_shown = painted(SessionRow(a_session(own_title="A title of some length"), hit=hit), 40)
    assert "needle" in lines_shown[1]
    assert max(map(len, lines_shown)) <= 40


async def test_the_screen_has_the_query_of_the_list(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        screen = pilot.app.screen
        assert isinstance(screen, BrowserScreen)
        assert screen.search_query.terms == ()
        await pilot.press("slash", *"retry", "enter")
        await wait_for_text(pilot, "1 found")
        pattern = screen.search_query.pattern()
        assert pattern is not None
        assert pattern.search("the Retry ran")
