"""Tests the session card: the line at the head of a conversation, and the dialog with all fields of a session."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from browser_driver import (
    NOW,
    add_session,
    answer_entry,
    make_browser,
    prompt_entry,
    resize_terminal,
    screen_text,
    time_ago,
    wait_for_text,
    wait_until,
)
from fake_clipboard import FakeClipboard
from foreign_databases import sync_paths
from textual.pilot import Pilot

from store.conversations.session_card import read_session_card
from store.model.session import Session
from store.resume.checks import check_source_state
from store.store import Store
from tui.render.session_card import MAX_CARD_CHARACTERS, MAX_SHOWN_CHARACTERS, list_card_fields, render_card_lines
from tui.screens.published import PublishedScreen
from tui.screens.session_card import SessionCardScreen
from tui.widgets.field_view import FieldView

ID = "telegram:42"
LONG_PROMPT = "\n".join(f"Rule {number}: be kind." for number in range(200))


@pytest.fixture
def session(store: Store, tmp_path: Path) -> Session:
    """Add a session that has every field, a parent and a child."""
    folder = tmp_path / "sandbox"
    folder.mkdir()
    (folder / "plot.png").write_bytes(b"png")
    at = time_ago(hours=1)
    add_session(store, "telegram:1", time_ago(days=2), prompt_entry("Where it began", at), source="pingu")
    session = add_session(
        store,
        ID,
        at,
        prompt_entry("Good morning!", at),
        answer_entry("Good morning.", at),
        source="pingu",
        native_id="native-42",
        parent_id="telegram:1",
        relation="fork",
        user="anna",
        channel="telegram",
        channel_id="648079060",
        provider="openrouter",
        model="grok-4",
        environment_name="sandbox",
        environment_type="docker",
        environment_path=str(folder),
        cwd="/srv/bot",
        system_prompt=LONG_PROMPT,
        webhook="https://user:pass@example.org/hook?token=abc",
    )
    store.sessions.update(ID, tokens_input=1200, tokens_output=34, tokens_total=1234, updated_at=at)
    add_session(store, f"{ID}:delegate:sysinfo", time_ago(days=1), prompt_entry("How full?", at), source="pingu")
    store.summaries.set(session, "They greet each other.", up_to_turn=1)
    store.notes.tag([session], ["work", "greeting"])
    store.notes.add_note(session, "Ask again tomorrow.")
    store.secrets.set(session, "api_key", "sk-very-secret")
    store.published.publish(session, "plot.png")
    return store.sessions.get(ID)


def read_fields(store: Store, session: Session) -> dict[str, str]:
    card = read_session_card(store, session.key)
    fields = list_card_fields(card, check_source_state(store, session), NOW)
    return {field.label: f"{field.value} | {field.note}" for field in fields}


def test_the_card_has_every_field_of_a_session(store: Store, session: Session) -> None:
    (published,) = store.published.list_published(session)
    fields = read_fields(store, session)
    assert fields.pop("published") == f"{published.id} | plot.png · {published.path}"
    assert fields.pop("note").startswith("Ask again tomorrow. | ")
    assert fields == {
        "title": "Good morning! | ",
        "id": f"{ID} | ",
        "native id": "native-42 | ",
        "agent": "pingu | Pingu",
        "user": "anna | ",
        "channel": "telegram | ",
        "channel id": "648079060 | ",
        "provider": "openrouter | ",
        "model": "grok-4 | ",
        "environment": "sandbox | docker",
        "its path": f"{session.environment_path} | ",
        "folder": "/srv/bot | ",
        "webhook": "https://example.org/hook?*** | ",
        "head": f"{ID}#-1 | ",
        "tail": f"{ID}#1 | ",
        "parent": "telegram:1 | fork · Where it began",
        "child": f"{ID}:delegate:sysinfo | sub-agent · How full?",
        "status": "waiting | for you",
        "created": "2026-11-03T11:00:00.000000Z | 2026-11-03 11:00 here, 1h",
        "updated": "2026-11-03T11:00:00.000000Z | 2026-11-03 11:00 here, 1h",
        "length": "1 turn | ",
        "tokens": "1,200 input, 34 output, 1,234 in total | ",
        "summary": "They greet each other. | covers 1 of 1 turn",
        "tags": "greeting, work | ",
        "secret": "api_key | ",
        "system prompt": f"{LONG_PROMPT} | ",
    }


def test_fields_without_a_value_are_left_out(store: Store) -> None:
    at = time_ago(hours=1)
    labels = read_fields(store, add_session(store, "plain", at, prompt_entry("Hi", at))).keys()
    assert labels == {"title", "id", "native id", "agent", "head", "tail", "status", "created", "updated", "length"}


def test_the_card_says_whether_the_source_file_is_as_it_was_read(store: Store, tmp_path: Path) -> None:
    name = "0d2f5c1e-5d3b-4a6c-9a53-1f1d0a5d7a11"
    file = tmp_path / "projects" / "-srv-app" / f"{name}.jsonl"
    file.parent.mkdir(parents=True)

    def line(number: int, text: str) -> str:
        record = {
            "type": "user",
            "uuid": f"u{number}",
            "parentUuid": f"u{number - 1}" if number else None,
            "sessionId": name,
            "cwd": "/srv/app",
            "timestamp": f"2026-11-03T10:0{number}:00Z",
            "message": {"role": "user", "content": text},
        }
        return json.dumps(record) + "\n"

    file.write_text(line(0, "Hello"))
    sync_paths(store, tmp_path)
    session = store.sessions.find(name)
    assert read_fields(store, session)["read from"] == f"{file} | read completely"
    with file.open("a") as appended:
        appended.write(line(1, "And more"))
    assert read_fields(store, session)["read from"] == f"{file} | changed since it was read"
    file.unlink()
    assert read_fields(store, session)["read from"] == f"{file} | gone: its agent no longer has it"


def test_a_very_long_value_is_cut_on_the_screen_and_names_the_rest(store: Store) -> None:
    at = time_ago(hours=1)
    prompt = "word " * MAX_SHOWN_CHARACTERS
    session = add_session(store, "long", at, prompt_entry("Hi", at), system_prompt=prompt)
    fields = list_card_fields(read_session_card(store, session.key), None, NOW)
    assert fields[-1].value == prompt
    assert "80,000 more characters" in render_card_lines(fields, 80)[-1].content.plain


def test_of_many_long_values_only_the_beginning_is_shown(store: Store) -> None:
    """All of it is wrapped when the card is opened."""
    at, long = time_ago(hours=1), "漢字" * MAX_SHOWN_CHARACTERS
    fields = dict.fromkeys(("cwd", "model", "agent_title", "system_prompt", "environment_path"), f"/{long}")
    session = add_session(store, "long", at, prompt_entry("Hi", at), **fields)
    shown = render_card_lines(list_card_fields(read_session_card(store, session.key), None, NOW), 80)
    assert sum(line.content.plain.count("漢") for line in shown) < MAX_CARD_CHARACTERS
    assert sum("more characters · copy to get the whole value" in line.content.plain for line in shown) >= 4


async def select_session(pilot: Pilot[Any]) -> None:
    """Move the cursor of the list to the session, which is folded under its parent."""
    await wait_for_text(pilot, "+1")
    await pilot.press("right")
    await wait_for_text(pilot, "└ Good morning!")
    await pilot.press("right")
    await wait_for_text(pilot, "anna · telegram 648079060", "Good morning.")


async def test_the_head_of_a_conversation_says_who_spoke_where(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=(220, 45)) as pilot:
        await select_session(pilot)
        await wait_for_text(pilot, "anna · telegram 648079060 · openrouter · sandbox (docker) · fork of telegram:1")


@pytest.mark.parametrize("keys", ["I", "2 I", "3 I"])
async def test_the_card_opens_from_every_pane_scrolls_and_copies(
    store: Store, session: Session, clipboard: FakeClipboard, keys: str
) -> None:
    async with make_browser(store).run_test(size=(150, 45)) as pilot:
        await select_session(pilot)
        await pilot.press(*keys.split())
        await wait_for_text(pilot, "Session card", "native-42", "https://example.org/hook?***", "api_key")
        assert isinstance(pilot.app.screen, SessionCardScreen)
        assert "sk-very-secret" not in screen_text(pilot)
        await pilot.press("J", "y")
        await wait_until(pilot, lambda: clipboard.text == ID)
        await pilot.press("end")
        await wait_for_text(pilot, "Rule 199: be kind.")
        await pilot.press("y")
        await wait_until(pilot, lambda: clipboard.text == LONG_PROMPT)
        await pilot.press("c")
        await wait_until(pilot, lambda: "channel id: 648079060\nprovider: openrouter" in clipboard.text)
        assert "sk-very-secret" not in clipboard.text
        await pilot.press("I")
        await wait_until(pilot, lambda: not isinstance(pilot.app.screen, SessionCardScreen))


async def test_the_card_wraps_again_when_the_terminal_gets_narrow(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=(150, 45)) as pilot:
        await select_session(pilot)
        await pilot.press("I")
        await wait_for_text(pilot, "native-42")
        await resize_terminal(pilot, 60, 20)
        await pilot.press("end", "K")
        await wait_for_text(pilot, "secret", "api_key")
        await wait_until(pilot, lambda: pilot.app.screen.query_one(FieldView).size.height < 20)


async def test_commands_to_the_terminal_in_the_card_are_shown_and_not_obeyed(store: Store) -> None:
    at, hostile = time_ago(hours=1), "\x1b]52;c;aGk=\x07[red]x"
    fields = dict.fromkeys(["user", "channel", "model", "environment_name", "webhook", "system_prompt"], hostile)
    session = add_session(store, "evil", at, prompt_entry("Hi", at), **fields)
    store.notes.add_note(session, hostile)
    async with make_browser(store).run_test(size=(150, 45)) as pilot:
        await wait_for_text(pilot, "▌ Hi")
        await pilot.press("I")
        await wait_for_text(pilot, "Session card", "␛]52;c;aGk=␇[red]x")
        assert not {"\x1b", "\x07"} & {*screen_text(pilot)}


async def test_the_published_files_are_opened_from_the_card(store: Store, session: Session) -> None:
    async with make_browser(store).run_test(size=(140, 45)) as pilot:
        await select_session(pilot)
        await pilot.press("I")
        await wait_for_text(pilot, "Session card")
        await pilot.press("P")
        await wait_until(pilot, lambda: isinstance(pilot.app.screen, PublishedScreen))
        await pilot.press("escape")
        await wait_for_text(pilot, "Session card")
