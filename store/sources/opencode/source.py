"""opencode: a folder with a database, and what older releases left in it, with the same sessions in all of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import takewhile
from pathlib import Path

from store.model.entry import NewEntry
from store.model.session import Session, SessionFields
from store.sources.contract import Batch, Continuing, Problem, Ref
from store.sources.kit import homes, jsonl, sqlite
from store.sources.kit.jsonl import words
from store.sources.kit.transcripts import Transcripts
from store.sources.opencode.entries import Telling, Told, settled
from store.sources.opencode.outputs import FOLDER
from store.sources.opencode.storage import SIGNATURE, Database, Files, Generation, Info

__all__ = ["LABEL", "LOCAL_IDS", "NAME", "READER", "detect", "open", "resume", "roots", "stamp"]

NAME = "opencode"
LABEL = "opencode"
READER = 1
LOCAL_IDS = False

_TREES = ("storage/session", "storage/message", "storage/part", "project")


# ── where ─────────────────────────────────────────────────────────────────────────────────────────

roots = homes.opencode


def detect(locator: str) -> bool:
    path = Path(locator)
    if not os.path.isdir(path):
        return sqlite.looks_like(locator, SIGNATURE)
    return any(sqlite.looks_like(str(one), SIGNATURE) for one in _databases(path)) or any(_infos(path))


def _databases(folder: Path) -> Iterator[Path]:
    """One for each of the channels by which opencode is released, or one of the person's choice."""
    for path in jsonl.walk(folder, [], suffixes=(".db",), depth=0):
        if path.name.startswith("opencode") or path.name == os.environ.get("OPENCODE_DB"):
            yield path


def _infos(folder: Path) -> Iterator[Path]:
    yield from folder.glob("storage/session/*/ses_*.json")
    yield from folder.glob("project/*/storage/session/info/ses_*.json")


def stamp(locator: str) -> str:
    path = Path(locator)
    if not os.path.isdir(path):
        return sqlite.resting_stamp(path)
    databases = map(sqlite.resting_stamp, _databases(path))
    return sqlite.digest(*databases, *(jsonl.tree_stamp(path / tree, suffixes=(".json",)) for tree in _TREES))


@contextmanager
def open(locator: str) -> Iterator[Opencode]:  # noqa: A001 the shape's own word
    path = Path(locator)
    problems: list[Problem] = []
    is_folder = os.path.isdir(path)
    with ExitStack() as stack:
        connections = [stack.enter_context(sqlite.snapshot(one)) for one in (_databases(path) if is_folder else [path])]
        generations: list[Generation] = [
            Database(connection, problems)
            for connection in connections
            if sqlite.fits(sqlite.tables(connection), SIGNATURE)
        ]
        if is_folder:
            generations.append(Files(path, problems))
        yield Opencode(generations, (path if is_folder else path.parent) / FOLDER, problems)


def resume(session: Session) -> Continuing:
    name, _, reverted = session.native_id.partition("/")
    if reverted:
        return Continuing(None, session.cwd, f"This was taken back: go on with {name} and say /redo.")
    where = (session.cwd,) if session.cwd else ()
    argv = ("opencode", *where, "--session", name)
    return Continuing(argv, session.cwd, fork=(*argv, "--fork"), install="npm install -g opencode-ai")


# ── the store ─────────────────────────────────────────────────────────────────────────────────────


class Opencode(Transcripts):
    def __init__(self, generations: list[Generation], outputs: Path, problems: list[Problem]) -> None:
        super().__init__()
        self.problems = problems
        self._generations = generations
        self._outputs = outputs
        self._owners: dict[str, Generation] = {}
        self._calls = cache(self._find_calls)

    def scan(self) -> Iterator[Ref]:
        """The newest generation first: what was taken over from an older one stands there still, as it was then."""
        for generation in self._generations:
            for ref in generation.refs():
                if self._owners.setdefault(ref.native_id, generation) is not generation:
                    continue
                yield ref
                info = generation.info(ref.native_id)
                if info is not None and (reverted := words(info.revert.get("messageID"))):
                    yield Ref(f"{ref.native_id}/{reverted}", ref.stamp, ref.updated_at)

    def read(self, ref: Ref) -> Iterator[Batch]:
        name, _, reverted = ref.native_id.partition("/")
        owner = self._owners.get(name)
        info = owner.info(name) if owner else None
        if info is None:
            return
        met: list[Problem] = []
        quiet = sqlite.is_quiet(ref.updated_at)
        fields: SessionFields = {**info.fields}
        kept = sum(1 for _ in _kept(self._told(name, []), info)) if reverted else 0
        if reverted:
            fields |= {"parent_id": name, "relation": "fork", "forked_at": kept - 1}
            fields.pop("cost", None)  # which is the session's
        elif name in (calls := self._calls(fields.get("parent_id", ""))):
            fields["forked_at"] = calls[name]
        yield Batch(header=info.header, fields=fields, archived=info.archived)
        told = settled(self._told(name, met), everything=quiet)
        shown = told if reverted else _kept(told, info)
        yield from sqlite.batches(_entries(shown, kept, fields.get("created_at", "")), met)

    def _told(self, session: str, met: list[Problem]) -> Iterator[Told]:
        owner = self._owners[session]
        telling = Telling(lambda message: owner.parts(session, message, met), self._outputs)
        return telling.told(owner.messages(session, met))

    def _find_calls(self, session: str) -> dict[str, int]:
        """Where in a session's chain the calls stand that started another."""
        if session not in self._owners:
            return {}
        return {told.started: place for place, told in enumerate(self._told(session, [])) if told.started}


def _kept(told: Iterable[Told], info: Info) -> Iterator[Told]:
    """What of a session was not taken back."""
    message, part = (words(info.revert.get(name)) for name in ("messageID", "partID"))
    return takewhile(lambda one: not message or one.message != message or part not in ("", one.part), told)


def _entries(told: Iterable[Told], inherited: int, made: str) -> Iterator[list[NewEntry]]:
    """Where a time is none, the one before."""
    for place, (entry, *_) in enumerate(told):
        entry.inherited = place < inherited
        made = entry.created_at = entry.created_at or made
        yield [entry]
