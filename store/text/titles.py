"""This module makes the title of a session from what a person wrote."""

from __future__ import annotations

PROMPT_TITLE_LENGTH = 200
"""Limits the part of the first prompt that is the title of a session without another title."""


def prompt_title(text: str) -> str:
    """Return the beginning of a prompt on one line, as a title."""
    return " ".join(text[: PROMPT_TITLE_LENGTH * 4].split())[:PROMPT_TITLE_LENGTH]
