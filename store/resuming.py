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
from store.clean import one_line
from store.errors import Refused
from store.model import Session

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")


@dataclass(frozen=True, slots=True)
class Resumption:
    """What would be run, and where. With an obstacle or without a command it cannot be, and says why."""

    session: Session
    program: str
    "The agent's name, for a person to read."
    argv: tuple[str, ...] | None
    folder: Path | None
    "Where to run it; None for wherever one is."
    hint: str
    "What a person does where there is no command."
    obstacles: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """To be typed into a shell; empty when there is none."""
        if self.argv is None:
            return ""
        inside = f"cd {shlex.quote(str(self.folder))} && " if self.folder else ""
        return inside + shlex.join(self.argv)

    def go(self) -> NoReturn:
        """This process becomes the agent: what was asked of the terminal is over, and no shell is in between."""
        if self.obstacles or self.argv is None:
            raise Refused(" ".join(self.obstacles) or self.hint)
        try:
            if self.folder:
                os.chdir(self.folder)
            os.execvp(self.argv[0], self.argv)  # noqa: S606 an argument list, never a shell
        except OSError as reason:
            raise Refused(f"{self.argv[0]} cannot be started: {reason.strerror}.") from None


def resumption(session: Session, folder: Path | None = None) -> Resumption:
    """How to continue the session; in `folder`, when that is not the one it was in."""
    source = sources.by_name(session.source)
    if source is None:
        hint = "It was kept through the library; the program that made it knows how it goes on."
        return Resumption(session, one_line(session.source), None, None, hint)
    # A command may name the folder, too: it must be the one that is meant.
    told = source.resume(session._replace(cwd=str(folder)) if folder else session)
    inside = folder or (Path(told.cwd) if told.cwd else None)
    refused = _refused(session, source.LABEL, told.argv, inside)
    if told.argv is None or refused:
        return Resumption(session, source.LABEL, None, None, refused or one_line(told.hint))
    found = Resumption(session, source.LABEL, told.argv, inside, told.hint)
    return replace(found, obstacles=tuple(_obstacles(found)))


def _refused(session: Session, program: str, argv: tuple[str, ...] | None, folder: Path | None) -> str:
    """Why there is no command: what could be taken for an option, or would act on the shell that it is pasted into."""
    if argv and folder and _CONTROLS.search(str(folder)):
        return f"The folder is called {one_line(str(folder))!r}, which no shell would take; name another with --cwd."
    if argv and (session.native_id.startswith("-") or any(map(_CONTROLS.search, argv))):
        return f"The session is called {one_line(session.native_id)!r}, which {program} would not take for a name."
    return ""


def _obstacles(wanted: Resumption) -> list[str]:
    program = wanted.argv[0] if wanted.argv else ""
    found = []
    if shutil.which(program) is None:
        found.append(f"The program {program} is not installed, or not on the PATH; copy the command and run it there.")
    if wanted.folder and not (wanted.folder.is_absolute() and wanted.folder.is_dir()):
        found.append(f"The folder {one_line(str(wanted.folder))} is not there any more; name another with --cwd.")
    return found
