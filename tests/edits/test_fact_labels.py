"""These tests check the labels of facts: the conversation and turn they come from, or the program."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from browser_driver import fill_store
from kiso_database import LATEST_SCHEMA, KisoStore
from write_back_roundtrip import WriteBackCase

from store.edits.labels import find_fact_origins, find_titles
from store.model.knowledge import FactOrigin
from store.store import Store


def test_a_fact_has_the_session_and_turn_it_was_learnt_in(store: Store) -> None:
    fill_store(store)
    session = store.sessions.get("claude:e0741090")
    (learnt,) = store.facts.learn("The retry closes the file.", session=session, entry_seq=3).facts
    (typed,) = store.facts.learn("By hand.").facts
    origins = find_fact_origins(store, [learnt, typed])
    origin = origins[learnt.id]
    assert (origin.session_id, origin.title, origin.turn) == (session.id, "Fix the flaky upload test", 1)
    assert origin.quote.startswith("The retry ran after the file was closed.")
    assert origins[typed.id] == FactOrigin()


def test_titles_are_those_of_the_list(store: Store) -> None:
    fill_store(store)
    store.create_session("bare")
    titles = find_titles(store, ["claude:e0741090", "codex:0199aa", "bare", "nobody"])
    assert titles == {
        "claude:e0741090": "Fix the flaky upload test",
        "codex:0199aa": "Rename the config keys to snake_case",
        "bare": "bare",
    }


def test_a_foreign_fact_has_its_program_and_is_written_back_alone(store: Store, tmp_path: Path) -> None:
    owner = KisoStore(tmp_path / "kiso.db", LATEST_SCHEMA)
    owner.add_session("dev", description="Theirs")
    owner.add_message("go", processed=0)
    owner.insert_row("facts", id=1, content="Uses Go", source="curator", session="dev")
    world = WriteBackCase(store, owner.path, "dev").set_title("Mine")
    fact = store.facts.edit(world.fact_id("Uses Go"), "Uses Rust")
    assert find_fact_origins(store, [fact])[fact.id].program == "Kiso"
    preview = store.write_back.preview_facts(fact)
    (change,) = preview.plan.changes
    assert (change.table, change.before, change.after) == ("facts", {"content": "Uses Go"}, {"content": "Uses Rust"})
    store.write_back.write(preview)
    with closing(sqlite3.connect(owner.path)) as theirs:
        select = "select facts.content, description from facts join sessions using (session)"
        assert theirs.execute(select).fetchall() == [("Uses Rust", "Theirs")]
    assert store.facts.get(fact.id).foreign_text == "Uses Rust"
