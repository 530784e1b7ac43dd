"""A session's secrets as a person may see them: names, versions, ages, where they were used. Never a value."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from textual.content import Content

from store.model.knowledge import ExposedSecret, SecretName, SecretUse
from store.model.session import Session
from store.text.sanitize import one_line
from tui.render.session_lines import with_tilde
from tui.render.styles import ERROR, FAINT, MUTED, STAR, STRONG, Piece, age, content, title_of

NAME_ROOM = 32
TURNS_TOLD = 8

PROTECTIONS = {
    "none": "no secrets yet",
    "file": "sealed with the key file",
    "passphrase": "sealed with a passphrase",
    "keyring": "sealed with a key in the keyring",
}


class SecretRow(NamedTuple):
    """One that is sealed here, or one that lies open in the store its session came from."""

    name: SecretName | ExposedSecret
    uses: Sequence[SecretUse] | None = None
    "None while they are looked for."

    @property
    def key(self) -> str:
        return self.name.key

    @property
    def version(self) -> int | None:
        """None where it is not sealed here."""
        return self.name.version if isinstance(self.name, SecretName) else None


def heading(session: Session, protection: str, locked: bool, width: int) -> Content:
    state = "" if protection == "none" else " · locked" if locked else " · open"
    end = content([(PROTECTIONS[protection], MUTED), (state, ERROR if locked else MUTED)])
    start = content([("Secrets ", STRONG), (f" {one_line(title_of(session), 200)}", MUTED)])
    room = max(width - end.cell_length - 2, 8)
    start = start.truncate(room, ellipsis=True)
    return start + Content(" " * (room - start.cell_length + 2)) + end


def row_line(row: SecretRow, longest: int, now: datetime, width: int) -> Content:
    name = one_line(row.key, NAME_ROOM)
    padding = " " * max(min(longest, NAME_ROOM) - Content(name).cell_length, 0)
    pieces: list[Piece]
    if isinstance(row.name, ExposedSecret):
        where = f"{with_tilde(row.name.locator)} ({row.name.place})"
        pieces = [("! ", STAR), (name, STRONG), (padding, ""), ("  lies open in ", STAR), (one_line(where), MUTED)]
    else:
        pieces = [
            ("  ", ""),
            (name, STRONG),
            (padding, ""),
            (f"  v{row.name.version:<4}", MUTED),
            (f"{age(row.name.created_at, now):>8}", MUTED),
            ("   ", ""),
            (used(row.uses), FAINT),
        ]
    return content(pieces).truncate(width, ellipsis=True)


def used(uses: Sequence[SecretUse] | None) -> str:
    """`named in turn 3, 7, 12`."""
    if uses is None:
        return "…"
    if not uses:
        return "no tool call names it"
    turns = list(dict.fromkeys(use.turn for use in uses))
    more = f" and {len(turns) - TURNS_TOLD:,} more" if len(turns) > TURNS_TOLD else ""
    return f"named in turn {', '.join(map(str, turns[:TURNS_TOLD]))}{more}"


def detail(row: SecretRow | None, left: int) -> Content:
    """Above the value: whose it is, and how long it stays."""
    if row is None:
        return content([("No secrets yet; a adds one.", MUTED)])
    name = one_line(row.key, 60)
    if isinstance(row.name, ExposedSecret):
        told = "lies open there and is not sealed here; enter seals it"
        return content([(name, STRONG), (f"  {told}", STAR)])
    if left:
        return content([(name, STRONG), (f"  hides in {left} s", STAR)])
    tools = dict.fromkeys(one_line(use.tool, 24) for use in row.uses or ())
    by = f" · used by {', '.join(list(tools)[:4])}" if tools else ""
    return content([(name, STRONG), (f"  version {row.name.version}{by}", MUTED)])
