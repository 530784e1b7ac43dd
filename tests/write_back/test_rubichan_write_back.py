"""Edits carried back into Rubichan's store: title, the summary that resume loads, memories, deletion."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from foreign_databases import (
    RUBICHAN_LATEST_SCHEMA,
    RUBICHAN_SCHEMA,
    add_rubichan_session,
    execute_sql,
    insert_row,
    make_database,
)
from write_back_roundtrip import WriteBackCase, check_round_trip, dump_tables

from store.errors import ChangedMeanwhile
from store.sources.kit.write_plan import RowChange
from store.store import Store

CUT = "ю" * 3 + "\udcd1"
"""Cut in the middle of a character, as Rubichan cuts its titles."""
BIG = 2**80
KEPT = f'{{"role":"assistant","content":[{{"type":"text","text":"two \\u003c"}}],"n":{BIG}}}'


def told(text: str) -> str:
    return json.dumps({"role": "user", "content": [{"type": "text", "text": text}], "metadata": {"by": "rubichan"}})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = make_database(tmp_path / "rubichan.db", RUBICHAN_LATEST_SCHEMA)
    talk = [("user", "one"), ("assistant", "two <"), ("user", "three"), ("assistant", "four")]
    add_rubichan_session(path, "s", *talk, title="Theirs", working_dir="/srv")
    add_rubichan_session(path, "other", ("user", "hello"), title="Other")
    blob = {"tool_name": "shell", "content": "x" * 5000, "byte_size": 5000}
    insert_row(path, "tool_result_blobs", id="b1", session_id="s", **blob)
    insert_row(path, "memories", id=1, working_dir="/srv", tag="go", content="Uses Go")
    insert_row(path, "memories", id=2, working_dir="/srv", tag="ci", content="Has no CI")
    return path


@pytest.fixture
def world(store: Store, path: Path) -> WriteBackCase:
    return WriteBackCase(store, path)


def snapshot(path: Path, messages: str) -> None:
    insert_row(path, "session_snapshots", session_id="s", messages=messages, token_count=321)


def test_a_title(world: WriteBackCase) -> None:
    preview = check_round_trip(world.set_title())
    assert preview.plan.changes == [RowChange("sessions", {"id": "s"}, {"title": "Theirs"}, {"title": "Mine"})]


def test_a_title_that_is_no_utf_8_comes_back_byte_for_byte(store: Store, path: Path) -> None:
    execute_sql(
        path, "update sessions set title = cast(? as text) where id = 's'", [(CUT.encode("utf-8", "surrogateescape"),)]
    )
    (change,) = check_round_trip(WriteBackCase(store, path).set_title()).plan.changes
    assert change.before == {"title": CUT}
    assert [row["title"] for row in dump_tables(path)["sessions"] if row["id"] == "s"] == [CUT]


def test_a_deleted_session_comes_back_with_its_title_byte_for_byte(store: Store, path: Path) -> None:
    execute_sql(
        path, "update sessions set title = cast(? as text) where id = 's'", [(CUT.encode("utf-8", "surrogateescape"),)]
    )
    check_round_trip(WriteBackCase(store, path).delete_session())
    assert [row["title"] for row in dump_tables(path)["sessions"] if row["id"] == "s"] == [CUT]


def test_such_a_title_that_was_changed_by_one_byte_is_refused(store: Store, path: Path) -> None:
    cut = CUT.encode("utf-8", "surrogateescape")
    execute_sql(path, "update sessions set title = cast(? as text) where id = 's'", [(cut,)])
    preview = WriteBackCase(store, path).set_title().preview()
    execute_sql(path, "update sessions set title = cast(? as text) where id = 's'", [(cut[:-1] + b"\xd2",)])
    before = dump_tables(path)
    with pytest.raises(ChangedMeanwhile):
        store.write_back.write(preview)
    assert dump_tables(path) == before


# ── the snapshot ──────────────────────────────────────────────────────────────────────────────────


def test_a_summary_stands_at_the_head_of_the_snapshot_and_the_rest_stays_as_it_is_spelled(
    store: Store, path: Path
) -> None:
    snapshot(path, f"[ {told('They began.')} ,\n  {KEPT} ]")
    (change,) = check_round_trip(WriteBackCase(store, path).set_summary("They went on.")).plan.changes
    assert (change.table, change.key) == ("session_snapshots", {"session_id": "s"})
    after = (change.after or {})["messages"]
    assert after.endswith(f",{KEPT} ]")
    head, kept = json.loads(after)
    assert head == json.loads(told("They went on."))
    assert kept["n"] == BIG


def test_a_snapshot_of_nothing_but_a_summary(store: Store, path: Path) -> None:
    snapshot(path, f"[{told('They began.')}]")
    (change,) = check_round_trip(WriteBackCase(store, path).set_summary("They went on.")).plan.changes
    assert json.loads((change.after or {})["messages"]) == [json.loads(told("They went on."))]


def test_a_snapshot_without_a_summary_gets_one_before_what_was_kept(store: Store, path: Path) -> None:
    snapshot(path, f"[{KEPT}]")
    (change,) = check_round_trip(WriteBackCase(store, path).set_summary("They began.")).plan.changes
    head, kept = json.loads((change.after or {})["messages"])
    assert head == {"role": "user", "content": [{"type": "text", "text": "They began."}]}
    assert kept["n"] == BIG


def test_without_its_summary_a_session_goes_on_from_the_whole_conversation(store: Store, path: Path) -> None:
    snapshot(path, f"[{told('They began.')},{KEPT}]")
    (change,) = check_round_trip(WriteBackCase(store, path).set_summary("")).plan.changes
    assert (change.table, change.after) == ("session_snapshots", None)


def test_a_summary_without_a_snapshot_has_no_place(world: WriteBackCase) -> None:
    preview = check_round_trip(world.set_title().set_summary())
    assert [change.table for change in preview.plan.changes] == ["sessions"]
    assert preview.plan.unsupported == [
        "Rubichan keeps a summary only in a snapshot, and this session has none; yours stays here."
    ]


def test_a_snapshot_that_cannot_be_read_is_left_alone(store: Store, path: Path) -> None:
    world = WriteBackCase(store, path)
    snapshot(path, "[{")
    plan = world.set_summary().set_title().preview().plan
    assert plan.unsupported == ["Rubichan's snapshot of this session cannot be read; your summary stays here."]
    assert [change.table for change in plan.changes] == ["sessions"]


# ── memories and deletion ─────────────────────────────────────────────────────────────────────────


def test_memories_corrected_and_retired(world: WriteBackCase) -> None:
    world.store.facts.edit(world.fact_id("Uses Go"), "Uses Go 1.26")
    world.store.facts.retire(world.fact_id("Has no CI"))
    corrected, retired = check_round_trip(world).plan.changes
    assert corrected == RowChange("memories", {"id": 1}, {"content": "Uses Go"}, {"content": "Uses Go 1.26"})
    assert (retired.table, retired.key, retired.after) == ("memories", {"id": 2}, None)


def test_a_deleted_session_goes_with_all_that_hangs_on_it(store: Store, path: Path) -> None:
    snapshot(path, f"[{KEPT}]")
    world = WriteBackCase(store, path).delete_session()
    tables = [change.table for change in check_round_trip(world).plan.changes]
    assert sorted(tables[:-1]) == ["messages"] * 4 + ["session_snapshots", "tool_result_blobs"]
    assert tables[-1] == "sessions"


def test_a_session_with_forks_is_not_deleted(store: Store, path: Path) -> None:
    add_rubichan_session(path, "fork", ("user", "one"), forked_from="s")
    world = WriteBackCase(store, path).delete_session()
    before = world.foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="has forks in Rubichan"):
        world.write()
    assert world.foreign_rows() == before
    assert not world.session.gone
    check_round_trip(WriteBackCase(store, path, "fork").delete_session())


def test_what_came_to_hang_on_it_after_it_was_shown_is_never_lost(world: WriteBackCase) -> None:
    preview = world.delete_session().preview()
    insert_row(world.path, "messages", session_id="s", seq=4, role="user", content="[]")
    before = world.foreign_rows()
    with pytest.raises(ChangedMeanwhile):
        world.store.write_back.write(preview)
    assert world.foreign_rows() == before


def test_secrets_have_no_place(world: WriteBackCase) -> None:
    world.store.secrets.set(world.session, "token", "hush")
    world.store.secrets.lock()
    assert check_round_trip(world.set_title()).plan.unsupported == [
        "Rubichan has no place for secrets; they stay here."
    ]


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("update sessions set title = 'New' where id = 's'", "title of sessions was changed there"),
        ("update session_snapshots set messages = '[]'", "newer snapshot"),
        ("update memories set content = 'New' where id = 1", "memories 1 was changed there"),
        ("update memories set content = 'New' where id = 2", "memories 2 was changed there"),
        ("delete from sessions where id = 's'", "does not have the session 's' any more"),
    ],
)
def test_what_was_changed_there_since_it_was_read_is_refused(
    store: Store, path: Path, statement: str, words: str
) -> None:
    snapshot(path, f"[{told('They began.')}]")
    world = WriteBackCase(store, path).set_title().set_summary()
    store.facts.edit(world.fact_id("Uses Go"), "Uses Go 1.26")
    store.facts.retire(world.fact_id("Has no CI"))
    execute_sql(path, statement)
    before, edits = world.foreign_rows(), world.newest_edit()
    with pytest.raises(ChangedMeanwhile, match=words):
        world.write()
    assert world.foreign_rows() == before
    assert world.newest_edit() == edits


def test_the_first_layout_has_only_titles(store: Store, tmp_path: Path) -> None:
    path = make_database(tmp_path / "first.db", RUBICHAN_SCHEMA)
    add_rubichan_session(path, "s", ("user", "one"))
    world = WriteBackCase(store, path).set_title().set_summary()
    assert len(check_round_trip(world).plan.unsupported) == 1
    check_round_trip(world.delete_session())
