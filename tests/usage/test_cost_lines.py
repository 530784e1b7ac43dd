"""Tests that the sum behind a figure is the figure: for models, sessions, hours of the week, agents and periods."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from store.demo import fill_store
from store.model.statistics import Figures
from store.search.query import Query
from store.store import Store
from store.usage.cost_lines import FigureExplanation, FigureScope, explain_figure
from store.usage.period import Period

EVERYTHING = Query.parse("")


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "demo.db") as store:
        fill_store(store)
        yield store


def assert_adds_up(explained: FigureExplanation, figures: Figures) -> None:
    assert explained.figures.tokens == figures.tokens
    assert explained.figures.cost == figures.cost
    assert explained.figures.unpriced_tokens == figures.unpriced_tokens
    costs = [line.cost for line in explained.lines if line.cost is not None]
    assert (sum(costs) if costs else None) == figures.cost
    assert sum(line.tokens.total for line in explained.lines if line.rates is None) == figures.unpriced_tokens


def test_every_row_adds_up(demo: Store) -> None:
    period = Period(datetime.now(UTC) - timedelta(days=90), datetime.now(UTC))
    for row in demo.usage.collect("model", period=period).rows:
        assert_adds_up(explain_figure(demo, FigureScope(EVERYTHING, period, model=row.key)), row.figures)
    for row in demo.usage.collect("agent", period=period).rows:
        query = Query.parse(f'agent:"{row.key}"')
        assert_adds_up(explain_figure(demo, FigureScope(query, period)), row.figures)
    for row in demo.usage.collect("session", period=period).rows:
        assert_adds_up(explain_figure(demo, FigureScope(EVERYTHING, period, session_id=row.key)), row.figures)
    for row in demo.usage.collect("weekday_hour", period=period).rows:
        weekday, hour = map(int, row.key.split())
        assert_adds_up(explain_figure(demo, FigureScope(EVERYTHING, period, hour=(weekday - 1, hour))), row.figures)


def test_only_a_model_without_a_rate_has_no_cost(demo: Store) -> None:
    lines = explain_figure(demo, FigureScope(EVERYTHING)).lines
    assert len(lines) > 5
    assert all((line.rates is None) == (line.cost is None) and line.tokens.total > 0 for line in lines)
