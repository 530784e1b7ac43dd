"""Tests sharing sessions in the browser: the dialog, the marks in the list, and what a reader can do."""

from __future__ import annotations

from typing import Any

from browser_driver import add_session, make_browser, prompt_entry, session_list, time_ago, wait_for_text, wait_until
from teams.stores import OpenMember, sync_all, trust_all
from textual.pilot import Pilot

from store.store import Store

SIZE = (120, 40)


async def wait_for_notice(pilot: Pilot[Any], text: str) -> None:
    await wait_until(pilot, lambda: any(text in notice.message for notice in pilot.app._notifications))


def fill(store: Store, text: str = "Find the wombat") -> str:
    at = time_ago(hours=1)
    return add_session(store, "claude:1", at, prompt_entry(text, at), source="claude", cwd="/home/ada/code").id


async def test_a_session_is_shared_and_withdrawn_with_one_dialog(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    fill(anna)
    async with make_browser(anna).run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        await pilot.press("ampersand")
        await wait_for_text(pilot, "Share Find the wombat with", "everybody", "Trusted: ben.")
        await pilot.press("enter")
        await wait_for_notice(pilot, "Shared with everybody.")
        await wait_for_text(pilot, "⇄")
        sync_all(anna, ben)
        assert ben.sessions.newest()[0].title == "Find the wombat"
        await pilot.press("ampersand")
        await wait_for_text(pilot, "Empty the line to withdraw")
        await pilot.press("ctrl+u", "enter")
        await wait_for_notice(pilot, "Withdrawn.")
    sync_all(anna, ben)
    assert ben.sessions.newest() == []


async def test_the_dialog_refuses_a_leak_and_an_unknown_name(open_member: OpenMember) -> None:
    anna = open_member("anna")
    fill(anna, "Use AKIAZ7Q3JX5KD2MWN4PB")
    async with make_browser(anna).run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        await pilot.press("ampersand")
        await wait_for_text(pilot, "nobody yet")
        await pilot.press("enter")
        await wait_for_text(pilot, "--redact")
        await pilot.press("ctrl+u", *"cleo", "enter")
        await wait_for_text(pilot, "No such member: 'cleo'")
    assert anna.team.list_shares() == []


async def test_a_reader_sees_the_owner_and_cannot_resume(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    anna.team.share(anna.sessions.get(fill(anna)))
    sync_all(anna, ben)
    async with make_browser(ben).run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        await wait_for_text(pilot, "⇄ anna")
        await pilot.press("r")
        await wait_for_text(pilot, "on a machine of anna")
        await pilot.press("escape", "ampersand")
        await wait_for_text(pilot, "Share Find the wombat with")
        await pilot.press("enter")
        await wait_for_text(pilot, "anna shares this session")


async def test_sharing_without_a_team_says_how_to_join(store: Store) -> None:
    fill(store)
    async with make_browser(store).run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        await pilot.press("ampersand")
        await wait_for_notice(pilot, "This store is in no team.")
