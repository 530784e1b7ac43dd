"""This module finds the folders and files of the program, reads the config file, and finds other programs."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from store.errors import StoreError, Unreadable, WriteFailed
from store.platform_folder import CONFIG_FOLDER, DATA_FOLDER, STATE_FOLDER, find_platform_folder

MAX_SMALL_FILE_BYTES = 4 * 1024 * 1024
"""Limits files that are read as a whole, such as the config file."""


def data_dir() -> Path:
    return Path(find_platform_folder(*DATA_FOLDER))


def config_dir() -> Path:
    return Path(find_platform_folder(*CONFIG_FOLDER))


def config_file() -> Path:
    return config_dir() / "config.toml"


def state_file() -> Path:
    """Return the file in which the browser keeps its settings between two runs."""
    return Path(find_platform_folder(*STATE_FOLDER)) / "browser.json"


def recent_searches_file() -> Path:
    """Return the file in which the browser keeps the last searches."""
    return state_file().with_name("recent-searches.json")


def attempts_file() -> Path:
    """Return the file that counts wrong passphrases."""
    return state_file().with_name("passphrase-attempts.json")


def key_file() -> Path:
    """Return the path of the key file.

    It is never next to the store, so that a copied store does not include its key.
    """
    return config_dir() / "key"


def read_small_file(path: Path) -> bytes:
    """Read a regular file of limited size. A pipe would block until another program writes to it."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as file:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(0, "it is not a regular file")
        data = file.read(MAX_SMALL_FILE_BYTES + 1)
    if len(data) > MAX_SMALL_FILE_BYTES:
        raise OSError(0, f"it is larger than {MAX_SMALL_FILE_BYTES >> 20} MB")
    return data


def load_config() -> dict[str, Any]:
    path = config_file()
    try:
        text = read_small_file(path).decode()
        import tomllib  # imported only when a config file exists, so that most starts do not wait for it

        return tomllib.loads(text)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise StoreError(f"The config file {path} cannot be read ({reason}). Fix it or remove it.") from None


def resolve_store_path(path: str | os.PathLike[str] | None = None) -> Path:
    """Return the path that was given, else BACKSCROLL_STORE, else `[store] path`, else the one in the data folder."""
    chosen = path or os.environ.get("BACKSCROLL_STORE") or _configured_path()
    if not chosen:
        return data_dir() / "store.db"
    if "\0" in str(chosen):
        raise Unreadable("The path of a store cannot contain a NUL character. Choose another path.")
    try:
        return Path(chosen).expanduser()
    except RuntimeError:
        raise Unreadable(f"{chosen} is in the home folder of a user that does not exist. Choose a full path.") from None


def _configured_path() -> str:
    if not load_config():
        return ""
    from store.config import require_setting  # imported only when a config file exists

    return require_setting("store.path", str)


def unfinished_folder(store_path: Path) -> Path:
    """Return the folder that says which write-backs are being done. It exists only meanwhile."""
    return store_path.with_name(f"{store_path.name}.unfinished")


def make_private_folder(path: Path) -> Path:
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def refuse_planted(path: Path) -> None:
    """Raise an error for a link or a folder that another user may have put there, to lead our writes elsewhere.

    Any user can make one beside a store in a shared folder such as /tmp, but the system records who owns it.
    """
    with suppress(FileNotFoundError):
        status, parent = path.lstat(), path.parent.stat()
        is_shared = bool(parent.st_mode & 0o022) and status.st_uid != parent.st_uid
        is_planted = stat.S_ISLNK(status.st_mode) or (stat.S_ISDIR(status.st_mode) and is_shared)
        if is_planted and status.st_uid not in (os.geteuid(), 0):
            raise WriteFailed(f"{path} was made by another user, so nothing was written there. Remove it.")


def find_program(name: str) -> str:
    """Return the absolute path of a program, or an empty string.

    Relative elements of PATH, such as `node_modules/.bin`, are ignored, because a repository could contain a program
    with that name.
    """
    import shutil  # loads the archive modules

    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return shutil.which(name, path=os.pathsep.join(filter(os.path.isabs, folders))) or ""


def sync_folder(folder: Path) -> None:
    """Wait until the disk has the names in a folder."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def replace_private_file(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, completely or not at all.

    Nothing that has the name of the file is opened: a link there is replaced, and what it leads to stays as it is.
    """
    partial = make_private_folder(path.parent) / f".{path.name}.{os.getpid()}.part"
    partial.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(partial, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
            file.write(data)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
