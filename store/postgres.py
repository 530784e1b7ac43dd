"""Another program's PostgreSQL database, read in one transaction that can change nothing and holds nobody up.

SQLAlchemy and psycopg come with the extra `postgres`; they are imported when a database is first opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from store.errors import Unreadable
from store.locating import place_of, scheme_of

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine
    from sqlalchemy.exc import SQLAlchemyError

SCHEMES = ("postgresql", "postgres")
ANSWERS_WITHIN_SECONDS = 3
ROWS_AT_ONCE = 100

# A statement may be slow, but nobody's schema change waits for it, and a sync that was put to sleep lets go.
_SETTINGS = """
    set local statement_timeout = '60s';
    set local lock_timeout = '3s';
    set local idle_in_transaction_session_timeout = '5min';
    set local datestyle = 'iso';
    set local timezone = 'utc'
"""
_TABLES = """
    select relname, attname from pg_class join pg_attribute on attrelid = pg_class.oid
    where relkind in ('r', 'p') and relnamespace <> cast('pg_catalog' as regnamespace)
        and pg_table_is_visible(pg_class.oid) and attnum > 0 and not attisdropped
"""
_SPELLED_AS_TEXT = ("json", "jsonb", "timestamp", "timestamptz")
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


def is_address(address: str) -> bool:
    return scheme_of(address) in SCHEMES


@contextmanager
def opened(address: str) -> Iterator[Postgres]:
    """The database as it is at one moment. Read-only, so that not even a function in it can change anything."""
    engine = _engine(address)
    from sqlalchemy.exc import SQLAlchemyError

    try:
        with engine.connect().execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True
        ) as connection:
            yield Postgres(connection)
    except SQLAlchemyError as error:
        raise Unreadable(f"{place_of(address).locator} cannot be read: {_reason(error, engine.url)}.") from None
    finally:
        engine.dispose()


class Postgres:
    append_order = "id"

    def __init__(self, connection: Connection) -> None:
        from psycopg.types.string import TextLoader

        self._connection = connection
        adapters: Any = getattr(connection.connection.dbapi_connection, "adapters", None)
        for name in _SPELLED_AS_TEXT:
            adapters.register_loader(name, TextLoader)
        for setting in _SETTINGS.split(";"):
            connection.exec_driver_sql(setting)
        self.tables: Mapping[str, frozenset[str]] = self._find_tables()

    def _find_tables(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for row in self.select(_TABLES):
            found.setdefault(row["relname"], set()).add(row["attname"])
        return {name: frozenset(columns) for name, columns in found.items()}

    def select(self, sql: str, **values: str) -> Iterator[Mapping[str, Any]]:
        from sqlalchemy import text

        result = self._connection.execution_options(yield_per=ROWS_AT_ONCE).execute(text(sql), values)
        for row in result.mappings():
            yield dict(row)

    def fingerprints(self, table: str, by: Sequence[str]) -> dict[tuple[str, ...], str]:
        """Summed up where the rows are, so that none has to travel."""
        names = ", ".join(by)
        summed = f"cast(sum(hashtextextended(cast({table} as text), 0)) as text)"
        rows = self.select(f"select {names}, {summed} as told from {table} group by {names}")
        return {tuple(row[name] for name in by): row["told"] for row in rows}

    def number_in(self, column: str, name: str) -> str:
        value = f"cast({column} as jsonb) -> '{name}'"
        return f"case when jsonb_typeof({value}) = 'number' then cast({value} as double precision) end"

    def visible(self) -> str:
        """The name of what can be seen: the same for as long as no transaction anywhere has ended."""
        (row,) = self.select("select cast(pg_current_snapshot() as text) as visible")
        return str(row["visible"])


# ── getting there ─────────────────────────────────────────────────────────────────────────────────


def _engine(address: str) -> Engine:
    try:
        from sqlalchemy import NullPool, create_engine

        url = _url(address)
    except ImportError:
        raise Unreadable("Reading PostgreSQL needs two more packages: pip install 'backscroll[postgres]'.") from None
    known = {"connect_timeout": ANSWERS_WITHIN_SECONDS, "application_name": "backscroll", "prepare_threshold": None}
    return create_engine(url, poolclass=NullPool, connect_args=known)


def _url(address: str) -> URL:
    """For psycopg, whichever driver the address names; asyncpg's own options mean nothing to it."""
    from psycopg.pq import Conninfo
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(_with_password(address))
    except (ArgumentError, ValueError):
        raise Unreadable(f"{place_of(address).locator} is not a database's address.") from None
    query = dict(url.query)
    if (mode := query.pop("ssl", None)) in _SSL_MODES:
        query["sslmode"] = mode
    options = {option.keyword.decode() for option in Conninfo.get_defaults()}
    return url.set(drivername="postgresql+psycopg", query={name: query[name] for name in query if name in options})


def _with_password(address: str) -> str:
    """Asked for by its locator, a database opens with the password that the agent is given. Else libpq looks where it
    always does: in PGPASSWORD and .pgpass."""
    agents = os.environ.get("SESSION_SERVICE_URI", "")
    same = address == place_of(address).locator == place_of(agents).locator if is_address(agents) else False
    return agents if same else address


def _reason(error: SQLAlchemyError, url: URL) -> str:
    """The first line of what the server or the driver said, without any password it may quote."""
    said = str(getattr(error, "orig", None) or error).strip().partition("\n")[0].rstrip(".")
    secrets = [url.password, *(value for name, value in url.query.items() if "pass" in name)]
    for secret in secrets:
        if isinstance(secret, str) and secret:
            said = said.replace(secret, "…")
    return said
