"""Tests that the demo has everything that the browser can show, and that nothing in it is damaged or real."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from vendor_api_rules import check_rules, check_types

from store.demo import fill_store
from store.doctor import check_store
from store.errors import KeyFileUnsafe, Refused
from store.model.entry import Attachment, Entry, Opaque, Text, Thinking, ToolResult, readable_text
from store.model.session import Session
from store.paths import key_file
from store.rebuild import rebuild_session
from store.store import Store
from store.text.sanitize import sanitize
from store.text.validate import utc_timestamp


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """Fill a store once for all tests, which only read it. It has its own home, because no test's home exists yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("XDG_CONFIG_HOME", raising=False)
        with Store.open(tmp_path_factory.mktemp("demo") / "store.db") as opened:
            fill_store(opened)
            yield opened


def list_all_sessions(store: Store) -> list[Session]:
    return store.list_sessions(1_000) + store.sessions.trash()


def iter_entries(store: Store) -> Iterator[Entry]:
    for session in list_all_sessions(store):
        yield from store.chains.entries(session.key)


def list_parts(store: Store, kind: type) -> list[object]:
    return [part for entry in iter_entries(store) for part in entry.parts if isinstance(part, kind)]


# ── integrity ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_doctor_finds_nothing(store: Store) -> None:
    fill_store(store)
    assert check_store(store) == []


def test_a_store_with_a_session_is_left_alone(store: Store) -> None:
    store.create_session("mine")
    with pytest.raises(Refused, match="not empty"):
        fill_store(store)
    assert [session.id for session in list_all_sessions(store)] == ["mine"]


def test_a_store_with_nothing_but_trash_is_left_alone(store: Store) -> None:
    store.sessions.delete([store.create_session("mine")])
    with pytest.raises(Refused, match="not empty"):
        fill_store(store)


def test_a_store_with_nothing_but_a_fact_is_left_alone(store: Store) -> None:
    store.facts.retire(store.learn("I am here first").facts[0].id)
    with pytest.raises(Refused, match="not empty"):
        fill_store(store)


def test_it_is_filled_wholly_or_not_at_all(store: Store) -> None:
    """Secrets are stored late, and a key file that others can read is refused."""
    key_file().parent.mkdir(parents=True)
    key_file().write_bytes(b"k" * 32)
    key_file().chmod(0o644)
    with pytest.raises(KeyFileUnsafe):
        fill_store(store)
    assert list_all_sessions(store) == []
    key_file().unlink()
    fill_store(store)
    assert list_all_sessions(store)


def test_it_is_the_same_each_time_except_for_the_times(demo: Store, store: Store) -> None:
    fill_store(store)

    def describe(filled: Store) -> list[tuple[object, ...]]:
        return [
            (session.id, session.title, session.turns, entry.seq, entry.text, entry.parts, entry.tokens)
            for session in sorted(list_all_sessions(filled))
            for entry in filled.chains.entries(session.key)
        ]

    assert describe(demo) == describe(store)


def test_times_are_in_the_last_year_and_never_in_the_future(demo: Store) -> None:
    long_ago = (datetime.now(UTC) - timedelta(days=366)).isoformat()
    times = sorted(entry.created_at for entry in iter_entries(demo))
    assert long_ago < times[0]
    assert times[-1] < utc_timestamp()
    assert all(session.created_at <= session.updated_at < utc_timestamp() for session in list_all_sessions(demo))
    assert len({time[:10] for time in times}) > 10


def test_secrets_are_sealed_and_obviously_not_real(store: Store) -> None:
    fill_store(store)
    names = store.secrets.names()
    assert len(names) >= 3
    for name in names:
        value = store.get_secret(name.session_id, name.key)
        assert value.startswith("not-a-real-")
        for file in store.path.parent.glob("store.db*"):
            assert value.encode() not in file.read_bytes()


# ── variety ──────────────────────────────────────────────────────────────────────────────────────────


def test_many_agents_and_sessions(demo: Store) -> None:
    sessions = demo.list_sessions(1_000)
    assert len(sessions) >= 25
    seeds = {"pingu", "wuhu", "adk", "rubichan", "kiso"}
    assert seeds | {"claude", "codex", "library"} <= {session.source for session in sessions}
    assert all(session.title for session in sessions)
    assert any(session.environment_name for session in sessions)
    assert any(session.webhook for session in sessions)


