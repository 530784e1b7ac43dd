"""How a session goes on in its own program: the command, its folder, and what stands in the way."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from store import sources
from store.errors import Refused
from store.model.session import Session
from store.sources.contract import ResumeCommand, Source
from store.text.sanitize import one_line

_UNSAFE_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""What a shell would act on, and half a character, which no program can be handed."""


@dataclass(frozen=True, slots=True)
class ResumePlan:
    """What would be run, and where. With an obstacle or without a command it cannot be, and says why."""

    session: Session
    agent_label: str
    "The agent's name, for a person to read."
    argv: tuple[str, ...] | None
    folder: Path | None
    "Where to run it; None for wherever one is. Without a command, the one that may be to blame."
    hint: str
    "What a person does where there is no command, or besides it."
    program_path: str = ""
    "Where the program is; empty when it is not."
    install_command: str = ""
    "How one comes by it."
    is_fork: bool = False
    "It goes on in a copy."
    skip_permission_flags: tuple[str, ...] = ()
    "The agent's own options for acting without asking, whether or not they are used."
    obstacles: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """To be typed into a shell; empty when there is none."""
        if self.argv is None:
            return ""
        inside = f"cd {shlex.quote(str(self.folder))} && " if self.folder else ""
        return inside + shlex.join(self.argv)

    @property
    def can_run(self) -> bool:
        """There is a command, and nothing stands in its way."""
        return self.argv is not None and not self.obstacles

    @property
    def folder_exists(self) -> bool:
        try:
            return self.folder is None or (self.folder.is_absolute() and self.folder.is_dir())
        except OSError:  # a name that is too long, or stands where one may not look
            return False

    @property
    def skips_permissions(self) -> bool:
        """The agent would act without asking."""
        return bool(self.skip_permission_flags and self.argv) and set(self.skip_permission_flags) <= set(
            self.argv or ()
        )

    def execute(self) -> NoReturn:
        """This process becomes the agent: what was asked of the terminal is over, and no shell is in between."""
        if self.obstacles or self.argv is None:
            raise Refused(" ".join(self.obstacles) or self.hint)
        try:
            if self.folder:
                os.chdir(self.folder)
            os.execvp(self.argv[0], self.argv)  # noqa: S606 an argument list, never a shell
        except OSError as reason:
            raise Refused(f"{self.argv[0]} cannot be started: {reason.strerror}.") from None


def plan_resume(
    session: Session, folder: Path | None = None, *, fork: bool = False, flags: tuple[str, ...] = ()
) -> ResumePlan:
    """How to continue the session, or a copy of it; in `folder`, when that is not the one it was in.

    Flags are further options of the agent's own, such as those of `skipping`.
    """
    source = sources.load_source(session.source)
    if source is None:
        hint = "It was kept through the library; the program that made it knows how it goes on."
        return ResumePlan(session, one_line(session.source), None, None, hint)
    # A command may name the folder, too: it must be the one that is meant.
    told = source.resume(session._replace(cwd=str(folder)) if folder else session)
    argv = told.fork_argv if fork else told.argv
    inside = folder or (Path(told.cwd) if told.cwd else None)
    refused = _find_refusal(session, source.LABEL, argv, inside)
    if argv is None or refused:
        return ResumePlan(
            session,
            source.LABEL,
            None,
            inside if refused else None,
            refused or one_line(_hint_without_command(source, told)),
        )
    found = ResumePlan(
        session,
        source.LABEL,
        (*argv, *flags),
        inside,
        told.hint,
        program_path=shutil.which(argv[0]) or "",
        install_command=told.install_command,
        is_fork=fork,
        skip_permission_flags=told.skip_permission_flags,
    )
    return replace(found, obstacles=tuple(_find_obstacles(found)))


def _hint_without_command(source: Source, told: ResumeCommand) -> str:
    """A command that was asked for and is not there can only be the one that forks."""
    if told.argv is None:
        return told.hint
    return f"{source.LABEL} cannot fork a session; `backscroll fork` makes a fork that is kept here."


def _find_refusal(session: Session, program: str, argv: tuple[str, ...] | None, folder: Path | None) -> str:
    """Why there is no command: what could be taken for an option, or would act on the shell that it is pasted into."""
    where = str(folder or "")
    if argv and (where.startswith("-") or _UNSAFE_CHARACTERS.search(where)):
        return f"The folder is called {one_line(where)!r}, which no shell would take; name another with --cwd."
    if argv and (session.native_id.startswith("-") or any(map(_UNSAFE_CHARACTERS.search, argv))):
        return f"The session is called {one_line(session.native_id)!r}, which {program} would not take for a name."
    return ""


def _find_obstacles(wanted: ResumePlan) -> list[str]:
    program = wanted.argv[0] if wanted.argv else ""
    found = []
    if not wanted.program_path:
        way = f"install it with `{wanted.install_command}`, or " if wanted.install_command else ""
        found.append(
            f"The program {program} is not installed, or not on the PATH; {way}copy the command and run it there."
        )
    if not wanted.folder_exists:
        found.append(f"The folder {one_line(str(wanted.folder))} is not there any more; name another with --cwd.")
    return found
