"""This module defines what a source is: a class that finds the stores of one agent, reads them, and resumes sessions.

`Source` finds and opens stores; `SourceReader` reads one that is open. Both have a harmless default for everything that
not every agent has. The values that they return are defined here too.

Every sync loads this module, even when nothing changed. It therefore imports neither `dataclasses` nor anything that
reads: a source imports its reader inside the method that needs it.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from store.errors import Refused
from store.sources import REGISTRY, Badge
from store.sources.kit.home import Home as Home
from store.sources.kit.problem import Problem as Problem

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from store.conversations.derive import DerivedRows
    from store.model.entry import Json, NewEntry
    from store.model.knowledge import KeptValues
    from store.model.session import Session, SessionFields
    from store.model.usage import Usage
    from store.sources.kit.write_plan import ForeignRows, WriteBackEdits, WritePlan

    UsageReader = Callable[[Iterable[tuple[int, Json]]], Iterator[tuple[int, Usage]]]
    """Gets the keys and values of the records of one session in order, and yields the usage with the key of its
    record."""


# ── values that a reader returns ──────────────────────────────────────────────────────────────────


class SessionRef(NamedTuple):
    """Names a session that a scan found. Nothing of the session has been read yet."""

    native_id: str
    stamp: str
    "Differs when anything in the session differs. Is empty if only reading can compute it; then the last batch has it."
    updated_at: str = ""


class ForeignSummary(NamedTuple):
    """Holds a summary that an agent wrote of a session."""

    text: str
    up_to_turn: int | None = None


class Batch:
    """Holds some entries of a session, in order and limited in size. The first batch also describes the session."""

    __slots__ = (
        "archived",
        "begins_with_parent",
        "derived_rows",
        "entries",
        "fields",
        "header",
        "kept",
        "mark",
        "problems",
        "stamp",
        "summary",
    )

    def __init__(
        self,
        entries: list[NewEntry] | None = None,
        *,
        derived_rows: DerivedRows | None = None,
        fields: SessionFields | None = None,
        begins_with_parent: bool = False,
        header: NewEntry | None = None,
        summary: ForeignSummary | None = None,
        archived: bool = False,
        kept: KeptValues | None = None,
        stamp: str = "",
        mark: str = "",
        problems: list[Problem] | None = None,
    ) -> None:
        self.entries = [] if entries is None else entries
        self.derived_rows = derived_rows
        "Replaces the entries when a reader process prepared the rows of a session that the store does not have."
        self.fields = fields
        "Describes the session; given with the first batch."
        self.begins_with_parent = begins_with_parent
        "Says that the parent's entries up to `forked_at` come first, and are in no batch; given with the first batch."
        self.header = header
        "The agent's own record of the session, which heads the chain; given with the first batch."
        self.summary = summary
        self.archived = archived
        self.kept = kept
        "Holds what a person kept of the session in another store; given with the first batch."
        self.stamp = stamp
        "Given with the last batch of a session whose ref has none."
        self.mark = mark
        "Says where reading continues when the file grows; given with the last batch. Only the reader understands it."
        self.problems: list[Problem] = [] if problems is None else problems


class QuickSession(NamedTuple):
    """Describes a session well enough to list it and to find its words until it is read."""

    native_id: str
    fields: SessionFields
    prompts: Sequence[str]
    answers: Sequence[str]
    "Answers and thoughts, as far as they can be recognized without parsing everything."


class ForeignFact(NamedTuple):
    """Holds something that an agent remembers beyond one conversation."""

    place: str
    "The table and key, unique within the store, e.g. `memories:12`."
    text: str
    scope: str = "source"
    "Says who may know it: `source`, `app:<name>`, `user:<app>/<name>`, or `session` for the one it came from."
    category: str = ""
    native_session: str = ""
    created_at: str = ""
    updated_at: str = ""


class ForeignSecret(NamedTuple):
    """Says that a secret exists and where. It never holds the value."""

    native_session: str
    key: str
    place: str
    created_at: str = ""


class ForeignFile(NamedTuple):
    """Describes a file that the agent published under a public id."""

    id: str
    native_session: str
    filename: str
    path: str
    created_at: str = ""


class PublishedFolder(NamedTuple):
    """Names where an agent keeps the files that it published for a session."""

    root: Path
    "Is the agent's own folder. It may be reached through links, unlike everything in it."
    inside: str
    "Is the path of the folder inside of it."


# ── values that a source returns ──────────────────────────────────────────────────────────────────


class ForkRequest(NamedTuple):
    """Holds what a new transcript shares with the session that it is forked from."""

    session: Session
    records: Sequence[bytes]
    "Are verbatim, the header first, up to the end of a turn; with a prompt, up to the prompt that it replaces."
    prompt: str | None
    created_at: datetime
    "Says when the fork is created."


class NewTranscript(NamedTuple):
    """Describes a transcript that is to be written where its agent looks for transcripts."""

    native_id: str
    path: Path
    lines: Sequence[bytes]
    sidecar_files: Sequence[tuple[Path, Path]] = ()
    "Lists files of the parent that must be copied, each with the path of the copy."
    register: Callable[[], None] = lambda: None
    "Runs after the transcript is written; adds it to the agent's own list of sessions, if there is one."


class ResumeCommand(NamedTuple):
    """Describes how to continue a session in its own agent: with a command, or else with a hint for the person."""

    argv: tuple[str, ...] | None
    cwd: str = ""
    hint: str = ""
    fork_argv: tuple[str, ...] | None = None
    "The command that continues in a copy and leaves this session unchanged, if the agent has one."
    skip_permission_flags: tuple[str, ...] = ()
    "The options that make the agent act without asking, if it has any."
    install_command: str = ""
    "Installs the agent."


# ── the contract ──────────────────────────────────────────────────────────────────────────────────


class SourceReader(ABC):
    """Reads one foreign store as it was at one moment."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []

    @abstractmethod
    def scan(self) -> Iterator[SessionRef]:
        """Return every session of the store."""

    @abstractmethod
    def read(self, ref: SessionRef) -> Iterator[Batch]:
        """Return a session from its beginning. The sync recognizes the records that the store already has."""

    def facts(self) -> Iterable[ForeignFact]:
        return ()

    def secrets(self) -> Iterable[ForeignSecret]:
        return ()

    def published(self) -> Iterable[ForeignFile]:
        return ()

    def scan_unstamped(self) -> Iterator[SessionRef]:
        """Return every session, perhaps without stamps. A first sync reads everything anyway, so a large store need
        not be read twice for its stamps."""
        return self.scan()

    # ── files that grow at their ends ─────────────────────────────────────────────────────────────

    def scan_files(self) -> Iterator[SessionRef] | None:
        """Return one session for each file, without opening the files; None for a store of another kind."""
        return None

    def scan_branches(self, ref: SessionRef) -> Iterable[SessionRef]:
        """Return the other sessions in the same file. They are named after it: `<its native id>/<something>`."""
        return ()

    def find_branches_read(self, ref: SessionRef) -> Iterable[SessionRef]:
        """Return what `scan_branches` returns, for a session that was just read. That may be known from reading it."""
        return self.scan_branches(ref)

    def read_branch(self, ref: SessionRef) -> Iterable[Batch]:
        """Return what `read` returns, for a session of `find_branches_read`. The entries of its parent, which the store
        has by then, may be left out with `Batch.begins_with_parent`."""
        return self.read(ref)

    def read_appended(self, ref: SessionRef, mark: str) -> Sequence[Batch] | None:
        """Return what was appended since the mark was made; None when the session, or another one in the same file,
        must be read from its beginning."""
        return None


