"""Edits carried back into Pingu's store: title, summary with its coverage, memories, deletion; its program may run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from foreign_databases import AT, PINGU, PINGU_MEMORIES, insert, make, pingu_native, pingu_session, write
from write_back_roundtrip import World, dump, there_and_back

from store.errors import ChangedMeanwhile
from store.sources.kit.write_plan import RowChange
from store.store import Store

EMBEDDING = b"\x00\x00\x80\x3f\xff"


def answer(text: str) -> dict[str, object]:
    return pingu_native({"type": "message", "content": text})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = make(tmp_path / "pingu.db", PINGU + PINGU_MEMORIES, wal=True)
    turns = [(f"question {n}", answer(f"answer {n}")) for n in range(1, 5)]
    pingu_session(path, "other", ("hello", answer("hi")), title="Other")
    pingu_session(path, "s", *turns, summary="They began.", summary_up_to="3")
    memories = {"content_hash": "old", "embedding": EMBEDDING, "created_at": AT, "updated_at": AT}
    insert(path, "memories", id=1, content="Runs Debian", category="core", **memories)
    insert(path, "memories", id=2, session_id="s", content="Asked of disks", **memories)
    insert(path, "memories", id=3, session_id="other", content="Said hello", **memories)
    return path


@pytest.fixture
def world(store: Store, path: Path) -> World:
    return World(store, path)


def test_a_title(world: World) -> None:
    preview = there_and_back(world.titled())
    assert preview.plan.changes == [RowChange("sessions", {"id": "s"}, {"title": None}, {"title": "Mine"})]


def test_a_summary_with_its_coverage(world: World) -> None:
    (third,) = [row["id"] for row in world.rows()["turns"] if row["user_message"] == "question 3"]
    (change,) = there_and_back(world.summed_up("They went on.", up_to_turn=3)).plan.changes
    assert change.before == {"summary": "They began.", "summary_up_to": "3"}
    assert change.after == {"summary": "They went on.", "summary_up_to": str(third)}


def test_a_summary_that_does_not_say_how_far_it_goes_keeps_the_coverage(world: World) -> None:
    (change,) = there_and_back(world.summed_up("They went on.")).plan.changes
    assert change.after == {"summary": "They went on.", "summary_up_to": "3"}


def test_a_summary_of_nothing_yet(world: World) -> None:
    (change,) = there_and_back(world.summed_up("Nothing yet.", up_to_turn=0)).plan.changes
    assert change.after == {"summary": "Nothing yet.", "summary_up_to": "0"}


def test_another_coverage_of_the_same_summary(world: World) -> None:
    (change,) = there_and_back(world.summed_up("They began.", up_to_turn=1)).plan.changes
    assert change.after == {"summary": "They began.", "summary_up_to": "2"}


def test_a_summary_taken_away(world: World) -> None:
    (change,) = there_and_back(world.summed_up("")).plan.changes
    assert change.after == {"summary": None, "summary_up_to": None}


def test_an_older_summary_put_back(world: World) -> None:
    world.summed_up("Mine.")
    world.write()
    write(world.path, "update sessions set summary = 'Theirs, newer.' where id = 's'")
    world.pull()
    first = world.store.summaries.history(world.session)[-1]
    world.store.summaries.put_back(world.session, first.key)
    (change,) = there_and_back(world).plan.changes
    assert (change.before or {})["summary"] == "Theirs, newer."
    assert (change.after or {})["summary"] == "They began."


def test_what_was_carried_back_is_no_newer_summary_of_the_source_s(world: World) -> None:
    world.summed_up("Mine.")
    world.write()
    world.pull()
    assert world.store.summaries.newer_from_source(world.session) is None
    write(world.path, "update sessions set summary = 'Theirs, newer.' where id = 's'")
    world.pull()
    newer = world.store.summaries.newer_from_source(world.session)
    assert newer is not None
    assert newer.text == "Theirs, newer."
    current = world.store.summaries.current(world.session)
    assert current is not None
    assert current.text == "Mine."


def test_a_corrected_memory_loses_the_embedding_of_its_old_words(world: World) -> None:
    world.store.facts.edit(world.fact("Runs Debian"), "Runs Debian 13")
    (change,) = there_and_back(world).plan.changes
    digest = hashlib.sha256(b"Runs Debian 13").hexdigest()
    assert change == RowChange(
        "memories",
        {"id": 1},
        {"content": "Runs Debian", "embedding": EMBEDDING, "content_hash": "old"},
        {"content": "Runs Debian 13", "embedding": None, "content_hash": digest},
    )


def test_a_retired_memory(world: World) -> None:
    world.store.facts.retire(world.fact("Asked of disks"))
    (change,) = there_and_back(world).plan.changes
    assert (change.table, change.key, change.after) == ("memories", {"id": 2}, None)


def test_a_memory_of_another_session_s_own_stays_for_its_own_write_back(world: World) -> None:
    world.store.facts.edit(world.fact("Said hello"), "Said good day")
    assert world.preview().plan.changes == []
    assert [change.key for change in World(world.store, world.path, "other").preview().plan.changes] == [{"id": 3}]


def test_a_deleted_session_goes_with_its_turns_and_memories(world: World) -> None:
    changes = there_and_back(world.deleted()).plan.changes
    assert [change.table for change in changes] == ["memories", "turns", "turns", "turns", "turns", "sessions"]


def test_a_deletion_leaves_the_others_alone(world: World) -> None:
    world.deleted().write()
    left = world.rows()
    assert [row["id"] for row in left["sessions"]] == ["other"]
    assert [row["session_id"] for row in left["turns"]] == ["other"]
    assert sorted(row["id"] for row in left["memories"]) == [1, 3]
    assert world.session.gone


def test_what_hangs_on_a_session_in_a_later_version_is_shown_and_comes_back(store: Store, path: Path) -> None:
    write(path, "create table reactions (turn integer references turns(id) on delete cascade, face text)")
    write(path, "insert into reactions select id, 'smile' from turns where session_id = 's'")
    changes = there_and_back(World(store, path).deleted()).plan.changes
    assert [change.table for change in changes].count("reactions") == 4


def test_all_at_once_is_one_edit(world: World) -> None:
    world.titled().summed_up()
    world.store.facts.retire(world.fact("Runs Debian"))
    world.store.facts.edit(world.fact("Asked of disks"), "Asked of mice")
    assert len(there_and_back(world).plan.changes) == 4


def test_secrets_have_no_place(world: World) -> None:
    world.store.secrets.set(world.session, "token", "hush")
    world.store.secrets.lock()
    preview = there_and_back(world.titled())
    assert preview.plan.unplaced == ["Pingu has no place for secrets; they stay here."]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("update sessions set title = 'Theirs' where id = 's'", "title of sessions was changed there"),
        ("update sessions set summary = 'Theirs' where id = 's'", "newer summary"),
        ("update memories set content = 'Theirs' where id = 1", "memories 1 was changed there"),
        ("update memories set content = 'Theirs' where id = 2", "memories 2 was changed there"),
        ("delete from sessions where id = 's'", "does not have the session 's' any more"),
    ],
)
def test_what_was_changed_there_since_it_was_read_is_refused(world: World, statement: str, words: str) -> None:
    world.titled().summed_up()
    world.store.facts.edit(world.fact("Runs Debian"), "Runs Debian 13")
    world.store.facts.retire(world.fact("Asked of disks"))
    write(world.path, statement)
    before, edits = world.rows(), world.newest_edit()
    with pytest.raises(ChangedMeanwhile, match=words):
        world.write()
    assert world.rows() == before
    assert world.newest_edit() == edits


@pytest.mark.parametrize("change", ["title = 'Theirs'", "summary = 'Theirs'", "summary_up_to = '1'"])
def test_what_is_changed_there_after_it_was_shown_is_refused(world: World, change: str) -> None:
    preview = world.titled().summed_up().preview()
    write(world.path, f"update sessions set {change} where id = 's'")
    before, edits = world.rows(), world.newest_edit()
    with pytest.raises(ChangedMeanwhile, match=r"sessions s in .* was changed meanwhile"):
        world.store.writing_back.write(preview)
    assert world.rows() == before
    assert world.newest_edit() == edits
    assert world.session.agent_title == ""


def test_a_sync_settles_what_was_changed_there(world: World) -> None:
    world.titled()
    write(world.path, "update sessions set title = 'Theirs' where id = 's'")
    world.pull()
    assert there_and_back(world).plan.changes[0].before == {"title": "Theirs"}


def test_who_came_to_say_the_same_there_is_no_conflict(world: World) -> None:
    world.titled()
    world.store.facts.edit(world.fact("Runs Debian"), "Runs Debian 13")
    world.summed_up("In short.")
    write(world.path, "update sessions set title = 'Mine', summary = 'In short.' where id = 's'")
    write(world.path, "update memories set content = 'Runs Debian 13' where id = 1")
    plan = world.preview().plan
    assert (plan.changes, plan.conflicts) == ([], [])


def test_a_memory_that_is_not_there_any_more_is_said(world: World) -> None:
    fact = world.fact("Runs Debian")
    world.store.facts.edit(fact, "Runs Debian 13")
    world.titled()
    write(world.path, "delete from memories where id = 1")
    assert there_and_back(world).plan.unplaced == [
        "memories 1 is not there any more; your correction of it stays here."
    ]
    world.write()
    world.pull()
    assert world.store.facts.get(fact).retired_at is None


def test_a_memory_that_is_gone_need_not_be_retired(world: World) -> None:
    world.store.facts.retire(world.fact("Runs Debian"))
    write(world.path, "delete from memories where id = 1")
    plan = world.preview().plan
    assert (plan.changes, plan.unplaced, plan.conflicts) == ([], [], [])


def test_a_fact_that_comes_back_stands_again(world: World) -> None:
    fact = world.fact("Asked of disks")
    world.deleted().write()
    world.pull()
    assert world.store.facts.get(fact).retired_at is not None
    world.store.journal.undo()
    world.pull()
    assert world.store.facts.get(fact).retired_at is None
    assert world.store.facts.get(fact).text == "Asked of disks"


def test_the_first_layout_has_no_memories(store: Store, tmp_path: Path) -> None:
    path = make(tmp_path / "first.db", PINGU, wal=True)
    pingu_session(path, "s", ("hello", answer("hi")))
    there_and_back(World(store, path).titled().summed_up(up_to_turn=1))


def test_a_title_that_is_no_text_is_compared_as_it_was_read(store: Store, tmp_path: Path) -> None:
    path = make(tmp_path / "pingu.db", PINGU)
    pingu_session(path, "s", ("hello", answer("hi")), title=b"in \xff bytes")
    (change,) = there_and_back(World(store, path).titled()).plan.changes
    assert change.before == {"title": b"in \xff bytes"}


def test_numbers_that_json_cannot_spell_come_back(store: Store, path: Path) -> None:
    write(path, "alter table turns add column cost real")
    write(path, "update turns set cost = 9e999")
    there_and_back(World(store, path).deleted())
    assert {row["cost"] for row in dump(path)["turns"]} == {float("inf")}
