"""These tests check how the list treats sessions that a person has pinned, archived or moved to the trash."""

from __future__ import annotations

import pytest
from browser_driver import NOW, add_many_sessions, add_session, fill_store, prompt_entry, time_ago

from store.search.list_rows import (
    GROUPINGS,
    ORDERS,
    OTHER_SESSIONS,
    PINNED_SESSIONS,
    Grouping,
    Order,
    SessionListLayout,
    SessionListOptions,
)
from store.search.session_list import build_session_list, load_rows
from store.store import Store

UPLOAD, CONFIG, TELEGRAM, OLD = "claude:e0741090", "codex:0199aa", "telegram:648079060", "library:old"
SUB_AGENT = f"{TELEGRAM}:delegate:sysinfo"


@pytest.fixture
def world(store: Store) -> Store:
    """Return a store in which the oldest session is pinned."""
    fill_store(store)
    store.sessions.pin(store.sessions.newest(), on=False)
    store.sessions.pin([store.sessions.get(OLD)])
    return store


def build(store: Store, query: str = "", limit: int = -1, **options: object) -> SessionListLayout:
    return build_session_list(store, SessionListOptions(query, **options), limit, NOW)  # type: ignore[arg-type]


def ids(store: Store, layout: SessionListLayout) -> list[str]:
    return [f"{'>' * layout.depth(row)}{store.sessions.by_key(key).id}" for row, key in enumerate(layout.keys)]


def ids_of(store: Store, query: str = "", limit: int = -1, **options: object) -> list[str]:
    return ids(store, build(store, query, limit, **options))


# ── pinned ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("group", GROUPINGS)
@pytest.mark.parametrize("limit", [-1, 3])
def test_pinned_sessions_come_first_once_in_every_order(
    world: Store, order: Order, group: Grouping, limit: int
) -> None:
    layout = build(world, limit=limit, order=order, group=group)
    assert ids(world, layout)[0] == OLD
    assert len(set(layout.keys)) == len(layout.keys)
    assert layout.headings[0] == (0, PINNED_SESSIONS, 1)
    assert layout.headings[1].row == 1
    assert sum(heading.sessions for heading in layout.headings) == len(layout.keys)
    assert {heading.value for heading in layout.headings[1:]} == {OTHER_SESSIONS} or group != "none"


def test_pinned_sessions_are_in_the_order_of_the_list(world: Store) -> None:
    world.sessions.pin([world.sessions.get(TELEGRAM)])
    assert ids_of(world)[:2] == [TELEGRAM, OLD]
    assert ids_of(world, order="oldest")[:2] == [OLD, TELEGRAM]
    assert build(world).total == 6


def test_a_list_with_pinned_sessions_only_has_one_heading(world: Store) -> None:
    world.sessions.pin(world.sessions.newest())
    layout = build(world, group="none")
    assert layout.headings == ((0, PINNED_SESSIONS, 6),)
    assert layout.total == 6


def test_the_scope_applies_to_pinned_sessions(world: Store) -> None:
    assert ids_of(world, folder="/home/ada/code") == [UPLOAD, CONFIG]
    world.sessions.pin([world.sessions.get(CONFIG)])
    assert ids_of(world, folder="/home/ada/code") == [CONFIG, UPLOAD]


def test_filters_keep_the_group_and_words_do_not(world: Store) -> None:
    world.sessions.pin([world.sessions.get(CONFIG)])
    assert ids_of(world, "after:30d")[:2] == [CONFIG, UPLOAD]
    assert build(world, "after:30d").headings[0] == (0, PINNED_SESSIONS, 1)
    assert build(world, "config OR fails OR morning").headings[0].value != PINNED_SESSIONS


def test_a_pinned_child_stands_on_top_and_not_below_its_parent(world: Store) -> None:
    world.sessions.pin([world.sessions.get(SUB_AGENT)])
    parent = world.sessions.get(TELEGRAM).key
    assert ids_of(world, unfolded=frozenset([parent])) == [SUB_AGENT, OLD, UPLOAD, CONFIG, TELEGRAM, "kiso:1"]
    assert load_rows(world, [parent])[0].children == 0
    assert build(world).total == 6


def test_children_of_a_pinned_session_are_nested_below_it(world: Store) -> None:
    world.sessions.pin([world.sessions.get(TELEGRAM)])
    parent = world.sessions.get(TELEGRAM).key
    assert ids_of(world, unfolded=frozenset([parent]))[:3] == [TELEGRAM, f">{SUB_AGENT}", OLD]
    assert ids_of(world, "agent:pingu") == [TELEGRAM, f">{SUB_AGENT}"]


