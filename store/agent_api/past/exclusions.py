"""This module decides which sessions no agent may see: folders, agents and marked sessions, and why.

What is excluded is in no answer and no count, except for how many sessions there are.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Literal, NamedTuple

from store.config import require_setting
from store.errors import StoreError
from store.paths import config_file
from store.search.sql import Condition, any_of
from store.sources import SOURCE_NAMES
from store.text.validate import encode

if TYPE_CHECKING:
    from store.store import Store

NO_AGENTS_TAG = "no-agents"
"""Is the tag that excludes a session, with its sub-agents and forks."""

Reason = Literal["trash", "agent", "folder", "mark", "current"]

_CURRENT_SESSION_VARIABLES = (
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_SESSION_ID",
    "CODEX_THREAD_ID",
    "GEMINI_SESSION_ID",
    "QWEN_SESSION_ID",
    "COPILOT_SESSION_ID",
    "OPENCODE_SESSION_ID",
    "PI_SESSION_ID",
    "BACKSCROLL_CURRENT_SESSION",
)
"""Are the variables in which agents pass the id of their session to programs that they run."""

_WITH_DESCENDANTS = """
    with recursive family(key, id) as (
        select key, id from sessions where {0}
        union select sessions.key, sessions.id from sessions join family on sessions.parent_id = family.id
    ) select key from family
"""
_NOT_EXCLUDED = "sessions.key not in (select value from json_each(?))"
_TAGGED = Condition("key in (select session from tags where lower(name) = ?)", (NO_AGENTS_TAG,))


class Exclusions(NamedTuple):
    """Holds the sessions that an answer leaves out."""

    reasons: Mapping[int, Reason]
    "Maps the keys of the sessions to why they are left out."
    is_current_known: bool

    @property
    def condition(self) -> Condition:
        """Matches the sessions that are not left out."""
        return Condition(_NOT_EXCLUDED, (encode(list(self.reasons)).decode(),))

    @property
    def hides_answers(self) -> bool:
        """Says whether a session is left out in which an answer may be. The trash and the own session are known."""
        return any(reason not in ("trash", "current") for reason in self.reasons.values())

    def count_by_reason(self) -> dict[str, int]:
        """Count the sessions by the reason."""
        return dict(Counter(self.reasons.values()))


def find_exclusions(store: Store, current: str = "") -> Exclusions:
    """Find what agents may not see. `current` is the id of the session that asks, if it is known."""
    reasons: dict[int, Reason] = {}
    known = current or next(filter(None, map(os.environ.get, _CURRENT_SESSION_VARIABLES)), "")
    is_current_known = False
    for reason, condition in (*_list_conditions(), ("current", _match_current(known))):
        sql = _WITH_DESCENDANTS if reason != "trash" else "select key from sessions where {0}"
        for (key,) in store.rows(sql.format(condition.sql), *condition.values):
            is_current_known = is_current_known or reason == "current"
            reasons.setdefault(key, reason)
    return Exclusions(reasons, is_current_known)


def _match_current(current: str) -> Condition:
    return Condition("id = ? or native_id = ?", (current, current)) if current else Condition("0")


def _list_conditions() -> Iterator[tuple[Reason, Condition]]:
    agents, folders = _read_setting()
    yield "trash", Condition("deleted = 1")
    yield "agent", Condition("source in (select value from json_each(?))", (encode(agents).decode(),))
    if folders:
        below = (Condition("(cwd = ? or substr(cwd, 1, ?) = ?)", _below(folder)) for folder in folders)
        yield "folder", any_of(below)
    yield "mark", _TAGGED


def _below(folder: str) -> tuple[str, int, str]:
    prefix = folder.rstrip("/") + "/"
    return folder, len(prefix), prefix


def _read_setting() -> tuple[list[str], list[str]]:
    """Return the agents and the folders of `[agents] exclude`. A name that is neither is an error, not a gap."""
    agents, folders = list[str](), list[str]()
    for name in require_setting("agents.exclude", tuple):
        if name in SOURCE_NAMES:
            agents.append(name)
        elif name.startswith("~") or os.path.isabs(name):
            folders.append(os.path.normpath(os.path.expanduser(name)))
        else:
            raise StoreError(f"In {config_file()}, [agents] exclude has {name!r}, which is no agent and no full path.")
    return agents, folders
