"""This module talks to the PostgreSQL server of a team. It needs the extra `postgres`.

Only operations travel. Pushing the same operation twice changes nothing, so a push that was cut off is repeated. The
operations of a machine are added in their order, so what a reader has not seen yet follows the last one that it has.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import uuid4

from store.errors import BadValue, Refused, Unreadable, WriteFailed
from store.sources.kit.locator import parse_location
from store.team.operations import EVERYBODY, MAX_BODY_BYTES, Operation
from store.team.plain_text import TITLE_SEQ, PlainText, ServerQuery
from store.team.schema import MIGRATIONS, SCHEMA, split_statements

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg.rows import TupleRow

CONNECT_TIMEOUT_SECONDS = 5
STATEMENT_TIMEOUT = "120s"
FETCHED_OPERATIONS = 256
FETCHED_BYTES = 1024 * 1024
"""Limit what is fetched at a time, and applied in one transaction. The last operation may exceed the bytes."""

POLL_SECONDS = 2.0
"""Is how often a server is asked that cannot notify."""

_LOCK = f"select pg_advisory_xact_lock(hashtext('{SCHEMA}'))"
_COLUMNS = "machine, seq, kind, share, digest, signature"
_SAFE_BODY = f"case when octet_length(body) <= {MAX_BODY_BYTES} then body end"
_COPY_AFTER = f"""
    copy (
        select {_COLUMNS}, {_SAFE_BODY} from (
            select *, sum(octet_length(body)) over (order by seq) - octet_length(body) as bytes_before from (
                select {_COLUMNS}, body from {SCHEMA}.operations where machine = %s and seq > %s
                order by seq limit {FETCHED_OPERATIONS}
            ) as following
        ) as measured where bytes_before < {FETCHED_BYTES} order by seq
    ) to stdout (format binary)
"""
_COPY_SHARE = f"""
    copy (
        select {_COLUMNS}, {_SAFE_BODY} from {SCHEMA}.operations where share = %s
        order by machine <> split_part(share, '/', 1), machine, seq
    ) to stdout (format binary)
"""
_OPERATION_TYPES = ["text", "int8", "text", "text", "bytea", "bytea", "bytea"]
_COPY = "copy incoming (machine, seq, kind, share, audience, digest, signature, body) from stdin (format binary)"
_COPY_TYPES = ["text", "int8", "text", "text", "text[]", "bytea", "bytea", "bytea"]
_ADD_COPIED = f"""
    insert into {SCHEMA}.operations (machine, seq, kind, share, audience, digest, signature, body)
    select machine, seq, kind, share, audience, digest, signature, body from incoming order by seq
    on conflict (machine, seq) do nothing
"""
_COUNT_COPIED = f"""
    select count(*) from incoming join {SCHEMA}.operations added using (machine, seq)
    where added.signature = incoming.signature
"""
_CREATE_INCOMING_TEXTS = """
    create temp table incoming_texts (
        share text, machine text, audience text[], session text, entry bigint,
        role text, at text, text text, folded text
    ) on commit drop
"""
_COPY_TEXTS = "copy incoming_texts from stdin (format binary)"
_TEXT_TYPES = ["text", "text", "text[]", "text", "int8", "text", "text", "text", "text"]
_ADD_TEXTS = f"""
    insert into {SCHEMA}.texts (share, machine, audience, session, entry, role, at, text, words)
    select share, machine, audience, session, entry, role, at, text,
        to_tsvector('pg_catalog.simple', case folded when '' then text else folded end)
    from incoming_texts
    on conflict (share, entry) do update
        set audience = excluded.audience, text = excluded.text, words = excluded.words
"""
_SELECT_TEXTS = f"""
    with found as (
        select distinct on (share) share, machine, session, entry, role, at, text, ts_rank_cd(words, query) as rank
        from {SCHEMA}.texts cross join (select {{query}} as query) as asked
        where words @@ query and audience && %s and not share = any (%s)
        order by share, rank desc, entry
    )
    select found.machine, found.session, found.entry, found.role, found.at, found.text, coalesce(titles.text, ''),
        count(*) over ()
    from found left join {SCHEMA}.texts titles on titles.share = found.share and titles.entry = {TITLE_SEQ}
    order by rank desc, found.at desc limit %s
