"""These tests store unusual values: each is read back unchanged, or refused with a reason."""

from __future__ import annotations

import json
import math
import random
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from store.doctor import check_store
from store.edits.facts import split_lines
from store.errors import BadValue, StoreError
from store.model.entry import NewEntry, Tokens
from store.model.session import Session
from store.store import Store
from store.text.validate import MAX_ID_LENGTH, MAX_JSON_DEPTH, decode

Json = Any

any_text = st.text(st.characters(exclude_categories=()), max_size=60)
valid_text = st.text(max_size=60)
"""Generates text without lone surrogates."""

# These characters cause errors in many programs: NUL, surrogates, marks, the last ones of a plane, markup, query
# syntax.
nasty_characters = st.sampled_from(
    list("\0\t\n\x1b\x7f\x85\xa0\u0301\u200b\u2028\u202e\ud83d\ude00\udcff\ufeff\uffff字ع😀\U0010ffff\"'\\[]{}*:^-")
)
nasty_text = st.text(nasty_characters, max_size=12)
text = any_text | nasty_text

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
KNOWN_BLOCKS = ["text", "thinking", "tool_use", "tool_result", "image", "document", "never heard of", ""]
KNOWN_ITEMS = (
    "message reasoning function_call function_call_output custom_tool_call computer_call computer_call_output"
    " file_search_call web_search_call code_interpreter_call compaction"
).split()
FIELDS = (
    "text thinking signature id name input tool_use_id content is_error source title"
    " role status call_id arguments output action summary results queries code"
).split()


def agent_objects(kinds: list[str]) -> st.SearchStrategy[Json]:
    """Generate objects like those of agents, with any values in their fields."""
    fields = st.dictionaries(st.sampled_from(FIELDS) | text, json_values, max_size=5)
    return st.builds(lambda kind, rest: rest | {"type": kind}, st.sampled_from(kinds) | json_values, fields)


blocks = st.lists(agent_objects(KNOWN_BLOCKS) | json_values, max_size=5)
items = st.lists(agent_objects(KNOWN_ITEMS) | json_values, max_size=5)


@pytest.fixture(scope="module")
def shared_store() -> Iterator[Store]:
    """Give one store for all examples of a property. Each example uses its own session."""
    with Store.memory() as opened:
        yield opened


@pytest.fixture(scope="module")
def empty_store() -> Iterator[Store]:
    """Give one store that every example leaves empty."""
    with Store.memory() as opened:
        yield opened


def is_same_json(found: Json, given: Json) -> bool:
    """Return whether the values are equal as JSON, where 1, 1.0 and true differ, unlike in Python.

    In JSON, two adjacent surrogates are the same as their character.
    """
    expected = json.loads(json.dumps(given))
    return bool(found == expected) and json.dumps(found) == json.dumps(expected)


def read_everything(store: Store, session: Session) -> None:
    """Read the session in every way. None of them may fail."""
    store.chains.turns(session.key)
    store.chains.tool_calls(session.key)
    store.load_input_history(session.id)
    store.sessions.matching("a")
    assert store.get_session(session.id).title is not None


# ── the round trip ────────────────────────────────────────────────────────────────────────────────


