"""These tests write edits back to Kiso's stores: description, summary, facts (as rows or lines), deletion."""

from __future__ import annotations

from pathlib import Path

import pytest
from kiso_database import DOCUMENT_SCHEMA, FIRST_SCHEMA, LATEST_SCHEMA, KisoStore
from write_back_roundtrip import WriteBackCase, check_round_trip

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


def add_facts(owner: KisoStore) -> KisoStore:
    owner.add_session("dev", description="Theirs", summary="They began.")
    owner.add_session("other")
    message = owner.add_message("go", processed=0)
    owner.add_message("gone", "assistant", processed=1)
    owner.add_message("hello", session="other", processed=1)
    plan = owner.add_plan(message, "goal")
    owner.add_task(plan, "exec", "list", output="a")
    owner.insert_row("facts", id=1, content="Uses Go", source="curator", session="dev")
    owner.insert_row("facts", id=2, content="Has no CI", source="curator", session="other")
    return owner


@pytest.fixture
def owner(tmp_path: Path) -> KisoStore:
    kiso = add_facts(KisoStore(tmp_path / "kiso.db", LATEST_SCHEMA + TAGS_AND_INDEX))
    for fact in (1, 2):
        for tag in ("tools", "habits"):
            kiso.insert_row("fact_tags", fact_id=fact, tag=tag)
    return kiso


@pytest.fixture
def case(store: Store, owner: KisoStore) -> WriteBackCase:
    return WriteBackCase(store, owner.path, "dev")


@pytest.fixture
def document(store: Store, tmp_path: Path) -> WriteBackCase:
    owner = KisoStore(tmp_path / "document.db", DOCUMENT_SCHEMA)
    owner.add_session("dev", summary="They began.")
    owner.add_message("hello")
    owner.insert_row("meta", key="facts", value=LINES)
    owner.insert_row("published", id="p1", session="dev", filename="a.txt", path="/tmp/a.txt")
    return WriteBackCase(store, owner.path, "dev")


def test_a_description_and_a_summary(case: WriteBackCase) -> None:
    title, summary = check_round_trip(case.set_title().set_summary("They went on.")).plan.changes
    key = {"session": "dev"}
    assert title == RowChange("sessions", key, {"description": "Theirs"}, {"description": "Mine"})
    assert summary == RowChange("sessions", key, {"summary": "They began."}, {"summary": "They went on."})


def test_a_removed_summary(case: WriteBackCase) -> None:
    (change,) = check_round_trip(case.set_summary("")).plan.changes
    assert change.after == {"summary": ""}


def test_the_first_layout(store: Store, tmp_path: Path) -> None:
    case = WriteBackCase(store, add_facts(KisoStore(tmp_path / "first.db", FIRST_SCHEMA)).path, "dev")
    store.facts.edit(case.fact_id("Uses Go"), "Uses Go 1.26")
    store.facts.retire(case.fact_id("Has no CI"))
    assert len(check_round_trip(case.set_title().set_summary()).plan.changes) == 4
    check_round_trip(case.delete_session())


# ── facts that are rows ───────────────────────────────────────────────────────────────────────────


def test_an_edited_fact(case: WriteBackCase) -> None:
    case.store.facts.edit(case.fact_id("Uses Go"), "Uses Go 1.26")
    assert check_round_trip(case).plan.changes == [
        RowChange("facts", {"id": 1}, {"content": "Uses Go"}, {"content": "Uses Go 1.26"})
    ]


def test_a_retired_fact_is_deleted_with_its_tags_and_restored_with_them(case: WriteBackCase) -> None:
    case.store.facts.retire(case.fact_id("Has no CI"))
    changes = check_round_trip(case).plan.changes
    assert [(change.table, change.after) for change in changes] == [
        ("fact_tags", None),
        ("fact_tags", None),
        ("facts", None),
    ]


