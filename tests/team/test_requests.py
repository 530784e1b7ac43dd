"""Tests asking for a session or a turn, and metrics without content."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest
from browser_driver import make_browser, wait_for_text
from teams.stores import OpenMember, sync_all, trust_all
from test_browser_sharing import wait_for_notice

from store.errors import LeaksFound, NotFound, Refused
from store.model.entry import Json
from store.paths import config_file
from store.store import Store
from store.team.membership import MachineRow
from store.team.metrics import read_metrics

MACHINE = MachineRow("m1", "anna", b"", "2026-11-19", 0, 0, 0)
KEY = "AKIAZ7Q3JX5KD2MWN4PB"


@pytest.fixture
def members(open_member: OpenMember) -> tuple[Store, Store, Store]:
    """Provide Anna, who has a private session, Ben and Cleo. All trust each other."""
    anna, ben, cleo = open_member("anna"), open_member("ben"), open_member("cleo")
    trust_all(anna, ben, cleo)
    anna.create_session("s1", working_dir="/src/alpha", system_prompt="Be secret.")
    for text in ("Find the wombat.", f"Use {KEY}.", "Feed it."):
        anna.append_message("s1", "user", [{"type": "text", "text": text}])
        anna.append_message("s1", "assistant", [{"type": "text", "text": "Done."}])
    anna.sessions.set_title(anna.sessions.get("s1"), "Private title")
    return anna, ben, cleo


def texts(store: Store) -> list[str]:
    (session,) = store.sessions.newest()
    return [entry.text for entry in store.chains.entries(session.key, 0)]


def ask(anna: Store, ben: Store, turn: int | None = None) -> str:
    """Let Ben ask, and return the number of the request as Anna sees it."""
    ben.team.requests.ask("anna", "s1", turn, "I have the same animal")
    sync_all(ben, anna)
    (request,) = anna.team.requests.list_all()
    assert (request.asker, request.session, request.turn, request.state) == ("ben", "s1", turn, "open")
    assert request.reason == "I have the same animal"
    assert (anna.team.status().requests, ben.team.status().requests) == (1, 0)
    return request.number


def test_one_turn_is_approved_and_taken_back(members: tuple[Store, Store, Store]) -> None:
    anna, ben, cleo = members
    shared = anna.team.requests.approve(ask(anna, ben, 3))
    assert (shared.title, shared.turns) == ("Feed it.", 0)
    sync_all(anna, ben, cleo)
    assert texts(ben) == ["Feed it.", "Done."]
    (session,) = ben.sessions.newest()
    assert (session.title, session.system_prompt, session.cwd) == ("Feed it.", "", "/src/alpha")
    assert (session.turns, ben.sessions.matching("feed")[1]) == (1, 1)
    assert cleo.sessions.newest() == []
    assert cleo.team.requests.list_all() == []
    assert [request.state for request in ben.team.requests.list_all()] == ["approved"]
    assert anna.team.status().requests == 0
    anna.team.unshare(shared)
    sync_all(anna, ben)
    assert ben.sessions.newest() == []


def test_a_session_with_a_leak_is_approved_only_with_masks(members: tuple[Store, Store, Store]) -> None:
    anna, ben, _ = members
    number = ask(anna, ben)
    with pytest.raises(LeaksFound):
        anna.team.requests.approve(number)
    assert [request.state for request in anna.team.requests.list_all()] == ["open"]
    anna.team.requests.approve(number, "redact")
    sync_all(anna, ben)
    assert len(texts(ben)) == 6
    assert not any(KEY in text for text in texts(ben))


def test_who_had_the_session_before_keeps_it(members: tuple[Store, Store, Store]) -> None:
    anna, ben, cleo = members
    anna.team.share(anna.sessions.get("s1"), ["cleo"], "redact")
    sync_all(anna, cleo)
    anna.team.requests.approve(ask(anna, ben), "redact")
    sync_all(anna, ben, cleo)
    assert len(texts(ben)) == len(texts(cleo)) == 6


def test_a_request_is_declined_or_withdrawn(members: tuple[Store, Store, Store]) -> None:
    anna, ben, _ = members
    anna.team.requests.decline(ask(anna, ben))
    sync_all(anna, ben)
    (request,) = ben.team.requests.list_all()
    assert request.state == "declined"
    with pytest.raises(Refused, match="declined already"):
        anna.team.requests.approve(request.number)
    with pytest.raises(Refused, match="anna has to answer"):
        ben.team.requests.approve(request.number)
    ben.team.requests.withdraw(request.number)
    sync_all(ben, anna)
    assert anna.team.requests.list_all() == []
    with pytest.raises(NotFound, match="No such request"):
        anna.team.requests.decline(request.number)


def test_wrong_requests_are_refused(members: tuple[Store, Store, Store]) -> None:
    anna, ben, _ = members
    with pytest.raises(NotFound, match="No trusted member is called 'dora'"):
        ben.team.requests.ask("dora", "s1")
    with pytest.raises(Refused, match="your own name"):
        ben.team.requests.ask("ben", "s1")
    with pytest.raises(NotFound, match=r"No such turn: 9\. The last turn is 3\."):
        anna.team.requests.approve(ask(anna, ben, 9))
    ben.team.requests.ask("anna", "nothing")
    sync_all(ben, anna)
    with pytest.raises(NotFound):
        anna.team.requests.approve(anna.team.requests.list_all()[-1].number)


def test_nobody_reads_requests_in_the_database(members: tuple[Store, Store, Store], team_address: str) -> None:
    anna, ben, _ = members
    ask(anna, ben)
    with psycopg.connect(team_address) as connection:
        rows = connection.execute("select operations::text, body from backscroll_team.operations").fetchall()
    assert not any("animal" in text or b"animal" in body for text, body in rows)


async def test_requests_are_answered_in_the_browser(members: tuple[Store, Store, Store]) -> None:
    anna, ben, _ = members
    ask(anna, ben, 1)
    ask_number = len(anna.team.requests.list_all())
    assert ask_number == 1
    async with make_browser(anna).run_test(size=(120, 40)) as pilot:
        await wait_for_text(pilot, "Private title")
        await pilot.press("ctrl+p", *"requests")
        await wait_for_text(pilot, "Requests of members")
        await pilot.press("enter")
        await wait_for_text(pilot, "ben asks for turn 1 of s1", "I have the same animal", "Find the wombat.")
        await pilot.press("y")
        await wait_for_notice(pilot, "Shared with ben.")
    sync_all(anna, ben)
    assert texts(ben) == ["Find the wombat.", "Done."]


# ── metrics ───────────────────────────────────────────────────────────────────────────────────────


def test_metrics_are_shared_only_if_a_member_wants_it(members: tuple[Store, Store, Store], home: Path) -> None:
    anna, ben, cleo = members
    sync_all(anna, ben, cleo)
    assert ben.team.metrics() == []
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text("[team]\nmetrics = true\n")
    anna.team.sync()
    config_file().unlink()
    for store in (ben, cleo):
        store.team.sync()
        (metrics,) = store.team.metrics()
        assert (metrics.member, metrics.total.sessions, metrics.total.turns) == ("anna", 1, 3)
        assert [(row.name, row.turns) for row in metrics.folders] == [("/src/alpha", 3)]
    sync_all(anna, ben)
    assert ben.team.metrics() == []


@pytest.mark.parametrize(
    "value",
    [None, 7, {}, {"day": "x", "total": [], "folders": [[1]], "tools": None}],
)
def test_figures_that_make_no_sense_are_not_shown(value: Json) -> None:
    assert read_metrics(MACHINE, value) is None


def test_only_rows_that_make_sense_are_shown() -> None:
    rows = [["a", 1, 2, 3, 4, 5, None], ["b", 1, 2, 3, 4, -5, 6], ["c"], "d", ["e", 1, 2, 3, 4, 5, 2**70]]
    metrics = read_metrics(MACHINE, {"day": "2026-11-19", "total": "x", "folders": rows, "tools": rows * 100})
    assert metrics is not None
    assert [row.name for row in metrics.folders] == ["a"]
    assert len(metrics.tools) == 20
    assert metrics.total.sessions == 0
