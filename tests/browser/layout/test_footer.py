"""Tests that the line of keys uses the width that it has, and that scrollbars and units can be seen."""

from __future__ import annotations

import pytest
from browser_driver import contrast_ratio, make_browser, screen_text, session_list, wait_for_text, wait_until
from textual.binding import Binding
from textual.content import Content
from textual.pilot import Pilot
from textual.screen import ModalScreen

from store.model.entry import NewEntry, Text, Tokens
from store.store import Store
from tui.dialogs.preview import PreviewDialog
from tui.palette import all_bindings


def last_line(pilot: Pilot[object]) -> str:
    return screen_text(pilot).splitlines()[-1]


async def test_more_keys_are_shown_in_a_wider_terminal(filled_store: Store) -> None:
    widths = {}
    for width in (80, 140, 200):
        async with make_browser(filled_store).run_test(size=(width, 45)) as pilot:
            await wait_for_text(pilot, "6 sessions", "r Resume")
            assert last_line(pilot).rstrip().endswith("? Keys  q Quit")
            widths[width] = len(last_line(pilot).rstrip())
    assert widths[140] > 115
    assert widths[200] > 175


async def test_keys_that_everybody_knows_are_not_shown(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(400, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions", "t Title", "u Undo")
        assert "Down" not in last_line(pilot)
        assert "Page" not in last_line(pilot)


async def test_a_click_on_an_added_key_runs_it(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(200, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions", "t Title")
        await pilot.click(offset=(last_line(pilot).index("t Title"), 44))
        await wait_for_text(pilot, "Cancel")


async def test_a_scrollbar_differs_from_its_background(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 8)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        styles = session_list(pilot).styles
        page = session_list(pilot).background_colors[1]
        track, handle = (page + colour for colour in (styles.scrollbar_background, styles.scrollbar_color))
        assert len({page.hex, track.hex, handle.hex}) == 3
        assert contrast_ratio(handle, track) >= 3


async def test_numbers_at_the_end_of_a_turn_have_units(filled_store: Store) -> None:
    session = filled_store.sessions.get("claude:e0741090")
    answer = NewEntry(role="assistant", parts=(Text("Counted."),), tokens=Tokens(input=1200, output=34))
    filled_store.chains.append(session.key, [answer])
    async with make_browser(filled_store).run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("enter")
        await wait_for_text(pilot, "Counted.", "1.2k tok ")


async def test_the_search_box_shows_its_own_keys_first(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"uplo")
        await wait_for_text(pilot, "1 found", "↵ To the list")
        assert last_line(pilot).startswith(" ↵ To the list")
        assert "Page" not in last_line(pilot)


async def test_keys_are_named_by_what_they_would_do_here(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(200, 45)) as pilot:
        await wait_for_text(pilot, "6 sessions", "p Unpin", "a Archive")
        await pilot.press("p")
        await wait_for_text(pilot, "p Pin")
        assert "D Compare" not in last_line(pilot)
        await pilot.press("space", "space")
        await wait_for_text(pilot, "2 selected", "D Compare")
        await pilot.press("slash", *"is:")
        await wait_for_text(pilot, "^space Filters")


async def test_a_tool_call_shows_the_key_that_copies_its_command(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("enter", "x")
        await wait_for_text(pilot, "# Copy command")
        await pilot.press("K")
        await wait_until(pilot, lambda: "# Copy command" not in last_line(pilot))
        assert last_line(pilot).rstrip().endswith("? Keys  q Quit")


async def test_the_way_out_stands_after_the_other_keys(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("enter", "x", "i")
        await wait_for_text(pilot, "Bash · 1 of 1", "Go to turn")
        assert last_line(pilot).rstrip().endswith("esc Back  ? Keys")
        await pilot.press("escape", "escape", "m")
        await wait_for_text(pilot, "Your editor")
        assert last_line(pilot).rstrip().endswith("esc Cancel")


async def test_letters_of_the_conversation_are_not_offered_in_its_find_bar(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("enter")
        await wait_for_text(pilot, "The retry ran", "esc Back")
        await pilot.press("slash")
        await wait_until(pilot, lambda: last_line(pilot).rstrip() == " ↵ Keep highlight  esc Clear")


@pytest.mark.parametrize(
    ("keys", "shown"),
    [(["I"], "Session card"), (["r"], "Resume in"), (["r", "i"], "as API input"), (["equals_sign"], "adds up")],
)
async def test_dialogs_offer_help(filled_store: Store, keys: list[str], shown: str) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press(*keys)
        await wait_for_text(pilot, shown, "? Keys")
        await pilot.press("question_mark")
        await wait_for_text(pilot, "Keys · press End for the marks")


@pytest.mark.parametrize(
    ("keys", "hints"),
    [(["o"], "↵ Choose  esc Close  ? Keys"), (["enter", "a"], "↵ Open  esc Close"), (["question_mark"], "esc Close")],
)
async def test_a_page_above_the_browser_shows_its_own_keys(filled_store: Store, keys: list[str], hints: str) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        for key in keys:
            await pilot.press(key)
            await pilot.pause()
        await wait_until(pilot, lambda: last_line(pilot).strip() == hints)


@pytest.mark.parametrize("width", [60, 80, 200])
async def test_a_placeholder_that_is_too_long_ends_with_an_ellipsis(filled_store: Store, width: int) -> None:
    async with make_browser(filled_store).run_test(size=(width, 24)) as pilot:
        await wait_until(pilot, lambda: screen_text(pilot).partition("6 sessions")[0].rstrip().endswith("…"))


async def test_why_there_is_no_record_is_shown_whole(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("enter", "3")
        await wait_for_text(
            pilot, "This entry was added with the Python library, so there is no record of an", "agent."
        )


async def test_the_keys_of_a_found_conversation_say_which_match_it_is(filled_store: Store) -> None:
    session = filled_store.sessions.get("claude:e0741090")
    filled_store.chains.append(
        session.key, [NewEntry(role="assistant", parts=(Text(f"Word {n} zanzibar."),)) for n in range(3)]
    )
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        await pilot.press("slash", *"zanzibar", "down", "enter")
        await wait_for_text(pilot, "n Match 3 of 3")
        await pilot.press("N")
        await wait_for_text(pilot, "n Match 2 of 3")
        await pilot.press("home")
        await wait_for_text(pilot, "n Next of 3 matches")
        await pilot.press("escape")
        await wait_until(pilot, lambda: "match" not in last_line(pilot).lower())


async def test_a_preview_with_nothing_to_apply_is_closed(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(80, 24)) as pilot:
        await wait_for_text(pilot, "6 sessions")
        pilot.app.push_screen(PreviewDialog("Nothing to do", lambda: ([Content("Nothing.")], False), lambda: None))
        await wait_for_text(pilot, "Nothing.", "esc Close  ? Keys")
        assert last_line(pilot).split() == ["esc", "Close", "?", "Keys"]


def test_every_dialog_without_a_field_shows_its_keys() -> None:
    """A letter is typed into a field, so that `?` cannot be a key there."""
    with_field = ("TextDialog", "SearchesDialog", "ToolCallPickerDialog")
    list(all_bindings())  # imports all dialogs
    classes: list[type[object]] = [ModalScreen]
    while classes:
        dialog = classes.pop()
        classes += dialog.__subclasses__()
        has_field = any(parent.__name__ in with_field for parent in dialog.__mro__)
        if dialog.__module__.startswith("tui.") and not has_field and not dialog.__subclasses__():
            bindings = [binding for parent in dialog.__mro__ for binding in parent.__dict__.get("BINDINGS", ())]
            keys = [key.key for key in Binding.make_bindings(bindings)]
            assert "question_mark" in keys, dialog.__name__