@given(blocks=blocks | text, role=st.sampled_from(["user", "assistant", "system", "tool"]) | valid_text)
@example(blocks=[{"type": "text", "text": "a\0b\ud800"}], role="user")
@example(blocks=[2**70, -(2**70), 1.5, -0.0, True, None, "", [], {}], role="user")
@example(blocks=[{"type": "tool_use", "id": None, "name": "x", "input": 2**64}], role="assistant")
@example(blocks="\ud83d", role="user")
@example(blocks=["\ud83d\ude00"], role="user")
def test_a_message_is_read_back_unchanged(shared_store: Store, blocks: Json, role: str) -> None:
    session = shared_store.create_session()
    entry = shared_store.append_message(session.id, role, blocks)
    (message,) = shared_store.get_messages(session.id)
    assert (message.id, message.role) == (entry, role)
    assert is_same_json(message.content, [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks)
    read_everything(shared_store, session)


@given(prompt=items | text, output=items, rest=st.dictionaries(text, json_values, max_size=3), as_text=st.booleans())
def test_a_turn_is_read_back_as_input(
    shared_store: Store, prompt: Json, output: Json, rest: Json, as_text: bool
) -> None:
    session = shared_store.create_session()
    response = rest | {"output": output}
    input_items = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else prompt
    try:
        shared_store.save_turn(session.id, prompt, json.dumps(response, ensure_ascii=False) if as_text else response)
    except BadValue:
        # A role is stored exactly or refused.
        assert any(isinstance(item, dict) and has_half_characters(item.get("role")) for item in [*input_items, *output])
        assert shared_store.load_input_history(session.id) == []
        return
    assert is_same_json(shared_store.load_input_history(session.id), [*input_items, *output])
    read_everything(shared_store, session)


def has_half_characters(value: Json) -> bool:
    return bool(set(map(chr, range(0xD800, 0xE000))) & set(str(value)))


@given(texts=st.lists(text, min_size=1, max_size=5), thought=text)
@example(texts=["\ud83d\ude00"], thought="\ud83d\ude00")
def test_a_purged_conversation_leaves_no_word_in_the_index(empty_store: Store, texts: list[str], thought: str) -> None:
    """Deleting from the index needs exactly the text that was inserted."""
    empty_store.create_session("a")
    for words in texts:
        call = {"type": "tool_use", "id": "x", "name": words, "input": {thought: words}}
        result = {"type": "tool_result", "tool_use_id": "x", "content": [words, thought]}
        empty_store.append_message("a", "user", words)
        empty_store.append_message("a", "assistant", [{"type": "thinking", "thinking": thought}, call])
        empty_store.append_message("a", "user", [result])
    assert check_store(empty_store) == []
    empty_store.delete_session("a")
    assert indexed_words(empty_store) == []


def test_purged_objects_with_keys_that_are_not_text_leave_no_word_in_the_index(store: Store) -> None:
    store.create_session("a")
    store.append_message("a", "assistant", [{"type": "tool_use", "name": "x", "input": {None: 1, True: 2, 3: 4}}])
    store.save_turn("a", [{"type": "function_call_output", "output": {None: 1}}], {"output": [{"summary": {True: 2}}]})
    assert indexed_words(store) != []
    store.delete_session("a")
    assert indexed_words(store) == []


def indexed_words(store: Store) -> list[tuple[str, int]]:
    """Return every word in the indexes with its number of occurrences."""
    with closing(sqlite3.connect(store.path)) as connection:
        for table in ("conversation_fts", "tools_fts"):
            connection.execute(f"create virtual table temp.{table}_words using fts5vocab(main, {table}, row)")
        return connection.execute(
            "select term, cnt from conversation_fts_words union all select term, cnt from tools_fts_words"
        ).fetchall()


@given(words=text)
def test_texts_of_a_person_are_stored_or_refused(shared_store: Store, words: str) -> None:
    session = shared_store.create_session()

    def title() -> str:
        shared_store.sessions.set_title(session, words)
        return shared_store.get_session(session.id).own_title

    def summary() -> str:
        shared_store.summaries.set(session, words)
        current = shared_store.summaries.current(session)
        return current.text if current else ""

    def secret() -> str:
        shared_store.secrets.set(session, "KEY", words)
        return shared_store.secrets.get(session, "KEY")

    def tag() -> str:
        shared_store.notes.tag([session], [words])
        return shared_store.notes.tags(session)[0]

    assert value_or_none(title) in (words.strip(), None)
    assert value_or_none(lambda: shared_store.notes.add_note(session, words).text) in (words.strip(), None)
    assert value_or_none(summary) in (words if words.strip() else "", None)
    assert value_or_none(secret) in (words, None)
    assert value_or_none(tag) in (words.strip(), None)


def value_or_none(operation: Callable[[], str]) -> str | None:
    """Return the stored value, or None if it was refused."""
    try:
        return operation()
    except BadValue:
        return None


@given(words=valid_text.filter(str.strip))
def test_words_without_half_characters_are_never_refused(shared_store: Store, words: str) -> None:
    session = shared_store.create_session(title=words, user=words, cwd=words, system_prompt=words)
    again = shared_store.get_session(session.id)
    assert (again.agent_title, again.user, again.cwd, again.system_prompt) == (words,) * 4
    shared_store.sessions.set_title(session, words)
    assert shared_store.notes.add_note(session, words).text == words.strip()
    shared_store.secrets.set(session, "KEY", words)
    assert shared_store.secrets.get(session, "KEY") == words


@given(words=text)
def test_facts_come_back_line_by_line(shared_store: Store, words: str) -> None:
    scope = f"session:{shared_store.create_session().id}"
    try:
        learned = shared_store.facts.learn(words, scope=scope)
    except BadValue:
        assert has_half_characters(words) or not split_lines(words)
        return
    assert [fact.text for fact in learned.facts] == split_lines(words)
    assert set(shared_store.facts.blob(scope).split("\n")) - {""} == set(split_lines(words))


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(store: Store, number: float) -> None:
    store.create_session("a")
    for value in (number, [number], {"deep": [{"er": number}]}):
        with pytest.raises(BadValue):
            store.append_message("a", "user", [{"type": "text", "text": "x", "value": value}])
        with pytest.raises(BadValue):
            store.save_turn("a", "x", {"output": [{"type": "function_call_output", "output": value}]})
        with pytest.raises(BadValue):
            store.save_turn("a", [{"type": "odd", "value": value}], {"output": []})
    assert store.get_messages("a") == []
    assert store.get_session("a").entries == 0


@pytest.mark.parametrize("count", [2**63, 2**70, -(2**63) - 1])
def test_a_count_of_tokens_that_sqlite_cannot_hold_is_refused(store: Store, count: int) -> None:
    session = store.create_session("a")
    with pytest.raises(BadValue):
        store.chains.append(session.key, [NewEntry(role="user", tokens=Tokens(count))])
    with pytest.raises(BadValue):
        store.update_session("a", tokens_input=count)


@pytest.mark.parametrize("count", [2**63, 2**70, -(2**63) - 1])
def test_a_response_with_an_impossible_count_is_stored_and_the_count_is_ignored(store: Store, count: int) -> None:
    session = store.create_session("a")
    store.save_turn("a", "x", {"output": [], "usage": {"input_tokens": 0, "output_tokens": count}})
    assert store.get_session("a").tokens_output == 0
    *_, (_, last) = store.records.iter_session(session.key)
    assert decode(last)["usage"]["output_tokens"] == count


def test_counts_whose_sum_is_too_large_are_refused(store: Store) -> None:
    session = store.create_session("a")
    largest = NewEntry(role="user", text="x", tokens=Tokens(2**63 - 1))
    store.chains.append(session.key, [largest])
    for entries in ([largest], [largest, largest]):
        with pytest.raises(StoreError):
            store.chains.append(session.key, entries)
    assert store.get_session("a").tokens_input == 2**63 - 1
    assert len(store.get_messages("a")) == 1


def test_a_number_with_too_many_digits_is_refused(store: Store) -> None:
    store.create_session("a")
    with pytest.raises(BadValue):
        store.append_message("a", "user", [10**5_000])
    with pytest.raises(BadValue):
        store.save_turn("a", "x", '{"output": [%s]}' % ("9" * 5_000))
    assert store.get_messages("a") == []


@pytest.mark.parametrize("number", [2**63, -(2**70)])
def test_numbers_too_large_for_sqlite_raise_an_error_of_the_store(store: Store, number: int) -> None:
    session = store.create_session("a")
    input_items: list[Callable[[], object]] = [
        lambda: store.list_sessions(number),
        lambda: store.chains.entry(session.key, number),
        lambda: store.journal.undo(number),
        lambda: store.facts.get(number),
        lambda: store.notes.delete_note(number),
    ]
    for call in input_items:
        with pytest.raises(StoreError):
            call()


# ── depth ─────────────────────────────────────────────────────────────────────────────────────────


def nest(levels: int, wrap: Callable[[Json], Json]) -> Json:
    value: Json = "bottom"
    for _ in range(levels):
        value = wrap(value)
    return value


WRAPS: list[Callable[[Json], Json]] = [
    lambda value: [value],
    lambda value: {"text": [value]},
    lambda value: {"a": value},
    lambda value: {"content": [value, "and more"]},
]


def deep_messages(levels: int) -> Iterator[Json]:
    for wrap in WRAPS:
        value = nest(levels, wrap)
        yield {"type": "unheard of", "value": value}
        yield {"type": "tool_use", "id": "x", "name": "x", "input": value}
        yield {"type": "tool_result", "tool_use_id": "x", "content": value}


@pytest.mark.parametrize("levels", [300, 1_000, 5_000, 100_000])
def test_values_that_are_nested_too_deep_are_refused(store: Store, levels: int) -> None:
    store.create_session("a")
    for block in deep_messages(levels):
        with pytest.raises(BadValue, match="nested deeper"):
            store.append_message("a", "user", [block])
        with pytest.raises(BadValue, match="nested deeper"):
            store.save_turn("a", "x", {"output": [{"type": "function_call", "arguments": block}]})
    for as_text in ("[" * levels + "]" * levels, '{"a":' * levels + "1" + "}" * levels):
        with pytest.raises(BadValue):
            store.save_turn("a", "x", f'{{"output": [], "metadata": {as_text}}}')
    assert store.get_messages("a") == []


def test_the_deepest_allowed_values_are_read_at_any_stack_depth(store: Store) -> None:
    session = store.create_session("a")
    deepest = [{"type": "unheard of", "value": nest(MAX_JSON_DEPTH - 3, WRAPS[0])}]
    given = [deepest, *([block] for block in deep_messages(MAX_JSON_DEPTH // 2 - 2))]
    for blocks in given:
        store.append_message("a", "user", blocks)

    def read_at_depth(frames: int) -> list[list[Json]]:
        if frames:
            return read_at_depth(frames - 1)
        read_everything(store, session)
        return [message.content for message in store.get_messages("a")]

    assert read_at_depth(200) == given
    assert store.search.find("bottom")[1] > 0


def test_arguments_that_are_nested_too_deep_stay_a_string(store: Store) -> None:
    store.create_session("a")
    call = {"type": "function_call", "call_id": "x", "name": "x", "arguments": "[" * 100_000 + "]" * 100_000}
    store.save_turn("a", "x", {"output": [call]})
    assert store.load_input_history("a")[1] == call


# ── size ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("megabytes", [5, pytest.param(50, marks=pytest.mark.long)])
def test_a_message_of_many_megabytes(store: Store, megabytes: int) -> None:
    store.create_session("a")
    words = "".join(f"line {n} 字 " + "0123456789abcdef" * 125 + "\n" for n in range(500 * megabytes))
    assert len(words.encode()) > megabytes * 1_000_000
    store.append_message("a", "user", words)
    store.append_message("a", "assistant", "that was long")
    first, second = store.get_messages("a")
    assert first.content == [{"type": "text", "text": words}]
    assert second.content == [{"type": "text", "text": "that was long"}]
    assert store.chains.entry(store.get_session("a").key, 0).text == words
    assert [hit.entry for hit in store.search.find(f'"line {500 * megabytes - 1}"')[0]] == ["a#0"]
    assert len(store.get_session("a").first_prompt) <= 200


# ── ids ───────────────────────────────────────────────────────────────────────────────────────────

ODD_IDS = [
    "../../etc/passwd",
    "a/b\\c",
    "line\nbreak\r\n",
    'it\'s "quoted" `here`',
    "' or 1=1 --",
    "%_*?[a-z]",
    "--json",
    " ",
    "a#1",
    "ünïcödé 上传 🏳️‍🌈",
    "\x1b[2Jescape",
    "\U0010ffff",
    "x" * 10_000,
    "é" * MAX_ID_LENGTH,
]


@pytest.mark.parametrize("name", ODD_IDS, ids=lambda name: repr(name[:20]))
def test_an_unusual_id_is_stored_and_found(store: Store, name: str) -> None:
    other = store.create_session("another")
    session = store.create_session(name, title="odd")
    assert session.id == session.native_id == name
    assert store.get_session(name) == store.sessions.find(name) == session
    assert store.append_message(name, "user", "hello") == f"{name}#0"
    (message,) = store.get_messages(name)
    assert (message.id, message.session_id) == (f"{name}#0", name)
    assert store.search.find("hello")[0][0].session_id == name
    store.delete_session(name)
    assert store.list_sessions(10) == [other]


BAD_IDS = ["", "\0", "a\0b", "\ud800", "half \udcff", "x" * (MAX_ID_LENGTH + 1)]


@pytest.mark.parametrize("name", BAD_IDS, ids=lambda name: repr(name[:20]))
def test_an_invalid_id_is_refused_everywhere(store: Store, name: str) -> None:
    operations: list[Callable[[str], object]] = [
        store.create_session,
        store.ensure_session,
        store.get_session,
        store.update_session,
        store.delete_session,
        store.get_messages,
        store.load_input_history,
        store.sessions.find,
        lambda name: store.append_message(name, "user", "x"),
        lambda name: store.save_turn(name, "x", {"output": []}),
    ]
    for operation in operations:
        with pytest.raises(BadValue):
            operation(name)
    assert store.list_sessions(10) == []


@given(name=text.filter(lambda name: name and "\0" not in name and not has_half_characters(name)))
def test_any_other_id_is_stored(shared_store: Store, name: str) -> None:
    session = shared_store.ensure_session(name)
    assert shared_store.get_session(name).key == shared_store.sessions.find(name).key == session.key
    shared_store.delete_session(name)


@pytest.mark.parametrize("content", [None, 5, {"type": "text", "text": "alone"}, {1, 2}, b"bytes", iter(["x"])])
def test_content_that_is_no_list_is_refused(store: Store, content: Json) -> None:
    store.create_session("a")
    with pytest.raises(BadValue):
        store.append_message("a", "user", content)
    assert store.get_messages("a") == []


# ── queries ───────────────────────────────────────────────────────────────────────────────────────

QUERY_BITS = [
    *("needle", "NEAR(", "AND", "OR", "NOT", "text:", "-", "^", '"', "*", "(", ")", "{", "}", "+", ":", "''", "\\"),
    *("字", "上传", "é", "e\u0301", "ß", "\0", "\ud800", "\u200b", "😀", "\ufdfa", " ", "\n", "a" * 300, "1" * 50),
]


@pytest.fixture(scope="module")
def query_store() -> Iterator[Store]:
    with Store.memory() as opened:
        opened.create_session("a")
        for n, bit in enumerate(QUERY_BITS):
            opened.append_message("a", "user", f"needle {bit} {n} {bit}")
            opened.append_message("a", "assistant", [{"type": "tool_use", "name": "look", "input": {"for": bit}}])
        yield opened


def run_random_queries(store: Store, times: int) -> int:
    rng = random.Random(times)
    found = 0
    for _ in range(times):
        query = "".join(rng.choices(QUERY_BITS, k=rng.randint(0, 12)))
        hits, total = store.search.find(query, limit=3, newest_first=rng.random() < 0.5)
        assert len(hits) == min(total, 3), query
        _, sessions = store.sessions.matching(query)
        assert sessions in (0, 1), query
        found += total > 0
    return found


def test_no_query_fails(query_store: Store) -> None:
    assert run_random_queries(query_store, 1_000) > 100


@pytest.mark.long
def test_no_query_fails_in_a_long_run(query_store: Store) -> None:
    assert run_random_queries(query_store, 100_000) > 10_000


@given(query=text | st.lists(st.sampled_from(QUERY_BITS), max_size=40).map(" ".join))
@example(query="needle " * 5_000)
@example(query='"' + "needle " * 5_000 + '"')
@example(query="n* " * 2_000)
@example(query="x" * 1_000_000)
def test_no_generated_query_fails(query_store: Store, query: str) -> None:
    hits, total = query_store.search.find(query, limit=3)
    assert len(hits) == min(total, 3)
    for hit in hits:
        assert all(0 <= start < end <= len(hit.snippet) for start, end in hit.highlights)
