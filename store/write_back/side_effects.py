"""This module finds out whether writing to a foreign SQLite database changes more than was planned.

Triggers and foreign keys of the database can do that, and an undo would not bring it back. What they do depends on the
rows, so it is observed: temporary triggers count every row that changes. A full-text index is not counted.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence

from store.errors import Refused
from store.sources.kit.write_plan import RowChange
from store.text.validate import replace_surrogates

Operation = tuple[str, str]
"""Is the name of a table in lower case, and what happens to a row: insert, update or delete."""


def watch_changes(connection: sqlite3.Connection) -> Counter[Operation]:
    """Return a counter of rows that this connection changes from now on. Call it within a transaction."""
    counter: Counter[Operation] = Counter()
    watched: list[Operation] = []

    def count(number: int) -> None:
        counter[watched[number]] += 1

    connection.create_function("count_change", 1, count)
    tables = connection.execute("select name from pragma_table_list where schema = 'main' and type = 'table'")
    for (table,) in tables.fetchall():
        if table.startswith("sqlite_"):
            continue  # SQLite's own tables have no triggers
        if replace_surrogates(table) != table:
            raise Refused("A table of the agent's store has a name that is not valid text, so nothing was written.")
        for operation in ("insert", "update", "delete"):
            name, number = table.replace('"', '""'), len(watched)
            watched.append((table.lower(), operation))
            connection.execute(
                f'create temp trigger "count {number}" after {operation} on main."{name}"'
                f" begin select count_change({number}); end"
            )
    return counter


def refuse_prevented_change(connection: sqlite3.Connection, triggers: Sequence[str]) -> None:
    """Raise Refused if the statement before did not change its row by itself.

    A trigger can prevent that and change another row of the table in its place. Then as many rows change as planned.
    """
    (changed,) = connection.execute("select changes()").fetchone()  # rows that triggers change are not counted
    if not changed:
        raise Refused(_describe_effect("would prevent the change", triggers))


def refuse_side_effects(counter: Counter[Operation], changes: Iterable[RowChange], triggers: Sequence[str]) -> None:
    """Raise Refused if other rows changed than planned."""
    unplanned = Counter[str]()
    for (table, _), rows in (counter - Counter(_operation(change) for change in changes)).items():
        unplanned[table] += rows
    if not unplanned:
        return
    also = ", ".join(f"{rows} of {table}" for table, rows in sorted(unplanned.items()))
    raise Refused(_describe_effect(f"would also change other rows ({also})", triggers))


def _describe_effect(effect: str, triggers: Sequence[str]) -> str:
    return f"{describe_triggers(triggers)} {effect}. Nothing was written. Edit the session in its agent."


def describe_triggers(triggers: Sequence[str]) -> str:
    """Return the subject of a sentence about what the database does by itself."""
    if not triggers:
        return "A foreign key of the agent's store"
    names = ", ".join(sorted(triggers))
    return f"The trigger {names} in the agent's store" if len(triggers) == 1 else f"The triggers {names} there"


def _operation(change: RowChange) -> Operation:
    operation = "delete" if change.after is None else "insert" if change.before is None else "update"
    return change.table.lower(), operation
