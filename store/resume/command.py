"""This module builds the command that resumes a session in its agent, and runs it."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NoReturn

from store import sources
from store.agent_api.histories import describe_continuation
from store.errors import Refused
from store.model.session import Session
from store.paths import find_program
from store.sources.contract import ResumeCommand, Source
from store.text.sanitize import one_line

_LIBRARY_HINT = "This session was written with the Python library. Continue it in the program that wrote it."
_UNSAFE_CHARACTERS = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
"""Matches control characters, which a shell would act on, and lone surrogates, which no argument can contain."""


@dataclass(frozen=True, slots=True)
class ResumePlan:
    """Describes the command to run and its folder. It cannot run if it has obstacles or no command."""

    session: Session
    agent_label: str
    "The name of the agent as people know it."
    argv: tuple[str, ...] | None
    "The command and its arguments. Is None if there is no command."
    folder: Path | None
    "The folder to run it in. Is None for the current folder. Without a command, it may be the reason for that."
    hint: str
    "Says what a person can do instead of the command, or in addition to it."
    program_path: str = ""
    "The absolute path of the program. Is empty if the program is not installed."
    install_command: str = ""
    "The command that installs the program."
    is_fork: bool = False
    "Is True if the agent forks the session and continues in the fork."
    skip_permission_flags: tuple[str, ...] = ()
    "The options of the agent for acting without permission, used or not."
    obstacles: tuple[str, ...] = ()
    "Sentences that say why it cannot run."

    @property
    def command(self) -> str:
        """Return the command as a line for a shell; empty if there is none."""
        if self.argv is None:
            return ""
        change_folder = f"cd {shlex.quote(str(self.folder))} && " if self.folder else ""
        return change_folder + shlex.join(self.argv)

    @property
    def can_run(self) -> bool:
        """Return whether there is a command and no obstacle."""
        return self.argv is not None and not self.obstacles

    @property
    def folder_exists(self) -> bool:
        try:
            return self.folder is None or (self.folder.is_absolute() and self.folder.is_dir())
        except OSError:  # the path is too long or may not be read
            return False

    @property
    def skips_permissions(self) -> bool:
        """Return whether the command lets the agent act without asking for permission."""
        return bool(self.skip_permission_flags and self.argv) and set(self.skip_permission_flags) <= set(
            self.argv or ()
        )

    def execute(self) -> NoReturn:
        """Replace this process by the agent, without a shell in between."""
        argv = self._require_argv()
        try:
            if self.folder:
                os.chdir(self.folder)
            # The path was found before the folder changed, so a program of the folder cannot take its place.
            os.execv(self.program_path, argv)  # noqa: S606 an argument list, never a shell
        except OSError as error:
            raise Refused(f"Cannot start {argv[0]}: {error.strerror}.") from None

    def run(self) -> int:
        """Run the agent in this terminal, wait for its end, and return its exit status."""
        argv = self._require_argv()
        # Ctrl+C is meant for the agent. A handler of ours is not inherited, as an ignored signal would be.
        before = signal.signal(signal.SIGINT, lambda *_: None)
        try:
            return subprocess.run(argv, executable=self.program_path, cwd=self.folder, check=False).returncode
        except OSError as error:
            raise Refused(f"Cannot start {argv[0]}: {error.strerror}.") from None
        finally:
            signal.signal(signal.SIGINT, before)

    def _require_argv(self) -> tuple[str, ...]:
        if self.obstacles or self.argv is None:
            raise Refused(" ".join(self.obstacles) or self.hint)
        return self.argv


def plan_resume(
    session: Session,
    folder: Path | None = None,
    *,
    fork: bool = False,
    flags: tuple[str, ...] = (),
    owner: str = "",
) -> ResumePlan:
    """Plan how to resume a session, or a fork of it that the agent makes.

    `folder` replaces the folder of the session. `flags` are appended to the command, for example
    `skip_permission_flags`. `owner` names the member of the team who shares the session, whose agent is elsewhere.
    """
    source = sources.load_source(session.source)
    if owner:
        hint = f"The agent of this session is on a machine of {one_line(owner)}. Fork a turn, and resume the fork here."
        return ResumePlan(session, source.label if source else one_line(session.source), None, None, hint)
    if source is None:
        hint = describe_continuation(session.channel, session.id) or _LIBRARY_HINT
        return ResumePlan(session, one_line(session.source), None, None, hint)
    # The command may contain the folder, so the source must know a replaced one.
    resume = source.resume(session._replace(cwd=str(folder)) if folder else session)
    argv = resume.fork_argv if fork else resume.argv
    run_folder = folder or (Path(resume.cwd) if resume.cwd else None)
    refusal = _find_refusal(session, source.label, argv, run_folder)
    if argv is None or refusal:
        return ResumePlan(
            session,
            source.label,
            None,
            run_folder if refusal else None,
            refusal or one_line(_hint_without_command(source, resume)),
        )
    plan = ResumePlan(
        session,
        source.label,
        (*argv, *flags),
        run_folder,
        resume.hint,
        program_path=find_program(argv[0]),
        install_command=resume.install_command,
        is_fork=fork,
        skip_permission_flags=resume.skip_permission_flags,
    )
    return replace(plan, obstacles=tuple(_find_obstacles(plan)))


def _hint_without_command(source: Source, resume: ResumeCommand) -> str:
    """Say why there is no command. If the agent can resume, then a fork was requested and it cannot fork."""
    if resume.argv is None:
        return resume.hint
    return f"{source.label} cannot fork a session. Press F in the conversation, or run `backscroll fork`."


def _find_refusal(session: Session, program: str, argv: tuple[str, ...] | None, folder: Path | None) -> str:
    """Say why a command would be unsafe: a name looks like an option or contains control characters."""
    path = str(folder or "")
    if argv and (path.startswith("-") or _UNSAFE_CHARACTERS.search(path)):
        return f"The folder name {one_line(path)!r} is unsafe in a shell. Use --cwd to choose another."
    if argv and (session.native_id.startswith("-") or any(map(_UNSAFE_CHARACTERS.search, argv))):
        return f"The session id {one_line(session.native_id)!r} is unsafe as an argument of {program}."
    return ""


def _find_obstacles(plan: ResumePlan) -> list[str]:
    program = plan.argv[0] if plan.argv else ""
    obstacles = []
    if not plan.program_path:
        advice = f"Install it with `{plan.install_command}`, or copy" if plan.install_command else "Copy"
        obstacles.append(f"{program} is not installed or not on the PATH. {advice} the command to run it elsewhere.")
    if not plan.folder_exists:
        obstacles.append(f"No such folder: {one_line(str(plan.folder))}. Use --cwd to choose another.")
    return obstacles
