"""What the store gives a list: the keys of every session that matches, and rows a page at a time."""

from __future__ import annotations

import pytest
from tui_world import add, before, fill, prompt

from store.store import Store


def ids(store: Store, query: str = "", limit: int = -1) -> list[str]:
    return [store.sessions.by_key(key).id for key in store.sessions.keys(query, limit)]


def test_keys_are_those_of_every_session_newest_first(store: Store) -> None:
    fill(store)
    every = [session.id for session in store.sessions.newest(100)]
    assert len(every) == 6
    assert ids(store) == every
    assert ids(store, limit=2) == every[:2]


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("fl", ["claude:e0741090"]),
        ("FLAKY upl", ["claude:e0741090"]),
        ("reope", ["claude:e0741090"]),
        ("reope ", []),
        ("失敗", ["kiso:1"]),
        ("telegram:6480", ["telegram:648079060", "telegram:648079060:delegate:sysinfo"]),
        ('"file was closed', ["claude:e0741090"]),
        ("  ", None),
        ("%", []),
        ('"', None),
        ("zebra", []),
    ],
)
def test_keys_match_titles_and_words_said_the_last_word_half_typed(
    store: Store, typed: str, found: list[str] | None
) -> None:
    fill(store)
    assert ids(store, typed) == (ids(store) if found is None else found)


def test_keys_leave_out_the_trash_and_what_was_superseded(store: Store) -> None:
    add(store, "kept", before(minutes=1), prompt("one", before(minutes=1)))
    trashed = add(store, "trashed", before(minutes=2), prompt("two", before(minutes=2)))
    store.sessions.create("older", parent_id="kept", relation="superseded")
    store.sessions.create("forked", parent_id="kept", relation="fork")
    store.sessions.delete([trashed])
    assert sorted(ids(store)) == ["forked", "kept"]


def test_rows_come_by_their_keys_and_those_that_are_gone_do_not(store: Store) -> None:
    fill(store)
    keys = store.sessions.keys()
    store.sessions.purge([store.sessions.by_key(keys[0])])
    assert {session.key for session in store.sessions.by_keys(keys)} == set(keys[1:])
    assert store.sessions.by_keys([]) == []


def test_badges_tell_who_has_a_summary_and_who_has_secrets(store: Store) -> None:
    fill(store)
    upload, telegram = store.sessions.get("claude:e0741090"), store.sessions.get("telegram:648079060")
    store.secrets.set(telegram, "TOKEN", "hush")
    keys = store.sessions.keys()
    assert store.sessions.badges(keys) == ({upload.key}, {telegram.key})
    store.secrets.remove(telegram, "TOKEN")
    assert store.sessions.badges(keys) == ({upload.key}, set())


def test_the_data_version_tells_of_what_others_write(store: Store) -> None:
    seen = store.sessions.data_version()
    assert store.sessions.data_version() == seen
    with Store.open(store.path) as other:
        add(other, "new", before(), prompt("hello", before()))
    assert store.sessions.data_version() != seen
