"""As one types: first by newness, from a few sessions, and never other than from all of them; then by rank."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from browser_driver import NOW, add, answer, before, prompt
from hypothesis import given
from hypothesis import strategies as st

from store.model.entry import NewEntry, Thinking
from store.search.list_rows import BEST, Wanted
from store.search.query import Query
from store.search.recent import Stretch, best, said_last, stretches
from store.search.session_list import listing, rows
from store.store import Store

NOON = before(hours=3)
WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa".split()


@pytest.fixture(scope="module")
def mixed() -> Iterator[Store]:
    """Two hundred sessions that grew in turns, so that the entries of each lie scattered among the others'."""
    dice = random.Random(7)
    store = Store.memory()
    with store.transaction():
        for number in range(200):
            store.sessions.create(f"s{number}", source=dice.choice(["claude", "codex"]), agent_title=dice.choice(WORDS))
        for step in range(900):
            words = " ".join(dice.choices(WORDS, weights=range(len(WORDS), 0, -1), k=dice.randint(1, 4)))
            session = store.sessions.get(f"s{dice.randrange(200)}")
            store.chains.append(session.key, [(prompt if step % 2 else answer)(words, before(minutes=1000 - step))])
        for number in range(200):
            at = before(minutes=dice.randrange(1000))
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
def test_the_first_page_is_the_beginning_of_the_whole_list(mixed: Store, typed: str, limit: int) -> None:
    wanted = Wanted(typed, order="newest", group="none")
    whole = listing(mixed, wanted, now=NOW)
    if not whole.query.instead:
        assert listing(mixed, wanted, limit, NOW).keys == whole.keys[:limit]


def test_what_lies_further_back_is_found_without_a_look_at_all_that_was_said(store: Store) -> None:
    for number in range(120):
        said = "the reef" if number % 10 == 9 else "open water"
        add(store, f"s{number}", before(minutes=number), prompt(said, NOON))
    wanted = Wanted("reef", order="newest", group="none")
    first = listing(store, wanted, 5, NOW)
    assert first.keys == listing(store, wanted, now=NOW).keys[:5]
    assert set(first.keys) <= first.said.keys()
    assert len(first.said) < 120 // 10, "of those that lie furthest back nothing is known"


@pytest.mark.parametrize("typed", ["alpha", "al", "beta eta ", "role:assistant alpha "])
def test_where_words_were_said_last(mixed: Store, typed: str) -> None:
    query = Query.parse(typed, typing=True)
    keys = [key for (key,) in mixed.rows("select key from sessions")]
    told = {}
    for key, session, text, role in mixed.rows("select key, session, text, role from entries order by key"):
        words = text.split()
        holds = all(
            any(one.startswith(term.text) if term.prefix else one == term.text for one in words) for term in query.terms
        )
        if holds and ("role" not in typed or role == "assistant"):
            told[session] = key
    assert said_last(mixed, query, keys, NOW) == told
    assert told.keys() == {row.session.key for row in rows(mixed, keys, query) if row.hit}


def test_what_was_only_thought_is_met_as_what_was_said(store: Store) -> None:
    for number, entry in enumerate([prompt("whales", NOON), NewEntry(role="assistant", parts=(Thinking("whole"),))]):
        add(store, f"s{number}", before(hours=number), entry)
    add(store, "s2", before(hours=2), prompt("nothing that thinks, or is text", NOON))
    wanted = Wanted("wh", order="newest", group="none")
    assert listing(store, wanted, 2, NOW).keys == listing(store, wanted, now=NOW).keys
    assert len(listing(store, Wanted("th"), 1, NOW).keys) == 1


def test_the_index_is_asked_a_few_times_only() -> None:
    assert stretches([]) == []
    assert stretches([Stretch(5, 9), Stretch(1, 4), Stretch(10, 12)]) == [Stretch(1, 12)]
    far = [Stretch(number * 9_000, number * 9_000 + 1) for number in range(50)]
    assert len(stretches(far)) == 8
    assert stretches([Stretch(1, 2), Stretch(4, 5), Stretch(90, 91)], most=2, near=1) == [
        Stretch(1, 5),
        Stretch(90, 91),
    ]


