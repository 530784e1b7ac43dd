"""These tests write values of every kind into columns of every type: what is written is journaled and can be undone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from foreign_databases import (
    PINGU_DOCUMENT_SCHEMA,
    PINGU_SCHEMA,
    add_pingu_session,
    execute_sql,
    make_database,
    pingu_native_response,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from write_back_roundtrip import WriteBackCase, check_round_trip

from store.errors import BadValue, ChangedMeanwhile
from store.sources.kit.write_plan import RowChange, SecretText
from store.store import Store
from store.text.validate import decode, encode
from store.write_back.sqlite import open_rows, swap_rows

COLUMN_TYPES = [
    *("", "text", "integer", "real", "numeric", "blob", "any", "json", "clob", "varchar(9)", "datetime", "boolean"),
    *("bigint", "double precision", "decimal(9, 2)", "floating point"),
]
NUMERIC_TEXTS = st.sampled_from(
    ["0", "12", "-3", "007", "1.5", "3.0", "1e3", " 4", "9223372036854775808", "0x10", "1_0"]
)
VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False),
    st.binary(max_size=4),
    NUMERIC_TEXTS,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=4),
    st.binary(max_size=4).map(lambda data: data.decode("utf-8", "surrogateescape")),
)


def read_stored(path: Path) -> Any:
    """Return the storage class and the bytes of the value."""
    with closing(sqlite3.connect(path)) as connection:
        connection.text_factory = bytes
        return connection.execute("select typeof(value), value from t").fetchone()


@pytest.mark.parametrize("column_type", COLUMN_TYPES)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=VALUES, after=VALUES)
def test_what_is_written_is_what_the_plan_says_and_an_undo_restores_it(
    store: Store, tmp_path: Path, column_type: str, before: Any, after: Any
) -> None:
    path = tmp_path / "foreign.db"
    path.unlink(missing_ok=True)
    make_database(path, f"create table t (id text primary key, value {column_type}); insert into t (id) values ('s')")
    with open_rows(str(path)) as rows:
        first = rows.normalize_change(RowChange("t", {"id": "s"}, {"value": None}, {"value": before}))
    swap_rows(str(path), [first], exclusive=False)
    stored_before = read_stored(path)
    with open_rows(str(path)) as rows:
        (row,) = rows.select("t", "id = ?", "s")
        change = rows.normalize_change(RowChange("t", {"id": "s"}, {"value": row["value"]}, {"value": after}))
    swap_rows(str(path), [change], exclusive=False)
    with open_rows(str(path)) as rows:
        (row,) = rows.select("t", "id = ?", "s")
    assert (change.after, type((change.after or {})["value"])) == ({"value": row["value"]}, type(row["value"]))
    session = store.ensure_session("s")
    journaled = decode(encode(store.write_back._encode_row(session, change.inverted().before)))
    undo = RowChange("t", {"id": "s"}, store.write_back._decode_row(journaled), change.before)
    swap_rows(str(path), [undo], exclusive=False)
    assert read_stored(path) == stored_before


@pytest.mark.parametrize("column_type", ["integer", "text", "", "blob", "numeric", "real"])
@pytest.mark.parametrize(("coverage", "up_to_turn"), [(None, 1), (1, 2), ("1", 2), (1, None), ("1", 0)])
def test_a_summary_with_coverage_can_be_undone_whatever_the_type_of_its_column(
    store: Store, tmp_path: Path, column_type: str, coverage: object, up_to_turn: int | None
) -> None:
    schema = PINGU_SCHEMA.replace("summary_up_to text", f"summary_up_to {column_type}")
    case = make_case(store, tmp_path, schema, summary="Theirs.", summary_up_to=coverage)
    check_round_trip(case.set_summary("Mine.", up_to_turn=up_to_turn))


def make_case(store: Store, folder: Path, schema: str, **columns: object) -> WriteBackCase:
    path = make_database(folder / "pingu.db", schema, wal=True)
    answer = pingu_native_response({"type": "message", "content": "yes"})
    add_pingu_session(path, "s", ("one", answer), ("two", answer), **columns)
    return WriteBackCase(store, path)


def test_a_number_stays_a_number_where_the_column_has_no_type(store: Store, tmp_path: Path) -> None:
    schema = PINGU_SCHEMA.replace("summary_up_to text", "summary_up_to")
    case = make_case(store, tmp_path, schema, summary="Theirs.", summary_up_to=1)
    (change,) = case.set_summary("Theirs.", up_to_turn=2).preview().plan.changes
    assert change.after == {"summary": "Theirs.", "summary_up_to": 2}
    case.write()
    assert [row["summary_up_to"] for row in case.foreign_rows()["sessions"]] == [2]


def test_the_same_coverage_is_nothing_to_write(store: Store, tmp_path: Path) -> None:
    case = make_case(store, tmp_path, PINGU_DOCUMENT_SCHEMA, summary="Theirs.", summary_up_to=2)
    assert case.set_summary("Theirs.", up_to_turn=2).preview().plan.changes == []


def test_a_title_of_bytes_stays_bytes(store: Store, tmp_path: Path) -> None:
    case = make_case(store, tmp_path, PINGU_SCHEMA, title=b"Theirs")
    (change,) = check_round_trip(case.set_title("Mine")).plan.changes
    assert (change.before, change.after) == ({"title": b"Theirs"}, {"title": b"Mine"})


def test_an_undo_of_a_write_back_by_version_0_1_0(store: Store, tmp_path: Path) -> None:
    """That version journaled the text that it wrote, where the column stored a number. Newer edits were blocked too."""
    case = make_case(store, tmp_path, PINGU_DOCUMENT_SCHEMA, summary="Theirs.", summary_up_to=1)
    before = case.foreign_rows()
    case.set_summary("Mine.", up_to_turn=2).write()
    written = case.newest_edit()
    with store.transaction() as connection:
        changed = connection.execute(
            """update edits set after = replace(after, '"summary_up_to":2', '"summary_up_to":"2"') where id = ?""",
            (written.id,),
        )
        assert changed.rowcount == 1
    assert "'summary_up_to': '2'" in str(case.newest_edit())
    store.journal.undo()
    assert case.foreign_rows() == before


def test_an_undo_is_refused_when_only_the_storage_class_has_changed(store: Store, tmp_path: Path) -> None:
    schema = PINGU_SCHEMA.replace("title text", "title")
    case = make_case(store, tmp_path, schema, title="Theirs")
    case.set_title("12").write()
    execute_sql(case.path, "update sessions set title = 12")
    with pytest.raises(ChangedMeanwhile, match="has changed, so nothing was written"):
        store.journal.undo(case.newest_edit().id)


def test_a_strict_table(tmp_path: Path) -> None:
    path = make_database(tmp_path / "strict.db", "create table t (id text primary key, a any, b integer) strict")
    with open_rows(str(path)) as rows:
        change = rows.normalize_change(RowChange("t", {"id": "s"}, None, {"a": "12", "b": "12"}))
    assert change.after == {"a": "12", "b": 12}


def test_a_secret_that_a_column_would_turn_into_a_number_is_refused(tmp_path: Path) -> None:
    path = make_database(tmp_path / "kiso.db", "create table secrets (key text, value numeric)")
    with open_rows(str(path)) as rows:
        kept = rows.normalize_change(RowChange("secrets", {"key": "a"}, None, {"value": SecretText("a1", "a")}))
        assert isinstance((kept.after or {})["value"], SecretText)
        with pytest.raises(BadValue, match="would not store this secret as text"):
            rows.normalize_change(RowChange("secrets", {"key": "a"}, None, {"value": SecretText("12", "a")}))
