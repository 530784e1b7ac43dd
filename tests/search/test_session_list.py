"""These tests check the list of sessions: order, headings, nesting, folders, limits, and the lines of the rows."""

from __future__ import annotations

import pytest
from browser_driver import NOW, add_many_sessions, add_session, answer_entry, fill_store, prompt_entry, time_ago
from hypothesis import given
from hypothesis import strategies as st

from store.database.cancel import cancel_when
from store.errors import StoreError
from store.search.complete import list_completions
from store.search.list_rows import LINES_PER_ROW, Grouping, Heading, Order, SessionListLayout, SessionListOptions
from store.search.query import Query
from store.search.session_list import build_session_list, load_rows
from store.store import Store


def tree(store: Store, options: SessionListOptions, limit: int = -1) -> list[str]:
    """Return the ids of the rows, with a `>` for each level of nesting."""
    shown = build_session_list(store, options, limit, NOW)
    return [f"{'>' * shown.depth(row)}{store.sessions.by_key(key).id}" for row, key in enumerate(shown.keys)]


def headings(store: Store, options: SessionListOptions) -> list[tuple[int, str, int]]:
    return [(*heading,) for heading in build_session_list(store, options, now=NOW).headings]


def keys(store: Store, *names: str) -> frozenset[int]:
    return frozenset(store.sessions.get(name).key for name in names)


@pytest.fixture
def world(store: Store) -> Store:
    """Return a store in which no session is pinned."""
    fill_store(store)
    store.sessions.pin(store.sessions.newest(), on=False)
    return store


@pytest.fixture
def family(store: Store) -> Store:
    """Return a store with a parent, two children, a child of the first child, and a session without relatives."""
    for minutes, name, parent in ((9, "parent", ""), (8, "one", "parent"), (7, "two", "parent"), (6, "below", "one")):
        at = time_ago(minutes=minutes)
        prompt = prompt_entry(f"this is {name} speaking", at)
        add_session(
            store, name, at, prompt, cwd="/code", **({"parent_id": parent, "relation": "delegate"} if parent else {})
        )
    add_session(store, "solo", time_ago(minutes=5), prompt_entry("hello", time_ago(minutes=5)), cwd="/elsewhere")
    return store


# ── order and headings ────────────────────────────────────────────────────────────────────────────


def test_by_default_the_list_is_grouped_by_day_newest_first(world: Store) -> None:
    assert tree(world, SessionListOptions()) == [
        "claude:e0741090",
        "codex:0199aa",
        "telegram:648079060",
        "kiso:1",
        "library:old",
    ]
    assert headings(world, SessionListOptions()) == [
        (0, "2026-11-03", 2),
        (2, "2026-11-02", 1),
        (3, "2026-10-22", 1),
        (4, "2025-09-29", 1),
    ]
    assert build_session_list(world, SessionListOptions(), now=NOW).total == 6


@pytest.mark.parametrize(
    ("order", "group", "first", "values"),
    [
        ("oldest", "day", "library:old", ["2025-09-29", "2026-10-22", "2026-11-02", "2026-11-03"]),
        ("title", "day", "claude:e0741090", ["2026-11-03", "2026-11-02", "2026-10-22", "2025-09-29"]),
        ("errors", "none", "claude:e0741090", []),
        ("turns", "none", "kiso:1", []),
        ("title", "none", "library:old", []),
        ("newest", "folder", "claude:e0741090", ["/home/ada/code/alpha", "/home/ada/code/beta", ""]),
        ("oldest", "agent", "library:old", ["library", "kiso", "pingu", "codex", "claude"]),
    ],
)
def test_orders_and_groups(world: Store, order: Order, group: Grouping, first: str, values: list[str]) -> None:
    if order == "turns":
        world.chains.append(
            world.sessions.get("kiso:1").key, [prompt_entry("more", time_ago()), prompt_entry("more", time_ago())]
        )
    options = SessionListOptions(order=order, group=group)
    assert tree(world, options)[0] == first
    assert [value for _, value, _ in headings(world, options)] == values
    assert len(tree(world, options)) == 5


