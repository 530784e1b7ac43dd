"""Imports what agents remember beyond a conversation: facts, published files and the names of secrets.

A fact that a person corrected here keeps the correction. The text of its source is stored next to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from store.model.identity import foreign_session_id
from store.sources.contract import ForeignFact, ForeignFile, ForeignSecret
from store.text.validate import replace_surrogates, utc_timestamp

if TYPE_CHECKING:
    from store.store import Store

_SELECT_FACTS = """
    select id, text, foreign_text, foreign_place, category, retired_at from facts
    where foreign_place >= ?1 and foreign_place < ?1 || char(1114111)
"""

_DROPPED = ""
"""Replaces the source's text of a fact that the source dropped. If the source has the fact again, it is restored."""


class KnowledgeImport:
    """Imports the facts, secrets and published files of one foreign store."""

    def __init__(self, store: Store, source: str, store_identity: str, source_key: int) -> None:
        self._store = store
        self._source_key = source_key
        self._identity = foreign_session_id(source, "", store_identity)
        self._prefix = f"{self._identity}/"

    def import_facts(self, facts: Iterable[ForeignFact]) -> None:
        stored = {row[3]: row for row in self._store.rows(_SELECT_FACTS, self._prefix)}
        sessions = self._load_session_keys()
        seen: set[str] = set()
        with self._store.transaction(durable=False):
            for fact in facts:
                place = self._prefix + fact.place
                seen.add(place)
                if place not in stored:
                    self._insert_fact(fact, place, sessions.get(fact.native_session))
                elif replace_surrogates(fact.text) != stored[place][2]:
                    self._update_fact(fact, stored[place])
            for place, (fact_id, text, foreign_text, _, _, retired) in stored.items():
                if place not in seen and retired is None and text == foreign_text:
                    self._set_columns(fact_id, retired_at=utc_timestamp(), foreign_text=_DROPPED)

    def _load_session_keys(self) -> dict[str, int]:
        rows = self._store.rows("select native_id, key from sessions where source_key = ?", self._source_key)
        return dict(rows)

    def _build_scope(self, fact: ForeignFact, session: int | None) -> str:
        """Return a scope with the identity of the foreign store, so that no user of another store gets its facts."""
        if fact.scope == "session":
            return f"session:{self._store.sessions.by_key(session).id}" if session else self._source_scope
        return self._source_scope if fact.scope == "source" else f"{replace_surrogates(fact.scope)}@{self._identity}"

    @property
    def _source_scope(self) -> str:
        return f"source:{self._identity}"

    def _insert_fact(self, fact: ForeignFact, place: str, session: int | None) -> None:
        created_at = fact.created_at or utc_timestamp()
        self._store.connection.execute(
            """
            insert into facts (text, scope, category, session, foreign_place, foreign_text, created_at, updated_at)
            values (?, ?, ?, ?, ?, ?, ?, ?)
            """,
            (
                replace_surrogates(fact.text),
                self._build_scope(fact, session),
                replace_surrogates(fact.category),
                session,
                place,
                replace_surrogates(fact.text),
                created_at,
                fact.updated_at or created_at,
            ),
        )

    def _update_fact(self, fact: ForeignFact, row: tuple[int, str, str, str, str, str | None]) -> None:
        fact_id, text, foreign_text, *_ = row
        new_text = replace_surrogates(fact.text)
        if foreign_text in (text, _DROPPED):
            self._set_columns(
                fact_id,
                text=new_text,
                foreign_text=new_text,
                retired_at=None,
                updated_at=fact.updated_at or utc_timestamp(),
            )
        else:
            self._set_columns(fact_id, foreign_text=new_text)

    def _set_columns(self, fact_id: int, **columns: str | None) -> None:
        assignments = ", ".join(f"{name} = :{name}" for name in columns)
        self._store.connection.execute(f"update facts set {assignments} where id = :id", columns | {"id": fact_id})

    def import_secrets(self, secrets: Iterable[ForeignSecret]) -> None:
        sessions = self._load_session_keys()
        found = {
            (sessions[secret.native_session], replace_surrogates(secret.key)): secret
            for secret in secrets
            if secret.native_session in sessions
        }
        stored = set(
            self._store.rows(
                """
                select foreign_secrets.session, foreign_secrets.key from foreign_secrets
                join sessions on sessions.key = foreign_secrets.session where sessions.source_key = ?
                """,
                self._source_key,
            )
        )
        if stored == found.keys():
            return
        with self._store.transaction(durable=False) as connection:
            connection.executemany("delete from foreign_secrets where session = ? and key = ?", stored - found.keys())
            connection.executemany(
                "insert into foreign_secrets (session, key, place, created_at) values (?, ?, ?, ?)",
                [
                    (*session_and_key, replace_surrogates(secret.place), secret.created_at or utc_timestamp())
                    for session_and_key, secret in found.items()
                    if session_and_key not in stored
                ],
            )

    def import_published(self, files: Iterable[ForeignFile]) -> None:
        """Import files under the ids that their agent gave them. Each request checks whether one may be served."""
        sessions = self._load_session_keys()
        known_ids = {file_id for (file_id,) in self._store.rows("select id from published")}
        new_rows = [
            (
                file.id,
                sessions[file.native_session],
                replace_surrogates(file.filename),
                file.path,
                file.created_at or utc_timestamp(),
            )
            for file in files
            if file.id and file.id not in known_ids and file.native_session in sessions
        ]
        if new_rows:
            with self._store.transaction(durable=False) as connection:
                connection.executemany(
                    "insert into published (id, session, filename, path, created_at) values (?, ?, ?, ?, ?)", new_rows
                )
