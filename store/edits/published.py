"""This module publishes files of sessions under random ids that reveal neither the file nor the session.

A published file must be inside the session's folder. This is checked when it is published and each time it is
requested, because an agent that can write to the folder could replace the file by a link to another file. The file is
checked after it was opened, so that nothing can be replaced between the check and the reading.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from store import sources
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

# O_PATH passes through folders that may be entered but not listed. macOS does not have it.
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE_FLAGS = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
"""Refuses a link, and does not wait for the other end of a pipe that has replaced the file."""


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

    def publish(self, session: Session, path: str | os.PathLike[str], *, allow_leaks: bool = False) -> PublishedFile:
        """Publish a file. A relative path starts at the session's folder. The same file always gets the same id.

        Raise LeaksFound if a key, token or password is certain to be in the file, unless that is allowed.
        """
        from store.leaks.gate import open_gate  # imported here: most programs publish nothing

        file = _validate_path(path)
        session = self._store.sessions.by_key(session.key)
        with self._open_in_agent_folder(session, file) or self._open_confined(
            session, self.folder(session) / file
        ) as opened:
            real_path = validate_text(opened.name, "path")
            gate = open_gate(self._store, "allow" if allow_leaks else "refuse")
            gate.check_file(opened)
            gate.finish()
        with self._store.journal.edit("publish", session.key) as edit:
            row = self._store.row(f"{_SELECT_PUBLISHED} where sessions.key = ? and path = ?", session.key, real_path)
            if row is not None:
                return PublishedFile(*row)
            published = PublishedFile(_new_public_id(), session.id, file.name, real_path, utc_timestamp())
            edit.insert(
                "published",
                id=published.id,
                session=session.key,
                filename=published.filename,
                path=published.path,
                created_at=published.created_at,
            )
        return published

    def get(self, public_id: str) -> PublishedFile:
        """Return a published file. Those of a session in the trash are gone until it is restored."""
        where = "where published.id = ? and sessions.deleted = 0"
        row = self._store.row(f"{_SELECT_PUBLISHED} {where}", validate_text(public_id, "public id"))
        if row is None:
            raise NotFound(f"No such published file: {public_id!r}.")
        return PublishedFile(*row)

    def resolve(self, public_id: str) -> Path:
        """Return the path of a published file. Raise Refused if it is no longer a file in the session's folder.

        The file can be replaced before the path is opened. Use `open_file` to read exactly the file that was checked.
        """
        with self.open_file(public_id) as file:
            return Path(file.name)

    def open_file(self, public_id: str) -> BinaryIO:
        """Open a published file for reading; its `name` is its path. Raise the same errors as `resolve`."""
        published = self.get(public_id)
        session, path = self._store.sessions.get(published.session_id), Path(published.path)
        if file := self._open_in_agent_folder(session, path):
            return file
        file = self._open_confined(session, path)
        if file.name != published.path:
            file.close()
            raise Refused(f"{published.filename!r} is not the published file: it was replaced by a link.")
        return file

    def list_published(self, session: Session | None = None) -> list[PublishedFile]:
        """Return the published files of a session, or of all sessions that are not in the trash."""
        where, values = ("where sessions.key = ?", (session.key,)) if session else ("where sessions.deleted = 0", ())
        rows = self._store.rows(
            f"{_SELECT_PUBLISHED} {where} order by published.created_at desc, published.id", *values
        )
        return [PublishedFile(*row) for row in rows]

    def unpublish(self, public_id: str) -> None:
        """Stop publishing a file. The file itself stays, and an undo restores the same id."""
        session = self._store.sessions.get(self.get(public_id).session_id)
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

    def _open_in_agent_folder(self, session: Session, path: Path) -> BinaryIO | None:
        """Open a file in a folder where the session's agent publishes files, or return None if it is in none of them.

        The agent can write there, so no link inside of the agent's own folder is followed.
        """
        row = self._store.row("select kind, locator from sources where key = ?", session.source_key or 0)
        source = sources.load_source(row[0]) if row else None
        for root, inside in source.published_folders(row[1], session.native_id) if source else ():
            if real_path := _locate_inside(root.resolve(), inside, path):
                with _translate_errors(root / inside, path):
                    return _open_without_links(real_path)
        return None

    def _open_confined(self, session: Session, path: Path) -> BinaryIO:
        """Resolve all links of a path and open the file. Raise an error unless it is one in the session's folder."""
        folder = self.folder(session)
        with _translate_errors(folder, path):
            real_path, real_folder = path.resolve(strict=True), folder.resolve(strict=True)
            if not real_path.is_relative_to(real_folder):
                raise Refused(f"The file {path.name!r} is outside the session's folder, {folder}.")
            return _open_without_links(real_path)


