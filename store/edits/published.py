"""Shelf: published files. A random id stands for a file of a session and tells nothing of either.

The file must lie in the session's own folder, when it is published and again whenever it is asked for: an agent that
may write there could put a link to something else in its place.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from store.errors import BadValue, NotFound, Refused, WriteFailed
from store.model.knowledge import PublishedFile
from store.model.session import Session
from store.paths import make_private_folder
from store.text.validate import utc_timestamp, validate_text

if TYPE_CHECKING:
    from store.store import Store

_SELECT_PUBLISHED = """
    select published.id, sessions.id, published.filename, published.path, published.created_at
    from published join sessions on sessions.key = published.session
"""


class PublishedFiles:
    def __init__(self, store: Store) -> None:
        self._store = store

    def folder(self, session: Session) -> Path:
        """Where the session's files lie: its environment, else where it worked, else a folder of the store's own."""
        named = session.environment_path or session.cwd
        if not named:
            return self._make_own_folder(session)
        if not os.path.isabs(named):
            raise Refused(f"The folder of {session.id!r} is not a full path here: {named!r}.")
        return Path(named)

    def _make_own_folder(self, session: Session) -> Path:
        folder = self._own_path(session.key)
        try:
            make_private_folder(folder.parent)
            return make_private_folder(folder)
        except OSError as reason:
            raise WriteFailed(f"The folder {folder} cannot be made: {reason.strerror}.") from None

    def _own_path(self, session: int) -> Path:
        return self._store.path.with_name(f"{self._store.path.name}.files") / str(session)

    def publish(self, session: Session, path: str | os.PathLike[str]) -> PublishedFile:
        """A relative path is taken within the session's folder. The same file again has the same id."""
        given = _validate_path(path)
        session = self._store.sessions.by_key(session.key)
        real = validate_text(str(self._resolve_confined(session, self.folder(session) / given)), "path")
        with self._store.journal.edit("publish", session.key) as edit:
            known = self._store.row(f"{_SELECT_PUBLISHED} where sessions.key = ? and path = ?", session.key, real)
            if known is not None:
                return PublishedFile(*known)
            published = PublishedFile(secrets.token_urlsafe(16), session.id, given.name, real, utc_timestamp())
            edit.insert(
                "published",
                id=published.id,
                session=session.key,
                filename=published.filename,
                path=published.path,
                created_at=published.created_at,
            )
        return published

    def resolve(self, public_id: str) -> Path:
        """The file as it is now, confined as when it was published."""
        published = self._get(public_id)
        kept = Path(published.path)
        real = self._resolve_confined(self._store.sessions.get(published.session_id), kept)
        if real != kept:
            raise Refused(f"{published.filename!r} is not the file that was published: a link stands in its place.")
        return real

    def list_published(self, session: Session | None = None) -> list[PublishedFile]:
        where, values = ("where sessions.key = ?", (session.key,)) if session else ("", ())
        rows = self._store.rows(
            f"{_SELECT_PUBLISHED} {where} order by published.created_at desc, published.id", *values
        )
        return [PublishedFile(*row) for row in rows]

    def unpublish(self, public_id: str) -> None:
        """The file stays where it is; undo brings the same id back."""
        session = self._store.sessions.get(self._get(public_id).session_id)
        with self._store.journal.edit("unpublish", session.key) as edit:
            edit.delete("published", public_id)

    def purge_session(self, session: int) -> None:
        """After a purge: the files the session kept in the store's own folder. Other folders are not ours."""
        folder = self._own_path(session)
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            pass
        except OSError as reason:
            raise WriteFailed(f"The folder {folder} cannot be removed: {reason.strerror}.") from None

    def _get(self, public_id: str) -> PublishedFile:
        row = self._store.row(f"{_SELECT_PUBLISHED} where published.id = ?", validate_text(public_id, "public id"))
        if row is None:
            raise NotFound(f"Nothing is published as {public_id!r}.")
        return PublishedFile(*row)

    def _resolve_confined(self, session: Session, path: Path) -> Path:
        """Where the file really is; refused unless that is a plain file inside the session's folder."""
        folder = self.folder(session)
        try:
            real, root = path.resolve(strict=True), folder.resolve(strict=True)
            mode = real.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"There is no file {path.name!r} in {folder}.") from None
        except (OSError, RuntimeError) as reason:  # links in a circle are the one or the other, by version of Python
            said = getattr(reason, "strerror", None) or "its links lead nowhere"
            raise Refused(f"The file {path.name!r} cannot be reached: {said}.") from None
        if not real.is_relative_to(root):
            raise Refused(f"The file {path.name!r} is not inside the session's folder, {folder}.")
        if stat.S_ISDIR(mode):
            raise Refused(f"{path.name or str(path)!r} is a folder; publish a file in it.")
        if not stat.S_ISREG(mode):
            raise Refused(f"{path.name!r} is not a plain file but a device, a pipe or a socket.")
        return real


def _validate_path(path: str | os.PathLike[str]) -> Path:
    text = validate_text(os.fspath(path), "path")
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise BadValue("The path holds a control character.")
    if "\\" in text:
        raise Refused(f"The path {text!r} holds a backslash; write it with slashes.")
    if ".." in text.split("/"):
        raise Refused(f"The path {text!r} climbs out with `..`; name the file itself.")
    return Path(text)
