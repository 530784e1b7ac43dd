"""Provides a PostgreSQL server and members of a team to all tests here."""

from postgres_server import postgres_server
from teams.stores import open_member, team_address

__all__ = ["open_member", "postgres_server", "team_address"]
