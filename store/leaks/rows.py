"""This module deletes what is known about the leaks of a session when the session itself is deleted."""

from __future__ import annotations

import sqlite3

_FORGET_UNUSED = """
    delete from leaks where ignored = '' and rotated_at = ''
        and fingerprint not in (select fingerprint from leak_places union select fingerprint from redacted_values)
"""


def delete_leaks(connection: sqlite3.Connection, session: int) -> None:
    """Delete the places and the progress of a session, within its purge.

    Its forks take over shared entries, so they are scanned again.
    """
    connection.execute("delete from leak_places where session = ?", (session,))
    connection.execute(
        """
        delete from leak_progress where session = ?1
            or session in (select key from sessions where parent_id = (select id from sessions where key = ?1))
        """,
        (session,),
    )
    connection.execute(_FORGET_UNUSED)