def test_a_fact_that_was_changed_there_keeps_its_tags(case: WriteBackCase, owner: KisoStore) -> None:
    case.store.facts.retire(case.fact_id("Has no CI"))
    owner.execute("update facts set content = 'Has a CI' where id = 2")
    plan = case.preview().plan
    assert plan.changes == []
    assert plan.conflicts == ["facts 2 was changed in the agent's store. Sync, then write back again."]


# ── facts that are lines ──────────────────────────────────────────────────────────────────────────


def write_back_lines(case: WriteBackCase) -> str:
    """Check the write-back of a document and return its new text."""
    (change,) = check_round_trip(case).plan.changes
    assert (change.table, change.key, change.before) == ("meta", {"key": "facts"}, {"value": LINES})
    return str((change.after or {})["value"])


def test_lines_of_other_keys_are_written_to_their_rows(store: Store, tmp_path: Path) -> None:
    owner = KisoStore(tmp_path / "document.db", DOCUMENT_SCHEMA)
    owner.add_session("dev")
    owner.add_message("hello")
    for key, value in {"facts": "Uses Go", "timezone": "Europe/Rome", "a:b/%": "Uses Go\ntwo\n"}.items():
        owner.insert_row("meta", key=key, value=value)
    case = WriteBackCase(store, owner.path, "dev")
    store.facts.edit(case.fact_id("Europe/Rome"), "Europe/Paris")
    store.facts.retire(case.fact_id("two"))
    assert {change.key["key"]: change.after for change in check_round_trip(case).plan.changes} == {
        "timezone": {"value": "Europe/Paris"},
        "a:b/%": {"value": "Uses Go\n"},
    }


def test_an_edited_line_leaves_the_others_unchanged(document: WriteBackCase) -> None:
    document.store.facts.edit(document.fact_id("Deploys on Fridays"), "Deploys on Mondays")
    assert write_back_lines(document) == "  Deploys on Mondays  \r\nUses Go\n\nHas no CI\nUses Go"


def test_a_retired_line(document: WriteBackCase) -> None:
    document.store.facts.retire(document.fact_id("Uses Go"))
    assert write_back_lines(document) == "  Deploys on Fridays  \r\n\nHas no CI"


def test_all_lines_retired(document: WriteBackCase) -> None:
    for text in ("Deploys on Fridays", "Uses Go", "Has no CI"):
        document.store.facts.retire(document.fact_id(text))
    assert write_back_lines(document) == ""


def test_lines_that_swap_places(document: WriteBackCase) -> None:
    go, ci = document.fact_id("Uses Go"), document.fact_id("Has no CI")
    document.store.facts.edit(go, "Has no CI")
    document.store.facts.edit(ci, "Uses Go")
    assert write_back_lines(document) == "  Deploys on Fridays  \r\nHas no CI\n\nUses Go\nHas no CI"


def test_an_edit_to_the_text_of_another_line_merges_the_lines(document: WriteBackCase) -> None:
    fact = document.fact_id("Uses Go")
    document.store.facts.edit(fact, "Has no CI")
    assert write_back_lines(document) == "  Deploys on Fridays  \r\n\nHas no CI"
    document.write()
    assert document.store.facts.get(fact).retired_at is not None
    assert document.store.facts.get(document.fact_id("Deploys on Fridays")).retired_at is None


def test_two_edits_to_the_same_text(document: WriteBackCase) -> None:
    for text in ("Uses Go", "Has no CI"):
        document.store.facts.edit(document.fact_id(text), "Uses Go and has no CI")
    assert write_back_lines(document) == "  Deploys on Fridays  \r\nUses Go and has no CI\n\nUses Go and has no CI"


def test_a_missing_line_is_reported(document: WriteBackCase) -> None:
    document.store.facts.edit(document.fact_id("Uses Go"), "Uses Rust")
    KisoStore.execute(open_owner(document), "update meta set value = 'Has no CI'")
    plan = document.preview().plan
    assert (plan.changes, plan.conflicts) == ([], [])
    assert plan.unsupported == ["Kiso does not have 'Uses Go' any more. Your correction stays in Backscroll."]