@pytest.mark.parametrize("order", ["newest", "oldest", "turns"])
def test_a_day_ends_at_midnight_in_local_time(store: Store, order: Order, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    for name, at in (("a", "2026-11-02T18:14:00.0Z"), ("b", "2026-11-02T18:15:00.0Z"), ("c", "2026-11-03T18:14:59.0Z")):
        add_session(store, name, at)
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    counts = {value: count for _, value, count in headings(store, SessionListOptions(order=order))}
    monkeypatch.undo()
    time.tzset()
    assert counts == {"2026-11-02": 1, "2026-11-03": 2}


@given(
    st.lists(
        st.one_of(
            st.datetimes().map(lambda at: f"{at:%Y-%m-%dT%H:%M:%S}Z".rjust(20, "0")),
            st.sampled_from(
                ["", "yesterday", "2026-W45-2T12:00", "9999-12-31T23:59:59Z", "2026-11-03 10:00", "20261103"]
            ),
        ),
        max_size=12,
    ),
    st.sampled_from(["newest", "oldest", "title"]),
)
def test_times_in_any_format_get_a_heading(times: list[str], order: Order) -> None:
    with Store.memory() as store:
        for n, at in enumerate(times):
            store.sessions.create(f"s{n}", updated_at=at)
        shown = build_session_list(store, SessionListOptions(order=order))
    assert len(shown) == len(times) == sum(heading.sessions for heading in shown.headings)
    rows = [heading.row for heading in shown.headings]
    assert rows == sorted(set(rows))
    assert all(heading.sessions > 0 for heading in shown.headings)


# ── children ──────────────────────────────────────────────────────────────────────────────────────


def test_children_are_hidden_until_their_parent_is_unfolded(family: Store) -> None:
    assert tree(family, SessionListOptions()) == ["solo", "parent"]
    parent = keys(family, "parent")
    assert tree(family, SessionListOptions(unfolded=parent)) == ["solo", "parent", ">one", ">two"]
    both = keys(family, "parent", "one")
    assert tree(family, SessionListOptions(unfolded=both)) == ["solo", "parent", ">one", ">>below", ">two"]
    assert tree(family, SessionListOptions(unfolded=keys(family, "one"))) == ["solo", "parent"]
    assert build_session_list(family, SessionListOptions(unfolded=both)).total == 5


def test_guide_lines_connect_children_to_their_parents(family: Store) -> None:
    shown = build_session_list(family, SessionListOptions(order="oldest", unfolded=keys(family, "parent", "one")))
    one, below, two = 1, 2, 3
    assert [shown.depth(row) for row in range(5)] == [0, 1, 2, 1, 0]
    assert (shown.has_guide(one, 1), shown.has_guide(two, 1)) == (True, False)
    assert (shown.has_guide(below, 1), shown.has_guide(below, 2)) == (True, False)
    assert [shown.parent_row(row) for row in range(5)] == [None, 0, 1, 0, None]
    assert [shown.has_rows_beneath(row) for row in range(5)] == [True, True, False, False, False]


def test_a_matching_child_is_nested_if_its_parent_matches_too(family: Store) -> None:
    assert tree(family, SessionListOptions("speaking")) == ["parent", ">two", ">one", ">>below"]
    assert tree(family, SessionListOptions("two")) == ["two"]
    assert tree(family, SessionListOptions("below")) == ["below"]
    assert tree(family, SessionListOptions("one OR below")) == ["one", ">below"]
    assert tree(family, SessionListOptions("parent OR below")) == ["below", "parent"]


def test_a_matching_unfolded_parent_shows_each_child_once(family: Store) -> None:
    every = keys(family, "parent", "one", "two", "below")
    assert tree(family, SessionListOptions("parent OR below", unfolded=every)) == ["parent", ">one", ">>below", ">two"]
    assert tree(family, SessionListOptions("below", unfolded=every)) == ["below"]


def test_a_child_without_its_parent_is_a_root(family: Store) -> None:
    add_session(
        family, "orphan", time_ago(), prompt_entry("alone", time_ago()), parent_id="never seen", relation="fork"
    )
    assert tree(family, SessionListOptions()) == ["orphan", "solo", "parent"]
    family.sessions.delete([family.sessions.get("parent")])
    assert tree(family, SessionListOptions()) == ["orphan", "solo", "two", "one"]
    assert tree(family, SessionListOptions(), limit=10) == tree(family, SessionListOptions())


def test_superseded_sessions_are_never_listed(family: Store) -> None:
    family.sessions.create("older", parent_id="solo", relation="superseded")
    at = time_ago()
    add_session(family, "of the older", at, prompt_entry("look", at), parent_id="older", relation="delegate")
    alone = keys(family, "solo")
    assert tree(family, SessionListOptions(unfolded=alone)) == ["of the older", "solo", "parent"]
    assert build_session_list(family, SessionListOptions()).total == 6
    (row,) = load_rows(family, list(alone))
    assert row.children == 0


def test_sessions_that_are_each_others_parents_are_all_listed(store: Store) -> None:
    for name, parent in (("itself", "itself"), ("a", "b"), ("b", "a")):
        add_session(store, name, time_ago(), prompt_entry(name, time_ago()), parent_id=parent, relation="fork")
    every = keys(store, "itself", "a", "b")
    for options in (
        SessionListOptions(),
        SessionListOptions(unfolded=every),
        SessionListOptions("a OR b OR itself"),
        SessionListOptions("a OR b", unfolded=every),
    ):
        ids = [name.strip(">") for name in tree(store, options)]
        assert {"a", "b"} <= set(ids)
        assert len(ids) == len(set(ids))


# ── words ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("100%_", ["percent"]),
        ("SURE!", ["percent"]),
        ("1__%", []),
        ("0!%", []),
        ("x" * 60_000, []),
    ],
)
def test_wildcards_of_sqlite_are_literal_in_titles(store: Store, typed: str, found: list[str]) -> None:
    store.create_session("percent", title="100%_sure!")
    store.create_session("plain", title="1000 reasons, 100 of them sure")
    assert tree(store, SessionListOptions(query=f'"{typed}"')) == found


