"""Tests how facts, their history and planned changes are rendered."""

from __future__ import annotations

from dataclasses import replace

import pytest
from browser_driver import NOW, fill_store, time_ago
from test_journal_rendering import HOSTILE, assert_harmless

from store.edits.labels import find_fact_origins
from store.model.knowledge import Fact, FactOrigin
from store.store import Store
from tui.render.fact_lines import (
    FactColumns,
    FactRow,
    render_consolidation,
    render_fact_history,
    render_fact_row,
    render_facts_heading,
    scope_name,
)

FACT = Fact(3, "Uses FastAPI.", "global", "stack", None, None, "", "", time_ago(days=8), time_ago(days=3), None)
FOREIGN = replace(FACT, foreign_place="kiso:@12ab/facts:1", foreign_text="Uses Flask.", scope="source:kiso:@12ab")


def render_row(fact_row: FactRow, width: int = 110) -> str:
    columns = FactColumns.measure([fact_row], with_scope=True)
    return render_fact_row(fact_row, NOW, width, columns, with_scope=True).plain


def test_a_row_shows_the_fact_its_category_its_origin_and_its_age() -> None:
    assert render_row(FactRow(FACT, FactOrigin())).split() == "Uses FastAPI. stack by hand 3d".split()
    learned = FactRow(FACT, FactOrigin("telegram:648", "A very long title of a conversation with a bot", 12))
    assert render_row(learned).rstrip().endswith(", turn 12       3d")
    assert "retired" in render_row(FactRow(replace(FACT, retired_at=time_ago()), FactOrigin()))
    assert "app shop · by hand" in render_row(FactRow(replace(FACT, scope="app:shop"), FactOrigin()))


def test_a_text_uses_the_room_that_other_columns_leave() -> None:
    text = "The staging database is read-only on Fridays."
    fact_row = FactRow(replace(FACT, text=text, category=""), FactOrigin())
    assert text in render_row(fact_row, 78)
    wide = replace(FACT, text="Short.", category="")
    learned = FactRow(wide, FactOrigin("x", "A very long title of a conversation with a bot", 12))
    assert "A very long title of a conversation with a bot, turn 12" in render_row(learned, 80)


def test_a_foreign_fact_names_its_program_and_whether_it_was_written_back() -> None:
    origin = FactOrigin("kiso:dev", "Deploy", None, "", "Kiso")
    assert "Kiso, not written back" in render_row(FactRow(FOREIGN, origin))
    assert "Kiso: Deploy" in render_row(FactRow(replace(FOREIGN, foreign_text=FOREIGN.text), origin))
    history = "\n".join(part.content.plain for part in render_fact_history(FactRow(FOREIGN, origin), [], NOW, 100))
    assert "Kiso still says “Uses Flask.”" in history
    assert "read from Kiso, Deploy" in history


def test_history_shows_older_texts_and_the_original_turn(store: Store) -> None:
    fill_store(store)
    session = store.sessions.get("claude:e0741090")
    (fact,) = store.facts.learn("Uses Flask.", session=session, entry_seq=3).facts
    store.facts.edit(fact.id, "Uses FastAPI.", category="stack")
    store.facts.retire(fact.id)
    store.journal.undo()
    fact = store.facts.get(fact.id)
    rows = render_fact_history(
        FactRow(fact, find_fact_origins(store, [fact])[fact.id]), store.facts.history(fact.id), NOW, 120
    )
    lines = [part.content.plain for part in rows]
    assert lines[0] == "Uses FastAPI."
    assert any("restored   undone: fact retired" in line for line in lines)
    assert any("retired   undone" in line for line in lines)
    assert any("“Uses Flask.” → “Uses FastAPI.”, category none → stack" in line for line in lines)
    assert any("learned from Fix the flaky upload test, turn 1: “The retry ran" in line for line in lines)
    assert {part.entry for part in rows} == {None, "claude:e0741090#3"}


@pytest.mark.parametrize("width", [1, 12, 40, 78, 140])
def test_every_line_fits_and_no_control_character_survives(width: int) -> None:
    fact = replace(FACT, text=HOSTILE, category=HOSTILE, scope=f"app:{HOSTILE}")
    fact_row = FactRow(fact, FactOrigin("x", HOSTILE, 3, HOSTILE))
    columns = FactColumns.measure([fact_row], with_scope=True)
    rendered = render_fact_row(fact_row, NOW, width, columns, marked=True, with_scope=True)
    assert rendered.cell_length <= width
    assert_harmless(rendered)
    for part in render_fact_history(fact_row, [], NOW, width):
        assert part.content.cell_length <= max(width, 11)
        assert_harmless(part.content)


def test_only_the_start_of_a_long_fact_is_shown() -> None:
    rows = render_fact_history(FactRow(replace(FACT, text="word " * 200_000), FactOrigin()), [], NOW, 80)
    assert len(rows) < 100
    assert any("996,000 more characters" in part.content.plain for part in rows)


def test_the_heading_shows_the_count_and_the_limit() -> None:
    assert render_facts_heading(37, 200, "", 99, 99, False).plain == "Facts · all scopes: 99 · 37 of 200 lines global"
    assert (
        render_facts_heading(37, 200, "", 5, 99, False).plain == "Facts · all scopes: 5 of 99 · 37 of 200 lines global"
    )
    assert render_facts_heading(37, 200, "app:shop", 37, 37, False).plain == "Facts · 37 of 200 lines · app shop"
    assert "C to consolidate" in render_facts_heading(201, 200, "global", 5, 201, True).plain
    assert "5 of 201 shown" in render_facts_heading(201, 200, "global", 5, 201, True).plain


def test_scopes_have_names_that_people_read() -> None:
    names = {
        "": "all scopes",
        "global": "global",
        "source:kiso:@12ab": "source kiso",
        "source:pingu": "source pingu",
        "user:trip/ada": "user trip/ada",
        "app:shop@adk:@12ab": "app shop",
    }
    assert {scope: scope_name(scope) for scope in names} == names


def test_a_consolidation_is_shown_as_a_difference(store: Store) -> None:
    store.facts.learn("Uses Flask.\nTabs.\nTwo people.")
    lines = [line.plain for line in render_consolidation(store.facts.diff("Uses FastAPI.\nTwo people.").text)]
    assert lines == ["− Uses Flask.", "− Tabs.", "+ Uses FastAPI.", "  Two people."]
