"""Tests sessions that their agents will delete: the date from the setting, the list and the search."""

from __future__ import annotations

import json
import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from browser_driver import NOW, make_browser, wait_for_text
from foreign_databases import sync_paths

from store.search.list_rows import SessionListOptions
from store.search.session_list import build_session_list
from store.store import Store

DATA = Path(__file__).parents[1] / "data"
TOUCHED = datetime(2026, 10, 10, tzinfo=UTC)


@pytest.fixture(params=["claude", "gemini"])
def owner(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    place = Path(shutil.copytree(DATA / request.param, tmp_path / f".{request.param}"))
    for path in place.rglob("*.json*"):
        os.utime(path, (TOUCHED.timestamp(), TOUCHED.timestamp()))
    return place


def configure(owner: Path, days: int) -> None:
    settings = {"cleanupPeriodDays": days, "general": {"sessionRetention": {"enabled": True, "maxAge": f"{days}d"}}}
    (owner / "settings.json").write_text(json.dumps(settings))


def expiries(store: Store) -> set[str]:
    return {session.expires_at for session in store.sessions.newest(100) if not session.relation} - {""}


def spelled(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_sessions_expire_after_thirty_days_unless_configured(owner: Path, store: Store) -> None:
    (owner / "settings.json").unlink(missing_ok=True)
    sync_paths(store, owner)
    assert expiries(store) == {spelled(TOUCHED + timedelta(days=30))}
    configure(owner, 90)
    sync_paths(store, owner)
    assert expiries(store) == {spelled(TOUCHED + timedelta(days=90))}


def test_nothing_is_written_when_nothing_changed(owner: Path, store: Store) -> None:
    sync_paths(store, owner)
    before = store.connection.total_changes
    sync_paths(store, owner)
    assert store.connection.total_changes == before


def test_expiring_sessions_can_be_searched(owner: Path, store: Store) -> None:
    sync_paths(store, owner)
    soon, later = TOUCHED + timedelta(days=25), TOUCHED + timedelta(days=2)
    assert build_session_list(store, SessionListOptions(query="is:expiring"), now=soon).total > 0
    assert build_session_list(store, SessionListOptions(query="is:expiring"), now=later).total == 0


async def test_the_list_says_how_many_days_are_left(store: Store, tmp_path: Path) -> None:
    place = Path(shutil.copytree(DATA / "claude", tmp_path / ".claude"))
    (place / "settings.json").unlink(missing_ok=True)
    for path in place.rglob("*.jsonl"):
        moment = (NOW - timedelta(days=26)).timestamp()
        os.utime(path, (moment, moment))
    sync_paths(store, place)
    async with make_browser(store).run_test(size=(99, 30)) as pilot:
        await wait_for_text(pilot, "⏳4d")
