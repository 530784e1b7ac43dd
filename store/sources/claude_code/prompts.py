"""This module separates the text that a person typed from the text that Claude Code added in the user's name."""

from __future__ import annotations

import re

_REMINDERS = re.compile(r"\s*<system-reminder>.*?</system-reminder>\s*", re.DOTALL)
_INJECTED = re.compile(
    r"\s*(?:<(?:local-command-stdout|local-command-stderr|local-command-caveat|session-start-hook|"
    r"user-prompt-submit-hook|task-notification|tick|goal|bash-input|bash-stdout|bash-stderr|"
    r"ide_opened_file|ide_selection|ide_diagnostics|new-diagnostics)\b"
    r"|\[Request interrupted by user|Stop hook feedback:|Operation stopped by hook(?::|\s*$)|Caveat: The messages below"
    r"|This session is being continued from a previous conversation)"
)
_COMMAND_NAME = re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL)
_COMMAND_ARGUMENTS = re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL)
COMMAND_START = re.compile(r"\s*<command-(?:name|message)>")


def extract_typed_text(text: str) -> str:
    """Return the text that a person typed, without reminders. A command is returned as it was entered, and an injected
    text as an empty one."""
    if "<system-reminder>" in text:
        text = _REMINDERS.sub("", text)
    if COMMAND_START.match(text) and (name := _COMMAND_NAME.search(text)):
        arguments = _COMMAND_ARGUMENTS.search(text)
        return f"{name[1]} {arguments[1] if arguments else ''}".strip()
    return "" if _INJECTED.match(text) else text
