"""The one shape of a source: a module that finds a foreign program's stores, reads them, and can go back to it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from store.model.entry import Json, NewEntry
from store.model.session import Session, SessionFields
from store.sources.kit.problem import Problem as Problem

if TYPE_CHECKING:
    from store.conversations.derive import DerivedRows


@dataclass(frozen=True, slots=True)
class SessionRef:
    "A session as a scan finds it, before anything of it is read."

    native_id: str
    stamp: str
    "Differs when anything of the session differs; empty when only reading it can tell, and the last batch says it."
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class ForeignSummary:
    text: str
    up_to_turn: int | None = None


@dataclass(slots=True)
class Batch:
    "Some of a session's entries, in order, bounded in size; the first batch of a session tells of the session too."

    entries: list[NewEntry] = field(default_factory=list)
    derived_rows: DerivedRows | None = None
    "In place of the entries, when somebody made them ready for a session that the store has nothing of."
    fields: SessionFields | None = None
    "What the foreign program says of the session; given with the first batch."
    header: NewEntry | None = None
    "The session's own foreign record, as the header of its chain; given with the first batch."
    summary: ForeignSummary | None = None
    archived: bool = False
    stamp: str = ""
    "With the last batch of a session whose ref has none."
    mark: str = ""
    "With the last batch, where a file that grows is gone on with: the reader's own words, for itself."
    problems: list[Problem] = field(default_factory=list)


class QuickSession(NamedTuple):
    "A session at first sight: enough to list it and to find its words, until it is read."

    native_id: str
    fields: SessionFields
    prompts: Sequence[str]
    answers: Sequence[str]
    "Answers and thoughts, as far as they can be told at first sight."


@dataclass(frozen=True, slots=True)
class ForeignFact:
    "Something a foreign program remembers beyond one conversation."

    place: str
    "Table and key, unique within its store, e.g. `memories:12`."
    text: str
    scope: str = "source"
    "Who may know it: `source`, `app:<name>`, `user:<app>/<name>`, or `session` for the one it came from."
    category: str = ""
    native_session: str = ""
    created_at: str = ""
    updated_at: str = ""


@dataclass(frozen=True, slots=True)
class ForeignSecret:
    "That a secret is there, and where; never its value."

    native_session: str
    key: str
    place: str
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class ForeignFile:
    "A file the foreign program published under a public id."

    id: str
    native_session: str
    filename: str
    path: str
    created_at: str = ""


@runtime_checkable
class SupportsUnstampedScan(Protocol):
    "A store so large that its stamps are better made while it is read."

    def scan_unstamped(self) -> Iterator[SessionRef]:
        """For a first sync, which reads everything anyway."""
        ...


@runtime_checkable
class SupportsQuickRead(Protocol):
    "Transcripts of which most is tool output: what was said stands in a few lines, known by how they begin."

    NAME: str

    def quick_read(self, locator: str, known: Container[str]) -> Iterator[QuickSession]:
        """Every session but those that are known, the newest first. What cannot be told at first sight is left out."""
        ...


@runtime_checkable
class SupportsExpiry(Protocol):
    "An agent that deletes its sessions when they have not been used for a while."

    def expiry(self, locator: str, refs: Iterable[SessionRef]) -> Mapping[str, str]:
        """When, by native id, of those that a scan found; those that it does not name stay."""
        ...


@runtime_checkable
class SupportsGitBranch(Protocol):
    "An agent that writes down on which git branch it worked."

    def git_branch(self, record: Json) -> str:
        """Which one a record of its names; empty when it names none."""
        ...


@runtime_checkable
class SupportsProcesses(Protocol):
    "An agent that notes which of its processes works on which session."

    def processes(self, native_id: str) -> Iterable[int]:
        """Their numbers. One that was ended by force may have left its note behind."""
        ...


@runtime_checkable
class SupportsAppend(Protocol):
    "Files that grow at their ends. Each is told of without being opened, and gone on with where it was left."

    def scan_files(self) -> Iterator[SessionRef]:
        """A session for each file."""
        ...

    def scan_branches(self, ref: SessionRef) -> Iterable[SessionRef]:
        """The other sessions in the same file, named after it: `<its native id>/<something>`."""
        ...

    def read_appended(self, ref: SessionRef, mark: str) -> Sequence[Batch] | None:
        """What came since the mark was made; None when the session, or one beside it, must be read anew."""
        ...


@dataclass(frozen=True, slots=True)
class ForkRequest:
    "What a new transcript shares with the session that it is forked from."

    session: Session
    records: Sequence[bytes]
    "Verbatim, the header's first, up to the end of a turn; or, with a prompt, up to the one that it replaces."
    prompt: str | None
    created_at: datetime
    "When the fork is made."


@dataclass(frozen=True, slots=True)
class NewTranscript:
    "A transcript that is to be written, where its program looks for such."

    native_id: str
    path: Path
    lines: Sequence[bytes]
    sidecar_files: Sequence[tuple[Path, Path]] = ()
    "Files of the parent that it needs copies of: from where, to where."
    register: Callable[[], None] = lambda: None
    "Once it is written: enters it where its program looks for sessions, if a file alone is not enough."


@runtime_checkable
class SupportsFork(Protocol):
    "An agent that goes on with a transcript somebody else wrote, if it is written as the agent would."

    def can_fork(self, session: Session) -> bool: ...
    def fork(self, past: ForkRequest) -> NewTranscript:
        """Writes nothing itself. Raises Refused where there would be nothing to go on with."""
        ...


class SourceReader(Protocol):
    "A foreign store as it was at one moment."

    problems: list[Problem]

    def scan(self) -> Iterator[SessionRef]: ...
    def read(self, ref: SessionRef) -> Iterator[Batch]:
        """The session from its beginning. What the store holds already is told apart by the records' digests."""
        ...

    def facts(self) -> Iterable[ForeignFact]: ...
    def secrets(self) -> Iterable[ForeignSecret]: ...
    def published(self) -> Iterable[ForeignFile]: ...


@dataclass(frozen=True, slots=True)
class ResumeCommand:
    "How a session goes on in its own program: a command, or where there is none, what a person does instead."

    argv: tuple[str, ...] | None
    cwd: str = ""
    hint: str = ""
    fork_argv: tuple[str, ...] | None = None
    "The command that goes on in a copy and leaves this one as it is, where the program has one."
    skip_permission_flags: tuple[str, ...] = ()
    "The options with which it does what it wants without asking, where it has such."
    install_command: str = ""
    "How one comes by the program."


class Source(Protocol):
    NAME: str
    LABEL: str
    READER: int
    "Raised when the reader understands more of the same records than before."
    LOCAL_IDS: bool
    "Whether native ids are unique only within their store, so that the store's identity belongs into ours."

    def roots(self) -> Iterable[str]:
        """Where this machine may have such stores: paths or URLs; they need not exist."""
        ...

    def detect(self, locator: str) -> bool:
        """By content. Raises Busy where the store is being written to and cannot be told yet."""
        ...

    def stamp(self, locator: str) -> str:
        """Cheap to get, and the same as long as nothing changed; empty when only reading can tell."""
        ...

    def open(self, locator: str) -> AbstractContextManager[SourceReader]: ...
    def resume(self, session: Session) -> ResumeCommand: ...
