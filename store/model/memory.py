"""This module defines what agents remember in files: the files, their lines, and what an agent loads in a folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from difflib import unified_diff
from typing import Literal, NamedTuple

MemoryScope = Literal["machine", "agent", "folder"]
"""Says where a file counts: everywhere on this machine, everywhere for one agent, or in one folder."""

LoadTime = Literal["start", "on demand", "not loaded"]
"""Says when an agent loads a file. One that is loaded on demand costs no tokens until then."""

LineKind = Literal["bullet", "line", "code"]


@dataclass(frozen=True, slots=True)
class MemoryLine:
    """Is one line or bullet of a memory file, which is a fact."""

    id: str
    "Identifies the file and the normalised text, so that it stays when the line moves."
    number: int
    "Is the number of its first line in the file."
    text: str
    "Is the text as the file has it, without the mark of the bullet. Its indented lines are joined."
    kind: LineKind = "line"
    heading: str = ""
    last_number: int = 0
    "Is the number of its last line in the file."


@dataclass(frozen=True, slots=True)
class MemoryFile:
    """Is a file that agents load, as it was when it was read."""

    path: str
    text: str = ""
    lines: tuple[MemoryLine, ...] = ()
    problem: str = ""
    "Says in a sentence why the file was not read, or cannot be written. Is empty if neither."
    is_readable: bool = True
    digest: str = ""
    "Is the SHA-256 of the content. Is empty if the file was not read."
    modified_at: str = ""


class MemoryUse(NamedTuple):
    """Says how one agent uses a memory file."""

    agent: str
    "Is the name of the source."
    scope: MemoryScope
    folder: str
    "Is the folder in and below which the file counts. Is empty if that is every folder."
    tier: str
    "Names the place in the words of the agent, e.g. `user` or `project`."
    when: LoadTime


@dataclass(frozen=True, slots=True)
class ListedFile:
    """Is a memory file with everything that loads it."""

    file: MemoryFile
    uses: tuple[MemoryUse, ...]

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that load the file, or those that would look at it if none does."""
        loading = [use for use in self.uses if use.when != "not loaded"]
        return tuple(dict.fromkeys(use.agent for use in loading or self.uses))

    @property
    def scope(self) -> MemoryScope:
        """The widest scope. A file that several agents load everywhere counts on the whole machine."""
        scopes = {use.scope for use in self.uses}
        if "machine" in scopes or (scopes == {"agent"} and len(self.agents) > 1):
            return "machine"
        return "agent" if "agent" in scopes else "folder"

    @property
    def folder(self) -> str:
        """The folder where the file counts. Is empty if that is every folder."""
        return "" if self.scope != "folder" else next((use.folder for use in self.uses if use.folder), "")


class MemoryListing(NamedTuple):
    """Holds the files of several folders, and what tells whether something changed since."""

    files: tuple[ListedFile, ...]
    watched: tuple[str, ...]
    stamp: tuple[tuple[int, int, int] | None, ...]


# ── budget ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """Is a file that an agent loads in a folder, and how much of it."""

    path: str
    tier: str
    when: LoadTime
    bytes: int
    "Counts what is loaded."
    tokens: int
    "Is estimated from the text that is loaded."
    cut_bytes: int = 0
    reason: str = ""
    "Says in a sentence why it is cut, or not loaded."
    imported_by: str = ""


@dataclass(frozen=True, slots=True)
class AgentBudget:
    """Lists what one agent loads in a folder, in order."""

    agent: str
    files: tuple[LoadedFile, ...]

    @property
    def tokens(self) -> int:
        """The tokens that are loaded at the start of a session."""
        return sum(file.tokens for file in self.files if file.when == "start")

    @property
    def cut_bytes(self) -> int:
        return sum(file.cut_bytes for file in self.files)


class LinePlace(NamedTuple):
    path: str
    number: int
    text: str


@dataclass(frozen=True, slots=True)
class DuplicateLine:
    """Is a text that an agent loads more than once."""

    text: str
    places: tuple[LinePlace, ...]
    agents: tuple[str, ...]
    "Names the agents that load it more than once."


@dataclass(frozen=True, slots=True)
class KeyConflict:
    """Is a key, as in `Key: value`, that has different values in what one agent loads."""

    key: str
    places: tuple[LinePlace, ...]
    agents: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MemoryBudget:
    """Says what all agents load in one folder, and what is wrong with it."""

    folder: str
    agents: tuple[AgentBudget, ...]
    duplicates: tuple[DuplicateLine, ...] = ()
    conflicts: tuple[KeyConflict, ...] = ()
    problems: tuple[str, ...] = field(default=())
    "Names the files that cannot be read, in a sentence each."


