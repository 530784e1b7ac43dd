"""This module reads the values that filters can have in an archive, for completion."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from store.model.session import UNKNOWN_USER
from store.search.complete import Vocabulary

MAX_VALUES = 500
"""The values of each filter that completion may offer."""

_SQL = {
    "agents": "select source, count(*) from sessions where deleted = 0 group by source",
    "models": "select model, count(*) from sessions where deleted = 0 group by model",
    "folders": "select cwd, count(*) from sessions where deleted = 0 group by cwd",
    "users": f"""
        select name, count(*) from (
            select user as name from sessions where deleted = 0
            union all select author from turns join entries on entries.key = turns.entry
        ) where name not in ('', '{UNKNOWN_USER}') group by name""",
    "channels": "select channel, count(*) from sessions where deleted = 0 group by channel",
    "owners": "select name, count(*) from team_machines group by name",
    "machines": "select machine, 1 from team_machines",
    "tools": "select name, count(*) from tool_calls where inherited = 0 group by name",
    "tags": "select name, count(*) from tags group by name",
}

KINDS = {
    "agent": "agents",
    "model": "models",
    "cwd": "folders",
    "user": "users",
    "channel": "channels",
    "owner": "owners",
    "machine": "machines",
    "tool": "tools",
    "tag": "tags",
}
"""Maps the names of filters to the kinds of values that they take."""

ReadRows = Callable[[str, int], list[Any]]
"""Runs SQL with one value, and returns the rows."""


def load_vocabulary(read_rows: ReadRows, kinds: Collection[str] = tuple(_SQL)) -> Vocabulary:
    """Return the values of these kinds, the most used first."""
    values = {
        kind: tuple(value for value, _ in read_rows(f"{_SQL[kind]} order by 2 desc, 1 limit ?", MAX_VALUES) if value)
        for kind in kinds
    }
    return Vocabulary(**values)
