"""Writes a fork as a transcript of its own agent, which the agent can list and resume."""

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
from store.conversations.fork import check_fork
from store.errors import Busy, NotFound, Refused
from store.model.identity import foreign_session_id
from store.model.session import Session
from store.sources.contract import ForkRequest, NewTranscript, SupportsFork
from store.sources.kit.locator import parse_location
from store.sync.refresh import Target, find_targets, sync_targets
from store.text.sanitize import one_line

if TYPE_CHECKING:
    from store.store import Store


SYNC_SECONDS = 20.0
"""How long a new transcript waits to be read in while another sync is under way."""


class ForkedTranscript(NamedTuple):
    path: Path
    session: Session


def can_fork_transcript(session: Session) -> bool:
    source = sources.load_source(session.source)
    return isinstance(source, SupportsFork) and source.can_fork(session)


def fork_transcript_path(store: Store, session: Session, turn: int, *, prompt: str | None = None) -> Path:
    """A new transcript that its program lists and resumes; the original is not touched."""
    return fork_transcript(store, session, turn, prompt=prompt).path


def fork_transcript(store: Store, session: Session, turn: int, *, prompt: str | None = None) -> ForkedTranscript:
    """The same, with the session that it is in our store."""
    source = sources.load_source(session.source)
    if source is None or not isinstance(source, SupportsFork) or not can_fork_transcript(session):
        raise Refused(f"{one_line(session.id)} can be forked in Backscroll, but not as a transcript of its agent's.")
    with store.snapshot():
        session, span = check_fork(store, session, turn, prompt)
        if turn < 1:
            raise Refused("Before the first prompt there is nothing that the agent could go on with.")
        last_seq = span.last if prompt is None else span.first
        wanted = {entry.record for entry in store.chains.entries(session.key, -1, last_seq)}
        records = [data for key, data in store.records.iter_session(session.key) if key in wanted]
    root = next(iter(source.roots()))
    if not Path(root).is_dir():
        raise Refused(
            f"There is no {root}, where {source.LABEL} would look for the fork; make one in Backscroll instead."
        )
    made = source.fork(ForkRequest(session, records, prompt, datetime.now(UTC)))
    _write_transcript(made, Path(root))
    made.register()
    _import_fork(store, source.NAME, root, made.path)
    name = foreign_session_id(source.NAME, made.native_id)
    try:
        return ForkedTranscript(made.path, store.sessions.get(name))
    except NotFound:
        raise Refused(f"The fork was written to {made.path}, and shows here with the next sync.") from None


def _write_transcript(made: NewTranscript, root: Path) -> None:
    """Whole or not at all, for nobody else to read, and never over a file that is there."""
    try:
        for path in (made.path, *(to for _, to in made.sidecar_files)):
            _make_folders(path.parent, root)
        for origin, copy in made.sidecar_files:
            with suppress(FileNotFoundError), origin.open("rb") as told, _create_atomically(copy) as file:
                shutil.copyfileobj(told, file)
        with _create_atomically(made.path) as file:
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
def _create_atomically(path: Path) -> Iterator[BinaryIO]:
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


def _import_fork(store: Store, name: str, root: str, path: Path) -> None:
    """With all that is new where the agent keeps its sessions; where we never read any, the file alone."""
    known = store.row("select 1 from sources where kind = ? and locator = ?", name, parse_location(root).locator)
    chosen = find_targets([root if known else str(path)], name)
    patience = time.monotonic() + SYNC_SECONDS
    while not _try_sync(store, chosen) and time.monotonic() < patience:
        time.sleep(0.1)


def _try_sync(store: Store, chosen: Sequence[Target]) -> bool:
    """False while another sync is under way, which may have looked before the file was there."""
    try:
        for _ in sync_targets(store, chosen):
            pass
    except Busy:
        return False
    return True
