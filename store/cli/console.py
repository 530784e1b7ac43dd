"""How text leaves the program, whatever the locale says."""

from __future__ import annotations

import sys
from io import TextIOWrapper


def configure_output() -> None:
    """Data is UTF-8 whatever the locale says, with half characters spelled out; a terminal shows what it can."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