def test_a_search_while_typing_reads_candidates_from_the_index_alone(store: Store) -> None:
    """Without a covering index, the row of each session would be read."""
    statements: list[str] = []
    store.connection.set_trace_callback(statements.append)
    build_session_list(store, SessionListOptions(query="word", folder="/code"), 10, NOW)
    store.connection.set_trace_callback(None)
    candidates = [sql for sql in statements if "head, tail from sessions" in sql and "offset" in sql]
    plans = {plan for sql in candidates for *_, plan in store.rows(f"explain query plan {sql}")}
    assert plans == {"SCAN sessions USING COVERING INDEX sessions_newest"}


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("fl", ["claude:e0741090"]),
        ("FLAKY upl", ["claude:e0741090"]),
        ("upload flaky", ["claude:e0741090"]),
        ("reope", ["claude:e0741090"]),
        ("reope ", []),
        ("失敗", ["kiso:1"]),
        ("telegram:6480", ["telegram:648079060", ">telegram:648079060:delegate:sysinfo"]),
        ('"file was closed', ["claude:e0741090"]),
        ("  ", None),
        ('"', None),
        ("is:", None),
        ("%", []),
        ("zebra", []),
    ],
)
def test_titles_and_messages_are_searched(world: Store, typed: str, found: list[str] | None) -> None:
    assert tree(world, SessionListOptions(typed)) == (tree(world, SessionListOptions()) if found is None else found)


def test_the_data_version_changes_when_another_process_writes(store: Store) -> None:
    version = store.sessions.data_version()
    assert store.sessions.data_version() == version
    with Store.open(store.path) as other:
        add_session(other, "new", time_ago(), prompt_entry("hello", time_ago()))
    assert store.sessions.data_version() != version


def test_a_cancelled_read_stops(store: Store) -> None:
    add_many_sessions(store, 5_000)
    answers = iter([False, True])
    is_finished = False
    with cancel_when(store, lambda: next(answers, True)):
        build_session_list(store, SessionListOptions("number"))
        is_finished = True
    assert not is_finished
    assert len(build_session_list(store, SessionListOptions("number"))) == 5_000
    with pytest.raises(StoreError), cancel_when(store, lambda: False):
        store.rows("select nonsense")


# ── scope and limits ──────────────────────────────────────────────────────────────────────────────


def test_a_folder_and_what_is_below_it(family: Store) -> None:
    at = time_ago(minutes=1)
    add_session(family, "deeper", at, prompt_entry("deep", at), cwd="/code/deeper")
    add_session(family, "like it", at, prompt_entry("like", at), cwd="/coder")
    assert tree(family, SessionListOptions(folder="/code")) == ["deeper", "parent"]
    assert build_session_list(family, SessionListOptions(folder="/code")).total == 5
    assert tree(family, SessionListOptions(folder="/code", unfolded=keys(family, "parent"))) == [
        "deeper",
        "parent",
        ">one",
        ">two",
    ]
    assert tree(family, SessionListOptions("speaking", folder="/elsewhere")) == []
    assert tree(family, SessionListOptions(folder="/"))[:2] == tree(family, SessionListOptions())[:2]


def test_a_child_in_another_folder_is_a_root_there(family: Store) -> None:
    at = time_ago(minutes=2)
    add_session(family, "away", at, cwd="/away", parent_id="parent", relation="delegate")
    assert tree(family, SessionListOptions(folder="/away")) == ["away"]


