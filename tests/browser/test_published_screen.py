"""Tests the screen of published files: listing, publishing, copying, opening, and unpublishing with undo."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from browser_driver import TIMEOUT, add_session, fixed_clock, make_browser, prompt_entry, time_ago, wait_for_text
from fake_clipboard import FakeClipboard
from screen_driver import NARROW, WIDE, ScreenDriver, open_screen
from textual.widgets import Static

from store.model.session import Session
from store.store import Store
from tui.dialogs.confirm import ConfirmDialog
from tui.links import system_opener
from tui.screens.published import PublishedScreen


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "charts").mkdir(parents=True)
    (folder / "report.txt").write_text("twelve bytes")
    (folder / "charts" / "may.csv").write_text("a,b\n")
    (tmp_path / "outside.txt").write_text("not in the folder")
    return folder


@pytest.fixture
def session(store: Store, folder: Path) -> Session:
    at = time_ago(hours=1)
    return add_session(store, "telegram:1", at, prompt_entry("Make a report", at), cwd=str(folder))


@pytest.fixture
def other(store: Store, folder: Path) -> Session:
    at = time_ago(hours=2)
    return add_session(store, "discord:2", at, prompt_entry("Draw a chart", at), cwd=str(folder))


def make_screen(store: Store, session: Session | None) -> PublishedScreen:
    return PublishedScreen(store, session, fixed_clock)


def listed_names(one: ScreenDriver) -> list[str]:
    """Return the names that the dialog offers to complete the path."""
    return str(one.pilot.app.screen.query_one("#offers", Static).content).split("\n")


async def test_publishing_asks_for_the_passphrase_of_the_secrets(store: Store, session: Session, folder: Path) -> None:
    """The gate looks for the values of secrets, too."""
    store.secrets.set(session, "word", "tK7wq93ZbLx8Vd")
    store.secrets.use_passphrase("open sesame")
    store.secrets.lock()
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("Press a to publish one.")
        await one.press("a")
        await one.wait_for_text("Publish a file")
        await one.press(*"report.txt", "enter")
        await one.wait_for_text("Unlock the secrets")
        await one.press("escape")
        await one.wait_for_text("Publish a file", "The secrets are locked.")
        await one.press("enter")
        await one.wait_for_text("Unlock the secrets")
        await one.press(*"open sesame", "enter")
        await one.wait_for_text("Published files · 1", "12 bytes")


# ── listing ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [WIDE, NARROW])
async def test_a_file_is_listed_with_its_path_id_and_size(
    store: Store, session: Session, size: tuple[int, int]
) -> None:
    file = store.published.publish(session, "report.txt")
    async with open_screen(store, make_screen(store, session), size) as one:
        await one.wait_for_text("Published files · 1 · Make a report", file.id, "report.txt", "12 bytes")


async def test_the_scope_is_the_session_or_all_sessions(store: Store, session: Session, other: Session) -> None:
    store.published.publish(session, "report.txt")
    store.published.publish(other, "charts/may.csv")
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("· 1 · Make a report", "12 bytes")
        assert "may.csv" not in one.text
        await one.press("s")
        await one.wait_for_text("· 2 · all sessions", "may.csv", "Draw a chart")
        await one.press("slash", *"chart")
        await one.wait_for_text("1 of 2 · all sessions")
        await one.press("enter", "g")
        await one.wait_until(lambda: one.results == ["discord:2#0"])


async def test_a_file_that_is_gone_is_named(store: Store, session: Session, folder: Path) -> None:
    store.published.publish(session, "report.txt")
    (folder / "report.txt").unlink()
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("No such file in", "'report.txt'")


async def test_without_files_the_keys_do_nothing(store: Store, session: Session) -> None:
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("No published files.", "Press a to publish one.")
        await one.press("o", "enter", "x", "y", "Y", "g", "escape")
        await one.wait_until(lambda: one.results == [None])


async def test_without_a_session_all_files_are_listed_and_none_is_published(store: Store, session: Session) -> None:
    store.published.publish(session, "report.txt")
    async with open_screen(store, make_screen(store, None)) as one:
        await one.wait_for_text("· 1 · all sessions", "12 bytes")
        await one.press("a", "s")
        await one.pilot.pause()
        assert one.pilot.app.screen is one.screen
        assert "all sessions" in one.text


async def test_hostile_names_are_shown_and_do_not_act(store: Store, session: Session) -> None:
    name = "a\x1b]52;c;aGk=\x07[red]x[/].txt"
    with store.transaction() as connection:
        connection.execute(
            "insert into published (id, session, filename, path, created_at) values (?, ?, ?, ?, ?)",
            ("id", session.key, name, f"/tmp/{name}", time_ago(days=1)),
        )
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("a␛]52;c;aGk=␇[red]x[/].txt")
        await one.press("x")
        await one.wait_for_text("Unpublished a␛]52")
        assert not {"\x1b", "\x07"} & {*one.text}


# ── publishing ────────────────────────────────────────────────────────────────────────────────────


async def test_a_file_is_published_with_a_completed_name(store: Store, session: Session, folder: Path) -> None:
    store.published.publish(session, "report.txt")
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("12 bytes")
        await one.press("a")
        await one.wait_for_text("Publish a file", "Make a report", "charts/", "report.txt")
        await one.press("c", "h")
        await one.wait_until(lambda: listed_names(one) == ["charts/"])
        await one.press("tab")
        await one.wait_until(lambda: listed_names(one) == ["may.csv"])
        await one.press("tab", "enter")
        await one.wait_for_text("Published may.csv. Press u to undo.", "4 bytes", "· 2 ·")
        assert store.published.list_published(session)[0].path == str(folder / "charts" / "may.csv")
        await one.press("u")
        await one.wait_for_text("Undone: publishing the file", "12 bytes", "· 1 ·")


async def test_a_refused_file_is_explained_and_nothing_typed_is_lost(
    store: Store, session: Session, tmp_path: Path
) -> None:
    path = str(tmp_path / "outside.txt")
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("No published files.")
        await one.press("a")
        await one.wait_for_text("Publish a file")
        await one.press(*path, "enter")
        await one.wait_for_text("outside the session's folder", "outside.txt")
        await one.press("escape")
        await one.wait_for_text("No published files.")
        assert store.published.list_published() == []


async def test_unpublishing_keeps_the_file_and_undo_restores_the_same_id(
    store: Store, session: Session, folder: Path
) -> None:
    file = store.published.publish(session, "report.txt")
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("12 bytes")
        await one.press("x")
        await one.wait_for_text("Unpublished report.txt. Press u to undo.", "No published files.")
        assert (folder / "report.txt").exists()
        await one.press("u")
        await one.wait_for_text("Undone: unpublishing the file", file.id)
        assert store.published.list_published() == [file]


async def test_a_file_published_elsewhere_appears(store: Store, session: Session) -> None:
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("No published files.")
        with Store.open(store.path) as elsewhere:
            elsewhere.published.publish(session, "report.txt")
        await one.wait_for_text("12 bytes")


async def test_the_id_and_the_path_are_copied(
    store: Store, session: Session, folder: Path, clipboard: FakeClipboard
) -> None:
    file = store.published.publish(session, "report.txt")
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("12 bytes")
        await one.press("y")
        await one.wait_for_text("Copied the public id.")
        assert clipboard.text == file.id
        await one.press("Y")
        await one.wait_for_text("Copied the path.")
        assert clipboard.text == str(folder / "report.txt")


# ── opening ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", ["o", "enter"])
async def test_a_file_is_opened_after_its_path_was_shown(
    store: Store, session: Session, folder: Path, opened: Path, key: str
) -> None:
    store.published.publish(session, "report.txt")
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("12 bytes")
        await one.press(key)
        await one.wait_for_text("Open report.txt?")
        question = str(one.pilot.app.screen.query(Static).last().content)
        assert question.startswith(f"{folder / 'report.txt'}\n")
        assert "executable" not in question
        await one.press("n")
        await one.pilot.pause()
        assert not opened.exists()
        await one.press(key)
        await one.wait_for_text("Open report.txt?")
        await one.press("y")
        await one.wait_for_text("Opened report.txt.")
        assert opened.read_text() == f"1\n{folder / 'report.txt'}\n"


async def test_an_executable_file_is_opened_only_after_a_warning(
    store: Store, session: Session, folder: Path, opened: Path
) -> None:
    (folder / "report.txt").chmod(0o755)
    store.published.publish(session, "report.txt")
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("12 bytes")
        await one.press("o")
        await one.wait_for_text("Open report.txt?")
        question = str(one.pilot.app.screen.query(Static).last().content)
        assert "It is executable, so your system may run it." in question


async def test_a_file_that_was_replaced_while_the_question_was_shown_is_not_opened(
    store: Store, session: Session, folder: Path, tmp_path: Path, opened: Path
) -> None:
    store.published.publish(session, "report.txt")
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("12 bytes")
        await one.press("o")
        await one.wait_for_text("Open report.txt?")
        (folder / "report.txt").unlink()
        (folder / "report.txt").symlink_to(tmp_path / "outside.txt")
        await one.press("y")
        await one.wait_for_text("is outside the session's folder")
        assert not opened.exists()


async def test_an_opener_that_fails_is_reported(
    store: Store, session: Session, opened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_opener, "FAILURE_SECONDS", TIMEOUT)  # a busy machine needs longer to start it
    for program in (opened.parent / "programs").iterdir():
        program.write_text("#!/bin/sh\nexit 3\n")
    store.published.publish(session, "report.txt")
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("12 bytes")
        await one.press("o")
        await one.wait_for_text("Open report.txt?")
        await one.press("y")
        # The path of the program decides where the sentence is broken into lines, so only words are looked for.
        await one.wait_for_text("3).", "instead.")


async def test_without_an_opener_the_path_can_be_copied(
    store: Store, session: Session, tmp_path: Path, opened: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program in a relative folder of PATH is no opener: a repository could contain it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f"programs{os.pathsep}.")
    store.published.publish(session, "report.txt")
    async with open_screen(store, make_screen(store, session)) as one:
        await one.wait_for_text("12 bytes")
        await one.press("o")
        await one.wait_for_text("This system has no", "Copy the path instead.")
        assert not isinstance(one.pilot.app.screen, ConfirmDialog)
        assert not opened.exists()


# ── in the browser ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("keys", [["P"], ["enter", "P"]])
async def test_a_key_opens_the_screen_from_the_list_and_the_conversation(
    store: Store, session: Session, other: Session, keys: list[str]
) -> None:
    store.published.publish(session, "report.txt")
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "2 sessions", "Draw a chart")
        await pilot.press(*keys)
        await wait_for_text(pilot, "Published files · 1 · Make a report", "12 bytes")
        await pilot.press("P")
        await wait_for_text(pilot, "2 sessions")


async def test_the_palette_opens_the_screen(store: Store, session: Session) -> None:
    store.published.publish(session, "report.txt")
    async with make_browser(store).run_test(size=WIDE) as pilot:
        await wait_for_text(pilot, "1 session", "Make a report")
        await pilot.press("ctrl+p", *"published")
        await wait_for_text(pilot, "Published files  (P)")
        await pilot.press("enter")
        await wait_for_text(pilot, "Published files · 1 · Make a report", "12 bytes")
