"""These tests read google-adk's PostgreSQL tables from a real server. google-adk's own service writes them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from adk_postgres_database import QUOTED_PASSWORD, V0_SCHEMA, AdkPostgresDatabase, clear_postgres_environment  # noqa: F401 a fixture
from command_line import CommandLine
from postgres_server import PASSWORD, PostgresServer

from store.errors import Unreadable
from store.model.session import Session
from store.sources.adk.source import Adk
from store.sources.kit import postgres
from store.sources.kit.sqlite import normalize_time
from store.store import Store
from store.sync import refresh
from store.sync.targets import Report, find_targets

adk = Adk()

for needed in ("asyncpg", "google.adk", "psycopg", "sqlalchemy"):
    pytest.importorskip(needed, reason=f"{needed} is not installed; `make test` installs it")
adk_sessions = pytest.importorskip("google.adk.sessions")
adk_conversation = pytest.importorskip("adk_conversation")
make_event, record_conversation = adk_conversation.make_event, adk_conversation.record_conversation


@pytest.fixture
def base(postgres_server: PostgresServer) -> AdkPostgresDatabase:
    return AdkPostgresDatabase(postgres_server)


@pytest.fixture
async def service(base: AdkPostgresDatabase) -> AsyncIterator[Any]:
    async with adk_sessions.DatabaseSessionService(base.async_url) as opened:
        yield opened


def sync(store: Store, address: str) -> Report:
    for progress in refresh.sync_targets(store, find_targets([address])):
        report = progress.report
    return report


def only_session(store: Store) -> Session:
    (session,) = [session for session in store.list_sessions() if session.relation != "superseded"]
    return session


def texts(store: Store) -> list[str]:
    return [entry.text for entry in store.chains.entries(only_session(store).key, 0)]


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


async def test_what_adk_wrote_is_read(base: AdkPostgresDatabase, service: Any, store: Store) -> None:
    written = await record_conversation(service)
    assert sync(store, base.async_url).problems == []
    session = only_session(store)
    assert (session.native_id, session.user, session.turns, session.tool_calls) == ("dak/a%2Fb/s%201", "a/b", 1, 1)
    assert texts(store) == ["How many are overdue? é✓", "", "", "Seven.", "429: quota"]
    (call,) = store.chains.tool_calls(session.key)
    assert (call.arguments, call.result, call.status) == ({"days": 30}, {"result": 7}, "ok")
    facts = {(fact.scope.partition("@")[0].partition(":")[0], fact.text) for fact in store.facts.current(None)}
    assert facts == {
        ("app", "motd: hello"),
        ("user", "lang: en"),
        ("session", "topic: invoices"),
        ("session", 'last: {"f":0.1,"n":7}'),
    }
    first = store.chains.entries(session.key, 0)[0]
    assert first.created_at == normalize_time(written.events[0].timestamp)
    record = json.loads(store.records.get(first.record or 0))
    assert json.loads(record["event_data"])["timestamp"] == written.events[0].timestamp


async def test_an_unchanged_database_is_recognized_by_its_stamp(
    base: AdkPostgresDatabase, service: Any, store: Store
) -> None:
    session = await record_conversation(service)
    sync(store, base.url)
    stamp = adk.stamp(base.url)
    assert stamp
    assert adk.stamp(base.url) == stamp
    assert (sync(store, base.url).new, sync(store, base.url).unchanged) == (0, 1)
    await service.append_event(session, make_event("user", "Thanks."))
    assert adk.stamp(base.url) != stamp
    assert sync(store, base.url).updated == 1
    assert texts(store)[-1] == "Thanks."


async def test_a_rewritten_event_stays_reachable(base: AdkPostgresDatabase, service: Any, store: Store) -> None:
    await record_conversation(service)
    sync(store, base.url)
    base.execute("update events set event_data = cast(replace(cast(event_data as text), 'Seven', 'Eight') as jsonb)")
    assert sync(store, base.url).updated == 1
    assert texts(store)[3] == "Eight."
    (before,) = store.sessions.children(only_session(store).id)
    assert store.chains.entries(before.key)[4].text == "Seven."


def test_v0_is_read_and_its_pickles_are_not(base: AdkPostgresDatabase, store: Store) -> None:
    base.execute(V0_SCHEMA)
    assert sync(store, base.url).problems == []
    assert texts(store) == ["From long ago", "429: quota"]
    first, second = store.chains.entries(only_session(store).key, 0)
    assert first.created_at == "2026-11-16T12:00:00.250000Z"
    assert json.loads(store.records.get(first.record or 0))["actions_bytes"] == 3
    assert second.tokens is not None
    assert second.tokens.input == 5
    assert [fact.text for fact in store.facts.current(None)] == ["topic: old"]


async def test_a_bad_row_is_one_problem(base: AdkPostgresDatabase, service: Any, store: Store) -> None:
    session = await record_conversation(service)
    base.execute("update events set event_data = '[1]' where cast(event_data as text) like '%Seven%'")
    (problem,) = sync(store, base.url).problems
    assert problem.where == f"events:{session.events[3].id}"
    assert len(texts(store)) == 5


def test_a_database_of_another_program_is_refused(base: AdkPostgresDatabase, store: Store) -> None:
    base.execute("create table events (id int)")
    with pytest.raises(Unreadable, match="is not a database that Backscroll can read"):
        sync(store, base.url)


# ── leaving the owner alone ───────────────────────────────────────────────────────────────────────


async def test_the_owner_writes_while_it_is_read(base: AdkPostgresDatabase, service: Any) -> None:
    session = await record_conversation(service)
    with adk.open(base.url) as reader:
        (ref,) = reader.scan()
        await service.append_event(session, make_event("user", "meanwhile"))
        entry_texts = [entry.text for batch in reader.read(ref) for entry in batch.entries]
    assert "meanwhile" not in entry_texts, "the reader sees one snapshot"
    assert len(entry_texts) == 5


def test_nothing_in_the_database_can_be_changed(base: AdkPostgresDatabase) -> None:
    base.execute(
        "create table events (id int);"
        "create function meddle() returns int language sql as 'insert into events values (1) returning id'"
    )
    with pytest.raises(Unreadable, match="read-only transaction"), postgres.open_database(base.url) as database:
        list(database.select("select meddle() as id"))


# ── passwords ─────────────────────────────────────────────────────────────────────────────────────


async def test_the_password_is_stored_nowhere(
    base: AdkPostgresDatabase, service: Any, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    await record_conversation(service)
    (target,) = find_targets([base.async_url])
    report = sync(store, base.async_url)
    store.checkpoint()
    shown = f"{target}{report}{caplog.text}".encode()
    files = b"".join(path.read_bytes() for path in store.path.parent.iterdir() if path.is_file())
    assert report.locator == base.url_without_password
    for password in (PASSWORD, QUOTED_PASSWORD):
        assert password.encode() not in shown + files


async def test_the_locator_opens_with_the_password_the_agent_has(
    base: AdkPostgresDatabase, service: Any, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await record_conversation(service)
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "none"))
    (problem,) = sync(store, base.url_without_password).problems
    assert (problem.where, "no password supplied" in problem.reason) == (base.url_without_password, True)
    monkeypatch.setenv("SESSION_SERVICE_URI", base.async_url)
    assert sync(store, base.url_without_password).new == 1
    monkeypatch.delenv("SESSION_SERVICE_URI")
    monkeypatch.setenv("PGPASSWORD", PASSWORD)
    assert sync(store, base.url_without_password).problems == []


async def test_the_agents_database_is_found_by_its_variable(
    base: AdkPostgresDatabase, service: Any, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await record_conversation(service)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SESSION_SERVICE_URI", base.async_url)
    targets = find_targets(source_name="adk")
    assert [target.locator for target in targets] == [base.url_without_password]
    *_, last = refresh.sync_targets(store, targets)
    assert last.report.new == 1


def test_a_wrong_password_is_not_shown(base: AdkPostgresDatabase, store: Store) -> None:
    wrong = base.url.replace(QUOTED_PASSWORD, "wr0ng-and-long")
    (problem,) = sync(store, wrong).problems
    assert "password authentication failed" in problem.reason
    assert "wr0ng" not in problem.reason + problem.where


# ── a server that is not there ────────────────────────────────────────────────────────────────────


def test_a_server_that_does_not_answer_is_named_without_its_password(tmp_path: Path) -> None:
    line = CommandLine(tmp_path / "store.db")
    ran = line("sync", f"postgresql+asyncpg://ana:pw-of-ana@/dak?host={tmp_path}")
    assert ran.status == 3
    assert f"postgresql://ana@/dak?host={tmp_path} cannot be read" in ran.err
    assert "pw-of-ana" not in ran.out + ran.err


async def test_what_was_read_stays_when_the_server_goes(base: AdkPostgresDatabase, service: Any, store: Store) -> None:
    await record_conversation(service)
    sync(store, base.url)
    base.execute("drop table events cascade; drop table sessions cascade")
    with pytest.raises(Unreadable):
        sync(store, base.url)
    assert (only_session(store).gone, len(texts(store))) == (0, 5)