@pytest.mark.parametrize("query", ["", "number"])
def test_a_limited_list_is_the_beginning_of_the_full_list(store: Store, query: str) -> None:
    add_many_sessions(store, 300)
    options = SessionListOptions(query, order="newest")
    full, limited = build_session_list(store, options), build_session_list(store, options, 64)
    assert limited.keys == full.keys[:64]
    first_headings = full.headings[: len(limited.headings)]
    assert [heading[:2] for heading in limited.headings] == [heading[:2] for heading in first_headings]


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(1, 5), max_size=20), st.booleans())
def test_every_line_belongs_to_a_heading_or_a_row(sizes: list[int], grouped: bool) -> None:
    from array import array

    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    day_headings = [Heading(row, str(row), size) for row, size in zip(starts, sizes, strict=True)] if grouped else []
    shown = SessionListLayout(keys=array("q", range(sum(sizes))), headings=tuple(day_headings))
    expected: list[tuple[int, int, int | None]] = []
    for row in range(len(shown)):
        if grouped and row in starts:
            expected.append((row, 0, starts.index(row)))
        assert shown.first_line_of(row) == len(expected)
        expected += [(row, row_line, None) for row_line in range(LINES_PER_ROW)]
    assert [tuple(shown.line_at(line)) for line in range(shown.line_count)] == expected


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_row_has_everything_that_the_list_shows(world: Store) -> None:
    upload, telegram = world.sessions.get("claude:e0741090"), world.sessions.get("telegram:648079060")
    world.secrets.set(telegram, "TOKEN", "hush")
    world.notes.tag([upload], ["work", "ci"])
    world.notes.add_note(telegram, "Ask again.", entry_seq=0)
    shown = {row.session.id: row for row in load_rows(world, [upload.key, telegram.key])}
    assert shown[upload.id][1:] == (True, False, ("ci", "work"), 0, None, False, "", False, False)
    assert shown[telegram.id][1:] == (False, True, (), 1, None, True, "", False, False)
    assert load_rows(world, []) == []
    world.secrets.remove(telegram, "TOKEN")
    assert not load_rows(world, [telegram.key])[0].has_secrets


def test_rows_that_were_purged_meanwhile_are_missing(world: Store) -> None:
    shown = build_session_list(world, SessionListOptions()).keys
    world.sessions.purge([world.sessions.by_key(shown[0])])
    assert {row.session.key for row in load_rows(world, shown)} == set(shown[1:])


def test_hits_of_a_session_that_was_purged_meanwhile_are_missing(family: Store) -> None:
    shown = build_session_list(family, SessionListOptions("speaking"), limit=2, now=NOW)
    assert shown.last_hit_entries.keys() >= set(shown.keys)
    family.sessions.purge([family.sessions.by_key(shown.keys[0])])
    (row,) = load_rows(family, shown.keys, shown.query, shown.last_hit_entries)
    assert row.session.key == shown.keys[1]
    assert row.hit is not None


def test_a_row_that_matches_by_a_message_has_a_hit(store: Store) -> None:
    at = time_ago()
    add_session(store, "sea", at, prompt_entry("one whale", at), answer_entry("a second whale, and the fish", at))
    add_session(store, "whale", at, prompt_entry("nothing of the kind", at))
    shown = {
        row.session.id: row.hit for row in load_rows(store, list(keys(store, "sea", "whale")), Query.parse("whale"))
    }
    hit = shown["sea"]
    assert hit is not None
    assert (hit.entry, hit.snippet) == ("sea#1", "a second whale, and the fish")
    assert [hit.snippet[start:end] for start, end in hit.highlights] == ["whale"]
    assert shown["whale"] is None


# ── people ────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def rooms(store: Store) -> Store:
    """Return a store with a room of two people, a session of one of them, and a session without a user."""
    store.create_session("room", channel="discord", channel_id="backend")
    store.append_message("room", "user", "Which port?", author="Anna")
    store.append_message("room", "assistant", "8080.")
    store.append_message("room", "user", "Thanks", author="marco")
    store.create_session("own", channel="telegram", user="marco")
    store.append_message("own", "user", "Good morning")
    store.create_session("alone")
    store.append_message("alone", "user", "Fix the test")
    return store


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("user:anna", {"room"}),
        ("user:marco", {"room", "own"}),
        ('user:"ann"', set()),
        ("-user:marco", {"alone"}),
        ("user:unknown", {"own", "alone"}),
        ("channel:disc", {"room"}),
        ("channel:backend", {"room"}),
        ('channel:"telegram" user:marco', {"own"}),
        ("channel:discord morning", set()),
    ],
)
def test_sessions_are_found_by_user_and_channel(rooms: Store, query: str, found: set[str]) -> None:
    assert set(tree(rooms, SessionListOptions(query))) == found
    assert {session.id for session in rooms.sessions.matching(query, 10)[0]} == found


def test_users_and_channels_are_completed(rooms: Store) -> None:
    vocabulary = rooms.search.load_vocabulary()
    assert (vocabulary.users, set(vocabulary.channels)) == (("marco", "Anna"), {"discord", "telegram"})
    assert list_completions("user:an", 7, vocabulary) == ["user:Anna"]
    assert list_completions("chan", 4, vocabulary) == ["channel:"]


def test_the_list_is_grouped_by_user(rooms: Store) -> None:
    found = {value: sessions for _, value, sessions in headings(rooms, SessionListOptions(group="user"))}
    assert found == {"Anna": 1, "marco": 1, "": 1}
