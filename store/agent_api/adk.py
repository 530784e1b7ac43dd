"""This module keeps google-adk's sessions in a store, so that they are browsed, searched and corrected like all others.

It needs the extra `adk`. State is stored as facts, one for each key, whose scope is the app, the user or the session. A
person sees what an agent remembers and corrects or retires it, and the agent continues with the correction. Changes by
the agent itself are not edits: undo would otherwise find them before the person's own.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import Any
from urllib.parse import quote, unquote
from uuid import uuid4

try:
    from google.adk import sessions as adk
    from google.adk.errors import StaleSessionError
    from google.adk.errors.already_exists_error import AlreadyExistsError
    from google.adk.errors.session_not_found_error import SessionNotFoundError
    from google.adk.events import Event
    from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse
    from pydantic_core import to_jsonable_python
except ImportError as missing:
    raise ImportError("google-adk is not installed. Run `pip install 'backscroll[adk]'`.") from missing

from store.errors import AlreadyExists, NotFound, StoreError
from store.formats.genai import EventParser, find_answered_calls, format_state, parse_state
from store.model.entry import Json, NewRecord
from store.model.identity import join_native_id
from store.model.knowledge import user_scope
from store.model.session import Session
from store.sources.kit.locator import parse_location, url_scheme
from store.sources.kit.sqlite import normalize_time
from store.store import Store
from store.text.validate import decode, encode, utc_timestamp

logger = logging.getLogger(__name__)

SCHEME = "backscroll"
CONNECT_TIMEOUT_SECONDS = 10.0

_APP, _USER, _TEMP = adk.State.APP_PREFIX, adk.State.USER_PREFIX, adk.State.TEMP_PREFIX
_DRIVERS = {"sqlite": "aiosqlite", "postgresql": "asyncpg", "mysql": "aiomysql", "mariadb": "asyncmy"}
"""The drivers for addresses that name none. ADK accepts only asynchronous drivers."""

_SELECT_RECORDS = """
    select record from entries where session = ? and seq >= 0 and key <= ? and created_at >= ?
    group by record order by min(seq) desc
"""
_SELECT_CALLS = """
    select tool_calls.call_id, tool_calls.status, entries.record
    from tool_calls left join entries on entries.key = tool_calls.entry
    where tool_calls.session = ? and tool_calls.call_id in (select value from json_each(?)) order by tool_calls.key
"""
_SELECT_LAST_EVENT = (
    "select records.position from entries join records on records.key = entries.record where entries.key = ?"
)
_UPSERT_FACT = """
    insert into facts (text, scope, category, session, foreign_place, foreign_text, created_at, updated_at)
    values (:text, :scope, 'state', :session, :place, :text, :at, :at)
    on conflict (foreign_place) where foreign_place != '' do update
    set text = excluded.text, foreign_text = excluded.text, updated_at = excluded.updated_at, retired_at = null
