"""Tests google-adk's sessions in a store: the promises of ADK's own services, and real runs on each service."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from postgres_server import PASSWORD, PostgresServer

from store.doctor import check_store
from store.store import Store

for needed in ("aiosqlite", "asyncpg", "google.adk", "sqlalchemy"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; `make test` installs it")
adk_service = pytest.importorskip("store.agent_api.adk")
adk_conversation = pytest.importorskip("adk_conversation")
make_event = adk_conversation.make_event
record_conversation = adk_conversation.record_conversation
function_call_part = adk_conversation.function_call_part
function_response_part = adk_conversation.function_response_part
ask_agent = adk_conversation.ask_agent

PLACE = {"app_name": "dak", "user_id": "a/b", "session_id": "s 1"}
"""Names the session that `record_conversation` creates."""


@pytest.fixture
def service(store: Store) -> Any:
    return adk_service.StoreSessionService(store)


def event(author: str = "user", text: str = "hi", **state: Any) -> Any:
    actions = adk_conversation.EventActions(state_delta={key.replace("__", ":"): value for key, value in state.items()})
    return make_event(author, text, actions=actions)


def texts(session: Any) -> list[str]:
    return [event.content.parts[0].text for event in session.events]


# ── events ──────────────────────────────────────────────────────────────────────────────────


async def test_a_session_comes_back_as_it_was(service: Any) -> None:
    written = await record_conversation(service)
    loaded = await service.get_session(**PLACE)
    assert loaded.events == written.events
    assert loaded.last_update_time == written.last_update_time
    assert {key: value for key, value in written.state.items() if not key.startswith("temp:")} == loaded.state
    assert loaded.state == {
        "topic": "invoices",
        "last": {"n": 7, "f": 0.1},
        "app:motd": "hello",
        "user:lang": "en",
    }


async def test_it_is_a_conversation_like_any_other(service: Any, store: Store) -> None:
    written = await record_conversation(service)
    (session,) = store.list_sessions()
    assert (session.id, session.native_id) == ("adk/dak/a%2Fb/s%201", "dak/a%2Fb/s%201")
    assert (session.user, session.channel, session.turns, session.tool_calls) == ("a/b", "dak", 1, 1)
    entries = store.chains.entries(session.key, 0)
    assert [(entry.kind, entry.role, entry.author) for entry in entries] == [
        ("message", "user", "user"),
        ("message", "assistant", "counter"),
        ("message", "tool", "counter"),
        ("message", "assistant", "counter"),
        ("event", "", "counter"),
    ]
    assert json.loads(store.records.get(entries[3].record or 0)) == json.loads(
        written.events[3].model_dump_json(exclude_none=True)
    )
    assert [hit.entry for hit in store.search.find("overdue")[0]] == [f"{session.id}#0"]
    assert check_store(store) == []


async def test_a_long_running_call_is_answered_by_what_follows_its_ticket(service: Any, store: Store) -> None:
    session = await service.create_session(app_name="dak", user_id="ana")
    await service.append_event(session, make_event("w", function_call_part("pay", "c1"), long_running_tool_ids={"c1"}))
    await service.append_event(session, make_event("w", function_response_part("pay", "c1", ticket=12)))
    await service.append_event(session, make_event("user", function_response_part("pay", "c1", paid=True)))
    (call,) = store.chains.tool_calls(store.list_sessions()[0].key)
    assert (call.status, call.result) == ("ok", {"paid": True})


async def test_what_is_partial_is_not_kept(service: Any) -> None:
    session = await service.create_session(app_name="dak", user_id="ana")
    await service.append_event(session, make_event("counter", "Sev", partial=True))
    assert session.events == []
    assert (await service.get_session(app_name="dak", user_id="ana", session_id=session.id)).events == []


# ── state ─────────────────────────────────────────────────────────────────────────────────────────


async def test_state_reaches_whom_its_prefix_says(service: Any) -> None:
    first = await service.create_session(app_name="dak", user_id="ana", session_id="one", state={"mine": 1})
    await service.append_event(first, event(app__motd="hello", user__lang="en", temp__scratch="x", mine=2))
    assert first.state["temp:scratch"] == "x", "it lives as long as the invocation"
    states = {
        (app, user): (await service.create_session(app_name=app, user_id=user)).state
        for app, user in (("dak", "ana"), ("dak", "bob"), ("other", "ana"))
    }
    assert states == {
        ("dak", "ana"): {"app:motd": "hello", "user:lang": "en"},
        ("dak", "bob"): {"app:motd": "hello"},
        ("other", "ana"): {},
    }
    again = await service.get_session(app_name="dak", user_id="ana", session_id="one")
    assert again.state == {"mine": 2, "app:motd": "hello", "user:lang": "en"}
    assert await service.get_user_state(app_name="dak", user_id="ana") == {"lang": "en"}


async def test_what_is_temporary_is_nowhere_in_the_store(service: Any, store: Store) -> None:
    session = await service.create_session(app_name="dak", user_id="ana", state={"temp:a": "mayfly-1"})
    await service.append_event(session, event(temp__b="mayfly-2"))
    records = [data for _, data in store.records.iter_session(store.list_sessions()[0].key)]
    assert b"mayfly" not in b"".join(records)
    assert store.facts.current(None) == []


VALUES = [
    "en",
    "7",
    7,
    7.0,
    0.1 + 0.2,
    2**80,
    True,
    "true",
    None,
    "null",
    "",
    " spaced ",
    "two\nlines",
    '"quoted"',
    "{",
    [1, {"a": [None]}],
    {"k: ": "v: w"},
    "é✓ 你好",
]


async def test_every_value_comes_back_exactly(service: Any) -> None:
    state = {f"key {number}: é/": value for number, value in enumerate(VALUES)}
    session = await service.create_session(app_name="dak", user_id="ana", state=state)
    loaded = await service.get_session(app_name="dak", user_id="ana", session_id=session.id)
    assert loaded.state == state
    assert [type(value) for value in loaded.state.values()] == [type(value) for value in VALUES]


async def test_what_json_cannot_say_is_kept_as_adk_does(service: Any) -> None:
    session = await service.create_session(app_name="dak", user_id="ana", state={"n": float("nan"), "o": {1}})
    assert session.state == {"n": None, "o": [1]}


async def test_a_person_corrects_what_the_agent_remembers(service: Any, store: Store) -> None:
    session = await service.create_session(app_name="dak", user_id="ana", state={"user:lang": "en", "app:n": 3, "x": 1})
    by_text = {fact.text: fact.id for fact in store.facts.current(None)}
    store.facts.edit(by_text["lang: en"], "lang: de")
    store.facts.edit(by_text["n: 3"], "n: 4")
    store.facts.retire(by_text["x: 1"])
    place = {"app_name": "dak", "user_id": "ana", "session_id": session.id}
    assert (await service.get_session(**place)).state == {"user:lang": "de", "app:n": 4}
    store.journal.undo()
    assert (await service.get_session(**place)).state["x"] == 1
    await service.append_event(session, event(user__lang="fr"))
    assert (await service.get_session(**place)).state["user:lang"] == "fr"


async def test_an_agents_changes_are_not_a_persons_edits(service: Any, store: Store) -> None:
    await record_conversation(service)
    assert store.journal.list_edits() == []


# ── finding ───────────────────────────────────────────────────────────────────────────────────────


async def test_sessions_are_listed_oldest_first_and_without_events(service: Any, store: Store) -> None:
    sessions = {
        (user, name): await service.create_session(app_name="dak", user_id=user, session_id=name)
        for user, name in (("ana", "1"), ("ana/x", "1"), ("ana", "2"), ("bob", "1"))
    }
    await service.create_session(app_name="dak/ana", user_id="1")
    await service.append_event(sessions["ana", "1"], event(topic="x"))

    async def listed(user: str | None) -> list[tuple[str, str]]:
        found = await service.list_sessions(app_name="dak", user_id=user)
        assert all(session.events == [] for session in found.sessions)
        return [(session.user_id, session.id) for session in found.sessions]

    assert await listed("ana") == [("ana", "2"), ("ana", "1")]
    assert await listed(None) == [("ana/x", "1"), ("ana", "2"), ("bob", "1"), ("ana", "1")]
    assert await listed("nobody") == []
    newest = (await service.list_sessions(app_name="dak", user_id="ana")).sessions[-1]
    assert newest.state == {"topic": "x"}
    store.sessions.delete([store.sessions.get("adk/dak/bob/1")])
    assert ("bob", "1") not in await listed(None)


async def test_only_the_events_that_are_asked_for(service: Any) -> None:
    session = await service.create_session(**PLACE)
    for number in range(5):
        await service.append_event(session, make_event("user", str(number), timestamp=1000.0000004 + number))

    async def asked(**config: Any) -> list[str]:
        wanted = adk_service.GetSessionConfig(**config)
        return texts(await service.get_session(**PLACE, config=wanted))

    assert await asked() == ["0", "1", "2", "3", "4"]
    assert await asked(num_recent_events=2) == ["3", "4"]
    assert await asked(num_recent_events=0) == []
    assert await asked(after_timestamp=1002.0000004) == ["2", "3", "4"]
    assert await asked(after_timestamp=1002.0000005) == ["3", "4"]
    assert await asked(after_timestamp=1001, num_recent_events=1) == ["4"]


async def test_deleting(service: Any, store: Store) -> None:
    await record_conversation(service)
    await service.delete_session(**PLACE)
    assert await service.get_session(**PLACE) is None
    assert {fact.text for fact in store.facts.current(None)} == {"motd: hello", "lang: en"}, "others' state stays"
    await service.delete_session(**PLACE)
    assert (await service.create_session(**PLACE)).events == []
    assert check_store(store) == []


async def test_refusals_are_adks_own(service: Any) -> None:
    session = await service.create_session(**PLACE)
    with pytest.raises(adk_service.AlreadyExistsError):
        await service.create_session(**PLACE)
    await service.delete_session(**PLACE)
    with pytest.raises(adk_service.SessionNotFoundError):
        await service.append_event(session, event())
    assert session.events == []


# ── concurrency ───────────────────────────────────────────────────────────────────────────────────────


async def test_a_session_that_others_went_on_with_must_be_loaded_again(service: Any, store: Store) -> None:
    mine = await service.create_session(**PLACE)
    other = adk_service.StoreSessionService(Store.open(store.path))
    theirs = await other.get_session(**PLACE)
    await other.append_event(theirs, event(text="theirs"))
    with pytest.raises(adk_service.StaleSessionError):
        await service.append_event(mine, event(text="mine", topic="lost"))
    assert (mine.events, mine.state) == ([], {})
    mine = await service.get_session(**PLACE)
    await service.append_event(mine, event(text="mine"))
    assert texts(await other.get_session(**PLACE)) == ["theirs", "mine"]
    await other.close()


async def test_a_session_built_by_hand_is_judged_by_its_last_event(service: Any) -> None:
    written = await record_conversation(service)
    by_hand = adk_service.adk.Session(app_name="dak", user_id="a/b", id="s 1", events=[])
    with pytest.raises(adk_service.StaleSessionError):
        await service.append_event(by_hand, event())
    by_hand.events = list(written.events)
    await service.append_event(by_hand, event(text="more"))
    assert len((await service.get_session(**PLACE)).events) == 6


async def test_appends_at_once_are_all_kept(service: Any, store: Store) -> None:
    session = await service.create_session(**PLACE)
    await asyncio.gather(*(service.append_event(session, event(text=str(number))) for number in range(25)))
    loaded = await service.get_session(**PLACE)
    assert sorted(map(int, texts(loaded))) == list(range(25))
    assert texts(loaded) == texts(session)
    assert check_store(store) == []


async def test_services_of_several_processes_share_a_store(store: Store) -> None:
    services = [adk_service.StoreSessionService(Store.open(store.path)) for _ in range(3)]

    async def converse(service: Any, name: str) -> None:
        session = await service.create_session(app_name="dak", user_id="ana", session_id=name)
        for number in range(10):
            await service.append_event(session, event(text=str(number), app__last=name))

    await asyncio.gather(*(converse(service, f"s{number}") for number, service in enumerate(services)))
    for service in services:
        found = await service.get_session(app_name="dak", user_id="ana", session_id="s1")
        assert texts(found) == [str(number) for number in range(10)]
        await service.close()
    assert check_store(store) == []


# ── real runs ────────────────────────────────────────────────────────────────────────────


@pytest.fixture(params=["our store", "a database", "memory"])
def chosen(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Any]:
    """Choose the service as an agent does, by SESSION_SERVICE_URI."""
    if request.param == "our store":
        monkeypatch.setenv("SESSION_SERVICE_URI", f"backscroll://{tmp_path}/agent.db")
    elif request.param == "a database":
        server: PostgresServer = request.getfixturevalue("postgres_server")
        monkeypatch.setenv("SESSION_SERVICE_URI", server.url(password=quote(PASSWORD)))
    return adk_service.session_service


async def test_a_real_agent_talks_on_every_service(chosen: Callable[[], Any]) -> None:
    service = chosen()
    await service.create_session(app_name="dak", user_id="ana", session_id="session_ana")
    assert await ask_agent(service, "How many are overdue?") == "{'overdue': 7, 'run': 1}"
    assert await ask_agent(service, "And now?") == "{'overdue': 7, 'run': 2}"
    session = await service.get_session(app_name="dak", user_id="ana", session_id="session_ana")
    assert [event.author for event in session.events] == ["user", *["dak_agent"] * 3] * 2
    assert session.state == {"user:runs": 2}
    await service.delete_session(app_name="dak", user_id="ana", session_id="session_ana")
    if hasattr(service, "close"):
        await service.close()


async def test_a_run_is_browsed_as_turns_and_calls(store: Store, service: Any) -> None:
    await service.create_session(app_name="dak", user_id="ana", session_id="session_ana")
    await ask_agent(service, "How many are overdue?")
    (session,) = store.list_sessions()
    (turn,) = [turn for turn in store.chains.turns(session.key) if turn.n]
    (call,) = turn.tool_calls
    assert (turn.prompt, call.name, call.status) == ("How many are overdue?", "count", "ok")
    assert turn.entries[-1].text == "{'overdue': 7, 'run': 1}"


# ── choosing a service ─────────────────────────────────────────────────────────────────────────────────


def kind(service: Any) -> str:
    return type(service).__name__


def test_nothing_named_is_memory_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert kind(adk_service.session_service()) == "InMemorySessionService"
    assert "SESSION_SERVICE_URI is not set. Sessions are kept in memory" in caplog.text


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql+asyncpg://ana:pw-of-ana@127.0.0.1:1/dak",
        "postgresql://ana:pw-of-ana@/dak?host=/nowhere",
        "sqlite+aiosqlite:////nowhere/at/all.db",
        "nonsense://ana:pw-of-ana@x",
        "backscroll:///dev/null/store.db",
    ],
)
def test_one_that_cannot_be_reached_is_memory_with_a_warning(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert kind(adk_service.session_service(uri)) == "InMemorySessionService"
    assert "Sessions are kept in memory" in caplog.text
    assert "pw-of-ana" not in caplog.text


async def test_each_address_has_its_service(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    services = [
        adk_service.session_service(uri)
        for uri in (f"sqlite:///{tmp_path}/a.db", "backscroll://", f"backscroll://{tmp_path}/an%20agent.db")
    ]
    assert list(map(kind, services)) == ["DatabaseSessionService", "StoreSessionService", "StoreSessionService"]
    assert (tmp_path / "an agent.db").exists()
    assert services[1].store.path.is_relative_to(Path.home())
    assert caplog.text == ""
    for service in services:
        await service.close()