@given(st.lists(st.tuples(st.integers(1, 10_000), st.integers(0, 300)), max_size=40), st.integers(1, 9))
def test_all_that_is_wanted_lies_in_the_stretches(lies: list[tuple[int, int]], most: int) -> None:
    wanted = [Stretch(first, first + length) for first, length in lies]
    joined = stretches(wanted, most, near=20)
    assert len(joined) <= most
    assert joined == sorted(joined)
    assert all(any(one.first <= each.first and each.last <= one.last for one in joined) for each in wanted)


def test_after_a_pause_the_best_stand_on_top_then_the_newest(store: Store) -> None:
    add(
        store,
        "newest",
        before(minutes=1),
        prompt("a long talk about this and that, and a whale at the end of it", before(minutes=1)),
    )
    add(store, "older", before(days=2), prompt("whale whale whale", before(days=2)))
    add(store, "oldest", before(days=9), prompt("of other things", before(days=9)), agent_title="The whale")
    shown = listing(store, Wanted("whale"), now=NOW)
    assert [store.sessions.by_key(key).id for key in shown.keys] == ["oldest", "older", "newest"]
    assert [tuple(heading) for heading in shown.headings] == [(0, BEST, 3)]
    at_once = listing(store, Wanted("whale"), 50, NOW)
    assert [store.sessions.by_key(key).id for key in at_once.keys] == ["newest", "older", "oldest"]
    newest = listing(store, Wanted("whale", order="newest"), now=NOW)
    assert newest.keys == at_once.keys
    grouped = listing(store, Wanted("whale", group="agent"), now=NOW)
    assert grouped.keys == shown.keys


def test_beyond_the_best_the_others_follow_by_their_days(store: Store) -> None:
    for number in range(30):
        at = before(days=number)
        add(store, f"s{number}", at, prompt("whale " * (number + 1) + "and more " * 20, at))
    shown = listing(store, Wanted("whale"), now=NOW)
    assert (len(shown), shown.headings[0]) == (30, (0, BEST, 20))
    days = list(shown.headings[1:])
    assert [heading.row for heading in days] == list(range(20, 30))
    assert [heading.value for heading in days] == sorted((heading.value for heading in days), reverse=True)
    assert set(shown.keys) == set(listing(store, Wanted("whale", order="newest"), now=NOW).keys)


def test_a_child_that_fits_best_lifts_its_parent(store: Store) -> None:
    add(
        store,
        "other",
        before(minutes=1),
        prompt("some words that mention a whale, and many others besides", before(minutes=1)),
    )
    add(
        store,
        "parent",
        before(days=3),
        prompt("a whale among so many other words that nobody will find it", before(days=3)),
    )
    at = before(days=3)
    add(store, "child", at, prompt("whale whale", at), parent_id="parent", relation="delegate")
    shown = listing(store, Wanted("whale"), now=NOW)
    assert [store.sessions.by_key(key).id for key in shown.keys] == ["parent", "child", "other"]
    assert [*shown.depths] == [0, 1, 0]


def test_a_word_that_stands_everywhere_weighs_nothing(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("store.search.recent.RANKED_MATCHES", 2)
    for number in range(3):
        add(store, f"s{number}", before(days=number), prompt("whale", before(days=number)))
    assert best(store, Query.parse("whale"), NOW) == []


def test_one_letter_filters_titles_only(store: Store) -> None:
    add(store, "titled", before(minutes=1), agent_title="A whale")
    add(store, "said", before(minutes=2), prompt("a whale", before(minutes=2)))
    add(store, "japanese", before(minutes=3), prompt("日本の会話", before(minutes=3)))

    def found(typed: str) -> list[str]:
        return [store.sessions.by_key(key).id for key in listing(store, Wanted(typed, order="newest"), now=NOW).keys]

    assert found("w") == ["titled"]
    assert found("wh") == ["titled", "said"]
    assert found("whale x") == ["said"], "the text is asked for what the index can answer"
    assert found("本") == ["japanese"]
