"""These tests write edits back to Rubichan's store: title, the summary in its snapshot, memories, deletion."""

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

CUT_TITLE = "ю" * 3 + "\udcd1"
"""A title that is cut in the middle of a character, as Rubichan does."""
BIG = 2**80
KEPT_MESSAGE = f'{{"role":"assistant","content":[{{"type":"text","text":"two \\u003c"}}],"n":{BIG}}}'


def encode_message(text: str) -> str:
    return json.dumps({"role": "user", "content": [{"type": "text", "text": text}], "metadata": {"by": "rubichan"}})


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = make_database(tmp_path / "rubichan.db", RUBICHAN_LATEST_SCHEMA)
    messages = [("user", "one"), ("assistant", "two <"), ("user", "three"), ("assistant", "four")]
    add_rubichan_session(path, "s", *messages, title="Theirs", working_dir="/srv")
    add_rubichan_session(path, "other", ("user", "hello"), title="Other")
    blob = {"tool_name": "shell", "content": "x" * 5000, "byte_size": 5000}
    insert_row(path, "tool_result_blobs", id="b1", session_id="s", **blob)
    insert_row(path, "memories", id=1, working_dir="/srv", tag="go", content="Uses Go")
    insert_row(path, "memories", id=2, working_dir="/srv", tag="ci", content="Has no CI")
    return path


@pytest.fixture
def case(store: Store, path: Path) -> WriteBackCase:
    return WriteBackCase(store, path)


def add_snapshot(path: Path, messages: str) -> None:
    insert_row(path, "session_snapshots", session_id="s", messages=messages, token_count=321)


def set_raw_title(path: Path, title: bytes) -> None:
    execute_sql(path, "update sessions set title = cast(? as text) where id = 's'", [(title,)])


def test_a_title(case: WriteBackCase) -> None:
    preview = check_round_trip(case.set_title())
    assert preview.plan.changes == [RowChange("sessions", {"id": "s"}, {"title": "Theirs"}, {"title": "Mine"})]


def test_a_title_that_is_no_utf_8_comes_back_byte_for_byte(store: Store, path: Path) -> None:
    set_raw_title(path, CUT_TITLE.encode("utf-8", "surrogateescape"))
    (change,) = check_round_trip(WriteBackCase(store, path).set_title()).plan.changes
    assert change.before == {"title": CUT_TITLE}
    assert [row["title"] for row in dump_tables(path)["sessions"] if row["id"] == "s"] == [CUT_TITLE]


def test_a_deleted_session_comes_back_with_its_title_byte_for_byte(store: Store, path: Path) -> None:
    set_raw_title(path, CUT_TITLE.encode("utf-8", "surrogateescape"))
    check_round_trip(WriteBackCase(store, path).delete_session())
    assert [row["title"] for row in dump_tables(path)["sessions"] if row["id"] == "s"] == [CUT_TITLE]


def test_a_change_of_one_byte_in_such_a_title_is_refused(store: Store, path: Path) -> None:
    cut = CUT_TITLE.encode("utf-8", "surrogateescape")
    set_raw_title(path, cut)
    preview = WriteBackCase(store, path).set_title().preview()
    set_raw_title(path, cut[:-1] + b"\xd2")
    before = dump_tables(path)
    with pytest.raises(ChangedMeanwhile):
        store.write_back.write(preview)
    assert dump_tables(path) == before


# ── the snapshot ──────────────────────────────────────────────────────────────────────────────────


def test_a_summary_is_the_first_message_of_the_snapshot_and_the_rest_stays_unchanged(store: Store, path: Path) -> None:
    add_snapshot(path, f"[ {encode_message('They began.')} ,\n  {KEPT_MESSAGE} ]")
    (change,) = check_round_trip(WriteBackCase(store, path).set_summary("They went on.")).plan.changes
    assert (change.table, change.key) == ("session_snapshots", {"session_id": "s"})
    after = (change.after or {})["messages"]
    assert after.endswith(f",{KEPT_MESSAGE} ]")
    first, kept = json.loads(after)
    assert first == json.loads(encode_message("They went on."))
    assert kept["n"] == BIG


def test_a_snapshot_with_only_a_summary(store: Store, path: Path) -> None:
    add_snapshot(path, f"[{encode_message('They began.')}]")
    (change,) = check_round_trip(WriteBackCase(store, path).set_summary("They went on.")).plan.changes
    assert json.loads((change.after or {})["messages"]) == [json.loads(encode_message("They went on."))]


def test_a_snapshot_without_a_summary_gets_one_as_its_first_message(store: Store, path: Path) -> None:
    add_snapshot(path, f"[{KEPT_MESSAGE}]")
    (change,) = check_round_trip(WriteBackCase(store, path).set_summary("They began.")).plan.changes
    first, kept = json.loads((change.after or {})["messages"])
    assert first == {"role": "user", "content": [{"type": "text", "text": "They began."}]}
    assert kept["n"] == BIG