def test_delegates_forks_and_sidechains_have_their_parents(demo: Store) -> None:
    children = [session for session in list_all_sessions(demo) if session.parent_id]
    assert {child.relation for child in children} == {"delegate", "fork", "sidechain"}
    assert demo.rows("select count(*) from sessions where relation = 'superseded'") == [(1,)]
    for child in children:
        assert child in demo.sessions.children(demo.get_session(str(child.parent_id)).id)
    (fork,) = [child for child in children if child.relation == "fork"]
    assert any(entry.inherited for entry in demo.chains.entries(fork.key))


def test_one_session_is_long_enough_to_scroll(demo: Store) -> None:
    assert max(session.turns for session in list_all_sessions(demo)) >= 300


def test_tools_fail_run_together_and_one_is_still_running(demo: Store) -> None:
    calls = [call for session in list_all_sessions(demo) for call in demo.chains.tool_calls(session.key)]
    assert {call.status for call in calls} == {"ok", "error", "pending"}
    entries = [call.entry for call in calls]
    assert max(entries.count(entry) for entry in entries) >= 3
    assert any("@@" in readable_text(call.result) for call in calls)
    assert any(readable_text(call.result).count("\n") > 2_000 for call in calls)


def test_every_kind_of_part_and_entry_is_there(demo: Store) -> None:
    assert {entry.kind for entry in iter_entries(demo)} >= {"header", "message", "compaction", "event", "unknown"}
    for kind in (Text, Thinking, ToolResult, Attachment, Opaque):
        assert list_parts(demo, kind), kind


def test_the_records_of_codex_are_items_of_the_responses_api(demo: Store) -> None:
    sessions = [session for session in demo.sessions.newest(1000) if session.source == "codex"]
    assert sessions
    kinds = {"message", "reasoning"}
    kinds |= {f"{call}{end}" for call in ("function_call", "custom_tool_call") for end in ("", "_output")}
    for session in sessions:
        result = rebuild_session(demo, session, "responses")
        check_types("responses", result.body)
        check_rules("responses", result.body)
        found = [str(item["type"]) for item in result.body["input"]]
        assert kinds.issuperset(found)
        assert len([kind for kind in found if kind.endswith("_call")]) == session.tool_calls


def test_a_person_has_been_at_work(demo: Store) -> None:
    sessions = list_all_sessions(demo)
    assert demo.sessions.trash()
    assert any(session.pinned for session in sessions)
    assert any(session.archived for session in sessions)
    assert any(session.own_title for session in sessions)
    assert demo.notes.all_tags()
    assert any(note.entry for session in sessions for note in demo.notes.notes(session))
    summaries = [summary for session in sessions if (summary := demo.summaries.current(session))]
    assert {summary.origin for summary in summaries} == {"person", "source", "library"}
    halfway = [s for s in summaries if s.up_to_turn and s.up_to_turn < demo.get_session(s.session_id).turns]
    assert halfway


def test_facts_have_scopes_origins_and_a_history(demo: Store) -> None:
    known = demo.facts.current(None)
    assert {fact.scope.partition(":")[0] for fact in known} >= {"global", "user", "source"}
    assert any(fact.entry for fact in known)
    assert any(len(demo.facts.history(fact.id)) > 1 for fact in known)
    assert len(demo.facts.current(None, retired=True)) > len(known)
    assert "FastAPI" in demo.meta.get("facts")


@pytest.mark.parametrize("word", ["文字化け", "限流", "مقلوبة", "गोलाई", "Ужас", "tuvieron", "defusedxml"])
def test_every_script_can_be_searched(demo: Store, word: str) -> None:
    sessions, total = demo.sessions.matching(word)
    assert sessions
    assert total == len(sessions)


def test_the_hostile_page_is_kept_as_it_was_and_harmless_once_cleaned(demo: Store) -> None:
    hostile = [
        readable_text(part.output)
        for entry in iter_entries(demo)
        for part in entry.parts
        if isinstance(part, ToolResult) and "\x1b]52" in readable_text(part.output)
    ]
    (page,) = hostile
    assert all(sign in page for sign in ("\x1b[2J", "\u202e", "\x9b", "\0", "[@click=app.quit]"))
    assert not any(sign in sanitize(page) for sign in ("\x1b", "\x07", "\u202e", "\x9b", "\0", "\u200b"))


def test_joined_emoji_are_not_split(demo: Store) -> None:
    assert any("👩‍👩‍👧‍👦" in entry.text for entry in iter_entries(demo))


def test_no_file_of_it_is_too_long() -> None:
    import store.demo

    folder = Path(store.demo.__file__).parent
    lengths = {path.name: len(path.read_text("utf-8").splitlines()) for path in folder.glob("*.toml")}
    assert lengths
    assert {name: length for name, length in lengths.items() if length > 500} == {}
