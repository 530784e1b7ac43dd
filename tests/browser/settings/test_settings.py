"""Tests the settings of the browser: the config file, and the choices that the browser saves."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from browser_driver import make_browser, screen_text, session_list, wait_for_text, wait_until
from textual.pilot import Pilot

from store.config import SETTINGS
from store.paths import config_file, state_file
from store.store import Store
from tui.palette import all_bindings
from tui.screens.help import HelpScreen
from tui.settings import KEYMAPS, Settings
from tui.widgets.timeline.timeline_view import TimelineView


def configure(text: str) -> None:
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(text)


def write_state(text: str) -> None:
    state_file().parent.mkdir(parents=True, exist_ok=True)
    state_file().write_text(text)


async def check_problem_shown(pilot: Pilot[Any], *words: str) -> None:
    """Wait for a notification with these words, then check that the list works."""
    await wait_until(pilot, lambda: pilot.app._notifications)
    messages = " ".join(str(one.message) for one in pilot.app._notifications)
    for word in words:
        assert word in messages
    await wait_for_text(pilot, "6 sessions", "Fix the flaky")
    await pilot.press("down")
    await wait_until(pilot, lambda: session_list(pilot).cursor == 1)


# ── keys ──────────────────────────────────────────────────────────────────────────────────────────


def test_without_a_config_file_the_defaults_apply() -> None:
    settings = Settings()
    assert (settings.problems, settings.theme, settings.keymap) == ([], "", {})


async def test_the_vim_keymap_can_be_chosen(filled_store: Store) -> None:
    configure('[browser]\nkeymap = "vim"\n')
    async with make_browser(filled_store).run_test(size=(80, 7)) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        assert not pilot.app._notifications
        await pilot.press("ctrl+f")
        await wait_until(pilot, lambda: session_list(pilot).cursor == 2)
        await pilot.press("l")
        await wait_for_text(pilot, "▌▾ Pingu · telegram")
        await pilot.press("h")
        await wait_for_text(pilot, "▌▸ Pingu · telegram")
        await pilot.press("g", "enter")
        timeline = pilot.app.screen.query_one(TimelineView)
        await wait_until(pilot, lambda: timeline.current_item is not None)
        await pilot.press("left_curly_bracket")
        await wait_until(pilot, lambda: timeline.cursor.item == 0)


@pytest.mark.parametrize("keys", ["?", "question_mark", "ctrl+e", "f5,G", "shift+up", " ctrl+pagedown , +", "ß", ""])
async def test_keys_that_a_keyboard_has_are_accepted(filled_store: Store, keys: str) -> None:
    configure(f'[browser.keys]\n"app.help" = "{keys}"\n')
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        assert not pilot.app._notifications


def test_the_config_file_offers_the_keymaps_that_exist() -> None:
    assert SETTINGS["browser.keymap"].choices == tuple(KEYMAPS)


def test_keymaps_name_only_existing_actions() -> None:
    known = {binding.id for binding in all_bindings()}
    for keymap in KEYMAPS.values():
        assert keymap.keys() <= known


async def test_own_keys_replace_the_default_keys_and_help_shows_them(filled_store: Store) -> None:
    configure('[browser]\nkeymap = "vim"\n[browser.keys]\n"app.help" = "f5"\n"list.down" = "ctrl+n,n"\n')
    async with make_browser(filled_store).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        assert not pilot.app._notifications
        await pilot.press("question_mark", "j", "down")
        assert session_list(pilot).cursor == 0
        await pilot.press("n", "ctrl+n")
        await wait_until(pilot, lambda: session_list(pilot).cursor == 2)
        await wait_for_text(pilot, "f5 Keys")
        await pilot.press("f5")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
        await wait_for_text(pilot, "^n  n  Next session", "→  l  Show the sessions", "List of sessions")
        lines = screen_text(pilot).splitlines()
        assert any("Next session" in line and line.rstrip(" ▁▂▃▄▅▆▇│").endswith("list.down") for line in lines)


async def test_keys_for_an_unknown_action_are_reported_and_the_others_work(filled_store: Store) -> None:
    configure('[browser.keys]\n"list.dwon" = "n"\n"app.help" = "f5"\n"app.quit" = 7\n')
    async with make_browser(filled_store).run_test(notifications=True) as pilot:
        await check_problem_shown(
            pilot, "no such action: 'list.dwon'", 'the keys of app.quit must be a string like "ctrl+e'
        )
        await pilot.press("f5")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))


async def test_an_action_keeps_its_keys_if_those_in_the_file_do_not_exist(filled_store: Store) -> None:
    configure('[browser.keys]\n"app.help" = "ctrl+hlep"\n')
    async with make_browser(filled_store).run_test(notifications=True) as pilot:
        await check_problem_shown(pilot, "no such key: 'ctrl+hlep', for app.help.")
        await pilot.press("question_mark")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ('[browser\nkeymap = "vim"', "cannot be read"),
        ('[browser]\nkeymap = "emacs"', "no such keymap: 'emacs'. Use one of: default, vim"),
        ('[browser]\nkeymap = ["vim"]', "no such keymap"),
        ("[browser]\nkeymap = 7", "no such keymap"),
        ('[browser]\nmotion = "none"', "motion must be true or false"),
        ('[browser]\ntheme = "nrod"', "no such theme: 'nrod'. Did you mean nord?"),
        ('[browser]\ntheme = "zzz"', "no such theme: 'zzz'. The palette (Ctrl+P) lists all themes."),
        ("[browser]\ntheme = []", "[browser] theme must be a string in quotes."),
        ('[browser]\nteme = "nord"', "no such setting: [browser] teme. Did you mean theme?"),
        ('[browser.keys]\n"app.quit" = "ctrl+quti"', "no such key: 'ctrl+quti', for app.quit."),
        ('[browser.keys]\n"list.dwon" = "n"', "no such action: 'list.dwon'. Did you mean list.down?"),
        ("[brwoser]\nmotion = true", "no such section: [brwoser]. Did you mean browser?"),
        ("browser = 7", "browser must be a section"),
        ("[browser]\nkeys = 3", "[browser] keys must be a section"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1") + "[[[", "cannot be read"),
    ],
)
async def test_a_wrong_config_file_is_reported_and_the_browser_works(
    filled_store: Store, config: str, words: str
) -> None:
    configure(config)
    async with make_browser(filled_store).run_test(notifications=True) as pilot:
        await check_problem_shown(pilot, words)


@pytest.mark.parametrize(
    "config", ["browser = 7", "[browser]\nkeys = 3", "[browser]\ntheme = []", '[browser.keys]\n"app.help" = ""']
)
async def test_invalid_values_are_ignored(filled_store: Store, config: str) -> None:
    configure(config)
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        await pilot.press("down")
        await wait_until(pilot, lambda: session_list(pilot).cursor == 1)


# ── colours ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_theme_chosen_in_the_palette_is_remembered(filled_store: Store) -> None:
    async with make_browser(filled_store).run_test(size=(100, 30)) as pilot:
        await wait_for_text(pilot, "6 sessions", "Fix the flaky")
        assert not state_file().exists()
        await pilot.press("ctrl+p", *"theme")
        await wait_for_text(pilot, "Change the current theme")
        await pilot.press("enter")
        await wait_for_text(pilot, "Search for themes")
        await pilot.press(*"gruvbox")
        await wait_for_text(pilot, "gruvbox")
        await pilot.press("enter")
        await wait_until(pilot, lambda: pilot.app.theme == "gruvbox" and state_file().exists())
    assert state_file().stat().st_mode & 0o077 == 0
    async with make_browser(filled_store).run_test() as pilot:
        assert pilot.app.theme == "gruvbox"


async def test_the_theme_that_was_named_last_applies(filled_store: Store) -> None:
    configure('[browser]\ntheme = "nord"\n')
    async with make_browser(filled_store).run_test() as pilot:
        assert pilot.app.theme == "nord"
        pilot.app.theme = "dracula"
        await wait_until(pilot, state_file().exists)
    assert make_browser(filled_store).theme == "dracula"
    chosen_at = json.loads(state_file().read_text())["theme_chosen_at"]
    os.utime(config_file(), (chosen_at + 1, chosen_at + 1))
    assert make_browser(filled_store).theme == "nord"
    os.utime(config_file(), (chosen_at - 1, chosen_at - 1))
    assert make_browser(filled_store).theme == "dracula"
    configure("[browser]\n")
    assert make_browser(filled_store).theme == "dracula"


@pytest.mark.parametrize("chosen_at", ['"soon"', "null", "[]"])
def test_the_config_file_wins_over_a_theme_that_was_chosen_at_an_unknown_time(
    filled_store: Store, chosen_at: str
) -> None:
    configure('[browser]\ntheme = "nord"\n')
    write_state(f'{{"theme": "dracula", "theme_chosen_at": {chosen_at}}}')
    assert make_browser(filled_store).theme == "nord"


@pytest.mark.parametrize(
    "state", ['{"theme": "no-longer-there"}', '{"theme": 7}', "[]", "{", "\x00", '{"theme": ["x"]}']
)
def test_an_unknown_theme_is_ignored(filled_store: Store, state: str) -> None:
    usual = make_browser(filled_store).theme
    write_state(state)
    assert make_browser(filled_store).theme == usual


async def test_a_choice_that_cannot_be_saved_is_ignored(filled_store: Store) -> None:
    state_file().parent.parent.mkdir(parents=True, exist_ok=True)
    state_file().parent.write_text("a file where the folder should be")
    async with make_browser(filled_store).run_test() as pilot:
        await wait_for_text(pilot, "6 sessions")
        pilot.app.theme = "nord"
        await pilot.press("down")
        await wait_until(pilot, lambda: session_list(pilot).cursor == 1)
