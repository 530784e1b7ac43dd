"""This module writes edits back to the store a session came from: preview, back up, compare, swap, journal."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from store import sources
from store.database.backup import backup_folder
from store.edits.journal import PendingEdit
from store.errors import ChangedMeanwhile, NotFound, Refused, SecretLocked, StoreError, Unreadable
from store.model.identity import foreign_session_id
from store.model.knowledge import FOREIGN_TABLE, Change, Fact
from store.model.session import Session
from store.sources.contract import ForeignSummary, Source
from store.sources.kit.postgres import ConnectionLost, is_postgres_url
from store.sources.kit.write_plan import (
    FactUpdate,
    RowChange,
    SecretText,
    SecretUpdate,
    TextUpdate,
    WriteBackEdits,
    WritePlan,
)
from store.text.validate import utc_timestamp
from store.write_back import files, postgres, sqlite
from store.write_back.intentions import Intention, open_unfinished, write_intention
from store.write_back.sqlite import RowSwapper, WriteBackend

if TYPE_CHECKING:
    from store.store import Store

WRITE_BACK = "write-back"
SEAL = "seal secret"

_NO_WRITE_BACK = "{} takes no edits back. They stay in Backscroll."

_SELECT_FACTS = """
    select id, substr(foreign_place, length(?1) + 1), text, foreign_text, retired_at from facts
    where foreign_place >= ?1 and foreign_place < ?1 || char(1114111)
        and (scope not like 'session:%' or scope = 'session:' || ?2)
    order by id
"""
_SELECT_IDENTITIES = "select key, kind, coalesce(json_extract(marks, '$.identity'), locator) from sources"
_SELECT_SESSION_FOR_FACT = """
    select key from sessions
    where source_key = ?1 and gone = 0 and relation is not 'superseded'
        and (?2 not like 'session:%' or ?2 = 'session:' || id)
    order by id is not ?3, updated_at desc limit 1
