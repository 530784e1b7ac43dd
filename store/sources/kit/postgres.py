"""This module opens PostgreSQL databases of other programs, in one transaction that is usually read-only.

SQLAlchemy and psycopg come with the extra `postgres`; they are imported when a database is first opened.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from store.errors import Busy, StoreError, Unreadable, WriteFailed
from store.sources.kit.locator import parse_location, url_scheme

if TYPE_CHECKING:
    from sqlalchemy import URL, Connection, Engine
    from sqlalchemy.exc import SQLAlchemyError

SCHEMES = ("postgresql", "postgres")
CONNECT_TIMEOUT_SECONDS = 3
FETCH_ROWS = 100

# A statement may be slow, but it must not delay schema changes, and a suspended sync must release its transaction.
_READ_SETTINGS = {
    "statement_timeout": "60s",
    "lock_timeout": "3s",
    "idle_in_transaction_session_timeout": "5min",
    "datestyle": "iso",
    "timezone": "utc",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}
# These are shorter than the server's deadlock timeout, so that the server never aborts the agent instead.
_WRITE_SETTINGS = {
    **_READ_SETTINGS,
    "statement_timeout": "10s",
    "lock_timeout": "500ms",
    "idle_in_transaction_session_timeout": "10s",
}
_LOCK_ERRORS = ("40P01", "55P03")
_SELECT_TABLES = """
    select relname, attname from pg_class join pg_attribute on attrelid = pg_class.oid
    where relkind in ('r', 'p') and relnamespace <> cast('pg_catalog' as regnamespace)
        and pg_table_is_visible(pg_class.oid) and attnum > 0 and not attisdropped
