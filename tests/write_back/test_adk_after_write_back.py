"""These tests let google-adk itself open its database after a write-back and continue, even in a running agent."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from adk_postgres_database import AdkPostgresDatabase, clear_postgres_environment  # noqa: F401 a fixture
from foreign_databases import sync_paths

from store.model.session import Session
from store.store import Store

for package in ("aiosqlite", "asyncpg", "google.adk", "psycopg", "sqlalchemy"):
    pytest.importorskip(package, reason=f"{package} is not installed; `make test` installs it")
adk_sessions: Any = pytest.importorskip("google.adk.sessions")
adk_v0: Any = pytest.importorskip("google.adk.sessions.schemas.v0")
sqlite_service: Any = pytest.importorskip("google.adk.sessions.sqlite_session_service")
sqlalchemy: Any = pytest.importorskip("sqlalchemy")
adk_conversation = pytest.importorskip("adk_conversation")
make_event, record_conversation = adk_conversation.make_event, adk_conversation.record_conversation

SESSION_KEY = {"app_name": "dak", "user_id": "a/b", "session_id": "s 1"}
"""The key of the session that `record_conversation` makes."""
DATABASE_SERVICES = ("v0", "v1", "postgres v0", "postgres v1")


class AdkService:
    """Describes one of the stores of google-adk: its address, and how to open its session service."""

    def __init__(self, address: str, open_service: Callable[[], Any]) -> None:
        self.address = address
        self.open_service = open_service


@pytest.fixture(params=[*DATABASE_SERVICES, "sqlite service"])
def adk(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AdkService:
    path = tmp_path / "agent.db"
    if request.param == "sqlite service":
        return AdkService(str(path), lambda: sqlite_service.SqliteSessionService(str(path)))
    plain, async_url, locator = f"sqlite:///{path}", f"sqlite+aiosqlite:///{path}", str(path)
    if "postgres" in request.param:
        database = AdkPostgresDatabase(request.getfixturevalue("postgres_server"))
        plain, async_url, locator = (
            database.url.replace("://", "+psycopg://"),
            database.async_url,
            database.url_without_password,
        )
        monkeypatch.setenv("SESSION_SERVICE_URI", async_url)
    if "v0" in request.param:
        engine = sqlalchemy.create_engine(plain)
        adk_v0.Base.metadata.create_all(engine)
        engine.dispose()
    return AdkService(locator, lambda: adk_sessions.DatabaseSessionService(async_url))


def sync_session(store: Store, adk: AdkService) -> Session:
    assert sync_paths(store, adk.address).problems == []
    return store.sessions.find("dak/a%2Fb/s%201")


def edit_fact(store: Store, old: str, new: str) -> None:
    (fact,) = [fact for fact in store.facts.current(None) if fact.text == old]
    store.facts.edit(fact.id, new)


def write_back(store: Store, session: Session) -> None:
    preview = store.write_back.preview(session)
    assert preview.plan.changes
    store.write_back.write(preview)


async def close(service: Any) -> None:
    if close := getattr(service, "close", None):
        await close()


def event_texts(session: Any) -> list[str]:
    return [event.content.parts[0].text for event in session.events if event.content]


async def test_adk_opens_lists_and_appends(adk: AdkService, store: Store) -> None:
    before = adk.open_service()
    open_session = await record_conversation(before)
    await before.create_session(app_name="dak", user_id="a/b", session_id="other")
    session = sync_session(store, adk)
    edit_fact(store, "topic: invoices", "topic: reminders é")
    edit_fact(store, "motd: hello", "motd: good morning")
    edit_fact(store, "lang: en", "lang: de")
    (last,) = [fact for fact in store.facts.current(None) if fact.text.startswith("last:")]
    store.facts.retire(last.id)
    write_back(store, session)
    await before.append_event(open_session, make_event("counter", "I was at work meanwhile."))
    await close(before)

    service = adk.open_service()
    sessions = (await service.list_sessions(app_name="dak", user_id="a/b")).sessions
    assert {listed.id for listed in sessions} == {"s 1", "other"}
    loaded = await service.get_session(**SESSION_KEY)
    corrected = {"topic": "reminders é", "app:motd": "good morning", "user:lang": "de"}
    assert loaded.state == corrected
    delta = adk_conversation.EventActions(state_delta={"user:runs": 1, "step": 2})
    await service.append_event(loaded, make_event("counter", "On we go.", actions=delta))
    reloaded = await service.get_session(**SESSION_KEY)
    assert event_texts(reloaded)[-2:] == ["I was at work meanwhile.", "On we go."]
    assert reloaded.state == {**corrected, "user:runs": 1, "step": 2}
    await close(service)

    sync_session(store, adk)
    assert store.chains.entries(session.key)[-1].text == "On we go."
    assert "topic: reminders é" in {fact.text for fact in store.facts.current(None)}


async def test_adk_continues_after_an_undo(adk: AdkService, store: Store) -> None:
    service = adk.open_service()
    open_session = await record_conversation(service)
    session = sync_session(store, adk)
    edit_fact(store, "topic: invoices", "topic: reminders")
    write_back(store, session)
    store.journal.undo()
    await service.append_event(open_session, make_event("counter", "On we go."))
    loaded = await service.get_session(**SESSION_KEY)
    assert (loaded.state["topic"], event_texts(loaded)[-1]) == ("invoices", "On we go.")
    await close(service)


async def test_a_deleted_session_is_gone_there_and_an_undo_restores_it(adk: AdkService, store: Store) -> None:
    service = adk.open_service()
    written = await record_conversation(service)
    await service.create_session(app_name="dak", user_id="a/b", session_id="other")
    session = sync_session(store, adk)
    store.sessions.delete([session])
    write_back(store, session)
    assert await service.get_session(**SESSION_KEY) is None
    (remaining,) = (await service.list_sessions(app_name="dak", user_id="a/b")).sessions
    assert (remaining.id, remaining.state) == ("other", {"app:motd": "hello", "user:lang": "en"})
    store.journal.undo()
    loaded = await service.get_session(**SESSION_KEY)
    assert [event.id for event in loaded.events] == [event.id for event in written.events]
    assert event_texts(loaded) == event_texts(written)
    await service.append_event(loaded, make_event("user", "Back again."))
    await close(service)
