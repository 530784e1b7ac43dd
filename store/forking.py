"""Another way from some turn on: a new session that shares the past, in our store or as a transcript of its agent's.

In our store a fork is one edit. It is made in the trash and taken out of it, so that undo, which puts every row back as
it was, moves it there: entries are only ever appended, and what was said in the fork since is not lost.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from store import sources
from store.chains import parts_of
from store.clean import one_line
from store.coding import encode, exact_text
from store.deriving import shown_prompt
from store.errors import BadValue, Busy, NotFound, Refused
from store.locating import place_of
from store.model import NewEntry, Part, Session, Text, ToolResult, foreign_id, part_to_json
from store.refreshing import Target, sync, targets
from store.sources.shape import INTERRUPTED, Forking, NewTranscript, Past

if TYPE_CHECKING:
    from store.store import Store

SYNC_SECONDS = 20.0
"""How long a new transcript waits to be read in while another sync is under way."""

_FIELDS = (
    "channel",
    "channel_id",
    "user",
    "provider",
    "model",
    "cwd",
    "environment_name",
    "environment_type",
    "environment_path",
    "system_prompt",
)
_SPAN = """
    select min(seq), max(seq), (select coalesce(max(n), 0) from turns where session = ?1)
    from entries where session = ?1 and turn = ?2
"""
_HOLDING_RESULTS = """
    select key, parts, record from entries where session = ?
        and (instr(parts, cast('"tool_result"' as blob)) > 0 or substr(parts, 2, 1) between x'30' and x'39')