"""
_TYPES_AS_TEXT = ("json", "jsonb", "timestamp", "timestamptz")
_NO_PASSWORD = "no password supplied"  # noqa: S105 (a message of the server, not a password)
_SSL_MODES = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")


class ConnectionLost(WriteFailed):
    """The connection was lost, and it is not known whether anything was written. Outside it is a `WriteFailed`."""


def is_postgres_url(address: str) -> bool:
    return url_scheme(address) in SCHEMES


@contextmanager
def open_database(address: str) -> Iterator[PostgresDatabase]:
    """Yield the database as it is at one moment."""
    with connect(address) as connection:
        yield PostgresDatabase(connection)


@contextmanager
def connect(address: str, *, writing: bool = False) -> Iterator[Connection]:
    """Yield a connection in one transaction.

    With `writing` it is committed in the end. Otherwise it is read-only, so that not even a function in the database
    can change anything.
    """
    engine = _create_engine(address)
    from sqlalchemy.exc import SQLAlchemyError

    level = "READ COMMITTED" if writing else "REPEATABLE READ"
    try:
        opened = _open_connection(engine, address)
        with opened.execution_options(isolation_level=level, postgresql_readonly=not writing) as connection:
            settings = (_WRITE_SETTINGS if writing else _READ_SETTINGS).items()
            calls = ", ".join(f"set_config('{name}', '{value}', true)" for name, value in settings)
            connection.exec_driver_sql(f"select {calls}")
            yield connection
            if writing:
                connection.commit()
    except SQLAlchemyError as error:
        raise _translate_error(error, engine.url, parse_location(address).locator, writing) from None
    finally:
        engine.dispose()


class PostgresDatabase:
    """Reads the tables of a database."""

    append_order = "id"

    def __init__(self, connection: Connection) -> None:
        from psycopg.types.string import TextLoader

        self._connection = connection
        adapters: Any = getattr(connection.connection.dbapi_connection, "adapters", None)
        for name in _TYPES_AS_TEXT:
            adapters.register_loader(name, TextLoader)
        self.tables: Mapping[str, frozenset[str]] = self._find_tables()

    def _find_tables(self) -> dict[str, frozenset[str]]:
        tables: dict[str, set[str]] = {}
        for row in self.select(_SELECT_TABLES):
            tables.setdefault(row["relname"], set()).add(row["attname"])
        return {name: frozenset(columns) for name, columns in tables.items()}

    def select(self, sql: str, **values: str) -> Iterator[Mapping[str, Any]]:
        from sqlalchemy import text

        result = self._connection.execution_options(yield_per=FETCH_ROWS).execute(text(sql), values)
        for row in result.mappings():
            yield dict(row)

    def fingerprints(self, table: str, by: Sequence[str]) -> dict[tuple[str, ...], str]:
        """Return a digest of the rows of each group. The server computes it, so that no row is transferred."""
        names = ", ".join(by)
        digest_sql = f"cast(sum(hashtextextended(cast({table} as text), 0)) as text)"
        rows = self.select(f"select {names}, {digest_sql} as fingerprint from {table} group by {names}")
        return {tuple(row[name] for name in by): row["fingerprint"] for row in rows}

    def json_number_sql(self, column: str, name: str) -> str:
        value = f"cast({column} as jsonb) -> '{name}'"
        return f"case when jsonb_typeof({value}) = 'number' then cast({value} as double precision) end"

    def snapshot_id(self) -> str:
        """Return the id of the visible state. It is the same until any transaction on the server ends."""
        (row,) = self.select("select cast(pg_current_snapshot() as text) as visible")
        return str(row["visible"])


# ── connecting ────────────────────────────────────────────────────────────────────────────────────


def _create_engine(address: str) -> Engine:
    try:
        from sqlalchemy import NullPool, create_engine
        from sqlalchemy.exc import ArgumentError

        url = _build_url(address)
    except ImportError:
        raise Unreadable("The PostgreSQL client is not installed. Run `pip install 'backscroll[postgres]'`.") from None
    connect_args = {
        "connect_timeout": CONNECT_TIMEOUT_SECONDS,
        "application_name": "backscroll",
        "prepare_threshold": None,
    }
    try:
        return create_engine(url, poolclass=NullPool, connect_args=connect_args)
    except ArgumentError:
        raise _bad_address(address) from None


def _open_connection(engine: Engine, address: str) -> Connection:
    try:
        return engine.connect()
    except UnicodeError:  # the name of the host, or bytes that are not UTF-8
        raise _bad_address(address) from None


def _bad_address(address: str) -> Unreadable:
    return Unreadable(
        f"{parse_location(address).locator} is not the address of a database. "
        "Write @ in a password as %40, / as %2F and ? as %3F."
    )


def _build_url(address: str) -> URL:
    """Return the URL for psycopg. The driver in the address is ignored, and options of asyncpg are dropped."""
    from psycopg.pq import Conninfo
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        url = make_url(_add_password(address))
    except (ArgumentError, ValueError):
        raise _bad_address(address) from None
    # What follows a raw @ would be taken for the host and be shown, and libpq reads nothing that follows a NUL.
    if "\0" in unquote(address) or "@" in (url.host or "") or (url.password and "@" in (url.database or "")):
        raise _bad_address(address)
    query = dict(url.query)
    if (mode := query.pop("ssl", None)) in _SSL_MODES:
        query["sslmode"] = mode
    options = {option.keyword.decode() for option in Conninfo.get_defaults()}
    return url.set(drivername="postgresql+psycopg", query={name: query[name] for name in query if name in options})


def _add_password(address: str) -> str:
    """Return the address with the agent's password, if it is the locator of the agent's database.

    For other databases libpq looks for a password in PGPASSWORD and .pgpass.
    """
    agent_address = os.environ.get("SESSION_SERVICE_URI", "")
    is_same = (
        address == parse_location(address).locator == parse_location(agent_address).locator
        if is_postgres_url(agent_address)
        else False
    )
    return agent_address if is_same else address


def _translate_error(error: SQLAlchemyError, url: URL, locator: str, writing: bool) -> StoreError:
    if not writing:
        return Unreadable(f"{locator} cannot be read: {_error_reason(error, url)}.")
    if getattr(getattr(error, "orig", None), "sqlstate", "") in _LOCK_ERRORS:
        return Busy(f"Another program is writing to {locator}; try again in a moment.")
    if getattr(error, "connection_invalidated", False):
        return ConnectionLost(
            f"The connection to {locator} was lost. If it was written to, the journal says so at the next start."
        )
    return WriteFailed(f"{locator} could not be written; nothing was changed: {_error_reason(error, url)}.")


def _error_reason(error: SQLAlchemyError, url: URL) -> str:
    """Return the first line of the error of the server or the driver, without any password that it may quote."""
    reason = str(getattr(error, "orig", None) or error).strip().partition("\n")[0].rstrip(".")
    secrets = [url.password, *(value for name, value in url.query.items() if "pass" in name)]
    for secret in secrets:
        if isinstance(secret, str) and secret:
            reason = reason.replace(secret, "…")
    return (
        f"{reason}; give one in SESSION_SERVICE_URI, PGPASSWORD or ~/.pgpass"
        if reason.endswith(_NO_PASSWORD)
        else reason
    )
