"""This module loads the memory files of one agent in one folder, in the agent's order and with its limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from store.memory.files import read_memory_file
from store.memory.imports import find_imports, resolve_import
from store.memory.project import Project
from store.memory.rules import AgentRules, MemoryPlace
from store.model.memory import LoadedFile, MemoryFile, MemoryLine

_CHARACTERS_PER_TOKEN = 4


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: four letters of English for one, and one for each character of other scripts."""
    ascii_count = len(text.encode("ascii", "ignore"))
    return -(-ascii_count // _CHARACTERS_PER_TOKEN) + len(text) - ascii_count


class FileCache:
    """Reads each file once. Many agents and folders share a file."""

    def __init__(self) -> None:
        self._files: dict[tuple[Path, Path], MemoryFile | None] = {}

    def read(self, path: Path, root: Path) -> MemoryFile | None:
        key = path, root
        if key not in self._files:
            self._files[key] = read_memory_file(path, root)
        return self._files[key]


@dataclass(frozen=True, slots=True)
class ContextFile:
    """Is a file of a context: where it was looked for, what it holds, and how much of it is loaded."""

    place: MemoryPlace
    file: MemoryFile
    loaded: LoadedFile
    loaded_lines: tuple[MemoryLine, ...] = ()


def load_context(rules: AgentRules, project: Project, files: FileCache) -> list[ContextFile]:
    """Return the files that the agent finds in a folder, in its order."""
    return list(_Context(rules, project, files).load())


class _Context:
    """Loads one context. It remembers what is loaded, because an agent loads each file once."""

    def __init__(self, rules: AgentRules, project: Project, files: FileCache) -> None:
        self._rules = rules
        self._project = project
        self._files = files
        self._seen: set[Path] = set()
        self._groups: dict[str, str] = {}
        self._room = rules.read_project_limit()

    def load(self) -> Iterator[ContextFile]:
        for place in self._rules.list_places(self._project):
            if self._project.listings.has(place.path):
                yield from self._load_place(place)

    def _load_place(self, place: MemoryPlace, imported_by: str = "", depth: int = 0) -> Iterator[ContextFile]:
        target = _resolve(place.path)
        if target in self._seen:
            return
        file = self._files.read(place.path, place.root)
        if file is None:
            return
        self._seen.add(target)
        found = self._cut(place, file, imported_by)
        yield found
        if self._rules.import_depth and found.loaded.when != "not loaded":
            yield from self._load_imports(found, depth + 1)

    def _cut(self, place: MemoryPlace, file: MemoryFile, imported_by: str) -> ContextFile:
        """Apply the limits of the agent to a file."""
        size = len(file.text.encode())
        loaded = LoadedFile(file.path, place.tier, place.when, size, 0, 0, place.reason, imported_by)
        if not file.is_readable:
            loaded = replace(loaded, when="not loaded", bytes=0, reason=file.problem)
        elif place.group and (winner := self._find_winner(place, file)) != file.path:
            loaded = replace(loaded, when="not loaded", bytes=0, reason=f"{winner} is loaded instead.")
        elif place.when == "not loaded":
            loaded = replace(loaded, bytes=0)
        if loaded.when == "not loaded":
            return ContextFile(place, file, loaded)
        text, reason = self._cut_text(place, file.text)
        kept = len(text.encode())
        loaded = replace(loaded, bytes=kept, tokens=estimate_tokens(text), cut_bytes=size - kept)
        if reason:
            loaded = replace(loaded, reason=reason)
        last_line = text.count("\n") + bool(text and not text.endswith("\n"))
        lines = tuple(line for line in file.lines if line.number <= last_line)
        return ContextFile(place, file, loaded, lines)

    def _find_winner(self, place: MemoryPlace, file: MemoryFile) -> str:
        """Return the file of a group that is loaded."""
        if file.text.strip() or place.hides_if_empty:
            return self._groups.setdefault(place.group, file.path)
        return self._groups.get(place.group, file.path)

    def _cut_text(self, place: MemoryPlace, text: str) -> tuple[str, str]:
        """Return what the agent loads of a text, and why that is not all."""
        reason = ""
        if place.max_lines is not None and text.count("\n") >= place.max_lines:
            kept = "".join(text.splitlines(keepends=True)[: place.max_lines])
            if len(kept) < len(text):
                text, reason = kept, f"Only the first {place.max_lines} lines are loaded."
        if place.max_bytes is not None and len(text.encode()) > place.max_bytes:
            text, reason = _cut_bytes(text, place.max_bytes), f"Only the first {place.max_bytes:,} bytes are loaded."
            if place.max_lines is not None:  # only whole lines are loaded
                text = text[: text.rfind("\n") + 1]
        if place.tier == "project" and self._room is not None:
            if len(text.encode()) > self._room:
                text = _cut_bytes(text, self._room)
                reason = (
                    f"The limit of {self._rules.read_project_limit():,} bytes for all files of a project is reached."
                )
            self._room -= len(text.encode())
        return text, reason

    def _load_imports(self, importer: ContextFile, depth: int) -> Iterator[ContextFile]:
        for name in find_imports(importer.file.text):
            path = resolve_import(name, _resolve(importer.place.path))
            place = importer.place._replace(
                path=path, tier="import", group="", max_lines=None, max_bytes=None, reason=importer.place.reason
            )
            if not self._project.listings.has(path) or path.is_dir():
                continue
            if depth > self._rules.import_depth:
                place = place._replace(
                    when="not loaded", reason=f"It is imported more than {self._rules.import_depth} levels deep."
                )
            elif not self._is_inside(path, place):
                yield _leave_out(place, importer.file.path)
                continue
            yield from self._load_place(place, importer.file.path, depth)

    def _is_inside(self, path: Path, place: MemoryPlace) -> bool:
        target = _resolve(path)
        return any(target.is_relative_to(_resolve(root)) for root in (self._project.root, place.root))


def _leave_out(place: MemoryPlace, imported_by: str) -> ContextFile:
    """Return an import that is not read, because it could be any file of this machine."""
    reason = "It is outside the folder, so the agent asks before, and it was not read here."
    loaded = LoadedFile(str(place.path), place.tier, "not loaded", 0, 0, 0, reason, imported_by)
    return ContextFile(place, MemoryFile(str(place.path), is_readable=False), loaded)


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):
        return path


def _cut_bytes(text: str, size: int) -> str:
    return text.encode()[:size].decode("utf-8", "ignore")