"""


# ── choosing a service ────────────────────────────────────────────────────────────────────────────


def session_service(uri: str | None = None) -> adk.BaseSessionService:
    """Return the service that `uri` names, or SESSION_SERVICE_URI if it is None.

    `backscroll:///path` names a store and `backscroll://` the person's own. Any other address is a database for ADK's
    own service. If there is no address, or it cannot be reached, a warning is logged and sessions are kept in memory.
    """
    address = os.environ.get("SESSION_SERVICE_URI", "") if uri is None else uri
    try:
        if not address:
            raise StoreError("SESSION_SERVICE_URI is not set")
        if url_scheme(address) == SCHEME:
            path = unquote(address.removeprefix(f"{SCHEME}://"))
            return StoreSessionService(Store.open(path or None))
        return _connect_database(address)
    except Exception as error:  # a driver may raise anything
        message = str(error).partition("\n")[0].rstrip(".") or type(error).__name__
        logger.warning("%s. Sessions are kept in memory and are lost when this process ends.", message)
        return adk.InMemorySessionService()


def _connect_database(address: str) -> adk.BaseSessionService:
    scheme, _, rest = address.partition("://")
    scheme = {"postgres": "postgresql"}.get(scheme, scheme)
    url = f"{scheme}+{_DRIVERS[scheme]}://{rest}" if scheme in _DRIVERS else address

    async def try_connection() -> None:
        try:
            async with adk.DatabaseSessionService(url) as service:
                await asyncio.wait_for(service.prepare_tables(), CONNECT_TIMEOUT_SECONDS)
        finally:
            # A driver with its own thread reports its end to this loop, and logs an error if the loop is closed.
            await asyncio.sleep(0.1)

    # The caller may run in an event loop, and no connection made here may belong to it. So a thread has its own loop.
    with ThreadPoolExecutor(1) as executor:
        try:
            executor.submit(lambda: asyncio.run(try_connection())).result()
        except Exception as error:
            raise StoreError(f"{parse_location(address).locator} cannot be reached: {type(error).__name__}") from None
    return adk.DatabaseSessionService(url)


# ── the service ───────────────────────────────────────────────────────────────────────────────────


class StoreSessionService(adk.BaseSessionService):
    """Keeps ADK's sessions in a store. The store works in threads, not in the event loop."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._state_facts = _StateFacts(store)
        # A store has one writer at a time anyway, and each append must see the session as the previous one left it.
        self._append_lock = asyncio.Lock()

    async def close(self) -> None:
        await asyncio.to_thread(self.store.close)

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> adk.Session:
        name = session_id or str(uuid4())
        return await asyncio.to_thread(self._create, app_name, user_id, name, state or {})

    def _create(self, app: str, user: str, name: str, state: dict[str, Any]) -> adk.Session:
        values = to_jsonable_python(state, inf_nan_mode="null", fallback=str)
        native_id = join_native_id(app, user, name)
        with self.store.transaction():
            try:
                stored = self.store.sessions.create(
                    _public_id(app, user, name), native_id=native_id, channel=app, channel_id=name, user=user
                )
            except AlreadyExists:
                raise AlreadyExistsError(f"Session with id {name} already exists.") from None
            self._state_facts.apply_delta(stored, values)
            return self._build_session(stored)

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> adk.Session | None:
        return await asyncio.to_thread(self._get, app_name, user_id, session_id, config or GetSessionConfig())

    def _get(self, app: str, user: str, name: str, config: GetSessionConfig) -> adk.Session | None:
        try:
            stored = self.store.sessions.get(_public_id(app, user, name))
        except NotFound:
            return None
        return self._build_session(stored, self._load_events(stored, config))

    def _load_events(self, stored: Session, config: GetSessionConfig) -> list[Event]:
        """Return the newest events that the config asks for, oldest first, up to the tail of the given session."""
        limit, after = config.num_recent_events, config.after_timestamp or 0.0
        events: list[Event] = []
        # The query starts a second earlier, because the column is rounded and the time of the event is not.
        rows = self.store.rows(_SELECT_RECORDS, stored.key, stored.tail, normalize_time(after - 1) if after else "")
        for (record,) in rows:
            if limit is not None and len(events) >= limit:
                break
            event = Event.model_validate_json(self.store.records.get(record))
            if event.timestamp >= after:
                events.append(event)
        return events[::-1]

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        return await asyncio.to_thread(self._list, app_name, user_id)

    def _list(self, app: str, user: str | None) -> ListSessionsResponse:
        """Return the sessions, oldest first. Those in the trash are not listed, but exist until they are purged."""
        prefix = _public_id(app, "") if user is None else _public_id(app, user, "")
        rows = self.store.rows(
            "select id from sessions where id >= ?1 and id < ?1 || char(1114111) and deleted = 0"
            " order by updated_at, user, channel_id",
            prefix,
        )
        return ListSessionsResponse(sessions=[self._build_session(self.store.sessions.get(name)) for (name,) in rows])

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        await asyncio.to_thread(self._delete, _public_id(app_name, user_id, session_id))

    def _delete(self, public_id: str) -> None:
        try:
            self.store.delete_session(public_id)
        except NotFound:
            return

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return await asyncio.to_thread(self._state_facts.load_scope, user_scope(app_name, user_id))

    # ── appending ─────────────────────────────────────────────────────────────────────────────────

    async def append_event(self, session: adk.Session, event: Event) -> Event:
        if event.partial:
            return event
        async with self._append_lock:
            stored = await asyncio.to_thread(self._append, session, event)
            session.last_update_time = _to_epoch(stored.updated_at)
            session._storage_update_marker = str(stored.tail)
            return await super().append_event(session, event)

    def _append(self, session: adk.Session, event: Event) -> Session:
        data = _encode_event(event)
        value = decode(data)
        record = NewRecord(data, "events", event.id)
        with self.store.transaction():
            try:
                stored = self.store.sessions.get(_public_id(session.app_name, session.user_id, session.id))
            except NotFound:
                raise SessionNotFoundError(f"Session {session.id} not found.") from None
            self._refuse_stale(stored, session)
            entries = self._build_event_parser(stored, value).parse_event(
                value, record, normalize_time(event.timestamp)
            )
            self.store.chains.append(stored.key, entries)
            self._state_facts.apply_delta(stored, value["actions"]["state_delta"])
            return self.store.sessions.by_key(stored.key)

    def _refuse_stale(self, stored: Session, session: adk.Session) -> None:
        """Raise an error if the caller has not seen every event that was appended before."""
        marker = session._storage_update_marker
        if marker is not None:
            is_stale = marker != str(stored.tail)
        else:
            (last_event,) = self.store.row(_SELECT_LAST_EVENT, stored.tail)
            last_seen = session.events[-1].id if session.events else ""
            is_stale = _to_epoch(stored.updated_at) > session.last_update_time and last_event != last_seen
        if is_stale:
            raise StaleSessionError("The session has new events since it was loaded. Load it again.")

    def _build_event_parser(self, stored: Session, event: Mapping[str, Json]) -> EventParser:
        """Return a parser that knows what earlier events say about the calls that this event answers."""
        call_ids = find_answered_calls(event)
        rows = self.store.rows(_SELECT_CALLS, stored.key, encode(call_ids).decode()) if call_ids else []
        newest = {call: (status, record) for call, status, record in rows}
        return EventParser(
            long_running=[
                call
                for call, (_, record) in newest.items()
                if record is not None
                and call in decode(self.store.records.get(record)).get("long_running_tool_ids", ())
            ],
            answered=[call for call, (status, _) in newest.items() if status in ("ok", "error")],
        )

    def _build_session(self, stored: Session, events: list[Event] | None = None) -> adk.Session:
        session = adk.Session(
            id=stored.channel_id,
            app_name=stored.channel,
            user_id=stored.user,
            state=self._state_facts.load_session_state(stored),
            events=events or [],
            last_update_time=_to_epoch(stored.updated_at),
        )
        session._storage_update_marker = str(stored.tail)
        return session


