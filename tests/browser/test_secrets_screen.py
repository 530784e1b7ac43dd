"""Tests the secrets screen: listing, revealing, copying, editing and locking."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Event
from time import monotonic, sleep
from typing import Any

import pyperclip
import pytest
from browser_driver import (
    TIMEOUT,
    add_session,
    answer_entry,
    fill_store,
    fixed_clock,
    make_browser,
    prompt_entry,
    screen_text,
    time_ago,
    wait_for_text,
    wait_until,
)
from fake_clipboard import FakeClipboard
from kiso_database import DOCUMENT_SCHEMA, KisoStore
from textual import events
from textual.pilot import Pilot
from write_back_roundtrip import WriteBackCase

from store.errors import NotFound
from store.model.entry import NewEntry, ToolCall
from store.model.knowledge import SecretUse
from store.model.session import Session
from store.secrets.usage import find_uses
from store.store import Store
from tui.app import Backscroll
from tui.dialogs.secret import PassphraseDialog
from tui.privacy import app as locking
from tui.privacy.secret_value import SecretValue
from tui.render.secret_lines import SecretRow
from tui.screens import secrets as screens
from tui.screens.secrets import SecretsScreen
from tui.widgets.secret_view import HiddenInput

VALUE = "ghp-value-that-nobody-knows"
PASSPHRASE = "open sesame"


@pytest.fixture
def session(store: Store) -> Session:
    fill_store(store)
    session = store.sessions.get("claude:e0741090")
    store.secrets.set(session, "GITHUB_TOKEN", "an older one")
    store.secrets.set(session, "GITHUB_TOKEN", VALUE)
    store.secrets.set(session, "OTHER", "x")
    return session


@pytest.fixture
def locked(store: Store, session: Session) -> Session:
    store.secrets.use_passphrase(PASSPHRASE)
    store.secrets.drop_key()
    return session


async def opened(pilot: Pilot[Any], store: Store, session: Session, shown: str = "GITHUB_TOKEN") -> SecretsScreen:
    await wait_for_text(pilot, "brackets")
    screen = SecretsScreen(store, session, fixed_clock)
    await pilot.app.push_screen(screen)
    await wait_for_text(pilot, shown)
    return screen


async def until_hidden(pilot: Pilot[Any], text: str = VALUE) -> None:
    await wait_until(pilot, lambda: text not in screen_text(pilot))


async def notified(pilot: Pilot[Any], text: str) -> None:
    await wait_until(pilot, lambda: any(text in notice.message for notice in pilot.app._notifications))


# ── listing ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("size", [(140, 45), (80, 24)])
async def test_names_are_listed_without_values(store: Store, session: Session, size: tuple[int, int]) -> None:
    async with make_browser(store).run_test(size=size) as pilot:
        await opened(pilot, store, session)
        await wait_for_text(
            pilot, "v2", "OTHER", "••••••••", "sealed with the key file · unlocked", "not used in any tool call"
        )
        assert VALUE not in screen_text(pilot)


async def test_uses_are_shown(store: Store) -> None:
    at = time_ago(hours=1)
    named = ToolCall("c1", "Bash", {"env": {"API_KEY": "secret://s/API_KEY"}, "command": "curl $TOKEN; echo MY_TOKENS"})
    calls = NewEntry(role="assistant", parts=(named,), created_at=at)
    session = add_session(store, "s", at, prompt_entry("go", at), answer_entry("hm", at), prompt_entry("on", at), calls)
    for name in ("API_KEY", "TOKEN", "MY_TOKEN"):
        store.secrets.set(session, name, "v")
    fill_store(store)
    gone: list[str | None] = []
    async with make_browser(store).run_test(size=(140, 45)) as pilot:
        await wait_for_text(pilot, "brackets")
        pilot.app.push_screen(SecretsScreen(store, session, fixed_clock), gone.append)
        await wait_for_text(pilot, "not used in any tool call")
        lines = [line for line in screen_text(pilot).splitlines() if "used in turn 2" in line]
        assert [line.split()[0].strip("▌") or line.split()[1] for line in lines] == ["API_KEY", "TOKEN"]
        await pilot.press("g")
        await wait_until(pilot, lambda: gone)
    assert store.chains.entries(session.key)[-1].seq == int(str(gone[0]).rpartition("#")[2])


async def test_hostile_names_and_values(store: Store, session: Session) -> None:
    store.secrets.set(session, "[b]日本\u202e名 [/]", "a\x1b]0;evil\x07\nsecond\tline\x9b2J" + "x" * 90_000)
    async with make_browser(store).run_test(size=(100, 30)) as pilot:
        await opened(pilot, store, session, "[b]日本⟨U+202E⟩名 [/]")
        await pilot.press("end", "r")
        await wait_for_text(pilot, "a␛]0;evil␇", "second", "line�2J")
        await pilot.press("ctrl+down", "ctrl+up")
        raw = "".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
        assert not set(raw) & {"\x1b", "\x07", "\x9b", "\u202e"}


# ── revealing ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("key", ["r", "enter"])
async def test_a_revealed_value_is_hidden_after_a_while(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setattr(screens, "TICK_SECONDS", 0.3)
    async with make_browser(store).run_test() as pilot:
        await opened(pilot, store, session)
        await pilot.press(key)
        await wait_for_text(pilot, VALUE, "hides in")
        await until_hidden(pilot)
        assert "hides in" not in screen_text(pilot)


async def test_a_value_is_revealed_while_its_uses_are_found(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_reading = Event()

    def find_uses_later(*arguments: Any) -> dict[str, list[SecretUse]]:
        is_reading.wait(TIMEOUT)
        return find_uses(*arguments)

    def read_value_later(screen: SecretsScreen, row: SecretRow) -> SecretValue:
        is_reading.set()
        deadline = monotonic() + TIMEOUT
        while (selected := screen.table.selected) and selected.uses is None and monotonic() < deadline:
            sleep(0.01)
        return read_value(screen, row)

    read_value = SecretsScreen._read_value
    monkeypatch.setattr(screens, "find_uses", find_uses_later)
    monkeypatch.setattr(SecretsScreen, "_read_value", read_value_later)
    async with make_browser(store).run_test() as pilot:
        await opened(pilot, store, session)
        await pilot.press("r")
        await wait_for_text(pilot, "not used in any tool call")
        await wait_for_text(pilot, VALUE)


async def blurred(pilot: Pilot[Any]) -> None:
    pilot.app.post_message(events.AppBlur())


async def moved(pilot: Pilot[Any]) -> None:
    await pilot.press("down")


async def covered(pilot: Pilot[Any]) -> None:
    await pilot.press("question_mark")


async def suspended(pilot: Pilot[Any]) -> None:
    pilot.app.app_suspend_signal.publish(pilot.app)


async def left(pilot: Pilot[Any]) -> None:
    await pilot.press("escape")


@pytest.mark.parametrize("go", [blurred, moved, covered, suspended, left])
async def test_a_value_is_hidden_when_the_person_leaves_it(
    store: Store, session: Session, go: Callable[..., Any]
) -> None:
    async with make_browser(store).run_test() as pilot:
        screen = await opened(pilot, store, session)
        await pilot.press("r")
        await wait_for_text(pilot, VALUE)
        await go(pilot)
        await until_hidden(pilot)
        assert VALUE not in repr(vars(screen))


async def test_quitting_hides_the_value_and_locks(store: Store, locked: Session) -> None:
    store.secrets.unlock(PASSPHRASE)
    app = make_browser(store)
    async with app.run_test() as pilot:
        screen = await opened(pilot, store, locked)
        await pilot.press("r")
        await wait_for_text(pilot, VALUE)
        view = screen.value_view
        app.exit()
        assert not view.is_revealed
        assert store.secrets.is_locked


async def test_screenshots_contain_no_value(store: Store, session: Session, tmp_path: Any) -> None:
    async with make_browser(store).run_test() as pilot:
        await opened(pilot, store, session)
        await pilot.press("r")
        await wait_for_text(pilot, VALUE)
        assert VALUE not in pilot.app.export_screenshot()
        saved = pilot.app.save_screenshot("shot.svg", str(tmp_path))
        assert VALUE not in Path(saved).read_text("utf-8")
        assert VALUE in screen_text(pilot)
        await pilot.press("e")
        await wait_for_text(pilot, "Replace the value of GITHUB_TOKEN")
        await pilot.press(*"typed-value", "ctrl+t")
        await wait_for_text(pilot, "typed-value")
        assert "typed-value" not in pilot.app.export_screenshot()
        assert "typed-value" in screen_text(pilot)


# ── copying ───────────────────────────────────────────────────────────────────────────────────────


async def test_the_clipboard_is_cleared_if_it_still_contains_the_secret(
    store: Store, session: Session, clipboard: FakeClipboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locking, "CLIPBOARD_SECONDS", 1.5)
    async with make_browser(store).run_test() as pilot:
        await opened(pilot, store, session)
        await pilot.press("y")
        await wait_until(pilot, lambda: clipboard.text == VALUE)
        await notified(pilot, "Copied GITHUB_TOKEN")
        assert VALUE not in screen_text(pilot)
        await wait_until(pilot, lambda: clipboard.text == "")
        await pilot.press("y")
        await wait_until(pilot, lambda: clipboard.text == VALUE)
        clipboard.text = "something else"
        await wait_until(pilot, lambda: pilot.app._copied_secret is None)  # type: ignore[attr-defined]
        await pilot.app.workers.wait_for_complete()
        assert clipboard.text == "something else"


async def test_quitting_clears_the_clipboard(store: Store, session: Session, clipboard: FakeClipboard) -> None:
    async with make_browser(store).run_test() as pilot:
        await opened(pilot, store, session)
        await pilot.press("y")
        await notified(pilot, "Copied GITHUB_TOKEN")
        assert clipboard.text == VALUE
    assert clipboard.text == ""


async def test_an_unreadable_clipboard_shows_a_warning(
    store: Store, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise pyperclip.PyperclipException("none here")

    monkeypatch.setattr(pyperclip, "copy", refuse)
    async with make_browser(store).run_test() as pilot:
        await opened(pilot, store, session)
        await pilot.press("y")
        await notified(pilot, "stays there until something else is copied")
        assert pilot.app.clipboard == ""
    monkeypatch.setattr(pyperclip, "copy", lambda _: None)
    monkeypatch.setattr(pyperclip, "paste", refuse)
    monkeypatch.setattr(locking, "CLIPBOARD_SECONDS", 0.1)
    async with make_browser(store).run_test() as pilot:
        await opened(pilot, store, session)
        await pilot.press("y")
        await notified(pilot, "may still contain the secret")


# ── changing ──────────────────────────────────────────────────────────────────────────────────────


async def test_add_replace_delete(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=(100, 30)) as pilot:
        await opened(pilot, store, session)
        await pilot.press("a")
        await wait_for_text(pilot, "New secret")
        await pilot.press("enter", "enter")
        await wait_for_text(pilot, "The name is empty.")
        await pilot.press(*"NEW", "enter", "enter")
        await wait_for_text(pilot, "The value is empty")
        pilot.app.screen.query_one(HiddenInput).post_message(events.Paste("two\nlines\n"))
        await wait_for_text(pilot, "•••••••••")
        await pilot.press("enter")
        await wait_for_text(pilot, "▌  NEW")
        assert store.secrets.get(session, "NEW") == "two\nlines"
        await pilot.press("e")
        await wait_for_text(pilot, "Replace the value of NEW")
        await pilot.press(*"better", "enter")
        await wait_for_text(pilot, "v2", "NEW  version 2")
        assert store.secrets.get(session, "NEW") == "better"
        await pilot.press("x")
        await notified(pilot, "Deleted NEW. Press u to undo.")
        await wait_until(pilot, lambda: len(store.secrets.names(session)) == 2)
        await pilot.press("u")
        await wait_for_text(pilot, "  NEW  ")
        assert store.secrets.get(session, "NEW") == "better"


async def test_permanent_deletion_asks_first(store: Store, session: Session) -> None:
    async with make_browser(store).run_test() as pilot:
        await opened(pilot, store, session)
        await pilot.press("X")
        await wait_for_text(pilot, "permanently?")
        await pilot.press("n")
        assert store.secrets.get(session, "GITHUB_TOKEN") == VALUE
        await pilot.press("X")
        await wait_for_text(pilot, "permanently?")
        await pilot.press("y")
        await wait_until(pilot, lambda: len(store.secrets.names(session)) == 1)
        with pytest.raises(NotFound):
            store.secrets.get(session, "GITHUB_TOKEN", 1)


async def test_a_change_elsewhere_is_reported_before_it_is_overwritten(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=(120, 30)) as pilot:
        await opened(pilot, store, session)
        await pilot.press("e")
        await wait_for_text(pilot, "Replace the value")
        store.secrets.set(session, "GITHUB_TOKEN", "theirs")
        await pilot.press(*"mine", "enter")
        await wait_for_text(pilot, "was replaced by version 3 elsewhere")
        assert store.secrets.get(session, "GITHUB_TOKEN") == "theirs"
        await pilot.press("enter")
        await wait_for_text(pilot, "version 4")
        assert store.secrets.get(session, "GITHUB_TOKEN") == "mine"
        store.secrets.set(session, "GITHUB_TOKEN", "theirs again")
        await pilot.press("x")
        await notified(pilot, "replaced by version 5 elsewhere")
        assert store.secrets.get(session, "GITHUB_TOKEN") == "theirs again"
        await pilot.press("a")
        await wait_for_text(pilot, "New secret")
        await pilot.press(*"OTHER", "enter", *"y", "enter")
        await wait_for_text(pilot, "The secret 'OTHER' already exists")
        assert store.secrets.get(session, "OTHER") == "x"


async def test_an_error_of_the_store_is_shown_next_to_the_field(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=(120, 30)) as pilot:
        await opened(pilot, store, session)
        await pilot.press("a")
        await wait_for_text(pilot, "New secret")
        pilot.app.screen.query_one("#name").value = "N" * 1_001  # type: ignore[attr-defined]
        await pilot.press("enter", "v", "enter")
        await wait_for_text(pilot, "longer than 1,000 characters")
        assert pilot.app.screen.query_one(HiddenInput).value == "v"
        store.sessions.purge([session])
        pilot.app.screen.query_one("#name").value = "N"  # type: ignore[attr-defined]
        await pilot.press("enter")
        await wait_for_text(pilot, "no longer in the store")
        assert pilot.app.screen.query_one(HiddenInput).value == "v"


# ── locking ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_wrong_passphrase_waits_longer_each_time(
    store: Store, locked: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1000.0]
    monkeypatch.setattr(locking, "monotonic", lambda: now[0])
    async with make_browser(store).run_test(size=(100, 30)) as pilot:
        await opened(pilot, store, locked)
        await wait_for_text(pilot, "locked")
        await pilot.press("r")
        await wait_for_text(pilot, "Unlock the secrets")
        for wait in ("1 second", "2 seconds", "4 seconds"):
            await pilot.press("w", "enter")
            await wait_for_text(pilot, f"Wrong passphrase. Try again in {wait}.")
            await pilot.press("enter")
            now[0] += 60
            await wait_for_text(pilot, "Wrong passphrase. Try again.")
        field = pilot.app.screen.query_one(HiddenInput)
        assert field.value == "www"
        assert "www" not in screen_text(pilot)
        await pilot.press("w", "enter")
        await wait_for_text(pilot, "in 8 seconds")
        await pilot.press("escape", "r")
        await wait_for_text(pilot, "in 8 seconds")
        await pilot.press(*PASSPHRASE, "enter")
        assert store.secrets.is_locked
        now[0] += 8
        await wait_for_text(pilot, "Try again.")
        await pilot.press("enter")
        await wait_for_text(pilot, VALUE)
        assert not store.secrets.is_locked


async def test_lock_and_unlock(store: Store, session: Session) -> None:
    store.secrets.use_passphrase("open sesame")
    async with make_browser(store).run_test(size=(100, 30)) as pilot:
        await opened(pilot, store, session)
        await pilot.press("r")
        await wait_for_text(pilot, VALUE)
        await pilot.press("L")
        await wait_for_text(pilot, "· locked")
        assert VALUE not in screen_text(pilot)
        assert store.secrets.is_locked
        await pilot.press("L")
        await wait_for_text(pilot, "Unlock the secrets")
        await pilot.press(*"open", "space", *"sesame", "enter")
        await wait_for_text(pilot, "· unlocked")
        assert not store.secrets.is_locked


async def test_a_key_file_locks_nothing_and_the_screen_says_so(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=(100, 30), notifications=True) as pilot:
        await opened(pilot, store, session)
        await pilot.press("r")
        await wait_for_text(pilot, VALUE)
        await pilot.press("L")
        await wait_for_text(pilot, "Only a passphrase locks the secrets.")
        assert VALUE not in screen_text(pilot)
        assert not store.secrets.is_locked


async def test_ten_idle_minutes_lock(store: Store, locked: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(locking, "monotonic", lambda: now[0])
    monkeypatch.setattr(locking, "IDLE_CHECK_SECONDS", 0.02)
    store.secrets.unlock(PASSPHRASE)
    async with make_browser(store).run_test(size=(100, 30)) as pilot:
        await opened(pilot, store, locked)
        now[0] += 599
        await pilot.press("r")
        await wait_for_text(pilot, VALUE)
        now[0] += 599
        await pilot.pause(0.2)
        assert not store.secrets.is_locked
        now[0] += 1
        await wait_for_text(pilot, "· locked")
        assert VALUE not in screen_text(pilot)
        await pilot.press("y")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, PassphraseDialog))
        await pilot.press("escape")
        assert store.secrets.is_locked


async def test_resuming_locks_the_secrets(store: Store, locked: Session) -> None:
    store.secrets.unlock(PASSPHRASE)
    app: Backscroll = make_browser(store)
    async with app.run_test() as pilot:
        await wait_for_text(pilot, "brackets")
        from store.resume.command import plan_resume

        app.exit_and_resume(plan_resume(locked))
        assert store.secrets.is_locked


# ── unprotected values ────────────────────────────────────────────────────────────────────────────


async def test_an_unprotected_secret_can_be_sealed(store: Store, tmp_path: Any) -> None:
    owner = KisoStore(tmp_path / "kiso.db", DOCUMENT_SCHEMA)
    owner.add_session("dev")
    owner.add_message("hello")
    owner.insert_row("secrets", session="dev", key="api_token", value=VALUE)
    world = WriteBackCase(store, owner.path, "dev")
    fill_store(store)
    async with make_browser(store).run_test(size=(140, 30)) as pilot:
        await opened(pilot, store, world.session, "unprotected in")
        assert VALUE not in screen_text(pilot)
        await pilot.press("enter")
        await notified(pilot, "still has it in plain text")
        await wait_for_text(pilot, "v1", "sealed with the key file")
        assert store.secrets.exposed() == []
        await pilot.press("enter")
        await wait_for_text(pilot, VALUE)
