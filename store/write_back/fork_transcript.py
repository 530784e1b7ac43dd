"""This module writes a fork as a transcript that the agent of the session can list and resume."""

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
from store.sources.contract import ForkRequest, NewTranscript
from store.sources.kit.locator import parse_location
from store.sync.refresh import sync_targets
from store.sync.targets import Target
from store.text.sanitize import one_line

if TYPE_CHECKING:
    from store.store import Store


SYNC_SECONDS = 20.0
"""Limits how long a new transcript waits for another sync before it is read."""


class ForkedTranscript(NamedTuple):
    """Holds the path of a new transcript, and the session that was synced from it."""

    path: Path
    session: Session


def can_fork_transcript(session: Session) -> bool:
    source = sources.load_source(session.source)
    return source is not None and source.can_fork(session)


def fork_transcript_path(store: Store, session: Session, turn: int, *, prompt: str | None = None) -> Path:
    """Fork a session as a new transcript and return its path. The original stays untouched."""
    return fork_transcript(store, session, turn, prompt=prompt).path


def fork_transcript(store: Store, session: Session, turn: int, *, prompt: str | None = None) -> ForkedTranscript:
    """Fork a session as a new transcript, sync it, and return its path and session. The original stays untouched."""
    source = sources.load_source(session.source)
    if source is None or not source.can_fork(session):
        raise Refused(f"{one_line(session.id)} can only be forked in Backscroll, not as a transcript of its agent.")
    with store.snapshot():
        session, span = check_fork(store, session, turn, prompt)
        if turn < 1:
            raise Refused("A fork for the agent needs at least one turn.")
        last_seq = span.last if prompt is None else span.first
        keys = {entry.record for entry in store.chains.entries(session.key, -1, last_seq)}
        records = [record for key, record in store.records.iter_session(session.key) if key in keys]
    root = next(iter(source.roots()))
    if not Path(root).is_dir():
        raise Refused(f"No such folder: {root}, where {source.label} keeps its sessions; fork in Backscroll instead.")
    transcript = source.fork(ForkRequest(session, records, prompt, datetime.now(UTC)))
    _write_transcript(transcript, Path(root))
    transcript.register()
    _sync_fork(store, source.name, root, transcript.path)
    session_id = foreign_session_id(source.name, transcript.native_id)
    try:
        return ForkedTranscript(transcript.path, store.sessions.get(session_id))
    except NotFound:
        raise Refused(f"The fork was written to {transcript.path}. It appears here after the next sync.") from None


def _write_transcript(transcript: NewTranscript, root: Path) -> None:
    """Write the files of a transcript with mode 0600. Existing files are never replaced."""
    try:
        for path in (transcript.path, *(copy for _, copy in transcript.sidecar_files)):
            _make_folders(path.parent, root)
        for original, copy in transcript.sidecar_files:
            with suppress(FileNotFoundError), original.open("rb") as data, _create_atomically(copy) as file:
                shutil.copyfileobj(data, file)
        with _create_atomically(transcript.path) as file:
            file.writelines(line + b"\n" for line in transcript.lines)
    except OSError as error:
        raise Refused(f"Cannot write {transcript.path}: {error.strerror or error}.") from None


def _make_folders(folder: Path, root: Path) -> None:
    """Make the folders of a path inside the agent's folder. Links that lead out of it are refused."""
    if not folder.resolve().is_relative_to(root.resolve()):
        raise Refused(f"{folder} is outside of {root}, where the agent keeps its sessions; nothing was written.")
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)


@contextmanager
def _create_atomically(path: Path) -> Iterator[BinaryIO]:
    """Write a file under another name, then link it: unlike a rename, a link never replaces an existing file."""
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        with os.fdopen(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.link(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _sync_fork(store: Store, name: str, root: str, path: Path) -> None:
    """Sync the agent's folder, or only the new file if that folder was never synced."""
    is_known = store.row("select 1 from sources where kind = ? and locator = ?", name, parse_location(root).locator)
    source = sources.load_source(name)
    targets = [Target(source, *parse_location(root if is_known else str(path)))] if source else []
    deadline = time.monotonic() + SYNC_SECONDS
    while not _try_sync(store, targets) and time.monotonic() < deadline:
        time.sleep(0.1)


def _try_sync(store: Store, targets: Sequence[Target]) -> bool:
    """Sync, or return False if another sync is running; that one may have started before the file was written."""
    try:
        for _ in sync_targets(store, targets):
            pass
    except Busy:
        return False
    return True