class Source(ABC):
    """Finds and opens the stores of one agent. Everything that is known about the agent belongs to its subclass."""

    name: ClassVar[str]
    "Is the key of the source in the registry, which also has the label and the badge."
    reader_version: ClassVar[int] = 1
    "Is raised when the reader understands more of the same records than before."
    has_local_ids: ClassVar[bool] = False
    "Says that native ids are unique only within their store, so that ours must include the identity of the store."
    allows_live_writes: ClassVar[bool] = False
    "Says that edits may be written back while the agent runs. Otherwise a file that any process has open is refused."
    home: ClassVar[Home | None] = None
    "Names where the agent keeps its store, for an agent that needs no `roots` of its own."
    where: ClassVar[str] = ""
    "Describes for people where the agent keeps its store, if `home` does not."

    @property
    def label(self) -> str:
        return REGISTRY[self.name].label

    @property
    def badge(self) -> Badge:
        return REGISTRY[self.name].badge

    # ── finding and reading ───────────────────────────────────────────────────────────────────────

    def find_kept_id(self, native_id: str) -> str:
        """Return the public id that a session had before it was exported, or nothing if it gets one of this source."""
        return ""

    def roots(self) -> Iterable[str]:
        """Return where this machine may have stores of this kind: paths or URLs, which need not exist."""
        return (self.home.locate(),) if self.home else ()

    def describe_home(self) -> str:
        """Return where the agent keeps its store, for a person to read."""
        return self.where or (self.home.describe() if self.home else "")

    def raise_if_damaged(self, locator: str) -> None:  # noqa: B027 (most stores are files that show what they are)
        """Raise Unreadable if what is where the agent keeps its store is so damaged that `detect` cannot know it."""

    @abstractmethod
    def detect(self, locator: str) -> bool:
        """Return whether the content is that of a store of this kind. Raises Busy when it is being written to and
        cannot be recognized yet."""

    # A person may name a folder of any content. Its files are looked at one by one.

    def knows(self, path: Path, beginning: bytes) -> bool:
        """Return whether a file is part of a store of this kind. Its first bytes are given, so that most files need
        not be opened again. Raises Busy as `detect` does."""
        return self.detect(str(path))

    def find_store(self, path: Path, top: Path) -> Path | None:
        """Return the store that a known file is part of: the file itself, or a folder at or below `top`. None means
        that it is a loose file, which is read together with others."""
        return path

    def has_own_folders(self, folder: Path) -> bool:
        """Return whether folders of the agent's own layout are in this one. Opening it reads only those; opening any
        other folder reads all loose files in it, at any depth."""
        return False

    def owns_folder(self, folder: Path) -> bool:
        """Return whether a folder with a store has the agent's own name, so that all files in it are the agent's. A
        copy often has no dot before the name."""
        roots = [*self.roots(), self.home.path if self.home else ""]
        return folder.name.lstrip(".") in {os.path.basename(root).lstrip(".") for root in roots if root}

    @abstractmethod
    def stamp(self, locator: str) -> str:
        """Return the stamp of a store; empty when only reading can compute it. It must be cheap."""

    @abstractmethod
    def open(self, locator: str) -> AbstractContextManager[SourceReader]: ...

    def quick_read(self, locator: str, known: Container[str]) -> Iterator[QuickSession]:
        """Return every session that is not known, the newest first, without parsing it completely. A session that
        cannot be described without that is left out."""
        return iter(())

    @property
    def has_quick_read(self) -> bool:
        return type(self).quick_read is not Source.quick_read

    def expiry(self, locator: str, refs: Iterable[SessionRef]) -> Mapping[str, str]:
        """Return when the agent will delete sessions, by native id. A session without a time stays."""
        return {}

    def published_folders(self, locator: str, native_id: str) -> Iterable[PublishedFolder]:
        """Return the folders in which the agent keeps published files of a session, besides the session's own."""
        return ()

    # ── continuing in the agent ───────────────────────────────────────────────────────────────────

    def resume(self, session: Session) -> ResumeCommand:
        """Return how to continue the session in its own agent."""
        return ResumeCommand(None, cwd=session.cwd, hint=f"{self.label} cannot resume a session.")

    def git_branch(self, record: Json) -> str:
        """Return the git branch that a record names; empty when it names none."""
        return ""

    def usage_reader(self) -> UsageReader | None:
        """Return what reads the usage in the stored records of one session.

        Usage that is already stored with the tokens of entries needs no such function.
        """
        return None

    def list_processes(self) -> Iterable[tuple[str, int]] | None:
        """Return the native id of each session that a process works on, and the process, as the agent lists them.

        Killed processes may still be listed. Return None if the agent keeps no list.
        """
        return None

    @property
    def writes_forks(self) -> bool:
        """Is true when forks of some of its sessions can be written as transcripts of the agent."""
        return type(self).fork is not Source.fork

    def can_fork(self, session: Session) -> bool:
        """Return whether `fork` can write a transcript that the agent can continue."""
        return False

    def fork(self, request: ForkRequest) -> NewTranscript:
        """Return the transcript of a fork, without writing it. Raises Refused when nothing would be left to
        continue."""
        raise Refused(f"{self.label} cannot load forks.")

    # ── writing back ──────────────────────────────────────────────────────────────────────────────

    @property
    def can_write_back(self) -> bool:
        return type(self).plan_write_back is not Source.plan_write_back

    def plan_write_back(self, rows: ForeignRows, edits: WriteBackEdits) -> WritePlan:
        """Return the rows that must change in the foreign store for these edits."""
        raise Refused(f"{self.label} does not accept edits; they stay in Backscroll.")

    def read_secret(self, rows: ForeignRows, native_id: str, key: str) -> str | None:
        """Return a secret that the foreign store holds as plain text; None when it holds none. It is read only when a
        person wants to see or to seal it."""
        return None