def open_owner(case: WriteBackCase) -> KisoStore:
    owner = KisoStore.__new__(KisoStore)
    owner.path = case.path
    return owner


def test_a_line_that_is_no_utf_8_stays_byte_for_byte(store: Store, tmp_path: Path) -> None:
    owner = KisoStore(tmp_path / "document.db", DOCUMENT_SCHEMA)
    owner.add_session("dev")
    owner.execute("insert into meta (key, value) values ('facts', cast(? as text))", [b"caf\xe9\nUses Go"])
    case = WriteBackCase(store, owner.path, "dev")
    store.facts.edit(case.fact_id("Uses Go"), "Uses Go 1.26")
    (change,) = check_round_trip(case).plan.changes
    assert change.after == {"value": "caf\udce9\nUses Go 1.26"}


def test_the_documented_layout_has_no_place_for_a_title(document: WriteBackCase) -> None:
    assert check_round_trip(document.set_title().set_summary()).plan.unsupported == [
        "This layout of Kiso cannot store a title. Your title stays in Backscroll."
    ]


# ── deletion ──────────────────────────────────────────────────────────────────────────────────────


def test_a_deletion_includes_rows_without_a_foreign_key(case: WriteBackCase) -> None:
    changes = check_round_trip(case.delete_session()).plan.changes
    assert [change.table for change in changes] == [
        *("fact_tags", "fact_tags", "tasks", "plans", "facts", "messages", "messages", "sessions")
    ]


def test_a_deletion_of_the_documented_layout(document: WriteBackCase) -> None:
    changes = check_round_trip(document.delete_session()).plan.changes
    assert [change.table for change in changes] == ["published", "messages", "sessions"]


def test_whether_a_message_was_processed_is_never_touched(case: WriteBackCase) -> None:
    def processed() -> list[tuple[str, int]]:
        return sorted((row["content"], row["processed"]) for row in case.foreign_rows()["messages"])

    before = processed()
    assert before == [("go", 0), ("gone", 1), ("hello", 1)]
    case.set_title().set_summary()
    case.store.facts.retire(case.fact_id("Uses Go"))
    case.write()
    assert processed() == before
    case.delete_session().write()
    assert processed() == [("hello", 1)]
    case.store.journal.undo()
    assert processed() == before


def test_a_message_after_the_preview_of_a_deletion_stops_it(case: WriteBackCase, owner: KisoStore) -> None:
    preview = case.delete_session().preview()
    owner.add_message("wait!")
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="has new entries since the preview"):
        case.store.write_back.write(preview)
    assert case.foreign_rows() == before


def test_scheduled_jobs_stay_and_are_reported(case: WriteBackCase, owner: KisoStore) -> None:
    owner.insert_row("cron_jobs", session="dev", prompt="look again")
    assert check_round_trip(case.delete_session()).plan.unsupported == [
        "Kiso's scheduled jobs of this session stay and would start it again; cancel them in Kiso."
    ]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("update sessions set description = 'New'", "description of sessions was changed in the agent's store"),
        ("update sessions set summary = 'New'", "summary of sessions was changed in the agent's store"),
        ("update facts set content = 'New' where id = 1", "facts 1 was changed in the agent's store"),
        ("update facts set content = 'New' where id = 2", "facts 2 was changed in the agent's store"),
        ("delete from sessions where session = 'dev'", "does not have the session 'dev' any more"),
    ],
)
def test_a_foreign_change_since_the_sync_is_refused(
    case: WriteBackCase, owner: KisoStore, statement: str, message: str
) -> None:
    case.set_title().set_summary()
    case.store.facts.edit(case.fact_id("Uses Go"), "Uses Go 1.26")
    case.store.facts.retire(case.fact_id("Has no CI"))
    owner.execute(statement)
    before, edits = case.foreign_rows(), case.newest_edit()
    with pytest.raises(ChangedMeanwhile, match=message):
        case.write()
    assert case.foreign_rows() == before
    assert case.newest_edit() == edits
