"""Tests teams in the browser: sharing, comments, values that two people wrote at once, and what a reader can do."""

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


async def test_a_comment_is_written_and_read_in_the_conversation(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    session_id = fill(anna)
    anna.team.share(anna.sessions.get(session_id))
    sync_all(anna, ben)
    async with make_browser(ben).run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        await pilot.press("enter")
        await wait_for_text(pilot, "Find the wombat")
        await pilot.press("semicolon")
        await wait_for_text(pilot, "Comment", "Everybody who can read the session sees it.")
        await pilot.press(*"Which one?", "ctrl+s")
        await wait_for_text(pilot, "✎ comment")
        await pilot.press("semicolon")
        await wait_for_text(pilot, "Edit comment", "Save an empty text to delete the comment.")
        await pilot.press("escape")
    sync_all(anna, ben)
    async with make_browser(anna).run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        await pilot.press("enter")
        await wait_for_text(pilot, "ben: Which one?")
        await pilot.press("apostrophe", "m")
        await wait_for_text(pilot, "Note")
        await pilot.press(*"Mine", "ctrl+s")
        await wait_for_notice(pilot, "Added the note.")
    assert [(note.author, note.is_comment) for note in anna.notes.notes(anna.sessions.get(session_id))] == [
        ("ben", True),
        ("", False),
    ]


async def test_a_session_that_is_not_shared_takes_no_comment(open_member: OpenMember) -> None:
    anna = open_member("anna")
    fill(anna)
    async with make_browser(anna).run_test(size=SIZE) as pilot:
        await wait_until(pilot, lambda: session_list(pilot).selected)
        await pilot.press("semicolon")
        await wait_for_notice(pilot, "The session is not shared")
        await pilot.press("enter")
        await wait_for_text(pilot, "Find the wombat")
        await pilot.press("semicolon")
        await wait_until(pilot, lambda: len(pilot.app._notifications) == 2)


async def test_two_titles_given_at_once_are_shown_side_by_side(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    session_id = fill(anna)
    anna.team.share(anna.sessions.get(session_id))
    sync_all(anna, ben)
    anna.sessions.set_title(anna.sessions.get(session_id), "From Anna")
    ben.sessions.set_title(ben.sessions.newest()[0], "From Ben")
    sync_all(anna, ben)
    (conflict,) = anna.team.conflicts()
    async with make_browser(anna).run_test(size=SIZE) as pilot:
        await wait_for_text(pilot, "≠")
        await pilot.press("tilde")
        await wait_for_text(pilot, "Title of", "From Anna", "From Ben", "Counts now, by", "The other, by")
        await pilot.press("escape", "tilde")
        await wait_for_text(pilot, "Counts now")
        await pilot.press("2")
        await wait_for_notice(pilot, f"“{conflict.lost_text}” counts for everybody.")
        await pilot.press("tilde")
        await wait_for_notice(pilot, "No two people changed the same at once.")
    sync_all(anna, ben)
    assert ben.sessions.newest()[0].title == conflict.lost_text
    assert ben.team.conflicts() == []


async def test_facts_of_the_team_say_who_changed_what(open_member: OpenMember) -> None:
    anna, ben = open_member("anna"), open_member("ben")
    trust_all(anna, ben)
    anna.facts.learn("The staging database is old.", scope="team")
    sync_all(anna, ben)
    ben.facts.edit(ben.facts.current(("team",))[0].id, "The staging database is new.")
    sync_all(ben, anna)
    fact = anna.facts.current(("team",))[0]
    anna.facts.edit(fact.id, "The staging database is mine.")
    ben.facts.edit(ben.facts.current(("team",))[0].id, "The staging database is Ben's.")
    sync_all(anna, ben)
    (conflict,) = anna.team.conflicts()
    async with make_browser(anna).run_test(size=SIZE) as pilot:
        await pilot.press("f")
        await wait_for_text(pilot, "≠", "ben: “The staging database is old.” → “The staging database is new.”")
        await wait_for_text(pilot, "Another member changed it at the same time")
        await pilot.press("tilde")
        await wait_for_text(pilot, "Fact of the team", "mine", "Ben's")
        await pilot.press("2")
        await wait_for_notice(pilot, "counts for everybody")
    sync_all(anna, ben)
    assert [one.text for one in ben.facts.current(("team",))] == [conflict.lost_text]