class _StateFacts:
    """Stores state as facts. `foreign_place` of a fact holds its scope and key."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def load_session_state(self, session: Session) -> dict[str, Json]:
        """Return everything that the session's agent may see, with ADK's prefixes."""
        state = self.load_scope(f"session:{session.id}")
        for prefix, scope in ((_APP, f"app:{session.channel}"), (_USER, user_scope(session.channel, session.user))):
            state |= {prefix + key: value for key, value in self.load_scope(scope).items()}
        return state

    def load_scope(self, scope: str) -> dict[str, Json]:
        prefix = _fact_place(scope, "")
        rows = self._store.rows(
            "select foreign_place, text from facts where scope = ? and retired_at is null order by id", scope
        )
        texts = {unquote(place.removeprefix(prefix)): text for place, text in rows if place.startswith(prefix)}
        return {key: parse_state(key, text) for key, text in texts.items()}

    def apply_delta(self, session: Session, delta: Mapping[str, Json]) -> None:
        """Write a change of state, in a transaction. Temporary keys belong to one invocation and are not stored."""
        for key, value in delta.items():
            if key.startswith(_TEMP):
                continue
            scope = f"session:{session.id}"
            if key.startswith(_APP):
                scope, key = f"app:{session.channel}", key.removeprefix(_APP)
            elif key.startswith(_USER):
                scope, key = user_scope(session.channel, session.user), key.removeprefix(_USER)
            row = {"text": format_state(key, value), "scope": scope, "session": session.key, "at": utc_timestamp()}
            self._store.connection.execute(_UPSERT_FACT, row | {"place": _fact_place(scope, key)})


def _fact_place(scope: str, key: str) -> str:
    return f"state:{quote(scope, safe='')}/{quote(key, safe='')}"


def _public_id(*names: str) -> str:
    return join_native_id("adk", *names)


def _encode_event(event: Event) -> bytes:
    """Return the event as JSON, without temporary state."""
    delta = {key: value for key, value in event.actions.state_delta.items() if not key.startswith(_TEMP)}
    actions = event.actions.model_copy(update={"state_delta": delta})
    return event.model_copy(update={"actions": actions}).model_dump_json(exclude_none=True).encode()


def _to_epoch(at: str) -> float:
    return datetime.fromisoformat(at).timestamp()