"""


@dataclass(frozen=True, slots=True)
class WriteBackPreview:
    """Describes what a write-back would change: the edits, and the planned rows of the foreign store."""

    session: Session
    source: str
    locator: str
    edits: WriteBackEdits
    plan: WritePlan
    facts_only: bool = False
    "Is True if only facts are written, and not the title, summary or secrets of the session."


class WriteBack:
    """Writes edits back to foreign stores. It is the collection `store.write_back`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # ── preview ───────────────────────────────────────────────────────────────────────────────────

    def preview(self, session: Session, *, facts_only: bool = False) -> WriteBackPreview:
        """Plan the write-back of a session. The foreign store is only read."""
        session = self._store.sessions.by_key(session.key)
        source, locator = self._load_origin(session)
        edits = self._collect_edits(session, facts_only)
        backend = _backend_for(locator)
        with _named_refusal(source), backend.open_rows(locator) as rows:
            plan = _require_writable(source).plan_write_back(rows, edits)
            plan.normalize_changes(rows)
            triggers = rows.triggers(plan.changes)
        if triggers:
            plan.conflicts += backend.find_side_effects(locator, plan.changes, triggers)
        return WriteBackPreview(session, source.name, locator, edits, plan, facts_only)

    def preview_facts(self, fact: Fact) -> WriteBackPreview:
        """Plan the write-back of a fact and of all other edited facts of the same foreign store.

        A foreign store is written to through one of its sessions: that of the fact, or else any.
        """
        for key, prefix in self._list_fact_prefixes():
            if fact.foreign_place.startswith(prefix):
                return self.preview(self._find_session_for_fact(key, fact), facts_only=True)
        raise Refused("This fact was not synced from an agent's store.")

    def _find_session_for_fact(self, source_key: int, fact: Fact) -> Session:
        row = self._store.row(_SELECT_SESSION_FOR_FACT, source_key, fact.scope, fact.session_id)
        if row is None:
            raise Refused("The fact cannot be written back, because its store has no sessions left here.")
        return self._store.sessions.by_key(row[0])

    def seal(self, session: Session, key: str) -> None:
        """Copy a secret that the foreign store has as plain text into our vault. The plain text stays there."""
        self._store.secrets.set(session, key, self.read_exposed(session, key), kind=SEAL)

    def read_exposed(self, session: Session, key: str) -> str:
        """Return a secret that the foreign store has as plain text, as it is there now. Nothing of it is stored."""
        source, locator = self._load_origin(session)
        with _backend_for(locator).open_rows(locator) as rows:
            value = source.read_secret(rows, session.native_id, key)
        if not isinstance(value, str):
            raise NotFound(f"{source.label} has no secret {key!r} of this session.")
        return value

    def list_unwritten(self, session: Session) -> tuple[str, ...]:
        """Name the edits that were not written back, such as `title` or `2 facts`; none if there is no source."""
        try:
            edits = self._collect_edits(session)
        except Refused:
            return ()
        facts, secrets = len(edits.facts), len(edits.secrets)
        edited = {
            "title": edits.title,
            "summary": edits.summary,
            f"{facts} fact{'s'[: facts != 1]}": facts,
            f"{secrets} secret{'s'[: secrets != 1]}": secrets,
            "deletion": edits.delete,
        }
        return tuple(name for name, value in edited.items() if value)

    def _load_origin(self, session: Session) -> tuple[Source, str]:
        row = self._store.row("select kind, locator from sources where key = ?", session.source_key or 0)
        source = sources.load_source(row[0]) if row else None
        if session.relation == "superseded":
            raise Refused("This is an old version of a session. Write back the current one.")
        if source is None:
            raise Refused("This session was not synced from an agent's store.")
        return source, row[1]

    def _collect_edits(self, session: Session, facts_only: bool = False) -> WriteBackEdits:
        facts = tuple(fact for _, fact in self._collect_facts(session))
        if facts_only:
            return WriteBackEdits(native_id=session.native_id, facts=facts)
        title = None
        if session.own_title and session.own_title != session.agent_title:
            title = TextUpdate(session.own_title, session.agent_title)
        summary, source_summary = self._collect_summary(session)
        return WriteBackEdits(
            native_id=session.native_id,
            title=title,
            summary=summary,
            summary_seen=source_summary,
            facts=facts,
            secrets=tuple(self._collect_secrets(session)),
            delete=bool(session.deleted),
        )

    def _collect_summary(self, session: Session) -> tuple[ForeignSummary | None, str]:
        """Return the summary to write, or None, and the text that the source had at the last sync."""
        current = self._store.summaries.current(session)
        versions = self._store.summaries.history(session)
        from_source = next((version for version in versions if version.origin == "source"), None)
        if current is None:
            return (ForeignSummary(""), from_source.text) if from_source else (None, "")
        source_text = from_source.text if from_source else ""
        if current.text == source_text and (not from_source or current.up_to_turn in (None, from_source.up_to_turn)):
            return None, source_text
        return ForeignSummary(current.text, current.up_to_turn), source_text

    def _collect_facts(self, session: Session) -> Iterator[tuple[int, FactUpdate]]:
        """Yield each edited fact with its number: all of the foreign store, except those of other sessions."""
        rows = self._store.rows(_SELECT_FACTS, self._fact_prefix(session), session.id)
        for number, place, text, foreign_text, retired_at in rows:
            if retired_at is not None or text != foreign_text:
                yield number, FactUpdate(place, None if retired_at is not None else text, foreign_text)

    def _fact_prefix(self, session: Session) -> str:
        """Return how the places of all facts of the session's foreign store begin."""
        self._load_origin(session)
        return dict(self._list_fact_prefixes())[session.source_key or 0]

    def _list_fact_prefixes(self) -> Iterator[tuple[int, str]]:
        """Yield the key of each foreign store, and how the places of its facts begin."""
        for key, kind, identity in self._store.rows(_SELECT_IDENTITIES):
            yield key, foreign_session_id(kind, "", identity) + "/"

    def _collect_secrets(self, session: Session) -> Iterator[SecretUpdate]:
        """Yield each secret whose newest version is not the one that the foreign store has."""
        names = self._store.secrets.names(session)
        versions = self._load_foreign_versions(session) if names else {}
        for name in names:
            foreign_version = versions.get(name.key)
            if name.version != foreign_version:
                read_foreign = self._secret_reader(session, name.key, foreign_version) if foreign_version else None
                read_new = self._secret_reader(session, name.key, name.version)
                yield SecretUpdate(name.key, name.version, read_new, read_foreign)

    def _secret_reader(self, session: Session, key: str, version: int) -> Callable[[], SecretText]:
        return lambda: SecretText(self._store.secrets.get(session, key, version), key, version)

    def _load_foreign_versions(self, session: Session) -> dict[str, int]:
        """Return the version of each secret that the foreign store has, according to the journal."""
        versions: dict[str, int] = {}
        for edit in reversed(self._store.journal.list_edits(session.key, limit=-1)):
            if edit.kind not in (SEAL, WRITE_BACK) or edit.undone_by is not None:
                continue
            for change in edit.changes:
                for value in (change.after or {}).values():
                    match change.table, change.key, value:
                        case ("secrets", [_, key, version], 1) | (_, _, {"$secret": [_, key, version]}):
                            versions[key] = version
        return versions

    # ── write ─────────────────────────────────────────────────────────────────────────────────────

    def write(self, preview: WriteBackPreview) -> Path | None:
        """Write the planned changes, if nothing has changed since the preview. Return the path of the backup."""
        self._store.settle_write_backs()
        plan = preview.plan
        if plan.conflicts:
            raise ChangedMeanwhile(plan.conflicts[0], plan.conflicts)
        if not plan.changes:
            return None
        self._refuse_locked(plan.changes)
        self._refuse_outdated_deletion(preview)
        backup = self._back_up(preview.source, preview.locator, plan.changes)
        prepared = self._prepare_swap(preview.source, preview.locator, plan.changes)
        with prepared as swap, self._store.journal.edit(WRITE_BACK, preview.session.key) as edit:
            session = self._store.sessions.by_key(preview.session.key)
            if self._collect_edits(session, preview.facts_only) != preview.edits:
                raise ChangedMeanwhile(
                    "The session was edited here since the preview. Preview the write-back again.", []
                )
            for change in plan.changes:
                edit.add_foreign_change(self._build_journal_change(preview, change))
            self._mark_written(preview, session, edit)
            # The swap comes last, so that an earlier failure leaves the foreign store untouched.
            swap(edit)
        return backup

    def write_files(self, kind: str, changes: Sequence[RowChange], record: Callable[[PendingEdit], None]) -> Path:
        """Write text files of agents in one edit, if they are as they were read. Return the path of the backup.

        `record` adds to the edit what changes in our own store.
        """
        self._store.settle_write_backs()
        locator = changes[0].key["path"]
        backup = self._back_up(files.FILES_SOURCE, locator, changes)
        prepared = self._prepare_swap(files.FILES_SOURCE, locator, changes)
        with prepared as swap, self._store.journal.edit(kind) as edit:
            for change in changes:
                origin = {"source": files.FILES_SOURCE, "locator": change.key["path"], "table": change.table}
                key = {**origin, "key": dict(change.key)}
                edit.add_foreign_change(Change(FOREIGN_TABLE, key, _as_dict(change.before), _as_dict(change.after)))
            record(edit)
            swap(edit)
        return backup

    def _refuse_outdated_deletion(self, preview: WriteBackPreview) -> None:
        """Refuse to delete a session that has grown since the preview: the new rows would lose their session."""
        if preview.edits.delete:
            new_preview = self.preview(preview.session)
            if new_preview.edits == preview.edits and new_preview.plan != preview.plan:
                raise ChangedMeanwhile(
                    "The session has new entries since the preview. Preview the deletion again.", new_preview
                )

    def _refuse_locked(self, changes: Sequence[RowChange]) -> None:
        old_values = [value for change in changes for value in (change.before or {}).values()]
        has_secret = any(isinstance(value, SecretText) for value in old_values)
        if has_secret and self._store.secrets.is_locked:
            raise SecretLocked()

    def _back_up(self, source: str, locator: str, changes: Sequence[RowChange]) -> Path:
        """Back up the foreign store, unless another program has it open and that is not allowed."""
        if not _allows_live_writes(source):
            sqlite.refuse_while_open(locator)
        return _swapper_for(source, locator).back_up(
            self._backup_folder, _backup_name(source, locator), locator, changes
        )

    def list_backups(self, source: str, locator: str) -> list[Path]:
        """Return the backups of a foreign store, newest first."""
        return sqlite.list_backups(self._backup_folder, _backup_name(source, locator))

    @property
    def _backup_folder(self) -> Path:
        return backup_folder(self._store.path) / "foreign"

    @contextmanager
    def _prepare_swap(
        self, source: str, locator: str, changes: Sequence[RowChange]
    ) -> Iterator[Callable[[PendingEdit], None]]:
        """Yield a function that swaps the rows. If our own transaction fails after the swap, the rows are restored.

        What is intended is written to a file meanwhile. If this process is killed, the connection is lost, or the rows
        cannot be restored, the next one that opens the store settles it.
        """
        exclusive, swapper = not _allows_live_writes(source), _swapper_for(source, locator)
        intention: Intention | None = None
        is_swapped = False

        def swap(edit: PendingEdit) -> None:
            nonlocal intention, is_swapped
            intention = write_intention(self._store, edit)
            swapper.swap_rows(locator, changes, exclusive=exclusive)
            is_swapped = True

        try:
            try:
                yield swap
            except ConnectionLost:
                raise  # it is not known whether the rows were swapped, and the next start finds out
            except BaseException:
                if is_swapped:
                    inverted = [change.inverted() for change in reversed(changes)]
                    swapper.swap_rows(locator, inverted, exclusive=exclusive)
                if intention is not None:
                    intention.delete()
                raise
            if intention is not None:
                intention.delete()
        finally:
            if intention is not None:
                intention.close()

    def settle(self) -> None:
        """Finish the write-backs that a kill interrupted after the foreign store was written, and forget the others.

        If the foreign store cannot be read now, or a secret is locked, it is tried again the next time.
        """
        for intention in open_unfinished(self._store):
            with suppress(StoreError):
                with self._store.transaction():
                    self._settle(intention)
                intention.delete()

    def _settle(self, intention: Intention) -> None:
        if self._store.journal.has_edit(intention.changes, after=intention.newest_edit):
            return
        restored = [row for row in intention.sealed if self._restore_sealed(row)]
        if self._was_written(intention.foreign_changes):
            self._store.journal.repeat(intention.kind, intention.sessions, intention.undoes, intention.changes)
            return
        for session, key, version, *_ in restored:
            self._store.connection.execute(
                "delete from secrets where session = ? and key = ? and version = ?", (session, key, version)
            )

    def _restore_sealed(self, row: Sequence[Any]) -> bool:
        """Restore a sealed secret that was lost with the transaction. Return whether it was."""
        inserted = self._store.connection.execute(
            "insert or ignore into secrets (session, key, version, sealed, created_at) values (?, ?, ?, ?, ?)", row
        )
        return inserted.rowcount > 0

    def _was_written(self, changes: Sequence[Change]) -> bool:
        """Return whether the foreign store has a row as one of the changes leaves it.

        All were written at once or none, and the agent may have changed some of the rows since.
        """
        origin = cast("dict[str, Any]", changes[0].key)
        planned = [self._decode_change(change) for change in changes]
        if origin["source"] == files.FILES_SOURCE:
            return files.complete(planned)
        with _backend_for(origin["locator"]).open_rows(origin["locator"]) as rows:
            return any(
                rows.has_content(change.table, rows.look_up(change.table, change.key), change.after)
                for change in planned
            )

    def _mark_written(self, preview: WriteBackPreview, session: Session, edit: PendingEdit) -> None:
        """Record that the source has the written values, so that the next sync finds nothing new."""
        edits, plan = preview.edits, preview.plan
        if edits.delete:
            edit.update("sessions", session.key, gone=1)
        if edits.title and plan.has_title:
            edit.update("sessions", session.key, agent_title=edits.title.new)
        if plan.summary and plan.summary.text:
            written = {"text": plan.summary.text, "up_to_turn": plan.summary.up_to_turn, "origin": "source"}
            edit.insert("summaries", session=session.key, current=0, created_at=utc_timestamp(), **written)
        facts = [(number, fact) for number, fact in self._collect_facts(session) if fact.place in plan.fact_places]
        prefix = self._fact_prefix(session)
        for number, fact in facts:
            # Places are unique, so free them first: two facts may exchange their places.
            if plan.fact_places[fact.place] != fact.place:
                edit.update("facts", number, foreign_place="")
        for number, fact in facts:
            if place := plan.fact_places[fact.place]:
                text = plan.fact_texts.get(fact.place)
                edit.update("facts", number, foreign_text=text or fact.text, foreign_place=prefix + place)
                if text:
                    edit.update("facts", number, text=text)
            else:
                edit.update("facts", number, retired_at=utc_timestamp())

    # ── the journal ───────────────────────────────────────────────────────────────────────────────

    def _build_journal_change(self, preview: WriteBackPreview, change: RowChange) -> Change:
        session = preview.session
        origin = {"source": preview.source, "locator": preview.locator, "table": change.table}
        sides = (self._encode_row(session, columns) for columns in (change.before, change.after))
        return Change(FOREIGN_TABLE, {**origin, "key": self._encode_row(session, change.key)}, *sides)

    def _encode_row(self, session: Session, columns: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if columns is None:
            return None
        return {name: self._encode_value(session, value) for name, value in columns.items()}

    def _encode_value(self, session: Session, value: Any) -> Any:
        """Encode a value as JSON: bytes and special floats with their type, a secret as its sealed version."""
        if isinstance(value, SecretText):
            version = value.version or self._store.secrets.seal_version(session, value.key, str(value))
            return {"$secret": [session.id, value.key, version]}
        if isinstance(value, bytes):
            return {"$base64": base64.b64encode(value).decode()}
        if isinstance(value, float) and not isfinite(value):
            return {"$float": str(value)}
        return value

    def _decode_value(self, value: Any) -> Any:
        match value:
            case {"$secret": [session_id, key, version]}:
                session = self._store.sessions.get(session_id)
                return SecretText(self._store.secrets.get(session, key, version), key, version)
            case {"$base64": text}:
                return base64.b64decode(text)
            case {"$float": text}:
                return float(text)
        return value

    @contextmanager
    def prepare_undo(self, changes: Sequence[Change]) -> Iterator[Callable[[PendingEdit], None]]:
        """Yield a function for an undo: it restores the foreign rows if they are unchanged since the write-back."""
        origin = cast("dict[str, Any]", changes[0].key)
        inverted = [self._decode_change(change).inverted() for change in reversed(changes)]
        self._back_up(origin["source"], origin["locator"], inverted)
        with self._prepare_swap(origin["source"], origin["locator"], inverted) as swap:
            yield swap

    def _decode_change(self, change: Change) -> RowChange:
        row = cast("dict[str, Any]", change.key)
        key, before, after = map(self._decode_row, (row["key"], change.before, change.after))
        return RowChange(row["table"], key or {}, before, after)

    def _decode_row(self, columns: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return None if columns is None else {name: self._decode_value(value) for name, value in columns.items()}


def _as_dict(columns: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if columns is None else dict(columns)


@contextmanager
def _named_refusal(source: Source) -> Iterator[None]:
    """Say that a source takes no edits back, where it cannot even be opened for them. The kind of error stays."""
    try:
        yield
    except Unreadable:
        if source.can_write_back:
            raise
        raise Unreadable(_NO_WRITE_BACK.format(source.label)) from None


def _require_writable(source: Source | None) -> Source:
    if source is not None and source.can_write_back:
        return source
    raise Refused(_NO_WRITE_BACK.format(source.label if source else "This source"))


def _allows_live_writes(source: str) -> bool:
    return source == files.FILES_SOURCE or _require_writable(sources.load_source(source)).allows_live_writes


def _swapper_for(source: str, locator: str) -> RowSwapper:
    return files if source == files.FILES_SOURCE else _backend_for(locator)


def _backend_for(locator: str) -> WriteBackend:
    return postgres if is_postgres_url(locator) else sqlite


def _backup_name(source: str, locator: str) -> str:
    """Return what names a foreign store in the file names of its backups."""
    return foreign_session_id(source, "", locator).replace(":", "")
