"""These tests check facts: learning, editing, origins, history, scopes and purging."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from facts_sample import edit_kinds, global_fact_texts, redo
from sample_conversations import insert_foreign_fact

from store.edits.facts import MAX_FACT_CHARS, user_scope
from store.errors import BadValue, ChangedMeanwhile, NotFound, Refused
from store.model.session import GLOBAL_SCOPE, Session
from store.store import Store

# ── learning ──────────────────────────────────────────────────────────────────────────────────────


def test_each_line_that_is_not_blank_is_a_fact(store: Store) -> None:
    learned = store.facts.learn("  Uses SQLite. \n\n \t\r\nTeam: marco, anna\u2028Tabs\n")
    assert [fact.text for fact in learned.facts] == ["Uses SQLite.", "Team: marco, anna", "Tabs"]
    assert (learned.fact_count, learned.over_limit) == (3, False)
    assert store.facts.blob() == "Uses SQLite.\nTeam: marco, anna\nTabs"


def test_a_fact_has_its_origin(store: Store, session: Session) -> None:
    (fact,) = store.facts.learn("Lives in Ghent.", session=session, entry_seq=0, category=" person ").facts
    assert (fact.session_id, fact.entry, fact.category, fact.scope) == ("s", "s#0", "person", GLOBAL_SCOPE)
    (plain,) = store.facts.learn("Likes tea.", session=session).facts
    assert (plain.session_id, plain.entry) == ("s", None)
    (nowhere,) = store.facts.learn("Rain is wet.").facts
    assert (nowhere.session_id, nowhere.entry, nowhere.category) == (None, None, "")


def test_a_foreign_fact_keeps_its_place_and_original_text(store: Store) -> None:
    fact = store.facts.edit(insert_foreign_fact(store, "Uses FastAPI"), "Uses FastAPI 1.0")
    assert (fact.foreign_place, fact.foreign_text, fact.text) == ("facts/7", "Uses FastAPI", "Uses FastAPI 1.0")


def test_a_known_fact_is_not_learnt_twice(store: Store) -> None:
    store.facts.learn("a\nb\na")
    learned = store.facts.learn(" b \nc")
    assert [fact.text for fact in learned.facts] == ["c"]
    assert global_fact_texts(store) == ["a", "b", "c"]
    assert store.facts.learn("c").facts == ()
    assert len(edit_kinds(store)) == 2


def test_a_fact_that_was_retired_or_has_another_scope_can_be_learnt(store: Store) -> None:
    (fact,) = store.facts.learn("a").facts
    store.facts.learn("a", scope="app:x")
    store.facts.retire(fact.id)
    assert len(store.facts.learn("a").facts) == 1


def test_learning_is_one_edit_that_can_be_undone_and_redone(store: Store, session: Session) -> None:
    learned = store.facts.learn("a\nb", session=session)
    edit = store.journal.undo()
    assert (edit.kind, edit.session_ids) == ("learn", ("s",))
    assert store.facts.current(None, retired=True) == []
    redo(store, edit.id)
    assert tuple(store.facts.current()) == learned.facts


def test_a_missing_entry_is_refused(store: Store, session: Session) -> None:
    with pytest.raises(NotFound, match="No such entry: 9"):
        store.facts.learn("a", session=session, entry_seq=9)
    with pytest.raises(BadValue, match="session"):
        store.facts.learn("a", entry_seq=0)
    assert store.facts.current() == []


# ── editing ───────────────────────────────────────────────────────────────────────────────────────


def test_editing_keeps_id_origin_and_category(store: Store, session: Session) -> None:
    (fact,) = store.facts.learn("Lives in Gent", session=session, entry_seq=0, category="person").facts
    edited = store.facts.edit(fact.id, "Lives in Ghent")
    assert (edited.id, edited.text, edited.entry, edited.category) == (fact.id, "Lives in Ghent", "s#0", "person")
    assert edited.updated_at > fact.updated_at
    assert edited.created_at == fact.created_at
    assert store.facts.edit(fact.id, "Lives in Ghent", category="place").category == "place"


def test_editing_can_be_undone_and_redone(store: Store) -> None:
    (fact,) = store.facts.learn("a").facts
    edited = store.facts.edit(fact.id, "b", category="c")
    edit = store.journal.undo()
    assert store.facts.get(fact.id) == fact
    redo(store, edit.id)
    assert store.facts.get(fact.id) == edited


def test_an_edit_that_changes_nothing_writes_nothing(store: Store) -> None:
    (fact,) = store.facts.learn("a").facts
    assert store.facts.edit(fact.id, " a ") == fact
    assert edit_kinds(store) == ["learn"]


def test_a_fact_that_changed_meanwhile_is_not_overwritten(store: Store) -> None:
    (fact,) = store.facts.learn("a").facts
    store.facts.edit(fact.id, "b", seen="a")
    with pytest.raises(ChangedMeanwhile) as conflict:
        store.facts.edit(fact.id, "c", seen="a")
    assert conflict.value.current == "b"
    with pytest.raises(ChangedMeanwhile):
        store.facts.retire(fact.id, seen="a")
    assert global_fact_texts(store) == ["b"]


def test_line_breaks_become_spaces_in_one_fact(store: Store) -> None:
    (fact,) = store.facts.learn("a").facts
    assert store.facts.edit(fact.id, " one \n\n  two\r\nthree\u2028four").text == "one two three four"


def test_retiring_can_be_undone_and_redone(store: Store) -> None:
    (fact, other) = store.facts.learn("a\nb").facts
    retired = store.facts.retire(fact.id)
    assert retired.retired_at is not None
    assert store.facts.current() == [other]
    assert store.facts.current(retired=True) == [retired, other]
    edit = store.journal.undo()
    assert store.facts.current() == [fact, other]
    redo(store, edit.id)
    assert store.facts.current() == [other]


def test_a_retired_fact_cannot_be_changed(store: Store) -> None:
    first, second = store.facts.learn("a\nb").facts
    store.facts.retire(first.id)
    changes: list[Callable[[], object]] = [
        lambda: store.facts.edit(first.id, "b"),
        lambda: store.facts.retire(first.id),
        lambda: store.facts.merge([first.id, second.id], "ab"),
    ]
    for change in changes:
        with pytest.raises(Refused, match="Fact 1 is retired"):
            change()


def test_merging_keeps_the_oldest_and_is_one_undo(store: Store, session: Session) -> None:
    first, second, third = store.facts.learn("a\nb\nc", session=session, entry_seq=0).facts
    merged = store.facts.merge([third.id, first.id, third.id], "a, c")
    assert (merged.id, merged.text, merged.entry) == (first.id, "a, c", "s#0")
    assert global_fact_texts(store) == ["a, c", "b"]
    edit = store.journal.undo()
    assert store.facts.current() == [first, second, third]
    redo(store, edit.id)
    assert global_fact_texts(store) == ["a, c", "b"]


def test_merging_keeps_an_own_fact(store: Store) -> None:
    foreign_id = insert_foreign_fact(store, "theirs")
    (own,) = store.facts.learn("ours").facts
    assert store.facts.merge([foreign_id, own.id], "both").id == own.id
    assert global_fact_texts(store) == ["both"]


def test_merging_needs_two_facts_of_one_scope(store: Store) -> None:
    (shared,) = store.facts.learn("a").facts
    (private,) = store.facts.learn("b", scope="user:x/anna").facts
    with pytest.raises(BadValue, match="two facts"):
        store.facts.merge([shared.id, shared.id], "a")
    with pytest.raises(Refused, match="scopes"):
        store.facts.merge([shared.id, private.id], "a, b")
    assert global_fact_texts(store) == ["a"]


def test_the_history_of_a_fact(store: Store) -> None:
    first, second = store.facts.learn("a\nb").facts
    store.facts.edit(first.id, "A")
    store.facts.edit(second.id, "B")
    store.facts.retire(first.id)
    store.journal.undo()
    assert [edit.kind for edit in store.facts.history(first.id)] == ["learn", "edit fact", "retire fact", "undo"]
    changes = [change for edit in store.facts.history(second.id) for change in edit.changes]
    assert [change.after["text"] for change in changes if change.key == 2 and change.after] == ["b", "B"]


def test_the_history_stays_after_learning_was_undone(store: Store) -> None:
    store.facts.learn("a")
    store.journal.undo()
    assert [edit.kind for edit in store.facts.history(1)] == ["learn", "undo"]


@pytest.mark.parametrize("number", [0, 1, -5, 2**70])
def test_a_missing_fact(store: Store, number: int) -> None:
    for call in (
        lambda: store.facts.get(number),
        lambda: store.facts.edit(number, "a"),
        lambda: store.facts.retire(number),
        lambda: store.facts.history(number),
        lambda: store.facts.merge([number, 2], "a"),
    ):
        with pytest.raises((NotFound, BadValue)):
            call()


# ── bad values ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", ["", " \n\t", "half \ud800", "x" * (MAX_FACT_CHARS + 1), 7])
def test_invalid_texts_are_refused(store: Store, text: str) -> None:
    store.facts.learn("a\nb")
    for call in (
        lambda: store.facts.learn(text),
        lambda: store.facts.edit(1, text),
        lambda: store.facts.merge([1, 2], text),
    ):
        with pytest.raises(BadValue):
            call()
    assert global_fact_texts(store) == ["a", "b"]


def test_the_longest_fact_is_kept(store: Store) -> None:
    (fact,) = store.facts.learn("é" * MAX_FACT_CHARS).facts
    assert store.facts.get(fact.id).text == "é" * MAX_FACT_CHARS


@pytest.mark.parametrize("text", ["a\x00b", "\x00", "\x1b[31mred", "日本 🙂", "'; drop table facts --", "\ufeffx"])
def test_unusual_characters_are_kept_and_survive_an_undo(store: Store, text: str) -> None:
    (fact,) = store.facts.learn(text).facts
    assert store.facts.get(fact.id).text == text
    store.facts.retire(fact.id)
    store.journal.undo()
    assert store.facts.blob() == text


@pytest.mark.parametrize("category", ["half \ud800", 7])
def test_a_bad_category_is_refused(store: Store, category: str) -> None:
    with pytest.raises(BadValue, match="category"):
        store.facts.learn("a", category=category)


# ── scopes ────────────────────────────────────────────────────────────────────────────────────────


def test_two_users_of_one_app_never_see_each_others_facts(store: Store) -> None:
    store.facts.learn("everybody's")
    store.facts.learn("the app's", scope="app:bot")
    store.facts.learn("anna's", scope="user:bot/anna")
    store.facts.learn("marco's", scope="user:bot/marco")

    def visible(app: str, user: str) -> list[str]:
        return [fact.text for fact in store.facts.visible_to(app=app, user=user)]

    assert visible("bot", "anna") == ["everybody's", "the app's", "anna's"]
    assert visible("bot", "marco") == ["everybody's", "the app's", "marco's"]
    assert visible("bot", "ann") == visible("bot", "Anna") == visible("bot", "") == ["everybody's", "the app's"]
    assert visible("other", "anna") == visible("", "anna") == visible("", "") == ["everybody's"]
    assert store.facts.blob() == store.meta.get("facts") == "everybody's"
    assert store.facts.blob("user:bot/anna") == "anna's"


def test_facts_of_a_scope_are_visible_only_there(store: Store, session: Session) -> None:
    store.create_session("s2")
    for scope in ("source:kiso", "app:kiso", "user:/kiso", "session:s", "session:s2", GLOBAL_SCOPE):
        store.facts.learn(f"of {scope}", scope=scope)
    visible = {fact.scope for fact in store.facts.visible_to(source="kiso", session="s")}
    assert visible == {GLOBAL_SCOPE, "source:kiso", "session:s"}
    assert {fact.scope for fact in store.facts.visible_to(user="kiso")} == {GLOBAL_SCOPE, "user:/kiso"}
    assert len(store.facts.current(None)) == 6
    assert store.facts.current([]) == []
    assert [fact.scope for fact in store.facts.current("app:kiso")] == ["app:kiso"]


def test_a_slash_in_a_name_does_not_confuse_two_users(store: Store) -> None:
    store.facts.learn("secret", scope=user_scope("a", "b/c"))
    assert store.facts.visible_to(app="a/b", user="c") == []
    assert store.facts.visible_to(app="a%2Fb", user="c") == []
    assert len(store.facts.visible_to(app="a", user="b/c")) == 1
    store.facts.learn("other", scope=user_scope("a/b", "c"))
    assert [fact.text for fact in store.facts.visible_to(app="a/b", user="c")] == ["other"]


def test_percent_signs_and_quotes_in_a_scope_are_literal(store: Store) -> None:
    store.facts.learn("secret", scope="user:bot/anna")
    assert store.facts.visible_to(app="bot", user="%") == []
    assert store.facts.visible_to(app="bot", user="' or 1=1 --") == []
    assert store.facts.visible_to(app="*", user="*") == []


def test_a_consolidation_changes_only_its_scope(store: Store) -> None:
    store.facts.learn("a\nb", scope="user:bot/anna")
    store.facts.learn("a\nb", scope="user:bot/marco")
    store.facts.learn("c", scope="user:bot/anna", max_lines=1, consolidate=lambda lines: "all")
    assert store.facts.blob("user:bot/anna") == "all"
    assert store.facts.blob("user:bot/marco") == "a\nb"


@pytest.mark.parametrize(
    "scope", ["", "world", "Global", " global", "app:", "user:anna", "user:bot/", "global:x", "app:\x00", "app:\ud800"]
)
def test_an_invalid_scope_is_refused(store: Store, scope: str) -> None:
    for call in (
        lambda: store.facts.learn("a", scope=scope),
        lambda: store.facts.current([scope]),
        lambda: store.facts.blob(scope),
        lambda: store.facts.consolidate("a", scope),
    ):
        with pytest.raises(BadValue):
            call()


def test_the_scope_of_a_missing_session_is_refused(store: Store) -> None:
    with pytest.raises(NotFound):
        store.facts.learn("a", scope="session:nobody")


# ── purge ─────────────────────────────────────────────────────────────────────────────────────────


def test_facts_outlive_the_session_they_were_learnt_in(store: Store, session: Session) -> None:
    (fact,) = store.facts.learn("Lives in Gent", session=session, entry_seq=0).facts
    store.facts.edit(fact.id, "Lives in Ghent")
    store.sessions.purge([session])
    remaining = store.facts.get(fact.id)
    assert (remaining.text, remaining.session_id, remaining.entry) == ("Lives in Ghent", None, None)
    assert [edit.kind for edit in store.facts.history(fact.id)] == ["learn", "edit fact"]
    store.journal.undo()
    store.journal.undo()
    assert store.facts.current() == []


def test_an_undone_fact_cannot_be_restored_after_a_purge(store: Store, session: Session) -> None:
    store.facts.learn("private words", session=session)
    undo = store.journal.get(store.journal.undo().id).undone_by
    store.sessions.purge([session])
    with pytest.raises(Refused, match="purged"):
        store.journal.undo(undo)
    assert store.row("select count(*) from edits where before || after like '%private words%'") == (0,)


def test_facts_of_a_sessions_scope_are_purged_with_it(store: Store, session: Session) -> None:
    store.facts.learn("private words", scope="session:s")
    store.facts.edit(1, "private words, reworded")
    store.facts.consolidate("private words again", "session:s")
    store.facts.learn("shared", session=session)
    store.sessions.purge([session])
    assert [(fact.text, fact.session_id) for fact in store.facts.current(None, retired=True)] == [("shared", None)]
    assert store.row("select count(*) from edits where before || after like '%private words%'") == (0,)


def test_a_purge_keeps_another_sessions_facts_in_a_shared_edit(store: Store, session: Session) -> None:
    other = store.create_session("other")
    # Facts 1 and 2 and sessions 1 and 2 have the same numbers, which must not be confused.
    store.facts.learn("a", session=other)
    store.facts.learn("b", session=session)
    store.facts.merge([1, 2], "a, b")
    assert store.journal.list_edits()[0].session_ids == ("s", "other")
    store.sessions.purge([session])
    store.journal.undo()
    assert [(fact.text, fact.session_id) for fact in store.facts.current()] == [("a", "other"), ("b", None)]


# ── several facts ─────────────────────────────────────────────────────────────────────────────────


def test_scopes_are_listed_with_the_number_of_their_facts(store: Store) -> None:
    assert store.facts.scopes() == [("global", 0)]
    store.facts.learn("a\nb", scope="app:shop")
    (retired,) = store.facts.learn("c").facts
    store.facts.retire(retired.id)
    assert store.facts.scopes() == [("global", 0), ("app:shop", 2)]


def test_several_are_retired_or_categorised_in_one_edit(store: Store) -> None:
    first, second = store.facts.learn("a\nb").facts
    store.facts.categorise([first.id, second.id], "letters", seen={first.id: "", second.id: ""})
    store.facts.retire_all([first.id, second.id], seen={first.id: "a", second.id: "b"})
    assert store.facts.current() == []
    store.journal.undo()
    assert [fact.category for fact in store.facts.current()] == ["letters", "letters"]
    store.journal.undo()
    assert [fact.category for fact in store.facts.current()] == ["", ""]


def test_facts_that_changed_meanwhile_are_not_edited(store: Store) -> None:
    first, second = store.facts.learn("a\nb").facts
    seen = {first.id: "a", second.id: "b"}
    store.facts.edit(second.id, "c", category="theirs")
    for edit in (
        lambda: store.facts.retire_all([first.id, second.id], seen=seen),
        lambda: store.facts.merge([first.id, second.id], "both", seen=seen),
    ):
        with pytest.raises(ChangedMeanwhile) as conflict:
            edit()
        assert conflict.value.current == "c"
    with pytest.raises(ChangedMeanwhile) as conflict:
        store.facts.categorise([first.id, second.id], "mine", seen={second.id: ""})
    assert conflict.value.current == "theirs"
    assert [fact.text for fact in store.facts.current()] == ["a", "c"]


def test_a_retired_fact_can_be_restored_unless_another_has_its_text(store: Store) -> None:
    (first,) = store.facts.learn("a").facts
    store.facts.retire(first.id)
    store.facts.restore(first.id)
    assert store.facts.blob() == "a"
    store.facts.retire(first.id)
    store.facts.learn("a")
    with pytest.raises(Refused):
        store.facts.restore(first.id)
