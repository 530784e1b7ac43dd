"""This module sets up how stdout and stderr encode text."""

from __future__ import annotations

import sys
from io import TextIOWrapper


def configure_output() -> None:
    """Write UTF-8 to files and pipes in every locale, with lone surrogates escaped; replace what a terminal lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            if stream.isatty():
                stream.reconfigure(errors="replace")
            else:
                stream.reconfigure(encoding="utf-8", errors="backslashreplace")
