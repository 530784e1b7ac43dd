"""This module renders the secrets of a session: their names, versions, ages and uses, but never a value."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from textual.content import Content

from store.model.knowledge import ExposedSecret, SecretInfo, SecretUse
from store.model.session import Session
from store.text.sanitize import one_line
from tui.render.session_lines import abbreviate_home
from tui.render.styles import ERROR, FAINT, MUTED, STRONG, WARNING, StyledText, build_content, format_age, session_title

MAX_NAME_CELLS = 32
MAX_TURNS = 8

PROTECTION_LABELS = {
    "none": "no secrets yet",
    "file": "sealed with the key file",
    "passphrase": "sealed with a passphrase",
    "keyring": "sealed with a key in the keyring",
}


class SecretRow(NamedTuple):
    """Describes a sealed secret, or one that is unprotected in the store its session came from."""

    secret: SecretInfo | ExposedSecret
    uses: Sequence[SecretUse] | None = None
    "Is None while the uses are loading."

    @property
    def key(self) -> str:
        return self.secret.key

    @property
    def version(self) -> int | None:
        """The version of the secret, or None if it is not sealed here."""
        return self.secret.version if isinstance(self.secret, SecretInfo) else None


def render_secrets_heading(session: Session, protection: str, locked: bool, width: int) -> Content:
    state = "" if protection == "none" else " · locked" if locked else " · unlocked"
    end = build_content([(PROTECTION_LABELS[protection], MUTED), (state, ERROR if locked else MUTED)])
    start = build_content([("Secrets ", STRONG), (f" {one_line(session_title(session), 200)}", MUTED)])
    room = max(width - end.cell_length - 2, 8)
    start = start.truncate(room, ellipsis=True)
    return start + Content(" " * (room - start.cell_length + 2)) + end


def render_secret_row(row: SecretRow, longest: int, now: datetime, width: int) -> Content:
    name = one_line(row.key, MAX_NAME_CELLS)
    padding = " " * max(min(longest, MAX_NAME_CELLS) - Content(name).cell_length, 0)
    pieces: list[StyledText]
    if isinstance(row.secret, ExposedSecret):
        location = f"{abbreviate_home(row.secret.locator)} ({row.secret.place})"
        pieces = [
            ("! ", WARNING),
            (name, STRONG),
            (padding, ""),
            ("  unprotected in ", WARNING),
            (one_line(location), MUTED),
        ]
    else:
        pieces = [
            ("  ", ""),
            (name, STRONG),
            (padding, ""),
            (f"  v{row.secret.version:<4}", MUTED),
            (f"{format_age(row.secret.created_at, now):>8}", MUTED),
            ("   ", ""),
            (describe_uses(row.uses), FAINT),
        ]
    return build_content(pieces).truncate(width, ellipsis=True)


def describe_uses(uses: Sequence[SecretUse] | None) -> str:
    """Return the turns that use a secret, e.g. `used in turns 3, 7, 12`."""
    if uses is None:
        return "…"
    if not uses:
        return "not used in any tool call"
    turns = list(dict.fromkeys(use.turn for use in uses))
    more = f" and {len(turns) - MAX_TURNS:,} more" if len(turns) > MAX_TURNS else ""
    return f"used in turn{'s' if len(turns) > 1 else ''} {', '.join(map(str, turns[:MAX_TURNS]))}{more}"


def render_secret_detail(row: SecretRow | None, left: int) -> Content:
    """Render the line above the value: the name of the secret, and when the value will be hidden."""
    if row is None:
        return Content("")
    name = one_line(row.key, 60)
    if isinstance(row.secret, ExposedSecret):
        return build_content(
            [(name, STRONG), ("  is unprotected in its agent's store. Press Enter to seal it.", WARNING)]
        )
    if left:
        return build_content([(name, STRONG), (f"  hides in {left} s", WARNING)])
    tools = dict.fromkeys(one_line(use.tool, 24) for use in row.uses or ())
    users = f" · used by {', '.join(list(tools)[:4])}" if tools else ""
    return build_content([(name, STRONG), (f"  version {row.secret.version}{users}", MUTED)])
