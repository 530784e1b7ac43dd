"""These tests check that words, phrases and prefixes are found, also in scripts without spaces, and how hits look."""

from __future__ import annotations

import pytest

from store.model.entry import NewEntry, Text, Thinking, ToolCall, ToolResult
from store.search.hits import make_snippet
from store.search.query import Query, Term
from store.store import Store
from store.text.unicode import separate_cjk

TEXTS = {
    "english": "The retry ran after the file was closed.",
    "accents": "Übermäßig viele Café-Besuche à Genève",
    "japanese": "昨日のデータベース移行は失敗しました",
    "chinese": "数据库迁移失败了",
    "korean": "데이터베이스 마이그레이션이 실패했습니다",
    "arabic": "فشل ترحيل قاعدة البيانات",
    "russian": "Миграция базы данных не удалась",
    "hindi": "डेटाबेस माइग्रेशन विफल रहा",
}


@pytest.fixture
def archive(store: Store) -> Store:
    for name, text in TEXTS.items():
        store.create_session(name)
        store.append_message(name, "user", text)
    return store


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("retry closed", "english"),
        ('"file was closed"', "english"),
        ("clos*", "english"),
        ("RETRY", "english"),
        ("uberma*", "accents"),
        ("cafe geneve", "accents"),
        ("データベース", "japanese"),
        ("移行", "japanese"),
        ("数据库", "chinese"),
        ("迁移失败", "chinese"),
        ("마이그레이션", "korean"),
        ("البيانات", "arabic"),
        ("базы", "russian"),
        ("विफल", "hindi"),
    ],
)
def test_a_query_finds_the_session(archive: Store, query: str, found: str) -> None:
    hits, total = archive.search.find(query)
    assert ([hit.session_id for hit in hits], total) == ([found], 1)


@pytest.mark.parametrize("query", ["was retry", '"closed file"', "clo", "数失", '"retry closed"'])
def test_words_need_all_phrases_need_order_and_prefixes_need_a_star(archive: Store, query: str) -> None:
    expected = 1 if query == "was retry" else 0
    assert archive.search.find(query)[1] == expected


@pytest.mark.parametrize(
    "query",
    ["", "   ", '"', '""', "*", "AND", "OR NOT", "NEAR(", "a AND", "text:x", "^x", "{a b}", "-", "\0", "'; --", "(((("],
)
def test_any_text_is_a_query(archive: Store, query: str) -> None:
    archive.search.find(query)


def test_a_hit_names_the_field_it_was_found_in(store: Store) -> None:
    session = store.create_session("s")
    store.chains.append(
        session.key,
        [
            NewEntry(role="user", parts=(Text("look for the narwhal"),)),
            NewEntry(
                role="assistant",
                parts=(
                    Thinking("a narwhal is a whale"),
                    ToolCall("1", "grep", {"pattern": "narwhal", "path": "sea/"}),
                ),
            ),
            NewEntry(role="tool", parts=(ToolResult("1", "sea/whales.txt:7: narwhal"),)),
        ],
    )
    hits, total = store.search.find("narwhal")
    assert total == 4
    assert {(hit.entry, hit.field) for hit in hits} == {
        ("s#0", "text"),
        ("s#1", "thinking"),
        ("s#1", "tool_call"),
        ("s#2", "tool_result"),
    }


def test_a_call_is_found_by_each_of_its_arguments(store: Store) -> None:
    session = store.create_session("s")
    call = ToolCall("1", "Write", {"file_path": "src/narwhal.py", "content": "print(1)"})
    store.chains.append(session.key, [NewEntry(role="assistant", parts=(call,))])
    for query in ("narwhal", "print", "Write"):
        assert store.search.find(query)[1] == 1


def test_ranked_or_newest_first(store: Store) -> None:
    store.create_session("s")
    store.append_message("s", "user", "whale whale whale")
    store.append_message("s", "user", "a long sentence that only mentions the whale in passing among other animals")
    assert [hit.entry for hit in store.search.find("whale")[0]] == ["s#0", "s#1"]
    assert [hit.entry for hit in store.search.find("whale", newest_first=True)[0]] == ["s#1", "s#0"]
    assert store.search.find("whale", limit=1)[1] == 2


def test_a_snippet_shows_the_hit_and_says_where_it_is(store: Store) -> None:
    store.create_session("s")
    store.append_message("s", "user", "before " * 100 + "the Narwhal swims" + " after" * 100)
    (hit,) = store.search.find("narwhal")[0]
    assert [hit.snippet[start:end] for start, end in hit.highlights] == ["Narwhal"]
    assert hit.snippet.startswith("…")
    assert hit.snippet.endswith("…")


@pytest.mark.parametrize(
    ("text", "typed", "highlighted"),
    [
        ("le résumé est prêt", "resume", "résumé"),
        ("le resume est pret", "RÉSUMÉ", "resume"),
        ("nai\u0308ve, in two pieces", "naive", "nai\u0308ve"),
        ("Übermäßig viele", "uberma*", "Übermä"),
        ("昨日のデータベース移行", "移行", "移行"),
    ],
)
def test_a_hit_is_highlighted_with_any_accents(store: Store, text: str, typed: str, highlighted: str) -> None:
    store.create_session("s")
    store.append_message("s", "user", "before " * 100 + text + " after" * 100)
    (hit,) = store.search.find(typed)[0]
    assert [hit.snippet[start:end] for start, end in hit.highlights] == [highlighted]


def test_snippet_without_a_literal_match_shows_the_beginning() -> None:
    assert make_snippet("Café au lait", 0, Query.parse("cafe").pattern()) == ("Café au lait", ())


def test_cjk_characters_are_separated_and_other_text_is_unchanged() -> None:
    assert separate_cjk("plain ascii") == "plain ascii"
    assert separate_cjk("v2の話").split() == ["v2", "の", "話"]
    assert separate_cjk("naïve") == "naïve"


def test_parse() -> None:
    assert Query.parse('one "two three" fo* "ba r"*').terms == (
        Term("one"),
        Term("two three"),
        Term("fo", prefix=True),
        Term("ba r", prefix=True),
    )


def test_rebuilding_the_index_finds_the_same(archive: Store) -> None:
    before = {query: archive.search.find(query) for query in ("retry", "数据库", "базы")}
    assert archive.search.reindex() == len(TEXTS)
    assert {query: archive.search.find(query) for query in before} == before


def test_a_purged_session_is_not_found_and_the_index_is_intact(archive: Store) -> None:
    archive.delete_session("chinese")
    assert archive.search.find("数据库") == ([], 0)
    for table in ("conversation_fts", "tools_fts"):
        archive.connection.execute(f"insert into {table} ({table}) values ('integrity-check')")