def test_removing_the_summary_deletes_the_snapshot(store: Store, path: Path) -> None:
    add_snapshot(path, f"[{encode_message('They began.')},{KEPT_MESSAGE}]")
    (change,) = check_round_trip(WriteBackCase(store, path).set_summary("")).plan.changes
    assert (change.table, change.after) == ("session_snapshots", None)


def test_a_summary_without_a_snapshot_is_unsupported(case: WriteBackCase) -> None:
    preview = check_round_trip(case.set_title().set_summary())
    assert [change.table for change in preview.plan.changes] == ["sessions"]
    assert preview.plan.unsupported == [
        "Rubichan keeps a summary only in a snapshot, and this session has none. Your summary stays in Backscroll."
    ]


def test_a_snapshot_that_cannot_be_read_is_left_alone(store: Store, path: Path) -> None:
    case = WriteBackCase(store, path)
    add_snapshot(path, "[{")
    plan = case.set_summary().set_title().preview().plan
    assert plan.unsupported == ["Rubichan's snapshot of this session cannot be read. Your summary stays in Backscroll."]
    assert [change.table for change in plan.changes] == ["sessions"]


# ── memories and deletion ─────────────────────────────────────────────────────────────────────────


def test_edited_and_retired_memories(case: WriteBackCase) -> None:
    case.store.facts.edit(case.fact_id("Uses Go"), "Uses Go 1.26")
    case.store.facts.retire(case.fact_id("Has no CI"))
    edited, retired = check_round_trip(case).plan.changes
    assert edited == RowChange("memories", {"id": 1}, {"content": "Uses Go"}, {"content": "Uses Go 1.26"})
    assert (retired.table, retired.key, retired.after) == ("memories", {"id": 2}, None)


def test_a_deletion_includes_all_dependent_rows(store: Store, path: Path) -> None:
    add_snapshot(path, f"[{KEPT_MESSAGE}]")
    case = WriteBackCase(store, path).delete_session()
    tables = [change.table for change in check_round_trip(case).plan.changes]
    assert sorted(tables[:-1]) == ["messages"] * 4 + ["session_snapshots", "tool_result_blobs"]
    assert tables[-1] == "sessions"


def test_a_session_with_forks_is_not_deleted(store: Store, path: Path) -> None:
    add_rubichan_session(path, "fork", ("user", "one"), forked_from="s")
    case = WriteBackCase(store, path).delete_session()
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile, match="has forks in Rubichan"):
        case.write()
    assert case.foreign_rows() == before
    assert not case.session.gone
    check_round_trip(WriteBackCase(store, path, "fork").delete_session())


def test_a_row_that_was_added_since_the_preview_is_not_deleted(case: WriteBackCase) -> None:
    preview = case.delete_session().preview()
    insert_row(case.path, "messages", session_id="s", seq=4, role="user", content="[]")
    before = case.foreign_rows()
    with pytest.raises(ChangedMeanwhile):
        case.store.write_back.write(preview)
    assert case.foreign_rows() == before


def test_secrets_are_unsupported(case: WriteBackCase) -> None:
    case.store.secrets.set(case.session, "token", "hush")
    case.store.secrets.lock()
    unsupported = check_round_trip(case.set_title()).plan.unsupported
    assert unsupported == ["Rubichan cannot store secrets. They stay in Backscroll."]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("update sessions set title = 'New' where id = 's'", "title of sessions was changed in the agent's store"),
        ("update session_snapshots set messages = '[]'", "newer snapshot"),
        ("update memories set content = 'New' where id = 1", "memories 1 was changed in the agent's store"),
        ("update memories set content = 'New' where id = 2", "memories 2 was changed in the agent's store"),
        ("delete from sessions where id = 's'", "does not have the session 's' any more"),
    ],
)
def test_a_foreign_change_since_the_sync_is_refused(store: Store, path: Path, statement: str, message: str) -> None:
    add_snapshot(path, f"[{encode_message('They began.')}]")
    case = WriteBackCase(store, path).set_title().set_summary()
    store.facts.edit(case.fact_id("Uses Go"), "Uses Go 1.26")
    store.facts.retire(case.fact_id("Has no CI"))
    execute_sql(path, statement)
    before, edits = case.foreign_rows(), case.newest_edit()
    with pytest.raises(ChangedMeanwhile, match=message):
        case.write()
    assert case.foreign_rows() == before
    assert case.newest_edit() == edits


def test_the_first_layout_has_only_titles(store: Store, tmp_path: Path) -> None:
    path = make_database(tmp_path / "first.db", RUBICHAN_SCHEMA)
    add_rubichan_session(path, "s", ("user", "one"))
    case = WriteBackCase(store, path).set_title().set_summary()
    assert len(check_round_trip(case).plan.unsupported) == 1
    check_round_trip(case.delete_session())