"""
_SELECT_IS_SHARED_ROLE = f"""
    select (select rolsuper or rolbypassrls from pg_roles where rolname = current_user)
        or exists (select 1 from {SCHEMA}.machines where role = current_user and name <> %s and left_at is null)
"""
TOO_LARGE = b"?"
"""Stands for a body that is too large to be fetched. It does not have the digest that was signed, so it is refused."""

_NO_PASSWORD = ("no password supplied", "password authentication failed")


class ServerMachine(NamedTuple):
    """Is a machine as the server lists it. Only its keys are certain: anyone can take any name."""

    machine: str
    name: str
    public: bytes
    has_left: bool
    last_seq: int


class OutgoingOperation(NamedTuple):
    operation: Operation
    audience: tuple[str, ...]
    texts: tuple[PlainText, ...] = ()
    "Is what the server of a plain team gets besides."


class FoundText(NamedTuple):
    """Is a text that the server found."""

    machine: str
    session: str
    entry: int
    role: str
    at: str
    text: str
    title: str
    total: int
    "Counts the sessions that were found."


class PasswordNeeded(Unreadable):
    "The server asks for a password."


class TeamLost(Unreadable):
    "The tables of the team were removed or changed by something else."


@contextmanager
def connect(address: str, password: str = "") -> Iterator[TeamServer]:
    """Yield a connection. The password is neither part of the address nor of any message."""
    try:
        import psycopg
    except ImportError:
        raise Unreadable("The PostgreSQL client is not installed. Run `pip install 'backscroll[postgres]'`.") from None
    locator = parse_location(address).locator
    parameters: dict[str, Any] = {"password": password} if password else {}
    try:
        with psycopg.connect(
            address,
            connect_timeout=CONNECT_TIMEOUT_SECONDS,
            application_name="backscroll",
            autocommit=True,
            prepare_threshold=None,
            **parameters,
        ) as connection:
            connection.execute(f"set statement_timeout = '{STATEMENT_TIMEOUT}'")
            yield TeamServer(connection, locator)
    except psycopg.errors.InsufficientPrivilege as error:
        raise Refused(f"{locator} does not allow that: {_first_line(error)}. Ask its owner.") from None
    except psycopg.errors.DiskFull:
        raise WriteFailed(f"The disk of the server {locator} is full. What you share is sent later.") from None
    except psycopg.ProgrammingError as error:
        raise TeamLost(
            f"{locator} has no team any more: {_first_line(error)}. Run `backscroll team leave`, then join again."
        ) from None
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        reason = _first_line(error)
        if any(text in reason for text in _NO_PASSWORD):
            raise PasswordNeeded(
                f"{locator} needs a password, or another one. Set PGPASSWORD, or add it to ~/.pgpass."
            ) from None
        raise Unreadable(f"{locator} cannot be used now: {reason}. Your own sessions are not affected.") from None
    except (psycopg.Error, UnicodeError) as error:
        raise WriteFailed(f"{locator} refused the operation: {_first_line(error)}. Nothing was changed.") from None


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0].rstrip(".") or type(error).__name__


class TeamServer:
    """Reads and adds operations. Each method is one transaction."""

    def __init__(self, connection: Connection[TupleRow], locator: str) -> None:
        self._connection = connection
        self.locator = locator

    # ── joining ───────────────────────────────────────────────────────────────────────────────────

    def prepare(self, *, is_plain: bool) -> str:
        """Create the tables and the team if they are missing, and return the id of the team.

        A team is plain or sealed from its beginning, and whoever joins must know which.
        """
        from psycopg import ProgrammingError
        from psycopg.errors import InsufficientPrivilege

        try:
            with self._connection.transaction():
                self._execute(_LOCK)
                self._migrate()
                return self._find_or_found(is_plain)
        except InsufficientPrivilege:
            raise
        except ProgrammingError:
            raise Refused(
                f"{self.locator} has a schema {SCHEMA} that is not from Backscroll. Choose another database."
            ) from None

    def upgrade(self) -> None:
        """Change the tables of an older program as this one needs them. Refuse those of a newer one."""
        if self._count_migrations() not in (0, len(MIGRATIONS)):  # without tables, the next statement says so
            with self._connection.transaction():
                self._execute(_LOCK)
                self._migrate()

    def _migrate(self) -> None:
        applied = self._count_migrations()
        if applied > len(MIGRATIONS):
            raise Unreadable(f"A newer Backscroll set up the team in {self.locator}. Update Backscroll.")
        for number, migration in enumerate(MIGRATIONS[applied:], applied + 1):
            for statement in split_statements(migration):
                self._execute(statement)
            self._execute(f"insert into {SCHEMA}.migrations (number) values (%s)", number)

    def _find_or_found(self, is_plain: bool) -> str:
        row = self._row(f"select id, is_plain from {SCHEMA}.team")
        if row is None:
            added = f"insert into {SCHEMA}.team (id, is_plain) values (%s, %s) returning id, is_plain"
            row = self._row(added, str(uuid4()), is_plain)
        if row is None:
            raise Refused(f"The team in {self.locator} cannot be created.")
        team, is_plain_there = row
        if is_plain_there and not is_plain:
            raise Refused(
                f"The team in {self.locator} is plain: its server can read and search what you share. "
                "Join with --plain if you agree."
            )
        if is_plain and not is_plain_there:
            raise Refused(f"The team in {self.locator} is sealed, and stays so. Join without --plain.")
        return str(team)

    def _count_migrations(self) -> int:
        if self._row("select 1 from pg_namespace where nspname = %s", SCHEMA) is None:
            return 0
        row = self._row(f"select count(*) from {SCHEMA}.migrations")
        return int(row[0]) if row else 0

    def add_machine(self, machine: str, name: str, public: bytes) -> None:
        self._execute(
            f"""
            insert into {SCHEMA}.machines (machine, name, public) values (%s, %s, %s)
            on conflict (machine) do update set name = excluded.name, left_at = null
            """,
            machine,
            name,
            public,
        )

    def mark_left(self, machine: str) -> None:
        self._execute(f"update {SCHEMA}.machines set left_at = now() where machine = %s", machine)

    def list_machines(self) -> list[ServerMachine]:
        """Return all machines, and the number of the last operation of each that this one may read."""
        rows = self._rows(
            f"""
            select machine, name, public, left_at is not null,
                coalesce((select max(seq) from {SCHEMA}.operations where operations.machine = machines.machine), 0)
            from {SCHEMA}.machines order by joined_at, machine
            """
        )
        return [ServerMachine(machine, name, bytes(public), left, last) for machine, name, public, left, last in rows]

    def shares_role(self, name: str) -> bool:
        """Return whether the database cannot tell this member from others, so that row-level security does nothing."""
        row = self._row(_SELECT_IS_SHARED_ROLE, name)
        return bool(row and row[0])

    # ── operations ────────────────────────────────────────────────────────────────────────────────

    def push(self, operations: Sequence[OutgoingOperation]) -> None:
        """Add operations of this machine, all or none."""
        with self._connection.transaction():
            self._execute(
                "create temp table incoming (like backscroll_team.operations including defaults) on commit drop"
            )
            with self._connection.cursor().copy(_COPY) as copy:
                copy.set_types(_COPY_TYPES)
                for (machine, seq, kind, share, digest, signature, body), audience, _ in operations:
                    copy.write_row((machine, seq, kind, share, list(audience), digest, signature, body))
            self._execute(_ADD_COPIED)
            self._push_texts(operations)
            row = self._row(_COUNT_COPIED)
            if row is None or row[0] != len(operations):
                raise Refused(
                    "Another copy of this store has shared something else since. "
                    "Run `backscroll team leave`, then join again."
                )
            self._execute(f"notify {SCHEMA}")

    def _push_texts(self, operations: Sequence[OutgoingOperation]) -> None:
        rows = {
            (operation.share, text.entry): (operation.share, operation.machine, list(audience), *text)
            for operation, audience, texts in operations
            for text in texts
        }
        if not rows:
            return
        self._execute(_CREATE_INCOMING_TEXTS)
        with self._connection.cursor().copy(_COPY_TEXTS) as copy:
            copy.set_types(_TEXT_TYPES)
            for row in rows.values():
                copy.write_row(row)
        self._execute(_ADD_TEXTS)

    def search(self, query: ServerQuery, machine: str, held: Sequence[str], limit: int) -> list[FoundText]:
        """Return the best text of each session that this machine may read, without the shares that it holds."""
        rows = self._rows(_SELECT_TEXTS.format(query=query.sql), *query.values, [machine, EVERYBODY], list(held), limit)
        return list(map(FoundText._make, rows))

    def fetch_after(self, machine: str, seq: int) -> list[Operation]:
        """Return the next operations of a machine after one, as far as this machine may read them."""
        return list(self._fetch(_COPY_AFTER, machine, seq))

    def fetch_share(self, share: str) -> Iterator[Operation]:
        """Yield all operations of one share, first those of its owner.

        Nothing else can be asked of the server until the last one was read.
        """
        return self._fetch(_COPY_SHARE, share)

    def _fetch(self, sql: str, *values: Any) -> Iterator[Operation]:
        with self._connection.cursor() as cursor, cursor.copy(sql, values) as copy:
            copy.set_types(_OPERATION_TYPES)
            for machine, seq, kind, share, digest, signature, body in copy.rows():
                yield Operation(machine, seq, kind, share, digest, signature, TOO_LARGE if body is None else body)

    def change_audience(self, share: str, audience: Sequence[str]) -> None:
        for table in ("operations", "texts"):
            self._execute(f"update {SCHEMA}.{table} set audience = %s where share = %s", list(audience), share)

    def empty_share(self, share: str, machine: str) -> None:
        """Remove the bodies and texts of what this machine pushed for a share. The operations stay."""
        sql = f"update {SCHEMA}.operations set body = '' where share = %s and machine = %s and body <> ''"
        self._execute(sql, share, machine)
        self._execute(f"delete from {SCHEMA}.texts where share = %s and machine = %s", share, machine)

    def wait(self, seconds: float = POLL_SECONDS) -> bool:
        """Wait until another machine has pushed something, or the time is over. Return whether something was pushed.

        A server that cannot notify is asked again after the usual time.
        """
        from psycopg.errors import FeatureNotSupported

        try:
            self._execute(f"listen {SCHEMA}")
        except FeatureNotSupported:
            time.sleep(min(seconds, POLL_SECONDS))
            return True
        return next(self._connection.notifies(timeout=seconds, stop_after=1), None) is not None

    # ── statements ────────────────────────────────────────────────────────────────────────────────

    def _execute(self, sql: Any, *values: Any) -> None:
        self._connection.execute(sql, values or None)

    def _row(self, sql: Any, *values: Any) -> Any:
        return self._connection.execute(sql, values or None).fetchone()

    def _rows(self, sql: Any, *values: Any) -> list[Any]:
        return self._connection.execute(sql, values or None).fetchall()


def parse_address(text: str) -> str:
    """Return the address of a team's database. One with a password is refused: others could read it in a list of
    processes, or in the history of the shell."""
    from store.sources.kit.locator import has_password, hide_password
    from store.sources.kit.postgres import is_postgres_url

    if not is_postgres_url(text):
        raise BadValue(
            f"{hide_password(text)!r} is not the address of a PostgreSQL database. Use postgresql://HOST/NAME."
        )
    if has_password(text):
        raise BadValue(
            "Leave the password out of the address. Set PGPASSWORD, add it to ~/.pgpass, or type it when asked."
        )
    return text
