"""This dialog shares sessions with members of the team, changes with whom, and withdraws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from store.errors import LeaksFound, NotFound
from store.model.session import Session
from store.text.tags import format_tags, split_tags
from tui.dialogs.text import SingleLineDialog
from tui.render.styles import format_count, session_title

if TYPE_CHECKING:
    from textual.screen import Screen

    from store.store import Store

EVERYBODY = "everybody"


class ShareDialog(SingleLineDialog):
    """Asks with whom sessions are shared. An empty line withdraws them."""


def build_share_dialog(store: Store, sessions: Sequence[Session]) -> ShareDialog:
    """Return the dialog for sessions. Raise an error if they cannot be shared. It reads the store, so call it in a
    thread."""
    trusted = [machine.name for machine in store.team.members() if machine.trusted_at and not machine.is_own]
    audiences = {store.team.find_audience(session.id) for session in sessions}
    audience = audiences.pop() if len(audiences) == 1 else ()
    value = ", ".join(EVERYBODY if name == "*" else format_tags([name]) for name in audience)
    members = ", ".join(dict.fromkeys(trusted)) or "nobody yet; run `backscroll team trust`"
    note = f"Names, separated with commas, or “{EVERYBODY}”. Trusted: {members}."
    if audience:
        note += "\nEmpty the line to withdraw what is shared."
    title = session_title(sessions[0]) if len(sessions) == 1 else format_count(len(sessions), "session")
    return ShareDialog(f"Share {title} with", value or EVERYBODY, lambda text: _share(store, sessions, text), note=note)


def _share(store: Store, sessions: Sequence[Session], text: str) -> None:
    names = split_tags(text)
    if not names:
        _withdraw(store, sessions)
        return
    chosen = [] if EVERYBODY in names else names
    for session in sessions:
        try:
            store.team.share(session, chosen)
        except LeaksFound as error:
            advice = f"Run `backscroll team share {session.id} --redact` to mask them in the shared copy."
            raise LeaksFound(error.leaks, advice) from None


def _withdraw(store: Store, sessions: Sequence[Session]) -> None:
    shared = [session for session in sessions if store.team.find_audience(session.id)]
    if not shared:
        raise NotFound("Type a name.")
    for session in shared:
        store.team.unshare(session)


def open_share_dialog(screen: Screen[Any], dialog: ShareDialog) -> None:
    def report(text: str | None) -> None:
        if text is None:
            return
        done = f"Shared with {text.strip()}." if text.strip() else "Withdrawn."
        screen.notify(f"{done} It is sent while the browser is open.", timeout=4, markup=False)

    screen.app.push_screen(dialog, report)
