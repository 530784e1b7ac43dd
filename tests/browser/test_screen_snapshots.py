"""Tests how the screens look. `make test ARGS=--snapshot-update` accepts intended changes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser_driver import (
    add_session,
    fill_store,
    fixed_clock,
    make_browser,
    prompt_entry,
    screen_text,
    time_ago,
    wait_for_text,
    wait_until,
)
from foreign_databases import (
    PINGU_MEMORIES_SCHEMA,
    PINGU_SCHEMA,
    add_pingu_session,
    make_database,
    pingu_native_response,
)
from pytest_textual_snapshot import SVGImageExtension
from test_images import add_picture
from textual.pilot import Pilot
from textual.widgets import Input, TextArea
from write_back_roundtrip import WriteBackCase

from store.store import Store
from tui.app import Backscroll
from tui.dialogs.share import EVERYBODY, ShareDialog
from tui.screens.browser.screen import BrowserScreen
from tui.screens.conversation import ConversationPane
from tui.screens.picker import PickerScreen

# The plugin gives the extension under the name that an older syrupy knew.
SVGImageExtension.file_extension = "svg"

Compare = Callable[..., bool]
SIZES = pytest.mark.parametrize("size", [(140, 45), (80, 24)], ids=["wide", "narrow"])
Size = tuple[int, int]


@pytest.fixture
def world(store: Store) -> Store:
    """Return a store whose times are all the same, because ages are shown."""
    fill_store(store)
    session = store.sessions.get("claude:e0741090")
    store.facts.learn("The project uses FastAPI.\nTwo people work on it.", category="stack")
    store.facts.learn("The retry reopens the file.", session=session, entry_seq=0)
    long_ago(store, "edits set at", "facts set created_at", "facts set updated_at", "summaries set created_at")
    return store


def long_ago(store: Store, *moments: str) -> None:
    with store.transaction() as connection:
        for moment in moments:
            connection.execute(f"update {moment} = ?", (time_ago(days=2),))


@pytest.fixture
def empty() -> Iterator[Store]:
    """Return an empty store at the default path, because the screen shows the path."""
    with Store.open() as store:
        yield store


@pytest.fixture(autouse=True)
def _no_blinking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Input, "cursor_blink", False)
    monkeypatch.setattr(TextArea, "cursor_blink", False)


def missing(pilot: Pilot[Any]) -> str:
    """Return what is still missing of the conversation next to the list and of the current record."""
    screen = pilot.app.screen_stack[0]
    picking = isinstance(pilot.app.screen, PickerScreen)
    if picking or not isinstance(screen, BrowserScreen) or not screen.sessions.keys:
        return ""
    if screen.has_class("-narrow") and screen.has_class("-pane-0"):
        return ""
    selected, readings = screen.sessions.selected, screen.query(ConversationPane)
    if selected is None or not readings or not readings.first().is_mounted:
        return f"selected: {selected}, panes: {len(readings)}"
    reading, timeline = readings.first(), readings.first().timeline_pane.timeline_view
    if reading.session is None or reading.session.key != selected.key or reading._is_opening:
        shown = reading.session and reading.session.id
        return f"{selected.id} is selected, {shown} is shown, {reading._session_key} is requested"
    if timeline.current_item is None or timeline._select_timer is not None:
        waiting = timeline._requested_turns, timeline._pending_move, timeline._select_timer
        return f"item: {timeline.current_item}, waiting for: {waiting}"
    record = reading.record_pane.json_view
    has_record = not reading.record_pane.display or record.json_tree is not None or bool(record._note)
    return "" if has_record else f"no record of {reading._selected_entry and reading._selected_entry.key}"


async def wait_until_loaded(pilot: Pilot[Any]) -> None:
    try:
        await wait_until(pilot, lambda: not missing(pilot))
    except TimeoutError:
        raise AssertionError(f"Not loaded: {missing(pilot)}\n{screen_text(pilot)}") from None


STILL_CHECKS = 6
"""Counts the equal pictures in a row after which a screen is complete. They are taken ten times a second at last."""


def after(*steps: list[str] | str) -> Callable[[Pilot[Any]], Awaitable[None]]:
    """Return a function that presses the keys in each list, and waits for the texts between them."""

    async def take(pilot: Pilot[Any]) -> None:
        for step in steps:
            if isinstance(step, str):
                await wait_for_text(pilot, step)
            else:
                await wait_until_loaded(pilot)
                await pilot.press(*step)
        await wait_until_loaded(pilot)
        await wait_until_still(pilot)

    return take


async def wait_until_still(pilot: Pilot[Any]) -> None:
    """Wait until the picture has not changed for some checks, because a screen below a dialog and the line of keys are
    painted later than the text that a test waits for."""
    pictures: list[str] = []

    def is_still() -> bool:
        pictures.append(pilot.app.export_screenshot())
        return len(pictures) > STILL_CHECKS and len(set(pictures[-STILL_CHECKS:])) == 1

    await wait_until(pilot, is_still)


@pytest.fixture(autouse=True)
def _no_agents(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide the agents of this machine, because the pictures must not depend on them."""
    monkeypatch.setenv("PATH", str(tmp_path / "no programs"))


