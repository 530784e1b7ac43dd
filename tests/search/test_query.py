"""These tests check how queries are parsed and completed, and what their filters find."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest
from browser_driver import NOW, add_session, answer_entry, fill_store, prompt_entry, time_ago
from hypothesis import given
from hypothesis import strategies as st

from store.model.entry import NewEntry, Text, ToolCall, ToolResult
from store.model.usage import Usage
from store.search.complete import Vocabulary, accept_completion, list_completions
from store.search.explain import explain_query
from store.search.query import FILTERS, MAX_TERMS, STATES, Filter, Query, Term, parse_date
from store.search.sql import build_session_condition, build_tool_call_condition, format_timestamp
from store.store import Store

# ── parsing ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("typed", "groups"),
    [
        ("", ()),
        ("upload retry", ((Term("upload"),), (Term("retry"),))),
        ('"file was closed" clos*', ((Term("file was closed"),), (Term("clos", prefix=True),))),
        ('"half a phr', ((Term("half a phr"),),)),
        ('"fi le"*', ((Term("fi le", prefix=True),),)),
        ("up OR down left", ((Term("up"), Term("down")), (Term("left"),))),
        ("OR up OR OR", ((Term("up"),),)),
        ("or", ((Term("or"),),)),
        ("-draft", ((Term("draft", negated=True),),)),
        ('-"two words"', ((Term("two words", negated=True),),)),
        ("well-known", ((Term("well-known"),),)),
        ("same same", ((Term("same"),),)),
        ("agent:claude", ((Filter("agent", "claude"),),)),
        ('AGENT:"claude"', ((Filter("agent", "claude", exact=True),),)),
        ('cwd:"/with a blank"', ((Filter("cwd", "/with a blank", exact=True),),)),
        ("-is:Archived", ((Filter("is", "archived", negated=True),),)),
        ("tag:a OR tag:b", ((Filter("tag", "a"), Filter("tag", "b")),)),
        ("telegram:6480", ((Term("telegram:6480"),),)),
        ("https://x.y/z", ((Term("https://x.y/z"),),)),
        ("- * '' \"", ((Term("*"),), (Term("''"),))),
        ("a\0b", ((Term("a"),), (Term("b"),))),
    ],
)
def test_valid_queries_are_parsed_without_warnings(typed: str, groups: object) -> None:
    assert Query.parse(typed).groups == groups
    assert Query.parse(typed).warnings == ()


@pytest.mark.parametrize(
    ("typed", "warning"),
    [
        ("agent:", "agent: needs a value: the name of an agent."),
        ("is:broken", f"is: has no value 'broken'. Use {', '.join(STATES)}."),
        ("has:x", "has: has no value 'x'. Use secret, summary, note."),
        ("before:soon", "before: 'soon' is not a date. Use 2026-11-01, yesterday, 3d."),
        ("day:3d", "day: '3d' is not a date. Use 2026-11-01, yesterday, 2026-11, 2026-11-01..2026-11-07."),
        (
            "day:2026-11..2026-10",
            "day: '2026-11..2026-10' is not a date. Use 2026-11-01, yesterday, 2026-11, 2026-11-01..2026-11-07.",
        ),
        ("hour:24", "hour: '24' is not an hour. Use 14, mon-14."),
        ("after:2026-13-01", "after: '2026-13-01' is not a date. Use 2026-11-01, yesterday, 3d."),
        ("role:user", "role: filters the words that are found. Add a word to search for."),
    ],
)
def test_an_invalid_filter_is_ignored_with_a_warning(typed: str, warning: str) -> None:
    query = Query.parse(f"{typed} -is:pinned")
    assert query.warning_text == warning
    assert (Filter("is", "pinned", negated=True),) in query.groups
    assert "upload" in [term.text for term in Query.parse(f"upload {typed}").terms]


@pytest.mark.parametrize(
    "typed", ["is:banana", "-is:banana", "has:x", "role:y", "after:banana", "before:2026-13", "x is:pin y"]
)
def test_unknown_values_are_listed_apart_from_other_warnings(typed: str) -> None:
    query = Query.parse(f"agent: agnt:claude {typed}")
    assert len(query.unknown_values) == 1
    assert len(query.warnings) == 3
    assert set(query.unknown_values) < set(query.warnings)


@pytest.mark.parametrize(
    "typed",
    "is:pin -is:p is:E has:sum role:as after:y after:tod after:fr after:3 after:20 after:2026- after:2026-0 "
    "after:2026-1- after:2026-11-0 before:2026-11-01T before:2026-11-01T1 "
    "before:2026-11-01T12: before:2026-11-01T12:3 day:yes day:2026-11-0 day:2026-11-01. day:2026-11-01..2026- "
    "hour:m hour:mon hour:mon- hour:sunda".split(),
)
def test_the_beginning_of_a_value_gets_no_warning_while_it_is_typed(typed: str) -> None:
    assert Query.parse(f"upload {typed}", is_typing=True).warnings == ()
    assert Query.parse(f"upload {typed}").unknown_values or Query.parse(f"upload {typed}").warnings == ()
    assert len(Query.parse(f"{typed} upload", is_typing=True).unknown_values) == len(Query.parse(typed).unknown_values)


@pytest.mark.parametrize("typed", ["is:ban", "has:x", "role:z", "after:ban", "after:2026-13", "after:2026-11-32"])
def test_a_value_that_nothing_can_complete_gets_a_warning_while_it_is_typed(typed: str) -> None:
    assert len(Query.parse(typed, is_typing=True).unknown_values) == 1


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("agnt:claude", "agent"),
        ("agnet:x", "agent"),
        ("tools:bash", "tool"),
        ("-Befor:3d", "before"),
        ("ha:note", "has"),
    ],
)
def test_a_name_that_resembles_a_filter_stays_a_word_with_a_hint(typed: str, meant: str) -> None:
    query = Query.parse(typed)
    assert [atom.text for group in query.groups for atom in group if isinstance(atom, Term)] == [typed.lstrip("-")]
    (hint,) = query.warnings
    assert hint.endswith(f"is not a filter, so it is searched as a word. Did you mean {meant}:?")
    assert query.unknown_values == ()


@pytest.mark.parametrize("typed", ["TypeError:x", "http://is.it/x", "as://x", '"agnt:claude"', "agnt:", "s:1", "12:30"])
def test_other_words_with_a_colon_get_no_hint(typed: str) -> None:
    assert Query.parse(typed).warnings == ()


def test_the_last_word_may_be_half_typed() -> None:
    assert Query.parse("up ret", is_typing=True).terms == (Term("up"), Term("ret", prefix=True))
    assert Query.parse("up ret ", is_typing=True).terms == (Term("up"), Term("ret"))
    assert Query.parse("up is:pinned", is_typing=True).terms == (Term("up"),)
    assert Query.parse("", is_typing=True).terms == ()


def test_a_pasted_page_is_cut_with_a_warning() -> None:
    query = Query.parse(" ".join(f"word{n}" for n in range(10_000)))
    assert len(query.groups) == MAX_TERMS
    assert query.warning_text == f"Only the first {MAX_TERMS} words are used."


def test_full_text_and_pattern() -> None:
    query = Query.parse('up OR down "a phrase" le* -not is:error %')
    assert query.fts() == '("up" OR "down") AND ("a phrase") AND ("le"*)'
    pattern = query.pattern()
    assert pattern is not None
    text = "UP upper down_under, a  phrase; left not"
    assert [match[0] for match in pattern.finditer(text)] == ["UP", "down", "a  phrase", "le"]
    assert Query.parse("% is:error").pattern() is None
    chinese = Query.parse("迁移").pattern()
    assert chinese is not None
    assert chinese.search("数据库迁移失败")


PIECES = [
    '"',
    "-",
    "*",
    "OR",
    " ",
    ":",
    "(",
    "NEAR",
    "\0",
    "\x1b[2J",
    "\ud800",
    "失",
    "e\u0301",
    "3d",
    "error",
    "0000-1-1",
]
PIECES += [f"{name}:" for name in FILTERS]


@given(st.text(), st.integers(0, 2**32))
def test_no_text_raises_anything(drawn: str, seed: int) -> None:
    """Each example tries a hundred texts of the drawn characters and of pieces with a meaning in queries."""
    randomness = random.Random(seed)
    for _ in range(100):
        typed = "".join(randomness.choices([*PIECES, *drawn], k=randomness.randrange(40)))
        query = Query.parse(typed, is_typing=True)
        query.fts()
        query.pattern()
        assert isinstance(query.warning_text, str)
        for condition in (build_session_condition(query, NOW), build_tool_call_condition(query, NOW)):
            assert condition.sql.count("?") == len(condition.values)
        for completion in list_completions(typed, len(typed), Vocabulary(tags=("a b", "\x1b"))):
            accept_completion(typed, len(typed), completion)


# ── dates ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "start"),
    [
        ("today", datetime(2026, 11, 3)),
        ("Yesterday", datetime(2026, 11, 2)),
        ("tue", datetime(2026, 11, 3)),
        ("wednesday", datetime(2026, 10, 28)),
        ("3d", datetime(2026, 10, 31, 12)),
        ("2w", datetime(2026, 10, 20, 12)),
        ("6h", datetime(2026, 11, 3, 6)),
        ("2026", datetime(2026, 1, 1)),
        ("2026-9", datetime(2026, 9, 1)),
        ("2026-09-30", datetime(2026, 9, 30)),
        ("2026-09-30T8:15", datetime(2026, 9, 30, 8, 15)),
        ("9999d", datetime(2026, 11, 3, 12) - timedelta(days=9999)),
    ],
)
def test_dates(value: str, start: datetime) -> None:
    assert parse_date(value, NOW) == start.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    "value", ["", "x", "mo", "d", "-3d", "2026-02-30", "0000", "9999y", "12345", "2026-09-30T25:00"]
)
def test_invalid_dates(value: str) -> None:
    assert parse_date(value, NOW) is None


# ── completion ────────────────────────────────────────────────────────────────────────────────────

KNOWN = Vocabulary(
    agents=("claude", "codex", "claude-ai"),
    folders=("/home/ada/code", "/home/ada/my notes"),
    tools=("Bash", "Read"),
    tags=("work", "evil\x1b[2J", "rework"),
)


@pytest.mark.parametrize(
    ("typed", "completions"),
    [
        ("a", ["agent:", "after:"]),
        ("words ag", ["agent:"]),
        ("-i", ["-is:"]),
        ("x", []),
        ("http:", []),
        ("agent:c", ["agent:claude", "agent:codex", "agent:claude-ai"]),
        ("agent:AI", ["agent:claude-ai"]),
        ("agent:codex", []),
        ("tag:wor", ["tag:work", "tag:rework"]),
        ("tag:", ["tag:work", "tag:rework"]),
        ("tool:b", ["tool:Bash"]),
        ('cwd:"/home/ada/my', ['cwd:"/home/ada/my notes"']),
        ("is:p", ["is:pinned", "is:expiring", "is:disputed"]),
        ("has:s", ["has:secret", "has:summary"]),
        ("-role:u", ["-role:user"]),
        ("after:y", ["after:yesterday", "after:today", "after:1y"]),
    ],
)
def test_completions(typed: str, completions: list[str]) -> None:
    assert list_completions(typed, len(typed), KNOWN) == completions


def test_every_filter_is_a_completion_of_an_empty_word() -> None:
    assert list_completions("words ", 6, KNOWN) == [f"{name}:" for name in FILTERS]


@pytest.mark.parametrize(
    ("typed", "cursor", "completion", "text", "new_cursor"),
    [
        ("ag", 2, "agent:", "agent:", 6),
        ("one agent:c two", 11, "agent:codex", "one agent:codex two", 16),
        ('cwd:"/my n', 10, 'cwd:"/my notes"', 'cwd:"/my notes" ', 16),
    ],
)
def test_a_completion_replaces_the_word(typed: str, cursor: int, completion: str, text: str, new_cursor: int) -> None:
    assert accept_completion(typed, cursor, completion) == (text, new_cursor)


# ── filters ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def world(store: Store) -> Store:
    fill_store(store)
    upload, beta, telegram = (
        store.sessions.get(name) for name in ("claude:e0741090", "codex:0199aa", "telegram:648079060")
    )
    store.notes.tag([beta], ["work", "Later"])
    store.notes.add_note(upload, "remember")
    store.secrets.set(telegram, "TOKEN", "hush")
    store.sessions.archive([telegram])
    store.sessions.fork(beta, 1, "forked")
    at = time_ago(seconds=30)
    add_session(store, "now", at, prompt_entry("still going", at), answer_entry("retry it is", at), source="kiso")
    return store


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("agent:cla", "claude:e0741090"),
        ('agent:"cla"', ""),
        ("agent:codex OR agent:claude", "claude:e0741090 codex:0199aa"),
        ("model:opus", "claude:e0741090"),
        ("model:GPT-5", "codex:0199aa"),
        ("cwd:code/alpha", "claude:e0741090"),
        ("tool:bas", "claude:e0741090"),
        ("tool:ash", ""),
        ("is:error", "claude:e0741090"),
        ("is:pinned", "claude:e0741090"),
        ("is:archived", "telegram:648079060"),
        ("is:archived has:secret", "telegram:648079060"),
        ("is:fork", "forked"),
        ("is:delegate", "telegram:648079060:delegate:sysinfo"),
        ("is:live", "now"),
        ("is:gone", ""),
        ("has:secret", ""),
        ("has:summary", "claude:e0741090"),
        ("has:note", "claude:e0741090"),
        ("tag:later tag:work", "codex:0199aa"),
        ("tag:wor OR is:pinned", "claude:e0741090 codex:0199aa"),
        ("retry", "claude:e0741090 now"),
        ("retry role:user", "claude:e0741090"),
        ("retry -role:user", "claude:e0741090 now"),
        ("flaky role:user", ""),
        ("retry -flaky", "now"),
        ("retry -closed", "now"),
        ("agent:codex -is:fork", "codex:0199aa"),
        ("going OR flaky", "claude:e0741090 now"),
        ("flaky upload", "claude:e0741090"),
        ("before:2026", "library:old"),
        ("before:yesterday after:30d", "kiso:1"),
        ("after:today", "claude:e0741090 codex:0199aa now"),
    ],
)
def test_filters_find_sessions(world: Store, typed: str, found: str) -> None:
    sessions, total = world.sessions.matching(typed, now=NOW)
    ids = {session.id for session in sessions}
    assert (ids if typed == "is:fork" else ids - {"forked"}) == set(found.split())
    assert total == len(sessions)


def test_days_and_hours_are_those_of_turns_and_answers(store: Store) -> None:
    times = (datetime(2026, 11, 2, 23, 30), datetime(2026, 11, 3, 0, 30), datetime(2026, 11, 5, 14, 10))
    monday, tuesday, thursday = (format_timestamp(time.astimezone()) for time in times)
    entries = [prompt_entry("whale", monday), answer_entry("a whale", tuesday)]
    usage = Usage(output=1, model="small-1")
    answer = NewEntry(role="assistant", parts=(Text("sure"),), created_at=thursday, usage=usage)
    add_session(store, "s", monday, *entries, prompt_entry("go", thursday), answer, model="large-1")

    def is_found(typed: str) -> bool:
        return bool(store.sessions.matching(typed, now=NOW)[1])

    for typed in (
        "day:2026-11-02",
        "day:2026-11-03",
        "day:2026-11-05",
        "day:2026-11",
        "day:2026",
        "day:2026-11-04..2026-11-09",
    ):
        assert is_found(typed), typed
    for typed in ("day:2026-11-01", "day:2026-11-04", "day:2026-10", "day:2026-11-06..2026-12-31"):
        assert not is_found(typed), typed
    assert [is_found(typed) for typed in ("hour:23", "hour:mon-23", "hour:thursday-14")] == [True] * 3
    assert [is_found(typed) for typed in ("hour:9", "hour:tue-23", "-hour:23")] == [False] * 3
    assert [is_found(typed) for typed in ("model:small", "model:large", "model:medium")] == [True, True, False]
    hits = [
        {hit.entry for hit in store.search.find(typed, now=NOW)[0]}
        for typed in ("whale hour:0", "whale day:2026-11-02")
    ]
    assert hits == [{"s#1"}, {"s#0"}]


@pytest.mark.parametrize(
    ("typed", "explained"),
    [
        ("day:2026-11-02", "active on Mon 2 Nov 2026"),
        ("day:2026-11", "active from Sun 1 Nov 2026 to Mon 30 Nov 2026"),
        ("-hour:9", "not from 09:00 to 10:00"),
        ('cwd:"" -model:""', "without a folder, not without a model"),
        ("hour:MON-23", "Mondays from 23:00 to 00:00"),
    ],
)
def test_days_and_hours_are_explained(typed: str, explained: str) -> None:
    assert explain_query(Query.parse(typed), NOW) == explained


def test_filters_narrow_hits_to_what_they_name(store: Store) -> None:
    at = time_ago(minutes=5)
    calls = (ToolCall("1", "Bash", {"command": "whale"}), ToolCall("2", "Grep", {"pattern": "whale"}))
    results = (ToolResult("1", "no whale", is_error=True), ToolResult("2", "a whale"))
    call_entries = [NewEntry(role="assistant", parts=(call,), created_at=at) for call in calls]
    result_entries = [NewEntry(role="tool", parts=(result,), created_at=at) for result in results]
    add_session(store, "s", at, prompt_entry("find the whale", at), *call_entries, *result_entries, source="claude")

    def found(typed: str) -> set[str]:
        return {hit.entry for hit in store.search.find(typed, now=NOW)[0]}

    assert len(found("whale")) == 5
    assert found("whale role:user") == {"s#0"}
    assert found("whale tool:bash") == {"s#1", "s#3"}
    assert found("whale is:error") == {"s#1", "s#3"}
    assert found("whale tool:grep is:error") == set()
    assert found("whale -find role:user") == set()
    assert found("whale agent:codex") == set()
    assert found("whale before:3h") == set()
    assert found("is:error") == set()


def test_an_error_at_the_end_of_a_session_makes_its_hits_errors(store: Store) -> None:
    at = time_ago(minutes=5)
    failure = NewEntry(kind="event", text="429: quota", created_at=at)
    add_session(store, "failed", at, prompt_entry("find the whale", at), failure)
    add_session(store, "fine", at, prompt_entry("find the whale", at))
    assert [session.id for session in store.sessions.matching("whale is:error", now=NOW)[0]] == ["failed"]
    assert [hit.session_id for hit in store.search.find("whale is:error", now=NOW)[0]] == ["failed"]


def test_filters_narrow_tool_calls(world: Store) -> None:
    def names(typed: str) -> list[str]:
        condition = build_tool_call_condition(Query.parse(typed), NOW)
        return [call.name for call in world.chains.all_tool_calls(condition.sql, condition.values)]

    assert names("") == names("tool:bash is:error") == names("agent:claude pytest") == names("-tool:read") == ["Bash"]
    assert names("tool:read") == names("-is:error") == names("agent:codex") == names("%") == []


# ── the newest hit ────────────────────────────────────────────────────────────────────────────────


def test_a_session_opens_at_its_newest_hit(store: Store) -> None:
    at = time_ago()
    entries = [prompt_entry("one whale", at), answer_entry("two whales and a whale", at), prompt_entry("no fish", at)]
    session = add_session(store, "s", at, *entries, agent_title="The sea")
    find = store.search.find_newest_hit_entry
    assert find(session.key, Query.parse("whale")) == "s#1"
    assert find(session.key, Query.parse("whale role:user")) == "s#0"
    assert find(session.key, Query.parse("sea")) is None
    assert find(session.key, Query.parse("is:pinned")) is None
    assert find(session.key, Query.parse("")) is None


def test_the_vocabulary_lists_the_values_in_the_store(world: Store) -> None:
    vocabulary = world.search.load_vocabulary()
    assert set(vocabulary.agents) == {"claude", "codex", "pingu", "kiso", "library"}
    assert set(vocabulary.models) == {"claude-opus", "gpt-5-codex"}
    assert set(vocabulary.folders) == {"/home/ada/code/alpha", "/home/ada/code/beta"}
    assert vocabulary.tools == ("Bash",)
    assert vocabulary.tags == ("Later", "work")
