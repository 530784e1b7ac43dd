"""How a session goes on in its own program: the command, its folder, and what stands in the way."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from store import sources
from store.clean import clean
from store.errors import Refused
from store.model import Session

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


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
        return Resumption(session, session.source, None, None, hint)
    told = source.resume(session)
    if told.argv is None:
        return Resumption(session, source.LABEL, None, None, told.hint)
    inside = folder or (Path(told.cwd) if told.cwd else None)
    found = Resumption(session, source.LABEL, told.argv, inside, told.hint)
    return Resumption(session, source.LABEL, told.argv, inside, told.hint, tuple(_obstacles(found)))


def _obstacles(wanted: Resumption) -> list[str]:
    argv = wanted.argv or ()
    name = wanted.session.native_id
    found = []
    if name.startswith("-") or any(map(_CONTROLS.search, argv)):
        found.append(f"The session is called {clean(name)!r}, which {wanted.program} would not take for a name.")
    elif shutil.which(argv[0]) is None:
        found.append(f"The program {argv[0]} is not installed, or not on the PATH; copy the command and run it there.")
    if wanted.folder and not wanted.folder.is_dir():
        found.append(f"The folder {clean(str(wanted.folder))} is not there any more; name another with --cwd.")
    return found