LIST = ("6 sessions", "brackets")
READING = (*LIST, ["enter"], "tells how often")
FACTS = (*LIST, ["f"], "FastAPI", "fact 1")
SCREENS: dict[str, tuple[list[str] | str, ...]] = {
    "list": (*LIST, ["down"], "▌  Rename"),
    "selected": (*LIST, ["space", "space"], "◆"),
    "unfolded": (*LIST, ["down", "down", "right"], "How full is the disk"),
    "order": (*LIST, ["o"], "Headings"),
    "folders": (*LIST, ["o"], "Headings", ["f"], "No folder"),
    "filter": (*LIST, ["slash", *"uplo"], "1 found", "Fix the flaky"),
    "offers": (*LIST, ["slash", *"agent:"], "agent:claude"),
    "nothing": (*LIST, ["slash", *"zebra"], "0 found"),
    "meant": (*LIST, ["slash", *"uplaod"], "Showing “upload…”", "Fix the flaky"),
    "tools": (*LIST, ["A"], "1 call ·", "pytest"),
    "tools_by_name": (*LIST, ["A"], "1 call ·", ["n"], "1 tool ·", "median", "Show calls"),
    "conversation": READING,
    "call": (*READING, ["X", "enter"], "see the log"),
    "found": (*READING, ["slash", *"file"], "of 3"),
    "record": (*READING, ["3"], "This entry was added"),
    "inspector": (*READING, ["X", "i"], "1 of 1", "see the log"),
    "calls": (*READING, ["a"], "All calls of this session"),
    "resume": (*LIST, ["r"], "Resume in Claude Code", "edits        · none"),
    "facts": FACTS,
    "fact": (*FACTS, ["e"], "A fact is one line"),
    "journal": (*LIST, ["U"], "edits", "fact added"),
    "summary": (*READING, ["S"], "The upload test was flaky."),
    "secrets": (*LIST, ["dollar_sign"], "No secrets"),
    "card": (*LIST, ["I"], "Session card", "claude:e0741090"),
    "title": (*LIST, ["t"], "Cancel"),
    "note": (*LIST, ["m"], "Cancel"),
    "input": (*LIST, ["r"], "Resume in Claude Code", ["i"], "f Save"),
    "help": (*LIST, ["question_mark"], "Go to the last session"),
    "palette": (*LIST, ["ctrl+p"], "Search for commands"),
    "consolidation": (*FACTS, ["C"], "All facts ·", [*"!", "enter", *"Tabs.", "ctrl+s"], "+ Tabs.", "Apply"),
    "leaving": (*LIST, ["m"], "Cancel", [*"Ask Ada.", "escape"], "Unsaved changes", "Keep editing"),
}


@SIZES
@pytest.mark.parametrize("screen", SCREENS)
def test_screen(snap_compare: Compare, world: Store, screen: str, size: Size) -> None:
    assert snap_compare(make_browser(world), terminal_size=size, run_before=after(*SCREENS[screen]))


@SIZES
def test_picker(snap_compare: Compare, world: Store, size: Size) -> None:
    app = Backscroll(world, fixed_clock, pick=True)
    assert snap_compare(app, terminal_size=size, run_before=after("backscroll resume", "brackets"))


@SIZES
def test_welcome(snap_compare: Compare, empty: Store, size: Size) -> None:
    assert snap_compare(make_browser(empty), terminal_size=size, run_before=after("Press d", "Show a demo"))


@SIZES
def test_another_theme(snap_compare: Compare, world: Store, size: Size) -> None:
    app = make_browser(world)
    app.theme = "textual-light"
    assert snap_compare(app, terminal_size=size, run_before=after(*READING))


# ── other stores ──────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def confided(world: Store) -> Store:
    session = world.sessions.get("claude:e0741090")
    for name, value in (("GITHUB_TOKEN", "older"), ("GITHUB_TOKEN", "newer"), ("SMTP_PASSWORD", "another")):
        world.secrets.set(session, name, value)
    long_ago(world, "secrets set created_at")
    return world


SECRETS = (*LIST, ["dollar_sign"], "SMTP_PASSWORD", "not used in any tool call")
SEALED: dict[str, tuple[list[str] | str, ...]] = {
    "names": SECRETS,
    "new": (*SECRETS, ["a"], "New secret", [*"API_KEY", "enter", *"hidden"], "••••••"),
    "replace": (*SECRETS, ["e"], "Replace the value of GITHUB_TOKEN"),
    "delete_permanently": (*SECRETS, ["X"], "Delete GITHUB_TOKEN permanently?"),
}