"""
_ANSWERS = "select result_entry, result_part from tool_calls where session = ? and status in ('ok', 'error')"
_OPEN = "select call_id, name from tool_calls where session = ? and status = 'pending' order by key"


class _Span(NamedTuple):
    """Of the turn at whose end a session is forked."""

    first: int
    last: int


# ── in our store ──────────────────────────────────────────────────────────────────────────────────


def fork(
    store: Store, session: Session, turn: int, *, prompt: str | None = None, session_id: str | None = None
) -> Session:
    """A new session that ends after that turn; or, with a prompt, with that in place of what was said in the turn."""
    with store.transaction() as connection:
        session, span = _checked(store, session, turn, prompt)
        last_seq = span.last if prompt is None else span.first - 1
        child = store.sessions.create(
            session_id,
            parent_id=session.id,
            relation="fork",
            forked_at=last_seq,
            agent_title=session.title if prompt is None else shown_prompt(prompt),
            **{name: getattr(session, name) for name in _FIELDS},
        )
        connection.execute("update sessions set deleted = 1 where key = ?", (child.key,))
        store.chains.inherit(session.key, child.key, last_seq)
        _leave_out_orphans(store, child.key)
        store.chains.append(child.key, [*_closing(store, child.key), *_asking(store, session, span, prompt)])
        with store.journal.edit("fork", child.key) as edit:
            edit.update("sessions", child.key, deleted=0)
        return store.sessions.by_key(child.key)


def _checked(store: Store, session: Session, turn: int, prompt: str | None) -> tuple[Session, _Span]:
    """The session as it is now, and where the turn stands in it."""
    session = store.sessions.by_key(session.key)
    if session.deleted:
        raise Refused(f"{one_line(session.id)} is in the trash; take it out of there before you fork it.")
    first, last, newest = store.row(_SPAN, session.key, turn)
    if first is None:
        raise NotFound(f"There is no turn {turn}; the last one is {newest}.")
    if prompt is not None:
        if not exact_text(prompt, "prompt").strip():
            raise BadValue("The prompt is empty.")
        if turn < 1:
            raise Refused("Nobody has said anything in turn 0, so there is no prompt to change.")
    return session, _Span(first, last)


def _leave_out_orphans(store: Store, child: int) -> None:
    """Results that nobody asked for. The copies of their entries stay, so that both chains count alike."""
    answers = set(store.rows(_ANSWERS, child))
    store.connection.execute("delete from tool_calls where session = ? and status = 'orphan'", (child,))
    for key, column, record in store.rows(_HOLDING_RESULTS, child):
        parts = parts_of("", store.records.parts(column, record))
        orphans = {at for at, part in enumerate(parts) if isinstance(part, ToolResult) and (key, at) not in answers}
        if orphans:
            _leave_out(store, key, parts, orphans)


def _leave_out(store: Store, key: int, parts: Sequence[Part], places: set[int]) -> None:
    kept = [part for at, part in enumerate(parts) if at not in places]
    store.connection.execute(
        "update entries set parts = ?, kind = iif(?, kind, 'event'), role = iif(?, role, '') where key = ?",
        (encode([part_to_json(part) for part in kept]), bool(kept), bool(kept), key),
    )
    # Calls know themselves and their results by where they stand.
    for entry, part in (("entry", "part"), ("result_entry", "result_part")):
        for place in sorted(places, reverse=True):
            store.connection.execute(
                f"update tool_calls set {part} = {part} - 1 where {entry} = ? and {part} > ?", (key, place)
            )


def _closing(store: Store, child: int) -> Iterator[NewEntry]:
    found = store.rows(_OPEN, child)
    results = tuple(ToolResult(call_id, INTERRUPTED, is_error=True, name=name) for call_id, name in found)
    if results:
        yield NewEntry(role="tool", parts=results, prompt=False)


def _asking(store: Store, session: Session, span: _Span, prompt: str | None) -> Iterator[NewEntry]:
    if prompt is not None:
        author = store.chains.entry(session.key, span.first).author
        yield NewEntry(role="user", parts=(Text(prompt),), author=author, prompt=True)


# ── as a transcript of its agent's ────────────────────────────────────────────────────────────────


class NativeFork(NamedTuple):
    path: Path
    session: Session


def can_fork_natively(session: Session) -> bool:
    source = sources.by_name(session.source)
    return isinstance(source, Forking) and source.can_fork(session)


def native_fork(store: Store, session: Session, turn: int, *, prompt: str | None = None) -> Path:
    """A new transcript that its program lists and resumes; the original is not touched."""
    return fork_natively(store, session, turn, prompt=prompt).path


def fork_natively(store: Store, session: Session, turn: int, *, prompt: str | None = None) -> NativeFork:
    """The same, with the session that it is in our store."""
    source = sources.by_name(session.source)
    if source is None or not isinstance(source, Forking) or not can_fork_natively(session):
        raise Refused(f"{one_line(session.id)} can be forked in Backscroll, but not as a transcript of its agent's.")
    with store.snapshot():
        session, span = _checked(store, session, turn, prompt)
        if turn < 1:
            raise Refused("Before the first prompt there is nothing that the agent could go on with.")
        last_seq = span.last if prompt is None else span.first
        wanted = {entry.record for entry in store.chains.entries(session.key, -1, last_seq)}
        records = [data for key, data in store.records.of_session(session.key) if key in wanted]
    root = next(iter(source.roots()))
    if not Path(root).is_dir():
        raise Refused(
            f"There is no {root}, where {source.LABEL} would look for the fork; make one in Backscroll instead."
        )
    made = source.fork(Past(session, records, prompt, datetime.now(UTC)))
    _write(made, Path(root))
    made.enter()
    _read_in(store, source.NAME, root, made.path)
    name = foreign_id(source.NAME, made.native_id)
    try:
        return NativeFork(made.path, store.sessions.get(name))
    except NotFound:
        raise Refused(f"The fork was written to {made.path}, and shows here with the next sync.") from None


def _write(made: NewTranscript, root: Path) -> None:
    """Whole or not at all, for nobody else to read, and never over a file that is there."""
    try:
        for path in (made.path, *(to for _, to in made.beside)):
            _make_folders(path.parent, root)
        for origin, copy in made.beside:
            with suppress(FileNotFoundError), origin.open("rb") as told, _new_file(copy) as file:
                shutil.copyfileobj(told, file)
        with _new_file(made.path) as file:
            file.writelines(line + b"\n" for line in made.lines)
    except OSError as reason:
        raise Refused(f"{made.path} could not be written: {reason.strerror or reason}.") from None


def _make_folders(folder: Path, root: Path) -> None:
    """Inside the agent's own; a link that leads out of it is not followed."""
    inside = root.resolve()
    if not folder.resolve().is_relative_to(inside):
        raise Refused(f"{folder} is not inside {root}, where the agent keeps its sessions; nothing was written.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def _new_file(path: Path) -> Iterator[BinaryIO]:
    """Under another name until it is whole and on the disk; a link, unlike a rename, never replaces what is there."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _read_in(store: Store, name: str, root: str, path: Path) -> None:
    """With all that is new where the agent keeps its sessions; where we never read any, the file alone."""
    known = store.row("select 1 from sources where kind = ? and locator = ?", name, place_of(root).locator)
    chosen = targets([root if known else str(path)], name)
    patience = time.monotonic() + SYNC_SECONDS
    while not _synced(store, chosen) and time.monotonic() < patience:
        time.sleep(0.1)


def _synced(store: Store, chosen: Sequence[Target]) -> bool:
    """False while another sync is under way, which may have looked before the file was there."""
    try:
        for _ in sync(store, chosen):
            pass
    except Busy:
        return False
    return True
