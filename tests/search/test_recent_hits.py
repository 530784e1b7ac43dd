"""These tests check the results while typing, which come from the newest sessions, and the ranking after a pause."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from browser_driver import NOW, add_session, answer_entry, prompt_entry, time_ago
from hypothesis import given
from hypothesis import strategies as st

from store.model.entry import NewEntry, Thinking
from store.search.list_rows import BEST_MATCHES, SessionListOptions
from store.search.query import Query
from store.search.recent import EntryRange, find_last_hit_entries, is_ranked_quickly, merge_ranges, rank_sessions
from store.search.session_list import build_session_list, load_rows
from store.store import Store

NOON = time_ago(hours=3)
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()


@pytest.fixture(scope="module")
def mixed() -> Iterator[Store]:
    """Return two hundred sessions that grew in turns, so that the entries of each are scattered among the others."""
    rng = random.Random(7)
    store = Store.memory()
    with store.transaction():
        for number in range(200):
            store.sessions.create(f"s{number}", source=rng.choice(["claude", "codex"]), agent_title=rng.choice(WORDS))
        for step in range(900):
            words = " ".join(rng.choices(WORDS, weights=range(len(WORDS), 0, -1), k=rng.randint(1, 4)))
            session = store.sessions.get(f"s{rng.randrange(200)}")
            store.chains.append(
                session.key, [(prompt_entry if step % 2 else answer_entry)(words, time_ago(minutes=1000 - step))]
            )
        for number in range(200):
            at = time_ago(minutes=rng.randrange(1000))
            store.connection.execute("update sessions set updated_at = ? where id = ?", (at, f"s{number}"))
    yield store
    store.close()


QUERIES = [
    "alpha",
    "al",
    "alpha beta ",
    "beta OR eta ",
    '"alpha beta" ',
    "alpha -beta ",
    "role:user ga",
    "kappa agent:cl",
]
QUERIES += ["theta", "alpha tool:bash ", "nothing", "alpha beta gamma delta "]


@pytest.mark.parametrize("typed", QUERIES)
@pytest.mark.parametrize("limit", [1, 5, 50])
def test_the_first_page_is_the_beginning_of_the_full_list(mixed: Store, typed: str, limit: int) -> None:
    options = SessionListOptions(typed, order="newest", group="none")
    full = build_session_list(mixed, options, now=NOW)
    if not full.query.corrections:
        assert build_session_list(mixed, options, limit, NOW).keys == full.keys[:limit]


def test_older_matches_are_found_without_searching_all_sessions(store: Store) -> None:
    for number in range(120):
        text = "the reef" if number % 10 == 9 else "open water"
        add_session(store, f"s{number}", time_ago(minutes=number), prompt_entry(text, NOON))
    options = SessionListOptions("reef", order="newest", group="none")
    first = build_session_list(store, options, 5, NOW)
    assert first.keys == build_session_list(store, options, now=NOW).keys[:5]
    assert set(first.keys) <= first.last_hit_entries.keys()
    assert len(first.last_hit_entries) < 120 // 10, "the oldest sessions were not searched"


@pytest.mark.parametrize("typed", ["alpha", "al", "beta eta ", "role:assistant alpha "])
def test_the_last_hit_of_each_session(mixed: Store, typed: str) -> None:
    query = Query.parse(typed, is_typing=True)
    keys = [key for (key,) in mixed.rows("select key from sessions")]
    expected = {}
    for key, session, text, role in mixed.rows("select key, session, text, role from entries order by key"):
        words = text.split()
        matches = all(
            any(word.startswith(term.text) if term.prefix else word == term.text for word in words)
            for term in query.terms
        )
        if matches and ("role" not in typed or role == "assistant"):
            expected[session] = key
    assert find_last_hit_entries(mixed, query, keys, NOW) == expected
    assert expected.keys() == {row.session.key for row in load_rows(mixed, keys, query) if row.hit}


def test_thinking_is_scanned_like_text(store: Store) -> None:
    for number, entry in enumerate(
        [prompt_entry("whales", NOON), NewEntry(role="assistant", parts=(Thinking("whole"),))]
    ):
        add_session(store, f"s{number}", time_ago(hours=number), entry)
    add_session(store, "s2", time_ago(hours=2), prompt_entry("nothing that thinks, or is text", NOON))
    options = SessionListOptions("wh", order="newest", group="none")
    assert build_session_list(store, options, 2, NOW).keys == build_session_list(store, options, now=NOW).keys
    assert len(build_session_list(store, SessionListOptions("th"), 1, NOW).keys) == 1


def test_ranges_are_merged_into_a_few() -> None:
    assert merge_ranges([]) == []
    assert merge_ranges([EntryRange(5, 9), EntryRange(1, 4), EntryRange(10, 12)]) == [EntryRange(1, 12)]
    far = [EntryRange(number * 9_000, number * 9_000 + 1) for number in range(50)]
    assert len(merge_ranges(far)) == 8
    assert merge_ranges([EntryRange(1, 2), EntryRange(4, 5), EntryRange(90, 91)], max_ranges=2, max_gap=1) == [
        EntryRange(1, 5),
        EntryRange(90, 91),
    ]


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 300)), max_size=40), st.integers(1, 9))
def test_merged_ranges_contain_all_ranges(starts_and_lengths: list[tuple[int, int]], max_ranges: int) -> None:
    ranges = [EntryRange(start, start + length) for start, length in starts_and_lengths]
    merged = merge_ranges(ranges, max_ranges, max_gap=20)
    assert len(merged) <= max_ranges
    assert merged == sorted(merged)
    assert all(any(outer.first <= inner.first and inner.last <= outer.last for outer in merged) for inner in ranges)


def test_after_a_pause_the_best_matches_come_before_the_newest(store: Store) -> None:
    add_session(
        store,
        "newest",
        time_ago(minutes=1),
        prompt_entry("a long talk about this and that, and a whale at the end of it", time_ago(minutes=1)),
    )
    add_session(store, "older", time_ago(days=2), prompt_entry("whale whale whale", time_ago(days=2)))
    add_session(
        store, "oldest", time_ago(days=9), prompt_entry("of other things", time_ago(days=9)), agent_title="The whale"
    )
    shown = build_session_list(store, SessionListOptions("whale"), now=NOW)
    assert [store.sessions.by_key(key).id for key in shown.keys] == ["oldest", "older", "newest"]
    assert [tuple(heading) for heading in shown.headings] == [(0, BEST_MATCHES, 3)]
    while_typing = build_session_list(store, SessionListOptions("whale"), 50, NOW)
    assert [store.sessions.by_key(key).id for key in while_typing.keys] == ["newest", "older", "oldest"]
    newest = build_session_list(store, SessionListOptions("whale", order="newest"), now=NOW)
    assert newest.keys == while_typing.keys
    grouped = build_session_list(store, SessionListOptions("whale", group="agent"), now=NOW)
    assert grouped.keys == shown.keys


def test_after_the_best_matches_the_others_are_grouped_by_day(store: Store) -> None:
    for number in range(30):
        at = time_ago(days=number)
        add_session(store, f"s{number}", at, prompt_entry("whale " * (number + 1) + "and more " * 20, at))
    shown = build_session_list(store, SessionListOptions("whale"), now=NOW)
    assert (len(shown), shown.headings[0]) == (30, (0, BEST_MATCHES, 20))
    days = list(shown.headings[1:])
    assert [heading.row for heading in days] == list(range(20, 30))
    assert [heading.value for heading in days] == sorted((heading.value for heading in days), reverse=True)
    assert set(shown.keys) == set(build_session_list(store, SessionListOptions("whale", order="newest"), now=NOW).keys)


def test_a_child_that_matches_best_ranks_its_parent(store: Store) -> None:
    add_session(
        store,
        "other",
        time_ago(minutes=1),
        prompt_entry("some words that mention a whale, and many others besides", time_ago(minutes=1)),
    )
    add_session(
        store,
        "parent",
        time_ago(days=3),
        prompt_entry("a whale among so many other words that nobody will find it", time_ago(days=3)),
    )
    at = time_ago(days=3)
    add_session(store, "child", at, prompt_entry("whale whale", at), parent_id="parent", relation="delegate")
    shown = build_session_list(store, SessionListOptions("whale"), now=NOW)
    assert [store.sessions.by_key(key).id for key in shown.keys] == ["parent", "child", "other"]
    assert [*shown.depths] == [0, 1, 0]


def test_a_word_with_too_many_matches_is_not_ranked(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.search.recent.MAX_RANKED_MATCHES", 2)
    whales = {
        add_session(store, f"s{number}", time_ago(days=number), prompt_entry("whale", time_ago(days=number))).key
        for number in range(3)
    }
    assert rank_sessions(store, Query.parse("whale"), NOW, whales, 3) == []


def test_only_a_few_matches_in_a_small_archive_are_ranked_at_every_letter(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    whale = Query.parse("whale", is_typing=True)
    assert not is_ranked_quickly(store, whale)
    for number in range(3):
        add_session(store, f"s{number}", time_ago(days=number), prompt_entry("whale", time_ago(days=number)))
    assert is_ranked_quickly(store, whale)
    assert not is_ranked_quickly(store, Query.parse("wha", is_typing=True)), "counting a short prefix takes too long"
    with monkeypatch.context() as patched:
        patched.setattr("store.search.recent.MAX_RARE_MATCHES", 2)
        assert not is_ranked_quickly(store, whale)
    monkeypatch.setattr("store.search.recent.MAX_SCANNED_TITLES", 2)
    assert not is_ranked_quickly(store, whale)


def test_more_messages_are_ranked_if_the_first_ones_are_in_few_sessions(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("store.search.recent.RANKED_ENTRIES", (2, 10))
    at = time_ago(days=1)
    often = add_session(store, "often", at, *(prompt_entry("whale", at) for _ in range(3))).key
    once = add_session(store, "once", at, prompt_entry("a whale in a longer sentence", at)).key
    assert rank_sessions(store, Query.parse("whale"), NOW, {often, once}, 1) == [often]
    assert rank_sessions(store, Query.parse("whale"), NOW, {often, once}, 2) == [often, once]
    assert rank_sessions(store, Query.parse("whale"), NOW, {once}, 1) == [once]


def test_one_letter_filters_titles_only(store: Store) -> None:
    add_session(store, "titled", time_ago(minutes=1), agent_title="A whale")
    add_session(store, "said", time_ago(minutes=2), prompt_entry("a whale", time_ago(minutes=2)))
    add_session(store, "japanese", time_ago(minutes=3), prompt_entry("日本の会話", time_ago(minutes=3)))

    def found(typed: str) -> list[str]:
        return [
            store.sessions.by_key(key).id
            for key in build_session_list(store, SessionListOptions(typed, order="newest"), now=NOW).keys
        ]

    assert found("w") == ["titled"]
    assert found("wh") == ["titled", "said"]
    assert found("whale x") == ["said"], "the messages are searched for the indexed words only"
    assert found("本") == ["japanese"]