@SIZES
@pytest.mark.parametrize("screen", SEALED)
def test_secrets(snap_compare: Compare, confided: Store, screen: str, size: Size) -> None:
    assert snap_compare(make_browser(confided), terminal_size=size, run_before=after(*SEALED[screen]))


@SIZES
def test_passphrase(snap_compare: Compare, confided: Store, size: Size) -> None:
    confided.secrets.use_passphrase("open sesame")
    confided.secrets.drop_key()
    asked = after(*SECRETS, ["r"], "Unlock the secrets", [*"open"], "••••")
    assert snap_compare(make_browser(confided), terminal_size=size, run_before=asked)


@SIZES
def test_share(snap_compare: Compare, world: Store, size: Size) -> None:
    """The dialog is opened without a team, which would need a server."""

    async def share(pilot: Pilot[Any]) -> None:
        await after(*LIST)(pilot)
        note = "Names, separated with commas, or “everybody”. Trusted: ben."
        pilot.app.push_screen(ShareDialog("Share Fix the flaky upload test with", EVERYBODY, note=note))
        await after("Trusted: ben.")(pilot)

    assert snap_compare(make_browser(world), terminal_size=size, run_before=share)


@SIZES
def test_published(snap_compare: Compare, world: Store, size: Size) -> None:
    """The ids are fixed, because published ones are random."""
    session = world.sessions.get("claude:e0741090")
    with world.transaction() as connection:
        for number, name in enumerate(("report.txt", "chart.png")):
            row = (f"{number}b0uMaJ5kQ2w8xVtR3yZpA", session.key, name, f"{session.cwd}/{name}", time_ago(days=number))
            connection.execute(
                "insert into published (id, session, filename, path, created_at) values (?,?,?,?,?)", row
            )
    asked = after(*LIST, ["P"], "chart.png", "No such file")
    assert snap_compare(make_browser(world), terminal_size=size, run_before=asked)


@SIZES
def test_write_back(snap_compare: Compare, store: Store, home: Path, size: Size) -> None:
    path = make_database(home / "pingu.db", PINGU_SCHEMA + PINGU_MEMORIES_SCHEMA, wal=True)
    said = ("hello", pingu_native_response({"type": "message", "content": "hi"}))
    add_pingu_session(path, "s", said, title="Theirs", summary="Old words.\nKept words.", summary_up_to="1")
    WriteBackCase(store, path).set_title().set_summary("New words.\nKept words.", 1)
    asked = after("1 session", "Mine", ["w"], "+ New words.")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=asked)


@SIZES
def test_folder(snap_compare: Compare, store: Store, home: Path, size: Size) -> None:
    for name in ("alpha", "beta", *(f"gamma-{number}" for number in range(9))):
        (home / "code" / name).mkdir(parents=True)
    add_session(
        store, "s", time_ago(minutes=4), prompt_entry("Go on", time_ago()), source="claude", cwd=str(home / "code")
    )
    asked = after("1 session", "Go on", ["r"], "Resume in Claude Code", ["d"], "another folder", "3 more")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=asked)


@SIZES
def test_publishing(snap_compare: Compare, store: Store, home: Path, size: Size) -> None:
    (home / "code").mkdir()
    for name in ("report.txt", "chart.png"):
        (home / "code" / name).write_text("done")
    add_session(store, "s", time_ago(minutes=4), prompt_entry("Go on", time_ago()), cwd=str(home / "code"))
    asked = after("1 session", "Go on", ["P"], "Published files", ["a"], "chart.png", "Cancel")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=asked)


@SIZES
def test_picture(snap_compare: Compare, store: Store, size: Size) -> None:
    add_picture(store, *["navy", "teal", "olive", "maroon"] * 4, width=60)
    asked = after("1 session", "see this", ["enter"], "shot.png", ["end", "enter"], "▀▀▀▀▀▀▀▀")
    assert snap_compare(make_browser(store), terminal_size=size, run_before=asked)


@SIZES
def test_conflict(snap_compare: Compare, world: Store, size: Size) -> None:
    async def save_elsewhere(pilot: Pilot[Any]) -> None:
        await after(*READING, ["S"], "The upload test was flaky.", [*"Mine: "], "Mine: The")(pilot)
        world.summaries.set(world.sessions.get("claude:e0741090"), "Theirs: it was the retry.", up_to_turn=1)
        await after(["ctrl+s"], "Other version, saved while you were editing", "Use the other version")(pilot)

    assert snap_compare(make_browser(world), terminal_size=size, run_before=save_elsewhere)
