"""This module says what agents load in a folder, and finds what is there twice or contradicts itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from store.memory.context import ContextFile
from store.memory.lines import find_key, normalize
from store.model.memory import (
    AgentBudget,
    DuplicateLine,
    KeyConflict,
    LinePlace,
    MemoryBudget,
    MemoryLine,
)

MIN_DUPLICATE_CHARACTERS = 8
"""Shorter texts, such as `See also:`, may well be in two files."""


def build_budget(folder: str, contexts: Mapping[str, Sequence[ContextFile]]) -> MemoryBudget:
    """Build the budget of a folder from the contexts of the agents. Agents that load nothing are left out."""
    files = {found.file.path: found.file for context in contexts.values() for found in context}
    return MemoryBudget(
        folder,
        tuple(
            AgentBudget(agent, tuple(found.loaded for found in context))
            for agent, context in contexts.items()
            if context
        ),
        tuple(_find_duplicates(contexts)),
        tuple(_find_conflicts(contexts)),
        tuple(file.problem for file in files.values() if file.problem),
    )


def _list_lines(context: Iterable[ContextFile]) -> Iterator[tuple[LinePlace, MemoryLine]]:
    """Yield the facts that are loaded at the start. Code is repeated for good reasons, so it is left out."""
    for found in context:
        if found.loaded.when == "start":
            for line in found.loaded_lines:
                if line.kind != "code":
                    yield LinePlace(found.file.path, line.number, line.text), line


def _find_duplicates(contexts: Mapping[str, Sequence[ContextFile]]) -> Iterator[DuplicateLine]:
    merged: dict[str, tuple[dict[LinePlace, None], list[str]]] = {}
    for agent, context in contexts.items():
        places: dict[str, dict[LinePlace, None]] = {}
        for place, line in _list_lines(context):
            text = normalize(line.text)
            if len(text) >= MIN_DUPLICATE_CHARACTERS:
                places.setdefault(text, {})[place] = None
        for text, found in places.items():
            if len(found) > 1:
                all_places, agents = merged.setdefault(text, ({}, []))
                all_places.update(found)
                agents.append(agent)
    for all_places, agents in merged.values():
        first = next(iter(all_places))
        yield DuplicateLine(first.text, tuple(all_places), tuple(agents))


def _find_conflicts(contexts: Mapping[str, Sequence[ContextFile]]) -> Iterator[KeyConflict]:
    merged: dict[str, tuple[dict[LinePlace, None], list[str]]] = {}
    for agent, context in contexts.items():
        values: dict[str, dict[str, dict[LinePlace, None]]] = {}
        for place, line in _list_lines(context):
            if (pair := find_key(line.text)) is not None:
                values.setdefault(pair.key, {}).setdefault(pair.value, {})[place] = None
        for key, by_value in values.items():
            if len(by_value) > 1:
                places, agents = merged.setdefault(key, ({}, []))
                for found in by_value.values():
                    places.update(found)
                agents.append(agent)
    for key, (places, agents) in merged.items():
        yield KeyConflict(key, tuple(places), tuple(agents))
