"""Edits carried back into Kiso's stores: description, summary, facts as rows or as lines, deletion as Kiso does it."""

from __future__ import annotations

from pathlib import Path

import pytest
from kiso_database import DOCUMENT, FIRST, HEAD, KisoStore
from write_back_roundtrip import World, there_and_back

from store.errors import ChangedMeanwhile
from store.sources.kit.write_plan import RowChange
from store.store import Store

TAGS_AND_INDEX = """
    create trigger facts_fts_update after update on facts begin
        insert into kiso_facts_fts(kiso_facts_fts, rowid, content) values ('delete', old.id, old.content);
        insert into kiso_facts_fts(rowid, content) values (new.id, new.content);
    end;
    create trigger facts_fts_delete after delete on facts begin
        insert into kiso_facts_fts(kiso_facts_fts, rowid, content) values ('delete', old.id, old.content);
    end;
    create table fact_tags (fact_id integer not null, tag text not null, primary key (fact_id, tag));
    create trigger fact_tags_cleanup after delete on facts begin
        delete from fact_tags where fact_id = old.id;
    end;
    create table cron_jobs (id integer primary key autoincrement, session text not null, prompt text not null);
"""
LINES = "  Deploys on Fridays  \r\nUses Go\n\nHas no CI\nUses Go"


def with_facts(owner: KisoStore) -> KisoStore:
    owner.session("dev", description="Theirs", summary="They began.")
    owner.session("other")
    asked = owner.message("go", processed=0)
    owner.message("gone", "assistant", processed=1)
    owner.message("hello", session="other", processed=1)
    plan = owner.plan(asked, "goal")
    owner.task(plan, "exec", "list", output="a")
    owner.add("facts", id=1, content="Uses Go", source="curator", session="dev")
    owner.add("facts", id=2, content="Has no CI", source="curator", session="other")
    return owner


@pytest.fixture
def owner(tmp_path: Path) -> KisoStore:
    made = with_facts(KisoStore(tmp_path / "kiso.db", HEAD + TAGS_AND_INDEX))
    for fact in (1, 2):
        for tag in ("tools", "habits"):
            made.add("fact_tags", fact_id=fact, tag=tag)
    return made


@pytest.fixture
def world(store: Store, owner: KisoStore) -> World:
    return World(store, owner.path, "dev")


@pytest.fixture
def document(store: Store, tmp_path: Path) -> World:
    owner = KisoStore(tmp_path / "document.db", DOCUMENT)
    owner.session("dev", summary="They began.")
    owner.message("hello")
    owner.add("meta", key="facts", value=LINES)
    owner.add("published", id="p1", session="dev", filename="a.txt", path="/tmp/a.txt")
    return World(store, owner.path, "dev")


def test_a_description_and_a_summary(world: World) -> None:
    title, summary = there_and_back(world.titled().summed_up("They went on.")).plan.changes
    key = {"session": "dev"}
    assert title == RowChange("sessions", key, {"description": "Theirs"}, {"description": "Mine"})
    assert summary == RowChange("sessions", key, {"summary": "They began."}, {"summary": "They went on."})


def test_a_summary_taken_away(world: World) -> None:
    (change,) = there_and_back(world.summed_up("")).plan.changes
    assert change.after == {"summary": ""}


def test_the_first_layout(store: Store, tmp_path: Path) -> None:
    world = World(store, with_facts(KisoStore(tmp_path / "first.db", FIRST)).path, "dev")
    store.facts.edit(world.fact("Uses Go"), "Uses Go 1.26")
    store.facts.retire(world.fact("Has no CI"))
    assert len(there_and_back(world.titled().summed_up()).plan.changes) == 4
    there_and_back(world.deleted())


# ── facts that are rows ───────────────────────────────────────────────────────────────────────────


def test_a_fact_corrected(world: World) -> None:
    world.store.facts.edit(world.fact("Uses Go"), "Uses Go 1.26")
    assert there_and_back(world).plan.changes == [
        RowChange("facts", {"id": 1}, {"content": "Uses Go"}, {"content": "Uses Go 1.26"})
    ]


def test_a_fact_retired_goes_with_its_tags_and_comes_back_with_them(world: World) -> None:
    world.store.facts.retire(world.fact("Has no CI"))
    changes = there_and_back(world).plan.changes
    assert [(change.table, change.after) for change in changes] == [
        ("fact_tags", None),
        ("fact_tags", None),
        ("facts", None),
    ]


def test_a_fact_that_was_changed_there_keeps_its_tags(world: World, owner: KisoStore) -> None:
    world.store.facts.retire(world.fact("Has no CI"))
    owner.run("update facts set content = 'Has a CI' where id = 2")
    plan = world.preview().plan
    assert plan.changes == []
    assert plan.conflicts == ["facts 2 was changed there since it was read; sync first."]


# ── facts that are lines ──────────────────────────────────────────────────────────────────────────


def lines(world: World) -> str:
    (change,) = there_and_back(world).plan.changes
    assert (change.table, change.key, change.before) == ("meta", {"key": "facts"}, {"value": LINES})
    return str((change.after or {})["value"])


def test_a_line_corrected_leaves_the_others_as_they_are_spelled(document: World) -> None:
    document.store.facts.edit(document.fact("Deploys on Fridays"), "Deploys on Mondays")
    assert lines(document) == "  Deploys on Mondays  \r\nUses Go\n\nHas no CI\nUses Go"


def test_a_line_retired(document: World) -> None:
    document.store.facts.retire(document.fact("Uses Go"))
    assert lines(document) == "  Deploys on Fridays  \r\n\nHas no CI"


