"""The list that is browsed: order, headings, what is nested under what, scope; and on which line each row stands."""

from __future__ import annotations

import pytest
from browser_driver import NOW, add_many_sessions, add_session, answer_entry, fill_store, prompt_entry, time_ago
from hypothesis import given
from hypothesis import strategies as st

from store.database.cancel import cancel_when
from store.errors import StoreError
from store.search.list_rows import LINES_PER_ROW, Grouping, Heading, Order, SessionListLayout, SessionListOptions
from store.search.query import Query
from store.search.session_list import build_session_list, load_rows
from store.store import Store


def tree(store: Store, wanted: SessionListOptions, limit: int = -1) -> list[str]:
    """The rows as ids, with the lines that join them."""
    shown = build_session_list(store, wanted, limit, NOW)
    return [f"{'>' * shown.depth(row)}{store.sessions.by_key(key).id}" for row, key in enumerate(shown.keys)]


def headings(store: Store, wanted: SessionListOptions) -> list[tuple[int, str, int]]:
    return [(*heading,) for heading in build_session_list(store, wanted, now=NOW).headings]


def keys(store: Store, *names: str) -> frozenset[int]:
    return frozenset(store.sessions.get(name).key for name in names)


@pytest.fixture
def world(store: Store) -> Store:
    fill_store(store)
    return store


@pytest.fixture
def family(store: Store) -> Store:
    """A parent with two children, the first of which has one of its own; and one who stands alone."""
    for minutes, name, parent in ((9, "parent", ""), (8, "one", "parent"), (7, "two", "parent"), (6, "below", "one")):
        at = time_ago(minutes=minutes)
        said = prompt_entry(f"this is {name} speaking", at)
        add_session(
            store, name, at, said, cwd="/code", **({"parent_id": parent, "relation": "delegate"} if parent else {})
        )
    add_session(store, "solo", time_ago(minutes=5), prompt_entry("hello", time_ago(minutes=5)), cwd="/elsewhere")
    return store


# ── order and headings ────────────────────────────────────────────────────────────────────────────


def test_by_day_newest_first_unless_told_otherwise(world: Store) -> None:
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
    ("order", "group", "first", "told"),
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
def test_orders_and_groups(world: Store, order: Order, group: Grouping, first: str, told: list[str]) -> None:
    if order == "turns":
        world.chains.append(
            world.sessions.get("kiso:1").key, [prompt_entry("more", time_ago()), prompt_entry("more", time_ago())]
        )
    wanted = SessionListOptions(order=order, group=group)
    assert tree(world, wanted)[0] == first
    assert [value for _, value, _ in headings(world, wanted)] == told
    assert len(tree(world, wanted)) == 5


@pytest.mark.parametrize("order", ["newest", "oldest", "turns"])
def test_a_day_ends_at_midnight_here_and_not_in_greenwich(
    store: Store, order: Order, monkeypatch: pytest.MonkeyPatch
) -> None:
    import time

    for name, at in (("a", "2026-11-02T18:14:00.0Z"), ("b", "2026-11-02T18:15:00.0Z"), ("c", "2026-11-03T18:14:59.0Z")):
        add_session(store, name, at)
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    told = {value: count for _, value, count in headings(store, SessionListOptions(order=order))}
    monkeypatch.undo()
    time.tzset()
    assert told == {"2026-11-02": 1, "2026-11-03": 2}


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
def test_times_of_any_spelling_stand_under_some_heading(times: list[str], order: Order) -> None:
    with Store.memory() as store:
        for n, at in enumerate(times):
            store.sessions.create(f"s{n}", updated_at=at)
        shown = build_session_list(store, SessionListOptions(order=order))
    assert len(shown) == len(times) == sum(heading.sessions for heading in shown.headings)
    begins = [heading.row for heading in shown.headings]
    assert begins == sorted(set(begins))
    assert all(heading.sessions > 0 for heading in shown.headings)


# ── children ──────────────────────────────────────────────────────────────────────────────────────


def test_children_are_folded_until_their_parent_is_not(family: Store) -> None:
    assert tree(family, SessionListOptions()) == ["solo", "parent"]
    parent = keys(family, "parent")
    assert tree(family, SessionListOptions(unfolded=parent)) == ["solo", "parent", ">one", ">two"]
    both = keys(family, "parent", "one")
    assert tree(family, SessionListOptions(unfolded=both)) == ["solo", "parent", ">one", ">>below", ">two"]
    assert tree(family, SessionListOptions(unfolded=keys(family, "one"))) == ["solo", "parent"]
    assert build_session_list(family, SessionListOptions(unfolded=both)).total == 5


