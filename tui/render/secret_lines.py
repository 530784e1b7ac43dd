"""A session's secrets as a person may see them: names, versions, ages, where they were used. Never a value."""

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
    """One that is sealed here, or one that lies open in the store its session came from."""

    secret: SecretInfo | ExposedSecret
    uses: Sequence[SecretUse] | None = None
    "None while they are looked for."

    @property
    def key(self) -> str:
        return self.secret.key

    @property
    def version(self) -> int | None:
        """None where it is not sealed here."""
        return self.secret.version if isinstance(self.secret, SecretInfo) else None


def render_secrets_heading(session: Session, protection: str, locked: bool, width: int) -> Content:
    state = "" if protection == "none" else " · locked" if locked else " · open"
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
        where = f"{abbreviate_home(row.secret.locator)} ({row.secret.place})"
        pieces = [
            ("! ", WARNING),
            (name, STRONG),
            (padding, ""),
            ("  lies open in ", WARNING),
            (one_line(where), MUTED),
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
    """`named in turn 3, 7, 12`."""
    if uses is None:
        return "…"
    if not uses:
        return "no tool call names it"
    turns = list(dict.fromkeys(use.turn for use in uses))
    more = f" and {len(turns) - MAX_TURNS:,} more" if len(turns) > MAX_TURNS else ""
    return f"named in turn {', '.join(map(str, turns[:MAX_TURNS]))}{more}"


def render_secret_detail(row: SecretRow | None, left: int) -> Content:
    """Above the value: whose it is, and how long it stays."""
    if row is None:
        return build_content([("No secrets yet; a adds one.", MUTED)])
    name = one_line(row.key, 60)
    if isinstance(row.secret, ExposedSecret):
        told = "lies open there and is not sealed here; enter seals it"
        return build_content([(name, STRONG), (f"  {told}", WARNING)])
    if left:
        return build_content([(name, STRONG), (f"  hides in {left} s", WARNING)])
    tools = dict.fromkeys(one_line(use.tool, 24) for use in row.uses or ())
    by = f" · used by {', '.join(list(tools)[:4])}" if tools else ""
    return build_content([(name, STRONG), (f"  version {row.secret.version}{by}", MUTED)])