def _locate_inside(root: Path, inside: str, path: Path) -> Path | None:
    """Return where a path leads if it is in this folder of the root, or None. Links are followed up to the root."""
    names = Path(inside).parts
    for index in range(1, len(path.parts) - len(names)):
        if path.parts[index : index + len(names)] == names and Path(*path.parts[:index]).resolve() == root:
            rest = path.parts[index:]
            return root.joinpath(*rest) if ".." not in rest else None
    return None


def _open_without_links(path: Path) -> BinaryIO:
    """Open a regular file, and follow no link, not even one that was put into the path a moment ago.

    Each folder is opened relative to the one before it, from the root on.
    """
    folder = os.open(path.anchor, _FOLDER_FLAGS)
    try:
        for name in path.parts[1:-1]:
            outer, folder = folder, os.open(name, _FOLDER_FLAGS, dir_fd=folder)
            os.close(outer)
        # This is checked before, because opening a device can have an effect, and again on what was opened.
        status = os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
        _check_regular(path, status)
        file = open(  # noqa: SIM115  # the caller closes it
            path, "rb", opener=lambda _, flags: os.open(path.name, flags | _FILE_FLAGS, dir_fd=folder)
        )
    finally:
        os.close(folder)
    try:
        opened_status = os.fstat(file.fileno())
        _check_regular(path, opened_status)
        # A hard link that was there only for a moment shows no second name any more.
        if not os.path.samestat(status, opened_status) or _has_lost_its_name(file, path.name):
            raise Refused(f"{path.name!r} was replaced while it was opened. Try again.")
    except Refused:
        file.close()
        raise
    return file


def _has_lost_its_name(file: BinaryIO, name: str) -> bool:
    """Return whether an open file was renamed or removed since it was opened, if the system can say it.

    A file that has one name, and still has the name by which it was opened, has no other name elsewhere.
    """
    try:
        current_path = os.readlink(f"/proc/self/fd/{file.fileno()}")
    except OSError:  # not Linux
        return False
    return os.path.basename(current_path) != name


def _check_regular(path: Path, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise Refused(f"{path.name or str(path)!r} is a folder. Publish a file in it.")
    if not stat.S_ISREG(status.st_mode):
        raise Refused(f"{path.name!r} is not a regular file.")
    if status.st_nlink > 1:
        raise Refused(f"{path.name!r} is a hard link: the same file has another name elsewhere. Publish a copy of it.")


@contextmanager
def _translate_errors(folder: Path, path: Path) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError):
        raise NotFound(f"No such file in {folder}: {path.name!r}.") from None
    except (OSError, RuntimeError) as error:  # a loop of links raises one or the other, depending on the Python
        reason = getattr(error, "strerror", None) or "its links form a loop"
        raise Refused(f"Cannot open the file {path.name!r}: {reason}.") from None


def _validate_path(path: str | os.PathLike[str]) -> Path:
    text = validate_text(os.fspath(path), "path")
    if any(unicodedata.category(character) == "Cc" for character in text):
        raise BadValue("The path contains a control character.")
    if "\\" in text:
        raise Refused(f"The path {text!r} contains a backslash. Use slashes.")
    if ".." in text.split("/"):
        raise Refused(f"The path {text!r} contains `..`. Name the file itself.")
    return Path(text)


def _new_public_id() -> str:
    """Return a random id that does not begin with a hyphen, because the command line would take it for an option."""
    while (public_id := secrets.token_urlsafe(16)).startswith("-"):
        pass
    return public_id
