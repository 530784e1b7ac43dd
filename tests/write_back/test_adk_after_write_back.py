"""After edits were carried back, google-adk itself opens its database and goes on: also an agent that was at work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adk_postgres_database import AdkPostgresDatabase, clear_postgres_environment  # noqa: F401 a fixture
from foreign_databases import sync_paths
from postgres_server import PostgresServer, postgres_server  # noqa: F401 a fixture

from store.model.session import Session
from store.store import Store

for needed in ("aiosqlite", "asyncpg", "google.adk", "psycopg", "sqlalchemy"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; `make test` installs it")
adk_sessions: Any = pytest.importorskip("google.adk.sessions")
adk_v0: Any = pytest.importorskip("google.adk.sessions.schemas.v0")
sqlite_service: Any = pytest.importorskip("google.adk.sessions.sqlite_session_service")
sqlalchemy: Any = pytest.importorskip("sqlalchemy")
adk_conversation = pytest.importorskip("adk_conversation")
make_event, record_conversation = adk_conversation.make_event, adk_conversation.record_conversation

PLACE = {"app_name": "dak", "user_id": "a/b", "session_id": "s 1"}
"""The session of `talk`."""
OF_DATABASES = ("v0", "v1", "postgres v0", "postgres v1")


class Place:
    """Where google-adk keeps its sessions, in one of the ways it has."""

    def __init__(self, address: str, opened: Callable[[], Any]) -> None:
        self.address = address
        self.opened = opened


@pytest.fixture(params=[*OF_DATABASES, "sqlite service"])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    path = tmp_path / "agent.db"
    if request.param == "sqlite service":
        return Place(str(path), lambda: sqlite_service.SqliteSessionService(str(path)))
    plain, for_agents, locator = f"sqlite:///{path}", f"sqlite+aiosqlite:///{path}", str(path)
    if "postgres" in request.param:
        base = AdkPostgresDatabase(request.getfixturevalue("postgres_server"))
        plain, for_agents, locator = base.url.replace("://", "+psycopg://"), base.async_url, base.url_without_password
        monkeypatch.setenv("SESSION_SERVICE_URI", for_agents)
    if "v0" in request.param:
        engine = sqlalchemy.create_engine(plain)
        adk_v0.Base.metadata.create_all(engine)
        engine.dispose()
    return Place(locator, lambda: adk_sessions.DatabaseSessionService(for_agents))


def read(store: Store, place: Place) -> Session:
    assert sync_paths(store, place.address).problems == []
    return store.sessions.find("dak/a%2Fb/s%201")


def correct(store: Store, old: str, new: str) -> None:
    (fact,) = [fact for fact in store.facts.current(None) if fact.text == old]
    store.facts.edit(fact.id, new)


def carry(store: Store, session: Session) -> None:
    preview = store.write_back.preview(session)
    assert preview.plan.changes
    store.write_back.write(preview)


async def closed(service: Any) -> None:
    if close := getattr(service, "close", None):
        await close()


def texts(session: Any) -> list[str]:
    return [event.content.parts[0].text for event in session.events if event.content]


async def test_it_opens_lists_and_appends(place: Place, store: Store) -> None:
    before = place.opened()
    at_work = await record_conversation(before)
    await before.create_session(app_name="dak", user_id="a/b", session_id="other")
    session = read(store, place)
    correct(store, "topic: invoices", "topic: reminders é")
    correct(store, "motd: hello", "motd: good morning")
    correct(store, "lang: en", "lang: de")
    (last,) = [fact for fact in store.facts.current(None) if fact.text.startswith("last:")]
    store.facts.retire(last.id)
    carry(store, session)
    await before.append_event(at_work, make_event("counter", "I was at work meanwhile."))
    await closed(before)

    service = place.opened()
    listed = (await service.list_sessions(app_name="dak", user_id="a/b")).sessions
    assert {one.id for one in listed} == {"s 1", "other"}
    loaded = await service.get_session(**PLACE)
    corrected = {"topic": "reminders é", "app:motd": "good morning", "user:lang": "de"}
    assert loaded.state == corrected
    delta = adk_conversation.EventActions(state_delta={"user:runs": 1, "step": 2})
    await service.append_event(loaded, make_event("counter", "On we go.", actions=delta))
    again = await service.get_session(**PLACE)
    assert texts(again)[-2:] == ["I was at work meanwhile.", "On we go."]
    assert again.state == {**corrected, "user:runs": 1, "step": 2}
    await closed(service)

    read(store, place)
    assert store.chains.entries(session.key)[-1].text == "On we go."
    assert "topic: reminders é" in {fact.text for fact in store.facts.current(None)}


async def test_it_goes_on_after_an_undo(place: Place, store: Store) -> None:
    service = place.opened()
    at_work = await record_conversation(service)
    session = read(store, place)
    correct(store, "topic: invoices", "topic: reminders")
    carry(store, session)
    store.journal.undo()
    await service.append_event(at_work, make_event("counter", "On we go."))
    loaded = await service.get_session(**PLACE)
    assert (loaded.state["topic"], texts(loaded)[-1]) == ("invoices", "On we go.")
    await closed(service)


async def test_a_deleted_session_is_gone_there_and_comes_back_whole(place: Place, store: Store) -> None:
    service = place.opened()
    written = await record_conversation(service)
    await service.create_session(app_name="dak", user_id="a/b", session_id="other")
    session = read(store, place)
    store.sessions.delete([session])
    carry(store, session)
    assert await service.get_session(**PLACE) is None
    (left,) = (await service.list_sessions(app_name="dak", user_id="a/b")).sessions
    assert (left.id, left.state) == ("other", {"app:motd": "hello", "user:lang": "en"})
    store.journal.undo()
    loaded = await service.get_session(**PLACE)
    assert [event.id for event in loaded.events] == [event.id for event in written.events]
    assert texts(loaded) == texts(written)
    await service.append_event(loaded, make_event("user", "Back again."))
    await closed(service)