def test_pins_of_a_large_archive_are_read_from_their_index(store: Store) -> None:
    add_many_sessions(store, 5_000)
    store.connection.execute("update sessions set turns = 1")
    store.sessions.pin([store.sessions.get("s4321"), store.sessions.get("s17")])
    assert ids_of(store, limit=10)[:3] == ["s17", "s4321", "s0"]
    assert len(build(store).keys) == 5_000
    plans = [
        " ".join(row[3] for row in store.rows(f"explain query plan select key from sessions where {column} = 1"))
        for column in ("pinned", "archived", "deleted")
    ]
    assert [plan.rpartition("INDEX ")[2] for plan in plans] == [
        "sessions_pinned",
        "sessions_archived",
        "sessions_trashed",
    ]


# ── archived ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [-1, 10])
def test_archived_sessions_leave_the_list(world: Store, limit: int) -> None:
    world.sessions.archive([world.sessions.get(UPLOAD), world.sessions.get(OLD)])
    assert ids_of(world, limit=limit) == [CONFIG, TELEGRAM, "kiso:1"]
    assert ids_of(world, "after:30d", limit)[0] == CONFIG
    assert ids_of(world, "is:archived", limit) == [OLD, UPLOAD]
    assert ids_of(world, "is:archived agent:claude", limit) == [UPLOAD]
    assert ids_of(world, "fails ", limit) == [UPLOAD]
    assert ids_of(world, "retry -is:archived", limit) == []


def test_the_list_counts_what_it_leaves_out(world: Store) -> None:
    assert build(world).archived == 0
    world.sessions.archive([world.sessions.get(UPLOAD), world.sessions.get(OLD)])
    assert (build(world).total, build(world).archived) == (4, 2)
    assert build(world, folder="/home/ada/code").archived == 1
    assert build(world, "agent:claude").archived == 1
    assert build(world, "is:archived").archived == 0
    assert build(world, "fails").archived == 0


def test_children_leave_the_list_with_an_archived_parent(world: Store) -> None:
    parent = world.sessions.get(TELEGRAM)
    world.sessions.archive([parent])
    layout = build(world)
    assert TELEGRAM not in ids(world, layout)
    assert SUB_AGENT not in ids(world, layout)
    assert (layout.total, layout.archived) == (4, 1)
    assert ids_of(world, "is:archived", unfolded=frozenset([parent.key])) == [TELEGRAM, f">{SUB_AGENT}"]


def test_an_archived_child_is_not_among_the_children(world: Store) -> None:
    parent = world.sessions.get(TELEGRAM)
    world.sessions.archive([world.sessions.get(SUB_AGENT)])
    layout = build(world, unfolded=frozenset([parent.key]))
    assert f">{SUB_AGENT}" not in ids(world, layout)
    assert (layout.total, layout.archived) == (5, 1)
    assert load_rows(world, [parent.key])[0].children == 0
    world.sessions.archive([parent])
    assert ids_of(world, "is:archived", unfolded=frozenset([parent.key])) == [TELEGRAM, f">{SUB_AGENT}"]


def test_the_command_line_lists_the_same_sessions(world: Store) -> None:
    world.sessions.archive([world.sessions.get(UPLOAD)])
    found = {query: [session.id for session in world.sessions.matching(query)[0]] for query in ("", "fails")}
    assert UPLOAD not in found[""]
    assert found["fails"] == [UPLOAD]
    assert [session.id for session in world.sessions.matching("is:archived")[0]] == [UPLOAD]


# ── the trash ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("limit", [-1, 10])
def test_the_trash_is_listed_by_its_filter_only(world: Store, limit: int) -> None:
    world.sessions.archive([world.sessions.get(UPLOAD)])
    world.sessions.delete([world.sessions.get(name) for name in (UPLOAD, OLD)])
    assert ids_of(world, limit=limit) == [CONFIG, TELEGRAM, "kiso:1"]
    assert ids_of(world, "is:trashed", limit) == [UPLOAD, OLD]
    assert ids_of(world, "is:trashed agent:claude", limit) == [UPLOAD]
    assert ids_of(world, "is:trashed fails", limit) == [UPLOAD]
    assert ids_of(world, "fails", limit) == []
    assert ids_of(world, "is:archived", limit) == []
    assert OLD not in ids_of(world, "-is:trashed", limit)
    assert set(ids_of(world, "is:trashed OR agent:kiso", limit)) == {UPLOAD, OLD, "kiso:1"}
    assert build(world, "is:trashed", limit).headings[0].value != PINNED_SESSIONS


def test_the_command_line_lists_the_trash(world: Store) -> None:
    world.sessions.delete([world.sessions.get(OLD)])
    assert [session.id for session in world.sessions.matching("is:trashed")[0]] == [OLD]
    add_session(world, "new", time_ago(), prompt_entry("hello", time_ago()))
    assert OLD not in [session.id for session in world.sessions.matching("")[0]]
