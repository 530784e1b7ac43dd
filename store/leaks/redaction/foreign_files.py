"""This module redacts and restores the files and databases of agents, each by itself.

What an undo needs is stored before a file is replaced. So after a kill, the digest of the file tells what was done.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from store.database.backup import backup_folder
from store.errors import StoreError
from store.leaks.redaction.databases import (
    Cell,
    decode_cells,
    encode_cells,
    find_cells,
    has_residue,
    make_change,
    read_cell,
    restore_copy,
    scrub,
    seal_copy,
    settle,
    to_bytes,
    write_changes,
)
from store.leaks.redaction.replacer import LeakedValue, Replacer, Spellings, ValueRedactor, ValueRestorer
from store.leaks.redaction.rows import RedactedPlace, RedactionRows
from store.leaks.redaction.survey import find_file_obstacle
from store.leaks.redaction.text_files import compute_file_digest, delete_partial_files, prepare_file
from store.sources.kit.stamps import sidecar_path
from store.sources.kit.write_plan import RowChange
from store.text.json import decode
from store.write_back.sqlite import open_rows

if TYPE_CHECKING:
    from store.store import Store

CHANGED_SINCE = "It was changed since, so {} of its values could not be restored."

HAS_RESIDUE = (
    "Its free pages, or a search index, still have a value. Let its agent, or `sqlite3 FILE vacuum`, rewrite it."
)


class ForeignRedaction:
    """Rewrites the files of one redaction."""

    def __init__(self, store: Store, rows: RedactionRows, values: Sequence[LeakedValue], spellings: Spellings) -> None:
        self._store = store
        self._rows = rows
        self._values = values
        self._spellings = spellings

    def redact(self, place: RedactedPlace, replacer: Replacer) -> None:
        """Remove the values from a file, or note why that is not possible now."""
        self._try(place, lambda path: self._redact(place, path, replacer))

    def restore(self, place: RedactedPlace) -> None:
        """Restore the values in a file, or note why that is not possible now."""
        self._try(place, lambda path: self._restore(place, path))

    def _try(self, place: RedactedPlace, action: Callable[[Path], None]) -> None:
        path = Path(place.target)
        problem = ""
        try:
            if not path.exists():
                self._rows.update_place(place.key, pending=0, problem="")  # deleted since, with its values
                return
            delete_partial_files(path)
            problem = find_file_obstacle(self._store, path)
            if not problem:
                action(path)
        except StoreError as error:
            problem = str(error)
        except OSError as error:
            problem = f"It could not be rewritten: {error.strerror}."
        if problem:
            self._rows.update_place(place.key, problem=problem)
        with self._store.transaction() as connection:  # a scan must look there again, even if size and time are equal
            connection.execute("delete from leak_files where path = ?", (place.target,))

    def _redact(self, place: RedactedPlace, path: Path, replacer: Replacer) -> None:
        if place.kind == "database":
            self._redact_database(place, path, replacer)
        else:
            self._redact_file(place, path, replacer)

    def _restore(self, place: RedactedPlace, path: Path) -> None:
        if place.kind == "database":
            self._restore_database(place, path)
        else:
            self._restore_file(place, path)

    # ── text files ────────────────────────────────────────────────────────────────────────────────

    def _redact_file(self, place: RedactedPlace, path: Path, replacer: Replacer) -> None:
        redactor = ValueRedactor(replacer, self._spellings)
        known = self._spellings.count()
        with prepare_file(path, lambda data: redactor.redact(data)[0]) as prepared:
            if redactor.times:
                key = self._choose_row(place, path, prepared.original)
                self._note(key, known, redactor, prepared.original, prepared.redacted)
                prepared.replace(lambda data: redactor.redact(data)[0])
                self._note(key, known, redactor, prepared.original, prepared.redacted)
                self._rows.update_place(key, pending=0, problem="")
        self._rows.update_place(place.key, pending=0, problem="")

    def _choose_row(self, place: RedactedPlace, path: Path, original: bytes) -> int:
        """Return the row of a place. A file that got values again after it was replaced needs another row."""
        if place.original is None or place.original == original:
            return place.key
        return self._rows.add_file(place.kind, str(path), place.times)

    def _note(self, key: int, known: int, redactor: ValueRedactor, original: bytes, redacted: bytes) -> None:
        """Store what an undo needs."""
        with self._store.transaction():
            if self._spellings.count() != known:
                self._rows.seal(self._values, self._spellings)
            self._rows.update_place(
                key, spans=redactor.spans, times=redactor.times, original=original, redacted=redacted
            )

    def _restore_file(self, place: RedactedPlace, path: Path) -> None:
        restorer = ValueRestorer(decode(place.spans), self._values, self._spellings)
        problem = ""
        if compute_file_digest(path) != place.original:
            with prepare_file(path, lambda data: restorer.restore(data)[0]) as prepared:
                if prepared.original != prepared.redacted:
                    prepared.replace(lambda data: restorer.restore(data)[0])
            problem = CHANGED_SINCE.format(restorer.missing) if restorer.missing else ""
        self._rows.update_place(place.key, pending=0, problem=problem)

    # ── databases ─────────────────────────────────────────────────────────────────────────────────

    def _redact_database(self, place: RedactedPlace, path: Path, replacer: Replacer) -> None:
        settle(path)
        cells, _ = find_cells(path, replacer)
        if not cells and place.original is not None:  # an earlier run was interrupted after the rows were changed
            scrub(path)
            self._finish_database(place, path, replacer)
            return
        known = self._spellings.count()
        changes: list[RowChange] = []
        noted: list[tuple[Cell, dict[str, list[tuple[int, int]]]]] = []
        for found in cells:
            redactor = ValueRedactor(replacer, self._spellings)
            changes.append(make_change(found.cell, found.value, redactor.redact(found.data)[0]))
            noted.append((found.cell, redactor.spans))
        copy_key = self._rows.open_copy_key()
        original = seal_copy(path, self._copy_path(place.key), copy_key)
        with self._store.transaction():
            if self._spellings.count() != known:
                self._rows.seal(self._values, self._spellings)
            self._rows.update_place(place.key, spans=encode_cells(noted), original=original, redacted=None)
        write_changes(path, changes)
        self._finish_database(place, path, replacer)
        self._rows.update_place(place.key, redacted=compute_file_digest(path))

    def _finish_database(self, place: RedactedPlace, path: Path, replacer: Replacer) -> None:
        problem = HAS_RESIDUE if has_residue(path, replacer) else ""
        self._rows.update_place(place.key, pending=0, problem=problem)

    def _restore_database(self, place: RedactedPlace, path: Path) -> None:
        copy, log = self._copy_path(place.key), sidecar_path(path, "-wal")
        is_untouched = not (log.exists() and log.stat().st_size) and compute_file_digest(path) == place.redacted
        missing = 0
        if is_untouched and copy.exists():
            restore_copy(path, copy, self._rows.open_copy_key())
        elif compute_file_digest(path) != place.original:
            missing = self._restore_cells(place, path)
        problem = CHANGED_SINCE.format(missing) if missing else ""
        self._rows.update_place(place.key, pending=0, problem=problem)

    def _restore_cells(self, place: RedactedPlace, path: Path) -> int:
        """Restore the values in the rows that still have their replacements, and return how many have not."""
        changes, missing = [], 0
        with open_rows(str(path)) as rows:
            for cell, spans in decode_cells(place.spans):
                value = read_cell(rows, cell)
                restorer = ValueRestorer(spans, self._values, self._spellings)
                new, edits = restorer.restore(to_bytes(value))
                missing += restorer.missing
                if edits:
                    changes.append(make_change(cell, value, new))
        if changes:
            write_changes(path, changes)
        return missing

    def _copy_path(self, place: int) -> Path:
        return self._copy_folder / f"{self._rows.id}-{place}.sealed"

    @property
    def _copy_folder(self) -> Path:
        return backup_folder(self._store.path) / "redactions"

    def delete_copies(self) -> None:
        """Delete the sealed copies of databases."""
        with suppress(OSError):
            for copy in self._copy_folder.glob(f"{self._rows.id}-*.sealed"):
                copy.unlink()
