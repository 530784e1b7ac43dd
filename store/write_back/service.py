"""Carries edits into the store a session came from: shows the exact rows first, backs up, compares, swaps, journals."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from store import sources
from store.database.backup import backup_folder
from store.edits.journal import PendingEdit
from store.errors import ChangedMeanwhile, NotFound, Refused, SecretLocked
from store.model.identity import foreign_session_id
from store.model.knowledge import FOREIGN_TABLE, Change, Fact
from store.model.session import Session
from store.sources.contract import ForeignSummary, Source
from store.sources.kit import postgres
from store.sources.kit.write_plan import (
    FactUpdate,
    RowChange,
    SecretText,
    SecretUpdate,
    SupportsSecrets,
    SupportsWriteBack,
    TextUpdate,
    WriteBackEdits,
    WritePlan,
)
from store.text.validate import utc_timestamp
from store.write_back import postgres as swapping_postgres
from store.write_back import sqlite
from store.write_back.sqlite import WriteBackend

if TYPE_CHECKING:
    from store.store import Store

WRITE_BACK = "write-back"
SEAL = "seal secret"

_SELECT_FACTS = """
    select id, substr(foreign_place, length(?1) + 1), text, foreign_text, retired_at from facts
    where foreign_place >= ?1 and foreign_place < ?1 || char(1114111)
        and (scope not like 'session:%' or scope = 'session:' || ?2)
    order by id
"""
_SELECT_SESSION_FOR_FACT = """
    select key from sessions
    where source_key = ?1 and gone = 0 and relation is not 'superseded'
        and (?2 not like 'session:%' or ?2 = 'session:' || id)
    order by id is not ?3, updated_at desc limit 1