def test_lines_join_children_to_their_parents(family: Store) -> None:
    shown = build_session_list(family, SessionListOptions(order="oldest", unfolded=keys(family, "parent", "one")))
    one, below, two = 1, 2, 3
    assert [shown.depth(row) for row in range(5)] == [0, 1, 2, 1, 0]
    assert (shown.has_guide(one, 1), shown.has_guide(two, 1)) == (True, False)
    assert (shown.has_guide(below, 1), shown.has_guide(below, 2)) == (True, False)
    assert [shown.parent_row(row) for row in range(5)] == [None, 0, 1, 0, None]
    assert [shown.has_rows_beneath(row) for row in range(5)] == [True, True, False, False, False]


def test_a_child_that_was_found_stands_under_its_parent_if_that_was_found_too(family: Store) -> None:
    assert tree(family, SessionListOptions("speaking")) == ["parent", ">two", ">one", ">>below"]
    assert tree(family, SessionListOptions("two")) == ["two"]
    assert tree(family, SessionListOptions("below")) == ["below"]
    assert tree(family, SessionListOptions("one OR below")) == ["one", ">below"]
    assert tree(family, SessionListOptions("parent OR below")) == ["below", "parent"]


def test_an_unfolded_parent_that_was_found_shows_all_its_children_once(family: Store) -> None:
    every = keys(family, "parent", "one", "two", "below")
    assert tree(family, SessionListOptions("parent OR below", unfolded=every)) == ["parent", ">one", ">>below", ">two"]
    assert tree(family, SessionListOptions("below", unfolded=every)) == ["below"]


def test_a_child_without_its_parent_stands_alone(family: Store) -> None:
    family.sessions.create("orphan", parent_id="never seen", relation="fork")
    assert tree(family, SessionListOptions()) == ["orphan", "solo", "parent"]
    family.sessions.delete([family.sessions.get("parent")])
    assert tree(family, SessionListOptions()) == ["orphan", "solo", "two", "one"]
    assert tree(family, SessionListOptions(), limit=10) == tree(family, SessionListOptions())


def test_what_was_superseded_is_never_listed(family: Store) -> None:
    family.sessions.create("older", parent_id="solo", relation="superseded")
    family.sessions.create("of the older", parent_id="older", relation="delegate")
    alone = keys(family, "solo")
    assert tree(family, SessionListOptions(unfolded=alone)) == ["of the older", "solo", "parent"]
    assert build_session_list(family, SessionListOptions()).total == 6
    (row,) = load_rows(family, list(alone))
    assert row.children == 0


def test_sessions_that_call_each_other_parent_are_all_listed(store: Store) -> None:
    for name, parent in (("itself", "itself"), ("a", "b"), ("b", "a")):
        store.sessions.create(name, parent_id=parent, relation="fork")
    every = keys(store, "itself", "a", "b")
    for wanted in (
        SessionListOptions(),
        SessionListOptions(unfolded=every),
        SessionListOptions("a OR b OR itself"),
        SessionListOptions("a OR b", unfolded=every),
    ):
        told = [name.strip(">") for name in tree(store, wanted)]
        assert {"a", "b"} <= set(told)
        assert len(told) == len(set(told))


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
def test_signs_that_sqlite_takes_for_others_stand_for_themselves_in_titles(
    store: Store, typed: str, found: list[str]
) -> None:
    store.create_session("percent", title="100%_sure!")
    store.create_session("plain", title="1000 reasons, 100 of them sure")
    assert tree(store, SessionListOptions(query=f'"{typed}"')) == found


def test_what_typing_asks_of_the_newest_stands_in_their_index(store: Store) -> None:
    """A row of each would have to be read otherwise."""
    asked: list[str] = []
    store.connection.set_trace_callback(asked.append)
    build_session_list(store, SessionListOptions(query="word", folder="/code"), 10, NOW)
    store.connection.set_trace_callback(None)
    of_the_newest = [sql for sql in asked if "head, tail from sessions" in sql and "offset" in sql]
    plans = {plan for sql in of_the_newest for *_, plan in store.rows(f"explain query plan {sql}")}
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
def test_titles_and_words_said_the_last_word_half_typed(world: Store, typed: str, found: list[str] | None) -> None:
    assert tree(world, SessionListOptions(typed)) == (tree(world, SessionListOptions()) if found is None else found)


def test_the_data_version_tells_of_what_others_write(store: Store) -> None:
    seen = store.sessions.data_version()
    assert store.sessions.data_version() == seen
    with Store.open(store.path) as other:
        add_session(other, "new", time_ago(), prompt_entry("hello", time_ago()))
    assert store.sessions.data_version() != seen


