"""Checks that the worker scans when it has nothing to read, unless a setting forbids it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from store.leaks.rule_table import RULES_BY_ID
from store.model.entry import NewEntry, Text
from store.paths import config_file
from store.store import Store
from store.sync.worker import Follower


def run_idle_work(store: Store) -> list[str]:
    """Do the work of an idle worker to its end, and return the rules of the leaks that it found."""
    follower = Follower(store, lambda progress: None)
    for _ in follower._idle_work():
        pass
    return [leak.rule for leak in store.leaks.list_leaks()]


@pytest.fixture
def leaky_store(store: Store) -> Store:
    session = store.sessions.create("one")
    text = f"use {RULES_BY_ID['aws-access-key'].example}"
    store.chains.append(session.key, [NewEntry(role="user", parts=(Text(text),))])
    return store


def test_an_idle_worker_scans(leaky_store: Store) -> None:
    assert run_idle_work(leaky_store) == ["aws-access-key"]


@pytest.mark.parametrize("text", ["[leaks]\nidle = false\n", "not a config file"])
def test_a_setting_turns_it_off_and_a_broken_config_file_does_not_stop_the_worker(
    leaky_store: Store, text: str
) -> None:
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(text)
    assert run_idle_work(leaky_store) == []


def test_an_idle_worker_leaves_files_that_are_being_written_to_the_command(store: Store, tmp_path: Path) -> None:
    quiet, busy = tmp_path / "quiet.jsonl", tmp_path / "busy.jsonl"
    for path in (quiet, busy):
        path.write_text(RULES_BY_ID["aws-access-key"].example)
    os.utime(quiet, (1_700_000_000, 1_700_000_000))
    store.connection.execute("insert into sources (kind, locator) values ('claude', ?)", (str(tmp_path),))
    for is_idle, expected in ((True, [quiet]), (False, [quiet, busy])):
        for _ in store.leaks.begin_scan(is_idle=is_idle).steps():
            pass
        (leak,) = store.leaks.list_leaks()
        assert {place.path for place in leak.places} == set(map(str, expected))