# ── blame ─────────────────────────────────────────────────────────────────────────────────────────

OriginKind = Literal["session", "commit", "fact", "hand"]


@dataclass(frozen=True, slots=True)
class LineOrigin:
    """Says who wrote a line: a tool call of a session, a git commit, a push of a fact, or a person."""

    kind: OriginKind
    at: str = ""
    "Is empty if it is not known, as for a person."
    agent: str = ""
    session_id: str = ""
    title: str = ""
    turn: int = 0
    entry: str = ""
    tool: str = ""
    commit: str = ""
    author: str = ""
    summary: str = ""
    fact: int = 0


class EarlierText(NamedTuple):
    """Is what a line said before, and who had written that."""

    text: str
    origin: LineOrigin


@dataclass(frozen=True, slots=True)
class BlamedLine:
    line: MemoryLine
    origin: LineOrigin
    earlier: tuple[EarlierText, ...] = ()
    "Holds what the line said before, newest first."


class LoadingSession(NamedTuple):
    """Is a session that loaded a file."""

    session_id: str
    agent: str
    title: str
    at: str
    is_recorded: bool
    "Says whether the conversation holds the line. If not, it follows from the rules of the agent."


@dataclass(frozen=True, slots=True)
class FileBlame:
    file: MemoryFile
    lines: tuple[BlamedLine, ...]
    loading_count: int = 0
    "Counts the sessions that loaded the file after the line was written."
    loading: tuple[LoadingSession, ...] = ()
    "Holds the newest of them."
    unread_sessions: int = 0
    "Counts the sessions that are not read yet. One of them may have written a line."


# ── writing ───────────────────────────────────────────────────────────────────────────────────────


class Audience(NamedTuple):
    """Says which agents get a fact in their memory files."""

    agent: str = ""
    "Is empty for all agents."
    folder: str = ""
    "Is empty for everywhere."

    def describe(self) -> str:
        return f"{self.agent or 'all agents'} {f'in {self.folder}' if self.folder else 'everywhere'}"


@dataclass(frozen=True, slots=True)
class FilePush:
    """Describes what a push would do to one file."""

    path: str
    before: str | None = None
    "Is the text of the file, or None if there is none."
    after: str | None = None
    lines: tuple[tuple[int, str], ...] = ()
    "Holds the facts of the block: the number of each, and its line."
    problem: str = ""
    "Says in a sentence why the file is not written."
    notes: tuple[str, ...] = ()

    @property
    def is_changed(self) -> bool:
        return not self.problem and self.before != self.after

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        before, after = ((text or "").splitlines() for text in (self.before, self.after))
        return "\n".join(unified_diff(before, after, self.path, self.path, lineterm="", n=1))


@dataclass(frozen=True, slots=True)
class PushPlan:
    files: tuple[FilePush, ...]

    @property
    def changed(self) -> list[FilePush]:
        return [file for file in self.files if file.is_changed]

    @property
    def problems(self) -> list[str]:
        return [file.problem for file in self.files if file.problem]


class MergeOption(NamedTuple):
    """Is one of the values of a key, as a text that all its lines can get."""

    text: str
    places: tuple[LinePlace, ...]
    "Are the lines that have this value now."


@dataclass(frozen=True, slots=True)
class MergePlan(PushPlan):
    """Describes what a merge of a key would do."""

    conflict: KeyConflict
    text: str
    "Is what all lines with the key get."
    facts: tuple[int, ...]
    "Names the facts that get it, because they were pushed into one of the files."


@dataclass(frozen=True, slots=True)
class LineEdit:
    """Is an edit that a person made by hand in a block of ours."""

    path: str
    kind: Literal["changed", "removed", "added"]
    fact: int | None
    "Is None for an added line."
    base: str
    "Is the line that we wrote."
    there: str
    "Is the text that the file has now. Is empty for a removed line."
    here: str
    "Is the text that the store has now."
    is_conflict: bool
    "Says whether the fact was changed in the store or in another file, too."


@dataclass(frozen=True, slots=True)
class PullPlan:
    edits: tuple[LineEdit, ...]
    problems: tuple[str, ...] = ()

    @property
    def conflicts(self) -> list[LineEdit]:
        return [edit for edit in self.edits if edit.is_conflict]
