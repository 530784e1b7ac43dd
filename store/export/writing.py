"""This module writes exports to files: first to a temporary file, which gets its name when it is complete.

So a file is never half written, and a refused export leaves nothing behind. A file that exists is replaced only if that
is asked for. Files are readable by their owner alone, as the store is.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from store.errors import AlreadyExists, BadValue, StoreError, WriteFailed
from store.export.atif import end_atif, write_atif
from store.export.html import end_html, write_html
from store.export.markdown import end_markdown, write_markdown
from store.export.options import FILE_SUFFIXES, ExportFormat, ExportOptions
from store.export.raw import write_raw
from store.export.reader import DocumentReader
from store.export.receipt import NO_DIGEST, build_receipt
from store.export.session_json import end_session_json, write_session_json
from store.export.titles import check_title, mask_title
from store.leaks.gate import open_gate
from store.text.validate import decode, utc_timestamp

if TYPE_CHECKING:
    from store.model.session import Session
    from store.store import Store

RECEIPT_SUFFIX = ".receipt.json"
"""Ends the name of the receipt of raw records, which have no place for it."""

_UNSAFE = re.compile(r"[^\w.-]+")
_COPY_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class WrittenExport:
    "Describes an export that was written."

    session_id: str
    path: Path | None
    "Is None for stdout."
    size: int
    receipt: dict[str, Any]


def render_export(reader: DocumentReader, session: Session) -> Iterator[bytes]:
    """Yield a document without its receipt."""
    match reader.options.format:
        case "raw":
            yield from write_raw(reader, session)
            return
        case "json":
            pieces = write_session_json(reader, session)
        case "atif":
            pieces = write_atif(reader.read(session))
        case "html":
            pieces = write_html(reader.read(session))
        case "markdown":
            pieces = write_markdown(reader.read(session))
    for piece in pieces:
        yield piece.encode("utf-8", "replace")


_ENDINGS: dict[ExportFormat, Callable[[str], str]] = {
    "json": end_session_json,
    "atif": end_atif,
    "html": end_html,
    "markdown": end_markdown,
}


def format_ending(export_format: ExportFormat, receipt: str) -> bytes:
    """Return the end of a document, with its receipt. Raw records have none."""
    ending = _ENDINGS.get(export_format)
    return ending(receipt).encode() if ending else b""


def check_options(options: ExportOptions) -> None:
    if options.format == "raw" and not (options.tools and options.thinking):
        raise BadValue("Records are exported whole: `raw` cannot leave out tool calls or thinking.")


def write_export(store: Store, session: Session, options: ExportOptions, file: IO[bytes]) -> dict[str, Any]:
    """Write a document with its receipt to an empty file that can be read and sought. Return the receipt.

    The receipt of raw records is returned only. Raise LeaksFound if the document has leaks that the options refuse.
    """
    check_options(options)
    gate = open_gate(store, options.leaks)
    reader = DocumentReader(store, options, gate=gate)
    digest = hashlib.sha256()
    with store.snapshot():
        for piece in render_export(reader, session):
            digest.update(piece)
            file.write(piece)
    gate.finish()
    receipt = build_receipt(reader, options, utc_timestamp())
    end = format_ending(options.format, receipt)
    digest.update(end)
    position = file.tell()
    file.write(end)
    if end:
        file.seek(position + end.index(receipt.encode()) + receipt.index(NO_DIGEST))
        file.write(digest.hexdigest().encode())
    file.flush()
    return dict(decode(receipt.replace(NO_DIGEST, digest.hexdigest())))


# ── files ─────────────────────────────────────────────────────────────────────────────────────────


def export_to_file(
    store: Store, session: Session, options: ExportOptions, path: Path, *, replace: bool = False
) -> WrittenExport:
    """Write one session to a file."""
    with create_file(path, replace=replace) as file:
        receipt = write_export(store, session, options, file)
        size = file.seek(0, os.SEEK_END)
        if options.format == "raw":
            with create_file(path.with_name(path.name + RECEIPT_SUFFIX), replace=replace) as receipt_file:
                receipt_file.write(format_receipt(receipt))
    return WrittenExport(session.id, path, size, receipt)


def export_to_stream(store: Store, session: Session, options: ExportOptions, stream: IO[bytes]) -> WrittenExport:
    """Write one session to a stream such as stdout, after all of it is known to be good."""
    with tempfile.TemporaryFile() as file:
        receipt = write_export(store, session, options, file)
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        shutil.copyfileobj(file, stream, _COPY_BYTES)
    return WrittenExport(session.id, None, size, receipt)


def export_to_folder(
    store: Store, sessions: Sequence[Session], options: ExportOptions, folder: Path, *, replace: bool = False
) -> list[WrittenExport]:
    """Write several sessions and an index to a folder. It is created if it does not exist."""
    from store.export.index import format_index  # imported here: most exports are of one session

    check_options(options)
    names = _name_files(sessions, FILE_SUFFIXES[options.format])
    titles = _check_titles(store, sessions, options)
    index_name, _ = format_index(options, [], [], [])
    if not replace:
        for name in [index_name, *names]:
            if (folder / name).exists():
                raise _already_exists(folder / name)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise WriteFailed(f"Cannot create the folder {folder}: {error.strerror}.") from None
    written = [
        export_to_file(store, session, options, folder / name, replace=replace)
        for session, name in zip(sessions, names, strict=True)
    ]
    with create_file(folder / index_name, replace=replace) as file:
        file.write(format_index(options, sessions, titles, written)[1].encode("utf-8", "replace"))
    return written


def _check_titles(store: Store, sessions: Sequence[Session], options: ExportOptions) -> list[str]:
    """Return the titles as they may be in an index. It has them even where the exports themselves have none."""
    gate = open_gate(store, options.leaks)
    titles = []
    for session in sessions:
        gate.place = f"the title of {session.id}"
        titles.append(check_title(store, session, gate))
    gate.finish()
    return titles


def format_receipt(receipt: dict[str, Any]) -> bytes:
    import json

    return json.dumps(receipt, separators=(",", ":")).encode() + b"\n"


def suggest_name(store: Store, session: Session, options: ExportOptions) -> str:
    """Return a name for the file of a session that every file system takes. It has no leak."""
    title = _UNSAFE.sub("-", mask_title(store, session)[:60] if session.title else "").strip("-.").lower()
    return (title or _UNSAFE.sub("-", session.id[:80]).strip("-.") or "session") + FILE_SUFFIXES[options.format]


def _name_files(sessions: Sequence[Session], suffix: str) -> list[str]:
    names: dict[str, None] = {}
    for session in sessions:
        name = base = _UNSAFE.sub("-", session.id[:80]).strip("-.") or "session"
        number = 1
        while name in names or name == "index":
            number += 1
            name = f"{base}-{number}"
        names[name] = None
    return [name + suffix for name in names]


@contextmanager
def create_file(path: Path, *, replace: bool) -> Iterator[IO[bytes]]:
    """Give a temporary file to the `with` block, and then its name to it, in one step. An error deletes the file."""
    if path.is_dir():
        raise AlreadyExists(f"{path} is a folder. Name a file.")
    if not replace and os.path.lexists(path):
        raise _already_exists(path)
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=".tmp")
    except OSError as error:
        raise WriteFailed(f"Cannot write to {path.parent}: {error.strerror}.") from None
    try:
        with os.fdopen(handle, "w+b") as file:
            yield file
            file.flush()
        _give_name(temporary, path, replace=replace)
    except FileExistsError:
        raise _already_exists(path) from None
    except OSError as error:
        raise WriteFailed(f"Cannot write {path}: {error.strerror}.") from None
    finally:
        with suppress(FileNotFoundError):
            os.unlink(temporary)


def _give_name(temporary: str, path: Path, *, replace: bool) -> None:
    if replace:
        os.replace(temporary, path)
        return
    try:
        os.link(temporary, path)  # unlike a rename, it fails if the name was taken meanwhile
    except FileExistsError:
        raise
    except OSError:  # some file systems have no links
        os.replace(temporary, path)


def _already_exists(path: Path) -> StoreError:
    return AlreadyExists(f"{path} already exists. Choose another name, or replace it with --force.")
