"""This module publishes files of sessions under random ids that reveal neither the file nor the session.

A published file must be inside the session's folder. This is checked when it is published and each time it is
requested, because an agent that can write to the folder could replace the file by a link to another file.
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
    """Publishes and finds files. This is the collection `store.published`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def folder(self, session: Session) -> Path:
        """Return the session's folder: its environment, else its working folder, else one that the store creates."""
        path = session.environment_path or session.cwd
        if not path:
            return self._make_own_folder(session)
        if not os.path.isabs(path):
            raise Refused(f"The folder of {session.id!r} is not an absolute path: {path!r}.")
        return Path(path)

    def _make_own_folder(self, session: Session) -> Path:
        folder = self._own_path(session.key)
        try:
            make_private_folder(folder.parent)
            return make_private_folder(folder)
        except OSError as error:
            raise WriteFailed(f"Cannot create the folder {folder}: {error.strerror}.") from None

    def _own_path(self, session: int) -> Path:
        return self._store.path.with_name(f"{self._store.path.name}.files") / str(session)

    def publish(self, session: Session, path: str | os.PathLike[str]) -> PublishedFile:
        """Publish a file. A relative path starts at the session's folder. The same file always gets the same id."""
        file = _validate_path(path)
        session = self._store.sessions.by_key(session.key)
        real_path = validate_text(str(self._resolve_confined(session, self.folder(session) / file)), "path")
        with self._store.journal.edit("publish", session.key) as edit:
            row = self._store.row(f"{_SELECT_PUBLISHED} where sessions.key = ? and path = ?", session.key, real_path)
            if row is not None:
                return PublishedFile(*row)
            published = PublishedFile(secrets.token_urlsafe(16), session.id, file.name, real_path, utc_timestamp())
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
        """Return the path of a published file. Raise Refused if it is no longer a file in the session's folder."""
        published = self._get(public_id)
        path = Path(published.path)
        real_path = self._resolve_confined(self._store.sessions.get(published.session_id), path)
        if real_path != path:
            raise Refused(f"{published.filename!r} is not the published file: it was replaced by a link.")
        return real_path

    def list_published(self, session: Session | None = None) -> list[PublishedFile]:
        where, values = ("where sessions.key = ?", (session.key,)) if session else ("", ())
        rows = self._store.rows(
            f"{_SELECT_PUBLISHED} {where} order by published.created_at desc, published.id", *values
        )
        return [PublishedFile(*row) for row in rows]

    def unpublish(self, public_id: str) -> None:
        """Stop publishing a file. The file itself stays, and an undo restores the same id."""
        session = self._store.sessions.get(self._get(public_id).session_id)
        with self._store.journal.edit("unpublish", session.key) as edit:
            edit.delete("published", public_id)

    def purge_session(self, session: int) -> None:
        """Delete the folder that the store created for a session, after a purge. Other folders are left alone."""
        folder = self._own_path(session)
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise WriteFailed(f"Cannot remove the folder {folder}: {error.strerror}.") from None

    def _get(self, public_id: str) -> PublishedFile:
        row = self._store.row(f"{_SELECT_PUBLISHED} where published.id = ?", validate_text(public_id, "public id"))
        if row is None:
            raise NotFound(f"No such published file: {public_id!r}.")
        return PublishedFile(*row)

    def _resolve_confined(self, session: Session, path: Path) -> Path:
        """Resolve all links of a path. Raise an error unless it is a regular file inside the session's folder."""
        folder = self.folder(session)
        try:
            real_path, real_folder = path.resolve(strict=True), folder.resolve(strict=True)
            mode = real_path.stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            raise NotFound(f"No such file in {folder}: {path.name!r}.") from None
        except (OSError, RuntimeError) as error:  # a loop of links raises one or the other, depending on the Python
            reason = getattr(error, "strerror", None) or "its links form a loop"
            raise Refused(f"Cannot open the file {path.name!r}: {reason}.") from None
        if not real_path.is_relative_to(real_folder):
            raise Refused(f"The file {path.name!r} is outside the session's folder, {folder}.")
        if stat.S_ISDIR(mode):
            raise Refused(f"{path.name or str(path)!r} is a folder. Publish a file in it.")
        if not stat.S_ISREG(mode):
            raise Refused(f"{path.name!r} is not a regular file.")
        return real_path


def _validate_path(path: str | os.PathLike[str]) -> Path:
    text = validate_text(os.fspath(path), "path")
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise BadValue("The path contains a control character.")
    if "\\" in text:
        raise Refused(f"The path {text!r} contains a backslash. Use slashes.")
    if ".." in text.split("/"):
        raise Refused(f"The path {text!r} contains `..`. Name the file itself.")
    return Path(text)