def test_a_read_that_nobody_waits_for_is_broken_off(store: Store) -> None:
    add_many_sessions(store, 5_000)
    looks = iter([False, True])
    done = []
    with cancel_when(store, lambda: next(looks, True)):
        build_session_list(store, SessionListOptions("number"))
        done.append("never")
    assert done == []
    assert len(build_session_list(store, SessionListOptions("number"))) == 5_000
    with pytest.raises(StoreError), cancel_when(store, lambda: False):
        store.rows("select nonsense")


# ── scope and limits ──────────────────────────────────────────────────────────────────────────────


def test_a_folder_and_what_is_below_it(family: Store) -> None:
    add_session(family, "deeper", time_ago(minutes=1), cwd="/code/deeper")
    add_session(family, "like it", time_ago(minutes=1), cwd="/coder")
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


def test_a_child_elsewhere_stands_alone_in_its_own_folder(family: Store) -> None:
    at = time_ago(minutes=2)
    add_session(family, "away", at, cwd="/away", parent_id="parent", relation="delegate")
    assert tree(family, SessionListOptions(folder="/away")) == ["away"]


@pytest.mark.parametrize("query", ["", "number"])
def test_the_beginning_of_a_list_is_what_the_whole_begins_with(store: Store, query: str) -> None:
    add_many_sessions(store, 300)
    wanted = SessionListOptions(query, order="newest")
    whole, begin = build_session_list(store, wanted), build_session_list(store, wanted, 64)
    assert begin.keys == whole.keys[:64]
    assert [heading[:2] for heading in begin.headings] == [heading[:2] for heading in whole.headings][
        : len(begin.headings)
    ]


# ── lines ─────────────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.integers(1, 5), max_size=20), st.booleans())
def test_every_line_is_a_heading_or_half_a_row_and_rows_know_their_lines(sizes: list[int], grouped: bool) -> None:
    from array import array

    begins = [sum(sizes[:n]) for n in range(len(sizes))]
    marks = [Heading(row, str(row), size) for row, size in zip(begins, sizes, strict=True)] if grouped else []
    shown = SessionListLayout(keys=array("q", range(sum(sizes))), headings=tuple(marks))
    expected: list[tuple[int, int, int | None]] = []
    for row in range(len(shown)):
        if grouped and row in begins:
            expected.append((row, 0, begins.index(row)))
        assert shown.first_line_of(row) == len(expected)
        expected += [(row, part, None) for part in range(LINES_PER_ROW)]
    assert [tuple(shown.line_at(line)) for line in range(shown.line_count)] == expected


# ── rows ──────────────────────────────────────────────────────────────────────────────────────────


def test_a_row_tells_all_that_the_list_shows(world: Store) -> None:
    upload, telegram = world.sessions.get("claude:e0741090"), world.sessions.get("telegram:648079060")
    world.secrets.set(telegram, "TOKEN", "hush")
    world.notes.tag([upload], ["work", "ci"])
    shown = {row.session.id: row for row in load_rows(world, [upload.key, telegram.key])}
    assert shown[upload.id][1:] == (True, False, ("ci", "work"), 0, None)
    assert shown[telegram.id][1:] == (False, True, (), 1, None)
    assert load_rows(world, []) == []
    world.secrets.remove(telegram, "TOKEN")
    assert not load_rows(world, [telegram.key])[0].has_secrets


def test_rows_that_were_purged_meanwhile_are_missing(world: Store) -> None:
    shown = build_session_list(world, SessionListOptions()).keys
    world.sessions.purge([world.sessions.by_key(shown[0])])
    assert {row.session.key for row in load_rows(world, shown)} == set(shown[1:])


def test_what_was_said_in_a_session_that_was_purged_meanwhile_is_missing(family: Store) -> None:
    shown = build_session_list(family, SessionListOptions("speaking"), limit=2, now=NOW)
    assert shown.last_hit_entries.keys() >= set(shown.keys)
    family.sessions.purge([family.sessions.by_key(shown.keys[0])])
    (row,) = load_rows(family, shown.keys, shown.query, shown.last_hit_entries)
    assert row.session.key == shown.keys[1]
    assert row.hit is not None


def test_a_row_that_was_found_by_words_said_shows_where(store: Store) -> None:
    at = time_ago()
    add_session(store, "sea", at, prompt_entry("one whale", at), answer_entry("a second whale, and the fish", at))
    add_session(store, "whale", at, prompt_entry("nothing of the kind", at))
    shown = {
        row.session.id: row.hit for row in load_rows(store, list(keys(store, "sea", "whale")), Query.parse("whale"))
    }
    hit = shown["sea"]
    assert hit is not None
    assert (hit.entry, hit.snippet) == ("sea#1", "a second whale, and the fish")
    assert [hit.snippet[begin:end] for begin, end in hit.highlights] == ["whale"]
    assert shown["whale"] is None
