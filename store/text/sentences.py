"""This module tidies messages that are put together from several texts."""

from __future__ import annotations

import re

_DOUBLE_STOP = r"""(?<=[\w`'"”’)\]])\.(?=\.(?:\s|$))|(?<=[…!?])\.(?=\s|$)|(?<=\w[.!?…][”"])\.(?=\s|$)"""
"""Matches a full stop after a text that ends with one itself. Paths such as `../x` and three dots are no ends. It is
compiled with the first message, because most commands have none."""


def tidy_sentences(message: str) -> str:
    """Remove double full stops, which appear where a quoted title or the reason of an error ends with one itself."""
    return re.sub(_DOUBLE_STOP, "", message)