def test_every_line_retired(document: World) -> None:
    for said in ("Deploys on Fridays", "Uses Go", "Has no CI"):
        document.store.facts.retire(document.fact(said))
    assert lines(document) == ""


def test_lines_that_change_places(document: World) -> None:
    go, ci = document.fact("Uses Go"), document.fact("Has no CI")
    document.store.facts.edit(go, "Has no CI")
    document.store.facts.edit(ci, "Uses Go")
    assert lines(document) == "  Deploys on Fridays  \r\nHas no CI\n\nUses Go\nHas no CI"


def test_a_correction_that_another_line_says_already_is_said_once(document: World) -> None:
    fact = document.fact("Uses Go")
    document.store.facts.edit(fact, "Has no CI")
    assert lines(document) == "  Deploys on Fridays  \r\n\nHas no CI"
    document.write()
    assert document.store.facts.get(fact).retired_at is not None
    assert document.store.facts.get(document.fact("Deploys on Fridays")).retired_at is None


def test_two_corrections_to_the_same_words(document: World) -> None:
    for said in ("Uses Go", "Has no CI"):
        document.store.facts.edit(document.fact(said), "Uses Go and has no CI")
    assert lines(document) == "  Deploys on Fridays  \r\nUses Go and has no CI\n\nUses Go and has no CI"


def test_a_line_that_is_not_there_any_more_is_said(document: World) -> None:
    document.store.facts.edit(document.fact("Uses Go"), "Uses Rust")
    KisoStore.run(owner_of(document), "update meta set value = 'Has no CI'")
    plan = document.preview().plan
    assert (plan.changes, plan.conflicts) == ([], [])
    assert plan.unplaced == ["Kiso does not say 'Uses Go' any more; your correction of it stays here."]


def owner_of(world: World) -> KisoStore:
    owner = KisoStore.__new__(KisoStore)
    owner.path = world.path
    return owner


def test_a_line_that_is_no_utf_8_stays_byte_for_byte(store: Store, tmp_path: Path) -> None:
    owner = KisoStore(tmp_path / "document.db", DOCUMENT)
    owner.session("dev")
    owner.run("insert into meta (key, value) values ('facts', cast(? as text))", [b"caf\xe9\nUses Go"])
    world = World(store, owner.path, "dev")
    store.facts.edit(world.fact("Uses Go"), "Uses Go 1.26")
    (change,) = there_and_back(world).plan.changes
    assert change.after == {"value": "caf\udce9\nUses Go 1.26"}


def test_the_documented_layout_has_no_place_for_a_title(document: World) -> None:
    assert there_and_back(document.titled().summed_up()).plan.unplaced == [
        "This layout of Kiso has no place for a title; yours stays here."
    ]


# ── deletion ──────────────────────────────────────────────────────────────────────────────────────


def test_a_deletion_takes_what_no_foreign_key_takes(world: World) -> None:
    changes = there_and_back(world.deleted()).plan.changes
    assert [change.table for change in changes] == [
        *("fact_tags", "fact_tags", "tasks", "plans", "facts", "messages", "messages", "sessions")
    ]


def test_a_deletion_of_the_documented_layout(document: World) -> None:
    changes = there_and_back(document.deleted()).plan.changes
    assert [change.table for change in changes] == ["published", "messages", "sessions"]


def test_whether_a_message_was_processed_is_never_touched(world: World) -> None:
    def processed() -> list[tuple[str, int]]:
        return sorted((row["content"], row["processed"]) for row in world.rows()["messages"])

    before = processed()
    assert before == [("go", 0), ("gone", 1), ("hello", 1)]
    world.titled().summed_up()
    world.store.facts.retire(world.fact("Uses Go"))
    world.write()
    assert processed() == before
    world.deleted().write()
    assert processed() == [("hello", 1)]
    world.store.journal.undo()
    assert processed() == before


def test_what_was_said_after_the_deletion_was_shown_is_no_orphan(world: World, owner: KisoStore) -> None:
    preview = world.deleted().preview()
    owner.message("wait!")
    before = world.rows()
    with pytest.raises(ChangedMeanwhile, match="More was said there meanwhile"):
        world.store.writing_back.write(preview)
    assert world.rows() == before


def test_scheduled_jobs_stay_and_that_is_said(world: World, owner: KisoStore) -> None:
    owner.add("cron_jobs", session="dev", prompt="look again")
    assert there_and_back(world.deleted()).plan.unplaced == [
        "Kiso's scheduled jobs of this session stay, and would begin it anew; cancel them there."
    ]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("update sessions set description = 'New'", "description of sessions was changed there"),
        ("update sessions set summary = 'New'", "summary of sessions was changed there"),
        ("update facts set content = 'New' where id = 1", "facts 1 was changed there"),
        ("update facts set content = 'New' where id = 2", "facts 2 was changed there"),
        ("delete from sessions where session = 'dev'", "does not have the session 'dev' any more"),
    ],
)
def test_what_was_changed_there_since_it_was_read_is_refused(
    world: World, owner: KisoStore, statement: str, words: str
) -> None:
    world.titled().summed_up()
    world.store.facts.edit(world.fact("Uses Go"), "Uses Go 1.26")
    world.store.facts.retire(world.fact("Has no CI"))
    owner.run(statement)
    before, edits = world.rows(), world.newest_edit()
    with pytest.raises(ChangedMeanwhile, match=words):
        world.write()
    assert world.rows() == before
    assert world.newest_edit() == edits