"""


@dataclass(frozen=True, slots=True)
class WriteBackPreview:
    session: Session
    source: str
    locator: str
    edits: WriteBackEdits
    plan: WritePlan
    facts_only: bool = False


class WriteBack:
    def __init__(self, store: Store) -> None:
        self._store = store

    # ── what would change ─────────────────────────────────────────────────────────────────────────

    def preview(self, session: Session, *, facts_only: bool = False) -> WriteBackPreview:
        """Looks into the foreign store and changes nothing."""
        session = self._store.sessions.by_key(session.key)
        source, locator = self._load_origin(session)
        wanted = self._collect_edits(session, facts_only)
        with _backend_for(locator).open_rows(locator) as rows:
            plan = _require_writable(source).plan(rows, wanted)
        return WriteBackPreview(session, source.NAME, locator, wanted, plan, facts_only)

    def preview_facts(self, fact: Fact) -> WriteBackPreview:
        """Of that fact and the others of its foreign store that were corrected here; of no session's title or summary.

        A foreign store is written to through one of its sessions: the one that the fact is of, else any.
        """
        for key, kind, locator in self._store.rows("select key, kind, locator from sources"):
            if fact.foreign_place.startswith(foreign_session_id(kind, "", locator) + "/"):
                return self.preview(self._find_session_for_fact(key, fact), facts_only=True)
        raise Refused("That fact did not come from a foreign store; there is nothing to write back to.")

    def _find_session_for_fact(self, source_key: int, fact: Fact) -> Session:
        row = self._store.row(_SELECT_SESSION_FOR_FACT, source_key, fact.scope, fact.session_id)
        if row is None:
            raise Refused("No session of that fact's store is left through which it could be written back.")
        return self._store.sessions.by_key(row[0])

    def seal(self, session: Session, key: str) -> None:
        """Into our vault what the foreign store holds as plain text; there it stays until it is changed there."""
        source, locator = self._load_origin(session)
        value = None
        if isinstance(source, SupportsSecrets):
            with _backend_for(locator).open_rows(locator) as rows:
                value = source.read_secret(rows, session.native_id, key)
        if not isinstance(value, str):
            raise NotFound(f"{source.LABEL} holds no secret {key!r} of that session.")
        self._store.secrets.set(session, key, value, kind=SEAL)

    def list_unwritten(self, session: Session) -> tuple[str, ...]:
        """What was corrected here and is not known where the session came from; nothing where it came from nowhere."""
        try:
            wanted = self._collect_edits(session)
        except Refused:
            return ()
        facts, secrets = len(wanted.facts), len(wanted.secrets)
        told = {
            "title": wanted.title,
            "summary": wanted.summary,
            f"{facts} fact{'s'[: facts != 1]}": facts,
            f"{secrets} secret{'s'[: secrets != 1]}": secrets,
            "deletion": wanted.delete,
        }
        return tuple(name for name, there in told.items() if there)

    def _load_origin(self, session: Session) -> tuple[Source, str]:
        row = self._store.row("select kind, locator from sources where key = ?", session.source_key or 0)
        source = sources.load_source(row[0]) if row else None
        if session.relation == "superseded":
            raise Refused("That is what the program told once; write back the session as it tells it now.")
        if source is None:
            raise Refused("That session did not come from a foreign store; there is nothing to write back to.")
        return source, row[1]

    def _collect_edits(self, session: Session, facts_only: bool = False) -> WriteBackEdits:
        facts = tuple(fact for _, fact in self._collect_facts(session))
        if facts_only:
            return WriteBackEdits(native_id=session.native_id, facts=facts)
        title = None
        if session.own_title and session.own_title != session.agent_title:
            title = TextUpdate(session.own_title, session.agent_title)
        summary, seen = self._collect_summary(session)
        return WriteBackEdits(
            native_id=session.native_id,
            title=title,
            summary=summary,
            summary_seen=seen,
            facts=facts,
            secrets=tuple(self._collect_secrets(session)),
            delete=bool(session.deleted),
        )

    def _collect_summary(self, session: Session) -> tuple[ForeignSummary | None, str]:
        current = self._store.summaries.current(session)
        told = next((old for old in self._store.summaries.history(session) if old.origin == "source"), None)
        if current is None:
            return (ForeignSummary(""), told.text) if told else (None, "")
        seen = told.text if told else ""
        if current.text == seen and (not told or current.up_to_turn in (None, told.up_to_turn)):
            return None, seen
        return ForeignSummary(current.text, current.up_to_turn), seen

    def _collect_facts(self, session: Session) -> Iterator[tuple[int, FactUpdate]]:
        """With their numbers. Those of the whole foreign store but for other sessions' own: most belong to no one."""
        for number, place, text, told, retired in self._store.rows(
            _SELECT_FACTS, self._fact_prefix(session), session.id
        ):
            if retired is not None or text != told:
                yield number, FactUpdate(place, None if retired is not None else text, told)

    def _fact_prefix(self, session: Session) -> str:
        """Of the places of that foreign store's facts."""
        source, locator = self._load_origin(session)
        return foreign_session_id(source.NAME, "", locator) + "/"

    def _collect_secrets(self, session: Session) -> Iterator[SecretUpdate]:
        """But for those of which the foreign store knows: what becomes of them there is its owner's affair."""
        names = self._store.secrets.names(session)
        known = self._load_foreign_versions(session) if names else {}
        for name in names:
            seen = known.get(name.key)
            if name.version != seen:
                known_opener = self._secret_reader(session, name.key, seen) if seen else None
                yield SecretUpdate(
                    name.key, name.version, self._secret_reader(session, name.key, name.version), known_opener
                )

    def _secret_reader(self, session: Session, key: str, version: int) -> Callable[[], SecretText]:
        return lambda: SecretText(self._store.secrets.get(session, key, version), key, version)

    def _load_foreign_versions(self, session: Session) -> dict[str, int]:
        """By key, the version that the foreign store held last, as far as we know: it came from there or went there."""
        known: dict[str, int] = {}
        for edit in reversed(self._store.journal.list_edits(session.key, limit=-1)):
            if edit.kind not in (SEAL, WRITE_BACK) or edit.undone_by is not None:
                continue
            for change in edit.changes:
                for value in (change.after or {}).values():
                    match change.table, change.key, value:
                        case ("secrets", [_, key, version], 1) | (_, _, {"$secret": [_, key, version]}):
                            known[key] = version
        return known

    # ── doing it ──────────────────────────────────────────────────────────────────────────────────

    def write(self, preview: WriteBackPreview) -> Path | None:
        """Carries the plan out, if everything is still as the plan saw it. Gives the backup that was taken."""
        plan = preview.plan
        if plan.conflicts:
            raise ChangedMeanwhile(plan.conflicts[0], plan.conflicts)
        if not plan.changes:
            return None
        self._refuse_locked(plan.changes)
        self._refuse_outdated_deletion(preview)
        backup = self._back_up(preview.source, preview.locator, plan.changes)
        carrying = self._prepare_swap(preview.source, preview.locator, plan.changes)
        with carrying as carry, self._store.journal.edit(WRITE_BACK, preview.session.key) as edit:
            session = self._store.sessions.by_key(preview.session.key)
            if self._collect_edits(session, preview.facts_only) != preview.edits:
                raise ChangedMeanwhile(
                    "The session was edited here meanwhile; look again at what would be written.", []
                )
            for change in plan.changes:
                edit.add_foreign_change(self._build_journal_change(preview, change))
            self._mark_written(preview, session, edit)
            # Last, so that whatever fails before it has touched nothing of theirs.
            carry()
        return backup

    def _refuse_outdated_deletion(self, preview: WriteBackPreview) -> None:
        """Where no foreign key holds it, what was said since it was shown would stay behind alone."""
        if preview.edits.delete:
            again = self.preview(preview.session)
            if again.edits == preview.edits and again.plan != preview.plan:
                raise ChangedMeanwhile("More was said there meanwhile; look again at what would be deleted.", again)

    def _refuse_locked(self, changes: Sequence[RowChange]) -> None:
        secret = any(isinstance(value, SecretText) for change in changes for value in (change.before or {}).values())
        if secret and self._store.secrets.is_locked:
            raise SecretLocked()

    def _back_up(self, source: str, locator: str, changes: Sequence[RowChange]) -> Path:
        """Refused first where nobody else may have the file open: then there is no need of one."""
        if not _require_writable(sources.load_source(source)).LIVE_WRITES:
            sqlite.refuse_while_open(locator)
        return _backend_for(locator).back_up(self._backup_folder, _backup_name(source, locator), locator, changes)

    def list_backups(self, source: str, locator: str) -> list[Path]:
        """Of a foreign store from before it was written to, newest first."""
        return sqlite.list_backups(self._backup_folder, _backup_name(source, locator))

    @property
    def _backup_folder(self) -> Path:
        return backup_folder(self._store.path) / "foreign"

    @contextmanager
    def _prepare_swap(self, source: str, locator: str, changes: Sequence[RowChange]) -> Iterator[Callable[[], None]]:
        """Gives what swaps the rows there; they are put back should our own transaction fail after all."""
        alone = not _require_writable(sources.load_source(source)).LIVE_WRITES
        carried = False

        def carry() -> None:
            nonlocal carried
            _backend_for(locator).swap_rows(locator, changes, exclusive=alone)
            carried = True

        try:
            yield carry
        except BaseException:
            if carried:
                back = [change.inverted() for change in reversed(changes)]
                _backend_for(locator).swap_rows(locator, back, exclusive=alone)
            raise

    def _mark_written(self, preview: WriteBackPreview, session: Session, edit: PendingEdit) -> None:
        """What was carried over is now what the source says, too: the next sync finds nothing new in it."""
        wanted, plan = preview.edits, preview.plan
        if wanted.delete:
            edit.update("sessions", session.key, gone=1)
        if wanted.title and plan.has_title:
            edit.update("sessions", session.key, agent_title=wanted.title.new)
        if plan.summary and plan.summary.text:
            told = {"text": plan.summary.text, "up_to_turn": plan.summary.up_to_turn, "origin": "source"}
            edit.insert("summaries", session=session.key, current=0, created_at=utc_timestamp(), **told)
        placed = [(number, fact) for number, fact in self._collect_facts(session) if fact.place in plan.fact_places]
        prefix = self._fact_prefix(session)
        for number, fact in placed:
            # No two facts may have one place, not even while they change places.
            if plan.fact_places[fact.place] != fact.place:
                edit.update("facts", number, foreign_place="")
        for number, fact in placed:
            if place := plan.fact_places[fact.place]:
                words = plan.fact_texts.get(fact.place)
                edit.update("facts", number, foreign_text=words or fact.text, foreign_place=prefix + place)
                if words:
                    edit.update("facts", number, text=words)
            else:
                edit.update("facts", number, retired_at=utc_timestamp())

    # ── the journal ───────────────────────────────────────────────────────────────────────────────

    def _build_journal_change(self, preview: WriteBackPreview, change: RowChange) -> Change:
        session = preview.session
        where = {"source": preview.source, "locator": preview.locator, "table": change.table}
        sides = (self._encode_row(session, side) for side in (change.before, change.after))
        return Change(FOREIGN_TABLE, {**where, "key": self._encode_row(session, change.key)}, *sides)

    def _encode_row(self, session: Session, columns: Mapping[str, Any] | None) -> dict[str, Any] | None:
        if columns is None:
            return None
        return {name: self._encode_value(session, value) for name, value in columns.items()}

    def _encode_value(self, session: Session, value: Any) -> Any:
        """What JSON cannot spell by its kind; a secret by its sealed version, never by its value."""
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
    def prepare_undo(self, changes: Sequence[Change]) -> Iterator[Callable[[], None]]:
        """Around an undo: gives what makes the foreign rows as they were, if they still are as we left them."""
        where = cast("dict[str, Any]", changes[0].key)
        back = [self._invert_change(change) for change in reversed(changes)]
        self._back_up(where["source"], where["locator"], back)
        with self._prepare_swap(where["source"], where["locator"], back) as carry:
            yield carry

    def _invert_change(self, change: Change) -> RowChange:
        where = cast("dict[str, Any]", change.key)
        key, before, after = map(self._decode_row, (where["key"], change.after, change.before))
        return RowChange(where["table"], key or {}, before, after)

    def _decode_row(self, columns: Mapping[str, Any] | None) -> dict[str, Any] | None:
        return None if columns is None else {name: self._decode_value(value) for name, value in columns.items()}


def _require_writable(source: Source | None) -> SupportsWriteBack:
    if isinstance(source, SupportsWriteBack):
        return source
    raise Refused(f"{source.LABEL if source else 'That program'} takes no edits back; they stay here.")


def _backend_for(locator: str) -> WriteBackend:
    return swapping_postgres if postgres.is_postgres_url(locator) else sqlite


def _backup_name(source: str, locator: str) -> str:
    """Of a foreign store, in a file's name."""
    return foreign_session_id(source, "", locator).replace(":", "")
